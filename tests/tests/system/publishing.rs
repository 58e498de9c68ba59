//! Exports of Installations: their objects, scopes and names (`installations.md` 4 and 6.1;
//! `blueprints.md` 8).

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{Context, DataObject, Installation, Target};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::case::{Case, error};
use crate::shared;
use crate::support::outcome;

const CLUSTER_TYPE: &str = "landscaper.gardener.cloud/kubernetes-cluster";

fn label<'a>(object: &'a impl ResourceExt, name: &str) -> Option<&'a str> {
    object.labels().get(&format!("data.landscaper.gardener.cloud/{name}")).map(String::as_str)
}

fn value(object: &DataObject) -> Value {
    object.data.get().cloned().unwrap_or_default()
}

/// Returns a blueprint without items that exports a Target and three values, two of them with names
/// that are not valid for variables.
fn exporter(target_type: &str) -> String {
    let data = |name: &str| json!({"name": name, "type": "data", "schema": {}});
    let template = format!(
        "exports:\n  plain: one\n  other-part: two\n  a.b: three\n  cluster:\n    type: {target_type}\n    labels: {{stage: dev}}\n    \
         config: {{kubeconfig: none}}\n"
    );
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "exports": [data("plain"), data("other-part"), data("a.b"),
            {"name": "cluster", "type": "target", "targetType": CLUSTER_TYPE}],
        "exportExecutions": [{"name": "default", "type": "GoTemplate", "template": template}],
    })
    .to_string()
}

/// I-03, I-54, I-91 to I-95, I-97, I-100, I-103, I-105 to I-109, I-112, B-41, B-96: exports become
/// objects of the scope under the requested names, with and without mappings.
#[tokio::test(flavor = "multi_thread")]
async fn exports_become_objects() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "published").await?;
    let data = |name: &str, reference: &str| json!({"name": name, "dataRef": reference});
    let spec = json!({
        "exports": {
            "data": [data("plain", "my-exported-data"), data("combined", "combined"), data("fixed", "UPPER_x"),
                data("dotted", "dotted"), data("my-identifier", "my-identifier"), data("my-credentials", "my-credentials")],
            "targets": [{"name": "cluster", "target": "my-exported-target"}],
        },
        "exportDataMappings": {
            "combined": {"first": "(( plain ))", "second": "(( other-part ))", "all": ["(( plain ))", "(( other-part ))"]},
            "fixed": {"answer": 42},
            "dotted": "(( exports.[\"a.b\"] ))",
            "my-identifier": "(( plain ))",
            "my-credentials": [{"name": "one", "value": "(( other-part ))"}, {"name": "two", "value": "(( exports.[\"a.b\"] ))"}],
            "undeclared": "(( plain ))",
            "cluster": {"type": "example.org/other"},
        },
    });
    let installation = case.install_with("exporter", &exporter(CLUSTER_TYPE), &spec).await?;
    assert_eq!(outcome(&installation), ("Succeeded".to_owned(), String::new()));
    let plain: DataObject = case.get("my-exported-data").await?;
    assert_eq!(
        (value(&plain), label(&plain, "context"), label(&plain, "key")),
        (json!("one"), None, Some("my-exported-data"))
    );
    let combined: DataObject = case.get("combined").await?;
    assert_eq!(value(&combined), json!({"first": "one", "second": "two", "all": ["one", "two"]}));
    assert_eq!(value(&case.get("dotted").await?), json!("three"));
    assert_eq!(value(&case.get("my-identifier").await?), json!("one"));
    let credentials = json!([{"name": "one", "value": "two"}, {"name": "two", "value": "three"}]);
    assert_eq!(value(&case.get("my-credentials").await?), credentials);
    let named = "data.landscaper.gardener.cloud/key=UPPER_x";
    let fixed = case.list::<DataObject>(named).await?.pop().context("the constant is published")?;
    assert_eq!((value(&fixed), fixed.name_any().len()), (json!({"answer": 42}), 32));
    let target: Target = case.get("my-exported-target").await?;
    assert_eq!(target.spec.type_, CLUSTER_TYPE, "a mapping does nothing to a Target");
    assert_eq!(
        (target.labels().get("stage").map(String::as_str), label(&target, "context")),
        (Some("dev"), None)
    );
    // There is no object for a value that the blueprint does not declare as an export.
    assert_eq!(case.list::<DataObject>("").await?.len(), 6);

    let wrong = case.install_with("wrong", &exporter("example.org/other"), &json!({})).await?;
    let (phase, message) = outcome(&wrong);
    ensure!(phase == "Failed" && message.contains("cluster"), "{phase} {message}");
    Ok(())
}

