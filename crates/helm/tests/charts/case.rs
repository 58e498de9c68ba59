//! A case, and the answers of our engine and of Helm to it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

use groundwork_gotemplate::Grants;
use groundwork_helm::values::{self, Table};
use groundwork_helm::{Capabilities, Chart, File, KubeVersion, Release, Renderer, Request};
use serde::{Deserialize, Serialize};

/// A line for `groundwork-judge template helm`, and for the Helm program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) chart: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) from: String,
    #[serde(skip_serializing_if = "Table::is_empty")]
    pub(crate) values: Table,
    pub(crate) release: CaseRelease,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) kube_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kube_version_raw: Option<CaseVersion>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) api_versions: Vec<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) include_crds: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) skip_schema_validation: bool,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CaseRelease {
    pub(crate) name: String,
    pub(crate) namespace: String,
    #[serde(skip_serializing_if = "is_zero")]
    pub(crate) revision: i64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_upgrade: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(crate) struct CaseVersion {
    pub(crate) version: String,
    pub(crate) major: String,
    pub(crate) minor: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Answer {
    Output(Output),
    Error(Failure),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Output {
    pub(crate) manifest: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) hooks: Vec<CaseHook>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) notes: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct CaseHook {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) path: String,
    pub(crate) events: Vec<String>,
    pub(crate) weight: i64,
    pub(crate) delete_policies: Vec<String>,
    pub(crate) output_log_policies: Vec<String>,
    pub(crate) manifest: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    pub(crate) stage: String,
    pub(crate) message: String,
}

impl Answer {
    pub(crate) fn succeeded(&self) -> bool {
        matches!(self, Answer::Output(_))
    }

    /// Reports whether both answers are equal. Helm reports the findings of schemas in a different
    /// order each time.
    pub(crate) fn agrees(&self, other: &Answer) -> bool {
        match (self, other) {
            (Answer::Error(a), Answer::Error(b)) => {
                a.stage == b.stage && comparable(&a.message) == comparable(&b.message)
            }
            (a, b) => a == b,
        }
    }

    fn failed(stage: &str, error: impl std::fmt::Display) -> Answer {
        Answer::Error(Failure { stage: stage.to_owned(), message: format!("{error}") })
    }
}

impl Case {
    /// Creates a chart that has only the files that its templates need.
    pub(crate) fn of(name: &str, files: impl IntoIterator<Item = (String, String)>, values: Table) -> Case {
        let mut chart = BTreeMap::from_iter(files);
        chart
            .entry("Chart.yaml".to_owned())
            .or_insert_with(|| "apiVersion: v2\nname: c\nversion: 0.1.0\n".to_owned());
        let release =
            CaseRelease { name: "rel".to_owned(), namespace: "ns".to_owned(), ..CaseRelease::default() };
        Case { name: name.to_owned(), chart, values, release, ..Case::default() }
    }

    /// Returns our engine's answer.
    pub(crate) fn ours(&self) -> Answer {
        self.ours_from(self.files())
    }

    pub(crate) fn files(&self) -> Vec<File> {
        self.chart.iter().map(|(path, text)| File::new(path.as_str(), text.clone().into_bytes())).collect()
    }

    /// Returns our engine's answer for files in the given order.
    pub(crate) fn ours_from(&self, files: Vec<File>) -> Answer {
        let loaded = match self.from.as_str() {
            "archive" => Chart::from_archived(files),
            // The files of an archive come in any order, and `.helmignore` does not apply to them.
            "files" => Chart::from_files(files),
            _ => Chart::from_directory(files),
        };
        let chart = match loaded {
            Ok(chart) => chart,
            Err(error) => return Answer::failed("load", error),
        };
        let mut capabilities = Capabilities::default();
        if !self.kube_version.is_empty() {
            match KubeVersion::parse(&self.kube_version) {
                Ok(version) => capabilities.kube_version = version,
                Err(error) => return Answer::failed("render", error),
            }
        }
        if let Some(CaseVersion { version, major, minor }) = self.kube_version_raw.clone() {
            capabilities.kube_version = KubeVersion { version, major, minor };
        }
        capabilities.api_versions.extend(self.api_versions.iter().cloned());
        let CaseRelease { name, namespace, revision, is_upgrade } = self.release.clone();
        let request = Request {
            values: values::floats(self.values.clone()),
            release: Some(Release { name, namespace, revision: revision.max(1), is_upgrade }),
            capabilities,
            include_crds: self.include_crds,
            skip_schema: self.skip_schema_validation,
            grants: Grants {
                clock: Some(Arc::new(SystemTime::now)),
                randomness: Some(Arc::new(|buffer| {
                    buffer.fill(7);
                    Ok(())
                })),
                ..Grants::default()
            },
            ..Request::default()
        };
        match Renderer::new(chart).render(&request) {
            Err(error) => Answer::failed("render", error),
            Ok(rendered) => {
                let manifest = rendered.manifest();
                let hook = |hook: groundwork_helm::Hook| CaseHook {
                    name: hook.name,
                    kind: hook.kind,
                    path: hook.file,
                    events: hook.events.into_iter().map(Cow::into_owned).collect(),
                    weight: hook.weight,
                    delete_policies: hook.delete_policies,
                    output_log_policies: hook.output_log_policies,
                    manifest: hook.content,
                };
                let hooks = rendered.hooks.into_iter().map(hook).collect();
                Answer::Output(Output { manifest, hooks, notes: rendered.notes })
            }
        }
    }
}

/// Replaces the parts of a message that differ in each run of Helm (`helm.md` 5 and 15, R36).
fn comparable(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("type mismatch on ") {
        let name = rest.split(':').next().unwrap_or_default();
        return format!("type mismatch on {name}");
    }
    if message.starts_with("values don't meet") {
        let mut lines: Vec<&str> = message.lines().collect();
        lines.sort_unstable();
        return lines.join("\n");
    }
    message.to_owned()
}

#[derive(Deserialize)]
struct Line {
    output: Option<Output>,
    error: Option<Failure>,
}

/// Starts the Helm program and returns its answers to the cases.
pub(crate) fn originals(program: &Path, cases: &[Case]) -> Vec<Answer> {
    let mut child = Command::new(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the original starts");
    let mut input = child.stdin.take().expect("its standard input is a pipe");
    let lines: Vec<u8> = cases.iter().fold(Vec::new(), |mut lines, case| {
        serde_json::to_writer(&mut lines, case).expect("a case is JSON");
        lines.push(b'\n');
        lines
    });
    // The Helm program answers before it has read all cases. A thread writes, because otherwise
    // both pipes would fill up and block.
    let writer = std::thread::spawn(move || input.write_all(&lines));
    let output = BufReader::new(child.stdout.take().expect("its standard output is a pipe"));
    let answers: Vec<Answer> = output
        .lines()
        .map_while(Result::ok)
        .map(|line| {
            let line: Line = serde_json::from_str(&line).expect("an answer is JSON");
            line.output
                .map(Answer::Output)
                .or(line.error.map(Answer::Error))
                .expect("an answer says something")
        })
        .collect();
    let _ = writer.join().expect("writing does not panic");
    let _ = child.wait();
    assert_eq!(answers.len(), cases.len(), "the original answered too little");
    answers
}
