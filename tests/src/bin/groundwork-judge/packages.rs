//! Merges of packages, one per line.

use anyhow::Result;
use groundwork_krm::{Merged, Strategy, Versions};
use serde_json::{Map, Value, json};

use crate::answer::{Failure, Output, answer, files};
use crate::lines::answer_lines;

pub(crate) fn merge() -> Result<()> {
    answer_lines(|line| answer(line, merge_line))
}

fn merge_line(members: &mut Map<String, Value>) -> Result<Output, Failure> {
    let strategy = match members.remove("strategy") {
        None => String::from("resource-merge"),
        Some(Value::String(strategy)) => strategy,
        Some(_) => return Err(Failure::input("strategy must be a string")),
    };
    let mut package = |member: &str| files(members, member).map(Option::unwrap_or_default);
    let (original, updated, local) = (package("original")?, package("updated")?, package("local")?);
    let failed = |error: groundwork_krm::MergeError| Failure::new("UpgradeFailed", error.to_string());
    let strategy: Strategy = strategy.parse().map_err(failed)?;
    let Merged { files, warnings } =
        groundwork_krm::merge(strategy, Versions::new(&original, &updated, &local)).map_err(failed)?;
    let warnings = warnings.into_iter().map(|(path, warning)| format!("{path}: {warning}")).collect();
    Ok(Output { value: json!({"files": files}), warnings })
}
