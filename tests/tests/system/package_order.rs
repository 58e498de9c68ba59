//! Order of a variant's changes, and conditions that prevent a draft (`packagevariants.md` 2.6,
//! 2.14 and 3).

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use groundwork_api::{PackageRevision, PackageVariant, PackageVariantSet};
use groundwork_testkit::git;
use groundwork_tests::wait_for;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::case::Case;
use crate::packages::{
    Remotes, catalog, let_watch_config_maps, lifecycle, look, ready, register, system, until_file, variant,
};
use crate::support::{PATIENCE, requests};

const CATALOG: &str = "ghcr.io/kptdev/krm-functions-catalog";
const BRANCH: &str = "drafts/dns/packagevariant-1";
const NAME: &str = "edge.dns.packagevariant-1";
/// Number of rounds in which an edit and an update overlap.
const ROUNDS: usize = 20;

/// Injection point for a ConfigMap, with the data that the package itself contains.
const SITE: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: site\n  annotations:\n    kpt.dev/config-injection: \
                    required\ndata:\n  zone: packaged\n";
const RESULT: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: result\ndata:\n  zone: none\n  team: none\n";
const CONTEXT: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: kptfile.kpt.dev\n  annotations:\n    \
     config.kubernetes.io/local-config: \"true\"\ndata:\n  name: coredns\n  team: nobody\n";

