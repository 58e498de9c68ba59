//! The blueprint of an Installation (`blueprints.md` 2, `components.md` 6.7).

use groundwork_api::Installation;
use groundwork_blueprint::{
    ArchiveLimits, BLUEPRINT_FILE, Blueprint, Excerpt, ExecutionError, Filesystem, LoadError, RenderError,
};
use groundwork_component::ComponentVersion;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::artifact_set::{blueprint_layer, is_artifact_set};
use super::{JobError, PREREQUISITES};
use crate::error::OperationError;
use crate::reason::Reason;

const RESOURCE_TYPES: [&str; 2] = ["landscaper.gardener.cloud/blueprint", "blueprint"];

/// Accepted media types of a blueprint resource. The compression is detected from the content, not
/// taken from the media type.
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

/// Cache of loaded blueprints, so that their templates and schemas are parsed and compiled once.
///
/// One cache can serve all Installations, because an entry depends on its digest alone.
pub trait BlueprintCache {
    fn get(&self, digest: BlueprintDigest) -> Option<Blueprint>;
    /// Stores a blueprint, or ignores it. Callers never pass a blueprint that failed to load.
    fn keep(&self, digest: BlueprintDigest, blueprint: &Blueprint);
}

/// SHA-256 of the source of a blueprint, including the form of that source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BlueprintDigest([u8; 32]);

/// Finds, unpacks and checks the blueprint. Files that an author tries out bypass the cache.
pub(super) fn resolve(
    installation: &Installation,
    root: Option<&ComponentVersion>,
    tried: Option<&Filesystem>,
    cache: Option<&dyn BlueprintCache>,
) -> Result<Blueprint, JobError> {
    if let Some(files) = tried {
        return load(installation, files.clone(), false, None);
    }
    let refused = |cause: String| JobError::from(blueprint_error(installation, &cause));
    let content = Packed::find(installation, root).map_err(refused)?;
    let kept = cache.map(|cache| (cache, content.digest()));
    if let Some(blueprint) = kept.and_then(|(cache, digest)| cache.get(digest)) {
        return Ok(blueprint);
    }
    let is_inline = matches!(content, Packed::Inline(_));
    let source = if is_inline { None } else { source(installation, root) };
    let files = content.unpack(source.as_deref()).map_err(refused)?;
    let blueprint = load(installation, files, is_inline, source.as_deref())?;
    if let Some((cache, digest)) = kept {
        cache.keep(digest, &blueprint);
    }
    Ok(blueprint)
}

fn load(
    installation: &Installation,
    files: Filesystem,
    is_inline: bool,
    source: Option<&str>,
) -> Result<Blueprint, JobError> {
    Blueprint::load(files).map_err(|error| {
        let excerpts = load_excerpts(&error);
        let cause = match &error {
            LoadError::Unreadable(cause) if is_inline => {
                format!(
                    "unable to read blueprint file from inline defined blueprint: {BLUEPRINT_FILE}: {cause}"
                )
            }
            other => from(source, &other.to_string()),
        };
        JobError { cause: blueprint_error(installation, &cause), excerpts }
    })
}

fn blueprint_error(installation: &Installation, cause: &str) -> OperationError {
    let namespace = installation.metadata.namespace.as_deref().unwrap_or_default();
    let name = installation.metadata.name.as_deref().unwrap_or_default();
    let message = format!("unable to resolve blueprint for {namespace}/{name}: {cause}");
    OperationError::new(PREREQUISITES, Reason::ResolveBlueprint, message)
}

/// Names the resource and the component version that a blueprint comes from, unless it is inline.
fn source(installation: &Installation, root: Option<&ComponentVersion>) -> Option<String> {
    let (reference, root) = (installation.spec.blueprint.reference.as_ref()?, root?);
    let (name, version) = (root.descriptor.name(), root.descriptor.version());
    Some(format!("resource {:?} of component {name}:{version}", reference.resource_name))
}

/// Appends the source of the content to the text of a problem.
fn from(source: Option<&str>, problem: &str) -> String {
    source.map_or_else(|| problem.to_owned(), |source| format!("{problem} ({source})"))
}

/// Blueprint in the packed form of its source.
enum Packed<'a> {
    Inline(&'a Value),
    Archive(Vec<u8>),
    /// Whole OCI artifact, packed into an archive.
    ArtifactSet(Vec<u8>),
}

impl<'a> Packed<'a> {
    fn find(installation: &'a Installation, root: Option<&ComponentVersion>) -> Result<Self, String> {
        let blueprint = &installation.spec.blueprint;
        if let Some(inline) = &blueprint.inline {
            let tree =
                inline.filesystem.get().ok_or("no remote reference nor a inline blueprint is defined")?;
            return Ok(Self::Inline(tree));
        }
        let reference =
            blueprint.reference.as_ref().ok_or("no remote reference nor a inline blueprint is defined")?;
        let root = root.ok_or("no component descriptor reference defined")?;
        let resource =
            root.descriptor.resource(&reference.resource_name).map_err(|error| error.to_string())?;
        let source = source(installation, Some(root));
        let wrong = |problem: &str| from(source.as_deref(), problem);
        if !RESOURCE_TYPES.contains(&resource.type_name.as_str()) {
            return Err(wrong(&format!("no handler found for resource type {}", resource.type_name)));
        }
        let content = root.content(&resource).map_err(|error| error.to_string())?;
        if is_artifact_set(&content.media_type) {
            return Ok(Self::ArtifactSet(content.bytes));
        }
        if !content.media_type.is_empty() && !MEDIA_TYPES.contains(&content.media_type.as_str()) {
            return Err(wrong(&format!(
                "artifact does not match blueprint downloader (check config media type): its media type is {}",
                content.media_type
            )));
        }
        Ok(Self::Archive(content.bytes))
    }

    fn digest(&self) -> BlueprintDigest {
        let text;
        let (form, bytes) = match self {
            Self::Inline(tree) => {
                text = tree.to_string();
                ("inline", text.as_bytes())
            }
            Self::Archive(bytes) => ("archive", &bytes[..]),
            Self::ArtifactSet(bytes) => ("artifact set", &bytes[..]),
        };
        let hash = Sha256::new().chain_update(form).chain_update([0]).chain_update(bytes);
        BlueprintDigest(hash.finalize().into())
    }

    fn unpack(&self, source: Option<&str>) -> Result<Filesystem, String> {
        let wrong = |problem: &str| from(source, problem);
        let unpack = |bytes: &[u8]| {
            Filesystem::from_archive(bytes, ArchiveLimits::default())
                .map_err(|error| wrong(&error.to_string()))
        };
        match self {
            Self::Inline(tree) => Filesystem::from_inline(tree).map_err(|error| error.to_string()),
            Self::Archive(bytes) => unpack(bytes),
            Self::ArtifactSet(bytes) => unpack(&blueprint_layer(bytes).map_err(|problem| wrong(&problem))?),
        }
    }
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
        LoadError::Invalid { errors, positions, text, .. } => errors
            .iter()
            .zip(positions)
            .map(|(error, position)| (error.to_string(), excerpt(text, position)))
            .collect(),
        _ => Vec::new(),
    }
}

/// Returns the place in a template where a rendering error occurred.
pub(super) fn template_excerpts(error: &RenderError) -> Vec<(String, Excerpt)> {
    match error {
        RenderError::ImportExecution(ExecutionError::Template(error))
        | RenderError::DeployExecution(ExecutionError::Template(error)) => {
            error.excerpt().map(|excerpt| (error.summary(), excerpt.clone())).into_iter().collect()
        }
        _ => Vec::new(),
    }
}
