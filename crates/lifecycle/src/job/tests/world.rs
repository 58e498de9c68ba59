//! In-memory inputs of a job.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, LazyLock};

use data_encoding::BASE64;
use flate2::{Compression, write::GzEncoder};
use groundwork_api::{ComponentVersionOverwrites, Context, Installation};
use groundwork_blueprint::{Capabilities, States};
use groundwork_component::{Access, Blob, Repositories, Repository, RepositoryContext, RepositoryError};
use groundwork_yaml as yaml;
use serde_json::{Value, json};

use crate::imports::{Entries, ObjectSet};
use crate::job::{Inputs, JobOutcome, render};
use crate::names::ROOT_SCOPE;

/// Templates of these tests have no access to the outside.
static NO_CAPABILITIES: LazyLock<Capabilities> = LazyLock::new(Capabilities::default);

#[derive(Default)]
pub(super) struct World {
    pub(super) installation: Installation,
    context: Option<Context>,
    overwrites: Option<ComponentVersionOverwrites>,
    pub(super) objects: ObjectSet,
    stores: Stores,
    states: States,
}

impl World {
    /// Reads a stream of documents. Their kinds are those of the API, and `Component` for a version
    /// in a repository.
    pub(super) fn parse(text: &str) -> Self {
        let mut world = Self::default();
        for node in yaml::parse_all(text, yaml::Options::default()).unwrap() {
            world.add(node.to_value());
        }
        world
    }

    fn add(&mut self, mut document: Value) {
        let kind = document["kind"].as_str().unwrap().to_owned();
        let name = document["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        if let Some(members) = document.as_object_mut() {
            members.entry("apiVersion").or_insert(json!("landscaper.gardener.cloud/v1alpha1"));
        }
        match kind.as_str() {
            "Installation" => self.installation = serde_json::from_value(document).unwrap(),
            "Context" => self.context = Some(serde_json::from_value(document).unwrap()),
            "ComponentVersionOverwrites" => self.overwrites = Some(serde_json::from_value(document).unwrap()),
            "DataObject" => {
                self.objects.data_objects.insert(name, serde_json::from_value(document).unwrap());
            }
            "Target" => {
                self.objects.targets.insert(name, serde_json::from_value(document).unwrap());
            }
            "Secret" => {
                self.objects.secrets.insert(name, entries(&document));
            }
            "ConfigMap" => {
                self.objects.config_maps.insert(name, entries(&document));
            }
            "Component" => self.stores.add(&document),
            other => panic!("no place for {other}"),
        }
    }

    pub(super) fn render(&self) -> JobOutcome {
        render(&self.inputs())
    }

    pub(super) fn inputs(&self) -> Inputs<'_> {
        Inputs {
            installation: &self.installation,
            context: self.context.as_ref(),
            overwrites: self.overwrites.as_ref(),
            objects: &self.objects,
            repositories: &self.stores,
            blueprint: None,
            capabilities: &NO_CAPABILITIES,
            scope: ROOT_SCOPE,
            states: Some(&self.states),
            cache: None,
            offline: None,
            signatures: None,
        }
    }

    /// Returns the config of the first item of a job that must succeed.
    #[track_caller]
    pub(super) fn config(&self) -> Value {
        let outcome = self.render();
        assert_eq!(outcome.error, None);
        outcome.deploy_items[0].spec.config.get().cloned().unwrap()
    }

    /// Returns operation with reason, and the message, of a job that must fail.
    #[track_caller]
    pub(super) fn error(&self) -> (String, String) {
        let error = self.render().error.expect("this job fails").cause;
        (format!("{}/{}", error.operation, error.reason), error.message)
    }

    /// Returns `Type=Status reason: message` of every condition.
    pub(super) fn conditions(&self) -> Vec<String> {
        let shown = |condition: &crate::ConditionUpdate| {
            let status = condition.status.as_str();
            format!("{}={status} {}: {}", condition.type_name, condition.reason, condition.message)
        };
        self.render().conditions.iter().map(shown).collect()
    }
}

