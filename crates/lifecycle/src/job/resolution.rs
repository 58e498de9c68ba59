//! The part of a job that the resolver does: the effective reference and its component versions
//! (`components.md` 4.1).

use groundwork_component::{
    ComponentVersion, Descriptor, GraphEntry, OVERWRITE_CONDITION, Repositories, Substitution,
};
use serde::{Deserialize, Serialize};

use super::component::Selection;
use super::signature::{self, SignatureCheck};
use super::{Inputs, JobOutcome, OverwriteReport, Warning, begin};
use crate::conditions::ConditionUpdate;
use crate::error::OperationError;

/// Facts about the component of an Installation that need no access to a repository.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resolution {
    /// Original and effective reference; absent if the Installation names no component, or after an
    /// earlier error.
    pub reference: Option<Substitution>,
    /// Result of each rule; absent if no overwrites apply.
    pub overwrites: Option<OverwriteReport>,
    /// Change to the condition `ComponentReferenceOverwrite`, set even after an error
    /// (`components.md` 3.2).
    pub condition: OverwriteChange,
    pub warnings: Vec<Warning>,
    /// Error that ends the job at this point.
    pub error: Option<OperationError>,
    selection: Option<Selection>,
}

/// Change to the condition about overwrites (`components.md` 3.2).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum OverwriteChange {
    /// The overwrites could not be evaluated. The condition of an earlier job stays.
    Keep,
    /// No overwrites apply, or the Installation has no component.
    Remove,
    Set(ConditionUpdate),
}

/// Evaluates the reference of an Installation, with the same errors and texts as [`super::render`].
/// Never accesses a repository.
pub fn resolve(inputs: &Inputs<'_>) -> Resolution {
    let mut outcome = JobOutcome::default();
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
    /// Creates the resolution of an Installation whose reference cannot be evaluated.
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

    /// Returns the component version and all versions that it refers to, the root first. Empty
    /// without a component.
    ///
    /// # Errors
    ///
    /// The error found by [`resolve`], or the error of the first version that cannot be read.
    pub fn closure(&self, repositories: &dyn Repositories) -> Result<Vec<ComponentVersion>, OperationError> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let Some(selection) = &self.selection else { return Ok(Vec::new()) };
        selection.closure(repositories, &selection.root(repositories)?)
    }

    /// Returns the component version alone, without the versions that it refers to. `None` without
    /// a component.
    ///
    /// # Errors
    ///
    /// The error found by [`resolve`], or the error of the lookup.
    pub fn root(&self, repositories: &dyn Repositories) -> Result<Option<ComponentVersion>, OperationError> {
        match (&self.error, &self.selection) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(selection)) => selection.root(repositories).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Checks the signature of the component if the policy or the Installation requires one
    /// (`components.md` 4.1, step 7). The caller checks it before any other use of the component.
    ///
    /// # Errors
    ///
    /// The signature is invalid, or no key or certificate is configured to check it.
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

    /// Returns the descriptors that are part of the Installation object.
    pub fn inline(&self) -> &[Descriptor] {
        self.selection.as_ref().map_or(&[], Selection::inline)
    }

    /// Returns the target of every reference of the closure, with the rules that changed it. Empty
    /// without a component and after an error.
    pub fn graph(&self, repositories: &dyn Repositories) -> Vec<GraphEntry> {
        self.selection.as_ref().map(|selection| selection.graph(repositories)).unwrap_or_default()
    }
}
