//! Certificates that are written can be read, and say what they were told.

#![cfg(feature = "make")]
#![allow(clippy::unwrap_used)]

use groundwork_keys::{
    Algorithm, Certificate, ExtendedKeyUsage, Issuer, KeyError, KeyUsage, PrivateKey, SigningKey, Subject,
    TbsCertificate, pem_block, to_pem,
};

fn tbs(name: &str, is_authority: bool) -> TbsCertificate {
    TbsCertificate {
        serial: [0x80; 16],
        subject: Subject {
            country: vec!["DE".to_owned()],
            // In the order of DER, which sorts sets: the shorter ones first.
            organization: vec!["Ash?".to_owned(), "Oak & Elm".to_owned()],
            common_name: name.to_owned(),
        },
        not_before: -700_000_000,
        not_after: 2_600_000_000,
        is_authority,
        key_usage: KeyUsage::DIGITAL_SIGNATURE | KeyUsage::DECIPHER_ONLY,
        extended_key_usage: vec![ExtendedKeyUsage::NetscapeServerGatedCrypto, ExtendedKeyUsage::Any],
        dns_names: vec!["a.example.org".to_owned()],
        ip_addresses: vec!["10.0.0.1".parse().unwrap(), "fe80::1".parse().unwrap()],
    }
}

#[test]
fn what_is_written_is_read() {
    for algorithm in
        [Algorithm::Rsa2048, Algorithm::P256, Algorithm::P384, Algorithm::P521, Algorithm::Ed25519]
    {
        let key = SigningKey::generate(algorithm).unwrap();
        let info = key.public_key_info().unwrap();
        let root = tbs("röt", true);
        let authority = Certificate::parse(&root.sign(&info, Issuer::Subject(&key)).unwrap()).unwrap();
        assert_eq!(authority.common_name.as_deref(), Some("röt"), "{algorithm:?}");
        assert_eq!(authority.organization, root.subject.organization);
        assert_eq!(authority.country, root.subject.country);
        assert!(authority.is_authority);
        assert_eq!((authority.not_before, authority.not_after), (root.not_before, root.not_after));
        assert_eq!(authority.key_usage, root.key_usage);
        assert_eq!(authority.extended_key_usage, root.extended_key_usage);
        assert_eq!(authority.dns_names, root.dns_names);
        assert_eq!(authority.ip_addresses, root.ip_addresses);
        assert_eq!(authority.public_key.is_none(), algorithm == Algorithm::Ed25519);
        let leaf = tbs("leaf", false).sign(&info, Issuer::Authority(&authority, &key)).unwrap();
        assert!(!Certificate::parse(&leaf).unwrap().is_authority);
        let other = SigningKey::generate(Algorithm::P256).unwrap();
        let refused = tbs("leaf", false).sign(&info, Issuer::Authority(&authority, &other));
        assert_eq!(refused, Err(KeyError::OtherIssuer));
    }
}

#[test]
fn keys_that_are_written_are_read() {
    for algorithm in [Algorithm::Rsa2048, Algorithm::P256, Algorithm::P384, Algorithm::P521] {
        let key = SigningKey::generate(algorithm).unwrap();
        let text = key.to_pem().unwrap();
        let again = SigningKey::parse(&text).unwrap();
        let public_key = PrivateKey::parse(&text).unwrap().public_key().unwrap();
        assert_eq!(again.to_pem().unwrap(), text);
        assert_eq!(public_key.to_pkix(), key.public_key_info().unwrap(), "{algorithm:?}");
    }
}

#[test]
fn keys_on_curves_need_not_hold_their_public_key() {
    let key = SigningKey::generate(Algorithm::P256).unwrap();
    let block = pem_block(key.to_pem().unwrap().as_bytes()).unwrap();
    // The sequence of version, key and curve alone: what follows is the public key.
    let mut der = block.contents()[..2 + 3 + 34 + 12].to_vec();
    der[1] = u8::try_from(der.len() - 2).unwrap();
    let public_key = PrivateKey::parse(&to_pem("EC PRIVATE KEY", &der)).unwrap().public_key().unwrap();
    assert_eq!(public_key.to_pkix(), key.public_key_info().unwrap());
}
