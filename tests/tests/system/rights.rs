//! Rights of the services: none is missing, none is unused, and a missing one is named in a clear
//! message.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use groundwork_api::{
    ComponentVersionOverwrites, Context as LandscaperContext, DeployItem, Execution, Installation, Target,
};
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::deployer::v1::deployer_client::DeployerClient;
use groundwork_proto::deployer::v1::{MakeKubeconfigRequest, make_kubeconfig_request};
use groundwork_proto::renderer::v1::render_request::Input;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{PlanRequest, RenderRequest};
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::resolver::v1::{ExplainRequest, explain_request};
use groundwork_proto::variant::v1::variants_client::VariantsClient;
use groundwork_proto::variant::v1::{ExpandRequest, PreviewRequest, expand_request};
use groundwork_proto::watcher::v1::GetStreamStatusRequest;
use groundwork_proto::watcher::v1::watcher_client::WatcherClient;
use groundwork_tests::{
    MOCK_DEPLOYER, System, SystemOptions, TARGET_SYNC_RIGHTS, documents, files_below, wait_for, workspace,
};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tonic::Code;

use crate::case::{Case, job};
use crate::deploying_ownership::{Mode, Part, deploy, maps_chart};
use crate::echo_server::{apply, options};
use crate::grpc::{account_of_admin, channel, encode};
use crate::support::{PATIENCE, blueprint, installation, outcome, stages};
use crate::target_cluster::{self, give_job, outcome as outcome_of_item, run_job};
use crate::target_sync_source::kubeconfig;
use crate::variants::use_all_rights;

const NAMESPACE: &str = "my-namespace";

/// Rights that leave no trace in the audit log, each with the reason why it is granted.
const UNUSED: [(&str, &str, &str, &str); 3] = [
    ("renderer", "create", "kubeconfigs", "asked for by the deployer, which looks it up in a review"),
    (
        "renderer",
        "update",
        "installations/finalizers",
        "asked for by the admission of owner references that block a deletion",
    ),
    ("renderer", "update", "executions/finalizers", "the same"),
];

/// Folders with the rights of all services.
const BASE: [&str; 2] = ["k8s/base", MOCK_DEPLOYER];

/// Right: service, verb, resource.
pub(crate) type Right = (String, String, String);

pub(crate) fn texts(value: &Value) -> impl Iterator<Item = String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned)
}

/// Returns the rights that the bindings in folders grant to each service by the roles in the same
/// folder.
fn granted(folders: &[&str]) -> Result<BTreeSet<Right>> {
    let mut rights = BTreeSet::new();
    for folder in folders {
        // Roles of the same name exist in several folders, so each folder is evaluated alone.
        rights.extend(granted_in(folder)?);
    }
    Ok(rights)
}

fn granted_in(folder: &str) -> Result<BTreeSet<Right>> {
    granted_by(&objects_in(folder)?, &[])
}

fn objects_in(folder: &str) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for file in files_below(&workspace().join(folder))? {
        objects.extend(documents(&std::fs::read_to_string(file)?)?);
    }
    Ok(objects)
}

/// Returns the rights that the bindings among `objects` grant by the roles among them and among
/// `others`.
fn granted_by(objects: &[Value], others: &[Value]) -> Result<BTreeSet<Right>> {
    let roles: BTreeMap<(&str, &str), &Value> = objects
        .iter()
        .chain(others)
        .filter_map(|object| Some(((object["kind"].as_str()?, object["metadata"]["name"].as_str()?), object)))
        .collect();
    let mut rights = BTreeSet::new();
    for binding in objects.iter().filter(|object| !object["roleRef"].is_null()) {
        let name = |part: &str| binding["roleRef"][part].as_str().unwrap_or_default();
        let role =
            roles.get(&(name("kind"), name("name"))).context("a binding names a role of the folder")?;
        for subject in binding["subjects"].as_array().into_iter().flatten() {
            let service = subject["name"].as_str().unwrap_or_default().trim_start_matches("groundwork-");
            for rule in role["rules"].as_array().into_iter().flatten() {
                for resource in texts(&rule["resources"]) {
                    rights.extend(
                        texts(&rule["verbs"]).map(|verb| (service.to_owned(), verb, resource.clone())),
                    );
                }
            }
        }
    }
    Ok(rights)
}

