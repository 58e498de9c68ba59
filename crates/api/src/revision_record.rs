//! RevisionRecord (`packagevariants.md` 6.14).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{OwnerReference, Time};

use crate::json::{List, Map};
use crate::object::{kind, part};
use crate::package_revision::{PackageCondition, PackageRevisionSpec, PackageRevisionStatus};
use crate::schema;

kind! {
    "packages.groundwork.dev" / "v1alpha1" / "revisionrecords"
    /// A RevisionRecord keeps what git cannot hold of a PackageRevision that the package store
    /// serves, with a copy of what git says. The store writes it; people use PackageRevisions.
    pub struct RevisionRecord {
        /// Attributes of the PackageRevision that git does not hold.
        pub attributes: RecordedAttributes,
        /// Copy of the identity, lifecycle and origin in git.
        pub spec: PackageRevisionSpec,
        /// Copy of the state in git.
        pub status: Option<PackageRevisionStatus>,
    }
}

part! {
    /// Attributes of a PackageRevision that git does not hold.
    pub struct RecordedAttributes {
        /// Labels of the PackageRevision.
        pub labels: Map<String>,
        /// Annotations of the PackageRevision.
        pub annotations: Map<String>,
        /// Finalizers of the PackageRevision.
        pub finalizers: List<String>,
        /// Owners of the PackageRevision. They do not own the record itself: if they did, the
        /// garbage collector would delete it without the store.
        #[schemars(schema_with = "schema::owner_references")]
        pub owner_references: List<OwnerReference>,
        /// When the deletion of the PackageRevision was requested. Finalizers delay it.
        #[schemars(schema_with = "schema::time")]
        pub deletion_timestamp: Option<Time>,
        /// Conditions that programs have written, beside those of the Kptfile.
        pub conditions: List<PackageCondition>,
        ..
    }
}
