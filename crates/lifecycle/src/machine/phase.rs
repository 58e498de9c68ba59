//! Values of `status.phase` of Installations, Executions and DeployItems (`installations.md` 2.2 to 2.4).

pub const INIT: &str = "Init";
pub const OBJECTS_CREATED: &str = "ObjectsCreated";
/// A phase of the original; read as [`OBJECTS_CREATED`], never written.
pub const CLEANUP_ORPHANED: &str = "CleanupOrphaned";
pub const PROGRESSING: &str = "Progressing";
pub const COMPLETING: &str = "Completing";
pub const SUCCEEDED: &str = "Succeeded";
pub const FAILED: &str = "Failed";
pub const INIT_DELETE: &str = "InitDelete";
pub const TRIGGER_DELETE: &str = "TriggerDelete";
pub const DELETING: &str = "Deleting";
pub const DELETE_FAILED: &str = "DeleteFailed";
