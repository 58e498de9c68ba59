//! The deployer is killed after each of its writes in turn, to the home cluster and to that of the
//! Target: the write is stored, but the deployer never gets the answer. The final state must be the
//! same as without a kill: no release is pending, no object is duplicated, none is lost (`helm.md`
//! 16, 8).
use anyhow::{Result, ensure};
use groundwork_api::{DeployItem, Target};
use groundwork_tests::{Proxy, System, SystemOptions};
use serde_json::{Value, json};

use crate::case::Case;
use crate::cut_points::{self, Cut, Lived};
use crate::deploying_charts::{archive, records};
use crate::target_cluster::{TargetCluster, cluster, configuration, give_job, job_over, outcome, target};

/// Number of points per cluster that every run tries.
const FEW: usize = 3;
const SERVICE: &str = "deployer";

/// Life of two items: deployed, changed, deleted.
struct Life<'a> {
    system: &'a mut System,
    namespace: String,
    proxy: Proxy,
    cluster: TargetCluster,
}

impl Life<'_> {
    /// Waits until `is_so`, while the deployer may be killed.
    async fn until(&mut self, what: &str, is_so: impl AsyncFn(&Case<'_>) -> Result<bool>) -> Result<()> {
        let Self { system, namespace, proxy, .. } = self;
        let is_reached = |system: &System| Ok(system.proxy(SERVICE)?.take_cut() || proxy.take_cut());
        cut_points::until(system, (SERVICE, namespace), is_reached, what, is_so).await
    }

    /// Gives both items a job, and waits for its end.
    async fn run(&mut self, job: &str) -> Result<()> {
        let case = Case::existing(self.system, &self.namespace).await?;
        for name in ["chart", "manifests"] {
            give_job(&case, name, job).await?;
        }
        self.until(&format!("job {job} has ended"), async |case| {
            for name in ["chart", "manifests"] {
                let item = case.get::<DeployItem>(name).await?;
                let status = item.status.clone().unwrap_or_default();
                if status.job_id_finished.as_deref() != Some(job) {
                    return Ok(false);
                }
                ensure!(outcome(&item).0 == "Succeeded", "{name}: {:?}", outcome(&item));
            }
            Ok(true)
        })
        .await
    }

    /// Returns the objects of the cluster, without the fields that differ between two lives.
    async fn state(&self) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        for (revision, status, record) in records(&self.cluster, &self.namespace).await? {
            let hooks = record["hooks"].as_array().into_iter().flatten();
            let hooks: Vec<_> = hooks.map(|hook| hook["last_run"]["phase"].to_string()).collect();
            lines.push(format!("{revision} {status} {} {hooks:?}", record["info"]["description"]));
        }
        let path = format!("/api/v1/namespaces/{}/configmaps", self.namespace);
        let list = self.cluster.get(&path).await?.unwrap_or_default();
        for object in list["items"].as_array().into_iter().flatten() {
            let metadata = &object["metadata"];
            lines.push(format!("{} {} {}", metadata["name"], metadata["labels"], object["data"]));
        }
        Ok(lines)
    }
}

fn chart(color: &str) -> Result<String> {
    let object = |name: &str, annotations: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n{annotations}data:\n  color: {color}\n  revision: \
             \"{{{{ .Release.Revision }}}}\"\n"
        )
    };
    let hook = "  annotations: {helm.sh/hook: \"pre-install,pre-upgrade,post-delete\", helm.sh/hook-delete-policy: before-hook-creation}\n";
    archive(&[
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        ("templates/a.yaml", &object("a", "")),
        ("templates/b.yaml", &object(&format!("only-{color}"), "")),
        ("templates/hook.yaml", &object("hook", hook)),
    ])
}

fn spec(kind: &str, namespace: &str, config: &Value) -> Value {
    json!({"spec": {"type": kind, "target": {"name": "dev", "namespace": namespace}, "config": config}})
}

