//! Access to fields and methods (`gotemplate.md` 5.2).

use super::call::Given;
use super::{Evaluator, Reached, Result};
use crate::functions::{Signature, Type};
use crate::options::MissingKey;
use crate::syntax::tree::NodeId;
use crate::text;
use crate::value::{Map, MapValues, Member, NamedType, Object, Str, Value};

impl Evaluator<'_> {
    /// Follows a path of fields from a value. The arguments go to its last component. Errors show
    /// the operand `node`.
    pub(super) fn field_chain(
        &mut self,
        receiver: Reached,
        path: &[Str],
        node: NodeId,
        dot: &Reached,
        given: Given<'_>,
    ) -> Result<Reached> {
        let Some((last, steps)) = path.split_last() else { return Ok(receiver) };
        let mut receiver = receiver;
        for name in steps {
            receiver = self.field(receiver, name, node, dot, (&[], None))?;
        }
        self.field(receiver, last, node, dot, given)
    }

    fn field(
        &mut self,
        receiver: Reached,
        name: &Str,
        node: NodeId,
        dot: &Reached,
        given: Given<'_>,
    ) -> Result<Reached> {
        self.step()?;
        if let Some(method) = named_method(&receiver.value, name) {
            return self.named_call(&receiver.value, method, name, node, dot, given);
        }
        match &receiver.value {
            Value::Absent if self.context.options.missing_key == MissingKey::Error => {
                Err(self.fail(format!("nil data; no entry for key {}", text::quote(name))))
            }
            Value::Absent => Ok(receiver),
            Value::Nil => Err(self.fail(format!("nil pointer evaluating interface {{}}.{}", name.to_text()))),
            Value::Map(_) if !given.0.is_empty() || given.1.is_some() => {
                Err(self.fail(format!("{} is not a method but has arguments", name.to_text())))
            }
            Value::Map(map) => self.entry(map, name),
            Value::Object(object) => self.member(object.as_ref(), &receiver, name, node, dot, given),
            _ => Err(self.no_field(&receiver, name)),
        }
    }

    fn no_field(&self, receiver: &Reached, name: &Str) -> Box<crate::error::Error> {
        let type_name = if receiver.boxed { Type::Any.name() } else { receiver.value.type_name() };
        self.fail(format!("can't evaluate field {} in type {type_name}", name.to_text()))
    }

    fn entry(&self, map: &Map, name: &Str) -> Result<Reached> {
        if let Some(value) = map.get(name) {
            return Ok(Reached::entry(map.values_type(), value));
        }
        match (self.context.options.missing_key, map.values_type()) {
            (MissingKey::Default, _) => Ok(Reached::concrete(Value::Absent)),
            (MissingKey::Zero, MapValues::Any) => Ok(Reached { value: Value::Nil, boxed: true }),
            (MissingKey::Zero, values) => Ok(Reached::concrete(values.zero())),
            (MissingKey::Error, _) => {
                Err(self.fail(format!("map has no entry for key {}", text::quote(name))))
            }
        }
    }

    /// Calls a method of a value with a named type.
    fn named_call(
        &mut self,
        receiver: &Value,
        (named, signature): (&'static NamedType, Signature),
        name: &Str,
        node: NodeId,
        dot: &Reached,
        given: Given<'_>,
    ) -> Result<Reached> {
        let name = name.to_text();
        let arguments = self.arguments(&name, &signature, dot, given)?;
        let result = (named.call)(&mut self.context, receiver, &name, &arguments);
        self.finish_call(result, &name, node)
    }

    fn member(
        &mut self,
        object: &dyn Object,
        receiver: &Reached,
        name: &Str,
        node: NodeId,
        dot: &Reached,
        given: Given<'_>,
    ) -> Result<Reached> {
        let member_name = name.to_text();
        match object.member(&member_name) {
            None => Err(self.no_field(receiver, name)),
            Some(Member::Field(_)) if !given.0.is_empty() || given.1.is_some() => {
                Err(self.fail(format!("{member_name} has arguments but cannot be invoked as function")))
            }
            Some(Member::Unusable(problem)) => Err(self.fail(problem)),
            Some(Member::Field(value)) => Ok(Reached::concrete(value)),
            Some(Member::Method(signature)) => {
                let arguments = self.arguments(&member_name, &signature, dot, given)?;
                let result = object.call(&mut self.context, &member_name, &arguments);
                self.finish_call(result, &member_name, node)
            }
        }
    }
}

