//! Checks one part of a path, as file systems and git read it.

use unicase::UniCase;
use unicode_normalization::UnicodeNormalization as _;

use crate::{NameError, shown};

/// Names that Windows reserves for devices, with any extension; `COM` and `LPT` also have a digit.
const DEVICES: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];
/// Digits of `COM` and `LPT`; Windows also accepts the superscript ones.
const DIGITS: &str = "123456789¹²³";

/// Beginnings of the short names that NTFS may give to `.git`, `.gitmodules` and `.gitattributes`,
/// before `~` and a number. NTFS builds the last two from a hash once the first four numbers are
/// taken.
const SHORT_GIT: &str = "git";
const SHORT_SETTINGS: [&str; 4] = ["gitmod", "gitatt", "gi7eba", "gi7d29"];
/// Fewest letters of a short name of [`SHORT_SETTINGS`] that remain in front of a long number.
const LEAST_OF_HASH: usize = 3;

/// Files that change git's behaviour, in any folder of a work tree.
const SETTINGS: [&str; 2] = [".gitmodules", ".gitattributes"];

/// Name of the NTFS stream that is the content of the file itself.
const MAIN_STREAM: &str = "::$data";

/// Checks that a part of a path is a name, and cannot mean another file.
pub(crate) fn check_part(path: &str, part: &str) -> Result<(), NameError> {
    let of = || (shown(path), shown(part));
    if part.contains('\\') {
        return Err(NameError::Backslash { path: shown(path) });
    }
    if part.contains(char::is_control) {
        return Err(NameError::Control { path: shown(path) });
    }
    if let [letter, b':', ..] = part.as_bytes()
        && letter.is_ascii_alphabetic()
    {
        let (path, part) = of();
        return Err(NameError::Drive { path, part });
    }
    let folded = folded(part);
    // NTFS has streams of a file behind a colon; `.git::$INDEX_ALLOCATION` is the directory itself.
    let file = folded.split(':').next().unwrap_or_default().trim_end_matches(['.', ' ']);
    if file.is_empty() {
        let (path, part) = of();
        return Err(NameError::NoName { path, part });
    }
    if file == ".git" || is_short(file, SHORT_GIT, SHORT_GIT.len()) {
        let (path, part) = of();
        return Err(NameError::Git { path, part });
    }
    if SETTINGS.contains(&file) || SHORT_SETTINGS.iter().any(|name| is_short(file, name, LEAST_OF_HASH)) {
        let (path, part) = of();
        return Err(NameError::GitSettings { path, part });
    }
    if is_device(file) {
        let (path, part) = of();
        return Err(NameError::Device { path, part });
    }
    Ok(())
}

/// Returns the name as the most tolerant file systems compare it: without letter case and Unicode
/// forms, and without the characters that HFS+ and Windows ignore.
pub(crate) fn folded(part: &str) -> String {
    // Most names are ASCII, for which only letter case matters.
    let folded = if part.is_ascii() {
        part.to_ascii_lowercase()
    } else {
        let kept: String = part.chars().filter(|c| !is_ignored(*c)).nfd().collect();
        UniCase::unicode(kept).to_folded_case().nfd().collect()
    };
    let file = folded.strip_suffix(MAIN_STREAM).unwrap_or(&folded);
    // Windows ignores dots and blanks at the end of a name.
    file.trim_end_matches(['.', ' ']).to_owned()
}

/// Reports whether HFS+ ignores a character when it compares names.
fn is_ignored(c: char) -> bool {
    matches!(c, '\u{200c}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{206a}'..='\u{206f}' | '\u{feff}')
}

/// Reports whether a name may be a short one: at least `least` of the first letters of `long`, then
/// `~` and a number.
fn is_short(file: &str, long: &str, least: usize) -> bool {
    let Some((letters, number)) = file.split_once('~') else { return false };
    let is_number =
        !number.starts_with('0') && !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number && letters.len() >= least && long.starts_with(letters)
}

fn is_device(file: &str) -> bool {
    let stem = file.split('.').next().unwrap_or_default().trim_end_matches(' ');
    let is_port = |name: &str| {
        let digit = stem.strip_prefix(name).and_then(|rest| {
            let mut rest = rest.chars();
            rest.next().filter(|_| rest.next().is_none())
        });
        digit.is_some_and(|digit| DIGITS.contains(digit))
    };
    DEVICES.contains(&stem) || is_port("com") || is_port("lpt")
}
