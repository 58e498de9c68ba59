//! Tests of `Resolve`: its writes and its answers (`components.md` 3 and 4).

use crate::common::*;
use groundwork_api::{ComponentVersionOverwrites, Condition, Context, ResourceExt};
use groundwork_component::{Descriptor, Leniency, Normalisation, RepositoryContext};
use groundwork_keys::{Algorithm, Hash, SigningKey, to_pem};
use groundwork_proto::resolver::v1::ResolveRequest;
use groundwork_proto::status;
use groundwork_registry::CtfWriter;
use groundwork_resolver::{Arguments, Settings};
use groundwork_testkit::{Registry, RegistryOptions};
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};
use tonic::Code;

const OVERWRITE: &str = "ComponentReferenceOverwrite";
const OUTDATED: &str = "ComponentReferenceOutdated";

/// Message of the example in `components.md` 3.1.
const ECHO_MESSAGE: &str = "Component reference has been overwritten:\n\
    eu.gcr.io/gardener-project/landscaper/tutorials/components () -> example.org/my-own-registry/components ()\n\
    github.com/gardener/landscaper/echo-server -> my-own-echo-server\n\
    Version has not been overwritten";

async fn apply_example(world: &World) {
    for file in ["context.yaml", "component-overwrites.yaml", "greeting.yaml", "installation.yaml"] {
        let text = std::fs::read_to_string(example().join(file)).unwrap();
        for document in documents(&text) {
            world.apply(document).await;
        }
    }
}

async fn echo_world(namespace: &str) -> Option<World> {
    World::start(namespace, with_repositories(example().join("components/repositories.yaml"))).await
}

#[tokio::test]
async fn the_echo_server_example() {
    let Some(world) = echo_world("echo").await else { return };
    apply_example(&world).await;
    let before = world.installation("server").await;

    let answer = world.run_job("server", "job-1").await;
    assert_eq!(answer.failure, None);
    assert!(answer.matched);
    let (original, effective) = (answer.original.clone().unwrap(), answer.effective.clone().unwrap());
    assert_eq!(
        (original.name.as_str(), original.version.as_str()),
        ("github.com/gardener/landscaper/echo-server", "v0.2.0")
    );
    assert_eq!((effective.name.as_str(), effective.version.as_str()), ("my-own-echo-server", "v0.2.0"));
    let own = json!({"baseUrl": "example.org/my-own-registry/components", "type": "ociRegistry"});
    assert_eq!(effective.repository_context.unwrap().text, own.to_string());
    let descriptor: Value =
        serde_json::from_str(&answer.closure[0].descriptor.as_ref().unwrap().text).unwrap();
    assert_eq!(descriptor["component"]["name"], "my-own-echo-server");

    let after = world.installation("server").await;
    let expected = ("True".to_owned(), "FoundOverwrite".to_owned(), ECHO_MESSAGE.to_owned());
    assert_eq!(condition(&after, OVERWRITE), Some(expected));
    assert_eq!(condition(&after, OUTDATED).unwrap().1, "UpToDate");
    assert_eq!(owners(&after, OVERWRITE), ["groundwork-resolver"]);
    assert_eq!((&after.spec, after.metadata.generation), (&before.spec, before.metadata.generation));
    let used = serde_json::to_value(&after.status.as_ref().unwrap().component_reference).unwrap();
    assert_eq!(
        used,
        json!({"repositoryContext": own, "componentName": "my-own-echo-server", "version": "v0.2.0"})
    );

    // The Installation in the answer has the stored version, so the caller can write it next.
    let answered: Value = serde_json::from_str(&answer.installation.unwrap().text).unwrap();
    assert_eq!(answered["metadata"]["resourceVersion"], json!(after.metadata.resource_version));
    let mut next: groundwork_api::Installation = serde_json::from_value(answered).unwrap();
    next.status.as_mut().unwrap().phase = Some("Progressing".to_owned());
    let stored = world.api().replace_status("server", &PostParams::default(), &next).await.unwrap();
    assert_eq!(owners(&stored, OVERWRITE), ["groundwork-resolver"]);

    // An unchanged result writes nothing: neither the same job again, nor the next job.
    world.resolve("server", "job-1").await.unwrap();
    assert_eq!(
        world.installation("server").await.metadata.resource_version,
        stored.metadata.resource_version
    );
    let started = world.set_jobs("server", "job-2", Some("job-1")).await;
    world.resolve("server", "job-2").await.unwrap();
    assert_eq!(
        world.installation("server").await.metadata.resource_version,
        started.metadata.resource_version
    );

    // A late call of the first job is refused.
    let late = world.resolve("server", "job-1").await.unwrap_err();
    assert_eq!(
        (late.code(), status::reason(&late).unwrap().as_str()),
        (Code::FailedPrecondition, "JOB_SUPERSEDED")
    );
}

