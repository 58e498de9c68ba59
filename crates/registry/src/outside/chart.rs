//! Access type `helm`: charts of chart repositories and registries.

use std::sync::Arc;

use groundwork_component::{Blob, Chart, Outside, RepositoryError};

use super::Fetcher;
use super::permissions::{self, ContentAddress, Kind, Permission, authority};
use crate::oci::{
    Authorization, CHART, ChartClient, ChartError, Keyring, LARGEST_CHART, NetworkOptions,
    RepositoryChartError,
};
use crate::tree::malformed;

/// Chart whose place an entry permits.
struct Permitted<'a> {
    permission: &'a Permission,
    keyring: Arc<Keyring>,
    /// Address of the repository, with its query and without a slash at its end.
    base: String,
    /// Host that the entry names.
    host: String,
    address: String,
}

pub(super) fn open(fetcher: &Fetcher, chart: &Chart) -> Result<Blob, RepositoryError> {
    let permitted = permit(fetcher, chart)?;
    let client = permitted.client(fetcher);
    let bytes = if chart.is_in_registry() {
        let reference = permitted.reference(chart);
        let pulled = client.pull(&reference, &permitted.keyring, LARGEST_CHART, &fetcher.allowance);
        pulled.map_err(|error| of_chart(error, &permitted.address))?
    } else {
        let header = permitted.keyring.chart_repository_header(&permitted.base);
        let authorization = Authorization { header, roots: fetcher.roots(permitted.permission)? };
        let chart = (chart.name.as_str(), chart.version.as_str());
        let fetched = client.of_repository(&permitted.base, chart, &authorization, &fetcher.allowance);
        fetched.map_err(|error| of_repository(error, &permitted.address))?
    };
    Ok(Blob::from_bytes(CHART, bytes))
}

/// Returns the digest of the manifest of a chart in a registry; `None` for any other chart.
pub(super) fn manifest_digest(fetcher: &Fetcher, chart: &Chart) -> Result<Option<String>, RepositoryError> {
    if !chart.is_in_registry() {
        return Ok(None);
    }
    let permitted = permit(fetcher, chart)?;
    let reference = permitted.reference(chart);
    let digest =
        permitted.client(fetcher).manifest_digest(&reference, &permitted.keyring, &fetcher.allowance);
    digest.map(Some).map_err(|error| of_chart(error, &permitted.address))
}

fn permit<'a>(fetcher: &'a Fetcher, chart: &Chart) -> Result<Permitted<'a>, RepositoryError> {
    let address = Outside::Chart(chart.clone()).to_string();
    let mut url = permissions::parse(Kind::Helm, &chart.repository).map_err(|problem| {
        malformed(address.clone(), &format!("helmRepository cannot be used: {problem}"))
    })?;
    url.set_fragment(None);
    let permission = fetcher.permission(Kind::Helm, &ContentAddress::of_url(&url), &address)?;
    let (path, query) = (url.path().trim_end_matches('/'), url.query());
    let host = authority(&url);
    let query = query.map(|query| format!("?{query}")).unwrap_or_default();
    let base = format!("{}://{host}{path}{query}", url.scheme());
    Ok(Permitted { permission, keyring: fetcher.keyring(permission)?, base, host, address })
}

impl Permitted<'_> {
    fn client(&self, fetcher: &Fetcher) -> ChartClient {
        let ca = fetcher.authorities(self.permission).cloned();
        let options = NetworkOptions { ca, ..fetcher.options.clone() };
        ChartClient::reaching(options, fetcher.reach(Some(self.host.clone())))
    }

    fn reference(&self, chart: &Chart) -> String {
        let reference = format!("{}/{}:{}", self.base, chart.name, chart.version);
        if chart.manifest.is_empty() { reference } else { format!("{reference}@sha256:{}", chart.manifest) }
    }
}

fn of_chart(error: ChartError, address: &str) -> RepositoryError {
    let address = address.to_owned();
    match error {
        ChartError::Fetch(error) => error,
        ChartError::Status { status: 404, .. } => RepositoryError::Missing { address },
        ChartError::Status { status: 401 | 403, .. } => {
            RepositoryError::Denied { address, credentials: "none or not valid".to_owned() }
        }
        ChartError::Status { .. } => RepositoryError::Unreadable { address, cause: error.to_string() },
        error => malformed(address, &error.to_string()),
    }
}

fn of_repository(error: RepositoryChartError, address: &str) -> RepositoryError {
    match error {
        RepositoryChartError::Index { source, .. } | RepositoryChartError::Archive { source, .. } => {
            of_chart(source, address)
        }
        RepositoryChartError::Entry { .. } => malformed(address.to_owned(), &error.to_string()),
        RepositoryChartError::Digest { expected, found, .. } => {
            RepositoryError::Digest { address: address.to_owned(), expected, actual: found }
        }
    }
}
