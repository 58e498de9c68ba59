//! Tests that all reasons of failed calls are defined in one place, and that the guide has advice
//! for each.

use std::collections::BTreeSet;
use std::fs;

use crate::workspace;

#[test]
fn the_guide_knows_every_reason() {
    let read = |path: &str| fs::read_to_string(workspace().join(path)).unwrap();
    let source = read("crates/proto/src/status.rs");
    let constants = source.lines().filter_map(|line| line.trim().strip_prefix("pub const "));
    let given: BTreeSet<&str> = constants
        .filter_map(|line| line.split_once(": &str = "))
        .map(|(name, _)| name)
        .filter(|name| *name != "DOMAIN")
        .collect();
    assert!(given.len() > 20, "{given:?}");

    let guide = read("docs/grpc.md");
    let (_, section) = guide.split_once("## When a call fails").unwrap();
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    let told: BTreeSet<&str> =
        rows.flat_map(|row| row.split('|').nth(2).unwrap().split('`').skip(1).step_by(2)).collect();
    assert_eq!(told, given);
}
