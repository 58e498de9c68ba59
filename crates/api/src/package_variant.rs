//! PackageVariant (`packagevariants.md` 1.2).
//!
//! The schema accepts nearly every spec: conditions report all errors at once, in fixed words
//! (`packagevariants.md` 1.2.2).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde::{Deserialize, Serialize};

use crate::json::{IntOrString, List, Map};
use crate::object::{kind, part};
use crate::one_or_many::{OneOrMany, ShapeError, TextMembers};
use crate::package_resources::RenderStatus;
use crate::pipeline::Pipeline;
use crate::schema;

kind! {
    "config.porch.kpt.dev" / "v1alpha1" / "packagevariants"
    /// A PackageVariant derives a package from another one and keeps it up to date.
    pub struct PackageVariant {
        /// Upstream package, and the changes to it.
        pub spec: PackageVariantSpec,
        /// State of the variant.
        pub status: Option<PackageVariantStatus>,
    }
}

part! {
    /// Upstream package, and the changes to it.
    pub struct PackageVariantSpec {
        /// Package that the variant is derived from.
        pub upstream: Option<Upstream>,
        /// Package that the variant makes.
        pub downstream: Option<Downstream>,
        /// Policy for drafts of the downstream package that have no owner: `adoptNone` (the
        /// default) or `adoptExisting`.
        pub adoption_policy: Option<String>,
        /// Policy for the package revisions when the variant is deleted: `delete` (the default) or
        /// `orphan`.
        pub deletion_policy: Option<String>,
        /// Labels of package revisions, set when they are created.
        pub labels: Map<String>,
        /// Annotations of package revisions, set when they are created.
        pub annotations: Map<String>,
        /// Changes to the package context.
        pub package_context: Option<PackageContext>,
        /// Functions that are put in front of those of the package.
        pub pipeline: Option<Pipeline>,
        /// Objects of the cluster that are injected into the package, best first; a single object
        /// is read as a list of one.
        pub injectors: OneOrMany<InjectionSelector>,
        /// Strategy for the merge of upstream changes: `resource-merge` (the default),
        /// `fast-forward`, `force-delete-replace` or `copy-merge`.
        pub update_strategy: Option<String>,
        ..
    }
}

impl PackageVariantSpec {
    /// Returns the selectors of injected objects, in one form for all spellings.
    ///
    /// # Errors
    /// All parts of `injectors` that do not fit (`packagevariants.md` 1.2.2, rule 17).
    pub fn injectors(&self) -> Result<Vec<InjectionSelector>, Vec<ShapeError>> {
        self.injectors.entries("spec.injectors")
    }
}

part! {
    /// A package and its revision.
    #[derive(Eq)]
    pub struct Upstream {
        /// Name of the Repository.
        pub repo: Option<String>,
        /// Path of the package in the repository.
        pub package: Option<String>,
        /// Number of a revision (`3` or `v3`), or a tag such as `latest`.
        pub revision: Option<IntOrString>,
        /// Workspace of the revision; used instead of `revision` if both are given.
        pub workspace_name: Option<String>,
        /// Name of a PackageRevisionSet in place of all other fields; only in a PackageVariantSet.
        /// It is an extension of Groundwork.
        pub package_revision_set: Option<String>,
    }
}

part! {
    /// Package that the variant makes.
    #[derive(Eq)]
    pub struct Downstream {
        /// Name of the Repository.
        pub repo: Option<String>,
        /// Path of the package in the repository.
        pub package: Option<String>,
    }
}

part! {
    /// Changes to the package context.
    #[derive(Eq)]
    pub struct PackageContext {
        /// Values to set. The keys `name` and `package-path` are reserved.
        pub data: Map<String>,
        /// Keys to remove. The keys `name` and `package-path` are reserved.
        pub remove_keys: List<String>,
    }
}

/// Selects an object of the cluster for injection. An absent field matches anything; an empty group
/// is the core group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InjectionSelector {
    /// API group of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// API version of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Kind of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Name of the object; empty if it was left out.
    pub name: String,
}

impl TextMembers for InjectionSelector {
    const MEMBERS: &'static [&'static str] = &["group", "version", "kind", "name"];

    fn from_members(text: impl Fn(&str) -> Option<String>) -> Self {
        Self {
            group: text("group"),
            version: text("version"),
            kind: text("kind"),
            name: text("name").unwrap_or_default(),
        }
    }
}

part! {
    /// State of the variant.
    pub struct PackageVariantStatus {
        /// Conditions: the variant is up to date (`Ready`), or cannot be processed (`Stalled`).
        #[schemars(schema_with = "schema::conditions")]
        pub conditions: List<Condition>,
        /// Package revisions that the variant works on: drafts and proposed ones, or else the
        /// latest published one.
        pub downstream_targets: List<DownstreamTarget>,
        /// Generation of the spec that was worked on last.
        pub observed_generation: Option<i64>,
        /// Package revision that `spec.upstream` resolves to.
        pub upstream: Option<ResolvedUpstream>,
        /// Objects that were injected last.
        pub injection_sources: List<InjectionSource>,
        ..
    }
}

part! {
    /// A package revision that the variant works on.
    pub struct DownstreamTarget {
        /// Name of the PackageRevision.
        pub name: String,
        /// Outcome of the last time that its functions ran.
        pub render_status: Option<RenderStatus>,
        ..
    }
}

part! {
    /// Package revision that the upstream resolves to.
    pub struct ResolvedUpstream {
        /// Name of the PackageRevision.
        pub name: Option<String>,
        /// Number of the revision.
        pub revision: Option<IntOrString>,
        /// Commit of the revision.
        pub commit: Option<String>,
        /// Hash of the package's folder in git, if the package store gives it.
        pub tree: Option<String>,
        /// Tag that led to the revision.
        pub floating_tag: Option<String>,
        /// When the tag was looked up.
        #[schemars(schema_with = "schema::time")]
        pub resolved_at: Option<Time>,
        ..
    }
}

part! {
    /// An object that was injected.
    pub struct InjectionSource {
        /// Group and version of the object.
        pub api_version: String,
        /// Kind of the object.
        pub kind: String,
        /// Name of the object.
        pub name: String,
        /// resourceVersion of the object when it was injected.
        pub resource_version: Option<String>,
        ..
    }
}
