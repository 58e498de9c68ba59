//! The part of a job that the resolver does: the effective reference, and what belongs to it (`components.md` 4.1).

use groundwork_component::{
    ComponentVersion, Descriptor, GraphEntry, OVERWRITE_CONDITION, Repositories, Substitution,
};
use serde::{Deserialize, Serialize};

use super::component::Selection;
use super::signature::{self, SignatureCheck};
use super::{Inputs, Outcome, OverwriteReport, Warning, begin};
use crate::conditions::ConditionUpdate;
use crate::error::OperationError;

/// What is known of the component of an Installation before any repository is asked.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resolution {
    /// What became of the reference; absent when the Installation names no component, or when an error came before.
    pub reference: Option<Substitution>,
    /// What became of every rule; absent when none apply.
    pub overwrites: Option<OverwriteReport>,
    /// What happens to the condition `ComponentReferenceOverwrite`, also when there is an error (3.2).
    pub condition: OverwriteChange,
    pub warnings: Vec<Warning>,
    /// Why the job ends here.
    pub error: Option<OperationError>,
    selection: Option<Selection>,
}

/// What happens to the condition about overwrites (`components.md` 3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverwriteChange {
    /// Nothing could be evaluated: what an earlier job found stays.
    Keep,
    /// No overwrites apply, or there is no component.
    Remove,
    Set(ConditionUpdate),
}

/// Evaluates the reference of an Installation, with the errors and texts of [`super::render`]. Asks no repository.
pub fn resolve(inputs: &Inputs<'_>) -> Resolution {
    let mut outcome = Outcome::default();
    let (selection, error) = match begin(inputs, &mut outcome) {
        Ok(selection) => (selection, None),
        Err(error) => (None, Some(error.cause)),
    };
    let is_obsolete = outcome.obsolete_conditions.contains(&OVERWRITE_CONDITION);
    let update = outcome.conditions.into_iter().find(|update| update.type_name == OVERWRITE_CONDITION);
    let condition = match update {
        Some(update) => OverwriteChange::Set(update),
        None if is_obsolete => OverwriteChange::Remove,
        None => OverwriteChange::Keep,
    };
    Resolution {
        reference: outcome.reference,
        overwrites: outcome.overwrites,
        condition,
        warnings: outcome.warnings,
        error,
        selection,
    }
}

impl Resolution {
    /// Of an Installation whose reference cannot be evaluated.
    pub fn failed(error: OperationError) -> Self {
        Self {
            reference: None,
            overwrites: None,
            condition: OverwriteChange::Keep,
            warnings: Vec::new(),
            error: Some(error),
            selection: None,
        }
    }

    /// The component version and all that it refers to, the root first; empty without a component.
    ///
    /// # Errors
    ///
    /// The error that is known already, or the one of the first version that cannot be had.
    pub fn closure(&self, repositories: &dyn Repositories) -> Result<Vec<ComponentVersion>, OperationError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let Some(selection) = &self.selection else { return Ok(Vec::new()) };
        selection.closure(repositories, &selection.root(repositories)?)
    }

    /// The component version alone, without anything that it refers to; `None` without a component.
    ///
    /// # Errors
    ///
    /// The error that is known already, or why the version cannot be had.
    pub fn root(&self, repositories: &dyn Repositories) -> Result<Option<ComponentVersion>, OperationError> {
        match (&self.error, &self.selection) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(selection)) => selection.root(repositories).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Checks the signature of the component, if it has to carry one (4.1, step 7). Comes before anything is made of the component.
    ///
    /// # Errors
    ///
    /// The signature does not hold, or nothing says what it is to be checked with.
    pub fn verify(
        &self,
        check: SignatureCheck,
        inputs: &Inputs<'_>,
        repositories: &dyn Repositories,
    ) -> Result<(), OperationError> {
        match (&self.error, &self.selection) {
            (None, Some(selection)) => signature::verify(check, inputs, selection, repositories),
            _ => Ok(()),
        }
    }

    /// Descriptors that are written into the Installation.
    pub fn inline(&self) -> &[Descriptor] {
        self.selection.as_ref().map_or(&[], Selection::inline)
    }

    /// Where every reference of the closure leads, and which rules had a say; empty without a component, and after an error.
    pub fn graph(&self, repositories: &dyn Repositories) -> Vec<GraphEntry> {
        self.selection.as_ref().map(|selection| selection.graph(repositories)).unwrap_or_default()
    }
}
