//! Package variants on real git repositories: drafts, merges, approval, deletion
//! (`packagevariants.md` 2 and 6).

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use groundwork_api::{PackageRevision, PackageVariant, PackageVariantSet, Repository};
use groundwork_testkit::{GitServer, Server, git, servers_or_skip, unused_port};
use groundwork_tests::{System, SystemOptions, wait_for};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::Role;
use kube::ResourceExt;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::case::Case;
use crate::command::run;
use crate::metrics;
use crate::support::PATIENCE;

pub(crate) const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: coredns\n";
pub(crate) const CONFIG: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: corefile\ndata:\n  cache: \"30\"\n  zone: example.org\n";

static SYSTEM: OnceCell<Option<System>> = OnceCell::const_new();

/// Port for webhooks of git hosts.
pub(crate) static HOOKS: OnceCell<u16> = OnceCell::const_new();

/// Returns the system of these tests, which has a package store.
pub(crate) async fn system() -> Result<Option<&'static System>> {
    let start = async || {
        // Keep the folder until the process ends, since the shared system lives as long.
        let folder = tempfile::tempdir()?.keep();
        // With this setting the service looks for a Porch server first, and finds none.
        let variables =
            ["GROUNDWORK_FOLLOW_TAGS", "GROUNDWORK_PORCH_IF_SERVED", "GROUNDWORK_APPROVAL_POLICIES"];
        let mut variables = variables.map(|name| (name.to_owned(), "true".to_owned())).to_vec();
        let hooks = format!("127.0.0.1:{}", HOOKS.get_or_try_init(async || unused_port()).await?);
        variables.push(("GROUNDWORK_PACKAGE_HOOKS_ADDRESS".to_owned(), hooks));
        System::start(SystemOptions { package_store: Some(folder), variables, ..SystemOptions::default() })
            .await
    };
    Ok(SYSTEM.get_or_try_init(start).await?.as_ref())
}

/// Git remotes of one test.
pub(crate) struct Remotes(tempfile::TempDir);

impl Remotes {
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(format!("{name}.git"))
    }

    /// Creates a remote with one empty commit.
    pub(crate) fn create(&self, name: &str) -> Result<()> {
        git(self.0.path(), &["init", "-q", "--bare", &format!("{name}.git")])?;
        self.publish(name, &[("README.md", "packages")], None)
    }

    /// Commits files to the main branch, as a user does, and sets a tag.
    pub(crate) fn publish(&self, name: &str, files: &[(&str, &str)], tag: Option<&str>) -> Result<()> {
        let folder = self.0.path().join(name);
        if !folder.exists() {
            git(self.0.path(), &["clone", "-q", &format!("{name}.git"), name])?;
        } else {
            git(&folder, &["pull", "-q", "--ff-only", "origin", "main"])?;
        }
        for (path, text) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().context("a folder")?)?;
            std::fs::write(path, text)?;
        }
        git(&folder, &["add", "-A"])?;
        git(&folder, &["commit", "-qm", "by hand"])?;
        git(&folder, &["push", "-q", "origin", "HEAD:main"])?;
        tag.map_or(Ok(()), |tag| self.tag(name, tag))
    }

    /// Moves or creates a tag at the current commit.
    pub(crate) fn tag(&self, name: &str, tag: &str) -> Result<()> {
        let folder = self.0.path().join(name);
        git(&folder, &["tag", "-f", tag])?;
        git(&folder, &["push", "-qf", "origin", tag])?;
        Ok(())
    }

    /// Changes a file of a draft in a commit, as a user does.
    pub(crate) fn edit(
        &self,
        name: &str,
        branch: &str,
        path: &str,
        change: impl Fn(&str) -> String,
    ) -> Result<()> {
        let folder = tempfile::tempdir()?;
        let remote = self.path(name);
        let remote = remote.to_str().context("a path")?;
        git(folder.path(), &["clone", "-qb", branch, remote, "edit"])?;
        let folder = folder.path().join("edit");
        let before = std::fs::read_to_string(folder.join(path))?;
        std::fs::write(folder.join(path), change(&before))?;
        git(&folder, &["commit", "-qam", "by hand"])?;
        git(&folder, &["push", "-q", "origin", &format!("HEAD:{branch}")])?;
        Ok(())
    }

    /// Returns a file of a package at a ref.
    pub(crate) fn file(&self, name: &str, reference: &str, path: &str) -> Result<String> {
        Ok(git(&self.path(name), &["show", &format!("{reference}:{path}")])?)
    }

    pub(crate) fn refs(&self, name: &str) -> Result<Vec<String>> {
        let listed = git(&self.path(name), &["for-each-ref", "--format=%(refname:short)"])?;
        Ok(listed.lines().map(str::to_owned).collect())
    }
}

