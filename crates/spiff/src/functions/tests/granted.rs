//! Tests of functions that use randomness, with a known source.

use std::time::SystemTime;

use crate::functions::{Source, find_guarded};
use crate::issue::Issue;
use crate::limits::Limits;
use crate::value::Value;

/// A source that counts up, so that the results are known.
#[derive(Default)]
struct Counter {
    next: u8,
    limits: Limits,
}

impl Source for Counter {
    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), Issue> {
        for byte in bytes {
            *byte = self.next;
            self.next = self.next.wrapping_add(37);
        }
        Ok(())
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn spend(&mut self, _: usize) -> Result<(), Issue> {
        Ok(())
    }

    fn pattern(&mut self, _: &str, _: usize) -> Result<(), Issue> {
        Ok(())
    }

    fn now(&self) -> Option<SystemTime> {
        None
    }
}

fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let called = match (find_guarded(name), crate::functions::find(name)) {
        (Some(function), _) => function(&mut Counter::default(), arguments),
        (None, Some(crate::functions::Function::Plain(function))) => function(arguments),
        (None, Some(crate::functions::Function::Calling(function))) => {
            let answer = function(&mut super::Lambdas::default(), arguments);
            answer.map(|value| value.unwrap_or(Value::Nil))
        }
        _ => unreachable!("{name}"),
    };
    called.map_err(|issue| issue.message)
}

fn called(name: &str, arguments: &[Value]) -> String {
    match call(name, arguments).unwrap() {
        Value::String(text) => text.to_string(),
        other => format!("{other:?}"),
    }
}

#[test]
fn random_values_are_of_the_kind_that_was_asked_for() {
    let text = |text: &str| Value::string(text);
    for limit in [1, 7, -7, i64::MAX, i64::MIN] {
        let number = call("rand", &[Value::Int(limit)]).unwrap().as_int().unwrap();
        assert!(number.unsigned_abs() < limit.unsigned_abs() && (number == 0 || (number < 0) == (limit < 0)));
    }
    assert!(matches!(call("rand", &[Value::Bool(true)]), Ok(Value::Bool(_))));
    assert!(matches!(call("rand", &[]), Ok(Value::Int(0..))));
    let word = called("rand", &[text("[:alnum:]"), Value::Int(20)]);
    assert!(word.len() == 20 && word.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{word}");
    assert_eq!(called("rand", &[text("é")]), "é");
    for (arguments, message) in [
        (vec![Value::Int(0)], "zero range not possible for integer random values"),
        (vec![text("a-z"), Value::Int(0)], "rand length must be positive, found 0"),
        (vec![text("z-a")], "invalid rand character set specification \"z-a\""),
        (vec![text("a"), Value::Int(i64::MAX)], "rand: the result would have more than 16777216 bytes"),
    ] {
        assert_eq!(call("rand", &arguments).unwrap_err(), message);
    }
}

#[test]
fn password_hashes_are_those_of_crypt() {
    let text = |text: &str| Value::string(text);
    for (password, hash) in [
        ("secret", "$1$abcdefgh$cHJi5PXp/ki/ktXzqlk6I1"),
        ("", "$1$x$fwjfZtMwarkdetsjiQreU1"),
        ("a longer password with blanks", "$1$12345678$fpVJVYlHx7yWU2Frl/eSY."),
    ] {
        assert_eq!(called("md5crypt_check", &[text(password), text(hash)]), "Bool(true)", "{password}");
        assert_eq!(called("md5crypt_check", &[text("other"), text(hash)]), "Bool(false)");
    }
    let hash = called("md5crypt", &[text("secret")]);
    assert_eq!(called("md5crypt_check", &[text("secret"), text(&hash)]), "Bool(true)", "{hash}");
    let hash = called("bcrypt", &[text("secret"), Value::Int(4)]);
    assert!(hash.starts_with("$2a$04$"), "{hash}");
    assert_eq!(called("bcrypt_check", &[text("secret"), text(&hash)]), "Bool(true)");
    assert_eq!(called("bcrypt_check", &[text("other"), text(&hash)]), "Bool(false)");
    assert_eq!(called("bcrypt_check", &[text("other"), text("x")]), "Bool(false)");
    let costly = call("bcrypt_check", &[text("secret"), Value::string(hash.replace("$04$", "$31$"))]);
    assert_eq!(costly.unwrap_err(), "bcrypt error: cost 31 is beyond the limit of 14");
    assert!(call("md5crypt_check", &[text("a"), text("x")]).is_err());
}

/// The first test vector of RFC 7748, `spiff.md` 6.1.
#[test]
fn public_keys_belong_to_private_ones() {
    let private = "dwdtCnMYpX08FsFyUbJmRd9ML4frwJkqsXf7pR25LCo=";
    let public = "hSDwCYkwp1R0i33ctD73Wg2/Og0mOBr066SpjqqbTmo=";
    assert_eq!(called("wgpublickey", &[Value::string(private)]), public);
    let key = called("wggenkey", &[]);
    assert_eq!(called("wgpublickey", &[Value::string(key)]).len(), 44);
    assert_eq!(called("wggenkey", &[Value::string("preshared")]).len(), 44);
    assert!(call("wggenkey", &[Value::string("x")]).is_err());
    assert!(call("wgpublickey", &[Value::string("aGk=")]).is_err());
}
