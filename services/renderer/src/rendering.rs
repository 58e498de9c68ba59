//! What jobs compute: their inputs are read, a worker process does the work, and what came out is for the state machine.

use groundwork_api::{ComponentVersionOverwrites, Context, ErrorCode, ImportStatus, Installation};
use groundwork_component::OVERWRITE_CONDITION;
use groundwork_controller::{ApiError, Objects};
use groundwork_lifecycle::machine::Tree;
use groundwork_lifecycle::{
    Completion, ImportedNames, ObjectSet, OperationError, OwnScope, Prepared, Reason, UnreadStates,
    fingerprints, living_scope,
};
use groundwork_proto::component::v1::ObjectName;
use groundwork_sandbox::{ExchangeError, Host, WorkError};
use serde::de::DeserializeOwned;

use crate::components::{Components, RemoteRepositories};
use crate::handler::{AttemptError, resolve_failed};
use crate::inputs;
use crate::work::{Kind, Material, Progress, Renderers};

/// Renders for jobs.
pub(crate) struct Renderings {
    pub(crate) components: Option<Components>,
    pub(crate) renderers: Renderers,
}

/// What a rendering works on, and what it may ask for.
pub(crate) struct Gathered {
    pub(crate) material: Material,
    /// Of all imports, for the status: what a worker computes lacks what it is not given.
    fingerprints: (Vec<ImportStatus>, String),
    /// Where components come from; absent where the Installation names none.
    remote: Option<RemoteRepositories>,
}

impl Gathered {
    /// What an Installation names, with the Context that has been found for it.
    pub(crate) async fn read(
        installation: Installation,
        context: Option<Context>,
        overwrites: Option<ComponentVersionOverwrites>,
        remote: Option<RemoteRepositories>,
        objects: &Objects,
    ) -> Result<Self, ApiError> {
        let mut imported = inputs::fetch(&installation, context.as_ref(), objects).await?;
        let scope = living_scope(&installation);
        let fingerprints = fingerprints(&installation, &scope, &imported);
        withhold_credentials(&installation, &scope, &mut imported);
        let material = Material {
            scope,
            installation,
            context,
            overwrites,
            objects: imported,
            own: OwnScope::default(),
            states: None,
            has_repositories: remote.is_some(),
        };
        Ok(Self { material, fingerprints, remote })
    }

    /// Who answers what a worker asks.
    pub(crate) fn host(&self) -> &dyn Host {
        match &self.remote {
            Some(remote) => remote,
            None => &(),
        }
    }

    /// Why the answers of the resolver cannot be relied on, if they cannot.
    pub(crate) fn unavailable(&self) -> Option<String> {
        self.remote.as_ref().and_then(RemoteRepositories::unavailable)
    }
}

/// Leaves out the Secrets that only Targets name: nothing that is rendered shows them, and a worker has no use for them.
fn withhold_credentials(installation: &Installation, scope: &str, objects: &mut ObjectSet) {
    let imported = ImportedNames::of(installation, scope).secrets;
    objects.secrets.retain(|name, _| imported.contains(name));
}

/// Why a job gets no rendering.
enum NoRendering {
    /// The job ends with this.
    Ends(OperationError),
    /// It is tried again.
    Again(AttemptError),
}

impl From<AttemptError> for NoRendering {
    fn from(error: AttemptError) -> Self {
        Self::Again(error)
    }
}

impl From<ApiError> for NoRendering {
    fn from(error: ApiError) -> Self {
        Self::Again(error.into())
    }
}

impl Renderings {
    /// Reads the inputs of a job and renders.
    pub(crate) async fn prepare(&self, tree: &mut Tree, objects: &Objects) -> Result<Prepared, AttemptError> {
        match self.rendered(tree, objects).await {
            Ok(prepared) => Ok(prepared),
            Err(NoRendering::Ends(error)) => Ok(Prepared::failed(&installation_of(tree), error)),
            Err(NoRendering::Again(error)) => Err(error),
        }
    }

    async fn rendered(&self, tree: &mut Tree, objects: &Objects) -> Result<Prepared, NoRendering> {
        let gathered = self.gather(tree, objects).await?;
        let (imports, imports_hash) = gathered.fingerprints.clone();
        let mut prepared = self.run::<Prepared>(Kind::Prepare, gathered, objects).await?;
        if !prepared.is_within(&tree.namespace) {
            return Err(NoRendering::Ends(elsewhere()));
        }
        prepared.has_imports = !imports.is_empty();
        (prepared.imports, prepared.imports_hash) = (imports, imports_hash);
        Ok(prepared)
    }

    /// Reads the inputs of a job and what lies in the own scope, and renders the exports.
    pub(crate) async fn complete(
        &self,
        tree: &mut Tree,
        objects: &Objects,
    ) -> Result<Completion, AttemptError> {
        match self.exported(tree, objects).await {
            Ok(completion) => Ok(completion),
            Err(NoRendering::Ends(error)) => Ok(Completion::failed(&installation_of(tree), error)),
            Err(NoRendering::Again(error)) => Err(error),
        }
    }

    async fn exported(&self, tree: &mut Tree, objects: &Objects) -> Result<Completion, NoRendering> {
        let own = inputs::own_scope(tree, objects).await?;
        let mut gathered = self.gather(tree, objects).await?;
        gathered.material.own = own;
        let (_, imports_hash) = gathered.fingerprints.clone();
        let mut completion = self.run::<Completion>(Kind::Complete, gathered, objects).await?;
        if !completion.is_within(&tree.namespace) {
            return Err(NoRendering::Ends(elsewhere()));
        }
        completion.imports_hash = imports_hash;
        Ok(completion)
    }

