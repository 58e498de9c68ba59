//! The description of a chart, Chart.yaml (`helm.md` 2.4).

use groundwork_go::semver::Version;
use groundwork_go::{path, text};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::decode::{Record, Shape};

/// The content of Chart.yaml.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    pub name: String,
    pub home: String,
    pub sources: Option<Vec<String>>,
    pub version: String,
    pub description: String,
    pub keywords: Option<Vec<String>>,
    pub maintainers: Option<Vec<Option<Maintainer>>>,
    pub icon: String,
    pub api_version: String,
    pub condition: String,
    pub tags: String,
    pub app_version: String,
    pub deprecated: bool,
    pub annotations: Option<std::collections::BTreeMap<String, String>>,
    pub kube_version: String,
    /// The dependencies. An absent list and an empty one differ (`helm.md` 3.2).
    pub dependencies: Option<Vec<Option<Dependency>>>,
    #[serde(rename = "type")]
    pub chart_type: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Maintainer {
    pub name: String,
    pub email: String,
    pub url: String,
}

/// A dependency (`helm.md` 3.1).
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct Dependency {
    pub name: String,
    pub version: String,
    pub repository: String,
    pub condition: String,
    pub tags: Option<Vec<String>>,
    pub enabled: bool,
    #[serde(rename = "import-values")]
    pub import_values: Option<Vec<Value>>,
    pub alias: String,
}

static MAINTAINER: Record = Record {
    qualified: "chart.Maintainer",
    name: "Maintainer",
    field_type: "chart.Maintainer",
    fields: &[("name", Shape::Text), ("email", Shape::Text), ("url", Shape::Text)],
};

static DEPENDENCY: Record = Record {
    qualified: "chart.Dependency",
    name: "Dependency",
    field_type: "chart.Dependency",
    fields: &[
        ("name", Shape::Text),
        ("version", Shape::Text),
        ("repository", Shape::Text),
        ("condition", Shape::Text),
        ("tags", Shape::Texts),
        ("enabled", Shape::Flag),
        ("import-values", Shape::List),
        ("alias", Shape::Text),
    ],
};

pub(crate) static METADATA: Record = Record {
    qualified: "chart.Metadata",
    name: "Metadata",
    field_type: "chart.Metadata",
    fields: &[
        ("name", Shape::Text),
        ("home", Shape::Text),
        ("sources", Shape::Texts),
        ("version", Shape::Text),
        ("description", Shape::Text),
        ("keywords", Shape::Texts),
        ("maintainers", Shape::Records(&MAINTAINER)),
        ("icon", Shape::Text),
        ("apiVersion", Shape::Text),
        ("condition", Shape::Text),
        ("tags", Shape::Text),
        ("appVersion", Shape::Text),
        ("deprecated", Shape::Flag),
        ("annotations", Shape::TextMap),
        ("kubeVersion", Shape::Text),
        ("dependencies", Shape::Records(&DEPENDENCY)),
        ("type", Shape::Text),
    ],
};

pub(crate) static LOCK: Record = Record {
    qualified: "chart.Lock",
    name: "Lock",
    field_type: "chart.Lock",
    fields: &[
        ("generated", Shape::Any),
        ("digest", Shape::Text),
        ("dependencies", Shape::Records(&DEPENDENCY)),
    ],
};

impl Metadata {
    /// Converts members that [`crate::decode`] has fitted to their types. Only import values can
    /// have another type.
    pub(crate) fn from_members(members: Map<String, Value>) -> Result<Metadata, String> {
        serde_json::from_value(Value::Object(members)).map_err(|_| {
            crate::decode::unexpected("object", "struct field Metadata.dependencies of type []interface {}")
        })
    }

    /// Reports whether the chart is a library, whose templates can only be included.
    pub fn is_library(&self) -> bool {
        self.chart_type.eq_ignore_ascii_case("library")
    }

    /// Cleans texts, then runs Helm's checks in Helm's order.
    pub(crate) fn validate(&mut self) -> Result<(), String> {
        self.sanitise();
        if self.api_version.is_empty() {
            return Err("chart.metadata.apiVersion is required".to_owned());
        }
        if self.name.is_empty() {
            return Err("chart.metadata.name is required".to_owned());
        }
        let is_one_component = path::base(self.name.as_bytes()) == self.name.as_bytes();
        if !is_one_component || matches!(self.name.as_str(), "." | "..") {
            return Err(format!("chart.metadata.name {} is invalid", text::quote(self.name.as_bytes())));
        }
        if self.version.is_empty() {
            return Err("chart.metadata.version is required".to_owned());
        }
        if Version::parse(&self.version).is_err() {
            return Err(format!(
                "chart.metadata.version {} is invalid",
                text::quote(self.version.as_bytes())
            ));
        }
        if !matches!(self.chart_type.as_str(), "" | "application" | "library") {
            return Err("chart.metadata.type must be application or library".to_owned());
        }
        if self.maintainers.iter().flatten().any(Option::is_none) {
            return Err("maintainers must not contain empty or null nodes".to_owned());
        }
        let mut names: Vec<String> = Vec::new();
        for dependency in self.dependencies.iter_mut().flatten() {
            let Some(dependency) = dependency else {
                return Err("dependencies must not contain empty or null nodes".to_owned());
            };
            dependency.sanitise();
            let quoted = |name: &str| text::quote(name.as_bytes());
            let is_alias =
                |alias: &str| alias.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            if !is_alias(&dependency.alias) {
                return Err(format!(
                    "dependency {} has disallowed characters in the alias",
                    quoted(&dependency.name)
                ));
            }
            let key = dependency.key().to_owned();
            if names.contains(&key) {
                return Err(format!("more than one dependency with name or alias {}", quoted(&key)));
            }
            names.push(key);
        }
        Ok(())
    }

    fn sanitise(&mut self) {
        let texts = [
            &mut self.name,
            &mut self.description,
            &mut self.home,
            &mut self.icon,
            &mut self.condition,
            &mut self.tags,
            &mut self.app_version,
            &mut self.kube_version,
        ];
        let lists = self.sources.iter_mut().chain(&mut self.keywords).flatten();
        texts.into_iter().chain(lists).for_each(sanitise);
        for maintainer in self.maintainers.iter_mut().flatten().flatten() {
            [&mut maintainer.name, &mut maintainer.email, &mut maintainer.url].into_iter().for_each(sanitise);
        }
    }
}

impl Dependency {
    /// Returns the name under which the parent uses the dependency: its alias, if it has one.
    pub fn key(&self) -> &str {
        if self.alias.is_empty() { &self.name } else { &self.alias }
    }

    fn sanitise(&mut self) {
        let texts = [&mut self.name, &mut self.version, &mut self.repository, &mut self.condition];
        texts.into_iter().chain(self.tags.iter_mut().flatten()).for_each(sanitise);
    }
}

/// Replaces white space by a blank, and removes unprintable characters.
fn sanitise(text: &mut String) {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return;
    }
    *text = text
        .chars()
        .filter_map(|c| match c {
            c if text::is_space(c) => Some(' '),
            c if text::is_print(c) => Some(c),
            _ => None,
        })
        .collect();
}
