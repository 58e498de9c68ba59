//! Package variants whose packages are on a Porch server (`packagevariants.md` 6.13). Porch itself
//! is not available here. The server is a stand-in written from that section
//! (`tests/src/porch.rs`), behind the aggregation of a real API server.

use std::fs;

use anyhow::{Context, Result, ensure};
use groundwork_api::{PackageVariant, PackageVariantSet, Repository};
use groundwork_tests::porch::PorchServer;
use groundwork_tests::{System, SystemOptions, documents, wait_for, workspace};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::OnceCell;

use crate::case::Case;
use crate::package_content::{FILES, Person};
use crate::packages::{CONFIG, KPTFILE, ready, variant};
use crate::rights::{Right, asked, texts};
use crate::support::PATIENCE;

pub(crate) const DRAFT: &str = "edge.dns.packagevariant-1";
const NEXT: &str = "edge.dns.packagevariant-2";

static SYSTEM: OnceCell<Option<(System, PorchServer)>> = OnceCell::const_new();

/// Returns the system of these tests: a watcher and a variant service with the Porch stand-in.
pub(crate) async fn system() -> Result<Option<&'static (System, PorchServer)>> {
    let start = async || {
        let server = PorchServer::start()?;
        let options = SystemOptions { porch: Some(server.clone()), ..SystemOptions::default() };
        let Some(mut system) = System::servers(options).await? else { return Ok(None) };
        for service in ["watcher", "variant"] {
            system.run(service).await?;
        }
        for service in ["watcher", "variant"] {
            system.until_ready(service).await?;
        }
        Ok::<_, anyhow::Error>(Some((system, server)))
    };
    Ok(SYSTEM.get_or_try_init(start).await?.as_ref())
}

/// Packages of one test on the server.
pub(crate) struct Store<'a> {
    pub(crate) case: Case<'a>,
    pub(crate) server: &'a PorchServer,
}

impl<'a> Store<'a> {
    /// Creates a catalog with one package in one version, and a repository for the drafts. The
    /// server reads both.
    pub(crate) async fn new(
        (system, server): &'a (System, PorchServer),
        namespace: &str,
        deployment: bool,
    ) -> Result<Self> {
        Self::with_catalog(Case::new(system, namespace).await?, server, deployment).await
    }

    /// Creates the repositories in an existing namespace.
    async fn with_catalog(case: Case<'a>, server: &'a PorchServer, deployment: bool) -> Result<Self> {
        let store = Self { case, server };
        store.register("catalog", false).await?;
        store.register("edge", deployment).await?;
        store.publish("v1", CONFIG)?;
        Ok(store)
    }

    /// Creates a Repository, with the status of one that the server has read.
    pub(crate) async fn register(&self, name: &str, deployment: bool) -> Result<()> {
        self.server.add_repository(&self.case.namespace, name, deployment);
        let git = json!({"repo": format!("https://git.example/{name}.git")});
        let content = json!({"spec": {"type": "git", "deployment": deployment, "git": git}});
        self.case.create::<Repository>(name, &content).await?;
        self.set_ready(name, true).await
    }

    /// Sets the status that the server writes to a Repository.
    pub(crate) async fn set_ready(&self, name: &str, is_ready: bool) -> Result<()> {
        let (status, reason) = if is_ready { ("True", "Ready") } else { ("False", "Error") };
        let condition = json!({"type": "Ready", "status": status, "reason": reason, "message": "said by the server",
            "lastTransitionTime": "2026-01-01T00:00:00Z"});
        let change = Patch::Merge(json!({"status": {"conditions": [condition]}}));
        self.case.api::<Repository>().patch_status(name, &PatchParams::default(), &change).await?;
        Ok(())
    }

    /// Publishes the next version of the upstream.
    pub(crate) fn publish(&self, workspace: &str, config: &str) -> Result<String> {
        let files = [("Kptfile", KPTFILE), ("config.yaml", config)];
        self.server.publish(&self.case.namespace, ("catalog", "net/coredns"), workspace, &files)
    }

    pub(crate) fn revision(&self, name: &str) -> Option<Value> {
        self.server.revision(&self.case.namespace, name)
    }

    pub(crate) fn file(&self, name: &str, path: &str) -> Result<String> {
        self.server.file(&self.case.namespace, name, path)
    }

