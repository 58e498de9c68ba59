//! `cargo xtask compose-check`: checks that compose.yaml and the Dockerfile name only things that
//! exist. Needs no Docker.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use groundwork_testkit::{Server, find};
use serde_json::Value;

use super::ports::{PortVariable, port_variables_of};
use super::{Model, PACKAGES, Service, entries, port_variables};
use crate::commands;

/// Variables of our programs that are not in a help text.
const STANDARD_VARIABLES: [&str; 2] = ["KUBECONFIG", "TMPDIR"];
const COMPLETED: &str = "service_completed_successfully";

/// Builds the programs and checks. Reports all problems.
pub(crate) fn run(workspace: &Path) -> Result<()> {
    commands::build_all(workspace, &["--quiet"])?;
    let model = Model::read(workspace)?;
    let with_packages = Model::with_packages(workspace)?;
    let mut problems = documented(workspace)?;
    let programs = commands::target_folder(workspace)?.join("debug");
    for model in [&model, &with_packages] {
        problems.extend(structure(model, workspace));
        problems.extend(dockerfile(model, workspace)?);
        for service in model.services() {
            problems.extend(arguments(service, &programs)?);
        }
    }
    problems.sort();
    problems.dedup();
    if !problems.is_empty() {
        bail!("{}", problems.join("\n"));
    }
    println!("{} services of compose files name only what exists", with_packages.services().count());
    Ok(())
}

/// Checks names within the file, and names of files of the workspace.
fn structure(model: &Model, workspace: &Path) -> Vec<String> {
    let mut problems = Vec::new();
    let names: BTreeSet<_> = model.services().map(|service| service.name).collect();
    let mut used: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut adopted = BTreeSet::new();
    for service in model.services() {
        let mut wrong = |problem: String| problems.push(format!("compose.yaml: {}: {problem}", service.name));
        for (field, defined) in [("networks", model.top("networks")), ("volumes", model.top("volumes"))] {
            for name in references(service, field) {
                if name.starts_with(['.', '/']) {
                    let is_made = name == "./.groundwork";
                    if !is_made && !workspace.join(name).exists() {
                        wrong(format!("{name} does not exist"));
                    }
                } else if defined.contains(&name) {
                    used.entry(field).or_default().insert(name);
                } else {
                    wrong(format!("{name} is not among {field}"));
                }
            }
        }
        for (other, condition) in entries(service.value.get("depends_on")) {
            if !names.contains(other) {
                wrong(format!("it depends on {other}, which does not exist"));
            }
            if condition["condition"] == COMPLETED {
                adopted.insert(other);
            }
        }
        for port in service.strings("ports") {
            if !port.starts_with("127.0.0.1:") {
                wrong(format!("port {port} is open to other machines"));
            }
        }
        if service.image().is_empty() {
            wrong("it has no image".to_owned());
        }
    }
    // `up --wait` treats a program that ends as a failure, unless another service waits for that
    // end.
    let ends = |service: &Service<'_>| service.is_default() && service.value.get("restart").is_none();
    for service in model.services().filter(ends) {
        if !adopted.contains(service.name) {
            problems.push(format!("compose.yaml: {} ends, and nothing waits for that", service.name));
        }
    }
    for field in ["networks", "volumes"] {
        let used = used.remove(field).unwrap_or_default();
        let idle = model.top(field).into_iter().filter(|name| !used.contains(name));
        problems.extend(idle.map(|name| format!("compose.yaml: {name} of {field} is not used")));
    }
    problems
}

/// Returns the names of networks or of volumes' sources.
fn references<'a>(service: Service<'a>, field: &str) -> Vec<&'a str> {
    let all = service.value[field].as_array().into_iter().flatten();
    let short =
        |text: &'a str| if field == "volumes" { text.split(':').next().unwrap_or(text) } else { text };
    all.filter_map(|value| match value {
        Value::String(text) => Some(short(text)),
        other => other["source"].as_str(),
    })
    .collect()
}

/// Checks that every port can be changed, and that the page says how.
fn documented(workspace: &Path) -> Result<Vec<String>> {
    let page =
        fs::read_to_string(workspace.join("docs/compose.md")).context("cannot read docs/compose.md")?;
    let mut ports = port_variables(workspace)?;
    ports.extend(port_variables_of(workspace, PACKAGES)?);
    ensure!(!ports.is_empty(), "compose.yaml publishes no port by a variable");
    let missing = ports.iter().filter(|PortVariable { name, default, .. }| {
        !page.lines().any(|line| line.contains(&format!("`{name}`")) && line.contains(&default.to_string()))
    });
    let told = |PortVariable { name, default, .. }: &PortVariable| {
        format!("docs/compose.md: {name} (port {default}) is missing")
    };
    Ok(missing.map(told).collect())
}

