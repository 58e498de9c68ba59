//! Bound on the cost of a check, computed before the check (`blueprints.md` 3.7.4). The bound is
//! needed because a small schema can cause an endless check, for example with sixty rules that each
//! refer to the next one twice.
//!
//! Each rule counts once for each place of the value to which it is applied, as if no rule failed
//! early, and once more for each `unevaluated...` around it. Each pair of rule and place is
//! computed once, so that counting is cheap where checking is not.

use std::collections::HashMap;

use groundwork_go::regexp;
use serde_json::{Map, Value};

/// Largest number of rules applied to places in one check: a second or two of work.
const MOST_STEPS: u64 = 20_000_000;
/// Largest number of pairs of rule and place that the count visits.
const MOST_PAIRS: usize = 2_000_000;
/// Longest chain of rules that lead to one another, by nesting or by references. The engine
/// recurses along them.
const LONGEST_CHAIN: usize = 1_000;

/// The reason why a check is not done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TooExpensive {
    #[error(
        "the check would take more than {MOST_STEPS} steps: its rules refer to one another too often, or its patterns are searched in too much text"
    )]
    Steps,
    #[error("more than {LONGEST_CHAIN} rules of the schema lead to one another")]
    Chain,
    #[error("the patterns of the schema are too many or too large: use fewer, without counted repetitions")]
    Patterns,
}

/// Largest total weight of a schema's patterns (see [`regexp::parts`]). Patterns of this weight
/// take about a hundred megabytes, and half a second to compile. Needed by the hostile input
/// `r_s_patternprops_many`, 3,000 patterns that are searched in 300 long names.
const MOST_PATTERNS: usize = 1_000_000;

/// The format of texts that are patterns. Checking it reads the text as a pattern.
const PATTERN_FORMAT: &str = "regex";
/// Weight of each byte of a text that is parsed as a pattern: a short class such as `\p{L}` expands
/// to hundreds of ranges.
const READING: usize = 6_000;

fn weight(pattern: &str) -> usize {
    let reading = regexp::reading_parts(pattern);
    // A pattern that does not compile weighs only its length; the engine refuses it later.
    if reading > MOST_PATTERNS { reading } else { regexp::parts(pattern).max(pattern.len()) }
}

/// Returns the steps of searching patterns of this weight in this many bytes.
fn searching(weight: usize, bytes: u64) -> u64 {
    regexp::searching_steps(weight, usize::try_from(bytes).unwrap_or(usize::MAX)) as u64
}

/// Returns the total weight of a schema's patterns. An error means that they cannot be compiled in
/// reasonable time and memory.
pub(crate) fn check_patterns(root: &Value) -> Result<usize, TooExpensive> {
    let sum = patterns(root);
    if sum > MOST_PATTERNS { Err(TooExpensive::Patterns) } else { Ok(sum) }
}

fn patterns(root: &Value) -> usize {
    let mut sum = 0_usize;
    let mut open = vec![root];
    while let Some(value) = open.pop()
        && sum <= MOST_PATTERNS
    {
        match value {
            Value::Object(members) => {
                let own = members.get("pattern").and_then(Value::as_str).map_or(0, weight);
                let reads = members.get("format").and_then(Value::as_str) == Some(PATTERN_FORMAT);
                sum = sum.saturating_add(if reads { READING } else { 0 });
                let names = members.get("patternProperties").and_then(Value::as_object);
                let names = names.into_iter().flat_map(Map::keys).map(|name| weight(name));
                sum = names.fold(sum.saturating_add(own), usize::saturating_add);
                open.extend(members.values());
            }
            Value::Array(items) => open.extend(items),
            _ => {}
        }
    }
    sum
}

/// Checks that the chains of rules in a schema are short enough, for any value.
pub(super) fn check_chains(root: &Value) -> Result<(), TooExpensive> {
    let anchors = Anchors::of(root);
    let mut lengths = HashMap::new();
    chain(root, &anchors, &mut lengths, 0).map(drop)
}

