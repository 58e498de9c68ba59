//! Functions for paths and URLs (`spiff.md` 11.2).

use groundwork_go::path;
use groundwork_go::text::lossy;
use groundwork_go::url::{Url, unescape_query};

use super::arguments::{count, text};
use super::calling::Outcome;
use super::text::strings;
use crate::issue::Issue;
use crate::value::Value;

/// Returns the path of a URL, or the text itself. An empty path is the root.
fn path_of(arguments: &[Value], function: &str) -> Result<String, Issue> {
    count(arguments, 1..=1, &format!("function {function} takes exactly one argument"))?;
    let text = text(&arguments[0], &format!("string argument expected for function {function}"))?;
    let path =
        Url::parse(text.as_bytes()).map_or_else(|_| text.to_owned(), |url| lossy(&url.path).into_owned());
    Ok(if path.is_empty() { "/".to_owned() } else { path })
}

/// `basename(p)`
pub(super) fn basename(arguments: &[Value]) -> Outcome {
    let path = path_of(arguments, "basename")?;
    Ok(string(path::base(path.as_bytes())))
}

/// `dirname(p)`
pub(super) fn dirname(arguments: &[Value]) -> Outcome {
    let path = path_of(arguments, "dirname")?;
    Ok(string(&path::dir(path.as_bytes())))
}

fn string(bytes: &[u8]) -> Value {
    Value::string(lossy(bytes).into_owned())
}

/// `parseurl(s)`
pub(super) fn parseurl(arguments: &[Value]) -> Outcome {
    count(arguments, 1..=1, "invalid argument count for parseurl")?;
    let text = text(&arguments[0], "argument for parseurl must be a string")?;
    let url = Url::parse(text.as_bytes())
        .map_err(|_| Issue::new(format!("invalid argument for parseurl: '{text}' is not a valid URL")))?;
    let mut fields = vec![
        ("values", values(&lossy(&url.query))),
        ("scheme", Value::string(url.scheme.as_str())),
        ("host", string(url.hostname())),
        ("path", string(&url.path)),
        ("fragment", string(&url.fragment)),
        ("query", string(&url.query)),
    ];
    // As in spiff++, a port out of range is left out.
    if let Ok(port) = lossy(url.port()).parse() {
        fields.push(("port", Value::Int(port)));
    }
    if let Some(user) = url.user {
        let password = user.password.map(|password| ("password", string(&password)));
        let user = [("username", string(&user.name))].into_iter().chain(password);
        fields.push(("userinfo", Value::map(user)));
    }
    Ok(Value::map(fields))
}

/// Returns the values of each name in a query.
fn values(query: &str) -> Value {
    let mut values: Vec<(String, Vec<String>)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty() && !pair.contains(';')) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = |part: &str| unescape_query(part.as_bytes()).map(|part| lossy(&part).into_owned());
        let (Ok(name), Ok(value)) = (decoded(name), decoded(value)) else { continue };
        match values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, list)) => list.push(value),
            None => values.push((name, vec![value])),
        }
    }
    Value::map(values.into_iter().map(|(name, list)| (name, strings(list.iter().map(String::as_str)))))
}
