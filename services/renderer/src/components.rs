//! The resolver, seen as the repositories that a job reads.

use std::sync::{Arc, Mutex, PoisonError};

use groundwork_api::{ComponentVersionOverwrites, Context, ErrorCode, Installation};
use groundwork_component::{Repositories, Repository, RepositoryContext, RepositoryError};
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

    fn blob(&self, name: &str, version: &str, reference: &str) -> Result<Vec<u8>, RepositoryError> {
        let request = FetchResourceRequest {
            reference: self.reference(name, version),
            installation: Some(self.shared.installation.clone()),
            job_id: self.shared.job_id.clone(),
            content: Some(Content::LocalBlob(reference.to_owned())),
        };
        let call = retry(async || {
            let mut pieces = self.shared.client.clone().fetch_resource(request.clone()).await?.into_inner();
            let mut content = Vec::new();
            while let Some(piece) = pieces.message().await? {
                content.extend_from_slice(&piece.chunk);
            }
            Ok(content)
        });
        self.shared.runtime.block_on(call).map_err(|status| match status.code() {
            Code::NotFound => RepositoryError::Missing { address: format!("{name}:{version} {reference}") },
            _ => self.failed(name, version, &status),
        })
    }
}
