//! Server process that ends with the test.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::binaries::{NotFound, Server, find};

/// Time for a server to become ready; machines that build something else are slow.
const READY_LIMIT: Duration = Duration::from_secs(60);
/// Pause between two checks.
const POLL: Duration = Duration::from_millis(50);
/// Attempts with other ports: a port is chosen before the server binds it, so another process may
/// take it first.
const ATTEMPTS: usize = 4;
/// Bytes of a log that become part of an error.
const LOG_TAIL: usize = 4000;

/// Shell script that runs the server given as arguments until standard input ends, then kills it
/// and removes its folder. The lines `stop` and `start` on standard input kill the server and start
/// it again, with the same folder.
///
/// The test has the other end of that pipe, which closes with the test in every case. Signals to
/// the test's process group do not reach this script.
const GUARD: &str = r#"
folder=$1; shift
start() {
  rm -f "$folder/pid"
  { "$@" </dev/null >>"$folder/log" 2>&1 & echo $! >"$folder/pid"; wait $!; echo $? >"$folder/exited"; mv "$folder/exited" "$folder/exit"; } &
}
stop() {
  until [ -s "$folder/pid" ]; do sleep 0.01; done
  [ -e "$folder/exit" ] || kill -KILL "$(cat "$folder/pid")" 2>/dev/null
  wait
}
start "$@"
while read -r line; do
  case $line in
    stop) stop ;;
    start) start "$@" ;;
  esac
done
stop
rm -rf "$folder"
"#;

/// Reason that a server does not run.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The binary is missing.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// The server's folder, or a file in it, cannot be written.
    #[error("cannot prepare {server}: {source}")]
    Prepare { server: String, source: Box<dyn std::error::Error + Send + Sync> },
    /// The server ended by itself.
    #[error("{server} ended at once; its log ends with:\n{log}")]
    Ended {
        server: String,
        /// End of its log.
        log: String,
    },
    /// The server runs, but does not answer.
    #[error("{server} is not ready after {} s; its log ends with:\n{log}", READY_LIMIT.as_secs())]
    NotReady {
        server: String,
        /// End of its log.
        log: String,
    },
    /// A client for the server cannot be created.
    #[error("cannot talk to {server}: {source}")]
    Client { server: String, source: Box<dyn std::error::Error + Send + Sync> },
}

impl StartError {
    pub(crate) fn prepare(
        server: impl std::fmt::Display,
    ) -> impl FnOnce(Box<dyn std::error::Error + Send + Sync>) -> Self {
        move |source| Self::Prepare { server: server.to_string(), source }
    }

    fn is_port_conflict(&self) -> bool {
        matches!(self, Self::Ended { log, .. } if log.contains("address already in use"))
    }
}

/// Starts a server, and retries with other ports if one of them has been taken in the meantime.
pub(crate) async fn with_free_ports<T>(
    start: impl AsyncFn() -> Result<T, StartError>,
) -> Result<T, StartError> {
    for _ in 1..ATTEMPTS {
        match start().await {
            Err(error) if error.is_port_conflict() => {}
            outcome => return outcome,
        }
    }
    start().await
}

/// Range of ports to choose from: below the range from which systems choose ports of outgoing
/// connections, since any connection could take such a port between the choice and its use.
const PORTS: std::ops::Range<u32> = 10_000..30_000;

/// Returns a port of this machine that is free at the moment. A process gets each port only once.
///
/// # Errors
///
/// No port is free.
pub fn unused_port() -> io::Result<u16> {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    // Processes that run in parallel start at different places of the range.
    let first = std::process::id().wrapping_mul(7_919);
    for _ in PORTS {
        let index = first.wrapping_add(GIVEN.fetch_add(1, Ordering::Relaxed)) % (PORTS.end - PORTS.start);
        let Ok(port) = u16::try_from(PORTS.start + index) else { continue };
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return Ok(port);
        }
    }
    Err(io::Error::other("no port is free"))
}

/// Returns a free port for a server.
pub(crate) fn free_port(server: Server) -> Result<u16, StartError> {
    unused_port().map_err(|error| StartError::prepare(server)(error.into()))
}

