//! Tests of pages whose objects were written by an attacker, and of large lists.

use axum::body::to_bytes;
use axum::response::Response;
use futures::FutureExt as _;
use groundwork_api::{DeployItem, Execution, Installation};
use groundwork_lifecycle::overview::Members;
use groundwork_lifecycle::sources::Made;
use groundwork_lifecycle::waits::Clock;
use groundwork_proto::renderer::v1::JournalEntry;
use http::StatusCode;
use jiff::Timestamp;
use maud::html;
use serde::Serialize;
use serde_json::{Value, json};

use super::events::EventsPage;
use super::frame::{self, Frame};
use super::installation::{InstallationPage, MOST_NODES, Seen};
use super::installations::InstallationsPage;
use super::list::ListQuery;
use super::message::MessagePage;
use super::overview::GlancePage;
use super::*;
use crate::answer;
use crate::landscape::Content;
use crate::landscape::tests::{flows, installation, landscape, place, shown};
use crate::request::parameters;
use crate::rights::Visible;

const MARKUP: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";
const ALL: Seen = Seen { installations: true, executions: true, items: true };

/// Returns the list of Installations for a query.
fn installations(content: &Content, visible: &Visible, query: &str) -> InstallationsPage {
    let (filter, part) = (parameters(query).unwrap(), parameters(query).unwrap());
    InstallationsPage::new(content, visible, filter, &part, Timestamp::UNIX_EPOCH)
}

fn body(response: Response) -> Vec<u8> {
    to_bytes(response.into_body(), usize::MAX).now_or_never().unwrap().unwrap().to_vec()
}

/// Returns the HTML that a browser gets.
fn html(page: &impl Page) -> String {
    let frame = Frame { user: Some(MARKUP), path: "/", ..Frame::default() };
    let page = frame::html(page, &frame, Timestamp::UNIX_EPOCH);
    String::from_utf8(body(answer::html(StatusCode::OK, page))).unwrap()
}

/// Asserts that a page contains nothing that a browser would run besides the console's own script,
/// and no address of another host.
fn assert_harmless(page: &str) {
    for forbidden in [
        "<script>",
        "<img",
        "onerror=alert(1)>",
        " style=",
        "javascript:",
        "http://",
        "https://",
        "\u{202e}",
        "\u{1b}",
    ] {
        assert!(!page.contains(forbidden), "{forbidden:?} in {page}");
    }
    assert_eq!(page.matches("<script ").count(), 1, "{page}");
}

fn strange() -> Value {
    json!({"context": MARKUP, "componentDescriptor": {"ref": {"componentName": MARKUP, "version": "v1\u{202e}\u{1b}[2J"}},
        "imports": {"data": [{"name": "a", "dataRef": MARKUP}]}})
}