/// Returns the number of rules if each reference is replaced by its target, or `None` for rules
/// that lead back to themselves.
///
/// Each of them is applied to a place of a value at most once. Those that an `unevaluated...`
/// applies again count again. Chains of rules are no longer than [`check_chains`] allows.
pub(super) fn expansion(root: &Value) -> Option<u64> {
    expand(root, &Anchors::of(root), &mut HashMap::new()).map(|steps| steps.check)
}

/// The steps of a schema at a place of a value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Steps {
    /// Steps for checking the value.
    check: u64,
    /// Steps for finding out which members or elements the schema has evaluated, for an
    /// `unevaluated...` around it. Its rules are checked once more, and the schemas inside are
    /// asked the same in turn.
    mark: u64,
}

impl Steps {
    /// Steps of a schema without rules.
    const ONE: Self = Self { check: 1, mark: 1 };

    /// Adds another schema, applied to the same place.
    fn and(self, other: Self) -> Self {
        let mark = self.mark.saturating_add(other.check).saturating_add(other.mark);
        Self { check: self.check.saturating_add(other.check), mark }
    }

    /// Adds schemas that are applied to members and elements, in this many steps.
    fn and_below(self, check: u64) -> Self {
        Self { check: self.check.saturating_add(check), mark: self.mark.saturating_add(check) }
    }

    /// Returns the total of a schema with these members.
    fn of(self, members: &Map<String, Value>) -> Self {
        let marks =
            ["unevaluatedProperties", "unevaluatedItems"].iter().any(|name| members.contains_key(*name));
        if marks { Self { check: self.check.saturating_add(self.mark), ..self } } else { self }
    }
}

/// Computes the expansion. `known` has the results so far, and `None` for a schema whose
/// computation is still running.
fn expand<'a>(
    schema: &'a Value,
    anchors: &Anchors<'a>,
    known: &mut HashMap<*const Value, Option<Steps>>,
) -> Option<Steps> {
    let Value::Object(members) = schema else { return Some(Steps::ONE) };
    if let Some(known) = known.get(&std::ptr::from_ref(schema)) {
        return *known;
    }
    known.insert(schema, None);
    let mut steps = Steps::ONE;
    for (keyword, rule) in members {
        let next = referred(keyword, rule, anchors).or_else(|| held(keyword, rule).map(|(_, held)| held));
        for next in next.into_iter().flatten() {
            steps = steps.and(expand(next, anchors, known)?);
        }
    }
    let steps = steps.of(members);
    known.insert(schema, Some(steps));
    Some(steps)
}

/// Returns the number of places of a value.
fn places(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.iter().fold(1, |sum, item| sum + places(item)),
        Value::Object(members) => members.values().fold(1, |sum, member| sum + places(member)),
        _ => 1,
    }
}

fn names(members: &Map<String, Value>) -> u64 {
    members.keys().map(|name| name.len() as u64).sum()
}

/// Returns the bytes of all texts of a value, and of the names in it.
fn bytes(value: &Value) -> u64 {
    match value {
        Value::Array(items) => items.iter().map(bytes).sum(),
        Value::Object(members) => members.values().fold(names(members), |sum, member| sum + bytes(member)),
        Value::String(text) => text.len() as u64,
        _ => 0,
    }
}

/// Checks that checking `value` ends in reasonable time. If the [`expansion`] of the rules and the
/// weight of the patterns show that it does, the exact count is skipped.
pub(super) fn check(
    root: &Value,
    value: &Value,
    expansion: Option<u64>,
    patterns: usize,
) -> Result<(), TooExpensive> {
    let is_cheap = |rules: u64| {
        let steps = rules.saturating_mul(places(value));
        // Each pattern may be searched as often as there are rules.
        let searching =
            if patterns == 0 { 0 } else { searching(patterns, bytes(value)).saturating_mul(rules) };
        steps.saturating_add(searching) <= MOST_STEPS
    };
    if expansion.is_some_and(is_cheap) {
        return Ok(());
    }
    let mut counter = Counter::of(root);
    counter.count(root, value, 0).map(drop)
}

