//! Compiled regular expressions, which the renders of a template share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use crate::value::Str;

/// A compiled pattern.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) pattern: groundwork_go::regexp::Pattern,
    pub(crate) is_empty: bool,
}

/// A compiled pattern, or why it does not compile.
pub(crate) type Compiled = Result<Arc<Pattern>, String>;

/// Patterns that the renders of a template have in common. Only so many are kept, so that patterns which templates make
/// up do not pile up.
#[derive(Debug, Default)]
pub(crate) struct Patterns(Mutex<HashMap<Str, Compiled, foldhash::fast::RandomState>>);

impl Patterns {
    const MOST: usize = 64;
    const LONGEST: usize = 1_024;

    /// The pattern, compiled now unless it is known.
    pub(crate) fn get(&self, source: &Str) -> Compiled {
        let known = self.0.lock().ok().and_then(|known| known.get(source).cloned());
        known.unwrap_or_else(|| {
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

/// Whether it is small enough to be kept.
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
