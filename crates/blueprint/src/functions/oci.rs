//! Parser of image references with Docker's defaults (`blueprints.md` 5.5, `parseOCIRef`).

use std::sync::LazyLock;

use regex::Regex;

/// Host of Docker Hub, as users write it and as templates see it.
const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_INDEX: &str = "index.docker.io";
/// Namespace of a Docker Hub name with a single part.
const OFFICIAL: &str = "library/";
/// Tag that a reference without a tag gets.
const LATEST: &str = "latest";
const LONGEST_PATH: usize = 255;
/// Digest algorithms, with the length of their digests in hexadecimal digits.
const DIGESTS: [(&str, usize); 3] = [("sha256", 64), ("sha384", 96), ("sha512", 128)];

/// Pattern of `host/path:tag@digest`, by the grammar of Distribution's package `reference`.
static REFERENCE: LazyLock<Regex> = LazyLock::new(|| {
    const LABEL: &str = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    const PART: &str = "[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*";
    const TAG: &str = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
    const DIGEST: &str = "[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9A-Fa-f]{32,}";
    let host = format!(r"(?:{LABEL}(?:\.{LABEL})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?");
    let pattern = format!("^({host})/({PART}(?:/{PART})*)(?::({TAG}))?(?:@({DIGEST}))?$");
    Regex::new(&pattern).expect("the pattern is constant")
});

/// Splits a reference into repository and version, a tag or a digest. The digest takes precedence.
/// Errors equal those of Distribution's package `reference`, which Landscaper uses.
pub(crate) fn parse(reference: &str) -> Result<[String; 2], String> {
    let named = reference.split_once("://").map_or(reference, |(_, rest)| rest);
    if named.len() == 64 && named.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return Err(format!("invalid repository name ({named}), cannot specify 64-byte hexadecimal strings"));
    }
    let (host, remainder) = split_host(named);
    let path = remainder.split(':').next().unwrap_or_default();
    if path.to_lowercase() != path {
        return Err(format!("invalid reference format: repository name ({path}) must be lowercase"));
    }
    let full = format!("{host}/{remainder}");
    let parts = REFERENCE.captures(&full).ok_or("invalid reference format")?;
    let part = |index: usize| parts.get(index).map(|part| part.as_str());
    let path = part(2).unwrap_or_default();
    if path.len() > LONGEST_PATH {
        return Err("repository name must not be more than 255 characters".to_owned());
    }
    let digest = part(4);
    if let Some(digest) = digest {
        check_digest(digest)?;
    }
    if !reference.contains(':') {
        return Err("invalid reference".to_owned());
    }
    let host = if host == DOCKER_HUB { DOCKER_HUB_INDEX } else { host };
    let repository = match host {
        DOCKER_HUB_INDEX => path.strip_prefix(OFFICIAL).unwrap_or(path).to_owned(),
        host => format!("{host}/{path}"),
    };
    Ok([repository, digest.or(part(3)).unwrap_or(LATEST).to_owned()])
}

/// Splits the host, by default Docker Hub, from the rest of the name.
fn split_host(name: &str) -> (&str, String) {
    let is_host =
        |first: &str| first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first;
    let (host, remainder) = match name.split_once('/') {
        Some((first, rest)) if is_host(first) => (first, rest),
        _ => (DOCKER_HUB, name),
    };
    let host = if host == DOCKER_HUB_INDEX { DOCKER_HUB } else { host };
    let official = host == DOCKER_HUB && !remainder.contains('/');
    (host, format!("{}{remainder}", if official { OFFICIAL } else { "" }))
}

fn check_digest(digest: &str) -> Result<(), &'static str> {
    let (algorithm, hex) = digest.split_once(':').unwrap_or_default();
    let Some((_, length)) = DIGESTS.iter().find(|(name, _)| *name == algorithm) else {
        return Err("unsupported digest algorithm");
    };
    if hex.len() != *length {
        return Err("invalid checksum digest length");
    }
    if hex.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err("invalid checksum digest format");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (reference, repository, version) in [
            ("myimage:1", "myimage", "1"),
            ("org/x:1", "org/x", "1"),
            ("h:5000/a/b:2", "h:5000/a/b", "2"),
            ("localhost:5000/a", "localhost:5000/a", "latest"),
            ("docker.io/library/busybox:1.0", "busybox", "1.0"),
            ("index.docker.io/org/x:1", "org/x", "1"),
            ("oci://h.example.org/a:v1", "h.example.org/a", "v1"),
            ("oci://h.example.org/a", "h.example.org/a", "latest"),
            ("Upper/a:1", "Upper/a", "1"),
            ("library/x:1", "x", "1"),
            ("[2001:db8::1]:5000/a:1", "[2001:db8::1]:5000/a", "1"),
            (&format!("h.io/a@{digest}"), "h.io/a", &digest),
            (&format!("h.io/a:v1@{digest}"), "h.io/a", &digest),
        ] {
            assert_eq!(parse(reference), Ok([repository.to_owned(), version.to_owned()]), "{reference}");
        }
        let path = "a/".repeat(130);
        for (bad, expected) in [
            ("plain", "invalid reference"),
            ("", "invalid reference format"),
            (":1", "invalid reference format"),
            ("h.io/a:", "invalid reference format"),
            ("h.io//a:1", "invalid reference format"),
            ("h.io/a b:1", "invalid reference format"),
            ("h.io/A b:1", "invalid reference format: repository name (A b) must be lowercase"),
            ("a/B", "invalid reference format: repository name (a/B) must be lowercase"),
            ("h.io/a@sha256:xyz", "invalid reference format"),
            (&format!("h.io/a@sha256:{}", "a".repeat(32)), "invalid checksum digest length"),
            (&format!("h.io/a@sha256:{}", "A".repeat(64)), "invalid checksum digest format"),
            (&format!("h.io/a@md5:{}", "a".repeat(32)), "unsupported digest algorithm"),
            (&format!("{path}a:1"), "repository name must not be more than 255 characters"),
            (
                &"0a".repeat(32),
                "invalid repository name (0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a), cannot specify 64-byte hexadecimal strings",
            ),
        ] {
            assert_eq!(parse(bad), Err(expected.to_owned()), "{bad}");
        }
    }
}
