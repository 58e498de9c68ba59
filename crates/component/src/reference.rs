use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Identification of a component version for lookup: `(repository context, name, version)`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Absent if neither the Installation nor its Context names one.
    pub repository: Option<RepositoryContext>,
    pub name: String,
    pub version: String,
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.name, self.version)
    }
}

/// Typed object that describes the storage of component versions (`components.md` 1.5).
///
/// It keeps the object exactly as written. Unknown members and absent defaults take part in
/// comparisons, so a typed struct would break matching. Clones share the object.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(into = "Value", from = "Value")]
pub struct RepositoryContext(Arc<Value>);

/// Type of the context of [`RepositoryContext::outside`].
const OUTSIDE: &str = "outside.groundwork.dev";

/// Kind of a repository, by whatever name and version its type is written (`components.md` 1.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RepositoryKind {
    Registry,
    TransportArchive,
    ComponentArchive,
    Local,
    Inline,
    /// Contents outside of component repositories, without any component versions.
    Outside,
}

impl RepositoryKind {
    /// Returns the name that Landscaper writes.
    const fn as_str(self) -> &'static str {
        match self {
            Self::Registry => "ociRegistry",
            Self::TransportArchive => "CommonTransportFormat",
            Self::ComponentArchive => "ComponentArchive",
            Self::Local => "local",
            Self::Inline => "inline",
            Self::Outside => OUTSIDE,
        }
    }
}

impl RepositoryContext {
    /// Returns the context of contents outside of component repositories (`components.md` 6.10),
    /// for components that have no repository themselves.
    pub fn outside() -> Self {
        Self(Arc::new(serde_json::json!({"type": OUTSIDE})))
    }

    /// Wraps an object unchanged. `null` counts as absent and gives `None`.
    pub fn new(value: Value) -> Option<Self> {
        (!value.is_null()).then(|| Self(Arc::new(value)))
    }

    /// Returns the object as written.
    pub fn as_value(&self) -> &Value {
        &self.0
    }

    /// Returns the `type` member; empty if it is absent.
    pub fn type_name(&self) -> &str {
        self.0.get("type").and_then(Value::as_str).unwrap_or_default()
    }

    /// Returns the kind of the repository; `None` if the type is unknown.
    pub fn kind(&self) -> Option<RepositoryKind> {
        let type_name = self.type_name();
        match type_name.strip_suffix("/v1").unwrap_or(type_name) {
            "ociRegistry" | "OCIRegistry" | "oci" | "OCI" | "OCIRepository" => Some(RepositoryKind::Registry),
            "CommonTransportFormat" | "CTF" | "ctf" => Some(RepositoryKind::TransportArchive),
            "ComponentArchive" => Some(RepositoryKind::ComponentArchive),
            "local" => Some(RepositoryKind::Local),
            "inline" => Some(RepositoryKind::Inline),
            OUTSIDE => Some(RepositoryKind::Outside),
            _ => None,
        }
    }

    /// Returns a string member. Its name is compared exactly first, then ignoring case, as
    /// Landscaper's JSON decoder does (`components.md` 1.5).
    ///
    /// `Ok(None)` means that the member is absent or null.
    ///
    /// # Errors
    ///
    /// The member is not a string.
    pub fn text(&self, member: &str) -> Result<Option<&str>, NotText> {
        let Some(object) = self.0.as_object() else { return Err(NotText) };
        let value = object.get(member).or_else(|| {
            object.iter().find(|(key, _)| key.eq_ignore_ascii_case(member)).map(|(_, value)| value)
        });
        match value {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => Err(NotText),
        }
    }

    /// Reports whether both contexts describe the same place. It works like equality, but ignores
    /// the case of a member's name, and takes all names of a type as one (`components.md` 1.5).
    /// Rules of overwrites compare the written form instead.
    pub fn is_same_place(&self, other: &Self) -> bool {
        self.with_canonical_members() == other.with_canonical_members()
    }

    fn with_canonical_members(&self) -> Self {
        const READ_WITHOUT_CASE: [&str; 2] = ["baseUrl", "filePath"];
        let mut value = (*self.0).clone();
        if let Some(members) = value.as_object_mut() {
            if let Some(kind) = self.kind() {
                members.insert("type".to_owned(), kind.as_str().into());
            }
            for canonical in READ_WITHOUT_CASE {
                let alias =
                    members.keys().find(|key| *key != canonical && key.eq_ignore_ascii_case(canonical));
                if !members.contains_key(canonical)
                    && let Some(alias) = alias.cloned()
                    && let Some(found) = members.remove(&alias)
                {
                    members.insert(canonical.to_owned(), found);
                }
            }
        }
        Self(Arc::new(value))
    }

