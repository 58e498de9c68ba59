use std::collections::BTreeMap;

use groundwork_api::ObjectMeta;
use serde::{Deserialize, Serialize};

/// Limit for a visible annotation, in bytes. Longer annotations are written by programs for
/// themselves, such as packed copies of the object.
const LONGEST: usize = 1_024;

/// Attributes of an object that selectors and expressions may see (`packagevariants.md` 4.4).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    pub name: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    /// Annotations, without those in which programs keep a copy of the object. The author of a set
    /// may lack the right to read the selected objects, and a copy of a Secret contains its values.
    pub annotations: BTreeMap<String, String>,
}

impl From<&ObjectMeta> for Attributes {
    fn from(metadata: &ObjectMeta) -> Self {
        let mut annotations = metadata.annotations.clone().unwrap_or_default();
        annotations.retain(|name, value| !is_copy(name, value));
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations,
        }
    }
}

/// Reports whether an annotation may contain a copy of the object. `kubectl apply`, kapp, Fleet and
/// others store one as JSON, packed, or in parts.
fn is_copy(name: &str, value: &str) -> bool {
    let name = name.rsplit('/').next().unwrap_or_default();
    ["last-applied", "applied", "original"].iter().any(|prefix| name.starts_with(prefix))
        || value.len() > LONGEST
        || value.trim_start().starts_with(['{', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_an_object_are_not_shown_by_its_annotations() {
        let long = "x".repeat(LONGEST + 1);
        let annotations = [
            ("kubectl.kubernetes.io/last-applied-configuration", "x"),
            ("example.org/last-applied", "x"),
            ("objectset.rio.cattle.io/applied", "H4sIAAAA"),
            ("kapp.k14s.io/original", "x"),
            ("example.org/state", " {\"data\": {}}"),
            ("example.org/list", "[1]"),
            ("example.org/long", &long),
            ("example.org/region", "eu"),
            ("mine", "x"),
        ];
        let metadata = ObjectMeta {
            name: Some("a".to_owned()),
            annotations: Some(annotations.map(|(name, value)| (name.to_owned(), value.to_owned())).into()),
            ..ObjectMeta::default()
        };
        let seen = Attributes::from(&metadata);
        assert_eq!((seen.name.as_str(), seen.namespace.as_str()), ("a", ""));
        assert_eq!(seen.annotations.into_keys().collect::<Vec<_>>(), ["example.org/region", "mine"]);
    }
}
