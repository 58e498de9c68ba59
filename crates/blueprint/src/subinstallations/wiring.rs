//! Imports and exports of templates in one form for all spellings (`blueprints.md` 1.5).

use std::collections::HashMap;

use groundwork_api::{DataExport, InstallationTemplate, TargetExport, TargetSource};

/// Kind of a name. Data and Targets have separate names, so an equal name does not connect them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Kind {
    Data,
    Target,
}

impl Kind {
    /// Returns the member of `imports` and `exports` for this kind.
    pub(super) fn list(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Target => "targets",
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Target => "target",
        }
    }
}

/// Import of a template.
#[derive(Debug)]
pub(super) struct Import<'a> {
    pub(super) kind: Kind,
    /// Position of the import in its list of the template.
    pub(super) index: usize,
    pub(super) name: &'a str,
    /// Names that the import reads; empty if the template is invalid, which V25 to V31 report.
    pub(super) sources: Vec<Source<'a>>,
}

/// Name that an import reads.
#[derive(Debug)]
pub(super) struct Source<'a> {
    pub(super) form: Form,
    /// Name as written in the template.
    pub(super) name: &'a str,
    pub(super) place: ImportSlot<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Data,
    Target,
    ListRef,
    MapRef,
}

impl Form {
    /// Returns the kind that a sibling would have to export. Whole lists and maps come from the
    /// parent only (`blueprints.md` 9.3).
    pub(super) fn sibling_kind(self) -> Option<Kind> {
        match self {
            Self::Data => Some(Kind::Data),
            Self::Target => Some(Kind::Target),
            Self::ListRef | Self::MapRef => None,
        }
    }
}

/// Place of a name in an import: the whole import, an element of a list, or an entry of a map.
#[derive(Debug, Clone, Copy)]
pub(super) enum ImportSlot<'a> {
    Whole,
    Index(usize),
    Key(&'a str),
}

/// Returns the imports of a template, data first.
pub(super) fn imports(template: &InstallationTemplate) -> impl Iterator<Item = Import<'_>> {
    let data = template.imports.iter().flat_map(|imports| imports.data.iter().enumerate());
    let targets = template.imports.iter().flat_map(|imports| imports.targets.iter().enumerate());
    let data = data.map(|(index, import)| {
        let name = import.data_ref.as_deref().filter(|name| !name.is_empty());
        let sources = name.map(|name| Source { form: Form::Data, name, place: ImportSlot::Whole });
        Import { kind: Kind::Data, index, name: &import.name, sources: sources.into_iter().collect() }
    });
    data.chain(targets.map(|(index, import)| {
        let sources = import.source().map(target_sources).unwrap_or_default();
        Import { kind: Kind::Target, index, name: &import.name, sources }
    }))
}

fn target_sources(source: TargetSource<'_>) -> Vec<Source<'_>> {
    let whole = |form, name| vec![Source { form, name, place: ImportSlot::Whole }];
    let entry = |(name, place)| Source { form: Form::Target, name, place };
    let mut sources: Vec<Source<'_>> = match source {
        TargetSource::Single(name) => whole(Form::Target, name),
        TargetSource::ListRef(name) => whole(Form::ListRef, name),
        TargetSource::MapRef(name) => whole(Form::MapRef, name),
        TargetSource::List(names) => names
            .into_iter()
            .enumerate()
            .map(|(index, name)| entry((name, ImportSlot::Index(index))))
            .collect(),
        TargetSource::Map(names) => {
            names.into_iter().map(|(key, name)| entry((name, ImportSlot::Key(key)))).collect()
        }
    };
    // V32 and V34 report empty names.
    sources.retain(|source| !source.name.is_empty());
    sources
}

/// Export of a template.
#[derive(Debug)]
pub(super) struct Export<'a> {
    pub(super) kind: Kind,
    /// Position of the export in its list of the template.
    pub(super) index: usize,
    pub(super) name: &'a str,
    /// Name in the scope that siblings share; empty if it is missing (V35, V36).
    pub(super) scope_name: &'a str,
}

/// Returns the exports of a template, data first.
pub(super) fn exports(template: &InstallationTemplate) -> impl Iterator<Item = Export<'_>> {
    let data = template.exports.iter().flat_map(|exports| exports.data.iter().enumerate());
    let targets = template.exports.iter().flat_map(|exports| exports.targets.iter().enumerate());
    let data = data.map(|(index, DataExport { name, data_ref })| Export {
        kind: Kind::Data,
        index,
        name,
        scope_name: data_ref,
    });
    data.chain(targets.map(|(index, TargetExport { name, target })| Export {
        kind: Kind::Target,
        index,
        name,
        scope_name: target,
    }))
}

/// Index of exporters by name.
#[derive(Debug, Default)]
pub(super) struct Exporters<'a> {
    data: ByName<'a>,
    targets: ByName<'a>,
}

/// Indexes of templates by name, ascending, without duplicates.
type ByName<'a> = HashMap<&'a str, Vec<usize>>;

impl<'a> Exporters<'a> {
    pub(super) fn new(templates: &'a [InstallationTemplate]) -> Self {
        let mut exporters = Self::default();
        for (child, template) in templates.iter().enumerate() {
            for export in exports(template).filter(|export| !export.scope_name.is_empty()) {
                let by_name = match export.kind {
                    Kind::Data => &mut exporters.data,
                    Kind::Target => &mut exporters.targets,
                };
                let known = by_name.entry(export.scope_name).or_default();
                if known.last() != Some(&child) {
                    known.push(child);
                }
            }
        }
        exporters
    }

    fn by_name(&self, kind: Kind) -> &ByName<'a> {
        match kind {
            Kind::Data => &self.data,
            Kind::Target => &self.targets,
        }
    }

    /// Returns the children that export the name.
    pub(super) fn of(&self, kind: Kind, name: &str) -> &[usize] {
        self.by_name(kind).get(name).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the first child other than `child` that exports the name.
    pub(super) fn other(&self, kind: Kind, name: &str, child: usize) -> Option<usize> {
        self.of(kind, name).iter().copied().find(|exporter| *exporter != child)
    }

    /// Returns the names with several exporters, in no particular order.
    pub(super) fn repeated(&self, kind: Kind) -> impl Iterator<Item = (&'a str, &[usize])> {
        let several = self.by_name(kind).iter().filter(|(_, children)| children.len() > 1);
        several.map(|(name, children)| (*name, children.as_slice()))
    }
}
