//! Access type `wget`: answers of HTTP servers.

use groundwork_component::{Blob, Download, RepositoryError, shown};

use super::permissions::{self, ContentAddress, Kind, authority};
use super::{Authority, Fetcher, content};
use crate::oci::{Call, Consumer};
use crate::tree::malformed;

/// Media type of content for which neither the access nor the server gives one.
const UNKNOWN: &str = "application/octet-stream";

pub(super) fn open(fetcher: &Fetcher, download: &Download) -> Result<Blob, RepositoryError> {
    let address = shown(&download.url);
    let mut url = permissions::parse(Kind::Wget, &download.url)
        .map_err(|problem| malformed(address.clone(), &format!("url cannot be used: {problem}")))?;
    url.set_fragment(None);
    let permission = fetcher.permission(Kind::Wget, &ContentAddress::of_url(&url), &address)?;
    let host = authority(&url);
    let found = Authority::find(&*fetcher.keyring(permission)?, Consumer::Wget, &host, url.path());
    let reach = fetcher.reach(Some(host.clone()));
    let client = fetcher.client(permission, &format!("{}://{host}", url.scheme()), reach)?;
    let accepts = download.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let own = download.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let headers: Vec<_> = own.chain((!accepts).then_some(("accept", "*/*"))).collect();
    let call = Call::get(url.as_str(), &headers);
    let response = if download.follows_redirects {
        client.follow(call, found.header.as_deref(), &address)?
    } else {
        client.attempt(call, found.header.as_deref(), &address)?
    };
    let mut blob = content(&client, response, &address, found.source)?;
    if blob.media_type.is_empty() {
        UNKNOWN.clone_into(&mut blob.media_type);
    }
    Ok(blob)
}
