//! Heirs of the objects that an item gives up: other items of its namespace that deploy to the same
//! cluster (`installations.md` 7.9, ownership).
//!
//! The objects of a manifest item are those in its configuration. The objects of a chart item are
//! those that it has applied, as its status records them. A chart item that is still to be rendered
//! may list any object, so it inherits, and later gives up the objects that it turns out not to
//! list.

use std::collections::BTreeMap;

use async_trait::async_trait;
use groundwork_api::metadata::label;
use groundwork_api::{AnyJson, DeployItem, DeployItemStatus, Execution, ResourceExt, Target};
use groundwork_apply::{
    ApplyError, Fate, GivenUp, Giver, HELM_ITEM, Heir, MANIFEST_ITEM, ManagedResource, Marked, Policy,
    Reference, Succession, expand,
};
use groundwork_deploy::Round;
use groundwork_lifecycle::machine::Phase;
use serde_json::{Value, json};

use crate::common::{CHART, MANIFEST};
use crate::helm::status::{self, INHERITED, provider_status};
use crate::manifest::configuration::manifests;

/// The other items, from the view of the item that gives objects up.
#[derive(Debug)]
pub(crate) struct Siblings<'a> {
    pub(crate) round: &'a Round<'a>,
    pub(crate) giver: Giver,
}

/// Another item with the objects that it lists.
struct Sibling {
    item: DeployItem,
    label: &'static str,
    listed: Vec<Reference>,
    /// True if the item may list further objects in this job.
    is_open: bool,
}

impl Sibling {
    fn heir(&self) -> Heir {
        Heir { label: self.label, item: self.item.name_any() }
    }

    fn lists(&self, reference: &Reference) -> bool {
        self.listed.iter().any(|listed| is_same(listed, reference))
    }

    /// Reports whether deleting a namespace or a definition would delete an object of this item.
    fn is_within(&self, given_up: &GivenUp<'_>) -> bool {
        let (reference, spec) = (given_up.reference, &given_up.live["spec"]);
        match (reference.group(), reference.kind.as_str()) {
            ("", "Namespace") => {
                self.listed.iter().any(|listed| listed.namespace.as_deref() == Some(&reference.name))
            }
            ("apiextensions.k8s.io", "CustomResourceDefinition") => self.listed.iter().any(|listed| {
                spec["group"] == listed.group() && spec["names"]["kind"] == listed.kind.as_str()
            }),
            _ => false,
        }
    }
}

/// Compares references. A manifest may give a namespace to a cluster-wide object, which is ignored.
fn is_same(listed: &Reference, reference: &Reference) -> bool {
    listed.is_same(reference)
        || (reference.namespace.is_none()
            && Reference { namespace: None, ..listed.clone() }.is_same(reference))
}

#[async_trait]
impl Succession for Siblings<'_> {
    async fn fates(&self, given_up: &[GivenUp<'_>]) -> Result<Vec<Fate>, ApplyError> {
        let siblings = self.siblings(given_up).await?;
        let mut inherited: BTreeMap<String, Vec<Reference>> = BTreeMap::new();
        let mut fates = Vec::with_capacity(given_up.len());
        for one in given_up {
            let fate = fate(one, &siblings);
            // The configuration of a manifest item is certain to list the object. A chart item may
            // be about to drop it, so the object is written into its status as inherited.
            if let Fate::HandedOver(heir) = &fate
                && heir.label == HELM_ITEM
            {
                inherited.entry(heir.item.clone()).or_default().push(one.reference.clone());
            }
            fates.push(fate);
        }
        for sibling in &siblings {
            if let Some(references) = inherited.remove(&sibling.item.name_any()) {
                self.bequeath(sibling, &references).await?;
            }
        }
        Ok(fates)
    }

    async fn is_handing_over(&self, giver: &Giver) -> Result<bool, ApplyError> {
        let found = self.round.objects.get::<DeployItem>(&self.namespace(), &giver.item).await?;
        let job = |status: DeployItemStatus| status.job_id != status.job_id_finished;
        Ok(found.and_then(|item| item.status).is_some_and(job))
    }
}

/// Decides the fate of an object. The heir is the first item that lists the object, or else the
/// first that may list it. Without an heir the object is deleted, unless an object of another item
/// is inside it.
fn fate(given_up: &GivenUp<'_>, siblings: &[Sibling]) -> Fate {
    let lister = siblings.iter().find(|sibling| sibling.lists(given_up.reference));
    if let Some(heir) = lister.or_else(|| siblings.iter().find(|sibling| sibling.is_open)) {
        return Fate::HandedOver(heir.heir());
    }
    match siblings.iter().find(|sibling| sibling.is_within(given_up)) {
        Some(sibling) => Fate::InUse { by: sibling.item.name_any() },
        None => Fate::Goes,
    }
}

