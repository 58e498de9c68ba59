//! Generator of whole templates: text, actions, branches, loops, definitions, and in some cases
//! damage.

use std::fmt::Write as _;

use crate::case::{Case, Extra};
use crate::data;
use crate::expressions::Expressions;
use crate::random::Random;

const KINDS: [char; 8] = ['s', 'i', 'f', 'b', 'l', 'm', 'a', 'n'];

pub(crate) struct Generator {
    random: Random,
    expressions: Expressions,
}

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        Generator { random: Random::new(seed), expressions: Expressions::new() }
    }

    pub(crate) fn case(&mut self, at: usize) -> Case {
        let mut case = Case { data: data::random(&mut self.random), ..Case::default() };
        case.missingkey =
            self.random.pick(&["", "", "", "zero", "default", "zero", "zero", "", "", "error"]).to_owned();
        case.numbers = self.random.pick(&["", "", "", "int64", "int"]).to_owned();
        let call = self.expressions.turn(&mut self.random, at);
        let mut body =
            Body { random: &mut self.random, expressions: &self.expressions, text: String::new(), depth: 2 };
        body.define();
        body.around(&call);
        let mut template = std::mem::take(&mut body.text);
        if self.random.chance(4) {
            template = self.damaged(&template);
        }
        if self.random.chance(4) {
            (case.left, case.right) = ("<%".to_owned(), "%>".to_owned());
            template = template.replace("{{", "<%").replace("}}", "%>");
        }
        if self.random.chance(5) {
            let (left, right) = if case.left.is_empty() { ("{{", "}}") } else { ("<%", "%>") };
            let row = format!("{left}define \"row\"{right}[{left}.{right}]{left}end{right}");
            case.extra.push(Extra { name: "lib".to_owned(), template: row + "lib" });
            if self.random.chance(40) {
                case.execute = self.random.pick(&["t", "lib", "row", "nobody"]).to_owned();
            }
        }
        case.template = template;
        case
    }

    /// Returns the template with a few bytes removed, doubled or replaced.
    fn damaged(&mut self, template: &str) -> String {
        let mut characters: Vec<char> = template.chars().collect();
        for _ in 0..=self.random.below(2) {
            if characters.is_empty() {
                break;
            }
            let at = self.random.below(characters.len());
            let end = (at + 1 + self.random.below(3)).min(characters.len());
            match self.random.below(3) {
                0 => drop(characters.drain(at..end)),
                1 => {
                    let again = characters[at..end].to_vec();
                    characters.splice(at..at, again);
                }
                _ => {
                    characters[at] = *self.random.pick(&[
                        &'.', &'$', &'"', &'(', &')', &'|', &'-', &' ', &'{', &'}', &'1', &'\n', &'@', &'=',
                        &',',
                    ]);
                }
            }
        }
        characters.into_iter().collect()
    }
}

/// The inside of a template while it is generated.
struct Body<'g> {
    random: &'g mut Random,
    expressions: &'g Expressions,
    text: String,
    depth: usize,
}

