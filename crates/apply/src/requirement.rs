//! Compiled requirements of a custom check, to be tested against many objects (`installations.md`
//! 7.9).

use serde_json::Value;

use crate::configuration::Requirement;
use crate::error::ApplyError;
use crate::expression::{ALL_STEPS, Expression, Verdict, patterns};
use crate::json_path::JsonPath;
use crate::readiness::meets;

/// All requirements of a check.
#[derive(Debug)]
pub(crate) struct Requirements(Vec<Test>);

#[derive(Debug)]
enum Test {
    Path { path: JsonPath, requirement: Requirement },
    Expression(Expression),
}

/// Remaining cost of expressions in a round.
#[derive(Debug)]
pub(crate) struct StepsLeft(u64);

impl Default for StepsLeft {
    fn default() -> Self {
        Self(ALL_STEPS)
    }
}

impl Requirements {
    /// Compiles requirements.
    ///
    /// # Errors
    ///
    /// A requirement has neither a valid path nor a valid expression. Configurations are validated
    /// before, so this is unexpected.
    pub(crate) fn read(requirements: &[Requirement]) -> Result<Self, ApplyError> {
        let patterns = patterns();
        let read = |requirement: &Requirement| match (&requirement.json_path, &requirement.cel) {
            (Some(text), _) => {
                let path = JsonPath::parse(text).map_err(|error| format!("jsonPath {error}"))?;
                Ok(Test::Path { path, requirement: requirement.clone() })
            }
            (None, Some(source)) => Expression::compile(source, &patterns)
                .map(Test::Expression)
                .map_err(|error| format!("cel: {error}")),
            (None, None) => Err("jsonPath or cel must be given".to_owned()),
        };
        let tests: Result<Vec<Test>, String> = requirements.iter().map(read).collect();
        tests.map(Self).map_err(ApplyError::Configuration)
    }

    /// Returns the first requirement that an object does not meet, as a part of a sentence. An
    /// expression is named by its position, because its text may contain values.
    pub(crate) fn missed(&self, object: &Value, left: &mut StepsLeft) -> Option<String> {
        self.0.iter().enumerate().find_map(|(index, test)| test.missed(index, object, left))
    }
}

impl Test {
    fn missed(&self, index: usize, object: &Value, left: &mut StepsLeft) -> Option<String> {
        let expression = match self {
            Self::Path { path, requirement } => {
                let text = requirement.json_path.as_deref().unwrap_or_default();
                let operator = &requirement.operator;
                return (!meets(path, requirement, object))
                    .then(|| format!("{text} does not meet {operator}"));
            }
            Self::Expression(expression) => expression,
        };
        let what = match expression.judge(object, &mut left.0) {
            Verdict::Met => return None,
            Verdict::NotMet => "is not true",
            Verdict::Undecided => "is neither true nor false: a field is missing, or has another type",
            Verdict::TooManySteps => {
                "takes too many steps for an object of this size: iterate over fewer entries, or select fewer objects"
            }
        };
        Some(format!("requirements[{index}].cel {what}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_missed_is_told_without_values() {
        let requirements: Vec<Requirement> = serde_json::from_value(json!([
            {"jsonPath": ".status.phase", "operator": "==", "values": [{"value": "canary"}]},
            {"cel": "status.token == 'canary'"},
            {"cel": "status.ready >= 2"},
        ]))
        .unwrap();
        let requirements = Requirements::read(&requirements).unwrap();
        for (status, expected) in [
            (json!({}), Some(".status.phase does not meet ==")),
            (
                json!({"phase": "canary"}),
                Some(
                    "requirements[1].cel is neither true nor false: a field is missing, or has another type",
                ),
            ),
            (json!({"phase": "canary", "token": "x"}), Some("requirements[1].cel is not true")),
            (
                json!({"phase": "canary", "token": "canary", "ready": 1}),
                Some("requirements[2].cel is not true"),
            ),
            (json!({"phase": "canary", "token": "canary", "ready": 2}), None),
        ] {
            let found = requirements.missed(&json!({"status": status}), &mut StepsLeft::default());
            assert_eq!(found.as_deref(), expected, "{status}");
        }
        assert!(Requirements::read(&[Requirement::default()]).is_err());
    }
}
