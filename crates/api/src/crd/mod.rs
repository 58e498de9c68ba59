//! CustomResourceDefinitions of our kinds.
//!
//! Schemas come from the Rust types, and descriptions from their doc comments. This module adds the
//! properties of a kind as a whole: names, columns, subresources.

mod structural;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::{
    CustomResourceColumnDefinition, CustomResourceDefinition, CustomResourceDefinitionNames,
    CustomResourceDefinitionSpec, CustomResourceDefinitionVersion, CustomResourceSubresourceStatus,
    CustomResourceSubresources, CustomResourceValidation, JSONSchemaProps, SelectableField,
};
use kube_core::ObjectMeta;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::object::Kind;
use crate::{
    ComponentVersionOverwrites, Context, CriticalProblems, DataObject, DeployItem, Execution, Installation,
    PackageRevision, PackageRevisionSet, PackageVariant, PackageVariantSet, Repository, RevisionRecord,
    SyncObject, Target, TargetSync,
};
use structural::{UnknownMembers, structural};

/// Path of the label `data.landscaper.gardener.cloud/<name>` in a printer column.
macro_rules! data_label {
    ($name:literal) => {
        concat!(r".metadata.labels['data\.landscaper\.gardener\.cloud\/", $name, "']")
    };
}

/// Path of the status of a condition in a printer column.
macro_rules! condition {
    ($name:literal) => {
        concat!(".status.conditions[?(@.type=='", $name, "')].status")
    };
}

const AGE: Column =
    Column { name: "Age", type_: "date", path: ".metadata.creationTimestamp", is_wide: false };

/// Column of `kubectl get`.
struct Column {
    name: &'static str,
    type_: &'static str,
    path: &'static str,
    /// True if the column shows only with `-o wide`.
    is_wide: bool,
}

impl Column {
    const fn text(name: &'static str, path: &'static str) -> Self {
        Self { name, type_: "string", path, is_wide: false }
    }

    const fn wide(name: &'static str, path: &'static str) -> Self {
        Self { is_wide: true, ..Self::text(name, path) }
    }
}

/// Properties of a kind beside its schema.
#[derive(Default)]
struct About<'a> {
    singular: &'a str,
    short_names: &'a [&'a str],
    /// Groups of kinds that `kubectl get` knows, such as `all`.
    categories: &'a [&'a str],
    columns: &'a [Column],
    status: bool,
    selectable: &'a [&'a str],
}

/// Returns the CustomResourceDefinitions of all kinds that a cluster with Groundwork serves, except
/// PackageRevision.
pub fn crds() -> Vec<CustomResourceDefinition> {
    let mut crds = landscaper_crds();
    crds.extend(porch_crds());
    crds
}

/// Returns the kinds of `installations.md` 1.1 to 1.5 and `components.md` 1.1 and 1.3.
fn landscaper_crds() -> Vec<CustomResourceDefinition> {
    vec![
        crd::<Installation>(&About {
            singular: "installation",
            short_names: &["inst"],
            categories: &["all"],
            columns: &[
                Column::text("Phase", ".status.phase"),
                Column::text("Execution", ".status.executionRef.name"),
                Column::text("Component", ".status.componentReference.componentName"),
                Column::text("Version", ".status.componentReference.version"),
                Column::text("Reason", ".status.lastError.reason"),
                Column::wide("Context", ".spec.context"),
                Column::wide("Job", ".status.jobID"),
                Column::wide("Message", ".status.lastError.message"),
                AGE,
            ],
            status: true,
            ..About::default()
        }),
        crd::<Execution>(&About {
            singular: "execution",
            short_names: &["exec"],
            columns: &[
                Column::text("Phase", ".status.phase"),
                Column::text("ExportRef", ".status.exportRef.name"),
                Column::wide("Message", ".status.lastError.message"),
                AGE,
            ],
            status: true,
            ..About::default()
        }),
        crd::<DeployItem>(&About {
            singular: "deployitem",
            short_names: &["di"],
            columns: &[
                Column::text("Type", ".spec.type"),
                Column::text("Phase", ".status.phase"),
                Column::text("ExportRef", ".status.exportRef.name"),
                Column::wide("Reason", ".status.lastError.reason"),
                Column::wide("Target", ".spec.target.name"),
                Column::wide("Deployer", ".status.deployer.name"),
                AGE,
            ],
            status: true,
            ..About::default()
        }),
        crd::<DataObject>(&About {
            singular: "dataobject",
            short_names: &["dobj", "do"],
            columns: &[
                Column::text("Context", data_label!("context")),
                Column::text("Key", data_label!("key")),
                AGE,
            ],
            ..About::default()
        }),
        crd::<Target>(&About {
            singular: "target",
            short_names: &["tgt", "tg"],
            columns: &[
                Column::text("Type", ".spec.type"),
                Column::text("Context", data_label!("context")),
                Column::text("Key", data_label!("key")),
                Column::text("Idx", data_label!("index")),
                Column::text("TMKey", data_label!("targetmapkey")),
                AGE,
            ],
            ..About::default()
        }),
        crd::<TargetSync>(&About {
            singular: "targetsync",
            short_names: &["tgs"],
            columns: &[
                Column::text("Source", ".spec.sourceNamespace"),
                Column { name: "Updated", type_: "date", path: ".status.lastUpdateTime", is_wide: false },
                Column::text("Error", ".status.lastErrors[0]"),
                AGE,
            ],
            status: true,
            ..About::default()
        }),
        crd::<Context>(&About {
            singular: "context",
            short_names: &["ctx"],
            columns: &[AGE],
            ..About::default()
        }),
        crd::<ComponentVersionOverwrites>(&About {
            singular: "componentversionoverwrite",
            short_names: &["compveroverwrite", "cvo"],
            ..About::default()
        }),
        crd::<CriticalProblems>(&About {
            singular: "criticalproblems",
            short_names: &["cps"],
            status: true,
            ..About::default()
        }),
        crd::<SyncObject>(&About {
            singular: "syncobject",
            short_names: &["so"],
            columns: &[
                Column::text("PodName", ".spec.podName"),
                Column::text("Kind", ".spec.kind"),
                Column::text("Name", ".spec.name"),
            ],
            status: true,
            ..About::default()
        }),
    ]
}

