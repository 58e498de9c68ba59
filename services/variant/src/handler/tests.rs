use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};

use groundwork_bus::{Event, Feed, IndexPart, Record};
use groundwork_controller::WorkError;
use groundwork_telemetry::Telemetry;
use serde_json::{Value, json};

use super::*;
use crate::shared::expansion_workers;

fn set(name: &str, fields: &Value) -> (ObjectId, Snapshot) {
    let id = ObjectId::new(Kind::of::<PackageVariantSet>(), Some("fleet"), name);
    (id, shown(fields))
}

fn shown(fields: &Value) -> Snapshot {
    Snapshot { fields: fields.as_object().cloned().unwrap_or_default(), ..Snapshot::default() }
}

/// Returns an index and the part that fills it.
fn index() -> (Index, IndexPart) {
    let index = Index::new();
    let part = index.part(vec![Kind::of::<PackageVariantSet>(), Kind::of::<PackageRevisionSet>()]);
    let sets = [
        set(
            "teams",
            &json!({"spec": {"upstream": {"repo": "catalog", "package": "net/dns"},
            "targets": [{}, {"objectSelector": {"apiVersion": "hr.example.org/v1", "kind": "Team"}}]}}),
        ),
        set(
            "maps",
            &json!({"spec": {"upstream": {"repo": "catalog", "package": "web"},
            "targets": [{"objectSelector": {"apiVersion": "v1", "kind": "ConfigMap"}}]}}),
        ),
        set("listed", &json!({"spec": {"upstream": {"packageRevisionSet": "base"}}})),
        set(
            "both",
            &json!({"spec": {"upstreams": [{"repo": "catalog", "package": "mail"}, {"packageRevisionSet": "base"}]}}),
        ),
        (
            ObjectId::new(Kind::of::<PackageRevisionSet>(), Some("fleet"), "base"),
            shown(&json!({"spec": {"upstreams": [{"repo": "catalog", "package": "log"}]}})),
        ),
    ];
    for (sequence, (object, snapshot)) in sets.into_iter().enumerate() {
        let time = Timestamp::UNIX_EPOCH;
        let event = Event { object, change: Change::Applied(snapshot), trace: None, replay: None, time };
        part.apply(&Feed::Record { position: sequence as u64 + 1, record: Record::Object(event) });
    }
    (index, part)
}

fn names(keys: &[Key]) -> Vec<&str> {
    keys.iter().map(|key| key.name.as_str()).collect()
}

#[test]
fn objects_concern_the_sets_that_select_them() {
    let object = |group: &str, plural: &str, namespace: &str, name: &str| {
        ObjectId::new(Kind::new(group, plural), Some(namespace), name)
    };
    let (index, _part) = index();
    let check = |object: &ObjectId, expected: &[&str]| {
        assert_eq!(names(&selecting(object, &index)), expected, "{object}");
    };
    check(&object("hr.example.org", "teams", "fleet", "a"), &["teams"]);
    check(&object("hr.example.org", "teams", "elsewhere", "a"), &[]);
    check(&object("", "configmaps", "fleet", "a"), &["maps"]);
    let revision = |name: &str| object("porch.kpt.dev", "packagerevisions", "fleet", name);
    assert_eq!(names(&upstream_of(&revision("catalog.net.dns.v1"), &index)), ["teams"]);
    assert_eq!(names(&upstream_of(&revision("catalog.webshop.v1"), &index)), Vec::<&str>::new());
    assert_eq!(names(&upstream_of(&revision("catalog.mail.v1"), &index)), ["both"]);
    assert_eq!(names(&upstream_of(&revision("catalog.log.v1"), &index)), ["both", "listed"]);
    let list = |name: &str| object("config.porch.kpt.dev", "packagerevisionsets", "fleet", name);
    assert_eq!(names(&referring(&list("base"), &index)), ["both", "listed"]);
    assert_eq!(names(&referring(&list("other"), &index)), Vec::<&str>::new());
    assert_eq!(sets_in(&object("config.porch.kpt.dev", "repositories", "fleet", "a"), &index).len(), 4);
}

#[test]
fn variants_that_ask_for_something() {
    let of = |finalizer: bool, generation: i64, observed: i64, deleted: bool| Snapshot {
        finalizers: if finalizer { vec![FINALIZER.to_owned()] } else { Vec::new() },
        generation: Some(generation),
        deletion_timestamp: deleted.then(|| "2026-01-01T00:00:00Z".to_owned()),
        labels: BTreeMap::new(),
        fields: json!({"status": {"observedGeneration": observed}}).as_object().cloned().unwrap_or_default(),
        ..Snapshot::default()
    };
    assert!(!needs_work(&of(true, 1, 1, false)));
    assert!(needs_work(&of(true, 2, 1, false)) && needs_work(&of(false, 1, 1, false)));
    assert!(needs_work(&of(true, 1, 1, true)) && !needs_work(&of(false, 1, 1, true)));
}

/// Expansions that run beyond their time limit give their slot back, and the service reports that
/// it is not ready while there are many of them.
#[tokio::test]
async fn readiness_tells_of_expansions_that_run_on() {
    let health = Telemetry::silent("test").health;
    let workers = expansion_workers(&health).within(Duration::from_millis(100));
    assert!(health.is_ready());
    let (go, gate) = channel::<()>();
    let gate = Arc::new(Mutex::new(gate));
    let (mut given_up, mut runs_on) = (0, true);
    while runs_on {
        let gate = Arc::clone(&gate);
        let work = move || _ = gate.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match workers.run(work).await {
            Err(WorkError::TimedOut(_)) => given_up += 1,
            answer => assert_eq!(answer, Err(WorkError::Overloaded(given_up))),
        }
        runs_on = health.is_ready();
    }
    assert!(health.problems()[0].starts_with("expanding: "), "{:?}", health.problems());
    drop(go);
    health.until(true).await;
}

/// A set whose expansion takes too long is not retried at once: its status gives the reason, and
/// the next attempt is minutes away.
#[test]
fn what_takes_too_long_is_told_in_the_status() {
    let told = crate::inputs::given_up(true, "it took longer than 30 s and was abandoned").unwrap();
    assert_eq!(told.reason(), "UnexpectedError");
    assert_eq!(
        told.to_string(),
        "expanding the set: it took longer than 30 s and was abandoned; select less, or split the set"
    );
    assert!(crate::inputs::given_up(false, "a process died").is_err(), "another attempt may succeed");
}
