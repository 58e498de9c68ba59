//! Tests that signatures and chains made by the library verify, and that others do not.

#![allow(clippy::unwrap_used)]

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512};
use groundwork_keys::{
    Algorithm, Certificate, Hash, Issuer, KeyUsage, Padding, PublicKey, SigningKey, Subject, TbsCertificate,
    pem_block, to_pem, verify_chain,
};

fn public(key: &SigningKey) -> PublicKey {
    PublicKey::parse(&to_pem("PUBLIC KEY", &key.public_key_info().unwrap())).unwrap()
}

#[test]
fn signatures_of_rsa() {
    let (key, other) = (
        SigningKey::generate(Algorithm::Rsa2048).unwrap(),
        SigningKey::generate(Algorithm::Rsa3072).unwrap(),
    );
    let text = b"what is signed";
    for (hash, pss) in
        [(Hash::Sha256, &RSA_PSS_SHA256), (Hash::Sha384, &RSA_PSS_SHA384), (Hash::Sha512, &RSA_PSS_SHA512)]
    {
        let SigningKey::Rsa(pair) = &key else { unreachable!() };
        let mut salted = vec![0; pair.public_modulus_len()];
        pair.sign(pss, &SystemRandom::new(), text, &mut salted).unwrap();
        let plain = key.sign_rsa(hash, text).unwrap();
        let hashed = hash.of(text);
        let mut running = hash.begin();
        running.update(&text[..4]);
        running.update(&text[4..]);
        assert_eq!(running.finish(), hashed);
        for (padding, signature) in [(Padding::Pkcs1, &plain), (Padding::Pss, &salted)] {
            assert!(public(&key).verifies(padding, hash, &hashed, signature), "{padding:?} {hash:?}");
            assert!(!public(&other).verifies(padding, hash, &hashed, signature));
            assert!(!public(&key).verifies(padding, hash, &hash.of(b"other"), signature));
            assert!(!public(&key).verifies(padding, hash, &hashed[1..], signature));
            for at in [0, 100, signature.len() - 1] {
                let mut changed = signature.clone();
                changed[at] ^= 1;
                assert!(!public(&key).verifies(padding, hash, &hashed, &changed), "{padding:?} {at}");
            }
            for wrong in [&signature[1..], &[], &[0xff; 256][..], &[0; 256]] {
                assert!(!public(&key).verifies(padding, hash, &hashed, wrong));
            }
        }
        assert!(!public(&key).verifies(Padding::Pss, hash, &hashed, &plain));
    }
    let curve = SigningKey::generate(Algorithm::P256).unwrap();
    assert!(curve.sign_rsa(Hash::Sha256, text).is_err());
    assert!(!public(&curve).verifies(Padding::Pkcs1, Hash::Sha256, &Hash::Sha256.of(text), &[0; 64]));
}

#[test]
fn keys_in_pem() {
    let key = SigningKey::generate(Algorithm::Rsa2048).unwrap();
    let read = SigningKey::parse_rsa(key.to_pem().unwrap().as_bytes()).unwrap();
    assert_eq!(read.public_key_info().unwrap(), key.public_key_info().unwrap());
    for wrong in ["", "no key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"] {
        assert!(SigningKey::parse_rsa(wrong.as_bytes()).is_err());
    }
}

/// Returns a certificate in DER.
fn certificate(
    name: &str,
    is_authority: bool,
    key: &SigningKey,
    issuer: Option<(&str, &SigningKey)>,
) -> String {
    let tbs = TbsCertificate {
        serial: [7; 16],
        subject: Subject { common_name: name.to_owned(), ..Subject::default() },
        not_before: 1000,
        not_after: 2000,
        is_authority,
        key_usage: if is_authority { KeyUsage::CERT_SIGN } else { KeyUsage::DIGITAL_SIGNATURE },
        extended_key_usage: Vec::new(),
        dns_names: Vec::new(),
        ip_addresses: Vec::new(),
    };
    let info = key.public_key_info().unwrap();
    match issuer {
        None => tbs.sign(&info, Issuer::Subject(key)).unwrap(),
        Some((authority, key)) => {
            tbs.sign(&info, Issuer::Authority(&Certificate::parse(authority).unwrap(), key)).unwrap()
        }
    }
}

#[test]
fn chains() {
    let keys: Vec<SigningKey> = (0..4).map(|_| SigningKey::generate(Algorithm::Rsa2048).unwrap()).collect();
    let [root_key, middle_key, leaf_key, other_key] = &keys[..] else { unreachable!() };
    let root = certificate("root", true, root_key, None);
    let middle = certificate("middle", true, middle_key, Some((&root, root_key)));
    let leaf = certificate("leaf", false, leaf_key, Some((&middle, middle_key)));
    let below = certificate("below", false, other_key, Some((&leaf, leaf_key)));
    let stranger = certificate("root", true, other_key, None);
    let der = |texts: &[&String]| -> Vec<Vec<u8>> {
        texts.iter().map(|text| pem_block(text.as_bytes()).unwrap().into_contents()).collect()
    };
    let check = |chain: &[&String], roots: &[&String], now: i64| verify_chain(&der(chain), &der(roots), now);
    for (chain, roots) in [
        (vec![&leaf, &middle], vec![&root]),
        (vec![&leaf, &root, &middle], vec![&stranger, &root]),
        (vec![&leaf], vec![&middle]),
        (vec![&leaf], vec![&leaf]),
    ] {
        assert_eq!(check(&chain, &roots, 1500), Ok(public(leaf_key)));
    }
    for (chain, roots, now, problem) in [
        (vec![&leaf, &middle], vec![&root], 999, "not valid at this time"),
        (vec![&leaf, &middle], vec![&root], 2001, "not valid at this time"),
        (vec![&leaf], vec![&root], 1500, "CN=leaf is not signed by any of the given authorities"),
        (vec![&leaf, &middle], vec![&stranger], 1500, "CN=middle is not signed by any"),
        (vec![&below, &leaf, &middle], vec![&root], 1500, "CN=leaf is not a certificate authority"),
        (vec![], vec![&root], 1500, "the certificate chain is empty"),
    ] {
        let refused = check(&chain, &roots, now).unwrap_err();
        assert!(refused.contains(problem), "{refused}");
    }
    assert!(verify_chain(&[vec![1, 2]], &der(&[&root]), 1500).is_err());
}
