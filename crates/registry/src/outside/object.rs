//! Access type `s3`: objects of S3 stores.

use groundwork_component::{Blob, Outside, RepositoryError, StoredObject};
use jiff::Timestamp;

use super::permissions::{self, ContentAddress, Kind, authority};
use super::signing::{self, Key, Request};
use super::{Fetcher, content};
use crate::oci::{Call, Consumer, Credentials, Keyring};
use crate::tree::malformed;

/// Region of a bucket that names none, as in the programs of AWS.
const REGION: &str = "us-east-1";

/// Host and path of an object, and its place among permissions.
#[derive(Debug, PartialEq, Eq)]
struct Location {
    scheme: String,
    host: String,
    /// Path of the request, encoded.
    path: String,
    place: ContentAddress,
    /// Host that credentials are for; empty for AWS.
    consumer: String,
}

pub(super) fn open(fetcher: &Fetcher, object: &StoredObject) -> Result<Blob, RepositoryError> {
    let address = Outside::Object(object.clone()).to_string();
    let location = locate(object).map_err(|problem| malformed(address.clone(), problem))?;
    let permission = fetcher.permission(Kind::S3, &location.place, &address)?;
    let keyring = fetcher.keyring(permission)?;
    let (key, source) = key_of(&keyring, &location, object);
    // An operator names the host of an endpoint, but not those of AWS.
    let named = (!location.consumer.is_empty()).then(|| location.host.clone());
    let origin = format!("{}://{}", location.scheme, location.host);
    let client = fetcher.client(permission, &origin, fetcher.reach(named))?;
    let query = match object.version.as_str() {
        "" => String::new(),
        version => format!("versionId={}", signing::encode(version, false)),
    };
    let time = Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string();
    let region = if object.region.is_empty() { REGION } else { &object.region };
    let request = Request {
        host: &location.host,
        path: &location.path,
        query: &query,
        headers: &[("accept", "*/*")],
        region,
        time: &time,
    };
    let headers =
        key.map_or_else(|| vec![("accept".to_owned(), "*/*".to_owned())], |key| request.signed(&key));
    let headers: Vec<_> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let mark = if query.is_empty() { "" } else { "?" };
    let url = format!("{origin}{}{mark}{query}", location.path);
    // A redirect is not followed: a signature is valid for one host.
    let response = client.attempt(Call::get(&url, &headers), None, &address)?;
    if (300..400).contains(&response.status().as_u16()) {
        let cause = format!(
            "it redirects, as for a bucket of another region than {region}: correct region in the access"
        );
        return Err(client.unreachable(&address, &cause));
    }
    content(&client, response, &address, source)
}

/// Returns the key for an object, and its source for messages.
fn key_of(keyring: &Keyring, location: &Location, object: &StoredObject) -> (Option<Key>, Option<String>) {
    let path = format!("{}/{}", object.bucket, object.key);
    let Some(found) = keyring.find_for(Consumer::S3, &location.consumer, &path) else { return (None, None) };
    let key = match found.credentials {
        Credentials::Key { id, secret, session } => {
            Some(Key { id: id.clone(), secret: secret.clone(), session: session.clone() })
        }
        _ => None,
    };
    (key, Some(found.source.to_owned()))
}

fn locate(object: &StoredObject) -> Result<Location, &'static str> {
    let StoredObject { bucket, key, region, endpoint, has_path_style, .. } = object;
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let is_name = |name: &str| {
        name.bytes().all(is_letter)
            && name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.ends_with(|last: char| last.is_ascii_alphanumeric())
            && !name.contains("..")
    };
    if !is_name(bucket) {
        return Err("its bucket does not have the name of a bucket");
    }
    if !region.is_empty() && !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err("its region does not have the name of a region");
    }
    // Proxies and other servers may take these parts for the folder above.
    if key.split('/').any(|part| part == "." || part == "..") {
        return Err("its key has the part . or .., which some servers read as a folder: rename the object");
    }
    let encoded = signing::encode(key, true);
    if endpoint.is_empty() {
        let region = if region.is_empty() { REGION } else { region };
        let end = if region.starts_with("cn-") { ".cn" } else { "" };
        let store = format!("s3.{region}.amazonaws.com{end}");
        // A wildcard certificate covers only one label in front of the store's host name.
        let (host, path) = if bucket.contains('.') || *has_path_style {
            (store, format!("/{bucket}/{encoded}"))
        } else {
            (format!("{bucket}.{store}"), format!("/{encoded}"))
        };
        let place = ContentAddress::new("s3", bucket, key);
        return Ok(Location { scheme: "https".to_owned(), host, path, place, consumer: String::new() });
    }
    let url = permissions::parse(Kind::S3, endpoint).map_err(|_| "its endpoint is not the URL of a store")?;
    let base = url.path().trim_matches('/');
    if url.scheme() == "s3" || url.query().is_some() || !base.is_empty() {
        return Err("its endpoint must be a host with https:// or http://, without a path");
    }
    let store = authority(&url);
    let (host, path) = if *has_path_style {
        (store.clone(), format!("/{bucket}/{encoded}"))
    } else {
        (format!("{bucket}.{store}"), format!("/{encoded}"))
    };
    let place = ContentAddress::new(url.scheme(), &store, &format!("{bucket}/{key}"));
    Ok(Location { scheme: url.scheme().to_owned(), host, path, place, consumer: store })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(bucket: &str, key: &str, region: &str, endpoint: &str, has_path_style: bool) -> StoredObject {
        StoredObject {
            bucket: bucket.into(),
            key: key.into(),
            version: String::new(),
            region: region.into(),
            endpoint: endpoint.into(),
            has_path_style,
            media_type: String::new(),
        }
    }

    #[test]
    fn locations() {
        for (object, expected) in [
            (object("b", "a/c d", "", "", false), "https://b.s3.us-east-1.amazonaws.com/a/c%20d"),
            (object("b", "x", "eu-west-1", "", true), "https://s3.eu-west-1.amazonaws.com/b/x"),
            (object("b.org", "x", "eu-west-1", "", false), "https://s3.eu-west-1.amazonaws.com/b.org/x"),
            (object("b", "x", "cn-north-1", "", false), "https://b.s3.cn-north-1.amazonaws.com.cn/x"),
            (object("b", "x//y", "", "https://s.org:9000/", true), "https://s.org:9000/b/x//y"),
            (object("b", "x?y#z", "", "http://s.org", false), "http://b.s.org/x%3Fy%23z"),
            (object("b", "x", "", "s.org", true), "https://s.org/b/x"),
        ] {
            let location = locate(&object).unwrap();
            let found = format!("{}://{}{}", location.scheme, location.host, location.path);
            assert_eq!(found, expected);
        }
        for (object, words) in [
            (object("a/b", "x", "", "", true), "name of a bucket"),
            (object("evil.org#", "x", "", "", false), "name of a bucket"),
            (object("b.", "x", "", "", false), "name of a bucket"),
            (object("", "x", "", "", false), "name of a bucket"),
            (object("b", "x", "evil.org/", "", false), "name of a region"),
            (object("b", "../c/x", "", "", true), "some servers read as a folder"),
            (object("b", "x", "", "ftp://s.org", true), "URL of a store"),
            (object("b", "x", "", "https://s.org/path", true), "without a path"),
            (object("b", "x", "", "https://u:p@s.org", true), "URL of a store"),
        ] {
            let problem = locate(&object).unwrap_err();
            assert!(problem.contains(words), "{object:?}: {problem}");
        }
    }
}
