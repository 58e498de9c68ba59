//! Functions for keys and certificates (`gotemplate.md` 12.13).
//!
//! The cryptographic library draws its own randomness. If the host grants no randomness, the
//! functions fail before they create a key.

mod certificate;
mod private_key;

use groundwork_keys::{Algorithm, DSA_RANDOM_BYTES, SigningKey, new_dsa_key, pem_block};

use super::registration::Outcome;
use crate::context::Context;
use crate::encoding;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::Value;
use certificate::{Authority, CERTIFICATE, Certificate, Role};

pub(super) fn register(functions: &mut Functions) {
    functions
        .add("genPrivateKey", Signature::fixed(&[Type::String]), gen_private_key)
        .add("buildCustomCert", Signature::fixed(&[Type::String, Type::String]), build_custom_cert)
        .add("genCA", Signature::fixed(&[Type::String, Type::Int]), |context, args| {
            let role = Role::authority(args.string(0), args.int(1));
            let key = new_rsa(context, "genCA")?;
            role.self_signed(context, "genCA", &key)
        })
        .add("genCAWithKey", Signature::fixed(&[Type::String, Type::Int, Type::String]), |context, args| {
            let key = given(args.string(2))?;
            Role::authority(args.string(0), args.int(1)).self_signed(context, "genCAWithKey", &key)
        });
    functions
        .add(
            "genSelfSignedCert",
            Signature::fixed(&[Type::String, Type::List, Type::List, Type::Int]),
            |context, args| {
                let role = Role::holder(context, args)?;
                let key = new_rsa(context, "genSelfSignedCert")?;
                role.self_signed(context, "genSelfSignedCert", &key)
            },
        )
        .add(
            "genSelfSignedCertWithKey",
            Signature::fixed(&[Type::String, Type::List, Type::List, Type::Int, Type::String]),
            |context, args| {
                let key = given(args.string(4))?;
                Role::holder(context, args)?.self_signed(context, "genSelfSignedCertWithKey", &key)
            },
        )
        .add(
            "genSignedCert",
            Signature::fixed(&[Type::String, Type::List, Type::List, Type::Int, Type::Object(CERTIFICATE)]),
            |context, args| {
                let authority = Authority::of(args.value(4))?;
                let role = Role::holder(context, args)?;
                let key = new_rsa(context, "genSignedCert")?;
                role.signed_by(context, "genSignedCert", &key, &authority)
            },
        )
        .add(
            "genSignedCertWithKey",
            Signature::fixed(&[
                Type::String,
                Type::List,
                Type::List,
                Type::Int,
                Type::Object(CERTIFICATE),
                Type::String,
            ]),
            |context, args| {
                let key = given(args.string(5))?;
                let authority = Authority::of(args.value(4))?;
                Role::holder(context, args)?.signed_by(context, "genSignedCertWithKey", &key, &authority)
            },
        );
}

/// Reads a key that the template passes in.
fn given(text: &[u8]) -> Result<SigningKey, CallError> {
    let key = private_key::parse(text, "parsing private key")?;
    Ok(private_key::signing(key)?)
}

fn new_rsa(context: &mut Context<'_>, function: &'static str) -> Result<SigningKey, CallError> {
    context.randomize(function, &mut [0])?;
    context.spend(Algorithm::Rsa2048.steps())?;
    SigningKey::generate(Algorithm::Rsa2048)
        .map_err(|error| format!("error generating rsa key: {error}").into())
}

fn gen_private_key(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let kind = args.text(0);
    let algorithm = match &*kind {
        b"" | b"rsa" => Algorithm::Rsa4096,
        b"dsa" => {
            let mut random = [0; DSA_RANDOM_BYTES];
            context.randomize("genPrivateKey", &mut random)?;
            return Ok(new_dsa_key(random).into());
        }
        b"ecdsa" => Algorithm::P256,
        b"ed25519" => Algorithm::Ed25519,
        _ => {
            context.randomize("genPrivateKey", &mut [0])?;
            return Ok([b"Unknown type ", &*kind].concat().into());
        }
    };
    context.randomize("genPrivateKey", &mut [0])?;
    context.spend(algorithm.steps())?;
    let text = SigningKey::generate(algorithm).and_then(|key| key.to_pem());
    Ok(text.unwrap_or_else(|error| format!("failed to generate private key: {error}")).into())
}

