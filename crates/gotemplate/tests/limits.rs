//! Tests of the limits (`gotemplate.md` 10): hostile input ends in an error, never in an overflow
//! of the native stack.

use std::sync::Arc;

use groundwork_gotemplate::{Deadline, ErrorKind, Functions, Limits, List, Map, Options, Template, Value};

/// Runs the work on a stack of the size that worker threads of a server have.
fn on_small_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(work);
    thread.expect("a thread starts").join().expect("the work does not panic")
}

fn render_with(source: &str, limits: Limits) -> Result<String, (ErrorKind, String)> {
    let source = source.to_string();
    on_small_stack(move || {
        let options = Options { limits, ..Options::default() };
        let template = Template::parse("t", &source, &Arc::new(Functions::sprig()), &options);
        let rendered = template.and_then(|template| template.render(Value::Map(Map::default())));
        rendered
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|error| (error.kind(), error.message().to_string()))
    })
}

fn check(source: &str, expected: &str) {
    let got = match render_with(source, Limits::default()) {
        Ok(text) => text,
        Err((_, message)) => message,
    };
    assert_eq!(got, expected, "{}", &source[..source.len().min(80)]);
}

fn nested(open: &str, inner: &str, close: &str, depth: usize) -> String {
    format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
}

#[test]
fn nesting_in_the_source_is_bounded() {
    check(&format!("{{{{{}}}}}", nested("(", "1", ")", 9_999)), "1");
    check(&format!("{{{{{}}}}}", nested("(", "1", ")", 100_000)), "max expression depth exceeded");
    check(&nested("{{if 1}}", "x", "{{end}}", 9_999), "x");
    check(&nested("{{with 1}}", "x", "{{end}}", 100_000), "max block depth exceeded");
    check(&nested("{{range 1}}", "x", "{{end}}", 9_999), "x");
    let chain = format!("{{{{if 0}}}}{}{{{{end}}}}", "{{else if 0}}".repeat(9_000));
    check(&chain, "");
}

#[test]
fn errors_print_deep_sources() {
    let source = format!("{{{{index {} \"a\"}}}}", nested("(print ", "1", ")", 9_000));
    check(&source, "error calling index: cannot index slice/array with type string");
}

