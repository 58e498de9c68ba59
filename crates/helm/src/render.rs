//! Rendering: the templates of all enabled charts form one set, and are executed file by file
//! (`helm.md` 6).

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use groundwork_budget::TemplateLimits;
use groundwork_gotemplate::{
    Deadline, Error, ErrorKind, Grants, Host, Limits, Map, MissingKey, NumberMode, Options, Template, Value,
};
use serde::{Deserialize, Serialize};

use crate::capabilities::Capabilities;
use crate::chart::{Chart, File};
use crate::dependencies;
use crate::error::RenderError;
use crate::functions::{FUNCTIONS, Lookup, Surroundings, what_was_said, without_missing};
use crate::manifest::{self, Document, Hook};
use crate::objects::{self, VALUES, files::files};
use crate::schema;
use crate::values::{self, Table};

/// Name of the set, which errors of `tpl` show.
const SET_NAME: &str = "gotpl";
const NOTES: &str = "NOTES.txt";
/// Default limit on the time of one render, for hosts that set a deadline.
pub const TIME_LIMIT: Duration = Duration::from_secs(30);

/// A release as templates see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub name: String,
    pub namespace: String,
    pub revision: i64,
    pub is_upgrade: bool,
}

impl Release {
    /// Creates the first revision of a release.
    pub fn install(name: impl Into<String>, namespace: impl Into<String>) -> Release {
        Release { name: name.into(), namespace: namespace.into(), revision: 1, is_upgrade: false }
    }
}

/// The inputs of a render besides the chart.
#[derive(Clone, Default)]
pub struct Request {
    pub values: Table,
    pub release: Option<Release>,
    pub capabilities: Capabilities,
    /// True if files of `crds` come first in the manifest.
    pub include_crds: bool,
    pub skip_schema: bool,
    /// True if a missing value is an error.
    pub strict: bool,
    pub grants: Grants,
    pub deadline: Option<Deadline>,
    /// Limits that apply to all templates of the chart together.
    pub limits: TemplateLimits,
    /// Cluster for the function `lookup`; without one it finds no objects.
    pub lookup: Option<Arc<dyn Lookup>>,
}

impl std::fmt::Debug for Request {
    /// Leaves out the values, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("release", &self.release).finish_non_exhaustive()
    }
}

/// A chart and its values in the form that the templates see.
#[derive(Clone)]
pub struct Prepared {
    pub chart: Chart,
    pub values: Table,
    pub warnings: Vec<String>,
}

impl std::fmt::Debug for Prepared {
    /// Leaves out the values, which may be secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Prepared").field("chart", &self.chart.name()).finish_non_exhaustive()
    }
}

/// The result of rendering a chart for a release.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rendered {
    /// Documents in the order of their installation.
    pub documents: Vec<Document>,
    pub hooks: Vec<Hook>,
    /// Files of `crds`, which are not rendered; those of the root chart come first.
    pub crds: Vec<Document>,
    /// Notes of the root chart.
    pub notes: String,
    pub warnings: Vec<String>,
    include_crds: bool,
}

impl Rendered {
    /// Returns the manifest, as a release record stores it (`helm.md` 7.1).
    pub fn manifest(&self) -> String {
        let crds = self.crds.iter().filter(|_| self.include_crds);
        let documents: Vec<&Document> = crds.chain(&self.documents).collect();
        let size = documents.iter().map(|document| document.file.len() + document.content.len() + 16).sum();
        documents.into_iter().fold(String::with_capacity(size), |mut text, document| {
            for part in ["---\n# Source: ", &document.file, "\n", &document.content, "\n"] {
                text.push_str(part);
            }
            text
        })
    }
}

/// A chart that is rendered repeatedly. Its templates are parsed once for each set of enabled
/// subcharts.
#[derive(Debug)]
pub struct Renderer {
    chart: Chart,
    sets: Mutex<Vec<Parsed>>,
    schemas: schema::Schemas,
}

/// Parsed templates with their sources.
#[derive(Debug, Clone)]
struct Parsed {
    sources: Vec<(String, Arc<[u8]>)>,
    strict: bool,
    template: Template,
}

/// Maximum number of sets of enabled subcharts whose parsed templates are cached.
const KEPT_SETS: usize = 4;