#[tokio::test]
async fn calls_that_cannot_be_answered() {
    let Some(world) = echo_world("calls").await else { return };
    apply_example(&world).await;
    world.set_jobs("server", "job-1", None).await;
    let reason = async |call: ResolveRequest, token| {
        let status = world.caller(token).resolve(call).await.unwrap_err();
        (status.code(), status::reason(&status).unwrap(), status.message().to_owned())
    };
    let call =
        |name: &str, job: &str| ResolveRequest { installation: world.object(name), job_id: job.to_owned() };
    let ours = world.token.clone();

    let (code, word, text) = reason(call("none", "job-1"), ours.clone()).await;
    assert_eq!(
        (code, word.as_str(), text.as_str()),
        (Code::NotFound, "INSTALLATION_NOT_FOUND", "installation calls/none does not exist")
    );
    for (call, field) in [
        (call("server", ""), "job_id"),
        (ResolveRequest { installation: None, job_id: "j".into() }, "installation"),
        (call("../secrets/x", "j"), "installation.name"),
        (call("server/status", "j"), "installation.name"),
    ] {
        let (code, word, text) = reason(call, ours.clone()).await;
        assert_eq!((code, word.as_str()), (Code::InvalidArgument, "INVALID_REQUEST"), "{text}");
        assert!(text.starts_with(field), "{text}");
    }

    // Callers with the right to `get` the Installation are allowed.
    let group = "landscaper.gardener.cloud";
    let rule = |resource: &str| json!([{"apiGroups": [group], "resources": [resource], "verbs": ["get"]}]);
    let (allowed, denied) = (
        world.account("allowed", &rule("installations")).await,
        world.account("denied", &rule("contexts")).await,
    );
    assert!(
        world.caller(allowed).resolve(call("server", "job-1")).await.unwrap().into_inner().failure.is_none()
    );
    let (code, word, text) = reason(call("server", "job-1"), denied).await;
    assert_eq!((code, word.as_str()), (Code::PermissionDenied, "ACCESS_DENIED"));
    let user = "user \"system:serviceaccount:calls:denied\" may not get installations.landscaper.gardener.cloud \
                \"server\" in namespace \"calls\"";
    assert_eq!(text, user);
    let nobody = groundwork_grpc::TokenSource::none();
    assert_eq!(reason(call("server", "job-1"), nobody).await.0, Code::Unauthenticated);
}

const SHOP: &str = "
kind: Installation
metadata: {name: shop}
spec:
  componentDescriptor: {ref: {componentName: example.org/shop, version: 1.0.0}}
  blueprint: {ref: {resourceName: blueprint}}
";

const CONTEXT: &str = "
kind: Context
metadata: {name: default}
repositoryContext: {type: ociRegistry, baseUrl: R1}
componentVersionOverwrites: rules
";

const RULES: &str = "
kind: ComponentVersionOverwrites
metadata: {name: rules}
overwrites:
- source: {componentName: example.org/shop}
  substitution: {version: 2.0.0}
";

fn shop_message(version: &str) -> String {
    format!(
        "Component reference has been overwritten:\nRepositoryContext has not been overwritten\n\
         ComponentName has not been overwritten\n1.0.0 -> {version}"
    )
}

/// The condition is written although no component is stored; errors such as E17 come after it.
#[tokio::test]
async fn what_fails_later_leaves_the_condition() {
    let Some(world) = World::start("later", Arguments::default()).await else { return };
    world.apply_text(&[CONTEXT, RULES, SHOP].join("\n---\n")).await;
    let failure = world.run_job("shop", "job-1").await.failure.unwrap();
    assert_eq!(
        (failure.operation.as_str(), failure.reason.as_str()),
        ("InitPrerequisites", "InitInstallationOperation")
    );
    let start = "unable to create installation operation: cannot load component version \"example.org/shop:2.0.0\": cannot reach R1: ";
    assert!(failure.message.starts_with(start), "{}", failure.message);
    assert_eq!(failure.codes, ["ERR_CONFIGURATION_PROBLEM"]);
    let installation = world.installation("shop").await;
    assert_eq!(condition(&installation, OVERWRITE).unwrap().2, shop_message("2.0.0"));
}