    /// Returns the name of a mandatory member of this type that is missing.
    pub fn missing_member(&self) -> Option<&'static str> {
        let member = match self.kind()? {
            RepositoryKind::Registry => "baseUrl",
            RepositoryKind::TransportArchive => "filePath",
            _ => return None,
        };
        let is_missing = self.text(member).is_ok_and(|text| text.is_none_or(str::is_empty));
        is_missing.then_some(member)
    }

    /// Returns compact JSON with sorted members, for display and as a cache key.
    pub fn to_json(&self) -> String {
        self.0.to_string()
    }
}

impl From<Value> for RepositoryContext {
    fn from(value: Value) -> Self {
        Self(Arc::new(value))
    }
}

impl From<RepositoryContext> for Value {
    fn from(context: RepositoryContext) -> Self {
        Arc::unwrap_or_clone(context.0)
    }
}

/// Error of a member that is not a string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotText;

impl PartialEq for RepositoryContext {
    /// Compares contexts as JSON values: no defaulting, no aliases, no URL normalisation
    /// (`components.md` 2.2).
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || json_equal(&self.0, &other.0)
    }
}

impl Eq for RepositoryContext {}

impl fmt::Display for RepositoryContext {
    /// Shows the address if there is one, otherwise the JSON text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = ["baseUrl", "filePath"].into_iter().find_map(|member| self.text(member).ok().flatten());
        match address {
            Some(address) => f.write_str(address),
            None => f.write_str(&self.to_json()),
        }
    }
}

/// Compares JSON values, numbers by their value: `1` equals `1.0`.
pub fn json_equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64()))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| json_equal(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len()
                && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| json_equal(value, other)))
        }
        _ => left == right,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Case I-31: names of members are found in any case.
    #[test]
    fn members_are_found_whatever_their_case() {
        let context = |value: Value| RepositoryContext::new(value).unwrap();
        let written = context(json!({"type": "ociRegistry", "baseURL": "example.org"}));
        let mapped = context(json!({"type": "ociRegistry", "baseUrl": "example.org"}));
        assert!(written.is_same_place(&mapped) && written != mapped);
        assert!(!written.is_same_place(&context(json!({"type": "ociRegistry", "baseUrl": "other.org"}))));
        assert_eq!((written.missing_member(), mapped.missing_member()), (None, None));
        assert_eq!(context(json!({"type": "OCIRegistry/v1"})).missing_member(), Some("baseUrl"));
        assert_eq!(
            context(json!({"type": "CommonTransportFormat", "filePath": ""})).missing_member(),
            Some("filePath")
        );
        assert_eq!(context(json!({"type": "other"})).missing_member(), None);
    }

    #[test]
    fn equality_is_that_of_json() {
        for (left, right, equal) in [
            (json!({"a": 1, "b": [1, 2]}), json!({"b": [1.0, 2], "a": 1.0}), true),
            (json!({"a": [1, 2]}), json!({"a": [2, 1]}), false),
            (json!({"a": 1}), json!({"a": 1, "b": null}), false),
            (json!({"a": "1"}), json!({"a": 1}), false),
            (json!({"a": 9_007_199_254_740_993_u64}), json!({"a": 9_007_199_254_740_992_u64}), false),
            (json!({}), json!({}), true),
        ] {
            assert_eq!(json_equal(&left, &right), equal, "{left} {right}");
            assert_eq!(json_equal(&right, &left), equal, "{right} {left}");
        }
    }

    /// Case I-30: unknown members stay as written.
    #[test]
    fn unknown_members_survive() {
        let written = json!({"type": "example.org/store", "shards": [1, 2.5], "nested": {"a": null}});
        let read: RepositoryContext = serde_json::from_value(written.clone()).unwrap();
        assert_eq!((read.type_name(), serde_json::to_value(&read).unwrap()), ("example.org/store", written));
    }

    #[test]
    fn shown_by_address() {
        for (context, shown) in [
            (json!({"type": "ociRegistry", "baseUrl": "r/x"}), "r/x"),
            (json!({"type": "CommonTransportFormat", "filePath": "ctf"}), "ctf"),
            (json!({"type": "inline"}), r#"{"type":"inline"}"#),
            (json!({"baseUrl": 1}), r#"{"baseUrl":1}"#),
        ] {
            assert_eq!(RepositoryContext::new(context).unwrap().to_string(), shown);
        }
    }

    #[test]
    fn members_are_found_without_regard_to_case() {
        let context =
            RepositoryContext::new(json!({"type": "ociRegistry", "baseURL": "r/x", "n": 1})).unwrap();
        assert_eq!(context.text("baseUrl"), Ok(Some("r/x")));
        assert_eq!(context.text("filePath"), Ok(None));
        assert_eq!(context.text("n"), Err(NotText));
    }
}
