//! Applies objects to a cluster for both real deployers: order, policies, writes, readiness,
//! exports and deletion (`installations.md` 7.9).
//!
//! All work is done in rounds that read the actual state ([`round`], [`delete_round`]). Results of
//! earlier rounds are known from the record that they returned, and from the cluster. A round that
//! is not the last one names the objects that the next one waits for ([`Awaited`]).

mod awaited;
mod bounds;
mod checks;
mod cluster;
mod configuration;
mod context;
mod conventions;
mod declared;
mod deletion;
mod disposal;
mod drift;
mod error;
mod exchange;
mod exports;
mod expression;
mod gate;
mod identity;
mod json_path;
mod listing;
mod object;
mod ownership;
mod prepare;
mod readiness;
mod record;
mod requirement;
mod round;
mod server_side;
mod succession;
mod update;
mod watch;

pub use awaited::{Awaited, Waiting};
pub use bounds::Answers;
pub use checks::{Unready, failed_check, unready};
pub use cluster::{Cluster, PatchKind, ResourceKind, Versions};
pub use configuration::{
    CustomCheck, CustomGroup, DeletionGroup, Export, Exports, FromObjectRef, LabelSelector, Manifest, Policy,
    PredefinedGroup, PredefinedKind, ReadinessChecks, ReadinessRules, Requirement, RequirementValue,
    ResourceType, UpdateStrategy, null_is_default, problems, target_names,
};
pub use context::{Deadline, OtherClusters, Seen};
pub use conventions::{Standing, standing};
pub use declared::create_declared;
pub use deletion::{Deleted, Deletion, delete_round, held};
pub use disposal::{Disposal, Disposed, Surplus, Told};
pub use drift::{
    Difference, Drift, DriftCheck, DriftMode, DriftReport, FieldChange, FieldChangeKind, Finding, Findings,
    IgnoreRule, Manifested, Suspect, Wanted, wanted,
};
pub use error::ApplyError;
pub use exports::{Exported, nested, one, read_exports};
pub use groundwork_client::answer::Held;
pub use identity::{ClusterIdentity, Server};
pub use json_path::{JsonPath, JsonPathError};
pub use listing::{ListPages, Page};
pub use object::{Reference, is_being_deleted, set_metadata};
pub use ownership::{
    Giver, HELM_ITEM, Heir, MANAGED_BY, MANIFEST_ITEM, Marked, Owner, RELEASE_NAME, RELEASE_NAMESPACE,
    ReleaseName, Whose, release_of,
};
pub use prepare::expand;
pub use readiness::has_condition;
pub use record::{Applied, ManagedResource, fitting};
pub use round::{Progress, Round, Task, round};
pub use server_side::{ServerSideApply, server_side_apply};
pub use succession::{Fate, GivenUp, Succession};
pub use watch::{Scope, Selector, WatchEvent, WatchEvents};
