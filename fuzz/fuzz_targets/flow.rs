//! Fuzz target: any template with any stubs ends within its limits, with a document or an error.
//! The first byte chooses the features; NUL separates template and stubs. A resulting document can
//! be read again.

#![no_main]

use groundwork_spiff::{Document, Engine, Features, Limits};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((features, texts)) = input.split_first() else { return };
    let Ok(texts) = std::str::from_utf8(texts) else { return };
    let mut limits = Limits::default();
    (limits.work, limits.calls, limits.nodes, limits.string_bytes) = (2_000_000, 100, 10_000, 100_000);
    let engine = Engine::new()
        .with_features(Features { control: features & 1 != 0, interpolation: features & 2 != 0 })
        .with_limits(limits);
    let documents: Result<Vec<_>, _> =
        texts.split('\0').take(4).map(|text| Document::read(text, "test", engine.limits())).collect();
    let Ok(documents) = documents else { return };
    let Some((template, stubs)) = documents.split_first() else { return };
    if let Ok(output) = engine.cascade(template, stubs, None) {
        let text = output.to_yaml();
        assert!(Document::read(&text, "output", Engine::new().limits()).is_ok(), "{text}");
    }
});
