//! Heavy and hostile Installations: they do not harm others, and their jobs end.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use groundwork_api::{DeployItem, Execution, Installation};
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{
    PlanRequest, RenderExportsRequest, RenderInput, RenderRequest, ValidateRequest, render_exports_request,
    render_request,
};
use groundwork_tests::{System, SystemOptions, wait_for};
use serde_json::{Value, json};
use tonic::{Code, Request};

use crate::case::Case;
use crate::grpc::{account, channel, encode};
use crate::planning_calls::planner;
use crate::support::{PATIENCE, blueprint, outcome, requests};

/// Number of templates. Each of them uses nearly all of its allowed steps, so together they take
/// minutes.
const TEMPLATES: usize = 400;
const STEPS: usize = 49_000_000;
/// Number of Installations that the renderer works on at the same time.
const CROWD: usize = 16;

/// Returns a blueprint whose rendering exceeds every timeout, although it would end.
fn endless() -> String {
    let execution = |index: usize| {
        let template = format!("{{{{ range {STEPS} }}}}{{{{ end }}}}");
        json!({"name": format!("e{index}"), "type": "GoTemplate", "template": template})
    };
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "deployExecutions": (0..TEMPLATES).map(execution).collect::<Vec<_>>(),
    })
    .to_string()
}

/// As many Installations with an endless rendering as the renderer has slots: a small one still
/// succeeds, their jobs end, and none of their renderings continues.
#[tokio::test(flavor = "multi_thread")]
async fn endless_renderings_are_ended() -> Result<()> {
    let variables = vec![("GROUNDWORK_RENDER_TIMEOUT".to_owned(), "2s".to_owned())];
    let options = SystemOptions { variables, ..SystemOptions::default() };
    let Some(system) = System::start(options).await? else { return Ok(()) };
    let case = Case::new(&system, "endless").await?;
    for index in 0..CROWD {
        case.begin_with(&format!("endless-{index:02}"), &endless(), &json!({})).await?;
    }
    let done = case.install("small", &blueprint(&[("item", json!({}))])).await?;
    assert_eq!(outcome(&done), ("Succeeded".to_owned(), String::new()));
    for index in 0..CROWD {
        let ended = case.finished(&format!("endless-{index:02}")).await?;
        let (phase, error) = outcome(&ended);
        ensure!(phase == "Failed" && error.starts_with("RenderTimeout: "), "{phase} {error}");
    }
    let (code, body) = system.admin("renderer", "/readyz").await?;
    ensure!(code == 200, "{code} {body}");
    assert_eq!(
        ended_workers(&system, "renderer", "renderer-jobs", "wall_time").await?,
        u64::try_from(CROWD)?
    );
    Ok(())
}

/// A service whose workers are all busy still answers health checks, and ends on SIGTERM.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_at_work_ends_when_it_is_told_to() -> Result<()> {
    let Some(system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let case = Case::new(&system, "endless-told").await?;
    for index in 0..CROWD {
        case.begin_with(&format!("endless-{index:02}"), &endless(), &json!({})).await?;
    }
    let is_rendered = |found: &Installation| {
        found.status.as_ref().is_some_and(|status| status.rendering_attempts == Some(1))
    };
    case.until("it is rendered", "endless-00", is_rendered).await?;
    let (code, body) = system.admin("renderer", "/healthz").await?;
    ensure!(code == 200, "{code} {body}");
    let renderer = &system.service("renderer")?.program;
    renderer.signal("TERM")?;
    // Running work gets the drain time of a service, which is shorter than a rendering may take.
    wait_for("the renderer ends", Duration::from_secs(25), async || {
        if renderer.is_running() { Err("it runs".to_owned()) } else { Ok(()) }
    })
    .await
    .map_err(|error| system.explained(error))?;
    Ok(())
}

/// Returns the number of workers in a service's pool that ended for a reason.
pub(crate) async fn ended_workers(system: &System, service: &str, pool: &str, reason: &str) -> Result<u64> {
    let (_, metrics) = system.admin(service, "/metrics").await?;
    let name = format!(r#"groundwork_sandbox_ended_total{{pool="{pool}",reason="{reason}"}} "#);
    let value = metrics.lines().find_map(|line| line.strip_prefix(&name)).with_context(|| metrics.clone())?;
    Ok(value.parse()?)
}

/// Returns a blueprint whose template creates several texts of 30 MB.
fn greedy(texts: usize) -> String {
    let text = |index| format!("{{{{ $t{index} := repeat 30000000 \"x\" }}}}");
    let template: String = (0..texts).map(text).collect();
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "deployExecutions": [{"name": "greedy", "type": "GoTemplate", "template": template}],
    })
    .to_string()
}

