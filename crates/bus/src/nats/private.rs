//! Names of queues that only those can find who have the same login.
//!
//! Permissions of NATS name a queue by its whole name, so a queue whose kind nobody knows beforehand cannot be kept from the other
//! users by permissions. It is kept from them by its name: a part of it follows from the password of its user, and no user but
//! the watcher may list the names.

use std::fmt;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// What the key is derived for, so that the same password gives other bytes elsewhere.
const PURPOSE: &[u8] = b"groundwork: names of private queues";

/// What names of private queues follow from.
#[derive(Clone)]
pub(super) struct NameKey(Box<[u8]>);

impl fmt::Debug for NameKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NameKey")
    }
}

impl NameKey {
    pub(super) fn new(password: &str) -> Option<Self> {
        Some(Self(digest(password.as_bytes(), PURPOSE)?))
    }

    /// The name that a queue of this name has. All replicas of a service find the same.
    pub(super) fn private(&self, name: &str) -> Option<String> {
        let digest = digest(&self.0, name.as_bytes())?;
        Some(format!("{name}-{}", HEXLOWER.encode(digest.get(..16)?)))
    }
}

/// Always something: HMAC takes keys of any length.
fn digest(key: &[u8], message: &[u8]) -> Option<Box<[u8]>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(message);
    Some(mac.finalize().into_bytes().as_slice().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_from_the_password() {
        let name = |password: &str, of: &str| NameKey::new(password).unwrap().private(of).unwrap();
        let own = name("secret", "variant-things-x");
        assert!(own.starts_with("variant-things-x-") && own.len() == "variant-things-x-".len() + 32, "{own}");
        assert_eq!(own, name("secret", "variant-things-x"), "replicas find the same");
        assert_ne!(own, name("other", "variant-things-x"));
        assert_ne!(own[17..], name("secret", "variant-things-y")[17..]);
        assert!(!own.contains("secret"));
    }
}
