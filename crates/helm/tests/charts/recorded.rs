//! Cases with recorded answers of Helm.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use groundwork_testkit::{Server, find};
use serde::{Deserialize, Serialize};

use crate::case::{Answer, Case, originals};

/// A case, and Helm's answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Recorded {
    /// Folder with the files of the chart, if the case does not contain them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    folder: Option<String>,
    case: Case,
    answer: Answer,
    /// The answer of our engine, where it deviates from Helm's on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ours: Option<Answer>,
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

impl Recorded {
    /// Returns the case with the files of its chart.
    fn whole_case(&self) -> Case {
        let mut case = self.case.clone();
        if let Some(folder) = &self.folder {
            collect(&data("charts").join(folder), "", &mut case.chart);
        }
        case
    }
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, String>) {
    for entry in fs::read_dir(folder).expect("the chart is there") {
        let entry = entry.expect("the chart can be listed");
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            collect(&entry.path(), &format!("{path}/"), files);
        } else {
            files.insert(path, fs::read_to_string(entry.path()).expect("the file is a text"));
        }
    }
}

/// Compares a file of cases, or records the answers anew if the environment asks for it.
fn check(name: &str) {
    let path = data(name);
    let text = fs::read_to_string(&path).expect("the cases can be read");
    let mut recorded: Vec<Recorded> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is a case")).collect();
    if std::env::var_os("GROUNDWORK_HELM_RECORD").is_some() {
        let program = find(Server::Helm).expect("the original has been built").path;
        let cases: Vec<Case> = recorded.iter().map(Recorded::whole_case).collect();
        for (recorded, answer) in recorded.iter_mut().zip(originals(&program, &cases)) {
            recorded.answer = answer;
        }
        let lines: Vec<String> = recorded
            .iter()
            .map(|recorded| serde_json::to_string(recorded).expect("a case is JSON") + "\n")
            .collect();
        fs::write(&path, lines.concat()).expect("the answers can be written");
    }
    let mut differences = Vec::new();
    for each in &recorded {
        let case = each.whole_case();
        let (expected, got) = (each.ours.as_ref().unwrap_or(&each.answer), case.ours());
        if !expected.agrees(&got) {
            differences.push(format!("{name} {}\n  expected: {expected:?}\n       got: {got:?}", case.name));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {} cases differ:\n{}",
        differences.len(),
        recorded.len(),
        differences.join("\n")
    );
}

/// Cases of `helm.md` 13.1 to 13.6.
#[test]
fn worked_examples() {
    check("worked.jsonl");
}

/// Cases with the charts in `data/charts` and values that change their output.
#[test]
fn charts() {
    check("charts.jsonl");
}

/// Cases for each keyword of schemas, alone and behind others (`helm.md` 5).
#[test]
fn schemas() {
    check("schemas.jsonl");
}

/// Cases with texts that are not YAML, and the messages about them.
#[test]
fn broken_yaml() {
    check("yaml.jsonl");
}

/// Cases with odd or broken descriptions, defaults, versions and templates, one fault at a time.
#[test]
fn odd_charts() {
    check("odd.jsonl");
}
