//! Rights of each gRPC call: a caller with all required rights gets an answer, a caller who lacks
//! one gets an error that names the right, and a caller without a token is rejected.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use groundwork_api::PackageVariantSet;
use groundwork_grpc::Channel;
use groundwork_proto::component::v1::{Json, ObjectName, Reference};
use groundwork_proto::deployer::v1::deployer_client::DeployerClient;
use groundwork_proto::deployer::v1::{MakeKubeconfigRequest, make_kubeconfig_request};
use groundwork_proto::packages::v1::packages_client::PackagesClient;
use groundwork_proto::packages::v1::{
    CreateRequest, DiffRequest, PullRequest, PushRequest, PushTarget, create_request, push_request,
};
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{
    self as renderer, PlanRequest, RenderExportsRequest, RenderInput, RenderRequest, ValidateRequest,
    WatchInstallationRequest, render_exports_request, render_request,
};
use groundwork_proto::resolver::v1::fetch_resource_request::Content;
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::resolver::v1::{
    ExplainInput, ExplainRequest, FetchResourceRequest, GetDescriptorRequest, Planning, ResolveRequest,
    explain_request,
};
use groundwork_proto::variant::v1::variants_client::VariantsClient;
use groundwork_proto::variant::v1::{Asker, ExpandInput, ExpandRequest, PreviewRequest, expand_request};
use groundwork_proto::watcher::v1::watcher_client::WatcherClient;
use groundwork_proto::watcher::v1::{self as watcher, EnsureWatchRequest, GetStreamStatusRequest, Kind};
use groundwork_tests::{System, files_below, wait_for, workspace};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use serde_json::json;
use tonic::{Code, Status};

use crate::case::Case;
use crate::grpc::{account, channel, told};
use crate::shared;
use crate::support::PATIENCE;
use crate::variants::spec;

/// Verb and resource. The resource is a plural with its group after a dot.
type Right = (&'static str, &'static str);

/// Subject of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Object of the cluster, or a namespace.
    Named,
    /// Content of the request itself.
    Inline,
    /// Objects that might be applied to a namespace.
    Planning,
    /// The same objects on behalf of another user, whose rights the caller has checked.
    ForOthers,
    /// No subject. The answer contains the objects that the caller may see.
    Nothing,
}

/// Call, and all rights that its caller needs in the namespace.
#[derive(Clone, Copy, Debug)]
struct Call {
    contract: &'static str,
    method: &'static str,
    way: Way,
    rights: &'static [Right],
}

const WATCHER: &str = "groundwork.watcher.v1.Watcher";
const RESOLVER: &str = "groundwork.resolver.v1.Resolver";
const RENDERER: &str = "groundwork.renderer.v1.Renderer";
const VARIANTS: &str = "groundwork.variant.v1.Variants";
const DEPLOYER: &str = "groundwork.deployer.v1.Deployer";
const PACKAGES: &str = "groundwork.packages.v1.Packages";

const INSTALLATIONS: Right = ("get", "installations.landscaper.gardener.cloud");
const EXECUTIONS: Right = ("get", "executions.landscaper.gardener.cloud");
const DEPLOY_ITEMS: Right = ("get", "deployitems.landscaper.gardener.cloud");
const UPDATES: Right = ("update", "installations.landscaper.gardener.cloud");
const SECRETS: Right = ("get", "secrets");
const SETS: Right = ("get", "packagevariantsets.config.porch.kpt.dev");
const CHILDREN: Right = ("get", "packagevariants.config.porch.kpt.dev");
const REPOSITORIES: Right = ("get", "repositories.config.porch.kpt.dev");
const REVISIONS: Right = ("get", "packagerevisions.porch.kpt.dev");
const SELECTED: Right = ("get", "configmaps");
const FILES: Right = ("get", "packagerevisionresources.porch.kpt.dev");

const fn call(contract: &'static str, method: &'static str, way: Way, rights: &'static [Right]) -> Call {
    Call { contract, method, way, rights }
}

