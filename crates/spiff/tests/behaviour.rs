//! Tests of details of spiff++ that the chapter leaves open: which operand decides, which
//! annotations a result keeps, how failures are worded.

#![allow(clippy::unwrap_used)]

mod common;

use common::value;
use groundwork_spiff::{Document, Engine, Value};

/// The document as YAML, or the report.
fn run(template: &str, stubs: &[&str]) -> String {
    common::run(&Engine::new(), template, stubs)
}

/// Checks the value of `x` beside `fields`.
#[track_caller]
fn gives(expression: &str, fields: &str, wanted: &str) {
    let output = run(&format!("{fields}\nx: (( {expression} ))\n"), &[]);
    assert!(!output.starts_with("unresolved nodes"), "{expression}: {output}");
    let document = value(&output);
    assert_eq!(document.get("x").cloned().unwrap_or_default(), value(wanted), "{expression}");
}

/// Checks the end of the line of `x` in the report, behind its path: `*'a' not found` for example.
#[track_caller]
fn fails(expression: &str, fields: &str, wanted: &str) {
    let report = run(&format!("{fields}\nx: (( {expression} ))\n"), &[]);
    assert_eq!(behind("\tin test\tx\t()", &report), wanted, "{expression}");
}

/// Returns the end of a line of a report, behind `place`.
#[track_caller]
fn behind<'r>(place: &str, report: &'r str) -> &'r str {
    let found = report.lines().find_map(|line| line.split_once(place));
    let (_, rest) = found.unwrap_or_else(|| unreachable!("{place}: {report}"));
    let rest = rest.trim_start_matches('\t');
    // A failure without a message may be shown with its class alone.
    if rest == "*" { "" } else { rest }
}

const CYCLE: &str = "p: (( p ))\nq: (( q ))\nl: [ 1, 2, 3 ]\nm: { a: { b: 1 } }";

/// Deviation D34: spiff++ decides in the first pass, for the alternative.
#[test]
fn an_instance_of_a_template_waits_for_what_it_needs() {
    const FIELDS: &str =
        "t:\n  <<: (( &template ))\n  v: (( late + 1 ))\nlate: (( later ))\nlater: (( last ))\nlast: 5";
    gives("*t || \"x\"", FIELDS, "{ v: 6 }");
    gives("catch[*t|v,e|->[ v, e ]]", FIELDS, "[ { v: 6 }, ~ ]");
    gives("*t || \"x\"", "t:\n  <<: (( &template ))\n  v: (( gone + 1 ))", "x");
}

#[test]
fn later_operands_are_evaluated_beside_one_that_is_pending() {
    for (expression, wanted) in [
        ("p + nope", "*'nope' not found"),
        ("[ p, nope ]", "*'nope' not found"),
        ("join(p, nope)", "*'nope' not found"),
        ("p + q", "@'q' unresolved"),
        ("[ p, q ]", "@'q' unresolved"),
        ("\"x\" % p", "*integer operand required"),
        ("p == nope", "*'nope' not found"),
        ("sum[p|0|nope]", "*'nope' not found"),
        ("map[p|nope]", "*'p' unresolved"),
        ("map[l|nope]", ""),
        ("p -and nope", "@'p' unresolved"),
        ("[p..nope]", "*'nope' not found"),
        ("[p..1]", ""),
        ("[1..]", "*range expression requires start and end index"),
        ("[ p... ]", "*argument expansion required list argument"),
        ("[ ~... ]", "*argument expansion required list argument"),
        ("nofunc(nope)", "*'nope' not found"),
        ("nofunc(p)", "@'p' unresolved"),
        ("nofunc(a=1)", "*no named arguments for builtin function (nofunc)"),
        ("{ \"a\" = p, \"b\" = nope }", "@'p' unresolved"),
        ("{ 1 = 2 }", "*assignment target must evaluate to string"),
    ] {
        fails(expression, CYCLE, wanted);
    }
}

