//! In-memory clusters: the state after jobs is computed by running them.

use std::sync::Arc;

use groundwork_api::metadata::{annotation, label};
use groundwork_api::{
    DataObject, Installation, KubeResource, ObjectMeta, ObjectReference, OwnerReference, ResourceExt as _,
};
use groundwork_blueprint::Capabilities;
use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError};
use groundwork_lifecycle::{
    Inputs, ObjectSet, ROOT_SCOPE, ScopedObject, deploy_items, export, export_objects, export_values, render,
};
use serde_json::{Map, Value, json};

use crate::landscape::key;
use crate::{Environment, Landscape, Plan, plan};

pub(super) const NAMESPACE: &str = "prod";

pub(super) struct NoRepositories;

impl Repositories for NoRepositories {
    fn open(&self, _: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        Err(RepositoryError::UnknownType { type_name: "none".to_owned() })
    }
}

pub(super) fn planned(present: &Landscape, applied: &Landscape) -> Plan {
    planned_with(present, applied, false)
}

pub(super) fn planned_with(present: &Landscape, applied: &Landscape, show_values: bool) -> Plan {
    let environment = Environment {
        reads: None,
        repositories: &NoRepositories,
        capabilities: &Capabilities::system(),
        signatures: None,
        show_values,
    };
    plan(present, applied, &environment)
}

pub(super) fn object<K: serde::de::DeserializeOwned>(name: &str, content: &Value) -> K {
    let mut object = json!({"metadata": {"name": name, "namespace": NAMESPACE}});
    for (member, value) in content.as_object().unwrap() {
        object[member] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

/// Name, type and configuration of an item.
pub(super) type Item<'a> = (&'a str, &'a str, &'a str);

/// Returns a blueprint with these imports, items and exports. Each export has its template beside
/// it.
pub(super) fn blueprint(imports: &[&str], items: &[Item<'_>], exports: &[(&str, &str)]) -> String {
    let declare = |name: &&str| json!({"name": name, "type": "data", "schema": {}});
    let mut template = "deployItems: []\n".to_owned();
    if !items.is_empty() {
        template = "deployItems:\n".to_owned();
        for (name, type_, config) in items {
            template.push_str(&format!(
                "- {{name: {name}, type: {type_}, config: {{kind: ProviderConfiguration, {config}}}}}\n"
            ));
        }
    }
    let mut export_template = "exports: {}\n".to_owned();
    if !exports.is_empty() {
        export_template = "exports:\n".to_owned();
        for (name, value) in exports {
            export_template.push_str(&format!("  {name}: {value}\n"));
        }
    }
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "imports": imports.iter().map(declare).collect::<Vec<_>>(),
        "exports": exports.iter().map(|(name, _)| declare(name)).collect::<Vec<_>>(),
        "deployExecutions": [{"name": "default", "type": "GoTemplate", "template": template}],
        "exportExecutions": [{"name": "default", "type": "GoTemplate", "template": export_template}],
    })
    .to_string()
}

pub(super) fn installation(name: &str, blueprint: &str, imports: &Value, exports: &[&str]) -> Installation {
    let export = |name: &&str| json!({"name": name, "dataRef": name});
    object(
        name,
        &json!({"spec": {
            "context": "default",
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint}}},
            "imports": {"data": imports},
            "exports": {"data": exports.iter().map(export).collect::<Vec<_>>()},
        }}),
    )
}

pub(super) fn asking(mut installation: Installation) -> Installation {
    let annotations = installation.metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::OPERATION.to_owned(), "reconcile".to_owned());
    installation
}

impl Landscape {
    pub(super) fn with(mut self, installations: impl IntoIterator<Item = Installation>) -> Self {
        for installation in installations {
            self.installations.insert(key(&installation.metadata), installation);
        }
        self
    }

    pub(super) fn with_data(mut self, name: &str, value: &Value) -> Self {
        let object: DataObject = object(name, &json!({"data": value}));
        self.data_objects.insert(key(&object.metadata), object);
        self
    }

