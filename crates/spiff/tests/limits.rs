//! Tests of the limits: bad input ends in a typed error, without a panic, a stack overflow or an
//! endless run.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use groundwork_spiff::{Document, Engine, Error, LimitError, Limits};

fn limits() -> Limits {
    let mut limits = Limits::default();
    limits.string_bytes = 1 << 20;
    limits.nodes = 100_000;
    limits.steps = 5_000_000;
    limits
}

fn run(template: &str, stubs: &[&str]) -> Result<String, Error> {
    let engine = Engine::new().with_limits(limits());
    let read = |text: &str| Document::read(text, "test", engine.limits());
    let stubs = stubs.iter().map(|stub| read(stub)).collect::<Result<Vec<_>, _>>()?;
    Ok(engine.cascade(&read(template)?, &stubs, None)?.to_yaml())
}

fn limit(template: &str) -> LimitError {
    match run(template, &[]) {
        Err(Error::Limit { limit, .. }) => limit,
        other => unreachable!("{other:?}"),
    }
}

#[test]
fn recursion_without_end() {
    let limit = limit("f: (( |x|->_(x) ))\nx: (( .f(1) ))\n");
    assert_eq!(limit, LimitError::Calls(limits().calls));
    let two = "f: (( |x|->.g(x) ))\ng: (( |x|->.f(x) ))\nx: (( .f(1) || \"saved\" ))\n";
    assert!(matches!(self::limit(two), LimitError::Calls(_)), "a limit cannot be caught");
    let template = "t:\n  <<: (( &template ))\n  x: (( *t ))\ny: (( *t ))\n";
    assert!(matches!(self::limit(template), LimitError::Calls(_)));
}

#[test]
fn growth_without_end() {
    let mut strings = String::from("k00: \"0123456789\"\n");
    let mut lists = String::from("k00: [ 1, 2 ]\n");
    for level in 1..60 {
        let before = level - 1;
        writeln!(strings, "k{level:02}: (( k{before:02} k{before:02} ))").unwrap();
        writeln!(lists, "k{level:02}: (( k{before:02} k{before:02} ))").unwrap();
    }
    assert_eq!(limit(&strings), LimitError::StringBytes(1 << 20));
    assert_eq!(limit(&lists), LimitError::Nodes(100_000));
    assert_eq!(limit("x: (( [1..1000000000] ))\n"), LimitError::Nodes(100_000));
    let nested = "x: (( sum[[1..10000]|[]|s,e|->[ s ]] ))\n";
    assert_eq!(limit(nested), LimitError::Nesting(limits().nesting));
    let slow = "l: (( [1..9000] ))\nx: (( map[l|a|->length(map[l|b|->length(map[l|c|->a])])] ))\n";
    assert!(matches!(limit(slow), LimitError::Steps(_)));
}

/// Case: a shared value counts each time it would be written out: sixty lines would be 2^60 nodes.
#[test]
fn doubled_values_count_as_what_they_are_written_out() {
    let chain = |first: &str, next: &dyn Fn(usize) -> String| {
        let levels: String =
            (1..60).map(|level| next(level - 1).replace("LEVEL", &level.to_string())).collect();
        format!("a0: {first}\n{levels}")
    };
    for template in [
        chain("x", &|before| format!("aLEVEL: (( [a{before}, a{before}] ))\n")),
        chain("x", &|before| format!("aLEVEL: (( {{\"l\"=a{before}, \"r\"=a{before}}} ))\n")),
        chain("x", &|before| format!("aLEVEL:\n  l: (( a{before} ))\n  r: (( a{before} ))\n")),
        "a: (( sum[[1..60]|{}|s,x|->{\"a\"=s,\"b\"=s}] ))\n".to_owned(),
        "a: (( [1..2000] ))\nb: (( map[a|x|->a] ))\n".to_owned(),
        "t: (( \"0123456789\" ))\na: (( map[[1..2000]|x|->map[[1..2000]|y|->t y]] ))\n".to_owned(),
    ] {
        assert_eq!(limit(&template), LimitError::Nodes(100_000), "{}", &template[..60]);
    }
}

