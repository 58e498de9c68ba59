//! Files of package revisions, and drafts that users make, through the service that keeps packages
//! (`packagevariants.md` 6.2).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use futures::stream;
use groundwork_api::{Lifecycle, PackageRevision, ResourceExt as _};
use groundwork_grpc::{Channel, with_limits};
use groundwork_krm::Strategy;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::packages::v1::packages_client::PackagesClient;
use groundwork_proto::packages::v1::pull_response::Part as Pulled;
use groundwork_proto::packages::v1::push_request::Part as Pushed;
use groundwork_proto::packages::v1::{
    CreateRequest, CreateResponse, DiffRequest, File, FileChange, InitSource, PullRequest, PulledRevision,
    PushRequest, PushTarget, UpgradeSource, create_request,
};
use groundwork_untrusted::{NameError, Names, check, check_all};
use kube::Client;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use super::discovery;
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::folder::Folder;
use crate::live::{self, LiveError, NamespaceArgument};
use crate::package_folder::{self, Links, PackageError, PackageFiles};
use crate::service::{self, refused};
use crate::stdout;
use crate::terminal::shown;

/// Address of the service that `docker compose up` starts.
const DEFAULT_SERVER: &str = "http://127.0.0.1:9444";
/// Revision number of the placeholder for the head of a branch (`packagevariants.md` 1.5).
const PLACEHOLDER: i64 = -1;
/// Size limit in bytes of a package that a service sends, including the memory that each file takes
/// beside its content.
const LARGEST_PACKAGE: usize = 256 << 20;
const FILE: usize = 200;
/// File that records the revision of a pulled folder. Name and format are kpt's, so package tools
/// leave the file alone.
const ORIGIN: &str = ".KptRevisionMetadata";

/// Arguments for the connection to the service that keeps packages.
#[derive(Debug, Args)]
struct ServerArguments {
    /// The variant service with the package store.
    #[arg(long, env = "GROUNDWORK_PACKAGES_SERVER", value_name = "URL", default_value = DEFAULT_SERVER)]
    server: String,

    /// PEM file with certificates to trust; without it those of the system, if the URL is one of
    /// https.
    #[arg(long, env = "GROUNDWORK_PACKAGES_SERVER_TLS_CA", value_name = "FILE")]
    server_tls_ca: Option<PathBuf>,

    /// File with the bearer token to show [default: that of the kube context].
    #[arg(long, env = "GROUNDWORK_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(super) struct PullArguments {
    /// Name of the package revision.
    name: String,

    /// The folder: a new or empty one, or one with a package, whose files are replaced [default:
    /// the name].
    #[arg(value_name = "DIR")]
    folder: Option<PathBuf>,

    #[command(flatten)]
    namespace: NamespaceArgument,

    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, Args)]
pub(super) struct PushArguments {
    /// A folder that `pull` has written.
    #[arg(value_name = "DIR")]
    folder: PathBuf,

    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, Args)]
pub(super) struct CloneArguments {
    /// Name of the published package revision to clone.
    upstream: String,

    /// Name of the Repository for the new package.
    #[arg(long, value_name = "NAME")]
    repository: String,

    /// Path of the new package in it [default: that of the upstream].
    #[arg(long, value_name = "PATH")]
    package: Option<String>,

    /// Name that distinguishes the draft from others of its package.
    #[arg(long, value_name = "NAME", default_value = "v1")]
    workspace: String,

    #[command(flatten)]
    namespace: NamespaceArgument,

    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, Args)]
pub(super) struct CopyArguments {
    /// Name of the published package revision that the draft starts from.
    revision: String,

    /// Name that distinguishes the draft from others of its package.
    #[arg(long, value_name = "NAME")]
    workspace: String,

    #[command(flatten)]
    namespace: NamespaceArgument,

    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, Args)]
pub(super) struct InitArguments {
    /// Path of the new package.
    package: String,

    /// Name of the Repository in which the package is created.
    #[arg(long, value_name = "NAME")]
    repository: String,

    /// Name that distinguishes the draft from others of its package.
    #[arg(long, value_name = "NAME", default_value = "v1")]
    workspace: String,

    /// Description of the package, in a sentence.
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,

    /// A keyword to find the package by; may be given several times.
    #[arg(long = "keyword", value_name = "WORD")]
    keywords: Vec<String>,

    /// Address of the package's web pages.
    #[arg(long, value_name = "URL", default_value = "")]
    site: String,

    #[command(flatten)]
    namespace: NamespaceArgument,

    #[command(flatten)]
    server: ServerArguments,
}

