//! Rules that cannot do what their author wants: told before anybody wonders why nothing happens.

use std::collections::BTreeSet;

use crate::overwrite::{Attributes, Overwrites};
use crate::reference::{Reference, RepositoryContext};

/// Rules of longer lists are looked at until this many comparisons have been made; the rest is not judged rather than
/// judged wrongly.
const MOST_COMPARISONS: usize = 1_000_000;

/// Something about a rule that its author should know. `rule` counts from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// Whatever reference the source matches, earlier rules have always taken at least one of the attributes.
    NeverApplies { rule: usize },
    /// The substitution is empty: a match is reported, nothing is replaced.
    ReplacesNothing { rule: usize },
    /// The substitution puts in a repository context without a type, which no lookup can use.
    UntypedRepository { rule: usize },
}

/// Checks every rule (`components.md` 2.3, edge cases).
pub fn lint(overwrites: &Overwrites) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut budget = MOST_COMPARISONS;
    for (rule, definition) in overwrites.rules().iter().enumerate() {
        let substitution = &definition.substitution;
        if substitution.specified().is_empty() {
            findings.push(Finding::ReplacesNothing { rule });
        } else if !can_apply(overwrites, rule, &mut budget) {
            findings.push(Finding::NeverApplies { rule });
        }
        if substitution.repository.as_ref().is_some_and(|repository| repository.type_name().is_empty()) {
            findings.push(Finding::UntypedRepository { rule });
        }
    }
    findings
}

/// Whether some reference exists for which `rule` applies.
///
/// Only values that earlier sources mention can make a difference, so it is enough to try each of them and one
/// that nobody mentions, for every attribute that the source leaves open.
fn can_apply(overwrites: &Overwrites, rule: usize, budget: &mut usize) -> bool {
    let earlier: Vec<&Attributes> = overwrites.rules()[..rule].iter().map(|rule| &rule.source).collect();
    let source = &overwrites.rules()[rule].source;
    let repositories = repository_witnesses(source, &earlier);
    let names =
        text_witnesses(source.name.as_ref(), earlier.iter().filter_map(|source| source.name.as_ref()));
    let versions =
        text_witnesses(source.version.as_ref(), earlier.iter().filter_map(|source| source.version.as_ref()));
    let comparisons =
        repositories.len().saturating_mul(names.len()).saturating_mul(versions.len() * (rule + 1));
    let Some(left) = budget.checked_sub(comparisons) else { return true };
    *budget = left;
    repositories.iter().any(|repository| {
        names.iter().any(|name| {
            versions.iter().any(|version| {
                let reference = Reference {
                    repository: repository.clone(),
                    name: name.clone(),
                    version: version.clone(),
                };
                overwrites.applies(rule, &reference)
            })
        })
    })
}

/// The given value, or every mentioned one and one that is not mentioned.
fn text_witnesses<'a>(fixed: Option<&String>, mentioned: impl Iterator<Item = &'a String>) -> Vec<String> {
    if let Some(fixed) = fixed {
        return vec![fixed.clone()];
    }
    let mentioned: BTreeSet<&String> = mentioned.collect();
    let longest = mentioned.iter().map(|text| text.len()).max().unwrap_or_default();
    let unmentioned = "x".repeat(longest + 1);
    mentioned.into_iter().cloned().chain([unmentioned]).collect()
}

fn repository_witnesses(source: &Attributes, earlier: &[&Attributes]) -> Vec<Option<RepositoryContext>> {
    if let Some(fixed) = &source.repository {
        return vec![Some(fixed.clone())];
    }
    let mut witnesses: Vec<Option<RepositoryContext>> = vec![None];
    for mentioned in earlier.iter().filter_map(|source| source.repository.as_ref()) {
        if !witnesses.iter().flatten().any(|known| known == mentioned) {
            witnesses.push(Some(mentioned.clone()));
        }
    }
    witnesses
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overwrite::Rule;

    /// Halves of rules as `name@version`, either part may be empty.
    fn check(list: &[(&str, &str)], expected: &[Finding]) {
        let attributes = |text: &str| {
            let (name, version) = text.split_once('@').unwrap_or((text, ""));
            let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
            Attributes { repository: None, name: given(name), version: given(version) }
        };
        let overwrites: Overwrites = list
            .iter()
            .map(|(source, substitution)| Rule {
                source: attributes(source),
                substitution: attributes(substitution),
            })
            .collect();
        assert_eq!(lint(&overwrites), expected, "{list:?}");
    }

    #[test]
    fn findings() {
        let never = |rule| Finding::NeverApplies { rule };
        check(&[("a", "b"), ("a", "@2")], &[]);
        check(&[("a", "b"), ("a", "c")], &[never(1)]);
        check(&[("", "@1"), ("a", "@2")], &[never(1)]);
        check(&[("a", "@2"), ("", "@1")], &[]);
        // The first two together cover every version of a, but only because the second one is general.
        check(&[("a@1", "@8"), ("a", "@9"), ("a@1", "@7"), ("a@2", "@7")], &[never(2), never(3)]);
        // Rule 1 is dropped for version 1, so rule 2 gets through there.
        check(&[("a@1", "b"), ("a", "c@3"), ("a", "@4")], &[]);
        check(&[("a", "")], &[Finding::ReplacesNothing { rule: 0 }]);
    }

    /// A list that would take hours to judge in full is answered at once.
    #[test]
    fn long_lists_are_not_judged_in_full() {
        let (names, versions): (Vec<_>, Vec<_>) =
            (0..2000).map(|n| (format!("n{n}"), format!("@{n}"))).unzip();
        let mut list: Vec<(&str, &str)> = vec![("a", "b"), ("a", "c")];
        list.extend(names.iter().chain(&versions).map(|source| (source.as_str(), "x")));
        list.extend(std::iter::repeat_n(("", "y@1"), 2000));
        check(&list, &[Finding::NeverApplies { rule: 1 }]);
    }

    #[test]
    fn untyped_repository() {
        let substitution =
            Attributes { repository: RepositoryContext::new(serde_json::json!({})), ..Default::default() };
        let overwrites: Overwrites =
            [Rule { source: Attributes::default(), substitution }].into_iter().collect();
        assert_eq!(lint(&overwrites), [Finding::UntypedRepository { rule: 0 }]);
    }
}
