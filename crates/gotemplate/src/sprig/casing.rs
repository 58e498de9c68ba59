//! Case mapping as in Go: one code point to one code point (`gotemplate.md` 14).

use unicode_general_category::{GeneralCategory as Category, get_general_category};

pub(super) fn is_upper(c: char) -> bool {
    get_general_category(c) == Category::UppercaseLetter
}

pub(super) fn is_lower(c: char) -> bool {
    get_general_category(c) == Category::LowercaseLetter
}

pub(super) fn is_title(c: char) -> bool {
    get_general_category(c) == Category::TitlecaseLetter
}

pub(super) fn to_lower(c: char) -> char {
    // The first character of the full mapping is the simple mapping: only U+0130 has a longer one.
    c.to_lowercase().next().unwrap_or(c)
}

pub(super) fn to_upper(c: char) -> char {
    if let Some(capital) = greek_with_iota(c) {
        return capital;
    }
    let mut mapped = c.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(single), None) => single,
        _ => c,
    }
}

pub(super) fn to_title(c: char) -> char {
    match c {
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        // Georgian letters have capitals, but their title case is the small letter.
        '\u{10d0}'..='\u{10ff}' => c,
        c => to_upper(c),
    }
}

/// Returns the simple capital of a Greek letter with a subscript iota. Its full capital, the one
/// that Rust has, is two characters.
fn greek_with_iota(c: char) -> Option<char> {
    let offset = match c {
        '\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}' => 8,
        '\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}' => 9,
        _ => return None,
    };
    char::from_u32(u32::from(c) + offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_are_simple() {
        assert_eq!(to_upper('ß'), 'ß');
        assert_eq!(to_lower('İ'), 'i');
        assert_eq!(to_upper('ᾳ'), 'ᾼ');
        assert_eq!(to_title('ǆ'), 'ǅ');
        assert_eq!(to_upper('é'), 'É');
    }
}