/// Returns the entries of a Secret in decoded form, as callers receive them.
fn entries(document: &Value) -> Entries {
    let data = document["data"].as_object().into_iter().flatten();
    data.map(|(key, value)| (key.clone(), value.as_str().unwrap().as_bytes().to_vec())).collect()
}

/// In-memory repositories by address.
#[derive(Default)]
struct Stores(BTreeMap<String, Store>);

#[derive(Clone, Default)]
struct Store {
    descriptors: BTreeMap<String, Vec<u8>>,
    blobs: BTreeMap<String, Vec<u8>>,
}

impl Stores {
    /// Adds a component version: `{in: <repository>, id: <name>:<version>, references: {<local
    /// name>: <name>:<version>}, resources: [...]}`.
    ///
    /// A resource has `text`, a `tree` of files or `base64`, and may set `gzip: true`. `descriptor`
    /// replaces the descriptor that would be generated from these members.
    fn add(&mut self, document: &Value) {
        let store = self.0.entry(document["in"].as_str().unwrap().to_owned()).or_default();
        let (name, version) = document["id"].as_str().unwrap().split_once(':').unwrap();
        let references = document["references"].as_object().into_iter().flatten();
        let references: Vec<Value> = references
            .map(|(local, target)| {
                let (name, version) = target.as_str().unwrap().split_once(':').unwrap();
                json!({"name": local, "componentName": name, "version": version})
            })
            .collect();
        let mut resources = Vec::new();
        for resource in document["resources"].as_array().into_iter().flatten() {
            let blob = format!("{name}:{version}/{}", resource["name"].as_str().unwrap());
            let media_type = resource.get("mediaType").cloned().unwrap_or_default();
            let access = json!({"type": "localBlob", "localReference": blob, "mediaType": media_type});
            resources.push(json!({
                "name": resource["name"], "type": resource["type"], "version": version, "relation": "local",
                "access": resource.get("access").cloned().unwrap_or(access),
            }));
            store.blobs.insert(blob, content(resource));
        }
        let descriptor = json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": name, "version": version, "provider": "p", "sources": [], "repositoryContexts": [],
            "componentReferences": references, "resources": resources,
        }});
        let descriptor =
            document["descriptor"].as_str().map_or_else(|| descriptor.to_string(), str::to_owned);
        store.descriptors.insert(format!("{name}:{version}"), descriptor.into_bytes());
    }
}

fn content(resource: &Value) -> Vec<u8> {
    let bytes = if let Some(text) = resource["text"].as_str() {
        text.as_bytes().to_vec()
    } else if let Some(files) = resource["tree"].as_object() {
        pack(files.iter().map(|(name, text)| (name.as_str(), text.as_str().unwrap().as_bytes())))
    } else {
        BASE64.decode(resource["base64"].as_str().unwrap_or_default().as_bytes()).unwrap()
    };
    if resource["gzip"] != json!(true) {
        return bytes;
    }
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&bytes).unwrap();
    encoder.finish().unwrap()
}

/// Packs files into a tar archive.
pub(super) fn pack<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, content).unwrap();
    }
    archive.into_inner().unwrap()
}

impl Repository for Store {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        Ok(self.descriptors.get(&format!("{name}:{version}")).cloned())
    }

    fn content(&self, _: &str, _: &str, access: &Access) -> Result<Blob, RepositoryError> {
        let blob = access.local_reference().and_then(|reference| self.blobs.get(reference)).cloned();
        let missing = || RepositoryError::Missing { address: access.to_string() };
        blob.map(|bytes| Blob::from_bytes("", bytes)).ok_or_else(missing)
    }
}

impl Repositories for Stores {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        match self.0.get(&context.to_string()) {
            Some(store) => Ok(Arc::new(store.clone())),
            None if context.type_name() == "ociRegistry" => Ok(Arc::new(Store::default())),
            None => Err(RepositoryError::UnknownType { type_name: context.type_name().to_owned() }),
        }
    }
}
