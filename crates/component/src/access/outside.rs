//! Accesses to content outside of component repositories (`components.md` 6.10).

use std::fmt;

use serde_json::{Map, Value, json};

use super::members::{AccessError, Members};

/// Header fields that a descriptor may not set, in lower case: they frame the request, name its
/// server, or are credentials.
const REFUSED_HEADERS: [&str; 14] = [
    "authorization",
    "connection",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "host",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
/// Limit in bytes for all header fields of a download together.
const LONGEST_HEADERS: usize = 16 << 10;
/// Digits of a commit.
const COMMIT: usize = 40;

/// Content outside of component repositories. An empty text stands for a member that is not given.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Outside {
    /// Type `wget`.
    Download(Download),
    /// Type `gitHub`.
    Commit(Commit),
    /// Type `s3`.
    Object(StoredObject),
    /// Type `helm`.
    Chart(Chart),
    /// Type `file`.
    File(StoredFile),
}

/// Answer of an HTTP server.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Download {
    pub url: String,
    /// Header fields of the request.
    pub headers: Vec<(String, String)>,
    pub follows_redirects: bool,
    pub media_type: String,
}

/// Files of a commit, as an archive of GitHub.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Commit {
    /// Address of the repository, with or without a scheme.
    pub repository: String,
    /// Commit in hex.
    pub commit: String,
    pub api_hostname: String,
}

/// Object of an S3 store.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoredObject {
    pub bucket: String,
    pub key: String,
    pub version: String,
    pub region: String,
    /// Address of a store other than that of AWS.
    pub endpoint: String,
    /// True if the bucket belongs into the path, false if it belongs into the host.
    pub has_path_style: bool,
    pub media_type: String,
}

/// Chart of a chart repository or a registry.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Chart {
    pub repository: String,
    pub name: String,
    pub version: String,
    /// Verified SHA-256 of the manifest of a chart in a registry, in hex.
    pub manifest: String,
}

/// File of the store of the component.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoredFile {
    pub uri: String,
    /// Digest in the form `sha256:<hex>`.
    pub digest: String,
    pub media_type: String,
}

impl Outside {
    /// Parses an access; `None` if its type is another one.
    pub(super) fn parse(type_name: &str, members: &Members<'_>) -> Result<Option<Self>, AccessError> {
        let (name, version) = match type_name.split_once('/') {
            Some((name, version)) => (name, Some(version)),
            None => (type_name, None),
        };
        let is_first = matches!(version, None | Some("v1"));
        Ok(Some(match name {
            "wget" | "Wget" if is_first => Self::Download(Download::parse(members)?),
            "gitHub" | "GitHub" | "github" if is_first => Self::Commit(Commit::parse(members)?),
            "s3" | "S3" | "s3Bucket" | "S3Bucket" if is_first || version == Some("v2") => {
                Self::Object(StoredObject::parse(members)?)
            }
            "helm" | "Helm" | "helmChartRepository" if is_first => Self::Chart(Chart::parse(members)?),
            "file" | "File" if matches!(version, None | Some("v1alpha1")) => Self::File(StoredFile {
                uri: members.text("uri")?,
                digest: members.or_empty("digest"),
                media_type: members.or_empty("mediaType"),
            }),
            _ => return Ok(None),
        }))
    }

