//! Console on a running system: visible objects, allowed operations, and its pages while a server
//! is away.

pub(crate) mod browser;
mod comparison;
mod journal;
mod planning;
mod waiting;

use anyhow::{Context, Result, ensure};
use groundwork_api::{DeployItem, Installation, PackageRevision, PackageVariantSet};
use groundwork_testkit::{Program, git};
use groundwork_tests::{System, SystemOptions, get, wait_for};
use k8s_openapi::api::core::v1::ServiceAccount;
use serde_json::{Value, json};

use crate::case::{Case, job};
use crate::echo_server::{self, options};
use crate::grpc::account;
use crate::packages;
use crate::support::{PATIENCE, blueprint, requests};
use browser::Browser;

const TOKEN: &str = "groundwork-token";

/// Environment variable that enables the operations of the console.
pub(crate) fn with_operations() -> (String, String) {
    ("GROUNDWORK_ALLOW_OPERATIONS".to_owned(), "true".to_owned())
}

/// Returns the token of an account with these rights, each a pair of verbs and a resource.
pub(crate) async fn account_with(case: &Case<'_>, name: &str, rights: &[(&str, &str)]) -> Result<String> {
    case.create::<ServiceAccount>(name, &json!({})).await?;
    let (system, namespace) = (case.system, case.namespace.as_str());
    for (number, (verbs, resource)) in rights.iter().enumerate() {
        let role = format!("{name}-{number}");
        let (verbs, resource) = (format!("--verb={verbs}"), format!("--resource={resource}"));
        system.kubectl(&["create", "role", "-n", namespace, &role, &verbs, &resource]).await?;
        let (of, to) = (format!("--role={role}"), format!("--serviceaccount={namespace}:{name}"));
        system.kubectl(&["create", "rolebinding", "-n", namespace, &role, &of, &to]).await?;
    }
    Ok(system.plane.service_account_token(namespace, name).await?)
}

const INSTALLATIONS: &str = "installations.landscaper.gardener.cloud";
const TREE: &str = "installations.landscaper.gardener.cloud,executions.landscaper.gardener.cloud,deployitems.landscaper.gardener.cloud";

/// Returns the value of a hidden field in the only form of a page.
fn field<'a>(page: &'a str, name: &str) -> Result<&'a str> {
    let (_, rest) = page.split_once(&format!("name=\"{name}\" value=\"")).context("the field is there")?;
    Ok(rest.split('"').next().unwrap_or_default())
}