/// Case: the work of functions counts by the sizes of their arguments, not by the number of calls.
#[test]
fn functions_pay_for_what_they_look_at() {
    let mut limits = limits();
    limits.steps = 1_250_000;
    limits.nodes = 2_000_000;
    let work = LimitError::Steps(limits.steps);
    let engine =
        Engine::new().with_limits(limits).with_randomness(groundwork_spiff::Randomness::new(|bytes| {
            bytes.fill(7);
            Ok(())
        }));
    let run = |template: &str| {
        let document = Document::read(template, "test", engine.limits()).unwrap();
        engine.cascade(&document, &[], None).map(|output| output.to_yaml())
    };
    let long = "x".repeat(100_000);
    for template in [
        "a: (( uniq([1..1000000]) ))\n".to_owned(),
        "a: (( intersect([1..1000000],[1..1000000]) ))\n".to_owned(),
        "l: (( [1..100000] ))\na: (( map[l|x|->contains(l, 0)] ))\n".to_owned(),
        "a: (( map[[1..1000]|x|->bcrypt(\"x\", 14)] ))\n".to_owned(),
        "a: (( map[[1..100000]|x|->md5crypt(\"x\")] ))\n".to_owned(),
        format!("s: \"{long}\"\na: (( map[[1..100000]|x|->hash(s x,\"sha512\")] ))\n"),
        format!("s: \"{long}\"\na: (( map[[1..100000]|x|->s x] ))\n"),
        "a: (( map[[1..1000000]|x|->match(\"(a{1,300}){1,10}\" x, \"aaa\")] ))\n".to_owned(),
        format!("x: \"{long}\"\ny: \"{}\"\na: (( replace_match(x, \"\", y) ))\n", "$0".repeat(50_000)),
        "a: (( map[[1..1000000]|x|->format(\"%100000d\", x)] ))\n".to_owned(),
        format!("x: \"{}\"\na: (( map[[1..100000]|i|->parse(x,\"yaml\")] ))\n", "- a\\n".repeat(1_000)),
        "f: (( |x|->x <= 0 ? 1 :.f(x - 1) + .f(x - 1) ))\na: (( .f(60) ))\n".to_owned(),
    ] {
        let shown = &template[template.len().saturating_sub(60)..];
        match run(&template) {
            // If both the work and its result grow without end, either limit may come first.
            Err(Error::Limit { limit, .. }) => {
                assert!(limit == work || matches!(limit, LimitError::Nodes(_)), "{shown}: {limit}");
            }
            other => unreachable!("{shown}: {:?}", other.map(|text| text.len())),
        }
    }
}

#[test]
fn memory_of_lists_in_use_is_bounded() {
    let template = "a: (( map[[1..1000]|x|->[1..1000]] ))\n";
    let mut limits = Limits::default();
    limits.value_bytes = 1 << 20;
    let engine = Engine::new().with_limits(limits);
    let document = Document::read(template, "test", engine.limits()).unwrap();
    let failed = engine.cascade(&document, &[], None).unwrap_err();
    assert!(matches!(failed, Error::Limit { limit: LimitError::Held(1_048_576), .. }), "{failed}");
}

/// Case: small maps take more memory for themselves than for their contents.
#[test]
fn memory_of_small_maps_in_use_is_bounded() {
    let mut limits = Limits::default();
    limits.value_bytes = 4 << 20;
    let engine = Engine::new().with_limits(limits);
    let read = |text: &str| Document::read(text, "test", engine.limits()).unwrap();
    assert!(engine.cascade(&read("a: (( map[[1..12500]|x|->x] ))\n"), &[], None).is_ok());
    let failed = engine.cascade(&read("a: (( map[[1..12500]|x|->{\"x\" = x}] ))\n"), &[], None).unwrap_err();
    assert!(matches!(failed, Error::Limit { limit: LimitError::Held(4_194_304), .. }), "{failed}");
}

/// Case: runs that share a budget fail together, and the error names the budget.
#[test]
fn runs_share_a_budget() {
    let budget = groundwork_budget::Budget::new(50_000);
    let engine = Engine::new().with_budget(budget);
    let document = Document::read("a: (( map[[1..1000]|x|->x] ))\n", "test", engine.limits()).unwrap();
    assert!(engine.cascade(&document, &[], None).is_ok());
    let failed = (0..10).find_map(|_| engine.cascade(&document, &[], None).err()).unwrap();
    assert!(matches!(failed, Error::Limit { limit: LimitError::Budget(_), .. }), "{failed}");
    assert!(failed.to_string().contains("more than the limit of 50000 steps"), "{failed}");
}

/// Case: the deadline of the host ends a run. Short runs end before the first check.
#[test]
fn the_host_may_end_a_run() {
    let over = groundwork_budget::Deadline::new(|| true);
    let engine = Engine::new().with_deadline(over);
    let read = |text: &str| Document::read(text, "test", engine.limits()).unwrap();
    assert!(engine.cascade(&read("a: (( 1 + 1 ))\n"), &[], None).is_ok(), "nobody asks so early");
    let failed = engine.cascade(&read("a: (( map[[1..12500]|x|->x] ))\n"), &[], None).unwrap_err();
    assert!(matches!(failed, Error::Limit { limit: LimitError::Time, .. }), "{failed}");
}

