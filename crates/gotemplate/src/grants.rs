//! Sources that a host lets templates reach beside their data: clock, randomness, environment,
//! network (`gotemplate.md` 11 and 12.13).
//!
//! Functions that use such a source are always known, so that templates with them in a branch that
//! is not taken can be parsed. Calling one without the grant is an error.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Clock of `now` and of everything that counts from it.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;
/// Fills a buffer with random bytes fit for keys. The text of an error becomes the error of the
/// call. The cryptographic library draws its own randomness for private keys and signatures, but
/// only if this source is granted.
pub type Randomness = Arc<dyn Fn(&mut [u8]) -> Result<(), String> + Send + Sync>;
/// Looks up an environment variable.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;
/// Looks up the addresses of a host name.
pub type Network = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// The sources that functions may use. The default grants none.
#[derive(Clone, Default)]
pub struct Grants {
    pub clock: Option<Clock>,
    pub randomness: Option<Randomness>,
    pub environment: Option<Environment>,
    pub network: Option<Network>,
}

impl fmt::Debug for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grants")
            .field("clock", &self.clock.is_some())
            .field("randomness", &self.randomness.is_some())
            .field("environment", &self.environment.is_some())
            .field("network", &self.network.is_some())
            .finish()
    }
}

/// A source that a function needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    Clock,
    Randomness,
    Environment,
    Network,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Capability::Clock => "the clock",
            Capability::Randomness => "randomness",
            Capability::Environment => "the environment",
            Capability::Network => "the network",
        })
    }
}

/// A function was called that needs a source which the host does not grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{function} needs {capability}, which is not granted here; only the program that renders the template can grant it"
)]
pub struct DeniedError {
    pub function: &'static str,
    pub capability: Capability,
}
