//! Explanation of the faults of a value, as a tree in the words of Go's santhosh-tekuri/jsonschema
//! (`helm.md` 5).
//!
//! The library decides whether a value fits. This module walks schema and value once more, to
//! report the faults in the structure of the Go library: a place with several faults has a line of
//! its own, and so have `allOf`, `anyOf` and `oneOf`. Faults are in the order of the places, then
//! of the keywords.

use std::cell::Cell;

use jsonschema::{Draft, PatternOptions};
use serde_json::{Map, Value, json};

use crate::{Formats, LARGEST_PATTERN, bundle};

mod bounds;
mod lookup;
mod trail;
mod words;

use bounds::count_between;
use lookup::{by_anchor, by_id, equal, is_integer, pointer_of};
pub(crate) use lookup::{escaped, percent_decoded};
use trail::{At, Trail, Unevaluated, member};
use words::{number, quoted, quoted_list, type_name};

/// A fault, and the faults that caused it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// JSON pointer of the place.
    pub pointer: String,
    keyword: &'static str,
    pub message: String,
    pub causes: Vec<Finding>,
}

impl Finding {
    /// Creates a finding about the whole value.
    pub(crate) fn root(message: String) -> Finding {
        finding("", "", message)
    }

    /// Creates a finding from an error of the library.
    pub(crate) fn of(error: &jsonschema::ValidationError<'_>) -> Finding {
        finding(error.instance_path().as_str(), "", error.to_string())
    }

    /// Writes lines with a mark in front; causes are two blanks deeper.
    pub fn write(&self, out: &mut String, depth: usize) {
        if !out.is_empty() {
            out.push('\n');
        }
        out.extend(std::iter::repeat_n("  ", depth));
        out.push_str(&format!("- at {}: {}", quoted(&self.pointer), self.message));
        for cause in &self.causes {
            cause.write(out, depth + 1);
        }
    }
}

/// Longest chain of references that is followed.
const DEEPEST: usize = 200;
/// Largest number of rules applied in the explanation of a schema with a ring of rules. The bound
/// on the cost of a check does not cover such a ring, which can be followed in many ways.
const MOST_STEPS: u32 = 200_000;
/// Address that Helm's library gives to the schema.
pub const PLACE: &str = "file:///values.schema.json";

/// Finds the faults of a value.
pub(crate) struct Explainer<'s> {
    root: &'s Value,
    draft: Draft,
    formats: Formats,
    /// Steps that the explanation may still take; `None` without a limit.
    steps: Cell<Option<u32>>,
}

/// Faults of one place and the places below it.
type Findings = Vec<Finding>;

impl<'s> Explainer<'s> {
    pub(crate) fn new(root: &'s Value, draft: Draft, formats: Formats) -> Self {
        Self { root, draft, formats, steps: Cell::new(None) }
    }

    /// Limits the steps. For a schema whose rules lead back to themselves.
    pub(crate) fn bounded(self) -> Self {
        Self { steps: Cell::new(Some(MOST_STEPS)), ..self }
    }

    /// Returns all faults. Empty if the explanation finds none, even if the library has found one.
    pub(crate) fn explain(&self, value: &Value) -> Findings {
        let at = At { value, pointer: "", trail: None };
        opened(self.faults(self.root, at, &mut Unevaluated::default(), ""))
    }