    /// Sends a request as a user, through the API server.
    #[expect(clippy::disallowed_methods, reason = "the API server is one that the test has started")]
    pub(crate) async fn ask(
        &self,
        method: http::Method,
        kind: &str,
        name: &str,
        body: Option<Value>,
    ) -> Result<Value> {
        let namespace = &self.case.namespace;
        let path = format!("/apis/porch.kpt.dev/v1alpha1/namespaces/{namespace}/{kind}/{name}");
        let body = body.map(|body| body.to_string().into_bytes()).unwrap_or_default();
        let request =
            http::Request::builder().method(method).uri(path).header("content-type", "application/json");
        Ok(self.case.system.client().await?.request(request.body(body)?).await?)
    }

    /// Changes a file of a draft as a user, with retries, since the service may write the draft at
    /// the same time.
    pub(crate) async fn edit(&self, name: &str, path: &str, change: impl Fn(&str) -> String) -> Result<()> {
        wait_for(&format!("an edit of {name}"), PATIENCE, async || {
            let kind = "packagerevisionresources";
            let read = self.ask(http::Method::GET, kind, name, None).await;
            let mut resources = read.map_err(|error| error.to_string())?;
            let text = &mut resources["spec"]["resources"][path];
            *text = json!(change(text.as_str().unwrap_or_default()));
            let saved = self.ask(http::Method::PUT, kind, name, Some(resources)).await;
            saved.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    /// Changes the lifecycle of a revision as a user, by an update or with the right to approve.
    pub(crate) async fn set_lifecycle(&self, name: &str, lifecycle: &str, approves: bool) -> Result<()> {
        let path = if approves { format!("{name}/approval") } else { name.to_owned() };
        wait_for(&format!("{name} is {lifecycle}"), PATIENCE, async || {
            let read = self.ask(http::Method::GET, "packagerevisions", name, None).await;
            let mut revision = read.map_err(|error| error.to_string())?;
            revision["spec"]["lifecycle"] = json!(lifecycle);
            let moved = self.ask(http::Method::PUT, "packagerevisions", &path, Some(revision)).await;
            moved.map(drop).map_err(|error| error.to_string())
        })
        .await
    }

    /// Waits until the state of the server satisfies a condition.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) -> Result<()> {
        wait_for(what, PATIENCE, async || {
            if is_so(self) {
                return Ok(());
            }
            let names = self.server.names(&self.case.namespace);
            Err(format!("{:#?}", names.iter().map(|name| self.revision(name)).collect::<Vec<_>>()))
        })
        .await
        .map_err(|error| self.case.system.explained(error))
    }
}

/// Returns the rights that only this component grants to the variant service.
fn granted() -> Result<Vec<Right>> {
    let text = fs::read_to_string(workspace().join("k8s/components/porch/rights.yaml"))?;
    let objects = documents(&text)?;
    let role = objects.iter().find(|object| object["kind"] == "ClusterRole").context("a role")?;
    let rules = role["rules"].as_array().into_iter().flatten();
    let of_rule = |rule: &Value| -> Vec<Right> {
        let of = |resource: String| {
            let rights =
                texts(&rule["verbs"]).map(move |verb| ("variant".to_owned(), verb, resource.clone()));
            rights.collect::<Vec<_>>()
        };
        texts(&rule["resources"]).flat_map(of).collect()
    };
    Ok(rules.flat_map(of_rule).collect())
}

pub(crate) fn lifecycle(revision: &Value) -> &str {
    revision["spec"]["lifecycle"].as_str().unwrap_or_default()
}

pub(crate) fn tasks(revision: &Value) -> Vec<&str> {
    let tasks = revision["spec"]["tasks"].as_array().into_iter().flatten();
    tasks.filter_map(|task| task["type"].as_str()).collect()
}

/// V-001, V-002, V-114 and figure 1 on a Porch server: a clone, the changes of a user, a merge of
/// the upstream's next version, approval, the next draft, and the deletion. The test uses all
/// rights of the component.
#[tokio::test(flavor = "multi_thread")]
async fn from_upstream_to_published_and_on() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-life", true).await?;
    let (case, server) = (&store.case, store.server);
    let context = json!({"packageContext": {"data": {"site": "edge-7"}}, "labels": {"tier": "edge"}});
    case.create::<PackageVariant>("dns", &variant(&context)).await?;
    let made = ready(case, "dns", &[DRAFT]).await?;
    let draft = store.revision(DRAFT).context("a draft")?;
    ensure!(tasks(&draft) == ["clone"] && lifecycle(&draft) == "Draft", "{draft}");
    ensure!(draft["metadata"]["labels"]["tier"] == "edge", "{draft}");
    let owner = &draft["metadata"]["ownerReferences"][0];
    ensure!(owner["uid"] == json!(made.metadata.uid) && owner["controller"] == true, "{draft}");
    ensure!(owner.get("blockOwnerDeletion").is_none(), "{draft}");
    ensure!(draft["metadata"]["annotations"].get("groundwork/unfinished").is_none(), "{draft}");
    ensure!(store.file(DRAFT, "package-context.yaml")?.contains("site: edge-7"));
    ensure!(store.file(DRAFT, "Kptfile")?.contains("ref: net/coredns/v1"));
    let created = server.writes("porch-life").into_iter().find(|(method, ..)| method == "POST");
    let (_, _, body) = created.context("a create")?;
    ensure!(body["metadata"]["annotations"]["groundwork/unfinished"] == "true", "{body}");
    ensure!(body["metadata"].get("name").is_none(), "the server says the name: {body}");

    // Another reconcile of the same state writes nothing.
    let writes = server.writes("porch-life").len();
    let change = json!({"spec": {"annotations": {"read-at": "creation"}}});
    case.change::<PackageVariant>("dns", &change).await?;
    ready(case, "dns", &[DRAFT]).await?;
    ensure!(server.writes("porch-life").len() == writes, "{:#?}", server.writes("porch-life"));

    // A user edits the draft, and the upstream publishes another version. The next save contains
    // both changes.
    store.edit(DRAFT, "config.yaml", |text| text.replace("example.org", "edge-7.example.org")).await?;
    store.publish("v2", &CONFIG.replace("\"30\"", "\"60\""))?;
    case.change::<PackageVariant>("dns", &json!({"spec": {"upstream": {"revision": "v2"}}})).await?;
    store
        .until("the draft has both changes", |store| {
            let config = store.file(DRAFT, "config.yaml").unwrap_or_default();
            config.contains("\"60\"") && config.contains("zone: edge-7.example.org")
        })
        .await?;
    ready(case, "dns", &[DRAFT]).await?;
    ensure!(
        store.file(DRAFT, "Kptfile")?.contains("ref: net/coredns/v2"),
        "{}",
        store.file(DRAFT, "Kptfile")?
    );

    // A user proposes and approves the revision. The service does not change a proposed revision.
    store.set_lifecycle(DRAFT, "Proposed", false).await?;
    store.set_lifecycle(DRAFT, "Published", true).await?;
    ready(case, "dns", &[DRAFT]).await?;

    // The next version of the upstream becomes a new draft.
    store.publish("v3", &CONFIG.replace("\"30\"", "\"90\""))?;
    case.change::<PackageVariant>("dns", &json!({"spec": {"upstream": {"revision": "v3"}}})).await?;
    ready(case, "dns", &[NEXT]).await?;
    let upgraded = store.file(NEXT, "config.yaml")?;
    ensure!(upgraded.contains("\"90\"") && upgraded.contains("zone: edge-7.example.org"), "{upgraded}");
    ensure!(tasks(&store.revision(NEXT).context("a draft")?) == ["upgrade"]);

    // After the deletion of the variant, the draft is deleted, and the published revision is
    // proposed for deletion and loses its owner.
    case.delete::<PackageVariant>("dns").await?;
    case.gone::<PackageVariant>("dns").await?;
    ensure!(store.revision(NEXT).is_none(), "the draft is gone");
    let marked = store.revision(DRAFT).context("what is published stays")?;
    ensure!(lifecycle(&marked) == "DeletionProposed", "{marked}");
    ensure!(
        marked["metadata"].get("ownerReferences").is_none(),
        "garbage collection would take it: {marked}"
    );

    let (used, _) = asked(case.system)?;
    let idle: Vec<Right> = granted()?.into_iter().filter(|right| !used.contains(right)).collect();
    ensure!(idle.is_empty(), "rights that nothing used: {idle:#?}");
    Ok(())
}

/// With `orphan`, only the owner is removed (`packagevariants.md` 2.9).
#[tokio::test(flavor = "multi_thread")]
async fn an_orphan_stays() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-orphan", true).await?;
    let case = &store.case;
    case.create::<PackageVariant>("dns", &variant(&json!({"deletionPolicy": "orphan"}))).await?;
    ready(case, "dns", &[DRAFT]).await?;
    case.delete::<PackageVariant>("dns").await?;
    case.gone::<PackageVariant>("dns").await?;
    let left = store.revision(DRAFT).context("the draft stays")?;
    ensure!(lifecycle(&left) == "Draft" && left["metadata"].get("ownerReferences").is_none(), "{left}");
    Ok(())
}