#[tokio::test]
async fn missing_objects_fail_the_job_and_keep_the_condition() {
    let settings = Settings { no_default_contexts: true, ..Settings::default() };
    let arguments = Arguments { settings, ..Arguments::default() };
    let Some(world) = World::start("missing", arguments).await else { return };
    world.apply_text(&[CONTEXT, RULES, SHOP].join("\n---\n")).await;
    world.run_job("shop", "job-1").await;
    let first = world.installation("shop").await;

    let delete = DeleteParams::default();
    world.api::<ComponentVersionOverwrites>().delete("rules", &delete).await.unwrap();
    let answer = world.run_job("shop", "job-2").await;
    let failure = answer.failure.unwrap();
    assert_eq!(
        (failure.operation.as_str(), failure.reason.as_str()),
        ("InitPrerequisites", "CalculateContext")
    );
    assert_eq!(
        failure.message,
        "Op: ComponentVersionOverwrites - Reason: GetComponentVersionOverwrites - Message: context 'default' references \
         ComponentVersionOverwrites resource 'rules', which cannot be found: not found in namespace missing"
    );
    assert_eq!((answer.original, answer.overwrites), (None, None));
    assert_eq!(condition(&world.installation("shop").await, OVERWRITE), condition(&first, OVERWRITE));

    world.api::<Context>().delete("default", &delete).await.unwrap();
    let answer = world.run_job("shop", "job-3").await;
    let expected = "Op: Context - Reason: GetContext - Message: context \"missing/default\" not found";
    assert_eq!((answer.failure.unwrap().message.as_str(), answer.context), (expected, None));
    assert_eq!(condition(&world.installation("shop").await, OVERWRITE), condition(&first, OVERWRITE));

    // E2: only the repository is unknown.
    world.apply_text("{kind: Context, metadata: {name: default}}").await;
    let message = world.run_job("shop", "job-4").await.failure.unwrap().message;
    assert!(message.starts_with("RepositoryContextMissing: "), "{message}");
}

/// A job that starts before its namespace has a default Context gets one created.
#[tokio::test]
async fn a_job_has_the_default_context_made() {
    let Some(world) = World::start("early", Arguments::default()).await else { return };
    world.apply_text(&[CONTEXT, RULES, SHOP].join("\n---\n")).await;
    world.api::<Context>().delete("default", &DeleteParams::default()).await.unwrap();
    let answer = world.run_job("shop", "job-1").await;
    assert!(answer.context.is_some());
    let made = world.api::<Context>().get("default").await.unwrap();
    assert_eq!(made.component_version_overwrites, None);
}

/// D-3, also for a condition that another writer has written.
#[tokio::test]
async fn a_condition_goes_when_no_overwrites_apply() {
    let Some(world) = World::start("detached", Arguments::default()).await else { return };
    let detached =
        "{kind: Context, metadata: {name: default}, repositoryContext: {type: ociRegistry, baseUrl: R1}}";
    world.apply_text(&[CONTEXT, RULES, SHOP].join("\n---\n")).await;
    world.run_job("shop", "job-1").await;
    assert!(condition(&world.installation("shop").await, OVERWRITE).is_some());
    world.apply_text(detached).await;
    world.run_job("shop", "job-2").await;
    assert_eq!(condition(&world.installation("shop").await, OVERWRITE), None);

    // Status of a cluster in which Landscaper ran before.
    let mut foreign = world.installation("shop").await;
    let old = Condition {
        type_: OVERWRITE.to_owned(),
        status: "True".to_owned(),
        reason: "FoundOverwrite".to_owned(),
        message: "stale".to_owned(),
        last_transition_time: Some(some_time()),
        last_update_time: Some(some_time()),
        ..Condition::default()
    };
    foreign.status.as_mut().unwrap().conditions.push(old.clone());
    let by_original = PostParams { field_manager: Some("original".into()), ..PostParams::default() };
    let written = world.api().replace_status("shop", &by_original, &foreign).await.unwrap();
    assert_eq!(owners(&written, OVERWRITE), ["original"]);
    world.run_job("shop", "job-3").await;
    let cleaned = world.installation("shop").await;
    assert_eq!(condition(&cleaned, OVERWRITE), None);
    assert!(condition(&cleaned, OUTDATED).is_some());

    // If rules apply, the condition is replaced, and its times follow from the old one.
    let mut foreign = cleaned;
    foreign.status.as_mut().unwrap().conditions.push(old);
    world.api().replace_status("shop", &by_original, &foreign).await.unwrap();
    world.apply_text(CONTEXT).await;
    world.run_job("shop", "job-4").await;
    let replaced = world.installation("shop").await;
    assert_eq!(condition(&replaced, OVERWRITE).unwrap().2, shop_message("2.0.0"));
    let conditions = &replaced.status.as_ref().unwrap().conditions;
    let found = conditions.iter().find(|condition| condition.type_ == OVERWRITE).unwrap();
    assert_eq!(found.last_transition_time, Some(some_time()));
    assert_ne!(found.last_update_time, Some(some_time()));
    world.apply_text(detached).await;
    world.run_job("shop", "job-5").await;
    assert_eq!(condition(&world.installation("shop").await, OVERWRITE), None);
}

