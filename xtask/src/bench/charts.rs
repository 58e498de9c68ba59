//! `cargo xtask bench charts`: compares our rendering of charts with Helm's library.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::{Times, build_go, measure, print_ratios};
use crate::commands;

/// Number of subcharts of the large chart, and of copies of the templates in each of its charts.
const SUBCHARTS: usize = 4;
const COPIES: usize = 2;
/// Size in bytes of the definitions in the chart that consists mostly of definitions.
const DEFINITIONS: usize = 300_000;

type Files = BTreeMap<String, String>;

/// Runs both sides in turns, and prints how many times faster ours is.
pub(crate) fn run(workspace: &Path, rounds: usize) -> Result<()> {
    let arguments =
        ["build", "--release", "--package", "groundwork-helm", "--example", "bench-charts", "--locked"];
    commands::run(workspace, "cargo", &arguments)?;
    let ours = commands::target_folder(workspace)?.join("release/examples/bench-charts");
    let folder = tempfile::tempdir()?;
    let theirs = folder.path().join("bench");
    build_go(&workspace.join("benches/helm"), &theirs)?;
    let inputs = folder.path().join("inputs");
    fs::create_dir(&inputs)?;
    let web = read(&workspace.join("crates/helm/tests/data/charts/web"), "")?;
    for (name, files) in [("small", web.clone()), ("large", large(&web)), ("definitions", definitions(&web))]
    {
        fs::write(inputs.join(format!("{name}.json")), serde_json::to_string(&files)?)?;
    }
    let (mut our_times, mut their_times) = (Times::new(), Times::new());
    for _ in 0..rounds.max(1) {
        measure(&theirs, &inputs, &mut their_times)?;
        measure(&ours, &inputs, &mut our_times)?;
    }
    print_ratios(&our_times, &their_times);
    Ok(())
}

/// Reads the chart of the tests, without the files that its `.helmignore` names.
fn read(folder: &Path, prefix: &str) -> Result<Files> {
    let mut files = Files::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let entry = entry?;
        let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files.extend(read(&entry.path(), &format!("{path}/"))?);
        } else if !path.ends_with(".bak") {
            files.insert(path, fs::read_to_string(entry.path())?);
        }
    }
    Ok(files)
}

/// Returns a chart with many templates in several subcharts.
fn large(web: &Files) -> Files {
    let mut files = web.clone();
    for chart in 0..SUBCHARTS {
        for (path, text) in web {
            let text = match path.as_str() {
                "Chart.yaml" => text.replace("name: web", &format!("name: web{chart}")),
                _ => text.replace("\"web.", &format!("\"web{chart}.")),
            };
            files.insert(format!("charts/web{chart}/{path}"), text);
        }
    }
    for (path, text) in files.clone() {
        if path.contains("templates/") && path.ends_with(".yaml") {
            for copy in 1..COPIES {
                files.insert(path.replace(".yaml", &format!("-{copy}.yaml")), text.clone());
            }
        }
    }
    files
}

/// Returns a chart with custom resource definitions, as files and as templates.
fn definitions(web: &Files) -> Files {
    let mut files = web.clone();
    let mut fields = String::new();
    while fields.len() < DEFINITIONS / 10 {
        let number = fields.len();
        fields.push_str(&format!(
            "                field{number}:\n                  description: Says something about {number}, at length, as they do.\n                  type: string\n"
        ));
    }
    for file in 0..5 {
        let head = format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: things{file}.example.org\nspec:\n  \
             versions:\n    - name: v1\n      schema:\n        openAPIV3Schema:\n          properties:\n            spec:\n              properties:\n"
        );
        files.insert(format!("crds/{file}.yaml"), format!("{head}{fields}"));
        files.insert(format!("templates/crd-{file}.yaml"), format!("{head}{fields}"));
    }
    files
}
