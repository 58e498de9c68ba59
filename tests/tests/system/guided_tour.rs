//! Landscaper's guided tour, as far as it deploys charts and manifests: the results that its texts
//! describe appear in the cluster of a Target.
//!
//! The tour fetches charts from a registry on the network. Here a registry of the test serves them,
//! and the references in the files are redirected to it. A timeout of minutes becomes one of
//! seconds. All other content of the files is unchanged.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_api::{Context, DataObject, Installation, Target};
use groundwork_testkit::{Registry, RegistryOptions, Server, fixture, servers_or_skip};
use groundwork_tests::wait_for;
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRoleBinding, Role, RoleBinding};
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

use crate::case::Case;
use crate::registries::push;
use crate::shared;
use crate::support::{PATIENCE, outcome};
use crate::target_cluster::{self, TargetCluster, cluster};

pub(crate) const TOUR: &str = "landscaper/guided-tour";
/// Address of the charts in the tour's files.
const CHARTS: &str = "europe-docker.pkg.dev/sap-gcp-cp-k8s-stable-hub/landscaper-examples/examples";
const CHART_LAYER: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const CONFIG_MAP: &str = "/api/v1/namespaces/example/configmaps/hello-world";
const SECRET: &str = "/api/v1/namespaces/example/secrets/hello-world";

/// Guided tour in a namespace of its own.
pub(crate) struct Tour<'a> {
    pub(crate) case: Case<'a>,
    pub(crate) cluster: TargetCluster,
    registry: Registry,
}

