//! The functions of sprig (`gotemplate.md` 11 and 12): one module per group, each with a
//! `register`.
//!
//! Functions get clock, randomness, environment and network from the host's [`crate::Grants`], and
//! fail without the grant.

mod casing;
mod cast;
mod checksums;
mod crypto;
mod dates;
mod decimal;
mod defaults;
mod dicts;
mod encoding;
mod floats;
mod integers;
mod json;
pub(crate) mod json_decode;
mod json_encode;
mod keys;
mod lists;
pub(crate) mod moments;
mod paths;
mod random;
mod reflection;
mod regex;
mod registration;
mod semver;
mod string_lists;
mod strings;
mod system;
mod urls;
mod words;

use crate::functions::Functions;

impl Functions {
    /// Returns the built-in functions of Go and those of sprig (`gotemplate.md` 12).
    pub fn sprig() -> Functions {
        let mut functions = Functions::builtins();
        register(&mut functions);
        functions
    }
}

/// Adds every sprig function.
fn register(functions: &mut Functions) {
    strings::register(functions);
    words::register(functions);
    string_lists::register(functions);
    integers::register(functions);
    floats::register(functions);
    defaults::register(functions);
    json::register(functions);
    reflection::register(functions);
    lists::register(functions);
    dicts::register(functions);
    encoding::register(functions);
    checksums::register(functions);
    paths::register(functions);
    regex::register(functions);
    semver::register(functions);
    urls::register(functions);
    dates::register(functions);
    random::register(functions);
    crypto::register(functions);
    system::register(functions);
    keys::register(functions);
}
