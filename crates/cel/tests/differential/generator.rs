//! Generator of expressions of every type. Most are well typed; some are not, and some have a
//! changed letter.

use groundwork_testkit::made_up::Random;

/// Types of expressions; `Any` is any value that the objects contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Int,
    Uint,
    Double,
    Bool,
    Bytes,
    Time,
    Duration,
    Texts,
    Ints,
    Map,
    Any,
}

const KINDS: [Kind; 12] = [
    Kind::Text,
    Kind::Int,
    Kind::Uint,
    Kind::Double,
    Kind::Bool,
    Kind::Bytes,
    Kind::Time,
    Kind::Duration,
    Kind::Texts,
    Kind::Ints,
    Kind::Map,
    Kind::Any,
];

const TEXTS: [&str; 34] = [
    "''",
    "'x'",
    "\"r1\"",
    "'prod'",
    "'region'",
    "'a-b.c'",
    "'é'",
    "'\\u00e9\\n'",
    "'\\x41\\101'",
    "r'\\d+'",
    "'''a\n\"b'''",
    "'12'",
    "'-3'",
    "'0x10'",
    "'1.5'",
    "'1e400'",
    "'true'",
    "'TRUE'",
    "'T'",
    "'2024-02-29T12:34:56.789Z'",
    "'2024-02-29T12:34:56+02:00'",
    "'1h30m'",
    "'-1.5s'",
    "'^r[0-9]'",
    "'('",
    "'e'",
    "'env'",
    "'𝄞'",
    "' 7 '",
    "'NaN'",
    "'inf'",
    "'9223372036854775808'",
    "R\"\\\"",
    "'\\U0001F600'",
];
const INTS: [&str; 16] = [
    "0",
    "1",
    "-1",
    "2",
    "7",
    "100",
    "0x1F",
    "-0x1f",
    "9223372036854775807",
    "-9223372036854775808",
    "60",
    "3",
    "12",
    "99999999999999999999",
    "1000000",
    "2147483648",
];
const UINTS: [&str; 6] = ["0u", "1u", "7u", "0xFFu", "18446744073709551615u", "3U"];
const DOUBLES: [&str; 20] = [
    "0.0",
    "1.0",
    "-1.5",
    "0.1",
    "1e6",
    "123456.0",
    "1234567.0",
    "0.0001",
    "0.00001",
    "1e308",
    "1e-320",
    ".5",
    "3.0e0",
    "1.7976931348623157e308",
    "9.3e18",
    "-0.0",
    "2.5",
    "1e21",
    "100000.5",
    "1e100",
];
const BYTES: [&str; 7] = ["b''", "b'abc'", "b'\\xff'", "b'é'", "b'\\303\\251'", "br'\\x'", "b\"r1\""];
const TIMES: [&str; 8] = [
    "timestamp('2024-02-29T12:34:56.789Z')",
    "timestamp('1970-01-01T00:00:00Z')",
    "timestamp('2024-12-31T23:59:59+02:00')",
    "timestamp('0001-01-01T00:00:00Z')",
    "timestamp('9999-12-31T23:59:59.999999999Z')",
    "timestamp(1700000000)",
    "timestamp('2023-07-02T00:00:00Z')",
    "timestamp('tomorrow')",
];
const DURATIONS: [&str; 12] = [
    "duration('1h')",
    "duration('90m')",
    "duration('-1.5s')",
    "duration('1h2m3.000000004s')",
    "duration('1us')",
    "duration('36h')",
    "duration('100ms')",
    "duration('1d')",
    "duration('0')",
    "duration('315576000000s')",
    "duration('2562047h')",
    "duration('-2562047h47m16.854775808s')",
];
const GETTERS: [&str; 10] = [
    "getFullYear",
    "getMonth",
    "getDayOfMonth",
    "getDate",
    "getDayOfYear",
    "getDayOfWeek",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];
const ZONES: [&str; 7] =
    ["''", "'UTC'", "'+02:00'", "'-05:30'", "'Europe/Berlin'", "'America/New_York'", "'Mars'"];
const FIELDS: [&str; 6] = ["name", "namespace", "labels", "annotations", "spec", "uid"];
const KEYS: [&str; 6] = ["'env'", "'region'", "'kpt.dev/latest-revision'", "'count'", "'nothing'", "'name'"];

pub(super) struct Generator {
    pub(super) random: Random,
    /// Variables of macros in scope, and their types.
    locals: Vec<(String, Kind)>,
}

