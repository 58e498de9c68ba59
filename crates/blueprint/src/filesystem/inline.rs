//! Reads a blueprint that is part of the Installation's manifest (`blueprints.md` 2.2).

use groundwork_yaml as yaml;
use serde_json::{Map, Value};

use super::{BLUEPRINT_FILE, Directory, Entry, Filesystem, LONGEST_PATH, MOST_SEGMENTS, PathError, head};

const BINARY_START: &str = "---Start Binary---";
const BINARY_END: &str = "---End Binary---";

/// Error in an inline file system.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InlineError {
    #[error("unable to create yamlfs for inline blueprint: {0}")]
    Yaml(yaml::Error),
    #[error("unable to create yamlfs for inline blueprint: a map of files is expected")]
    NoMap,
    #[error("unable to copy yaml filesystem: the binary content of {0:?} is not base64")]
    Binary(String),
    #[error("unable to copy yaml filesystem: {0}")]
    Path(PathError),
}

impl Filesystem {
    /// Reads the file system of an inline blueprint: a map, or a text that contains one.
    ///
    /// # Errors
    ///
    /// See [`InlineError`].
    pub fn from_inline(value: &Value) -> Result<Self, InlineError> {
        let parsed;
        let value = match value {
            Value::String(text) => {
                parsed = yaml::from_str(text).map_err(InlineError::Yaml)?;
                &parsed
            }
            other => other,
        };
        let members = value.as_object().ok_or(InlineError::NoMap)?;
        let mut root = Directory::new();
        for (name, value) in members {
            let entry = if name == BLUEPRINT_FILE && is_document(value) {
                Some(Entry::File(yaml::to_string(value).into_bytes()))
            } else {
                entry(name, value, 1)?
            };
            root.extend(entry.map(|entry| (name.clone(), entry)));
        }
        Ok(Self { root })
    }
}

/// Reports whether a map is a blueprint: under the name of the blueprint file, it is the content of
/// that file, not a folder.
fn is_document(value: &Value) -> bool {
    let is_text = |member: &str| value.get(member).is_some_and(Value::is_string);
    is_text("apiVersion") && is_text("kind")
}

fn directory(name: &str, members: &Map<String, Value>, depth: usize) -> Result<Entry, InlineError> {
    if depth >= MOST_SEGMENTS && !members.is_empty() {
        return Err(InlineError::Path(PathError::TooDeep(format!("down to {}", head(name)))));
    }
    let mut entries = Directory::new();
    for (name, value) in members {
        entries.extend(entry(name, value, depth + 1)?.map(|entry| (name.clone(), entry)));
    }
    Ok(Entry::Directory(entries))
}

/// Returns the entry for a value at this depth, or `None` if the value creates no entry.
fn entry(name: &str, value: &Value, depth: usize) -> Result<Option<Entry>, InlineError> {
    if name.len() > LONGEST_PATH {
        return Err(InlineError::Path(PathError::TooLong(head(name))));
    }
    let Value::Object(members) = value else {
        return Ok(plain_content(name, value)?.map(Entry::File));
    };
    let Some(type_name) = members.get("$type").and_then(Value::as_str) else {
        return directory(name, members, depth).map(Some);
    };
    let value = members.get("value");
    Ok(match (type_name, value) {
        ("directory", Some(Value::Object(members))) => Some(directory(name, members, depth)?),
        ("directory", _) => Some(Entry::Directory(Directory::new())),
        ("symlink", target) => target.and_then(Value::as_str).map(link).transpose()?,
        ("yaml", value) => Some(Entry::File(yaml::to_string(value.unwrap_or(&Value::Null)).into_bytes())),
        ("json", value) => Some(Entry::File(value.unwrap_or(&Value::Null).to_string().into_bytes())),
        (_, Some(value)) => plain_content(name, value)?.map(Entry::File),
        (_, None) => plain_content(name, members.get("binary").unwrap_or(&Value::Null))?.map(Entry::File),
    })
}

/// Creates a link. Its target may be as long as a path.
fn link(target: &str) -> Result<Entry, InlineError> {
    if target.len() > LONGEST_PATH {
        return Err(InlineError::Path(PathError::TooLong(head(target))));
    }
    Ok(Entry::Link(target.to_owned()))
}

