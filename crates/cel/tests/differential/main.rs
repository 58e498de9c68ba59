//! Comparison of generated expressions with cel-go: texts, and the texts of errors.
//!
//! `GROUNDWORK_CEL_CASES` and `GROUNDWORK_CEL_SEED` choose a longer and another run.

mod generator;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use generator::Generator;
use groundwork_cel::{Compiler, Declarations, Declared, EvalError, Host, Steps, Value};
use groundwork_go::regexp::Pattern;
use groundwork_testkit::made_up::cases;
use groundwork_testkit::{Server, find, servers_or_skip};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Expressions of a usual run.
const CASES: usize = 5_000;
/// Differences that are printed.
const SHOWN: usize = 40;

#[derive(Serialize)]
struct Object {
    name: &'static str,
    namespace: &'static str,
    labels: BTreeMap<&'static str, &'static str>,
    annotations: BTreeMap<&'static str, &'static str>,
}

/// Values of the variables.
struct World(BTreeMap<&'static str, Object>);

impl World {
    fn new() -> Self {
        let object = |name, labels: &[_], annotations: &[_]| Object {
            name,
            namespace: "fleet",
            labels: labels.iter().copied().collect(),
            annotations: annotations.iter().copied().collect(),
        };
        Self(BTreeMap::from([
            ("target", object("edge-7", &[("env", "prod"), ("region", "eu"), ("count", "3")], &[])),
            ("repository", object("edge-7", &[("env", "prod"), ("region", "eu")], &[("a", "b")])),
            ("upstream", object("catalog.dns.v4", &[("kpt.dev/latest-revision", "true")], &[("env", "x")])),
        ]))
    }
}

impl Declarations for World {
    fn variable(&self, name: &str) -> Option<Declared> {
        match name {
            "repoDefault" | "packageDefault" => Some(Declared::String),
            _ => self.0.contains_key(name).then_some(Declared::Dyn),
        }
    }

    fn check_pattern(&self, pattern: &str) -> Result<(), EvalError> {
        self.matches("", pattern).map(drop)
    }
}

impl Host for World {
    fn variable(&self, name: &str) -> Option<Value> {
        let texts = |texts: &BTreeMap<&'static str, &'static str>| {
            Value::object(texts.iter().map(|(key, value)| (*key, Value::from(*value))))
        };
        match name {
            "repoDefault" => Some("r1".into()),
            "packageDefault" => Some("p1".into()),
            _ => self.0.get(name).map(|object| {
                Value::object([
                    ("name", object.name.into()),
                    ("namespace", object.namespace.into()),
                    ("labels", texts(&object.labels)),
                    ("annotations", texts(&object.annotations)),
                ])
            }),
        }
    }

    fn matches(&self, text: &str, pattern: &str) -> Result<bool, EvalError> {
        let pattern = Pattern::compile(pattern);
        let pattern = pattern.map_err(|error| EvalError::new(format!("error parsing regexp: {error}")))?;
        Ok(pattern.regex().is_match(text))
    }
}

#[derive(Deserialize, Debug)]
struct Answer {
    text: Option<String>,
    #[serde(default)]
    error: String,
    /// True if cel-go's answer differs in each run.
    #[serde(default)]
    varies: bool,
}

fn originals(expressions: &[String], world: &World) -> Vec<Answer> {
    let program = find(Server::Cel).expect("it was just found").path;
    let mut command = Command::new(program);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it can be started");
    let mut input = child.stdin.take().expect("it has one");
    let mut lines = String::new();
    for expression in expressions {
        let texts = json!({"repoDefault": "r1", "packageDefault": "p1"});
        let line = json!({"expression": expression, "objects": world.0, "texts": texts});
        writeln!(lines, "{line}").expect("writing to a string cannot fail");
    }
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().expect("it ends");
    writer.join().expect("no panic").expect("it reads to the end");
    let text = String::from_utf8(output.stdout).expect("JSON is text");
    text.lines().map(|line| serde_json::from_str(line).expect("a line is an answer")).collect()
}

fn ours(compiler: &Compiler, expression: &str, world: &World) -> Result<String, String> {
    let program = compiler.compile(expression, world)?;
    let value = program.evaluate(world, &Steps::new(u64::MAX)).map_err(|error| error.to_string())?;
    value.text().map(str::to_owned).map_err(|error| error.to_string())
}

/// Reports whether both answers agree. Our errors have cel-go's words without the place.
fn agree(expected: &Answer, got: &Result<String, String>) -> bool {
    // cel-go has an internal error for keys that Go cannot hash, which is a defect, so any answer
    // of ours agrees.
    if expected.varies || expected.error.starts_with("internal error") {
        return true;
    }
    let got = match (&expected.text, got) {
        (Some(expected), Ok(got)) => return expected == got,
        (None, Err(got)) => got,
        _ => return false,
    };
    let text = &expected.error;
    let words =
        text.strip_prefix("ERROR: <input>:").and_then(|rest| rest.splitn(3, ':').nth(2)).unwrap_or(text);
    let words = words.strip_suffix(" (in container '')").unwrap_or(words).trim();
    // cel-go numbers type variables in random order, distinguishes its maps from those of the host,
    // and words syntax errors differently.
    let is_close = words.contains("_var")
        || (words.starts_with("invalid qualifier type") && got.starts_with("invalid qualifier type"))
        || got.contains("Syntax error");
    is_close || got.contains(words)
}

/// Case: recorded answers of cel-go, for runs without the cel-go program.
#[test]
fn recorded_answers() {
    let recorded: Vec<(String, Option<String>, String)> =
        serde_json::from_str(include_str!("recorded.json")).expect("the file is JSON");
    let (world, compiler) = (World::new(), Compiler::default());
    let mut report = String::new();
    for (expression, text, error) in recorded {
        let got = ours(&compiler, &expression, &world);
        let expected = Answer { text, error, varies: false };
        if !agree(&expected, &got) {
            let _ = writeln!(report, "{expression}\n  original: {expected:?}\n      ours: {got:?}");
        }
    }
    assert!(report.is_empty(), "{report}");
}

/// V-157 to V-166, and generated expressions that no user would write.
#[test]
fn expressions_agree_with_the_original() {
    if !servers_or_skip(&[Server::Cel]) {
        return;
    }
    let count = cases("GROUNDWORK_CEL_CASES", CASES);
    let mut generator = Generator::new(cases("GROUNDWORK_CEL_SEED", 1) as u64);
    let expressions: Vec<String> = (0..count).map(|_| generator.expression()).collect();
    let (world, compiler) = (World::new(), Compiler::default());
    let expected = originals(&expressions, &world);
    assert_eq!(expected.len(), count);
    let (mut differences, mut succeeded, mut report) = (0, 0, String::new());
    for (expression, expected) in expressions.iter().zip(&expected) {
        succeeded += usize::from(expected.text.is_some());
        let got = ours(&compiler, expression, &world);
        if !agree(expected, &got) {
            differences += 1;
            if differences <= SHOWN {
                let expected = expected.text.as_ref().ok_or(&expected.error);
                let _ = writeln!(report, "\n{expression}\n  original: {expected:?}\n      ours: {got:?}");
            }
        }
    }
    eprintln!("{count} expressions, {succeeded} of them give a text");
    assert!(differences == 0, "{differences} of {count} differ:\n{report}");
    assert!(succeeded * 4 >= count, "{succeeded} of {count} give a text");
}
