//! Package stores for operators: repositories at the command line and in a company's network,
//! upgrades to discover, revisions that others need, pauses, approval rules.

use anyhow::{Result, ensure};
use groundwork_api::{PackageRevision, PackageVariant, PackageVariantSet, Repository};
use groundwork_testkit::{GitServer, Server, git, servers_or_skip};
use groundwork_tests::wait_for;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use serde_json::json;

use crate::case::Case;
use crate::command::run;
use crate::packages::{
    CONFIG, HOOKS, KPTFILE, Remotes, catalog, lifecycle, look, ready, system, told, until_file, variant,
};
use crate::support::PATIENCE;

const FIRST: &str = "edge.dns.packagevariant-1";
const SECOND: &str = "edge.dns.packagevariant-2";

async fn publish(case: &Case<'_>, name: &str) -> Result<()> {
    lifecycle(case, name, "Proposed").await?;
    lifecycle(case, name, "Published").await
}

/// Publishes the next version of the catalog's package, with another value.
async fn next_version(case: &Case<'_>, remotes: &Remotes, value: &str, tag: &str) -> Result<()> {
    let changed = CONFIG.replace("\"30\"", &format!("\"{value}\""));
    let tag = format!("net/coredns/{tag}");
    remotes.publish("catalog", &[("net/coredns/config.yaml", &changed)], Some(&tag))?;
    look(case, "catalog").await?;
    let name = tag.replace('/', ".");
    case.until("the version is known", &format!("catalog.{name}"), |_: &PackageRevision| true).await?;
    Ok(())
}

/// Repositories are added, read, synced and removed without writing YAML.
#[tokio::test]
async fn repositories_at_the_command_line() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "repository-command").await?;
    let remotes = catalog(&case).await?;
    let repositories = async |words: &[&str]| {
        run(system, &[&["packages", "repositories"], words, &["-n", &case.namespace]].concat()).await
    };
    remotes.create("more")?;
    let path = remotes.path("more").display().to_string();
    let (code, out, err) = repositories(&["add", "more", &path, "--deployment"]).await?;
    ensure!(code == 0 && out == "more is ready, packages: 0\n", "{code} {out}{err}");
    let (code, _, err) = repositories(&["add", "more", &path]).await?;
    ensure!(code != 0 && err.contains("already exists"), "{code} {err}");
    let missing = remotes.path("missing").display().to_string();
    let (code, _, err) = repositories(&["add", "missing", &missing]).await?;
    ensure!(code == 1 && err.contains("missing: "), "{code} {err}");

    let (code, out, err) = repositories(&["get"]).await?;
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    ensure!(code == 0 && rows[0][..4] == ["NAME", "DEPLOYMENT", "READY", "PACKAGES"], "{out}{err}");
    ensure!(rows.iter().any(|row| row[..4] == ["more", "true", "True", "0"]), "{out}");
    ensure!(rows.iter().any(|row| row[..3] == ["missing", "false", "False"]), "{out}");

    remotes.publish("more", &[("ntp/Kptfile", KPTFILE)], Some("ntp/v1"))?;
    let (code, out, err) = repositories(&["sync", "more"]).await?;
    ensure!(code == 0 && out == "more is ready, packages: 1\n", "{code} {out}{err}");

    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(&case, "dns", &[FIRST]).await?;
    let (code, out, err) = repositories(&["remove", "edge", "more"]).await?;
    ensure!(code == 1 && err.contains("edge: package variants use it: dns;"), "{code} {err}");
    ensure!(out == "more removed; git is unchanged\n", "{out}");
    case.gone::<Repository>("more").await?;
    ensure!(case.get::<Repository>("edge").await?.metadata.deletion_timestamp.is_none());
    ensure!(remotes.refs("more")? == ["main", "ntp/v1"]);
    Ok(())
}