pub(crate) async fn register(case: &Case<'_>, remotes: &Remotes, name: &str, deployment: bool) -> Result<()> {
    let content =
        json!({"spec": {"type": "git", "deployment": deployment, "git": {"repo": remotes.path(name)}}});
    case.create::<Repository>(name, &content).await?;
    Ok(())
}

/// Makes the store fetch a remote now, and not after up to a minute. Any change of the Repository
/// does that.
pub(crate) async fn look(case: &Case<'_>, name: &str) -> Result<()> {
    let now = jiff::Timestamp::now().to_string();
    case.change::<Repository>(name, &json!({"metadata": {"annotations": {"looked-at": now}}})).await?;
    Ok(())
}

/// Creates a catalog with one package in one version, and a repository for the drafts.
pub(crate) async fn catalog(case: &Case<'_>) -> Result<Remotes> {
    let remotes = Remotes::new()?;
    remotes.create("catalog")?;
    remotes.create("edge")?;
    let files = [("net/coredns/Kptfile", KPTFILE), ("net/coredns/config.yaml", CONFIG)];
    remotes.publish("catalog", &files, Some("net/coredns/v1"))?;
    register(case, &remotes, "catalog", false).await?;
    register(case, &remotes, "edge", true).await?;
    Ok(remotes)
}

pub(crate) fn variant(fields: &Value) -> Value {
    let mut spec = json!({
        "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v1"},
        "downstream": {"repo": "edge", "package": "dns"},
    });
    for (name, value) in fields.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    json!({"spec": spec})
}

/// Returns status, reason and message of a condition, if it is about the current spec.
pub(crate) fn told(variant: &PackageVariant, condition: &str) -> Option<(String, String, String)> {
    let status = variant.status.as_ref()?;
    let found = status.conditions.iter().find(|found| found.type_ == condition)?;
    let is_current = found.observed_generation == variant.metadata.generation;
    is_current.then(|| (found.status.clone(), found.reason.clone(), found.message.clone()))
}

/// Waits until a variant is ready and works on these revisions.
pub(crate) async fn ready(case: &Case<'_>, name: &str, targets: &[&str]) -> Result<PackageVariant> {
    let what = format!("{name} is ready with {targets:?}");
    let is_so = |variant: &PackageVariant| {
        let status = variant.status.clone().unwrap_or_default();
        let found: Vec<&str> = status.downstream_targets.iter().map(|target| target.name.as_str()).collect();
        told(variant, "Ready").is_some_and(|(status, ..)| status == "True") && found == targets
    };
    case.until(&what, name, is_so).await.map_err(|error| case.system.explained(error))
}

pub(crate) async fn lifecycle(case: &Case<'_>, name: &str, wanted: &str) -> Result<()> {
    let content = json!({"spec": {"lifecycle": wanted}});
    let changed = match wanted {
        "Published" => approve(case, name, &content).await.map(drop),
        _ => case.change::<PackageRevision>(name, &content).await.map(drop),
    };
    changed.map_err(|error| case.system.explained(error))
}

/// Decides about a revision through the subresource for approvals.
pub(crate) async fn approve(case: &Case<'_>, name: &str, content: &Value) -> Result<PackageRevision> {
    let api = case.api::<PackageRevision>();
    Ok(api.patch_subresource("approval", name, &PatchParams::default(), &Patch::Merge(content)).await?)
}

/// Waits until a file in git satisfies a condition.
pub(crate) async fn until_file(
    remotes: &Remotes,
    place: (&str, &str, &str),
    is_so: impl Fn(&str) -> bool,
) -> Result<String> {
    let (name, reference, path) = place;
    wait_for(&format!("{reference}:{path} in {name}"), PATIENCE, async || {
        match remotes.file(name, reference, path) {
            Ok(text) if is_so(&text) => Ok(text),
            Ok(text) => Err(text),
            Err(error) => Err(error.to_string()),
        }
    })
    .await
}

