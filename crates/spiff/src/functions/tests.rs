//! Tests of function calls as templates write them. Lambdas are called by name, see [`Lambdas`].

mod granted;
mod versions;

use std::sync::Arc;
use std::time::SystemTime;

use super::*;
use crate::issue::Issue;
use crate::limits::Limits;
use crate::syntax::ast::{Expr, Item, Link};
use crate::syntax::parse;
use crate::value::{Lambda, Value};
use crate::yaml::to_json;

/// Replaces the evaluator: the body of a lambda is one of a few operations on its parameters.
#[derive(Default)]
struct Lambdas {
    limits: Limits,
}

impl Caller for Lambdas {
    fn call(&mut self, lambda: &Arc<Lambda>, arguments: &[Value]) -> Result<Option<Value>, Issue> {
        let first = &arguments[0];
        Ok(Some(match lambda.expression.body.to_string().as_str() {
            "a > b" => Value::Bool(first.as_str() > arguments[1].as_str()),
            "a - b" => crate::operators::arithmetic::subtract(first, &arguments[1])?,
            "upper(m.[0])" => {
                let Value::List(groups) = first else { return Err("no list".into()) };
                Value::string(groups.get(0).and_then(|node| node.value.as_str()).unwrap_or("").to_uppercase())
            }
            "[v > 5, \"fine\", \"too small\"]" => {
                let fine = Value::Bool(first.as_int() > Some(5));
                Value::list([fine, Value::string("fine"), Value::string("too small")])
            }
            "pending" => return Ok(None),
            "nope" => return Err("'nope' not found".into()),
            other => return Err(Issue::new(format!("no such lambda: {other}"))),
        }))
    }

    fn spend(&mut self, _: usize) -> Result<(), Issue> {
        Ok(())
    }

