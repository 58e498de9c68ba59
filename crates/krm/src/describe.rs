//! Description of a package in its root Kptfile (`packagevariants.md` 1.5, 2.13).

use std::collections::BTreeMap;

use groundwork_api::{GitLock, Locator, PackageCondition, ReadinessGate};
use groundwork_yaml::tree::Node;

use crate::file::{File, Limits};
use crate::package::{KPTFILE, Package};

/// Limits far above any real Kptfile. They are needed because every user with push access writes
/// Kptfiles, and all of them are read.
const LIMITS: Limits = Limits { values: 50_000, depth: 100 };

/// Fields of a Kptfile that PackageRevisions show.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Description {
    /// Upstream lock; `None` if it names no location in git.
    pub upstream_lock: Option<Locator>,
    pub readiness_gates: Vec<ReadinessGate>,
    pub conditions: Vec<PackageCondition>,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Reason why the Kptfile cannot be parsed; all other fields are empty then.
    pub error: Option<String>,
}

impl Description {
    /// Returns the total bytes of all texts.
    pub fn weight(&self) -> usize {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let git = self.upstream_lock.as_ref().and_then(|lock| lock.git.as_ref());
        let lock =
            git.map_or(0, |git| of(&git.repo) + of(&git.directory) + of(&git.reference) + of(&git.commit));
        let gates = self.readiness_gates.iter().map(|gate| of(&gate.condition_type)).sum::<usize>();
        let conditions = self.conditions.iter().map(|condition| {
            condition.type_.len() + condition.status.len() + of(&condition.reason) + of(&condition.message)
        });
        let pairs = self.labels.iter().chain(&self.annotations).map(|(key, value)| key.len() + value.len());
        lock + gates + conditions.sum::<usize>() + pairs.sum::<usize>() + of(&self.error)
    }
}

/// Reads the description, and skips fields of the wrong type.
pub fn describe(files: &Package) -> Description {
    let failed = |error: String| Description { error: Some(error), ..Description::default() };
    let Some(text) = files.get(KPTFILE) else { return failed("the package has no Kptfile".to_owned()) };
    let file = match File::read_within(text, LIMITS) {
        Ok(file) => file,
        Err(error) => return failed(format!("Kptfile: {error}")),
    };
    let [document] = file.documents.as_slice() else {
        return failed(format!("Kptfile: expected exactly one object, got {}", file.documents.len()));
    };
    let root = &document.root;
    if root.as_mapping().is_none() {
        return failed("Kptfile: expected a map".to_owned());
    }
    let gate = |gate: &Node| {
        let condition_type = text_at(gate, "conditionType")?;
        Some(ReadinessGate { condition_type: Some(condition_type), ..ReadinessGate::default() })
    };
    let condition = |condition: &Node| {
        Some(PackageCondition {
            type_: text_at(condition, "type")?,
            status: text_at(condition, "status").unwrap_or_default(),
            reason: text_at(condition, "reason"),
            message: text_at(condition, "message"),
            ..PackageCondition::default()
        })
    };
    Description {
        upstream_lock: lock(root),
        readiness_gates: items(root, ["info", "readinessGates"]).filter_map(gate).collect(),
        conditions: items(root, ["status", "conditions"]).filter_map(condition).collect(),
        labels: strings(root, "labels"),
        annotations: strings(root, "annotations"),
        error: None,
    }
}

fn text_at(map: &Node, key: &str) -> Option<String> {
    let value = map.get(key)?;
    value.text().filter(|_| !value.is_null()).map(str::to_owned)
}

fn items<'a>(root: &'a Node, path: [&str; 2]) -> impl Iterator<Item = &'a Node> {
    root.at(&path).and_then(Node::as_sequence).into_iter().flat_map(|list| &list.items)
}

fn strings(root: &Node, name: &str) -> BTreeMap<String, String> {
    let map = root.at(&["metadata", name]).and_then(Node::as_mapping);
    let pairs = map.into_iter().flat_map(|map| &map.pairs);
    let pairs = pairs.filter_map(|pair| {
        let text = pair.value.text()?;
        let text = if pair.value.is_null() { "" } else { text };
        Some((pair.name().to_owned(), text.to_owned()))
    });
    pairs.collect()
}

fn lock(root: &Node) -> Option<Locator> {
    let lock = root.get("upstreamLock")?;
    let git = lock.get("git").filter(|git| git.as_mapping().is_some())?;
    let git = GitLock {
        repo: text_at(git, "repo"),
        directory: text_at(git, "directory"),
        reference: text_at(git, "ref"),
        commit: text_at(git, "commit"),
        ..GitLock::default()
    };
    Some(Locator { type_: text_at(lock, "type"), git: Some(git), ..Locator::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described(text: &str) -> Description {
        describe(&[(KPTFILE.to_owned(), text.to_owned())].into())
    }

    /// The fields that mirror the Kptfile (`packagevariants.md` 1.5).
    #[test]
    fn what_a_kptfile_says() {
        let found = described(
            "metadata: {name: a, labels: {app: dns, n: 5}, annotations: {a: }}\nupstreamLock: {type: git, git: {repo: r, directory: d, ref: \
             v1, commit: c}}\ninfo: {readinessGates: [{conditionType: g}, 5]}\nstatus:\n  conditions:\n  - {type: g, status: \"False\", \
             reason: R}\n  - {status: x}\n",
        );
        let git = found.upstream_lock.clone().unwrap().git.unwrap();
        assert_eq!(
            (git.repo.as_deref(), git.reference.as_deref(), git.commit.as_deref()),
            (Some("r"), Some("v1"), Some("c"))
        );
        assert_eq!(found.readiness_gates.len(), 1);
        assert_eq!(found.readiness_gates[0].condition_type.as_deref(), Some("g"));
        assert_eq!(found.conditions.len(), 1);
        let condition = &found.conditions[0];
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_deref(), &condition.message),
            ("False", Some("R"), &None)
        );
        assert_eq!(found.labels["n"], "5");
        assert_eq!(found.annotations["a"], "");
        assert_eq!(found.error, None);
    }

    /// An invalid Kptfile gives an empty description with an error.
    #[test]
    fn what_cannot_be_read() {
        for (text, expected) in [
            ("", "Kptfile: expected exactly one object, got 0"),
            ("- a\n", "Kptfile: expected a map"),
            ("a: 1\n---\nb: 1\n", "Kptfile: expected exactly one object, got 2"),
        ] {
            let error = Some(expected.to_owned());
            assert_eq!(described(text), Description { error, ..Description::default() });
        }
        assert!(described("a: [\n").error.unwrap().starts_with("Kptfile: line 1: "));
        assert_eq!(describe(&Package::new()).error.as_deref(), Some("the package has no Kptfile"));
        // A lock without a location counts as missing (`packagevariants.md` 1.6).
        assert_eq!(described("upstreamLock: {type: git}\n").upstream_lock, None);
        assert_eq!(
            described("upstreamLock: [a]\nmetadata: 5\ninfo: x\nstatus: null\n"),
            Description::default()
        );
    }
}
