use serde_json::{Value, json};

use super::*;

/// Returns the work for an item in its second job, after generation 3 was observed in the first
/// job.
fn second_job(spec: &Value, phase: &str, generation: u8, metadata: &Value) -> Work {
    let mut item = json!({
        "metadata": {"name": "item", "generation": generation},
        "spec": spec,
        "status": {
            "phase": phase, "observedGeneration": 3, "jobID": "second", "jobIDFinished": "first",
            "transitionTimes": {"finishedTime": "2026-01-01T00:00:00Z"},
        },
    });
    item["spec"]["type"] = json!("landscaper.gardener.cloud/mock");
    if let Some(deleted) = metadata.get("deletionTimestamp") {
        item["metadata"]["deletionTimestamp"] = deleted.clone();
    }
    let item: DeployItem = serde_json::from_value(item).unwrap();
    work_of(&item, &DeployerInformation::default(), &Time("2026-02-02T00:00:00Z".parse().unwrap()))
}

/// Case B-71: only an item that succeeded, has not changed since and is not being deleted is left
/// alone.
#[test]
fn unchanged_items_are_left_alone_where_they_say_so() {
    let (flag, nothing) = (json!({"updateOnChangeOnly": true}), json!({}));
    let deleted = json!({"deletionTimestamp": "2026-02-01T00:00:00Z"});
    for (spec, before, generation, metadata, is_left_alone) in [
        (&flag, "Succeeded", 3, &nothing, true),
        (&flag, "Succeeded", 4, &nothing, false),
        (&flag, "Failed", 3, &nothing, false),
        (&flag, "Succeeded", 3, &deleted, false),
        (&nothing, "Succeeded", 3, &nothing, false),
        (&json!({"updateOnChangeOnly": false}), "Succeeded", 3, &nothing, false),
    ] {
        let case = format!("{spec} {before} {generation} {metadata}");
        let Work::PickUp { item, is_done } = second_job(spec, before, generation, metadata) else {
            panic!("{case}: the item waits for its deployer");
        };
        assert_eq!(is_done, is_left_alone, "{case}");
        let status = item.status.unwrap();
        let finished = if is_left_alone { "second" } else { "first" };
        assert_eq!(status.job_id_finished.as_deref(), Some(finished), "{case}");
        let phase = match (is_left_alone, metadata == &deleted) {
            (true, _) => Phase::Succeeded.as_str(),
            (false, true) => Phase::InitDelete.as_str(),
            (false, false) => Phase::Init.as_str(),
        };
        assert_eq!(status.phase.as_deref(), Some(phase), "{case}");
        assert_eq!(status.observed_generation, i64::from(generation), "{case}");
    }
}

/// The condition appears with the first finding and follows later findings. The next job removes
/// it, unless that job leaves the item alone.
#[test]
fn drift_is_told_until_a_job_ends_it() {
    let now = Time("2026-02-02T00:00:00Z".parse().unwrap());
    let status = json!({"phase": "Succeeded", "jobID": "a", "jobIDFinished": "a", "observedGeneration": 1});
    let item =
        json!({"metadata": {"name": "item", "generation": 1}, "spec": {"type": "t"}, "status": status});
    let item: DeployItem = serde_json::from_value(item).unwrap();
    assert!(is_at_rest(&item));
    assert_eq!(with_drift(&item, &Drifting::None, &now), None, "nobody has changed anything");
    let drifted = with_drift(&item, &Drifting::Drifted("a field".into()), &now).unwrap();
    assert_eq!(drift_of(&drifted), Some("a field"));
    assert_eq!(with_drift(&drifted, &Drifting::Drifted("a field".into()), &now), None, "it is told");
    let unknown = with_drift(&drifted, &Drifting::Unknown("away".into()), &now).unwrap();
    assert_eq!(drift_of(&unknown), Some("away"));
    let over = with_drift(&unknown, &Drifting::None, &now).unwrap();
    assert_eq!((drift_of(&over), with_drift(&over, &Drifting::None, &now)), (None, None));
    let repaired = with_drift(&over, &Drifting::Repaired("brought back".into()), &now).unwrap();
    assert_eq!(with_drift(&repaired, &Drifting::None, &now), None, "what was repaired stays told");

    for (is_left_alone, kept) in [(false, None), (true, Some("a field"))] {
        let mut next = drifted.clone();
        next.spec.update_on_change_only = Some(is_left_alone);
        next.status.as_mut().unwrap().job_id = Some("b".into());
        assert!(!is_at_rest(&next));
        let Work::PickUp { item, .. } = work_of(&next, &DeployerInformation::default(), &now) else {
            panic!("the item waits for its deployer");
        };
        assert_eq!(drift_of(&item), kept);
    }
}

/// `installations.md` 7.7: a condition shows the object that the deployer waits for, and disappears
/// when the wait ends. A change of its words alone causes no write.
#[test]
fn waiting_is_told_while_it_lasts() {
    let time = |second: u8| Time(format!("2026-01-01T00:00:0{second}Z").parse().unwrap());
    let object = json!({"metadata": {"name": "item"}, "spec": {"type": "a"},
        "status": {"phase": "Progressing", "jobID": "j", "observedGeneration": 1}});
    let mut item: DeployItem = serde_json::from_value(object).unwrap();
    let before = item.clone();
    tell_waiting(&mut item, None, false, &time(0));
    assert_eq!(item, before);
    let told = |item: &DeployItem| {
        waiting_of(item).map(|told| (told.message.clone(), told.last_transition_time.clone()))
    };
    tell_waiting(&mut item, Some("1 of 2"), false, &time(1));
    assert_eq!(told(&item), Some(("1 of 2".to_owned(), Some(time(1)))));
    tell_waiting(&mut item, Some("2 of 2"), false, &time(2));
    assert_eq!(told(&item), Some(("1 of 2".to_owned(), Some(time(1)))), "nothing else is written");
    tell_waiting(&mut item, Some("2 of 2"), true, &time(3));
    assert_eq!(told(&item), Some(("2 of 2".to_owned(), Some(time(1)))));
    let mut other = item.clone();
    tell_waiting(&mut other, None, false, &time(4));
    assert_eq!(told(&other), None);
    let verdict = Verdict {
        phase: Phase::Succeeded.into(),
        error: None,
        provider_status: None,
        exports: Exports::Keep,
    };
    assert_eq!(told(&conclude(&item, verdict, &time(5))), None, "the job is over");
}
