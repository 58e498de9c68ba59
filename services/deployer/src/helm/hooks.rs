//! Runs the hooks of an event of a release (`helm.md` 9.4), in rounds. The record stores how far
//! each hook has come.

use groundwork_apply::{
    ApplyError, Awaited, Cluster, Deadline, Owner as ItemOwner, Waiting, Whose, held, is_being_deleted,
};
use groundwork_controller::ApiError;
use groundwork_deploy::Round;
use groundwork_helm::{HOOK_RUNS, Record};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::history::{Author, History};
use super::hook_logs;
use super::objects::{Object, Unknown, objects};

const BEFORE_CREATION: &str = "before-hook-creation";
const SUCCEEDED: &str = "hook-succeeded";
const FAILED: &str = "hook-failed";

/// Progress of a hook at an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Run {
    /// The objects of the hook are about to be created.
    Running,
    /// The objects were created. An object that no longer exists counts as done.
    Created,
    Succeeded,
    /// The hook needs no more work, its cleanup included.
    Over,
}

impl Run {
    const ALL: [(Self, &'static str); 4] = [
        (Self::Running, "Running"),
        (Self::Created, "Created"),
        (Self::Succeeded, "Succeeded"),
        (Self::Over, "Over"),
    ];

    fn of(hook: &Value, event: &str) -> Option<Self> {
        let text = hook[HOOK_RUNS][event].as_str()?;
        Self::ALL.iter().find(|(_, known)| *known == text).map(|(run, _)| *run)
    }

    fn set(self, hook: &mut Value, event: &str) {
        let text = Self::ALL.iter().find(|(run, _)| *run == self).map_or("", |(_, text)| text);
        if !hook[HOOK_RUNS].is_object() {
            hook[HOOK_RUNS] = json!({});
        }
        hook[HOOK_RUNS][event] = json!(text);
    }
}

/// Cluster of the hooks, and the history that records their progress.
#[derive(Debug)]
pub(super) struct Hooks<'r, 'c> {
    pub(super) cluster: &'c Cluster,
    pub(super) history: &'r mut History<'c>,
    pub(super) author: &'r Author,
    /// Marks of the item. Hooks carry no marks, so an object with the marks of another item is not
    /// a hook's.
    pub(super) marks: &'r ItemOwner,
    pub(super) namespace: &'r str,
    /// Deadline of the operation.
    pub(super) deadline: Deadline,
    pub(super) round: &'c Round<'c>,
}

/// Returns the indexes of the hooks of an event, in the order in which they run.
pub(super) fn of_event(record: &Record, event: &str) -> Vec<usize> {
    let has_event =
        |hook: &Value| hook["events"].as_array().is_some_and(|events| events.iter().any(|one| one == event));
    let hooks = record.hooks();
    let mut found: Vec<usize> = (0..hooks.len()).filter(|index| has_event(&hooks[*index])).collect();
    found.sort_by_key(|index| {
        let hook = &hooks[*index];
        (hook["weight"].as_i64().unwrap_or_default(), hook["name"].as_str().unwrap_or_default().to_owned())
    });
    found
}

fn has_policy(hook: &Value, policy: &str) -> bool {
    match hook["delete_policies"].as_array() {
        Some(policies) => policies.iter().any(|one| one == policy),
        // Helm's default for a hook without a policy.
        None => policy == BEFORE_CREATION,
    }
}

impl Hooks<'_, '_> {
    /// Runs the hooks of an event as far as possible. Returns the reason to wait if they are not
    /// done.
    ///
    /// # Errors
    ///
    /// A hook failed ([`ApplyError::Failed`]), its time is over, or the cluster does not answer.
    pub(super) async fn run(
        &mut self,
        record: &mut Record,
        event: &str,
    ) -> Result<Option<Waiting>, ApplyError> {
        let order = of_event(record, event);
        for &index in &order {
            if let Some(waiting) = self.advance(record, index, event, &order).await? {
                return Ok(Some(waiting));
            }
        }
        // Delete the objects of hooks in reverse order, and only after all hooks of the event have
        // succeeded.
        for &index in order.iter().rev() {
            let hook = record.hooks()[index].clone();
            if Run::of(&hook, event) == Some(Run::Over) {
                continue;
            }
            if has_policy(&hook, SUCCEEDED)
                && let Some(waiting) = self.delete_objects(&hook).await?
            {
                return Ok(Some(waiting));
            }
            Run::Over.set(&mut record.hooks_mut()[index], event);
            self.history.update(record.clone(), self.author).await?;
        }
        Ok(None)
    }

