//! Benchmark of the delay that other users' Installations and calls cause, when these are designed
//! to run forever.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::try_join_all;
use groundwork_api::{DataObject, Installation};
use groundwork_grpc::{Channel, TokenSource, connect};
use groundwork_proto::component::v1::Json;
use groundwork_proto::renderer::v1::render_request::Input;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{RenderInput, RenderRequest};
use groundwork_tests::hostile::{doubled, exponential};
use groundwork_tests::wait_for;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Map, Value, json};
use tokio::time::sleep;

use crate::scenario::{Bench, PATIENCE, rounded};

const NAMESPACE: &str = "strangers";
const API: &str = "landscaper.gardener.cloud/v1alpha1";
/// Number of calls that are in progress at any time.
const CALLERS: usize = 4;
/// Service account whose token the callers send.
const ACCOUNT: &str = "stranger";
/// Pause between two checks of the strangers' jobs. A job that has ended is requested again.
const PAUSE: Duration = Duration::from_secs(1);

/// Jobs and calls of the strangers during the measurement.
#[derive(Default)]
struct Counts {
    jobs: AtomicUsize,
    calls: AtomicUsize,
}

impl Bench {
    /// Measures the same number of Installations in turns: alone, beside strangers, and alone
    /// again. The strangers restart their jobs when these end, and call without a pause. The turns
    /// separate the strangers' effect from objects that earlier rounds left behind, and from
    /// changes in the speed of the machine.
    pub(crate) async fn hostile(
        &mut self,
        count: usize,
        strangers: usize,
        rounds: usize,
    ) -> Result<Map<String, Value>> {
        let client = self.system.client().await?;
        self.prepare_strangers(&client).await?;
        let counts = Counts::default();
        let mut alone = vec![self.seconds_of("alone-0", count).await?];
        let mut beside = Vec::new();
        for round in 1..=rounds {
            beside.push(self.beside_strangers(&client, round, count, strangers, &counts).await?);
            alone.push(self.seconds_of(&format!("alone-{round}"), count).await?);
        }
        Ok(Map::from_iter([
            ("hostile.strangers".to_owned(), json!(strangers)),
            ("hostile.alone_seconds".to_owned(), each(&alone)),
            ("hostile.seconds".to_owned(), each(&beside)),
            ("hostile.ratio".to_owned(), rounded(mean(&beside) / mean(&alone))),
            ("hostile.jobs_of_strangers".to_owned(), json!(counts.jobs.into_inner())),
            ("hostile.calls_of_strangers".to_owned(), json!(counts.calls.into_inner())),
        ]))
    }

    /// Creates the data that the strangers' Installations import, and the service account of the
    /// callers.
    async fn prepare_strangers(&self, client: &Client) -> Result<()> {
        self.system.plane.create_namespace(NAMESPACE).await?;
        self.until_context(NAMESPACE).await?;
        let data = json!({"metadata": {"name": "v"}, "data": "s"});
        let objects: Api<DataObject> = Api::namespaced(client.clone(), NAMESPACE);
        objects.create(&PostParams::default(), &serde_json::from_value(data)?).await?;
        let account = serde_json::from_value(json!({"metadata": {"name": ACCOUNT}}))?;
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), NAMESPACE);
        accounts.create(&PostParams::default(), &account).await?;
        Ok(())
    }

    /// Returns the seconds that the Installations take while the strangers are active.
    async fn beside_strangers(
        &self,
        client: &Client,
        round: usize,
        count: usize,
        strangers: usize,
        counts: &Counts,
    ) -> Result<f64> {
        let installations = Api::namespaced(client.clone(), NAMESPACE);
        for number in 0..strangers {
            let object =
                serde_json::from_value(installation(&format!("stranger-{number}"), number % 2 == 0))?;
            installations.create(&PostParams::default(), &object).await?;
        }
        let token = self.system.plane.service_account_token(NAMESPACE, ACCOUNT).await?;
        let address = format!("http://127.0.0.1:{}", self.system.grpc_port("renderer"));
        let callers = (0..CALLERS).map(async |number| {
            let channel = connect(&address, None, TokenSource::fixed(&token))?;
            call_for_ever(RendererClient::new(channel), number % 2 == 0, &counts.calls).await
        });
        let prefix = format!("beside-{round}");
        let beside = tokio::select! {
            seconds = self.seconds_of(&prefix, count) => seconds?,
            end = ask_for_ever(&installations, &counts.jobs) => end?,
            end = try_join_all(callers) => end.map(|_| 0.0)?,
        };
        for object in installations.list(&ListParams::default()).await? {
            installations.delete(&object.name_any(), &DeleteParams::default()).await?;
        }
        wait_for("the end of the strangers", PATIENCE, async || {
            match installations.list(&ListParams::default()).await {
                Ok(left) if left.items.is_empty() => Ok(()),
                Ok(left) => Err(format!("{} are left", left.items.len())),
                Err(error) => Err(error.to_string()),
            }
        })
        .await?;
        Ok(beside)
    }

    /// Returns the seconds from the first creation to the end of the last job. All jobs must
    /// succeed.
    async fn seconds_of(&self, prefix: &str, count: usize) -> Result<f64> {
        let start = Instant::now();
        let names = self.create_many(prefix, count).await?;
        self.until_succeeded(&names).await.map_err(|error| self.system.explained(error))?;
        Ok(start.elapsed().as_secs_f64())
    }
}

