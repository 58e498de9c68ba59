//! Sets that derive from several packages, and lists of packages that sets share.

use anyhow::Result;
use groundwork_api::{PackageRevision, PackageRevisionSet, PackageVariantSet};
use groundwork_tests::wait_for;
use serde_json::{Value, json};

use crate::case::Case;
use crate::shared;
use crate::support::PATIENCE;
use crate::variants::{children, has, ready, stalled, uids};

fn upstream(package: &str) -> Value {
    json!({"repo": "catalog", "package": package, "revision": "v1"})
}

async fn publish(case: &Case<'_>, package: &str) -> Result<()> {
    let content = json!({"spec": {"repository": "catalog", "packageName": package, "revision": 1, "workspaceName": "w1",
        "lifecycle": "Published"}});
    case.create::<PackageRevision>(&format!("catalog.{package}.w1"), &content).await?;
    Ok(())
}

/// Events tell of package revisions. The test server does not aggregate roles, so this one is bound.
async fn watch_revisions(case: &Case<'_>) -> Result<()> {
    let accounts =
        ["watcher", "variant"].map(|name| format!("--serviceaccount=groundwork-system:groundwork-{name}"));
    let role = "--clusterrole=groundwork-watchable-packagerevisions";
    let create =
        ["create", "clusterrolebinding", "watchable-packagerevisions", role, &accounts[0], &accounts[1]];
    case.system.kubectl(&create).await?;
    Ok(())
}

/// A set with three repositories as its targets.
fn spec(upstreams: &Value) -> Value {
    let mut spec = upstreams.clone();
    spec["targets"] = json!([{"repositories": [{"name": "one"}, {"name": "three"}, {"name": "two"}]}]);
    json!({"spec": spec})
}

/// V-178, V-180, V-181: two upstreams and three repositories make six variants; what a list of packages holds is followed by all sets that
/// name it; one that is not there leaves everything as it is, and is waited for.
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

    // Whoever takes an upstream away keeps the variants of the other.
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
    // What both list counts once.
    case.create::<PackageRevisionSet>("more", &list(&["b", "a"])).await?;
    has(&case, "right", &six).await?;

    // A list is edited: both sets follow, as soon as the package is there.
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
