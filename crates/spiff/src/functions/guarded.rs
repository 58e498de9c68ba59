//! Functions that take randomness (section 11.5): only for hosts that grant it.

use std::time::SystemTime;

use x25519_dalek::{X25519_BASEPOINT_BYTES, x25519};

use super::Outcome;
use super::arguments::{count, fits, int, text};
#[cfg(feature = "keys")]
use super::new_keys;
use super::patterns::compile;
use super::{passwords, secrets};
use crate::issue::Issue;
use crate::limits::Limits;
use crate::value::Value;

/// What guarded functions take from the host.
pub(crate) trait Source {
    /// Fills `bytes` with random ones that are fit for keys.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Issue>;

    fn limits(&self) -> &Limits;

    /// The time, if the host grants its clock.
    fn now(&self) -> Option<SystemTime>;
}

/// A function that needs a [`Source`].
pub(crate) type Guarded = fn(&mut dyn Source, &[Value]) -> Outcome;

/// The guarded function `name`.
pub(crate) fn find_guarded(name: &str) -> Option<Guarded> {
    Some(match name {
        "rand" => rand,
        "bcrypt" => passwords::bcrypt,
        "encrypt" => secrets::encrypt,
        "md5crypt" => passwords::md5crypt,
        "wggenkey" => wggenkey,
        #[cfg(feature = "keys")]
        "x509cert" => new_keys::certificate,
        #[cfg(feature = "keys")]
        "x509genkey" => new_keys::generate_key,
        _ => return None,
    })
}

pub(super) fn bytes<const N: usize>(source: &mut dyn Source) -> Result<[u8; N], Issue> {
    let mut bytes = [0; N];
    source.fill(&mut bytes)?;
    Ok(bytes)
}

/// A number below `limit`, each as likely as the others. `limit` is not 0.
fn below(source: &mut dyn Source, limit: u64) -> Result<u64, Issue> {
    let unfair = u64::MAX - u64::MAX % limit;
    loop {
        let number = u64::from_le_bytes(bytes(source)?);
        if number < unfair {
            return Ok(number % limit);
        }
    }
}

fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// `rand([int|bool|charset [, n]])`
fn rand(source: &mut dyn Source, arguments: &[Value]) -> Outcome {
    count(arguments, 0..=2, "rand takes a maximum of 2 arguments")?;
    let Some(kind) = arguments.first() else {
        return Ok(Value::Int(signed(below(source, i64::MAX.unsigned_abs())?)));
    };
    match kind {
        Value::Int(limit) | Value::Data(limit) => {
            count(arguments, 1..=1, "rand int takes only one argument")?;
            if *limit == 0 {
                return Err("zero range not possible for integer random values".into());
            }
            let number = signed(below(source, limit.unsigned_abs())?);
            Ok(Value::Int(if *limit < 0 { -number } else { number }))
        }
        Value::Bool(_) => {
            count(arguments, 1..=1, "rand bool takes only one argument")?;
            Ok(Value::Bool(below(source, 2)? == 1))
        }
        Value::String(class) => random_text(source, class, arguments.get(1)),
        _ => Err("rand takes an integer, a bool or a set of characters".into()),
    }
}

fn random_text(source: &mut dyn Source, class: &str, length: Option<&Value>) -> Outcome {
    let length = match length {
        None => 1,
        Some(length) => {
            let kind = length.type_name();
            let length = int(length, &format!("rand length must be an integer, found {kind}"))?;
            usize::try_from(length)
                .ok()
                .filter(|length| *length > 0)
                .ok_or_else(|| Issue::new(format!("rand length must be positive, found {length}")))?
        }
    };
    // Four bytes are the most that a character has.
    fits(length.saturating_mul(4), "rand", source.limits())?;
    let pattern = compile(&format!("^[{class}]$"))
        .map_err(|_| Issue::new(format!("invalid rand character set specification {class:?}")))?;
    let matching = |range: std::ops::RangeInclusive<char>| -> Vec<char> {
        range.filter(|c| pattern.regex().is_match(c.encode_utf8(&mut [0; 4]))).collect()
    };
    let mut characters = matching('\0'..='\u{7f}');
    if characters.is_empty() {
        characters = matching('\u{80}'..='\u{ffff}');
    }
    let limit = u64::try_from(characters.len()).unwrap_or(0);
    if limit == 0 {
        return Err(Issue::new(format!("rand: no character is in the set {class:?}")));
    }
    let mut result = String::new();
    for _ in 0..length {
        let position = usize::try_from(below(source, limit)?).unwrap_or(0);
        result.extend(characters.get(position));
    }
    Ok(Value::string(result))
}

/// `wggenkey([private|preshared])`
fn wggenkey(source: &mut dyn Source, arguments: &[Value]) -> Outcome {
    count(arguments, 0..=1, "a maximum of one argument expected for wggenkey")?;
    let kind = match arguments.first() {
        Some(kind) => text(kind, "argument for wggenkey must be a string (private or preshared)")?,
        None => "private",
    };
    let mut key: [u8; 32] = bytes(source)?;
    match kind {
        "preshared" => {}
        "private" => {
            key[0] &= 248;
            key[31] = key[31] & 127 | 64;
        }
        _ => return Err(Issue::new(format!("invalid key type {kind:?}, use private or preshared"))),
    }
    Ok(Value::string(data_encoding::BASE64.encode(&key)))
}