/// V-001, V-002 and figure 1: a clone, the changes of a user, and a merge of the upstream's next
/// version.
#[tokio::test]
async fn from_upstream_to_published_and_on() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-life").await?;
    let remotes = catalog(&case).await?;
    let context = json!({"packageContext": {"data": {"site": "edge-7"}}, "labels": {"tier": "edge"}});
    case.create::<PackageVariant>("dns", &variant(&context)).await?;
    let made = ready(&case, "dns", &["edge.dns.packagevariant-1"]).await?;
    let draft: PackageRevision = case.get("edge.dns.packagevariant-1").await?;
    ensure!(draft.labels().get("tier").map(String::as_str) == Some("edge"), "{draft:?}");
    let owner = draft.owner_references().first().context("an owner")?;
    ensure!(owner.uid == made.metadata.uid.clone().unwrap_or_default() && owner.controller == Some(true));
    let listed: Vec<String> =
        case.list::<PackageRevision>("").await?.iter().map(ResourceExt::name_any).collect();
    ensure!(listed.iter().any(|name| name == "edge.dns.packagevariant-1"), "{listed:?}");
    let branch = "drafts/dns/packagevariant-1";
    let lock =
        draft.status.clone().unwrap_or_default().self_lock.and_then(|lock| lock.git).context("a place")?;
    ensure!(
        lock.reference.as_deref() == Some(branch)
            && remotes.refs("edge")?.iter().any(|found| found == branch)
    );
    let kptfile = remotes.file("edge", branch, "dns/Kptfile")?;
    ensure!(kptfile.contains("name: dns") && kptfile.contains("ref: net/coredns/v1"), "{kptfile}");
    let context = remotes.file("edge", branch, "dns/package-context.yaml")?;
    ensure!(context.contains("site: edge-7") && context.contains("package-path: dns"), "{context}");

    // A user edits the draft, and the upstream publishes another version. The next commit contains
    // both changes.
    remotes
        .edit("edge", branch, "dns/config.yaml", |text| text.replace("example.org", "edge-7.example.org"))?;
    look(&case, "edge").await?;
    let next = CONFIG.replace("\"30\"", "\"60\"");
    remotes.publish("catalog", &[("net/coredns/config.yaml", &next)], Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    case.change::<PackageVariant>("dns", &json!({"spec": {"upstream": {"revision": "v2"}}})).await?;
    let merged =
        until_file(&remotes, ("edge", branch, "dns/config.yaml"), |text| text.contains("\"60\"")).await?;
    ensure!(merged.contains("zone: edge-7.example.org"), "{merged}");
    ready(&case, "dns", &["edge.dns.packagevariant-1"]).await?;

    // A user proposes the revision and approves it.
    lifecycle(&case, "edge.dns.packagevariant-1", "Proposed").await?;
    lifecycle(&case, "edge.dns.packagevariant-1", "Published").await?;
    let published: PackageRevision = case.get("edge.dns.packagevariant-1").await?;
    ensure!(published.spec.revision == Some(1), "{published:?}");
    let is_latest = |revision: &PackageRevision| revision.labels().contains_key("kpt.dev/latest-revision");
    case.until::<PackageRevision>("it is the latest", "edge.dns.packagevariant-1", is_latest).await?;
    ensure!(remotes.refs("edge")?.contains(&"dns/v1".to_owned()), "{:?}", remotes.refs("edge")?);
    ready(&case, "dns", &["edge.dns.packagevariant-1"]).await?;

    // The next version of the upstream becomes a new draft.
    let last = CONFIG.replace("\"30\"", "\"90\"");
    remotes.publish("catalog", &[("net/coredns/config.yaml", &last)], Some("net/coredns/v3"))?;
    look(&case, "catalog").await?;
    case.change::<PackageVariant>("dns", &json!({"spec": {"upstream": {"revision": "v3"}}})).await?;
    ready(&case, "dns", &["edge.dns.packagevariant-2"]).await?;
    let upgraded = remotes.file("edge", "drafts/dns/packagevariant-2", "dns/config.yaml")?;
    let history = git(&remotes.path("edge"), &["log", "-p", "drafts/dns/packagevariant-2"])?;
    ensure!(
        upgraded.contains("\"90\"") && upgraded.contains("zone: edge-7.example.org"),
        "{upgraded}\n{history}"
    );

    // After the deletion of the variant, the draft is deleted, and the published revision is
    // proposed for deletion.
    case.api::<PackageVariant>().delete("dns", &DeleteParams::default()).await?;
    wait_for("the draft is gone, and the published one marked", PATIENCE, async || {
        let refs = remotes.refs("edge").map_err(|error| error.to_string())?;
        if refs == ["deletionProposed/dns/v1", "main", "dns/v1"] { Ok(()) } else { Err(format!("{refs:?}")) }
    })
    .await
    .map_err(|error| system.explained(error))?;
    let marked: PackageRevision = case.get("edge.dns.packagevariant-1").await?;
    ensure!(marked.owner_references().is_empty(), "garbage collection would take it: {marked:?}");
    metrics::of_the_store_are_documented(system).await
}

