//! The parser's lower half: pipelines, commands and operands (`gotemplate.md` 3).

use super::literal::{NumberLiteral, unquote};
use super::parser::{Parser, Result};
use super::token::{Token, TokenKind};
use super::tree::{Kind, NodeId, Pipe, Target};
use crate::stack;
use crate::text;
use crate::value::Str;

/// Maximum levels of nested parentheses that the parser accepts (`gotemplate.md` 10).
const MAX_PAREN_DEPTH: usize = 10_000;

/// The variables in front of a pipeline.
#[derive(Default)]
struct Declarations {
    names: Vec<Str>,
    assigns: bool,
}

/// An operand before its chained fields.
enum Term {
    Leaf(Kind),
    /// A pipeline in parentheses, which is a node of its own.
    Pipe(NodeId),
}

impl Parser<'_> {
    pub(super) fn pipeline(&mut self, context: &str, end: TokenKind) -> Result<NodeId> {
        let pos = self.peek_non_space().start;
        let declarations = self.declarations(context)?;
        let mut commands = Vec::new();
        loop {
            let token = self.next_non_space();
            if token.kind == end {
                break;
            }
            if !starts_operand(token.kind) {
                return Err(self.unexpected(token, context));
            }
            self.back(token);
            commands.push(self.command()?);
        }
        self.check_stages(&commands, context)?;
        let pipe = self.resolve_targets(declarations, commands);
        Ok(self.tree.add(pos, Kind::Pipe(pipe)))
    }

    fn declarations(&mut self, context: &str) -> Result<Declarations> {
        let mut found = Declarations::default();
        loop {
            let variable = self.peek_non_space();
            if variable.kind != TokenKind::Variable {
                return Ok(found);
            }
            self.next();
            let behind = self.peek();
            let next = self.peek_non_space();
            let is_comma = next.kind == TokenKind::Other && self.text_of(next) == b",";
            if !is_comma && !matches!(next.kind, TokenKind::Assign | TokenKind::Declare) {
                if behind.kind == TokenKind::Space {
                    self.back(behind);
                }
                self.back(variable);
                return Ok(found);
            }
            self.next_non_space();
            let source = self.source;
            let name = self.intern(&source[variable.start..variable.end]);
            self.body.scope.make_known(name.clone());
            found.names.push(name);
            if !is_comma {
                found.assigns = next.kind == TokenKind::Assign;
                return Ok(found);
            }
            if context != "range" || found.names.len() >= 2 {
                return Err(format!("too many declarations in {context}"));
            }
            let follower = self.peek_non_space().kind;
            if !matches!(follower, TokenKind::Variable | TokenKind::RightDelimiter | TokenKind::RightParen) {
                return Err("range can only initialize variables".to_string());
            }
        }
    }

    /// Resolves the variables in front of a pipeline. Runs after its commands are parsed, because a
    /// declaration takes effect behind its pipeline.
    fn resolve_targets(&mut self, declarations: Declarations, commands: Vec<NodeId>) -> Pipe {
        let Declarations { names, assigns } = declarations;
        let scope = &mut self.body.scope;
        let resolve = |name: Str| {
            let slot = if assigns { scope.resolve(&name) } else { scope.declare(name.clone()) };
            Target { name, slot }
        };
        Pipe { variables: names.into_iter().map(resolve).collect(), assigns, commands: commands.into() }
    }

    fn check_stages(&self, commands: &[NodeId], context: &str) -> Result<()> {
        if commands.is_empty() {
            return Err(format!("missing value for {context}"));
        }
        for (index, &command) in commands.iter().enumerate().skip(1) {
            let Kind::Command(operands) = self.tree.kind(command) else { continue };
            let first = operands.first().map(|&operand| self.tree.kind(operand));
            if matches!(
                first,
                Some(Kind::Bool(_) | Kind::Dot | Kind::Nil | Kind::Number { .. } | Kind::String { .. })
            ) {
                return Err(format!("non executable command in pipeline stage {}", index + 1));
            }
        }
        Ok(())
    }

    fn command(&mut self) -> Result<NodeId> {
        let pos = self.peek_non_space().start;
        let mut operands = Vec::new();
        loop {
            self.peek_non_space();
            if let Some(operand) = self.operand()? {
                operands.push(operand);
            }
            let token = self.next();
            match token.kind {
                TokenKind::Space => {}
                TokenKind::RightDelimiter | TokenKind::RightParen => {
                    self.back(token);
                    break;
                }
                TokenKind::Pipe => break,
                _ => return Err(self.unexpected(token, "operand")),
            }
        }
        if operands.is_empty() {
            return Err("empty command".to_string());
        }
        Ok(self.tree.add(pos, Kind::Command(operands.into())))
    }

    fn operand(&mut self) -> Result<Option<NodeId>> {
        let token = self.next_non_space();
        let Some(term) = self.term(token)? else { return Ok(None) };
        let first_field = self.peek();
        if first_field.kind != TokenKind::Field {
            return Ok(Some(match term {
                Term::Leaf(kind) => self.tree.add(token.start, kind),
                Term::Pipe(pipe) => pipe,
            }));
        }
        let mut fields = Vec::new();
        while self.peek().kind == TokenKind::Field {
            let field = self.next();
            fields.push(self.field_name(field));
        }
        let kind = match term {
            Term::Pipe(operand) => Kind::Chain { operand, path: fields.into() },
            Term::Leaf(Kind::Field(names)) => Kind::Field(names.into_iter().chain(fields).collect()),
            Term::Leaf(Kind::Variable { name, slot, .. }) => {
                Kind::Variable { name, slot, path: fields.into() }
            }
            Term::Leaf(function @ Kind::Function { .. }) => {
                Kind::Chain { operand: self.tree.add(token.start, function), path: fields.into() }
            }
            Term::Leaf(_) => {
                return Err(format!("unexpected . after term {}", text::quote(self.text_of(token))));
            }
        };
        // Go places a chain at its second component (`gotemplate.md` 9).
        Ok(Some(self.tree.add(first_field.start, kind)))
    }

    fn field_name(&mut self, token: Token) -> Str {
        let source = self.source;
        self.intern(&source[token.start + 1..token.end])
    }

    fn term(&mut self, token: Token) -> Result<Option<Term>> {
        let source = self.source;
        let literal = &source[token.start..token.end];
        let kind = match token.kind {
            TokenKind::Identifier => {
                let Some(id) = std::str::from_utf8(literal).ok().and_then(|name| self.functions.find(name))
                else {
                    return Err(format!("function {} not defined", text::quote(literal)));
                };
                Kind::Function { name: self.intern(literal), id }
            }
            TokenKind::Dot => Kind::Dot,
            TokenKind::Nil => Kind::Nil,
            TokenKind::Variable if !self.body.scope.is_known(literal) => {
                return Err(format!("undefined variable {}", text::quote(literal)));
            }
            TokenKind::Variable => {
                let slot = self.body.scope.resolve(literal);
                Kind::Variable { name: self.intern(literal), slot, path: Box::default() }
            }
            TokenKind::Field => Kind::Field([self.field_name(token)].into()),
            TokenKind::Bool => Kind::Bool(literal == b"true"),
            TokenKind::CharConstant | TokenKind::Complex | TokenKind::Number => {
                Kind::Number { end: token.end, literal: NumberLiteral::parse(literal, token.kind)? }
            }
            TokenKind::LeftParen => {
                return Ok(Some(Term::Pipe(self.parenthesized()?)));
            }
            TokenKind::String | TokenKind::RawString => {
                Kind::String { end: token.end, value: Str::from(unquote(literal)?) }
            }
            _ => {
                self.back(token);
                return Ok(None);
            }
        };
        Ok(Some(Term::Leaf(kind)))
    }

    fn parenthesized(&mut self) -> Result<NodeId> {
        if self.body.paren_depth >= MAX_PAREN_DEPTH {
            return Err("max expression depth exceeded".to_string());
        }
        self.body.paren_depth += 1;
        let pipe = stack::guarded(|| self.pipeline("parenthesized pipeline", TokenKind::RightParen));
        self.body.paren_depth -= 1;
        pipe
    }
}

