//! Output of kubectl for our kinds: names, columns, explanations, and the files of `k8s/` (O-01,
//! I-01, I-26, V-048, `installations.md` 1.1 to 1.5, `packagevariants.md` 1.2 and 1.4).

use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use groundwork_testkit::{ControlPlane, Server, servers_or_skip};
use groundwork_tests::{Cluster, cluster, manifests_in, workspace};
use serde_json::{Value, json};

/// Returns a cluster and checks that there is a kubectl for it.
async fn with_kubectl(namespace: &str) -> Result<Option<Cluster>> {
    if !servers_or_skip(&[Server::Kubectl]) {
        return Ok(None);
    }
    cluster(namespace).await
}

fn kubectl(plane: &ControlPlane, arguments: &[&str]) -> Result<String> {
    kubectl_with_input(plane, arguments, "")
}

fn kubectl_with_input(plane: &ControlPlane, arguments: &[&str], input: &str) -> Result<String> {
    let mut command = plane.kubectl()?;
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    child.stdin.take().context("standard input is a pipe")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test]
async fn short_names_and_columns() -> Result<()> {
    let Some(cluster) = with_kubectl("columns").await? else {
        return Ok(());
    };
    for manifest in manifests_in("examples")? {
        cluster.create(&manifest).await?;
    }
    let header = |name: &str| -> Result<Vec<String>> {
        let table = kubectl(cluster.plane(), &["get", name, "-n", cluster.namespace()])?;
        let first = table.lines().next().unwrap_or_default();
        Ok(first.split("  ").map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect())
    };
    let check = |names: &[&str], expected: &[&str]| -> Result<()> {
        for name in names {
            let found = header(name)?;
            ensure!(found == expected, "{name}: {found:?} instead of {expected:?}");
        }
        Ok(())
    };
    check(
        &["inst", "installations"],
        &["NAME", "PHASE", "EXECUTION", "COMPONENT", "VERSION", "REASON", "AGE"],
    )?;
    installations_tell_more_when_asked(&cluster)?;
    let all = kubectl(cluster.plane(), &["get", "all", "-n", cluster.namespace()])?;
    ensure!(
        all.contains("installation.landscaper.gardener.cloud/"),
        "kubectl get all shows no Installations: {all}"
    );
    check(&["exec"], &["NAME", "PHASE", "EXPORTREF", "AGE"])?;
    check(&["di"], &["NAME", "TYPE", "PHASE", "EXPORTREF", "AGE"])?;
    check(&["dobj", "do"], &["NAME", "CONTEXT", "KEY", "AGE"])?;
    check(&["tgt", "tg"], &["NAME", "TYPE", "CONTEXT", "KEY", "IDX", "TMKEY", "AGE"])?;
    check(&["ctx"], &["NAME", "AGE"])?;
    check(&["cvo", "compveroverwrite"], &["NAME", "AGE"])?;
    check(
        &["packagevariants"],
        &["NAME", "UPSTREAM", "REVISION", "REPOSITORY", "PACKAGE", "READY", "STALLED", "AGE"],
    )?;
    check(&["packagevariantsets"], &["NAME", "READY", "STALLED", "VARIANTS", "AGE"])?;
    check(
        &["repo"],
        &["NAME", "TYPE", "CONTENT", "SYNC SCHEDULE", "DEPLOYMENT", "READY", "ADDRESS", "BRANCH", "AGE"],
    )?;
    let rows = kubectl(cluster.plane(), &["get", "repo", "-n", cluster.namespace(), "--no-headers"])?;
    ensure!(
        rows.contains("https://git.example.org/catalog.git")
            && rows.contains("registry.example.org/packages")
    );
    let rows =
        kubectl(cluster.plane(), &["get", "tgt", "cluster-a", "-n", cluster.namespace(), "--no-headers"])?;
    let cells: Vec<_> = rows.split_whitespace().take(6).collect();
    ensure!(
        cells
            == [
                "cluster-a",
                "landscaper.gardener.cloud/kubernetes-cluster",
                "Installation.prod.shop",
                "cluster",
                "0",
                "blue"
            ],
        "{rows}"
    );
    let published = kubectl(
        cluster.plane(),
        &[
            "get",
            "packagerevisions",
            "-A",
            "--field-selector",
            "spec.lifecycle=Published,spec.repository=catalog",
        ],
    )?;
    ensure!(
        published.contains("catalog.net.coredns.first") && !published.contains("catalog.dns-"),
        "{published}"
    );
    Ok(())
}

/// The line of an Installation shows what its job used and why it failed. With `-o wide` it also
/// shows context, job and message.
fn installations_tell_more_when_asked(cluster: &Cluster) -> Result<()> {
    let of = ["-n", cluster.namespace()];
    let blueprint = json!({"inline": {"filesystem": {}}});
    let object = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation", "metadata": {"name": "told"},
        "spec": {"context": "mine", "blueprint": blueprint},
    });
    let create = [&["create", "-f", "-"][..], &of].concat();
    kubectl_with_input(cluster.plane(), &create, &object.to_string())?;
    let time = "2026-01-01T00:00:00Z";
    let error = json!({
        "operation": "o", "reason": "ImportsSatisfied", "message": "it-lacks", "lastTransitionTime": time, "lastUpdateTime": time,
    });
    let status = json!({"status": {
        "phase": "Failed", "jobID": "job-1", "lastError": error, "observedGeneration": 1,
        "componentReference": {"componentName": "example.org/shop", "version": "v1.2.3"},
    }});
    let patch = ["patch", "installation", "told", "--subresource=status", "--type=merge", "-p"];
    kubectl(cluster.plane(), &[&patch[..], &[&status.to_string()], &of].concat())?;
    let get = ["get", "installation", "told", "--no-headers"];
    let cells = |wide: &[&str]| -> Result<Vec<String>> {
        let row = kubectl(cluster.plane(), &[&get[..], wide, &of].concat())?;
        Ok(row.split_whitespace().map(str::to_owned).collect())
    };
    let (row, wide) = (cells(&[])?, cells(&["-o", "wide"])?);
    let told = ["told", "Failed", "example.org/shop", "v1.2.3", "ImportsSatisfied"];
    ensure!(row.len() == 6 && row[..5] == told, "{row:?}");
    ensure!(
        wide.len() == 9 && wide[..8] == [&told[..], &["mine", "job-1", "it-lacks"]].concat()[..],
        "{wide:?}"
    );
    Ok(())
}