/// Returns the rights that the services have used, and the requests that were forbidden.
pub(crate) fn asked(system: &System) -> Result<(BTreeSet<Right>, Vec<Value>)> {
    let right = |request: &Value| -> Option<Right> {
        let user = request["user"]["username"].as_str()?.rsplit("groundwork-").next()?.to_owned();
        let object = &request["objectRef"];
        let resource = match object["subresource"].as_str() {
            Some(subresource) => format!("{}/{subresource}", object["resource"].as_str()?),
            None => object["resource"].as_str()?.to_owned(),
        };
        Some((user, request["verb"].as_str()?.to_owned(), resource))
    };
    let is_refused = |request: &Value| request["responseStatus"]["code"] == 403;
    let (refused, granted): (Vec<Value>, Vec<Value>) = stages(system, "")?.into_iter().partition(is_refused);
    Ok((granted.iter().filter_map(right).collect(), refused))
}

/// A normal installation must not include the mock deployer, which has rights on every Secret. It
/// has the Service and the connections of the deployers that a user adds.
#[test]
fn the_mock_deployer_is_not_in_the_base() -> Result<()> {
    for folder in ["k8s/base", "k8s/namespaced", "k8s/namespaced-accounts", "k8s/overlays/ha"] {
        let files = files_below(&workspace().join(folder))?.into_iter();
        let texts = files.filter(|file| file.extension().is_some_and(|extension| extension == "yaml"));
        let texts = texts.map(|file| documents(&std::fs::read_to_string(file)?));
        for object in texts.collect::<Result<Vec<_>>>()?.into_iter().flatten() {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let kind = object["kind"].as_str().unwrap_or_default();
            let is_harmless = ["Service", "NetworkPolicy"].contains(&kind);
            ensure!(is_harmless || !name.contains("deployer"), "{kind} {name}");
        }
    }
    let deployer = |rights: BTreeSet<Right>| rights.into_iter().any(|(service, ..)| service == "deployer");
    ensure!(!deployer(granted(&["k8s/base"])?) && deployer(granted(&[MOCK_DEPLOYER])?));
    Ok(())
}

/// `k8s/namespaced` grants in one namespace the rights that `k8s/base` grants in all, except those
/// that a Role cannot grant: the watch on namespaces, and the read access to all leases.
#[test]
fn roles_give_what_cluster_roles_give() -> Result<()> {
    let mut base = granted(&BASE)?;
    for verb in ["list", "watch"] {
        ensure!(base.remove(&("watcher".to_owned(), verb.to_owned(), "namespaces".to_owned())), "{verb}");
    }
    // The leases of Landscaper and Porch are in namespaces of their own, so services with Roles do
    // not look for them.
    base.retain(|(service, _, resource)| service == "watcher" || resource != "leases");
    let roles =
        granted(&["k8s/namespaced", "k8s/namespaced-accounts", "k8s/components/mock-deployer-namespaced"])?;
    assert_eq!(roles, base);
    Ok(())
}

/// The Roles of the controller of TargetSyncs also match its ClusterRole, except for the leases.
#[test]
fn target_syncs_have_the_same_rights_with_roles() -> Result<()> {
    let mut everywhere = granted(&[TARGET_SYNC_RIGHTS])?;
    everywhere.retain(|(_, _, resource)| resource != "leases");
    ensure!(!everywhere.is_empty());
    assert_eq!(granted(&["k8s/components/target-sync-namespaced"])?, everywhere);
    Ok(())
}

