//! The index of a chart repository: which chart an entry names, and where it lies (`helm.md` 1.2).

use std::cmp::Ordering;

use groundwork_go::semver::{Constraint, Version};
use serde_json::Value;

/// Why an index leads to no chart, in Helm's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    #[error("empty index.yaml file")]
    Empty,
    #[error("the index is no YAML: {0}")]
    Syntax(String),
    #[error("no API version specified")]
    NoApiVersion,
    /// It may come: the repository does not have the chart yet.
    #[error("no chart name found")]
    NoName,
    #[error("no chart version found")]
    NoVersions,
    #[error("no chart version found for {name}-{version}")]
    NoVersion { name: String, version: String },
    #[error("{0}")]
    Constraint(String),
    #[error("chart {0:?} has no downloadable URLs")]
    NoUrl(String),
}

/// An entry of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexEntry {
    /// As it stands there, perhaps relative to the repository.
    pub url: String,
    /// SHA-256 in hexadecimal digits, if it is said.
    pub digest: Option<String>,
}

/// The chart of a name and version, or of the newest version that a constraint allows.
///
/// # Errors
///
/// The index cannot be read, or has no such chart.
pub fn find_in_index(index: &[u8], name: &str, version: &str) -> Result<IndexEntry, IndexError> {
    let text = String::from_utf8_lossy(index);
    if text.trim().is_empty() {
        return Err(IndexError::Empty);
    }
    let index: Value = match serde_json::from_str(&text) {
        Ok(value) => value,
        Err(_) => groundwork_yaml::from_str(&text).map_err(|error| IndexError::Syntax(error.to_string()))?,
    };
    if index["apiVersion"].as_str().unwrap_or_default().is_empty() {
        return Err(IndexError::NoApiVersion);
    }
    let entries = index["entries"].get(name).ok_or(IndexError::NoName)?;
    let text_of = |entry: &Value, member: &str| entry[member].as_str().unwrap_or_default().to_owned();
    let mut entries: Vec<(String, &Value)> = entries
        .as_array()
        .into_iter()
        .flatten()
        .filter(|entry| entry.is_object() && !text_of(entry, "version").is_empty())
        .map(|entry| (text_of(entry, "version"), entry))
        .collect();
    if entries.is_empty() {
        return Err(IndexError::NoVersions);
    }
    entries.sort_by(|(left, _), (right, _)| newest_first(left, right));
    let found = match entries.iter().find(|(text, _)| text == version) {
        Some(found) => Some(found),
        None => {
            let wanted = if version.is_empty() { "*" } else { version };
            let constraint =
                Constraint::parse(wanted).map_err(|error| IndexError::Constraint(error.to_string()))?;
            let is_accepted =
                |text: &String| Version::parse(text).is_ok_and(|version| constraint.accepts(&version));
            entries.iter().find(|(text, _)| is_accepted(text))
        }
    };
    let (_, entry) =
        found.ok_or_else(|| IndexError::NoVersion { name: name.to_owned(), version: version.to_owned() })?;
    let url = entry["urls"].get(0).and_then(Value::as_str).filter(|url| !url.is_empty());
    let url = url.ok_or_else(|| IndexError::NoUrl(name.to_owned()))?.to_owned();
    let digest = Some(text_of(entry, "digest")).filter(|digest| !digest.is_empty());
    Ok(IndexEntry { url, digest })
}

/// What is no version sorts last.
fn newest_first(left: &str, right: &str) -> Ordering {
    match (Version::parse(left), Version::parse(right)) {
        (Ok(left), Ok(right)) => right.compare(&left),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => Ordering::Equal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "apiVersion: v1\nentries:\n  web:\n  - {version: 1.0.0, urls: [web-1.0.0.tgz], digest: abc}\n  - {version: 1.2.0, \
                         urls: [https://elsewhere/web-1.2.0.tgz]}\n  - {version: 2.0.0-rc1, urls: [x]}\n  - null\n  - {version: odd, urls: \
                         [o]}\n  none: []\n  lost: [{version: 1.0.0}]\n";

    #[test]
    fn entries() {
        let url = |name: &str, version: &str| {
            find_in_index(INDEX.as_bytes(), name, version)
                .map(|entry| entry.url)
                .map_err(|error| error.to_string())
        };
        for (version, expected) in [
            ("1.0.0", "web-1.0.0.tgz"),
            ("", "https://elsewhere/web-1.2.0.tgz"),
            ("^1.0.0", "https://elsewhere/web-1.2.0.tgz"),
            ("~1.0", "web-1.0.0.tgz"),
            (">=2.0.0-0", "x"),
            ("odd", "o"),
        ] {
            assert_eq!(url("web", version).as_deref(), Ok(expected), "{version}");
        }
        assert_eq!(url("web", "3.0.0").unwrap_err(), "no chart version found for web-3.0.0");
        assert_eq!(url("other", "1").unwrap_err(), "no chart name found");
        assert_eq!(url("none", "1").unwrap_err(), "no chart version found");
        assert_eq!(url("lost", "1.0.0").unwrap_err(), "chart \"lost\" has no downloadable URLs");
        assert_eq!(find_in_index(b" ", "web", ""), Err(IndexError::Empty));
        assert_eq!(find_in_index(b"entries: {}", "web", ""), Err(IndexError::NoApiVersion));
        let json = br#"{"apiVersion": "v1", "entries": {"web": [{"version": "1", "urls": ["u"]}]}}"#;
        assert_eq!(find_in_index(json, "web", "1").unwrap().url, "u");
        assert_eq!(find_in_index(INDEX.as_bytes(), "web", "1.0.0").unwrap().digest.as_deref(), Some("abc"));
    }
}
