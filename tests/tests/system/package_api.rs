//! Porch's API on the package store, as its clients use it (`packagevariants.md` 6.14).

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::StreamExt as _;
use groundwork_api::{PackageRevision, PackageRevisionResources, Repository};
use groundwork_testkit::git;
use groundwork_tests::{System, SystemOptions, wait_for};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, Config, ResourceExt};
use serde_json::{Value, json};

use crate::case::Case;
use crate::packages::{Remotes, approve, catalog, lifecycle, look, register, system};
use crate::support::PATIENCE;

/// Returns the body of a new draft.
fn draft(package: &str, workspace: &str, task: &Value) -> Result<PackageRevision> {
    let spec = json!({"repository": "edge", "packageName": package, "workspaceName": workspace, "lifecycle": "Draft",
        "tasks": [task]});
    Ok(serde_json::from_value(json!({"metadata": {"labels": {"tier": "edge"}}, "spec": spec}))?)
}

async fn create(case: &Case<'_>, draft: &PackageRevision) -> Result<PackageRevision, kube::Error> {
    case.api::<PackageRevision>().create(&PostParams::default(), draft).await
}

/// Returns the code and message of a refusal.
fn refusal<T: std::fmt::Debug>(answer: Result<T, kube::Error>) -> Result<(u16, String)> {
    match answer {
        Err(kube::Error::Api(status)) => Ok((status.code, status.message.clone())),
        other => anyhow::bail!("no refusal: {other:?}"),
    }
}

/// Waits until the repositories of a case have been read.
async fn readable(case: &Case<'_>) -> Result<Remotes> {
    let remotes = catalog(case).await?;
    case.until::<PackageRevision>("the catalog is read", "catalog.net.coredns.v1", |_| true).await?;
    let is_ready = |found: &Repository| {
        found
            .status
            .iter()
            .flat_map(|status| &status.conditions)
            .any(|one| one.type_ == "Ready" && one.status == "True")
    };
    case.until::<Repository>("the repository is read", "edge", is_ready).await?;
    Ok(remotes)
}