    /// Returns true if the explanation was given up.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.steps.get() == Some(0)
    }

    /// Takes a step. Returns false if no step is left.
    fn goes_on(&self, trail: &Trail<'_>) -> bool {
        let is_deep = trail.depth() >= DEEPEST;
        self.steps.set(self.steps.get().map(|left| if is_deep { 0 } else { left.saturating_sub(1) }));
        !is_deep && !self.is_exhausted()
    }

    /// Returns the faults of a part of the schema, applied to a member or an element, combined into
    /// one.
    fn fault(&self, schema: &Value, at: At<'_>, keyword: &str) -> Option<Finding> {
        together(self.faults(schema, at, &mut Unevaluated::default(), keyword), at.pointer)
    }

    /// Returns the combined fault of a part that is applied to the same place. If there is none,
    /// the members and elements that the part has evaluated are no longer unevaluated.
    fn fault_here(
        &self,
        schema: &Value,
        at: At<'_>,
        unevaluated: &mut Unevaluated,
        keyword: &str,
    ) -> Option<Finding> {
        let mut left =
            if unevaluated.is_empty() { Unevaluated::default() } else { Unevaluated::of(at.value) };
        let fault = together(self.faults(schema, at, &mut left, keyword), at.pointer);
        if fault.is_none() {
            unevaluated.keep(&left);
        }
        fault
    }

    /// Returns the faults of a schema at a place. `unevaluated` has the members and elements that
    /// no rule has evaluated so far; it is empty if no keyword needs them. `keyword` is the way
    /// from the parent's schema.
    fn faults(&self, schema: &Value, at: At<'_>, unevaluated: &mut Unevaluated, keyword: &str) -> Findings {
        let trail = Trail { schema, value: at.value, keyword, parent: at.trail };
        let here = At { trail: Some(&trail), ..at };
        let found = |keyword, message: String| vec![finding(at.pointer, keyword, message)];
        let members = match schema {
            Value::Bool(true) => return Vec::new(),
            Value::Bool(false) => return found("", "false schema".to_owned()),
            Value::Object(members) if self.goes_on(&trail) => members,
            _ => return Vec::new(),
        };
        if let Some(first) = trail.ring() {
            let [second, first] = [trail.location(), first.location()];
            let target = words::go_quoted(&bundle::origin(&pointer_of(self.root, schema)));
            let message = format!("both {second} and {first} resolve to {target} causing reference cycle");
            return found("", message);
        }
        // In old drafts a reference hides all other keywords.
        let reference = members.get("$ref").and_then(Value::as_str);
        if !self.is_modern()
            && let Some(reference) = reference
        {
            return self.referred(reference, here, unevaluated, "/$ref").into_iter().collect();
        }
        if let Some((keyword, message)) = self.decisive(members, at.value) {
            return found(keyword, message);
        }
        let own =
            ["unevaluatedProperties", "unevaluatedItems"].iter().any(|name| members.contains_key(*name));
        if own && self.is_modern() && unevaluated.is_empty() {
            *unevaluated = Unevaluated::of(at.value);
        }
        let mut faults = Vec::new();
        if let Some(reference) = reference {
            faults.extend(self.referred(reference, here, unevaluated, "/$ref"));
        }
        match at.value {
            Value::Object(values) => self.object(members, values, here, unevaluated, &mut faults),
            Value::Array(items) => self.array(members, items, here, unevaluated, &mut faults),
            Value::String(text) => self.text(members, text, at.pointer, &mut faults),
            Value::Number(_) => self.number(members, at.value, at.pointer, &mut faults),
            Value::Null | Value::Bool(_) => {}
        }
        for (keyword, step) in [("$recursiveRef", "/$recursiveRef"), ("$dynamicRef", "/$dynamicRef")] {
            if let Some(reference) = members.get(keyword).and_then(Value::as_str).filter(|_| self.is_modern())
            {
                faults.extend(self.referred(reference, here, unevaluated, step));
            }
        }
        self.combined(members, here, unevaluated, &mut faults);
        if self.is_modern() {
            self.unevaluated(members, here, unevaluated, &mut faults);
        }
        faults.sort_by(|a, b| (&a.pointer, a.keyword).cmp(&(&b.pointer, b.keyword)));
        faults
    }

    /// Returns true if the draft is 2019-09 or newer.
    fn is_modern(&self) -> bool {
        !matches!(self.draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7)
    }

    fn referred(
        &self,
        reference: &str,
        at: At<'_>,
        unevaluated: &mut Unevaluated,
        keyword: &str,
    ) -> Option<Finding> {
        let target = self.target(reference)?;
        let mut left =
            if unevaluated.is_empty() { Unevaluated::default() } else { Unevaluated::of(at.value) };
        let faults = opened(self.faults(target, at, &mut left, keyword));
        if faults.is_empty() {
            unevaluated.keep(&left);
        }
        together(faults, at.pointer).map(|fault| match fault.keyword {
            "" if !fault.causes.is_empty() => Finding { keyword: "$ref", ..fault },
            _ => fault,
        })
    }

    /// Reports members that no other rule has evaluated.
    fn unevaluated(
        &self,
        schema: &Map<String, Value>,
        at: At<'_>,
        unevaluated: &mut Unevaluated,
        faults: &mut Findings,
    ) {
        if let (Some(rule), Value::Object(members)) = (schema.get("unevaluatedProperties"), at.value) {
            for name in std::mem::take(&mut unevaluated.names) {
                if let Some(value) = members.get(&name) {
                    let pointer = member(at.pointer, &name);
                    faults.extend(self.fault(rule, at.below(value, &pointer), "/unevaluatedProperties"));
                }
            }
        }
        if let (Some(rule), Value::Array(items)) = (schema.get("unevaluatedItems"), at.value) {
            for index in std::mem::take(&mut unevaluated.places) {
                if let Some(item) = items.get(index) {
                    let pointer = format!("{}/{index}", at.pointer);
                    faults.extend(self.fault(rule, at.below(item, &pointer), "/unevaluatedItems"));
                }
            }
        }
    }

    fn target(&self, reference: &str) -> Option<&'s Value> {
        let (base, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let own = ["$id", "id"].iter().find_map(|key| self.root.get(*key)?.as_str()).unwrap_or_default();
        let document = if base.is_empty() || base == own.trim_end_matches('#') {
            Some(self.root)
        } else {
            by_id(self.root, base)
        };
        let document = document?;
        match fragment {
            "" => Some(document),
            pointer if pointer.starts_with('/') => document.pointer(&percent_decoded(pointer)),
            anchor => by_anchor(document, anchor),
        }
    }

    /// Checks type, constants and format. The first that does not fit hides all other faults.
    fn decisive(&self, schema: &Map<String, Value>, value: &Value) -> Option<(&'static str, String)> {
        if let Some(wanted) = schema.get("type") {
            let names: Vec<&str> = match wanted {
                Value::String(name) => vec![name],
                Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
                _ => Vec::new(),
            };
            let fits = |name: &&str| *name == type_name(value) || *name == "integer" && is_integer(value);
            if !names.is_empty() && !names.iter().any(fits) {
                return Some(("type", format!("got {}, want {}", type_name(value), words::types(&names))));
            }
        }
        if self.draft != Draft::Draft4
            && let Some(constant) = schema.get("const")
            && !equal(constant, value)
        {
            return Some(("const", words::constant(constant)));
        }
        if let Some(Value::Array(options)) = schema.get("enum")
            && !options.iter().any(|option| equal(option, value))
        {
            return Some(("enum", words::options(options)));
        }
        if let (Some(Value::String(format)), Value::String(text)) = (schema.get("format"), value)
            && let Some(reason) = self.formats.problem(format, text)
        {
            return Some(("format", format!("{} is not valid {format}: {reason}", quoted(text))));
        }
        None
    }

    /// Reports whether a value fits a single keyword, according to the library.
    fn fits(&self, keyword: &str, schema: &Map<String, Value>, value: &Value) -> bool {
        let Some(rule) = schema.get(keyword) else { return true };
        let options = jsonschema::options()
            .with_draft(self.draft)
            .with_pattern_options(PatternOptions::regex().size_limit(LARGEST_PATTERN));
        let validator = self.formats.apply(options).build(&json!({keyword: rule}));
        validator.is_ok_and(|validator| validator.is_valid(value))
    }

    fn object(
        &self,
        schema: &Map<String, Value>,
        members: &Map<String, Value>,
        at: At<'_>,
        unevaluated: &mut Unevaluated,
        faults: &mut Findings,
    ) {
        count_between(schema, ["minProperties", "maxProperties"], members.len(), at.pointer, faults);
        let missing = |names: &Value| -> Vec<String> {
            let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.filter(|name| !members.contains_key(*name)).map(str::to_owned).collect()
        };
        if let Some(required) = schema.get("required") {
            let missing = missing(required);
            match &missing[..] {
                [] => {}
                [one] => {
                    faults.push(finding(at.pointer, "required", format!("missing property {}", quoted(one))));
                }
                many => {
                    let message = format!("missing properties {}", quoted_list(many));
                    faults.push(finding(at.pointer, "required", message));
                }
            }
        }
        for keyword in ["dependencies", "dependentRequired", "dependentSchemas"] {
            let is_known = keyword == "dependencies" || self.is_modern();
            let Some(Value::Object(entries)) = schema.get(keyword).filter(|_| is_known) else { continue };
            for (name, wanted) in entries.iter().filter(|(name, _)| members.contains_key(*name)) {
                if wanted.is_array() {
                    let missing = missing(wanted);
                    if !missing.is_empty() {
                        let [missing, name] = [quoted_list(&missing), quoted(name)];
                        let message = format!("properties {missing} required, if {name} exists");
                        faults.push(finding(at.pointer, "dependencies", message));
                    }
                } else {
                    let step = format!("/{keyword}/{}", escaped(name));
                    faults.extend(self.fault_here(wanted, at, unevaluated, &step));
                }
            }
        }
        self.properties(schema, members, at, unevaluated, faults);
        if self.draft != Draft::Draft4
            && let Some(names) = schema.get("propertyNames")
        {
            for name in members.keys() {
                let text = Value::String(name.clone());
                // Helm's library checks a name without its place, so findings have the pointer of
                // the root.
                let alone = At { value: &text, pointer: "", trail: None };
                let causes = opened(self.faults(names, alone, &mut Unevaluated::default(), ""));
                if !causes.is_empty() {
                    let message = format!("invalid propertyName {}", quoted(name));
                    faults.push(Finding { causes, ..finding("", "propertyNames", message) });
                }
            }
        }
    }

    fn properties(
        &self,
        schema: &Map<String, Value>,
        members: &Map<String, Value>,
        at: At<'_>,
        unevaluated: &mut Unevaluated,
        faults: &mut Findings,
    ) {
        let patterns = schema.get("patternProperties").and_then(Value::as_object);
        let others = schema.get("additionalProperties");
        let mut unexpected = Vec::new();
        for (name, value) in members {
            let pointer = member(at.pointer, name);
            let below = at.below(value, &pointer);
            let mut is_known = false;
            if let Some(rule) = schema.get("properties").and_then(|rules| rules.get(name)) {
                is_known = true;
                faults.extend(self.fault(rule, below, &format!("/properties/{}", escaped(name))));
            }
            for (pattern, rule) in patterns.into_iter().flatten() {
                let holder = Map::from_iter([("pattern".to_owned(), json!(pattern))]);
                if self.fits("pattern", &holder, &json!(name)) {
                    is_known = true;
                    faults.extend(self.fault(
                        rule,
                        below,
                        &format!("/patternProperties/{}", escaped(pattern)),
                    ));
                }
            }
            match others {
                Some(Value::Bool(false)) if !is_known => unexpected.push(name.clone()),
                Some(rule) if !is_known => faults.extend(self.fault(rule, below, "/additionalProperties")),
                _ => {}
            }
            if is_known || others.is_some() {
                unevaluated.names.remove(name);
            }
        }
        if !unexpected.is_empty() {
            let message = format!("additional properties {} not allowed", quoted_list(&unexpected));
            faults.push(finding(at.pointer, "additionalProperties", message));
        }
    }

    fn array(
        &self,
        schema: &Map<String, Value>,
        items: &[Value],
        at: At<'_>,
        unevaluated: &mut Unevaluated,
        faults: &mut Findings,
    ) {
        count_between(schema, ["minItems", "maxItems"], items.len(), at.pointer, faults);
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            let twins = (1..items.len())
                .flat_map(|second| (0..second).map(move |first| (first, second)))
                .find(|(first, second)| equal(&items[*first], &items[*second]));
            if let Some((first, second)) = twins {
                let message = format!("items at {first} and {second} are equal");
                faults.push(finding(at.pointer, "uniqueItems", message));
            }
        }
        let is_new = self.draft == Draft::Draft202012;
        let (by_place, rest) = match (is_new, schema.get("items")) {
            (true, rest) => (schema.get("prefixItems").and_then(Value::as_array), rest),
            (false, Some(Value::Array(places))) => (Some(places), schema.get("additionalItems")),
            (false, every) => (None, every),
        };
        let placed = by_place.map_or(0, Vec::len);
        if rest.is_some() {
            unevaluated.places.clear();
        }
        unevaluated.places.retain(|index| *index >= placed);
        let counts_rest = !is_new && placed > 0 && rest == Some(&Value::Bool(false));
        for (index, item) in items.iter().enumerate() {
            let (rule, step) = match by_place.and_then(|rules| rules.get(index)) {
                Some(rule) => {
                    (Some(rule), format!("/{}/{index}", if is_new { "prefixItems" } else { "items" }))
                }
                None => (rest.filter(|_| !counts_rest), "/items".to_owned()),
            };
            // Helm's library counts the elements behind those with a schema of their own from 0.
            let shown = if index >= placed { index - placed } else { index };
            if let Some(rule) = rule {
                let pointer = format!("{}/{shown}", at.pointer);
                faults.extend(self.fault(rule, at.below(item, &pointer), &step));
            }
        }
        if counts_rest && items.len() > placed {
            let message = format!("last {} additionalItem(s) not allowed", items.len() - placed);
            faults.push(finding(at.pointer, "additionalItems", message));
        }
        self.contained(schema, items, at, unevaluated, faults);
    }

    fn contained(
        &self,
        schema: &Map<String, Value>,
        items: &[Value],
        at: At<'_>,
        unevaluated: &mut Unevaluated,
        faults: &mut Findings,
    ) {
        let Some(rule) = schema.get("contains").filter(|_| self.draft != Draft::Draft4) else { return };
        let (mut matched, mut causes) = (Vec::new(), Vec::new());
        for (index, item) in items.iter().enumerate() {
            let pointer = format!("{}/{index}", at.pointer);
            match self.fault(rule, at.below(item, &pointer), "/contains") {
                None => {
                    matched.push(index.to_string());
                    if self.draft == Draft::Draft202012 {
                        unevaluated.places.remove(&index);
                    }
                }
                Some(fault) => causes.push(fault),
            }
        }
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64).filter(|_| self.is_modern());
        let count = matched.len() as f64;
        let matching = || format!("matched {} items at {}", matched.len(), matched.join(" "));
        match bound("minContains") {
            Some(least) if count < least => {
                let got = if matched.is_empty() { "none matched".to_owned() } else { matching() };
                let least = number(least);
                let message = format!("min {least} items required to match contains schema, but {got}");
                faults.push(Finding { causes, ..finding(at.pointer, "minContains", message) });
            }
            None if matched.is_empty() => {
                let message = "no items match contains schema".to_owned();
                faults.push(Finding { causes, ..finding(at.pointer, "contains", message) });
            }
            _ => {}
        }
        if let Some(most) = bound("maxContains").filter(|most| count > *most) {
            let (most, got) = (number(most), matching());
            let message = format!("max {most} items required to match contains schema, but {got}");
            faults.push(finding(at.pointer, "maxContains", message));
        }
    }

    /// Returns the faults of keywords that combine other schemas, such as `allOf` and `not`.
    fn combined(
        &self,
        schema: &Map<String, Value>,
        at: At<'_>,
        unevaluated: &mut Unevaluated,
        faults: &mut Findings,
    ) {
        let all =
            |keyword: &str| schema.get(keyword).and_then(Value::as_array).filter(|rules| !rules.is_empty());
        if schema.get("not").is_some_and(|rule| self.fault_here(rule, at, unevaluated, "/not").is_none()) {
            faults.push(finding(at.pointer, "not", "'not' failed".to_owned()));
        }
        let mut each = |keyword: &str, rules: &[Value], until_one_fits: bool| {
            let mut results: Vec<Option<Finding>> = Vec::new();
            for (index, rule) in rules.iter().enumerate() {
                let fault = self.fault_here(rule, at, unevaluated, &format!("/{keyword}/{index}"));
                let is_enough = until_one_fits && fault.is_none() && unevaluated.is_empty();
                results.push(fault);
                if is_enough {
                    break;
                }
            }
            results
        };
        if let Some(rules) = all("allOf") {
            let causes: Vec<Finding> = each("allOf", rules, false).into_iter().flatten().collect();
            if !causes.is_empty() {
                faults.push(Finding { causes, ..finding(at.pointer, "allOf", "'allOf' failed".to_owned()) });
            }
        }
        if let Some(rules) = all("anyOf") {
            let results = each("anyOf", rules, true);
            if results.iter().all(Option::is_some) {
                let causes = results.into_iter().flatten().collect();
                faults.push(Finding { causes, ..finding(at.pointer, "anyOf", "'anyOf' failed".to_owned()) });
            }
        }
        if let Some(rules) = all("oneOf") {
            faults.extend(one_of(each("oneOf", rules, false), at.pointer));
        }
        let is_old = matches!(self.draft, Draft::Draft4 | Draft::Draft6);
        if let Some(condition) = schema.get("if").filter(|_| !is_old) {
            let fits = self.fault_here(condition, at, unevaluated, "/if").is_none();
            let (keyword, step) = if fits { ("then", "/then") } else { ("else", "/else") };
            let rule = schema.get(keyword);
            faults.extend(rule.and_then(|rule| self.fault_here(rule, at, unevaluated, step)));
        }
    }
}