impl<'a> Tour<'a> {
    /// Starts the tour. `None` if the servers or the files are missing.
    pub(crate) async fn begin(namespace: &str, target: &[&str]) -> Result<Option<Tour<'static>>> {
        if fixture(TOUR).is_none() || !servers_or_skip(&[Server::Registry]) {
            return Ok(None);
        }
        let Some(system) = shared::system().await? else { return Ok(None) };
        let (case, cluster) = (Case::new(system, namespace).await?, cluster().await?);
        for name in target {
            cluster.create_target(&case, name).await?;
        }
        let registry = Registry::start(&RegistryOptions::default()).await?;
        for (path, name, version) in [
            ("hello-world/chart/hello-world", "charts/hello-world", "1.0.0"),
            ("basics/upgrade/chart/hello-world", "charts/hello-world", "1.0.1"),
            ("components/helm-chart/chart/echo-server", "charts/guided-tour/echo-server", "1.0.0"),
        ] {
            let chart = packed(&fixture(&format!("{TOUR}/{path}")).context("a chart of the tour")?)?;
            tokio::task::block_in_place(|| {
                registry.push_artifact(name, version, (CHART_LAYER, &chart), None)
            })?;
        }
        Ok(Some(Tour { case, cluster, registry }))
    }

    fn adapted(&self, text: &str) -> String {
        text.replace("${namespace}", &self.case.namespace)
            .replace(CHARTS, &self.registry.address())
            .replace("${targetNamespace}", "example")
            .replace("timeout: 2m", "timeout: 3s")
    }

    fn read(&self, path: &str) -> Result<Value> {
        let path = fixture(&format!("{TOUR}/{path}.yaml.tpl")).context("a file of the tour")?;
        Ok(groundwork_yaml::from_str(&self.adapted(&fs::read_to_string(path)?))?)
    }

    /// Applies an Installation of the tour, as its reader would, and waits for its job. Returns
    /// phase and last error.
    async fn apply(&self, path: &str) -> Result<(String, String)> {
        let object = self.read(path)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        if self.case.api::<Installation>().get_opt(name).await?.is_some() {
            let change = json!({"metadata": {"annotations": object["metadata"]["annotations"]}, "spec": object["spec"]});
            self.case.change::<Installation>(name, &change).await?;
        } else {
            let content = json!({"metadata": {"annotations": object["metadata"]["annotations"]}, "spec": object["spec"]});
            self.case.create::<Installation>(name, &content).await?;
        }
        Ok(outcome(&self.case.finished(name).await?))
    }

    pub(crate) async fn succeeds(&self, path: &str) -> Result<()> {
        let found = self.apply(path).await?;
        ensure!(found == ("Succeeded".into(), String::new()), "{path}: {found:?}");
        Ok(())
    }

    async fn is_greeting(&self, path: &str, greeting: &str) -> Result<()> {
        let found = self.cluster.get(path).await?.with_context(|| format!("{path} is not there"))?;
        ensure!(found["data"] == json!({"testData": greeting}), "{found}");
        Ok(())
    }

    /// Returns a ConfigMap that the tour deploys.
    async fn config_map(&self, name: &str) -> Result<Option<Value>> {
        self.cluster.get(&format!("/api/v1/namespaces/example/configmaps/{name}")).await
    }

    async fn data(&self, config_map: &str) -> Result<Value> {
        let found = self.config_map(config_map).await?;
        Ok(found.with_context(|| format!("ConfigMap {config_map} is not there"))?["data"].clone())
    }

    pub(crate) async fn deleted(&self, name: &str) -> Result<()> {
        self.case.delete::<Installation>(name).await?;
        self.case.gone::<Installation>(name).await
    }

    /// Pushes the components of one of the tour's constructor files.
    pub(crate) async fn components(&self, constructor: &str) -> Result<()> {
        let path = fixture(&format!("{TOUR}/{constructor}.yaml")).context("a component of the tour")?;
        let folder = path.parent().context("a folder")?;
        let constructor: Value = groundwork_yaml::from_str(&self.adapted(&fs::read_to_string(&path)?))?;
        for component in constructor["components"].as_array().context("components")? {
            let source = tempfile::tempdir()?;
            let descriptor = described(component, folder, source.path())?;
            fs::write(source.path().join("component-descriptor.yaml"), descriptor.to_string())?;
            push(source.path(), &self.registry, "components", " written").await?;
        }
        Ok(())
    }

    /// Pushes a component for which the tour has only the descriptor.
    async fn descriptor(&self, path: &str) -> Result<()> {
        let path = fixture(&format!("{TOUR}/{path}.yaml")).context("a descriptor of the tour")?;
        let source = tempfile::tempdir()?;
        fs::copy(path, source.path().join("component-descriptor.yaml"))?;
        push(source.path(), &self.registry, "components", " written").await
    }

    async fn data_object(&self, path: &str) -> Result<()> {
        let object = self.read(path)?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.case.create::<DataObject>(name, &json!({"data": object["data"]})).await?;
        Ok(())
    }

    /// Creates the tour's Context with the address of the component registry, which its file leaves
    /// to the reader.
    pub(crate) async fn context(&self, path: &str) -> Result<()> {
        let mut context = self.read(&format!("{path}/installation/context"))?;
        context["repositoryContext"]["baseUrl"] = json!(format!("{}/components", self.registry.address()));
        let content = json!({"repositoryContext": context["repositoryContext"]});
        self.case.create::<Context>("landscaper-examples", &content).await?;
        Ok(())
    }

    /// Creates the namespace for the tour's objects in the cluster of the Targets.
    async fn namespace_of_objects(&self) -> Result<()> {
        if self.cluster.get("/api/v1/namespaces/example").await?.is_none() {
            // A test of another part of the tour may create it at the same time.
            drop(self.cluster.plane.create_namespace("example").await);
        }
        Ok(())
    }

    /// Waits until the item of the tour's Installation for its own cluster has an error with this
    /// text.
    async fn item_says(&self, text: &str) -> Result<()> {
        wait_for(text, PATIENCE, async || {
            let item = self.case.item("self-inst", "default-deploy-item").await;
            let (phase, error) = target_cluster::outcome(&item.map_err(|error| error.to_string())?);
            if error.contains(text) { Ok(()) } else { Err(format!("{phase} {error}")) }
        })
        .await
    }

    /// Waits for a Deployment, and sets its status to ready, as the controllers of a full cluster
    /// would.
    async fn get_ready(&self, name: &str) -> Result<Value> {
        let path = format!("/apis/apps/v1/namespaces/example/deployments/{name}");
        self.cluster.until("the Deployment is there", &path, |found| found.is_some()).await?;
        let status = json!({"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1, "readyReplicas": 1});
        self.cluster.change(&format!("{path}/status"), &json!({"status": status})).await
    }
}

/// Writes the source of one component: its folders beside a descriptor, as `component push` expects
/// them.
pub(crate) fn described(component: &Value, folder: &Path, source: &Path) -> Result<Value> {
    let mut resources = component["resources"].clone();
    for resource in resources.as_array_mut().into_iter().flatten() {
        let name = resource["name"].as_str().unwrap_or_default().to_owned();
        let Some(input) = resource["input"]["path"].as_str() else {
            resource["relation"] = json!("external");
            continue;
        };
        fs::create_dir(source.join(&name))?;
        for file in fs::read_dir(folder.join(input))? {
            let file = file?;
            fs::copy(file.path(), source.join(&name).join(file.file_name()))?;
        }
        resource["input"] = json!({"type": "dir", "path": name});
        resource["version"] = component["version"].clone();
        resource["relation"] = json!("local");
    }
    let references = component.get("componentReferences").cloned().unwrap_or_else(|| json!([]));
    Ok(json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": component["name"], "version": component["version"], "provider": "internal", "repositoryContexts": [],
        "sources": [], "componentReferences": references, "resources": resources,
    }}))
}