/// Life of a package as porchctl leads it: init, pull, push, propose, reject, approve, clone, copy,
/// upgrade, and its deletion.
#[tokio::test]
async fn a_package_from_init_to_deletion() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "package-api-life").await?;
    let remotes = readable(&case).await?;
    let revisions = case.api::<PackageRevision>();
    let files = case.api::<PackageRevisionResources>();
    let made =
        create(&case, &draft("web", "v1", &json!({"type": "init", "init": {"description": "pages"}}))?)
            .await?;
    assert_eq!(made.name_any(), "edge.web.v1");
    assert_eq!(made.labels().get("tier").map(String::as_str), Some("edge"));
    assert_eq!(made.spec.lifecycle.as_deref(), Some("Draft"));
    ensure!(remotes.refs("edge")?.contains(&"drafts/web/v1".to_owned()));

    // Files are read, replaced and rendered; a stale save is refused.
    let mut pulled = files.get("edge.web.v1").await?;
    let stale = pulled.clone();
    ensure!(pulled.spec.resources.contains_key("Kptfile"), "{pulled:?}");
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: site\ndata:\n  a: b\n";
    pulled.spec.resources.insert("site.yaml".to_owned(), map.to_owned());
    let saved = files.replace("edge.web.v1", &PostParams::default(), &pulled).await?;
    let status = saved.status.clone().context("the functions ran")?.render_status.context("a result")?;
    assert_eq!(status.error.as_deref(), Some(""));
    ensure!(remotes.file("edge", "drafts/web/v1", "web/site.yaml")?.contains("a: b"));
    let (code, text) = refusal(files.replace("edge.web.v1", &PostParams::default(), &stale).await)?;
    ensure!(code == 409 && text.contains("the object has been modified"), "{code} {text}");
    let mut broken = saved.clone();
    let pipeline = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: web\npipeline:\n  mutators:\n  - image: example.org/none:v1\n";
    broken.spec.resources.insert("Kptfile".to_owned(), pipeline.to_owned());
    let (code, text) = refusal(files.replace("edge.web.v1", &PostParams::default(), &broken).await)?;
    ensure!(
        code == 500 && text.contains("Error rendering package in kpt function pipeline"),
        "{code} {text}"
    );

    // Lifecycle, as an author and as an approver.
    let to = |lifecycle: &str| json!({"spec": {"lifecycle": lifecycle}});
    let merge = |content: &Value| Patch::Merge(content.clone());
    let change = async |lifecycle: &str| {
        revisions.patch("edge.web.v1", &PatchParams::default(), &merge(&to(lifecycle))).await
    };
    let (code, text) = refusal(change("Published").await)?;
    ensure!(code == 422 && text.contains("value can be only updated to Draft,Proposed"), "{code} {text}");
    let refused = approve(&case, "edge.web.v1", &to("Published")).await.err().context("it is a draft")?;
    ensure!(format!("{refused:#}").contains("only Proposed packages can be approved"), "{refused:#}");
    assert_eq!(change("Proposed").await?.spec.lifecycle.as_deref(), Some("Proposed"));
    assert_eq!(approve(&case, "edge.web.v1", &to("Draft")).await?.spec.lifecycle.as_deref(), Some("Draft"));
    change("Proposed").await?;
    let published = approve(&case, "edge.web.v1", &to("Published")).await?;
    assert_eq!(published.spec.revision, Some(1));
    assert_eq!(published.labels().get("kpt.dev/latest-revision").map(String::as_str), Some("true"));
    assert_eq!(published.status.clone().unwrap_or_default().published_by.as_deref(), Some("admin"));
    ensure!(remotes.refs("edge")?.contains(&"web/v1".to_owned()));
    // The head of the branch is a revision at once, as Porch's clients expect.
    let head: PackageRevision = case.get("edge.web.main").await?;
    assert_eq!((head.spec.revision, head.spec.lifecycle.as_deref()), (Some(-1), Some("Published")));

    // The next revision is a copy, and becomes the latest at once.
    let copy = json!({"type": "edit", "edit": {"sourceRef": {"name": "edge.web.v1"}}});
    create(&case, &draft("web", "v2", &copy)?).await?;
    let (code, text) = refusal(create(&case, &draft("web", "v2", &copy)?).await)?;
    ensure!(code == 409 && text.contains("workspaceNames must be unique"), "{code} {text}");
    lifecycle(&case, "edge.web.v2", "Proposed").await?;
    lifecycle(&case, "edge.web.v2", "Published").await?;
    let first: PackageRevision = case.get("edge.web.v1").await?;
    ensure!(!first.labels().contains_key("kpt.dev/latest-revision"), "{:?}", first.labels());

    // A clone, and its upgrade.
    let clone = json!({"type": "clone", "clone": {"upstreamRef": {"upstreamRef": {"name": "catalog.net.coredns.v1"}}}});
    create(&case, &draft("dns", "v1", &clone)?).await?;
    lifecycle(&case, "edge.dns.v1", "Proposed").await?;
    lifecycle(&case, "edge.dns.v1", "Published").await?;
    let (code, text) = refusal(create(&case, &draft("dns", "v9", &clone)?).await)?;
    ensure!(
        code == 500 && text.contains("`clone` cannot create a new revision for package"),
        "{code} {text}"
    );
    remotes.publish("catalog", &[("net/coredns/more.yaml", map)], Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    case.until::<PackageRevision>("the next upstream is read", "catalog.net.coredns.v2", |_| true).await?;
    let upgrade = json!({"type": "upgrade", "upgrade": {
        "oldUpstreamRef": {"name": "catalog.net.coredns.v1"}, "newUpstreamRef": {"name": "catalog.net.coredns.v2"},
        "localPackageRevisionRef": {"name": "edge.dns.v1"}}});
    create(&case, &draft("dns", "v2", &upgrade)?).await?;
    ensure!(files.get("edge.dns.v2").await?.spec.resources.contains_key("more.yaml"));

    // A published revision is not deleted, and none that others are made from.
    let delete = async |name: &str| refusal(revisions.delete(name, &DeleteParams::default()).await);
    let (code, text) = delete("edge.web.v2").await?;
    ensure!(code == 403 && text.contains("must be proposed for deletion"), "{code} {text}");
    lifecycle(&case, "catalog.net.coredns.v1", "DeletionProposed").await?;
    let (code, text) = delete("catalog.net.coredns.v1").await?;
    ensure!(code == 403 && text.contains("it is referenced as upstream by: edge.dns.v"), "{code} {text}");
    lifecycle(&case, "edge.web.v2", "DeletionProposed").await?;
    drop(revisions.delete("edge.web.v2", &DeleteParams::default()).await?);
    ensure!(!remotes.refs("edge")?.contains(&"web/v2".to_owned()));
    ensure!(revisions.get_opt("edge.web.v2").await?.is_none());
    let first: PackageRevision = case.get("edge.web.v1").await?;
    ensure!(first.labels().contains_key("kpt.dev/latest-revision"), "{:?}", first.labels());
    Ok(())
}