/// Actions of users that the cluster must reject.
#[tokio::test]
async fn people_cannot_do_everything() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-admission").await?;
    let _remotes = catalog(&case).await?;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(&case, "dns", &["edge.dns.packagevariant-1"]).await?;
    let name = "edge.dns.packagevariant-1";
    let refused = |error: &anyhow::Error, text: &str| {
        let said = format!("{error:#}");
        ensure!(said.contains(text), "{said}");
        Ok(())
    };
    let to = |lifecycle: &str| json!({"spec": {"lifecycle": lifecycle}});
    for (change, text) in [
        (to("Published"), "value can be only updated to Draft,Proposed"),
        (json!({"spec": {"packageName": "other"}}), "field is immutable"),
        (
            json!({"metadata": {"labels": {"kpt.dev/latest-revision": "true"}}}),
            "label is managed by porch and cannot be modified by users",
        ),
    ] {
        let error = case.change::<PackageRevision>(name, &change).await.err().context("it is accepted")?;
        refused(&error, text)?;
    }
    let content = json!({"spec": {"packageName": "x", "repository": "none", "workspaceName": "w"}});
    let error = case.create::<PackageRevision>("none.x.w", &content).await.err().context("it is accepted")?;
    refused(&error, "repositories.config.porch.kpt.dev \"none\" not found")?;
    lifecycle(&case, name, "Proposed").await?;
    lifecycle(&case, name, "Published").await?;
    let error = case.delete::<PackageRevision>(name).await.err().context("it is accepted")?;
    refused(&error, "published PackageRevisions must be proposed for deletion")?;
    Ok(())
}

/// Two variants and a set: drafts that are no longer wanted are deleted.
#[tokio::test]
async fn a_set_narrowed_and_widened() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-set").await?;
    let remotes = catalog(&case).await?;
    let set = |names: &Value| {
        json!({"spec": {
            "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v1"},
            "targets": [{"repositories": [{"name": "edge", "packageNames": names}]}],
        }})
    };
    case.create::<PackageVariantSet>("fleet", &set(&json!(["a", "b", "c"]))).await?;
    let drafts = async |expected: &[&str]| {
        wait_for(&format!("{expected:?}"), PATIENCE, async || {
            let refs = remotes.refs("edge").map_err(|error| error.to_string())?;
            if refs == expected { Ok(()) } else { Err(format!("{refs:?}")) }
        })
        .await
        .map_err(|error| system.explained(error))
    };
    drafts(&["drafts/a/packagevariant-1", "drafts/b/packagevariant-1", "drafts/c/packagevariant-1", "main"])
        .await?;
    case.change::<PackageVariantSet>("fleet", &set(&json!(["a"]))).await?;
    drafts(&["drafts/a/packagevariant-1", "main"]).await?;
    case.change::<PackageVariantSet>("fleet", &set(&json!(["a", "d"]))).await?;
    drafts(&["drafts/a/packagevariant-1", "drafts/d/packagevariant-1", "main"]).await?;
    Ok(())
}

