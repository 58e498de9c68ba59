//! The rules of a `ComponentVersionOverwrites` object (`components.md` section 2).

use groundwork_api::{ComponentVersionOverwriteReference, ComponentVersionOverwrites};
use serde::{Deserialize, Serialize};

use crate::reference::{Reference, RepositoryContext};

/// One of the three parts of a reference that a rule can look at and replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Attribute {
    Repository,
    Name,
    Version,
}

impl Attribute {
    /// All three, in the order in which messages list them.
    pub const ALL: [Self; 3] = [Self::Repository, Self::Name, Self::Version];

    /// The field of the manifest that holds it.
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

/// A set of attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct AttributeSet([bool; 3]);

impl AttributeSet {
    pub fn contains(self, attribute: Attribute) -> bool {
        self.0[attribute.slot()]
    }

    pub fn is_empty(self) -> bool {
        self.0 == [false; 3]
    }

    /// The members, in the order of [`Attribute::ALL`].
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

/// The attributes that one half of a rule specifies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Attributes {
    pub repository: Option<RepositoryContext>,
    pub name: Option<String>,
    pub version: Option<String>,
}

impl Attributes {
    /// Which attributes are specified.
    pub fn specified(&self) -> AttributeSet {
        AttributeSet([self.repository.is_some(), self.name.is_some(), self.version.is_some()])
    }

    /// Whether a reference has every specified attribute. An attribute that is not specified matches anything; a
    /// specified repository context never matches an absent one.
    fn matches(&self, reference: &Reference) -> bool {
        // Texts first: most rules are told apart by a name, and comparing JSON costs more.
        self.name.as_ref().is_none_or(|name| *name == reference.name)
            && self.version.as_ref().is_none_or(|version| *version == reference.version)
            && (self.repository.is_none() || self.repository == reference.repository)
    }

    /// The specified attributes in which `reference` differs: none if it matches.
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
    /// Empty strings and `null` count as not specified, `{}` as specified (`components.md` 1.3).
    fn from(wire: &ComponentVersionOverwriteReference) -> Self {
        Self {
            repository: wire.repository_context.get().cloned().and_then(RepositoryContext::new),
            name: wire.component_name().map(str::to_owned),
            version: wire.version().map(str::to_owned),
        }
    }
}

/// "Where a reference looks like `source`, put in `substitution`."
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rule {
    pub source: Attributes,
    pub substitution: Attributes,
}

/// The ordered rules of one object.
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

/// What became of one rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RuleOutcome {
    /// The source does not match: these specified attributes differ.
    NotMatched(AttributeSet),
    /// The source matches and the substitution was taken as a whole (it may be empty).
    Applied,
    /// The source matches, but an earlier rule has set at least one attribute of the substitution; the whole
    /// rule is dropped. Holds the index of the rule that set each attribute in conflict.
    Ignored(Conflicts),
    /// All three attributes had been replaced before.
    NotReached,
}

/// Which earlier rule stands in the way, attribute by attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Conflicts([Option<usize>; 3]);

impl Conflicts {
    /// The attributes in conflict, each with the index of the rule that set it first.
    pub fn iter(self) -> impl Iterator<Item = (Attribute, usize)> {
        Attribute::ALL
            .into_iter()
            .filter_map(move |attribute| self.0[attribute.slot()].map(|rule| (attribute, rule)))
    }
}

/// The result of applying rules to a reference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Substitution {
    /// The reference as written, after defaulting from the Context.
    pub original: Reference,
    /// The reference that is used. Equal to `original` when nothing matched, but possibly also when
    /// something did.
    pub effective: Reference,
    /// Whether at least one source matched; this, not a difference, drives the condition.
    pub matched: bool,
}

impl Overwrites {
    /// The rules, in order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Computes the effective reference.
    ///
    /// Every source is compared with `original`, never with a partly substituted reference, and a result must
    /// not be fed in again (`components.md` 2.2, 2.3).
    pub fn apply(&self, original: &Reference) -> Substitution {
        self.run(original, None)
    }

    /// Like [`Overwrites::apply`], and tells what became of each rule.
    pub fn explain(&self, original: &Reference) -> (Substitution, Vec<RuleOutcome>) {
        let mut outcomes = Vec::with_capacity(self.rules.len());
        let substitution = self.run(original, Some(&mut outcomes));
        outcomes.resize(self.rules.len(), RuleOutcome::NotReached);
        (substitution, outcomes)
    }

    /// Whether one rule applies to a reference, looking at no rule behind it.
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
        // For each attribute the rule that replaces it. An equal value fills its slot too: that is how a user
        // pins an attribute against broader rules further down.
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

/// Fills the slots of a rule that matches, all of them or none.
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
