//! `starlark` (`packagevariants.md` 8.5): runs a script over the items. The language and its
//! modules are those of `groundwork_starlark`.
//!
//! A script sees what a function in another program would see, so its changes are taken over in the
//! same way: unchanged parts of objects keep their comments, order and form.

use groundwork_starlark::{Limits, run as run_script};
use groundwork_yaml::tree::{Mapping, Node};

use super::{text, type_of};
use crate::render::{ResourceList, on_tree};

const GROUP: &str = "fn.kpt.dev";
/// Name of a script whose config has none.
const NAME: &str = "starlark-function-run";

pub(super) fn run(list: &mut ResourceList) -> Result<(), String> {
    let (name, source) = script(list.config.as_ref())?;
    let limits = list.meter.limits();
    let mut printed = String::new();
    let mut used = groundwork_starlark::Used::default();
    let changed = on_tree(list, |input| {
        let limits = Limits { steps: limits.steps, bytes: limits.bytes };
        let ran = run_script(&name, &source, input, limits);
        (printed, used) = (ran.printed, ran.used);
        ran.result
    });
    list.printed = printed;
    let count = |used: u64| usize::try_from(used).unwrap_or(usize::MAX);
    list.meter.parts(count(used.parts));
    list.meter.bytes(count(used.bytes));
    changed?;
    list.items.iter_mut().filter(|item| item.id.is_none()).for_each(|item| order(&mut item.root));
    Ok(())
}

/// Returns the name of the script and its text.
fn script(config: Option<&Node>) -> Result<(String, String), String> {
    let missing = || "FunctionConfig is missing. Expect `ConfigMap` or `StarlarkRun`".to_owned();
    let config = config.ok_or_else(missing)?;
    let (kind, api_version) = type_of(config);
    let source = match (super::group(config), kind) {
        ("", "ConfigMap") => text(config, &["data", "source"]),
        (GROUP, "StarlarkRun") => text(config, &["source"]),
        _ => {
            return Err(format!(
                "`functionConfig` must be either /v1, Kind=ConfigMap or {GROUP}/v1alpha1, Kind=StarlarkRun, but we got: {}",
                shown(api_version, kind)
            ));
        }
    };
    if source.is_empty() {
        return Err("`source` must not be empty".to_owned());
    }
    let name = text(config, &["metadata", "name"]);
    Ok((if name.is_empty() { NAME } else { name }.to_owned(), source.to_owned()))
}

/// Returns a type in the words of Kubernetes' library: the core group is empty.
fn shown(api_version: &str, kind: &str) -> String {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    format!("{group}/{version}, Kind={kind}")
}

/// Sorts the fields of a new object as usual: those that identify it come first.
fn order(root: &mut Node) {
    let Some(root) = root.as_mapping_mut() else { return };
    first(root, &["apiVersion", "kind", "metadata"]);
    if let Some(metadata) = root.get_mut("metadata").and_then(Node::as_mapping_mut) {
        first(metadata, &["name", "namespace", "labels", "annotations"]);
    }
}

fn first(map: &mut Mapping, names: &[&str]) {
    let place = |name: &str| names.iter().position(|known| *known == name).unwrap_or(names.len());
    map.pairs.sort_by_key(|pair| place(pair.name()));
}

#[cfg(test)]
mod tests;
