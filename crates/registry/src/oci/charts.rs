//! Fetches the bytes of charts from registries and HTTP addresses (`helm.md` 1). Does not look into
//! them.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use groundwork_component::{Access, Blob, RepositoryError, shown};
use groundwork_helm::{IndexError, find_in_index};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::allowance::Allowance;
use super::client::{self, Call, Client, Source};
use super::keyring::Keyring;
use super::network::{Network, Reach};
use super::{LARGEST_MANIFEST, NetworkOptions, RemoteRepository, is_tag};
use crate::artifact_set;
use crate::blobs::{self, Blobs as _};
use crate::digest::Digest;
use crate::map::Registry;
use crate::tree::malformed;

/// Media type of the archive of a chart.
pub const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
/// Size limit of the archive of a chart in bytes (`helm.md` 11).
pub const LARGEST_CHART: u64 = 20 << 20;
/// Size limit of the index of a chart repository in bytes.
const LARGEST_INDEX: u64 = 64 << 20;
/// Characters of a digest in an index that a message shows.
const LONGEST_DIGEST: usize = 100;
const OLD_CHART: &str = "application/tar+gzip";
const INDEXES: [&str; 2] =
    ["application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"];

/// Client that fetches charts.
#[derive(Debug, Clone)]
pub struct ChartClient {
    network: Arc<Network>,
    reach: Reach,
}

/// Credentials and certificates for the host of one address. Other hosts never get them.
#[derive(Clone, Default)]
pub struct Authorization {
    /// Value of the header `Authorization`.
    pub header: Option<String>,
    /// Certificates to trust, in place of those of the system; PEM.
    pub roots: Option<Vec<u8>>,
}

impl std::fmt::Debug for Authorization {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authorization").finish_non_exhaustive()
    }
}

/// Reason that a chart cannot be fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChartError {
    #[error("no tag specified in reference {0}")]
    NoTag(String),
    #[error("{0} is not a reference of an artifact; write one such as registry.example.org/charts/web:1.0.0")]
    NoReference(String),
    /// The address is not valid, so no server is asked and a retry cannot help.
    #[error("{address}: {problem}")]
    NoAddress { address: String, problem: String },
    #[error("artifact is no image manifest: {0}")]
    NoImage(String),
    #[error("no matching layer found: {CHART}")]
    NoLayer,
    #[error("multiple matching layers found: {CHART}")]
    ManyLayers,
    /// The server answers with another status than 200.
    #[error("{url}: {status}")]
    Status { url: String, status: u16 },
    #[error("{0}")]
    Fetch(#[from] RepositoryError),
}

/// Reason that a chart of a chart repository cannot be fetched.
#[derive(Debug, thiserror::Error)]
pub enum RepositoryChartError {
    #[error("cannot download repository index for {path:?}: failed to fetch {path}/index.yaml : {source}")]
    Index { path: String, source: ChartError },
    /// The index is broken, or does not have the chart.
    #[error("cannot use the repository index {path}/index.yaml: {source}")]
    Entry { path: String, source: IndexError },
    #[error("failed to download chart {name} from helm repository: {source}")]
    Archive { name: String, source: ChartError },
    #[error(
        "the chart {name} at {path} has the digest {found}, but the index of its repository has {expected}"
    )]
    Digest { name: String, path: String, expected: String, found: String },
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

impl Manifest {
    /// Returns the digest of the only layer that is a chart.
    fn chart_layer(&self, address: &str) -> Result<Digest, ChartError> {
        let of = |wanted: &str| -> Vec<&Layer> {
            self.layers.iter().filter(|layer| layer.media_type == wanted).collect()
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
        let problem = "the digest of its chart layer is not a sha256 digest";
        Digest::parse(&layer.digest).ok_or_else(|| malformed(address.to_owned(), problem).into())
    }
}

/// Returns the chart in the content of a component's resource (`helm.md` 1.1), at most `limit`
/// bytes. An artifact as an archive has the chart in a layer; other content is the chart itself.
/// `address` is its name in messages.
///
/// # Errors
///
/// The artifact has no chart, or does not match its digests.
pub fn chart_of_content(
    content: Vec<u8>,
    is_artifact: bool,
    address: &str,
    limit: u64,
) -> Result<Vec<u8>, ChartError> {
    if !is_artifact {
        return Ok(content);
    }
    let part = |digest: &Digest, limit: u64| {
        let found = artifact_set::part(&content, digest, limit, address)?;
        found.ok_or_else(|| RepositoryError::Missing { address: format!("{digest} of {address}") })
    };
    let main = artifact_set::main_digest(Blob::from_bytes("", content.clone()), address)?;
    let main = Digest::parse(&format!("sha256:{main}"))
        .ok_or_else(|| malformed(address.to_owned(), "its manifest has no sha256 digest"))?;
    let manifest: Manifest = blobs::decode(address, &part(&main, LARGEST_MANIFEST)?)?;
    if INDEXES.contains(&manifest.media_type.as_str()) {
        return Err(ChartError::NoImage(address.to_owned()));
    }
    Ok(part(&manifest.chart_layer(address)?, limit)?)
}

/// Reports whether the content of a resource is an artifact as an archive, by its access and media
/// type.
pub fn is_packed_artifact(access: &Access, media_type: &str) -> bool {
    access.is_artifact() || artifact_set::is_packed(media_type)
}

impl ChartClient {
    pub fn new(options: NetworkOptions) -> Self {
        let reach = Reach::of(options.only_public);
        Self::reaching(options, reach)
    }

