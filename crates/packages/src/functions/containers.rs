//! Runs images in containers of this machine (`packagevariants.md` 8.4, 4), with the first of
//! podman, docker and nerdctl that is there.
//!
//! A container has no network, no mounts, no capabilities, a read-only file system and an unknown
//! user. It reads the ResourceList from its standard input and writes the result to its standard
//! output, as `kpt fn render` does it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use groundwork_krm::{Answer, FunctionRunner, Outcome, ResourceList, RunError, Target, on_wire};

use crate::functions::Limits;
use crate::functions::executables::{Environment, run};

/// Programs that run containers, in the order in which they are preferred: podman needs no daemon.
const ENGINES: [&str; 3] = ["podman", "docker", "nerdctl"];
/// Time limit for the download of an image.
const PULL: Duration = Duration::from_secs(600);
/// Limit for the processes of a container.
const MAX_PROCESSES: u32 = 256;

/// The machine has no program that runs containers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("none of {} is in PATH: install one, or use a function runner", ENGINES.join(", "))]
pub struct NoEngine;

/// Runs images with one program.
#[derive(Debug, Clone)]
pub struct Containers {
    engine: PathBuf,
    limits: Limits,
}

impl Containers {
    /// Finds the program that runs containers.
    ///
    /// # Errors
    /// There is none.
    pub fn find(limits: Limits) -> Result<Self, NoEngine> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        Self::in_path(&path, limits).ok_or(NoEngine)
    }

    fn in_path(path: &std::ffi::OsStr, limits: Limits) -> Option<Self> {
        let folders: Vec<PathBuf> = std::env::split_paths(path).collect();
        let places = ENGINES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        places.into_iter().find(|place| place.is_file()).map(|engine| Self { engine, limits })
    }

    fn evaluate(&self, image: &str, input: String) -> Result<Answer, RunError> {
        self.pull(image)?;
        // The name lets the container be removed when the program that started it is killed.
        let name = format!("groundwork-{}-{:08x}", std::process::id(), next_id());
        let words = self.words(image, &name);
        let limits = Limits { memory: u64::MAX / 8, ..self.limits };
        let answer = run(&words, input, limits, Environment::Whole).map_err(RunError::Failed)?;
        if answer.exceeded.is_some() {
            drop(self.quietly(&["rm", "--force", &name]));
        }
        Ok(answer)
    }

    /// Downloads an image that is missing here.
    fn pull(&self, image: &str) -> Result<(), RunError> {
        if self.quietly(&["image", "inspect", image]).is_ok_and(|status| status.success()) {
            return Ok(());
        }
        let words = [self.engine.to_string_lossy().into_owned(), "pull".to_owned(), image.to_owned()];
        let limits = Limits { time: PULL, memory: u64::MAX / 8, ..self.limits };
        let pulled = run(&words, String::new(), limits, Environment::Whole).map_err(RunError::Failed)?;
        if pulled.exit_code == 0 && pulled.exceeded.is_none() {
            return Ok(());
        }
        let last = pulled.log.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default().to_owned();
        Err(RunError::Failed(format!("cannot pull the image: {}", pulled.exceeded.unwrap_or(last))))
    }

    fn quietly(&self, arguments: &[&str]) -> std::io::Result<std::process::ExitStatus> {
        let mut command = Command::new(&self.engine);
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()
    }

    fn words(&self, image: &str, name: &str) -> Vec<String> {
        let engine = self.engine.to_string_lossy();
        let (memory, processes) =
            (format!("--memory={}", self.limits.memory), format!("--pids-limit={MAX_PROCESSES}"));
        let name = format!("--name={name}");
        [
            engine.as_ref(),
            "run",
            "--rm",
            "--interactive",
            &name,
            "--pull=never",
            "--network=none",
            "--read-only",
            "--user=65534:65534",
            "--cap-drop=ALL",
            "--security-opt=no-new-privileges",
            &memory,
            &processes,
            image,
        ]
        .map(str::to_owned)
        .to_vec()
    }
}

/// Returns a number that differs between the containers of one process.
fn next_id() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl FunctionRunner for Containers {
    fn has(&self, target: &Target) -> bool {
        matches!(target, Target::Image(_))
    }

    fn run(&self, target: &Target, list: &mut ResourceList) -> Result<Outcome, RunError> {
        let Target::Image(image) = target else { return Err(RunError::NotAvailable) };
        let image = super::remote::tagged(image).map_err(RunError::Failed)?;
        on_wire(list, |input| self.evaluate(&image, input))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use groundwork_krm::{Package, RenderOptions, render};

    use super::*;

    fn program(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A program with the command line of podman shows how containers are started, and passes the
    /// ResourceList on.
    #[test]
    fn images_run_without_network_and_rights() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("log");
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {}\ncase $1 in image) exit 1;; pull) exit 0;; run) sed s/old/new/;; esac\n",
            log.display()
        );
        program(folder.path(), "docker", "#!/bin/sh\nexit 9\n");
        program(folder.path(), "podman", &script);
        let containers = Containers::in_path(folder.path().as_os_str(), Limits::default()).unwrap();
        let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: p}\npipeline:\n  mutators:\n  - image: r.example/f:v1\n";
        let object = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # why\ndata:\n  x: old\n";
        let files: Package = [("Kptfile", kptfile), ("a.yaml", object)]
            .map(|(path, text)| (path.to_owned(), text.to_owned()))
            .into();
        let options = RenderOptions { runners: vec![&containers], ..RenderOptions::default() };
        let rendered = render(&files, &options);
        assert_eq!(rendered.error, None);
        assert_eq!(rendered.files["a.yaml"], object.replace("old", "new"));
        let log = std::fs::read_to_string(log).unwrap();
        let lines: Vec<&str> = log.lines().collect();
        assert_eq!(lines[..2], ["image inspect r.example/f:v1", "pull r.example/f:v1"]);
        let run =
            lines[2].split(' ').filter(|word| !word.starts_with("--name=")).collect::<Vec<_>>().join(" ");
        assert_eq!(
            run,
            "run --rm --interactive --pull=never --network=none --read-only --user=65534:65534 --cap-drop=ALL \
             --security-opt=no-new-privileges --memory=536870912 --pids-limit=256 r.example/f:v1"
        );
    }

    #[test]
    fn images_that_cannot_be_had() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Containers::in_path(folder.path().as_os_str(), Limits::default()).is_none());
        program(folder.path(), "nerdctl", "#!/bin/sh\necho \"no such image: $2\" >&2\nexit 1\n");
        let containers = Containers::in_path(folder.path().as_os_str(), Limits::default()).unwrap();
        let error = containers.evaluate("r.example/f:v1", String::new()).unwrap_err();
        assert_eq!(
            error,
            RunError::Failed("cannot pull the image: no such image: r.example/f:v1".to_owned())
        );
    }
}
