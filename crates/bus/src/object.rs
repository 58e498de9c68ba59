//! What the objects of a cluster are called.

use std::fmt;
use std::sync::Arc;

/// A kind of objects: API group and plural. Cheap to clone.
///
/// Versions are no part of it: an object is the same in all versions that the API server offers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    group: Arc<str>,
    plural: Arc<str>,
}

impl Kind {
    /// A kind by its API group (`""` for core) and plural (`configmaps`).
    ///
    /// Names that cannot be those of a kind are refused where they would become a subject.
    pub fn new(group: impl Into<Arc<str>>, plural: impl Into<Arc<str>>) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }

    /// The API group, `""` for core.
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The plural, as in the path of the API.
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

/// Which object of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    pub kind: Kind,
    /// `None` for objects of the cluster.
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectId {
    /// An object by kind, namespace and name.
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
