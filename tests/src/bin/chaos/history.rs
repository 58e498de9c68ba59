//! Histories of deployed objects, from the audit log of the API server.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::Result;
use serde_json::Value;

use crate::installation;
use crate::plan::Expected;
use crate::unit::{Unit, text};

/// Plural of the only kind that the units deploy.
pub(crate) const DEPLOYED: &str = "configmaps";

/// Position in the audit log from which a round's history is read.
#[derive(Debug)]
pub(crate) struct History {
    log: PathBuf,
    begin: u64,
}

impl History {
    /// Starts at the current end of the log.
    ///
    /// # Errors
    /// Fails if the log does not exist.
    pub(crate) fn begin(log: PathBuf) -> Result<Self> {
        let begin = std::fs::metadata(&log)?.len();
        Ok(Self { log, begin })
    }

    /// Returns the objects of a namespace that went back to an older value, that were deleted while
    /// their unit existed, or that were created again.
    ///
    /// # Errors
    /// Fails if the log cannot be read.
    pub(crate) fn flapping(&self, namespace: &str, expected: &Expected) -> Result<Vec<String>> {
        let mut file = File::open(&self.log)?;
        file.seek(SeekFrom::Start(self.begin))?;
        let mut histories: BTreeMap<String, Vec<Written>> = BTreeMap::new();
        for line in BufReader::new(file).lines() {
            // Skip a line that does not parse: an API server that was killed leaves half a line.
            let Ok(entry) = serde_json::from_str::<Value>(&line?) else { continue };
            if let Some((name, written)) = written(&entry, namespace) {
                histories.entry(name).or_default().push(written);
            }
        }
        let mut wrong = Vec::new();
        for (unit, value) in expected {
            let Unit::Installation(unit) = *unit else { continue };
            let name = installation::name(unit);
            let history = histories.get(&name).map(Vec::as_slice).unwrap_or_default();
            if value.is_some() && history.is_empty() {
                wrong.push(format!("ConfigMap {name} was never written, as the audit log tells"));
            }
            if !is_steady(history, value.is_none()) {
                wrong.push(format!("ConfigMap {name} was written in turn: {history:?}"));
            }
        }
        Ok(wrong)
    }
}

/// Write to a deployed object.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Written {
    Value(u32),
    Deletion,
}

/// Returns the write that a log entry records, or `None` for any other request.
fn written(entry: &Value, namespace: &str) -> Option<(String, Written)> {
    let object = &entry["objectRef"];
    let is_ours = object["resource"] == DEPLOYED && object["namespace"] == namespace;
    let is_done = entry["stage"] == "ResponseComplete" && entry["responseStatus"]["code"].as_u64()? < 300;
    if !is_ours || !is_done || entry["requestURI"].as_str()?.contains("dryRun") {
        return None;
    }
    let answer = &entry["responseObject"];
    let name = object["name"].as_str().or_else(|| answer["metadata"]["name"].as_str())?;
    let written = match entry["verb"].as_str()? {
        "delete" => Written::Deletion,
        "create" | "update" | "patch" => {
            let value = answer["data"]["value"].as_str()?;
            Written::Value((0..100).find(|number| text(*number) == value)?)
        }
        _ => return None,
    };
    Some((name.to_owned(), written))
}

/// Reports whether the values only grow, and whether the object was deleted at most once, at the
/// end and only with its unit.
fn is_steady(history: &[Written], is_deleted: bool) -> bool {
    let values = match history.split_last() {
        Some((Written::Deletion, values)) if is_deleted => values,
        _ => history,
    };
    values.iter().all(|written| *written != Written::Deletion)
        && values.is_sorted_by_key(|written| match written {
            Written::Value(value) => *value,
            Written::Deletion => u32::MAX,
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_that_flap_are_noticed() {
        use Written::{Deletion, Value};
        for (history, is_deleted, expected) in [
            (&[Value(0), Value(0), Value(2)][..], false, true),
            (&[Value(0), Deletion], true, true),
            (&[Deletion], true, true),
            (&[], false, true),
            (&[Value(0), Deletion], false, false),
            (&[Value(1), Value(0)], false, false),
            (&[Value(0), Deletion, Value(0)], true, false),
            (&[Value(0), Deletion, Value(0), Deletion], true, false),
        ] {
            assert_eq!(is_steady(history, is_deleted), expected, "{history:?}");
        }
    }

    #[test]
    fn writes_are_told_from_everything_else() {
        let entry = |verb: &str, uri: &str, code: u16, value: &str| {
            json!({"stage": "ResponseComplete", "verb": verb, "requestURI": uri, "responseStatus": {"code": code},
                "objectRef": {"resource": "configmaps", "namespace": "n", "name": "unit-001"},
                "responseObject": {"data": {"value": value}}})
        };
        let found = |entry: &Value| written(entry, "n").map(|(_, written)| written);
        assert_eq!(found(&entry("patch", "/x", 200, "v3")), Some(Written::Value(3)));
        assert_eq!(found(&entry("delete", "/x", 200, "")), Some(Written::Deletion));
        for other in [
            entry("patch", "/x?dryRun=All", 200, "v3"),
            entry("patch", "/x", 409, "v3"),
            entry("get", "/x", 200, "v3"),
        ] {
            assert_eq!(found(&other), None, "{other}");
        }
        assert_eq!(written(&entry("patch", "/x", 200, "v3"), "other"), None);
    }
}
