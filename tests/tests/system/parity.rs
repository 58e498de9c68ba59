//! The command and the renderer's gRPC calls are one engine: for the same objects, `groundwork
//! render -o json` prints the same as the calls return to a program that follows the nested
//! installations itself.
//!
//! The tests compare the bytes of each DeployItem, Execution, nested installation and published
//! object, and the error of an Installation that cannot be rendered. They ignore times and the
//! reference of an Installation to its component: the command reads the component from an archive,
//! a call contains the descriptor in the request.

mod calls;
mod input;
mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_testkit::fixture;
use groundwork_tests::{System, documents, files_below, workspace};
use groundwork_yaml as yaml;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::case::Case;
use crate::grpc::{account, channel};
use crate::guided_tour::{self, TOUR};
use crate::landscaper_states;
use crate::shared;
use calls::Caller;
use input::{Input, REPOSITORY, objects_in};

/// Objects by kind, namespace and name, each as a line of JSON.
type Objects = BTreeMap<String, String>;

/// Returns the compared part of an object, for a failed Installation with its error.
fn line(object: &Value) -> (String, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
    let key = format!("{kind} {}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
    let mut object = object.clone();
    // The error ends with a dump of the template's input, which contains the component.
    let error = object["status"]["lastError"]["message"].take();
    let error = error.as_str().and_then(|error| error.split("\ntemplate input:\n").next());
    if let Some(members) = object.as_object_mut() {
        members.remove("status");
    }
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.remove("landscaper.gardener.cloud/reconcile-time");
    }
    if kind == "Installation" {
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.remove("componentDescriptor");
        }
        object["error"] = json!(error);
    }
    (key, without_now(&object.to_string()))
}

/// Replaces the rendering time, which some blueprints of the tour write.
fn without_now(line: &str) -> String {
    let is_time = |part: &str| part.parse::<Timestamp>().is_ok();
    line.split('"').map(|part| if is_time(part) { "a time" } else { part }).collect::<Vec<_>>().join("\"")
}

/// A twentieth of the default template limits. If a practical blueprint came near these limits, the
/// output of the command would differ from that of the calls, which have the full limits.
const A_TWENTIETH: &[&str] = &["--template-work", "2", "--template-memory", "10"];

/// Renderer of both kinds, command and calls.
struct Both {
    system: &'static System,
    caller: Caller,
    /// Options of the command.
    options: &'static [&'static str],
}

impl Both {
    async fn begin(namespace: &str) -> Result<Option<Self>> {
        let Some(system) = shared::system().await? else { return Ok(None) };
        let case = Case::new(system, namespace).await?;
        let stranger = account(&case, "stranger", &[]).await?;
        let caller = Caller::new(RendererClient::new(channel(system, "renderer", Some(&stranger))?));
        Ok(Some(Self { system, caller, options: A_TWENTIETH }))
    }

    /// Returns the objects that the command prints.
    fn printed(&self, paths: &Path, input: &Input) -> Result<Objects> {
        let exports = tempfile::NamedTempFile::new()?;
        fs::write(exports.path(), input.exports.to_string())?;
        let output = Command::new(self.system.binary("groundwork")?)
            .arg("render")
            .args(self.options)
            .args(["-o", "json", "--exports"])
            .arg(exports.path())
            .arg(paths)
            .output()?;
        let error = String::from_utf8_lossy(&output.stderr);
        let list: Value =
            serde_json::from_slice(&output.stdout).with_context(|| format!("nothing is printed: {error}"))?;
        Ok(list["items"].as_array().into_iter().flatten().map(line).collect())
    }

