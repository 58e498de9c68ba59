//! Static check of overwrite rules for their authors: finds rules without the intended effect.

use std::collections::{BTreeMap, BTreeSet};

use crate::overwrite::{Attributes, Overwrites};
use crate::reference::{Reference, RepositoryContext};

/// Largest number of comparisons. The rest of a longer list is not checked, which avoids wrong
/// findings.
const MOST_COMPARISONS: usize = 1_000_000;
/// Bytes whose comparison takes about as long as one comparison of short texts.
const COMPARED_AT_ONCE: usize = 1_024;

/// Finding about a rule. `rule` counts from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// For every reference that the source matches, earlier rules have set at least one attribute
    /// of the substitution.
    NeverApplies { rule: usize },
    /// The substitution is empty: a match is reported, but no attribute is replaced.
    ReplacesNothing { rule: usize },
    /// The substitution sets a repository context without a type, which every lookup rejects.
    UntypedRepository { rule: usize },
}

/// Checks every rule (`components.md` 2.3, edge cases).
pub fn lint(overwrites: &Overwrites) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut budget = MOST_COMPARISONS;
    let mut earlier = Mentioned::default();
    for (rule, definition) in overwrites.rules().iter().enumerate() {
        let substitution = &definition.substitution;
        if substitution.specified().is_empty() {
            findings.push(Finding::ReplacesNothing { rule });
        } else if !can_apply(overwrites, rule, &earlier, &mut budget) {
            findings.push(Finding::NeverApplies { rule });
        }
        if substitution.repository.as_ref().is_some_and(|repository| repository.type_name().is_empty()) {
            findings.push(Finding::UntypedRepository { rule });
        }
        earlier.add(&definition.source);
    }
    findings
}

/// Values in the sources of earlier rules.
#[derive(Debug, Default)]
struct Mentioned<'a> {
    /// Repository contexts by their text: a search by comparing JSON would dominate the cost for
    /// thousands of entries.
    repositories: BTreeMap<String, &'a RepositoryContext>,
    names: BTreeSet<&'a str>,
    versions: BTreeSet<&'a str>,
    /// Bytes of the longest value.
    longest: usize,
}

impl<'a> Mentioned<'a> {
    fn add(&mut self, source: &'a Attributes) {
        if let Some(repository) = &source.repository {
            let text = repository.to_json();
            self.longest = self.longest.max(text.len());
            self.repositories.insert(text, repository);
        }
        self.names.extend(source.name.as_deref());
        self.versions.extend(source.version.as_deref());
        let texts = [source.name.as_ref(), source.version.as_ref()].into_iter().flatten();
        self.longest = texts.map(String::len).fold(self.longest, usize::max);
    }
}

/// Reports whether a reference exists to which `rule` applies.
///
/// Only values in earlier sources can make a difference. So it is enough to try each of them and
/// one further value, for every attribute that the source leaves open. The cost is checked against
/// the budget first.
fn can_apply(overwrites: &Overwrites, rule: usize, earlier: &Mentioned<'_>, budget: &mut usize) -> bool {
    let source = &overwrites.rules()[rule].source;
    let count = |is_fixed: bool, mentioned: usize| if is_fixed { 1 } else { mentioned + 1 };
    let comparisons = count(source.repository.is_some(), earlier.repositories.len())
        .saturating_mul(count(source.name.is_some(), earlier.names.len()))
        .saturating_mul(count(source.version.is_some(), earlier.versions.len()))
        .saturating_mul(rule + 1)
        .saturating_mul(1 + earlier.longest / COMPARED_AT_ONCE);
    let Some(left) = budget.checked_sub(comparisons) else { return true };
    *budget = left;
    let repositories = repository_witnesses(source, earlier);
    let names = text_witnesses(source.name.as_deref(), &earlier.names);
    let versions = text_witnesses(source.version.as_deref(), &earlier.versions);
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

/// Returns the fixed value of an attribute. If the source leaves the attribute open, returns every
/// mentioned value and one further value.
fn text_witnesses(fixed: Option<&str>, mentioned: &BTreeSet<&str>) -> Vec<String> {
    if let Some(fixed) = fixed {
        return vec![fixed.to_owned()];
    }
    let longest = mentioned.iter().map(|text| text.len()).max().unwrap_or_default();
    let unmentioned = "x".repeat(longest + 1);
    mentioned.iter().map(|text| (*text).to_owned()).chain([unmentioned]).collect()
}

fn repository_witnesses(source: &Attributes, earlier: &Mentioned<'_>) -> Vec<Option<RepositoryContext>> {
    if let Some(fixed) = &source.repository {
        return vec![Some(fixed.clone())];
    }
    [None].into_iter().chain(earlier.repositories.values().map(|known| Some((*known).clone()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overwrite::Rule;

    /// Checks rules whose halves are written as `name@version`. Either part may be empty.
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
        // The first two rules together cover every version of `a`, but only because the second one
        // names no component.
        check(&[("a@1", "@8"), ("a", "@9"), ("a@1", "@7"), ("a@2", "@7")], &[never(2), never(3)]);
        // Rule 1 is dropped for version 1, so rule 2 still applies there.
        check(&[("a@1", "b"), ("a", "c@3"), ("a", "@4")], &[]);
        check(&[("a", "")], &[Finding::ReplacesNothing { rule: 0 }]);
    }

    /// A list whose full check would take hours is answered at once.
    #[test]
    fn long_lists_are_not_judged_in_full() {
        let (names, versions): (Vec<_>, Vec<_>) =
            (0..2000).map(|n| (format!("n{n}"), format!("@{n}"))).unzip();
        let mut list: Vec<(&str, &str)> = vec![("a", "b"), ("a", "c")];
        list.extend(names.iter().chain(&versions).map(|source| (source.as_str(), "x")));
        list.extend(std::iter::repeat_n(("", "y@1"), 2000));
        check(&list, &[Finding::NeverApplies { rule: 1 }]);
    }

    /// The cost of a rule is checked before any allocation for it. Long lists of rules with
    /// distinct contexts, names and versions once took minutes.
    #[test]
    fn long_lists_cost_no_more_than_their_budget() {
        let list: Overwrites = (0..10_000)
            .map(|number| Rule {
                source: Attributes {
                    repository: RepositoryContext::new(
                        serde_json::json!({"type": "t", "baseUrl": number.to_string()}),
                    ),
                    name: (number % 2 == 0).then(|| format!("n{number}")),
                    version: (number % 3 == 0).then(|| format!("v{number}")),
                },
                substitution: Attributes { version: Some("v".to_owned()), ..Attributes::default() },
            })
            .chain((0..10_000).map(|_| Rule {
                source: Attributes::default(),
                substitution: Attributes { name: Some("n".to_owned()), ..Attributes::default() },
            }))
            .collect();
        let start = std::time::Instant::now();
        assert_eq!(lint(&list), []);
        assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
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
