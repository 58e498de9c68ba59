//! Failed jobs: the messages for users, and the ways to recover.

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{Context as LandscaperContext, DataObject, DeployItem, Execution, Installation};
use groundwork_tests::System;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::case::{Case, error, job};
use crate::shared;
use crate::support::{blueprint, outcome};

/// A failed item fails its Execution and its Installation, with the texts of `installations.md`
/// 2.2, 2.3 and 9. `kubectl wait` sees the failure.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_item_fails_its_installation() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "failed-item").await?;
    let text = blueprint(&[("good", json!({})), ("bad", json!({"phase": "Failed"}))]);
    let failed = case.install("server", &text).await?;
    assert_eq!(outcome(&failed).0, "Failed");
    let bad = case.item("server", "bad").await?.name_any();
    let at_root = format!("Execution is failed: item bad ({bad}) failed");
    let told = ("buildErrorIfFailedChild", "children failed", at_root.as_str());
    assert_eq!(error(&failed), (told.0.to_owned(), told.1.to_owned(), told.2.to_owned()));
    let message = format!("has failed or missing deploy items: item bad ({bad}) failed");
    let execution = case.get::<Execution>("server").await?.status.unwrap_or_default();
    let error = execution.last_error.unwrap_or_default();
    assert_eq!(
        (error.operation.as_str(), error.reason.as_str(), error.message.as_str()),
        ("handleReconcilePhase", "handlePhaseProgressing", message.as_str())
    );
    // The independent item was deployed.
    let good = case.item("server", "good").await?.status.unwrap_or_default();
    assert_eq!((good.phase.as_deref(), good.job_id_finished), (Some("Succeeded"), Some(job(&failed))));

    let wait =
        ["wait", "-n", "failed-item", "--for=condition=Stalled", "installation/server", "--timeout=20s"];
    system.kubectl(&wait).await?;
    let conditions = failed.status.unwrap_or_default().conditions;
    let of =
        |name: &str| conditions.iter().find(|found| found.type_ == name).map(|found| found.status.as_str());
    assert_eq!([of("Ready"), of("Reconciling"), of("Stalled")], [Some("False"), Some("False"), Some("True")]);
    assert_eq!(case.warnings::<Installation>("server").await?, [(told.1.to_owned(), told.2.to_owned())]);
    let of_execution = ("handlePhaseProgressing".to_owned(), message);
    assert_eq!(case.warnings::<Execution>("server").await?, [of_execution]);
    Ok(())
}

/// The root names the item of the child that failed, with the reason, and so does its deletion. The
/// reasons are those of `installations.md` 2.2, 2.3 and 8.3.
#[tokio::test(flavor = "multi_thread")]
async fn the_root_tells_which_item_failed_and_why() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "causes").await?;
    let child = |name: &str, blueprint: &str| {
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "InstallationTemplate", "name": name,
            "blueprint": {"filesystem": {"blueprint.yaml": blueprint}},
        })
    };
    let parent = |web: &str| {
        let good = blueprint(&[("item", json!({}))]);
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
            "subinstallations": [child("a-good", &good), child("web", web)],
        })
        .to_string()
    };
    let broken = blueprint(&[("shop", json!({"phase": "broken", "deletePhase": "DeleteFailed"}))]);
    let failed = case.install("server", &parent(&broken)).await?;
    let children = case.list::<Installation>("landscaper.gardener.cloud/encompassed-by=server").await?;
    let web = children.iter().map(ResourceExt::name_any).find(|name| name.starts_with("web-"));
    let web = web.context("there is a child web")?;
    let item = case.item(&web, "shop").await?;
    let cause = item.status.clone().unwrap_or_default().last_error.context("the item tells why")?.message;
    ensure!(!cause.is_empty());
    let told = format!(
        "children failed: Failed sub-installation(s): {web}; {web}: Execution is failed: item shop ({}) failed: {cause}",
        item.name_any()
    );
    assert_eq!(outcome(&failed), ("Failed".to_owned(), told));

    let stuck = blueprint(&[("shop", json!({"deletePhase": "DeleteFailed"}))]);
    let change =
        json!({"spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": parent(&stuck)}}}}});
    case.change::<Installation>("server", &change).await?;
    let good = case.finished_after("server", &job(&failed)).await?;
    assert_eq!(outcome(&good), ("Succeeded".to_owned(), String::new()));
    case.delete::<Installation>("server").await?;
    let failed = case.finished_after("server", &job(&good)).await?;
    let told = format!(
        "UndeletedSubobjects: subinstallations could not be deleted: {web}; {web}: the execution could not be deleted: item shop ({}) \
         failed",
        item.name_any()
    );
    assert_eq!(outcome(&failed), ("DeleteFailed".to_owned(), told));
    case.change::<DeployItem>(&item.name_any(), &json!({"spec": {"config": {"deletePhase": null}}})).await?;
    case.ask("server", "reconcile").await?;
    case.gone::<Installation>("server").await
}

