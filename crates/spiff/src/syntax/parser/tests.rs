use std::time::{Duration, Instant};

use super::*;

/// Texts and their printed form. Several are the examples of `spiff.md` 6 to 12.
#[test]
fn every_construct_of_6_1_parses_and_prints() {
    for (text, printed) in [
        (" 1 + 2 * 3 \" \" 10 - 4 ", r#"1 + 2 * 3 " " 10 - 4"#),
        ("x -1", "x -1"),
        ("x - 1", "x - 1"),
        ("x > 3 ? \"big\" :\"small\"", r#"x > 3 ? "big" : "small""#),
        ("(1 + 2) * 3", "( 1 + 2 ) * 3"),
        ("{ $kind = $web, \"count\" = 1_000 }", r#"{ "kind" = "web", "count" = 1000 }"#),
        ("{}", "{ }"),
        ("[]", "[]"),
        ("10.0.0.1", r#""10.0.0.1""#),
        ("nope || x > 9 ? 1 :2", "nope || x > 9 ? 1 : 2"),
        ("( $a = 2, $b = 3 ) a * b", r#"( "a" = 2, "b" = 3 ) a * b"#),
        ("() x", "( ) x"),
        ("~", "nil"),
        ("nil", "nil"),
        ("~~", "~~"),
        ("a.b.c", "a.b.c"),
        (".a.b", ".a.b"),
        ("a[0].b", "a.[0].b"),
        ("a.[-1]", "a.[-1]"),
        ("a[name:x].b", "(a.[name:x]).b"),
        ("l.name:x.v", "l.name:x.v"),
        (r#".["a b"].c"#, r#"(.["a b"]).c"#),
        ("hosts.[pick].ips.[0]", "(hosts.[pick]).ips.[0]"),
        ("a[b]", "a.[b]"),
        ("a.[\"x\", 0]", "a.[\"x\", 0]"),
        ("lib:one::v", "lib:one::v"),
        ("lib.two::.", "lib.two::."),
        ("lib::.[0]", "lib::..[0]"),
        ("doc.-1::a.b", "doc.-1::a.b"),
        ("l.[1..2]", "l.[1..2]"),
        ("l.[..1].[*].x", "l.[..1].[*].x"),
        ("l[1..]", "l.[1..]"),
        ("[a..b]", "[a..b]"),
        ("[1..3]", "[1..3]"),
        ("[..]", "[..]"),
        ("[ 0, l.[0..1]..., 99 ]", "[0, l.[0..1]..., 99]"),
        ("[a...]", "[a...]"),
        ("[a...b]", "[a...b]"),
        ("f(a, b...)(c).d", "(f(a, b...)(c)).d"),
        ("f(b=1,a=2, 3)", "f(b=1, a=2, 3)"),
        ("f(1=a)", "f(1=a)"),
        ("f(a == b)", "f(a == b)"),
        ("join*(\"-\")(\"a\",\"b\")", r#"join*("-")("a", "b")"#),
        ("!x", "!(x)"),
        ("! x.y(1)", "!(x.y(1))"),
        ("*tpl", "*(tpl)"),
        ("a *tpl", "a *(tpl)"),
        ("|x|->x + 1", "lambda|x|->x + 1"),
        ("lambda|x|->x", "lambda|x|->x"),
        ("lambda |x|->x", "lambda|x|->x"),
        ("lambda text", "lambda text"),
        ("(lambda text)(4)", "( lambda text )(4)"),
        ("||->1", "lambda||->1"),
        ("| a , b = 2 ,c=3|->a", "lambda|a,b=2,c=3|->a"),
        ("|a,rest...|->rest", "lambda|a,rest...|->rest"),
        ("map[l|x|->x * 2]", "map[l|x|->x * 2]"),
        ("map[l |x|->x]", "map[l|x|->x]"),
        ("map[l|f]", "map[l|f]"),
        ("map[5|x|->x]", "map[5|x|->x]"),
        ("map{m|k,v|->v}", "map{m|k,v|->v}"),
        ("select[l|x|->x]", "select[l|x|->x]"),
        ("select{m|f}", "select{m|f}"),
        ("filter[l|f]", "filter[l|f]"),
        ("filter{m|f}", "filter{m|f}"),
        ("sum[l|0|s,x|->s + x]", "sum[l|0|s,x|->s + x]"),
        ("catch[no.where|v,e|->e]", "catch[no.where|v,e|->e]"),
        ("catch(1 / 0)", "catch(1 / 0)"),
        ("sync[e|v,e|->c|v|->v|10]", "sync[e|v,e|->c|v|->v|10]"),
        ("sync[e|v|->c,v.x|10]", "sync[e|v|->c,v.x|10]"),
        ("sync[e|c]", "sync[e|c]"),
        ("merge", "merge"),
        ("merge replace", "merge required"),
        ("merge required", "merge"),
        ("merge on id", "merge on id"),
        ("merge none", "merge none"),
        ("merge a.b", "merge a.b"),
        ("merge replace x.y", "merge replace x.y"),
        ("merge || \"auto\"", "merge || \"auto\""),
        ("merge required a.b", "merge a.b"),
        ("merge(tpl, x)", "merge(tpl, x)"),
        ("auto", "auto"),
        ("prefer base", "prefer base"),
        ("prefer", "prefer"),
        ("&temporary", "&temporary"),
        (" &temporary &template ( host \"!\" ) ", "&temporary &template (( host \"!\" ))"),
        ("&tag:lib:one &tag:*x.y", "&tag:lib:one &tag:*x.y"),
        ("&temporary(|x|->x  +  1)", "&temporary ((|x|->x  +  1))"),
        ("true -or nope", "true -or nope"),
        ("true-or", "!"),
        ("-1.5e3", "-1500.0"),
        ("1e-7", "1e-07"),
        ("1.5", "1.5"),
        ("a ? b.c : d", "a ? b.c : d"),
        ("a\n  b", "a b"),
        ("map[l]", "map.[l]"),
        ("select.x", "select.x"),
        ("lambda.x", "lambda.x"),
        ("mapping", "mapping"),
        (".autoscale", ".autoscale"),
        ("__.merged", "__.merged"),
        ("_", "_"),
        ("___.port", "___.port"),
        ("x // y || z", "x // y || z"),
        ("a == b != c", "a == b != c"),
        ("7 % 3 / 2", "7 % 3 / 2"),
        ("\"\\\"\\u0041\\n\"", "\"\\\"A\\n\""),
        ("\"日本\" x", "\"日本\" x"),
    ] {
        let result = parse(text).map_or_else(|_| "!".to_owned(), |parsed| parsed.to_string());
        assert_eq!(result, printed, "{text}");
    }
}

#[test]
fn what_is_no_expression_by_6_3() {
    for text in [
        "",
        "1+2",
        "nilable",
        "autoscale",
        "trueish",
        "merged",
        "[1,2,]",
        "'a'",
        "a && b",
        "-x",
        "1.",
        "f(1, a=2)",
        "{ a }",
        "(a = 1)",
        "a b c +",
        "\"a\\\\\"",
        "a.b.",
        "a..b",
        "|x|",
        "a ? b",
        "1e",
        "&unknown",
        "&temporary x",
        "[a",
        "f(",
        "{",
        "((",
        "a (b",
        ".[]",
        "a.[]",
        "99999999999999999999",
        "1e400",
        "\"a\nb\"",
        "a ? b:c",
        "$",
        "!",
        "map[l|x|]",
        "[ ..5]",
    ] {
        assert!(parse(text).is_err(), "{text}");
    }
}

#[test]
fn errors_say_where() {
    for (text, message) in [
        ("a && b", "parse error near symbol 2 - symbol 3: ' '"),
        ("a\n && b", "parse error near line 2 symbol 0 - line 2 symbol 2: '\n '"),
        ("1e400", "parse error near symbol 1 - symbol 6: '1e400': the number is out of range"),
        (
            "x \"\\z\"",
            "parse error near symbol 3 - symbol 7: '\"\\z\"': invalid character 'z' in string escape code",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err().to_string(), message, "{text}");
    }
}

/// Case: brackets that open 200 times and then close, open, or break.
#[test]
fn nested_brackets_take_linear_time() {
    let start = Instant::now();
    for open in [
        "(",
        "[",
        "!(",
        "lambda (",
        "map[",
        "map[(",
        "f(",
        "f(a=",
        "{ a = ",
        "a.[",
        "[a..",
        "catch[",
        "sync[a|b|->",
        "sum[",
        "x - (",
        "|a=(",
        "|x|->(",
        "a ? (",
        "a ?b :(",
        "( a = ",
        "f*(",
        "*(",
        "merge (",
        "select{map[",
        "[[",
        "1 .[",
        "map[x|y|->map[",
        "a -or (",
    ] {
        for close in ["", "x", "1)", "1]", "~"] {
            let text = format!("{}{close}", open.repeat(200));
            let _ = parse(&text);
        }
    }
    for (open, close) in
        [("(", ")"), ("[", "]"), ("f(", ")"), ("map[x|y|->", "]"), ("a.[", "]"), ("map[", "]")]
    {
        let text = format!("{}x{}", open.repeat(200), close.repeat(200));
        assert!(parse(&text).is_ok(), "{open}");
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_hundred_kilobytes_take_linear_time() {
    let start = Instant::now();
    assert!(parse(&format!("[{}1]", "a.b + 12, ".repeat(10_000))).is_ok());
    assert!(parse(&format!("\"{}\"", "x".repeat(100_000))).is_ok());
    assert!(parse(&format!("{}a", "a.b.[0].".repeat(12_000))).is_ok());
    for deep in ["(", "[", "!", "*", "a ? b :", "|x|->", "a.[", "f(", "map["] {
        let text = deep.repeat(100_000 / deep.len());
        assert!(matches!(parse(&text), Err(ParseError::TooDeep { .. })), "{deep}");
    }
    for chain in ["a ", "a + ", "a || "] {
        let text = format!("{}a", chain.repeat(100_000 / chain.len()));
        assert!(matches!(parse(&text), Err(ParseError::TooDeep { .. })), "{chain}");
    }
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}
