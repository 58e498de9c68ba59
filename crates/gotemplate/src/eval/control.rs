//! Execution of the control structures `if`, `with`, `range` and `template` (`gotemplate.md` 6).

use groundwork_budget::live_bytes::Held;

use super::{Evaluator, Flow, Reached, Result};
use crate::error::ErrorKind;
use crate::format;
use crate::syntax::tree::{Branch, NodeId, Pipe};
use crate::text;
use crate::value::{DataNumber, ENTRY_BYTES, SLOT_BYTES, Str, Value};

impl Evaluator<'_> {
    /// Runs `if` and `with`; only `with` rebinds dot.
    pub(super) fn condition(&mut self, branch: &Branch, rebinds: bool, dot: &Reached) -> Result<Flow> {
        let value = self.pipeline(branch.pipe, dot)?;
        if value.value.truth() {
            return self.walk(branch.body, if rebinds { &value } else { dot });
        }
        self.otherwise(branch, dot)
    }

    fn otherwise(&mut self, branch: &Branch, dot: &Reached) -> Result<Flow> {
        branch.otherwise.map_or(Ok(Flow::Done), |otherwise| self.walk(otherwise, dot))
    }

    pub(super) fn range(&mut self, branch: &Branch, dot: &Reached) -> Result<Flow> {
        let subject = self.pipeline(branch.pipe, dot)?.value;
        let ran = match &subject {
            Value::Absent | Value::Nil => None,
            Value::List(list) => {
                self.range_list(branch, list.items(), |item| Reached::element(list.element(), item))?
            }
            Value::Bytes(bytes) => {
                self.spend(bytes.len())?;
                let _held = Held::new(bytes.len() * SLOT_BYTES);
                let items: Vec<Value> =
                    bytes.iter().map(|&b| Value::Int(crate::value::IntKind::Uint8, i64::from(b))).collect();
                self.range_list(branch, &items, Reached::concrete)?
            }
            Value::Map(map) => {
                let mut ran = None;
                self.spend(map.len() / 8)?;
                // A snapshot, because the body of the loop may change the map.
                let entries = map.entries();
                let _held = Held::new(ENTRY_BYTES / 2 * entries.len());
                for (key, value) in entries {
                    let element = Reached::entry(map.values_type(), value);
                    ran = Some(self.iteration(branch, Reached::concrete(Value::Str(key)), &element)?);
                    if ran == Some(Flow::Break) {
                        break;
                    }
                }
                ran
            }
            number => match number.as_integer() {
                Some(end) => self.range_integer(branch, number, end)?,
                None => {
                    let shown = self.shown(number)?;
                    return Err(self.fail(format!("range can't iterate over {shown}")));
                }
            },
        };
        if ran.is_some() { Ok(Flow::Done) } else { self.otherwise(branch, dot) }
    }

    /// Iterates over the elements of a list. Returns `None` if there are none, so that `{{else}}`
    /// runs.
    fn range_list(
        &mut self,
        branch: &Branch,
        items: &[Value],
        reach: impl Fn(Value) -> Reached,
    ) -> Result<Option<Flow>> {
        let mut ran = None;
        for (index, item) in items.iter().enumerate() {
            let index = Reached::concrete(Value::int(i64::try_from(index).unwrap_or(i64::MAX)));
            ran = Some(self.iteration(branch, index, &reach(item.clone()))?);
            if ran == Some(Flow::Break) {
                break;
            }
        }
        Ok(ran)
    }

    /// Iterates from 0 to `end`, in the integer type of the subject.
    fn range_integer(&mut self, branch: &Branch, subject: &Value, end: i128) -> Result<Option<Flow>> {
        if self.pipe(branch.pipe).is_some_and(|pipe| pipe.variables.len() > 1) {
            let shown = self.shown(subject)?;
            return Err(self.fail(format!("can't use {shown} to iterate over more than one variable")));
        }
        let mut ran = None;
        let mut counter: i128 = 0;
        while counter < end {
            // The counter stays below `end`, which fits 64 bits, so the cast loses no bits.
            let bits = counter as i64;
            let element = match subject {
                Value::Int(kind, _) => Value::Int(*kind, bits),
                _ => Value::Number(DataNumber::Int(bits)),
            };
            ran = Some(self.iteration(
                branch,
                Reached::concrete(Value::Absent),
                &Reached::concrete(element),
            )?);
            if ran == Some(Flow::Break) {
                break;
            }
            counter += 1;
        }
        Ok(ran)
    }

    fn iteration(&mut self, branch: &Branch, index: Reached, element: &Reached) -> Result<Flow> {
        if let Some(Pipe { variables, .. }) = self.pipe(branch.pipe) {
            match &**variables {
                [] => {}
                [only] => self.set(only, element.clone())?,
                [first, second, ..] => {
                    self.set(first, index)?;
                    self.set(second, element.clone())?;
                }
            }
        }
        self.walk(branch.body, element)
    }

    /// Runs `{{template}}`: evaluates the argument here, and the body with variables of its own.
    pub(super) fn template(&mut self, name: &Str, pipe: Option<NodeId>, dot: &Reached) -> Result<()> {
        let program = self.program;
        let Some(body) = program.body(name) else {
            return Err(self.fail(format!("template {} not defined", text::quote(name))));
        };
        if self.context.run.depth >= self.context.run.budget.limits().template_depth {
            // The limit may be lower than Go's, but the message shows Go's 100000, because users
            // compare the texts.
            return Err(
                self.failure(ErrorKind::Limit, "exceeded maximum template depth (100000)".to_string())
            );
        }
        let argument = match pipe {
            Some(pipe) => self.pipeline(pipe, dot)?,
            None => Reached::concrete(Value::Absent),
        };
        let caller = std::mem::replace(&mut self.executing, name.clone());
        self.context.run.depth += 1;
        self.body(body, &argument)?;
        self.context.run.depth -= 1;
        self.executing = caller;
        Ok(())
    }

    /// Returns a value in the form that error messages show.
    fn shown(&mut self, value: &Value) -> Result<String> {
        let bytes = format::to_bytes(value, self.context.budget()).map_err(|limit| self.limited(limit))?;
        Ok(crate::text::lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use crate::options::MissingKey;
    use crate::testing::{check_all, run};

    #[test]
    fn range_iterates_by_kind() {
        let data = serde_json::json!({"l": ["b", "a"], "m": {"k": 1, "j": null}, "f": 3});
        let check =
            |source: &str, expected: &str| assert_eq!(run(source, &data, MissingKey::Default), expected);
        check("{{range .l}}{{.}}{{end}}", "ba");
        check("{{range $i, $e := .l}}{{$i}}{{$e}}{{end}}", "0b1a");
        check("{{range $k, $v := .m}}{{$k}}={{$v}};{{end}}", "j=<no value>;k=1;");
        check("{{range $e := .m}}{{$e}}{{end}}", "<no value>1");
        check("{{range 3}}{{.}}{{end}}{{range 0}}{{else}}e{{end}}{{range -1}}{{else}}e{{end}}", "012ee");
        check("{{range .f}}{{end}}", r#"error 1:8: executing "t" at <.f>: range can't iterate over 3"#);
        check(
            "{{range $i, $e := 0}}{{end}}",
            r#"error 1:18: executing "t" at <0>: can't use 0 to iterate over more than one variable"#,
        );
        check("{{range .l}}{{if eq . \"a\"}}{{break}}{{end}}{{.}}{{end}}", "b");
        check("{{range .l}}{{if eq . \"b\"}}{{continue}}{{end}}{{.}}{{end}}", "a");
    }

    #[test]
    fn variables_live_in_their_block() {
        check_all(&[
            ("{{$x := 1}}{{if 1}}{{$x = 2}}{{$x := 3}}{{$x}}{{end}}{{$x}}", "32"),
            ("{{with $x := 0}}{{else}}{{$x}}{{end}}", "0"),
            ("{{if 1}}{{$x := 1}}{{end}}{{$x}}", r#"error 1: undefined variable "$x""#),
            ("{{$x = 1}}", r#"error 1:7: executing "t" at <1>: undefined variable: $x"#),
            (
                "{{if 0}}{{$x := 1}}{{else}}{{$x}}{{end}}",
                r#"error 1:29: executing "t" at <$x>: undefined variable: $x"#,
            ),
            ("{{$x := 5}}{{if 0}}{{$x := 1}}{{else}}{{$x}}{{end}}", "5"),
            ("{{$a := 1}}{{range $a = until 3}}{{end}}{{$a}}", "2"),
            (
                r#"{{define "d"}}{{$}}{{.}}{{end}}{{template "d"}}{{template "d" 1}}"#,
                "<no value><no value>11",
            ),
            (
                r#"{{template "none" .}}"#,
                r#"error 1:11: executing "t" at <{{template "none" .}}>: template "none" not defined"#,
            ),
        ]);
    }
}
