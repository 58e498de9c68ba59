//! Parsing of remote addresses, and the check that a remote is at a public address
//! (`packagevariants.md` 6.17).

use std::net::{IpAddr, ToSocketAddrs as _};

use groundwork_untrusted::is_public;

/// Returns the protocol of a git address.
pub(crate) fn protocol(url: &str) -> &str {
    match url.split_once("://") {
        Some((protocol, _)) => protocol,
        // `host:path` means ssh. `helper::address` starts a helper program.
        None if url.contains("::") => "ext",
        None if url.split_once(':').is_some_and(|(host, _)| !host.contains('/')) => "ssh",
        None => "file",
    }
}

/// Returns the server for messages: the host with its port, without user name and password.
pub(crate) fn host(url: &str) -> &str {
    let rest = url.split_once("://").map(|(_, rest)| rest);
    let authority = match rest {
        Some(rest) => rest.split('/').next().unwrap_or_default(),
        None if protocol(url) == "ssh" => url.split(':').next().unwrap_or_default(),
        None => return url,
    };
    authority.rsplit_once('@').map_or(authority, |(_, host)| host)
}

/// Refuses an address that can never be valid. The error does not quote the address, since that may
/// contain a password.
///
/// # Errors
/// The fault of the address, as a fragment for a sentence.
pub(crate) fn check(url: &str) -> Result<(), String> {
    if url.trim().is_empty() {
        return Err("is empty: write the address of a git repository".to_owned());
    }
    if url.contains(|c: char| c.is_control() || c.is_whitespace()) {
        return Err("contains blanks or control characters".to_owned());
    }
    let protocol = protocol(url);
    if !matches!(protocol, "https" | "http" | "ssh" | "git") {
        // The operator's list of protocols decides about all other protocols.
        return Ok(());
    }
    let authority = authority(url).unwrap_or_default();
    let (user, _) = authority.rsplit_once('@').unwrap_or_default();
    if !user.is_empty() && (protocol != "ssh" || user.contains(':')) {
        return Err(
            "contains a user name or password, which every reader of the Repository sees: put them into the Secret of \
             spec.git.secretRef"
                .to_owned(),
        );
    }
    // An IPv6 address without a protocol can only be an ssh address.
    let is_bracketed = !url.contains("://") && authority.contains('[');
    match parts(url, 0) {
        Some(_) => Ok(()),
        None if is_bracketed => Ok(()),
        None => Err("has no valid host: write a name in ASCII letters, or an IP address".to_owned()),
    }
}

/// Returns the part of an address with the host.
fn authority(url: &str) -> Option<&str> {
    match url.split_once("://") {
        Some((_, rest)) => rest.split('/').next(),
        None => url.split(':').next(),
    }
}

/// Reason why a remote is not contacted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "{0}: the host of this address is not certain, so the address is not allowed where only public hosts are"
    )]
    Unclear(String),
    #[error("{0}: this protocol is not allowed where only public hosts are: use https, http or ssh")]
    Protocol(String),
    #[error("{0} has an address in a private network, which this service does not contact")]
    Private(String),
    #[error("{host} cannot be found: {problem}")]
    NotFound { host: String, problem: String },
}

/// Setting that makes `git` connect to the IP address that was checked, because a second DNS lookup
/// may return another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pin {
    /// Path on the disk; the operator allows these by the protocol `file`.
    Disk,
    /// Value of the setting `http.curloptResolve`; `None` if the host is an IP address.
    Http(Option<String>),
    /// IP address for the connection, and the host name under which ssh keeps its keys.
    Ssh { address: IpAddr, alias: String },
}

/// Resolves the host of a remote, and refuses addresses that are not public. Blocks the thread
/// during the DNS lookup.
pub(crate) fn public(url: &str) -> Result<Pin, AddressError> {
    let default_port = match protocol(url) {
        "https" => 443,
        "http" => 80,
        "ssh" => 22,
        "file" => return Ok(Pin::Disk),
        _ => return Err(AddressError::Protocol(url.to_owned())),
    };
    let unclear = || AddressError::Unclear(host(url).to_owned());
    let (name, port) = parts(url, default_port).ok_or_else(unclear)?;
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let found = (bare, port).to_socket_addrs();
    let not_found = |problem: String| AddressError::NotFound { host: name.to_owned(), problem };
    let found: Vec<IpAddr> =
        found.map_err(|error| not_found(error.to_string()))?.map(|address| address.ip()).collect();
    let Some(first) = found.first().copied() else { return Err(not_found("it has no address".to_owned())) };
    if !found.iter().all(|address| is_public(*address)) {
        return Err(AddressError::Private(name.to_owned()));
    }
    if protocol(url) == "ssh" {
        let alias = if port == 22 { bare.to_owned() } else { format!("[{bare}]:{port}") };
        return Ok(Pin::Ssh { address: first, alias });
    }
    if bare.parse::<IpAddr>().is_ok() {
        return Ok(Pin::Http(None));
    }
    let shown = found.iter().map(|address| match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    });
    Ok(Pin::Http(Some(format!("{name}:{port}:{}", shown.collect::<Vec<_>>().join(",")))))
}

