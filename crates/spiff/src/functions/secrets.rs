//! The functions `encrypt` and `decrypt` (`spiff.md` 11.5).
//!
//! Decrypting depends only on the arguments; encrypting needs random bytes. There is no default key
//! of the process.

use cbc::cipher::block_padding::NoPadding;
use cbc::cipher::{BlockModeDecrypt as _, BlockModeEncrypt as _, KeyIvInit as _};
use des::TdesEde3;
use hmac::{Hmac, KeyInit as _, Mac as _};
use md5::{Digest as _, Md5};
use sha2::Sha256;

use super::arguments::{fits, writable};
use super::calling::{Outcome, Source, bytes};
use crate::issue::{Issue, quote};
use crate::value::Value;
use crate::yaml::write;

/// Key of the checksum that reveals a wrong password. It is spiff++'s constant and not a secret.
const SEAL: &[u8] = b"spiff is a cool tool";
const METHOD: &str = "3DES";
const BLOCK: usize = 8;
const SEAL_BYTES: usize = 32;

/// `encrypt(x [, key [, method]])`
pub(super) fn encrypt(source: &mut dyn Source, arguments: &[Value]) -> Outcome {
    let Some(value) = arguments.first() else { return Err(wrong_count("encrypt")) };
    let key = key("encrypt", arguments)?;
    writable(value, "encrypt", source.limits())?;
    let text = write(value);
    fits(text.len().saturating_add(64).saturating_mul(2), "encrypt", source.limits())?;
    let vector: [u8; BLOCK] = bytes(source)?;
    let mut plain = text.into_bytes();
    let seal = seal(&plain);
    plain.extend(seal);
    // The padding of spiff++: each of its bytes is their number minus one.
    let fill = BLOCK - 1 - plain.len() % BLOCK;
    plain.extend(std::iter::repeat_n(u8::try_from(fill).unwrap_or(0), fill + 1));
    let cipher = cbc::Encryptor::<TdesEde3>::new(&key.into(), &vector.into());
    let encrypted = cipher.encrypt_padded_vec::<NoPadding>(&plain);
    Ok(Value::string(data_encoding::HEXLOWER.encode(&[&vector[..], &encrypted].concat())))
}

/// Returns the encrypted text for `decrypt(s [, key [, method]])`.
pub(crate) fn decrypted(arguments: &[Value]) -> Result<String, Issue> {
    let Some(value) = arguments.first() else { return Err(wrong_count("decrypt")) };
    let key = key("decrypt", arguments)?;
    let text = value
        .as_str()
        .ok_or_else(|| Issue::new(format!("decrypt requires string, but got {}", value.type_name())))?;
    let bytes = hexadecimal(text);
    let Some((vector, encrypted)) = bytes.split_at_checked(BLOCK).filter(|(_, rest)| !rest.is_empty()) else {
        return Err("invalid key: ciphertext too short".into());
    };
    if encrypted.len() % BLOCK != 0 {
        return Err("invalid key: ciphertext is not a multiple of the block size".into());
    }
    opened(&key, vector, encrypted).ok_or_else(|| Issue::new("invalid key"))
}

fn opened(key: &[u8; 24], vector: &[u8], encrypted: &[u8]) -> Option<String> {
    let vector: [u8; BLOCK] = vector.try_into().ok()?;
    let cipher = cbc::Decryptor::<TdesEde3>::new(&(*key).into(), &vector.into());
    let mut plain = cipher.decrypt_padded_vec::<NoPadding>(encrypted).ok()?;
    let fill = usize::from(*plain.last()?);
    if fill >= BLOCK || plain.len() < fill + 1 + SEAL_BYTES {
        return None;
    }
    plain.truncate(plain.len() - fill - 1);
    let given = plain.split_off(plain.len() - SEAL_BYTES);
    (seal(&plain) == given).then_some(plain).and_then(|plain| String::from_utf8(plain).ok())
}

