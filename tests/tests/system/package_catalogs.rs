//! Packages as public catalogs have them, on real git repositories: heads of branches as upstreams,
//! files that are not text, empty repositories, moved objects, approval policies.

use anyhow::{Context, Result, ensure};
use groundwork_api::{PackageRevision, PackageVariant, Repository};
use groundwork_testkit::git;
use groundwork_tests::wait_for;
use serde_json::json;

use crate::case::Case;
use crate::command::run;
use crate::packages::{
    CONFIG, KPTFILE, catalog, lifecycle, look, ready, register, system, told, until_file, variant,
};
use crate::support::PATIENCE;

const FIRST: &str = "edge.dns.packagevariant-1";
const SECOND: &str = "edge.dns.packagevariant-2";

async fn publish(case: &Case<'_>, name: &str) -> Result<()> {
    lifecycle(case, name, "Proposed").await?;
    lifecycle(case, name, "Published").await
}

/// All manifests of the Nephio catalogs name the branch. The package is upgraded when its tree on
/// the branch changes, and not with every commit of the branch.
#[tokio::test]
async fn the_head_of_a_branch_is_followed() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "branch-heads").await?;
    let remotes = catalog(&case).await?;
    let upstream = json!({"repo": "catalog", "package": "net/coredns", "workspaceName": "main"});
    case.create::<PackageVariant>("dns", &variant(&json!({"upstream": upstream}))).await?;
    ready(&case, "dns", &[FIRST]).await?;
    let kptfile = remotes.file("edge", "drafts/dns/packagevariant-1", "dns/Kptfile")?;
    ensure!(kptfile.contains("ref: main"), "{kptfile}");
    publish(&case, FIRST).await?;
    ready(&case, "dns", &[FIRST]).await?;

    // Another package of the branch changes, and then this one, without a tag.
    remotes.publish("catalog", &[("other/Kptfile", KPTFILE)], None)?;
    look(&case, "catalog").await?;
    case.until("the other package is known", "catalog.other.main", |_: &PackageRevision| true).await?;
    let changed = CONFIG.replace("\"30\"", "\"60\"");
    remotes.publish("catalog", &[("net/coredns/config.yaml", &changed)], None)?;
    look(&case, "catalog").await?;
    let place = ("edge", "drafts/dns/packagevariant-2", "dns/config.yaml");
    until_file(&remotes, place, |text| text.contains("\"60\"")).await?;
    ready(&case, "dns", &[SECOND]).await?;
    // The draft follows in place.
    let changed = CONFIG.replace("\"30\"", "\"90\"");
    remotes.publish("catalog", &[("net/coredns/config.yaml", &changed)], None)?;
    look(&case, "catalog").await?;
    until_file(&remotes, place, |text| text.contains("\"90\"")).await?;
    ready(&case, "dns", &[SECOND]).await?;

    // The command clones the head as well, but not into a workspace that is called as the branch.
    let server = format!("http://127.0.0.1:{}", system.grpc_port("variant"));
    let clone = async |workspace: &str| {
        let target = ["--repository", "edge", "--package", "by-hand", "--workspace", workspace];
        let mut all = vec!["packages", "clone", "catalog.net.coredns.main", "-n", &case.namespace];
        all.extend(target);
        all.extend(["--server", &server]);
        run(system, &all).await
    };
    let (code, _, err) = clone("main").await?;
    ensure!(code == 1 && err.contains("is the name of the repository's branch"), "{code} {err}");
    let (code, out, err) = clone("first").await?;
    ensure!(code == 0, "{out}{err}");

    // The head has no lifecycle; its deletion takes the package from the branch.
    let verb = async |verb: &str| {
        run(system, &["packages", verb, "-n", &case.namespace, "catalog.other.main"]).await
    };
    let (code, _, err) = verb("propose-deletion").await?;
    ensure!(code == 1 && err.contains("head of a branch"), "{code} {err}");
    let (code, out, err) = verb("delete").await?;
    ensure!(code == 0, "{out}{err}");
    ensure!(remotes.file("catalog", "main", "other/Kptfile").is_err());
    Ok(())
}

