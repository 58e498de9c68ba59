//! Configs of functions: further fields of kinds, and the refusal of fields that a function does
//! not know (`packagevariants.md` 8.5). An ignored field would silently publish wrong content.

use groundwork_yaml::tree::{Kind, Node};

use super::{group, text};
use crate::package::KPTFILE;

/// Name of the ConfigMap that renderings make from `configMap`. Other ConfigMaps come from a file,
/// whose further keys may be meant for other functions.
const INLINE: &str = "function-input";
/// Older name of the lists of further fields.
const OLD_FIELDS: &str = "fieldSpecs";
/// Fields that every object has.
const COMMON: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Entry of a config: a further field of a kind that the function sets.
#[derive(Debug)]
pub(super) struct FieldSpec {
    group: String,
    version: String,
    kind: String,
    /// Names between slashes; `[]` behind a name means every item of a list.
    pub(super) path: String,
    pub(super) create: bool,
}

impl FieldSpec {
    /// Reads the list in a field of a config.
    ///
    /// # Errors
    /// A field that the function does not know, or both names of the list.
    pub(super) fn list(config: &Node, field: &str) -> Result<Vec<Self>, String> {
        let given = |name: &str| config.get(name).and_then(Node::as_sequence);
        let list = match (given(field), given(OLD_FIELDS)) {
            (Some(_), Some(_)) => {
                return Err(format!("`{OLD_FIELDS}` has been deprecated, please rename it to `{field}`"));
            }
            (list, old) => list.or(old),
        };
        list.into_iter().flat_map(|list| &list.items).map(Self::of).collect()
    }

    fn of(node: &Node) -> Result<Self, String> {
        only(node, &["group", "version", "kind", "path", "create"])?;
        let given = |key: &str| text(node, &[key]).to_owned();
        let create = node
            .get("create")
            .is_some_and(|create| create.kind() == Kind::Bool && text(node, &["create"]) == "true");
        let path = given("path");
        if path.is_empty() {
            return Err("each further field needs a `path`, such as `spec/ref/namespace`".to_owned());
        }
        Ok(Self { group: given("group"), version: given("version"), kind: given("kind"), path, create })
    }

    /// Reports whether the field is one of this object's kind. Absent parts fit every object but
    /// the Kptfile, which would not be readable any more.
    pub(super) fn selects(&self, root: &Node) -> bool {
        let api_version = text(root, &["apiVersion"]);
        let version = api_version.rsplit('/').next().unwrap_or_default();
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        fits(&self.group, group(root))
            && fits(&self.version, version)
            && fits(&self.kind, text(root, &["kind"]))
            && (!self.kind.is_empty() || text(root, &["kind"]) != KPTFILE)
    }
}

/// Checks the fields of a config of the function's own kind. `lists` names lists of further fields.
pub(super) fn only_known(config: &Node, fields: &[&str], lists: Option<&str>) -> Result<(), String> {
    let more: Vec<&str> = COMMON.into_iter().chain(lists.map(|_| OLD_FIELDS)).collect();
    let fields: Vec<&str> = fields.iter().copied().chain(lists).collect();
    known(config, &fields, &more)
}

/// Checks the fields of a part of a config.
pub(super) fn only(part: &Node, fields: &[&str]) -> Result<(), String> {
    known(part, fields, &[])
}

/// Checks the keys of a ConfigMap that a Kptfile contains.
pub(super) fn only_known_data(config: &Node, keys: &[&str]) -> Result<(), String> {
    match config.get("data") {
        Some(data) if text(config, &["metadata", "name"]) == INLINE => {
            known(data, keys, &[]).map_err(|cause| format!("configMap: {cause}"))
        }
        _ => Ok(()),
    }
}

/// Refuses the first field that is neither among the function's nor among `more`, which the message
/// leaves out.
fn known(node: &Node, fields: &[&str], more: &[&str]) -> Result<(), String> {
    let pairs = node.as_mapping().into_iter().flat_map(|map| &map.pairs);
    let mut names = pairs.map(groundwork_yaml::tree::Pair::name);
    match names.find(|name| !fields.contains(name) && !more.contains(name)) {
        Some(name) => {
            let fields = fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
            Err(format!("the function does not know the field `{name}`: use {fields}"))
        }
        None => Ok(()),
    }
}
