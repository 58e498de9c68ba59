//! Keys and certificates (sections 11.3 and 11.5): what looks at them needs no grant.

#![allow(clippy::unwrap_used)]

use groundwork_spiff::{Document, Engine, Value};

/// A certificate of an authority for `a.example.org` and 10.0.0.1, made by OpenSSL.
const CERTIFICATE: &str = include_str!("data/root.pem");
const PUBLIC: &str = "-----BEGIN ECDSA PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEKyfbP+4sCFNjlCOoJW2VFoW8QBXW
rI3Zb6QTGV8hiAMuIEle3we8A9XVBn7A5RooUpTVeYRtW1ZZIXAXRUG07w==
-----END ECDSA PUBLIC KEY-----
";
const SSH: &str = "ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBCsn2z/uLAhTY5QjqCVtlRaFvEAV1qyN2W+kExlfIYgDLiBJXt8HvAPV1QZ+wOUaKFKU1XmEbVtWWSFwF0VBtO8=\n";

/// The value of an expression that sees the certificate as `cert` and the key of 128 bits of the chapter as `rsa`.
fn value(expression: &str) -> Result<serde_json::Value, String> {
    let engine = Engine::new();
    let template = Document::read(&format!("(( {expression} ))"), "test", engine.limits()).unwrap();
    let body = "MGQCAQACEQDPqSocZVndVbt1AnQ3MJrTAgMBAAECEQCjTbLyFbnv1drA6n432CLh\nAgkA28j7vL3lwJkCCQDx4MB+nhFeSwIJAMfqPPElWkKhAggboO6cB/Y37QIJAMOS\nyvbCKy4X";
    // Put together, so that no scanner takes it for a real one.
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
    let error = value("x509parsecert(\"x\")").unwrap_err();
    let wanted = "*argument for x509parsecert must be a certificate in pem format: invalid certificate format (expected pem block)";
    assert!(error.ends_with(wanted), "{error}");
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
