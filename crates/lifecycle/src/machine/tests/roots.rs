//! Root Installations that import from one another (`installations.md` 5, 8.2).

use super::*;

/// Parses `name: imports > exports`. The value of the export consists of the name and the imports.
pub(super) fn root(text: &str) -> Value {
    let (name, rest) = text.split_once(": ").unwrap();
    let (imports, exports) = rest.split_once('>').unwrap();
    let refs = |names: &str| -> Vec<Value> {
        names.split_whitespace().map(|name| json!({"name": name, "dataRef": name})).collect()
    };
    let declared = |names: &str| -> Vec<Value> {
        let declare = |name| json!({"name": name, "type": "data", "schema": {"type": "string"}});
        names.split_whitespace().map(declare).collect()
    };
    let mut template = "exports:\n".to_owned();
    for export in exports.split_whitespace() {
        template.push_str(&format!(
            "  {export}: {{{{ printf \"{name}(%s)\" (values .imports | toJson) | quote }}}}\n"
        ));
    }
    let blueprint = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Blueprint",
        "imports": declared(imports),
        "exports": declared(exports),
        "exportExecutions": if exports.trim().is_empty() { json!([]) } else {
            json!([{"name": "default", "type": "GoTemplate", "template": template}])
        },
    });
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Installation",
        "metadata": {
            "name": name, "namespace": "team",
            "annotations": {"landscaper.gardener.cloud/operation": "reconcile"},
        },
        "spec": {
            "imports": {"data": refs(imports)},
            "exports": {"data": refs(exports)},
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint.to_string()}}},
        },
    })
}

fn landscape(roots: &[&str]) -> Cluster {
    let mut roots = roots.iter().map(|text| root(text));
    let mut cluster = Cluster::new(roots.next().unwrap());
    for root in roots {
        cluster.apply(root);
    }
    cluster
}

fn phases(cluster: &Cluster) -> String {
    cluster.installations.keys().map(|name| format!("{name}={} ", cluster.phase_of(name))).collect()
}

/// Cases I-89, I-101: each Installation waits for those whose exports it imports, in any order of
/// creation.
#[test]
fn a_chain_runs_in_order() {
    for order in [["a: > one", "b: one > two", "c: two >"], ["a: two >", "b: one > two", "c: > one"]] {
        let mut cluster = landscape(&order);
        cluster.run(None);
        assert_eq!(phases(&cluster), "a=Succeeded b=Succeeded c=Succeeded ", "{}", cluster.log.join("\n"));
        let first = if order[0].ends_with("one") { "a" } else { "c" };
        assert_eq!(cluster.data("one"), Some(json!(format!("{first}([])"))));
        assert_eq!(cluster.data("two"), Some(json!(format!("b([\"{first}([])\"])"))));
    }
}

