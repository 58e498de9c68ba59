//! Argument that names a namespace.

use groundwork_api::kubernetes::is_dns_label;

/// Parses a namespace, which has to be a DNS label.
pub(crate) fn namespace(text: &str) -> Result<String, &'static str> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err(
            "a namespace consists of at most 63 characters (a-z, 0-9 and dashes) and starts and ends with a letter or \
             digit",
        )
    }
}
