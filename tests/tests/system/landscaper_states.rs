//! States of Landscaper's own tests (`installations.md` 11), run end to end. States whose children
//! belong to no template of their parent's blueprint are covered by unit tests only, since a job
//! would delete these children.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use groundwork_api::{Context, DataObject, Installation, Target};
use groundwork_testkit::{Registry, RegistryOptions, Server, fixture, servers_or_skip};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::{Value, json};

use crate::case::Case;
use crate::registries::push;
use crate::shared;
use crate::support::outcome;

pub(crate) const ROOT: &str = "landscaper";

/// Namespace whose default Context leads to a registry with the components of one folder.
struct States<'a> {
    case: Case<'a>,
    folder: &'static str,
}

/// Writes the source of a component: its blobs beside a descriptor, as `component push` expects
/// them.
pub(crate) fn described(files: &Path, name: &str, source: &Path) -> Result<Value> {
    let mut descriptor: Value =
        groundwork_yaml::from_str(&fs::read_to_string(files.join(format!("{name}.yaml")))?)?;
    for resource in descriptor["component"]["resources"].as_array_mut().into_iter().flatten() {
        let blob = format!("blobs/{}", resource["access"]["filename"].as_str().unwrap_or_default());
        resource["input"] = json!({"type": "dir", "path": blob});
        resource.as_object_mut().context("a resource")?.remove("access");
    }
    for blob in fs::read_dir(files.join("blobs"))? {
        let blob = blob?;
        let target = source.join("blobs").join(blob.file_name());
        fs::create_dir_all(&target)?;
        fs::copy(blob.path().join("blueprint.yaml"), target.join("blueprint.yaml"))?;
    }
    Ok(descriptor)
}

impl States<'_> {
    /// Prepares the states. `None` if the servers or the files are missing.
    async fn begin(
        namespace: &str,
        registry: &str,
        descriptors: &[&str],
        folder: &'static str,
    ) -> Result<Option<(States<'static>, Registry)>> {
        if fixture(ROOT).is_none() || !servers_or_skip(&[Server::Registry]) {
            return Ok(None);
        }
        let Some(system) = shared::system().await? else { return Ok(None) };
        let server = Registry::start(&RegistryOptions::default()).await?;
        let files = fixture(&format!("{ROOT}/{registry}")).context("the components")?;
        for name in descriptors {
            let source = tempfile::tempdir()?;
            let descriptor = described(&files, name, source.path())?;
            fs::write(source.path().join("component-descriptor.yaml"), descriptor.to_string())?;
            push(source.path(), &server, "components", " written").await?;
        }
        let case = Case::new(system, namespace).await?;
        let address = format!("{}/components", server.address());
        let context = json!({"repositoryContext": {"type": "ociRegistry", "baseUrl": address}});
        case.create::<Context>("components", &context).await?;
        Ok(Some((States { case, folder }, server)))
    }

    /// Reads an object of a state. The call of a template function, which computes the name of a
    /// root's import, is replaced by the import's key.
    fn read(&self, path: &str) -> Result<Value> {
        let path = fixture(&format!("{ROOT}/{}/{path}.yaml", self.folder)).context("a state")?;
        let text = fs::read_to_string(path)?.replace("{{ dataObjectName \"\"  \"ext.a\" }}", "ext.a");
        Ok(groundwork_yaml::from_str(&text)?)
    }

    /// Applies an Installation of a state under another name, with components from the test's
    /// registry, and waits for its job.
    async fn run(&self, path: &str, name: &str, change: impl Fn(&mut Value)) -> Result<Installation> {
        let mut spec = self.read(path)?["spec"].clone();
        spec["context"] = json!("components");
        let reference = spec["componentDescriptor"]["ref"].as_object_mut().context("a reference")?;
        reference.remove("repositoryContext");
        reference.remove("kind");
        change(&mut spec);
        let annotations = json!({"landscaper.gardener.cloud/operation": "reconcile"});
        let content = json!({"metadata": {"annotations": annotations}, "spec": spec});
        self.case.create::<Installation>(name, &content).await?;
        self.case.finished(name).await
    }

    /// Returns templates and blueprints of a root's nested installations, sorted.
    async fn children(&self, root: &str) -> Result<Vec<(String, String)>> {
        let label = format!("landscaper.gardener.cloud/encompassed-by={root}");
        let children = self.case.list::<Installation>(&label).await?;
        let mut children: Vec<_> = children
            .iter()
            .map(|child| {
                let child = json!(child);
                let template =
                    &child["metadata"]["annotations"]["landscaper.gardener.cloud/subinstallation-name"];
                let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
                let blueprint = &child["spec"]["blueprint"]["ref"]["resourceName"];
                let component = &child["spec"]["componentDescriptor"]["ref"]["componentName"];
                (text(template), format!("{}//{}", text(component), text(blueprint)))
            })
            .collect();
        children.sort();
        Ok(children)
    }
}

