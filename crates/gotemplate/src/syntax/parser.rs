//! The parser's upper half: texts, control structures, definitions (`gotemplate.md` 3 and 4).
//!
//! The parser reads tokens with the same look-ahead as Go, because error messages show the line of
//! the last token that was read.

use std::collections::{HashMap, HashSet};

use super::lexer::{Lexer, LoopWords};
use super::literal::unquote;
use super::scope::{Mark, Scope};
use super::token::{Token, TokenKind};
use super::tree::{Branch, Definition, Kind, NodeId, Tree};
use crate::functions::Functions;
use crate::options::Delimiters;
use crate::stack;
use crate::text;
use crate::value::Str;

/// Levels of nested control structures. Go has no limit; this one is the same as for parentheses
/// (`gotemplate.md` 10).
const MAX_BLOCK_DEPTH: usize = 10_000;

/// A parse failure: the line of the last token read, and the message.
#[derive(Debug)]
pub(crate) struct ParseError {
    pub(crate) line: usize,
    pub(crate) message: String,
}

type Definitions = HashMap<Str, Defined, foldhash::fast::RandomState>;

/// A parsed source: the arena and the named bodies in it.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) tree: Tree,
    pub(crate) definitions: Definitions,
}

/// Parses a source. Its own body gets the given name.
pub(crate) fn parse(
    name: &str,
    source: &[u8],
    functions: &Functions,
    delimiters: &Delimiters,
) -> std::result::Result<Parsed, ParseError> {
    if u32::try_from(source.len()).is_err() {
        return Err(ParseError { line: 1, message: "template source exceeds 4 GiB".to_string() });
    }
    let loop_words = LoopWords {
        break_is_keyword: functions.find("break").is_none(),
        continue_is_keyword: functions.find("continue").is_none(),
    };
    let mut parser = Parser {
        name,
        source,
        functions,
        lexer: Lexer::new(source, delimiters, loop_words),
        ahead: Vec::new(),
        last_line: 1,
        tree: Tree::for_source(source.len()),
        names: HashSet::default(),
        definitions: Definitions::default(),
        body: Body::new(),
        block_depth: 0,
    };
    match parser.source_file() {
        Ok(()) => Ok(Parsed { tree: parser.tree, definitions: parser.definitions }),
        Err(message) => Err(ParseError { line: parser.last_line, message }),
    }
}

pub(super) struct Parser<'p> {
    /// The name that every error shows, also for errors in definitions.
    name: &'p str,
    pub(super) source: &'p [u8],
    pub(super) functions: &'p Functions,
    lexer: Lexer<'p>,
    /// Tokens that are read but not consumed, the next one last.
    ahead: Vec<Token>,
    last_line: usize,
    pub(super) tree: Tree,
    names: HashSet<Str, foldhash::fast::RandomState>,
    definitions: Definitions,
    pub(super) body: Body,
    block_depth: usize,
}

/// Parser state of one named body; each body begins with a new one.
pub(super) struct Body {
    pub(super) scope: Scope,
    range_depth: usize,
    /// Line on which the action being parsed began. The message of a lexer error on another line
    /// names it.
    action_line: Option<usize>,
    pub(super) paren_depth: usize,
}

impl Body {
    fn new() -> Body {
        Body { scope: Scope::new(), range_depth: 0, action_line: None, paren_depth: 0 }
    }
}

/// A named body, and whether it is empty apart from space and comments (`gotemplate.md` 3).
#[derive(Debug)]
pub(crate) struct Defined {
    pub(crate) definition: Definition,
    pub(crate) empty: bool,
}

/// One item of a list of nodes: a node, or the mark that ends the list.
enum Item {
    Node(NodeId),
    End,
    Else,
}

/// Result of the parser's functions. Parsing stops at the first error, whose line is the parser's
/// `last_line`.
pub(super) type Result<T> = std::result::Result<T, String>;

