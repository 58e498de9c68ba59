//! gRPC call `Plan`: it returns the plan that the command prints, to callers who could see the
//! changes in the cluster.

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{ComponentVersionOverwrites, Context, DataObject, Installation};
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{PlanRequest, PlanResponse};
use groundwork_tests::{System, documents, workspace};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::case::Case;
use crate::command::run;
use crate::grpc::{account, channel, decode, encode, told};
use crate::shared;
use crate::support::{blueprint, outcome};

const CANARY: &str = "canary-77ad01-sings";
const API: &str = "landscaper.gardener.cloud/v1alpha1";

/// Rights on all resources from which a plan is made.
const SEEN: [&str; 9] = [
    "installations.landscaper.gardener.cloud",
    "executions.landscaper.gardener.cloud",
    "deployitems.landscaper.gardener.cloud",
    "contexts.landscaper.gardener.cloud",
    "componentversionoverwrites.landscaper.gardener.cloud",
    "dataobjects.landscaper.gardener.cloud",
    "targets.landscaper.gardener.cloud",
    "secrets",
    "configmaps",
];

async fn asked(
    system: &System,
    token: Option<&str>,
    namespace: &str,
    objects: &[Value],
) -> Result<Result<PlanResponse, Status>> {
    let objects = objects.iter().map(encode).collect::<Result<_>>()?;
    let request = PlanRequest { objects, namespace: namespace.to_owned() };
    let answer = RendererClient::new(channel(system, "renderer", token)?).plan(request).await;
    Ok(answer.map(tonic::Response::into_inner))
}

/// Returns the answer of the call, after a comparison with the output of the command.
async fn same(case: &Case<'_>, token: &str, objects: &[Value]) -> Result<Value> {
    let (system, namespace) = (case.system, case.namespace.as_str());
    let answer = asked(system, Some(token), namespace, objects).await?;
    let plan = decode(answer.map_err(|error| system.explained(error))?.plan)?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("change.yaml");
    std::fs::write(&path, json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string())?;
    let path = path.display().to_string();
    let map = workspace().join("examples/echo-server/components/repositories.yaml").display().to_string();
    let arguments = ["plan", "-n", namespace, "-f", &path, "--repositories", &map, "-o", "json"];
    let (code, text, problem) = run(system, &arguments).await?;
    ensure!(code == 0 || code == 1, "{code} {text} {problem}");
    let printed: Value = serde_json::from_str(&text)?;
    ensure!(plan == printed, "the call: {plan:#}\nthe command: {printed:#}");
    ensure!(!plan.to_string().contains(CANARY), "a value of a Secret shows: {plan:#}");
    Ok(plan)
}

/// Returns an object of the example in another namespace.
fn of_example(file: &str) -> Result<Value> {
    let text = std::fs::read_to_string(workspace().join("examples/echo-server").join(file))?;
    let mut object = documents(&text)?.into_iter().next().context("a document")?;
    object["metadata"].as_object_mut().context("metadata")?.remove("namespace");
    Ok(object)
}

/// Returns an Installation that imports a value of a Secret into an item.
fn with_login(name: &str, number: u32) -> Value {
    let items = blueprint(&[("item", json!({"size": number, "pass": "PASS"}))])
        .replace(
            "kind: Blueprint\n",
            "kind: Blueprint\nimports:\n- {name: pass, type: data, schema: {type: string}}\n",
        )
        .replace("\"PASS\"", "{{ .imports.pass | b64enc | quote }}");
    json!({
        "apiVersion": API, "kind": "Installation", "metadata": {"name": name},
        "spec": {
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": items}}},
            "imports": {"data": [{"name": "pass", "secretRef": {"name": "login", "key": "password"}}]},
        },
    })
}

fn only(plan: &Value) -> Result<&Value> {
    match plan["installations"].as_array().map(Vec::as_slice) {
        Some([one]) => Ok(one),
        _ => anyhow::bail!("one Installation is planned: {plan:#}"),
    }
}

/// Call and command give the same plan for no change, an Installation, overwrites that lead to a
/// component version unused so far, a Secret, and new objects.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_over_grpc_is_that_of_the_command() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "plan-calls").await?;
    let token = planner(&case, "planner").await?;
    let overwrites = of_example("component-overwrites.yaml")?;
    case.create::<ComponentVersionOverwrites>("my-overwrites", &overwrites).await?;
    case.create::<Context>("mine", &json!({"componentVersionOverwrites": "my-overwrites"})).await?;
    case.create::<DataObject>("greeting", &of_example("greeting.yaml")?).await?;
    case.create::<Secret>("login", &json!({"stringData": {"password": CANARY}})).await?;
    let mut server = of_example("installation.yaml")?;
    server["spec"]["context"] = json!("mine");
    for (name, object) in [("server", server.clone()), ("user", with_login("user", 1))] {
        let spec = json!({"metadata": {"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}}, "spec": object["spec"]});
        case.create::<Installation>(name, &spec).await?;
        assert_eq!(outcome(&case.finished(name).await?), ("Succeeded".to_owned(), String::new()));
    }

    let plan = same(&case, &token, &[server.clone(), overwrites.clone(), with_login("user", 1)]).await?;
    assert_eq!(plan["installations"], json!([]));

    let mut changed = server.clone();
    changed["spec"]["imports"]["data"][0]["dataRef"] = json!("other");
    let other = json!({"apiVersion": API, "kind": "DataObject", "metadata": {"name": "other"}, "data": "good evening"});
    let plan = same(&case, &token, &[changed, other]).await?;
    assert_eq!(only(&plan)?["items"][0]["change"], "changed");
    ensure!(plan.to_string().contains("good evening"), "{plan:#}");

    let mut none = overwrites;
    none["overwrites"] = json!([]);
    let plan = same(&case, &token, &[none]).await?;
    let planned = only(&plan)?;
    ensure!(planned["error"].is_null() && planned["reasons"][0]["reason"] == "redirected", "{plan:#}");

    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "stringData": {"password": format!("{CANARY}2")},
    });
    let plan = same(&case, &token, &[secret, with_login("user", 2), with_login("new", 3)]).await?;
    assert_eq!(plan["installations"].as_array().map(Vec::len), Some(2), "{plan:#}");
    let item = &plan["installations"].as_array().into_iter().flatten().find(|one| one["name"] == "user");
    ensure!(item.is_some_and(|user| user.to_string().contains("[hidden")), "{plan:#}");
    Ok(())
}

