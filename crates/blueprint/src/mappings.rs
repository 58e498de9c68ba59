//! Data mappings of Installations: Spiff templates that compute values of imports and exports from
//! others (`blueprints.md` 3.4, 8.5).

use std::borrow::Cow;
use std::collections::BTreeMap;

use groundwork_budget::TemplateLimits;
use groundwork_spiff::{Document, Engine, Error, Value as SpiffValue};
use groundwork_yaml as yaml;
use serde_json::{Map, Value};

use crate::imports::Supplied;
use crate::redaction::Guard;
use crate::template::mapping_engine;

/// Kind of mapping, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Import,
    Export,
}

impl Direction {
    fn label(self) -> &'static str {
        match self {
            Self::Import => "import",
            Self::Export => "export",
        }
    }
}

/// Error of a mapping: IMP-010 or EXP-006 (`blueprints.md` 10).
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum MappingError {
    #[error("unable to parse {label} mapping template {path}: {cause}")]
    Parse { label: &'static str, path: String, cause: String },
    #[error("unable to template {label} mapping template {path}: {cause}")]
    Evaluate { label: &'static str, path: String, cause: String },
    #[error("unable to unmarshal templated {label} mapping {path}: {cause}")]
    Decode { label: &'static str, path: String, cause: String },
}

/// Evaluates the mappings of imports. Each sees the Installation's imports by name, but not the
/// other mappings.
///
/// # Errors
///
/// The first mapping that fails.
pub fn import_mappings<'m>(
    installation: &str,
    mappings: impl IntoIterator<Item = (&'m str, &'m Value)>,
    supplied: &Supplied,
    limits: TemplateLimits,
) -> Result<BTreeMap<String, Value>, MappingError> {
    let values = || supplied.by_name();
    Mapper::new(Direction::Import, installation, &values, limits)
        .evaluate_all(mappings, || supplied.to_spiff())
}

/// Evaluates the mappings of exports. Each sees the exports by name, and all of them under
/// `exports`. An export with the name `exports` is found under `exports` only.
///
/// # Errors
///
/// The first mapping that fails.
pub fn export_mappings<'m>(
    path: &str,
    mappings: impl IntoIterator<Item = (&'m str, &'m Value)>,
    exports: &Map<String, Value>,
    limits: TemplateLimits,
) -> Result<BTreeMap<String, Value>, MappingError> {
    let values = || exports.clone();
    Mapper::new(Direction::Export, path, &values, limits).evaluate_all(mappings, || export_bindings(exports))
}

fn import_bindings(imports: &Map<String, Value>) -> SpiffValue {
    SpiffValue::map(imports.iter().map(|(name, value)| (name.as_str(), SpiffValue::from_bindings(value))))
}

fn export_bindings(exports: &Map<String, Value>) -> SpiffValue {
    let named: Vec<(&str, SpiffValue)> =
        exports.iter().map(|(name, value)| (name.as_str(), SpiffValue::from_bindings(value))).collect();
    let all = SpiffValue::map(named.iter().cloned());
    SpiffValue::map(named.into_iter().chain([("exports", all)]))
}

struct Mapper<'a> {
    engine: Engine,
    label: &'static str,
    /// Converts values to the bindings of a mapping.
    bindings: fn(&Map<String, Value>) -> SpiffValue,
    path: &'a str,
    /// Returns the values that messages must not show.
    values: &'a dyn Fn() -> Map<String, Value>,
}

impl<'a> Mapper<'a> {
    fn new(
        direction: Direction,
        path: &'a str,
        values: &'a dyn Fn() -> Map<String, Value>,
        limits: TemplateLimits,
    ) -> Self {
        let bindings = match direction {
            Direction::Import => import_bindings,
            Direction::Export => export_bindings,
        };
        Self { engine: mapping_engine(limits), label: direction.label(), bindings, path, values }
    }