impl Siblings<'_> {
    fn namespace(&self) -> String {
        self.round.item.namespace().unwrap_or_default()
    }

    /// Reports whether the owner of an object is an item of the namespace, which may give the
    /// object up or hand it over.
    pub(crate) async fn may_give_up(&self, owner: &Marked) -> Result<bool, ApplyError> {
        let (objects, namespace) = (self.round.objects, self.namespace());
        let own = self.round.item.uid();
        match owner {
            Marked::Item { name, .. } => Ok(objects.get::<DeployItem>(&namespace, name).await?.is_some()),
            Marked::Release(release) => {
                let items = objects.list::<DeployItem>(&namespace, "").await?;
                let mut others = items.iter().filter(|item| item.uid() != own);
                Ok(others.any(|item| status::keeps(item, release)))
            }
        }
    }

    /// Returns the other items that may inherit, by name.
    async fn siblings(&self, given_up: &[GivenUp<'_>]) -> Result<Vec<Sibling>, ApplyError> {
        let (objects, namespace) = (self.round.objects, self.namespace());
        let items = if self.all_go().await? {
            let mut names: Vec<&str> = given_up.iter().filter_map(|one| one.taken_from).collect();
            names.sort_unstable();
            names.dedup();
            let mut found = Vec::new();
            for name in names {
                found.extend(objects.get::<DeployItem>(&namespace, name).await?);
            }
            found
        } else {
            objects.list::<DeployItem>(&namespace, "").await?
        };
        let own = self.round.item.uid();
        let mut servers = BTreeMap::new();
        let mut siblings = Vec::new();
        for item in items {
            let is_other = item.uid() != own && item.metadata.deletion_timestamp.is_none();
            if !is_other || !self.is_in_the_cluster(&item, &mut servers).await {
                continue;
            }
            siblings.extend(self.sibling(item));
        }
        siblings.sort_by_key(|sibling| sibling.item.name_any());
        Ok(siblings)
    }

    /// Reports whether the whole Execution is being deleted with this item, so that its items
    /// inherit nothing.
    async fn all_go(&self) -> Result<bool, ApplyError> {
        let item = self.round.item;
        let Some(execution) = item.labels().get(label::MANAGED_BY) else { return Ok(false) };
        if item.metadata.deletion_timestamp.is_none() {
            return Ok(false);
        }
        let found = self.round.objects.get::<Execution>(&self.namespace(), execution).await?;
        Ok(found.is_none_or(|execution| execution.metadata.deletion_timestamp.is_some()))
    }

    /// Reports whether the Target of an item leads to the same API server. `servers` caches the
    /// servers of Targets by name.
    async fn is_in_the_cluster(
        &self,
        item: &DeployItem,
        servers: &mut BTreeMap<String, Option<String>>,
    ) -> bool {
        let (Some(own), Some(other)) = (&self.round.item.spec.target, &item.spec.target) else {
            return false;
        };
        if own.name == other.name {
            return true;
        }
        let mut found = Vec::new();
        for name in [&own.name, &other.name] {
            if !servers.contains_key(name) {
                // If a Target does not lead to a server, its item is not an heir.
                servers.insert(name.clone(), self.server(name).await);
            }
            found.push(servers.get(name).cloned().flatten());
        }
        found[0].is_some() && found[0] == found[1]
    }

    async fn server(&self, name: &str) -> Option<String> {
        let objects = self.round.objects;
        let target = objects.get::<Target>(&self.namespace(), name).await.ok()??;
        self.round.targets.server(&target, objects).await.ok()?
    }

    /// Returns the sibling for an item; `None` if its type does not mark objects.
    fn sibling(&self, item: DeployItem) -> Option<Sibling> {
        match item.spec.type_.as_str() {
            MANIFEST => {
                let listed = listed_in(item.spec.config.get()?);
                Some(Sibling { item, label: MANIFEST_ITEM, listed, is_open: false })
            }
            CHART => {
                let listed = status::known(&item).into_iter().map(|managed| managed.resource).collect();
                let is_open = self.may_list_more(&item);
                Some(Sibling { item, label: HELM_ITEM, listed, is_open })
            }
            _ => None,
        }
    }

    /// Reports whether a chart item of this job has not yet listed its objects.
    fn may_list_more(&self, item: &DeployItem) -> bool {
        let of = |item: &DeployItem| item.labels().get(label::MANAGED_BY).cloned();
        let is_of_execution = of(item).is_some() && of(item) == of(self.round.item);
        let Some(status) = &item.status else { return is_of_execution };
        let job = |item: &DeployItem| item.status.as_ref().and_then(|status| status.job_id.clone());
        let is_running = status.job_id != status.job_id_finished;
        let is_of_job = is_running && status.job_id == job(self.round.item);
        if !is_of_execution && !is_of_job {
            return false;
        }
        if is_running {
            return !status::is_listed(item);
        }
        let is_current = status.observed_generation == item.metadata.generation.unwrap_or_default();
        !is_current || Phase::of(status.phase.as_deref()) != Phase::Succeeded
    }

    /// Writes into the status of an item what it inherits. Fails if the item has changed since it
    /// was read.
    async fn bequeath(&self, sibling: &Sibling, references: &[Reference]) -> Result<(), ApplyError> {
        let mut item = sibling.item.clone();
        let status = item.status.get_or_insert_default();
        let mut all = status.provider_status.get().cloned().unwrap_or_else(|| provider_status(&[]));
        let mut inherited = all[INHERITED].as_array().cloned().unwrap_or_default();
        for reference in references {
            let managed = ManagedResource {
                inherited_from: Some(self.giver.clone()),
                ..ManagedResource::new(reference.clone())
            };
            // A round that ended before it wrote the new mark repeats this step.
            let managed = json!(managed);
            if !inherited.contains(&managed) {
                inherited.push(managed);
            }
        }
        all[INHERITED] = Value::Array(inherited);
        status.provider_status = AnyJson::from(all);
        self.round.objects.replace_status(&item).await?;
        Ok(())
    }
}

