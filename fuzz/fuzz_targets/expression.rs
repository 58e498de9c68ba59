//! Fuzz target: any text is an expression or an error, and an expression that is printed and parsed
//! again prints the same. There are two exceptions. Prefix operators and markers print additional
//! brackets. `merge required` is printed as `merge`, and `merge replace` without a path as `merge
//! required`.

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
