//! Work of users with packages on a Porch server: commands, and calls of the variant service
//! (`packagevariants.md` 6.2, 6.5 and 6.13), with the stand-in of [`crate::porch`].

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use groundwork_proto::packages::v1::push_request::Part;
use groundwork_proto::packages::v1::{
    CreateRequest, File, PullRequest, PushRequest, PushTarget, create_request,
};
use groundwork_tests::porch::{FAILING, Fault};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::grpc::told;
use crate::package_content::{FILES, Person};
use crate::packages::{CONFIG, KPTFILE};
use crate::porch::{Store, lifecycle, system, tasks};
use crate::porch_errors::fault;
use crate::rights::asked;

const REVISIONS: &str = "packagerevisions";
const UPSTREAM: &str = "catalog.net.coredns.v1";

/// Rights of a user who writes packages and makes no decisions.
const AUTHOR: [[&str; 2]; 7] = [
    ["get", FILES],
    ["update", FILES],
    ["get", REVISIONS],
    ["list", REVISIONS],
    ["create", REVISIONS],
    ["update", REVISIONS],
    ["delete", REVISIONS],
];
/// Rights of a user who makes decisions and writes no packages.
const APPROVER: [[&str; 2]; 2] = [["get", REVISIONS], ["update", "packagerevisions/approval"]];

/// Runs a command that must succeed, and returns its output.
async fn done(person: &Person<'_>, arguments: &[&str]) -> Result<String> {
    let (code, text) = person.alone(arguments).await?;
    ensure!(code == 0, "{arguments:?}: {code} {text}");
    Ok(text)
}

/// Runs a command that must fail with these words.
async fn fails(person: &Person<'_>, arguments: &[&str], words: &str) -> Result<()> {
    let (code, text) = person.alone(arguments).await?;
    ensure!(code == 1 && text.contains(words), "{arguments:?}: {code} {text}");
    Ok(())
}

/// Clone, pull, push, diff, list and get: no concurrent work is overwritten, and content that the
/// server cannot store is rejected.
#[tokio::test(flavor = "multi_thread")]
async fn packages_are_written_from_a_folder() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-folder", true).await?;
    let folder = tempfile::tempdir()?;
    let author = Person::new(&store.case, "author", folder.path(), &AUTHOR).await?;
    let clone = ["clone", UPSTREAM, "--repository", "edge", "--package", "dns"];
    let text = done(&author, &clone).await.map_err(|error| store.case.system.explained(error))?;
    ensure!(text == "edge.dns.v1 Draft\n", "{text}");
    let draft = store.revision("edge.dns.v1").context("a draft")?;
    ensure!(tasks(&draft) == ["clone"] && draft["metadata"].get("annotations").is_none(), "{draft}");
    ensure!(draft["metadata"].get("ownerReferences").is_none(), "it is a person's: {draft}");
    fails(&author, &clone, "already exists").await?;

    let copy = folder.path().join("dns");
    let path = copy.to_str().context("a path")?;
    let text = done(&author, &["pull", "edge.dns.v1", path]).await?;
    ensure!(text.starts_with("edge.dns.v1 Draft: 3 files"), "{text}");
    let config = copy.join("config.yaml");
    fs::write(&config, fs::read_to_string(&config)?.replace("example.org", "edge.example.org"))?;
    let text = done(&author, &["push", path]).await?;
    ensure!(text == "edge.dns.v1 written\n", "{text}");
    ensure!(store.file("edge.dns.v1", "config.yaml")?.contains("edge.example.org"));
    let writes = store.server.writes("porch-folder").len();
    let text = done(&author, &["push", path]).await?;
    ensure!(text == "edge.dns.v1: no file differs\n", "{text}");
    fs::write(copy.join("logo.bin"), [0xff, 0x00, 0xfe])?;
    fails(&author, &["push", path], "\"logo.bin\" is not UTF-8 text").await?;
    fs::remove_file(copy.join("logo.bin"))?;
    fs::remove_file(copy.join("Kptfile"))?;
    fails(&author, &["push", path], "must contain Kptfile").await?;
    ensure!(store.server.writes("porch-folder").len() == writes, "nothing was written");

    // Another user saves the package meanwhile.
    store.edit("edge.dns.v1", "config.yaml", |text| text.replace("\"30\"", "\"60\"")).await?;
    fs::write(copy.join("Kptfile"), store.file("edge.dns.v1", "Kptfile")?)?;
    fails(&author, &["push", path], "the object has been modified").await?;
    let text = done(&author, &["diff", "edge.dns.v1", UPSTREAM]).await?;
    ensure!(text.contains("+  cache: \"60\"") && text.contains("-  cache: \"30\""), "{text}");
    ensure!(text.contains("+++ edge.dns.v1/config.yaml"), "{text}");

    let text = done(&author, &["list", "--repository", "edge", "-o", "json"]).await?;
    let list: Value = serde_json::from_str(&text)?;
    ensure!(
        list["items"][0]["kind"] == "PackageRevision"
            && list["items"].as_array().is_some_and(|all| all.len() == 1),
        "{list}"
    );
    let text = done(&author, &["list"]).await?;
    ensure!(text.contains("edge.dns.v1") && text.contains(UPSTREAM), "{text}");
    let text = done(&author, &["get", "edge.dns.v1"]).await?;
    ensure!(
        text.contains("novel: members that nobody knows"),
        "what this version does not know is shown: {text}"
    );
    fails(&author, &["pull", "edge.dns.v9", path], "not found").await
}

