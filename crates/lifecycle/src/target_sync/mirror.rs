//! Targets and Secrets in the namespace of a TargetSync, and their wanted state.

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::metadata::{annotation, label};
use groundwork_api::{
    ByteString, LocalSecretReference, ObjectMeta, ResourceExt, Target, TargetSpec, TargetSync, Time,
};
use k8s_openapi::api::core::v1::Secret;

use super::{SHOOT_RENEWAL, is_over};

/// Type of Targets that are clusters.
pub const KUBERNETES_CLUSTER: &str = "landscaper.gardener.cloud/kubernetes-cluster";
/// Entry of a mirrored Secret that its Target refers to.
pub const KUBECONFIG: &str = "kubeconfig";
/// Type of mirrored Secrets. API servers validate some other types, and fill in tokens of their own
/// cluster.
const OPAQUE: &str = "Opaque";

/// Objects in the namespace of a TargetSync that belong to it, by name.
#[derive(Debug, Clone, Default)]
pub struct Home {
    targets: BTreeMap<String, Target>,
    secrets: BTreeMap<String, Secret>,
}

impl Home {
    /// Selects the objects that belong to a TargetSync from those with its label. Copies that
    /// Installations have made of such Targets have the label too, but belong to the Installations.
    pub fn new(targets: Vec<Target>, secrets: Vec<Secret>) -> Self {
        let own = targets.into_iter().filter(|target| !target.labels().contains_key(label::DATA_SOURCE_TYPE));
        Self {
            targets: own.map(|target| (target.name_any(), target)).collect(),
            secrets: secrets.into_iter().map(|secret| (secret.name_any(), secret)).collect(),
        }
    }
}

/// Cluster that needs a Target, with the content of its Secret.
#[derive(Clone, PartialEq)]
pub struct Mirror {
    pub name: String,
    pub data: BTreeMap<String, ByteString>,
}

/// Omits the content, which contains credentials.
impl std::fmt::Debug for Mirror {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mirror").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Object to write. An object with a resourceVersion is replaced, one without is created.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    Secret(Box<Secret>),
    Target(Box<Target>),
}

/// Existing objects that are no longer wanted.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Obsolete {
    pub targets: Vec<Target>,
    pub secrets: Vec<Secret>,
}

/// Returns the writes for a mirror, in their order: the Secret comes before the Target that refers
/// to it.
///
/// # Errors
///
/// The mirror has the name of the Secret with the credentials of the source, which must not be
/// overwritten.
pub fn write(sync: &TargetSync, home: &Home, mirror: Mirror, now: &Time) -> Result<Vec<Write>, String> {
    let Mirror { name, data } = mirror;
    if name == sync.spec.secret_ref.name {
        return Err(format!(
            "{name} of the source is not mirrored: the Secret of that name in this namespace contains the credentials \
             of the source (spec.secretRef); give it another name"
        ));
    }
    let mut writes = Vec::new();
    let found = home.secrets.get(&name);
    if found.is_none_or(|found| found.data.clone().unwrap_or_default() != data) {
        let metadata = found.map_or_else(|| metadata(sync, &name), |found| found.metadata.clone());
        let type_ = found.and_then(|found| found.type_.clone()).or_else(|| Some(OPAQUE.to_owned()));
        let secret = Secret { metadata, type_, data: Some(data), ..Secret::default() };
        writes.push(Write::Secret(Box::new(secret)));
    }
    let reference = LocalSecretReference { name: name.clone(), key: Some(KUBECONFIG.to_owned()) };
    writes.extend(target(sync, home, &name, reference, !writes.is_empty(), now));
    Ok(writes)
}

/// Returns the write for the Target of the source cluster itself, or `None` if it is up to date.
pub fn target_to_source(sync: &TargetSync, home: &Home, name: &str, now: &Time) -> Option<Write> {
    let key = Some(sync.spec.secret_key().to_owned());
    let reference = LocalSecretReference { name: sync.spec.secret_ref.name.clone(), key };
    target(sync, home, name, reference, false, now)
}

/// Returns the write for a Target if it differs from the existing one, or if its Secret has
/// changed.
fn target(
    sync: &TargetSync,
    home: &Home,
    name: &str,
    reference: LocalSecretReference,
    has_changed: bool,
    now: &Time,
) -> Option<Write> {
    let spec = TargetSpec {
        type_: KUBERNETES_CLUSTER.to_owned(),
        secret_ref: Some(reference),
        ..TargetSpec::default()
    };
    let found = home.targets.get(name);
    if !has_changed && found.is_some_and(|found| found.spec == spec) {
        return None;
    }
    let mut metadata = found.map_or_else(|| metadata(sync, name), |found| found.metadata.clone());
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::LAST_TARGET_SYNC.to_owned(), now.0.to_string());
    Some(Write::Target(Box::new(Target { metadata, spec })))
}

fn metadata(sync: &TargetSync, name: &str) -> ObjectMeta {
    let label = (label::TARGET_SYNC.to_owned(), label::TARGET_SYNC_OK.to_owned());
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: sync.namespace(),
        labels: Some([label].into()),
        ..ObjectMeta::default()
    }
}

/// Reports whether the kubeconfig of a Shoot is missing or due for renewal: it lives 24 hours and
/// is renewed after 12 (`installations.md` 1.5).
pub fn is_due(home: &Home, name: &str, now: &Time) -> bool {
    let secret = home.secrets.get(name).and_then(|secret| secret.data.as_ref());
    let has_kubeconfig = secret.is_some_and(|data| data.contains_key(KUBECONFIG));
    let made = home.targets.get(name).and_then(|target| {
        let refers = target.spec.secret_ref.as_ref().is_some_and(|reference| reference.name == name);
        let made = target.annotations().get(annotation::LAST_TARGET_SYNC).filter(|_| refers)?;
        made.parse().ok().map(Time)
    });
    !has_kubeconfig || made.is_none_or(|made| is_over(&made, SHOOT_RENEWAL, now))
}

/// Returns all objects that a TargetSync has created and that are deleted with it. The Secret with
/// the credentials of the source is not among them.
pub fn everything(sync: &TargetSync, home: Home) -> Obsolete {
    let secrets = home.secrets.into_iter().filter(|(name, _)| *name != sync.spec.secret_ref.name);
    Obsolete {
        targets: home.targets.into_values().collect(),
        secrets: secrets.map(|(_, secret)| secret).collect(),
    }
}

/// Returns the leftover objects. `mirrored` lists the names of Secrets that are wanted together
/// with their Targets. The Target of the source cluster itself is never leftover.
pub fn obsolete(sync: &TargetSync, mut home: Home, mirrored: &BTreeSet<String>) -> Obsolete {
    let to_source = sync.spec.target_to_source();
    home.targets.retain(|name, _| !mirrored.contains(name) && to_source != Some(name));
    home.secrets.retain(|name, _| !mirrored.contains(name));
    everything(sync, home)
}
