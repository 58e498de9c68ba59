//! File with one or more YAML documents. Changed documents are written anew, and the others keep
//! their bytes (`packagevariants.md` 7.8).

use groundwork_yaml::tree::{Content, Layout, Node, compose_within, write};

pub(crate) use groundwork_yaml::tree::Limits;

/// Limits above any package of the largest size, which only a hostile file reaches.
const LIMITS: Limits = Limits { values: 600_000, depth: 500 };

/// Documents of a file. A document with comments only belongs to the next one.
#[derive(Debug, Clone)]
pub struct File {
    pub documents: Vec<Document>,
    /// Comments after the last document.
    tail: String,
    has_crlf: bool,
    has_byte_order_mark: bool,
    layout: Layout,
    begins_with_separator: bool,
}

/// Document with a value.
#[derive(Debug, Clone)]
pub struct Document {
    /// Text above the value: separators and comments.
    above: String,
    /// Original text of the value, including the text below it.
    written: String,
    /// Comments below the value, if any.
    below: String,
    /// Value in its present form, which callers may change.
    pub root: Node,
    /// Original value as the writer lays it out, to detect changes.
    before: String,
}

/// Returns the message about a file of a package that cannot be parsed, with the remedy for files
/// that only look like YAML, such as the templates of a Helm chart.
pub(crate) fn unreadable(path: &str, error: &ReadError) -> String {
    let way_out = match crate::package::is_kptfile(path) {
        true => "",
        false => "; if it is not YAML, such as a template, name it in .krmignore",
    };
    format!("{path}: failed to parse input bytes: {error}{way_out}")
}

/// Reason why a text cannot be parsed: the parser's message with the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ReadError {
    pub line: usize,
    pub message: String,
}

impl File {
    /// Parses all documents of a text.
    ///
    /// # Errors
    /// The text is not YAML, a map in it has a duplicate key, or there are more values than any
    /// package has.
    pub fn read(text: &str) -> Result<Self, ReadError> {
        Self::read_within(text, LIMITS)
    }

    /// Parses all documents of a text within the given limits.
    ///
    /// # Errors
    /// Fails as [`Self::read`] does, and if the values are too many or too deeply nested.
    pub fn read_within(text: &str, limits: Limits) -> Result<Self, ReadError> {
        let mut limits = limits;
        let has_crlf = text.contains("\r\n") && text.matches('\n').count() == text.matches("\r\n").count();
        let unix = if has_crlf { text.replace("\r\n", "\n") } else { text.to_owned() };
        let unmarked = unix.strip_prefix('\u{feff}');
        let has_byte_order_mark = unmarked.is_some();
        let unix = unmarked.unwrap_or(&unix);
        let mut file = Self {
            documents: Vec::new(),
            tail: String::new(),
            has_crlf,
            has_byte_order_mark,
            layout: Layout::default(),
            begins_with_separator: unix.starts_with("---"),
        };
        let mut layout = None;
        let mut line = 0;
        let mut pending = String::new();
        for segment in segments(unix) {
            let tree = compose_within(segment, limits).map_err(|error| ReadError {
                line: line + error.position().line,
                message: error.message().to_owned(),
            })?;
            limits.values = limits.values.saturating_sub(tree.values);
            let begins = line;
            line += segment.matches('\n').count();
            let Some(mut root) = tree.root else {
                pending.push_str(segment);
                continue;
            };
            move_down(&mut root, begins);
            layout = layout.or(tree.indents_lists);
            let starts: Vec<usize> =
                std::iter::once(0).chain(segment.match_indices('\n').map(|(at, _)| at + 1)).collect();
            let at = |line: usize| starts.get(line).copied().unwrap_or(segment.len());
            let (begin, end) = (at(tree.lines.start), at(tree.lines.end));
            let below = segment.get(end..).unwrap_or_default();
            let mut above = std::mem::take(&mut pending);
            above.push_str(segment.get(..begin).unwrap_or_default());
            file.documents.push(Document {
                above,
                written: segment.get(begin..).unwrap_or_default().to_owned(),
                below: if below.trim().is_empty() { String::new() } else { below.to_owned() },
                before: String::new(),
                root,
            });
        }
        file.tail = pending;
        file.layout = Layout { indents_lists: layout.unwrap_or_default() };
        for document in &mut file.documents {
            document.before = write(&document.root, file.layout);
        }
        Ok(file)
    }

    /// Reports whether any document differs from its original text.
    pub fn is_changed(&self) -> bool {
        self.documents.iter().any(|document| document.is_changed(self.layout))
    }

    /// Returns the text, in which unchanged documents keep their bytes.
    pub fn text(&self) -> String {
        let documents = self.documents.iter().map(|document| (document, self.layout));
        self.assemble(documents)
    }

    /// Returns the text with the given documents instead of this file's own. Each keeps the layout
    /// of the file that it comes from.
    pub fn with(&self, documents: &[(&Document, &Self)]) -> String {
        self.assemble(documents.iter().map(|(document, file)| (*document, file.layout)))
    }

