//! PackageRevision (`packagevariants.md` 1.5).
//!
//! A Porch server may be newer than these types, so they keep unknown members on every level.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::json::{List, Map};
use crate::object::{kind, part};
use crate::schema;

kind! {
    "porch.kpt.dev" / "v1alpha1" / "packagerevisions"
    /// A PackageRevision is one version of a package in a repository.
    pub struct PackageRevision {
        /// Identity, lifecycle and origin of the revision.
        pub spec: PackageRevisionSpec,
        /// State of the revision in the store.
        pub status: Option<PackageRevisionStatus>,
    }
}

/// Stages in the life of a package revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lifecycle {
    /// May be edited.
    Draft,
    /// Waits for approval.
    Proposed,
    /// Fixed, and offered to users.
    Published,
    /// Published, but waits for approval of its deletion.
    DeletionProposed,
}

impl Lifecycle {
    /// All stages.
    pub const ALL: [Self; 4] = [Self::Draft, Self::Proposed, Self::Published, Self::DeletionProposed];

    /// The stage as written in objects.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Draft => "Draft",
            Self::Proposed => "Proposed",
            Self::Published => "Published",
            Self::DeletionProposed => "DeletionProposed",
        }
    }
}

part! {
    /// Identity, lifecycle and origin of a package revision.
    pub struct PackageRevisionSpec {
        /// Path of the package in the repository.
        pub package_name: Option<String>,
        /// Name of the Repository.
        pub repository: Option<String>,
        /// Name of the workspace, unique among the revisions of the package. It cannot be changed.
        #[schemars(extend("x-kubernetes-validations" = [
            {"rule": "self == oldSelf", "message": "spec.workspaceName is immutable"},
        ]))]
        pub workspace_name: Option<String>,
        /// Number of the revision: 0 until it is published, -1 for the head of the branch.
        pub revision: Option<i64>,
        /// Wanted stage: `Draft`, `Proposed`, `Published` or `DeletionProposed`.
        #[schemars(extend("crdDefault" = "Draft", "enum" = ["Draft", "Proposed", "Published", "DeletionProposed"]))]
        pub lifecycle: Option<String>,
        /// Steps that made the revision.
        pub tasks: List<Task>,
        /// Conditions that have to be met before the revision is published.
        pub readiness_gates: List<ReadinessGate>,
        /// Labels and annotations of the package itself.
        pub package_metadata: Option<PackageMetadata>,
        /// Deprecated; revision that this one was made from.
        pub parent: Option<ParentReference>,
        ..
    }
}

impl PackageRevisionSpec {
    /// Returns the stage of the revision; absent and empty mean `Draft`. Returns `None` for an
    /// unknown stage.
    pub fn lifecycle(&self) -> Option<Lifecycle> {
        match self.lifecycle.as_deref() {
            None | Some("") => Some(Lifecycle::Draft),
            Some(text) => Lifecycle::ALL.into_iter().find(|stage| stage.as_str() == text),
        }
    }
}

part! {
    /// A condition that has to be met.
    pub struct ReadinessGate {
        /// Type of the condition.
        pub condition_type: Option<String>,
        ..
    }
}

part! {
    /// Labels and annotations of a package.
    pub struct PackageMetadata {
        /// Labels of the package.
        pub labels: Map<String>,
        /// Annotations of the package.
        pub annotations: Map<String>,
        ..
    }
}

part! {
    /// Revision that another one was made from.
    pub struct ParentReference {
        /// Name of the PackageRevision.
        pub name: Option<String>,
        ..
    }
}

part! {
    /// A step that made a revision. Only the member that `type` names is set.
    pub struct Task {
        /// `init`, `clone`, `edit`, `upgrade`, `render` or `push`.
        #[serde(rename = "type")]
        pub type_: String,
        /// A package from scratch.
        pub init: Option<InitTask>,
        /// A copy of another package.
        pub clone: Option<CloneTask>,
        /// A copy of another revision of the same package.
        pub edit: Option<EditTask>,
        /// A merge with a newer revision of the upstream package.
        pub upgrade: Option<UpgradeTask>,
        ..
    }
}

part! {
    /// A package from scratch.
    pub struct InitTask {
        /// Folder of the package.
        pub subpackage: Option<String>,
        /// Description of the package in a few words.
        pub description: Option<String>,
        /// Keywords to find the package by.
        pub keywords: List<String>,
        /// Address of the package's web pages.
        pub site: Option<String>,
        ..
    }
}