/// Users create packages from scratch and request merges (`packagevariants.md` 6.6). An impossible
/// merge is rejected without a draft.
#[tokio::test(flavor = "multi_thread")]
async fn packages_begin_and_go_on_by_hand() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-tasks", true).await?;
    let folder = tempfile::tempdir()?;
    let author = Person::new(&store.case, "author", folder.path(), &AUTHOR).await?;
    let made = |name: &str| -> Result<Vec<String>> {
        let revision = store.revision(name).with_context(|| format!("{name} is there"))?;
        Ok(tasks(&revision).into_iter().map(str::to_owned).collect())
    };
    let init = ["init", "net/ntp", "--repository", "edge", "--description", "Time", "--keyword", "clock"];
    let text = done(&author, &init).await?;
    ensure!(text == "edge.net.ntp.v1 Draft\n" && made("edge.net.ntp.v1")? == ["init"], "{text}");
    ensure!(store.file("edge.net.ntp.v1", "Kptfile")?.contains("description: Time"));
    fails(&author, &["init", "net/ntp/sub", "--repository", "edge"], "packages cannot be nested").await?;
    fails(&author, &["init", "time", "--repository", "nowhere"], "repository \"nowhere\" not found").await?;

    done(&author, &["clone", UPSTREAM, "--repository", "edge", "--package", "dns"]).await?;
    fails(&author, &["copy", "edge.dns.v1", "--workspace", "v2"], "source revision must be published")
        .await?;
    store.set_lifecycle("edge.dns.v1", "Proposed", false).await?;
    store.set_lifecycle("edge.dns.v1", "Published", true).await?;
    let text = done(&author, &["copy", "edge.dns.v1", "--workspace", "v2"]).await?;
    ensure!(text == "edge.dns.v2 Draft\n" && made("edge.dns.v2")? == ["edit"], "{text}");
    store.edit("edge.dns.v2", "config.yaml", |text| text.replace("example.org", "edge.example.org")).await?;
    // Without a second name, the command compares with the published revision.
    let text = done(&author, &["diff", "edge.dns.v2"]).await?;
    ensure!(
        text.contains("--- edge.dns.v1/config.yaml") && text.contains("+  zone: edge.example.org"),
        "{text}"
    );

    store.publish("v2", &CONFIG.replace("\"30\"", "\"60\""))?;
    let upgrade = |revision: &'static str, upstream: &'static str| {
        ["upgrade", revision, "--upstream", upstream, "--workspace", "v3"]
    };
    let next = "catalog.net.coredns.v2";
    fails(&author, &upgrade("edge.dns.v1", "catalog.net.coredns.v9"), "does not exist").await?;
    fails(&author, &upgrade("edge.dns.v2", next), "must be published").await?;
    fails(&author, &upgrade(UPSTREAM, next), "cannot find the upstream revision").await?;
    let text = done(&author, &upgrade("edge.dns.v1", next)).await?;
    ensure!(text == "edge.dns.v3 Draft\n" && made("edge.dns.v3")? == ["upgrade"], "{text}");
    ensure!(store.file("edge.dns.v3", "config.yaml")?.contains("cache: \"60\""));
    ensure!(store.server.names("porch-tasks").len() == 6, "{:?}", store.server.names("porch-tasks"));

    // Revisions of a repository that the server has not read are missing in its lists.
    store.set_ready("edge", false).await?;
    fails(
        &author,
        &["init", "time", "--repository", "edge"],
        "repository \"edge\" is not ready: said by the server",
    )
    .await
}

