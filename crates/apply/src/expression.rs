//! Requirements in CEL (`installations.md` 7.9): their access to an object, and their limits.

use std::sync::Arc;

use groundwork_cel::{
    Compiler, Declarations, Declared, EvalError, Host, Key, Patterns, Program, STACK, Steps, Value,
    check_form,
};
use serde_json::Value as Json;

/// Variable for the whole object; its members are variables of their own.
const WHOLE: &str = "object";
/// Members that have a variable of their own. Other members are reached through the whole object.
const MEMBERS: [&str; 5] = ["apiVersion", "kind", "metadata", "spec", "status"];
/// Steps of one evaluation: some milliseconds, so that it needs no thread of its own.
const STEPS: u64 = 200_000;
/// Steps for all objects that a check evaluates in a round.
pub(crate) const ALL_STEPS: u64 = 5_000_000;
/// Minimum length of quoted texts that messages hide; shorter ones cannot contain a secret.
const SHORTEST_HIDDEN: usize = 4;

/// Divisor of the default limits for regular expressions, which suit a PackageVariantSet: the
/// requirements of an item get a tenth of them.
const PART_OF_PATTERNS: u64 = 10;

/// Returns the pattern budget that some requirements share.
pub(crate) fn patterns() -> Arc<Patterns> {
    Arc::new(Patterns::new("these requirements").limited_to(PART_OF_PATTERNS))
}

/// A compiled requirement.
#[derive(Debug)]
pub(crate) struct Expression {
    program: Program,
    patterns: Arc<Patterns>,
}

/// Result of an expression for an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Met,
    NotMet,
    /// A field is missing or has another type, or the result is not a boolean.
    Undecided,
    /// The evaluation for the object exceeds its steps.
    TooManySteps,
}

impl Expression {
    /// Compiles a requirement.
    ///
    /// # Errors
    ///
    /// The text is not a valid expression. The error is a part of a sentence and does not quote the
    /// expression's texts, which may come from imports.
    pub(crate) fn compile(source: &str, patterns: &Arc<Patterns>) -> Result<Self, String> {
        check_form(source)?;
        let compile = || Compiler::default().compile(source, &Declaring(patterns));
        // Parser and evaluator are recursive, so run them on a larger stack.
        let program = stacker::grow(STACK, compile).map_err(|error| hide(source, &error))?;
        Ok(Self { program, patterns: Arc::clone(patterns) })
    }

    /// Evaluates the expression for an object, and subtracts its steps from `left`.
    pub(crate) fn judge(&self, object: &Json, left: &mut u64) -> Verdict {
        let shown = Shown { value: Value::from(object), patterns: &self.patterns };
        let steps = Steps::new(STEPS.min(*left));
        let result = stacker::grow(STACK, || self.program.evaluate(&shown, &steps));
        *left = left.saturating_sub(steps.spent());
        match result {
            _ if steps.is_exceeded() => Verdict::TooManySteps,
            Ok(Value::Bool(true)) => Verdict::Met,
            Ok(Value::Bool(false)) => Verdict::NotMet,
            Ok(_) | Err(_) => Verdict::Undecided,
        }
    }
}

/// Returns the compiler's message with quoted texts of the expression hidden.
fn hide(source: &str, error: &str) -> String {
    let quoted =
        source.split(['"', '\'']).skip(1).map(str::trim).filter(|part| part.len() >= SHORTEST_HIDDEN);
    quoted.fold(error.to_owned(), |error, part| error.replace(part, "[...]"))
}

struct Declaring<'p>(&'p Patterns);

impl Declarations for Declaring<'_> {
    fn variable(&self, name: &str) -> Option<Declared> {
        (name == WHOLE || MEMBERS.contains(&name)).then_some(Declared::Dyn)
    }

    fn check_pattern(&self, pattern: &str) -> Result<(), EvalError> {
        self.0.matches("", pattern).map(drop)
    }
}

/// An object in the form that expressions read.
struct Shown<'o> {
    value: Value,
    patterns: &'o Patterns,
}

