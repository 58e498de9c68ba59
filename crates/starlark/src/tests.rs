//! Scripts with the texts that they print, and their errors. The expected texts are those of
//! go.starlark.net, recorded with its version of 2025-04-17, except where a comment says otherwise.

use groundwork_yaml::tree::{Layout, compose, write};

use crate::{Limits, Ran, run};

const LIMITS: Limits = Limits { steps: 2_500_000, bytes: 64 << 20 };

fn ran(source: &str, limits: Limits) -> Ran {
    run("x.star", source, &compose("items: []").unwrap().root.unwrap(), limits)
}

/// Checks the lines that a script prints.
fn check(source: &str, expected: &[&str]) {
    let ran = ran(source, LIMITS);
    assert_eq!(ran.result.err(), None, "{source}");
    assert_eq!(ran.printed.lines().collect::<Vec<_>>(), expected, "{source}");
}

/// Checks the text of an expression.
fn check_value(expression: &str, expected: &str) {
    check(&format!("x = {expression}\nprint(repr(x))"), &[expected]);
}

fn check_error(source: &str, expected: &str) {
    assert_eq!(ran(source, LIMITS).result.err().as_deref(), Some(expected), "{source}");
}

#[test]
fn expressions() {
    for (expression, expected) in [
        ("1 + 2 * 3 - 4 // 3", "6"),
        ("-7 // 2, -7 % 3, 7 % -3, 7 / 2, 7.5 // 2", "(-4, 2, -2, 3.5, 3.0)"),
        (
            "1 << 100, (1 << 100) >> 98, -(1 << 70) // 3",
            "(1267650600228229401496703205376, 4, -393530540239137101142)",
        ),
        ("6 & 3, 6 | 3, 6 ^ 3, ~6", "(2, 7, 5, -7)"),
        (
            "1 == 1.0, 1 < 1.5, 2 > 1.5, \"a\" < \"b\", [1, 2] < [1, 3], (1,) < (1, 2)",
            "(True, True, True, True, True, True)",
        ),
        (
            "1e6, 1.0, 0.1, 1e-5, -0.0, float(\"inf\"), float(\"nan\")",
            "(1e+06, 1.0, 0.1, 1e-05, -0.0, +inf, nan)",
        ),
        ("0x10, 0o17, 0b101, .5, 1.", "(16, 15, 5, 0.5, 1.0)"),
        (
            "99999999999999999999 + 1, int(\"99999999999999999999\")",
            "(100000000000000000000, 99999999999999999999)",
        ),
        ("1 if [] else 2, not 0, 1 and 0 or 3", "(2, True, 3)"),
        (
            "\"abc\"[1], \"abc\"[-1], \"abcdef\"[1:5:2], \"abc\"[::-1], [1, 2, 3][:-1], (1, 2)[1:]",
            "(\"b\", \"c\", \"bd\", \"cba\", [1, 2], (2,))",
        ),
        (
            "\"é\", len(\"é\"), \"é\".upper(), \"日本\"[3:], repr(\"\\n\\t\\\"\\\\\\u200b\")",
            "(\"é\", 2, \"É\", \"本\", \"\\\"\\\\n\\\\t\\\\\\\"\\\\\\\\\\\\u200b\\\"\")",
        ),
        ("r\"\\n\", '''a\nb''', \"a\\\nb\", b\"\\xff\"", "(\"\\\\n\", \"a\\nb\", \"ab\", b\"\\xff\")"),
        (
            "[1] + [2], (1,) * 2, \"ab\" * 2, 2 * [0], \"a\" in \"cat\", 3 not in [1, 2]",
            "([1, 2], (1, 1), \"abab\", [0, 0], True, True)",
        ),
        (
            "{\"b\": 1, \"a\": 2} | {\"c\": 3}, list({\"b\": 1, \"a\": 2}), {1: 2}[1.0]",
            "({\"b\": 1, \"a\": 2, \"c\": 3}, [\"b\", \"a\"], 2)",
        ),
        (
            "[x * y for x in range(3) for y in [1, 2] if x], {k: len(k) for k in [\"a\", \"bb\"]}",
            "([1, 2, 2, 4], {\"a\": 1, \"bb\": 2})",
        ),
        ("(lambda x, *a, y=2, **k: (x, a, y, k))(1, 5, z=3)", "(1, (5,), 2, {\"z\": 3})"),
        (
            "range(3), range(1, 9, 2), list(range(5, 0, -2)), range(10)[2:8:3]",
            "(range(3), range(1, 9, 2), [5, 3, 1], range(2, 8, 3))",
        ),
        (
            "type(None), type(1), type(\"\"), type([]), type(len), type(lambda: 1), type(set())",
            "(\"NoneType\", \"int\", \"string\", \"list\", \"builtin_function_or_method\", \"function\", \"set\")",
        ),
    ] {
        check_value(expression, expected);
    }
}

