//! Tests of repositories with real remotes (`packagevariants.md` 6.3 to 6.5, 6.12).

use groundwork_api::{Lifecycle, RenderStatus, Task};

use crate::git::access::Credentials;
use crate::git::draft::{Rendered, Staged};
use crate::git::error::StoreError;
use crate::git::objects::Content;
use crate::git::repository::GitRepository;
use crate::git::revision::Revision;
use crate::git::testing::{World, git, pat};
use std::sync::Arc;

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n";

fn content(files: &[(&str, &str)]) -> Content {
    let texts = files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
    Content {
        texts: texts.chain([("Kptfile".to_owned(), KPTFILE.to_owned())]).collect(),
        ..Content::default()
    }
}

fn draft(
    repository: &Arc<GitRepository>,
    package: &str,
    workspace: &str,
    files: &[(&str, &str)],
) -> Arc<Revision> {
    stage(repository, package, workspace, files).commit(&pat()).unwrap().revision
}

fn stage(repository: &Arc<GitRepository>, package: &str, workspace: &str, files: &[(&str, &str)]) -> Staged {
    let task = Task { type_: "init".to_owned(), ..Task::default() };
    Staged::create(repository, package, workspace, unrendered(content(files)), task, None)
}

fn unrendered(content: Content) -> Rendered {
    Rendered { content, status: RenderStatus::default() }
}

fn listing(repository: &GitRepository) -> Vec<String> {
    let line = |found: &Arc<Revision>| {
        format!("{} {} {} {}", found.name, found.number, found.lifecycle.as_str(), found.short_reference)
    };
    repository.snapshot().revisions.values().map(line).collect()
}

/// Refs created directly, as a user or a Porch server does.
#[test]
fn revisions_follow_from_refs() {
    let world = World::new();
    let repository = world.repository(
        "catalog",
        &[
            ("net/coredns/Kptfile", KPTFILE),
            ("net/coredns/sub/Kptfile", KPTFILE),
            ("web/Kptfile", KPTFILE),
            ("README.md", "x"),
            ("Not_a_name/Kptfile", KPTFILE),
        ],
    );
    let folder = world.checkout("catalog");
    for tag in ["net/coredns/v4", "net/coredns/stable", "web/v4.0.0", "v1", "nothing/v1"] {
        git(&folder, &["tag", tag]);
    }
    git(&folder, &["tag", "-a", "-m", "x", "web/v2"]);
    for branch in
        ["drafts/web/ws-1", "proposed/web/ws-2", "deletionProposed/net/coredns/v4", "feature", "drafts/alone"]
    {
        git(&folder, &["branch", branch]);
    }
    git(
        &folder,
        &[
            "push",
            "-q",
            "--tags",
            "origin",
            "drafts/web/ws-1",
            "proposed/web/ws-2",
            "deletionProposed/net/coredns/v4",
            "feature",
            "drafts/alone",
        ],
    );
    repository.sync().unwrap();
    assert_eq!(
        listing(&repository),
        [
            "catalog.net.coredns.main -1 Published main",
            "catalog.net.coredns.stable -1 Published net/coredns/stable",
            "catalog.net.coredns.v4 4 DeletionProposed net/coredns/v4",
            "catalog.web.main -1 Published main",
            "catalog.web.v2 2 Published web/v2",
            "catalog.web.v4.0.0 -1 Published web/v4.0.0",
            "catalog.web.ws-1 0 Draft drafts/web/ws-1",
            "catalog.web.ws-2 0 Proposed proposed/web/ws-2",
        ]
    );
    assert_eq!(
        repository.snapshot().problems,
        [
            "refs/heads/drafts/alone: invalid draft ref name; missing workspaceName suffix",
            "main: \"catalog.Not_a_name.main\" cannot be the name of a package revision: packages and tags are lower-case \
             letters, digits, \"-\" and \".\"",
        ]
    );
    // An annotated tag stands for the commit that it points to.
    let head = git(&folder, &["rev-parse", "HEAD"]);
    assert!(repository.snapshot().revisions.values().all(|found| format!("{}", found.commit) == head));
}

