use std::fmt::Debug;

use serde_json::{Map, Value, json};

use super::*;
use crate::metadata::{annotation, label};

/// Function that prints everything that a view reads from a snapshot.
type Reader = fn(&Snapshot) -> String;

const READERS: &[(&str, Reader)] = &[
    ("Installation", |snapshot| text(&Installation(snapshot))),
    ("Execution", |snapshot| text(&Execution(snapshot))),
    ("DeployItem", |snapshot| text(&DeployItem(snapshot))),
    ("TargetSync", |snapshot| text(&TargetSync(snapshot))),
    ("Context", |snapshot| text(&Context(snapshot))),
    ("PackageVariantSet", |snapshot| text(&PackageVariantSet(snapshot))),
    ("PackageVariant", |snapshot| text(&PackageVariant(snapshot))),
    ("PackageRevisionSet", |snapshot| text(&PackageRevisionSet(snapshot))),
    ("Repository", |snapshot| text(&Repository(snapshot))),
];

/// Fields that are published although no view reads them; users see them in `groundwork events`.
const FOR_PEOPLE: &[(&str, &str)] = &[
    ("Execution", "spec.context"),
    ("DeployItem", "spec.context"),
    ("DeployItem", "spec.target.name"),
    ("DeployItem", "status.exportRef.name"),
    ("TargetSync", "spec.sourceNamespace"),
    ("TargetSync", "spec.secretRef.name"),
    ("Context", "ocmConfig.name"),
    ("Context", "registryPullSecrets[].name"),
    ("PackageVariantSet", "spec.targets[].objectSelector.kind"),
    ("PackageVariantSet", "status.observedGeneration"),
];

fn text(view: &dyn Debug) -> String {
    format!("{view:?}")
}

fn fields_of(kind: &str) -> &'static [&'static str] {
    WATCHED.iter().find(|watched| watched.kind == kind).unwrap().fields
}

fn of(fields: Map<String, Value>) -> Snapshot {
    Snapshot { fields, ..Snapshot::default() }
}

/// Returns a snapshot of an object with this content, as the watcher publishes it.
fn published(kind: &str, content: &Value) -> Snapshot {
    of(project(fields_of(kind), content))
}

/// Returns an object with a single value at a path.
fn only(path: &str, leaf: &Value) -> Value {
    let Some((step, rest)) =
        path.split_once('.').map(|(step, rest)| (step, Some(rest))).or(Some((path, None)))
    else {
        return Value::Null;
    };
    let inner = rest.map_or_else(|| leaf.clone(), |rest| only(rest, leaf));
    match (step.strip_suffix("[]"), step.strip_suffix("{}")) {
        (Some(name), _) => json!({ name: [inner] }),
        (_, Some(name)) => json!({ name: {} }),
        _ => json!({ step: inner }),
    }
}

#[test]
fn every_published_field_is_read_or_for_people() {
    let leaves = [json!("2026-01-01T00:00:00Z"), json!("5m"), json!(7), json!(true)];
    for watched in WATCHED.iter().filter(|watched| !watched.fields.is_empty()) {
        let (_, read) = READERS.iter().find(|(kind, _)| *kind == watched.kind).unwrap();
        for field in watched.fields {
            let read_with = |leaf: &Value| read(&published(watched.kind, &only(field, leaf)));
            // The list around a field is visible even without the field, so compare with `null` in
            // its place.
            let without =
                if field.ends_with("{}") { read(&Snapshot::default()) } else { read_with(&Value::Null) };
            let seen = leaves.iter().any(|leaf| read_with(leaf) != without);
            let is_for_people = FOR_PEOPLE.contains(&(watched.kind, *field));
            assert_eq!(seen, !is_for_people, "{} {field}", watched.kind);
        }
    }
}

#[test]
fn the_guide_lists_what_is_published() {
    let guide = include_str!("../../../../docs/observe.md");
    let section = guide.split("## What an event shows").nth(1).unwrap().split("\n## ").next().unwrap();
    let mut told = section.split("\n- **").skip(1).map(|entry| {
        let (kind, rest) = entry.split_once("**").unwrap();
        (kind, rest.split('`').skip(1).step_by(2).collect::<Vec<_>>())
    });
    for watched in WATCHED.iter().filter(|watched| !watched.fields.is_empty()) {
        assert_eq!(told.next(), Some((watched.kind, watched.fields.to_vec())));
    }
    assert_eq!(told.next(), None);
}

