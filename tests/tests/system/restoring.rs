//! Landscapes that are saved, lost and restored (`installations.md` 8.7 and 8.8), with a real
//! garbage collector: by `groundwork restore`, and as other backup tools restore them.

use anyhow::{Context, Result, ensure};
use groundwork_api::{DataObject, DeployItem, Execution, Installation, Target};
use groundwork_tests::{System, SystemOptions};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::case::{Case, Namespaced};
use crate::command::run;
use crate::deploying_charts::chart;

const NAMESPACE: &str = "landscape";
/// Namespace of everything that is deployed.
const DEPLOYED: &str = "deployed";
/// Root Installations, each with four nested ones.
const ROOTS: usize = 4;
const REQUEST: &str = "landscaper.gardener.cloud/operation";

/// Returns the blueprint of a nested Installation with one item, and with the lines of its imports
/// and exports.
fn child(imports: &str, exports: &str, item: &Value, template: &str) -> Value {
    json!({"blueprint.yaml": format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n{imports}{exports}deployExecutions:\n- name: d\n  \
         type: GoTemplate\n  template: |\n{template}    deployItems:\n    - {item}\n"
    )})
}

/// Returns the root number `index`: it imports the export of the root before, and nests a release
/// with a generated password, manifests with an export, and two Installations that import it.
fn root(index: usize, chart: &str) -> Value {
    let cluster =
        "- {name: cluster, type: target, targetType: landscaper.gardener.cloud/kubernetes-cluster}\n";
    let text = "- {name: NAME, type: data, schema: {type: string}}\n";
    let named = |name: &str| text.replace("NAME", name);
    let target = json!({"import": "cluster"});
    let manifest = |name: &str, data: Value| {
        json!({
            "name": "objects", "type": "landscaper.gardener.cloud/kubernetes-manifest", "target": target,
            "config": {
                "apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderConfiguration",
                "manifests": [{"policy": "manage", "manifest": {
                    "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": DEPLOYED}, "data": data,
                }}],
                "exports": {"exports": [{"key": "color", "jsonPath": ".data.color", "fromResource": {
                    "apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": DEPLOYED,
                }}]},
            },
        })
    };
    let release = json!({
        "name": "release", "type": "landscaper.gardener.cloud/helm", "target": target,
        "config": {
            "apiVersion": "helm.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
            "chart": {"archive": {"raw": chart}}, "name": format!("release-{index}"), "namespace": DEPLOYED,
            "values": {"color": "{{ $password }}"},
        },
    });
    let state = "    {{- $password := dig \"password\" (randAlphaNum 12) .state }}\n    state: {password: {{ quote $password }}}\n";
    let exported = "exports:\n- {name: color, type: data, schema: {type: string}}\nexportExecutions:\n- name: e\n  type: GoTemplate\n  \
                    template: |\n    exports: {color: {{ .values.deployitems.objects.color }}}\n";
    let imports = |data: &[&str]| {
        let lines: String = data.iter().map(|name| named(name)).collect();
        format!("imports:\n{cluster}{lines}")
    };
    let template = |name: &str, data: &[&str], exports: Value, blueprint: Value| {
        let data: Vec<Value> = data.iter().map(|name| json!({"name": name, "dataRef": name})).collect();
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "InstallationTemplate", "name": name,
            "blueprint": {"filesystem": blueprint},
            "imports": {"data": data, "targets": [{"name": "cluster", "target": "cluster"}]}, "exports": exports,
        })
    };
    let exports = json!({"data": [{"name": "color", "dataRef": "color"}]});
    let config = |part: &str| format!("config-{index}-{part}");
    let children = json!([
        template("release", &[], json!({}), child(&imports(&[]), "", &release, state)),
        template(
            "source",
            &["seed"],
            exports,
            child(
                &imports(&["seed"]),
                exported,
                &manifest(&config("source"), json!({"color": "{{ .imports.seed }}"})),
                "",
            )
        ),
        template(
            "left",
            &["color"],
            json!({}),
            child(
                &imports(&["color"]),
                "",
                &manifest(&config("left"), json!({"color": "{{ .imports.color }}"})),
                "",
            )
        ),
        template(
            "right",
            &["color"],
            json!({}),
            child(
                &imports(&["color"]),
                "",
                &manifest(&config("right"), json!({"color": "{{ .imports.color }}"})),
                "",
            )
        ),
    ]);
    let blueprint = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "imports": [
            {"name": "cluster", "type": "target", "targetType": "landscaper.gardener.cloud/kubernetes-cluster"},
            {"name": "seed", "type": "data", "schema": {"type": "string"}},
        ],
        "exports": [{"name": "next", "type": "data", "schema": {"type": "string"}}],
        "exportExecutions": [{
            "name": "e", "type": "GoTemplate", "template": "exports: {next: {{ .values.dataobjects.color }}}",
        }],
        "subinstallations": children,
    });
    json!({
        "metadata": {"annotations": {(REQUEST): "reconcile"}},
        "spec": {
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint.to_string()}}},
            "imports": {
                "data": [{"name": "seed", "dataRef": format!("seed-{index}")}],
                "targets": [{"name": "cluster", "target": "cluster"}],
            },
            "exports": {"data": [{"name": "next", "dataRef": format!("seed-{}", index + 1)}]},
        },
    })
}

