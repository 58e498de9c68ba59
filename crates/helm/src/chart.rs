//! Charts: from files to a tree of charts (`helm.md` 2.3).

use std::collections::BTreeMap;
use std::sync::Arc;

use groundwork_go::path;
use serde_json::Value;

use crate::archive;
use crate::decode;
use crate::error::LoadError;
use crate::ignore::{IGNORE_FILE, Ignore};
use crate::metadata::{LOCK, METADATA, Metadata};
use crate::values::{self, Table};

/// Largest number of files of a chart (`helm.md` 11).
pub(crate) const MOST_FILES: usize = 20_000;
const DEEPEST: usize = 16;
const MOST_CHARTS: usize = 500;
/// Largest size of a Chart.yaml or values.yaml, in bytes.
const LARGEST_RECORD: usize = 1 << 20;
/// Largest size of one file, in bytes.
pub const LARGEST_FILE: usize = 5 << 20;

/// A file of a chart. The path is relative to the chart and uses `/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub data: Arc<[u8]>,
}

impl File {
    pub fn new(path: impl Into<String>, data: impl Into<Arc<[u8]>>) -> File {
        File { path: path.into(), data: data.into() }
    }

    /// Creates a file without the byte order mark at its beginning.
    pub fn without_mark(path: impl Into<String>, data: &[u8]) -> File {
        File { path: path.into(), data: data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data).into() }
    }
}

/// A chart with its subcharts, as loaded. Rendering does not change it.
#[derive(Debug, Clone)]
pub struct Chart {
    pub metadata: Metadata,
    /// The default values of values.yaml. All numbers are floats, as in Helm.
    pub values: Table,
    /// JSON Schema of the values.
    pub schema: Option<Arc<[u8]>>,
    /// Files to which references of the schema may lead: those of this chart and of the charts in
    /// it. Empty without a schema.
    pub(crate) holdings: Arc<[Holding]>,
    pub templates: Arc<[File]>,
    /// Files that are neither a description, values, a schema, a template nor part of a subchart.
    pub files: Arc<[File]>,
    /// Charts in `charts/`, in byte order of their entries there.
    pub charts: Vec<Chart>,
    /// Oddities of the chart that are not errors.
    pub warnings: Vec<String>,
    /// Name of this chart in the paths of its subcharts, if it differs from its own name (`helm.md`
    /// 3.2).
    pub(crate) name_in_paths: Option<String>,
}

/// The files of a chart that schemas may refer to (`helm.md` 5, R8).
#[derive(Debug, Clone)]
pub(crate) struct Holding {
    pub(crate) schema: Option<Arc<[u8]>>,
    pub(crate) files: Arc<[File]>,
}

impl Chart {
    /// Loads a chart from its files. Of two files with the same path the later one counts.
    ///
    /// # Errors
    ///
    /// The files are not a chart; see [`LoadError`].
    pub fn from_files(files: Vec<File>) -> Result<Chart, LoadError> {
        load(files, &mut Budget { depth: 0, charts: 0 })
    }

    /// Loads a chart from an archive, compressed with gzip.
    ///
    /// # Errors
    ///
    /// The archive cannot be read, contains a forbidden entry, or does not contain a chart.
    pub fn from_archive(bytes: &[u8]) -> Result<Chart, LoadError> {
        load_archive(bytes, &mut Budget { depth: 0, charts: 0 })
    }

    /// Loads a chart from the files of an archive's top folder. The rules of archives apply to the
    /// paths, and `.helmignore` is not applied.
    ///
    /// # Errors
    ///
    /// As [`Chart::from_archive`].
    pub fn from_archived(mut files: Vec<File>) -> Result<Chart, LoadError> {
        files.sort_by(|a, b| a.path.cmp(&b.path));
        let unpacked = files.into_iter().map(|file| {
            if file.data.len() > LARGEST_FILE {
                return Err(LoadError::from(archive::ArchiveError::LargeFile(file.path)));
            }
            let path = archive::path_inside(&format!("chart/{}", file.path))?;
            Ok(File::without_mark(path, &file.data))
        });
        Chart::from_files(unpacked.collect::<Result<_, _>>()?)
    }