#[test]
fn nothing_that_strangers_write_is_obeyed() {
    let item = json!({"metadata": {"labels": {"execution.landscaper.gardener.cloud/managed-by": "shop",
        "execution.landscaper.gardener.cloud/name": MARKUP}}, "spec": {"type": MARKUP}});
    let giver = json!({"exports": {"data": [{"name": "a", "dataRef": MARKUP}]}});
    let (landscape, _filler) = landscape(&[
        installation("giver", "Failed", None, &giver),
        installation("shop", "Progressing", None, &strange()),
        installation(MARKUP, "Failed", None, &strange()),
        shown::<groundwork_api::Execution>("shop", &json!({})),
        shown::<DeployItem>("shop-1", &item),
    ]);
    let content = landscape.read();
    let now = Timestamp::UNIX_EPOCH;
    let encoded: String = form_urlencoded::byte_serialize(MARKUP.as_bytes()).collect();
    let query = format!("q={encoded}&namespace={encoded}");
    let object: Installation = serde_json::from_value(json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {"name": "shop", "namespace": "team"}, "spec": {"blueprint": {}},
        "status": {"observedGeneration": 1,
            "lastError": {"operation": MARKUP, "reason": MARKUP, "message": format!("{MARKUP}\u{202e}\u{1b}[2J")},
            "conditions": [{"type": MARKUP, "status": "True", "reason": MARKUP, "message": MARKUP,
                "lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}]},
    }))
    .unwrap();
    let mut one = InstallationPage::new(&content, &place("shop"), ALL, now).unwrap();
    one.add(&object);
    let source = JournalEntry {
        what: "decision".to_owned(),
        reason: "Source".to_owned(),
        text: format!("{} is written in {MARKUP}", Made::DeployItem.subject(MARKUP)),
        ..JournalEntry::default()
    };
    one.add_sources(&[source].into_iter().collect());
    let shown = html(&one);
    assert!(shown.contains(" from &lt;script&gt;"), "where the item is written: {shown}");
    assert!(shown.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && shown.contains("⟨U+202E⟩⟨U+001B⟩[2J"));
    assert!(shown.contains("<svg"), "the graph is on the page, too");
    assert_harmless(&shown);
    let everywhere = Visible::Everywhere;
    assert_harmless(&html(&installations(&content, &everywhere, &query)));
    assert_harmless(&html(&installations(&content, &everywhere, "")));
    assert_harmless(&html(&GlancePage::new(&content, &everywhere, &everywhere, now)));
    assert_harmless(&html(&EventsPage::new(&content, |_| true, parameters(&query).unwrap())));
    assert_harmless(&html(&EventsPage::new(&content, |_| true, ListQuery::default())));
    assert_harmless(&html(&MessagePage { title: "Not now", message: MARKUP.to_owned(), link: None }));
    assert!(
        frame::json(&one, &[]).contains("<script>"),
        "programs get what is there, with a media type that browsers do not run"
    );
}

/// A page shows the waits of its Installation and of the objects below, in the words of `groundwork
/// status`.
#[test]
fn pages_tell_what_is_waited_for() {
    let labels = json!({"execution.landscaper.gardener.cloud/managed-by": "shop",
        "execution.landscaper.gardener.cloud/name": "web"});
    let running = json!({"phase": "Progressing", "jobID": "j", "observedGeneration": 1});
    let (landscape, _filler) = landscape(&[
        installation("shop", "Progressing", None, &json!({})),
        shown::<Execution>("shop", &json!({"status": running})),
        shown::<DeployItem>(
            "shop-1",
            &json!({"metadata": {"labels": labels}, "spec": {"type": MARKUP}, "status": {"jobID": "j"}}),
        ),
        shown::<DeployItem>(
            "shop-2",
            &json!({"metadata": {"labels": labels}, "status": {"phase": "Succeeded", "jobID": "i", "jobIDFinished": "i"}}),
        ),
    ]);
    let mut page =
        InstallationPage::new(&landscape.read(), &place("shop"), ALL, Timestamp::UNIX_EPOCH).unwrap();
    let to_read = page.to_read();
    let names: Vec<&str> = to_read.places.iter().map(|(_, place)| &*place.name).collect();
    assert_eq!(
        (names, to_read.is_all),
        (vec!["shop", "shop-1", "shop-2"], true),
        "what may wait for its turn, too"
    );
    let object = |kind: &str, name: &str, rest: &Value| {
        let mut object = json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": "team", "labels": labels}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object
    };
    let mut members = Members::default();
    let whole = object("Installation", "shop", &json!({"spec": {"blueprint": {}}, "status": running}));
    members.insert_installation(serde_json::from_value(whole).unwrap());
    members.insert_execution(
        serde_json::from_value(object("Execution", "shop", &json!({"spec": {}, "status": running}))).unwrap(),
    );
    let status =
        json!({"jobID": "j", "observedGeneration": 1, "jobIDGenerationTime": "1970-01-01T00:00:00Z"});
    let item = object("DeployItem", "shop-1", &json!({"spec": {"type": MARKUP}, "status": status}));
    members.insert_item(serde_json::from_value(item).unwrap());
    let clock = Clock { now: Timestamp::UNIX_EPOCH, pickup_timeout: None };
    page.add_waits(&members.tree("shop", &clock).unwrap());
    let shown = html(&page);
    for sentence in [
        "waits for item web: a deployer for items of the type &lt;script&gt;",
        "pick it up, since 0s (looked at again within 5m)",
    ] {
        assert!(shown.contains(sentence), "{sentence:?} in {shown}");
    }
    assert_harmless(&shown);
    let twin: Value = serde_json::from_str(&frame::json(&page, &[])).unwrap();
    let wait = &twin["content"]["nodes"][0]["nodes"][0]["waitsFor"];
    assert_eq!(
        (&wait["lookedAtWithinSeconds"], &wait["since"]),
        (&json!(300), &json!("1970-01-01T00:00:00Z")),
        "{twin}"
    );
}

/// A page shows `MOST_NODES` objects, and a note only if there are more.
#[test]
fn large_trees_are_cut() {
    let labels = json!({"execution.landscaper.gardener.cloud/managed-by": "shop"});
    for (items, note) in [(MOST_NODES - 1, false), (MOST_NODES, true)] {
        let mut feeds: Vec<_> = (0..items)
            .map(|item| {
                shown::<DeployItem>(&format!("shop-{item}"), &json!({"metadata": {"labels": labels}}))
            })
            .collect();
        feeds.push(installation("shop", "Progressing", None, &json!({})));
        feeds.push(shown::<Execution>("shop", &json!({})));
        let (landscape, _filler) = landscape(&feeds);
        let page = InstallationPage::new(&landscape.read(), &place("shop"), ALL, Timestamp::UNIX_EPOCH);
        let page = serde_json::to_value(page.unwrap()).unwrap();
        let shown = page["nodes"][0]["nodes"].as_array().unwrap().len() + 1;
        let notes = page["notes"].as_array().unwrap();
        assert_eq!((shown, notes.len() == 1), (MOST_NODES, note), "{items}: {notes:?}");
    }
}

/// Objects that the visitor may not see are missing from the lists and from the counts.
#[test]
fn lists_show_what_may_be_seen() {
    let (landscape, _filler) = landscape(&[installation("secret-shop", "Failed", None, &json!({}))]);
    let content = landscape.read();
    let now = Timestamp::UNIX_EPOCH;
    let nowhere = Visible::In(["elsewhere".into()].into());
    let list = installations(&content, &nowhere, "");
    let pages = [
        frame::json(&list, &[]),
        frame::json(&GlancePage::new(&content, &nowhere, &nowhere, now), &[]),
        frame::json(&EventsPage::new(&content, |_| false, ListQuery::default()), &[]),
        html(&list),
    ];
    for page in &pages {
        assert!(!page.contains("secret-shop"), "{page}");
    }
    assert!(pages[0].contains("\"total\":0") && pages[1].contains("\"failed\":0"), "{pages:?}");
}

/// The list is filtered, sorted and divided into pages.
#[test]
fn lists_are_filtered_sorted_and_paged() {
    let mut feeds: Vec<_> = (0..120)
        .map(|number| installation(&format!("i-{number:03}"), "Succeeded", None, &json!({})))
        .collect();
    feeds.push(installation("broken", "Failed", None, &json!({})));
    feeds.push(installation("nested", "Failed", Some("broken"), &json!({})));
    let (landscape, _filler) = landscape(&feeds);
    let content = landscape.read();
    let page = |query: &str| {
        let json = serde_json::to_value(installations(&content, &Visible::Everywhere, query)).unwrap();
        let rows = json["installations"].as_array().unwrap();
        let names: Vec<String> = rows.iter().map(|row| row["place"].as_str().unwrap().to_owned()).collect();
        (json["total"].as_u64().unwrap(), names)
    };
    let (total, names) = page("");
    assert_eq!(
        (total, names.len(), names[0].as_str(), names[1].as_str()),
        (121, 50, "team/broken", "team/i-000")
    );
    assert_eq!(page("page=3").1.len(), 21);
    assert_eq!(page("page=99").1.len(), 21, "behind the last page stands the last one");
    assert_eq!(page("rows=2&page=2").1, ["team/i-001", "team/i-002"]);
    assert_eq!(page("rows=100000").1.len(), 121);
    assert_eq!(page("q=i-11&rows=1"), (10, vec!["team/i-110".to_owned()]));
    assert_eq!(page("state=failed"), (1, vec!["team/broken".to_owned()]));
    assert_eq!(page("state=failed&nested=yes").0, 2);
    assert_eq!(page("namespace=other").0, 0);
    assert_eq!(page("sort=state&rows=1").1, ["team/broken"]);
    assert_eq!(page("page=x&rows=-1&sort=none").0, 121, "what means nothing counts as absent");
}

/// A parent that fails because of a child does not hide the child's row. A waiting Installation is
/// listed with those that it waits for.
#[test]
fn the_overview_tells_what_fails_and_what_waits() {
    let (landscape, _filler) = landscape(&[
        installation("parent", "Failed", None, &json!({})),
        installation("child", "Failed", Some("parent"), &json!({})),
        installation("db", "Progressing", None, &flows(&[], &["url"])),
        installation("web", "Init", None, &flows(&["url"], &[])),
    ]);
    let content = landscape.read();
    let page = GlancePage::new(&content, &Visible::Everywhere, &Visible::Everywhere, Timestamp::UNIX_EPOCH);
    let page = serde_json::to_value(&page).unwrap();
    assert_eq!(page["failing"].as_array().unwrap().len(), 1);
    assert_eq!(page["failing"][0]["place"], "team/child");
    assert_eq!(
        (&page["waiting"][0]["place"], &page["waiting"][0]["waitsFor"]),
        (&json!("team/web"), &json!(["team/db"]))
    );
    assert_eq!(page["installations"], json!({"failed": 2, "running": 2, "new": 0, "succeeded": 0}));
    assert_eq!(page["namespaces"][0]["failed"], 2);
}

/// Limits the size in bytes of the first pages of a cluster with 20,000 Installations, compressed
/// as for a browser.
#[test]
fn first_pages_of_a_large_cluster_are_small() {
    let feeds: Vec<_> = (0..20_000_u64)
        .map(|number| {
            // Names must differ: gzip would shrink similar ones too well.
            let odd = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let component = format!("example.org/team-{:x}/component-{:x}", odd >> 52, odd >> 44);
            let spec = json!({"componentDescriptor": {"ref": {"componentName": component, "version": format!("v1.{}.{}", odd >> 58, odd & 63)}}});
            let phase = ["Failed", "Succeeded", "Progressing"][(odd >> 62) as usize % 3];
            installation(&format!("installation-{odd:016x}-of-a-large-cluster"), phase, None, &spec)
        })
        .collect();
    let (landscape, _filler) = landscape(&feeds);
    let content = landscape.read();
    let now = Timestamp::UNIX_EPOCH;
    let size = |page: String| body(answer::finished(answer::html(StatusCode::OK, page), true, true)).len();
    let frame = Frame { user: Some("somebody"), path: "/installations", ..Frame::default() };
    for query in ["", "sort=state", "sort=elapsed&rows=200"] {
        let page = installations(&content, &Visible::Everywhere, query);
        let size = size(frame::html(&page, &frame, now));
        assert!(size < 50 << 10, "{query}: {size} bytes");
    }
    let glance = GlancePage::new(&content, &Visible::Everywhere, &Visible::Everywhere, now);
    let size = size(frame::html(&glance, &frame, now));
    assert!(size < 50 << 10, "{size} bytes");
}

#[derive(Serialize)]
struct Long;

impl Page for Long {
    fn title(&self) -> String {
        "Long".to_owned()
    }

    fn content(&self, _: Timestamp) -> Markup {
        html! { p { (("x".repeat(100_000))) } }
    }
}

#[test]
fn answers_carry_what_keeps_strangers_out() {
    let page = frame::html(&Long, &Frame::default(), Timestamp::UNIX_EPOCH);
    let small = answer::finished(answer::html(StatusCode::OK, page.clone()), true, true);
    for (name, value) in [
        ("content-encoding", "gzip"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
        ("strict-transport-security", "max-age=31536000"),
        ("content-type", "text/html; charset=utf-8"),
    ] {
        assert_eq!(small.headers()[name], value);
    }
    let policy = small.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.starts_with("default-src 'none';") && !policy.contains("unsafe"), "{policy}");
    let size = body(small).len();
    assert!(size < 2_000, "{size}");
    let secret = answer::finished(answer::with_secret(answer::html(StatusCode::OK, page)), true, false);
    assert!(!secret.headers().contains_key("content-encoding"), "its length would tell of the secret");
    assert!(!secret.headers().contains_key("strict-transport-security"));
}