/// Installation whose job fails before it does any work, with the expected error and the repair.
struct Refusal {
    name: &'static str,
    blueprint: String,
    spec: Value,
    /// Operation, reason, and a part of the message.
    told: (&'static str, &'static str, &'static str),
}

fn refusals() -> Vec<Refusal> {
    let good = || blueprint(&[("item", json!({}))]);
    let importing = good()
        .replace("kind: Blueprint\n", "kind: Blueprint\nimports: [{name: a, type: data, schema: {}}]\n");
    let imports = json!({"imports": {"data": [{"name": "a", "dataRef": "later"}]}});
    vec![
        Refusal {
            name: "context",
            blueprint: good(),
            spec: json!({"context": "later"}),
            told: ("InitPrerequisites", "CalculateContext", "context \"refusals/later\" not found"),
        },
        Refusal {
            name: "import",
            blueprint: importing.clone(),
            spec: imports,
            told: (
                "init",
                "ImportsSatisfied",
                "data import \"a\": unable to fetch data object later (later): not found in namespace refusals",
            ),
        },
        Refusal {
            name: "secret",
            blueprint: importing.clone(),
            spec: json!({"imports": {"data": [{"name": "a", "secretRef": {"name": "later"}}]}}),
            told: ("init", "ImportsSatisfied", "data import \"a\": secret refusals/later not found"),
        },
        Refusal {
            name: "config-map",
            blueprint: importing.clone(),
            spec: json!({"imports": {"data": [{"name": "a", "configMapRef": {"name": "later", "key": "k"}}]}}),
            told: ("init", "ImportsSatisfied", "data import \"a\": configmap refusals/later not found"),
        },
        // A path in a name must not reach objects of another kind.
        Refusal {
            name: "path",
            blueprint: importing.clone(),
            spec: json!({"imports": {"data": [{"name": "a", "configMapRef": {"name": "../secrets/login", "key": "k"}}]}}),
            told: ("init", "ImportsSatisfied", "configmap refusals/../secrets/login not found"),
        },
        Refusal {
            name: "blueprint",
            blueprint: good().replace("kind: Blueprint", "kind: [Blueprint"),
            spec: json!({}),
            told: (
                "InitPrerequisites",
                "ResolveBlueprint",
                "unable to resolve blueprint for refusals/blueprint: ",
            ),
        },
        Refusal {
            name: "file",
            blueprint: String::new(),
            spec: json!({"blueprint": {"inline": {"filesystem": {"folder": {"blueprint.yaml": good()}}}}}),
            told: (
                "InitPrerequisites",
                "ResolveBlueprint",
                "unable to read blueprint file from inline defined blueprint: blueprint.yaml: file does not exist",
            ),
        },
        Refusal {
            name: "template",
            blueprint: good().replace("deployItems:", "deployItems: {{ nothing }}"),
            spec: json!({}),
            told: ("handlePhaseInit", "CreateImportsAndSubobjects", "Reason: ReconcileExecution - Message: "),
        },
    ]
}

/// I-19, I-20, I-51, I-69, I-72: a missing or broken input is reported in the status and as a
/// Warning, and no object is created. The next job succeeds after the repair (`installations.md`
/// 9).
#[tokio::test(flavor = "multi_thread")]
async fn what_keeps_a_job_from_its_work_is_told_and_can_be_put_right() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "refusals").await?;
    // Objects of the same names in another namespace do not count.
    let elsewhere = Case::existing(system, "default").await?;
    elsewhere.create::<LandscaperContext>("later", &json!({})).await?;
    elsewhere.create::<DataObject>("later", &json!({"data": 1})).await?;
    elsewhere.create::<Secret>("later", &json!({"stringData": {"k": "1"}})).await?;
    elsewhere.create::<ConfigMap>("later", &json!({"data": {"k": "1"}})).await?;
    for Refusal { name, blueprint, spec, told } in refusals() {
        let failed = case.install_with(name, &blueprint, &spec).await?;
        let (operation, reason, message) = error(&failed);
        assert_eq!(outcome(&failed).0, "Failed", "{name}");
        assert_eq!((operation.as_str(), reason.as_str()), (told.0, told.1), "{name}: {message}");
        ensure!(message.contains(told.2), "{name}: {message}");
        let warnings = case.warnings::<Installation>(name).await?;
        ensure!(warnings.len() == 1 && warnings[0].0 == reason, "{name}: {warnings:?}");
        // An Event has room for less text than a status.
        ensure!(message.starts_with(&warnings[0].1), "{name}: {warnings:?}");
        ensure!(case.api::<Execution>().get_opt(name).await?.is_none(), "{name} has an execution");
    }
    case.create::<LandscaperContext>("later", &json!({})).await?;
    case.create::<DataObject>("later", &json!({"data": 1})).await?;
    case.create::<Secret>("later", &json!({"stringData": {"k": "1"}})).await?;
    case.create::<ConfigMap>("later", &json!({"data": {"k": "1"}})).await?;
    for name in ["context", "import", "secret", "config-map"] {
        assert_eq!(outcome(&case.reconcile(name).await?), ("Succeeded".to_owned(), String::new()), "{name}");
    }
    for name in ["blueprint", "file", "template"] {
        let before = job(&case.get(name).await?);
        let good = json!({"blueprint.yaml": blueprint(&[("item", json!({}))])});
        let change = json!({"spec": {"blueprint": {"inline": {"filesystem": good}}}});
        case.change::<Installation>(name, &change).await?;
        let fixed = case.finished_after(name, &before).await?;
        assert_eq!(outcome(&fixed), ("Succeeded".to_owned(), String::new()), "{name}");
    }
    Ok(())
}