/// Nested installations: none, one in the blueprint, one by an execution, two of one kind, one of
/// each kind, an existing child with the template's name that does not belong to the root, and one
/// with the blueprint of another component.
#[tokio::test(flavor = "multi_thread")]
async fn nested_installations_of_the_states_are_what_their_templates_say() -> Result<()> {
    let descriptors = ["root-component-descriptor", "external-component-descriptor"];
    let Some((states, _registry)) =
        States::begin("states-nested", "subinstallations/registry", &descriptors, "subinstallations").await?
    else {
        return Ok(());
    };
    let (first, second) = (("def-1", "example.com/root//def-1"), ("def-2", "example.com/root//def-2"));
    let external = ("def-1", "example.com/external//def-1");
    for (number, blueprint, expected) in [
        (1, "root-5", vec![]),
        (2, "root-1", vec![first]),
        (3, "root-2", vec![first]),
        (4, "root-3", vec![first, second]),
        (5, "root-4", vec![first, second]),
        (6, "root-1", vec![first]),
        // The folder has no state for this blueprint, so use that of another one.
        (6, "root-6", vec![external]),
    ] {
        let name = format!("root-{number}-{blueprint}");
        let ended = states
            .run(&format!("state/test{number}/00-root"), &name, |spec| {
                // The states show a moment within a job. Therefore their imports have no values,
                // and the name of the child differs from the generated one.
                spec["importDataMappings"] = json!({"b": "value"});
                spec["blueprint"]["ref"]["resourceName"] = json!(blueprint);
            })
            .await?;
        let children = states.children(&name).await?;
        let found: Vec<_> =
            children.iter().map(|(template, from)| (template.as_str(), from.as_str())).collect();
        ensure!(found == expected, "{name}: {found:?}");
        let (phase, message) = outcome(&ended);
        let expected = if expected.is_empty() { "Succeeded" } else { "Failed" };
        ensure!(phase == expected, "{name}: {phase} {message}");
    }
    Ok(())
}

/// Imports: a Target created by hand, values of a DataObject, a Secret and a ConfigMap, and
/// optional imports without a value.
#[tokio::test(flavor = "multi_thread")]
async fn imports_of_the_states_come_from_where_they_say() -> Result<()> {
    let Some((states, _registry)) = States::begin(
        "states-imports",
        "installations/testdata/registry",
        &["component-descriptor"],
        "imports",
    )
    .await?
    else {
        return Ok(());
    };
    let namespace = states.case.namespace.clone();
    let target = states.read("state/test4/11-root-ext-import")?;
    states.case.create::<Target>("ext.a", &json!({"spec": target["spec"]})).await?;
    let ended = states.run("state/test4/00-root", "root-4", |_| {}).await?;
    ensure!(outcome(&ended).0 == "Succeeded", "{:?}", outcome(&ended));

    let object = states.read("state/test5/00-root-dep-import")?;
    states.case.create::<DataObject>("my-import", &json!({"data": object["data"]})).await?;
    let object = states.read("state/test6/00-root-dep-import")?;
    states.case.create::<Secret>("my-secret", &json!({"stringData": object["stringData"]})).await?;
    let object = states.read("state/test7/00-root-dep-import")?;
    states.case.create::<ConfigMap>("my-configmap", &json!({"data": object["data"]})).await?;
    for number in [5, 6, 7] {
        let (path, name) = (format!("state/test{number}/00-root"), format!("root-{number}"));
        let own_namespace = |spec: &mut Value| {
            for source in ["secretRef", "configMapRef"] {
                if spec["imports"]["data"][0].get(source).is_some() {
                    spec["imports"]["data"][0][source]["namespace"] = json!(namespace);
                }
            }
        };
        // Admission rejects the state's duplicate export name.
        let twice = states.run(&path, &format!("{name}-twice"), own_namespace).await;
        let refusal = twice.err().context("an export was given twice")?.to_string();
        ensure!(refusal.contains("names of exports must be unique"), "{refusal}");
        let once = states
            .run(&path, &name, |spec| {
                own_namespace(spec);
                spec["exports"]["data"].as_array_mut().map(Vec::pop);
            })
            .await?;
        // The import has arrived. The job fails at the export, which reads an item that the
        // blueprint does not have.
        let scope = format!("data.landscaper.gardener.cloud/context=Installation.{namespace}.{name}");
        let copies = states.case.list::<DataObject>(&scope).await?;
        let values: Vec<_> = copies.iter().filter_map(|copy| copy.data.get().cloned()).collect();
        ensure!(values == [json!("val-root-import")], "{name}: {values:?}");
        ensure!(outcome(&once).0 == "Failed", "{name}: {:?}", outcome(&once));
    }

    let object = states.read("state/test8/00-root-dep-import")?;
    states.case.create::<ConfigMap>("inst-import", &json!({"data": object["data"]})).await?;
    let ended = states.run("state/test8/00-root", "conditional", |_| {}).await?;
    ensure!(outcome(&ended).0 == "Succeeded", "{:?}", outcome(&ended));
    let children = states.children("conditional").await?;
    ensure!(children.len() == 2, "{children:?}");
    let label = "landscaper.gardener.cloud/encompassed-by=conditional";
    for child in states.case.list::<Installation>(label).await? {
        let child = json!(child);
        let imports: Vec<_> = child["spec"]["imports"]["data"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| &one["name"])
            .collect();
        let is_importing = child["metadata"]["annotations"]["landscaper.gardener.cloud/subinstallation-name"]
            == "subinst-import";
        // The root passes on no import without a value, but it does pass on the other child's
        // export.
        ensure!(imports == if is_importing { vec!["internalBaz"] } else { vec![] }, "{child}");
    }
    Ok(())
}