#[test]
fn template_calls_are_bounded() {
    const MESSAGE: &str = "exceeded maximum template depth (100000)";
    check(r#"{{define "r"}}{{template "r" .}}{{end}}{{template "r" .}}"#, MESSAGE);
    let deep = r#"{{define "r"}}{{range 1}}{{if 1}}{{with 1}}{{template "r" .}}{{end}}{{end}}{{end}}{{end}}{{template "r" .}}"#;
    check(deep, MESSAGE);
    check(
        r#"{{define "r"}}{{if .}}{{template "r" (slice . 1)}}{{end}}{{end}}{{template "r" (until 400)}}ok"#,
        "ok",
    );
}

#[test]
fn deep_values_are_dropped_and_refused() {
    let build = "{{$x := list}}{{range until 100000}}{{$x = list $x}}{{end}}";
    check(&format!("{build}ok"), "ok");
    let too_deep = "value is nested deeper than 10000 levels (does a map contain itself?)";
    check(&format!("{build}{{{{$x}}}}"), too_deep);
    for call in ["toJson", "deepCopy", "quote", "printf \"%q\""] {
        let name = call.split(' ').next().unwrap_or(call);
        check(&format!("{build}{{{{{call} $x}}}}"), &format!("error calling {name}: {too_deep}"));
    }
    check(&format!("{build}{{{{deepEqual $x (list $x)}}}}"), &format!("error calling deepEqual: {too_deep}"));
    check(&format!("{{{{fromJson {:?} | len}}}}", nested("[", "1", "]", 9_999)), "1");
    check(
        &format!("{{{{mustFromJson {:?}}}}}", nested("[", "1", "]", 20_000)),
        "error calling mustFromJson: exceeded max depth",
    );
}

#[test]
fn maps_within_themselves_fail_and_are_freed() {
    let build = r#"{{$d := dict}}{{$_ := set $d "self" (list $d)}}"#;
    let too_deep = "value is nested deeper than 10000 levels (does a map contain itself?)";
    check(&format!("{build}ok"), "ok");
    check(&format!("{build}{{{{$d}}}}"), too_deep);
    for call in ["toJson", "toRawJson", "deepCopy", "toString"] {
        check(&format!("{build}{{{{{call} $d}}}}"), &format!("error calling {call}: {too_deep}"));
    }
    check(&format!("{build}{{{{deepEqual $d (deepCopy (omit $d \"self\"))}}}}"), "false");
    let root = Map::default();
    let options = Options::default();
    let source = r#"{{$_ := set . "self" .}}"#;
    let template = Template::parse("t", source, &Arc::new(Functions::sprig()), &options).unwrap();
    template.render(Value::Map(root.clone())).unwrap();
    assert!(root.is_empty(), "the cycle is cut at the end of the render");
}

#[test]
fn budgets_stop_loops_and_padding() {
    let limits = || Limits { output_bytes: 1_000, steps: 10_000, template_depth: 10, ..Limits::default() };
    let fails = |source: &str, expected: &str| {
        let (kind, message) = render_with(source, limits()).expect_err(source);
        assert_eq!((kind, message.as_str()), (ErrorKind::Limit, expected), "{source}");
    };
    fails("{{range 100000}}{{end}}", "template execution exceeds the limit of 10000 steps");
    fails("{{range 9223372036854775807}}x{{end}}", "template output exceeds the limit of 1000 bytes");
    fails(
        "{{printf \"%10000009d\" 1}}",
        "error calling printf: template output exceeds the limit of 1000 bytes",
    );
    fails(
        "{{printf \"%.10000009f\" 1.0}}",
        "error calling printf: template output exceeds the limit of 1000 bytes",
    );
    fails(
        "{{repeat 1001 \"x\"}}",
        "error calling repeat: template values use more than the limit of 1000 bytes",
    );
    fails(
        "{{until 9223372036854775807}}",
        "error calling until: template execution exceeds the limit of 10000 steps",
    );
    fails(
        "{{indent 9223372036854775807 \"x\"}}",
        "error calling indent: template values use more than the limit of 1000 bytes",
    );
    fails(
        r#"{{define "r"}}{{template "r"}}{{end}}{{template "r"}}"#,
        "exceeded maximum template depth (100000)",
    );
    assert_eq!(render_with(&"x".repeat(1_000), limits()).map(|text| text.len()), Ok(1_000));
    fails(&"x".repeat(1_001), "template output exceeds the limit of 1000 bytes");
}

#[test]
fn a_deadline_stops_what_steps_would_allow() {
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    let over = move || counter.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 2;
    let limits = Limits { deadline: Some(Deadline::new(over)), ..Limits::default() };
    let (kind, message) = render_with("{{range 9223372036854775807}}{{end}}", limits).unwrap_err();
    assert_eq!((kind, message.as_str()), (ErrorKind::Limit, "template execution exceeds its time limit"));
    assert_eq!(asked.load(std::sync::atomic::Ordering::Relaxed), 3);
    let limits = Limits { deadline: Some(Deadline::new(|| true)), ..Limits::default() };
    assert_eq!(render_with("short", limits), Ok("short".to_string()));
}

#[test]
fn exponential_sharing_is_stopped_by_the_budget() {
    // Each level refers to the one below twice: the value is small in memory, but a walk takes 2^60
    // steps.
    let build = "{{$x := list}}{{range until 60}}{{$x = list $x $x}}{{end}}";
    let limits = Limits { output_bytes: 1 << 20, steps: 1_000_000, ..Limits::default() };
    for use_it in ["{{$x}}", "{{toJson $x}}", "{{deepCopy $x}}", "{{deepEqual $x (append $x 1 | initial)}}"] {
        let result = render_with(&format!("{build}{use_it}"), limits.clone());
        assert!(matches!(result, Err((ErrorKind::Limit, _))), "{use_it}: {result:?}");
    }
}

/// Case: a list or text of this size would need its memory several times over, so it is refused
/// before it is allocated.
#[test]
fn values_in_use_are_bounded() {
    let limits = Limits { value_bytes: 1 << 20, ..Limits::default() };
    for source in [
        r#"{{$l := list}}{{range until 1000}}{{$l = append $l (repeat 2000 "x")}}{{end}}"#,
        r#"{{$l := list 1}}{{range until 60}}{{$l = concat $l $l}}{{end}}"#,
        r#"{{$l := list 1}}{{range until 60}}{{$l = list $l $l}}{{end}}{{deepCopy $l | len}}"#,
        r#"{{regexFindAll "a" (repeat 100000 "a") -1 | len}}"#,
        r#"{{regexSplit "" (repeat 100000 "a") -1 | len}}"#,
        r#"{{regexReplaceAll "(a*)" (repeat 20000 "a") (repeat 1000 "$1") | len}}"#,
        r#"{{splitn "" 10000000 (repeat 100000 "a") | len}}"#,
        r#"{{split "" (repeat 50000 "a") | len}}"#,
        r#"{{splitList "" (repeat 100000 "a") | len}}"#,
        r#"{{camelcase (repeat 200000 "a_") | len}}"#,
        r#"{{snakecase (repeat 200000 "A") | len}}"#,
        r#"{{replace "" "b" (repeat 300000 "a") | len}}"#,
        r#"{{js (repeat 300000 "<") | len}}"#,
        r#"{{urlJoin (dict "host" (repeat 300000 "%") "scheme" "http") | len}}"#,
        r#"{{$d := dict}}{{range until 100000}}{{$_ := set $d (toString .) .}}{{end}}"#,
        r#"{{fromJson (printf "[%s1]" (repeat 100000 "1,")) | len}}"#,
        r#"{{range until 100}}{{repeat 20000 "x"}}{{end}}"#,
    ] {
        let result = render_with(source, limits.clone());
        let Err((ErrorKind::Limit, message)) = &result else {
            unreachable!("{source}: {:?}", result.map(|text| text.len()));
        };
        let held = "template values hold more than the limit of 1048576 bytes at a time";
        assert!(message.ends_with(held), "{source}: {message}");
    }
}

/// Case: a million steps are about 40 ms. This many calls of each function take longer, so the
/// limit must stop them. Each of these functions was once as cheap as a call that does no work.
#[test]
fn functions_pay_for_what_they_do() {
    const BUILD: &str = r#"{{$x := repeat 1000000 "x"}}{{$n := repeat 1000000 "1"}}{{$m := dict}}
        {{- range until 1000}}{{$_ := set $m (toString .) .}}{{end}}{{$l := list $m $m $m $m $m $m $m $m}}"#;
    let limits = Limits { steps: 1_000_000, ..Limits::default() };
    for (call, count) in [
        ("int64 $n", 100),
        ("atoi $n", 100),
        ("add 1 $x", 200),
        ("add1f $x", 200),
        ("abbrev 3 $x", 50),
        (r#"printf "%x" $x"#, 100),
        (r#"printf "%v" $l"#, 100),
        ("toString $l", 100),
        ("toJson $l", 100),
        (r#"printf "%.1000g" 1e308"#, 4_000),
        ("b32enc $x", 40),
        (r#"decryptAES "k" $x"#, 20),
        ("merge (dict) $m", 300),
        ("deepCopy $l", 60),
        (r#"get $m "a""#, 200_000),
        (r#"regexReplaceAll "(x)" $x "${1}""#, 2),
    ] {
        let repeated = |count: usize| {
            render_with(
                &format!("{BUILD}{{{{range {count}}}}}{{{{$_ := {call}}}}}{{{{end}}}}"),
                limits.clone(),
            )
        };
        let (kind, message) = repeated(count).expect_err(call);
        assert!(
            message.ends_with("template execution exceeds the limit of 1000000 steps"),
            "{call}: {message}"
        );
        assert_eq!(kind, ErrorKind::Limit, "{call}");
        // A twentieth of the calls is within the limit, so their number is the cause of the error
        // above.
        assert_eq!(repeated(count / 20), Ok(String::new()), "{call}");
    }
    // Printing costs steps as well.
    let printed = format!("{BUILD}{{{{range 100}}}}{{{{$l}}}}{{{{end}}}}");
    let (_, message) = render_with(&printed, limits).expect_err("printed");
    assert_eq!(message, "template execution exceeds the limit of 1000000 steps");
    // A compiled class of characters takes hundreds of times its own length in memory.
    let class = r#"{{regexMatch (printf "[%s]" (repeat 600000 "x")) "x"}}"#;
    let (_, message) = render_with(class, Limits::default()).expect_err("class");
    assert!(message.ends_with("template execution exceeds the limit of 50000000 steps"), "{message}");
    // Each name of a path costs steps as well.
    let path = format!(
        r#"{{{{$d := dict}}}}{{{{$_ := set $d "d" $d}}}}{{{{range 10000}}}}{{{{$_ := $d{}}}}}{{{{end}}}}"#,
        ".d".repeat(1_000)
    );
    let (_, message) =
        render_with(&path, Limits { steps: 5_000_000, ..Limits::default() }).expect_err("path");
    assert_eq!(message, "template execution exceeds the limit of 5000000 steps");
}

/// Case: a loop may use the same memory again and again, because dropped values no longer count.
#[test]
fn memory_that_is_given_back_can_be_used_again() {
    let limits = Limits { value_bytes: 1 << 20, ..Limits::default() };
    for source in [
        r#"{{range until 1000}}{{$x := repeat 100000 "x"}}{{end}}ok"#,
        r#"{{$l := list}}{{range until 1000}}{{$l = append $l .}}{{end}}ok"#,
        r#"{{range until 1000}}{{$d := dict "a" (repeat 50000 "x")}}{{$_ := unset $d "a"}}{{end}}ok"#,
        r#"{{$s := ""}}{{range until 1000}}{{$s = print $s "line"}}{{end}}ok"#,
    ] {
        assert_eq!(render_with(source, limits.clone()), Ok("ok".to_string()), "{source}");
    }
}

/// Case: renders that share a budget fail together, and the error names the shared limit.
#[test]
fn renders_share_a_budget() {
    let budget = groundwork_budget::Budget::new(25_000);
    let functions = Arc::new(Functions::sprig());
    let template =
        Template::parse("t", "{{range until 5000}}{{end}}", &functions, &Options::default()).unwrap();
    let render = || {
        let host = groundwork_gotemplate::Host { budget: Some(budget.clone()), ..Default::default() };
        template.render_on(host, Value::Nil)
    };
    render().unwrap();
    render().unwrap();
    let failed = render().unwrap_err();
    assert_eq!(failed.kind(), ErrorKind::Limit);
    assert!(failed.message().contains("more than the limit of 25000 steps"), "{failed}");
}

#[test]
fn templates_are_shared_between_threads() {
    fn assert_shareable<T: Send + Sync + 'static>() {}
    assert_shareable::<Template>();
    assert_shareable::<Functions>();
    let template =
        Template::parse("t", "{{.}}", &Arc::new(Functions::builtins()), &Options::default()).unwrap();
    let threads: Vec<_> = (0..4)
        .map(|number| {
            let template = template.clone();
            std::thread::spawn(move || template.render(Value::List(List::new(vec![Value::int(number)]))))
        })
        .collect();
    for (number, thread) in threads.into_iter().enumerate() {
        assert_eq!(thread.join().unwrap().unwrap(), format!("[{number}]").into_bytes());
    }
}
