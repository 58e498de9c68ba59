use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::package::tests::{revision, with_status};
use crate::{Attributes, OWNER_LABEL};

fn set(name: &str, uid: &str, targets: &Value) -> PackageVariantSet {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "fleet", "uid": uid, "generation": 1},
        "spec": {"upstream": {"repo": "catalog", "package": "foo", "revision": "v1"}, "targets": targets},
    }))
    .unwrap()
}

fn listed(name: &str, uid: &str, pairs: &[(&str, &[&str])]) -> PackageVariantSet {
    let entries: Vec<Value> =
        pairs.iter().map(|(name, packages)| json!({"name": name, "packageNames": packages})).collect();
    set(name, uid, &json!([{"repositories": entries}]))
}

fn previewed(sets: &[PackageVariantSet], variants: &[PackageVariant]) -> Preview {
    previewed_with(sets, None, variants)
}

fn previewed_with(
    sets: &[PackageVariantSet],
    revisions: Option<&[PackageRevision]>,
    variants: &[PackageVariant],
) -> Preview {
    let others = BTreeMap::new();
    let repositories: Vec<Attributes> = ["a", "b"]
        .map(|name| Attributes {
            name: name.to_owned(),
            namespace: "fleet".to_owned(),
            ..Attributes::default()
        })
        .into();
    let objects = Objects { revision_sets: &[], repositories: &repositories, others: &others };
    Preview::new(preview(sets, objects, revisions, variants))
}

/// Returns the variants after the changes of a preview; created ones have a UID and a creation
/// time.
fn after(variants: &[PackageVariant], preview: &Preview) -> Vec<PackageVariant> {
    let named = |variant: &PackageVariant| (variant.name_any(), variant.clone());
    let mut world: World = variants.iter().map(named).collect();
    for action in preview.sets.iter().flat_map(|set| &set.actions) {
        carry_out(action, &mut world);
    }
    for variant in world.values_mut() {
        let uid = format!("uid-{}", variant.name_any());
        variant.metadata.uid.get_or_insert(uid);
        let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        variant.metadata.creation_timestamp.get_or_insert(time);
    }
    world.into_values().collect()
}

fn made(sets: &[PackageVariantSet]) -> Vec<PackageVariant> {
    after(&[], &previewed(sets, &[]))
}

/// Returns one line per change, in the order of the kinds of changes.
fn shown(preview: &Preview) -> Vec<String> {
    let mut lines = Vec::new();
    for set in &preview.sets {
        for created in &set.created {
            let blocked = created.blocked.as_ref().map(|why| format!(": {}: {}", why.reason, why.message));
            lines.push(format!("create {}{}", created.site.name, blocked.unwrap_or_default()));
        }
        for changed in &set.changed {
            let text = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
            let fields: Vec<String> = changed
                .fields
                .iter()
                .map(|field| format!("{} {} {}", field.path, text(&field.old), text(&field.new)))
                .collect();
            lines.push(format!("change {}: {}", changed.site.name, fields.join(", ")));
        }
        for deleted in &set.deleted {
            let fates: String =
                deleted.revisions.iter().map(|found| format!(" {} {:?}", found.name, found.fate)).collect();
            lines.push(format!("delete {}{fates}", deleted.site.name));
        }
        lines.extend(set.unchanged.iter().map(|site| format!("leave {}", site.name)));
        lines.extend(set.going.iter().map(|site| format!("going {}", site.name)));
        lines.extend(set.refused.iter().map(|why| format!("refused {}: {}", why.reason, why.message)));
    }
    lines
}

#[test]
fn everything_that_can_happen() {
    let variants = made(&[listed("s", "7f", &[("a", &["x", "y"]), ("b", &["x"])])]);
    let mut changed = listed("s", "7f", &[("a", &["x", "z"]), ("b", &["x"])]);
    assert_eq!(
        shown(&previewed(&[changed.clone()], &variants)),
        ["create s-a-z", "delete s-a-y", "leave s-a-x", "leave s-b-x"]
    );
    changed.spec.upstream.as_mut().unwrap().revision = Some("v2".into());
    let preview = previewed(&[changed], &variants);
    assert_eq!(
        shown(&preview),
        [
            "create s-a-z",
            "change s-a-x: spec.upstream.revision \"v1\" \"v2\"",
            "change s-b-x: spec.upstream.revision \"v1\" \"v2\"",
            "delete s-a-y",
        ]
    );
    assert!(!preview.is_empty());
    assert_eq!(
        serde_json::to_value(&preview.sets[0].changed[0]).unwrap(),
        json!({"name": "s-a-x", "repo": "a", "package": "x",
            "fields": [{"path": "spec.upstream.revision", "old": "v1", "new": "v2"}]})
    );
}