const CALLS: [Call; 28] = [
    call(WATCHER, "EnsureWatch", Way::Named, &[("watch", "configmaps")]),
    call(WATCHER, "Replay", Way::Named, &[("watch", "configmaps")]),
    call(WATCHER, "GetStreamStatus", Way::Nothing, &[]),
    call(RESOLVER, "Resolve", Way::Named, &[INSTALLATIONS]),
    call(RESOLVER, "Explain", Way::Named, &[INSTALLATIONS]),
    call(RESOLVER, "Explain", Way::Inline, &[]),
    call(RESOLVER, "GetDescriptor", Way::Named, &[INSTALLATIONS]),
    call(RESOLVER, "GetDescriptor", Way::Planning, &[UPDATES, SECRETS]),
    call(RESOLVER, "FetchResource", Way::Named, &[INSTALLATIONS]),
    call(RESOLVER, "FetchResource", Way::Planning, &[UPDATES, SECRETS]),
    call(RENDERER, "Validate", Way::Inline, &[]),
    call(RENDERER, "Render", Way::Named, &[INSTALLATIONS, SECRETS]),
    call(RENDERER, "Render", Way::Inline, &[]),
    call(RENDERER, "RenderExports", Way::Named, &[INSTALLATIONS, SECRETS]),
    call(RENDERER, "RenderExports", Way::Inline, &[]),
    call(
        RENDERER,
        "Plan",
        Way::Planning,
        &[
            INSTALLATIONS,
            EXECUTIONS,
            DEPLOY_ITEMS,
            ("get", "contexts.landscaper.gardener.cloud"),
            ("get", "componentversionoverwrites.landscaper.gardener.cloud"),
            ("get", "dataobjects.landscaper.gardener.cloud"),
            ("get", "targets.landscaper.gardener.cloud"),
            SECRETS,
            ("get", "configmaps"),
            UPDATES,
        ],
    ),
    call(RENDERER, "Plan", Way::ForOthers, &[("create", "plans.groundwork.dev")]),
    call(RENDERER, "WatchInstallation", Way::Named, &[INSTALLATIONS, EXECUTIONS, DEPLOY_ITEMS]),
    call(RENDERER, "Replay", Way::Named, &[INSTALLATIONS, EXECUTIONS, DEPLOY_ITEMS]),
    call(VARIANTS, "Expand", Way::Named, &[SETS, CHILDREN, REPOSITORIES, REVISIONS, SELECTED]),
    call(VARIANTS, "Expand", Way::Inline, &[]),
    call(VARIANTS, "Preview", Way::Planning, &[SETS, CHILDREN, REPOSITORIES, REVISIONS, SELECTED]),
    call(VARIANTS, "Preview", Way::ForOthers, &[("create", "plans.groundwork.dev")]),
    call(DEPLOYER, "MakeKubeconfig", Way::Named, &[("create", "kubeconfigs.groundwork.dev")]),
    call(PACKAGES, "Pull", Way::Named, &[FILES]),
    call(PACKAGES, "Push", Way::Named, &[("update", "packagerevisionresources.porch.kpt.dev")]),
    call(PACKAGES, "Create", Way::Named, &[FILES, ("create", "packagerevisions.porch.kpt.dev")]),
    call(PACKAGES, "Diff", Way::Named, &[FILES]),
];

impl Call {
    async fn ask(
        &self,
        system: &System,
        token: Option<&str>,
        about: &ObjectName,
    ) -> Result<Result<(), Status>> {
        let to = |service| channel(system, service, token);
        let about = about.clone();
        Ok(match self.contract {
            WATCHER => self.ask_watcher(to("watcher")?, about).await,
            RESOLVER => self.ask_resolver(to("resolver")?, about).await,
            RENDERER => self.ask_renderer(to("renderer")?, about).await,
            VARIANTS => self.ask_variants(to("variant")?, about).await,
            DEPLOYER => self.ask_deployer(to("deployer")?, about).await,
            PACKAGES => self.ask_packages(to("variant")?, about).await,
            _ => Err(self.unknown()),
        })
    }

    fn unknown(&self) -> Status {
        Status::unimplemented(format!("this test does not know how to make {self:?}"))
    }

    async fn ask_watcher(&self, channel: Channel, about: ObjectName) -> Result<(), Status> {
        let mut client = WatcherClient::new(channel);
        let ObjectName { namespace, name } = about;
        let plural = "configmaps".to_owned();
        match self.method {
            // A time-to-live of zero ends a watch that never began, so the call leaves no trace.
            "EnsureWatch" => {
                let (version, holder) = ("v1".to_owned(), "somebody".to_owned());
                let ttl = Some(Default::default());
                let request =
                    EnsureWatchRequest { group: String::new(), version, plural, namespace, holder, ttl };
                client.ensure_watch(request).await.map(drop)
            }
            "Replay" => {
                let kind = Some(Kind { group: String::new(), plural });
                client.replay(watcher::ReplayRequest { kind, namespace, name }).await.map(drop)
            }
            "GetStreamStatus" => client.get_stream_status(GetStreamStatusRequest {}).await.map(drop),
            _ => Err(self.unknown()),
        }
    }

