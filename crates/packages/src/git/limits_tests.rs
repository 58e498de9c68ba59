//! Tests with repositories that exceed the limits (`packagevariants.md` 6.16), made of raw objects.

use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::git::access::Credentials;
use crate::git::discovery::{Memory, discover};
use crate::git::error::StoreError;
use crate::git::limits::{Interrupt, LOOK, Look};
use crate::git::listing::Listing;
use crate::git::progress::Progress;
use crate::git::remote::{RemoteOptions, RemoteRef};
use crate::git::repository::GitRepository;
use crate::git::snapshot::{Left, Snapshot};
use crate::git::testing::{World, git};

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n";
const MIB: usize = 1 << 20;

/// Remote whose objects are written one by one.
struct Raw(PathBuf);

impl Raw {
    /// Writes an object: a text, followed by this many zeros.
    fn object(&self, kind: &str, text: &[u8], zeros: usize) -> String {
        let arguments =
            ["-c", "core.compression=1", "hash-object", "-w", "--stdin", "-t", kind, "--literally"];
        self.piped(&arguments, |stdin| {
            stdin.write_all(text).unwrap();
            let block = vec![b'0'; MIB];
            for _ in 0..zeros / MIB {
                stdin.write_all(&block).unwrap();
            }
        })
    }

    fn piped(&self, arguments: &[&str], write: impl FnOnce(&mut dyn std::io::Write)) -> String {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(&self.0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        write(&mut child.stdin.take().unwrap());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn tree(&self, entries: &[(&str, &str, &str)]) -> String {
        let mut bytes = Vec::new();
        for (mode, name, id) in entries {
            bytes.extend(format!("{mode} {name}\0").into_bytes());
            bytes.extend(data_encoding::HEXLOWER.decode(id.as_bytes()).unwrap());
        }
        self.object("tree", &bytes, 0)
    }

    fn package(&self, kptfile: &str) -> String {
        let id = self.object("blob", kptfile.as_bytes(), 0);
        self.tree(&[("100644", "Kptfile", &id)])
    }

    fn commit(&self, tree: &str, message: usize) -> String {
        let who = "pat <pat@example.org> 1700000000 +0000";
        let text = format!("tree {tree}\nauthor {who}\ncommitter {who}\n\nby hand\n");
        self.object("commit", text.as_bytes(), message)
    }

    /// Adds a tag of a package with this directory.
    fn tag(&self, package: &str, directory: &str) {
        let root = self.tree(&[("40000", package, directory)]);
        let commit = self.commit(&root, 0);
        git(&self.0, &["update-ref", &format!("refs/tags/{package}/v1"), &commit]);
    }
}

/// Returns a remote with one valid package, on its branch and with a tag.
fn remote(world: &World, name: &str) -> (Arc<GitRepository>, Raw) {
    let repository = world.repository(name, &[("good/Kptfile", KPTFILE)]);
    let raw = Raw(world.remote(name));
    git(&raw.0, &["update-ref", "refs/tags/good/v1", "refs/heads/main"]);
    (repository, raw)
}

/// Returns the content of a repository, after as many looks as a busy machine needs.
fn synced(repository: &GitRepository) -> Arc<Snapshot> {
    let mut looks = 0;
    loop {
        let snapshot = repository.sync().unwrap();
        looks += 1;
        if snapshot.left.is_none() {
            return snapshot;
        }
        assert!(looks < 30, "{:?}", snapshot.left);
    }
}

fn names(snapshot: &Snapshot) -> Vec<&str> {
    snapshot.revisions.keys().map(String::as_str).collect()
}

/// `git daemon` for the remotes in a folder. A process of its own, since it needs memory for what
/// it sends.
struct Daemon(Child, u16);

impl Daemon {
    fn start(folder: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("git");
        command.args(["daemon", "--export-all", "--listen=127.0.0.1", "--reuseaddr"]);
        command.arg(format!("--port={port}")).arg(format!("--base-path={}", folder.display()));
        let child = command.process_group(0).spawn().unwrap();
        let begun = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(10));
        }
        Self(child, port)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        drop(self.0.wait());
    }
}