#[test]
fn what_is_refused_leaves_everything_alone() {
    let variants = made(&[listed("s", "7f", &[("a", &["x"])])]);
    let invalid = set("s", "7f", &json!([]));
    let preview = previewed(&[invalid], &variants);
    assert_eq!(
        shown(&preview),
        ["leave s-a-x", "refused ValidationError: must specify at least one item in spec.targets"]
    );
    assert!(preview.is_empty());
    let missing = previewed_with(&[listed("s", "7f", &[("a", &["x"])])], Some(&[]), &variants);
    assert_eq!(
        shown(&missing)[1],
        "refused UpstreamNotFound: could not find upstream package revision 'foo/v1' in repo 'catalog'"
    );

    let five = made(&[listed("s", "7f", &[("a", &["1", "2", "3", "4", "5"])])]);
    let mut nothing = set("s", "7f", &json!([{"repositorySelector": {"matchLabels": {"env": "typo"}}}]));
    nothing.status = serde_json::from_value(json!({"observedGeneration": 1})).unwrap();
    let guarded = shown(&previewed(&[nothing], &five));
    assert_eq!(guarded.len(), 6);
    assert!(guarded[5].starts_with("refused DeletionGuarded: "), "{guarded:?}");
}

/// A preview includes the effect of the deletion policy on revisions (`packagevariants.md` 2.9).
#[test]
fn revisions_of_what_is_deleted() {
    let mut variants = made(&[listed("s", "7f", &[("a", &["x", "y"])])]);
    variants[1].spec.deletion_policy = Some("orphan".to_owned());
    let owned = |place: &str, number, lifecycle, at: usize| {
        let mut revision = revision(place, number, lifecycle);
        revision.metadata.owner_references = Some(vec![crate::owner_reference(&variants[at])]);
        revision
    };
    let revisions = [
        revision("catalog/foo:v1", 1, "Published"),
        owned("a/x:w2", 0, "Draft", 0),
        owned("a/x:w1", 1, "Published", 0),
        owned("a/y:w1", 1, "Published", 1),
        revision("a/x:mine", 0, "Draft"),
    ];
    let preview = previewed_with(&[listed("s", "7f", &[("b", &["x"])])], Some(&revisions), &variants);
    assert_eq!(
        shown(&preview),
        [
            "create s-b-x",
            "delete s-a-x a.x.w1 ProposedForDeletion a.x.w2 Deleted",
            "delete s-a-y a.y.w1 Orphaned"
        ]
    );
}

/// The second variant of a package is blocked, unless the first one is deleted
/// (`packagevariants.md` 4.6).
#[test]
fn two_variants_for_one_package() {
    let hand: PackageVariant = serde_json::from_value(json!({
        "metadata": {"name": "by-hand", "namespace": "fleet"},
        "spec": {"downstream": {"repo": "a", "package": "x"}},
    }))
    .unwrap();
    let contended = "DownstreamContended: package \"x\" in repo \"a\" belongs to package variant";
    assert_eq!(
        shown(&previewed(&[listed("s", "7f", &[("a", &["x"])])], &[hand])),
        [format!("create s-a-x: {contended} \"by-hand\"")]
    );
    let [one, two] = [("one", "1"), ("two", "2")].map(|(name, uid)| listed(name, uid, &[("a", &["x"])]));
    assert_eq!(
        shown(&previewed(&[two.clone(), one.clone()], &[])),
        ["create one-a-x".to_owned(), format!("create two-a-x: {contended} \"one-a-x\"")]
    );
    let left = listed("two", "2", &[("b", &["x"])]);
    assert_eq!(
        shown(&previewed(&[one, left], &made(&[two]))),
        ["create one-a-x", "create two-b-x", "delete two-a-x"],
        "it moves from one set to the other"
    );
}

/// The name of a variant to be deleted is not free yet.
#[test]
fn names_are_taken_by_what_is_there() {
    let variants = made(&[listed("s", "7f", &[("a", &["b-c"])])]);
    let other = listed("s-a", "8a", &[("b", &["c"])]);
    let gone = listed("s", "7f", &[("b", &["x"])]);
    let lines = shown(&previewed(&[gone, other], &variants));
    let hashed = crate::hashed_name("s-a", "b", "c");
    assert_eq!(lines, ["create s-b-x".to_owned(), "delete s-a-b-c".to_owned(), format!("create {hashed}")]);
}

/// A set in a file has no UID; it is taken from the set's variants.
#[test]
fn sets_from_files() {
    let variants = made(&[listed("s", "7f", &[("a", &["x"])])]);
    let from_file = [listed("s", "", &[("a", &["x"])])];
    assert_eq!(shown(&previewed(&from_file, &variants)), ["leave s-a-x"]);
    assert_eq!(shown(&previewed(&from_file, &[])), ["create s-a-x"]);
    let mut mixed = [variants.clone(), made(&[listed("s", "8a", &[("b", &["x"])])])].concat();
    mixed.rotate_left(1);
    let lines = shown(&previewed(&from_file, &mixed));
    assert!(lines[0].starts_with("create s-a-x-"), "two sets had the name: {lines:?}");
}

