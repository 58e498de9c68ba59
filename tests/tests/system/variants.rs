//! PackageVariantSets: their children, through the API server and through gRPC calls.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use groundwork_api::{PackageRevision, PackageRevisionSet, PackageVariant, PackageVariantSet, Repository};
use groundwork_proto::component::v1::{Json, ObjectName};
use groundwork_proto::status;
use groundwork_proto::variant::v1::expand_request::Input;
use groundwork_proto::variant::v1::variants_client::VariantsClient;
use groundwork_proto::variant::v1::{ExpandInput, ExpandRequest};
use groundwork_tests::{System, wait_for};
use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tonic::Code;

use crate::case::Case;
use crate::command::run;
use crate::grpc::{account, channel};
use crate::shared;
use crate::support::{PATIENCE, requests};

const VARIANT: &str = "system:serviceaccount:groundwork-system:groundwork-variant";

pub(crate) fn spec(targets: &Value) -> Value {
    json!({"spec": {"upstream": {"repo": "catalog", "package": "foo", "revision": "v1"}, "targets": targets}})
}

/// Returns the repository list of the design document.
fn design() -> Value {
    json!([{"repositories": [
        {"name": "cluster-01"}, {"name": "cluster-02"},
        {"name": "cluster-03", "packageNames": ["foo-a", "foo-b", "foo-c"]},
        {"name": "cluster-04", "packageNames": ["foo-a", "foo-b"]},
    ]}])
}

pub(crate) async fn repositories(case: &Case<'_>) -> Result<()> {
    for (name, region) in [
        ("cluster-01", "useast1"),
        ("cluster-02", "uswest1"),
        ("cluster-03", "useast2"),
        ("cluster-04", "uswest1"),
    ] {
        let content = json!({"metadata": {"labels": {"region": region}},
            "spec": {"type": "git", "git": {"repo": format!("https://git.example.org/{name}")}}});
        case.create::<Repository>(name, &content).await?;
    }
    Ok(())
}

/// Creates the upstream of all sets in these tests.
pub(crate) async fn upstream(case: &Case<'_>) -> Result<()> {
    let content = json!({"spec": {"repository": "catalog", "packageName": "foo", "revision": 1, "workspaceName": "w1",
        "lifecycle": "Published"}});
    case.create::<PackageRevision>("catalog.foo.w1", &content).await?;
    Ok(())
}

/// Returns status, reason and message of a set's condition, if it is about the current spec.
fn told(set: &PackageVariantSet, condition: &str) -> Option<(String, String, String)> {
    let status = set.status.as_ref()?;
    let found = status.conditions.iter().find(|found| found.type_ == condition)?;
    let is_current = found.observed_generation == set.metadata.generation;
    is_current.then(|| (found.status.clone(), found.reason.clone(), found.message.clone()))
}

pub(crate) async fn ready(case: &Case<'_>, name: &str) -> Result<PackageVariantSet> {
    let is_ready = |set: &PackageVariantSet| told(set, "Ready").is_some_and(|(status, ..)| status == "True");
    case.until(&format!("{name} is ready"), name, is_ready).await
}

pub(crate) async fn stalled(case: &Case<'_>, name: &str) -> Result<(String, String)> {
    let is_stalled =
        |set: &PackageVariantSet| told(set, "Stalled").is_some_and(|(status, ..)| status == "True");
    let set = case.until(&format!("{name} is stalled"), name, is_stalled).await?;
    let (_, reason, message) = told(&set, "Stalled").context("the condition")?;
    Ok((reason, message))
}

/// Returns the children of a set by repository and package.
pub(crate) async fn children(case: &Case<'_>, set: &str) -> Result<BTreeMap<String, PackageVariant>> {
    let set: PackageVariantSet = case.get(set).await?;
    let labels = format!("config.porch.kpt.dev/packagevariantset={}", set.metadata.uid.unwrap_or_default());
    let children = case.list::<PackageVariant>(&labels).await?;
    let pair = |child: &PackageVariant| {
        let downstream = child.spec.downstream.clone().unwrap_or_default();
        format!("{}/{}", downstream.repo.unwrap_or_default(), downstream.package.unwrap_or_default())
    };
    Ok(children.into_iter().map(|child| (pair(&child), child)).collect())
}

