use std::collections::BTreeMap;

use groundwork_api::view::{Owner, Snapshot, WATCHED, project};
use groundwork_bus::SyncMarker;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

/// Returns the stream's event for an object.
pub(crate) fn shown<K: groundwork_api::Kind>(name: &str, object: &Value) -> Feed {
    let watched = WATCHED.iter().find(|watched| watched.kind == K::KIND).unwrap();
    let texts = |field: &str| -> BTreeMap<String, String> {
        let members = object["metadata"][field].as_object().into_iter().flatten();
        members.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect()
    };
    let owners = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let owners = owners.map(|owner| Owner {
        api_version: owner["apiVersion"].as_str().unwrap().to_owned(),
        kind: owner["kind"].as_str().unwrap().to_owned(),
        name: owner["name"].as_str().unwrap().to_owned(),
        uid: owner["uid"].as_str().unwrap_or("u").to_owned(),
        ..Owner::default()
    });
    let snapshot = Snapshot {
        uid: format!("uid-{name}"),
        resource_version: "7".to_owned(),
        labels: texts("labels"),
        annotations: texts("annotations"),
        owner_references: owners.collect(),
        fields: project(watched.fields, object),
        ..Snapshot::default()
    };
    event::<K>(name, Change::Applied(snapshot))
}

fn event<K: groundwork_api::Kind>(name: &str, change: Change) -> Feed {
    let object = ObjectId::new(Kind::of::<K>(), Some("team"), name);
    let record =
        Record::Object(Event { object, change, trace: None, replay: None, time: Timestamp::UNIX_EPOCH });
    Feed::Record { position: 1, record }
}

fn gone<K: groundwork_api::Kind>(name: &str) -> Feed {
    event::<K>(name, Change::Deleted(Snapshot { resource_version: "8".to_owned(), ..Snapshot::default() }))
}

/// An Installation whose job is in a phase. The job has ended unless the phase is one in which work
/// is done.
pub(crate) fn installation(name: &str, phase: &str, parent: Option<&str>, spec: &Value) -> Feed {
    let is_over = matches!(phase, "Succeeded" | "Failed");
    let mut object = json!({
        "spec": spec,
        "status": {"phase": phase, "jobID": "j", "jobIDFinished": if is_over { "j" } else { "i" },
            "transitionTimes": {"triggerTime": "2026-01-01T00:00:00Z", "finishedTime": "2026-01-01T00:00:05Z"}},
    });
    if let Some(parent) = parent {
        object["metadata"]["ownerReferences"] = json!([{"apiVersion": "landscaper.gardener.cloud/v1alpha1",
            "kind": "Installation", "name": parent}]);
    }
    shown::<Installation>(name, &object)
}

/// Returns a spec that imports and exports data of these names.
pub(crate) fn flows(imports: &[&str], exports: &[&str]) -> Value {
    let list = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({"name": name, "dataRef": name})).collect()
    };
    json!({"imports": {"data": list(imports)}, "exports": {"data": list(exports)}})
}

/// Returns a landscape that has read these events.
pub(crate) fn landscape(feeds: &[Feed]) -> (Landscape, Filler) {
    let (landscape, filler) = Landscape::new(Vec::new());
    filler.take(&Feed::Reset);
    feeds.iter().for_each(|feed| filler.take(feed));
    (landscape, filler)
}

pub(crate) fn place(name: &str) -> NamespacedName {
    NamespacedName::new("team", name)
}

fn names(places: impl IntoIterator<Item = NamespacedName>) -> Vec<String> {
    places.into_iter().map(|place| place.name.to_string()).collect()
}

#[test]
fn objects_come_change_and_go() {
    let item = json!({"metadata": {"labels": {"execution.landscaper.gardener.cloud/managed-by": "shop",
        "execution.landscaper.gardener.cloud/name": "web"}}, "spec": {"type": "mock"}});
    let (landscape, filler) = landscape(&[
        installation("shop", "Progressing", None, &json!({})),
        installation("shop-db", "Failed", Some("shop"), &json!({})),
        shown::<Execution>("shop", &json!({"status": {"phase": "Progressing", "jobID": "j"}})),
        shown::<DeployItem>("shop-web-1", &item),
    ]);
    let item = ObjectId::new(Kind::of::<DeployItem>(), Some("team"), "shop-web-1");
    {
        let content = landscape.read();
        let row = &content.installations[&place("shop-db")];
        assert_eq!((row.job.state, row.job.elapsed(Timestamp::now()).unwrap().as_secs()), (State::Failed, 5));
        assert_eq!(content.installations[&place("shop")].job.ended, None, "it runs");
        assert_eq!(names(content.children(&place("shop")).into_iter().map(|found| found.0)), ["shop-db"]);
        let items = content.items_of(&place("shop"));
        assert_eq!((&*items[0].1.template, &*items[0].1.type_), ("web", "mock"));
        assert_eq!(names(content.roots(&item)), ["shop"]);
        assert_eq!(content.events.len(), 4);
    }
    filler.take(&gone::<Installation>("shop-db"));
    filler.take(&gone::<DeployItem>("shop-web-1"));
    let content = landscape.read();
    assert!(content.children(&place("shop")).is_empty() && content.items_of(&place("shop")).is_empty());
    assert!(content.children.is_empty() && content.items_of.is_empty(), "nothing is kept of what is gone");
    assert_eq!(content.events.back().unwrap().resource_version, None);
}

