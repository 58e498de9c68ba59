//! Owners of objects, since only an owner may delete its object (ownership, `installations.md`
//! 7.9). Objects change hands between items of all modes, within an Installation and between two,
//! without being deleted.

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{DeployItem, Installation, ResourceExt as _};
use serde_json::{Value, json};

use crate::case::Case;
use crate::deploying_charts::{archive, item};
use crate::shared;
use crate::support::outcome;
use crate::target_cluster::{
    self, TargetCluster, cluster, configuration, create_item, give_job, job_over, run_job,
};

/// Template of a chart whose values list its ConfigMaps.
const MAPS: &str = "{{ range .Values.names }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ . }}}\ndata: {by: \"{{ $.Values.by }}\"}\n{{ end }}";

pub(crate) fn maps_chart() -> Result<String> {
    archive(&[("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"), ("templates/maps.yaml", MAPS)])
}

fn address(namespace: &str, name: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/configmaps/{name}")
}

fn config_map(namespace: &str, name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"a": "b"}})
}

/// Mode in which an item deploys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Manifests,
    Rendered,
    Release,
}

/// Item of a blueprint, and the ConfigMaps that it lists.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) mode: Mode,
    pub(crate) listed: Vec<String>,
    pub(crate) depends_on: Vec<String>,
}

impl Part {
    pub(crate) fn new(name: &str, mode: Mode, listed: &[&str]) -> Self {
        let listed = listed.iter().map(|name| (*name).to_owned()).collect();
        Self { name: name.to_owned(), mode, listed, depends_on: Vec::new() }
    }

    fn after(mut self, others: &[&str]) -> Self {
        self.depends_on = others.iter().map(|name| (*name).to_owned()).collect();
        self
    }

    fn deploy_item(&self, namespace: &str, chart: &str) -> Value {
        let (kind, config) = match self.mode {
            Mode::Manifests => {
                let manifests: Vec<Value> =
                    self.listed.iter().map(|name| json!({"manifest": config_map(namespace, name)})).collect();
                ("kubernetes-manifest", configuration(&json!({"manifests": manifests})))
            }
            Mode::Rendered | Mode::Release => {
                let operation = json!({"takeOwnership": true});
                let config = json!({
                    "apiVersion": "helm.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
                    "chart": {"archive": {"raw": chart}}, "name": self.name, "namespace": namespace,
                    "helmDeployment": self.mode == Mode::Release,
                    "helmDeploymentConfig": {"install": operation, "upgrade": operation},
                    "values": {"names": self.listed, "by": self.name},
                });
                ("helm", config)
            }
        };
        json!({
            "name": self.name, "type": format!("landscaper.gardener.cloud/{kind}"), "target": {"import": "c"},
            "dependsOn": self.depends_on, "config": config,
        })
    }
}

pub(crate) fn blueprint(namespace: &str, chart: &str, parts: &[Part]) -> String {
    let items: Vec<Value> = parts.iter().map(|part| part.deploy_item(namespace, chart)).collect();
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": [{"name": "c", "type": "target", "targetType": "landscaper.gardener.cloud/kubernetes-cluster"}],
        "deployExecutions": [{"name": "d", "type": "Spiff", "template": {"deployItems": items}}],
    })
    .to_string()
}

/// Creates or changes an Installation with these items, and waits for the end of its job.
pub(crate) async fn deploy(case: &Case<'_>, name: &str, chart: &str, parts: &[Part]) -> Result<Installation> {
    let text = blueprint(&case.namespace, chart, parts);
    let imports = json!({"imports": {"targets": [{"name": "c", "target": "dev"}]}});
    let Some(found) = case.api::<Installation>().get_opt(name).await? else {
        return case.install_with(name, &text, &imports).await;
    };
    let before = crate::case::job(&found);
    let spec = json!({"blueprint": {"inline": {"filesystem": {"blueprint.yaml": text}}}});
    case.change::<Installation>(name, &json!({"spec": spec})).await?;
    case.finished_after(name, &before).await
}

