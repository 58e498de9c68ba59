//! Checks names of objects, namespaces and API groups.

/// Maximum bytes of a DNS label.
pub(crate) const LONGEST_LABEL: usize = 63;
/// Maximum bytes of a DNS subdomain.
pub(crate) const LONGEST_SUBDOMAIN: usize = 253;

/// Reports whether a text is a DNS label (RFC 1123), as names of namespaces are.
pub fn is_dns_label(text: &str) -> bool {
    text.len() <= LONGEST_LABEL && looks_like_dns_label(text)
}

/// Reports whether a text is a DNS subdomain (RFC 1123), as names of most objects and of API groups
/// are. Only such a text may become part of the path of a request.
pub fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= LONGEST_SUBDOMAIN && looks_like_dns_subdomain(text)
}

/// Does the check of [`is_dns_label`] without the limit on the length.
pub fn looks_like_dns_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Does the check of [`is_dns_subdomain`] without the limit on the length. A label between its dots
/// may be longer than 63 bytes.
pub fn looks_like_dns_subdomain(text: &str) -> bool {
    text.split('.').all(looks_like_dns_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_subdomains() {
        let long = "x".repeat(64);
        for (text, is_label, is_subdomain) in [
            ("a", true, true),
            ("0-9", true, true),
            ("a.b-c.7", false, true),
            (&long[..63], true, true),
            (&long, false, true),
            (&"x".repeat(254), false, false),
            ("", false, false),
            ("-a", false, false),
            ("a-", false, false),
            ("a..b", false, false),
            (".a", false, false),
            ("a.-b", false, false),
            ("A", false, false),
            ("a_b", false, false),
            ("ä", false, false),
            ("../a", false, false),
            ("a?dryRun=All", false, false),
        ] {
            assert_eq!(is_dns_label(text), is_label, "{text}");
            assert_eq!(is_dns_subdomain(text), is_subdomain, "{text}");
        }
    }
}
