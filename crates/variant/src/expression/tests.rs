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

/// V-157, V-158, V-161, V-165, V-166: the vectors of the chapter.
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
        ("1 + 1", "expression returned non-string value: 2"),
        ("target.labels", "expression returned non-string value: a map"),
        ("repository.name", "no such attribute(s): repository"),
        ("upstream.name", "no such attribute(s): upstream"),
        ("tarket.name", "undeclared reference to 'tarket'"),
        ("true ? 'a' : tarket", "undeclared reference to 'tarket'"),
        ("shout('a')", "undeclared reference to 'shout'"),
        ("'%s'.format(['a'])", "undeclared reference to 'format'"),
        ("target.name + 1", "found no matching overload for 'add'"),
    ] {
        assert_eq!(evaluate(source).as_ref().map_err(String::as_str), Err(expected), "{source}");
    }
    assert!(evaluate("target.").unwrap_err().contains("(at 1:"));
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
        (format!("['aaaaaaaa']{}[0]", ".map(x, x + x)".repeat(100)), "units"),
        (format!("'{0}'.replace('a', '{0}').replace('a', '{0}')", "a".repeat(900)), "units"),
        (
            format!("[{}].all(a, X.all(b, X.all(c, true))) ? '' : ''", vec!["1"; 200].join(","))
                .replace('X', &format!("[{}]", vec!["1"; 140].join(","))),
            "units",
        ),
    ] {
        let error = evaluate(&source).unwrap_err();
        assert!(error.contains(expected), "{error} for {}", &source[..60.min(source.len())]);
    }
    // The deepest that passes.
    let deep = format!("{}'a'{}", "(".repeat(60), ")".repeat(60));
    assert_eq!(evaluate(&deep).as_deref(), Ok("a"));
}

/// All ways to be deep that the limits let through end in an answer on the stack that is there.
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
    /// Whatever is written, the answer is a text or an error.
    #[test]
    fn no_text_makes_it_fall_over(source in r#"([a-z]{1,3}|target|labels|\.|\[|\]|\(|\)|'[a-z]*'|"|'|\+|-|!|\?|:|,|\{|\}|[0-9]{1,20}|map|all|has|x|in| |\\|\n|e|u|&&|\|\||==|b'|r"|@|\$|`|/|%){0,24}"#) {
        let _ = evaluate(&source);
    }

    /// Nothing is larger than the bound says; what is refused is refused before it is built.
    #[test]
    fn the_bound_is_one(depth in 1_usize..30) {
        let source = format!("['ab']{}[0]", ".map(x, x + x)".repeat(depth));
        match evaluate(&source) {
            Ok(text) => prop_assert_eq!(text.len(), 2 << depth),
            Err(error) => prop_assert!(error.contains("units") || error.contains("bytes"), "{}", error),
        }
    }
}
