//! Journal of jobs, through the command and the gRPC call behind it.

use anyhow::{Context, Result, ensure};
use groundwork_api::Installation;
use groundwork_bus::JOURNAL;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{JournalEntry, ReplayRequest};
use groundwork_tests::{System, SystemOptions, wait_for};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};
use tonic::Code;

use crate::case::{Case, job};
use crate::command::run;
use crate::echo_server::options;
use crate::grpc::{account, channel, told};
use crate::shared;
use crate::support::{PATIENCE, blueprint, outcome};

const CANARY: &str = "canary-1c9d22ab-hums";
pub(crate) const ALL: [&str; 3] = [
    "installations.landscaper.gardener.cloud",
    "executions.landscaper.gardener.cloud",
    "deployitems.landscaper.gardener.cloud",
];

/// Returns a blueprint that imports a value, which its item exports, with a nested installation
/// whose item fails while `fails` is true.
fn family(fails: bool) -> String {
    let child = blueprint(&[("server", json!({"initialPhase": if fails { "Failed" } else { "Succeeded" }}))]);
    let template = format!(
        "deployItems: [{}]",
        json!({"name": "own", "type": "landscaper.gardener.cloud/mock", "config": {
            "apiVersion": "mock.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
            "export": {"value": "{{ .imports.value }}"}}})
    );
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "imports": [{"name": "value", "type": "data", "schema": {"type": "string"}}],
        "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": template}],
        "subinstallations": [{
            "apiVersion": "landscaper.gardener.cloud/v1alpha1",
            "kind": "InstallationTemplate",
            "name": "web",
            "blueprint": {"filesystem": {"blueprint.yaml": child}},
        }],
    })
    .to_string()
}

/// Runs `groundwork replay` with a token. Returns exit code and both outputs.
async fn replay(system: &System, token: &str, arguments: &[&str]) -> Result<(i32, String, String)> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("token");
    std::fs::write(&file, token)?;
    let server = format!("http://127.0.0.1:{}", system.grpc_port("renderer"));
    let file = file.display().to_string();
    run(system, &[&["replay", "--server", &server, "--token-file", &file], arguments].concat()).await
}

