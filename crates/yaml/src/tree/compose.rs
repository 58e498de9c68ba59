//! Composer from parser events and comments to a tree.
//!
//! A comment on the line of a value belongs to that value. One behind a key whose value begins on a
//! later line belongs to the key. Comments on lines of their own belong to the entry below them.
//! There are two exceptions: comments that are indented deeper than the entry below, and comments
//! directly below an entry with an empty line behind them. Those are the foot of the entry above.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle, Tag};

use super::{Comments, Content, Mapping, Node, Notation, Pair, Scalar, Sequence};
use crate::error::Error;
use crate::events::{message_of, position_of};
use crate::node::Position;

/// Default size that aliases may add to a document, in nodes and in blocks of 64 bytes of text.
const ALIAS_BUDGET: usize = 500_000;
/// Limit in bytes for the copies that are kept for aliases.
const MOST_KEPT_BYTES: usize = 64 << 20;

/// The limits of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of values, which includes beginnings and ends of lists and maps, and comments.
    /// Aliases may add as many.
    pub values: usize,
    /// Levels of nested lists and maps.
    pub depth: usize,
}

/// The default limits are those of the parser itself.
impl Default for Limits {
    fn default() -> Self {
        Self { values: usize::MAX, depth: usize::MAX }
    }
}

/// A document and the lines of its value.
#[derive(Debug, Clone)]
pub struct Tree {
    /// The value; `None` if the text has only comments.
    pub root: Option<Node>,
    /// Lines of the value, from 0, the end excluded. Comments at the margin above or below it are
    /// outside.
    pub lines: std::ops::Range<usize>,
    /// True if the first list below a key is indented; `None` if there is no such list.
    pub indents_lists: Option<bool>,
    /// Number of values for [`Limits::values`], without those that aliases have added.
    pub values: usize,
}

/// Reads a text with one document. Aliases are replaced by copies.
///
/// # Errors
///
/// The text is not YAML, a map has a duplicate key or one that is not a scalar, or aliases add too
/// much.
pub fn compose(text: &str) -> Result<Tree, Error> {
    compose_within(text, Limits::default())
}

/// Reads a text with one document, within limits.
///
/// # Errors
///
/// Fails as [`compose`] does, and for more or deeper values than the limits allow.
pub fn compose_within(text: &str, limits: Limits) -> Result<Tree, Error> {
    let mut composer = Composer::new(text, limits)?;
    let values = composer.values;
    while matches!(composer.peek(), Some((Event::StreamStart | Event::DocumentStart(..), _))) {
        composer.at += 1;
    }
    let Some((event, span)) = composer.peek().cloned() else {
        return Ok(Tree { root: None, lines: 0..0, indents_lists: None, values });
    };
    let is_nothing = match &event {
        Event::Scalar(_, ScalarStyle::Plain, 0, None) => span.is_empty(),
        Event::DocumentEnd | Event::StreamEnd => true,
        _ => false,
    };
    if is_nothing {
        return Ok(Tree { root: None, lines: 0..0, indents_lists: None, values });
    }
    let first = span.tag_span().map_or(span.start, |span| span.start);
    let first = first.line().max(1);
    // Comments above the value are not part of it.
    while composer.own.front().is_some_and(|comment| comment.line < first) {
        composer.own.pop_front();
    }
    composer.last_line = first;
    let root = composer.node(false)?;
    composer.end()?;
    let lines = first - 1..composer.last_line;
    Ok(Tree { root: Some(root), lines, indents_lists: composer.indents_lists, values })
}

/// A comment on a line of its own.
struct OwnLine {
    line: usize,
    column: usize,
    text: String,
}

/// Comments on lines of their own without an empty line between them.
struct Block {
    first: usize,
    last: usize,
    column: usize,
    text: String,
}

struct Composer<'t> {
    text: &'t str,
    lines: Vec<&'t str>,
    events: Vec<(Event<'t>, Span)>,
    at: usize,
    /// Comments behind content, by line, with the byte at which they begin.
    behind: BTreeMap<usize, (usize, String)>,
    own: VecDeque<OwnLine>,
    /// The last line with content that has been read, comments included.
    last_line: usize,
    anchors: HashMap<usize, Node>,
    /// True if an alias may refer to a node with an anchor.
    has_aliases: bool,
    /// Bytes of the copies that are kept for aliases.
    kept: usize,
    alias_budget: usize,
    indents_lists: Option<bool>,
    /// Number of events and comments of the text.
    values: usize,
}

