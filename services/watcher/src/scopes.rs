//! Scopes: the watched kinds, with the namespaces in which they are watched.

use std::collections::BTreeSet;
use std::fmt;

use groundwork_api::{WATCHED, Watched};
use groundwork_bus::{Interest, Kind, ObjectId};
use jiff::Timestamp;

/// Scope of one watch: a kind, in all namespaces or in one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Scope {
    pub(crate) kind: Kind,
    /// Namespace; `None` for all namespaces, and for cluster-scoped kinds.
    pub(crate) namespace: Option<String>,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} in namespace {namespace}", self.kind),
            None => write!(f, "{} in all namespaces", self.kind),
        }
    }
}

/// The watches that follow from the namespaces in which the watcher works: all, or some.
///
/// With some, each kind is listed and watched once in each namespace, so that Roles suffice. A Role
/// can allow only to `get` its own namespace, so the namespaces themselves are read by name, every
/// minute.
#[derive(Debug, Clone, Default)]
pub(crate) struct WatchScopes {
    /// Namespaces, sorted; empty for all.
    namespaces: Vec<String>,
}

impl WatchScopes {
    pub(crate) fn new(mut namespaces: Vec<String>) -> Self {
        namespaces.retain(|namespace| !namespace.is_empty());
        namespaces.sort();
        namespaces.dedup();
        Self { namespaces }
    }

    /// Returns the namespaces in which the watcher works; `None` for all.
    pub(crate) fn namespaces(&self) -> Option<&[String]> {
        (!self.namespaces.is_empty()).then_some(self.namespaces.as_slice())
    }

    /// Returns the namespace whose UID identifies the cluster: `kube-system`, or the alphabetically
    /// first one that a watcher of some namespaces may read.
    pub(crate) fn cluster_namespace(&self) -> &str {
        self.namespaces.first().map_or("kube-system", String::as_str)
    }

    /// Returns the watches of the kinds that services always need.
    pub(crate) fn built_in_scopes(&self) -> Vec<(Scope, &'static Watched)> {
        let scopes = |watched: &'static Watched| {
            let kind = Kind::new(watched.group, watched.plural);
            let everywhere = self.namespaces.is_empty() || !watched.is_namespaced;
            let namespaces =
                if everywhere { vec![None] } else { self.namespaces.iter().cloned().map(Some).collect() };
            namespaces.into_iter().map(move |namespace| (Scope { kind: kind.clone(), namespace }, watched))
        };
        WATCHED.iter().flat_map(scopes).collect()
    }

    /// Returns the built-in watch that covers an object; `None` if its kind or its namespace is not
    /// watched.
    pub(crate) fn built_in_scope_of(&self, object: &ObjectId) -> Option<Scope> {
        built_in(&object.kind)?;
        let namespace = match (&object.namespace, self.namespaces()) {
            (_, None) => None,
            (Some(namespace), Some(names)) => Some(names.contains(namespace).then(|| namespace.clone())?),
            (None, Some(names)) => {
                names.contains(&object.name).then_some(())?;
                None
            }
        };
        Some(Scope { kind: object.kind.clone(), namespace })
    }

    /// Returns the watches of further kinds with current interests. A watch of all namespaces
    /// replaces those of single ones.
    pub(crate) fn scopes_of_interests(&self, interests: &[Interest], now: Timestamp) -> BTreeSet<Scope> {
        let lasting = interests.iter().filter(|interest| interest.expires > now);
        let all: BTreeSet<Scope> = lasting
            .filter(|interest| built_in(&interest.kind).is_none())
            .flat_map(|interest| self.scopes_of(&interest.kind, interest.namespace.as_deref()))
            .collect();
        let is_needed = |scope: &&Scope| {
            scope.namespace.is_none() || !all.contains(&Scope { kind: scope.kind.clone(), namespace: None })
        };
        all.iter().filter(is_needed).cloned().collect()
    }

    /// Returns the watches that cover a kind in a namespace, or in all; empty if the watcher does
    /// not work in that namespace.
    pub(crate) fn scopes_of(&self, kind: &Kind, namespace: Option<&str>) -> Vec<Scope> {
        let scope =
            |namespace: Option<&str>| Scope { kind: kind.clone(), namespace: namespace.map(str::to_owned) };
        match (built_in(kind), namespace, self.namespaces()) {
            (Some(watched), _, Some(_)) if !watched.is_namespaced => vec![scope(None)],
            (Some(_), _, None) => vec![scope(None)],
            (None, namespace, None) => vec![scope(namespace)],
            (_, None, Some(names)) => names.iter().map(|name| scope(Some(name))).collect(),
            (_, Some(namespace), Some(names)) => {
                let is_ours = names.iter().any(|name| name == namespace);
                if is_ours { vec![scope(Some(namespace))] } else { Vec::new() }
            }
        }
    }
}

