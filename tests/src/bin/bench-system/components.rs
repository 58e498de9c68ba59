//! Benchmark of components: the cost to resolve a large one, the resolver's memory for many, and
//! the transfer of a large resource to a client.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use groundwork_api::{ComponentVersionOverwrites, Installation};
use groundwork_component::RepositoryContext;
use groundwork_grpc::{Channel, TokenSource, connect, with_limits};
use groundwork_proto::component::v1::{Json, ObjectName, Reference};
use groundwork_proto::resolver::v1::fetch_resource_request::Content;
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::resolver::v1::{FetchResourceRequest, GetDescriptorRequest, ResolveRequest};
use groundwork_registry::{CtfWriter, LocalBlob};
use groundwork_testkit::{Registry, RegistryOptions};
use groundwork_tests::{System, SystemOptions};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Map, Value, json};

use crate::NO_SERVERS;
use crate::process::usage;
use crate::scenario::{Bench, rounded};
use crate::watch;

const NAMESPACE: &str = "bench-components";
const PATIENCE: Duration = Duration::from_secs(600);
/// Number of rules in the overwrites. One of ten rules matches a component of each set.
const RULES: usize = 100;
/// Number of timed calls.
const CALLS: usize = 200;
const LARGE: &str = "example.org/large";

/// Size of the benchmark.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scale {
    /// Number of component sets. Each set has one root component, and each version in it refers to
    /// ten others.
    pub(crate) sets: usize,
    pub(crate) versions: usize,
    /// Size of the large resource in MiB.
    pub(crate) megabytes: usize,
}

/// Starts a system and measures its resolver.
pub(crate) async fn components(binaries: PathBuf, scale: Scale) -> Result<Map<String, Value>> {
    let folder = tempfile::tempdir()?;
    let registry = Registry::start(&RegistryOptions::default()).await?;
    write(&folder.path().join("sets"), "sets.example.org", |writer| {
        for set in 0..scale.sets {
            for number in 0..scale.versions {
                writer.add(&descriptor(set, number, scale.versions), &[])?;
            }
        }
        Ok(())
    })?;
    push_large(&binaries, folder.path(), &registry, scale.megabytes).await?;
    let map = json!({"repositories": [
        {"context": context("sets.example.org"), "directory": "sets"},
        {"context": context("large.example.org"), "url": format!("http://{}/large", registry.address())},
    ]});
    let path = folder.path().join("repositories.yaml");
    std::fs::write(&path, map.to_string())?;
    let options =
        SystemOptions { binaries: Some(binaries), repositories: Some(path), ..SystemOptions::default() };
    let system = System::start(options).await?.context(NO_SERVERS)?;
    let mut bench = Bench::of(system, NAMESPACE).await?;
    bench.components(scale).await
}