/// Each decision needs the rights of its user, and an approval needs a right of its own
/// (`packagevariants.md` 6.5).
#[tokio::test(flavor = "multi_thread")]
async fn people_decide_with_rights_of_their_own() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-decisions", true).await?;
    let folder = tempfile::tempdir()?;
    let author = Person::new(&store.case, "author", folder.path(), &AUTHOR).await?;
    let approver = Person::new(&store.case, "approver", folder.path(), &APPROVER).await?;
    let name = "edge.dns.v1";
    let path = folder.path().join("dns");
    let path = path.to_str().context("a path")?;
    done(&author, &["clone", UPSTREAM, "--repository", "edge", "--package", "dns"]).await?;
    done(&author, &["pull", name, path]).await?;
    fails(&approver, &["approve", name], "propose it first").await?;
    fails(&approver, &["propose", name], "cannot update resource \"packagerevisions\"").await?;
    let says = async |person: &Person<'_>, verb: &str, stage: &str| {
        let text = done(person, &[verb, name]).await?;
        ensure!(text == format!("{name} {stage}\n"), "{text}");
        let revision = store.revision(name);
        ensure!(revision.as_ref().is_none_or(|found| lifecycle(found) == stage), "{revision:?}");
        Ok(())
    };
    says(&author, "propose", "Proposed").await?;
    says(&author, "propose", "Proposed").await?;
    let config = Path::new(path).join("config.yaml");
    fs::write(&config, fs::read_to_string(&config)?.replace("example.org", "edge.example.org"))?;
    fails(
        &author,
        &["push", path],
        "package must be Draft (`reject` makes a proposed revision a draft again",
    )
    .await?;
    for verb in ["approve", "reject"] {
        fails(&author, &[verb, name], "cannot update resource \"packagerevisions/approval\"").await?;
    }
    says(&approver, "reject", "Draft").await?;
    says(&author, "propose", "Proposed").await?;
    says(&approver, "approve", "Published").await?;
    let approved = store.revision(name).context("it is there")?;
    ensure!(approved["spec"]["revision"] == 1, "{approved}");
    fails(&author, &["delete", name], "use `propose-deletion` first").await?;
    says(&author, "propose-deletion", "DeletionProposed").await?;
    says(&approver, "reject", "Published").await?;
    says(&author, "propose-deletion", "DeletionProposed").await?;
    fails(&approver, &["delete", name], "cannot delete resource \"packagerevisions\"").await?;
    says(&author, "delete", "deleted").await?;
    ensure!(store.revision(name).is_none());
    fails(&author, &["delete", name], "package revision edge.dns.v1 does not exist").await?;
    // The service's own account takes no part in these decisions.
    let (used, _) = asked(store.case.system)?;
    let decided = |(service, _, resource): &&(String, String, String)| {
        service == "variant" && resource == "packagerevisions/approval"
    };
    ensure!(used.iter().find(decided).is_none(), "{used:?}");
    Ok(())
}