/// Creates a folder for a server, which the server's handle then owns.
pub(crate) fn folder(server: Server) -> Result<TempDir, StartError> {
    let prefix = format!("groundwork-{server}-");
    let folder = tempfile::Builder::new().prefix(&prefix).tempdir();
    folder.map_err(|error| StartError::prepare(server)(error.into()))
}

/// Writes a file into the folder of a server.
pub(crate) fn write(server: Server, path: &Path, content: &str) -> Result<(), StartError> {
    fs::write(path, content).map_err(|error| StartError::prepare(server)(error.into()))
}

/// Running server. Dropping it ends the server.
#[derive(Debug)]
pub(crate) struct Process {
    server: String,
    folder: PathBuf,
    guard: Child,
    /// Pipe that keeps the guard, and so the server, running.
    lifeline: Option<ChildStdin>,
}

impl Process {
    /// Starts a server that may use `folder` for its files.
    pub(crate) fn start<A: AsRef<OsStr>>(
        server: Server,
        folder: TempDir,
        arguments: impl IntoIterator<Item = A>,
    ) -> Result<Self, StartError> {
        let mut command = Command::new(find(server)?.path);
        command.args(arguments);
        // Most servers are programs in Go. Their garbage collectors take a good part of the
        // processor time of the suites, and a test has memory to spare.
        command.env("GOGC", "300");
        Self::guarded(server.to_string(), folder, &command)
    }