    async fn ask_resolver(&self, channel: Channel, about: ObjectName) -> Result<(), Status> {
        let mut client = ResolverClient::new(channel);
        // No store supports this type, so the resolver sends no request to the network.
        let context = Json { text: json!({"type": "unheard-of"}).to_string() };
        let (name, version) = ("example.org/shop".to_owned(), "v1".to_owned());
        let reference = Some(Reference { repository_context: Some(context), name, version });
        let planning = || Planning { namespace: about.namespace.clone(), pull_secrets: Vec::new() };
        let (installation, planning) = match self.way {
            Way::Planning => (None, Some(planning())),
            _ => (Some(about), None),
        };
        match (self.method, self.way) {
            ("Resolve", _) => {
                let job_id = "job".to_owned();
                client.resolve(ResolveRequest { installation, job_id }).await.map(drop)
            }
            ("Explain", Way::Inline) => {
                let inline = ExplainInput { reference, overwrites: None };
                let input = Some(explain_request::Input::Inline(inline));
                client.explain(ExplainRequest { input, references: false }).await.map(drop)
            }
            ("Explain", _) => {
                let input = installation.map(explain_request::Input::Installation);
                client.explain(ExplainRequest { input, references: false }).await.map(drop)
            }
            ("GetDescriptor", _) => {
                let request = GetDescriptorRequest { reference, installation, planning };
                client.get_descriptor(request).await.map(drop)
            }
            ("FetchResource", _) => {
                let (job_id, content) = (String::new(), Some(Content::LocalBlob("sha256:0".to_owned())));
                let request =
                    FetchResourceRequest { reference, installation, job_id, content, offset: 0, planning };
                client.fetch_resource(request).await.map(drop)
            }
            _ => Err(self.unknown()),
        }
    }

    async fn ask_renderer(&self, channel: Channel, about: ObjectName) -> Result<(), Status> {
        let mut client = RendererClient::new(channel);
        let inline = RenderInput::default();
        match (self.method, self.way) {
            ("Validate", _) => client.validate(ValidateRequest::default()).await.map(drop),
            ("Render", way) => {
                let input = match way {
                    Way::Inline => render_request::Input::Inline(inline),
                    _ => render_request::Input::Installation(about),
                };
                client.render(RenderRequest { input: Some(input) }).await.map(drop)
            }
            ("RenderExports", way) => {
                let input = match way {
                    Way::Inline => render_exports_request::Input::Inline(inline),
                    _ => render_exports_request::Input::Installation(about),
                };
                let request = RenderExportsRequest { input: Some(input), ..RenderExportsRequest::default() };
                client.render_exports(request).await.map(drop)
            }
            ("Plan", _) => {
                let object = json!({
                    "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "ComponentVersionOverwrites",
                    "metadata": {"name": "rules"}, "overwrites": [],
                });
                let objects = vec![Json { text: object.to_string() }];
                client.plan(PlanRequest { objects, namespace: about.namespace }).await.map(drop)
            }
            ("WatchInstallation", _) => {
                let request = WatchInstallationRequest { installation: Some(about) };
                client.watch_installation(request).await.map(drop)
            }
            ("Replay", _) => {
                let installation = Some(about);
                let request = renderer::ReplayRequest { installation, ..Default::default() };
                client.replay(request).await.map(drop)
            }
            _ => Err(self.unknown()),
        }
    }

    async fn ask_variants(&self, channel: Channel, about: ObjectName) -> Result<(), Status> {
        let mut client = VariantsClient::new(channel);
        match (self.method, self.way) {
            ("Expand", way) => {
                let input = match way {
                    Way::Inline => expand_request::Input::Inline(ExpandInput::default()),
                    _ => expand_request::Input::Set(about),
                };
                client.expand(ExpandRequest { input: Some(input) }).await.map(drop)
            }
            ("Preview", way) => {
                // The asker is a user who may see everything.
                let groups = vec!["system:masters".to_owned()];
                let asker = Asker { username: "root".to_owned(), groups, ..Asker::default() };
                let asker = matches!(way, Way::ForOthers).then_some(asker);
                let request =
                    PreviewRequest { namespace: about.namespace, asker, ..PreviewRequest::default() };
                client.preview(request).await.map(drop)
            }
            _ => Err(self.unknown()),
        }
    }

