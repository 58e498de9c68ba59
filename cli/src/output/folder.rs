//! Writes objects as files of a folder.

use std::fs;
use std::path::Path;

use groundwork_yaml as yaml;
use serde_json::Value;

use super::difference::id;
use crate::diagnostic::Diagnostic;
use crate::folder::{Folder, FolderError};

/// Writes each object to a file of its own: `NAMESPACE/KIND-NAME.yaml`. Files of earlier runs stay.
pub(super) fn write(folder: &Path, objects: &[Value]) -> Result<String, Diagnostic> {
    let failed = |error: FolderError| Diagnostic::error(error.to_string());
    let place = Folder::create(folder).map_err(failed)?;
    for object in objects {
        let (kind, namespace, name) = id(object);
        let file = format!("{}-{name}.yaml", kind.to_lowercase());
        // A blueprint chooses the names, so `Folder` has to check that the path stays inside.
        let path = if namespace.is_empty() { file } else { format!("{namespace}/{file}") };
        place.write(&path, yaml::to_string(object).as_bytes()).map_err(failed)?;
    }
    Ok(format!("{} objects written to {}\n", objects.len(), folder.display()))
}

/// Reads the objects in the files of a folder and the folders below.
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Names of objects come from blueprints, whose authors are not trusted with the user's files.
    #[test]
    fn objects_stay_in_their_folder() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("a/b/out");
        let object = |kind: &str, namespace: &str, name: &str| json!({"kind": kind, "metadata": {"namespace": namespace, "name": name}});
        for object in [
            object("Target", "..", "a"),
            object("Target", "shop", "/../../../a"),
            object("Target", "/tmp", "a"),
            object("../a", "", "a"),
            object("Target", ".git", "a"),
        ] {
            let error = write(&folder, &[object]).unwrap_err();
            assert!(format!("{error:?}").contains("cannot write into"), "{error:?}");
        }
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 0);
        write(&folder, &[object("Target", "shop", "a"), object("Target", "", "b")]).unwrap();
        assert!(folder.join("shop/target-a.yaml").is_file() && folder.join("target-b.yaml").is_file());
    }
}
