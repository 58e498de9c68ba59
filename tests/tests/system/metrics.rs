use std::collections::BTreeSet;

use anyhow::Result;
use groundwork_tests::{ALL, System, workspace};

/// Prefix of the metrics that only a package store has.
const OF_STORE: &str = "groundwork_package_";

/// Checks that the page about metrics lists exactly the metrics of the services, with their types.
pub(crate) async fn are_documented(system: &System) -> Result<()> {
    let is_asked_for = |name: &str| !name.starts_with(OF_STORE);
    assert_eq!(documented(is_asked_for)?, served(system, is_asked_for).await?);
    Ok(())
}

/// Checks the same for the metrics of a package store in use.
pub(crate) async fn of_the_store_are_documented(system: &System) -> Result<()> {
    let is_asked_for = |name: &str| name.starts_with(OF_STORE);
    assert_eq!(documented(is_asked_for)?, served(system, is_asked_for).await?);
    Ok(())
}

type Names = BTreeSet<(String, String)>;

async fn served(system: &System, is_asked_for: impl Fn(&str) -> bool) -> Result<Names> {
    let mut served = BTreeSet::new();
    for service in ALL {
        let (_, metrics) = system.admin(service, "/metrics").await?;
        for line in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap_or((line, ""));
            let suffix = if kind == "counter" { "_total" } else { "" };
            served.insert((format!("{name}{suffix}"), kind.to_owned()));
        }
    }
    served.retain(|(name, _)| is_asked_for(name));
    Ok(served)
}

fn documented(is_asked_for: impl Fn(&str) -> bool) -> Result<Names> {
    let page = std::fs::read_to_string(workspace().join("docs/metrics.md"))?;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| {
        let (name, rest) = row.split_once("` | ")?;
        Some((name.to_owned(), rest.split(" | ").next()?.to_owned()))
    });
    Ok(cells.filter(|(name, _)| is_asked_for(name)).collect())
}
