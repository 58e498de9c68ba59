//! Removes values from the error messages and warnings of renderings. Helm's words stay; the values
//! of the item go, and those of objects that the chart looked up in the cluster, which may be
//! Secrets (`helm.md` 11).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_blueprint::{withheld, withhold_values};
use groundwork_helm::{Chart, Lookup, RenderError};
use serde_json::{Map, Value, json};

/// API version, kind, namespace and name of an object that was looked up.
type LookupKey = [String; 4];

/// A look-up that remembers the objects it found, so that their values can be removed from
/// messages.
pub(super) struct Remembering<L> {
    lookup: L,
    found: Mutex<Vec<(LookupKey, Value)>>,
}

impl<L> Remembering<L> {
    pub(super) fn new(lookup: L) -> Self {
        Self { lookup, found: Mutex::default() }
    }

    pub(super) fn found(&self) -> Vec<(LookupKey, Value)> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> LookupKey {
    [api_version, kind, namespace, name].map(str::to_owned)
}

impl<L: Lookup> Lookup for Remembering<L> {
    fn look_up(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, String> {
        let found = self.lookup.look_up(api_version, kind, namespace, name)?;
        let mut all = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        all.push((place(api_version, kind, namespace, name), found.clone()));
        Ok(found)
    }
}

/// A cluster that contains only these objects.
struct Objects(HashMap<LookupKey, Value>);

impl Lookup for Objects {
    fn look_up(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, String> {
        Ok(self.0.get(&place(api_version, kind, namespace, name)).cloned().unwrap_or_else(|| json!({})))
    }
}

/// Returns the error of a rendering without the text that depends on values. `again` renders with
/// other values and returns the error of that rendering, if any: text that differs depends on
/// values.
pub(super) fn without_values(
    error: &RenderError,
    chart: &Chart,
    values: &Map<String, Value>,
    found: &[(LookupKey, Value)],
    mut again: impl FnMut(Map<String, Value>, Arc<dyn Lookup>) -> Option<String>,
) -> String {
    let message = error.to_string();
    let given = Value::Object(values.clone());
    let all: Vec<&Value> = [&given].into_iter().chain(found.iter().map(|(_, value)| value)).collect();
    // A rendering that reached a limit would take as long again with other values.
    let is_cheap = !matches!(error, RenderError::Stopped(_));
    withheld(&message, &all, written(chart), |others| {
        let mut others = others.into_iter();
        let Some(Value::Object(values)) = others.next().filter(|_| is_cheap) else { return None };
        let objects = found.iter().map(|(place, _)| place.clone()).zip(others).collect();
        again(values, Arc::new(Objects(objects)))
    })
}

/// Removes values from the warnings about a chart, which quote the output of its templates.
pub(super) fn withhold_in_warnings(warnings: &mut [String], chart: &Chart, values: &Map<String, Value>) {
    if !warnings.is_empty() {
        withhold_values(warnings, &[&Value::Object(values.clone())], written(chart));
    }
}

/// Returns the texts of the chart itself, with their places. Messages may quote them.
fn written(chart: &Chart) -> Vec<Cow<'_, str>> {
    let mut written = Written { texts: Vec::new(), left: LONGEST_SEARCHED };
    written.collect(chart, chart.name());
    written.texts
}

/// Bytes of a chart that are searched for its own words. Words from the rest are removed from
/// messages like values.
const LONGEST_SEARCHED: usize = 1 << 20;

struct Written<'c> {
    texts: Vec<Cow<'c, str>>,
    left: usize,
}

impl<'c> Written<'c> {
    fn collect(&mut self, chart: &'c Chart, path: &str) {
        for file in chart.templates.iter().chain(chart.files.iter()) {
            self.add(format!("{path}/{}", file.path).into());
            self.add(String::from_utf8_lossy(&file.data));
        }
        if let Some(schema) = &chart.schema {
            self.add(String::from_utf8_lossy(schema));
        }
        self.add(Value::Object(chart.values.clone()).to_string().into());
        self.add(format!("{} {}", chart.metadata.version, chart.metadata.app_version).into());
        for below in &chart.charts {
            self.collect(below, &format!("{path}/charts/{}", below.name()));
        }
    }

    fn add(&mut self, text: Cow<'c, str>) {
        if let Some(left) = self.left.checked_sub(text.len()) {
            self.left = left;
            self.texts.push(text);
        }
    }
}

#[cfg(test)]
mod tests;
