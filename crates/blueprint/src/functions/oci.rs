//! Image references the way Docker reads them (`blueprints.md` 5.5, `parseOCIRef`).

/// Docker Hub's host, and the prefixes that are dropped again for it.
const DOCKER_HUB: [&str; 2] = ["index.docker.io/library/", "index.docker.io/"];

/// Splits a reference into repository and version (tag or digest, the digest wins).
pub(crate) fn parse(reference: &str) -> Result<[String; 2], String> {
    if !reference.contains(':') {
        return Err("invalid reference".to_owned());
    }
    let reference = reference.split_once("://").map_or(reference, |(_, rest)| rest);
    let (name, digest) = match reference.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (reference, None),
    };
    let tag_at = name.rfind(':').filter(|at| !name[*at..].contains('/'));
    let (repository, tag) = tag_at.map_or((name, None), |at| (&name[..at], Some(&name[at + 1..])));
    check(repository, tag, digest)
        .map_err(|problem| format!("invalid reference {reference:?}: {problem}"))?;
    let repository = normalise(repository);
    let version = digest.or(tag).unwrap_or("latest").to_owned();
    Ok([repository, version])
}

/// Adds what Docker leaves out, and takes it away again for Docker Hub.
fn normalise(repository: &str) -> String {
    let has_host =
        repository.split_once('/').is_some_and(|(host, _)| host.contains(['.', ':']) || host == "localhost");
    if !has_host {
        return repository.strip_prefix("library/").unwrap_or(repository).to_owned();
    }
    let repository = match repository.strip_prefix("docker.io/") {
        Some(path) => format!("{}{path}", DOCKER_HUB[1]),
        None => repository.to_owned(),
    };
    let hub_path = DOCKER_HUB.iter().find_map(|prefix| repository.strip_prefix(prefix));
    hub_path.map_or_else(|| repository.clone(), str::to_owned)
}

fn check(repository: &str, tag: Option<&str>, digest: Option<&str>) -> Result<(), &'static str> {
    let path_byte = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-/:".contains(&byte);
    let host_ends = repository.find('/').unwrap_or(0);
    let is_host_byte = |byte: u8| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte);
    if repository.is_empty()
        || repository.starts_with('/')
        || repository.ends_with('/')
        || repository.contains("//")
    {
        return Err("the repository name is malformed");
    }
    let (host, path) = repository.split_at(host_ends);
    if !host.bytes().all(|byte| is_host_byte(byte) || byte == b'_') || !path.bytes().all(path_byte) {
        return Err("the repository name may hold lower-case letters, digits and . _ - / only");
    }
    let tag_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    if tag.is_some_and(|tag| tag.is_empty() || tag.len() > 128 || !tag.bytes().all(tag_byte)) {
        return Err("the tag is malformed");
    }
    let digest_fits = |digest: &str| {
        digest.split_once(':').is_some_and(|(algorithm, hex)| {
            !algorithm.is_empty() && hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    if digest.is_some_and(|digest| !digest_fits(digest)) {
        return Err("the digest is malformed");
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
            (&format!("h.io/a@{digest}"), "h.io/a", &digest),
            (&format!("h.io/a:v1@{digest}"), "h.io/a", &digest),
        ] {
            assert_eq!(parse(reference), Ok([repository.to_owned(), version.to_owned()]), "{reference}");
        }
        for bad in ["plain", "h.io/a:", "h.io/A B:1", "h.io/a@sha256:xyz", "h.io//a:1", ":1"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
