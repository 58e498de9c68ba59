//! Names of the finalizer, labels and annotations (installations.md 1.6 and 1.7, packagevariants.md 1.5).

/// Finalizer on Installations, Executions, DeployItems and TargetSyncs.
pub const FINALIZER: &str = "finalizer.landscaper.gardener.cloud";

/// Annotations.
pub mod annotation {
    /// Request to do something with an object, see [`operation`](super::operation).
    pub const OPERATION: &str = "landscaper.gardener.cloud/operation";
    /// Tells a request of the retry timer from others.
    pub const RECONCILE_REASON: &str = "landscaper.gardener.cloud/reconcile-reason";
    /// Value of [`RECONCILE_REASON`] that the retry timer sets.
    pub const RECONCILE_REASON_RETRY: &str = "retry";
    /// Start a job whenever the spec of a root Installation has changed.
    pub const RECONCILE_IF_CHANGED: &str = "landscaper.gardener.cloud/reconcile-if-changed";
    /// When the template of a deploy item was written.
    pub const RECONCILE_TIME: &str = "landscaper.gardener.cloud/reconcile-time";
    /// Delete without uninstalling.
    pub const DELETE_WITHOUT_UNINSTALL: &str = "landscaper.gardener.cloud/delete-without-uninstall";
    /// Delete although others import from the Installation.
    pub const DELETE_IGNORE_SUCCESSORS: &str = "landscaper.gardener.cloud/delete-ignore-successors";
    /// Leave the object alone.
    pub const IGNORE: &str = "landscaper.gardener.cloud/ignore";
    /// `true` on a DataObject or Target that somebody has made by hand: an export may take it over.
    pub const ADOPT: &str = "landscaper.gardener.cloud/adopt";
    /// On a DeployItem whose Target leads to another cluster than before: [`MOVE`] or [`ABANDON`].
    pub const OTHER_CLUSTER: &str = "landscaper.gardener.cloud/other-cluster";
    /// Value of [`OTHER_CLUSTER`]: the next job begins anew in the cluster that the Target leads to now.
    pub const MOVE: &str = "move";
    /// Value of [`OTHER_CLUSTER`]: the item may go without a cluster being touched.
    pub const ABANDON: &str = "abandon";
    /// Only causes an event.
    pub const TOUCH: &str = "landscaper.gardener.cloud/touch";
    /// Deployers may cache charts.
    pub const CACHE_HELM_CHARTS: &str = "landscaper.gardener.cloud/cache-helm-charts";
    /// Name of a subinstallation inside of its parent.
    pub const SUBINSTALLATION_NAME: &str = "landscaper.gardener.cloud/subinstallation-name";
    /// Names of the items that a deploy item depends on, joined by commas.
    pub const DEPENDS_ON: &str = "execution.landscaper.gardener.cloud/dependsOn";
    /// Type of a deploy item.
    pub const DEPLOYER_TYPE: &str = "landscaper.gardener.cloud/deployer-type";
    /// Target of a deploy item.
    pub const DEPLOYER_TARGET_NAME: &str = "landscaper.gardener.cloud/deployer-target-name";
    /// Value of [`DEPLOYER_TARGET_NAME`] for an item without a Target.
    pub const NO_TARGET_NAME: &str = ".noTargetName";
    /// Cluster that a deploy item is deployed to.
    pub const CLUSTER_NAME: &str = "landscaper.gardener.cloud/clustername";
    /// When a TargetSync has written the content of a Target last.
    pub const LAST_TARGET_SYNC: &str = "landscaper.gardener.cloud/lasttargetsync";
    /// Renew the token of a TargetSync now, whatever its value is.
    pub const ROTATE_TOKEN: &str = "landscaper.gardener.cloud/rotate-token";
    /// Fingerprint of the payload of a DataObject or Target.
    pub const DATA_HASH: &str = "data.landscaper.gardener.cloud/hash";
    /// Who approved a package revision; an admission policy lets people name only themselves.
    pub const APPROVED_BY: &str = "groundwork/approved-by";
    /// Keep files of a package that cannot be rendered.
    pub const PUSH_ON_RENDER_FAILURE: &str = "porch.kpt.dev/push-on-render-failure";
    /// On a draft that a Porch server has made, until it has what its variant changes.
    pub const UNFINISHED: &str = "groundwork/unfinished";
}

/// Values of [`annotation::OPERATION`].
pub mod operation {
    /// Start a job.
    pub const RECONCILE: &str = "reconcile";
    /// Stop the current job.
    pub const INTERRUPT: &str = "interrupt";
}

/// Labels.
pub mod label {
    /// Targets and Secrets that a TargetSync keeps.
    pub const TARGET_SYNC: &str = "landscaper.gardener.cloud/targetsync";
    /// Value of [`TARGET_SYNC`].
    pub const TARGET_SYNC_OK: &str = "ok";
    /// On Secrets that services write for objects: [`HOLDS_EXPORTS`] or [`HOLDS_STATE`]. An admission policy
    /// (`k8s/admission/service-accounts.yaml`) lets them create no other Secrets but those with [`TARGET_SYNC`].
    pub const HOLDS: &str = "groundwork.dev/holds";
    /// Value of [`HOLDS`] on the Secret with what a DeployItem exports.
    pub const HOLDS_EXPORTS: &str = "exports";
    /// Value of [`HOLDS`] on the Secret with the state of an execution.
    pub const HOLDS_STATE: &str = "state";
    /// Parent of a subinstallation.
    pub const ENCOMPASSED_BY: &str = "landscaper.gardener.cloud/encompassed-by";
    /// Execution that a deploy item belongs to.
    pub const MANAGED_BY: &str = "execution.landscaper.gardener.cloud/managed-by";
    /// Name of a deploy item inside of its Execution.
    pub const DEPLOY_ITEM_NAME: &str = "execution.landscaper.gardener.cloud/name";
    /// Scope of a DataObject or Target; absent in the root scope.
    pub const DATA_CONTEXT: &str = "data.landscaper.gardener.cloud/context";
    /// Name of a DataObject or Target inside of its scope.
    pub const DATA_KEY: &str = "data.landscaper.gardener.cloud/key";
    /// Who made a DataObject or Target.
    pub const DATA_SOURCE: &str = "data.landscaper.gardener.cloud/source";
    /// `import` or `export`.
    pub const DATA_SOURCE_TYPE: &str = "data.landscaper.gardener.cloud/sourceType";
    /// Position in a target list.
    pub const DATA_INDEX: &str = "data.landscaper.gardener.cloud/index";
    /// Key in a target map.
    pub const DATA_TARGET_MAP_KEY: &str = "data.landscaper.gardener.cloud/targetmapkey";
    /// Job that wrote a DataObject or Target.
    pub const DATA_JOB_ID: &str = "data.landscaper.gardener.cloud/jobid";
    /// `true` on the newest published revision of a package.
    pub const LATEST_REVISION: &str = "kpt.dev/latest-revision";
}
