//! Hostile content in services with worker processes: work that exceeds a worker's limits fails
//! alone, and all other work succeeds.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use groundwork_api::{
    ComponentVersionOverwrites, Context as LandscaperContext, DeployItem, Kind as _, PackageVariantSet,
};
use groundwork_component::RepositoryContext;
use groundwork_proto::component::v1::{Json, Reference};
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::resolver::v1::{ExplainInput, ExplainRequest, explain_request};
use groundwork_proto::status::reasons;
use groundwork_proto::variant::v1::expand_request::Input;
use groundwork_proto::variant::v1::variants_client::VariantsClient;
use groundwork_proto::variant::v1::{ExpandInput, ExpandRequest};
use groundwork_registry::CtfWriter;
use groundwork_tests::{System, SystemOptions};
use serde_json::{Value, json};
use tonic::Code;

use crate::case::Case;
use crate::deploying_charts::{chart, item};
use crate::grpc::{account, channel, told};
use crate::heavy::ended_workers;
use crate::support::{blueprint, outcome};
use crate::target_cluster::{cluster, outcome as item_outcome, run_job};
use crate::variants::{ready, repositories, spec, stalled, upstream};

const CPU: &str = "more than the 1 s of processor time that it may use (--worker-cpu-seconds)";

/// Starts a system whose workers may use this many MiB, and little CPU time.
async fn system(memory: u64, repositories: Option<PathBuf>) -> Result<Option<System>> {
    let memory = memory.to_string();
    let variables = [("GROUNDWORK_WORKER_MEMORY", memory.as_str()), ("GROUNDWORK_WORKER_CPU_SECONDS", "1")];
    system_with(&variables, repositories).await
}

async fn system_with(variables: &[(&str, &str)], repositories: Option<PathBuf>) -> Result<Option<System>> {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let variables = variables.iter().map(owned).collect();
    System::start(SystemOptions { variables, repositories, ..SystemOptions::default() }).await
}

fn memory(mebibytes: u64) -> String {
    format!("more than the {mebibytes} MiB of memory that it may use (--worker-memory)")
}

/// Checks that the service is still the same process, so that only its workers have ended.
async fn is_unharmed(system: &System, service: &str, process: u32) -> Result<()> {
    let (code, body) = system.admin(service, "/readyz").await?;
    ensure!(code == 200, "{code} {body}");
    assert_eq!(system.service(service)?.program.pid()?, process, "the {service} is the same process");
    Ok(())
}

/// Returns a set with more packages than fit into the memory limit.
fn greedy_set() -> Value {
    let packages: Vec<String> = (0..40_000).map(|number| format!("p{number}")).collect();
    spec(&json!([{"repositories": [{"name": "cluster-01", "packageNames": packages}]}]))
}

/// Returns a set whose targets compare each of many objects with each of many values, and select
/// none.
fn busy_set() -> Value {
    let values: Vec<String> = (0..1_000).map(|number| format!("value-{number:03}")).collect();
    let expressions = json!([{"key": "a", "operator": "NotIn", "values": values}]);
    let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "matchExpressions": expressions});
    let target = json!({"objectSelector": selector, "template": {"downstream": {"repo": "cluster-01"}}});
    spec(&json!(vec![target; 100]))
}

fn objects_to_compare() -> impl Iterator<Item = Value> {
    (0..4_000).map(|number| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number}"), "labels": {"a": "value-999"}}})
    })
}

fn inline(set: &Value, others: impl Iterator<Item = Value>) -> ExpandRequest {
    let mut set = set.clone();
    set["apiVersion"] = json!("config.porch.kpt.dev/v1alpha2");
    set["kind"] = json!("PackageVariantSet");
    set["metadata"] = json!({"name": "inline", "namespace": "fenced"});
    let revision = json!({"apiVersion": "porch.kpt.dev/v1alpha1", "kind": "PackageRevision", "metadata": {"name": "catalog.foo.w1"},
        "spec": {"repository": "catalog", "packageName": "foo", "revision": 1, "workspaceName": "w1", "lifecycle": "Published"}});
    let objects = [set, revision].into_iter().chain(others);
    let objects = objects.map(|object| Json { text: object.to_string() }).collect();
    ExpandRequest { input: Some(Input::Inline(ExpandInput { objects })) }
}