fn build_custom_cert(_: &mut Context<'_>, args: &[Value]) -> Outcome {
    let decoded = |index: usize, what: &str| {
        encoding::base64_decode(args.string(index)).map_err(|_| format!("unable to decode base64 {what}"))
    };
    let cert = decoded(0, "certificate")?;
    let key = decoded(1, "private key")?;
    let block = pem_block(&cert).ok_or("unable to decode certificate")?;
    certificate::parse(block.contents(), "decodedCert")?;
    private_key::parse(&key, "error parsing private key")?;
    Ok(Certificate::value(cert, key))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    use x509_parser::prelude::{FromDer as _, GeneralName, X509Certificate};

    use super::*;
    use crate::error::Error;
    use crate::grants::Grants;
    use crate::options::{Limits, Options};
    use crate::template::Template;

    fn options() -> Options {
        let grants = Grants {
            clock: Some(Arc::new(|| UNIX_EPOCH + Duration::from_secs(1_700_000_000))),
            randomness: Some(Arc::new(|buffer| {
                buffer.fill(7);
                Ok(())
            })),
            ..Grants::default()
        };
        Options { grants, ..Options::default() }
    }

    fn render(source: &str, options: &Options) -> Result<String, Error> {
        let template = Template::parse("t", source, &Arc::new(Functions::sprig()), options)?;
        Ok(crate::text::lossy(&template.render(Value::Nil)?).into_owned())
    }

    fn run(source: &str) -> String {
        render(source, &options()).unwrap_or_else(|error| error.message().to_owned())
    }

    /// Returns the first certificate of a text, as DER.
    fn der(text: &str) -> Vec<u8> {
        pem_block(text.as_bytes()).unwrap().into_contents()
    }

    #[test]
    fn keys_have_the_forms_of_the_original() {
        for (kind, head) in [
            ("ecdsa", "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE"),
            ("ed25519", "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEI"),
            ("dsa", "-----BEGIN DSA PRIVATE KEY-----\nMII"),
            ("foo", "Unknown type foo"),
        ] {
            let key = run(&format!("{{{{genPrivateKey `{kind}`}}}}"));
            assert!(key.starts_with(head), "{key}");
        }
        let rsa = run("{{genCA `x` 1 | toJson | fromJson | values | last}}");
        assert!(rsa.starts_with("-----BEGIN RSA PRIVATE KEY-----\nMIIE"), "{rsa}");
        // A passed key is read and written again, so its PEM form may change.
        for kind in ["ecdsa", "ed25519"] {
            let source = format!(
                "{{{{$k := genPrivateKey `{kind}`}}}}{{{{$c := genCAWithKey `x` 1 $k}}}}{{{{eq $k $c.Key}}}}"
            );
            assert_eq!(run(&source), "true");
        }
    }

    #[test]
    fn rsa_keys_cost_what_they_take() {
        let is_refused = |source: &str| {
            let text = run(source);
            text.ends_with("template execution exceeds the limit of 50000000 steps")
        };
        assert!(!is_refused("{{range 2}}{{$_ := genPrivateKey `rsa`}}{{end}}"));
        assert!(is_refused("{{range 3}}{{$_ := genPrivateKey `rsa`}}{{end}}"));
        assert!(is_refused("{{range 17}}{{$_ := genCA `x` 1}}{{end}}"));
    }

    #[test]
    fn certificates_say_what_was_asked_for() {
        let text = run("{{$k := genPrivateKey `ecdsa`}}{{$ca := genCAWithKey `root` 365 $k}}{{$ca.Cert}}|\
             {{(genSignedCertWithKey `leaf` (list `10.0.0.1`) (list `a.example.org`) 1 $ca $k).Cert}}");
        let (root, leaf) = text.split_once('|').unwrap();
        let (root, leaf) = (der(root), der(leaf));
        let (_, root) = X509Certificate::from_der(&root).unwrap();
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        assert_eq!(root.subject().to_string(), "CN=root");
        assert!(root.is_ca() && !leaf.is_ca());
        assert_eq!(leaf.issuer(), root.subject());
        assert_eq!(root.validity().not_before.timestamp(), 1_700_000_000);
        assert_eq!(root.validity().not_after.timestamp(), 1_700_000_000 + 365 * 86_400);
        let names = leaf.subject_alternative_name().unwrap().unwrap();
        assert_eq!(
            names.value.general_names,
            [GeneralName::DNSName("a.example.org"), GeneralName::IPAddress(&[10, 0, 0, 1])]
        );
        let usage = leaf.key_usage().unwrap().unwrap().value;
        assert!(usage.key_encipherment() && usage.digital_signature() && !usage.key_cert_sign());
        assert!(root.key_usage().unwrap().unwrap().value.key_cert_sign());
        let extended = leaf.extended_key_usage().unwrap().unwrap().value;
        assert!(extended.server_auth && extended.client_auth);
    }

    /// A question mark counts as a character of Go's PrintableString, so names with it must be
    /// encoded as such.
    #[test]
    fn names_with_question_marks() {
        let text = run("{{$k := genPrivateKey `ecdsa`}}{{$ca := genCAWithKey `a?` 1 $k}}{{$ca.Cert}}|\
             {{(genSignedCertWithKey `b?` nil nil 1 $ca $k).Cert}}");
        let (root, leaf) = text.split_once('|').unwrap();
        let (root, leaf) = (der(root), der(leaf));
        let (_, root) = X509Certificate::from_der(&root).unwrap();
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        assert_eq!(root.subject().to_string(), "CN=a?");
        assert_eq!(leaf.subject().to_string(), "CN=b?");
        assert_eq!(leaf.issuer().as_raw(), root.subject().as_raw());
    }

    #[test]
    fn certificates_are_values() {
        let head = "{{$k := genPrivateKey `ecdsa`}}{{$c := genCAWithKey `x` 1 $k}}";
        for (source, expected) in [
            ("{{typeOf $c}} {{kindOf $c}} {{eq $c $c}}", "sprig.certificate struct true"),
            (
                "{{printf `%v` $c | hasPrefix `{-----BEGIN`}} {{printf `%q` $c | hasPrefix `{\"---`}}",
                "true true",
            ),
            ("{{printf `%#v` $c | trunc 30}}", "sprig.certificate{Cert:\"-----B"),
            ("{{with buildCustomCert (b64enc $c.Cert) (b64enc $c.Key)}}{{eq . $c}}{{end}}", "true"),
            ("{{$c.Nope}}", "can't evaluate field Nope in type sprig.certificate"),
            (
                "{{genSignedCertWithKey `l` nil nil 1 (genCAWithKey `y` 1 (genPrivateKey `ecdsa`)) `bad`}}",
                "error calling genSignedCertWithKey: parsing private key: no PEM data in input",
            ),
        ] {
            assert_eq!(run(&format!("{head}{source}")), expected);
        }
    }

    #[test]
    fn errors_are_those_of_the_original() {
        for (source, expected) in [
            ("{{genSelfSignedCert `x` (list `y`) nil 1}}", "genSelfSignedCert: error parsing ip: y"),
            (
                "{{genSelfSignedCert `x` (list 1) nil 1}}",
                "genSelfSignedCert: error parsing ip: 1 is not a string",
            ),
            (
                "{{genSelfSignedCert `x` nil (list 1) 1}}",
                "genSelfSignedCert: error processing alternate dns name: 1 is not a string",
            ),
            ("{{buildCustomCert `!` ``}}", "buildCustomCert: unable to decode base64 certificate"),
            ("{{buildCustomCert `` `!`}}", "buildCustomCert: unable to decode base64 private key"),
            ("{{buildCustomCert `` ``}}", "buildCustomCert: unable to decode certificate"),
            (
                "{{buildCustomCert (b64enc `-----BEGIN X-----\nAAAA\n-----END X-----\n`) ``}}",
                "buildCustomCert: error parsing certificate: decodedCert.Bytes: x509: malformed certificate",
            ),
            (
                "{{genCAWithKey `x` 1 `-----BEGIN X-----\nAAAA\n-----END X-----\n`}}",
                "genCAWithKey: parsing private key: no private key data in PEM block of type X",
            ),
        ] {
            assert_eq!(run(source), format!("error calling {expected}"));
        }
    }

    #[test]
    fn many_keys_are_too_many() {
        let options = Options { limits: Limits { steps: 400_000, ..Limits::default() }, ..options() };
        let error = render("{{genPrivateKey ``}}", &options).unwrap_err();
        assert_eq!(error.kind(), crate::error::ErrorKind::Limit, "{error}");
        let denied = render("{{genPrivateKey `ecdsa`}}", &Options::default()).unwrap_err();
        assert_eq!(denied.kind(), crate::error::ErrorKind::Denied);
    }
}
