//! Cache of compiled regular expressions, which all renders of a template share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::value::Str;

/// A compiled pattern with the facts that functions need.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) pattern: groundwork_go::regexp::Pattern,
    pub(crate) is_empty: bool,
}

/// A compiled pattern, or the error of one that does not compile.
pub(crate) type Compiled = Result<Arc<Pattern>, String>;

/// Patterns that the renders of a template have in common. Number and length are limited, so that
/// patterns which templates generate do not fill the memory.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Mutex<HashMap<Str, Compiled, foldhash::fast::RandomState>>);

impl Patterns {
    const MOST: usize = 64;
    const LONGEST: usize = 1_024;

    /// Returns the pattern from the cache, or compiles it.
    pub(crate) fn get(&self, source: &Str) -> Compiled {
        let known = self.0.lock().ok().and_then(|known| known.get(source).cloned());
        known.unwrap_or_else(|| {
            // The lock is not held here, because compiling takes long. Two threads may compile the
            // same pattern.
            let compiled = compile(source).map(Arc::new);
            let compiled = compiled.map_err(|complaint| format!("error parsing regexp: {complaint}"));
            if let Ok(mut known) = self.0.lock()
                && is_light(&compiled)
                && known.len() < Self::MOST
                && source.len() <= Self::LONGEST
            {
                known.insert(source.clone(), compiled.clone());
            }
            compiled
        })
    }
}

/// Reports whether a pattern is small enough for the cache.
pub(crate) fn is_light(compiled: &Compiled) -> bool {
    compiled.as_ref().map_or(true, |pattern| pattern.pattern.is_light())
}

fn compile(source: &Str) -> Result<Pattern, String> {
    if let Err(error) = std::str::from_utf8(source) {
        let rest = crate::text::lossy(&source[error.valid_up_to()..]);
        return Err(format!("invalid UTF-8: `{rest}`"));
    }
    let shown = source.to_text();
    let pattern = groundwork_go::regexp::Pattern::compile(&shown)?;
    Ok(Pattern { pattern, is_empty: source.is_empty() })
}
