//! Rights of each service account as the API server decides them, verb by verb. The test covers
//! every resource that a service uses, and every resource through which an account could gain more
//! rights.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use groundwork_tests::{System, SystemOptions, wait_for};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::{Api, PostParams};

use crate::support::PATIENCE;

/// Namespace of the accounts and of a lease.
const OWN: &str = "groundwork-system";
/// Namespace with a user's objects.
const OTHER: &str = "somebody";
const ACCOUNTS: [&str; 7] =
    ["watcher", "resolver", "renderer", "variant", "deployer", "target-sync", "console"];
const VERBS: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
/// Number of concurrent access reviews.
const AT_ONCE: usize = 16;

/// Account, verbs and resource, for all namespaces. A resource is written with its group after a
/// dot, and with `=` before the only allowed name.
type Rights = &'static [(&'static str, &'static str, &'static str)];

/// Rights in `k8s/base`, with the components for the deployer, TargetSyncs and the console. Rights
/// from roles with the label `groundwork.dev/watchable` are missing: the controller that aggregates
/// them does not run here.
const BASE: Rights = &[
    ("watcher", "list watch", "installations.landscaper.gardener.cloud"),
    ("watcher", "list watch", "executions.landscaper.gardener.cloud"),
    ("watcher", "list watch", "deployitems.landscaper.gardener.cloud"),
    ("watcher", "list watch", "dataobjects.landscaper.gardener.cloud"),
    ("watcher", "list watch", "targets.landscaper.gardener.cloud"),
    ("watcher", "list watch", "targetsyncs.landscaper.gardener.cloud"),
    ("watcher", "list watch", "contexts.landscaper.gardener.cloud"),
    ("watcher", "list watch", "componentversionoverwrites.landscaper.gardener.cloud"),
    ("watcher", "list watch", "packagevariantsets.config.porch.kpt.dev"),
    ("watcher", "list watch", "packagevariants.config.porch.kpt.dev"),
    ("watcher", "list watch", "packagerevisionsets.config.porch.kpt.dev"),
    ("watcher", "list watch", "repositories.config.porch.kpt.dev"),
    ("watcher", "list watch", "secrets"),
    ("watcher", "list watch", "configmaps"),
    ("watcher", "list watch", "namespaces"),
    ("watcher", "get", "namespaces=kube-system"),
    ("watcher", "create", "events"),
    ("watcher", "create", "tokenreviews.authentication.k8s.io"),
    ("watcher", "create", "subjectaccessreviews.authorization.k8s.io"),
    ("resolver", "get", "installations.landscaper.gardener.cloud"),
    ("resolver", "update patch", "installations/status.landscaper.gardener.cloud"),
    ("resolver", "get create update", "contexts.landscaper.gardener.cloud"),
    ("resolver", "get", "componentversionoverwrites.landscaper.gardener.cloud"),
    ("resolver", "get", "secrets"),
    ("resolver", "get", "configmaps"),
    ("resolver", "list", "leases.coordination.k8s.io=landscaper-controller"),
    ("resolver", "create", "tokenreviews.authentication.k8s.io"),
    ("resolver", "create", "subjectaccessreviews.authorization.k8s.io"),
    ("renderer", "get list create update patch delete", "installations.landscaper.gardener.cloud"),
    ("renderer", "get list create update patch delete", "executions.landscaper.gardener.cloud"),
    ("renderer", "get list create update patch delete", "deployitems.landscaper.gardener.cloud"),
    ("renderer", "update", "installations/status.landscaper.gardener.cloud"),
    ("renderer", "update", "executions/status.landscaper.gardener.cloud"),
    ("renderer", "update", "deployitems/status.landscaper.gardener.cloud"),
    ("renderer", "update", "installations/finalizers.landscaper.gardener.cloud"),
    ("renderer", "update", "executions/finalizers.landscaper.gardener.cloud"),
    ("renderer", "get list create update delete", "dataobjects.landscaper.gardener.cloud"),
    ("renderer", "get list create update delete", "targets.landscaper.gardener.cloud"),
    ("renderer", "get list", "contexts.landscaper.gardener.cloud"),
    ("renderer", "get list", "componentversionoverwrites.landscaper.gardener.cloud"),
    ("renderer", "get create update", "secrets"),
    ("renderer", "get", "configmaps"),
    ("renderer", "create", "events"),
    ("renderer", "list", "leases.coordination.k8s.io=landscaper-controller"),
    ("renderer", "create", "kubeconfigs.groundwork.dev"),
    ("renderer", "create", "tokenreviews.authentication.k8s.io"),
    ("renderer", "create", "subjectaccessreviews.authorization.k8s.io"),
    ("variant", "get list", "packagevariantsets.config.porch.kpt.dev"),
    ("variant", "get", "packagerevisionsets.config.porch.kpt.dev"),
    ("variant", "get list create update patch delete", "packagevariants.config.porch.kpt.dev"),
    ("variant", "update", "packagevariantsets/status.config.porch.kpt.dev"),
    ("variant", "update", "packagevariants/status.config.porch.kpt.dev"),
    ("variant", "list", "repositories.config.porch.kpt.dev"),
    ("variant", "list", "packagerevisions.porch.kpt.dev"),
    ("variant", "create", "events"),
    ("variant", "list", "leases.coordination.k8s.io=porch-operators.config.porch.kpt.dev"),
    ("variant", "create", "tokenreviews.authentication.k8s.io"),
    ("variant", "create", "subjectaccessreviews.authorization.k8s.io"),
    ("deployer", "get list patch", "deployitems.landscaper.gardener.cloud"),
    ("deployer", "get", "executions.landscaper.gardener.cloud"),
    ("deployer", "update", "deployitems/status.landscaper.gardener.cloud"),
    ("deployer", "get", "targets.landscaper.gardener.cloud"),
    ("deployer", "list", "targetsyncs.landscaper.gardener.cloud"),
    ("deployer", "get", "contexts.landscaper.gardener.cloud"),
    ("deployer", "get", "componentversionoverwrites.landscaper.gardener.cloud"),
    ("deployer", "get create update delete", "secrets"),
    ("deployer", "get", "configmaps"),
    ("deployer", "create", "events"),
    ("deployer", "list", "leases.coordination.k8s.io=landscaper-controller"),
    ("deployer", "create", "tokenreviews.authentication.k8s.io"),
    ("deployer", "create", "subjectaccessreviews.authorization.k8s.io"),
    ("target-sync", "get list patch", "targetsyncs.landscaper.gardener.cloud"),
    ("target-sync", "update", "targetsyncs/status.landscaper.gardener.cloud"),
    ("target-sync", "list create update delete", "targets.landscaper.gardener.cloud"),
    ("target-sync", "get list create update delete", "secrets"),
    ("target-sync", "create", "events"),
    ("target-sync", "list", "leases.coordination.k8s.io=landscaper-controller"),
    ("console", "get", "installations.landscaper.gardener.cloud"),
    ("console", "get", "executions.landscaper.gardener.cloud"),
    ("console", "get", "deployitems.landscaper.gardener.cloud"),
    ("console", "get", "packagevariantsets.config.porch.kpt.dev"),
    ("console", "get", "packagevariants.config.porch.kpt.dev"),
    ("console", "get", "packagerevisions.porch.kpt.dev"),
    ("console", "create", "plans.groundwork.dev"),
    ("console", "create", "tokenreviews.authentication.k8s.io"),
    ("console", "create", "subjectaccessreviews.authorization.k8s.io"),
];

