//! Rules of a `ComponentVersionOverwrites` object (`components.md` 2).

use groundwork_api::{ComponentVersionOverwriteReference, ComponentVersionOverwrites};
use serde::{Deserialize, Serialize};

use crate::reference::{Reference, RepositoryContext};

/// Part of a reference that a rule can compare and replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attribute {
    Repository,
    Name,
    Version,
}

impl Attribute {
    /// All attributes, in the order of messages.
    pub const ALL: [Self; 3] = [Self::Repository, Self::Name, Self::Version];

    /// Returns the name of the attribute's field in the manifest.
    pub fn field(self) -> &'static str {
        match self {
            Self::Repository => "repositoryContext",
            Self::Name => "componentName",
            Self::Version => "version",
        }
    }

    fn slot(self) -> usize {
        match self {
            Self::Repository => 0,
            Self::Name => 1,
            Self::Version => 2,
        }
    }
}

/// Set of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AttributeSet([bool; 3]);

impl AttributeSet {
    pub fn contains(self, attribute: Attribute) -> bool {
        self.0[attribute.slot()]
    }

    pub fn is_empty(self) -> bool {
        self.0 == [false; 3]
    }

    /// Returns the members in the order of [`Attribute::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Attribute> {
        Attribute::ALL.into_iter().filter(move |attribute| self.contains(*attribute))
    }
}

impl FromIterator<Attribute> for AttributeSet {
    fn from_iter<I: IntoIterator<Item = Attribute>>(attributes: I) -> Self {
        let mut set = Self::default();
        for attribute in attributes {
            set.0[attribute.slot()] = true;
        }
        set
    }
}

/// Attributes of a rule's source or substitution.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attributes {
    pub repository: Option<RepositoryContext>,
    pub name: Option<String>,
    pub version: Option<String>,
}

impl Attributes {
    /// Returns the specified attributes.
    pub fn specified(&self) -> AttributeSet {
        AttributeSet([self.repository.is_some(), self.name.is_some(), self.version.is_some()])
    }

    /// Reports whether a reference has every specified attribute. An attribute that is not
    /// specified matches any value. A specified repository context never matches an absent one.
    fn matches(&self, reference: &Reference) -> bool {
        // Texts are compared first: most rules differ in a name, and comparing JSON costs more.
        self.name.as_ref().is_none_or(|name| *name == reference.name)
            && self.version.as_ref().is_none_or(|version| *version == reference.version)
            && (self.repository.is_none() || self.repository == reference.repository)
    }

    /// Returns the specified attributes in which `reference` differs; empty if it matches.
    fn differing(&self, reference: &Reference) -> AttributeSet {
        let differs =
            |wanted: &Option<String>, actual: &str| wanted.as_deref().is_some_and(|text| text != actual);
        AttributeSet([
            self.repository.is_some() && self.repository != reference.repository,
            differs(&self.name, &reference.name),
            differs(&self.version, &reference.version),
        ])
    }
}

impl From<&ComponentVersionOverwriteReference> for Attributes {
    /// Converts the wire form: empty strings and `null` count as not specified, `{}` as specified
    /// (`components.md` 1.3).
    fn from(wire: &ComponentVersionOverwriteReference) -> Self {
        Self {
            repository: wire.repository_context.get().cloned().and_then(RepositoryContext::new),
            name: wire.component_name().map(str::to_owned),
            version: wire.version().map(str::to_owned),
        }
    }
}

/// Rule that replaces the attributes of `substitution` in references that match `source`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rule {
    pub source: Attributes,
    pub substitution: Attributes,
}

/// Ordered rules of one object.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Overwrites {
    rules: Vec<Rule>,
}

impl From<&ComponentVersionOverwrites> for Overwrites {
    fn from(object: &ComponentVersionOverwrites) -> Self {
        object
            .overwrites
            .iter()
            .map(|overwrite| Rule {
                source: (&overwrite.source).into(),
                substitution: (&overwrite.substitution).into(),
            })
            .collect()
    }
}

impl FromIterator<Rule> for Overwrites {
    fn from_iter<I: IntoIterator<Item = Rule>>(rules: I) -> Self {
        Self { rules: rules.into_iter().collect() }
    }
}

/// Result of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleOutcome {
    /// The source does not match: these specified attributes differ.
    NotMatched(AttributeSet),
    /// The source matches, and the whole substitution, which may be empty, was applied.
    Applied,
    /// The source matches, but an earlier rule has set at least one attribute of the substitution,
    /// so the whole rule is dropped. Contains the index of the rule that set each conflicting
    /// attribute.
    Ignored(Conflicts),
    /// Earlier rules had replaced all three attributes.
    NotReached,
}

