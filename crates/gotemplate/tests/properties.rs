//! Property tests of the whole engine on arbitrary input.

use std::sync::Arc;

use groundwork_gotemplate::{Functions, Limits, MissingKey, NumberMode, Options, Template, Value};
use proptest::prelude::*;

fn functions() -> Arc<Functions> {
    thread_local!(static FUNCTIONS: Arc<Functions> = Arc::new(Functions::sprig()));
    FUNCTIONS.with(Arc::clone)
}

fn parse(source: &[u8]) -> Option<Template> {
    let limits = Limits { output_bytes: 1 << 16, steps: 20_000, template_depth: 50, ..Limits::default() };
    let options = Options { limits, missing_key: MissingKey::Zero, ..Options::default() };
    Template::parse("t", source, &functions(), &options).ok()
}

/// Generates sources that resemble templates more often than random bytes do.
fn template_like() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        Just("{{".to_string()),
        Just("}}".to_string()),
        Just("{{- ".to_string()),
        Just("{ ".to_string()),
        Just(" -}}".to_string()),
        Just("{{end}}".to_string()),
        Just("{{else}}".to_string()),
        Just(" | ".to_string()),
        Just("(".to_string()),
        Just(")".to_string()),
        Just("$x := ".to_string()),
        Just("{{range $i, $e := .l}}".to_string()),
        Just("{{if .a}}".to_string()),
        Just("{{with .m}}".to_string()),
        Just("{{define \"d\"}}".to_string()),
        Just("{{template \"d\" .}}".to_string()),
        Just("{{break}}".to_string()),
        Just("{{/* c */}}".to_string()),
        "(\\.[a-m]){1,3}",
        "[a-z0-9 .$\"'`%+-]{0,6}",
        "\\PC{0,3}",
        prop::sample::select(functions().names().map(|name| format!("{name} ")).collect::<Vec<_>>()),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Generates complete actions over the functions, with arguments that often fit.
fn call() -> impl Strategy<Value = String> {
    let names: Vec<String> = functions().names().map(ToString::to_string).collect();
    let argument = prop_oneof![
        Just(".".to_string()),
        Just(".l".to_string()),
        Just(".m".to_string()),
        Just(".nope".to_string()),
        Just("nil".to_string()),
        Just("(list 1 \"a\" nil)".to_string()),
        Just("(dict \"a\" 1)".to_string()),
        "-?[0-9]{1,19}",
        "-?[0-9]{1,3}\\.[0-9]{1,3}",
        "[a-z%{}\\[\\]. ]{0,8}".prop_map(|text| format!("{text:?}")),
    ];
    (prop::sample::select(names), prop::collection::vec(argument, 0..5))
        .prop_map(|(name, arguments)| format!("{{{{ {name} {} }}}}", arguments.join(" ")))
}

fn data() -> Value {
    let json = serde_json::json!({"a": 1, "l": [1, "x", null, [2.5]], "m": {"k": "v", "n": null}});
    Value::from_json(&json, NumberMode::Float64)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_never_panic(source in prop::collection::vec(any::<u8>(), 0..200)) {
        if let Some(template) = parse(&source) {
            let _ = template.render(data());
        }
    }

    #[test]
    fn template_like_sources_never_panic(source in template_like()) {
        if let Some(template) = parse(source.as_bytes()) {
            let _ = template.render(data());
        }
    }

    #[test]
    fn calls_never_panic(source in call()) {
        if let Some(template) = parse(source.as_bytes()) {
            let message = template.render(data()).err().map(|error| error.to_string()).unwrap_or_default();
            // A panic of Rust code that the evaluator caught would show Rust's wording in the
            // message.
            for panic in ["the len is", "out of range for slice", "attempt to", "called `"] {
                prop_assert!(!message.contains(panic), "{message}");
            }
        }
    }

    #[test]
    fn text_without_actions_is_copied(text in "[^{]*") {
        let template = parse(text.as_bytes()).expect("text is a template");
        prop_assert_eq!(template.render(Value::Nil).unwrap(), text.as_bytes());
    }

    #[test]
    fn trim_markers_trim_exactly_the_four_spaces(before in "[ \t\r\na-c\u{a0}]{0,8}", after in "[ \t\r\na-c\u{a0}]{0,8}") {
        let spaces = [' ', '\t', '\r', '\n'];
        let render = |source: String| {
            let output = parse(source.as_bytes()).expect("the source is valid").render(Value::Nil).unwrap();
            String::from_utf8(output).unwrap()
        };
        let (left, right) = (before.trim_end_matches(spaces), after.trim_start_matches(spaces));
        prop_assert_eq!(render(format!("{before}{{{{- 1 -}}}}{after}")), format!("{left}1{right}"));
        prop_assert_eq!(render(format!("{before}{{{{1 -}}}}{after}")), format!("{before}1{right}"));
        prop_assert_eq!(render(format!("{before}{{{{- 1}}}}{after}")), format!("{left}1{after}"));
        prop_assert_eq!(render(format!("{before}{{{{- /* c */ -}}}}{after}")), format!("{left}{right}"));
    }

    #[test]
    fn canonical_source_is_a_fixed_point(source in template_like()) {
        // The canonical source leaves definitions out, so only sources without definitions are
        // comparable.
        prop_assume!(!source.contains("define") && !source.contains("block"));
        if let Some(template) = parse(source.as_bytes()) {
            let printed = template.canonical_source();
            let again = parse(&printed);
            prop_assert!(again.is_some(), "{}", String::from_utf8_lossy(&printed));
            let again = again.map(|template| template.canonical_source()).unwrap_or_default();
            prop_assert_eq!(String::from_utf8_lossy(&again), String::from_utf8_lossy(&printed));
        }
    }

    #[test]
    fn quoted_strings_read_back(text in "\\PC{0,20}", bytes in prop::collection::vec(any::<u8>(), 0..20)) {
        for original in [text.as_bytes(), &bytes] {
            let functions = functions();
            let quote = Template::parse("t", "{{ . | quote }}", &functions, &Options::default()).unwrap();
            let quoted = quote.render(Value::from(original.to_vec())).unwrap();
            let source = [b"{{ ", &quoted[..], b" }}"].concat();
            prop_assert_eq!(parse(&source).expect("a quoted string parses").render(Value::Nil).unwrap(), original);
        }
    }
}

#[test]
fn braces_that_trimming_brought_together_stay_apart() {
    for (source, output) in [
        ("a { {{- /* c */ -}} { 0 }} b", "a {{ 0 }} b"),
        ("{ {{- 1 -}} }", "{1}"),
        ("{ {{- if true -}} { {{- end -}} {", "{{{"),
        ("{{range 2}}{ {{- if eq . 0}}{ {{- continue}}{{else -}} { {{- break}}{{end}}{{end}}", "{{{{"),
    ] {
        let template = parse(source.as_bytes()).expect("the source is valid");
        assert_eq!(template.render(Value::Nil).unwrap().escape_ascii().to_string(), output, "{source}");
        let printed = template.canonical_source();
        let again = parse(&printed).unwrap_or_else(|| panic!("{}", printed.escape_ascii()));
        assert_eq!(again.render(Value::Nil).unwrap().escape_ascii().to_string(), output, "{source}");
        assert_eq!(again.canonical_source(), printed, "{source}");
    }
}
