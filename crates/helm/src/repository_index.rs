//! The index of a chart repository: the chart of an entry, and its URL (`helm.md` 1.2).

use std::cmp::Ordering;

use groundwork_go::semver::{Constraint, ConstraintError, Version};
use groundwork_yaml::{Options, Part};
use serde_json::Value;

/// The reason why an index leads to no chart, in Helm's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum IndexError {
    #[error("empty index.yaml file")]
    Empty,
    #[error("the index is not valid YAML: {0}")]
    Syntax(String),
    #[error("no API version specified")]
    NoApiVersion,
    /// The repository does not have the chart. It may be published later, so callers may retry.
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
    /// URL as written, possibly relative to the repository.
    pub url: String,
    /// SHA-256 in hexadecimal digits, if the entry has one.
    pub digest: Option<String>,
}

/// Maximum memory for the versions of the wanted chart while they are read from YAML. The rest of
/// an index takes no memory.
const MOST_BYTES: usize = 64 << 20;

/// Finds the chart of a name and version, or of the newest version that a constraint allows.
///
/// # Errors
///
/// The index cannot be read, or has no such chart.
pub fn find_in_index(index: &[u8], name: &str, version: &str) -> Result<IndexEntry, IndexError> {
    let text = std::str::from_utf8(index).map_err(|error| {
        IndexError::Syntax(format!("it is not UTF-8 from byte {} on", error.valid_up_to()))
    })?;
    if text.trim().is_empty() {
        return Err(IndexError::Empty);
    }
    // A fast path: nearly all indexes in JSON have this form. Any other text is read as YAML, which
    // includes JSON.
    match json::read(text, name, version) {
        Some((api_version, _)) if api_version.is_empty() => Err(IndexError::NoApiVersion),
        Some((_, None)) => Err(IndexError::NoName),
        Some((_, Some(selection))) => selection.chosen(name),
        None => find_in_yaml(text, name, version),
    }
}

fn find_in_yaml(text: &str, name: &str, version: &str) -> Result<IndexEntry, IndexError> {
    let options = Options { most_bytes: MOST_BYTES, ..Options::default() };
    let is_wanted = |path: &[&str]| match path {
        ["apiVersion"] => Part::Whole,
        ["entries"] => Part::Members,
        ["entries", chart] if *chart == name => Part::Whole,
        _ => Part::Nothing,
    };
    let index = groundwork_yaml::parse_parts(text, options, is_wanted);
    let index = index.map_err(|error| IndexError::Syntax(error.to_string()))?.into_value();
    if index["apiVersion"].as_str().unwrap_or_default().is_empty() {
        return Err(IndexError::NoApiVersion);
    }
    let entries = index["entries"].get(name).ok_or(IndexError::NoName)?;
    let mut selection = Selection::of(version);
    for entry in entries.as_array().into_iter().flatten() {
        selection.offer(Candidate {
            version: entry["version"].as_str().unwrap_or_default().to_owned(),
            url: entry["urls"].get(0).and_then(Value::as_str).unwrap_or_default().to_owned(),
            digest: entry["digest"].as_str().unwrap_or_default().to_owned(),
        });
    }
    selection.chosen(name)
}

/// A version of a chart. Missing texts are empty.
#[derive(Debug, Default)]
struct Candidate {
    version: String,
    url: String,
    digest: String,
}

/// The best of the versions read until now.
struct Selection<'v> {
    wanted: &'v str,
    constraint: Result<Constraint, ConstraintError>,
    has_versions: bool,
    /// The candidate whose version is written exactly as requested.
    same: Option<Candidate>,
    newest: Option<(Version, Candidate)>,
}

impl<'v> Selection<'v> {
    fn of(wanted: &'v str) -> Self {
        let constraint = Constraint::parse(if wanted.is_empty() { "*" } else { wanted });
        Self { wanted, constraint, has_versions: false, same: None, newest: None }
    }