/// From draft to published to deleted, with each step checked by the refs that other clients see.
#[test]
fn the_life_of_a_revision() {
    let world = World::new();
    let repository = world.repository("blue", &[("other/Kptfile", KPTFILE)]);
    let first = draft(&repository, "net/dns", "packagevariant-1", &[("a/b.txt", "one")]);
    assert_eq!((first.lifecycle, first.number), (Lifecycle::Draft, 0));
    assert_eq!(world.refs("blue"), ["refs/heads/drafts/net/dns/packagevariant-1", "refs/heads/main"]);
    let remote = world.remote("blue");
    assert_eq!(git(&remote, &["show", "drafts/net/dns/packagevariant-1:net/dns/a/b.txt"]), "one");
    assert_eq!(
        git(&remote, &["log", "-1", "--format=%an|%B", "drafts/net/dns/packagevariant-1"]),
        "pat|Creating new empty revision\n\nkpt:{\"package\":\"net/dns\",\"workspaceName\":\"packagevariant-1\",\
         \"revision\":\"0\",\"task\":{\"type\":\"init\"}}"
    );
    let saved = world
        .store
        .stage_save("fleet", &first.name, &first.version(), content(&[("a/b.txt", "two")]).texts)
        .unwrap()
        .commit(&pat())
        .unwrap()
        .revision;
    assert_ne!(saved.commit, first.commit);
    assert_eq!(saved.facts.task.as_ref().unwrap().type_, "init");

    repository.move_draft(&saved, true).unwrap();
    let proposed = repository.revision(&saved.name).unwrap();
    assert_eq!(proposed.lifecycle, Lifecycle::Proposed);
    assert_eq!(proposed.commit, saved.commit);
    repository.approve(&proposed, 1, &pat()).unwrap();
    let published = repository.revision(&saved.name).unwrap();
    assert_eq!((published.lifecycle, published.number), (Lifecycle::Published, 1));
    assert_eq!(published.facts.published.as_ref().unwrap().0, "pat");
    assert_eq!(published.facts.task.as_ref().unwrap().type_, "init");
    assert_eq!(world.refs("blue"), ["refs/heads/main", "refs/tags/net/dns/v1"]);
    assert_eq!(git(&remote, &["show", "main:net/dns/a/b.txt"]), "two");
    assert_eq!(git(&remote, &["show", "main:other/Kptfile"]), KPTFILE.trim_end());
    assert_eq!(git(&remote, &["log", "-1", "--format=%s", "main"]), "Approving package revision net/dns/1");

    repository.mark_for_deletion(&published, true).unwrap();
    let marked = repository.revision(&saved.name).unwrap();
    assert_eq!(marked.lifecycle, Lifecycle::DeletionProposed);
    repository.mark_for_deletion(&marked, false).unwrap();
    repository.mark_for_deletion(&repository.revision(&saved.name).unwrap(), true).unwrap();
    repository.remove(&repository.revision(&saved.name).unwrap(), &pat()).unwrap();
    assert_eq!(world.refs("blue"), ["refs/heads/main"]);
    // The number is not used again.
    let marks = repository.snapshot().marks_of("", "net/dns");
    assert_eq!(marks.revision, 1);
    let placeholder = repository.revision("blue.net.dns.main").unwrap();
    repository.remove(&placeholder, &pat()).unwrap();
    assert_eq!(git(&remote, &["ls-tree", "--name-only", "main"]), "other");
}