    /// Everything that the job of a tree reads. The tree has the Installation as the resolver left it.
    async fn gather(&self, tree: &mut Tree, objects: &Objects) -> Result<Gathered, NoRendering> {
        let installation = installation_of(tree);
        if !asks_resolver(&installation) {
            let (context, overwrites) = inputs::context(&installation, objects).await?;
            // The resolver makes a default Context that a job needs.
            if context.is_some() || self.components.is_none() {
                return Ok(Gathered::read(installation, context, overwrites, None, objects).await?);
            }
        }
        let Some(components) = &self.components else {
            let message = "the Installation names a component, and no resolver is configured (--resolver)";
            let error = OperationError::transient("InitPrerequisites", Reason::Resolve, message);
            return Err(NoRendering::Again(AttemptError::Transient(error)));
        };
        let job = installation.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default();
        let name = ObjectName { namespace: tree.namespace.clone(), name: tree.name.clone() };
        let resolved = components.resolve(name.clone(), &job).await;
        let resolved = resolved.map_err(|status| resolve_failed(&status, tree))?;
        tree.installation.store(resolved.installation.clone());
        if let Some(error) = resolved.error {
            return Err(NoRendering::Ends(error));
        }
        let remote = Some(components.repositories(name, &job));
        let material =
            Gathered::read(resolved.installation, resolved.context, resolved.overwrites, remote, objects);
        Ok(material.await?)
    }

    /// Has a worker do it, and once more with states if the blueprint keeps some. What exceeds a limit, or panics, would do so again: it ends
    /// the job.
    async fn run<T: DeserializeOwned>(
        &self,
        kind: Kind,
        mut gathered: Gathered,
        objects: &Objects,
    ) -> Result<T, NoRendering> {
        loop {
            let done = self.renderers.job(kind, &gathered.material, gathered.host()).await;
            let done = done.map_err(|problem| no_rendering(&problem))?;
            if let Some(why) = gathered.unavailable() {
                let message = format!("the resolver cannot be asked: {why}");
                let error = OperationError::transient("InitPrerequisites", Reason::Resolve, message);
                return Err(NoRendering::Again(AttemptError::Transient(error)));
            }
            match done {
                Progress::Done(done) => return Ok(done),
                Progress::Lacks(UnreadStates(keys)) => {
                    let states = inputs::states(&gathered.material.installation, &keys, objects).await?;
                    gathered.material.states = Some(states);
                }
            }
        }
    }
}

fn installation_of(tree: &Tree) -> Installation {
    tree.installation.get().cloned().unwrap_or_default()
}

/// The end of a job whose rendering came to none, or why it is tried again.
fn no_rendering(problem: &ExchangeError) -> NoRendering {
    let (reason, code) = match problem {
        ExchangeError::Work(WorkError::WallTime { .. }) => (Reason::RenderTimeout, ErrorCode::Timeout),
        ExchangeError::Work(WorkError::NotStarted(_)) => {
            let message = format!("rendering: {problem}");
            let error = OperationError::transient("Reconcile", Reason::RenderFailed, message);
            return NoRendering::Again(AttemptError::Transient(error));
        }
        _ if problem.is_limit() => (Reason::RenderLimit, ErrorCode::ConfigurationProblem),
        _ => (Reason::RenderFailed, ErrorCode::InternalProblem),
    };
    NoRendering::Ends(failure(reason, code, &problem.to_string()))
}

/// No rendering makes that. Somebody has got hold of a worker, and gets no further.
fn elsewhere() -> OperationError {
    let problem = "it would write objects of another namespace; this is a fault, report it";
    failure(Reason::RenderFailed, ErrorCode::InternalProblem, problem)
}

fn failure(reason: Reason, code: ErrorCode, problem: &str) -> OperationError {
    OperationError {
        operation: "handlePhaseInit".into(),
        reason,
        message: format!("rendering this installation: {problem}"),
        codes: vec![code],
    }
}

/// The resolver is asked about components, and to take back what it once said.
fn asks_resolver(installation: &Installation) -> bool {
    let status = installation.status.as_ref();
    installation.spec.component_descriptor.is_some()
        || status.is_some_and(|status| {
            status.conditions.iter().any(|condition| condition.type_ == OVERWRITE_CONDITION)
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// What is imported goes to a worker, and what only gives access to a cluster does not.
    #[test]
    fn workers_get_no_credentials_of_targets() {
        let installation: Installation = serde_json::from_value(json!({
            "metadata": {"name": "server", "namespace": "team"},
            "spec": {"imports": {
                "data": [{"name": "settings", "secretRef": {"name": "settings"}}],
                "targets": [{"name": "cluster", "target": "cluster"}],
            }},
        }))
        .unwrap();
        let mut objects = ObjectSet::default();
        for name in ["settings", "kubeconfig"] {
            objects.secrets.insert(name.to_owned(), [("value".to_owned(), b"secret".to_vec())].into());
        }
        withhold_credentials(&installation, "", &mut objects);
        assert_eq!(objects.secrets.keys().collect::<Vec<_>>(), ["settings"]);
    }
}
