//! Answers to calls.

use std::collections::HashMap;

use groundwork_api::{Installation, InstallationStatus, Time};
use groundwork_blueprint::{BLUEPRINT_FILE, Blueprint, Filesystem, LoadError, States};
use groundwork_lifecycle::{
    ExportOutcome, JobOutcome, OperationError, ScopedObject, export_objects, import_copies, merge_condition,
};
use groundwork_proto::component::v1::{Failure as WireFailure, Json};
use groundwork_proto::renderer::v1::{Child, Finding, RenderExportsResponse, RenderResponse, Severity};
use groundwork_proto::status::{self, reasons};
use groundwork_yaml::{self as yaml, Position};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use tonic::Status;

/// Returns the objects that a job would write.
pub(super) fn rendered(installation: &Installation, outcome: &JobOutcome) -> Result<RenderResponse, Status> {
    let now = Time(Timestamp::now());
    let mut new_status = InstallationStatus::default();
    for update in &outcome.conditions {
        merge_condition(&mut new_status.conditions, update, &now);
    }
    let error = outcome.error.as_ref().map(|error| &error.cause);
    let previous = installation.status.as_ref().and_then(|status| status.last_error.as_ref());
    new_status.last_error = error.map(|error| error.to_last_error(previous, &now));
    let children = outcome.children.iter().map(|child| {
        let installation = Some(encode(&child.installation)?);
        Ok(Child { template: child.template.clone(), installation })
    });
    Ok(RenderResponse {
        installation_status: Some(encode(&new_status)?),
        execution: outcome.execution.as_ref().map(encode).transpose()?,
        deploy_items: outcome.deploy_items.iter().map(encode).collect::<Result<_, _>>()?,
        warnings: outcome.warnings.iter().map(|warning| warning.message.clone()).collect(),
        failure: error.map(failure),
        children: children.collect::<Result<_, Status>>()?,
        state: state(&outcome.states)?,
        dropped: outcome.dropped.iter().map(ToString::to_string).collect(),
        import_copies: scoped(&import_copies(installation, job(installation), &outcome.imports))?,
    })
}

/// Returns the exports that an Installation would publish.
pub(super) fn exported(
    installation: &Installation,
    scope: &str,
    outcome: &ExportOutcome,
) -> Result<RenderExportsResponse, Status> {
    let published = export_objects(installation, scope, job(installation), &outcome.exports);
    let exports = outcome.exports.declared.iter().map(|(name, value)| Ok((name.clone(), encode(value)?)));
    Ok(RenderExportsResponse {
        exports: exports.collect::<Result<_, Status>>()?,
        published: scoped(&published)?,
        warnings: outcome.warnings.iter().map(|warning| warning.message.clone()).collect(),
        state: state(&outcome.states)?,
        failure: outcome.error.as_ref().map(|error| failure(&error.cause)),
    })
}

fn job(installation: &Installation) -> &str {
    installation.status.as_ref().and_then(|status| status.job_id.as_deref()).unwrap_or_default()
}

fn scoped(objects: &[ScopedObject]) -> Result<Vec<Json>, Status> {
    let json = |object: &ScopedObject| match object {
        ScopedObject::Data(object) => encode(object),
        ScopedObject::Target(target) => encode(target),
    };
    objects.iter().map(json).collect()
}

/// Loads a blueprint, and returns its errors.
pub(super) fn findings(files: Filesystem) -> Vec<Finding> {
    let (errors, warnings) = match Blueprint::load(files) {
        Ok(blueprint) => (Vec::new(), blueprint.warnings),
        Err(LoadError::Invalid { errors, positions, warnings, .. }) => {
            let finding = |(error, position): (&groundwork_blueprint::FieldError, &Position)| {
                finding(Severity::Error, error.path.to_string(), error.problem(), Some(*position))
            };
            (errors.iter().zip(&positions).map(finding).collect(), warnings)
        }
        Err(LoadError::Undecodable { problem, position, .. }) => {
            (vec![finding(Severity::Error, String::new(), problem, position)], Vec::new())
        }
        Err(LoadError::Unreadable(problem)) => {
            (vec![finding(Severity::Error, String::new(), problem.to_string(), None)], Vec::new())
        }
    };
    let warnings =
        warnings.into_iter().map(|message| finding(Severity::Warning, String::new(), message, None));
    errors.into_iter().chain(warnings).collect()
}

fn finding(severity: Severity, path: String, message: String, position: Option<Position>) -> Finding {
    let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    Finding {
        path,
        severity: severity.into(),
        message,
        file: BLUEPRINT_FILE.to_owned(),
        line: position.map_or(0, |position| number(position.line)),
        column: position.map_or(0, |position| number(position.column)),
    }
}

fn failure(error: &OperationError) -> WireFailure {
    WireFailure {
        operation: error.operation.clone().into_owned(),
        reason: error.reason.to_string(),
        message: error.message.clone(),
        codes: error.codes.iter().map(|code| code.as_str().to_owned()).collect(),
    }
}

/// Converts the state of executions to JSON. The template engines store it as YAML.
fn state(states: &States) -> Result<HashMap<String, Json>, Status> {
    let value = |text: &String| yaml::from_str(text).unwrap_or_else(|_| Value::String(text.clone()));
    states.iter().map(|(key, text)| Ok((key.clone(), encode(&value(text))?))).collect()
}

pub(super) fn encode<T: Serialize>(object: &T) -> Result<Json, Status> {
    let text = serde_json::to_string(object);
    text.map(|text| Json { text })
        .map_err(|_| status::internal(reasons::ENCODE_FAILED, "an object cannot be written as JSON"))
}
