//! Worker process of the renderer: receives tasks and sends results.

use std::sync::Arc;

use groundwork_blueprint::{Capabilities, TemplateLimits};
use groundwork_component::Repositories;
use groundwork_lifecycle::{Inputs, UnreadStates, complete, prepare};
use groundwork_proto::renderer::v1::{PlanRequest, PlanResponse};
use groundwork_registry::RepositoryMap;
use groundwork_sandbox::{Connection, reply};
use prost::{DecodeError, Message};
use serde::Serialize;
use tonic::Status;

use super::clusters::AskedClusters;
use super::planning::PlanEnd;
use super::repositories::{AskedRepositories, AskedSources};
use super::{CallEnd, Kind, Material, Namespaces, Progress, RenderEnd, Reply, Task, Unplanned};
use crate::blueprints::Blueprints;
use crate::{calls, inputs};

/// Answers tasks until the service closes the connection.
pub(crate) fn serve(connection: &Connection) {
    let worker = Worker {
        asked: AskedRepositories(connection.clone()),
        clusters: Arc::new(AskedClusters(connection.clone())),
        sources: AskedSources(connection.clone()),
        nowhere: RepositoryMap::empty("the resolver's repositories.yaml"),
        blueprints: Blueprints::default(),
    };
    connection.serve_exchanges(|task, request| worker.work(task, request));
}

struct Worker {
    asked: AskedRepositories,
    clusters: Arc<AskedClusters>,
    sources: AskedSources,
    nowhere: RepositoryMap,
    /// Cache of blueprints, shared by the tasks of this worker.
    blueprints: Blueprints,
}

impl Worker {
    fn work(
        &self,
        Task { kind, limits, material, landscape }: Task<Material, Namespaces>,
        request: &[u8],
    ) -> Vec<u8> {
        let capabilities = &self.capabilities(kind, limits, material.as_ref());
        match (kind, &material) {
            (Kind::Prepare, Some(material)) => {
                self.reply(self.with_inputs(material, capabilities, prepare), &[])
            }
            (Kind::Complete, Some(material)) => {
                let job = |inputs: &Inputs<'_>| complete(inputs, &material.own);
                self.reply(self.with_inputs(material, capabilities, job), &[])
            }
            (Kind::Prepare | Kind::Complete, None) => reply(None::<&()>, &[]),
            (Kind::PlanScope, _) => {
                let scope = |request| calls::plan_scope(request).map(Unplanned::Scope);
                self.plan(request, |request| scope(request).map(Progress::Lacks))
            }
            (Kind::Plan, _) => {
                let landscape = landscape.unwrap_or_default();
                self.plan(request, |request| calls::plan(request, landscape, &self.sources, capabilities))
            }
            (Kind::Validate, _) => self.call(request, |request| calls::validate(request).map(Progress::Done)),
            (Kind::Render, None) => self.call(request, |request| {
                calls::render_inline(request, &self.blueprints, capabilities).map(Progress::Done)
            }),
            (Kind::Render, Some(material)) => {
                self.call(request, |()| self.with_inputs(material, capabilities, calls::render_named))
            }
            (Kind::RenderExports, None) => self.call(request, |request| {
                calls::exports_inline(request, &self.blueprints, capabilities).map(Progress::Done)
            }),
            (Kind::RenderExports, Some(material)) => self.call(request, |request| {
                self.with_inputs(material, capabilities, |inputs| calls::exports_named(&request, inputs))
            }),
        }
    }

    /// Returns the capabilities of templates. Only a job gets new kubeconfigs. Calls get those that
    /// the last job has kept, and placeholders.
    fn capabilities(&self, kind: Kind, limits: TemplateLimits, material: Option<&Material>) -> Capabilities {
        let capabilities = inputs::capabilities(limits);
        let capabilities = match (kind, material) {
            (Kind::Prepare | Kind::Complete, Some(Material { has_clusters: true, .. })) => {
                let issuer: Arc<AskedClusters> = Arc::clone(&self.clusters);
                capabilities.with_issuer(issuer)
            }
            (Kind::Prepare | Kind::Complete, _) => capabilities,
            _ => capabilities.with_placeholders(),
        };
        capabilities.with_imports(material.map_or("", |material| &material.imports_hash))
    }

