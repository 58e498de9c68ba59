//! Packages from strangers, with file names that lead elsewhere: the service serves none of these
//! files, and the command writes no file outside of the user's folder (`packagevariants.md` 6.15).

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use anyhow::{Context, Result, ensure};
use futures::{Stream, StreamExt as _, stream};
use groundwork_api::{PackageRevision, Repository};
use groundwork_proto::packages::v1::packages_server::{Packages, PackagesServer};
use groundwork_proto::packages::v1::pull_response::Part;
use groundwork_proto::packages::v1::{
    CreateRequest, CreateResponse, DiffRequest, DiffResponse, File, PullRequest, PullResponse,
    PulledRevision, PushRequest, PushResponse,
};
use groundwork_testkit::{HostilePackage, Raw, RawTree, git, hostile_packages, publish_trees};
use groundwork_tests::wait_for;
use kube::ResourceExt;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status, Streaming};

use crate::case::Case;
use crate::command::run;
use crate::package_content::{FILES, Person};
use crate::packages::{CONFIG, KPTFILE, Remotes, register, system};
use crate::support::PATIENCE;

/// Working folder of a user, deep enough that names with `..` stay inside the test's folder.
struct Desk {
    folder: tempfile::TempDir,
}

impl Desk {
    fn new() -> Result<Self> {
        let desk = Self { folder: tempfile::tempdir()? };
        fs::create_dir_all(desk.work())?;
        Ok(desk)
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("a/b/c/work")
    }

    /// Returns a folder in which no file must appear.
    fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// Returns all files except those in the requested folders.
    fn strays(&self, asked: &[&Path]) -> Result<Vec<String>> {
        let mut found = Vec::new();
        let mut open = vec![self.folder.path().to_owned()];
        while let Some(folder) = open.pop() {
            for entry in fs::read_dir(&folder)? {
                let path = entry?.path();
                if asked.contains(&path.as_path()) {
                    continue;
                }
                if path.symlink_metadata()?.is_dir() {
                    open.push(path);
                } else {
                    found.push(path.strip_prefix(self.folder.path())?.display().to_string());
                }
            }
        }
        found.sort();
        Ok(found)
    }
}

fn good() -> RawTree {
    vec![(b"Kptfile".to_vec(), Raw::File(KPTFILE)), (b"config.yaml".to_vec(), Raw::File(CONFIG))]
}

/// A repository contains hostile packages and an ordinary one. The service reports the hostile
/// ones, and does not serve them.
#[tokio::test]
async fn a_repository_of_strangers_serves_what_is_good() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-names").await?;
    let desk = Desk::new()?;
    let remotes = Remotes::new()?;
    remotes.create("stranger")?;
    let packages = hostile_packages(&desk.outside());
    let good = good();
    let all = packages.iter().map(|package| (package.name.as_str(), &package.entries));
    let all: Vec<_> = all.chain([("good", &good)]).collect();
    publish_trees(&remotes.path("stranger"), &all)?;
    register(&case, &remotes, "stranger", false).await?;
    case.until::<PackageRevision>("the good one is served", "stranger.good.v1", |_| true)
        .await
        .map_err(|error| system.explained(error))?;
    let person = Person::new(&case, "author", desk.folder.path(), &[["get", FILES]]).await?;

    let message = told(&case).await?;
    let listed: Vec<String> =
        case.list::<PackageRevision>("").await?.iter().map(ResourceExt::name_any).collect();
    let mut wrong = Vec::new();
    for HostilePackage { name, refusal, is_named_so, .. } in &packages {
        let revision = format!("stranger.{name}.v1");
        if *is_named_so && listed.contains(&revision) {
            wrong.push(format!("{name} is listed"));
        }
        if *is_named_so && !message.contains(&format!("{name}/v1: ")) {
            wrong.push(format!("{name} is not told of"));
        }
        let folder = desk.work().join(name);
        let folder = folder.to_str().context("a path")?;
        let (code, text) = person.alone(&["pull", &revision, folder]).await?;
        if code == 0 || Path::new(folder).exists() {
            wrong.push(format!("{name} is pulled: {text}"));
        } else if !is_named_so && !text.contains(refusal) {
            wrong.push(format!("{name}: {text}"));
        }
    }
    let strays = desk.strays(&[&desk.folder.path().join("author.token")])?;
    ensure!(wrong.is_empty() && strays.is_empty(), "{wrong:#?}\nstrays: {strays:#?}\n{message}");

    let folder = desk.work().join("good");
    let (code, text) =
        person.alone(&["pull", "stranger.good.v1", folder.to_str().context("a path")?]).await?;
    ensure!(code == 0 && fs::read_to_string(folder.join("config.yaml"))? == CONFIG, "{code} {text}");
    Ok(())
}

