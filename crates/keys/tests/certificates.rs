//! Tests that written certificates can be read, with the same content.

#![allow(clippy::unwrap_used)]

use groundwork_keys::{
    Algorithm, Certificate, ExtendedKeyUsage, Issuer, KeyError, KeyUsage, PrivateKey, PublicKey, SigningKey,
    Subject, TbsCertificate, pem_block, to_pem,
};
use x509_parser::prelude::{FromDer as _, X509Certificate};

fn tbs(name: &str, is_authority: bool) -> TbsCertificate {
    TbsCertificate {
        serial: [0x80; 16],
        subject: Subject {
            country: vec!["DE".to_owned()],
            // DER sorts sets, with shorter values first.
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
        let wanted = tbs("röt", true);
        let root = wanted.sign(&info, Issuer::Subject(&key)).unwrap();
        let authority = Certificate::parse(&root).unwrap();
        assert_eq!(authority.common_name.as_deref(), Some("röt"), "{algorithm:?}");
        assert_eq!(authority.organization, wanted.subject.organization);
        assert_eq!(authority.country, wanted.subject.country);
        assert!(authority.is_authority);
        assert_eq!((authority.not_before, authority.not_after), (wanted.not_before, wanted.not_after));
        assert_eq!(authority.key_usage, wanted.key_usage);
        assert_eq!(authority.extended_key_usage, wanted.extended_key_usage);
        assert_eq!(authority.dns_names, wanted.dns_names);
        assert_eq!(authority.ip_addresses, wanted.ip_addresses);
        assert_eq!(authority.public_key.is_none(), algorithm == Algorithm::Ed25519);
        let leaf = tbs("leaf", false).sign(&info, Issuer::Authority(&authority, &key)).unwrap();
        assert!(!Certificate::parse(&leaf).unwrap().is_authority);
        let [root, leaf] = [&root, &leaf].map(|text| pem_block(text.as_bytes()).unwrap().into_contents());
        let (_, root) = X509Certificate::from_der(&root).unwrap();
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        // The issuer must be equal byte by byte, or verifiers do not find the authority.
        assert_eq!(leaf.issuer().as_raw(), root.subject().as_raw());
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
    // Keeps only version, key and curve of the sequence, without the public key behind them.
    let mut der = block.contents()[..2 + 3 + 34 + 12].to_vec();
    der[1] = u8::try_from(der.len() - 2).unwrap();
    let public_key = PrivateKey::parse(&to_pem("EC PRIVATE KEY", &der)).unwrap().public_key().unwrap();
    assert_eq!(public_key.to_pkix(), key.public_key_info().unwrap());
}

#[test]
fn points_have_the_length_of_their_curve() {
    let key = SigningKey::generate(Algorithm::P256).unwrap();
    let info = key.public_key_info().unwrap();
    let text = |der: &[u8]| to_pem("PUBLIC KEY", der);
    assert!(PublicKey::parse(&text(&info)).is_ok());
    // The first byte of a point is its form: 4 means both coordinates.
    let mut compressed = info.clone();
    let form = info.len() - 65;
    compressed[form] = 2;
    assert_eq!(PublicKey::parse(&text(&compressed)), Err(KeyError::MalformedPublicKey));
}

/// Case: the time of computations with the numbers of a key grows with the square of their length.
#[test]
fn numbers_have_a_longest_length() {
    let number = |bytes: usize| {
        yasna::construct_der(|writer| {
            writer.write_sequence(|writer| {
                writer.next().write_u8(0);
                for _ in 0..8 {
                    writer.next().write_bigint_bytes(&vec![0x7f; bytes], true);
                }
            });
        })
    };
    for (bytes, wanted) in [(2_048, KeyError::Primes), (2_049, KeyError::TooLong)] {
        let text = to_pem("RSA PRIVATE KEY", &number(bytes));
        assert_eq!(PrivateKey::parse(&text), Err(wanted), "{bytes}");
    }
}

#[test]
fn broken_bytes_give_errors() {
    let key = SigningKey::generate(Algorithm::P384).unwrap();
    let rsa = SigningKey::generate(Algorithm::Rsa2048).unwrap();
    let info = key.public_key_info().unwrap();
    let certificate = tbs("root", true).sign(&info, Issuer::Subject(&key)).unwrap();
    for text in [certificate, key.to_pem().unwrap(), rsa.to_pem().unwrap(), to_pem("PUBLIC KEY", &info)] {
        let block = pem_block(text.as_bytes()).unwrap();
        for position in 0..block.contents().len() {
            for change in [0x01, 0x80, 0xff] {
                let mut der = block.contents().to_vec();
                der[position] ^= change;
                let broken = to_pem(block.tag(), &der);
                // Some of the damaged texts are still keys, but none may cause a panic.
                for key in [
                    PublicKey::parse(&broken).ok(),
                    PrivateKey::parse(&broken).and_then(PrivateKey::public_key).ok(),
                    Certificate::parse(&broken).ok().and_then(|certificate| certificate.public_key),
                ] {
                    let _ = key.map(|key| (key.to_pem(), key.to_pkix_pem(), key.to_authorized_key()));
                }
                let _ = SigningKey::parse(&broken);
            }
        }
    }
}
