//! Tests of the router over an API server that knows one token and allows everything.

#![expect(clippy::disallowed_methods, reason = "the request is one of the test")]

use std::net::SocketAddr;

use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::response::Response;
use groundwork_controller::{Metrics, Objects};
use groundwork_grpc::Access;
use groundwork_telemetry::Health;
use groundwork_turns::Seats;
use http::Request;
use http::header::HeaderMap;
use http_body_util::BodyExt as _;
use kube::{Client, Config};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::*;
use crate::landscape::Filler;
use crate::landscape::tests::{installation, landscape};
use crate::rights::Rights;
use crate::settings::Settings;
use crate::sources::Sources;
use crate::visitor::SignIn;

const TOKEN: (&str, &str) = ("authorization", "Bearer good");
const GZIP: (&str, &str) = ("accept-encoding", "gzip");

fn client() -> Client {
    let server = tower::service_fn(|request: Request<kube::client::Body>| async move {
        let body = request.into_body().collect_bytes().await.unwrap();
        let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
        let is_good = review["spec"]["token"] == "good";
        review["status"] = json!({"authenticated": is_good, "user": {"username": "ann"}, "allowed": true});
        Ok::<_, std::io::Error>(http::Response::new(kube::client::Body::from(
            review.to_string().into_bytes(),
        )))
    });
    Client::new(server, "default")
}

fn console() -> (Router, Filler) {
    let (landscape, filler) = landscape(&[
        installation("shop", "Failed", None, &json!({})),
        installation("b.json", "Failed", None, &json!({})),
    ]);
    let (access, settings) = (Access::new(client(), "console"), Settings::default());
    let metrics = Metrics::new(&groundwork_telemetry::Metrics::default(), "console");
    let site = Site {
        landscape,
        rights: Rights::new(access.clone()),
        sources: Sources::new(),
        sign_in: SignIn::new(access, &settings),
        objects: Objects::new(client(), "groundwork-console", metrics),
        anonymous: Config::new("http://localhost".parse().unwrap()),
        resolver: None,
        renderer: None,
        variant: None,
        health: Health::default(),
        allows_operations: true,
        is_https: false,
        proxies: Vec::new(),
        live: Seats::new(live::PAGES),
        end: tokio_util::sync::CancellationToken::new(),
    };
    (router(Arc::new(site)), filler)
}

async fn ask(router: &Router, method: &str, uri: &str, headers: &[(&str, &str)], body: &str) -> Response {
    let mut request = Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let peer = ConnectInfo(SocketAddr::from(([127, 0, 0, 1], 1)));
    let request = request.extension(peer).body(Body::from(body.to_owned())).unwrap();
    router.clone().oneshot(request).await.unwrap()
}

