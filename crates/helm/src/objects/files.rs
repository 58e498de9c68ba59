//! The object `Files` (`helm.md` 6.4).

use data_encoding::BASE64;
use groundwork_budget::BYTES_PER_STEP;
use groundwork_go::path;
use groundwork_gotemplate::{CallError, Context, List, Map, NamedType, Signature, Str, Type, Value};

use super::to_yaml;
use crate::chart::File;
use crate::glob::Glob;

static FILES: NamedType = NamedType { name: "engine.files", method, call };

pub(crate) fn files(files: &[File]) -> Map {
    Map::of_bytes(
        files.iter().map(|file| (file.path.as_str().into(), Str::from(std::sync::Arc::clone(&file.data)))),
    )
    .named(&FILES)
}

fn method(name: &str) -> Option<Signature> {
    match name {
        "Get" | "GetBytes" | "Lines" | "Glob" => Some(Signature::fixed(&[Type::String])),
        "AsConfig" | "AsSecrets" => Some(Signature::fixed(&[])),
        _ => None,
    }
}

fn call(
    context: &mut Context<'_>,
    receiver: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, CallError> {
    let Value::Map(files) = receiver else { return Err("no files".into()) };
    let argument = || arguments.first().and_then(Value::as_str).cloned().unwrap_or_default();
    let bytes = |name: &Str| match files.get(name) {
        Some(Value::Bytes(bytes)) => bytes,
        _ => Str::default(),
    };
    match method {
        "Get" => Ok(Value::Str(bytes(&argument()))),
        "GetBytes" => Ok(Value::Bytes(bytes(&argument()))),
        "Lines" => {
            let text = bytes(&argument());
            context.spend(text.len() / BYTES_PER_STEP)?;
            Ok(Value::List(List::strings(lines(&text))))
        }
        "Glob" => glob(context, files, &argument()),
        "AsConfig" => as_yaml(context, files, |bytes| Value::Str(bytes.clone())),
        _ => as_yaml(context, files, |bytes| Value::from(BASE64.encode(bytes))),
    }
}

/// Splits a text into lines. One line break at the end belongs to the last line; an empty file has
/// no line.
fn lines(text: &[u8]) -> Vec<Str> {
    if text.is_empty() {
        return Vec::new();
    }
    let text = text.strip_suffix(b"\n").unwrap_or(text);
    text.split(|&byte| byte == b'\n').map(Str::from).collect()
}

fn glob(context: &mut Context<'_>, files: &Map, pattern: &Str) -> Result<Value, CallError> {
    let glob = Glob::compile(&pattern.to_text());
    let mut found = Vec::new();
    for (name, value) in files.entries() {
        context.spend(1)?;
        if let Value::Bytes(bytes) = value
            && glob.matches(&name.to_text())
        {
            found.push((name, bytes));
        }
    }
    Ok(Value::Map(Map::of_bytes(found).named(&FILES)))
}

fn as_yaml(
    context: &mut Context<'_>,
    files: &Map,
    shown: impl Fn(&Str) -> Value,
) -> Result<Value, CallError> {
    let map = Map::of_strings();
    for (name, value) in files.entries() {
        if let Value::Bytes(bytes) = value {
            context.check_text(bytes.len())?;
            map.insert(path::base(&name).into(), shown(&bytes));
        }
    }
    let text = to_yaml(context, &Value::Map(map))?.unwrap_or_default();
    Ok(Value::from(text.strip_suffix('\n').unwrap_or(&text)))
}
