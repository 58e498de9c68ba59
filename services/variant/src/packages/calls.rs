//! gRPC calls about the files of packages, and about drafts that users make (`packagevariants.md`
//! 6.2).

use std::collections::BTreeSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt as _, stream};
use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::{Kind, PackageRevision, RenderStatus};
use groundwork_controller::Objects;
use groundwork_grpc::{Access, ResourceAttributes};
use groundwork_packages::git::{Actor, Files, MAX_PACKAGE_BYTES};
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
use tonic::{Request, Response, Status, Streaming};

use super::content::{Content, Read, WantedDraft};
use super::creation::{self, Wanted};
use super::git_content::GitContent;
use super::porch::PorchContent;
use crate::shared::Shared;
use crate::status::invalid;

/// Resource name of the files of a revision on a Porch server; here it only appears in access
/// rules.
const RESOURCES: &str = "packagerevisionresources";
/// Time limit for an exact comparison of files. After it, the rest is reported as one change from
/// beginning to end.
const COMPARING: Duration = Duration::from_secs(5);
/// Limit for the files of one package; the store has the same.
const MOST_FILES: usize = 20_000;

/// Implementation of the gRPC service.
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
        let Read { version, lifecycle, files } = self.content()?.read(&name).await?;
        let head = PulledRevision { version, lifecycle };
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
        // Authorise before the files are received: a caller without rights must not make the
        // service hold them in memory.
        let actor = self.authorise("update", &metadata, &name).await?;
        let files = collect(&mut parts).await?;
        let saved = self.content()?.save(&name, version, files, actor).await?;
        Ok(Response::new(PushResponse {
            version: saved.version,
            render_status: saved.status.as_ref().map(json).transpose()?,
            render_error: saved.error.unwrap_or_default(),
        }))
    }

    async fn create(&self, request: Request<CreateRequest>) -> Result<Response<CreateResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        let CreateRequest { namespace, repository, package, workspace, source } = request;
        for (field, text) in [("namespace", &namespace), ("repository", &repository)] {
            if !is_dns_subdomain(text) {
                return Err(invalid(field, "it must be a valid Kubernetes name"));
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
        let actor = Actor { name: user.name.clone() };
        let source = Wanted::of(source)?;
        let wanted =
            WantedDraft { namespace: namespace.clone(), repository, package, workspace, source, from };
        let made = self.content()?.create(wanted, actor).await?;
        Ok(Response::new(CreateResponse {
            revision: Some(ObjectName { namespace, name: made.name }),
            version: made.version,
            render_status: made.status.as_ref().map(json).transpose()?,
        }))
    }

    async fn diff(&self, request: Request<DiffRequest>) -> Result<Response<Self::DiffStream>, Status> {
        let (metadata, _, request) = request.into_parts();
        let (from, to) = (named("from", request.from)?, named("to", request.to)?);
        for name in [&from, &to] {
            self.authorise("get", &metadata, name).await?;
        }
        let content = self.content()?;
        let (before, after) = (content.read(&from).await?.files, content.read(&to).await?.files);
        // A diff of large files takes long, so it must not block the thread of other calls.
        let compared =
            tokio::task::spawn_blocking(move || differences(&from.name, &before, &to.name, &after));
        let compared = compared
            .await
            .map_err(|_| status::internal(reasons::WORK_INTERRUPTED, "the comparison did not finish"))?;
        Ok(Response::new(stream::iter(compared.into_iter().map(Ok)).boxed()))
    }
}

impl Service {
    /// Returns the caller, if the caller may do this with the files of a revision.
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

    /// Returns the store of this service.
    fn content(&self) -> Result<Box<dyn Content + '_>, Status> {
        let objects = &self.objects;
        if let Some(store) = &self.shared.store {
            return Ok(Box::new(GitContent { store, objects }));
        }
        match &self.shared.packages {
            Some(store) => Ok(Box::new(PorchContent { store, objects })),
            None => {
                let text =
                    "this service has no package store: start it with --package-store, or with --porch";
                Err(status::failed_precondition(reasons::PACKAGE_STORE_OFF, text))
            }
        }
    }
}

/// Receives the files that follow the first message.
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
            return Err(invalid("file.path", &format!("{path:?} occurs twice")));
        }
        files.insert(path, content);
    }
    Ok(files)
}

/// Returns the files that differ, each with its diff.
fn differences(from: &str, before: &Files, to: &str, after: &Files) -> Vec<DiffResponse> {
    // The cost of a diff without common lines is the product of both line counts, hence a deadline.
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

/// Returns the content of a text file; a missing file is empty.
fn text(file: Option<&Vec<u8>>) -> Option<&str> {
    file.map_or(Some(""), |bytes| std::str::from_utf8(bytes).ok())
}

/// Validates the name of a package revision, which begins with the name of its repository.
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

#[cfg(test)]
mod tests {
    use tonic::Code;

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

    /// Without the deadline of the exact comparison, this test would take minutes.
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
