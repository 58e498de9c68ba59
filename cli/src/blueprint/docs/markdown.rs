//! Escapes texts for Markdown, so that a reader of the page sees them as their authors wrote them.

/// Escapes a text for a paragraph or a cell, so that Markdown takes no part of it for markup. Bars
/// are left to the caller that builds the table. Line breaks become blanks, and `break_` separates
/// paragraphs.
fn escaped(text: &str, break_: &str) -> String {
    let paragraphs = text.split("\n\n").map(|paragraph| {
        let lines = paragraph.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(escaped_line).collect::<Vec<_>>().join(" ")
    });
    paragraphs.filter(|paragraph| !paragraph.is_empty()).collect::<Vec<_>>().join(break_)
}

fn escaped_line(line: &str) -> String {
    let mut escaped = String::with_capacity(line.len());
    for (index, character) in line.chars().enumerate() {
        let is_markup = r"\`*_[]<>&~$!".contains(character);
        let begins_block = index == 0 && "#-+=:".contains(character);
        if is_markup || begins_block {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    // A number followed by `.` or `)` would begin a list.
    let digits = line.len() - line.trim_start_matches(|character: char| character.is_ascii_digit()).len();
    if digits > 0 && line[digits..].starts_with(['.', ')']) {
        escaped.insert(digits, '\\');
    }
    escaped
}

/// Escapes a text that forms paragraphs.
pub(super) fn paragraph(text: &str) -> String {
    escaped(text, "\n\n")
}

/// Escapes a text for a cell of a table or a heading, where it has to stay on one line.
pub(super) fn cell(text: &str) -> String {
    escaped(text, "<br>")
}

/// Formats a piece of code within a line.
pub(super) fn code(text: &str) -> String {
    let text = text.split(['\n', '\r']).collect::<Vec<_>>().join(" ");
    if text.trim().is_empty() {
        return "*empty*".to_owned();
    }
    let fence = "`".repeat(longest_run(&text) + 1);
    // A backtick at either end would count as part of the fence. Markdown does not show these
    // blanks.
    let blank = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{fence}{blank}{text}{blank}{fence}")
}

/// Formats code as a fenced block.
pub(super) fn fenced(language: &str, text: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    format!("{fence}{language}\n{}\n{fence}\n", text.trim_end())
}

fn longest_run(text: &str) -> usize {
    text.split(|character| character != '`').map(str::len).max().unwrap_or(0)
}

/// Formats a table whose cells are Markdown already. A bar would end its cell even inside of code,
/// so bars are escaped here. Columns without content are left out.
pub(super) fn table<const N: usize>(columns: [&str; N], rows: &[[String; N]]) -> String {
    let is_used = |column: &usize| *column == 0 || rows.iter().any(|row| !row[*column].is_empty());
    let used: Vec<usize> = (0..N).filter(is_used).collect();
    let line = |cells: &dyn Fn(usize) -> String| {
        let cells: Vec<String> = used.iter().map(|column| cells(*column).replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let mut text = line(&|column| columns[column].to_owned());
    text.push_str(&line(&|_| "---".to_owned()));
    for row in rows {
        text.push_str(&line(&|column| row[column].clone()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_what_they_are() {
        for (text, expected) in [
            ("plain, text.", "plain, text."),
            (
                "a|b *c* _d_ `e` <f> [g](h) &amp; ~~i~~ \\",
                r"a|b \*c\* \_d\_ \`e\` \<f\> \[g\](h) \&amp; \~\~i\~\~ \\",
            ),
            ("# a\n- b\n1. c\n", r"\# a \- b 1\. c"),
            ("a\n\n\nb\n", "a<br>b"),
            ("   ", ""),
        ] {
            assert_eq!(cell(text), expected, "{text}");
        }
        assert_eq!(paragraph("a\nb\n\nc"), "a b\n\nc");
    }

    #[test]
    fn codes() {
        for (text, expected) in [
            ("a", "`a`"),
            ("a|b", "`a|b`"),
            ("a`b", "``a`b``"),
            ("`", "`` ` ``"),
            ("", "*empty*"),
            ("a\nb", "`a b`"),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
        assert_eq!(fenced("json", "a\n```\n"), "````json\na\n```\n````\n");
    }

    #[test]
    fn columns_without_content_are_left_out() {
        let rows = [["a".to_owned(), String::new(), "b|c".to_owned()]];
        assert_eq!(table(["x", "y", "z"], &rows), "| x | z |\n| --- | --- |\n| a | b\\|c |\n");
    }
}