    /// Starts any program, with the arguments and variables of a command.
    pub(crate) fn guarded(server: String, folder: TempDir, command: &Command) -> Result<Self, StartError> {
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let mut guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(folder.path())
            .arg(command.get_program())
            .args(command.get_args())
            .envs(variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(|error| StartError::prepare(&server)(error.into()))?;
        let lifeline = guard.stdin.take();
        Ok(Self { server, folder: folder.keep(), guard, lifeline })
    }

    /// Returns the folder of the server.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until `ready` returns true.
    pub(crate) async fn wait_until(&self, ready: impl AsyncFn() -> bool) -> Result<(), StartError> {
        let start = Instant::now();
        loop {
            if ready().await {
                return Ok(());
            }
            if self.folder.join("exit").exists() {
                return Err(StartError::Ended { server: self.server.clone(), log: self.log_tail() });
            }
            if start.elapsed() > READY_LIMIT {
                return Err(StartError::NotReady { server: self.server.clone(), log: self.log_tail() });
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Kills the server (SIGKILL) and waits until it is dead. Its folder stays.
    pub(crate) async fn kill(&mut self) -> Result<(), StartError> {
        self.tell("stop\n")?;
        let exit = self.folder.join("exit");
        let start = Instant::now();
        while !exit.exists() {
            if start.elapsed() > READY_LIMIT {
                return Err(StartError::NotReady { server: self.server.clone(), log: self.log_tail() });
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Starts the killed server again, with the same arguments and folder. The caller has to wait
    /// until it is ready.
    pub(crate) fn start_again(&mut self) -> Result<(), StartError> {
        // The file records the end of the former process, and would count as the end of the new
        // one.
        fs::remove_file(self.folder.join("exit"))
            .map_err(|error| StartError::prepare(&self.server)(error.into()))?;
        self.tell("start\n")
    }

    /// Returns the process id of the server.
    pub(crate) fn pid(&self) -> Result<u32, StartError> {
        let start = Instant::now();
        loop {
            let text = fs::read_to_string(self.folder.join("pid")).unwrap_or_default();
            match text.trim().parse() {
                Ok(pid) => return Ok(pid),
                // The guard has not written the process id yet.
                Err(_) if start.elapsed() < READY_LIMIT => std::thread::sleep(POLL),
                Err(error) => {
                    return Err(StartError::prepare(&self.server)(
                        Box::<dyn std::error::Error + Send + Sync>::from(error),
                    ));
                }
            }
        }
    }

    /// Sends a signal to the server.
    pub(crate) fn signal(&self, signal: &str) -> Result<(), StartError> {
        let pid = self.pid()?.to_string();
        let sent = Command::new("kill").args([&format!("-{signal}"), &pid]).status();
        sent.map(drop).map_err(|error| StartError::prepare(&self.server)(error.into()))
    }

    /// Reports whether the process runs.
    pub(crate) fn is_running(&self) -> bool {
        !self.folder.join("exit").exists()
    }

    fn tell(&mut self, line: &str) -> Result<(), StartError> {
        let written = match &mut self.lifeline {
            Some(lifeline) => lifeline.write_all(line.as_bytes()).and_then(|()| lifeline.flush()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|error| StartError::prepare(&self.server)(error.into()))
    }

    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read(self.folder.join("log")).unwrap_or_default();
        let tail = log.len().saturating_sub(LOG_TAIL);
        String::from_utf8_lossy(&log[tail..]).into_owned()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.lifeline = None;
        // Closing the pipe ends the guard, which first kills the server and removes its folder.
        let _ = self.guard.wait();
    }
}

/// Returns the answer of a server on a loopback port to some bytes, or to none; empty if it does
/// not answer.
pub(crate) fn answer(port: u16, request: &str) -> String {
    let exchange = || -> std::io::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(request.as_bytes())?;
        let mut buffer = [0; 256];
        let read = stream.read(&mut buffer)?;
        Ok(String::from_utf8_lossy(&buffer[..read]).into_owned())
    };
    exchange().unwrap_or_default()
}

/// Returns the whole answer of a server that closes the connection after it.
pub(crate) fn whole_answer(port: u16, request: &str) -> std::io::Result<String> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(1))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Reports whether a server answers a GET request with success.
pub(crate) fn answers_http(port: u16, path: &str) -> bool {
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    answer(port, &request).starts_with("HTTP/1.1 2")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a shell script under the guard, in place of a server.
    fn guarded(folder: &Path, script: &str) -> Child {
        Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(folder)
            .args(["sh", "-c", script])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .unwrap()
    }

    fn wait_for(what: &str, condition: impl Fn() -> bool) {
        let start = Instant::now();
        while !condition() {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn is_running(pid: &str) -> bool {
        Path::new("/proc").join(pid.trim()).exists()
    }

    #[test]
    fn a_closed_pipe_ends_the_server_and_removes_its_folder() {
        let folder = tempfile::tempdir().unwrap().keep();
        let mut guard = guarded(&folder, "exec sleep 1000");
        wait_for("the server starts", || {
            fs::read_to_string(folder.join("pid")).is_ok_and(|pid| !pid.is_empty())
        });
        let pid = fs::read_to_string(folder.join("pid")).unwrap();
        assert!(is_running(&pid));
        drop(guard.stdin.take());
        guard.wait().unwrap();
        assert!(!is_running(&pid));
        assert!(!folder.exists());
    }

    #[tokio::test]
    async fn a_killed_server_can_be_started_again() {
        let folder = tempfile::tempdir().unwrap().keep();
        let mut guard = guarded(&folder, "echo here; exec sleep 1000");
        let lifeline = guard.stdin.take();
        let mut process =
            Process { server: Server::Etcd.to_string(), folder: folder.clone(), guard, lifeline };
        process.wait_until(async || process.log_tail() == "here\n").await.unwrap();
        let pid = fs::read_to_string(folder.join("pid")).unwrap();
        process.kill().await.unwrap();
        assert!(!is_running(&pid));
        assert_eq!(fs::read_to_string(folder.join("exit")).unwrap(), "137\n");
        process.start_again().unwrap();
        process.wait_until(async || process.log_tail() == "here\nhere\n").await.unwrap();
        drop(process);
        assert!(!folder.exists());
    }

    #[test]
    fn the_end_of_a_server_is_seen_and_its_log_is_kept() {
        let folder = tempfile::tempdir().unwrap().keep();
        let mut guard = guarded(&folder, "echo out of luck; exit 3");
        wait_for("the server ends", || {
            fs::read_to_string(folder.join("exit")).is_ok_and(|text| text == "3\n")
        });
        let lifeline = guard.stdin.take();
        let process = Process { server: Server::Etcd.to_string(), folder: folder.clone(), guard, lifeline };
        assert_eq!(process.log_tail(), "out of luck\n");
        drop(process);
        assert!(!folder.exists());
    }
}