/// Checks targets and programs of the Dockerfile.
fn dockerfile(model: &Model, workspace: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(workspace.join("Dockerfile")).context("cannot read Dockerfile")?;
    let (programs, version) = built(workspace)?;
    let words: Vec<&str> =
        text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace).collect();
    let after = |mark: &str| {
        let pairs = words.windows(2).filter(|pair| pair[0] == mark);
        pairs.map(|pair| pair[1]).collect::<BTreeSet<_>>()
    };
    let mut problems = Vec::new();
    let built = after("--bin");
    for program in built.iter().filter(|program| !programs.contains(**program)) {
        problems.push(format!("Dockerfile: there is no program {program}"));
    }
    for program in
        words.iter().filter_map(|word| word.strip_prefix("/programs/")).filter(|name| !name.is_empty())
    {
        if !built.contains(program) {
            problems.push(format!("Dockerfile: {program} is not built"));
        }
    }
    let targets = after("AS");
    for service in model.services() {
        let Some(target) = service.target() else { continue };
        if !targets.contains(target) {
            problems.push(format!("compose.yaml: {}: the Dockerfile has no target {target}", service.name));
        }
        let expected = format!("groundwork/{target}:{version}");
        if service.image() != expected {
            problems.push(format!("compose.yaml: {}: the image is not {expected}", service.name));
        }
    }
    Ok(problems)
}

/// Returns the programs of the workspace, and its version.
fn built(workspace: &Path) -> Result<(BTreeSet<String>, String)> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1", "--locked"])
        .current_dir(workspace)
        .output()
        .context("cannot run `cargo metadata`")?;
    let metadata: Value =
        serde_json::from_slice(&output.stdout).context("`cargo metadata` printed no JSON")?;
    let (mut programs, mut version) = (BTreeSet::new(), String::new());
    for package in metadata["packages"].as_array().into_iter().flatten() {
        version = package["version"].as_str().unwrap_or_default().to_owned();
        for target in package["targets"].as_array().into_iter().flatten() {
            if target["kind"][0] == "bin" {
                programs.extend(target["name"].as_str().map(str::to_owned));
            }
        }
    }
    Ok((programs, version))
}

/// Checks that every argument of a service is in the help of its program.
fn arguments(service: Service<'_>, programs: &Path) -> Result<Vec<String>> {
    let mut words = service.strings("entrypoint");
    if !words.is_empty() {
        words.remove(0);
    }
    words.extend(service.strings("command"));
    let is_command =
        |word: &&&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-');
    let (program, subcommand) = match (service.program(), server(service.name)) {
        (Some(program), _) => {
            (programs.join(program), words.iter().take_while(is_command).copied().collect())
        }
        (None, Some(server)) => match find(server) {
            Ok(binary) => (binary.path, Vec::new()),
            Err(error) => {
                println!("skipped: arguments of {}, because {error}", service.name);
                return Ok(Vec::new());
            }
        },
        (None, None) => return Ok(Vec::new()),
    };
    let help = Command::new(&program).args(&subcommand).arg("--help").output();
    let help = help.with_context(|| format!("cannot run {}", program.display()))?;
    let help = [help.stdout, help.stderr].concat();
    let help = String::from_utf8_lossy(&help);
    let known: BTreeSet<_> =
        help.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')).collect();
    let flags = words.iter().filter(|word| word.starts_with("--"));
    let mut wanted: Vec<&str> = flags.filter_map(|word| word.split('=').next()).collect();
    if service.target().is_some() {
        wanted.extend(entries(service.value.get("environment")).map(|(name, _)| name));
    }
    let unknown =
        wanted.into_iter().filter(|name| !STANDARD_VARIABLES.contains(name) && !known.contains(name));
    Ok(unknown
        .map(|name| format!("compose.yaml: {}: its program does not know {name}", service.name))
        .collect())
}

fn server(service: &str) -> Option<Server> {
    let known = [("nats", Server::NatsServer)];
    let other =
        Server::ALL.into_iter().find(|server| server.name() == service && *server != Server::Registry);
    known.into_iter().find(|(name, _)| *name == service).map(|(_, server)| server).or(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_exist_is_named() {
        let document = serde_json::json!({
            "services": {
                "a": {"image": "a", "networks": ["there", "gone"], "volumes": ["./nowhere:/x:ro", "data:/data"],
                      "ports": ["8080:80"], "depends_on": {"b": {"condition": "service_started"}}},
                "c": {"restart": "always", "depends_on": {"d": {"condition": COMPLETED}}},
            },
            "networks": {"there": {}, "idle": {}},
        });
        let problems = structure(&Model { document }, Path::new(env!("CARGO_MANIFEST_DIR")));
        let expected = [
            "compose.yaml: a: gone is not among networks",
            "compose.yaml: a: ./nowhere does not exist",
            "compose.yaml: a: data is not among volumes",
            "compose.yaml: a: it depends on b, which does not exist",
            "compose.yaml: a: port 8080:80 is open to other machines",
            "compose.yaml: c: it depends on d, which does not exist",
            "compose.yaml: c: it has no image",
            "compose.yaml: a ends, and nothing waits for that",
            "compose.yaml: idle of networks is not used",
        ];
        assert_eq!(problems, expected);
    }
}
