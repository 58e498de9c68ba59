use std::convert::Infallible;

use groundwork_apply::ResourceKind;
use groundwork_bus::Kind;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::*;

/// Requests to the cluster's server, each with a sender for the lines of its watch.
pub(crate) type Asked = mpsc::UnboundedReceiver<(String, mpsc::UnboundedSender<String>)>;

const PAUSE: Pauses = Pauses { shortest: Duration::ZERO, unwatched: Duration::from_millis(10) };

/// Starts a server that answers only watches, each with the lines that the test sends, until the
/// test drops the sender.
pub(crate) fn server() -> (Cluster, Asked) {
    let (tell, asked) = mpsc::unbounded_channel();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let (lines, from_test) = mpsc::unbounded_channel::<String>();
        let is_refused = path.contains("refused");
        let status = if is_refused { 403 } else { 200 };
        if !is_refused {
            let _ = tell.send((path, lines));
        }
        let frames = stream::unfold(from_test, async |mut lines| {
            let line = lines.recv().await?;
            Some((Ok::<_, Infallible>(http_body::Frame::data(line.into_bytes().into())), lines))
        });
        let response = http::Response::builder().status(status);
        let response = response.body(http_body_util::StreamBody::new(frames.boxed()));
        std::future::ready(response)
    });
    let client = Client::new(service, "default");
    let server = groundwork_apply::Server { address: "https://test".to_owned(), authority: None };
    (Cluster::new(client, server, "test", &groundwork_apply::Answers::default()), asked)
}

fn kind(name: &str) -> ResourceKind {
    ResourceKind {
        api_version: "v1".to_owned(),
        kind: name.to_owned(),
        plural: name.to_lowercase(),
        is_namespaced: true,
        has_status: false,
    }
}

/// Waits until an object reports that it is ready.
fn awaited(cluster: &Cluster, of: &str, name: &str, version: Option<&str>, labels: Option<&str>) -> Awaited {
    let is_ready = |object: &Value| object["ready"] == true;
    let mut awaited = Awaited::any(cluster, kind(of), Some("ns"), String::new(), is_ready);
    awaited.name = Some(name.to_owned());
    awaited.version = version.map(str::to_owned);
    awaited.with_labels(labels.map(str::to_owned))
}

fn line(change: &str, name: &str, is_ready: bool) -> String {
    let object = json!({"metadata": {"name": name, "namespace": "ns"}, "ready": is_ready});
    json!({"type": change, "object": object}).to_string() + "\n"
}

pub(crate) fn key() -> Key {
    Key::new(Kind::new("landscaper.gardener.cloud", "deployitems"), Some("ns"), "item")
}

/// Returns a wake-up that informs the test.
fn waker() -> (impl Future<Output = ()> + Send + 'static, tokio::sync::oneshot::Receiver<()>) {
    let (tell, told) = tokio::sync::oneshot::channel();
    (
        async move {
            let _ = tell.send(());
        },
        told,
    )
}

/// Opens a watch for a Pod to become ready.
pub(crate) async fn open(watches: &Watches, cluster: &Cluster) -> Watch {
    let all = [awaited(cluster, "Pods", "a", None, None)];
    watches.open(cluster.clone(), &all, waker().0, PAUSE).await.unwrap()
}

/// Objects of one kind with common labels share a watch, from the oldest version on. Missing
/// objects, and objects without others like them, are watched by name.
#[tokio::test]
async fn what_is_watched() {
    let (cluster, _) = server();
    let (other, _) = server();
    let owned = Some("owner=item");
    let all = [
        awaited(&cluster, "Pods", "a", Some("10"), owned),
        awaited(&cluster, "Pods", "b", Some("9"), owned),
        awaited(&cluster, "Pods", "c", None, owned),
        awaited(&cluster, "Pods", "d", Some("3"), None),
        awaited(&other, "Pods", "e", Some("5"), owned),
        awaited(&cluster, "Jobs", "f", Some("2"), owned),
        awaited(&cluster, "Pods", "g", Some("11"), owned),
        Awaited::any(&cluster, kind("Pods"), Some("ns"), "app=web".to_owned(), |_| true),
    ];
    let by_name = |name: &str| Selector::Name(name.to_owned());
    let found: Vec<_> = plans(&all)
        .into_iter()
        .map(|plan| (plan.scope.kind.plural, plan.scope.selector, plan.version, plan.awaited.len()))
        .collect();
    let version = |text: &str| Some(text.to_owned());
    assert_eq!(
        found,
        [
            ("pods".to_owned(), Selector::Labels("owner=item".to_owned()), version("9"), 3),
            ("pods".to_owned(), by_name("c"), None, 1),
            ("pods".to_owned(), by_name("d"), version("3"), 1),
            ("pods".to_owned(), by_name("e"), version("5"), 1),
            ("jobs".to_owned(), by_name("f"), version("2"), 1),
            ("pods".to_owned(), Selector::Labels("app=web".to_owned()), None, 1),
        ]
    );
    let many: Vec<Awaited> =
        (0..20).map(|number| awaited(&cluster, "Pods", &number.to_string(), None, None)).collect();
    assert_eq!(plans(&many).len(), MOST_OF_ITEM);
}