    /// Loads a chart from the files of a directory, held in memory. Files that `.helmignore` names
    /// are left out.
    ///
    /// # Errors
    ///
    /// A line of `.helmignore` is not a rule, a path leads out of the directory, a file is too
    /// large, or the files are not a chart.
    pub fn from_directory(mut files: Vec<File>) -> Result<Chart, LoadError> {
        for file in &mut files {
            let cleaned = String::from_utf8_lossy(&path::clean(file.path.as_bytes())).into_owned();
            if cleaned.starts_with('/') || cleaned == "." || cleaned == ".." || cleaned.starts_with("../") {
                return Err(LoadError::PathOutside(std::mem::take(&mut file.path)));
            }
            file.path = cleaned;
        }
        // Helm walks a directory depth first, with the names of each directory in byte order.
        files.sort_by(|a, b| a.path.split('/').cmp(b.path.split('/')));
        let rules = files.iter().find(|file| file.path == IGNORE_FILE);
        let ignore = Ignore::parse(rules.map_or(&[], |file| &*file.data))?;
        let mut kept = Vec::new();
        for file in files {
            let mut folders = file.path.match_indices('/').map(|(slash, _)| &file.path[..slash]);
            if folders.any(|folder| ignore.leaves_out(folder, true)) || ignore.leaves_out(&file.path, false) {
                continue;
            }
            if file.data.len() > LARGEST_FILE {
                let name = file.path.rsplit('/').next().unwrap_or_default().to_owned();
                return Err(LoadError::LargeFile { name, limit: LARGEST_FILE });
            }
            kept.push(File::without_mark(file.path, &file.data));
        }
        Chart::from_files(kept)
    }

    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    fn holding(&self) -> Holding {
        Holding { schema: self.schema.clone(), files: Arc::clone(&self.files) }
    }

    /// Returns this chart and all below it, parents first, with their paths.
    pub(crate) fn tree(&self) -> Vec<(String, &Chart)> {
        let mut found = Vec::new();
        self.collect(self.name().to_owned(), &mut found);
        found
    }

    fn collect<'c>(&'c self, path: String, found: &mut Vec<(String, &'c Chart)>) {
        let below = self.path_for_children(&path);
        found.push((path, self));
        for chart in &self.charts {
            chart.collect(format!("{below}/charts/{}", chart.name()), found);
        }
    }

    /// Returns the path of the chart's subcharts, given the path of the chart.
    pub(crate) fn path_for_children(&self, path: &str) -> String {
        let Some(name) = &self.name_in_paths else { return path.to_owned() };
        let parent = path.rfind('/').map_or("", |slash| &path[..=slash]);
        format!("{parent}{name}")
    }
}

/// Files and bytes that a tree of charts may still use.
struct Budget {
    depth: usize,
    charts: usize,
}

fn load_archive(bytes: &[u8], budget: &mut Budget) -> Result<Chart, LoadError> {
    let archive::Unpacked { files, warnings } = archive::unpack(bytes)?;
    let mut chart = load(files, budget)?;
    chart.warnings.splice(0..0, warnings);
    Ok(chart)
}

fn load(files: Vec<File>, budget: &mut Budget) -> Result<Chart, LoadError> {
    budget.charts += 1;
    if budget.charts > MOST_CHARTS {
        return Err(LoadError::TooManyCharts(MOST_CHARTS));
    }
    if files.len() > MOST_FILES {
        return Err(LoadError::TooManyFiles(MOST_FILES));
    }
    let mut sorted = Sorted::default();
    sorted.describe(&files)?;
    for file in files {
        sorted.take(file)?;
    }
    if !sorted.is_described {
        return Err(LoadError::NoDescription);
    }
    let mut metadata = sorted.metadata("Chart.yaml")?;
    metadata.validate().map_err(LoadError::Invalid)?;
    let Sorted { values, schema, templates, files, groups, warnings, .. } = sorted;
    let mut chart = Chart {
        metadata,
        values,
        schema,
        holdings: Arc::new([]),
        templates: templates.into(),
        files: files.into(),
        charts: Vec::new(),
        warnings,
        name_in_paths: None,
    };
    for (name, files) in groups {
        if name.starts_with(['_', '.']) {
            continue;
        }
        if budget.depth >= DEEPEST {
            return Err(LoadError::TooDeep(DEEPEST));
        }
        budget.depth += 1;
        let loaded = subchart(&name, files, chart.name(), budget);
        budget.depth -= 1;
        let mut loaded = loaded?;
        chart.warnings.append(&mut loaded.warnings);
        chart.charts.push(loaded);
    }
    if chart.schema.is_some() {
        // The files are collected now, before any subchart is disabled or renamed: references may
        // lead to all of them.
        chart.holdings = chart.tree().into_iter().map(|(_, chart)| chart.holding()).collect();
    }
    Ok(chart)
}