#[test]
fn formats() {
    for (expression, expected) in [
        ("\"%s %r %d %x %o %X %%\" % (\"a\", \"b\", 3.9, 255, 8, 255)", "\"a \\\"b\\\" 3 ff 10 FF %\""),
        ("\"%e %f %g %c\" % (1.5, 1.5, 1.0, 65)", "\"1.500000e+00 1.500000 1.0 A\""),
        (
            "\"%(a)s-%(b)d\" % {\"a\": 1, \"b\": 2}, \"%s\" % [1], \"%s\" % None",
            "(\"1-2\", \"[1]\", \"None\")",
        ),
        (
            "\"{} {}\".format(1, \"a\"), \"{1} {0!r} {x}\".format(\"a\", 2, x=3), \"{{}}\".format()",
            "(\"1 a\", \"2 \\\"a\\\" 3\", \"{}\")",
        ),
    ] {
        check_value(expression, expected);
    }
    check_error("\"%d\" % \"x\"", "x.star:1:6: %d format requires integer: cannot convert string to int");
    check_error("\"%s\" % (1, 2)", "x.star:1:6: too many arguments for format string");
    check_error("\"{}\".format()", "x.star:1:12: format: tuple index out of range");
}

#[test]
fn functions_of_all_scripts() {
    for (expression, expected) in [
        (
            "sorted([3, 1, 2]), sorted([\"bb\", \"a\"], key=len), sorted([1, 2], reverse=True)",
            "([1, 2, 3], [\"a\", \"bb\"], [2, 1])",
        ),
        (
            "max(1, 3, 2), min([2, 1]), max([\"a\", \"bb\"], key=len), abs(-2), any([0, 1]), all([])",
            "(3, 1, \"bb\", 2, True, True)",
        ),
        (
            "zip([1, 2], \"ab\".elems()), enumerate([\"a\"], 1), reversed([1, 2])",
            "([(1, \"a\"), (2, \"b\")], [(1, \"a\")], [2, 1])",
        ),
        (
            "int(\"0x1f\", 0), int(\"z\", 36), int(2.9), int(True), float(\"1.5\"), bool([0]), str([1, \"a\"])",
            "(31, 35, 2, 1, 1.5, True, \"[1, \\\"a\\\"]\")",
        ),
        (
            "tuple([1]), list((1, 2)), dict([(\"a\", 1)], b=2), set([1, 2, 1]), len({1: 2})",
            "((1,), [1, 2], {\"a\": 1, \"b\": 2}, set([1, 2]), 1)",
        ),
        (
            "chr(233), ord(\"é\"), hash(\"abc\"), bytes(\"é\"), dir(set())[:2], hasattr(\"\", \"x\"), getattr(1, \"x\", 2)",
            "(\"é\", 233, 96354, b\"é\", [\"add\", \"clear\"], False, 2)",
        ),
    ] {
        check_value(expression, expected);
    }
}