/// A save carries out an upgrade, and its dry run shows the files. The locks name trees.
#[tokio::test]
async fn a_draft_is_upgraded_by_a_save() -> Result<()> {
    const UPGRADE: &str = "groundwork.dev/upgrade";
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "package-api-upgrades").await?;
    let remotes = readable(&case).await?;
    let clone = json!({"type": "clone", "clone": {"upstreamRef": {"upstreamRef": {"name": "catalog.net.coredns.v1"}}}});
    create(&case, &draft("dns", "w", &clone)?).await?;
    let next = [("net/coredns/more.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: more\n")];
    remotes.publish("catalog", &next, Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    case.until::<PackageRevision>("the next upstream is read", "catalog.net.coredns.v2", |_| true).await?;

    let files = case.api::<PackageRevisionResources>();
    let read = files.get("edge.dns.w").await?;
    let asking = |task: &str| {
        let mut asked = read.clone();
        asked.metadata.annotations.get_or_insert_default().insert(UPGRADE.to_owned(), task.to_owned());
        asked
    };
    let replace = async |asked: &PackageRevisionResources, dry_run: bool| {
        files.replace(&asked.name_any(), &PostParams { dry_run, ..PostParams::default() }, asked).await
    };
    let to = |name: &str| json!({"newUpstreamRef": {"name": name}}).to_string();
    for (task, code, why) in [
        ("{", 400, UPGRADE),
        ("{}", 400, "newUpstreamRef.name must be given"),
        (&to("catalog.net.coredns.v7"), 422, "catalog.net.coredns.v7"),
    ] {
        let (found, text) = refusal(replace(&asking(task), true).await)?;
        ensure!(found == code && text.contains(why), "{task}: {found} {text}");
    }
    let branch = "drafts/dns/w";
    let head = || git(&remotes.path("edge"), &["rev-parse", branch]);
    let before = head()?;
    let upgrade = asking(&to("catalog.net.coredns.v2"));
    let mut shown = replace(&upgrade, true).await?;
    ensure!(shown.spec.resources.contains_key("more.yaml") && head()? == before, "nothing is written");

    shown.spec.resources.insert("own.txt".to_owned(), "a\n".to_owned());
    shown.metadata = upgrade.metadata.clone();
    let saved = replace(&shown, false).await?;
    ensure!(saved.spec.resources.contains_key("more.yaml") && saved.spec.resources.contains_key("own.txt"));
    let log = git(&remotes.path("edge"), &["log", "-2", "--format=%s", branch])?;
    assert_eq!(log.lines().collect::<Vec<_>>(), ["Rendering package", "Upgrading revision"]);
    let (code, text) = refusal(replace(&upgrade, false).await)?;
    ensure!(code == 409, "{code} {text}");
    let lock = |object: &PackageRevision, is_own: bool| {
        let status = object.status.clone().unwrap_or_default();
        let lock = if is_own { status.self_lock } else { status.upstream_lock };
        lock.and_then(|lock| lock.git).unwrap_or_default()
    };
    let (upstream, made) = (case.get("catalog.net.coredns.v2").await?, case.get("edge.dns.w").await?);
    ensure!(lock(&made, false).reference.as_deref() == Some("net/coredns/v2"), "{made:?}");
    let tree = lock(&made, false).tree;
    ensure!(tree.is_some() && tree == lock(&upstream, true).tree, "{made:?}");

    // A published revision is not changed, but its upgrade is shown.
    lifecycle(&case, "edge.dns.w", "Proposed").await?;
    lifecycle(&case, "edge.dns.w", "Published").await?;
    let mut published = files.get("edge.dns.w").await?;
    let task = [(UPGRADE.to_owned(), to("catalog.net.coredns.v1"))];
    published.metadata.annotations = Some(task.into());
    ensure!(!replace(&published, true).await?.spec.resources.contains_key("more.yaml"));
    let (code, text) = refusal(replace(&published, false).await)?;
    ensure!(code == 500 && text.contains("package must be Draft"), "{code} {text}");
    Ok(())
}

