//! What jobs compute: their inputs are read, the work is done beside the runtime, and what came out is for the state machine.

use std::sync::Arc;

use groundwork_api::{ComponentVersionOverwrites, Context, ErrorCode, Installation};
use groundwork_blueprint::States;
use groundwork_component::{OVERWRITE_CONDITION, Repositories};
use groundwork_controller::{Objects, WorkError, Workers};
use groundwork_lifecycle::machine::Tree;
use groundwork_lifecycle::{
    Completion, Inputs, ObjectSet, OperationError, Prepared, UnreadStates, complete, living_scope, prepare,
};
use groundwork_proto::component::v1::ObjectName;
use groundwork_registry::RepositoryMap;

use crate::blueprints::Blueprints;
use crate::components::{Components, RemoteRepositories};
use crate::handler::{AttemptError, resolve_failed};
use crate::inputs;

/// Renders for jobs.
pub(crate) struct Renderings {
    pub(crate) components: Option<Components>,
    pub(crate) workers: Workers,
    pub(crate) blueprints: Blueprints,
}

/// Everything that one job reads.
pub(crate) struct Material {
    pub(crate) installation: Installation,
    scope: String,
    context: Option<Context>,
    overwrites: Option<ComponentVersionOverwrites>,
    objects: ObjectSet,
    /// Where components come from; absent where the Installation names none.
    remote: Option<RemoteRepositories>,
    nowhere: RepositoryMap,
}

impl Material {
    /// What an Installation names, with the Context that has been found for it.
    pub(crate) async fn read(
        installation: Installation,
        context: Option<Context>,
        overwrites: Option<ComponentVersionOverwrites>,
        remote: Option<RemoteRepositories>,
        objects: &Objects,
    ) -> Result<Self, groundwork_controller::ApiError> {
        let imported = inputs::fetch(&installation, context.as_ref(), objects).await?;
        Ok(Self {
            scope: living_scope(&installation),
            installation,
            context,
            overwrites,
            objects: imported,
            remote,
            nowhere: RepositoryMap::empty("the resolver's repositories.yaml"),
        })
    }

    pub(crate) fn with_inputs<T>(
        &self,
        states: Option<&States>,
        blueprints: &Blueprints,
        job: impl FnOnce(&Inputs<'_>) -> T,
    ) -> T {
        job(&Inputs {
            installation: &self.installation,
            context: self.context.as_ref(),
            overwrites: self.overwrites.as_ref(),
            objects: &self.objects,
            repositories: match &self.remote {
                Some(remote) => remote as &dyn Repositories,
                None => &self.nowhere,
            },
            blueprint: None,
            capabilities: &inputs::capabilities(),
            scope: &self.scope,
            states,
            cache: Some(blueprints),
            offline: None,
            signatures: None,
        })
    }

    /// Why the answers of the resolver cannot be relied on, if they cannot.
    pub(crate) fn unavailable(&self) -> Option<String> {
        self.remote.as_ref().and_then(RemoteRepositories::unavailable)
    }
}

impl Renderings {
    /// Reads the inputs of a job and renders.
    pub(crate) async fn prepare(&self, tree: &mut Tree, objects: &Objects) -> Result<Prepared, AttemptError> {
        match self.gather(tree, objects).await? {
            Ok(material) => {
                let installation = material.installation.clone();
                match self.run(material, objects, prepare).await? {
                    Ok(prepared) => Ok(prepared),
                    Err(error) => Ok(Prepared::failed(&installation, error)),
                }
            }
            Err((installation, error)) => Ok(Prepared::failed(&installation, error)),
        }
    }

    /// Reads the inputs of a job and what lies in the own scope, and renders the exports.
    pub(crate) async fn complete(
        &self,
        tree: &mut Tree,
        objects: &Objects,
    ) -> Result<Completion, AttemptError> {
        let own = Arc::new(inputs::own_scope(tree, objects).await?);
        match self.gather(tree, objects).await? {
            Ok(material) => {
                let installation = material.installation.clone();
                let job = move |inputs: &Inputs<'_>| complete(inputs, &own);
                match self.run(material, objects, job).await? {
                    Ok(completion) => Ok(completion),
                    Err(error) => Ok(Completion::failed(&installation, error)),
                }
            }
            Err((installation, error)) => Ok(Completion::failed(&installation, error)),
        }
    }