#[tokio::test]
async fn explanations() -> Result<()> {
    let Some(cluster) = with_kubectl("explanations").await? else {
        return Ok(());
    };
    for field in [
        "componentversionoverwrites.overwrites.source",
        "inst.spec.componentDescriptor",
        "inst.spec.imports.targets.targetMap",
        "packagevariantsets.spec.targets.template.injectorExprs",
    ] {
        let text = explanation(&cluster, field).await?;
        ensure!(text.contains("DESCRIPTION:") && !text.contains("<empty>"), "{field}: {text}");
    }
    Ok(())
}

/// Returns the output of `kubectl explain`, with retries: the server publishes a schema a moment
/// after the CRD is established.
async fn explanation(cluster: &Cluster, field: &str) -> Result<String> {
    for _ in 0..30 {
        if let Ok(text) = kubectl(cluster.plane(), &["explain", field]) {
            return Ok(text);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    kubectl(cluster.plane(), &["explain", field])
}

#[tokio::test]
async fn the_files_are_a_kustomization() -> Result<()> {
    let Some(cluster) = with_kubectl("kustomization").await? else {
        return Ok(());
    };
    let crds = workspace().join("k8s/crds").display().to_string();
    let text = kubectl(cluster.plane(), &["apply", "--server-side", "--dry-run=server", "-k", &crds])?;
    ensure!(text.lines().count() == groundwork_api::crds().len(), "{text}");
    Ok(())
}

/// Landscaper's deployers list the first record when they start, and write both in this form
/// (`installations.md` 1.5).
#[tokio::test]
async fn records_of_the_reference_are_kept() -> Result<()> {
    let Some(cluster) = with_kubectl("records").await? else {
        return Ok(());
    };
    let none = kubectl(cluster.plane(), &["get", "criticalproblems,syncobjects", "-A", "--no-headers"])?;
    ensure!(none.is_empty(), "{none}");
    let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec});
    let time = "2026-01-01T00:00:00Z";
    let problem = json!({"podName": "pod", "creationTime": time, "description": "it fell"});
    let lock = json!({"podName": "", "kind": "DeployItem", "name": "item", "lastUpdateTime": time, "prefix": "helm"});
    let written = [
        object("CriticalProblems", "critical-problems", json!({"criticalProblem": [problem]})),
        object("SyncObject", "lock", lock),
    ];
    let input = json!({"apiVersion": "v1", "kind": "List", "items": written}).to_string();
    let apply = ["apply", "--validate=strict", "-n", cluster.namespace(), "-f", "-"];
    kubectl_with_input(cluster.plane(), &apply, &input)?;
    for object in written {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let kind = object["kind"].as_str().unwrap_or_default();
        let stored = kubectl(cluster.plane(), &["get", kind, name, "-n", cluster.namespace(), "-o", "json"])?;
        let stored: Value = serde_json::from_str(&stored)?;
        ensure!(stored["spec"] == object["spec"], "{stored}");
    }
    Ok(())
}

#[tokio::test]
async fn kubectl_apply_accepts_the_examples() -> Result<()> {
    let Some(cluster) = with_kubectl("kubectl").await? else {
        return Ok(());
    };
    // Client-side apply reads `null` as the wish to remove a field, which no schema can change.
    let manifests = manifests_in("examples")?.into_iter().map(|manifest| manifest.document);
    let manifests: Vec<_> =
        manifests.filter(|manifest| !holds_null(manifest) && has_name(manifest)).collect();
    ensure!(manifests.len() > 20, "only {} manifests are left", manifests.len());
    let input = json!({"apiVersion": "v1", "kind": "List", "items": manifests}).to_string();
    let apply = ["apply", "--validate=strict", "-n", cluster.namespace(), "-f", "-"];
    let first = kubectl_with_input(cluster.plane(), &apply, &input)?;
    ensure!(first.lines().all(|line| line.ends_with(" created")), "{first}");
    // A GitOps tool applies repeatedly, so a second apply must not change any object.
    kubectl_with_input(cluster.plane(), &apply, &input)?;
    let columns = "-o=custom-columns=KIND:.kind,NAME:.metadata.name,GENERATION:.metadata.generation";
    let get = ["get", "-n", cluster.namespace(), columns, "--no-headers", "-f", "-"];
    let found = kubectl_with_input(cluster.plane(), &get, &input)?;
    ensure!(
        found.lines().count() == manifests.len() && found.lines().all(|line| line.ends_with(" 1")),
        "{found}"
    );
    Ok(())
}

fn has_name(manifest: &Value) -> bool {
    manifest["metadata"]["name"].is_string()
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(elements) => elements.iter().any(holds_null),
        Value::Object(members) => members.values().any(holds_null),
        _ => false,
    }
}