/// Additional rights in the namespace of the services.
const AT_HOME: Rights = &[
    ("watcher", "create", "leases.coordination.k8s.io"),
    ("watcher", "get update", "leases.coordination.k8s.io=groundwork-watcher"),
];

/// Additional rights from a component, by its folder.
const COMPONENTS: [(&str, Rights); 3] = [
    (
        "package-store",
        &[
            ("watcher", "get list watch", "packagerevisions.porch.kpt.dev"),
            ("variant", "get list watch create update patch delete", "packagerevisions.porch.kpt.dev"),
            ("variant", "get update", "packagerevisionresources.porch.kpt.dev"),
            ("variant", "get list watch create update delete", "revisionrecords.packages.groundwork.dev"),
            ("variant", "create", "apiservices.apiregistration.k8s.io"),
            ("variant", "get update delete", "apiservices.apiregistration.k8s.io=v1alpha1.porch.kpt.dev"),
            (
                "variant",
                "get delete",
                "customresourcedefinitions.apiextensions.k8s.io=packagerevisions.porch.kpt.dev",
            ),
            ("variant", "get", "clusterroles.rbac.authorization.k8s.io=groundwork-package-store"),
            ("variant", "get list", "repositories.config.porch.kpt.dev"),
            ("variant", "update", "repositories/status.config.porch.kpt.dev"),
            ("variant", "get", "namespaces"),
            ("variant", "get", "secrets"),
        ],
    ),
    ("follow-tags", &[("variant", "patch", "packagevariantsets.config.porch.kpt.dev")]),
    (
        "porch",
        &[
            ("variant", "create update", "packagerevisions.porch.kpt.dev"),
            ("variant", "get update", "packagerevisionresources.porch.kpt.dev"),
        ],
    ),
];

