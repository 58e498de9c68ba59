//! Implementation of the gRPC service `groundwork.resolver.v1`.

pub(crate) mod errors;
pub(crate) mod explain;
mod pieces;
mod planning;
pub(crate) mod wire;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::{Stream, StreamExt};
use groundwork_api::{DEFAULT_CONTEXT, Installation, Kind as _, ResourceExt};
use groundwork_bus::{Kind, ObjectId};
use groundwork_component::{
    Access, ComponentVersion, Reference, Repositories, Repository, RepositoryError, closure_digest,
};
use groundwork_controller::{AdmittedCall, ApiError, Casualties, Journal, Objects};
use groundwork_grpc::{Access as Callers, ResourceAttributes};
use groundwork_lifecycle::{OperationError, Resolution, SignaturePolicy};
use groundwork_proto::MAX_MESSAGE;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::resolver::v1::resolver_server::Resolver;
use groundwork_proto::resolver::v1::{
    ExplainRequest, ExplainResponse, FetchResourceRequest, FetchResourceResponse, GetDescriptorRequest,
    GetDescriptorResponse, ResolveRequest, ResolveResponse, explain_request,
};
use groundwork_turns::Turns;
use prost::Message;
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::SERVICE;
use crate::contexts::DefaultContexts;
use crate::narration;
use crate::permitted_versions::{Known, PermittedVersions, PermittedVersionsCache, RecordingRepositories};
use crate::resolution_inputs::{Depth, ResolutionInputs};
use crate::status::Statement;
use crate::stores::{JobStores, Stores};
use crate::work::{Evaluators, Task};
use wire::Reader;

/// Attempts at a decision when the object changes in between.
const ATTEMPTS: u32 = 5;
const PAUSE: Duration = Duration::from_millis(20);
/// Calls that read from stores at the same time. Most of them wait for a registry, and each has at
/// most one descriptor in memory.
const READERS: usize = 128;
/// Contents that are streamed at the same time. They are limited separately from `READERS`, so that
/// a slow caller or registry cannot block other reads.
const SENDERS: usize = 128;
/// Share of one namespace in each of the two limits: the number of Installations that the renderer
/// works on at the same time.
const SHARE: usize = 16;
/// Bytes of a message that are reserved for everything except its content.
const MESSAGE_MARGIN: usize = 64 * 1024;

pub(crate) struct Service {
    callers: Callers,
    objects: Objects,
    contexts: Arc<DefaultContexts>,
    stores: Stores,
    signatures: SignaturePolicy,
    permitted: PermittedVersionsCache,
    readers: Turns,
    senders: Turns,
    workers: Workers,
    journal: Journal,
    casualties: Casualties,
}

/// Workers for the jobs of Installations, and workers for all other calls.
#[derive(Debug, Clone)]
pub(crate) struct Workers {
    pub(crate) jobs: Evaluators,
    pub(crate) calls: Evaluators,
}

impl Service {
    pub(crate) fn new(
        callers: Callers,
        objects: Objects,
        contexts: Arc<DefaultContexts>,
        stores: Stores,
        workers: Workers,
        signatures: SignaturePolicy,
        journal: Journal,
    ) -> Self {
        let [readers, senders] = [READERS, SENDERS].map(|count| Turns::new(count, SHARE));
        let permitted = PermittedVersionsCache::new();
        Self {
            callers,
            objects,
            contexts,
            stores,
            signatures,
            permitted,
            readers,
            senders,
            workers,
            journal,
            casualties: Casualties::default(),
        }
    }

    /// Sets the record of earlier crashes of the process.
    pub(crate) fn remembering(self, casualties: Casualties) -> Self {
        Self { casualties, ..self }
    }

    /// Reads the inputs for a job. If the namespace has no default Context yet, it is created now.
    async fn inputs_of_job(&self, installation: Installation) -> Result<ResolutionInputs, ApiError> {
        let namespace = installation.namespace().unwrap_or_default();
        let inputs = ResolutionInputs::read(installation, Depth::Repositories, &self.objects).await?;
        let is_default = inputs.installation.spec.context() == DEFAULT_CONTEXT;
        if inputs.context.is_some() || !is_default || !self.contexts.concern(&namespace) {
            return Ok(inputs);
        }
        self.contexts.ensure(&namespace, &self.objects).await?;
        ResolutionInputs::read(inputs.installation, Depth::Repositories, &self.objects).await
    }

    /// Allows a call about an Installation if its caller may `get` it.
    async fn authorise(&self, call: &MetadataMap, name: Option<ObjectName>) -> Result<ObjectName, Status> {
        let name = wire::object_name(name, "installation")?;
        let attributes = ResourceAttributes {
            group: Installation::GROUP,
            resource: Installation::PLURAL,
            namespace: Some(&name.namespace),
            name: Some(&name.name),
        };
        self.callers.authorise(call, &[attributes]).await?;
        Ok(name)
    }

