//! Why a value does not fit, as a tree in the words of Go's santhosh-tekuri/jsonschema (`helm.md` 5).
//!
//! Whether it fits is decided by the library; this walks schema and value once more, to say what is wrong in that one's structure:
//! a place with several faults has a line of its own, and so have `allOf`, `anyOf` and `oneOf`. Faults are in the order of the places,
//! then of the keywords.

use jsonschema::{Draft, PatternOptions};
use serde_json::{Map, Value, json};

use crate::{Formats, LARGEST_PATTERN};

mod words;

use words::{Want, number, quoted, quoted_list, type_name};

/// Something that does not fit, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// JSON pointer of the place.
    pub pointer: String,
    keyword: &'static str,
    pub message: String,
    pub causes: Vec<Finding>,
}

impl Finding {
    /// About the whole value.
    pub(crate) fn root(message: String) -> Finding {
        finding("", "", message)
    }

    /// What the library says.
    pub(crate) fn of(error: &jsonschema::ValidationError<'_>) -> Finding {
        finding(error.instance_path().as_str(), "", error.to_string())
    }

    /// Lines with a mark in front, causes two blanks deeper.
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

/// References that lead to one another are followed so far.
const DEEPEST: usize = 200;

/// Explains what is wrong with a value.
pub(crate) struct Explainer<'s> {
    root: &'s Value,
    draft: Draft,
    formats: Formats,
}

/// A list of faults of one place and what is below it.
type Findings = Vec<Finding>;

impl<'s> Explainer<'s> {
    pub(crate) fn new(root: &'s Value, draft: Draft, formats: Formats) -> Self {
        Self { root, draft, formats }
    }

    /// All faults; none if this finds none, although the library has.
    pub(crate) fn explain(&self, value: &Value) -> Findings {
        opened(self.faults(self.root, value, "", 0))
    }

    /// The faults of a part of the schema as one: several are put together.
    fn fault(&self, schema: &Value, value: &Value, at: &str, depth: usize) -> Option<Finding> {
        together(self.faults(schema, value, at, depth), at)
    }

    fn faults(&self, schema: &Value, value: &Value, at: &str, depth: usize) -> Findings {
        let found = |keyword, message: String| vec![finding(at, keyword, message)];
        let schema = match schema {
            Value::Bool(true) => return Vec::new(),
            Value::Bool(false) => return found("", "false schema".to_owned()),
            Value::Object(schema) if depth < DEEPEST => schema,
            _ => return Vec::new(),
        };
        let modern = !matches!(self.draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7);
        let reference = schema.get("$ref").and_then(Value::as_str);
        if let (Some(reference), false) = (reference, modern) {
            return self.referred(reference, value, at, depth).into_iter().collect();
        }
        // One of these, and nothing else is looked at.
        if let Some(message) = self.decisive(schema, value) {
            return found(message.0, message.1);
        }
        let mut faults = Vec::new();
        faults.extend(reference.and_then(|reference| self.referred(reference, value, at, depth)));
        match value {
            Value::Object(members) => self.object(schema, members, at, depth, &mut faults),
            Value::Array(items) => self.array(schema, items, at, depth, &mut faults),
            Value::String(text) => self.text(schema, text, at, &mut faults),
            Value::Number(_) => self.number(schema, value, at, &mut faults),
            Value::Null | Value::Bool(_) => {}
        }
        self.combined(schema, value, at, depth, &mut faults);
        faults.sort_by(|a, b| (&a.pointer, a.keyword).cmp(&(&b.pointer, b.keyword)));
        faults
    }