/// Returns a blueprint whose child has these imports and this export.
fn parent(imports: &[&str], export: &str) -> String {
    let declare = |name: &&str| json!({"name": name, "type": "data", "schema": {"type": "string"}});
    let refs = |name: &&str| json!({"name": name, "dataRef": name});
    let template = format!("exports:\n  {export}: secret-of-the-child\n");
    let child = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": imports.iter().map(declare).collect::<Vec<_>>(), "exports": [declare(&export)],
        "exportExecutions": [{"name": "default", "type": "GoTemplate", "template": template}],
    });
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "subinstallations": [{
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "InstallationTemplate", "name": "child",
            "blueprint": {"filesystem": {"blueprint.yaml": child.to_string()}},
            "imports": {"data": imports.iter().map(refs).collect::<Vec<_>>()},
            "exports": {"data": [refs(&export)]},
        }],
    })
    .to_string()
}

/// I-21, I-56, I-59: a child's exports are visible to its siblings and its parent. The child sees
/// only the objects of the namespace that its parent imports, and it has the Context of its parent.
#[tokio::test(flavor = "multi_thread")]
async fn scopes_keep_to_themselves() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "scopes").await?;
    case.create::<Context>("mine", &json!({})).await?;
    case.create::<DataObject>("outside", &json!({"data": "of the namespace"})).await?;
    let context = json!({"context": "mine"});
    let family = case.install_with("family", &parent(&[], "databaseaccess"), &context).await?;
    assert_eq!(outcome(&family), ("Succeeded".to_owned(), String::new()));
    let children = case.list::<Installation>("landscaper.gardener.cloud/encompassed-by=family").await?;
    let child = children.first().context("there is a child")?;
    assert_eq!(child.spec.context.as_deref(), Some("mine"));
    let published = case.list::<DataObject>("data.landscaper.gardener.cloud/key=databaseaccess").await?;
    let published = published.first().context("the child publishes it")?;
    assert_eq!(label(published, "context"), Some("Installation.scopes.family"));

    let importer = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": [{"name": "databaseaccess", "type": "data", "schema": {"type": "string"}}],
    });
    let spec = json!({"imports": {"data": [{"name": "databaseaccess", "dataRef": "databaseaccess"}]}});
    let stranger = case.install_with("stranger", &importer.to_string(), &spec).await?;
    assert_eq!(error(&stranger).1, "ImportsSatisfied", "{:?}", error(&stranger));

    let greedy = case.install_with("greedy", &parent(&["outside"], "taken"), &json!({})).await?;
    let (phase, message) = outcome(&greedy);
    ensure!(phase == "Failed" && message.contains("outside"), "{phase} {message}");
    ensure!(case.list::<Installation>("landscaper.gardener.cloud/encompassed-by=greedy").await?.is_empty());
    Ok(())
}

