use proptest::prelude::*;

use super::*;

fn object(name: &str, labels: &[(&str, &str)]) -> Attributes {
    Attributes {
        name: name.to_owned(),
        namespace: "fleet".to_owned(),
        labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
        annotations: BTreeMap::new(),
    }
}

fn scope() -> Scope {
    let mut scope = Scope::new("r1", "p1");
    scope.set("target", &Shown::object(&object("r1", &[("region", "eu")])));
    scope
}

fn evaluate(source: &str) -> Result<String, String> {
    stacker::grow(STACK, || Expressions::new().evaluate(source, &scope()))
}

/// V-157, V-158, V-161, V-165, V-166: the test vectors of `packagevariants.md` 4.4.
#[test]
fn vectors() {
    for (source, expected) in [
        ("'x'", "x"),
        ("packageDefault + '-' + repoDefault", "p1-r1"),
        ("target.labels['region'] + '-gw'", "eu-gw"),
        ("has(target.labels.zone) ? target.labels.zone : 'z0'", "z0"),
        ("'env' in target.labels ? target.labels['env'] : 'none'", "none"),
        ("target.name + '.' + target.namespace", "r1.fleet"),
        ("'A-B'.lowerAscii().replace('-', '.')", "a.b"),
        ("'a,b'.split(',').map(x, x + x).join('+')", "aa+bb"),
        ("' abcd '.trim().substring(1, 3)", "bc"),
        ("['c', 'a'].exists(x, x == 'a') && size(target.labels) == 1 ? 'yes' : 'no'", "yes"),
        ("target.name.matches('^r[0-9]+$') ? string(1 + 1) : ''", "2"),
    ] {
        assert_eq!(evaluate(source).as_deref(), Ok(expected), "{source}");
    }
    for (source, expected) in [
        ("target.labels['zone']", "no such key: zone"),
        ("target.spec.git.repo", "no such key: spec"),
        ("repository.name", "no such attribute(s): repository"),
        ("upstream.name", "no such attribute(s): upstream"),
        ("target.name + 2", "no such overload"),
        ("string(1/0)", "division by zero"),
        ("string(1%0)", "modulus by zero"),
        ("string(9223372036854775807 + 1)", "integer overflow"),
        ("string(0u - 1u)", "unsigned integer overflow"),
        ("['a'][3]", "index out of bounds: 3"),
        ("{'a': 'b', 'a': 'c'}['a']", "a map has the same key twice"),
    ] {
        assert_eq!(evaluate(source).as_ref().map_err(String::as_str), Err(expected), "{source}");
    }
    assert!(evaluate("target.").unwrap_err().contains("(at 1:"));
}

/// A pattern is compiled once for all targets. Too many or too large patterns are refused.
#[test]
fn patterns_are_compiled_once_and_weighed() {
    let ten = "[1,2,3,4,5,6,7,8,9,10]";
    let loops = |pattern: &str| {
        let call = format!("'a'.matches({pattern}) ? 'a' : 'b'");
        format!("{ten}.map(a, {ten}.map(b, {ten}.map(c, {call}))).size() == 10 ? 'x' : 'y'")
    };
    assert_eq!(evaluate(&loops(r"'\\pL{1,90}'")).as_deref(), Ok("x"));
    assert_eq!(evaluate(&loops("'^a' + string(a)")).as_deref(), Ok("x"));
    let pattern = r"'\\pL{1,' + string(10 * a + b) + '}'";
    let many = format!("{ten}.map(a, {ten}.map(b, 'a'.matches({pattern}))).size() == 10 ? 'x' : 'y'");
    let refused = evaluate(&many).unwrap_err();
    assert!(refused.starts_with("the patterns of this set are too many"), "{refused}");
    // In the worst case, each byte of the text is compared with the whole pattern.
    let long = format!("['{}'].map(t, t + t + t + t + t + t + t + t)[0]", "é".repeat(500));
    assert_eq!(evaluate(&format!("{long}.matches('(é|x)*y') ? 'x' : 'y'")).as_deref(), Ok("y"));
    let searched = evaluate(&format!(r"{long}.matches('(\\pL{{90}}|x)*y') ? 'x' : 'y'")).unwrap_err();
    assert!(searched.contains("or are searched in too much text"), "{searched}");
    let invalid = "error parsing regexp: missing closing ): `(`";
    let large = "error parsing regexp: invalid repeat count: `{1,100}`";
    for (source, expected) in [
        ("'a'.matches('(') ? 'x' : 'y'", invalid),
        ("matches('a', '(((a{1,100}){1,100}){1,100}){1,100}') ? 'x' : 'y'", large),
    ] {
        assert_eq!(evaluate(source).as_ref().map_err(String::as_str), Err(expected), "{source}");
    }
    assert_eq!(evaluate("matches(target.name, '^r') && !'x'.matches('y') ? 'x' : 'y'").as_deref(), Ok("x"));
}

