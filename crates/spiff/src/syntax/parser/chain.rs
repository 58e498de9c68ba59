//! The parser's rules for operands that begin with a bracket or a name, and for the links behind
//! them.

use super::Parser;
use crate::syntax::ast::{Arguments, Expr, Item, Link, Name, Range, Reference};

/// The meaning of `[ … ]`.
enum Bracket {
    Items(Vec<Item>),
    Range(Range),
}

impl Parser<'_> {
    pub(super) fn chained(&mut self) -> Option<Expr> {
        let (primary, mut links) = self.primary()?;
        let mut height = self.height;
        while let Some(link) = self.attempt(Self::link) {
            height = height.max(self.height);
            links.push(link);
        }
        self.height = height;
        self.alive()?;
        if links.is_empty() {
            return Some(primary);
        }
        self.raise(height)?;
        Some(Expr::Chain(Box::new(primary), links))
    }

    /// Parses an operand without its links. Only `.["name"]`, a dynamic step from the root, comes
    /// with a first link.
    fn primary(&mut self) -> Option<(Expr, Vec<Link>)> {
        let start = self.at;
        if let Some(form) = self.attempt(Self::bracket_form) {
            return Some((form, Vec::new()));
        }
        self.alive()?;
        let primary = match self.peek()? {
            b'[' => match self.bracket()? {
                Bracket::Items(items) => Expr::List(items),
                Bracket::Range(range) => Expr::Range(Box::new(range)),
            },
            b'{' => self.map_literal()?,
            b'(' => self.group()?,
            b'.' if self.peek_at(1) == Some(b'[') => {
                self.at += 1;
                let Bracket::Items(items) = self.bracket()? else { return None };
                if items.is_empty() {
                    return None;
                }
                let root = Reference { tag: None, absolute: true, steps: Vec::new() };
                return Some((Expr::Reference(root), vec![Link::Dynamic(items)]));
            }
            _ => {
                self.height = 1;
                Expr::Reference(self.reference()?)
            }
        };
        self.matched(start);
        Some((primary, Vec::new()))
    }

    fn group(&mut self) -> Option<Expr> {
        let start = self.at;
        if let Some((_, parsed)) = self.group.take_if(|(at, _)| *at == start) {
            self.at = parsed.end;
            self.height = parsed.height;
            return Some(parsed.expression);
        }
        self.byte(b'(')?;
        let inner = self.expression()?;
        self.byte(b')')?;
        self.raise(self.height)?;
        Some(Expr::Group(Box::new(inner)))
    }

    /// `{ k = v, … }`.
    fn map_literal(&mut self) -> Option<Expr> {
        let start = self.at;
        self.byte(b'{')?;
        self.matched(start);
        self.space();
        if self.byte(b'}').is_some() {
            self.height = 1;
            return Some(Expr::Map(Vec::new()));
        }
        let first = self.expression()?;
        let assignments = self.assignments_after(first)?;
        self.byte(b'}')?;
        self.raise(self.height)?;
        Some(Expr::Map(assignments))
    }

    /// Parses `[a, b...]` or `[a..b]`; both begin with the same expression.
    fn bracket(&mut self) -> Option<Bracket> {
        let start = self.at;
        self.byte(b'[')?;
        self.matched(start);
        if self.literal("..").is_some() {
            return self.range_end(None, 0);
        }
        let inner = self.at;
        self.space();
        if self.byte(b']').is_some() {
            self.height = 1;
            return Some(Bracket::Items(Vec::new()));
        }
        self.at = inner;
        let first = self.expression()?;
        let height = self.height;
        let expand = self.expands_item();
        if !expand && self.literal("..").is_some() {
            return self.range_end(Some(first), height);
        }
        let items = self.items_after(Item { expression: first, expand })?;
        self.byte(b']')?;
        self.raise(self.height)?;
        Some(Bracket::Items(items))
    }

    /// Reports whether `...` follows that belongs to an item, and not the `..` of a range whose end
    /// begins with a dot.
    fn expands_item(&mut self) -> bool {
        self.attempt(|parser| {
            let start = parser.at;
            parser.literal("...")?;
            parser.matched(start);
            parser.space();
            matches!(parser.peek(), Some(b',' | b']' | b')')).then_some(())
        })
        .is_some()
    }

    fn range_end(&mut self, start: Option<Expr>, height: u32) -> Option<Bracket> {
        self.height = 0;
        let end = self.expression();
        self.byte(b']')?;
        self.raise(self.height.max(height))?;
        Some(Bracket::Range(Range { start, end }))
    }

    /// Parses the items behind the first one; the height is that of all of them.
    fn items_after(&mut self, first: Item) -> Option<Vec<Item>> {
        let mut height = self.height;
        let mut items = vec![first];
        while self.byte(b',').is_some() {
            let expression = self.expression()?;
            height = height.max(self.height);
            let expand = self.expands_item();
            items.push(Item { expression, expand });
        }
        self.height = height;
        Some(items)
    }

    fn link(&mut self) -> Option<Link> {
        let start = self.at;
        let link = match self.peek()? {
            b'(' => Link::Call { arguments: self.arguments()?, curry: false },
            b'*' => {
                self.at += 1;
                Link::Call { arguments: self.arguments()?, curry: true }
            }
            b'.' | b'[' => self.step_link()?,
            _ => return None,
        };
        self.matched(start);
        Some(link)
    }

    fn step_link(&mut self) -> Option<Link> {
        self.height = 1;
        if let Some(step) = self.step() {
            return Some(Link::Step(step));
        }
        let _ = self.byte(b'.');
        if self.literal("[*]").is_some() {
            return Some(Link::All);
        }
        match self.bracket()? {
            Bracket::Items(items) if items.is_empty() => None,
            Bracket::Items(items) => Some(Link::Dynamic(items)),
            Bracket::Range(range) => Some(Link::Slice(range)),
        }
    }

    /// Parses `( args )`. Named arguments come before the others.
    fn arguments(&mut self) -> Option<Arguments> {
        let start = self.at;
        self.byte(b'(')?;
        self.space();
        self.matched(start);
        let mut arguments = Arguments::default();
        if self.byte(b')').is_some() {
            self.height = 1;
            return Some(arguments);
        }
        let mut height = 0;
        while let Some(named) = self.attempt(|parser| {
            if !arguments.named.is_empty() {
                parser.byte(b',')?;
            }
            parser.named_argument()
        }) {
            height = height.max(self.height);
            arguments.named.push(named);
        }
        if arguments.named.is_empty() || self.byte(b',').is_some() {
            let expression = self.expression()?;
            let expand = self.expands_item();
            arguments.positional = self.items_after(Item { expression, expand })?;
            height = height.max(self.height);
        }
        self.byte(b')')?;
        self.raise(height)?;
        Some(arguments)
    }

    fn named_argument(&mut self) -> Option<(Name, Expr)> {
        self.space();
        let name = self.name()?;
        self.space();
        self.byte(b'=')?;
        let value = self.expression()?;
        Some((name, value))
    }
}