fn starts_operand(kind: TokenKind) -> bool {
    use TokenKind::{
        Bool, CharConstant, Complex, Dot, Field, Identifier, LeftParen, Nil, Number, RawString, String,
        Variable,
    };
    matches!(
        kind,
        Bool | CharConstant
            | Complex
            | Dot
            | Field
            | Identifier
            | Number
            | Nil
            | RawString
            | String
            | Variable
            | LeftParen
    )
}

#[cfg(test)]
mod tests {
    use crate::testing::check_all;

    #[test]
    fn pipelines_and_operands_follow_the_grammar() {
        check_all(&[
            ("{{1 | 2}}", "error 1: non executable command in pipeline stage 2"),
            ("{{print 1 | }}", "1"),
            ("{{| print}}", r#"error 1: unexpected "|" in command"#),
            ("{{1 || 2}}", r#"error 1: unexpected "|" in command"#),
            ("{{@}}", r#"error 1: unexpected "@" in command"#),
            ("{{.x := 1}}", r#"error 1: unexpected ":=" in operand"#),
            ("{{print 1, 2}}", r#"error 1: unexpected "," in operand"#),
            ("{{print(1)}}", r#"error 1: unexpected "(" in operand"#),
            ("{{.x.}}", "error 1: unexpected <.> in operand"),
            ("{{true.x}}", r#"error 1: unexpected . after term "true""#),
            ("{{foo}}", r#"error 1: function "foo" not defined"#),
            ("{{$x}}", r#"error 1: undefined variable "$x""#),
            ("{{$x, $y := 1}}", "error 1: too many declarations in command"),
            ("{{range $a, $b, $c := 1}}", "error 1: too many declarations in range"),
            ("{{range $a, 1 := 1}}", "error 1: range can only initialize variables"),
            ("{{$x.y := 1}}", r#"error 1: undefined variable "$x""#),
            (r#"{{template "x" $v := 3}}{{define "x"}}{{.}}{{end}}"#, "3"),
        ]);
    }
}
