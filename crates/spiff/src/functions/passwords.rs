//! Password hashes (`spiff.md` 11.5). Checking one needs no grant; creating one needs randomness.

use md5::{Digest, Md5};

use super::arguments::{count, int, text};
use super::calling::{Outcome, Source, bytes};
use crate::issue::Issue;
use crate::value::Value;

/// Largest cost of bcrypt. Each step doubles the work; 14 takes about a second.
const LARGEST_COST: u32 = 14;
const SMALLEST_COST: u32 = 4;
const DEFAULT_COST: u32 = 10;

/// `bcrypt(s [, cost])`
pub(super) fn bcrypt(source: &mut dyn Source, arguments: &[Value]) -> Outcome {
    count(arguments, 1..=2, "bcrypt takes one or two arguments")?;
    let password = text(&arguments[0], "first argument for bcrypt must be a string")?;
    let cost = match arguments.get(1) {
        Some(cost) => int(cost, "second argument for bcrypt must be an integer")?,
        None => i64::from(DEFAULT_COST),
    };
    // Below the smallest cost spiff++ uses its default.
    let cost = u32::try_from(cost).ok().filter(|cost| *cost >= SMALLEST_COST).unwrap_or(DEFAULT_COST);
    affordable(cost)?;
    let hash = ::bcrypt::non_truncating_hash_with_salt(password, cost, bytes(source)?)
        .map_err(|error| Issue::new(format!("bcrypt error: {error}")))?;
    Ok(Value::string(hash.format_for_version(::bcrypt::Version::TwoA)))
}

/// Returns the cost of a call of `bcrypt` or `bcrypt_check`. A refused call costs nothing.
pub(super) fn accounted_cost(name: &str, arguments: &[Value]) -> u32 {
    let asked = match (name, arguments.get(1)) {
        ("bcrypt", cost) => cost.map_or(Some(i64::from(DEFAULT_COST)), Value::as_int),
        (_, hash) => hash.and_then(Value::as_str).and_then(|hash| hash.split('$').nth(2)?.parse().ok()),
    };
    let cost = asked.and_then(|cost| u32::try_from(cost).ok());
    match cost {
        Some(cost) if cost > LARGEST_COST => 0,
        Some(cost) if cost >= SMALLEST_COST => cost,
        _ => DEFAULT_COST,
    }
}

fn affordable(cost: u32) -> Result<(), Issue> {
    if cost > LARGEST_COST {
        return Err(Issue::new(format!("bcrypt error: cost {cost} is beyond the limit of {LARGEST_COST}")));
    }
    Ok(())
}

/// `bcrypt_check(s, hash)`
pub(super) fn bcrypt_check(arguments: &[Value]) -> Outcome {
    count(arguments, 2..=2, "bcrypt_check takes two arguments")?;
    let password = text(&arguments[0], "first argument for bcrypt_check must be a string")?;
    let hash = text(&arguments[1], "second argument for bcrypt_check must be a string")?;
    if let Some(cost) = hash.split('$').nth(2).and_then(|cost| cost.parse().ok()) {
        affordable(cost)?;
    }
    Ok(Value::Bool(::bcrypt::verify(password, hash).unwrap_or(false)))
}

const DIGITS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

fn digit(number: usize) -> char {
    char::from(DIGITS[number % DIGITS.len()])
}

/// `md5crypt(s)`
pub(super) fn md5crypt(source: &mut dyn Source, arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "md5crypt takes one argument")?;
    let password = text(&arguments[0], "first argument for md5crypt must be a string")?;
    let salt: [u8; 8] = bytes(source)?;
    let salt: String = salt.iter().map(|byte| digit(usize::from(*byte))).collect();
    Ok(Value::string(md5_hash(password, APACHE, &salt)))
}

/// `md5crypt_check(s, hash)`
pub(super) fn md5crypt_check(arguments: &[Value]) -> Outcome {
    count(arguments, 2..=2, "md5crypt_check takes two arguments")?;
    let password = text(&arguments[0], "first argument for md5crypt_check must be a string")?;
    let hash = text(&arguments[1], "second argument for md5crypt_check must be a string")?;
    let parts: Vec<&str> = hash.split('$').collect();
    let [_, magic, salt, _] = parts.as_slice() else {
        return Err("invalid md5crypt hash: must contain three '$' characters".into());
    };
    Ok(Value::Bool(md5_hash(password, magic, salt) == hash))
}

/// Prefix of Apache's variant of the MD5 password hash of crypt(3).
const APACHE: &str = "apr1";

/// Returns the MD5 password hash of crypt(3). `magic` names the variant. The whole salt is used,
/// not only its first eight characters.
fn md5_hash(password: &str, magic: &str, salt: &str) -> String {
    let (secret, seasoning) = (password.as_bytes(), salt.as_bytes());
    let alternate = Md5::new().chain_update(secret).chain_update(seasoning).chain_update(secret).finalize();
    let mut first =
        Md5::new().chain_update(secret).chain_update(format!("${magic}$")).chain_update(seasoning);
    for part in secret.chunks(16) {
        first.update(&alternate[..part.len()]);
    }
    let mut length = secret.len();
    while length > 0 {
        if length % 2 == 1 {
            first.update([0]);
        } else {
            first.update(&secret[..1]);
        }
        length /= 2;
    }
    let mut digest = first.finalize();
    for round in 0..1000 {
        let is_odd = round % 2 == 1;
        let mut next = Md5::new();
        next.update(if is_odd { secret } else { &digest });
        if round % 3 != 0 {
            next.update(seasoning);
        }
        if round % 7 != 0 {
            next.update(secret);
        }
        next.update(if is_odd { &digest } else { secret });
        digest = next.finalize();
    }
    let mut encoded = String::new();
    let mut push = |bytes: [usize; 3], digits: usize| {
        let group = bytes.iter().fold(0, |group, at| group << 8 | usize::from(digest[*at]));
        encoded.extend((0..digits).map(|at| digit(group >> (6 * at))));
    };
    for at in 0..5 {
        push([at, at + 6, if at == 4 { 5 } else { at + 12 }], 4);
    }
    encoded.extend([digit(usize::from(digest[11])), digit(usize::from(digest[11]) >> 6)]);
    format!("${magic}${salt}${encoded}")
}
