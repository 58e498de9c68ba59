//! Compares the table of floors in ARCHITECTURE.md with `cargo metadata`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::workspace;

/// Crates that an engine may not depend on, even indirectly: runtimes and clients.
const OUTSIDE: &[&str] = &["async-nats", "kube", "kube-client", "tokio", "tonic"];

/// Row of the table.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    floor: usize,
    /// Folder of a crate, or `services/*` for all crates in a folder.
    folder: String,
    is_engine: bool,
}

/// Returns the rows of the first table whose heading begins with `floor`.
fn rows(text: &str) -> Result<Vec<Row>> {
    let table = text.lines().skip_while(|line| !line.starts_with("| floor |"));
    let lines = table.skip(2).take_while(|line| line.starts_with('|'));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            ensure!(cells.len() > 4, "too few cells: {line}");
            let floor = cells[1].parse().with_context(|| format!("no number of a floor: {line}"))?;
            let is_engine = match cells[3] {
                "yes" => true,
                "" => false,
                other => anyhow::bail!("{other:?} is neither yes nor nothing: {line}"),
            };
            Ok(Row { floor, folder: cells[2].trim_matches('`').to_owned(), is_engine })
        })
        .collect()
}

/// Crate of the workspace.
#[derive(Debug, Default)]
struct Member {
    folder: String,
    /// Direct dependencies in the workspace, with true for those of tests only.
    needs: BTreeMap<String, bool>,
    /// Names of all crates that it depends on, without those of tests.
    reaches: BTreeSet<String>,
}

/// Returns the crates of the workspace by name.
fn members(workspace: &Path) -> Result<BTreeMap<String, Member>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--all-features"])
        .current_dir(workspace)
        .output()
        .context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let graph = Graph::new(&serde_json::from_slice(&output.stdout)?)?;
    let folder = |manifest: &str| {
        let folder =
            Path::new(manifest).parent()?.strip_prefix(workspace.canonicalize().ok()?).ok()?.to_owned();
        Some(folder.display().to_string())
    };
    let own = graph.packages.iter().filter(|(_, package)| package.is_member);
    own.map(|(id, package)| {
        let folder = folder(&package.manifest).with_context(|| format!("{} is elsewhere", package.name))?;
        Ok((package.name.clone(), Member { folder, needs: graph.needs(id), reaches: graph.reaches(id) }))
    })
    .collect()
}

/// Package and its direct dependencies.
struct Package {
    name: String,
    manifest: String,
    is_member: bool,
    needs: Vec<Edge>,
}

struct Edge {
    to: String,
    is_for_tests: bool,
}

/// All packages by id.
struct Graph {
    packages: BTreeMap<String, Package>,
}

impl Graph {
    fn new(metadata: &Value) -> Result<Graph> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let list = |value: &Value| value.as_array().cloned().context("no list");
        let members: BTreeSet<String> = list(&metadata["workspace_members"])?.iter().map(text).collect();
        let mut needs: BTreeMap<String, Vec<Edge>> = BTreeMap::new();
        for node in list(&metadata["resolve"]["nodes"])? {
            let edges = list(&node["deps"])?.into_iter().map(|dependency| {
                let kinds = list(&dependency["dep_kinds"])?;
                let is_for_tests = kinds.iter().all(|kind| kind["kind"] == "dev");
                Ok(Edge { to: text(&dependency["pkg"]), is_for_tests })
            });
            needs.insert(text(&node["id"]), edges.collect::<Result<_>>()?);
        }
        let packages = list(&metadata["packages"])?.into_iter().map(|package| {
            let id = text(&package["id"]);
            let (name, manifest) = (text(&package["name"]), text(&package["manifest_path"]));
            let is_member = members.contains(&id);
            let needs = needs.remove(&id).unwrap_or_default();
            (id, Package { name, manifest, is_member, needs })
        });
        Ok(Graph { packages: packages.collect() })
    }

    fn needs(&self, id: &str) -> BTreeMap<String, bool> {
        let edges = self.packages[id].needs.iter();
        let own = edges.filter_map(|edge| {
            let package = &self.packages[&edge.to];
            package.is_member.then(|| (package.name.clone(), edge.is_for_tests))
        });
        own.collect()
    }

    fn reaches(&self, id: &str) -> BTreeSet<String> {
        let mut seen = BTreeSet::new();
        let mut ahead = vec![id];
        while let Some(id) = ahead.pop() {
            for edge in self.packages[id].needs.iter().filter(|edge| !edge.is_for_tests) {
                if seen.insert(edge.to.as_str()) {
                    ahead.push(&edge.to);
                }
            }
        }
        seen.into_iter().map(|id| self.packages[id].name.clone()).collect()
    }
}