/// Packs a chart as registries store it.
fn packed(folder: &Path) -> Result<Vec<u8>> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    builder.append_dir_all(folder.file_name().context("a folder")?, folder)?;
    Ok(builder.into_inner()?.finish()?)
}

/// The basics: a chart, manifests, an upgrade that replaces one object by another, and two items,
/// the second after the first. An error at once, or after a timeout, is reported, and the corrected
/// file succeeds.
#[tokio::test(flavor = "multi_thread")]
async fn the_basics_and_errors_of_the_tour_come_to_their_ends() -> Result<()> {
    let Some(tour) = Tour::begin("guided-tour", &["my-cluster", "my-cluster-1", "my-cluster-2"]).await?
    else {
        return Ok(());
    };
    tour.succeeds("hello-world/installation/installation").await?;
    tour.is_greeting(CONFIG_MAP, "hello").await?;
    tour.deleted("hello-world").await?;
    ensure!(tour.cluster.get(CONFIG_MAP).await?.is_none(), "the chart's object is left");

    tour.succeeds("basics/manifest-deployer/installation/installation").await?;
    tour.is_greeting(CONFIG_MAP, "hello").await?;
    tour.deleted("hello-world").await?;

    tour.succeeds("basics/upgrade/installation/installation").await?;
    tour.is_greeting(CONFIG_MAP, "hello").await?;
    tour.succeeds("basics/upgrade/installation/installation-upg").await?;
    ensure!(tour.cluster.get(CONFIG_MAP).await?.is_none(), "the object of the former version is left");
    tour.is_greeting(SECRET, "aGVsbG8=").await?;
    tour.deleted("hello-world").await?;

    tour.succeeds("basics/multiple-deployitems/installation/installation").await?;
    for (number, greeting) in [(1, "foo"), (2, "bar")] {
        let path = format!("/api/v1/namespaces/example-{number}/configmaps/hello-world-{number}");
        tour.is_greeting(&path, greeting).await?;
    }
    tour.deleted("hello-world").await?;

    let (phase, error) = tour.apply("error-handling/immediate-error/installation/installation").await?;
    ensure!(phase == "Failed" && !error.is_empty(), "{phase} {error}");
    tour.succeeds("error-handling/immediate-error/installation/installation-fixed").await?;
    tour.deleted("hello-world").await?;

    let (phase, error) = tour.apply("error-handling/timeout-error/installation/installation").await?;
    ensure!(phase == "Failed", "{phase} {error}");
    tour.succeeds("error-handling/timeout-error/installation/installation-fixed").await?;
    tour.is_greeting(CONFIG_MAP, "hello").await?;
    tour.deleted("hello-world").await?;

    // The Target is missing at the time of the deletion. The deletion fails until the reader
    // requests one without uninstall.
    tour.succeeds("error-handling/delete-error/installation/installation").await?;
    tour.case.delete::<Target>("my-cluster").await?;
    tour.case.delete::<Installation>("hello-world").await?;
    tour.case
        .until("the deletion has failed", "hello-world", |installation: &Installation| {
            outcome(installation).0 == "DeleteFailed"
        })
        .await?;
    let annotations = json!({
        "landscaper.gardener.cloud/delete-without-uninstall": "true", "landscaper.gardener.cloud/operation": "reconcile"});
    tour.case
        .change::<Installation>("hello-world", &json!({"metadata": {"annotations": annotations}}))
        .await?;
    tour.case.gone::<Installation>("hello-world").await?;
    tour.is_greeting(CONFIG_MAP, "hello").await
}

