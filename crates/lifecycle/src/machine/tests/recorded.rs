//! End states that were recorded with Landscaper: conditions, messages and codes.

use super::*;

fn condition(cluster: &Cluster, installation: &str, type_: &str) -> Option<(String, String)> {
    let status = cluster.installations[installation].status.as_ref()?;
    let found = status.conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((found.status.clone(), found.reason.clone()))
}

fn is(status: &str, reason: &str) -> Option<(String, String)> {
    Some((status.to_owned(), reason.to_owned()))
}

#[test]
fn conditions_without_exports_and_children() {
    let mut cluster = cluster(&["a"]);
    cluster.run(None);
    assert_eq!(condition(&cluster, "server", "CreateExports"), is("True", "DataObjectsCreated"));
    assert_eq!(condition(&cluster, "server", "EnsureSubInstallations"), is("True", "InstallationsInstalled"));
}

#[test]
fn a_job_that_fails_after_the_nested_installations() {
    let mut cluster = cluster(&["a"]);
    cluster.refuses = Some("Execution");
    cluster.run(None);
    assert_eq!(cluster.phase(), "Failed", "{}", cluster.told());
    assert_eq!(condition(&cluster, "server", "EnsureSubInstallations"), is("True", "InstallationsInstalled"));
}

#[test]
fn a_cycle_of_children_has_a_code_of_its_own() {
    let mut nested = nested::shop(&["a: b > a", "b: a > b"]);
    nested.run(None);
    assert!(
        nested.error().contains("the subinstallations have a cycle: a -{depends_on}-> b"),
        "{}",
        nested.error()
    );
    let error = nested.server().status.clone().unwrap().last_error.unwrap();
    assert_eq!(error.codes[..], ["ERR_CYCLIC_DEPENDENCIES".to_owned()]);
}

#[test]
fn interrupted_items_name_the_operation() {
    let mut cluster = cluster(&["a"]);
    cluster.has_no_deployer = true;
    cluster.run(None);
    cluster.annotate("landscaper.gardener.cloud/operation", "interrupt");
    cluster.run(None);
    let status = cluster.items.values().next().unwrap().status.clone().unwrap();
    for error in [status.first_error, status.last_error] {
        let error = error.unwrap();
        assert_eq!(
            (error.operation.as_str(), error.reason.as_str()),
            ("InterruptOperation", "InterruptOperation")
        );
    }
}

#[test]
fn messages_about_predecessors_name_landscapers_reason() {
    let mut nested = nested::shop(&["db: who > access", "web: access > url"]);
    nested.verdicts.insert("item".to_owned(), "Failed");
    nested.run(None);
    let web = nested.child("web").unwrap().metadata.name.clone().unwrap();
    let start = "init/AllPredecessorsSucceeded: Op: NotCompletedDependents - Reason: NotCompletedDependents - Message: ";
    assert!(nested.error_of(&web).starts_with(start), "{}", nested.told());
}

/// `blueprints.md` 8.3: the job succeeds, and the status names the exports until they have a value.
#[test]
fn exports_without_a_value_are_in_the_status() {
    let with = |declared: &str, exports: &str| {
        let blueprint = format!(
            "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\nexports:\n{declared}exportExecutions:\n\
             - {{name: e, type: GoTemplate, template: 'exports: {exports}'}}\n"
        );
        let mut installation = installation(&[], &json!({}));
        installation["spec"]["blueprint"]["inline"]["filesystem"]["blueprint.yaml"] = json!(blueprint);
        installation
    };
    let declared = "- {name: one, type: data, schema: {}}\n- {name: two, type: data, schema: {}}\n";
    let mut cluster = Cluster::new(with(declared, "{one: 1}"));
    cluster.run(None);
    assert_eq!(cluster.phase(), "Succeeded", "{}", cluster.told());
    assert_eq!(condition(&cluster, "server", "ValidateExport"), is("False", "ExportsWithoutValue"));
    let conditions = &cluster.server().status.as_ref().unwrap().conditions;
    let found = conditions.iter().find(|condition| condition.type_ == "ValidateExport").unwrap();
    assert!(found.message.ends_with(": two"), "{}", found.message);
    cluster.change_spec(with(declared, "{one: 1, two: 2}"));
    cluster.run(None);
    assert_eq!(condition(&cluster, "server", "ValidateExport"), None);
    cluster.change_spec(with(declared, "{}"));
    cluster.run(None);
    assert_eq!(condition(&cluster, "server", "ValidateExport"), is("False", "ExportsWithoutValue"));
    cluster.change_spec(installation(&["a"], &json!({})));
    cluster.run(None);
    assert_eq!(condition(&cluster, "server", "ValidateExport"), None);
}