    /// Creates a client for these addresses, regardless of the options.
    pub(crate) fn reaching(options: NetworkOptions, reach: Reach) -> Self {
        Self { network: Arc::new(Network::new(options).reaching(reach.clone())), reach }
    }

    /// Fetches the chart layer of an artifact, at most `limit` bytes. Blocks on the network within
    /// the allowance.
    ///
    /// # Errors
    ///
    /// The artifact does not exist, has no chart, or cannot be fetched.
    pub fn pull(
        &self,
        reference: &str,
        keyring: &Arc<Keyring>,
        limit: u64,
        allowance: &Allowance,
    ) -> Result<Vec<u8>, ChartError> {
        let (host, path) = host_and_path(reference)?;
        let client = self.network.client(host, keyring)?.within(allowance);
        let (place, digest) = find(&client, path, reference)?;
        let address = place.address(&digest);
        let bytes = blobs::manifest_bytes(&place, &digest)?;
        let manifest: Manifest = blobs::decode(&address, &bytes)?;
        if INDEXES.contains(&manifest.media_type.as_str()) {
            return Err(ChartError::NoImage(address));
        }
        let digest = manifest.chart_layer(&address)?;
        let address = place.address(&digest);
        let opened = blobs::blob(&place, &digest, limit)?;
        Ok(place.read(opened, &format!("the chart {address}"), limit)?)
    }

    /// Returns the SHA-256, in hex, of the manifest of a chart in a registry.
    ///
    /// # Errors
    ///
    /// As [`Self::pull`].
    pub(crate) fn manifest_digest(
        &self,
        reference: &str,
        keyring: &Arc<Keyring>,
        allowance: &Allowance,
    ) -> Result<String, ChartError> {
        let (host, path) = host_and_path(reference)?;
        let client = self.network.client(host, keyring)?.within(allowance);
        let (_, digest) = find(&client, path, reference)?;
        Ok(digest.hex().to_owned())
    }

    /// Fetches the chart that the index of a chart repository names (`helm.md` 1.2). `base` is the
    /// result of [`repository_url`]. Blocks on the network within the allowance.
    ///
    /// # Errors
    ///
    /// See [`RepositoryChartError`].
    pub fn of_repository(
        &self,
        base: &str,
        (name, version): (&str, &str),
        authorization: &Authorization,
        allowance: &Allowance,
    ) -> Result<Vec<u8>, RepositoryChartError> {
        let (path, query) = base.split_once('?').map_or((base, ""), |(path, query)| (path, query));
        let with_query = |url: String| if query.is_empty() { url } else { format!("{url}?{query}") };
        let path = path.trim_end_matches('/');
        let index = with_query(format!("{path}/index.yaml"));
        let index = self.get(&index, authorization, LARGEST_INDEX, allowance);
        let index = index.map_err(|source| RepositoryChartError::Index { path: path.to_owned(), source })?;
        let entry = find_in_index(&index, name, version);
        // Release the index before the archive is fetched: it may take 64 MiB of the memory for
        // answers.
        allowance.give_back(index);
        let entry = entry.map_err(|source| RepositoryChartError::Entry { path: path.to_owned(), source })?;
        let is_absolute = entry.url.contains("://");
        let url = if is_absolute {
            entry.url
        } else {
            with_query(format!("{path}/{}", entry.url.trim_start_matches('/')))
        };
        // An index may lead to another host, which must not see the credentials of this one.
        let is_own = origin(&url) == origin(base);
        let none = Authorization::default();
        let archive = self.get(&url, if is_own { authorization } else { &none }, LARGEST_CHART, allowance);
        let archive =
            archive.map_err(|source| RepositoryChartError::Archive { name: name.to_owned(), source })?;
        let found = HEXLOWER.encode(&Sha256::digest(&archive));
        match entry.digest {
            Some(expected) if !expected.trim_start_matches("sha256:").eq_ignore_ascii_case(&found) => {
                let expected = expected.chars().take(LONGEST_DIGEST).collect();
                let (name, path) = (name.to_owned(), path.to_owned());
                Err(RepositoryChartError::Digest { name, path, expected, found })
            }
            _ => Ok(archive),
        }
    }