/// Components: the test deploys their charts with values from the component, from imports and from
/// mappings, and exports a token that the cluster writes.
#[tokio::test(flavor = "multi_thread")]
async fn the_components_of_the_tour_deploy_their_charts() -> Result<()> {
    let Some(tour) = Tour::begin("guided-tour-components", &["my-cluster"]).await? else { return Ok(()) };
    tour.context("components/helm-chart").await?;
    tour.components("components/helm-chart/commands/component-constructor").await?;
    for name in ["import-parameters", "export-parameters"] {
        tour.components(&format!("import-export/{name}/commands/component-constructor")).await?;
    }
    for path in [
        "import-parameters/installation/dataobject-release",
        "import-parameters/installation/dataobject-values",
        "import-data-mappings/installation/dataobject-name",
        "import-data-mappings/installation/dataobject-namespace",
    ] {
        tour.data_object(&format!("import-export/{path}")).await?;
    }
    for (path, name, text) in [
        ("components/helm-chart", "echo-server", None),
        ("import-export/import-parameters", "echo", Some("Hello, Landscaper!")),
        ("import-export/import-data-mappings", "echo", Some("hello")),
    ] {
        let path = format!("{path}/installation/installation");
        let (ended, deployment) = tokio::join!(tour.succeeds(&path), tour.get_ready(name));
        ended?;
        let container = deployment?["spec"]["template"]["spec"]["containers"][0].clone();
        ensure!(container["image"] == "hashicorp/http-echo:0.2.3", "{path}: {container}");
        if let Some(text) = text {
            ensure!(container["args"] == json!([format!("-text=\"{text}\"")]), "{path}: {container}");
        }
        tour.deleted("echo-server").await?;
    }

    let secret = "/api/v1/namespaces/example/secrets/test-secret";
    let (ended, written) =
        tokio::join!(tour.succeeds("import-export/export-parameters/installation/installation"), async {
            tour.cluster.until("the Secret is there", secret, |found| found.is_some()).await?;
            // Write the token as the token controller would.
            tour.cluster.change(secret, &json!({"data": {"token": "Z29sZA=="}})).await
        });
    ended?;
    written?;
    let token = tour.case.get::<DataObject>("my-token").await?;
    ensure!(token.data.get() == Some(&json!("gold")), "{token:?}");
    Ok(())
}

/// Maps of Targets: one item per Target, the whole map handed to a nested installation, one nested
/// installation per Target, and the map put together again two levels below.
#[tokio::test(flavor = "multi_thread")]
async fn the_maps_of_the_tour_deploy_to_each_of_their_targets() -> Result<()> {
    let targets = ["cluster-red", "cluster-green", "cluster-blue"];
    let Some(tour) = Tour::begin("guided-tour-maps", &targets).await? else { return Ok(()) };
    tour.namespace_of_objects().await?;
    tour.context("components/helm-chart").await?;
    tour.data_object("target-maps/01-multiple-deploy-items/component/installation/dataobject").await?;
    for (folder, installation, objects) in [
        ("01-multiple-deploy-items", "multiple-items", "multiple-items"),
        ("02-targetmap-ref", "targetmap-ref", "targetmapref"),
        ("03-multiple-subinst", "multiple-subinst", "multiple-subinst"),
        ("04-forward-map", "forward-map", "compose-map-exec"),
    ] {
        tour.components(&format!("target-maps/{folder}/component/components")).await?;
        tour.succeeds(&format!("target-maps/{folder}/component/installation/installation")).await?;
        for (color, cpu) in [("red", "180m"), ("green", "120m"), ("blue", "100m")] {
            let data = tour.data(&format!("{objects}-{color}")).await?;
            if folder == "04-forward-map" {
                ensure!(data == json!({"foo": "bar"}), "{folder} {color}: {data}");
            } else {
                ensure!(data["color"] == color && data["cpu"] == cpu, "{folder} {color}: {data}");
            }
        }
        let other = tour.config_map(&format!("{objects}-yellow")).await?;
        ensure!(other.is_none(), "{folder}: a color without a Target was deployed");
        tour.deleted(installation).await?;
        for color in ["red", "green", "blue"] {
            let left = tour.config_map(&format!("{objects}-{color}")).await?;
            ensure!(left.is_none(), "{folder}: the object of {color} is left");
        }
    }
    Ok(())
}

/// Nested installations: one exports a value that the next one deploys. Their blueprints come from
/// one component and from two. An import sets their number.
#[tokio::test(flavor = "multi_thread")]
async fn the_nested_installations_of_the_tour_deploy_their_manifests() -> Result<()> {
    let Some(tour) = Tour::begin("guided-tour-nested", &["my-cluster"]).await? else { return Ok(()) };
    tour.namespace_of_objects().await?;
    tour.context("components/helm-chart").await?;
    for name in ["export-import", "component-references", "subinst-templates"] {
        tour.components(&format!("subinstallations/{name}/commands/component-constructor")).await?;
    }
    tour.data_object("subinstallations/export-import/installation/dataobject").await?;
    for name in ["export-import", "component-references"] {
        tour.succeeds(&format!("subinstallations/{name}/installation/installation")).await?;
        let names = tour.case.get::<DataObject>("do-configmap-names").await?;
        let names: Vec<String> = serde_json::from_value(names.data.get().cloned().unwrap_or_default())?;
        ensure!(names.len() == 3, "{name}: {names:?}");
        for config_map in &names {
            ensure!(tour.data(config_map).await? == json!({"foo": "bar"}), "{name}: {config_map}");
        }
        tour.deleted(name).await?;
        for config_map in &names {
            ensure!(tour.config_map(config_map).await?.is_none(), "{name}: {config_map} is left");
        }
    }
    tour.succeeds("subinstallations/subinst-templates/installation/installation").await?;
    for index in 0..3 {
        ensure!(tour.data(&format!("cm-{index}")).await? == json!({"foo": "bar"}), "cm-{index}");
    }
    ensure!(tour.config_map("cm-3").await?.is_none(), "there are more nested installations than asked for");
    tour.deleted("subinst-templates").await?;
    ensure!(tour.config_map("cm-0").await?.is_none(), "an object is left");
    Ok(())
}

