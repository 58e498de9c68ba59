//! gRPC servers of the services, as other programs call them.

use std::collections::HashMap;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, stream};
use groundwork_api::{DataObject, DeployItem, Execution, Installation};
use groundwork_grpc::{Channel, TokenSource, connect};
use groundwork_proto::component::v1::{Json, ObjectName};
use groundwork_proto::renderer::v1::render_request::Input;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{RenderInput, RenderRequest, ValidateRequest};
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::resolver::v1::{ExplainRequest, ResolveRequest, explain_request};
use groundwork_proto::status;
use groundwork_tests::System;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::ResourceExt;
use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::case::{Case, job};
use crate::echo_server::apply;
use crate::shared;
use crate::support::{blueprint, outcome};

/// Returns a channel to a service, with or without a token.
pub(crate) fn channel(system: &System, service: &str, token: Option<&str>) -> Result<Channel> {
    let token = token.map_or_else(TokenSource::none, TokenSource::fixed);
    Ok(connect(&format!("http://127.0.0.1:{}", system.grpc_port(service)), None, token)?)
}

/// Creates an account that may get these resources in its namespace, and returns its token.
pub(crate) async fn account(case: &Case<'_>, name: &str, resources: &[&str]) -> Result<String> {
    let (system, namespace) = (case.system, case.namespace.as_str());
    case.create::<ServiceAccount>(name, &json!({})).await?;
    for resource in resources {
        let (role, verb) =
            (format!("{name}-{}", resource.split('.').next().unwrap_or_default()), "--verb=get");
        let resource = format!("--resource={resource}");
        system.kubectl(&["create", "role", "-n", namespace, &role, verb, &resource]).await?;
        let (of, to) = (format!("--role={role}"), format!("--serviceaccount={namespace}:{name}"));
        system.kubectl(&["create", "rolebinding", "-n", namespace, &role, &of, &to]).await?;
    }
    Ok(system.plane.service_account_token(namespace, name).await?)
}

/// Returns the token of an account with all rights.
pub(crate) async fn account_of_admin(system: &System) -> Result<String> {
    let case = Case::existing(system, "default").await?;
    case.create::<ServiceAccount>("caller", &json!({})).await?;
    let to = ["--clusterrole=cluster-admin", "--serviceaccount=default:caller"];
    system.kubectl(&[&["create", "clusterrolebinding", "caller"][..], &to].concat()).await?;
    Ok(system.plane.service_account_token("default", "caller").await?)
}

/// Returns code and reason of an error, on which programs base their decisions.
pub(crate) fn told(status: &Status) -> (Code, String) {
    (status.code(), status::reason(status).unwrap_or_default())
}

pub(crate) fn encode(object: impl serde::Serialize) -> Result<Json> {
    Ok(Json { text: serde_json::to_string(&object)? })
}

pub(crate) fn decode(json: Option<Json>) -> Result<Value> {
    Ok(serde_json::from_str(&json.context("the answer has the object")?.text)?)
}

/// Any gRPC client can find out the health of a service and its calls, by health checks and
/// reflection.
#[tokio::test(flavor = "multi_thread")]
async fn services_say_that_they_serve_and_what() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    for (service, contract) in [
        ("watcher", "groundwork.watcher.v1.Watcher"),
        ("resolver", "groundwork.resolver.v1.Resolver"),
        ("renderer", "groundwork.renderer.v1.Renderer"),
        ("variant", "groundwork.variant.v1.Variants"),
        ("deployer", "groundwork.deployer.v1.Deployer"),
    ] {
        let mut health = HealthClient::new(channel(system, service, None)?);
        for name in ["", contract] {
            let answer = health.check(HealthCheckRequest { service: name.to_owned() }).await?.into_inner();
            assert_eq!(answer.status(), ServingStatus::Serving, "{service} {name:?}");
        }
        let request = ServerReflectionRequest {
            message_request: Some(MessageRequest::ListServices(String::new())),
            ..ServerReflectionRequest::default()
        };
        let mut reflection = ServerReflectionClient::new(channel(system, service, None)?);
        let mut answers = reflection.server_reflection_info(stream::iter([request])).await?.into_inner();
        let answer = answers.next().await.context("reflection answers")??;
        let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
            anyhow::bail!("{service} lists no services: {answer:?}");
        };
        let names: Vec<&str> = list.service.iter().map(|service| service.name.as_str()).collect();
        ensure!(names.contains(&contract) && names.contains(&"grpc.health.v1.Health"), "{names:?}");
    }
    Ok(())
}

