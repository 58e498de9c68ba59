//! Tests of the interface for hosts: functions of their own, nested renders, objects, errors as
//! data.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use groundwork_gotemplate::{
    CallError, Context, Delimiters, ErrorKind, Functions, Map, Member, Object, Options, Signature, Template,
    Type, Value,
};

fn render(source: &str, functions: Functions) -> Result<String, String> {
    let template = Template::parse("t", source, &Arc::new(functions), &Options::default());
    let rendered = template.and_then(|template| template.render(Value::Nil));
    rendered.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).map_err(|error| error.to_string())
}

/// Creates a function that renders a named file of the host with the functions and options of the
/// running template.
fn include(files: &'static [(&'static str, &'static str)]) -> Functions {
    let mut functions = Functions::sprig();
    functions.add("include", Signature::fixed(&[Type::String, Type::Any]), move |context, args| {
        let name = match &args[0] {
            Value::Str(name) => name.to_text().into_owned(),
            _ => return Err("include needs a name".into()),
        };
        let source = files.iter().find(|(file, _)| *file == name).map(|(_, source)| *source);
        let source = source.ok_or_else(|| format!("unable to read include file {name:?}"))?;
        if context.active(&name) > 100 {
            return Err(format!("rendering template has a nested reference name: {name}").into());
        }
        let template = Template::parse("t", source, context.functions(), context.options())?;
        Ok(context.render(&name, &template, args[1].clone())?.into())
    });
    functions
}