/// Creates an account with all rights that a plan needs.
pub(crate) async fn planner(case: &Case<'_>, name: &str) -> Result<String> {
    let token = account(case, name, &SEEN).await?;
    let (role, namespace) = (format!("{name}-update"), case.namespace.as_str());
    let rule = ["--verb=update", "--resource=installations.landscaper.gardener.cloud"];
    case.system.kubectl(&[&["create", "role", "-n", namespace, &role][..], &rule].concat()).await?;
    let (of, to) = (format!("--role={role}"), format!("--serviceaccount={namespace}:{name}"));
    case.system.kubectl(&["create", "rolebinding", "-n", namespace, &role, &of, &to]).await?;
    Ok(token)
}

/// A caller who may not see the input of a plan, or may not have jobs run, gets an error that names
/// the missing right.
#[tokio::test(flavor = "multi_thread")]
async fn plans_are_for_those_who_could_see_them_happen() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "plan-rights").await?;
    let rights = planner(&case, "planner").await?;
    let viewer = account(&case, "viewer", &SEEN).await?;
    let partial = account(&case, "partial", &SEEN[..7]).await?;
    let denied = (Code::PermissionDenied, "ACCESS_DENIED".to_owned());
    let install = with_login("new", 1);
    let mut elsewhere = install.clone();
    elsewhere["metadata"]["namespace"] = json!("default");
    for (token, object, code, words) in [
        (None, &install, (Code::Unauthenticated, "TOKEN_INVALID".to_owned()), ""),
        (Some(&viewer), &install, denied.clone(), "may not update installations.landscaper.gardener.cloud"),
        (Some(&partial), &install, denied.clone(), "may not get secrets in namespace \"plan-rights\""),
        (Some(&rights), &elsewhere, denied, "in namespace \"default\""),
    ] {
        let objects = [object.clone()];
        let refused = asked(system, token.map(String::as_str), "plan-rights", &objects).await?;
        let refused = refused.err().context("it is refused")?;
        assert_eq!(told(&refused), code, "{refused:?}");
        ensure!(refused.message().contains(words), "{refused:?}");
    }
    // The Secret of the plan is missing, which is a result and not an error of the call.
    let answer = asked(system, Some(&rights), "plan-rights", &[install]).await??;
    let plan = decode(answer.plan)?;
    ensure!(only(&plan)?["error"].as_str().is_some_and(|error| error.contains("login")), "{plan:#}");
    Ok(())
}

/// A hostile plan fails for its caller only.
#[tokio::test(flavor = "multi_thread")]
async fn hostile_plans_are_refused_or_fail_as_their_jobs_would() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "plan-hostile").await?;
    let token = planner(&case, "planner").await?;
    let install = |text: &str| {
        json!({
            "apiVersion": API, "kind": "Installation", "metadata": {"name": "new"},
            "spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": text}}}},
        })
    };
    let mut deep = install("");
    let inner = (0..300).fold(json!(1), |inner, _| json!([inner]));
    deep["spec"]["blueprint"]["inline"]["filesystem"] = json!({"a": inner});
    let kind = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x"}, "spec": {}});
    for (object, words) in [
        (deep, "not valid JSON"),
        (json!({"kind": "Installation"}), "apiVersion must be given"),
        (kind(API, "DeployItem"), "objects[0]: "),
        (kind("v1", "Pod"), "its kind must be one of Installation"),
    ] {
        let refused = asked(system, Some(&token), "plan-hostile", &[object]).await?;
        let refused = refused.err().context("it is refused")?;
        assert_eq!(told(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()), "{refused:?}");
        ensure!(refused.message().contains(words), "{refused:?}");
    }
    let endless = "{{ define \"a\" }}{{ range $i := until 1000000 }}{{ template \"a\" . }}{{ end }}{{ end }}{{ template \"a\" . }}";
    let endless = json!({
        "apiVersion": API, "kind": "Blueprint", "deployExecutions": [{"name": "d", "type": "GoTemplate", "template": endless}],
    });
    for text in [format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)), endless.to_string()] {
        match asked(system, Some(&token), "plan-hostile", &[install(&text)]).await? {
            Ok(answer) => {
                let plan = decode(answer.plan)?;
                ensure!(only(&plan)?["error"].is_string(), "{plan:#}");
            }
            Err(refused) => assert_eq!(told(&refused).0, Code::ResourceExhausted, "{refused:?}"),
        }
    }
    let answer =
        asked(system, Some(&token), "plan-hostile", &[install(&blueprint(&[("item", json!({}))]))]).await??;
    assert_eq!(only(&decode(answer.plan)?)?["items"][0]["change"], "created");
    Ok(())
}