/// O-30, O-33, O-35: `Resolve` and `Explain` answer only callers who may get the Installation.
#[tokio::test(flavor = "multi_thread")]
async fn calls_about_an_installation_are_for_those_who_may_get_it() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    apply(system).await?;
    let case = Case::existing(system, "my-namespace").await?;
    let reader = account(&case, "reader", &["installations.landscaper.gardener.cloud"]).await?;
    let stranger = account(&case, "stranger", &[]).await?;
    let installation: Installation = case.get("server").await?;
    let name = || Some(ObjectName { namespace: case.namespace.clone(), name: "server".to_owned() });
    let resolve = || ResolveRequest { installation: name(), job_id: job(&installation) };
    let explain =
        || ExplainRequest { input: name().map(explain_request::Input::Installation), references: false };

    for (token, refusal) in [
        (None, (Code::Unauthenticated, "TOKEN_INVALID")),
        (Some("invented"), (Code::Unauthenticated, "TOKEN_INVALID")),
        (Some(stranger.as_str()), (Code::PermissionDenied, "ACCESS_DENIED")),
    ] {
        let mut resolver = ResolverClient::new(channel(system, "resolver", token)?);
        let refusals = [
            told(&resolver.resolve(resolve()).await.err().context("Resolve is refused")?),
            told(&resolver.explain(explain()).await.err().context("Explain is refused")?),
        ];
        assert_eq!(refusals, [(refusal.0, refusal.1.to_owned()), (refusal.0, refusal.1.to_owned())]);
    }
    let mut resolver = ResolverClient::new(channel(system, "resolver", Some(&reader))?);
    let answer = resolver.resolve(resolve()).await?.into_inner();
    let effective = answer.effective.context("there is a component")?;
    assert_eq!((effective.name.as_str(), effective.version.as_str()), ("my-own-echo-server", "v0.2.0"));
    let repository = json!({"type": "ociRegistry", "baseUrl": "example.org/my-own-registry/components"});
    assert_eq!(decode(effective.repository_context)?, repository);
    ensure!(answer.matched && answer.failure.is_none() && !answer.closure.is_empty(), "it is resolved");
    let status = decode(answer.installation)?["status"].clone();
    assert_eq!(status["jobID"], json!(job(&installation)));

    let explained = resolver.explain(explain()).await?.into_inner();
    let rules: Vec<String> = explained
        .rules
        .iter()
        .map(|rule| format!("{} {}", rule.rule, rule.outcome().as_str_name()))
        .collect();
    assert_eq!(rules, ["1 OUTCOME_APPLIED", "2 OUTCOME_IGNORED"]);
    let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let written = conditions.iter().find(|found| found["type"] == "ComponentReferenceOverwrite");
    assert_eq!(written.context("the condition")?["message"], json!(explained.condition_message));

    let late = ResolveRequest { job_id: "an earlier one".to_owned(), ..resolve() };
    let refused = resolver.resolve(late).await.err().context("a late call is refused")?;
    assert_eq!(told(&refused), (Code::FailedPrecondition, "JOB_SUPERSEDED".to_owned()));
    Ok(())
}

/// Returns the parts of a DeployItem that depend neither on the UID of its Execution nor on time.
fn essence(mut item: Value) -> Value {
    let annotations = item["metadata"]["annotations"].as_object_mut();
    annotations.map(|all| all.remove("landscaper.gardener.cloud/reconcile-time"));
    let prefix =
        item["metadata"]["name"].as_str().unwrap_or_default().rsplit_once('-').map(|(prefix, _)| prefix);
    let (labels, annotations) = (&item["metadata"]["labels"], &item["metadata"]["annotations"]);
    json!([prefix, labels, annotations, item["spec"]])
}