    /// Computes the answer to a call.
    fn call<Q: Message + Default, A: Message>(
        &self,
        request: &[u8],
        work: impl FnOnce(Q) -> Result<Progress<A, UnreadStates>, Status>,
    ) -> Vec<u8> {
        let request = Q::decode(request).map_err(|error: DecodeError| Status::internal(error.to_string()));
        let result = match request.and_then(work) {
            Ok(Progress::Lacks(states)) => return self.reply(RenderEnd::Unread(states), &[]),
            Ok(Progress::Done(answer)) => Ok(answer),
            Err(status) => Err(status),
        };
        let (end, body) = CallEnd::of(result);
        self.reply(RenderEnd::Ended(end), &body)
    }

    /// Computes a plan, or the list of missing objects.
    fn plan(
        &self,
        request: &[u8],
        work: impl FnOnce(PlanRequest) -> Result<Progress<PlanResponse, Unplanned>, Status>,
    ) -> Vec<u8> {
        let request =
            PlanRequest::decode(request).map_err(|error: DecodeError| Status::internal(error.to_string()));
        let result = match request.and_then(work) {
            Ok(Progress::Lacks(unplanned)) => return self.reply(PlanEnd::Unplanned(unplanned), &[]),
            Ok(Progress::Done(answer)) => Ok(answer),
            Err(status) => Err(status),
        };
        let (end, body) = CallEnd::of(result);
        self.reply(PlanEnd::Ended(end), &body)
    }

    fn reply<T: Serialize>(&self, result: T, body: &[u8]) -> Vec<u8> {
        reply(Some(&Reply { lookups: self.blueprints.take_lookups(), result }), body)
    }

    fn with_inputs<T>(
        &self,
        material: &Material,
        capabilities: &Capabilities,
        job: impl FnOnce(&Inputs<'_>) -> T,
    ) -> T {
        let repositories: &dyn Repositories =
            if material.has_repositories { &self.asked } else { &self.nowhere };
        job(&inputs_of(material, repositories, &self.blueprints, capabilities))
    }
}

fn inputs_of<'a>(
    material: &'a Material,
    repositories: &'a dyn Repositories,
    blueprints: &'a Blueprints,
    capabilities: &'a Capabilities,
) -> Inputs<'a> {
    Inputs {
        installation: &material.installation,
        context: material.context.as_ref(),
        overwrites: material.overwrites.as_ref(),
        objects: &material.objects,
        repositories,
        blueprint: None,
        capabilities,
        scope: &material.scope,
        states: material.states.as_ref(),
        cache: Some(blueprints),
        offline: None,
        signatures: None,
    }
}

/// Runs the task of a job without components in this process.
#[cfg(test)]
pub(super) fn job_here<T: serde::de::DeserializeOwned>(
    task: &Task<&Material, &Namespaces>,
) -> Result<(Reply<T>, Vec<u8>), groundwork_sandbox::ExchangeError> {
    use groundwork_sandbox::{ExchangeError, pack, unpack};

    thread_local! {
        static BLUEPRINTS: Blueprints = Blueprints::default();
    }
    let material = task.material.ok_or(ExchangeError::Task)?;
    let nowhere = RepositoryMap::empty("nowhere");
    let capabilities = inputs::capabilities(task.limits);
    let answer = BLUEPRINTS.with(|blueprints| {
        let inputs = inputs_of(material, &nowhere, blueprints, &capabilities);
        let lookups = blueprints.take_lookups();
        match task.kind {
            Kind::Prepare => pack(&Reply { lookups, result: prepare(&inputs) }, &[]),
            _ => pack(&Reply { lookups, result: complete(&inputs, &material.own) }, &[]),
        }
    });
    let (reply, _) = unpack(&answer.map_err(|_| ExchangeError::Task)?).map_err(|_| ExchangeError::Answer)?;
    Ok((reply, Vec::new()))
}
