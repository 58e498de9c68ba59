//! Hashes of passwords, passwords from a master password, and AES (`gotemplate.md` 12.13).

use aes::Aes256;
use cbc::cipher::block_padding::{NoPadding, Pkcs7};
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::registration::Outcome;
use crate::context::Context;
use crate::encoding;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::Value;

/// Steps for a bcrypt hash of cost 10, needed by the hostile input `go_htpasswd_many`.
const BCRYPT_STEPS: usize = 2_600_000;
/// Steps for the derivation of a master key, which takes some 200 ms and 32 MiB. Needed by the
/// hostile input `go_derive_many`.
const SCRYPT_STEPS: usize = 5_000_000;
const BCRYPT_COST: u32 = 10;
/// Longest password in bytes that bcrypt hashes as a whole; it would cut longer ones, so they are
/// refused.
const LONGEST_PASSWORD: usize = 72;
const BLOCK: usize = 16;

pub(super) fn register(functions: &mut Functions) {
    let two = Signature::fixed(&[Type::String, Type::String]);
    functions
        .add("bcrypt", Signature::fixed(&[Type::String]), |context, args| {
            Ok(hashed(context, "bcrypt", args.string(0))?.into())
        })
        .add("htpasswd", two.clone(), |context, args| {
            let mut line = args.string(0).to_vec();
            if line.contains(&b':') {
                // sprig returns this text as the result of the function, not as an error.
                return Ok([b"invalid username: ", line.as_slice()].concat().into());
            }
            line.push(b':');
            line.extend(hashed(context, "htpasswd", args.string(1))?.into_bytes());
            Ok(line.into())
        })
        .add("encryptAES", two.clone(), |context, args| encrypt(context, args.string(0), args.string(1)))
        .add("decryptAES", two, |context, args| {
            context.check_text(args.string(1).len())?;
            decrypt(args.string(0), args.string(1))
        })
        .add(
            "derivePassword",
            Signature::fixed(&[Type::Uint32, Type::String, Type::String, Type::String, Type::String]),
            derive_password,
        );
}

/// Returns the bcrypt hash with a random salt, or the error text that sprig gives instead.
fn hashed(context: &mut Context<'_>, function: &'static str, password: &[u8]) -> Result<String, CallError> {
    const FAILED: &str = "failed to encrypt string with bcrypt: ";
    let mut salt = [0; 16];
    context.randomize(function, &mut salt)?;
    if password.len() > LONGEST_PASSWORD {
        return Ok(format!("{FAILED}bcrypt: password length exceeds 72 bytes"));
    }
    context.spend(BCRYPT_STEPS)?;
    Ok(match bcrypt::hash_with_salt(password, BCRYPT_COST, salt) {
        Ok(parts) => parts.format_for_version(bcrypt::Version::TwoA),
        Err(error) => format!("{FAILED}{error}"),
    })
}

/// Returns the password as an AES key: its bytes, cut or filled with zeros.
fn key(password: &[u8]) -> [u8; 32] {
    let mut key = [0; 32];
    let length = password.len().min(key.len());
    key[..length].copy_from_slice(&password[..length]);
    key
}

fn encrypt(context: &mut Context<'_>, password: &[u8], text: &[u8]) -> Outcome {
    let mut start = [0; BLOCK];
    context.randomize("encryptAES", &mut start)?;
    if text.is_empty() {
        return Ok(Value::str(""));
    }
    context.check_text(text.len().saturating_mul(2))?;
    let cipher = cbc::Encryptor::<Aes256>::new(&key(password).into(), &start.into());
    let mut message = start.to_vec();
    message.extend(cipher.encrypt_padded_vec::<Pkcs7>(text));
    Ok(encoding::base64_encode(&message).into())
}