/// Table of the errors that the type check finds.
#[test]
fn types_are_checked_first() {
    let overload = |call: &str| format!("found no matching overload for {call}");
    for (source, expected) in [
        ("size(packageDefault) > 0 ? 'x' : 2", overload("'_?_:_' applied to '(bool, string, int)'")),
        ("packageDefault + 2", overload("'_+_' applied to '(string, int)'")),
        ("packageDefault.startsWith(2)", overload("'startsWith' applied to 'string.(int)'")),
        ("size(2)", overload("'size' applied to '(int)'")),
        ("[1, 2] + ['a']", overload("'_+_' applied to '(list(int), list(string))'")),
        ("1 == 'a' ? 'a' : 'b'", overload("'_==_' applied to '(int, string)'")),
        ("{'a': 1}[1]", overload("'_[_]' applied to '(map(string, int), int)'")),
        ("!packageDefault", overload("'!_' applied to '(string)'")),
        ("[1, 'a']", "expected type 'int' but found 'string'".to_owned()),
        ("{'a': 1, 'b': 'c'}", "expected type 'int' but found 'string'".to_owned()),
        ("true ? 'a' : tarket", "undeclared reference to 'tarket'".to_owned()),
        ("tarket.name", "undeclared reference to 'tarket'".to_owned()),
        ("shout('a')", "undeclared reference to 'shout'".to_owned()),
        ("math.greatest(1, 2)", "undeclared reference to 'math'".to_owned()),
        ("'a'.upperAscii()", "undeclared reference to 'upperAscii'".to_owned()),
        ("'%s'.format(['a'])", "undeclared reference to 'format'".to_owned()),
    ] {
        assert_eq!(evaluate(source), Err(expected), "{source}");
    }
    for (source, expected) in [
        ("has(packageDefault)", "invalid argument to has() macro"),
        ("target.?name", "unsupported syntax '.?'"),
        ("for", "reserved identifier: for"),
        ("package", "reserved identifier: package"),
        ("'a' +", "Syntax error"),
        ("", "Syntax error"),
        ("'a' 'b'", "Syntax error"),
    ] {
        let error = evaluate(source).unwrap_err();
        assert!(error.lines().next().unwrap().contains(expected), "{source}: {error}");
    }
}

/// Results are never converted to text (`packagevariants.md` 4.4, the table of types).
#[test]
fn results_that_are_no_texts() {
    for (source, expected) in [
        ("2 * 3", "unsupported type conversion from 'int' to string"),
        ("2u", "unsupported type conversion from 'uint' to string"),
        ("2.5", "type conversion error from Double to 'string'"),
        ("true", "type conversion error from bool to 'string'"),
        ("null", "type conversion error from 'null_type' to 'string'"),
        ("b'a'", "type conversion error from Bytes to 'string'"),
        ("['a']", "type conversion error from list to 'string'"),
        ("target.labels", "type conversion error from map to 'string'"),
        ("target", "type conversion error from map to 'string'"),
        ("timestamp('2020-01-01T00:00:00Z')", "type conversion error from 'Timestamp' to 'string'"),
        ("duration('2h')", "type conversion error from 'Duration' to 'string'"),
        ("type('a')", "type conversion not supported for 'type'"),
    ] {
        assert_eq!(evaluate(source).as_ref().map_err(String::as_str), Err(expected), "{source}");
    }
}

