//! Single cases of plans.

use serde_json::{Value, json};

use super::support::{
    NAMESPACE, NoRepositories, asking, blueprint, installation, object, owned, planned, planned_with,
};
use groundwork_blueprint::Capabilities;

use crate::{Change, Environment, Landscape, Plan, PlannedInstallation, Reads, Reason, Start, plan};

const MOCK: &str = "landscaper.gardener.cloud/mock";
const HELM: &str = "landscaper.gardener.cloud/helm";

fn refs(names: &[&str]) -> Value {
    names.iter().map(|name| json!({"name": name, "dataRef": name})).collect()
}

/// Returns an Installation that imports `seed` and exports `one`.
fn first(size: i32) -> groundwork_api::Installation {
    let config = format!("size: {size}, export: {{got: '{{{{ .imports.seed }}}}'}}");
    let blueprint = blueprint(
        &["seed"],
        &[("item", MOCK, &config)],
        &[("one", "'first({{ .values.deployitems.item.got }})'")],
    );
    installation("first", &blueprint, &refs(&["seed"]), &["one"])
}

/// Returns an Installation that imports `one`.
fn second() -> groundwork_api::Installation {
    let blueprint = blueprint(&["one"], &[("server", MOCK, "of: '{{ .imports.one }}'")], &[]);
    installation("second", &blueprint, &refs(&["one"]), &[])
}

fn pair() -> Landscape {
    Landscape::default()
        .with_data("seed", &json!("corn"))
        .with([first(1), second()])
        .run(&["first", "second"])
}

fn named<'p>(plan: &'p Plan, name: &str) -> &'p PlannedInstallation {
    plan.installations.iter().find(|planned| planned.name.as_deref() == Some(name)).unwrap()
}

fn fields(planned: &[crate::Field]) -> Vec<String> {
    let value = |value: &Option<Value>| value.as_ref().map_or("-".to_owned(), Value::to_string);
    planned
        .iter()
        .map(|field| format!("{} {} {}", field.path, value(&field.old), value(&field.new)))
        .collect()
}

#[test]
fn what_is_there_changes_nothing() {
    let plan =
        planned(&pair(), &Landscape::default().with([first(1), second()]).with_data("seed", &json!("corn")));
    assert!(plan.is_empty(), "{plan:#?}");
    assert!(plan.applied.iter().all(|object| object.change == Change::Unchanged));
}

/// A requested job runs even without a change, and triggers the Installations that import from it.
#[test]
fn a_request_runs_jobs() {
    let plan = planned(&pair(), &Landscape::default().with([asking(first(1))]));
    let (first, second) = (named(&plan, "first"), named(&plan, "second"));
    assert_eq!((first.start, &first.reasons[..]), (Some(Start::Now), &[Reason::Requested][..]));
    assert_eq!((first.items[0].change, first.exports[0].change), (Change::Unchanged, Change::Unchanged));
    assert_eq!(first.exports[0].wakes, ["second"]);
    let reasons = [Reason::PredecessorsRun { predecessors: vec!["first".to_owned()] }];
    assert_eq!((second.start, &second.reasons[..]), (Some(Start::AfterPredecessors), &reasons[..]));
}