/// An unusable remote is reported, and does not block other variants.
#[tokio::test]
async fn a_remote_that_is_away_holds_up_its_own() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-away").await?;
    let remotes = catalog(&case).await?;
    let content = json!({"spec": {"type": "git", "git": {"repo": remotes.path("nowhere")}}});
    case.create::<Repository>("nowhere", &content).await?;
    let away = json!({"downstream": {"repo": "nowhere", "package": "dns"}});
    case.create::<PackageVariant>("away", &variant(&away)).await?;
    case.create::<PackageVariant>("here", &variant(&json!({}))).await?;
    ready(&case, "here", &["edge.dns.packagevariant-1"]).await?;
    let is_told = |variant: &PackageVariant| {
        told(variant, "Ready").is_some_and(|(_, reason, message)| {
            reason == "StoreUnavailable" && message.contains("does not appear to be a git repository")
        })
    };
    case.until("it is told", "away", is_told).await?;
    let is_told = |repository: &Repository| {
        let status = repository.status.clone().unwrap_or_default();
        status.conditions.iter().any(|found| found.status == "False" && found.reason == "Error")
    };
    case.until("the Repository tells", "nowhere", is_told).await?;
    // The remote becomes available.
    remotes.create("nowhere")?;
    look(&case, "nowhere").await?;
    ready(&case, "away", &["nowhere.dns.packagevariant-1"]).await?;
    Ok(())
}

/// Remotes over HTTP and SSH, with credentials from Secrets. A wrong password is reported, and its
/// correction takes effect.
#[tokio::test]
async fn remotes_over_http_and_ssh() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    if !servers_or_skip(&[Server::GitServer]) {
        return Ok(());
    }
    let case = Case::new(system, "packages-transports").await?;
    let server = GitServer::start().await?;
    let remotes = Remotes::new()?;
    remotes.create("catalog")?;
    remotes.create("edge")?;
    let files = [("net/coredns/Kptfile", KPTFILE), ("net/coredns/config.yaml", CONFIG)];
    remotes.publish("catalog", &files, Some("net/coredns/v1"))?;
    for name in ["catalog", "edge"] {
        std::os::unix::fs::symlink(remotes.path(name), server.root().join(name))?;
    }
    let (username, password) = server.user();
    let (key, hosts) = server.keys()?;
    let wrong = json!({"stringData": {"username": username, "password": "wrong"}});
    case.create::<Secret>("web", &wrong).await?;
    case.create::<Secret>("shell", &json!({"stringData": {"ssh-privatekey": key, "known_hosts": hosts}}))
        .await?;
    for (name, address, secret) in
        [("catalog", server.http("catalog"), "web"), ("edge", server.ssh("edge"), "shell")]
    {
        let git = json!({"repo": address, "secretRef": {"name": secret}});
        case.create::<Repository>(name, &json!({"spec": {"type": "git", "git": git}})).await?;
    }
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    let is_told = |repository: &Repository| {
        let status = repository.status.clone().unwrap_or_default();
        status.conditions.iter().any(|found| {
            found.status == "False" && found.message.contains("refuses the credentials of spec.git.secretRef")
        })
    };
    case.until("the password is refused", "catalog", is_told).await?;
    let right = json!({"stringData": {"password": password}});
    case.change::<Secret>("web", &right).await?;
    look(&case, "catalog").await?;
    ready(&case, "dns", &["edge.dns.packagevariant-1"]).await?;
    lifecycle(&case, "edge.dns.packagevariant-1", "Proposed").await?;
    lifecycle(&case, "edge.dns.packagevariant-1", "Published").await?;
    assert_eq!(remotes.refs("edge")?, ["main", "dns/v1"]);
    ensure!(remotes.file("edge", "main", "dns/Kptfile")?.contains(&server.http("catalog")));
    Ok(())
}