#[test]
fn conversions_and_times() {
    for (source, expected) in [
        ("string(false)", "false"),
        ("string(0.25)", "0.25"),
        ("string(40.0)", "40"),
        ("string(123456.0)", "123456"),
        ("string(1000000.0)", "1e+06"),
        ("string(0.00001)", "1e-05"),
        ("string(timestamp('2020-02-03T04:05:06+01:00'))", "2020-02-03T04:05:06+01:00"),
        ("string(timestamp('2020-02-03T04:05:06.5Z') + duration('1h'))", "2020-02-03T05:05:06.5Z"),
        ("string(duration('2h'))", "7200s"),
        ("string(duration('-1500ms'))", "-1.5s"),
        ("string(timestamp('2020-02-03T23:05:06-05:00').getHours())", "4"),
        ("string(timestamp('2020-02-03T04:05:06Z').getMonth())", "1"),
        ("string(timestamp('2020-02-03T04:05:06Z').getDayOfWeek())", "1"),
        ("string(duration('90m').getHours())", "1"),
        ("{'b': 1, 'a': 2, 'c': 3}.map(k, k).join('')", "abc"),
        ("['a', 'b'].filter(x, x != 'a')[0] + 'c'", "bc"),
        ("['a', 'b'].map(x, x == 'a', x + x)[0] + 'c'", "aac"),
        ("dyn(1) == dyn('a') ? 'x' : 'y'", "y"),
        ("'x' // a comment", "x"),
    ] {
        assert_eq!(evaluate(source).as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn limits() {
    let long = |count: usize| vec!["'a'"; count].join("+");
    assert_eq!(evaluate(&long(400)).map(|text| text.len()), Ok(400));
    for (source, expected) in [
        (long(600), "operators"),
        ("[".repeat(61), "brackets"),
        (format!("'{}'", "x".repeat(4095)), "4096 bytes"),
        (format!("'{}'", "x".repeat(1025)), "1024 bytes"),
        (format!("['aaaaaaaa']{}[0]", ".map(x, x + x)".repeat(100)), "steps"),
        (format!("'{0}'.replace('a', '{0}').replace('a', '{0}')", "a".repeat(900)), "steps"),
        (
            format!("[{}].all(a, X.all(b, X.all(c, true))) ? '' : ''", vec!["1"; 200].join(","))
                .replace('X', &format!("[{}]", vec!["1"; 140].join(","))),
            "steps",
        ),
    ] {
        let error = evaluate(&source).unwrap_err();
        assert!(error.contains(expected), "{error} for {}", &source[..60.min(source.len())]);
    }
    // The deepest nesting that is allowed.
    let deep = format!("{}'a'{}", "(".repeat(60), ")".repeat(60));
    assert_eq!(evaluate(&deep).as_deref(), Ok("a"));
}

/// Every kind of nesting up to its limit is evaluated without a stack overflow.
#[test]
fn depth_that_is_let_through() {
    for source in [
        vec!["'a'"; 499].join("+"),
        vec!["'a'"; 810].join(" in "),
        format!("{}true", "!".repeat(500)),
        format!("{}1", "-".repeat(500)),
        format!("target{}", ".a".repeat(500)),
        format!("{}'a'", "true ? 'b' : ".repeat(240)),
        format!("{}'a'{}", "[".repeat(60), "]".repeat(60)),
        format!("{}'a'{}", "{'a':".repeat(60), "}".repeat(60)),
        format!("{}'a'{}", "size(".repeat(60), ")".repeat(60)),
        format!("['a']{}", ".map(x, x)".repeat(240)),
        format!("{}true{}", "['a'].all(x, ".repeat(30), ")".repeat(30)),
        format!("{}'a'", "'a' == ".repeat(200)),
        format!("{}true", "true && ".repeat(240)),
    ] {
        let _ = evaluate(&source);
    }
}

#[test]
fn the_budget_of_a_set() {
    let heavy = format!("[{}].map(x, x + 'aaaaaaaa').size() > 0 ? 'a' : ''", vec!["'bbbb'"; 400].join(","));
    stacker::grow(STACK, || {
        let mut expressions = Expressions::new();
        let scope = scope();
        let ended = (0..200_000).map(|_| expressions.evaluate(&heavy, &scope)).find(Result::is_err);
        assert!(ended.unwrap().unwrap_err().contains("for all of its targets"));
    });
}

proptest! {
    /// Any source gives a text or an error, and never panics.
    #[test]
    fn no_text_makes_it_fall_over(source in r#"([a-z]{1,3}|target|labels|\.|\[|\]|\(|\)|'[a-z]*'|"|'|\+|-|!|\?|:|,|\{|\}|[0-9]{1,20}|map|all|has|x|in| |\\|\n|e|u|&&|\|\||==|b'|r"|@|\$|`|/|%){0,24}"#) {
        let _ = evaluate(&source);
    }

    /// No expression exceeds the bound of its nesting; larger ones are refused before they are
    /// built.
    #[test]
    fn the_bound_is_one(depth in 1_usize..30) {
        let source = format!("['ab']{}[0]", ".map(x, x + x)".repeat(depth));
        match evaluate(&source) {
            Ok(text) => prop_assert_eq!(text.len(), 2 << depth),
            Err(error) => prop_assert!(error.contains("steps") || error.contains("bytes"), "{}", error),
        }
    }
}

/// Consecutive loops over the labels of a target stay far within the steps.
#[test]
fn loops_in_a_row_are_affordable() {
    let labels: Vec<(String, String)> =
        (0..20).map(|n| (format!("example.org/label-{n}"), format!("value-{n}"))).collect();
    let labels: Vec<(&str, &str)> =
        labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let mut scope = Scope::new("r1", "p1");
    scope.set("target", &Shown::object(&object("r1", &labels)));
    let source = "target.labels.filter(k, k.startsWith('example.org/')).map(k, target.labels[k]).filter(v, v != '')\
                  .map(v, v + '.').filter(v, size(v) > 3).map(v, v.replace('.', '')).join(',')";
    let text = stacker::grow(STACK, || Expressions::new().evaluate(source, &scope)).unwrap();
    assert!(text.starts_with("value-0,value-1,"), "{text}");
}

/// Types that contain another type twice are refused before they grow exponentially.
#[test]
fn large_types_are_refused() {
    let doubled = (0..60).fold("[]".to_owned(), |list, _| format!("{list}.map(x, {{x: x}})"));
    let problem = evaluate(&format!("string({doubled} == [])")).unwrap_err();
    assert!(problem.contains("too large"), "{problem}");
}
