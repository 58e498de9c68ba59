//! Parses `compose.yaml`, and runs Docker Compose.

mod advice;
mod check;
mod ports;
mod project;
mod test;
mod up;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use groundwork_yaml::Options;
use serde_json::{Map, Value};

pub(crate) use check::run as check;
use ports::port_variables;
pub(crate) use test::run as test;
pub(crate) use up::run as up;

/// Main file.
const COMPOSE: &str = "compose.yaml";
/// File that adds a package store and a git server.
const PACKAGES: &str = "compose.packages.yaml";
/// Lists that a second file replaces instead of extending.
const COMMANDS: [&str; 2] = ["command", "entrypoint"];

/// Content of `compose.yaml`, with all variables at their defaults.
#[derive(Debug)]
pub(crate) struct Model {
    document: Value,
}

/// Service in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service<'a> {
    pub(crate) name: &'a str,
    value: &'a Value,
}

impl Model {
    /// Reads `compose.yaml`, with the defaults of its variables.
    pub(crate) fn read(workspace: &Path) -> Result<Self> {
        Ok(Self { document: parse(&interpolate(&text(workspace, COMPOSE)?)?)? })
    }

    /// Reads `compose.yaml` with compose.packages.yaml on top, merged like `docker compose -f … -f
    /// …`.
    pub(crate) fn with_packages(workspace: &Path) -> Result<Self> {
        let mut document = parse(&interpolate(&text(workspace, COMPOSE)?)?)?;
        overlay(&mut document, parse(&interpolate(&text(workspace, PACKAGES)?)?)?);
        Ok(Self { document })
    }

    /// Iterates over all services by name.
    pub(crate) fn services(&self) -> impl Iterator<Item = Service<'_>> {
        entries(self.document.get("services")).map(|(name, value)| Service { name, value })
    }

    fn top(&self, field: &str) -> Vec<&str> {
        entries(self.document.get(field)).map(|(name, _)| name).collect()
    }
}

fn text(workspace: &Path, file: &str) -> Result<String> {
    fs::read_to_string(workspace.join(file)).with_context(|| format!("cannot read {file}"))
}

/// Merges one file into another: maps are merged, lists are joined except for commands, and other
/// values are replaced.
fn overlay(below: &mut Value, above: Value) {
    match (below, above) {
        (Value::Object(below), Value::Object(above)) => {
            for (name, value) in above {
                match below.get_mut(&name) {
                    Some(found) if !COMMANDS.contains(&name.as_str()) => overlay(found, value),
                    _ => drop(below.insert(name, value)),
                }
            }
        }
        (Value::Array(below), Value::Array(above)) => below.extend(above),
        (below, above) => *below = above,
    }
}

fn parse(text: &str) -> Result<Value> {
    let document = groundwork_yaml::parse_first(text, Options::default());
    Ok(document.context("compose.yaml is not YAML")?.to_value())
}

/// Reads a file without replacing its variables.
fn raw(workspace: &Path, file: &str) -> Result<Value> {
    parse(&text(workspace, file)?)
}

impl<'a> Service<'a> {
    pub(crate) fn image(&self) -> &'a str {
        self.value["image"].as_str().unwrap_or_default()
    }

    /// Returns the target of our Dockerfile; `None` for an image of another project.
    pub(crate) fn target(&self) -> Option<&'a str> {
        self.value.pointer("/build/target").and_then(Value::as_str)
    }

    /// Returns the program in that target's image, if it is one of ours.
    pub(crate) fn program(&self) -> Option<String> {
        self.target().filter(|target| *target != "git").map(|target| match target {
            "groundwork" => target.to_owned(),
            service => format!("groundwork-{service}"),
        })
    }

    /// Returns the profile that starts the service; `None` if it starts by default.
    pub(crate) fn profile(&self) -> Option<&'a str> {
        self.value.pointer("/profiles/0").and_then(Value::as_str)
    }

    /// Reports whether the service starts by default.
    pub(crate) fn is_default(&self) -> bool {
        self.value.get("profiles").is_none()
    }

    fn strings(&self, field: &str) -> Vec<&'a str> {
        self.value[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
    }
}

fn entries(value: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    let map: Option<&Map<String, Value>> = value.and_then(Value::as_object);
    map.into_iter().flatten().map(|(name, value)| (name.as_str(), value))
}

/// Replaces variables by their defaults; we use only the forms `${NAME:-default}` and `${NAME:+if
/// set}`.
fn interpolate(text: &str) -> Result<String> {
    let mut all = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (variable, after) = after.split_once('}').context("compose.yaml: a variable without an end")?;
        all.push_str(before);
        match (variable.split_once(":-"), variable.split_once(":+")) {
            (Some((_, default)), _) => all.push_str(default),
            (None, Some(_)) => {}
            (None, None) => bail!("compose.yaml: ${{{variable}}} has no default"),
        }
        rest = after;
    }
    all.push_str(rest);
    Ok(all)
}

/// Returns a Docker Compose command for our file.
pub(crate) fn docker_compose(workspace: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("docker");
    command.arg("compose").args(arguments).current_dir(workspace).stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The merge is that of `docker compose config`.
    #[test]
    fn one_file_on_another() {
        let mut below = serde_json::json!({"services": {"a": {"command": ["x"], "ports": ["1"], "environment": {"A": "1"}}}});
        let above = serde_json::json!({"services": {
            "a": {"command": ["y"], "ports": ["2"], "environment": {"B": "2"}}, "b": {"image": "b"},
        }});
        overlay(&mut below, above);
        let expected = serde_json::json!({"services": {
            "a": {"command": ["y"], "ports": ["1", "2"], "environment": {"A": "1", "B": "2"}}, "b": {"image": "b"},
        }});
        assert_eq!(below, expected);
    }

    #[test]
    fn variables_at_their_defaults() {
        assert_eq!(
            interpolate("a: ${A:-1}:2\nb: \"x${B:+y}\"\nc: ${C:-}\n").unwrap(),
            "a: 1:2\nb: \"x\"\nc: \n"
        );
        assert!(interpolate("${A}").is_err());
        assert!(interpolate("${A:-").is_err());
    }
}
