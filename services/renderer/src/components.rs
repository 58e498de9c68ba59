//! The resolver, seen as the repositories that a job reads.

use std::sync::{Arc, Mutex, PoisonError};

use groundwork_api::{ComponentVersionOverwrites, Context, ErrorCode, Installation};
use groundwork_component::{Access, Blob, Repositories, Repository, RepositoryContext, RepositoryError};
use groundwork_grpc::{Channel, retry, with_limits};
use groundwork_lifecycle::OperationError;
use groundwork_proto::component::v1::{Failure as WireFailure, Json, ObjectName, Reference};
use groundwork_proto::resolver::v1::fetch_resource_request::Content;
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::resolver::v1::{FetchResourceRequest, GetDescriptorRequest, ResolveRequest};
use groundwork_proto::status::{self, reasons};
use serde::de::DeserializeOwned;
use tokio::runtime::Handle;
use tonic::{Code, Status};

/// Content that a rendering works on is in memory.
const LARGEST_CONTENT: usize = 256 << 20;

/// A client of the resolver. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Components {
    client: ResolverClient<Channel>,
}

/// What the resolver found for a job.
#[derive(Debug)]
pub(crate) struct Resolved {
    /// The Installation with its condition written.
    pub(crate) installation: Installation,
    pub(crate) context: Option<Context>,
    pub(crate) overwrites: Option<ComponentVersionOverwrites>,
    pub(crate) error: Option<OperationError>,
}

impl Components {
    pub(crate) fn new(channel: Channel) -> Self {
        Self { client: with_limits!(ResolverClient::new(channel)) }
    }

    /// Evaluates the reference of an Installation for its job, and has the condition written.
    pub(crate) async fn resolve(&self, installation: ObjectName, job_id: &str) -> Result<Resolved, Status> {
        let request = ResolveRequest { installation: Some(installation), job_id: job_id.to_owned() };
        // Not repeated here: the controller comes back after a pause, and tells in the meantime what it waits for.
        let answer = self.client.clone().resolve(request).await?.into_inner();
        Ok(Resolved {
            installation: decode(answer.installation)?
                .ok_or_else(|| Status::internal("the resolver answered without the Installation"))?,
            context: decode(answer.context)?,
            overwrites: decode(answer.overwrites)?,
            error: answer.failure.map(operation_error),
        })
    }

    /// The repositories behind the resolver, for code that blocks.
    pub(crate) fn repositories(&self, installation: ObjectName, job_id: &str) -> RemoteRepositories {
        RemoteRepositories(Arc::new(Shared {
            client: self.client.clone(),
            runtime: Handle::current(),
            installation,
            job_id: job_id.to_owned(),
            unavailable: Mutex::new(None),
        }))
    }
}

fn decode<T: DeserializeOwned>(json: Option<Json>) -> Result<Option<T>, Status> {
    let Some(json) = json else { return Ok(None) };
    // The decoder's message quotes what it found.
    serde_json::from_str(&json.text)
        .map(Some)
        .map_err(|_| Status::internal("the resolver answered with an object of another form"))
}

fn operation_error(wire: WireFailure) -> OperationError {
    let codes = wire.codes.iter().filter_map(|code| code.parse::<ErrorCode>().ok()).collect();
    OperationError {
        operation: wire.operation.into(),
        reason: wire.reason.into(),
        message: wire.message,
        codes,
    }
}

/// Asks the resolver for descriptors and contents. To be used where blocking is allowed.
#[derive(Debug, Clone)]
pub(crate) struct RemoteRepositories(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    client: ResolverClient<Channel>,
    runtime: Handle,
    installation: ObjectName,
    job_id: String,
    /// Set once the resolver could not be asked: what follows from that is no verdict about the job.
    unavailable: Mutex<Option<String>>,
}