#[test]
fn owners_in_a_circle_end() {
    let (landscape, _filler) = landscape(&[
        installation("a", "Failed", Some("b"), &json!({})),
        installation("b", "Failed", Some("a"), &json!({})),
    ]);
    let object = ObjectId::new(Kind::of::<Installation>(), Some("team"), "a");
    assert_eq!(names(landscape.read().roots(&object)), ["a", "b"]);
}

#[test]
fn siblings_are_known() {
    let (landscape, _filler) = landscape(&[
        installation("db", "Succeeded", None, &flows(&[], &["url"])),
        installation("web", "Init", None, &flows(&["url"], &[])),
    ]);
    let content = landscape.read();
    assert_eq!(names(content.predecessors(&place("web"))), ["db"]);
    assert_eq!(names(content.successors(&place("db"))), ["web"]);
}

#[test]
fn variants_belong_to_their_sets() {
    let variant = |conditions: Value| {
        json!({"metadata": {"ownerReferences": [{"apiVersion": "config.porch.kpt.dev/v1alpha2",
            "kind": "PackageVariantSet", "name": "fleet", "uid": "uid-fleet"}]},
            "spec": {"upstream": {"repo": "r", "package": "p", "revision": 3}, "downstream": {"repo": "d", "package": "q"}},
            "status": {"conditions": conditions}})
    };
    let (landscape, _filler) = landscape(&[
        shown::<PackageVariantSet>(
            "fleet",
            &json!({"spec": {"upstream": {"repo": "r", "package": "p"}, "targets": [{}]}}),
        ),
        shown::<PackageVariant>(
            "one",
            &variant(json!([{"type": "Stalled", "status": "False"}, {"type": "Ready", "status": "True"}])),
        ),
        shown::<PackageVariant>("two", &variant(json!([{"type": "Stalled", "status": "True"}]))),
        shown::<PackageVariant>("three", &variant(json!([]))),
        shown::<PackageVariantSet>(
            "several",
            &json!({"spec": {"upstreams": [{"repo": "r", "package": "p"}, {"packageRevisionSet": "base"}]}}),
        ),
    ]);
    let content = landscape.read();
    let set = &content.sets[&place("fleet")];
    let states: Vec<_> =
        content.variants_of(set).map(|(place, row)| (place.name.to_string(), row.state)).collect();
    let expected =
        [("one", PackageState::Ready), ("three", PackageState::Pending), ("two", PackageState::Stalled)];
    assert_eq!(states, expected.map(|(name, state)| (name.to_owned(), state)));
    assert_eq!(&*content.variants[&place("one")].upstream, "r/p@3");
    assert_eq!((&*set.upstream, &*content.sets[&place("several")].upstream), ("r/p", "r/p, base"));
}

/// A reset of the stream empties the landscape, because objects may have been deleted unnoticed.
#[test]
fn a_reset_forgets_everything() {
    let (landscape, filler) = landscape(&[installation("shop", "Failed", None, &json!({}))]);
    for kind in row_kinds() {
        assert!(!landscape.is_complete());
        let marker = SyncMarker { kind, namespace: None, resource_version: "1".to_owned(), count: 1 };
        filler.take(&Feed::Record { position: 2, record: Record::Synced(marker) });
    }
    assert!(landscape.is_complete());
    filler.take(&Feed::Reset);
    assert!(!landscape.is_complete() && landscape.read().installations.is_empty());
}

/// The landscape keeps `MOST_EVENTS` events and drops older ones.
#[test]
fn events_are_kept_up_to_a_number() {
    let feeds: Vec<_> =
        (0..MOST_EVENTS + 5).map(|_| installation("shop", "Failed", None, &json!({}))).collect();
    let (landscape, _filler) = landscape(&feeds);
    assert_eq!(landscape.read().events.len(), MOST_EVENTS);
}

/// A page learns of changes between its making and its subscription, because it sends its position
/// along.
#[test]
fn a_position_tells_what_has_changed_since() {
    let (landscape, filler) = landscape(&[installation("shop", "Progressing", None, &json!({}))]);
    let before = landscape.position();
    assert_eq!(Position::parse(&before.to_string()), Some(before));
    for wrong in ["", "-", "1", "1-x", "-1-2-3"] {
        assert_eq!(Position::parse(wrong), None, "{wrong}");
    }
    assert_eq!(landscape.changed_since(before), Some(Vec::new()));
    filler.take(&installation("other", "Succeeded", None, &json!({})));
    let changed = ObjectId::new(Kind::of::<Installation>(), Some("team"), "other");
    assert_eq!(landscape.changed_since(before), Some(vec![changed]));

    let (another, _) = super::tests::landscape(&[]);
    let of_another_life = Position { life: before.life - 1, ..before };
    assert_eq!(landscape.changed_since(of_another_life), None);
    assert_eq!(
        another.changed_since(Position { taken: 100, ..another.position() }),
        None,
        "none is that far"
    );
    for _ in 0..MOST_EVENTS {
        filler.take(&installation("other", "Succeeded", None, &json!({})));
    }
    assert_eq!(landscape.changed_since(before), None, "too much has happened");
    let before = landscape.position();
    filler.take(&Feed::Reset);
    assert_eq!(landscape.changed_since(before), None, "what is gone is not told one by one");
}
