//! Everything that a job computes before it writes: the rendering, the copies of the imports, their fingerprints.

use groundwork_api::{ImportStatus, Installation};

use crate::data;
use crate::error::OperationError;
use crate::imports::ImportedObjects;
use crate::job::{BlueprintCache, Inputs, Outcome, render_with};
use crate::machine::Write;

/// The result of rendering for one job.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Generation of the spec that was rendered.
    pub generation: i64,
    pub job_id: String,
    pub outcome: Outcome,
    /// For `status.imports`.
    pub imports: Vec<ImportStatus>,
    /// The Installation imports something.
    pub has_imports: bool,
    /// Hash over all imports (`installations.md` 5.4).
    pub imports_hash: String,
    /// Copies of the imports in the own scope.
    pub(crate) copies: Vec<Write>,
}

/// Renders for the job that the Installation has; the cache is asked for its blueprint first.
pub fn prepare(inputs: &Inputs<'_>, blueprints: Option<&dyn BlueprintCache>) -> Prepared {
    let installation = inputs.installation;
    let job_id = installation.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default();
    let outcome = render_with(inputs, blueprints);
    let (imports, imports_hash) = data::fingerprints(installation, inputs.objects);
    let copies = if outcome.error.is_none() {
        data::import_copies(installation, &job_id, &outcome.imports).into_iter().map(Write::from).collect()
    } else {
        Vec::new()
    };
    Prepared {
        generation: installation.metadata.generation.unwrap_or_default(),
        job_id,
        has_imports: !imports.is_empty(),
        imports,
        imports_hash,
        copies,
        outcome,
    }
}

impl Prepared {
    /// A job that came to its end before anything was rendered.
    pub fn failed(installation: &Installation, error: OperationError) -> Self {
        let outcome = Outcome { error: Some(error.into()), ..Outcome::default() };
        Self {
            generation: installation.metadata.generation.unwrap_or_default(),
            job_id: installation.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default(),
            outcome,
            imports: Vec::new(),
            has_imports: false,
            imports_hash: String::new(),
            copies: Vec::new(),
        }
    }
}

/// The hash over all imports as they are now.
pub fn imports_hash(installation: &Installation, objects: &dyn ImportedObjects) -> String {
    data::fingerprints(installation, objects).1
}
