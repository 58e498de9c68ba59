//! Tests of keys and certificates (`spiff.md` 11.3 and 11.5): reading them needs no grant, creating
//! them needs randomness.

#![allow(clippy::unwrap_used)]

use std::time::{Duration, UNIX_EPOCH};

use groundwork_spiff::{Clock, Document, Engine, Randomness, Value};
use serde_json::json;

/// A certificate of an authority for `a.example.org` and 10.0.0.1, made with OpenSSL.
const CERTIFICATE: &str = include_str!("data/root.pem");
const PUBLIC: &str = "-----BEGIN ECDSA PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEKyfbP+4sCFNjlCOoJW2VFoW8QBXW
rI3Zb6QTGV8hiAMuIEle3we8A9XVBn7A5RooUpTVeYRtW1ZZIXAXRUG07w==
-----END ECDSA PUBLIC KEY-----
";
const SSH: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBCsn2z/uLAhTY5QjqCVtlRaFvEAV1qyN2W+kExlfIYgDLiBJXt8HvAPV1QZ+wOUaKFKU1XmEbVtWWSFwF0VBtO8=\n";

/// Creates a host that grants randomness and a clock with a fixed time.
fn granting() -> Engine {
    Engine::new()
        .with_randomness(Randomness::new(|bytes: &mut [u8]| {
            bytes.fill(7);
            Ok(())
        }))
        .with_clock(Clock::new(|| UNIX_EPOCH + Duration::from_secs(1_800_000_000)))
}

/// Returns the result of a template on such a host.
fn made(template: &str) -> Result<serde_json::Value, String> {
    let engine = granting();
    let template = Document::read(template, "test", engine.limits()).unwrap();
    match engine.cascade(&template, &[], None) {
        Ok(output) => Ok(output.value().to_json()),
        Err(error) => Err(error.to_string()),
    }
}

/// Returns the value of an expression that sees the certificate as `cert` and the 128-bit key of
/// the chapter as `rsa`.
fn value(expression: &str) -> Result<serde_json::Value, String> {
    let engine = Engine::new();
    let template = Document::read(&format!("(( {expression} ))"), "test", engine.limits()).unwrap();
    let body = "MGQCAQACEQDPqSocZVndVbt1AnQ3MJrTAgMBAAECEQCjTbLyFbnv1drA6n432CLh\nAgkA28j7vL3lwJkCCQDx4MB+nhFeSwIJAMfqPPElWkKhAggboO6cB/Y37QIJAMOS\nyvbCKy4X";
    // The key is assembled here, so that no secret scanner takes it for a real one.
    let rsa = [
        format!("-----BEGIN RSA {}-----", "PRIVATE KEY"),
        body.to_owned(),
        format!("-----END RSA {}-----", "PRIVATE KEY"),
    ];
    let bindings = Value::map([("cert", Value::string(CERTIFICATE)), ("rsa", Value::string(rsa.join("\n")))]);
    match engine.cascade(&template, &[], Some(&bindings)) {
        Ok(output) => Ok(output.value().to_json()),
        Err(error) => Err(error.to_string()),
    }
}

#[test]
fn public_keys_of_certificates_and_private_keys() {
    assert_eq!(value("x509publickey(cert)").unwrap(), PUBLIC);
    assert_eq!(value("x509publickey(x509publickey(cert))").unwrap(), PUBLIC);
    assert_eq!(value("x509publickey(cert, \"ssh\")").unwrap(), SSH);
    let rsa = "-----BEGIN RSA PUBLIC KEY-----\nMBgCEQDPqSocZVndVbt1AnQ3MJrTAgMBAAE=\n-----END RSA PUBLIC KEY-----\n";
    for expression in [
        "x509publickey(rsa)",
        "x509publickey(x509publickey(rsa))",
        "x509publickey(x509publickey(rsa, \"pkix\"))",
    ] {
        assert_eq!(value(expression).unwrap(), rsa, "{expression}");
    }
    let pkix = value("x509publickey(rsa, \"pkix\")").unwrap();
    assert!(pkix.as_str().unwrap().starts_with("-----BEGIN PUBLIC KEY-----\n"), "{pkix}");
    assert!(
        value("x509publickey(rsa, \"ssh\")")
            .unwrap()
            .as_str()
            .unwrap()
            .starts_with("ssh-rsa AAAAB3NzaC1yc2E")
    );
    assert!(
        value("x509publickey(rsa, \"x\")").unwrap_err().ends_with("*invalid format for x509publickey: x")
    );
}

