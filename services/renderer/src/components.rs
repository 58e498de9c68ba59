//! Client of the resolver, which resolves the component references of jobs and reads descriptors
//! and resources from repositories for their renderings.

use std::sync::{Arc, Mutex, PoisonError};

use groundwork_api::{ComponentVersionOverwrites, Context, ErrorCode, Installation};
use groundwork_component::{Access, RepositoryError};
use groundwork_grpc::{Channel, retry, with_limits};
use groundwork_lifecycle::{OperationError, Reason};
use groundwork_proto::component::v1::{Failure as WireFailure, Json, ObjectName, Reference};
use groundwork_proto::resolver::v1::fetch_resource_request::Content;
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::resolver::v1::{FetchResourceRequest, GetDescriptorRequest, Planning, ResolveRequest};
use groundwork_proto::status::{self, reasons};
use serde::de::DeserializeOwned;
use tonic::{Code, Status};

/// Part of a worker's memory that one content may take. The content is in memory several times for
/// a moment, here and in the worker.
const SHARE_OF_MEMORY: u64 = 4;

/// Client of the resolver. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Components {
    client: ResolverClient<Channel>,
    /// Largest content that is fetched, in bytes.
    largest: usize,
}

/// Result of the resolver for a job.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// Installation after the resolver has written its condition.
    pub(crate) installation: Installation,
    pub(crate) context: Option<Context>,
    pub(crate) overwrites: Option<ComponentVersionOverwrites>,
    pub(crate) error: Option<OperationError>,
}

impl Components {
    /// Creates a client; `memory` is the limit of a worker in bytes.
    pub(crate) fn new(channel: Channel, memory: u64) -> Self {
        let largest = usize::try_from(memory / SHARE_OF_MEMORY).unwrap_or(usize::MAX);
        Self { client: with_limits!(ResolverClient::new(channel)), largest }
    }

    /// Resolves the component reference of an Installation for its job. The resolver writes the
    /// condition.
    pub(crate) async fn resolve(&self, installation: ObjectName, job_id: &str) -> Result<Resolved, Status> {
        let request = ResolveRequest { installation: Some(installation), job_id: job_id.to_owned() };
        // No retry here: the controller requeues the Installation, and its status shows the wait in
        // the meantime.
        let answer = self.client.clone().resolve(request).await?.into_inner();
        Ok(Resolved {
            installation: decode(answer.installation)?
                .ok_or_else(|| Status::internal("the resolver answered without the Installation"))?,
            context: decode(answer.context)?,
            overwrites: decode(answer.overwrites)?,
            error: answer.failure.map(operation_error),
        })
    }

    /// Returns the repositories behind the resolver, for a job of an Installation.
    pub(crate) fn repositories(&self, installation: ObjectName, job_id: &str) -> RemoteRepositories {
        let reader = Reader::Job { installation, job_id: job_id.to_owned() };
        self.read_by(reader, Arc::default())
    }

    /// Returns the repositories for Installations of a plan. Errors that make the plan unreliable
    /// go to `resolver_errors`, which the whole plan shares.
    pub(crate) fn planned(
        &self,
        planning: Planning,
        resolver_errors: Arc<ResolverErrors>,
    ) -> RemoteRepositories {
        self.read_by(Reader::Plan(planning), resolver_errors)
    }

    fn read_by(&self, reader: Reader, resolver_errors: Arc<ResolverErrors>) -> RemoteRepositories {
        let (client, largest) = (self.client.clone(), self.largest);
        RemoteRepositories(Arc::new(Shared { client, largest, reader, resolver_errors }))
    }
}

fn decode<T: DeserializeOwned>(json: Option<Json>) -> Result<Option<T>, Status> {
    let Some(json) = json else { return Ok(None) };
    // Drop the decoder's message, since it quotes the content.
    serde_json::from_str(&json.text)
        .map(Some)
        .map_err(|_| Status::internal("the resolver answered with an invalid object"))
}

fn operation_error(wire: WireFailure) -> OperationError {
    let codes = wire.codes.iter().filter_map(|code| code.parse::<ErrorCode>().ok()).collect();
    OperationError {
        operation: wire.operation.into(),
        reason: Reason::from(wire.reason),
        message: wire.message,
        codes,
    }
}

/// Repository that asks the resolver for descriptors and contents.
#[derive(Debug, Clone)]
pub(crate) struct RemoteRepositories(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: ResolverClient<Channel>,
    largest: usize,
    reader: Reader,
    resolver_errors: Arc<ResolverErrors>,
}

/// User of the answers, whose rights the resolver checks.
#[derive(Debug)]
enum Reader {
    Job { installation: ObjectName, job_id: String },
    Plan(Planning),
}

impl Reader {
    fn installation(&self) -> Option<ObjectName> {
        match self {
            Self::Job { installation, .. } => Some(installation.clone()),
            Self::Plan(_) => None,
        }
    }

    fn planning(&self) -> Option<Planning> {
        match self {
            Self::Job { .. } => None,
            Self::Plan(planning) => Some(planning.clone()),
        }
    }

    fn job_id(&self) -> String {
        match self {
            Self::Job { job_id, .. } => job_id.clone(),
            Self::Plan(_) => String::new(),
        }
    }
}

/// Errors of the resolver that are not about the component. A job must not fail because of them.
#[derive(Debug, Default)]
pub(crate) struct ResolverErrors {
    /// Set once the resolver did not answer.
    unavailable: Mutex<Option<String>>,
    /// Set once the resolver refused a plan a read that jobs may make.
    refused: Mutex<Option<String>>,
}

