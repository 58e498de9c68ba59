//! Tests of the reactions to events: default Contexts, and the condition
//! `ComponentReferenceOutdated`.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::*;
use groundwork_api::{ComponentVersionOverwrites, Context, Installation};
use groundwork_resolver::{Arguments, Settings};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

const OUTDATED: &str = "ComponentReferenceOutdated";
const OVERWRITE: &str = "ComponentReferenceOverwrite";

/// Changes a namespace, and publishes the change.
async fn publish_namespace(world: &World, name: &str) {
    let label = json!({"metadata": {"labels": {"changed": uid()}}});
    let api = Api::<Namespace>::all(world.client.clone());
    let namespace = api.patch(name, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    world.publish_value(&serde_json::to_value(&namespace).unwrap(), "Namespace").await;
}

/// Publishes a late event of a namespace that has been deleted.
async fn publish_late(world: &World, name: &str) {
    let label = json!({"metadata": {"labels": {"changed": uid()}}});
    let api = Api::<Namespace>::all(world.client.clone());
    let mut namespace = api.patch(name, &PatchParams::default(), &Patch::Merge(label)).await.unwrap();
    namespace.metadata.deletion_timestamp = None;
    world.publish_value(&serde_json::to_value(&namespace).unwrap(), "Namespace").await;
}

/// Returns a new unique word.
fn uid() -> String {
    static USED: AtomicUsize = AtomicUsize::new(0);
    format!("v{}", USED.fetch_add(1, Ordering::Relaxed))
}

/// Waits until the resolver has finished at least this number of reconciles.
async fn until_settled(world: &World, times: usize) {
    let count = || {
        let metrics = world.telemetry.metrics.encode().unwrap();
        let prefix = "groundwork_handled_total{service=\"resolver\",outcome=\"settled\"} ";
        metrics.lines().find_map(|line| line.strip_prefix(prefix)?.parse::<usize>().ok()).unwrap_or_default()
    };
    until(async || (count() >= times).then_some(())).await;
}

async fn default_context(world: &World) -> Option<Value> {
    let found = world.api::<Context>().get_opt("default").await.unwrap()?;
    let mut value = serde_json::to_value(&found).unwrap();
    let members = value.as_object_mut().unwrap();
    members.retain(|name, _| !["apiVersion", "kind", "metadata"].contains(&name.as_str()));
    Some(value)
}

/// Case of `components.md` 11, item 5.
#[tokio::test]
async fn every_namespace_gets_a_context() {
    let Some(world) = World::start("contexts", Arguments::default()).await else { return };
    world.publish_markers().await;
    publish_namespace(&world, "contexts").await;
    assert_eq!(until(async || default_context(&world).await).await, json!({}));

    // A Context that a user has written stays unchanged.
    let by_hand =
        "{kind: Context, metadata: {name: default}, repositoryContext: {type: ociRegistry, baseUrl: R2}}";
    world.apply_text(by_hand).await;
    let stored = world.api::<Context>().get("default").await.unwrap();
    publish_namespace(&world, "contexts").await;
    // Two reconciles for the first event, and one for this event.
    until_settled(&world, 3).await;
    assert_eq!(world.api::<Context>().get("default").await.unwrap(), stored);
}

#[tokio::test]
async fn a_configured_repository_is_forced_into_contexts() {
    let settings = Settings {
        default_repository_context: Some(r#"{"type":"ociRegistry","baseUrl":"R1"}"#.to_owned()),
        exclude_namespaces: vec!["forced-excluded".to_owned()],
        ..Settings::default()
    };
    let arguments = Arguments { settings, ..Arguments::default() };
    let Some(world) = World::start("forced", arguments).await else { return };
    let excluded = World::start("forced-excluded", Arguments::default()).await.unwrap();
    world
        .apply_text(
            "{kind: Context, metadata: {name: default}, repositoryContext: {type: ociRegistry, baseUrl: R2}, \
             registryPullSecrets: [{name: s}]}",
        )
        .await;
    world.publish_markers().await;
    publish_namespace(&world, "forced-excluded").await;
    publish_namespace(&world, "forced").await;
    let forced = json!({"repositoryContext": {"type": "ociRegistry", "baseUrl": "R1"}, "registryPullSecrets": [{"name": "s"}]});
    until(async || default_context(&world).await.filter(|found| *found == forced)).await;
    assert_eq!(default_context(&excluded).await, None);
}

/// Without the right to watch namespaces, the configured namespaces get their Context at the start.
#[tokio::test]
async fn named_namespaces_get_a_context_without_events() {
    let Some(other) = World::start("named-other", Arguments::default()).await else { return };
    let mut arguments = Arguments::default();
    arguments.cluster.namespaces = vec!["named".to_owned()];
    let world = World::start("named", arguments).await.unwrap();
    until(async || default_context(&world).await).await;
    assert_eq!(default_context(&other).await, None);
}

/// A namespace that is being deleted must not cause endless retries.
#[tokio::test]
async fn terminating_namespaces_are_left_alone() {
    let Some(world) = World::start("leaving", Arguments::default()).await else { return };
    world.publish_markers().await;
    publish_namespace(&world, "leaving").await;
    until(async || default_context(&world).await).await;
    // The deletion does not finish, since no namespace controller runs here.
    Api::<Namespace>::all(world.client.clone()).delete("leaving", &DeleteParams::default()).await.unwrap();
    let delete = DeleteParams::default();
    world.api::<Context>().delete("default", &delete).await.unwrap();
    // This event still shows the namespace as live; the handler learns of the deletion from the API
    // server's refusal.
    publish_late(&world, "leaving").await;
    until_settled(&world, 4).await;
    assert_eq!(default_context(&world).await, None);
}

const CONTEXT: &str = "
kind: Context
metadata: {name: default}
repositoryContext: {type: ociRegistry, baseUrl: R1}
componentVersionOverwrites: rules
";

fn rules(version: &str) -> String {
    format!(
        "kind: ComponentVersionOverwrites\nmetadata: {{name: rules}}\noverwrites:\n\
         - source: {{componentName: example.org/shop}}\n  substitution: {{version: {version}}}\n"
    )
}

fn shop(name: &str, version: &str) -> String {
    format!(
        "kind: Installation\nmetadata: {{name: {name}}}\nspec:\n  componentDescriptor: {{ref: {{componentName: example.org/shop, \
         version: {version}}}}}\n  blueprint: {{ref: {{resourceName: blueprint}}}}\n"
    )
}

async fn publish_installation(world: &World, name: &str) {
    world.publish::<Installation>(name).await;
}

async fn until_told(world: &World, name: &str, status: &str, message: &str) -> Installation {
    until(async || {
        let installation = world.installation(name).await;
        let (found, _, text) = condition(&installation, OUTDATED)?;
        (found == status && text == message).then_some(installation)
    })
    .await
}

const SAME: &str = "the next reconcile will use the versions of the last one";

fn instead(next: &str, last: &str) -> String {
    format!(
        "the next reconcile will use example.org/shop:{next} from R1 instead of example.org/shop:{last} from R1"
    )
}

#[tokio::test]
async fn changed_rules_are_told_between_jobs() {
    let Some(world) = World::start("outdated", Arguments::default()).await else { return };
    world
        .apply_text(
            &[
                CONTEXT,
                &rules("2.0.0"),
                &shop("shop", "1.0.0"),
                &shop("new", "1.0.0"),
                &shop("running", "1.0.0"),
            ]
            .join("\n---\n"),
        )
        .await;
    world.run_job("shop", "job-1").await;
    world.set_jobs("shop", "job-1", Some("job-1")).await;
    world.run_job("running", "job-1").await;
    world.publish_markers().await;
    for name in ["shop", "new", "running"] {
        publish_installation(&world, name).await;
    }
    world.publish::<Context>("default").await;
    world.publish::<ComponentVersionOverwrites>("rules").await;
    let overwrite = condition(&world.installation("shop").await, OVERWRITE);
    let (new, running) = (world.installation("new").await, world.installation("running").await);

    // First change: the overwrites.
    world.apply_text(&rules("3.0.0")).await;
    world.publish::<ComponentVersionOverwrites>("rules").await;
    let told = until_told(&world, "shop", "True", &instead("3.0.0", "2.0.0")).await;
    assert_eq!(condition(&told, OUTDATED).unwrap().1, "OverwriteChanged");
    assert_eq!(condition(&told, OVERWRITE), overwrite, "it tells what the last job used");
    assert_eq!(owners(&told, OUTDATED), ["groundwork-resolver"]);
    assert_eq!(owners(&told, OVERWRITE), ["groundwork-resolver"]);
    // The Installation without a job and the one with a running job are unchanged.
    assert_eq!(world.installation("new").await, new);
    assert_eq!(world.installation("running").await, running);

    // At the end of the running job, its Installation gets the condition too.
    world.set_jobs("running", "job-1", Some("job-1")).await;
    publish_installation(&world, "running").await;
    until_told(&world, "running", "True", &instead("3.0.0", "2.0.0")).await;

    // The overwrites change back.
    world.apply_text(&rules("2.0.0")).await;
    world.publish::<ComponentVersionOverwrites>("rules").await;
    until_told(&world, "shop", "False", SAME).await;

    // The Context changes.
    world.apply_text("{kind: Context, metadata: {name: default}, repositoryContext: {type: ociRegistry, baseUrl: R1}, componentVersionOverwrites: ''}").await;
    world.publish::<Context>("default").await;
    until_told(&world, "shop", "True", &instead("1.0.0", "2.0.0")).await;

    // The Installation's own reference changes, and the next job uses it.
    world.apply_text(&shop("shop", "1.1.0")).await;
    publish_installation(&world, "shop").await;
    until_told(&world, "shop", "True", &instead("1.1.0", "2.0.0")).await;
    world.run_job("shop", "job-2").await;
    until_told(&world, "shop", "False", SAME).await;
    let now = world.installation("shop").await;
    assert_eq!(condition(&now, OVERWRITE), None);
}

/// After a restart it is unknown which objects changed during a job that still runs.
#[tokio::test]
async fn a_job_that_ran_while_nobody_watched_is_looked_at_when_it_ends() {
    let Some(world) = World::start("restart", Arguments::default()).await else { return };
    world.apply_text(&[CONTEXT, &rules("2.0.0"), &shop("shop", "1.0.0")].join("\n---\n")).await;
    world.run_job("shop", "job-1").await;
    world.apply_text(&rules("3.0.0")).await;
    // The index already has the new rules when the service starts, so no event reports a change.
    publish_installation(&world, "shop").await;
    world.publish::<Context>("default").await;
    world.publish_markers().await;
    world.telemetry.health.until_ready().await;
    world.set_jobs("shop", "job-1", Some("job-1")).await;
    publish_installation(&world, "shop").await;
    until_told(&world, "shop", "True", &instead("3.0.0", "2.0.0")).await;
}

/// The condition also covers the closure: a rule about a transitive reference does not change the
/// Installation's own reference.
#[tokio::test]
async fn a_rule_about_a_transitive_reference_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("repositories.yaml");
    std::fs::write(&map, "repositories:\n- context: {type: local, filePath: store}\n  directory: store\n")
        .unwrap();
    let store = folder.path().join("store");
    std::fs::create_dir(&store).unwrap();
    for (file, name, version, references) in [
        ("a", "shop", "1.0.0", "{name: db, componentName: example.org/db, version: 1.0.0}"),
        ("b", "db", "1.0.0", ""),
        ("c", "db", "2.0.0", ""),
    ] {
        let text = format!(
            "meta: {{schemaVersion: v2}}\ncomponent: {{name: example.org/{name}, version: {version}, provider: p, sources: [], resources: [], \
             repositoryContexts: [], componentReferences: [{references}]}}\n"
        );
        std::fs::write(store.join(file), text).unwrap();
    }
    let settings = Settings { repositories: Some(map), no_default_contexts: true, ..Settings::default() };
    let Some(world) = World::start("transitive", Arguments { settings, ..Arguments::default() }).await else {
        return;
    };
    let rules = |version: &str| {
        format!(
            "{{kind: ComponentVersionOverwrites, metadata: {{name: rules}}, overwrites: [{{source: {{componentName: example.org/db}}, substitution: {{version: {version}}}}}]}}"
        )
    };
    let context = "{kind: Context, metadata: {name: default}, repositoryContext: {type: local, filePath: store}, componentVersionOverwrites: rules}";
    world.apply_text(&[context, &rules("1.0.0"), &shop("shop", "1.0.0")].join("\n---\n")).await;
    let answer = world.run_job("shop", "job-1").await;
    assert_eq!((answer.failure, answer.closure.len()), (None, 2));
    let first = world.set_jobs("shop", "job-1", Some("job-1")).await;
    let closure = first.status.unwrap().component_closure.unwrap();
    world.publish_markers().await;
    world.publish::<Context>("default").await;
    publish_installation(&world, "shop").await;

    world.apply_text(&rules("2.0.0")).await;
    world.publish::<ComponentVersionOverwrites>("rules").await;
    let message = "the next reconcile will use other versions of referenced components; `groundwork explain \
                   overwrites` shows them";
    let told = until_told(&world, "shop", "True", message).await;
    assert_eq!(told.status.unwrap().component_closure.as_deref(), Some(closure.as_str()));

    // The next job uses the new rule.
    let answer = world.run_job("shop", "job-2").await;
    assert_eq!(answer.failure, None);
    let second = world.set_jobs("shop", "job-2", Some("job-2")).await;
    assert_eq!(condition(&second, OUTDATED).unwrap().1, "UpToDate");
    assert_ne!(second.status.unwrap().component_closure.unwrap(), closure);

    world.apply_text(&rules("1.0.0")).await;
    world.publish::<ComponentVersionOverwrites>("rules").await;
    until_told(&world, "shop", "True", message).await;
    world.apply_text(&rules("2.0.0")).await;
    world.publish::<ComponentVersionOverwrites>("rules").await;
    until_told(&world, "shop", "False", SAME).await;
}
