//! A user with all rights on our objects in one namespace, and no others, tries to stop the
//! services or to reach other users' objects, with objects and with calls. All attempts fail, and
//! other users are served meanwhile.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use groundwork_api::{DataObject, DeployItem, Installation, Kind as _};
use groundwork_proto::component::v1::Json;
use groundwork_proto::renderer::v1::render_request::Input;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{RenderInput, RenderRequest, RenderResponse};
use groundwork_tests::hostile::{doubled, exponential};
use groundwork_tests::{ALL, System, SystemOptions, wait_for};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::case::Case;
use crate::grpc::{channel, told};
use crate::support::{PATIENCE, blueprint, outcome};

const API: &str = "landscaper.gardener.cloud/v1alpha1";
/// Number of objects, more than any service works on at the same time.
const CROWD: usize = 40;
/// Number of concurrent callers, fewer than the limit per address.
const CALLERS: usize = 16;

/// Creates Mallory, who has all verbs on all resources of our groups in the namespace.
async fn mallory(case: &Case<'_>) -> Result<Client> {
    let rule = json!({
        "apiGroups": ["landscaper.gardener.cloud", "config.porch.kpt.dev"], "resources": ["*"], "verbs": ["*"],
    });
    case.create::<ServiceAccount>("mallory", &json!({})).await?;
    case.create::<Role>("landscaper-user", &json!({"rules": [rule]})).await?;
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "landscaper-user"});
    let subject = json!({"kind": "ServiceAccount", "name": "mallory", "namespace": case.namespace});
    case.create::<RoleBinding>("landscaper-user", &json!({"roleRef": role, "subjects": [subject]})).await?;
    let client = case.system.plane.service_account_client(&case.namespace, "mallory").await?;
    let secrets: Api<Secret> = Api::namespaced(client.clone(), &case.namespace);
    ensure!(secrets.get("victim").await.is_err(), "Secrets are none of Mallory's");
    Ok(client)
}

/// Creates an Installation as Mallory, with an annotation that requests a job.
async fn install(mallory: &Api<Installation>, name: &str, blueprint: &Value, imports: &Value) -> Result<()> {
    let object = json!({
        "apiVersion": API, "kind": "Installation",
        "metadata": {"name": name, "annotations": {"landscaper.gardener.cloud/operation": "reconcile"}},
        "spec": {
            "imports": {"data": imports},
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint.to_string()}}},
        },
    });
    let object = serde_json::from_value(object)?;
    // Retry, since Mallory's rights take effect only after a moment.
    wait_for(&format!("{name} is created"), PATIENCE, async || {
        mallory.create(&PostParams::default(), &object).await.map(drop).map_err(|error| error.to_string())
    })
    .await
}

/// Returns the process ID of each service.
fn processes(system: &System) -> Result<BTreeMap<&'static str, u32>> {
    ALL.iter().map(|service| Ok((*service, system.service(service)?.program.pid()?))).collect()
}

/// Objects that earlier versions could not handle: they ended the renderer at every start, blocked
/// all its slots forever, or had other users' Secrets deleted.
#[tokio::test(flavor = "multi_thread")]
async fn objects_of_a_stranger_stop_nobody_and_reach_nothing() -> Result<()> {
    let Some(system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let before = processes(&system)?;
    let case = Case::new(&system, "hostile-objects").await?;
    let beside = Case::new(&system, "hostile-beside").await?;
    case.create::<Secret>("victim", &json!({"stringData": {"a": "b"}})).await?;
    let mallory = mallory(&case).await?;
    let installations: Api<Installation> = Api::namespaced(mallory.clone(), &case.namespace);

    case.create::<DataObject>("v", &json!({"data": "s"})).await?;
    install(&installations, "poison", &doubled(), &json!([])).await?;
    let by_data = json!([{"name": "v", "dataRef": "v"}]);
    for number in 0..CROWD {
        install(&installations, &format!("hang-{number:02}"), &exponential(), &by_data).await?;
    }
    an_item_that_names_a_foreign_export(&case, mallory).await?;

    let done = beside.install("small", &blueprint(&[("item", json!({}))])).await?;
    assert_eq!(outcome(&done), ("Succeeded".to_owned(), String::new()));
    let names = (0..CROWD).map(|number| format!("hang-{number:02}")).chain(["poison".to_owned()]);
    for name in names {
        let (phase, error) = outcome(&case.finished(&name).await?);
        ensure!(phase == "Failed" && !error.is_empty(), "{name}: {phase} {error}");
    }
    let secret = case.get::<Secret>("victim").await?;
    ensure!(secret.metadata.deletion_timestamp.is_none(), "it is none of the item's");
    // These Installations can be deleted like any other.
    for name in ["poison", "hang-00"] {
        installations.delete(name, &DeleteParams::default()).await?;
        case.gone::<Installation>(name).await?;
    }
    are_unharmed(&system, &before).await
}

/// Checks that every service is ready, in the same process as before.
async fn are_unharmed(system: &System, before: &BTreeMap<&'static str, u32>) -> Result<()> {
    assert_eq!(processes(system)?, *before, "nobody was started anew");
    for service in ALL {
        let (code, body) = system.admin(service, "/readyz").await?;
        ensure!(code == 200, "{service}: {code} {body}");
    }
    Ok(())
}

/// Mallory gives an item a job and a status that names the victim's Secret as its export, and
/// deletes the item.
async fn an_item_that_names_a_foreign_export(case: &Case<'_>, mallory: Client) -> Result<()> {
    let items: Api<DeployItem> = Api::namespaced(mallory, &case.namespace);
    let config = json!({"apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration"});
    let item = json!({
        "apiVersion": API, "kind": DeployItem::KIND, "metadata": {"name": "evil"},
        "spec": {"type": "landscaper.gardener.cloud/mock", "config": config},
    });
    items.create(&PostParams::default(), &serde_json::from_value(item)?).await?;
    let export = json!({"name": "victim", "namespace": case.namespace});
    for job in ["first", "second"] {
        let status =
            json!({"observedGeneration": 0, "jobID": job, "phase": "Succeeded", "exportRef": export});
        let status = json!({"status": status});
        items.patch_status("evil", &PatchParams::default(), &Patch::Merge(&status)).await?;
        if job == "first" {
            let is_over = |item: &DeployItem| {
                item.status.as_ref().is_some_and(|status| status.job_id_finished.as_deref() == Some("first"))
            };
            case.until("the job has ended", "evil", is_over).await?;
            items.delete("evil", &DeleteParams::default()).await?;
        }
    }
    case.gone::<DeployItem>("evil").await
}

/// Returns a call with an Installation, its Context and the files of its blueprint.
fn call(files: HashMap<String, Vec<u8>>, imports: &Value) -> RenderRequest {
    let installation = json!({
        "apiVersion": API, "kind": "Installation", "metadata": {"name": "h", "namespace": "demo"},
        "spec": {"blueprint": {"inline": {"filesystem": {}}}, "imports": {"data": imports}},
    });
    let of = |kind: &str, name: &str| json!({"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": "demo"}});
    let mut data = of("DataObject", "v");
    data["data"] = json!("s");
    let objects = [installation, of("Context", "default"), data];
    let objects = objects.map(|object| Json { text: object.to_string() }).to_vec();
    RenderRequest {
        input: Some(Input::Inline(RenderInput { objects, blueprint: files, ..RenderInput::default() })),
    }
}