fn subchart(name: &str, files: Vec<File>, chart: &str, budget: &mut Budget) -> Result<Chart, LoadError> {
    let loaded = if path::ext(name.as_bytes()) == b".tgz" {
        match files.into_iter().next() {
            Some(file) if file.path == name => load_archive(&file.data, budget),
            file => {
                let got = file.map(|file| file.path).unwrap_or_default();
                return Err(LoadError::NotAnArchive { name: name.to_owned(), chart: chart.to_owned(), got });
            }
        }
    } else {
        let inside = files.into_iter().filter_map(|file| {
            let (_, rest) = file.path.split_once('/')?;
            Some(File { path: rest.to_owned(), data: file.data })
        });
        load(inside.collect(), budget)
    };
    loaded.map_err(|error| LoadError::Subchart {
        name: name.to_owned(),
        chart: chart.to_owned(),
        error: Box::new(error),
    })
}

/// The files of one chart, sorted by their purpose.
#[derive(Default)]
struct Sorted {
    is_described: bool,
    /// Members of Chart.yaml, overridden by those of requirements.yaml.
    members: serde_json::Map<String, Value>,
    values: Table,
    schema: Option<Arc<[u8]>>,
    templates: Vec<File>,
    files: Vec<File>,
    /// Files below `charts`, by the name of their entry there.
    groups: BTreeMap<String, Vec<File>>,
    warnings: Vec<String>,
}

impl Sorted {
    fn describe(&mut self, files: &[File]) -> Result<(), LoadError> {
        for file in files.iter().filter(|file| file.path == "Chart.yaml") {
            self.is_described = true;
            self.decode(file)?;
            let version = self.members.get("apiVersion").and_then(Value::as_str);
            if version.is_none_or(str::is_empty) {
                self.members.insert("apiVersion".to_owned(), "v1".into());
            }
        }
        Ok(())
    }

    fn decode(&mut self, file: &File) -> Result<(), LoadError> {
        let name = || file.path.clone();
        check_size(file)?;
        decode::decode_over(&mut self.members, &file.data, &METADATA)
            .map_err(|message| LoadError::File { name: name(), message })
    }

    fn metadata(&self, name: &str) -> Result<Metadata, LoadError> {
        Metadata::from_members(self.members.clone())
            .map_err(|message| LoadError::File { name: name.to_owned(), message })
    }

    fn is_first_version(&self) -> bool {
        self.members.get("apiVersion").is_some_and(|version| version == "v1")
    }

    fn take(&mut self, file: File) -> Result<(), LoadError> {
        let failed = |message| LoadError::File { name: file.path.clone(), message };
        match file.path.as_str() {
            "Chart.yaml" => {}
            "Chart.lock" => {
                check_size(&file)?;
                let mut lock = serde_json::Map::new();
                decode::decode_over(&mut lock, &file.data, &LOCK).map_err(failed)?;
            }
            "values.yaml" => {
                check_size(&file)?;
                self.values = values::floats(decode::table(&file.data).map_err(failed)?);
            }
            "values.schema.json" => {
                // Generated schemas may contain all of Kubernetes' API, so they have the limit of
                // files, not that of records.
                check_bytes(&file, LARGEST_FILE)?;
                self.schema = Some(file.data);
            }
            "requirements.yaml" => {
                self.is_described = true;
                if !self.is_first_version() {
                    self.warnings.push(
                        "Warning: Dependencies are handled in Chart.yaml since apiVersion \"v2\". We recommend migrating \
                         dependencies to Chart.yaml."
                            .to_owned(),
                    );
                }
                self.decode(&file)?;
                if self.is_first_version() {
                    self.files.push(file);
                }
            }
            "requirements.lock" => {
                self.is_described = true;
                let mut lock = serde_json::Map::new();
                decode::decode_over(&mut lock, &file.data, &LOCK).map_err(failed)?;
                if self.is_first_version() {
                    self.files.push(file);
                } else {
                    self.warnings.push(
                        "Warning: Dependency locking is handled in Chart.lock since apiVersion \"v2\". We recommend \
                         migrating to Chart.lock."
                            .to_owned(),
                    );
                }
            }
            path if path.starts_with("templates/") => self.templates.push(file),
            path => match path.strip_prefix("charts/") {
                Some(_) if path.ends_with(".prov") => self.files.push(file),
                Some(inside) => {
                    let group = inside.split('/').next().unwrap_or_default().to_owned();
                    let file = File { path: inside.to_owned(), data: Arc::clone(&file.data) };
                    self.groups.entry(group).or_default().push(file);
                }
                None => self.files.push(file),
            },
        }
        Ok(())
    }
}

fn check_size(file: &File) -> Result<(), LoadError> {
    check_bytes(file, LARGEST_RECORD)
}

fn check_bytes(file: &File, limit: usize) -> Result<(), LoadError> {
    if file.data.len() > limit {
        return Err(LoadError::TooLarge { name: file.path.clone(), limit });
    }
    Ok(())
}
