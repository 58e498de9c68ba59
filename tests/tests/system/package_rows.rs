//! Statements of the design document about the changes of a variant in its package, each verified
//! in a real git repository (`packagevariants.md` 3 and 5).

use anyhow::{Context, Result, ensure};
use groundwork_api::{PackageRevision, PackageVariant};
use groundwork_testkit::git;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::case::Case;
use crate::packages::{
    Remotes, catalog, let_watch_config_maps, look, ready, register, system, until_file, variant,
};

const UPSTREAM: &str = "net/coredns";

/// Returns a ConfigMap with a name, annotations and data.
fn config_map(name: &str, annotations: &str, data: &str) -> String {
    format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n{annotations}data:\n{data}")
}

/// Returns the last commit of a draft.
fn commit(remotes: &Remotes, branch: &str) -> Result<String> {
    Ok(git(&remotes.path("edge"), &["rev-parse", branch])?)
}

/// Returns a variant of a package of its own in `edge`.
fn of(package: &str, fields: &Value) -> Value {
    let mut object = variant(fields);
    object["spec"]["downstream"]["package"] = package.into();
    object
}

/// V-004, V-005, V-023, V-024, V-026, V-081, V-083 to V-087, V-099, V-104, V-107, V-156: one
/// package, three regions. Each variant injects the object of its region at every injection point
/// of that kind, in any folder. A point without a mark, or without an object in the namespace,
/// stays as it is. A change of an object affects only the variant that uses it.
#[tokio::test]
async fn each_region_has_its_endpoints() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "rows-regions").await?;
    let elsewhere = Case::new(system, "rows-elsewhere").await?;
    let_watch_config_maps(&case).await?;
    let remotes = catalog(&case).await?;
    let point =
        |kind: &str, more: &str| format!("  annotations:\n    kpt.dev/config-injection: {kind}\n{more}");
    let local = "    config.kubernetes.io/local-config: \"true\"\n";
    let files = [
        (
            "net/coredns/endpoints.yaml",
            config_map("service-endpoints", &point("required", ""), "  packaged: \"1\"\n"),
        ),
        (
            "net/coredns/deep/er/team.yaml",
            config_map("team", &point("optional", local), "  packaged: \"2\"\n"),
        ),
        ("net/coredns/plain.yaml", config_map("plain", "", "  packaged: \"3\"\n")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    remotes.publish("catalog", &files, Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    for region in ["eu", "us"] {
        case.create::<ConfigMap>(&format!("{region}-endpoints"), &json!({"data": {"zone": region}})).await?;
    }
    elsewhere.create::<ConfigMap>("ap-endpoints", &json!({"data": {"zone": "ap"}})).await?;
    for region in ["eu", "us", "ap"] {
        let fields = json!({
            "upstream": {"repo": "catalog", "package": UPSTREAM, "revision": "v2"},
            "injectors": [{"name": format!("{region}-endpoints")}],
        });
        case.create::<PackageVariant>(region, &of(region, &fields)).await?;
        ready(&case, region, &[&format!("edge.{region}.packagevariant-1")]).await?;
    }
    let branch = |region: &str| format!("drafts/{region}/packagevariant-1");
    let file = |region: &str, path: &str| remotes.file("edge", &branch(region), &format!("{region}/{path}"));
    for region in ["eu", "us"] {
        for (path, name) in [("endpoints.yaml", "service-endpoints"), ("deep/er/team.yaml", "team")] {
            let text = file(region, path)?;
            ensure!(
                text.contains(&format!("zone: {region}")) && text.contains(&format!("name: {name}\n")),
                "{text}"
            );
            ensure!(!text.contains("packaged"), "data is replaced as a whole: {text}");
        }
        let text = file(region, "plain.yaml")?;
        ensure!(text.contains("packaged: \"3\"") && !text.contains("zone"), "{text}");
    }
    // The variant without an object is ready all the same. Only its revision waits, at a readiness
    // gate.
    ensure!(file("ap", "endpoints.yaml")?.contains("packaged: \"1\""));
    ensure!(file("ap", "deep/er/team.yaml")?.contains("packaged: \"2\""));
    let revision: PackageRevision = case.get("edge.ap.packagevariant-1").await?;
    let gates: Vec<&str> =
        revision.spec.readiness_gates.iter().filter_map(|gate| gate.condition_type.as_deref()).collect();
    ensure!(gates.contains(&"config.injection.ConfigMap.service-endpoints"), "{gates:?}");
    ensure!(!gates.contains(&"config.injection.ConfigMap.team"), "{gates:?}");
    let conditions = revision.status.unwrap_or_default().conditions;
    let of_points: Vec<_> =
        conditions.iter().filter(|found| found.type_.starts_with("config.injection.")).collect();
    ensure!(of_points.len() == 2 && of_points.iter().all(|found| found.status == "False"), "{of_points:?}");

    let before = commit(&remotes, &branch("us"))?;
    case.change::<ConfigMap>("eu-endpoints", &json!({"data": {"zone": "eu-2"}})).await?;
    let place = branch("eu");
    until_file(&remotes, ("edge", &place, "eu/endpoints.yaml"), |text| text.contains("zone: eu-2")).await?;
    ready(&case, "eu", &["edge.eu.packagevariant-1"]).await?;
    ensure!(commit(&remotes, &branch("us"))? == before, "the variant of another region is left alone");
    Ok(())
}

/// V-057 to V-059: a variant sets its labels and annotations when a revision is created. After
/// that, only users change them.
#[tokio::test]
async fn labels_are_given_once() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "rows-labels").await?;
    let remotes = catalog(&case).await?;
    let (name, branch) = ("edge.dns.packagevariant-1", "drafts/dns/packagevariant-1");
    let metadata = json!({"labels": {"tier": "edge"}, "annotations": {"example.org/owner": "platform"}});
    case.create::<PackageVariant>("dns", &variant(&metadata)).await?;
    ready(&case, "dns", &[name]).await?;
    let made: PackageRevision = case.get(name).await?;
    let tier = |revision: &PackageRevision| revision.labels().get("tier").cloned().unwrap_or_default();
    ensure!(tier(&made) == "edge", "{made:?}");
    ensure!(made.annotations().get("example.org/owner").map(String::as_str) == Some("platform"), "{made:?}");
    ensure!(!remotes.file("edge", branch, "dns/Kptfile")?.contains("tier"), "they are no content");
    for (step, given) in ["edge", "mine"].into_iter().enumerate() {
        if given == "mine" {
            case.change::<PackageRevision>(name, &json!({"metadata": {"labels": {"tier": "mine"}}})).await?;
        }
        let value = format!("step-{step}");
        let change =
            json!({"spec": {"labels": {"tier": value}, "packageContext": {"data": {"step": value}}}});
        case.change::<PackageVariant>("dns", &change).await?;
        until_file(&remotes, ("edge", branch, "dns/package-context.yaml"), |text| text.contains(&value))
            .await?;
        ready(&case, "dns", &[name]).await?;
        ensure!(tier(&case.get(name).await?) == given, "labels of a revision that is there stay");
    }
    Ok(())
}