/// Limits the memory of this process and its future children.
fn forgo_memory() {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let limit = Some(256 << 20);
    setrlimit(Resource::Data, Rlimit { current: limit, maximum: limit }).unwrap();
}

/// Runs a test of this file in its own process with a memory limit, so that the test fails if it
/// needs more.
fn in_own_process(test: &str) -> bool {
    const VARIABLE: &str = "GROUNDWORK_TEST_IN_OWN_PROCESS";
    if std::env::var_os(VARIABLE).is_some() {
        return true;
    }
    let mut command = Command::new(std::env::current_exe().unwrap());
    let module = module_path!().split_once("::").map_or("", |(_, module)| module);
    command.args(["--exact", &format!("{module}::{test}"), "--nocapture", "--test-threads=1"]);
    let output = command.env(VARIABLE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
    false
}

/// Four hostile revisions: a Kptfile of 600 MiB, one of 5 MB of hostile YAML, a commit message of
/// 300 MiB, and a tree that cannot be read.
#[test]
fn one_revision_is_its_own_problem_alone() {
    if !in_own_process("one_revision_is_its_own_problem_alone") {
        return;
    }
    let world = World::new();
    let (_, raw) = remote(&world, "stranger");
    let daemon = Daemon::start(world.folder());
    // Git needs long for so much data, and longer beside other tests.
    let timeout = Duration::from_secs(300);
    let remotes = RemoteOptions { protocols: vec!["git".to_owned()], timeout, ..RemoteOptions::default() };
    let store = world.other_store_with("other", remotes);
    let mut settings = world.settings("stranger");
    settings.url = format!("git://127.0.0.1:{}/stranger.git", daemon.1);
    let repository = store.register(settings, Credentials::None).unwrap();
    let huge = raw.object("blob", b"", 600 * MIB);
    raw.tag("huge", &raw.tree(&[("100644", "Kptfile", &huge)]));
    raw.tag("yaml", &raw.package(&format!("a: [{}]\n", "[a],".repeat(1_250_000))));
    raw.tag("dense", &raw.package(&format!("a: [{}]\n", "b,".repeat(400_000))));
    raw.tag("deep", &raw.package(&format!("a: {}{}\n", "[".repeat(200), "]".repeat(200))));
    let bombs = (1..9).map(|level| {
        let before = format!("*a{}, ", level - 1).repeat(9);
        format!("a{level}: &a{level} [{before}]\n")
    });
    raw.tag("aliases", &raw.package(&format!("a0: &a0 x\n{}", bombs.collect::<String>())));
    raw.tag("labels", &raw.package(&format!("{KPTFILE}  labels: {{a: {}}}\n", "b".repeat(100_000))));
    raw.tag("broken", &raw.object("tree", b"40000 no object behind me\0", 0));
    let message = raw.commit(&raw.tree(&[("40000", "long", &raw.package(KPTFILE))]), 300 * MIB);
    git(&raw.0, &["update-ref", "refs/tags/long/v1", &message]);
    let message = raw.commit(&raw.tree(&[("40000", "wordy", &raw.package(KPTFILE))]), 2 * MIB);
    git(&raw.0, &["update-ref", "refs/tags/wordy/v1", &message]);
    forgo_memory();

    let snapshot = synced(&repository);
    // A directory whose Kptfile cannot be parsed is still a package.
    let served = ["aliases.v1", "deep.v1", "dense.v1", "good.main", "good.v1"];
    assert_eq!(names(&snapshot), served.map(|name| format!("stranger.{name}")), "{:#?}", snapshot.problems);
    assert!(!snapshot.is_partial && snapshot.left.is_none());
    for (place, problem) in [
        ("huge/v1: ", "the Kptfile has 629145600 bytes, more than the allowed 1048576"),
        ("yaml/v1: ", "the Kptfile has 5000006 bytes, more than the allowed 1048576"),
        ("dense/v1: ", "package \"dense\": Kptfile: line 1: the text has more than 50000 values; divide it"),
        ("deep/v1: ", "package \"deep\": Kptfile: line 1: more than 100 lists and maps are nested"),
        ("aliases/v1: ", "the document contains excessive aliasing"),
        ("labels/v1: ", "the data of the Kptfile and the commit of the revision has"),
        ("broken/v1: ", "it cannot be fetched: "),
        ("long/v1: ", "it cannot be fetched: a commit, tree, tag or the base of a delta is larger"),
        ("wordy/v1: ", "has 2097302 bytes, more than the allowed 1048576"),
    ] {
        let found = snapshot.problems.iter().find(|found| found.starts_with(place));
        assert!(found.is_some_and(|found| found.contains(problem)), "{place}: {:#?}", snapshot.problems);
    }
    assert_eq!(snapshot.problems.len(), 9, "{:#?}", snapshot.problems);

    // The next look has these problems cached, and serves the repaired package.
    raw.tag("huge", &raw.package(KPTFILE));
    git(&raw.0, &["update-ref", "-d", "refs/tags/long/v1"]);
    let snapshot = synced(&repository);
    assert!(snapshot.revisions.contains_key("stranger.huge.v1"), "{:#?}", snapshot.problems);
    assert_eq!(snapshot.problems.len(), 7, "{:#?}", snapshot.problems);
}

/// Nested trees with ten billion paths. If they lead to no package, no problem is reported. If each
/// path leads to a package, the omitted packages are reported.
#[test]
fn trees_without_number_are_read_once() {
    let world = World::new();
    let (repository, raw) = remote(&world, "stranger");
    let nest = |bottom: &str| {
        (0..10).fold(bottom.to_owned(), |below, _| {
            let names = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
            raw.tree(&names.map(|name| ("40000", name, below.as_str())))
        })
    };
    let publish = |nested: &str| {
        let root = raw.tree(&[("40000", "good", &raw.package(KPTFILE)), ("40000", "nest", nested)]);
        git(&raw.0, &["update-ref", "refs/heads/main", &raw.commit(&root, 0)]);
    };
    publish(&nest(&raw.tree(&[])));
    let snapshot = synced(&repository);
    assert_eq!(
        (names(&snapshot), &snapshot.problems),
        (vec!["stranger.good.main", "stranger.good.v1"], &vec![])
    );

    publish(&nest(&raw.package(KPTFILE)));
    let snapshot = synced(&repository);
    assert!(snapshot.revisions.contains_key("stranger.good.main"));
    let told =
        "main: packages lie in more than 100000 directories; those farthest from the root are left out";
    assert!(snapshot.problems.iter().any(|problem| problem == told), "{:#?}", snapshot.problems);

    // The same trees inside a package.
    let id = raw.object("blob", KPTFILE.as_bytes(), 0);
    raw.tag("full", &raw.tree(&[("100644", "Kptfile", &id), ("40000", "a", &nest(&raw.package(KPTFILE)))]));
    publish(&raw.tree(&[]));
    let snapshot = synced(&repository);
    let told = "full/v1: package \"full\": more than 20000 files";
    assert!(snapshot.problems.iter().any(|problem| problem.starts_with(told)), "{:#?}", snapshot.problems);
    assert_eq!(names(&snapshot), ["stranger.good.main", "stranger.good.v1"]);
}

/// Adds 3,000 revisions, each with its own commit.
fn many_tags(raw: &Raw) {
    raw.piped(&["fast-import", "--quiet", "--force"], |stdin| {
        for number in 1..=3_000 {
            let text = format!("{KPTFILE}info:\n  description: {number}\n");
            write!(
                stdin,
                "commit refs/heads/all\nmark :{number}\ncommitter pat <pat@example.org> 1700000000 +0000\ndata 2\nhi\n\
                 M 100644 inline many/Kptfile\ndata {}\n{text}\nreset refs/tags/many/v{number}\nfrom :{number}\n\n",
                text.len()
            )
            .unwrap();
        }
    });
}

#[test]
fn three_thousand_tags_are_read_soon() {
    let world = World::new();
    let (repository, raw) = remote(&world, "stranger");
    many_tags(&raw);
    let begun = Instant::now();
    let snapshot = synced(&repository);
    println!("after {:?}", begun.elapsed());
    assert_eq!(snapshot.revisions.len(), 3_002, "{:?} {:?}", snapshot.left, snapshot.problems);
    let latest = snapshot.latest(repository.settings());
    assert_eq!(
        latest.iter().map(String::as_str).collect::<Vec<_>>(),
        ["stranger.good.v1", "stranger.many.v3000"]
    );
    assert_eq!(repository.progress(), None);
}

/// A look that runs out of time reports its progress and keeps its results, and the next look
/// continues.
#[test]
fn a_look_ends_and_goes_on() {
    let world = World::new();
    let (repository, raw) = remote(&world, "stranger");
    many_tags(&raw);
    synced(&repository);
    let listing = repository.listing();
    let mut memory = Memory::default();
    let mut time = Duration::from_millis(10);
    let mut looks = Vec::new();
    let snapshot = loop {
        let look = Look::new(Interrupt::default(), time, Progress::default());
        let snapshot =
            discover(repository.objects(), &listing, repository.settings(), &mut memory, &look).unwrap();
        match snapshot.left {
            None => break snapshot,
            Some(Left { read, all }) => {
                assert!(read <= all && all == 3_002 && snapshot.is_partial);
                looks.push(read);
            }
        }
        time = time.saturating_mul(2);
    };
    assert!(looks.len() > 1, "{looks:?}");
    assert_eq!((snapshot.revisions.len(), snapshot.is_partial), (3_002, false));
}

/// A tree that git would not send, but that is on the disk.
#[test]
fn what_cannot_be_decoded_is_one_revision() {
    let world = World::new();
    let (repository, _) = remote(&world, "stranger");
    synced(&repository);
    let mut listing = Listing::clone(&repository.listing());
    let clones = std::fs::read_dir(world.store_folder()).unwrap();
    let raw = Raw(clones.map(|clone| clone.unwrap().path()).next().unwrap());
    let broken = raw.object("tree", b"40000 no object behind me\0", 0);
    let mut add = |name: &str, commit: &str| {
        let id = gix_hash::ObjectId::from_hex(commit.as_bytes()).unwrap();
        listing.refs.insert(name.to_owned(), RemoteRef { id, commit: id });
    };
    add("refs/tags/root/v1", &raw.commit(&broken, 0));
    add("refs/tags/broken/v1", &raw.commit(&raw.tree(&[("40000", "broken", &broken)]), 0));
    add("refs/heads/drafts/text/v1", &raw.object("commit", b"no commit", 0));
    let look = Look::new(Interrupt::default(), LOOK, Progress::default());
    let mut memory = Memory::default();
    let snapshot =
        discover(repository.objects(), &listing, repository.settings(), &mut memory, &look).unwrap();
    assert_eq!(names(&snapshot), ["stranger.good.main", "stranger.good.v1"]);
    let problem = format!("object {broken} is damaged: it cannot be read as a tree");
    let expected = [
        format!("broken/v1: {problem}"),
        format!("root/v1: {problem}"),
        "drafts/text/v1: \"text\" has no Kptfile".to_owned(),
    ];
    assert_eq!(snapshot.problems, expected);
}

/// A call to a remote that accepts connections and never answers ends when the repository is
/// unregistered.
#[test]
fn who_waits_no_more_ends_the_call() {
    let world = World::new();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let store = world.other_store_of("other", &["http"]);
    let mut settings = world.settings("silent");
    settings.url = format!("http://{}/a.git", silent.local_addr().unwrap());
    let repository = store.register(settings, Credentials::None).unwrap();
    let syncing = Arc::clone(&repository);
    let thread = std::thread::spawn(move || syncing.sync().map(drop));
    // The request has reached the remote.
    let _connection = silent.accept().unwrap();
    assert_eq!(repository.progress().as_deref(), Some("reading the refs of the remote"));
    let begun = Instant::now();
    store.unregister("fleet", "silent");
    assert!(matches!(thread.join().unwrap(), Err(StoreError::Interrupted)));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    while is_running(&world.folder().join("other")) {
        assert!(begun.elapsed() < Duration::from_secs(30), "git has ended");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns true if a process has this working directory.
fn is_running(folder: &Path) -> bool {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    processes.into_iter().any(|process| {
        let place = std::fs::read_link(process.path().join("cwd"));
        place.is_ok_and(|place| place.starts_with(folder))
    })
}