    /// What a reference leads to. One fault behind it stands for itself.
    fn referred(&self, reference: &str, value: &Value, at: &str, depth: usize) -> Option<Finding> {
        let target = self.target(reference)?;
        let faults = opened(self.faults(target, value, at, depth + 1));
        together(faults, at).map(|fault| match fault.keyword {
            "" if !fault.causes.is_empty() => Finding { keyword: "$ref", ..fault },
            _ => fault,
        })
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

    /// Type, constants and format: the first that does not fit hides everything else.
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

    /// Whether a value fits a single keyword, by the library.
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
        at: &str,
        depth: usize,
        faults: &mut Findings,
    ) {
        count_between(schema, ["minProperties", "maxProperties"], members.len(), at, faults);
        let missing = |names: &Value| -> Vec<String> {
            let names = names.as_array().into_iter().flatten().filter_map(Value::as_str);
            names.filter(|name| !members.contains_key(*name)).map(str::to_owned).collect()
        };
        if let Some(required) = schema.get("required") {
            let missing = missing(required);
            match &missing[..] {
                [] => {}
                [one] => faults.push(finding(at, "required", format!("missing property {}", quoted(one)))),
                many => {
                    faults.push(finding(at, "required", format!("missing properties {}", quoted_list(many))));
                }
            }
        }
        for keyword in ["dependencies", "dependentRequired", "dependentSchemas"] {
            let Some(Value::Object(entries)) = schema.get(keyword) else { continue };
            for (name, wanted) in entries.iter().filter(|(name, _)| members.contains_key(*name)) {
                if wanted.is_array() {
                    let missing = missing(wanted);
                    if !missing.is_empty() {
                        let [missing, name] = [quoted_list(&missing), quoted(name)];
                        let message = format!("properties {missing} required, if {name} exists");
                        faults.push(finding(at, "dependencies", message));
                    }
                } else {
                    let whole = Value::Object(members.clone());
                    faults.extend(self.fault(wanted, &whole, at, depth + 1));
                }
            }
        }
        self.properties(schema, members, at, depth, faults);
        if self.draft != Draft::Draft4
            && let Some(names) = schema.get("propertyNames")
        {
            for name in members.keys() {
                let causes = self.faults(names, &Value::String(name.clone()), "", depth + 1);
                if !causes.is_empty() {
                    let message = format!("invalid propertyName {}", quoted(name));
                    // The original checks a name by itself, and forgets where it stands.
                    faults.push(Finding { causes, ..finding("", "propertyNames", message) });
                }
            }
        }
    }

    fn properties(
        &self,
        schema: &Map<String, Value>,
        members: &Map<String, Value>,
        at: &str,
        depth: usize,
        faults: &mut Findings,
    ) {
        let mut unexpected = Vec::new();
        for (name, value) in members {
            let place = format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"));
            let mut is_known = false;
            if let Some(rule) = schema.get("properties").and_then(|rules| rules.get(name)) {
                is_known = true;
                faults.extend(self.fault(rule, value, &place, depth + 1));
            }
            for (pattern, rule) in
                schema.get("patternProperties").and_then(Value::as_object).into_iter().flatten()
            {
                let holder = Map::from_iter([("pattern".to_owned(), json!(pattern))]);
                if self.fits("pattern", &holder, &json!(name)) {
                    is_known = true;
                    faults.extend(self.fault(rule, value, &place, depth + 1));
                }
            }
            match schema.get("additionalProperties") {
                Some(Value::Bool(false)) if !is_known => unexpected.push(name.clone()),
                Some(rule) if !is_known => faults.extend(self.fault(rule, value, &place, depth + 1)),
                _ => {}
            }
        }
        if !unexpected.is_empty() {
            let message = format!("additional properties {} not allowed", quoted_list(&unexpected));
            faults.push(finding(at, "additionalProperties", message));
        }
    }

    fn array(
        &self,
        schema: &Map<String, Value>,
        items: &[Value],
        at: &str,
        depth: usize,
        faults: &mut Findings,
    ) {
        count_between(schema, ["minItems", "maxItems"], items.len(), at, faults);
        if schema.get("uniqueItems") == Some(&Value::Bool(true)) {
            let twins = (1..items.len())
                .flat_map(|second| (0..second).map(move |first| (first, second)))
                .find(|(first, second)| equal(&items[*first], &items[*second]));
            if let Some((first, second)) = twins {
                faults.push(finding(at, "uniqueItems", format!("items at {first} and {second} are equal")));
            }
        }
        let is_new = self.draft == Draft::Draft202012;
        let (by_place, rest) = match (is_new, schema.get("items")) {
            (true, rest) => (schema.get("prefixItems").and_then(Value::as_array), rest),
            (false, Some(Value::Array(places))) => (Some(places), schema.get("additionalItems")),
            (false, every) => (None, every),
        };
        let placed = by_place.map_or(0, Vec::len);
        for (index, item) in items.iter().enumerate() {
            let rule = by_place.and_then(|rules| rules.get(index)).or(rest);
            // The original counts what is behind those with a place of their own from 0.
            let shown = if index >= placed { index - placed } else { index };
            let counts_rest = !is_new && index >= placed && placed > 0 && rest == Some(&Value::Bool(false));
            if let Some(rule) = rule
                && !counts_rest
            {
                faults.extend(self.fault(rule, item, &format!("{at}/{shown}"), depth + 1));
            }
        }
        if !is_new && placed > 0 && items.len() > placed && rest == Some(&Value::Bool(false)) {
            let message = format!("last {} additionalItem(s) not allowed", items.len() - placed);
            faults.push(finding(at, "additionalItems", message));
        }
        self.contained(schema, items, at, depth, faults);
    }