/// Returns the kinds of `packagevariants.md` 1.2 to 1.4.
fn porch_crds() -> Vec<CustomResourceDefinition> {
    vec![
        crd::<PackageVariant>(&About {
            singular: "packagevariant",
            columns: &[
                Column::text("Upstream", ".spec.upstream.package"),
                Column::text("Revision", ".status.upstream.revision"),
                Column::text("Repository", ".spec.downstream.repo"),
                Column::text("Package", ".spec.downstream.package"),
                Column::text("Ready", condition!("Ready")),
                Column::text("Stalled", condition!("Stalled")),
                AGE,
            ],
            status: true,
            ..About::default()
        }),
        crd::<PackageVariantSet>(&About {
            singular: "packagevariantset",
            columns: &[
                Column::text("Ready", condition!("Ready")),
                Column::text("Stalled", condition!("Stalled")),
                Column { name: "Variants", type_: "integer", path: ".status.variantCount", is_wide: false },
                AGE,
            ],
            status: true,
            ..About::default()
        }),
        crd::<PackageRevisionSet>(&About {
            singular: "packagerevisionset",
            columns: &[AGE],
            ..About::default()
        }),
        crd::<Repository>(&About {
            singular: "repository",
            short_names: &["repo"],
            columns: &[
                Column::text("Type", ".spec.type"),
                Column::text("Content", ".spec.content"),
                Column::text("Sync schedule", ".spec.sync.schedule"),
                Column { name: "Deployment", type_: "boolean", path: ".spec.deployment", is_wide: false },
                Column::text("Ready", condition!("Ready")),
                Column::text("Address", ".spec['git','oci']['repo','registry']"),
                Column::text("Branch", ".spec.git.branch"),
                AGE,
            ],
            status: true,
            ..About::default()
        }),
        crd::<RevisionRecord>(&About {
            singular: "revisionrecord",
            columns: &[
                Column::text("Package", ".spec.packageName"),
                Column::text("Lifecycle", ".spec.lifecycle"),
                Column::text("Repository", ".spec.repository"),
                AGE,
            ],
            selectable: &[".spec.packageName", ".spec.repository"],
            ..About::default()
        }),
    ]
}

/// Returns the definition of PackageRevision, which an aggregated API serves: it describes the kind
/// for people and for the API's OpenAPI, and is not installed (`packagevariants.md` 1.1, 1.5).
pub fn package_revision_crd() -> CustomResourceDefinition {
    crd::<PackageRevision>(&About {
        singular: "packagerevision",
        columns: &[
            Column::text("Package", ".spec.packageName"),
            Column::text("WorkspaceName", ".spec.workspaceName"),
            Column { name: "Revision", type_: "integer", path: ".spec.revision", is_wide: false },
            Column::text("Latest", r".metadata.labels['kpt\.dev\/latest-revision']"),
            Column::text("Lifecycle", ".spec.lifecycle"),
            Column::text("Repository", ".spec.repository"),
            AGE,
        ],
        status: true,
        selectable: &[
            ".spec.revision",
            ".spec.packageName",
            ".spec.repository",
            ".spec.workspaceName",
            ".spec.lifecycle",
        ],
        ..About::default()
    })
}

fn crd<K: Kind + JsonSchema>(about: &About<'_>) -> CustomResourceDefinition {
    let strings =
        |texts: &[&str]| (!texts.is_empty()).then(|| texts.iter().map(ToString::to_string).collect());
    CustomResourceDefinition {
        metadata: ObjectMeta { name: Some(format!("{}.{}", K::PLURAL, K::GROUP)), ..ObjectMeta::default() },
        spec: CustomResourceDefinitionSpec {
            group: K::GROUP.to_owned(),
            names: CustomResourceDefinitionNames {
                kind: K::KIND.to_owned(),
                list_kind: Some(format!("{}List", K::KIND)),
                plural: K::PLURAL.to_owned(),
                singular: Some(about.singular.to_owned()),
                short_names: strings(about.short_names),
                categories: strings(about.categories),
            },
            scope: "Namespaced".to_owned(),
            versions: vec![version::<K>(about)],
            ..CustomResourceDefinitionSpec::default()
        },
        status: None,
    }
}