impl<'t> Composer<'t> {
    fn new(text: &'t str, limits: Limits) -> Result<Self, Error> {
        let mut options = granit_parser::Options::default();
        options.max_buffered_comment_events = usize::MAX;
        let mut composer = Self {
            text,
            lines: text.lines().collect(),
            events: Vec::new(),
            at: 0,
            behind: BTreeMap::new(),
            own: VecDeque::new(),
            last_line: 0,
            anchors: HashMap::new(),
            has_aliases: text.contains('*'),
            kept: 0,
            alias_budget: ALIAS_BUDGET.min(limits.values),
            indents_lists: None,
            values: 0,
        };
        let mut own = Vec::new();
        let mut depth = 0_usize;
        for event in Parser::new_from_str_with_options(text, options) {
            let (event, span) =
                event.map_err(|error| Error::new(position_of(error.marker()), message_of(&error)))?;
            composer.values += 1;
            match event {
                Event::MappingStart(..) | Event::SequenceStart(..) => depth += 1,
                Event::MappingEnd | Event::SequenceEnd => depth = depth.saturating_sub(1),
                _ => {}
            }
            if composer.values > limits.values {
                let problem = format!("the text has more than {} values; divide it", limits.values);
                return Err(Error::new(position_of(&span.start), problem));
            }
            if depth > limits.depth {
                let problem = format!("more than {} lists and maps are nested", limits.depth);
                return Err(Error::new(position_of(&span.start), problem));
            }
            if matches!(event, Event::Comment(..)) {
                composer.comment(&span, &mut own);
            } else {
                composer.events.push((event, span));
            }
        }
        own.sort_by_key(|comment| comment.line);
        composer.own = own.into();
        Ok(composer)
    }

    fn comment(&mut self, span: &Span, own: &mut Vec<OwnLine>) {
        let Some(range) = span.byte_range() else { return };
        let Some(text) = self.text.get(range.clone()) else { return };
        let before = self.text.get(..range.start).unwrap_or_default();
        let before = before.rsplit('\n').next().unwrap_or_default();
        let (line, text) = (span.start.line(), text.trim_end().to_owned());
        if before.trim().is_empty() {
            own.push(OwnLine { line, column: span.start.col(), text });
        } else {
            self.behind.insert(line, (range.start, text));
        }
    }

    fn peek(&self) -> Option<&(Event<'t>, Span)> {
        self.events.get(self.at)
    }

    fn position(&self) -> Position {
        self.peek().map_or(Position { line: 1, column: 1 }, |(_, span)| position_of(&span.start))
    }

    fn end(&mut self) -> Result<(), Error> {
        while let Some((event, _)) = self.peek() {
            if !matches!(event, Event::DocumentEnd | Event::StreamEnd) {
                return Err(Error::new(self.position(), "another document begins here"));
            }
            self.at += 1;
        }
        Ok(())
    }

