//! Sets with several upstream packages, shared lists of packages, and tags that revisions follow.

use anyhow::Result;
use groundwork_api::{PackageRevision, PackageRevisionSet, PackageVariant, PackageVariantSet};
use groundwork_tests::wait_for;
use k8s_openapi::api::core::v1::Event;
use serde_json::{Value, json};

use crate::case::Case;
use crate::packages::{catalog, look, until_file, variant};
use crate::support::PATIENCE;
use crate::variants::{children, has, ready, stalled, uids};
use crate::{packages, shared};

fn upstream(package: &str) -> Value {
    json!({"repo": "catalog", "package": package, "revision": "v1"})
}

async fn publish(case: &Case<'_>, package: &str) -> Result<()> {
    let content = json!({"spec": {"repository": "catalog", "packageName": package, "revision": 1, "workspaceName": "w1",
        "lifecycle": "Published"}});
    case.create::<PackageRevision>(&format!("catalog.{package}.w1"), &content).await?;
    Ok(())
}

/// Lets the service watch package revisions. The test server does not aggregate roles, so this
/// function binds the role itself.
async fn watch_revisions(case: &Case<'_>) -> Result<()> {
    let accounts =
        ["watcher", "variant"].map(|name| format!("--serviceaccount=groundwork-system:groundwork-{name}"));
    let role = "--clusterrole=groundwork-watchable-packagerevisions";
    let create =
        ["create", "clusterrolebinding", "watchable-packagerevisions", role, &accounts[0], &accounts[1]];
    case.system.kubectl(&create).await?;
    Ok(())
}

/// Returns a set with three repositories as its targets.
fn spec(upstreams: &Value) -> Value {
    let mut spec = upstreams.clone();
    spec["targets"] = json!([{"repositories": [{"name": "one"}, {"name": "three"}, {"name": "two"}]}]);
    json!({"spec": spec})
}

/// V-178, V-180, V-181: two upstreams and three repositories give six variants. All sets that name
/// a list of packages follow it. While a list is missing, the set waits and changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn sets_derive_from_several_packages() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "several-upstreams").await?;
    watch_revisions(&case).await?;
    publish(&case, "a").await?;
    publish(&case, "b").await?;
    let both = json!({"upstreams": [upstream("a"), upstream("b")]});
    case.create::<PackageVariantSet>("both", &spec(&both)).await?;
    let six = ["one/a", "one/b", "three/a", "three/b", "two/a", "two/b"];
    let before = uids(&has(&case, "both", &six).await?);
    let status = ready(&case, "both").await?.status.unwrap_or_default();
    assert_eq!((status.variant_count, &*status.target_counts), (Some(6), [3].as_slice()));

    // The removal of one upstream keeps the variants of the other one.
    case.change::<PackageVariantSet>("both", &json!({"spec": {"upstreams": [upstream("b")]}})).await?;
    let kept = uids(&has(&case, "both", &["one/b", "three/b", "two/b"]).await?);
    assert!(kept.iter().all(|(pair, uid)| before.get(pair) == Some(uid)), "{kept:?} of {before:?}");

    let list = |packages: &[&str]| {
        let upstreams: Vec<Value> = packages.iter().map(|package| upstream(package)).collect();
        json!({"spec": {"upstreams": upstreams}})
    };
    case.create::<PackageRevisionSet>("base", &list(&["a"])).await?;
    let referring = json!({"upstream": {"packageRevisionSet": "base"}});
    let more = json!({"upstreams": [{"packageRevisionSet": "base"}, {"packageRevisionSet": "more"}]});
    case.create::<PackageVariantSet>("left", &spec(&referring)).await?;
    case.create::<PackageVariantSet>("right", &spec(&more)).await?;
    let of_a = has(&case, "left", &["one/a", "three/a", "two/a"]).await?;
    let missing = "spec.upstreams[1]: package revision set \"more\" not found";
    assert_eq!(stalled(&case, "right").await?, ("UpstreamNotFound".to_owned(), missing.to_owned()));
    // A package in both lists counts once.
    case.create::<PackageRevisionSet>("more", &list(&["b", "a"])).await?;
    has(&case, "right", &six).await?;

    // After a change of a list, both sets follow as soon as the package exists.
    case.change::<PackageRevisionSet>("base", &list(&["a", "c"])).await?;
    let missing = "spec.upstreams[1] of package revision set \"base\": could not find upstream package revision 'c/v1' in repo 'catalog'";
    for set in ["left", "right"] {
        wait_for(&format!("{set} misses the package"), PATIENCE, async || {
            let told = stalled(&case, set).await.map_err(|error| error.to_string())?;
            if told.1 == missing { Ok(()) } else { Err(format!("{told:?}")) }
        })
        .await?;
    }
    assert_eq!(uids(&children(&case, "left").await?), uids(&of_a));
    publish(&case, "c").await?;
    has(&case, "left", &["one/a", "one/c", "three/a", "three/c", "two/a", "two/c"]).await?;
    has(
        &case,
        "right",
        &["one/a", "one/b", "one/c", "three/a", "three/b", "three/c", "two/a", "two/b", "two/c"],
    )
    .await?;

    case.delete::<PackageRevisionSet>("base").await?;
    assert_eq!(stalled(&case, "left").await?.1, "package revision set \"base\" not found");
    assert_eq!(children(&case, "left").await?.len(), 6);
    Ok(())
}