impl Bench {
    async fn components(&mut self, scale: Scale) -> Result<Map<String, Value>> {
        let mut figures = Map::new();
        let mut figure = |name: &str, value: Value| drop(figures.insert(format!("components.{name}"), value));
        let client = self.system.client().await?;
        self.write_rules().await?;
        let installations: Api<Installation> = Api::namespaced(client.clone(), NAMESPACE);
        let create = PostParams::default();
        let idle = self.resolver()?;
        for set in 0..scale.sets {
            let start = Instant::now();
            installations
                .create(&create, &installation(&format!("set-{set}"), &name(set, 0), "sets")?)
                .await?;
            watch::until(&installations, 1, PATIENCE, |found| is_done(found, &format!("set-{set}"))).await?;
            figure(&format!("set_{set}.job_seconds"), rounded(start.elapsed().as_secs_f64()));
        }
        figure("descriptors", json!(scale.sets * scale.versions));
        figure("resolver.idle_mib", rounded(idle.peak));
        figure("resolver.peak_mib", rounded(self.resolver()?.peak));

        let mut resolver = self.caller().await?;
        let object = |name: &str| Some(ObjectName { namespace: NAMESPACE.to_owned(), name: name.to_owned() });
        let job = installations.get("set-0").await?.status.and_then(|status| status.job_id);
        let request = ResolveRequest { installation: object("set-0"), job_id: job.context("it has a job")? };
        let mut times = Vec::new();
        for _ in 0..CALLS {
            let start = Instant::now();
            resolver.resolve(request.clone()).await?;
            times.push(start.elapsed().as_secs_f64() * 1000.0);
        }
        times.sort_by(f64::total_cmp);
        figure("resolve_warm.median_ms", rounded(times[CALLS / 2]));
        figure("resolve_warm.p99_ms", rounded(times[CALLS * 99 / 100]));

        installations.create(&create, &installation("large", LARGE, "large")?).await?;
        watch::until(&installations, 1, PATIENCE, |found| is_done(found, "large")).await?;
        let before = self.resolver()?;
        let start = Instant::now();
        let (bytes, grown) = fetch_large(&mut resolver, object("large")).await?;
        ensure!(bytes == scale.megabytes << 20, "{bytes} bytes came");
        figure("fetch.mib", json!(scale.megabytes));
        figure("fetch.seconds", rounded(start.elapsed().as_secs_f64()));
        figure("fetch.resolver_grown_mib", rounded((self.resolver()?.peak - before.peak).max(0.0)));
        figure("fetch.client_grown_mib", rounded(grown));
        Ok(figures)
    }

    fn resolver(&self) -> Result<crate::process::Usage> {
        usage(self.system.service("resolver")?.program.pid()?)
    }

    async fn write_rules(&self) -> Result<()> {
        let client = self.system.client().await?;
        let rules: Vec<Value> = (1..=RULES)
            .map(|number| {
                json!({
                    "source": {"componentName": name(number % 10, number)},
                    "substitution": {"version": "v2.0.0"},
                })
            })
            .collect();
        let object: ComponentVersionOverwrites = serde_json::from_value(json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "ComponentVersionOverwrites",
            "metadata": {"name": "rules"}, "overwrites": rules,
        }))?;
        Api::namespaced(client.clone(), NAMESPACE).create(&PostParams::default(), &object).await?;
        let contexts: Api<groundwork_api::Context> = Api::namespaced(client, NAMESPACE);
        let change = json!({"componentVersionOverwrites": "rules"});
        contexts.patch("default", &PatchParams::default(), &Patch::Merge(&change)).await?;
        Ok(())
    }

    /// Returns a client of the resolver with full rights.
    async fn caller(&self) -> Result<ResolverClient<Channel>> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.system.client().await?, NAMESPACE);
        let account = serde_json::from_value(json!({"metadata": {"name": "caller"}}))?;
        accounts.create(&PostParams::default(), &account).await?;
        let to = ["--clusterrole=cluster-admin", &format!("--serviceaccount={NAMESPACE}:caller")];
        self.system.kubectl(&[&["create", "clusterrolebinding", "caller"][..], &to].concat()).await?;
        let token = self.system.plane.service_account_token(NAMESPACE, "caller").await?;
        let url = format!("http://127.0.0.1:{}", self.system.grpc_port("resolver"));
        Ok(with_limits!(ResolverClient::new(connect(&url, None, TokenSource::fixed(&token))?)))
    }
}

/// Reads the large resource without keeping it. Returns the number of bytes, and the growth of this
/// process in MiB during the transfer.
async fn fetch_large(
    resolver: &mut ResolverClient<Channel>,
    installation: Option<ObjectName>,
) -> Result<(usize, f64)> {
    let reference = Some(Reference {
        repository_context: Some(Json { text: context("large.example.org").to_string() }),
        name: LARGE.to_owned(),
        version: "v1.0.0".to_owned(),
    });
    let request = GetDescriptorRequest {
        reference: reference.clone(),
        installation: installation.clone(),
        planning: None,
    };
    let text = resolver.get_descriptor(request).await?.into_inner().descriptor.context("it is there")?;
    let document: Value = groundwork_yaml::from_str(&String::from_utf8(text)?)?;
    let access = document["component"]["resources"][0]["access"].to_string();
    let request = FetchResourceRequest {
        planning: None,
        reference,
        installation,
        job_id: String::new(),
        content: Some(Content::Access(Json { text: access })),
        offset: 0,
    };
    let own = std::process::id();
    let (before, mut most, mut bytes) = (usage(own)?.resident, 0.0_f64, 0);
    let mut pieces = resolver.fetch_resource(request).await?.into_inner();
    while let Some(piece) = pieces.message().await? {
        bytes += piece.chunk.len();
        most = most.max(usage(own)?.resident);
    }
    Ok((bytes, (most - before).max(0.0)))
}