    /// Renders in both ways, checks that the objects are equal, and returns them.
    async fn give(&mut self, paths: &Path, input: &Input) -> Result<Objects> {
        let printed = self.printed(paths, input)?;
        let called: Objects = self.caller.render(input).await?.iter().map(line).collect();
        let keys: BTreeSet<&String> = printed.keys().chain(called.keys()).collect();
        let differ: Vec<&String> =
            keys.into_iter().filter(|key| printed.get(*key) != called.get(*key)).collect();
        // Report a difference in an Installation first, since it is the cause of the other
        // differences.
        let worst = differ.iter().find(|key| key.starts_with("Installation ")).or(differ.first());
        if let Some(key) = worst {
            let of = |objects: &Objects| objects.get(*key).cloned().unwrap_or_else(|| "nothing".to_owned());
            bail!(
                "{differ:?} differ; of {key} the command gives\n{}\nand calls\n{}",
                of(&printed),
                of(&called)
            );
        }
        Ok(printed)
    }

    /// Does the same for an input without a folder.
    async fn give_written(&mut self, input: &Input) -> Result<Objects> {
        let folder = tempfile::tempdir()?;
        input.write(self.system, folder.path())?;
        self.give(folder.path(), input).await
    }
}

/// Returns the number of objects of a kind, and of failed Installations among them.
fn count(objects: &Objects, kind: &str) -> (usize, usize) {
    let of_kind = objects.iter().filter(|(key, _)| key.starts_with(&format!("{kind} ")));
    let is_failed = |line: &str| kind == "Installation" && !line.contains("\"error\":null");
    of_kind.fold((0, 0), |(all, failed), (_, line)| (all + 1, failed + usize::from(is_failed(line))))
}

/// Returns the errors of failed Installations.
fn errors(objects: &Objects) -> Vec<String> {
    let error = |(key, line): (&String, &String)| {
        let object: Value = serde_json::from_str(line).ok()?;
        Some(format!("{key}: {}", object["error"].as_str()?))
    };
    objects.iter().filter_map(error).collect()
}

/// Command and calls render every example alike.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_and_calls_give_the_same_of_examples() -> Result<()> {
    let Some(mut both) = Both::begin("parity").await? else { return Ok(()) };
    for (name, used, items, installations) in [
        // Each example, with the component that its overwrites lead to.
        ("echo-server", Some(("my-own-echo-server", "v0.2.0")), 1, (1, 0)),
        // One combination of this example is invalid on purpose.
        ("conditional", None, 3, (7, 1)),
        ("shop", None, 3, (4, 0)),
        ("deploy", None, 3, (4, 0)),
    ] {
        let folder = workspace().join("examples").join(name);
        let mut input = Input::new(objects_in(&folder, |text| text)?);
        input.used = used.map(|(name, version)| (name.to_owned(), version.to_owned()));
        let sources = folder.join("components/sources");
        if sources.is_dir() {
            for descriptor in named(&sources, "component-descriptor.yaml")? {
                input.sources.add(descriptor.parent().context("a folder")?)?;
            }
        }
        let exports = folder.join("exports/cluster.yaml");
        if exports.is_file() {
            input.exports = yaml::from_str(&fs::read_to_string(exports)?)?;
        }
        let objects = both.give(&folder, &input).await.with_context(|| name.to_owned())?;
        assert_eq!(
            (count(&objects, "DeployItem").0, count(&objects, "Installation")),
            (items, installations),
            "{name}"
        );
    }
    Ok(())
}