pub(crate) fn uids(children: &BTreeMap<String, PackageVariant>) -> BTreeMap<String, Option<String>> {
    children.iter().map(|(pair, child)| (pair.clone(), child.metadata.uid.clone())).collect()
}

/// Waits until a set has exactly these children.
pub(crate) async fn has(
    case: &Case<'_>,
    set: &str,
    pairs: &[&str],
) -> Result<BTreeMap<String, PackageVariant>> {
    wait_for(&format!("{set} has {pairs:?}"), PATIENCE, async || {
        let found = children(case, set).await.map_err(|error| error.to_string())?;
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        if names == pairs { Ok(found.clone()) } else { Err(format!("{names:?}")) }
    })
    .await
    .map_err(|error| case.system.explained(error))
}

/// Returns the service's requests in a namespace: the number of reads of its sets, and all writes.
fn traffic(system: &System, namespace: &str) -> Result<(usize, Vec<String>)> {
    let mut reads = 0;
    let mut writes = Vec::new();
    for request in requests(system, "")? {
        let object = &request["objectRef"];
        if request["user"]["username"] != VARIANT || object["namespace"] != namespace {
            continue;
        }
        match request["verb"].as_str().unwrap_or_default() {
            "get" if object["resource"] == "packagevariantsets" => reads += 1,
            "get" | "list" | "watch" => {}
            verb => writes.push(format!("{verb} {} {}", object["resource"], object["name"])),
        }
    }
    Ok((reads, writes))
}