/// Pictures, archives and texts of other encodings come from another repository, with the clone
/// and with an upgrade.
#[tokio::test]
async fn files_that_are_not_text_are_cloned_and_upgraded() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "binary-files").await?;
    let remotes = catalog(&case).await?;
    let add = |name: &str, bytes: &[u8], tag: &str| -> Result<()> {
        let folder = remotes.path("catalog").with_extension("");
        std::fs::write(folder.join("net/coredns").join(name), bytes)?;
        remotes.publish("catalog", &[("net/coredns/note.txt", tag)], Some(&format!("net/coredns/{tag}")))
    };
    add("latin.txt", b"caf\xe9\n", "v2")?;
    look(&case, "catalog").await?;
    let upstream = |revision: &str| json!({"upstream": {"repo": "catalog", "package": "net/coredns", "revision": revision}});
    case.create::<PackageVariant>("dns", &variant(&upstream("v2"))).await?;
    ready(&case, "dns", &[FIRST]).await?;
    let blob = |name: &str, reference: &str| -> Result<String> {
        Ok(git(&remotes.path("edge"), &["rev-parse", &format!("{reference}:dns/{name}")])?)
    };
    let first = blob("latin.txt", "drafts/dns/packagevariant-1")?;
    ensure!(first == git(&remotes.path("catalog"), &["rev-parse", "main:net/coredns/latin.txt"])?);
    publish(&case, FIRST).await?;
    add("logo.png", b"\x89PNG\r\n\x1a\n\x00\xff", "v3")?;
    look(&case, "catalog").await?;
    case.change::<PackageVariant>("dns", &json!({"spec": upstream("v3")})).await?;
    ready(&case, "dns", &[SECOND]).await?;
    let second = blob("logo.png", "drafts/dns/packagevariant-2")?;
    ensure!(second == git(&remotes.path("catalog"), &["rev-parse", "main:net/coredns/logo.png"])?);
    ensure!(first == blob("latin.txt", "drafts/dns/packagevariant-2")?);
    Ok(())
}

/// Functions change every object of a variant. Objects that nobody else has changed go and move
/// with those of the upstream; one that was changed by hand stays, with a warning in the status.
#[tokio::test]
async fn objects_go_and_move_with_the_upstream() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "moved-objects").await?;
    let remotes = catalog(&case).await?;
    let object = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n");
    let (goes, moves, mine) = (object("goes"), object("moves"), object("mine"));
    let files = [
        ("net/coredns/goes.yaml", goes.as_str()),
        ("net/coredns/moves.yaml", moves.as_str()),
        ("net/coredns/mine.yaml", mine.as_str()),
    ];
    remotes.publish("catalog", &files, Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    let pipeline = json!({"mutators": [{"image": "gcr.io/kpt-fn/set-annotations:v0.1.4", "configMap": {"example.org/site": "edge"}}]});
    let upstream =
        |revision: &str| json!({"repo": "catalog", "package": "net/coredns", "revision": revision});
    let spec = json!({"upstream": upstream("v2"), "pipeline": pipeline});
    case.create::<PackageVariant>("dns", &variant(&spec)).await?;
    ready(&case, "dns", &[FIRST]).await?;
    let draft = "drafts/dns/packagevariant-1";
    ensure!(remotes.file("edge", draft, "dns/goes.yaml")?.contains("example.org/site"));
    remotes.edit("edge", draft, "dns/mine.yaml", |text| format!("{text}data:\n  by: hand\n"))?;
    look(&case, "edge").await?;
    case.until("the edit is known", FIRST, |found: &PackageRevision| {
        let lock = found.status.as_ref().and_then(|status| status.self_lock.as_ref()?.git.clone());
        let head = git(&remotes.path("edge"), &["rev-parse", draft]).unwrap_or_default();
        lock.and_then(|lock| lock.commit).is_some_and(|commit| head.trim() == commit)
    })
    .await?;
    publish(&case, FIRST).await?;

    let folder = remotes.path("catalog").with_extension("");
    for name in ["goes.yaml", "moves.yaml", "mine.yaml"] {
        std::fs::remove_file(folder.join("net/coredns").join(name))?;
    }
    remotes.publish("catalog", &[("net/coredns/sub/moves.yaml", &moves)], Some("net/coredns/v3"))?;
    look(&case, "catalog").await?;
    case.change::<PackageVariant>("dns", &json!({"spec": {"upstream": upstream("v3")}})).await?;
    let found = ready(&case, "dns", &[SECOND]).await?;
    let draft = "drafts/dns/packagevariant-2";
    let files = git(&remotes.path("edge"), &["ls-tree", "-r", "--name-only", draft, "dns/"])?;
    let yaml: Vec<&str> = files.lines().filter(|path| path.ends_with(".yaml")).collect();
    ensure!(
        yaml == ["dns/config.yaml", "dns/mine.yaml", "dns/package-context.yaml", "dns/sub/moves.yaml"],
        "{yaml:?}"
    );
    let status = serde_json::to_string(&found.status)?;
    let warning = "the upstream has deleted ConfigMap mine; it stays, since it was changed here";
    ensure!(status.contains(warning), "{status}");
    Ok(())
}

