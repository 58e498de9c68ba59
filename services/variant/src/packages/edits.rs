//! Edits by users on the object of a draft that git does not contain yet (`packagevariants.md`
//! 6.14).

use std::collections::BTreeMap;

use groundwork_api::{Lifecycle, PackageRevision, ReadinessGate};
use groundwork_krm::Description;
use groundwork_packages::git::{GitRepository, Revision};

/// Metadata and readiness gates to write into the Kptfile of a draft.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Edits {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) gates: Vec<ReadinessGate>,
}

/// Returns the edits of a draft's object since its status named a commit. Returns `None` if there
/// are no edits, or if the revision is not a draft or has no commit in its status.
///
/// The user saw the commit in the status when they wrote the edit. Changes that git received after
/// that commit are not theirs. Without a commit, the author of a difference is unknown, so git's
/// value counts.
pub(crate) fn edits(
    repository: &GitRepository,
    revision: &Revision,
    object: &PackageRevision,
) -> Option<Edits> {
    if revision.lifecycle != Lifecycle::Draft {
        return None;
    }
    let lock = object.status.as_ref()?.self_lock.as_ref()?.git.as_ref()?;
    let told = lock.commit.as_deref()?;
    let in_git = &revision.facts.description;
    if *told == format!("{}", revision.commit) {
        return merge(in_git, object, in_git);
    }
    merge(&repository.description_at(told, &revision.package)?, object, in_git)
}

/// Merges label by label: applies the user's changes to the values in git. If both sides changed a
/// label, git's value counts.
fn merge(told: &Description, object: &PackageRevision, in_git: &Description) -> Option<Edits> {
    let metadata = object.spec.package_metadata.clone().unwrap_or_default();
    let gates = object.spec.readiness_gates.to_vec();
    let takes_gates = in_git.readiness_gates == told.readiness_gates;
    let merged = Edits {
        labels: merge_maps(&told.labels, &metadata.labels, &in_git.labels),
        annotations: merge_maps(&told.annotations, &metadata.annotations, &in_git.annotations),
        gates: if takes_gates { gates } else { in_git.readiness_gates.clone() },
    };
    let is_same = merged.labels == in_git.labels
        && merged.annotations == in_git.annotations
        && merged.gates == in_git.readiness_gates;
    (!is_same).then_some(merged)
}

fn merge_maps(
    told: &BTreeMap<String, String>,
    asked_for: &BTreeMap<String, String>,
    in_git: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut merged = in_git.clone();
    for key in told.keys().chain(asked_for.keys()) {
        let (before, asked_for, now) = (told.get(key), asked_for.get(key), in_git.get(key));
        if asked_for == before || now != before {
            continue;
        }
        match asked_for {
            Some(value) => drop(merged.insert(key.clone(), value.clone())),
            None => drop(merged.remove(key)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use groundwork_api::{PackageMetadata, PackageRevisionSpec};

    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        let pairs = text.split(' ').filter_map(|pair| pair.split_once('='));
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }

    fn described(text: &str) -> Description {
        Description { labels: labels(text), ..Description::default() }
    }

    /// Each case gives the labels in the commit of the status, on the object, in git, and the
    /// labels to save.
    #[test]
    fn labels_are_merged_one_by_one() {
        for (told, asked_for, in_git, expected) in [
            ("", "", "", None),
            ("a=1", "a=1", "a=1", None),
            ("a=1", "a=2", "a=1", Some("a=2")),
            ("a=1", "", "a=1", Some("")),
            // The draft was updated while the user edited the object: both changes stay.
            ("a=1", "a=1 b=2", "a=1 c=3", Some("a=1 b=2 c=3")),
            ("a=1 b=2", "a=1", "a=7 b=2", Some("a=7")),
            // The object does not show the update yet, and the user has not changed anything.
            ("a=1", "a=1", "a=2", None),
            ("a=1 b=2", "a=1 b=2", "a=1", None),
            // Both sides changed the label.
            ("a=1", "a=2", "a=3", None),
            ("a=1", "", "a=3", None),
        ] {
            let metadata = PackageMetadata { labels: labels(asked_for).into(), ..PackageMetadata::default() };
            let spec =
                PackageRevisionSpec { package_metadata: Some(metadata), ..PackageRevisionSpec::default() };
            let object = PackageRevision { spec, ..PackageRevision::default() };
            let merged = merge(&described(told), &object, &described(in_git)).map(|edits| edits.labels);
            assert_eq!(merged, expected.map(labels), "{told:?} {asked_for:?} {in_git:?}");
        }
    }

    #[test]
    fn gates_are_taken_as_a_whole() {
        let gate =
            |name: &str| ReadinessGate { condition_type: Some(name.to_owned()), ..ReadinessGate::default() };
        let described = |name| Description { readiness_gates: vec![gate(name)], ..Description::default() };
        let spec = PackageRevisionSpec {
            readiness_gates: std::iter::once(gate("b")).collect(),
            ..PackageRevisionSpec::default()
        };
        let object = PackageRevision { spec, ..PackageRevision::default() };
        let taken = merge(&described("a"), &object, &described("a")).map(|edits| edits.gates);
        assert_eq!(taken, Some(vec![gate("b")]));
        assert_eq!(merge(&described("a"), &object, &described("c")), None);
    }
}
