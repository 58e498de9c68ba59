use groundwork_bus::{Event, Feed, IndexPart, Record};
use serde_json::{Value, json};

use super::*;
use crate::Settings;
use groundwork_registry::NetworkOptions;
use groundwork_registry::sources::MapFile;

fn handler(arguments: &Settings) -> ResolverHandler {
    let contexts = Arc::new(DefaultContexts::new(arguments).unwrap());
    let map = MapFile::open(None, NetworkOptions::default()).unwrap();
    ResolverHandler {
        contexts,
        evaluators: Evaluators::Own,
        stores: Stores::new(map, None, Evaluators::Own, None),
    }
}

fn snapshot(generation: i64, fields: &Value) -> Snapshot {
    Snapshot {
        uid: "u".into(),
        resource_version: "1".into(),
        generation: Some(generation),
        fields: fields.as_object().unwrap().clone(),
        ..Snapshot::default()
    }
}

fn installation_fields(context: Option<&str>, job: &str, finished: &str) -> Value {
    let mut fields = json!({"status": {"jobID": job, "jobIDFinished": finished, "observedGeneration": 1}});
    if let Some(context) = context {
        fields["spec"] = json!({"context": context});
    }
    fields
}

struct World {
    index: Index,
    part: IndexPart,
    sequence: u64,
}

impl World {
    fn add(&mut self, kind: Kind, namespace: &str, name: &str, snapshot: Snapshot) {
        self.sequence += 1;
        let event = Event {
            object: ObjectId::new(kind, Some(namespace), name),
            change: Change::Applied(snapshot),
            trace: None,
            replay: None,
            time: Timestamp::UNIX_EPOCH,
        };
        self.part.apply(&Feed::Record { position: self.sequence, record: Record::Object(event) });
    }
}

fn world() -> World {
    let index = Index::new();
    let part = index.part(Vec::new());
    let mut world = World { index, part, sequence: 0 };
    let contexts = [
        ("team", "default", "rules"),
        ("team", "other", ""),
        ("team", "third", "rules"),
        ("b", "default", "rules"),
    ];
    for (namespace, name, overwrites) in contexts {
        let fields = json!({"componentVersionOverwrites": overwrites});
        world.add(Kind::of::<Context>(), namespace, name, snapshot(1, &fields));
    }
    for (namespace, name, context) in [
        ("team", "unnamed", None),
        ("team", "named", Some("default")),
        ("team", "others", Some("other")),
        ("team", "thirds", Some("third")),
        ("b", "foreign", None),
    ] {
        world.add(
            Kind::of::<Installation>(),
            namespace,
            name,
            snapshot(1, &installation_fields(context, "j", "j")),
        );
    }
    world.add(Kind::of::<Installation>(), "team", "new", snapshot(1, &json!({})));
    world
}

fn names(keys: &[Key]) -> Vec<&str> {
    keys.iter().map(|key| key.name.as_str()).collect()
}

#[test]
fn only_what_is_searched_is_held() {
    let handler = handler(&Settings::default());
    for (kind, is_held) in [
        (Kind::of::<Context>(), true),
        (Kind::of::<Installation>(), true),
        (Kind::of::<ComponentVersionOverwrites>(), false),
        (namespaces(), false),
    ] {
        let object = ObjectId::new(kind, Some("team"), "default");
        assert_eq!(handler.looks_up(&object, &Snapshot::default()), is_held, "{object}");
    }
}

#[test]
fn a_change_of_rules_concerns_those_who_use_them() {
    let (handler, world) = (handler(&Settings::default()), world());
    let keys = |kind: Kind, name: &str, change: &Change| {
        handler.keys(&ObjectId::new(kind, Some("team"), name), change, &world.index)
    };
    let changed = Change::Applied(snapshot(2, &json!({})));
    let deleted = Change::Deleted(Snapshot { resource_version: "2".into(), ..Snapshot::default() });
    for change in [&changed, &deleted] {
        assert_eq!(names(&keys(Kind::of::<Context>(), "default", change)), ["named", "unnamed"]);
        assert_eq!(names(&keys(Kind::of::<Context>(), "other", change)), ["others"]);
        assert_eq!(names(&keys(Kind::of::<Context>(), "unused", change)), [""; 0]);
        let users = keys(Kind::of::<ComponentVersionOverwrites>(), "rules", change);
        assert_eq!(names(&users), ["named", "unnamed", "thirds"]);
        assert!(
            users
                .iter()
                .all(|key| key.kind == Kind::of::<Installation>() && key.namespace.as_deref() == Some("team"))
        );
        assert_eq!(names(&keys(Kind::of::<ComponentVersionOverwrites>(), "unused", change)), [""; 0]);
    }
}

