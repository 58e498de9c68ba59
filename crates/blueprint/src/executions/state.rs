//! One execution with its stored state (`blueprints.md` 4.6).

use std::collections::BTreeSet;

use groundwork_api::{List, TemplateExecutor};
use serde_json::json;

use super::{ExecutionError, Executions};
use crate::bindings::Bindings;
use crate::field::{FieldError, FieldPath, Violation};
use crate::functions::KUBECONFIGS;
use crate::load::Blueprint;
use crate::template::{Execution, ExecutionKind, Output};

impl Blueprint {
    /// Returns the keys of states that the executions may have stored (`blueprints.md` 4.6), each
    /// once. If no file of the blueprint contains the word `state`, the list has at most the kept
    /// kubeconfigs, so that callers skip the lookup.
    pub fn state_keys(&self) -> Vec<String> {
        let kubeconfigs = self.asks_clusters.then(|| KUBECONFIGS.to_owned());
        if !self.mentions_state {
            return kubeconfigs.into_iter().collect();
        }
        let definition = &self.definition;
        let lists = [
            (ExecutionKind::Deploy, &definition.deploy_executions),
            (ExecutionKind::Subinstallation, &definition.subinstallation_executions),
            (ExecutionKind::Export, &definition.export_executions),
        ];
        let keys = |(kind, executors): (ExecutionKind, &List<TemplateExecutor>)| {
            executors.iter().filter_map(move |executor| kind.state_key(&executor.name)).collect::<Vec<_>>()
        };
        let keys: BTreeSet<String> = lists.into_iter().flat_map(keys).chain(kubeconfigs).collect();
        keys.into_iter().collect()
    }
}

impl Executions<'_> {
    pub(super) fn run(
        &mut self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
    ) -> Result<Output, ExecutionError> {
        self.engine.kubeconfigs().begin();
        let output = self.engine.run(execution, bindings, self.state(execution));
        // A failed execution keeps its kubeconfigs too: the next attempt needs no new ones.
        if let Some(state) = self.engine.kubeconfigs().changed_state() {
            self.states.insert(KUBECONFIGS.to_owned(), state);
        }
        let mut output = output?;
        self.texts.extend(output.text.take());
        if output.several_documents {
            let (kind, executor) = (execution.kind.label(), &execution.executor.name);
            self.warnings
                .push(format!("{kind} {executor:?}: only the first YAML document of the output is read"));
        }
        Ok(output)
    }

    /// Returns the stored state of an execution.
    pub(super) fn state(&self, execution: Execution<'_>) -> Option<&str> {
        let key = execution.kind.state_key(&execution.executor.name)?;
        self.states.get(&key).map(String::as_str)
    }

    /// Runs an execution and stores its state before the output is decoded, so that a later failure
    /// does not revert the state.
    pub(super) fn run_with_state(
        &mut self,
        execution: Execution<'_>,
        bindings: &Bindings<'_>,
    ) -> Result<Output, ExecutionError> {
        let output = self.run(execution, bindings)?;
        let key = execution.kind.state_key(&execution.executor.name);
        if let (Some(key), Some(state)) = (key, &output.state) {
            self.refuse_shared_state(execution)?;
            self.states.insert(key, state.clone());
        }
        Ok(output)
    }

    /// Rejects executions without a name if they would share one state (`blueprints.md` 1.8).
    pub(super) fn refuse_shared_state(&self, execution: Execution<'_>) -> Result<(), ExecutionError> {
        let executors = executors(self.inputs.blueprint, execution.kind);
        let nameless = executors.iter().filter(|executor| executor.name.is_empty()).count();
        if !execution.executor.name.is_empty() || nameless < 2 {
            return Ok(());
        }
        let path = FieldPath::root(execution.kind.list()).index(execution.index);
        let detail = "several executions have no name, so that they would share their state; give them names";
        let violation = Violation::Duplicate(json!("duplicated executor name"));
        Err(ExecutionError::StoreState(FieldError::new(path, violation, detail)))
    }
}

fn executors(blueprint: &Blueprint, kind: ExecutionKind) -> &[TemplateExecutor] {
    let definition = &blueprint.definition;
    match kind {
        ExecutionKind::Import => &definition.import_executions,
        ExecutionKind::Deploy => &definition.deploy_executions,
        ExecutionKind::Subinstallation => &definition.subinstallation_executions,
        ExecutionKind::Export => &definition.export_executions,
    }
}
