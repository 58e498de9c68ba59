//! What is said about renderings, in Helm's words, without what it says of values: those of the
//! item, and those of objects that the chart has looked up in the cluster, which may be Secrets
//! (`helm.md` 11).

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_blueprint::{withheld, withhold_values};
use groundwork_helm::{Chart, Lookup, RenderError};
use serde_json::{Map, Value, json};

/// Version and kind, namespace and name of what was looked up.
type Place = [String; 4];

/// Keeps what was found, to know what may not be told.
pub(super) struct Remembering<L> {
    lookup: L,
    found: Mutex<Vec<(Place, Value)>>,
}

impl<L> Remembering<L> {
    pub(super) fn new(lookup: L) -> Self {
        Self { lookup, found: Mutex::default() }
    }

    pub(super) fn found(&self) -> Vec<(Place, Value)> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn place(api_version: &str, kind: &str, namespace: &str, name: &str) -> Place {
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

/// A cluster that has these objects alone.
struct Objects(HashMap<Place, Value>);

impl Lookup for Objects {
    fn look_up(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, String> {
        Ok(self.0.get(&place(api_version, kind, namespace, name)).cloned().unwrap_or_else(|| json!({})))
    }
}

/// An error of a rendering without what depends on values. `again` renders with others and gives
/// what it says then, if it fails.
pub(super) fn without_values(
    error: &RenderError,
    chart: &Chart,
    values: &Map<String, Value>,
    found: &[(Place, Value)],
    mut again: impl FnMut(Map<String, Value>, Arc<dyn Lookup>) -> Option<String>,
) -> String {
    let message = error.to_string();
    let given = Value::Object(values.clone());
    let all: Vec<&Value> = [&given].into_iter().chain(found.iter().map(|(_, value)| value)).collect();
    // What has reached a limit would reach it again.
    let is_cheap = !matches!(error, RenderError::Stopped(_));
    withheld(&message, &all, written(chart), |others| {
        let mut others = others.into_iter();
        let Some(Value::Object(values)) = others.next().filter(|_| is_cheap) else { return None };
        let objects = found.iter().map(|(place, _)| place.clone()).zip(others).collect();
        again(values, Arc::new(Objects(objects)))
    })
}

/// Warnings about a chart quote what its templates have made; values in them are not shown as they
/// are.
pub(super) fn withhold_in_warnings(warnings: &mut [String], chart: &Chart, values: &Map<String, Value>) {
    if !warnings.is_empty() {
        withhold_values(warnings, &[&Value::Object(values.clone())], written(chart));
    }
}

/// What the authors of the chart have written, and where: it may be told.
fn written(chart: &Chart) -> Vec<Cow<'_, str>> {
    let mut written = Written { texts: Vec::new(), left: LONGEST_SEARCHED };
    written.collect(chart, chart.name());
    written.texts
}

/// So many bytes of a chart are searched for words; what the rest holds is withheld.
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