fn seal(text: &[u8]) -> Vec<u8> {
    // HMAC accepts a key of any length, so this cannot fail.
    Hmac::<Sha256>::new_from_slice(SEAL).map_or_else(
        |_| Vec::new(),
        |mut mac| {
            mac.update(text);
            mac.finalize().into_bytes().to_vec()
        },
    )
}

/// Decodes hexadecimal digits up to the first other character.
fn hexadecimal(text: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let pairs = text.as_bytes().chunks_exact(2);
    pairs.map_while(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect()
}

fn wrong_count(function: &str) -> Issue {
    Issue::new(format!("{function} expects one, two or three arguments"))
}

/// Returns the key from the arguments behind the first.
fn key(function: &str, arguments: &[Value]) -> Result<[u8; 24], Issue> {
    let string = |value: &Value, what: &str| {
        let found = value.type_name();
        value
            .as_str()
            .map(str::to_owned)
            .ok_or_else(|| Issue::new(format!("{function}: {what} requires string, but got {found}")))
    };
    let (key, method) = match arguments {
        [_] => (String::new(), METHOD.to_owned()),
        [_, key] => {
            let key = string(key, "2nd argument")?;
            if key == METHOD { (String::new(), key) } else { (key, METHOD.to_owned()) }
        }
        [_, key, method] => (string(key, "2nd argument")?, string(method, "method")?),
        _ => return Err(wrong_count(function)),
    };
    if method != METHOD {
        return Err(Issue::new(format!("invalid encyption method {}", quote(&method))));
    }
    if key.is_empty() {
        return Err("invalid empty encyption key".into());
    }
    let mut full = key.into_bytes();
    // As in spiff++, the digest of the empty text is appended to the key, which is how Go's `Sum`
    // works, instead of hashing the key. Only the first 16 bytes count.
    full.extend(Md5::digest(b""));
    let mut bytes = [0; 24];
    bytes[..16].copy_from_slice(&full[..16]);
    bytes[16..].copy_from_slice(&full[..8]);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;

    struct Sevens(Limits);

    impl Source for Sevens {
        fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Issue> {
            bytes.fill(7);
            Ok(())
        }

        fn limits(&self) -> &Limits {
            &self.0
        }

        fn spend(&mut self, _: usize) -> Result<(), Issue> {
            Ok(())
        }

        fn pattern(&mut self, _: &str, _: usize) -> Result<(), Issue> {
            Ok(())
        }

        fn now(&self) -> Option<std::time::SystemTime> {
            None
        }
    }

    #[test]
    fn what_was_encrypted_is_decrypted() {
        for length in 0..20 {
            let (value, key) = (Value::string("x".repeat(length)), Value::string("ladder"));
            let arguments = [value.clone(), key.clone()];
            let encrypted = encrypt(&mut Sevens(Limits::default()), &arguments).unwrap();
            assert_eq!(decrypted(&[encrypted.clone(), key]).unwrap(), write(&value));
            let wrong = decrypted(&[encrypted, Value::string("other")]).unwrap_err();
            assert_eq!(wrong.to_string(), "invalid key");
        }
    }

    #[test]
    fn refusals_of_decrypt() {
        let text = |text: &str| Value::string(text);
        for (arguments, wanted) in [
            (vec![], "decrypt expects one, two or three arguments"),
            (vec![text("0011")], "invalid empty encyption key"),
            (vec![text("0011"), text("3DES")], "invalid empty encyption key"),
            (vec![Value::Int(5), text("k")], "decrypt requires string, but got int"),
            (vec![text("00"), Value::Int(5)], "decrypt: 2nd argument requires string, but got int"),
            (vec![text("00"), text("k"), Value::Int(5)], "decrypt: method requires string, but got int"),
            (vec![text("0011223344556677zz"), text("k")], "invalid key: ciphertext too short"),
            (
                vec![text("0011223344556677889900112233445566"), text("k")],
                "invalid key: ciphertext is not a multiple of the block size",
            ),
            (vec![text("00112233445566778899001122334455"), text("k")], "invalid key"),
        ] {
            assert_eq!(decrypted(&arguments).unwrap_err().to_string(), wanted);
        }
    }
}
