//! Places outside of component repositories from which contents may be fetched: the list
//! `accesses` of `repositories.yaml`.
//!
//! ```yaml
//! accesses:
//! - type: wget                            # wget, gitHub, s3 or helm
//!   url: https://files.example.org/shop   # this address and all below it; `http://` for no TLS
//!   ca: ca.pem                            # optional: certificates to trust
//!   ocmConfig: credentials.yaml           # optional: credentials, in OCM's form
//! - type: s3
//!   url: s3://bucket/folder               # of AWS; other stores begin with https://
//! - type: gitHub
//!   url: https://git.example.org/team
//!   apiHostname: api.git.example.org      # optional: host of the API, if it has another name
//! ```

use std::path::{Path, PathBuf};

use percent_encoding::percent_decode_str;
use url::Url;

/// Kind of access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Wget,
    GitHub,
    S3,
    Helm,
}

impl Kind {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Wget => "wget",
            Self::GitHub => "gitHub",
            Self::S3 => "s3",
            Self::Helm => "helm",
        }
    }

    fn of(name: &str) -> Option<Self> {
        [Self::Wget, Self::GitHub, Self::S3, Self::Helm]
            .into_iter()
            .find(|kind| kind.name().eq_ignore_ascii_case(name))
    }

    const fn schemes(self) -> &'static [&'static str] {
        match self {
            Self::Wget | Self::GitHub => &["https", "http"],
            Self::S3 => &["s3", "https", "http"],
            Self::Helm => &["https", "http", "oci"],
        }
    }
}

/// Address without its query, as permissions compare it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ContentAddress {
    scheme: String,
    /// Host, with its port unless that is the default of the scheme.
    pub(super) authority: String,
    /// Parts of the path, without empty ones at its end.
    parts: Vec<String>,
}

impl ContentAddress {
    pub(super) fn new(scheme: &str, authority: &str, path: &str) -> Self {
        let mut parts: Vec<String> = path.split('/').map(str::to_owned).collect();
        while parts.last().is_some_and(String::is_empty) {
            parts.pop();
        }
        Self { scheme: scheme.to_owned(), authority: authority.to_owned(), parts }
    }

    pub(super) fn of_url(url: &Url) -> Self {
        Self::new(url.scheme(), &authority(url), url.path().trim_start_matches('/'))
    }

    fn is_below(&self, above: &Self) -> bool {
        self.scheme == above.scheme
            && self.authority == above.authority
            && self.parts.starts_with(&above.parts)
    }

    /// Reports whether servers may read the path in different ways.
    fn is_ambiguous(&self) -> bool {
        let is_strange = |part: &String| {
            let part = part.to_ascii_lowercase();
            part == ".." || part == "." || part.contains("%2f") || part.contains("%5c") || part.contains('\\')
        };
        self.parts.iter().any(is_strange)
    }
}

/// Returns the host of an address, with its port unless that is the default of the scheme.
pub(super) fn authority(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Parses an address of an access. Without a scheme it gets `https://`.
pub(super) fn parse(kind: Kind, text: &str) -> Result<Url, &'static str> {
    let text = text.trim();
    let text = if text.contains("://") { text.to_owned() } else { format!("https://{text}") };
    let url = Url::parse(&text).map_err(|_| "it is not a URL")?;
    if !kind.schemes().contains(&url.scheme()) {
        return Err(match kind {
            Kind::Wget | Kind::GitHub => "it must begin with https:// or http://",
            Kind::S3 => "it must begin with s3://, https:// or http://",
            Kind::Helm => "it must begin with https://, http:// or oci://",
        });
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err("it has no host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not contain credentials; put them into OCM's configuration of credentials");
    }
    Ok(url)
}

/// Entry of the list.
#[derive(Debug, Clone)]
pub(crate) struct Permission {
    kind: Kind,
    pub(super) place: ContentAddress,
    pub(super) ca: Option<PathBuf>,
    pub(super) ocm_config: Option<PathBuf>,
    pub(super) api_hostname: Option<String>,
}

impl Permission {
    /// Names of the members of an entry.
    pub(crate) const MEMBERS: [&str; 5] = ["type", "url", "ca", "ocmConfig", "apiHostname"];

    /// Creates an entry from its members.
    ///
    /// # Errors
    ///
    /// The members are not valid. The error is a sentence that says why.
    pub(crate) fn read<'a>(text: impl Fn(&str) -> Option<&'a str>) -> Result<Self, String> {
        let type_name = text("type").unwrap_or_default();
        let kind = Kind::of(type_name).ok_or_else(|| match type_name {
            "file" | "File" => {
                "the access type file needs no entry: the command reads files of the component's store, \
                                and services read none"
                    .to_owned()
            }
            other => format!("type {other:?} is not an access type; known are wget, gitHub, s3 and helm"),
        })?;
        let url = text("url").ok_or("url must be given, such as https://files.example.org/shop")?;
        let url = parse(kind, url).map_err(|problem| format!("url cannot be used: {problem}"))?;
        if url.query().or(url.fragment()).is_some() {
            return Err("url must not have a query or a fragment".to_owned());
        }
        let mut place = ContentAddress::of_url(&url);
        if kind == Kind::S3 {
            // The names of objects are compared as they are, not as a URL writes them.
            let decode = |part: &String| percent_decode_str(part).decode_utf8_lossy().into_owned();
            place.parts = place.parts.iter().map(decode).collect();
        }
        let api_hostname = text("apiHostname").map(str::to_owned);
        if api_hostname.is_some() && kind != Kind::GitHub {
            return Err("apiHostname is allowed only with the type gitHub".to_owned());
        }
        let path = |member: &str| text(member).map(PathBuf::from);
        Ok(Self { kind, place, ca: path("ca"), ocm_config: path("ocmConfig"), api_hostname })
    }

    /// Resolves file names relative to a folder.
    pub(crate) fn below(self, folder: &Path) -> Self {
        let join = |path: PathBuf| folder.join(path);
        Self { ca: self.ca.map(join), ocm_config: self.ocm_config.map(join), ..self }
    }
}

