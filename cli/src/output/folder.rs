//! Objects as files of a folder.

use std::fs;
use std::path::Path;

use groundwork_yaml as yaml;
use serde_json::Value;

use super::difference::id;
use crate::diagnostic::Diagnostic;

/// Writes each object to a file of its own: `NAMESPACE/KIND-NAME.yaml`. Files of former runs stay.
pub(super) fn write(folder: &Path, objects: &[Value]) -> Result<String, Diagnostic> {
    for object in objects {
        let (kind, namespace, name) = id(object);
        let folder = folder.join(&namespace);
        let file = folder.join(format!("{}-{name}.yaml", kind.to_lowercase()));
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&file, yaml::to_string(object)))
            .map_err(|error| Diagnostic::error(format!("cannot write {}: {error}", file.display())))?;
    }
    Ok(format!("{} objects written to {}\n", objects.len(), folder.display()))
}

/// The objects in the files of a folder, and of folders below.
pub(crate) fn read(folder: &Path) -> Result<Vec<Value>, Diagnostic> {
    let mut objects = Vec::new();
    read_into(folder, &mut objects)?;
    Ok(objects)
}

fn read_into(folder: &Path, objects: &mut Vec<Value>) -> Result<(), Diagnostic> {
    let failed = |path: &Path, error: &dyn std::fmt::Display| {
        Diagnostic::error(format!("cannot read {}: {error}", path.display()))
    };
    let entries = fs::read_dir(folder).map_err(|error| failed(folder, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| failed(folder, &error))?.path();
        if path.is_dir() {
            read_into(&path, objects)?;
        } else if path.extension().is_some_and(|ending| ending == "yaml" || ending == "yml") {
            let text = fs::read_to_string(&path).map_err(|error| failed(&path, &error))?;
            let documents =
                yaml::parse_all(&text, yaml::Options::default()).map_err(|error| failed(&path, &error))?;
            objects.extend(documents.iter().map(yaml::Node::to_value).filter(Value::is_object));
        }
    }
    Ok(())
}
