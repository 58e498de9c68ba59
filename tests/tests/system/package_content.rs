//! Work on packages from a laptop: read them, write drafts, compare them (`packagevariants.md`
//! 6.2).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use groundwork_api::{PackageRevision, PackageVariant};
use groundwork_grpc::Channel;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::packages::v1::packages_client::PackagesClient;
use groundwork_proto::packages::v1::push_request::Part;
use groundwork_proto::packages::v1::{
    CreateRequest, File, PullRequest, PushRequest, PushTarget, create_request,
};
use groundwork_proto::variant::v1::PreviewRequest;
use groundwork_proto::variant::v1::variants_client::VariantsClient;
use groundwork_testkit::git;
use k8s_openapi::api::rbac::v1::Role;
use serde_json::{Value, json};
use tonic::Code;

use crate::case::Case;
use crate::command::{run, run_as};
use crate::grpc::{account, channel, encode, told};
use crate::packages::{catalog, lifecycle, look, ready, system, variant};

/// User of a namespace who calls the service.
pub(crate) struct Person<'a> {
    case: &'a Case<'a>,
    server: String,
    token: PathBuf,
    kubeconfig: PathBuf,
}

impl<'a> Person<'a> {
    /// Creates a user with these rights.
    pub(crate) async fn new(
        case: &'a Case<'a>,
        name: &str,
        folder: &Path,
        rules: &[[&str; 2]],
    ) -> Result<Self> {
        let token = account(case, name, &[]).await?;
        for (index, [verb, resource]) in rules.iter().enumerate() {
            let role = format!("{name}-{index}");
            // Create the Role as an object: `kubectl create role` fails for a kind that the API
            // server does not serve.
            let rules = json!([{"apiGroups": ["porch.kpt.dev"], "verbs": [verb], "resources": [resource]}]);
            case.create::<Role>(&role, &json!({"rules": rules})).await?;
            let (of, to) = (format!("--role={role}"), format!("--serviceaccount={}:{name}", case.namespace));
            case.system.kubectl(&["create", "rolebinding", "-n", &case.namespace, &role, &of, &to]).await?;
        }
        let path = folder.join(format!("{name}.token"));
        fs::write(&path, token)?;
        let server = format!("http://127.0.0.1:{}", case.system.grpc_port("variant"));
        let kubeconfig = case.system.plane.service_account_kubeconfig(&case.namespace, name).await?;
        Ok(Self { case, server, token: path, kubeconfig })
    }

    /// Runs `groundwork packages` with nothing but the user's own kube context. Returns exit code
    /// and both outputs.
    pub(crate) async fn alone(&self, arguments: &[&str]) -> Result<(i32, String)> {
        let calls = ["pull", "push", "clone", "copy", "init", "upgrade", "diff"];
        let mut all = vec!["packages"];
        all.extend(arguments);
        if calls.contains(&arguments[0]) {
            all.extend(["--server", &self.server]);
        }
        if arguments[0] != "push" {
            all.extend(["--namespace", &self.case.namespace]);
        }
        let (code, out, err) = run_as(&self.kubeconfig, &all).await?;
        Ok((code, out + &err))
    }

    /// Runs `groundwork packages` as this user. Returns exit code and both outputs.
    async fn packages(&self, arguments: &[&str]) -> Result<(i32, String)> {
        let token = self.token.to_str().context("a path")?;
        let mut all = vec!["packages"];
        all.extend(arguments);
        all.extend(["--server", &self.server, "--token-file", token]);
        if arguments[0] != "push" {
            all.extend(["--namespace", &self.case.namespace]);
        }
        let (code, out, err) = run(self.case.system, &all).await?;
        Ok((code, out + &err))
    }

    pub(crate) fn calls(&self) -> Result<PackagesClient<Channel>> {
        let token = fs::read_to_string(&self.token)?;
        Ok(PackagesClient::new(channel(self.case.system, "variant", Some(&token))?))
    }

    pub(crate) fn name(&self, name: &str) -> ObjectName {
        ObjectName { namespace: self.case.namespace.clone(), name: name.to_owned() }
    }
}

pub(crate) const FILES: &str = "packagerevisionresources";

