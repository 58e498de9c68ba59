//! Access type `gitHub`: the files of a commit, as the archive that GitHub makes of it.

use std::io::{Cursor, Read as _};

use flate2::read::GzDecoder;
use groundwork_component::{Blob, Commit, RepositoryError, shown};

use super::permissions::{self, ContentAddress, Kind, Permission, authority};
use super::{Authority, Fetcher, content};
use crate::oci::{Call, Consumer};
use crate::tree::malformed;

const MEDIA_TYPE: &str = "application/x-tgz";
const GITHUB: &str = "github.com";
/// Bytes of an archive in which its commit must be.
const HEAD: u64 = 16 << 10;
/// Bytes of the unpacked head of an archive.
const LARGEST_HEAD: u64 = 256 << 10;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const COMMENT: &str = "comment";

pub(super) fn open(fetcher: &Fetcher, commit: &Commit) -> Result<Blob, RepositoryError> {
    let address = format!("{}@{}", shown(&commit.repository), commit.commit);
    let wrong = |problem: &str| malformed(address.clone(), problem);
    let url = permissions::parse(Kind::GitHub, &commit.repository)
        .map_err(|problem| wrong(&format!("repoUrl cannot be used: {problem}")))?;
    let (owner, name) = names(url.path())
        .ok_or_else(|| wrong("repoUrl must name a repository, such as https://github.com/OWNER/NAME"))?;
    let (host, path) = (authority(&url), format!("{owner}/{name}"));
    let place = ContentAddress::new(url.scheme(), &host, &path);
    let permission = fetcher.permission(Kind::GitHub, &place, &address)?;
    let api = api_host(permission, &host, &commit.api_hostname).ok_or_else(|| {
        wrong(&format!(
            "apiHostname {:?} differs from the host of the repository; permit it with apiHostname in the entry for \
             gitHub in the list accesses of the repository map",
            commit.api_hostname
        ))
    })?;
    let found = Authority::find(&*fetcher.keyring(permission)?, Consumer::GitHub, &host, &path);
    let is_named = api == host || permission.api_hostname.as_deref() == Some(api.as_str());
    let reach = fetcher.reach(is_named.then(|| api.clone()));
    let origin = format!("{}://{api}", url.scheme());
    let client = fetcher.client(permission, &origin, reach)?;
    // Enterprise servers have the API below a path, unless it has a host of its own.
    let below = if api.starts_with("api.") || api.contains(".api.") { "" } else { "/api/v3" };
    let archive = format!("{origin}{below}/repos/{path}/tarball/{}", commit.commit);
    let call = Call::get(&archive, &[("accept", "application/vnd.github+json")]);
    let response = client.follow(call, found.header.as_deref(), &address)?;
    let blob = checked(content(&client, response, &address, found.source)?, &commit.commit, &address)?;
    Ok(Blob { media_type: MEDIA_TYPE.to_owned(), ..blob })
}

/// Returns owner and name of a repository from the path of its address.
fn names(path: &str) -> Option<(&str, &str)> {
    let (owner, name) = path.trim_matches('/').split_once('/')?;
    let name = name.strip_suffix(".git").unwrap_or(name);
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name =
        |name: &str| name.bytes().all(is_letter) && name.bytes().any(|byte| byte.is_ascii_alphanumeric());
    (is_name(owner) && is_name(name)).then_some((owner, name))
}

/// Returns the host of the API; `None` if an access names one that its entry does not permit.
fn api_host(permission: &Permission, host: &str, written: &str) -> Option<String> {
    let own = || permission.api_hostname.clone();
    let usual = || if host == GITHUB { format!("api.{host}") } else { host.to_owned() };
    if written.is_empty() {
        return Some(own().unwrap_or_else(usual));
    }
    let is_permitted =
        written == host || written.strip_prefix("api.") == Some(host) || own().as_deref() == Some(written);
    is_permitted.then(|| written.to_owned())
}

/// Compares the commit that git writes at the beginning of an archive. An archive without one is
/// accepted, since not every server keeps it.
fn checked(blob: Blob, commit: &str, address: &str) -> Result<Blob, RepositoryError> {
    let mut body = blob.body;
    let mut head = Vec::new();
    body.by_ref()
        .take(HEAD)
        .read_to_end(&mut head)
        .map_err(|error| RepositoryError::of_read(&error, address))?;
    if !head.starts_with(&GZIP) {
        return Err(malformed(address.to_owned(), "the server answers without a compressed archive"));
    }
    if let Some(found) = commit_of(&head)
        && !found.eq_ignore_ascii_case(commit)
    {
        let (expected, actual) = (commit.to_owned(), found);
        return Err(RepositoryError::Digest { address: address.to_owned(), expected, actual });
    }
    Ok(Blob { body: Box::new(Cursor::new(head).chain(body)), ..blob })
}

/// Returns the commit in the first entry of an archive, a comment for the whole archive.
fn commit_of(head: &[u8]) -> Option<String> {
    let mut archive = tar::Archive::new(GzDecoder::new(head).take(LARGEST_HEAD));
    let mut first = archive.entries().ok()?.raw(true).next()?.ok()?;
    if !first.header().entry_type().is_pax_global_extensions() {
        return None;
    }
    let comment = first.pax_extensions().ok()??.flatten().find(|member| member.key() == Ok(COMMENT));
    let commit = comment?.value().ok()?.trim().to_owned();
    let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_commit.then_some(commit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_repositories() {
        for (path, expected) in [
            ("/open/ocm", Some(("open", "ocm"))),
            ("/open/ocm.git/", Some(("open", "ocm"))),
            ("/open", None),
            ("/open/ocm/tree", None),
            ("/open/..", None),
            ("/../ocm", None),
            ("/open/o%2fcm", None),
            ("/", None),
        ] {
            assert_eq!(names(path), expected, "{path}");
        }
    }

    /// A descriptor cannot send the token for a repository to another host.
    #[test]
    fn hosts_of_the_api() {
        let permission = |api: Option<&'static str>| {
            Permission::read(move |member| match member {
                "type" => Some("gitHub"),
                "url" => Some("https://git.example.org"),
                "apiHostname" => api,
                _ => None,
            })
            .unwrap()
        };
        let other = Some("rest.example.org");
        for (api, host, written, expected) in [
            (None, "github.com", "", Some("api.github.com")),
            (None, "git.example.org", "", Some("git.example.org")),
            (None, "git.example.org:8443", "git.example.org:8443", Some("git.example.org:8443")),
            (None, "git.example.org", "api.git.example.org", Some("api.git.example.org")),
            (None, "git.example.org", "evil.example.org", None),
            (None, "git.example.org", "evil.org/git.example.org", None),
            (other, "git.example.org", "", other),
            (other, "git.example.org", "rest.example.org", other),
            (other, "git.example.org", "evil.example.org", None),
        ] {
            assert_eq!(api_host(&permission(api), host, written).as_deref(), expected, "{host} {written}");
        }
    }
}
