//! Relations between packages and variants: the variants that are made from a package, and those
//! that make the package (`packagevariants.md` 2.2).

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use groundwork_api::view;
use groundwork_bus::{Change, ObjectId};
use groundwork_controller::Key;
use groundwork_fleet::fixed_revision;

/// Namespace, and the prefix of the names of a package's revisions: repository, package and a dot.
type Package = (String, String);

/// Packages that a variant depends on.
#[derive(Debug)]
struct Relation {
    upstream: Package,
    downstream: Package,
    /// The only revision number of the upstream that concerns the variant; `None` if any may.
    fixed: Option<i64>,
    /// Annotations by which users steer the variant.
    steering: [Option<String>; 2],
}

/// Index built from events, so that an event of a revision finds its variants without a search
/// through all of them.
#[derive(Debug, Default)]
pub(crate) struct Relations {
    variants: BTreeMap<Package, BTreeSet<Key>>,
    packages: HashMap<Key, Relation>,
    /// Package revisions by the UID of the variant that controls them. A variant whose downstream
    /// was changed still has to reconcile its old revisions.
    owned: HashMap<String, BTreeSet<Key>>,
    owners: HashMap<Key, String>,
    /// Variants by the objects that they inject, or would inject if the objects existed.
    injected: HashMap<ObjectId, BTreeSet<Key>>,
    sources: HashMap<Key, Vec<ObjectId>>,
    repositories: HashMap<ObjectId, SeenRepository>,
    /// Variants whose revision follows a tag: any new revision may carry the tag.
    following: HashSet<Key>,
    /// Variants with other steering annotations, which have not been reconciled since. An
    /// annotation does not change the generation of an object.
    steered: HashSet<Key>,
}

/// Fields of a Repository that variants depend on.
#[derive(Debug, PartialEq)]
struct SeenRepository {
    generation: Option<i64>,
    is_deleting: bool,
    ready: Vec<String>,
    /// True if the variants have been reconciled since the last change.
    is_told: bool,
}

impl Relations {
    /// Records a change of a variant.
    pub(crate) fn observe(&mut self, variant: &ObjectId, change: &Change) {
        let former = self.packages.remove(variant);
        let before = former.as_ref().map(|former| former.steering.clone());
        for package in former.into_iter().flat_map(|former| [former.upstream, former.downstream]) {
            if let Some(variants) = self.variants.get_mut(&package) {
                variants.remove(variant);
                if variants.is_empty() {
                    self.variants.remove(&package);
                }
            }
        }
        let Change::Applied(snapshot) = change else {
            self.steered.remove(variant);
            return;
        };
        let seen = view::PackageVariant(snapshot);
        let package = |repository: &str, package: &str| {
            let prefix = format!("{repository}.{}.", package.replace('/', "."));
            (variant.namespace.clone().unwrap_or_default(), prefix)
        };
        let relation = Relation {
            upstream: package(seen.upstream_repository(), seen.upstream_package()),
            downstream: package(seen.downstream_repository(), seen.downstream_package()),
            fixed: fixed_revision(seen.upstream_revision().as_ref(), seen.upstream_workspace()),
            steering: seen.steering().map(|value| value.map(str::to_owned)),
        };
        if before.is_some_and(|before| before != relation.steering) {
            self.steered.insert(variant.clone());
        }
        for package in [&relation.upstream, &relation.downstream] {
            self.variants.entry(package.clone()).or_default().insert(variant.clone());
        }
        self.packages.insert(variant.clone(), relation);
    }

    /// Reports whether the steering annotations of a variant have changed since the last call.
    pub(crate) fn take_steered(&mut self, variant: &ObjectId) -> bool {
        self.steered.remove(variant)
    }

    /// Records a change of a package revision.
    pub(crate) fn observe_revision(&mut self, revision: &ObjectId, change: &Change) {
        let owner = match change {
            Change::Applied(snapshot) => snapshot.controller().map(|owner| owner.uid.clone()),
            Change::Deleted(_) => None,
        };
        if self.owners.get(revision) == owner.as_ref() {
            return;
        }
        if let Some(former) = self.owners.remove(revision)
            && let Some(owned) = self.owned.get_mut(&former)
        {
            owned.remove(revision);
            if owned.is_empty() {
                self.owned.remove(&former);
            }
        }
        if let Some(owner) = owner {
            self.owned.entry(owner.clone()).or_default().insert(revision.clone());
            self.owners.insert(revision.clone(), owner);
        }
    }