/// Clone, pull, edit, push and compare (`packagevariants.md` 6.2 and 6.12): no concurrent work is
/// overwritten, and binary files arrive unchanged.
#[tokio::test]
async fn packages_are_written_from_a_folder() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-content").await?;
    let remotes = catalog(&case).await?;
    case.until::<PackageRevision>("the upstream is there", "catalog.net.coredns.v1", |_| true).await?;
    let folder = tempfile::tempdir()?;
    let rules = [["get", FILES], ["update", FILES], ["create", "packagerevisions"]];
    let author = Person::new(&case, "author", folder.path(), &rules).await?;

    let clone = ["clone", "catalog.net.coredns.v1", "--repository", "edge", "--package", "dns"];
    let (code, text) = author.packages(&clone).await?;
    ensure!((code, text.as_str()) == (0, "edge.dns.v1 Draft\n"), "{code} {text}\n{}", case.system.logs());
    let (code, text) = author.packages(&clone).await?;
    ensure!(code == 1 && text.contains("already"), "a second one of this name: {code} {text}");

    let copy = folder.path().join("dns");
    let copy = copy.to_str().context("a path")?;
    let (code, text) = author.packages(&["pull", "edge.dns.v1", copy]).await?;
    ensure!(code == 0 && text.starts_with("edge.dns.v1 Draft: "), "{code} {text}");
    let config = Path::new(copy).join("config.yaml");
    let before = fs::read_to_string(&config)?;
    fs::write(&config, before.replace("example.org", "edge.example.org"))?;
    fs::write(Path::new(copy).join("logo.bin"), [0xff, 0x00, 0xfe])?;
    let (code, text) = author.packages(&["push", copy]).await?;
    ensure!((code, text.as_str()) == (0, "edge.dns.v1 written\n"), "{code} {text}");
    let branch = "drafts/dns/v1";
    ensure!(remotes.file("edge", branch, "dns/config.yaml")?.contains("edge.example.org"));
    let size = git(&remotes.path("edge"), &["cat-file", "-s", &format!("{branch}:dns/logo.bin")])?;
    ensure!(size.trim() == "3", "{size}");
    let author_of_it = git(&remotes.path("edge"), &["log", "-1", "--format=%an", branch])?;
    ensure!(author_of_it.trim().ends_with(":author"), "{author_of_it}");
    let (code, text) = author.packages(&["push", copy]).await?;
    ensure!((code, text.as_str()) == (0, "edge.dns.v1: no file differs\n"), "{code} {text}");

    // Another user pushes to the branch meanwhile.
    remotes.edit("edge", branch, "dns/config.yaml", |text| text.replace("\"30\"", "\"60\""))?;
    fs::write(&config, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: corefile}\n")?;
    let (code, text) = author.packages(&["push", copy]).await?;
    ensure!(code == 1 && text.contains("the object has been modified"), "{code} {text}");
    ensure!(remotes.file("edge", branch, "dns/config.yaml")?.contains("cache: \"60\""));

    let (code, text) = author.packages(&["diff", "edge.dns.v1", "catalog.net.coredns.v1"]).await?;
    ensure!(
        code == 0 && text.contains("+  cache: \"60\"") && text.contains("-  cache: \"30\""),
        "{code} {text}"
    );
    ensure!(text.contains("logo.bin is new"), "{text}");
    Ok(())
}