    fn evaluate_all<'m>(
        &self,
        mappings: impl IntoIterator<Item = (&'m str, &'m Value)>,
        bindings: impl FnOnce() -> SpiffValue,
    ) -> Result<BTreeMap<String, Value>, MappingError> {
        let mut mappings = mappings.into_iter().peekable();
        if mappings.peek().is_none() {
            return Ok(BTreeMap::new());
        }
        let bindings = bindings();
        let value =
            |(name, mapping): (&str, &Value)| Ok((name.to_owned(), self.evaluate(name, mapping, &bindings)?));
        mappings.map(value).collect()
    }

    fn evaluate(&self, name: &str, mapping: &Value, bindings: &SpiffValue) -> Result<Value, MappingError> {
        let (label, path) = (self.label, format!("{}.{name}", self.path));
        // Mappings are JSON, and every JSON text is YAML.
        let source = mapping.to_string();
        let document = Document::read(&source, "mapping", self.engine.limits())
            .map_err(|error| MappingError::Parse { label, path: path.clone(), cause: error.to_string() })?;
        let evaluate = |bindings: &SpiffValue| self.engine.cascade(&document, &[], Some(bindings));
        let output = evaluate(bindings).map_err(|error| {
            if let Error::Limit { limit, .. } = error {
                return MappingError::Evaluate { label, path: path.clone(), cause: limit.to_string() };
            }
            let values = (self.values)();
            let guard = Guard::new(&values.values().collect::<Vec<_>>(), None, vec![Cow::Borrowed(&source)]);
            let again = |others: Map<String, Value>| {
                evaluate(&(self.bindings)(&others)).err().map(|error| error.to_string())
            };
            let others = guard.others(&values).into_iter().map(again).collect();
            let cause = guard.withhold(error.to_string(), others);
            MappingError::Evaluate { label, path: path.clone(), cause }
        })?;
        if let Some(value) = output.to_read_json() {
            return Ok(value);
        }
        let document = yaml::from_str(&output.to_yaml());
        document.map_err(|error| MappingError::Decode { label, path, cause: error.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(value: &Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap_or_default()
    }

    fn imported(mapping: &Value, imports: &Value) -> Result<Value, String> {
        let supplied = Supplied { data: map(imports).into_iter().collect(), ..Supplied::default() };
        let mapped = import_mappings("inst", [("m", mapping)], &supplied, TemplateLimits::default());
        mapped.map(|mut mapped| mapped.remove("m").unwrap()).map_err(|error| error.to_string())
    }

    /// Mappings of imports follow `blueprints.md` 3.4.
    #[test]
    fn imports_are_mapped() {
        let imports =
            json!({"creds": {"user": "ab", "pass": "cd"}, "region": "eu-1", "n": 3, "a.b": "dotted"});
        for (mapping, expected) in [
            (json!("my-controller"), json!("my-controller")),
            (json!(5), json!(5)),
            (json!(null), json!(null)),
            (json!("(( creds.user \"@\" region ))"), json!("ab@eu-1")),
            (
                json!({"cpu": 2, "zones": ["(( region ))", "eu-2"]}),
                json!({"cpu": 2, "zones": ["eu-1", "eu-2"]}),
            ),
            (json!("(( n + 1 ))"), json!(4)),
            (json!({"x": "(( __ctx.OUTER[0].[\"a.b\"] ))"}), json!({"x": "dotted"})),
            (json!("(( missing || \"default\" ))"), json!("default")),
            (json!("text with (( n )) inside"), json!("text with (( n )) inside")),
        ] {
            assert_eq!(imported(&mapping, &imports), Ok(expected), "{mapping}");
        }
    }

    /// Acceptance item 4: a mapping has access to its bindings only, and its messages contain no
    /// values.
    #[test]
    fn mappings_are_shut_in() {
        for mapping in [
            "(( read(\"/etc/hostname\") ))",
            "(( exec(\"id\") ))",
            "(( env(\"HOME\") ))",
            "(( rand(\"[:alnum:]\", 8) ))",
            "(( getResource(\"name\", \"x\") ))",
        ] {
            let error = imported(&json!(mapping), &json!({})).unwrap_err();
            assert!(
                error.starts_with("unable to template import mapping template inst.m: unresolved nodes:"),
                "{error}"
            );
        }
        let error = imported(&json!("(( error(secret) ))"), &json!({"secret": "hunter2"})).unwrap_err();
        assert!(!error.contains("hunter2") && error.contains("[...]"), "{error}");
        let secret = json!({"secret": "wqk-97", "one": "k"});
        for (mapping, issue) in [
            ("(( error(base64(secret)) ))", "[...]"),
            ("(( error(\"no \" one) ))", "*no [...]"),
            ("(( error(\"no \" 1 + 1) ))", "*no 2"),
        ] {
            let error = imported(&json!(mapping), &secret).unwrap_err();
            assert!(error.ends_with(issue), "{error}");
        }
        let error = imported(&json!("(( 1 + ))"), &json!({})).unwrap_err();
        assert!(error.starts_with("unable to template import mapping template inst.m: "), "{error}");
    }

    /// Mappings of exports follow `blueprints.md` 8.5.
    #[test]
    fn exports_are_mapped() {
        let exports = map(&json!({"url": "http://x", "exports": 1, "a.b": 2}));
        let mapped = |mapping: &str| {
            let mapping = json!(mapping);
            export_mappings(
                "(inst: i).internalExports",
                [("m", &mapping)],
                &exports,
                TemplateLimits::default(),
            )
            .map(|mut mapped| mapped.remove("m").unwrap())
            .map_err(|error| error.to_string())
        };
        assert_eq!(mapped("(( url \"/path\" ))"), Ok(json!("http://x/path")));
        assert_eq!(mapped("(( exports.url ))"), Ok(json!("http://x")));
        assert_eq!(mapped("(( exports.exports ))"), Ok(json!(1)));
        assert_eq!(mapped("(( exports.[\"a.b\"] ))"), Ok(json!(2)));
        assert!(
            mapped("(( nope ))")
                .unwrap_err()
                .starts_with("unable to template export mapping template (inst: i).internalExports.m: ")
        );
    }
}