/// A job writes one Warning with the names of everything that it left out, and succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_job_leaves_out_is_a_warning_once_a_job() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "left-out").await?;
    let text = blueprint(&[("item", json!({}))]);
    let text = text.replace("deployItems:", "items:");
    let installed = case.install("server", &text).await?;
    assert_eq!(outcome(&installed), ("Succeeded".to_owned(), String::new()));
    let warning = (
        "RenderWarnings".to_owned(),
        "deploy execution \"default\": the output has no key deployItems".to_owned(),
    );
    for jobs in 1..=2 {
        assert_eq!(case.warnings::<Installation>("server").await?, vec![warning.clone(); jobs]);
        let job = job(&case.get("server").await?);
        let logged = logged(system, "rendering produced warnings")?;
        let of_job: Vec<_> = logged.iter().filter(|fields| fields["job"] == job).collect();
        ensure!(of_job.len() == 1 && of_job[0]["warnings"] == warning.1, "{of_job:?}");
        case.reconcile("server").await?;
    }
    Ok(())
}

/// Returns the fields of all lines with this message in the log of the renderer.
fn logged(system: &System, message: &str) -> Result<Vec<Value>> {
    let text = std::fs::read_to_string(system.service("renderer")?.program.log())?;
    // The last line may still be incomplete.
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(lines.filter(|line| line["message"] == message).map(|line| line["fields"].clone()).collect())
}

/// Text that must not appear in any message or log.
const CANARY: &str = "canary-17f3a9-sings";

/// A message that is too long for a status ends its job like a short one. The status contains its
/// beginning, its length and a hash that tells it from others. The log contains the whole message.
/// Neither contains a value.
#[tokio::test(flavor = "multi_thread")]
async fn long_messages_end_the_job_and_stand_whole_in_the_log() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "long-messages").await?;
    case.create::<Secret>("login", &json!({"stringData": {"password": CANARY}})).await?;
    case.create::<DataObject>("numbers", &json!({"data": vec![7; 9_000]})).await?;
    let texts = json!({"items": {"type": "string"}});
    let imports = "imports:\n- {name: password, type: data, schema: {}}\n- {name: numbers, type: data, schema: SCHEMA}\n";
    let failing = |schema: &Value, template: &str| {
        let execution = json!([{"name": "default", "type": "GoTemplate", "template": template}]);
        let imports = imports.replace("SCHEMA", &schema.to_string());
        format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n{imports}deployExecutions: {execution}\n"
        )
    };
    let told = "{{ fail (printf \"%s is wrong: %s\" .imports.password (repeat 60000 \"long \")) }}";
    let spec = json!({"imports": {"data": [
        {"name": "password", "secretRef": {"name": "login", "key": "password"}}, {"name": "numbers", "dataRef": "numbers"},
    ]}});
    for (name, blueprint, words) in [
        ("template", failing(&json!({}), told), "long long"),
        ("violations", failing(&texts, ""), "Expected: string, given: integer"),
    ] {
        let failed = case.install_with(name, &blueprint, &spec).await?;
        let (operation, reason, message) = error(&failed);
        assert_eq!(outcome(&failed).0, "Failed", "{name}");
        ensure!(message.contains(words) && message.contains(" bytes in all, sha256 "), "{name}: {message}");
        let status = json!(failed.status).to_string();
        ensure!(status.len() < 60_000, "{name}: a status of {} bytes", status.len());
        let whole = logged(system, "a message is too long for the status; the field error has all of it")?
            .into_iter()
            .find(|fields| {
                (fields["operation"].as_str(), fields["reason"].as_str()) == (Some(&operation), Some(&reason))
                    && fields["error"].as_str().is_some_and(|whole| whole.contains(words))
            });
        let whole = whole.with_context(|| format!("the log has all of what {name} says"))?;
        let length = whole["error"].as_str().map(str::len).unwrap_or_default();
        ensure!(length > 200_000 && message.contains(&format!("({length} bytes in all")), "{name}: {length}");
        ensure!(!status.contains(CANARY) && !whole.to_string().contains(CANARY), "{name} shows the value");
        case.delete::<Installation>(name).await?;
        case.gone::<Installation>(name).await?;
    }
    Ok(())
}
