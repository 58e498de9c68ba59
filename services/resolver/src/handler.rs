//! Mapping of events to keys, and their reconcile.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use groundwork_api::{ComponentVersionOverwrites, Context, DEFAULT_CONTEXT, Installation, view};
use groundwork_bus::{Change, Index, Kind, ObjectId, Snapshot};
use groundwork_component::closure_digest;
use groundwork_controller::{ApiError, Handler, Key, Objects, ReconcileError, ReconcileRequest, Reconciled};
use groundwork_lifecycle::Resolution;
use jiff::Timestamp;

use crate::contexts::DefaultContexts;
use crate::resolution_inputs::{Depth, ResolutionInputs};
use crate::status::{NextClosure, Statement};
use crate::stores::Stores;
use crate::work::Evaluators;

/// Pause before the default Context of a new namespace is created, so that the creator of the
/// namespace can create a Context first.
const GRACE: Duration = Duration::from_secs(2);
/// Interval of the checks whether a job has ended. They read the index and send no request.
const JOB: Duration = Duration::from_secs(5);

/// Controller of default Contexts and of the condition `ComponentReferenceOutdated`.
#[derive(Debug)]
pub(crate) struct ResolverHandler {
    pub(crate) contexts: Arc<DefaultContexts>,
    pub(crate) evaluators: Evaluators,
    /// Stores, for the closures of components.
    pub(crate) stores: Stores,
}

pub(crate) fn namespaces() -> Kind {
    Kind::new("", "namespaces")
}

#[async_trait]
impl Handler for ResolverHandler {
    /// Returns the keys to reconcile: the Context `default` after a change of its namespace, and
    /// the Installations whose reference may have changed.
    fn keys(&self, object: &ObjectId, change: &Change, index: &Index) -> Vec<Key> {
        let namespace = object.namespace.as_deref().unwrap_or_default();
        if object.kind == namespaces() {
            return self.default_context(object, change).into_iter().collect();
        }
        if object.kind == Kind::of::<Context>() {
            let mut keys = users_of(namespace, &object.name, index);
            // A Context with a configured content is also corrected when it changes itself, not
            // only when its namespace does.
            if object.name == DEFAULT_CONTEXT
                && matches!(change, Change::Applied(_))
                && self.contexts.demand_of(namespace)
            {
                keys.push(object.clone());
            }
            return keys;
        }
        if object.kind == Kind::of::<ComponentVersionOverwrites>() {
            let contexts = index.of_kind(&Kind::of::<Context>(), Some(namespace));
            let naming =
                contexts.iter().filter(|(_, context)| view::Context(context).overwrites() == object.name);
            return naming.flat_map(|(context, _)| users_of(namespace, &context.name, index)).collect();
        }
        match change {
            Change::Applied(snapshot) if has_newer_spec(snapshot) => vec![object.clone()],
            Change::Applied(_) | Change::Deleted(_) => Vec::new(),
        }
    }

    /// Keeps Contexts and Installations in the index, where the users of a Context or of overwrites
    /// are found. Namespaces and overwrites are only needed as events.
    fn looks_up(&self, object: &ObjectId, _: &Snapshot) -> bool {
        object.kind == Kind::of::<Context>() || object.kind == Kind::of::<Installation>()
    }

    /// Schedules all default Contexts at the start, because the configuration may have changed.
    /// Also schedules Installations with a running job, because changes during the job may have
    /// been missed while the service was down.
    fn schedule(
        &self,
        object: &ObjectId,
        snapshot: &Snapshot,
        is_initial_sync: bool,
    ) -> Option<(Key, Timestamp)> {
        if object.kind == namespaces() {
            let key = self.default_context(object, &Change::Applied(snapshot.clone()))?;
            // The other replicas check a little later than the one that got the event, in case that
            // replica dies while it waits.
            let wait = if is_initial_sync { Duration::ZERO } else { GRACE + GRACE / 4 };
            return Some((key, Timestamp::now().checked_add(wait).ok()?));
        }
        let is_concerned =
            is_initial_sync && object.kind == Kind::of::<Installation>() && is_running(snapshot);
        is_concerned.then(|| (object.clone(), Timestamp::now()))
    }

