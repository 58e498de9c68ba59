//! Two encodings of the deploy items of an Execution (`installations.md` 1.2).

use std::borrow::Cow;
use std::io::{Read, Write};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use k8s_openapi::ByteString;

use crate::execution::{DeployItemTemplate, ExecutionSpec};
use crate::json::List;

/// Maximum bytes of a list in plain form. Longer lists are compressed, so that users can read short
/// ones and etcd accepts long ones.
const PLAIN_LIMIT: usize = 256 * 1024;
/// Maximum bytes of an inflated list. A list that fits into an object of a cluster is never longer,
/// so a longer one is an attempt to exhaust the memory.
const INFLATED_LIMIT: u64 = 64 * 1024 * 1024;

/// Reason that the deploy items of an Execution cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeployItemsError {
    /// The data is not gzip, or is truncated.
    #[error("spec.deployItemsCompressed cannot be decompressed: {0}")]
    Gzip(String),
    /// The inflated list is over the limit.
    #[error("spec.deployItemsCompressed is longer than {INFLATED_LIMIT} bytes when decompressed")]
    TooLong,
    /// The content is not a list of deploy item templates.
    #[error("spec.deployItemsCompressed does not contain a list of deploy items: {0}")]
    Content(String),
}

impl ExecutionSpec {
    /// Returns the deploy items in either encoding; the compressed list wins if both are set.
    ///
    /// # Errors
    /// The compressed list cannot be read.
    pub fn templates(&self) -> Result<Cow<'_, [DeployItemTemplate]>, DeployItemsError> {
        match &self.deploy_items_compressed {
            Some(ByteString(compressed)) if !compressed.is_empty() => inflate(compressed).map(Cow::Owned),
            _ => Ok(Cow::Borrowed(&self.deploy_items)),
        }
    }

    /// Replaces the deploy items, in the encoding that fits their length.
    ///
    /// # Errors
    /// The list cannot be written as JSON.
    pub fn set_templates(&mut self, templates: Vec<DeployItemTemplate>) -> Result<(), DeployItemsError> {
        let json =
            serde_json::to_vec(&templates).map_err(|error| DeployItemsError::Content(error.to_string()))?;
        if json.len() <= PLAIN_LIMIT {
            self.deploy_items = templates.into();
            self.deploy_items_compressed = None;
        } else {
            let compressed = deflate(&json).map_err(|error| DeployItemsError::Gzip(error.to_string()))?;
            self.deploy_items = List::absent();
            self.deploy_items_compressed = Some(ByteString(compressed));
        }
        Ok(())
    }
}

/// Compresses the list. The same input gives the same output, since the header of the stream has no
/// time.
fn deflate(json: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(json)?;
    encoder.finish()
}

fn inflate(compressed: &[u8]) -> Result<Vec<DeployItemTemplate>, DeployItemsError> {
    let mut json = Vec::new();
    let mut limited = GzDecoder::new(compressed).take(INFLATED_LIMIT + 1);
    limited.read_to_end(&mut json).map_err(|error| DeployItemsError::Gzip(error.to_string()))?;
    if json.len() as u64 > INFLATED_LIMIT {
        return Err(DeployItemsError::TooLong);
    }
    serde_json::from_slice(&json).map_err(|error| DeployItemsError::Content(error.to_string()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn items(count: usize) -> Vec<DeployItemTemplate> {
        let item = |index| DeployItemTemplate {
            name: format!("item-{index}"),
            type_: "example.org/own".to_owned(),
            config: json!({"text": "x".repeat(1000), "nothing": null}).into(),
            ..DeployItemTemplate::default()
        };
        (0..count).map(item).collect()
    }

    fn with_bytes(bytes: Vec<u8>) -> ExecutionSpec {
        ExecutionSpec { deploy_items_compressed: Some(ByteString(bytes)), ..ExecutionSpec::default() }
    }

    #[test]
    fn short_lists_are_plain_and_long_ones_compressed() {
        for (count, compressed) in [(0, false), (200, false), (300, true)] {
            let mut spec = with_bytes(vec![1]);
            spec.set_templates(items(count)).unwrap();
            assert_eq!(spec.deploy_items_compressed.is_some(), compressed, "{count} items");
            assert_eq!(spec.deploy_items.written().is_none(), compressed, "{count} items");
            assert_eq!(spec.templates().unwrap().into_owned(), items(count));
            let mut again = ExecutionSpec::default();
            again.set_templates(items(count)).unwrap();
            assert_eq!(again.deploy_items_compressed, spec.deploy_items_compressed);
        }
    }

    #[test]
    fn the_compressed_list_counts() {
        let mut spec = with_bytes(deflate(br#"[{"name":"a","type":"t"}]"#).unwrap());
        spec.deploy_items = items(2).into();
        assert_eq!(spec.templates().unwrap()[0].name, "a");
    }

    #[test]
    fn what_cannot_be_read() {
        let check = |bytes: Vec<u8>, expected: &str| {
            let error = with_bytes(bytes).templates().unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        };
        check(b"plain".to_vec(), "spec.deployItemsCompressed cannot be decompressed: ");
        let mut cut = deflate(b"[]").unwrap();
        cut.truncate(cut.len() - 4);
        check(cut, "spec.deployItemsCompressed cannot be decompressed: ");
        check(
            deflate(b"{}").unwrap(),
            "spec.deployItemsCompressed does not contain a list of deploy items: ",
        );
        let bomb = vec![b' '; usize::try_from(INFLATED_LIMIT).unwrap() + 1];
        check(deflate(&bomb).unwrap(), "spec.deployItemsCompressed is longer than 67108864 bytes");
    }
}
