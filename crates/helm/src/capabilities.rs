//! The cluster as charts see it (`helm.md` 6.3).

use serde::{Deserialize, Serialize};

/// The version of Kubernetes that charts see without a cluster.
const DEFAULT_VERSION: &str = "v1.34.0";
pub(crate) const HELM_VERSION: &str = "v3.19";
pub(crate) const GO_VERSION: &str = "go1.25.5";

/// API groups and their versions that charts see without a cluster, in addition to `v1`.
const OFFLINE: &[(&str, &[&str])] = &[
    ("admissionregistration.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("apiextensions.k8s.io", &["v1", "v1beta1"]),
    ("apps", &["v1", "v1beta1", "v1beta2"]),
    ("authentication.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("authorization.k8s.io", &["v1", "v1beta1"]),
    ("autoscaling", &["v1", "v2", "v2beta1", "v2beta2"]),
    ("batch", &["v1", "v1beta1"]),
    ("certificates.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("coordination.k8s.io", &["v1", "v1alpha2", "v1beta1"]),
    ("discovery.k8s.io", &["v1", "v1beta1"]),
    ("events.k8s.io", &["v1", "v1beta1"]),
    ("extensions", &["v1beta1"]),
    ("flowcontrol.apiserver.k8s.io", &["v1", "v1beta1", "v1beta2", "v1beta3"]),
    ("internal.apiserver.k8s.io", &["v1alpha1"]),
    ("networking.k8s.io", &["v1", "v1beta1"]),
    ("node.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("policy", &["v1", "v1beta1"]),
    ("rbac.authorization.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("resource.k8s.io", &["v1", "v1alpha3", "v1beta1", "v1beta2"]),
    ("scheduling.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storage.k8s.io", &["v1", "v1alpha1", "v1beta1"]),
    ("storagemigration.k8s.io", &["v1alpha1"]),
];

/// A version of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KubeVersion {
    pub version: String,
    pub major: String,
    pub minor: String,
}

/// The text is not a version. The messages are those of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeVersionError {
    #[error("could not parse {0:?} as version")]
    NoVersion(String),
    #[error("illegal version string {0:?}")]
    TooShort(String),
    #[error("illegal zero-prefixed version component {component:?} in {text:?}")]
    ZeroPrefix { component: String, text: String },
}

impl KubeVersion {
    /// Parses a version as users write it. The text behind the numbers is dropped.
    ///
    /// # Errors
    ///
    /// The text is not a version.
    pub fn parse(text: &str) -> Result<KubeVersion, KubeVersionError> {
        let text = text.trim_start();
        let numbers = text.strip_prefix('v').unwrap_or(text);
        let end = numbers.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(numbers.len());
        let numbers = numbers[..end].trim_end_matches('.');
        let parts: Vec<&str> = numbers.split('.').collect();
        let text = || text.to_owned();
        if !parts.iter().all(|part| part.parse::<u32>().is_ok()) {
            return Err(KubeVersionError::NoVersion(text()));
        }
        let [major, minor, ..] = parts[..] else { return Err(KubeVersionError::TooShort(text())) };
        if major != "0" && major.starts_with('0') {
            return Err(KubeVersionError::ZeroPrefix { component: major.to_owned(), text: text() });
        }
        let version = format!("v{numbers}");
        Ok(KubeVersion { version, major: major.to_owned(), minor: minor.to_owned() })
    }
}

/// The version of Kubernetes, and the API versions of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capabilities {
    pub kube_version: KubeVersion,
    /// `v1`, `apps/v1`; from a cluster also `apps/v1/Deployment`.
    pub api_versions: Vec<String>,
}

impl Default for Capabilities {
    /// Returns the capabilities that charts see without a cluster.
    fn default() -> Capabilities {
        let versions = OFFLINE
            .iter()
            .flat_map(|(group, versions)| versions.iter().map(move |version| format!("{group}/{version}")));
        let kube_version = KubeVersion {
            version: DEFAULT_VERSION.to_owned(),
            major: "1".to_owned(),
            minor: "34".to_owned(),
        };
        Capabilities { kube_version, api_versions: ["v1".to_owned()].into_iter().chain(versions).collect() }
    }
}
