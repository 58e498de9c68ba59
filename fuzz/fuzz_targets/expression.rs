//! Any text is an expression or an error; an expression that is printed and parsed again prints the same, but for brackets, of which
//! prefix operators and markers print some of their own, and but for `merge required`, which is printed without its word, and is what
//! `merge replace` without a path is printed as.

#![no_main]

use groundwork_spiff::reprinted;
use libfuzzer_sys::fuzz_target;

fn compact(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '(' | ')' | ' ')).collect()
}

fuzz_target!(|text: &str| {
    if let Some((printed, again)) = reprinted(text)
        && !text.contains("required")
        && !printed.contains("required")
    {
        assert_eq!(again.as_deref().map(compact), Some(compact(&printed)), "{text}");
    }
});