    pub(super) fn with_secret(mut self, name: &str, entry: &str, text: &str) -> Self {
        let entries = [(entry.to_owned(), text.as_bytes().to_vec())].into();
        self.secrets.insert((NAMESPACE.to_owned(), name.to_owned()), entries);
        self
    }

    /// Returns the landscape after jobs of these roots, in this order, as in a cluster.
    pub(super) fn run(mut self, roots: &[&str]) -> Self {
        for root in roots {
            self.run_one(root);
        }
        self
    }

    fn run_one(&mut self, root: &str) {
        let place = (NAMESPACE.to_owned(), root.to_owned());
        let Some(installation) = self.installations.get_mut(&place) else { return };
        installation.metadata.uid.get_or_insert_with(|| format!("uid-{root}"));
        let installation = installation.clone();
        let source = format!("Installation.{NAMESPACE}.{root}");
        self.data_objects.retain(|_, object| object.labels().get(label::DATA_SOURCE) != Some(&source));
        let set = self.objects();
        let capabilities = Capabilities::system();
        let inputs = Inputs {
            installation: &installation,
            context: Some(&groundwork_lifecycle::assumed_context(&installation).unwrap()),
            overwrites: None,
            objects: &set,
            repositories: &NoRepositories,
            blueprint: None,
            capabilities: &capabilities,
            scope: ROOT_SCOPE,
            states: None,
            cache: None,
            offline: None,
            signatures: None,
        };
        let outcome = render(&inputs);
        assert!(outcome.error.is_none(), "{root}: {:?}", outcome.error);
        self.items.retain(|_, item| item.labels().get(label::MANAGED_BY).is_none_or(|of| of != root));
        let mut values = Map::new();
        if let Some(mut execution) = outcome.execution {
            execution.metadata.uid = Some(format!("uid-of-execution-{root}"));
            for item in deploy_items(&execution) {
                let export = item.spec.config.get().and_then(|config| config.get("export")).cloned();
                let name = item.labels()[label::DEPLOY_ITEM_NAME].clone();
                values.insert(name, export.unwrap_or_default());
                self.items.insert(key(&item.metadata), item);
            }
            let holder = format!("exports-of-{root}");
            execution.status.get_or_insert_default().export_ref =
                Some(ObjectReference { name: holder.clone(), namespace: Some(NAMESPACE.to_owned()) });
            let mut object: DataObject = object(&holder, &json!({"data": values}));
            let source = (label::DATA_SOURCE.to_owned(), format!("Exec.{root}"));
            object.metadata.labels = Some([source].into());
            self.data_objects.insert(key(&object.metadata), object);
            self.executions.insert(place, execution);
        }
        let values = export_values(&installation, values, [], []);
        let outcome = export(&inputs, |_| values);
        assert!(outcome.error.is_none(), "{root}: {:?}", outcome.error);
        for object in export_objects(&installation, ROOT_SCOPE, "", &outcome.exports) {
            if let ScopedObject::Data(object) = object {
                self.data_objects.insert(key(object.meta()), object);
            }
        }
    }

    fn objects(&self) -> ObjectSet {
        ObjectSet {
            data_objects: self
                .data_objects
                .iter()
                .map(|((_, name), object)| (name.clone(), object.clone()))
                .collect(),
            secrets: self
                .secrets
                .iter()
                .map(|((_, name), entries)| (name.clone(), entries.clone()))
                .collect(),
            ..ObjectSet::default()
        }
    }
}

/// Sets the owner of a child whose root exists in the cluster.
pub(super) fn owned(metadata: &mut ObjectMeta, parent: &str, template: &str) {
    metadata.owner_references = Some(vec![OwnerReference {
        api_version: "landscaper.gardener.cloud/v1alpha1".to_owned(),
        kind: "Installation".to_owned(),
        name: parent.to_owned(),
        uid: format!("uid-{parent}"),
        ..OwnerReference::default()
    }]);
    let annotations = metadata.annotations.get_or_insert_default();
    annotations.insert(annotation::SUBINSTALLATION_NAME.to_owned(), template.to_owned());
}