impl Generator {
    pub(super) fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), locals: Vec::new() }
    }

    pub(super) fn expression(&mut self) -> String {
        let kind = if self.chance(70) { Kind::Text } else { *self.random.one_of(&KINDS) };
        let depth = 1 + self.random.below(4);
        let expression = self.of(kind, depth);
        if self.chance(5) { self.damaged(&expression) } else { expression }
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.random.below(100) < percent
    }

    fn pick(&mut self, texts: &[&str]) -> String {
        (*self.random.one_of(texts)).to_owned()
    }

    /// Returns the text with one letter removed or replaced.
    fn damaged(&mut self, text: &str) -> String {
        let mut letters: Vec<char> = text.chars().collect();
        let at = self.random.below(letters.len());
        if self.chance(50) {
            letters.remove(at);
        } else {
            letters[at] =
                *self.random.one_of(&['(', ')', '\'', '.', '?', '+', '1', 'x', ' ', '[', '"', '-', '!', '=']);
        }
        letters.into_iter().collect()
    }

    fn of(&mut self, kind: Kind, depth: usize) -> String {
        // Some operands have a wrong type, or one that is known only during the evaluation.
        let kind = match self.random.below(100) {
            0..2 => *self.random.one_of(&KINDS),
            2..6 => Kind::Any,
            _ => kind,
        };
        let local: Vec<String> =
            self.locals.iter().filter(|(_, held)| *held == kind).map(|(name, _)| name.clone()).collect();
        if !local.is_empty() && self.chance(50) {
            return self.random.one_of(&local).clone();
        }
        if depth == 0 {
            return self.leaf(kind);
        }
        if self.chance(12) {
            let (condition, one, other) =
                (self.of(Kind::Bool, depth - 1), self.of(kind, depth - 1), self.of(kind, depth - 1));
            return format!("({condition} ? {one} : {other})");
        }
        if self.chance(4) {
            let inner = self.of(kind, depth - 1);
            return format!("dyn({inner})");
        }
        match kind {
            Kind::Text => self.text(depth - 1),
            Kind::Int => self.int(depth - 1),
            Kind::Uint => self.uint(depth - 1),
            Kind::Double => self.double(depth - 1),
            Kind::Bool => self.boolean(depth - 1),
            Kind::Bytes => self.bytes(depth - 1),
            Kind::Time => self.time(depth - 1),
            Kind::Duration => self.duration(depth - 1),
            Kind::Texts => self.list(Kind::Text, depth - 1),
            Kind::Ints => self.list(Kind::Int, depth - 1),
            Kind::Map => self.map(depth - 1),
            Kind::Any => self.any(depth - 1),
        }
    }

    fn leaf(&mut self, kind: Kind) -> String {
        match kind {
            Kind::Text => match self.random.below(5) {
                0 => "repoDefault".to_owned(),
                1 => "packageDefault".to_owned(),
                2 => format!("target.labels[{}]", self.pick(&KEYS)),
                _ => self.pick(&TEXTS),
            },
            Kind::Int => self.pick(&INTS),
            Kind::Uint => self.pick(&UINTS),
            Kind::Double => self.pick(&DOUBLES),
            Kind::Bool => self.pick(&["true", "false"]),
            Kind::Bytes => self.pick(&BYTES),
            Kind::Time => self.pick(&TIMES),
            Kind::Duration => self.pick(&DURATIONS),
            Kind::Texts => self.pick(&["[]", "['a']", "['b', 'a', 'b']", "['r1', repoDefault]"]),
            Kind::Ints => self.pick(&["[]", "[1]", "[3, 1, 2]", "[0, -1]"]),
            Kind::Map => self.pick(&[
                "{}",
                "{'env': 'dev'}",
                "{'b': 'x', 'a': 'y'}",
                "target.labels",
                "upstream.annotations",
            ]),
            Kind::Any => {
                let object = self.pick(&["target", "repository", "upstream", "target", "nothing"]);
                match self.random.below(4) {
                    0 => object,
                    1 => format!("{object}.{}", self.pick(&FIELDS)),
                    2 => format!("{object}.labels.{}", self.pick(&["env", "region", "zone", "count"])),
                    _ => self.pick(&[
                        "null",
                        "[1, 'a']",
                        "{'a': 1, 'b': 'c'}",
                        "dyn(1)",
                        "[]",
                        "{1: 'a', 2: 'b'}",
                        "{true: 'x'}",
                        "{1u: 1}",
                    ]),
                }
            }
        }
    }

    fn text(&mut self, depth: usize) -> String {
        match self.random.below(10) {
            0..4 => format!("{} + {}", self.of(Kind::Text, depth), self.of(Kind::Text, depth)),
            4..6 => {
                let kind = *self.random.one_of(&[
                    Kind::Int,
                    Kind::Uint,
                    Kind::Double,
                    Kind::Bool,
                    Kind::Bytes,
                    Kind::Time,
                    Kind::Duration,
                    Kind::Text,
                    Kind::Any,
                ]);
                format!("string({})", self.of(kind, depth))
            }
            6 => format!("{}[{}]", self.of(Kind::Texts, depth), self.of(Kind::Int, 0)),
            7 => format!("{}[{}]", self.of(Kind::Map, depth), self.pick(&KEYS)),
            8 => format!("({})", self.of(Kind::Text, depth)),
            _ => self.leaf(Kind::Text),
        }
    }

    fn int(&mut self, depth: usize) -> String {
        match self.random.below(9) {
            0..3 => self.arithmetic(Kind::Int, &["+", "-", "*", "/", "%"], depth),
            3 => {
                let kind = *self.random.one_of(&[Kind::Text, Kind::Bytes, Kind::Texts, Kind::Map, Kind::Any]);
                let value = self.of(kind, depth);
                if self.chance(50) { format!("size({value})") } else { format!("({value}).size()") }
            }
            4 => {
                let kind = *self.random.one_of(&[
                    Kind::Text,
                    Kind::Uint,
                    Kind::Double,
                    Kind::Time,
                    Kind::Duration,
                    Kind::Int,
                ]);
                format!("int({})", self.of(kind, depth))
            }
            5 => {
                let getter = self.pick(&GETTERS);
                let zone = if self.chance(40) { self.pick(&ZONES) } else { String::new() };
                if self.chance(30) {
                    format!("({}).{getter}()", self.of(Kind::Duration, depth))
                } else {
                    format!("({}).{getter}({zone})", self.of(Kind::Time, depth))
                }
            }
            6 => format!("-({})", self.of(Kind::Int, depth)),
            7 => format!(
                "({})[{}]",
                self.of(Kind::Ints, depth),
                self.pick(&["0", "1", "2", "-1", "0u", "1.0", "'a'"])
            ),
            _ => self.leaf(Kind::Int),
        }
    }

    fn arithmetic(&mut self, kind: Kind, operators: &[&str], depth: usize) -> String {
        let (one, other) = (self.of(kind, depth), self.of(kind, depth));
        let operator = self.pick(operators);
        if self.chance(50) {
            format!("({one}) {operator} ({other})")
        } else {
            format!("{one} {operator} {other}")
        }
    }

    fn uint(&mut self, depth: usize) -> String {
        match self.random.below(4) {
            0..2 => self.arithmetic(Kind::Uint, &["+", "-", "*", "/", "%"], depth),
            2 => {
                let kind = *self.random.one_of(&[Kind::Text, Kind::Int, Kind::Double, Kind::Uint]);
                format!("uint({})", self.of(kind, depth))
            }
            _ => self.leaf(Kind::Uint),
        }
    }

    fn double(&mut self, depth: usize) -> String {
        match self.random.below(5) {
            0..2 => self.arithmetic(Kind::Double, &["+", "-", "*", "/"], depth),
            2 => {
                let kind = *self.random.one_of(&[Kind::Text, Kind::Int, Kind::Uint, Kind::Double]);
                format!("double({})", self.of(kind, depth))
            }
            3 => format!("-({})", self.of(Kind::Double, depth)),
            _ => self.leaf(Kind::Double),
        }
    }

    fn bytes(&mut self, depth: usize) -> String {
        match self.random.below(3) {
            0 => format!("{} + {}", self.of(Kind::Bytes, depth), self.of(Kind::Bytes, depth)),
            1 => format!("bytes({})", self.of(Kind::Text, depth)),
            _ => self.leaf(Kind::Bytes),
        }
    }

    fn time(&mut self, depth: usize) -> String {
        match self.random.below(4) {
            0 => format!(
                "({} {} {})",
                self.of(Kind::Time, depth),
                self.pick(&["+", "-"]),
                self.of(Kind::Duration, depth)
            ),
            1 => format!("timestamp({})", self.of(Kind::Text, depth)),
            _ => self.leaf(Kind::Time),
        }
    }

    fn duration(&mut self, depth: usize) -> String {
        match self.random.below(5) {
            0 => format!("({} - {})", self.of(Kind::Time, depth), self.of(Kind::Time, depth)),
            1 => format!(
                "({} {} {})",
                self.of(Kind::Duration, depth),
                self.pick(&["+", "-"]),
                self.of(Kind::Duration, depth)
            ),
            2 => format!("duration({})", self.of(Kind::Text, depth)),
            _ => self.leaf(Kind::Duration),
        }
    }

    fn boolean(&mut self, depth: usize) -> String {
        match self.random.below(12) {
            0..3 => {
                let kind = *self.random.one_of(&KINDS);
                let other = if self.chance(85) { kind } else { *self.random.one_of(&KINDS) };
                let operator = self.pick(&["==", "!=", "<", "<=", ">", ">="]);
                format!("{} {operator} {}", self.of(kind, depth), self.of(other, depth))
            }
            3 => format!("{} && {}", self.of(Kind::Bool, depth), self.of(Kind::Bool, depth)),
            4 => format!("{} || {}", self.of(Kind::Bool, depth), self.of(Kind::Bool, depth)),
            5 => format!("!({})", self.of(Kind::Bool, depth)),
            6 => {
                let function = self.pick(&["contains", "startsWith", "endsWith", "matches"]);
                format!("({}).{function}({})", self.of(Kind::Text, depth), self.of(Kind::Text, depth))
            }
            7 => {
                let kind = *self.random.one_of(&[Kind::Map, Kind::Texts, Kind::Ints, Kind::Any]);
                let what = if kind == Kind::Ints { Kind::Int } else { Kind::Text };
                format!("{} in {}", self.of(what, depth), self.of(kind, depth))
            }
            8 => format!(
                "has({}.{})",
                self.pick(&["target", "target.labels", "repository", "upstream.annotations", "{'a': 1}"]),
                self.pick(&["env", "name", "spec", "a"])
            ),
            9 => {
                let function = self.pick(&["all", "exists", "exists_one"]);
                self.macro_call(&function, Kind::Bool, depth)
            }
            10 => format!("bool({})", self.of(Kind::Text, depth)),
            _ => {
                let kind = *self.random.one_of(&KINDS);
                format!(
                    "type({}) == {}",
                    self.of(kind, depth),
                    self.pick(&[
                        "string",
                        "int",
                        "uint",
                        "double",
                        "bool",
                        "bytes",
                        "list",
                        "map",
                        "null_type",
                        "type(1)"
                    ])
                )
            }
        }
    }

    /// Generates `list.function(x, body)`.
    fn macro_call(&mut self, function: &str, body: Kind, depth: usize) -> String {
        let (over, element) = match self.random.below(4) {
            0 => (self.of(Kind::Texts, depth), Kind::Text),
            1 => (self.of(Kind::Ints, depth), Kind::Int),
            // cel-go visits the keys of maps in random order, so these maps have one key.
            2 => (self.pick(&["{'env': 'dev'}", "upstream.labels", "repository.annotations"]), Kind::Text),
            _ => (self.pick(&["dyn([1, 2])", "target.name", "nothing", "dyn(['a', 'b'])"]), Kind::Any),
        };
        let name = format!("v{}", self.locals.len());
        self.locals.push((name.clone(), element));
        let filter = if function == "map" && self.chance(25) {
            format!("{}, ", self.of(Kind::Bool, depth))
        } else {
            String::new()
        };
        let body = self.of(body, depth);
        self.locals.pop();
        format!("({over}).{function}({name}, {filter}{body})")
    }

    fn list(&mut self, element: Kind, depth: usize) -> String {
        let kind = if element == Kind::Text { Kind::Texts } else { Kind::Ints };
        match self.random.below(5) {
            0 => {
                let entries: Vec<String> =
                    (0..self.random.below(4)).map(|_| self.of(element, depth)).collect();
                format!("[{}]", entries.join(", "))
            }
            1 => format!("{} + {}", self.of(kind, depth), self.of(kind, depth)),
            2 => self.macro_call("map", element, depth),
            3 => {
                let over = self.of(kind, depth);
                self.locals.push(("w".to_owned(), element));
                let body = self.of(Kind::Bool, depth);
                self.locals.pop();
                format!("({over}).filter(w, {body})")
            }
            _ => self.leaf(kind),
        }
    }

    fn map(&mut self, depth: usize) -> String {
        if self.chance(50) {
            return self.leaf(Kind::Map);
        }
        let entries: Vec<String> = ["'env'", "'a'", "'b'"]
            .iter()
            .take(self.random.below(4))
            .map(|key| format!("{key}: {}", self.of(Kind::Text, depth)))
            .collect();
        format!("{{{}}}", entries.join(", "))
    }

    fn any(&mut self, depth: usize) -> String {
        let kind = *self.random.one_of(&KINDS);
        match self.random.below(3) {
            0 => format!("[{}, dyn({})][0]", self.of(kind, depth), self.of(kind, depth)),
            1 => format!("{{'a': {}}}.a", self.of(kind, depth)),
            _ => self.leaf(Kind::Any),
        }
    }
}
