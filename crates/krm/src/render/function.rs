//! Parsing and validation of functions in a Kptfile (`packagevariants.md` 1.7).

use groundwork_api::{Function, List, Map, Pipeline, Selector};
use groundwork_yaml::tree::Node;

use super::image::is_reference;
use crate::file::File;
use crate::package::{Package, join};

/// Reads the pipeline of a validated Kptfile. Scalars are texts, even if they look like numbers.
pub(super) fn pipeline(root: &Node) -> Pipeline {
    let functions = |name: &str| nodes(root.at(&["pipeline", name])).map(function).collect::<Vec<_>>();
    Pipeline { mutators: List::from(functions("mutators")), validators: List::from(functions("validators")) }
}

fn nodes(list: Option<&Node>) -> impl Iterator<Item = &Node> {
    list.and_then(Node::as_sequence).into_iter().flat_map(|list| &list.items)
}

fn text(node: &Node, key: &str) -> Option<String> {
    let value = node.get(key).filter(|value| !value.is_null())?;
    value.text().map(str::to_owned)
}

fn strings(node: &Node, key: &str) -> Map<String> {
    let Some(map) = node.get(key).and_then(Node::as_mapping) else { return Map::absent() };
    let value =
        |node: &Node| if node.is_null() { String::new() } else { node.text().unwrap_or_default().to_owned() };
    map.pairs.iter().map(|pair| (pair.name(), value(&pair.value))).collect()
}

fn function(node: &Node) -> Function {
    Function {
        image: text(node, "image"),
        exec: text(node, "exec"),
        tag: text(node, "tag"),
        config_path: text(node, "configPath"),
        config_map: strings(node, "configMap"),
        name: text(node, "name"),
        selectors: nodes(node.get("selectors")).map(selector).collect(),
        exclude: nodes(node.get("exclude")).map(selector).collect(),
    }
}

fn selector(node: &Node) -> Selector {
    Selector {
        api_version: text(node, "apiVersion"),
        kind: text(node, "kind"),
        name: text(node, "name"),
        namespace: text(node, "namespace"),
        labels: strings(node, "labels"),
        annotations: strings(node, "annotations"),
    }
}

/// Returns the name of a function for messages.
pub(super) fn label(function: &Function) -> &str {
    let given = [&function.name, &function.image, &function.exec];
    given.into_iter().flatten().map(String::as_str).find(|text| !text.is_empty()).unwrap_or_default()
}

/// Normalizes a path in the package.
pub(super) fn clean(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty() && *part != ".").collect::<Vec<_>>().join("/")
}

/// Validates all functions of a package.
pub(super) fn validate(pipeline: &Pipeline, files: &Package, package: &str) -> Result<(), String> {
    for (name, functions) in [("mutators", &pipeline.mutators), ("validators", &pipeline.validators)] {
        for (index, function) in functions.iter().enumerate() {
            let field = format!("pipeline.{name}[{index}]");
            check(function, files, package).map_err(|wrong| {
                let Wrong { member, value, reason } = wrong;
                let value = value.map(|value| format!("Value: {value:?}\n")).unwrap_or_default();
                format!("Kptfile is invalid:\nField: `{field}{member}`\n{value}Reason: {reason}")
            })?;
        }
    }
    Ok(())
}

struct Wrong {
    member: &'static str,
    value: Option<String>,
    reason: String,
}

fn check(function: &Function, files: &Package, package: &str) -> Result<(), Wrong> {
    let whole = |reason: &str| Err(Wrong { member: "", value: None, reason: reason.to_owned() });
    let has = |text: &Option<String>| text.as_deref().is_some_and(|text| !text.is_empty());
    match (has(&function.image), has(&function.exec)) {
        (false, false) => return whole("must specify a functions (`image` or `exec`) to execute"),
        (true, true) => return whole("must specify only one of `image` or `exec`"),
        _ => {}
    }
    if let Some(image) = function.image.as_deref().filter(|image| !image.is_empty() && !is_reference(image)) {
        let reason = format!("function name {image:?} is invalid");
        return Err(Wrong { member: ".image", value: Some(image.to_owned()), reason });
    }
    let Some(path) = &function.config_path else { return Ok(()) };
    if !function.config_map.is_empty() {
        return whole("functionConfig must not specify both `configMap` and `configPath` at the same time");
    }
    config_file(path, files, package).map_err(|reason| Wrong {
        member: ".configPath",
        value: Some(path.clone()),
        reason,
    })
}