/// Targets of the references of a schema.
pub(super) struct Anchors<'a> {
    root: &'a Value,
    named: HashMap<&'a str, Vec<&'a Value>>,
}

impl<'a> Anchors<'a> {
    pub(super) fn of(root: &'a Value) -> Self {
        let mut anchors = Self { root, named: HashMap::new() };
        let mut open = vec![root];
        while let Some(value) = open.pop() {
            if let Value::Object(members) = value {
                for keyword in ["$anchor", "$dynamicAnchor", "$id", "id"] {
                    if let Some(name) = members.get(keyword).and_then(Value::as_str) {
                        anchors.named.entry(name.trim_start_matches('#')).or_default().push(value);
                    }
                }
                open.extend(members.values());
            } else if let Value::Array(items) = value {
                open.extend(items);
            }
        }
        anchors
    }

    /// Returns all schemas to which a reference may lead: one, or those with the same name.
    fn targets(&self, reference: &str) -> Vec<&'a Value> {
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let bases = match document {
            "" => vec![self.root],
            name => self.named.get(name).cloned().unwrap_or_default(),
        };
        match fragment {
            "" => bases,
            pointer if pointer.starts_with('/') => {
                let pointer = percent_decoded(pointer);
                bases.iter().filter_map(|base| base.pointer(&pointer)).collect()
            }
            name => self.named.get(name).cloned().unwrap_or_default(),
        }
    }
}

fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The place to which a keyword applies its schemas.
pub(super) enum Scope {
    /// The place of the schema itself.
    Here,
    /// Members of an object, or elements of a list.
    Below,
}

/// Returns the schemas under a keyword.
pub(super) fn held<'a>(keyword: &str, rule: &'a Value) -> Option<(Scope, Vec<&'a Value>)> {
    let one = || vec![rule];
    let values = || match rule {
        Value::Array(items) => items.iter().collect(),
        Value::Object(members) => members.values().collect(),
        _ => Vec::new(),
    };
    Some(match keyword {
        "allOf" | "anyOf" | "oneOf" | "dependentSchemas" | "dependencies" => (Scope::Here, values()),
        "not" | "if" | "then" | "else" => (Scope::Here, one()),
        "properties" | "patternProperties" | "prefixItems" => (Scope::Below, values()),
        "items" if rule.is_array() => (Scope::Below, values()),
        "items"
        | "additionalItems"
        | "contains"
        | "unevaluatedItems"
        | "additionalProperties"
        | "unevaluatedProperties"
        | "propertyNames" => (Scope::Below, one()),
        _ => return None,
    })
}

pub(super) fn referred<'a>(keyword: &str, rule: &Value, anchors: &Anchors<'a>) -> Option<Vec<&'a Value>> {
    let is_reference = matches!(keyword, "$ref" | "$dynamicRef" | "$recursiveRef");
    is_reference.then(|| rule.as_str().map(|text| anchors.targets(text)).unwrap_or_default())
}

/// Returns the longest chain of rules from here; a circle counts once.
fn chain<'a>(
    schema: &'a Value,
    anchors: &Anchors<'a>,
    lengths: &mut HashMap<*const Value, usize>,
    depth: usize,
) -> Result<usize, TooExpensive> {
    let Value::Object(members) = schema else { return Ok(0) };
    if let Some(known) = lengths.get(&std::ptr::from_ref(schema)) {
        return if depth + known > LONGEST_CHAIN { Err(TooExpensive::Chain) } else { Ok(*known) };
    }
    if depth > LONGEST_CHAIN {
        return Err(TooExpensive::Chain);
    }
    lengths.insert(schema, 0);
    let mut longest = 0;
    for (keyword, rule) in members {
        let next = referred(keyword, rule, anchors).or_else(|| held(keyword, rule).map(|(_, held)| held));
        for next in next.into_iter().flatten() {
            longest = longest.max(chain(next, anchors, lengths, depth + 1)? + 1);
        }
    }
    lengths.insert(schema, longest);
    Ok(longest)
}

