//! Functions for random values (`gotemplate.md` 12.1, 12.3 and 12.13). All of them need the host's
//! randomness.

use super::registration::Outcome;
use crate::context::Context;
use crate::encoding;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::text;
use crate::value::Value;

const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DIGITS: &[u8] = b"0123456789";

pub(super) fn register(functions: &mut Functions) {
    let ascii: Vec<u8> = (32..=126).collect();
    let alphabets = [
        ("randAlphaNum", [LETTERS, DIGITS].concat()),
        ("randAlpha", LETTERS.to_vec()),
        ("randNumeric", DIGITS.to_vec()),
        ("randAscii", ascii),
    ];
    for (name, alphabet) in alphabets {
        functions.add(name, Signature::fixed(&[Type::Int]), move |context, args| {
            characters(context, name, &alphabet, args.int(0))
        });
    }
    functions
        .add("randInt", Signature::fixed(&[Type::Int, Type::Int]), |context, args| {
            let (least, end) = (args.int(0), args.int(1));
            let bound = u64::try_from(end.wrapping_sub(least)).unwrap_or(0);
            let chosen = below(context, "randInt", bound)?;
            Ok(Value::int(least.wrapping_add_unsigned(chosen)))
        })
        .add("randBytes", Signature::fixed(&[Type::Int]), |context, args| {
            let count =
                usize::try_from(args.int(0)).map_err(|_| "runtime error: makeslice: len out of range")?;
            context.check_text(count.saturating_mul(2))?;
            let mut bytes = vec![0; count];
            context.randomize("randBytes", &mut bytes)?;
            Ok(encoding::base64_encode(&bytes).into())
        })
        .add("shuffle", Signature::fixed(&[Type::String]), |context, args| shuffle(context, args.string(0)))
        .add("uuidv4", Signature::fixed(&[]), |context, _| {
            let mut bytes = [0; 16];
            context.randomize("uuidv4", &mut bytes)?;
            Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string().into())
        });
}

/// Returns a number below the bound, each with the same probability.
pub(super) fn below(context: &mut Context<'_>, function: &'static str, bound: u64) -> Result<u64, CallError> {
    let mut bytes = [0; 8];
    loop {
        context.randomize(function, &mut bytes)?;
        if bound == 0 {
            return Err("invalid argument to Intn".into());
        }
        let number = u64::from_ne_bytes(bytes);
        // Numbers in the last, incomplete run of `bound` values are drawn again, because they would
        // make small results more likely.
        if number < u64::MAX - u64::MAX % bound {
            return Ok(number % bound);
        }
    }
}

fn characters(context: &mut Context<'_>, function: &'static str, alphabet: &[u8], count: i64) -> Outcome {
    let count = usize::try_from(count).unwrap_or(0);
    context.check_text(count)?;
    context.randomize(function, &mut [])?;
    let mut out = Vec::with_capacity(count);
    // Bytes from `usable` on are skipped, because they would make the first letters of the alphabet
    // more likely.
    let usable = 256 - 256 % alphabet.len();
    let mut bytes = vec![0; count.clamp(16, 4_096)];
    while out.len() < count {
        context.randomize(function, &mut bytes)?;
        let chosen = bytes.iter().map(|byte| usize::from(*byte)).filter(|byte| *byte < usable);
        out.extend(chosen.take(count - out.len()).map(|byte| alphabet[byte % alphabet.len()]));
    }
    Ok(out.into())
}

/// Returns the characters in a random order.
fn shuffle(context: &mut Context<'_>, source: &[u8]) -> Outcome {
    context.spend(source.len())?;
    context.randomize("shuffle", &mut [])?;
    let mut characters: Vec<char> =
        text::runes(source).map(|(c, _)| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    for last in (1..characters.len()).rev() {
        let other = below(context, "shuffle", last as u64 + 1)?;
        characters.swap(last, usize::try_from(other).unwrap_or(last));
    }
    Ok(characters.into_iter().collect::<String>().into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::error::{Error, ErrorKind};
    use crate::functions::Functions;
    use crate::grants::Grants;
    use crate::options::Options;
    use crate::template::Template;
    use crate::value::Value;

    /// Renders with a source of bytes that count up, so that every run gives the same.
    fn run(source: &str) -> Result<String, Error> {
        let counter = std::sync::atomic::AtomicU8::new(1);
        let randomness = move |buffer: &mut [u8]| {
            for byte in buffer {
                *byte = counter.fetch_add(7, std::sync::atomic::Ordering::Relaxed);
            }
            Ok(())
        };
        let grants = Grants { randomness: Some(Arc::new(randomness)), ..Grants::default() };
        let options = Options { grants, ..Options::default() };
        let template = Template::parse("t", source, &Arc::new(Functions::sprig()), &options)?;
        Ok(crate::text::lossy(&template.render(Value::Nil)?).into_owned())
    }

    #[test]
    fn random_texts_keep_to_their_alphabet() {
        for (function, fits) in [
            ("randAlphaNum", (|c| c.is_ascii_alphanumeric()) as fn(char) -> bool),
            ("randAlpha", |c| c.is_ascii_alphabetic()),
            ("randNumeric", |c| c.is_ascii_digit()),
            ("randAscii", |c| (' '..='~').contains(&c)),
        ] {
            let text = run(&format!("{{{{{function} 100}}}}")).unwrap();
            assert!(text.len() == 100 && text.chars().all(fits), "{function}: {text}");
            assert_eq!(run(&format!("{{{{{function} 0}}}}{{{{{function} -1}}}}")).unwrap(), "");
        }
        assert_eq!(run("{{randBytes 5 | b64dec | len}}").unwrap(), "5");
        assert_eq!(
            run("{{range until 50}}{{$n := randInt 3 6}}{{if or (lt $n 3) (ge $n 6)}}bad{{end}}{{end}}")
                .unwrap(),
            ""
        );
        let uuid = run("{{uuidv4}}").unwrap();
        assert!(
            uuid.len() == 36 && uuid.as_bytes()[14] == b'4' && b"89ab".contains(&uuid.as_bytes()[19]),
            "{uuid}"
        );
        let mut shuffled: Vec<char> = run(r#"{{shuffle "abcdé"}}"#).unwrap().chars().collect();
        shuffled.sort_unstable();
        assert_eq!(shuffled, ['a', 'b', 'c', 'd', 'é']);
    }

    #[test]
    fn bad_bounds_are_the_errors_of_the_original() {
        for (source, expected) in [
            ("{{randInt 5 5}}", "error calling randInt: invalid argument to Intn"),
            ("{{randBytes -1}}", "error calling randBytes: runtime error: makeslice: len out of range"),
        ] {
            assert_eq!(run(source).unwrap_err().message(), expected);
        }
        let huge = run("{{randAscii 9223372036854775807}}").unwrap_err();
        assert_eq!(huge.kind(), ErrorKind::Limit);
    }
}
