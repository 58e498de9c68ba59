//! Errors of a variant, and their effect on conditions and retries (`packagevariants.md` 2.10,
//! 2.11, 2.14).

use std::time::Duration;

use groundwork_api::{MetaCondition, Time};

use crate::status::{Observed, conditions};
use crate::upstream::Unresolved;

/// Reason why a variant is not done. The text is the message of its condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VariantError {
    /// The spec is invalid; the list contains all broken rules.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    #[error(transparent)]
    Upstream(#[from] Unresolved),
    #[error(
        "`clone` cannot create a new revision for package {package:?} that already exists in repo {repo:?}; make subsequent \
         revisions using `copy`"
    )]
    DownstreamExists { package: String, repo: String },
    #[error("downstream {downstream:?} is Proposed; approve or reject it to let changes be applied")]
    DownstreamProposed { downstream: String },
    /// An older variant makes the same package.
    #[error("package {package:?} in repo {repo:?} belongs to package variant {other:?}")]
    DownstreamContended { package: String, repo: String, other: String },
    #[error("package revision {downstream:?} is controlled by {kind} {name:?}")]
    AdoptionConflict { downstream: String, kind: String, name: String },
    #[error("cannot find the upstream revision {reference:?} that {downstream:?} was based on")]
    UpgradeBaseMissing { reference: String, downstream: String },
    #[error("cannot update {downstream:?} to {upstream:?}: {cause}")]
    UpgradeFailed { downstream: String, upstream: String, cause: String },
    /// Message of `packagevariants.md` 3.1.
    #[error("{0}")]
    PackageContext(String),
    /// Message of `packagevariants.md` 3.3.
    #[error("{0}")]
    Pipeline(String),
    /// Message of `packagevariants.md` 3.4.
    #[error("{0}")]
    Injection(String),
    /// `downstream` is the name of the Draft, or the name that it would get.
    #[error("cannot render {downstream:?}: {cause}")]
    RenderFailed { downstream: String, cause: String },
    /// `retry_after` is the pause that the store asks for.
    #[error("the package store cannot be used: {cause}")]
    StoreUnavailable { cause: String, retry_after: Option<Duration> },
    /// No server serves package revisions.
    #[error(
        "package revisions are not drafted: no package store is configured; start the variant service with \
         --package-store or --porch"
    )]
    NoStore,
    /// Names of the revisions, each with the reason why it cannot be deleted.
    #[error("{}", deletions(.0))]
    DeletionBlocked(Vec<(String, String)>),
    /// A write was based on an outdated state.
    #[error("{0}")]
    Conflict(String),
    /// The store will never accept this write.
    #[error("{0}")]
    Rejected(String),
    /// The variant was set aside, because processes of the service died while they reconciled it.
    #[error("{0}")]
    SetAside(String),
    #[error("{0}")]
    Other(String),
}

fn deletions(blocked: &[(String, String)]) -> String {
    let texts: Vec<String> =
        blocked.iter().map(|(name, cause)| format!("cannot delete {name:?}: {cause}")).collect();
    texts.join("; ")
}

/// Time of the next attempt (`packagevariants.md` 2.11). An event about the variant always triggers
/// an attempt as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Retry {
    /// After a change of the spec.
    Never,
    /// After a change of an object that the variant depends on.
    Events,
    /// After a pause that doubles with each failure, from `first` to `longest`.
    Backoff { first: Duration, longest: Duration },
    /// After this time.
    After(Duration),
    /// At once for the given number of attempts, and then after the pause.
    Immediate { attempts: u32, pause: Duration },
}

impl Retry {
    const fn backoff(first: u64, longest: u64) -> Self {
        Self::Backoff { first: Duration::from_secs(first), longest: Duration::from_secs(longest) }
    }

    /// Returns the pause after a number of failures in a row, including the last one; `None` if no
    /// time is set.
    pub fn delay(self, failures: u32) -> Option<Duration> {
        let failures = failures.max(1);
        match self {
            Self::Never | Self::Events => None,
            Self::Backoff { first, longest } => {
                let factor = 2u32.saturating_pow(failures - 1);
                Some(first.saturating_mul(factor).min(longest))
            }
            Self::After(pause) => Some(pause),
            Self::Immediate { attempts, pause } => {
                Some(if failures <= attempts { Duration::ZERO } else { pause })
            }
        }
    }
}

