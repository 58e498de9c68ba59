//! Decisions about package revisions (`packagevariants.md` 6.5, 6.13), with the user's permissions.
//! The server answers when the work is done, so no command has to poll.

use groundwork_api::metadata::annotation;
use groundwork_api::{Lifecycle, ResourceExt as _};
use groundwork_packages::porch::{Meaning, Porch, PorchError, Revision};

use super::revisions::{ATTEMPTS, Step, Verb, contended, missing};
use crate::live::{Cluster, LiveError};
use crate::terminal::shown;

/// Server of the package revisions of a cluster: a Porch server, or our package store.
pub(super) struct Server(Porch);

impl Server {
    /// Returns the server.
    ///
    /// # Errors
    /// No server serves package revisions, or the API server does not tell.
    pub(super) async fn of(cluster: &Cluster) -> Result<Self, LiveError> {
        let porch = Porch::new(cluster.client.clone());
        let is_served = porch.is_served().await.map_err(|error| {
            let text = format!(
                "cannot find out which server serves package revisions: {}",
                shown(&error.sentence())
            );
            LiveError::Refused(text)
        })?;
        let nobody = "no server serves package revisions in this cluster: start Groundwork with a package store, or install Porch";
        if is_served { Ok(Self(porch)) } else { Err(LiveError::Refused(nobody.to_owned())) }
    }

    /// Reads a revision with everything that the server has about it.
    pub(super) async fn revision(&self, namespace: &str, name: &str) -> Result<Revision, LiveError> {
        let found = self.0.get(namespace, name).await.map_err(|error| refused(&error))?;
        found.ok_or_else(|| missing(namespace, name))
    }

    /// Takes a decision about a revision, and returns the result for the user.
    pub(super) async fn decide(
        &self,
        namespace: &str,
        name: &str,
        verb: Verb,
    ) -> Result<&'static str, LiveError> {
        for _ in 0..ATTEMPTS {
            let found = self.revision(namespace, name).await?;
            // Porch does not check the resourceVersion when the lifecycle changes, so each attempt
            // decides on what it has just read.
            let stage = found.object().spec.lifecycle();
            let stage = stage.ok_or_else(|| {
                LiveError::Refused(
                    "this version of groundwork does not know the lifecycle of the package revision; `packages get` \
                     shows it"
                        .to_owned(),
                )
            })?;
            let step = verb.step(found.object(), stage)?;
            if verb == Verb::Propose && is_unfinished(&found) {
                let text = "its package variant is still writing it: wait until the annotation groundwork/unfinished \
                            is removed, or look at the conditions of the variant";
                return Err(LiveError::Refused(text.to_owned()));
            }
            match self.take(namespace, name, verb, step, found).await {
                Ok(done) => return Ok(done.unwrap_or(stage.as_str())),
                Err(error) if is_of_the_past(&error) => {}
                // The server may have done the step without an answer; look before failing.
                Err(error) if error.is_unanswered => {
                    return match self.is_done(namespace, name, step).await {
                        Some(done) => Ok(done),
                        None => Err(refused(&error)),
                    };
                }
                Err(error) => return Err(refused(&error)),
            }
        }
        Err(contended())
    }

    /// Calls the server for a step. Returns the result if the revision has changed by it.
    async fn take(
        &self,
        namespace: &str,
        name: &str,
        verb: Verb,
        step: Step,
        found: Revision,
    ) -> Result<Option<&'static str>, PorchError> {
        match step {
            Step::Nothing => return Ok(None),
            Step::Delete => self.0.delete(namespace, name).await?,
            Step::Move(to) => {
                let changed = found.with_lifecycle(to);
                let needs_approval = matches!(verb, Verb::Approve | Verb::Reject);
                drop(match needs_approval {
                    true => self.0.decide(&changed).await?,
                    false => self.0.replace(&changed).await?,
                });
            }
        }
        Ok(Some(done(step)))
    }

    /// Returns the result of a step if the server has done it.
    async fn is_done(&self, namespace: &str, name: &str, step: Step) -> Option<&'static str> {
        let found = self.0.get(namespace, name).await.ok()?;
        let is_done = match (found, step) {
            (None, Step::Delete) => true,
            (Some(found), Step::Move(to)) => found.object().spec.lifecycle() == Some(to),
            _ => false,
        };
        is_done.then_some(done(step))
    }
}

fn done(step: Step) -> &'static str {
    match step {
        Step::Move(to) => to.as_str(),
        Step::Delete => "deleted",
        Step::Nothing => "",
    }
}

fn is_unfinished(found: &Revision) -> bool {
    let is_draft = found.object().spec.lifecycle() == Some(Lifecycle::Draft);
    is_draft && found.object().annotations().contains_key(annotation::UNFINISHED)
}

/// Reports whether an error means that the revision has changed since it was read.
fn is_of_the_past(error: &PorchError) -> bool {
    matches!(error.meaning, Meaning::Conflict | Meaning::DeletionNotProposed)
}

fn refused(error: &PorchError) -> LiveError {
    LiveError::Refused(shown(&error.sentence()).into_owned())
}
