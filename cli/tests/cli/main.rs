//! Tests of the `groundwork` command as a user runs it: files in, exit code and two output streams
//! out.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests, which the lints do not recognise as such"
)]

mod bad_input;
mod blueprint;
mod component;
mod examples;
mod explain;
mod fetching;
mod helm;
mod hostile;
mod input_forms;
mod nested;
mod overwrites;
mod package_render;
mod plan;
mod reference;
mod secrecy;
mod spiff;
mod template;
mod variants;
mod wall;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Result of a run.
struct Run {
    code: i32,
    out: String,
    err: String,
}

impl Run {
    /// Parses standard output as JSON.
    fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}\n{}\n{}", self.out, self.err))
    }

    /// Returns the first object of a kind in a `List`.
    fn object(&self, kind: &str) -> Value {
        let list = self.json();
        let found = list["items"].as_array().unwrap().iter().find(|item| item["kind"] == kind).cloned();
        found.unwrap_or_else(|| panic!("no {kind} in {list:#}"))
    }

    /// Returns a condition of the Installation, without its times.
    fn condition(&self, type_name: &str) -> Option<(String, String, String)> {
        let installation = self.object("Installation");
        let conditions = installation["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let condition = conditions.into_iter().find(|condition| condition["type"] == type_name)?;
        let text = |member: &str| condition[member].as_str().unwrap().to_owned();
        assert!(condition["lastTransitionTime"].is_string() && condition["lastUpdateTime"].is_string());
        Some((text("status"), text("reason"), text("message")))
    }
}

fn groundwork(arguments: &[&str], input: &str) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_groundwork"))
        .args(arguments)
        .env_remove("GROUNDWORK_REPOSITORIES")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // Write in another thread: a command that prints while it reads would block until its output is
    // read. A command that rejects its arguments never reads, so a failed write is fine.
    let output = std::thread::scope(|scope| {
        scope.spawn(move || drop(stdin.write_all(input.as_bytes())));
        child.wait_with_output().unwrap()
    });
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// Copy of the manifests of the echo-server example that a test may change. The component stores
/// are not copied.
struct EchoServer {
    folder: TempDir,
}

impl EchoServer {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for entry in fs::read_dir(examples().join("echo-server")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|ending| ending == "yaml") {
                fs::copy(&path, folder.path().join(path.file_name().unwrap())).unwrap();
            }
        }
        Self { folder }
    }

    fn path(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn write(&self, file: &str, text: &str) -> &Self {
        fs::write(self.folder.path().join(file), text).unwrap();
        self
    }

    fn remove(&self, file: &str) -> &Self {
        fs::remove_file(self.folder.path().join(file)).unwrap();
        self
    }

    /// Replaces a text that has to be in the file.
    fn replace(&self, file: &str, from: &str, to: &str) -> &Self {
        let path = self.folder.path().join(file);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} does not contain {from:?}");
        fs::write(path, text.replace(from, to)).unwrap();
        self
    }

    fn render(&self, arguments: &[&str]) -> Run {
        let repositories = examples().join("echo-server/components/repositories.yaml").display().to_string();
        let path = self.path();
        let mut all = vec!["render", &path, "--repositories", &repositories];
        all.extend(arguments);
        groundwork(&all, "")
    }

    fn render_json(&self) -> Run {
        self.render(&["-o", "json"])
    }
}