    /// Returns the names of the package revisions that a variant may control. These are candidates,
    /// which the caller reads.
    pub(crate) fn owned_by(&self, uid: &str) -> Vec<String> {
        self.owned.get(uid).into_iter().flatten().map(|key| key.name.clone()).collect()
    }

    /// Records a change of a Repository.
    pub(crate) fn observe_repository(&mut self, repository: &ObjectId, change: &Change) {
        let Change::Applied(snapshot) = change else {
            self.repositories.remove(repository);
            return;
        };
        let ready = view::Repository(snapshot).ready().into_iter().map(str::to_owned).collect();
        let (generation, is_deleting) = (snapshot.generation, snapshot.is_deleting());
        let mut seen = SeenRepository { generation, is_deleting, ready, is_told: true };
        if self.repositories.get(repository) != Some(&seen) {
            seen.is_told = false;
            self.repositories.insert(repository.clone(), seen);
        }
    }

    /// Marks all Repositories as unseen when their feed restarts.
    pub(crate) fn forget_repositories(&mut self) {
        self.repositories.clear();
    }

    /// Returns the variants to reconcile after a change of a Repository, if a field that they
    /// depend on has changed since the last call. A new sync time or package count does not count:
    /// new revisions have events of their own.
    pub(crate) fn told_of_repository(&mut self, repository: &ObjectId) -> Vec<Key> {
        let was_told = self
            .repositories
            .get_mut(repository)
            .is_some_and(|seen| std::mem::replace(&mut seen.is_told, true));
        if was_told { Vec::new() } else { self.of_repository(repository) }
    }

    /// Clears the entries of variants when their feed restarts.
    pub(crate) fn forget_variants(&mut self) {
        (self.variants, self.packages) = Default::default();
    }

    /// Clears the entries of package revisions when their feed restarts.
    pub(crate) fn forget_revisions(&mut self) {
        (self.owned, self.owners) = Default::default();
    }

    /// Returns the variants that a package revision concerns. A name does not show where the
    /// package ends, since tags may contain dots, so all possible ends are tried. `number` is the
    /// number of the revision, if known: a variant with another fixed number is left out.
    pub(crate) fn of_revision(&self, revision: &ObjectId, number: Option<i64>) -> Vec<Key> {
        let namespace = revision.namespace.clone().unwrap_or_default();
        let ends = revision.name.match_indices('.').map(|(end, _)| end + 1);
        let packages = ends.map(|end| (namespace.clone(), revision.name[..end].to_owned()));
        let concerned = |package: Package| {
            let variants = self.variants.get(&package).into_iter().flatten();
            variants.filter(move |variant| {
                self.packages.get(variant).is_none_or(|relation| {
                    relation.downstream == package
                        || self.following.contains(*variant)
                        || relation.fixed.zip(number).is_none_or(|(fixed, number)| fixed == number)
                })
            })
        };
        packages.flat_map(concerned).cloned().collect()
    }

    /// Records whether a variant follows a tag.
    pub(crate) fn set_following(&mut self, variant: &Key, follows: bool) {
        if follows {
            self.following.insert(variant.clone());
        } else {
            self.following.remove(variant);
        }
    }

    /// Records the objects that a variant injects, whether or not they exist.
    pub(crate) fn set_injected(&mut self, variant: &Key, objects: Vec<ObjectId>) {
        for former in self.sources.remove(variant).into_iter().flatten() {
            if let Some(variants) = self.injected.get_mut(&former) {
                variants.remove(variant);
                if variants.is_empty() {
                    self.injected.remove(&former);
                }
            }
        }
        if objects.is_empty() {
            return;
        }
        for object in &objects {
            self.injected.entry(object.clone()).or_default().insert(variant.clone());
        }
        self.sources.insert(variant.clone(), objects);
    }

