//! Look-up of values by paths with dots.

use serde_json::Value;

use super::Table;

/// Returns the table at a path, or the first part that is not a table.
pub(crate) fn table<'v>(values: &'v Table, path: &str) -> Result<&'v Table, String> {
    let mut found = values;
    for part in path.split('.') {
        match found.get(part) {
            Some(Value::Object(inner)) => found = inner,
            _ => return Err(part.to_owned()),
        }
    }
    Ok(found)
}

/// Returns the value at a path that is not a table, or the part that is missing.
pub(crate) fn value<'v>(values: &'v Table, path: &str) -> Result<&'v Value, String> {
    let (holder, key) = match path.rsplit_once('.') {
        Some((parent, key)) => (table(values, parent).map_err(|_| key.to_owned())?, key),
        None => (values, path),
    };
    holder.get(key).filter(|value| !value.is_object()).ok_or_else(|| key.to_owned())
}