    fn pattern(&mut self, _: &str, _: usize) -> Result<(), Issue> {
        Ok(())
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn now(&self) -> Option<SystemTime> {
        None
    }
}

/// Returns the value of a literal expression, and of calls in it.
fn value(expression: &Expr, caller: &mut Lambdas) -> Result<Option<Value>, Issue> {
    let mut values = |items: &[Item]| -> Result<Option<Vec<Value>>, Issue> {
        items.iter().map(|item| value(&item.expression, caller)).collect()
    };
    Ok(Some(match expression {
        Expr::Nil => Value::Nil,
        Expr::Bool(flag) => Value::Bool(*flag),
        Expr::Int(number) => Value::Int(*number),
        Expr::Float(number) => Value::Float(*number),
        Expr::String(text) => Value::String(Arc::clone(text)),
        Expr::List(items) => {
            let Some(values) = values(items)? else { return Ok(None) };
            Value::list(values)
        }
        Expr::Map(fields) => {
            let mut entries = Vec::new();
            for (key, field) in fields {
                let Some(field) = value(field, caller)? else { return Ok(None) };
                let Expr::String(key) = key else { unreachable!() };
                entries.push((Arc::clone(key), field));
            }
            Value::map(entries)
        }
        Expr::Lambda(lambda) => {
            let defaults = vec![None; lambda.parameters.len()];
            let (expression, statics) = (Arc::clone(lambda), Vec::new());
            Value::Lambda(Arc::new(Lambda { expression, defaults, statics, scope: None }))
        }
        Expr::Chain(name, links) => {
            let [Link::Call { arguments, .. }] = links.as_slice() else { unreachable!("{expression}") };
            let Some(arguments) = values(&arguments.positional)? else { return Ok(None) };
            let name = name.to_string();
            if name == "data" {
                return Ok(arguments[0].as_int().map(Value::Data));
            }
            match find(&name) {
                Some(Function::Plain(function) | Function::Head(function)) => function(&arguments)?,
                Some(Function::Calling(function)) => return function(caller, &arguments),
                None => return Err(Issue::new(format!("unknown function '{name}'"))),
            }
        }
        other => unreachable!("{other}"),
    }))
}

fn evaluate(text: &str) -> String {
    let expression = parse(text).unwrap_or_else(|error| unreachable!("{text}: {error}"));
    match value(&expression, &mut Lambdas::default()) {
        Ok(None) => "pending".to_owned(),
        Ok(Some(value)) => to_json(&value).unwrap().replace("\\u003c", "<").replace("\\u003e", ">"),
        Err(issue) => {
            let causes: String = issue.nested.iter().map(|cause| format!(" <- {cause}")).collect();
            format!("!{issue}{causes}")
        }
    }
}

fn table(cases: &[(&str, &str)]) {
    for (text, expected) in cases {
        assert_eq!(evaluate(text), *expected, "{text}");
    }
}

#[test]
fn strings() {
    table(&[
        (r#"join(",", [ "a", 1 ], true, ~, "z")"#, r#""a,1,true,z""#),
        (r#"join(1,"a","b")"#, r#""a1b""#),
        (r#"join(true,"a","b")"#, r#""atrueb""#),
        (r#"join(",", data(5))"#, r#""5""#),
        (r#"join(",")"#, r#""""#),
        (r#"join(~,"a","b")"#, "!first argument for join must be a string"),
        (r#"join([],"a")"#, "!first argument for join must be a string"),
        (r#"join(1.5,"a")"#, "!argument 0 to join must be simple value or list"),
        (r#"join(",", {})"#, "!argument 1 to join must be simple value or list"),
        (r#"join(",", "a", [ ~ ])"#, "!elements of list(arg 2) to join must be simple values"),
        ("join()", "!"),
        (r#"split(",", "a,b,c", 2)"#, r#"["a","b,c"]"#),
        (r#"split(",", "a,b,c")"#, r#"["a","b","c"]"#),
        (r#"split(",", "a,b,c", -1)"#, r#"["a","b","c"]"#),
        (r#"split(",", "a,b,c", 0)"#, "[]"),
        (r#"split("", "aéb")"#, r#"["a","é","b"]"#),
        (r#"split("", "aéb", 2)"#, r#"["a","éb"]"#),
        (r#"split(2, "abcde")"#, r#"["ab","cd","e"]"#),
        (r#"split(2, "abcde", 2)"#, r#"["ab","cde"]"#),
        (r#"split(0, "abc")"#, "!max line length argument must be positive"),
        (r#"split("a")"#, "!split takes 2 or 3 arguments"),
        (r#"split("a", 1)"#, "!second argument for split must be a string"),
        (r#"[ trim("  a "), trim("xax", "x"), trim([ " a" ]) ]"#, r#"["a","a",["a"]]"#),
        ("trim(1)", "!trim accepts only a string or list"),
        (r#"[ lower("ÄB"), upper("äb") ]"#, r#"["äb","ÄB"]"#),
        (r#"[ substr("hello", 1, 3), substr("hello", -2), substr("hello", 1, -1) ]"#, r#"["el","lo","ell"]"#),
        (r#"substr("hello", 1, 9)"#, "!substr effective end index (9) exceeds string length (5)"),
        (r#"substr("hello", -9)"#, "!negative substr effective start index (-4)"),
        (r#"substr("hello", 3, 1)"#, "!substr start index (3) aftsre end index (1) "),
        (r#"substr("é", 1)"#, "!substr range cuts a character"),
        (r#"[ length("é"), length([ 1 ]), length({ $a = 1 }) ]"#, "[2,1,1]"),
        ("length(5)", "!invalid type for function length"),
        (
            r#"[ replace("aaa", "a", "b", 2), replace("aaa", "a", "b"), replace("ab", "", "-") ]"#,
            r#"["bba","bbb","-a-b-"]"#,
        ),
        (r#"replace("aba", "a", |m|->upper(m[0]))"#, r#""AbA""#),
        (r#"replace("aba", "a", |m|->pending)"#, "pending"),
        (r#"replace("aba", "a", |m|->nope)"#, "!replace: replace: 'nope' not found"),
        (r#"replace("a", "b")"#, "!replace requires at least 3 arguments"),
    ]);
}

#[test]
fn regular_expressions() {
    table(&[
        (r#"match("(f.)(o)", "xfoo")"#, r#"["foo","fo","o"]"#),
        (r#"match("zz", "a")"#, "[]"),
        (r#"match("a.", "abac", true)"#, r#"[["ab"],["ac"]]"#),
        (r#"match("a.", "abac", 1)"#, r#"[["ab"]]"#),
        (r#"[ match("1", 212), match("a", ~), match("t", true) ]"#, r#"[["1"],false,["t"]]"#),
        (r#"match("a.", "abac", false)"#, r#"[["ab"]]"#),
        (r#"match("zz", "abac", false)"#, "[]"),
        (r#"match("a.", "abac", 0)"#, "!repetition count may not be zero"),
        (r#"match("a", "a", "1")"#, "!simple value for argument two of function match required"),
        (r#"match("a", [])"#, "!simple value for argument two of function match required"),
        (r#"match("^\\d$", "٣")"#, "[]"),
        (r#"match("^\\w\\s$", "é ")"#, "[]"),
        (r#"replace_match("a1b", "(?P<n>\\d)", "<${n}>")"#, r#""a<1>b""#),
        (r#"check("٣", [ "match", "^\\d$" ])"#, "false"),
        (r#"match("(", "a")"#, "!match: error parsing regexp: missing closing ): `(`"),
        (r#"split_match("[,;]", "a,b;c")"#, r#"["a","b","c"]"#),
        (r#"split_match("[,;]", "a,b;c", 2)"#, r#"["a","b;c"]"#),
        (r#"split_match("", "abc")"#, r#"["a","b","c"]"#),
        (r#"split_match(",", "")"#, r#"[""]"#),
        (r#"replace_match("foo bar", "(o+)", "<$1>")"#, r#""f<oo> bar""#),
        (r#"replace_match("aaa", "a", "b", 2)"#, r#""bba""#),
        (r#"replace_match("aab", "^a", "x")"#, r#""xxb""#),
        (r#"replace_match("baac", "a*", "x")"#, r#""xbxcx""#),
        (r#"replace_match("aé", "", "-")"#, r#""-a-é-""#),
        (r#"replace_match("aaa", "a", "b", 0)"#, r#""aaa""#),
        (r#"replace_match("a", "a", 5)"#, "!replace_match: replace substitution must be string or lambda"),
        (r#"replace_match("foo", "o(.)", |m|->upper(m[0]))"#, r#""fOO""#),
    ]);
}

#[test]
fn formats_and_conversions() {
    table(&[
        (r#"format("%s-%d-%v-%5.2f-%05d", "a", 3, true, 1.5, 42)"#, r#""a-3-true- 1.50-00042""#),
        (r#"format("%s|%s", [ 1 ], { $a = ~ })"#, r#""- 1\n|a: null\n""#),
        (r#"format("%s", |x|->x)"#, r#""lambda|x|->x""#),
        (r#"format("%d", data(5))"#, r#""5""#),
        (r#"format("%[2]d %[1]d", 1, 2)"#, r#""2 1""#),
        (r#"format("%[3]*.[2]*[1]f|%d", 12.0, 2, 6)"#, r#"" 12.00|2""#),
        (r#"format("%[3]d %[x]d", 1, 2)"#, r#""%!d(BADINDEX) %!d(BADINDEX)""#),
        (r#"format("%+v|%x|%9999999999s", 5, 1.5, 1)"#, r#""5|0x1.8p+00|%!(NOVERB)%!(EXTRA int64=1)""#),
        ("string(4503599627370496.5)", r#""4.503599627370496e+15""#),
        ("reverse(5)", "!argument for reverse must be a list"),
        ("format(5)", "!format: format must be string"),
        ("format()", "!alt least one argument required for 'format'"),
        (r#"error("boom %d", 3)"#, "!boom 3"),
        (
            r#"[ string(255,16), string(-5), string(1.5), string(true), string("x"), string(1e21) ]"#,
            r#"["ff","-5","1.5","true","x","1e+21"]"#,
        ),
        (r#"string(-9223372036854775808, 2)"#, &format!("\"-1{}\"", "0".repeat(63))),
        (r#"string("x", 2)"#, "!string requires one argument"),
        ("string(~)", "!cannot convert <nil> to string"),
        ("string([])", "!cannot convert []yaml.Node to string"),
        (r#"[ integer("12"), integer(3.9), integer(-3.9), integer(true) ]"#, "[12,3,-3,1]"),
        (r#"integer("x")"#, r#"!"x" is no integer value"#),
        (r#"[ float("1.5"), float(2), float(false), float("0x1p-2") ]"#, "[1.5,2,0,0.25]"),
        (r#"float("1e400")"#, r#"!"1e400" is no float value"#),
        (r#"[ bool("true"), bool(""), bool(~), bool(0), bool(2.5) ]"#, "[true,false,false,false,true]"),
        (r#"bool("yes")"#, r#"!"yes" is no bool value"#),
    ]);
}

#[test]
fn encodings() {
    table(&[
        (
            r#"[ base64("hi"), base64_decode("aGk="), md5("a") ]"#,
            r#"["aGk=","hi","0cc175b9c0f1b6a831c399e269772661"]"#,
        ),
        (r#"base64("hello world", 8)"#, r#""aGVsbG8g\nd29ybGQ=""#),
        (r#"base64("hello world", "8")"#, r#""aGVsbG8g\nd29ybGQ=""#),
        (r#"base64("a", "b")"#, "!second argument for base64 must be an integer or interger string"),
        (r#"base64_decode("aG\nk=")"#, r#""hi""#),
        (r#"base64_decode("%")"#, "!cannot decode string"),
        (
            r#"[ hash("a"), hash("a", "sha1") ]"#,
            r#"["ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb","86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"]"#,
        ),
        ("md5({})", "!first argument for md5 must be a string"),
        (r##"hash("YQ==", "#md5")"##, r#""0cc175b9c0f1b6a831c399e269772661""#),
        (r#"hash("oak", "md4")"#, r#""6f616b31d6cfe0d16ae931b73c59d7e0c089c0""#),
        (r#"hash("a", "md3")"#, "!invalid hash type 'md3'"),
        ("hash(5)", "!first argument for hash must be a string"),
        (r#"asjson({ "a" = "<x>" }, true)"#, r#""{\"a\":\"<x>\"}""#),
        (r#"asjson("<", false)"#, r#""\"\<\"""#),
        (r#"asjson({ "b" = [ 1, 2.5, ~ ], "a" = "<x>" })"#, r#""{\"a\":\"\<x\>\",\"b\":[1,2.5,null]}""#),
        (r#"asyaml("a")"#, r#""a\n""#),
        (r#"asyaml({ $l = [ 1 ] })"#, r#""l:\n- 1\n""#),
    ]);
}

#[test]
fn paths_and_urls() {
    table(&[
        (
            r#"[ basename("a/b.x"), basename("http://h/p/q/"), basename("http://h"), basename("") ]"#,
            r#"["b.x","q","/","/"]"#,
        ),
        (
            r#"[ dirname("a/b/c"), dirname("/a"), dirname("a"), dirname("http://h/p/q") ]"#,
            r#"["a/b","/",".","/p"]"#,
        ),
        (
            r#"parseurl("https://u:p%40@h.x:8080/a/b?q=1&r=x+y&q=2#f")"#,
            concat!(
                r#"{"fragment":"f","host":"h.x","path":"/a/b","port":8080,"query":"q=1\u0026r=x+y\u0026q=2","scheme":"https","#,
                r#""userinfo":{"password":"p@","username":"u"},"values":{"q":["1","2"],"r":["x y"]}}"#
            ),
        ),
        (r#"[ basename("mailto:a/b"), dirname("mailto:a/b"), basename("a_b:c/d?e") ]"#, r#"["/","/","d?e"]"#),
        (
            r#"parseurl("mailto:a@b")"#,
            r#"{"fragment":"","host":"","path":"","query":"","scheme":"mailto","values":{}}"#,
        ),
        (
            r#"parseurl("//h:99999999999999999999/a:b")"#,
            r#"{"fragment":"","host":"h","path":"/a:b","query":"","scheme":"","values":{}}"#,
        ),
        ("parseurl(1)", "!argument for parseurl must be a string"),
        ("parseurl()", "!invalid argument count for parseurl"),
        ("basename(1)", "!string argument expected for function basename"),
        ("dirname()", "!function dirname takes exactly one argument"),
        (r#"parseurl("a%zz")"#, "!invalid argument for parseurl: 'a%zz' is not a valid URL"),
        (r#"parseurl("a_b:c")"#, "!invalid argument for parseurl: 'a_b:c' is not a valid URL"),
        (r#"parseurl("http://a b/")"#, "!invalid argument for parseurl: 'http://a b/' is not a valid URL"),
        (
            r#"parseurl("http://a%41b/")"#,
            "!invalid argument for parseurl: 'http://a%41b/' is not a valid URL",
        ),
        (r#"parseurl("http://[h]/")"#, "!invalid argument for parseurl: 'http://[h]/' is not a valid URL"),
    ]);
}

#[test]
fn lists() {
    table(&[
        ("sort([ 3, 1, 2 ])", "[1,2,3]"),
        (r#"sort([ "b", "a" ])"#, r#"["a","b"]"#),
        (r#"sort([ "a", "c", "b" ], |a,b|->a > b)"#, r#"["c","b","a"]"#),
        ("sort([ 3, 1, 2 ], |a,b|->a - b)", "[1,2,3]"),
        (r#"sort([ 1, "a" ])"#, "!sort failed <- list elements must either be strings or integers"),
        ("sort([ 1, 2 ], |a,b|->nope)", "!sort failed <- 'nope' not found"),
        ("sort([ 1, 2 ], |a,b|->pending)", "pending"),
        ("sort(1)", "!argument for sort must be a list"),
        ("reverse([ 1, 2 ])", "[2,1]"),
        (
            r#"[ uniq([ 1, "1", 2 ]), uniq([ "a", "b", "a" ]), uniq([ [ 1 ], [ 1 ], ~, ~ ]) ]"#,
            r#"[[1,2],["a","b"],[[1],null]]"#,
        ),
        (r#"compact([ "", ~, 0, [], {}, false ])"#, "[0,false]"),
        ("intersect([ 1, 2, 3 ], [ 2, 3 ], ~)", "[2,3]"),
        (r#"intersect([ 1 ], "x")"#, "!intersect: argument 1: type 'string' cannot be intersected"),
        (
            r#"[ index([ 5, 6 ], 6), lastindex("abab", "b"), index("ab", "x"), index([ 1 ], ~), lastindex([ 1, 1 ], 1) ]"#,
            "[1,3,-1,-1,1]",
        ),
        (
            r#"[ contains([ 1 ], "1"), contains({ $a = 1 }, "a"), contains("abc", "b"), contains([ 1 ], ~) ]"#,
            "[true,true,true,false]",
        ),
        (r#"[ element([ 5, 6 ], 1), element([ 5, 6 ], "0"), element({ "k" = 7 }, "k") ]"#, "[6,5,7]"),
        ("element([ 5 ], 1)", "!index greater or equal list size"),
        ("element([ 5 ], -1)", "!index lower than 0"),
        (r#"element({}, "x")"#, "!map key 'x' not found"),
        ("element(~, 1)", "!function element does not take nil arguments"),
    ]);
}

#[test]
fn maps() {
    table(&[
        (r#"keys({ "b" = 1, "a" = 2 })"#, r#"["a","b"]"#),
        ("keys([])", "!map argument required for keys"),
        (r#"list_to_map([ { "name" = "x", "v" = 1 } ])"#, r#"{"x":{"v":1}}"#),
        (r#"list_to_map([ { "id" = "x", "v" = 1 } ], "id")"#, r#"{"x":{"v":1}}"#),
        (r#"list_to_map([ { "id" = 1 } ], "id")"#, "!key field 'id' contains no string value"),
        (r#"list_to_map([ {} ])"#, "!key field 'name' not found"),
        (
            r#"[ makemap("a", 1), makemap([ { $key = 1, $value = 2 } ]), makemap(true, ~) ]"#,
            r#"[{"a":1},{"1":2},{"true":null}]"#,
        ),
        (r#"makemap("a", 1, "b")"#, "!mapentry takes one or two arguments"),
        ("makemap([ {} ])", "!entry 0 has no entry 'key'"),
        (
            r#"deepmerge({ "a" = { "x" = 1, "l" = [ 1 ] } }, { "a" = { "z" = 2, "l" = [ 2 ] } })"#,
            r#"{"a":{"l":[2],"x":1,"z":2}}"#,
        ),
        (r#"deepmerge([ { $a = 1 }, { $a = 2 } ])"#, r#"{"a":2}"#),
        ("deepmerge({}, 5)", "!deepmerge: argument 2: no map or map template, but int"),
        ("deepmerge([ 5 ])", "!deepmerge: entry of list argument: 1: no map or map template, but int"),
        ("deepmerge([])", "!deepmerge: no map found for merge"),
    ]);
}

#[test]
fn numbers_and_addresses() {
    table(&[
        ("[ floor(1.7), ceil(1.2), round(-1.5), abs(-3), roundtoeven(2.5), abs(-1.5) ]", "[1,2,-2,3,2,1.5]"),
        ("[ sqrt(4), exp(0), log10(100), sin(0) ]", "[2,1,2,0]"),
        ("sqrt(-1)", "!sqrt: NaN"),
        (r#"sqrt("x")"#, "!sqrt: number argument required"),
        (
            r#"[ min_ip("10.0.0.5/24"), max_ip("10.0.0.5/24"), num_ip("10.0.0.0/30") ]"#,
            r#"["10.0.0.0","10.0.0.255",4]"#,
        ),
        (
            r#"[ contains_ip("10.0.0.0/24", "10.0.0.9"), contains_ip("10.0.0.0/24", "10.0.1.9") ]"#,
            "[true,false]",
        ),
        (r#"min_ip("x")"#, "!CIDR argument required"),
        (r#"contains_ip("x", "y")"#, "!CIDR argument required: invalid CIDR address: x"),
        (r#"contains_ip("10.0.0.0/8", 5)"#, "!IP required as second argument"),
        (r#"ipset([ "10.0.0.0/30", "10.1.0.1-10.1.0.9" ], 2, 0, [ 5 ])"#, r#"["10.0.0.0","10.1.0.2"]"#),
        (r#"ipset("10.0.0.1", 1)"#, r#"["10.0.0.1"]"#),
        (r#"ipset("10.0.0.0/30", 5)"#, "!ip index 4 (4) out of range (4 IP(s) available in ranges)"),
        (r#"ipset("10.0.0.0/30", 2, 1)"#, "!too many required entries (2 > 1 available indices)"),
        (
            r#"ipset("10.0.0.9-10.0.0.1", 1)"#,
            "!invalid IP range: start (10.0.0.9) larger than end (10.0.0.1)",
        ),
        (r#"ipset("0.0.0.0/0", 9000000000)"#, "!ipset: the result would have more than 2000000 entries"),
    ]);
}

#[test]
fn conditions() {
    table(&[
        (r#"validate("web-1", "dnslabel", [ "match", "^web" ])"#, r#""web-1""#),
        (r#"check(5, [ "type", "int" ], [ "gt", 3 ], [ "!valueset", [ 7, 8 ] ])"#, "true"),
        (r#"check({ "p" = "80" }, [ "mapfield", "p", [ "type", "int" ] ])"#, "false"),
        (r#"validate(4, |v|->[ v > 5, "fine", "too small" ])"#, "!condition 1 failed: too small"),
        ("validate(4, |v|->pending)", "pending"),
        ("validate(4, |v|->nope)", "!condition 1 has problem: 'nope' not found"),
        (
            r#"validate(4, [ |v|->nope, 1 ])"#,
            "!condition 1 has problem: argument count mismatch for lambda lambda|v|->nope: expected 1, found 2",
        ),
        (r#"check(5, [ "or", [ "type", "string" ], [ "lt", 9 ] ])"#, "true"),
        (r#"check(5, [ "and", [ "type", "string" ], [ "lt", 9 ] ])"#, "false"),
        (r#"check(5, [ "not", [ "type", "string" ] ])"#, "true"),
        (r#"check(5, [ "!not", [ "type", "string" ] ])"#, "false"),
        (r#"check([ 1, 2 ], [ "list", [ "type", "int" ] ])"#, "true"),
        (r#"check([ 1, "a" ], [ "list", [ "type", "int" ] ])"#, "false"),
        (r#"check({ $a = 1 }, [ "map", "dnslabel", [ "=", 1 ] ])"#, "true"),
        (r#"check({ $A = 1 }, [ "map", "dnslabel", [ "=", 1 ] ])"#, "false"),
        (r#"check({}, [ "optionalfield", "a" ], [ "!mapfield", "a" ], "empty")"#, "true"),
        (
            r#"[ check("10.0.0.1", "ip"), check("10.0.0.0/8", "cidr"), check("*.a.b", "dnsname"), check("A", "dnsdomain") ]"#,
            "[true,true,true,false]",
        ),
        (r#"check("1.2.3", [ "semver", "^1", ">1.1" ])"#, "true"),
        (r#"[ check("1.2", [ "semver" ]), check("x", "semver"), check(1, "!semver") ]"#, "[true,false,true]"),
        (r#"validate("x", "semver")"#, r#"!condition 1 failed: semver: "x": invalid semantic version"#),
        (r#"validate("1.2", [ "!semver", "^1" ])"#, "!condition 1 failed: matches contraint"),
        (r#"validate(5, [ "gt", "3" ])"#, "!condition 1 has problem: must be string to compare to string"),
        (r#"validate("a", [ "<=", 3 ])"#, "!condition 1 has problem: must be number to compare to number"),
        (r#"validate(5, [ ">", [] ])"#, "!condition 1 has problem: invalid type []yaml.Node"),
        (r#"validate(5, [ "gt", 5 ])"#, "!condition 1 failed: less or equal to 5"),
        (r#"validate(5, [ "lt", 5.5 ], [ "!le", 5 ])"#, "!condition 2 failed: less than 5"),
        (r#"validate(5, [ "le" ])"#, "!condition 1 has problem: lt requires a value argument"),
        (r#"validate("a", [ "=", "b" ])"#, r#"!condition 1 failed: invalid value "a""#),
        (r#"[ check(1, [ "=", "01" ]), check("01", [ "=", 1 ]) ]"#, "[false,true]"),
        (r#"validate(5, "")"#, "!condition 1 has problem: empty validator type"),
        (
            r#"[ check(5, [ "or", [ "gt", 9 ] ]), check(5, [ "or", [ "gt", 9 ], [ "lt", 1 ] ]) ]"#,
            "[true,false]",
        ),
        (
            &format!(r#"[ check("{0}", "dnslabel"), check("{0}.b", "dnsdomain") ]"#, "a".repeat(64)),
            "[false,true]",
        ),
        (r#"validate(5, "what")"#, r#"!condition 1 has problem: unknown validation operator "what""#),
        (r#"check(data(5), [ "type", "int" ], [ "le", 5.0 ])"#, "true"),
        ("validate(5)", "!at least two arguments required for validate"),
    ]);
}

#[test]
fn results_beyond_the_limits_are_refused() {
    let mut caller = Lambdas { limits: Limits { string_bytes: 1000, ..Limits::default() } };
    let long = "x".repeat(600);
    let bomb = format!("{}1{}", "[".repeat(30), "]".repeat(30));
    assert!(bomb.len() < 100);
    for text in [
        format!("join(\",\", \"{long}\", \"{long}\")"),
        format!("replace(\"{long}\", \"x\", \"yyyy\")"),
        format!("replace_match(\"{long}\", \"x\", \"$0$0\")"),
        format!("base64(\"{long}\")"),
        "format(\"%2000s\", 1)".to_owned(),
        format!("asjson([ \"{long}\", \"{long}\" ])"),
        format!("asyaml([ \"{long}\", \"{long}\" ])"),
    ] {
        let issue = value(&parse(&text).unwrap(), &mut caller).unwrap_err();
        assert!(issue.message.ends_with("the result would have more than 1000 bytes"), "{issue}");
    }
    let mut shared = Value::Int(1);
    for _ in 0..60 {
        shared = Value::list([shared.clone(), shared]);
    }
    assert!(encode::asjson(&mut caller, &[shared]).is_err());
}

#[test]
fn names_belong_to_one_kind() {
    for name in ["read", "exec", "env", "rand", "x509cert", "wggenkey", "mkdir"] {
        assert!(denied(name).is_some() && find(name).is_none(), "{name}");
    }
    assert!(denied("nofunc").is_none());
    for (name, extension) in
        [("join", false), ("semvermatch", true), ("x509cert", true), ("floor", true), ("string", true)]
    {
        assert_eq!(is_extension(name), extension, "{name}");
    }
}

mod hostile {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const NAMES: &str = "join split trim lower upper substr length replace match split_match replace_match format error \
        string integer float bool basename dirname parseurl base64 base64_decode md5 hash asjson asyaml element contains \
        index lastindex sort reverse uniq compact intersect keys list_to_map makemap deepmerge min_ip max_ip num_ip \
        contains_ip ipset validate check semver semvermajor semverminor semverpatch semverprerelease semvermetadata \
        semverrelease semverincmajor semverincminor semverincpatch semvercmp semvermatch semversort semvervalidate \
        floor ceil round roundtoeven abs sin cos sinh cosh asin acos asinh acosh sqrt exp log log10";

    fn argument() -> impl Strategy<Value = Value> {
        let text = prop_oneof![
            any::<String>(),
            "[a-z%*.0-9dsvq+# -]{0,8}",
            "[0-9]{1,3}(\\.[0-9]{1,3}){3}(/[0-9]{1,3})?",
            "v?[0-9*x]{1,2}(\\.[0-9*x]{1,2}){0,2}(-[a-z0-9.]{1,4})?",
            "(!?(and|or|not|list|map|mapfield|type|gt|match|semver|ip)|[(\\[a-z+*^$.|]{0,5})",
        ];
        let int = prop_oneof![any::<i64>(), -3..9_i64];
        let leaf = prop_oneof![
            Just(Value::Nil),
            any::<bool>().prop_map(Value::Bool),
            int.clone().prop_map(Value::Int),
            int.prop_map(Value::Data),
            any::<f64>().prop_map(Value::Float),
            text.clone().prop_map(Value::string),
            vec(any::<u8>(), 0..4).prop_map(|bytes| Value::Binary(bytes.into())),
        ];
        leaf.prop_recursive(3, 12, 4, move |inner| {
            prop_oneof![
                vec(inner.clone(), 0..4).prop_map(Value::list),
                vec((text.clone(), inner), 0..4).prop_map(Value::map),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Property: with any arguments, functions return or fail, and keep to the limits.
        #[test]
        fn no_arguments_make_a_function_panic(arguments in vec(argument(), 0..5)) {
            let mut caller = Lambdas { limits: Limits { string_bytes: 5_000, nodes: 1_000, ..Limits::default() } };
            for name in NAMES.split_whitespace() {
                let answer = match find(name) {
                    Some(Function::Plain(function) | Function::Head(function)) => function(&arguments).map(Some),
                    Some(Function::Calling(function)) => function(&mut caller, &arguments),
                    None => return Err(TestCaseError::fail(name)),
                };
                if let Ok(Some(Value::String(text))) = answer {
                    prop_assert!(text.len() <= 5_000, "{}", name);
                }
            }
        }
    }
}
