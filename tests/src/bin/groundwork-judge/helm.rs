//! Helm charts, one per line (`helm.md` 17).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use data_encoding::BASE64;
use groundwork_budget::TemplateLimits;
use groundwork_helm::values::{self, Table};
use groundwork_helm::{
    Capabilities, Chart, File, Hook, KubeVersion, Release, Rendered, Renderer, Request, TIME_LIMIT,
    check_release_name,
};
use groundwork_registry::load_chart_folder;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::grants::{deadline, grants};
use crate::lines::{answer_lines, parse};

/// Name and namespace of a release if its line gives none.
const DEFAULT_NAME: &str = "release-name";
const DEFAULT_NAMESPACE: &str = "default";

/// One line of the input. A null member counts as missing.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Case {
    name: Option<Value>,
    chart: Option<BTreeMap<String, String>>,
    chart_binary: Option<BTreeMap<String, String>>,
    from: Option<From>,
    archive: Option<String>,
    dir: Option<PathBuf>,
    values: Option<Table>,
    release: Option<ReleaseCase>,
    kube_version: Option<String>,
    kube_version_raw: Option<KubeVersionRaw>,
    api_versions: Option<Vec<String>>,
    include_crds: Option<bool>,
    skip_schema_validation: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum From {
    #[serde(alias = "")]
    Directory,
    Archive,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReleaseCase {
    name: Option<String>,
    namespace: Option<String>,
    revision: Option<i64>,
    is_upgrade: Option<bool>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct KubeVersionRaw {
    version: Option<String>,
    major: Option<String>,
    minor: Option<String>,
}

#[derive(Debug, Serialize)]
struct Answer {
    name: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output: Option<Output>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
}

#[derive(Debug, Serialize)]
struct Output {
    manifest: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    hooks: Vec<HookAnswer>,
    #[serde(skip_serializing_if = "String::is_empty")]
    notes: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HookAnswer {
    name: String,
    kind: String,
    path: String,
    events: Vec<Cow<'static, str>>,
    weight: i64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    delete_policies: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    output_log_policies: Vec<String>,
    manifest: String,
}

#[derive(Debug, Serialize)]
struct Failure {
    stage: &'static str,
    message: String,
}

impl Failure {
    fn new(stage: &'static str, message: impl std::fmt::Display) -> Failure {
        Failure { stage, message: format!("{message}") }
    }
}

pub(crate) fn run(limits: TemplateLimits) -> Result<()> {
    answer_lines(|line| answer(line, limits))
}

fn answer(line: &[u8], limits: TemplateLimits) -> Answer {
    match parse::<Case>(line) {
        Ok(mut case) => {
            let name = case.name.take();
            match rendered(case, limits) {
                Ok(output) => Answer { name, output: Some(output), error: None },
                Err(failure) => Answer { name, output: None, error: Some(failure) },
            }
        }
        Err(error) => {
            let named: Value = serde_json::from_slice(line).unwrap_or_default();
            let name = named.get("name").cloned();
            Answer { name, output: None, error: Some(Failure::new("input", error)) }
        }
    }
}

fn rendered(mut case: Case, limits: TemplateLimits) -> Result<Output, Failure> {
    let chart = chart(&mut case)?;
    let mut capabilities = Capabilities::default();
    if let Some(version) = case.kube_version.filter(|version| !version.is_empty()) {
        capabilities.kube_version =
            KubeVersion::parse(&version).map_err(|error| Failure::new("render", error))?;
    }
    if let Some(KubeVersionRaw { version, major, minor }) = case.kube_version_raw {
        let [version, major, minor] = [version, major, minor].map(Option::unwrap_or_default);
        capabilities.kube_version = KubeVersion { version, major, minor };
    }
    capabilities.api_versions.extend(case.api_versions.unwrap_or_default());
    let release = case.release.unwrap_or_default();
    let is_given = |text: &String| !text.is_empty();
    let release = Release {
        name: release.name.filter(is_given).unwrap_or_else(|| DEFAULT_NAME.to_owned()),
        namespace: release.namespace.filter(is_given).unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
        revision: release.revision.filter(|revision| *revision > 0).unwrap_or(1),
        is_upgrade: release.is_upgrade.unwrap_or(false),
    };
    check_release_name(&release.name).map_err(|error| {
        // Helm has a different error message for upgrades.
        let is_upgrade = release.is_upgrade && release.revision > 1;
        let text = format!("release name is invalid: {}", release.name);
        Failure::new("render", if is_upgrade { text } else { error.to_string() })
    })?;
    let request = Request {
        // Numbers become floats here, as Helm makes them from a values file: JSON has only one kind
        // of number.
        values: values::floats(case.values.unwrap_or_default()),
        release: Some(release),
        capabilities,
        include_crds: case.include_crds.unwrap_or(false),
        skip_schema: case.skip_schema_validation.unwrap_or(false),
        grants: grants(),
        deadline: Some(deadline(TIME_LIMIT)),
        limits,
        ..Request::default()
    };
    let rendered = Renderer::new(chart).render(&request).map_err(|error| Failure::new("render", error))?;
    Ok(output(rendered))
}

fn output(rendered: Rendered) -> Output {
    let manifest = rendered.manifest();
    let Rendered { hooks, notes, warnings, .. } = rendered;
    let hook = |Hook { name, kind, file, content, events, weight, delete_policies, output_log_policies }| {
        HookAnswer {
            name,
            kind,
            path: file,
            events,
            weight,
            delete_policies,
            output_log_policies,
            manifest: content,
        }
    };
    Output { manifest, hooks: hooks.into_iter().map(hook).collect(), notes, warnings }
}

fn chart(case: &mut Case) -> Result<Chart, Failure> {
    let decode = |text: &str| {
        BASE64.decode(text.as_bytes()).map_err(|error| Failure::new("input", format!("no base64: {error}")))
    };
    let failed = |error| Failure::new("load", error);
    if let Some(dir) = &case.dir {
        return load(dir).map_err(failed);
    }
    if let Some(archive) = &case.archive {
        return Chart::from_archive(&decode(archive)?).map_err(|error| failed(error.to_string()));
    }
    if case.chart.is_none() && case.chart_binary.is_none() {
        return Err(Failure::new("input", "there is no chart: give chart, chartBinary, archive or dir"));
    }
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for (path, text) in case.chart.take().unwrap_or_default() {
        files.insert(path, text.into_bytes());
    }
    for (path, text) in case.chart_binary.take().unwrap_or_default() {
        files.insert(path, decode(&text)?);
    }
    let files = files.into_iter().map(|(path, data)| File::new(path, data)).collect();
    let loaded = match case.from {
        Some(From::Archive) => Chart::from_archived(files),
        Some(From::Directory) | None => Chart::from_directory(files),
    };
    loaded.map_err(|error| failed(error.to_string()))
}

fn load(path: &Path) -> Result<Chart, String> {
    if path.is_dir() {
        return load_chart_folder(path);
    }
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Chart::from_archive(&bytes).map_err(|error| error.to_string())
}