#[test]
fn a_variant_without_owner_and_one_that_is_going() {
    let sets = [listed("s", "7f", &[("a", &["x", "y"])])];
    let mut variants = made(&sets);
    variants[0].metadata.owner_references = None;
    variants[1].metadata.deletion_timestamp = variants[1].metadata.creation_timestamp.clone();
    let lines = shown(&previewed(&sets, &variants));
    assert!(lines[0].starts_with("change s-a-x: metadata.ownerReferences - [{"), "{lines:?}");
    assert_eq!(lines[1..], ["going s-a-y"]);
}

/// Each difference in the outcome changes the hash; unread data does not.
#[test]
fn the_hash_is_of_what_matters() {
    let lock = |commit: &str| json!({"selfLock": {"git": {"commit": commit}}});
    let foo = |commit| with_status(revision("catalog/foo:v1", 1, "Published"), &lock(commit));
    let sets = [listed("s", "7f", &[("a", &["x"])])];
    let variants = made(&[listed("s", "7f", &[("a", &["y"])])]);
    let hash = |sets: &[PackageVariantSet], commit, variants: &[PackageVariant]| {
        previewed_with(sets, Some(&[foo(commit)]), variants).hash
    };
    let before = hash(&sets, "c1", &variants);
    assert_eq!(before.len(), 64);
    assert_ne!(before, hash(&sets, "c2", &variants), "the upstream is another one");
    assert_ne!(before, hash(&sets, "c1", &[]), "nothing is deleted");
    let mut labelled = sets.clone();
    labelled[0].spec.targets[0].template = serde_json::from_value(json!({"labels": {"a": "b"}})).unwrap();
    labelled[0].spec.targets[0].repositories =
        serde_json::from_value(json!([{"name": "a", "packageNames": ["x"]}])).unwrap();
    assert_ne!(before, hash(&labelled, "c1", &variants), "the variant is another one");
    let mut relabelled = (sets.clone(), variants.clone());
    relabelled.0[0].metadata.resource_version = Some("9".to_owned());
    relabelled.1[0].metadata.labels.get_or_insert_default().insert("mine".to_owned(), "yes".to_owned());
    assert_eq!(before, hash(&relabelled.0, "c1", &relabelled.1));
}

/// Generates sets for two repositories, with or without a template, and variants that users have
/// edited.
fn targets() -> impl Strategy<Value = Value> {
    let packages = proptest::collection::btree_set("[w-z]", 1..4);
    let entry =
        ("[ab]", packages).prop_map(|(name, packages)| json!({"name": name, "packageNames": packages}));
    let template = proptest::option::of(
        ("[pq]", "(orphan|delete)")
            .prop_map(|(label, policy)| json!({"labels": {"l": label}, "deletionPolicy": policy})),
    );
    let target = (proptest::collection::vec(entry, 1..3), template).prop_map(|(entries, template)| {
        let mut target = json!({"repositories": entries});
        if let Some(template) = template {
            target["template"] = template;
        }
        target
    });
    proptest::collection::vec(target, 0..3).prop_map(Value::Array)
}

fn meddled(mut variants: Vec<PackageVariant>, how: &[u8]) -> Vec<PackageVariant> {
    for (variant, how) in variants.iter_mut().zip(how) {
        match how {
            0 => variant.metadata.owner_references = None,
            1 => variant.spec.deletion_policy = Some("orphan".to_owned()),
            2 => variant.metadata.labels = None,
            3 => variant.labels_mut().extend([(OWNER_LABEL.to_owned(), "other".to_owned())]),
            4 => variant.spec.downstream = None,
            _ => {}
        }
    }
    variants
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// After the changes of a preview, the next one is empty. The order of the inputs does not
    /// matter.
    #[test]
    fn the_planned_world_is_settled(
        before in (targets(), targets()),
        now in (targets(), targets()),
        how in proptest::collection::vec(0u8..9, 12),
    ) {
        let sets = |(one, two): &(Value, Value)| [set("s", "1", one), set("s-a", "2", two)];
        let variants = meddled(made(&sets(&before)), &how);
        let sets = sets(&now);
        let first = previewed(&sets, &variants);
        let (mut other_sets, mut other_variants) = (sets.clone(), variants.clone());
        other_sets.reverse();
        other_variants.reverse();
        prop_assert_eq!(&previewed(&other_sets, &other_variants).hash, &first.hash);

        let settled = previewed(&sets, &after(&variants, &first));
        prop_assert!(settled.is_empty(), "{:?}", shown(&settled));
        if first.is_empty() {
            prop_assert_eq!(settled.hash, first.hash);
        } else {
            prop_assert_ne!(settled.hash, first.hash);
        }
    }
}