/// A save finishes a draft that a controller has begun, also with the same files. Until then nobody
/// proposes it. A save keeps comments that a program drops.
#[tokio::test]
async fn a_save_finishes_a_draft() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "package-api-making").await?;
    let remotes = readable(&case).await?;
    let mut begun = draft("dns", "w", &json!({"type": "init", "init": {}}))?;
    begun.annotations_mut().insert("groundwork/unfinished".to_owned(), "true".to_owned());
    begun.annotations_mut().insert("mine".to_owned(), "a".to_owned());
    create(&case, &begun).await?;
    let files = case.api::<PackageRevisionResources>();
    let mut read = files.get("edge.dns.w").await?;
    let propose = Patch::Merge(json!({"spec": {"lifecycle": "Proposed"}}));
    let revisions = case.api::<PackageRevision>();
    let (code, text) = refusal(revisions.patch("edge.dns.w", &PatchParams::default(), &propose).await)?;
    ensure!(code == 422 && text.contains("has not saved its changes yet"), "{code} {text}");
    let finishing = [("groundwork/unfinished".to_owned(), "true".to_owned())];
    read.metadata.annotations.get_or_insert_default().extend(finishing);
    let saved = files.replace("edge.dns.w", &PostParams::default(), &read).await?;
    let rendered = saved.status.and_then(|status| status.render_status).context("it was rendered")?;
    assert_eq!(rendered.error.as_deref(), Some(""));
    let made: PackageRevision = case.get("edge.dns.w").await?;
    let annotations: Vec<&str> = made.annotations().keys().map(String::as_str).collect();
    assert_eq!(annotations, ["mine"]);

    // A save by somebody else takes the mark off, too, so that their work is not deleted with it.
    let mut other = begun.clone();
    other.spec.package_name = Some("web".to_owned());
    create(&case, &other).await?;
    let mut read = files.get("edge.web.w").await?;
    read.spec.resources.insert("own.txt".to_owned(), "a\n".to_owned());
    files.replace("edge.web.w", &PostParams::default(), &read).await?;
    let web: PackageRevision = case.get("edge.web.w").await?;
    ensure!(!web.annotations().contains_key("groundwork/unfinished"), "{web:?}");

    let map = |comment: &str, value: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  b: {value}{comment}\n")
    };
    for text in [map(" # why", "one"), map("", "two")] {
        let mut read = files.get("edge.dns.w").await?;
        read.spec.resources.insert("a.yaml".to_owned(), text);
        files.replace("edge.dns.w", &PostParams::default(), &read).await?;
    }
    let text = remotes.file("edge", "drafts/dns/w", "dns/a.yaml")?;
    ensure!(text.contains("b: two # why"), "{text}");
    Ok(())
}