/// V-store: changes by another process are never overwritten.
#[test]
fn others_are_not_overwritten() {
    let world = World::new();
    let repository = world.repository("blue", &[("other/Kptfile", KPTFILE)]);
    let other = world.other_store("second");
    let other_repository = other.register(world.settings("blue"), crate::git::Credentials::None).unwrap();
    other_repository.sync().unwrap();

    // Two drafts with the same name.
    draft(&repository, "p", "w", &[("x", "1")]);
    let error = stage(&other_repository, "p", "w", &[("x", "2")]).commit(&pat()).unwrap_err();
    assert_eq!(error.to_string(), "package revision \"blue.p.w\" already exists");
    assert!(matches!(error, StoreError::AlreadyExists(_)));

    // Two changes of one draft: the second one fails, and its process then knows the first.
    let seen = repository.revision("blue.p.w").unwrap();
    let save = |store: &crate::git::Store, text: &str| {
        let files = content(&[("x", text)]).texts;
        store.stage_save("fleet", "blue.p.w", &seen.version(), files).unwrap()
    };
    let (mine, theirs) = (save(&world.store, "mine"), save(&other, "theirs"));
    theirs.commit(&pat()).unwrap();
    assert!(matches!(mine.commit(&pat()), Err(StoreError::Conflict)));
    let files = world.store.stage_save("fleet", "blue.p.w", &seen.version(), content(&[]).texts);
    assert!(matches!(files, Err(StoreError::Conflict)));
    let now = repository.revision("blue.p.w").unwrap();
    assert_eq!(repository.content(&now).unwrap().texts["x"], "theirs");

    // Two concurrent approvals move the branch, and both succeed.
    let second = draft(&repository, "q", "w", &[]);
    repository.move_draft(&second, true).unwrap();
    repository.move_draft(&now, true).unwrap();
    other_repository.sync().unwrap();
    repository.approve(&repository.revision("blue.q.w").unwrap(), 1, &pat()).unwrap();
    other_repository.approve(&other_repository.revision("blue.p.w").unwrap(), 1, &pat()).unwrap();
    assert_eq!(git(&world.remote("blue"), &["ls-tree", "--name-only", "main"]), "other\np\nq");
    // The slower of the two fails, since the revision is gone.
    let stale = repository.approve(&now, 1, &pat());
    assert!(matches!(stale, Err(StoreError::Conflict)), "{stale:?}");
}

/// The table of the traces of incomplete pushes.
#[test]
fn halves_of_pushes_are_cleared_away() {
    let world = World::new();
    let repository = world.repository("blue", &[("other/Kptfile", KPTFILE)]);
    let proposed = draft(&repository, "p", "w", &[]);
    repository.move_draft(&proposed, true).unwrap();
    repository.approve(&repository.revision("blue.p.w").unwrap(), 1, &pat()).unwrap();
    let remote = world.remote("blue");
    let commit = proposed.commit.to_string();
    // State after an approval that ended before it created the tag and deleted the proposed ref.
    git(&remote, &["tag", "-d", "p/v1"]);
    git(&remote, &["branch", "proposed/p/w", &commit]);
    git(&remote, &["branch", "deletionProposed/p/v7", &commit]);
    repository.sync().unwrap();
    assert_eq!(world.refs("blue"), ["refs/heads/main", "refs/tags/p/v1"]);
    assert_eq!(repository.revision("blue.p.w").unwrap().lifecycle, Lifecycle::Published);
    // A proposed ref that is left beside the tag.
    git(&remote, &["branch", "proposed/p/w", &commit]);
    repository.sync().unwrap();
    assert_eq!(world.refs("blue"), ["refs/heads/main", "refs/tags/p/v1"]);
    // Draft and proposed refs at the same commit, and at different ones.
    let draft_commit = draft(&repository, "q", "w", &[]).commit.to_string();
    git(&remote, &["branch", "proposed/q/w", &draft_commit]);
    git(
        &remote,
        &["branch", "proposed/r/w", &draft(&repository, "r", "w", &[("x", "1")]).commit.to_string()],
    );
    git(&remote, &["update-ref", "refs/heads/drafts/r/w", &commit]);
    repository.sync().unwrap();
    assert_eq!(repository.revision("blue.q.w").unwrap().lifecycle, Lifecycle::Proposed);
    assert!(repository.revision("blue.r.w").is_err());
    assert_eq!(
        repository.snapshot().problems,
        ["package revision blue.r.w has both a draft and a proposed branch"]
    );
}

#[test]
fn branches_that_are_missing() {
    let world = World::new();
    // The first draft of an empty repository has no parent.
    let repository = world.repository("empty", &[]);
    let first = draft(&repository, "p", "w", &[]);
    repository.move_draft(&first, true).unwrap();
    repository.approve(&repository.revision("empty.p.w").unwrap(), 1, &pat()).unwrap();
    assert_eq!(world.refs("empty"), ["refs/heads/main", "refs/tags/p/v1"]);

    let other = crate::git::Settings { branch: "release".into(), ..world.settings("empty") };
    let error = world.register(crate::git::Settings { name: "two".into(), ..other.clone() }).unwrap_err();
    assert_eq!(
        error.to_string(),
        "branch \"release\" does not exist in the repository, which has the branch \"main\": name a branch in spec.git.branch, or let \
         spec.git.createBranch make it"
    );
    world.register(crate::git::Settings { name: "three".into(), create_branch: true, ..other }).unwrap();
    assert_eq!(world.refs("empty"), ["refs/heads/main", "refs/heads/release", "refs/tags/p/v1"]);
}