    fn contained(
        &self,
        schema: &Map<String, Value>,
        items: &[Value],
        at: &str,
        depth: usize,
        faults: &mut Findings,
    ) {
        let Some(rule) = schema.get("contains").filter(|_| self.draft != Draft::Draft4) else { return };
        let (mut matched, mut causes) = (Vec::new(), Vec::new());
        for (index, item) in items.iter().enumerate() {
            match self.fault(rule, item, &format!("{at}/{index}"), depth + 1) {
                None => matched.push(index.to_string()),
                Some(fault) => causes.push(fault),
            }
        }
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let count = matched.len() as f64;
        let matching = || format!("matched {} items at {}", matched.len(), matched.join(" "));
        match bound("minContains") {
            Some(least) if count < least => {
                let got = if matched.is_empty() { "none matched".to_owned() } else { matching() };
                let least = number(least);
                let message = format!("min {least} items required to match contains schema, but {got}");
                faults.push(Finding { causes, ..finding(at, "minContains", message) });
            }
            None if matched.is_empty() => {
                let message = "no items match contains schema".to_owned();
                faults.push(Finding { causes, ..finding(at, "contains", message) });
            }
            _ => {}
        }
        if let Some(most) = bound("maxContains").filter(|most| count > *most) {
            let (most, got) = (number(most), matching());
            let message = format!("max {most} items required to match contains schema, but {got}");
            faults.push(finding(at, "maxContains", message));
        }
    }

    fn text(&self, schema: &Map<String, Value>, text: &str, at: &str, faults: &mut Findings) {
        count_between(schema, ["minLength", "maxLength"], text.chars().count(), at, faults);
        if let Some(Value::String(pattern)) = schema.get("pattern")
            && !self.fits("pattern", schema, &json!(text))
        {
            let message = format!("{} does not match pattern {}", quoted(text), quoted(pattern));
            faults.push(finding(at, "pattern", message));
        }
    }