    /// Returns the access in the form of a descriptor.
    pub(super) fn to_value(&self) -> Value {
        let given = |value: Value| match value {
            Value::Object(members) => Value::Object(members.into_iter().filter(is_given).collect()),
            other => other,
        };
        given(match self {
            Self::Download(Download { url, headers, follows_redirects, media_type }) => {
                let mut fields = Map::new();
                for (name, value) in headers {
                    let values = fields.entry(name.clone()).or_insert_with(|| json!([]));
                    values.as_array_mut().into_iter().for_each(|values| values.push(json!(value)));
                }
                json!({
                    "type": "wget", "url": url, "mediaType": media_type, "header": fields,
                    "noRedirect": !follows_redirects,
                })
            }
            Self::Commit(Commit { repository, commit, api_hostname }) => json!({
                "type": "gitHub", "repoUrl": repository, "commit": commit, "apiHostname": api_hostname,
            }),
            Self::Object(object) => json!({
                "type": "s3", "bucketName": object.bucket, "objectKey": object.key, "version": object.version,
                "region": object.region, "endpoint": object.endpoint, "usePathStyle": object.has_path_style,
                "mediaType": object.media_type,
            }),
            Self::Chart(Chart { repository, name, version, manifest: _ }) => json!({
                "type": "helm", "helmRepository": repository, "helmChart": name, "version": version,
            }),
            Self::File(StoredFile { uri, digest, media_type }) => {
                json!({"type": "file", "uri": uri, "digest": digest, "mediaType": media_type})
            }
        })
    }

    /// Returns the name of the access type.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Download(_) => "wget",
            Self::Commit(_) => "gitHub",
            Self::Object(_) => "s3",
            Self::Chart(_) => "helm",
            Self::File(_) => "file",
        }
    }

    /// Returns the declared media type; empty if there is none.
    pub fn media_type(&self) -> &str {
        match self {
            Self::Download(Download { media_type, .. })
            | Self::Object(StoredObject { media_type, .. })
            | Self::File(StoredFile { media_type, .. }) => media_type,
            Self::Commit(_) | Self::Chart(_) => "",
        }
    }
}

/// Reports whether a member has a value that means something else than its absence.
fn is_given((_, value): &(String, Value)) -> bool {
    match value {
        Value::String(text) => !text.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Bool(value) => *value,
        _ => true,
    }
}

impl Download {
    fn parse(members: &Members<'_>) -> Result<Self, AccessError> {
        let verb = members.optional("verb").unwrap_or("GET");
        if !verb.eq_ignore_ascii_case("GET") || members.optional("body").is_some() {
            return Err(unusable(format!(
                "a wget access with the verb {verb:?} or with a body is not supported: content is fetched by GET; put \
                 it into the component, or give it an address of its own"
            )));
        }
        Ok(Self {
            url: members.text("url")?,
            headers: headers(members.value("header"))?,
            follows_redirects: !members.is_true("noRedirect"),
            media_type: members.or_empty("mediaType"),
        })
    }
}

/// Parses a map from names to lists of values.
fn headers(written: Option<&Value>) -> Result<Vec<(String, String)>, AccessError> {
    let wrong = || unusable("header of a wget access must be a map from names to lists of texts".to_owned());
    let Some(written) = written else { return Ok(Vec::new()) };
    let mut headers = Vec::new();
    for (name, values) in written.as_object().ok_or_else(wrong)? {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_letter) {
            return Err(unusable(format!("{name:?} is not the name of a header field")));
        }
        if REFUSED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(unusable(format!(
                "the header field {name:?} of a wget access is not sent: leave it out, and put credentials into a \
                 consumer of type Wget"
            )));
        }
        for value in values.as_array().ok_or_else(wrong)? {
            let value = value.as_str().ok_or_else(wrong)?;
            if !value.bytes().all(|byte| (b' '..=b'~').contains(&byte)) {
                return Err(unusable(format!("the header field {name:?} has characters other than ASCII")));
            }
            headers.push((name.clone(), value.to_owned()));
        }
    }
    if headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>() > LONGEST_HEADERS {
        return Err(unusable(format!("header has more than {LONGEST_HEADERS} bytes")));
    }
    Ok(headers)
}

impl Commit {
    fn parse(members: &Members<'_>) -> Result<Self, AccessError> {
        let commit = members.text("commit")?;
        if commit.len() != COMMIT || !commit.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(unusable(format!("commit must be the {COMMIT} hex digits of a commit")));
        }
        Ok(Self {
            repository: members.text("repoUrl")?,
            commit: commit.to_ascii_lowercase(),
            api_hostname: members.or_empty("apiHostname"),
        })
    }
}

