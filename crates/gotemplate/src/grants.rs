//! What a host lets templates reach beside their data (sections 11 and 12.13).
//!
//! Functions that read a clock, make random values, or look at the environment or the network are always known, so that
//! templates with them in a branch not taken can be parsed. Calling one without the grant is an error.

use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

/// Tells the time of `now` and of everything that counts from it.
pub type Clock = Arc<dyn Fn() -> SystemTime + Send + Sync>;
/// Fills a buffer with random bytes fit for keys; an error text becomes that of the call. Private keys and signatures are
/// made with the randomness of their library, but only where this is granted.
pub type Randomness = Arc<dyn Fn(&mut [u8]) -> Result<(), String> + Send + Sync>;
/// Looks a variable up.
pub type Environment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;
/// Looks the addresses of a host name up.
pub type Network = Arc<dyn Fn(&str) -> Vec<String> + Send + Sync>;

/// The sources that functions may use; by default none.
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

/// A function was called whose source the host does not grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{function} needs {capability}, which is not granted here; only the program that renders the template can grant it"
)]
pub struct DeniedError {
    pub function: &'static str,
    pub capability: Capability,
}
