//! Tests of functions that read the files of the host (`spiff.md` 11.5).

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_spiff::{Document, Engine, Files};

/// Files by path; their paths imply the directories.
#[derive(Debug)]
struct Shown(BTreeMap<&'static str, &'static [u8]>);

impl Files for Shown {
    fn read(&self, path: &str) -> Result<Vec<u8>, String> {
        self.0.get(path).map(|bytes| bytes.to_vec()).ok_or_else(|| "there is no such file".to_owned())
    }

    fn list(&self, path: &str) -> Result<Vec<String>, String> {
        let inside = self.0.keys().filter_map(|own| own.strip_prefix(path)?.strip_prefix('/'));
        let mut names: Vec<_> =
            inside.map(|rest| rest.split('/').next().unwrap_or(rest).to_owned()).collect();
        names.dedup();
        if names.is_empty() { Err("there is no such directory".to_owned()) } else { Ok(names) }
    }

    fn is_directory(&self, path: &str) -> Option<bool> {
        if self.0.contains_key(path) { Some(false) } else { self.list(path).ok().map(|_| true) }
    }
}

fn shown() -> Arc<dyn Files> {
    Arc::new(Shown(BTreeMap::from([
        ("data/a.yaml", b"x: (( y ))\ny: 1\n".as_slice()),
        ("data/b.txt", b"(( y ))".as_slice()),
        ("data/deep/c.bin", b"\xff\x00".as_slice()),
        ("other/b.txt", b"b".as_slice()),
    ])))
}

fn value(engine: &Engine, expression: &str) -> String {
    let template = Document::read(&format!("(( {expression} ))"), "test", engine.limits()).unwrap();
    match engine.cascade(&template, &[], None) {
        Ok(output) => output.value().to_json().to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn files_are_read_as_their_names_or_modes_say() {
    let engine = Engine::new().with_files(shown());
    for (expression, wanted) in [
        ("read(\"data/a.yaml\")", r#"{"x":1,"y":1}"#),
        ("read(\"data/a.yaml\", \"text\")", r#""x: (( y ))\ny: 1\n""#),
        ("read(\"data/deep/c.bin\", \"binary\")", r#""/wA=""#),
        ("list_files(\"data\")", r#"["a.yaml","b.txt"]"#),
        ("list_dirs(\"data\")", r#"["deep"]"#),
        ("lookup_file(\"b.txt\", [ \"none\", \"data\" ], \"other\")", r#"["data/b.txt","other/b.txt"]"#),
        ("lookup_dir(\"deep\", \"data\", \"other\")", r#"["data/deep"]"#),
        ("read(\"http://example.org/x\") || 1", "1"),
        ("read(\"data/none\") || 2", "2"),
    ] {
        assert_eq!(value(&engine, expression), wanted, "{expression}");
    }
    let missing = value(&engine, "read(\"data/none.yaml\")");
    assert!(missing.ends_with("*error reading [data/none.yaml]: there is no such file"), "{missing}");
    assert!(value(&engine, "read(\"data/deep/c.bin\")").ends_with("it is not UTF-8"));
}

#[test]
fn what_is_not_shown_is_denied_where_it_is_asked_for() {
    let engine = Engine::new();
    for name in ["read", "lookup_file", "list_dirs", "write", "exec", "env", "rand", "bcrypt"] {
        let message = value(&engine, &format!("{name}(\"a\")"));
        let denied = format!("*{name}: no OS operations supported in this execution environment");
        assert!(message.ends_with(&denied), "{message}");
        assert_eq!(value(&engine, &format!("{name}(\"a\") || \"else\"")), r#""else""#);
    }
}
