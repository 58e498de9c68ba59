//! gRPC call `Plan`: the effect of applying objects, for callers with the rights to see that
//! effect.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use futures::future::try_join_all;
use groundwork_api::rights;
use groundwork_controller::{ApiError, Objects};
use groundwork_grpc::{Access, ResourceAttributes};
use groundwork_proto::renderer::v1::{PlanRequest, PlanResponse};
use groundwork_proto::status::{self, reasons};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use tokio::sync::Semaphore;
use tonic::Status;
use tonic::metadata::MetadataMap;

use super::{Service, unavailable};
use crate::components::ResolverErrors;
use crate::work::{
    CallError, InNamespace, Lacks, Namespaces, PlannedRepositories, Progress, Unplanned, interrupted,
};

/// Limit for the plans that run at the same time. It is low, because each plan has all objects of
/// its namespaces in memory.
const PLANS: usize = 2;
/// Limit for the objects that a plan may read, without Secrets and ConfigMaps.
const MOST_OBJECTS: usize = 10_000;
/// Limit for the Secrets and ConfigMaps that a plan may read.
const MOST_NAMED: usize = 2_000;
/// Limit for the rounds in which a plan may ask for further objects: one for the imports, one for
/// each level of nested installations with state, and some spare.
const ROUNDS: usize = 12;
/// Number of Secrets or ConfigMaps that are read at the same time.
const READS: usize = 16;

/// Semaphore for the plans of a replica.
#[derive(Debug, Clone)]
pub(crate) struct Plans(Arc<Semaphore>);

impl Default for Plans {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(PLANS)))
    }
}

impl Service {
    pub(super) async fn answer_plan(
        &self,
        metadata: &MetadataMap,
        request: &PlanRequest,
    ) -> Result<PlanResponse, Status> {
        self.access.authenticate(metadata).await?;
        let namespaces = match self.renderers.plan(None, request, &()).await? {
            Progress::Lacks(Unplanned::Scope(namespaces)) => namespaces,
            Progress::Done(_) | Progress::Lacks(Unplanned::Lacks(_)) => return Err(broken()),
        };
        for namespace in &namespaces {
            authorise(&self.access, metadata, namespace).await?;
        }
        let _turn = self.plans.0.try_acquire().map_err(|_| {
            let text = format!(
                "this replica is already making {PLANS} plans: ask another replica, or try again later"
            );
            status::unavailable(reasons::TOO_MANY_CALLS, text)
        })?;
        let mut landscape = read(&namespaces, &self.objects).await?;
        let resolver_errors = Arc::new(ResolverErrors::default());
        let components = self.components.clone();
        let host =
            PlannedRepositories { components, namespaces, resolver_errors: Arc::clone(&resolver_errors) };
        for _ in 0..ROUNDS {
            let plan = self.renderers.plan(Some(&landscape), request, &host).await;
            if let Err(CallError::Interrupted(error)) = &plan {
                return Err(interrupted(error));
            }
            if let Some(why) = resolver_errors.unavailable() {
                return Err(status::unavailable(reasons::RESOLVER_UNAVAILABLE, why));
            }
            if let Some(why) = resolver_errors.refused() {
                return Err(status::denied(reasons::COMPONENT_NOT_REACHED, why));
            }
            match plan? {
                Progress::Done(answer) => return Ok(answer),
                Progress::Lacks(Unplanned::Lacks(lacks)) => add(&mut landscape, lacks, &self.objects).await?,
                Progress::Lacks(Unplanned::Scope(_)) => return Err(broken()),
            }
        }
        let text = format!("after {ROUNDS} rounds of reading, more Secrets or ConfigMaps are still needed");
        Err(status::exhausted(reasons::LANDSCAPE_TOO_LARGE, text))
    }
}

/// Allows callers that may read everything a plan is made from, and that could run jobs which read
/// the same component versions. Programs that act for such users are allowed too.
async fn authorise(access: &Access, metadata: &MetadataMap, namespace: &str) -> Result<(), Status> {
    let of =
        |(group, resource)| ResourceAttributes { group, resource, namespace: Some(namespace), name: None };
    let user = access.authenticate(metadata).await?;
    if access.may(&user, "create", &of(rights::PLANS)).await? {
        return Ok(());
    }
    let seen = rights::PLAN_SOURCES.map(of);
    access.authorise(metadata, &seen).await?;
    access.authorise_to("update", metadata, &seen[..1]).await?;
    Ok(())
}

/// Lists each kind once per namespace.
async fn read(namespaces: &BTreeSet<String>, objects: &Objects) -> Result<Namespaces, Status> {
    let mut landscape = Namespaces::new();
    let mut count = 0;
    for namespace in namespaces {
        let found = read_one(namespace, objects).await.map_err(unavailable)?;
        count += found.len();
        if count > MOST_OBJECTS {
            let text = format!(
                "the namespaces of the request have more than {MOST_OBJECTS} objects to read: `groundwork plan` has no \
                 such limit"
            );
            return Err(status::exhausted(reasons::LANDSCAPE_TOO_LARGE, text));
        }
        landscape.insert(namespace.clone(), found);
    }
    Ok(landscape)
}

async fn read_one(namespace: &str, objects: &Objects) -> Result<InNamespace, ApiError> {
    Ok(InNamespace {
        installations: objects.list(namespace, "").await?,
        executions: objects.list(namespace, "").await?,
        items: objects.list(namespace, "").await?,
        contexts: objects.list(namespace, "").await?,
        overwrites: objects.list(namespace, "").await?,
        data_objects: objects.list(namespace, "").await?,
        targets: objects.list(namespace, "").await?,
        ..InNamespace::default()
    })
}

/// Reads the Secrets and ConfigMaps that a plan has asked for. Only the namespaces of the plan are
/// read.
async fn add(
    landscape: &mut Namespaces,
    lacks: BTreeMap<String, Lacks>,
    objects: &Objects,
) -> Result<(), Status> {
    let known = |of: &InNamespace| of.absent.len() + of.named.secrets.len() + of.named.config_maps.len();
    let count: usize =
        landscape.values().map(known).sum::<usize>() + lacks.values().map(Lacks::len).sum::<usize>();
    if count > MOST_NAMED {
        let text = format!("the plan needs more than {MOST_NAMED} Secrets and ConfigMaps");
        return Err(status::exhausted(reasons::LANDSCAPE_TOO_LARGE, text));
    }
    for (namespace, lacks) in lacks {
        let Some(found) = landscape.get_mut(&namespace) else { return Err(broken()) };
        let (secrets, maps): (Vec<_>, Vec<_>) =
            (lacks.secrets.into_iter().collect(), lacks.config_maps.into_iter().collect());
        for names in secrets.chunks(READS) {
            let read = names.iter().map(|name| objects.get::<Secret>(&namespace, name));
            for (name, secret) in names.iter().zip(try_join_all(read).await.map_err(unavailable)?) {
                match secret {
                    Some(secret) => found.named.add_secret(secret),
                    None => _ = found.absent.secrets.insert(name.clone()),
                }
            }
        }
        for names in maps.chunks(READS) {
            let read = names.iter().map(|name| objects.get::<ConfigMap>(&namespace, name));
            for (name, map) in names.iter().zip(try_join_all(read).await.map_err(unavailable)?) {
                match map {
                    Some(map) => found.named.add_config_map(map),
                    None => _ = found.absent.config_maps.insert(name.clone()),
                }
            }
        }
    }
    Ok(())
}

/// Returns the status for a malformed answer, which only a broken or compromised worker gives.
fn broken() -> Status {
    status::internal(reasons::WORK_INTERRUPTED, "a worker process sent an unexpected answer")
}
