//! Results and failures of the reconcile of a variant's package (`packagevariants.md` 2.10).

use groundwork_api::metadata::annotation;
use groundwork_api::{
    DownstreamTarget, InjectionSource, PackageRevision, RenderStatus, ResolvedUpstream, ResourceExt as _,
};
use groundwork_controller::{ApiError, ReconcileError};
use groundwork_fleet::VariantError;
use groundwork_packages::git::StoreError;

use crate::inputs::Selected;

/// Findings and actions of a reconcile so far. The status shows them even if the reconcile fails.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) upstream: Option<ResolvedUpstream>,
    pub(crate) targets: Option<Vec<DownstreamTarget>>,
    /// New draft whose making has begun and not ended yet.
    pub(crate) begun: Option<DownstreamTarget>,
    pub(crate) sources: Vec<InjectionSource>,
    /// Kinds of the injection points in its packages, to be watched.
    pub(crate) kinds: Vec<Selected>,
    pub(crate) errors: Vec<VariantError>,
    /// Notes for users that are not failures.
    pub(crate) notes: Vec<String>,
}

impl Progress {
    /// Records an injected object. Mutations run more than once, and the last read counts.
    pub(super) fn read(&mut self, source: InjectionSource) {
        let is_other = |known: &InjectionSource| {
            (&known.api_version, &known.kind, &known.name)
                != (&source.api_version, &source.kind, &source.name)
        };
        self.sources.retain(is_other);
        self.sources.push(source);
    }
}

/// Reason why a reconcile ends early.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A problem that the conditions report. The target of a failed rendering reports more
    /// (`packagevariants.md` 8.1).
    Told(VariantError, Option<Box<RenderStatus>>),
    /// A problem that a retry may solve, and that the status does not report.
    Retry(ReconcileError),
}

impl From<VariantError> for Failure {
    fn from(error: VariantError) -> Self {
        Self::Told(error, None)
    }
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Retry(error.into())
    }
}

/// Maps an error of the store to a failure of the variant (`packagevariants.md` 2.10). `revision`
/// is the revision that the operation used.
pub(super) fn told(error: &StoreError, revision: &str) -> Failure {
    let cause = error.to_string();
    let told = match error {
        StoreError::Conflict | StoreError::AlreadyExists(_) => {
            return Failure::Retry(ReconcileError { message: cause, is_conflict: true });
        }
        StoreError::Render { status, .. } => {
            let error = VariantError::RenderFailed { downstream: revision.to_owned(), cause };
            return Failure::Told(error, Some(status.clone()));
        }
        StoreError::Unavailable(_) | StoreError::Interrupted => {
            VariantError::StoreUnavailable { cause, retry_after: None }
        }
        StoreError::Refused(_) => VariantError::Rejected(cause),
        StoreError::DownstreamExists(_) | StoreError::Merge(_) | StoreError::NotFound(_) => {
            VariantError::Other(cause)
        }
    };
    told.into()
}

/// Reports whether a draft accepts content that failed to render.
pub(super) fn keeps_failures(draft: &PackageRevision) -> bool {
    draft.annotations().get(annotation::PUSH_ON_RENDER_FAILURE).is_some_and(|value| value == "true")
}
