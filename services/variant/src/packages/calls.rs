//! Calls about the files of packages, and drafts that people make (`packagevariants.md` 6.2).

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _, stream};
use groundwork_api::{Kind, PackageRevision, RenderStatus, Repository};
use groundwork_bus::ObjectId;
use groundwork_controller::{ApiError, Objects};
use groundwork_grpc::{Access, ResourceAttributes};
use groundwork_kubernetes::is_dns_subdomain;
use groundwork_packages::{Actor, Committed, Files, GitRepository, NewDraft, Revision, StoreError};
use groundwork_proto::component::v1::{Json, ObjectName};
use groundwork_proto::packages::v1::packages_server::Packages;
use groundwork_proto::packages::v1::pull_response::Part as Pulled;
use groundwork_proto::packages::v1::push_request::Part as Pushed;
use groundwork_proto::packages::v1::{
    CreateRequest, CreateResponse, DiffRequest, DiffResponse, File, FileChange, PullRequest, PullResponse,
    PulledRevision, PushRequest, PushResponse, PushTarget,
};
use groundwork_proto::status::{self, reasons};
use similar::TextDiff;
use tonic::metadata::MetadataMap;
use tonic::{Code, Request, Response, Status, Streaming};

use super::creation;
use super::objects::{Attributes, ensure};
use super::revision::repository_key;
use super::{Backend, MAX_PACKAGE_BYTES, PackageStore, downstream};
use crate::grpc::{invalid, of_api};
use crate::handler::{Shared, kind};

/// What a Porch server calls the files of a revision; here only rights know the word.
const RESOURCES: &str = "packagerevisionresources";
/// How long files of a call are compared exactly; what is left then is told as one change from beginning to end.
const COMPARING: Duration = Duration::from_secs(5);
/// Files of one package, as many as the store takes.
const MOST_FILES: usize = 20_000;