/// V-013 to V-016, V-065 to V-067: the context of a package, with the entries of upstream, variant
/// and users.
#[tokio::test]
async fn contexts_keep_what_nobody_removes() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "rows-context").await?;
    let remotes = catalog(&case).await?;
    remotes.create("blue")?;
    register(&case, &remotes, "blue", false).await?;
    let context = config_map("kptfile.kpt.dev", "", "  theirs: upstream\n");
    remotes.publish("catalog", &[("net/coredns/package-context.yaml", &context)], Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    let upstream = |revision: &str| json!({"repo": "catalog", "package": UPSTREAM, "revision": revision});
    // The store creates a context in a deployment repository, but not in a blueprint repository.
    let blueprint = json!({"upstream": upstream("v1"), "downstream": {"repo": "blue", "package": "dns"}});
    case.create::<PackageVariant>("blueprint", &variant(&blueprint)).await?;
    ready(&case, "blueprint", &["blue.dns.packagevariant-1"]).await?;
    let missing = remotes.file("blue", "drafts/dns/packagevariant-1", "dns/package-context.yaml");
    ensure!(missing.is_err(), "{missing:?}");
    case.create::<PackageVariant>("plain", &of("plain", &json!({"upstream": upstream("v1")}))).await?;
    ready(&case, "plain", &["edge.plain.packagevariant-1"]).await?;
    let made = remotes.file("edge", "drafts/plain/packagevariant-1", "plain/package-context.yaml")?;
    ensure!(made.contains("name: kptfile.kpt.dev") && made.contains("name: plain"), "{made}");

    let data = json!({"data": {"site": "a", "old": "b"}});
    let fields = json!({"upstream": upstream("v2"), "packageContext": data});
    case.create::<PackageVariant>("dns", &variant(&fields)).await?;
    let name = "edge.dns.packagevariant-1";
    ready(&case, "dns", &[name]).await?;
    let branch = "drafts/dns/packagevariant-1";
    let place = ("edge", branch, "dns/package-context.yaml");
    let text = remotes.file(place.0, place.1, place.2)?;
    for line in ["theirs: upstream", "name: dns", "site: a", "old: b"] {
        ensure!(text.contains(line), "{line}: {text}");
    }
    remotes.edit("edge", branch, place.2, |text| {
        text.replace("theirs: upstream", "theirs: upstream\n  mine: yes-it-is")
    })?;
    look(&case, "edge").await?;
    let change = json!({"spec": {"packageContext": {"data": {"site": "c", "old": null}}}});
    case.change::<PackageVariant>("dns", &change).await?;
    let text = until_file(&remotes, place, |text| text.contains("site: c")).await?;
    ensure!(
        text.contains("old: b") && text.contains("mine: yes-it-is"),
        "nobody asked for their end: {text}"
    );
    let change = json!({"spec": {"packageContext": {"removeKeys": ["old", "mine"]}}});
    case.change::<PackageVariant>("dns", &change).await?;
    let text = until_file(&remotes, place, |text| !text.contains("old: b")).await?;
    ensure!(
        !text.contains("mine") && text.contains("theirs: upstream") && text.contains("site: c"),
        "{text}"
    );
    Ok(())
}