    fn offer(&mut self, candidate: Candidate) {
        if candidate.version.is_empty() {
            return;
        }
        self.has_versions = true;
        if candidate.version == self.wanted {
            self.same.get_or_insert(candidate);
            return;
        }
        if let (Ok(constraint), Ok(version)) = (&self.constraint, Version::parse(&candidate.version))
            && constraint.accepts(&version)
            && self.newest.as_ref().is_none_or(|(known, _)| version.compare(known) == Ordering::Greater)
        {
            self.newest = Some((version, candidate));
        }
    }

    fn chosen(self, name: &str) -> Result<IndexEntry, IndexError> {
        if !self.has_versions {
            return Err(IndexError::NoVersions);
        }
        let chosen = match (self.same, self.constraint) {
            (Some(same), _) => Some(same),
            (None, Ok(_)) => self.newest.map(|(_, candidate)| candidate),
            (None, Err(error)) => return Err(IndexError::Constraint(error.to_string())),
        };
        let Some(Candidate { url, digest, .. }) = chosen else {
            return Err(IndexError::NoVersion { name: name.to_owned(), version: self.wanted.to_owned() });
        };
        if url.is_empty() {
            return Err(IndexError::NoUrl(name.to_owned()));
        }
        Ok(IndexEntry { url, digest: Some(digest).filter(|digest| !digest.is_empty()) })
    }
}

/// Reader of an index as JSON, with one version in memory at a time.
mod json {
    use std::fmt;

    use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
    use serde::{Deserialize, de};

    use super::{Candidate, Selection};