impl Host for Shown<'_> {
    fn variable(&self, name: &str) -> Option<Value> {
        match &self.value {
            Value::Map(members) if name != WHOLE => members.get(&Key::String(Arc::from(name))).cloned(),
            whole => (name == WHOLE).then(|| whole.clone()),
        }
    }

    fn matches(&self, text: &str, pattern: &str) -> Result<bool, EvalError> {
        self.patterns.matches(text, pattern)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compile(source: &str) -> Result<Expression, String> {
        Expression::compile(source, &patterns())
    }

    fn judge(source: &str, object: &Json) -> Verdict {
        compile(source).unwrap().judge(object, &mut ALL_STEPS.clone())
    }

    #[test]
    fn verdicts() {
        let object = json!({
            "apiVersion": "example.org/v1", "kind": "Database", "metadata": {"name": "a", "generation": 2, "labels": {"tier": "gold"}},
            "spec": {"replicas": 3}, "data": {"color": "blue"},
            "status": {"observedGeneration": 2, "ready": 3, "load": 0.5, "conditions": [
                {"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"},
            ]},
        });
        for (source, expected) in [
            ("status.ready == spec.replicas", Verdict::Met),
            ("status.ready > 3", Verdict::NotMet),
            ("status.load < 1.0 && status.ready >= 3", Verdict::Met),
            ("status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')", Verdict::Met),
            ("status.conditions.all(c, c.status == 'True')", Verdict::NotMet),
            ("metadata.generation == status.observedGeneration", Verdict::Met),
            ("has(status.phase) && status.phase == 'Running'", Verdict::NotMet),
            ("object.data.color == 'blue'", Verdict::Met),
            ("kind == 'Database' && apiVersion.startsWith('example.org/')", Verdict::Met),
            ("metadata.labels.tier.matches('^(gold|silver)$')", Verdict::Met),
            ("status.phase == 'Running'", Verdict::Undecided),
            ("status.conditions[7].status == 'True'", Verdict::Undecided),
            ("status.ready == 3 || status.phase == 'Running'", Verdict::Met),
            ("status.ready", Verdict::Undecided),
        ] {
            assert_eq!(judge(source, &object), expected, "{source}");
        }
        assert_eq!(judge("status.ready == 1", &json!({"kind": "A"})), Verdict::Undecided);
    }

    #[test]
    fn problems_quote_no_text() {
        for (source, part) in [
            ("status.ready ==", "Syntax error"),
            ("stauts.ready == 'canary'", "undeclared reference to 'stauts'"),
            ("'canary' + 1 == 2", "no matching overload"),
            ("status.a == int('canary')", "int"),
            ("status.a.matches('canary(')", "error parsing regexp"),
            ("status.a == 'canary", "Syntax error"),
            (&"(".repeat(61), "brackets"),
            (&"a".repeat(4097), "longer than"),
        ] {
            let error = compile(source).unwrap_err();
            assert!(error.contains(part) && !error.contains("canary"), "{source}: {error}");
        }
    }

    /// An evaluation has a limit of steps, and all evaluations of a check in a round share another.
    #[test]
    fn steps_are_bounded() {
        let list: Vec<Json> = (0..300).map(|number| json!({"n": number})).collect();
        let object = json!({"status": {"list": list}});
        let loops = "status.list.all(a, status.list.all(b, status.list.all(c, a.n + b.n + c.n >= 0)))";
        assert_eq!(judge(loops, &object), Verdict::TooManySteps);
        let texts = format!(
            "status.list.map(a, 'xxxxxxxxxxxxxxxx'){}.size() > 0",
            ".map(a, a + a + a + a)".repeat(6)
        );
        assert_eq!(judge(&texts, &object), Verdict::TooManySteps);
        let one = compile("status.list.all(a, a.n >= 0)").unwrap();
        let mut left = ALL_STEPS;
        assert_eq!(one.judge(&object, &mut left), Verdict::Met);
        let spent = ALL_STEPS - left;
        assert!(spent > 300, "{spent}");
        left = spent - 1;
        assert_eq!(one.judge(&object, &mut left), Verdict::TooManySteps);
        assert_eq!((one.judge(&object, &mut left), left), (Verdict::TooManySteps, 0));
    }

    /// The cost of patterns is counted over all requirements and objects that share a budget.
    #[test]
    fn patterns_are_bounded() {
        let shared = patterns();
        let heavy =
            |number: usize| Expression::compile(&format!("status.a.matches('x{{0,999}}{number}')"), &shared);
        let refused = (0..500).find_map(|number| heavy(number).err()).unwrap();
        assert!(refused.starts_with("the patterns of these requirements are too many"), "{refused}");
        let shared = patterns();
        let one = Expression::compile("status.a.matches('x+y+z+')", &shared).unwrap();
        let object = json!({"status": {"a": "x".repeat(20_000)}});
        let verdicts: Vec<Verdict> = (0..500).map(|_| one.judge(&object, &mut ALL_STEPS.clone())).collect();
        assert_eq!((verdicts[0], verdicts[499]), (Verdict::NotMet, Verdict::Undecided));
    }

    proptest::proptest! {
        /// Any text must be handled without a panic.
        #[test]
        fn any_text(text in "[a-z.()\\[\\]'\"&|=<>!?:0-9 ]{0,60}") {
            if let Ok(expression) = compile(&text) {
                expression.judge(&json!({"status": {"a": [1, "x"]}}), &mut ALL_STEPS.clone());
            }
        }
    }
}