static OPTIONS: LazyLock<Options> = LazyLock::new(|| Options {
    missing_key: MissingKey::Zero,
    numbers: NumberMode::Float64,
    limits: limits(TemplateLimits::default()),
    ..Options::default()
});

/// All templates of a chart count as one render, with one account.
fn limits(limits: TemplateLimits) -> Limits {
    Limits { steps: limits.steps_of_chart(), ..limits.into() }
}

impl Renderer {
    pub fn new(chart: Chart) -> Renderer {
        Renderer { chart, sets: Mutex::default(), schemas: schema::Schemas::default() }
    }

    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    /// Prepares the chart with its enabled subcharts, and the values of the whole tree, checked
    /// against the schemas.
    ///
    /// # Errors
    ///
    /// The values do not match a schema, or the chart does not support the cluster's version; see
    /// [`RenderError`].
    pub fn prepare(&self, request: &Request) -> Result<Prepared, RenderError> {
        let mut chart = self.chart.clone();
        let mut warnings = std::mem::take(&mut chart.warnings);
        dependencies::process(&mut chart, &request.values, &mut warnings)?;
        let values = values::coalesced(&chart, &request.values, &mut warnings)?;
        if !request.skip_schema {
            schema::check(&self.schemas, &chart, &values, &mut warnings)?;
        }
        let Capabilities { kube_version, .. } = &request.capabilities;
        let required = &chart.metadata.kube_version;
        if !required.is_empty() && !dependencies::fits(required, &kube_version.version) {
            return Err(RenderError::KubeVersion {
                required: required.clone(),
                actual: kube_version.version.clone(),
            });
        }
        Ok(Prepared { chart, values, warnings })
    }

    /// Renders the chart.
    ///
    /// # Errors
    ///
    /// The values do not match a schema, a template fails, or its output is not a manifest; see
    /// [`RenderError`].
    pub fn render(&self, request: &Request) -> Result<Rendered, RenderError> {
        self.finish(self.prepare(request)?, request)
    }

    /// Renders the text of each file, before it is read as YAML; blank files are left out. For
    /// finding out why [`Renderer::render`] could not read a file.
    ///
    /// # Errors
    ///
    /// The values do not match a schema, or a template fails; see [`RenderError`].
    pub fn files(&self, request: &Request) -> Result<BTreeMap<String, String>, RenderError> {
        let Prepared { chart, values, .. } = self.prepare(request)?;
        let mut files = self.execute(&chart, &values, request)?;
        files.retain(|path, text| !path.ends_with(NOTES) && !text.chars().all(groundwork_go::text::is_space));
        Ok(files)
    }

    /// Runs the rest of [`Renderer::render`] for the same request that was prepared.
    ///
    /// # Errors
    ///
    /// A template fails, or its output is not a manifest; see [`RenderError`].
    pub fn finish(&self, prepared: Prepared, request: &Request) -> Result<Rendered, RenderError> {
        let Prepared { chart, values, mut warnings } = prepared;
        let mut rendered = self.execute(&chart, &values, request)?;
        let mut notes = String::new();
        let notes_path = format!("{}/templates/{NOTES}", chart.name());
        rendered.retain(|path, text| {
            if *path == notes_path {
                notes = std::mem::take(text);
            }
            // Helm shows only the notes of the root chart.
            !path.ends_with(NOTES)
        });
        let sorted = manifest::sort(&rendered)?;
        warnings.extend(sorted.warnings);
        Ok(Rendered {
            documents: sorted.documents,
            hooks: sorted.hooks,
            crds: crds(&chart),
            notes,
            warnings,
            include_crds: request.include_crds,
        })
    }