#[test]
fn functions_render_other_templates() {
    let files =
        &[("a", "[{{ . | upper }}{{ include \"b\" 1 }}]"), ("b", "<{{ add . 1 }}>"), ("bad", "{{ .x.y.z }}")];
    assert_eq!(
        render(r#"{{ include "a" "x" }}{{ include "b" 4 }}"#, include(files)),
        Ok("[X<2>]<5>".to_string())
    );
    let error = render("{{ include \"bad\" \"text\" }}", include(files)).unwrap_err();
    assert_eq!(
        error,
        "template: t:1:3: executing \"t\" at <include \"bad\" \"text\">: error calling include: \
         template: t:1:5: executing \"t\" at <.x.y.z>: can't evaluate field x in type string"
    );
}

#[test]
fn nested_renders_are_counted_and_guarded() {
    let files = &[("self", "x{{ include \"self\" . }}")];
    let work = || render("{{ include \"self\" 1 }}", include(files)).unwrap_err();
    let error = std::thread::Builder::new().stack_size(2 << 20).spawn(work).unwrap().join().unwrap();
    assert!(error.ends_with("rendering template has a nested reference name: self"), "{error}");
}

#[test]
fn a_swallowed_failure_leaves_the_render_usable() {
    let mut functions = Functions::builtins();
    functions.add("try", Signature::fixed(&[Type::String]), |context, args| {
        let source = match &args[0] {
            Value::Str(source) => source.to_text().into_owned(),
            _ => String::new(),
        };
        let template = Template::parse("inner", &source, context.functions(), context.options())?;
        Ok(match context.render("try", &template, Value::Nil) {
            Ok(text) => text.into(),
            Err(error) => Value::from(error.to_string()),
        })
    });
    let source = r#"{{define "d"}}ok{{end}}{{try "{{define \"e\"}}{{len 1}}{{end}}{{template \"e\"}}"}} {{template "d"}}"#;
    let expected = "template: inner:1:16: executing \"e\" at <len 1>: error calling len: len of type int ok";
    assert_eq!(render(source, functions), Ok(expected.to_string()));
}

#[test]
fn failing_and_panicking_functions_are_errors() {
    let mut functions = Functions::builtins();
    functions.add("broken", Signature::fixed(&[]), |_, _| Err("no luck".into())).add(
        "panicking",
        Signature::fixed(&[]),
        |_, args| Ok(args[7].clone()),
    );
    let prefix = "template: t:1:2: executing \"t\" at";
    assert_eq!(
        render("{{broken}}", functions.clone()),
        Err(format!("{prefix} <broken>: error calling broken: no luck"))
    );
    let error = render("{{panicking}}", functions).unwrap_err();
    assert!(
        error.starts_with(&format!("{prefix} <panicking>: error calling panicking: index out of bounds")),
        "{error}"
    );
}

#[test]
fn loop_words_become_identifiers_when_registered() {
    let mut functions = Functions::builtins();
    functions.add("break", Signature::fixed(&[]), |_, _| Ok(Value::str("called")));
    assert_eq!(render("{{break}}", functions), Ok("called".to_string()));
}

#[test]
fn errors_carry_their_position() {
    let functions = Arc::new(Functions::builtins());
    let template = Template::parse("page", "a\n  {{.x.y}}", &functions, &Options::default()).unwrap();
    let data = Map::from_iter([("x".into(), Value::str("text"))]);
    let mut partial = Vec::new();
    let error = template.render_into(Value::Map(data), &mut partial).unwrap_err();
    assert_eq!(partial, b"a\n  ");
    assert_eq!(
        (error.kind(), error.template(), error.line(), error.column()),
        (ErrorKind::Execution, "page", 2, Some(6))
    );
    assert_eq!(error.message(), "can't evaluate field y in type interface {}");
    let error = Template::parse("page", "a\n{{nope}}", &functions, &Options::default()).unwrap_err();
    assert_eq!((error.kind(), error.line(), error.column()), (ErrorKind::Parse, 2, None));
}

#[test]
fn delimiters_can_be_replaced() {
    let functions = Arc::new(Functions::builtins());
    let delimiters = Delimiters { left: "<<".to_string(), right: String::new() };
    let options = Options { delimiters, ..Options::default() };
    let template = Template::parse("t", "{{x}} <<- 1 }}|<</* c */}}", &functions, &options).unwrap();
    assert_eq!(template.render(Value::Nil).unwrap(), b"{{x}}1|");
}

/// An object for a file of the host.
#[derive(Debug)]
struct File {
    name: &'static str,
}

impl Object for File {
    fn type_name(&self) -> &str {
        "host.File"
    }

    fn member(&self, name: &str) -> Option<Member> {
        match name {
            "Size" => Some(Member::Field(Value::int64(7))),
            "Name" => Some(Member::getter()),
            "Grow" => Some(Member::method(&[Type::Int])),
            _ => None,
        }
    }

    fn call(&self, _: &mut Context<'_>, method: &str, arguments: &[Value]) -> Result<Value, CallError> {
        match (method, arguments) {
            ("Name", []) => Ok(self.name.into()),
            ("Grow", [Value::Int(_, by)]) => Ok(Value::int64(7 + by)),
            _ => Err("unknown method".into()),
        }
    }

    fn text(&self) -> String {
        format!("file {}", self.name)
    }

    fn equals(&self, other: &dyn Object) -> bool {
        other.as_any().downcast_ref::<File>().is_some_and(|other| other.name == self.name)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn objects_have_fields_and_methods() {
    let mut functions = Functions::sprig();
    functions.add("file", Signature::fixed(&[]), |_, _| Ok(Value::Object(Rc::new(File { name: "x" }))));
    let check = |source: &str, expected: &str| {
        let got = render(source, functions.clone()).unwrap_or_else(|error| error);
        assert_eq!(got, expected, "{source}");
    };
    check(
        "{{file}} {{file.Name}} {{file.Size}} {{(file).Grow 3}} {{$f := file}}{{$f.Name}}",
        "file x x 7 10 x",
    );
    check(
        "{{typeOf file}} {{kindOf file}} {{toJson file}} {{eq file file}}",
        "host.File struct \"file x\" true",
    );
    let error = |message: &str| format!("template: t:1:2: executing \"t\" at <file>: {message}");
    check("{{file.Nope}}", &error("can't evaluate field Nope in type host.File"));
    let error = "template: t:1:2: executing \"t\" at <file>: wrong number of args for Grow: want 1 got 0";
    check("{{file.Grow}}", error);
    let error =
        "template: t:1:2: executing \"t\" at <file>: Size has arguments but cannot be invoked as function";
    check("{{file.Size 1}}", error);
}

#[test]
fn a_host_can_take_functions_away() {
    let mut functions = Functions::sprig();
    functions.remove("env");
    assert!(!functions.contains("env") && functions.contains("expandenv"));
    let error = render(r#"{{env "HOME"}}"#, functions).unwrap_err();
    assert!(error.ends_with(r#"function "env" not defined"#), "{error}");
}

#[test]
fn a_deep_copy_protects_the_input() {
    let data = Map::from_iter([("m".into(), Value::Map(Map::default()))]);
    let original = Value::Map(data.clone());
    let functions = Arc::new(Functions::sprig());
    let source = r#"{{$_ := set .m "k" 1}}{{$_ := set . "x" 2}}{{.}}"#;
    let template = Template::parse("t", source, &functions, &Options::default()).unwrap();
    assert_eq!(template.render(original.deep_copy().unwrap()).unwrap(), b"map[m:map[k:1] x:2]");
    assert_eq!(data.len(), 1);
    template.render(original).unwrap();
    assert_eq!(data.len(), 2, "without a copy the template changes the input");
}
