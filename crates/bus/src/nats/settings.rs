//! Settings of streams and consumers as JetStream has them.

use std::time::Duration;

use serde_json::{Map, Value};

/// A duration as JetStream writes it.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The fields that have another value than was asked for, as words; empty if all are kept. Servers swallow options that
/// they do not know.
pub(crate) fn not_kept(wanted: &Value, kept: &Value) -> String {
    let none = Map::new();
    let fields = wanted.as_object().unwrap_or(&none).iter().filter_map(|(field, wanted)| {
        let kept = kept.get(field).unwrap_or(&Value::Null);
        (sorted(wanted) != sorted(kept)).then(|| format!("{field} is {kept} instead of {wanted}"))
    });
    fields.collect::<Vec<_>>().join(", ")
}

/// The order of subjects means nothing.
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
