//! Base64 and Base32 with the error positions of Go (`gotemplate.md` 12.11).

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

pub(crate) fn base64_encode(bytes: &[u8]) -> String {
    encode(bytes, BASE64, 6, 4)
}

pub(crate) fn base32_encode(bytes: &[u8]) -> String {
    encode(bytes, BASE32, 5, 8)
}

/// Encodes in groups of `group` characters of `bits` bits each, padded with `=`.
fn encode(bytes: &[u8], alphabet: &[u8], bits: u32, group: usize) -> String {
    let mut out = String::with_capacity(bytes.len() * 8 / bits as usize + group);
    let (mut buffer, mut held) = (0u32, 0);
    for &byte in bytes {
        buffer = buffer << 8 | u32::from(byte);
        held += 8;
        while held >= bits {
            held -= bits;
            out.push(symbol(alphabet, buffer >> held));
        }
    }
    if held > 0 {
        out.push(symbol(alphabet, buffer << (bits - held)));
    }
    while !out.len().is_multiple_of(group) {
        out.push('=');
    }
    out
}

fn symbol(alphabet: &[u8], value: u32) -> char {
    char::from(alphabet[value as usize % alphabet.len()])
}

/// Returns the decoded bytes, or the offset that Go's error names. Line ends are skipped.
pub(crate) fn base64_decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut symbols =
        text.iter().copied().enumerate().filter(|(_, b)| !matches!(b, b'\r' | b'\n')).peekable();
    let mut out = Vec::with_capacity(text.len() * 3 / 4);
    let mut group = Vec::with_capacity(4);
    while let Some((at, byte)) = symbols.next() {
        if byte == b'=' {
            match group.len() {
                0 | 1 => return Err(at),
                2 => match symbols.next() {
                    Some((_, b'=')) => {}
                    Some((second, _)) => return Err(second - 1),
                    None => return Err(text.len()),
                },
                _ => {}
            }
            push_group(&mut out, &group, 6);
            return symbols.next().map_or(Ok(out), |(garbage, _)| Err(garbage));
        }
        group.push(value_of(BASE64, byte).ok_or(at)?);
        if group.len() == 4 {
            push_group(&mut out, &group, 6);
            group.clear();
        }
    }
    if group.is_empty() { Ok(out) } else { Err(text.len() - group.len()) }
}

/// Decodes like [`base64_decode`], but ignores anything shorter than a group behind the padding, as
/// Go does.
pub(crate) fn base32_decode(text: &[u8]) -> Result<Vec<u8>, usize> {
    const GROUP: usize = 8;
    let text: Vec<u8> = text.iter().copied().filter(|b| !matches!(b, b'\r' | b'\n')).collect();
    let mut out = Vec::with_capacity(text.len() * 5 / 8);
    let mut group = Vec::with_capacity(GROUP);
    for (at, &byte) in text.iter().enumerate() {
        let rest = &text[at + 1..];
        if byte == b'=' && group.len() >= 2 && rest.len() < GROUP {
            let missing = GROUP - 1 - group.len();
            if rest.len() < missing {
                return Err(text.len());
            }
            if let Some(bad) = rest[..missing].iter().position(|&b| b != b'=') {
                return Err(at + bad);
            }
            if matches!(group.len(), 3 | 6) {
                return Err(at);
            }
            push_group(&mut out, &group, 5);
            return Ok(out);
        }
        group.push(value_of(BASE32, byte).ok_or(at)?);
        if group.len() == GROUP {
            push_group(&mut out, &group, 5);
            group.clear();
        }
    }
    if group.is_empty() { Ok(out) } else { Err(text.len() - group.len()) }
}

fn value_of(alphabet: &[u8], byte: u8) -> Option<u8> {
    alphabet.iter().position(|&symbol| symbol == byte).and_then(|value| u8::try_from(value).ok())
}

/// Appends the whole bytes in a group of values of `bits` bits each.
fn push_group(out: &mut Vec<u8>, group: &[u8], bits: usize) {
    let packed = group.iter().fold(0u64, |packed, &value| packed << bits | u64::from(value));
    let unused = (group.len() * bits) % 8;
    let count = group.len() * bits / 8;
    out.extend_from_slice(&(packed >> unused).to_be_bytes()[8 - count..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for text in ["", "f", "fo", "foo", "foob", "fooba", "foobar"] {
            assert_eq!(base64_decode(base64_encode(text.as_bytes()).as_bytes()), Ok(text.into()), "{text}");
            assert_eq!(base32_decode(base32_encode(text.as_bytes()).as_bytes()), Ok(text.into()), "{text}");
        }
        assert_eq!(base64_encode(b"hi"), "aGk=");
        assert_eq!(base32_encode(b"foobar"), "MZXW6YTBOI======");
        assert_eq!(base64_decode(b"aG\nk="), Ok(b"hi".to_vec()));
    }

    #[test]
    fn errors_name_the_offset() {
        assert_eq!(base64_decode(b"!"), Err(0));
        assert_eq!(base64_decode(b"aG!="), Err(2));
        assert_eq!(base64_decode(b"aGk"), Err(0));
        assert_eq!(base64_decode(b"aGkxa"), Err(4));
        assert_eq!(base64_decode(b"aG=x"), Err(2));
        assert_eq!(base64_decode(b"aGk=a"), Err(4));
    }
}