/// The Roles for a Porch server also match the variant service's ClusterRole. One of the roles is
/// in the base.
#[test]
fn a_porch_server_needs_the_same_rights_with_roles() -> Result<()> {
    let everywhere = granted_by(&objects_in("k8s/components/porch")?, &objects_in("k8s/base")?)?;
    ensure!(!everywhere.is_empty());
    assert_eq!(granted(&["k8s/components/porch-namespaced"])?, everywhere);
    Ok(())
}

/// Checks that the controller of TargetSyncs lacked no right, and has used all of its rights.
pub(crate) fn target_sync_rights(system: &System) -> Result<()> {
    let (used, refused) = asked(system)?;
    let is_own = |request: &&Value| {
        request["user"]["username"].as_str().is_some_and(|user| user.ends_with("groundwork-target-sync"))
    };
    let refused: Vec<&Value> = refused.iter().filter(is_own).collect();
    ensure!(refused.is_empty(), "rights are missing in {TARGET_SYNC_RIGHTS}: {refused:#?}");
    let idle: Vec<Right> =
        granted(&[TARGET_SYNC_RIGHTS])?.into_iter().filter(|right| !used.contains(right)).collect();
    ensure!(idle.is_empty(), "rights that nothing used: {idle:#?}");
    Ok(())
}

/// The Roles of the console, whose rights are in a component, also match its ClusterRole.
#[test]
fn the_console_has_the_same_rights_with_roles() -> Result<()> {
    let roles = granted(&["k8s/components/console-namespaced"])?;
    let everywhere = granted(&["k8s/components/console"])?;
    ensure!(!everywhere.is_empty());
    assert_eq!(roles, everywhere);
    Ok(())
}

/// Every right in `k8s/base` is used, or is in [`UNUSED`] with a reason, and no right is missing.
/// The test runs an Installation that exercises every action of the services.
#[tokio::test(flavor = "multi_thread")]
async fn every_right_is_used_and_none_is_missing() -> Result<()> {
    let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let variables = vec![
        variable("GROUNDWORK_LEADER_ELECTION", "true"),
        variable("GROUNDWORK_LEASE_NAMESPACE", "groundwork-system"),
        variable(
            "GROUNDWORK_DEFAULT_REPOSITORY_CONTEXT",
            r#"{"type":"ociRegistry","baseUrl":"example.org/c"}"#,
        ),
    ];
    let Some(system) = System::start(SystemOptions { variables, ..options() }).await? else { return Ok(()) };
    touch_everything(&system).await.map_err(|error| system.explained(error))?;
    let (used, refused) = asked(&system)?;
    ensure!(refused.is_empty(), "rights are missing in k8s/base: {refused:#?}");
    let excused =
        UNUSED.map(|(service, verb, resource, _)| (service.to_owned(), verb.to_owned(), resource.to_owned()));
    let idle: Vec<Right> = granted(&BASE)?
        .into_iter()
        .filter(|right| !used.contains(right) && !excused.contains(right))
        .collect();
    ensure!(idle.is_empty(), "rights that nothing used: {idle:#?}");
    the_unused_ones_are_needed(&system).await
}

async fn touch_everything(system: &System) -> Result<()> {
    apply(system).await?;
    let case = Case::existing(system, NAMESPACE).await?;
    the_resolver_reads_configuration(&case).await?;
    the_component_goes(&case).await?;
    imports_change(&case).await?;
    children_come_and_go(&case).await?;
    calls_are_made(&case).await?;
    use_all_rights(&case).await?;
    an_item_asks_for_its_cluster(&case).await?;
    an_item_gives_objects_up(&case).await?;
    an_object_is_too_large(&case).await?;

    let bad = case.install("bad", &blueprint(&[("item", json!({"phase": "none"}))])).await?;
    assert_eq!(outcome(&bad).0, "Failed");
    ensure!(!case.warnings::<Installation>("bad").await?.is_empty(), "the Installation tells why");
    let annotations = json!({"landscaper.gardener.cloud/delete-without-uninstall": "true"});
    case.change::<Installation>("bad", &json!({"metadata": {"annotations": annotations}})).await?;
    for name in ["bad", "parent", "server"] {
        case.delete::<Installation>(name).await?;
        case.gone::<Installation>(name).await?;
    }
    Ok(())
}

