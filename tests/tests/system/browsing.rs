//! Console in a real browser: the pages and actions of users with and without rights, on wide and
//! narrow screens, in light and dark.
//!
//! `cargo xtask console-pictures` runs this test on a larger landscape and keeps the pictures.

mod window;

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use groundwork_api::{Installation, Lifecycle, PackageRevision, PackageVariant, PackageVariantSet};
use groundwork_tests::{System, SystemOptions};
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

use crate::case::{Case, job};
use crate::console::{account_with, with_operations};
use crate::cuts::landscape;
use crate::grpc::{account, account_of_admin};
use crate::support::{blueprint, outcome};
use crate::{echo_server, packages};
use window::Browser;

/// Environment variable with the folder for the pictures.
const PICTURES: &str = "GROUNDWORK_CONSOLE_PICTURES";
/// Message of a blueprint that tries to inject markup and reversed text.
const MARKUP: &str = "<img src=x onerror=\"document.title='broken into'\"> \u{202e}txet";
const KINDS: &str = "packagevariantsets.config.porch.kpt.dev,packagevariants.config.porch.kpt.dev,packagerevisions.porch.kpt.dev";
const INSTALLATIONS: &str = "installations.landscaper.gardener.cloud";
const TREE: &str = "installations.landscaper.gardener.cloud,executions.landscaper.gardener.cloud,deployitems.landscaper.gardener.cloud";
/// Name of the first variant's draft.
const DRAFT: &str = "edge.dns-000.packagevariant-1";

/// Pages that are checked in every display mode, with the names of their pictures.
const PAGES: [(&str, &str); 14] = [
    ("/", "overview"),
    ("/installations?sort=state", "installations"),
    ("/installations/shop/shop", "installation"),
    ("/installations/landscape/app-0000", "failed-installation"),
    ("/journal/shop/shop", "journal"),
    ("/components", "components"),
    ("/components/my-namespace/server", "component"),
    ("/sets", "sets"),
    ("/sets/fleet/all-edges", "set"),
    ("/revisions/fleet/edge.dns-000.packagevariant-1", "revision"),
    ("/events", "events"),
    ("/plan?namespace=shop", "plan-form"),
    ("/installations/shop/shop/reconcile", "confirmation"),
    ("/nothing", "not-found"),
];

/// Size of the landscape.
struct Size {
    installations: usize,
    variants: usize,
}