fn succeeded(found: &Installation) -> Result<()> {
    ensure!(outcome(found) == ("Succeeded".into(), String::new()), "{:?}", outcome(found));
    Ok(())
}

async fn uid(cluster: &TargetCluster, namespace: &str, name: &str) -> Result<String> {
    let found = cluster.get(&address(namespace, name)).await?.with_context(|| format!("{name} is gone"))?;
    Ok(found["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
}

async fn uids(cluster: &TargetCluster, namespace: &str, names: &[&str]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for name in names {
        found.push(uid(cluster, namespace, name).await?);
    }
    Ok(found)
}

/// Items exchange, split and merge their lists of objects, or change their mode, in all orders. An
/// object that is listed before and after keeps its UID.
#[tokio::test(flavor = "multi_thread")]
async fn objects_change_hands_within_an_installation() -> Result<()> {
    use Mode::{Manifests, Release, Rendered};
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "hands").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("hands").await?;
    let chart = maps_chart()?;
    let modes = [Manifests, Rendered, Release];
    for (row, (giver, taker)) in
        modes.iter().flat_map(|giver| modes.iter().map(move |taker| (*giver, *taker))).enumerate()
    {
        let names: Vec<String> = ["a", "b", "c"].iter().map(|name| format!("{name}{row}")).collect();
        let [a, b, c] = [0, 1, 2].map(|index| names[index].as_str());
        let install = format!("row{row}");
        let (one, two) = (format!("one{row}"), format!("two{row}"));
        let steps: [(&str, Vec<Part>); 6] = [
            ("begin", vec![Part::new(&one, giver, &[a, b]), Part::new(&two, taker, &[c])]),
            ("hand over", vec![Part::new(&one, giver, &[b]), Part::new(&two, taker, &[a, c])]),
            ("exchange", vec![Part::new(&one, giver, &[a, c]), Part::new(&two, taker, &[b])]),
            (
                "the giver waits for the taker",
                vec![Part::new(&one, giver, &[c]).after(&[&two]), Part::new(&two, taker, &[a, b])],
            ),
            (
                "the taker waits for the giver",
                vec![Part::new(&one, giver, &[a, b, c]), Part::new(&two, taker, &[])],
            ),
            (
                "split, and the taker waits",
                vec![Part::new(&one, giver, &[c]), Part::new(&two, taker, &[a, b]).after(&[&one])],
            ),
        ];
        let mut before = Vec::new();
        for (what, parts) in &steps {
            let found = deploy(&case, &install, &chart, parts).await?;
            succeeded(&found).with_context(|| format!("{giver:?} and {taker:?}: {what}"))?;
            let now = uids(&cluster, "hands", &[a, b, c]).await;
            let now = now.with_context(|| format!("{giver:?} and {taker:?}: {what}"))?;
            ensure!(
                before.is_empty() || before == now,
                "{giver:?} and {taker:?}: {what}: an object is another one"
            );
            before = now;
        }
        // The deletion of the Installation removes all objects, whichever item owned them last.
        case.delete::<Installation>(&install).await?;
        case.gone::<Installation>(&install).await?;
        for name in [a, b, c] {
            ensure!(
                cluster.get(&address("hands", name)).await?.is_none(),
                "{giver:?} and {taker:?}: {name} is left"
            );
        }
    }
    Ok(())
}

/// An item that is renamed keeps its objects, in every mode.
#[tokio::test(flavor = "multi_thread")]
async fn renamed_items_keep_their_objects() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "renamed-items").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("renamed-items").await?;
    let chart = maps_chart()?;
    for mode in [Mode::Manifests, Mode::Rendered, Mode::Release] {
        let object = format!("{mode:?}").to_lowercase();
        let install = format!("of-{object}");
        succeeded(&deploy(&case, &install, &chart, &[Part::new("old", mode, &[&object])]).await?)?;
        let before = uid(&cluster, "renamed-items", &object).await?;
        succeeded(&deploy(&case, &install, &chart, &[Part::new("new", mode, &[&object])]).await?)?;
        ensure!(
            uid(&cluster, "renamed-items", &object).await? == before,
            "{mode:?}: the object is another one"
        );
        let labels = format!("execution.landscaper.gardener.cloud/managed-by={install}");
        ensure!(case.list::<DeployItem>(&labels).await?.len() == 1, "{mode:?}: the old item is left");
        case.delete::<Installation>(&install).await?;
        case.gone::<Installation>(&install).await?;
        ensure!(
            cluster.get(&address("renamed-items", &object)).await?.is_none(),
            "{mode:?}: the object is left"
        );
    }
    Ok(())
}