/// Decisions with conflicts, with server errors, and with lost answers.
#[tokio::test(flavor = "multi_thread")]
async fn decisions_that_meet_errors() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-decided", true).await?;
    let folder = tempfile::tempdir()?;
    let author = Person::new(&store.case, "author", folder.path(), &AUTHOR).await?;
    let name = "edge.dns.v1";
    done(&author, &["clone", UPSTREAM, "--repository", "edge", "--package", "dns"]).await?;
    let put =
        |status: u16, text: &str| fault(&store, "PUT", &format!("packagerevisions/{name}"), status, text);
    let failed = "Internal error occurred: push failed after 3 attempts";
    store.server.fail(put(500, failed));
    fails(&author, &["propose", name], "push failed after 3 attempts (try again later").await?;
    let (_, text) = {
        store.server.fail(put(410, "the repository is served as v1alpha2"));
        author.alone(&["propose", name]).await?
    };
    ensure!(text.contains("v1alpha2 (Groundwork uses v1alpha1"), "{text}");
    // After a conflict the command decides again on the new state. A decision whose answer is lost
    // counts as done.
    store.server.fail(put(500, "Internal error occurred: the object has been modified; please apply"));
    store.server.fail(Fault { is_done: true, is_lasting: true, ..put(504, "Timeout: cut") });
    let text = done(&author, &["propose", name]).await?;
    ensure!(text == "edge.dns.v1 Proposed\n", "{text}");
    ensure!(store.server.mend(&store.case.namespace) == 1);

    // Users cannot decide on a draft that its variant has not completed.
    let mut revision = store.revision(name).context("it is there")?;
    revision["spec"]["lifecycle"] = json!("Draft");
    revision["metadata"]["annotations"] = json!({"groundwork/unfinished": "true"});
    store.ask(http::Method::PUT, REVISIONS, name, Some(revision)).await?;
    fails(&author, &["propose", name], "its package variant is still writing it").await?;
    let revision = store.revision(name).context("it is there")?;
    ensure!(lifecycle(&revision) == "Draft", "{revision}");
    let referenced = "packagerevisions \"x\" is forbidden: it is referenced as upstream by edge.other.w";
    store.server.fail(fault(&store, "DELETE", name, 403, referenced));
    fails(
        &author,
        &["delete", name],
        "edge.other.w (first delete the package revisions that were made from it)",
    )
    .await
}

/// Each call requires the rights that the Porch server would require from the caller.
#[tokio::test(flavor = "multi_thread")]
async fn calls_are_for_those_who_may() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-callers", true).await?;
    let folder = tempfile::tempdir()?;
    let nobody = Person::new(&store.case, "nobody", folder.path(), &[]).await?;
    let reader = Person::new(&store.case, "reader", folder.path(), &[["get", FILES]]).await?;
    let maker = Person::new(&store.case, "maker", folder.path(), &[["create", REVISIONS]]).await?;
    let denied = (Code::PermissionDenied, "ACCESS_DENIED".to_owned());
    let pull = |person: &Person<'_>| PullRequest { revision: Some(person.name(UPSTREAM)) };
    let status = nobody.calls()?.pull(pull(&nobody)).await.unwrap_err();
    ensure!(told(&status) == denied, "{status:?}");
    reader.calls()?.pull(pull(&reader)).await?;
    let status =
        reader.calls()?.push(files(&store, UPSTREAM, "x", &[("Kptfile", KPTFILE)])).await.unwrap_err();
    ensure!(told(&status) == denied, "{status:?}");
    // The creation of a draft requires the right to read its upstream.
    for person in [&reader, &maker] {
        let status = person.calls()?.create(cloned(&store, "dns")).await.unwrap_err();
        ensure!(told(&status) == denied, "{status:?}");
    }
    ensure!(store.server.writes("porch-callers").is_empty(), "{:#?}", store.server.writes("porch-callers"));
    Ok(())
}

