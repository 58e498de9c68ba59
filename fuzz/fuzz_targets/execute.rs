//! Fuzz target: every template ends within its limits, with an output or an error. The first byte
//! chooses the modes.

#![no_main]

use std::sync::{Arc, LazyLock};
use std::time::UNIX_EPOCH;

use groundwork_gotemplate::{Functions, Grants, Limits, MissingKey, NumberMode, Options, Template, Value};
use libfuzzer_sys::fuzz_target;
use serde_json::json;

static FUNCTIONS: LazyLock<Arc<Functions>> = LazyLock::new(|| {
    let mut functions = Functions::sprig();
    // These functions are slow on purpose and would use up the time of the fuzzer.
    for name in ["bcrypt", "htpasswd", "derivePassword"] {
        functions.remove(name);
    }
    Arc::new(functions)
});

fuzz_target!(|input: &[u8]| {
    let Some((mode, source)) = input.split_first() else { return };
    let options = Options {
        missing_key: [MissingKey::Default, MissingKey::Zero, MissingKey::Error][usize::from(mode % 3)],
        numbers: [NumberMode::Float64, NumberMode::Int64, NumberMode::Int, NumberMode::Data]
            [usize::from(mode / 3 % 4)],
        limits: Limits {
            output_bytes: 1 << 16,
            steps: 20_000,
            value_bytes: 16 << 20,
            template_depth: 200,
            ..Limits::default()
        },
        grants: Grants {
            clock: Some(Arc::new(|| UNIX_EPOCH)),
            randomness: Some(Arc::new(|buffer| {
                buffer.fill(1);
                Ok(())
            })),
            ..Grants::default()
        },
        ..Options::default()
    };
    let Ok(template) = Template::parse("t", source, &FUNCTIONS, &options) else { return };
    let data = json!({
        "s": "text é", "n": null, "i": 3, "f": 2.5, "b": true, "l": [1, "x", null, [2]], "m": {"a": 1, "b": {"c": "d"}},
    });
    let mut output = Vec::new();
    let _ = template.render_into(Value::from_json(&data, options.numbers), &mut output);
    assert!(output.len() <= 1 << 16);
});
