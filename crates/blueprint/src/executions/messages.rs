//! Warnings and errors about the output of executions. Values of imports are redacted in them
//! (`blueprints.md` 6.2).

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::{ExecutionError, Executions};
use crate::bindings::Bindings;
use crate::deploy::DecodeError;
use crate::redaction::{Guard, REDACTED, Texts};
use crate::template::{Execution, Output};

impl Executions<'_> {
    /// Creates a redacted decoding error. `decode` is the function that failed.
    pub(super) fn decode_error<T>(
        &self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        source: DecodeError,
        decode: impl Fn(&mut Output) -> Result<T, DecodeError>,
    ) -> ExecutionError {
        let executor = execution.executor.name.clone();
        let state = self.state(execution);
        let Some(guard) = self.engine.guard(execution, bindings, state) else {
            return ExecutionError::Decode { kind: execution.kind, executor, source };
        };
        let others = self.engine.run_with_others(execution, bindings, state, &guard);
        let others = others.into_iter().map(|output| decode(&mut output.ok()?).err()).collect();
        ExecutionError::Decode { kind: execution.kind, executor, source: guard.withhold(source, others) }
    }

    /// Redacts parts of a message or error that depend on the imports. `again` produces the same
    /// message in a run with other imports.
    pub(crate) fn withhold<T: Texts>(
        &self,
        message: T,
        imports: &Map<String, Value>,
        again: impl Fn(&mut Self, &Map<String, Value>) -> Option<T>,
    ) -> T {
        if self.inputs.show_values {
            return message;
        }
        let values: Vec<&Value> = imports.values().collect();
        let public = self.standard.iter().map(|(_, value)| Cow::Owned(value.to_string())).collect();
        let guard = Guard::new(&values, Some(&self.inputs.blueprint.files), public);
        let run = |others: Map<String, Value>| {
            let mut executions = Self::new(self.inputs, self.states.clone()).ok()?;
            executions.engine = executions.engine.repeated();
            again(&mut executions, &others)
        };
        let others = guard.others(imports).into_iter().map(run).collect();
        guard.withhold(message, others)
    }

    /// Warns if the output lacks the expected key or has unknown ones.
    pub(super) fn look_over(
        &mut self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        output: &Output,
        key: &'static str,
    ) {
        let misspelt =
            !output.document.is_empty() && output.get(key).is_none() && output.get("state").is_none();
        if misspelt {
            let (kind, executor) = (execution.kind.label(), &execution.executor.name);
            self.warnings.push(format!("{kind} {executor:?}: the output has no key {key}"));
        } else {
            self.warn_of_keys(execution, bindings, output, &[key, "state"]);
        }
    }

    /// Warns about unknown keys, which are most likely misspelt. Spiff templates are exempt,
    /// because they use further nodes as helpers.
    pub(super) fn warn_of_keys(
        &mut self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        output: &Output,
        known: &[&str],
    ) {
        const MOST: usize = 5;
        if execution.executor.type_.as_deref() == Some("Spiff") {
            return;
        }
        let unknown = output
            .document
            .keys()
            .filter(|key| !known.iter().any(|known| known.eq_ignore_ascii_case(key)))
            .take(MOST);
        let names: Vec<&str> = unknown.map(String::as_str).collect();
        if names.is_empty() {
            return;
        }
        // A key that the template does not contain literally was rendered from a value, so it is
        // redacted.
        let guard = self.engine.guard(execution, bindings, self.state(execution));
        let is_shown = |name: &str| guard.as_ref().is_none_or(|guard| guard.is_written(name));
        let shown = |name: &str| format!("{:?}", if is_shown(name) { name } else { REDACTED });
        let names: Vec<String> = names.into_iter().map(shown).collect();
        let (kind, executor) = (execution.kind.label(), &execution.executor.name);
        let (names, known) = (names.join(", "), known.join(" and "));
        let message = format!(
            "{kind} {executor:?}: {names} in the output is unknown and ignored; only {known} are read"
        );
        self.warnings.push(message);
    }
}
