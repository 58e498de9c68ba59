//! Renderings for jobs: reads the inputs, runs the work in a worker process, and returns the result
//! to the state machine.

use groundwork_api::{ComponentVersionOverwrites, Context, ErrorCode, ImportStatus, Installation};
use groundwork_blueprint::States;
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

use crate::clusters::{Clusters, RemoteClusters};
use crate::components::{Components, RemoteRepositories};
use crate::handler::{AttemptError, resolve_failed};
use crate::inputs;
use crate::work::{JobHost, Kind, Material, Progress, Renderers};

/// Renderer of jobs.
pub(crate) struct Renderings {
    pub(crate) components: Option<Components>,
    pub(crate) clusters: Option<Clusters>,
    pub(crate) renderers: Renderers,
}

/// Inputs of a rendering, and its access to other services.
pub(crate) struct Gathered {
    pub(crate) material: Material,
    /// Fingerprints of all imports, for the status. They are computed here, because a worker lacks
    /// the withheld Secrets.
    fingerprints: (Vec<ImportStatus>, String),
    host: JobHost,
}

impl Gathered {
    /// Reads the objects that an Installation names; its Context has been found already.
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
            has_clusters: false,
            imports_hash: fingerprints.1.clone(),
        };
        let host = JobHost { repositories: remote, clusters: None };
        Ok(Self { material, fingerprints, host })
    }

    /// Lets templates get kubeconfigs by the rights of the namespace's Targets.
    fn with_clusters(mut self, clusters: Option<&Clusters>) -> Self {
        let namespace = self.material.installation.metadata.namespace.as_deref().unwrap_or_default();
        self.host.clusters = clusters.map(|clusters| clusters.of_namespace(namespace));
        self.material.has_clusters = self.host.clusters.is_some();
        self
    }

    /// Returns the host that answers the questions of a worker.
    pub(crate) fn host(&self) -> &dyn Host {
        &self.host
    }

    /// Returns the reason why the answers of the resolver are unreliable, if they are.
    pub(crate) fn unavailable(&self) -> Option<String> {
        self.host.repositories.as_ref().and_then(RemoteRepositories::unavailable)
    }
}

/// Removes the Secrets that only Targets reference. No rendering shows them, so a worker does not
/// need them.
fn withhold_credentials(installation: &Installation, scope: &str, objects: &mut ObjectSet) {
    let imported = ImportedNames::of(installation, scope).secrets;
    objects.secrets.retain(|name, _| imported.contains(name));
}

/// Reason why a job gets no rendering.
enum NoRendering {
    /// The job ends with this error.
    Ends(OperationError),
    /// The attempt is repeated.
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
    /// Reads the inputs of a job and renders them.
    pub(crate) async fn prepare(&self, tree: &mut Tree, objects: &Objects) -> Result<Prepared, AttemptError> {
        match self.rendered(tree, objects).await {
            Ok(prepared) => Ok(prepared),
            Err(NoRendering::Ends(error)) => Ok(Prepared::failed(&installation_of(tree), error)),
            Err(NoRendering::Again(error)) => Err(error),
        }
    }

    async fn rendered(&self, tree: &mut Tree, objects: &Objects) -> Result<Prepared, NoRendering> {
        let gathered = self.gather(tree, objects).await?.with_clusters(self.clusters.as_ref());
        let (imports, imports_hash) = gathered.fingerprints.clone();
        let (mut prepared, left) = self.run::<Prepared>(Kind::Prepare, gathered, objects).await?;
        // The result comes from a worker that has processed untrusted templates, so do not trust
        // its namespaces.
        if !prepared.is_within(&tree.namespace) {
            return Err(NoRendering::Ends(elsewhere()));
        }
        prepared.has_imports = !imports.is_empty();
        (prepared.imports, prepared.imports_hash) = (imports, imports_hash);
        prepared.take_over_states(&installation_of(tree), &left);
        Ok(prepared)
    }