/// Changes an annotation without meaning, and waits until the service has reconciled the set.
async fn looked_at(case: &Case<'_>, set: &str, value: &str) -> Result<()> {
    let (before, _) = traffic(case.system, &case.namespace)?;
    let annotations = json!({"metadata": {"annotations": {"example.org/touched": value}}});
    case.change::<PackageVariantSet>(set, &annotations).await?;
    wait_for("the service reads the set", PATIENCE, async || match traffic(case.system, &case.namespace) {
        Ok((reads, _)) if reads > before => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
}

/// V-042, V-129: the pairs of the design document (`packagevariants.md` 4.6). One pair is removed,
/// the template changes, and an unchanged set causes no write.
#[tokio::test(flavor = "multi_thread")]
async fn the_pairs_of_the_design_document() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "variants").await?;
    repositories(&case).await?;
    // V-167, V-171: the service looks up the upstream first, in the namespace of the set.
    case.create::<PackageVariantSet>("early", &spec(&design())).await?;
    let missing = "could not find upstream package revision 'foo/v1' in repo 'catalog'";
    assert_eq!(stalled(&case, "early").await?, ("UpstreamNotFound".to_owned(), missing.to_owned()));
    case.delete::<PackageVariantSet>("early").await?;
    upstream(&case).await?;
    case.create::<PackageVariantSet>("example", &spec(&design())).await?;
    let set = ready(&case, "example").await?;
    let all = [
        "cluster-01/foo",
        "cluster-02/foo",
        "cluster-03/foo-a",
        "cluster-03/foo-b",
        "cluster-03/foo-c",
        "cluster-04/foo-a",
        "cluster-04/foo-b",
    ];
    let first = has(&case, "example", &all).await?;
    let status = set.status.clone().unwrap_or_default();
    assert_eq!((status.variant_count, status.target_counts.to_vec()), (Some(7), vec![4]));
    let child = &first["cluster-03/foo-a"];
    assert_eq!(child.name_any(), "example-cluster-03-foo-a");
    assert_eq!(child.finalizers(), ["config.porch.kpt.dev/packagevariants"]);
    let owner = serde_json::to_value(child.owner_references())?;
    assert_eq!(
        owner,
        json!([{"apiVersion": "config.porch.kpt.dev/v1alpha2", "kind": "PackageVariantSet", "name": "example",
            "uid": set.metadata.uid, "controller": true}])
    );

    let mut without = design();
    without[0]["repositories"][2]["packageNames"] = json!(["foo-a", "foo-c"]);
    case.change::<PackageVariantSet>("example", &spec(&without)).await?;
    let six: Vec<&str> = all.into_iter().filter(|pair| *pair != "cluster-03/foo-b").collect();
    let second = has(&case, "example", &six).await?;
    let kept: BTreeMap<_, _> =
        uids(&first).into_iter().filter(|(pair, _)| pair != "cluster-03/foo-b").collect();
    assert_eq!(uids(&second), kept);

    without[0]["template"] =
        json!({"labelExprs": {"key": "region", "valueExpr": "repository.labels['region']"}});
    case.change::<PackageVariantSet>("example", &spec(&without)).await?;
    ready(&case, "example").await?;
    let third = has(&case, "example", &six).await?;
    assert_eq!(uids(&third), kept);
    assert_eq!(third["cluster-03/foo-a"].spec.labels.get("region").map(String::as_str), Some("useast2"));

    // Wait until the children's statuses are written and the set has been reconciled after that.
    for (_, child) in third {
        let has_status = |child: &PackageVariant| {
            child
                .status
                .as_ref()
                .is_some_and(|status| status.observed_generation == child.metadata.generation)
        };
        case.until("the variant has a status", &child.name_any(), has_status).await?;
    }
    looked_at(&case, "example", "1").await?;
    let (_, before) = traffic(system, "variants")?;
    let manifest = json!({"apiVersion": "config.porch.kpt.dev/v1alpha2", "kind": "PackageVariantSet",
        "metadata": {"name": "example"}, "spec": spec(&without)["spec"]});
    let applied = PatchParams::apply("somebody").force();
    for _ in 0..2 {
        case.api::<PackageVariantSet>().patch("example", &applied, &Patch::Apply(&manifest)).await?;
    }
    looked_at(&case, "example", "2").await?;
    looked_at(&case, "example", "3").await?;
    let (_, after) = traffic(system, "variants")?;
    assert_eq!(after, before);

    // A child that a user deletes is created again, as a new object.
    case.delete::<PackageVariant>("example-cluster-01-foo").await?;
    wait_for("the child is there again", PATIENCE, async || {
        let found = children(&case, "example").await.map_err(|error| error.to_string())?;
        match found.get("cluster-01/foo") {
            Some(child) if child.metadata.uid != kept["cluster-01/foo"] => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .map_err(|error| system.explained(error))?;

    // The garbage collector deletes the children of a deleted set.
    case.delete::<PackageVariantSet>("example").await?;
    wait_for("all children are gone", PATIENCE, async || match case.list::<PackageVariant>("").await {
        Ok(found) if found.is_empty() => Ok(()),
        other => Err(format!("{other:?}")),
    })
    .await
    .map_err(|error| system.explained(error))
}

/// Two targets with the same readable name become two variants, and stay separate
/// (`packagevariants.md` 4.6).
#[tokio::test(flavor = "multi_thread")]
async fn colliding_names_yield_two_variants() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "collisions").await?;
    upstream(&case).await?;
    let targets = json!([{"repositories": [
        {"name": "a", "packageNames": ["b-c"]}, {"name": "a-b", "packageNames": ["c"]},
    ]}]);
    case.create::<PackageVariantSet>("s", &spec(&targets)).await?;
    ready(&case, "s").await?;
    let both = has(&case, "s", &["a-b/c", "a/b-c"]).await?;
    let (plain, other) = (both["a/b-c"].name_any(), both["a-b/c"].name_any());
    ensure!(plain == "s-a-b-c" && other.starts_with("s-") && other != plain, "{plain} {other}");
    looked_at(&case, "s", "1").await?;
    assert_eq!(uids(&has(&case, "s", &["a-b/c", "a/b-c"]).await?), uids(&both));
    Ok(())
}

/// V-125: all errors of a set are reported, and its children stay (`packagevariants.md` 4.6 and
/// 4.8).
#[tokio::test(flavor = "multi_thread")]
async fn bad_sets_are_told_and_touch_nothing() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "bad-variants").await?;
    upstream(&case).await?;
    let good = json!([{"repositories": [{"name": "a", "packageNames": ["b-c"]}, {"name": "a-b", "packageNames": ["c"]}]}]);
    case.create::<PackageVariantSet>("example", &spec(&good)).await?;
    let before = uids(&has(&case, "example", &["a-b/c", "a/b-c"]).await?);
    let names: Vec<String> = children(&case, "example").await?.values().map(ResourceExt::name_any).collect();
    assert!(names.contains(&"example-a-b-c".to_owned()) && names[0] != names[1], "{names:?}");

    let repository = |name: &str| json!({"repositories": [{"name": name}]});
    let selector =
        |version: &str, kind: &str| json!([{"objectSelector": {"apiVersion": version, "kind": kind}}]);
    for (targets, reason, message) in [
        (json!([]), "ValidationError", "must specify at least one item in spec.targets"),
        (
            json!([{}, {"repositories": [], "repositorySelector": {}}]),
            "ValidationError",
            "spec.targets[0] must specify one of `repositories`, `repositorySelector`, or `objectSelector`; \
             spec.targets[1].repositories must not be an empty list if specified; \
             spec.targets[1] must specify one of `repositories`, `repositorySelector`, or `objectSelector`",
        ),
        (
            selector("nowhere.example.org/v1", "Thing"),
            "NoMatchingTargets",
            "no matches for kind \"Thing\" in version \"nowhere.example.org/v1\"",
        ),
        (selector("v1", "Thing"), "NoMatchingTargets", "no matches for kind \"Thing\" in version \"v1\""),
        (
            selector("coordination.k8s.io/v1", "Lease"),
            "NoMatchingTargets",
            "may not list leases.coordination.k8s.io in namespace bad-variants: grant it to the service account of this service",
        ),
        (
            json!([repository("a"), {"repositories": [{"name": "a"}], "template": {"labels": {"x": "y"}}}]),
            "UnexpectedError",
            "spec.targets[1].template: repository \"a\" could not be loaded (repo \"a\", package \"foo\")",
        ),
    ] {
        case.change::<PackageVariantSet>("example", &spec(&targets)).await?;
        assert_eq!(stalled(&case, "example").await?, (reason.to_owned(), message.to_owned()), "{targets}");
        assert_eq!(uids(&children(&case, "example").await?), before, "{targets}");
    }
    ensure!(!case.warnings::<PackageVariantSet>("example").await?.is_empty(), "events tell of it");
    case.create::<Repository>(
        "a",
        &json!({"spec": {"type": "git", "git": {"repo": "https://git.example.org/a"}}}),
    )
    .await?;
    let (reason, message) = stalled_with(&case, "DuplicateTargets").await?;
    assert_eq!(
        (reason.as_str(), message.as_str()),
        (
            "DuplicateTargets",
            "targets produce conflicting package variants for a/foo (targets[0], targets[1])"
        )
    );

    case.create::<PackageVariant>("by-hand", &json!({"spec": {"upstream": {"repo": "catalog"}}})).await?;
    let invalid = case
        .until("its status tells", "by-hand", |variant: &PackageVariant| variant.status.is_some())
        .await?;
    let conditions = invalid.status.unwrap_or_default().conditions;
    assert_eq!(
        (conditions[0].reason.as_str(), conditions[0].message.as_str()),
        (
            "ValidationError",
            "missing required field spec.upstream.package; either spec.upstream.revision or spec.upstream.workspaceName must be \
             specified; missing required field spec.downstream"
        )
    );
    Ok(())
}

