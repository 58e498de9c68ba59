//! Runs functions that are programs of this machine (`packagevariants.md` 8.4, 3).
//!
//! A program runs in an empty folder, with only `PATH` from our environment. It has the user, the
//! network and the files of this process, so only programs on the list of allowed ones run. The
//! program and its children form a process group, which is killed at the program's end.

use std::io::{Read, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use groundwork_krm::{Answer, FunctionRunner, Outcome, ResourceList, RunError, Target, on_wire};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use crate::functions::Limits;

/// Limit in bytes for the log of a function; the rest is dropped.
const MAX_LOG: u64 = 64 << 10;
/// Longest pause between two checks of a program.
const PAUSE: Duration = Duration::from_millis(20);
/// Time limit for reading the rest of a program's output after its process group was killed.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// Runs programs. The options of rendering decide which ones may run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Executables {
    limits: Limits,
}

impl Executables {
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }
}

impl FunctionRunner for Executables {
    fn has(&self, target: &Target) -> bool {
        matches!(target, Target::Exec { .. })
    }

    fn run(&self, target: &Target, list: &mut ResourceList) -> Result<Outcome, RunError> {
        let Target::Exec { words, .. } = target else { return Err(RunError::NotAvailable) };
        on_wire(list, |input| run(words, input, self.limits, Environment::Path).map_err(RunError::Failed))
    }
}

/// Environment of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Environment {
    /// Only `PATH`, for programs that packages name.
    Path,
    /// Environment of this process, for a program that the user trusts.
    Whole,
}

/// Runs a program to its end, or kills it when it exceeds a limit.
///
/// # Errors
/// The program cannot be started.
pub(super) fn run(
    words: &[String],
    input: String,
    limits: Limits,
    environment: Environment,
) -> Result<Answer, String> {
    let (program, arguments) =
        words.split_first().ok_or_else(|| "the program of the function is empty".to_owned())?;
    let folder = tempfile::tempdir().map_err(|error| format!("cannot create a temporary folder: {error}"))?;
    let mut command = Command::new(program);
    // A process group of its own, so that children of the program can be killed with it.
    command.args(arguments).current_dir(folder.path()).process_group(0);
    if environment == Environment::Path {
        command.env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("cannot start {program}: {error}"))?;
    // Read one byte more than allowed, to detect output over the limit.
    let mut stdout = Pipe::read(child.stdout.take(), limits.output.saturating_add(1));
    let stderr = Pipe::read(child.stderr.take(), MAX_LOG);
    if let Some(mut stdin) = child.stdin.take() {
        // Write in another thread: if the program writes much before it reads, both sides would
        // wait for each other. A program that ends early does not need the rest of its input.
        std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    }
    let exceeded = wait(&child, &mut stdout, limits).err();
    // Kill the group before the child is reaped: until then the id cannot belong to another group.
    end_group(&child);
    let status = child.wait().map_err(|error| format!("cannot wait for its end: {error}"))?;
    let output = stdout.rest();
    let log = String::from_utf8_lossy(&stderr.rest().unwrap_or_default()).into_owned();
    let exceeded = exceeded.or_else(|| match &output {
        Some(output) => exceeds(output, limits).then(|| limits.too_long()),
        // A process that has left the group still has the pipe open.
        None => Some("left a process behind that keeps its output open".to_owned()),
    });
    // A program that was killed by a signal has no exit code.
    Ok(Answer { output: output.unwrap_or_default(), log, exit_code: status.code().unwrap_or(1), exceeded })
}

fn exceeds(output: &[u8], limits: Limits) -> bool {
    u64::try_from(output.len()).is_ok_and(|length| length > limits.output)
}

/// Output of a program, read in a thread of its own, so that the program never blocks on a full
/// pipe.
struct Pipe {
    receiver: Receiver<Vec<u8>>,
    bytes: Option<Vec<u8>>,
}

impl Pipe {
    /// Keeps the first bytes, and discards the rest.
    fn read(pipe: Option<impl Read + Send + 'static>, most: u64) -> Self {
        let (sender, receiver) = sync_channel(1);
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let Some(mut pipe) = pipe else { return };
            drop(pipe.by_ref().take(most).read_to_end(&mut bytes));
            // The receiver is gone if the program has been given up.
            drop(sender.send(bytes));
            // Keep reading, or a program with more output would block on the full pipe.
            drop(std::io::copy(&mut pipe, &mut std::io::sink()));
        });
        Self { receiver, bytes: None }
    }

    /// Returns the whole output if the program has closed it already.
    fn now(&mut self) -> Option<&[u8]> {
        self.bytes = self.bytes.take().or_else(|| self.receiver.try_recv().ok());
        self.bytes.as_deref()
    }

    /// Returns the whole output after the program has ended; `None` if the output does not end
    /// within [`LAST_WORDS`].
    fn rest(self) -> Option<Vec<u8>> {
        self.bytes.or_else(|| self.receiver.recv_timeout(LAST_WORDS).ok())
    }
}