    async fn advance(
        &mut self,
        record: &mut Record,
        index: usize,
        event: &str,
        order: &[usize],
    ) -> Result<Option<Waiting>, ApplyError> {
        let hook = record.hooks()[index].clone();
        let path = hook["path"].as_str().unwrap_or_default().to_owned();
        let mut run = Run::of(&hook, event);
        if run.is_none() {
            if has_policy(&hook, BEFORE_CREATION)
                && let Some(waiting) = self.delete_objects(&hook).await?
            {
                return Ok(Some(waiting));
            }
            let hook = &mut record.hooks_mut()[index];
            hook["last_run"] =
                json!({"started_at": Timestamp::now().to_string(), "completed_at": "", "phase": "Running"});
            Run::Running.set(hook, event);
            self.history.update(record.clone(), self.author).await?;
            self.create_objects(&record.hooks()[index], event, &path, false).await?;
            run = Some(Run::Created);
        } else if run == Some(Run::Running) {
            // A process ended between writing this state and the next one, so objects that already
            // exist are the hook's own.
            self.create_objects(&hook, event, &path, true).await?;
            run = Some(Run::Created);
        }
        if run != Some(Run::Created) {
            return Ok(None);
        }
        let (state, awaited) = self.state(&record.hooks()[index]).await?;
        let hook = &mut record.hooks_mut()[index];
        match state {
            State::Done => {
                hook["last_run"]["phase"] = json!("Succeeded");
                hook["last_run"]["completed_at"] = json!(Timestamp::now().to_string());
                Run::Succeeded.set(hook, event);
                self.history.update(record.clone(), self.author).await?;
                for log in self.logs(&record.hooks()[index], SUCCEEDED).await? {
                    self.round.note("HookLog", &log).await;
                }
                Ok(None)
            }
            State::Failed(reason) => {
                let logs = self.fail(record, index, order).await?;
                Err(ApplyError::Failed(wrapped(&reason) + &logs))
            }
            State::Waiting => {
                let what = format!("helm deployer: {event} hook {path}");
                if let Err(over) = self.deadline.check(&what) {
                    self.fail(record, index, order).await?;
                    return Err(over);
                }
                if Run::of(hook, event) != Some(Run::Created) {
                    Run::Created.set(hook, event);
                    self.history.update(record.clone(), self.author).await?;
                }
                Ok(Some(Waiting { awaited: awaited.into_iter().collect(), ..what.into() }))
            }
        }
    }

    /// Ends a hook that has failed or run out of time. Its objects, and those of earlier hooks, are
    /// deleted as their policies say. Returns the logs of its containers.
    async fn fail(
        &mut self,
        record: &mut Record,
        index: usize,
        order: &[usize],
    ) -> Result<String, ApplyError> {
        let hook = &mut record.hooks_mut()[index];
        hook["last_run"]["phase"] = json!("Failed");
        hook["last_run"]["completed_at"] = json!(Timestamp::now().to_string());
        let failed = hook.clone();
        // Read the logs first: deleting the pods deletes their logs.
        let logs = self.logs(&failed, FAILED).await?.join("\n");
        if has_policy(&failed, FAILED) {
            self.delete_objects(&failed).await?;
        }
        for &earlier in order.iter().take_while(|other| **other != index) {
            let hook = record.hooks()[earlier].clone();
            if has_policy(&hook, SUCCEEDED) {
                self.delete_objects(&hook).await?;
            }
        }
        self.history.update(record.clone(), self.author).await?;
        Ok(logs)
    }

    /// Returns the last log lines of a hook's containers, if its chart asks for logs at this
    /// outcome (`helm.md` 9.4, R34).
    async fn logs(&self, hook: &Value, outcome: &str) -> Result<Vec<String>, ApplyError> {
        let policies = hook["output_log_policies"].as_array();
        if !policies.is_some_and(|policies| policies.iter().any(|policy| policy == outcome)) {
            return Ok(Vec::new());
        }
        let mut logs = Vec::new();
        for object in self.objects(hook).await? {
            logs.extend(hook_logs::of(self.cluster, &object).await);
        }
        Ok(logs)
    }

    async fn objects(&self, hook: &Value) -> Result<Vec<Object>, ApplyError> {
        let manifest = hook["manifest"].as_str().unwrap_or_default();
        objects(self.cluster, manifest, self.namespace, Unknown::IsError).await
    }