/// Decisions of users at the command line, and those that the store rejects (`packagevariants.md`
/// 6.5 and 6.14).
#[tokio::test]
async fn decisions_at_the_command_line() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-command").await?;
    let remotes = catalog(&case).await?;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    let name = "edge.dns.packagevariant-1";
    ready(&case, "dns", &[name]).await?;
    let packages = async |words: &[&str]| {
        run(system, &[&["packages"], words, &["-n", "packages-command"]].concat()).await
    };
    let (code, out, _) = packages(&["list", "--repository", "edge", "--lifecycle", "draft"]).await?;
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(code, 0);
    assert_eq!(rows[0][..3], ["NAME", "PACKAGE", "WORKSPACE"]);
    assert_eq!(rows[1..], [vec![name, "dns", "packagevariant-1", "false", "Draft"]]);
    let (code, out, _) = packages(&["get", name, "-o", "json"]).await?;
    let object: Value = serde_json::from_str(&out)?;
    ensure!(code == 0 && object["spec"]["packageName"] == "dns", "{out}");

    let (code, _, err) = packages(&["approve", name]).await?;
    ensure!(code == 1 && err.contains("the package revision is Draft: propose it first"), "{err}");
    for (verb, expected) in [
        ("propose", "Proposed"),
        ("propose", "Proposed"),
        ("reject", "Draft"),
        ("propose", "Proposed"),
        ("approve", "Published"),
    ] {
        let (code, out, err) = packages(&[verb, name]).await?;
        assert_eq!((code, out.trim_end()), (0, format!("{name} {expected}").as_str()), "{verb}: {err}");
    }
    assert_eq!(remotes.refs("edge")?, ["main", "dns/v1"]);
    // The author of the commit is the user who approved it.
    let author = git(&remotes.path("edge"), &["log", "-1", "--format=%an", "main"])?;
    let published: PackageRevision = case.get(name).await?;
    let approver = published.status.unwrap_or_default().published_by;
    assert_eq!((author.as_str(), approver.as_deref()), ("admin", Some("admin")));

    let (code, _, err) = packages(&["delete", name]).await?;
    ensure!(
        code == 1 && err.contains("the package revision is Published: use `propose-deletion` first"),
        "{err}"
    );
    case.delete::<PackageVariant>("dns").await?;
    for (verb, expected) in [
        ("propose-deletion", "DeletionProposed"),
        ("reject", "Published"),
        ("propose-deletion", "DeletionProposed"),
        ("delete", "deleted"),
    ] {
        let (code, out, err) = packages(&[verb, name]).await?;
        assert_eq!((code, out.trim_end()), (0, format!("{name} {expected}").as_str()), "{verb}: {err}");
    }
    assert_eq!(remotes.refs("edge")?, ["main"]);
    let (code, _, err) = packages(&["propose", name]).await?;
    ensure!(code == 1 && err.contains("does not exist in namespace"), "{err}");
    Ok(())
}