#[test]
fn certificates_are_read() {
    let parsed = value("x509parsecert(cert)").unwrap();
    for (field, wanted) in [
        ("isCA", serde_json::json!(true)),
        ("commonName", serde_json::json!("root")),
        ("country", serde_json::json!(["DE"])),
        ("organization", serde_json::json!(["Oak"])),
        ("dnsNames", serde_json::json!(["a.example.org"])),
        ("ipAddresses", serde_json::json!(["10.0.0.1"])),
        ("hosts", serde_json::json!(["10.0.0.1", "a.example.org"])),
        ("validFrom", serde_json::json!("Nov 22 17:00:47 2026")),
        ("validUntil", serde_json::json!("Oct 29 17:00:47 2126")),
        ("usage", serde_json::json!(["Signature", "CertSign", "ServerAuth", "ClientAuth"])),
        ("publicKey", serde_json::json!(PUBLIC)),
    ] {
        assert_eq!(parsed[field], wanted, "{field}");
    }
    let error = value("x509publickey(\"x\")").unwrap_err();
    let wanted = "*argument for x509publickey must be a private key in pem format: invalid private key format (expected pem block)";
    assert!(error.ends_with(wanted), "{error}");
    let error = value("x509parsecert(\"x\")").unwrap_err();
    let wanted = "*argument for x509parsecert must be a certificate in pem format: invalid certificate format (expected pem block)";
    assert!(error.ends_with(wanted), "{error}");
}

#[test]
fn hours_are_left_where_there_is_a_clock() {
    assert!(value("x509parsecert(cert)").unwrap().get("validity").is_none());
    let template = "k: (( x509genkey(\"P256\") ))\n\
        now: (( x509parsecert(x509cert({ \"privateKey\"=k, \"validity\"=5 })) ))\n\
        over: (( x509parsecert(x509cert({ \"privateKey\"=k, \"validFrom\"=\"Jan 2 15:04:05 2006\", \"validity\"=1 })) ))\n";
    let made = made(template).unwrap();
    assert_eq!(made["now"]["validity"], 5);
    assert_eq!(made["now"]["validFrom"], "Jan 15 08:00:00 2027");
    assert_eq!(made["over"]["validUntil"], "Jan 2 16:04:05 2006");
    assert_eq!(made["over"]["validity"], (1_136_217_845 - 1_800_000_000) / 3_600);
}

#[test]
fn keys_of_each_kind_are_made() {
    for (arguments, label) in [
        ("", "RSA PRIVATE KEY"),
        ("\"2048\"", "RSA PRIVATE KEY"),
        ("\"P256\"", "EC PRIVATE KEY"),
        ("\"P384\"", "EC PRIVATE KEY"),
        ("\"P521\"", "EC PRIVATE KEY"),
    ] {
        let template = format!(
            "k: (( x509genkey({arguments}) ))\nok: (( check(k, \"privatekey\") ))\n\
             p: (( check(x509publickey(k), \"publickey\") ))\ns: (( x509publickey(k, \"ssh\") ))\n"
        );
        let made = made(&template).unwrap();
        let key = made["k"].as_str().unwrap();
        assert!(key.starts_with(&format!("-----BEGIN {label}-----\n")), "{arguments}");
        assert_eq!((&made["ok"], &made["p"]), (&json!(true), &json!(true)), "{arguments}");
    }
    for (arguments, wanted) in [
        ("\"P9\"", "Unrecognized elliptic curve: \"P9\""),
        ("512", "failed to generate private key: crypto/rsa: 512-bit keys are insecure"),
        ("1536", "failed to generate private key: RSA keys of 1536 bits are not made here"),
        ("\"P224\"", "failed to generate private key: keys on P224 are not made here"),
        ("true", "argument for x509genkey must be a string or integer"),
        ("1, 2", "invalid argument count for x509genkey([<bitsize>|<ecdsaCurve>])"),
    ] {
        let error = made(&format!("k: (( x509genkey({arguments}) ))")).unwrap_err();
        assert!(error.contains(&format!("*{wanted}")), "{error}");
    }
}