/// Waits until a page contains a text, since the console receives changes through the stream.
pub(crate) async fn says(browser: &Browser, path: &str, text: &str) -> Result<String> {
    wait_for(&format!("{path} says {text:?}"), PATIENCE, async || {
        let answer = browser.get(path).await.map_err(|error| format!("{error:#}"))?;
        if answer.body.contains(text) {
            Ok(answer.body)
        } else {
            Err(format!("{} {}", answer.status, answer.body))
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_shows_and_does_what_its_visitor_may() -> Result<()> {
    let options = SystemOptions { variables: vec![with_operations()], ..options() };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    system.run("console").await?;
    system.until_ready("console").await?;
    echo_server::apply(&system).await?;
    let broken = Case::new(&system, "broken").await?;
    let bad = [("good", json!({})), ("bad", json!({"phase": 5}))];
    broken.install("shop", &blueprint(&bad)).await?;
    let result = async {
        signing_in(&system, &broken).await?;
        let token = crate::grpc::account_of_admin(&system).await?;
        let mut admin = Browser::signed_in(system.grpc_port("console"), &token).await?;
        pages_show_what_is_there(&admin, &broken).await?;
        journal::tells_why(&system, &broken).await?;
        waiting::tells_what_is_waited_for(&system, &token, &admin).await?;
        rights_decide(&system, &broken).await?;
        planning::tells_what_a_change_would_do(&system, &broken, &mut admin).await?;
        operations(&system, &broken).await?;
        changes_are_told(&system, &broken).await?;
        nothing_is_listed(&system)
    };
    result.await.map_err(|error| system.explained(error))
}

async fn signing_in(system: &System, case: &Case<'_>) -> Result<()> {
    let port = system.grpc_port("console");
    let stranger = Browser::new(port);
    let answer = stranger.get("/installations?q=a").await?;
    assert_eq!(
        (answer.status, answer.headers["location"].as_str()),
        (303, "/sign-in?to=%2Finstallations%3Fq%3Da")
    );
    assert_eq!(stranger.get("/installations.json").await?.status, 401);
    assert_eq!(stranger.get("/live?topic=overview").await?.status, 401);
    let page = stranger.page("/sign-in?to=//evil.example/").await?;
    assert_eq!(field(&page, "to")?, "/", "nobody is led elsewhere");

    // The browser sends no cookie with a link from another site. The console answers with a page
    // that requests itself again.
    let linked = stranger.clone().with("sec-fetch-site", "cross-site").with("sec-fetch-mode", "navigate");
    let answer = linked.get("/installations").await?;
    ensure!(answer.status == 200 && answer.body.contains("http-equiv=\"refresh\""), "{answer:?}");

    let mut visitor = Browser::new(port);
    let refused = visitor.post("/sign-in", &[("token", "invented<script>"), ("to", "/sets")]).await?;
    assert_eq!(refused.status, 401);
    ensure!(
        refused.body.contains("does not accept this token") && !refused.body.contains("invented"),
        "{refused:?}"
    );
    let long = "x".repeat(3_000);
    let refused = visitor.post("/sign-in", &[("token", &long)]).await?;
    ensure!(refused.status == 401 && refused.body.contains("longer than"), "{refused:?}");
    let token = account(case, "visitor", &[]).await?;
    let mut elsewhere = Browser::new(port).with("origin", "http://evil.example");
    assert_eq!(elsewhere.post("/sign-in", &[("token", &token)]).await?.status, 403);

    let answer = visitor.post("/sign-in", &[("token", &token), ("to", "/sets")]).await?;
    assert_eq!((answer.status, answer.headers["location"].as_str()), (303, "/sets"));
    let cookie = &answer.headers["set-cookie"];
    ensure!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"), "{cookie}");
    visitor.page("/sets").await?;
    let answer = visitor.post("/sign-out", &[]).await?;
    assert_eq!((answer.status, visitor.cookie(TOKEN)), (303, Some("")));
    assert_eq!(visitor.get("/sets").await?.status, 303);
    // Programs still send the token in a header.
    let program = Browser::new(port).with("authorization", &format!("Bearer {token}"));
    program.json("/index.json").await?;
    assert_eq!(program.get("/nothing").await?.status, 404);
    assert_eq!(program.get("/installations/team/UPPER").await?.status, 404);
    let mut program = program;
    assert_eq!(program.post("/installations", &[]).await?.status, 404);
    Ok(())
}

/// Every page and its JSON twin show the existing objects.
async fn pages_show_what_is_there(admin: &Browser, broken: &Case<'_>) -> Result<()> {
    says(admin, "/", "/installations/broken/shop").await?;
    let glance = admin.json("/index.json").await?;
    assert_eq!(glance["installations"]["failed"], 1, "{glance}");
    assert_eq!(glance["failing"][0]["place"], "broken/shop");

    let list = admin.get("/installations?sort=state").await?;
    ensure!(list.size < 50 << 10, "{} bytes", list.size);
    let first = list.body.find("broken/shop").context("it is listed")?;
    ensure!(
        list.body.find("my-namespace/server").is_some_and(|other| other > first),
        "what fails stands first"
    );
    let found = admin.json("/installations.json?namespace=my-namespace").await?;
    assert_eq!((&found["total"], &found["installations"][0]["state"]), (&json!(1), &json!("succeeded")));

    let page = admin.page("/installations/broken/shop").await?;
    let item: DeployItem = broken.item("shop", "bad").await?;
    let error = item.status.context("a status")?.last_error.context("an error")?;
    ensure!(page.contains(&error.message), "{page} without {}", error.message);
    let tree = admin.json("/installations/broken/shop.json").await?;
    let nodes = &tree["nodes"][0]["nodes"];
    assert_eq!((&nodes[0]["template"], &nodes[0]["state"]), (&json!("bad"), &json!("failed")), "{tree}");
    assert_eq!(nodes[0]["error"]["message"], json!(error.message));
    assert_eq!((&nodes[1]["template"], &nodes[1]["phase"]), (&json!("good"), &json!("Succeeded")));
    ensure!(nodes[0]["began"].is_string() && nodes[0]["ended"].is_string(), "{nodes}");

    let server = admin.json("/installations/my-namespace/server.json").await?;
    assert_eq!(server["component"]["written"], "github.com/gardener/landscaper/echo-server v0.2.0");
    assert_eq!(server["component"]["effective"], "my-own-echo-server v0.2.0");
    let conditions = server["conditions"].to_string();
    ensure!(
        conditions.contains("github.com/gardener/landscaper/echo-server -> my-own-echo-server"),
        "{conditions}"
    );

    let components = admin.page("/components").await?;
    ensure!(components.contains("github.com/gardener/landscaper/echo-server"), "{components}");
    let closure = admin.json("/components/my-namespace/server.json").await?;
    let rules: Vec<&Value> =
        closure["rules"].as_array().into_iter().flatten().map(|rule| &rule["outcome"]).collect();
    assert_eq!(rules, ["applied", "ignored"], "{closure}");
    ensure!(
        admin.page("/components/my-namespace/server").await?.contains("rule by rule"),
        "the closure is a page, too"
    );

    let events = admin.json("/events.json?kind=installations&namespace=broken").await?;
    ensure!(events["total"].as_u64() > Some(0) && events["events"][0]["name"] == "shop", "{events}");
    ensure!(admin.page("/events").await?.contains("/installations/broken/shop"), "events lead to pages");
    admin.page("/sets").await?;
    for file in ["stylesheet\" href=\"", "script src=\""] {
        let (_, rest) = page.split_once(file).context(file)?;
        let path = rest.split('"').next().unwrap_or_default();
        ensure!(admin.get(path).await?.headers["cache-control"].contains("immutable"), "{path}");
    }
    Ok(())
}

/// Objects that a user may not get appear on no page, in no count and in no JSON twin.
async fn rights_decide(system: &System, broken: &Case<'_>) -> Result<()> {
    let port = system.grpc_port("console");
    let stranger = Browser::signed_in(port, &account(broken, "stranger", &[]).await?).await?;
    for path in [
        "/",
        "/index.json",
        "/installations",
        "/installations.json",
        "/components",
        "/events",
        "/events.json",
    ] {
        let page = stranger.page(path).await?;
        ensure!(!page.contains("shop") && !page.contains("echo-server"), "{path}: {page}");
    }
    for path in
        ["/installations/broken/shop", "/installations/broken/shop.json", "/components/my-namespace/server"]
    {
        assert_eq!(stranger.get(path).await?.status, 403, "{path}");
    }
    // The answer for a missing object is the same as for a forbidden one, so it does not reveal
    // existence.
    assert_eq!(stranger.get("/installations/broken/missing").await?.status, 403);
    assert_eq!(stranger.get("/live?topic=installations/broken/shop").await?.status, 403);

    let reader = Browser::signed_in(port, &account(broken, "reader", &[INSTALLATIONS]).await?).await?;
    let page = reader.page("/installations").await?;
    ensure!(page.contains("broken/shop") && !page.contains("my-namespace"), "{page}");
    let page = reader.page("/installations/broken/shop").await?;
    ensure!(page.contains("You may not get DeployItems") && !page.contains(">bad<"), "{page}");
    ensure!(!page.contains("/shop/reconcile"), "nothing is offered that one may not do");
    assert_eq!(reader.get("/installations/broken/missing").await?.status, 404);
    assert_eq!(reader.get("/installations/broken/shop/reconcile").await?.status, 403);
    assert_eq!(reader.get("/installations/my-namespace/server").await?.status, 403);
    Ok(())
}

/// Only a confirmed form from the console itself executes an operation.
async fn operations(system: &System, broken: &Case<'_>) -> Result<()> {
    let port = system.grpc_port("console");
    let token = account_with(broken, "operator", &[("get,patch", TREE)]).await?;
    let mut operator = Browser::signed_in(port, &token).await?;
    let before: Installation = broken.get("shop").await?;
    let path = "/installations/broken/shop/reconcile";
    ensure!(operator.page("/installations/broken/shop").await?.contains(path), "it is offered");
    let confirmation = operator.get(path).await?;
    ensure!(!confirmation.headers.contains_key("content-encoding"), "its length tells nothing of the secret");
    let key = field(&confirmation.body, "key")?.to_owned();

    let other = account_with(broken, "colleague", &[("get,patch", TREE)]).await?;
    let mut other = Browser::signed_in(port, &other).await?;
    assert_eq!(other.post(path, &[("key", &key)]).await?.status, 403, "a form of somebody else");
    assert_eq!(operator.post(path, &[("key", "")]).await?.status, 403);
    assert_eq!(operator.post(path, &[("key", &"0".repeat(64))]).await?.status, 403);
    let mut elsewhere = operator.clone().with("sec-fetch-site", "cross-site");
    assert_eq!(elsewhere.post(path, &[("key", &key)]).await?.status, 403, "a form on another site");
    let interrupt = "/installations/broken/shop/interrupt";
    assert_eq!(operator.post(interrupt, &[("key", &key)]).await?.status, 403, "a form for something else");
    assert_eq!(operator.get(interrupt).await?.status, 400, "no job runs");
    assert_eq!(job(&broken.get::<Installation>("shop").await?), job(&before), "nothing has been done");

    let done = operator.post(path, &[("key", &key)]).await?;
    assert_eq!(
        (done.status, done.headers["location"].as_str()),
        (303, "/installations/broken/shop"),
        "{done:?}"
    );
    broken.finished_after("shop", &job(&before)).await?;
    let log = std::fs::read_to_string(system.plane.audit_log().context("there is an audit log")?)?;
    let patched = log.lines().filter(|line| line.contains("\"verb\":\"patch\"")).any(|line| {
        let request: Value = serde_json::from_str(line).unwrap_or_default();
        request["user"]["username"] == "system:serviceaccount:broken:operator"
            && request["objectRef"]["resource"] == "installations"
    });
    ensure!(patched, "the audit log knows whose deed it was");
    wait_for("the first page tells how soon that was taken up", PATIENCE, async || {
        let glance = operator.json("/index.json").await.map_err(|error| error.to_string())?;
        let rows = glance["reactions"].as_array().cloned().unwrap_or_default();
        let is_told = |service: &str| {
            rows.iter().any(|row| {
                row["service"] == service && row["taken"] != 0 && row["longestSeconds"].as_f64() < Some(60.0)
            })
        };
        if is_told("renderer") && is_told("deployer") { Ok(()) } else { Err(glance.to_string()) }
    })
    .await
}

/// A page gets events for the objects that it shows, and for no others.
async fn changes_are_told(system: &System, broken: &Case<'_>) -> Result<()> {
    let port = system.grpc_port("console");
    let token = account_with(broken, "watcher", &[("get", TREE)]).await?;
    let watcher = Browser::signed_in(port, &token).await?;
    let mut shop = watcher.live("installations/broken/shop").await?;
    let mut all = watcher.live("installations").await?;
    broken.install("other", &blueprint(&[("item", json!({}))])).await?;
    all.until("event: changed").await?;
    broken.ask("shop", "reconcile").await?;
    shop.until("event: changed").await?;
    // A change between the rendering of a page and its subscription must still reach the page.
    let page = watcher.page("/installations").await?;
    let (_, since) = page.split_once("data-since=\"").context("a page says how far it is")?;
    let since = since.split('"').next().unwrap_or_default();
    broken.begin_with("late", &blueprint(&[("item", json!({}))]), &json!({})).await?;
    says(&watcher, "/installations", "broken/late").await?;
    watcher.live(&format!("installations&since={since}")).await?.until("event: changed").await?;
    assert_eq!(watcher.get("/live?topic=nonsense").await?.status, 400);
    Ok(())
}

/// The console renders pages from the stream and from single objects: it sends no list request, and
/// no request is forbidden.
fn nothing_is_listed(system: &System) -> Result<()> {
    let console = "system:serviceaccount:groundwork-system:groundwork-console";
    let all = requests(system, "")?;
    let own: Vec<&Value> = all.iter().filter(|request| request["user"]["username"] == console).collect();
    ensure!(!own.is_empty(), "the console has asked something");
    for request in own {
        let verb = request["verb"].as_str().unwrap_or_default();
        ensure!(matches!(verb, "get" | "create"), "{request}");
        ensure!(request["responseStatus"]["code"] != 403, "a right is missing: {request}");
    }
    Ok(())
}

/// Pages name an unavailable server and show the known objects. Browsers that never read their
/// answers do not block others.
#[tokio::test(flavor = "multi_thread")]
async fn the_console_says_what_is_away_and_comes_back() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    system.run("console").await?;
    system.until_ready("console").await?;
    let case = Case::new(&system, "team").await?;
    case.install("shop", &blueprint(&[("item", json!({}))])).await?;
    let token = account_with(&case, "reader", &[("get", TREE)]).await?;
    let port = system.grpc_port("console");
    let reader = Browser::signed_in(port, &token).await?;
    says(&reader, "/installations", "team/shop").await?;

    // Each connection requests a page or an event stream: together more than the limit of one user,
    // all from one address.
    let elsewhere = Case::new(&system, "elsewhere").await?;
    let token = account_with(&elsewhere, "deaf", &[("get", TREE)]).await?;
    let crowd = Browser::signed_in(port, &token).await?.at_host(2);
    let mut deaf = Vec::new();
    for number in 0..400 {
        let path = if number % 2 == 0 { "/live?topic=overview" } else { "/installations" };
        deaf.push(crowd.send("GET", path, "").await?);
    }
    reader.page("/installations").await?;
    let refused = crowd.get("/live?topic=overview").await?;
    let whose = "system:serviceaccount:elsewhere:deaf";
    ensure!(refused.status == 503 && refused.body.contains(whose), "{refused:?}");
    let mut open = reader.live("overview").await?;

    system.nats.kill().await?;
    open.until("event: changed").await?;
    let page = says(&reader, "/installations", "This page may be outdated:").await?;
    ensure!(page.contains("team/shop"), "what is known is shown: {page}");
    system.nats.start_again().await?;
    wait_for("the page is well again", PATIENCE, async || {
        let page = reader.page("/installations").await.map_err(|error| error.to_string())?;
        if page.contains("may be outdated:") || !page.contains("team/shop") { Err(page) } else { Ok(()) }
    })
    .await
    .map_err(|error| system.explained(error))?;

    system.plane.kill_api_server().await?;
    let page = says(&reader, "/installations/team/shop", "does not answer").await;
    let page = match page {
        Ok(page) => page,
        Err(error) => return Err(system.explained(error)),
    };
    ensure!(page.contains("shop") || page.contains("Not now"), "{page}");
    system.plane.start_api_server_again().await?;
    says(&reader, "/installations/team/shop", "Objects of this Installation")
        .await
        .map_err(|error| system.explained(error))?;
    system.remove("renderer");
    journal::says_that_the_renderer_is_away(&reader).await?;
    drop(deaf);
    ensure!(system.service("console")?.program.is_running(), "{}", system.logs());
    Ok(())
}

/// A proxy in front of the console authenticates users. Requests from other addresses get no
/// identity, and names and groups that only the API server assigns are ignored.
#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_signs_people_in() -> Result<()> {
    let variables = [
        ("GROUNDWORK_PROXY_USER_HEADER", "x-forwarded-user"),
        ("GROUNDWORK_PROXY_GROUPS_HEADER", "x-forwarded-groups"),
        ("GROUNDWORK_TRUSTED_PROXIES", "127.0.0.1"),
        ("GROUNDWORK_CONSOLE_HTTPS", "true"),
        ("GROUNDWORK_ALLOW_OPERATIONS", "true"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
    let Some(mut system) = System::start(SystemOptions { variables, ..SystemOptions::default() }).await?
    else {
        return Ok(());
    };
    system.run("console").await?;
    system.until_ready("console").await?;
    let case = Case::new(&system, "team").await?;
    case.install("shop", &blueprint(&[("item", json!({}))])).await?;
    let role = ["create", "role", "-n", "team", "readers", "--verb=get", &format!("--resource={TREE}")];
    system.kubectl(&role).await?;
    let binding = ["create", "rolebinding", "-n", "team", "readers", "--role=readers", "--group=friends"];
    system.kubectl(&binding).await?;
    let port = system.grpc_port("console");
    let named = |user: &str| Browser::new(port).with("x-forwarded-user", user);
    let friend = named("ann@example.org").with("x-forwarded-groups", "others, friends");
    let page = says(&friend, "/installations", "team/shop").await?;
    ensure!(page.contains("ann@example.org") && !page.contains("Sign out"), "{page}");
    let answer = friend.get("/installations/team/shop").await?;
    ensure!(!answer.body.contains("/reconcile"), "there is no token to do it with");
    let cookie = answer.headers.get("set-cookie").context("there is a secret for forms")?;
    ensure!(cookie.starts_with("__Host-groundwork-form=") && cookie.ends_with("; Secure"), "{cookie}");
    assert_eq!(answer.headers["strict-transport-security"], "max-age=31536000");
    assert_eq!(friend.get("/installations/team/shop/reconcile").await?.status, 403);
    let page = named("bob@example.org").page("/installations").await?;
    ensure!(!page.contains("team/shop"), "{page}");
    let page =
        named("bob@example.org").with("x-forwarded-groups", "system:masters").page("/installations").await?;
    ensure!(!page.contains("team/shop"), "a group that only the API server gives: {page}");
    assert_eq!(named("system:admin").get("/installations").await?.status, 303);

    // A client that is not a trusted proxy sends the same headers.
    let mut command = std::process::Command::new(system.binary("groundwork-console")?);
    let [pages, admin] = [groundwork_testkit::unused_port()?, groundwork_testkit::unused_port()?];
    command
        .env("KUBECONFIG", system.plane.kubeconfig())
        .env("GROUNDWORK_NATS_URL", system.nats.url())
        .env("GROUNDWORK_ADMIN_ADDRESS", format!("127.0.0.1:{admin}"))
        .env("GROUNDWORK_CONSOLE_ADDRESS", format!("127.0.0.1:{pages}"))
        .env("GROUNDWORK_PROXY_USER_HEADER", "x-forwarded-user")
        .env("GROUNDWORK_TRUSTED_PROXIES", "10.0.0.0/8");
    let program = Program::start("console-behind-another-proxy", &command)?;
    wait_for("it is ready", PATIENCE, async || match get(admin, "/readyz").await {
        Ok((200, _)) => Ok(()),
        other => Err(format!("{other:?} {}", program.is_running())),
    })
    .await?;
    let forged = Browser::new(pages).with("x-forwarded-user", "ann@example.org");
    let answer = wait_for("it serves pages", PATIENCE, async || {
        forged.get("/installations").await.map_err(|error| format!("{error:#}"))
    })
    .await?;
    assert_eq!(answer.status, 303);
    Ok(())
}

/// A set is shown as the fleet of its variants. Users with the right propose and approve drafts in
/// their own names.
#[tokio::test(flavor = "multi_thread")]
async fn fleets_are_shown_and_drafts_are_approved() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let store = Some(folder.path().to_owned());
    let options = SystemOptions {
        package_store: store,
        variables: vec![with_operations()],
        ..SystemOptions::default()
    };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    system.run("console").await?;
    system.until_ready("console").await?;
    let result = fleet(&system).await;
    result.map_err(|error| system.explained(error))
}

async fn fleet(system: &System) -> Result<()> {
    let case = Case::new(system, "fleet").await?;
    let remotes = packages::catalog(&case).await?;
    let set = json!({"spec": {
        "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v1"},
        "targets": [{"repositories": [{"name": "edge", "packageNames": ["dns"]}]}],
    }});
    case.create::<PackageVariantSet>("all-edges", &set).await?;
    let draft = "edge.dns.packagevariant-1";
    case.until::<PackageRevision>("there is a draft", draft, |_| true).await?;

    planning::tells_what_sets_would_do(&case).await?;
    let port = system.grpc_port("console");
    let revisions = "packagerevisions.porch.kpt.dev";
    let kinds = "packagevariantsets.config.porch.kpt.dev,packagevariants.config.porch.kpt.dev,packagerevisions.porch.kpt.dev";
    let editor = [("get", kinds), ("patch,update", revisions)];
    let mut editor = Browser::signed_in(port, &account_with(&case, "editor", &editor).await?).await?;
    let page = says(&editor, "/sets/fleet/all-edges", draft).await?;
    ensure!(page.contains("the repositories edge") && page.contains("edge/dns"), "{page}");
    let set = editor.json("/sets.json").await?;
    assert_eq!((&set["total"], &set["sets"][0]["place"]), (&json!(1), &json!("fleet/all-edges")));
    says(&editor, "/sets/fleet/all-edges", ">ready<").await?;
    let fleet = editor.json("/sets/fleet/all-edges.json").await?;
    assert_eq!(fleet["counts"], json!({"ready": 1}), "{fleet}");
    assert_eq!(fleet["variants"][0]["waits"], json!([[format!("fleet/{draft}"), "Draft"]]));
    let variant = fleet["variants"][0]["place"].as_str().context("a variant")?.to_owned();
    let page = editor.page(&format!("/variants/{variant}")).await?;
    ensure!(page.contains("/sets/fleet/all-edges") && page.contains(draft), "{page}");

    let path = format!("/revisions/fleet/{draft}");
    let page = editor.page(&path).await?;
    ensure!(page.contains("/propose\"") && !page.contains("/approve\""), "{page}");
    confirmed(&mut editor, &format!("{path}/propose")).await?;
    says(&editor, &path, ">Proposed<").await?;
    // A user without the right to approve is rejected, even with a hand-made request.
    assert_eq!(editor.get(&format!("{path}/approve")).await?.status, 403);

    let approver =
        [("get", kinds), ("patch,update", revisions), ("update", "packagerevisions.porch.kpt.dev/approval")];
    let mut approver = Browser::signed_in(port, &account_with(&case, "approver", &approver).await?).await?;
    let form = approver.page(&format!("{path}/approve")).await?;
    // An approval applies to the displayed version. If the draft has changed since, the user has to
    // look again.
    case.change::<PackageRevision>(draft, &json!({"metadata": {"labels": {"changed": "meanwhile"}}})).await?;
    let (key, version) = (field(&form, "key")?, field(&form, "version")?);
    let stale = approver.post(&format!("{path}/approve"), &[("key", key), ("version", version)]).await?;
    ensure!(stale.status == 400 && stale.body.contains("Another user or service changed"), "{stale:?}");
    confirmed(&mut approver, &format!("{path}/approve")).await?;
    says(&approver, &path, ">Published<").await?;
    let log = git(&remotes.path("edge"), &["log", "--format=%an", "main"])?;
    ensure!(log.contains("system:serviceaccount:fleet:approver"), "the author is who has approved: {log}");
    comparison::of_two_variants(&case, &editor, port).await
}

/// Confirms an operation on its page.
async fn confirmed(browser: &mut Browser, path: &str) -> Result<()> {
    let form = browser.page(path).await?;
    let (key, version) = (field(&form, "key")?.to_owned(), field(&form, "version")?.to_owned());
    let done = browser.post(path, &[("key", &key), ("version", &version)]).await?;
    ensure!(done.status == 303, "{path}: {done:?}");
    Ok(())
}
