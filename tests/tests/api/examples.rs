//! The chapters' examples, and manifests with every field, are accepted under strict validation,
//! stored, and unchanged after a round trip through the Rust types. O-01, O-11 to O-13, O-19, O-31,
//! O-32, I-06, I-23, I-123, V-048, V-049, V-052, V-123, V-127 and V-152 ask for no more. Tests of
//! the services show the effects of the other examples.

use anyhow::{Context, Result, ensure};
use groundwork_api::{BlueprintReference, Installation, Kind, Target};
use groundwork_tests::{Cluster, Manifest, Part, cluster, manifests_in};
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::json::{ensure_contains, through_rust};

/// Returns the part of an object that a user or a service writes.
fn payload(object: &Value) -> Value {
    let mut payload = object.clone();
    if let Some(members) = payload.as_object_mut() {
        members.remove("metadata");
    }
    payload
}

fn without_status(object: &Value) -> Value {
    let mut rest = payload(object);
    if let Some(members) = rest.as_object_mut() {
        members.remove("status");
    }
    rest
}

async fn check_stored(cluster: &Cluster, manifest: &Manifest) -> Result<()> {
    let stored = cluster.create(manifest).await?;
    ensure_contains(&stored, &without_status(&manifest.document), "")?;
    ensure!(through_rust(manifest.kind(), &stored)? == stored, "the Rust type changes it");
    if manifest.document.get("status").is_some() {
        let stored = cluster.replace(manifest, Part::Status).await?;
        ensure_contains(&stored, &payload(&manifest.document), "")?;
        ensure!(through_rust(manifest.kind(), &stored)? == stored, "the Rust type changes the status");
    }
    Ok(())
}

#[tokio::test]
async fn all_are_stored_without_loss() -> Result<()> {
    let Some(cluster) = cluster("examples").await? else {
        return Ok(());
    };
    for manifest in manifests_in("examples")? {
        check_stored(&cluster, &manifest).await.with_context(|| manifest.to_string())?;
    }
    Ok(())
}

#[tokio::test]
async fn server_side_apply_keeps_them_too() -> Result<()> {
    let Some(cluster) = cluster("applied").await? else {
        return Ok(());
    };
    for manifest in manifests_in("examples")?.iter().filter(|manifest| !manifest.name().is_empty()) {
        let mut manifest = manifest.clone();
        if let Some(members) = manifest.document.as_object_mut() {
            members.remove("status");
        }
        let applied = cluster.apply(&manifest).await.with_context(|| manifest.to_string())?;
        ensure_contains(&applied, &payload(&manifest.document), "").with_context(|| manifest.to_string())?;
    }
    Ok(())
}

#[test]
fn the_rust_types_change_nothing_in_a_file() -> Result<()> {
    for manifest in manifests_in("examples")? {
        let written =
            through_rust(manifest.kind(), &manifest.document).with_context(|| manifest.to_string())?;
        ensure_contains(&written, &manifest.document, "").with_context(|| manifest.to_string())?;
        ensure_contains(&manifest.document, &written, "").with_context(|| manifest.to_string())?;
    }
    Ok(())
}

/// Each service applies its own condition, in any order, and the conditions of the others stay.
#[tokio::test]
async fn services_share_the_conditions() -> Result<()> {
    let Some(cluster) = cluster("conditions").await? else {
        return Ok(());
    };
    let api = cluster.api::<Installation>();
    let mut installation = Installation::default();
    installation.metadata.name = Some("shared".to_owned());
    installation.spec.blueprint.reference =
        Some(BlueprintReference { resource_name: "blueprint".to_owned() });
    let created = api.create(&PostParams::default(), &installation).await?;
    ensure!(created.spec.context.as_deref() == Some("default"), "{:?}", created.spec.context);

    for (manager, type_) in [("resolver", "A"), ("renderer", "B"), ("resolver", "A")] {
        let condition = json!({
            "type": type_, "status": "True", "reason": "r", "message": manager,
            "lastTransitionTime": "2026-02-03T04:05:06Z", "lastUpdateTime": "2026-02-03T04:05:06Z",
        });
        let patch = json!({
            "apiVersion": Installation::API_VERSION, "kind": Installation::KIND,
            "status": {"conditions": [condition]},
        });
        api.patch_status("shared", &PatchParams::apply(manager).force(), &Patch::Apply(patch)).await?;
    }
    let status = api.get("shared").await?.status.context("a status was written")?;
    let types: Vec<_> = status.conditions.iter().map(|condition| condition.type_.as_str()).collect();
    ensure!(types == ["A", "B"] && status.observed_generation == 0, "{status:?}");

    let mut changed = api.get("shared").await?;
    let status = changed.status.get_or_insert_default();
    status.phase = Some("Succeeded".to_owned());
    status.observed_generation = 1;
    let replaced = api.replace_status("shared", &PostParams::default(), &changed).await?;
    ensure!(replaced.status == changed.status, "{:?}", replaced.status);
    Ok(())
}

/// `null` means absent, so it is accepted beside an alternative field (`installations.md` 1.0).
#[tokio::test]
async fn null_counts_as_absent() -> Result<()> {
    let Some(cluster) = cluster("nulls").await? else {
        return Ok(());
    };
    let check = async |kind: &str, spec: Value| -> Result<()> {
        let document = json!({
            "apiVersion": Target::API_VERSION, "kind": kind, "metadata": {"generateName": "a-"}, "spec": spec,
        });
        let stored = cluster.create(&Manifest { file: "examples.rs".into(), document }).await?;
        ensure!(through_rust(kind, &stored)? == stored, "the Rust type changes it");
        Ok(())
    };
    check("Target", json!({"type": "example.org/own", "config": null, "secretRef": {"name": "b"}})).await?;
    check("Target", json!({"type": "example.org/own", "config": {}, "secretRef": null})).await?;
    check(
        "Installation",
        json!({
            "componentDescriptor": {"ref": {"componentName": "a", "version": "b"}, "inline": null},
            "blueprint": {"ref": null, "inline": {"filesystem": null}},
            "imports": {
                "data": [{"name": "a", "dataRef": "b", "secretRef": null, "configMapRef": null}],
                "targets": [{"name": "b", "target": "c", "targets": null, "targetMap": null}],
            },
            "exports": null,
        }),
    )
    .await?;
    check("Installation", json!({"componentDescriptor": null, "blueprint": {"ref": {"resourceName": "b"}}}))
        .await
}