/// V-033, V-034: variants whose upstream is a tag follow the tag when it moves, without an edit.
#[tokio::test]
async fn each_variant_follows_its_tag() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "rows-tags").await?;
    let remotes = catalog(&case).await?;
    for tag in ["stable", "beta"] {
        remotes.tag("catalog", &format!("{UPSTREAM}/{tag}"))?;
    }
    look(&case, "catalog").await?;
    let name = |tag: &str| format!("edge.{tag}.packagevariant-1");
    for tag in ["stable", "beta"] {
        let fields = json!({"upstream": {"repo": "catalog", "package": UPSTREAM, "revision": tag}});
        case.create::<PackageVariant>(tag, &of(tag, &fields)).await?;
        ready(&case, tag, &[&name(tag)]).await?;
    }
    let before = commit(&remotes, "drafts/stable/packagevariant-1")?;
    let generation = case.get::<PackageVariant>("beta").await?.metadata.generation;
    let newer = config_map("corefile", "", "  cache: \"30\"\n  zone: example.org\n  newer: \"yes\"\n");
    remotes.publish("catalog", &[("net/coredns/config.yaml", &newer)], Some("net/coredns/v2"))?;
    remotes.tag("catalog", &format!("{UPSTREAM}/beta"))?;
    look(&case, "catalog").await?;
    let place = ("edge", "drafts/beta/packagevariant-1", "beta/config.yaml");
    until_file(&remotes, place, |text| text.contains("newer: \"yes\"")).await?;
    let after = ready(&case, "beta", &[&name("beta")]).await?;
    ensure!(after.metadata.generation == generation, "nobody has edited it");
    ensure!(commit(&remotes, "drafts/stable/packagevariant-1")? == before, "the other tag has not moved");
    Ok(())
}

/// V-071, V-075: functions of a variant come first in the pipeline, and its earlier functions are
/// removed.
#[tokio::test]
async fn functions_are_those_of_now() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "rows-functions").await?;
    let remotes = catalog(&case).await?;
    let own = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: coredns\npipeline:\n  mutators:\n  - name: own\n    \
               image: ghcr.io/kptdev/krm-functions-catalog/set-annotations:v0.1.4\n    configMap:\n      a: b\n";
    remotes.publish("catalog", &[("net/coredns/Kptfile", own)], Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    let function = |name: &str, image: &str, config: Value| json!({"name": name, "image": format!("ghcr.io/kptdev/krm-functions-catalog/{image}"), "configMap": config});
    let namespace = function("ns", "set-namespace:v0.4.1", json!({"namespace": "dns-system"}));
    let labels = function("tier", "set-labels:v0.2.0", json!({"tier": "edge"}));
    let fields = json!({
        "upstream": {"repo": "catalog", "package": UPSTREAM, "revision": "v2"},
        "pipeline": {"mutators": [namespace, labels]},
    });
    case.create::<PackageVariant>("dns", &variant(&fields)).await?;
    ready(&case, "dns", &["edge.dns.packagevariant-1"]).await?;
    let place = ("edge", "drafts/dns/packagevariant-1", "dns/Kptfile");
    let names = |text: &str| -> Result<Vec<String>> {
        let kptfile = groundwork_yaml::from_str(text)?;
        let mutators = kptfile["pipeline"]["mutators"].as_array().context("mutators")?.clone();
        Ok(mutators.iter().map(|found| found["name"].as_str().unwrap_or_default().to_owned()).collect())
    };
    let text = remotes.file(place.0, place.1, place.2)?;
    ensure!(names(&text)? == ["PackageVariant.dns.ns.0", "PackageVariant.dns.tier.1", "own"], "{text}");
    let change = json!({"spec": {"pipeline": {"mutators": [labels, {"name": "", "image": namespace["image"], "configMap": namespace["configMap"]}]}}});
    case.change::<PackageVariant>("dns", &change).await?;
    let text = until_file(&remotes, place, |text| text.contains("PackageVariant.dns..1")).await?;
    ensure!(names(&text)? == ["PackageVariant.dns.tier.0", "PackageVariant.dns..1", "own"], "{text}");
    let config = remotes.file("edge", place.1, "dns/config.yaml")?;
    ensure!(config.contains("namespace: dns-system") && config.contains("tier: edge"), "{config}");
    Ok(())
}
