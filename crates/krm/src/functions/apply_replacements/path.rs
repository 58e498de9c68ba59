//! Field paths of kustomize: `spec.containers.[name=web].image`, `data.a\.b`, `data.[a.b]`,
//! `items.0`, `items.*`.

use groundwork_yaml::tree::{Node, Pair};

/// Splits a path into its parts. Dots in brackets or after a backslash belong to a name.
pub(super) fn split(path: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut in_brackets = false;
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        let last = parts.len() - 1;
        match c {
            '\\' if chars.peek() == Some(&'.') => parts[last].extend(chars.next()),
            '.' if !in_brackets => parts.push(String::new()),
            _ => {
                in_brackets = if in_brackets { c != ']' } else { c == '[' && parts[last].is_empty() };
                parts[last].push(c);
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns key and value of a part `[key=value]`.
fn condition(part: &str) -> Option<(&str, &str)> {
    part.strip_prefix('[')?.strip_suffix(']')?.split_once('=')
}

/// Returns the name in a part `[name]`: a key of a map that may contain dots, or a scalar of a
/// list.
fn bracketed(part: &str) -> Option<&str> {
    part.strip_prefix('[')?.strip_suffix(']').filter(|name| !name.contains('='))
}

/// Returns the key of a map that a part names.
fn key(part: &str) -> &str {
    bracketed(part).unwrap_or(part)
}

fn is_match(item: &Node, key: &str, value: &str) -> bool {
    // In a list of scalars, the key is empty.
    let found = if key.is_empty() { Some(item) } else { item.get(key) };
    found.and_then(Node::text) == Some(value)
}

/// Returns the first value at a path.
pub(super) fn find<'a>(node: &'a Node, path: &[String]) -> Option<&'a Node> {
    let Some((first, rest)) = path.split_first() else { return Some(node) };
    if let Some(list) = node.as_sequence() {
        let mut items = list.items.iter();
        return match (condition(first), first.as_str()) {
            (Some((key, value)), _) => {
                items.filter(|item| is_match(item, key, value)).find_map(|item| find(item, rest))
            }
            (None, "*") => items.find_map(|item| find(item, rest)),
            (None, part) => match bracketed(part) {
                Some(name) => find(items.find(|item| is_match(item, "", name))?, rest),
                None => find(list.items.get(part.parse::<usize>().ok()?)?, rest),
            },
        };
    }
    find(node.get(key(first))?, rest)
}

/// Calls a function with every value at a path, and returns their number.
///
/// # Errors
/// The first error of the function.
pub(super) fn visit(
    node: &mut Node,
    path: &[String],
    create: bool,
    apply: &mut dyn FnMut(&mut Node) -> Result<(), String>,
) -> Result<usize, String> {
    let Some((first, rest)) = path.split_first() else { return apply(node).map(|()| 1) };
    if create {
        make(node, first, rest);
    }
    let mut count = 0;
    if let Some(list) = node.as_sequence_mut() {
        let index = first.parse::<usize>().ok();
        for (at, item) in list.items.iter_mut().enumerate() {
            let is_meant = match (condition(first), bracketed(first)) {
                (Some((key, value)), _) => is_match(item, key, value),
                (None, Some(name)) => is_match(item, "", name),
                (None, None) => first == "*" || index == Some(at),
            };
            if is_meant {
                count += visit(item, rest, create, apply)?;
            }
        }
    } else if let Some(found) = node.get_mut(key(first)) {
        count += visit(found, rest, create, apply)?;
    }
    Ok(count)
}

/// Creates the value that a part of a path names, if it is missing.
fn make(node: &mut Node, part: &str, rest: &[String]) {
    let is_list = |part: Option<&String>| {
        part.is_some_and(|part| condition(part).is_some() || part.parse::<usize>().is_ok())
    };
    let empty = || match rest {
        [] => Node::plain("null"),
        _ if is_list(rest.first()) => Node::sequence(Vec::new()),
        _ => Node::mapping(Vec::new()),
    };
    if let Some(list) = node.as_sequence_mut() {
        match condition(part) {
            Some((key, value)) if !list.items.iter().any(|item| is_match(item, key, value)) => {
                let item = if key.is_empty() {
                    Node::string(value)
                } else {
                    Node::mapping(vec![Pair::new(key, Node::string(value))])
                };
                list.items.push(item);
            }
            None if part.parse::<usize>().ok() == Some(list.items.len()) => list.items.push(empty()),
            _ => {}
        }
    } else if let Some(mapping) = node.as_mapping_mut() {
        let key = key(part);
        match mapping.get_mut(key) {
            Some(found) if found.is_null() && !rest.is_empty() => found.content = empty().content,
            Some(_) => {}
            None => mapping.pairs.push(Pair::new(key, empty())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts() {
        for (path, expected) in [
            ("a.b", &["a", "b"][..]),
            ("a\\.b.c", &["a.b", "c"]),
            ("a.[n=x.y].b", &["a", "[n=x.y]", "b"]),
            ("a.[x.y/z].b", &["a", "[x.y/z]", "b"]),
            ("", &[]),
        ] {
            assert_eq!(split(path), expected, "{path}");
        }
    }
}
