//! Runs the recorded cases in `tests/cases`: the result of Go for a template and data.
//!
//! A file is a JSON list. Each case has a `template`, and optionally `data` (else that of
//! `data.json`), `missingkey`, `numbers`, `sprig` (more than the built-ins), and one of `output`,
//! `output_hex` (not UTF-8) and `error`.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use groundwork_gotemplate::{Functions, MissingKey, NumberMode, Options, Template, Value};
use serde_json::Value as Json;

struct Suite {
    builtins: Arc<Functions>,
    sprig: Arc<Functions>,
    data: Json,
}

impl Suite {
    /// Returns the result of a case in the form of the expectation.
    fn run(&self, case: &Json) -> (&'static str, String) {
        let text = |key: &str| case.get(key).and_then(Json::as_str);
        let options = Options {
            missing_key: match text("missingkey") {
                Some("zero") => MissingKey::Zero,
                Some("error") => MissingKey::Error,
                _ => MissingKey::Default,
            },
            numbers: match text("numbers") {
                Some("int64") => NumberMode::Int64,
                Some("int") => NumberMode::Int,
                Some("data") => NumberMode::Data,
                _ => NumberMode::Float64,
            },
            ..Options::default()
        };
        let functions = if case.get("sprig").is_some() { &self.sprig } else { &self.builtins };
        let data = Value::from_json(case.get("data").unwrap_or(&self.data), options.numbers);
        let source = text("template").expect("every case has a template");
        let rendered =
            Template::parse("t", source, functions, &options).and_then(|template| template.render(data));
        match rendered {
            Err(error) => ("error", error.to_string()),
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) if !text.contains('\u{fffd}') => ("output", text),
                Ok(text) => ("output_hex", hex(text.as_bytes())),
                Err(error) => ("output_hex", hex(error.as_bytes())),
            },
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").expect("writing to a string cannot fail");
        text
    })
}

fn read(path: &Path) -> Json {
    let text = std::fs::read_to_string(path).expect("the case file is readable");
    serde_json::from_str(&text).expect("the case file is JSON")
}

#[test]
fn recorded_cases() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let suite = Suite {
        builtins: Arc::new(Functions::builtins()),
        sprig: Arc::new(Functions::sprig()),
        data: read(&directory.join("data.json")),
    };
    let (mut count, mut failures) = (0, String::new());
    let mut files: Vec<_> = std::fs::read_dir(&directory)
        .expect("the directory exists")
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    files.retain(|path| {
        path.extension().is_some_and(|extension| extension == "json") && !path.ends_with("data.json")
    });
    for path in &files {
        for case in read(path).as_array().expect("a case file is a list") {
            count += 1;
            let (kind, got) = suite.run(case);
            let expected = case.get(kind).and_then(Json::as_str);
            if expected != Some(got.as_str()) {
                let file = path.file_name().unwrap_or_default().to_string_lossy();
                writeln!(failures, "{file}: {case}\n    got {kind}: {got:?}")
                    .expect("writing to a string cannot fail");
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures);
    assert!(count > 500, "only {count} cases found");
}
