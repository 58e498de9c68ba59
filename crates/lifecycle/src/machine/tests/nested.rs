//! Nested Installations: data down and up, orphans, failures, deletion (`installations.md` 2.2, 6,
//! 8).

use super::*;
use crate::names::object_name;

/// Returns the blueprint of a child that imports data, deploys one item with exports, and publishes
/// those exports.
fn child_blueprint(imports: &[&str], exports: &[&str]) -> String {
    let mut text = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\nimports:".to_owned();
    if imports.is_empty() {
        text.push_str(" []");
    }
    for name in imports {
        text.push_str(&format!("\n- {{name: {name}, type: data, schema: {{type: string}}}}"));
    }
    text.push_str("\nexports:");
    if exports.is_empty() {
        text.push_str(" []");
    }
    for name in exports {
        text.push_str(&format!("\n- {{name: {name}, type: data, schema: {{type: string}}}}"));
    }
    text.push_str(
        "\ndeployExecutions:\n- name: default\n  type: GoTemplate\n  template: |\n    deployItems:\n    - name: item\n      \
         type: landscaper.gardener.cloud/mock\n      config:\n        export:\n          all: {{ .imports | toJson | quote }}\n\
         exportExecutions:\n- name: default\n  type: GoTemplate\n  template: |\n    exports:\n",
    );
    for name in exports {
        text.push_str(&format!(
            "      {name}: {{{{ printf \"%s-{name}\" .values.deployitems.item.all | quote }}}}\n"
        ));
    }
    if exports.is_empty() {
        text.push_str("      {}\n");
    }
    text
}

/// Parses `name: imports > exports` to a template of a nested Installation. Names in the scope
/// equal those of its imports and exports.
fn template(text: &str) -> Value {
    let (name, rest) = text.split_once(": ").unwrap();
    let (imports, exports) = rest.split_once('>').unwrap();
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let (imports, exports) = (words(imports), words(exports));
    let refs = |names: &[String]| -> Vec<Value> {
        names.iter().map(|name| json!({"name": name, "dataRef": name})).collect()
    };
    let blueprint = child_blueprint(
        &imports.iter().map(String::as_str).collect::<Vec<_>>(),
        &exports.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "InstallationTemplate",
        "name": name,
        "blueprint": {"filesystem": {"blueprint.yaml": blueprint}},
        "imports": {"data": refs(&imports)},
        "exports": {"data": refs(&exports)},
    })
}

/// Returns an Installation that imports `who`, nests these children, and exports the last export of
/// the last child.
pub(super) fn parent(children: &[&str]) -> Value {
    let templates: Vec<Value> = children.iter().map(|child| template(child)).collect();
    let last = children.last().and_then(|child| child.split_whitespace().last()).filter(|name| *name != ">");
    let mut blueprint = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "imports": [{"name": "who", "type": "data", "schema": {"type": "string"}}],
        "subinstallations": templates,
    });
    let mut exports = json!([]);
    if let Some(last) = last {
        blueprint["exports"] = json!([{"name": "result", "type": "data", "schema": {"type": "string"}}]);
        blueprint["exportExecutions"] = json!([{
            "name": "default", "type": "GoTemplate",
            "template": format!("exports:\n  result: {{{{ index .values.dataobjects {last:?} | quote }}}}\n"),
        }]);
        exports = json!([{"name": "result", "dataRef": "shop-result"}]);
    }
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Installation",
        "metadata": {
            "name": "server", "namespace": "team",
            "annotations": {"landscaper.gardener.cloud/reconcile-if-changed": "true"},
        },
        "spec": {
            "imports": {"data": [{"name": "who", "dataRef": "who"}]},
            "exports": {"data": exports},
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint.to_string()}}},
        },
    })
}

pub(super) fn shop(children: &[&str]) -> Cluster {
    let mut cluster = Cluster::new(parent(children));
    let who = json!({"metadata": {"name": "who", "namespace": "team"}, "data": "me"});
    cluster.data_objects.insert("who".to_owned(), serde_json::from_value(who).unwrap());
    cluster
}

/// Cases I-58, I-89, I-96, B-91: values flow down through copies of imports, from sibling to
/// sibling, and up through exports. Siblings wait for unfinished siblings in any order of the
/// templates.
#[test]
fn values_flow_down_across_and_up() {
    let mut cluster = shop(&["web: who access > url", "db: who > access"]);
    // The last child is `db`, so its export is the result.
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.told());
    assert_eq!(cluster.data("shop-result"), Some(json!("{\"who\":\"me\"}-access")));
    let scope = "Installation.team.server";
    let url = cluster.data(&object_name(scope, "url"));
    assert_eq!(url, Some(json!("{\"access\":\"{\\\"who\\\":\\\"me\\\"}-access\",\"who\":\"me\"}-url")));
    let export = &cluster.data_objects["shop-result"].metadata;
    let labels = export.labels.clone().unwrap();
    assert_eq!(labels.get("data.landscaper.gardener.cloud/context"), None, "it lies in the root scope");
    assert_eq!(labels["data.landscaper.gardener.cloud/source"], scope);
    assert_eq!(labels["data.landscaper.gardener.cloud/sourceType"], "export");
    let status = cluster.server().status.clone().unwrap();
    let cache = status.sub_inst_cache.unwrap();
    let names: Vec<&str> = cache.active_subs.iter().map(|pair| pair.spec_name.as_str()).collect();
    assert_eq!(names, ["db", "web"], "in the order in which they can run");
    assert_eq!(status.installation_refs.len(), 2);
    for template in ["db", "web"] {
        let child = cluster.child(template).unwrap();
        assert_eq!(child.status.as_ref().unwrap().job_id_finished, status.job_id_finished, "one job for all");
    }
}

