//! Removal of children's imports for which the parent has no value (`blueprints.md` 9.2,
//! `installations.md` 4.6).

use std::collections::HashSet;
use std::fmt;

use groundwork_api::{Blueprint, InstallationTemplate, List};
use serde_json::{Map, Value};

use super::declarations::{Declarations, Declared};
use super::wiring::{self, Exporters, Kind, Source};

/// Templates after the removal, and the removed imports.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Removal {
    /// Templates in their order, without the imports that cannot be satisfied.
    pub templates: Vec<InstallationTemplate>,
    pub dropped: Vec<DroppedImport>,
}

/// Removed import of a child. It displays as a sentence without values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedImport {
    /// Index of the template.
    pub child: usize,
    pub child_name: String,
    /// `data` or `target`.
    pub kind: &'static str,
    /// Import of the child.
    pub import: String,
    /// Import of the parent without a value; in a list or map, the first one.
    pub parent_import: String,
    pub reason: RemovalReason,
}

/// Reason why an import of the parent may have no value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalReason {
    /// The import is optional.
    Optional,
    /// The import is nested in this owner, so its own `required` does not matter.
    Conditional { owner: String },
}

impl fmt::Display for DroppedImport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { child_name, kind, import, parent_import, reason, .. } = self;
        write!(
            f,
            "subinstallation {child_name:?}: {kind} import {import:?} is dropped: import {parent_import:?} of the parent has no \
             value and is "
        )?;
        match reason {
            RemovalReason::Optional => f.write_str("optional"),
            RemovalReason::Conditional { owner } => write!(f, "conditional on {owner:?}"),
        }
    }
}

/// Removes every import from copies of the templates that is wired to an optional or conditional
/// import of the parent without a value in `imports`.
///
/// Lists and maps of Targets are removed as a whole. Imports of a sibling's export stay. `imports`
/// are the final ones of the parent: values, defaults and bindings of import executions.
/// `definition` is a defaulted one. An import counts as wired to a name only if the kinds match: a
/// `dataRef` is not wired to a Target import.
pub fn remove_unsatisfied(
    templates: &[InstallationTemplate],
    definition: &Blueprint,
    imports: &Map<String, Value>,
) -> Removal {
    let context = Context {
        declared: Declarations::all(definition),
        exporters: Exporters::new(templates),
        values: imports,
    };
    let mut removal = Removal::default();
    for (child, template) in templates.iter().enumerate() {
        let dropped = context.dropped(child, template);
        let mut template = template.clone();
        if !dropped.is_empty() {
            take_out(&mut template, &dropped);
        }
        removal.templates.push(template);
        removal.dropped.extend(dropped.into_iter().map(|(_, import)| import));
    }
    removal
}

struct Context<'a> {
    declared: Declarations<'a>,
    exporters: Exporters<'a>,
    values: &'a Map<String, Value>,
}

impl Context<'_> {
    /// Returns the imports to remove, with kind and index in their list.
    fn dropped(&self, child: usize, template: &InstallationTemplate) -> Vec<((Kind, usize), DroppedImport)> {
        let drop = |import: wiring::Import<'_>| {
            let parent = import.sources.iter().find_map(|source| self.unsatisfied(child, source))?;
            let dropped = DroppedImport {
                child,
                child_name: template.name().to_owned(),
                kind: import.kind.as_str(),
                import: import.name.to_owned(),
                parent_import: parent.name().to_owned(),
                reason: self.reason(parent),
            };
            Some(((import.kind, import.index), dropped))
        };
        wiring::imports(template).filter_map(drop).collect()
    }

    /// Returns the parent's import that this source reads, if it has no value and does not need
    /// one.
    fn unsatisfied(&self, child: usize, source: &Source<'_>) -> Option<&Declared<'_>> {
        let parent = self.declared.provider(source)?;
        let may_be_absent = parent.owner.is_some() || parent.definition.required == Some(false);
        let sibling =
            source.form.sibling_kind().and_then(|kind| self.exporters.other(kind, parent.name(), child));
        let stays = !may_be_absent || self.values.contains_key(parent.name()) || sibling.is_some();
        (!stays).then_some(parent)
    }

    fn reason(&self, parent: &Declared<'_>) -> RemovalReason {
        let optional = parent.definition.required == Some(false);
        match parent.owner {
            // A missing owner explains more than the import being optional.
            Some(owner) if !optional || !self.values.contains_key(owner) => {
                RemovalReason::Conditional { owner: owner.to_owned() }
            }
            _ => RemovalReason::Optional,
        }
    }
}

fn take_out(template: &mut InstallationTemplate, dropped: &[((Kind, usize), DroppedImport)]) {
    let Some(imports) = &mut template.imports else { return };
    let gone: HashSet<(Kind, usize)> = dropped.iter().map(|(place, _)| *place).collect();
    // As in Landscaper, a list that becomes empty is not written.
    let data = kept(&imports.data, |index| !gone.contains(&(Kind::Data, index)));
    let targets = kept(&imports.targets, |index| !gone.contains(&(Kind::Target, index)));
    (imports.data, imports.targets) = (data, targets);
    if imports.data.is_empty() && imports.targets.is_empty() {
        template.imports = None;
    }
}

fn kept<T: Clone>(list: &List<T>, keep: impl Fn(usize) -> bool) -> List<T> {
    let kept: Vec<T> =
        list.iter().enumerate().filter(|(index, _)| keep(*index)).map(|(_, entry)| entry.clone()).collect();
    if kept.is_empty() { List::absent() } else { kept.into() }
}