#[test]
fn nothing_is_read_that_is_not_published() {
    let import = json!({"name": "n", "dataRef": "d", "secretRef": {"name": "s", "key": "k"},
        "configMapRef": {"name": "c", "key": "k"}, "version": "v1"});
    let targets = json!({"name": "n", "target": "t", "targets": ["a", {"k": "b"}], "targetMap": {"k": "c"},
        "targetMaps": {"k": "d"}, "targetListRef": "l", "targetMapRef": "m"});
    let status = json!({"phase": "Init", "jobID": "j", "jobIDFinished": "i", "observedGeneration": 3,
        "executionRef": {"name": "e", "namespace": "n"}, "dependentsToTrigger": [{"name": "x"}],
        "conditions": [{"type": "Ready", "status": "True"}],
        "automaticReconcileStatus": {"generation": 1, "numberOfReconciles": 2, "onFailed": true,
            "lastReconcileTime": "2026-01-01T00:00:00Z"},
        "jobIDGenerationTime": "2026-01-01T00:00:00Z", "lastReconcileTime": "2026-01-01T00:00:00Z",
        "lastUpdateTime": "2026-01-01T00:00:00Z"});
    let schedule = json!({"interval": "5m", "cronSpec": "@hourly", "numberOfReconciles": 3});
    let whole = json!({
        "spec": {
            "context": "c", "type": "t", "upstream": {"repo": "r", "package": "p", "packageRevisionSet": "s"},
            "upstreams": [{"repo": "r", "package": "p"}, {"packageRevisionSet": "s"}],
            "componentDescriptor": {"ref": {"componentName": "n", "version": "v", "repositoryContext": {"a": 1}}},
            "blueprint": {"ref": {"resourceName": "r"}},
            "imports": {"data": [import, {}], "targets": [targets, {"name": "n", "targets": []}]},
            "exports": {"data": [{"name": "n", "dataRef": "d"}], "targets": [{"name": "n", "target": "t"}]},
            "automaticReconcile": {"succeededReconcile": schedule, "failedReconcile": schedule},
            "optimization": {"hasNoSiblingImports": true, "hasNoSiblingExports": true},
            "targets": [{"objectSelector": {"apiVersion": "g/v1", "kind": "K"}}, {}],
        },
        "status": status,
        "componentVersionOverwrites": "o",
    });
    for (kind, read) in READERS {
        let seen = read(&published(kind, &whole));
        assert_eq!(seen, read(&of(whole.as_object().unwrap().clone())), "{kind}");
        assert_ne!(seen, read(&Snapshot::default()), "{kind}");
    }
}

#[test]
fn what_an_installation_imports_and_exports() {
    let snapshot = published(
        "Installation",
        &json!({"spec": {
            "imports": {
                "data": [{"name": "a", "dataRef": "d"}, {"name": "b", "secretRef": {"name": "s"}},
                    {"name": "c", "configMapRef": {"name": "m"}}, {"name": "d", "dataRef": "#hand"}],
                "targets": [{"name": "e", "target": "one"}, {"name": "f", "targets": ["two", "#hand"]},
                    {"name": "g", "targets": [{"k": "three"}, {"l": "four"}]}, {"name": "h", "targetMap": {"k": "five"}},
                    {"name": "i", "targetMaps": {"k": "six"}}, {"name": "j", "targetListRef": "up"},
                    {"name": "k", "targetMapRef": "up"}, {"name": "l", "targets": [{}, 5, null]}],
            },
            "exports": {"data": [{"name": "a", "dataRef": "out"}, {"name": "odd"}],
                "targets": [{"name": "b", "target": "cluster"}]},
        }}),
    );
    let view = Installation(&snapshot);
    assert_eq!(view.imported_data().collect::<Vec<_>>(), ["d"]);
    assert_eq!(view.imported_targets().collect::<Vec<_>>(), ["one", "two", "three", "four", "five", "six"]);
    assert_eq!(view.exported_data().collect::<Vec<_>>(), ["out"]);
    assert_eq!(view.exported_targets().collect::<Vec<_>>(), ["cluster"]);
    let imports = view.data_imports();
    assert_eq!((imports[1].secret(), imports[2].config_map(), imports[3].data_ref()), ("s", "m", "#hand"));
    assert_eq!(view.target_imports()[5].list_ref(), "up");
    assert_eq!(view.target_imports()[6].map_ref(), "up");
    assert_eq!(view.context(), "default");
    assert!(!view.has_no_sibling_imports() && view.succeeded_reconcile().is_none());
}

