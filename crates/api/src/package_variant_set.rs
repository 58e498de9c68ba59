//! PackageVariantSet (`packagevariants.md` 1.3).
//!
//! As for PackageVariants, the schema accepts nearly every spec. Conditions report errors, in the
//! words of `packagevariants.md` 4.9.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, LabelSelectorRequirement};
use serde::{Deserialize, Serialize};

use crate::json::{List, Map};
use crate::object::{kind, part};
use crate::one_or_many::{OneOrMany, ShapeError, TextMembers};
use crate::package_variant::Upstream;
use crate::pipeline::Selector;
use crate::schema;

kind! {
    "config.porch.kpt.dev" / "v1alpha2" / "packagevariantsets"
    /// A PackageVariantSet makes a PackageVariant for each of its targets.
    pub struct PackageVariantSet {
        /// Upstream package, and the targets.
        pub spec: PackageVariantSetSpec,
        /// State of the set.
        pub status: Option<PackageVariantSetStatus>,
    }
}

part! {
    /// Upstream package, and the targets.
    pub struct PackageVariantSetSpec {
        /// Package that the variants are derived from.
        pub upstream: Option<Upstream>,
        /// Several packages, in place of `upstream`; each target gets a variant of each of them. It
        /// is an extension of Groundwork.
        pub upstreams: List<Upstream>,
        /// Targets that get variants.
        pub targets: List<PackageVariantTarget>,
        /// Effect of a failing target on the others. `Stop` (the default): no variant is written.
        /// `Isolate`: the others get their variants, but no variant is deleted until all targets
        /// succeed. It is an extension of Groundwork.
        pub failure_policy: Option<String>,
        /// Percentage of its variants that the set may delete at once without a confirmation. It is
        /// an extension of Groundwork.
        pub max_delete_percent: Option<i32>,
        ..
    }
}

part! {
    /// Target that gets variants: one of `repositories`, `repositorySelector` and `objectSelector`.
    pub struct PackageVariantTarget {
        /// Repositories by name.
        pub repositories: List<RepositoryTarget>,
        /// Repositories by labels; `{}` means all.
        pub repository_selector: Option<RepositorySelector>,
        /// Objects by type and labels.
        pub object_selector: Option<ObjectSelector>,
        /// Names of packages to make in each selected repository or for each selected object.
        pub package_names: List<String>,
        /// Template of the variants.
        pub template: Option<PackageVariantTemplate>,
        ..
    }
}

part! {
    /// A repository and the packages to make in it.
    #[derive(Eq)]
    pub struct RepositoryTarget {
        /// Name of the Repository.
        pub name: Option<String>,
        /// Names of the packages; without them the name of the upstream package.
        pub package_names: List<String>,
    }
}

part! {
    /// Selects Repositories by labels.
    pub struct RepositorySelector {
        /// Labels that the object must have.
        pub match_labels: Map<String>,
        /// Further requirements on labels.
        #[schemars(schema_with = "schema::match_expressions")]
        pub match_expressions: List<LabelSelectorRequirement>,
    }
}

part! {
    /// Selects objects by type and labels.
    pub struct ObjectSelector {
        /// Group and version of the objects.
        pub api_version: Option<String>,
        /// Kind of the objects.
        pub kind: Option<String>,
        /// Name of the object.
        pub name: Option<String>,
        /// Labels that the object must have.
        pub match_labels: Map<String>,
        /// Further requirements on labels.
        #[schemars(schema_with = "schema::match_expressions")]
        pub match_expressions: List<LabelSelectorRequirement>,
    }
}

fn label_selector(
    labels: &BTreeMap<String, String>,
    expressions: &[LabelSelectorRequirement],
) -> LabelSelector {
    LabelSelector {
        match_labels: (!labels.is_empty()).then(|| labels.clone()),
        match_expressions: (!expressions.is_empty()).then(|| expressions.to_vec()),
    }
}

impl RepositorySelector {
    /// Returns the selector in Kubernetes' own type.
    pub fn label_selector(&self) -> LabelSelector {
        label_selector(&self.match_labels, &self.match_expressions)
    }
}

impl ObjectSelector {
    /// Returns the selector in Kubernetes' own type.
    pub fn label_selector(&self) -> LabelSelector {
        label_selector(&self.match_labels, &self.match_expressions)
    }
}

part! {
    /// Template of the variants of a target. Fields that end in `Expr` or `Exprs` are CEL
    /// expressions.
    pub struct PackageVariantTemplate {
        /// Package that the variant makes.
        pub downstream: Option<DownstreamTemplate>,
        /// `adoptNone` or `adoptExisting`.
        pub adoption_policy: Option<String>,
        /// `delete` or `orphan`.
        pub deletion_policy: Option<String>,
        /// `resource-merge`, `fast-forward`, `force-delete-replace` or `copy-merge`.
        pub update_strategy: Option<String>,
        /// Labels of package revisions.
        pub labels: Map<String>,
        /// Labels of package revisions, computed; a single object is read as a list of one.
        pub label_exprs: OneOrMany<MapExpr>,
        /// Annotations of package revisions.
        pub annotations: Map<String>,
        /// Annotations of package revisions, computed; a single object is read as a list of one.
        pub annotation_exprs: OneOrMany<MapExpr>,
        /// Changes to the package context.
        pub package_context: Option<PackageContextTemplate>,
        /// Functions that are put in front of those of the package.
        pub pipeline: Option<PipelineTemplate>,
        /// Objects of the cluster that are injected into the package, best first; a single object
        /// is read as a list of one.
        pub injectors: OneOrMany<InjectionSelectorTemplate>,
        /// Further entries of `injectors`, which come after them.
        pub injector_exprs: OneOrMany<InjectionSelectorTemplate>,
        ..
    }
}