impl StoredObject {
    fn parse(members: &Members<'_>) -> Result<Self, AccessError> {
        let either = |new, old| members.text(new).or_else(|error| members.text(old).map_err(|_| error));
        Ok(Self {
            bucket: either("bucketName", "bucket")?,
            key: either("objectKey", "key")?,
            version: members.or_empty("version"),
            region: members.or_empty("region"),
            endpoint: members.or_empty("endpoint"),
            has_path_style: members.is_true("usePathStyle"),
            media_type: members.or_empty("mediaType"),
        })
    }
}

impl Chart {
    fn parse(members: &Members<'_>) -> Result<Self, AccessError> {
        let chart = members.or_empty("helmChart");
        let (name, tag) = chart.rsplit_once(':').unwrap_or((&chart, ""));
        let version = members.optional("version").unwrap_or(tag);
        let repository = members.or_empty("helmRepository");
        if name.is_empty() || version.is_empty() || repository.is_empty() {
            return Err(unusable(
                "it needs helmRepository and helmChart, with a version such as web:1.0.0".to_owned(),
            ));
        }
        let (name, version) = (name.to_owned(), version.to_owned());
        Ok(Self { repository, name, version, manifest: String::new() })
    }

    /// Reports whether the chart is in a registry.
    pub fn is_in_registry(&self) -> bool {
        self.repository.starts_with("oci://")
    }
}

fn unusable(problem: String) -> AccessError {
    AccessError::Unusable { problem }
}

impl fmt::Display for Outside {
    /// Shows the place without query and user, which may be credentials.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Download(Download { url, .. }) => f.write_str(&shown(url)),
            Self::Commit(Commit { repository, commit, .. }) => write!(f, "{}@{commit}", shown(repository)),
            Self::Object(StoredObject { endpoint, bucket, key, .. }) if endpoint.is_empty() => {
                write!(f, "s3://{bucket}/{key}")
            }
            Self::Object(StoredObject { endpoint, bucket, key, .. }) => {
                write!(f, "{}/{bucket}/{key}", shown(endpoint).trim_end_matches('/'))
            }
            Self::Chart(Chart { repository, name, version, .. }) => {
                write!(f, "{}/{name}:{version}", shown(repository).trim_end_matches('/'))
            }
            Self::File(StoredFile { uri, .. }) => write!(f, "file {uri}"),
        }
    }
}

/// Returns an address for messages, without its query and user, which may have credentials.
pub fn shown(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or(url);
    let begin = plain.find("://").map_or(0, |found| found + "://".len());
    let (scheme, rest) = plain.split_at(begin);
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    format!("{scheme}{host}{path}")
}

#[cfg(test)]
mod tests {
    use super::super::Access;
    use super::*;

    const SHA: &str = "0123456789abcdef0123456789ABCDEF01234567";

