//! Estimates the memory of a JSON text once it is parsed: five bytes of text may become a hundred
//! times as much.

/// Bytes of a map's leaf node: eleven keys and values, and the overhead of the allocator.
const LEAF: usize = 648;
/// Entries of a leaf when the keys arrive in order; the rest covers the nodes above it.
const ENTRIES_OF_LEAF: usize = 6;
const NODE: usize = 780;
/// Bytes of one value in a list; a list also has this as its minimum.
const ELEMENT: usize = 32;
const LEAST_ROOM: usize = 4;
/// Bytes that the allocator adds to a block, and the smallest block that it has.
const OVERHEAD: usize = 24;
const LEAST_BLOCK: usize = 32;
/// Maximum levels of nesting; the parser rejects deeper texts.
const DEEPEST: usize = 128;

/// Map or list that is still open.
struct Open {
    is_map: bool,
    commas: usize,
    is_empty: bool,
}

impl Open {
    fn weight(&self) -> usize {
        if self.is_empty {
            return 0;
        }
        let count = self.commas + 1;
        match self.is_map {
            false => count.max(LEAST_ROOM).next_power_of_two() * ELEMENT + OVERHEAD,
            true if count <= 11 => LEAF,
            true => count.div_ceil(ENTRIES_OF_LEAF) * NODE,
        }
    }
}

/// Returns a lower bound for the memory, in bytes, that the decoded values of a text take in
/// addition to the text. A text that is not JSON has a weight, too.
pub fn weight(text: &[u8]) -> usize {
    let (mut weight, mut open) = (0, Vec::<Open>::new());
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b' ' | b'\t' | b'\n' | b'\r' | b':' => continue,
            b']' | b'}' => {
                weight += open.pop().map_or(0, |closed| closed.weight());
                continue;
            }
            b',' => {
                if let Some(inner) = open.last_mut() {
                    inner.commas += 1;
                }
                continue;
            }
            _ => {}
        }
        if let Some(inner) = open.last_mut() {
            inner.is_empty = false;
        }
        match byte {
            b'{' | b'[' if open.len() >= DEEPEST => break,
            b'{' | b'[' => open.push(Open { is_map: *byte == b'{', commas: 0, is_empty: true }),
            b'"' => {
                let length = string(&mut bytes);
                weight += if length == 0 { 0 } else { (length + OVERHEAD).max(LEAST_BLOCK) };
            }
            _ => {}
        }
    }
    // The parser has allocated these values, even if the text breaks off.
    weight + open.iter().map(Open::weight).sum::<usize>()
}

/// Reads to the end of a string, and returns its length.
fn string(bytes: &mut std::slice::Iter<'_, u8>) -> usize {
    let mut length = 0;
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => break,
            b'\\' => drop(bytes.next()),
            _ => {}
        }
        length += 1;
    }
    length
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// Returns the bytes of a value, by the sizes of serde_json's types.
    fn held(value: &Value) -> usize {
        let block = |bytes: usize| if bytes == 0 { 0 } else { bytes + 8 };
        match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => block(text.capacity()),
            Value::Array(items) => {
                block(items.capacity() * size_of::<Value>()) + items.iter().map(held).sum::<usize>()
            }
            Value::Object(members) => {
                let leaf = 11 * (size_of::<String>() + size_of::<Value>()) + 12;
                let leaves = if members.is_empty() { 0 } else { members.len().div_ceil(11) };
                let inner: usize =
                    members.iter().map(|(key, value)| block(key.capacity()) + held(value)).sum();
                leaves * block(leaf) + inner
            }
        }
    }

    #[test]
    fn nothing_takes_more_than_its_weight() {
        let repeated = |piece: &str, count: usize| format!("[{}0]", piece.repeat(count));
        let members: String = (0..1000).map(|index| format!("\"{index:04}\":0,")).collect();
        for text in [
            "{}".to_owned(),
            "[[],{},\"\"]".to_owned(),
            repeated("0,", 10_000),
            repeated("[0],", 1000),
            repeated("{\"\":0},", 1000),
            repeated("{\"\":{\"\":{\"\":0}}},", 1000),
            repeated("\"a\",", 1000),
            repeated(&format!("\"{}\",", "x".repeat(1000)), 100),
            format!("{{{members}\"\":0}}"),
            json!({"metadata": {"name": "a\"b\\", "labels": {"c": "[{,}]"}}, "data": {"k": "v"}}).to_string(),
        ] {
            let value: Value = serde_json::from_str(&text).unwrap();
            let (weight, held) = (weight(text.as_bytes()), held(&value));
            let shown: String = text.chars().take(40).collect();
            assert!(weight >= held, "{shown}: {weight} < {held}");
            assert!(weight <= 3 * held + 100, "{shown}: {weight} is far from {held}");
        }
    }

    #[test]
    fn what_is_no_json_ends() {
        for text in ["", "]]", "{\"a", "\"\\", "[[[[[", "{,,,", &"[".repeat(100_000)] {
            assert!(weight(text.as_bytes()) < 100_000, "{text:.20}");
        }
    }
}
