//! gRPC call `Explain`: the effect of each overwrite rule on a component reference.

use groundwork_api::{ComponentVersionOverwrites, ResourceExt};
use groundwork_component::{
    Attribute, GraphEntry, GraphState, OverwriteCondition, Overwrites, RuleOutcome, Substitution,
};
use groundwork_lifecycle::{OverwriteReport, Resolution, Subject as About, Warning, findings};
use groundwork_proto::MAX_MESSAGE;
use groundwork_proto::resolver::v1::explained_reference::State;
use groundwork_proto::resolver::v1::rule_outcome::{Conflict, Outcome};
use groundwork_proto::resolver::v1::{self as proto, ExplainInput, ExplainResponse, ExplainedReference};
use groundwork_proto::status::{self, reasons};
use prost::Message as _;
use tonic::Status;

use super::{errors, wire};
use crate::stores::JobStores;

/// Limit for the rules in a request.
const MOST_RULES: usize = 10_000;

/// Explains a reference and rules from the request.
pub(crate) fn inline(input: ExplainInput) -> Result<ExplainResponse, Status> {
    let original = wire::read_reference(input.reference)?;
    let object = input.overwrites.map(|json| wire::object(&json, "inline.overwrites"));
    let object: Option<ComponentVersionOverwrites> = object.transpose()?;
    let count = object.as_ref().map_or(0, |object| object.overwrites.len());
    if count > MOST_RULES {
        let problem = format!("has {count} rules; a call may have at most {MOST_RULES}");
        return Err(wire::invalid("inline.overwrites", &problem));
    }
    let rules = object.as_ref().map(Overwrites::from).unwrap_or_default();
    let (substitution, outcomes) = rules.explain(&original);
    let name = object.as_ref().map(ResourceExt::name_any).filter(|name| !name.is_empty());
    let warnings = findings(name.as_deref().unwrap_or("the overwrites"), &rules);
    Ok(answer(&substitution, object.is_some(), &outcomes, &warnings))
}

/// Explains an Installation as the next job would resolve it. With the stores, also follows every
/// reference of the component.
pub(crate) fn of_cluster(
    resolution: &Resolution,
    stores: Option<&JobStores>,
) -> Result<ExplainResponse, Status> {
    let references = stores.map(|stores| resolution.graph(stores)).unwrap_or_default();
    match (&resolution.reference, &resolution.error) {
        (Some(substitution), _) => {
            let report = resolution.overwrites.as_ref();
            let outcomes: &[RuleOutcome] = report.map_or(&[], |OverwriteReport { outcomes, .. }| outcomes);
            let answer = ExplainResponse {
                references: references.iter().map(reference).collect(),
                ..answer(substitution, report.is_some(), outcomes, &resolution.warnings)
            };
            if answer.encoded_len() > MAX_MESSAGE {
                return Err(errors::too_large("the closure of its references"));
            }
            Ok(answer)
        }
        (None, Some(error)) => {
            Err(status::failed_precondition(reasons::JOB_WOULD_FAIL, error.message.clone()))
        }
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
        // An Installation without overwrites has no condition.
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

/// Returns the number of a rule in answers, which count from 1.
fn number(index: usize) -> i32 {
    i32::try_from(index).map_or(i32::MAX, |index| index.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use groundwork_proto::component::v1::{Json, Reference};
    use groundwork_testkit::made_up::{Random, cases};
    use tonic::Code;

    use super::*;

    /// Environment variable with the number of generated calls; `cargo xtask fuzz` asks for more
    /// than the default.
    const CASES_VARIABLE: &str = "GROUNDWORK_MADE_UP_CALLS";
    const CASES: usize = 2_000;

    const RULES: &str = r#"{"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "ComponentVersionOverwrites",
        "metadata": {"name": "rules", "namespace": "team"}, "overwrites": [
            {"source": {"repositoryContext": {"type": "ociRegistry", "baseUrl": "example.org/c"}, "componentName": "example.org/shop", "version": "v1"},
                "substitution": {"componentName": "example.org/other", "version": "v2"}},
            {"source": {"componentName": "example.org/shop"}, "substitution": {"repositoryContext": {"type": "ociRegistry", "baseUrl": "example.org/d"}}}]}"#;
    const CONTEXT: &str =
        r#"{"type": "ociRegistry", "baseUrl": "example.org/c", "componentNameMapping": "urlPath"}"#;

    /// Every generated call gets an answer or an error; none of them panics.
    #[test]
    fn made_up_calls_are_answered() {
        let cases = cases(CASES_VARIABLE, CASES);
        let mut random = Random::new(31);
        let (mut answered, mut matched) = (0, 0);
        for _ in 0..cases {
            let mut texts = [RULES, CONTEXT, "example.org/shop", "v1"].map(str::to_owned);
            let at = [0, 0, 0, 1, 2, 3][random.below(6)];
            texts[at] = random.changed(&texts[at]);
            let [rules, context, name, version] = texts;
            let reference = Reference { repository_context: Some(Json { text: context }), name, version };
            let input = ExplainInput { reference: Some(reference), overwrites: Some(Json { text: rules }) };
            match inline(input.clone()) {
                Ok(answer) => {
                    answered += 1;
                    matched += usize::from(answer.matched);
                }
                Err(status) => assert_eq!(status.code(), Code::InvalidArgument, "{status:?}: {input:?}"),
            }
        }
        assert!(
            answered > cases / 10 && matched > cases / 20,
            "{answered} answered, {matched} matched of {cases}"
        );
    }
}