#[derive(Debug, Args)]
pub(super) struct UpgradeArguments {
    /// Name of the published package revision that the draft starts from.
    #[arg(required_unless_present = "discover")]
    revision: Option<String>,

    /// Name of the published upstream revision to upgrade to.
    #[arg(long, value_name = "NAME", required_unless_present = "discover")]
    upstream: Option<String>,

    /// Name that distinguishes the draft from others of its package.
    #[arg(long, value_name = "NAME", required_unless_present = "discover")]
    workspace: Option<String>,

    /// List the packages that could be upgraded, and change nothing.
    #[arg(long, conflicts_with_all = ["revision", "upstream", "workspace", "strategy"])]
    discover: bool,

    /// Strategy for changes that both sides have made.
    #[arg(long, value_name = "NAME", default_value = "resource-merge", value_parser = strategies())]
    strategy: String,

    #[command(flatten)]
    namespace: NamespaceArgument,

    #[command(flatten)]
    server: ServerArguments,
}

fn strategies() -> PossibleValuesParser {
    Strategy::names().into()
}

#[derive(Debug, Args)]
pub(super) struct DiffArguments {
    /// Name of the package revision with the new files.
    name: String,

    /// Name of the revision with the old files [default: the highest published revision of the same
    /// package].
    #[arg(value_name = "BEFORE")]
    before: Option<String>,

    #[command(flatten)]
    namespace: NamespaceArgument,

    #[command(flatten)]
    server: ServerArguments,
}

/// Connection to the service, and the namespace of the kube context.
struct Store {
    calls: PackagesClient<Channel>,
    client: Client,
}

impl Store {
    async fn connect(server: &ServerArguments) -> Result<Self, LiveError> {
        let (channel, client) =
            service::connect(&server.server, server.server_tls_ca.as_deref(), server.token_file.as_deref())
                .await?;
        Ok(Self { calls: with_limits!(PackagesClient::new(channel)), client })
    }

    fn name(&self, namespace: &NamespaceArgument, name: &str) -> ObjectName {
        let namespace = namespace.namespace.as_deref().unwrap_or_else(|| self.client.default_namespace());
        ObjectName { namespace: namespace.to_owned(), name: name.to_owned() }
    }

    async fn pull(&mut self, name: &ObjectName) -> Result<(PulledRevision, PackageFiles), LiveError> {
        service::in_time(self.receive(name)).await
    }

    async fn receive(&mut self, name: &ObjectName) -> Result<(PulledRevision, PackageFiles), LiveError> {
        let request = PullRequest { revision: Some(name.clone()) };
        let mut left = LARGEST_PACKAGE;
        let mut parts = self.calls.pull(request).await.map_err(refused)?.into_inner();
        let (mut revision, mut files) = (PulledRevision::default(), PackageFiles::default());
        let mut names = Names::default();
        while let Some(part) = parts.message().await.map_err(refused)? {
            match part.part {
                Some(Pulled::Revision(found)) => revision = found,
                Some(Pulled::File(File { path, content })) => {
                    names.add(&path).map_err(|error| refused_name(&error))?;
                    // Even an empty file takes memory for its path and its entry.
                    let taken = path.len() + content.len() + FILE;
                    left = left.checked_sub(taken).ok_or_else(|| {
                        let text = format!(
                            "the service sends more than {} MiB, the most that a package may have",
                            LARGEST_PACKAGE >> 20
                        );
                        LiveError::Refused(text)
                    })?;
                    files.insert(path, content);
                }
                None => {}
            }
        }
        Ok((revision, files))
    }

    /// Creates a draft of a package, given by Repository, path and workspace.
    async fn create(
        &mut self,
        namespace: &str,
        package: (String, String, String),
        source: create_request::Source,
    ) -> Result<Ending, LiveError> {
        let (repository, package, workspace) = package;
        let namespace = namespace.to_owned();
        let request = CreateRequest { namespace, repository, package, workspace, source: Some(source) };
        let created = service::in_time(async { self.calls.create(request).await.map_err(refused) });
        let CreateResponse { revision, .. } = created.await?.into_inner();
        Ok(stdout::write(&format!("{} Draft\n", shown(&revision.unwrap_or_default().name))))
    }

    /// Creates another draft of a revision's package.
    async fn next(&self, of: &ObjectName, workspace: &str) -> Result<(String, String, String), LiveError> {
        let spec = self.object(of).await?.spec;
        let (repository, package) =
            (spec.repository.unwrap_or_default(), spec.package_name.unwrap_or_default());
        Ok((repository, package, workspace.to_owned()))
    }