/// An Installation loses an object to another one. It leaves the object alone from then on, when it
/// drops the object and when it is deleted, and an Event reports this.
#[tokio::test(flavor = "multi_thread")]
async fn objects_change_hands_between_installations() -> Result<()> {
    use Mode::{Manifests, Release, Rendered};
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "between").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("between").await?;
    let chart = maps_chart()?;
    let modes = [Manifests, Rendered, Release];
    for (row, (giver, taker)) in
        modes.iter().flat_map(|giver| modes.iter().map(move |taker| (*giver, *taker))).enumerate()
    {
        for goes in [false, true] {
            let object = format!("x{row}{goes}");
            let (old, new) = (format!("old{row}{goes}"), format!("new{row}{goes}"));
            let what = format!("from {giver:?} to {taker:?}, the old one goes: {goes}");
            succeeded(&deploy(&case, &old, &chart, &[Part::new(&old, giver, &[&object])]).await?)?;
            let before = uid(&cluster, "between", &object).await?;
            succeeded(&deploy(&case, &new, &chart, &[Part::new(&new, taker, &[&object])]).await?)
                .with_context(|| what.clone())?;
            let item = case.item(&old, &old).await?.name_any();
            if goes {
                case.delete::<Installation>(&old).await?;
                case.gone::<Installation>(&old).await?;
            } else {
                succeeded(&deploy(&case, &old, &chart, &[Part::new(&old, giver, &[])]).await?)
                    .with_context(|| what.clone())?;
            }
            ensure!(
                uid(&cluster, "between", &object).await.with_context(|| what.clone())? == before,
                "{what}"
            );
            let told =
                case.warnings_with::<DeployItem>(&item, "ObjectLeft").await.with_context(|| what.clone())?;
            ensure!(
                told.iter().any(|(_, text)| text.contains(&object) && text.contains("was left")),
                "{told:?}"
            );
            case.delete::<Installation>(&new).await?;
            case.gone::<Installation>(&new).await?;
            ensure!(
                cluster.get(&address("between", &object)).await?.is_none(),
                "{what}: it is left for ever"
            );
        }
    }
    Ok(())
}

/// Two Installations list the same object, and take it from each other with each job. When the last
/// owner is deleted, the object goes back to the other one.
#[tokio::test(flavor = "multi_thread")]
async fn an_object_goes_back_to_whom_it_was_taken_from() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "back").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("back").await?;
    let chart = maps_chart()?;
    for (name, mode) in [("m", Mode::Manifests), ("r", Mode::Rendered)] {
        let (one, two) = (format!("one-{name}"), format!("two-{name}"));
        let object = format!("shared-{name}");
        for install in [&one, &two] {
            succeeded(&deploy(&case, install, &chart, &[Part::new(install, mode, &[&object])]).await?)?;
        }
        let before = uid(&cluster, "back", &object).await?;
        succeeded(&case.reconcile(&one).await?)?;
        case.delete::<Installation>(&one).await?;
        case.gone::<Installation>(&one).await?;
        ensure!(uid(&cluster, "back", &object).await? == before, "{mode:?}");
        case.delete::<Installation>(&two).await?;
        case.gone::<Installation>(&two).await?;
        ensure!(cluster.get(&address("back", &object)).await?.is_none(), "{mode:?}: it is left for ever");
    }
    Ok(())
}