impl Body<'_> {
    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    fn action(&mut self, inside: &str) {
        let left = self.random.pick(&["{{", "{{", "{{ ", "{{- "]);
        let right = self.random.pick(&["}}", "}}", " }}", " -}}"]);
        write!(self.text, "{left}{inside}{right}").expect("writing to a string cannot fail");
    }

    fn operand(&mut self, kind: char) -> String {
        self.expressions.operand(self.random, kind, 1)
    }

    fn literal(&mut self) {
        let text = self.random.pick(&["", "", " ", "x", "a: ", "\n", "\n  - ", "}}", "é", "\t\n", "{ { "]);
        self.push(text);
    }

    /// Writes definitions that the rest may use.
    fn define(&mut self) {
        if self.random.chance(95) {
            self.push(r#"{{define "row"}}<{{.}}>{{end}}"#);
        }
        if self.random.chance(10) {
            self.push(
                r#"{{define "down"}}{{.}}{{if gt . 0}}{{template "down" (sub . 1 | int)}}{{end}}{{end}}"#,
            );
        }
    }

    /// Writes the call that the case tests, in one of the places where a call is allowed.
    fn around(&mut self, call: &str) {
        self.literal();
        match self.random.below(12) {
            0 => {
                self.action(&format!("$x := {call}"));
                self.statement();
                self.action("$x");
            }
            1 => {
                self.action(&format!("if {call}"));
                self.statement();
                self.action("else");
                self.statement();
                self.action("end");
            }
            2 => {
                self.action(&format!("with {call}"));
                self.push("{{.}}");
                self.action("else");
                self.push("none");
                self.action("end");
            }
            3 => {
                self.action(&format!("$l := list ({call})"));
                self.action("range $i, $e := $l");
                self.push("{{$i}}={{$e}};");
                self.action("end");
            }
            4 => {
                let format = self.random.pick(&["%v", "%T", "%#v", "%q", "%5v|", "%s", "%d"]);
                self.action(&format!("{call} | printf \"{format}\""));
            }
            5 => self.action(&format!("{call} | toJson")),
            6 => self.action(&format!("{call} | quote")),
            _ => self.action(call),
        }
        for _ in 0..self.random.below(3) {
            self.literal();
            self.statement();
        }
    }

    fn statement(&mut self) {
        if self.depth == 0 {
            let kind = KINDS[self.random.below(KINDS.len())];
            let operand = self.operand(kind);
            return self.action(&operand);
        }
        self.depth -= 1;
        match self.random.below(16) {
            0 => self.branch("if"),
            1 => self.branch("with"),
            2 => self.loops(),
            3 => self.counted(),
            4 => self.variables(),
            5 => self.calls(),
            6 => self.aliases(),
            7 => self.push("{{/* a comment with }} */}}"),
            8 => {
                let operand = self.operand('a');
                self.action(&format!("{operand} | default \"d\" | toString | upper"));
            }
            9 => {
                let path = self.random.pick(data::NOTHING);
                self.action(&format!("print $.{path} (.nope)"));
            }
            _ => {
                let kind = KINDS[self.random.below(KINDS.len())];
                let call = self.expressions.call(self.random, kind, 1).unwrap_or_else(|| "$".to_owned());
                self.action(&call);
            }
        }
        self.depth += 1;
    }

    fn branch(&mut self, word: &str) {
        let kind = if self.random.chance(50) { 'b' } else { 'a' };
        let condition = self.operand(kind);
        let declared = self.random.chance(20);
        let condition = if declared { format!("$c := {condition}") } else { condition };
        self.action(&format!("{word} {condition}"));
        self.statement();
        if self.random.chance(30) {
            let other = self.operand('b');
            self.action(&format!("else {word} {other}"));
            self.push("second");
        }
        if self.random.chance(50) {
            self.action("else");
            self.push(if declared { "{{$c}}" } else { "other" });
        }
        self.action("end");
    }

    fn loops(&mut self) {
        let kind = if self.random.chance(70) { 'l' } else { 'm' };
        let over = self.operand(kind);
        let (head, inside) = match self.random.below(4) {
            0 => (over, "{{.}},"),
            1 => (format!("$e := {over}"), "{{$e}}/{{.}},"),
            2 => (format!("$i, $e := {over}"), "{{$i}}:{{$e}} "),
            _ => (
                format!("$i, $e := {over}"),
                "{{printf \"%v=%v\" $i $e}}{{if eq (toString $i) \"1\"}}{{break}}{{else}}{{continue}}{{end}}",
            ),
        };
        self.action(&format!("range {head}"));
        self.push(inside);
        if self.random.chance(40) {
            self.action("else");
            self.push("empty");
        }
        self.action("end");
    }

    fn counted(&mut self) {
        let count = self.random.pick(&[
            "3",
            "0",
            "-1",
            "(int 2)",
            "(int64 2)",
            "2.0",
            "$.i",
            "(len $.s)",
            "'\\x03'",
            "nil",
            "\"x\"",
        ]);
        self.action(&format!("range $i := {count}"));
        self.push("{{$i}}{{printf \"%T\" .}}");
        self.action("end");
    }

    fn variables(&mut self) {
        let (first, second) = (self.operand('a'), self.operand('a'));
        self.action(&format!("$v := {first}"));
        self.action("if $.b");
        let word = self.random.pick(&["=", ":="]);
        self.action(&format!("$v {word} {second}"));
        self.push("{{$v}}");
        self.action("end");
        self.push("{{$v}}");
    }

    fn calls(&mut self) {
        let operand = self.operand('a');
        match self.random.below(4) {
            0 => self.action(&format!("template \"row\" {operand}")),
            1 => self.push(r#"{{template "down" 3}}"#),
            2 => {
                self.action(&format!("block \"blocky\" {operand}"));
                self.push("({{.}}{{$}})");
                self.action("end");
            }
            _ => self.action("template \"row\""),
        }
    }

    /// Writes actions that change a map which other variables refer to.
    fn aliases(&mut self) {
        let value = self.operand('x');
        match self.random.below(5) {
            0 => self.push(&format!("{{{{$_ := set $.m \"new\" {value}}}}}{{{{$.m}}}}{{{{.m.new}}}}")),
            1 => self.push("{{$m := $.m}}{{$_ := unset $m \"a\"}}{{$.m}}{{hasKey $.m \"a\"}}"),
            2 => self.push(&format!(
                "{{{{$o := dict \"in\" $.ms}}}}{{{{$_ := set $.ms \"q\" {value}}}}}{{{{$o}}}}{{{{$o.in.q}}}}"
            )),
            3 => self.push("{{$a := merge (dict) $.deep}}{{$_ := set $a.a.b \"c\" 5}}{{$.deep.a.b.c}}"),
            _ => self.push(&format!(
                "{{{{$c := deepCopy $.m}}}}{{{{$_ := set $c \"l\" {value}}}}}{{{{$.m.l}}}}{{{{$c.l}}}}"
            )),
        }
    }
}
