//! Arguments of the API for package revisions.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use groundwork_apiserver::{ApiServerError, CertificateFiles, Group, Registration};

/// Default address: a free port that only an API server on this machine reaches.
const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// Default name of the Service.
const SERVICE: &str = "groundwork-package-api";
/// Role of the package store in `k8s/components/package-store`.
const ROLE: &str = "groundwork-package-store";
/// Port of a Service in front of pods.
const SERVICE_PORT: u16 = 443;

/// Arguments of the API that serves the package store.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "API of the package store")]
pub struct ApiArguments {
    /// Address at which the API server of the cluster reaches Porch's API on the package store; on
    /// a loopback address the API server has to run on this machine
    #[arg(long, env = "GROUNDWORK_PACKAGE_API_ADDRESS", value_name = "ADDRESS", default_value_t = ADDRESS)]
    pub package_api_address: SocketAddr,

    /// DNS name by which the API server reaches that address from outside of pods, such as
    /// host.docker.internal; a Service with it is made
    #[arg(long, env = "GROUNDWORK_PACKAGE_API_HOST", value_name = "NAME")]
    pub package_api_host: Option<String>,

    /// Service that leads to that address, as NAMESPACE/NAME; without a namespace it is that of the
    /// kube context
    #[arg(long, env = "GROUNDWORK_PACKAGE_API_SERVICE", value_name = "SERVICE", default_value = SERVICE)]
    pub package_api_service: String,

    /// PEM file with the certificate for NAME.NAMESPACE.svc, read again when it changes; the
    /// APIService has to trust it. Without it the service makes one and has it trusted
    #[arg(
        long,
        env = "GROUNDWORK_PACKAGE_API_TLS_CERT",
        value_name = "FILE",
        requires = "package_api_tls_key"
    )]
    pub package_api_tls_cert: Option<PathBuf>,

    /// PEM file with the private key of that certificate
    #[arg(
        long,
        env = "GROUNDWORK_PACKAGE_API_TLS_KEY",
        value_name = "FILE",
        requires = "package_api_tls_cert"
    )]
    pub package_api_tls_key: Option<PathBuf>,
}

impl Default for ApiArguments {
    fn default() -> Self {
        Self {
            package_api_address: ADDRESS,
            package_api_host: None,
            package_api_service: SERVICE.to_owned(),
            package_api_tls_cert: None,
            package_api_tls_key: None,
        }
    }
}

/// Reason why the API for package revisions does not start.
#[derive(Debug, thiserror::Error)]
pub enum ApiStartError {
    #[error("--package-api-address: {0}")]
    Server(#[from] ApiServerError),
}

impl ApiArguments {
    pub(super) fn files(&self) -> Option<CertificateFiles> {
        let (certificate, key) = (self.package_api_tls_cert.clone()?, self.package_api_tls_key.clone()?);
        Some(CertificateFiles { certificate, key })
    }

    /// Returns the place under which the API server finds the API. `namespace` is that of the kube
    /// context.
    pub(super) fn registration(&self, group: Group, namespace: &str) -> Registration {
        let (namespace, service) = match self.package_api_service.split_once('/') {
            Some((namespace, service)) => (namespace, service),
            None => (namespace, self.package_api_service.as_str()),
        };
        let is_local = self.package_api_address.ip().is_loopback();
        let local = || is_local.then(|| "localhost".to_owned());
        let external_name = self.package_api_host.clone().or_else(local);
        let port = if external_name.is_some() { self.package_api_address.port() } else { SERVICE_PORT };
        Registration {
            group,
            service: service.to_owned(),
            namespace: namespace.to_owned(),
            port,
            external_name,
            role: Some(ROLE.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::kinds::GROUP;
    use super::*;

    #[test]
    fn places() {
        let of = |address: &str, host: Option<&str>, service: &str| {
            let arguments = ApiArguments {
                package_api_address: address.parse().unwrap(),
                package_api_host: host.map(str::to_owned),
                package_api_service: service.to_owned(),
                ..ApiArguments::default()
            };
            let found = arguments.registration(GROUP, "team");
            (found.host(), found.port, found.external_name)
        };
        let name = |name: &str| name.to_owned();
        assert_eq!(of("127.0.0.1:0", None, "api"), (name("api.team.svc"), 0, Some(name("localhost"))));
        assert_eq!(of("0.0.0.0:6444", None, "system/api"), (name("api.system.svc"), 443, None));
        assert_eq!(
            of("0.0.0.0:6444", Some("laptop.example"), "api"),
            (name("api.team.svc"), 6444, Some(name("laptop.example")))
        );
    }
}