fn name_of_root(index: usize) -> String {
    format!("root-{index}")
}

/// Returns the deployed objects: their names, UIDs and data, and the number of Helm's records.
async fn deployed(case: &Case<'_>) -> Result<(Vec<(String, String, Value)>, usize)> {
    let target = Case::existing(case.system, DEPLOYED).await?;
    let maps = target.list::<ConfigMap>("").await?;
    let ours = maps.into_iter().filter(|map| map.metadata.name.as_deref() != Some("kube-root-ca.crt"));
    let ours = ours.map(|map| {
        (map.metadata.name.unwrap_or_default(), map.metadata.uid.unwrap_or_default(), json!(map.data))
    });
    Ok((ours.collect(), target.list::<Secret>("owner=helm").await?.len()))
}

/// Requests a job of every root, and waits until all Installations have succeeded.
async fn all_succeed(case: &Case<'_>) -> Result<()> {
    for index in 0..ROOTS {
        case.ask(&name_of_root(index), "reconcile").await?;
    }
    for index in 0..ROOTS {
        let is_done = |found: &Installation| {
            let status = found.status.clone().unwrap_or_default();
            let asks = found.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(REQUEST));
            !asks && status.phase.as_deref() == Some("Succeeded") && status.job_id == status.job_id_finished
        };
        case.until::<Installation>("the root has succeeded", &name_of_root(index), is_done).await?;
    }
    let found = case.list::<Installation>("").await?;
    ensure!(found.len() == 5 * ROOTS, "{} Installations", found.len());
    for installation in &found {
        let phase = installation.status.as_ref().and_then(|status| status.phase.as_deref());
        ensure!(phase == Some("Succeeded"), "{installation:?}");
    }
    Ok(())
}

/// Deletes all objects of a kind, whatever their finalizers are.
async fn wipe<K: Namespaced>(case: &Case<'_>) -> Result<()> {
    let api = case.api::<K>();
    for object in case.list::<K>("").await? {
        let name = object.meta().name.clone().unwrap_or_default();
        let patch = Patch::Merge(json!({"metadata": {"finalizers": null}}));
        match api.patch_metadata(&name, &PatchParams::default(), &patch).await {
            // Garbage collection was faster.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            patched => drop(patched?),
        }
    }
    api.delete_collection(&DeleteParams::default(), &ListParams::default()).await?;
    Ok(())
}

/// Takes the landscape away as the loss of a namespace does: no service is asked.
async fn lose(system: &mut System) -> Result<()> {
    for service in ["renderer", "deployer"] {
        system.remove(service);
    }
    let case = Case::existing(system, NAMESPACE).await?;
    wipe::<Installation>(&case).await?;
    wipe::<Execution>(&case).await?;
    wipe::<DeployItem>(&case).await?;
    wipe::<DataObject>(&case).await?;
    wipe::<Target>(&case).await?;
    wipe::<Secret>(&case).await?;
    for service in ["renderer", "deployer"] {
        system.run(service).await?;
    }
    for service in ["renderer", "deployer"] {
        system.until_ready(service).await?;
    }
    Ok(())
}

async fn objects<K: Namespaced>(case: &Case<'_>) -> Result<Vec<Value>> {
    let found = case.list::<K>("").await?;
    let value = |object: &K| -> Result<Value> {
        let mut value = serde_json::to_value(object)?;
        value["apiVersion"] = json!(K::api_version(&()));
        value["kind"] = json!(K::kind(&()));
        Ok(value)
    };
    found.iter().map(value).collect()
}