    /// Reads the API version of an index, and the versions of the chart if it has the chart.
    /// Returns `None` if the text is not JSON, or has another form.
    pub(super) fn read<'v>(
        text: &str,
        name: &str,
        version: &'v str,
    ) -> Option<(String, Option<Selection<'v>>)> {
        let mut selection = None;
        let mut reader = serde_json::Deserializer::from_str(text);
        let index = Index { name, version, selection: &mut selection };
        let api_version = index.deserialize(&mut reader).ok()?;
        reader.end().ok()?;
        Some((api_version, selection))
    }

    struct Index<'a, 'v> {
        name: &'a str,
        version: &'v str,
        selection: &'a mut Option<Selection<'v>>,
    }

    impl<'de> DeserializeSeed<'de> for Index<'_, '_> {
        type Value = String;

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
            deserializer.deserialize_map(self)
        }
    }

    impl<'de> Visitor<'de> for Index<'_, '_> {
        type Value = String;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an index")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<String, A::Error> {
            let mut api_version = String::new();
            while let Some(key) = map.next_key::<String>()? {
                match key.as_str() {
                    "apiVersion" => api_version = map.next_value()?,
                    "entries" => {
                        let Self { name, version, .. } = self;
                        *self.selection = map.next_value_seed(Entries { name, version })?;
                    }
                    _ => drop(map.next_value::<IgnoredAny>()?),
                }
            }
            Ok(api_version)
        }
    }

    struct Entries<'a, 'v> {
        name: &'a str,
        version: &'v str,
    }

    impl<'de, 'v> DeserializeSeed<'de> for Entries<'_, 'v> {
        type Value = Option<Selection<'v>>;

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_map(self)
        }
    }

    impl<'de, 'v> Visitor<'de> for Entries<'_, 'v> {
        type Value = Option<Selection<'v>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("charts by their names")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut found = None;
            while let Some(key) = map.next_key::<String>()? {
                if key == self.name {
                    found = Some(map.next_value_seed(Versions(Selection::of(self.version)))?);
                } else {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            Ok(found)
        }
    }

    struct Versions<'v>(Selection<'v>);

    impl<'de, 'v> DeserializeSeed<'de> for Versions<'v> {
        type Value = Selection<'v>;

        fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
            deserializer.deserialize_seq(self)
        }
    }

    impl<'de, 'v> Visitor<'de> for Versions<'v> {
        type Value = Selection<'v>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("versions")
        }

        fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Self::Value, A::Error> {
            while let Some(entry) = items.next_element::<Option<Entry>>()? {
                let Some(Entry { version, urls, digest }) = entry else { continue };
                let (version, url) = (version.unwrap_or_default(), urls.unwrap_or_default().0);
                self.0.offer(Candidate { version, url, digest: digest.unwrap_or_default() });
            }
            Ok(self.0)
        }
    }

    #[derive(Deserialize)]
    struct Entry {
        version: Option<String>,
        urls: Option<First>,
        digest: Option<String>,
    }

    /// The first text of a list.
    #[derive(Default)]
    struct First(String);

    impl<'de> de::Deserialize<'de> for First {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Texts;
            impl<'de> Visitor<'de> for Texts {
                type Value = First;

                fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    f.write_str("a list")
                }

                fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<First, A::Error> {
                    let first = items.next_element::<String>()?.unwrap_or_default();
                    while items.next_element::<IgnoredAny>()?.is_some() {}
                    Ok(First(first))
                }
            }
            deserializer.deserialize_seq(Texts)
        }
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
        let broken = find_in_index(b"apiVersion: v1\nx: \xff", "web", "1").unwrap_err();
        assert_eq!(broken.to_string(), "the index is not valid YAML: it is not UTF-8 from byte 18 on");
        assert_eq!(find_in_index(INDEX.as_bytes(), "web", "1.0.0").unwrap().digest.as_deref(), Some("abc"));
    }
    /// Case: the reader for JSON gives the same results as the one for YAML.
    #[test]
    fn json_and_yaml_agree() {
        for entries in [
            r#"{"web": [{"version": "1.0.0", "urls": ["a", "b"], "digest": "d"}, {"version": "1.0.0", "urls": ["c"]}, {"version": "0.9.0"}]}"#,
            r#"{"web": [{"version": "1.1.0", "urls": []}, {"version": 2}, null, {"version": "1.0.0", "urls": ["x"], "digest": null}]}"#,
            r#"{"web": [], "other": [{"version": [[]]}]}"#,
            r#"{"web": [{"version": "odd", "urls": "text"}, 5]}"#,
            r#"{"web": [{"version": "1.0.0", "version": "1.2.0", "urls": ["y"]}], "web": [{"version": "1.3.0", "urls": ["z"]}]}"#,
            r#"{"web": {"version": "1.0.0"}}"#,
            r#"{"web": null}"#,
            r#"[]"#,
            "5",
        ] {
            let text = format!(r#"{{"generated": {{"a": []}}, "apiVersion": "v1", "entries": {entries}}}"#);
            for version in ["1.0.0", "", "^1.0.0", "odd", ">>", "2.x"] {
                let yaml = find_in_yaml(&text, "web", version);
                assert_eq!(find_in_index(text.as_bytes(), "web", version), yaml, "{version} of {text}");
            }
        }
    }

    /// Case: charts other than the wanted one take no memory, and the wanted one has a limit.
    #[test]
    fn heavy_indexes_end() {
        let heavy = "{\"\":{\"\":{\"\":0}}},".repeat(110_000);
        let beside = |key: &str| {
            format!(
                "{{\"apiVersion\":\"v1\",\"entries\":{{\"{key}\":[{heavy}{{\"version\":\"1.0.0\",\"urls\":[\"u\"]}}]}}}}"
            )
        };
        assert_eq!(find_in_index(beside("web").as_bytes(), "web", "").unwrap().url, "u");
        assert_eq!(find_in_index(beside("other").as_bytes(), "web", ""), Err(IndexError::NoName));
        // The comment makes the text YAML instead of JSON.
        let yaml = |key: &str| format!("# {}", beside(key)).replacen("# ", "# x\n", 1);
        assert_eq!(find_in_index(yaml("other").as_bytes(), "web", ""), Err(IndexError::NoName));
        let error = find_in_index(yaml("web").as_bytes(), "web", "").unwrap_err().to_string();
        assert!(error.contains("takes more than the limit of 67108864 bytes of memory"), "{error}");
        for deep in ["[".repeat(1 << 20), format!("{{\"entries\":{}", "[".repeat(1 << 20))] {
            let error = find_in_index(deep.as_bytes(), "web", "").unwrap_err();
            assert!(matches!(error, IndexError::Syntax(_)), "{error}");
        }
    }
}