    /// Fetches the content of an address, at most `limit` bytes. Blocks on the network within the
    /// allowance.
    ///
    /// # Errors
    ///
    /// [`ChartError::NoAddress`] for an address that is not valid, or the server does not answer
    /// with the content.
    pub fn get(
        &self,
        url: &str,
        authorization: &Authorization,
        limit: u64,
        allowance: &Allowance,
    ) -> Result<Vec<u8>, ChartError> {
        let (scheme, authority) = address_parts(url)?;
        let registry = Registry::new(&format!("{scheme}://{authority}"), None, None)
            .map_err(|problem| no_address(url, problem))?;
        let roots = match &authorization.roots {
            Some(pem) => client::roots_of(pem, "the certificates for the chart repository")?,
            None => client::system_roots(),
        };
        let client = Client::with_roots(&registry, Source::None, roots, self.reach.clone()).within(allowance);
        let address = without_query(url);
        let call = Call::get(url, &[("accept", "*/*")]);
        let response = client.follow(call, authorization.header.as_deref(), &address)?;
        let status = response.status().as_u16();
        if !(200..300).contains(&status) {
            return Err(ChartError::Status { url: address, status });
        }
        Ok(client.read(response, &address, limit)?)
    }
}

/// Returns scheme and host of an address from which charts can be fetched.
fn address_parts(url: &str) -> Result<(String, String), ChartError> {
    let wrong = |problem: &str| Err(no_address(url, problem));
    let Some((scheme, authority)) = client::origin(url) else {
        return wrong("not a URL; write an address such as https://charts.example.org/web-1.0.0.tgz");
    };
    if scheme != "https" && scheme != "http" {
        return wrong(&format!(
            "charts are not fetched by {scheme}: the address must begin with https:// or http://"
        ));
    }
    if authority.contains('@') {
        return wrong(
            "credentials are not allowed in an address: put them into the Context (helmChartRepoCredentials)",
        );
    }
    let port = authority.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.contains(']'));
    if port.is_some_and(|port| port.parse::<u16>().is_err()) {
        return wrong("its port is not a number from 0 to 65535");
    }
    Ok((scheme, authority))
}

fn no_address(url: &str, problem: &str) -> ChartError {
    ChartError::NoAddress { address: shown(url), problem: problem.to_owned() }
}

/// Splits the reference of an artifact after its host.
fn host_and_path(reference: &str) -> Result<(&str, &str), ChartError> {
    let no_reference = || ChartError::NoReference(shown(reference));
    let plain = reference.strip_prefix("oci://").unwrap_or(reference);
    let (host, path) = plain.split_once('/').ok_or_else(no_reference)?;
    // Map the error, because the message of the client would be about a repository context.
    Registry::new(host, None, None).map_err(|_| no_reference())?;
    Ok((host, path))
}

/// Finds an artifact, and the digest of its manifest. `path` is the part of `reference` after its
/// host.
fn find<'a>(
    client: &'a Client,
    path: &str,
    reference: &str,
) -> Result<(RemoteRepository<'a>, Digest), ChartError> {
    let no_reference = || ChartError::NoReference(shown(reference));
    let (path, digest) = path.split_once('@').map_or((path, None), |(path, digest)| (path, Some(digest)));
    let (path, tag) = path.rsplit_once(':').ok_or_else(|| ChartError::NoTag(shown(reference)))?;
    let mut place = RemoteRepository::new(client, path.to_owned()).map_err(|_| no_reference())?;
    let digest = match digest {
        Some(text) => Digest::parse(text).ok_or_else(no_reference)?,
        None if !is_tag(&tag.replace('+', "_")) => return Err(no_reference()),
        // A version may have characters that a tag may not.
        None => place
            .find(&tag.replace('+', "_"))?
            .ok_or_else(|| RepositoryError::Missing { address: format!("{}/{path}:{tag}", client.host()) })?,
    };
    Ok((place, digest))
}

/// Returns the address of a chart repository trimmed, without a slash at its end, and with a
/// scheme.
pub fn repository_url(url: &str) -> String {
    let url = url.trim();
    let url = url.strip_suffix('/').unwrap_or(url);
    if url.contains("://") { url.to_owned() } else { format!("https://{url}") }
}

/// Returns scheme and host of an address, as it is written.
fn origin(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    Some(&url[..url.len() - rest.len() + end])
}