/// Sets and calls that exceed the limits of memory or CPU time fail with an error that names the
/// limit. Other sets are expanded meanwhile, and the variant service keeps running in the same
/// process.
#[tokio::test(flavor = "multi_thread")]
async fn sets_that_exceed_the_limits_of_a_worker_end_alone() -> Result<()> {
    let Some(system) = system(32, None).await? else { return Ok(()) };
    let process = system.service("variant")?.program.pid()?;
    let case = Case::new(&system, "fenced").await?;
    repositories(&case).await?;
    upstream(&case).await?;
    case.create::<PackageVariantSet>("greedy", &greedy_set()).await?;
    let small = spec(&json!([{"repositories": [{"name": "cluster-01"}]}]));
    case.create::<PackageVariantSet>("small", &small).await?;
    ready(&case, "small").await?;
    let (reason, message) = stalled(&case, "greedy").await?;
    ensure!(reason == "UnexpectedError" && message.contains(&memory(32)), "{reason}: {message}");
    let counted = ended_workers(&system, "variant", "variant-sets", "memory").await?;
    ensure!(counted >= 1, "{counted} workers ended for lack of memory");

    let caller = account(&case, "caller", &[]).await?;
    let client = || anyhow::Ok(VariantsClient::new(channel(&system, "variant", Some(&caller))?));
    for (request, limit) in [
        (inline(&greedy_set(), std::iter::empty()), memory(32)),
        (inline(&busy_set(), objects_to_compare()), CPU.to_owned()),
    ] {
        let (mut hostile, mut other) = (client()?, client()?);
        let (refused, answer) =
            tokio::join!(hostile.expand(request), other.expand(inline(&small, std::iter::empty())));
        let refused = refused.err().context("it takes too much")?;
        assert_eq!(told(&refused), (Code::ResourceExhausted, reasons::WORK_TOO_LONG.to_owned()), "{refused}");
        ensure!(refused.message().contains(&limit), "{refused}");
        let answer = answer?.into_inner();
        ensure!(answer.failure.is_none() && answer.variants.len() == 1, "{answer:?}");
    }
    is_unharmed(&system, "variant", process).await
}

/// Returns a rule whose repository context exceeds the memory limit.
fn greedy_rules(maps: usize) -> Value {
    let repository = json!({"type": "ociRegistry", "list": vec![json!({"a": 1}); maps]});
    json!({"overwrites": [{"source": {"repositoryContext": repository}, "substitution": {"version": "2.0.0"}}]})
}

fn small_rules() -> Value {
    json!({"overwrites": [{"source": {"version": "1.0.0"}, "substitution": {"version": "2.0.0"}}]})
}

fn explained(rules: &Value) -> ExplainRequest {
    let mut rules = rules.clone();
    rules["apiVersion"] = json!(ComponentVersionOverwrites::API_VERSION);
    rules["kind"] = json!(ComponentVersionOverwrites::KIND);
    rules["metadata"] = json!({"name": "rules"});
    let reference = Reference {
        repository_context: None,
        name: "example.org/shop".to_owned(),
        version: "1.0.0".to_owned(),
    };
    let overwrites = Some(Json { text: rules.to_string() });
    let input = ExplainInput { reference: Some(reference), overwrites };
    ExplainRequest { input: Some(explain_request::Input::Inline(input)), references: false }
}

fn context() -> Value {
    json!({"type": "ociRegistry", "baseUrl": "example.org/components"})
}

