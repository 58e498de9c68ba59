//! Executions of blueprints with bindings from the caller, one blueprint per line.

mod answer;
mod case;

use std::collections::BTreeMap;

use anyhow::Result;
use groundwork_api::ImportDefinition;
use groundwork_blueprint::{
    BLUEPRINT_FILE, Blueprint, Capabilities, Components, ExecutionError, ExecutionInputs, Executions,
    Filesystem, ImportedTarget, LoadError, States, TargetValue, aggregate, resolve_items,
};
use groundwork_budget::TemplateLimits;
use groundwork_component::{ComponentVersion, Descriptor, Leniency, Overwrites};
use serde_json::{Map, Value, json};

use crate::grants::TIME_LIMIT;
use crate::lines::{answer_lines, parse};
use answer::{Answer, CaseError, Outcome, Stage};
use case::{Blobs, Case, ExportMember, Kind, Targets, Then};

pub(crate) fn run(limits: TemplateLimits) -> Result<()> {
    answer_lines(|line| answer(line, limits))
}

fn answer(line: &[u8], limits: TemplateLimits) -> Answer {
    match parse::<Case>(line) {
        Ok(case) => {
            let name = case.name.clone();
            Answer::new(name, answer_case(&case, limits))
        }
        Err(error) => {
            let named = serde_json::from_slice::<Value>(line).unwrap_or_default();
            let name = named.get("name").and_then(Value::as_str).map(str::to_owned);
            Answer::new(name, Err(CaseError::new(Stage::Input, error.to_string())))
        }
    }
}

fn answer_case(case: &Case, limits: TemplateLimits) -> Result<Vec<Outcome>, CaseError> {
    let blueprint = match load(case)? {
        Loaded::Blueprint(blueprint) => blueprint,
        Loaded::Findings(findings) => return Ok(vec![findings]),
    };
    let components = components(case)?;
    let run = Run { case, blueprint: &blueprint, components: &components, limits };
    let mut states: States = case.state.clone().unwrap_or_default();
    let first = Then::default();
    let further = case.then.iter().flatten().map(|member| member.as_ref().unwrap_or(&first));
    let mut outcomes = Vec::new();
    for member in [&first].into_iter().chain(further) {
        let outcome = run.once(member, states.clone());
        states.clone_from(&outcome.states);
        outcomes.push(outcome);
    }
    Ok(outcomes)
}

enum Loaded {
    Blueprint(Box<Blueprint>),
    /// Answer to the kind `validate`.
    Findings(Outcome),
}

fn load(case: &Case) -> Result<Loaded, CaseError> {
    let mut files = Filesystem::default();
    let contents = case.files.iter().flatten().map(|(path, content)| (path.as_str(), content));
    for (path, content) in contents.chain([(BLUEPRINT_FILE, &case.blueprint)]) {
        files
            .insert(path, content.as_str())
            .map_err(|error| CaseError::new(Stage::Input, error.to_string()))?;
    }
    let validate = case.kind() == Kind::Validate;
    match Blueprint::load(files) {
        Ok(blueprint) if validate => Ok(Loaded::Findings(Outcome::findings(Vec::new(), blueprint.warnings))),
        Ok(blueprint) => Ok(Loaded::Blueprint(Box::new(blueprint))),
        Err(LoadError::Invalid { errors, warnings, .. }) if validate => {
            let texts = errors.iter().map(ToString::to_string).collect();
            Ok(Loaded::Findings(Outcome::findings(texts, warnings)))
        }
        Err(LoadError::Invalid { errors, .. }) => Err(CaseError::new(Stage::Validate, aggregate(&errors))),
        Err(error) => Err(CaseError::new(Stage::Decode, error.to_string())),
    }
}

fn components(case: &Case) -> Result<Components, CaseError> {
    let blobs = Blobs::new(case.blobs.clone().unwrap_or_default());
    let version = |document: &Value| {
        let descriptor = Descriptor::from_document(document.clone(), Leniency::Inline)
            .map_err(|error| CaseError::new(Stage::Component, error.to_string()))?;
        Ok(ComponentVersion::new(descriptor, Some(blobs.repository())))
    };
    let versions = case.components.iter().flatten().map(version).collect::<Result<_, CaseError>>()?;
    Ok(Components::new(versions, Overwrites::default(), None))
}

struct Run<'a> {
    case: &'a Case,
    blueprint: &'a Blueprint,
    components: &'a Components,
    limits: TemplateLimits,
}