/// A value flows through exports to their importers, and the applied objects request no job.
#[test]
fn values_flow() {
    let plan = planned(&pair(), &Landscape::default().with_data("seed", &json!("rye")));
    let (first, second) = (named(&plan, "first"), named(&plan, "second"));
    assert_eq!(first.start, Some(Start::NextJob));
    assert_eq!(
        first.reasons,
        [Reason::ImportChanged {
            import: "seed".to_owned(),
            from: "DataObject seed".to_owned(),
            exporter: None
        }]
    );
    assert_eq!(fields(&first.items[0].fields), [r#"spec.config.export.got "corn" "rye""#]);
    assert_eq!(first.exports[0].change, Change::Changed);
    assert_eq!(fields(&first.exports[0].fields), [r#"data "first(corn)" "first(rye)""#]);
    assert!(
        matches!(&second.reasons[0], Reason::ImportChanged { exporter: Some(first), .. } if first == "first")
    );
    // The origin of another job's export is unknown, so its value counts as secret.
    assert_eq!(fields(&second.items[0].fields), [r#"spec.config.of "first(corn)" "first(rye)""#]);
}

#[test]
fn items_come_and_go() {
    let blueprint = blueprint(&["seed"], &[("other", MOCK, "size: 2")], &[("two", "x")]);
    let changed = installation("first", &blueprint, &refs(&["seed"]), &["two"]);
    let plan = planned(&pair(), &Landscape::default().with([asking(changed)]));
    let first = named(&plan, "first");
    let items: Vec<_> = first.items.iter().map(|item| (item.template.as_str(), item.change)).collect();
    assert_eq!(items, [("other", Change::Created), ("item", Change::Deleted)]);
    assert!(first.items[0].name.as_ref().is_some_and(|name| name.starts_with("first-other-")));
    let exports: Vec<_> = first.exports.iter().map(|export| (export.name.as_str(), export.change)).collect();
    assert_eq!(exports, [("two", Change::Created), ("one", Change::Deleted)]);
    assert_eq!(first.exports[1].wakes, ["second"]);
    // The import fails, because its exporter no longer publishes it.
    let second = named(&plan, "second");
    assert!(second.error.as_ref().is_some_and(|error| error.contains("one")), "{second:?}");
    assert_eq!(second.items[0].change, Change::Unchanged);
}

/// A value that only a deployer knows is unknown, and so are the results that depend on it. Other
/// results are known.
#[test]
fn deployers_know_more() {
    let exporter = |size: i32| {
        let blueprint = blueprint(
            &[],
            &[("chart", HELM, &format!("size: {size}, export: {{url: u}}"))],
            &[("one", "{{ .values.deployitems.chart.url }}"), ("fixed", "f")],
        );
        installation("first", &blueprint, &json!([]), &["one", "fixed"])
    };
    let importer = {
        let blueprint = blueprint(&["fixed"], &[("third", MOCK, "of: '{{ .imports.fixed }}'")], &[]);
        installation("third", &blueprint, &refs(&["fixed"]), &[])
    };
    let present =
        Landscape::default().with([exporter(1), second(), importer]).run(&["first", "second", "third"]);
    let plan = planned(&present, &Landscape::default().with([asking(exporter(2))]));
    let first = named(&plan, "first");
    let exports: Vec<_> = first.exports.iter().map(|export| (export.key.as_str(), export.change)).collect();
    assert_eq!(exports, [("fixed", Change::Unchanged), ("one", Change::Unknown)]);
    assert!(
        first.exports[1].reason.as_ref().is_some_and(|reason| reason.contains("item chart of prod/first"))
    );
    let second = named(&plan, "second");
    assert!(second.error.is_none() && second.waits_for.as_ref().is_some_and(|reason| reason.contains("one")));
    assert_eq!(second.items[0].change, Change::Unknown);
    assert_eq!(named(&plan, "third").items[0].change, Change::Unchanged);
    // An unchanged item keeps its last exports.
    let plan = planned(&present, &Landscape::default().with([asking(exporter(1))]));
    assert!(
        named(&plan, "first").exports.iter().all(|export| export.change == Change::Unchanged),
        "{plan:#?}"
    );
}

/// Values of Secrets are hidden, even after a template has transformed them. Other values are
/// shown.
#[test]
fn secrets_stay_hidden() {
    let install = |tag: &str| {
        let config = format!("tag: {tag}, pass: '{{{{ .imports.login | b64enc }}}}', user: admin");
        let blueprint =
            blueprint(&["login"], &[("item", MOCK, &config)], &[("one", "'{{ .imports.login | upper }}'")]);
        let imports = json!([{"name": "login", "secretRef": {"name": "login", "key": "password"}}]);
        installation("first", &blueprint, &imports, &["one"])
    };
    let present = Landscape::default()
        .with_secret("login", "password", "hunter2")
        .with([install("v1"), second()])
        .run(&["first", "second"]);
    let applied =
        Landscape::default().with([asking(install("v2"))]).with_secret("login", "password", "sesame4");
    let plan = planned(&present, &applied);
    let text = serde_json::to_string(&plan).unwrap();
    for secret in ["hunter2", "sesame4", "HUNTER2", "SESAME4", "aHVudGVyMg", "c2VzYW1lNA"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert_eq!(
        fields(&named(&plan, "first").items[0].fields),
        [r#"spec.config.pass "[hidden]" "[hidden, another one]""#, r#"spec.config.tag "v1" "v2""#,]
    );
    assert_eq!(named(&plan, "second").items[0].change, Change::Changed);
    let secret = plan.applied.iter().find(|object| object.kind == "Secret").unwrap();
    assert_eq!(fields(&secret.fields), [r#"data.password "[hidden]" "[hidden, another one]""#]);
    let shown = serde_json::to_string(&planned_with(&present, &applied, true)).unwrap();
    assert!(shown.contains("hunter2") && shown.contains("SESAME4"), "{shown}");
}

/// A former secret value stays hidden, even if a public value replaces it.
#[test]
fn former_secrets_stay_hidden() {
    let secret = {
        let blueprint = blueprint(&["login"], &[("item", MOCK, "pass: '{{ .imports.login }}'")], &[]);
        let imports = json!([{"name": "login", "secretRef": {"name": "login", "key": "password"}}]);
        installation("first", &blueprint, &imports, &[])
    };
    let plain = installation("first", &blueprint(&[], &[("item", MOCK, "pass: none")], &[]), &json!([]), &[]);
    let present =
        Landscape::default().with_secret("login", "password", "hunter2").with([secret]).run(&["first"]);
    let plan = planned(&present, &Landscape::default().with([asking(plain)]));
    assert_eq!(fields(&plan.installations[0].items[0].fields), [r#"spec.config.pass "[hidden]" "none""#]);
}

/// Nested Installations are planned down to the leaves. If a template is removed, its Installation
/// is deleted with everything below.
#[test]
fn trees_are_planned_to_the_leaves() {
    let parent = |children: &[(&str, &str)]| {
        let child = |(name, config): &(&str, &str)| {
            json!({
                "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "InstallationTemplate", "name": name,
                "blueprint": {"filesystem": {"blueprint.yaml": blueprint(&[], &[("item", MOCK, config)], &[])}},
            })
        };
        let blueprint = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
            "subinstallations": children.iter().map(child).collect::<Vec<_>>(),
        });
        installation("first", &blueprint.to_string(), &json!([]), &[])
    };
    let mut present = Landscape::default().with([parent(&[("a", "n: 1"), ("b", "n: 1")])]);
    let root = present.installations.values_mut().next().unwrap();
    root.metadata.uid = Some("uid-first".to_owned());
    // The names follow Landscaper's pattern, which differs from ours.
    for (name, template) in [("a-x7k2p", "a"), ("b-99abc", "b")] {
        let config =
            json!({"type": MOCK, "context": "default", "config": {"kind": "ProviderConfiguration", "n": 1}});
        let mut child: groundwork_api::Installation = installation(name, "", &json!([]), &[]);
        owned(&mut child.metadata, "first", template);
        child.metadata.uid = Some(format!("uid-{name}"));
        let mut item: groundwork_api::DeployItem = object(&format!("{name}-item"), &json!({"spec": config}));
        item.metadata.labels = Some(
            [
                ("execution.landscaper.gardener.cloud/managed-by", name),
                ("execution.landscaper.gardener.cloud/name", "item"),
            ]
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into(),
        );
        present.installations.insert((NAMESPACE.to_owned(), name.to_owned()), child);
        present.items.insert((NAMESPACE.to_owned(), format!("{name}-item")), item);
    }
    let plan =
        planned(&present, &Landscape::default().with([asking(parent(&[("a", "n: 2"), ("c", "n: 1")]))]));
    let nested: Vec<_> = plan.installations[0]
        .nested
        .iter()
        .map(|nested| (nested.path.join("/"), nested.name.clone(), nested.change, nested.items[0].change))
        .collect();
    assert_eq!(
        nested[0],
        ("first/a".to_owned(), Some("a-x7k2p".to_owned()), Change::Changed, Change::Changed)
    );
    assert_eq!(
        (nested[1].0.as_str(), nested[1].2, nested[1].3),
        ("first/c", Change::Created, Change::Created)
    );
    assert_eq!(
        nested[2],
        ("first/b".to_owned(), Some("b-99abc".to_owned()), Change::Deleted, Change::Deleted)
    );
    assert!(plan.installations[0].nested[1].items[0].name.is_none());
}

/// The job of a deleted Installation only deletes.
#[test]
fn deletion_comes_first() {
    let mut present = pair();
    for installation in present.installations.values_mut().filter(|found| found.spec == first(1).spec) {
        installation.metadata.deletion_timestamp =
            serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    }
    let plan = planned(&present, &Landscape::default().with([asking(first(2))]));
    assert!(plan.installations.is_empty() && !plan.is_empty(), "{plan:#?}");
    assert!(plan.problems[0].contains("prod/first is being deleted"), "{:?}", plan.problems);
}

#[test]
fn circles_are_told() {
    let of = |name: &str, import: &str, export: &str| {
        let blueprint = blueprint(&[import], &[], &[(export, "x")]);
        installation(name, &blueprint, &refs(&[import]), &[export])
    };
    let plan = planned(
        &Landscape::default(),
        &Landscape::default().with([of("a", "two", "one"), of("b", "one", "two")]),
    );
    assert!(plan.problems[0].contains("a -{depends_on}-> b -{depends_on}-> a"), "{:?}", plan.problems);
}

/// The plan records the objects that the landscape lacks, so that callers need not read every
/// object.
#[test]
fn what_is_looked_for_and_not_there_is_noted() {
    let blueprint = blueprint(&["login", "size"], &[("item", MOCK, "a: '{{ .imports.login }}'")], &[]);
    let imports = json!([
        {"name": "login", "secretRef": {"name": "login", "key": "password"}},
        {"name": "size", "configMapRef": {"name": "settings", "key": "size"}},
    ]);
    let unread = |present: &Landscape| {
        let reads = Reads::default();
        let applied = Landscape::default()
            .with([asking(installation("first", &blueprint, &imports, &[]))])
            .with_secret("other", "key", "new");
        let environment = Environment {
            repositories: &NoRepositories,
            capabilities: &Capabilities::system(),
            signatures: None,
            show_values: false,
            reads: Some(&reads),
        };
        plan(present, &applied, &environment);
        reads.into_unread()
    };
    let key = |name: &str| (NAMESPACE.to_owned(), name.to_owned());
    let lacking = unread(&Landscape::default());
    assert_eq!(lacking.secrets, [key("login"), key("other")].into());
    assert_eq!(lacking.config_maps, [key("settings")].into());
    let present =
        Landscape::default().with_secret("login", "password", "x").with_secret("other", "key", "old");
    let lacking = unread(&present);
    assert_eq!((lacking.secrets.len(), lacking.config_maps), (0, [key("settings")].into()));
}

/// `installations.md` 1.3: a change of type fails the job, and its objects stay.
#[test]
fn a_type_that_would_change_is_told() {
    let blueprint = blueprint(&["seed"], &[("item", HELM, "size: 2"), ("more", MOCK, "size: 3")], &[]);
    let changed = installation("first", &blueprint, &refs(&["seed"]), &[]);
    let plan = planned(&pair(), &Landscape::default().with([asking(changed)]));
    let first = named(&plan, "first");
    let told = format!("item item was a {MOCK} and cannot become a {HELM}; give it another name");
    assert_eq!(first.error.as_deref(), Some(&*told));
    let items: Vec<_> = first.items.iter().map(|item| (item.template.as_str(), item.change)).collect();
    assert_eq!(items, [("item", Change::Unchanged)]);
}

/// `installations.md` 4.3: the conflicting object may exist already, or be applied together with
/// the Installation.
#[test]
fn an_export_that_would_take_over_an_object_is_told() {
    let by_hand = Landscape::default().with_data("one", &json!("by hand"));
    let alone = || Landscape::default().with_data("seed", &json!("corn"));
    let told = |plan: &Plan| named(plan, "first").error.clone().unwrap_or_default();
    let plan =
        planned(&by_hand.clone().with_data("seed", &json!("corn")), &Landscape::default().with([first(1)]));
    assert!(told(&plan).contains("the data object one cannot be exported"), "{}", told(&plan));
    let plan = planned(&alone(), &by_hand.with([first(1)]));
    assert!(told(&plan).contains("the data object one cannot be exported"), "{}", told(&plan));
    let plan = planned(&pair(), &Landscape::default().with([first(2)]));
    assert_eq!(told(&plan), "", "an export of a former job is no obstacle");
}