/// Returns a blueprint with an item whose configuration is nested more deeply than any JSON parser
/// here allows.
fn nested() -> String {
    let config = r#"{{ repeat 200 "[" }}{{ repeat 200 "]" }}"#;
    let template = format!(
        "deployItems:\n- name: deep\n  type: landscaper.gardener.cloud/mock\n  config: {{apiVersion: a/v1, kind: B, deep: {config}}}\n"
    );
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "deployExecutions": [{"name": "nested", "type": "GoTemplate", "template": template}],
    })
    .to_string()
}

/// Jobs and calls that exceed the limits of memory or CPU time, although they stay below the limits
/// of the engines. Each fails with an error that names the limit, only in the status of its own
/// Installation, and the renderer keeps running in the same process.
#[tokio::test(flavor = "multi_thread")]
async fn what_exceeds_the_limits_of_a_worker_ends_alone() -> Result<()> {
    let variables = [("GROUNDWORK_WORKER_MEMORY", "32"), ("GROUNDWORK_WORKER_CPU_SECONDS", "2")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let options = SystemOptions { variables, ..SystemOptions::default() };
    let Some(system) = System::start(options).await? else { return Ok(()) };
    let process = system.service("renderer")?.program.pid()?;
    let case = Case::new(&system, "hostile").await?;
    let memory = "more than the 32 MiB of memory that it may use (--worker-memory)";
    let cpu = "more than the 2 s of processor time that it may use (--worker-cpu-seconds)";
    for round in 0..3 {
        case.begin_with(&format!("greedy-{round}"), &greedy(6), &json!({})).await?;
        case.begin_with(&format!("busy-{round}"), &endless(), &json!({})).await?;
    }
    for round in 0..3 {
        let done = case.install(&format!("small-{round}"), &blueprint(&[("item", json!({}))])).await?;
        assert_eq!(outcome(&done), ("Succeeded".to_owned(), String::new()));
    }
    for round in 0..3 {
        for (name, limit) in [("greedy", memory), ("busy", cpu)] {
            let (phase, error) = outcome(&case.finished(&format!("{name}-{round}")).await?);
            ensure!(
                phase == "Failed" && error.starts_with("RenderLimit: ") && error.contains(limit),
                "{name}: {error}"
            );
        }
    }
    let (phase, error) = outcome(&case.install("nested", &nested()).await?);
    ensure!(
        phase == "Failed" && error.contains("is nested more than a hundred levels deep"),
        "{phase} {error}"
    );
    // Work within the limits succeeds in every worker, whatever that worker did before.
    let done = case.install("modest", &greedy(1)).await?;
    assert_eq!(outcome(&done), ("Succeeded".to_owned(), String::new()));
    for reason in ["memory", "cpu_time"] {
        assert_eq!(ended_workers(&system, "renderer", "renderer-jobs", reason).await?, 3, "{reason}");
    }

    let caller = account(&case, "caller", &[]).await?;
    let mut renderer = RendererClient::new(channel(&system, "renderer", Some(&caller))?);
    let input = |blueprint: &str| {
        let context = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Context",
            "metadata": {"name": "default", "namespace": "hostile"},
        });
        let objects = vec![encode(installation(blueprint))?, encode(&context)?];
        anyhow::Ok(RenderInput { objects, ..RenderInput::default() })
    };
    let exports = |blueprint: &str| {
        let blueprint = blueprint.replace("deployExecutions", "exportExecutions");
        let input = Some(render_exports_request::Input::Inline(input(&blueprint)?));
        anyhow::Ok(RenderExportsRequest { input, ..RenderExportsRequest::default() })
    };
    let call = |blueprint: &str| {
        anyhow::Ok(RenderRequest { input: Some(render_request::Input::Inline(input(blueprint)?)) })
    };
    for (blueprint, limit) in [(greedy(6), memory), (endless(), cpu)] {
        let refused = renderer.render(call(&blueprint)?).await.unwrap_err();
        ensure!(refused.code() == Code::ResourceExhausted && refused.message().contains(limit), "{refused}");
        let answer = renderer.render(call(&greedy(1))?).await?.into_inner();
        ensure!(answer.failure.is_none(), "{answer:?}");
        let refused = renderer.render_exports(exports(&blueprint)?).await.unwrap_err();
        ensure!(refused.code() == Code::ResourceExhausted && refused.message().contains(limit), "{refused}");
    }
    for reason in ["memory", "cpu_time"] {
        assert_eq!(ended_workers(&system, "renderer", "renderer-calls", reason).await?, 2, "{reason}");
    }
    checks_and_plans_end_alone(&case, memory, cpu).await?;
    // A caller that disconnects ends its work, too.
    wait_for("the work of a caller that went is ended", PATIENCE, async || {
        let mut short = Request::new(call(&endless()).map_err(|error| error.to_string())?);
        short.set_timeout(Duration::from_millis(500));
        let answer = renderer.clone().render(short).await;
        match ended_workers(&system, "renderer", "renderer-calls", "abandoned").await {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{:?}", answer.err())),
        }
    })
    .await?;
    let (code, body) = system.admin("renderer", "/readyz").await?;
    ensure!(code == 200, "{code} {body}");
    assert_eq!(system.service("renderer")?.program.pid()?, process, "the renderer is the same process");
    Ok(())
}