/// The variant adopts a user's revision with all fields that the server set. Edits of a published
/// revision become new drafts, and a wanted revision is not proposed for deletion
/// (`packagevariants.md` 2.6 and 2.7).
#[tokio::test(flavor = "multi_thread")]
async fn adopted_edited_and_wanted_again() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-adoption", true).await?;
    let (case, namespace) = (&store.case, "porch-adoption");
    let kptfile = KPTFILE.replace("coredns", "dns");
    let context = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\ndata:\n  name: dns\n  package-path: dns\n";
    let files = [("Kptfile", kptfile.as_str()), ("package-context.yaml", context), ("config.yaml", CONFIG)];
    let by_hand = store.server.publish(namespace, ("edge", "dns"), "by-hand", &files)?;
    let fields = json!({"adoptionPolicy": "adoptExisting", "labels": {"tier": "edge"}});
    case.create::<PackageVariant>("dns", &variant(&fields)).await?;
    let adopted = ready(case, "dns", &[&by_hand]).await?;
    let revision = store.revision(&by_hand).context("it is there")?;
    ensure!(revision["metadata"]["ownerReferences"][0]["uid"] == json!(adopted.metadata.uid), "{revision}");
    ensure!(revision["metadata"]["labels"]["tier"] == "edge", "{revision}");
    ensure!(revision["metadata"]["labels"]["kpt.dev/latest-revision"] == "true", "{revision}");

    // A user proposes the deletion of a revision that the variant still wants.
    store.set_lifecycle(&by_hand, "DeletionProposed", false).await?;
    let is_wanted =
        |store: &Store<'_>| store.revision(&by_hand).is_some_and(|found| lifecycle(&found) == "Published");
    store.until("it is wanted again", is_wanted).await?;

    case.change::<PackageVariant>("dns", &json!({"spec": {"packageContext": {"data": {"site": "edge-7"}}}}))
        .await?;
    ready(case, "dns", &[DRAFT]).await?;
    ensure!(tasks(&store.revision(DRAFT).context("a draft")?) == ["edit"]);
    ensure!(store.file(DRAFT, "package-context.yaml")?.contains("site: edge-7"));

    // The variant does not change a revision that waits for approval.
    store.set_lifecycle(DRAFT, "Proposed", false).await?;
    case.change::<PackageVariant>("dns", &json!({"spec": {"packageContext": {"data": {"site": "edge-8"}}}}))
        .await?;
    let waits = |variant: &PackageVariant| reason(variant) == "DownstreamProposed";
    case.until("the variant waits for people", "dns", waits).await?;
    store.set_lifecycle(DRAFT, "Draft", true).await?;
    ready(case, "dns", &[DRAFT]).await?;
    ensure!(store.file(DRAFT, "package-context.yaml")?.contains("site: edge-8"));
    Ok(())
}

