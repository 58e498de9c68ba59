//! Go's slash-separated paths (`gotemplate.md` 12.11). These functions do not access the file
//! system.

/// Returns the last component.
pub fn base(path: &[u8]) -> &[u8] {
    if path.is_empty() {
        return b".";
    }
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |last| last + 1);
    let start = path[..end].iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    if end == 0 { b"/" } else { &path[start..end] }
}

/// Returns the extension: the text from the last dot of the last component on.
pub fn ext(path: &[u8]) -> &[u8] {
    let name = path.iter().rposition(|&b| b == b'/').map_or(path, |slash| &path[slash..]);
    name.iter().rposition(|&b| b == b'.').map_or(b"", |point| &name[point..])
}

/// Returns all but the last component, cleaned.
pub fn dir(path: &[u8]) -> Vec<u8> {
    let end = path.iter().rposition(|&b| b == b'/').map_or(0, |slash| slash + 1);
    clean(&path[..end])
}

/// Removes empty and `.` components, and resolves `..` against its parent.
pub fn clean(path: &[u8]) -> Vec<u8> {
    let rooted = path.starts_with(b"/");
    let mut kept: Vec<&[u8]> = Vec::new();
    for component in path.split(|&b| b == b'/') {
        match component {
            b"" | b"." => {}
            b".." => match kept.last() {
                Some(&last) if last != b".." => drop(kept.pop()),
                _ if rooted => {}
                _ => kept.push(component),
            },
            name => kept.push(name),
        }
    }
    let joined = kept.join(&b'/');
    match (rooted, joined.is_empty()) {
        (true, _) => [b"/", &joined[..]].concat(),
        (false, true) => b".".to_vec(),
        (false, false) => joined,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_follow_go() {
        let check = |path: &str, cleaned: &str, last: &str, suffix: &str| {
            let text = |bytes: &[u8]| crate::text::lossy(bytes).into_owned();
            let path = path.as_bytes();
            assert_eq!([text(&clean(path)), text(base(path)), text(ext(path))], [cleaned, last, suffix]);
        };
        check("", ".", ".", "");
        check("/", "/", "/", "");
        check("a/b/", "a/b", "b", "");
        check("a.tar.gz", "a.tar.gz", "a.tar.gz", ".gz");
        check("a/../../b//./c", "../b/c", "c", "");
        check("/../a", "/a", "a", "");
        check("x.d/y", "x.d/y", "y", "");
    }

    #[test]
    fn directories_follow_go() {
        for (path, expected) in
            [("", "."), ("/", "/"), ("/a", "/"), ("a", "."), ("a/b//c", "a/b"), ("a/../b/c", "b")]
        {
            assert_eq!(dir(path.as_bytes()), expected.as_bytes(), "{path}");
        }
    }
}