/// Waits for the end of a program without reaping it, so that its process id cannot be reused.
///
/// # Errors
/// The limit that the program exceeds. The program is still running then.
fn wait(child: &Child, stdout: &mut Pipe, limits: Limits) -> Result<(), String> {
    let Some(process) = process(child) else { return Ok(()) };
    #[cfg(target_os = "linux")]
    crate::functions::memory::bound(process, limits.memory);
    let end = Instant::now() + limits.time;
    let mut pause = Duration::from_micros(500);
    loop {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if !matches!(waitid(WaitId::Pid(process), options), Ok(None)) {
            return Ok(());
        }
        if Instant::now() >= end {
            return Err(limits.too_slow());
        }
        if stdout.now().is_some_and(|output| exceeds(output, limits)) {
            return Err(limits.too_long());
        }
        #[cfg(target_os = "linux")]
        if crate::functions::memory::resident(process) > limits.memory {
            return Err(limits.too_large());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(PAUSE);
    }
}

/// Returns the process id, which is also that of its group.
fn process(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Kills the program if it still runs, and the processes that it has left behind.
fn end_group(child: &Child) {
    if let Some(group) = process(child) {
        // The group may have no process left, so an error is fine.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use groundwork_krm::{Package, RenderOptions, Rendered, render};

    use super::*;

    const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # why\ndata:\n  x: old\n";

    /// Renders a package with one function.
    fn rendered(limits: Limits, exec: &str) -> Rendered {
        let kptfile = format!(
            "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {{name: p}}\npipeline:\n  mutators:\n  - exec: |-\n      {exec}\n"
        );
        let files: Package = [("Kptfile".to_owned(), kptfile), ("a.yaml".to_owned(), CM.to_owned())].into();
        let executables = Executables::new(limits);
        let options = RenderOptions {
            allow_exec: true,
            exec_allowed: ["sh", "awk", "/nowhere"].map(str::to_owned).to_vec(),
            runners: vec![&executables],
            ..RenderOptions::default()
        };
        render(&files, &options)
    }

    fn cause(limits: Limits, exec: &str) -> String {
        let error = rendered(limits, exec).error.unwrap();
        let found = error.strip_prefix(&format!("package \".\": function \"{exec}\": "));
        found.unwrap_or_else(|| panic!("{error}")).to_owned()
    }

    /// Words are split as in a shell, but no shell runs (`packagevariants.md` 8.4, 3).
    #[test]
    fn programs_change_packages() {
        let found = rendered(Limits::default(), "awk '{ sub(/[o]ld/, \"$HOME;\"); print }'");
        assert_eq!(found.error, None);
        assert_eq!(found.files["a.yaml"], CM.replace("old", "$HOME;"));
        assert!(found.files["Kptfile"].contains("reason: RenderSuccess"));
    }

    /// A program sees an empty folder, and only `PATH` in its environment (`packagevariants.md`
    /// 8.4, 3).
    #[test]
    fn what_programs_see() {
        let said = cause(Limits::default(), "sh -c 'ls -A >&2; env | sed s/=.*// | sort >&2; exit 3'");
        // The shell sets these variables itself.
        let mut words: Vec<&str> = said.split(", ").collect();
        words.retain(|word| !["PWD", "OLDPWD", "SHLVL", "_"].contains(word));
        assert_eq!(words, ["PATH", "exit code 3"]);
    }

    #[test]
    fn programs_that_fail() {
        assert_eq!(cause(Limits::default(), "sh -c 'kill -9 $$'"), "exit code 1");
        assert_eq!(cause(Limits::default(), "sh -c 'exit 0'"), "output is not a ResourceList: it is empty");
        let error = cause(Limits::default(), "/nowhere");
        let expected = "function runtime failed to evaluate function \"/nowhere\": cannot start /nowhere: ";
        assert!(error.starts_with(expected), "{error}");
    }

    /// Limits with their error messages; children of a program are killed with it
    /// (`packagevariants.md` 8.4).
    #[test]
    fn programs_that_exceed_their_limits() {
        let limits = Limits::default();
        let short = Limits { time: Duration::from_secs(1), ..limits };
        assert_eq!(cause(short, "sh -c 'sleep 1000 & wait'"), "killed after 1 s");
        let small = Limits { memory: 64 << 20, ..limits };
        let doubles = "awk 'BEGIN { s = \"xxxxxxxx\"; while (1) s = s s }'";
        if cfg!(target_os = "linux") {
            assert_eq!(cause(small, doubles), "used more than 64 MiB");
        }
        let few = Limits { output: 1000, ..limits };
        let wrote = "wrote more than 1000 bytes";
        assert_eq!(cause(few, "awk 'BEGIN { while (1) print \"x\" }'"), wrote);
        assert_eq!(cause(few, "awk 'BEGIN { while (n++ < 501) print \"x\" }'"), wrote);
        // The child would keep the output open as long as it lives.
        let begun = Instant::now();
        assert_eq!(rendered(limits, "sh -c 'sleep 1000 & cat'").error, None);
        assert!(begun.elapsed() < LAST_WORDS, "{:?}", begun.elapsed());
    }

    /// Output over the limit does not keep a program from ending (`packagevariants.md` 8.4).
    #[test]
    fn programs_that_talk_a_lot() {
        let found =
            rendered(Limits::default(), "sh -c 'awk \"BEGIN { while (n++ < 100000) print 1 }\" >&2; cat'");
        assert_eq!(found.error, None);
        let said = found.status.result.unwrap().items[0].stderr.clone().unwrap();
        assert_eq!(said.len(), usize::try_from(MAX_LOG).unwrap());
    }
}
