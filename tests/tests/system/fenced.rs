//! Hostile content in services that have worker processes: what exceeds their limits ends alone, and everybody else goes on.

use anyhow::{Context, Result, ensure};
use groundwork_api::PackageVariantSet;
use groundwork_proto::component::v1::Json;
use groundwork_proto::status::reasons;
use groundwork_proto::variant::v1::expand_request::Input;
use groundwork_proto::variant::v1::variants_client::VariantsClient;
use groundwork_proto::variant::v1::{ExpandInput, ExpandRequest};
use groundwork_tests::{System, SystemOptions};
use serde_json::{Value, json};
use tonic::Code;

use crate::case::Case;
use crate::grpc::{account, channel, told};
use crate::heavy::ended_workers;
use crate::variants::{ready, repositories, spec, stalled, upstream};

const MEMORY: &str = "more than the 32 MiB of memory that it may take (--worker-memory)";
const CPU: &str = "more than the 1 s of processor time that it may take (--worker-cpu-seconds)";

/// Services whose workers may take little.
async fn system() -> Result<Option<System>> {
    let variables = [("GROUNDWORK_WORKER_MEMORY", "32"), ("GROUNDWORK_WORKER_CPU_SECONDS", "1")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    System::start(SystemOptions { variables, ..SystemOptions::default() }).await
}

/// Nothing but the workers of a service has ended.
async fn is_unharmed(system: &System, service: &str, process: u32) -> Result<()> {
    let (code, body) = system.admin(service, "/readyz").await?;
    ensure!(code == 200, "{code} {body}");
    assert_eq!(system.service(service)?.program.pid()?, process, "the {service} is the same process");
    Ok(())
}

/// A set of more packages than there is memory for.
fn greedy_set() -> Value {
    let packages: Vec<String> = (0..40_000).map(|number| format!("p{number}")).collect();
    spec(&json!([{"repositories": [{"name": "cluster-01", "packageNames": packages}]}]))
}

/// Targets that compare each of many objects with each of many values, and select none.
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

/// Sets and calls that take more memory or processor time than there is: each ends with an error that names the limit, those of others are
/// expanded meanwhile, and the variant service goes on in the same process.
#[tokio::test(flavor = "multi_thread")]
async fn sets_that_exceed_the_limits_of_a_worker_end_alone() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let process = system.service("variant")?.program.pid()?;
    let case = Case::new(&system, "fenced").await?;
    repositories(&case).await?;
    upstream(&case).await?;
    case.create::<PackageVariantSet>("greedy", &greedy_set()).await?;
    let small = spec(&json!([{"repositories": [{"name": "cluster-01"}]}]));
    case.create::<PackageVariantSet>("small", &small).await?;
    ready(&case, "small").await?;
    let (reason, message) = stalled(&case, "greedy").await?;
    ensure!(reason == "UnexpectedError" && message.contains(MEMORY), "{reason}: {message}");
    let counted = ended_workers(&system, "variant", "variant-sets", "memory").await?;
    ensure!(counted >= 1, "{counted} workers ended for lack of memory");

    let caller = account(&case, "caller", &[]).await?;
    let client = || anyhow::Ok(VariantsClient::new(channel(&system, "variant", Some(&caller))?));
    for (request, limit) in [
        (inline(&greedy_set(), std::iter::empty()), MEMORY),
        (inline(&busy_set(), objects_to_compare()), CPU),
    ] {
        let (mut hostile, mut other) = (client()?, client()?);
        let (refused, answer) =
            tokio::join!(hostile.expand(request), other.expand(inline(&small, std::iter::empty())));
        let refused = refused.err().context("it takes too much")?;
        assert_eq!(told(&refused), (Code::ResourceExhausted, reasons::WORK_TOO_LONG.to_owned()), "{refused}");
        ensure!(refused.message().contains(limit), "{refused}");
        let answer = answer?.into_inner();
        ensure!(answer.failure.is_none() && answer.variants.len() == 1, "{answer:?}");
    }
    is_unharmed(&system, "variant", process).await
}