fn plain_content(name: &str, value: &Value) -> Result<Option<Vec<u8>>, InlineError> {
    Ok(match value {
        Value::Null => Some(Vec::new()),
        Value::String(text) => Some(match binary_body(text) {
            Some(body) => data_encoding::BASE64
                .decode(body.as_bytes())
                .map_err(|_| InlineError::Binary(name.to_owned()))?,
            None => text.clone().into_bytes(),
        }),
        Value::Bool(value) => Some(value.to_string().into_bytes()),
        Value::Number(number) => Some(number.to_string().into_bytes()),
        Value::Array(_) | Value::Object(_) => None,
    })
}

/// Returns the base64 text between the two marker lines.
fn binary_body(text: &str) -> Option<String> {
    let body = text.trim().strip_prefix(BINARY_START)?.strip_suffix(BINARY_END)?;
    Some(body.split_whitespace().collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::filesystem::PathError;

    #[track_caller]
    fn check(value: &Value, path: &str, content: &str) {
        let files = Filesystem::from_inline(value).unwrap();
        assert_eq!(files.read(path).map(String::from_utf8_lossy), Ok(content.into()), "{path}");
    }

    /// Case I-11 (a blueprint written as a map), and every row of the table in `blueprints.md` 2.2.
    #[test]
    fn kinds_of_entries() {
        let tree = json!({
            "blueprint.yaml": {"apiVersion": "a/v1", "kind": "Blueprint"},
            "text": "hello\n",
            "empty": null,
            "number": 5,
            "bool": true,
            "list": [1],
            "dir": {"inner": "x", "blueprint.yaml": {"apiVersion": "a", "kind": "b"}},
            "typed-dir": {"$type": "directory", "value": {"inner": "y"}},
            "empty-dir": {"$type": "directory"},
            "link": {"$type": "symlink", "value": "dir/inner"},
            "no-link": {"$type": "symlink"},
            "yaml": {"$type": "yaml", "value": {"a": [1]}},
            "json": {"$type": "json", "value": {"a": [1]}},
            "file": {"$type": "file", "value": "v"},
            "binary": {"$type": "file", "binary": "---Start Binary---\naGVs\n\nbG8=\n---End Binary---\n"},
            "other": {"$type": "whatever", "value": "w"},
        });
        for (path, content) in [
            ("blueprint.yaml", "apiVersion: a/v1\nkind: Blueprint\n"),
            ("text", "hello\n"),
            ("empty", ""),
            ("number", "5"),
            ("bool", "true"),
            ("dir/inner", "x"),
            ("typed-dir/inner", "y"),
            ("link", "x"),
            ("yaml", "a:\n- 1\n"),
            ("json", r#"{"a":[1]}"#),
            ("file", "v"),
            ("binary", "hello"),
            ("other", "w"),
        ] {
            check(&tree, path, content);
        }
        let files = Filesystem::from_inline(&tree).unwrap();
        assert_eq!(files.read("list"), Err(PathError::NotFound));
        assert_eq!(files.read("no-link"), Err(PathError::NotFound));
        assert!(files.list("dir/blueprint.yaml").is_ok());
        assert_eq!(files.list("empty-dir"), Ok(vec![]));
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |folders: usize| (0..folders).fold(json!("x"), |inner, _| json!({ "d": inner }));
        check(&json!({"a": nested(63)}), &format!("a{}", "/d".repeat(63)), "x");
        let error = Filesystem::from_inline(&json!({"a": nested(64)})).unwrap_err().to_string();
        let expected = "unable to copy yaml filesystem: the path down to \"d\" has more than 64 segments";
        assert_eq!(error, expected);
        let deep = (0..300).map(|depth| format!("{}d:\n", " ".repeat(depth))).collect::<String>();
        assert!(Filesystem::from_inline(&json!(deep)).is_err());
        let long = "n".repeat(5000);
        assert!(Filesystem::from_inline(&json!({ (long): "x" })).unwrap_err().to_string().len() < 200);
    }

    #[test]
    fn text_form_and_errors() {
        check(&json!("a: b\n"), "a", "b");
        for (value, error) in [
            (json!([]), "unable to create yamlfs for inline blueprint: a map of files is expected"),
            (json!("a: ["), "unable to create yamlfs for inline blueprint: line 1, column 4: "),
            (
                json!({"x": "---Start Binary---\n%%\n---End Binary---"}),
                "unable to copy yaml filesystem: the binary content of \"x\" is not base64",
            ),
        ] {
            let text = Filesystem::from_inline(&value).unwrap_err().to_string();
            assert!(text.starts_with(error), "{text}");
        }
    }
}