/// Returns a package whose functions copy their input: the namespace from its context, and two
/// values into one object.
fn spreading() -> [(&'static str, String); 5] {
    let replacement = |source: &str, field: &str| {
        format!(
            "- source: {{kind: ConfigMap, name: {source}, fieldPath: data.{field}}}\n  targets:\n  - select: {{kind: ConfigMap, \
             name: result}}\n    fieldPaths: [data.{field}]\n"
        )
    };
    let replacements = format!(
        "apiVersion: fn.kpt.dev/v1alpha1\nkind: ApplyReplacements\nmetadata:\n  name: spread\n  annotations:\n    \
         config.kubernetes.io/local-config: \"true\"\nreplacements:\n{}{}",
        replacement("site", "zone"),
        replacement("kptfile.kpt.dev", "team")
    );
    let kptfile = format!(
        "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: coredns\npipeline:\n  mutators:\n  - image: \
         {CATALOG}/set-namespace:v0.4.1\n    configPath: package-context.yaml\n  - image: {CATALOG}/apply-replacements:v0.1.1\n    \
         configPath: spread.yaml\n"
    );
    [
        ("net/coredns/Kptfile", kptfile),
        ("net/coredns/package-context.yaml", CONTEXT.to_owned()),
        ("net/coredns/spread.yaml", replacements),
        ("net/coredns/site.yaml", SITE.to_owned()),
        ("net/coredns/result.yaml", RESULT.to_owned()),
    ]
}

fn publish(remotes: &Remotes, files: &[(&str, String)], tag: &str) -> Result<()> {
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    remotes.publish("catalog", &files, Some(tag))
}

fn upstream(revision: &str) -> Value {
    json!({"repo": "catalog", "package": "net/coredns", "revision": revision})
}

/// Returns the files that the last commit of the draft has changed.
fn changed(remotes: &Remotes) -> Result<Vec<String>> {
    let listed = git(&remotes.path("edge"), &["diff", "--name-only", &format!("{BRANCH}~1"), BRANCH])?;
    Ok(listed.lines().map(str::to_owned).collect())
}

async fn tasks(case: &Case<'_>, name: &str) -> Result<Vec<String>> {
    let revision: PackageRevision = case.get(name).await?;
    Ok(revision.spec.tasks.iter().map(|task| task.type_.clone()).collect())
}

/// V-017, V-108, V-112 to V-116: the store clones and renders. Then the service adds context,
/// functions and the injected object, none of which sees the others, and the rendering of the save
/// applies all of them. A later change of the variant changes only the related files.
#[tokio::test]
async fn one_reconcile_does_all_in_its_order() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "order-of-changes").await?;
    let_watch_config_maps(&case).await?;
    let remotes = catalog(&case).await?;
    publish(&remotes, &spreading(), "net/coredns/v2")?;
    look(&case, "catalog").await?;
    case.create::<ConfigMap>("eu", &json!({"data": {"zone": "eu-1", "more": "kept"}})).await?;
    let labels = json!({"name": "tier", "image": format!("{CATALOG}/set-labels:v0.2.0"), "configMap": {"tier": "edge"}});
    let fields = json!({
        "upstream": upstream("v2"),
        "packageContext": {"data": {"team": "blue"}},
        "pipeline": {"mutators": [labels]},
        "injectors": [{"name": "eu"}],
    });
    case.create::<PackageVariant>("dns", &variant(&fields)).await?;
    ready(&case, "dns", &[NAME]).await?;
    let subjects = git(&remotes.path("edge"), &["log", "--format=%s", &format!("main..{BRANCH}")])?;
    ensure!(
        subjects.lines().collect::<Vec<_>>() == ["Rendering package", "Creating new revision by cloning"],
        "{subjects}"
    );
    // The first commit is the rendered clone, with the namespace from the package context.
    let cloned = format!("{BRANCH}~1");
    let text = remotes.file("edge", &cloned, "dns/result.yaml")?;
    for line in ["namespace: dns", "zone: packaged", "team: nobody"] {
        ensure!(text.contains(line), "{line}: {text}");
    }
    ensure!(!text.contains("tier"), "{text}");
    let text = remotes.file("edge", BRANCH, "dns/result.yaml")?;
    for line in ["namespace: dns", "zone: eu-1", "team: blue", "tier: edge"] {
        ensure!(text.contains(line), "{line}: {text}");
    }
    // The package contains the injected object as it is in the cluster, changed by the variant's
    // function at that time.
    let site = groundwork_yaml::from_str(&remotes.file("edge", BRANCH, "dns/site.yaml")?)?;
    ensure!(site["data"] == json!({"zone": "eu-1", "more": "kept"}), "{site}");
    ensure!(site["metadata"]["labels"]["tier"] == "edge" && site["metadata"]["namespace"] == "dns", "{site}");
    ensure!(tasks(&case, NAME).await? == ["clone"]);

    let change = json!({"spec": {"packageContext": {"data": {"team": "red"}}}});
    case.change::<PackageVariant>("dns", &change).await?;
    until_file(&remotes, ("edge", BRANCH, "dns/result.yaml"), |text| text.contains("team: red")).await?;
    let touched = changed(&remotes)?;
    let expected = ["dns/package-context.yaml", "dns/result.yaml"];
    // The Kptfile records the results of the functions.
    ensure!(touched.iter().filter(|path| *path != "dns/Kptfile").eq(expected.iter()), "{touched:?}");
    let kptfile = git(&remotes.path("edge"), &["diff", &format!("{BRANCH}~1"), BRANCH, "--", "dns/Kptfile"])?;
    let is_edit = |line: &str| {
        ["+", "-"].iter().any(|sign| line.starts_with(sign))
            && !line.starts_with("+++")
            && !line.starts_with("---")
    };
    let edits: Vec<&str> = kptfile.lines().filter(|line| is_edit(line)).collect();
    ensure!(edits.iter().all(|line| !line.contains("image:") && !line.contains("configMap")), "{kptfile}");

    ready(&case, "dns", &[NAME]).await?;
    lifecycle(&case, NAME, "Proposed").await?;
    lifecycle(&case, NAME, "Published").await?;
    let newer = SITE.replace("name: site", "name: other").replace("required", "optional");
    publish(&remotes, &[("net/coredns/other.yaml", newer)], "net/coredns/v3")?;
    look(&case, "catalog").await?;
    case.change::<PackageVariant>("dns", &json!({"spec": {"upstream": {"revision": "v3"}}})).await?;
    ready(&case, "dns", &["edge.dns.packagevariant-2"]).await?;
    ensure!(tasks(&case, "edge.dns.packagevariant-2").await? == ["upgrade"]);
    Ok(())
}