impl Parser<'_> {
    // === tokens ===

    pub(super) fn next(&mut self) -> Token {
        self.ahead.pop().unwrap_or_else(|| {
            let token = self.lexer.next_token();
            self.last_line = token.line;
            token
        })
    }

    pub(super) fn back(&mut self, token: Token) {
        self.ahead.push(token);
    }

    pub(super) fn peek(&mut self) -> Token {
        let token = self.next();
        self.back(token);
        token
    }

    pub(super) fn next_non_space(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.kind != TokenKind::Space {
                return token;
            }
        }
    }

    pub(super) fn peek_non_space(&mut self) -> Token {
        let token = self.next_non_space();
        self.back(token);
        token
    }

    pub(super) fn text_of(&self, token: Token) -> &[u8] {
        &self.source[token.start..token.end]
    }

    fn expect(&mut self, kind: TokenKind, context: &str) -> Result<Token> {
        let token = self.next_non_space();
        if token.kind == kind { Ok(token) } else { Err(self.unexpected(token, context)) }
    }

    /// Returns the message for a token in a place where it is not allowed.
    pub(super) fn unexpected(&self, token: Token, context: &str) -> String {
        if token.kind != TokenKind::Error {
            return format!("unexpected {} in {context}", self.describe(token));
        }
        let message = self.lexer.message();
        match self.body.action_line {
            Some(line) if line != token.line => {
                let place = format!(" started at {}:{line}", self.name);
                let joint = if message.ends_with(" action") { "" } else { " in action" };
                format!("{message}{joint}{place}")
            }
            _ => message.to_string(),
        }
    }

    fn describe(&self, token: Token) -> String {
        let source = self.text_of(token);
        if token.kind == TokenKind::Eof {
            return "EOF".to_string();
        }
        if token.kind.is_keyword() {
            return format!("<{}>", crate::text::lossy(source));
        }
        if source.len() <= 10 {
            return text::quote(source);
        }
        let head: usize = text::runes(source).take(10).map(|(_, raw)| raw.len()).sum();
        format!("{}...", text::quote(&source[..head]))
    }

    /// Returns the shared copy of a name.
    pub(super) fn intern(&mut self, name: &[u8]) -> Str {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let name = Str::from(name);
        self.names.insert(name.clone());
        name
    }

    // === bodies ===

    fn source_file(&mut self) -> Result<()> {
        let mut items = Vec::new();
        loop {
            let token = self.next();
            match token.kind {
                TokenKind::Eof => break,
                TokenKind::LeftDelimiter => {
                    let first = self.next_non_space();
                    if first.kind == TokenKind::Define {
                        self.definition()?;
                        continue;
                    }
                    self.back(first);
                    self.back(token);
                }
                _ => self.back(token),
            }
            match self.text_or_action()? {
                Item::Node(node) => items.push(node),
                Item::End => return Err("unexpected {{end}}".to_string()),
                Item::Else => return Err("unexpected {{else}}".to_string()),
            }
        }
        let root = self.tree.add(0, Kind::List(items.into()));
        let name = self.intern(self.name.as_bytes());
        self.define(name, root)
    }

    fn definition(&mut self) -> Result<()> {
        const CONTEXT: &str = "define clause";
        let outer = std::mem::replace(&mut self.body, Body::new());
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        self.expect(TokenKind::RightDelimiter, CONTEXT)?;
        self.named_body(name, CONTEXT)?;
        self.body = outer;
        Ok(())
    }

    /// Parses the nodes up to `{{end}}`, as the body of a definition or block.
    fn named_body(&mut self, name: Str, context: &str) -> Result<()> {
        let (root, ended_by_else) = self.item_list()?;
        if ended_by_else {
            return Err(format!("unexpected {{{{else}}}} in {context}"));
        }
        self.define(name, root)
    }

    /// Adds a definition. An empty body gives way to another one; two non-empty ones of the same
    /// name are an error (`gotemplate.md` 3).
    fn define(&mut self, name: Str, root: NodeId) -> Result<()> {
        let empty = self.is_empty(root);
        if let Some(older) = self.definitions.get(&name)
            && !older.empty
        {
            if empty {
                return Ok(());
            }
            return Err(format!("template: multiple definition of template {}", text::quote(&name)));
        }
        let definition = Definition { root, slots: self.body.scope.slots() };
        self.definitions.insert(name, Defined { definition, empty });
        Ok(())
    }

    fn is_empty(&self, root: NodeId) -> bool {
        let Kind::List(items) = self.tree.kind(root) else { return false };
        items.iter().all(|&item| {
            let node = self.tree.node(item);
            let Kind::Text { end } = node.kind else { return false };
            text::runes(&self.source[node.pos..end]).all(|(c, _)| c.is_some_and(text::is_space))
        })
    }

    /// Parses nodes up to an `{{end}}` or `{{else}}`. Returns whether it was `{{else}}`.
    fn item_list(&mut self) -> Result<(NodeId, bool)> {
        let pos = self.peek_non_space().start;
        let mut items = Vec::new();
        while self.peek_non_space().kind != TokenKind::Eof {
            let ended_by_else = match self.text_or_action()? {
                Item::Node(node) => {
                    items.push(node);
                    continue;
                }
                Item::End => false,
                Item::Else => true,
            };
            return Ok((self.tree.add(pos, Kind::List(items.into())), ended_by_else));
        }
        Err("unexpected EOF".to_string())
    }

    fn text_or_action(&mut self) -> Result<Item> {
        let token = self.next_non_space();
        match token.kind {
            TokenKind::Text => Ok(Item::Node(self.tree.add(token.start, Kind::Text { end: token.end }))),
            TokenKind::LeftDelimiter => {
                self.body.action_line = Some(token.line);
                let item = self.action()?;
                self.body.action_line = None;
                Ok(item)
            }
            _ => Err(self.unexpected(token, "input")),
        }
    }

    fn action(&mut self) -> Result<Item> {
        let token = self.next_non_space();
        Ok(Item::Node(match token.kind {
            TokenKind::Block => self.nested(Parser::block)?,
            TokenKind::Break => self.loop_control(token, Kind::Break, "{{break}}")?,
            TokenKind::Continue => self.loop_control(token, Kind::Continue, "{{continue}}")?,
            TokenKind::Else => return self.else_mark(),
            TokenKind::End => {
                self.expect(TokenKind::RightDelimiter, "end")?;
                return Ok(Item::End);
            }
            TokenKind::If | TokenKind::Range | TokenKind::With => self.control(token.kind)?,
            TokenKind::Template => self.template_call()?,
            _ => {
                self.back(token);
                let pipe = self.pipeline("command", TokenKind::RightDelimiter)?;
                self.tree.add(token.start, Kind::Action { pipe })
            }
        }))
    }

    fn loop_control(&mut self, word: Token, kind: Kind, context: &str) -> Result<NodeId> {
        let token = self.next_non_space();
        if token.kind != TokenKind::RightDelimiter {
            return Err(self.unexpected(token, context));
        }
        if self.body.range_depth == 0 {
            return Err(format!("{context} outside {{{{range}}}}"));
        }
        Ok(self.tree.add(word.start, kind))
    }

    /// Parses `{{else}}`. An `if` or `with` behind it is left to the control structure that it
    /// continues.
    fn else_mark(&mut self) -> Result<Item> {
        let next = self.peek_non_space();
        if !matches!(next.kind, TokenKind::If | TokenKind::With) {
            self.expect(TokenKind::RightDelimiter, "else")?;
        }
        Ok(Item::Else)
    }

    /// Parses one level of nested blocks, bounded in number and guarded on the native stack.
    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.block_depth >= MAX_BLOCK_DEPTH {
            return Err("max block depth exceeded".to_string());
        }
        self.block_depth += 1;
        let result = stack::guarded(|| parse(self));
        self.block_depth -= 1;
        result
    }

    fn control(&mut self, keyword: TokenKind) -> Result<NodeId> {
        self.nested(|parser| {
            let mark = parser.body.scope.mark();
            let node = parser.control_parts(keyword)?;
            parser.body.scope.leave(mark);
            Ok(node)
        })
    }

    fn control_parts(&mut self, keyword: TokenKind) -> Result<NodeId> {
        let is_range = keyword == TokenKind::Range;
        let context = match keyword {
            TokenKind::If => "if",
            TokenKind::With => "with",
            _ => "range",
        };
        let pipe = self.pipeline(context, TokenKind::RightDelimiter)?;
        let after_pipe = self.body.scope.mark();
        self.body.range_depth += usize::from(is_range);
        let (body, has_else) = self.item_list()?;
        self.body.range_depth -= usize::from(is_range);
        self.body.scope.leave_branch(after_pipe);
        let otherwise = if has_else { Some(self.else_branch(keyword, after_pipe)?) } else { None };
        let branch = Branch { pipe, body, otherwise };
        let pos = self.tree.node(pipe).pos;
        Ok(self.tree.add(
            pos,
            match keyword {
                TokenKind::If => Kind::If(branch),
                TokenKind::With => Kind::With(branch),
                _ => Kind::Range(branch),
            },
        ))
    }

    fn else_branch(&mut self, keyword: TokenKind, after_pipe: Mark) -> Result<NodeId> {
        let next = self.peek();
        if matches!(keyword, TokenKind::If | TokenKind::With) && next.kind == keyword {
            self.next();
            let node = self.control(keyword)?;
            return Ok(self.tree.add(next.start, Kind::List([node].into())));
        }
        let (list, ended_by_else) = self.item_list()?;
        if ended_by_else {
            return Err("expected end; found {{else}}".to_string());
        }
        self.body.scope.leave_branch(after_pipe);
        Ok(list)
    }

    fn block(&mut self) -> Result<NodeId> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, TokenKind::RightDelimiter)?;
        let outer = std::mem::replace(&mut self.body, Body::new());
        self.named_body(name.clone(), CONTEXT)?;
        self.body = outer;
        Ok(self.tree.add(token.start, Kind::Template { name, pipe: Some(pipe) }))
    }

    fn template_call(&mut self) -> Result<NodeId> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let next = self.next_non_space();
        let pipe = if next.kind == TokenKind::RightDelimiter {
            None
        } else {
            self.back(next);
            Some(self.pipeline(CONTEXT, TokenKind::RightDelimiter)?)
        };
        Ok(self.tree.add(token.start, Kind::Template { name, pipe }))
    }

    fn template_name(&mut self, token: Token, context: &str) -> Result<Str> {
        match token.kind {
            TokenKind::String | TokenKind::RawString => {
                let name = unquote(self.text_of(token))?;
                Ok(self.intern(&name))
            }
            _ => Err(self.unexpected(token, context)),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check_all;

    #[test]
    fn parse_errors_have_the_wording_of_the_original() {
        check_all(&[
            ("{{}}", "error 1: missing value for command"),
            ("{{if}}", "error 1: missing value for if"),
            ("{{range $x,}}", "error 1: missing value for range"),
            (r#"{{block "x"}}"#, "error 1: missing value for block clause"),
            ("{{()}}", "error 1: missing value for parenthesized pipeline"),
            ("{{if .x}}", "error 1: unexpected EOF"),
            ("{{end}}", "error 1: unexpected {{end}}"),
            ("{{else}}", "error 1: unexpected {{else}}"),
            ("{{if 1}}{{else}}{{else}}{{end}}", "error 1: expected end; found {{else}}"),
            ("{{if 1}}{{else with 1}}{{end}}", "error 1: unexpected <with> in input"),
            ("{{with 1}}{{else if 1}}{{end}}", "error 1: unexpected <if> in input"),
            ("{{if 1}}{{else range 1}}{{end}}", "error 1: unexpected <range> in else"),
            ("{{break}}", "error 1: {{break}} outside {{range}}"),
            ("{{range 1}}{{else}}{{continue}}{{end}}", "error 1: {{continue}} outside {{range}}"),
            ("{{range 1}}{{break 1}}{{end}}", r#"error 1: unexpected "1" in {{break}}"#),
            ("{{define x}}", r#"error 1: unexpected "x" in define clause"#),
            (r#"{{define "x" .}}"#, "error 1: unexpected <.> in define clause"),
            ("{{template}}", r#"error 1: unexpected "}}" in template clause"#),
            (r#"{{if 1}}{{define "x"}}{{end}}{{end}}"#, "error 1: unexpected <define> in command"),
            ("a\n{{print\n\n\"b}}", "error 4: unterminated quoted string in action started at t:2"),
            ("a\n{{print\n", "error 3: unclosed action started at t:2"),
        ]);
    }

    #[test]
    fn definitions_share_one_name_space() {
        check_all(&[
            (r#"{{define "a"}}1{{end}}{{define "a"}} {{end}}{{template "a"}}"#, "1"),
            (r#"{{define "a"}} {{end}}{{define "a"}}1{{end}}{{template "a"}}"#, "1"),
            (r#"{{template "a"}}{{define "a"}}later{{end}}"#, "later"),
            (
                r#"{{define "a"}}1{{end}}{{define "a"}}2{{end}}"#,
                r#"error 1: template: multiple definition of template "a""#,
            ),
            (r#"{{define "t"}}x{{end}}y"#, r#"error 1: template: multiple definition of template "t""#),
            (r#"{{block "b" 5}}[{{.}}]{{end}}{{template "b" 6}}"#, "[5][6]"),
        ]);
    }
}