struct Counter<'a> {
    anchors: Anchors<'a>,
    /// Steps of a rule at a place, by their addresses in memory.
    steps: HashMap<(*const Value, *const Value), Steps>,
    /// Weight of the patterns of a rule, by its address in memory.
    weights: HashMap<*const Value, usize>,
}

impl<'a> Counter<'a> {
    fn of(root: &'a Value) -> Self {
        Self { anchors: Anchors::of(root), steps: HashMap::new(), weights: HashMap::new() }
    }

    /// Returns the weight of a rule's patterns. It is cached, since computing it takes longer than
    /// a step.
    fn weight(&mut self, rule: &'a Value, of: impl FnOnce() -> usize) -> usize {
        *self.weights.entry(std::ptr::from_ref(rule)).or_insert_with(of)
    }

    fn count(&mut self, schema: &'a Value, value: &'a Value, depth: usize) -> Result<Steps, TooExpensive> {
        let Value::Object(members) = schema else { return Ok(Steps::ONE) };
        let pair = (std::ptr::from_ref(schema), std::ptr::from_ref(value));
        if let Some(known) = self.steps.get(&pair) {
            return Ok(*known);
        }
        if depth > 2 * LONGEST_CHAIN {
            return Err(TooExpensive::Chain);
        }
        if self.steps.len() >= MOST_PAIRS {
            return Err(TooExpensive::Steps);
        }
        // A circle of rules at one place counts as zero here; the validator detects it.
        self.steps.insert(pair, Steps::default());
        let mut steps = Steps::ONE;
        for (keyword, rule) in members {
            let here = referred(keyword, rule, &self.anchors);
            let here = here.map(|targets| (Scope::Here, targets)).or_else(|| held(keyword, rule));
            match here {
                Some((Scope::Here, schemas)) => {
                    for schema in schemas {
                        steps = steps.and(self.count(schema, value, depth + 1)?);
                    }
                }
                Some((Scope::Below, _)) => {
                    steps = steps.and_below(self.below(keyword, rule, members, value, depth)?);
                }
                None => {
                    let own = match (keyword.as_str(), rule, value) {
                        ("pattern", Value::String(pattern), Value::String(text)) => {
                            searching(self.weight(rule, || weight(pattern)), text.len() as u64)
                        }
                        ("format", Value::String(format), Value::String(text))
                            if format == PATTERN_FORMAT =>
                        {
                            regexp::reading_parts(text) as u64 / 2
                        }
                        _ => 0,
                    };
                    steps = steps.and_below(own);
                }
            }
            if steps.check > MOST_STEPS {
                return Err(TooExpensive::Steps);
            }
        }
        let steps = steps.of(members);
        if steps.check > MOST_STEPS {
            return Err(TooExpensive::Steps);
        }
        self.steps.insert(pair, steps);
        Ok(steps)
    }