#[test]
fn methods_of_types() {
    for (expression, expected) in [
        (
            "\"a,b,,c\".split(\",\"), \" a  b \".split(), \"a b c\".split(None, 1), \"a.b.c\".rsplit(\".\", 1)",
            "([\"a\", \"b\", \"\", \"c\"], [\"a\", \"b\"], [\"a\", \"b c\"], [\"a.b\", \"c\"])",
        ),
        (
            "\"a-b\".partition(\"-\"), \"a\".rpartition(\"-\"), \"a\\nb\\n\".splitlines(), \"-\".join([\"a\", \"b\"])",
            "((\"a\", \"-\", \"b\"), (\"\", \"\", \"a\"), [\"a\", \"b\"], \"a-b\")",
        ),
        (
            "\"aXbX\".replace(\"X\", \"-\", 1), \" a \".strip(), \"xax\".strip(\"x\"), \"ab\".removeprefix(\"a\")",
            "(\"a-bX\", \"a\", \"a\", \"b\")",
        ),
        (
            "\"abab\".find(\"b\"), \"abab\".rfind(\"b\"), \"abab\".count(\"ab\"), \"ab\".startswith((\"x\", \"a\")), \"ab\".endswith(\"b\")",
            "(1, 3, 2, True, True)",
        ),
        (
            "\"hello world\".title(), \"hELLO\".capitalize(), \"aB\".lower(), \"a1\".isalnum(), \"1\".isdigit(), \"Ab\".istitle()",
            "(\"Hello World\", \"Hello\", \"ab\", True, True, True)",
        ),
        ("list(\"aé\".codepoints()), list(\"ab\".elem_ords())", "([\"a\", \"é\"], [97, 98])"),
        (
            "set([1, 2]) | set([3]), set([1, 2]) & set([2]), set([1, 2]) - set([2]), set([1]) ^ set([2]), set([1]).union([4])",
            "(set([1, 2, 3]), set([2]), set([1]), set([1, 2]), set([1, 4]))",
        ),
        ("set([1]) <= set([1, 2]), 1 in set([1]), set([1]) == set([1])", "(True, True, True)"),
    ] {
        check_value(expression, expected);
    }
    check(
        "l = [1]\nl.append(3)\nl.insert(1, 2)\nl.extend((4, 5))\nl += [6]\nprint(l, l.pop(), l.pop(0), l.index(3), l)\n\
         l.remove(3)\nprint(l)\nl.clear()\nprint(l)",
        &["[2, 3, 4, 5] 6 1 1 [2, 3, 4, 5]", "[2, 4, 5]", "[]"],
    );
    check(
        "d = {\"b\": 1}\nd[\"a\"] = 2\nd[\"b\"] += 5\nd.update([(\"c\", 3)], e=4)\nd |= {\"f\": 5}\n\
         print(d, d.get(\"x\"), d.get(\"x\", 9), d.setdefault(\"a\", 0))\nprint(d.pop(\"a\"), d.popitem(), d.keys(), d.values(), d.items())",
        &[
            "{\"b\": 6, \"a\": 2, \"c\": 3, \"e\": 4, \"f\": 5} None 9 2",
            "2 (\"b\", 6) [\"c\", \"e\", \"f\"] [3, 4, 5] [(\"c\", 3), (\"e\", 4), (\"f\", 5)]",
        ],
    );
}

/// Statements outside of functions, reassigned globals, recursion, closures and `while`.
#[test]
fn statements() {
    check(
        "x = 1\nfor i in [1, 2, 3]:\n  if i == 2: continue\n  x += i\nprint(x)\nx = \"s\"\nprint(x)",
        &["5", "s"],
    );
    check("i = 0\nwhile True:\n  i += 1\n  if i > 3:\n    break\nelse_ = 1\nprint(i, else_)", &["4 1"]);
    check("def fib(n):\n  return n if n < 2 else fib(n - 1) + fib(n - 2)\nprint(fib(15))", &["610"]);
    check(
        "def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n != 0 and even(n - 1)\nprint(even(10))",
        &["True"],
    );
    check(
        "def outer(a):\n  b = [a]\n  def inner(c):\n    b.append(c)\n    return lambda: (a, b)\n  return inner\nprint(outer(1)(2)())",
        &["(1, [1, 2])"],
    );
    check(
        "fs = [lambda: i for i in range(3)]\nprint([f() for f in fs], [x for x in [1]])\nx = 5",
        &["[2, 2, 2] [1]"],
    );
    check(
        "(a, [b, c]), d = (1, (2, 3)), 4\nl = [0, 0]\nl[1], l[0] = 1, 2\nprint(a, b, c, d, l)",
        &["1 2 3 4 [2, 1]"],
    );
    // A global may have the name of a function of all scripts; uses before it see the function.
    check("print(len(\"ab\"))\nlen = 3\nfor str in [\"x\"]:\n  print(str, len)", &["2", "x 3"]);
    check("if False:\n  pass\nelif 1: print(1); print(2)\nelse:\n  print(3)\n\n# end", &["1", "2"]);
    check("def f(x, y=2, *, z):\n\treturn x + y + z\nprint(f(1, z=3), f(*[1], **{\"z\": 1}))\n", &["6 4"]);
    check("print(\"a\", 1, None, sep=\"-\")\nprint()", &["a-1-None", ""]);
}