/// `wgpublickey(key)`
pub(super) fn wgpublickey(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "one argument expected for wgpublickey")?;
    let key = text(&arguments[0], "argument for wgpublickey must be a string")?;
    let key = data_encoding::BASE64.decode(key.as_bytes()).ok();
    let key: Option<[u8; 32]> = key.and_then(|key| key.try_into().ok());
    let key = key.ok_or("wgpublickey: a private key is 32 bytes in base64")?;
    Ok(Value::string(data_encoding::BASE64.encode(&x25519(key, X25519_BASEPOINT_BYTES))))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts up, so that what is made of it is known.
    #[derive(Default)]
    struct Counter {
        next: u8,
        limits: Limits,
    }

    impl Source for Counter {
        fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Issue> {
            for byte in bytes {
                *byte = self.next;
                self.next = self.next.wrapping_add(37);
            }
            Ok(())
        }

        fn limits(&self) -> &Limits {
            &self.limits
        }

        fn now(&self) -> Option<SystemTime> {
            None
        }
    }

    fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
        let called = match (find_guarded(name), crate::functions::find(name)) {
            (Some(function), _) => function(&mut Counter::default(), arguments),
            (None, Some(crate::functions::Function::Plain(function))) => function(arguments),
            _ => unreachable!("{name}"),
        };
        called.map_err(|issue| issue.message)
    }

    fn called(name: &str, arguments: &[Value]) -> String {
        match call(name, arguments).unwrap() {
            Value::String(text) => text.to_string(),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn random_values_are_of_the_kind_that_was_asked_for() {
        let text = |text: &str| Value::string(text);
        for limit in [1, 7, -7, i64::MAX, i64::MIN] {
            let number = call("rand", &[Value::Int(limit)]).unwrap().as_int().unwrap();
            assert!(
                number.unsigned_abs() < limit.unsigned_abs() && (number == 0 || (number < 0) == (limit < 0))
            );
        }
        assert!(matches!(call("rand", &[Value::Bool(true)]), Ok(Value::Bool(_))));
        assert!(matches!(call("rand", &[]), Ok(Value::Int(0..))));
        let word = called("rand", &[text("[:alnum:]"), Value::Int(20)]);
        assert!(word.len() == 20 && word.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{word}");
        assert_eq!(called("rand", &[text("é")]), "é");
        for (arguments, message) in [
            (vec![Value::Int(0)], "zero range not possible for integer random values"),
            (vec![text("a-z"), Value::Int(0)], "rand length must be positive, found 0"),
            (vec![text("z-a")], "invalid rand character set specification \"z-a\""),
            (vec![text("a"), Value::Int(i64::MAX)], "rand: the result would have more than 16777216 bytes"),
        ] {
            assert_eq!(call("rand", &arguments).unwrap_err(), message);
        }
    }

    #[test]
    fn password_hashes_are_those_of_crypt() {
        let text = |text: &str| Value::string(text);
        for (password, hash) in [
            ("secret", "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1"),
            ("", "$1$x$fwjfZtMwarkdetsjiQreU1"),
            ("a longer password with blanks", "$1$12345678$fpVJVYlHx7yWU2Frl/eSY."),
        ] {
            assert_eq!(called("md5crypt_check", &[text(password), text(hash)]), "Bool(true)", "{password}");
            assert_eq!(called("md5crypt_check", &[text("other"), text(hash)]), "Bool(false)");
        }
        let hash = called("md5crypt", &[text("secret")]);
        assert_eq!(called("md5crypt_check", &[text("secret"), text(&hash)]), "Bool(true)", "{hash}");
        let hash = called("bcrypt", &[text("secret"), Value::Int(4)]);
        assert!(hash.starts_with("$2a$04$"), "{hash}");
        assert_eq!(called("bcrypt_check", &[text("secret"), text(&hash)]), "Bool(true)");
        assert_eq!(called("bcrypt_check", &[text("other"), text(&hash)]), "Bool(false)");
        assert_eq!(called("bcrypt_check", &[text("other"), text("x")]), "Bool(false)");
        let costly = call("bcrypt_check", &[text("secret"), Value::string(hash.replace("$04$", "$31$"))]);
        assert_eq!(costly.unwrap_err(), "bcrypt error: cost 31 is beyond the limit of 14");
        assert!(call("md5crypt_check", &[text("a"), text("x")]).is_err());
    }

    /// The first test vector of RFC 7748, section 6.1.
    #[test]
    fn public_keys_belong_to_private_ones() {
        let private = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
        let public = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
        assert_eq!(called("wgpublickey", &[Value::string(private)]), public);
        let key = called("wggenkey", &[]);
        assert_eq!(called("wgpublickey", &[Value::string(key)]).len(), 44);
        assert_eq!(called("wggenkey", &[Value::string("preshared")]).len(), 44);
        assert!(call("wggenkey", &[Value::string("x")]).is_err());
        assert!(call("wgpublickey", &[Value::string("aGk=")]).is_err());
    }
}
