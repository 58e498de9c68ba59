//! Manifests from other projects apply unchanged.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use groundwork_api::{Blueprint, INSTALLATION_TEMPLATE_KIND, blueprint_schema};
use groundwork_component::{Descriptor, Leniency};
use groundwork_testkit::{fixture, skipped};
use groundwork_tests::{Cluster, Manifest, UnknownFields, cluster, documents, files_below, fixtures};
use serde::Deserialize;
use serde_json::Value;

use crate::json::{ensure_contains, through_rust};

/// Fields that some manifests have although no version of their kind has them. Landscaper's
/// decoders ignore them. Its CRDs reject them under strict validation, as ours do.
const NO_FIELDS: [&str; 3] =
    ["spec.componentDescriptor.ref.kind", ".secretRef.namespace", ".configMapRef.namespace"];

#[tokio::test]
async fn all_are_accepted_under_strict_validation() -> Result<()> {
    let Some(fixtures) = fixtures()? else {
        return Ok(());
    };
    let Some(cluster) = cluster("fixtures").await? else {
        return Ok(());
    };
    ensure!(!fixtures.manifests.is_empty(), "the folder of fixtures has no manifest of our kinds");
    if !fixtures.unreadable.is_empty() {
        skipped(&format!("{} manifests that are templates of a test suite", fixtures.unreadable.len()));
    }
    let mut errors = Vec::new();
    let mut lenient = 0;
    for manifest in &fixtures.manifests {
        match check(&cluster, manifest).await.with_context(|| manifest.to_string()) {
            Ok(UnknownFields::Refused) => {}
            Ok(UnknownFields::Dropped) => lenient += 1,
            Err(error) => errors.push(format!("{error:#}")),
        }
    }
    if lenient > 0 {
        skipped(&format!("strict validation of {lenient} manifests with fields that their kinds never had"));
    }
    ensure!(errors.is_empty(), "of {} manifests:\n{}", fixtures.manifests.len(), errors.join("\n"));
    Ok(())
}

/// Tries a manifest under strict validation, and without it if the manifest has a field that never
/// existed.
async fn check(cluster: &Cluster, manifest: &Manifest) -> Result<UnknownFields> {
    match cluster.try_create(manifest, UnknownFields::Refused).await {
        Ok(stored) => {
            ensure_contains(&stored["spec"], &manifest.document["spec"], ".spec")?;
            ensure!(through_rust(manifest.kind(), &stored)? == stored, "the Rust type changes it");
            Ok(UnknownFields::Refused)
        }
        Err(error) => {
            let text = error.to_string();
            let unknown: BTreeSet<_> =
                text.split("unknown field \"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
            let known = |field: &&str| NO_FIELDS.iter().any(|end| field.ends_with(end));
            ensure!(!unknown.is_empty() && unknown.iter().all(known), "{text}");
            let stored = cluster.try_create(manifest, UnknownFields::Dropped).await?;
            ensure!(through_rust(manifest.kind(), &stored)? == stored, "the Rust type changes it");
            Ok(UnknownFields::Dropped)
        }
    }
}

/// Function that reads a file of a certain name.
type Reader = fn(&Value) -> Result<(), String>;

/// Files that are not objects of a cluster.
const FILES: [(&str, Reader); 2] = [
    ("blueprint.yaml", |document| {
        let blueprint = Blueprint::deserialize(document).map_err(|error| error.to_string())?;
        let written = serde_json::to_value(blueprint).map_err(|error| error.to_string())?;
        ensure_contains(&written, document, "").map_err(|error| error.to_string())?;
        // One file of this name is an InstallationTemplate, which the schema of blueprints rightly
        // rejects.
        if document["kind"] == INSTALLATION_TEMPLATE_KIND {
            return Ok(());
        }
        jsonschema::validate(&blueprint_schema(), document).map_err(|error| format!("schema: {error}"))
    }),
    ("component-descriptor.yaml", |document| {
        // A descriptor keeps its document, so a round trip cannot lose a field.
        let descriptor = Descriptor::from_document(document.clone(), Leniency::Strict);
        descriptor.map(drop).map_err(|error| error.to_string())
    }),
];

#[test]
fn files_are_read_without_loss() -> Result<()> {
    let Some(folder) = fixture("") else {
        return Ok(());
    };
    let mut errors = Vec::new();
    let mut count = 0;
    for file in files_below(&folder)? {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let Some((_, read)) = FILES.iter().find(|(end, _)| name.ends_with(end)) else {
            continue;
        };
        count += 1;
        let document = documents(&fs::read_to_string(&file)?)?.into_iter().next().unwrap_or_default();
        errors.extend(read(&document).err().map(|error| format!("{}: {error}", file.display())));
    }
    ensure!(count > 0, "the folder of fixtures has no such file");
    ensure!(errors.is_empty(), "of {count} files:\n{}", errors.join("\n"));
    Ok(())
}
