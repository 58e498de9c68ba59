//! `compose.yaml` as this program reads it, and Docker Compose as it is run.

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

/// What `compose.yaml` says, with all variables at their defaults.
#[derive(Debug)]
pub(crate) struct Model {
    document: Value,
}

/// A service of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service<'a> {
    pub(crate) name: &'a str,
    value: &'a Value,
}

impl Model {
    /// Reads `compose.yaml`, with the defaults of its variables in their places.
    pub(crate) fn read(workspace: &Path) -> Result<Self> {
        Ok(Self { document: parse(&interpolate(&text(workspace)?)?)? })
    }

    /// All services, by name.
    pub(crate) fn services(&self) -> impl Iterator<Item = Service<'_>> {
        entries(self.document.get("services")).map(|(name, value)| Service { name, value })
    }

    fn top(&self, field: &str) -> Vec<&str> {
        entries(self.document.get(field)).map(|(name, _)| name).collect()
    }
}

fn text(workspace: &Path) -> Result<String> {
    fs::read_to_string(workspace.join("compose.yaml")).context("cannot read compose.yaml")
}

fn parse(text: &str) -> Result<Value> {
    let document = groundwork_yaml::parse_first(text, Options::default());
    Ok(document.context("compose.yaml is not YAML")?.to_value())
}

/// The file with its variables as they are written.
fn raw(workspace: &Path) -> Result<Value> {
    parse(&text(workspace)?)
}

impl<'a> Service<'a> {
    pub(crate) fn image(&self) -> &'a str {
        self.value["image"].as_str().unwrap_or_default()
    }

    /// The target of our Dockerfile; `None` for images of others.
    pub(crate) fn target(&self) -> Option<&'a str> {
        self.value.pointer("/build/target").and_then(Value::as_str)
    }

    /// The program in that target's image.
    pub(crate) fn program(&self) -> Option<String> {
        self.target().map(|target| match target {
            "groundwork" => target.to_owned(),
            service => format!("groundwork-{service}"),
        })
    }

    /// The profile that starts it; `None` if it starts without being asked for.
    pub(crate) fn profile(&self) -> Option<&'a str> {
        self.value.pointer("/profiles/0").and_then(Value::as_str)
    }

    /// Whether it starts without being asked for.
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

/// Puts defaults in the place of variables: `${NAME:-default}` and `${NAME:+if set}` are the two forms that we use.
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

/// Docker Compose on our file.
pub(crate) fn docker_compose(workspace: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("docker");
    command.arg("compose").args(arguments).current_dir(workspace).stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

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