/// An item is woken only when all its waits are over: other objects and unrelated changes do not
/// wake it. The deletion of an object also ends its wait.
#[tokio::test]
async fn an_item_is_woken_when_all_is_over() {
    let (cluster, mut asked) = server();
    let watches = Watches::new(8, &Registry::default());
    let all = [awaited(&cluster, "Pods", "a", Some("1"), None), awaited(&cluster, "Jobs", "b", None, None)];
    let (wake, woken) = waker();
    let watch = watches.open(cluster.clone(), &all, wake, PAUSE).await.unwrap();
    let (path, pods) = asked.recv().await.unwrap();
    assert!(path.starts_with("/api/v1/namespaces/ns/pods?") && path.contains("resourceVersion=1"), "{path}");
    let (_, jobs) = asked.recv().await.unwrap();
    for text in [line("MODIFIED", "a", false), line("MODIFIED", "other", true), line("MODIFIED", "a", true)] {
        pods.send(text).unwrap();
    }
    assert!(watch.is_on());
    jobs.send(line("DELETED", "b", false)).unwrap();
    woken.await.unwrap();
    assert!(!watch.is_on());
    pods.closed().await;
    jobs.closed().await;
    assert_eq!((watches.free.available_permits(), watches.open.get()), (8, 0));
}

/// A watch that the server ends causes a new round, but not before the pause.
#[tokio::test]
async fn an_item_is_woken_when_a_watch_ends() {
    let (cluster, mut asked) = server();
    let watches = Watches::new(8, &Registry::default());
    let (wake, woken) = waker();
    let begun = Instant::now();
    let pause = Duration::from_millis(200);
    let pauses = Pauses { shortest: Duration::ZERO, unwatched: pause };
    let all = [awaited(&cluster, "Pods", "a", None, None)];
    let watch = watches.open(cluster.clone(), &all, wake, pauses).await.unwrap();
    drop(asked.recv().await.unwrap());
    woken.await.unwrap();
    assert!(!watch.is_on());
    assert!(begun.elapsed() >= pause);
}

/// Rounds must not follow one another without a pause, which would be too much for the cluster.
#[tokio::test]
async fn an_item_is_not_woken_before_the_shortest_pause() {
    let (cluster, mut asked) = server();
    let (wake, woken) = waker();
    let (begun, shortest) = (Instant::now(), Duration::from_millis(200));
    let pauses = Pauses { shortest, unwatched: Duration::ZERO };
    let all = [awaited(&cluster, "Pods", "a", None, None)];
    let watch =
        Watches::new(8, &Registry::default()).open(cluster.clone(), &all, wake, pauses).await.unwrap();
    let (_, lines) = asked.recv().await.unwrap();
    lines.send(line("ADDED", "a", true)).unwrap();
    woken.await.unwrap();
    assert!(begun.elapsed() >= shortest && !watch.is_on());
}

/// A dropped watch closes its connection and frees its place for others.
#[tokio::test]
async fn watches_end_with_what_they_are_for() {
    let (cluster, mut asked) = server();
    let watches = Watches::new(1, &Registry::default());
    let all = [awaited(&cluster, "Pods", "a", None, None)];
    let open = async || {
        let (wake, _) = waker();
        watches.open(cluster.clone(), &all, wake, PAUSE).await
    };
    watches.keep(&key(), open().await.unwrap());
    let (_, lines) = asked.recv().await.unwrap();
    assert!(open().await.is_none(), "there are no more than one");
    assert!(watches.of_another().place().is_none(), "whoever they are for");
    assert_eq!(watches.open.get(), 1);
    drop(watches.take(&key()));
    lines.closed().await;
    while watches.free.available_permits() == 0 {
        tokio::task::yield_now().await;
    }
    // A new watch replaces the old one of the same key.
    watches.keep(&key(), open().await.unwrap());
    let (_, lines) = asked.recv().await.unwrap();
    drop(watches.take(&key()));
    lines.closed().await;
    assert!(watches.take(&key()).is_none());
}

/// Without permission, and with a limit of zero, no watch is opened. Other watches of the same item
/// still are.
#[tokio::test]
async fn what_cannot_be_watched() {
    let (cluster, _asked) = server();
    let refused = awaited(&cluster, "Refused", "a", None, None);
    let open = async |most: usize, all: &[Awaited]| {
        Watches::new(most, &Registry::default()).open(cluster.clone(), all, waker().0, PAUSE).await
    };
    assert!(open(8, std::slice::from_ref(&refused)).await.is_none());
    assert!(open(8, &[]).await.is_none());
    let all = [refused, awaited(&cluster, "Pods", "b", None, None)];
    assert!(open(8, &all).await.is_some());
    assert!(open(0, &all).await.is_none());
}

/// The deadline of an item ends its wait, even if the awaited change has not come.
#[tokio::test]
async fn a_watch_has_an_end() {
    let (cluster, _asked) = server();
    let (wake, _) = waker();
    let all = [awaited(&cluster, "Pods", "a", None, None)];
    let mut watch = Watches::new(8, &Registry::default()).open(cluster, &all, wake, PAUSE).await.unwrap();
    watch.until = Some(Timestamp::now() + Duration::from_secs(60));
    assert!(watch.is_on());
    watch.until = Some(Timestamp::now());
    assert!(!watch.is_on());
}