async fn the_resolver_reads_configuration(case: &Case<'_>) -> Result<()> {
    case.create::<ConfigMap>("ocm", &json!({"data": {".ocmconfig": ""}})).await?;
    // The user's change may come before or after the resolver's first write of the Context. In
    // either order the resolver restores the configured content.
    let elsewhere = json!({"type": "ociRegistry", "baseUrl": "example.org/elsewhere"});
    let config = json!({".dockerconfigjson": json!({"auths": {}}).to_string()});
    case.create::<Secret>("pull", &json!({"stringData": config})).await?;
    let change = json!({
        "ocmConfig": {"name": "ocm"}, "repositoryContext": elsewhere, "registryPullSecrets": [{"name": "pull"}],
    });
    case.change::<LandscaperContext>("default", &change).await?;
    wait_for("the default Context is put right", PATIENCE, async || {
        let found = case.get::<LandscaperContext>("default").await.map_err(|error| error.to_string())?;
        if found.repository_context.get() == Some(&elsewhere) {
            Err("it is as the user wrote it".to_owned())
        } else {
            Ok(())
        }
    })
    .await?;
    assert_eq!(outcome(&case.reconcile("server").await?).0, "Succeeded");
    Ok(())
}

/// The resolver removes its condition, although another field manager also owns that condition.
async fn the_component_goes(case: &Case<'_>) -> Result<()> {
    let before: Installation = case.get("server").await?;
    let conditions = before.status.clone().unwrap_or_default().conditions;
    let written = conditions.iter().find(|found| found.type_ == "ComponentReferenceOverwrite");
    let held = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {"name": "server"}, "status": {"conditions": [written.context("the condition")?]},
    });
    let parameters = PatchParams::apply("somebody");
    case.api::<Installation>().patch_status("server", &parameters, &Patch::Apply(&held)).await?;

    let spec = json!({"componentDescriptor": null, "blueprint": importing("greeting", "cluster"), "imports": imports("greeting", "cluster")});
    case.create::<Secret>("login", &json!({"stringData": {"user": "alice"}})).await?;
    let target = json!({"spec": {"type": "landscaper.gardener.cloud/mock", "config": {}}});
    case.create::<Target>("blue", &target).await?;
    case.change::<Installation>("server", &json!({"spec": spec})).await?;
    let changed = case.finished_after("server", &job(&before)).await?;
    assert_eq!(outcome(&changed), ("Succeeded".to_owned(), String::new()));
    let conditions = changed.status.unwrap_or_default().conditions;
    ensure!(conditions.iter().all(|found| found.type_ != "ComponentReferenceOverwrite"), "{conditions:?}");
    Ok(())
}

/// The deployer reads the TargetSync of the namespace to find out whether the cluster is gone.
async fn an_item_asks_for_its_cluster(case: &Case<'_>) -> Result<()> {
    let config = json!({"kubeconfig": kubeconfig("https://api.dev.project.invalid", &json!({"token": "t"}))});
    let target = json!({
        "metadata": {"labels": {"landscaper.gardener.cloud/targetsync": "ok"}},
        "spec": {"type": "landscaper.gardener.cloud/kubernetes-cluster", "config": config},
    });
    case.create::<Target>("shoot", &target).await?;
    let item = json!({"spec": {
        "type": "landscaper.gardener.cloud/mock", "target": {"name": "shoot", "namespace": case.namespace},
        "config": {"apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration"},
        "onDelete": {"skipUninstallIfClusterRemoved": true},
    }});
    case.create::<DeployItem>("asking", &item).await?;
    run_job(case, "asking", "1").await?;
    case.delete::<DeployItem>("asking").await?;
    give_job(case, "asking", "2").await?;
    let asks = |item: &DeployItem| outcome_of_item(item).1.contains("has 0 TargetSyncs");
    case.until("it cannot be told", "asking", asks).await?;
    let annotations = json!({"landscaper.gardener.cloud/delete-without-uninstall": "true"});
    case.change::<DeployItem>("asking", &json!({"metadata": {"annotations": annotations}})).await?;
    case.gone::<DeployItem>("asking").await
}