/// The service behind the contract.
pub(crate) struct Service {
    pub(crate) access: Access,
    pub(crate) objects: Objects,
    pub(crate) shared: Arc<Shared>,
}

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Packages for Service {
    type PullStream = Answers<PullResponse>;
    type DiffStream = Answers<DiffResponse>;

    async fn pull(&self, request: Request<PullRequest>) -> Result<Response<Self::PullStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        let name = named("revision", request.revision)?;
        self.authorise("get", &metadata, &name).await?;
        let (revision, files) = self.files(&name).await?;
        let head =
            PulledRevision { version: revision.version(), lifecycle: revision.lifecycle.as_str().to_owned() };
        let files = files.into_iter().map(|(path, content)| Pulled::File(File { path, content }));
        let parts = std::iter::once(Pulled::Revision(head)).chain(files);
        let answers = parts.map(|part| Ok(PullResponse { part: Some(part) })).collect::<Vec<_>>();
        Ok(Response::new(stream::iter(answers).boxed()))
    }

    async fn push(&self, request: Request<Streaming<PushRequest>>) -> Result<Response<PushResponse>, Status> {
        let (metadata, _, mut parts) = request.into_parts();
        let first = parts.message().await?.and_then(|request| request.part);
        let Some(Pushed::Target(PushTarget { revision, version })) = first else {
            return Err(invalid("target", "it must come first"));
        };
        let name = named("target.revision", revision)?;
        if version.is_empty() {
            return Err(invalid("target.version", "it must be given"));
        }
        // Nobody's files are taken in before it is known that they may be written.
        let actor = self.authorise("update", &metadata, &name).await?;
        let files = collect(&mut parts).await?;
        let key = repository_of(&name);
        let (store, repository) = self.synced(&key).await?;
        let present =
            self.objects.get::<PackageRevision>(&name.namespace, &name.name).await.map_err(of_api)?;
        let keeps_failures = present.as_ref().is_some_and(downstream::keeps_failures);
        let saved = store.write(&key, move |store| {
            let staged = store.stage_files(&name.namespace, &name.name, &version, files)?;
            staged.keep_failures(keeps_failures).commit(&actor)
        });
        let Committed { revision, status, error } = saved.await.map_err(|error| refused(&error))?;
        self.tell(&repository, &revision, present).await?;
        Ok(Response::new(PushResponse {
            version: revision.version(),
            render_status: status.as_ref().map(json).transpose()?,
            render_error: error.unwrap_or_default(),
        }))
    }

    async fn create(&self, request: Request<CreateRequest>) -> Result<Response<CreateResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let CreateRequest { namespace, repository, package, workspace, source } = request;
        for (field, text) in [("namespace", &namespace), ("repository", &repository)] {
            if !is_dns_subdomain(text) {
                return Err(invalid(field, "it must be a name as Kubernetes has them"));
            }
        }
        let source = source.ok_or_else(|| invalid("source", "it must be given"))?;
        let from = creation::named_in(&source, &namespace)?;
        for name in &from {
            self.authorise("get", &metadata, name).await?;
        }
        let draft = ResourceAttributes {
            group: PackageRevision::GROUP,
            resource: PackageRevision::PLURAL,
            namespace: Some(&namespace),
            name: None,
        };
        let user = self.access.authorise_to("create", &metadata, &[draft]).await?;
        // What it is made from may be in other repositories, which this replica has to know as well.
        for name in &from {
            self.synced(&repository_of(name)).await?;
        }
        let key = ObjectId::new(kind::<Repository>(), Some(&namespace), &repository);
        let (store, registered) = self.synced(&key).await?;
        let source = creation::Wanted::of(source)?;
        let actor = Actor { name: user.name.clone() };
        let place = namespace.clone();
        let made = store.write(&key, move |store| {
            let source = source.source(store, &place)?;
            let new = NewDraft { namespace: place, repository, package, workspace, source, owner: None };
            store.stage(&new)?.commit(&actor)
        });
        let Committed { revision, status, .. } = made.await.map_err(|error| refused(&error))?;
        self.tell(&registered, &revision, None).await?;
        Ok(Response::new(CreateResponse {
            revision: Some(ObjectName { namespace, name: revision.name.clone() }),
            version: revision.version(),
            render_status: status.as_ref().map(json).transpose()?,
        }))
    }

    async fn diff(&self, request: Request<DiffRequest>) -> Result<Response<Self::DiffStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        let (from, to) = (named("from", request.from)?, named("to", request.to)?);
        for name in [&from, &to] {
            self.authorise("get", &metadata, name).await?;
        }
        let (_, before) = self.files(&from).await?;
        let (_, after) = self.files(&to).await?;
        // A diff of large files takes its time.
        let compared =
            tokio::task::spawn_blocking(move || differences(&from.name, &before, &to.name, &after));
        let compared = compared
            .await
            .map_err(|_| status::internal(reasons::WORK_INTERRUPTED, "the comparison did not end"))?;
        Ok(Response::new(stream::iter(compared.into_iter().map(Ok)).boxed()))
    }
}

impl Service {
    /// Whose call it is, if they may do this with the files of a revision.
    async fn authorise(
        &self,
        verb: &'static str,
        metadata: &MetadataMap,
        revision: &ObjectName,
    ) -> Result<Actor, Status> {
        let attributes = ResourceAttributes {
            group: PackageRevision::GROUP,
            resource: RESOURCES,
            namespace: Some(&revision.namespace),
            name: Some(&revision.name),
        };
        let user = self.access.authorise_to(verb, metadata, &[attributes]).await?;
        Ok(Actor { name: user.name.clone() })
    }

