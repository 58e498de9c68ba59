//! Decoding of rendered YAML to typed deploy items (`blueprints.md` 4.2, 5.1 step 6, 7.1).

use groundwork_api::{AnyJson, DeployItemTemplate, Duration, List, OnDelete};
use groundwork_yaml as yaml;
use serde_json::{Map, Value};

use super::{TargetReference, UnresolvedItem};
use crate::redaction::Texts;
use crate::template::{member, take_member};

/// Wrong shape of a member in a rendered document. The text names the place and the type, never the
/// value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {problem}")]
pub struct DecodeError {
    pub path: String,
    pub problem: String,
}

/// Keys of rendered maps may be imported values, so messages with them are redacted.
impl Texts for DecodeError {
    fn texts(&mut self) -> Vec<&mut String> {
        vec![&mut self.path, &mut self.problem]
    }
}

impl DecodeError {
    pub(crate) fn new(path: &str, problem: impl Into<String>) -> Self {
        Self { path: path.to_owned(), problem: problem.into() }
    }
}

type Decoded<T> = Result<T, DecodeError>;

/// Conversion of scalars to texts.
pub(crate) struct ScalarText;

impl ScalarText {
    /// Returns the text of a scalar as Landscaper writes it, or `None` for a map or list
    /// (`blueprints.md` 5.1 step 6).
    pub(crate) fn of(value: &Value) -> Option<String> {
        Some(match value {
            Value::Null => String::new(),
            Value::Bool(value) => value.to_string(),
            Value::Number(number) => match number.as_f64() {
                Some(float) if number.is_f64() => yaml::format_g32(float),
                _ => number.to_string(),
            },
            Value::String(text) => text.clone(),
            Value::Array(_) | Value::Object(_) => return None,
        })
    }
}

/// Largest number of entries in a list of an output. One Execution in an API server can store far
/// fewer.
pub(crate) const MOST_ENTRIES: usize = 10_000;

/// Decodes the list under `deployItems`. `before` items of earlier executions precede it.
pub(crate) fn decode_items(value: Value, before: usize) -> Decoded<Vec<UnresolvedItem>> {
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Array(items) if before + items.len() > MOST_ENTRIES => {
            Err(too_many("deployItems", before + items.len()))
        }
        Value::Array(items) => items
            .into_iter()
            .enumerate()
            .map(|(index, item)| decode_item(item, &format!("deployItems[{index}]")))
            .collect(),
        other => Err(DecodeError::new("deployItems", format!("a list is expected, found {}", kind(&other)))),
    }
}

/// Returns the error for a list that is too long to be stored.
pub(crate) fn too_many(path: &str, count: usize) -> DecodeError {
    DecodeError::new(
        path,
        format!("at most {MOST_ENTRIES} entries are expected, found {count}; divide the blueprint"),
    )
}

fn decode_item(value: Value, path: &str) -> Decoded<UnresolvedItem> {
    let mut members = match value {
        // A null becomes an item without name and type, which the later check of the whole list
        // rejects.
        Value::Null => Map::new(),
        Value::Object(members) => members,
        other => return Err(DecodeError::new(path, format!("a map is expected, found {}", kind(&other)))),
    };
    // The configuration is most of an item, so it is moved, not copied.
    let mut part = |name: &str| take_member(&mut members, name).filter(|value| !value.is_null());
    let (config, alias) = (part("config"), part("configuration"));
    let item = Members { members: &members, path };
    if config.is_some() && alias.is_some() {
        return Err(DecodeError::new(path, "config and configuration are the same field, set only one"));
    }
    let target = item.map("target")?;
    let mut update_on_change_only = item.boolean("updateOnChangeOnly")?;
    if let (None, Some(target)) = (update_on_change_only, &target) {
        // The design document nests the field in the target (`blueprints.md` 7.1).
        update_on_change_only = target.as_members().boolean("updateOnChangeOnly")?;
    }
    let template = DeployItemTemplate {
        name: item.text("name")?.unwrap_or_default(),
        type_: item.text("type")?.unwrap_or_default(),
        labels: item.texts_by_key("labels")?,
        config: config.or(alias).map_or_else(AnyJson::default, AnyJson::from),
        depends_on: item.texts("dependsOn")?,
        timeout: item.duration("timeout")?,
        update_on_change_only,
        on_delete: item.on_delete()?,
        ..DeployItemTemplate::default()
    };
    Ok(UnresolvedItem { template, target: target.map(|target| target.reference()).transpose()? })
}

