//! DSA keys of 2048 and 256 bits, which exist only because sprig has them. No maintained library
//! creates them any more, and new uses should avoid them.
//!
//! Finding the primes takes a minute, so all keys share them, as the standard (FIPS 186-4, 4.3)
//! allows; Go finds new ones for each key.

use num_bigint::BigUint;

use crate::block::to_pem;
use crate::der::write_numbers;

/// The prime modulus.
const P: &str = concat!(
    "c8467df6fecdb440d46786e70a5efe7688ffe2a7ddeb65c8d844d2f07939e131780bde3eef4095ead922163721771596",
    "a65aebdccacf804c83d50691c8d449769014bab9489dfe55703c59a68729fadfc71a68df243cb4d01b84e3b4814a30b1",
    "db5c2d944c7ddb9ffd44f04d07fe2e2c2c83966eb821d21ad4b60d699488d559dbff9a80a508b389d11cf4d6e3858fc5",
    "a3cda4314c70cdf15acd4afcb374da2a8b5c09ee0e6d679e899a6b099b9c69192d7583bb5678f7534e4e9c5ac49d3f39",
    "fbd30e8b2803d6ae486146b9071f29bf275939747c50ff35515b9791aaaad06d528a4f29f43f2c3666507a05a11ceea8",
    "6e03ab0c409fb3e092856febe0154e57",
);
/// The prime order of the subgroup.
const Q: &str = "fe00b94d7b7ea8d4f95d504d473ec1a73c1ba762669f060cdd4b8caea7b3b3e9";
/// A generator of that subgroup.
const G: &str = concat!(
    "13ce7d031951d19b85a8f8af1d0b02df3a0a01c5144c40d05168a32dc772096ca2925fabcc165519db6869cc45b8b5c5",
    "da4301288dfe7cf63c857f895fc845c9924eafc5e99afecb03b1542d240d32b91a73dad8c1138506b4245d1ea43931b1",
    "1f8f9e0ee555d0e34f45bb130b86f394d297a4415011852cf4ffe443d99b371e9aa45e8e743ff9c06ef11610eeaf3979",
    "2e42663eaeb45141ccdf669771053ea869ab01925eaa45e153c85c12f398102c4256040f7c75030eff1745ef94a8a2d4",
    "39a3b3ecc75cd7a1664718352a341d33638f6405856cc436a023e7dcee5c625f30f82f1dbed37c8445f95c9df8e10b84",
    "26e210ae1de979c2df57aba5480b7380",
);

/// Number of random bytes for [`new_dsa_key`]: 64 bits more than the order, so that the remainder
/// is nearly uniform.
pub const DSA_RANDOM_BYTES: usize = 40;

fn number(digits: &str) -> BigUint {
    BigUint::parse_bytes(digits.as_bytes(), 16).unwrap_or_default()
}

/// Returns a key as PEM in OpenSSL's form: version, p, q, g, y, x. The bytes must be random and fit
/// for keys.
pub fn new_dsa_key(random: [u8; DSA_RANDOM_BYTES]) -> String {
    let (p, q, g) = (number(P), number(Q), number(G));
    // The secret is from 1 to q - 1.
    let x = BigUint::from_bytes_be(&random) % (&q - 1u8) + 1u8;
    let y = g.modpow(&x, &p);
    to_pem("DSA PRIVATE KEY", &write_numbers(&[&BigUint::ZERO, &p, &q, &g, &y, &x]))
}
