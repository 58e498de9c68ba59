//! Computed names, which are part of the stored format (`installations.md` 4.3, 7.2).

use std::sync::LazyLock;

use data_encoding::{Encoding, Specification};
use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::{Installation, ObjectMeta, OwnerReference};
use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use crate::ownership::is_kind;

/// Limit for object names, because some of them become values of labels, for example on pods.
const LONGEST_NAME: usize = 63;
const SUFFIX: usize = 5;

static BASE32: LazyLock<Encoding> = LazyLock::new(|| {
    let mut specification = Specification::new();
    specification.symbols.push_str("abcdefghijklmnopqrstuvwxyz234567");
    specification.encoding().expect("the alphabet has 32 different symbols")
});

/// Returns the name of the DataObject or Target that stores `key` in a scope. The empty scope is
/// that of the namespace.
///
/// A key that begins with `#` names an object directly.
pub fn object_name(scope: &str, key: &str) -> String {
    if let Some(name) = key.strip_prefix('#') {
        return name.to_owned();
    }
    if scope.is_empty() && is_dns_subdomain(key) {
        return key.to_owned();
    }
    BASE32.encode(&Sha1::digest(format!("{scope}/{key}")))
}

/// Value of the label that names the origin of an object.
pub const SOURCE_TYPE_IMPORT: &str = "import";
pub const SOURCE_TYPE_EXPORT: &str = "export";

/// Scope of a namespace, which contains the Installations without a parent.
pub const ROOT_SCOPE: &str = "";

/// Returns the scope that contains an Installation: that of its namespace, or the scope of its
/// parent (`installations.md` 4.1).
pub fn living_scope(installation: &Installation) -> String {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    parent_name(installation).map_or_else(String::new, |parent| scope_name(namespace, parent))
}

/// Returns the name of the Installation that owns another one; `None` for a root
/// (`installations.md` 2.1).
pub fn parent_name(installation: &Installation) -> Option<&str> {
    let mut owners = installation.metadata.owner_references.iter().flatten();
    owners.find(|owner| is_installation(owner)).map(|owner| owner.name.as_str())
}

/// Reports whether an owner is an Installation, in any API version.
pub(crate) fn is_installation(owner: &OwnerReference) -> bool {
    is_kind::<Installation>(owner)
}

/// Returns the name of the Secret that stores the state of an execution (`blueprints.md` 4.6).
pub fn state_secret_name(installation: &str, key: &str) -> String {
    BASE32.encode(&Sha1::digest(format!("{installation}/{key}")))
}

/// Longest value of a label that Kubernetes accepts.
const LONGEST_LABEL: usize = 63;

/// Returns the name of the scope that an Installation opens for its subinstallations and the copies
/// of its imports.
///
/// The name is part of the stored format: it is a value of labels and part of object names
/// (`installations.md` 4.2).
pub fn scope_name(namespace: &str, installation: &str) -> String {
    let long = format!("Installation.{namespace}.{installation}");
    if long.len() <= LONGEST_LABEL { long } else { format!("Inst.{installation}") }
}

/// Returns the name of the DeployItem for one template of an Execution.
///
/// The name is the same on every attempt, so a repeated creation finds the object of the first one.
pub fn deploy_item_name(execution_uid: &str, execution: &str, template: &str) -> String {
    let digest = Sha256::digest(format!("{execution_uid}/{template}"));
    let suffix = &BASE32.encode(&digest)[..SUFFIX];
    let mut prefix = format!("{execution}-{template}");
    prefix.truncate(prefix.floor_char_boundary(LONGEST_NAME - SUFFIX - 1));
    format!("{}-{suffix}", prefix.trim_end_matches(['-', '.']))
}

/// Returns the characters at the end of a subinstallation's name.
///
/// They are the same on every attempt, like those of DeployItems. For a parent outside a cluster,
/// its name replaces the UID.
pub(crate) fn subinstallation_suffix(parent: &ObjectMeta, template: &str) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    let parent = match &parent.uid {
        Some(uid) => uid.clone(),
        None => format!("{}/{}", part(&parent.namespace), part(&parent.name)),
    };
    BASE32.encode(&Sha256::digest(format!("{parent}/{template}")))[..SUFFIX].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names match the vectors of `installations.md` 4.3.
    #[test]
    fn object_names() {
        for (scope, key, name) in [
            ("", "my-data", "my-data"),
            ("", "UPPER_x", "5xqikps3z4hqttgp5fpnpbgxtw63wbpj"),
            ("Inst.root", "root.a", "sc3k7adib6t22srkym6bal5pwfa5l77g"),
            ("Inst.root", "clusters[0]", "vyrr2cxn4kgmsxwfbidhrrpxadzeqmsi"),
            ("Inst.root", "clusters[blue]", "esfwivpgtydkba2ns4lyswj7qwde7mie"),
            ("Inst.application", "databaseaccess", "pjhytr7hbe4ba5zpwmhbhytsgobrxxhj"),
            ("Installation.ns1.root", "root.a", "vauka2l4s26flpqshrw5lgor2nfhd6ic"),
            ("Installation.default.application", "databaseaccess", "n5gt6tkql4hpmz3cvuy6qqswz5bw62qe"),
            ("Exec.root", "", "3ma3sfyypbemjcx6szifjuezoviyii4c"),
            ("Inst.root", "#plain", "plain"),
        ] {
            assert_eq!(object_name(scope, key), name);
        }
        assert_eq!(object_name("", "a..b").len(), 32);
    }

    #[test]
    fn scope_names() {
        assert_eq!(scope_name("prod", "shop"), "Installation.prod.shop");
        let long = |length: usize| scope_name(&"n".repeat(length), "shop");
        assert_eq!(long(45).len(), LONGEST_LABEL);
        assert_eq!(long(46), "Inst.shop");
    }

    #[test]
    fn deploy_item_names() {
        let name = deploy_item_name("uid", "server", "echo");
        assert!(name.starts_with("server-echo-") && name.len() == "server-echo-".len() + SUFFIX);
        assert_eq!(deploy_item_name("uid", "server", "echo"), name);
        assert_ne!(deploy_item_name("other", "server", "echo"), name);
        assert_eq!(deploy_item_name("u", &"x".repeat(58), &"y".repeat(60)).len(), LONGEST_NAME);
    }
}