impl PackageVariantTemplate {
    /// Returns the injectors of both spellings in order, each with the path for error messages
    /// (`packagevariants.md` 1.3.1). `path` is the path of this template.
    ///
    /// # Errors
    /// All parts of the written values that do not fit.
    pub fn injectors(&self, path: &str) -> Result<Vec<(String, InjectionSelectorTemplate)>, Vec<ShapeError>> {
        let mut read = Vec::new();
        let mut errors = Vec::new();
        for (name, field) in [("injectors", &self.injectors), ("injectorExprs", &self.injector_exprs)] {
            let path = format!("{path}.{name}");
            match field.entries(&path) {
                Ok(entries) => {
                    let numbered = entries.into_iter().enumerate();
                    read.extend(numbered.map(|(index, entry)| (format!("{path}[{index}]"), entry)));
                }
                Err(found) => errors.extend(found),
            }
        }
        if errors.is_empty() { Ok(read) } else { Err(errors) }
    }
}

part! {
    /// Package that the variant makes, fixed or computed.
    #[derive(Eq)]
    pub struct DownstreamTemplate {
        /// Name of the Repository.
        pub repo: Option<String>,
        /// Path of the package in the repository.
        pub package: Option<String>,
        /// Name of the Repository, computed.
        pub repo_expr: Option<String>,
        /// Path of the package in the repository, computed.
        pub package_expr: Option<String>,
    }
}

part! {
    /// Changes to the package context, fixed or computed.
    pub struct PackageContextTemplate {
        /// Values to set by key.
        pub data: Map<String>,
        /// Keys to remove.
        pub remove_keys: List<String>,
        /// Values to set, computed; a single object is read as a list of one.
        pub data_exprs: OneOrMany<MapExpr>,
        /// Keys to remove, computed.
        pub remove_key_exprs: List<String>,
    }
}

part! {
    /// Functions that are put in front of those of the package.
    pub struct PipelineTemplate {
        /// Functions that check the package.
        pub validators: List<FunctionTemplate>,
        /// Functions that change the package.
        pub mutators: List<FunctionTemplate>,
    }
}

part! {
    /// A function whose configuration may be computed.
    pub struct FunctionTemplate {
        /// Image of the function.
        pub image: Option<String>,
        /// Executable of the function.
        pub exec: Option<String>,
        /// Version of the image.
        pub tag: Option<String>,
        /// File in the package that configures the function.
        pub config_path: Option<String>,
        /// Configuration of the function.
        pub config_map: Map<String>,
        /// Name of the function in the pipeline.
        pub name: Option<String>,
        /// Resources that the function sees.
        pub selectors: List<Selector>,
        /// Resources that the function does not see.
        pub exclude: List<Selector>,
        /// Configuration of the function, computed; a single object is read as a list of one.
        pub config_map_exprs: OneOrMany<MapExpr>,
    }
}

/// An entry of a map, fixed or computed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MapExpr {
    /// Fixed key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// CEL expression for the key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_expr: Option<String>,
    /// Fixed value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// CEL expression for the value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value_expr: Option<String>,
}

impl TextMembers for MapExpr {
    const MEMBERS: &'static [&'static str] = &["key", "keyExpr", "value", "valueExpr"];

    fn from_members(text: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            key: text("key"),
            key_expr: text("keyExpr"),
            value: text("value"),
            value_expr: text("valueExpr"),
        }
    }
}

/// Selects an object of the cluster for injection, by a fixed or a computed name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InjectionSelectorTemplate {
    /// API group; absent matches anything, empty is the core group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// API version; absent matches anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Kind; absent matches anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// CEL expression for the name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_expr: Option<String>,
}

impl TextMembers for InjectionSelectorTemplate {
    const MEMBERS: &'static [&'static str] = &["group", "version", "kind", "name", "nameExpr"];

    fn from_members(text: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            group: text("group"),
            version: text("version"),
            kind: text("kind"),
            name: text("name"),
            name_expr: text("nameExpr"),
        }
    }
}

part! {
    /// State of the set.
    pub struct PackageVariantSetStatus {
        /// Conditions: the variants are written (`Ready`), or the set cannot be processed
        /// (`Stalled`).
        #[schemars(schema_with = "schema::conditions")]
        pub conditions: List<Condition>,
        /// Generation of the spec that was worked on last.
        pub observed_generation: Option<i64>,
        /// Number of variants.
        pub variant_count: Option<i32>,
        /// Number of variants that are ready.
        pub variants_ready: Option<i32>,
        /// Number of objects that each target selected.
        pub target_counts: List<i32>,
        ..
    }
}
