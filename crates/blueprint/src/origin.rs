//! Origins of rendered objects and values, shown to users.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

/// Place in a blueprint where an object is defined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Execution or entry of a list, such as `deployExecutions[main]`.
    pub entry: Arc<str>,
    /// File of the blueprint, or the member of `blueprint.yaml` that contains the template.
    pub file: Arc<str>,
    /// Name to search for, if the source has lines.
    sought: Option<Sought>,
}

/// Name of an object in a template. The line is searched on request, because few callers need it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sought {
    source: Arc<str>,
    name: String,
    /// Member that names the elements of a list; absent if the name is itself a key.
    key: Option<&'static str>,
    /// Name of the list or map.
    member: &'static str,
}

impl Default for Origin {
    fn default() -> Self {
        Self::of_entry("", "")
    }
}

impl Origin {
    pub(crate) fn of_entry(entry: &str, file: &str) -> Self {
        Self { entry: entry.into(), file: file.into(), sought: None }
    }

    /// Returns the line of the name, or else of its list or map, counted from 1. `None` for a
    /// source without lines.
    pub fn line(&self) -> Option<usize> {
        let Sought { source, name, key, member } = self.sought.as_ref()?;
        let find = |fits: &dyn Fn(&str) -> bool| source.lines().position(fits).map(|line| line + 1);
        let named = match key {
            Some(_) if name.is_empty() => None,
            Some(key) => find(&|line| name_in(line, key) == Some(name)),
            None => find(&|line| line.contains(&format!("{name}:"))),
        };
        named.or_else(|| find(&|line| line.contains(&format!("{member}:"))))
    }
}

impl Display for Origin {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.entry, self.file)?;
        if let Some(line) = self.line() {
            write!(f, ", line {line}")?;
        }
        f.write_str(")")
    }
}

/// Returns the value of `key` in a line, if it is a plain name.
fn name_in<'l>(line: &'l str, key: &str) -> Option<&'l str> {
    let (_, value) = line.split_once(&format!("{key}:"))?;
    let value = value.trim_start().trim_start_matches(['"', '\'']);
    let is_part = |next: char| next.is_alphanumeric() || "-_.".contains(next);
    Some(&value[..value.find(|next| !is_part(next)).unwrap_or(value.len())])
}

/// List or map of an output, whose elements come from one template.
#[derive(Debug)]
pub(crate) struct OutputOrigin {
    pub(crate) entry: Arc<str>,
    pub(crate) file: Arc<str>,
    pub(crate) source: Option<Arc<str>>,
    pub(crate) member: &'static str,
}

impl OutputOrigin {
    /// Returns the origin of an element with a name.
    pub(crate) fn origin(&self, name: &str) -> Origin {
        self.sought(name, Some("name"))
    }

    /// Returns the origin of a member.
    pub(crate) fn origin_of_member(&self, name: &str) -> Origin {
        self.sought(name, None)
    }

    fn sought(&self, name: &str, key: Option<&'static str>) -> Origin {
        let sought = |source: &Arc<str>| Sought {
            source: Arc::clone(source),
            name: name.to_owned(),
            key,
            member: self.member,
        };
        Origin {
            entry: Arc::clone(&self.entry),
            file: Arc::clone(&self.file),
            sought: self.source.as_ref().map(sought),
        }
    }
}

/// Origins of the results of a rendering, in the order of its lists.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    pub deploy_items: Vec<Origin>,
    pub subinstallations: Vec<Origin>,
    /// Origins of exports, by name.
    pub exports: BTreeMap<String, Origin>,
}

/// Source of an import's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportSource {
    /// Import of the Installation with the same name.
    Installation,
    /// Data mapping with the same name.
    Mapping,
    /// Default of the blueprint.
    Default,
    /// Import execution, which overrides the other sources.
    Execution,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let source =
            "deployItems:\n- name: web-1\n- name: \"web\"\n- {type: t, name: job}\n- name: {{ .x }}\n";
        let place = |source: &str, member: &'static str| OutputOrigin {
            entry: "e".into(),
            file: "f".into(),
            source: Some(source.into()),
            member,
        };
        for (name, line) in [("web-1", 2), ("web", 3), ("job", 4), ("made-up", 1), ("", 1)] {
            assert_eq!(place(source, "deployItems").origin(name).line(), Some(line), "{name}");
        }
        assert_eq!(place("x", "deployItems").origin("a").line(), None);
        assert_eq!(place("exports:\n  url: x", "exports").origin_of_member("url").line(), Some(2));
        assert_eq!(Origin::default().line(), None);
    }
}