/// Writes a store with a small component version, and one whose descriptor exceeds the memory
/// limit.
fn store(folder: &Path) -> Result<PathBuf> {
    let of = RepositoryContext::new(context()).context("it is a context")?;
    let mut writer = CtfWriter::create(folder.join("components"), of)?;
    for (name, numbers) in [("small", 1), ("greedy", 2_000_000)] {
        let descriptor = json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": format!("example.org/{name}"), "version": "2.0.0", "provider": "example.org", "repositoryContexts": [],
            "sources": [], "componentReferences": [], "resources": [],
            "labels": [{"name": "numbers", "value": vec![1; numbers]}],
        }});
        writer.add(&descriptor, &[])?;
    }
    writer.finish()?;
    let map = json!({"repositories": [{"context": context(), "directory": "components"}]});
    let path = folder.join("repositories.yaml");
    std::fs::write(&path, map.to_string())?;
    Ok(path)
}

/// Rules of a Context, a descriptor of a store, and the inline input of a call exceed the memory
/// limit. Each fails its own job or call with an error that names the limit, and the resolver keeps
/// running in the same process.
#[tokio::test(flavor = "multi_thread")]
async fn what_exceeds_the_limits_of_a_worker_of_the_resolver_ends_alone() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let repositories = store(folder.path())?;
    let Some(system) = system(16, Some(repositories)).await? else { return Ok(()) };
    let process = system.service("resolver")?.program.pid()?;
    let case = Case::new(&system, "fenced").await?;
    for (name, rules) in [("greedy", greedy_rules(100_000)), ("small", small_rules())] {
        case.create::<ComponentVersionOverwrites>(name, &rules).await?;
        let content = json!({"repositoryContext": context(), "componentVersionOverwrites": name});
        case.create::<LandscaperContext>(name, &content).await?;
    }
    case.create::<LandscaperContext>("plain", &json!({"repositoryContext": context()})).await?;
    for (name, context, component) in [
        ("greedy-rules", "greedy", "example.org/small"),
        ("greedy-descriptor", "plain", "example.org/greedy"),
        ("small", "small", "example.org/small"),
    ] {
        let reference = json!({"ref": {"componentName": component, "version": "2.0.0"}});
        let spec = json!({"context": context, "componentDescriptor": reference});
        case.begin_with(name, &blueprint(&[("item", json!({}))]), &spec).await?;
    }
    assert_eq!(outcome(&case.finished("small").await?), ("Succeeded".to_owned(), String::new()));
    let (phase, error) = outcome(&case.finished("greedy-rules").await?);
    ensure!(
        phase == "Failed" && error.starts_with("ResolveLimit: ") && error.contains(&memory(16)),
        "{error}"
    );
    // Debug and release builds differ in the limit that the descriptor reaches first.
    let (phase, error) = outcome(&case.finished("greedy-descriptor").await?);
    let limit = [memory(16), CPU.to_owned()].into_iter().any(|limit| error.contains(&limit));
    ensure!(phase == "Failed" && error.contains("component descriptor cannot be read: ") && limit, "{error}");
    ensure!(ended_workers(&system, "resolver", "resolver-jobs", "memory").await? >= 1, "{}", system.logs());

    let caller = account(&case, "caller", &[]).await?;
    let client = || anyhow::Ok(ResolverClient::new(channel(&system, "resolver", Some(&caller))?));
    let (mut hostile, mut other) = (client()?, client()?);
    let (refused, answer) = tokio::join!(
        hostile.explain(explained(&greedy_rules(200_000))),
        other.explain(explained(&small_rules()))
    );
    let refused = refused.err().context("it takes too much")?;
    assert_eq!(told(&refused), (Code::ResourceExhausted, reasons::WORK_TOO_LONG.to_owned()), "{refused}");
    ensure!(refused.message().contains(&memory(16)), "{refused}");
    ensure!(answer?.into_inner().matched, "the other is answered");
    is_unharmed(&system, "resolver", process).await
}

/// Returns a chart whose templates create several texts of 30 MB.
fn greedy_chart() -> Result<String> {
    let text = |index| format!("{{{{ $t{index} := repeat 30000000 \"x\" }}}}");
    let template: String = (0..6).map(text).collect();
    chart("0.1.0", &[("templates/greedy.yaml", &template)])
}