/// I-134: whatever its rules for automatic jobs, an Installation without a first requested job has
/// none.
#[tokio::test(flavor = "multi_thread")]
async fn timers_start_nothing_new() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "timers").await?;
    let object = json!({"spec": {
        "blueprint": {"inline": {"filesystem": {"blueprint.yaml": exporter(CLUSTER_TYPE)}}},
        "automaticReconcile": {"succeededReconcile": {"interval": "1s"}, "failedReconcile": {"interval": "1s"}},
    }});
    case.create::<Installation>("waiting", &object).await?;
    case.until("it says that it waits to be asked", "waiting", |waiting: &Installation| {
        waiting.status.as_ref().is_some_and(|status| !status.conditions.is_empty())
    })
    .await?;
    // Meanwhile a later Installation has run its first job and several automatic ones.
    let rules = json!({"automaticReconcile": {"succeededReconcile": {"interval": "1s"}}});
    case.install_with("running", &exporter(CLUSTER_TYPE), &rules).await?;
    case.until("it has run by itself", "running", |running: &Installation| {
        let status = running.status.clone().unwrap_or_default();
        status.automatic_reconcile_status.is_some_and(|counted| counted.number_of_reconciles >= Some(2))
    })
    .await?;
    let waiting: Installation = case.get("waiting").await?;
    let status = waiting.status.unwrap_or_default();
    assert_eq!(
        (status.job_id, status.phase, status.automatic_reconcile_status.is_none()),
        (None, None, true)
    );
    Ok(())
}

/// An export never takes over a Target or DataObject that a user wrote, unless the object has the
/// annotation for that (`installations.md` 4.3).
#[tokio::test(flavor = "multi_thread")]
async fn exports_take_nothing_that_was_written_by_hand() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "written-by-hand").await?;
    let spec = |exports: Value| json!({"exports": exports});
    let garden = json!({"spec": {"type": CLUSTER_TYPE, "config": {"kubeconfig": "of-mine"}}});
    case.create::<Target>("garden", &garden).await?;
    case.create::<DataObject>("port", &json!({"data": 8080})).await?;
    let exports = [
        ("of-targets", "target garden", json!({"targets": [{"name": "cluster", "target": "garden"}]})),
        ("of-data", "data object port", json!({"data": [{"name": "plain", "dataRef": "port"}]})),
    ];
    for (name, object, exports) in &exports {
        let failed = case.install_with(name, &exporter(CLUSTER_TYPE), &spec(exports.clone())).await?;
        let (operation, reason, message) = error(&failed);
        assert_eq!(outcome(&failed).0, "Failed", "{name}");
        assert_eq!((operation.as_str(), reason.as_str()), ("handlePhaseCompleting", "CreateOrUpdateExports"));
        let told = format!(
            "the {object} cannot be exported: an object of this name exists that this installation did not export, and \
             that would be deleted with the installation; export under another name, or set the annotation \
             landscaper.gardener.cloud/adopt: \"true\" on the object to hand it over"
        );
        assert_eq!(message, told);
        case.delete::<Installation>(name).await?;
        case.gone::<Installation>(name).await?;
    }
    let kept = case.get::<Target>("garden").await?;
    assert_eq!(json!(kept.spec), garden["spec"]);
    assert_eq!(value(&case.get("port").await?), json!(8080));

    let adopt = json!({"metadata": {"annotations": {"landscaper.gardener.cloud/adopt": "true"}}});
    case.change::<Target>("garden", &adopt).await?;
    case.change::<DataObject>("port", &adopt).await?;
    for (name, _, exports) in &exports {
        let good = case.install_with(name, &exporter(CLUSTER_TYPE), &spec(exports.clone())).await?;
        assert_eq!(outcome(&good), ("Succeeded".to_owned(), String::new()));
        let again = case.reconcile(name).await?;
        assert_eq!(outcome(&again), ("Succeeded".to_owned(), String::new()));
    }
    let taken = case.get::<Target>("garden").await?;
    ensure!(taken.owner_references().iter().any(|owner| owner.name == "of-targets"), "{taken:?}");
    assert_eq!(value(&case.get("port").await?), json!("one"));
    Ok(())
}
