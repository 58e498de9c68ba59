//! Contents of component versions that lie in another registry than the component.

use std::sync::Arc;

use groundwork_component::RepositoryError;

use super::client::Client;
use super::keyring::Keyring;
use super::network::Network;

/// The same credentials, for other hosts.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    network: Arc<Network>,
    keyring: Arc<Keyring>,
}

impl Peers {
    pub(super) fn new(network: Arc<Network>, keyring: Arc<Keyring>) -> Self {
        Self { network, keyring }
    }

    /// A client of another host.
    pub(super) fn client(&self, host: &str) -> Result<Arc<Client>, RepositoryError> {
        self.network.client(host, &self.keyring)
    }
}

/// The parts of an image reference (`components.md` 6.9): `[scheme://]host[:port]/repo[:tag][@digest]`, where a name without a host is one of
/// Docker Hub. Gives the host, with a scheme if one is written, and the rest.
pub(crate) fn split_reference(reference: &str) -> (String, String) {
    let (scheme, rest) = match reference.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), reference),
    };
    let first = rest.split_once('/');
    let is_host = |first: &str| first.contains(['.', ':']) || first == "localhost";
    match first {
        Some((host, rest)) if is_host(host) && host != "docker.io" && host != "index.docker.io" => {
            (format!("{scheme}{host}"), rest.to_owned())
        }
        _ => {
            let name = rest
                .strip_prefix("docker.io/")
                .or_else(|| rest.strip_prefix("index.docker.io/"))
                .unwrap_or(rest);
            let library = if name.contains('/') { "" } else { "library/" };
            ("registry-1.docker.io".to_owned(), format!("{library}{name}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `components.md` 6.9.
    #[test]
    fn references() {
        for (reference, host, rest) in [
            ("r.org/a/b:1", "r.org", "a/b:1"),
            ("http://r.org:5000/a@sha256:0", "http://r.org:5000", "a@sha256:0"),
            ("localhost/a", "localhost", "a"),
            ("r:5000/a", "r:5000", "a"),
            ("alpine:3", "registry-1.docker.io", "library/alpine:3"),
            ("a/b", "registry-1.docker.io", "a/b"),
            ("docker.io/alpine", "registry-1.docker.io", "library/alpine"),
            ("index.docker.io/a/b:1", "registry-1.docker.io", "a/b:1"),
        ] {
            assert_eq!(split_reference(reference), (host.to_owned(), rest.to_owned()), "{reference}");
        }
    }
}