#[test]
fn what_may_be_in_a_package() {
    let world = World::new();
    let repository = world.repository("blue", &[("p/Kptfile", KPTFILE), ("p/run.sh", "#!/bin/sh\n")]);
    let folder = world.checkout("blue");
    std::fs::write(folder.join("p/blob"), [0xff, 0xfe]).unwrap();
    git(&folder, &["update-index", "--chmod=+x", "p/run.sh"]);
    git(&folder, &["add", "p/blob"]);
    git(&folder, &["commit", "-qm", "x"]);
    std::os::unix::fs::symlink("Kptfile", folder.join("p/link")).unwrap();
    git(&folder, &["push", "-q", "origin", "HEAD:main"]);
    repository.sync().unwrap();
    let head = repository.revision("blue.p.main").unwrap();
    let read = repository.content(&head).unwrap();
    assert_eq!(read.texts.keys().collect::<Vec<_>>(), ["Kptfile", "run.sh"]);
    assert_eq!(read.binaries.keys().collect::<Vec<_>>(), ["blob"]);
    // The executable bit and binary files are kept.
    let task = Task { type_: "edit".to_owned(), ..Task::default() };
    Staged::create(&repository, "p", "w", unrendered(read), task, None).commit(&pat()).unwrap();
    let listed =
        git(&world.remote("blue"), &["ls-tree", "-r", "--format=%(objectmode) %(path)", "drafts/p/w", "p/"]);
    assert_eq!(listed, "100644 p/Kptfile\n100644 p/blob\n100755 p/run.sh");
    for (path, expected) in [
        (
            "../x",
            "\"../x\" has the part \"..\", which is not the name of a file or folder: write the path without it",
        ),
        (
            "/x",
            "\"/x\" is absolute: a name is relative to the folder of its tree, so leave the first slash out",
        ),
        (
            "a//b",
            "\"a//b\" has the part \"\", which is not the name of a file or folder: write the path without it",
        ),
        (
            "a/",
            "\"a/\" has the part \"\", which is not the name of a file or folder: write the path without it",
        ),
        (
            "a/.git/b",
            "\"a/.git/b\" has the part \".git\", which some file systems take for .git, whose files run commands: \
             remove it",
        ),
        ("Kptfile/x", "\"Kptfile\" is a file, and a directory of \"Kptfile/x\": rename one of them"),
        (
            "kptfile",
            "\"kptfile\" and \"Kptfile\" are the same file on systems that ignore letter case and Unicode forms: \
             rename one of them",
        ),
    ] {
        let error = stage(&repository, "q", "w", &[(path, "")]).commit(&pat()).unwrap_err();
        assert_eq!(error.to_string(), format!("invalid resource path: {expected}"));
    }
    let deep = "a/".repeat(64) + "a";
    let error = stage(&repository, "q", "w", &[(&deep, "")]).commit(&pat()).unwrap_err().to_string();
    assert!(error.ends_with(" has more than 64 parts: put the file into fewer folders"), "{error}");
    let error = Staged::create(&repository, "q", "w", unrendered(Content::default()), Task::default(), None)
        .commit(&pat());
    assert_eq!(error.unwrap_err().to_string(), "package must contain Kptfile at root");
    git(&folder, &["add", "p/link"]);
    git(&folder, &["commit", "-qm", "x"]);
    git(&folder, &["push", "-q", "origin", "HEAD:main"]);
    repository.sync().unwrap();
    let error = repository.content(&repository.revision("blue.p.main").unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "package \"p\" has a symbolic link or submodule at \"link\"");
}

/// A server without atomic pushes gets the refs one after the other.
#[test]
fn without_atomic_pushes() {
    let world = World::new();
    let repository = world.repository("blue", &[("other/Kptfile", KPTFILE)]);
    git(&world.remote("blue"), &["config", "receive.advertiseAtomic", "false"]);
    let first = draft(&repository, "p", "w", &[]);
    repository.move_draft(&first, true).unwrap();
    repository.approve(&repository.revision("blue.p.w").unwrap(), 1, &pat()).unwrap();
    assert_eq!(world.refs("blue"), ["refs/heads/main", "refs/tags/p/v1"]);
}