/// Limits count work and not time, so a document that exceeds a limit fails in the same way offline
/// and in a cluster.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_and_calls_give_the_same_at_limits() -> Result<()> {
    let Some(mut both) = Both::begin("parity-limits").await? else { return Ok(()) };
    both.options = &[];
    let limits = [
        (
            "memory",
            "GoTemplate",
            "{{ $l := list }}{{ range until 1000 }}{{ $l = append $l (repeat 60000000 \"x\") }}{{ end }}",
            "template values hold more than the limit of",
        ),
        ("text", "GoTemplate", "{{ repeat 70000000 \"x\" }}", "more than the limit of 67108864 bytes"),
        (
            "items",
            "GoTemplate",
            "deployItems:\n{{ range until 10001 }}- {name: a{{.}}, type: t}\n{{ end }}",
            "at most 10000 entries are expected",
        ),
        (
            "nodes",
            "Spiff",
            "deployItems: []\na: (( map[[1..2000]|x|->[1..2000]] ))\n",
            "(execution \"limits\", line 2)",
        ),
        (
            "depth",
            "Spiff",
            "deployItems: []\nf: (( |x|-> .f(x) ))\na: (( .f(1) ))\n",
            "(execution \"limits\", line 3)",
        ),
    ];
    let installation = |(name, engine, template, _): (&str, &str, &str, &str)| {
        let kind = "landscaper.gardener.cloud/v1alpha1";
        let executions = json!([{"name": "limits", "type": engine, "template": template}]);
        let blueprint = json!({"apiVersion": kind, "kind": "Blueprint", "deployExecutions": executions});
        let files = json!({"blueprint.yaml": blueprint.to_string()});
        json!({
            "apiVersion": kind, "kind": "Installation", "metadata": {"name": name, "namespace": "limits"},
            "spec": {"blueprint": {"inline": {"filesystem": files}}},
        })
    };
    let objects = both.give_written(&Input::new(limits.map(installation).to_vec())).await?;
    assert_eq!((objects.len(), count(&objects, "Installation")), (5, (5, 5)), "{objects:#?}");
    let errors = errors(&objects);
    for (name, _, _, words) in limits {
        let prefix = format!("Installation limits/{name}: ");
        let error = errors.iter().find(|error| error.starts_with(&prefix));
        ensure!(error.is_some_and(|error| error.contains(words)), "{name}: {errors:#?}");
    }
    Ok(())
}

/// Returns the files with this name below a folder.
fn named(folder: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let is_named = |path: &PathBuf| path.file_name().is_some_and(|found| found == name);
    Ok(files_below(folder)?.into_iter().filter(is_named).collect())
}

/// Reads an Installation of the tour with the other objects of its folder.
fn tour_objects(installation: &Path, namespace: &str) -> Result<Vec<Value>> {
    let adapted = |text: String| {
        let text = text.replace("${kubeconfig}", "      none: {}\n").replace("${namespace}", namespace);
        let text = text.replace("${repoBaseUrl}", REPOSITORY).replace("${targetNamespace}", "example");
        text.replace("${name}", "blue").replace("${color}", "blue")
    };
    let mut objects = objects_in(installation.parent().context("a folder")?, adapted)?;
    objects.retain(|object| object["kind"] != "Installation");
    for installation in documents(&adapted(fs::read_to_string(installation)?))? {
        objects.extend(made_by_hand(&installation, &objects, namespace));
        objects.push(installation);
    }
    Ok(objects)
}

/// Returns the Targets and data that an Installation imports and the tour leaves to its reader or
/// to an earlier step.
fn made_by_hand(installation: &Value, objects: &[Value], namespace: &str) -> Vec<Value> {
    let imports = &installation["spec"]["imports"];
    let list = |kind: &str| imports[kind].as_array().into_iter().flatten();
    let data = list("data").filter_map(|import| Some(("DataObject", import["dataRef"].as_str()?)));
    let targets = list("targets").flat_map(|import| {
        let map = import["targetMap"].as_object().into_iter().flat_map(|map| map.values());
        map.chain(import.get("target")).filter_map(|name| Some(("Target", name.as_str()?)))
    });
    let is_missing = |(kind, name): &(&str, &str)| {
        !objects.iter().any(|object| object["kind"] == *kind && object["metadata"]["name"] == *name)
    };
    let object = |(kind, name)| {
        let mut object = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": kind,
            "metadata": {"name": name, "namespace": namespace},
        });
        match kind {
            "Target" => {
                let kind = "landscaper.gardener.cloud/kubernetes-cluster";
                object["spec"] = json!({"type": kind, "config": {"kubeconfig": "none: {}"}});
            }
            _ => object["data"] = json!("given"),
        }
        object
    };
    data.chain(targets).filter(is_missing).map(object).collect()
}