/// Returns the API details of a kind that is always watched; `None` for kinds that are watched only
/// while there is an interest.
pub(crate) fn built_in(kind: &Kind) -> Option<&'static Watched> {
    WATCHED.iter().find(|watched| watched.group == kind.group() && watched.plural == kind.plural())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope(plural: &str, namespace: Option<&str>) -> Scope {
        Scope { kind: Kind::new("", plural), namespace: namespace.map(str::to_owned) }
    }

    fn object(plural: &str, namespace: Option<&str>, name: &str) -> ObjectId {
        ObjectId::new(Kind::new("", plural), namespace, name)
    }

    fn interest(plural: &str, namespace: Option<&str>, expires: i64) -> Interest {
        Interest {
            kind: Kind::new("", plural),
            namespace: namespace.map(str::to_owned),
            holder: "h".into(),
            expires: Timestamp::from_second(expires).unwrap(),
        }
    }

    #[test]
    fn everything_or_some_namespaces() {
        let (all, some) =
            (WatchScopes::default(), WatchScopes::new(vec!["b".into(), "a".into(), "b".into()]));
        assert_eq!((all.cluster_namespace(), some.cluster_namespace()), ("kube-system", "a"));
        assert_eq!(all.built_in_scopes().len(), WATCHED.len());
        assert_eq!(some.built_in_scopes().len(), 2 * (WATCHED.len() - 1) + 1);
        let secret = object("secrets", Some("a"), "s");
        assert_eq!(all.built_in_scope_of(&secret), Some(scope("secrets", None)));
        assert_eq!(some.built_in_scope_of(&secret), Some(scope("secrets", Some("a"))));
        assert_eq!(some.built_in_scope_of(&object("secrets", Some("c"), "s")), None);
        assert_eq!(some.built_in_scope_of(&object("namespaces", None, "a")), Some(scope("namespaces", None)));
        assert_eq!(some.built_in_scope_of(&object("namespaces", None, "c")), None);
        assert_eq!(all.built_in_scope_of(&object("pods", Some("a"), "p")), None);
    }

    #[test]
    fn every_built_in_watch_finds_its_objects() {
        for scopes in [WatchScopes::default(), WatchScopes::new(vec!["a".into(), "b".into()])] {
            for (scope, watched) in scopes.built_in_scopes() {
                let object = match watched.is_namespaced {
                    true => object("", Some(scope.namespace.as_deref().unwrap_or("a")), "x"),
                    false => object("", None, "a"),
                };
                assert_eq!(
                    scopes.built_in_scope_of(&ObjectId { kind: scope.kind.clone(), ..object }),
                    Some(scope)
                );
            }
        }
    }

    #[test]
    fn interests_of_now() {
        let now = Timestamp::from_second(100).unwrap();
        let interests = [
            interest("pods", Some("a"), 200),
            interest("pods", None, 50),
            interest("nodes", Some("a"), 200),
            interest("nodes", None, 200),
            interest("secrets", None, 200),
        ];
        let scopes = |scopes: &WatchScopes| {
            scopes.scopes_of_interests(&interests, now).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(scopes(&WatchScopes::default()), [scope("nodes", None), scope("pods", Some("a"))]);
        let some = WatchScopes::new(vec!["a".into(), "b".into()]);
        let expected = [scope("nodes", Some("a")), scope("nodes", Some("b")), scope("pods", Some("a"))];
        assert_eq!(scopes(&some), expected);
        assert_eq!(some.scopes_of(&Kind::new("", "pods"), Some("c")), []);
    }
}
