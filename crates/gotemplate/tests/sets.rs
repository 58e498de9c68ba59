//! Tests of sets: templates that include one another, templates that are parsed while a set runs,
//! and named types of a host.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use groundwork_gotemplate::{
    CallError, Context, Functions, Host, List, Map, Member, MissingKey, NamedType, Object, Options,
    Signature, Template, Type, Value,
};

/// Returns `include` and `tpl` as hosts build them.
fn functions() -> Arc<Functions> {
    let mut functions = Functions::sprig();
    functions.add("include", Signature::fixed(&[Type::String, Type::Any]), |context, arguments| {
        let name = arguments[0].as_str().cloned().unwrap_or_default();
        if context.active(&name.to_text()) > 50 {
            return Err("too deep".into());
        }
        Ok(context.include(&name, arguments[1].clone())?.into())
    });
    functions.add("tpl", Signature::fixed(&[Type::String, Type::Any]), |context, arguments| {
        let template = context.parse_nested(arguments[0].as_str().unwrap_or(&Default::default()))?;
        Ok(context.render("tpl", &template, arguments[1].clone())?.into())
    });
    Arc::new(functions)
}

fn set(sources: &[(&str, &str)]) -> Template {
    let sources = sources.iter().map(|(name, source)| (*name, source.as_bytes()));
    Template::parse_set("set", sources, &functions(), &Options::default()).expect("the sources are templates")
}