#[test]
fn what_is_pending_and_what_fails_for_this_pass() {
    for (expression, wanted) in [
        ("lambda p", "*'p' unresolved"),
        ("lambda \"a\"", "*'a' is no lambda expression"),
        ("lambda 5", "*lambda reference must resolve to lambda value or string"),
        ("p.[*].a", "*'p' unresolved"),
        ("p.[0..1]", "*'p' unresolved"),
        ("m.[p]", ""),
        ("m.[nope]", ""),
        ("l.[nope..]", ""),
        ("l.[\"x\"..]", ""),
        ("[ m ].[*].nope", ""),
        ("m.[0 + 0]", "*index requires array expression"),
        ("m.[[]]", "*at least one index or field name required for reference qualifier"),
        ("m.[true]", "*index or field name required for reference qualifier"),
        (".p(nope)", "*'nope' not found"),
        (".p(1)", ""),
        ("0 -and nope", "*'nope' not found"),
        ("1 -or nope", "*'nope' not found"),
        ("nope || p", "@'p' unresolved"),
    ] {
        fails(expression, CYCLE, wanted);
    }
    let late = "p: (( r ))\nr: (( s ))\ns: 5\nl: [ 1, 2, 3 ]\nm: { a: { b: 1 } }";
    gives("(lambda p) || 1", late, "1");
    gives("p.[*].a || 1", late, "1");
    gives("[ p... ] || 1", late, "1");
    gives("((p + 1) // 2) || 3", late, "6");
    gives("(p + 1 // 2) || 3", late, "3");
    gives("(p // 2) || 3", late, "3");
    gives("p // 2", late, "5");
    gives("p || 2", late, "5");
    gives("l.[..-2]", late, "[ 1, 2 ]");
    gives("m.[[\"a\",\"b\"]]", late, "1");
    gives("map[e|i,x|->i]", "e: [ (( ~~ || x )) ]", "[ 0 ]");
}

#[test]
fn functions_that_look_at_expressions() {
    for (expression, wanted) in [
        ("defined()", "true"),
        ("valid()", "true"),
        ("defined(nope, p)", "false"),
        ("valid(~, nope)", "false"),
        ("defined(~)", "true"),
        ("valid(~)", "false"),
        ("type(~~)", "undef"),
        ("catch(~~)", "{ error: \"\", valid: true, value: ~ }"),
        ("optional(~~, 1) || 2", "2"),
    ] {
        gives(expression, "p: 1", wanted);
    }
    for (expression, wanted) in [
        ("defined(p, nope)", ""),
        ("valid(~, p)", ""),
        ("require(~)", "*required expression \"nil\" undefined"),
        ("require(nope \"a\")", "*required expression \"nope \\\"a\\\"\" undefined"),
        ("require()", "*one argument expected for 'require'"),
        ("require(p)", ""),
        ("optional(1)", "*condition and template required for optional()"),
        ("catch()", "*catch requires a single argument"),
        ("catch[1|a,b,c|->2]", "*catch function takes a maximum of 2 arguments"),
        ("catch[nope|5]", "*catch requires a lambda value"),
        ("type()", "*exactly one argument required for function 'type'"),
        ("eval()", "*one argument required for 'eval'"),
        ("eval(1)", "*string argument required for 'eval'"),
        ("stub(5)", "*stub() requires a string or reference argument"),
        ("stub([1])", "*stub() requires a string entries in list"),
        ("stub(\"a.b[0].c\")", "*'a.b.[0].c' not found in any stub"),
        ("stub(.a)", "*'.a' not found in any stub"),
        ("stub(a,b)", "*a maximum of one argument expected for 'stub'"),
        ("merge()", "*at least one argument required for merge function"),
        ("merge([])", "*merge: no map found for merge"),
        ("merge([1])", "*merge: entry of list argument: 1: no map or map template, but int"),
        ("merge({}, ~)", "*merge: argument 2: no map or map template, but nil"),
        ("parse()", "*parse takes one or two arguments"),
        ("parse(1)", "*first argument for parse must be a string"),
        ("parse(\"a\", 1)", "*second argument for parse must be a string"),
        ("parse(\"a\", \"b\")", "*invalid file type [x] b"),
        ("parse(\"(( nope ))\", \"yaml\")", "*resolution of yaml file 'x' failed"),
    ] {
        fails(expression, CYCLE, wanted);
    }
    let report = run("m: (( merge({ \"a\" = \"(( b ))\" }) ))\n", &[]);
    assert!(report.contains("m\t()\t*merging failed: unresolved nodes:\n\t(( b ))\tin dynaml"), "{report}");
    let parsed = run("a: '(( parse(\"a: 1\\nb: (( .a ))\", \".yaml\") ))'\nb: 2\n", &[]);
    assert_eq!(value(&parsed), value("a: { a: 1, b: 1 }\nb: 2"));
    let parsed = run("a: '(( parse(\"a: 1\\nb: (( .b ))\", \"yaml\") ))'\nb: 2\n", &[]);
    assert_eq!(value(&parsed), value("a: { a: 1, b: 2 }\nb: 2"));
    let parsed = run("a: '(( parse(\"--- 1\\n--- (( .[0] ))\\n---\\n\", \".multiyaml\") ))'\n", &[]);
    assert_eq!(value(&parsed), value("a: [ 1, 1 ]"));
    let parsed = run("a: '(( parse(\"b: (( c ))\", \"template\") ))'\n", &[]);
    assert_eq!(value(&parsed), value("a: { <<<: (( &template )), b: (( c )) }"));
}

