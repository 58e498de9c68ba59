//! Runs the start inputs of the fuzz targets, and the inputs with which they found defects, without
//! cargo-fuzz.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

use groundwork_spiff::{Document, Engine, Features, Limits, reprinted};

fn corpus(target: &str) -> Vec<Vec<u8>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let inputs: Vec<_> =
        fs::read_dir(directory).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap()).collect();
    assert!(inputs.len() > 100);
    inputs
}

fn compact(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '(' | ')' | ' ')).collect()
}

#[test]
fn what_is_printed_is_read_as_it_was() {
    let inputs = corpus("expression").into_iter().filter_map(|input| String::from_utf8(input).ok());
    let found = ["!~~", "**********l !! p", "f(x).y.[z].a"].map(str::to_owned);
    for text in inputs.chain(found).filter(|text| !text.contains("required")) {
        if let Some((printed, again)) = reprinted(&text) {
            assert_eq!(again.as_deref().map(compact), Some(compact(&printed)), "{text}");
        }
    }
}

#[test]
fn prefixes_whose_brackets_nest_too_deep_are_printed() {
    assert!(reprinted(&format!("{}a", "*".repeat(150))).is_none_or(|(_, again)| again.is_some()));
}

/// Case: a `?` without a second branch belongs to none of the conditions that end before it. Each
/// of them once read it to its end, so that each `lambda` doubled the time.
#[test]
fn branches_that_are_none_are_read_once() {
    let printed = reprinted(&"lambda l?m ".repeat(60));
    assert!(printed.is_none(), "{printed:?}");
    assert!(reprinted(&"lambda l?m: n ".repeat(30)).is_some());
}

/// Case: a text behind the word `lambda` may be its lambda, or the body of the form around it. It
/// was once parsed twice, so that each level doubled the time.
#[test]
fn lambdas_that_are_none_are_read_once() {
    for part in ["select[a lambda |p =p ", "map{a lambda |p,q =p ", "sum[a|b lambda |p =p ", "lambda |p =p "]
    {
        let printed = reprinted(&part.repeat(60));
        assert!(printed.is_none(), "{printed:?}");
    }
    assert!(reprinted("select[a|p|-> lambda |q = p|-> q]").is_some());
}

#[test]
fn documents_end_within_their_limits() {
    let mut limits = Limits::default();
    (limits.steps, limits.calls, limits.nodes, limits.string_bytes) = (500_000, 100, 10_000, 100_000);
    let mut finished = 0;
    for input in corpus("flow") {
        let Some((features, texts)) = input.split_first() else { continue };
        let Ok(texts) = std::str::from_utf8(texts) else { continue };
        let engine = Engine::new()
            .with_features(Features { control: features & 1 != 0, interpolation: features & 2 != 0 })
            .with_limits(limits.clone());
        let documents: Result<Vec<_>, _> =
            texts.split('\0').take(4).map(|text| Document::read(text, "test", engine.limits())).collect();
        let Ok(documents) = documents else { continue };
        if let Ok(output) = engine.cascade(&documents[0], &documents[1..], None) {
            let text = output.to_yaml();
            assert!(Document::read(&text, "output", engine.limits()).is_ok(), "{text}");
            finished += 1;
        }
    }
    assert!(finished > 0);
}