/// Lets the services read and watch ConfigMaps of the namespace. The test server does not aggregate
/// roles, so this function binds the labelled role itself.
pub(crate) async fn let_watch_config_maps(case: &Case<'_>) -> Result<()> {
    let rules = json!({"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]});
    case.create::<Role>("watchable", &rules).await?;
    for account in ["watcher", "variant"] {
        let name = format!("watchable-{account}");
        let of = format!("--serviceaccount=groundwork-system:groundwork-{account}");
        case.system
            .kubectl(&["create", "rolebinding", &name, "-n", &case.namespace, "--role=watchable", &of])
            .await?;
    }
    Ok(())
}

/// V-155 and figures 2 to 4: context, functions and an injected object. A change of that object
/// leads to a new draft.
#[tokio::test]
async fn functions_and_injected_objects() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-injection").await?;
    let_watch_config_maps(&case).await?;
    let remotes = catalog(&case).await?;
    let point = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: site\n  annotations:\n    kpt.dev/config-injection: \
                 required\ndata: {}\n";
    remotes.publish("catalog", &[("net/coredns/site.yaml", point)], Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    let fields = json!({
        "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v2"},
        "injectors": {"name": "edge-7"},
        "pipeline": {"mutators": [{
            "name": "ns",
            "image": "ghcr.io/kptdev/krm-functions-catalog/set-namespace:v0.4.1",
            "configMap": {"namespace": "dns-system"},
        }]},
    });
    case.create::<PackageVariant>("dns", &variant(&fields)).await?;
    ready(&case, "dns", &["edge.dns.packagevariant-1"]).await?;
    let branch = "drafts/dns/packagevariant-1";
    let kptfile = remotes.file("edge", branch, "dns/Kptfile")?;
    ensure!(kptfile.contains("PackageVariant.dns.ns.0"), "{kptfile}");
    ensure!(
        kptfile.contains("no in-cluster resources of type v1.ConfigMap")
            || kptfile.contains("no resource matched"),
        "{kptfile}"
    );
    let config = remotes.file("edge", branch, "dns/config.yaml")?;
    ensure!(config.contains("namespace: dns-system"), "{config}");
    // A false readiness gate blocks the approval.
    lifecycle(&case, "edge.dns.packagevariant-1", "Proposed").await?;
    let name = "edge.dns.packagevariant-1";
    let refused = approve(&case, name, &json!({"spec": {"lifecycle": "Published"}})).await;
    let refused = format!("{:#}", refused.err().context("the gate is open")?);
    ensure!(refused.contains("readiness gates not met: config.injection.ConfigMap.site"), "{refused}");
    lifecycle(&case, name, "Draft").await?;

    // A user's change of the draft's object appears in its Kptfile.
    let metadata = json!({"spec": {"packageMetadata": {"labels": {"app": "dns"}}}});
    case.change::<PackageRevision>(name, &metadata).await?;
    until_file(&remotes, ("edge", branch, "dns/Kptfile"), |text| text.contains("app: dns")).await?;

    // The object to inject is created, and then changed.
    case.create::<ConfigMap>("edge-7", &json!({"data": {"zone": "a"}})).await?;
    until_file(&remotes, ("edge", branch, "dns/site.yaml"), |text| text.contains("zone: a")).await?;
    case.change::<ConfigMap>("edge-7", &json!({"data": {"zone": "b"}})).await?;
    let site =
        until_file(&remotes, ("edge", branch, "dns/site.yaml"), |text| text.contains("zone: b")).await?;
    ensure!(site.contains("kpt.dev/injected-resource-name: edge-7"), "{site}");
    ready(&case, "dns", &[name]).await?;
    // The service writes the status after the push. Wait for it, so that the comparison below sees
    // the final state.
    let names_source = |variant: &PackageVariant| {
        let sources = variant.status.clone().unwrap_or_default().injection_sources;
        sources.iter().any(|source| source.name == "edge-7")
    };
    case.until("the source is named", "dns", names_source).await?;

    // A function that cannot run is reported, and the draft stays as it was.
    let unknown =
        json!({"spec": {"pipeline": {"mutators": [{"name": "x", "image": "example.org/mine:v1"}]}}});
    let before = remotes.file("edge", branch, "dns/Kptfile")?;
    ensure!(before.contains("app: dns"), "{before}");
    case.change::<PackageVariant>("dns", &unknown).await?;
    let is_told = |variant: &PackageVariant| {
        self::told(variant, "Ready").is_some_and(|(_, reason, message)| {
            reason == "RenderFailed" && message.contains("example.org/mine:v1")
        })
    };
    case.until("it is told", "dns", is_told).await?;
    let after = remotes.file("edge", branch, "dns/Kptfile")?;
    ensure!(after == before, "{before}\n{after}");
    // The target's status contains the functions' messages. If the user requests it, the draft
    // takes the unrendered content. The variant recovers (`packagevariants.md` 8.1).
    let error = |variant: &PackageVariant| {
        let status = variant.status.clone().unwrap_or_default();
        let target = status.downstream_targets.iter().find(|target| target.name == name).cloned();
        target.and_then(|target| target.render_status?.error).unwrap_or_default()
    };
    let is_in_target = |variant: &PackageVariant| error(variant).contains("example.org/mine:v1");
    case.until("the target has the error", "dns", is_in_target).await?;
    let keep = json!({"metadata": {"annotations": {"porch.kpt.dev/push-on-render-failure": "true"}}});
    case.change::<PackageRevision>(name, &keep).await?;
    until_file(&remotes, ("edge", branch, "dns/Kptfile"), |text| text.contains("example.org/mine:v1"))
        .await?;
    case.until("it is told still", "dns", |variant| is_told(variant) && is_in_target(variant)).await?;
    case.change::<PackageVariant>("dns", &json!({"spec": {"pipeline": null}})).await?;
    let is_well = |variant: &PackageVariant| {
        self::told(variant, "Ready").is_some_and(|(status, ..)| status == "True") && error(variant).is_empty()
    };
    case.until("the error is gone", "dns", is_well).await?;
    ensure!(!remotes.file("edge", branch, "dns/Kptfile")?.contains("example.org/mine:v1"));
    Ok(())
}

/// The deletion of a namespace deletes its objects, but no content in git.
#[tokio::test]
async fn the_end_of_a_namespace_is_not_that_of_its_packages() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-end").await?;
    let remotes = catalog(&case).await?;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(&case, "dns", &["edge.dns.packagevariant-1"]).await?;
    system.kubectl(&["delete", "namespace", &case.namespace, "--wait=true", "--timeout=80s"]).await?;
    ensure!(remotes.refs("edge")? == ["drafts/dns/packagevariant-1", "main"], "{:?}", remotes.refs("edge")?);
    Ok(())
}
