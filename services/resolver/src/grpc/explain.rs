//! What becomes of every rule.

use groundwork_api::{ComponentVersionOverwrites, ResourceExt};
use groundwork_component::{Attribute, OverwriteCondition, Overwrites, RuleOutcome, Substitution};
use groundwork_lifecycle::{OverwriteReport, Subject as About, Warning, findings};
use groundwork_proto::resolver::v1::rule_outcome::{Conflict, Outcome};
use groundwork_proto::resolver::v1::{self as proto, ExplainInput, ExplainResponse};
use groundwork_proto::status::{self, reasons};
use tonic::Status;

use super::wire;
use crate::resolution_inputs::ResolutionInputs;

/// Rules that a call may bring along.
const MOST_RULES: usize = 10_000;

/// For a reference and rules that the request brings along.
pub(super) fn inline(input: ExplainInput) -> Result<ExplainResponse, Status> {
    let original = wire::read_reference(input.reference)?;
    let object = input.overwrites.map(|json| wire::object(&json, "inline.overwrites"));
    let object: Option<ComponentVersionOverwrites> = object.transpose()?;
    let count = object.as_ref().map_or(0, |object| object.overwrites.len());
    if count > MOST_RULES {
        let problem = format!("has {count} rules, a call may bring {MOST_RULES}");
        return Err(wire::invalid("inline.overwrites", &problem));
    }
    let rules = object.as_ref().map(Overwrites::from).unwrap_or_default();
    let (substitution, outcomes) = rules.explain(&original);
    let name = object.as_ref().map(ResourceExt::name_any).filter(|name| !name.is_empty());
    let warnings = findings(name.as_deref().unwrap_or("the overwrites"), &rules);
    Ok(answer(&substitution, object.is_some(), &outcomes, &warnings))
}

/// For an Installation as the next job would find it.
pub(super) fn of_cluster(inputs: &ResolutionInputs) -> Result<ExplainResponse, Status> {
    let resolution = inputs.resolve();
    match (&resolution.reference, resolution.error) {
        (Some(substitution), _) => {
            let report = resolution.overwrites.as_ref();
            let outcomes: &[RuleOutcome] = report.map_or(&[], |OverwriteReport { outcomes, .. }| outcomes);
            Ok(answer(substitution, report.is_some(), outcomes, &resolution.warnings))
        }
        (None, Some(error)) => Err(status::failed_precondition(reasons::JOB_WOULD_FAIL, error.message)),
        (None, None) => Ok(ExplainResponse::default()),
    }
}

fn answer(
    substitution: &Substitution,
    has_rules: bool,
    outcomes: &[RuleOutcome],
    warnings: &[Warning],
) -> ExplainResponse {
    let about_rules = warnings.iter().filter(|warning| matches!(warning.about, About::OverwriteRule(_)));
    ExplainResponse {
        original: Some(wire::reference(&substitution.original)),
        effective: Some(wire::reference(&substitution.effective)),
        matched: substitution.matched,
        // Without overwrites there is no condition.
        condition_message: if has_rules {
            OverwriteCondition::from(substitution).message
        } else {
            String::new()
        },
        rules: outcomes.iter().enumerate().map(|(index, outcome)| rule(index, *outcome)).collect(),
        findings: about_rules.map(|warning| warning.message.clone()).collect(),
    }
}

fn rule(index: usize, outcome: RuleOutcome) -> proto::RuleOutcome {
    let (kind, differing, conflicts) = match outcome {
        RuleOutcome::NotMatched(differing) => (Outcome::NotMatched, fields(differing.iter()), Vec::new()),
        RuleOutcome::Applied => (Outcome::Applied, Vec::new(), Vec::new()),
        RuleOutcome::Ignored(conflicts) => {
            let conflict = |(attribute, rule): (Attribute, usize)| Conflict {
                attribute: attribute.field().to_owned(),
                rule: number(rule),
            };
            (Outcome::Ignored, Vec::new(), conflicts.iter().map(conflict).collect())
        }
        RuleOutcome::NotReached => (Outcome::NotReached, Vec::new(), Vec::new()),
    };
    proto::RuleOutcome { rule: number(index), outcome: kind.into(), differing, conflicts }
}

fn fields(attributes: impl Iterator<Item = Attribute>) -> Vec<String> {
    attributes.map(|attribute| attribute.field().to_owned()).collect()
}

/// Rules are counted from 1 in answers.
fn number(index: usize) -> i32 {
    i32::try_from(index).map_or(i32::MAX, |index| index.saturating_add(1))
}