/// Returns the message of the Repository about its packages.
async fn told(case: &Case<'_>) -> Result<String> {
    let what = "the Repository tells what is wrong";
    wait_for(what, PATIENCE, async || {
        let found: Repository = case.get("stranger").await.map_err(|error| error.to_string())?;
        let status = found.status.unwrap_or_default();
        let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
        ready.map(|condition| condition.message.clone()).ok_or_else(|| format!("{:?}", status.conditions))
    })
    .await
}

/// Hostile server, unlike our service, that returns the package with the requested number.
struct Stranger(Vec<Vec<String>>);

type Answers<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

impl Stranger {
    async fn start(packages: Vec<Vec<String>>) -> Result<String> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let server = Server::builder().add_service(PackagesServer::new(Self(packages)));
        tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
        Ok(format!("http://{address}"))
    }

    fn files(&self, name: &str) -> Result<Vec<String>, Status> {
        let number = name.rsplit_once(".v").and_then(|(_, number)| number.parse::<usize>().ok());
        let paths = number.and_then(|number| self.0.get(number)).cloned();
        paths.ok_or_else(|| Status::not_found(name.to_owned()))
    }
}

#[tonic::async_trait]
impl Packages for Stranger {
    type PullStream = Answers<PullResponse>;
    type DiffStream = Answers<DiffResponse>;

    async fn pull(&self, request: Request<PullRequest>) -> Result<Response<Self::PullStream>, Status> {
        let paths = self.files(&request.into_inner().revision.unwrap_or_default().name)?;
        let head = PulledRevision { version: "1".to_owned(), lifecycle: "Draft".to_owned() };
        let file = |path: String| {
            let content = if path == "Kptfile" { KPTFILE } else { "stranger\n" };
            Part::File(File { path, content: content.as_bytes().to_vec() })
        };
        let parts = std::iter::once(Part::Revision(head)).chain(paths.into_iter().map(file));
        let answers: Vec<_> = parts.map(|part| Ok(PullResponse { part: Some(part) })).collect();
        Ok(Response::new(stream::iter(answers).boxed()))
    }

    async fn push(
        &self,
        mut request: Request<Streaming<PushRequest>>,
    ) -> Result<Response<PushResponse>, Status> {
        while request.get_mut().message().await?.is_some() {}
        Ok(Response::new(PushResponse { version: "2".to_owned(), ..PushResponse::default() }))
    }

    async fn create(&self, _: Request<CreateRequest>) -> Result<Response<CreateResponse>, Status> {
        Err(Status::unimplemented("nothing is made here"))
    }

    async fn diff(&self, request: Request<DiffRequest>) -> Result<Response<Self::DiffStream>, Status> {
        let paths = self.files(&request.into_inner().to.unwrap_or_default().name)?;
        let difference = |path: String| DiffResponse { diff: format!("+++ b/{path}\n"), path, change: 1 };
        let answers: Vec<_> = paths.into_iter().map(|path| Ok(difference(path))).collect();
        Ok(Response::new(stream::iter(answers).boxed()))
    }
}

/// Collects the paths of a tree as a server without any checks would return them.
fn paths(entries: &[(Vec<u8>, Raw)], below: &str, found: &mut Vec<String>) {
    for (name, raw) in entries {
        let path = format!("{below}{}", String::from_utf8_lossy(name));
        match raw {
            Raw::Folder(entries) => paths(entries, &format!("{path}/"), found),
            _ => found.push(path),
        }
    }
}

/// The command rejects names that lead elsewhere, in every subcommand, whatever server it calls.
#[tokio::test]
async fn the_command_believes_no_server() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let desk = Desk::new()?;
    // A path in a message cannot express a name that is not UTF-8, an empty folder, or an entry
    // that is not a file. `a/b` is an ordinary name here.
    let sendable = |package: &HostilePackage| {
        let mut found = Vec::new();
        paths(&package.entries, "", &mut found);
        let is_hostile = found.iter().any(|path| path != "Kptfile" && path != "a/b");
        (package.is_named_so && package.refusal != "is not UTF-8" && is_hostile).then_some(found)
    };
    let mut packages: Vec<Vec<String>> =
        hostile_packages(&desk.outside()).iter().filter_map(sendable).collect();
    packages.push(vec!["Kptfile".to_owned(), ".KptRevisionMetadata/x".to_owned()]);
    // A diff may name two files that would collide in one folder, one before and one after the
    // change.
    let alone = |paths: &Vec<String>| {
        paths.iter().all(|path| !["kptfile", "A/c", "a.", "a"].contains(&path.as_str()))
    };
    let has_bad_name: Vec<bool> = packages[..packages.len() - 1]
        .iter()
        .map(|paths| alone(paths) && !paths.iter().any(|path| path.ends_with("\u{301}.yaml")))
        .chain([false])
        .collect();
    let server = Stranger::start(packages).await?;
    let mut wrong = Vec::new();
    for (number, has_bad_name) in has_bad_name.into_iter().enumerate() {
        let revision = format!("a.b.v{number}");
        let folder = desk.work().join(&revision);
        let place = folder.to_str().context("a path")?;
        let (code, out, err) =
            run(system, &["packages", "pull", &revision, place, "--server", &server]).await?;
        if code == 0 || folder.exists() || !err.contains('"') {
            wrong.push(format!("pull {number}: {code} {out}{err}"));
        }
        let (code, out, err) =
            run(system, &["packages", "diff", &revision, "a.b.v0", "--server", &server]).await?;
        if code == 0 && has_bad_name {
            wrong.push(format!("diff {number}: {code} {out}{err}"));
        }
    }
    let strays = desk.strays(&[])?;
    ensure!(wrong.is_empty() && strays.is_empty(), "{wrong:#?}\nstrays: {strays:#?}");
    Ok(())
}