/// Returns host and port, if all programs parse the address in the same way. Characters that some
/// parsers take for the end of the host are refused.
fn parts(url: &str, default_port: u16) -> Option<(&str, u16)> {
    let is_scp = !url.contains("://");
    let (user, host) = authority(url)?.rsplit_once('@').unwrap_or(("", authority(url)?));
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-._~+:".contains(c);
    if !user.chars().all(is_plain) {
        return None;
    }
    let (name, port) = if is_scp {
        (host, default_port)
    } else if let Some(rest) = host.strip_prefix('[') {
        let (inner, rest) = rest.split_once(']')?;
        inner.parse::<std::net::Ipv6Addr>().ok()?;
        let name = host.get(..inner.len() + 2)?;
        (
            name,
            rest.strip_prefix(':')
                .map_or_else(|| rest.is_empty().then_some(default_port), |port| port.parse().ok())?,
        )
    } else {
        match host.split_once(':') {
            Some((name, port)) => (name, port.parse().ok()?),
            None => (host, default_port),
        }
    };
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let is_clear = name.starts_with('[')
        || !name.is_empty()
            && name.chars().all(is_name)
            && !name.ends_with('.')
            && !name.starts_with(['-', '.']);
    is_clear.then_some((name, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_and_hosts_of_addresses() {
        for (url, expected, whom) in [
            ("https://git.example/a.git", "https", "git.example"),
            ("https://pat:secret@git.example:8443/a.git", "https", "git.example:8443"),
            ("ssh://git@host/a", "ssh", "host"),
            ("git@host:a/b.git", "ssh", "host"),
            ("/srv/a.git", "file", "/srv/a.git"),
            ("file:///srv/a.git", "file", ""),
            ("ext::sh -c id", "ext", "ext::sh -c id"),
            ("./a:b", "file", "./a:b"),
        ] {
            assert_eq!((protocol(url), host(url)), (expected, whom), "{url}");
        }
    }

    #[test]
    fn addresses_that_can_never_be_right() {
        for url in [
            "",
            "  ",
            "https://git.example/a b",
            "https://git.example/a\n",
            "https://me:canary@git.example/a.git",
            "https://canary@git.example/a.git",
            "http://:canary@git.example/a.git",
            "ssh://git:canary@git.example/a.git",
            "https:///a.git",
            "https://",
            "https://git.ex%ff.org/a.git",
            "https://g\u{ef}t.example/a.git",
            "https://git.example:port/a.git",
            "https://git.example:99999/a.git",
            "https://[::1/a.git",
            "ssh://-oProxyCommand=x/a",
            "https://git.example?x/a",
        ] {
            let problem = check(url).unwrap_err();
            assert!(!problem.contains("canary"), "{url:?}: {problem}");
        }
        for url in [
            "https://git.example/a.git",
            "https://git.example:8443/a.git",
            "http://127.0.0.1:3000/a.git",
            "http://[::1]:3000/a.git",
            "http://git_server/a.git",
            "ssh://git@git.example:2222/a.git",
            "git@git.example:a/b.git",
            "git.example:a.git",
            "git@[::1]:a.git",
            "/srv/a.git",
            "file:///srv/a.git",
        ] {
            assert_eq!(check(url), Ok(()), "{url}");
        }
    }

    /// Addresses of this machine in all notations, and addresses that two parsers may read
    /// differently, are refused.
    #[test]
    fn only_public_places() {
        for url in [
            "http://127.0.0.1/a",
            "https://localhost:3000/a",
            "http://[::1]:80/a",
            "http://[::ffff:127.0.0.1]/a",
            "http://2130706433/a",
            "http://0x7f.1/a",
            "http://127.1/a",
            "http://0/a",
            "http://169.254.169.254/latest",
            "http://10.0.0.1/a",
            "ssh://git@127.0.0.1:2222/a",
            "git@localhost:a",
        ] {
            assert!(matches!(public(url), Err(AddressError::Private(_))), "{url}: {:?}", public(url));
        }
        for url in [
            "http://8.8.8.8\\@127.0.0.1/a",
            "http://127.0.0.1#@8.8.8.8/a",
            "http://127.0.0.1?@8.8.8.8/a",
            "http://a@127.0.0.1@8.8.8.8/a",
            "http://127.0.0.1%2f@8.8.8.8/a",
            "http://8.8.8.8:80:80/a",
            "http://8.8.8.8%00/a",
            "http://[::1%25lo]/a",
            "http://localhost./a",
            "http:///a",
            "http://\u{ff11}27.0.0.1/a",
            "ssh://-oProxyCommand=x/a",
        ] {
            assert!(matches!(public(url), Err(AddressError::Unclear(_))), "{url}: {:?}", public(url));
        }
        assert!(matches!(public("git://8.8.8.8/a"), Err(AddressError::Protocol(_))));
        assert_eq!(public("/srv/a.git"), Ok(Pin::Disk));
        assert_eq!(public("https://8.8.8.8/a"), Ok(Pin::Http(None)));
        assert_eq!(
            public("ssh://git@8.8.8.8:2222/a"),
            Ok(Pin::Ssh { address: "8.8.8.8".parse().unwrap(), alias: "[8.8.8.8]:2222".into() })
        );
    }
}