fn one_of(results: Vec<Option<Finding>>, at: &str) -> Option<Finding> {
    let matched = results.iter().enumerate().filter(|(_, fault)| fault.is_none()).map(|(index, _)| index);
    match matched.collect::<Vec<usize>>()[..] {
        [] => {
            let causes = results.into_iter().flatten().collect();
            Some(Finding { causes, ..finding(at, "oneOf", "'oneOf' failed, none matched".to_owned()) })
        }
        [_] => None,
        [first, second, ..] => {
            let message = format!("'oneOf' failed, subschemas {first}, {second} matched");
            Some(finding(at, "oneOf", message))
        }
    }
}

fn finding(at: &str, keyword: &'static str, message: String) -> Finding {
    Finding { pointer: at.to_owned(), keyword, message, causes: Vec::new() }
}

fn together(mut faults: Findings, at: &str) -> Option<Finding> {
    match faults.len() {
        0 | 1 => faults.pop(),
        _ => Some(Finding { causes: faults, ..finding(at, "", "validation failed".to_owned()) }),
    }
}

/// Splits a combined fault into its parts, if it is the only one.
fn opened(mut faults: Findings) -> Findings {
    match &mut faults[..] {
        [only] if only.keyword.is_empty() && !only.causes.is_empty() => std::mem::take(&mut only.causes),
        _ => faults,
    }
}
