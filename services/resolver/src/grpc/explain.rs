//! What becomes of every rule.

use groundwork_api::{ComponentVersionOverwrites, ResourceExt};
use groundwork_component::{
    Attribute, GraphEntry, GraphState, OverwriteCondition, Overwrites, RuleOutcome, Substitution,
};
use groundwork_lifecycle::{OverwriteReport, Subject as About, Warning, findings};
use groundwork_proto::MAX_MESSAGE;
use groundwork_proto::resolver::v1::explained_reference::State;
use groundwork_proto::resolver::v1::rule_outcome::{Conflict, Outcome};
use groundwork_proto::resolver::v1::{self as proto, ExplainInput, ExplainResponse, ExplainedReference};
use groundwork_proto::status::{self, reasons};
use prost::Message as _;
use tonic::Status;

use super::{errors, wire};
use crate::resolution_inputs::ResolutionInputs;
use crate::stores::JobStores;

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

/// For an Installation as the next job would find it; with the stores also where every reference leads.
pub(super) fn of_cluster(
    inputs: &ResolutionInputs,
    stores: Option<&JobStores>,
) -> Result<ExplainResponse, Status> {
    let resolution = inputs.resolve();
    let references = stores.map(|stores| resolution.graph(stores)).unwrap_or_default();
    match (&resolution.reference, resolution.error) {
        (Some(substitution), _) => {
            let report = resolution.overwrites.as_ref();
            let outcomes: &[RuleOutcome] = report.map_or(&[], |OverwriteReport { outcomes, .. }| outcomes);
            let answer = ExplainResponse {
                references: references.iter().map(reference).collect(),
                ..answer(substitution, report.is_some(), outcomes, &resolution.warnings)
            };
            if answer.encoded_len() > MAX_MESSAGE {
                return Err(errors::too_large("what its references lead to"));
            }
            Ok(answer)
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
        references: Vec::new(),
    }
}

fn reference(entry: &GraphEntry) -> ExplainedReference {
    let (state, message) = match &entry.state {
        GraphState::Followed => (State::Followed, ""),
        GraphState::Repeated => (State::Repeated, ""),
        GraphState::Failed(cause) => (State::Failed, cause.as_str()),
        GraphState::Limit(limit) => (State::Limit, limit.as_str()),
    };
    let matching = entry
        .outcomes
        .iter()
        .enumerate()
        .filter(|(_, outcome)| matches!(outcome, RuleOutcome::Applied | RuleOutcome::Ignored(_)));
    ExplainedReference {
        depth: i32::try_from(entry.depth).unwrap_or(i32::MAX),
        name: entry.name.clone(),
        original: Some(wire::reference(&entry.substitution.original)),
        effective: Some(wire::reference(&entry.substitution.effective)),
        rules: matching.map(|(index, outcome)| rule(index, *outcome)).collect(),
        state: state.into(),
        message: message.to_owned(),
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