/// V-037: a variant adopts a draft that another variant has left. It applies all its changes, and
/// the draft follows the upstream from then on.
#[tokio::test]
async fn an_adopted_draft_is_as_one_of_its_own() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "order-adoption").await?;
    let_watch_config_maps(&case).await?;
    let remotes = catalog(&case).await?;
    publish(&remotes, &spreading(), "net/coredns/v2")?;
    look(&case, "catalog").await?;
    case.create::<ConfigMap>("eu", &json!({"data": {"zone": "eu-1"}})).await?;
    let former = json!({"upstream": upstream("v2"), "deletionPolicy": "orphan"});
    case.create::<PackageVariant>("former", &variant(&former)).await?;
    ready(&case, "former", &[NAME]).await?;
    case.delete::<PackageVariant>("former").await?;
    case.gone::<PackageVariant>("former").await?;
    let left: PackageRevision = case.get(NAME).await?;
    ensure!(left.owner_references().is_empty(), "{left:?}");

    let labels = json!({"name": "tier", "image": format!("{CATALOG}/set-labels:v0.2.0"), "configMap": {"tier": "edge"}});
    let fields = json!({
        "upstream": upstream("v2"), "adoptionPolicy": "adoptExisting",
        "packageContext": {"data": {"team": "blue"}}, "pipeline": {"mutators": [labels]}, "injectors": [{"name": "eu"}],
    });
    case.create::<PackageVariant>("dns", &variant(&fields)).await?;
    let adopter = ready(&case, "dns", &[NAME]).await?;
    let adopted: PackageRevision = case.get(NAME).await?;
    let owners: Vec<&str> = adopted.owner_references().iter().map(|owner| owner.uid.as_str()).collect();
    ensure!(owners == [adopter.uid().unwrap_or_default()], "{owners:?}");
    let text = remotes.file("edge", BRANCH, "dns/result.yaml")?;
    for line in ["zone: eu-1", "team: blue", "tier: edge"] {
        ensure!(text.contains(line), "{line}: {text}");
    }
    let next = RESULT.replace("data:\n", "data:\n  newer: \"yes\"\n");
    publish(&remotes, &[("net/coredns/result.yaml", next)], "net/coredns/v3")?;
    look(&case, "catalog").await?;
    case.change::<PackageVariant>("dns", &json!({"spec": {"upstream": {"revision": "v3"}}})).await?;
    let text =
        until_file(&remotes, ("edge", BRANCH, "dns/result.yaml"), |text| text.contains("newer: \"yes\""))
            .await?;
    ensure!(text.contains("team: blue") && text.contains("zone: eu-1"), "{text}");
    ready(&case, "dns", &[NAME]).await?;
    Ok(())
}

/// V-068, V-077, V-102: if the context, the pipeline or an injection point of the upstream cannot
/// be edited, the variant creates no draft and gives the reason. After the repair it creates one.
#[tokio::test]
async fn what_cannot_be_edited_prevents_the_draft() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "order-no-draft").await?;
    let remotes = catalog(&case).await?;
    // The repository adds no context of its own, so the variant has to edit that of the package.
    remotes.create("blue")?;
    register(&case, &remotes, "blue", false).await?;
    let kptfile =
        |rest: &str| format!("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: coredns\n{rest}");
    let good = kptfile("");
    for (number, file, reason, says) in [
        (
            2,
            (
                "net/coredns/package-context.yaml",
                CONTEXT.replace("data:\n  name: coredns\n  team: nobody\n", "data: [a]\n"),
            ),
            "PackageContextError",
            "PackageContext invalid data field",
        ),
        (3, ("net/coredns/Kptfile", kptfile("pipeline: abc\n")), "PipelineError", "fieldpath .pipeline"),
        (
            4,
            ("net/coredns/site.yaml", SITE.replace("required", "maybe")),
            "InjectionError",
            "site.yaml: ConfigMap/site has invalid \"kpt.dev/config-injection\" annotation value of \"maybe\"",
        ),
    ] {
        let files = [
            ("net/coredns/Kptfile", good.clone()),
            ("net/coredns/package-context.yaml", CONTEXT.to_owned()),
            ("net/coredns/site.yaml", SITE.to_owned()),
            file,
        ];
        publish(&remotes, &files, &format!("net/coredns/v{number}"))?;
        look(&case, "catalog").await?;
        let name = format!("dns-{number}");
        let fields = json!({
            "upstream": upstream(&format!("v{number}")),
            "downstream": {"repo": "blue", "package": name},
            "packageContext": {"data": {"a": "b"}},
        });
        case.create::<PackageVariant>(&name, &variant(&fields)).await?;
        let is_told = |variant: &PackageVariant| {
            let status = variant.status.clone().unwrap_or_default();
            let found = status.conditions.iter().find(|found| found.type_ == "Ready").cloned();
            found.is_some_and(|found| {
                found.status == "False" && found.reason == reason && found.message.contains(says)
            })
        };
        let told: PackageVariant = case.until(&format!("{name} says {reason}"), &name, is_told).await?;
        ensure!(told.status.unwrap_or_default().downstream_targets.is_empty());
    }
    ensure!(remotes.refs("blue")? == ["main"], "{:?}", remotes.refs("blue")?);
    let made = case.list::<PackageRevision>("").await?;
    ensure!(made.iter().all(|found| found.spec.repository.as_deref() != Some("blue")), "{made:?}");

    let mended = [("net/coredns/site.yaml", SITE.to_owned())];
    publish(&remotes, &mended, "net/coredns/v5")?;
    look(&case, "catalog").await?;
    case.change::<PackageVariant>("dns-4", &json!({"spec": {"upstream": {"revision": "v5"}}})).await?;
    ready(&case, "dns-4", &["blue.dns-4.packagevariant-1"]).await?;
    Ok(())
}