/// A variant whose upstream changes to a package in another repository merges that package with its
/// former base (`packagevariants.md` 2.8).
#[tokio::test(flavor = "multi_thread")]
async fn another_upstream_is_merged() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-repointed", true).await?;
    let (case, namespace) = (&store.case, "porch-repointed");
    store.register("elsewhere", false).await?;
    let config = CONFIG.replace("\"30\"", "\"45\"");
    let files = [("Kptfile", KPTFILE), ("config.yaml", config.as_str())];
    store.server.publish(namespace, ("elsewhere", "dns/unbound"), "v1", &files)?;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(case, "dns", &[DRAFT]).await?;
    store.edit(DRAFT, "config.yaml", |text| text.replace("example.org", "edge-7.example.org")).await?;
    let upstream = json!({"repo": "elsewhere", "package": "dns/unbound", "revision": "v1"});
    case.change::<PackageVariant>("dns", &json!({"spec": {"upstream": upstream}})).await?;
    ready(case, "dns", &[DRAFT]).await?;
    let merged = store.file(DRAFT, "config.yaml")?;
    ensure!(merged.contains("\"45\"") && merged.contains("zone: edge-7.example.org"), "{merged}");
    ensure!(
        store.file(DRAFT, "Kptfile")?.contains("ref: dns/unbound/v1"),
        "{}",
        store.file(DRAFT, "Kptfile")?
    );
    Ok(())
}