fn items(namespace: &str, color: &str) -> Result<[(&'static str, Value); 2]> {
    let helm = json!({
        "apiVersion": "helm.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
        "chart": {"archive": {"raw": chart(color)?}}, "name": "shop", "namespace": namespace,
    });
    let object = |name: &str| json!({"manifest": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": {"color": color}}});
    let manifests = json!({"manifests": [object("manifest"), object(&format!("also-{color}"))]});
    Ok([
        ("chart", spec("landscaper.gardener.cloud/helm", namespace, &helm)),
        (
            "manifests",
            spec("landscaper.gardener.cloud/kubernetes-manifest", namespace, &configuration(&manifests)),
        ),
    ])
}

async fn live(system: &mut System, number: usize, cut: Option<Cut>) -> Result<Lived<Vec<Vec<String>>>> {
    // Both lives use the same names in their clusters, so that their states can be compared.
    let namespace = format!("deployer-cuts-{number}");
    system.plane.create_namespace(&namespace).await?;
    let cluster = cluster().await?;
    cluster.plane.create_namespace(&namespace).await?;
    let proxy = Proxy::start(cluster.plane.client().await?).await?;
    let mut kubeconfig = cluster.kubeconfig()?;
    kubeconfig["clusters"][0]["cluster"] = json!({"server": proxy.url()});
    system.proxy(SERVICE)?.cut_after(cut_points::number(cut, "writes at home"));
    proxy.cut_after(cut_points::number(cut, "writes to the target"));
    let mut life = Life { system, namespace: namespace.clone(), proxy, cluster };
    let case = Case::existing(life.system, &namespace).await?;
    case.create::<Target>("dev", &target(&json!({"kubeconfig": kubeconfig.to_string()}))).await?;
    for (name, object) in items(&namespace, "red")? {
        case.create::<DeployItem>(name, &object).await?;
    }
    life.run("1").await?;
    let mut states = vec![life.state().await?];
    let case = Case::existing(life.system, &namespace).await?;
    for (name, object) in items(&namespace, "blue")? {
        case.change::<DeployItem>(name, &object).await?;
    }
    life.run("2").await?;
    states.push(life.state().await?);
    let case = Case::existing(life.system, &namespace).await?;
    for name in ["chart", "manifests"] {
        case.delete::<DeployItem>(name).await?;
        give_job(&case, name, "3").await?;
    }
    life.until("the items are gone", async |case| Ok(case.list::<DeployItem>("").await?.is_empty())).await?;
    states.push(life.state().await?);
    let (home, target) = (life.system.proxy(SERVICE)?.writes(), life.proxy.writes());
    let without_name = |state: Vec<String>| -> Vec<String> {
        state.iter().map(|line| line.replace(&namespace, "NS")).collect()
    };
    let state: Vec<_> = states.into_iter().map(without_name).collect();
    ensure!(
        state[2].iter().all(|line| line.contains("hook") || line.contains("kube-root")),
        "{:?}",
        state[2]
    );
    Ok(Lived { state, changes: vec![("writes at home", home), ("writes to the target", target)] })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_may_be_the_last_of_a_deployer() -> Result<()> {
    let options = SystemOptions { proxied: true, ..SystemOptions::default() };
    let Some(mut system) = System::start(options).await? else { return Ok(()) };
    cut_points::compare(FEW, &[("writes at home", 7), ("writes to the target", 16)], async |number, cut| {
        live(&mut system, number, cut).await
    })
    .await
}

/// Two replicas share the items of each type. Every object is created once, and every release has
/// one revision (`helm.md` 16, 9).
#[tokio::test(flavor = "multi_thread")]
async fn two_replicas_share_the_items() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    system.run_as("deployer-2", SERVICE).await?;
    system.until_ready("deployer-2").await?;
    let (case, cluster) = (Case::new(&system, "two-replicas").await?, cluster().await?);
    cluster.plane.create_namespace("two-replicas").await?;
    cluster.create_target(&case, "dev").await?;
    let mut names = Vec::new();
    for number in 0..12 {
        let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": format!("object-{number}"), "namespace": "two-replicas"}});
        let config = configuration(&json!({"manifests": [{"manifest": manifest}]}));
        let object = spec("landscaper.gardener.cloud/kubernetes-manifest", "two-replicas", &config);
        names.push((format!("manifests-{number}"), object));
        let helm = json!({
            "apiVersion": "helm.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
            "chart": {"archive": {"raw": release_chart()?}}, "name": format!("web-{number}"), "namespace": "two-replicas",
        });
        names
            .push((format!("chart-{number}"), spec("landscaper.gardener.cloud/helm", "two-replicas", &helm)));
    }
    for (name, object) in &names {
        case.create::<DeployItem>(name, object).await?;
    }
    for (name, _) in &names {
        give_job(&case, name, "1").await?;
    }
    for (name, _) in &names {
        let item = job_over(&case, name, "1").await?;
        ensure!(outcome(&item).0 == "Succeeded", "{name}: {:?}", outcome(&item));
    }
    for (kind, expected) in [("configmaps", 24), ("secrets", 12)] {
        let part = format!("/namespaces/two-replicas/{kind}");
        let requests = cluster.requests(&part)?;
        let created = requests.iter().filter(|(verb, _)| verb == "create").count();
        ensure!(created == expected, "{created} {kind} were created, and not {expected}");
    }
    Ok(())
}

/// Deployers of one type with different target selectors each take the items of their own Targets.
/// Every served item is deployed, and an item whose Target no deployer serves waits
/// (`installations.md` 7.7, 1).
#[tokio::test(flavor = "multi_thread")]
async fn deployers_of_one_type_share_the_targets() -> Result<()> {
    let Some(mut system) = System::servers(SystemOptions::default()).await? else { return Ok(()) };
    system.run("watcher").await?;
    let of_zone =
        |zone: &str| json!([{"labels": [{"key": "zone", "operator": "=", "values": [zone]}]}]).to_string();
    for (name, zone) in [("deployer-east", "east"), ("deployer-west", "west")] {
        let variables = [
            ("GROUNDWORK_TARGET_SELECTORS", of_zone(zone)),
            ("GROUNDWORK_DEPLOYER_INSTANCE", zone.to_owned()),
        ];
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        system.run_with(name, SERVICE, &variables).await?;
        system.until_ready(name).await?;
    }
    let (case, cluster) = (Case::new(&system, "zones").await?, cluster().await?);
    cluster.plane.create_namespace("zones").await?;
    let config = json!({"kubeconfig": cluster.kubeconfig()?.to_string()});
    for zone in ["east", "west", "north"] {
        let mut object = target(&config);
        object["metadata"] = json!({"labels": {"zone": zone}});
        case.create::<Target>(zone, &object).await?;
        for number in 0..4 {
            let manifest = json!({"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("{zone}-{number}"), "namespace": "zones"}});
            let config = configuration(&json!({"manifests": [{"manifest": manifest}]}));
            let mut object = spec("landscaper.gardener.cloud/kubernetes-manifest", "zones", &config);
            object["spec"]["target"]["name"] = json!(zone);
            case.create::<DeployItem>(&format!("{zone}-{number}"), &object).await?;
        }
    }
    for zone in ["north", "east", "west"] {
        for number in 0..4 {
            give_job(&case, &format!("{zone}-{number}"), "1").await?;
        }
    }
    for zone in ["east", "west"] {
        for number in 0..4 {
            let item = job_over(&case, &format!("{zone}-{number}"), "1").await?;
            ensure!(outcome(&item).0 == "Succeeded", "{zone}-{number}: {:?}", outcome(&item));
            let by = item.status.and_then(|status| status.deployer).map(|deployer| deployer.identity);
            ensure!(by.as_deref() == Some(&format!("deployer-{zone}")), "{zone}-{number}: {by:?}");
        }
    }
    // Both deployers have received these items by now.
    for number in 0..4 {
        let status = case.get::<DeployItem>(&format!("north-{number}")).await?.status.unwrap_or_default();
        ensure!(status.deployer.is_none() && status.job_id_finished.is_none(), "{status:?}");
    }
    Ok(())
}

/// Returns a chart whose object has the name of its release.
fn release_chart() -> Result<String> {
    archive(&[
        ("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
        ("templates/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\n"),
    ])
}
