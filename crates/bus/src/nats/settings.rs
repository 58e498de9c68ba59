//! Settings of streams and consumers in JetStream's format.

use std::time::Duration;

use serde_json::{Map, Value};

/// Converts a duration to nanoseconds, as JetStream writes it.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Lists the fields whose stored value differs from the wanted one; empty if the server kept all.
/// Servers silently ignore options that they do not know.
pub(crate) fn not_kept(wanted: &Value, kept: &Value) -> String {
    let none = Map::new();
    let fields = wanted.as_object().unwrap_or(&none).iter().filter_map(|(field, wanted)| {
        let kept = kept.get(field).unwrap_or(&Value::Null);
        (sorted(wanted) != sorted(kept)).then(|| format!("{field} is {kept} instead of {wanted}"))
    });
    fields.collect::<Vec<_>>().join(", ")
}

/// Returns the value with sorted lists, because the order of subjects has no meaning.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items = items.clone();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        other => other.clone(),
    }
}