/// In 1,000 Installations with 50 Contexts, only those that use the changed overwrites object are
/// reconciled.
#[test]
fn a_change_of_rules_costs_what_it_concerns() {
    let index = Index::new();
    let part = index.part(Vec::new());
    let mut world = World { index, part, sequence: 0 };
    for context in 0..50 {
        let fields = json!({"componentVersionOverwrites": format!("rules-{context}")});
        world.add(Kind::of::<Context>(), "team", &format!("context-{context}"), snapshot(1, &fields));
    }
    for number in 0..1000 {
        let context = format!("context-{}", number % 50);
        let fields = installation_fields(Some(&context), "j", "j");
        world.add(Kind::of::<Installation>(), "team", &format!("i-{number}"), snapshot(1, &fields));
    }
    let changed = Change::Applied(snapshot(2, &json!({})));
    let rules = ObjectId::new(Kind::of::<ComponentVersionOverwrites>(), Some("team"), "rules-7");
    let keys = handler(&Settings::default()).keys(&rules, &changed, &world.index);
    let mut numbers: Vec<usize> = keys.iter().map(|key| key.name[2..].parse().unwrap()).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..20).map(|nth| 50 * nth + 7).collect::<Vec<_>>());
}

#[test]
fn a_change_of_the_spec_counts_between_jobs() {
    let (handler, world) = (handler(&Settings::default()), world());
    let object = ObjectId::new(Kind::of::<Installation>(), Some("team"), "named");
    let keys = |generation, job: &str, finished: &str| {
        let snapshot = snapshot(generation, &installation_fields(None, job, finished));
        handler.keys(&object, &Change::Applied(snapshot), &world.index).len()
    };
    assert_eq!(keys(2, "j", "j"), 1);
    assert_eq!(keys(1, "j", "j"), 0, "the last job worked on this spec");
    assert_eq!(keys(2, "k", "j"), 0, "a job runs");
    assert_eq!(keys(2, "", ""), 0, "there was no job");
    let mut leaving = snapshot(2, &installation_fields(None, "j", "j"));
    leaving.deletion_timestamp = Some("2026-01-01T00:00:00Z".into());
    assert_eq!(handler.keys(&object, &Change::Applied(leaving), &world.index), []);
}

#[test]
fn namespaces_get_contexts() {
    let arguments = Settings { exclude_namespaces: vec!["excluded".into()], ..Settings::default() };
    let (handler, index) = (handler(&arguments), Index::new());
    let there = Change::Applied(snapshot(1, &json!({})));
    let leaving = Snapshot { deletion_timestamp: Some("t".into()), ..Snapshot::default() };
    let gone = Change::Deleted(Snapshot { resource_version: "1".into(), ..Snapshot::default() });
    let keys =
        |name: &str, change: &Change| handler.keys(&ObjectId::new(namespaces(), None, name), change, &index);
    assert_eq!(keys("team", &there), [ObjectId::new(Kind::of::<Context>(), Some("team"), "default")]);
    assert_eq!(keys("excluded", &there), []);
    assert_eq!(keys("team", &Change::Applied(leaving)), []);
    assert_eq!(keys("team", &gone), []);
}

/// A default Context with a configured content is corrected after each edit.
#[test]
fn changed_default_contexts_are_put_right() {
    let demand = Some("{\"type\": \"ociRegistry\", \"baseUrl\": \"r\"}".to_owned());
    let exclude_namespaces = vec!["excluded".to_owned()];
    let demanding =
        Settings { default_repository_context: demand, exclude_namespaces, ..Settings::default() };
    let changed = Change::Applied(snapshot(1, &json!({})));
    let gone = Change::Deleted(Snapshot { resource_version: "1".into(), ..Snapshot::default() });
    let keys = |settings: &Settings, namespace: &str, name: &str, change: &Change| {
        let object = ObjectId::new(Kind::of::<Context>(), Some(namespace), name);
        handler(settings).keys(&object, change, &Index::new()).len()
    };
    assert_eq!(keys(&demanding, "team", "default", &changed), 1);
    assert_eq!(keys(&demanding, "team", "other", &changed), 0);
    assert_eq!(keys(&demanding, "excluded", "default", &changed), 0);
    assert_eq!(keys(&demanding, "team", "default", &gone), 0, "who deletes it may make another");
    assert_eq!(keys(&Settings::default(), "team", "default", &changed), 0, "nothing is demanded");
}

#[test]
fn at_the_start_jobs_and_namespaces_are_looked_at() {
    let handler = handler(&Settings::default());
    let installation = ObjectId::new(Kind::of::<Installation>(), Some("team"), "named");
    let namespace = ObjectId::new(namespaces(), None, "team");
    let key = |object: &ObjectId, snapshot: &Snapshot, is_initial_sync| {
        handler.schedule(object, snapshot, is_initial_sync).map(|(key, _)| key.name)
    };
    let (running, idle) = (
        snapshot(1, &installation_fields(None, "k", "j")),
        snapshot(1, &installation_fields(None, "j", "j")),
    );
    assert_eq!(key(&installation, &running, true).as_deref(), Some("named"));
    assert_eq!(key(&installation, &running, false), None);
    assert_eq!(key(&installation, &idle, true), None);
    assert_eq!(key(&namespace, &snapshot(1, &json!({})), true).as_deref(), Some("default"));
}

/// The replica that got the event of a namespace may die before it has created the Context, so
/// every replica checks later.
#[test]
fn every_replica_looks_at_a_new_namespace_later() {
    let handler = handler(&Settings::default());
    let namespace = ObjectId::new(namespaces(), None, "team");
    let (key, at) = handler.schedule(&namespace, &snapshot(1, &json!({})), false).unwrap();
    assert_eq!(key, ObjectId::new(Kind::of::<Context>(), Some("team"), "default"));
    assert!(at > Timestamp::now() + GRACE);
}
