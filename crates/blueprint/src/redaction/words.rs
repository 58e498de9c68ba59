//! Words that messages may show for any values: those of the blueprint's author and those of the
//! engines.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::compare::is_separator;

/// Words in the messages of the engines, one a line. A word that is missing in this list is
/// withheld.
static OF_ENGINES: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| include_str!("words.txt").lines().collect());
/// Shortest run of letters that counts as a word. A shorter one could be a piece of a value that a
/// template has split.
const SHORTEST_WORD: usize = 3;
/// Short words that are shown between two known words.
const LITTLE_WORDS: [&str; 14] =
    ["a", "an", "as", "at", "be", "by", "in", "is", "it", "no", "of", "on", "or", "to"];

/// Total number of bytes searched for phrases. After that, phrases count as unknown.
const SEARCHED: usize = 64 << 20;

/// Texts of the author and the engines, which are known independently of the values.
#[derive(Debug, Clone)]
pub(crate) struct Words<'a> {
    /// Texts of the author.
    texts: Vec<Cow<'a, str>>,
    /// Single words of these texts.
    single: HashSet<String>,
    /// Number of bytes that further searches for phrases may read.
    left: Cell<usize>,
    /// Whole values in lower case, which never count as a known word.
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

    /// Reports whether the author's texts contain this phrase, and not only as part of a longer
    /// word.
    pub(crate) fn are_written(&self, phrase: &str) -> bool {
        // Most phrases contain an unknown word, or are a single word. Neither needs a search.
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

    /// Withholds all unknown words. A long word is kept if it is known. A short word or a number is
    /// kept if the author's texts contain it beside a known word.
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
