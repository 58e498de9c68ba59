//! Rules for the objects that a TargetSync (`installations.md` 1.5) keeps in its namespace, without
//! access to clusters.
//!
//! ```text
//! selection(spec) ──> names of Secrets or Shoots of the source ──> Mirror
//! Mirror ──write(Home)──> Write: Secret, then Target
//!        └──> obsolete(Home): existing objects that are no longer wanted
//! ```

mod mirror;
mod token;

use std::time::Duration;

use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::metadata::annotation;
use groundwork_api::{TargetSync, TargetSyncSpec, Time};
use groundwork_go::regexp::{self, Pattern};

pub use mirror::{
    Home, KUBECONFIG, KUBERNETES_CLUSTER, Mirror, Obsolete, Write, everything, is_due, obsolete,
    target_to_source, write,
};
pub use token::{Account, TokenError, account, with_token};

/// Time after which the source is read again even without a change in this cluster.
pub const ROUND: Duration = Duration::from_secs(5 * 60);
/// Seconds that the kubeconfig of a Shoot is valid.
pub const SHOOT_LIFE: i64 = 24 * 3600;
/// Age at which the kubeconfig of a Shoot is renewed.
const SHOOT_RENEWAL: Duration = Duration::from_secs(12 * 3600);
/// Seconds that a renewed token is valid.
pub const TOKEN_LIFE: i64 = 90 * 24 * 3600;
/// Age at which a token is renewed.
const TOKEN_RENEWAL: Duration = Duration::from_secs(60 * 24 * 3600);
/// Number of errors kept in a status.
const KEPT_ERRORS: usize = 20;

/// Error in the spec of a TargetSync.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpecError {
    #[error(
        "spec.secretNameExpression and spec.shootNameExpression are both set: a TargetSync mirrors Secrets or gets kubeconfigs of \
         Shoots; remove one of them"
    )]
    Both,
    #[error("{field} is not a valid regular expression: {problem}; write `*` for all names")]
    Expression { field: &'static str, problem: String },
    #[error("spec.sourceNamespace {0:?} cannot be the name of a namespace")]
    Namespace(String),
    #[error("spec.targetToSourceName {0:?} cannot be the name of a Target")]
    TargetName(String),
}

/// Objects of the source cluster that get a Target.
#[derive(Debug, Clone)]
pub enum Selection {
    Nothing,
    Secrets(Names),
    Shoots(Names),
}

/// Filter for names of Secrets or Shoots.
#[derive(Debug, Clone)]
pub struct Names(Option<Pattern>);

/// Limit for the parts of an expression (see [`regexp::parts`]). `[a-z0-9-]{1,253}` has 759.
const MOST_PARTS: usize = 3_000;

impl Names {
    fn parse(field: &'static str, expression: &str) -> Result<Self, SpecError> {
        if expression == "*" {
            return Ok(Self(None));
        }
        let failed = |problem| SpecError::Expression { field, problem };
        // The service itself searches all names of a namespace with this expression, so its cost is
        // bounded.
        if regexp::reading_parts(expression).max(regexp::parts(expression)) > MOST_PARTS {
            return Err(failed(
                "it is too large: use fewer character classes, or repeat them less often".to_owned(),
            ));
        }
        Pattern::compile(expression).map(|pattern| Self(Some(pattern))).map_err(failed)
    }

    /// Reports whether the expression matches a name or a part of it.
    pub fn has(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|pattern| pattern.regex().is_match(name))
    }
}