/// Each call requires the same rights as in a Porch server, and a published revision cannot be
/// changed.
#[tokio::test]
async fn packages_are_for_those_who_may() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-rights").await?;
    let remotes = catalog(&case).await?;
    case.until::<PackageRevision>("the upstream is there", "catalog.net.coredns.v1", |_| true).await?;
    let folder = tempfile::tempdir()?;
    let nobody = Person::new(&case, "nobody", folder.path(), &[]).await?;
    let reader = Person::new(&case, "reader", folder.path(), &[["get", FILES]]).await?;
    let rules = [["get", FILES], ["update", FILES], ["create", "packagerevisions"]];
    let author = Person::new(&case, "author", folder.path(), &rules).await?;
    let upstream = "catalog.net.coredns.v1";
    let pull = |person: &Person<'_>, name: &str| PullRequest { revision: Some(person.name(name)) };
    let denied = (Code::PermissionDenied, "ACCESS_DENIED".to_owned());
    let status = nobody.calls()?.pull(pull(&nobody, upstream)).await.unwrap_err();
    ensure!(told(&status) == denied, "{status:?}");
    reader.calls()?.pull(pull(&reader, upstream)).await?;
    let create = CreateRequest {
        namespace: case.namespace.clone(),
        repository: "edge".to_owned(),
        package: "dns".to_owned(),
        workspace: "v1".to_owned(),
        source: Some(create_request::Source::Clone(upstream.to_owned())),
    };
    let status = reader.calls()?.create(create.clone()).await.unwrap_err();
    ensure!(told(&status) == denied, "{status:?}");
    let made = author.calls()?.create(create).await?.into_inner();
    let target = PushTarget { revision: made.revision.clone(), version: made.version.clone() };
    let parts = |files: &[(&str, &str)]| {
        let files =
            files.iter().map(|(path, text)| File { path: (*path).to_owned(), content: (*text).into() });
        let files = files.map(|file| PushRequest { part: Some(Part::File(file)) });
        let first = PushRequest { part: Some(Part::Target(target.clone())) };
        futures::stream::iter(std::iter::once(first).chain(files).collect::<Vec<_>>())
    };
    let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: dns\n";
    let status = reader.calls()?.push(parts(&[("Kptfile", kptfile)])).await.unwrap_err();
    ensure!(told(&status) == denied, "{status:?}");
    for (files, code, reason) in [
        (&[("Kptfile", kptfile), ("../x", "y")][..], Code::FailedPrecondition, "PACKAGE_REFUSED"),
        (&[("x.yaml", "a: b\n")][..], Code::FailedPrecondition, "PACKAGE_REFUSED"),
        (&[("Kptfile", kptfile), ("Kptfile", kptfile)][..], Code::InvalidArgument, "INVALID_REQUEST"),
    ] {
        let status = author.calls()?.push(parts(files)).await.unwrap_err();
        ensure!(told(&status) == (code, reason.to_owned()), "{files:?} {status:?}");
    }
    lifecycle(&case, "edge.dns.v1", "Proposed").await?;
    lifecycle(&case, "edge.dns.v1", "Published").await?;
    let status = author.calls()?.push(parts(&[("Kptfile", kptfile)])).await.unwrap_err();
    ensure!([Code::Aborted, Code::FailedPrecondition].contains(&status.code()), "{status:?}");
    let status = author.calls()?.pull(pull(&author, "edge.dns.v9")).await.unwrap_err();
    ensure!(told(&status) == (Code::NotFound, "PACKAGE_NOT_FOUND".to_owned()), "{status:?}");
    ensure!(remotes.refs("edge")?.contains(&"dns/v1".to_owned()), "{:?}", remotes.refs("edge")?);
    Ok(())
}

/// `Preview` gives the same result as the command: the packages that a set would create, and the
/// hash that `apply` expects.
#[tokio::test]
async fn plans_are_told_to_programs() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-preview").await?;
    let _remotes = catalog(&case).await?;
    case.until::<PackageRevision>("the upstream is there", "catalog.net.coredns.v1", |_| true).await?;
    let set = json!({
        "apiVersion": "config.porch.kpt.dev/v1alpha2", "kind": "PackageVariantSet",
        "metadata": {"name": "dns"},
        "spec": {
            "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v1"},
            "targets": [{"repositories": [{"name": "edge", "packageNames": ["a", "b"]}]}],
        },
    });
    let (group, kinds) = ("config.porch.kpt.dev", ["packagevariantsets", "packagevariants", "repositories"]);
    let mut resources: Vec<String> = kinds.iter().map(|kind| format!("{kind}.{group}")).collect();
    let few: Vec<&str> = resources.iter().map(String::as_str).collect();
    let poor = account(&case, "poor", &few).await?;
    resources.push("packagerevisions.porch.kpt.dev".to_owned());
    let all: Vec<&str> = resources.iter().map(String::as_str).collect();
    let token = account(&case, "planner", &all).await?;
    let request = PreviewRequest {
        namespace: case.namespace.clone(),
        sets: vec![encode(&set)?],
        ..PreviewRequest::default()
    };
    let calls =
        |token: &str| Ok::<_, anyhow::Error>(VariantsClient::new(channel(system, "variant", Some(token))?));
    let status = calls(&poor)?.preview(request.clone()).await.unwrap_err();
    ensure!(told(&status) == (Code::PermissionDenied, "ACCESS_DENIED".to_owned()), "{status:?}");
    let answer = calls(&token)?.preview(request.clone()).await?.into_inner();
    let plan: Value = serde_json::from_str(&answer.plan.context("a plan")?.text)?;
    let created = plan["sets"][0]["created"].as_array().context("a list")?;
    ensure!(created.len() == 2 && plan["hash"] == answer.hash.as_str(), "{plan}");

    let file = tempfile::NamedTempFile::with_suffix(".yaml")?;
    fs::write(file.path(), set.to_string())?;
    let path = file.path().to_str().context("a path")?;
    let plan = ["variants", "plan", "--cluster", "-n", &case.namespace, "-f", path, "-o", "json"];
    let (_, text, _) = run(system, &plan).await?;
    let printed: Value = serde_json::from_str(&text)?;
    ensure!(printed["hash"] == answer.hash.as_str(), "{printed}");
    // Without sets in the request, the plan is about those of the namespace. There are none, so the
    // plan is empty.
    let none = PreviewRequest { sets: Vec::new(), ..request };
    let answer = calls(&token)?.preview(none).await?.into_inner();
    let plan: Value = serde_json::from_str(&answer.plan.context("a plan")?.text)?;
    ensure!(plan["sets"] == json!([]), "{plan}");
    Ok(())
}