/// A set may isolate failures, so that its other targets proceed, and may limit the share of
/// children that are deleted at once (`packagevariants.md` 4.1 and 4.7).
#[tokio::test(flavor = "multi_thread")]
async fn failures_are_isolated_and_deletions_confirmed() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "brakes").await?;
    upstream(&case).await?;
    let listed = |packages: &[&str]| json!({"repositories": [{"name": "a", "packageNames": packages}]});
    let failing = json!({"objectSelector": {"apiVersion": "v1", "kind": "Thing"}});
    let set = |failure: &str, percent: u8, targets: Value| {
        let mut set = spec(&targets);
        set["spec"]["failurePolicy"] = json!(failure);
        set["spec"]["maxDeletePercent"] = json!(percent);
        set
    };
    case.create::<PackageVariantSet>("example", &set("Stop", 40, json!([listed(&["1", "2", "3", "4"])])))
        .await?;
    has(&case, "example", &["a/1", "a/2", "a/3", "a/4"]).await?;
    let wanted = |packages: &[&str]| json!([failing, listed(packages)]);
    case.change::<PackageVariantSet>("example", &set("Stop", 40, wanted(&["1", "2", "5"]))).await?;
    assert_eq!(
        stalled(&case, "example").await?.1,
        "no matches for kind \"Thing\" in version \"v1\"",
        "nothing else happens"
    );
    case.change::<PackageVariantSet>("example", &set("Isolate", 40, wanted(&["1", "2", "5"]))).await?;
    has(&case, "example", &["a/1", "a/2", "a/3", "a/4", "a/5"]).await?;
    let (reason, message) = stalled(&case, "example").await?;
    assert_eq!(
        (reason.as_str(), message.as_str()),
        (
            "NoMatchingTargets",
            "no matches for kind \"Thing\" in version \"v1\" (the other package variants are reconciled; 2 package variants \
             that no other target asks for stay until then)"
        )
    );
    // Three of five children are more than the limit of 40 percent.
    case.change::<PackageVariantSet>("example", &set("Isolate", 40, json!([listed(&["1", "2"])]))).await?;
    let is_guarded = |set: &PackageVariantSet| {
        told(set, "Ready").is_some_and(|(_, reason, _)| reason == "DeletionGuarded")
    };
    let guarded: PackageVariantSet = case.until("the deletion is guarded", "example", is_guarded).await?;
    let (_, _, message) = told(&guarded, "Ready").context("the condition")?;
    let generation = guarded.metadata.generation.context("a generation")?.to_string();
    ensure!(message.starts_with("3 of 5 package variants would be deleted"), "{message}");
    has(&case, "example", &["a/1", "a/2", "a/3", "a/4", "a/5"]).await?;
    let confirmation = json!({"metadata": {"annotations": {"groundwork/confirm-delete": generation}}});
    case.change::<PackageVariantSet>("example", &confirmation).await?;
    has(&case, "example", &["a/1", "a/2"]).await?;
    ready(&case, "example").await?;
    Ok(())
}

