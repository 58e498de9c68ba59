//! Hostile registries and chart repositories: each trick ends in time with its own error message,
//! and a process survives fifty of them at once.
#![allow(clippy::panic, clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use groundwork_component::{Access, Repository, RepositoryContext};
use groundwork_registry::{
    Allowance, AnswerMemory, Authorization, ChartClient, Digest, Keyring, NetworkOptions, RepositoryMap,
};
use groundwork_testkit::{Honest, HostileServer, Trick};
use serde_json::json;

const NAME: &str = "example.org/shop";
/// Time for everything that is fetched for one purpose; a service has 30 seconds.
const FETCH: Duration = Duration::from_secs(4);
/// Upper limit for one case, since each answer extends the time by a second.
const LIMIT: Duration = Duration::from_secs(20);
/// Tricks that are played at the same time. Most of them only wait.
const AT_ONCE: usize = 4;
const MIB: usize = 1 << 20;
/// Bytes of content, the limit of a rendering.
const CONTENT: u64 = 64 << 20;
const ARCHIVE: u64 = 20 << 20;

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Runs one test at a time, because each uses all processors.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Request that the server answers with a trick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    /// Manifest of a component version, by its tag.
    Tag,
    /// Config of a component version.
    Config,
    Descriptor,
    /// Blob beside a descriptor.
    Local,
    /// Artifact that a descriptor leads to, by its tag.
    Artifact,
    /// Layer of such an artifact.
    Layer,
    ArtifactDigest,
    /// Access token for a password.
    Token,
    /// Access token for a refresh token.
    Refresh,
    ChartTag,
    ChartLayer,
    /// Chart or index behind an HTTP address.
    Address,
}

const ASKED: [Asked; 12] = [
    Asked::Tag,
    Asked::Config,
    Asked::Descriptor,
    Asked::Local,
    Asked::Artifact,
    Asked::Layer,
    Asked::ArtifactDigest,
    Asked::Token,
    Asked::Refresh,
    Asked::ChartTag,
    Asked::ChartLayer,
    Asked::Address,
];

fn digest(text: &str) -> String {
    Digest::of(text.as_bytes()).to_string()
}

impl Asked {
    /// Returns the honest answers that lead the client to the request.
    fn honest(self) -> Vec<Honest> {
        let layer = json!({
            "mediaType": "application/vnd.ocm.software.component-descriptor.v2+json", "digest": digest("d"), "size": 1,
        });
        let config = json!({"componentDescriptorLayer": layer}).to_string();
        let component = json!({
            "mediaType": "application/vnd.ocm.software.component.config.v1+json", "digest": digest(&config), "size": config.len(),
        });
        let manifest =
            json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": [layer], "config": component});
        let chart = json!({"mediaType": CHART, "digest": digest("chart"), "size": 5});
        let chart = json!({"mediaType": MANIFEST, "layers": [chart]});
        let challenge = Honest {
            part: "/v2/".to_owned(),
            status: "401 Unauthorized",
            headers: "WWW-Authenticate: Bearer realm=\"{url}/token\",service=\"s\"\r\n".to_owned(),
            body: Vec::new(),
        };
        let manifests = |body: String| Honest::json("/manifests/", MANIFEST, body);
        match self {
            Self::Config | Self::Layer => vec![manifests(manifest.to_string())],
            Self::Descriptor => {
                let blob = Honest::json(&digest(&config), "application/json", config.clone());
                vec![manifests(manifest.to_string()), blob]
            }
            Self::ChartLayer => vec![manifests(chart.to_string())],
            Self::Token | Self::Refresh => vec![challenge],
            _ => Vec::new(),
        }
    }

    fn keyring(self, host: &str) -> Arc<Keyring> {
        let mut keyring = Keyring::default();
        let auth = match self {
            Self::Refresh => json!({"identitytoken": "secret"}),
            _ => json!({"username": "reader", "password": "secret"}),
        };
        let config = json!({"auths": {host: auth}}).to_string();
        keyring.add_docker_config("a pull secret", config.as_bytes()).unwrap();
        Arc::new(keyring)
    }
}

fn repository(url: &str, keyring: &Arc<Keyring>, allowance: &Allowance) -> Arc<dyn Repository> {
    let map = RepositoryMap::empty("nothing").with_network(NetworkOptions::default());
    let context = RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": url})).unwrap();
    map.open_with(&context, keyring, allowance).unwrap()
}

