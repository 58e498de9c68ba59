//! Documents of a chart by the addresses that schemas use for them (`helm.md` 5, R8).

use std::collections::HashMap;
use std::sync::Arc;

use groundwork_schema::{PLACE, joined};
use serde::Deserialize;
use serde_json::Value;

use super::with_known_dialect;
use crate::chart::{File, Holding, LARGEST_FILE};

/// Largest number of files that are read for one schema.
const MOST_FILES: usize = 1_000;
const MOST_BYTES: usize = 20 << 20;
/// Largest total size in bytes of the documents to which one schema leads.
const MOST_TAKEN: usize = LARGEST_FILE;

/// The members of a file that give its address.
#[derive(Deserialize)]
struct Head {
    #[serde(rename = "$id")]
    id: Option<Value>,
    /// The `id` of draft 4.
    #[serde(rename = "id")]
    old_id: Option<Value>,
}

/// The files of a chart and of the charts in it. They are read when a reference first leads out of
/// the schema.
pub(super) struct Held<'h> {
    holdings: &'h [Holding],
    by_address: Option<HashMap<String, Arc<[u8]>>>,
    left: usize,
}

impl<'h> Held<'h> {
    pub(super) fn new(holdings: &'h [Holding]) -> Self {
        Self { holdings, by_address: None, left: MOST_TAKEN }
    }

    /// Returns the document with an address, unless the total size would become too large with it.
    pub(super) fn find(&mut self, address: &str) -> Option<Value> {
        let holdings = self.holdings;
        let data = self.by_address.get_or_insert_with(|| addresses(holdings)).get(address)?;
        self.left = self.left.checked_sub(data.len())?;
        serde_json::from_slice(data).ok().map(with_known_dialect)
    }
}

/// Returns the documents by address. If two have the same address, the first counts: the chart's
/// own comes before those of its subcharts.
fn addresses(holdings: &[Holding]) -> HashMap<String, Arc<[u8]>> {
    let mut found = HashMap::new();
    let mut left = (MOST_FILES, MOST_BYTES);
    for holding in holdings {
        // Files without an id get an address relative to that of the schema beside them, if it has
        // one.
        let mut base = None;
        if let Some(schema) = &holding.schema {
            base = head(schema, &mut left).and_then(|head| head.address(None));
            if let Some(address) = &base {
                found.entry(address.clone()).or_insert_with(|| Arc::clone(schema));
            }
        }
        let mut files: Vec<&File> =
            holding.files.iter().filter(|file| file.path.ends_with(".json")).collect();
        // An archive may contain files in any order, so they are sorted.
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

/// Reads the head of a file. Returns `None` if the file is not an object, or the limits are used
/// up.
fn head(data: &[u8], (files, bytes): &mut (usize, usize)) -> Option<Head> {
    *files = files.checked_sub(1)?;
    *bytes = bytes.checked_sub(data.len())?;
    serde_json::from_slice(data).ok()
}

impl Head {
    /// Returns the address of the file: its id, resolved against `place`, or `place` if the file
    /// has no id.
    fn address(&self, place: Option<&str>) -> Option<String> {
        let id = [&self.id, &self.old_id].into_iter().find_map(|id| id.as_ref()?.as_str());
        let id = id.and_then(|id| id.split('#').next()).filter(|id| !id.is_empty());
        let address = match id {
            Some(id) => joined(place.unwrap_or(PLACE), id)?,
            None => place?.to_owned(),
        };
        // A `file:` address comes from the placeholder: the schema has no absolute address, so
        // neither has this file.
        (!address.starts_with("file:")).then_some(address)
    }
}