/// If an item changes its mode in the same job in which the chart drops an object, the object is
/// deleted, for both directions of the change.
#[tokio::test(flavor = "multi_thread")]
async fn the_mode_changes_while_an_object_is_dropped() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "modes").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("modes").await?;
    let chart = maps_chart()?;
    for (name, first, second) in
        [("rendered", Mode::Rendered, Mode::Release), ("release", Mode::Release, Mode::Rendered)]
    {
        let (a, b) = (format!("{name}-a"), format!("{name}-b"));
        succeeded(&deploy(&case, name, &chart, &[Part::new(name, first, &[&a, &b])]).await?)?;
        let before = uid(&cluster, "modes", &a).await?;
        succeeded(&deploy(&case, name, &chart, &[Part::new(name, second, &[&a])]).await?)?;
        ensure!(uid(&cluster, "modes", &a).await? == before, "{name}: a is another one");
        ensure!(cluster.get(&address("modes", &b)).await?.is_none(), "{name}: b is left");
        case.delete::<Installation>(name).await?;
        case.gone::<Installation>(name).await?;
        ensure!(cluster.get(&address("modes", &a)).await?.is_none(), "{name}: a is left");
    }
    Ok(())
}

/// A namespace that an item drops stays while another item has objects in it. The same applies to a
/// CRD.
#[tokio::test(flavor = "multi_thread")]
async fn namespaces_in_use_stay() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "in-use").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "used"}});
    create_item(&case, "space", "dev", &json!({"manifests": [{"manifest": namespace}]})).await?;
    run_job(&case, "space", "1").await?;
    create_item(&case, "inside", "dev", &json!({"manifests": [{"manifest": config_map("used", "x")}]}))
        .await?;
    run_job(&case, "inside", "1").await?;
    case.delete::<DeployItem>("space").await?;
    give_job(&case, "space", "2").await?;
    case.gone::<DeployItem>("space").await?;
    let found = cluster.get("/api/v1/namespaces/used").await?.context("the namespace is gone")?;
    ensure!(found["metadata"]["deletionTimestamp"].is_null(), "{found}");
    let told = case.warnings_with::<DeployItem>("space", "ObjectLeft").await?;
    ensure!(
        told.iter().any(|(_, text)| text.contains("objects of the item inside would be deleted with it")),
        "{told:?}"
    );
    Ok(())
}

/// A hook does not delete a Job that carries another owner's labels.
#[tokio::test(flavor = "multi_thread")]
async fn hooks_delete_nothing_of_others() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let (case, cluster) = (Case::new(system, "hook-names").await?, cluster().await?);
    cluster.create_target(&case, "dev").await?;
    cluster.plane.create_namespace("hook-names").await?;
    let taken = json!({"manifests": [{"manifest": config_map("hook-names", "taken")}]});
    create_item(&case, "owner", "dev", &taken).await?;
    run_job(&case, "owner", "1").await?;
    let before = uid(&cluster, "hook-names", "taken").await?;
    let hook = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: taken, annotations: {helm.sh/hook: pre-install}}\n";
    let chart = archive(&[
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        ("templates/hook.yaml", hook),
    ])?;
    let mut said = item(&case, &chart, "hook-names", &json!({}));
    said["spec"]["timeout"] = json!("8s");
    case.create::<DeployItem>("web", &said).await?;
    give_job(&case, "web", "1").await?;
    let (phase, error) = target_cluster::outcome(&job_over(&case, "web", "1").await?);
    ensure!(phase == "Failed" && error.contains("configmaps \"taken\" already exists"), "{phase} {error}");
    ensure!(uid(&cluster, "hook-names", "taken").await? == before, "the hook has deleted what is another's");
    Ok(())
}