    async fn installation(&self, name: &ObjectName) -> Result<Installation, Status> {
        let found = self.objects.get::<Installation>(&name.namespace, &name.name).await;
        found.map_err(|error| errors::api(&error))?.ok_or_else(|| errors::no_installation(name))
    }

    /// Resolves the reference for a job, and writes the result into the status.
    async fn resolve_for_job(
        &self,
        name: &ObjectName,
        job: &str,
    ) -> Result<(ResolutionInputs, Resolution), Status> {
        for attempt in 1..=ATTEMPTS {
            let installation = self.installation(name).await?;
            if !has_job(&installation, job) {
                return Err(errors::superseded(name));
            }
            let inputs = self.inputs_of_job(installation).await;
            let mut inputs = inputs.map_err(|error| errors::api(&error))?;
            let resolution = self.workers.jobs.resolve(&inputs).await;
            let resolution = resolution.map_err(|error| errors::of_work(&error))?;
            let Some(statement) = Statement::of_job(&inputs.installation, &resolution) else {
                return Ok((inputs, resolution));
            };
            match statement.write(inputs.installation, &self.objects).await {
                Ok(stored) => {
                    inputs.installation = stored;
                    return Ok((inputs, resolution));
                }
                // The Installation changed since it was read, and its reference may have changed
                // too: resolve it again.
                Err(ApiError::Conflict(_)) => tokio::time::sleep(PAUSE * attempt).await,
                Err(ApiError::NotFound(_)) => return Err(errors::no_installation(name)),
                Err(error) => return Err(errors::api(&error)),
            }
        }
        Err(errors::contended(name))
    }

    /// Records that a call for a job is running (`installations.md` 7.7, 10).
    async fn admit(&self, name: &ObjectName) -> Result<AdmittedCall, String> {
        self.casualties.admit(SERVICE, &key_of(name)).await
    }

    /// Returns the answer for a job that has crashed processes of the resolver.
    async fn set_aside(
        &self,
        name: &ObjectName,
        job: &str,
        words: String,
    ) -> Result<ResolveResponse, Status> {
        let installation = self.installation(name).await?;
        // The record is cleared here: either this job fails with the answer, or the job has ended
        // and the next one is a new attempt.
        self.casualties.forgive(SERVICE, &key_of(name));
        if !has_job(&installation, job) {
            return Err(errors::superseded(name));
        }
        tracing::error!(installation = %format_args!("{}/{}", name.namespace, name.name), "{words}");
        Ok(ResolveResponse {
            installation: Some(wire::json(&installation)?),
            failure: Some(wire::failure(&OperationError::set_aside(words))),
            ..ResolveResponse::default()
        })
    }

    /// Writes the closure of a job's component into the status if it differs from the last job's.
    /// Most components have no references, and need no write.
    async fn note_closure(
        &self,
        mut installation: Installation,
        name: &ObjectName,
        job: &str,
        versions: &[ComponentVersion],
    ) -> Result<Installation, Status> {
        for attempt in 1..=ATTEMPTS {
            let Some(statement) = Statement::of_closure(&installation, closure_digest(versions)) else {
                return Ok(installation);
            };
            match statement.write(installation, &self.objects).await {
                Ok(stored) => return Ok(stored),
                Err(ApiError::Conflict(_)) => tokio::time::sleep(PAUSE * attempt).await,
                Err(ApiError::NotFound(_)) => return Err(errors::no_installation(name)),
                Err(error) => return Err(errors::api(&error)),
            }
            installation = self.installation(name).await?;
            if !has_job(&installation, job) {
                return Err(errors::superseded(name));
            }
        }
        Err(errors::contended(name))
    }

    /// Allows only component versions that belong to the Installation: the right to `get` one
    /// Installation is not a right to read whole stores.
    async fn ensure_permitted(&self, name: &ObjectName, reference: &Reference) -> Result<Known, Status> {
        if let Some(known) = self.permitted.get(&name.namespace, &name.name)
            && known.permitted.contains(reference)
        {
            return Ok(known);
        }
        let installation = self.installation(name).await?;
        let inputs = ResolutionInputs::read(installation, Depth::Repositories, &self.objects).await;
        let inputs = inputs.map_err(|error| errors::api(&error))?;
        let keyring = inputs.keyring();
        let stores = self.stores.of_job(&name.namespace, &name.name, "", Arc::clone(&keyring));
        let recording = RecordingRepositories { inner: stores, permitted: PermittedVersions::default() };
        let known = Known { permitted: recording.permitted.clone(), keyring };
        // The walk may fail at a missing version. All versions requested before that are permitted
        // all the same.
        let resolution = self.workers.calls.resolve(&inputs).await;
        let resolution = resolution.map_err(|error| errors::of_work(&error))?;
        self.blocking(&name.namespace, move || drop(walk(&resolution, &recording))).await?;
        let is_permitted = known.permitted.contains(reference);
        self.permitted.insert(&name.namespace, &name.name, known.clone());
        if is_permitted { Ok(known) } else { Err(errors::beyond(name, reference)) }
    }