/// The deployer looks for other items that list the dropped objects, unless all items of the
/// Installation are deleted.
async fn an_item_gives_objects_up(case: &Case<'_>) -> Result<()> {
    let kubeconfig = std::fs::read_to_string(case.system.plane.kubeconfig())?;
    let config = target_cluster::target(&json!({"kubeconfig": kubeconfig}));
    case.create::<Target>("dev", &config).await?;
    let chart = maps_chart()?;
    for listed in [&["a", "b"][..], &["a"]] {
        let found = deploy(case, "gives", &chart, &[Part::new("one", Mode::Manifests, listed)]).await?;
        assert_eq!(outcome(&found), ("Succeeded".to_owned(), String::new()));
    }
    case.delete::<Installation>("gives").await?;
    case.gone::<Installation>("gives").await
}

fn imports(data: &str, target: &str) -> Value {
    json!({
        "data": [
            {"name": data, "dataRef": "greeting"},
            {"name": "login", "secretRef": {"name": "login"}},
            {"name": "settings", "configMapRef": {"name": "ocm"}},
        ],
        "targets": [{"name": target, "target": "blue"}],
    })
}

fn importing(data: &str, target: &str) -> Value {
    let declared = format!(
        "kind: Blueprint\nimports:\n- {{name: {data}, type: data, schema: {{}}}}\n- {{name: login, type: data, schema: {{}}}}\n\
         - {{name: settings, type: data, schema: {{}}}}\n\
         - {{name: {target}, type: target, targetType: landscaper.gardener.cloud/mock}}\n"
    );
    let text = blueprint(&[("echo", json!({"export": {"text": "TEXT"}}))])
        .replace("kind: Blueprint\n", &declared)
        .replace("- name: echo\n", &format!("- name: echo\n      target: {{import: {target}}}\n"))
        .replace("\"TEXT\"", &format!("{{{{ toJson .imports.{data} }}}}"));
    json!({"ref": null, "inline": {"filesystem": {"blueprint.yaml": text}}})
}

/// The watcher writes a warning for an object whose state does not fit into an event.
async fn an_object_is_too_large(case: &Case<'_>) -> Result<()> {
    let annotations = json!({"landscaper.gardener.cloud/note": "x".repeat(70_000)});
    case.create::<ConfigMap>("large", &json!({"metadata": {"annotations": annotations}})).await?;
    case.warnings_with::<ConfigMap>("large", "TooLarge").await?;
    Ok(())
}

/// The renderer creates, replaces and deletes copies of imports. It also finds items without any
/// reference to them, as after a crash at the wrong moment (`installations.md` 10.2).
async fn imports_change(case: &Case<'_>) -> Result<()> {
    case.reconcile("server").await?;
    let mut execution: Execution = case.get("server").await?;
    execution.status.get_or_insert_default().deploy_item_cache = None;
    case.api::<Execution>().replace_status("server", &PostParams::default(), &execution).await?;
    let before = job(&case.get("server").await?);
    let spec = json!({"blueprint": importing("words", "place"), "imports": imports("words", "place")});
    case.change::<Installation>("server", &json!({"spec": spec})).await?;
    let changed = case.finished_after("server", &before).await?;
    assert_eq!(outcome(&changed), ("Succeeded".to_owned(), String::new()));
    assert_eq!(case.list::<DeployItem>("").await?.len(), 1);
    assert_eq!(case.list::<ComponentVersionOverwrites>("").await?.len(), 1);
    Ok(())
}