/// The process dies after each single write of a life in turn. The result is the same, and no
/// object is created twice.
#[test]
fn every_crash_ends_the_same() {
    let life = |deaths: [Option<usize>; 3]| {
        let mut cluster = shop(&["db: who > access", "web: access > url"]);
        cluster.run(deaths[0]);
        assert_eq!(cluster.phase(), "Succeeded", "{deaths:?} {}", cluster.told());
        let created = (cluster.dump(), cluster.creates(), cluster.log.len());
        cluster.change_spec(parent(&["db: who > access", "job: access > url"]));
        cluster.run(deaths[1]);
        assert_eq!(cluster.phase(), "Succeeded", "{deaths:?} {}", cluster.told());
        let changed = (cluster.dump(), cluster.creates(), cluster.log.len());
        cluster.delete();
        cluster.run(deaths[2]);
        assert!(cluster.installations.is_empty(), "{}", cluster.error());
        assert!(cluster.executions.is_empty() && cluster.items.is_empty());
        assert_eq!(cluster.data_objects.keys().collect::<Vec<_>>(), ["who"]);
        (created, changed, cluster.log.len())
    };
    let (created, changed, writes) = life([None; 3]);
    let stages = [created.2, changed.2 - created.2, writes - changed.2];
    for (stage, writes) in stages.into_iter().enumerate() {
        for death in 0..writes {
            let mut deaths = [None; 3];
            deaths[stage] = Some(death);
            let (other_created, other_changed, _) = life(deaths);
            let at = format!("killed in stage {stage} after write {death}");
            assert_eq!((&other_created.0, other_created.1), (&created.0, created.1), "{at}");
            assert_eq!((&other_changed.0, other_changed.1), (&changed.0, changed.1), "{at}");
        }
    }
}

