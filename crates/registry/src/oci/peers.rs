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