#[test]
fn a_remote_that_is_away_takes_nothing_along() {
    let world = World::new();
    let repository = world.repository("blue", &[("p/Kptfile", KPTFILE)]);
    std::fs::rename(world.remote("blue"), world.remote("gone")).unwrap();
    let error = repository.sync().unwrap_err();
    assert!(
        matches!(&error, StoreError::Unavailable(text) if text.contains("does not appear to be a git repository")),
        "{error}"
    );
    assert_eq!(listing(&repository), ["blue.p.main -1 Published main"]);
    assert!(matches!(stage(&repository, "q", "w", &[]).commit(&pat()), Err(StoreError::Unavailable(_))));
    std::fs::rename(world.remote("gone"), world.remote("blue")).unwrap();
    repository.sync().unwrap();
    draft(&repository, "q", "w", &[]);
}

/// Drafts of many writers share few pushes, and one that the server declines does not affect the
/// others (`packagevariants.md` 9.2).
#[test]
fn many_drafts_share_their_pushes() {
    const DRAFTS: usize = 24;
    let world = World::new();
    let repository = world.repository("blue", &[("other/Kptfile", KPTFILE)]);
    let hooks = world.remote("blue").join("hooks");
    let pushes = world.remote("blue").join("pushes");
    for (name, script) in [
        ("update", "#!/bin/sh\ncase $1 in *unwanted*) echo not here; exit 1;; esac\n".to_owned()),
        ("post-receive", format!("#!/bin/sh\necho push >> '{}'\n", pushes.display())),
    ] {
        let file = hooks.join(name);
        std::fs::write(&file, script).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&file, mode).unwrap();
    }
    let staged: Vec<Staged> = (0..DRAFTS)
        .map(|number| {
            let package = if number == 7 { "unwanted".to_owned() } else { format!("p{number}") };
            stage(&repository, &package, "packagevariant-1", &[("a", "b")])
        })
        .collect();
    let gate = std::sync::Barrier::new(DRAFTS);
    let results: Vec<Result<_, StoreError>> = std::thread::scope(|scope| {
        let commit = |staged: Staged| {
            gate.wait();
            staged.commit(&pat())
        };
        let threads: Vec<_> = staged.into_iter().map(|staged| scope.spawn(move || commit(staged))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for (number, result) in results.iter().enumerate() {
        match result {
            Ok(committed) => assert_eq!(committed.revision.lifecycle, Lifecycle::Draft),
            Err(error) => assert!(number == 7 && error.to_string().contains("not here"), "{number}: {error}"),
        }
    }
    assert!(results[7].is_err());
    let drafts = world.refs("blue").into_iter().filter(|name| name.contains("drafts/")).count();
    assert_eq!((drafts, listing(&repository).len()), (DRAFTS - 1, DRAFTS));
    let count = std::fs::read_to_string(&pushes).unwrap().lines().count();
    assert!(count < DRAFTS, "{count} pushes");
}

/// A clone stays small: packed objects are still readable, and pushed objects are kept.
#[test]
fn clones_are_packed() {
    let world = World::new();
    let repository = world.repository("blue", &[("other/Kptfile", KPTFILE)]);
    let names: Vec<String> = (0..20).map(|number| format!("p{number}")).collect();
    for name in &names {
        draft(&repository, name, "w", &[("a/b.txt", name)]);
    }
    let staged = stage(&repository, "late", "w", &[("a/b.txt", "late")]);
    let folder = std::fs::read_dir(world.store_folder()).unwrap().next().unwrap().unwrap().path();
    let loose = || {
        let folders = std::fs::read_dir(folder.join("objects")).unwrap();
        folders.filter(|entry| entry.as_ref().unwrap().file_name().len() == 2).count()
    };
    let before = loose();
    repository.pack().unwrap();
    assert!(loose() < before, "{before}");
    for name in &names {
        let found = repository.revision(&format!("blue.{name}.w")).unwrap();
        assert_eq!(repository.content(&found).unwrap().texts["a/b.txt"], *name);
    }
    staged.commit(&pat()).unwrap();
    world.publish("blue", &[("other/a.yaml", "a: 1\n")]);
    repository.sync().unwrap();
    let read = world.other_store("again").register(world.settings("blue"), Credentials::None).unwrap();
    read.sync().unwrap();
    assert_eq!(listing(&read), listing(&repository));
}
