//! What the resolver says in the status of an Installation, and how it gets there (`components.md` 3).
//!
//! All of it is one server-side apply with the resourceVersion it was decided on. Nothing is written that says nothing new.

use groundwork_api::{ComponentVersionReference, Condition, Installation, Kind, List, ObjectMeta, Time};
use groundwork_component::{OVERWRITE_CONDITION, Reference, RepositoryContext, outdated_message};
use groundwork_controller::{ApiError, Objects};
use groundwork_lifecycle::machine::HasJob as _;
use groundwork_lifecycle::{ConditionUpdate, OverwriteChange, Resolution, merge_condition};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use tracing::Instrument;

use crate::MANAGER;

/// Type of the condition that tells whether the next job would use something else.
pub(crate) const OUTDATED_CONDITION: &str = "ComponentReferenceOutdated";
const OURS: [&str; 2] = [OVERWRITE_CONDITION, OUTDATED_CONDITION];

/// All that this service has to say about an Installation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    overwrite: OverwriteChange,
    /// `None`: there is no such condition.
    outdated: Option<ConditionUpdate>,
    /// What the job uses. `None`: it uses no component.
    reference: Option<Box<ComponentVersionReference>>,
    /// What tells its closure from others.
    closure: Option<String>,
}

/// What is known of the closure that the next job would use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NextClosure {
    /// The last job used a component that refers to nothing: its own reference tells all.
    Alone,
    /// It cannot be read just now.
    Unknown,
    Known(Option<String>),
}

const REFERENCES_OUTDATED: &str = "the next reconcile will use other versions of what the component refers to; `groundwork explain overwrites` tells which";

impl Statement {
    /// At the start of a job. `None` when nothing could be evaluated: what an earlier job said stays.
    pub(crate) fn of_job(installation: &Installation, resolution: &Resolution) -> Option<Self> {
        let overwrite = resolution.condition.clone();
        match (&resolution.reference, &overwrite) {
            (None, OverwriteChange::Keep) => None,
            (None, _) => Some(Self { overwrite, outdated: None, reference: None, closure: None }),
            (Some(substitution), _) => Some(Self {
                overwrite,
                outdated: Some(up_to_date(installation)),
                reference: Some(Box::new(written(&substitution.effective))),
                // That of the last job, until the one of this job is known.
                closure: closure_of(installation),
            }),
        }
    }

    /// Between two jobs: compares what the next one would use with what the last one used. `None` where there is nothing to
    /// compare: no job yet, one that runs, or no component in one of them.
    pub(crate) fn between_jobs(
        installation: &Installation,
        resolution: &Resolution,
        closure: &NextClosure,
    ) -> Option<Self> {
        let status = installation.status.as_ref()?;
        let job = installation.job();
        if job.id.is_empty() || job.is_running() || installation.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let reference = status.component_reference.clone()?;
        let next = &resolution.reference.as_ref()?.effective;
        let last = read(&reference);
        let outdated = match closure {
            _ if *next != last => {
                update(installation, true, "OverwriteChanged", outdated_message(next, &last))
            }
            NextClosure::Unknown => return None,
            NextClosure::Known(closure) if *closure != closure_of(installation) => {
                update(installation, true, "OverwriteChanged", REFERENCES_OUTDATED.to_owned())
            }
            NextClosure::Alone | NextClosure::Known(_) => up_to_date(installation),
        };
        let (reference, closure) = (Some(reference), closure_of(installation));
        Some(Self { overwrite: OverwriteChange::Keep, outdated: Some(outdated), reference, closure })
    }

    /// Once a job has found the closure of its component. What was said at its start stays.
    pub(crate) fn of_closure(installation: &Installation, closure: Option<String>) -> Option<Self> {
        let status = installation.status.as_ref()?;
        let reference = status.component_reference.clone()?;
        let outdated = Some(up_to_date(installation));
        Some(Self { overwrite: OverwriteChange::Keep, outdated, reference: Some(reference), closure })
    }

    /// The conditions as they should be; those of others are left alone.
    fn conditions(&self, installation: &Installation, now: &Time) -> List<Condition> {
        let status = installation.status.as_ref();
        let mut conditions = status.map(|status| status.conditions.clone()).unwrap_or_default();
        match &self.overwrite {
            OverwriteChange::Keep => {}
            OverwriteChange::Remove => remove(&mut conditions, OVERWRITE_CONDITION),
            OverwriteChange::Set(update) => merge_condition(&mut conditions, update, now),
        }
        match &self.outdated {
            None => remove(&mut conditions, OUTDATED_CONDITION),
            Some(update) => merge_condition(&mut conditions, update, now),
        }
        conditions
    }