/// Returns the revision in a set or variant, and the field manager that wrote it.
fn written(object: &Value) -> (Value, Option<String>) {
    let fields = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let owner = fields.iter().find(|entry| {
        entry["fieldsV1"]["f:spec"]["f:upstream"]["f:revision"].is_object() && entry["operation"] == "Apply"
    });
    let owner = owner.and_then(|entry| entry["manager"].as_str().map(str::to_owned));
    (object["spec"]["upstream"]["revision"].clone(), owner)
}

/// Creates an admission policy that rejects a new revision in the variant `vetoed`.
async fn veto(case: &Case<'_>) -> Result<()> {
    let policy = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "follow-tags-veto"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [{"apiGroups": ["config.porch.kpt.dev"], "apiVersions": ["*"],
                "operations": ["UPDATE"], "resources": ["packagevariants"]}]},
            "matchConditions": [{"name": "vetoed", "expression":
                format!("object.metadata.name == 'vetoed' && object.metadata.namespace == '{}'", case.namespace)}],
            "validations": [{"expression": "object.spec.upstream.revision == 'v1'", "message": "the revision stays"}],
        },
    });
    let binding = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "follow-tags-veto"},
        "spec": {"policyName": "follow-tags-veto", "validationActions": ["Deny"]},
    });
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(
        file.path(),
        json!({"apiVersion": "v1", "kind": "List", "items": [policy, binding]}).to_string(),
    )?;
    case.system.kubectl(&["apply", "-f", &file.path().display().to_string()]).await?;
    let change = r#"{"spec": {"upstream": {"revision": "v9"}}}"#;
    let namespace = format!("--namespace={}", case.namespace);
    let patch =
        ["patch", "packagevariant", "vetoed", &namespace, "--type=merge", "--dry-run=server", "-p", change];
    wait_for("the policy is in force", PATIENCE, async || match case.system.kubectl(&patch).await {
        Ok(_) => Err("it lets the change pass".to_owned()),
        Err(_) => Ok(()),
    })
    .await
}

