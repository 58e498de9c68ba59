//! `ensure-name-substring`, `set-name-prefix` and `set-name-suffix` (`packagevariants.md` 8.5): new
//! names, and references to them.

mod references;

use std::collections::BTreeMap;

use groundwork_yaml::tree::Node;

use super::config::{FieldSpec, only_known, only_known_data};
use super::fields::visit_scalars;
use super::scope::is_namespaced;
use super::{group, is_local_config, text, type_of};
use crate::render::{Item, ResourceList};

/// New names by kind, namespace and old name.
type Renames = BTreeMap<[String; 3], String>;

pub(super) fn ensure_substring(list: &mut ResourceList) -> Result<(), String> {
    let Ensured { substring, prepends, further } = Ensured::of(list.config.as_ref())?;
    let new_name = |name: &str| {
        let new = || if prepends { format!("{substring}{name}") } else { format!("{name}{substring}") };
        (!name.contains(&substring)).then(new)
    };
    rename(list, new_name);
    for item in list.items.iter_mut().filter(|item| !keeps_name(item)) {
        for field in further.iter().filter(|field| field.selects(&item.root)).collect::<Vec<_>>() {
            visit_scalars(&mut item.root, &field.path, field.create, &mut |node| {
                let old = if node.is_null() { "" } else { node.text().unwrap_or_default() };
                if let Some(new) = new_name(old).filter(|new| list.meter.bytes(new.len())) {
                    node.set_text(&new);
                }
            })?;
        }
    }
    Ok(())
}

/// Config of `ensure-name-substring`.
struct Ensured {
    substring: String,
    /// True to put the substring in front of names, false to put it behind them.
    prepends: bool,
    further: Vec<FieldSpec>,
}

impl Ensured {
    fn of(config: Option<&Node>) -> Result<Self, String> {
        let wrong = || "`functionConfig` must be a `ConfigMap` or `EnsureNameSubstring`".to_owned();
        let config = config.ok_or_else(wrong)?;
        let given = |path: &[&str]| text(config, path).to_owned();
        match type_of(config) {
            ("ConfigMap", "v1") => {
                only_known_data(config, &["prepend", "append"])?;
                let (prepend, append) = (given(&["data", "prepend"]), given(&["data", "append"]));
                if prepend.is_empty() == append.is_empty() {
                    return Err("must specify exactly one of `prepend` or `append`".to_owned());
                }
                let prepends = append.is_empty();
                Ok(Self { substring: format!("{prepend}{append}"), prepends, further: Vec::new() })
            }
            ("EnsureNameSubstring", "fn.kpt.dev/v1alpha1") => {
                let list = "additionalNameFields";
                only_known(config, &["substring", "editMode"], Some(list))?;
                let substring = given(&["substring"]);
                if substring.is_empty() {
                    return Err("substring must not be empty".to_owned());
                }
                let prepends = match given(&["editMode"]).as_str() {
                    "" | "prepend" => true,
                    "append" => false,
                    mode => return Err(format!("editMode {mode:?} must be `prepend` or `append`")),
                };
                Ok(Self { substring, prepends, further: FieldSpec::list(config, list)? })
            }
            _ => Err(wrong()),
        }
    }
}

pub(super) fn prefix(list: &mut ResourceList) -> Result<(), String> {
    let prefix = text(config(list, "prefix")?, &["data", "prefix"]).to_owned();
    if prefix.is_empty() {
        return Err("must specify `prefix`".to_owned());
    }
    rename(list, |name| (!name.starts_with(&prefix)).then(|| format!("{prefix}{name}")));
    Ok(())
}

pub(super) fn suffix(list: &mut ResourceList) -> Result<(), String> {
    let suffix = text(config(list, "suffix")?, &["data", "suffix"]).to_owned();
    if suffix.is_empty() {
        return Err("must specify `suffix`".to_owned());
    }
    rename(list, |name| (!name.ends_with(&suffix)).then(|| format!("{name}{suffix}")));
    Ok(())
}

