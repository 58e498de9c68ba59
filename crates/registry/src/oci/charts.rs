//! Charts that lie in registries, or behind an address (`helm.md` 1): their bytes, and nothing of what they are.

use std::sync::Arc;

use groundwork_component::RepositoryError;
use serde::Deserialize;

use super::client::{self, Call, Client, Source};
use super::keyring::Keyring;
use super::network::Network;
use super::{NetworkOptions, Place};
use crate::blobs::{self, Blobs as _};
use crate::digest::Digest;
use crate::map::Registry;

const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const OLD_CHART: &str = "application/tar+gzip";
const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];

/// Fetches charts.
#[derive(Debug, Clone)]
pub struct ChartClient {
    network: Arc<Network>,
    only_public: bool,
}

/// What is sent to the host of an address, and to no other.
#[derive(Clone, Default)]
pub struct Authorization {
    /// The header `Authorization`.
    pub header: Option<String>,
    /// Certificates to trust, in place of those of the system; PEM.
    pub roots: Option<Vec<u8>>,
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorization").finish_non_exhaustive()
    }
}

/// Why there is no chart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChartError {
    #[error("no tag specified in reference {0}")]
    NoTag(String),
    #[error("{0} is no reference of an artifact, such as registry.example.org/charts/web:1.0.0")]
    NoReference(String),
    #[error("artifact is no image manifest: {0}")]
    NoImage(String),
    #[error("no matching layer found: {CHART}")]
    NoLayer,
    #[error("multiple matching layers found: {CHART}")]
    ManyLayers,
    /// The server answers, but not with what was asked for.
    #[error("{url}: {status}")]
    Status { url: String, status: u16 },
    #[error("{0}")]
    Fetch(#[from] RepositoryError),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Manifest {
    #[serde(default)]
    media_type: String,
    #[serde(default)]
    layers: Vec<Layer>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Layer {
    media_type: String,
    digest: String,
}

impl ChartClient {
    pub fn new(options: NetworkOptions) -> Self {
        Self { only_public: options.only_public, network: Arc::new(Network::new(options)) }
    }

    /// The chart layer of an artifact, at most `limit` bytes. It waits for the network.
    ///
    /// # Errors
    ///
    /// There is none, or it cannot be had.
    pub fn pull(&self, reference: &str, keyring: &Arc<Keyring>, limit: u64) -> Result<Vec<u8>, ChartError> {
        let plain = reference.strip_prefix("oci://").unwrap_or(reference);
        let no_reference = || ChartError::NoReference(reference.to_owned());
        let (host, path) = plain.split_once('/').ok_or_else(no_reference)?;
        let (path, digest) = path.split_once('@').map_or((path, None), |(path, digest)| (path, Some(digest)));
        let (path, tag) = path.rsplit_once(':').ok_or_else(|| ChartError::NoTag(reference.to_owned()))?;
        let client = self.network.client(host, keyring)?;
        let mut place = Place::new(&client, path.to_owned())?;
        let digest = match digest {
            Some(text) => Digest::parse(text).ok_or_else(no_reference)?,
            // What a version may hold, a tag may not.
            None => place
                .find(&tag.replace('+', "_"))?
                .ok_or_else(|| RepositoryError::Missing { address: format!("{host}/{path}:{tag}") })?,
        };
        let address = place.address(&digest);
        let bytes = blobs::manifest_bytes(&place, &digest)?;
        let manifest: Manifest = blobs::decode(&address, &bytes)?;
        if INDEXES.contains(&manifest.media_type.as_str()) {
            return Err(ChartError::NoImage(address));
        }
        let of = |wanted: &str| -> Vec<&Layer> {
            manifest.layers.iter().filter(|layer| layer.media_type == wanted).collect()
        };
        let mut layers = of(CHART);
        if layers.is_empty() {
            layers = of(OLD_CHART);
        }
        let layer = match layers.as_slice() {
            [] => return Err(ChartError::NoLayer),
            [layer] => layer,
            _ => return Err(ChartError::ManyLayers),
        };
        let digest = Digest::parse(&layer.digest).ok_or_else(no_reference)?;
        let address = place.address(&digest);
        Ok(blobs::blob(&place, &digest, limit)?.read_all(&address, limit)?)
    }

    /// What is behind an address, at most `limit` bytes. It waits for the network.
    ///
    /// # Errors
    ///
    /// The address is none, or the server does not answer with it.
    pub fn get(&self, url: &str, authorization: &Authorization, limit: u64) -> Result<Vec<u8>, ChartError> {
        let problem = |problem: &str| {
            let (address, problem) = (without_query(url), problem.to_owned());
            ChartError::Fetch(RepositoryError::Malformed { address, problem })
        };
        let (scheme, authority) = client::origin(url).ok_or_else(|| problem("it is no address"))?;
        if authority.contains('@') {
            return Err(problem("credentials do not belong into an address"));
        }
        let registry = Registry::new(&format!("{scheme}://{authority}"), None, None).map_err(problem)?;
        let roots = match &authorization.roots {
            Some(pem) => client::roots_of(pem, "the certificates for the chart repository")?,
            None => client::system_roots(),
        };
        let client = Client::with_roots(&registry, Source::None, roots, self.only_public);
        let address = without_query(url);
        let call = Call::get(url, &[("accept", "*/*")]);
        let response = client.follow(call, authorization.header.as_deref(), &address)?;
        let status = response.status().as_u16();
        if !(200..300).contains(&status) {
            return Err(ChartError::Status { url: address, status });
        }
        Ok(client::blob(response).read_all(&address, limit)?)
    }
}

/// A query may hold a token.
fn without_query(url: &str) -> String {
    url.split('?').next().unwrap_or(url).to_owned()
}
