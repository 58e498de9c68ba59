//! Kinds of the API: columns, selectable fields, schemas.

use groundwork_api::metadata::label;
use groundwork_api::{PackageRevision, ResourceExt as _, package_revision_crd};
use groundwork_apiserver::{Column, Fields, Group, Kind, Served, Verb};
use groundwork_packages::porch::STORE_CATEGORY;
use serde_json::{Value, json};

pub(super) const GROUP: Group = Group { name: "porch.kpt.dev", version: "v1alpha1" };
pub(super) const REVISIONS: &str = "packagerevisions";
pub(super) const FILES: &str = "packagerevisionresources";
pub(super) const PACKAGES: &str = "packages";
/// Resource of revisions in messages.
pub(super) const REVISIONS_OF_GROUP: &str = "packagerevisions.porch.kpt.dev";
pub(super) const FILES_OF_GROUP: &str = "packagerevisionresources.porch.kpt.dev";

const READ_AND_CHANGE: &[Verb] = &[Verb::Get, Verb::Update, Verb::Patch];
const SELECTABLE: &[&str] = &[
    "spec.revision",
    "spec.packageName",
    "spec.repository",
    "spec.workspaceName",
    "spec.lifecycle",
    "spec.packageMetadata.labels[",
];

const fn column(name: &'static str, type_: &'static str, cell: fn(&Value) -> Value) -> Column {
    Column { name, type_, cell }
}

const NAME: Column = column("Name", "string", |object| object["metadata"]["name"].clone());
const PACKAGE: Column = column("Package", "string", |object| object["spec"]["packageName"].clone());
const WORKSPACE: Column = column("WorkspaceName", "string", |object| object["spec"]["workspaceName"].clone());
const REVISION: Column =
    column("Revision", "integer", |object| json!(object["spec"]["revision"].as_i64().unwrap_or_default()));
const REPOSITORY: Column = column("Repository", "string", |object| object["spec"]["repository"].clone());

/// Kinds in the order of Porch's own server, with its columns.
pub(super) static KINDS: &[Kind] = &[
    Kind {
        kind: "PackageRevision",
        plural: REVISIONS,
        singular: "packagerevision",
        short_names: &[],
        categories: &[STORE_CATEGORY],
        verbs: &[Verb::Get, Verb::List, Verb::Watch, Verb::Create, Verb::Update, Verb::Patch, Verb::Delete],
        subresources: &[("approval", READ_AND_CHANGE), ("status", READ_AND_CHANGE)],
        fields: SELECTABLE,
        columns: &[
            NAME,
            PACKAGE,
            WORKSPACE,
            REVISION,
            column("Latest", "boolean", |object| {
                json!(object["metadata"]["labels"][label::LATEST_REVISION] == "true")
            }),
            column("Lifecycle", "string", |object| object["spec"]["lifecycle"].clone()),
            REPOSITORY,
        ],
    },
    Kind {
        kind: "PackageRevisionResources",
        plural: FILES,
        singular: "packagerevisionresources",
        short_names: &[],
        categories: &[STORE_CATEGORY],
        verbs: &[Verb::Get, Verb::List, Verb::Update, Verb::Patch],
        subresources: &[],
        fields: SELECTABLE,
        columns: &[
            NAME,
            PACKAGE,
            WORKSPACE,
            REVISION,
            REPOSITORY,
            column("Files", "integer", |object| {
                json!(object["spec"]["resources"].as_object().map_or(0, serde_json::Map::len))
            }),
        ],
    },
    Kind {
        kind: "PorchPackage",
        plural: PACKAGES,
        singular: "package",
        short_names: &[],
        categories: &[STORE_CATEGORY],
        verbs: &[Verb::Get, Verb::List],
        subresources: &[],
        fields: &["spec.packageName", "spec.repository"],
        columns: &[
            NAME,
            PACKAGE,
            REPOSITORY,
            column("Latest Revision", "integer", |object| {
                json!(object["status"]["latestRevision"].as_i64().unwrap_or_default())
            }),
        ],
    },
];

/// Returns the form of a revision that lists and watches use.
pub(super) fn of_revision(object: &PackageRevision, version: u64) -> Option<Served> {
    Some(Served {
        namespace: object.namespace().unwrap_or_default(),
        name: object.name_any(),
        version,
        labels: object.labels().clone(),
        fields: fields(object),
        json: serde_json::to_vec(object).ok()?.into(),
    })
}

