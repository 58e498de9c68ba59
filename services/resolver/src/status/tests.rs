use groundwork_component::Substitution;
use serde_json::{Value, json};

use super::*;

const EARLIER: &str = "2026-01-01T00:00:01Z";
const NOW: &str = "2026-01-01T00:00:02Z";

fn installation(status: &Value) -> Installation {
    let object = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {"name": "server", "namespace": "team", "generation": 3, "resourceVersion": "7", "uid": "u"},
        "spec": {"blueprint": {}}, "status": status,
    });
    serde_json::from_value(object).unwrap()
}

fn reference(context: &str, version: &str) -> Reference {
    Reference {
        repository: RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": context})),
        name: "shop".to_owned(),
        version: version.to_owned(),
    }
}

fn shown(context: &str, version: &str) -> Value {
    json!({"repositoryContext": {"type": "ociRegistry", "baseUrl": context}, "componentName": "shop", "version": version})
}

/// Returns a resolution with the reference `effective` and this change of the condition.
fn resolution(effective: Option<Reference>, condition: OverwriteChange) -> Resolution {
    let subject = crate::resolution_inputs::ResolutionInputs::of_test(installation(&json!({})));
    let reference =
        effective.map(|effective| Substitution { original: reference("R1", "1"), effective, matched: true });
    let mut resolution = subject.resolve();
    (resolution.reference, resolution.condition, resolution.error) = (reference, condition, None);
    resolution
}

fn overwritten(message: &str) -> OverwriteChange {
    OverwriteChange::Set(ConditionUpdate::new(OVERWRITE_CONDITION, true, "FoundOverwrite", message))
}

fn condition(type_name: &str, status: &str, reason: &str, message: &str, times: [&str; 2]) -> Value {
    json!({
        "type": type_name, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": times[0], "lastUpdateTime": times[1],
    })
}

fn outdated(status: &str, reason: &str, message: &str, generation: i64, times: [&str; 2]) -> Value {
    let mut value = condition(OUTDATED_CONDITION, status, reason, message, times);
    value["observedGeneration"] = json!(generation);
    value
}

const SAME: &str = "the next reconcile will use the versions of the last one";

fn part(statement: &Statement, status: &Value) -> Option<Value> {
    let now: Time = serde_json::from_value(json!(NOW)).unwrap();
    statement.part(&installation(status), &now)
}

#[test]
fn the_start_of_a_job_is_told_once() {
    let found = resolution(Some(reference("R2", "2")), overwritten("a\nb"));
    let statement = Statement::of_job(&installation(&json!({})), &found).unwrap();
    let both = |times| {
        json!([
            condition(OVERWRITE_CONDITION, "True", "FoundOverwrite", "a\nb", times),
            outdated("False", "UpToDate", SAME, 3, times),
        ])
    };
    let expected = json!({"conditions": both([NOW, NOW]), "componentReference": shown("R2", "2")});
    assert_eq!(part(&statement, &json!({})), Some(expected.clone()));
    // Conditions of other managers are left out.
    let ready = condition("Ready", "True", "r", "m", [EARLIER, EARLIER]);
    assert_eq!(part(&statement, &json!({"conditions": [ready]})), Some(expected));
    // A second job with the same result writes nothing, and the times stay.
    let written = json!({"conditions": both([EARLIER, EARLIER]), "componentReference": shown("R2", "2")});
    assert_eq!(part(&statement, &written), None);
}

#[test]
fn times_move_with_what_they_are_about() {
    let found = resolution(Some(reference("R2", "2")), overwritten("new"));
    let statement = Statement::of_job(&installation(&json!({})), &found).unwrap();
    let current = json!({"conditions": [
        condition(OVERWRITE_CONDITION, "True", "FoundOverwrite", "old", [EARLIER, EARLIER]),
        outdated("True", "OverwriteChanged", "m", 2, [EARLIER, EARLIER]),
    ]});
    let expected = json!([
        condition(OVERWRITE_CONDITION, "True", "FoundOverwrite", "new", [EARLIER, NOW]),
        outdated("False", "UpToDate", SAME, 3, [NOW, NOW]),
    ]);
    assert_eq!(part(&statement, &current).unwrap()["conditions"], expected);
}

/// D-3, and an Installation whose component was removed (`components.md` 11, item 4).
#[test]
fn what_no_longer_holds_is_left_out() {
    let old = condition(OVERWRITE_CONDITION, "True", "FoundOverwrite", "m", [EARLIER, EARLIER]);
    let current = json!({
        "conditions": [old, outdated("False", "UpToDate", SAME, 3, [EARLIER, EARLIER])],
        "componentReference": shown("R1", "1"),
    });
    let detached = resolution(Some(reference("R1", "1")), OverwriteChange::Remove);
    let statement = Statement::of_job(&installation(&json!({})), &detached).unwrap();
    let expected = json!([outdated("False", "UpToDate", SAME, 3, [EARLIER, EARLIER])]);
    assert_eq!(part(&statement, &current).unwrap()["conditions"], expected);
    // Server-side apply keeps a field that another manager owns too, so it is removed by a second
    // write.
    let left = statement.without_leftovers(&installation(&current)).unwrap();
    let left = serde_json::to_value(&left.status).unwrap();
    assert_eq!((&left["conditions"], &left["componentReference"]), (&expected, &shown("R1", "1")));
    assert_eq!(statement.without_leftovers(&installation(&left)), None);

    let without =
        Statement::of_job(&installation(&json!({})), &resolution(None, OverwriteChange::Remove)).unwrap();
    assert_eq!(part(&without, &current), Some(json!({})));
    assert_eq!(
        part(&without, &json!({"conditions": [condition("Ready", "True", "r", "m", [EARLIER, EARLIER])]})),
        None
    );
    let cleaned = without.without_leftovers(&installation(&current)).unwrap().status.unwrap();
    assert!(cleaned.conditions.is_empty() && cleaned.component_reference.is_none());
}