/// Returns the entries that the command prints as JSON.
pub(crate) async fn entries(system: &System, token: &str, arguments: &[&str]) -> Result<Vec<Value>> {
    let (code, text, error) = replay(system, token, &[arguments, &["-o", "json"]].concat()).await?;
    ensure!(code == 0, "{code} {error}");
    ensure!(!text.contains(CANARY), "an entry holds a value: {text}");
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Waits until the journal contains the end of a job, since entries arrive with a delay.
async fn ended(system: &System, token: &str, name: &str, job: &str) -> Result<Vec<Value>> {
    let what = format!("the journal tells of the end of the job {job} of {name}");
    wait_for(&what, PATIENCE, async || {
        let found = entries(system, token, &[name]).await.map_err(|error| error.to_string())?;
        let own = name.split('/').next_back().unwrap_or_default();
        let is_end = |entry: &Value| entry["jobID"] == job && ends(entry, own);
        if found.iter().any(is_end) { Ok(found) } else { Err(format!("{found:#?}")) }
    })
    .await
}

/// Reports whether an entry is the end of a job of this Installation, and not of the Execution with
/// the same name.
fn ends(entry: &Value, name: &str) -> bool {
    entry["kind"] == "Installation" && entry["name"] == name && text_of(entry).starts_with("ends the job")
}

fn text_of(entry: &Value) -> &str {
    entry["text"].as_str().unwrap_or_default()
}

/// Returns the position of the first matching entry after `from`.
fn position(entries: &[Value], from: usize, kind: &str, what: &str, begin: &str) -> Result<usize> {
    let fits =
        |entry: &Value| entry["kind"] == kind && entry["what"] == what && text_of(entry).starts_with(begin);
    let found = entries.iter().skip(from).position(fits);
    let found = found.with_context(|| format!("{kind} {what} {begin}, after {from}: {entries:#?}"))?;
    Ok(from + found)
}

/// The journal contains decisions in order and failures with their reasons. It can show a former
/// job by its time, and a nested installation alone. No entry contains a value.
#[tokio::test(flavor = "multi_thread")]
async fn the_journal_says_why_jobs_went_as_they_did() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "replay").await?;
    let token = account(&case, "viewer", &ALL).await?;
    case.create::<Secret>("login", &json!({"stringData": {"value": CANARY}})).await?;
    let imports = json!({"data": [{"name": "value", "secretRef": {"name": "login", "key": "value"}}]});
    let first = case.install_with("shop", &family(true), &json!({"imports": imports})).await?;
    assert_eq!(outcome(&first).0, "Failed");
    let (first, during) = (job(&first), Timestamp::now().to_string());

    let failed = ended(system, &token, "replay/shop", &first).await?;
    let mut at = 0;
    for (kind, what, begin) in [
        ("Installation", "event", "an event reported"),
        ("Installation", "write", "begins the job"),
        ("Installation", "decision", "rendered the objects below"),
        ("Installation", "decision", "the nested installation \"web\" is written in subinstallations[0] ("),
        ("Installation", "write", "creates it"),
        ("DeployItem", "write", "creates it"),
        ("DeployItem", "write", "deployer picks it up"),
        ("DeployItem", "write", "ends the job: Failed"),
        ("Execution", "write", "ends the job: Failed"),
        ("Installation", "write", "ends the job: Failed"),
    ] {
        at = position(&failed, at, kind, what, begin)?;
    }
    let times: Vec<_> = failed.iter().filter_map(|entry| entry["time"].as_str()).collect();
    ensure!(times.is_sorted_by_key(|time| time.parse::<Timestamp>().ok()), "{times:?}");
    let end = failed.iter().rfind(|entry| ends(entry, "shop")).context("the job ends")?;
    let status = case.get::<Installation>("shop").await?.status.unwrap_or_default();
    let error = status.last_error.context("it says why")?;
    assert_eq!((&end["reason"], &end["message"]), (&json!(error.reason), &json!(error.message)));
    assert_eq!(end["writtenVersion"].as_str().map(str::is_empty), Some(false));

    let changed =
        json!({"spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": family(false)}}}}});
    case.change::<Installation>("shop", &changed).await?;
    let second = case.finished_after("shop", &first).await?;
    assert_eq!(outcome(&second).0, "Succeeded");
    let second = job(&second);
    let succeeded = ended(system, &token, "replay/shop", &second).await?;
    ensure!(succeeded.iter().all(|entry| entry["jobID"] == *second), "{succeeded:#?}");
    position(&succeeded, 0, "Installation", "write", "ends the job: Succeeded")?;
    ensure!(
        !succeeded.iter().any(|entry| text_of(entry).starts_with("ends the job: Failed")),
        "{succeeded:#?}"
    );

    let former = entries(system, &token, &["replay/shop", "--at", &during]).await?;
    ensure!(former.iter().all(|entry| entry["jobID"] == *first), "{former:#?}");
    position(&former, 0, "Installation", "write", "ends the job: Failed")?;
    let (jobs, mut both) = ([&first, &second], Vec::new());
    for entry in entries(system, &token, &["replay/shop", "--all"]).await? {
        both.push(entry["jobID"].as_str().unwrap_or_default().to_owned());
    }
    both.dedup();
    assert_eq!(both.iter().collect::<Vec<_>>(), jobs);

    let child = succeeded.iter().find(|entry| entry["installation"] != "shop").context("a nested one")?;
    let child = child["installation"].as_str().unwrap_or_default();
    let below = entries(system, &token, &[&format!("replay/{child}")]).await?;
    ensure!(below.iter().all(|entry| entry["installation"] == child), "{below:#?}");
    position(&below, 0, "DeployItem", "write", "ends the job: Succeeded")?;

    let (code, text, _) = replay(system, &token, &["replay/shop"]).await?;
    ensure!(code == 0 && text.starts_with(&format!("job {second}, from ")), "{code} {text}");
    ensure!(text.contains("\nTIME ") && !text.contains(CANARY), "{text}");
    Ok(())
}