    /// Runs a read from stores on a blocking thread, in a slot of the namespace.
    async fn blocking<T: Send + 'static>(
        &self,
        namespace: &str,
        read: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Status> {
        let turn = self.readers.take(namespace).await;
        let span = tracing::Span::current();
        let task = tokio::task::spawn_blocking(move || {
            // If the caller goes away, the work runs to its end and keeps its slot until then.
            let _turn = turn;
            span.in_scope(read)
        });
        task.await.map_err(|_| errors::interrupted())
    }
}

#[tonic::async_trait]
impl Resolver for Service {
    type FetchResourceStream = Pin<Box<dyn Stream<Item = Result<FetchResourceResponse, Status>> + Send>>;

    async fn resolve(&self, request: Request<ResolveRequest>) -> Result<Response<ResolveResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let job = request.job_id;
        if job.is_empty() {
            return Err(wire::invalid("job_id", "must be given"));
        }
        let name = self.authorise(&metadata, request.installation).await?;
        let admitted = match self.admit(&name).await {
            Ok(admitted) => admitted,
            Err(words) => return self.set_aside(&name, &job, words).await.map(Response::new),
        };
        let (inputs, resolution) = self.resolve_for_job(&name, &job).await?;
        for warning in &resolution.warnings {
            tracing::info!(installation = %format_args!("{}/{}", name.namespace, name.name), "{}", warning.message);
        }
        let keyring = inputs.keyring();
        let stores = self.stores.of_new_job(&name.namespace, &name.name, &job, Arc::clone(&keyring));
        let recording = RecordingRepositories { inner: stores, permitted: PermittedVersions::default() };
        let known = Known { permitted: recording.permitted.clone(), keyring };
        let policy = self.signatures;
        let walked = self.blocking(&name.namespace, move || {
            let checked = inputs.verify(policy, &resolution, &recording.inner);
            let closure = checked.and_then(|()| walk(&resolution, &recording));
            (inputs, resolution, closure)
        });
        let (mut inputs, resolution, closure) = walked.await?;
        self.permitted.insert(&name.namespace, &name.name, known);
        if let Ok(versions) = &closure {
            inputs.installation = self.note_closure(inputs.installation, &name, &job, versions).await?;
        }
        narration::tell(&self.journal, &job, &inputs.installation, &resolution, &closure);
        let answer = self.blocking(&name.namespace, move || answer(&inputs, &resolution, closure)).await?;
        admitted.done();
        answer.map(Response::new)
    }

    async fn explain(&self, request: Request<ExplainRequest>) -> Result<Response<ExplainResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let calls = &self.workers.calls;
        let explained = match &request.input {
            Some(explain_request::Input::Inline(_)) if request.references => {
                return Err(wire::invalid(
                    "references",
                    "is available only for an Installation of the cluster, not with inline objects",
                ));
            }
            Some(explain_request::Input::Inline(_)) => calls.call(&Task::Inline, &request).await,
            Some(explain_request::Input::Installation(name)) => {
                let name = self.authorise(&metadata, Some(name.clone())).await?;
                let installation = self.installation(&name).await?;
                let depth = if request.references { Depth::Repositories } else { Depth::Reference };
                let inputs = ResolutionInputs::read(installation, depth, &self.objects).await;
                let inputs = inputs.map_err(|error| errors::api(&error))?;
                if request.references {
                    let stores = self.stores.fresh(&name.namespace, inputs.keyring());
                    let resolution = calls.resolve(&inputs).await;
                    let resolution = resolution.map_err(|error| errors::of_work(&error))?;
                    let read = move || explain::of_cluster(&resolution, Some(&stores));
                    return self.blocking(&name.namespace, read).await?.map(Response::new);
                }
                calls.call(&Task::Explain(&inputs), &()).await
            }
            None => return Err(wire::invalid("input", "must be given")),
        };
        explained.map(Response::new)
    }

    async fn get_descriptor(
        &self,
        request: Request<GetDescriptorRequest>,
    ) -> Result<Response<GetDescriptorResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let reference = wire::located_reference(request.reference)?;
        let stores = match wire::reader(request.installation, request.planning)? {
            Reader::Planning(planning) => self.planned(&metadata, &planning).await?,
            Reader::Installation(name) => {
                let name = self.authorise(&metadata, Some(name)).await?;
                let known = self.ensure_permitted(&name, &reference).await?;
                self.stores.of_job(&name.namespace, &name.name, "", known.keyring)
            }
        };
        let tenant = stores.tenant().to_owned();
        let read = move || open(&stores, &reference)?.descriptor(&reference.name, &reference.version);
        let descriptor = self.blocking(&tenant, read).await?.map_err(|error| errors::repository(&error))?;
        if descriptor.as_ref().is_some_and(|bytes| bytes.len() > MAX_MESSAGE - MESSAGE_MARGIN) {
            return Err(errors::too_large("the component descriptor"));
        }
        Ok(Response::new(GetDescriptorResponse { descriptor }))
    }

    async fn fetch_resource(
        &self,
        request: Request<FetchResourceRequest>,
    ) -> Result<Response<Self::FetchResourceStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        let reference = wire::located_reference(request.reference)?;
        let access = wire::access(request.content)?;
        let offset =
            u64::try_from(request.offset).map_err(|_| wire::invalid("offset", "must not be negative"))?;
        // Local content is addressed by its digest, which only a reader of the descriptor knows.
        // Other content is addressed by its place in a registry, so check that the descriptor names
        // it.
        let is_local = matches!(access, Access::Local { .. });
        let stores = match wire::reader(request.installation, request.planning)? {
            Reader::Planning(planning) => {
                let stores = self.planned(&metadata, &planning).await?;
                if !is_local {
                    let (read, reference, access) = (stores.clone(), reference.clone(), access.clone());
                    let check = move || planning::ensure_named(&read, &planning, &reference, &access);
                    self.blocking(stores.tenant(), check).await??;
                }
                stores
            }
            Reader::Installation(name) => {
                let name = self.authorise(&metadata, Some(name)).await?;
                let known = self.ensure_permitted(&name, &reference).await?;
                if !is_local && !known.permitted.has_content(&reference, &access) {
                    return Err(errors::not_named(&name, &reference, &access));
                }
                self.stores.of_job(&name.namespace, &name.name, &request.job_id, known.keyring)
            }
        };
        let tenant = stores.tenant().to_owned();
        let read = move || {
            let repository = open(&stores, &reference)?;
            if access.registry().is_some() {
                return repository.content(&reference.name, &reference.version, &access).map(Some);
            }
            // A missing version and a missing content in a version get different errors, because
            // callers treat them differently.
            match repository.descriptor(&reference.name, &reference.version)? {
                None => Ok(None),
                Some(_) => repository.content(&reference.name, &reference.version, &access).map(Some),
            }
        };
        let content = self.blocking(&tenant, read).await?.map_err(|error| errors::repository(&error))?;
        let content = content.ok_or_else(errors::no_version)?;
        Ok(Response::new(pieces::stream(content, offset, self.senders.clone(), tenant).boxed()))
    }
}

