//! Statements.

use super::{Parsed, Parser};
use crate::fault::{Fault, Position};
use crate::syntax::token::Token;
use crate::syntax::tree::{Binary, Block, Expr, ExprKind, Function, Name, Statement, StatementKind};

/// Assignments that change a value.
const CHANGES: &[(&str, Binary)] = &[
    ("+=", Binary::Add),
    ("-=", Binary::Subtract),
    ("*=", Binary::Multiply),
    ("/=", Binary::Divide),
    ("//=", Binary::FloorDivide),
    ("%=", Binary::Modulo),
    ("&=", Binary::And),
    ("|=", Binary::Or),
    ("^=", Binary::Xor),
    ("<<=", Binary::ShiftLeft),
    (">>=", Binary::ShiftRight),
];

impl Parser<'_> {
    pub(super) fn statement(&mut self, out: &mut Block) -> Parsed<()> {
        let at = self.place;
        let kind = match &self.token {
            Token::Mark("def") => self.def()?,
            Token::Mark("if") => self.branches()?,
            Token::Mark("for") => {
                self.advance()?;
                let target = self.targets()?;
                self.expect("in")?;
                let over = self.expression()?;
                StatementKind::For { target, over, body: self.suite()? }
            }
            Token::Mark("while") => {
                self.advance()?;
                let condition = self.test()?;
                StatementKind::While { condition, body: self.suite()? }
            }
            _ => return self.simple_line(out),
        };
        out.push(Statement { at, kind });
        Ok(())
    }

    fn def(&mut self) -> Parsed<StatementKind> {
        self.advance()?;
        let name = self.name()?;
        self.expect("(")?;
        let mut function = Function { name: name.text.clone(), ..Function::default() };
        self.parameters(&mut function, ")")?;
        self.expect(")")?;
        function.body = self.suite()?;
        Ok(StatementKind::Def { name, function: function.into() })
    }

    fn branches(&mut self) -> Parsed<StatementKind> {
        let mut branches = Vec::new();
        let mut otherwise = Block::new();
        self.advance()?;
        loop {
            let condition = self.test()?;
            branches.push((condition, self.suite()?));
            if self.skip("elif")? {
                continue;
            }
            if self.skip("else")? {
                otherwise = self.suite()?;
            }
            return Ok(StatementKind::If { branches, otherwise });
        }
    }

    /// Reads the block behind a colon.
    fn suite(&mut self) -> Parsed<Block> {
        self.expect(":")?;
        let mut body = Block::new();
        if self.token != Token::Newline {
            self.simple_line(&mut body)?;
            return Ok(body);
        }
        self.advance()?;
        if self.token != Token::Indent {
            return self.wrong("indent");
        }
        self.advance()?;
        while !matches!(self.token, Token::Outdent | Token::End) {
            self.statement(&mut body)?;
        }
        if self.token == Token::Outdent {
            self.advance()?;
        }
        Ok(body)
    }

    /// Reads the statements of a line.
    fn simple_line(&mut self, out: &mut Block) -> Parsed<()> {
        loop {
            let (at, kind) = self.simple()?;
            out.push(Statement { at, kind });
            if !self.skip(";")? {
                break;
            }
            if matches!(self.token, Token::Newline | Token::End) {
                break;
            }
        }
        match self.token {
            Token::Newline => self.advance().map(drop),
            Token::End => Ok(()),
            _ => self.wrong("newline"),
        }
    }

    /// Reads a statement without a block, and its place in messages.
    fn simple(&mut self) -> Parsed<(Position, StatementKind)> {
        let at = self.place;
        let kind = match self.token {
            Token::Mark("return") => {
                self.advance()?;
                let is_end = matches!(self.token, Token::Newline | Token::End | Token::Mark(";"));
                StatementKind::Return(if is_end { None } else { Some(self.expression()?) })
            }
            Token::Mark("break") => self.advance().map(|_| StatementKind::Break)?,
            Token::Mark("continue") => self.advance().map(|_| StatementKind::Continue)?,
            Token::Mark("pass") => self.advance().map(|_| StatementKind::Pass)?,
            Token::Mark("load") => self.load()?,
            _ => return self.assignment(),
        };
        Ok((at, kind))
    }

    fn assignment(&mut self) -> Parsed<(Position, StatementKind)> {
        let target = self.expression()?;
        let at = self.place;
        if self.skip("=")? {
            check_target(&target, false)?;
            return Ok((at, StatementKind::Assign { target, value: self.expression()? }));
        }
        let Some((_, operation)) = CHANGES.iter().find(|(mark, _)| self.has(mark)) else {
            return Ok((at, StatementKind::Expr(target)));
        };
        self.advance()?;
        check_target(&target, true)?;
        let value = self.expression()?;
        Ok((at, StatementKind::Change { target, operation: *operation, value }))
    }

    fn load(&mut self) -> Parsed<StatementKind> {
        self.advance()?;
        self.expect("(")?;
        let Token::Text(module) = &self.token else {
            return Err(Fault::at(self.place, "first operand of load statement must be a string literal"));
        };
        let module = module.clone();
        self.advance()?;
        let mut names = Vec::new();
        while self.skip(",")? && !self.has(")") {
            let place = self.place;
            match self.advance()? {
                Token::Text(text) => names.push((text.clone(), Name::new(text, place))),
                Token::Name(name) => {
                    self.expect("=")?;
                    let Token::Text(text) = &self.token else {
                        return Err(Fault::at(
                            self.place,
                            format!("original name of loaded symbol must be quoted: {name}=\"originalname\""),
                        ));
                    };
                    names.push((text.clone(), Name::new(name, place)));
                    self.advance()?;
                }
                _ => {
                    return Err(Fault::at(
                        place,
                        "load operand must be \"name\" or localname=\"name\" (got something else)",
                    ));
                }
            }
        }
        let place = self.expect(")")?;
        if names.is_empty() {
            return Err(Fault::at(place, "load statement must import at least 1 symbol"));
        }
        if let Some((text, name)) = names.iter().find(|(text, _)| text.starts_with('_')) {
            return Err(Fault::at(
                name.at,
                format!("load: names with leading underscores are not exported: {text}"),
            ));
        }
        Ok(StatementKind::Load { module, names })
    }
}

/// Checks the left side of an assignment.
pub(super) fn check_target(target: &Expr, is_change: bool) -> Parsed<()> {
    match &target.kind {
        ExprKind::Name(_) | ExprKind::Index(..) | ExprKind::Field(..) => Ok(()),
        ExprKind::List(_) | ExprKind::Tuple(_) if is_change => {
            Err(Fault::at(target.at, "can't use a list or tuple expression in augmented assignment"))
        }
        ExprKind::List(items) | ExprKind::Tuple(items) => {
            items.iter().try_for_each(|item| check_target(item, false))
        }
        _ => Err(Fault::at(target.at, "can't assign to this expression")),
    }
}