/// V-019, V-020: functions of a variant remove the Namespace from a package and move the other
/// objects. Objects that a user adds and saves later are moved as well.
#[tokio::test]
async fn functions_run_over_what_people_add() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-unprivileged").await?;
    let remotes = catalog(&case).await?;
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: coredns\n";
    remotes.publish("catalog", &[("net/coredns/namespace.yaml", namespace)], Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    let catalog = "ghcr.io/kptdev/krm-functions-catalog";
    let fields = json!({
        "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v2"},
        "pipeline": {"mutators": [
            {"name": "none", "image": format!("{catalog}/delete-resource:v0.1"), "selectors": [{"kind": "Namespace"}]},
            {"name": "ns", "image": format!("{catalog}/set-namespace:v0.4.1"), "configMap": {"namespace": "tenant"}},
        ]},
    });
    case.create::<PackageVariant>("dns", &variant(&fields)).await?;
    let name = "edge.dns.packagevariant-1";
    ready(&case, "dns", &[name]).await?;
    let branch = "drafts/dns/packagevariant-1";
    let files = || git(&remotes.path("edge"), &["ls-tree", "-r", "--name-only", &format!("{branch}:dns")]);
    ensure!(!files()?.contains("namespace.yaml"), "{}", files()?);
    ensure!(remotes.file("edge", branch, "dns/config.yaml")?.contains("namespace: tenant"));

    let folder = tempfile::tempdir()?;
    let author = Person::new(&case, "author", folder.path(), &[["get", FILES], ["update", FILES]]).await?;
    let copy = folder.path().join("dns");
    let copy = copy.to_str().context("a path")?;
    let (code, text) = author.packages(&["pull", name, copy]).await?;
    ensure!(code == 0, "{code} {text}");
    let added = format!("{namespace}---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: mine\n");
    fs::write(Path::new(copy).join("mine.yaml"), added)?;
    let (code, text) = author.packages(&["push", copy]).await?;
    ensure!(code == 0, "{code} {text}");
    let mine = remotes.file("edge", branch, "dns/mine.yaml")?;
    ensure!(mine.contains("name: mine\n  namespace: tenant") && !mine.contains("kind: Namespace"), "{mine}");
    Ok(())
}