/// Returns the selection of a TargetSync. Expressions are RE2. `*` selects all names, and an empty
/// text selects none (`installations.md` 1.5).
///
/// # Errors
///
/// The spec is invalid. The TargetSync does nothing until a user corrects its spec.
pub fn selection(spec: &TargetSyncSpec) -> Result<Selection, SpecError> {
    if !is_dns_subdomain(&spec.source_namespace) {
        return Err(SpecError::Namespace(spec.source_namespace.clone()));
    }
    if let Some(name) = spec.target_to_source().filter(|name| !is_dns_subdomain(name)) {
        return Err(SpecError::TargetName(name.to_owned()));
    }
    let given = |expression: &Option<String>| expression.clone().filter(|expression| !expression.is_empty());
    match (given(&spec.secret_name_expression), given(&spec.shoot_name_expression)) {
        (None, None) => Ok(Selection::Nothing),
        (Some(_), Some(_)) => Err(SpecError::Both),
        (Some(secrets), None) => Names::parse("spec.secretNameExpression", &secrets).map(Selection::Secrets),
        (None, Some(shoots)) => Names::parse("spec.shootNameExpression", &shoots).map(Selection::Shoots),
    }
}

/// Returns warnings about fields that have no effect.
pub fn without_effect(sync: &TargetSync) -> Vec<&'static str> {
    let asks =
        sync.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation::ROTATE_TOKEN));
    let names = sync.spec.target_to_source_name.as_ref().is_some_and(|name| !name.is_empty());
    let is_made = sync.spec.target_to_source().is_some();
    let parts = [
        (
            asks && !sync.spec.rotates_token(),
            "the annotation rotate-token has no effect unless spec.tokenRotation.enabled is true",
        ),
        (names && !is_made, "spec.targetToSourceName has no effect unless spec.createTargetToSource is true"),
    ];
    parts.into_iter().filter_map(|(is_there, text)| is_there.then_some(text)).collect()
}

/// Reports whether the token of the source must be renewed now: at once, every 60 days, and on a
/// user's request (`installations.md` 1.5).
pub fn token_is_due(sync: &TargetSync, now: &Time) -> bool {
    let renewed = sync.status.as_ref().and_then(|status| status.last_token_rotation_time.as_ref());
    let is_asked_for =
        sync.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(annotation::ROTATE_TOKEN));
    sync.spec.rotates_token()
        && (is_asked_for || renewed.is_none_or(|last| is_over(last, TOKEN_RENEWAL, now)))
}

/// Reports whether `time` has passed since `since`.
fn is_over(since: &Time, time: Duration, now: &Time) -> bool {
    Duration::try_from(now.0.duration_since(since.0)).is_ok_and(|passed| passed > time)
}

/// Returns the TargetSync with the result of a round in its status, or `None` if the status needs
/// no write.
///
/// Failed rounds repeat quickly, so a failure that equals the previous one is written again only
/// after a full interval.
pub fn concluded(
    sync: &TargetSync,
    errors: &[String],
    rotated: Option<&Time>,
    now: &Time,
) -> Option<TargetSync> {
    let mut errors: Vec<String> =
        errors.iter().map(|error| crate::message::bounded(error).into_owned()).collect();
    if errors.len() > KEPT_ERRORS {
        let more = errors.len() - KEPT_ERRORS;
        errors.truncate(KEPT_ERRORS);
        errors.push(format!("and {more} more errors, which are in the log"));
    }
    let before = sync.status.clone().unwrap_or_default();
    let generation = sync.metadata.generation.unwrap_or_default();
    let is_old = before.last_update_time.as_ref().is_none_or(|last| is_over(last, ROUND, now));
    let is_same = before.observed_generation == generation && before.last_errors[..] == errors[..];
    if is_same && !errors.is_empty() && !is_old && rotated.is_none() {
        return None;
    }
    let mut sync = sync.clone();
    let status = sync.status.get_or_insert_default();
    status.observed_generation = generation;
    status.last_update_time = Some(now.clone());
    status.last_errors =
        if errors.is_empty() { groundwork_api::List::absent() } else { groundwork_api::List::from(errors) };
    if let Some(rotated) = rotated {
        status.last_token_rotation_time = Some(rotated.clone());
    }
    Some(sync)
}

/// Returns the name of a Shoot from the address of its API server, `https://api.NAME.…`.
pub fn shoot_of_server(server: &str) -> Option<&str> {
    let (name, rest) = server.strip_prefix("https://api.")?.split_once('.')?;
    (is_dns_subdomain(name) && !rest.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests;