/// A rendering of an Installation contains values of Secrets, so it requires the right to get them.
/// For inline input any authenticated user is accepted. The result is the same as in the cluster.
#[tokio::test(flavor = "multi_thread")]
async fn rendering_gives_what_the_cluster_made_of_the_same_objects() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "rendering").await?;
    case.create::<DataObject>("number", &json!({"data": 9_007_199_254_740_993_u64})).await?;
    case.create::<Secret>("login", &json!({"stringData": {"user": "alice"}})).await?;
    let text = blueprint(&[("one", json!({"export": {"number": "NUMBER", "user": "USER"}})), ("two", json!({}))])
        .replace("kind: Blueprint\n", "kind: Blueprint\nimports: [{name: number, type: data, schema: {}}, {name: user, type: data, schema: {}}]\n")
        .replace("\"NUMBER\"", "{{ toJson .imports.number }}")
        .replace("\"USER\"", "{{ toJson .imports.user }}");
    let imports = json!({"data": [
        {"name": "number", "dataRef": "number"}, {"name": "user", "secretRef": {"name": "login", "key": "user"}},
    ]});
    let installation = case.install_with("server", &text, &json!({"imports": imports})).await?;
    assert_eq!(outcome(&installation).0, "Succeeded");
    let made = [case.item("server", "one").await?, case.item("server", "two").await?];
    let made: Vec<Value> = made.iter().map(|item: &DeployItem| essence(json!(item))).collect();
    ensure!(made[0].to_string().contains("9007199254740993"), "numbers keep their digits: {made:?}");

    let mut objects =
        vec![encode(&installation)?, encode(case.get::<groundwork_api::Context>("default").await?)?];
    objects.push(encode(case.get::<DataObject>("number").await?)?);
    objects.push(encode(json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "rendering"},
        "stringData": {"user": "alice"},
    }))?);
    let with = |blueprint| RenderRequest {
        input: Some(Input::Inline(RenderInput {
            objects: objects.clone(),
            blueprint,
            ..RenderInput::default()
        })),
    };
    let name = ObjectName { namespace: case.namespace.clone(), name: "server".to_owned() };
    let named = || RenderRequest { input: Some(Input::Installation(name.clone())) };

    let installations = "installations.landscaper.gardener.cloud";
    let reader = account(&case, "reader", &[installations]).await?;
    let allowed = account(&case, "allowed", &[installations, "secrets"]).await?;
    let stranger = account(&case, "stranger", &[]).await?;
    let calls = |token: Option<&str>| {
        Ok::<_, anyhow::Error>(RendererClient::new(channel(system, "renderer", token)?))
    };
    for (token, refusal) in [
        (None, (Code::Unauthenticated, "TOKEN_INVALID")),
        (Some(reader.as_str()), (Code::PermissionDenied, "ACCESS_DENIED")),
    ] {
        let refused = calls(token)?.render(named()).await.err().context("Render is refused")?;
        assert_eq!(told(&refused), (refusal.0, refusal.1.to_owned()));
    }
    let answers = [
        calls(Some(&stranger))?.render(with(HashMap::new())).await?,
        calls(Some(&allowed))?.render(named()).await?,
    ];
    for answer in answers.map(tonic::Response::into_inner) {
        ensure!(answer.failure.is_none(), "{:?}", answer.failure);
        let rendered = answer.deploy_items.into_iter().map(|item| Ok(essence(decode(Some(item))?)));
        assert_eq!(rendered.collect::<Result<Vec<_>>>()?, made);
        let execution: Execution = case.get("server").await?;
        let rendered = decode(answer.execution)?;
        assert_eq!(rendered["spec"], json!(execution.spec));
        assert_eq!(rendered["metadata"]["name"], json!(execution.name_any()));
    }

    // An author renders unpublished files of a blueprint.
    let deployment = "deployExecutions: [{name: all, type: GoTemplate, file: /parts/all.tpl}]\n";
    let head = text.split("deployExecutions").next().unwrap_or_default();
    let files = |folder: &str| {
        let item = "deployItems: [{name: tried, type: mock, config: {user: {{ .imports.user }}}}]";
        let template = (format!("{folder}/all.tpl"), item.as_bytes().to_vec());
        HashMap::from([("blueprint.yaml".to_owned(), format!("{head}{deployment}").into_bytes()), template])
    };
    let answer = calls(Some(&stranger))?.render(with(files("parts"))).await?.into_inner();
    ensure!(answer.failure.is_none(), "{:?}", answer.failure);
    let items = answer.deploy_items.into_iter().map(|item| decode(Some(item))).collect::<Result<Vec<_>>>()?;
    assert_eq!(
        items.iter().map(|item| &item["spec"]["config"]).collect::<Vec<_>>(),
        [&json!({"user": "alice"})]
    );
    let refused = calls(Some(&stranger))?
        .render(with(files("../parts")))
        .await
        .err()
        .context("a way out is refused")?;
    assert_eq!(told(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    Ok(())
}

/// Validation reports every broken rule with the path of its field (`installations.md` 1.1). A
/// malformed request is reported in the error details.
#[tokio::test(flavor = "multi_thread")]
async fn validation_names_all_fields_at_once() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "validating").await?;
    let stranger = account(&case, "stranger", &[]).await?;
    let mut renderer = RendererClient::new(channel(system, "renderer", Some(&stranger))?);
    let installation = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {"name": "server", "namespace": "team"},
        "spec": {
            "blueprint": {},
            "imports": {
                "data": [{"name": "a"}, {"name": "b", "dataRef": "b", "secretRef": {"name": "b"}}],
                "targets": [{"name": "b", "target": "b"}],
            },
        },
    });
    let request = ValidateRequest { installation: Some(encode(installation)?), ..ValidateRequest::default() };
    let answer = renderer.validate(request).await?.into_inner();
    let fields: Vec<&str> = answer.violations.iter().map(|violation| violation.field.as_str()).collect();
    assert_eq!(
        fields,
        ["spec.blueprint", "spec.imports.data[0]", "spec.imports.data[1]", "spec.imports.targets[0].name"]
    );
    ensure!(answer.violations.iter().all(|violation| !violation.message.is_empty()), "{answer:?}");

    let misspelt = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {"name": "server", "namespace": "team"},
        "spec": {"contxt": "default", "blueprint": {"inline": {"filesystem": {}}}},
    });
    let request = ValidateRequest { installation: Some(encode(&misspelt)?), ..ValidateRequest::default() };
    let answer = renderer.validate(request).await?.into_inner();
    let messages: Vec<&str> = answer.violations.iter().map(|found| found.message.as_str()).collect();
    assert_eq!(messages, ["unknown field \"spec.contxt\""]);
    let objects = vec![encode(&misspelt)?];
    let input = Some(Input::Inline(RenderInput { objects, ..RenderInput::default() }));
    let refused =
        renderer.render(RenderRequest { input }).await.err().context("a misspelt field is refused")?;
    assert_eq!(told(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    assert_eq!(refused.message(), "inline.objects[0]: unknown field \"spec.contxt\"");
    let nameless = ObjectName { namespace: "team".to_owned(), name: String::new() };
    let input = Some(Input::Installation(nameless));
    let refused = renderer.render(RenderRequest { input }).await.err().context("no name is refused")?;
    assert_eq!(told(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));

    let installation = Some(Json { text: "{\"spec\": hidden}".to_owned() });
    let broken = ValidateRequest { installation, ..ValidateRequest::default() };
    let refused = renderer.validate(broken).await.err().context("what is no JSON is refused")?;
    assert_eq!(told(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    let violations = status::violations(&refused);
    assert_eq!(violations.len(), 1);
    assert_eq!(violations[0].field, "installation");
    ensure!(!refused.message().contains("hidden"), "{}", refused.message());
    Ok(())
}