    /// Reads the inputs of a job and the objects in its own scope, and renders the exports.
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
        let mut gathered = self.gather(tree, objects).await?.with_clusters(self.clusters.as_ref());
        gathered.material.own = own;
        let (_, imports_hash) = gathered.fingerprints.clone();
        let (mut completion, left) = self.run::<Completion>(Kind::Complete, gathered, objects).await?;
        // The same check as for prepared objects: the worker's result is untrusted.
        if !completion.is_within(&tree.namespace) {
            return Err(NoRendering::Ends(elsewhere()));
        }
        completion.imports_hash = imports_hash;
        completion.take_over_states(&installation_of(tree), &left);
        Ok(completion)
    }

    /// Reads all inputs of the job in a tree. The tree gets the Installation as the resolver has
    /// written it.
    async fn gather(&self, tree: &mut Tree, objects: &Objects) -> Result<Gathered, NoRendering> {
        let installation = installation_of(tree);
        if !asks_resolver(&installation) {
            let (context, overwrites) = inputs::context(&installation, objects).await?;
            // Ask the resolver although no component is named: it creates the default Context that
            // the job needs.
            if context.is_some() || self.components.is_none() {
                return Ok(Gathered::read(installation, context, overwrites, None, objects).await?);
            }
        }
        let Some(components) = &self.components else {
            let message = "the Installation names a component, but no resolver is configured (--resolver)";
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

    /// Runs the work in a worker, and again with stored state if the blueprint has any. Returns the
    /// result, and the states whose Secrets have lost their owner. Work that exceeds a limit or
    /// panics would do so again, so it ends the job.
    async fn run<T: DeserializeOwned>(
        &self,
        kind: Kind,
        mut gathered: Gathered,
        objects: &Objects,
    ) -> Result<(T, States), NoRendering> {
        let mut left = States::new();
        loop {
            let done = self.renderers.job(kind, &gathered.material, gathered.host()).await;
            let done = done.map_err(|problem| no_rendering(&problem))?;
            // The result is based on questions that the resolver did not answer. The job must not
            // end because of them, so drop the result and retry.
            if let Some(why) = gathered.unavailable() {
                let message = format!("cannot call the resolver: {why}");
                let error = OperationError::transient("InitPrerequisites", Reason::Resolve, message);
                return Err(NoRendering::Again(AttemptError::Transient(error)));
            }
            if let Some(why) = gathered.host.clusters.as_ref().and_then(RemoteClusters::unavailable) {
                let message = format!("cannot call the deployer: {why}");
                let error = OperationError::transient("Reconcile", Reason::RenderFailed, message);
                return Err(NoRendering::Again(AttemptError::Transient(error)));
            }
            match done {
                Progress::Done(done) => return Ok((done, left)),
                // A worker that asks twice is broken: it has all states after the first answer.
                Progress::Lacks(_) if gathered.material.states.is_some() => {
                    let problem = "the worker asks for the state again; this is a bug, please report it";
                    let error = failure(Reason::RenderFailed, ErrorCode::InternalProblem, problem);
                    return Err(NoRendering::Ends(error));
                }
                Progress::Lacks(UnreadStates(keys)) => {
                    let stored = inputs::states(&gathered.material.installation, &keys, objects).await?;
                    left = stored.left;
                    gathered.material.states = Some(stored.states);
                }
            }
        }
    }
}

fn installation_of(tree: &Tree) -> Installation {
    tree.installation.get().cloned().unwrap_or_default()
}

/// Maps a failed rendering to the end of the job, or to a retry.
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

/// Returns the error for a result about another Installation. No rendering produces one, so the
/// worker is compromised, and its result is refused.
fn elsewhere() -> OperationError {
    let problem = "it would write objects of another namespace; this is a bug, please report it";
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

/// Reports whether the resolver is needed: for a component, or to remove the condition of an
/// earlier component.
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

    /// Imports go to a worker. Secrets that only give access to a cluster do not.
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
