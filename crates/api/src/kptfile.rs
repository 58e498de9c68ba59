//! Kptfile (packagevariants.md 1.7): the file that makes a folder a package.

use serde::Deserialize;
use serde_json::Value;

use crate::json::{List, Map};
use crate::object::part;
use crate::package_resources::FunctionResult;

/// `apiVersion` of a Kptfile.
pub const KPTFILE_API_VERSION: &str = "kpt.dev/v1";

/// Why a document is not a Kptfile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KptfileError {
    /// A version that is no longer used.
    #[error("old resource version {0:?} found in Kptfile")]
    OldVersion(String),
    /// Another kind of document.
    #[error("unknown resource type {0:?} found in Kptfile")]
    UnknownType(String),
    /// A member that Kptfiles do not have, or a value of the wrong type.
    #[error("the Kptfile cannot be read: {0}")]
    Content(String),
}

/// Declares a part of a Kptfile: as other parts, but members that are not known are errors.
macro_rules! strict {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident: $type:ty, )*
        }
    ) => {
        part! {
            $(#[$meta])*
            #[serde(deny_unknown_fields)]
            pub struct $name {
                $( $(#[$field_meta])* pub $field: $type, )*
            }
        }
    };
}

strict! {
    /// Description of a package.
    pub struct Kptfile {
        /// `kpt.dev/v1`.
        pub api_version: String,
        /// `Kptfile`.
        pub kind: String,
        /// Name of the package.
        pub metadata: KptfileMetadata,
        /// Where the package was cloned from.
        pub upstream: Option<KptfileUpstream>,
        /// Exact revision that the package was cloned from.
        pub upstream_lock: Option<UpstreamLock>,
        /// Information about the package.
        pub info: Option<PackageInfo>,
        /// Functions of the package.
        pub pipeline: Option<Pipeline>,
        /// Identity of the package in a cluster.
        pub inventory: Option<Inventory>,
        /// What was observed about the package.
        pub status: Option<KptfileStatus>,
    }
}

impl Kptfile {
    /// Reads the JSON form of a Kptfile.
    ///
    /// # Errors
    /// When it is a document of another type, or has members that a Kptfile does not have.
    pub fn from_json(document: &Value) -> Result<Self, KptfileError> {
        let text = |field: &str| document.get(field).and_then(Value::as_str).unwrap_or_default();
        match (text("apiVersion"), text("kind")) {
            (KPTFILE_API_VERSION, "Kptfile") => {
                Self::deserialize(document).map_err(|error| KptfileError::Content(error.to_string()))
            }
            (old @ ("kpt.dev/v1alpha1" | "kpt.dev/v1alpha2"), "Kptfile") => {
                Err(KptfileError::OldVersion(old.trim_start_matches("kpt.dev/").to_owned()))
            }
            (api_version, kind) => {
                // The notation of Kubernetes, which has a slash for the core group too.
                let slash = if api_version.contains('/') { "" } else { "/" };
                Err(KptfileError::UnknownType(format!("{slash}{api_version}, Kind={kind}")))
            }
        }
    }
}

strict! {
    /// Name of a package.
    #[derive(Eq)]
    pub struct KptfileMetadata {
        /// Name of the package.
        pub name: String,
        /// Namespace of the package.
        pub namespace: Option<String>,
        /// Labels of the package.
        pub labels: Map<String>,
        /// Annotations of the package.
        pub annotations: Map<String>,
    }
}

strict! {
    /// Where a package was cloned from.
    #[derive(Eq)]
    pub struct KptfileUpstream {
        /// `git`.
        #[serde(rename = "type")]
        pub type_: Option<String>,
        /// Place in a git repository.
        pub git: Option<KptfileGit>,
        /// How changes of the upstream package are merged.
        pub update_strategy: Option<String>,
    }
}

strict! {
    /// Place in a git repository.
    #[derive(Eq)]
    pub struct KptfileGit {
        /// Address of the repository.
        pub repo: Option<String>,
        /// Folder of the package.
        pub directory: Option<String>,
        /// Branch, tag or commit.
        #[serde(rename = "ref")]
        pub reference: Option<String>,
    }
}

strict! {
    /// Exact revision that a package was cloned from.
    #[derive(Eq)]
    pub struct UpstreamLock {
        /// `git` or `generic`.
        #[serde(rename = "type")]
        pub type_: Option<String>,
        /// Place in a git repository.
        pub git: Option<KptfileGitLock>,
        /// Place elsewhere.
        pub generic: Option<GenericLock>,
    }
}

strict! {
    /// Exact place in a git repository.
    #[derive(Eq)]
    pub struct KptfileGitLock {
        /// Address of the repository.
        pub repo: Option<String>,
        /// Folder of the package.
        pub directory: Option<String>,
        /// Branch or tag.
        #[serde(rename = "ref")]
        pub reference: Option<String>,
        /// Commit.
        pub commit: Option<String>,
    }
}

strict! {
    /// Exact place in some store.
    #[derive(Eq)]
    pub struct GenericLock {
        /// The store.
        #[serde(rename = "storeID")]
        pub store_id: Option<String>,
        /// The package in it.
        #[serde(rename = "resourceID")]
        pub resource_id: Option<String>,
        /// The revision of the package.
        pub resource_version: Option<String>,
    }
}

strict! {
    /// Information about a package.
    #[derive(Eq)]
    pub struct PackageInfo {
        /// Address of the package's pages.
        pub site: Option<String>,
        /// Mail addresses of the authors.
        pub emails: List<String>,
        /// License of the package.
        pub license: Option<String>,
        /// File that holds the license.
        pub license_file: Option<String>,
        /// Short description.
        pub description: Option<String>,
        /// Words to find the package by.
        pub keywords: List<String>,
        /// File that holds the manual.
        pub man: Option<String>,
        /// Conditions that have to be met before the package is published.
        pub readiness_gates: List<KptfileReadinessGate>,
    }
}

strict! {
    /// A condition that has to be met.
    #[derive(Eq)]
    pub struct KptfileReadinessGate {
        /// Type of the condition.
        pub condition_type: Option<String>,
    }
}

strict! {
    /// Functions that run over a package.
    #[derive(Eq)]
    pub struct Pipeline {
        /// Functions that change the package.
        pub mutators: List<Function>,
        /// Functions that check the package.
        pub validators: List<Function>,
    }
}

strict! {
    /// A function.
    #[derive(Eq)]
    pub struct Function {
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
    }
}

strict! {
    /// Selects resources that match in all given fields.
    #[derive(Eq)]
    pub struct Selector {
        /// Group and version.
        pub api_version: Option<String>,
        /// Kind.
        pub kind: Option<String>,
        /// Name.
        pub name: Option<String>,
        /// Namespace.
        pub namespace: Option<String>,
        /// Labels.
        pub labels: Map<String>,
        /// Annotations.
        pub annotations: Map<String>,
    }
}

strict! {
    /// Identity of a package in a cluster.
    #[derive(Eq)]
    pub struct Inventory {
        /// Namespace.
        pub namespace: Option<String>,
        /// Name.
        pub name: Option<String>,
        /// Identifier.
        #[serde(rename = "inventoryID")]
        pub inventory_id: Option<String>,
        /// Labels.
        pub labels: Map<String>,
        /// Annotations.
        pub annotations: Map<String>,
    }
}

strict! {
    /// What was observed about a package.
    pub struct KptfileStatus {
        /// Conditions.
        pub conditions: List<KptfileCondition>,
        /// Outcome of the last time that the functions ran.
        pub render_status: Option<KptfileRenderStatus>,
    }
}

strict! {
    /// A condition.
    #[derive(Eq)]
    pub struct KptfileCondition {
        /// What is observed.
        #[serde(rename = "type")]
        pub type_: String,
        /// `True`, `False` or `Unknown`.
        pub status: String,
        /// Short cause in one word, for programs.
        pub reason: Option<String>,
        /// Cause and details, for people.
        pub message: Option<String>,
    }
}

part! {
    /// Outcome of the last time that the functions of a package ran.
    pub struct KptfileRenderStatus {
        /// Results of the functions that change the package.
        pub mutation_steps: List<FunctionResult>,
        /// Results of the functions that check the package.
        pub validation_steps: List<FunctionResult>,
        /// What went wrong.
        pub error_summary: Option<String>,
        ..
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(document: &Value, expected: &str) {
        let outcome = match Kptfile::from_json(document) {
            Ok(kptfile) => {
                assert_eq!(&serde_json::to_value(&kptfile).unwrap(), document);
                kptfile.metadata.name
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(outcome, expected, "{document}");
    }

    #[test]
    fn every_field() {
        let function =
            json!({"image": "a", "configMap": {"b": "c"}, "selectors": [{"kind": "d"}], "exclude": []});
        check(
            &json!({
                "apiVersion": "kpt.dev/v1", "kind": "Kptfile",
                "metadata": {"name": "dns", "labels": {}, "annotations": {"kpt.dev/bfs-rendering": "true"}},
                "upstream": {"type": "git", "git": {"repo": "r", "directory": "d", "ref": "v1"}, "updateStrategy": "s"},
                "upstreamLock": {
                    "type": "git", "git": {"repo": "r", "directory": "d", "ref": "v1", "commit": "c"},
                    "generic": {"storeID": "a", "resourceID": "b", "resourceVersion": "c"},
                },
                "info": {
                    "site": "s", "emails": ["e"], "license": "l", "licenseFile": "f", "description": "d",
                    "keywords": [], "man": "m", "readinessGates": [{"conditionType": "c"}],
                },
                "pipeline": {"mutators": [function], "validators": [{"exec": "./x", "tag": "1", "name": "n"}]},
                "inventory": {"namespace": "a", "name": "b", "inventoryID": "c"},
                "status": {
                    "conditions": [{"type": "t", "status": "True", "reason": "r", "message": "m"}],
                    "renderStatus": {"mutationSteps": [{"image": "a", "exitCode": 0}], "errorSummary": ""},
                },
            }),
            "dns",
        );
    }

    #[test]
    fn other_documents_and_unknown_members() {
        let kptfile = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind});
        check(&kptfile("kpt.dev/v1alpha2", "Kptfile"), "old resource version \"v1alpha2\" found in Kptfile");
        check(
            &kptfile("kpt.dev/v2", "Kptfile"),
            "unknown resource type \"kpt.dev/v2, Kind=Kptfile\" found in Kptfile",
        );
        check(&kptfile("v1", "ConfigMap"), "unknown resource type \"/v1, Kind=ConfigMap\" found in Kptfile");
        let mut misspelt = kptfile("kpt.dev/v1", "Kptfile");
        misspelt["pipeline"] = json!({"mutator": []});
        check(
            &misspelt,
            "the Kptfile cannot be read: unknown field `mutator`, expected `mutators` or `validators`",
        );
    }
}