/// Returns the config of a function with one key.
fn config<'a>(list: &'a ResourceList, key: &str) -> Result<&'a Node, String> {
    let config = list.config.as_ref().filter(|config| type_of(config) == ("ConfigMap", "v1"));
    let config = config.ok_or_else(|| "`functionConfig` must be a `ConfigMap`".to_owned())?;
    only_known_data(config, &[key])?;
    Ok(config)
}

/// Reports whether an object keeps its name. The name of a CRD or an APIService contains its group,
/// and that of a Namespace is referenced by its contents. Kptfiles and local configuration are
/// found by name.
fn keeps_name(item: &Item) -> bool {
    let kind = text(&item.root, &["kind"]);
    matches!(
        (kind, group(&item.root)),
        ("CustomResourceDefinition", "apiextensions.k8s.io")
            | ("Namespace", "")
            | ("APIService", "apiregistration.k8s.io")
    ) || item.is_kptfile()
        || is_local_config(&item.root)
}

fn rename(list: &mut ResourceList, new_name: impl Fn(&str) -> Option<String>) {
    let mut renames = Renames::new();
    for item in list.items.iter_mut().filter(|item| !keeps_name(item)) {
        let old = text(&item.root, &["metadata", "name"]).to_owned();
        if list.meter.passed().is_some() {
            return;
        }
        let Some(new) = new_name(&old).filter(|new| !old.is_empty() && list.meter.bytes(2 * new.len()))
        else {
            continue;
        };
        let kind = text(&item.root, &["kind"]).to_owned();
        let is_cluster_scoped = is_namespaced(group(&item.root), &kind) == Some(false);
        let namespace = if is_cluster_scoped { String::new() } else { namespace_of(&item.root).to_owned() };
        if let Some(name) = item.root.get_mut("metadata").and_then(|metadata| metadata.get_mut("name")) {
            name.set_text(&new);
        }
        renames.insert([kind, namespace, old], new);
    }
    if renames.is_empty() {
        return;
    }
    for item in &mut list.items {
        references::update(&mut item.root, &renames, &list.meter);
    }
}

