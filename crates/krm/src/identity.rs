//! Identity of an object (`packagevariants.md` 7.3), and the merge keys with its upstream identity
//! (`packagevariants.md` 6.8).

use groundwork_yaml::tree::Node;

/// Prefix of the comment on the key `metadata` that contains the upstream name.
pub(crate) const MERGE_COMMENT: &str = "kpt-merge:";
/// Annotation that contains the upstream name.
pub(crate) const UPSTREAM_IDENTIFIER: &str = "internal.kpt.dev/upstream-identifier";

/// Identity of an object; missing parts are empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Identity {
    group: String,
    kind: String,
    name: String,
    namespace: String,
}

impl Identity {
    /// Returns the identity of a document; that of a list or a scalar is empty.
    pub(crate) fn of(root: &Node) -> Self {
        let text = |path: &[&str]| root.at(path).and_then(Node::text).unwrap_or_default().to_owned();
        let api_version = text(&["apiVersion"]);
        let group = api_version.split_once('/').map_or("", |(group, _)| group).to_owned();
        let (namespace, name) = upstream_name(root)
            .unwrap_or_else(|| (text(&["metadata", "namespace"]), text(&["metadata", "name"])));
        Self { group, kind: text(&["kind"]), name, namespace }
    }

    /// Returns kind and name for messages; `None` if one of them is missing.
    pub(crate) fn shown(&self) -> Option<String> {
        let Self { kind, name, namespace, .. } = self;
        let place = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        (!kind.is_empty() && !name.is_empty()).then(|| format!("{kind} {place}{name}"))
    }

    /// Returns true if neither apiVersion nor kind identify the type of the document.
    pub(crate) fn is_anonymous(root: &Node) -> bool {
        root.get("apiVersion").is_none() && root.get("kind").is_none()
    }
}

/// Returns namespace and name from the comment.
pub(crate) fn upstream_name(root: &Node) -> Option<(String, String)> {
    let pair = root.as_mapping()?.pair("metadata")?;
    // After a map in flow form, the comment is attached to the map.
    let comment = merge_comment(&pair.key.comments.line).or_else(|| merge_comment(&pair.value.comments.line));
    let (namespace, name) = comment?.split_once('/')?;
    Some((namespace.trim().to_owned(), name.trim().to_owned()))
}

fn merge_comment(comment: &str) -> Option<&str> {
    let text = comment.trim_start_matches('#').trim().strip_prefix(MERGE_COMMENT)?.trim();
    text.contains('/').then_some(text)
}

/// Removes the merge keys, and the maps that become empty.
pub(crate) fn without_merge_keys(root: &Node) -> Node {
    let mut root = root.clone();
    drop_annotation(&mut root);
    if let Some(mapping) = root.as_mapping_mut()
        && let Some(pair) = mapping.pairs.iter_mut().find(|pair| pair.name() == "metadata")
    {
        for comments in [&mut pair.key.comments, &mut pair.value.comments] {
            if merge_comment(&comments.line).is_some() {
                comments.line.clear();
            }
        }
    }
    root
}

/// Removes the annotation with the upstream name (`packagevariants.md` 6.8), and the maps that
/// become empty.
pub(crate) fn drop_annotation(root: &mut Node) {
    let Some(metadata) = root.get_mut("metadata").and_then(Node::as_mapping_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Node::as_mapping_mut) else { return };
    if annotations.remove(UPSTREAM_IDENTIFIER).is_none() || !annotations.pairs.is_empty() {
        return;
    }
    metadata.remove("annotations");
    if metadata.pairs.is_empty()
        && let Some(mapping) = root.as_mapping_mut()
    {
        mapping.remove("metadata");
    }
}
