//! `delete-resource` and `remove-local-config-resources` (`packagevariants.md` 8.5). Kptfiles stay,
//! since a package needs its Kptfile.

use super::is_local_config;
use crate::render::{Item, ResourceList};

/// Removes every item that it receives.
pub(super) fn delete_resource(list: &mut ResourceList) -> Result<(), String> {
    if !list.is_selection {
        return Err("delete-resource needs selectors".to_owned());
    }
    list.items.retain(Item::is_kptfile);
    Ok(())
}

/// Removes objects that are only for local tools.
#[expect(clippy::unnecessary_wraps, reason = "the type of all functions")]
pub(super) fn remove_local_config(list: &mut ResourceList) -> Result<(), String> {
    list.items.retain(|item| item.is_kptfile() || !is_local_config(&item.root));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error};
    use crate::{Package, RenderOptions, render};

    const A: &str = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n";
    const B: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: b\n";

    /// The "remove Namespace" example of the design document, with a selector (`packagevariants.md`
    /// 8.5).
    #[test]
    fn deleted() {
        check_error("delete-resource", "", A, "delete-resource needs selectors");
        let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: delete-resource\n    \
                       selectors:\n    - kind: Namespace\n    - kind: Kptfile\n";
        let files =
            [("Kptfile", kptfile.to_owned()), ("a.yaml", format!("{A}---\n{B}")), ("n.yaml", A.to_owned())];
        let files: Package = files.map(|(path, text)| (path.to_owned(), text)).into();
        let found = render(&files, &RenderOptions::default());
        assert_eq!(found.error, None);
        assert_eq!(found.files.keys().collect::<Vec<_>>(), ["Kptfile", "a.yaml"]);
        assert_eq!(found.files["a.yaml"], B);
        assert_eq!(render(&found.files, &RenderOptions::default()).files, found.files);
    }

    /// Objects that count as local configuration (`packagevariants.md` 8.5).
    #[test]
    fn local_config() {
        let with =
            |value: &str| format!("{B}  annotations: {{config.kubernetes.io/local-config: {value}}}\n");
        for value in ["\"true\"", "x"] {
            check("remove-local-config-resources", "", &format!("{A}---\n{}", with(value)), A);
        }
        for value in ["\"false\"", "''"] {
            check("remove-local-config-resources", "", &with(value), &with(value));
        }
    }
}