#[test]
fn lambdas_bind_arguments_and_tell_what_they_got() {
    let functions = "f: (( |a,b=1|->[ a, b ] ))\ng: (( |a,b...|->[ a, b ] ))\nh: (( |a,b|->a + b + \"c\" ))\n\
                     s: (( ( $z = \"q\" ) |a|->a + z ))";
    for (expression, wanted) in [
        (".g*(1,2,3)()", "[ 1, [ 2, 3 ] ]"),
        (".g*(1)(2,3)", "[ 1, [ 2, 3 ] ]"),
        (".g*(b=[1])(2)", "[ 2, [ 1 ] ]"),
        (".f(2=5,1=6)", "[ 6, 5 ]"),
        ("\"\" s", "'{z: \"q\"}lambda|a|->a + z'"),
        ("\"\" join*(\"a\", [ 1 ])", "'lambda|__args...|->join(\"a\", [1], __args...)'"),
    ] {
        gives(expression, functions, wanted);
    }
    let failed = "*evaluation of lambda expression failed: ";
    for (expression, wanted) in [
        (".f(0=1)", "*invalid argument index 0"),
        (".f(7=1)", "*argument index 7 too large for 2 parameters"),
        (".f(a=1,1=2)", "*named argument a given by name and index"),
        (".f(a=1,5)", "*both, positional (1) and named argument found for lambda parameter a"),
        (".f(q=1)", "*no lambda parameter found for named argument q"),
        (".f(b=1)", "*missing named argument for a"),
        (".f()", "*expected at least 1 arguments (1 optional), but found 0"),
        (".f(1,2,3)", "*found 3 argument(s), but expects 2"),
        (".g(b=1,a=2)", "*named varargs argument 2 (b) must be a list"),
        (".h(\"u\",~)", &format!("{failed}lambda|a,b|->a + b + \"c\": {{a: \"u\", b: <nil>}}")),
        (".h(1)([ 1.5 ])", &format!("{failed}{{a: 1}}lambda|b|->a + b + \"c\": {{a: 1, b: [1.5]}}")),
        (".s(1)", &format!("{failed}{{z: \"q\"}}lambda|a|->a + z: {{a: 1, z: \"q\"}}")),
    ] {
        fails(expression, functions, wanted);
    }
}

#[test]
fn results_keep_what_came_with_their_parts() {
    // A result of a merged value is final, so the stub does not replace it.
    assert_eq!(run("x: (( join(\",\", merge) ))\n", &["x: [ a, b ]\n"]), "x: a,b\n");
    assert_eq!(run("x: (( .f(merge) ))\nf: (( &temporary ( |a|->a \"!\" ) ))\n", &["x: a\n"]), "x: a!\n");
    // A value that was to be merged from another path is final, too.
    assert_eq!(run("x: (( merge foo.bar || \"d\" ))\n", &["x: 5\n"]), "x: d\n");
    assert_eq!(run("x: (( merge foo.bar // \"d\" ))\n", &["x: 5\n"]), "x: d\n");
    let keyed = run("x: (( merge on id || [ { \"id\" = \"a\", \"v\" = 1 } ] ))\nz: (( x.a.v ))\n", &["{}"]);
    assert_eq!(value(&keyed), value("x: [ { id: a, v: 1 } ]\nz: 1"));
    // The value of a step into a merged value is not.
    assert_eq!(run("x: (( (merge).a ))\n", &["x: { a: 1 }\n"]), "x:\n  a: 1\n");
    // A result of an undefined value is undefined, except for a map.
    for expression in ["[ 1, ~~ ]", "!~~", "~~ ? 1 :2", "format(\"a\", ~~)", "~~ == ~"] {
        assert_eq!(run(&format!("a: 1\nx: (( {expression} ))\n"), &[]), "a: 1\n", "{expression}");
    }
    assert_eq!(run("x: (( { \"a\" = ~~ } ))\n", &[]), "x:\n  a: null\n");
    assert_eq!(run("x: (( ~~ || 1 ))\n", &[]), "x: 1\n");
    // Nodes that an expression makes have this source name.
    assert!(run("x: (( [ \"(( nope ))\" ] ))\n", &[]).contains("(( nope ))\tin dynaml@test\tx.[0]\t()"));
}