/// Without a component there is no condition, but E1 and E4 still apply.
#[tokio::test]
async fn without_a_component_there_is_no_condition() {
    let Some(world) = World::start("plain", Arguments::default()).await else { return };
    let plain = "
kind: Installation
metadata: {name: shop}
spec:
  blueprint:
    inline:
      filesystem: {blueprint.yaml: 'kind: Blueprint'}
";
    world.apply_text(&[CONTEXT, RULES, SHOP].join("\n---\n")).await;
    world.run_job("shop", "job-1").await;
    world.api::<groundwork_api::Installation>().delete("shop", &DeleteParams::default()).await.unwrap();
    world.apply_text(plain).await;
    let started = world.set_jobs("shop", "job-1", None).await;
    let answer = world.resolve("shop", "job-1").await.unwrap();
    assert_eq!((answer.failure, answer.original, answer.effective), (None, None, None));
    assert!(answer.closure.is_empty() && answer.context.is_some() && answer.overwrites.is_some());
    assert_eq!(world.installation("shop").await.resource_version(), started.resource_version());

    world.api::<ComponentVersionOverwrites>().delete("rules", &DeleteParams::default()).await.unwrap();
    let failure = world.run_job("shop", "job-2").await.failure.unwrap();
    assert_eq!(failure.reason, "CalculateContext");
}

#[tokio::test]
async fn an_inline_component_needs_no_store() {
    let Some(world) = World::start("inline", Arguments::default()).await else { return };
    let inline = "
kind: Installation
metadata: {name: shop}
spec:
  componentDescriptor:
    inline:
      meta: {schemaVersion: v2}
      component: {name: example.org/shop, version: 1.0.0}
  blueprint: {ref: {resourceName: blueprint}}
";
    world.apply_text(&["{kind: Context, metadata: {name: default}}", inline].join("\n---\n")).await;
    let answer = world.run_job("shop", "job-1").await;
    assert_eq!(answer.failure, None);
    let effective = answer.effective.unwrap();
    assert_eq!((effective.name.as_str(), effective.repository_context), ("example.org/shop", None));
    assert_eq!(answer.closure.len(), 1);
    let used = world.installation("shop").await.status.unwrap().component_reference.unwrap();
    assert_eq!((used.component_name.as_str(), used.repository_context.get()), ("example.org/shop", None));
}

/// Writes one version of a component into the store of R1.
fn store(folder: &std::path::Path, label: &str) {
    let context = json!({"type": "ociRegistry", "baseUrl": "R1"});
    let mut writer =
        CtfWriter::create(folder.join("store"), RepositoryContext::new(context.clone()).unwrap()).unwrap();
    let descriptor = json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": "example.org/shop", "version": "2.0.0", "provider": "p", "repositoryContexts": [context],
        "sources": [], "componentReferences": [], "resources": [],
        "labels": [{"name": "example.org/label", "value": label}],
    }});
    writer.add(&descriptor, &[]).unwrap();
    writer.finish().unwrap();
    let map = "repositories:\n- context: {type: ociRegistry, baseUrl: R1}\n  directory: store\n";
    std::fs::write(folder.join("repositories.yaml"), map).unwrap();
}