/// Returns the method of this name, if the value is of a named type that has it.
fn named_method(value: &Value, name: &Str) -> Option<(&'static NamedType, Signature)> {
    let named = match value {
        Value::Map(map) => map.named_type(),
        Value::List(list) => list.named_type(),
        _ => None,
    }?;
    Some((named, (named.method)(&name.to_text())?))
}

#[cfg(test)]
mod tests {
    use crate::options::MissingKey;
    use crate::testing::run;

    /// Case of `gotemplate.md` 1.2: expressions over `{"n": null}` in the three modes for missing
    /// keys.
    #[test]
    fn the_three_kinds_of_nil() {
        let no_entry = r#"map has no entry for key "nope""#;
        let nil_pointer = "nil pointer evaluating interface {}.x";
        let nil_data = r#"nil data; no entry for key "x""#;
        let wrong_string = "wrong type for value; expected string; got interface {}";
        let wrong_map = "wrong type for value; expected map[string]interface {}; got interface {}";
        let table: &[(&str, [&str; 3])] = &[
            ("{{.n}}", ["<no value>"; 3]),
            ("{{.nope}}", ["<no value>", "<no value>", no_entry]),
            ("{{.n.x}}", [nil_pointer; 3]),
            ("{{.nope.x}}", ["<no value>", nil_pointer, no_entry]),
            ("{{(.n).x}}", ["<no value>", "<no value>", nil_data]),
            ("{{$v := .n}}{{$v.x}}", ["<no value>", "<no value>", nil_data]),
            ("{{(.nope).x}}", ["<no value>", "<no value>", no_entry]),
            (r#"{{(index . "nope").x}}"#, ["<no value>", "<no value>", nil_data]),
            ("{{print .n}}", ["<nil>"; 3]),
            ("{{print .nope}}", ["<nil>", "<nil>", no_entry]),
            ("{{html .n}}", ["&lt;no value&gt;"; 3]),
            ("{{upper .n}}", [wrong_string; 3]),
            ("{{upper .nope}}", ["invalid value; expected string", wrong_string, no_entry]),
            (
                "{{.nope | upper}}",
                ["invalid value; expected string", "invalid value; expected string", no_entry],
            ),
            (r#"{{hasKey .nope "a"}}"#, ["false", wrong_map, no_entry]),
            (r#"{{hasKey (.nope) "a"}}"#, ["false", "false", no_entry]),
            ("{{range .nope}}x{{else}}e{{end}}", ["e", "e", no_entry]),
            ("{{len .n}}", ["error calling len: len of nil pointer"; 3]),
            (r#"{{index .n "a"}}"#, ["error calling index: index of untyped nil"; 3]),
            (r#"{{index . "nope" "a"}}"#, ["error calling index: index of nil pointer"; 3]),
        ];
        let data = serde_json::json!({"n": null});
        for (source, expected) in table {
            for (mode, expected) in
                [MissingKey::Default, MissingKey::Zero, MissingKey::Error].into_iter().zip(expected)
            {
                let got = run(source, &data, mode);
                assert!(
                    got == *expected || got.ends_with(&format!(">: {expected}")),
                    "{source} {mode:?}: {got}"
                );
            }
        }
    }

    #[test]
    fn errors_name_the_static_type() {
        let data = serde_json::json!({"s": "text", "l": [1]});
        let check =
            |source: &str, expected: &str| assert_eq!(run(source, &data, MissingKey::Default), expected);
        let error = |place: &str, type_name: &str| {
            format!(r#"error {place}: can't evaluate field x in type {type_name}"#)
        };
        check("{{.s.x}}", &error(r#"1:4: executing "t" at <.s.x>"#, "interface {}"));
        check("{{with .s}}{{.x}}{{end}}", &error(r#"1:13: executing "t" at <.x>"#, "string"));
        check("{{range .l}}{{.x}}{{end}}", &error(r#"1:14: executing "t" at <.x>"#, "interface {}"));
        check("{{$v := .l}}{{$v.x}}", &error(r#"1:16: executing "t" at <$v.x>"#, "[]interface {}"));
        check("{{.l 1}}", r#"error 1:2: executing "t" at <.l>: l is not a method but has arguments"#);
    }
}