fn pictures() -> Option<PathBuf> {
    std::env::var_os(PICTURES).map(PathBuf::from)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_in_a_browser() -> Result<()> {
    let Some(browser) = Browser::start().await? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let options = SystemOptions {
        variables: vec![with_operations()],
        package_store: Some(folder.path().to_owned()),
        ..echo_server::options()
    };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    system.run("console").await?;
    system.until_ready("console").await?;
    let size = match pictures() {
        Some(_) => Size { installations: 1_000, variants: 200 },
        None => Size { installations: 60, variants: 6 },
    };
    let result = async {
        let _remotes = filled(&system, &size).await?;
        let admin = account_of_admin(&system).await?;
        everybody_can_use_every_page(&system, &browser, &admin, &size).await?;
        nothing_is_offered_without_rights(&system, &browser).await?;
        by_keyboard(&system, &browser, &admin).await?;
        somebody_plans(&system, &browser, &admin).await?;
        an_open_page_follows(&system, &browser).await?;
        somebody_interrupts(&system, &browser).await?;
        somebody_approves(&system, &browser).await
    };
    result.await.map_err(|error| system.explained(error))
}

/// Creates the landscape: many Installations of which some fail, one with nested Installations and
/// data flow, components with overwrites, and a fleet of package variants.
async fn filled(system: &System, size: &Size) -> Result<packages::Remotes> {
    echo_server::apply(system).await?;
    let shop = Case::new(system, "shop").await?;
    let api: Api<Installation> = shop.api();
    for object in landscape("shop") {
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    let many = Case::new(system, "landscape").await?;
    let good = blueprint(&[("item", json!({}))]);
    let failing = serde_json::to_string(&MARKUP)?.replace('\\', "\\\\").replace('"', "\\\"");
    let failing =
        good.replace("    deployItems:", &format!("    {{{{ fail \"{failing}\" }}}}\n    deployItems:"));
    let bad = blueprint(&[("item", json!({"phase": 5}))]);
    let spec = json!({});
    let creations = (0..size.installations).map(|number| {
        let blueprint = match number {
            0 => &failing,
            number if number % 40 == 1 => &bad,
            _ => &good,
        };
        let name = format!("app-{number:04}");
        let (many, spec) = (&many, &spec);
        async move { many.begin_with(&name, blueprint, spec).await.map(drop) }
    });
    stream::iter(creations).buffer_unordered(16).try_collect::<()>().await?;

    let fleet = Case::new(system, "fleet").await?;
    let remotes = packages::catalog(&fleet).await?;
    let names: Vec<String> = (0..size.variants).map(|number| format!("dns-{number:03}")).collect();
    let set = json!({"spec": {
        "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v1"},
        "targets": [{"repositories": [{"name": "edge", "packageNames": names}]}],
    }});
    fleet.create::<PackageVariantSet>("all-edges", &set).await?;
    fleet.until::<PackageRevision>("there is a draft", DRAFT, |_| true).await?;
    // Wait in steps, so that each wait takes only as long as a few jobs.
    for number in (0..size.installations).step_by(20).chain([size.installations - 1]) {
        many.finished(&format!("app-{number:04}")).await?;
    }
    shop.finished("sink").await?;
    Ok(remotes)
}

/// Returns the path of the page that compares the first two variants of the fleet.
async fn comparison(system: &System) -> Result<String> {
    let variants: Api<PackageVariant> = Case::existing(system, "fleet").await?.api();
    let all = variants.list(&ListParams::default().limit(2)).await?;
    let names: Vec<&str> = all.iter().filter_map(|variant| variant.metadata.name.as_deref()).collect();
    let [left, right] = names[..] else { bail!("the fleet has two variants: {names:?}") };
    Ok(format!("/sets/fleet/all-edges/compare?left={left}&right={right}"))
}

/// Every page, wide and narrow, light and dark: axe-core finds no serious violation, the browser
/// blocks no resource, and every request goes to the console.
async fn everybody_can_use_every_page(
    system: &System,
    browser: &Browser,
    admin: &str,
    size: &Size,
) -> Result<()> {
    let window = browser.signed_in("admin", system.grpc_port("console"), admin).await?;
    let failing = size.installations.div_ceil(40) + 1;
    window.until_page_shows("/", &failing.to_string()).await?;
    window.until_page_shows("/sets/fleet/all-edges", DRAFT).await?;
    let mut faults = Vec::new();
    let comparison = comparison(system).await?;
    // Test each width and each scheme once. For pictures, combine every width with every scheme.
    let ways = match pictures() {
        Some(_) => vec![(1_280, false), (1_280, true), (400, false), (400, true)],
        None => vec![(1_280, false), (400, true)],
    };
    for (path, name) in PAGES.into_iter().chain([(comparison.as_str(), "comparison")]) {
        for &(width, is_dark) in &ways {
            window.shown_as(width, is_dark).await?;
            window.go(path).await?;
            let shown = format!("{path} at {width} pixels, {}", if is_dark { "dark" } else { "light" });
            let found = window.faults().await.with_context(|| shown.clone())?;
            faults.extend(found.into_iter().map(|fault| format!("{shown}: {fault}")));
            for asked in window.requests().await? {
                ensure!(asked.starts_with('/'), "{shown}: the browser has asked {asked}");
            }
            // The browser also logs the 404 of the missing page as an error.
            let complaints = window.complaints().await?;
            ensure!(complaints.is_empty() || path == "/nothing", "{shown}: {complaints:?}");
            if let Some(folder) = pictures() {
                let scheme = if is_dark { "dark" } else { "light" };
                let screen = if width == 400 { "narrow" } else { "wide" };
                window.picture(&folder.join(format!("{name}-{screen}-{scheme}.png"))).await?;
            }
        }
    }
    ensure!(faults.is_empty(), "{}", faults.join("\n"));

    window.go("/installations/landscape/app-0000").await?;
    let shown = window.text("main").await?;
    ensure!(shown.contains("<img src=x onerror=") && shown.contains("⟨U+202E⟩"), "{shown}");
    assert_eq!(window.count("main img").await?, 0, "what people write is no markup");
    window.go("/installations/shop/shop").await?;
    ensure!(window.count("svg.flow .box").await? >= 2, "data flow is drawn");
    window.close().await
}

/// A user without write access sees no button, and a user without read access sees no object.
async fn nothing_is_offered_without_rights(system: &System, browser: &Browser) -> Result<()> {
    let case = Case::existing(system, "landscape").await?;
    let port = system.grpc_port("console");
    let token = account(&case, "reader", &[INSTALLATIONS]).await?;
    let window = browser.signed_in("reader", port, &token).await?;
    window.until_page_shows("/installations", "app-0002").await?;
    window.click("a[href='/installations/landscape/app-0002']").await?;
    window.until_shows("h1", "app-0002").await?;
    assert_eq!(window.count(".operations a").await?, 0);
    ensure!(window.text("main").await?.contains("You may not get DeployItems"), "what is left out is said");
    for path in [
        "/installations/landscape/app-0002/reconcile",
        "/installations/shop/shop",
        "/journal/landscape/app-0002",
        "/journal/shop/shop",
        "/sets/fleet/all-edges",
    ] {
        window.go(path).await?;
        let shown = window.text("main").await?;
        ensure!(window.count("form button").await? <= 1 && shown.contains("may not"), "{path}: {shown}");
    }
    window.close().await?;

    let fleet = Case::existing(system, "fleet").await?;
    let reader = account(&fleet, "fleet-reader", &[KINDS]).await?;
    let window = browser.signed_in("reader of the fleet", port, &reader).await?;
    let draft = format!("/revisions/fleet/{DRAFT}");
    window.until_page_shows(&draft, "Draft").await?;
    assert_eq!(window.count(".operations a").await?, 0);
    for operation in ["propose", "approve"] {
        window.go(&format!("{draft}/{operation}")).await?;
        let shown = window.text("main").await?;
        ensure!(shown.contains("may not"), "{operation}: {shown}");
    }
    window.close().await?;

    let stranger = browser.signed_in("stranger", port, &account(&case, "stranger", &[]).await?).await?;
    for path in ["/", "/installations", "/sets", "/components", "/events"] {
        stranger.go(path).await?;
        let shown = stranger.text("main").await?;
        ensure!(
            !shown.contains("app-") && !shown.contains("edge") && !shown.contains("shop"),
            "{path}: {shown}"
        );
    }
    stranger.close().await
}

/// Signs in and reaches the page of an Installation with the keyboard only.
async fn by_keyboard(system: &System, browser: &Browser, admin: &str) -> Result<()> {
    const TAB: &str = "\u{E004}";
    const ENTER: &str = "\u{E007}";
    let window = browser.signed_in("keyboard", system.grpc_port("console"), admin).await?;
    window.go("/installations?q=app-0003&sort=state").await?;
    let focused =
        "const element = document.activeElement; return [element.textContent, element.getAttribute('href')];";
    window.press(TAB).await?;
    assert_eq!(window.run(focused).await?, json!(["To the content", "#content"]));
    let shown = window.run("return document.activeElement.getBoundingClientRect().left >= 0;").await?;
    assert_eq!(shown, true, "whoever comes by keyboard sees where they are");
    window.press(ENTER).await?;
    let wanted = json!("/installations/landscape/app-0003");
    let mut passed = Vec::new();
    while passed.last() != Some(&wanted) {
        ensure!(passed.len() < 40, "{passed:?}");
        window.press(TAB).await?;
        let mut at: Value = window.run(focused).await?;
        passed.push(at[1].take());
    }
    let frame = "return getComputedStyle(document.activeElement).outlineStyle;";
    ensure!(window.run(frame).await? != "none", "the focus is seen");
    window.press(ENTER).await?;
    window.until_shows("h1", "app-0003").await?;
    window.close().await
}

/// A user enters objects and sees the plan, on a narrow screen as well.
async fn somebody_plans(system: &System, browser: &Browser, admin: &str) -> Result<()> {
    let window = browser.signed_in("planner", system.grpc_port("console"), admin).await?;
    let name = "app-0003";
    let case = Case::existing(system, "landscape").await?;
    let mut changed = serde_json::to_value(case.get::<Installation>(name).await?)?;
    let blueprint = blueprint(&[("other", json!({}))]);
    changed["spec"]["blueprint"] = json!({"inline": {"filesystem": {"blueprint.yaml": blueprint}}});
    let metadata = json!({"name": name, "annotations": {"landscaper.gardener.cloud/operation": "reconcile"}});
    let object = json!({
        "apiVersion": changed["apiVersion"], "kind": changed["kind"], "metadata": metadata, "spec": changed["spec"],
    });
    let object = serde_json::to_string_pretty(&object)?;
    for (width, is_dark) in [(1_280, false), (400, true)] {
        window.shown_as(width, is_dark).await?;
        window.go("/plan?namespace=landscape").await?;
        let fill = format!("document.getElementById('objects').value = {};", json!(object));
        window.run(&fill).await?;
        window.click("main form button").await?;
        window.until_shows("#live", "created item other").await?;
        window.until_shows("#live", "deleted item item").await?;
        let faults = window.faults().await?;
        ensure!(faults.is_empty(), "at {width} pixels: {}", faults.join("\n"));
        let complaints = window.complaints().await?;
        ensure!(complaints.is_empty(), "{complaints:?}");
        if let Some(folder) = pictures() {
            let scheme = if is_dark { "narrow-dark" } else { "wide-light" };
            window.picture(&folder.join(format!("plan-{scheme}.png"))).await?;
        }
    }
    window.close().await
}

/// A click and its confirmation start a job. The page of the Installation shows the progress
/// without a reload.
async fn an_open_page_follows(system: &System, browser: &Browser) -> Result<()> {
    let case = Case::existing(system, "landscape").await?;
    let token = account_with(&case, "operator", &[("get,patch", TREE)]).await?;
    let window = browser.signed_in("operator", system.grpc_port("console"), &token).await?;
    let before = job(&case.get("app-0002").await?);
    window.until_page_shows("/installations/landscape/app-0002", "Succeeded").await?;
    window.click(".operations a[href$='/reconcile']").await?;
    window.until_shows("h1", "confirm: reconcile").await?;
    window.click("main form button").await?;
    window.until_shows("h1", "landscape/app-0002").await?;
    case.finished_after("app-0002", &before).await?;

    let mark = "window.kept = true; window.changed = new Promise((resolve) =>
        new MutationObserver(() => resolve(Date.now())).observe(document.getElementById('live'), {childList: true}));";
    window.requests().await?;
    window.go("/installations/landscape/app-0002").await?;
    window.until_live().await?;
    window.run(mark).await?;
    let bad = blueprint(&[("item", json!({"phase": 5}))]);
    let change = json!({"spec": {"blueprint": {"inline": {"filesystem": {"blueprint.yaml": bad}}}}});
    let changed = SystemTime::now();
    case.change::<Installation>("app-0002", &change).await?;
    let seen = window.run("return window.changed;").await?.as_u64().context("a time")?;
    let took = u128::from(seen).saturating_sub(changed.duration_since(UNIX_EPOCH)?.as_millis());
    if pictures().is_some() {
        println!("a change was on the page after {took} ms");
    }
    window.until_shows("#live", "failed").await?;
    assert_eq!(window.run("return window.kept;").await?, true, "the page was not opened again");
    window.close().await
}

