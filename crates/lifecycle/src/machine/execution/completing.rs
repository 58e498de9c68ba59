//! Collection of the items' exports (`installations.md` 7.5).

use groundwork_api::{DataObject, DeployItem, DeployItemTemplate, Execution, ObjectReference};
use serde_json::Value;

use super::{finish, read_items};
use crate::data;
use crate::machine::step::{Moment, Next, Read, write};
use crate::machine::tree::{Templates, Tree};
use crate::phase::Phase;
use crate::write::{Change, Write};

fn export_secret(item: &DeployItem) -> Option<&str> {
    item.status.as_ref()?.export_ref.as_ref().map(|reference| reference.name.as_str())
}

/// Reports whether the Execution has exports to collect, or had some earlier.
pub(super) fn exports_something(tree: &Tree, execution: &Execution) -> bool {
    tree.items.present().any(|item| export_secret(item).is_some())
        || execution.status.as_ref().is_some_and(|status| status.export_ref.is_some())
}

pub(super) fn next(tree: &mut Tree, execution: &Execution, templates: &Templates, moment: &Moment) -> Next {
    let Some(exports) = &tree.exports else {
        if let Some(step) = read_items(tree, execution) {
            return step;
        }
        let secret = |template: &DeployItemTemplate| {
            let item = tree.items.of_template(&template.name)?;
            Some((template.name.clone(), export_secret(item)?.to_owned()))
        };
        return Next::Read(Read::Exports(templates.list.iter().filter_map(secret).collect()));
    };
    let mut values = exports.clone();
    for template in &templates.list {
        values.entry(template.name.clone()).or_insert(Value::Null);
    }
    let holder = data::export_holder(execution, Value::Object(values));
    let reference = ObjectReference {
        name: holder.metadata.name.clone().unwrap_or_default(),
        namespace: holder.metadata.namespace.clone(),
    };
    if !tree.exports_written {
        tree.exports_written = true;
        return write(Write::DataObject(Change::<DataObject>::Ensure(holder)));
    }
    let mut finished = execution.clone();
    finished.status.get_or_insert_default().export_ref = Some(reference);
    finish(&finished, moment, Phase::Succeeded, None)
}
