//! Damage that an attacker with a service's token can do: the table in `docs/security.md`, checked
//! for each of these tokens. The test asks the API server for the rights, and tries the dangerous
//! actions.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};
use groundwork_tests::{System, wait_for, workspace};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SelfSubjectRulesReview,
    SelfSubjectRulesReviewSpec,
};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use kube::{Client, Error};
use serde_json::{Value, json};

use crate::admission_of_services::{OTHER, OWN, Place, secret, with_accounts};
use crate::support::PATIENCE;

const PAGE: &str = "docs/security.md";
const HEADING: &str = "## What a service that was taken over can do";
/// Accounts by their columns. The rights that the last column adds are bound after the others have
/// been checked.
const COLUMNS: [(&str, &str); 9] = [
    ("watcher", "watcher"),
    ("resolver", "resolver"),
    ("renderer", "renderer"),
    ("deployer, manifest", "deployer-manifest"),
    ("deployer, helm", "deployer-helm"),
    ("target-sync", "target-sync"),
    ("console", "console"),
    ("variant", "variant"),
    ("variant, packages", "variant"),
];
const PACKAGES: &str = "variant, packages";
const COMPONENTS: [&str; 3] = ["package-store", "porch", "follow-tags"];
const GROUP: &str = "landscaper.gardener.cloud";
const VERSION: &str = "landscaper.gardener.cloud/v1alpha1";

/// Line of the table, and the way to check it.
struct Line {
    /// Text of the line in the document.
    text: &'static str,
    /// Verbs, and resources with their groups. An account with one of these rights can do the
    /// action, unless there is an attempt, which then decides.
    rights: &'static [(&'static str, &'static str)],
    /// Action to try, instead of only a question about rights.
    attempt: Option<Attempt>,
}

/// Dangerous action.
#[derive(Clone, Copy)]
enum Attempt {
    ReadSecret,
    ListSecrets,
    LabelledSecret,
    ChangeSecret,
    DeleteSecret,
    TokenSecret,
    TokenRequest,
    DeployItem,
    Target,
    Binding,
    Webhook,
    Pod,
    Impersonation,
    KubeSystem,
}

const fn asked(text: &'static str, rights: &'static [(&'static str, &'static str)]) -> Line {
    Line { text, rights, attempt: None }
}

const fn tried(
    text: &'static str,
    rights: &'static [(&'static str, &'static str)],
    attempt: Attempt,
) -> Line {
    Line { text, rights, attempt: Some(attempt) }
}