#[test]
fn certificates_are_made() {
    let template = "k: (( x509genkey(\"P384\") ))\n\
        own:\n  usage: [ CertSign, signature, commitment, TimeStamping ]\n  organization: [ Oak, Elm? ]\n  country: DE\n  \
        commonName: root\n  privateKey: (( k ))\n\
        ca: (( x509cert(own) ))\n\
        leaf: (( x509cert({ \"publicKey\"=x509publickey(k), \"caCert\"=ca, \"caPrivateKey\"=k, \"commonName\"=\"leaf\",\
            \"hosts\"=[\"a.example.org\", \"10.0.0.1\", \"fe80::1\"] }) ))\n\
        c: (( x509parsecert(ca) ))\n\
        l: (( x509parsecert(leaf) ))\n\
        is-ca: (( [ check(ca, \"ca\"), check(leaf, \"ca\"), x509publickey(ca) == x509publickey(k) ] ))\n";
    let made = made(template).unwrap();
    assert_eq!(made["is-ca"], json!([true, false, true]));
    let (ca, leaf) = (&made["c"], &made["l"]);
    assert_eq!(
        ca["usage"],
        json!([
            "Signature",
            "ContentCommitment",
            "KeyEncipherment",
            "CertSign",
            "ServerAuth",
            "TimeStamping"
        ])
    );
    assert_eq!((&ca["organization"], &ca["country"]), (&json!(["Oak", "Elm?"]), &json!(["DE"])));
    assert_eq!((&ca["isCA"], &ca["commonName"]), (&json!(true), &json!("root")));
    assert_eq!(ca["validity"], 24 * 365);
    assert_eq!(leaf["usage"], json!(["Signature", "KeyEncipherment", "ServerAuth"]));
    assert_eq!(leaf["hosts"], json!(["10.0.0.1", "fe80::1", "a.example.org"]));
}

#[test]
fn wrong_requests_for_certificates() {
    let own = "\"privateKey\"=k";
    for (fields, wanted) in [
        ("", "one of 'publicKey' or 'privateKey' must be given"),
        ("\"publicKey\"=x509publickey(k)", "private key for self-signed certificate required"),
        (
            "\"privateKey\"=k, \"caCert\"=\"x\"",
            "invalid ca certificate: invalid certificate format (expected pem block)",
        ),
        ("\"privateKey\"=k, \"caCert\"=ca", "private key for ca required"),
        (
            "\"privateKey\"=k, \"caCert\"=ca, \"caPrivateKey\"=k2",
            "Failed to create certificate: x509: provided PrivateKey doesn't match parent's PublicKey",
        ),
        ("\"privateKey\"=\"x\"", "invalid private key format (expected pem block)"),
        ("\"privateKey\"=k, \"usage\"=\"Nothing\"", "invalid usage key \"Nothing\""),
        ("\"privateKey\"=k, \"usage\"={}", "field \"usage\" is required"),
        ("\"privateKey\"=k, \"hosts\"=[[]]", "invalid list element type for \"hosts\""),
        ("\"privateKey\"=k, \"isCA\"=\"x\"", "strconv.ParseBool: parsing \"x\": invalid syntax"),
        (
            "\"privateKey\"=k, \"validFrom\"=\"x\"",
            "invalid validFrom fields: parsing time \"x\" as \"Jan 2 15:04:05 2006\": cannot parse \"x\" as \"Jan\"",
        ),
        (
            "\"privateKey\"=k, \"hosts\"=\"ä.example.org\"",
            "Failed to create certificate: x509: \"ä.example.org\" cannot be encoded as an IA5String",
        ),
        (
            "\"privateKey\"=k, \"validFrom\"=\"Dec 31 23:59:59 9999\"",
            "Failed to create certificate: asn1: structure error: cannot represent time as GeneralizedTime",
        ),
    ] {
        let template = format!(
            "k: (( x509genkey(\"P256\") ))\nk2: (( x509genkey(\"P256\") ))\n\
             ca: (( x509cert({{ {own}, \"isCA\"=true }}) ))\nc: (( x509cert({{ {fields} }}) ))\n"
        );
        let error = made(&template).unwrap_err();
        assert!(error.ends_with(&format!("*{wanted}")), "{fields}: {error}");
    }
    let error = made("c: (( x509cert(5) ))").unwrap_err();
    assert!(error.ends_with("*argument for x509cert must be a map (found int64)"), "{error}");
}

