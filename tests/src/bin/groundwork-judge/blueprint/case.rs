//! One line of the input. A member with the value null counts as missing, and unknown members are
//! ignored.

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_api::ObjectReference;
use groundwork_blueprint::ExportValues;
use groundwork_component::{Access, Blob, Repository, RepositoryError};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

/// Namespace in which named targets are looked up if the line gives none.
const DEFAULT_NAMESPACE: &str = "default";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Case {
    pub(super) name: Option<String>,
    kind: Option<Kind>,
    pub(super) blueprint: String,
    #[serde(default, deserialize_with = "present")]
    pub(super) files: Option<BTreeMap<String, String>>,
    pub(super) imports: Option<Map<String, Value>>,
    pub(super) export_values: Option<ExportMember>,
    pub(super) components: Option<Vec<Value>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) blobs: Option<BTreeMap<String, String>>,
    pub(super) installation: Option<InstallationMember>,
    pub(super) context: Option<Map<String, Value>>,
    namespace: Option<String>,
    pub(super) targets: Option<Targets>,
    #[serde(default, deserialize_with = "present")]
    pub(super) state: Option<BTreeMap<String, String>>,
    pub(super) then: Option<Vec<Option<Then>>>,
    pub(super) show_values: Option<bool>,
}

impl Case {
    pub(super) fn kind(&self) -> Kind {
        self.kind.unwrap_or_default()
    }

    pub(super) fn namespace(&self) -> String {
        let installed = || self.installation.as_ref()?.namespace.clone();
        self.namespace.clone().or_else(installed).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned())
    }
}

/// List of the blueprint that runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kind {
    #[default]
    Deploy,
    Import,
    Export,
    Subinst,
    /// Runs no list. The findings about the blueprint are the answer.
    Validate,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct InstallationMember {
    namespace: Option<String>,
    pub(super) blueprint: Option<Value>,
    pub(super) component_descriptor: Option<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct ExportMember {
    deployitems: Option<Map<String, Value>>,
    dataobjects: Option<Map<String, Value>>,
    targets: Option<Map<String, Value>>,
}

impl From<ExportMember> for ExportValues {
    fn from(member: ExportMember) -> Self {
        let object = |members: Option<Map<String, Value>>| Value::Object(members.unwrap_or_default());
        Self {
            deploy_items: object(member.deployitems),
            data_objects: object(member.dataobjects),
            targets: object(member.targets),
        }
    }
}

/// Target object that the Installation imports.
#[derive(Debug, Deserialize)]
pub(super) struct TargetName {
    name: Option<String>,
    namespace: Option<String>,
}

impl From<&TargetName> for ObjectReference {
    fn from(target: &TargetName) -> Self {
        Self { name: target.name.clone().unwrap_or_default(), namespace: target.namespace.clone() }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct Targets {
    #[serde(default, deserialize_with = "present")]
    pub(super) single: Option<BTreeMap<String, TargetName>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) maps: Option<BTreeMap<String, BTreeMap<String, TargetName>>>,
    #[serde(default, deserialize_with = "present")]
    pub(super) lists: Option<BTreeMap<String, Vec<TargetName>>>,
}

/// Reads a map without the members that are null.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    members: D,
) -> Result<Option<BTreeMap<String, T>>, D::Error> {
    let members = Option::<BTreeMap<String, Option<T>>>::deserialize(members)?;
    Ok(members.map(|members| members.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()))
}

/// A further run. Members that are missing here come from the first run.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Then {
    pub(super) imports: Option<Map<String, Value>>,
    pub(super) export_values: Option<ExportMember>,
}

/// Contents by file name, which serve as the blob store of all components.
#[derive(Debug, Clone)]
pub(super) struct Blobs(Arc<BTreeMap<String, String>>);

impl Blobs {
    pub(super) fn new(contents: BTreeMap<String, String>) -> Self {
        Self(Arc::new(contents))
    }

    pub(super) fn repository(&self) -> Arc<dyn Repository> {
        Arc::new(self.clone())
    }
}

impl Repository for Blobs {
    fn descriptor(&self, _: &str, _: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        Ok(None)
    }

    fn content(&self, _: &str, _: &str, access: &Access) -> Result<Blob, RepositoryError> {
        let reference = access
            .local_reference()
            .ok_or_else(|| RepositoryError::Offline { address: access.to_string() })?;
        let content = self.0.get(reference).map(|content| Blob::from_bytes("", content.clone().into_bytes()));
        content.ok_or_else(|| RepositoryError::Missing { address: json!(reference).to_string() })
    }
}