/// All entries of a map.
#[derive(Debug, Clone, Default)]
pub(crate) struct Permissions {
    entries: Vec<Permission>,
    /// Name of the map in messages.
    map: String,
}

impl Permissions {
    pub(crate) fn new(map: impl Into<String>) -> Self {
        Self { entries: Vec::new(), map: map.into() }
    }

    pub(crate) fn add(&mut self, permission: Permission) {
        self.entries.push(permission);
    }

    /// Adds the entries of another map, under the name of both.
    pub(crate) fn merge(&mut self, other: &Self, map: &str) {
        self.entries.extend(other.entries.iter().cloned());
        map.clone_into(&mut self.map);
    }

    pub(super) fn map(&self) -> &str {
        &self.map
    }

    /// Finds the most specific entry that covers a place.
    pub(super) fn find(&self, kind: Kind, place: &ContentAddress) -> Option<&Permission> {
        let covers = |entry: &&Permission| {
            // An entry for a whole host covers every reading of a path.
            let is_clear = entry.place.parts.is_empty() || !place.is_ambiguous();
            entry.kind == kind && place.is_below(&entry.place) && is_clear
        };
        self.entries.iter().filter(covers).max_by_key(|entry| entry.place.parts.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permission(kind: &str, url: &str) -> Result<Permission, String> {
        Permission::read(|member| match member {
            "type" => Some(kind),
            "url" => Some(url),
            _ => None,
        })
    }

    #[test]
    fn places_that_entries_cover() {
        let covers = |kind: &str, entry: &str, address: &str| {
            let mut permissions = Permissions::new("map");
            permissions.add(permission(kind, entry).unwrap());
            let kind = Kind::of(kind).unwrap();
            parse(kind, address)
                .is_ok_and(|url| permissions.find(kind, &ContentAddress::of_url(&url)).is_some())
        };
        for (entry, address, expected) in [
            ("https://a.org/shop", "https://a.org/shop", true),
            ("https://a.org/shop/", "https://a.org/shop/x?token=1#y", true),
            ("a.org/shop", "https://A.org:443/shop/x", true),
            ("https://a.org", "https://a.org/any/thing", true),
            ("https://a.org/shop", "https://a.org/shopping", false),
            ("https://a.org/shop", "https://a.org/", false),
            ("https://a.org/shop", "http://a.org/shop", false),
            ("http://a.org/shop", "https://a.org/shop", false),
            ("https://a.org/shop", "https://a.org:444/shop", false),
            ("https://a.org/shop", "https://a.org.evil.org/shop", false),
            ("https://a.org/shop", "https://evil.org/a.org/shop", false),
            ("https://a.org/shop", "https://a.org@evil.org/shop", false),
            ("https://a.org/shop", "https://a.org/shop/../private", false),
            ("https://a.org/shop", "https://a.org/shop/%2e%2E/private", false),
            ("https://a.org/shop", "https://a.org/shop/%2e%2e%2Fprivate", false),
            ("https://a.org/shop", "https://a.org/shop/..\\private", false),
            ("https://a.org/shop", "https://a.org/other/../shop/x", true),
            ("https://a.org", "https://a.org/a%2fb", true),
            ("http://127.0.0.1", "http://2130706433/x", true),
            ("https://a.org", "file:///etc/passwd", false),
        ] {
            assert_eq!(covers("wget", entry, address), expected, "{address} below {entry}");
        }
        assert!(covers("helm", "oci://a.org/charts", "oci://a.org/charts/team"));
        assert!(!covers("helm", "https://a.org/charts", "oci://a.org/charts"));
        assert!(permission("WGET", "a.org").is_ok());
    }

    #[test]
    fn objects_are_compared_by_their_names() {
        let mut permissions = Permissions::new("map");
        permissions.add(permission("s3", "s3://bucket/my%20folder").unwrap());
        for (path, expected) in [
            ("my folder/a//b?c", true),
            ("my folder", true),
            ("my%20folder/a", false),
            ("my folder/../b", false),
            ("other/a", false),
        ] {
            let found = permissions.find(Kind::S3, &ContentAddress::new("s3", "bucket", path));
            assert_eq!(found.is_some(), expected, "{path}");
        }
    }

    #[test]
    fn entries_that_are_refused() {
        for (kind, url, words) in [
            ("file", "x", "needs no entry"),
            ("ftp", "x", "known are wget, gitHub, s3 and helm"),
            ("wget", "ftp://a.org", "must begin with https:// or http://"),
            ("wget", "s3://a.org", "must begin with https:// or http://"),
            ("s3", "oci://a.org", "must begin with s3://"),
            ("wget", "https://", "is not a URL"),
            ("wget", "https://u:p@a.org", "must not contain credentials"),
            ("wget", "https://a.org/?x=1", "must not have a query"),
        ] {
            let problem = permission(kind, url).unwrap_err();
            assert!(problem.contains(words), "{kind} {url}: {problem}");
        }
        let of_helm = Permission::read(|member| match member {
            "type" => Some("helm"),
            "url" => Some("a.org"),
            "apiHostname" => Some("b.org"),
            _ => None,
        });
        assert!(of_helm.unwrap_err().contains("only with the type gitHub"));
        assert!(Permission::read(|member| (member == "type").then_some("wget")).is_err());
    }
}