/// Resources through which an account could gain other accounts' rights, or approve in place of
/// people.
const NOBODYS: [&str; 27] = [
    "pods",
    "pods/exec",
    "pods/ephemeralcontainers",
    "nodes",
    "nodes/proxy",
    "services/proxy",
    "serviceaccounts",
    "serviceaccounts/token",
    "users",
    "groups",
    "persistentvolumes",
    "deployments.apps",
    "daemonsets.apps",
    "jobs.batch",
    "roles.rbac.authorization.k8s.io",
    "rolebindings.rbac.authorization.k8s.io",
    "clusterroles.rbac.authorization.k8s.io",
    "clusterrolebindings.rbac.authorization.k8s.io",
    "customresourcedefinitions.apiextensions.k8s.io",
    "apiservices.apiregistration.k8s.io",
    "mutatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingwebhookconfigurations.admissionregistration.k8s.io",
    "validatingadmissionpolicies.admissionregistration.k8s.io",
    "validatingadmissionpolicybindings.admissionregistration.k8s.io",
    "certificatesigningrequests.certificates.k8s.io",
    "packagerevisions/approval.porch.kpt.dev",
    "widgets.example.org",
];
/// Unusual verbs through which an account could gain rights.
const MORE_VERBS: [&str; 3] = ["impersonate", "escalate", "bind"];

/// Reports whether a table grants a right. A right without a name includes each single name.
fn grants(table: &[Rights], account: &str, verb: &str, resource: &str) -> bool {
    let whatever = resource.split_once('=').map_or(resource, |(whatever, _)| whatever);
    table.iter().copied().flatten().any(|(of, verbs, known)| {
        *of == account
            && (*known == resource || *known == whatever)
            && verbs.split(' ').any(|one| one == verb)
    })
}

async fn may(
    reviews: &Api<SubjectAccessReview>,
    account: &str,
    verb: &str,
    resource: &str,
    namespace: &str,
) -> Result<bool> {
    let (resource, name) =
        resource.split_once('=').map_or((resource, None), |(resource, name)| (resource, Some(name)));
    let (resource, group) = resource.split_once('.').unwrap_or((resource, ""));
    let (resource, part) =
        resource.split_once('/').map_or((resource, None), |(resource, part)| (resource, Some(part)));
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: part.map(str::to_owned),
        namespace: Some(namespace.to_owned()),
        name: name.map(str::to_owned),
        ..ResourceAttributes::default()
    };
    let groups =
        ["system:serviceaccounts", "system:serviceaccounts:groundwork-system", "system:authenticated"];
    let spec = SubjectAccessReviewSpec {
        user: Some(format!("system:serviceaccount:{OWN}:groundwork-{account}")),
        groups: Some(groups.map(str::to_owned).to_vec()),
        resource_attributes: Some(attributes),
        ..SubjectAccessReviewSpec::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.context("the API server decides")?.allowed)
}