    async fn ask_deployer(&self, channel: Channel, about: ObjectName) -> Result<(), Status> {
        let robot = ObjectName { namespace: "default".to_owned(), name: "robot".to_owned() };
        let user = Some(make_kubeconfig_request::User::ServiceAccount(robot));
        let request = MakeKubeconfigRequest { target: Some(about), user, expiration_seconds: 600 };
        DeployerClient::new(channel).make_kubeconfig(request).await.map(drop)
    }

    async fn ask_packages(&self, channel: Channel, mut about: ObjectName) -> Result<(), Status> {
        let mut client = PackagesClient::new(channel);
        if !about.name.is_empty() {
            about.name = format!("catalog.{}.v1", about.name);
        }
        match self.method {
            "Pull" => client.pull(PullRequest { revision: Some(about) }).await.map(drop),
            "Push" => {
                let target = PushTarget { revision: Some(about), version: "1".to_owned() };
                let first = PushRequest { part: Some(push_request::Part::Target(target)) };
                client.push(futures::stream::iter([first])).await.map(drop)
            }
            "Create" => {
                let [repository, package, workspace] = ["catalog", "dns", "v2"].map(str::to_owned);
                let ObjectName { namespace, name } = about;
                let source = Some(create_request::Source::Clone(name));
                let request = CreateRequest { namespace, repository, package, workspace, source };
                client.create(request).await.map(drop)
            }
            "Diff" => {
                let request = DiffRequest { from: Some(about.clone()), to: Some(about) };
                client.diff(request).await.map(drop)
            }
            _ => Err(self.unknown()),
        }
    }
}

/// Accounts of a namespace, each with exactly the rights that it was created for.
struct Accounts<'a> {
    case: &'a Case<'a>,
    tokens: BTreeMap<BTreeSet<Right>, String>,
}

impl Accounts<'_> {
    async fn with(&mut self, rights: impl IntoIterator<Item = Right>) -> Result<String> {
        let rights: BTreeSet<Right> = rights.into_iter().collect();
        if let Some(token) = self.tokens.get(&rights) {
            return Ok(token.clone());
        }
        let name = format!("caller-{}", self.tokens.len());
        let rule = |(verb, resource): &Right| {
            let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
            json!({"apiGroups": [group], "resources": [plural], "verbs": [verb]})
        };
        let (case, namespace) = (self.case, &self.case.namespace);
        case.create::<ServiceAccount>(&name, &json!({})).await?;
        let rules: Vec<_> = rights.iter().map(rule).collect();
        case.create::<Role>(&name, &json!({"rules": rules})).await?;
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        let subject = json!({"kind": "ServiceAccount", "name": name, "namespace": namespace});
        case.create::<RoleBinding>(&name, &json!({"roleRef": role, "subjects": [subject]})).await?;
        let token = case.system.plane.service_account_token(namespace, &name).await?;
        self.tokens.insert(rights, token.clone());
        Ok(token)
    }
}

/// Waits until a call ends as expected, because granted rights take effect only after a moment.
async fn until(
    what: &str,
    call: &Call,
    (system, token): (&System, &str),
    about: &ObjectName,
    is_so: impl Fn(&Result<(), Status>) -> bool,
) -> Result<()> {
    wait_for(&format!("{what}: {call:?}"), PATIENCE, async || {
        let end = call.ask(system, Some(token), about).await.map_err(|error| format!("{error:#}"))?;
        if is_so(&end) { Ok(()) } else { Err(format!("{end:?}")) }
    })
    .await
}