fn mean(seconds: &[f64]) -> f64 {
    seconds.iter().sum::<f64>() / f64::from(u32::try_from(seconds.len()).unwrap_or(u32::MAX))
}

fn each(seconds: &[f64]) -> Value {
    seconds.iter().copied().map(rounded).collect()
}

fn blueprint(takes_time: bool) -> Value {
    if takes_time { exponential() } else { doubled() }
}

fn imports(takes_time: bool) -> Value {
    if takes_time { json!([{"name": "v", "dataRef": "v"}]) } else { json!([]) }
}

fn installation(name: &str, takes_time: bool) -> Value {
    let files = json!({"blueprint.yaml": blueprint(takes_time).to_string()});
    json!({
        "apiVersion": API, "kind": "Installation",
        "metadata": {"name": name, "namespace": NAMESPACE, "annotations": {"landscaper.gardener.cloud/operation": "reconcile"}},
        "spec": {"imports": {"data": imports(takes_time)}, "blueprint": {"inline": {"filesystem": files}}},
    })
}

/// Requests another job for each Installation whose last job has ended, and counts these.
async fn ask_for_ever(installations: &Api<Installation>, jobs: &AtomicUsize) -> Result<f64> {
    let request = json!({"metadata": {"annotations": {"landscaper.gardener.cloud/operation": "reconcile"}}});
    loop {
        sleep(PAUSE).await;
        for found in installations.list(&ListParams::default()).await? {
            let status = found.status.as_ref();
            let has_ended = status
                .is_some_and(|status| status.job_id.is_some() && status.job_id == status.job_id_finished);
            if has_ended && !found.annotations().contains_key("landscaper.gardener.cloud/operation") {
                jobs.fetch_add(1, Ordering::Relaxed);
                let request = Patch::Merge(&request);
                installations.patch(&found.name_any(), &PatchParams::default(), &request).await?;
            }
        }
    }
}

/// Repeats a call as soon as its answer arrives, and counts the answers, errors included.
async fn call_for_ever(
    mut renderer: RendererClient<Channel>,
    takes_time: bool,
    calls: &AtomicUsize,
) -> Result<()> {
    let of = |kind: &str, name: &str| json!({"apiVersion": API, "kind": kind, "metadata": {"name": name, "namespace": "demo"}});
    let mut installation = of("Installation", "h");
    installation["spec"] =
        json!({"blueprint": {"inline": {"filesystem": {}}}, "imports": {"data": imports(takes_time)}});
    let mut data = of("DataObject", "v");
    data["data"] = json!("s");
    let objects = [installation, of("Context", "default"), data];
    let objects = objects.map(|object| Json { text: object.to_string() }).to_vec();
    let text = blueprint(takes_time).to_string().into_bytes();
    let files = HashMap::from([("blueprint.yaml".to_owned(), text)]);
    let input = RenderInput { objects, blueprint: files, ..RenderInput::default() };
    let request = RenderRequest { input: Some(Input::Inline(input)) };
    loop {
        // The rejection of an excessive request counts as an answer, too.
        if renderer.render(request.clone()).await.is_err() {
            sleep(Duration::from_millis(50)).await;
        }
        calls.fetch_add(1, Ordering::Relaxed);
    }
}