fn is_done(installation: &Installation, name: &str) -> bool {
    let phase = installation.status.as_ref().and_then(|status| status.phase.clone());
    installation.metadata.name.as_deref() == Some(name)
        && phase.is_some_and(|phase| phase.as_str() == "Succeeded")
}

fn context(base_url: &str) -> Value {
    json!({"type": "ociRegistry", "baseUrl": base_url})
}

fn name(set: usize, number: usize) -> String {
    format!("example.org/set-{set}/component-{number}")
}

fn descriptor(set: usize, number: usize, versions: usize) -> Value {
    let version = if number % 10 == set && (1..=RULES).contains(&number) { "v2.0.0" } else { "v1.0.0" };
    // The references form a tree of ten children each. A chain would exceed the depth limit of the
    // component closure.
    let next = (10 * number + 1).min(versions)..(10 * number + 11).min(versions);
    let references: Vec<Value> = next
        .map(|next| json!({"name": format!("c-{next}"), "componentName": name(set, next), "version": "v1.0.0"}))
        .collect();
    let resources: Vec<Value> = (0..3)
        .map(|number| {
            let image = format!("registry.example.org/images/image-{number}:1.0.0");
            json!({
                "name": format!("image-{number}"), "version": "1.0.0", "type": "ociImage", "relation": "external",
                "access": {"type": "ociArtifact", "imageReference": image},
            })
        })
        .collect();
    json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": name(set, number), "version": version, "provider": "example.org", "sources": [],
        "repositoryContexts": [], "componentReferences": references, "resources": resources,
    }})
}

fn write(folder: &Path, base_url: &str, add: impl FnOnce(&mut CtfWriter) -> Result<()>) -> Result<()> {
    let context = RepositoryContext::new(context(base_url)).context("it is a context")?;
    let mut writer = CtfWriter::create(folder, context)?;
    add(&mut writer)?;
    writer.finish()?;
    Ok(())
}

async fn push_large(binaries: &Path, folder: &Path, registry: &Registry, megabytes: usize) -> Result<()> {
    let document = json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": LARGE, "version": "v1.0.0", "provider": "example.org", "sources": [], "repositoryContexts": [],
        "componentReferences": [],
        "resources": [{"name": "data", "version": "v1.0.0", "type": "blob", "relation": "local"}],
    }});
    let source = folder.join("large");
    write(&source, "large.example.org", |writer| {
        let media_type = "application/octet-stream".to_owned();
        let blob = LocalBlob { resource: "data".to_owned(), media_type, bytes: vec![7; megabytes << 20] };
        Ok(writer.add(&document, &[blob])?)
    })?;
    let to = format!("http://{}/large", registry.address());
    let mut push = tokio::process::Command::new(binaries.join("groundwork"));
    let output = push.args(["component", "push"]).arg(&source).args(["--to", &to]).output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

fn installation(name: &str, component: &str, repository: &str) -> Result<Installation> {
    let blueprint = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n";
    let reference = json!({
        "repositoryContext": context(&format!("{repository}.example.org")), "componentName": component, "version": "v1.0.0",
    });
    Ok(serde_json::from_value(json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
        "metadata": {
            "name": name, "namespace": NAMESPACE,
            "annotations": {"landscaper.gardener.cloud/operation": "reconcile"},
        },
        "spec": {
            "componentDescriptor": {"ref": reference},
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint}}},
        },
    }))?)
}