fn render(set: &Template, name: &str, data: Value) -> String {
    match set.session(Host::default()).render_named(name, data) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn templates_of_a_set_include_one_another() {
    let set = set(&[
        ("a", r#"{{define "x"}}1{{end}}{{define "loop"}}{{include "loop" .}}{{end}}A"#),
        ("b", r#"{{define "x"}}2{{end}}{{include "x" .}}{{include "a" . | lower}}"#),
    ]);
    assert_eq!(render(&set, "b", Value::Nil), "2a");
    assert_eq!(
        render(&set, "none", Value::Nil),
        r#"template: no template "none" associated with template "set""#
    );
    let mut session = set.session(Host::default());
    let error = session.render_named("loop", Value::Nil).expect_err("it has no end").to_string();
    assert!(error.ends_with("too deep"), "{error}");
    // The failed renders above are no longer counted as active.
    assert_eq!(session.render_named("b", Value::Nil).expect("it renders"), b"2a");
}

#[test]
fn what_a_nested_source_defines_is_gone_with_it() {
    let source =
        r#"{{define "h"}}OLD{{end}}{{define "w"}}<{{template "h"}}>{{end}}{{tpl .text .}} {{include "w" .}}"#;
    let set = set(&[("t", source)]);
    let with = |text: &str| Value::Map(Map::from_iter([("text".into(), Value::from(text))]));
    let text = r#"{{define "h"}}NEW{{end}}{{include "w" .}}{{tpl "{{define \"i\"}}I{{end}}{{include \"w\" .}}{{include \"i\" .}}" .}}"#;
    assert_eq!(render(&set, "t", with(text)), "<NEW><NEW>I <OLD>");
    assert_eq!(render(&set, "t", with("{{define \"h\"}} {{end}}{{include \"w\" .}}")), "<OLD> <OLD>");
    let error = render(&set, "t", with("{{nope}}"));
    assert!(error.ends_with("error calling tpl: template: set:1: function \"nope\" not defined"), "{error}");
}

static PAIRS: NamedType = NamedType {
    name: "host.Pairs",
    method: |name| (name == "Count").then(|| Signature::fixed(&[Type::Int])),
    call: |_, receiver, _, arguments| {
        let Value::Map(map) = receiver else { return Err("no map".into()) };
        let extra = arguments[0].as_integer().and_then(|number| i64::try_from(number).ok()).unwrap_or(0);
        Ok(Value::int(i64::try_from(map.len()).unwrap_or(0) + extra))
    },
};
static WORDS: NamedType = NamedType {
    name: "host.Words",
    method: |name| (name == "First").then(|| Signature::fixed(&[])),
    call: |_, receiver, _, _| match receiver {
        Value::List(list) => Ok(list.items().first().cloned().unwrap_or(Value::Nil)),
        _ => Err("no list".into()),
    },
};

#[test]
fn named_types_have_methods_and_pass_as_plain_maps() {
    let map = Map::from_iter([("k".into(), Value::from("v")), ("Count".into(), Value::from("hidden"))]);
    let data = Map::from_iter([
        ("m".into(), Value::Map(map.named(&PAIRS))),
        ("plain".into(), Value::Map(map.plain())),
        ("l".into(), Value::List(List::strings(["a".into(), "b".into()]).named(&WORDS))),
    ]);
    let check = |source: &str, expected: &str| {
        let options = Options { missing_key: MissingKey::Zero, ..Options::default() };
        let template = Template::parse("t", source, &functions(), &options).expect("it is a template");
        let got = template.render(Value::Map(data.clone()));
        let got =
            got.map_or_else(|error| error.to_string(), |text| String::from_utf8_lossy(&text).into_owned());
        assert_eq!(got, expected, "{source}");
    };
    check(
        "{{typeOf .m}} {{kindOf .m}} {{typeOf .l}} {{typeOf .plain}}",
        "host.Pairs map host.Words map[string]interface {}",
    );
    check("{{.m.Count 1}} {{.m.k}} {{.plain.Count}} {{.l.First}} {{len .l}}", "3 v hidden a 2");
    check("{{hasKey .m \"k\"}} {{typeOf (set .m \"n\" 1)}} {{.plain.n}}", "true map[string]interface {} 1");
    check("{{typeOf (deepCopy .m)}} {{deepEqual .m .plain}} {{toJson .l}}", "host.Pairs false [\"a\",\"b\"]");
    check(
        "{{dig \"k\" \"d\" .m}}",
        "template: t:1:2: executing \"t\" at <dig \"k\" \"d\" .m>: error calling dig: interface conversion: interface {} is \
         host.Pairs, not map[string]interface {}",
    );
    check(
        "{{.m.Count}}",
        "template: t:1:4: executing \"t\" at <.m.Count>: wrong number of args for Count: want 1 got 0",
    );
}

#[test]
fn maps_of_bytes() {
    let files = Map::of_bytes([("a".into(), "hi".into())]);
    let options = Options { missing_key: MissingKey::Zero, ..Options::default() };
    let source = "{{typeOf .}} {{.a}} {{.none}} {{toString .a}} {{index . \"none\"}}";
    let template = Template::parse("t", source, &functions(), &options).expect("it is a template");
    let text = template.render(Value::Map(files)).expect("it renders");
    assert_eq!(String::from_utf8_lossy(&text), "map[string][]uint8 [104 105] [] hi []");
}

/// A struct field of the host whose pointer, not its value, has a text.
#[derive(Debug)]
struct Version {
    in_place: bool,
}

impl Object for Version {
    fn type_name(&self) -> &str {
        "host.Version"
    }

    fn member(&self, name: &str) -> Option<Member> {
        (self.in_place && name == "Text").then(Member::getter)
    }

    fn call(&self, _: &mut Context<'_>, _: &str, _: &[Value]) -> Result<Value, CallError> {
        Ok(Value::from("v1"))
    }

    fn text(&self) -> String {
        "{1}".to_owned()
    }

    fn text_in_place(&self) -> Option<String> {
        self.in_place.then(|| "v1".to_owned())
    }

    fn copied(&self) -> Option<Rc<dyn Object>> {
        self.in_place.then(|| Rc::new(Version { in_place: false }) as Rc<dyn Object>)
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        vec![("Number", Value::int(1))]
    }

    fn prints_fields(&self) -> bool {
        true
    }

    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        Some(vec![("z", Value::int(1)), ("a", Value::int(2))])
    }

    fn equals(&self, _: &dyn Object) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[test]
fn what_is_part_of_its_owner_prints_by_its_pointer() {
    let data = Value::Map(Map::from_iter([("v".into(), Value::Object(Rc::new(Version { in_place: true })))]));
    let source = "{{.v}} {{with .v}}{{.}}{{end}} {{.v.Text}} {{print .v}} {{.v | default 1}} {{toJson .v}}";
    let template = Template::parse("t", source, &functions(), &Options::default()).expect("it is a template");
    let text = template.render(data).expect("it renders");
    assert_eq!(String::from_utf8_lossy(&text), "v1 v1 v1 {1} {1} {\"z\":1,\"a\":2}");
}
