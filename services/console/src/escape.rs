//! Makes invisible characters visible, and those that change the direction of text: names and
//! messages come from untrusted authors.

/// Replaces each such character by its code point, as in `⟨U+202E⟩`. Line breaks and tabs stay. It
/// runs over whole pages after markup is escaped, so that no part of a page can be forgotten; the
/// replacement has no meaning in HTML.
pub(crate) fn visible(text: String) -> String {
    replaced(text, |character| format!("⟨U+{:04X}⟩", u32::from(character)))
}

/// Replaces each such character in JSON by its `\u` escape, which a program reads as the character
/// itself.
pub(crate) fn visible_json(text: String) -> String {
    replaced(text, |character| {
        let mut units = [0; 2];
        character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")).collect()
    })
}

fn replaced(text: String, show: impl Fn(char) -> String) -> String {
    if !text.contains(is_hidden) {
        return text;
    }
    let mut result = String::with_capacity(text.len() + 64);
    for character in text.chars() {
        if is_hidden(character) {
            result.push_str(&show(character));
        } else {
            result.push(character);
        }
    }
    result
}

fn is_hidden(character: char) -> bool {
    let turns = matches!(
        character,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    let has_no_shape = matches!(
        character,
        '\u{ad}' | '\u{200b}'..='\u{200d}' | '\u{2028}' | '\u{2029}' | '\u{2060}'..='\u{2064}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}'
    );
    !matches!(character, '\n' | '\t') && (character.is_control() || turns || has_no_shape)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_sees_is_shown() {
        let shown = |text: &str| visible(text.to_owned());
        assert_eq!(shown("plain\n\tlines ü 日本"), "plain\n\tlines ü 日本");
        assert_eq!(shown("a\u{202e}gpj\u{1b}[2J\r\0"), "a⟨U+202E⟩gpj⟨U+001B⟩[2J⟨U+000D⟩⟨U+0000⟩");
        assert_eq!(shown("x\u{200b}y\u{feff}\u{e0041}"), "x⟨U+200B⟩y⟨U+FEFF⟩⟨U+E0041⟩");
    }

    #[test]
    fn programs_read_what_was_there() {
        let text = "a\u{202e}b\u{e0041}";
        let json = visible_json(serde_json::to_string(text).unwrap());
        assert_eq!(json, "\"a\\u202eb\\udb40\\udc41\"");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }
}