/// Lists, selectors, tables and watches; what kubectl shows.
#[tokio::test]
async fn readers() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "package-api-readers").await?;
    let _remotes = readable(&case).await?;
    let revisions = case.api::<PackageRevision>();
    let init = json!({"type": "init", "init": {}});
    let first = revisions.list(&ListParams::default()).await?;
    let from = first.metadata.resource_version.clone().context("a version")?;
    let events = revisions.watch(&WatchParams::default().labels("tier=edge").timeout(30), &from).await?;
    let mut events = events.boxed();
    create(&case, &draft("a", "w", &init)?).await?;
    let mut next = async || -> Result<WatchEvent<PackageRevision>> {
        let event = tokio::time::timeout(Duration::from_secs(10), events.next()).await?;
        Ok(event.context("the watch has ended")??)
    };
    let WatchEvent::Added(added) = next().await? else { anyhow::bail!("not added") };
    assert_eq!(added.name_any(), "edge.a.w");
    lifecycle(&case, "edge.a.w", "Proposed").await?;
    let WatchEvent::Modified(modified) = next().await? else { anyhow::bail!("not modified") };
    assert_eq!(modified.spec.lifecycle.as_deref(), Some("Proposed"));
    // An object that ceases to be selected is deleted for the watch.
    let relabel = Patch::Merge(json!({"metadata": {"labels": {"tier": "core"}}}));
    revisions.patch("edge.a.w", &PatchParams::default(), &relabel).await?;
    ensure!(matches!(next().await?, WatchEvent::Deleted(_)));

    let names = async |fields: &str| -> Result<Vec<String>> {
        let found = revisions.list(&ListParams::default().fields(fields)).await?;
        Ok(found.items.iter().map(ResourceExt::name_any).collect())
    };
    assert_eq!(names("spec.repository=edge,spec.lifecycle=Proposed").await?, ["edge.a.w"]);
    assert_eq!(names("spec.packageName=net/coredns,spec.revision=1").await?, ["catalog.net.coredns.v1"]);
    assert_eq!(names("metadata.name=edge.a.w").await?, ["edge.a.w"]);
    let (code, text) = refusal(revisions.list(&ListParams::default().fields("spec.other=x")).await)?;
    ensure!(code == 400 && text.contains("is not a known field selector"), "{code} {text}");
    let (code, text) = refusal(revisions.watch(&WatchParams::default(), "1").await.map(drop))?;
    ensure!(code == 410 && text.contains("too old resource version"), "{code} {text}");

    let namespace = ["-n", "package-api-readers"];
    let table = system.kubectl(&[&["get", "packagerevisions"], &namespace[..]].concat()).await?;
    let heading: Vec<&str> = table.lines().next().unwrap_or_default().split_whitespace().collect();
    assert_eq!(
        heading,
        ["NAME", "PACKAGE", "WORKSPACENAME", "REVISION", "LATEST", "LIFECYCLE", "REPOSITORY"]
    );
    let row = table.lines().find(|line| line.starts_with("edge.a.w ")).context("the draft is missing")?;
    assert_eq!(
        row.split_whitespace().collect::<Vec<_>>(),
        ["edge.a.w", "a", "w", "0", "false", "Proposed", "edge"]
    );
    let packages = system.kubectl(&[&["get", "packages.porch.kpt.dev"], &namespace[..]].concat()).await?;
    ensure!(packages.contains("catalog.net.coredns") && packages.contains("LATEST REVISION"), "{packages}");
    let files = system.kubectl(&[&["get", "packagerevisionresources"], &namespace[..]].concat()).await?;
    ensure!(files.contains("FILES"), "{files}");
    let explained = system.kubectl(&["explain", "packagerevisions.spec.lifecycle"]).await?;
    ensure!(explained.contains("Wanted stage"), "{explained}");
    let labelled =
        system.kubectl(&[&["label", "packagerevisions", "edge.a.w", "x=y"], &namespace[..]].concat()).await?;
    ensure!(labelled.contains("labeled"), "{labelled}");
    // Without a type, kubectl sends a strategic merge patch.
    let patch = r#"{"metadata": {"annotations": {"note": "kept"}, "finalizers": []}}"#;
    system
        .kubectl(&[&["patch", "packagerevisions", "edge.a.w", "--patch", patch], &namespace[..]].concat())
        .await?;
    let patched: PackageRevision = case.get("edge.a.w").await?;
    ensure!(patched.annotations().get("note").is_some_and(|note| note == "kept"), "{patched:?}");
    Ok(())
}