    /// Counts rules for members and elements. Patterns are assumed to match every name.
    fn below(
        &mut self,
        keyword: &str,
        rule: &'a Value,
        beside: &'a Map<String, Value>,
        value: &'a Value,
        depth: usize,
    ) -> Result<u64, TooExpensive> {
        let list = |keyword: &str| beside.get(keyword).and_then(Value::as_array).map_or(0, Vec::len);
        let mut pairs: Vec<(&'a Value, &'a Value)> = Vec::new();
        let mut steps = 0;
        match (keyword, rule, value) {
            ("properties", Value::Object(rules), Value::Object(members)) => {
                pairs.extend(rules.iter().filter_map(|(name, rule)| Some((rule, members.get(name)?))));
            }
            ("patternProperties", Value::Object(rules), Value::Object(members)) => {
                let of_rules = || rules.keys().map(|pattern| weight(pattern)).fold(0, usize::saturating_add);
                steps = searching(self.weight(rule, of_rules), names(members));
                pairs
                    .extend(rules.values().flat_map(|rule| members.values().map(move |value| (rule, value))));
            }
            ("additionalProperties" | "unevaluatedProperties", _, Value::Object(members)) => {
                let named = beside.get("properties").and_then(Value::as_object);
                let is_named = |name: &str| named.is_some_and(|named| named.contains_key(name));
                let others = members.iter().filter(|(name, _)| !is_named(name));
                pairs.extend(others.map(|(_, value)| (rule, value)));
            }
            ("propertyNames", _, Value::Object(members)) => {
                // Names are texts, to which only rules for the same place apply.
                let steps = self.count(rule, &Value::Null, depth + 1)?;
                let patterns = self.weight(rule, || patterns(rule));
                let searching = if patterns == 0 { 0 } else { searching(patterns, names(members)) };
                return Ok(steps.check.saturating_mul(members.len() as u64).saturating_add(searching));
            }
            ("items" | "prefixItems", Value::Array(rules), Value::Array(items)) => {
                pairs.extend(rules.iter().zip(items));
            }
            ("items", _, Value::Array(items)) => {
                pairs.extend(items.iter().skip(list("prefixItems")).map(|item| (rule, item)));
            }
            ("additionalItems", _, Value::Array(items)) => {
                pairs.extend(items.iter().skip(list("items")).map(|item| (rule, item)));
            }
            ("contains" | "unevaluatedItems", _, Value::Array(items)) => {
                pairs.extend(items.iter().map(|item| (rule, item)));
            }
            _ => {}
        }
        pairs.into_iter().try_fold(steps, |sum: u64, (rule, value)| {
            Ok(sum.saturating_add(self.count(rule, value, depth + 1)?.check))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Checks a value with the quick bound, which must not accept a check that the exact count
    /// refuses.
    fn check(root: &Value, value: &Value) -> Result<(), TooExpensive> {
        let patterns = check_patterns(root)?;
        let counted = super::check(root, value, None, patterns);
        assert_eq!(super::check(root, value, expansion(root), patterns), counted);
        counted
    }

    /// Returns rules that each refer to the next one twice; the last one is `end`.
    fn doubling(levels: usize, end: &Value) -> Value {
        let mut rules = Map::new();
        for level in 0..levels {
            let next = json!({"$ref": format!("#/$defs/a{}", level + 1)});
            rules.insert(format!("a{level}"), json!({"allOf": [next, next]}));
        }
        rules.insert(format!("a{levels}"), end.clone());
        json!({"$defs": rules, "$ref": "#/$defs/a0"})
    }

    #[test]
    fn steps_are_counted_without_being_made() {
        for (schema, value, steps) in [
            (json!(true), json!(1), 1),
            (json!({"type": "string"}), json!("a"), 1),
            (doubling(10, &json!({"type": "string"})), json!("a"), 4_094),
            (json!({"items": {"type": "string"}}), json!(["a", "b"]), 3),
            (
                json!({"properties": {"a": {}, "b": {}}, "additionalProperties": {}}),
                json!({"a": 1, "c": 2}),
                3,
            ),
            (json!({"if": {}, "then": {}, "propertyNames": {}}), json!({"a": 1, "b": 2}), 5),
            (
                json!({"$defs": {"n": {"$anchor": "x", "items": {"$ref": "#x"}}}, "$ref": "#x"}),
                json!([[], []]),
                6,
            ),
        ] {
            let mut counter = Counter::of(&schema);
            let counted = counter.count(&schema, &value, 0).map(|steps| steps.check);
            assert_eq!(counted, Ok(steps), "{schema} {value}");
        }
    }

    #[test]
    fn what_has_no_end_is_refused() {
        assert_eq!(check(&doubling(60, &json!({})), &json!("s")), Err(TooExpensive::Steps));
        assert_eq!(check(&doubling(15, &json!({})), &json!("s")), Ok(()));
        // The steps double with each level of the value.
        let schema = json!({"$id": "r", "allOf": [{"items": {"$ref": "#"}}, {"items": {"$ref": "r"}}]});
        let nested = |depth| (0..depth).fold(json!(1), |inner, _| json!([inner]));
        assert_eq!(check(&schema, &nested(10)), Ok(()));
        assert_eq!(check(&schema, &nested(60)), Err(TooExpensive::Steps));
    }

    /// Case: finding out what a schema has evaluated repeats the check, at each level. Less than a
    /// kilobyte of schema once took minutes.
    #[test]
    fn what_is_checked_again_for_unevaluated_is_counted_again() {
        let nested = |levels: usize, around: &str, keyword: &str| {
            (0..levels).fold(json!({}), |inner, _| json!({around: [inner], keyword: false}))
        };
        for around in ["allOf", "anyOf", "oneOf"] {
            for (keyword, value) in
                [("unevaluatedProperties", json!({"a": 1})), ("unevaluatedItems", json!([1]))]
            {
                assert_eq!(check(&nested(5, around, keyword), &value), Ok(()), "{around} {keyword}");
                let deep = nested(40, around, keyword);
                assert_eq!(check(&deep, &value), Err(TooExpensive::Steps), "{around} {keyword}");
            }
        }
        // Each level adds the steps for checking and marking below, and as much again for its own
        // mark.
        let mut counter = Counter::of(&Value::Null);
        let (schema, value) = (nested(2, "anyOf", "unevaluatedProperties"), json!({}));
        assert_eq!(counter.count(&schema, &value, 0), Ok(Steps { check: 15, mark: 9 }));
    }

    #[test]
    fn patterns_are_weighed() {
        let schema = |count: usize, pattern: &str| {
            let names: Map<_, _> = (0..count).map(|index| (format!("{pattern}{index}"), json!({}))).collect();
            json!({"patternProperties": names, "items": {"pattern": pattern}})
        };
        assert!(check_patterns(&schema(1_000, "^[a-z]{1,63}$")).is_ok());
        assert!(check_patterns(&schema(3_000, "^[a-z]+$")).is_ok());
        assert_eq!(check_patterns(&schema(3_000, "^[a-z]{1,500}$")), Err(TooExpensive::Patterns));
        // Few bytes of pattern that take a gigabyte when they are compiled.
        assert_eq!(check_patterns(&schema(200, r"[a-z]{300}\p{L}{245}")), Err(TooExpensive::Patterns));
        let class = format!("[{}]", "x".repeat(400_000));
        assert_eq!(check_patterns(&json!({"pattern": class})), Err(TooExpensive::Patterns));
    }

    /// Case: in the worst case the whole pattern is tried at each byte of a text.
    #[test]
    fn searching_is_counted() {
        let text = json!("é".repeat(100_000));
        assert_eq!(check(&json!({"pattern": "(é|x)*y"}), &text), Ok(()));
        assert_eq!(check(&json!({"pattern": r"(\pL{100}|x)*y"}), &text), Err(TooExpensive::Steps));
        let names: Map<_, _> = (0..5_000).map(|index| (format!("name{index}"), json!(1))).collect();
        assert_eq!(check(&json!({"patternProperties": {"^[a-z]{1,63}$": {}}}), &json!(names)), Ok(()));
        let reads = json!({"items": {"format": "regex"}});
        assert_eq!(check(&reads, &json!(vec!["^[a-z]{1,63}$"; 100])), Ok(()));
        assert_eq!(check(&reads, &json!(vec![r"\pL"; 100_000])), Err(TooExpensive::Steps));
        let heavy = json!({"patternProperties": {r"\pL{60}x": {}, r"\pL{61}x": {}}});
        assert_eq!(check(&heavy, &json!(names)), Err(TooExpensive::Steps));
    }

    #[test]
    fn chains_have_an_end() {
        let chained = |count: usize| {
            let rules: Map<_, _> = (0..count)
                .map(|index| (format!("a{index}"), json!({"$ref": format!("#/$defs/a{}", index + 1)})))
                .collect();
            let mut schema = json!({"$defs": rules, "$ref": "#/$defs/a0"});
            schema["$defs"][format!("a{count}")] = json!({"type": "string"});
            schema
        };
        assert_eq!(check_chains(&chained(900)), Ok(()));
        assert_eq!(check_chains(&chained(20_000)), Err(TooExpensive::Chain));
        let circle = json!({"properties": {"a": {"$ref": "#"}}, "items": {"$ref": "#"}});
        assert_eq!(check_chains(&circle), Ok(()));
    }
}
