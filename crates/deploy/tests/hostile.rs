//! Targets with a hostile API server: each trick ends within its time limit with an error of its
//! own, and a process survives fifty of them.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use groundwork_api::{ObjectMeta, Target};
use groundwork_apply::{Answers, Cluster, Reference, ResourceKind, Scope, Selector};
use groundwork_controller::{ApiError, Metrics, Objects};
use groundwork_deploy::{Targets, TokenRules};
use groundwork_testkit::{HostileServer, Trick};
use kube::Client;
use serde_json::json;

/// Time limit of a request; the service uses 30 seconds.
const REQUEST: Duration = Duration::from_secs(4);
/// Time limit for everything that follows from one request, including a list of many pages.
const LIMIT: Duration = Duration::from_secs(24);
/// Tricks that are played at the same time. Most of them only wait.
const AT_ONCE: usize = 4;
const MIB: usize = 1 << 20;

/// Runs one test at a time, because each uses all processors.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Returns a home cluster that is never called.
fn objects() -> Objects {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::ready(Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("unasked")))
    });
    let metrics = Metrics::new(&groundwork_telemetry::Metrics::default(), "test");
    Objects::new(Client::new(service, "default"), "test", metrics)
}

async fn cluster(server: &HostileServer, answers: &Answers) -> Arc<Cluster> {
    let kubeconfig = json!({
        "clusters": [{"name": "a", "cluster": {"server": server.url()}}],
        "users": [{"name": "a", "user": {"token": "secret"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    });
    let spec =
        json!({"type": "landscaper.gardener.cloud/kubernetes-cluster", "config": {"kubeconfig": kubeconfig}});
    let target = Target {
        metadata: ObjectMeta { namespace: Some("a".to_owned()), ..ObjectMeta::default() },
        spec: serde_json::from_value(spec).unwrap(),
    };
    Targets::new(None, "test", answers.clone(), TokenRules::default())
        .cluster(&target, &objects())
        .await
        .unwrap()
}

fn kind() -> ResourceKind {
    ResourceKind {
        api_version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        plural: "things".to_owned(),
        is_namespaced: true,
        has_status: false,
    }
}

fn reference() -> Reference {
    Reference {
        api_version: "v1".to_owned(),
        kind: "Thing".to_owned(),
        namespace: Some("x".to_owned()),
        name: "x".to_owned(),
    }
}

/// Types of requests to the cluster of a Target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Object,
    List,
    Kind,
    Versions,
    Token,
    Log,
    Write,
    Watch,
}

const ASKED: [Asked; 8] = [
    Asked::Object,
    Asked::List,
    Asked::Kind,
    Asked::Versions,
    Asked::Token,
    Asked::Log,
    Asked::Write,
    Asked::Watch,
];

async fn ask(cluster: &Cluster, asked: Asked) -> Result<(), ApiError> {
    match asked {
        Asked::Object => cluster.get_of(&kind(), &reference()).await.map(drop),
        Asked::List => cluster.list(&kind(), Some("x"), "").await.map(drop),
        Asked::Kind => cluster.kind("v1", "Thing").await.map(drop),
        Asked::Versions => cluster.versions().await.map(drop),
        Asked::Token => cluster.ask(&kind(), &reference(), "token", &json!({})).await.map(drop),
        Asked::Log => cluster.log("x", "x", "x", 10, 1024).await.map(drop),
        Asked::Write => {
            let object =
                json!({"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "x", "namespace": "x"}});
            cluster.create_with_warnings(&kind(), &object).await.map(drop)
        }
        Asked::Watch => {
            let selector = Selector::Name("x".to_owned());
            let scope = Scope { kind: kind(), namespace: Some("x".to_owned()), selector };
            let events = cluster.watch(&scope, None, REQUEST).await?;
            // The caller ends a watch that the server does not end.
            let _ = tokio::time::timeout(REQUEST, events.for_each(|_| std::future::ready(()))).await;
            Ok(())
        }
    }
}

/// Returns texts of which the error must contain one. The list is empty where the answer may be
/// valid, and only its end matters.
fn words(trick: &Trick, asked: Asked) -> &'static [&'static str] {
    const LONG: &str = "answers with more than";
    const FORM: &str = "the answer does not match the schema of the kind";
    const LATE: &str = "no answer within";
    match (trick, asked) {
        (Trick::StrangeJson, _) => &[],
        (Trick::DrippingHead | Trick::Silence, _) => &[LATE],
        (Trick::GzipBomb, _) => &["uses a Content-Encoding that the request did not accept"],
        (Trick::RedirectInCircles | Trick::RedirectTo(_), _) => &["redirection, which is not followed"],
        (Trick::RetryAtOnce, _) => &["the server is busy"],
        (Trick::RetryNever, _) => &["asked for a pause of 600 s"],
        (Trick::HeadersWithoutEnd | Trick::ManyHeaders | Trick::NoHttp, _) => &["http://127.0.0.1:"],
        (Trick::EndlessError, _) => &["500", LATE],
        // The other tricks send a valid head, with which a watch has begun.
        (_, Asked::Watch) => &[],
        (Trick::EndlessPages, Asked::List) => &["has more than", "takes more than", "has not ended", LATE],
        (Trick::SamePage, Asked::List) => &["repeats the continue token of an earlier page"],
        (Trick::EndlessPages | Trick::SamePage, _) => &[],
        (Trick::HugeLength, _) => &[LONG],
        // On a busy machine the time limit may come first.
        (Trick::EndlessBody | Trick::EndlessChunks, _) => &[LONG, LATE],
        (Trick::EndlessExtension | Trick::HalfAnswer, _) => &["sends an incomplete or damaged answer"],
        (Trick::DrippingBody, _) => &[LATE],
        (Trick::LongerThanSaid, Asked::Log) => &[],
        (Trick::LongerThanSaid, _) => &[FORM],
        (Trick::HeavyJson, _) => &["takes more than 64 MiB of memory", LONG, LATE],
        (Trick::DeepJson, _) => &[FORM, LONG, LATE],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_trick_ends_with_words_of_its_own() {
    let _alone = ALONE.lock().await;
    let tricks = futures::stream::iter(Trick::all()).map(each_request);
    tricks.buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

/// Plays one trick on each request.
async fn each_request(trick: Trick) {
    let server = HostileServer::start(trick.clone()).await.unwrap();
    let asking = ASKED.map(async |asked| {
        let cluster = cluster(&server, &Answers::default().within(REQUEST)).await;
        let begun = Instant::now();
        let answer = tokio::time::timeout(LIMIT, ask(&cluster, asked)).await;
        let answer = answer.unwrap_or_else(|_| panic!("{trick:?}, {asked:?}: it has not ended"));
        let words = words(&trick, asked);
        match &answer {
            _ if words.is_empty() => {}
            Ok(()) => panic!("{trick:?}, {asked:?}: it was taken for an answer"),
            Err(error) => {
                let text = error.to_string();
                assert!(words.iter().any(|one| text.contains(one)), "{trick:?}, {asked:?}: {text}");
                assert!(!text.contains("secret") && text.len() < 1000, "{text}");
            }
        }
        println!(
            "| {trick:?} | {asked:?} | {:.1?} | {} |",
            begun.elapsed(),
            answer.err().map(|error| error.to_string()).unwrap_or_default()
        );
    });
    futures::future::join_all(asking).await;
}

/// Errors about answers name the server.
#[tokio::test]
async fn messages_name_the_server_and_the_limit() {
    let _alone = ALONE.lock().await;
    let server = HostileServer::start(Trick::EndlessBody).await.unwrap();
    let cluster = cluster(&server, &Answers::default()).await;
    let error = ask(&cluster, Asked::Object).await.unwrap_err();
    let expected = format!(
        "cannot get x/x of type Thing: {} answers with more than 8 MiB, the limit for an object",
        server.url()
    );
    assert_eq!(error.to_string(), expected);
}

/// Returns the peak memory of the process.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.unwrap_or_default() << 10
}

/// Fifty hostile Targets use no more memory than one, and an honest Target can be read beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_are_no_worse_than_one() {
    let _alone = ALONE.lock().await;
    let answers = Answers::default().within(REQUEST);
    let tricks = [Trick::EndlessBody, Trick::HeavyJson, Trick::EndlessPages, Trick::EndlessChunks];
    let hostile = (0..50).map(|index| {
        let (answers, trick) = (answers.clone(), tricks[index % tricks.len()].clone());
        async move {
            let server = HostileServer::start(trick).await.unwrap();
            let cluster = cluster(&server, &answers).await;
            for asked in [Asked::Object, Asked::List, Asked::Versions, Asked::Watch] {
                let _ = ask(&cluster, asked).await;
            }
        }
    });
    let hostile = tokio::spawn(futures::future::join_all(hostile.collect::<Vec<_>>()));
    let small = HostileServer::start(Trick::SamePage).await.unwrap();
    let mut read = 0;
    while !hostile.is_finished() {
        let small = cluster(&small, &answers).await;
        let answer = tokio::time::timeout(LIMIT, ask(&small, Asked::Object)).await;
        assert!(matches!(answer, Ok(Ok(()))), "{answer:?}");
        assert!(answers.in_use() <= 96 * MIB, "{}", answers.in_use());
        read += 1;
    }
    hostile.await.unwrap();
    assert!(read > 3, "{read}");
    assert_eq!(answers.in_use(), 0);
    println!("peak: {} MiB, {read} small answers beside them", peak() >> 20);
    assert!(peak() < 300 * MIB, "{} MiB", peak() >> 20);
}
