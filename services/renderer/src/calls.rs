//! Computations behind calls, from the request and from the objects that the service has read for
//! it. They run in worker processes.

mod answer;
mod plan;
mod request;

use groundwork_api::Installation;
use groundwork_api::strict::{JsonError, Schemas};
use groundwork_blueprint::Capabilities;
use groundwork_lifecycle::{Inputs, UnreadStates, export, render, validate as check};
use groundwork_proto::component::v1::Json;
use groundwork_proto::renderer::v1::{
    RenderExportsRequest, RenderExportsResponse, RenderRequest, RenderResponse, ValidateRequest,
    ValidateResponse, Violation, render_exports_request, render_request,
};
use groundwork_proto::status::{self, reasons};
use tonic::Status;

use crate::blueprints::Blueprints;
use crate::work::Progress;
use request::Inline;

pub(crate) use plan::{plan, plan_scope};

/// Returns all rules that an Installation and a blueprint break.
pub(crate) fn validate(request: ValidateRequest) -> Result<ValidateResponse, Status> {
    let ValidateRequest { installation, blueprint } = request;
    let files = request::files(blueprint, "blueprint")?;
    let violations = match (installation, &files) {
        (None, Some(_)) => Vec::new(),
        (installation, _) => violations(&installation.unwrap_or_default())?,
    };
    Ok(ValidateResponse { violations, findings: files.map(answer::findings).unwrap_or_default() })
}

/// Renders a job from the inputs in the request alone.
pub(crate) fn render_inline(
    request: RenderRequest,
    blueprints: &Blueprints,
    capabilities: &Capabilities,
) -> Result<RenderResponse, Status> {
    let Some(render_request::Input::Inline(input)) = request.input else { return Err(missing("input")) };
    let inline = Inline::read(input)?;
    let outcome = inline.with_inputs(blueprints, capabilities, render);
    let mut answer = answer::rendered(&inline.installation, &outcome)?;
    answer.warnings.extend(inline.unused(&outcome));
    Ok(answer)
}

/// Renders the next job of an Installation of the cluster.
pub(crate) fn render_named(inputs: &Inputs<'_>) -> Result<Progress<RenderResponse, UnreadStates>, Status> {
    let mut outcome = render(inputs);
    if !outcome.unread_states.is_empty() {
        return Ok(Progress::Lacks(UnreadStates(std::mem::take(&mut outcome.unread_states))));
    }
    answer::rendered(inputs.installation, &outcome).map(Progress::Done)
}

/// Renders the exports of an Installation in the request.
pub(crate) fn exports_inline(
    request: RenderExportsRequest,
    blueprints: &Blueprints,
    capabilities: &Capabilities,
) -> Result<RenderExportsResponse, Status> {
    let RenderExportsRequest { input, values, state } = request;
    let Some(render_exports_request::Input::Inline(input)) = input else { return Err(missing("input")) };
    if !state.is_empty() {
        return Err(invalid("state", "inline input has the state in inline.state"));
    }
    let values = request::export_values(&values.unwrap_or_default())?;
    let inline = Inline::read(input)?;
    let outcome = inline.with_inputs(blueprints, capabilities, |inputs| export(inputs, |_| values));
    answer::exported(&inline.installation, &inline.scope, &outcome)
}

/// Renders the exports of an Installation of the cluster, with the values in the request.
pub(crate) fn exports_named(
    request: &RenderExportsRequest,
    inputs: &Inputs<'_>,
) -> Result<Progress<RenderExportsResponse, UnreadStates>, Status> {
    let values = request::export_values(&request.values.clone().unwrap_or_default())?;
    let given = request::states(&request.state, "state")?;
    // State in the request replaces the stored state.
    let given = (!given.is_empty()).then_some(&given);
    let inputs = Inputs { states: given.or(inputs.states), ..*inputs };
    let mut outcome = export(&inputs, |_| values);
    if !outcome.unread_states.is_empty() {
        return Ok(Progress::Lacks(UnreadStates(std::mem::take(&mut outcome.unread_states))));
    }
    answer::exported(inputs.installation, inputs.scope, &outcome).map(Progress::Done)
}

/// Returns all rules that an Installation breaks.
fn violations(json: &Json) -> Result<Vec<Violation>, Status> {
    let object = match groundwork_api::strict::read(&json.text, Schemas::shared()) {
        Ok(object) => object,
        // Report all fields that cannot be decoded, as the validation does with its rules.
        Err(JsonError::Structure(problems)) => {
            let told = |message| Violation { field: String::new(), message };
            return Ok(problems.into_iter().map(told).collect());
        }
        Err(error) => return Err(invalid("installation", &error.to_string())),
    };
    let installation: Installation = request::typed(object, "installation")?;
    let violation = |error: &groundwork_blueprint::FieldError| Violation {
        field: error.path.to_string(),
        message: error.to_string(),
    };
    Ok(check(&installation).iter().map(violation).collect())
}

pub(crate) fn invalid(field: &str, message: &str) -> Status {
    let violation = status::Violation { field: field.to_owned(), description: message.to_owned() };
    status::invalid(reasons::INVALID_REQUEST, format!("{field}: {message}"), vec![violation])
}

pub(crate) fn missing(field: &str) -> Status {
    invalid(field, "it must be given")
}

#[cfg(test)]
mod made_up;
#[cfg(test)]
mod tests;