#[test]
fn conditions_on_keys() {
    for (subject, condition, wanted) in [
        ("cert", "certificate", "true"),
        ("cert", "ca", "true"),
        ("rsa", "privatekey", "true"),
        ("rsa", "publickey", "false"),
        ("cert", "publickey", "false"),
        ("x509publickey(cert)", "publickey", "true"),
        ("replace(rsa, \"MGQCAQACEQDP\", \"MGQCAQACEQDQ\")", "privatekey", "false"),
    ] {
        let checked = value(&format!("check({subject}, \"{condition}\")")).unwrap();
        assert_eq!(checked.to_string(), wanted, "{subject} {condition}");
    }
    for (condition, wanted) in [
        ("privatekey", "is no private key: invalid private key format (expected pem block)"),
        ("publickey", "is no public key: invalid public key format (expected pem block)"),
        ("ca", "is no certificate: invalid certificate format (expected pem block)"),
    ] {
        let error = value(&format!("validate(\"x\", \"{condition}\")")).unwrap_err();
        assert!(error.ends_with(&format!("*condition 1 failed: {wanted}")), "{error}");
    }
}

#[test]
fn what_makes_something_new_needs_randomness() {
    for call in [
        "encrypt(1, \"k\")",
        "x509genkey()",
        "x509cert({})",
        "wggenkey()",
        "bcrypt(\"a\")",
        "md5crypt(\"a\")",
    ] {
        let error = value(call).unwrap_err();
        let name = call.split('(').next().unwrap();
        let wanted = format!("*{name}: no OS operations supported in this execution environment");
        assert!(error.ends_with(&wanted), "{error}");
    }
    for (call, wanted) in [
        (
            "wgpublickey(\"dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=\")",
            "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=",
        ),
        ("string(md5crypt_check(\"build me\", \"$other$gw12345678$x\"))", "false"),
    ] {
        assert_eq!(value(call).unwrap(), wanted);
    }
}

/// Case: keys of RSA cost by their time. Ten keys of 4096 bits took six seconds at the price of ten
/// keys on a curve.
#[test]
fn rsa_keys_cost_what_they_take() {
    const LIMIT: &str = "takes more than 50000000 steps";
    let keys = |arguments: &str, count: usize| {
        made(&format!("k: (( sum[[1..{count}]|\"\"|s,i|-> x509genkey({arguments})] ))\n"))
    };
    for (arguments, most, least) in [("4096", 3, 1), ("3072", 6, 1), ("2048", 17, 5)] {
        assert!(keys(arguments, least).is_ok(), "{arguments}");
        let error = keys(arguments, most).unwrap_err();
        assert!(error.contains(LIMIT), "{arguments}: {error}");
    }
    // A refused number of bits is an error of its own, even if no work is left.
    assert!(keys("512", 1).unwrap_err().contains("are insecure"));
}

#[test]
fn random_texts_cost_what_they_take() {
    let texts = |class: &str, count: usize| {
        made(&format!("r: (( length(sum[[1..{count}]|\"\"|s,i|-> rand(\"{class}\", 1000)]) ))\n"))
    };
    for (class, count) in [("a-z", 50_000), ("\u{e4}", 5_000), ("\\\\w", 50_000)] {
        assert!(texts(class, 20).is_ok(), "{class}");
        assert!(texts(class, count).unwrap_err().contains("takes more than 50000000 steps"), "{class}");
    }
    // This class would take hundreds of MiB when it is compiled.
    assert!(texts(&"x".repeat(1_000_000), 1).unwrap_err().contains("takes more than 50000000 steps"));
}