/// Sends the request, and reads the answer as a service does.
fn ask(url: &str, asked: Asked, allowance: &Allowance) -> Result<(), String> {
    let host = url.trim_start_matches("http://");
    let keyring = asked.keyring(host);
    let open = || repository(url, &keyring, allowance);
    let content = |access: &Access| {
        let blob = open().content(NAME, "1.0.0", access).map_err(|error| error.to_string())?;
        let read = allowance.read_all(blob, &format!("{access} of {host}"), CONTENT);
        read.map(drop).map_err(|error| error.to_string())
    };
    let artifact = Access::RelativeArtifact { reference: "a/b:1.0.0".to_owned() };
    let charts = || ChartClient::new(NetworkOptions::default());
    match asked {
        Asked::Tag | Asked::Config | Asked::Descriptor | Asked::Token | Asked::Refresh => {
            open().descriptor(NAME, "1.0.0").map(drop).map_err(|error| error.to_string())
        }
        Asked::Local => content(&Access::Local { reference: digest("seven"), media_type: String::new() }),
        Asked::Artifact | Asked::Layer => content(&artifact),
        Asked::ArtifactDigest => {
            open().artifact_digest(NAME, "1.0.0", &artifact).map(drop).map_err(|error| error.to_string())
        }
        Asked::ChartTag | Asked::ChartLayer => {
            let pulled = charts().pull(&format!("{host}/charts/web:1.0.0"), &keyring, ARCHIVE, allowance);
            pulled.map(drop).map_err(|error| error.to_string())
        }
        Asked::Address => {
            let url = format!("{url}/charts/index.yaml");
            let got = charts().get(&url, &Authorization::default(), CONTENT, allowance);
            got.map(drop).map_err(|error| error.to_string())
        }
    }
}

/// Returns texts of which the error must have one. The list is empty if the answer may also be
/// accepted; then the test only checks that the request ends.
fn words(trick: &Trick, asked: Asked) -> &'static [&'static str] {
    const LATE: &str = "it is too slow: all fetches together may take 4 s";
    const BROKEN: &str = "cannot read ";
    /// Errors for an answer with other content.
    const OTHER: &[&str] = &[
        "digest mismatch for",
        "not the expected JSON",
        "the manifest has no",
        "the manifest has neither",
        "no matching layer found",
        "answers without a token",
        "instead of 194",
    ];
    match (trick, asked) {
        (Trick::StrangeJson, _) => &[],
        // The manifest has given the length, so the client stops before the first byte too many.
        (Trick::DrippingBody | Trick::HalfAnswer | Trick::GzipBomb | Trick::LongerThanSaid, Asked::Layer) => {
            OTHER
        }
        (Trick::DrippingHead | Trick::DrippingBody | Trick::Silence | Trick::RetryNever, _) => &[LATE],
        (Trick::RedirectInCircles | Trick::RedirectTo(_), Asked::Refresh) => &["redirects an upload"],
        (Trick::RedirectInCircles, _) => &["it redirects more than 5 times"],
        (Trick::RedirectTo(_), _) => &["which redirects to http://127.0.0.1:1"],
        // The server may close the connection in the middle of an answer.
        (Trick::RetryAtOnce, _) => &["429", "Peer disconnected"],
        (Trick::EndlessError, _) => &["500"],
        (Trick::HeadersWithoutEnd, _) => &["response header is too big"],
        (Trick::ManyHeaders, _) => &["too many headers"],
        (Trick::NoHttp, _) => &["http parse fail"],
        (Trick::EndlessExtension | Trick::HalfAnswer, _) => &[BROKEN],
        (Trick::EndlessBody | Trick::EndlessChunks, Asked::Layer) => &["longer than its manifest says"],
        // On a busy machine the time limit may come first.
        (Trick::EndlessBody | Trick::EndlessChunks, _) => &[" is larger than ", LATE],
        (Trick::HugeLength, _) => &[" is larger than "],
        // The client does not check the form of this content; its callers do.
        (_, Asked::Address | Asked::ArtifactDigest) => &[],
        _ => OTHER,
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
    let asking = ASKED.map(async |asked| {
        let server = HostileServer::start_beside(trick.clone(), asked.honest()).await.unwrap();
        let (url, begun) = (server.url(), Instant::now());
        let host = url.trim_start_matches("http://").to_owned();
        let asking = tokio::task::spawn_blocking(move || {
            let memory = AnswerMemory::new(96 * MIB, 64 * MIB).begin("a");
            ask(&url, asked, &Allowance::of(FETCH, "--fetch-timeout").holding(&memory))
        });
        let answer = tokio::time::timeout(LIMIT, asking).await;
        let answer = answer.unwrap_or_else(|_| panic!("{trick:?}, {asked:?}: it has not ended")).unwrap();
        let words = words(&trick, asked);
        match &answer {
            Err(text) => {
                let is_told = words.is_empty() || words.iter().any(|one| text.contains(one));
                assert!(is_told, "{trick:?}, {asked:?}: {text}");
                assert!(text.contains(&host) || text.starts_with("no matching layer"), "{text}");
                assert!(!text.contains("secret") && text.len() < 1000, "{text}");
            }
            Ok(()) => {
                assert!(words.is_empty(), "{trick:?}, {asked:?}: it was taken for an answer");
            }
        }
        let (took, said) = (begun.elapsed(), answer.err().unwrap_or_default());
        println!("| {trick:?} | {asked:?} | {took:.1?} | {said} |");
    });
    futures::future::join_all(asking).await;
}

/// A client that may connect only to public addresses refuses a redirect to a private one.
#[tokio::test]
async fn nobody_is_led_to_private_addresses() {
    let _alone = ALONE.lock().await;
    for place in
        ["http://127.0.0.1:1/", "http://169.254.169.254/latest", "http://[::1]:1/", "http://10.0.0.1/"]
    {
        let server = HostileServer::start(Trick::RedirectTo(place.to_owned())).await.unwrap();
        let url = server.url();
        let refused = tokio::task::spawn_blocking(move || {
            let options = NetworkOptions { only_public: true, ..NetworkOptions::default() };
            let client = ChartClient::new(options.clone());
            let allowance = Allowance::of(FETCH, "--fetch-timeout");
            let got = client.get(&url, &Authorization::default(), CONTENT, &allowance).unwrap_err();
            let map = RepositoryMap::empty("nothing").with_network(options);
            let context = RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": url})).unwrap();
            let repository = map.open_with(&context, &Arc::default(), &allowance).unwrap();
            [got.to_string(), repository.descriptor(NAME, "1.0.0").unwrap_err().to_string()]
        });
        for text in refused.await.unwrap() {
            assert!(text.contains("has an address in a private network"), "{text}");
        }
        assert_eq!(server.requests(), 0);
    }
}

/// Returns the peak memory of the process in bytes.
fn peak() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
    kib.unwrap_or_default() << 10
}

