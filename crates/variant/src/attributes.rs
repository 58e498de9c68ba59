use std::collections::BTreeMap;

use groundwork_api::ObjectMeta;

/// `kubectl apply` keeps whole objects in this annotation, values included; expressions have no business with it.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// All that selectors and expressions may see of an object (`packagevariants.md` 4.4).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    pub name: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
    /// Without the one in which `kubectl apply` keeps the object, which may hold values of a Secret.
    pub annotations: BTreeMap<String, String>,
}

impl From<&ObjectMeta> for Attributes {
    fn from(metadata: &ObjectMeta) -> Self {
        let mut annotations = metadata.annotations.clone().unwrap_or_default();
        annotations.remove(LAST_APPLIED);
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            namespace: metadata.namespace.clone().unwrap_or_default(),
            labels: metadata.labels.clone().unwrap_or_default(),
            annotations,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_applied_object_is_not_shown_by_its_annotation() {
        let annotation = |name: &str| (name.to_owned(), "x".to_owned());
        let metadata = ObjectMeta {
            name: Some("a".to_owned()),
            annotations: Some([annotation(LAST_APPLIED), annotation("mine")].into()),
            ..ObjectMeta::default()
        };
        let seen = Attributes::from(&metadata);
        assert_eq!((seen.name.as_str(), seen.namespace.as_str()), ("a", ""));
        assert_eq!(seen.annotations.into_keys().collect::<Vec<_>>(), ["mine"]);
    }
}
