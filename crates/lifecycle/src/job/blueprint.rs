//! The blueprint of an Installation (`blueprints.md` section 2, `components.md` 6.7).

use groundwork_api::Installation;
use groundwork_blueprint::{
    ArchiveLimits, BLUEPRINT_FILE, Blueprint, Excerpt, ExecutionError, Filesystem, LoadError, RenderError,
};
use groundwork_component::ComponentVersion;

use super::artifact_set::{blueprint_layer, is_artifact_set};
use super::{PREREQUISITES, Problem};
use crate::failure::Failure;

const RESOURCE_TYPES: [&str; 2] = ["landscaper.gardener.cloud/blueprint", "blueprint"];

/// What the content of a blueprint resource may be declared as; its compression is found out, not declared.
const MEDIA_TYPES: [&str; 10] = [
    "application/x-tar",
    "application/x-tgz",
    "application/x-tar+gzip",
    "application/tar",
    "application/tar+gzip",
    "application/gzip",
    "application/vnd.gardener.landscaper.blueprint.v1+tar",
    "application/vnd.gardener.landscaper.blueprint.v1+tar+gzip",
    "application/vnd.gardener.landscaper.blueprint.layer.v1.tar",
    "application/vnd.gardener.landscaper.blueprint.layer.v1.tar+gzip",
];

/// Finds, unpacks and checks the blueprint.
pub(super) fn resolve(
    installation: &Installation,
    root: Option<&ComponentVersion>,
    tried: Option<&Filesystem>,
) -> Result<Blueprint, Problem> {
    let files = match tried {
        Some(files) => files.clone(),
        None => files(installation, root).map_err(|cause| failure(installation, &cause))?,
    };
    let is_inline = tried.is_none() && installation.spec.blueprint.inline.is_some();
    let source = if is_inline || tried.is_some() { None } else { source(installation, root) };
    Blueprint::load(files).map_err(|error| {
        let excerpts = load_excerpts(&error);
        let cause = match &error {
            LoadError::Unreadable(cause) if is_inline => {
                format!(
                    "unable to read blueprint file from inline defined blueprint: {BLUEPRINT_FILE}: {cause}"
                )
            }
            other => from(source.as_deref(), &other.to_string()),
        };
        Problem { failure: failure(installation, &cause), excerpts }
    })
}

fn failure(installation: &Installation, cause: &str) -> Failure {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let name = installation.metadata.name.as_deref().unwrap_or_default();
    let message = format!("unable to resolve blueprint for {namespace}/{name}: {cause}");
    Failure::new(PREREQUISITES, "ResolveBlueprint", message)
}

/// Which resource of which component version a blueprint that is not inline comes from.
fn source(installation: &Installation, root: Option<&ComponentVersion>) -> Option<String> {
    let (reference, root) = (installation.spec.blueprint.reference.as_ref()?, root?);
    let (name, version) = (root.descriptor.name(), root.descriptor.version());
    Some(format!("resource {:?} of component {name}:{version}", reference.resource_name))
}

/// A problem with the place that its content was fetched from.
fn from(source: Option<&str>, problem: &str) -> String {
    source.map_or_else(|| problem.to_owned(), |source| format!("{problem} ({source})"))
}

fn files(installation: &Installation, root: Option<&ComponentVersion>) -> Result<Filesystem, String> {
    let blueprint = &installation.spec.blueprint;
    if let Some(inline) = &blueprint.inline {
        let tree = inline.filesystem.get().ok_or("no remote reference nor a inline blueprint is defined")?;
        return Filesystem::from_inline(tree).map_err(|error| error.to_string());
    }
    let reference =
        blueprint.reference.as_ref().ok_or("no remote reference nor a inline blueprint is defined")?;
    let root = root.ok_or("no component descriptor reference defined")?;
    let resource = root.descriptor.resource(&reference.resource_name).map_err(|error| error.to_string())?;
    let source = source(installation, Some(root));
    let wrong = |problem: &str| from(source.as_deref(), problem);
    if !RESOURCE_TYPES.contains(&resource.type_name.as_str()) {
        return Err(wrong(&format!("no handler found for resource type {}", resource.type_name)));
    }
    let content = root.content(&resource).map_err(|error| error.to_string())?;
    let unpack = |bytes: &[u8]| {
        Filesystem::from_archive(bytes, ArchiveLimits::default()).map_err(|error| wrong(&error.to_string()))
    };
    if is_artifact_set(&content.media_type) {
        let layer = blueprint_layer(&content.bytes).map_err(|problem| wrong(&problem))?;
        return unpack(&layer);
    }
    if !content.media_type.is_empty() && !MEDIA_TYPES.contains(&content.media_type.as_str()) {
        return Err(wrong(&format!(
            "artifact does not match blueprint downloader (check config media type): its media type is {}",
            content.media_type
        )));
    }
    unpack(&content.bytes)
}

fn load_excerpts(error: &LoadError) -> Vec<(String, Excerpt)> {
    let excerpt = |text: &str, position: &groundwork_yaml::Position| Excerpt {
        origin: BLUEPRINT_FILE.to_owned(),
        line: position.line,
        column: Some(position.column),
        text: text.lines().nth(position.line - 1).unwrap_or_default().to_owned(),
    };
    match error {
        LoadError::Undecodable { problem, position: Some(position), text } => {
            vec![(problem.clone(), excerpt(text, position))]
        }
        LoadError::Invalid { errors, positions, text } => errors
            .iter()
            .zip(positions)
            .map(|(error, position)| (error.to_string(), excerpt(text, position)))
            .collect(),
        _ => Vec::new(),
    }
}

/// The place in a template that a rendering error is about.
pub(super) fn template_excerpts(error: &RenderError) -> Vec<(String, Excerpt)> {
    match error {
        RenderError::ImportExecution(ExecutionError::Template(error))
        | RenderError::DeployExecution(ExecutionError::Template(error)) => {
            error.excerpt().map(|excerpt| (error.summary(), excerpt.clone())).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