/// The cluster makes exactly the planned changes. If the cluster has changed since the plan, the
/// command changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_plan_is_carried_out_as_it_was_shown() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "planned").await?;
    upstream(&case).await?;
    let listed = |packages: &[&str]| {
        let mut set = spec(&json!([{"repositories": [{"name": "a", "packageNames": packages}]}]));
        set["apiVersion"] = json!("config.porch.kpt.dev/v1alpha2");
        set["kind"] = json!("PackageVariantSet");
        set["metadata"] = json!({"name": "example", "namespace": "planned"});
        set
    };
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("set.json");
    let file = file.to_str().context("the path is UTF-8")?;
    let plan = async |packages: &[&str]| -> Result<(i32, String, String)> {
        std::fs::write(file, listed(packages).to_string())?;
        let (code, out, err) = run(system, &["variants", "plan", "--cluster", "-f", file]).await?;
        let hash = out.lines().last().and_then(|line| line.strip_prefix("plan ")).unwrap_or_default();
        ensure!(hash.len() == 64, "{out}{err}");
        Ok((code, out.clone(), hash.to_owned()))
    };
    let apply = async |hash: &str| run(system, &["variants", "apply", "-f", file, "--plan", hash]).await;
    let (code, shown, hash) = plan(&["1", "2"]).await?;
    ensure!(code == 0 && shown.contains("2 created, 0 changed, 0 deleted, 0 unchanged"), "{shown}");
    assert_eq!(
        apply(&hash).await?,
        (0, "packagevariantset planned/example written\n".to_owned(), String::new())
    );
    has(&case, "example", &["a/1", "a/2"]).await?;

    let (_, shown, hash) = plan(&["2", "3"]).await?;
    ensure!(shown.contains("1 created, 0 changed, 1 deleted, 1 unchanged"), "{shown}");
    // Another user changes the set after the plan.
    case.change::<PackageVariantSet>("example", &json!({"spec": listed(&["1", "2", "4"])["spec"]})).await?;
    has(&case, "example", &["a/1", "a/2", "a/4"]).await?;
    let (code, out, err) = apply(&hash).await?;
    ensure!(code == 1 && err.contains("the plan has changed since it was printed"), "{code} {err}");
    ensure!(out.contains("1 created, 0 changed, 2 deleted, 1 unchanged"), "{out}");
    has(&case, "example", &["a/1", "a/2", "a/4"]).await?;
    let (_, _, hash) = plan(&["2", "3"]).await?;
    ensure!(apply(&hash).await?.0 == 0);
    has(&case, "example", &["a/2", "a/3"]).await?;
    // A plan of the cluster's own sets, without a file, shows no change.
    ready(&case, "example").await?;
    let (code, out, _) = run(system, &["variants", "plan", "--cluster", "-n", "planned"]).await?;
    ensure!(code == 0 && out.contains("0 created, 0 changed, 0 deleted, 2 unchanged"), "{out}");
    Ok(())
}

