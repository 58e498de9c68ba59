//! Makes texts of other authors safe for a terminal.

use std::borrow::Cow;

/// Replaces characters that a terminal would interpret as commands, or that change the direction of
/// text, by their code points. Line breaks and tabs stay.
pub(crate) fn shown(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let show = |character: char| {
        if is_obeyed(character) { character.escape_unicode().to_string() } else { character.to_string() }
    };
    Cow::Owned(text.chars().map(show).collect())
}

/// Aligns the columns of rows. The cells have to be safe for a terminal already.
pub(crate) fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn is_obeyed(character: char) -> bool {
    let turns =
        matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !matches!(character, '\n' | '\t')
        && (character.is_control() || turns || matches!(character, '\u{2028}' | '\u{2029}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_shown() {
        assert_eq!(shown("plain\n\tlines ü"), "plain\n\tlines ü");
        assert_eq!(shown("\u{1b}[2Jgone\r\u{202e}txt"), "\\u{1b}[2Jgone\\u{d}\\u{202e}txt");
        assert_eq!(shown("\u{9b}31m\u{2028}"), "\\u{9b}31m\\u{2028}");
    }
}