/// V-006, V-183: a variant that a user writes creates the same package as one of a set. Sets with
/// the same targets create separate packages, without knowing of each other.
#[tokio::test]
async fn variants_are_the_same_whoever_writes_them() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "order-by-hand").await?;
    let remotes = catalog(&case).await?;
    for (path, text) in [("net/ntp/Kptfile", "coredns"), ("net/ntp/config.yaml", "corefile")] {
        let from = if path.ends_with("Kptfile") { "net/coredns/Kptfile" } else { "net/coredns/config.yaml" };
        let text = remotes.file("catalog", "main", from)?.replace(text, "ntp");
        remotes.publish("catalog", &[(path, &text)], None)?;
    }
    remotes.tag("catalog", "net/ntp/v1")?;
    look(&case, "catalog").await?;
    for name in ["other", "hand"] {
        remotes.create(name)?;
        register(&case, &remotes, name, true).await?;
    }
    let template = json!({"packageContext": {"data": {"site": "a"}}});
    for (name, package) in [("dns-set", "net/coredns"), ("ntp-set", "net/ntp")] {
        let set = json!({"spec": {
            "upstream": {"repo": "catalog", "package": package, "revision": "v1"},
            "targets": [{"repositories": [{"name": "edge"}, {"name": "other"}], "template": template}],
        }});
        case.create::<PackageVariantSet>(name, &set).await?;
    }
    let mut by_hand = template.clone();
    by_hand["downstream"] = json!({"repo": "hand", "package": "net/coredns"});
    case.create::<PackageVariant>("by-hand", &variant(&by_hand)).await?;
    ready(&case, "by-hand", &["hand.net.coredns.packagevariant-1"]).await?;
    for name in ["dns-set", "ntp-set"] {
        let is_ready = |set: &PackageVariantSet| {
            let status = set.status.clone().unwrap_or_default();
            status.conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True")
                && status.variants_ready == Some(2)
        };
        case.until::<PackageVariantSet>(&format!("{name} is ready"), name, is_ready).await?;
    }
    let drafts =
        ["drafts/net/coredns/packagevariant-1", "drafts/net/ntp/packagevariant-1", "main"].map(str::to_owned);
    let tree = |repository: &str| {
        git(&remotes.path(repository), &["rev-parse", "drafts/net/coredns/packagevariant-1:net/coredns"])
    };
    let mine = tree("hand").context("the draft of the person")?;
    for repository in ["edge", "other"] {
        wait_for(&format!("both packages are in {repository}"), PATIENCE, async || {
            let found = remotes.refs(repository).map_err(|error| error.to_string())?;
            if found == drafts { Ok(()) } else { Err(format!("{found:?}")) }
        })
        .await?;
        ensure!(tree(repository)? == mine, "{repository} has the same files");
    }
    Ok(())
}

/// Returns the API requests of the variant service about variants and packages of a namespace.
fn asked(case: &Case<'_>) -> Result<Vec<String>> {
    let of_variants =
        ["packagevariants", "packagerevisions", "packagerevisionresources", "packagevariantsets"];
    let found = requests(case.system, "")?.into_iter().filter(|request| {
        let object = &request["objectRef"];
        request["user"]["username"] == "system:serviceaccount:groundwork-system:groundwork-variant"
            && object["namespace"] == case.namespace
            && of_variants.iter().any(|kind| object["resource"] == *kind)
    });
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let found = found.map(|request| {
        let object = &request["objectRef"];
        format!("{} {} {}", text(&request["verb"]), text(&object["resource"]), text(&object["subresource"]))
    });
    Ok(found.collect())
}

/// Waits until the requests of earlier changes have ended, and returns their number.
async fn quiet(case: &Case<'_>) -> Result<usize> {
    let mut before = 0;
    wait_for("no more requests", PATIENCE, async || {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = asked(case).map_err(|error| error.to_string())?.len();
        let is_quiet = now == std::mem::replace(&mut before, now);
        if is_quiet { Ok(()) } else { Err(format!("{now} so far")) }
    })
    .await?;
    Ok(before)
}