/// A caller needs the right to see the Installation and all objects below it. A missing journal is
/// not an error.
#[tokio::test(flavor = "multi_thread")]
async fn the_journal_is_for_those_who_may_see_the_objects() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "replay-rights").await?;
    let (viewer, partial) =
        (account(&case, "viewer", &ALL).await?, account(&case, "partial", &ALL[..2]).await?);
    let ask = async |token: Option<&str>, namespace: &str| {
        let name = ObjectName { namespace: namespace.to_owned(), name: "nothing".to_owned() };
        let request = ReplayRequest { installation: Some(name), ..ReplayRequest::default() };
        let mut answers =
            RendererClient::new(channel(system, "renderer", token)?).replay(request).await?.into_inner();
        let mut entries: Vec<JournalEntry> = Vec::new();
        while let Some(answer) = answers.message().await? {
            entries.extend(answer.entries);
        }
        anyhow::Ok(entries)
    };
    for (token, namespace, expected) in [
        (None, "replay-rights", (Code::Unauthenticated, "TOKEN_INVALID")),
        (Some(partial.as_str()), "replay-rights", (Code::PermissionDenied, "ACCESS_DENIED")),
        (Some(viewer.as_str()), "default", (Code::PermissionDenied, "ACCESS_DENIED")),
    ] {
        let refused = ask(token, namespace).await.err().context("it is refused")?;
        let refused = told(refused.downcast_ref().context("by the service")?);
        assert_eq!((refused.0, refused.1.as_str()), expected);
    }
    assert_eq!(ask(Some(&viewer), "replay-rights").await?.len(), 0);
    let (code, text, error) = replay(system, &viewer, &["replay-rights/nothing"]).await?;
    assert_eq!((code, text.as_str()), (1, ""));
    ensure!(
        error.contains("the journal has no entry about a job of Installation replay-rights/nothing"),
        "{error}"
    );
    Ok(())
}

/// Jobs proceed without the journal's stream. The service creates the stream again, and it contains
/// the following jobs.
#[tokio::test(flavor = "multi_thread")]
async fn jobs_go_on_without_the_journal() -> Result<()> {
    let Some(system) = System::start(SystemOptions { ..options() }).await? else { return Ok(()) };
    let case = Case::new(&system, "replay-gone").await?;
    let token = account(&case, "viewer", &ALL).await?;
    let items = blueprint(&[("item", json!({}))]);
    let before = case.install("shop", &items).await?;
    ended(&system, &token, "replay-gone/shop", &job(&before)).await?;
    let streams = async_nats::jetstream::new(async_nats::connect(system.nats.url()).await?);
    ensure!(streams.delete_stream(JOURNAL).await?.success, "the journal was there");
    assert_eq!(outcome(&case.reconcile("shop").await?).0, "Succeeded");
    wait_for("the journal is made again", PATIENCE, async || {
        streams.get_stream(JOURNAL).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    let after = case.reconcile("shop").await?;
    assert_eq!(outcome(&after).0, "Succeeded");
    let entries = ended(&system, &token, "replay-gone/shop", &job(&after)).await?;
    ensure!(entries.iter().all(|entry| entry["jobID"] != job(&before)), "{entries:#?}");
    let (_, metrics) = system.admin("renderer", "/metrics").await?;
    let written = "groundwork_journal_entries_total{service=\"renderer\",outcome=\"written\"} ";
    ensure!(metrics.lines().any(|line| line.starts_with(written) && !line.ends_with(" 0")), "{metrics}");
    Ok(())
}
