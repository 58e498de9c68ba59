//! Approval rules: CEL expressions over a draft and its change (`packagevariants.md` 6.11).

use groundwork_api::{PackageRevision, ResourceExt as _};
use groundwork_cel::{
    Compiler, Declarations, Declared, EvalError, Host, Patterns, STACK, Steps, Time, Value, check_form,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};

use super::{Package, unmet_gates, workspace};

/// Annotation with the rule.
pub const RULE: &str = "groundwork/approval-rule";
/// Variable for the time of the evaluation.
const NOW: &str = "now";
/// Variables for the draft, its change and its readiness gates. The name `package` is reserved in
/// CEL.
const VARIABLES: [&str; 3] = ["draft", "change", "gates"];
/// Steps of an evaluation, as for an expression of a set.
const STEPS: u64 = 1_000_000;

/// Rule with the data that it reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    source: String,
    /// Values of [`VARIABLES`].
    variables: Json,
    /// Seconds since 1970.
    now: i64,
}

/// Result of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ruling {
    pub approves: bool,
    /// True if the rule reads the time, so that it may have another result later.
    pub reads_time: bool,
}

impl Rule {
    /// Returns the rule in the annotations of a draft; `None` if there is none. `change` has the
    /// members of the variable with this name, and `is_first` is true if no revision of the package
    /// is published.
    pub fn of(draft: &PackageRevision, change: &impl Serialize, is_first: bool, now: i64) -> Option<Self> {
        let source = draft.annotations().get(RULE)?.clone();
        let Package { repository, path } = Package::of(draft);
        let metadata = draft.spec.package_metadata.clone().unwrap_or_default();
        let unmet = unmet_gates(draft);
        let gates = draft.spec.readiness_gates.iter().filter_map(|gate| gate.condition_type.as_deref());
        let gates: Map<String, Json> =
            gates.map(|gate| (gate.to_owned(), json!(!unmet.contains(&gate)))).collect();
        let mut change = serde_json::to_value(change).unwrap_or_default();
        change["isFirst"] = json!(is_first);
        let variables = json!({
            "draft": {
                "repository": repository, "path": path, "workspace": workspace(draft),
                "labels": metadata.labels, "annotations": metadata.annotations,
            },
            "change": change,
            "gates": gates,
        });
        Some(Self { source, variables, now })
    }

    /// Evaluates the rule.
    ///
    /// # Errors
    /// The rule cannot be compiled or evaluated, takes too many steps, or is no boolean. The text
    /// is for users.
    pub fn evaluate(&self) -> Result<Ruling, String> {
        // Parser and evaluator are recursive, so run them on a larger stack.
        stacker::grow(STACK, || self.evaluate_here()).map_err(|error| format!("annotation {RULE}: {error}"))
    }

    fn evaluate_here(&self) -> Result<Ruling, String> {
        check_form(&self.source)?;
        let world = World { rule: self, patterns: Patterns::new("this rule") };
        let program = Compiler::default().compile(&self.source, &world)?;
        let steps = Steps::new(STEPS);
        let result = program.evaluate(&world, &steps);
        if steps.is_exceeded() {
            return Err(format!("the expression takes more than {STEPS} steps: iterate over fewer entries"));
        }
        match result.map_err(|error| error.to_string())? {
            Value::Bool(approves) => Ok(Ruling { approves, reads_time: program.names(NOW) }),
            other => Err(format!("the result must be a boolean, and is of type {}", other.type_name())),
        }
    }
}

/// Access of an expression to the data of its rule.
struct World<'r> {
    rule: &'r Rule,
    patterns: Patterns,
}

impl Declarations for World<'_> {
    fn variable(&self, name: &str) -> Option<Declared> {
        (name == NOW || VARIABLES.contains(&name)).then_some(Declared::Dyn)
    }

    fn check_pattern(&self, pattern: &str) -> Result<(), EvalError> {
        self.patterns.matches("", pattern).map(drop)
    }
}

impl Host for World<'_> {
    fn variable(&self, name: &str) -> Option<Value> {
        if name == NOW {
            return Time::from_seconds(self.rule.now).ok().map(Value::Timestamp);
        }
        self.rule.variables.get(name).map(Value::from)
    }

    fn matches(&self, text: &str, pattern: &str) -> Result<bool, EvalError> {
        self.patterns.matches(text, pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::tests::{revision, with_status};

    fn evaluated(source: &str) -> Result<Ruling, String> {
        let status = json!({"conditions": [{"type": "checked", "status": "True"}]});
        let mut draft = with_status(revision("edge/net/dns:w2", 0, "Draft"), &status);
        draft.annotations_mut().insert(RULE.to_owned(), source.to_owned());
        draft.spec.readiness_gates =
            serde_json::from_value(json!([{"conditionType": "checked"}, {"conditionType": "tested"}]))
                .unwrap();
        let changes = json!({
            "files": [{"path": "app.yaml", "change": "changed"}, {"path": "new.yaml", "change": "added"}],
            "objects": [
                {"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "n", "name": "app", "change": "changed",
                    "fields": ["spec.replicas"]},
                {"apiVersion": "v1", "kind": "ConfigMap", "namespace": "n", "name": "new", "change": "added", "fields": []},
            ],
        });
        // Monday, 12 January 2026, 09:30 UTC.
        Rule::of(&draft, &changes, false, 1_768_210_200).unwrap().evaluate()
    }

    #[test]
    fn rules() {
        for (source, expected) in [
            ("true", true),
            ("draft.repository == 'edge' && draft.path.startsWith('net/')", true),
            ("change.files.all(f, f.path.endsWith('.yaml')) && size(change.files) < 3", true),
            ("change.objects.all(o, o.kind in ['ConfigMap', 'Deployment'])", true),
            ("change.objects.all(o, o.change != 'removed')", true),
            ("change.objects.all(o, o.fields.all(f, f == 'spec.replicas'))", true),
            ("change.isFirst", false),
            ("gates.checked", true),
            ("gates.tested", false),
        ] {
            assert_eq!(evaluated(source), Ok(Ruling { approves: expected, reads_time: false }), "{source}");
        }
        for (source, expected) in [
            ("now.getDayOfWeek() in [1, 2, 3, 4] && now.getHours() >= 8", true),
            ("now.getHours('Europe/Berlin') == 10", true),
            ("now > timestamp('2026-02-01T00:00:00Z')", false),
        ] {
            assert_eq!(evaluated(source), Ok(Ruling { approves: expected, reads_time: true }), "{source}");
        }
    }

    #[test]
    fn rules_that_fail() {
        for (source, expected) in [
            (
                "change.objects",
                "annotation groundwork/approval-rule: the result must be a boolean, and is of type list",
            ),
            ("change.nothing", "annotation groundwork/approval-rule: no such key: nothing"),
            ("1 +", "annotation groundwork/approval-rule: Syntax error"),
            ("other", "annotation groundwork/approval-rule: undeclared reference to 'other'"),
        ] {
            let error = evaluated(source).unwrap_err();
            assert!(error.starts_with(expected), "{source}: {error}");
        }
    }
}