/// Returns a chart that uses nearly all of its allowed steps.
fn busy_chart() -> Result<String> {
    chart("0.1.0", &[("templates/busy.yaml", "{{ range 190000000 }}{{ end }}")])
}

/// Returns a chart that calls `lookup`.
fn curious_chart() -> Result<String> {
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: seen}\n\
                    data: {name: '{{ (lookup \"v1\" \"Namespace\" \"\" \"kube-system\").metadata.name }}'}\n";
    chart("0.1.0", &[("templates/seen.yaml", template)])
}

/// Charts that exceed the limits of memory or CPU time fail the job of their own item with an error
/// that names the limit. A chart with `lookup` is deployed meanwhile, and the deployer keeps
/// running in the same process.
#[tokio::test(flavor = "multi_thread")]
async fn charts_that_exceed_the_limits_of_a_worker_end_alone() -> Result<()> {
    let Some(system) = system(32, None).await? else { return Ok(()) };
    let process = system.service("deployer")?.program.pid()?;
    let (case, cluster) = (Case::new(&system, "fenced").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    let more = json!({"createNamespace": true});
    let charts = [("greedy", greedy_chart()?), ("busy", busy_chart()?), ("curious", curious_chart()?)];
    for (name, chart) in &charts {
        let content = item(&case, chart, &format!("fenced-{name}"), &more);
        case.create::<DeployItem>(name, &content).await?;
    }
    let (greedy, busy, curious) = tokio::try_join!(
        run_job(&case, "greedy", "1"),
        run_job(&case, "busy", "1"),
        run_job(&case, "curious", "1")
    )?;
    assert_eq!(item_outcome(&curious), ("Succeeded".to_owned(), String::new()));
    let seen = cluster.get("/api/v1/namespaces/fenced-curious/configmaps/seen").await?;
    assert_eq!(seen.context("it is deployed")?["data"]["name"], "kube-system");
    for (found, limit) in [(greedy, memory(32)), (busy, CPU.to_owned())] {
        let (phase, error) = item_outcome(&found);
        ensure!(phase == "Failed" && error.contains(&limit), "{phase} {error}");
    }
    for reason in ["memory", "cpu_time"] {
        ensure!(ended_workers(&system, "deployer", "deployer-charts", reason).await? >= 1, "{reason}");
    }
    is_unharmed(&system, "deployer", process).await
}

/// An operator's limit applies to jobs of Installations, to calls about them and to charts. The
/// error names the limit, as the command does for the same limit.
#[tokio::test(flavor = "multi_thread")]
async fn limits_of_templates_can_be_set() -> Result<()> {
    let Some(system) = system_with(&[("GROUNDWORK_TEMPLATE_WORK", "1")], None).await? else { return Ok(()) };
    let (case, cluster) = (Case::new(&system, "fenced").await?, cluster().await?);
    let of = |steps: u64| {
        format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\ndeployExecutions:\n- name: default\n  \
             type: GoTemplate\n  template: '{{{{ range {steps} }}}}{{{{ end }}}}deployItems: []'\n"
        )
    };
    case.begin_with("busy", &of(1_200_000), &json!({})).await?;
    case.begin_with("idle", &of(1_000), &json!({})).await?;
    assert_eq!(outcome(&case.finished("idle").await?), ("Succeeded".to_owned(), String::new()));
    let (phase, error) = outcome(&case.finished("busy").await?);
    ensure!(phase == "Failed" && error.contains("exceeds the limit of 1000000 steps"), "{phase} {error}");

    cluster.create_target(&case, "dev").await?;
    let chart = chart("0.1.0", &[("templates/busy.yaml", "{{ range 4800000 }}{{ end }}")])?;
    case.create::<DeployItem>("chart", &item(&case, &chart, "fenced-set", &json!({}))).await?;
    let (phase, error) = item_outcome(&run_job(&case, "chart", "1").await?);
    ensure!(phase == "Failed" && error.contains("exceeds the limit of 4000000 steps"), "{phase} {error}");
    Ok(())
}