    /// Reads the object of a revision.
    async fn object(&self, name: &ObjectName) -> Result<PackageRevision, LiveError> {
        let api: Api<PackageRevision> = Api::namespaced(self.client.clone(), &name.namespace);
        let found = api.get_opt(&name.name).await.map_err(|error| unread(&error))?;
        found.ok_or_else(|| {
            let ObjectName { namespace, name } = name;
            LiveError::Refused(format!("package revision {name} does not exist in namespace {namespace}"))
        })
    }
}

fn unread(error: &kube::Error) -> LiveError {
    let problem = groundwork_telemetry::innermost_cause(error);
    LiveError::Refused(format!("cannot read package revisions: {problem}"))
}

/// Record that `pull` leaves in a folder: the revision that the files come from.
struct Origin {
    name: ObjectName,
    version: String,
    /// Files that `pull` has written.
    files: BTreeSet<String>,
}

impl Origin {
    fn text(&self) -> String {
        let Self { name, version, files } = self;
        groundwork_yaml::to_string(&json!({
            "apiVersion": "kpt.dev/v1",
            "kind": "KptRevisionMetadata",
            "metadata": {"name": name.name, "namespace": name.namespace, "resourceVersion": version},
            "files": files,
        }))
    }
}

fn refused_folder(error: &PackageError) -> LiveError {
    LiveError::Refused(error.to_string())
}

fn refused_name(error: &NameError) -> LiveError {
    LiveError::Refused(format!("the package contains a file that is not allowed: {error}"))
}

fn read_origin(folder: &Path) -> Result<Origin, LiveError> {
    let unusable = |why: &str| {
        let text = format!("{} was not written by `pull`: {ORIGIN} {why}", folder.display());
        LiveError::Refused(text)
    };
    let bytes = Folder::open(folder).and_then(|folder| folder.read(ORIGIN));
    let bytes = bytes.map_err(|error| unusable(&format!("is missing or unreadable: {error}")))?;
    let text = String::from_utf8(bytes).map_err(|_| unusable("is not UTF-8 text"))?;
    let value = groundwork_yaml::from_str(&text).map_err(|_| unusable("is not valid YAML"))?;
    let member = |name: &str| {
        let member = value.pointer(&format!("/metadata/{name}")).and_then(Value::as_str);
        member.map(str::to_owned).ok_or_else(|| unusable(&format!("has no metadata.{name}")))
    };
    let name = ObjectName { namespace: member("namespace")?, name: member("name")? };
    let files = value.get("files").and_then(Value::as_array).into_iter().flatten();
    let files = files.filter_map(Value::as_str).map(str::to_owned).collect();
    Ok(Origin { name, version: member("resourceVersion")?, files })
}

/// Writes the files of a revision into a folder. Of the files there, only those in `former` are
/// removed: files that a command has written or read.
fn write(
    folder: &Path,
    name: &ObjectName,
    version: &str,
    mut files: PackageFiles,
    former: &BTreeSet<String>,
) -> Result<(), LiveError> {
    files.remove(ORIGIN);
    let written = files.paths().map(str::to_owned).collect();
    let origin = Origin { name: name.clone(), version: version.to_owned(), files: written };
    files.texts.insert(ORIGIN.to_owned(), origin.text());
    package_folder::write(folder, &files, former).map_err(|error| refused_folder(&error))
}

/// Prints a refusal and returns the exit code of a failure, since the input could be used.
fn failed(error: LiveError) -> Result<Ending, LiveError> {
    match error {
        LiveError::Refused(text) => {
            diagnostic::print(&[Diagnostic::error(text)]);
            Ok(Ending::Failed)
        }
        other => Err(other),
    }
}

/// Writes the files of a revision into a folder.
pub(super) fn pull(arguments: &PullArguments) -> Ending {
    live::run(async || {
        let mut store = Store::connect(&arguments.server).await?;
        let name = store.name(&arguments.namespace, &arguments.name);
        let (revision, files) = match store.pull(&name).await {
            Ok(pulled) => pulled,
            Err(error) => return failed(error),
        };
        let folder = arguments.folder.clone().unwrap_or_else(|| PathBuf::from(&arguments.name));
        let count = files.paths().count();
        // Without a list of pulled files, as after an older version or another program, no file is
        // removed.
        let former = read_origin(&folder).map(|origin| origin.files).unwrap_or_default();
        write(&folder, &name, &revision.version, files, &former)?;
        let lifecycle = shown(&revision.lifecycle).into_owned();
        Ok(stdout::write(&format!("{} {lifecycle}: {count} files in {}\n", name.name, folder.display())))
    })
}