/// The renderer creates, changes and deletes nested installations, passes a list of Targets to one
/// of them, and keeps state. It also finds nested installations without any reference to them.
async fn children_come_and_go(case: &Case<'_>) -> Result<()> {
    let list = json!([{"name": "all", "type": "targetList", "targetType": "landscaper.gardener.cloud/mock"}]);
    let parent = |children: Value| {
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint", "imports": list,
            "subinstallations": children,
        })
        .to_string()
    };
    let child = |state: &str| {
        let template = format!("state: {{{{ .state | default dict | len }}}}{state}\ndeployItems: []\n");
        let blueprint = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint", "imports": list,
            "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": template}],
        });
        json!([{
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "InstallationTemplate", "name": "child",
            "blueprint": {"filesystem": {"blueprint.yaml": blueprint.to_string()}},
            "imports": {"targets": [{"name": "all", "targetListRef": "all"}]},
        }])
    };
    let spec = |children: Value| json!({"spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": parent(children)}}}}});
    let imports = json!({"imports": {"targets": [{"name": "all", "targets": ["blue", "blue"]}]}});
    let mut last = case.install_with("parent", &parent(child("0")), &imports).await?;
    assert_eq!(outcome(&last), ("Succeeded".to_owned(), String::new()));
    for children in [child("1"), json!([])] {
        let mut forgetful: Installation = case.get("parent").await?;
        forgetful.status.get_or_insert_default().sub_inst_cache = None;
        case.api::<Installation>().replace_status("parent", &PostParams::default(), &forgetful).await?;
        case.change::<Installation>("parent", &spec(children)).await?;
        last = case.finished_after("parent", &job(&last)).await?;
        assert_eq!(outcome(&last), ("Succeeded".to_owned(), String::new()));
    }
    ensure!(case.list::<Installation>("landscaper.gardener.cloud/encompassed-by=parent").await?.is_empty());
    Ok(())
}

/// Sends one call to each service, from an account that may see the named objects.
async fn calls_are_made(case: &Case<'_>) -> Result<()> {
    let (system, name) =
        (case.system, || ObjectName { namespace: NAMESPACE.to_owned(), name: "server".to_owned() });
    let token = account_of_admin(system).await?;
    let mut watcher = WatcherClient::new(channel(system, "watcher", Some(&token))?);
    let state = watcher.get_stream_status(GetStreamStatusRequest {}).await?.into_inner();
    ensure!(state.watches.len() >= 10 && state.watches.iter().all(|watch| watch.synced), "{state:?}");
    let mut resolver = ResolverClient::new(channel(system, "resolver", Some(&token))?);
    resolver
        .explain(ExplainRequest {
            input: Some(explain_request::Input::Installation(name())),
            references: false,
        })
        .await?;
    let mut renderer = RendererClient::new(channel(system, "renderer", Some(&token))?);
    renderer.render(RenderRequest { input: Some(Input::Installation(name())) }).await?;
    let overwrites = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "ComponentVersionOverwrites",
        "metadata": {"name": "my-overwrites"}, "overwrites": [],
    });
    renderer
        .plan(PlanRequest { objects: vec![encode(overwrites)?], namespace: NAMESPACE.to_owned() })
        .await?;
    let mut variants = VariantsClient::new(channel(system, "variant", Some(&token))?);
    let missing = variants.expand(ExpandRequest { input: Some(expand_request::Input::Set(name())) }).await;
    ensure!(missing.is_err_and(|status| status.code() == Code::NotFound), "there is no such set");
    let plan = PreviewRequest { namespace: NAMESPACE.to_owned(), ..PreviewRequest::default() };
    variants.preview(plan).await?;
    let mut deployer = DeployerClient::new(channel(system, "deployer", Some(&token))?);
    let user = Some(make_kubeconfig_request::User::ServiceAccount(name()));
    let request = MakeKubeconfigRequest { target: Some(name()), user, expiration_seconds: 600 };
    let missing = deployer.make_kubeconfig(request).await;
    ensure!(missing.is_err_and(|status| status.code() == Code::NotFound), "there is no such target");
    Ok(())
}