/// A user with the right interrupts a job that would never end by itself.
async fn somebody_interrupts(system: &System, browser: &Browser) -> Result<()> {
    let case = Case::existing(system, "landscape").await?;
    let token = account_with(&case, "interrupter", &[("get,patch", TREE)]).await?;
    let window = browser.signed_in("interrupter", system.grpc_port("console"), &token).await?;
    let endless = blueprint(&[("endless", json!({"phase": "Progressing"}))]);
    case.begin_with("endless", &endless, &json!({})).await?;
    window.until_page_shows("/installations/landscape/endless", "Progressing").await?;
    window.click(".operations a[href$='/interrupt']").await?;
    window.until_shows("h1", "confirm: interrupt").await?;
    window.click("main form button").await?;
    window.until_shows("#live .badge", "Failed").await?;
    assert_eq!(outcome(&case.finished("endless").await?).0, "Failed");
    window.close().await
}

/// A user with the right approves a draft.
async fn somebody_approves(system: &System, browser: &Browser) -> Result<()> {
    let case = Case::existing(system, "fleet").await?;
    let rights = [
        ("get", KINDS),
        ("patch,update", "packagerevisions.porch.kpt.dev"),
        ("update", "packagerevisions.porch.kpt.dev/approval"),
    ];
    let token = account_with(&case, "approver", &rights).await?;
    let window = browser.signed_in("approver", system.grpc_port("console"), &token).await?;
    window.until_page_shows("/sets/fleet/all-edges", DRAFT).await?;
    window.click(&format!("a[href='/revisions/fleet/{DRAFT}']")).await?;
    window.until_shows("h1", DRAFT).await?;
    for (operation, becomes) in [("propose", "Proposed"), ("approve", "Published")] {
        window.click(&format!(".operations a[href$='/{operation}']")).await?;
        window.until_shows("h1", &format!("confirm: {operation}")).await?;
        window.click("main form button").await?;
        // The confirmation page also contains the word, but not as a badge, so the selector waits
        // for the badge.
        window.until_shows("#live .badge", becomes).await?;
    }
    let is_published = |found: &PackageRevision| found.spec.lifecycle() == Some(Lifecycle::Published);
    case.until("somebody has approved it", DRAFT, is_published).await?;
    window.close().await
}