    fn number(&self, schema: &Map<String, Value>, value: &Value, at: &str, faults: &mut Findings) {
        let got = value.as_f64().unwrap_or(f64::NAN);
        let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
        let is_exclusive = |keyword: &str| schema.get(keyword) == Some(&Value::Bool(true));
        let bounds: [(&'static str, &str, bool, bool); 4] = [
            ("minimum", "minimum", false, !is_exclusive("exclusiveMinimum")),
            ("maximum", "maximum", true, !is_exclusive("exclusiveMaximum")),
            (
                "exclusiveMinimum",
                if is_exclusive("exclusiveMinimum") { "minimum" } else { "exclusiveMinimum" },
                false,
                false,
            ),
            (
                "exclusiveMaximum",
                if is_exclusive("exclusiveMaximum") { "maximum" } else { "exclusiveMaximum" },
                true,
                false,
            ),
        ];
        for (keyword, holder, is_upper, is_inclusive) in bounds {
            let inclusive_only = matches!(keyword, "minimum" | "maximum");
            let Some(want) = bound(holder).filter(|_| !inclusive_only || is_inclusive) else { continue };
            let fits = match (is_upper, is_inclusive) {
                (false, true) => got >= want,
                (false, false) => got > want,
                (true, true) => got <= want,
                (true, false) => got < want,
            };
            if !fits {
                faults.push(finding(at, keyword, Want { keyword, got, want }.to_string()));
            }
        }
        if let Some(want) = bound("multipleOf")
            && !self.fits("multipleOf", schema, value)
        {
            faults.push(finding(at, "multipleOf", Want { keyword: "multipleOf", got, want }.to_string()));
        }
    }

    /// Rules that are made of others.
    fn combined(
        &self,
        schema: &Map<String, Value>,
        value: &Value,
        at: &str,
        depth: usize,
        faults: &mut Findings,
    ) {
        let fault = |rule: &Value| self.fault(rule, value, at, depth + 1);
        let all =
            |keyword: &str| schema.get(keyword).and_then(Value::as_array).filter(|rules| !rules.is_empty());
        if schema.get("not").is_some_and(|rule| fault(rule).is_none()) {
            faults.push(finding(at, "not", "'not' failed".to_owned()));
        }
        if let Some(rules) = all("allOf") {
            let causes: Vec<Finding> = rules.iter().filter_map(fault).collect();
            if !causes.is_empty() {
                faults.push(Finding { causes, ..finding(at, "allOf", "'allOf' failed".to_owned()) });
            }
        }
        if let Some(rules) = all("anyOf") {
            let causes: Vec<Finding> = rules.iter().filter_map(fault).collect();
            if causes.len() == rules.len() {
                faults.push(Finding { causes, ..finding(at, "anyOf", "'anyOf' failed".to_owned()) });
            }
        }
        if let Some(rules) = all("oneOf") {
            let results: Vec<Option<Finding>> = rules.iter().map(fault).collect();
            let matched: Vec<usize> = results
                .iter()
                .enumerate()
                .filter(|(_, fault)| fault.is_none())
                .map(|(index, _)| index)
                .collect();
            match matched[..] {
                [] => {
                    let causes = results.into_iter().flatten().collect();
                    let message = "'oneOf' failed, none matched".to_owned();
                    faults.push(Finding { causes, ..finding(at, "oneOf", message) });
                }
                [_] => {}
                [first, second, ..] => {
                    let message = format!("'oneOf' failed, subschemas {first}, {second} matched");
                    faults.push(finding(at, "oneOf", message));
                }
            }
        }
        let is_old = matches!(self.draft, Draft::Draft4 | Draft::Draft6);
        if let Some(condition) = schema.get("if").filter(|_| !is_old) {
            let then = if fault(condition).is_none() { "then" } else { "else" };
            faults.extend(schema.get(then).and_then(fault));
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

/// Several faults that were put together somewhere below, if there is nothing else, one by one.
fn opened(mut faults: Findings) -> Findings {
    match &mut faults[..] {
        [only] if only.keyword.is_empty() && !only.causes.is_empty() => std::mem::take(&mut only.causes),
        _ => faults,
    }
}

fn count_between(
    schema: &Map<String, Value>,
    [least, most]: [&'static str; 2],
    count: usize,
    at: &str,
    faults: &mut Findings,
) {
    let bound = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let got = count as f64;
    if let Some(want) = bound(least).filter(|want| got < *want) {
        faults.push(finding(at, least, Want { keyword: least, got, want }.to_string()));
    }
    if let Some(want) = bound(most).filter(|want| got > *want) {
        faults.push(finding(at, most, Want { keyword: most, got, want }.to_string()));
    }
}

/// Equal as JSON: 1 and 1.0 are the same.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

fn is_integer(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.fract() == 0.0)
}

/// The part of a schema with this id.
fn by_id<'s>(schema: &'s Value, id: &str) -> Option<&'s Value> {
    search(schema, &|part| {
        let own = ["$id", "id"].iter().find_map(|key| part.get(*key)?.as_str());
        own.is_some_and(|own| own.trim_end_matches('#') == id)
    })
}

fn by_anchor<'s>(schema: &'s Value, anchor: &str) -> Option<&'s Value> {
    search(schema, &|part| {
        let named = ["$anchor", "$dynamicAnchor"].iter().find_map(|key| part.get(*key)?.as_str());
        named == Some(anchor) || part.get("$id").and_then(Value::as_str) == Some(&format!("#{anchor}"))
    })
}

fn search<'s>(schema: &'s Value, is_it: &impl Fn(&Value) -> bool) -> Option<&'s Value> {
    let mut waiting = vec![schema];
    while let Some(part) = waiting.pop() {
        match part {
            Value::Object(members) => {
                if is_it(part) {
                    return Some(part);
                }
                waiting.extend(members.values());
            }
            Value::Array(items) => waiting.extend(items),
            _ => {}
        }
    }
    None
}

fn percent_decoded(pointer: &str) -> String {
    let mut bytes = Vec::with_capacity(pointer.len());
    let mut rest = pointer.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = match rest {
            [b'%', high, low, ..] => {
                std::str::from_utf8(&[*high, *low]).ok().and_then(|text| u8::from_str_radix(text, 16).ok())
            }
            _ => None,
        };
        match code {
            Some(code) => (bytes.push(code), rest = &rest[3..]).1,
            None => (bytes.push(*first), rest = tail).1,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