/// Case: the error of a limit names the innermost node that comes from a text, so that the author
/// finds the expression.
#[test]
fn a_limit_says_where_it_was_reached() {
    let engine = Engine::new().with_limits(limits());
    let read = |text: &str| Document::read(text, "test", engine.limits()).unwrap();
    for (template, place) in [
        ("a: 1\nx:\n  y: (( map[[1..1000000]|x|->x] ))\n", "(line 3, column 6 of test)"),
        ("f: (( |x|-> .f(x) ))\na: (( .f(1) ))\n", "(line 2, column 4 of test)"),
        (
            // Nodes of a parsed text have positions in that text, which would not help the author.
            "a: 1\nx: '(( parse(\"y: ((\" \" map[[1..1000000]|x|->x] )\" \")\", \"yaml\") ))'\n",
            "(line 2, column 4 of test)",
        ),
        (
            "t:\n  <<: (( &template ))\n  v: (( map[[1..1000000]|x|->x] ))\na: (( *t ))\n",
            "(line 3, column 6 of test)",
        ),
    ] {
        let failed = engine.cascade(&read(template), &[], None).unwrap_err();
        assert!(matches!(failed, Error::Limit { .. }), "{failed}");
        assert!(failed.to_string().ends_with(place), "{failed}");
    }
}

/// Case: each match makes a new text. A million of them in a loop took ten seconds and cost almost
/// no work.
#[test]
fn replacements_pay_for_each_match() {
    let mut limits = limits();
    limits.steps = 500_000;
    let engine = Engine::new().with_limits(limits);
    let repeated = |times: usize| {
        let long = "x".repeat(100_000);
        let template = format!(
            "s: \"{long}\"\na: (( sum[[1..{times}]|0|n,x|->n + length(replace(s, \"x\", \"y\"))] ))\n"
        );
        let document = Document::read(&template, "test", engine.limits()).unwrap();
        engine.cascade(&document, &[], None).map(|output| output.to_yaml().len())
    };
    assert!(repeated(2).is_ok());
    let failed = repeated(10).unwrap_err();
    assert!(matches!(failed, Error::Limit { limit: LimitError::Steps(_), .. }), "{failed}");
}

/// Case: two million units are about 20 ms. This many calls take longer, so the limit must stop
/// them. Each of these functions was once as cheap as a call that does no work.
#[test]
fn calls_pay_for_what_they_do() {
    let mut limits = limits();
    limits.steps = 500_000;
    let engine = Engine::new().with_limits(limits);
    let long = "x".repeat(200_000);
    for (call, count) in [
        ("x < y ? 1 :0".to_owned(), 1_000),
        ("x >= y ? 1 :0".to_owned(), 1_000),
        ("valid(x * y) ? 1 :0".to_owned(), 1_000),
        ("length(m.[0..999])".to_owned(), 400),
        ("valid(element(m, x)) ? 1 :0".to_owned(), 200),
        ("length(trim(\"xx\", x))".to_owned(), 200),
        ("length(intersect(n, k))".to_owned(), 200),
        ("match(\"(x|y)*z\", \"x\") ? 1 :0".to_owned(), 16_000),
        ("check(x, \"privatekey\") ? 1 :0".to_owned(), 40),
        ("semvermatch(\"1.2.3\", \">=1.0,<2 || 3.x\") ? 1 :0".to_owned(), 16_000),
    ] {
        let repeated = |count: usize| {
            let template = format!(
                "x: \"{long}\"\ny: \"{long}\"\nm: (( [1..1000] ))\nn: (( [1..100] ))\nk: (( map[n|i|->\"k\" i] ))\n\
                 a: (( sum[[1..{count}]|0|s,i|->s + ({call})] ))\n"
            );
            let document = Document::read(&template, "test", engine.limits()).unwrap();
            engine.cascade(&document, &[], None).map(|output| output.to_yaml().len())
        };
        let failed = repeated(count).expect_err(&call);
        assert!(matches!(failed, Error::Limit { limit: LimitError::Steps(_), .. }), "{call}: {failed}");
        let few = repeated(count / 20);
        assert!(few.is_ok(), "{call}: {few:?}");
    }
    // A compiled class of characters takes hundreds of times its own length in memory.
    let pattern = format!("a: (( match(\"[{}]\", \"x\") ))\n", "x".repeat(600_000));
    let engine = Engine::new();
    let document = Document::read(&pattern, "test", engine.limits()).unwrap();
    let failed = engine.cascade(&document, &[], None).unwrap_err();
    assert!(matches!(failed, Error::Limit { limit: LimitError::Steps(_), .. }), "{failed}");
}