async fn stalled_with(case: &Case<'_>, reason: &str) -> Result<(String, String)> {
    let has_reason =
        |set: &PackageVariantSet| told(set, "Stalled").is_some_and(|(_, found, _)| found == reason);
    let set = case.until(&format!("the set is stalled with {reason}"), "example", has_reason).await?;
    let (_, reason, message) = told(&set, "Stalled").context("the condition")?;
    Ok((reason, message))
}

fn team() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("hr.example.org", "v1", "Team"), "teams")
}

/// Creates a custom kind with rights on it. The test server does not aggregate roles, so this
/// function binds them as well.
async fn install_teams(system: &System) -> Result<()> {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "teams.hr.example.org"},
        "spec": {"group": "hr.example.org", "scope": "Namespaced", "names": {"plural": "teams", "kind": "Team"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    });
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "watchable-teams", "labels": {"groundwork.dev/watchable": "true"}},
        "rules": [{"apiGroups": ["hr.example.org"], "resources": ["teams"], "verbs": ["get", "list", "watch"]}],
    });
    let subject =
        |name: &str| json!({"kind": "ServiceAccount", "name": name, "namespace": "groundwork-system"});
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "watchable-teams"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "watchable-teams"},
        "subjects": [subject("groundwork-watcher"), subject("groundwork-variant")],
    });
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("teams.json");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [crd, role, binding]});
    std::fs::write(&file, list.to_string())?;
    let file = file.to_str().context("the path is UTF-8")?;
    system.kubectl(&["apply", "-f", file]).await?;
    system.kubectl(&["wait", "--for=condition=Established", "crd/teams.hr.example.org"]).await?;
    Ok(())
}

