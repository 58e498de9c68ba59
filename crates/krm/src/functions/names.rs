//! `ensure-name-substring`, `set-name-prefix` and `set-name-suffix` (`packagevariants.md` 8.5): new
//! names, and references to them.

mod references;

use std::collections::BTreeMap;

use groundwork_yaml::tree::Node;

use super::scope::is_namespaced;
use super::{group, is_local_config, text, type_of};
use crate::render::{Item, ResourceList};

/// New names by kind, namespace and old name.
type Renames = BTreeMap<[String; 3], String>;

pub(super) fn ensure_substring(list: &mut ResourceList) -> Result<(), String> {
    let config = config(list)?;
    let given = |key: &str| text(config, &["data", key]).to_owned();
    let (prepend, append) = (given("prepend"), given("append"));
    if prepend.is_empty() == append.is_empty() {
        return Err("must specify exactly one of `prepend` or `append`".to_owned());
    }
    let substring = format!("{prepend}{append}");
    rename(list, |name| (!name.contains(&substring)).then(|| format!("{prepend}{name}{append}")));
    Ok(())
}

pub(super) fn prefix(list: &mut ResourceList) -> Result<(), String> {
    let prefix = text(config(list)?, &["data", "prefix"]).to_owned();
    if prefix.is_empty() {
        return Err("must specify `prefix`".to_owned());
    }
    rename(list, |name| (!name.starts_with(&prefix)).then(|| format!("{prefix}{name}")));
    Ok(())
}

pub(super) fn suffix(list: &mut ResourceList) -> Result<(), String> {
    let suffix = text(config(list)?, &["data", "suffix"]).to_owned();
    if suffix.is_empty() {
        return Err("must specify `suffix`".to_owned());
    }
    rename(list, |name| (!name.ends_with(&suffix)).then(|| format!("{name}{suffix}")));
    Ok(())
}

fn config(list: &ResourceList) -> Result<&Node, String> {
    let config = list.config.as_ref().filter(|config| type_of(config) == ("ConfigMap", "v1"));
    config.ok_or_else(|| "`functionConfig` must be a `ConfigMap`".to_owned())
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
            check_error(function, "", "", "`functionConfig` must be a `ConfigMap`");
        }
    }
}
