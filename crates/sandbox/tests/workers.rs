//! Worker processes: their rights, their ends, and that an end affects only its own work.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use groundwork_sandbox::{ANYBODY, Ceiling, Host, Options, Pool, WorkError, WorkerArguments};
use groundwork_telemetry::Metrics;
use rustix::process::{Pid, Signal, kill_process};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinSet;
use tracing_subscriber::fmt::MakeWriter;

fn options() -> Options {
    Options {
        pool: "test",
        name: "probe",
        program: Some(PathBuf::from(env!("CARGO_BIN_EXE_sandbox-probe"))),
        ahead: 1,
        most: 2,
        limits: WorkerArguments { worker_memory: 128, worker_cpu_seconds: 1, ..WorkerArguments::default() },
        ceiling: WorkerArguments::default().ceiling(),
        wall_time: Duration::from_secs(60),
        yields: false,
    }
}

async fn pool(options: Options) -> (Pool, Metrics) {
    let metrics = Metrics::default();
    (Pool::start(options, &metrics).await.unwrap(), metrics)
}

async fn run(pool: &Pool, task: &str) -> Result<String, WorkError> {
    pool.run(ANYBODY, task.as_bytes(), &()).await.map(|done| String::from_utf8(done).unwrap())
}

/// Returns the value of a metric.
fn value(metrics: &Metrics, name: &str) -> u64 {
    let text = metrics.encode().unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn work_is_done_and_may_ask() {
    struct Twice;
    impl Host for Twice {
        fn answer(&self, question: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
            Box::pin(async move { [question.clone(), question].concat() })
        }
    }
    let (pool, metrics) = pool(options()).await;
    assert_eq!(run(&pool, "say yes").await.unwrap(), "yes");
    assert_eq!(pool.run(ANYBODY, b"ask ab c", &Twice).await.unwrap(), b"ababcc");
    assert_eq!(run(&pool, "compute").await.unwrap(), "10000 104857600 true");
    assert_eq!(value(&metrics, r#"groundwork_sandbox_jobs_total{pool="test",outcome="done"}"#), 3);
}

/// Seen from inside: no file is open, none can be opened, and the environment is empty.
#[tokio::test]
async fn a_worker_reaches_nothing() {
    let (pool, _) = pool(options()).await;
    assert_eq!(run(&pool, "environment").await.unwrap(), "[]");
    let ways = [
        "file",
        "folder",
        "new file",
        "connection",
        "listener",
        "datagram",
        "socket pair",
        "program",
        "thread",
        "name",
    ];
    for way in ways {
        let told = run(&pool, &format!("open {way}")).await.unwrap();
        assert!(told.contains("PermissionDenied") || told.contains("code: 1,"), "{way}: {told}");
    }
    assert_eq!(run(&pool, "say still here").await.unwrap(), "still here");
}

/// Calls that open files are refused twice: by the system call filter, which this test sees, and by
/// the limit on open files.
#[tokio::test]
async fn a_worker_has_walls_behind_walls() {
    let (pool, _) = pool(options()).await;
    let pid = run(&pool, "pid").await.unwrap();
    let told = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let status = told("status");
    for line in ["NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.lines().any(|found| found == line), "{line}: {status}");
    }
    let limits = told("limits");
    for name in ["Max open files", "Max processes", "Max file size", "Max core file size"] {
        let line = limits.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>(), ["0", "0"], "{limits}");
    }
}

/// The log must tell the operator whether a mechanism is missing and why, or that all are active.
#[tokio::test]
async fn what_lacks_is_said() {
    let (words, log) = said(|| async { pool(options()).await.0 }).await;
    assert_eq!(run(&words, "say yes").await.unwrap(), "yes");
    // The result depends on the kernel of this machine.
    let stands = log.contains("worker processes are isolated");
    assert!(stands || log.contains("WARN") && log.contains("lacking="), "{log}");

    // A program that the test wrote itself could fail as busy while another test forks, so this one
    // is a file of the repository.
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/without-walls.sh");
    let options = Options { program: Some(program), ..options() };
    let (_pool, log) = said(|| async { pool(options).await.0 }).await;
    assert!(log.contains("WARN") && log.contains("not fully isolated"), "{log}");
    assert!(log.contains("lacking=\"Landlock is not available\""), "{log}");
}

/// Runs `work` and returns the log of this thread meanwhile.
async fn said<T, F: Future<Output = T>>(work: impl FnOnce() -> F) -> (T, String) {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_writer(Lines(Arc::clone(&lines))).finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let done = work().await;
    drop(guard);
    let text = String::from_utf8(lines.lock().unwrap().clone()).unwrap();
    (done, text)
}

#[derive(Clone)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// Memory of an idle worker, without the program's pages that it shares with the service.
#[tokio::test]
async fn a_worker_at_rest_is_small() {
    let (pool, _) = pool(options()).await;
    run(&pool, "say a").await.unwrap();
    let pid = run(&pool, "pid").await.unwrap();
    let sizes = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap();
    let sizes: Vec<usize> = sizes.split_whitespace().map(|pages| pages.parse().unwrap()).collect();
    let own = (sizes[1] - sizes[2]) * rustix::param::page_size();
    assert!(own < 10 << 20, "{own} bytes");
}

/// Each failure is an error of that work alone and names the limit; the next work gets a new
/// worker.
#[tokio::test]
async fn a_limit_ends_the_work_that_exceeds_it_and_no_other() {
    let (pool, metrics) = pool(options()).await;
    let beside = tokio::spawn({
        let pool = pool.clone();
        async move { run(&pool, "memory 100").await }
    });
    let cases = [
        (
            "memory 500",
            "it needs more than the 128 MiB of memory that it may use (--worker-memory)",
            "memory",
        ),
        ("stack 500", "it needs more than the 128 MiB of memory that it may use (--worker-memory)", "memory"),
        (
            "spin",
            "it needs more than the 1 s of processor time that it may use (--worker-cpu-seconds)",
            "cpu_time",
        ),
        ("deep", "it is nested too deeply for the stack of a process", "stack"),
        ("answer 33", "it returns or requests more than 32 MiB at once", "output"),
        ("panic secret", "because of a bug in Groundwork at crates/sandbox/probe/main.rs:", "panicked"),
        ("abort", "the worker process ended (signal: 6 (SIGABRT)", "died"),
    ];
    for (task, message, reason) in cases {
        let error = run(&pool, task).await.unwrap_err().to_string();
        assert!(error.starts_with(message) || error.contains(message), "{task}: {error}");
        assert!(!error.contains("secret"), "{error}");
        assert_eq!(run(&pool, "say next").await.unwrap(), "next", "after {task}");
        let name = format!(r#"groundwork_sandbox_ended_total{{pool="test",reason="{reason}"}}"#);
        // A used worker may have died of its earlier work, so such work is run once more in a new
        // one. A worker can run out of memory in two ways, and one of them looks like a plain
        // death.
        let ends = match task {
            "abort" | "stack 500" => 2,
            _ => 1,
        };
        assert_eq!(value(&metrics, &name), ends, "{task}");
    }
    assert_eq!(beside.await.unwrap().unwrap(), "100");
    until(|| value(&metrics, r#"groundwork_sandbox_workers{pool="test"}"#) >= 1).await;
}

/// The work that uses the most memory is ended, and the other work continues.
#[tokio::test]
async fn all_work_together_has_a_limit_of_memory() {
    /// A host that answers only after the gate is opened.
    struct Gate {
        came: Arc<Notify>,
        may_go: Arc<Notify>,
    }
    impl Host for Gate {
        fn answer(&self, _: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
            self.came.notify_one();
            Box::pin(async {
                self.may_go.notified().await;
                Vec::new()
            })
        }
    }
    let (pool, metrics) = pool(Options { ceiling: Ceiling::new(100 << 20), ..options() }).await;
    let hold = |megabytes: usize| {
        let (came, may_go) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (pool, gate) = (pool.clone(), Gate { came: Arc::clone(&came), may_go: Arc::clone(&may_go) });
        let task = format!("hold {megabytes}");
        (came, may_go, tokio::spawn(async move { pool.run(ANYBODY, task.as_bytes(), &gate).await }))
    };
    let (came, _, large) = hold(80);
    came.notified().await;
    let (_, may_go, small) = hold(60);
    let error = large.await.unwrap().unwrap_err().to_string();
    assert!(error.starts_with("all work together needs more than 100 MiB of memory"), "{error}");
    may_go.notify_one();
    assert_eq!(small.await.unwrap().unwrap(), b"60");
    assert_eq!(value(&metrics, r#"groundwork_sandbox_ended_total{pool="test",reason="memory_total"}"#), 1);
}

#[tokio::test]
async fn work_that_takes_too_long_is_killed() {
    let (pool, metrics) = pool(Options { wall_time: Duration::from_secs(1), most: 1, ..options() }).await;
    let error = run(&pool, "wait").await.unwrap_err();
    assert_eq!(error.to_string(), "it took longer than 1 s and was abandoned");
    assert!(error.is_limit());
    assert_eq!(run(&pool, "say next").await.unwrap(), "next");
    assert_eq!(value(&metrics, r#"groundwork_sandbox_workers{pool="test"}"#), 1, "the other one is gone");
}

/// Every piece of work has the full processor time, regardless of its worker's earlier work.
#[tokio::test]
async fn processor_time_is_counted_for_each_piece_of_work() {
    let (pool, _) = pool(Options { most: 1, ..options() }).await;
    for _ in 0..40 {
        // Each takes some 50 ms.
        assert_eq!(run(&pool, "memory 100").await.unwrap(), "100");
    }
    assert!(matches!(run(&pool, "spin").await, Err(WorkError::CpuTime { .. })));
}

/// A dropped call frees its worker: the pool has a single place, so otherwise the next call would
/// wait for an hour.
#[tokio::test]
async fn a_caller_that_goes_ends_its_work() {
    let asked = Arc::new(Notify::new());
    struct Silent(Arc<Notify>);
    impl Host for Silent {
        fn answer(&self, _: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
            self.0.notify_one();
            Box::pin(std::future::pending())
        }
    }
    let (pool, metrics) = pool(Options { most: 1, ..options() }).await;
    let caller = tokio::spawn({
        let (pool, host) = (pool.clone(), Silent(Arc::clone(&asked)));
        async move { pool.run(ANYBODY, b"ask something", &host).await }
    });
    asked.notified().await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    assert_eq!(run(&pool, "say next").await.unwrap(), "next");
    assert_eq!(value(&metrics, r#"groundwork_sandbox_jobs_total{pool="test",outcome="abandoned"}"#), 1);
}

/// A tenant gets a worker even while many workers wait for answers of another tenant, and no answer
/// is lost.
#[tokio::test]
async fn who_waits_for_an_answer_gives_way() {
    /// A host that answers only after it is allowed to.
    #[derive(Clone)]
    struct Slow(Arc<Mutex<Vec<Vec<u8>>>>, watch::Receiver<bool>);
    impl Host for Slow {
        fn answer(&self, question: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
            self.0.lock().unwrap().push(question.clone());
            let mut may = self.1.clone();
            Box::pin(async move {
                may.wait_for(|may| *may).await.unwrap();
                question
            })
        }
    }
    let (pool, metrics) = pool(options()).await;
    let (let_go, may) = watch::channel(false);
    let slow = Slow(Arc::default(), may);
    let mut waiting = JoinSet::new();
    for number in 0..6 {
        let (pool, slow, task) = (pool.clone(), slow.clone(), format!("ask question-{number} end"));
        waiting.spawn(async move { pool.run("slow", task.as_bytes(), &slow).await.unwrap() });
    }
    for _ in 0..3 {
        assert_eq!(pool.run("other", b"say next", &()).await.unwrap(), b"next");
    }
    assert!(value(&metrics, r#"groundwork_sandbox_ended_total{pool="test",reason="gave_way"}"#) > 0);
    let_go.send(true).unwrap();
    let mut answers = waiting.join_all().await;
    answers.sort();
    let expected: Vec<Vec<u8>> = (0..6).map(|number| format!("question-{number}end").into_bytes()).collect();
    assert_eq!(answers, expected);
    let asked = slow.0.lock().unwrap().iter().filter(|question| question.starts_with(b"question")).count();
    assert_eq!(asked, 6, "what came late is kept");
}

/// An idle worker that is killed from outside is replaced, without an error for any caller.
#[tokio::test]
async fn a_worker_that_is_killed_is_replaced() {
    let (pool, metrics) = pool(Options { ahead: 2, ..options() }).await;
    until(|| value(&metrics, r#"groundwork_sandbox_workers{pool="test"}"#) == 2).await;
    assert_eq!(run(&pool, "say first").await.unwrap(), "first");
    let pid = run(&pool, "pid").await.unwrap().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    assert_eq!(run(&pool, "say next").await.unwrap(), "next");
    until(|| value(&metrics, r#"groundwork_sandbox_workers{pool="test"}"#) == 2).await;
}

#[tokio::test]
async fn a_program_that_is_none_is_told_at_once() {
    let options = Options { program: Some(PathBuf::from("/nowhere")), ..options() };
    let error = Pool::start(options, &Metrics::default()).await.unwrap_err();
    assert!(error.to_string().starts_with("cannot run the program of the service as a worker: "), "{error}");
}

/// The workers end when the pool is dropped.
#[tokio::test]
async fn workers_end_with_their_pool() {
    let (pool, _) = pool(options()).await;
    let pid = run(&pool, "pid").await.unwrap();
    let process = PathBuf::from(format!("/proc/{pid}"));
    assert!(process.exists());
    drop(pool);
    until(|| !process.exists()).await;
}

/// Work of calls must not take processor time from other work.
#[tokio::test]
async fn workers_for_calls_yield() {
    let limits = WorkerArguments { worker_cpu_seconds: 60, ..options().limits };
    for (yields, nice) in [(true, "13"), (false, "0")] {
        let (pool, _) = pool(Options { yields, limits, ..options() }).await;
        let pid = run(&pool, "pid").await.unwrap();
        assert_eq!(niceness(&pid), nice);
        if yields {
            // Beyond the usual amount, calls get the lowest priority.
            tokio::select! {
                ended = run(&pool, "spin") => unreachable!("{ended:?}"),
                () = until(|| niceness(&pid) == "19") => {}
            }
        }
    }
}

/// A tenant with much long work gets no more of the processors than a tenant with a single long
/// piece.
#[tokio::test(flavor = "multi_thread")]
async fn long_work_of_a_tenant_is_as_a_single_piece() {
    struct Told(mpsc::UnboundedSender<(&'static str, String)>, &'static str);
    impl Host for Told {
        fn answer(&self, pid: Vec<u8>) -> BoxFuture<'_, Vec<u8>> {
            self.0.send((self.1, String::from_utf8(pid).unwrap())).unwrap();
            Box::pin(std::future::ready(Vec::new()))
        }
    }
    let limits = WorkerArguments { worker_cpu_seconds: 60, ..options().limits };
    let (pool, _) = pool(Options { limits, most: 8, ..options() }).await;
    let mut seen: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let is_between = |nice: &String| ("11".."19").contains(&nice.as_str());
    // On a busy machine the pieces may run one after the other, so the test tries several times.
    for _ in 0..10 {
        let (sender, mut told) = mpsc::unbounded_channel();
        let mut work = JoinSet::new();
        for tenant in ["many", "many", "one", "many", "many"] {
            let (pool, host) = (pool.clone(), Told(sender.clone(), tenant));
            work.spawn(async move { pool.run(tenant, b"spin", &host).await });
        }
        let mut at_work = Vec::new();
        while at_work.len() < 5 {
            at_work.push(told.recv().await.unwrap());
        }
        while !at_work.is_empty() {
            at_work.retain(|(tenant, pid)| {
                let nice = niceness(pid);
                let goes_on = nice != "19";
                seen.entry(tenant).or_default().insert(nice);
                goes_on
            });
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        if seen["many"].iter().any(is_between) {
            break;
        }
    }
    assert!(seen["many"].iter().any(is_between), "{seen:?}");
    assert!(!seen["one"].iter().any(is_between), "{seen:?}");
}

fn niceness(pid: &str) -> String {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // Niceness is field 19 (see proc_pid_stat(5)); the name, field 2, ends with the last
    // parenthesis.
    let (_, behind) = line.rsplit_once(')').unwrap();
    behind.split_ascii_whitespace().nth(16).unwrap().to_owned()
}

/// Long work gets a low priority, and the next work gets a new worker with the normal one.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn long_work_yields() {
    let limits = WorkerArguments { worker_cpu_seconds: 60, ..options().limits };
    let (pool, metrics) = pool(Options { limits, most: 1, ..options() }).await;
    let pid = run(&pool, "pid").await.unwrap();
    assert_eq!(run(&pool, "take 50").await.unwrap(), "taken");
    assert_eq!(run(&pool, "pid").await.unwrap(), pid, "short work changes nothing");
    tokio::select! {
        ended = run(&pool, "spin") => unreachable!("{ended:?}"),
        // The niceness is 10 for less than a second of processor time, so the test may miss it.
        () = until(|| niceness(&pid) == "19") => {}
    }
    let next = run(&pool, "pid").await.unwrap();
    assert_ne!(next, pid);
    assert_eq!(niceness(&next), "0");

    let mut milliseconds = 2_000;
    let reason = r#"groundwork_sandbox_ended_total{pool="test",reason="yielded"}"#;
    while value(&metrics, reason) == 0 {
        // On a busy machine the work may get little processor time, so it runs longer each time.
        assert_eq!(run(&pool, &format!("take {milliseconds}")).await.unwrap(), "taken");
        milliseconds *= 2;
    }
    assert_ne!(run(&pool, "pid").await.unwrap(), next);
}