/// V-133 to V-135: a set selects objects of any kind. A label on an object adds a variant, and its
/// removal deletes the variant.
#[tokio::test(flavor = "multi_thread")]
async fn labels_bring_and_take_variants() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "teams").await?;
    upstream(&case).await?;
    install_teams(system).await?;
    let teams: Api<DynamicObject> = Api::namespaced_with(system.client().await?, "teams", &team());
    for (name, labels) in
        [("blue", json!({"org": "hr"})), ("red", json!({})), ("green", json!({"org": "hr"}))]
    {
        let object = json!({"apiVersion": "hr.example.org/v1", "kind": "Team", "metadata": {"name": name, "labels": labels}});
        teams.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    }
    let targets = json!([{"objectSelector": {"apiVersion": "hr.example.org/v1", "kind": "Team", "matchLabels": {"org": "hr"}}}]);
    case.create::<PackageVariantSet>("example", &spec(&targets)).await?;
    let before = has(&case, "example", &["blue/foo", "green/foo"]).await?;
    let label = async |name: &str, org: Value| {
        let change = json!({"metadata": {"labels": {"org": org}}});
        teams.patch(name, &PatchParams::default(), &Patch::Merge(change)).await
    };
    label("red", json!("hr")).await?;
    has(&case, "example", &["blue/foo", "green/foo", "red/foo"]).await?;
    label("green", Value::Null).await?;
    let after = has(&case, "example", &["blue/foo", "red/foo"]).await?;
    assert_eq!(after["blue/foo"].metadata.uid, before["blue/foo"].metadata.uid);
    teams.delete("blue", &kube::api::DeleteParams::default()).await?;
    has(&case, "example", &["red/foo"]).await?;
    Ok(())
}

