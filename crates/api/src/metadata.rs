//! Names of the finalizer, labels and annotations (`installations.md` 1.6, 1.7;
//! `packagevariants.md` 1.5).

/// Finalizer on Installations, Executions, DeployItems and TargetSyncs.
pub const FINALIZER: &str = "finalizer.landscaper.gardener.cloud";

/// Annotations.
pub mod annotation {
    /// Request for an operation on an object, see [`operation`](super::operation).
    pub const OPERATION: &str = "landscaper.gardener.cloud/operation";
    /// Marks a request of the retry timer.
    pub const RECONCILE_REASON: &str = "landscaper.gardener.cloud/reconcile-reason";
    /// Value of [`RECONCILE_REASON`] that the retry timer sets.
    pub const RECONCILE_REASON_RETRY: &str = "retry";
    /// Starts a job whenever the spec of a root Installation has changed.
    pub const RECONCILE_IF_CHANGED: &str = "landscaper.gardener.cloud/reconcile-if-changed";
    /// Time at which the template of a deploy item was written.
    pub const RECONCILE_TIME: &str = "landscaper.gardener.cloud/reconcile-time";
    /// Deletes without uninstalling.
    pub const DELETE_WITHOUT_UNINSTALL: &str = "landscaper.gardener.cloud/delete-without-uninstall";
    /// Deletes even if other Installations import from this one.
    pub const DELETE_IGNORE_SUCCESSORS: &str = "landscaper.gardener.cloud/delete-ignore-successors";
    /// Makes the services ignore the object.
    pub const IGNORE: &str = "landscaper.gardener.cloud/ignore";
    /// Marks an Installation that a restore makes the services ignore, until the user releases it.
    pub const HELD: &str = "groundwork.dev/held-by-restore";
    /// `true` on a DataObject or Target of a user: an export may take it over.
    pub const ADOPT: &str = "landscaper.gardener.cloud/adopt";
    /// Decision about a DeployItem whose Target has changed to another cluster: [`MOVE`] or
    /// [`ABANDON`].
    pub const OTHER_CLUSTER: &str = "landscaper.gardener.cloud/other-cluster";
    /// Value of [`OTHER_CLUSTER`]: the next job deploys anew to the Target's current cluster.
    pub const MOVE: &str = "move";
    /// Value of [`OTHER_CLUSTER`]: the item may be deleted without access to a cluster.
    pub const ABANDON: &str = "abandon";
    /// Causes an event, without another effect.
    pub const TOUCH: &str = "landscaper.gardener.cloud/touch";
    /// Allows deployers to cache charts.
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
    /// Time at which a TargetSync last wrote the content of a Target.
    pub const LAST_TARGET_SYNC: &str = "landscaper.gardener.cloud/lasttargetsync";
    /// Renews the token of a TargetSync now; the value does not matter.
    pub const ROTATE_TOKEN: &str = "landscaper.gardener.cloud/rotate-token";
    /// Fingerprint of the payload of a DataObject or Target.
    pub const DATA_HASH: &str = "data.landscaper.gardener.cloud/hash";
    /// User who approved a package revision. An admission policy lets users write only their own
    /// name.
    pub const APPROVED_BY: &str = "groundwork/approved-by";
    /// Keeps the files of a package even if rendering fails.
    pub const PUSH_ON_RENDER_FAILURE: &str = "porch.kpt.dev/push-on-render-failure";
    /// Marks a draft on a Porch server that does not have all changes of its variant yet.
    pub const UNFINISHED: &str = "groundwork/unfinished";
    /// Upgrade of a draft that a save of its files carries out: an UpgradeTask as JSON.
    pub const UPGRADE: &str = "groundwork.dev/upgrade";
    /// Keeps the upstream of a variant, or of all variants of a set, at the last resolved revision.
    pub const PAUSE_UPSTREAM: &str = "groundwork/pause-upstream";
    /// Tag that the upstream revision in the spec of a variant or a set follows.
    pub const FOLLOW_TAG: &str = "groundwork/follow-tag";
}

/// Values of [`annotation::OPERATION`].
pub mod operation {
    /// Starts a job.
    pub const RECONCILE: &str = "reconcile";
    /// Stops the current job.
    pub const INTERRUPT: &str = "interrupt";
}

/// Labels.
pub mod label {
    /// Marks Targets and Secrets that a TargetSync keeps.
    pub const TARGET_SYNC: &str = "landscaper.gardener.cloud/targetsync";
    /// Value of [`TARGET_SYNC`].
    pub const TARGET_SYNC_OK: &str = "ok";
    /// Kind of content of a Secret that a service writes: [`HOLDS_EXPORTS`] or [`HOLDS_STATE`]. An
    /// admission policy (`k8s/admission/service-accounts.yaml`) lets services create no other
    /// Secrets, except those with [`TARGET_SYNC`].
    pub const HOLDS: &str = "groundwork.dev/holds";
    /// Value of [`HOLDS`] on the Secret with the exports of a DeployItem.
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
    /// Producer of a DataObject or Target.
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