/// A set's revisions are approved at once; packages with a newer upstream are found; a revision of
/// which others were made is not deleted by mistake.
#[tokio::test]
async fn fleets_at_the_command_line() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "fleet-command").await?;
    let remotes = catalog(&case).await?;
    let packages =
        async |words: &[&str]| run(system, &[&["packages"], words, &["-n", &case.namespace]].concat()).await;
    let targets = json!([{"repositories": [{"name": "edge", "packageNames": ["a", "b"]}]}]);
    let upstream =
        |revision: &str| json!({"repo": "catalog", "package": "net/coredns", "revision": revision});
    let spec = json!({"spec": {"upstream": upstream("v1"), "targets": targets}});
    case.create::<PackageVariantSet>("fleet", &spec).await?;
    for name in ["edge.a.packagevariant-1", "edge.b.packagevariant-1"] {
        case.until("the draft", name, |_: &PackageRevision| true).await?;
        lifecycle(&case, name, "Proposed").await?;
    }
    let (code, _, err) = packages(&["approve", "--set", "fleet"]).await?;
    ensure!(code != 0 && err.contains("--yes"), "{code} {err}");
    let (code, out, err) = packages(&["approve", "--set", "fleet", "--yes"]).await?;
    ensure!(code == 0 && out.contains("edge.a.packagevariant-1 Published"), "{out}{err}");
    ensure!(out.contains("edge.b.packagevariant-1 Published"), "{out}");

    let (code, out, err) = packages(&["upgrade", "--discover"]).await?;
    ensure!(code == 0 && out.starts_with("every package is made of the newest"), "{out}{err}");
    next_version(&case, &remotes, "60", "v2").await?;
    let (code, out, err) = packages(&["upgrade", "--discover"]).await?;
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    ensure!(code == 0 && rows.len() == 3, "{out}{err}");
    let a = ["edge.a.packagevariant-1", "net/coredns/v1", "catalog.net.coredns.v2", "fleet-edge-a"];
    ensure!(rows[1][..3] == a[..3] && rows[1].len() == 4, "{out}");

    let (code, out, err) = packages(&["list", "--upstream", "catalog/net/coredns"]).await?;
    let drafts = out.lines().filter(|line| line.contains(".packagevariant-1 ")).count();
    ensure!(code == 0 && drafts == 2 && out.contains("edge.b.main"), "{out}{err}");
    let (code, _, err) = packages(&["list", "--upstream", "catalog/nothing"]).await?;
    ensure!(code != 0 && err.contains("no revision of a package nothing"), "{err}");
    let (code, out, err) = packages(&["dependents", "catalog.net.coredns.v1"]).await?;
    ensure!(code == 0 && out.lines().count() == 3, "{out}{err}");
    let (code, _, err) = packages(&["propose-deletion", "catalog.net.coredns.v1"]).await?;
    ensure!(code == 1 && err.contains("edge.a.packagevariant-1, edge.b.packagevariant-1"), "{err}");
    let (code, out, err) = packages(&["propose-deletion", "catalog.net.coredns.v2"]).await?;
    ensure!(code == 0, "{out}{err}");
    let (code, out, err) = packages(&["propose-deletion", "catalog.net.coredns.v1", "--force"]).await?;
    ensure!(code == 0 && out.contains("DeletionProposed"), "{out}{err}");
    Ok(())
}

/// A paused set keeps its variants at their upstream until the pause ends, at once.
#[tokio::test]
async fn a_paused_set() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "paused-sets").await?;
    let remotes = catalog(&case).await?;
    let targets = json!([{"repositories": [{"name": "edge", "packageNames": ["dns"]}]}]);
    let upstream =
        |revision: &str| json!({"repo": "catalog", "package": "net/coredns", "revision": revision});
    let spec = json!({"spec": {"upstream": upstream("v1"), "targets": targets}});
    case.create::<PackageVariantSet>("fleet", &spec).await?;
    case.until("the draft", FIRST, |_: &PackageRevision| true).await?;
    let child =
        case.list::<PackageVariant>("").await?.pop().map(|child| child.name_any()).unwrap_or_default();
    ready(&case, &child, &[FIRST]).await?;
    publish(&case, FIRST).await?;
    let annotate =
        |value: Option<&str>| json!({"metadata": {"annotations": {"groundwork/pause-upstream": value}}});
    case.change::<PackageVariantSet>("fleet", &annotate(Some("true"))).await?;
    let is_paused = |variant: &PackageVariant| {
        let (status, _, message) = told(variant, "Ready").unwrap_or_default();
        status == "True" && message.contains("groundwork/pause-upstream of its set keeps the upstream at")
    };
    case.until("the pause reaches the variant", &child, is_paused).await?;
    next_version(&case, &remotes, "60", "v2").await?;
    case.change::<PackageVariantSet>("fleet", &json!({"spec": {"upstream": upstream("v2")}})).await?;
    let follows = |variant: &PackageVariant| {
        let revision = variant.spec.upstream.as_ref().and_then(|upstream| upstream.revision.clone());
        revision.is_some_and(|revision| revision.to_string() == "v2")
            && is_paused(variant)
            && variant.status.as_ref().and_then(|status| status.observed_generation)
                == variant.metadata.generation
    };
    case.until("the variant has the new spec", &child, follows).await?;
    ensure!(!remotes.refs("edge")?.contains(&"drafts/dns/packagevariant-2".to_owned()));
    case.change::<PackageVariantSet>("fleet", &annotate(None)).await?;
    let place = ("edge", "drafts/dns/packagevariant-2", "dns/config.yaml");
    until_file(&remotes, place, |text| text.contains("\"60\"")).await?;
    ready(&case, &child, &[SECOND]).await?;
    Ok(())
}