    fn assemble<'a>(&self, documents: impl Iterator<Item = (&'a Document, Layout)>) -> String {
        let mut text = String::new();
        if self.has_byte_order_mark {
            text.push('\u{feff}');
        }
        for (index, (document, layout)) in documents.enumerate() {
            let above = document.above.as_str();
            if index == 0 {
                // The first document gets a separator only if the file had one there.
                let stripped = if self.begins_with_separator { above } else { without_separator(above) };
                text.push_str(stripped);
            } else {
                if !text.ends_with('\n') {
                    text.push('\n');
                }
                if !has_separator(above) {
                    text.push_str("---\n");
                }
                text.push_str(above);
            }
            document.push_value(&mut text, layout);
        }
        if !self.tail.is_empty() && !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&self.tail);
        if self.has_crlf { text.replace('\n', "\r\n") } else { text }
    }
}

impl Document {
    fn is_changed(&self, layout: Layout) -> bool {
        write(&self.root, layout) != self.before
    }

    /// Returns the comments above and below the value, for comparisons.
    pub(crate) fn comments_around(&self) -> Vec<&str> {
        let lines = self.above.lines().chain(self.below.lines()).map(str::trim);
        lines.filter(|line| line.starts_with('#')).collect()
    }

    fn push_value(&self, text: &mut String, layout: Layout) {
        let now = write(&self.root, layout);
        if now == self.before {
            text.push_str(&self.written);
            return;
        }
        // The value began on the line of its separator (`--- {}`), so the line is written again.
        if self.written.starts_with("---") {
            text.push_str("---\n");
        }
        text.push_str(&now);
        text.push_str(&self.below);
    }
}

/// Converts line numbers of the document to those of the file.
fn move_down(node: &mut Node, lines: usize) {
    if lines == 0 {
        return;
    }
    node.line += lines;
    match &mut node.content {
        Content::Scalar(_) => {}
        Content::Sequence(sequence) => sequence.items.iter_mut().for_each(|item| move_down(item, lines)),
        Content::Mapping(mapping) => {
            for pair in &mut mapping.pairs {
                move_down(&mut pair.key, lines);
                move_down(&mut pair.value, lines);
            }
        }
    }
}

/// Splits a text into documents, each with its separator line.
fn segments(text: &str) -> Vec<&str> {
    let mut segments = Vec::new();
    let (mut begin, mut at) = (0, 0);
    // Directives belong to the separator below them.
    let mut has_directive = false;
    for line in text.split_inclusive('\n') {
        if at > begin && is_separator(line) && !has_directive {
            segments.push(&text[begin..at]);
            begin = at;
        }
        has_directive |= line.starts_with('%');
        at += line.len();
    }
    if at > begin {
        segments.push(&text[begin..at]);
    }
    segments
}

fn is_separator(line: &str) -> bool {
    line.strip_prefix("---").is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t', '\n', '\r']))
}

fn has_separator(above: &str) -> bool {
    above.lines().any(is_separator)
}

fn without_separator(above: &str) -> &str {
    match above.split_inclusive('\n').next() {
        Some(first) if is_separator(first) => &above[first.len()..],
        _ => above,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, edit: impl Fn(&mut File)) -> String {
        let mut file = File::read(text).unwrap();
        edit(&mut file);
        file.text()
    }

    #[test]
    fn what_nobody_changes_keeps_its_bytes() {
        for text in [
            "a: 1\n",
            "# c\n---\na:   1\n\n---\n# d\n\nb: [x]  # e\n# f\n",
            "a: 1\r\n---\r\nb: 2",
            "",
            "# only\n",
            "---\n---\na: 1\n",
            "%YAML 1.1\n---\na: 1\n",
            "\u{feff}a: 1\n",
        ] {
            assert_eq!(changed(text, |_| {}), text);
            assert!(!File::read(text).unwrap().is_changed());
        }
    }

    #[test]
    fn only_what_changes_is_written_anew() {
        let set = |file: &mut File| file.documents[1].root.get_mut("b").unwrap().set_text("9x");
        assert_eq!(
            changed("# top\na:    1\n---\n# of b\nb:    2   # two\n# end\n", set),
            "# top\na:    1\n---\n# of b\nb: 9x # two\n# end\n"
        );
        let set = |file: &mut File| file.documents[0].root.get_mut("a").unwrap().set_text("x");
        assert_eq!(changed("a: 1\r\nl:\r\n  - b\r\n", set), "a: x\r\nl:\r\n  - b\r\n");
    }

    #[test]
    fn documents_may_go() {
        let text = "a: 1\n---\nb: 2\n---\n# c\nc: 3\n";
        assert_eq!(changed(text, |file| drop(file.documents.remove(0))), "b: 2\n---\n# c\nc: 3\n");
        assert_eq!(changed(text, |file| drop(file.documents.remove(1))), "a: 1\n---\n# c\nc: 3\n");
    }

    #[test]
    fn nodes_tell_their_line() {
        let file = File::read("# c\n---\na: 1\nb: {c: 2}\n").unwrap();
        assert_eq!(file.documents[0].root.at(&["b", "c"]).unwrap().line, 4);
    }

    #[test]
    fn errors_name_the_line() {
        assert_eq!(File::read("a: 1\n---\nb: [\n").unwrap_err().line, 3);
        assert_eq!(
            File::read("a: 1\n---\nb: 1\nb: 2\n").unwrap_err().to_string(),
            "line 4: the map already has this key"
        );
    }
}