/// Map in the document, with its path.
struct Members<'a> {
    members: &'a Map<String, Value>,
    path: &'a str,
}

struct Inner<'a> {
    members: &'a Map<String, Value>,
    path: String,
}

impl<'a> Inner<'a> {
    fn as_members(&self) -> Members<'_> {
        Members { members: self.members, path: &self.path }
    }

    fn reference(&self) -> Decoded<TargetReference> {
        let target = self.as_members();
        Ok(TargetReference {
            import: target.text("import")?,
            index: target.integer("index")?,
            key: target.text("key")?,
            name: target.text("name")?,
        })
    }
}

impl<'a> Members<'a> {
    /// Returns a member that is neither absent nor null.
    fn value(&self, name: &str) -> Option<&'a Value> {
        member(self.members, name).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, expected: &str, found: &Value) -> DecodeError {
        DecodeError::new(
            &format!("{}.{name}", self.path),
            format!("{expected} is expected, found {}", kind(found)),
        )
    }

    fn text(&self, name: &str) -> Decoded<Option<String>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        ScalarText::of(value).map(Some).ok_or_else(|| self.wrong(name, "a text", value))
    }

    fn boolean(&self, name: &str) -> Decoded<Option<bool>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        value.as_bool().map(Some).ok_or_else(|| self.wrong(name, "true or false", value))
    }

    fn integer(&self, name: &str) -> Decoded<Option<i64>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        // `1.0` counts as an integer: Landscaper converts the value through JSON, which writes it
        // as `1`.
        let integral = || value.as_f64().and_then(|number| number.to_string().parse().ok());
        value.as_i64().or_else(integral).map(Some).ok_or_else(|| self.wrong(name, "an integer", value))
    }

    fn map(&self, name: &str) -> Decoded<Option<Inner<'a>>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let members = value.as_object().ok_or_else(|| self.wrong(name, "a map", value))?;
        Ok(Some(Inner { members, path: format!("{}.{name}", self.path) }))
    }

    fn texts(&self, name: &str) -> Decoded<List<String>> {
        let Some(value) = self.value(name) else { return Ok(List::absent()) };
        let items = value.as_array().ok_or_else(|| self.wrong(name, "a list", value))?;
        let text = |(index, item): (usize, &Value)| {
            ScalarText::of(item).ok_or_else(|| self.wrong(&format!("{name}[{index}]"), "a text", item))
        };
        items.iter().enumerate().map(text).collect::<Decoded<Vec<_>>>().map(List::from)
    }

    fn texts_by_key(&self, name: &str) -> Decoded<groundwork_api::Map<String>> {
        let Some(map) = self.map(name)? else { return Ok(groundwork_api::Map::absent()) };
        let text = |(key, value): (&String, &Value)| {
            let text = ScalarText::of(value).ok_or_else(|| map.as_members().wrong(key, "a text", value))?;
            Ok((key.clone(), text))
        };
        map.members.iter().map(text).collect::<Decoded<Vec<_>>>().map(|entries| entries.into_iter().collect())
    }

    fn duration(&self, name: &str) -> Decoded<Option<Duration>> {
        let Some(value) = self.value(name) else { return Ok(None) };
        let Value::String(text) = value else {
            return Err(self.wrong(name, "a duration such as 5m or none, as a text,", value));
        };
        // The parser's own error quotes the text, which may come from an imported value.
        let duration = text.parse().map_err(|_| {
            let problem = "unable to parse string into a duration: none, or numbers with units such as 5m or 1h30m, are expected";
            DecodeError::new(&format!("{}.{name}", self.path), problem)
        })?;
        Ok(Some(duration))
    }

    fn on_delete(&self) -> Decoded<Option<OnDelete>> {
        let Some(map) = self.map("onDelete")? else { return Ok(None) };
        let skip_uninstall_if_cluster_removed = map.as_members().boolean("skipUninstallIfClusterRemoved")?;
        Ok(Some(OnDelete { skip_uninstall_if_cluster_removed }))
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}