fn config_file(path: &str, files: &Package, package: &str) -> Result<(), String> {
    if path.trim().is_empty() {
        return Err("path must not be empty".to_owned());
    }
    if path.starts_with('/') {
        return Err("path must be relative".to_owned());
    }
    if path.contains("..") {
        return Err("path must not be outside the package".to_owned());
    }
    let text = files.get(&join(package, &clean(path)));
    let text = text.ok_or_else(|| "functionConfig must exist in the current package".to_owned())?;
    let file = File::read(text).map_err(|error| error.to_string())?;
    let [document] = file.documents.as_slice() else {
        let count = file.documents.len();
        return Err(format!("functionConfig {path:?} must not contain more than one config, got {count}"));
    };
    super::input::krm(&document.root).map_err(|field| format!("resource must have `{field}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The errors of `packagevariants.md` 1.7.
    #[test]
    fn functions_that_are_wrong() {
        let files: Package = [
            ("two.yaml", "a: 1\n---\nb: 1\n"),
            ("other.yaml", "kind: A\n"),
            ("good.yaml", "apiVersion: v1\nkind: A\nmetadata: {name: a}\n"),
        ]
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into();
        let part = "pipeline.mutators[0]";
        for (function, expected) in [
            ("image: a\n", None),
            ("image: a\n  configPath: ./good.yaml\n", None),
            (
                "name: a\n",
                Some(format!(
                    "Field: `{part}`\nReason: must specify a functions (`image` or `exec`) to execute"
                )),
            ),
            (
                "image: a\n  exec: b\n",
                Some(format!("Field: `{part}`\nReason: must specify only one of `image` or `exec`")),
            ),
            (
                "image: A B\n",
                Some(format!(
                    "Field: `{part}.image`\nValue: \"A B\"\nReason: function name \"A B\" is invalid"
                )),
            ),
            (
                "image: a\n  configMap: {a: b}\n  configPath: good.yaml\n",
                Some(format!(
                    "Field: `{part}`\nReason: functionConfig must not specify both `configMap` and `configPath` at the same time"
                )),
            ),
            (
                "image: a\n  configPath: /a\n",
                Some(format!("Field: `{part}.configPath`\nValue: \"/a\"\nReason: path must be relative")),
            ),
            (
                "image: a\n  configPath: ../a\n",
                Some(format!(
                    "Field: `{part}.configPath`\nValue: \"../a\"\nReason: path must not be outside the package"
                )),
            ),
            (
                "image: a\n  configPath: ''\n",
                Some(format!("Field: `{part}.configPath`\nValue: \"\"\nReason: path must not be empty")),
            ),
            (
                "image: a\n  configPath: no.yaml\n",
                Some(format!(
                    "Field: `{part}.configPath`\nValue: \"no.yaml\"\nReason: functionConfig must exist in the current package"
                )),
            ),
            (
                "image: a\n  configPath: two.yaml\n",
                Some(format!(
                    "Field: `{part}.configPath`\nValue: \"two.yaml\"\nReason: functionConfig \"two.yaml\" must not contain more than one \
                     config, got 2"
                )),
            ),
            (
                "image: a\n  configPath: other.yaml\n",
                Some(format!(
                    "Field: `{part}.configPath`\nValue: \"other.yaml\"\nReason: resource must have `apiVersion`"
                )),
            ),
        ] {
            let text = format!("pipeline:\n  mutators:\n  - {}", function.replace("\n  ", "\n    "));
            let file = File::read(&text).unwrap();
            let found = validate(&pipeline(&file.documents[0].root), &files, "").err();
            assert_eq!(found, expected.map(|text| format!("Kptfile is invalid:\n{text}")), "{function}");
        }
    }
}