impl Run<'_> {
    fn once(&self, member: &Then, states: States) -> Outcome {
        let capabilities = Capabilities::system().within(TIME_LIMIT).limited(self.limits);
        let (blueprint_definition, component_definition) = self.definitions();
        let inputs = ExecutionInputs {
            blueprint: self.blueprint,
            components: self.components,
            blueprint_definition: blueprint_definition.as_ref(),
            component_definition: component_definition.as_ref(),
            capabilities: &capabilities,
            show_values: self.case.show_values.unwrap_or_default(),
        };
        let mut executions = match Executions::new(inputs, states.clone()) {
            Ok(executions) => executions,
            Err(error) => return Outcome::failed(&error, states),
        };
        let result = self.run(member, &mut executions);
        let Executions { states, mut warnings, texts, .. } = executions;
        warnings.splice(0..0, self.blueprint.warnings.iter().cloned());
        match result {
            Ok(members) => Outcome::done(members, states, texts, warnings),
            Err(error) => Outcome::failed(&error, states),
        }
    }

    /// Returns the members of the output that only this kind has.
    fn run(
        &self,
        member: &Then,
        executions: &mut Executions<'_>,
    ) -> Result<Map<String, Value>, ExecutionError> {
        let given = member.imports.as_ref().or(self.case.imports.as_ref());
        let imports = given.cloned().unwrap_or_default();
        let output = match self.case.kind() {
            Kind::Import => {
                let gathered = executions.import(&imports)?;
                json!({"bindings": gathered.bindings, "errors": gathered.errors})
            }
            Kind::Deploy => {
                let items = executions.deploy(&imports)?;
                let shown: Vec<Value> = items.iter().map(answer::deploy_item).collect();
                let mut output = json!({"deployItems": shown});
                if let Some(targets) = &self.case.targets {
                    let declared = self.declared(targets);
                    match resolve_items(items, &declared, &self.case.namespace()) {
                        Ok(items) => {
                            output["resolved"] = items.iter().map(answer::resolved_item).collect();
                        }
                        Err(error) => output["resolveError"] = Value::from(error.to_string()),
                    }
                }
                output
            }
            Kind::Subinst => {
                let templates = executions.subinstallations(&imports)?;
                let shown: Vec<Value> = templates.iter().map(answer::installation_template).collect();
                json!({"subinstallations": shown})
            }
            Kind::Export => {
                let given: Option<&ExportMember> =
                    member.export_values.as_ref().or(self.case.export_values.as_ref());
                let values = given.cloned().unwrap_or_default().into();
                json!({"exports": executions.exports(&imports, &values)?})
            }
            // The findings were the answer already when the blueprint was loaded, so there is
            // nothing left to run.
            Kind::Validate => json!({}),
        };
        Ok(output.as_object().cloned().unwrap_or_default())
    }

    /// Returns the bindings that come from the Installation (`blueprints.md` 4.1).
    fn definitions(&self) -> (Option<Value>, Option<Value>) {
        let Some(installation) = &self.case.installation else { return (None, None) };
        let blueprint = installation.blueprint.clone().unwrap_or_else(|| json!({}));
        let own = installation.component_descriptor.clone();
        let is_inline =
            own.as_ref().is_some_and(|own| own.get("inline").is_some_and(|inline| !inline.is_null()));
        let component = match &self.case.context {
            None => own,
            Some(_) if is_inline => own,
            Some(context) if context.is_empty() => Some(json!({})),
            Some(context) => Some(json!({"ref": context})),
        };
        (Some(blueprint), component)
    }

    /// Returns the given values of the targets that the blueprint declares.
    fn declared(&self, targets: &Targets) -> BTreeMap<String, TargetValue> {
        let imported =
            |target: &case::TargetName| ImportedTarget { reference: target.into(), object: Value::Null };
        let mut given: Vec<(&str, &str, TargetValue)> = Vec::new();
        for (name, target) in targets.single.iter().flatten() {
            given.push(("target", name, TargetValue::Single(imported(target))));
        }
        for (name, map) in targets.maps.iter().flatten() {
            let map = map.iter().map(|(key, target)| (key.clone(), imported(target))).collect();
            given.push(("targetMap", name, TargetValue::Map(map)));
        }
        for (name, list) in targets.lists.iter().flatten() {
            given.push(("targetList", name, TargetValue::List(list.iter().map(imported).collect())));
        }
        let definitions = &self.blueprint.definition.imports;
        given
            .into_iter()
            .filter(|(type_name, name, _)| declares(definitions, name, type_name))
            .map(|(_, name, value)| (name.to_owned(), value))
            .collect()
    }
}

fn declares(definitions: &[ImportDefinition], name: &str, type_name: &str) -> bool {
    definitions.iter().any(|definition| {
        (definition.name == name && definition.type_.as_deref() == Some(type_name))
            || declares(&definition.imports, name, type_name)
    })
}