    /// Each spelling of a type means the same access, which survives the way through a message.
    #[test]
    fn spellings() {
        let types = [
            (
                &["wget", "Wget", "wget/v1", "Wget/v1"][..],
                json!({"URL": "https://a.org/x?t=1"}),
                "https://a.org/x",
            ),
            (
                &["gitHub", "GitHub", "github", "gitHub/v1", "GitHub/v1", "github/v1"],
                json!({"repoUrl": "github.com/a/b", "commit": SHA, "ref": "refs/heads/main"}),
                "github.com/a/b@0123456789abcdef0123456789abcdef01234567",
            ),
            (
                &["s3", "S3", "s3/v1", "S3/v1"],
                json!({"bucket": "b", "key": "a//c", "region": "eu-west-1", "version": "7"}),
                "s3://b/a//c",
            ),
            (
                &["s3/v2", "S3/v2", "s3Bucket", "S3Bucket/v1", "s3Bucket/v1"],
                json!({"bucketName": "b", "objectKey": "c", "endpoint": "https://s.org/", "usePathStyle": true}),
                "https://s.org/b/c",
            ),
            (
                &["helm", "Helm", "helm/v1", "Helm/v1", "helmChartRepository"],
                json!({"helmRepository": "https://u:p@c.org/charts", "helmChart": "web:1.0.0"}),
                "https://c.org/charts/web:1.0.0",
            ),
            (
                &["file", "File", "file/v1alpha1", "File/v1alpha1"],
                json!({"uri": "data.txt", "mediaType": "text/plain"}),
                "file data.txt",
            ),
        ];
        for (names, members, shown) in types {
            let mut parsed = Vec::new();
            for name in names {
                let mut written = members.clone();
                written["type"] = json!(name);
                let access = Access::parse(&written).unwrap();
                assert_eq!(Access::parse(&access.to_value()).as_ref(), Ok(&access), "{written}");
                assert_eq!(access.to_string(), shown);
                assert!(!access.is_artifact() && access.registry().is_some());
                parsed.push(access);
            }
            assert!(parsed.iter().all(|access| *access == parsed[0]), "{names:?}");
        }
        for name in ["wget/v2", "gitHub/v2", "s3/v3", "helm/v2", "file/v1", "wget/"] {
            let error = Access::parse(&json!({"type": name})).unwrap_err();
            assert_eq!(error.to_string(), format!("access method {name:?} not supported"));
        }
    }

    #[test]
    fn members_of_downloads() {
        let access = Access::parse(&json!({
            "type": "wget", "url": "https://a.org/x", "verb": "get", "mediaType": "text/plain", "noRedirect": true,
            "header": {"Accept": ["text/plain", "*/*"], "X-Team": ["a"]},
        }))
        .unwrap();
        let Access::Outside(Outside::Download(download)) = &access else { panic!("{access:?}") };
        assert_eq!((download.headers.len(), download.follows_redirects), (3, false));
        assert_eq!(
            (access.media_type(), Access::parse(&access.to_value())),
            ("text/plain", Ok(access.clone()))
        );
    }

    #[test]
    fn refused_members() {
        let wget =
            |member: &str, value: Value| json!({"type": "wget", "url": "https://a.org", member: value});
        for (written, words) in [
            (wget("verb", json!("POST")), "content is fetched by GET"),
            (wget("body", json!("YQ==")), "content is fetched by GET"),
            (
                wget("header", json!({"authorization": ["secret"]})),
                "credentials into a consumer of type Wget",
            ),
            (wget("header", json!({"Host": ["b.org"]})), "is not sent"),
            (wget("header", json!({"a b": ["c"]})), "is not the name of a header field"),
            (wget("header", json!({"a": ["b\r\nHost: c"]})), "other than ASCII"),
            (wget("header", json!({"a": "b"})), "must be a map"),
            (wget("header", json!({"a": ["b".repeat(20_000)]})), "more than 16384 bytes"),
            (json!({"type": "wget"}), "url is missing"),
            (json!({"type": "gitHub", "repoUrl": "github.com/a/b", "ref": "main"}), "commit is missing"),
            (json!({"type": "gitHub", "repoUrl": "github.com/a/b", "commit": "main"}), "40 hex digits"),
            (json!({"type": "gitHub", "commit": SHA}), "repoUrl is missing"),
            (json!({"type": "s3", "bucket": "b"}), "objectKey is missing"),
            (json!({"type": "s3/v2", "objectKey": "b"}), "bucketName is missing"),
            (
                json!({"type": "helm", "helmRepository": "https://a.org", "helmChart": "web"}),
                "needs helmRepository",
            ),
            (json!({"type": "helm", "helmChart": "web:1"}), "needs helmRepository"),
            (json!({"type": "file"}), "uri is missing"),
        ] {
            let error = Access::parse(&written).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("secret"), "{written}: {error}");
        }
    }
}