/// Users create packages from scratch and request merges (`packagevariants.md` 6.6). An invalid or
/// impossible request is rejected without a write.
#[tokio::test]
async fn packages_begin_and_go_on_by_hand() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-tasks").await?;
    let remotes = catalog(&case).await?;
    case.until::<PackageRevision>("the upstream is there", "catalog.net.coredns.v1", |_| true).await?;
    let folder = tempfile::tempdir()?;
    let rules = [["get", FILES], ["update", FILES], ["create", "packagerevisions"]];
    let author = Person::new(&case, "author", folder.path(), &rules).await?;
    let init = ["init", "net/ntp", "--repository", "edge", "--description", "Time", "--keyword", "clock"];
    let (code, text) = author.packages(&init).await?;
    ensure!((code, text.as_str()) == (0, "edge.net.ntp.v1 Draft\n"), "{code} {text}\n{}", case.system.logs());
    let kptfile = remotes.file("edge", "drafts/net/ntp/v1", "net/ntp/Kptfile")?;
    let kptfile = groundwork_yaml::from_str(&kptfile)?;
    ensure!(
        kptfile["info"]["description"] == "Time" && kptfile["info"]["keywords"] == json!(["clock"]),
        "{kptfile}"
    );
    let context = remotes.file("edge", "drafts/net/ntp/v1", "net/ntp/package-context.yaml")?;
    ensure!(context.contains("name: ntp") && context.contains("package-path: net/ntp"), "{context}");
    let made: PackageRevision = case.get("edge.net.ntp.v1").await?;
    ensure!(made.spec.tasks.iter().map(|task| task.type_.as_str()).eq(["init"]), "{made:?}");
    let (code, text) = author.packages(&["init", "net/ntp/sub", "--repository", "edge"]).await?;
    ensure!(code == 1 && text.contains("packages cannot be nested"), "{code} {text}");

    let clone = ["clone", "catalog.net.coredns.v1", "--repository", "edge", "--package", "dns"];
    ensure!(author.packages(&clone).await?.0 == 0);
    let next = remotes.file("catalog", "main", "net/coredns/config.yaml")?.replace("\"30\"", "\"60\"");
    remotes.publish("catalog", &[("net/coredns/config.yaml", &next)], Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    case.until::<PackageRevision>("the next version is there", "catalog.net.coredns.v2", |_| true).await?;
    let upgrade = |revision: &'static str, upstream: &'static str| {
        ["upgrade", revision, "--upstream", upstream, "--workspace", "v2"]
    };
    let (code, text) = author.packages(&upgrade("edge.dns.v1", "catalog.net.coredns.v2")).await?;
    ensure!(code == 1 && text.contains("must be published"), "a draft is none: {code} {text}");
    lifecycle(&case, "edge.dns.v1", "Proposed").await?;
    lifecycle(&case, "edge.dns.v1", "Published").await?;
    for (revision, upstream, says) in [
        ("edge.dns.v1", "catalog.net.coredns.v9", "catalog.net.coredns.v9"),
        ("catalog.net.coredns.v1", "catalog.net.coredns.v2", "cannot find the upstream revision"),
    ] {
        let (code, text) = author.packages(&upgrade(revision, upstream)).await?;
        ensure!(code == 1 && text.contains(says), "{code} {text}");
    }
    let (code, text) = author.packages(&upgrade("edge.dns.v1", "catalog.net.coredns.v2")).await?;
    ensure!((code, text.as_str()) == (0, "edge.dns.v2 Draft\n"), "{code} {text}");
    ensure!(remotes.file("edge", "drafts/dns/v2", "dns/config.yaml")?.contains("cache: \"60\""));
    let made: PackageRevision = case.get("edge.dns.v2").await?;
    ensure!(made.spec.tasks.iter().map(|task| task.type_.as_str()).eq(["upgrade"]), "{made:?}");
    ensure!(remotes.refs("edge")?.len() == 4, "{:?}", remotes.refs("edge")?);
    Ok(())
}

/// `kubeconform` checks a package with the schemas that a cluster publishes (`packagevariants.md`
/// 8.5).
#[tokio::test]
async fn packages_are_checked_with_the_schemas_of_a_cluster() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let folder = tempfile::tempdir()?;
    let schemas = folder.path().join("schemas.json");
    fs::write(&schemas, system.kubectl(&["get", "--raw", "/openapi/v2"]).await?)?;
    let package = folder.path().join("package");
    fs::create_dir(&package)?;
    let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  validators:\n  - image: \
                   ghcr.io/kptdev/krm-functions-catalog/kubeconform:v0.1.1\n    configMap: {strict: \"true\"}\n";
    fs::write(package.join("Kptfile"), kptfile)?;
    let deployment = |replicas: &str, more: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\nspec:\n  replicas: {replicas}\n  selector: {{matchLabels: {{a: b}}}}\n  \
             template:\n    metadata: {{labels: {{a: b}}}}\n    spec:\n      containers:\n      - name: web\n        image: web\n        \
             resources: {{limits: {{cpu: 1, memory: 1Gi}}}}\n        livenessProbe: {{httpGet: {{port: 80}}}}\n{more}---\n\
             apiVersion: config.porch.kpt.dev/v1alpha1\nkind: PackageVariant\nmetadata:\n  name: v\nspec:\n  upstream: {{repo: r, package: p, \
             revision: v1}}\n  downstream: {{repo: r, package: q}}\n"
        )
    };
    let path = |path: &Path| path.to_str().map(str::to_owned).context("a path");
    let (package_path, schemas) = (path(&package)?, path(&schemas)?);
    let render = ["packages", "render", &package_path, "--schemas", &schemas];
    for (text, code, says) in [
        (deployment("1", ""), 0, ""),
        (deployment("one", ""), 1, "spec.replicas"),
        (deployment("1", "  replica: 2\n"), 1, "replica"),
    ] {
        fs::write(package.join("all.yaml"), text)?;
        let (found, out, err) = run(system, &render).await?;
        ensure!(found == code && err.contains(says), "{found} {out} {err}");
    }
    let without = ["packages", "render", &package_path];
    let (found, _, err) = run(system, &without).await?;
    ensure!(found == 1 && err.contains("is not available"), "{found} {err}");
    Ok(())
}