/// Cases I-104 to I-110 (`installations.md` 5.6): dependents of an Installation run again after its
/// job, even after their own failure.
#[test]
fn dependents_follow() {
    let mut cluster = landscape(&["a: > one", "b: one > two", "c: two >"]);
    cluster.run(None);
    let job =
        |cluster: &Cluster, name: &str| cluster.installations[name].status.clone().unwrap().job_id.unwrap();
    let before = ["a", "b", "c"].map(|name| job(&cluster, name));
    cluster.annotate_one("a", "landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(phases(&cluster), "a=Succeeded b=Succeeded c=Succeeded ");
    for (name, before) in ["a", "b", "c"].into_iter().zip(before) {
        assert_ne!(job(&cluster, name), before, "{name}");
        let status = cluster.installations[name].status.clone().unwrap();
        assert!(status.dependents_to_trigger.is_empty());
    }
    // `a` fails, so its dependents fail too. After its repair they succeed.
    let mut broken = root("a: missing > one");
    broken["metadata"]["annotations"] = json!({});
    cluster.change_spec(broken);
    cluster.annotate_one("a", "landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(phases(&cluster), "a=Failed b=Failed c=Failed ");
    assert_eq!(
        cluster.error_of("b"),
        "init/AllPredecessorsSucceeded: Op: NotCompletedDependents - Reason: NotCompletedDependents - Message: predecessors have not succeeded: a"
    );
    assert_eq!(cluster.data("one"), None);
    cluster.change_spec(root("a: > one"));
    cluster.annotate_one("a", "landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(phases(&cluster), "a=Succeeded b=Succeeded c=Succeeded ");
}

/// `installations.md` 5.3: an Installation fails if its predecessor never ran. The predecessor
/// triggers it later.
#[test]
fn a_predecessor_that_never_ran() {
    let mut idle = root("a: > one");
    idle["metadata"]["annotations"] = json!({});
    let mut cluster = Cluster::new(idle);
    cluster.apply(root("b: one >"));
    cluster.run(None);
    assert_eq!(phases(&cluster), "a= b=Failed ");
    cluster.annotate_one("a", "landscaper.gardener.cloud/operation", "reconcile");
    cluster.run(None);
    assert_eq!(phases(&cluster), "a=Succeeded b=Succeeded ");
}

/// `installations.md` 5.2, 5.5: errors name several exporters of a name, and the members of a
/// cycle.
#[test]
fn what_can_never_run_fails() {
    let mut cluster = landscape(&["a: two > one", "b: one > two"]);
    cluster.run(None);
    assert_eq!(phases(&cluster), "a=Failed b=Failed ");
    assert_eq!(
        cluster.error_of("a"),
        "init/CyclicDependencies: the installations have a cycle: a -{depends_on}-> b -{depends_on}-> a"
    );
    let mut cluster = landscape(&["a: > one", "b: > one", "c: one >"]);
    cluster.run(None);
    assert_eq!(cluster.phase_of("c"), "Failed");
    assert_eq!(
        cluster.error_of("c"),
        "init/AmbiguousPredecessors: the data \"one\", which is imported, is exported by several installations: a, b; \
         only one may export it"
    );
    // `installations.md` 4.3: the later Installation does not take over the object of the earlier
    // one.
    let (one, other) = (cluster.phase_of("a"), cluster.phase_of("b"));
    assert!((one == "Succeeded") != (other == "Succeeded"), "{one} {other}");
}

/// `installations.md` 8.2, case I-131: an Installation stays while others import from it, unless a
/// user overrides that.
#[test]
fn a_deletion_waits_for_successors() {
    let mut cluster = landscape(&["a: > one", "b: one >"]);
    cluster.run(None);
    cluster.delete_one("a");
    cluster.run(None);
    assert_eq!(cluster.phase_of("a"), "InitDelete");
    assert_eq!(
        cluster.error_of("a"),
        "CheckSuccessorSibling/SiblingImport: a sibling still imports some of the exports: b"
    );
    assert!(cluster.data("one").is_some());
    cluster.delete_one("b");
    cluster.run(None);
    assert!(cluster.installations.is_empty(), "{}", phases(&cluster));

    let mut cluster = landscape(&["a: > one", "b: one >"]);
    cluster.run(None);
    cluster.annotate_one("a", "landscaper.gardener.cloud/delete-ignore-successors", "true");
    cluster.delete_one("a");
    cluster.run(None);
    assert_eq!(phases(&cluster), "b=Succeeded ");
}

/// `installations.md` 5.1: declared exports are trusted, which saves work and decides about the
/// order.
#[test]
fn promises_save_work_and_order() {
    let mut careless = root("b: one > two");
    careless["spec"]["optimization"] = json!({"hasNoSiblingImports": true});
    let mut cluster = landscape(&["a: > one"]);
    cluster.apply(careless);
    cluster.run(None);
    assert_eq!(phases(&cluster), "a=Succeeded b=Succeeded ");
    let mut silent = root("a: > one");
    silent["spec"]["optimization"] = json!({"hasNoSiblingExports": true});
    let mut cluster = Cluster::new(silent);
    cluster.apply(root("b: one >"));
    cluster.run(None);
    cluster.delete_one("a");
    cluster.run(None);
    assert_eq!(phases(&cluster), "b=Succeeded ");
}

/// The process dies after each single write in turn. All Installations end as without the crash.
#[test]
fn every_crash_ends_the_same() {
    let life = |death: Option<usize>| {
        let mut cluster = landscape(&["a: two >", "b: one > two", "c: > one"]);
        cluster.run(death);
        assert_eq!(phases(&cluster), "a=Succeeded b=Succeeded c=Succeeded ", "{death:?}");
        (cluster.dump(), cluster.log.len())
    };
    let (end, writes) = life(None);
    for death in 0..writes {
        assert_eq!(life(Some(death)).0, end, "killed after write {death}");
    }
}