#[test]
fn tags_that_lead_nowhere() {
    let fields = "t:\n  <<: (( &tag:foo ))\n  a: 1";
    for (expression, wanted) in [
        ("bar::a", "*tag 'bar' not found"),
        ("foo::b", ""),
        ("doc.7::a", "*tag 'doc.7' not found"),
        ("doc.0::.", "*no reference to actual document possible"),
        ("doc.0::t.b", "*'t.b' not found"),
    ] {
        fails(expression, fields, wanted);
    }
    gives("doc.0::t.a", fields, "1");
    gives("foo::a", fields, "1");
}

#[test]
fn expressions_are_printed_as_the_original_prints_them() {
    for (expression, wanted) in [
        ("(nope).a.b", "(( nope )).a.b"),
        ("keys(nope).[0].a", "(keys(nope)).[0].a"),
        ("nope.[q].a", "(nope.[q]).a"),
        ("nope.[*].a.[0]", "nope.[*].a.[0]"),
        ("nope*(a=1, [ 1 ]...)(2)", "nope*(a=1, [1]...)(2)"),
        ("!nope ? 1 :~", "!(nope) ? 1 : nil"),
        ("map[nope|x|->x]", "map[nope|x|->x]"),
        ("{ $a = nope, \"b\" = 1 }", "{ \"a\" = nope, \"b\" = 1 }"),
    ] {
        let report = run(&format!("x: (( {expression} ))\n"), &[]);
        let printed = report.lines().nth(1).unwrap().trim_start().split_once("\tin test").unwrap().0;
        assert_eq!(printed, format!("(( {wanted} ))"));
    }
}

#[test]
fn addresses_of_the_nearest_network() {
    let template = |calls: &str, instances: &str| {
        format!(
            "networks:\n- name: cf1\n  subnets:\n  - static: [ 10.0.0.5 - 10.0.0.7 ]\n  - static: [ 10.1.0.1 ]\n\
             jobs:\n- name: web\n  instances: {instances}\n  networks:\n  - name: cf1\n    static_ips: (( {calls} ))\n"
        )
    };
    for (calls, instances, wanted) in [
        ("static_ips(0, 2, 3)", "3", "[ 10.0.0.5, 10.0.0.7, 10.1.0.1 ]"),
        ("static_ips([ 1, [ 3 ] ])", "(( 1 + 1 ))", "[ 10.0.0.6, 10.1.0.1 ]"),
        ("static_ips(0, 1, 2)", "1", "[ 10.0.0.5 ]"),
    ] {
        let output = value(&run(&template(calls, instances), &[]));
        assert_eq!(output["jobs"][0]["networks"][0]["static_ips"], value(wanted), "{calls}");
    }
    for (calls, wanted) in [
        ("static_ips(0)", "*too less static IPs for 2 instances"),
        ("static_ips(\"a\")", "*arguments to static_ips must be integer or list of integers"),
    ] {
        let report = run(&template(calls, "2"), &[]);
        assert!(report.lines().any(|line| line.ends_with(wanted)), "{report}");
    }
    for calls in ["static_ips(0, 4)", "static_ips()"] {
        assert!(run(&template(calls, "2"), &[]).starts_with("unresolved nodes"), "{calls}");
    }
}

