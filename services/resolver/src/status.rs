//! Status of an Installation as far as the resolver owns it, and its writes (`components.md` 3).
//!
//! The status is written by one server-side apply with the resourceVersion that it was decided on,
//! and only if it has changed.

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

/// Type of the condition that reports whether the next job would use another component.
pub(crate) const OUTDATED_CONDITION: &str = "ComponentReferenceOutdated";
const OURS: [&str; 2] = [OVERWRITE_CONDITION, OUTDATED_CONDITION];

/// All status fields that this service sets on an Installation.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Statement {
    overwrite: OverwriteChange,
    /// Condition to set; `None` to remove it.
    outdated: Option<ConditionUpdate>,
    /// Reference that the job uses; `None` if it uses no component.
    reference: Option<Box<ComponentVersionReference>>,
    /// Hash that identifies the closure of the component.
    closure: Option<String>,
}

/// Closure that the next job would use, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NextClosure {
    /// The last job used a component without references, so comparing the component's own reference
    /// is enough.
    Alone,
    /// The closure cannot be read at the moment.
    Unknown,
    Known(Option<String>),
}

const REFERENCES_OUTDATED: &str = "the next reconcile will use other versions of referenced components; `groundwork \
                                   explain overwrites` shows them";

impl Statement {
    /// Returns the statement at the start of a job. Returns `None` if the reference could not be
    /// resolved: the statement of an earlier job stays.
    pub(crate) fn of_job(installation: &Installation, resolution: &Resolution) -> Option<Self> {
        let overwrite = resolution.condition.clone();
        match (&resolution.reference, &overwrite) {
            (None, OverwriteChange::Keep) => None,
            (None, _) => Some(Self { overwrite, outdated: None, reference: None, closure: None }),
            (Some(substitution), _) => Some(Self {
                overwrite,
                outdated: Some(up_to_date(installation)),
                reference: Some(Box::new(written(&substitution.effective))),
                // Keep the closure of the last job until the closure of this job is known.
                closure: closure_of(installation),
            }),
        }
    }

    /// Compares the component of the next job with that of the last one, between two jobs. Returns
    /// `None` if there is no comparison: there was no job yet, a job is running, or one of the two
    /// has no component.
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

    /// Returns the statement after a job has read the closure of its component. The other fields
    /// stay as at its start.
    pub(crate) fn of_closure(installation: &Installation, closure: Option<String>) -> Option<Self> {
        let status = installation.status.as_ref()?;
        let reference = status.component_reference.clone()?;
        let outdated = Some(up_to_date(installation));
        Some(Self { overwrite: OverwriteChange::Keep, outdated, reference: Some(reference), closure })
    }

    /// Returns the conditions after the change. Conditions of other services stay unchanged.
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

    /// Returns the fields to apply; `None` if the status already contains them.
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

    /// Returns the object without the fields to remove, if any of them is left: applying nothing
    /// does not remove a field that another manager owns too.
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

    /// Writes the changes, and returns the stored object.
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
            // A condition that another manager owns in part cannot be removed by an apply: the part
            // that is left would be an invalid condition.
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
    update(
        installation,
        false,
        "UpToDate",
        "the next reconcile will use the versions of the last one".to_owned(),
    )
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

/// Returns a reference in the form of the status.
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

/// Applies a part of the status, with the resourceVersion that it was decided on: a late answer
/// must not overwrite the status of a later job.
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