async fn read(response: Response) -> (u16, HeaderMap, Vec<u8>) {
    let (head, body) = response.into_parts();
    (head.status.as_u16(), head.headers, to_bytes(body, usize::MAX).await.unwrap().to_vec())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn pages_have_one_address_in_many_spellings() {
    let (router, _filler) = console();
    for (method, uri, status) in [
        ("GET", "/index.json", 200),
        ("GET", "//installations/", 200),
        ("GET", "/installations?page=x&page=2&q=%ff&&=", 200),
        ("GET", "/installations/team/b%2Ejson", 200),
        ("GET", "/installations/team/b%2ejson.json", 200),
        ("GET", "/%69nstallations/team/shop", 200),
        ("GET", "/installations/team/b.json", 404),
        ("GET", "/installations/team/UPPER", 404),
        ("GET", "/installations/team/a%2Fb", 404),
        ("GET", "/installations/team/%zz", 404),
        ("GET", "/installations/team/%ff", 404),
        ("GET", "/installations/team/shop/approve", 404),
        ("GET", "/sign-out", 404),
        ("POST", "/installations", 404),
        ("PUT", "/plan", 404),
        ("GET", "/live?topic=nonsense", 400),
        ("GET", "/journal/team/shop?limit=0", 400),
        ("GET", assets::style_path(), 200),
    ] {
        let (found, headers, _) = read(ask(&router, method, uri, &[TOKEN], "").await).await;
        assert_eq!(found, status, "{method} {uri}");
        assert!(headers.contains_key("content-security-policy") && !headers.contains_key("allow"), "{uri}");
    }
    // Visitors sign in before they learn that a page does not exist. A malformed path is refused
    // at once.
    let to = async |uri| read(ask(&router, "GET", uri, &[], "").await).await;
    assert_eq!(to("/nothing?a=b").await.1["location"], "/sign-in?to=%2Fnothing%3Fa%3Db");
    assert_eq!((to("/nothing.json").await.0, to("/a/%zz").await.0), (401, 404));
}

#[tokio::test]
async fn forms_are_read_whatever_their_media_type() {
    let (router, _filler) = console();
    let post =
        async |uri, headers: &[_], body: &str| read(ask(&router, "POST", uri, headers, body).await).await;
    let (status, headers, _) = post("/sign-in", &[], "token=+good+&to=/sets&token=bad").await;
    assert_eq!((status, text(&headers, "location")), (303, "/sets"));
    assert_eq!(headers["set-cookie"], "groundwork-token=Z29vZA; Path=/; HttpOnly; SameSite=Strict");
    let (status, _, page) = post("/sign-in", &[], &"x".repeat(LARGEST_FORM + 1)).await;
    assert!(status == 401 && String::from_utf8(page).unwrap().contains("The form is too long"));
    let elsewhere = ("origin", "http://evil.example");
    assert_eq!(post("/sign-in", &[elsewhere], "token=good").await.0, 403);
    assert_eq!(post("/sign-out", &[elsewhere], "").await.0, 403);
    // The largest form is that of a plan: here only its key is wrong.
    assert_eq!(post("/plan", &[TOKEN], &"x".repeat(LARGEST_FORM + 1)).await.0, 403);
    let operation = "/installations/team/shop/reconcile";
    assert_eq!(post(operation, &[TOKEN], &"x".repeat(LARGEST_FORM + 1)).await.0, 400);
    assert_eq!(post(operation, &[TOKEN], "key=00").await.0, 403);
}

#[tokio::test]
async fn pages_are_compressed_for_who_takes_it() {
    let (router, _filler) = console();
    let get = async |method, coding| {
        let coding = ("accept-encoding", coding);
        read(ask(&router, method, "/installations", &[TOKEN, coding], "").await).await
    };
    let seen = |headers| ["content-encoding", "content-length"].map(|name| text(headers, name).to_owned());
    let (_, headers, page) = get("GET", "gzip;q=0.0").await;
    assert_eq!(seen(&headers), ["", &page.len().to_string()]);
    let (_, headers, small) = get("GET", "br, gzip;q=0.5").await;
    assert_eq!(seen(&headers), ["gzip", &small.len().to_string()]);
    assert!(small.len() < page.len());
    assert_eq!(text(&get("HEAD", "gzip").await.1, "content-encoding"), "gzip");
    let (_, secret, _) = read(ask(&router, "GET", "/plan", &[TOKEN, GZIP], "").await).await;
    assert!(!secret.contains_key("content-encoding"), "its length would tell of the key of the form");
}

#[tokio::test]
async fn open_pages_get_events() {
    let (router, filler) = console();
    let mut live = ask(&router, "GET", "/live?topic=overview", &[TOKEN, GZIP], "").await;
    let headers = ["content-type", "cache-control", "x-accel-buffering"].map(|name| &live.headers()[name]);
    assert_eq!(headers, ["text/event-stream", "no-store", "no"]);
    assert!(!live.headers().contains_key("content-encoding"));
    let mut next = async || live.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_eq!(next().await, ": welcome\nretry: 2000\n\n");
    filler.take(&installation("other", "Failed", None, &json!({})));
    // Browsers ignore an event without data.
    assert_eq!(next().await, "event: changed\ndata:  \n\n");
}