#[test]
fn errors() {
    for (source, expected) in [
        ("fail(\"a\", 1, [2])", "x.star:1:5: fail: a 1 [2]"),
        ("def f():\n  fail(\"x\")\nf()", "x.star:2:7: fail: x"),
        ("{}[\"a\"]", "x.star:1:3: key \"a\" not in dict"),
        ("[1][3]", "x.star:1:4: list index 3 out of range [-1:0]"),
        ("\"a\" + 1", "x.star:1:5: unknown binary op: string + int"),
        ("None.x", "x.star:1:5: NoneType has no .x field or method"),
        ("ctx.foo", "x.star:1:4: struct has no .foo attribute"),
        ("ctx.x = 1", "x.star:1:4: can't assign to .x field of struct"),
        ("1 // 0", "x.star:1:3: floored division by zero"),
        ("{[]: 1}", "x.star:1:4: unhashable type: list"),
        ("{1: 1, 1: 2}", "x.star:1:9: duplicate key: 1"),
        ("x, y = 1, 2, 3", "x.star:1:6: too many values to unpack (got 3, want 2)"),
        ("for i in 5: pass", "x.star:1:1: int value is not iterable"),
        ("x = [1]\nfor i in x: x.append(1)", "x.star:2:21: append: cannot append to list during iteration"),
        ("x = {1: 2}\nfor i in x: x[3] = 3", "x.star:2:14: cannot insert into hash table during iteration"),
        ("def f(a): pass\nf()", "x.star:2:2: function f missing 1 argument (a)"),
        ("def f(): print(z)\nf()\nz = 1", "x.star:1:16: global variable z referenced before assignment"),
        ("def f():\n  print(z)\n  z = 1\nf()", "x.star:2:9: local variable z referenced before assignment"),
        ("print(zz)", "x.star:1:7: undefined: zz"),
        ("1()", "x.star:1:2: invalid call of non-function (int)"),
        ("if 1\n  pass", "x.star:1:5: got newline, want ':'"),
        ("x = (1,", "x.star:1:8: got end of file, want ')'"),
        ("def f():\n  x = 1\n y = 2", "x.star:3:2: unindent does not match any outer indentation level"),
        ("1 < 2 < 3", "x.star:1:7: < does not associate with < (use parens)"),
        ("class A: pass", "x.star:1:1: got illegal token, want primary expression"),
        ("x = \"abc", "x.star:1:5: unexpected EOF in string"),
        ("\"\\q\"", "x.star:1:1: invalid escape sequence \\q"),
        ("return 1", "x.star:1:1: return statement not within a function"),
        ("break", "x.star:1:1: break not in a loop"),
        ("f() = 1", "x.star:1:2: can't assign to this expression"),
        ("def f(a, a): pass", "x.star:1:10: duplicate parameter: a"),
        ("?", "x.star:1:1: unexpected input character '?'"),
        ("load(\"other.star\", \"x\")", "x.star:1:1: module \"other.star\" is not available"),
        ("load(\"math.star\", \"x\")", "x.star:1:1: load: name x not found in module math.star"),
        ("1 << 600", "x.star:1:3: shift count too large: 600"),
    ] {
        check_error(source, expected);
    }
}

