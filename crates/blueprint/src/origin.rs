//! Where things come from, for people who ask why they are there.

use std::collections::{BTreeMap, HashMap};

/// The place in a blueprint that something was written at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origin {
    /// Execution or entry of a list, such as `deployExecutions[main]`.
    pub entry: String,
    /// File of the blueprint, or the member of `blueprint.yaml` that holds the template.
    pub file: String,
    /// The line that names it, else that of the list it stands in, from 1; absent where there are no lines.
    pub line: Option<usize>,
}

/// Origins of what a rendering gave, in the order of the lists there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    pub deploy_items: Vec<Origin>,
    pub subinstallations: Vec<Origin>,
    /// By name.
    pub exports: BTreeMap<String, Origin>,
}

/// What gave an import its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImportSource {
    /// The import of the Installation that has its name.
    Installation,
    /// The data mapping that has its name.
    Mapping,
    /// The blueprint's own default.
    Default,
    /// An import execution, which comes after all else.
    Execution,
}

/// Lines of a template, found in one pass, however many things are looked for.
#[derive(Debug, Default)]
pub(crate) struct Lines<'s> {
    /// The first line with each `key: name`.
    named: HashMap<&'s str, usize>,
    /// The first line with the list itself.
    list: Option<usize>,
}

impl<'s> Lines<'s> {
    /// `key` is the member that names the elements of `list`.
    pub(crate) fn of_list(source: &'s str, key: &str, list: &str) -> Self {
        let (key, list) = (format!("{key}:"), format!("{list}:"));
        let mut lines = Self::default();
        for (line, number) in source.lines().zip(1..) {
            if line.contains(&*list) {
                lines.list.get_or_insert(number);
            }
            let value = line.split_once(&*key).map(|(_, value)| value.trim_start());
            let value = value.map(|value| value.trim_start_matches(['"', '\'']));
            let is_part = |next: char| next.is_alphanumeric() || "-_.".contains(next);
            let name =
                value.map_or("", |value| &value[..value.find(|next| !is_part(next)).unwrap_or(value.len())]);
            if !name.is_empty() {
                lines.named.entry(name).or_insert(number);
            }
        }
        lines
    }

    /// The line of a name, else that of the list, from 1.
    pub(crate) fn line(&self, name: &str) -> Option<usize> {
        self.named.get(name).copied().or(self.list)
    }
}

/// The line of a template with a member, else that of the map it stands in, from 1.
pub(crate) fn line_of_member(source: &str, member: &str, map: &str) -> Option<usize> {
    let find = |mark: String| source.lines().position(|line| line.contains(&*mark));
    find(format!("{member}:")).or_else(|| find(format!("{map}:"))).map(|line| line + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let source =
            "deployItems:\n- name: web-1\n- name: \"web\"\n- {type: t, name: job}\n- name: {{ .x }}\n";
        for (name, line) in [("web-1", 2), ("web", 3), ("job", 4), ("made-up", 1)] {
            assert_eq!(Lines::of_list(source, "name", "deployItems").line(name), Some(line), "{name}");
        }
        assert_eq!(Lines::of_list("x", "name", "deployItems").line("a"), None);
        assert_eq!(line_of_member("exports:\n  url: x", "url", "exports"), Some(2));
    }
}
