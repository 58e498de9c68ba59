//! The API server of the cluster as the front proxy: its client certificate, and the headers in
//! which it names users.

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_grpc::User;
use groundwork_telemetry::innermost_cause;
use http::HeaderMap;
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// ConfigMap in which an API server tells aggregated servers how to recognize it.
const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Settings of the front proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FrontProxy {
    authorities: Vec<CertificateDer<'static>>,
    /// Common names of client certificates; empty if all are allowed.
    allowed: Vec<String>,
    user_headers: Vec<String>,
    uid_headers: Vec<String>,
    group_headers: Vec<String>,
    extra_prefixes: Vec<String>,
}

impl FrontProxy {
    /// Reads the settings from the cluster.
    ///
    /// # Errors
    ///
    /// The text for operators.
    pub(crate) async fn read(client: &Client) -> Result<Self, String> {
        let found = Api::<ConfigMap>::namespaced(client.clone(), NAMESPACE).get_opt(NAME).await;
        let found = found.map_err(|error| {
            format!("cannot read the ConfigMap {NAMESPACE}/{NAME}: {}", innermost_cause(&error))
        })?;
        Self::of(&found.and_then(|found| found.data).unwrap_or_default())
    }

    fn of(data: &BTreeMap<String, String>) -> Result<Self, String> {
        let authorities = data.get("requestheader-client-ca-file").ok_or_else(|| {
            format!(
                "the ConfigMap {NAMESPACE}/{NAME} has no requestheader-client-ca-file: this API server does not pass requests on to \
                 others; start it with --requestheader-client-ca-file and the flags beside it"
            )
        })?;
        let authorities: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(authorities.as_bytes()).collect();
        let authorities = authorities.map_err(|error| {
            format!(
                "requestheader-client-ca-file in the ConfigMap {NAMESPACE}/{NAME} cannot be read: {error}"
            )
        })?;
        let list = |key: &str| -> Vec<String> {
            let text = data.get(key).map(String::as_str).unwrap_or_default();
            serde_json::from_str(text).unwrap_or_default()
        };
        Ok(Self {
            authorities,
            allowed: list("requestheader-allowed-names"),
            user_headers: list("requestheader-username-headers"),
            uid_headers: list("requestheader-uid-headers"),
            group_headers: list("requestheader-group-headers"),
            extra_prefixes: list("requestheader-extra-headers-prefix"),
        })
    }

    /// Returns a verifier of client certificates. Clients without one are let in; they get no
    /// answer but about the health of the server.
    pub(crate) fn verifier(&self) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let mut roots = RootCertStore::empty();
        for authority in &self.authorities {
            roots.add(authority.clone()).map_err(|error| error.to_string())?;
        }
        let verifier = WebPkiClientVerifier::builder(Arc::new(roots)).allow_unauthenticated().build();
        verifier.map(|verifier| verifier as Arc<dyn ClientCertVerifier>).map_err(|error| error.to_string())
    }

    /// Reports whether a verified certificate is that of the front proxy.
    pub(crate) fn is_proxy(&self, certificate: &CertificateDer<'_>) -> bool {
        if self.allowed.is_empty() {
            return true;
        }
        let Ok((_, certificate)) = X509Certificate::from_der(certificate) else { return false };
        let mut names = certificate.subject().iter_common_name();
        names.any(|name| name.as_str().is_ok_and(|name| self.allowed.iter().any(|allowed| allowed == name)))
    }

    /// Returns the user that the front proxy names; `None` if it names none.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Option<User> {
        let values = |names: &[String]| -> Vec<String> {
            let all = names.iter().flat_map(|name| headers.get_all(name.as_str()));
            all.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
        };
        let mut extra = BTreeMap::<String, Vec<String>>::new();
        for (name, value) in headers {
            let of = |prefix: &String| {
                let name = name.as_str();
                let begin = name.get(..prefix.len())?;
                begin.eq_ignore_ascii_case(prefix).then(|| name[prefix.len()..].to_owned())
            };
            if let (Some(key), Ok(value)) = (self.extra_prefixes.iter().find_map(of), value.to_str()) {
                extra.entry(unescaped(&key)).or_default().push(value.to_owned());
            }
        }
        let username = values(&self.user_headers).into_iter().find(|name| !name.is_empty())?;
        Some(User::of(UserInfo {
            username: Some(username),
            uid: values(&self.uid_headers).into_iter().next(),
            groups: Some(values(&self.group_headers)),
            extra: (!extra.is_empty()).then_some(extra),
        }))
    }
}

/// Returns the key of an extra header, whose special characters are percent-encoded.
fn unescaped(key: &str) -> String {
    let mut pairs = form_urlencoded::parse(key.as_bytes());
    pairs.next().map_or_else(|| key.to_owned(), |(key, _)| key.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proxy(allowed: &str) -> FrontProxy {
        let made = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap();
        let entries = [
            ("requestheader-client-ca-file", made.cert.pem()),
            ("requestheader-allowed-names", allowed.to_owned()),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#.to_owned()),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#.to_owned()),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#.to_owned()),
        ];
        FrontProxy::of(&entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()).unwrap()
    }

    #[test]
    fn users_of_headers() {
        let mut headers = HeaderMap::new();
        assert!(proxy("[]").user(&headers).is_none());
        for (name, value) in [
            ("x-remote-user", "anna"),
            ("x-remote-group", "editors"),
            ("x-remote-group", "system:authenticated"),
            ("x-remote-extra-example.org%2fscope", "a"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        let user = proxy("[]").user(&headers).unwrap();
        assert_eq!(user.name, "anna");
        assert_eq!(user.info().groups.as_ref().unwrap().len(), 2);
        assert_eq!(user.info().extra.as_ref().unwrap()["example.org/scope"], ["a"]);
    }

    #[test]
    fn names_of_certificates() {
        let mut parameters = rcgen::CertificateParams::new(Vec::new()).unwrap();
        parameters.distinguished_name.push(rcgen::DnType::CommonName, "aggregator");
        let certificate = parameters.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap();
        for (allowed, expected) in [("[]", true), (r#"["aggregator"]"#, true), (r#"["other"]"#, false)] {
            assert_eq!(proxy(allowed).is_proxy(certificate.der()), expected, "{allowed}");
        }
    }

    #[test]
    fn a_cluster_without_aggregation() {
        let refused = FrontProxy::of(&BTreeMap::new()).unwrap_err();
        assert!(refused.contains("--requestheader-client-ca-file"), "{refused}");
    }
}