fn files(blueprint: &Value) -> HashMap<String, Vec<u8>> {
    HashMap::from([("blueprint.yaml".to_owned(), blueprint.to_string().into_bytes())])
}

/// Many callers send calls that ended the process or ran forever in earlier versions. Harmless
/// calls among them are answered.
#[tokio::test(flavor = "multi_thread")]
async fn calls_of_a_stranger_stop_nobody() -> Result<()> {
    let Some(system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let before = processes(&system)?;
    let case = Case::new(&system, "hostile-calls").await?;
    case.create::<ServiceAccount>("mallory", &json!({})).await?;
    let token = system.plane.service_account_token(&case.namespace, "mallory").await?;
    let empty = json!({"apiVersion": API, "kind": "Blueprint", "deployExecutions": []});
    let mut deep = files(&empty);
    deep.insert(format!("{}b", "a/".repeat(20_000)), b"x".to_vec());
    let requests = [
        ("deep", call(deep, &json!([]))),
        ("schema", call(files(&exponential()), &json!([{"name": "v", "dataRef": "v"}]))),
        ("doubled", call(files(&doubled()), &json!([]))),
        ("harmless", call(files(&empty), &json!([]))),
    ];
    let ask = async |number: usize| -> Result<(&str, Result<RenderResponse, Status>)> {
        let (name, request) = &requests[number % requests.len()];
        let mut client = RendererClient::new(channel(&system, "renderer", Some(&token))?);
        Ok((*name, client.render(request.clone()).await.map(tonic::Response::into_inner)))
    };
    for (name, answer) in try_join_all((0..CALLERS).map(ask)).await? {
        match (name, answer) {
            ("deep", Err(refused)) => {
                assert_eq!(
                    told(&refused),
                    (Code::InvalidArgument, "INVALID_REQUEST".to_owned()),
                    "{refused}"
                );
                ensure!(refused.message().len() < 300, "{}", refused.message().len());
            }
            ("harmless", Ok(answer)) => ensure!(answer.failure.is_none(), "{answer:?}"),
            ("schema" | "doubled", Ok(answer)) => {
                let failure = answer.failure.context("it takes too much")?;
                // On a busy machine, the call may reach the time limit first.
                let is_limit = ["more than", "longer than"].iter().any(|what| failure.message.contains(what));
                ensure!(is_limit, "{name}: {failure:?}");
            }
            // The largest calls fail when all calls together exceed the limit of the service.
            ("schema" | "doubled", Err(refused)) => {
                assert_eq!(
                    told(&refused),
                    (Code::ResourceExhausted, "WORK_TOO_LONG".to_owned()),
                    "{refused}"
                );
            }
            (name, end) => anyhow::bail!("{name}: {end:?}"),
        }
    }
    let done = case.install("small", &blueprint(&[("item", json!({}))])).await?;
    assert_eq!((outcome(&done).0.as_str(), done.name_any().as_str()), ("Succeeded", "small"));
    are_unharmed(&system, &before).await
}