/// Creates objects as a backup tool does: without UID and status.
async fn create<K: Namespaced>(case: &Case<'_>, saved: &[Value], has_owners: bool) -> Result<()> {
    for object in saved.iter().filter(|object| object["kind"] == K::kind(&()).as_ref()) {
        let mut object = object.clone();
        let name = object["metadata"]["name"].as_str().context("a name")?.to_owned();
        let metadata = object["metadata"].as_object_mut().context("metadata")?;
        metadata.retain(|member, _| {
            ["name", "namespace", "labels", "annotations", "finalizers"].contains(&member.as_str())
                || (has_owners && member == "ownerReferences")
        });
        object.as_object_mut().context("an object")?.remove("status");
        case.create::<K>(&name, &object).await?;
    }
    Ok(())
}

/// Way of a restore.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Way {
    /// `groundwork backup` and `restore`.
    Command,
    /// All objects without owner references.
    Ownerless,
    /// All objects with the UIDs of the lost owners.
    DeadOwners,
    /// Only what people wrote.
    RootsOnly,
}

async fn restore(case: &Case<'_>, saved: &[Value], way: Way) -> Result<()> {
    let has_owners = way == Way::DeadOwners;
    let is_written = |object: &&Value| object["metadata"]["ownerReferences"].is_null();
    let saved: Vec<Value> = match way {
        Way::RootsOnly => saved.iter().filter(is_written).cloned().collect(),
        _ => saved.to_vec(),
    };
    // Items come before their owners: the order of a backup tool is not ours.
    create::<DeployItem>(case, &saved, has_owners).await?;
    create::<Execution>(case, &saved, has_owners).await?;
    create::<Secret>(case, &saved, has_owners).await?;
    create::<Target>(case, &saved, has_owners).await?;
    create::<DataObject>(case, &saved, has_owners).await?;
    create::<Installation>(case, &saved, has_owners).await
}

/// Does the first steps of a restore that is interrupted between the creation of two objects and
/// the write of their status: a root Installation, and a nested one below it.
async fn begin_to_restore(case: &Case<'_>, file: &str) -> Result<()> {
    let text = std::fs::read_to_string(file)?;
    let saved: Vec<Value> = text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
    let saved: Vec<Value> = saved.into_iter().filter(|object| object["kind"] == "Installation").collect();
    let root = saved.iter().find(|object| object["metadata"]["name"] == "root-0").context("the root")?;
    let is_below =
        |object: &&Value| object["metadata"]["ownerReferences"][0]["uid"] == root["metadata"]["uid"];
    let child = saved.iter().find(is_below).context("a nested Installation")?;
    let mut uid = None;
    for object in [root, child] {
        let mut object = object.clone();
        let name = object["metadata"]["name"].as_str().context("a name")?.to_owned();
        let metadata = object["metadata"].as_object_mut().context("metadata")?;
        metadata.retain(|member, _| {
            ["labels", "annotations", "finalizers", "ownerReferences"].contains(&member.as_str())
        });
        metadata.entry("annotations").or_insert_with(|| json!({}));
        object["metadata"]["annotations"]["landscaper.gardener.cloud/ignore"] = json!("true");
        object["metadata"]["annotations"]["groundwork.dev/held-by-restore"] = json!("true");
        if let Some(uid) = &uid {
            object["metadata"]["ownerReferences"][0]["uid"] = json!(uid);
        }
        object.as_object_mut().context("an object")?.remove("status");
        uid = case.create::<Installation>(&name, &object).await?.metadata.uid;
    }
    Ok(())
}