    /// Reads the node that begins here.
    fn node(&mut self, in_flow: bool) -> Result<Node, Error> {
        let position = self.position();
        let Some((event, span)) = self.peek().cloned() else {
            return Err(Error::new(position, "a value is expected here"));
        };
        self.at += 1;
        let (content, anchor, tag) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                // The parser gives a missing value the text `~`.
                let text = if span.is_empty() { "" } else { text.as_ref() };
                (scalar(text, style), anchor, tag)
            }
            Event::SequenceStart(style, anchor, tag) => {
                let is_flow = in_flow || style == StructureStyle::Flow;
                let items = self.items(is_flow, self.dash_column(&span))?;
                (Content::Sequence(Sequence { items, is_flow }), anchor, tag)
            }
            Event::MappingStart(style, anchor, tag) => {
                let is_flow = in_flow || style == StructureStyle::Flow;
                let pairs = self.pairs(is_flow, span.start.col())?;
                (Content::Mapping(Mapping { pairs, is_flow }), anchor, tag)
            }
            Event::Alias(id) => return self.alias(id, &span, position),
            _ => return Err(Error::new(position, "a value is expected here")),
        };
        let tag = tag.map(|tag| written_tag(&tag));
        let mut node = Node { content, comments: Comments::default(), tag, line: position.line };
        if anchor != 0 && self.has_aliases {
            let kept = self.kept.checked_add(size(&node)).filter(|kept| *kept <= MOST_KEPT_BYTES);
            self.kept =
                kept.ok_or_else(|| Error::new(position, "the document contains excessive anchors"))?;
            self.anchors.insert(anchor, node.clone());
        }
        self.line_comment(&mut node, &span);
        Ok(node)
    }

    /// Returns the column of the first dash of a list on lines of its own. The parser gives the
    /// column of the item behind the dash.
    fn dash_column(&self, span: &Span) -> usize {
        let line = self.lines.get(span.start.line().saturating_sub(1)).copied().unwrap_or_default();
        let before = line.len() - line.trim_start_matches(' ').len();
        if line.trim_start_matches(' ').starts_with('-') && before <= span.start.col() {
            before
        } else {
            span.start.col()
        }
    }

    fn alias(&mut self, id: usize, span: &Span, position: Position) -> Result<Node, Error> {
        let Some(target) = self.anchors.get(&id) else {
            return Err(Error::new(position, "an anchor contains an alias to itself"));
        };
        self.alias_budget = self
            .alias_budget
            .checked_sub(weight(target))
            .ok_or_else(|| Error::new(position, "the document contains excessive aliasing"))?;
        let mut node = target.clone();
        node.comments = Comments::default();
        self.last_line = self.last_line.max(span.end.line());
        self.take_behind(&mut node, span.end.line(), span.end.byte_offset());
        Ok(node)
    }

    /// Records the last line of a scalar or a flow collection, and takes the comment behind it.
    fn line_comment(&mut self, node: &mut Node, span: &Span) {
        match &node.content {
            Content::Scalar(Scalar { notation: Notation::Literal | Notation::Folded, .. }) => {
                let written = span.slice(self.text).unwrap_or_default().trim_end();
                // The header of a block text is on the line of its key or dash. The comment there
                // belongs to the text.
                let lines = written.matches('\n').count();
                self.last_line = self.last_line.max(span.start.line() + lines);
                let header = span.start.line();
                if let Some((_, comment)) = self.behind.remove(&header) {
                    node.comments.line = comment;
                }
            }
            Content::Scalar(_) => {
                self.last_line = self.last_line.max(span.end.line());
                if !span.is_empty() {
                    self.take_behind(node, span.end.line(), span.end.byte_offset());
                }
            }
            Content::Mapping(Mapping { is_flow: true, .. })
            | Content::Sequence(Sequence { is_flow: true, .. }) => {
                let end = self.events.get(self.at.saturating_sub(1)).map(|(_, span)| span.end);
                let Some(end) = end else { return };
                self.last_line = self.last_line.max(end.line());
                self.take_behind(node, end.line(), end.byte_offset());
            }
            _ => {}
        }
    }

    /// Takes the comment of a line, if there are only blanks and commas between the value and it.
    fn take_behind(&mut self, node: &mut Node, line: usize, end: Option<usize>) {
        let Some((start, _)) = self.behind.get(&line) else { return };
        let between = end.and_then(|end| self.text.get(end..*start));
        if !between.is_some_and(|text| text.chars().all(|c| matches!(c, ' ' | '\t' | ','))) {
            return;
        }
        if let Some((_, comment)) = self.behind.remove(&line) {
            node.comments.line = comment;
        }
    }

    fn items(&mut self, is_flow: bool, column: usize) -> Result<Vec<Node>, Error> {
        let mut items: Vec<Node> = Vec::new();
        while let Some((event, span)) = self.peek() {
            if matches!(event, Event::SequenceEnd) {
                self.at += 1;
                break;
            }
            let line = span.start.line();
            let head = if is_flow {
                String::new()
            } else {
                self.above(line, items.last_mut().map(|item| &mut item.comments))
            };
            let mut head = self.behind_dash(line, head);
            let mut item = self.node(is_flow)?;
            if !head.is_empty() {
                std::mem::swap(&mut item.comments.head, &mut head);
            }
            items.push(item);
        }
        if let (false, Some(last)) = (is_flow, items.last_mut()) {
            self.below(column, &mut last.comments);
        }
        Ok(items)
    }

    /// Moves a comment behind a dash whose item begins on a later line to the head of the item.
    fn behind_dash(&mut self, line: usize, head: String) -> String {
        let passed = self.behind.range(..line).next_back().filter(|(at, _)| **at > self.last_line);
        let Some((&at, _)) = passed else { return head };
        let Some((_, comment)) = self.behind.remove(&at) else { return head };
        if head.is_empty() { comment } else { format!("{comment}\n{head}") }
    }

    fn pairs(&mut self, is_flow: bool, column: usize) -> Result<Vec<Pair>, Error> {
        let mut pairs: Vec<Pair> = Vec::new();
        let mut known: HashSet<String> = HashSet::new();
        while let Some((event, span)) = self.peek() {
            if matches!(event, Event::MappingEnd) {
                self.at += 1;
                break;
            }
            let (line, key_column, position) = (span.start.line(), span.start.col(), self.position());
            let head = if is_flow {
                String::new()
            } else {
                self.above(line, pairs.last_mut().map(|pair| &mut pair.key.comments))
            };
            let mut key = self.key()?;
            key.comments.head = head;
            if !known.insert(key.text().unwrap_or_default().to_owned()) {
                return Err(Error::new(position, "the map already has this key"));
            }
            let begins = self.peek().map_or(line, |(_, span)| span.start.line());
            if let Some((Event::SequenceStart(StructureStyle::Block, ..), span)) = self.peek() {
                let is_indented = self.dash_column(span) > key_column;
                self.indents_lists.get_or_insert(is_indented);
            }
            let mut value = self.node_of_key(&mut key, line, begins, is_flow)?;
            if key.comments.foot.is_empty() && !is_flow {
                key.comments.foot = std::mem::take(&mut value.comments.foot);
            }
            pairs.push(Pair { key, value });
        }
        if let (false, Some(last)) = (is_flow, pairs.last_mut()) {
            self.below(column, &mut last.key.comments);
        }
        Ok(pairs)
    }

    fn node_of_key(
        &mut self,
        key: &mut Node,
        line: usize,
        begins: usize,
        is_flow: bool,
    ) -> Result<Node, Error> {
        let is_block = matches!(
            self.peek(),
            Some((
                Event::MappingStart(StructureStyle::Block, ..)
                    | Event::SequenceStart(StructureStyle::Block, ..),
                _
            ))
        );
        if is_block && begins > line {
            if let Some((_, comment)) = self.behind.remove(&line) {
                key.comments.line = comment;
            }
            self.last_line = self.last_line.max(line);
        }
        let mut value = self.node(is_flow)?;
        if value.comments.line.is_empty()
            && !is_block
            && !is_flow
            && let Some((_, comment)) = self.behind.remove(&line)
        {
            value.comments.line = comment;
        }
        Ok(value)
    }

    /// Reads a key, without the comments around it.
    fn key(&mut self) -> Result<Node, Error> {
        let position = self.position();
        let Some((event, span)) = self.peek().cloned() else {
            return Err(Error::new(position, "a key is expected here"));
        };
        self.at += 1;
        let node = match event {
            Event::Scalar(text, style, _, tag) => {
                let tag = tag.map(|tag| written_tag(&tag));
                let content = scalar(&text, style);
                Node { content, comments: Comments::default(), tag, line: position.line }
            }
            Event::Alias(id) => self.alias(id, &span, position)?,
            _ => return Err(Error::new(position, "a list or a map is not allowed as a key")),
        };
        if !matches!(node.content, Content::Scalar(_)) {
            return Err(Error::new(position, "a list or a map is not allowed as a key"));
        }
        self.last_line = self.last_line.max(span.end.line());
        Ok(node)
    }

    /// Returns the comments above a line that are the head of the entry there. Comments of the
    /// entry before are added to its foot.
    fn above(&mut self, line: usize, before: Option<&mut Comments>) -> String {
        let mut blocks = self.blocks(line);
        let follows = blocks.get(1).map_or(line, |next| next.first);
        let is_foot =
            blocks.first().is_some_and(|block| block.first == self.last_line + 1 && block.last + 1 < follows);
        if let (true, Some(before)) = (is_foot, before) {
            let block = blocks.remove(0);
            push_group(&mut before.foot, &block.text);
        }
        let mut head = String::new();
        for block in blocks {
            push_group(&mut head, &block.text);
        }
        head
    }

    /// Takes the comments below the last entry of a collection that are indented deeper than the
    /// next content.
    fn below(&mut self, column: usize, last: &mut Comments) {
        let is_start = |event: &Event<'_>| {
            matches!(
                event,
                Event::Scalar(..) | Event::Alias(_) | Event::MappingStart(..) | Event::SequenceStart(..)
            )
        };
        let next = self.events.get(self.at..).unwrap_or_default().iter().find(|(event, _)| is_start(event));
        let (line, next_column) =
            next.map_or((usize::MAX, None), |(_, span)| (span.start.line(), Some(span.start.col())));
        while let Some(comment) = self.own.front() {
            let is_deeper = match next_column {
                // At the end of the document there is no next content. A comment at the margin then
                // belongs only to collections at the margin.
                None => comment.column > 0 || column > 0 && comment.column >= column,
                Some(next) => comment.column > next,
            };
            if comment.line >= line || comment.column < column || !is_deeper {
                return;
            }
            let Some(comment) = self.own.pop_front() else { return };
            if !last.foot.is_empty() {
                let gap = if comment.line > self.last_line + 1 { "\n\n" } else { "\n" };
                last.foot.push_str(gap);
            }
            last.foot.push_str(&comment.text);
            self.last_line = comment.line;
        }
    }

    /// Returns the groups of comments above a line that are not taken yet.
    fn blocks(&mut self, line: usize) -> Vec<Block> {
        let mut blocks: Vec<Block> = Vec::new();
        while self.own.front().is_some_and(|comment| comment.line < line) {
            let Some(comment) = self.own.pop_front() else { break };
            match blocks.last_mut() {
                Some(block) if block.last + 1 == comment.line && block.column == comment.column => {
                    block.last = comment.line;
                    block.text.push('\n');
                    block.text.push_str(&comment.text);
                }
                _ => blocks.push(Block {
                    first: comment.line,
                    last: comment.line,
                    column: comment.column,
                    text: comment.text,
                }),
            }
        }
        blocks
    }
}