/// Without the unused rights, the API server rejects the objects that the renderer creates. The
/// test shows this with an account that has only the right to create.
async fn the_unused_ones_are_needed(system: &System) -> Result<()> {
    let case = Case::new(system, "owners").await?;
    let owner = case.install("server", &blueprint(&[])).await?;
    case.create::<ServiceAccount>("creator", &json!({})).await?;
    let role = ["--verb=create", "--resource=executions.landscaper.gardener.cloud"];
    system.kubectl(&[&["create", "role", "creator", "-n", "owners"][..], &role].concat()).await?;
    let to = ["--role=creator", "--serviceaccount=owners:creator"];
    system.kubectl(&[&["create", "rolebinding", "creator", "-n", "owners"][..], &to].concat()).await?;
    let client = system.plane.service_account_client("owners", "creator").await?;
    let execution: Execution = serde_json::from_value(json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Execution", "spec": {},
        "metadata": {"name": "theirs", "ownerReferences": [{
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation", "name": "server",
            "uid": owner.metadata.uid, "controller": true, "blockOwnerDeletion": true,
        }]},
    }))?;
    let api: Api<Execution> = Api::namespaced(client, "owners");
    let refused = api.create(&PostParams::default(), &execution).await.err().context("it is refused")?;
    ensure!(refused.to_string().contains("blockOwnerDeletion"), "{refused}");
    Ok(())
}

/// A right is revoked: the condition and the log name verb and resource, and the job proceeds when
/// the right is back.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_right_is_named() -> Result<()> {
    let Some(system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let namespace = "no-rights";
    system.plane.create_namespace(namespace).await?;
    system.kubectl(&["delete", "clusterrolebinding", "groundwork-renderer"]).await?;
    let without_secrets = "clusterrole/groundwork-renderer";
    let patch = r#"[{"op": "test", "path": "/rules/8/resources", "value": ["secrets", "configmaps"]}, {"op": "remove", "path": "/rules/8"}]"#;
    system.kubectl(&["patch", without_secrets, "--type=json", "-p", patch]).await?;
    system
        .kubectl(&[
            "create",
            "clusterrolebinding",
            "groundwork-renderer",
            "--clusterrole=groundwork-renderer",
            "--serviceaccount=groundwork-system:groundwork-renderer",
        ])
        .await?;
    system
        .kubectl(&["create", "secret", "generic", "credentials", "-n", namespace, "--from-literal=a=b"])
        .await?;
    let api: Api<Installation> = Api::namespaced(system.client().await?, namespace);
    let mut object =
        serde_json::to_value(installation(namespace, "server", &blueprint(&[("item", json!({}))])))?;
    object["spec"]["imports"] =
        json!({"data": [{"name": "credentials", "secretRef": {"name": "credentials"}}]});
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let told = "may not get secrets in namespace no-rights";
    wait_for("the condition names the missing right", PATIENCE, async || {
        let installation = api.get("server").await.map_err(|error| error.to_string())?;
        let conditions = installation.status.unwrap_or_default().conditions;
        let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
        match ready {
            Some(ready) if ready.message.contains(told) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .map_err(|error| system.explained(error))?;
    let log = system.service("renderer")?.program.log();
    wait_for("the log names it too", PATIENCE, async || match std::fs::read_to_string(&log) {
        Ok(text) if text.contains(told) => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await?;
    system.kubectl(&["apply", "--server-side", "--force-conflicts", "-k", "k8s/base"]).await?;
    system
        .kubectl(&["wait", "-n", namespace, "--for=condition=Ready", "installation/server", "--timeout=90s"])
        .await?;
    Ok(())
}
