//! Tests with hostile Porch servers: each call ends in time, with an error that explains the trick.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::time::{Duration, Instant};

use groundwork_packages::porch::{Porch, PorchError};
use groundwork_testkit::{HostileServer, Trick};
use kube::Config;

/// Time limit of a test; a call has 45 seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// Calls of the client, except those that write back a read object.
#[derive(Debug, Clone, Copy)]
enum Asked {
    Served,
    List,
    Get,
    Resources,
    Delete,
}

const ASKED: [Asked; 5] = [Asked::Served, Asked::List, Asked::Get, Asked::Resources, Asked::Delete];

async fn ask(porch: &Porch, asked: Asked) -> Result<(), PorchError> {
    match asked {
        Asked::Served => porch.is_served().await.map(drop),
        Asked::List => porch.list("fleet", "edge", None).await.map(drop),
        Asked::Get => porch.get("fleet", "edge.dns.w").await.map(drop),
        Asked::Resources => porch.resources("fleet", "edge.dns.w").await.map(drop),
        Asked::Delete => porch.delete("fleet", "edge.dns.w").await,
    }
}

/// Texts of which the error contains one. Empty if the answer may be valid; then only the end of
/// the call matters.
fn words(trick: &Trick) -> &'static [&'static str] {
    match trick {
        Trick::StrangeJson | Trick::EndlessPages | Trick::SamePage => &[],
        Trick::EndlessBody | Trick::EndlessChunks => &["has more than the allowed", "no answer within 45 s"],
        Trick::HugeLength => &["has more than the allowed"],
        Trick::HeavyJson => &[],
        Trick::DrippingBody | Trick::DrippingHead | Trick::Silence => &["no answer within 45 s"],
        Trick::GzipBomb | Trick::LongerThanSaid | Trick::DeepJson => &["cannot be read"],
        Trick::RedirectInCircles | Trick::RedirectTo(_) => &["302"],
        Trick::RetryAtOnce | Trick::RetryNever => &["429", "no answer within 45 s"],
        Trick::EndlessError => &["500"],
        Trick::HeadersWithoutEnd
        | Trick::ManyHeaders
        | Trick::NoHttp
        | Trick::EndlessExtension
        | Trick::HalfAnswer => &["does not answer"],
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_trick_ends_with_words_of_its_own() {
    let asking = Trick::all().into_iter().map(async |trick| {
        let server = HostileServer::start(trick.clone()).await.unwrap();
        let asking = ASKED.map(async |asked| {
            let client = groundwork_client::connect(Config::new(server.url().parse().unwrap())).unwrap();
            let (porch, begun) = (Porch::new(client), Instant::now());
            let answer = tokio::time::timeout(LIMIT, ask(&porch, asked)).await;
            let answer = answer.unwrap_or_else(|_| panic!("{trick:?}, {asked:?}: it has not ended"));
            let (words, took) = (words(&trick), begun.elapsed());
            match answer {
                Ok(()) => assert!(words.is_empty(), "{trick:?}, {asked:?}: it was taken for an answer"),
                Err(error) => {
                    let text = error.sentence();
                    let is_told = words.is_empty() || words.iter().any(|one| text.contains(one));
                    assert!(is_told && text.len() < 1000, "{trick:?}, {asked:?}: {text}");
                    println!("| {trick:?} | {asked:?} | {took:.1?} | {text} |");
                }
            }
        });
        futures::future::join_all(asking).await;
    });
    futures::future::join_all(asking).await;
}