/// Templates read a component and its references: images by the labels of their resources.
#[tokio::test(flavor = "multi_thread")]
async fn the_templates_of_the_tour_read_their_components() -> Result<()> {
    let Some(tour) = Tour::begin("guided-tour-templating", &["my-cluster"]).await? else { return Ok(()) };
    tour.namespace_of_objects().await?;
    tour.context("templating/components").await?;
    for part in ["core", "ext"] {
        tour.descriptor(&format!("templating/components/components/component-descriptor-{part}")).await?;
    }
    tour.components("templating/components/commands/component-constructor").await?;
    tour.succeeds("templating/components/installation/installation").await?;
    let data = tour.data("templating-components").await?;
    let content: Value = groundwork_yaml::from_str(data["content"].as_str().unwrap_or_default())?;
    let folder = "sap-gcp-cp-k8s-stable-hub/landscaper-examples/examples/images";
    let image = |name: &str| json!({"registry": "europe-docker.pkg.dev", "repository": format!("{folder}/image-{name}"), "tag": "1.0.0"});
    let expected = json!({
        "images": {"types": {"type-a": image("a"), "type-d": image("d")}},
        "auxiliaryImages": {"aux-b": image("b"), "aux-c": image("c")},
    });
    ensure!(content == expected, "{content}");
    tour.deleted("templating-components").await
}

/// A Target leads to the cluster of the Installation itself, with the rights of a service account
/// of its namespace.
#[tokio::test(flavor = "multi_thread")]
async fn the_target_of_the_tour_that_is_the_cluster_itself_works() -> Result<()> {
    let Some(tour) = Tour::begin("guided-tour-self", &[]).await? else { return Ok(()) };
    // Another test may have created the namespace.
    drop(tour.case.system.plane.create_namespace("example").await);
    tour.case.create::<ServiceAccount>("self-serviceaccount", &json!({})).await?;
    let target = tour.read("targets/02-self-targets/installation/target")?;
    tour.case.create::<Target>("self-target", &json!({"spec": target["spec"]})).await?;
    let installation = tour.read("targets/02-self-targets/installation/installation")?;
    tour.case.create::<Installation>("self-inst", &installation).await?;
    // The rights that the tour's texts grant do not exist yet. The item reports each missing right,
    // one after the other.
    tour.item_says("may not create serviceaccounts/token").await?;
    let client = tour.case.system.client().await?;
    let role = json!({
        "metadata": {"name": "tokens"},
        "rules": [{
            "apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"],
            "resourceNames": ["self-serviceaccount"],
        }],
    });
    let of_deployer = json!({
        "metadata": {"name": "tokens"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tokens"},
        "subjects": [{"kind": "ServiceAccount", "name": "groundwork-deployer", "namespace": "groundwork-system"}],
    });
    tour.case.create::<Role>("tokens", &role).await?;
    tour.case.create::<RoleBinding>("tokens", &of_deployer).await?;
    tour.item_says("may not get example/self-target-example").await?;
    let binding = tour.read("targets/02-self-targets/installation/clusterrolebinding")?;
    let bindings = Api::<ClusterRoleBinding>::all(client);
    bindings.create(&PostParams::default(), &serde_json::from_value(binding)?).await?;
    let ended = outcome(&tour.case.finished("self-inst").await?);
    ensure!(ended.0 == "Succeeded", "{ended:?}");
    let home = Case::existing(tour.case.system, "example").await?;
    let found = home.get::<ConfigMap>("self-target-example").await?;
    ensure!(found.data == Some([("testData".to_owned(), "hello".to_owned())].into()), "{found:?}");
    tour.deleted("self-inst").await?;
    home.gone::<ConfigMap>("self-target-example").await
}