/// `installations.md` 6.2: a child without template is deleted before any other child starts.
#[test]
fn orphans_go_first() {
    let mut cluster = shop(&["db: who > access", "old: who > x"]);
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
    cluster.log.clear();
    cluster.change_spec(parent(&["db: who > access"]));
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
    assert!(cluster.child("old").is_none());
    let status = cluster.server().status.clone().unwrap().sub_inst_cache.unwrap();
    assert!(status.orphaned_subs.is_empty());
    // An orphan whose deletion fails ends the job before the other children start.
    let mut cluster = shop(&["db: who > access", "old: who > x"]);
    cluster.run(None);
    let old = cluster.child("old").unwrap().metadata.name.clone().unwrap();
    cluster.verdicts.insert("item".to_owned(), "DeleteFailed");
    cluster.change_spec(parent(&["db: who > access"]));
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    assert!(
        cluster.error().contains(&format!("the deletion of orphaned subinstallations failed: {old}")),
        "{}",
        cluster.error()
    );
    cluster.verdicts.clear();
    cluster.annotate("landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
    assert!(cluster.child("old").is_none());
}

/// A failed child stops only the siblings that depend on it. The parent names the failed child.
#[test]
fn failures_are_named() {
    let mut cluster = shop(&["db: who > access", "web: access > url", "mail: who > address"]);
    cluster.verdicts.insert("item".to_owned(), "Failed");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    let name = |template: &str| cluster.child(template).unwrap().metadata.name.clone().unwrap();
    let mut names = [name("db"), name("mail"), name("web")];
    names.sort();
    // The child that only waited for `db` is not reported as the cause, even if its name sorts
    // first.
    let first = names.iter().find(|one| **one != name("web")).unwrap();
    let item = cluster.items.keys().find(|item| item.starts_with(&format!("{first}-item-"))).unwrap();
    assert_eq!(
        cluster.error(),
        format!(
            "buildErrorIfFailedChild/children failed: Failed sub-installation(s): {}; {first}: Execution is failed: item item ({item}) \
             failed: item is broken",
            names.join(", ")
        )
    );
    assert_eq!(
        cluster.error_of(&name("web")),
        format!(
            "init/AllPredecessorsSucceeded: Op: NotCompletedDependents - Reason: NotCompletedDependents - Message: predecessors have not succeeded: {}",
            name("db")
        )
    );
}

/// `installations.md` 8.3: the root names the objects that a failed deletion leaves, down to the
/// item and its cause.
#[test]
fn a_failed_deletion_is_told_up_to_the_root() {
    let mut cluster = shop(&["db: who > access"]);
    cluster.run(None);
    let db = cluster.child("db").unwrap().metadata.name.clone().unwrap();
    let item = cluster.items.keys().next().unwrap().clone();
    cluster.verdicts.insert("item".to_owned(), "DeleteFailed");
    cluster.delete();
    cluster.run(None);
    let told = format!("item item ({item}) failed: item is broken");
    let execution = cluster.executions[&db].status.clone().unwrap();
    assert_eq!(execution.last_error.unwrap().message, format!("has failed items: {told}"));
    let of = |name: &str, message: String| {
        assert_eq!(cluster.error_of(name), format!("handlePhaseDeleting/UndeletedSubobjects: {message}"));
    };
    of(&db, format!("the execution could not be deleted: {told}"));
    of(
        "server",
        format!(
            "subinstallations could not be deleted: {db}; {db}: the execution could not be deleted: {told}"
        ),
    );
}

/// `installations.md` 8.6: a child that a user deletes goes with the next job of its parent, which
/// creates it anew.
#[test]
fn a_child_deleted_by_hand_is_made_anew() {
    let mut cluster = shop(&["db: who > access", "web: access > url"]);
    cluster.run(None);
    let uid = cluster.child("db").unwrap().metadata.uid.clone();
    let name = cluster.child("db").unwrap().metadata.name.clone().unwrap();
    cluster.delete_one(&name);
    cluster.run(None);
    assert!(cluster.child("db").is_some(), "it waits for a job");
    cluster.annotate("landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
    let db = cluster.child("db").unwrap();
    assert!(db.metadata.deletion_timestamp.is_none());
    assert_eq!(db.metadata.uid, uid, "a name and a UID of this world are the same");
}

/// `installations.md` 3.2: an interrupt reaches all objects below.
#[test]
fn an_interrupt_ends_the_whole_tree() {
    let mut cluster = shop(&["db: who > access", "web: access > url"]);
    cluster.has_no_deployer = true;
    cluster.run(None);
    assert_eq!(cluster.phase(), "Progressing");
    cluster.annotate("landscaper.gardener.cloud/operation", "interrupt");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed", "{}", cluster.log.join("\n"));
    for installation in cluster.installations.values() {
        let status = installation.status.as_ref().unwrap();
        assert_eq!(status.phase.as_deref(), Some("Failed"));
        assert!(
            !installation.metadata.annotations.iter().flatten().any(|(name, _)| name.ends_with("/operation"))
        );
    }
}

/// `installations.md` 5.5, `blueprints.md` 9.6: a cycle among templates fails before the job
/// creates any object.
#[test]
fn a_cycle_changes_nothing() {
    let mut cluster = shop(&["c: e > c", "e: d > e", "d: c > d"]);
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    assert!(
        cluster.error().contains("c -{depends_on}-> e -{depends_on}-> d -{depends_on}-> c"),
        "{}",
        cluster.error()
    );
    assert_eq!(cluster.installations.len(), 1);
}

/// `installations.md` 6.2: a job deletes the exports of the previous job. If it fails, they stay
/// deleted.
#[test]
fn exports_vanish_while_a_job_runs() {
    let mut cluster = shop(&["db: who > access"]);
    cluster.run(None);
    assert!(cluster.data("shop-result").is_some());
    cluster.verdicts.insert("item".to_owned(), "Failed");
    cluster.annotate("landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed");
    assert!(cluster.data("shop-result").is_none());
}

/// `blueprints.md` 4.6: state of an execution is available in the next job.
#[test]
fn state_is_kept_from_job_to_job() {
    let blueprint = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\ndeployExecutions:\n- name: default\n  type: GoTemplate\n  \
                     template: |\n    {{ $count := add1 (default 0 .state.count) }}\n    state: {count: {{ $count }}}\n    deployItems:\n    \
                     - name: a\n      type: landscaper.gardener.cloud/mock\n      config: {count: {{ $count }}}\n";
    let mut object = installation(&[], &json!({}));
    object["spec"]["blueprint"]["inline"]["filesystem"]["blueprint.yaml"] = json!(blueprint);
    let mut cluster = Cluster::new(object);
    for job in 1..4 {
        cluster.run(None);
        assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.error());
        let item = cluster.items.values().next().unwrap();
        assert_eq!(item.spec.config.get().unwrap()["count"], json!(job));
        cluster.annotate("landscaper.gardener.cloud/operation", "reconcile");
    }
    let (name, secret) = cluster.secrets.first_key_value().unwrap();
    assert_eq!(*name, crate::names::state_secret_name("server", "deploydefault"));
    assert_eq!(secret.data.as_ref().unwrap()["config"].0, b"count: 3\n");
    assert_eq!(secret.metadata.owner_references.as_ref().unwrap()[0].controller, Some(true));
}
