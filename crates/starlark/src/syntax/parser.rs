//! From tokens to the tree of a script, with the messages of go.starlark.net.

mod signature;
mod statement;

use super::lexer::Lexer;
use super::token::Token;
use super::tree::{Argument, Binary, Block, Clause, Expr, ExprKind, Function, Literal, Name, Script, Unary};
use crate::fault::{Fault, Position};
use crate::int::Int;
use statement::check_target;

/// Height of an expression, which bounds the stack that its evaluation takes. A sum of this many
/// terms is as high.
const MOST_HEIGHT: usize = 1_000;

/// Depth of brackets and of operators without brackets.
const MOST_DEPTH: usize = 250;

pub(super) fn parse(text: &str) -> Result<Script, Fault> {
    let mut parser =
        Parser { lexer: Lexer::new(text), token: Token::End, place: Position::default(), depth: 0 };
    parser.advance()?;
    let mut body = Block::new();
    while parser.token != Token::End {
        if parser.token == Token::Newline {
            parser.advance()?;
            continue;
        }
        parser.statement(&mut body)?;
    }
    let main = Function { name: "<toplevel>".into(), body, ..Function::default() };
    Ok(Script { main, ..Script::default() })
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token and its place.
    token: Token,
    place: Position,
    /// Depth of the expression that is read.
    depth: usize,
}

type Parsed<T> = Result<T, Fault>;

/// Binary operators by precedence, from the loosest to the tightest.
const LEVELS: &[&[(&str, Binary)]] = &[
    &[
        ("==", Binary::Equal),
        ("!=", Binary::NotEqual),
        ("<", Binary::Less),
        (">", Binary::Greater),
        ("<=", Binary::LessEqual),
        (">=", Binary::GreaterEqual),
        ("in", Binary::In),
        ("not", Binary::NotIn),
    ],
    &[("|", Binary::Or)],
    &[("^", Binary::Xor)],
    &[("&", Binary::And)],
    &[("<<", Binary::ShiftLeft), (">>", Binary::ShiftRight)],
    &[("+", Binary::Add), ("-", Binary::Subtract)],
    &[("*", Binary::Multiply), ("/", Binary::Divide), ("//", Binary::FloorDivide), ("%", Binary::Modulo)],
];

