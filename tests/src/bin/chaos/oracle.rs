//! Checks whether a round has reached its final state, and whether that state is correct.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use anyhow::Result;
use groundwork_api::{
    DataObject, DeployItem, Execution, Installation, Kind as ApiKind, PackageRevision, PackageVariant,
    ResourceExt,
};
use groundwork_bus::{Kind, ObjectId};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams};

use crate::package::{self, Remotes};
use crate::plan::Expected;
use crate::unit::{Unit, text};
use crate::{history, installation};

/// Difference from the expected state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) object: ObjectId,
    what: String,
    /// Set if the owner of the object is gone, so that the garbage collector of Kubernetes must
    /// delete it. The collector may be a minute late after an API server was unavailable.
    pub(crate) is_garbage: bool,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.object, self.what)
    }
}

/// Comparison of a namespace with the state that its users requested.
pub(crate) struct Oracle<'a> {
    pub(crate) client: &'a Client,
    pub(crate) namespace: &'a str,
    pub(crate) remotes: &'a Remotes,
}

impl Oracle<'_> {
    /// Returns all differences from the expected state, none in the correct final state.
    ///
    /// # Errors
    /// Fails if the API server or git does not answer.
    pub(crate) async fn problems(&self, expected: &Expected) -> Result<Vec<Problem>> {
        let mut problems = self.installations(expected).await?;
        problems.extend(self.deployed(expected).await?);
        problems.extend(self.variants(expected).await?);
        if problems.is_empty() {
            // Git comes last, since it takes a process per draft.
            problems = self.drafts(expected)?;
        }
        Ok(problems)
    }

    async fn list<K>(&self) -> Result<Vec<K>>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + fmt::Debug
            + serde::de::DeserializeOwned,
    {
        let objects = Api::<K>::namespaced(self.client.clone(), self.namespace);
        Ok(objects.list(&ListParams::default()).await?.items)
    }

    fn problem<K: ApiKind>(&self, name: &str, what: impl Into<String>) -> Problem {
        self.problem_of(Kind::new(K::GROUP, K::PLURAL), name, what)
    }

    fn problem_of(&self, kind: Kind, name: &str, what: impl Into<String>) -> Problem {
        let object = ObjectId::new(kind, Some(self.namespace), name);
        Problem { object, what: what.into(), is_garbage: false }
    }

    async fn installations(&self, expected: &Expected) -> Result<Vec<Problem>> {
        let mut problems = Vec::new();
        let mut roots = BTreeSet::new();
        for (unit, value) in expected {
            if let (Unit::Installation(unit), Some(_)) = (unit, value) {
                roots.extend(installation::roots(*unit));
            }
        }
        let installations: Vec<Installation> = self.list().await?;
        let names: BTreeSet<String> = installations.iter().map(ResourceExt::name_any).collect();
        let missing = roots.difference(&names);
        problems.extend(missing.map(|name| self.problem::<Installation>(name, "is missing")));
        for installation in &installations {
            let name = installation.name_any();
            let status = installation.status.clone().unwrap_or_default();
            let is_over = status.job_id.is_some() && status.job_id == status.job_id_finished;
            let phase = status.phase.unwrap_or_default();
            let is_asked = installation.annotations().contains_key("landscaper.gardener.cloud/operation");
            let owners = installation.owner_references();
            let is_wanted = match owners {
                [] => roots.contains(&name),
                owners => owners.iter().any(|owner| names.contains(&owner.name)),
            };
            if !is_wanted {
                problems.push(
                    self.problem::<Installation>(&name, format!("is left over in the phase {phase:?}")),
                );
            } else if !is_over || is_asked || phase != "Succeeded" {
                let error = status.last_error.map(|error| error.message).unwrap_or_default();
                let what = format!("is not at rest: phase {phase:?} {error}");
                problems.push(self.problem::<Installation>(&name, what));
            }
        }
        for execution in self.list::<Execution>().await?.iter().map(ResourceExt::name_any) {
            if !names.contains(&execution) {
                problems.push(self.problem::<Execution>(&execution, "is left over"));
            }
        }
        let mut seen = BTreeSet::new();
        for item in &self.list::<DeployItem>().await? {
            let label = |name: &str| item.labels().get(name).cloned().unwrap_or_default();
            let execution = label("execution.landscaper.gardener.cloud/managed-by");
            let template = label("execution.landscaper.gardener.cloud/name");
            if !names.contains(&execution) {
                problems.push(self.problem::<DeployItem>(&item.name_any(), "is left over"));
            } else if !seen.insert((execution, template)) {
                problems.push(self.problem::<DeployItem>(&item.name_any(), "is there twice"));
            }
        }
        for object in self.list::<DataObject>().await? {
            let owners = object.owner_references();
            if !owners.is_empty() && !owners.iter().any(|owner| names.contains(&owner.name)) {
                let left = self.problem::<DataObject>(&object.name_any(), "is left over");
                problems.push(Problem { is_garbage: true, ..left });
            }
        }
        Ok(problems)
    }

    /// Returns the deployed objects that are missing, left over or outdated.
    async fn deployed(&self, expected: &Expected) -> Result<Vec<Problem>> {
        let mut found = BTreeMap::new();
        for object in self.list::<ConfigMap>().await? {
            if let Some(value) = object.data.as_ref().and_then(|data| data.get("value")) {
                found.insert(object.name_any(), value.clone());
            }
        }
        let mut problems = Vec::new();
        let mut tell = |name: &str, what: String| {
            problems.push(self.problem_of(Kind::new("", history::DEPLOYED), name, what));
        };
        for (unit, value) in expected {
            let (Unit::Installation(unit), Some(value)) = (unit, value) else { continue };
            let (name, wanted) = (installation::name(*unit), text(*value));
            match found.remove(&name) {
                Some(deployed) if deployed == wanted => {}
                Some(deployed) => tell(&name, format!("has {deployed} instead of {wanted}")),
                None => tell(&name, "is missing".to_owned()),
            }
        }
        for name in found.keys() {
            tell(name, "is left over".to_owned());
        }
        Ok(problems)
    }

    async fn variants(&self, expected: &Expected) -> Result<Vec<Problem>> {
        let mut problems = Vec::new();
        let variants: BTreeMap<String, PackageVariant> = self
            .list::<PackageVariant>()
            .await?
            .into_iter()
            .map(|variant| (variant.name_any(), variant))
            .collect();
        let wanted: BTreeSet<String> = wanted_variants(expected).map(|(name, _)| name).collect();
        for name in &wanted {
            match variants.get(name).map(unready) {
                None => problems.push(self.problem::<PackageVariant>(name, "is missing")),
                Some(Some(what)) => problems.push(self.problem::<PackageVariant>(name, what)),
                Some(None) => {}
            }
        }
        for name in variants.keys().filter(|name| !wanted.contains(*name)) {
            problems.push(self.problem::<PackageVariant>(name, "is left over"));
        }
        let mut packages = BTreeSet::new();
        for revision in self.list::<PackageRevision>().await? {
            if revision.spec.repository.as_deref() != Some(package::REPOSITORIES[1]) {
                continue;
            }
            let package = revision.spec.package_name.clone().unwrap_or_default();
            if !wanted.contains(&package) {
                problems.push(self.problem::<PackageRevision>(&revision.name_any(), "is left over"));
            } else if !packages.insert(package) {
                problems.push(self.problem::<PackageRevision>(&revision.name_any(), "is there twice"));
            }
        }
        Ok(problems)
    }

    fn drafts(&self, expected: &Expected) -> Result<Vec<Problem>> {
        let drafts = self.remotes.drafts()?;
        let wanted: BTreeMap<String, u32> = wanted_variants(expected).collect();
        let mut problems = Vec::new();
        let mut tell =
            |package: &str, what: String| problems.push(self.problem::<PackageVariant>(package, what));
        for (branch, draft) in &drafts {
            match wanted.get(&draft.package) {
                None => tell(&draft.package, format!("has left the branch {branch}")),
                Some(value) => {
                    if let Some(difference) = draft.difference(*value) {
                        tell(&draft.package, format!("has a draft that is wrong: {difference}"));
                    }
                }
            }
        }
        for branch in package::doubled(&drafts) {
            tell(&drafts[branch].package, format!("has another draft, {branch}"));
        }
        for package in
            wanted.keys().filter(|package| !drafts.values().any(|draft| draft.package == **package))
        {
            tell(package, "has no draft".to_owned());
        }
        Ok(problems)
    }
}

/// Returns the variants that must exist, with their values.
fn wanted_variants(expected: &Expected) -> impl Iterator<Item = (String, u32)> {
    expected.iter().filter_map(|(unit, value)| match (unit, value) {
        (Unit::Variant(unit), Some(value)) => Some((package::name(*unit), *value)),
        _ => None,
    })
}

/// Returns the reason why a variant is not ready yet, if it is not.
fn unready(variant: &PackageVariant) -> Option<String> {
    let status = variant.status.clone().unwrap_or_default();
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    let is_current = ready.is_some_and(|ready| ready.observed_generation == variant.metadata.generation);
    let is_ready = ready.is_some_and(|ready| ready.status == "True");
    if is_current && is_ready && status.downstream_targets.len() == 1 {
        return None;
    }
    let message = ready.map(|ready| ready.message.as_str()).unwrap_or_default();
    Some(format!("is not ready: {message}"))
}
