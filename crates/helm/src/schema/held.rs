//! Documents that a chart holds, by the addresses that schemas know them by (`helm.md` 5, R8).

use std::collections::HashMap;
use std::sync::Arc;

use groundwork_schema::{PLACE, joined};
use serde::Deserialize;
use serde_json::Value;

use super::with_known_dialect;
use crate::chart::{File, Holding, LARGEST_FILE};

/// Files that are looked at for one schema, and their bytes.
const MOST_FILES: usize = 1_000;
const MOST_BYTES: usize = 20 << 20;
/// Bytes of the documents that one schema may lead to.
const MOST_TAKEN: usize = LARGEST_FILE;

/// The part of a file that tells its address.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "$id")]
    id: Option<Value>,
    /// Of the oldest draft.
    #[serde(rename = "id")]
    old_id: Option<Value>,
}

/// The files of a chart and of the charts in it. They are looked at when a reference leads out of the schema for the first time.
pub(super) struct Held<'h> {
    holdings: &'h [Holding],
    by_address: Option<HashMap<String, Arc<[u8]>>>,
    left: usize,
}

impl<'h> Held<'h> {
    pub(super) fn new(holdings: &'h [Holding]) -> Self {
        Self { holdings, by_address: None, left: MOST_TAKEN }
    }

    /// The document with an address, unless those that were taken so far are too large with it.
    pub(super) fn find(&mut self, address: &str) -> Option<Value> {
        let holdings = self.holdings;
        let data = self.by_address.get_or_insert_with(|| addresses(holdings)).get(address)?;
        self.left = self.left.checked_sub(data.len())?;
        serde_json::from_slice(data).ok().map(with_known_dialect)
    }
}

/// Of two documents with one address the first counts: that of the chart itself before those of the charts in it.
fn addresses(holdings: &[Holding]) -> HashMap<String, Arc<[u8]>> {
    let mut found = HashMap::new();
    let mut left = (MOST_FILES, MOST_BYTES);
    for holding in holdings {
        // Files lie beside the schema: where it has an address, so have they.
        let mut base = None;
        if let Some(schema) = &holding.schema {
            base = head(schema, &mut left).and_then(|head| head.address(None));
            if let Some(address) = &base {
                found.entry(address.clone()).or_insert_with(|| Arc::clone(schema));
            }
        }
        let mut files: Vec<&File> =
            holding.files.iter().filter(|file| file.path.ends_with(".json")).collect();
        // An archive may have them in any order.
        files.sort_by(|a, b| a.path.cmp(&b.path));
        for file in files {
            let Some(head) = head(&file.data, &mut left) else { continue };
            let place = base.as_deref().and_then(|base| joined(base, &file.path));
            if let Some(address) = head.address(place.as_deref()) {
                found.entry(address).or_insert_with(|| Arc::clone(&file.data));
            }
        }
    }
    found
}

/// `None` where the file is no object, or too much has been read before.
fn head(data: &[u8], (files, bytes): &mut (usize, usize)) -> Option<Head> {
    *files = files.checked_sub(1)?;
    *bytes = bytes.checked_sub(data.len())?;
    serde_json::from_slice(data).ok()
}

impl Head {
    /// Its id, which may be relative to where it lies, or else where it lies.
    fn address(&self, place: Option<&str>) -> Option<String> {
        let id = [&self.id, &self.old_id].into_iter().find_map(|id| id.as_ref()?.as_str());
        let id = id.and_then(|id| id.split('#').next()).filter(|id| !id.is_empty());
        let address = match id {
            Some(id) => joined(place.unwrap_or(PLACE), id)?,
            None => place?.to_owned(),
        };
        // An address that is none: nobody has said where the chart is.
        (!address.starts_with("file:")).then_some(address)
    }
}