fn cloned(store: &Store<'_>, package: &str) -> CreateRequest {
    CreateRequest {
        namespace: store.case.namespace.clone(),
        repository: "edge".to_owned(),
        package: package.to_owned(),
        workspace: "v1".to_owned(),
        source: Some(create_request::Source::Clone(UPSTREAM.to_owned())),
    }
}

fn files(
    store: &Store<'_>,
    name: &str,
    version: &str,
    files: &[(&str, &str)],
) -> impl futures::Stream<Item = PushRequest> + use<> {
    let namespace = store.case.namespace.clone();
    let revision = groundwork_proto::component::v1::ObjectName { namespace, name: name.to_owned() };
    let target = PushTarget { revision: Some(revision), version: version.to_owned() };
    let files = files.iter().map(|(path, text)| File { path: (*path).to_owned(), content: (*text).into() });
    let files = files.map(|file| PushRequest { part: Some(Part::File(file)) });
    let first = PushRequest { part: Some(Part::Target(target)) };
    futures::stream::iter(std::iter::once(first).chain(files).collect::<Vec<_>>())
}

/// Error codes that callers get for the rows of the table, and the calls that succeed nevertheless
/// (`packagevariants.md` 6.13).
#[tokio::test(flavor = "multi_thread")]
async fn errors_of_the_server_have_codes() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-codes", true).await?;
    let folder = tempfile::tempdir()?;
    let author = Person::new(&store.case, "author", folder.path(), &AUTHOR).await?;
    let is = |status: &Status, code: Code, reason: &str, words: &str| {
        let is_so = told(status) == (code, reason.to_owned()) && status.message().contains(words);
        ensure!(is_so && !status.message().contains("Internal error occurred"), "{words}: {status:?}");
        Ok(())
    };
    let (refused, exists, away) = ("PACKAGE_REFUSED", "PACKAGE_EXISTS", "PACKAGE_STORE_UNAVAILABLE");
    let modified = "Internal error occurred: the object has been modified; please apply your changes";
    for (status, text, code, reason, words) in [
        (
            500,
            "`clone` cannot create a new revision for package",
            Code::AlreadyExists,
            exists,
            "`clone` cannot",
        ),
        (
            500,
            "package revision workspaceNames must be unique",
            Code::AlreadyExists,
            exists,
            "use another workspace",
        ),
        (
            500,
            "Internal error occurred: fn.render: no such image",
            Code::FailedPrecondition,
            "RENDER_FAILED",
            "no such image",
        ),
        (500, "task list must contain exactly 1 task", Code::FailedPrecondition, refused, "exactly 1 task"),
        (
            403,
            "User \"x\" cannot create resource",
            Code::PermissionDenied,
            "FORBIDDEN",
            "cannot create resource",
        ),
        (410, "the repository is served as v1alpha2", Code::Unavailable, away, "Groundwork uses v1alpha1"),
        (422, "spec.tasks: Invalid value", Code::FailedPrecondition, refused, "spec.tasks: Invalid value"),
        (
            500,
            "Internal error occurred: push failed",
            Code::Unavailable,
            away,
            "push failed (try again later",
        ),
        (500, modified, Code::Aborted, "PACKAGE_REVISION_CHANGED", "read it again"),
    ] {
        store.server.fail(fault(&store, "POST", "/packagerevisions", status, text));
        let found = author.calls()?.create(cloned(&store, "dns")).await.unwrap_err();
        is(&found, code, reason, words)?;
    }
    ensure!(store.revision("edge.dns.v1").is_none() && store.server.mend("porch-codes") == 0);
    // The server is busy for a moment, and then its answer is lost.
    store.server.fail(fault(
        &store,
        "POST",
        "/packagerevisions",
        409,
        "another request is already in progress",
    ));
    let cut = fault(&store, "POST", "/packagerevisions", 504, "Timeout: cut");
    store.server.fail(Fault { is_done: true, is_lasting: true, ..cut });
    let made = author.calls()?.create(cloned(&store, "dns")).await?.into_inner();
    ensure!(store.server.mend("porch-codes") == 1 && made.version.starts_with("c0"), "{made:?}");

    let failing = format!("{KPTFILE}pipeline:\n  mutators:\n  - image: {FAILING}\n");
    let status = author
        .calls()?
        .push(files(&store, "edge.dns.v1", &made.version, &[("Kptfile", &failing)]))
        .await
        .unwrap_err();
    is(&status, Code::FailedPrecondition, "RENDER_FAILED", "exit status 1")?;
    ensure!(!status.message().contains("NOT pushed"), "the words of the function alone: {status:?}");
    for (files_of_it, words) in
        [(&[("Kptfile", KPTFILE), ("../x", "y")][..], "../x"), (&[("x", "y")][..], "Kptfile")]
    {
        let status =
            author.calls()?.push(files(&store, "edge.dns.v1", &made.version, files_of_it)).await.unwrap_err();
        is(&status, Code::FailedPrecondition, refused, words)?;
    }
    let path = format!("{FILES}/edge.dns.v1");
    let not_draft = "Internal error occurred: cannot update a package revision with lifecycle value \"Draft\"; package must be Draft";
    for text in [modified, not_draft] {
        store.server.fail(fault(&store, "PUT", &path, 500, text));
        let status = author
            .calls()?
            .push(files(&store, "edge.dns.v1", &made.version, &[("Kptfile", KPTFILE)]))
            .await
            .unwrap_err();
        is(&status, Code::Aborted, "PACKAGE_REVISION_CHANGED", "the object has been modified")?;
    }
    // The save succeeds, but its answer is lost.
    store.server.fail(Fault {
        is_done: true,
        is_lasting: true,
        ..fault(&store, "PUT", &path, 504, "Timeout: cut")
    });
    let pushed = author
        .calls()?
        .push(files(&store, "edge.dns.v1", &made.version, &[("Kptfile", KPTFILE)]))
        .await?
        .into_inner();
    ensure!(pushed.version != made.version && store.server.mend("porch-codes") == 1, "{pushed:?}");
    let gone = PullRequest { revision: Some(author.name("edge.dns.v9")) };
    let status = author.calls()?.pull(gone).await.unwrap_err();
    is(&status, Code::NotFound, "PACKAGE_NOT_FOUND", "\"edge.dns.v9\" not found")
}