/// Sends the files of a folder to a draft.
pub(super) fn push(arguments: &PushArguments) -> Ending {
    live::run(async || {
        let folder = &arguments.folder;
        let Origin { name, version, .. } = read_origin(folder)?;
        let mut local =
            package_folder::read(folder, Links::Refuse).map_err(|error| refused_folder(&error))?;
        local.remove(ORIGIN);
        check_all(local.paths()).map_err(|error| refused_name(&error))?;
        let mut store = Store::connect(&arguments.server).await?;
        let target = PushTarget { revision: Some(name.clone()), version: version.clone() };
        let file = |(path, content): (&str, &[u8])| File { path: path.to_owned(), content: content.to_vec() };
        let files = local.contents().map(|found| Pushed::File(file(found)));
        let parts: Vec<PushRequest> = std::iter::once(Pushed::Target(target))
            .chain(files)
            .map(|part| PushRequest { part: Some(part) })
            .collect();
        let calls = &mut store.calls;
        let pushed = service::in_time(async { calls.push(stream::iter(parts)).await.map_err(refused) });
        let pushed = match pushed.await {
            Ok(answer) => answer.into_inner(),
            Err(error) => return failed(error),
        };
        // The functions of the package may have changed the files, so pull them again.
        let (revision, files) = store.pull(&name).await?;
        let changed: Vec<String> = changed(&local, &files).into_iter().map(str::to_owned).collect();
        let former = local.paths().map(str::to_owned).collect();
        write(folder, &name, &revision.version, files, &former)?;
        let mut text = match pushed.version == version {
            true => format!("{}: no file differs\n", name.name),
            false => format!("{} written\n", name.name),
        };
        for path in changed {
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "  {} was changed by the functions of the package", shown(&path));
        }
        let written = stdout::write(&text);
        if pushed.render_error.is_empty() {
            return Ok(written);
        }
        failed(LiveError::Refused(format!(
            "the package was written, but its functions failed: {}",
            shown(&pushed.render_error)
        )))
    })
}

