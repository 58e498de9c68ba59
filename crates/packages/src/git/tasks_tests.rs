//! Tests of tasks with real remotes (`packagevariants.md` 2.8, 6.6 to 6.8).

use std::sync::Arc;

use groundwork_api::{GitPackage, InitTask, Lifecycle};
use groundwork_krm::Strategy;

use crate::git::access::Access;
use crate::git::error::StoreError;
use crate::git::message::Owner;
use crate::git::revision::Revision;
use crate::git::settings::Settings;
use crate::git::tasks::{NewDraft, Original, Source, Update};
use crate::git::testing::{World, git, pat};
use crate::git::visit::Address;

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: coredns\n";

fn config(cache: &str, zone: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: corefile\ndata:\n  cache: \"{cache}\"\n  zone: {zone}\n"
    )
}

/// Returns a catalog with two versions of a package, and an empty deployment repository.
fn world() -> World {
    let world = World::new();
    world.repository(
        "catalog",
        &[("net/coredns/Kptfile", KPTFILE), ("net/coredns/config.yaml", &config("30", "a"))],
    );
    let folder = world.checkout("catalog");
    git(&folder, &["tag", "net/coredns/v1"]);
    world.publish("catalog", &[("net/coredns/config.yaml", &config("60", "a"))]);
    git(&folder, &["tag", "net/coredns/v2"]);
    git(&folder, &["push", "-q", "--tags", "origin"]);
    world.store.repository("fleet", "catalog").unwrap().sync().unwrap();
    world.repository("edge", &[("README.md", "x")]);
    world.store.unregister("fleet", "edge");
    world.register(Settings { deployment: true, ..world.settings("edge") }).unwrap();
    world
}

fn new(workspace: &str, source: Source) -> NewDraft {
    NewDraft {
        namespace: "fleet".to_owned(),
        repository: "edge".to_owned(),
        package: "net/dns".to_owned(),
        workspace: workspace.to_owned(),
        source,
        owner: Some(Owner { kind: "PackageVariant".into(), namespace: "fleet".into(), name: "pv".into() }),
    }
}

fn clone(world: &World) -> Arc<Revision> {
    let source = Source::Clone { upstream: "catalog.net.coredns.v1".to_owned() };
    world.store.stage(&new("packagevariant-1", source)).unwrap().commit(&pat()).unwrap().revision
}

fn update(original: Original) -> Update {
    Update { original, upstream: "catalog.net.coredns.v2".to_owned(), strategy: Strategy::ResourceMerge }
}

fn files(world: &World, revision: &Revision) -> groundwork_krm::Package {
    world.store.repository("fleet", "edge").unwrap().content(revision).unwrap().texts
}

/// Returns a clone of a package that no Repository registers.
fn visit(world: &World, reference: &str, directory: &str) -> Source {
    let text = |text: &str| Some(text.to_owned());
    let package = GitPackage {
        repo: world.remote("elsewhere").to_str().map(str::to_owned),
        reference: text(reference),
        directory: text(directory),
        ..GitPackage::default()
    };
    Source::Visit(Box::new(Address { package, access: Access::default() }))
}