/// Links in a folder make `pull` and `push` neither leave the folder nor read other files, and the
/// user's own files stay.
#[tokio::test]
async fn a_folder_with_links_is_pulled_into_and_pushed() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let desk = Desk::new()?;
    let package = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect::<Vec<_>>();
    let server = Stranger::start(vec![
        package(&["Kptfile", "config.yaml", "gone.yaml", "sub/a.yaml"]),
        package(&["Kptfile", "config.yaml", "sub/a.yaml"]),
        package(&["Kptfile", "hard.yaml"]),
    ])
    .await?;
    let folder = desk.work().join("p");
    let place = folder.to_str().context("a path")?;
    let pull =
        async |revision: &str| run(system, &["packages", "pull", revision, place, "--server", &server]).await;
    let (code, out, err) = pull("a.b.v0").await?;
    ensure!(code == 0 && folder.join("sub/a.yaml").is_file(), "{code} {out}{err}");

    let outside = desk.outside();
    fs::create_dir(&outside)?;
    for name in ["a.yaml", "config.yaml", "hard.yaml"] {
        fs::write(outside.join(name), "mine\n")?;
    }
    let untouched = || -> Result<()> {
        for name in ["a.yaml", "config.yaml", "hard.yaml"] {
            ensure!(fs::read_to_string(outside.join(name))? == "mine\n", "{name}");
        }
        ensure!(fs::read_dir(&outside)?.count() == 3);
        Ok(())
    };
    // `pull` replaces a link in the place of a file, keeps the user's own files, and removes files
    // that it wrote earlier and that are gone upstream.
    fs::remove_file(folder.join("config.yaml"))?;
    symlink(outside.join("config.yaml"), folder.join("config.yaml"))?;
    fs::write(folder.join("notes.txt"), "mine\n")?;
    fs::hard_link(outside.join("hard.yaml"), folder.join("hard.yaml"))?;
    let (code, out, err) = pull("a.b.v1").await?;
    ensure!(code == 0, "{code} {out}{err}");
    untouched()?;
    ensure!(fs::symlink_metadata(folder.join("config.yaml"))?.is_file());
    ensure!(fs::read_to_string(folder.join("notes.txt"))? == "mine\n" && !folder.join("gone.yaml").exists());

    // The command does not follow a link in the place of a folder, neither to write nor to remove
    // or read.
    fs::remove_dir_all(folder.join("sub"))?;
    symlink(&outside, folder.join("sub"))?;
    let (code, out, err) = pull("a.b.v1").await?;
    ensure!(code != 0 && err.contains("sub"), "{code} {out}{err}");
    untouched()?;
    let (code, out, err) = pull("a.b.v2").await?;
    ensure!(code == 0, "{code} {out}{err}");
    untouched()?;
    let (code, out, err) = run(system, &["packages", "push", place, "--server", &server]).await?;
    ensure!(code != 0 && err.contains("sub") && err.contains("cannot contain links"), "{code} {out}{err}");
    untouched()
}

/// A `.git` in a package could make git run programs. The command never writes one, and `git` in
/// the folder confirms that there is none.
#[tokio::test]
async fn no_settings_of_git_arrive() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let desk = Desk::new()?;
    let files = ["Kptfile", ".git/HEAD", ".git/config", ".git/objects/x", ".git/refs/x"];
    let server = Stranger::start(vec![files.map(str::to_owned).to_vec()]).await?;
    let folder = desk.work().join("p");
    let place = folder.to_str().context("a path")?;
    let (code, out, err) = run(system, &["packages", "pull", "a.b.v0", place, "--server", &server]).await?;
    ensure!(code != 0 && err.contains(".git"), "{code} {out}{err}");
    ensure!(git(&desk.work(), &["status"]).is_err() && desk.strays(&[])?.is_empty());
    Ok(())
}
