//! Imports of the parent, by name.

use std::collections::HashMap;

use groundwork_api::{Blueprint, FieldType, ImportDefinition};
use serde_json::{Map, Value};

use super::wiring::{Form, Source};

/// Import that the blueprint of the parent declares.
#[derive(Debug, Clone, Copy)]
pub(super) struct Declared<'a> {
    pub(super) definition: &'a ImportDefinition,
    pub(super) type_: FieldType,
    /// Name of the import that contains this nested one.
    pub(super) owner: Option<&'a str>,
}

impl<'a> Declared<'a> {
    pub(super) fn name(&self) -> &'a str {
        &self.definition.name
    }
}

/// Imports of a parent. Names are unique in the whole tree (V1).
#[derive(Debug, Default)]
pub(super) struct Declarations<'a> {
    by_name: HashMap<&'a str, Declared<'a>>,
    has_elements: bool,
}

impl<'a> Declarations<'a> {
    /// Returns all imports, at any depth.
    pub(super) fn all(definition: &'a Blueprint) -> Self {
        walk(definition).into_iter().collect()
    }

    /// Returns the imports of this run: those on the top level, or nested in an import that has a
    /// value (`blueprints.md` 9.3).
    pub(super) fn of_run(definition: &'a Blueprint, imports: &Map<String, Value>) -> Self {
        let counts = |declared: &Declared<'_>| declared.owner.is_none_or(|owner| imports.contains_key(owner));
        walk(definition).into_iter().filter(counts).collect()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Declared<'a>> {
        self.by_name.get(name)
    }

    /// Returns the import that a child reads by this source. If the parent has any list or map,
    /// `x[y]` is an element of `x`, otherwise a plain name (`blueprints.md` 9.3).
    pub(super) fn provider(&self, source: &Source<'_>) -> Option<&Declared<'a>> {
        let of_type =
            |name: &str, types: &[FieldType]| self.get(name).filter(|import| types.contains(&import.type_));
        match source.form {
            Form::Data => of_type(source.name, &[FieldType::Data]),
            Form::ListRef => of_type(source.name, &[FieldType::TargetList]),
            Form::MapRef => of_type(source.name, &[FieldType::TargetMap]),
            Form::Target => match self.element_of(source.name) {
                Some(whole) => of_type(whole, &[FieldType::TargetList, FieldType::TargetMap]),
                None => of_type(source.name, &[FieldType::Target]),
            },
        }
    }

    /// Returns the `x` of `x[y]`, if the text denotes an element here.
    pub(super) fn element_of<'s>(&self, name: &'s str) -> Option<&'s str> {
        let (whole, _) = name.strip_suffix(']')?.rsplit_once('[')?;
        self.has_elements.then_some(whole)
    }
}

impl<'a> FromIterator<Declared<'a>> for Declarations<'a> {
    fn from_iter<I: IntoIterator<Item = Declared<'a>>>(imports: I) -> Self {
        let mut declarations = Self::default();
        for import in imports {
            declarations.has_elements |= matches!(import.type_, FieldType::TargetList | FieldType::TargetMap);
            declarations.by_name.entry(import.name()).or_insert(import);
        }
        declarations
    }
}

/// Returns every import of the tree, each before its nested ones. Validation has rejected imports
/// without a type.
pub(super) fn walk(definition: &Blueprint) -> Vec<Declared<'_>> {
    let mut found = Vec::new();
    let mut open: Vec<(&ImportDefinition, Option<&str>)> =
        definition.imports.iter().rev().map(|import| (import, None)).collect();
    while let Some((definition, owner)) = open.pop() {
        open.extend(definition.imports.iter().rev().map(|nested| (nested, Some(definition.name.as_str()))));
        if let Some(type_) = definition.type_.as_deref().and_then(|name| name.parse().ok()) {
            found.push(Declared { definition, type_, owner });
        }
    }
    found
}