/// Case: each search through a list or text costs work, even if it finds no match.
#[test]
fn looking_again_is_paid_again() {
    let mut limits = limits();
    limits.steps = 1_250_000;
    limits.nodes = 2_000_000;
    let engine = Engine::new().with_limits(limits);
    let long = "x".repeat(100_000);
    for call in
        ["match(\"y\", s)", "uniq(l)", "intersect(l, l)", "replace(s, \"y\", \"\")", "hash(s, \"sha512\")"]
    {
        let template = format!(
            "s: \"{long}\"\nl: (( [1..1000] ))\na: (( sum[[1..100000]|0|n,x|->n + length({call})] ))\n"
        );
        let document = Document::read(&template, "test", engine.limits()).unwrap();
        let failed = engine.cascade(&document, &[], None).unwrap_err();
        assert!(matches!(failed, Error::Limit { limit: LimitError::Steps(_), .. }), "{call}: {failed}");
    }
}

#[test]
fn a_document_that_never_rests() {
    // Each result is an expression again, with one more argument.
    let template = "f: (( |x|->\"(( .f(\\\"\" x \"y\\\") ))\" ))\na: (( .f(\"\") ))\n";
    let error = limit(template);
    assert!(matches!(error, LimitError::Passes(_) | LimitError::Nesting(_)), "{error}");
}

#[test]
fn cycles_come_to_rest() {
    for template in [
        "a: (( b ))\nb: (( a ))\n",
        "a: (( a ))\n",
        "a: { b: (( a )) }\n",
        "a:\n  <<: (( a ))\n",
        "l:\n- <<: (( l ))\n",
        "a: (( [ a ] ))\n",
    ] {
        let error = run(template, &[]).unwrap_err();
        assert!(matches!(error, Error::Unresolved(_)), "{template}: {error}");
    }
    let merged = run("a:\n  <<: (( merge ))\n", &["a:\n  <<: (( merge ))\n  b: (( merge || 1 ))\n"]).unwrap();
    assert_eq!(merged, "a:\n  b: 1\n");
}

#[test]
fn texts_that_are_no_documents() {
    let deep = "[".repeat(1_000_000);
    assert!(matches!(run(&deep, &[]), Err(Error::Read { .. })));
    let expression = format!("x: (( {} ))\n", "(".repeat(100_000));
    assert!(matches!(run(&expression, &[]), Err(Error::Unresolved(_))));
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..20 {
        let before = format!("*a{}", level - 1);
        writeln!(bomb, "a{level}: &a{level} [{}]", vec![before; 10].join(", ")).unwrap();
    }
    assert!(matches!(run(&bomb, &[]), Err(Error::Read { .. })));
    for text in ["a: \0\n", "{ [a]: b }\n", "a: *nobody\n", "a: b: c\n"] {
        assert!(matches!(run(text, &[]), Err(Error::Read { .. })), "{text:?}");
    }
    assert!(matches!(run("a: 1\n", &["a: 1\n---\nb: 2\n"]), Err(Error::SeveralDocuments(_))));
    assert_eq!(run("", &[]).unwrap(), "null\n");
    assert_eq!(run("1: a\ntrue: b\n", &[]).unwrap(), "\"1\": a\n\"true\": b\n");
}

#[test]
fn deep_documents_need_no_stack() {
    let deep = |levels: usize, leaf: &str| {
        format!("a: 1\n{}x: {leaf}{}\n", "x: { ".repeat(levels), " }".repeat(levels))
    };
    let begun = deep(200, "(( a + 1 ))");
    assert!(run(&begun, &[]).unwrap().contains("x: 2\n"));
    let both = deep(150, "(( a || 3 ))");
    let grown = format!(
        "{both}{}",
        both.replace("a: 1\n", "").replacen("x:", "y:", 1).replace("(( a || 3 ))", "(( .x ))")
    );
    assert_eq!(run(&grown, &[]).unwrap().matches("x: 1\n").count(), 2);
    assert!(matches!(run(&deep(600, "1"), &[]), Err(Error::Read { .. })));
}

#[test]
fn long_chains_need_no_stack() {
    let mut chain = String::new();
    for key in 0..5_000 {
        writeln!(chain, "k{key:05}: (( k{:05} + 1 ))", key + 1).unwrap();
    }
    chain.push_str("k05000: 0\n");
    let begin = Instant::now();
    assert!(run(&chain, &[]).unwrap().starts_with("k00000: 5000\n"));
    assert!(begin.elapsed() < Duration::from_secs(20));
    let long = format!("x: (( {} ))\n", vec!["1"; 20_000].join(" + "));
    assert!(run(&long, &[]).is_ok() || matches!(run(&long, &[]), Err(Error::Unresolved(_))));
}
