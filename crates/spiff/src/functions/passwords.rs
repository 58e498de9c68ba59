//! Password hashes (`spiff.md` 11.5). Checking one needs no grant; creating one needs randomness.

use groundwork_budget::BYTES_PER_STEP;
use md5::{Digest, Md5};

use super::arguments::{count, int, text};
use super::calling::{Answer, Caller, Outcome, Source, bytes};
use crate::issue::Issue;
use crate::value::Value;

/// Largest cost of bcrypt. Each step doubles the work; 14 takes about a second.
const LARGEST_COST: u32 = 14;
const SMALLEST_COST: u32 = 4;
const DEFAULT_COST: u32 = 10;
/// Steps for bcrypt with cost 0. Each step of the cost doubles them. Needed by the hostile input
/// `sp2_bcrypt_each`.
const BCRYPT_STEPS: usize = 2_500;

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
    source.spend(affordable(cost)?)?;
    let hash = ::bcrypt::non_truncating_hash_with_salt(password, cost, bytes(source)?)
        .map_err(|error| Issue::new(format!("bcrypt error: {error}")))?;
    Ok(Value::string(hash.format_for_version(::bcrypt::Version::TwoA)))
}

/// Returns the steps of a hash with this cost, or refuses a cost that takes too long.
fn affordable(cost: u32) -> Result<usize, Issue> {
    if cost > LARGEST_COST {
        return Err(Issue::new(format!("bcrypt error: cost {cost} is beyond the limit of {LARGEST_COST}")));
    }
    Ok(BCRYPT_STEPS << cost)
}

/// `bcrypt_check(s, hash)`
pub(super) fn bcrypt_check(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 2..=2, "bcrypt_check takes two arguments")?;
    let password = text(&arguments[0], "first argument for bcrypt_check must be a string")?;
    let hash = text(&arguments[1], "second argument for bcrypt_check must be a string")?;
    if let Some(cost) = hash.split('$').nth(2).and_then(|cost| cost.parse().ok()) {
        caller.spend(affordable(cost)?)?;
    }
    Ok(Some(Value::Bool(::bcrypt::verify(password, hash).unwrap_or(false))))
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
    source.spend(md5_steps(password.len()))?;
    Ok(Value::string(md5_hash(password, APACHE, &salt)))
}

/// `md5crypt_check(s, hash)`
pub(super) fn md5crypt_check(caller: &mut dyn Caller, arguments: &[Value]) -> Answer {
    count(arguments, 2..=2, "md5crypt_check takes two arguments")?;
    let password = text(&arguments[0], "first argument for md5crypt_check must be a string")?;
    let hash = text(&arguments[1], "second argument for md5crypt_check must be a string")?;
    let parts: Vec<&str> = hash.split('$').collect();
    let [_, magic, salt, _] = parts.as_slice() else {
        return Err("invalid md5crypt hash: must contain three '$' characters".into());
    };
    caller.spend(md5_steps(password.len() + salt.len()))?;
    Ok(Some(Value::Bool(md5_hash(password, magic, salt) == hash)))
}

/// Prefix of Apache's variant of the MD5 password hash of crypt(3).
const APACHE: &str = "apr1";

/// Rounds of the MD5 password hash.
const ROUNDS: usize = 1_000;

/// Returns the steps of the rounds, which hash this many bytes each. Needed by the hostile input
/// `sp2_md5crypt_each`.
fn md5_steps(bytes: usize) -> usize {
    bytes.saturating_add(128).saturating_mul(ROUNDS / BYTES_PER_STEP)
}

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
    for round in 0..ROUNDS {
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