    /// Everything that the job of a tree reads, or why it fails before.
    async fn gather(
        &self,
        tree: &mut Tree,
        objects: &Objects,
    ) -> Result<Result<Material, (Installation, OperationError)>, AttemptError> {
        let installation = tree.installation.get().cloned().unwrap_or_default();
        if !asks_resolver(&installation) {
            let (context, overwrites) = inputs::context(&installation, objects).await?;
            // The resolver makes a default Context that a job needs.
            if context.is_some() || self.components.is_none() {
                return Ok(Ok(Material::read(installation, context, overwrites, None, objects).await?));
            }
        }
        let Some(components) = &self.components else {
            let message = "the Installation names a component, and no resolver is configured (--resolver)";
            let error = OperationError::transient("InitPrerequisites", "Resolve", message);
            return Err(AttemptError::Transient(error));
        };
        let job = installation.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default();
        let name = ObjectName { namespace: tree.namespace.clone(), name: tree.name.clone() };
        let resolved = components.resolve(name.clone(), &job).await;
        let resolved = resolved.map_err(|status| resolve_failed(&status, tree))?;
        tree.installation.store(resolved.installation.clone());
        if let Some(error) = resolved.error {
            return Ok(Err((resolved.installation, error)));
        }
        let remote = Some(components.repositories(name, &job));
        let material =
            Material::read(resolved.installation, resolved.context, resolved.overwrites, remote, objects);
        Ok(Ok(material.await?))
    }

    /// Works beside the runtime, and once more with states if it keeps some. What takes too long, or panics, would do so again: it
    /// ends the job.
    async fn run<T: Send + 'static>(
        &self,
        material: Material,
        objects: &Objects,
        job: impl Fn(&Inputs<'_>) -> Result<T, UnreadStates> + Clone + Send + 'static,
    ) -> Result<Result<T, OperationError>, AttemptError> {
        let material = Arc::new(material);
        let mut states = None;
        loop {
            let (inner, blueprints, job) = (Arc::clone(&material), self.blueprints.clone(), job.clone());
            let work = move || inner.with_inputs(states.as_ref(), &blueprints, job);
            let done = match self.workers.run(work).await {
                Ok(done) => done,
                Err(problem) => return render_problem(&problem).map(Err),
            };
            if let Some(why) = material.unavailable() {
                let message = format!("the resolver cannot be asked: {why}");
                let error = OperationError::transient("InitPrerequisites", "Resolve", message);
                return Err(AttemptError::Transient(error));
            }
            match done {
                Ok(done) => return Ok(Ok(done)),
                Err(UnreadStates(keys)) => {
                    states = Some(inputs::states(&material.installation, &keys, objects).await?);
                }
            }
        }
    }
}

/// The end of a job whose rendering came to none, or why it is tried again.
fn render_problem(problem: &WorkError) -> Result<OperationError, AttemptError> {
    let (reason, code) = match problem {
        WorkError::TimedOut(_) => ("RenderTimeout", ErrorCode::Timeout),
        WorkError::Panicked => ("RenderFailed", ErrorCode::InternalProblem),
        WorkError::Overloaded(_) => {
            let message = format!("rendering: {problem}");
            let error = OperationError::transient("Reconcile", "RenderFailed", message);
            return Err(AttemptError::Transient(error));
        }
    };
    Ok(OperationError {
        operation: "handlePhaseInit".into(),
        reason: reason.into(),
        message: format!("rendering this installation: {problem}"),
        codes: vec![code],
    })
}

/// The resolver is asked about components, and to take back what it once said.
fn asks_resolver(installation: &Installation) -> bool {
    let status = installation.status.as_ref();
    installation.spec.component_descriptor.is_some()
        || status.is_some_and(|status| {
            status.conditions.iter().any(|condition| condition.type_ == OVERWRITE_CONDITION)
        })
}