/// Returns the objects in the configuration of a manifest item. An unreadable configuration lists
/// none.
fn listed_in(config: &Value) -> Vec<Reference> {
    let listed = manifests(config).unwrap_or_default();
    let objects = expand(&listed).unwrap_or_default();
    let listed = objects.iter().filter(|manifest| manifest.policy != Policy::Ignore);
    listed.map(|manifest| Reference::of(&manifest.manifest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(kind: &str, namespace: Option<&str>, name: &str) -> Reference {
        Reference {
            api_version: "v1".into(),
            kind: kind.into(),
            namespace: namespace.map(str::to_owned),
            name: name.into(),
        }
    }

    fn sibling(name: &str, listed: Vec<Reference>, is_open: bool) -> Sibling {
        let item =
            serde_json::from_value(json!({"metadata": {"name": name}, "spec": {"type": "t"}})).unwrap();
        Sibling { item, label: MANIFEST_ITEM, listed, is_open }
    }

    #[test]
    fn fates_of_objects() {
        let map = reference("ConfigMap", Some("a"), "x");
        let siblings = [
            sibling("open", Vec::new(), true),
            sibling("lister", vec![map.clone(), reference("Role", Some("n"), "y")], false),
        ];
        let fate_of = |reference: &Reference, siblings: &[Sibling]| {
            fate(&GivenUp { reference, live: &Value::Null, taken_from: None }, siblings)
        };
        let to = |name: &str| Fate::HandedOver(Heir { label: MANIFEST_ITEM, item: name.into() });
        let other = reference("ConfigMap", Some("a"), "z");
        assert_eq!(fate_of(&map, &siblings), to("lister"));
        assert_eq!(fate_of(&other, &siblings), to("open"));
        assert_eq!(fate_of(&other, &siblings[1..]), Fate::Goes);
        let namespace = reference("Namespace", None, "n");
        assert_eq!(fate_of(&namespace, &siblings[1..]), Fate::InUse { by: "lister".into() });
        assert_eq!(fate_of(&reference("Namespace", None, "m"), &siblings[1..]), Fate::Goes);
    }

    #[test]
    fn definitions_in_use_stay() {
        let crd = Reference {
            api_version: "apiextensions.k8s.io/v1".into(),
            ..reference("CustomResourceDefinition", None, "things.example.org")
        };
        let thing = Reference { api_version: "example.org/v1".into(), ..reference("Thing", Some("a"), "t") };
        let live = json!({"spec": {"group": "example.org", "names": {"kind": "Thing"}}});
        let given_up = GivenUp { reference: &crd, live: &live, taken_from: None };
        assert_eq!(fate(&given_up, &[sibling("s", vec![thing], false)]), Fate::InUse { by: "s".into() });
    }

    #[test]
    fn manifests_list_what_they_manage() {
        let object = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "a"}});
        let config = json!({
            "apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
            "manifests": [{"manifest": object("a")}, {"policy": "ignore", "manifest": object("b")},
                {"policy": "fallback", "manifest": {"apiVersion": "v1", "kind": "List", "items": [object("c")]}}],
        });
        let names: Vec<String> = listed_in(&config).into_iter().map(|reference| reference.name).collect();
        assert_eq!(names, ["a", "c"]);
        assert!(listed_in(&json!("nothing")).is_empty());
        assert!(is_same(&reference("Namespace", Some("x"), "n"), &reference("Namespace", None, "n")));
    }
}