    async fn reconcile(&self, request: ReconcileRequest<'_>) -> Result<Reconciled, ReconcileError> {
        let namespace = request.key.namespace.as_deref().unwrap_or_default();
        if let Some(words) = request.set_aside.due() {
            // A failed reconcile between jobs does no harm. So a key whose reconciles have killed
            // processes is only logged here, and the next job calls `Resolve` all the same.
            tracing::error!(key = %request.key, "{words}");
            return Ok(Reconciled::default());
        }
        if request.key.kind == Kind::of::<Context>() {
            // Wait a moment after the event of a namespace. Its creator may be about to create the
            // Context too, and `kubectl apply` of both would fail if the Context already existed. A
            // job that cannot wait gets the Context from `Resolve`.
            if !request.changed.is_empty()
                && request.objects.get::<Context>(namespace, DEFAULT_CONTEXT).await?.is_none()
            {
                return Ok(Reconciled::requeue_after(GRACE));
            }
            self.contexts.ensure(namespace, request.objects).await?;
            return Ok(Reconciled::default());
        }
        // `Resolve` writes the condition at the start of a job. Changes during the job are reported
        // after its end.
        match request.index.get(request.key) {
            Some(snapshot) if is_running(&snapshot) => return Ok(Reconciled::requeue_after(JOB)),
            Some(_) => {}
            None => return Ok(Reconciled::default()),
        }
        let Some(installation) = request.objects.get::<Installation>(namespace, &request.key.name).await?
        else {
            return Ok(Reconciled::default());
        };
        let has_references =
            installation.status.as_ref().is_some_and(|status| status.component_closure.is_some());
        let (inputs, statement) = if has_references {
            self.with_references(installation, request.objects).await?
        } else {
            let inputs = ResolutionInputs::read(installation, Depth::Reference, request.objects).await?;
            let resolution = self.evaluate(&inputs).await?;
            let statement = Statement::between_jobs(&inputs.installation, &resolution, &NextClosure::Alone);
            (inputs, statement)
        };
        let Some(statement) = statement else { return Ok(Reconciled::default()) };
        match statement.write(inputs.installation, request.objects).await {
            Ok(_) | Err(ApiError::NotFound(_)) => Ok(Reconciled::default()),
            Err(error) => Err(error.into()),
        }
    }
}

impl ResolverHandler {
    /// Returns the statement about an Installation whose component has references. This reads
    /// repositories, as the next job would.
    async fn with_references(
        &self,
        installation: Installation,
        objects: &Objects,
    ) -> Result<(ResolutionInputs, Option<Statement>), ReconcileError> {
        let inputs = ResolutionInputs::read(installation, Depth::Repositories, objects).await?;
        let stores = self.stores.fresh(inputs.namespace(), inputs.keyring());
        let resolution = self.evaluate(&inputs).await?;
        let read = move || {
            let closure = match resolution.closure(&stores) {
                Ok(versions) => NextClosure::Known(closure_digest(&versions)),
                Err(_) => NextClosure::Unknown,
            };
            let statement = Statement::between_jobs(&inputs.installation, &resolution, &closure);
            (inputs, statement)
        };
        let span = tracing::Span::current();
        let task = tokio::task::spawn_blocking(move || span.in_scope(read));
        task.await.map_err(|error| ReconcileError::new(error.to_string()))
    }

    /// Resolves the reference as the next job would.
    async fn evaluate(&self, inputs: &ResolutionInputs) -> Result<Resolution, ReconcileError> {
        self.evaluators.resolve(inputs).await.map_err(|error| ReconcileError::new(error.to_string()))
    }

    fn default_context(&self, namespace: &ObjectId, change: &Change) -> Option<Key> {
        let is_there = matches!(change, Change::Applied(snapshot) if !snapshot.is_deleting());
        let concerns = is_there && self.contexts.concern(&namespace.name);
        concerns.then(|| ObjectId::new(Kind::of::<Context>(), Some(&namespace.name), DEFAULT_CONTEXT))
    }
}

/// Returns the Installations that use a Context and have had a job.
fn users_of(namespace: &str, context: &str, index: &Index) -> Vec<Key> {
    let installations = index.of_kind(&Kind::of::<Installation>(), Some(namespace));
    let users = installations.into_iter().filter(|(_, snapshot)| {
        let installation = view::Installation(snapshot);
        installation.context() == context && installation.job().is_known() && !snapshot.is_deleting()
    });
    users.map(|(key, _)| key).collect()
}

/// Returns true if the spec has changed since the last job.
fn has_newer_spec(snapshot: &Snapshot) -> bool {
    let installation = view::Installation(snapshot);
    let job = installation.job();
    job.is_known() && !job.is_running() && !snapshot.is_deleting() && !installation.is_observed()
}

fn is_running(installation: &Snapshot) -> bool {
    view::Installation(installation).job().is_running()
}

#[cfg(test)]
mod tests;