/// Returns a task that clones the package `net/coredns` at an address.
fn from_address(address: &str, reference: &str, secret: Option<&str>) -> Value {
    let mut git = json!({"repo": address, "ref": reference, "directory": "net/coredns"});
    if let Some(name) = secret {
        git["secretRef"] = json!({"name": name});
    }
    json!({"type": "clone", "clone": {"upstreamRef": {"type": "git", "git": git}}})
}

/// A clone from an address that no Repository registers is a package as any other; its lock names
/// the address.
#[tokio::test]
async fn a_package_from_an_address() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "package-api-address").await?;
    let remotes = readable(&case).await?;
    remotes.create("elsewhere")?;
    let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: coredns\n";
    remotes.publish("elsewhere", &[("net/coredns/Kptfile", kptfile)], Some("first"))?;
    let address = remotes.path("elsewhere").display().to_string();
    let made = create(&case, &draft("dns", "v1", &from_address(&address, "first", None))?).await?;
    let lock = made.status.clone().and_then(|status| status.upstream_lock).and_then(|lock| lock.git);
    let lock = lock.context("the draft has an upstream")?;
    assert_eq!((lock.repo.as_deref(), lock.reference.as_deref()), (Some(address.as_str()), Some("first")));
    ensure!(remotes.file("edge", "drafts/dns/v1", "dns/Kptfile")?.contains("upstreamLock:"));
    lifecycle(&case, "edge.dns.v1", "Proposed").await?;
    lifecycle(&case, "edge.dns.v1", "Published").await?;
    let again = create(&case, &draft("dns", "v2", &from_address(&address, "first", None))?).await;
    let (_, text) = refusal(again)?;
    ensure!(text.contains("make subsequent revisions using `copy`"), "{text}");
    for (address, reference, expected) in [
        (address.as_str(), "second", "ref is \"second\", but the repository has no such tag or branch"),
        (
            "oci://registry.example/a",
            "v1",
            "clone.upstreamRef.git.repo: addresses of this kind (oci) are not allowed",
        ),
        (
            "https://me:canary@git.example/a.git",
            "v1",
            "clone.upstreamRef.git.repo contains a user name or password",
        ),
    ] {
        let answer = create(&case, &draft("web", "v1", &from_address(address, reference, None))?).await;
        let (code, text) = refusal(answer)?;
        ensure!(
            code == 422 && text.contains(expected) && !text.contains("canary"),
            "{address}: {code} {text}"
        );
    }
    Ok(())
}