impl ResolverErrors {
    pub(crate) fn unavailable(&self) -> Option<String> {
        self.unavailable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn refused(&self) -> Option<String> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl RemoteRepositories {
    /// Returns the reason why the answers are unreliable, if they are.
    pub(crate) fn unavailable(&self) -> Option<String> {
        self.0.resolver_errors.unavailable()
    }

    fn reference(context: String, name: &str, version: &str) -> Option<Reference> {
        let repository_context = Some(Json { text: context });
        Some(Reference { repository_context, name: name.to_owned(), version: version.to_owned() })
    }

    fn failed(&self, name: &str, version: &str, status: &Status) -> RepositoryError {
        if may_pass(status) {
            let unavailable = &self.0.resolver_errors.unavailable;
            *unavailable.lock().unwrap_or_else(PoisonError::into_inner) = Some(status.message().to_owned());
        }
        let is_plan = matches!(self.0.reader, Reader::Plan(_));
        if is_plan && matches!(status.code(), Code::PermissionDenied | Code::InvalidArgument) {
            let refused = &self.0.resolver_errors.refused;
            *refused.lock().unwrap_or_else(PoisonError::into_inner) = Some(status.message().to_owned());
        }
        RepositoryError::Unreadable {
            address: format!("{name}:{version}"),
            cause: status.message().to_owned(),
        }
    }

    /// Reads a descriptor, as `groundwork_component::Repository::descriptor` does, from the
    /// repository that the JSON in `context` describes.
    pub(crate) async fn descriptor(
        &self,
        context: String,
        name: &str,
        version: &str,
    ) -> Result<Option<Vec<u8>>, RepositoryError> {
        let request = GetDescriptorRequest {
            reference: Self::reference(context, name, version),
            installation: self.0.reader.installation(),
            planning: self.0.reader.planning(),
        };
        let client = self.0.client.clone();
        // The closure owns its data, so that the future is `Send`.
        let call = move || {
            let (mut client, request) = (client.clone(), request.clone());
            async move { client.get_descriptor(request).await }
        };
        let answer = retry(call).await;
        let answer = answer.map_err(|status| self.failed(name, version, &status))?;
        Ok(answer.into_inner().descriptor)
    }

    /// Reads content, as `groundwork_component::Repository::content` does. Returns the media type
    /// and the bytes.
    pub(crate) async fn content(
        &self,
        context: String,
        name: &str,
        version: &str,
        access: &Access,
    ) -> Result<(String, Vec<u8>), RepositoryError> {
        // A download by a tag or a URL cannot be resumed: by the second attempt it may lead to
        // other content.
        let can_go_on = matches!(access, Access::Local { .. } | Access::Layer { .. });
        let request = FetchResourceRequest {
            reference: Self::reference(context, name, version),
            installation: self.0.reader.installation(),
            planning: self.0.reader.planning(),
            job_id: self.0.reader.job_id(),
            content: Some(Content::Access(Json { text: access.to_value().to_string() })),
            offset: 0,
        };
        let fetched = Arc::new(Mutex::new(Fetched::default()));
        let (client, so_far, largest) = (self.0.client.clone(), Arc::clone(&fetched), self.0.largest);
        let call = move || {
            let (client, request, fetched) = (client.clone(), request.clone(), Arc::clone(&so_far));
            async move {
                let mut so_far = std::mem::take(&mut *lock(&fetched));
                if !can_go_on {
                    so_far = Fetched::default();
                }
                let request = FetchResourceRequest { offset: so_far.length(), ..request };
                let result = receive(client, request, &mut so_far, largest).await;
                *lock(&fetched) = so_far;
                result
            }
        };
        retry(call).await.map_err(|status| match status.code() {
            Code::NotFound => RepositoryError::Missing { address: format!("{name}:{version} {access}") },
            _ => self.failed(name, version, &status),
        })?;
        let Fetched { media_type, bytes } = std::mem::take(&mut *lock(&fetched));
        Ok((media_type, bytes))
    }
}

/// Content received so far.
#[derive(Debug, Default)]
struct Fetched {
    media_type: String,
    bytes: Vec<u8>,
}

impl Fetched {
    fn length(&self) -> i64 {
        i64::try_from(self.bytes.len()).unwrap_or(i64::MAX)
    }
}

fn lock(fetched: &Mutex<Fetched>) -> std::sync::MutexGuard<'_, Fetched> {
    fetched.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn receive(
    mut client: ResolverClient<Channel>,
    request: FetchResourceRequest,
    fetched: &mut Fetched,
    largest: usize,
) -> Result<(), Status> {
    let mut pieces = client.fetch_resource(request).await?.into_inner();
    while let Some(piece) = pieces.message().await? {
        if !piece.media_type.is_empty() {
            fetched.media_type = piece.media_type;
        }
        if fetched.bytes.len() + piece.chunk.len() > largest {
            let text = format!(
                "the content has more than {} MiB, which is a quarter of the memory that rendering may take (--worker-memory)",
                largest >> 20
            );
            return Err(Status::new(Code::OutOfRange, text));
        }
        fetched.bytes.extend_from_slice(&piece.chunk);
    }
    Ok(())
}

/// Reports whether the same call may be answered later, so that a job waits for it.
pub(crate) fn may_pass(status: &Status) -> bool {
    let is_crowded = status::reason(status).is_some_and(|reason| reason == reasons::TOO_MANY_CALLS);
    is_crowded
        || matches!(
            status.code(),
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown
        )
}