const LINES: [Line; 37] = [
    tried("read a Secret whose name is known", &[("get", "secrets")], Attempt::ReadSecret),
    tried("read all Secrets", &[("list watch", "secrets")], Attempt::ListSecrets),
    tried(
        "create, change and delete Secrets with a label of Groundwork",
        &[("create update delete", "secrets")],
        Attempt::LabelledSecret,
    ),
    tried("change one entry of a user's Secret", &[("update", "secrets")], Attempt::ChangeSecret),
    tried("delete a user's Secret", &[("delete", "secrets")], Attempt::DeleteSecret),
    tried("get the token of another account by a Secret", &[("create", "secrets")], Attempt::TokenSecret),
    tried(
        "request a token of another account",
        &[("create", "serviceaccounts/token")],
        Attempt::TokenRequest,
    ),
    asked("read ConfigMaps", &[("get list watch", "configmaps")]),
    asked(
        "read Installations, Executions, DeployItems",
        &[
            ("get list watch", "installations.landscaper.gardener.cloud"),
            ("get list watch", "executions.landscaper.gardener.cloud"),
            ("get list watch", "deployitems.landscaper.gardener.cloud"),
        ],
    ),
    asked(
        "read DataObjects and Targets, which may hold credentials",
        &[
            ("get list watch", "dataobjects.landscaper.gardener.cloud"),
            ("get list watch", "targets.landscaper.gardener.cloud"),
        ],
    ),
    asked(
        "read Contexts and ComponentVersionOverwrites",
        &[
            ("get list watch", "contexts.landscaper.gardener.cloud"),
            ("get list watch", "componentversionoverwrites.landscaper.gardener.cloud"),
        ],
    ),
    asked("read TargetSyncs", &[("get list watch", "targetsyncs.landscaper.gardener.cloud")]),
    asked(
        "read sets, variants and Repositories",
        &[
            ("get list watch", "packagevariantsets.config.porch.kpt.dev"),
            ("get list watch", "packagevariants.config.porch.kpt.dev"),
            ("get list watch", "packagerevisionsets.config.porch.kpt.dev"),
            ("get list watch", "repositories.config.porch.kpt.dev"),
        ],
    ),
    asked("read package revisions", &[("get list watch", "packagerevisions.porch.kpt.dev")]),
    asked("read files of packages", &[("get", "packagerevisionresources.porch.kpt.dev")]),
    asked("read Namespaces", &[("get list watch", "namespaces")]),
    asked(
        "create and delete Installations, Executions",
        &[
            ("create update patch delete", "installations.landscaper.gardener.cloud"),
            ("create update patch delete", "executions.landscaper.gardener.cloud"),
            ("update", "installations/finalizers.landscaper.gardener.cloud"),
            ("update", "executions/finalizers.landscaper.gardener.cloud"),
        ],
    ),
    tried(
        "create and delete DeployItems: deploy anything with any Target",
        &[("create update delete", "deployitems.landscaper.gardener.cloud")],
        Attempt::DeployItem,
    ),
    asked(
        "change DeployItems: what is deployed, and where",
        &[("patch", "deployitems.landscaper.gardener.cloud")],
    ),
    tried(
        "create, change and delete Targets: where others deploy to",
        &[("create update delete", "targets.landscaper.gardener.cloud")],
        Attempt::Target,
    ),
    asked(
        "create, change and delete DataObjects: what others import",
        &[("create update delete", "dataobjects.landscaper.gardener.cloud")],
    ),
    asked(
        "create and change Contexts: where components come from",
        &[("create update", "contexts.landscaper.gardener.cloud")],
    ),
    asked("change TargetSyncs", &[("patch", "targetsyncs.landscaper.gardener.cloud")]),
    asked(
        "create, change and delete PackageVariants",
        &[("create update patch delete", "packagevariants.config.porch.kpt.dev")],
    ),
    asked("change PackageVariantSets", &[("patch", "packagevariantsets.config.porch.kpt.dev")]),
    asked(
        "create, change and delete package revisions, published ones too",
        &[
            ("create update patch delete", "packagerevisions.porch.kpt.dev"),
            ("update", "packagerevisionresources.porch.kpt.dev"),
        ],
    ),
    asked(
        "read and write the records of package revisions",
        &[("get list watch create update delete", "revisionrecords.packages.groundwork.dev")],
    ),
    asked(
        "register the API of package revisions, and remove its former definition",
        &[
            ("create", "apiservices.apiregistration.k8s.io"),
            ("get update delete", "apiservices.apiregistration.k8s.io=v1alpha1.porch.kpt.dev"),
            ("get delete", "customresourcedefinitions.apiextensions.k8s.io=packagerevisions.porch.kpt.dev"),
            ("get", "clusterroles.rbac.authorization.k8s.io=groundwork-package-store"),
        ],
    ),
    asked(
        "write wrong statuses",
        &[
            ("update patch", "installations/status.landscaper.gardener.cloud"),
            ("update", "executions/status.landscaper.gardener.cloud"),
            ("update", "deployitems/status.landscaper.gardener.cloud"),
            ("update", "targetsyncs/status.landscaper.gardener.cloud"),
            ("update", "packagevariantsets/status.config.porch.kpt.dev"),
            ("update", "packagevariants/status.config.porch.kpt.dev"),
            ("update", "repositories/status.config.porch.kpt.dev"),
        ],
    ),
    asked("write Events about things that did not happen", &[("create", "events")]),
    asked(
        "ask which user a token belongs to, and what any user may do",
        &[
            ("create", "tokenreviews.authentication.k8s.io"),
            ("create", "subjectaccessreviews.authorization.k8s.io"),
        ],
    ),
    asked("request kubeconfigs with the rights of any Target", &[("create", "kubeconfigs.groundwork.dev")]),
    asked("request plans on behalf of any user", &[("create", "plans.groundwork.dev")]),
    asked(
        "keep or take the leadership of the watcher",
        &[("create get update", "leases.coordination.k8s.io")],
    ),
    tried(
        "change rights, webhooks or admission policies",
        &[
            ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
            ("create", "rolebindings.rbac.authorization.k8s.io"),
            ("update", "clusterroles.rbac.authorization.k8s.io"),
            ("create", "validatingwebhookconfigurations.admissionregistration.k8s.io"),
            ("delete", "validatingadmissionpolicies.admissionregistration.k8s.io"),
        ],
        Attempt::Binding,
    ),
    tried(
        "run anything in a pod, or act as another user",
        &[
            ("create", "pods"),
            ("create", "pods/exec"),
            ("impersonate", "users"),
            ("create", "deployments.apps"),
        ],
        Attempt::Pod,
    ),
    tried(
        "write in `kube-system`, except statuses and Events",
        &[("create", "secrets")],
        Attempt::KubeSystem,
    ),
];

