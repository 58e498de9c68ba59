//! Imports of children that the parent has nothing for (`blueprints.md` 9.2, `installations.md` 4.6).

use std::collections::HashSet;
use std::fmt;

use groundwork_api::{Blueprint, InstallationTemplate};
use serde_json::{Map, Value};

use super::declarations::{Declarations, Declared};
use super::wiring::{self, Exporters, Kind, Source};

/// What is left of templates, and what is not.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Removal {
    /// The templates in their order, without the imports that cannot be satisfied.
    pub templates: Vec<InstallationTemplate>,
    pub dropped: Vec<DroppedImport>,
}

/// An import that a child does without in this run. It displays as a sentence without values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedImport {
    /// Position of the template.
    pub child: usize,
    pub child_name: String,
    /// `data` or `target`.
    pub kind: &'static str,
    /// The import of the child.
    pub import: String,
    /// The import of the parent that has no value; the first of them in a list or map.
    pub parent_import: String,
    pub reason: RemovalReason,
}

/// Why an import of the parent may be without value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RemovalReason {
    /// It is not required.
    Optional,
    /// It is nested in this one, whatever it says of itself.
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

/// Takes out of copies of the templates every import that is wired to an optional or conditional import of the parent
/// which has no value in `imports`. Lists and maps of Targets go as a whole. What a sibling exports stays.
///
/// `imports` are the final ones of the parent: values, defaults and bindings of import executions. `definition` is a
/// defaulted one. An import counts as wired to what it can get its value from: a `dataRef` is not wired to a target import.
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
    /// The imports that go, with kind and position in their list.
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

    /// The import of the parent that this source reads, if it has no value and need not have one.
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
            // The missing owner explains more than that the import is optional as well.
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
    // A list that is absent stays absent.
    if imports.data.written().is_some() {
        retain(imports.data.to_mut(), |index| !gone.contains(&(Kind::Data, index)));
    }
    if imports.targets.written().is_some() {
        retain(imports.targets.to_mut(), |index| !gone.contains(&(Kind::Target, index)));
    }
}

fn retain<T>(list: &mut Vec<T>, keep: impl Fn(usize) -> bool) {
    let mut index = 0;
    list.retain(|_| {
        index += 1;
        keep(index - 1)
    });
}
