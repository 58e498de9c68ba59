//! Functions for the environment and the network (`gotemplate.md` 12.13).

use super::random::below;
use super::registration::Outcome;
use crate::context::Context;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::grants::{Capability, DeniedError, Environment};
use crate::value::Value;

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::String]);
    functions
        .add("env", one.clone(), |context, args| {
            let environment = environment(context, "env")?;
            Ok(environment(&args.text(0).to_text()).unwrap_or_default().into())
        })
        .add("expandenv", one.clone(), |context, args| {
            let environment = environment(context, "expandenv")?;
            let text = expand(args.string(0), &|name| environment(&crate::text::lossy(name)));
            context.check_text(text.len())?;
            Ok(text.into())
        })
        .add("getHostByName", one, host);
}

fn environment(context: &Context<'_>, function: &'static str) -> Result<Environment, DeniedError> {
    let granted = context.grants().environment.clone();
    granted.ok_or(DeniedError { function, capability: Capability::Environment })
}

fn host(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    const NAME: &str = "getHostByName";
    let network = context.grants().network.clone();
    let network = network.ok_or(DeniedError { function: NAME, capability: Capability::Network })?;
    let addresses = network(&args.text(0).to_text());
    let chosen = below(context, NAME, addresses.len() as u64)?;
    let address = usize::try_from(chosen).ok().and_then(|chosen| addresses.get(chosen));
    Ok(address.cloned().unwrap_or_default().into())
}

/// Replaces `$name` and `${name}` as Go does: after `${`, a text that is not a name is dropped; a
/// lone `$` stays.
fn expand(source: &[u8], lookup: &dyn Fn(&[u8]) -> Option<String>) -> Vec<u8> {
    let mut out = Vec::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.iter().position(|b| *b == b'$') {
        out.extend(&rest[..at]);
        let tail = &rest[at + 1..];
        let (name, length) = name(tail);
        if name.is_empty() && length == 0 {
            out.push(b'$');
        }
        if !name.is_empty() {
            out.extend(lookup(name).unwrap_or_default().into_bytes());
        }
        rest = &tail[length..];
    }
    out.extend(rest);
    out
}

/// Returns the name at the start of the text, and the bytes that it takes with its braces.
fn name(text: &[u8]) -> (&[u8], usize) {
    let is_special = |b: u8| b"*#$@!?-0123456789".contains(&b);
    match text {
        [b'{', special, b'}', ..] if is_special(*special) => (&text[1..2], 3),
        [b'{', inner @ ..] => match inner.iter().position(|b| *b == b'}') {
            Some(end) => (&inner[..end], end + 2),
            None => (b"", 1),
        },
        [special, ..] if is_special(*special) => (&text[..1], 1),
        _ => {
            let end = text.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_').count();
            (&text[..end], end)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::error::{Error, ErrorKind};
    use crate::grants::Grants;
    use crate::options::Options;
    use crate::template::Template;

    fn run(source: &str, grants: Grants) -> Result<String, Error> {
        let options = Options { grants, ..Options::default() };
        let template = Template::parse("t", source, &Arc::new(Functions::sprig()), &options)?;
        Ok(crate::text::lossy(&template.render(Value::Nil)?).into_owned())
    }

    #[test]
    fn what_is_not_granted_is_denied_when_called() {
        for (source, function, capability) in [
            ("{{env `A`}}", "env", "the environment"),
            ("{{expandenv `A`}}", "expandenv", "the environment"),
            ("{{getHostByName `localhost`}}", "getHostByName", "the network"),
            ("{{now}}", "now", "the clock"),
            ("{{date `2006` nil}}", "date", "the clock"),
            ("{{ago `x`}}", "ago", "the clock"),
            ("{{uuidv4}}", "uuidv4", "randomness"),
            ("{{randAlpha 1}}", "randAlpha", "randomness"),
            ("{{bcrypt `x`}}", "bcrypt", "randomness"),
        ] {
            let error = run(source, Grants::default()).unwrap_err();
            let expected = format!(
                "error calling {function}: {function} needs {capability}, which is not granted here; only the program that renders the template can grant it"
            );
            assert_eq!((error.kind(), error.message()), (ErrorKind::Denied, expected.as_str()));
        }
        let untaken = "{{if false}}{{env `A`}}{{now}}{{end}}ok";
        assert_eq!(run(untaken, Grants::default()).unwrap(), "ok");
    }

    #[test]
    fn what_is_granted_is_used() {
        let grants = Grants {
            clock: Some(Arc::new(|| std::time::UNIX_EPOCH + std::time::Duration::from_millis(90_500))),
            environment: Some(Arc::new(|name| (name == "A").then(|| "a".to_owned()))),
            network: Some(Arc::new(|name| vec![name.to_uppercase()])),
            randomness: Some(Arc::new(|buffer| {
                buffer.fill(0);
                Ok(())
            })),
        };
        for (source, expected) in [
            ("{{env `A`}}{{env `B`}}", "a"),
            ("{{expandenv `$A ${A}b $B|$ ${} ${A $$`}}", "a ab |$  A "),
            ("{{getHostByName `h`}}", "H"),
            ("{{now}}", "1970-01-01 00:01:30.5 +0000 UTC m=+0.000000001"),
            ("{{now.Unix}} {{date `15:04:05` .}} {{now.UTC}}", "90 00:01:30 1970-01-01 00:01:30.5 +0000 UTC"),
            ("{{ago 0}} {{ago 30}} {{durationRound now}}", "1m31s 1m1s 0s"),
        ] {
            assert_eq!(run(source, grants.clone()).unwrap(), expected, "{source}");
        }
    }
}