/// V-177: if a tag moves, the specs that follow it are changed under a field manager of its own,
/// with an Event, and variants follow their sets. If a spec cannot be changed, this is reported and
/// the spec stays.
#[tokio::test]
async fn revisions_follow_tags() -> Result<()> {
    let Some(system) = packages::system().await? else { return Ok(()) };
    let case = Case::new(system, "follow-tags").await?;
    let remotes = catalog(&case).await?;
    remotes.tag("catalog", "net/coredns/stable")?;
    let following = |object: Value| {
        let mut object = object;
        object["metadata"]["annotations"] = json!({"groundwork/follow-tag": "stable"});
        object
    };
    case.create::<PackageVariant>("dns", &following(variant(&json!({})))).await?;
    let set = json!({"spec": {
        "upstream": {"repo": "catalog", "package": "net/coredns", "revision": "v1"},
        "targets": [{"repositories": [{"name": "edge", "packageNames": ["of-set"]}]}],
    }});
    case.create::<PackageVariantSet>("fleet", &following(set)).await?;
    let floating =
        variant(&json!({"upstream": {"repo": "catalog", "package": "net/coredns", "revision": "latest"},
        "downstream": {"repo": "edge", "package": "floating"}}));
    case.create::<PackageVariant>("floating", &following(floating)).await?;
    let vetoed = variant(&json!({"downstream": {"repo": "edge", "package": "vetoed"}}));
    case.create::<PackageVariant>("vetoed", &following(vetoed)).await?;
    veto(&case).await?;
    let draft = |package: &str| format!("drafts/{package}/packagevariant-1");
    for package in ["dns", "of-set", "vetoed"] {
        until_file(&remotes, ("edge", &draft(package), &format!("{package}/config.yaml")), |_| true).await?;
    }
    let warnings = case.warnings::<PackageVariant>("floating").await?;
    assert!(
        warnings.iter().any(|(reason, message)| reason == "TagNotFollowed"
            && message.starts_with("annotation groundwork/follow-tag has no effect: spec.upstream needs")),
        "{warnings:?}"
    );

    // The catalog gets a new version, to which only the tag refers.
    let changed = [(
        "net/coredns/config.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: corefile\ndata:\n  cache: \"60\"\n",
    )];
    remotes.publish("catalog", &changed, Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    case.until("v2 is known", "catalog.net.coredns.v2", |_: &PackageRevision| true).await?;
    assert_eq!(written(&serde_json::to_value(case.get::<PackageVariant>("dns").await?)?).0, "v1");
    remotes.tag("catalog", "net/coredns/stable")?;
    look(&case, "catalog").await?;
    let moved = (json!("v2"), Some("groundwork-tag-follower".to_owned()));
    let of = |object: Value| written(&object) == moved;
    case.until("the variant follows", "dns", |found: &PackageVariant| {
        of(serde_json::to_value(found).unwrap_or_default())
    })
    .await?;
    case.until("the set follows", "fleet", |found: &PackageVariantSet| {
        of(serde_json::to_value(found).unwrap_or_default())
    })
    .await?;
    for package in ["dns", "of-set"] {
        let place = ("edge", &*draft(package), &*format!("{package}/config.yaml"));
        until_file(&remotes, place, |text| text.contains("\"60\"")).await?;
    }
    let events = case.list::<Event>("").await?;
    let told = events.iter().filter(|event| event.reason.as_deref() == Some("TagMoved"));
    let told: Vec<_> =
        told.filter_map(|event| Some((event.type_.as_deref()?, event.message.as_deref()?))).collect();
    assert_eq!(told, [("Normal", "tag \"stable\" moved from revision v1 to v2"); 2]);
    // The variant whose change is rejected reports this and stays at its revision.
    let refused = "tag \"stable\" moved from revision v1 to v2, but packagevariants follow-tags/vetoed is refused by \
                   an admission policy of the cluster (the ValidatingAdmissionPolicy follow-tags-veto)";
    let refused = ("TagNotFollowed".to_owned(), refused.to_owned());
    wait_for("the refusal is told", PATIENCE, async || {
        let warnings = case.warnings::<PackageVariant>("vetoed").await.map_err(|error| error.to_string())?;
        if warnings.contains(&refused) { Ok(()) } else { Err(format!("{warnings:?}")) }
    })
    .await?;
    assert_eq!(written(&serde_json::to_value(case.get::<PackageVariant>("vetoed").await?)?).0, "v1");
    // The child's revision is written by its set, not by the tag's field manager.
    let child = children(&case, "fleet").await?.into_values().next().map(serde_json::to_value);
    assert_eq!(child.transpose()?.map(|child| written(&child)), Some((json!("v2"), None)));
    Ok(())
}