/// A job sees one content, and the next job reads again (`components.md` 4.3).
#[tokio::test]
async fn a_job_sees_one_content() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path(), "first");
    let arguments = with_repositories(folder.path().join("repositories.yaml"));
    let Some(world) = World::start("pinned", arguments).await else { return };
    world.apply_text(&[CONTEXT, RULES, SHOP].join("\n---\n")).await;
    let label = |answer: &groundwork_proto::resolver::v1::ResolveResponse| {
        let text = &answer.closure[0].descriptor.as_ref().unwrap().text;
        serde_json::from_str::<Value>(text).unwrap()["component"]["labels"][0]["value"].clone()
    };
    assert_eq!(label(&world.run_job("shop", "job-1").await), "first");
    store(folder.path(), "second");
    assert_eq!(label(&world.resolve("shop", "job-1").await.unwrap()), "first");
    assert_eq!(label(&world.run_job("shop", "job-2").await), "second");
}

/// I-16, and E5, E20: a registry that no map names is read with the pull secrets of the Context.
/// Each job reads them again, and no message contains their values.
#[tokio::test(flavor = "multi_thread")]
async fn a_registry_behind_a_pull_secret() {
    if !groundwork_testkit::servers_or_skip(&[groundwork_testkit::Server::Registry]) {
        return;
    }
    let Some(world) = World::start("pull", Arguments::default()).await else { return };
    // The hash is of the password "secret".
    let users = Some("reader:$2b$04$/uaF/uaF/uaF/uaF/uaF/uyUa5B4sNev9rTvA6TvEBWYO4koffwMy\n".to_owned());
    let options = RegistryOptions { htpasswd: users, ..RegistryOptions::default() };
    let registry = Registry::start(&options).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let host = registry.address();
    let context = json!({"type": "ociRegistry", "baseUrl": format!("{host}/prod")});
    let mut writer =
        CtfWriter::create(folder.path(), RepositoryContext::new(context.clone()).unwrap()).unwrap();
    let descriptor = json!({
        "meta": {"schemaVersion": "v2"},
        "component": {
            "name": "example.org/shop", "version": "1.0.0", "provider": "p", "sources": [], "resources": [],
            "repositoryContexts": [], "componentReferences": [],
        },
    });
    writer.add(&descriptor, &[]).unwrap();
    writer.finish().unwrap();
    tokio::task::block_in_place(|| {
        registry.push(folder.path(), "prod", Some("Basic cmVhZGVyOnNlY3JldA==")).unwrap();
    });
    world.apply_text(&format!("kind: Context\nmetadata: {{name: default}}\nrepositoryContext: {context}\nregistryPullSecrets: [{{name: pull}}]\n---\n{SHOP}")).await;

    let failure = world.run_job("shop", "job-1").await.failure.unwrap();
    assert_eq!((failure.reason.as_str(), failure.codes.len()), ("SetupRegistries", 1));
    assert_eq!(failure.message, "registry pull secret \"pull/pull\" of context \"default\" not found");

    let secret = |password: &str| {
        let config = json!({"auths": {host.as_str(): {"username": "reader", "password": password}}});
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull"},
            "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": config.to_string()},
        })
    };
    world.apply(secret("mistaken")).await;
    let failure = world.run_job("shop", "job-2").await.failure.unwrap();
    assert_eq!(failure.codes, ["ERR_UNAUTHORIZED"]);
    assert!(failure.message.ends_with("denied (credentials: secret \"pull/pull\")"), "{}", failure.message);
    assert!(!failure.message.contains("mistaken"));

    world.apply(secret("secret")).await;
    let answer = world.run_job("shop", "job-3").await;
    assert_eq!((answer.failure, answer.closure.len()), (None, 1));
}

