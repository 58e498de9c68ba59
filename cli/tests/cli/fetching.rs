//! Commands that call hostile servers: each ends in time with an error message, for every kind of
//! answer.

use std::process::Stdio;
use std::time::{Duration, Instant};

use groundwork_testkit::{HostileServer, Trick};
use serde_json::json;
use tempfile::TempDir;
use tokio::process::Command;

/// Time that a command may wait for an answer, on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

/// Commands, with `URL` for the address of the server.
const COMMANDS: [(&str, &[&str]); 6] = [
    ("component", &["component", "fetch", "--from", "URL/c", "example.org/shop:1.0.0", "data"]),
    ("status", &["status"]),
    ("packages list", &["packages", "list"]),
    ("packages pull", &["packages", "pull", "--server", "URL", "edge.dns.v1", "DIR"]),
    ("explain", &["explain", "overwrites", "--server", "URL", "--installation", "shop"]),
    ("replay", &["replay", "--server", "URL", "shop"]),
];

/// Tricks that last until the time limit of the client, two minutes and more. Tests of the clients
/// themselves try these with shorter limits.
const LONG: [Trick; 6] = [
    Trick::DrippingBody,
    Trick::EndlessChunks,
    Trick::DrippingHead,
    Trick::Silence,
    Trick::RetryAtOnce,
    Trick::RetryNever,
];

async fn run(folder: &TempDir, url: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let kubeconfig = folder.path().join("kubeconfig");
    let target = folder.path().join("package");
    let arguments = arguments
        .iter()
        .map(|argument| argument.replace("URL", url).replace("DIR", &target.display().to_string()));
    let output = Command::new(env!("CARGO_BIN_EXE_groundwork"))
        .args(arguments)
        .env("KUBECONFIG", &kubeconfig)
        .env_remove("GROUNDWORK_REPOSITORIES")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output()
        .await
        .unwrap();
    assert!(!target.exists(), "nothing of it is written");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_ends_with_words() {
    let tricks = Trick::all().into_iter().filter(|trick| !LONG.contains(trick));
    let trying = tricks.map(async |trick| {
        let server = HostileServer::start(trick.clone()).await.unwrap();
        let folder = TempDir::new().unwrap();
        let kubeconfig = json!({
            "clusters": [{"name": "a", "cluster": {"server": server.url()}}],
            "users": [{"name": "a", "user": {"token": "secret"}}],
            "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
            "current-context": "a",
        });
        std::fs::write(folder.path().join("kubeconfig"), kubeconfig.to_string()).unwrap();
        for (name, arguments) in COMMANDS {
            let begun = Instant::now();
            let ended = tokio::time::timeout(LIMIT, run(&folder, &server.url(), arguments)).await;
            let (code, text) = ended.unwrap_or_else(|_| panic!("{trick:?}, {name}: it has not ended"));
            println!("| {name} | {trick:?} | {:.1?} | {code:?} | {} |", begun.elapsed(), text.trim());
            assert!(matches!(code, Some(0..=2)), "{trick:?}, {name}: {code:?} {text}");
            assert!(!text.contains("secret") && text.len() < 2000, "{trick:?}, {name}: {text}");
            assert!(!text.contains("unexpected argument"), "{name}: {text}");
            let is_call = ["packages pull", "replay"].contains(&name);
            assert!(!is_call || text.contains("the server of --server"), "{trick:?}, {name}: {text}");
            assert!(code == Some(0) || text.contains("error: "), "{trick:?}, {name}: {text}");
        }
    });
    futures::future::join_all(trying).await;
}