    /// The fields to apply; `None` if the status says all of it already.
    fn part(&self, installation: &Installation, now: &Time) -> Option<Value> {
        let wanted = self.conditions(installation, now);
        let status = installation.status.as_ref();
        let current = status.map(|status| status.conditions.clone()).unwrap_or_default();
        let reference = status.and_then(|status| status.component_reference.as_ref());
        if wanted == current
            && self.reference.as_ref() == reference
            && self.closure == closure_of(installation)
        {
            return None;
        }
        let ours: Vec<&Condition> =
            wanted.iter().filter(|condition| OURS.contains(&condition.type_.as_str())).collect();
        let mut part = json!({});
        if !ours.is_empty() {
            part["conditions"] = json!(ours);
        }
        if let Some(reference) = &self.reference {
            part["componentReference"] = json!(reference);
        }
        if let Some(closure) = &self.closure {
            part["componentClosure"] = json!(closure);
        }
        Some(part)
    }

    /// The object without what should be gone, if something is still there: a field that another manager owns too does not
    /// go away by applying nothing.
    fn without_leftovers(&self, stored: &Installation) -> Option<Installation> {
        let mut cleaned = stored.clone();
        let status = cleaned.status.as_mut()?;
        if self.overwrite == OverwriteChange::Remove {
            remove(&mut status.conditions, OVERWRITE_CONDITION);
        }
        if self.outdated.is_none() {
            remove(&mut status.conditions, OUTDATED_CONDITION);
        }
        if self.reference.is_none() {
            status.component_reference = None;
        }
        if self.closure.is_none() {
            status.component_closure = None;
        }
        (cleaned.status != stored.status).then_some(cleaned)
    }

    /// Writes what is new, and returns the object as it is then.
    ///
    /// # Errors
    ///
    /// [`ApiError::Conflict`] if the object has changed since it was read; decide again.
    pub(crate) async fn write(
        &self,
        installation: Installation,
        objects: &Objects,
    ) -> Result<Installation, ApiError> {
        let now = Time(Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default());
        let Some(part) = self.part(&installation, &now) else { return Ok(installation) };
        let stored = match apply(&installation, &part, objects).await {
            // What another manager owns a part of does not go away as a whole, and a part of a condition is not valid.
            Err(ApiError::Invalid { .. }) if self.without_leftovers(&installation).is_some() => installation,
            answer => answer?,
        };
        let Some(cleaned) = self.without_leftovers(&stored) else { return Ok(stored) };
        let stored = objects.replace_status(&cleaned).await?;
        match self.part(&stored, &now) {
            Some(part) => apply(&stored, &part, objects).await,
            None => Ok(stored),
        }
    }
}

fn closure_of(installation: &Installation) -> Option<String> {
    installation.status.as_ref()?.component_closure.clone()
}

fn up_to_date(installation: &Installation) -> ConditionUpdate {
    update(installation, false, "UpToDate", "the next reconcile will use what the last one used".to_owned())
}

fn update(installation: &Installation, status: bool, reason: &str, message: String) -> ConditionUpdate {
    let update = ConditionUpdate::new(OUTDATED_CONDITION, status, reason, message);
    ConditionUpdate { observed_generation: installation.metadata.generation, ..update }
}

fn remove(conditions: &mut List<Condition>, type_name: &str) {
    if conditions.iter().any(|condition| condition.type_ == type_name) {
        conditions.to_mut().retain(|condition| condition.type_ != type_name);
    }
}

/// A reference as the status shows it.
fn written(reference: &Reference) -> ComponentVersionReference {
    ComponentVersionReference {
        repository_context: reference.repository.as_ref().map(|context| context.as_value().clone()).into(),
        component_name: reference.name.clone(),
        version: reference.version.clone(),
    }
}

fn read(reference: &ComponentVersionReference) -> Reference {
    Reference {
        repository: reference.repository_context.get().cloned().and_then(RepositoryContext::new),
        name: reference.component_name.clone(),
        version: reference.version.clone(),
    }
}

/// Server-side apply of a part of the status, with the resourceVersion that it was decided on: a late answer must not
/// overwrite that of a later job.
async fn apply(
    installation: &Installation,
    part: &Value,
    objects: &Objects,
) -> Result<Installation, ApiError> {
    let ObjectMeta { resource_version, uid, .. } = &installation.metadata;
    let (namespace, name) = (installation.namespace().unwrap_or_default(), installation.name_any());
    let patch = json!({
        "apiVersion": Installation::API_VERSION, "kind": Installation::KIND,
        "metadata": {"name": name, "namespace": namespace, "resourceVersion": resource_version, "uid": uid},
        "status": part,
    });
    let api = Api::<Installation>::namespaced(objects.client().clone(), &namespace);
    let parameters = PatchParams::apply(MANAGER).force();
    let span = tracing::info_span!(
        "api",
        otel.name = "patch installations/status",
        otel.kind = "client",
        verb = "patch",
        resource = "installations/status",
        namespace,
        name
    );
    let patch = Patch::Apply(patch);
    let request = api.patch_status(&name, &parameters, &patch).instrument(span);
    request.await.map_err(|error| {
        let resource = format!("installations/status.{} in namespace {namespace}", Installation::GROUP);
        ApiError::new(&error, "patch", &format!("installations {namespace}/{name}"), &resource)
    })
}

#[cfg(test)]
mod tests;