/// Command and calls render every installation of Landscaper's guided tour alike, with the
/// components of its folders, each in a namespace of its own.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_and_calls_give_the_same_of_the_tour() -> Result<()> {
    let Some(tour) = fixture(TOUR) else { return Ok(()) };
    let Some(mut both) = Both::begin("parity-tour").await? else { return Ok(()) };
    let mut input = Input::new(Vec::new());
    for name in ["component-constructor.yaml", "components.yaml"] {
        for constructor in named(&tour, name)? {
            let folder = constructor.parent().context("a folder")?;
            let constructor: Value = yaml::from_str(&fs::read_to_string(&constructor)?)?;
            for component in constructor["components"].as_array().into_iter().flatten() {
                input.sources.write(|source| guided_tour::described(component, folder, source))?;
            }
        }
    }
    for part in ["core", "ext"] {
        let file = tour.join(format!("templating/components/components/component-descriptor-{part}.yaml"));
        input.sources.write(|_| Ok(yaml::from_str(&fs::read_to_string(file)?)?))?;
    }
    let is_installation = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("installation") && name.ends_with(".yaml.tpl")
    };
    let mut namespaces = 0;
    for path in files_below(&tour)?.into_iter().filter(is_installation) {
        namespaces += 1;
        input.objects.extend(tour_objects(&path, &format!("tour-{namespaces}"))?);
    }
    // Exports that the deployers would return for the items with exports.
    input.exports =
        json!({"default-deploy-item": {"test-token": "dG9rZW4="}, "item": {"test-token": "dG9rZW4="}});
    let objects = both.give_written(&input).await?;
    let (items, installations) = (count(&objects, "DeployItem").0, count(&objects, "Installation"));
    // One Installation of the tour fails on purpose, and its reader corrects it.
    ensure!(
        items > 40 && installations.1 == 1,
        "{items} items, {installations:?} installations: {:#?}",
        errors(&objects)
    );
    Ok(())
}

/// Command and calls render every root alike with which a state of Landscaper's own tests begins,
/// each in a namespace of its own. Most states show a moment within a job, so many fail, with the
/// same message.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_and_calls_give_the_same_of_the_states() -> Result<()> {
    let Some(root) = fixture(landscaper_states::ROOT) else { return Ok(()) };
    let Some(mut both) = Both::begin("parity-states").await? else { return Ok(()) };
    for (registry, descriptors, states, least) in [
        (
            "installations/testdata/registry",
            &["component-descriptor"][..],
            &["imports", "installations/testdata"][..],
            12,
        ),
        (
            "subinstallations/registry",
            &["root-component-descriptor", "external-component-descriptor"],
            &["subinstallations"],
            6,
        ),
    ] {
        let mut input = Input::new(Vec::new());
        for name in descriptors {
            input.sources.write(|source| landscaper_states::described(&root.join(registry), name, source))?;
        }
        for (index, folder) in states.iter().enumerate() {
            for state in fs::read_dir(root.join(folder).join("state"))? {
                let state = state?;
                let namespace = format!("{}-{index}", state.file_name().to_string_lossy());
                input.objects.extend(state_objects(&state.path(), &namespace)?);
            }
        }
        let objects = both.give_written(&input).await?;
        let (all, failed) = count(&objects, "Installation");
        ensure!(all >= least && failed < all, "{registry}: {failed} of {all} failed");
    }
    Ok(())
}

