//! Access to registries without an entry in a map: which hosts are allowed, how they are reached,
//! and with which credentials (`components.md` 7.1 to 7.3).

use std::collections::HashMap;
use std::fmt;
use std::io::{Error as IoError, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_component::{Repository, RepositoryContext, RepositoryError};
use groundwork_untrusted::is_public;
use ureq::config::Config;
use ureq::http::Uri;
use ureq::http::uri::Authority;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::NextTimeout;

use super::allowance::Allowance;
use super::client::{Client, Source};
use super::kept::Kept;
use super::keyring::Keyring;
use super::{OciRepository, peers::Peers};
use crate::map::Registry;
use crate::tree::malformed;

/// Largest number of cached clients. When it is reached, all clients are dropped, and created again
/// when needed.
const MOST_CLIENTS: usize = 500;
/// Hosts that are this machine, where traffic without TLS cannot be read on the way.
const THIS_MACHINE: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Options for registries that only a repository context names.
#[derive(Debug, Clone, Default)]
pub struct NetworkOptions {
    /// Hosts, with their ports if they have one, that are asked without TLS even without `http://`
    /// in the address.
    pub plain_http_hosts: Vec<String>,
    /// PEM file of certificates to trust, in place of those of the system.
    pub ca: Option<PathBuf>,
    /// True if addresses of private networks and of this machine are refused.
    pub only_public: bool,
    /// Docker configurations for all Contexts. Their credentials come before those of a Context.
    pub docker_configs: Vec<PathBuf>,
}

/// Clients of registries that only a repository context names, each for one set of credentials.
pub(crate) struct Network {
    options: NetworkOptions,
    reach: Reach,
    clients: Mutex<HashMap<(String, String), Client>>,
    kept: Kept,
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Network {
    pub(crate) fn new(options: NetworkOptions) -> Self {
        let reach = Reach::of(options.only_public);
        Self { options, reach, clients: Mutex::default(), kept: Kept::default() }
    }

    /// Replaces the addresses that registries may have.
    pub(super) fn reaching(self, reach: Reach) -> Self {
        Self { reach, ..self }
    }

    pub(crate) fn options(&self) -> &NetworkOptions {
        &self.options
    }

    /// Opens the repository of a context that names a registry.
    pub(crate) fn open(
        self: &Arc<Self>,
        context: &RepositoryContext,
        keyring: &Arc<Keyring>,
        allowance: &Allowance,
    ) -> Result<Arc<dyn Repository>, RepositoryError> {
        let base = context.text("baseUrl").ok().flatten().unwrap_or_default();
        let client = self.client(base, keyring)?.within(allowance);
        let peers = Some(Peers::new(Arc::clone(self), Arc::clone(keyring), allowance.clone()));
        Ok(Arc::new(OciRepository { client, context: context.clone(), peers }))
    }

    /// Returns a client for an address as repository contexts have it.
    pub(crate) fn client(&self, base: &str, keyring: &Arc<Keyring>) -> Result<Client, RepositoryError> {
        let url = self.with_scheme(base);
        let key = (url.clone(), keyring.identity().to_owned());
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&key) {
            return Ok(client.clone());
        }
        let registry = Registry::new(&url, None, self.options.ca.clone())
            .map_err(|problem| malformed(base.to_owned(), &problem.replacen("url", "baseUrl", 1)))?;
        let mut all = Keyring::default();
        for path in &self.options.docker_configs {
            all.extend(&Keyring::of_file(path)?);
        }
        all.extend(keyring);
        let source = Source::Keyring(Arc::new(all));
        let client = Client::with_source(&registry, source, self.reach.clone(), self.kept.beside())?;
        if clients.len() >= MOST_CLIENTS {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }

    /// Adds the scheme: http only for addresses that say so, this machine, and hosts that operators
    /// list (`components.md` 7.2).
    fn with_scheme(&self, base: &str) -> String {
        let base = base.strip_prefix("oci://").unwrap_or(base);
        if base.contains("://") {
            return base.to_owned();
        }
        let host = base.split('/').next().unwrap_or_default();
        let name =
            host.rsplit_once(':').filter(|(_, port)| !port.contains(']')).map_or(host, |(name, _)| name);
        let is_plain = THIS_MACHINE.contains(&name)
            || self.options.plain_http_hosts.iter().any(|listed| listed == host || listed == name);
        if is_plain { format!("http://{base}") } else { base.to_owned() }
    }
}

/// Addresses that a client may connect to.
#[derive(Debug, Clone, Default)]
pub(crate) enum Reach {
    #[default]
    All,
    /// Public addresses, and those of a host, with its port if it has one, that an operator names.
    Public { and: Option<String> },
}

impl Reach {
    pub(crate) fn of(only_public: bool) -> Self {
        if only_public { Self::Public { and: None } } else { Self::All }
    }
}

/// Resolver that refuses addresses that are not public. It checks when connecting, because the
/// address of a name may change between an earlier check and the connection.
#[derive(Debug)]
pub(super) struct PublicAddresses {
    inner: DefaultResolver,
    /// Host with any address.
    and: Option<String>,
}

impl PublicAddresses {
    pub(super) fn new(and: Option<String>) -> Self {
        Self { inner: DefaultResolver::default(), and }
    }
}

impl Resolver for PublicAddresses {
    fn resolve(
        &self,
        uri: &Uri,
        config: &Config,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, ureq::Error> {
        let found = self.inner.resolve(uri, config, timeout)?;
        let is_named = self.and.is_some() && self.and.as_deref() == uri.authority().map(Authority::as_str);
        if is_named || found.iter().all(|address| is_public(address.ip())) {
            return Ok(found);
        }
        let host = uri.host().unwrap_or_default();
        let text = format!("{host} has an address in a private network, which this service does not contact");
        // The client does not retry errors of this kind.
        Err(ureq::Error::Io(IoError::new(ErrorKind::InvalidInput, text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Schemes of addresses (`components.md` 7.2).
    #[test]
    fn schemes() {
        let options = NetworkOptions {
            plain_http_hosts: vec!["plain.org".into(), "p.org:80".into()],
            ..NetworkOptions::default()
        };
        let network = Network::new(options);
        for (base, expected) in [
            ("r.org/a", "r.org/a"),
            ("http://r.org/a", "http://r.org/a"),
            ("https://localhost/a", "https://localhost/a"),
            ("localhost/a", "http://localhost/a"),
            ("localhost:5000/a", "http://localhost:5000/a"),
            ("127.0.0.1:5000", "http://127.0.0.1:5000"),
            ("[::1]:5000/a", "http://[::1]:5000/a"),
            ("[::1]/a", "http://[::1]/a"),
            ("localhost.evil.org/a", "localhost.evil.org/a"),
            ("plain.org:8080/a", "http://plain.org:8080/a"),
            ("p.org:80/a", "http://p.org:80/a"),
            ("p.org:81/a", "p.org:81/a"),
        ] {
            assert_eq!(network.with_scheme(base), expected);
        }
    }
}