/// Returns the row of a crate.
fn row<'a>(rows: &'a [Row], folder: &str) -> Option<&'a Row> {
    let is_in = |row: &&Row| match row.folder.strip_suffix("/*") {
        Some(parent) => folder.rsplit_once('/').is_some_and(|(of, _)| of == parent),
        None => row.folder == folder,
    };
    rows.iter().find(is_in)
}

/// Returns all differences between the table and the workspace.
fn problems(rows: &[Row], members: &BTreeMap<String, Member>) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut lowest: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, member) in members {
        let Some(own) = row(rows, &member.folder) else {
            wrong.push(format!("{} is in no row", member.folder));
            continue;
        };
        let least = lowest.entry(&own.folder).or_default();
        for (needed, is_for_tests) in &member.needs {
            let Some(other) = members.get(needed).and_then(|other| row(rows, &other.folder)) else {
                continue;
            };
            let (own_floor, floor) = (own.floor, other.floor);
            match *is_for_tests {
                true if floor > own_floor => {
                    wrong.push(format!("{name} on floor {own_floor} tests with {needed} on {floor}"));
                }
                false if floor >= own_floor => {
                    wrong.push(format!("{name} on floor {own_floor} depends on {needed} on {floor}"));
                }
                true => {}
                false => *least = (*least).max(floor + 1),
            }
        }
        for outside in OUTSIDE.iter().filter(|outside| own.is_engine && member.reaches.contains(**outside)) {
            wrong.push(format!("{name} is an engine and reaches {outside}"));
        }
    }
    for row in rows {
        match lowest.get(row.folder.as_str()) {
            None => wrong.push(format!("there is no crate {}", row.folder)),
            Some(least) if *least < row.floor => {
                wrong.push(format!("{} is on floor {} and belongs on {least}", row.folder, row.floor));
            }
            Some(_) => {}
        }
    }
    wrong
}

#[test]
fn the_table_of_floors_is_true() -> Result<()> {
    let rows = rows(&fs::read_to_string(workspace().join("ARCHITECTURE.md"))?)?;
    let wrong = problems(&rows, &members(workspace())?);
    assert!(wrong.is_empty(), "ARCHITECTURE.md, the table of floors:\n{}", wrong.join("\n"));
    assert!(rows.iter().filter(|row| row.is_engine).count() > 5);
    Ok(())
}

#[test]
fn what_a_table_says_wrongly_is_found() -> Result<()> {
    let table = "| floor | crate | engine | what |\n|---|---|---|---|\n| 2 | `services/*` | | x |\n| 1 | `a` | yes | x |\n\
                 | 0 | `b` | | x |\n| 1 | `d` | | x |\n| 0 | `gone` | | x |\n\n| floor | other |\n";
    let rows = rows(table)?;
    assert_eq!(rows[1], Row { floor: 1, folder: "a".to_owned(), is_engine: true });
    let member = |folder: &str, needs: &[(&str, bool)], reaches: &[&str]| Member {
        folder: folder.to_owned(),
        needs: needs.iter().map(|(name, tests)| ((*name).to_owned(), *tests)).collect(),
        reaches: reaches.iter().map(|name| (*name).to_owned()).collect(),
    };
    let members = BTreeMap::from([
        ("a".to_owned(), member("a", &[("b", false)], &["b", "tokio"])),
        ("b".to_owned(), member("b", &[("a", true), ("d", false)], &["kube"])),
        ("c".to_owned(), member("c", &[], &[])),
        ("d".to_owned(), member("d", &[], &[])),
        ("s".to_owned(), member("services/s", &[("a", false)], &["tokio"])),
    ]);
    let expected = [
        "a is an engine and reaches tokio",
        "b on floor 0 tests with a on 1",
        "b on floor 0 depends on d on 1",
        "c is in no row",
        "d is on floor 1 and belongs on 0",
        "there is no crate gone",
    ];
    assert_eq!(problems(&rows, &members), expected);
    Ok(())
}
