//! Values that users give beside manifests: imports, exports of deploy items, state of earlier
//! runs.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use groundwork_api::{DeployItemTemplate, Installation, ResourceExt};
use groundwork_blueprint::States;
use groundwork_lifecycle::deployer::MOCK_TYPE;
use groundwork_yaml as yaml;
use serde_json::{Map, Value, json};

use crate::diagnostic::Diagnostic;

/// Member of a mock item's configuration that has its exports.
const MOCK_EXPORT: &str = "export";

/// Parses `name=value`, with the value as YAML.
pub(crate) fn assignment(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("a name, =, and a value are expected, such as size=5")?;
    if name.is_empty() {
        return Err("the name before = is empty".to_owned());
    }
    let value = yaml::from_str(value).map_err(|error| format!("the value is not valid YAML: {error}"))?;
    Ok((name.to_owned(), value))
}

/// Exports of deploy items, as far as they are known without a deployer.
#[derive(Debug, Default)]
pub(super) struct ItemExports {
    values: Map<String, Value>,
    used: RefCell<BTreeSet<String>>,
}

impl ItemExports {
    pub(super) fn read(file: Option<&Path>) -> Result<Self, Diagnostic> {
        let values = file.map(read_map).transpose()?.unwrap_or_default();
        Ok(Self { values, used: RefCell::default() })
    }

    /// Returns the exports of an item: those given under the path of its Installation and its name,
    /// or under its name alone, or those in its configuration if it is a mock item. Returns `None`
    /// if they are not known.
    pub(super) fn of(&self, path: &[String], item: &DeployItemTemplate) -> Option<Value> {
        for key in [format!("{}/{}", path.join("/"), item.name), item.name.clone()] {
            if let Some(value) = self.values.get(&key) {
                self.used.borrow_mut().insert(key);
                return Some(value.clone());
            }
        }
        if item.type_ != MOCK_TYPE {
            return None;
        }
        let config = item.config.get().and_then(Value::as_object);
        Some(config.and_then(|config| config.get(MOCK_EXPORT)).cloned().unwrap_or_default())
    }

    /// Returns the given names that no item has.
    pub(super) fn unused(&self) -> Vec<String> {
        let used = self.used.borrow();
        self.values.keys().filter(|key| !used.contains(*key)).cloned().collect()
    }
}

/// State of executions, kept in a file from run to run: Installation (`namespace/name`) to key to
/// value.
#[derive(Debug, Default)]
pub(super) struct StateFile {
    file: Option<PathBuf>,
    kept: BTreeMap<String, States>,
}

impl StateFile {
    /// Reads the file. A file that does not exist counts as empty.
    pub(super) fn read(file: Option<&Path>) -> Result<Self, Diagnostic> {
        let Some(file) = file else { return Ok(Self::default()) };
        let members = if file.exists() { read_map(file)? } else { Map::new() };
        let mut kept = BTreeMap::new();
        for (installation, states) in members {
            let Value::Object(states) = states else {
                let message =
                    format!("{}: {installation}: a map of state keys to values is expected", file.display());
                return Err(Diagnostic::error(message));
            };
            let texts = states.iter().map(|(key, value)| (key.clone(), yaml::to_string(value)));
            kept.insert(installation, texts.collect());
        }
        Ok(Self { file: Some(file.to_owned()), kept })
    }

    /// Returns the state that executions of an Installation have stored.
    pub(super) fn of(&self, installation: &Installation) -> States {
        self.kept.get(&id(installation)).cloned().unwrap_or_default()
    }

    /// Takes in the state that executions have stored. Returns true if new state gets lost at the
    /// end of the run, because the command has no state file.
    pub(super) fn keep(&mut self, installation: &Installation, states: States) -> bool {
        if states == self.of(installation) {
            return false;
        }
        self.kept.insert(id(installation), states);
        self.file.is_none()
    }

    /// Writes a new file and renames it: after a crash the file has the old state or the new one.
    pub(super) fn write(&self) -> Result<(), Diagnostic> {
        let Some(file) = &self.file else { return Ok(()) };
        let decoded = |states: &States| -> Map<String, Value> {
            let value = |text: &String| yaml::from_str(text).unwrap_or_else(|_| json!(text));
            states.iter().map(|(key, text)| (key.clone(), value(text))).collect()
        };
        let members: Map<String, Value> = self
            .kept
            .iter()
            .map(|(installation, states)| (installation.clone(), Value::Object(decoded(states))))
            .collect();
        let mut beside = file.clone().into_os_string();
        beside.push(".new");
        let written = fs::write(&beside, yaml::to_string(&Value::Object(members)))
            .and_then(|()| fs::rename(&beside, file));
        written.map_err(|error| Diagnostic::error(format!("cannot write {}: {error}", file.display())))
    }
}

fn id(installation: &Installation) -> String {
    format!("{}/{}", installation.namespace().unwrap_or_default(), installation.name_any())
}

fn read_map(file: &Path) -> Result<Map<String, Value>, Diagnostic> {
    let name = file.display();
    let text = fs::read_to_string(file)
        .map_err(|error| Diagnostic::error(format!("cannot read {name}: {error}")))?;
    match yaml::from_str(&text) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(Value::Null) => Ok(Map::new()),
        Ok(_) => Err(Diagnostic::error(format!("{name}: a map is expected"))),
        Err(error) => Err(Diagnostic::error(format!("{name}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments() {
        assert_eq!(assignment("size=5"), Ok(("size".to_owned(), json!(5))));
        assert_eq!(assignment("a.b={x: [1, y]}"), Ok(("a.b".to_owned(), json!({"x": [1, true]}))));
        assert_eq!(assignment("e="), Ok(("e".to_owned(), json!(null))));
        assert_eq!(assignment("t=a=b"), Ok(("t".to_owned(), json!("a=b"))));
        assert!(assignment("size").is_err() && assignment("=5").is_err() && assignment("a=[").is_err());
    }
}
