//! `set-annotations` (`packagevariants.md` 8.5).

use groundwork_api::ResultField;
use groundwork_yaml::tree::Node;

use super::config::{FieldSpec, only_known};
use super::fields::{Strings, pairs, set_strings, template, visit};
use super::{group, text, type_of};
use crate::render::ResourceList;

pub(super) fn run(list: &mut ResourceList) -> Result<(), String> {
    let (annotations, further) = config(list.config.as_ref())?;
    if annotations.is_empty() {
        return Err("input annotation list cannot be empty".to_owned());
    }
    let shown = serde_json::Value::Object(
        annotations.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect(),
    );
    let shown_size = annotations.iter().map(|(key, value)| key.len() + value.len()).sum();
    let mut set = Vec::new();
    for item in &mut list.items {
        for (path, create) in paths(&item.root, &further) {
            let mut count = 0;
            visit(&mut item.root, &path, create, &mut |map| {
                count += set_strings(map, &annotations, create, &list.meter);
            });
            if count > 0 {
                set.push((item.reference(), path.replace('/', ".")));
            }
        }
    }
    if set.is_empty() {
        list.info("no annotations applied");
    }
    for (resource, path) in set {
        if !list.meter.bytes(shown_size) {
            break;
        }
        list.info_of(resource, format!("set annotations: {shown}"));
        if let Some(last) = list.results.last_mut() {
            last.field = Some(ResultField { path: Some(path), ..ResultField::default() });
        }
    }
    Ok(())
}

fn config(config: Option<&Node>) -> Result<(Strings, Vec<FieldSpec>), String> {
    let wrong = || "`functionConfig` must be a `ConfigMap` or `SetAnnotations`".to_owned();
    let config = config.ok_or_else(wrong)?;
    match type_of(config) {
        ("ConfigMap", "v1") => Ok((pairs(config.get("data")), Vec::new())),
        ("SetAnnotations" | "SetAnnotationConfig", "fn.kpt.dev/v1alpha1") => {
            let list = "additionalAnnotationFields";
            only_known(config, &["annotations"], Some(list))?;
            Ok((pairs(config.get("annotations")), FieldSpec::list(config, list)?))
        }
        _ => Err(wrong()),
    }
}

/// Returns the paths of annotations in an object, and whether missing ones are created there.
fn paths(root: &Node, further: &[FieldSpec]) -> Vec<(String, bool)> {
    let (kind, group) = (text(root, &["kind"]), group(root));
    let mut paths = vec![("metadata/annotations".to_owned(), true)];
    if (kind, group) == ("CronJob", "batch") {
        paths.push(("spec/jobTemplate/metadata/annotations".to_owned(), true));
    }
    paths.extend(template(group, kind).map(|template| (format!("{template}/metadata/annotations"), true)));
    let further = further.iter().filter(|field| field.selects(root));
    paths.extend(further.map(|field| (field.path.clone(), field.create)));
    paths
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, config, said};

    /// Every object, pod templates and job templates (`packagevariants.md` 8.5).
    #[test]
    fn places() {
        let to = config(&[("a", "1")]);
        for (old, new) in [
            (
                "kind: A\nmetadata: {name: a} # c\n",
                "kind: A\nmetadata: {name: a, annotations: {a: \"1\"}} # c\n",
            ),
            (
                "kind: A\nmetadata:\n  annotations:\n    a: x # c\n",
                "kind: A\nmetadata:\n  annotations:\n    a: \"1\" # c\n",
            ),
            (
                "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {annotations: {a: \"1\"}}\nspec: {template: {spec: {}}}\n",
                "apiVersion: apps/v1\nkind: DaemonSet\nmetadata: {annotations: {a: \"1\"}}\nspec: {template: {spec: {}, metadata: \
                 {annotations: {a: \"1\"}}}}\n",
            ),
            (
                "apiVersion: batch/v1\nkind: CronJob\nmetadata: {annotations: {a: b}}\nspec: {jobTemplate: {metadata: {annotations: {}}, spec: \
                 {template: {metadata: {annotations: {}}}}}}\n",
                "apiVersion: batch/v1\nkind: CronJob\nmetadata: {annotations: {a: \"1\"}}\nspec: {jobTemplate: {metadata: {annotations: {a: \
                 \"1\"}}, spec: {template: {metadata: {annotations: {a: \"1\"}}}}}}\n",
            ),
        ] {
            check("set-annotations", &to, old, new);
        }
    }

    /// Configs and results (`packagevariants.md` 8.5).
    #[test]
    fn configs() {
        let own = "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetAnnotations\nannotations: {b: x, a: z}\nadditionalAnnotationFields:\n- {group: \
                   dev.example, kind: Foo, path: 'spec/list[]/annotations', create: true}\n- {kind: Foo, path: spec/other}\n";
        check(
            "set-annotations",
            own,
            "apiVersion: dev.example/v1\nkind: Foo\nmetadata: {annotations: {b: x, a: z}}\nspec: {list: [{}, {annotations: {c: d}}]}\n",
            "apiVersion: dev.example/v1\nkind: Foo\nmetadata: {annotations: {b: x, a: z}}\nspec: {list: [{annotations: {b: x, a: z}}, \
             {annotations: {c: d, b: x, a: z}}]}\n",
        );
        assert_eq!(
            said("set-annotations", own, "kind: A\nmetadata: {}\n"),
            ["info set annotations: {\"a\":\"z\",\"b\":\"x\"}"]
        );
        assert_eq!(said("set-annotations", own, ""), ["info no annotations applied"]);
        check_error("set-annotations", &config(&[]), "kind: A\n", "input annotation list cannot be empty");
        for wrong in ["", "kind: X\n"] {
            check_error(
                "set-annotations",
                wrong,
                "kind: A\n",
                "`functionConfig` must be a `ConfigMap` or `SetAnnotations`",
            );
        }
    }
}
