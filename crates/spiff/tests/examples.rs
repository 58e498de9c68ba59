//! Runs the 78 worked examples of the chapter `spiff.md`, each a file. Parts begin with the lines
//! `# template`, `# stub` (nearest first), `# bindings`, `# output` and `# error`.

#![allow(clippy::panic, clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use groundwork_spiff::{Document, Engine, Features, Output, Value};

/// An example with its parts.
#[derive(Debug, Default)]
struct Example {
    features: Features,
    template: String,
    stubs: Vec<String>,
    bindings: Option<String>,
    output: Option<String>,
    error: Option<String>,
}

fn parse(text: &str) -> Example {
    let mut example = Example::default();
    let mut part: Option<(String, String)> = None;
    for line in text.lines().chain(["# end"]) {
        let header = line.strip_prefix("# ").filter(|rest| {
            let word = rest.split([',', ' ']).next().unwrap_or_default();
            ["template", "stub", "bindings", "output", "error", "end"].contains(&word)
        });
        let Some(header) = header else {
            let (_, content) = part.as_mut().unwrap();
            content.push_str(line);
            content.push('\n');
            continue;
        };
        if let Some((name, content)) = part.take() {
            take(&mut example, &name, content);
        }
        part = Some((header.to_owned(), String::new()));
    }
    example
}

fn take(example: &mut Example, header: &str, content: String) {
    let (name, features) = header.split_once(", features: ").unwrap_or((header, ""));
    for feature in features.split_whitespace() {
        match feature {
            "control" => example.features.control = true,
            "interpolation" => example.features.interpolation = true,
            other => panic!("no feature {other}"),
        }
    }
    match name {
        "template" => example.template = content,
        "stub" => example.stubs.push(content),
        "bindings" => example.bindings = Some(content),
        "output" => example.output = Some(content),
        "error" => example.error = Some(content.trim_end().to_owned()),
        other => panic!("no part {other}"),
    }
}

fn run(example: &Example) -> Result<Output, groundwork_spiff::Error> {
    let engine = Engine::new().with_features(example.features);
    let read = |text: &str| Document::read(text, "test", engine.limits()).unwrap();
    let stubs: Vec<_> = example.stubs.iter().map(|stub| read(stub)).collect();
    let bindings = example.bindings.as_ref().map(|text| read(text).value().clone());
    engine.cascade(&read(&example.template), &stubs, bindings.as_ref())
}

fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::List(left), Value::List(right)) => {
            left.len() == right.len()
                && left.values().zip(right.values()).all(|(left, right)| same(left, right))
        }
        (Value::Map(left), Value::Map(right)) => {
            let pairs = || left.iter().zip(right.iter());
            left.len() == right.len()
                && pairs().all(|(left, right)| left.0 == right.0 && same(left.1.value(), right.1.value()))
        }
        (Value::Float(left), Value::Float(right)) => left == right,
        (Value::Nil, Value::Nil) => true,
        (Value::Bool(left), Value::Bool(right)) => left == right,
        (Value::Int(left) | Value::Data(left), Value::Int(right) | Value::Data(right)) => left == right,
        (Value::String(left), Value::String(right)) => left == right,
        _ => false,
    }
}

fn check(path: &Path) -> Result<(), String> {
    let example = parse(&fs::read_to_string(path).unwrap());
    let result = run(&example);
    match (&example.output, &example.error, result) {
        (Some(output), _, Ok(given)) => {
            let wanted = Document::read(output, "test", Engine::new().limits()).unwrap();
            if !same(wanted.value(), given.value()) {
                return Err(format!("gives\n{}", given.to_yaml()));
            }
            let again = Document::read(&given.to_yaml(), "test", Engine::new().limits()).unwrap();
            let rounded = |value: &Value| Document::from_value(value.clone()).to_yaml();
            if rounded(again.value()) == given.to_yaml() {
                Ok(())
            } else {
                Err(format!("is written as\n{}", given.to_yaml()))
            }
        }
        (None, Some(error), Err(given)) if given.to_string() == *error => Ok(()),
        (_, Some(_), Err(given)) | (Some(_), _, Err(given)) => Err(format!("fails\n{given}")),
        (_, _, Ok(given)) => Err(format!("gives\n{}", given.to_yaml())),
        (None, None, Err(_)) => Err("says nothing about its outcome".to_owned()),
    }
}

#[test]
fn the_examples_of_the_chapter_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples");
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert_eq!(paths.len(), 78);
    let problems: Vec<String> = paths
        .iter()
        .filter_map(|path| check(path).err().map(|problem| format!("{} {problem}", path.display())))
        .collect();
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), paths.len(), problems.join("\n"));
}
