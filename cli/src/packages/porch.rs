//! What people decide about package revisions on a Porch server (`packagevariants.md` 6.5, 6.13), with the rights of whoever runs the command.
//! The server answers when it is done, so nobody waits for anything.

use groundwork_api::metadata::annotation;
use groundwork_api::{Lifecycle, ResourceExt as _};
use groundwork_packages::porch::{Meaning, Porch, PorchError, Revision};

use super::revisions::{ATTEMPTS, Step, Verb, contended, missing};
use crate::live::{Cluster, LiveError};
use crate::terminal::shown;

/// The Porch server of a cluster.
pub(super) struct Server(Porch);

impl Server {
    /// The server, if package revisions of the cluster are on one.
    ///
    /// # Errors
    /// Nobody says who serves them.
    pub(super) async fn of(cluster: &Cluster) -> Result<Option<Self>, LiveError> {
        let porch = Porch::new(cluster.client.clone());
        let is_served = porch.is_served().await.map_err(|error| {
            let text = format!("cannot find out who serves package revisions: {}", shown(&error.sentence()));
            LiveError::Refused(text)
        })?;
        Ok(is_served.then_some(Self(porch)))
    }

    /// A revision with all that the server says of it.
    pub(super) async fn revision(&self, namespace: &str, name: &str) -> Result<Revision, LiveError> {
        let found = self.0.get(namespace, name).await.map_err(|error| refused(&error))?;
        found.ok_or_else(|| missing(namespace, name))
    }

    /// Decides about one; what has become of it.
    pub(super) async fn decide(
        &self,
        namespace: &str,
        name: &str,
        verb: Verb,
    ) -> Result<&'static str, LiveError> {
        for _ in 0..ATTEMPTS {
            let found = self.revision(namespace, name).await?;
            // A version does not cover the lifecycle, so each attempt decides on what it has read itself.
            let stage = found.object().spec.lifecycle();
            let stage = stage.ok_or_else(|| {
                LiveError::Refused("its lifecycle is none that this version knows: `get` shows it".to_owned())
            })?;
            let step = verb.step(stage)?;
            if verb == Verb::Propose && is_unfinished(&found) {
                let text = "its variant has not finished it: wait until the annotation groundwork/unfinished is gone, or look at the \
                            conditions of the variant";
                return Err(LiveError::Refused(text.to_owned()));
            }
            match self.take(namespace, name, verb, step, found).await {
                Ok(done) => return Ok(done.unwrap_or(stage.as_str())),
                Err(error) if is_of_the_past(&error) => {}
                // It may have been done all the same.
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

    /// Makes the call of a step; what has become of the revision, if it is another one now.
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

    /// What a step has made of a revision, if it has been taken.
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

/// Whether the revision is another one by now than was decided on.
fn is_of_the_past(error: &PorchError) -> bool {
    matches!(error.meaning, Meaning::Conflict | Meaning::DeletionNotProposed)
}

fn refused(error: &PorchError) -> LiveError {
    LiveError::Refused(shown(&error.sentence()).into_owned())
}