fn decrypt(password: &[u8], text: &[u8]) -> Outcome {
    if text.is_empty() {
        return Ok(Value::str(""));
    }
    let message = encoding::base64_decode(text)
        .map_err(|offset| format!("illegal base64 data at input byte {offset}"))?;
    let Some((start, message)) = message.split_first_chunk::<BLOCK>() else {
        // The panic in Go names the capacity of the buffer, which is the decoded length with
        // padding.
        let capacity = text.len() / 4 * 3;
        return Err(format!("runtime error: slice bounds out of range [:16] with capacity {capacity}").into());
    };
    let cipher = cbc::Decryptor::<Aes256>::new(&key(password).into(), &(*start).into());
    let mut text = cipher
        .decrypt_padded_vec::<NoPadding>(message)
        .map_err(|_| "crypto/cipher: input not full blocks")?;
    // Like sprig, this takes the last byte for the length of the padding without checking the
    // padding, so that a wrong password may give any text.
    let padding = usize::from(*text.last().ok_or("runtime error: index out of range [-1]")?);
    let Some(length) = text.len().checked_sub(padding) else {
        let beyond = padding - text.len();
        return Err(format!("runtime error: slice bounds out of range [:-{beyond}]").into());
    };
    text.truncate(length);
    Ok(text.into())
}

/// Returns the templates of a type of password; each letter is a class of characters.
fn templates(name: &[u8]) -> Option<&'static [&'static str]> {
    Some(match name {
        b"maximum" => &["anoxxxxxxxxxxxxxxxxx", "axxxxxxxxxxxxxxxxxno"],
        b"long" => &[
            "CvcvnoCvcvCvcv",
            "CvcvCvcvnoCvcv",
            "CvcvCvcvCvcvno",
            "CvccnoCvcvCvcv",
            "CvccCvcvnoCvcv",
            "CvccCvcvCvcvno",
            "CvcvnoCvccCvcv",
            "CvcvCvccnoCvcv",
            "CvcvCvccCvcvno",
            "CvcvnoCvcvCvcc",
            "CvcvCvcvnoCvcc",
            "CvcvCvcvCvccno",
            "CvccnoCvccCvcv",
            "CvccCvccnoCvcv",
            "CvccCvccCvcvno",
            "CvcvnoCvccCvcc",
            "CvcvCvccnoCvcc",
            "CvcvCvccCvccno",
            "CvccnoCvcvCvcc",
            "CvccCvcvnoCvcc",
            "CvccCvcvCvccno",
        ],
        b"medium" => &["CvcnoCvc", "CvcCvcno"],
        b"short" => &["Cvcn"],
        b"basic" => &["aaanaaan", "aannaaan", "aaannaaa"],
        b"pin" => &["nnnn"],
        _ => return None,
    })
}

/// Returns the characters of a class.
fn class(letter: u8) -> &'static [u8] {
    match letter {
        b'C' => b"BCDFGHJKLMNPQRSTVWXYZ",
        b'v' => b"aeiou",
        b'c' => b"bcdfghjklmnpqrstvwxyz",
        b'a' => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz",
        b'n' => DIGITS,
        b'o' => b"@&%?,=[]_:-+*$#!'^~;()/.",
        _ => b"AEIOUaeiouBCDFGHJKLMNPQRSTVWXYZbcdfghjklmnpqrstvwxyz0123456789!@#$%^&*()",
    }
}

const DIGITS: &[u8] = b"0123456789";

