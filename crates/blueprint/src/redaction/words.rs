//! Words that messages may show whatever the values are: those that the author has written, and those of the engines.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::compare::is_separator;

/// The words of the sentences of the engines, one a line. What is missing here is withheld.
static OF_ENGINES: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("words.txt").lines().collect());
/// Letters in a row that make a word: fewer could be a part of a value that the template has cut up.
const SHORTEST_WORD: usize = 3;
/// Shown between two words.
const LITTLE_WORDS: [&str; 14] =
    ["a", "an", "as", "at", "be", "by", "in", "is", "it", "no", "of", "on", "or", "to"];

/// So many bytes are searched for phrases; what is asked for after that counts as not written.
const SEARCHED: usize = 64 << 20;

/// What is known without the values.
#[derive(Debug, Clone)]
pub(crate) struct Words<'a> {
    /// What the author has written.
    texts: Vec<Cow<'a, str>>,
    /// Each word of it.
    single: HashSet<String>,
    /// Bytes that may still be searched.
    left: Cell<usize>,
    /// Whole values in lower case, which are never taken for a word.
    values: HashSet<String>,
}

fn is_part(next: char) -> bool {
    next.is_alphanumeric() || next == '_'
}

fn parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|next| !is_part(next)).filter(|part| !part.is_empty())
}

impl<'a> Words<'a> {
    pub(crate) fn new(texts: Vec<Cow<'a, str>>, values: &[&Value]) -> Self {
        let single = texts.iter().flat_map(|text| parts(text)).map(str::to_owned).collect();
        let mut words = Self { texts, single, left: Cell::new(SEARCHED), values: HashSet::new() };
        values.iter().for_each(|value| words.add_values(value));
        words
    }

    fn add_values(&mut self, value: &Value) {
        match value {
            Value::String(text) => drop(self.values.insert(text.to_lowercase())),
            Value::Number(number) => drop(self.values.insert(number.to_string())),
            Value::Array(items) => items.iter().for_each(|item| self.add_values(item)),
            Value::Object(members) => members.values().for_each(|value| self.add_values(value)),
            Value::Null | Value::Bool(_) => {}
        }
    }

    /// Whether the author has written this, not as a part of a longer word.
    pub(crate) fn are_written(&self, phrase: &str) -> bool {
        // Most of what is asked for is not there, or a word: then nothing has to be searched.
        if parts(phrase).next().is_none() || !parts(phrase).all(|part| self.single.contains(part)) {
            return false;
        }
        if !phrase.contains(|next| !is_part(next)) {
            return true;
        }
        let is_beside = |next: Option<char>| next.is_some_and(is_part);
        let stands_alone = |text: &str, at: usize| {
            !is_beside(text[..at].chars().next_back()) && !is_beside(text[at + phrase.len()..].chars().next())
        };
        self.texts.iter().any(|text| {
            let left = self.left.get().checked_sub(text.len());
            self.left.set(left.unwrap_or_default());
            left.is_some() && text.match_indices(phrase).any(|(at, _)| stands_alone(text, at))
        })
    }

    /// Withholds all words but those that are known: long ones as they are, short ones and numbers beside a known word, as the author
    /// has them there.
    pub(super) fn keep_known(&self, tokens: &[&str], shown: &mut [usize]) {
        let words: Vec<usize> =
            (0..tokens.len()).filter(|index| !tokens[*index].chars().all(is_separator)).collect();
        let known: Vec<bool> = words.iter().map(|index| self.is_known(tokens[*index])).collect();
        let phrase = |from: usize, to: usize| tokens[words[from]..=words[to]].concat();
        for (place, index) in words.iter().enumerate() {
            let before = place.checked_sub(1).filter(|before| known[*before]);
            let after = Some(place + 1).filter(|after| known.get(*after) == Some(&true));
            let beside = || {
                let little = LITTLE_WORDS.contains(&tokens[*index]) && before.is_some() && after.is_some();
                little
                    || before.is_some_and(|before| self.are_written(&phrase(before, place)))
                    || after.is_some_and(|after| self.are_written(&phrase(place, after)))
            };
            let is_value = || self.values.contains(&tokens[*index].to_lowercase());
            if !known[place] && (is_value() || !beside()) {
                shown[*index] = 0;
            }
        }
    }

    fn is_known(&self, word: &str) -> bool {
        let letters = word.split(|next: char| !next.is_alphabetic()).map(|part| part.chars().count()).max();
        letters.unwrap_or_default() >= SHORTEST_WORD
            && !self.values.contains(&word.to_lowercase())
            && (OF_ENGINES.contains(word) || self.are_written(word))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_alone() {
        let words = Words::new(vec!["{{ fail \"region-eu is unknown\" }}".into()], &[]);
        for (phrase, written) in
            [("region-eu", true), ("region", true), ("gion", false), ("is unknown", true), ("", false)]
        {
            assert_eq!(words.are_written(phrase), written, "{phrase}");
        }
    }
}