/// Returns the service's API requests to give one variant a different context, sorted.
async fn cost(case: &Case<'_>, remotes: &Remotes, value: &str) -> Result<Vec<String>> {
    let before = quiet(case).await?;
    let change = json!({"spec": {"packageContext": {"data": {"step": value}}}});
    case.change::<PackageVariant>("dns", &change).await?;
    let place = ("edge", BRANCH, "dns/package-context.yaml");
    until_file(remotes, place, |text| text.contains(&format!("step: {value}"))).await?;
    ready(case, "dns", &[NAME]).await?;
    let mut found: Vec<String> = asked(case)?.into_iter().skip(before).collect();
    found.sort();
    Ok(found)
}

/// V-007: the cost of one variant does not depend on the others: the number of requests is the same
/// among two and among many.
#[tokio::test]
async fn the_cost_of_one_does_not_grow_with_the_others() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "order-cost").await?;
    let remotes = catalog(&case).await?;
    case.create::<PackageVariant>("dns", &variant(&json!({}))).await?;
    ready(&case, "dns", &[NAME]).await?;
    let mut costs = Vec::new();
    for (step, others) in [(1, 0..1), (2, 1..40)] {
        for other in others.clone() {
            let package = format!("other-{other}");
            let fields = json!({"downstream": {"repo": "edge", "package": package}});
            case.create::<PackageVariant>(&package, &variant(&fields)).await?;
        }
        for other in others {
            let draft = format!("edge.other-{other}.packagevariant-1");
            ready(&case, &format!("other-{other}"), &[&draft]).await?;
        }
        costs.push(cost(&case, &remotes, &format!("s{step}")).await?);
    }
    // The last request of a reconcile may come a moment after the awaited state.
    let [alone, among] = [&costs[0], &costs[1]].map(|found| found.iter().collect::<BTreeSet<_>>());
    ensure!(alone == among && !alone.is_empty(), "{costs:#?}");
    ensure!(costs[1].len() <= costs[0].len() + 2, "{costs:#?}");
    Ok(())
}

/// Users label a draft while its variant updates an injected object in it. In either order of the
/// pushes, both changes are in the result.
#[tokio::test]
async fn edits_that_cross_updates_stay() -> Result<()> {
    let Some(system) = system().await? else { return Ok(()) };
    let case = Case::new(system, "packages-crossing").await?;
    let_watch_config_maps(&case).await?;
    let remotes = catalog(&case).await?;
    remotes.publish("catalog", &[("net/coredns/site.yaml", SITE)], Some("net/coredns/v2"))?;
    look(&case, "catalog").await?;
    case.create::<ConfigMap>("edge-7", &json!({"data": {"zone": "z0"}})).await?;
    let fields = json!({"upstream": upstream("v2"), "injectors": {"name": "edge-7"}});
    case.create::<PackageVariant>("dns", &variant(&fields)).await?;
    ready(&case, "dns", &[NAME]).await?;
    for round in 1..=ROUNDS {
        let labels = json!({"spec": {"packageMetadata": {"labels": {format!("l{round}"): "set"}}}});
        let zone = json!({"data": {"zone": format!("z{round}")}});
        let label = case.change::<PackageRevision>(NAME, &labels);
        let inject = case.change::<ConfigMap>("edge-7", &zone);
        tokio::try_join!(label, inject)?;
        // Only every other round waits for the end of the one before, so the others overlap.
        if round % 2 == 0 {
            until_file(&remotes, ("edge", BRANCH, "dns/site.yaml"), |text| {
                text.contains(&format!("zone: z{round}"))
            })
            .await?;
        }
    }
    let has_all = |text: &str| (1..=ROUNDS).all(|round| text.contains(&format!("l{round}: set")));
    until_file(&remotes, ("edge", BRANCH, "dns/Kptfile"), has_all).await?;
    let last = format!("zone: z{ROUNDS}");
    until_file(&remotes, ("edge", BRANCH, "dns/site.yaml"), |text| text.contains(&last)).await?;
    let is_told = |revision: &PackageRevision| {
        let metadata = revision.spec.package_metadata.clone().unwrap_or_default();
        metadata.labels.len() == ROUNDS
    };
    case.until::<PackageRevision>("the object has all labels", NAME, is_told).await?;
    Ok(())
}
