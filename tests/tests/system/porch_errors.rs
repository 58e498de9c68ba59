//! Errors of a Porch server and their effects (`packagevariants.md` 2.6, 2.14 and 6.13), with the
//! stand-in of [`crate::porch`].

use anyhow::{Context, Result, ensure};
use groundwork_api::PackageVariant;
use groundwork_tests::porch::{FAILING, Fault};
use serde_json::json;

use crate::case::Case;
use crate::packages::{ready, told, variant};
use crate::porch::{DRAFT, Store, reason, system};

pub(crate) fn fault(
    store: &Store<'_>,
    method: &'static str,
    path: &str,
    status: u16,
    message: &str,
) -> Fault {
    let namespace = store.case.namespace.clone();
    Fault {
        namespace,
        method,
        path: path.to_owned(),
        status,
        message: message.to_owned(),
        ..Fault::default()
    }
}

/// Waits until a condition of a variant has this reason and message.
async fn until_told(case: &Case<'_>, name: &str, wanted: (&str, &str)) -> Result<PackageVariant> {
    let (reason, text) = wanted;
    let is_told = |variant: &PackageVariant| {
        told(variant, "Ready").is_some_and(|(_, found, message)| found == reason && message.contains(text))
    };
    case.until(&format!("{name} tells of {wanted:?}"), name, is_told).await
}

/// For each row of the table of errors, on a create: the variant reports the error, and proceeds
/// once it is gone.
#[tokio::test(flavor = "multi_thread")]
async fn errors_are_told_and_overcome() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-errors", false).await?;
    let case = &store.case;
    let modified = "Internal error occurred: the object has been modified; please apply your changes";
    for (package, status, text, expected) in [
        (
            "exists",
            500,
            "`clone` cannot create a new revision for package",
            Some(("DownstreamExists", "that already exists in repo")),
        ),
        (
            "renders",
            500,
            "Internal error occurred: fn.render: no such image",
            Some(("RenderFailed", "no such image")),
        ),
        (
            "permanent",
            500,
            "task list must contain exactly 1 task",
            Some(("Error", "must contain exactly 1 task")),
        ),
        (
            "denied",
            403,
            "User \"x\" cannot create resource",
            Some(("StoreUnavailable", "cannot create resource")),
        ),
        ("moved", 410, "the repository is served as v1alpha2", Some(("StoreUnavailable", "v1alpha2"))),
        ("invalid", 422, "spec.tasks: Invalid value", Some(("Error", "spec.tasks: Invalid value"))),
        ("away", 503, "the server is currently unable to handle the request", None),
        ("other", 500, "Internal error occurred: push failed after 3 attempts", None),
        ("busy", 409, "another request is already in progress on package", None),
        ("conflict", 500, modified, None),
        ("taken", 500, "package revision workspaceNames must be unique", None),
    ] {
        // An expected error lasts until the test ends it. Otherwise a late event about a Repository
        // could cause a retry before the test has seen the error.
        let is_lasting = expected.is_some();
        store.server.fail(Fault { is_lasting, ..fault(&store, "POST", "/packagerevisions", status, text) });
        let downstream = json!({"downstream": {"repo": "edge", "package": package}});
        case.create::<PackageVariant>(package, &variant(&downstream)).await?;
        if let Some(expected) = expected {
            until_told(case, package, expected).await?;
            ensure!(store.revision(&format!("edge.{package}.packagevariant-1")).is_none(), "{package}");
            ensure!(store.server.mend(&case.namespace) == 1, "{package}");
            case.change::<PackageVariant>(package, &json!({"spec": {"labels": {"another": "attempt"}}}))
                .await?;
        }
        ready(case, package, &[&format!("edge.{package}.packagevariant-1")]).await?;
    }
    ensure!(store.server.mend(&case.namespace) == 0);
    Ok(())
}

/// The service rejects nested packages itself, since the server does not do so reliably
/// (`packagevariants.md` 6.13).
#[tokio::test(flavor = "multi_thread")]
async fn packages_do_not_nest() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-nested", true).await?;
    let case = &store.case;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(case, "dns", &[DRAFT]).await?;
    let inner = json!({"downstream": {"repo": "edge", "package": "dns/inner"}});
    case.create::<PackageVariant>("inner", &variant(&inner)).await?;
    until_told(case, "inner", ("Error", "packages cannot be nested")).await?;
    let names = store.server.names("porch-nested");
    ensure!(names == ["catalog.net.coredns.v1", DRAFT], "{names:?}");
    Ok(())
}

