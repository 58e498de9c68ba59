//! Formats errors with their causes.

use std::error::Error;

/// Returns the error with its causes, of which the last is usually the most useful.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    for cause in causes(error) {
        let inner = cause.to_string();
        // Many messages already contain the message of their cause.
        if !text.contains(&inner) {
            text = format!("{text}: {inner}");
        }
    }
    text
}

/// Returns the innermost cause alone. Errors of libraries in between repeat addresses, versions and
/// their own names.
pub fn innermost_cause(error: &(dyn Error + 'static)) -> String {
    causes(error).last().unwrap_or(error).to_string()
}

fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(error.source(), |&cause| cause.source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn layers(texts: &[&'static str]) -> Layer {
        let (first, rest) = texts.split_first().unwrap();
        Layer { text: first, source: (!rest.is_empty()).then(|| Box::new(layers(rest))) }
    }

    #[test]
    fn the_cause_is_told_once() {
        for (texts, all, last) in [
            (&["refused"][..], "refused", "refused"),
            (&["no answer", "connect", "refused"], "no answer: connect: refused", "refused"),
            (&["no answer: refused", "refused"], "no answer: refused", "refused"),
        ] {
            assert_eq!(with_causes(&layers(texts)), all);
            assert_eq!(innermost_cause(&layers(texts)), last);
        }
    }
}