/// A rule in CEL decides about the change of a draft; the status says that it does not approve.
#[tokio::test]
async fn drafts_are_approved_by_rule() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "approval-rules").await?;
    let remotes = catalog(&case).await?;
    let rule = "change.isFirst || change.objects.all(o, o.kind == 'ConfigMap' && o.fields.all(f, f == 'data.cache'))";
    let spec = |revision: &str| {
        json!({
            "upstream": {"repo": "catalog", "package": "net/coredns", "revision": revision},
            "annotations": {"groundwork/approval-rule": rule},
        })
    };
    case.create::<PackageVariant>("dns", &variant(&spec("v1"))).await?;
    let is_published = |revision: &PackageRevision| {
        let status = revision.status.clone().unwrap_or_default();
        revision.spec.lifecycle.as_deref() == Some("Published")
            && status.published_by.as_deref() == Some("approval policy rule")
    };
    case.until("the first revision is published", FIRST, is_published).await?;
    next_version(&case, &remotes, "60", "v2").await?;
    case.change::<PackageVariant>("dns", &json!({"spec": spec("v2")})).await?;
    case.until("a small change is published", SECOND, is_published).await?;

    let more = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: more\n";
    remotes.publish("catalog", &[("net/coredns/more.yaml", more)], Some("net/coredns/v3"))?;
    look(&case, "catalog").await?;
    case.change::<PackageVariant>("dns", &json!({"spec": spec("v3")})).await?;
    let third = "edge.dns.packagevariant-3";
    let message = |revision: &PackageRevision| {
        revision.status.as_ref().and_then(|status| status.message.clone()).unwrap_or_default()
    };
    let waits = |revision: &PackageRevision| message(revision).contains("the approval rule does not approve");
    case.until("the rule does not approve", third, waits).await?;
    let annotate = |rule: &str| json!({"metadata": {"annotations": {"groundwork/approval-rule": rule}}});
    case.change::<PackageRevision>(third, &annotate("change.files")).await?;
    let is_refused = |revision: &PackageRevision| message(revision).contains("the result must be a boolean");
    case.until("the rule is refused", third, is_refused).await?;
    case.change::<PackageRevision>(third, &annotate("now > timestamp('2026-01-01T00:00:00Z')")).await?;
    case.until("the rule approves", third, is_published).await?;
    Ok(())
}

/// A draft whose branch was deleted by hand comes back under another number. The status explains
/// two tags with the same content.
#[tokio::test]
async fn numbers_and_tags_are_explained() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "package-numbers").await?;
    let remotes = catalog(&case).await?;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(&case, "dns", &[FIRST]).await?;
    git(&remotes.path("edge"), &["update-ref", "-d", "refs/heads/drafts/dns/packagevariant-1"])?;
    look(&case, "edge").await?;
    ready(&case, "dns", &[SECOND]).await?;
    publish(&case, SECOND).await?;

    remotes.tag("catalog", "net/coredns/v2")?;
    look(&case, "catalog").await?;
    case.until("the version is known", "catalog.net.coredns.v2", |_: &PackageRevision| true).await?;
    let upstream = json!({"repo": "catalog", "package": "net/coredns", "revision": "v2"});
    case.change::<PackageVariant>("dns", &json!({"spec": {"upstream": upstream}})).await?;
    // The same commit under another number is another revision: it gets a draft, as in Porch.
    ready(&case, "dns", &["edge.dns.packagevariant-3"]).await?;
    // Tags without a number are compared by content.
    remotes.tag("catalog", "net/coredns/v3.0.0")?;
    remotes.publish("catalog", &[("README.md", "other")], Some("net/coredns/v3.0.1"))?;
    look(&case, "catalog").await?;
    let spec = |tag: &str| {
        let upstream = json!({"repo": "catalog", "package": "net/coredns", "workspaceName": tag});
        json!({"upstream": upstream, "downstream": {"repo": "edge", "package": "tagged"}})
    };
    case.until("the tag is known", "catalog.net.coredns.v3.0.1", |_: &PackageRevision| true).await?;
    case.create::<PackageVariant>("tagged", &variant(&spec("v3.0.0"))).await?;
    ready(&case, "tagged", &["edge.tagged.packagevariant-1"]).await?;
    case.change::<PackageVariant>("tagged", &json!({"spec": spec("v3.0.1")})).await?;
    let explains = |variant: &PackageVariant| {
        let (status, _, message) = told(variant, "Ready").unwrap_or_default();
        let words = "\"net/coredns/v3.0.1\" has the same content as \"net/coredns/v3.0.0\"";
        status == "True" && message.contains(words)
    };
    case.until("the status explains the tag", "tagged", explains).await?;
    Ok(())
}