#[test]
fn schedules() {
    let reconcile =
        json!({"succeededReconcile": {}, "failedReconcile": {"interval": "15m", "numberOfReconciles": 0}});
    let counted = json!({"generation": 2, "numberOfReconciles": 1, "onFailed": true,
        "lastReconcileTime": "2026-01-01T00:00:00Z"});
    let snapshot = published(
        "Installation",
        &json!({"spec": {"automaticReconcile": reconcile}, "status": {"automaticReconcileStatus": counted}}),
    );
    let view = Installation(&snapshot);
    let succeeded = view.succeeded_reconcile().expect("an empty one switches it on");
    assert_eq!((succeeded.interval(), succeeded.cron_spec()), (None, ""));
    let failed = view.failed_reconcile().unwrap();
    assert_eq!(failed.interval(), Some(crate::Duration::from_secs(900)));
    assert_eq!(failed.number_of_reconciles(), Some(0));
    let status = view.reconcile_status().unwrap();
    assert_eq!((status.generation(), status.number_of_reconciles()), (Some(2), Some(1)));
    assert!(status.on_failed());
    assert_eq!(status.last_reconcile_time().unwrap().to_string(), "2026-01-01T00:00:00Z");
}

#[test]
fn what_metadata_says() {
    let text = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let owner = |api_version: &str, kind: &str| Owner {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: "parent".to_owned(),
        ..Owner::default()
    };
    let child = Snapshot {
        generation: Some(2),
        labels: [(label::ENCOMPASSED_BY, "parent")].iter().map(text).collect(),
        annotations: [
            (annotation::SUBINSTALLATION_NAME, "sub"),
            (annotation::OPERATION, "reconcile"),
            (annotation::RECONCILE_REASON, "retry"),
            (annotation::RECONCILE_IF_CHANGED, "True"),
        ]
        .iter()
        .map(text)
        .collect(),
        owner_references: vec![
            owner("other/v1", "Installation"),
            owner("landscaper.gardener.cloud/v9", "Installation"),
        ],
        ..Snapshot::default()
    };
    let view = Installation(&child);
    assert_eq!(view.parent(), child.owner_references.get(1), "in whatever version");
    assert_eq!((view.encompassed_by(), view.template_name()), ("parent", "sub"));
    assert_eq!(view.operation(), Some("reconcile"));
    assert!(view.is_retry() && !view.follows_spec(), "only `true` switches on");
    assert!(!view.is_observed());
    assert_eq!(Installation(&Snapshot::default()).parent(), None);
    let copy = Snapshot {
        labels: [
            (label::DATA_CONTEXT, "s"),
            (label::DATA_KEY, "k"),
            (label::DATA_SOURCE, "p"),
            (label::DATA_SOURCE_TYPE, "export"),
            (label::DATA_JOB_ID, "j"),
            (label::DATA_INDEX, "2"),
            (label::DATA_TARGET_MAP_KEY, "m"),
        ]
        .iter()
        .map(text)
        .collect(),
        annotations: [(annotation::DATA_HASH, "h")].iter().map(text).collect(),
        ..Snapshot::default()
    };
    let data = Data(&copy);
    assert_eq!((data.scope(), data.key(), data.source(), data.source_type()), ("s", "k", "p", "export"));
    assert_eq!((data.job_id(), data.index(), data.hash()), ("j", Some(2), "h"));
    assert_eq!(data.target_map_key().map(String::as_str), Some("m"));
    assert_eq!(Data(&Snapshot::default()).index(), None);
}

#[test]
fn pick_up() {
    let since = |status: Value| {
        let snapshot = published("DeployItem", &json!({ "status": status }));
        DeployItem(&snapshot).waits_since().map(|since| since.to_string())
    };
    let time = "2026-01-01T00:00:00Z";
    let waits = json!({"jobID": "b", "jobIDFinished": "a", "jobIDGenerationTime": time});
    assert_eq!(since(waits.clone()).as_deref(), Some(time));
    let with = |field: &str, value: &str| {
        let mut status = waits.clone();
        status[field] = json!(value);
        since(status)
    };
    assert_eq!(with("lastReconcileTime", "2025-12-31T00:00:00Z").as_deref(), Some(time), "of another job");
    assert_eq!(with("lastReconcileTime", time), None, "picked up in the same second");
    assert_eq!(with("jobIDFinished", "b"), None);
    assert_eq!(with("jobIDGenerationTime", "no time"), None);
    assert_eq!(since(Value::Null), None);
}

/// A structure in the place of a name is not shown, and does not make a view fail.
#[test]
fn odd_content() {
    for odd in [json!(null), json!("x"), json!(5), json!([]), json!([[]]), json!({}), json!({"a": {"b": []}})]
    {
        for (kind, read) in READERS {
            for field in fields_of(kind) {
                let parts: Vec<&str> = field.split('.').collect();
                for end in 1..=parts.len() {
                    let content = only(&parts[..end].join("."), &odd);
                    assert_eq!(
                        read(&published(kind, &content)),
                        read(&of(content.as_object().cloned().unwrap_or_default())),
                        "{kind} {content}"
                    );
                }
            }
        }
    }
}