/// Rights that every account has, or that give only public certificates.
const HARMLESS: [&str; 6] = [
    "configmaps=extension-apiserver-authentication",
    "selfsubjectreviews.authentication.k8s.io",
    "selfsubjectaccessreviews.authorization.k8s.io",
    "selfsubjectrulesreviews.authorization.k8s.io",
    // Leases of the controllers that Groundwork replaces.
    "leases.coordination.k8s.io=landscaper-controller",
    "leases.coordination.k8s.io=porch-operators.config.porch.kpt.dev",
];

/// Table in the document: columns, and the cells of each line.
type Table = (Vec<String>, BTreeMap<String, Vec<bool>>);

fn documented() -> Result<Table> {
    let page = std::fs::read_to_string(workspace().join(PAGE))?;
    let (_, rest) = page.split_once(HEADING).with_context(|| format!("{PAGE} has {HEADING:?}"))?;
    let lines =
        rest.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut rows = lines.map(cells);
    let columns = rows.next().context("the table has a head")?;
    let mut found = BTreeMap::new();
    for row in rows.skip(1) {
        let (name, cells) = row.split_first().context("a row has cells")?;
        let read = cells.iter().map(|cell| match cell.as_str() {
            "yes" => Ok(true),
            "–" => Ok(false),
            other => bail!("{name}: a cell is {other:?}"),
        });
        let read: Vec<bool> = read.collect::<Result<_>>()?;
        ensure!(found.insert(name.clone(), read).is_none(), "{name} is there twice");
    }
    Ok((columns.into_iter().skip(1).collect(), found))
}

/// Attacker with the token of one service, and the objects for the attempts.
struct Thief<'a> {
    system: &'a System,
    client: Client,
    column: &'static str,
    account: &'static str,
}

