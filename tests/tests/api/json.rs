//! Comparison of written objects with those that the API server returns.

use anyhow::{Result, ensure};
use groundwork_api::{
    ComponentVersionOverwrites, Context, DataObject, DeployItem, Execution, Installation, PackageRevision,
    PackageVariant, PackageVariantSet, Repository, Target,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Returns the object after a round trip through its Rust type.
pub(crate) fn through_rust(kind: &str, object: &Value) -> Result<Value> {
    fn through<T: DeserializeOwned + Serialize>(object: &Value) -> Result<Value> {
        Ok(serde_json::to_value(T::deserialize(object)?)?)
    }
    match kind {
        "Installation" => through::<Installation>(object),
        "Execution" => through::<Execution>(object),
        "DeployItem" => through::<DeployItem>(object),
        "DataObject" => through::<DataObject>(object),
        "Target" => through::<Target>(object),
        "Context" => through::<Context>(object),
        "ComponentVersionOverwrites" => through::<ComponentVersionOverwrites>(object),
        "PackageVariant" => through::<PackageVariant>(object),
        "PackageVariantSet" => through::<PackageVariantSet>(object),
        "Repository" => through::<Repository>(object),
        "PackageRevision" => through::<PackageRevision>(object),
        other => anyhow::bail!("no Rust type for {other}"),
    }
}

/// Checks that `whole` contains everything in `part`. Elements of lists are compared one by one.
pub(crate) fn ensure_contains(whole: &Value, part: &Value, path: &str) -> Result<()> {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => {
            for (name, value) in part {
                let path = format!("{path}.{name}");
                let kept = whole.get(name);
                ensure!(kept.is_some(), "{path}: {value} got lost");
                ensure_contains(kept.unwrap_or(&Value::Null), value, &path)?;
            }
        }
        (Value::Array(whole), Value::Array(part)) => {
            ensure!(whole.len() == part.len(), "{path}: {} elements instead of {}", whole.len(), part.len());
            for (index, (whole, part)) in whole.iter().zip(part).enumerate() {
                ensure_contains(whole, part, &format!("{path}[{index}]"))?;
            }
        }
        _ => ensure!(whole == part, "{path}: {whole} instead of {part}"),
    }
    Ok(())
}