fn version<K: Kind + JsonSchema>(about: &About<'_>) -> CustomResourceDefinitionVersion {
    let column = |column: &Column| CustomResourceColumnDefinition {
        name: column.name.to_owned(),
        type_: column.type_.to_owned(),
        json_path: column.path.to_owned(),
        priority: column.is_wide.then_some(1),
        ..CustomResourceColumnDefinition::default()
    };
    let columns: Vec<_> = about.columns.iter().map(column).collect();
    let fields = about.selectable.iter().map(|path| SelectableField { json_path: (*path).to_owned() });
    CustomResourceDefinitionVersion {
        name: K::VERSION.to_owned(),
        served: true,
        storage: true,
        additional_printer_columns: (!columns.is_empty()).then_some(columns),
        selectable_fields: (!about.selectable.is_empty()).then(|| fields.collect()),
        subresources: Some(CustomResourceSubresources {
            status: about.status.then(|| CustomResourceSubresourceStatus(json!({}))),
            ..CustomResourceSubresources::default()
        }),
        schema: Some(CustomResourceValidation { open_api_v3_schema: Some(open_api_schema::<K>()) }),
        ..CustomResourceDefinitionVersion::default()
    }
}

/// Returns the schema in Kubernetes' own type.
fn open_api_schema<K: JsonSchema>() -> JSONSchemaProps {
    serde_json::from_value(root_schema::<K>())
        .expect("the keywords used in this crate are those of CRD schemas")
}

/// Returns the structural schema of a kind: the members that every object has, and those of the
/// kind.
fn root_schema<K: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<K>().to_value();
    let status = schema.pointer_mut("/properties/status").map(Value::take);
    schema = structural(schema, UnknownMembers::Pruned);
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("apiVersion".to_owned(), json!({"type": "string"}));
        properties.insert("kind".to_owned(), json!({"type": "string"}));
        properties.insert("metadata".to_owned(), json!({"type": "object"}));
        // Keep unknown fields of the status: another version of the service may own them.
        let status = status.map(|status| structural(status, UnknownMembers::Kept));
        properties.extend(status.map(|status| ("status".to_owned(), status)));
    }
    schema
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_lossless<K: Kind + JsonSchema>() {
        let written = serde_json::to_value(open_api_schema::<K>()).unwrap();
        assert_eq!(written, root_schema::<K>(), "{}: a keyword got lost", K::KIND);
    }

    #[test]
    fn all_keywords_are_known_to_kubernetes() {
        check_lossless::<Installation>();
        check_lossless::<Execution>();
        check_lossless::<DeployItem>();
        check_lossless::<DataObject>();
        check_lossless::<Target>();
        check_lossless::<TargetSync>();
        check_lossless::<Context>();
        check_lossless::<ComponentVersionOverwrites>();
        check_lossless::<CriticalProblems>();
        check_lossless::<SyncObject>();
        check_lossless::<PackageVariant>();
        check_lossless::<PackageVariantSet>();
        check_lossless::<PackageRevisionSet>();
        check_lossless::<Repository>();
        check_lossless::<PackageRevision>();
        check_lossless::<RevisionRecord>();
    }

    /// Landscaper's deployers list the kinds of `installations.md` 1.5 when they start, so a
    /// cluster has to serve them.
    #[test]
    fn deployers_of_the_reference_find_their_kinds() {
        for (name, short_name) in [
            ("criticalproblems.landscaper.gardener.cloud", "cps"),
            ("syncobjects.landscaper.gardener.cloud", "so"),
        ] {
            let crds = crds();
            let found = crds.iter().find(|crd| crd.metadata.name.as_deref() == Some(name)).unwrap();
            assert_eq!(found.spec.names.short_names.as_deref(), Some(&[short_name.to_owned()][..]));
            let version = &found.spec.versions[0];
            assert_eq!((version.name.as_str(), version.served, version.storage), ("v1alpha1", true, true));
            assert!(version.subresources.as_ref().is_some_and(|subresources| subresources.status.is_some()));
        }
    }

    #[test]
    fn every_field_has_a_description() {
        fn visit(path: &str, schema: &Value) {
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                let path = format!("{path}.{name}");
                let standard = ["apiVersion", "kind", "metadata"].contains(&path.trim_start_matches('.'));
                assert!(standard || property.get("description").is_some(), "{path} lacks a description");
                visit(&path, property);
            }
            for inner in ["items", "additionalProperties"] {
                if let Some(inner) = schema.get(inner) {
                    visit(path, inner);
                }
            }
        }
        for crd in crds().iter().chain([&package_revision_crd()]) {
            let schema = serde_json::to_value(&crd.spec.versions[0].schema).unwrap();
            visit("", &schema["openAPIV3Schema"]);
        }
    }
}