/// Fifty hostile registries take as much memory as one, and an honest one is read beside them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_are_no_worse_than_one() {
    let _alone = ALONE.lock().await;
    let memory = AnswerMemory::new(96 * MIB, 64 * MIB);
    let mut servers = Vec::new();
    for index in 0..50 {
        let trick = [Trick::EndlessBody, Trick::HeavyJson];
        servers.push(HostileServer::start(trick[index % trick.len()].clone()).await.unwrap());
    }
    let before = peak();
    let hostile = servers.iter().enumerate().map(|(index, server)| {
        let (url, memory) = (server.url(), memory.begin(&format!("tenant-{}", index % 10)));
        tokio::task::spawn_blocking(move || {
            let allowance = Allowance::of(FETCH, "--fetch-timeout").holding(&memory);
            for asked in [Asked::Address, Asked::Tag, Asked::Address] {
                let _ = ask(&url, asked, &allowance);
            }
        })
    });
    let hostile = tokio::spawn(futures::future::join_all(hostile.collect::<Vec<_>>()));
    let small = HostileServer::start(Trick::SamePage).await.unwrap();
    let mut read = 0;
    while !hostile.is_finished() {
        let (url, holding) = (small.url(), memory.begin("small"));
        let asking = tokio::task::spawn_blocking(move || {
            // The servers run in this process and use its processors, too, so run the request on a
            // thread of its own.
            ask(&url, Asked::Address, &Allowance::default().holding(&holding))
        });
        let answer = asking.await.unwrap();
        assert_eq!(answer, Ok(()));
        assert!(memory.in_use() <= 96 * MIB, "{}", memory.in_use());
        read += 1;
    }
    hostile.await.unwrap();
    assert!(read > 3, "{read}");
    assert_eq!(memory.in_use(), 0);
    println!("peak: {} MiB, {} before, {read} small answers beside them", peak() >> 20, before >> 20);
    // Without a limit for all answers together the peak is 1.5 GiB. Most of the memory beyond the
    // limit is what the allocator keeps for each thread.
    assert!(peak() < before + 512 * MIB, "{} MiB", peak() >> 20);
}