/// Each call is rejected if one of its rights is missing, and answered if all are there.
#[tokio::test(flavor = "multi_thread")]
async fn each_call_asks_for_its_rights() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "call-rights").await?;
    let selector = json!({"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"a": "b"}});
    let target = json!({"objectSelector": selector, "template": {"downstream": {"repo": "edge"}}});
    case.create::<PackageVariantSet>("named", &spec(&json!([target]))).await?;
    let about = ObjectName { namespace: case.namespace.clone(), name: "named".to_owned() };
    let mut accounts = Accounts { case: &case, tokens: BTreeMap::new() };
    let denied = (Code::PermissionDenied, "ACCESS_DENIED".to_owned());
    for call in CALLS {
        for token in [None, Some("invented")] {
            let refused = call.ask(system, token, &about).await?.err();
            let refused = refused.with_context(|| format!("{call:?} is answered to {token:?}"))?;
            assert_eq!(told(&refused), (Code::Unauthenticated, "TOKEN_INVALID".to_owned()), "{call:?}");
        }
        let token = accounts.with(call.rights.iter().copied()).await?;
        let passes = |end: &Result<(), Status>| match end {
            Ok(()) => true,
            // An error about a missing or foreign object counts as answered, since it does not
            // concern rights.
            Err(status) => {
                let (code, reason) = told(status);
                let later = ["TOO_MANY_TOKENS", "TOO_MANY_CALLS", "API_SERVER_UNAVAILABLE"];
                let refused = ["ACCESS_DENIED", "TOKEN_INVALID"];
                code != Code::Unimplemented && ![&refused[..], &later].concat().contains(&reason.as_str())
            }
        };
        until("it is answered", &call, (system, &token), &about, passes).await?;
        for missing in call.rights {
            let others = call.rights.iter().copied().filter(|right| right != missing);
            let token = accounts.with(others).await?;
            // A caller who may not ask on behalf of others is checked for the rights of an ordinary
            // caller.
            let is_asked = call.way == Way::ForOthers && call.contract == RENDERER;
            let (verb, resource) = if is_asked { INSTALLATIONS } else { *missing };
            let words = format!("may not {verb} {resource}");
            let is_named = |end: &Result<(), Status>| {
                end.as_ref().is_err_and(|status| told(status) == denied && status.message().contains(&words))
            };
            until(&words, &call, (system, &token), &about, is_named).await?;
        }
    }
    Ok(())
}

/// An invalid name is rejected before any check of rights, because it could change the path of a
/// request.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_a_name_is_refused_by_every_call() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "call-names").await?;
    let token = account(&case, "anybody", &[]).await?;
    let name = |namespace: &str, name: &str| ObjectName { namespace: namespace.into(), name: name.into() };
    let invalid = (Code::InvalidArgument, "INVALID_REQUEST".to_owned());
    // The watcher looks up the object to replay in its own cache, without a request to a server.
    let names_something = |call: &Call| {
        matches!(call.way, Way::Named | Way::Planning) && (call.contract, call.method) != (WATCHER, "Replay")
    };
    for call in CALLS.iter().filter(|call| names_something(call)) {
        let mut bad = vec![name("../kube-system", "x"), name("team?dryRun=All", "x")];
        if call.way == Way::Named && call.method != "EnsureWatch" {
            bad.extend([
                name("team", ""),
                name("", "x"),
                name("team", "../secrets/x"),
                name("team", "x?a=b"),
            ]);
        }
        for about in bad {
            let refused = call.ask(system, Some(&token), &about).await?.err();
            let refused = refused.with_context(|| format!("{call:?} takes {about:?}"))?;
            assert_eq!(told(&refused), invalid, "{call:?} {about:?}: {refused}");
        }
    }
    Ok(())
}

/// The table contains every call of the contracts that the services serve.
#[test]
fn the_table_has_every_call() -> Result<()> {
    let mut declared = BTreeSet::new();
    for file in files_below(&workspace().join("proto/groundwork"))? {
        let text = std::fs::read_to_string(file)?;
        let after = |line: &str, word: &str| line.trim().strip_prefix(word).map(str::to_owned);
        let package = text.lines().find_map(|line| after(line, "package ")).context("it is of a package")?;
        let mut service = String::new();
        for line in text.lines() {
            if let Some(name) = after(line, "service ") {
                service = format!("{}.{}", package.trim_end_matches(';'), name.trim_end_matches([' ', '{']));
            }
            if let Some((method, _)) = after(line, "rpc ").as_deref().and_then(|rest| rest.split_once('(')) {
                declared.insert(format!("{service}/{method}"));
            }
        }
    }
    let known: BTreeSet<String> =
        CALLS.iter().map(|call| format!("{}/{}", call.contract, call.method)).collect();
    ensure!(declared.len() > 15, "{declared:?}");
    assert_eq!(known, declared);
    Ok(())
}