    /// Returns the variants that inject an object.
    pub(crate) fn injecting(&self, object: &ObjectId) -> Vec<Key> {
        self.injected.get(object).into_iter().flatten().cloned().collect()
    }

    /// Returns the variants that depend on a repository.
    fn of_repository(&self, repository: &ObjectId) -> Vec<Key> {
        let namespace = repository.namespace.clone().unwrap_or_default();
        let prefix = format!("{}.", repository.name);
        let from = (namespace.clone(), prefix.clone());
        let of_repository = self
            .variants
            .range(from..)
            .take_while(|((found, package), _)| *found == namespace && package.starts_with(&prefix));
        let keys: BTreeSet<Key> = of_repository.flat_map(|(_, variants)| variants.iter().cloned()).collect();
        keys.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use groundwork_api::{PackageRevision, PackageVariant, Repository};
    use groundwork_bus::{Kind, Snapshot};
    use serde_json::json;

    use super::*;

    fn applied(upstream: (&str, &str), downstream: (&str, &str)) -> Change {
        let fields = json!({"spec": {
            "upstream": {"repo": upstream.0, "package": upstream.1},
            "downstream": {"repo": downstream.0, "package": downstream.1},
        }});
        Change::Applied(Snapshot { fields: fields.as_object().cloned().unwrap(), ..Snapshot::default() })
    }

    #[test]
    fn packages_and_repositories_find_their_variants() {
        let mut relations = Relations::default();
        let variant = |name: &str| ObjectId::new(Kind::of::<PackageVariant>(), Some("fleet"), name);
        relations.observe(&variant("a"), &applied(("catalog", "net/dns"), ("blue", "dns")));
        relations.observe(&variant("b"), &applied(("catalog", "net/dns"), ("green", "dns")));
        relations.observe(&variant("c"), &applied(("catalog", "net"), ("blue", "net")));
        let names = |keys: Vec<Key>| keys.into_iter().map(|key| key.name).collect::<Vec<_>>();
        let of = |relations: &Relations, name: &str| {
            let revision = ObjectId::new(Kind::of::<PackageRevision>(), Some("fleet"), name);
            names(relations.of_revision(&revision, None))
        };
        assert_eq!(of(&relations, "catalog.net.dns.v4"), ["c", "a", "b"]);
        assert_eq!(of(&relations, "catalog.net.v4.0.0"), ["c"]);
        assert_eq!(of(&relations, "blue.dns.packagevariant-1"), ["a"]);
        assert_eq!(of(&relations, "other.dns.v1"), Vec::<String>::new());
        let repository = |name: &str| ObjectId::new(Kind::of::<Repository>(), Some("fleet"), name);
        assert_eq!(names(relations.of_repository(&repository("blue"))), ["a", "c"]);
        assert_eq!(names(relations.of_repository(&repository("blu"))), Vec::<String>::new());
        let object =
            |name: &str| ObjectId::new(groundwork_bus::Kind::new("", "configmaps"), Some("fleet"), name);
        relations.set_injected(&variant("a"), vec![object("x"), object("y")]);
        relations.set_injected(&variant("b"), vec![object("x")]);
        assert_eq!(names(relations.injecting(&object("x"))), ["a", "b"]);
        relations.set_injected(&variant("a"), vec![object("y")]);
        assert_eq!(names(relations.injecting(&object("x"))), ["b"]);
        relations.set_injected(&variant("a"), Vec::new());
        assert_eq!(names(relations.injecting(&object("y"))), Vec::<String>::new());
        relations.observe(&variant("a"), &applied(("catalog", "web"), ("blue", "web")));
        assert_eq!(of(&relations, "blue.dns.packagevariant-1"), Vec::<String>::new());
        assert_eq!(of(&relations, "blue.web.packagevariant-1"), ["a"]);
        relations.observe(&variant("b"), &Change::Deleted(Snapshot::default()));
        assert_eq!(of(&relations, "green.dns.v1"), Vec::<String>::new());
    }

    /// The sync of each minute changes the status of a Repository, and must not reconcile its
    /// variants.
    #[test]
    fn a_repository_that_was_read_concerns_nobody() {
        let mut relations = Relations::default();
        let variant = ObjectId::new(Kind::of::<PackageVariant>(), Some("fleet"), "a");
        relations.observe(&variant, &applied(("catalog", "dns"), ("blue", "dns")));
        let catalog = ObjectId::new(Kind::of::<Repository>(), Some("fleet"), "catalog");
        let seen = |generation: i64, ready: &str, packages: i64| {
            let fields = json!({"status": {"conditions": [{"status": ready}], "packageCount": packages}});
            let fields = fields.as_object().cloned().unwrap();
            Change::Applied(Snapshot { generation: Some(generation), fields, ..Snapshot::default() })
        };
        let gone = Change::Deleted(Snapshot::default());
        for (change, is_told) in [
            (seen(1, "True", 1), true),
            (seen(1, "True", 2), false),
            (seen(1, "False", 2), true),
            (seen(1, "False", 2), false),
            (seen(2, "False", 2), true),
            (gone, true),
            (seen(2, "False", 2), true),
        ] {
            relations.observe_repository(&catalog, &change);
            let told = relations.told_of_repository(&catalog);
            assert_eq!(told.len(), usize::from(is_told), "{change:?}");
        }
        // Two changes may be coalesced into one event; that event then has to reconcile for both.
        relations.observe_repository(&catalog, &seen(3, "True", 2));
        relations.observe_repository(&catalog, &seen(3, "True", 4));
        assert_eq!(relations.told_of_repository(&catalog).len(), 1);
    }

    /// An annotation changes no generation: each change is reported once.
    #[test]
    fn steering_annotations() {
        let mut relations = Relations::default();
        let variant = ObjectId::new(Kind::of::<PackageVariant>(), Some("fleet"), "a");
        for (annotation, is_changed) in [
            (None, false),
            (None, false),
            (Some(("groundwork/pause-upstream", "true")), true),
            (Some(("groundwork/pause-upstream", "true")), false),
            (Some(("groundwork/follow-tag", "stable")), true),
            (Some(("groundwork/other", "x")), true),
            (None, false),
        ] {
            let mut change = applied(("catalog", "dns"), ("blue", "dns"));
            if let (Change::Applied(snapshot), Some((name, value))) = (&mut change, annotation) {
                snapshot.annotations.insert(name.to_owned(), value.to_owned());
            }
            relations.observe(&variant, &change);
            assert_eq!(relations.take_steered(&variant), is_changed, "{annotation:?}");
            assert!(!relations.take_steered(&variant));
        }
    }

    /// A variant with a fixed revision is not reconciled for other revisions (`packagevariants.md`
    /// 2.2).
    #[test]
    fn other_revisions_do_not_concern_a_fixed_one() {
        let mut relations = Relations::default();
        let variant = |name: &str| ObjectId::new(Kind::of::<PackageVariant>(), Some("fleet"), name);
        for (name, revision) in [
            ("number", json!(1)),
            ("text", json!("v1")),
            ("latest", json!("latest")),
            ("tag", json!("stable")),
        ] {
            let mut change = applied(("catalog", "dns"), ("blue", name));
            if let Change::Applied(snapshot) = &mut change {
                let spec = json!({"upstream": {"repo": "catalog", "package": "dns", "revision": revision}, "downstream": {"repo": "blue", "package": name}});
                snapshot.fields.insert("spec".to_owned(), spec);
            }
            relations.observe(&variant(name), &change);
        }
        let of = |name: &str, number: Option<i64>| {
            let revision = ObjectId::new(Kind::of::<PackageRevision>(), Some("fleet"), name);
            let keys = relations.of_revision(&revision, number);
            keys.into_iter().map(|key| key.name).collect::<Vec<_>>()
        };
        let all = ["latest", "number", "tag", "text"];
        assert_eq!(of("catalog.dns.w1", Some(1)), all);
        assert_eq!(of("catalog.dns.w2", Some(2)), ["latest", "tag"]);
        assert_eq!(of("catalog.dns.w2", None), all, "nobody knows what it is");
        assert_eq!(of("blue.number.packagevariant-1", Some(7)), ["number"]);
    }
}
