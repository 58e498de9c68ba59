//! Redaction of messages about executions (`blueprints.md` 10).

use std::borrow::Cow;

use groundwork_yaml as yaml;
use serde_json::{Map, Value};

use super::{Engine, Execution, Output, Source, Template, TemplateError};
use crate::bindings::{Bindings, is_sensitive};
use crate::redaction::Guard;

/// Key of the stored state among the values.
const STATE: &str = "state";

impl Engine<'_> {
    /// Runs an execution again with other values, once for each kind of replacement.
    pub(crate) fn run_with_others(
        &self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        state: Option<&str>,
        guard: &Guard<'_>,
    ) -> Vec<Result<Output, TemplateError>> {
        let engine = self.repeated();
        let run = |others: Map<String, Value>| {
            engine.kubeconfigs().begin();
            let mut changed = bindings.clone();
            for (name, _) in bindings.iter() {
                if let Some(other) = others.get(name) {
                    changed.bind(name, other);
                }
            }
            let state = state.map(|_| others.get(STATE).map(yaml::to_string).unwrap_or_default());
            engine.attempt(execution, &changed, state.as_deref())
        };
        guard.others(&values(bindings, state)).into_iter().map(run).collect()
    }

    /// Returns the redaction for messages about an execution, or `None` if they may contain values.
    pub(crate) fn guard(
        &self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        state: Option<&str>,
    ) -> Option<Guard<'_>> {
        if self.show_values {
            return None;
        }
        // Names of bindings are not values, so messages may show them.
        let mut public: Vec<Cow<'_, str>> = bindings.iter().map(|(name, _)| Cow::Borrowed(name)).collect();
        public.push(Cow::Borrowed(STATE));
        if let Ok(template) = Template::of(execution, &self.functions.files) {
            public.push(match template.source {
                Source::Text(text) => Cow::Owned(text.to_string()),
                Source::Structure(structure) => Cow::Owned(structure.to_string()),
            });
        }
        let shown = bindings.iter().filter(|(name, _)| !is_sensitive(name));
        public.extend(shown.map(|(_, value)| Cow::Owned(value.to_value().to_string())));
        let values = values(bindings, state);
        let values: Vec<&Value> = values.values().collect();
        Some(Guard::new(&values, Some(&self.functions.files), public))
    }

    pub(super) fn withheld(
        &self,
        error: TemplateError,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
        state: Option<&str>,
    ) -> TemplateError {
        let TemplateError::Failed(mut report) = error else { return error };
        let (place, problem) = report.split();
        if problem.is_empty() {
            return TemplateError::Failed(report);
        }
        let Some(guard) = self.guard(execution, bindings, state) else {
            return TemplateError::Failed(report);
        };
        let others = self.run_with_others(execution, bindings, state, &guard);
        let others: Vec<Option<&str>> = others
            .iter()
            .map(|other| {
                let (other_place, problem) = other.as_ref().err()?.report()?.split();
                (other_place == place).then_some(problem)
            })
            .collect();
        let problem = guard.message(problem, &others);
        report.reword(&problem);
        TemplateError::Failed(report)
    }
}

/// Returns the values that messages must not show, including the stored state.
fn values(bindings: &Bindings<'_>, state: Option<&str>) -> Map<String, Value> {
    let bound = bindings.iter().filter(|(name, _)| is_sensitive(name));
    let mut values: Map<String, Value> =
        bound.map(|(name, value)| (name.to_owned(), value.to_value().into_owned())).collect();
    if let Some(state) = state.and_then(|text| yaml::from_str(text).ok()) {
        values.insert(STATE.to_owned(), state);
    }
    values
}