#[test]
fn functions_of_numbers_features_and_tags() {
    gives(
        "[ sin(0), cos(0), sinh(0), cosh(0), asin(0), acos(1), asinh(0), acosh(1), exp(0), log(1), log10(100), sqrt(9) ]",
        "",
        "[0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 2.0, 3.0]",
    );
    gives(
        "[ roundtoeven(2.5), roundtoeven(3.5), round(2.5), floor(-1.5), ceil(-1.5), abs(-2.5) ]",
        "",
        "[2, 4, 3, -2, -1, 2.5]",
    );
    for name in ["log", "log10", "sqrt", "acosh"] {
        fails(&format!("{name}(-1)"), "", &format!("*{name}: NaN"));
    }
    gives("[ features(), features(\"control\") ]", "", "[[], false]");
    gives("tagdef(\"t\", 5)", "y: (( t::. + 1 ))", "5");
    gives("[ tagdef(\"*t\", 5), t::. ]", "", "[5, 5]");
    for (arguments, wanted) in [
        ("\"t\"", "*two or three arguments expected for tagdef"),
        ("5, 1", "*name argument for tagdef must be a string"),
        ("\"t\", 1, 2", "*type argument for tagdef must be a string (local or global)"),
        ("\"t\", 1, \"x\"", "*invalid scope argument \"x\" for tagdef (must be local or global)"),
        (
            "\"*t\", 1, \"local\"",
            "*invalid tag name \"*t\" for tagdef: invalid character \"*\" in tag component",
        ),
        ("\"a..b\", 1", "*invalid tag name \"a..b\" for tagdef: empty tag component not allowed"),
        ("\"a.1\", 1", "*invalid tag name \"a.1\" for tagdef: tag component must start with alnum rune"),
    ] {
        fails(&format!("tagdef({arguments})"), "", wanted);
    }
    gives("eval(\"a \" \"+ 1\")", "a: 2", "3");
}

#[test]
fn sizes_of_resource_pools() {
    let template = |jobs: &str| format!("resource_pools:\n- name: small\n  size: (( auto ))\njobs:{jobs}\n");
    let jobs = " [ { resource_pool: small, instances: 2 }, { resource_pool: small, instances: (( 1 + 2 )) }, \
                { resource_pool: big, instances: 5 }, { instances: 7 }, 8 ]";
    let output = value(&run(&template(jobs), &[]));
    assert_eq!(output["resource_pools"][0]["size"], 5);
    for (jobs, wanted) in [
        (" 5", "*jobs must be a list"),
        (" [ { resource_pool: small } ]", ""),
        (" [ { resource_pool: small, instances: many } ]", ""),
        (" (( jobs ))", "@'.jobs' unresolved"),
    ] {
        let report = run(&template(jobs), &[]);
        let place = "(( auto ))\tin test\tresource_pools.[0].size\t(resource_pools.name:small.size)";
        assert_eq!(behind(place, &report), wanted, "{jobs}");
    }
    assert!(run("resource_pools: { small: { size: (( auto )) } }\n", &[]).contains("*no jobs found"));
    for template in ["size: (( auto ))\n", "resource_pools: { small: { count: (( auto )) } }\njobs: []\n"] {
        assert!(
            run(template, &[]).contains("*auto only allowed for size entry in resource pools"),
            "{template}"
        );
    }
    assert_eq!(
        run("resource_pools: { small: { size: (( auto )) } }\njobs: []\n", &[]),
        "jobs: []\nresource_pools:\n  small:\n    size: 0\n"
    );
}

#[test]
fn a_step_into_something_imported_leaves_the_rest_unevaluated() {
    let text = "text: |\n  first: { age: ((! ages.alice )) }\n  second: { age: ((! ages.bob )) }\n";
    let text = text.replace("((!", "((");
    let fields = format!("ages: {{ alice: 25 }}\n{text}");
    gives("parse(text, \"import\").first", &fields, "{ age: 25 }");
    gives("parse(text).first.age", &fields, "25");
    gives("(parse(text)).first", &fields, "{ age: 25 }");
    gives("parse(text, \"importmulti\").[0].first", &fields, "{ age: 25 }");
    fails("parse(text).[\"first\"]", &fields, "");
}