/// Members of the modules (`packagevariants.md` 8.5).
#[test]
fn modules() {
    let load = |module: &str, name: &str, expression: &str, expected: &str| {
        check(&format!("load(\"{module}.star\", \"{name}\")\nx = {expression}\nprint(repr(x))"), &[expected]);
    };
    load(
        "encoding/json",
        "json",
        "json.decode('{\"b\": [1, 2.0, null], \"a\": 99999999999999999999}')",
        "{\"b\": [1, 2.0, None], \"a\": 99999999999999999999}",
    );
    load(
        "encoding/json",
        "json",
        "json.encode({\"b\": (1, 1.0, None), \"a\": \"é<\"}), json.decode(\"x\", default=1)",
        "(\"{\\\"a\\\":\\\"é\\\\u003c\\\",\\\"b\\\":[1,1.0,null]}\", 1)",
    );
    load(
        "encoding/json",
        "json",
        "json.indent('{\"a\":[1,{}]}', indent=\" \")",
        "\"{\\n \\\"a\\\": [\\n  1,\\n  {}\\n ]\\n}\"",
    );
    load(
        "encoding/yaml",
        "yaml",
        "yaml.loads(\"a: yes\\nb: 010\\nc: [1.5, ~]\"), yaml.dumps({\"b\": [1, {\"x\": \"y\"}], \"a\": \"5\"})",
        "({\"a\": True, \"b\": 8, \"c\": [1.5, None]}, \"a: \\\"5\\\"\\nb:\\n- 1\\n- x: \\\"y\\\"\\n\")",
    );
    load(
        "encoding/base64",
        "base64",
        "base64.encode(\"hé?>\"), base64.encode(\"hé?>\", \"url_raw\"), base64.decode(\"aGk=\")",
        "(\"aMOpPz4=\", \"aMOpPz4\", \"hi\")",
    );
    load(
        "hash",
        "hash",
        "hash.md5(\"a\"), hash.sha1(\"a\"), hash.sha256(\"a\")[:16]",
        "(\"0cc175b9c0f1b6a831c399e269772661\", \"86f7e437faa5a7fce15d1ddcb9eaeaea377667b8\", \"ca978112ca1bbdca\")",
    );
    load(
        "math",
        "math",
        "math.ceil(1.2), math.floor(-1.2), math.pow(2, 10), math.sqrt(2), math.round(2.5), math.remainder(5, 3), math.gamma(5)",
        "(2, -2, 1024.0, 1.4142135623730951, 3.0, -1.0, 24.0)",
    );
    load(
        "re",
        "re",
        "re.findall(\"a+\", \"baaac a\"), re.split(\",\\\\s*\", \"a, b\"), re.sub(\"(a)(b)?\", \"<$1$2>\", \"abac\"), re.match(\"(\\\\w+)=(\\\\d+)\", \"a=1 b=2\")",
        "((\"aaa\", \"a\"), (\"a\", \"b\"), \"<ab><a>c\", [(\"a=1\", \"a\", \"1\"), (\"b=2\", \"b\", \"2\")])",
    );
    load(
        "re",
        "re",
        "re.search(\"b+\", \"abbc\"), re.compile(\"a.\").findall(\"abac\"), re.findall(\"a*\", \"baac\"), re.split(\"x*\", \"axbc\")",
        "([1, 3], (\"ab\", \"ac\"), (\"\", \"aa\", \"\"), (\"a\", \"b\", \"c\"))",
    );
    load(
        "time",
        "time",
        "str(time.parse_time(\"2020-01-02T03:04:05Z\") + time.hour), time.parse_duration(\"1h30m\").minutes, time.hour // time.minute",
        "(\"2020-01-02 04:04:05 +0000 UTC\", 90.0, 60)",
    );
    load(
        "time",
        "time",
        "str(time.time(year=2021, month=14, day=-3, location=\"America/New_York\")), time.from_timestamp(0).year, time.is_valid_timezone(\"X/Y\")",
        "(\"2022-01-28 00:00:00 -0500 EST\", 1970, False)",
    );
    // The clock would make a package render differently every day.
    check_error("load(\"time.star\", \"time\")\ntime.now()", "x.star:2:9: now: time.now() is not available");
    let object = "{\"apiVersion\": \"apps/v1\", \"kind\": \"A\", \"metadata\": {\"name\": \"n\"}}";
    load(
        "krmfn",
        "krmfn",
        &format!(
            "krmfn.match_gvk({object}, \"apps/v1\", \"A\"), krmfn.match_gvk({object}, \"v1\", \"A\"), krmfn.match_name({object}, \"n\"), krmfn.match_namespace({object}, \"\")"
        ),
        "(True, False, True, True)",
    );
}

/// Scripts without an end, and operations that would take all memory.
#[test]
fn limits() {
    let limits = Limits { steps: 125_000, bytes: 4 << 20 };
    for source in [
        "while True: pass",
        "for i in range(1000000000):\n  for j in range(1000000000):\n    pass",
        "x = \"x\" * 10000000000",
        "x = \"x\" * (1 << 40)",
        "x = list(range(2000000000))",
        "x = [0] * 2000000000",
        "max(range(1000000000000))",
        "sorted(range(1000000000000))",
        "x = \"a\"\nfor i in range(60): x += x",
        "x = []\nwhile True: x.append(x)",
        "x = 3\nwhile True: x = x * x",
        "x = [\"a\" * 1000] * 1000\ny = \"\".join(x)\nz = y.replace(\"a\", y)",
        "x = \"%s\" * 1000 % tuple([\"a\" * 10000] * 1000)",
        "x = [1]\nfor i in range(50): x = [x, x]\nctx.resource_list[\"items\"] = x",
        "x = [1]\nfor i in range(50): x = [x, x]\nstr(x)",
        "x = [1]\ny = [1]\nfor i in range(50):\n  x = [x, x]\n  y = [y, y]\nx == y",
        "load(\"encoding/json.star\", \"json\")\nx = [1]\nfor i in range(50): x = [x, x]\njson.encode(x)",
        "load(\"re.star\", \"re\")\nfor i in range(1000): re.findall(\"(a*)*b\", \"a\" * 100000)",
        "while True: print(\"x\" * 1000)",
    ] {
        let ran = ran(source, limits);
        assert_eq!(ran.result.err().as_deref(), Some(""), "{source}");
        assert!(
            ran.used.parts > limits.steps * groundwork_budget::PARTS_PER_STEP
                || ran.used.bytes > limits.bytes,
            "{source}"
        );
        assert!(ran.printed.len() <= 65 << 10);
    }
}