impl VariantError {
    /// Returns the reason for conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "ValidationError",
            Self::Upstream(unresolved) => unresolved.reason(),
            Self::DownstreamExists { .. } => "DownstreamExists",
            Self::DownstreamProposed { .. } => "DownstreamProposed",
            Self::DownstreamContended { .. } => "DownstreamContended",
            Self::AdoptionConflict { .. } => "AdoptionConflict",
            Self::UpgradeBaseMissing { .. } => "UpgradeBaseMissing",
            Self::UpgradeFailed { .. } => "UpgradeFailed",
            Self::PackageContext(_) => "PackageContextError",
            Self::Pipeline(_) => "PipelineError",
            Self::Injection(_) => "InjectionError",
            Self::RenderFailed { .. } => "RenderFailed",
            Self::StoreUnavailable { .. } | Self::NoStore => "StoreUnavailable",
            Self::DeletionBlocked(_) => "DeletionBlocked",
            Self::SetAside(_) => "SetAside",
            Self::Conflict(_) | Self::Rejected(_) | Self::Other(_) => "Error",
        }
    }

    /// Reports whether the variant is stalled: it cannot continue before a user changes an object.
    pub fn is_stalled(&self) -> bool {
        matches!(self, Self::Invalid(_) | Self::Upstream(_) | Self::SetAside(_))
    }

    /// Returns the time of the next attempt.
    pub fn retry(&self) -> Retry {
        match self {
            Self::Invalid(_) | Self::SetAside(_) => Retry::Never,
            Self::DownstreamExists { .. }
            | Self::DownstreamProposed { .. }
            | Self::DownstreamContended { .. }
            | Self::AdoptionConflict { .. }
            | Self::UpgradeBaseMissing { .. }
            | Self::UpgradeFailed { .. }
            | Self::PackageContext(_)
            | Self::Pipeline(_)
            | Self::Injection(_)
            | Self::Rejected(_) => Retry::Events,
            Self::Upstream(_) | Self::DeletionBlocked(_) | Self::Other(_) => Retry::backoff(1, 300),
            Self::RenderFailed { .. } => Retry::backoff(30, 1800),
            Self::StoreUnavailable { retry_after: Some(pause), .. } => Retry::After(*pause),
            Self::StoreUnavailable { retry_after: None, .. } | Self::NoStore => Retry::backoff(1, 60),
            Self::Conflict(_) => Retry::Immediate { attempts: 5, pause: Duration::from_secs(1) },
        }
    }
}

/// Returns the earliest next attempt of all errors; `None` without errors.
pub fn retry(errors: &[VariantError]) -> Option<Retry> {
    let eager = |retry: &Retry| (retry.delay(1).is_some(), std::cmp::Reverse(retry.delay(1)), *retry);
    errors.iter().map(VariantError::retry).max_by_key(eager)
}

/// Returns the conditions of a variant after an attempt. The message lists the errors in the order
/// of the revisions, or the notes if there are no errors. The reason is that of the first error.
pub fn variant_conditions(
    before: &[MetaCondition],
    errors: &[VariantError],
    notes: &[String],
    generation: Option<i64>,
    now: &Time,
) -> Vec<MetaCondition> {
    let texts: Vec<String> = match errors {
        [] => ["successfully ensured downstream package variant".to_owned()]
            .into_iter()
            .chain(notes.iter().cloned())
            .collect(),
        errors => errors.iter().map(ToString::to_string).collect(),
    };
    let message = &texts.join("; ");
    let observed = match errors.iter().find(|error| error.is_stalled()).or(errors.first()) {
        None => Observed::Ready { reason: "NoErrors", message },
        Some(error) if error.is_stalled() => {
            let ready = match error {
                VariantError::SetAside(_) => None,
                _ => Some(("Error", "invalid packagevariant object")),
            };
            Observed::Stalled { reason: error.reason(), message, ready }
        }
        Some(error) => Observed::NotReady { reason: error.reason(), message },
    };
    conditions(before, &observed, generation, now)
}

#[cfg(test)]
mod tests;