    /// Executes each file except those whose name begins with `_`, which other files include.
    fn execute(
        &self,
        chart: &Chart,
        values: &Table,
        request: &Request,
    ) -> Result<BTreeMap<String, String>, RenderError> {
        let mut files = Vec::new();
        collect(chart, chart.name(), &Scope::root(chart, values, request), &mut files);
        // Helm sorts the files by more slashes first, then by later names. A template that is
        // parsed later replaces an earlier one of the same name.
        files.sort_by(|a, b| b.depth().cmp(&a.depth()).then_with(|| b.path.cmp(&a.path)));
        let template = self.parsed(&files, request.strict)?;
        let surroundings = Surroundings { lookup: request.lookup.clone() };
        let host = Host {
            data: Some(Arc::new(surroundings)),
            grants: request.grants.clone(),
            deadline: request.deadline.clone(),
            budget: None,
            limits: Some(limits(request.limits)),
        };
        let mut session = template.session(host);
        let mut rendered = BTreeMap::new();
        let mut size = 0;
        for Source { path, base, dot, .. } in &files {
            if path.rsplit('/').next().is_some_and(|name| name.starts_with('_')) {
                continue;
            }
            let about = [("Name", path.as_str()), ("BasePath", base.as_str())];
            let about: Map = about.into_iter().map(|(key, text)| (key.into(), Value::from(text))).collect();
            // All files of a chart share this map, so `Template` is set anew before each of them.
            dot.insert("Template".into(), Value::Map(about.named(&VALUES)));
            let text = session
                .render_named(path, Value::Map(dot.named(&VALUES)))
                .map_err(|error| execution_error(&error))?;
            // The session limits each file; this limits their sum.
            size += text.len();
            let limit = OPTIONS.limits.output_bytes;
            if size > limit {
                return Err(RenderError::Stopped(format!("output limit of {limit} bytes")));
            }
            let text = without_missing(&text);
            rendered.insert(path.clone(), String::from_utf8_lossy(&text).into_owned());
        }
        Ok(rendered)
    }

    fn parsed(&self, files: &[Source<'_>], strict: bool) -> Result<Template, RenderError> {
        let is_of = |parsed: &Parsed| {
            parsed.strict == strict
                && parsed.sources.len() == files.len()
                && parsed
                    .sources
                    .iter()
                    .zip(files)
                    // Prepared charts share the data of their files with the chart of the renderer,
                    // so pointers are enough.
                    .all(|((path, data), file)| *path == file.path && Arc::ptr_eq(data, &file.file.data))
        };
        let known = self.sets.lock().ok().and_then(|sets| sets.iter().find(|set| is_of(set)).cloned());
        if let Some(known) = known {
            return Ok(known.template);
        }
        let missing_key = if strict { MissingKey::Error } else { MissingKey::Zero };
        let options = Options { missing_key, ..OPTIONS.clone() };
        let sources = files.iter().map(|source| (source.path.as_str(), &*source.file.data));
        let template = Template::parse_set(SET_NAME, sources, &FUNCTIONS, &options)
            .map_err(|error| parse_error(&error))?;
        let sources =
            files.iter().map(|source| (source.path.clone(), Arc::clone(&source.file.data))).collect();
        if let Ok(mut sets) = self.sets.lock() {
            if sets.len() >= KEPT_SETS {
                sets.remove(0);
            }
            sets.push(Parsed { sources, strict, template: template.clone() });
        }
        Ok(template)
    }
}

/// A template file, and the data for its execution.
struct Source<'c> {
    path: String,
    base: String,
    file: &'c File,
    dot: Map,
}

impl Source<'_> {
    fn depth(&self) -> usize {
        self.path.bytes().filter(|&byte| byte == b'/').count()
    }
}

/// The objects that all charts have in common, and the values of one.
struct Scope {
    release: Value,
    capabilities: Value,
    values: Map,
    is_root: bool,
}

impl Scope {
    fn root(chart: &Chart, values: &Table, request: &Request) -> Scope {
        let release = request.release.clone().unwrap_or_else(|| Release::install(chart.name(), "default"));
        let release = [
            ("Name", Value::from(release.name)),
            ("Namespace", Value::from(release.namespace)),
            ("Revision", Value::int(release.revision)),
            ("Service", Value::from("Helm")),
            ("IsInstall", Value::Bool(!release.is_upgrade)),
            ("IsUpgrade", Value::Bool(release.is_upgrade)),
        ];
        let release: Map = release.into_iter().map(|(key, value)| (key.into(), value)).collect();
        Scope {
            release: Value::Map(release),
            capabilities: objects::capabilities(&request.capabilities),
            values: objects::from_table(values),
            is_root: true,
        }
    }