/// Writes a store with a signed version of the shop, or with a version that was changed after it
/// was signed.
fn signed_store(folder: &std::path::Path, key: &SigningKey, provider: Option<&str>) {
    let context = RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": "R1"})).unwrap();
    let document = json!({
        "meta": {"schemaVersion": "v2"},
        "component": {
            "name": "example.org/shop", "version": "1.0.0", "provider": "p", "sources": [], "resources": [],
            "repositoryContexts": [], "componentReferences": [],
        },
    });
    let descriptor = Descriptor::from_document(document, Leniency::Strict).unwrap();
    let bytes = Normalisation::V2.apply(&descriptor);
    let signature = key.sign_rsa(Hash::Sha256, &bytes).unwrap();
    let mut document =
        groundwork_component::signed(&descriptor, "release", Normalisation::V2, &bytes, &signature);
    if let Some(provider) = provider {
        document["component"]["provider"] = json!(provider);
    }
    let mut writer = CtfWriter::create(folder, context).unwrap();
    writer.add(&document, &[]).unwrap();
    writer.finish().unwrap();
}

/// Item 15 and the policies of `components.md` 7.6: a job only continues with a component that
/// matches its signature.
#[tokio::test]
async fn signatures_are_checked_before_anything_else() {
    let key = SigningKey::generate(Algorithm::Rsa2048).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("repositories.yaml");
    std::fs::write(&map, "repositories:\n- context: {type: ociRegistry, baseUrl: R1}\n  directory: store\n")
        .unwrap();
    let store = folder.path().join("store");
    signed_store(&store, &key, None);
    let settings = Settings { repositories: Some(map), ..Settings::default() };
    let arguments = Arguments { settings, ..Arguments::default() };
    let Some(world) = World::start("signed", arguments).await else { return };
    let installation = |verification: &str| {
        format!(
            "kind: Installation\nmetadata: {{name: shop}}\nspec:\n  context: default\n  {verification}\n  \
             componentDescriptor: {{ref: {{componentName: example.org/shop, version: 1.0.0}}}}\n  blueprint: {{ref: {{resourceName: bp}}}}\n"
        )
    };
    let context = |signatures: &str| {
        format!(
            "kind: Context\nmetadata: {{name: default}}\nrepositoryContext: {{type: ociRegistry, baseUrl: R1}}\nverificationSignatures: {signatures}\n"
        )
    };
    let asking = installation("verification: {signatureName: release}");
    world.apply_text(&format!("{}---\n{asking}", context("{}"))).await;
    let failed = async |job: &str| {
        let failure = world.run_job("shop", job).await.failure.unwrap();
        assert_eq!(failure.operation, "InitPrerequisites");
        (failure.reason, failure.message)
    };
    let (reason, message) = failed("job-1").await;
    assert_eq!(reason, "ExtractVerifyInfo");
    assert_eq!(message, "context.VerificationSignatures does not contain a key for signature name 'release'");

    world.apply_text(&context("{release: {publicKeySecretReference: {name: key, key: public.pem}}}")).await;
    assert_eq!(failed("job-2").await.1, "secret \"signed/key\" not found");
    let public = to_pem("PUBLIC KEY", &key.public_key_info().unwrap());
    world
        .apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"public.pem": public}}))
        .await;
    let answer = world.run_job("shop", "job-3").await;
    assert_eq!((answer.failure, answer.closure.len()), (None, 1));

    // The stored component was changed after it was signed.
    signed_store(&store, &key, Some("q"));
    let (reason, message) = failed("job-4").await;
    assert_eq!(reason, "VerifySignature");
    assert!(message.starts_with("failed verifying signature: signature digest ("), "{message}");
    // An Installation that does not ask for a signature gets no check, unless the service demands
    // one.
    world.apply_text(&installation("automaticReconcile: {}")).await;
    assert_eq!(world.run_job("shop", "job-5").await.failure, None);
}

#[tokio::test]
async fn a_service_that_demands_signatures() {
    let key = SigningKey::generate(Algorithm::Rsa2048).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let map = folder.path().join("repositories.yaml");
    std::fs::write(&map, "repositories:\n- context: {type: ociRegistry, baseUrl: R1}\n  directory: store\n")
        .unwrap();
    signed_store(&folder.path().join("store"), &key, None);
    let settings =
        Settings { repositories: Some(map), signature_policy: "Enforce".to_owned(), ..Settings::default() };
    let Some(world) = World::start("enforced", Arguments { settings, ..Arguments::default() }).await else {
        return;
    };
    world.apply_text(&[CONTEXT, RULES, SHOP].join("\n---\n")).await;
    let failure = world.run_job("shop", "job-1").await.failure.unwrap();
    assert_eq!(failure.reason, "ExtractVerifyInfo");
    assert!(failure.message.contains("every component has to be signed here"), "{}", failure.message);
}