/// A new repository is usable from its first draft to the first approval, which makes the branch. A
/// repository with another branch is not ready, and names that branch.
#[tokio::test]
async fn a_new_repository() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "new-repositories").await?;
    let remotes = catalog(&case).await?;
    let init = |name: &str, branch: &str| -> Result<()> {
        let parent = remotes.path(name);
        let parent = parent.parent().context("a folder")?;
        git(parent, &["init", "-q", "--bare", "-b", branch, &format!("{name}.git")])?;
        Ok(())
    };
    init("new", "main")?;
    register(&case, &remotes, "new", true).await?;
    let downstream = json!({"downstream": {"repo": "new", "package": "dns"}});
    case.create::<PackageVariant>("dns", &variant(&downstream)).await?;
    let name = "new.dns.packagevariant-1";
    ready(&case, "dns", &[name]).await?;
    look(&case, "new").await?;
    publish(&case, name).await?;
    ready(&case, "dns", &[name]).await?;
    let refs = remotes.refs("new")?;
    ensure!(refs == ["main", "dns/v1"] || refs == ["dns/v1", "main"], "{refs:?}");
    let is_ready = |repository: &Repository| {
        let conditions = repository.status.clone().unwrap_or_default().conditions;
        conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True")
    };
    case.until("the repository is ready", "new", is_ready).await?;

    init("old", "master")?;
    let folder = remotes.path("old").with_extension("");
    let parent = folder.parent().context("a folder")?;
    git(parent, &["clone", "-q", "old.git", "old"])?;
    std::fs::write(folder.join("README.md"), "packages")?;
    git(&folder, &["add", "-A"])?;
    git(&folder, &["commit", "-qm", "by hand"])?;
    git(&folder, &["push", "-q", "origin", "HEAD:master"])?;
    register(&case, &remotes, "old", true).await?;
    let words = "branch \"main\" does not exist in the repository, which has the branch \"master\"";
    let names_it = |repository: &Repository| {
        let conditions = repository.status.clone().unwrap_or_default().conditions;
        conditions.iter().any(|found| found.status == "False" && found.message.contains(words))
    };
    case.until("the repository names its branch", "old", names_it).await?;

    // A second Repository with the same packages is refused with the name of the first.
    let twin = json!({"spec": {"type": "git", "git": {"repo": remotes.path("new"), "directory": "dns"}}});
    case.create::<Repository>("twin", &twin).await?;
    let names_it = |repository: &Repository| {
        let conditions = repository.status.clone().unwrap_or_default().conditions;
        conditions
            .iter()
            .any(|found| found.status == "False" && found.message.starts_with("Repository \"new\" has"))
    };
    case.until("the twin is refused", "twin", names_it).await?;
    Ok(())
}

/// The annotations of Nephio's approval controller publish drafts without a person.
#[tokio::test]
async fn drafts_are_approved_by_policy() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "approval-policies").await?;
    let remotes = catalog(&case).await?;
    let policy = |policy: &str| json!({"annotations": {"approval.nephio.org/policy": policy}});
    case.create::<PackageVariant>("dns", &variant(&policy("initial"))).await?;
    let is_published = |revision: &PackageRevision| {
        let status = revision.status.clone().unwrap_or_default();
        revision.spec.lifecycle.as_deref() == Some("Published")
            && status.published_by.as_deref() == Some("approval policy initial")
    };
    case.until("the first revision is published", FIRST, is_published).await?;
    let author = git(&remotes.path("edge"), &["log", "-1", "--format=%an", "main"])?;
    ensure!(author.trim() == "approval policy initial", "{author}");
    ready(&case, "dns", &[FIRST]).await?;

    // The policy is for the first revision only.
    let changed = CONFIG.replace("\"30\"", "\"60\"");
    remotes.publish("catalog", &[("net/coredns/config.yaml", &changed)], Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    let upstream = json!({"repo": "catalog", "package": "net/coredns", "revision": "v2"});
    case.change::<PackageVariant>("dns", &json!({"spec": {"upstream": upstream}})).await?;
    ready(&case, "dns", &[SECOND]).await?;
    let is_told = |revision: &PackageRevision| {
        let status = revision.status.clone().unwrap_or_default();
        status.message.is_some_and(|message| message.contains("must be \"initial\" or \"always\""))
    };
    let annotate = |value: &str| json!({"metadata": {"annotations": {"approval.nephio.org/policy": value}}});
    case.change::<PackageRevision>(SECOND, &annotate("sometimes")).await?;
    case.until("the value is refused", SECOND, is_told).await?;
    case.change::<PackageRevision>(SECOND, &annotate("always")).await?;
    wait_for("the second revision is published", PATIENCE, async || {
        match remotes.file("edge", "dns/v2", "dns/config.yaml") {
            Ok(text) if text.contains("\"60\"") => Ok(()),
            Ok(text) => Err(text),
            Err(error) => Err(error.to_string()),
        }
    })
    .await?;
    let found = case.get::<PackageVariant>("dns").await?;
    ensure!(told(&found, "Stalled").is_some_and(|(status, ..)| status == "False"));
    Ok(())
}