#[test]
fn bindings_without_a_name_are_none() {
    let engine = Engine::new();
    let template =
        Document::read("a: 5\nb: (( ___.a ))\nc: (( __ctx.OUTER || \"no\" ))\n", "test", engine.limits());
    let output = engine.cascade(&template.unwrap(), &[], Some(&Value::map::<&str>([]))).unwrap();
    assert_eq!(output.to_yaml(), "a: 5\nb: 5\nc: \"no\"\n");
}

#[test]
fn entries_are_looked_at_again_under_the_key_that_they_got() {
    // Inside the entry, the key expression finds more than the list does when it computes the key.
    let template =
        "a:\n- f: (( \"0\" \"0\" ))\n  name: (( catch[f|v,e|->e ? \"failed\" :v] ))\n  x: (( merge ))\n";
    let output = value(&run(template, &["a:\n- name: \"00\"\n  x: 1\n"]));
    assert_eq!(output["a"][0]["name"], "00");
    assert_eq!(output["a"][0]["x"], 1);
}

#[test]
fn no_stub_has_anything_at_a_path_from_the_root() {
    let stub = "x: { a: 2 }\nm: { a: 3 }\n";
    let report = run("m: (( merge .x ))\n", &["x: { a: 2 }\n"]);
    assert_eq!(report, "unresolved nodes:\n\t(( merge .x ))\tin test\tm\t(.x)\t*'.x' not found in any stub");
    assert_eq!(run("m:\n  <<: (( merge .x || {} ))\n  a: 1\n", &[stub]), "m:\n  a: 1\n");
    assert_eq!(run("m: { <<: (( merge replace none )), a: 1 }\n", &[stub]), "m:\n  a: 1\n");
}

#[test]
fn lambdas_show_what_their_defaults_came_to() {
    let fields = "v: 5\nf: (( |a,b=v + 1,c=[ v ]|->a ))";
    gives("\"\" f", fields, "'lambda|a,b=6,c=[5]|->a'");
    gives("f", fields, "'(( lambda|a,b=6,c=[5]|->a ))'");
}

#[test]
fn dynamic_nodes_are_made_again_where_they_arrive() {
    let stub = "x: (( &dynamic &template ( w + 1 ) ))\nw: (( &local ( 2 ) ))\n";
    let late = "w: (( v ))\nv: (( u ))\nu: 6\n";
    for field in ["x: 1", "x: text", "x: (( 1 ))"] {
        let output = value(&run(&format!("{field}\ny: (( x ))\n{late}"), &[stub]));
        assert_eq!((&output["x"], &output["y"]), (&7.into(), &7.into()), "{field}");
    }
    let injected = stub.replace("&dynamic", "&inject &dynamic");
    assert_eq!(value(&run(&format!("y: (( x ))\n{late}"), &[&injected]))["y"], 7);
    let map = "x: { <<: (( &dynamic &template )), a: (( w )) }\nw: (( &local ( 2 ) ))\n";
    assert_eq!(value(&run(&format!("x: 1\n{late}"), &[map]))["x"], value("{ a: 6 }"));
    // Injected list entries are taken as the stub has them, already instantiated.
    let list = "x: [ (( &inject &dynamic &template ( w ) )) ]\nw: (( &local ( 2 ) ))\n";
    assert_eq!(value(&run(&format!("x: [ 1 ]\n{late}"), &[list]))["x"], value("[ 2, 1 ]"));
    assert!(run("x: 1\n", &[stub]).contains("\tin test\tx\t()\t*resolution of template 'x' failed"));
}

#[test]
fn merged_lists_have_the_key_that_the_merge_names() {
    let stub = "l:\n- key:id: a\n  v: 9\n- id: c\n  v: 8\n";
    for (merge, wanted) in [
        ("merge", "[ { id: a, v: 9 }, { id: c, v: 8 }, { id: c, v: 1 } ]"),
        ("merge on id", "[ { id: a, v: 9 }, { id: c, v: 8 } ]"),
    ] {
        let output = value(&run(&format!("l:\n- <<: (( {merge} ))\n- id: c\n  v: 1\n"), &[stub]));
        assert_eq!(output["l"], value(wanted), "{merge}");
    }
    // A list that replaces another value keeps its own key field.
    assert_eq!(value(&run("l: ~\nx: (( l.a.v ))\n", &[stub]))["x"], 9);
}