/// Indexes of the conflicting earlier rules, by attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Conflicts([Option<usize>; 3]);

impl Conflicts {
    /// Returns the conflicting attributes, each with the index of the rule that set it first.
    pub fn iter(self) -> impl Iterator<Item = (Attribute, usize)> {
        Attribute::ALL
            .into_iter()
            .filter_map(move |attribute| self.0[attribute.slot()].map(|rule| (attribute, rule)))
    }
}

/// Result of applying rules to a reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Substitution {
    /// Reference as written, with the repository of the Context filled in.
    pub original: Reference,
    /// Reference in use. It equals `original` if no rule matched, and sometimes even after a match.
    pub effective: Reference,
    /// True if at least one source matched. The condition depends on this flag, not on a
    /// difference.
    pub matched: bool,
}

impl Overwrites {
    /// Returns the rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Computes the effective reference.
    ///
    /// Every source is compared with `original`, never with a partly substituted reference. Callers
    /// must not apply the rules to a result again (`components.md` 2.2, 2.3).
    pub fn apply(&self, original: &Reference) -> Substitution {
        self.run(original, None)
    }

    /// Computes the same as [`Overwrites::apply`], with the result of each rule.
    pub fn explain(&self, original: &Reference) -> (Substitution, Vec<RuleOutcome>) {
        let mut outcomes = Vec::with_capacity(self.rules.len());
        let substitution = self.run(original, Some(&mut outcomes));
        outcomes.resize(self.rules.len(), RuleOutcome::NotReached);
        (substitution, outcomes)
    }

    /// Reports whether a rule applies to a reference. Later rules are ignored.
    pub(crate) fn applies(&self, rule: usize, original: &Reference) -> bool {
        let mut slots: [Option<usize>; 3] = [None; 3];
        let mut outcome = None;
        for (index, rule) in self.rules.iter().enumerate().take(rule + 1) {
            if slots.iter().all(Option::is_some) {
                return false;
            }
            outcome = rule.source.matches(original).then(|| take(rule, index, &mut slots));
        }
        outcome == Some(RuleOutcome::Applied)
    }

    fn run(&self, original: &Reference, mut outcomes: Option<&mut Vec<RuleOutcome>>) -> Substitution {
        // Index of the replacing rule for each attribute. An equal value fills the slot too: this
        // is how a user pins an attribute against broader rules further down.
        let mut slots: [Option<usize>; 3] = [None; 3];
        let mut matched = false;
        for (index, rule) in self.rules.iter().enumerate() {
            if slots.iter().all(Option::is_some) {
                break;
            }
            let outcome = rule.source.matches(original).then(|| take(rule, index, &mut slots));
            matched |= outcome.is_some();
            if let Some(outcomes) = &mut outcomes {
                outcomes.push(
                    outcome.unwrap_or_else(|| RuleOutcome::NotMatched(rule.source.differing(original))),
                );
            }
        }
        Substitution { original: original.clone(), effective: self.fill(original, slots), matched }
    }

    fn fill(&self, original: &Reference, slots: [Option<usize>; 3]) -> Reference {
        let from = |attribute: Attribute| {
            slots[attribute.slot()].and_then(|index| self.rules.get(index)).map(|rule| &rule.substitution)
        };
        let text = |new: Option<&Option<String>>, old: &String| {
            new.cloned().flatten().unwrap_or_else(|| old.clone())
        };
        Reference {
            repository: match from(Attribute::Repository) {
                Some(substitution) => substitution.repository.clone(),
                None => original.repository.clone(),
            },
            name: text(from(Attribute::Name).map(|substitution| &substitution.name), &original.name),
            version: text(
                from(Attribute::Version).map(|substitution| &substitution.version),
                &original.version,
            ),
        }
    }
}

/// Fills all slots of a matching rule, or none.
fn take(rule: &Rule, index: usize, slots: &mut [Option<usize>; 3]) -> RuleOutcome {
    let specified = rule.substitution.specified();
    let mut conflicts = Conflicts::default();
    for attribute in specified.iter() {
        conflicts.0[attribute.slot()] = slots[attribute.slot()];
    }
    if conflicts != Conflicts::default() {
        return RuleOutcome::Ignored(conflicts);
    }
    for attribute in specified.iter() {
        slots[attribute.slot()] = Some(index);
    }
    RuleOutcome::Applied
}

#[cfg(test)]
mod tests;
