//! A case, and the answers of our engine and of Go to it.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::IpAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::SystemTime;

use groundwork_gotemplate::{
    Delimiters, Error, ErrorKind, Functions, Grants, MissingKey, NumberMode, Options, Template, Value,
};
use serde::{Deserialize, Serialize};

/// A line for `groundwork-judge template go`, and for the Go program.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Case {
    pub(crate) template: String,
    pub(crate) data: serde_json::Value,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) missingkey: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) numbers: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) left: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) right: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) extra: Vec<Extra>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) execute: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sprig: Option<bool>,
}

/// A source that is parsed into the same set before.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Extra {
    pub(crate) name: String,
    pub(crate) template: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Answer {
    Output { output: String },
    Failure { error: String, phase: String },
}

impl Answer {
    pub(crate) fn succeeded(&self) -> bool {
        matches!(self, Answer::Output { .. })
    }
}

const NAME: &str = "t";

/// Our engine with the grants that Go's functions have without asking.
pub(crate) struct Ours {
    builtins: Arc<Functions>,
    sprig: Arc<Functions>,
    grants: Grants,
}

impl Ours {
    pub(crate) fn new() -> Ours {
        let grants = Grants {
            clock: Some(Arc::new(SystemTime::now)),
            randomness: Some(Arc::new(|buffer| getrandom::fill(buffer).map_err(|error| error.to_string()))),
            environment: Some(Arc::new(|name| std::env::var(name).ok())),
            // Host names are not looked up, so that the test needs no network; an address is its
            // own result.
            network: Some(Arc::new(|host| {
                host.parse::<IpAddr>().map(|address| address.to_string()).into_iter().collect()
            })),
        };
        Ours { builtins: Arc::new(Functions::builtins()), sprig: Arc::new(Functions::sprig()), grants }
    }

    pub(crate) fn answer(&self, case: &Case) -> Answer {
        match self.render(case) {
            Ok(bytes) => Answer::Output { output: readable(&bytes) },
            Err(error) => {
                let phase = if error.kind() == ErrorKind::Parse { "parse" } else { "exec" };
                Answer::Failure { error: readable(error.to_string().as_bytes()), phase: phase.to_owned() }
            }
        }
    }

    fn render(&self, case: &Case) -> Result<Vec<u8>, Error> {
        let options = Options {
            missing_key: match case.missingkey.as_str() {
                "zero" => MissingKey::Zero,
                "error" => MissingKey::Error,
                _ => MissingKey::Default,
            },
            numbers: match case.numbers.as_str() {
                "int64" => NumberMode::Int64,
                "int" => NumberMode::Int,
                _ => NumberMode::Float64,
            },
            delimiters: Delimiters { left: case.left.clone(), right: case.right.clone() },
            grants: self.grants.clone(),
            ..Options::default()
        };
        let functions = if case.sprig == Some(false) { &self.builtins } else { &self.sprig };
        let sources = case.extra.iter().map(|extra| (extra.name.as_str(), extra.template.as_str()));
        let mut set: Option<Template> = None;
        for (name, source) in sources.chain([(NAME, case.template.as_str())]) {
            set = Some(match set {
                None => Template::parse(name, source, functions, &options)?,
                Some(set) => set.parse_associated(name, source)?,
            });
        }
        let set = set.expect("there is at least the template itself");
        let data = Value::from_json(&case.data, options.numbers);
        if case.execute.is_empty() { set.render(data) } else { set.render_named(&case.execute, data) }
    }
}

/// Replaces every byte that is not part of a character by U+FFFD.
fn readable(bytes: &[u8]) -> String {
    bytes.utf8_chunks().fold(String::new(), |mut text, chunk| {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        text
    })
}

/// Starts the Go program and returns its answers to these cases.
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
    // The Go program answers before it has read all cases. A thread writes, because otherwise both
    // pipes would fill up and block.
    let writer = std::thread::spawn(move || input.write_all(&lines));
    let output = BufReader::new(child.stdout.take().expect("its standard output is a pipe"));
    let answers: Vec<Answer> = output
        .lines()
        .map_while(Result::ok)
        // A crash of the Go program may cut its last line.
        .map_while(|line| serde_json::from_str(&line).ok())
        .collect();
    let _ = writer.join().expect("writing does not panic");
    let status = child.wait().expect("the original ends");
    if let Some(case) = cases.get(answers.len()) {
        let case = serde_json::to_string(case).expect("a case is JSON");
        assert!(status.success(), "the original ended ({status}) at {case}");
    }
    assert_eq!(answers.len(), cases.len(), "the original answered too little");
    answers
}