impl RemoteRepositories {
    /// Why the answers cannot be relied on, if they cannot.
    pub(crate) fn unavailable(&self) -> Option<String> {
        self.0.unavailable.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Repositories for RemoteRepositories {
    fn open(&self, context: &RepositoryContext) -> Result<Arc<dyn Repository>, RepositoryError> {
        Ok(Arc::new(RemoteRepository { shared: Arc::clone(&self.0), context: context.to_json() }))
    }
}

struct RemoteRepository {
    shared: Arc<Shared>,
    context: String,
}

impl RemoteRepository {
    fn reference(&self, name: &str, version: &str) -> Option<Reference> {
        let repository_context = Some(Json { text: self.context.clone() });
        Some(Reference { repository_context, name: name.to_owned(), version: version.to_owned() })
    }

    fn failed(&self, name: &str, version: &str, status: &Status) -> RepositoryError {
        let is_crowded = status::reason(status).is_some_and(|reason| reason == reasons::TOO_MANY_CALLS);
        let may_pass = matches!(
            status.code(),
            Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown
        );
        if is_crowded || may_pass {
            let mut unavailable = self.shared.unavailable.lock().unwrap_or_else(PoisonError::into_inner);
            *unavailable = Some(status.message().to_owned());
        }
        RepositoryError::Unreadable {
            address: format!("{name}:{version}"),
            cause: status.message().to_owned(),
        }
    }
}

impl Repository for RemoteRepository {
    fn descriptor(&self, name: &str, version: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
        let request = GetDescriptorRequest {
            reference: self.reference(name, version),
            installation: Some(self.shared.installation.clone()),
        };
        let call = retry(async || self.shared.client.clone().get_descriptor(request.clone()).await);
        let answer =
            self.shared.runtime.block_on(call).map_err(|status| self.failed(name, version, &status))?;
        Ok(answer.into_inner().descriptor)
    }

    fn content(&self, name: &str, version: &str, access: &Access) -> Result<Blob, RepositoryError> {
        // Under a tag there may be something else by the time of the second attempt.
        let can_go_on = !matches!(access, Access::Artifact { .. } | Access::RelativeArtifact { .. });
        let request = FetchResourceRequest {
            reference: self.reference(name, version),
            installation: Some(self.shared.installation.clone()),
            job_id: self.shared.job_id.clone(),
            content: Some(Content::Access(Json { text: access.to_value().to_string() })),
            offset: 0,
        };
        let fetched = Mutex::new(Fetched::default());
        let call = retry(async || {
            let mut so_far = std::mem::take(&mut *lock(&fetched));
            if !can_go_on {
                so_far = Fetched::default();
            }
            let request = FetchResourceRequest { offset: so_far.length(), ..request.clone() };
            let result = receive(&self.shared.client, request, &mut so_far).await;
            *lock(&fetched) = so_far;
            result
        });
        self.shared.runtime.block_on(call).map_err(|status| match status.code() {
            Code::NotFound => RepositoryError::Missing { address: format!("{name}:{version} {access}") },
            _ => self.failed(name, version, &status),
        })?;
        let Fetched { media_type, bytes } = std::mem::take(&mut *lock(&fetched));
        Ok(Blob::from_bytes(media_type, bytes))
    }
}

/// Content as far as it has come.
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
    client: &ResolverClient<Channel>,
    request: FetchResourceRequest,
    fetched: &mut Fetched,
) -> Result<(), Status> {
    let mut pieces = client.clone().fetch_resource(request).await?.into_inner();
    while let Some(piece) = pieces.message().await? {
        if !piece.media_type.is_empty() {
            fetched.media_type = piece.media_type;
        }
        if fetched.bytes.len() + piece.chunk.len() > LARGEST_CONTENT {
            let text = format!("the content has more than {LARGEST_CONTENT} bytes");
            return Err(Status::new(Code::OutOfRange, text));
        }
        fetched.bytes.extend_from_slice(&piece.chunk);
    }
    Ok(())
}
