//! Reads contents of component versions from another registry than that of the component.

use std::sync::Arc;

use groundwork_component::RepositoryError;

use super::allowance::Allowance;
use super::client::Client;
use super::keyring::Keyring;
use super::network::Network;

/// Credentials and allowance, for clients of other hosts.
#[derive(Debug, Clone)]
pub(crate) struct Peers {
    network: Arc<Network>,
    keyring: Arc<Keyring>,
    allowance: Allowance,
}

impl Peers {
    pub(super) fn new(network: Arc<Network>, keyring: Arc<Keyring>, allowance: Allowance) -> Self {
        Self { network, keyring, allowance }
    }

    /// Returns a client of another host.
    pub(super) fn client(&self, host: &str) -> Result<Client, RepositoryError> {
        Ok(self.network.client(host, &self.keyring)?.within(&self.allowance))
    }
}