/// Removes the query, which may have a token.
fn without_query(url: &str) -> String {
    url.split('?').next().unwrap_or(url).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::write::pack;

    const LIMIT: u64 = 1000;

    fn artifact(layers: &[&str], content: &[u8]) -> Vec<u8> {
        let chart = b"the chart";
        let layers: Vec<_> = layers
            .iter()
            .map(|media_type| json!({"mediaType": media_type, "digest": Digest::of(chart).to_string()}))
            .collect();
        let manifest = json!({"layers": layers}).to_string();
        let main = Digest::of(manifest.as_bytes());
        let index = json!({"manifests": [{"digest": main.to_string()}]}).to_string();
        let (first, second) =
            (format!("blobs/{}", main.file_name()), format!("blobs/{}", Digest::of(chart).file_name()));
        pack([("index.json", index.as_bytes()), (&first, manifest.as_bytes()), (&second, content)])
    }

    /// This test has no network, so a request to a server would fail it.
    #[test]
    fn addresses_that_can_never_lead_to_a_chart() {
        let client = ChartClient::new(NetworkOptions::default());
        let none = Authorization::default();
        for (url, words) in [
            ("", "not a URL"),
            ("web-1.0.0.tgz", "not a URL"),
            ("//charts.example.org/web.tgz", "not a URL"),
            ("file:///etc/passwd", "not a URL"),
            ("file://localhost/etc/passwd", "not fetched by file"),
            ("gopher://charts.example.org/web.tgz", "not fetched by gopher"),
            ("ftp://charts.example.org/web.tgz", "not fetched by ftp"),
            ("https://me:canary@charts.example.org/web.tgz", "credentials are not allowed in an address"),
            ("https://canary@charts.example.org/web.tgz", "credentials are not allowed in an address"),
            ("https:///web.tgz", "not a URL"),
            ("https://ch%ffarts.example.org/web.tgz", "not a URL"),
            ("https://ch\u{e4}rts.example.org/web.tgz", "not a URL"),
            ("https://charts.example.org:port/web.tgz", "its port is not a number"),
            ("https://ch~arts!.example.org/web.tgz", "must be a host"),
        ] {
            let error = client.get(url, &none, LIMIT, &Allowance::default()).unwrap_err();
            let is_final = matches!(error, ChartError::NoAddress { .. });
            let text = error.to_string();
            assert!(is_final && text.contains(words) && !text.contains("canary"), "{url}: {text}");
        }
        let keyring = Arc::new(Keyring::default());
        for reference in [
            "charts.example.org/web:a b",
            "charts.example.org/UPPER/web:1",
            "charts.example.org/../web:1",
            "me:canary@charts.example.org/web:1",
            "ch%ffarts.example.org/web:1",
            "ch\u{e4}rts.example.org/web:1",
            "/web:1",
            "oci:///web:1",
            "charts.example.org/web:1@sha256:zz",
        ] {
            let pulled = client.pull(reference, &keyring, LIMIT, &Allowance::default());
            let error = pulled.unwrap_err();
            let is_quiet = !error.to_string().contains("canary");
            assert!(matches!(error, ChartError::NoReference(_)) && is_quiet, "{reference}: {error}");
        }
    }

    #[test]
    fn addresses_of_repositories() {
        assert_eq!(repository_url(" a.org/charts/ "), "https://a.org/charts");
        assert_eq!(origin("https://a:1/x?y"), Some("https://a:1"));
        assert_eq!(origin("https://a"), Some("https://a"));
    }

    /// `helm.md` 1.1, for artifacts that come as an archive.
    #[test]
    fn charts_in_artifacts() {
        let chart = |content: Vec<u8>| chart_of_content(content, true, "it", LIMIT);
        let whole = b"the chart";
        assert_eq!(chart(artifact(&["other", CHART], whole)), Ok(whole.to_vec()));
        assert_eq!(chart(artifact(&[OLD_CHART], whole)), Ok(whole.to_vec()));
        assert_eq!(chart(artifact(&["other"], whole)), Err(ChartError::NoLayer));
        assert_eq!(chart(artifact(&[CHART, CHART], whole)), Err(ChartError::ManyLayers));
        assert!(matches!(
            chart(artifact(&[CHART], b"another")),
            Err(ChartError::Fetch(RepositoryError::Digest { .. }))
        ));
        assert!(matches!(
            chart(artifact(&[CHART], &[0; 1001])),
            Err(ChartError::Fetch(RepositoryError::TooLarge { limit: LIMIT, .. }))
        ));
        assert!(chart(b"no archive".to_vec()).is_err() && chart(pack([])).is_err());
        assert_eq!(chart_of_content(whole.to_vec(), false, "it", LIMIT), Ok(whole.to_vec()));
    }
}