/// Returns the selectable fields of a revision.
pub(super) fn fields(object: &PackageRevision) -> Fields {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let spec = &object.spec;
    let lifecycle = spec.lifecycle().map_or_else(String::new, |found| found.as_str().to_owned());
    let mut fields: Fields = [
        ("metadata.name", object.name_any()),
        ("metadata.namespace", object.namespace().unwrap_or_default()),
        ("spec.revision", spec.revision.unwrap_or_default().to_string()),
        ("spec.packageName", text(&spec.package_name)),
        ("spec.repository", text(&spec.repository)),
        ("spec.workspaceName", text(&spec.workspace_name)),
        ("spec.lifecycle", lifecycle),
    ]
    .into_iter()
    .map(|(path, value)| (path.to_owned(), value))
    .collect();
    let labels = spec.package_metadata.iter().flat_map(|metadata| metadata.labels.iter());
    fields.extend(labels.map(|(key, value)| (format!("spec.packageMetadata.labels[{key}]"), value.clone())));
    fields
}

/// Returns the OpenAPI schema of a kind.
pub(super) fn schema(kind: &Kind) -> Value {
    let text = |description: &str| json!({"type": "string", "description": description});
    match kind.plural {
        REVISIONS => {
            let crd = package_revision_crd();
            let schema = crd.spec.versions.into_iter().next().and_then(|version| version.schema);
            let mut schema = serde_json::to_value(schema.unwrap_or_default()).unwrap_or_default();
            schema["openAPIV3Schema"].take()
        }
        FILES => json!({
            "type": "object", "description": "The files of a package revision.",
            "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                "spec": {"type": "object", "description": "Identity of the revision, and its files.", "properties": {
                    "packageName": text("Path of the package in the repository."),
                    "workspaceName": text("Name of the workspace."),
                    "repository": text("Name of the Repository."),
                    "revision": {"type": "integer", "description": "Number of the revision."},
                    "resources": {
                        "type": "object", "description": "Content of the files by their paths in the package.",
                        "additionalProperties": {"type": "string"},
                    },
                }},
                "status": {"type": "object", "description": "Outcome of the last save.", "x-kubernetes-preserve-unknown-fields": true},
            },
        }),
        _ => json!({
            "type": "object", "description": "A package, with the number of its latest revision.",
            "properties": {
                "apiVersion": {"type": "string"}, "kind": {"type": "string"},
                "spec": {"type": "object", "description": "Identity of the package.", "properties": {
                    "packageName": text("Path of the package in the repository."),
                    "repository": text("Name of the Repository."),
                }},
                "status": {"type": "object", "description": "Latest revision.", "properties": {
                    "latestRevision": {"type": "integer", "description": "Number of the latest published revision."},
                }},
            },
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn revisions_are_selected_and_shown() {
        let object: PackageRevision = serde_json::from_value(json!({
            "metadata": {"name": "edge.dns.v1", "namespace": "fleet", "labels": {label::LATEST_REVISION: "true"}},
            "spec": {"packageName": "dns", "repository": "edge", "workspaceName": "v1", "revision": 3, "lifecycle": "Published",
                "packageMetadata": {"labels": {"app": "dns"}}},
        }))
        .unwrap();
        let served = of_revision(&object, 7).unwrap();
        for (path, value) in [
            ("spec.revision", "3"),
            ("spec.lifecycle", "Published"),
            ("spec.packageMetadata.labels[app]", "dns"),
        ] {
            assert_eq!(served.fields.get(path).map(String::as_str), Some(value), "{path}");
        }
        let json: Value = serde_json::from_slice(&served.json).unwrap();
        let cells: Vec<Value> = KINDS[0].columns.iter().map(|column| (column.cell)(&json)).collect();
        assert_eq!(json!(cells), json!(["edge.dns.v1", "dns", "v1", 3, true, "Published", "edge"]));
    }

    #[test]
    fn every_kind_has_a_schema() {
        for kind in KINDS {
            assert!(schema(kind)["properties"]["spec"].is_object(), "{}", kind.kind);
        }
    }
}