/// Depths that would exhaust the stack.
#[test]
fn depths() {
    let nested = |open: &str, middle: &str, close: &str, count: usize| {
        format!("x = {}{middle}{}", open.repeat(count), close.repeat(count))
    };
    for source in [
        nested("(", "1", ")", 50_000),
        nested("[", "", "]", 50_000),
        nested("-", "1", "", 50_000),
        nested("not ", "1", "", 50_000),
        nested("lambda: ", "1", "", 50_000),
        nested("1 if 1 else ", "1", "", 50_000),
        nested("1 + ", "1", "", 50_000),
        nested("", "ctx", ".x", 50_000),
        nested("", "ctx", "[0]", 50_000),
        nested("", "[1", " for i in [1]", 5_000) + "]",
    ] {
        let error = ran(&source, LIMITS).result.unwrap_err();
        assert!(error.ends_with("expression is nested too deeply"), "{error}");
    }
    let blocks: String = (0..200).map(|depth| format!("{}if 1:\n", " ".repeat(depth))).collect();
    check_error(&blocks, "x.star:101:101: blocks are nested too deeply");
    for source in [
        "def f(n): return f(n + 1)\nf(0)",
        "def f(n): return [f(n + 1) for x in [1]]\nf(0)",
        "f = lambda n: sorted([1], key=f)\nf(1)",
        "def f(*a): return f(*a)\nf(1)",
    ] {
        let error = ran(source, LIMITS).result.unwrap_err();
        assert!(error.ends_with("stack overflow: calls are nested too deeply"), "{error}");
    }
    let nest = "x = []\nfor i in range(5000): x = [x]\n";
    for end in [
        "str(x)",
        "x == [x]",
        "ctx.resource_list[\"items\"] = x",
        "y = ()\nfor i in range(5000): y = (y,)\nd = {y: 1}",
    ] {
        let ran = ran(&format!("{nest}{end}"), LIMITS);
        assert!(
            ran.result.err().is_none_or(|error| error.ends_with("nested more than 600 levels deep")),
            "{end}"
        );
    }
    check("x = []\nx.append(x)\nprint(x, x == x)", &["[[...]] True"]);
}

/// Values of objects keep their order and types.
#[test]
fn objects() {
    let input = "items:\n- b: 1\n  a: \"1\"\n  c: [1.5, true, null, ~, 99999999999999999999, 0x10, 'x: y', 2001-01-01]\n";
    let node = compose(input).unwrap().root.unwrap();
    let source = "for r in ctx.resource_list[\"items\"]:\n  print(r)\n  r[\"d\"] = {\"f\": 2.0, \"i\": 1 << 65, \"s\": \"yes\", \"n\": None, \"t\": (1,)}\n\
                  print(ctx.open_api, ctx.environment)\n";
    let ran = run("x", source, &node, LIMITS);
    assert_eq!(
        ran.printed,
        "{\"b\": 1, \"a\": \"1\", \"c\": [1.5, True, None, None, 99999999999999999999, 16, \"x: y\", \"2001-01-01\"]}\n{} {}\n"
    );
    assert_eq!(
        write(&ran.result.unwrap(), Layout::default()),
        "items:\n- b: 1\n  a: \"1\"\n  c:\n  - 1.5\n  - true\n  - null\n  - null\n  - 99999999999999999999\n  - 16\n  - 'x: y'\n  - \"2001-01-01\"\n  \
         d:\n    f: 2\n    i: 36893488147419103232\n    s: \"yes\"\n    \"n\": null\n    t:\n    - 1\n"
    );
    let wrong = |value: &str| {
        run("x", &format!("ctx.resource_list[\"items\"] = {value}"), &node, LIMITS).result.unwrap_err()
    };
    assert_eq!(wrong("[set()]"), "x: a set cannot be a part of an object");
    assert_eq!(wrong("[len]"), "x: a builtin_function_or_method cannot be a part of an object");
}
