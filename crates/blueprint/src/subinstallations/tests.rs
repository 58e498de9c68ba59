//! Helpers that create templates and parents from YAML.

mod child;
mod collect;
mod graph;
mod removal;
mod siblings;
mod validate;

use groundwork_api::{Blueprint as Definition, InstallationTemplate};
use serde_json::{Map, Value};

use super::decode_template;
use crate::testing;

/// Decodes the templates of a list.
fn templates(text: &str) -> Vec<InstallationTemplate> {
    decoded(&testing::yaml(text))
}

fn decoded(list: &Value) -> Vec<InstallationTemplate> {
    let list = list.as_array().cloned().unwrap_or_default();
    list.iter().enumerate().map(|(index, template)| decode_template(index, template).unwrap()).collect()
}

/// Returns a defaulted blueprint with these imports and exports.
fn definition(text: &str) -> Definition {
    testing::load(text, &[]).unwrap().definition
}

/// Returns values for these imports. `null` counts as a value (`blueprints.md` 3.3).
fn values(names: &[&str]) -> Map<String, Value> {
    names.iter().map(|name| ((*name).to_owned(), Value::Null)).collect()
}

/// Imports of every type, with one nested in another.
const IMPORTS: &str = "
imports:
- {name: must, type: data, schema: {}}
- {name: may, type: data, required: false, schema: {}}
- name: owner
  type: data
  required: false
  schema: {}
  imports:
  - {name: inner, type: data, schema: {}}
  - name: middle
    type: target
    targetType: t
    required: false
    imports: [{name: deep, type: target, targetType: t}]
- {name: cluster, type: target, targetType: t}
- {name: edge, type: target, targetType: t, required: false}
- {name: list, type: targetList, targetType: t, required: false}
- {name: map, type: targetMap, targetType: t, required: false}
";