/// Returns an Installation for the calls that exceed a worker's limits.
fn installation(blueprint: &str) -> Value {
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {"name": "server", "namespace": "hostile"},
        "spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint}}}},
    })
}

/// The renderer's other calls on inline input fail in the same way at the limits of a worker.
async fn checks_and_plans_end_alone(case: &Case<'_>, memory: &str, cpu: &str) -> Result<()> {
    let token = planner(case, "planner").await?;
    let mut renderer = RendererClient::new(channel(case.system, "renderer", Some(&token))?);
    for (blueprint, limit) in [(greedy(6), memory), (endless(), cpu)] {
        let objects = vec![encode(installation(&blueprint))?];
        let answer = renderer.plan(PlanRequest { objects, namespace: "hostile".to_owned() }).await;
        let refused = answer.err().context("a plan beyond the limits is refused")?;
        ensure!(refused.code() == Code::ResourceExhausted && refused.message().contains(limit), "{refused}");
    }
    // The request is small enough to be sent, and too much for a worker, which runs out of either
    // memory or time.
    let choices = vec![json!([]); 1_000_000];
    let blueprint = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "localTypes": {"choice": {"enum": choices}},
    });
    let blueprint = [("blueprint.yaml".to_owned(), blueprint.to_string().into_bytes())].into();
    let answer = renderer.validate(ValidateRequest { blueprint, ..ValidateRequest::default() }).await;
    let refused = answer.err().context("a check beyond the limits is refused")?;
    let is_told = [memory, cpu].iter().any(|limit| refused.message().contains(limit));
    ensure!(refused.code() == Code::ResourceExhausted && is_told, "{refused}");
    Ok(())
}

/// A rendering during which the process dies three times fails, and the deletion of such an
/// Installation needs no rendering.
#[tokio::test(flavor = "multi_thread")]
async fn a_rendering_that_ends_the_process_is_given_up() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    system.plane.create_namespace("poison").await?;
    {
        let case = Case::existing(&system, "poison").await?;
        case.begin_with("poison", &endless(), &json!({})).await?;
        case.begin_with("poison-deleted", &endless(), &json!({})).await?;
    }
    for attempt in 1..=3_i64 {
        {
            let case = Case::existing(&system, "poison").await?;
            wait_for(&format!("attempt {attempt} is counted"), PATIENCE, async || {
                let found: Installation = case.get("poison").await.map_err(|error| error.to_string())?;
                let status = found.status.unwrap_or_default();
                if status.rendering_attempts == Some(attempt) {
                    Ok(())
                } else {
                    Err(json!(status).to_string())
                }
            })
            .await
            .map_err(|error| system.explained(error))?;
            if attempt == 1 {
                case.delete::<Installation>("poison-deleted").await?;
            }
        }
        system.service_mut("renderer")?.program.kill().await?;
        system.service_mut("renderer")?.program.start_again()?;
    }
    let case = Case::existing(&system, "poison").await?;
    let (phase, error) = outcome(&case.finished("poison").await?);
    ensure!(phase == "Failed" && error.starts_with("RenderingEndsProcess: "), "{phase} {error}");
    wait_for("what was deleted is gone", PATIENCE, async || {
        match case.get::<Installation>("poison-deleted").await {
            Ok(found) => Err(json!(found.status).to_string()),
            Err(_) => Ok(()),
        }
    })
    .await
    .map_err(|error| system.explained(error))?;
    case.delete::<Installation>("poison").await?;
    Ok(())
}

/// Returns a blueprint with this number of items of this size, whose Execution cannot be stored
/// because its content is incompressible.
fn incompressible(items: usize, letters: usize) -> String {
    let template = format!(
        "deployItems:\n{{{{- range until {items} }}}}\n- name: i{{{{ . }}}}\n  type: landscaper.gardener.cloud/mock\n  config:\n    \
         apiVersion: mock.deployer.landscaper.gardener.cloud/v1alpha1\n    kind: ProviderConfiguration\n    \
         text: {{{{ randAlphaNum {letters} }}}}\n{{{{- end }}}}\n"
    );
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": template}],
    })
    .to_string()
}