/// Returns the paths of files that differ.
fn changed<'a>(before: &'a PackageFiles, after: &'a PackageFiles) -> Vec<&'a str> {
    let differs = |path: &&str| {
        before.texts.get(*path) != after.texts.get(*path)
            || before.binaries.get(*path) != after.binaries.get(*path)
    };
    let mut found: Vec<&str> = before.paths().chain(after.paths()).filter(differs).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// Creates a draft of a package from a revision of another package.
pub(super) fn clone(arguments: &CloneArguments) -> Ending {
    live::run(async || {
        let mut store = Store::connect(&arguments.server).await?;
        let upstream = store.name(&arguments.namespace, &arguments.upstream);
        let package = match &arguments.package {
            Some(package) => package.clone(),
            None => store.object(&upstream).await?.spec.package_name.unwrap_or_default(),
        };
        let target = (arguments.repository.clone(), package, arguments.workspace.clone());
        let source = create_request::Source::Clone(upstream.name.clone());
        store.create(&upstream.namespace, target, source).await.or_else(failed)
    })
}

/// Creates a draft that starts from a revision of the same package.
pub(super) fn copy(arguments: &CopyArguments) -> Ending {
    live::run(async || {
        let mut store = Store::connect(&arguments.server).await?;
        let from = store.name(&arguments.namespace, &arguments.revision);
        let target = store.next(&from, &arguments.workspace).await?;
        let source = create_request::Source::Edit(from.name.clone());
        store.create(&from.namespace, target, source).await.or_else(failed)
    })
}

/// Creates a draft of a new package.
pub(super) fn init(arguments: &InitArguments) -> Ending {
    live::run(async || {
        let mut store = Store::connect(&arguments.server).await?;
        let InitArguments { package, repository, workspace, description, keywords, site, .. } = arguments;
        let namespace = store.name(&arguments.namespace, "").namespace;
        let source =
            InitSource { description: description.clone(), keywords: keywords.clone(), site: site.clone() };
        let target = (repository.clone(), package.clone(), workspace.clone());
        store.create(&namespace, target, create_request::Source::Init(source)).await.or_else(failed)
    })
}

/// Creates a draft that starts from a revision and takes in the changes of its upstream.
pub(super) fn upgrade(arguments: &UpgradeArguments) -> Ending {
    if arguments.discover {
        return discovery::discover(&arguments.namespace);
    }
    live::run(async || {
        let mut store = Store::connect(&arguments.server).await?;
        // Clap requires these without `--discover`.
        let given = |argument: &Option<String>| argument.clone().unwrap_or_default();
        let from = store.name(&arguments.namespace, &given(&arguments.revision));
        let target = store.next(&from, &given(&arguments.workspace)).await?;
        let source = UpgradeSource {
            revision: from.name.clone(),
            upstream: given(&arguments.upstream),
            strategy: arguments.strategy.clone(),
        };
        store.create(&from.namespace, target, create_request::Source::Upgrade(source)).await.or_else(failed)
    })
}

/// Prints the differences between two revisions.
pub(super) fn diff(arguments: &DiffArguments) -> Ending {
    live::run(async || {
        let mut store = Store::connect(&arguments.server).await?;
        let to = store.name(&arguments.namespace, &arguments.name);
        let from = match &arguments.before {
            Some(before) => store.name(&arguments.namespace, before),
            None => published(&store, &to).await?,
        };
        let request = DiffRequest { from: Some(from.clone()), to: Some(to) };
        let calls = &mut store.calls;
        let diff = service::in_time(async { calls.diff(request).await.map_err(refused) });
        let mut files = match diff.await {
            Ok(answer) => answer.into_inner(),
            Err(error) => return failed(error),
        };
        while let Some(file) = service::in_time(async { files.message().await.map_err(refused) }).await? {
            // Users pipe the diff into programs such as `patch`, so a path must not lead out of the
            // folder.
            if let Err(error) = check(&file.path) {
                return failed(refused_name(&error));
            }
            let text = match (file.diff.is_empty(), file.change()) {
                (false, _) => shown(&file.diff).into_owned(),
                (true, FileChange::Added) => format!("{} is new\n", shown(&file.path)),
                (true, FileChange::Removed) => format!("{} is gone\n", shown(&file.path)),
                (true, _) => format!("binary file {} differs\n", shown(&file.path)),
            };
            stdout::write(&text);
        }
        Ok(Ending::Rendered)
    })
}

/// Finds the highest published revision of a package other than this one.
async fn published(store: &Store, of: &ObjectName) -> Result<ObjectName, LiveError> {
    let wanted = store.object(of).await?.spec;
    let api: Api<PackageRevision> = Api::namespaced(store.client.clone(), &of.namespace);
    let all = api.list(&ListParams::default()).await.map_err(|error| unread(&error))?;
    let is_one = |found: &&PackageRevision| {
        found.spec.repository == wanted.repository
            && found.spec.package_name == wanted.package_name
            && matches!(found.spec.lifecycle(), Some(Lifecycle::Published | Lifecycle::DeletionProposed))
            // A Porch server shows the head of a branch as published, but it is not a revision of
            // its own.
            && found.spec.revision != Some(PLACEHOLDER)
            && found.name_any() != of.name
    };
    let highest = all.items.iter().filter(is_one).max_by_key(|found| found.spec.revision);
    let highest = highest.ok_or_else(|| {
        LiveError::Refused(
            "no other revision of the package is published: name the revision to compare with".to_owned(),
        )
    })?;
    Ok(ObjectName { namespace: of.namespace.clone(), name: highest.name_any() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_knows_what_it_was_made_from() {
        let folder = tempfile::tempdir().unwrap();
        let name = ObjectName { namespace: "fleet".to_owned(), name: "edge.dns.v1".to_owned() };
        let mut files = PackageFiles::default();
        files.insert("Kptfile".to_owned(), b"kind: Kptfile\n".to_vec());
        files.insert("logo.png".to_owned(), vec![0xff]);
        let nothing = BTreeSet::new();
        write(folder.path(), &name, "refs/heads/drafts/dns/v1@0a", files.clone(), &nothing).unwrap();
        let origin = read_origin(folder.path()).unwrap();
        assert_eq!((origin.name, origin.version.as_str()), (name, "refs/heads/drafts/dns/v1@0a"));
        assert_eq!(origin.files.iter().collect::<Vec<_>>(), ["Kptfile", "logo.png"]);
        let mut read = package_folder::read(folder.path(), Links::Refuse).unwrap();
        read.remove(ORIGIN);
        assert_eq!(read, files);
        assert!(changed(&read, &files).is_empty());
        read.binaries.insert("logo.png".to_owned(), vec![0xfe]);
        assert_eq!(changed(&read, &files), ["logo.png"]);
        let other = tempfile::tempdir().unwrap();
        let error = read_origin(other.path()).err().unwrap().to_string();
        assert!(error.contains("was not written by `pull`"), "{error}");
    }
}