impl Parser<'_> {
    fn advance(&mut self) -> Parsed<Token> {
        let (token, place) = self.lexer.next()?;
        self.place = place;
        Ok(std::mem::replace(&mut self.token, token))
    }

    fn wrong<T>(&self, wanted: &str) -> Parsed<T> {
        Err(Fault::at(self.place, format!("got {}, want {wanted}", self.token.shown())))
    }

    fn has(&self, mark: &str) -> bool {
        self.token.is(mark)
    }

    /// Skips a mark, and reports whether it was there.
    fn skip(&mut self, mark: &str) -> Parsed<bool> {
        let found = self.has(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    /// Skips a mark that has to be there, and returns its place.
    fn expect(&mut self, mark: &str) -> Parsed<Position> {
        let place = self.place;
        if self.skip(mark)? { Ok(place) } else { self.wrong(&Token::Mark(constant(mark)).shown()) }
    }

    fn name(&mut self) -> Parsed<Name> {
        let place = self.place;
        let Token::Name(text) = &self.token else { return self.wrong("identifier") };
        let text = text.clone();
        self.advance()?;
        Ok(Name::new(text, place))
    }

    /// Reads one test, or several with commas between them, which are a tuple.
    fn expression(&mut self) -> Parsed<Expr> {
        let first = self.test()?;
        if !self.has(",") {
            return Ok(first);
        }
        self.tuple(first, Self::test)
    }

    /// Reads the further elements of a tuple without parentheses.
    fn tuple(&mut self, first: Expr, element: fn(&mut Self) -> Parsed<Expr>) -> Parsed<Expr> {
        let at = first.at;
        let mut items = vec![first];
        while self.skip(",")? {
            let is_end = match &self.token {
                Token::Newline | Token::End => true,
                Token::Mark(mark) => matches!(*mark, ")" | "]" | "}" | "=" | "in" | ":" | ";"),
                _ => false,
            };
            if is_end {
                break;
            }
            items.push(element(self)?);
        }
        build(at, height(&items), ExprKind::Tuple(items))
    }

    /// Reads the variables of a loop.
    fn targets(&mut self) -> Parsed<Expr> {
        let first = self.primary()?;
        let target = if self.has(",") { self.tuple(first, Self::primary)? } else { first };
        check_target(&target, false)?;
        Ok(target)
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MOST_DEPTH {
            return Err(too_deep(self.place));
        }
        self.depth += 1;
        let found = stacker::maybe_grow(64 << 10, 1 << 20, || read(self));
        self.depth -= 1;
        found
    }

    fn test(&mut self) -> Parsed<Expr> {
        self.deeper(|parser| {
            if parser.has("lambda") {
                return parser.lambda();
            }
            let yes = parser.either()?;
            let at = parser.place;
            if !parser.skip("if")? {
                return Ok(yes);
            }
            let condition = parser.either()?;
            if !parser.has("else") {
                return Err(Fault::at(at, "conditional expression without else clause"));
            }
            parser.advance()?;
            let no = parser.test()?;
            let height = height([&yes, &condition, &no]);
            let [condition, yes, no] = [condition, yes, no].map(Box::new);
            build(at, height, ExprKind::Choice { condition, yes, no })
        })
    }

    fn either(&mut self) -> Parsed<Expr> {
        let mut left = self.both()?;
        while self.has("or") {
            let at = self.place;
            self.advance()?;
            let right = self.both()?;
            let height = height([&left, &right]);
            left = build(at, height, ExprKind::Either(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn both(&mut self) -> Parsed<Expr> {
        let mut left = self.not()?;
        while self.has("and") {
            let at = self.place;
            self.advance()?;
            let right = self.not()?;
            let height = height([&left, &right]);
            left = build(at, height, ExprKind::Both(Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn not(&mut self) -> Parsed<Expr> {
        if !self.has("not") {
            return self.binary(0);
        }
        let at = self.place;
        self.advance()?;
        let operand = self.deeper(Self::not)?;
        build(at, operand.height + 1, ExprKind::Unary(Unary::Not, Box::new(operand)))
    }

    fn binary(&mut self, level: usize) -> Parsed<Expr> {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        let mut compared = false;
        while let Some((mark, operation)) = operators.iter().find(|(mark, _)| self.has(mark)) {
            let at = self.place;
            if level == 0 && compared {
                let shown = operation.text();
                return Err(Fault::at(at, format!("{shown} does not associate with {shown} (use parens)")));
            }
            compared = true;
            self.advance()?;
            if *mark == "not" {
                self.expect("in")?;
            }
            let right = self.binary(level + 1)?;
            let height = height([&left, &right]);
            left = build(at, height, ExprKind::Binary(*operation, Box::new(left), Box::new(right)))?;
        }
        Ok(left)
    }

    fn unary(&mut self) -> Parsed<Expr> {
        let operation = match self.token {
            Token::Mark("+") => Unary::Plus,
            Token::Mark("-") => Unary::Minus,
            Token::Mark("~") => Unary::Invert,
            _ => return self.primary(),
        };
        let at = self.place;
        self.advance()?;
        let operand = self.deeper(Self::unary)?;
        build(at, operand.height + 1, ExprKind::Unary(operation, Box::new(operand)))
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let mut found = self.operand()?;
        loop {
            let at = self.place;
            found = if self.skip(".")? {
                let name = self.name()?;
                let height = found.height + 1;
                build(at, height, ExprKind::Field(Box::new(found), name.text))?
            } else if self.skip("[")? {
                self.subscript(found, at)?
            } else if self.skip("(")? {
                let arguments = self.arguments()?;
                self.expect(")")?;
                let inner = arguments.iter().map(|argument| match argument {
                    Argument::Positional(value)
                    | Argument::Named(_, value)
                    | Argument::List(value)
                    | Argument::Dict(value) => value,
                });
                let height = height(inner.chain([&found]));
                build(at, height, ExprKind::Call(Box::new(found), arguments))?
            } else {
                return Ok(found);
            };
        }
    }

    fn subscript(&mut self, found: Expr, at: Position) -> Parsed<Expr> {
        let mut parts = [None, None, None];
        let mut colons = 0;
        while !self.has("]") {
            if self.has(":") && colons < 2 {
                self.advance()?;
                colons += 1;
                continue;
            }
            let part = if colons == 0 { self.expression()? } else { self.test()? };
            match parts.get_mut(colons) {
                Some(slot @ None) => *slot = Some(part),
                _ => return self.wrong("']'"),
            }
        }
        if colons == 0 {
            let [Some(index), ..] = parts else { return self.wrong("primary expression") };
            self.expect("]")?;
            let height = height([&found, &index]);
            return build(at, height, ExprKind::Index(Box::new(found), Box::new(index)));
        }
        self.expect("]")?;
        let height = height(parts.iter().flatten().chain([&found]));
        build(at, height, ExprKind::Slice(Box::new(found), Box::new(parts)))
    }

    fn operand(&mut self) -> Parsed<Expr> {
        let at = self.place;
        let kind = match &self.token {
            Token::Name(_) => ExprKind::Name(self.name()?),
            Token::Text(text) => ExprKind::Constant(Literal::Text(text.clone())),
            Token::Bytes(bytes) => ExprKind::Constant(Literal::Bytes(bytes.clone())),
            Token::Int(value) => ExprKind::Constant(Literal::Int(Int::from(value.clone()))),
            Token::Float(value) => ExprKind::Constant(Literal::Float(*value)),
            Token::Mark("(") => return self.deeper(Self::parentheses),
            Token::Mark("[") => return self.deeper(Self::list),
            Token::Mark("{") => return self.deeper(Self::dict),
            _ => return self.wrong("primary expression"),
        };
        if matches!(kind, ExprKind::Constant(_)) {
            self.advance()?;
        }
        build(at, 1, kind)
    }

    fn parentheses(&mut self) -> Parsed<Expr> {
        let at = self.expect("(")?;
        if self.skip(")")? {
            return build(at, 1, ExprKind::Tuple(Vec::new()));
        }
        let found = self.expression()?;
        self.expect(")")?;
        Ok(found)
    }

    fn list(&mut self) -> Parsed<Expr> {
        let at = self.expect("[")?;
        let mut items = Vec::new();
        while !self.has("]") {
            items.push(self.test()?);
            if self.has("for")
                && let (1, Some(item)) = (items.len(), items.pop())
            {
                let clauses = self.clauses()?;
                self.expect("]")?;
                let height = clause_height(&clauses).max(item.height + 1);
                return build(at, height, ExprKind::ListOf(Box::new(item), clauses));
            }
            if !self.skip(",")? {
                break;
            }
        }
        self.expect("]")?;
        build(at, height(&items), ExprKind::List(items))
    }

    fn dict(&mut self) -> Parsed<Expr> {
        let at = self.expect("{")?;
        let mut pairs = Vec::new();
        while !self.has("}") {
            let key = self.test()?;
            // A duplicate key is reported at its colon.
            let colon = self.expect(":")?;
            let value = self.test()?;
            pairs.push((Expr { at: colon, ..key }, value));
            if self.has("for")
                && let (1, Some(pair)) = (pairs.len(), pairs.pop())
            {
                let clauses = self.clauses()?;
                self.expect("}")?;
                let height = clause_height(&clauses).max(height([&pair.0, &pair.1]));
                return build(at, height, ExprKind::DictOf(Box::new(pair), clauses));
            }
            if !self.skip(",")? {
                break;
            }
        }
        self.expect("}")?;
        let height = height(pairs.iter().flat_map(|(key, value)| [key, value]));
        build(at, height, ExprKind::Dict(pairs))
    }

    fn clauses(&mut self) -> Parsed<Vec<Clause>> {
        let mut clauses = Vec::new();
        loop {
            if self.skip("for")? {
                let target = self.targets()?;
                self.expect("in")?;
                let over = self.either()?;
                clauses.push(Clause::For { target, over });
            } else if self.skip("if")? {
                let condition = if self.has("lambda") { self.lambda()? } else { self.either()? };
                clauses.push(Clause::If(condition));
            } else {
                return Ok(clauses);
            }
        }
    }
}

/// Returns the constant of a mark that the parser asks for.
fn constant(mark: &str) -> &'static str {
    let known = super::token::MARKS.iter().chain(super::token::KEYWORDS);
    known.copied().find(|known| *known == mark).unwrap_or("token")
}

fn too_deep(at: Position) -> Fault {
    Fault::at(at, "expression is nested too deeply")
}

fn build(at: Position, height: usize, kind: ExprKind) -> Parsed<Expr> {
    if height > MOST_HEIGHT { Err(too_deep(at)) } else { Ok(Expr { at, height, kind }) }
}

fn height<'a>(parts: impl IntoIterator<Item = &'a Expr>) -> usize {
    parts.into_iter().map(|part| part.height).max().unwrap_or_default() + 1
}

fn clause_height(clauses: &[Clause]) -> usize {
    let heights = clauses.iter().map(|clause| match clause {
        Clause::For { target, over } => target.height.max(over.height),
        Clause::If(condition) => condition.height,
    });
    // Each clause is a level of its own.
    heights.max().unwrap_or_default() + clauses.len()
}