/// A set deletes and creates children. Package revisions that follow one another may have the same
/// name.
#[tokio::test(flavor = "multi_thread")]
async fn a_set_narrowed_and_widened() -> Result<()> {
    let Some(both) = system().await? else { return Ok(()) };
    let store = Store::new(both, "porch-set", false).await?;
    let case = &store.case;
    let set = |names: &Value| {
        json!({"spec": {
            "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "latest"},
            "targets": [{"repositories": [{"name": "edge", "packageNames": names}]}],
        }})
    };
    let drafts = async |packages: &[&str]| {
        let mut expected: Vec<String> =
            packages.iter().map(|package| format!("edge.{package}.packagevariant-1")).collect();
        expected.push("catalog.net.coredns.v1".to_owned());
        expected.sort();
        store.until(&format!("{expected:?}"), |store| store.server.names("porch-set") == expected).await
    };
    case.create::<PackageVariantSet>("fleet", &set(&json!(["a", "b"]))).await?;
    drafts(&["a", "b"]).await?;
    case.change::<PackageVariantSet>("fleet", &set(&json!(["a"]))).await?;
    drafts(&["a"]).await?;
    case.change::<PackageVariantSet>("fleet", &set(&json!(["a", "b"]))).await?;
    drafts(&["a", "b"]).await?;
    // The service learns about the new upstream version only from the server's watch.
    store.publish("v2", &CONFIG.replace("\"30\"", "\"60\""))?;
    let has_news = |store: &Store<'_>| {
        ["a", "b"].iter().all(|package| {
            let name = format!("edge.{package}.packagevariant-1");
            store.file(&name, "config.yaml").is_ok_and(|config| config.contains("\"60\""))
        })
    };
    store.until("both drafts have the new version", has_news).await
}

/// With the Roles of `k8s/components/porch-namespaced`, services that watch one namespace draft in
/// it, see the changes of users there, and answer their calls. The service finds out by itself that
/// a Porch server has the packages.
#[tokio::test(flavor = "multi_thread")]
async fn roles_suffice_beside_a_porch_server() -> Result<()> {
    let server = PorchServer::start()?;
    let namespaces = vec!["porch-roles".to_owned()];
    let clones = tempfile::tempdir()?;
    let options = SystemOptions {
        porch: Some(server.clone()),
        package_store: Some(clones.path().to_owned()),
        namespaces,
        ..SystemOptions::default()
    };
    let Some(mut system) = System::servers(options).await? else { return Ok(()) };
    for service in ["watcher", "variant"] {
        system.run(service).await?;
    }
    for service in ["watcher", "variant"] {
        system.until_ready(service).await?;
    }
    let case = Case::existing(&system, "porch-roles").await?;
    let store = Store::with_catalog(case, &server, true).await?;
    let case = &store.case;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(case, "dns", &[DRAFT]).await?;
    store.set_lifecycle(DRAFT, "Proposed", false).await?;
    store.set_lifecycle(DRAFT, "Published", true).await?;
    let context = json!({"spec": {"packageContext": {"data": {"site": "edge-7"}}}});
    case.change::<PackageVariant>("dns", &context).await?;
    ready(case, "dns", &[NEXT]).await?;
    let folder = tempfile::tempdir()?;
    let reader = Person::new(case, "reader", folder.path(), &[["get", FILES]]).await?;
    let path = folder.path().join("dns");
    let (code, text) = reader.alone(&["pull", NEXT, path.to_str().context("a path")?]).await?;
    ensure!(code == 0, "{code} {text}");
    case.delete::<PackageVariant>("dns").await?;
    case.gone::<PackageVariant>("dns").await?;
    ensure!(fs::read_dir(clones.path())?.next().is_none(), "nothing was cloned");
    let log = fs::read_to_string(system.service("variant")?.program.log())?;
    ensure!(log.contains("a Porch server serves package revisions: it stores the packages"), "{log}");
    let (_, refused) = asked(&system)?;
    let is_own = |request: &&Value| {
        request["user"]["username"].as_str().is_some_and(|user| user.contains("groundwork-"))
    };
    let refused: Vec<&Value> = refused.iter().filter(is_own).collect();
    ensure!(refused.is_empty(), "rights are missing: {refused:#?}");
    Ok(())
}

/// Returns the reason of the condition Ready, if it is about the current spec.
pub(crate) fn reason(variant: &PackageVariant) -> String {
    crate::packages::told(variant, "Ready").map(|(_, reason, _)| reason).unwrap_or_default()
}