/// A landscape of twenty Installations survives its loss in each way: nothing in the target is
/// deleted or made again, all jobs succeed, and at the end the deletion uninstalls everything.
#[tokio::test(flavor = "multi_thread")]
async fn landscapes_return() -> Result<()> {
    let Some(mut system) = System::start(SystemOptions::default()).await? else { return Ok(()) };
    system.plane.create_namespace(DEPLOYED).await?;
    let kubeconfig = std::fs::read_to_string(system.plane.kubeconfig())?;
    let chart = chart("0.1.0", &[])?;
    {
        let case = Case::new(&system, NAMESPACE).await?;
        let target = crate::target_cluster::target(&json!({"kubeconfig": kubeconfig}));
        case.create::<Target>("cluster", &target).await?;
        case.create::<DataObject>("seed-0", &json!({"data": "blue"})).await?;
        for index in 0..ROOTS {
            case.create::<Installation>(&name_of_root(index), &root(index, &chart)).await?;
        }
        all_succeed(&case).await?;
    }
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("landscape.jsonl").display().to_string();
    for way in [Way::Command, Way::Ownerless, Way::DeadOwners, Way::RootsOnly] {
        let case = Case::existing(&system, NAMESPACE).await?;
        let (before, records) = deployed(&case).await?;
        ensure!(before.len() == 4 * ROOTS && records >= ROOTS, "{before:?} {records}");
        let (code, _, err) = run(&system, &["backup", "-n", NAMESPACE, "--output", &file]).await?;
        ensure!(code == 0 && err.is_empty(), "{code} {err}");
        let mut saved = objects::<Installation>(&case).await?;
        saved.extend(objects::<Execution>(&case).await?);
        saved.extend(objects::<DeployItem>(&case).await?);
        saved.extend(objects::<DataObject>(&case).await?);
        saved.extend(objects::<Target>(&case).await?);
        saved.extend(objects::<Secret>(&case).await?);
        lose(&mut system).await?;
        let case = Case::existing(&system, NAMESPACE).await?;
        if way == Way::Command {
            begin_to_restore(&case, &file).await?;
            let (code, out, err) = run(&system, &["restore", &file]).await?;
            ensure!(code == 0 && err.is_empty() && out.contains("18 Installations"), "{code} {out}{err}");
            ensure!(out.contains("4 objects exist already"), "{out}");
            let (code, out, err) = run(&system, &["restore", &file]).await?;
            ensure!(code == 0 && err.is_empty() && out.contains("restored nothing; "), "{code} {out}{err}");
            // The status is there, so the tree shows the last job.
            for installation in case.list::<Installation>("").await? {
                let phase = installation.status.as_ref().and_then(|status| status.phase.as_deref());
                ensure!(phase == Some("Succeeded"), "{installation:?}");
            }
            for execution in case.list::<Execution>("").await? {
                let phase = execution.status.as_ref().and_then(|status| status.phase.as_deref());
                ensure!(phase == Some("Succeeded"), "{execution:?}");
            }
            let (code, out, _) = run(&system, &["restore", "--release", "-n", NAMESPACE]).await?;
            ensure!(code == 0 && out == "released 20 Installations\n", "{code} {out}");
        } else {
            restore(&case, &saved, way).await?;
        }
        all_succeed(&case).await.with_context(|| format!("{way:?}: {}", system.logs()))?;
        let (after, now) = deployed(&case).await?;
        let has_state = matches!(way, Way::Command | Way::Ownerless);
        for (old, new) in before.iter().zip(&after) {
            ensure!(old.0 == new.0 && old.1 == new.1, "{way:?}: {old:?} {new:?}");
            // The generated password is part of the state.
            ensure!(old.2 == new.2 || (!has_state && old.0.contains("release")), "{way:?}: {old:?} {new:?}");
        }
        ensure!(before.len() == after.len() && (now == records || !has_state), "{way:?}: {after:?} {now}");
        // All objects have owners again, and nothing of a former life is left.
        for item in case.list::<DeployItem>("").await? {
            let uids: Vec<String> =
                case.list::<Execution>("").await?.into_iter().filter_map(|one| one.metadata.uid).collect();
            let owners = item.metadata.owner_references.clone().unwrap_or_default();
            ensure!(
                owners.iter().all(|owner| uids.contains(&owner.uid)) && owners.len() == 1,
                "{way:?}: {item:?}"
            );
            ensure!(item.metadata.deletion_timestamp.is_none(), "{way:?}: {item:?}");
        }
        // A state that came back without owner stays so: the API server lets only those give a
        // Secret an owner who may delete it, which the renderer may not.
        for secret in case.list::<Secret>("groundwork.dev/holds=exports").await? {
            ensure!(secret.metadata.owner_references.is_some(), "{way:?}: {secret:?}");
        }
    }
    let case = Case::existing(&system, NAMESPACE).await?;
    for index in (0..ROOTS).rev() {
        case.delete::<Installation>(&name_of_root(index)).await?;
    }
    for index in 0..ROOTS {
        case.gone::<Installation>(&name_of_root(index)).await?;
    }
    let (left, records) = deployed(&case).await?;
    ensure!(left.is_empty() && records == 0, "{left:?} {records}");
    Ok(())
}
