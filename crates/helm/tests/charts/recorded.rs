//! Cases with the answers that the original gave.

use std::fs;
use std::path::{Path, PathBuf};

use groundwork_testkit::{Server, find};
use serde::{Deserialize, Serialize};

use crate::case::{Answer, Case, originals};

/// A case, and what the original said.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Recorded {
    case: Case,
    answer: Answer,
    /// What we say instead, on purpose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ours: Option<Answer>,
}

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// Compares a file of cases; writes the answers anew if that is asked for.
fn check(name: &str) {
    let path = data(name);
    let text = fs::read_to_string(&path).expect("the cases can be read");
    let mut recorded: Vec<Recorded> =
        text.lines().map(|line| serde_json::from_str(line).expect("a line is a case")).collect();
    if std::env::var_os("GROUNDWORK_HELM_RECORD").is_some() {
        let program = find(Server::Helm).expect("the original has been built").path;
        let cases: Vec<Case> = recorded.iter().map(|recorded| recorded.case.clone()).collect();
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
    for Recorded { case, answer, ours } in &recorded {
        let (expected, got) = (ours.as_ref().unwrap_or(answer), case.ours());
        if *expected != got {
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

/// `helm.md` 13.1 to 13.6.
#[test]
fn worked_examples() {
    check("worked.jsonl");
}