/// E1 and E4: the earlier condition must stay, so the status is not applied at all.
#[test]
fn what_could_not_be_evaluated_is_not_told() {
    let failed = resolution(None, OverwriteChange::Keep);
    assert_eq!(Statement::of_job(&installation(&json!({})), &failed), None);
}

#[test]
fn between_jobs_the_next_one_is_compared_with_the_last() {
    let old = condition(OVERWRITE_CONDITION, "True", "FoundOverwrite", "m", [EARLIER, EARLIER]);
    let current = json!({
        "jobID": "j1", "jobIDFinished": "j1",
        "conditions": [old, outdated("False", "UpToDate", SAME, 3, [EARLIER, EARLIER])],
        "componentReference": shown("R1", "1"),
    });
    let next =
        |version: &str, context: &str| resolution(Some(reference(context, version)), OverwriteChange::Remove);
    let told = |next: &Resolution| {
        let statement = Statement::between_jobs(&installation(&current), next, &NextClosure::Alone).unwrap();
        part(&statement, &current)
    };
    assert_eq!(told(&next("1", "R1")), None);
    let message = "the next reconcile will use shop:2 from R2 instead of shop:1 from R1";
    let expected = json!({
        // The result of the last job stays, although the next job would remove it.
        "conditions": [old, outdated("True", "OverwriteChanged", message, 3, [NOW, NOW])],
        "componentReference": shown("R1", "1"),
    });
    assert_eq!(told(&next("2", "R2")), Some(expected));
}

#[test]
fn between_jobs_there_must_have_been_one() {
    let next = resolution(Some(reference("R2", "2")), OverwriteChange::Remove);
    let used = shown("R1", "1");
    for (status, why) in [
        (json!({}), "no job"),
        (json!({"componentReference": used}), "no job"),
        (json!({"jobID": "j1", "componentReference": used}), "the first job runs"),
        (json!({"jobID": "j2", "jobIDFinished": "j1", "componentReference": used}), "a job runs"),
        (json!({"jobID": "j1", "jobIDFinished": "j1"}), "the last job used no component"),
    ] {
        assert_eq!(
            Statement::between_jobs(&installation(&status), &next, &NextClosure::Alone),
            None,
            "{why}"
        );
    }
    let idle = json!({"jobID": "j1", "jobIDFinished": "j1", "componentReference": used});
    let failing = resolution(None, OverwriteChange::Keep);
    assert_eq!(Statement::between_jobs(&installation(&idle), &failing, &NextClosure::Alone), None);
}

/// Changes of the closure count too, as far as the closure is known.
#[test]
fn references_that_lead_elsewhere() {
    let status = json!({
        "jobID": "j", "jobIDFinished": "j", "componentReference": shown("R1", "1"), "componentClosure": "abc",
    });
    let subject = installation(&status);
    let found = resolution(Some(reference("R1", "1")), OverwriteChange::Keep);
    let between = |closure: &NextClosure| Statement::between_jobs(&subject, &found, closure);
    let told = |closure: NextClosure| part(&between(&closure).unwrap(), &status).unwrap();
    let other = told(NextClosure::Known(Some("xyz".to_owned())));
    let condition = outdated("True", "OverwriteChanged", REFERENCES_OUTDATED, 3, [NOW, NOW]);
    assert_eq!(other["conditions"], json!([condition]));
    // The apply repeats the fields of the last job, since server-side apply removes fields that are
    // left out.
    assert_eq!(
        (&other["componentClosure"], &other["componentReference"]),
        (&json!("abc"), &shown("R1", "1"))
    );
    let same = told(NextClosure::Known(Some("abc".to_owned())));
    assert_eq!(same["conditions"], json!([outdated("False", "UpToDate", SAME, 3, [NOW, NOW])]));
    // If a repository does not answer, its closure is unknown and no condition is written.
    assert_eq!(between(&NextClosure::Unknown), None);
    let elsewhere = resolution(Some(reference("R2", "1")), OverwriteChange::Keep);
    assert!(Statement::between_jobs(&subject, &elsewhere, &NextClosure::Unknown).is_some());

    let ended = Statement::of_closure(&subject, None).unwrap();
    assert_eq!(ended.without_leftovers(&subject).unwrap().status.unwrap().component_closure, None);
}
