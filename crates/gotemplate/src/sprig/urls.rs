//! Functions for URLs (`gotemplate.md` 12.11).

use groundwork_go::url::{Url, User};

use super::registration::{NIL_POINTER, Outcome};
use crate::context::Context;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::{Map, Str, Value};

pub(super) fn register(functions: &mut Functions) {
    functions.add("urlParse", Signature::fixed(&[Type::String]), parse).add(
        "urlJoin",
        Signature::fixed(&[Type::Map]),
        join,
    );
}

fn parse(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    context.reserve(args.string(0).len().saturating_mul(4))?;
    let url = Url::parse(args.string(0)).map_err(|error| format!("unable to parse url: {error}"))?;
    let user = url.user.as_ref().map(User::to_bytes).unwrap_or_default();
    let parts = [
        ("scheme", url.scheme.as_bytes()),
        ("host", &url.host),
        ("hostname", url.hostname()),
        ("path", &url.path),
        ("query", &url.query),
        ("opaque", &url.opaque),
        ("fragment", &url.fragment),
        ("userinfo", &user),
    ];
    Ok(parts.into_iter().map(|(name, part)| (name.into(), Str::from(part).into())).collect::<Map>().into())
}

fn join(context: &mut Context<'_>, args: &[Value]) -> Outcome {
    let parts = args.map(0);
    let texts = parts.entries().into_iter().filter_map(|(_, value)| value.as_str().map(|text| text.len()));
    let total: usize = texts.sum();
    // Each part is copied several times, and escaping may make three bytes of one.
    context.reserve(total.saturating_mul(8))?;
    context.check_text(total)?;
    let part = |name: &str| match parts.get(name.as_bytes()) {
        None => Ok(Vec::new()),
        Some(Value::Str(text)) => Ok(text.to_vec()),
        Some(nil) if nil.is_nil() => Err(NIL_POINTER.into()),
        Some(other) => {
            let kind = other.kind_name();
            Err(CallError::from(format!(
                "unable to parse {name} key, must be of type string, but {kind} found"
            )))
        }
    };
    let mut url = Url {
        scheme: crate::text::lossy(&part("scheme")?).into_owned(),
        host: part("host")?,
        path: part("path")?,
        query: part("query")?,
        opaque: part("opaque")?,
        fragment: part("fragment")?,
        user: None,
    };
    let user = part("userinfo")?;
    if !user.is_empty() {
        let carrier = Url::parse(&[b"proto://", &user[..], b"@host"].concat());
        url.user = carrier.map_err(|error| format!("unable to parse userinfo in dict: {error}"))?.user;
    }
    Ok(url.to_bytes().into())
}