    fn below(&self, chart: &Chart) -> Scope {
        Scope {
            release: self.release.clone(),
            capabilities: self.capabilities.clone(),
            values: objects::sub_values(&self.values, chart.name()),
            is_root: false,
        }
    }
}

/// Collects the templates of a chart and its subcharts. Returns the chart's root object.
fn collect<'c>(chart: &'c Chart, path: &str, scope: &Scope, files_found: &mut Vec<Source<'c>>) -> Map {
    let below = chart.path_for_children(path);
    let subcharts = Map::default();
    for sub in &chart.charts {
        let path = format!("{below}/charts/{}", sub.name());
        let dot = collect(sub, &path, &scope.below(sub), files_found);
        subcharts.insert(sub.name().into(), Value::Map(dot));
    }
    let dot = Map::from_iter([
        ("Chart".into(), objects::chart(&chart.metadata, scope.is_root)),
        ("Files".into(), Value::Map(files(&chart.files))),
        ("Release".into(), scope.release.clone()),
        ("Capabilities".into(), scope.capabilities.clone()),
        ("Values".into(), Value::Map(scope.values.named(&VALUES))),
        ("Subcharts".into(), Value::Map(subcharts)),
    ]);
    let base = format!("{path}/templates");
    for file in chart.templates.iter() {
        let name = file.path.rsplit('/').next().unwrap_or_default();
        if chart.metadata.is_library() && !name.starts_with('_') {
            continue;
        }
        let path = format!("{path}/{}", file.path);
        // If two files have the same path, the later one counts.
        let source = Source { path, base: base.clone(), file, dot: dot.clone() };
        match files_found.iter_mut().find(|known| known.path == source.path) {
            Some(known) => *known = source,
            None => files_found.push(source),
        }
    }
    dot
}

/// Returns the files of `crds` that contain manifests (`helm.md` 7.3).
fn crds(chart: &Chart) -> Vec<Document> {
    let has_manifest_name = |path: &str| {
        let name = path.to_ascii_lowercase();
        [".yaml", ".yml", ".json"].iter().any(|extension| name.ends_with(extension))
    };
    let mut found = Vec::new();
    for (path, chart) in chart.tree() {
        let files =
            chart.files.iter().filter(|file| file.path.starts_with("crds/") && has_manifest_name(&file.path));
        found.extend(files.map(|file| Document {
            file: format!("{path}/{}", file.path),
            content: String::from_utf8_lossy(&file.data).into_owned(),
            kind: "CustomResourceDefinition".to_owned(),
        }));
    }
    found
}

/// Returns `parse error at (FILE:LINE): MESSAGE`, with the text behind the last colon of Go's error
/// (`helm.md` 6.8).
fn parse_error(error: &Error) -> RenderError {
    let text = error.to_string();
    let pieces: Vec<&str> = text.split(": ").collect();
    RenderError::Template(match pieces[..] {
        [_, place, .., message] => format!("parse error at ({place}): {message}"),
        [_, message] => format!("parse error at ({message}): {message}"),
        _ => text,
    })
}

/// Returns `execution error at (FILE:LINE:COLUMN): MESSAGE` for the messages of `fail` and
/// `required`, otherwise Go's text.
fn execution_error(error: &Error) -> RenderError {
    let text = error.to_string();
    if error.kind() == ErrorKind::Limit {
        return RenderError::Stopped(chain_shortened(text));
    }
    let mut pieces = text.splitn(3, ": ");
    if let (Some(_), Some(place), Some(rest)) = (pieces.next(), pieces.next(), pieces.next())
        && let Some(said) = what_was_said(rest)
    {
        return RenderError::Template(format!("execution error at ({place}): {said}"));
    }
    RenderError::Template(chain_shortened(text))
}

/// Shortens a chain of endless includes to the first and the last three of them (`helm.md` 6.5,
/// R7).
fn chain_shortened(text: String) -> String {
    const SHOWN: usize = 3;
    const BETWEEN: &str = ": error calling ";
    let pieces: Vec<&str> = text.split(BETWEEN).collect();
    if pieces.len() <= 100 {
        return text;
    }
    let (head, tail) = (&pieces[..=SHOWN], &pieces[pieces.len() - SHOWN..]);
    format!("{} … {}", head.join(BETWEEN), tail.join(BETWEEN))
}