/// With the annotation, a draft takes files that cannot be rendered, and the user who pushes them
/// gets the reason (`packagevariants.md` 8.1).
#[tokio::test(flavor = "multi_thread")]
async fn files_that_cannot_be_rendered_are_kept_if_asked_for() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-unrendered", true).await?;
    let folder = tempfile::tempdir()?;
    let author = Person::new(&store.case, "author", folder.path(), &AUTHOR).await?;
    let path = folder.path().join("dns");
    let path = path.to_str().context("a path")?;
    done(&author, &["clone", UPSTREAM, "--repository", "edge", "--package", "dns"]).await?;
    done(&author, &["pull", "edge.dns.v1", path]).await?;
    let mut revision = store.revision("edge.dns.v1").context("it is there")?;
    revision["metadata"]["annotations"] = json!({"porch.kpt.dev/push-on-render-failure": "true"});
    store.ask(http::Method::PUT, REVISIONS, "edge.dns.v1", Some(revision)).await?;
    let kptfile = Path::new(path).join("Kptfile");
    let failing = format!("{}pipeline:\n  mutators:\n  - image: {FAILING}\n", fs::read_to_string(&kptfile)?);
    fs::write(&kptfile, failing)?;
    fails(
        &author,
        &["push", path],
        &format!("the package was written, but its functions failed: {FAILING}: exit status 1"),
    )
    .await?;
    ensure!(store.file("edge.dns.v1", "Kptfile")?.contains(FAILING));
    Ok(())
}
