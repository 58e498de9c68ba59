//! A worker that follows commands, so that tests see from inside what a worker can do.

use std::collections::HashMap;
use std::fmt::Debug;
use std::fs::File;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode};
use std::time::Duration;

use groundwork_sandbox::{Connection, enter};

fn main() -> ExitCode {
    enter(&[("probe", |connection| connection.serve(|task| work(&task, connection)))])
        .unwrap_or(ExitCode::FAILURE)
}

#[allow(clippy::panic, reason = "a panic is what it is asked for")]
fn work(task: &[u8], connection: &Connection) -> Vec<u8> {
    let task = String::from_utf8_lossy(task).into_owned();
    let (word, rest) = task.split_once(' ').unwrap_or((&task, ""));
    match word {
        "say" => rest.to_owned(),
        "pid" => std::process::id().to_string(),
        "ask" => rest.split(' ').map(|question| ask(connection, question)).collect(),
        "memory" => hold_megabytes(rest.parse().unwrap_or_default()).to_string(),
        "hold" => {
            let held = hold(rest.parse().unwrap_or_default());
            ask(connection, "held") + &held.len().to_string()
        }
        "spin" => {
            ask(connection, &std::process::id().to_string());
            spin()
        }
        "take" => take(rest.parse().unwrap_or_default()),
        "wait" => {
            std::thread::sleep(Duration::from_secs(3600));
            String::new()
        }
        "deep" => deeper(1).to_string(),
        "stack" => stacker::grow(rest.parse::<usize>().unwrap_or_default() << 20, || "grown".to_owned()),
        "panic" => panic!("with the value {rest}"),
        "abort" => std::process::abort(),
        "answer" => return vec![b'x'; rest.parse::<usize>().unwrap_or_default() << 20],
        "environment" => format!("{:?}", std::env::vars_os().collect::<Vec<_>>()),
        "open" => reaches(rest),
        "compute" => compute(),
        _ => "?".to_owned(),
    }
    .into_bytes()
}

fn ask(connection: &Connection, question: &str) -> String {
    let answer = connection.ask(question.as_bytes()).unwrap_or_default();
    String::from_utf8_lossy(&answer).into_owned()
}

fn hold_megabytes(count: usize) -> usize {
    hold(count).iter().filter(|part| part[77] > 0).count()
}

fn hold(megabytes: usize) -> Vec<Vec<u8>> {
    (0..megabytes).map(|number| vec![number.to_le_bytes()[0] | 1; 1 << 20]).collect()
}

fn spin() -> ! {
    let mut number = 1_u64;
    loop {
        number = std::hint::black_box(number.wrapping_mul(3));
    }
}

/// Works for this many milliseconds by its own clock. A process with low priority uses less
/// processor time meanwhile.
fn take(milliseconds: u64) -> String {
    let end = std::time::Instant::now() + Duration::from_millis(milliseconds);
    let mut number = 1_u64;
    while std::time::Instant::now() < end {
        number = std::hint::black_box(number.wrapping_mul(3));
    }
    "taken".to_owned()
}

fn deeper(level: usize) -> usize {
    let room = std::hint::black_box([level; 512]);
    if level == usize::MAX { room[0] } else { deeper(level + 1) + room[1] }
}

/// Tries one of the ways to reach something outside.
fn reaches(what: &str) -> String {
    fn told<T, E: Debug>(result: Result<T, E>) -> String {
        result.map_or_else(|error| format!("{error:?}"), |_| "reached".to_owned())
    }
    match what {
        "file" => told(File::open("/proc/self/status")),
        "folder" => told(std::fs::read_dir("/")),
        "new file" => told(File::create("/tmp/sandbox-probe")),
        "connection" => told(TcpStream::connect("127.0.0.1:1")),
        "listener" => told(TcpListener::bind("127.0.0.1:0")),
        "datagram" => told(UdpSocket::bind("127.0.0.1:0")),
        "socket pair" => told(UnixStream::pair()),
        "program" => told(Command::new("/bin/true").status()),
        "thread" => told(std::thread::Builder::new().spawn(|| ())),
        "name" => told(std::fs::metadata("/etc/passwd")),
        other => format!("{other}: ?"),
    }
}

/// Uses the system services that work needs: memory, randomness, clocks, a deep stack.
fn compute() -> String {
    let map: HashMap<usize, String> = (0..10_000).map(|number| (number, number.to_string())).collect();
    let deep = stacker::grow(32 << 20, || map.len());
    let large = vec![1_u8; 100 << 20].len();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).is_ok();
    format!("{deep} {large} {now}")
}
