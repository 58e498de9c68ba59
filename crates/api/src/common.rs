//! Types that several Landscaper kinds share (`installations.md` 1.0).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::List;
use crate::object::part;
use crate::schema;

part! {
    /// Names an object, possibly of another namespace.
    #[derive(Eq, Hash)]
    #[schemars(extend("required" = ["name"]))]
    pub struct ObjectReference {
        /// Name of the object.
        pub name: String,
        /// Namespace of the object.
        pub namespace: Option<String>,
    }
}

part! {
    /// Names a Secret of the same namespace, or one entry of it.
    #[derive(Eq, Hash)]
    #[schemars(extend("required" = ["name"]))]
    pub struct LocalSecretReference {
        /// Name of the Secret.
        #[schemars(length(min = 1))]
        pub name: String,
        /// Key of the entry; without it all entries are meant.
        pub key: Option<String>,
    }
}

part! {
    /// Names a ConfigMap of the same namespace, or one entry of it.
    #[derive(Eq, Hash)]
    #[schemars(extend("required" = ["name"]))]
    pub struct LocalConfigMapReference {
        /// Name of the ConfigMap.
        #[schemars(length(min = 1))]
        pub name: String,
        /// Key of the entry; without it all entries are meant.
        pub key: Option<String>,
    }
}

/// Returns the key of a reference; an empty text counts as absent (`installations.md` 1.0).
fn non_empty(key: Option<&String>) -> Option<&str> {
    key.map(String::as_str).filter(|key| !key.is_empty())
}

impl LocalSecretReference {
    /// Returns the key of the entry; `None` means all entries.
    pub fn entry(&self) -> Option<&str> {
        non_empty(self.key.as_ref())
    }
}

impl LocalConfigMapReference {
    /// Returns the key of the entry; `None` means all entries.
    pub fn entry(&self) -> Option<&str> {
        non_empty(self.key.as_ref())
    }
}

part! {
    /// Names a Secret and an entry of it.
    #[derive(Eq, Hash)]
    #[schemars(extend("required" = ["name"]))]
    pub struct SecretReference {
        /// Name of the Secret.
        pub name: String,
        /// Namespace of the Secret.
        pub namespace: Option<String>,
        /// Key of the entry.
        pub key: Option<String>,
    }
}

part! {
    /// Names an object in the same namespace.
    #[derive(Eq, Hash)]
    pub struct LocalObjectReference {
        /// Name of the object in the same namespace.
        pub name: String,
    }
}

part! {
    /// One observation about an object.
    #[schemars(extend("required" = ["type", "status", "lastTransitionTime", "lastUpdateTime", "reason", "message"]))]
    pub struct Condition {
        /// Aspect of the object that the condition is about.
        #[serde(rename = "type")]
        pub type_: String,
        /// `True`, `False`, `Unknown` or `Progressing`.
        pub status: String,
        /// When `status` changed last.
        #[schemars(schema_with = "schema::time")]
        pub last_transition_time: Option<Time>,
        /// When any field changed last.
        #[schemars(schema_with = "schema::time")]
        pub last_update_time: Option<Time>,
        /// Short cause in one word, for programs.
        pub reason: String,
        /// Cause and details, for people.
        pub message: String,
        /// Generation of the object that the condition is about; set on `Ready`, `Reconciling` and
        /// `Stalled`.
        pub observed_generation: Option<i64>,
        /// Classes of the error behind the condition.
        pub codes: List<String>,
        ..
    }
}

part! {
    /// An error that stopped an operation.
    #[schemars(extend("required" = ["operation", "lastTransitionTime", "lastUpdateTime", "reason", "message"]))]
    pub struct LastError {
        /// Operation that failed.
        pub operation: String,
        /// When `operation` changed last.
        #[schemars(schema_with = "schema::time")]
        pub last_transition_time: Option<Time>,
        /// When any field changed last.
        #[schemars(schema_with = "schema::time")]
        pub last_update_time: Option<Time>,
        /// Step that failed.
        pub reason: String,
        /// Cause and details, for people.
        pub message: String,
        /// Classes of the error, innermost first.
        pub codes: List<String>,
        ..
    }
}

part! {
    /// Times at which a job reached its stages.
    pub struct TransitionTimes {
        /// When the job was assigned.
        #[schemars(schema_with = "schema::time")]
        pub trigger_time: Option<Time>,
        /// When the first phase of the job was set.
        #[schemars(schema_with = "schema::time")]
        pub init_time: Option<Time>,
        /// When the own work was done and waiting began.
        #[schemars(schema_with = "schema::time")]
        pub wait_time: Option<Time>,
        /// When the final phase was set.
        #[schemars(schema_with = "schema::time")]
        pub finished_time: Option<Time>,
        ..
    }
}

/// Class of an error, as in `codes` (`installations.md` 1.0).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorCode {
    /// Credentials were rejected.
    Unauthorized,
    /// Resources hang in deletion.
    Cleanup,
    /// The configuration has an error.
    ConfigurationProblem,
    /// A defect in the service itself.
    InternalProblem,
    /// No deployer picked the work up in time, or the work took too long.
    Timeout,
    /// Subinstallations or deploy items depend on each other in a cycle.
    CyclicDependencies,
    /// An admission webhook is temporarily not reachable.
    Webhook,
    /// Children are still running.
    Unfinished,
    /// Information, not an error; logged at level `info`.
    ForInfoOnly,
    /// The service needs no retry timer, because an event will follow.
    NoRetry,
}

impl ErrorCode {
    /// All codes.
    pub const ALL: [Self; 10] = [
        Self::Unauthorized,
        Self::Cleanup,
        Self::ConfigurationProblem,
        Self::InternalProblem,
        Self::Timeout,
        Self::CyclicDependencies,
        Self::Webhook,
        Self::Unfinished,
        Self::ForInfoOnly,
        Self::NoRetry,
    ];

    /// Returns the code as objects have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unauthorized => "ERR_UNAUTHORIZED",
            Self::Cleanup => "ERR_CLEANUP",
            Self::ConfigurationProblem => "ERR_CONFIGURATION_PROBLEM",
            Self::InternalProblem => "ERR_INTERNAL_PROBLEM",
            Self::Timeout => "ERR_TIMEOUT",
            Self::CyclicDependencies => "ERR_CYCLIC_DEPENDENCIES",
            Self::Webhook => "ERR_WEBHOOK",
            Self::Unfinished => "ERR_UNFINISHED",
            Self::ForInfoOnly => "ERR_FOR_INFO_ONLY",
            Self::NoRetry => "ERR_NO_RETRY",
        }
    }

    /// Reports whether a retry is pointless after this code.
    pub const fn is_unrecoverable(self) -> bool {
        matches!(
            self,
            Self::Unauthorized
                | Self::ConfigurationProblem
                | Self::InternalProblem
                | Self::Timeout
                | Self::CyclicDependencies
        )
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Serialize for ErrorCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for ErrorCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl std::str::FromStr for ErrorCode {
    type Err = UnknownErrorCode;

    fn from_str(text: &str) -> Result<Self, UnknownErrorCode> {
        Self::ALL
            .into_iter()
            .find(|code| code.as_str() == text)
            .ok_or_else(|| UnknownErrorCode(text.to_owned()))
    }
}

/// Text that is not an error code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an error code; the codes are listed with the field `codes`")]
pub struct UnknownErrorCode(String);
