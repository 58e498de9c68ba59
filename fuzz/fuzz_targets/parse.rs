//! Fuzz target: any bytes are a template or an error, and the canonical form of a template is a
//! template with the same canonical form.

#![no_main]

use std::sync::{Arc, LazyLock};

use groundwork_gotemplate::{Functions, Options, Template};
use libfuzzer_sys::fuzz_target;

static FUNCTIONS: LazyLock<Arc<Functions>> = LazyLock::new(|| Arc::new(Functions::sprig()));

fuzz_target!(|source: &[u8]| {
    let options = Options::default();
    if let Ok(template) = Template::parse("t", source, &FUNCTIONS, &options) {
        let canonical = template.canonical_source();
        match Template::parse("t", &canonical, &FUNCTIONS, &options) {
            Ok(again) => assert_eq!(again.canonical_source(), canonical),
            Err(error) => panic!("{error}: {}", canonical.escape_ascii()),
        }
    }
});