/// Returns the differences between the API server and a table, for some accounts and resources in a
/// namespace.
async fn differences(
    reviews: &Api<SubjectAccessReview>,
    table: &[Rights],
    accounts: &[&str],
    resources: &BTreeSet<&str>,
    namespace: &str,
) -> Result<Vec<String>> {
    let mut questions = Vec::new();
    for account in accounts {
        for resource in resources {
            let more = if NOBODYS.contains(resource) { &MORE_VERBS[..] } else { &[] };
            questions.extend(VERBS.iter().chain(more).map(|verb| (*account, *verb, *resource)));
        }
    }
    ensure!(!questions.is_empty(), "something is asked");
    let answers = stream::iter(questions).map(async |(account, verb, resource)| {
        let allowed = may(reviews, account, verb, resource, namespace).await?;
        let is_known = allowed == grants(table, account, verb, resource);
        let word = if allowed { "may" } else { "may not" };
        anyhow::Ok((!is_known).then(|| format!("{account} {word} {verb} {resource} in {namespace}")))
    });
    let found: Vec<Option<String>> = answers.buffer_unordered(AT_ONCE).try_collect().await?;
    Ok(found.into_iter().flatten().collect())
}

fn resources<'a>(tables: impl IntoIterator<Item = &'a Rights>) -> BTreeSet<&'static str> {
    let named = tables.into_iter().copied().flatten().map(|(_, _, resource)| *resource);
    // Also ask for a named resource without its name: the right to one name must not include
    // others.
    let named =
        named.flat_map(|resource| [Some(resource), resource.split_once('=').map(|(whatever, _)| whatever)]);
    named.flatten().chain(NOBODYS).collect()
}

/// For every account, verb and resource, the API server allows exactly the rights in the table.
#[tokio::test(flavor = "multi_thread")]
async fn every_account_may_what_it_needs_and_nothing_else() -> Result<()> {
    let options = SystemOptions { target_syncs: true, ..SystemOptions::default() };
    let Some(system) = System::servers(options).await? else { return Ok(()) };
    let reviews: Api<SubjectAccessReview> = Api::all(system.client().await?);
    system.plane.create_namespace(OTHER).await?;
    let components = COMPONENTS.map(|(_, rights)| rights);
    let all = resources([BASE, AT_HOME].iter().chain(&components));
    agree(&reviews, &[BASE], &ACCOUNTS, &all, OTHER).await?;
    agree(&reviews, &[BASE, AT_HOME], &ACCOUNTS, &resources([&AT_HOME]), OWN).await?;
    let mut tables = vec![BASE];
    for (component, rights) in COMPONENTS {
        let file = format!("k8s/components/{component}/rights.yaml");
        system.kubectl(&["apply", "--server-side", "-f", &file]).await?;
        tables.push(rights);
        agree(&reviews, &tables, &["variant", "watcher"], &all, OTHER).await?;
    }
    Ok(())
}

/// Waits until API server and table agree, because roles take effect a moment after their creation.
async fn agree(
    reviews: &Api<SubjectAccessReview>,
    table: &[Rights],
    accounts: &[&str],
    resources: &BTreeSet<&str>,
    namespace: &str,
) -> Result<()> {
    wait_for(&format!("the table of {accounts:?} is true in {namespace}"), PATIENCE, async || {
        match differences(reviews, table, accounts, resources, namespace).await {
            Ok(found) if found.is_empty() => Ok(()),
            Ok(found) => Err(format!("{found:#?}")),
            Err(error) => Err(format!("{error:#}")),
        }
    })
    .await
}