/// Rights are those of whoever asks; an unknown field, a dry run and a finalizer have their effect.
#[tokio::test]
async fn writers() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "package-api-writers").await?;
    let remotes = readable(&case).await?;
    let init = json!({"type": "init", "init": {}});

    // An author may write drafts and not approve them.
    let namespace = case.namespace.clone();
    let rules = json!({"rules": [{"apiGroups": ["porch.kpt.dev"], "resources": ["packagerevisions"],
        "verbs": ["get", "list", "create", "update", "patch", "delete"]}]});
    case.create::<Role>("author", &rules).await?;
    system.kubectl(&["create", "serviceaccount", "author", "-n", &namespace]).await?;
    let subject = format!("--serviceaccount={namespace}:author");
    system.kubectl(&["create", "rolebinding", "author", "-n", &namespace, "--role=author", &subject]).await?;
    let author: Client = system.plane.service_account_client(&namespace, "author").await?;
    let of_author = kube::Api::<PackageRevision>::namespaced(author, &namespace);
    wait_for("the author has rights", PATIENCE, async || {
        of_author.list(&ListParams::default()).await.map(drop).map_err(|error| error.to_string())
    })
    .await?;
    of_author.create(&PostParams::default(), &draft("b", "w", &init)?).await?;
    let signature = git(&remotes.path("edge"), &["log", "-1", "--format=%an", "drafts/b/w"])?;
    ensure!(signature.contains(&format!("system:serviceaccount:{namespace}:author")), "{signature}");
    lifecycle(&case, "edge.b.w", "Proposed").await?;
    let publish = Patch::Merge(json!({"spec": {"lifecycle": "Published"}}));
    let answer = of_author.patch_subresource("approval", "edge.b.w", &PatchParams::default(), &publish).await;
    let (code, _) = refusal(answer)?;
    assert_eq!(code, 403);

    // Credentials are sent only for a user who may read their Secret.
    case.create::<Secret>("pull", &json!({"stringData": {"username": "a", "password": "canary"}})).await?;
    let address = remotes.path("elsewhere").display().to_string();
    let theirs = draft("f", "w", &from_address(&address, "main", Some("pull")))?;
    let answer = of_author.create(&PostParams::default(), &theirs).await;
    let (code, text) = refusal(answer)?;
    ensure!(code == 403 && text.contains("needs get on secrets"), "{code} {text}");

    // A dry run writes nothing, and unknown fields are not lost in silence.
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let revisions = case.api::<PackageRevision>();
    assert_eq!(revisions.create(&dry, &draft("c", "w", &init)?).await?.name_any(), "edge.c.w");
    ensure!(!remotes.refs("edge")?.contains(&"drafts/c/w".to_owned()));
    let file = tempfile::NamedTempFile::new()?;
    let mut odd = json!(draft("c", "w", &init)?);
    odd["metadata"]["name"] = json!("edge.c.w");
    odd["spec"]["lifecylce"] = json!("Draft");
    std::fs::write(file.path(), odd.to_string())?;
    let path = file.path().display().to_string();
    let error =
        system.kubectl(&["create", "-n", &namespace, "-f", &path]).await.err().context("it is accepted")?;
    ensure!(format!("{error:#}").contains("unknown field \"spec.lifecylce\""), "{error:#}");

    // A finalizer delays the deletion, and its removal ends it.
    let mut held = draft("d", "w", &init)?;
    held.metadata.finalizers = Some(vec!["example.org/held".to_owned()]);
    create(&case, &held).await?;
    drop(revisions.delete("edge.d.w", &DeleteParams::default()).await?);
    ensure!(revisions.get("edge.d.w").await?.metadata.deletion_timestamp.is_some());
    ensure!(remotes.refs("edge")?.contains(&"drafts/d/w".to_owned()));
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    drop(revisions.patch("edge.d.w", &PatchParams::default(), &free).await);
    ensure!(revisions.get_opt("edge.d.w").await?.is_none());
    ensure!(!remotes.refs("edge")?.contains(&"drafts/d/w".to_owned()));

    // Git keeps the package of an owner that is gone: the garbage collector takes the owner only.
    let owner: ConfigMap = case.create("owner", &json!({})).await?;
    let mut owned = draft("e", "w", &init)?;
    owned.metadata.owner_references =
        Some(vec![k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference {
            api_version: "v1".to_owned(),
            kind: "ConfigMap".to_owned(),
            name: "owner".to_owned(),
            uid: owner.uid().context("a UID")?,
            ..Default::default()
        }]);
    create(&case, &owned).await?;
    case.delete::<ConfigMap>("owner").await?;
    let is_free = |found: &PackageRevision| found.owner_references().is_empty();
    case.until::<PackageRevision>("the owner is taken off", "edge.e.w", is_free).await?;
    ensure!(remotes.refs("edge")?.contains(&"drafts/e/w".to_owned()));

    // The account of the store registers no other API.
    let store = system.plane.service_account_client("groundwork-system", "groundwork-variant").await?;
    let other: APIService = serde_json::from_value(json!({"metadata": {"name": "v1.example.org"}, "spec": {
        "group": "example.org", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
        "insecureSkipTLSVerify": true, "service": {"name": "x", "namespace": "default", "port": 443}}}))?;
    let answer = kube::Api::<APIService>::all(store).create(&PostParams::default(), &other).await;
    let (code, text) = refusal(answer)?;
    ensure!(code == 403 && text.contains("registers the API v1alpha1.porch.kpt.dev only"), "{code} {text}");

    // A client that goes around the API server gets no answer.
    let mut config = Config::new(format!("https://127.0.0.1:{}", package_api_port(&case).await?).parse()?);
    config.accept_invalid_certs = true;
    let direct = Client::try_from(config)?;
    let direct = kube::Api::<PackageRevision>::namespaced(direct, &namespace);
    let (code, text) = refusal(direct.list(&ListParams::default()).await)?;
    ensure!(code == 401 && text.contains("answers the API server of its cluster only"), "{code} {text}");
    Ok(())
}

