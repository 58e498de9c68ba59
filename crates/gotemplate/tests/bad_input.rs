//! Tests with input that is not a template, or hostile: the result is an error with a text, never a
//! panic.

use std::sync::Arc;

use groundwork_gotemplate::{Error, ErrorKind, Functions, Grants, Limits, Options, Template, Value};

fn render(source: impl AsRef<[u8]>) -> Result<Vec<u8>, Error> {
    let grants = Grants {
        randomness: Some(Arc::new(|buffer| {
            buffer.fill(1);
            Ok(())
        })),
        ..Grants::default()
    };
    let limits = Limits { output_bytes: 1 << 20, steps: 2_000_000, ..Limits::default() };
    let options = Options { grants, limits, ..Options::default() };
    Template::parse("t", source.as_ref(), &Arc::new(Functions::sprig()), &options)?.render(Value::Nil)
}

#[test]
fn actions_that_are_not_closed() {
    for (source, message) in [
        ("{{", "unclosed action"),
        ("{{ .a", "unclosed action"),
        ("{{ (1 }}", "unclosed left paren"),
        ("{{ 1) }}", "unexpected right paren"),
        ("{{/* x", "unclosed comment"),
        ("{{ `a", "unterminated raw quoted string"),
        ("{{ \"a\n\" }}", "unterminated quoted string"),
        ("{{if 1}}", "unexpected EOF"),
        ("{{range 1}}{{else}}", "unexpected EOF"),
        ("{{define \"x\"}}", "unexpected EOF"),
        ("{{block \"x\" .}}{{if .}}{{end}}", "unexpected EOF"),
    ] {
        let error = render(source).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Parse, message), "{source}");
    }
}

#[test]
fn bytes_that_are_no_text() {
    assert_eq!(render(b"a\xffb\xc3{{1}}\xf0\x9f").unwrap(), b"a\xffb\xc31\xf0\x9f");
    assert_eq!(render(b"{{\"\xff\" | len}}{{`\xc3` | printf \"%q\"}}").unwrap(), br#"3"\xc3""#);
    for source in
        [&b"{{\xff}}"[..], b"{{.\xff}}", b"{{$\xc3}}", b"{{a\xff}}", b"{{template \xff}}", b"\xff{{\x00}}"]
    {
        assert_eq!(render(source).unwrap_err().kind(), ErrorKind::Parse, "{source:?}");
    }
    // Puts every byte in every place of an action.
    for byte in 0..=255_u8 {
        for (head, tail) in [
            ("{{", "}}"),
            ("{{.a", ""),
            ("{{\"", "\"}}"),
            ("{{print ", " 1}}"),
            ("{{1", "}}"),
            ("{{- ", " -}}"),
        ] {
            let source = [head.as_bytes(), &[byte], tail.as_bytes()].concat();
            let _ = render(&source);
        }
    }
}

#[test]
fn patterns_that_explode_elsewhere() {
    let long = "a".repeat(100_000);
    let quick = |pattern: &str| {
        let source = format!("{{{{regexMatch `{pattern}` `{long}!`}}}}");
        String::from_utf8(render(source).unwrap()).unwrap()
    };
    assert_eq!(quick("^(a+)+$"), "false");
    assert_eq!(quick("^(a|aa)+$"), "false");
    assert_eq!(quick("(.*)*(.*)*x"), "false");
    for pattern in ["((a{900}){900}){900}", "(((((x{10}){10}){10}){10}){10}){10}", r"(\pL{1000}){1000}"] {
        let error = render(format!("{{{{regexFind `{pattern}` `a`}}}}")).unwrap_err();
        assert!(error.message().starts_with("error calling regexFind: regexp: Compile("), "{error}");
    }
    let deep = format!("{{{{regexFind `{}a{}` `a`}}}}", "(".repeat(5_000), ")".repeat(5_000));
    assert!(render(deep).unwrap_err().message().contains("expression nests too deeply"));
    // Each of these took a second of work, or kept five megabytes.
    let many = r#"{{range until 1000}}{{$_ := regexMatch (printf "\\pL{100}x%d" .) "x"}}{{end}}"#;
    assert_eq!(render(many).unwrap_err().kind(), ErrorKind::Limit);
    let searched = r#"{{regexMatch "(\\pL{90}|x)*y" (repeat 300000 "é")}}"#;
    assert_eq!(render(searched).unwrap_err().kind(), ErrorKind::Limit);
    // The search for each match reads the whole rest of the text, which makes the total quadratic.
    for call in ["regexFindAll `x*y|x` $x -1", "regexReplaceAll `x*y|x` $x `z`", "regexSplit `x*y|x` $x -1"] {
        let source = format!("{{{{$x := repeat 20000 `x`}}}}{{{{$_ := {call}}}}}");
        assert_eq!(render(&source).unwrap_err().kind(), ErrorKind::Limit, "{call}");
        assert!(render(source.replace("x*y|x", "x|y")).is_ok(), "{call}");
    }
}

#[test]
fn texts_that_grow() {
    for source in [
        "{{$s := `x`}}{{range 100}}{{$s = print $s $s}}{{end}}",
        "{{$s := `x`}}{{range 100}}{{$s = replace `` $s $s}}{{end}}",
        "{{$s := `x`}}{{range 100}}{{$s = repeat 1000 $s}}{{end}}",
        "{{$s := `x`}}{{range 100}}{{$s = join $s (list $s $s $s)}}{{end}}",
        "{{$s := `x`}}{{range 100}}{{$s = regexReplaceAll `.` $s `$0$0$0`}}{{end}}",
        "{{$s := `x`}}{{range 100}}{{$s = toJson (list $s $s)}}{{end}}",
        "{{$s := `xx`}}{{range 100}}{{$s = wrapWith 1 $s $s}}{{end}}",
        "{{$l := list 1}}{{range 100}}{{$l = concat $l $l}}{{end}}",
        "{{$l := list 1}}{{range 100}}{{$l = list $l $l}}{{end}}{{$l}}",
        "{{printf `%*d` 1000000 1 | repeat 1000000}}",
        "{{randAlpha 9223372036854775807}}",
        "{{randBytes 9223372036854775807}}",
        "{{untilStep 0 9223372036854775807 1}}",
        "{{seq 1 9223372036854775806}}",
        "{{range 9223372036854775807}}{{end}}",
        "{{range 1000}}{{genPrivateKey `rsa` | len}}{{end}}",
    ] {
        let kind = render(source).map_err(|error| error.kind());
        assert_eq!(kind, Err(ErrorKind::Limit), "{source}");
    }
}

#[test]
fn inputs_that_fuzzing_kept() {
    let limits = Limits { output_bytes: 1 << 16, steps: 20_000, template_depth: 200, ..Limits::default() };
    let functions = Arc::new(Functions::sprig());
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let mut count = 0;
    for (folder, skipped) in [("parse", 0), ("execute", 1)] {
        for entry in std::fs::read_dir(corpus.join(folder)).expect("the corpus exists") {
            let input = std::fs::read(entry.unwrap().path()).unwrap();
            let source = input.get(skipped..).unwrap_or_default();
            let options = Options { limits: limits.clone(), ..Options::default() };
            count += 1;
            let Ok(template) = Template::parse("t", source, &functions, &options) else { continue };
            let _ = template.render(Value::from_json(&serde_json::json!({"l": [1, null]}), options.numbers));
        }
    }
    assert!(count > 100, "only {count} inputs found");
}