fn open(stores: &JobStores, reference: &Reference) -> Result<Arc<dyn Repository>, RepositoryError> {
    match &reference.repository {
        Some(context) => stores.open(context),
        // A reference without a context was refused before, so this case cannot occur.
        None => Err(RepositoryError::UnknownType { type_name: String::new() }),
    }
}

/// Walks the closure so that its requests are recorded.
fn walk(
    resolution: &Resolution,
    recording: &RecordingRepositories<JobStores>,
) -> Result<Vec<ComponentVersion>, OperationError> {
    let effective = resolution.reference.as_ref().and_then(|found| found.effective.repository.as_ref());
    for descriptor in resolution.inline() {
        recording.permitted.add_inline(descriptor, effective);
    }
    resolution.closure(recording)
}

fn key_of(name: &ObjectName) -> ObjectId {
    ObjectId::new(Kind::of::<Installation>(), Some(&name.namespace), &name.name)
}

fn has_job(installation: &Installation, job: &str) -> bool {
    let status = installation.status.as_ref();
    status.and_then(|status| status.job_id.as_deref()) == Some(job)
}

fn answer(
    inputs: &ResolutionInputs,
    resolution: &Resolution,
    closure: Result<Vec<ComponentVersion>, OperationError>,
) -> Result<ResolveResponse, Status> {
    let (closure, error) = match closure {
        Ok(closure) => (closure, None),
        Err(error) => (Vec::new(), Some(error)),
    };
    let answer = ResolveResponse {
        original: resolution.reference.as_ref().map(|found| wire::reference(&found.original)),
        effective: resolution.reference.as_ref().map(|found| wire::reference(&found.effective)),
        matched: resolution.reference.as_ref().is_some_and(|found| found.matched),
        installation: Some(wire::json(&inputs.installation)?),
        context: inputs.context.as_ref().map(wire::json).transpose()?,
        overwrites: inputs.overwrites.as_ref().map(wire::json).transpose()?,
        closure: closure.iter().map(wire::component_version).collect(),
        failure: error.as_ref().map(wire::failure),
    };
    if answer.encoded_len() > MAX_MESSAGE {
        return Err(errors::too_large("the closure of the component"));
    }
    Ok(answer)
}