/// A remote with a certificate of the company's own authority, behind the company's proxy.
#[tokio::test]
async fn a_remote_in_a_company() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    if !servers_or_skip(&[Server::GitServer]) {
        return Ok(());
    }
    let case = Case::new(system, "company-remotes").await?;
    let server = GitServer::start().await?;
    let remotes = Remotes::new()?;
    remotes.create("catalog")?;
    remotes.publish("catalog", &[("net/coredns/Kptfile", KPTFILE)], Some("net/coredns/v1"))?;
    std::os::unix::fs::symlink(remotes.path("catalog"), server.root().join("catalog"))?;
    let (username, password) = server.user();
    case.create::<Secret>("web", &json!({"stringData": {"username": username, "password": password}}))
        .await?;
    let repository = json!({"repo": server.https("catalog"), "secretRef": {"name": "web"}});
    case.create::<Repository>("catalog", &json!({"spec": {"type": "git", "git": repository}})).await?;
    let says = |words: &'static str| {
        move |repository: &Repository| {
            let conditions = repository.status.clone().unwrap_or_default().conditions;
            conditions.iter().any(|found| found.message.contains(words))
        }
    };
    case.until("the certificate is refused", "catalog", says("a certificate that is not trusted here"))
        .await?;
    let proxy = json!({"stringData": {"ca.crt": server.authority()?, "proxy": server.proxy()}});
    case.change::<Secret>("web", &proxy).await?;
    look(&case, "catalog").await?;
    case.until("the proxy refuses", "catalog", says("the proxy requires a user name and password")).await?;
    let user = json!({"stringData": {"proxyUsername": username, "proxyPassword": password}});
    case.change::<Secret>("web", &user).await?;
    look(&case, "catalog").await?;
    case.until("the package is known", "catalog.net.coredns.v1", |_: &PackageRevision| true).await?;
    wait_for("the proxy was used", PATIENCE, async || match server.proxied() {
        Ok(lines) if lines.iter().any(|line| line.starts_with("CONNECT 127.0.0.1:")) => Ok(()),
        Ok(lines) => Err(format!("{lines:?}")),
        Err(error) => Err(error.to_string()),
    })
    .await?;

    // Porch reads the authorities of a namespace from a Secret with this name.
    case.change::<Secret>(
        "web",
        &json!({"data": {"ca.crt": null, "proxy": null, "proxyUsername": null, "proxyPassword": null}}),
    )
    .await?;
    let bundle = format!("{}-ca-bundle", case.namespace);
    case.create::<Secret>(&bundle, &json!({"stringData": {"ca.crt": server.authority()?}})).await?;
    look(&case, "catalog").await?;
    let is_ready = |repository: &Repository| {
        let conditions = repository.status.clone().unwrap_or_default().conditions;
        conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True")
    };
    case.until("the bundle is trusted", "catalog", is_ready).await?;
    Ok(())
}

/// A signed report of a push has the repository read at once. Its schedule would do that in a year.
#[tokio::test]
async fn a_push_is_reported() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "push-reports").await?;
    let remotes = Remotes::new()?;
    remotes.create("catalog")?;
    let spec = json!({"type": "git", "sync": {"schedule": "0 0 1 1 *"},
        "git": {"repo": remotes.path("catalog"), "secretRef": {"name": "hook"}}});
    case.create::<Secret>("hook", &json!({"stringData": {"webhookSecret": "It's a Secret to Everybody"}}))
        .await?;
    case.create::<Repository>("catalog", &json!({"spec": spec})).await?;
    let is_ready = |repository: &Repository| {
        let conditions = repository.status.clone().unwrap_or_default().conditions;
        conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True")
    };
    case.until("the repository is read", "catalog", is_ready).await?;
    remotes.publish("catalog", &[("net/coredns/Kptfile", KPTFILE)], Some("net/coredns/v1"))?;

    let port = HOOKS.get().copied().unwrap_or_default();
    let report = |repository: &str, signature: &str| {
        let url = format!("http://127.0.0.1:{port}/hooks/{}/{repository}", case.namespace);
        let signature = format!("sha256={signature}");
        tokio::task::spawn_blocking(move || {
            let request = ureq::post(&url).config().http_status_as_error(false).build();
            let answer = request.header("X-Hub-Signature-256", &signature).send("Hello, World!");
            answer.map(|answer| answer.status().as_u16())
        })
    };
    let signature = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    ensure!(report("catalog", &signature.replace('7', "8")).await?? == 401);
    ensure!(report("other", signature).await?? == 401);
    ensure!(report("catalog", signature).await?? == 202);
    case.until("the package is known", "catalog.net.coredns.v1", |_: &PackageRevision| true).await?;
    Ok(())
}