    /// A repository as its remote is now: people and other replicas may have pushed a moment ago.
    async fn synced(&self, key: &ObjectId) -> Result<(&PackageStore, Arc<GitRepository>), Status> {
        let store = match &self.shared.packages {
            Some(Backend::Git(store)) => store,
            Some(Backend::Porch(_)) => {
                let text = "packages are on a Porch server: use its own API and its command line";
                return Err(status::failed_precondition(reasons::PACKAGE_STORE_OFF, text));
            }
            None => {
                let text = "this service keeps no packages: it was started without --package-store";
                return Err(status::failed_precondition(reasons::PACKAGE_STORE_OFF, text));
            }
        };
        let synced = async {
            let repository = store.repository(key, &self.objects).await?;
            let syncing = Arc::clone(&repository);
            store.run(key, move |_| syncing.sync().map(drop)).await?;
            Ok(repository)
        };
        let repository = synced.await.map_err(|error: StoreError| refused(&error))?;
        Ok((store, repository))
    }

    /// A revision with its files.
    async fn files(&self, name: &ObjectName) -> Result<(Arc<Revision>, Files), Status> {
        let key = repository_of(name);
        let (store, repository) = self.synced(&key).await?;
        let name = name.name.clone();
        let read = store.run(&key, move |_| {
            let revision = repository.revision(&name)?;
            let files = repository.files(&revision)?;
            Ok((revision, files))
        });
        read.await.map_err(|error| refused(&error))
    }

    /// Lets the cluster know what git holds now.
    async fn tell(
        &self,
        repository: &GitRepository,
        revision: &Revision,
        present: Option<PackageRevision>,
    ) -> Result<(), Status> {
        let none = Attributes::default();
        match ensure(repository, revision, None, present, none, None, &self.objects).await {
            Ok(_) => Ok(()),
            // Somebody else has been quicker; the store looks at the object again because of that.
            Err(ApiError::AlreadyExists(_) | ApiError::Conflict(_) | ApiError::NotFound(_)) => Ok(()),
            Err(error) => Err(of_api(error)),
        }
    }
}

fn repository_of(revision: &ObjectName) -> ObjectId {
    let ObjectName { namespace, name } = revision;
    repository_key(&ObjectId::new(kind::<PackageRevision>(), Some(namespace), name))
}

/// Takes the files in that follow the first message.
async fn collect(parts: &mut Streaming<PushRequest>) -> Result<Files, Status> {
    let mut files = Files::new();
    let mut bytes = 0;
    while let Some(request) = parts.message().await? {
        let Some(Pushed::File(File { path, content })) = request.part else {
            return Err(invalid("file", "only files may follow the target"));
        };
        bytes += content.len() as u64;
        if bytes > MAX_PACKAGE_BYTES || files.len() == MOST_FILES {
            let text = format!("a package has at most {MAX_PACKAGE_BYTES} bytes in {MOST_FILES} files");
            return Err(status::exhausted(reasons::REQUEST_TOO_LARGE, text));
        }
        if files.contains_key(&path) {
            return Err(invalid("file.path", &format!("{path:?} comes twice")));
        }
        files.insert(path, content);
    }
    Ok(files)
}

/// Which files differ, and how.
fn differences(from: &str, before: &Files, to: &str, after: &Files) -> Vec<DiffResponse> {
    // Lines that differ everywhere cost the product of their numbers.
    let deadline = Instant::now() + COMPARING;
    let paths: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let differing = paths.into_iter().filter_map(|path| {
        let (old, new) = (before.get(path), after.get(path));
        let change = match (old, new) {
            (Some(old), Some(new)) if old == new => return None,
            (Some(_), Some(_)) => FileChange::Modified,
            (Some(_), None) => FileChange::Removed,
            (None, _) => FileChange::Added,
        };
        let diff = match (text(old), text(new)) {
            (Some(old), Some(new)) => TextDiff::configure()
                .deadline(deadline)
                .diff_lines(old, new)
                .unified_diff()
                .header(&format!("{from}/{path}"), &format!("{to}/{path}"))
                .to_string(),
            _ => String::new(),
        };
        Some(DiffResponse { path: path.clone(), change: change.into(), diff })
    });
    differing.collect()
}

