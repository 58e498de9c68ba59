//! The built-in functions of `text/template` (`gotemplate.md` 8).

use super::arguments::Arguments;
use super::{Body, Function, Functions, Signature, Type, compare, escape, index};
use crate::context::Context;
use crate::error::CallError;
use crate::format::{self, Sink};
use crate::value::Value;

impl Functions {
    /// Returns the built-in functions of `text/template` (`gotemplate.md` 8).
    pub fn builtins() -> Functions {
        let mut functions = Functions::none();
        register(&mut functions);
        functions
    }
}

fn register(functions: &mut Functions) {
    let special = |name: &'static str, body| Function {
        name: name.into(),
        signature: Signature::variadic(&[Type::Raw], Type::Raw),
        body,
    };
    functions.register(special("and", Body::And));
    functions.register(special("or", Body::Or));
    functions.register(special("call", Body::Call));
    let raw = Signature::variadic(&[Type::Raw], Type::Raw);
    let pair = Signature::fixed(&[Type::Raw, Type::Raw]);
    functions
        .add("not", Signature::fixed(&[Type::Raw]), |_, args| Ok(Value::Bool(!args.value(0).truth())))
        .add("len", Signature::fixed(&[Type::Raw]), |_, args| index::length(args.value(0)))
        .add("index", raw.clone(), |_, args| index::index(args.value(0), args.rest(1)))
        .add("slice", raw.clone(), |_, args| index::slice(args.value(0), args.rest(1)))
        .add("eq", raw, compare::eq)
        .add("ne", pair.clone(), |context, args| {
            compare::eq(context, args).map(|equal| Value::Bool(!equal.truth()))
        })
        .add("lt", pair.clone(), |_, args| compare::less(args.value(0), args.value(1)).map(Value::Bool))
        .add("le", pair.clone(), |context, args| compare::less_or_equal(context, args).map(Value::Bool))
        .add("gt", pair.clone(), |context, args| {
            compare::less_or_equal(context, args).map(|less_or_equal| Value::Bool(!less_or_equal))
        })
        .add("ge", pair, |_, args| {
            compare::less(args.value(0), args.value(1)).map(|less| Value::Bool(!less))
        });
    register_texts(functions);
}

fn register_texts(functions: &mut Functions) {
    let all = Signature::variadic(&[], Type::Any);
    functions
        .add("print", all.clone(), |context, args| built(context, |sink| format::print(sink, args)))
        .add("println", all.clone(), |context, args| built(context, |sink| format::println(sink, args)))
        .add("printf", Signature::variadic(&[Type::String], Type::Any), |context, args| {
            built(context, |sink| format::printf(sink, args.string(0), args.rest(1)))
        })
        .add("html", all.clone(), |context, args| escaped(context, args, escape::html))
        .add("js", all.clone(), |context, args| escaped(context, args, escape::js))
        .add("urlquery", all, |context, args| escaped(context, args, escape::url_query));
}

/// Returns a string result that `write` puts into a sink, within the budget.
fn built(context: &mut Context<'_>, write: impl FnOnce(&mut Sink)) -> Result<Value, CallError> {
    let mut sink = format::sink(context.budget());
    write(&mut sink);
    Ok(format::finish(sink, context.budget())?.into())
}

/// Joins the arguments as `print` does and escapes the result. Unlike `print`, nil shows as `<no
/// value>`.
fn escaped(
    context: &mut Context<'_>,
    args: &[Value],
    escape: fn(&[u8], &mut Vec<u8>),
) -> Result<Value, CallError> {
    let shown = |arg: &Value| if arg.is_nil() { Value::str("<no value>") } else { arg.clone() };
    let args: Vec<Value> = args.iter().map(shown).collect();
    let mut sink = format::sink(context.budget());
    format::print(&mut sink, &args);
    let plain = format::finish(sink, context.budget())?;
    // An escaper makes at most six bytes of one, and the plain text still exists beside them.
    context.reserve(plain.len().saturating_mul(7))?;
    let mut out = Vec::with_capacity(plain.len());
    escape(&plain, &mut out);
    context.budget().text(out.len())?;
    Ok(out.into())
}

#[cfg(test)]
mod tests {
    use crate::testing::check_all;

    fn error(call: &str, message: &str) -> String {
        let name = call.split(' ').next().unwrap_or_default();
        format!(r#"error 1:2: executing "t" at <{call}>: error calling {name}: {message}"#)
    }

    #[test]
    fn built_ins_complain_as_in_go() {
        let table = [
            ("len 3", "len of type int"),
            (r#"index "abc" 9"#, "index out of range: 9"),
            (r#"index "abc" 3"#, "reflect: string index out of range"),
            (r#"index "abc" "a""#, "cannot index slice/array with type string"),
            ("index nil 1", "index of untyped nil"),
            ("index 1 1", "can't index item of type int"),
            ("eq 1", "missing argument for comparison"),
            ("eq 1 1.0", "incompatible types for comparison: int and float64"),
            (r#"lt 1 "a""#, "incompatible types for comparison: int and string"),
            ("lt true false", "invalid type for comparison"),
            ("call 1", "non-function 1 of type int"),
            ("call nil", "call of nil"),
        ];
        for (call, message) in table {
            check_all(&[(&format!("{{{{{call}}}}}"), &error(call, message))]);
        }
    }

    #[test]
    fn comparisons_and_texts() {
        check_all(&[
            (
                "{{eq 1 2 1}} {{ne 1 2}} {{lt 1 2}} {{le 2 2}} {{gt 2 1}} {{ge 1 2}}",
                "true true true true true false",
            ),
            (
                r#"{{eq (index "a" 0) 97}} {{eq nil nil}} {{eq 1 nil}} {{eq (list) nil}}"#,
                "true true false false",
            ),
            (r#"{{print "a" 1 2 "b" 3 4 nil nil true}}"#, "a1 2b3 4 <nil> <nil> true"),
            (r#"{{println "a" 1}}{{print}}"#, "a 1\n"),
            (r#"{{html "<a b='c'>&\""}}"#, "&lt;a b=&#39;c&#39;&gt;&amp;&#34;"),
            (r#"{{js "<'=\n\u2028é"}}"#, r"\u003C\'\u003D\u000A\u2028é"),
            (r#"{{urlquery "a b&é~"}}"#, "a+b%26%C3%A9~"),
        ]);
    }
}
