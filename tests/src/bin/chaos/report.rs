//! Report on a failed round: the unfinished objects with their journal and stream entries.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use groundwork_bus::{Bus, BusError, Change, JournalPart, NatsOptions, ObjectId, Record};
use groundwork_tests::System;
use serde_json::{Value, json};

use crate::oracle::Problem;

/// Maximum number of problems in a report.
const PROBLEMS_TOLD: usize = 40;
/// Maximum number of objects whose journal and stream entries are printed.
const OBJECTS_TOLD: usize = 8;
/// Number of most recent journal entries printed per object.
const ENTRIES_TOLD: usize = 20;
/// Number of journal entries read per object.
const ENTRIES_READ: usize = 1000;
/// Timeout for NATS to answer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(20);

/// Collects all information that helps to find the cause.
pub(crate) async fn report(system: &System, problems: &[Problem]) -> String {
    let mut text = String::new();
    for problem in problems.iter().take(PROBLEMS_TOLD) {
        let _ = writeln!(text, "  {problem}");
    }
    let objects: BTreeSet<&ObjectId> = problems.iter().map(|problem| &problem.object).collect();
    for object in objects.iter().take(OBJECTS_TOLD) {
        let _ = writeln!(text, "{object}: {}", live(system, object).await);
    }
    if let Some(namespace) = problems.first().and_then(|problem| problem.object.namespace.as_deref()) {
        text.push_str(&jobs(system, namespace).await);
    }
    match tokio::time::timeout(ANSWERED_WITHIN, told_by_bus(system, &objects)).await {
        Ok(Ok(told)) => text.push_str(&told),
        Ok(Err(error)) => drop(writeln!(text, "the bus: {error}")),
        Err(_) => text.push_str("NATS does not answer\n"),
    }
    text.push_str(&system.logs());
    text
}

/// Formats an object as the API server returns it, without its spec.
async fn live(system: &System, object: &ObjectId) -> String {
    let kind = object.kind.to_string();
    let namespace = object.namespace.as_deref().unwrap_or_default();
    match system.kubectl(&["get", &kind, &object.name, "--namespace", namespace, "--output", "json"]).await {
        Ok(text) => {
            let mut live: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
            live["metadata"]["managedFields"].take();
            json!({"metadata": live["metadata"], "status": live["status"]}).to_string()
        }
        Err(error) => format!("{error:#}"),
    }
}

/// Formats one line for each object of a namespace that is being deleted, or whose job has not
/// succeeded.
async fn jobs(system: &System, namespace: &str) -> String {
    let kinds = "installations,executions,deployitems";
    let listed = system.kubectl(&["get", kinds, "--namespace", namespace, "--output", "json"]).await;
    let listed = match listed {
        Ok(text) => serde_json::from_str::<Value>(&text).unwrap_or_default(),
        Err(error) => return format!("{error:#}\n"),
    };
    let line = |object: &Value| {
        let (metadata, status) = (&object["metadata"], &object["status"]);
        let is_at_rest = status["jobID"] == status["jobIDFinished"] && status["phase"] == "Succeeded";
        let is_left = !metadata["deletionTimestamp"].is_null() || !is_at_rest;
        is_left.then(|| {
            let (kind, name) = (&object["kind"], &metadata["name"]);
            format!(
                "{kind} {name} {} job {} finished {} deleted {} finalizers {} version {}\n",
                status["phase"],
                status["jobID"],
                status["jobIDFinished"],
                metadata["deletionTimestamp"],
                metadata["finalizers"],
                metadata["resourceVersion"]
            )
        })
    };
    listed["items"].as_array().into_iter().flatten().filter_map(line).collect()
}

async fn told_by_bus(system: &System, objects: &BTreeSet<&ObjectId>) -> Result<String, BusError> {
    let bus = Bus::connect(NatsOptions::new(system.nats.url())).await?;
    let mut text = format!("the stream: {:?}\n", bus.status().await?);
    for object in objects.iter().take(OBJECTS_TOLD) {
        let stored = match bus.last(object).await? {
            Some(stored) => stream_line(&stored.record, stored.sequence),
            None => "nothing".to_owned(),
        };
        let _ = writeln!(text, "{object}\n  on the stream: {stored}");
        let entries = bus.read_journal(&JournalPart::Key((*object).clone()), ENTRIES_READ).await?;
        for entry in &entries[entries.len().saturating_sub(ENTRIES_TOLD)..] {
            let (time, service, reason) = (entry.time, &entry.service, &entry.reason);
            let about = format!("{} {}", entry.about.kind, entry.about.name);
            let _ =
                writeln!(text, "  {time} {service} {} {reason} {about}: {}", entry.what.as_str(), entry.text);
        }
    }
    Ok(text)
}

fn stream_line(record: &Record, sequence: u64) -> String {
    let Record::Object(event) = record else { return format!("message {sequence} is about no object") };
    let state = match &event.change {
        Change::Applied(_) => "alive",
        Change::Deleted(_) => "deleted",
    };
    format!("{state} in version {} by message {sequence}", event.change.resource_version())
}