#[test]
fn packages_of_unregistered_addresses_are_cloned() {
    let world = world();
    world.repository(
        "elsewhere",
        &[
            ("apps/web/Kptfile", KPTFILE),
            ("apps/web/a.yaml", "apiVersion: v1\nkind: A\nmetadata:\n  name: a\n"),
        ],
    );
    world.store.unregister("fleet", "elsewhere");
    let folder = world.checkout("elsewhere");
    std::fs::write(folder.join("apps/web/logo"), [0xff, 0]).unwrap();
    git(&folder, &["add", "-A"]);
    git(&folder, &["commit", "-qm", "with a picture"]);
    git(&folder, &["tag", "-a", "-m", "first", "v1"]);
    git(&folder, &["push", "-q", "--tags", "origin", "HEAD:main"]);
    let commit = git(&folder, &["rev-parse", "HEAD"]).trim().to_owned();

    let made = world.store.stage(&new("one", visit(&world, "v1", "/apps/web/"))).unwrap();
    let made = made.commit(&pat()).unwrap().revision;
    let lock = made.facts.description.upstream_lock.as_ref().unwrap().git.as_ref().unwrap();
    assert_eq!(lock.commit, Some(commit.clone()));
    assert_eq!((lock.reference.as_deref(), lock.directory.as_deref()), (Some("v1"), Some("apps/web")));
    let edge = world.store.repository("fleet", "edge").unwrap();
    let files = edge.files(&made).unwrap();
    assert_eq!(files["logo"], [0xff, 0]);
    assert!(files.contains_key("a.yaml") && files.contains_key("package-context.yaml"), "{files:?}");
    let object = made.object(&edge.settings().place());
    let clone = object.spec.tasks[0].clone.as_ref().unwrap().upstream_ref.as_ref().unwrap();
    assert_eq!(clone.git.as_ref().unwrap().reference.as_deref(), Some("v1"));

    // A branch and a commit lead to the same content.
    for (workspace, reference) in [("two", "main"), ("three", commit.as_str())] {
        let staged = world.store.stage(&new(workspace, visit(&world, reference, "apps/web")));
        assert!(staged.unwrap().files().contains_key("a.yaml"), "{reference}");
    }
    for (reference, directory, expected) in [
        ("v2", "apps/web", "clone.upstreamRef.git.ref is \"v2\", but the repository has no such tag"),
        ("v1", "apps/none", "clone.upstreamRef.git.directory is \"apps/none\", but v1 has no such directory"),
        ("v1", "apps", "is missing Kptfile"),
        ("", "apps/web", "git.ref"),
    ] {
        let refused = world.store.stage(&new("four", visit(&world, reference, directory))).unwrap_err();
        assert!(refused.to_string().contains(expected), "{reference} {directory}: {refused}");
    }
    // The store keeps nothing of an address.
    let left = std::fs::read_dir(world.folder().join("store")).unwrap().flatten();
    let left: Vec<_> =
        left.filter(|entry| entry.file_name().to_string_lossy().starts_with("visit-")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn clones_know_where_they_come_from() {
    let world = world();
    let cloned = clone(&world);
    assert_eq!(cloned.lifecycle, Lifecycle::Draft);
    let lock = cloned.facts.description.upstream_lock.as_ref().unwrap().git.as_ref().unwrap();
    let upstream = world.store.revision("fleet", "catalog.net.coredns.v1").unwrap().1;
    assert_eq!(lock.reference.as_deref(), Some("net/coredns/v1"));
    assert_eq!(lock.commit, Some(upstream.commit.to_string()));
    assert_eq!(lock.directory.as_deref(), Some("net/coredns"));
    assert_eq!(cloned.facts.owner.as_ref().unwrap().name, "pv");
    let files = files(&world, &cloned);
    assert!(files["Kptfile"].contains("name: dns\n"), "{}", files["Kptfile"]);
    assert!(files["package-context.yaml"].contains("package-path: net/dns"));
    assert!(files["config.yaml"].contains("metadata: # kpt-merge: /corefile"));
    // One push with one commit.
    let count = git(&world.remote("edge"), &["rev-list", "--count", "main..drafts/net/dns/packagevariant-1"]);
    assert_eq!(count, "1");
}

#[test]
fn drafts_take_the_next_version_in() {
    let world = world();
    let cloned = clone(&world);
    let mut own = files(&world, &cloned);
    own.insert("config.yaml".into(), own["config.yaml"].replace("zone: a", "zone: ours"));
    let saved = world
        .store
        .stage_save("fleet", &cloned.name, &cloned.version(), own)
        .unwrap()
        .commit(&pat())
        .unwrap()
        .revision;
    let original = Original::Revision("catalog.net.coredns.v1".to_owned());
    let staged = world.store.stage_update("fleet", &saved.name, &saved.version(), &update(original)).unwrap();
    let updated = staged.commit(&pat()).unwrap().revision;
    let read = files(&world, &updated);
    assert!(read["config.yaml"].contains("cache: \"60\"") && read["config.yaml"].contains("zone: ours"));
    assert!(read["Kptfile"].contains("ref: net/coredns/v2"));
    // The draft keeps the task of its clone.
    assert_eq!(updated.facts.task.as_ref().unwrap().type_, "clone");
    let message =
        git(&world.remote("edge"), &["log", "-1", "--format=%B", "drafts/net/dns/packagevariant-1"]);
    assert!(message.contains("groundwork:{\"updated\":{\"from\":\"net/coredns/v1\",\"to\":\"net/coredns/v2\",\"strategy\":\"resource-merge\"}}"), "{message}");
    // A save with the old version of the draft fails.
    let late = world.store.stage_save("fleet", &saved.name, &saved.version(), read);
    assert!(matches!(late, Err(StoreError::Conflict)));
}

#[test]
fn published_revisions_are_followed_by_others() {
    let world = world();
    let cloned = clone(&world);
    let to = |revision: &Revision, lifecycle| {
        world.store.set_lifecycle("fleet", &revision.name, &revision.version(), lifecycle, &pat())
    };
    let early = to(&cloned, Lifecycle::Published).unwrap_err();
    assert_eq!(
        early.to_string(),
        "cannot approve package with Draft lifecycle value; only Proposed packages can be approved"
    );
    let edit = |source: &str| world.store.stage(&new("w2", Source::Edit { source: source.to_owned() }));
    assert_eq!(edit(&cloned.name).unwrap_err().to_string(), "source revision must be published");
    let proposed = to(&cloned, Lifecycle::Proposed).unwrap();
    assert!(matches!(to(&cloned, Lifecycle::Published), Err(StoreError::Conflict)), "the version counts");
    let published = to(&proposed, Lifecycle::Published).unwrap();
    assert_eq!((published.number, published.lifecycle), (1, Lifecycle::Published));

    let again = Source::Clone { upstream: "catalog.net.coredns.v2".to_owned() };
    assert!(matches!(world.store.stage(&new("w2", again)), Err(StoreError::DownstreamExists(_))));
    let upgrade = Source::Upgrade {
        local: published.name.clone(),
        update: update(Original::Revision("catalog.net.coredns.v1".to_owned())),
    };
    let upgraded =
        world.store.stage(&new("packagevariant-2", upgrade)).unwrap().commit(&pat()).unwrap().revision;
    assert!(files(&world, &upgraded)["config.yaml"].contains("cache: \"60\""));
    assert_eq!(upgraded.facts.task.as_ref().unwrap().type_, "upgrade");
    let edited = edit(&published.name).unwrap().commit(&pat()).unwrap().revision;
    assert_eq!(edited.directory, published.directory, "an edit begins with the same content");
    let proposed = to(&edited, Lifecycle::Proposed).unwrap();
    assert_eq!(to(&proposed, Lifecycle::Published).unwrap().number, 2);
    // A published revision cannot be deleted; one whose deletion is proposed can.
    let delete =
        |revision: &Revision| world.store.delete("fleet", &revision.name, &revision.version(), &pat());
    assert!(matches!(delete(&published), Err(StoreError::Refused(_))));
    let marked = to(&published, Lifecycle::DeletionProposed).unwrap();
    delete(&marked).unwrap();
    delete(&upgraded).unwrap();
    assert_eq!(world.refs("edge"), ["refs/heads/main", "refs/tags/net/dns/v2"]);
}

/// A preview of an upgrade writes nothing, whatever the lifecycle. The upgrade then has files that
/// its caller has changed.
#[test]
fn upgrades_are_previewed() {
    let world = world();
    let cloned = clone(&world);
    let original = || Original::Revision("catalog.net.coredns.v1".to_owned());
    let preview = || world.store.preview_update("fleet", &cloned.name, &update(original())).unwrap();
    let (content, status) = preview();
    assert!(content.texts["config.yaml"].contains("cache: \"60\""));
    assert_eq!(status.error, None);
    assert_eq!(world.store.revision("fleet", &cloned.name).unwrap().1.version(), cloned.version());
    let mut staged =
        world.store.stage_update("fleet", &cloned.name, &cloned.version(), &update(original())).unwrap();
    let mut changed = content.texts;
    changed.insert("own.txt".into(), "a\n".into());
    staged.set_files(changed);
    let updated = staged.commit(&pat()).unwrap().revision;
    assert_eq!(newest_headlines(&world), ["Upgrading revision", "Rendering package"]);
    assert!(files(&world, &updated).contains_key("own.txt"));
    let to = |revision: &Revision, lifecycle| {
        world.store.set_lifecycle("fleet", &revision.name, &revision.version(), lifecycle, &pat()).unwrap()
    };
    let published = to(&to(&updated, Lifecycle::Proposed), Lifecycle::Published);
    assert!(world.store.preview_update("fleet", &published.name, &update(original())).is_ok());
}

/// Returns the headlines of the draft's newest two commits, oldest first.
fn newest_headlines(world: &World) -> Vec<String> {
    let log = ["log", "-2", "--reverse", "--format=%s", "drafts/net/dns/packagevariant-1"];
    git(&world.remote("edge"), &log).lines().map(str::to_owned).collect()
}

/// The save that finishes a new draft counts as made by the store, so an upgrade may delete its
/// files; a save by people does not.
#[test]
fn a_draft_is_finished_by_a_save() {
    for (is_making, is_deleted) in [(true, true), (false, false)] {
        let world = world();
        let folder = world.checkout("catalog");
        git(&folder, &["checkout", "-q", "--detach", "net/coredns/v1"]);
        let object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: goes\n";
        std::fs::write(folder.join("net/coredns/goes.yaml"), object).unwrap();
        git(&folder, &["add", "."]);
        git(&folder, &["commit", "-q", "-m", "goes"]);
        git(&folder, &["tag", "-f", "net/coredns/v1"]);
        git(&folder, &["push", "-q", "-f", "--tags", "origin"]);
        world.store.repository("fleet", "catalog").unwrap().sync().unwrap();
        let cloned = clone(&world);
        let mut own = files(&world, &cloned);
        own.insert("goes.yaml".into(), format!("{object}data:\n  site: edge\n"));
        let staged = world.store.stage_save("fleet", &cloned.name, &cloned.version(), own).unwrap();
        let saved = staged.making(is_making).commit(&pat()).unwrap().revision;
        let original = Original::Revision("catalog.net.coredns.v1".to_owned());
        let (content, status) = world.store.preview_update("fleet", &saved.name, &update(original)).unwrap();
        assert_eq!(content.texts.contains_key("goes.yaml"), !is_deleted);
        let results = status.result.map(|results| results.items.to_vec()).unwrap_or_default();
        let is_told = results.iter().any(|result| result.exec.as_deref() == Some("resource-merge"));
        assert_eq!(is_told, !is_deleted, "{results:?}");
    }
}

/// A lock names the same tree as the revision that it was taken from, as long as a repository of
/// the namespace has the commit.
#[test]
fn locks_name_trees() {
    let world = world();
    let cloned = clone(&world);
    let lock = cloned.facts.description.upstream_lock.clone().unwrap().git.unwrap();
    let (_, upstream) = world.store.revision("fleet", "catalog.net.coredns.v1").unwrap();
    let edge = world.store.repository("fleet", "edge").unwrap();
    assert_eq!(edge.tree_of(&lock), Some(upstream.directory.to_string()));
    let unknown = groundwork_api::GitLock { commit: Some("0".repeat(40)), ..lock.clone() };
    assert_eq!(edge.tree_of(&unknown), None);
    world.store.unregister("fleet", "catalog");
    assert_eq!(edge.tree_of(&lock), None);
}

/// The tag was moved, so the base of the package is read from its commit.
#[test]
fn upgrades_from_a_commit_that_no_tag_names() {
    let world = world();
    let cloned = clone(&world);
    let lock = cloned.facts.description.upstream_lock.clone().unwrap().git.unwrap();
    git(&world.checkout("catalog"), &["push", "-q", "origin", ":refs/tags/net/coredns/v1"]);
    world.store.repository("fleet", "catalog").unwrap().sync().unwrap();
    let original = Original::Commit {
        url: lock.repo.unwrap(),
        directory: lock.directory.unwrap(),
        reference: lock.reference.unwrap(),
        commit: lock.commit.unwrap(),
    };
    let staged =
        world.store.stage_update("fleet", &cloned.name, &cloned.version(), &update(original)).unwrap();
    assert!(staged.files()["config.yaml"].contains("cache: \"60\""));
    let gone = Original::Commit {
        url: "https://git.example/none".into(),
        directory: "a".into(),
        reference: "a/v1".into(),
        commit: "0".repeat(40),
    };
    let error =
        world.store.stage_update("fleet", &cloned.name, &cloned.version(), &update(gone)).unwrap_err();
    assert!(matches!(error, StoreError::NotFound(_)), "{error}");
}

#[test]
fn packages_do_not_nest_and_functions_are_not_skipped() {
    let world = world();
    clone(&world);
    let init = |package: &str, workspace: &str| {
        let source = Source::Init(InitTask::default());
        world.store.stage(&NewDraft { package: package.to_owned(), ..new(workspace, source) })
    };
    assert_eq!(
        init("net", "w").unwrap_err().to_string(),
        "package path \"net\" conflicts with existing package \"net/dns\": packages cannot be nested"
    );
    assert!(init("net/dns/sub", "w").is_err());
    assert!(init("net/dns2", "w").is_ok());
    assert!(matches!(init("net/dns", "packagevariant-1"), Err(StoreError::AlreadyExists(_))));
    let mut staged = init("web", "w").unwrap();
    let mut with_function = staged.files().clone();
    with_function
        .get_mut("Kptfile")
        .unwrap()
        .push_str("pipeline:\n  mutators:\n  - image: example.org/mine:v1\n");
    staged.set_files(with_function);
    let error = staged.commit(&pat()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "package \".\": function \"example.org/mine:v1\": function \"example.org/mine:v1\" is not available: no container \
         runtime is configured and it is not built in"
    );
    assert!(world.store.revision("fleet", "edge.web.w").is_err(), "nothing is left behind");
}
