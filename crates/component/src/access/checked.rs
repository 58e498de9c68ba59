//! Comparison of content with the digest that a resource records.

use std::io::{self, Read};

use data_encoding::HEXLOWER;
use groundwork_keys::{Hash, RunningHash};
use serde_json::Value;

use super::Access;
use crate::repository::{Blob, RepositoryError};

/// Reader that returns the end of its content only if the digest matches.
pub(super) struct Checked {
    inner: Box<dyn Read + Send>,
    hash: RunningHash,
    algorithm: &'static str,
    expected: String,
    address: String,
}

impl Checked {
    /// Wraps a blob if the record is a digest of raw bytes in a known algorithm.
    pub(super) fn wrap(blob: Blob, recorded: Option<&Value>, access: &Access) -> Blob {
        let text = |member: &str| recorded?.get(member)?.as_str();
        let known = match text("hashAlgorithm") {
            Some("SHA-256" | "sha256") => Some((Hash::Sha256, "sha256")),
            Some("SHA-512" | "sha512") => Some((Hash::Sha512, "sha512")),
            _ => None,
        };
        let (Some("genericBlobDigest/v1"), Some(value), Some((hash, algorithm))) =
            (text("normalisationAlgorithm"), text("value"), known)
        else {
            return blob;
        };
        let body = Self {
            inner: blob.body,
            hash: hash.begin(),
            algorithm,
            expected: value.to_ascii_lowercase(),
            address: access.to_string(),
        };
        Blob { body: Box::new(body), ..blob }
    }
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        let count = self.inner.read(buffer)?;
        if count > 0 {
            self.hash.update(buffer.get(..count).unwrap_or_default());
            return Ok(count);
        }
        // A caller may read again after the end or after an error, so the hash must stay.
        let actual = HEXLOWER.encode(&self.hash.clone().finish());
        if actual == self.expected {
            return Ok(0);
        }
        let named = |value: &str| format!("{}:{value}", self.algorithm);
        Err(RepositoryError::Digest {
            address: self.address.clone(),
            expected: named(&self.expected),
            actual: named(&actual),
        }
        .into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{ComponentVersion, Descriptor, Repository};

    /// Repository with one content for every access.
    struct Fixed;

    impl Repository for Fixed {
        fn descriptor(&self, _: &str, _: &str) -> Result<Option<Vec<u8>>, RepositoryError> {
            Ok(None)
        }

        fn content(&self, _: &str, _: &str, _: &Access) -> Result<Blob, RepositoryError> {
            Ok(Blob::from_bytes("", b"seven".to_vec()))
        }
    }

    fn read(access: &Value, digest: &Value) -> Result<Vec<u8>, String> {
        let mut resource = json!({"name": "data", "version": "1.0.0", "type": "text",
            "relation": "external", "access": access});
        if !digest.is_null() {
            resource["digest"] = digest.clone();
        }
        let document = json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": "example.org/shop", "version": "1.0.0", "provider": "p", "sources": [],
            "repositoryContexts": [], "componentReferences": [], "resources": [resource],
        }});
        let descriptor = Descriptor::parse(document.to_string().as_bytes()).unwrap();
        let version = ComponentVersion::new(descriptor, Some(Arc::new(Fixed)));
        let resource = version.descriptor.resource("data").unwrap();
        version.content(&resource).map(|content| content.bytes).map_err(|error| error.to_string())
    }

    /// Content that a server may change is compared with the recorded digest of its bytes.
    #[test]
    fn recorded_digests() {
        let wget = json!({"type": "wget", "url": "https://a.org/x"});
        let digest = |hash: &str, algorithm: &str, value: String| json!({"hashAlgorithm": hash, "normalisationAlgorithm": algorithm, "value": value});
        let hex = |hash: Hash, text: &[u8]| HEXLOWER.encode(&hash.of(text));
        let generic = "genericBlobDigest/v1";
        for right in [
            json!(null),
            digest("SHA-256", generic, hex(Hash::Sha256, b"seven")),
            digest("sha512", generic, hex(Hash::Sha512, b"seven").to_uppercase()),
            // Digests of other things than the bytes say nothing here.
            digest("SHA-256", "ociArtifactDigest/v1", hex(Hash::Sha256, b"eight")),
            digest("NO-DIGEST", "EXCLUDE-FROM-SIGNATURE", "NO-DIGEST".to_owned()),
        ] {
            assert_eq!(read(&wget, &right), Ok(b"seven".to_vec()), "{right}");
        }
        let wrong = digest("SHA-256", generic, hex(Hash::Sha256, b"eight"));
        let error = read(&wget, &wrong).unwrap_err();
        assert!(error.contains("digest mismatch for https://a.org/x: expected sha256:"), "{error}");
        let chart = json!({"type": "helm", "helmRepository": "oci://a.org/c", "helmChart": "web:1.0.0"});
        assert_eq!(read(&chart, &wrong), Ok(b"seven".to_vec()), "the digest is that of the manifest");
    }
}