part! {
    /// A copy of another package.
    pub struct CloneTask {
        /// The package to copy.
        pub upstream_ref: Option<UpstreamPackage>,
        ..
    }
}

part! {
    /// A package, registered or not.
    pub struct UpstreamPackage {
        /// `git` or `oci`, for packages that are not registered.
        #[serde(rename = "type")]
        pub type_: Option<String>,
        /// Package in a git repository.
        pub git: Option<GitPackage>,
        /// Package in an OCI image.
        pub oci: Option<OciPackage>,
        /// PackageRevision of a registered package.
        pub upstream_ref: Option<PackageRevisionRef>,
        ..
    }
}

part! {
    /// Package in a git repository.
    pub struct GitPackage {
        /// Address of the repository.
        pub repo: Option<String>,
        /// Branch, tag or commit.
        #[serde(rename = "ref")]
        pub reference: Option<String>,
        /// Folder of the package.
        pub directory: Option<String>,
        /// Secret with credentials.
        pub secret_ref: Option<PackageRevisionRef>,
        ..
    }
}

part! {
    /// Package in an OCI image.
    pub struct OciPackage {
        /// Name of the image.
        pub image: Option<String>,
        ..
    }
}

part! {
    /// Names another object in the same namespace.
    pub struct PackageRevisionRef {
        /// Name of the object in the same namespace.
        pub name: String,
        ..
    }
}

part! {
    /// A copy of another revision of the same package.
    pub struct EditTask {
        /// The revision to copy.
        pub source_ref: Option<PackageRevisionRef>,
        ..
    }
}

part! {
    /// A merge with a newer revision of the upstream package.
    pub struct UpgradeTask {
        /// Revision that the local one is based on.
        pub old_upstream_ref: Option<PackageRevisionRef>,
        /// Revision to upgrade to.
        pub new_upstream_ref: Option<PackageRevisionRef>,
        /// Revision that is upgraded.
        pub local_package_revision_ref: Option<PackageRevisionRef>,
        /// Strategy for the merge: `resource-merge`, `fast-forward`, `force-delete-replace` or
        /// `copy-merge`.
        pub strategy: Option<String>,
        ..
    }
}

part! {
    /// State of the revision in the store.
    pub struct PackageRevisionStatus {
        /// Exact origin of the package.
        pub upstream_lock: Option<Locator>,
        /// Location of the revision itself.
        pub self_lock: Option<Locator>,
        /// User who approved the revision.
        pub published_by: Option<String>,
        /// When the revision was approved.
        #[schemars(schema_with = "schema::time")]
        pub publish_timestamp: Option<Time>,
        /// True if the repository is one for deployments.
        pub deployment: Option<bool>,
        /// Conditions that the package sets on itself.
        pub conditions: List<PackageCondition>,
        /// Stage of the revision in the store; `spec.lifecycle` is the wanted one.
        pub lifecycle: Option<String>,
        /// Generation of the spec that the store has processed.
        pub observed_generation: Option<i64>,
        /// Reason that the store refused the wanted change.
        pub message: Option<String>,
        ..
    }
}

part! {
    /// Exact location of a package.
    pub struct Locator {
        /// Type of the location; `git`.
        #[serde(rename = "type")]
        pub type_: Option<String>,
        /// Location in a git repository.
        pub git: Option<GitLock>,
        ..
    }
}

part! {
    /// Exact location in a git repository.
    pub struct GitLock {
        /// Address of the repository.
        pub repo: Option<String>,
        /// Folder of the package.
        pub directory: Option<String>,
        /// Branch or tag.
        #[serde(rename = "ref")]
        pub reference: Option<String>,
        /// Hash of the commit.
        pub commit: Option<String>,
        /// Hash of the package's folder in git, the same for equal content. Groundwork's package
        /// store gives it; Porch does not.
        pub tree: Option<String>,
        ..
    }
}

part! {
    /// A condition that a package sets on itself.
    pub struct PackageCondition {
        /// Aspect that the condition is about.
        #[serde(rename = "type")]
        pub type_: String,
        /// `True`, `False` or `Unknown`.
        pub status: String,
        /// Short cause in one word, for programs.
        pub reason: Option<String>,
        /// Cause and details, for people.
        pub message: Option<String>,
        ..
    }
}
