//! Repository (`packagevariants.md` 1.4).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use crate::common::LocalObjectReference;
use crate::json::List;
use crate::object::{kind, part};
use crate::schema;

kind! {
    "config.porch.kpt.dev" / "v1alpha1" / "repositories"
    /// A Repository registers a location of packages.
    #[schemars(extend("x-kubernetes-validations" = [
        {
            "rule": "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "message": "metadata.name must conform to the RFC1123 DNS label standard",
        },
        {
            "rule": "size(self.metadata.name) <= 63",
            "message": "metadata.name must be no more than 63 characters",
        },
    ]))]
    pub struct Repository {
        /// Location of the packages.
        pub spec: RepositorySpec,
        /// State of the repository.
        pub status: Option<RepositoryStatus>,
    }
}

part! {
    /// Location of the packages.
    pub struct RepositorySpec {
        /// Description of the repository, for people.
        pub description: Option<String>,
        /// True if packages of this repository are deployed: clones get a package context, and
        /// readiness gates apply.
        pub deployment: Option<bool>,
        /// `git` or `oci`. It cannot be changed.
        #[serde(rename = "type")]
        #[schemars(extend(
            "x-kubernetes-validations" = [{"rule": "self == oldSelf", "message": "spec.type is immutable"}]
        ))]
        pub type_: Option<String>,
        /// Deprecated; `Package` is the only value.
        #[schemars(extend("crdDefault" = "Package", "x-kubernetes-validations" = [{
            "rule": "self == '' || self == 'Package'",
            "message": "The 'content' field is deprecated, its only valid value is 'Package'",
        }]))]
        pub content: Option<String>,
        /// Schedule for reading the packages again.
        pub sync: Option<RepositorySync>,
        /// Location in a git repository.
        pub git: Option<GitRepository>,
        /// Location in an OCI registry.
        pub oci: Option<OciRepository>,
        ..
    }
}

part! {
    /// Schedule for reading the packages again.
    pub struct RepositorySync {
        /// Times at which the packages are read again, as a cron expression.
        pub schedule: Option<String>,
        /// Time of a single additional read.
        #[schemars(schema_with = "schema::time")]
        pub run_once_at: Option<Time>,
    }
}

part! {
    /// Location in a git repository.
    #[schemars(extend("required" = ["repo"], "x-kubernetes-validations" = [{
        "rule": "(has(self.directory) ? self.directory : '') == (has(oldSelf.directory) ? oldSelf.directory : '')",
        "message": "spec.git.directory is immutable",
        "fieldPath": ".directory",
    }]))]
    pub struct GitRepository {
        /// Address of the repository. It cannot be changed.
        #[schemars(extend("x-kubernetes-validations" = [
            {"rule": "self == oldSelf", "message": "spec.git.repo is immutable"}
        ]))]
        pub repo: String,
        /// Branch with the published packages. It cannot be changed.
        #[schemars(length(min = 1), extend("crdDefault" = "main", "x-kubernetes-validations" = [
            {"rule": "self == oldSelf", "message": "spec.git.branch is immutable"}
        ]))]
        pub branch: Option<String>,
        /// True to create the branch if it does not exist.
        pub create_branch: Option<bool>,
        /// Folder with the packages. It cannot be changed.
        pub directory: Option<String>,
        /// Secret with credentials: user name and password, or a bearer token.
        pub secret_ref: Option<LocalObjectReference>,
        /// Name of the author of commits.
        pub author: Option<String>,
        /// Mail address of the author of commits.
        pub email: Option<String>,
        ..
    }
}

part! {
    /// Location in an OCI registry.
    #[schemars(extend("required" = ["registry"]))]
    pub struct OciRepository {
        /// Address of the registry. It cannot be changed.
        #[schemars(extend("x-kubernetes-validations" = [
            {"rule": "self == oldSelf", "message": "spec.oci.registry is immutable"}
        ]))]
        pub registry: String,
        /// Secret with credentials.
        pub secret_ref: Option<LocalObjectReference>,
        ..
    }
}

part! {
    /// State of the repository.
    pub struct RepositoryStatus {
        /// Condition: the repository can be used (`Ready`).
        #[schemars(schema_with = "schema::conditions")]
        pub conditions: List<Condition>,
        /// When all packages were read last.
        #[schemars(schema_with = "schema::time")]
        pub last_full_sync_time: Option<Time>,
        /// When all packages will be read next.
        #[schemars(schema_with = "schema::time")]
        pub next_full_sync_time: Option<Time>,
        /// Generation of the spec that was worked on last.
        pub observed_generation: Option<i64>,
        /// Value of `spec.sync.runOnceAt` that was processed last.
        #[schemars(schema_with = "schema::time")]
        pub observed_run_once_at: Option<Time>,
        /// Number of packages.
        pub package_count: Option<i32>,
        /// Commit of the branch that was read last.
        pub git_commit_hash: Option<String>,
        ..
    }
}
