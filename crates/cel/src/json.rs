//! Values of JSON data.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::value::{Key, Map, Value};

impl From<&Json> for Value {
    /// Converts a value. Numbers become ints where they fit, as in objects that Go programs read.
    fn from(json: &Json) -> Self {
        match json {
            Json::Null => Self::Null,
            Json::Bool(truth) => Self::Bool(*truth),
            Json::Number(number) => match number.as_i64() {
                Some(whole) => Self::Int(whole),
                None => Self::Double(number.as_f64().unwrap_or_default()),
            },
            Json::String(text) => Self::from(text.as_str()),
            Json::Array(elements) => Self::List(Arc::new(elements.iter().map(Self::from).collect())),
            Json::Object(members) => {
                let members = members
                    .iter()
                    .map(|(name, member)| (Key::String(Arc::from(name.as_str())), Self::from(member)));
                Self::Map(Arc::new(members.collect::<Map>()))
            }
        }
    }
}
