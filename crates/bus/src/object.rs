//! Identifiers of kinds and objects of a cluster.

use std::fmt;
use std::sync::Arc;

use groundwork_api::Kind as Typed;

/// A kind of object: API group and plural. Cheap to clone.
///
/// The version is not part of the kind: an object is the same in all versions that the API server
/// offers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    group: Arc<str>,
    plural: Arc<str>,
}

impl Kind {
    /// Creates a kind from its API group (`""` for core) and plural (`configmaps`).
    ///
    /// Invalid names are rejected later, where they would become part of a subject.
    pub fn new(group: impl Into<Arc<str>>, plural: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }

    /// Returns the kind of a type.
    pub fn of<K: Typed>() -> Self {
        Self::new(K::GROUP, K::PLURAL)
    }

    /// Returns the API group, `""` for core.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// Returns the plural, as in the path of the API.
    pub fn plural(&self) -> &str {
        &self.plural
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.group.is_empty() {
            f.write_str(&self.plural)
        } else {
            write!(f, "{}.{}", self.plural, self.group)
        }
    }
}

/// Identifier of an object: kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    pub kind: Kind,
    /// Namespace; `None` for cluster-scoped objects.
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectId {
    /// Creates the identifier of an object from kind, namespace and name.
    pub fn new(kind: Kind, namespace: Option<&str>, name: impl Into<String>) -> Self {
        Self { kind, namespace: namespace.map(str::to_owned), name: name.into() }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} {namespace}/{}", self.kind, self.name),
            None => write!(f, "{} {}", self.kind, self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_as_people_write_them() {
        let installations = Kind::new("landscaper.gardener.cloud", "installations");
        let object = ObjectId::new(installations, Some("prod"), "echo");
        assert_eq!(object.to_string(), "installations.landscaper.gardener.cloud prod/echo");
        assert_eq!(ObjectId::new(Kind::new("", "namespaces"), None, "prod").to_string(), "namespaces prod");
    }
}