/// A create whose answer is lost has happened, so the service does not create a second draft.
#[tokio::test(flavor = "multi_thread")]
async fn a_lost_answer_makes_no_second_draft() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-lost", true).await?;
    let case = &store.case;
    let timeout = "Timeout: request did not complete within requested timeout";
    for (method, path) in
        [("POST", "/packagerevisions"), ("PUT", "packagerevisionresources/edge.dns.packagevariant-1")]
    {
        store.server.fail(Fault { is_done: true, ..fault(&store, method, path, 504, timeout) });
    }
    let context = json!({"packageContext": {"data": {"site": "edge-7"}}});
    case.create::<PackageVariant>("dns", &variant(&context)).await?;
    ready(case, "dns", &[DRAFT]).await?;
    let names = store.server.names("porch-lost");
    ensure!(
        names == ["catalog.net.coredns.v1", DRAFT] && store.server.mend(&case.namespace) == 0,
        "{names:?}"
    );
    let draft = store.revision(DRAFT).context("a draft")?;
    ensure!(draft["metadata"]["annotations"].get("groundwork/unfinished").is_none(), "{draft}");
    ensure!(store.file(DRAFT, "package-context.yaml")?.contains("site: edge-7"));
    Ok(())
}

/// A change that cannot be made prevents the draft, and a draft that can no longer be completed is
/// deleted (`packagevariants.md` 2.6).
#[tokio::test(flavor = "multi_thread")]
async fn no_half_made_draft_is_left() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    // Clones into this repository have no package context, so the change of the context is
    // impossible.
    let store = Store::new(both, "porch-half", false).await?;
    let case = &store.case;
    let context = json!({"packageContext": {"data": {"site": "edge-7"}}});
    case.create::<PackageVariant>("none", &variant(&context)).await?;
    until_told(case, "none", ("PackageContextError", "package-context.yaml")).await?;
    ensure!(store.server.writes("porch-half").is_empty(), "{:#?}", store.server.writes("porch-half"));
    case.delete::<PackageVariant>("none").await?;
    case.gone::<PackageVariant>("none").await?;

    // The save of the variant's changes fails, so the draft stays marked as unfinished. Then a
    // change makes its completion impossible.
    let labels = json!({"name": "tier", "image": "example.org/set-labels:v1", "configMap": {"tier": "edge"}});
    let path = format!("packagerevisionresources/{DRAFT}");
    let save = fault(&store, "PUT", &path, 422, "files: Invalid value");
    store.server.fail(Fault { is_lasting: true, ..save });
    case.create::<PackageVariant>("dns", &variant(&json!({"pipeline": {"mutators": [labels]}}))).await?;
    until_told(case, "dns", ("Error", "files: Invalid value")).await?;
    let draft = store.revision(DRAFT).context("a draft")?;
    ensure!(draft["metadata"]["annotations"]["groundwork/unfinished"] == "true", "{draft}");
    case.change::<PackageVariant>("dns", &json!({"spec": context})).await?;
    until_told(case, "dns", ("PackageContextError", "package-context.yaml")).await?;
    store.until("the draft is gone", |store| store.revision(DRAFT).is_none()).await?;

    // Without that change the draft is created again, and completed.
    store.server.mend(&case.namespace);
    case.change::<PackageVariant>("dns", &json!({"spec": {"packageContext": null}})).await?;
    ready(case, "dns", &[DRAFT]).await?;
    let draft = store.revision(DRAFT).context("a draft")?;
    ensure!(draft["metadata"]["annotations"].get("groundwork/unfinished").is_none(), "{draft}");
    Ok(())
}

/// The message of a failed function is reported, and the draft stays as it was. With the annotation
/// the draft takes the content all the same (`packagevariants.md` 8.1).
#[tokio::test(flavor = "multi_thread")]
async fn renderings_that_fail() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-render", true).await?;
    let case = &store.case;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(case, "dns", &[DRAFT]).await?;
    let failing = json!({"spec": {"pipeline": {"mutators": [{"name": "bad", "image": FAILING}]}}});
    case.change::<PackageVariant>("dns", &failing).await?;
    let said = until_told(case, "dns", ("RenderFailed", "exit status 1")).await?;
    let (_, _, message) = told(&said, "Ready").context("a condition")?;
    ensure!(!message.contains("NOT pushed"), "the words of the function alone: {message}");
    let status = said.status.unwrap_or_default();
    let rendered = status.downstream_targets.first().and_then(|target| target.render_status.clone());
    ensure!(rendered.and_then(|status| status.error).is_some_and(|error| error.contains("exit status 1")));
    ensure!(!store.file(DRAFT, "Kptfile")?.contains(FAILING));
    case.change::<PackageVariant>("dns", &json!({"spec": {"pipeline": null}})).await?;
    ready(case, "dns", &[DRAFT]).await?;
    Ok(())
}