impl Thief<'_> {
    /// Reports whether the account has a right in a user's namespace or in that of the services.
    async fn may(&self, verb: &str, resource: &str) -> Result<bool> {
        let (resource, name) =
            resource.split_once('=').map_or((resource, None), |(resource, name)| (resource, Some(name)));
        let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
        let (resource, part) =
            resource.split_once('/').map_or((resource, None), |(resource, part)| (resource, Some(part)));
        let reviews: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        for namespace in [OTHER, OWN] {
            let attributes = ResourceAttributes {
                verb: Some(verb.to_owned()),
                group: Some(group.to_owned()),
                resource: Some(resource.to_owned()),
                subresource: part.map(str::to_owned),
                namespace: Some(namespace.to_owned()),
                name: name.map(str::to_owned),
                ..ResourceAttributes::default()
            };
            let spec = SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            };
            let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
            let answer = reviews.create(&PostParams::default(), &review).await?;
            if answer.status.context("the API server decides")?.allowed {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Reports whether the account can do the action of a line.
    async fn can(&self, line: &Line) -> Result<bool> {
        if let Some(attempt) = line.attempt {
            let succeeded = self.attempt(attempt).await.with_context(|| line.text)?;
            let followed = match attempt {
                Attempt::Binding => self.attempt(Attempt::Webhook).await?,
                Attempt::Pod => self.attempt(Attempt::Impersonation).await?,
                _ => false,
            };
            return Ok(succeeded || followed);
        }
        for (verbs, resource) in line.rights {
            for verb in verbs.split(' ') {
                if self.may(verb, resource).await? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    #[expect(clippy::disallowed_methods, reason = "the API server is one that the test has started")]
    async fn attempt(&self, attempt: Attempt) -> Result<bool> {
        let secrets = Place::secrets(&self.client, OTHER);
        let admin = self.system.client().await?;
        let label = json!({"groundwork.dev/holds": "exports"});
        let of = |kind: &str, plural: &str| Place::of(&self.client, VERSION, kind, plural, OTHER);
        match attempt {
            Attempt::ReadSecret => succeeded(secrets.api.get("theirs").await),
            Attempt::ListSecrets => succeeded(secrets.api.list(&kube::api::ListParams::default()).await),
            Attempt::LabelledSecret => {
                let name = format!("made-by-{}", self.account);
                let made = secret(&name, &json!({"metadata": {"labels": label}}));
                let is_made = succeeded(secrets.create(&made).await?)?;
                Place::secrets(&admin, OTHER).delete(&name).await.ok();
                Ok(is_made)
            }
            Attempt::ChangeSecret => {
                let mut theirs = Place::secrets(&admin, OTHER).api.get("theirs").await?;
                theirs.data["data"]["k"] = json!(data_encoding::BASE64.encode(self.column.as_bytes()));
                succeeded(secrets.api.replace("theirs", &PostParams::default(), &theirs).await)
            }
            Attempt::DeleteSecret => succeeded(secrets.delete("theirs").await),
            Attempt::TokenSecret => {
                let annotations = json!({"kubernetes.io/service-account.name": "default"});
                let more = json!({
                    "type": "kubernetes.io/service-account-token",
                    "metadata": {"labels": label, "annotations": annotations},
                });
                succeeded(secrets.create(&secret("token", &more)).await?)
            }
            Attempt::TokenRequest => {
                let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), OTHER);
                let request =
                    TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
                succeeded(accounts.create_token_request("default", &PostParams::default(), &request).await)
            }
            Attempt::DeployItem => {
                let name = format!("made-by-{}", self.account);
                let item = json!({
                    "apiVersion": VERSION, "kind": "DeployItem", "metadata": {"name": name},
                    "spec": {"type": "example.org/a", "target": {"name": "theirs", "namespace": OTHER}},
                });
                succeeded(of("DeployItem", "deployitems").create(&item).await?)
            }
            Attempt::Target => {
                let mut target =
                    Place::of(&admin, VERSION, "Target", "targets", OTHER).api.get("theirs").await?;
                target.data["spec"]["config"] = json!({"by": self.column});
                let place = of("Target", "targets");
                succeeded(place.api.replace("theirs", &PostParams::default(), &target).await)
            }
            Attempt::Binding => {
                let version = "rbac.authorization.k8s.io/v1";
                let object = json!({
                    "apiVersion": version, "kind": "ClusterRoleBinding", "metadata": {"name": "mine"},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
                });
                let place = Place::of(&self.client, version, "ClusterRoleBinding", "clusterrolebindings", "");
                succeeded(place.create(&object).await?)
            }
            Attempt::Webhook => {
                let (version, kind) = ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration");
                let object = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "mine"}});
                let place = Place::of(&self.client, version, kind, "mutatingwebhookconfigurations", "");
                let policies = Place::of(
                    &self.client,
                    version,
                    "ValidatingAdmissionPolicy",
                    "validatingadmissionpolicies",
                    "",
                );
                Ok(succeeded(place.create(&object).await?)?
                    || succeeded(policies.delete("service-secrets.groundwork.dev").await)?)
            }
            Attempt::Pod => {
                let object = json!({
                    "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "mine"},
                    "spec": {"containers": [{"name": "a", "image": "a"}]},
                });
                succeeded(Place::of(&self.client, "v1", "Pod", "pods", OTHER).create(&object).await?)
            }
            Attempt::Impersonation => {
                let request = http::Request::get(format!("/api/v1/namespaces/{OTHER}/pods"))
                    .header("Impersonate-User", "admin")
                    .header("Impersonate-Group", "system:masters")
                    .body(Vec::new())?;
                succeeded(self.client.request::<Value>(request).await)
            }
            Attempt::KubeSystem => {
                let made = secret("mine", &json!({"metadata": {"labels": label}}));
                succeeded(Place::secrets(&self.client, "kube-system").create(&made).await?)
            }
        }
    }

    /// Returns the rights that the API server reports, as verb and resource. A right on a single
    /// name has that name after `=`.
    async fn rights(&self) -> Result<BTreeSet<(String, String)>> {
        let reviews: Api<SelfSubjectRulesReview> = Api::all(self.client.clone());
        let mut rights = BTreeSet::new();
        for namespace in [OTHER, OWN, "kube-system"] {
            let spec = SelfSubjectRulesReviewSpec { namespace: Some(namespace.to_owned()) };
            let review = SelfSubjectRulesReview { spec, ..SelfSubjectRulesReview::default() };
            let status = reviews.create(&PostParams::default(), &review).await?.status;
            let status = status.context("the API server tells rules")?;
            ensure!(!status.incomplete, "the API server knows only a part of the rules");
            for rule in status.resource_rules {
                for group in rule.api_groups.unwrap_or_default() {
                    for resource in rule.resources.clone().unwrap_or_default() {
                        let resource =
                            if group.is_empty() { resource } else { format!("{resource}.{group}") };
                        let names = rule.resource_names.clone().unwrap_or_default();
                        let named = names.iter().map(|name| format!("{resource}={name}"));
                        let named: Vec<String> =
                            if names.is_empty() { vec![resource.clone()] } else { named.collect() };
                        for verb in &rule.verbs {
                            rights.extend(named.iter().map(|named| (verb.clone(), named.clone())));
                        }
                    }
                }
            }
        }
        Ok(rights)
    }
}