fn namespace_of(root: &Node) -> &str {
    let namespace = text(root, &["metadata", "namespace"]);
    if namespace.is_empty() { "default" } else { namespace }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, config};

    fn object(kind: &str, name: &str, rest: &str) -> String {
        format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: {name}}} # c\n{rest}")
    }

    /// New names, and objects that keep their names (`packagevariants.md` 8.5).
    #[test]
    fn names() {
        let a = |name: &str| object("ConfigMap", name, "");
        for (function, key, value, old, new) in [
            ("ensure-name-substring", "prepend", "dev-", "a", "dev-a"),
            ("ensure-name-substring", "append", "-dev", "a", "a-dev"),
            ("ensure-name-substring", "append", "-dev", "a-dev-b", "a-dev-b"),
            ("set-name-prefix", "prefix", "dev-", "a-dev-b", "dev-a-dev-b"),
            ("set-name-suffix", "suffix", "-dev", "a", "a-dev"),
        ] {
            check(function, &config(&[(key, value)]), &a(old), &a(new));
        }
        let prepend = config(&[("prepend", "x-")]);
        let group = |group: &str, kind: &str| object(kind, "a", "").replace("v1", &format!("{group}/v1"));
        for kept in [
            object("Namespace", "a", ""),
            group("apiextensions.k8s.io", "CustomResourceDefinition"),
            group("apiregistration.k8s.io", "APIService"),
            a("a, annotations: {config.kubernetes.io/local-config: 'true'}"),
        ] {
            check("ensure-name-substring", &prepend, &kept, &kept);
        }
    }

    /// References in the same namespace are updated (`packagevariants.md` 8.5).
    #[test]
    fn references() {
        let config = config(&[("prepend", "x-")]);
        let all = |x: &str| {
            let pod = format!(
                "spec:\n  serviceAccountName: {x}sa\n  volumes:\n  - configMap: {{name: {x}cm}} # why\n  - configMap: {{name: other}}\n  \
                 containers:\n  - envFrom: [{{configMapRef: {{name: {x}cm}}}}]\n"
            );
            let binding = format!(
                "roleRef: {{kind: Role, name: {x}r}}\nsubjects:\n- {{kind: ServiceAccount, name: {x}sa, namespace: default}}\n- {{kind: User, name: sa}}\n"
            );
            [
                object("ConfigMap", &format!("{x}cm"), ""),
                object("ServiceAccount", &format!("{x}sa"), ""),
                object("Role", &format!("{x}r"), "").replace("v1", "rbac.authorization.k8s.io/v1"),
                object("Pod", &format!("{x}p"), &pod),
                object("RoleBinding", &format!("{x}b"), &binding)
                    .replace("v1", "rbac.authorization.k8s.io/v1"),
                object(
                    "HorizontalPodAutoscaler",
                    &format!("{x}h"),
                    "spec: {scaleTargetRef: {kind: Deployment, name: none}}\n",
                ),
            ]
            .join("---\n")
        };
        check("ensure-name-substring", &config, &all(""), &all("x-"));
        let apart = |name: &str| {
            let pod = "metadata: {name: x-p, namespace: n}\nspec: {serviceAccountName: sa}\n";
            format!("{}---\napiVersion: v1\nkind: Pod\n{pod}", object("ServiceAccount", name, ""))
        };
        check("ensure-name-substring", &config, &apart("sa"), &apart("x-sa"));
    }

    #[test]
    fn configs() {
        for (function, data, expected) in [
            ("ensure-name-substring", &[][..], "must specify exactly one of `prepend` or `append`"),
            (
                "ensure-name-substring",
                &[("prepend", "a"), ("append", "b")],
                "must specify exactly one of `prepend` or `append`",
            ),
            ("set-name-prefix", &[], "must specify `prefix`"),
            ("set-name-suffix", &[], "must specify `suffix`"),
        ] {
            check_error(function, &config(data), "", expected);
            let kinds = match function {
                "ensure-name-substring" => "`functionConfig` must be a `ConfigMap` or `EnsureNameSubstring`",
                _ => "`functionConfig` must be a `ConfigMap`",
            };
            check_error(function, "", "", kinds);
        }
    }

    /// The config of the function's own kind, with further fields (`packagevariants.md` 8.5).
    #[test]
    fn ensured_by_kind() {
        let set = |more: &str| {
            format!(
                "apiVersion: fn.kpt.dev/v1alpha1\nkind: EnsureNameSubstring\nmetadata: {{name: e}}\n{more}"
            )
        };
        let object = |name: &str, reference: &str| {
            format!(
                "apiVersion: a.example/v1\nkind: A\nmetadata: {{name: {name}}}\nspec: {{ref: {reference}}}\n"
            )
        };
        let fields = "additionalNameFields: [{kind: A, path: spec/ref}]\n";
        for (config, from, to) in [
            ("substring: prod-\n", object("a", "b"), object("prod-a", "b")),
            ("substring: prod-\neditMode: prepend\n", object("a-prod-", "b"), object("a-prod-", "b")),
            ("substring: -prod\neditMode: append\n", object("a", "b"), object("a-prod", "b")),
        ] {
            check("ensure-name-substring", &set(config), &from, &to);
        }
        let both = set(&format!("substring: prod-\n{fields}"));
        check("ensure-name-substring", &both, &object("a", "b"), &object("prod-a", "prod-b"));
        for (config, expected) in [
            ("editMode: append\n", "substring must not be empty"),
            ("substring: a\neditMode: replace\n", "editMode \"replace\" must be `prepend` or `append`"),
            (
                "substring: a\nprepend: b\n",
                "the function does not know the field `prepend`: use `substring`, `editMode`, `additionalNameFields`",
            ),
        ] {
            check_error("ensure-name-substring", &set(config), &object("a", "b"), expected);
        }
    }
}
