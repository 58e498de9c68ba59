//! PackageRevisionResources (`packagevariants.md` 1.6). Only an aggregated API serves this kind, so
//! it has no CRD.

use crate::json::{AnyJson, List, Map};
use crate::object::{kind, part};

kind! {
    "porch.kpt.dev" / "v1alpha1" / "packagerevisionresources"
    /// The files of a package revision.
    pub struct PackageRevisionResources {
        /// Identity of the revision, and its files.
        pub spec: PackageRevisionResourcesSpec,
        /// Outcome of the last save.
        pub status: Option<PackageRevisionResourcesStatus>,
    }
}

part! {
    /// Identity of a revision, and its files.
    pub struct PackageRevisionResourcesSpec {
        /// Path of the package in the repository.
        pub package_name: Option<String>,
        /// Name of the workspace.
        pub workspace_name: Option<String>,
        /// Number of the revision.
        pub revision: Option<i64>,
        /// Name of the Repository.
        pub repository: Option<String>,
        /// Content of the files by their paths in the package.
        pub resources: Map<String>,
        ..
    }
}

part! {
    /// Outcome of the last save.
    pub struct PackageRevisionResourcesStatus {
        /// Results of the package's functions.
        pub render_status: Option<RenderStatus>,
        ..
    }
}

part! {
    /// Results of the last run of a package's functions.
    pub struct RenderStatus {
        /// Results of the functions.
        pub result: Option<ResultList>,
        /// Error that kept the functions from running.
        pub error: Option<String>,
        ..
    }
}

part! {
    /// Results of functions.
    pub struct ResultList {
        /// 0 if all functions succeeded.
        pub exit_code: Option<i32>,
        /// One entry for each function that ran.
        pub items: List<FunctionResult>,
        ..
    }
}

part! {
    /// Result of a function.
    pub struct FunctionResult {
        /// Image of the function.
        pub image: Option<String>,
        /// Executable of the function.
        pub exec: Option<String>,
        /// Standard error of the function.
        pub stderr: Option<String>,
        /// 0 if the function succeeded.
        pub exit_code: Option<i32>,
        /// Findings of the function.
        pub results: List<ResultItem>,
        ..
    }
}

part! {
    /// A finding of a function.
    pub struct ResultItem {
        /// Text of the finding, for people.
        pub message: Option<String>,
        /// `error`, `warning` or `info`.
        pub severity: Option<String>,
        /// Resource that the finding is about.
        pub resource_ref: Option<ResourceIdentifier>,
        /// Field that the finding is about.
        pub field: Option<ResultField>,
        /// File that the finding is about.
        pub file: Option<ResultFile>,
        ..
    }
}

part! {
    /// Identity of a resource in a package.
    pub struct ResourceIdentifier {
        /// Group and version of the resource.
        pub api_version: Option<String>,
        /// Kind of the resource.
        pub kind: Option<String>,
        /// Name of the resource.
        pub name: Option<String>,
        /// Namespace of the resource.
        pub namespace: Option<String>,
        ..
    }
}

part! {
    /// Field that a finding is about.
    pub struct ResultField {
        /// Path of the field.
        pub path: Option<String>,
        /// Present value of the field.
        pub current_value: AnyJson,
        /// Value that the function proposes.
        pub proposed_value: AnyJson,
        ..
    }
}

part! {
    /// File that a finding is about.
    pub struct ResultFile {
        /// Path of the file in the package.
        pub path: Option<String>,
        /// Position of the resource in the file.
        pub index: Option<i32>,
        ..
    }
}