/// A set in the cluster, inline input of a call, and files give the same answer. A caller needs the
/// rights to see it.
#[tokio::test(flavor = "multi_thread")]
async fn expand_gives_one_answer() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "expand").await?;
    repositories(&case).await?;
    upstream(&case).await?;
    let mut targets = design();
    targets[0]["template"] =
        json!({"labelExprs": [{"key": "region", "valueExpr": "repository.labels['region']"}]});
    case.create::<PackageVariantSet>("example", &spec(&targets)).await?;
    ready(&case, "example").await?;

    let mut objects = vec![serde_json::to_value(case.get::<PackageVariantSet>("example").await?)?];
    objects.push(serde_json::to_value(case.get::<PackageRevision>("catalog.foo.w1").await?)?);
    for repository in case.list::<Repository>("").await? {
        objects.push(serde_json::to_value(repository)?);
    }
    let text = |object: &Value| Json { text: object.to_string() };
    let inline = Input::Inline(ExpandInput { objects: objects.iter().map(text).collect() });
    let name = || Input::Set(ObjectName { namespace: "expand".to_owned(), name: "example".to_owned() });
    let kinds = ["packagevariantsets", "packagevariants", "repositories"]
        .map(|kind| format!("{kind}.config.porch.kpt.dev"));
    let mut kinds: Vec<&str> = kinds.iter().map(String::as_str).collect();
    let stranger = account(&case, "stranger", &[]).await?;
    let half = account(&case, "half", &kinds[..1]).await?;
    kinds.push("packagerevisions.porch.kpt.dev");
    system.kubectl(&["create", "serviceaccount", "reader", "-n", "expand"]).await?;
    let rule = |kind: &str| {
        let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
        json!({"apiGroups": [group], "resources": [resource], "verbs": ["get"]})
    };
    let role = json!({"rules": kinds.iter().map(|kind| rule(kind)).collect::<Vec<_>>()});
    case.create::<k8s_openapi::api::rbac::v1::Role>("reader", &role).await?;
    let to = ["--role=reader", "--serviceaccount=expand:reader"];
    system.kubectl(&[&["create", "rolebinding", "reader", "-n", "expand"][..], &to].concat()).await?;
    let reader = system.plane.service_account_token("expand", "reader").await?;

    let call = async |token: Option<&str>, input: Input| -> Result<_> {
        let mut client = VariantsClient::new(channel(system, "variant", token)?);
        Ok(client.expand(ExpandRequest { input: Some(input) }).await.map(tonic::Response::into_inner))
    };
    for (token, code) in [
        (None, Code::Unauthenticated),
        (Some(stranger.as_str()), Code::PermissionDenied),
        (Some(half.as_str()), Code::PermissionDenied),
    ] {
        let refusal = call(token, name()).await?.err().context("it is refused")?;
        assert_eq!(refusal.code(), code, "{refusal}");
        ensure!(status::reason(&refusal).is_some(), "{refusal}");
    }
    let of_cluster = call(Some(&reader), name()).await??;
    let brought = call(Some(&stranger), inline).await??;
    ensure!(of_cluster.failure.is_none(), "{of_cluster:?}");
    let read = |variants: &[Json]| -> Result<Vec<Value>> {
        variants.iter().map(|json| Ok(serde_json::from_str(&json.text)?)).collect()
    };
    let expected = read(&of_cluster.variants)?;
    assert_eq!((expected.len(), of_cluster.target_counts.as_slice()), (7, &[4][..]));
    assert_eq!(read(&brought.variants)?, expected);

    let folder = tempfile::tempdir()?;
    let file = folder.path().join("objects.json");
    std::fs::write(&file, json!({"apiVersion": "v1", "kind": "List", "items": objects}).to_string())?;
    let output = Command::new(system.binary("groundwork")?)
        .args(["variants", "expand", "-o", "json", "-f"])
        .arg(&file)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let list: Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!(list["items"], json!(expected));
    for (_, child) in children(&case, "example").await? {
        let spec = serde_json::to_value(&child.spec)?;
        ensure!(
            expected.iter().any(|made| made["metadata"]["name"] == child.name_any() && made["spec"] == spec),
            "{child:?}"
        );
    }

    let nobody = call(
        Some(&reader),
        Input::Set(ObjectName { namespace: "expand".to_owned(), name: "none".to_owned() }),
    );
    let missing = nobody.await?.err().context("there is no such set")?;
    assert_eq!(
        (missing.code(), status::reason(&missing).as_deref()),
        (Code::NotFound, Some("SET_NOT_FOUND"))
    );
    let broken = Input::Inline(ExpandInput { objects: vec![Json { text: "{".to_owned() }] });
    let invalid = call(Some(&stranger), broken).await?.err().context("it is no JSON")?;
    assert_eq!((invalid.code(), status::violations(&invalid).len()), (Code::InvalidArgument, 1));
    let mut failing = objects[0].clone();
    failing["spec"]["targets"] = json!([]);
    let failing = Input::Inline(ExpandInput { objects: vec![text(&failing)] });
    let failure = call(Some(&stranger), failing).await??.failure.context("it fails")?;
    assert_eq!((failure.reason.as_str(), failure.violations.len()), ("ValidationError", 1));
    Ok(())
}

/// Makes the variant service use all of its rights.
pub(crate) async fn use_all_rights(case: &Case<'_>) -> Result<()> {
    upstream(case).await?;
    let listed = |packages: &[&str]| {
        spec(
            &json!([{"repositories": [{"name": "a", "packageNames": packages}]}, {"repositorySelector": {}}]),
        )
    };
    case.create::<PackageVariantSet>("example", &listed(&["x", "y"])).await?;
    ready(case, "example").await?;
    has(case, "example", &["a/x", "a/y"]).await?;
    let mut changed = listed(&["x"]);
    changed["spec"]["upstream"]["revision"] = json!(1);
    case.change::<PackageVariantSet>("example", &changed).await?;
    has(case, "example", &["a/x"]).await?;
    ready(case, "example").await?;
    let list = json!({"spec": {"upstreams": [{"repo": "catalog", "package": "foo", "revision": "v1"}]}});
    case.create::<PackageRevisionSet>("base", &list).await?;
    let referring = json!({"spec": {"upstream": {"packageRevisionSet": "base"},
        "targets": [{"repositories": [{"name": "b"}]}]}});
    case.create::<PackageVariantSet>("referring", &referring).await?;
    has(case, "referring", &["b/foo"]).await?;
    Ok(())
}