/// Returns the port to which the API server passes requests on.
async fn package_api_port(case: &Case<'_>) -> Result<u16> {
    let shown = case.system.kubectl(&["get", "apiservice", "v1alpha1.porch.kpt.dev", "-o", "json"]).await?;
    let service: Value = serde_json::from_str(&shown)?;
    let port = service["spec"]["service"]["port"].as_u64().context("a port")?;
    Ok(u16::try_from(port)?)
}

/// The custom resources of an earlier version become records, and nothing of them is lost.
#[tokio::test]
async fn an_earlier_version_is_taken_over() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let options = SystemOptions { package_store: Some(folder.path().to_owned()), ..SystemOptions::default() };
    let Some(mut system) = System::servers(options).await? else { return Ok(()) };
    let file = folder.path().join("definition.json");
    std::fs::write(&file, serde_json::to_string(&groundwork_api::package_revision_crd())?)?;
    let file = file.display().to_string();
    system.kubectl(&["apply", "--server-side", "-f", &file]).await?;
    system.kubectl(&["wait", "--for=condition=Established", "-f", &file]).await?;
    let case = Case::new(&system, "package-api-earlier").await?;
    let remotes = Remotes::new()?;
    remotes.create("edge")?;
    let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: dns\n";
    remotes.publish("edge", &[("dns/Kptfile", kptfile)], Some("dns/v1"))?;
    register(&case, &remotes, "edge", false).await?;
    let content = json!({
        "metadata": {"labels": {"tier": "edge"}, "annotations": {"a": "b"}, "finalizers": ["groundwork/package-store"]},
        "spec": {"packageName": "dns", "repository": "edge", "workspaceName": "v1", "lifecycle": "Published", "revision": 1},
    });
    wait_for("the definition is served", PATIENCE, async || {
        case.create::<PackageRevision>("edge.dns.v1", &content)
            .await
            .map(drop)
            .map_err(|error| format!("{error:#}"))
    })
    .await?;
    let before = remotes.refs("edge")?;
    drop(case);
    system.run("watcher").await?;
    system.run("variant").await?;
    // The service waits for a while whether one of the earlier version is still at work.
    wait_for("the service is ready", Duration::from_secs(180), async || {
        system.until_ready("variant").await.map_err(|error| format!("{error:#}"))
    })
    .await?;
    let case = Case::existing(&system, "package-api-earlier").await?;
    let is_taken_over = |found: &PackageRevision| {
        found.labels().get("tier").is_some_and(|tier| tier == "edge")
            && found.annotations().get("a").is_some_and(|value| value == "b")
            && found.finalizers().is_empty()
            && found.spec.revision == Some(1)
    };
    case.until::<PackageRevision>("it is served with all that it had", "edge.dns.v1", is_taken_over).await?;
    let definitions = system.kubectl(&["get", "customresourcedefinitions", "-o", "name"]).await?;
    ensure!(!definitions.contains("packagerevisions.porch.kpt.dev"), "{definitions}");
    assert_eq!(remotes.refs("edge")?, before);
    Ok(())
}
