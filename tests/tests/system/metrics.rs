use std::collections::BTreeSet;

use anyhow::Result;
use groundwork_tests::{ALL, System, workspace};

/// The page about metrics names those that services have, with their types, and no others.
pub(crate) async fn are_documented(system: &System) -> Result<()> {
    let mut served = BTreeSet::new();
    for service in ALL {
        let (_, metrics) = system.admin(service, "/metrics").await?;
        for line in metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
            let (name, kind) = line.split_once(' ').unwrap_or((line, ""));
            let suffix = if kind == "counter" { "_total" } else { "" };
            served.insert((format!("{name}{suffix}"), kind.to_owned()));
        }
    }
    let page = std::fs::read_to_string(workspace().join("docs/metrics.md"))?;
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let cells = rows.filter_map(|row| {
        let (name, rest) = row.split_once("` | ")?;
        Some((name.to_owned(), rest.split(" | ").next()?.to_owned()))
    });
    assert_eq!(cells.collect::<BTreeSet<_>>(), served);
    Ok(())
}