/// What is in a file, if it is text; a missing one is empty.
fn text(file: Option<&Vec<u8>>) -> Option<&str> {
    file.map_or(Some(""), |bytes| std::str::from_utf8(bytes).ok())
}

/// The name of a package revision, which begins with that of its repository.
pub(super) fn named(field: &str, name: Option<ObjectName>) -> Result<ObjectName, Status> {
    let name = name.unwrap_or_default();
    match is_dns_subdomain(&name.namespace) && is_dns_subdomain(&name.name) && name.name.contains('.') {
        true => Ok(name),
        false => Err(invalid(field, "it must be the namespace and name of a package revision")),
    }
}

fn json(status: &RenderStatus) -> Result<Json, Status> {
    let text = serde_json::to_string(status)
        .map_err(|_| status::internal(reasons::ENCODE_FAILED, "the results cannot be written as JSON"))?;
    Ok(Json { text })
}

/// What callers are told of an error of the store.
fn refused(error: &StoreError) -> Status {
    let text = error.to_string();
    match error {
        StoreError::NotFound(_) => status::not_found(reasons::PACKAGE_NOT_FOUND, text),
        StoreError::AlreadyExists(_) | StoreError::DownstreamExists(_) => {
            status::status(Code::AlreadyExists, reasons::PACKAGE_EXISTS, text)
        }
        StoreError::Conflict => status::status(Code::Aborted, reasons::PACKAGE_REVISION_CHANGED, text),
        StoreError::Refused(_) | StoreError::Merge(_) => {
            status::failed_precondition(reasons::PACKAGE_REFUSED, text)
        }
        StoreError::Render { .. } => status::failed_precondition(reasons::RENDER_FAILED, text),
        StoreError::Unavailable(_) => status::unavailable(reasons::PACKAGE_STORE_UNAVAILABLE, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_compared() {
        let files = |files: &[(&str, &[u8])]| -> Files {
            files.iter().map(|(path, content)| ((*path).to_owned(), content.to_vec())).collect()
        };
        let before = files(&[("gone", b"a\n"), ("logo", b"\xff"), ("same", b"s"), ("text", b"a\nb\n")]);
        let after = files(&[("logo", b"\xfe"), ("new", b"n\n"), ("same", b"s"), ("text", b"a\nc\n")]);
        let found: Vec<_> = differences("r.p.v1", &before, "r.p.v2", &after)
            .into_iter()
            .map(|found| (found.path.clone(), found.change(), found.diff))
            .collect();
        let text = "--- r.p.v1/text\n+++ r.p.v2/text\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n";
        assert_eq!(found.len(), 4);
        assert_eq!(found[1], ("logo".to_owned(), FileChange::Modified, String::new()));
        assert_eq!(found[3], ("text".to_owned(), FileChange::Modified, text.to_owned()));
        assert_eq!((found[0].1, found[2].1), (FileChange::Removed, FileChange::Added));
        assert!(found[0].2.contains("-a\n") && found[2].2.contains("+n\n"));
    }

    /// Without an end of the exact comparison this test would take minutes.
    #[test]
    fn texts_without_a_common_line_are_compared() {
        let lines = |prefix: &str| -> Files {
            let text: String = (0..200_000).map(|line| format!("{prefix}{line}\n")).collect();
            [("f".to_owned(), text.into_bytes())].into()
        };
        let found = differences("a.p.v1", &lines("old"), "a.p.v2", &lines("new"));
        assert!(found[0].diff.contains("-old199999\n") && found[0].diff.contains("+new199999\n"));
    }

    #[test]
    fn names_lead_to_a_repository() {
        let name = |name: &str| {
            named("revision", Some(ObjectName { namespace: "fleet".to_owned(), name: name.to_owned() }))
        };
        assert!(name("edge.dns.v1").is_ok());
        for wrong in ["", "edge", "../x.y", "Edge.dns"] {
            assert_eq!(name(wrong).unwrap_err().code(), Code::InvalidArgument, "{wrong}");
        }
    }
}