/// Reads the roots of a state and its data, with the component repository of a Context. The call of
/// a template function is replaced by the key in its arguments.
fn state_objects(folder: &Path, namespace: &str) -> Result<Vec<Value>> {
    let adapted = |text: String| {
        let line = |line: &str| match line.split_once("{{ dataObjectName") {
            Some((before, call)) => format!("{before}{}", call.rsplit('"').nth(1).unwrap_or_default()),
            None => line.to_owned(),
        };
        text.lines().map(line).collect::<Vec<_>>().join("\n")
    };
    let mut objects = objects_in(folder, adapted)?;
    objects.retain(|object| object["metadata"].get("ownerReferences").is_none());
    for object in &mut objects {
        object["metadata"]["namespace"] = json!(namespace);
        // Remove the fields that only older versions had.
        object.as_object_mut().context("an object")?.remove("status");
        for reference in references_in(object) {
            for member in ["repositoryContext", "kind", "namespace"] {
                reference.remove(member);
            }
        }
    }
    objects.push(json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Context",
        "metadata": {"name": "default", "namespace": namespace},
        "repositoryContext": {"type": "ociRegistry", "baseUrl": REPOSITORY},
    }));
    Ok(objects)
}

/// Returns an Installation's references to components, ConfigMaps and Secrets.
fn references_in(object: &mut Value) -> Vec<&mut Map<String, Value>> {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return Vec::new() };
    let mut found = Vec::new();
    for (name, member) in spec {
        match name.as_str() {
            "componentDescriptor" => found.extend(member.get_mut("ref").and_then(Value::as_object_mut)),
            "imports" => {
                let imports = member.get_mut("data").and_then(Value::as_array_mut).into_iter().flatten();
                for import in imports.filter_map(Value::as_object_mut) {
                    let references = import.values_mut().filter_map(Value::as_object_mut);
                    found.extend(references);
                }
            }
            _ => {}
        }
    }
    found
}

/// Command and calls treat every list of executions from Landscaper's own tests alike, for each
/// kind of execution, and every blueprint of its tests without imports. Some fail, with the same
/// message.
#[tokio::test(flavor = "multi_thread")]
async fn the_command_and_calls_give_the_same_of_executions() -> Result<()> {
    let Some(root) = fixture(landscaper_states::ROOT) else { return Ok(()) };
    let Some(mut both) = Both::begin("parity-executions").await? else { return Ok(()) };
    let descriptor = root.join("templates/shared_data/localocmrepository/component-descriptor-v2-ref1.yaml");
    let descriptor: Value = yaml::from_str(&fs::read_to_string(descriptor)?)?;
    let mut blueprints = Vec::new();
    for file in files_below(&root.join("templates"))? {
        if file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("template-")) {
            let executions: Value = yaml::from_str(&fs::read_to_string(&file)?)?;
            blueprints.extend(["importExecutions", "deployExecutions", "exportExecutions"].map(|kind| {
                let blueprint = json!({
                    "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint", kind: executions,
                });
                json!({"blueprint.yaml": blueprint.to_string()})
            }));
        }
    }
    for file in named(&root, "blueprint.yaml")? {
        blueprints.push(filesystem(file.parent().context("a folder")?)?);
    }
    let installations = blueprints.iter().enumerate().map(|(index, filesystem)| {
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
            "metadata": {"name": format!("i-{index}"), "namespace": "executions"},
            "spec": {
                "blueprint": {"inline": {"filesystem": filesystem}}, "componentDescriptor": {"inline": descriptor},
            },
        })
    });
    let objects = both.give_written(&Input::new(installations.collect())).await?;
    let (all, failed) = count(&objects, "Installation");
    ensure!(
        all >= blueprints.len() && failed < all && count(&objects, "DeployItem").0 > 10,
        "{failed} of {all} failed"
    );
    Ok(())
}

/// Returns a folder as the inline file system of an Installation.
fn filesystem(folder: &Path) -> Result<Value> {
    let mut filesystem = json!({});
    for path in files_below(folder)? {
        let mut entry = &mut filesystem;
        for part in path.strip_prefix(folder)? {
            entry = &mut entry[part.to_string_lossy().as_ref()];
        }
        *entry = fs::read_to_string(&path)?.into();
    }
    Ok(filesystem)
}