/// Runs the Master Password algorithm: a key from password and user, a seed from key, site and
/// counter, characters by seed.
fn derive_password(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    const PREFIX: &[u8] = b"com.lyndir.masterpassword";
    let (name, password, user, site) = (args.string(1), args.string(2), args.string(3), args.string(4));
    let Some(templates) = templates(name) else {
        return Ok([b"cannot find password template ", name].concat().into());
    };
    let counter = args.int(0) as u32;
    let length = |text: &[u8]| (text.len() as u32).to_be_bytes();
    context.spend(SCRYPT_STEPS)?;
    let mut key = [0; 64];
    let parameters =
        scrypt::Params::new(15, 8, 2).map_err(|error| format!("failed to derive password: {error}"))?;
    scrypt::scrypt(password, &[PREFIX, &length(user), user].concat(), &parameters, &mut key)
        .map_err(|error| format!("failed to derive password: {error}"))?;
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
    for part in [PREFIX, &length(site), site, &counter.to_be_bytes()] {
        mac.update(part);
    }
    let seed = mac.finalize().into_bytes();
    let template = templates[usize::from(seed[0]) % templates.len()];
    let choose = |(letter, byte): (u8, &u8)| {
        let characters = class(letter);
        characters[usize::from(*byte) % characters.len()]
    };
    Ok(template.bytes().zip(&seed[1..]).map(choose).collect::<Vec<u8>>().into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::functions::Functions;
    use crate::grants::Grants;
    use crate::options::Options;
    use crate::template::Template;
    use crate::testing::check_all;
    use crate::value::Value;

    /// Renders with a source of randomness that gives zeros.
    fn run(source: &str) -> String {
        let randomness = |buffer: &mut [u8]| {
            buffer.fill(0);
            Ok(())
        };
        let grants = Grants { randomness: Some(Arc::new(randomness)), ..Grants::default() };
        let options = Options { grants, ..Options::default() };
        let template = Template::parse("t", source, &Arc::new(Functions::sprig()), &options).unwrap();
        String::from_utf8(template.render(Value::Nil).unwrap()).unwrap()
    }

    #[test]
    fn master_passwords_are_those_of_the_chapter() {
        check_all(&[
            (r#"{{derivePassword 1 "long" "password" "user" "example.com"}}"#, "ZedaFaxcZaso9*"),
            (r#"{{derivePassword 1 "pin" "password" "user" "example.com"}}"#, "6685"),
            (r#"{{derivePassword 1 "bad" "p" "u" "s"}}"#, "cannot find password template bad"),
            (
                r#"{{derivePassword -1 "bad" "p" "u" "s"}}"#,
                r#"error 1:17: executing "t" at <-1>: expected unsigned integer; found -1"#,
            ),
            (
                r#"{{derivePassword (int 1) "bad" "p" "u" "s"}}"#,
                r#"error 1:22: executing "t" at <1>: wrong type for value; expected uint32; got int"#,
            ),
        ]);
    }

    #[test]
    fn passwords_are_hashed() {
        let hash = run(r#"{{bcrypt "secret"}}"#);
        assert!(hash.starts_with("$2a$10$") && bcrypt::verify("secret", &hash).unwrap(), "{hash}");
        let line = run(r#"{{htpasswd "ann" "secret"}}"#);
        assert!(bcrypt::verify("secret", line.strip_prefix("ann:").unwrap()).unwrap(), "{line}");
        assert_eq!(run(r#"{{htpasswd "a:b" "x"}}"#), "invalid username: a:b");
        let failed = "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes";
        assert_eq!(run(r#"{{bcrypt (repeat 73 "x")}}"#), failed);
    }

    #[test]
    fn texts_are_encrypted_and_decrypted() {
        for text in ["a", "0123456789abcdef", "longer than one block, é"] {
            let source = format!("{{{{encryptAES `key` `{text}` | decryptAES `key`}}}}");
            assert_eq!(run(&source), text);
        }
        assert_eq!(run("{{encryptAES `k` ``}}{{decryptAES `k` ``}}"), "");
        // The prefix was computed with OpenSSL: aes-256-cbc with the key `key` and zeros, and an
        // initialization vector of zeros.
        let prefix = "A".repeat(21);
        assert!(run("{{encryptAES `key` `a`}}").starts_with(&prefix));
        let error =
            |text: &str| format!(r#"error 1:2: executing "t" at <{text}>: error calling decryptAES: "#);
        check_all(&[
            (
                "{{decryptAES `k` `!`}}",
                &(error("decryptAES `k` `!`") + "illegal base64 data at input byte 0"),
            ),
            (
                "{{decryptAES `k` `AAAA`}}",
                &(error("decryptAES `k` `AAAA`")
                    + "runtime error: slice bounds out of range [:16] with capacity 3"),
            ),
            (
                "{{decryptAES `k` `AAAAAAAAAAAAAAAAAAAAAAAA`}}",
                &(error("decryptAES `k` `AAAAAAAAAAAAAAAAAAAAAAAA`")
                    + "crypto/cipher: input not full blocks"),
            ),
            (
                "{{decryptAES `k` `AAAAAAAAAAAAAAAAAAAAAA==`}}",
                &(error("decryptAES `k` `AAAAAAAAAAAAAAAAAAAAAA==`")
                    + "runtime error: index out of range [-1]"),
            ),
        ]);
    }
}
