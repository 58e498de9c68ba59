//! Tokens of an action and of the text around actions (`gotemplate.md` 2.3).

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// An error, whose message is [`super::lexer::Lexer::message`].
    Error,
    Eof,
    Text,
    LeftDelimiter,
    RightDelimiter,
    Space,
    Bool,
    /// A printable ASCII character without a meaning of its own.
    Other,
    CharConstant,
    Complex,
    Number,
    Assign,
    Declare,
    Pipe,
    LeftParen,
    RightParen,
    Dot,
    Field,
    Variable,
    Identifier,
    String,
    RawString,
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Nil,
    Range,
    Template,
    With,
}

impl TokenKind {
    /// Reports whether messages show the token as `<word>`; `.` and `nil` count as keywords there.
    pub(crate) fn is_keyword(self) -> bool {
        use TokenKind::{Block, Break, Continue, Define, Dot, Else, End, If, Nil, Range, Template, With};
        matches!(
            self,
            Dot | Block | Break | Continue | Define | Else | End | If | Nil | Range | Template | With
        )
    }

    /// Returns the keyword that a word is, if it is one.
    pub(crate) fn keyword(word: &[u8]) -> Option<TokenKind> {
        Some(match word {
            b"block" => TokenKind::Block,
            b"break" => TokenKind::Break,
            b"continue" => TokenKind::Continue,
            b"define" => TokenKind::Define,
            b"else" => TokenKind::Else,
            b"end" => TokenKind::End,
            b"if" => TokenKind::If,
            b"nil" => TokenKind::Nil,
            b"range" => TokenKind::Range,
            b"template" => TokenKind::Template,
            b"with" => TokenKind::With,
            _ => return None,
        })
    }
}

/// A piece of the source: a byte range and the line on which it starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) line: usize,
}