/// An object that is too large for etcd ends the job with an error that says so (`installations.md`
/// 2.1, rule 7, and 2.2). The API server answers 500 for it, which the renderer does not retry
/// here. For a request that the API server itself considers too large, it answers 413.
#[tokio::test(flavor = "multi_thread")]
async fn an_execution_too_large_for_the_store_is_a_final_error() -> Result<()> {
    let Some(system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let case = Case::new(&system, "too-large").await?;
    for (name, items, letters, code) in [("store", 3_000, 600, 500), ("server", 3_000, 1_200, 413)] {
        let failed = case.install(name, &incompressible(items, letters)).await?;
        let (phase, error) = outcome(&failed);
        ensure!(phase == "Failed", "{name}: {phase} {error}");
        ensure!(error.contains("is larger than the API server can store"), "{name}: {error}");
        ensure!(!error.contains("randAlphaNum") && error.len() < 8_192, "{name}: {error}");
        ensure!(case.api::<Execution>().get_opt(name).await?.is_none(), "{name} has an execution");
        // The API server logs no object name for a request whose body it does not read.
        let is_refused = |request: &Value| {
            request["objectRef"]["resource"] == "executions" && request["responseStatus"]["code"] == code
        };
        let refused = requests(&system, "create")?.into_iter().filter(is_refused).count();
        assert_eq!(refused, 1, "{name}: it is asked once");
        // A smaller Execution repairs the Installation.
        let change = json!({"spec": {"blueprint": {"inline": {"filesystem": {
            "blueprint.yaml": incompressible(3, 10),
        }}}}});
        case.change::<Installation>(name, &change).await?;
        assert_eq!(outcome(&case.finished(name).await?), ("Succeeded".to_owned(), String::new()), "{name}");
        case.delete::<Installation>(name).await?;
    }
    Ok(())
}

/// A small Installation beside one with many more items than there are slots does not wait for the
/// end of the large one. A request to interrupt the large one takes effect during its work.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_installation_delays_no_small_one() -> Result<()> {
    let Some(system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let case = Case::new(&system, "large").await?;
    let names: Vec<String> = (0..600).map(|index| format!("i{index:04}")).collect();
    let items: Vec<_> = names.iter().map(|name| (name.as_str(), json!({}))).collect();
    case.begin_with("large", &blueprint(&items), &json!({})).await?;
    wait_for("the large one is at work", PATIENCE, async || {
        let items = case.list::<DeployItem>("").await.map_err(|error| error.to_string())?;
        if items.is_empty() { Err("it has no items yet".to_owned()) } else { Ok(()) }
    })
    .await?;
    let small = case.install("small", &blueprint(&[("item", json!({}))])).await?;
    assert_eq!(outcome(&small), ("Succeeded".to_owned(), String::new()));
    let large: Installation = case.get("large").await?;
    let phase = large.status.unwrap_or_default().phase.unwrap_or_default();
    ensure!(phase != "Succeeded", "the small one was done first");
    case.ask("large", "interrupt").await?;
    let (phase, _) = outcome(&case.finished("large").await?);
    ensure!(phase == "Failed", "it was interrupted: {phase}");
    let done = case.list::<DeployItem>("").await?;
    let untouched = done.iter().filter(|item| {
        let error = item.status.as_ref().and_then(|status| status.last_error.as_ref());
        error.is_some_and(|error| error.reason == "InterruptOperation")
    });
    ensure!(untouched.count() > 0, "the interruption came before the end");
    Ok(())
}

/// The deletion of an Installation with very many items takes effect while the renderer creates the
/// items: it never creates the remaining ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_large_installation_can_be_deleted_while_it_works() -> Result<()> {
    const ITEMS: usize = 800;
    let Some(system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    let case = Case::new(&system, "large-deleted").await?;
    let names: Vec<String> = (0..ITEMS).map(|index| format!("i{index:04}")).collect();
    let items: Vec<_> = names.iter().map(|name| (name.as_str(), json!({}))).collect();
    case.begin_with("large", &blueprint(&items), &json!({})).await?;
    wait_for("the large one is at work", PATIENCE, async || {
        let items = case.list::<DeployItem>("").await.map_err(|error| error.to_string())?;
        if items.is_empty() { Err("it has no items yet".to_owned()) } else { Ok(()) }
    })
    .await?;
    case.delete::<Installation>("large").await?;
    case.gone::<Installation>("large").await?;
    ensure!(case.list::<DeployItem>("").await?.is_empty(), "nothing is left of it");
    let is_item = |request: &&Value| {
        request["objectRef"]["resource"] == "deployitems"
            && request["objectRef"]["namespace"] == "large-deleted"
    };
    let made = requests(&system, "create")?.iter().filter(is_item).count();
    ensure!(made > 0 && made < ITEMS, "{made} of {ITEMS} items were made");
    Ok(())
}