/// Returns whether the API server permitted the request. Any error other than a rejection is a
/// failure of the test.
fn succeeded<T>(answer: Result<T, Error>) -> Result<bool> {
    match answer {
        Ok(_) => Ok(true),
        Err(Error::Api(status)) if status.code == 403 => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Reports whether a line of the table covers a right: the line applies to the account, or an
/// attempt shows that the right is not sufficient.
fn is_told(verb: &str, resource: &str, told: &BTreeMap<&str, bool>) -> bool {
    let whatever = resource.split_once('=').map_or(resource, |(whatever, _)| whatever);
    HARMLESS.contains(&resource)
        || LINES.iter().any(|line| {
            let names = line.rights.iter().any(|(verbs, known)| {
                [whatever, resource].contains(known) && verbs.split(' ').any(|known| known == verb)
            });
            names && told.get(line.text).copied().unwrap_or_default()
        })
}

/// The table in the document agrees with the API server, for each line and account. Every right of
/// an account is covered by a line.
#[tokio::test(flavor = "multi_thread")]
async fn the_table_of_taken_over_services_is_true() -> Result<()> {
    let (columns, table) = documented()?;
    let wanted: Vec<&str> = COLUMNS.iter().map(|(column, _)| *column).collect();
    ensure!(columns == wanted, "the columns are {columns:?}, and should be {wanted:?}");
    let lines: BTreeSet<&str> = LINES.iter().map(|line| line.text).collect();
    let told: BTreeSet<&str> = table.keys().map(String::as_str).collect();
    ensure!(told == lines, "lines of one side alone: {:?}", told.symmetric_difference(&lines));

    let Some(system) = with_accounts().await? else { return Ok(()) };
    let admin = system.client().await?;
    Place::secrets(&admin, OTHER).create(&secret("theirs", &json!({}))).await??;
    let target = json!({
        "apiVersion": VERSION, "kind": "Target", "metadata": {"name": "theirs"},
        "spec": {"type": format!("{GROUP}/mock"), "config": {}},
    });
    Place::of(&admin, VERSION, "Target", "targets", OTHER).create(&target).await??;
    until_policies_are_there(&system).await?;

    let mut differences = Vec::new();
    for (index, (column, account)) in COLUMNS.into_iter().enumerate() {
        if column == PACKAGES {
            for component in COMPONENTS {
                let file = format!("k8s/components/{component}/rights.yaml");
                system.kubectl(&["apply", "--server-side", "-f", &file]).await?;
            }
        }
        let client = system.plane.service_account_client(OWN, &format!("groundwork-{account}")).await?;
        let thief = Thief { system: &system, client, column, account };
        if column == PACKAGES {
            wait_for("the rights of components are there", PATIENCE, async || {
                match thief.may("update", "packagerevisionresources.porch.kpt.dev").await {
                    Ok(true) => Ok(()),
                    other => Err(format!("{other:?}")),
                }
            })
            .await?;
        }
        let mut found = BTreeMap::new();
        for line in &LINES {
            let can = thief.can(line).await.with_context(|| column.to_owned())?;
            found.insert(line.text, can);
            let cells = &table[line.text];
            if cells.get(index) != Some(&can) {
                let word = if can { "can" } else { "cannot" };
                differences.push(format!("{column} {word} {}", line.text));
            }
        }
        for (verb, resource) in thief.rights().await? {
            if !is_told(&verb, &resource, &found) {
                differences.push(format!("{column} has a right that no line tells of: {verb} {resource}"));
            }
        }
    }
    ensure!(differences.is_empty(), "{PAGE} is not true:\n{}", differences.join("\n"));
    Ok(())
}

async fn until_policies_are_there(system: &System) -> Result<()> {
    let client = system.plane.service_account_client(OWN, "groundwork-renderer").await?;
    let place = Place::secrets(&client, OTHER);
    wait_for("Secrets without a label are refused", PATIENCE, async || {
        match place.create(&secret("unlabelled", &json!({}))).await.map(succeeded) {
            Ok(Ok(false)) => Ok(()),
            other => {
                let admin = system.client().await.map_err(|error| error.to_string())?;
                Place::secrets(&admin, OTHER).delete("unlabelled").await.ok();
                Err(format!("{other:?}"))
            }
        }
    })
    .await
}