fn push_group(comments: &mut String, group: &str) {
    if !comments.is_empty() {
        comments.push_str("\n\n");
    }
    comments.push_str(group);
}

fn scalar(text: &str, style: ScalarStyle) -> Content {
    let notation = match style {
        ScalarStyle::Plain => Notation::Plain,
        ScalarStyle::SingleQuoted => Notation::SingleQuoted,
        ScalarStyle::DoubleQuoted => Notation::DoubleQuoted,
        ScalarStyle::Literal => Notation::Literal,
        ScalarStyle::Folded => Notation::Folded,
    };
    Content::Scalar(Scalar { text: text.to_owned(), notation })
}

/// Returns a tag in its short form.
fn written_tag(tag: &Tag) -> String {
    match tag.handle() {
        "tag:yaml.org,2002:" => format!("!!{}", tag.suffix()),
        handle => format!("{handle}{}", tag.suffix()),
    }
}

fn weight(node: &Node) -> usize {
    1 + match &node.content {
        Content::Scalar(scalar) => scalar.text.len() / 64,
        Content::Sequence(sequence) => sequence.items.iter().map(weight).sum(),
        Content::Mapping(mapping) => {
            mapping.pairs.iter().map(|pair| weight(&pair.key) + weight(&pair.value)).sum()
        }
    }
}

/// Returns the bytes of a copy.
fn size(node: &Node) -> usize {
    size_of::<Node>()
        + match &node.content {
            Content::Scalar(scalar) => scalar.text.len(),
            Content::Sequence(sequence) => sequence.items.iter().map(size).sum(),
            Content::Mapping(mapping) => {
                mapping.pairs.iter().map(|pair| size(&pair.key) + size(&pair.value)).sum()
            }
        }
}