    async fn create_objects(
        &self,
        hook: &Value,
        event: &str,
        path: &str,
        is_again: bool,
    ) -> Result<(), ApplyError> {
        for object in self.objects(hook).await? {
            match self.cluster.create(&object.kind, &object.manifest).await {
                Err(ApiError::AlreadyExists(_)) if is_again => {}
                Err(ApiError::AlreadyExists(_)) => {
                    let (resource, name) = (object.kind.resource(), &object.reference.name);
                    let text = wrapped(&format!("{resource} {name:?} already exists"));
                    return Err(ApplyError::Failed(format!("warning: Hook {event} {path} failed: {text}")));
                }
                answer => drop(answer?),
            }
        }
        Ok(())
    }

    /// Deletes the objects of a hook, except definitions of resources. Returns the reason to wait
    /// while objects are left.
    async fn delete_objects(&self, hook: &Value) -> Result<Option<Waiting>, ApplyError> {
        let mut waiting: Option<Waiting> = None;
        for object in self.objects(hook).await? {
            if object.reference.kind == "CustomResourceDefinition" {
                continue;
            }
            let Some(live) = self.cluster.get_of(&object.kind, &object.reference).await? else { continue };
            if matches!(self.marks.whose(&live), Whose::Another(_)) {
                continue;
            }
            if !is_being_deleted(&live) {
                match self.cluster.delete(&object.kind, &live).await {
                    // The object has changed since it was read. The next round tries again.
                    Ok(()) | Err(ApiError::Conflict(_)) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            if let Some(left) = self.cluster.get_of(&object.kind, &object.reference).await? {
                let waiting = waiting.get_or_insert_with(|| {
                    format!(
                        "helm deployer: deletion of the hook's resource {}{}",
                        object.reference,
                        held(&left)
                    )
                    .into()
                });
                waiting.awaited.extend(Awaited::gone(self.cluster, &left).await);
            }
        }
        Ok(waiting)
    }

    /// Returns the state of a hook's objects, and the object to wait for.
    async fn state(&self, hook: &Value) -> Result<(State, Option<Awaited>), ApplyError> {
        for object in self.objects(hook).await? {
            let live = self.cluster.get_of(&object.kind, &object.reference).await?;
            match live.as_ref().map_or(State::Done, state_of) {
                State::Done => {}
                State::Waiting => {
                    let is_over = |object: &Value| state_of(object) != State::Waiting;
                    let (reference, live) = (&object.reference, live.as_ref());
                    let awaited = Awaited::object(self.cluster, reference, live, is_over).await;
                    return Ok((State::Waiting, awaited));
                }
                failed @ State::Failed(_) => return Ok((failed, None)),
            }
        }
        Ok((State::Done, None))
    }
}

/// Formats an error like the Go library with which Helm collects several errors.
fn wrapped(error: &str) -> String {
    format!("1 error occurred:\n\t* {error}\n\n")
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Done,
    Failed(String),
    Waiting,
}

fn state_of(object: &Value) -> State {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    match object["kind"].as_str().unwrap_or_default() {
        "Job" => {
            let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
            for condition in
                conditions.into_iter().flatten().filter(|condition| condition["status"] == "True")
            {
                if condition["type"] == "Complete" {
                    return State::Done;
                }
                if condition["type"] == "Failed" {
                    let reason = condition["reason"].as_str().unwrap_or_default();
                    return State::Failed(format!("job {name} failed: {reason}"));
                }
            }
            State::Waiting
        }
        "Pod" => match object.pointer("/status/phase").and_then(Value::as_str) {
            Some("Succeeded") => State::Done,
            Some("Failed") => State::Failed(format!("pod {name} failed")),
            _ => State::Waiting,
        },
        _ => State::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states() {
        let job = |kind: &str| {
            json!({"kind": "Job", "metadata": {"name": "j"}, "status": {"conditions": [
                {"type": kind, "status": "True", "reason": "BackoffLimitExceeded"}]}})
        };
        let pod = |phase: &str| json!({"kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": phase}});
        for (object, expected) in [
            (job("Complete"), State::Done),
            (job("Failed"), State::Failed("job j failed: BackoffLimitExceeded".into())),
            (job("Suspended"), State::Waiting),
            (json!({"kind": "Job"}), State::Waiting),
            (pod("Succeeded"), State::Done),
            (pod("Failed"), State::Failed("pod p failed".into())),
            (pod("Running"), State::Waiting),
            (json!({"kind": "ConfigMap"}), State::Done),
        ] {
            assert_eq!(state_of(&object), expected, "{object}");
        }
    }

    #[test]
    fn policies() {
        let none = json!({});
        assert!(has_policy(&none, BEFORE_CREATION) && !has_policy(&none, SUCCEEDED));
        let useless = json!({"delete_policies": [""]});
        assert!(!has_policy(&useless, BEFORE_CREATION));
    }
}