/// A draft that a user proposes between the service's read and save is left alone. After a version
/// conflict the service decides again (`packagevariants.md` 6.13).
#[tokio::test(flavor = "multi_thread")]
async fn saves_that_meet_others() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-saves", true).await?;
    let case = &store.case;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(case, "dns", &[DRAFT]).await?;
    let path = format!("packagerevisionresources/{DRAFT}");
    let site = |site: &str| json!({"spec": {"packageContext": {"data": {"site": site}}}});
    for (site_of, text) in [
        ("a", "Internal error occurred: the object has been modified; please apply"),
        (
            "b",
            "Internal error occurred: cannot update a package revision with lifecycle value \"Draft\"; package must be Draft",
        ),
    ] {
        store.server.fail(fault(&store, "PUT", &path, 500, text));
        case.change::<PackageVariant>("dns", &site(site_of)).await?;
        ready(case, "dns", &[DRAFT]).await?;
        ensure!(store.file(DRAFT, "package-context.yaml")?.contains(&format!("site: {site_of}")));
    }
    ensure!(store.server.mend(&case.namespace) == 0);
    Ok(())
}

/// The service does not decide on a repository that the server has not read, deletes a variant only
/// after the server's answer, and keeps revisions that are the upstream of others
/// (`packagevariants.md` 6.13).
#[tokio::test(flavor = "multi_thread")]
async fn deletions_wait_for_the_server() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-deletions", true).await?;
    let case = &store.case;
    store.set_ready("edge", false).await?;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    until_told(case, "dns", ("StoreUnavailable", "repository \"edge\" is not ready: said by the server"))
        .await?;
    ensure!(store.server.writes("porch-deletions").is_empty());
    store.set_ready("edge", true).await?;
    ready(case, "dns", &[DRAFT]).await?;

    store.set_ready("edge", false).await?;
    until_told(case, "dns", ("StoreUnavailable", "is not ready")).await?;
    case.delete::<PackageVariant>("dns").await?;
    let is_going = |variant: &PackageVariant| {
        variant.metadata.deletion_timestamp.is_some() && reason_is(variant, "StoreUnavailable")
    };
    case.until("the variant waits", "dns", is_going).await?;
    ensure!(store.revision(DRAFT).is_some(), "nothing was deleted");
    let referenced = "packagerevisions \"x\" is forbidden: it is referenced as upstream by edge.other.w";
    store.server.fail(Fault { is_lasting: true, ..fault(&store, "DELETE", DRAFT, 403, referenced) });
    store.set_ready("edge", true).await?;
    let is_blocked = |variant: &PackageVariant| {
        let (_, _, message) = told_at_all(variant);
        reason_is(variant, "DeletionBlocked") && message == format!("cannot delete {DRAFT:?}: {referenced}")
    };
    case.until("the deletion is blocked", "dns", is_blocked).await?;
    // The deletion of the other variant removes the obstacle.
    ensure!(store.server.mend("porch-deletions") == 1);
    store.set_ready("edge", false).await?;
    store.set_ready("edge", true).await?;
    case.gone::<PackageVariant>("dns").await?;
    ensure!(store.revision(DRAFT).is_none());
    Ok(())
}

fn told_at_all(variant: &PackageVariant) -> (String, String, String) {
    let status = variant.status.clone().unwrap_or_default();
    let found = status.conditions.iter().find(|found| found.type_ == "Ready").cloned();
    found.map(|found| (found.status, found.reason, found.message)).unwrap_or_default()
}

fn reason_is(variant: &PackageVariant, wanted: &str) -> bool {
    told_at_all(variant).1 == wanted
}

/// If git is not available, and no revision contains the base any more, the variant reports this
/// and creates no draft (`packagevariants.md` 2.8).
#[tokio::test(flavor = "multi_thread")]
async fn a_base_that_is_gone_is_told() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-base", true).await?;
    let case = &store.case;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(case, "dns", &[DRAFT]).await?;
    let elsewhere = |text: &str| -> String {
        let commit = text.lines().rfind(|line| line.trim().starts_with("commit:")).unwrap_or_default();
        text.replace(commit, "    commit: feedfacefeedfacefeedfacefeedfacefeedface")
            .replace("net/coredns/v1", "net/coredns/v9")
    };
    store.edit(DRAFT, "Kptfile", elsewhere).await?;
    let told = until_told(
        case,
        "dns",
        ("UpgradeBaseMissing", "cannot find the upstream revision \"net/coredns/v9\""),
    )
    .await?;
    ensure!(reason(&told) == "UpgradeBaseMissing");
    // Porch clones the head of a branch for every upstream that has a `revision` and no
    // `workspaceName`, and calls the result up to date for ever.
    let of_branch = |text: &str| -> String { text.replace("net/coredns/v9", "main") };
    store.edit(DRAFT, "Kptfile", of_branch).await?;
    case.until("the note about the branch", "dns", |variant: &PackageVariant| {
        let status = variant.status.clone().unwrap_or_default();
        status.conditions.iter().any(|found| {
            found.type_ == "Ready"
                && found.status == "True"
                && found.message.contains("cloned from the head of a branch that has moved since")
        })
    })
    .await?;
    let drafts: Vec<String> =
        store.server.names("porch-base").into_iter().filter(|name| name.starts_with("edge.")).collect();
    ensure!(drafts == [DRAFT], "{drafts:?}");
    Ok(())
}
