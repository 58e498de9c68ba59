//! Tests of `Explain`, `GetDescriptor` and `FetchResource`.

use std::time::{Duration, Instant};

use crate::common::*;
use groundwork_grpc::TokenSource;
use groundwork_proto::component::v1::Json;
use groundwork_proto::resolver::v1::explain_request::Input;
use groundwork_proto::resolver::v1::explained_reference::State;
use groundwork_proto::resolver::v1::fetch_resource_request::Content;
use groundwork_proto::resolver::v1::rule_outcome::Outcome;
use groundwork_proto::resolver::v1::{
    ExplainInput, ExplainRequest, ExplainResponse, FetchResourceRequest, GetDescriptorRequest, Planning,
};
use groundwork_proto::status;
use serde_json::{Value, json};
use tonic::{Code, Status};

fn own() -> Value {
    json!({"type": "ociRegistry", "baseUrl": "example.org/my-own-registry/components"})
}

async fn world(namespace: &str) -> Option<World> {
    let world =
        World::start(namespace, with_repositories(example().join("components/repositories.yaml"))).await?;
    for file in ["context.yaml", "component-overwrites.yaml", "installation.yaml"] {
        for document in documents(&std::fs::read_to_string(example().join(file)).unwrap()) {
            world.apply(document).await;
        }
    }
    Some(world)
}

/// Installation with a version that the store does not contain.
const NINE: &str = "
kind: Installation
metadata: {name: nine}
spec:
  context: default
  componentDescriptor:
    ref:
      repositoryContext: {type: ociRegistry, baseUrl: example.org/my-own-registry/components}
      componentName: my-own-echo-server
      version: v9.9.9
  blueprint: {ref: {resourceName: blueprint}}
";

async fn descriptor(
    world: &World,
    context: Value,
    name: &str,
    version: &str,
) -> Result<Option<Vec<u8>>, Status> {
    let installation = world.object(if version == "v9.9.9" { "nine" } else { "server" });
    let request =
        GetDescriptorRequest { reference: reference(&context, name, version), installation, planning: None };
    Ok(world.resolver().get_descriptor(request).await?.into_inner().descriptor)
}

async fn blob(world: &World, version: &str, blob: &str) -> Result<(i64, Vec<u8>), Status> {
    let request = FetchResourceRequest {
        planning: None,
        reference: reference(&own(), "my-own-echo-server", version),
        installation: world.object(if version == "v9.9.9" { "nine" } else { "server" }),
        job_id: "job-1".into(),
        content: Some(Content::LocalBlob(blob.to_owned())),
        offset: 0,
    };
    let mut pieces = world.resolver().fetch_resource(request).await?.into_inner();
    let (mut size, mut content) = (None, Vec::new());
    while let Some(piece) = pieces.message().await? {
        size.get_or_insert(piece.size);
        content.extend(piece.chunk);
    }
    Ok((size.unwrap(), content))
}

fn reason(status: &Status) -> (Code, String) {
    (status.code(), status::reason(status).unwrap_or_default())
}

#[tokio::test]
async fn descriptors_and_content() {
    let Some(world) = world("content").await else { return };
    world.apply_text(NINE).await;
    let text = descriptor(&world, own(), "my-own-echo-server", "v0.2.0").await.unwrap().unwrap();
    let document: Value = groundwork_yaml::from_str(&String::from_utf8(text).unwrap()).unwrap();
    assert_eq!(document["component"]["version"], "v0.2.0");
    assert_eq!(descriptor(&world, own(), "my-own-echo-server", "v9.9.9").await.unwrap(), None);

    let digest = document["component"]["resources"][0]["access"]["localReference"].as_str().unwrap();
    let (size, content) = blob(&world, "v0.2.0", digest).await.unwrap();
    assert_eq!(size, i64::try_from(content.len()).unwrap());
    let file = digest.replace(':', ".");
    assert_eq!(content, std::fs::read(example().join("components/own/blobs").join(file)).unwrap());

    // A caller with a part of the content asks for the rest, by the access in the descriptor.
    let access = document["component"]["resources"][0]["access"].to_string();
    let request = FetchResourceRequest {
        planning: None,
        reference: reference(&own(), "my-own-echo-server", "v0.2.0"),
        installation: world.object("server"),
        job_id: String::new(),
        content: Some(Content::Access(Json { text: access })),
        offset: 10,
    };
    let mut pieces = world.resolver().fetch_resource(request).await.unwrap().into_inner();
    let rest = pieces.message().await.unwrap().unwrap();
    assert_eq!((rest.size, &rest.chunk[..]), (size, &content[10..]));

    // Content in a registry is only fetched if the descriptor names it.
    let foreign = json!({"type": "ociArtifact", "imageReference": "registry.example.org/secret/image:1"});
    let request = FetchResourceRequest {
        planning: None,
        reference: reference(&own(), "my-own-echo-server", "v0.2.0"),
        installation: world.object("server"),
        job_id: String::new(),
        content: Some(Content::Access(Json { text: foreign.to_string() })),
        offset: 0,
    };
    let refused = world.resolver().fetch_resource(request).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::PermissionDenied, "COMPONENT_NOT_REACHED".to_owned()));
    assert!(refused.message().contains("has no resource with the content"), "{refused}");

    let absent = format!("sha256:{}", "0".repeat(64));
    let missing = blob(&world, "v0.2.0", &absent).await.unwrap_err();
    assert_eq!(reason(&missing), (Code::NotFound, "BLOB_NOT_FOUND".to_owned()));
    let missing = blob(&world, "v9.9.9", digest).await.unwrap_err();
    assert_eq!(reason(&missing), (Code::NotFound, "COMPONENT_VERSION_NOT_FOUND".to_owned()));
    let empty = blob(&world, "v0.2.0", "").await.unwrap_err();
    assert_eq!(reason(&empty), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    // The right to `get` one Installation is not a right to read whole stores.
    for (context, name, version) in [
        (json!({"type": "ociRegistry", "baseUrl": "elsewhere"}), "my-own-echo-server", "v0.2.0"),
        (json!({"type": "unheard-of"}), "my-own-echo-server", "v0.2.0"),
        (own(), "my-own-echo-server", "v0.1.0"),
        (own(), "another", "v0.2.0"),
    ] {
        let refused = descriptor(&world, context, name, version).await.unwrap_err();
        assert_eq!(
            reason(&refused),
            (Code::PermissionDenied, "COMPONENT_NOT_REACHED".to_owned()),
            "{refused}"
        );
    }
    let refused = blob(&world, "v0.1.0", digest).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::PermissionDenied, "COMPONENT_NOT_REACHED".to_owned()));
    let nowhere = descriptor(&world, Value::Null, "my-own-echo-server", "v0.2.0").await.unwrap_err();
    assert_eq!(reason(&nowhere), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
}

/// For Installations that are not applied yet, a caller may read any version, if the caller could
/// apply an Installation that uses it. Of content, only what the version's descriptor names may be
/// read.
#[tokio::test]
async fn planning_reads_what_jobs_could_read() {
    let Some(world) = world("planning").await else { return };
    let get = json!([
        {"apiGroups": ["landscaper.gardener.cloud"], "resources": ["installations"], "verbs": ["get"]},
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]},
    ]);
    let mut update = get.clone();
    update[0]["verbs"] = json!(["get", "update"]);
    let mut partial = update.clone();
    partial.as_array_mut().unwrap().truncate(1);
    let planning = |secrets: &[&str]| {
        let pull_secrets = secrets.iter().map(|name| (*name).to_owned()).collect();
        Some(Planning { namespace: "planning".to_owned(), pull_secrets })
    };
    let eu = json!({"type": "ociRegistry", "baseUrl": "eu.gcr.io/gardener-project/landscaper/tutorials/components"});
    let (name, version) = ("github.com/gardener/landscaper/echo-server", "v0.2.0");
    let request = |planning| GetDescriptorRequest {
        reference: reference(&eu, name, version),
        installation: None,
        planning,
    };
    for (account, rules) in [("viewer", &get), ("partial", &partial)] {
        let mut caller = world.caller(world.account(account, rules).await);
        let refused = caller.get_descriptor(request(planning(&[]))).await.unwrap_err();
        assert_eq!(reason(&refused), (Code::PermissionDenied, "ACCESS_DENIED".to_owned()), "{account}");
    }
    let mut caller = world.caller(world.account("planner", &update).await);
    let found = caller.get_descriptor(request(planning(&[]))).await.unwrap().into_inner().descriptor.unwrap();
    let document: Value = groundwork_yaml::from_str(&String::from_utf8(found).unwrap()).unwrap();
    assert_eq!(document["component"]["version"], version);
    let refused = caller.get_descriptor(request(planning(&["missing"]))).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::FailedPrecondition, "REPOSITORY_DENIED".to_owned()));
    let both = GetDescriptorRequest { installation: world.object("server"), ..request(planning(&[])) };
    let refused = caller.get_descriptor(both).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));

    let fetch = |access: &Value| FetchResourceRequest {
        reference: reference(&eu, name, version),
        installation: None,
        planning: planning(&[]),
        job_id: String::new(),
        content: Some(Content::Access(Json { text: access.to_string() })),
        offset: 0,
    };
    let own = &document["component"]["resources"][0]["access"];
    let mut pieces = caller.fetch_resource(fetch(own)).await.unwrap().into_inner();
    assert!(!pieces.message().await.unwrap().unwrap().chunk.is_empty());
    let foreign = json!({"type": "ociArtifact", "imageReference": "registry.example.org/secret/image:1"});
    let refused = caller.fetch_resource(fetch(&foreign)).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::PermissionDenied, "COMPONENT_NOT_REACHED".to_owned()));
}

#[tokio::test]
async fn content_is_for_those_who_may_get_the_installation() {
    let Some(world) = world("content-denied").await else { return };
    let rule = json!([{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]);
    let denied = world.account("denied", &rule).await;
    for (token, code) in [(denied, Code::PermissionDenied), (TokenSource::none(), Code::Unauthenticated)] {
        let mut client = world.caller(token);
        let reference = reference(&own(), "my-own-echo-server", "v0.2.0");
        let installation = world.object("server");
        let request = GetDescriptorRequest {
            reference: reference.clone(),
            installation: installation.clone(),
            planning: None,
        };
        assert_eq!(client.get_descriptor(request).await.unwrap_err().code(), code);
        let content = Some(Content::LocalBlob("x".into()));
        let request = FetchResourceRequest {
            planning: None,
            reference,
            installation: installation.clone(),
            job_id: String::new(),
            content,
            offset: 0,
        };
        assert_eq!(client.fetch_resource(request).await.unwrap_err().code(), code);
        let request = ExplainRequest { input: installation.map(Input::Installation), references: false };
        assert_eq!(client.explain(request).await.unwrap_err().code(), code);
    }
}

fn check_echo(answer: &ExplainResponse) {
    assert!(answer.matched);
    assert_eq!(answer.effective.as_ref().unwrap().name, "my-own-echo-server");
    assert!(answer.condition_message.starts_with("Component reference has been overwritten:\n"));
    let outcomes: Vec<_> = answer.rules.iter().map(|rule| (rule.rule, rule.outcome())).collect();
    assert_eq!(outcomes, [(1, Outcome::Applied), (2, Outcome::Ignored)]);
    let conflicts: Vec<_> = answer.rules[1]
        .conflicts
        .iter()
        .map(|conflict| (conflict.attribute.as_str(), conflict.rule))
        .collect();
    assert_eq!(conflicts, [("componentName", 1)]);
}

#[tokio::test]
async fn rules_are_explained() {
    let Some(world) = world("explain").await else { return };
    let before = world.installation("server").await;
    let request =
        ExplainRequest { input: world.object("server").map(Input::Installation), references: false };
    check_echo(&world.resolver().explain(request).await.unwrap().into_inner());
    assert_eq!(world.installation("server").await, before);

    // With `references`, the answer includes the whole closure, read from the repositories.
    let request = ExplainRequest { input: world.object("server").map(Input::Installation), references: true };
    let answer = world.resolver().explain(request).await.unwrap().into_inner();
    check_echo(&answer);
    let [root] = &answer.references[..] else { panic!("{:?}", answer.references) };
    assert_eq!(
        (root.depth, root.state(), root.effective.as_ref()),
        (0, State::Followed, answer.effective.as_ref())
    );
    assert_eq!(root.rules, answer.rules);
    let inline = Some(Input::Inline(ExplainInput { reference: answer.original, overwrites: None }));
    let refused =
        world.resolver().explain(ExplainRequest { input: inline, references: true }).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));

    // A request that contains all inputs needs no rights, but the caller must be authenticated.
    let refused = world
        .caller(TokenSource::none())
        .explain(ExplainRequest { input: None, references: false })
        .await
        .unwrap_err();
    assert_eq!(reason(&refused), (Code::Unauthenticated, "TOKEN_INVALID".to_owned()));
    let nobody = world.caller(world.account("nobody", &json!([])).await);
    let rules =
        documents(&std::fs::read_to_string(example().join("component-overwrites.yaml")).unwrap()).remove(0);
    let context = json!({"type": "ociRegistry", "baseUrl": "eu.gcr.io/gardener-project/landscaper/tutorials/components"});
    let original = reference(&context, "github.com/gardener/landscaper/echo-server", "v0.2.0");
    let explain = async |overwrites: Option<Value>| {
        let overwrites = overwrites.map(|rules| Json { text: rules.to_string() });
        let input = Some(Input::Inline(ExplainInput { reference: original.clone(), overwrites }));
        nobody
            .clone()
            .explain(ExplainRequest { input, references: false })
            .await
            .map(tonic::Response::into_inner)
    };
    check_echo(&explain(Some(rules.clone())).await.unwrap());
    let without = explain(None).await.unwrap();
    assert_eq!((without.matched, without.condition_message.as_str(), without.rules.len()), (false, "", 0));
    assert_eq!(without.effective, without.original);

    let other = json!({"overwrites": [
        {"source": {"componentName": "x"}, "substitution": {"version": "v1"}},
        {"source": {}, "substitution": {}},
    ]});
    let echo_rules = rules.clone();
    let mut other_rules = rules;
    other_rules["overwrites"] = other["overwrites"].clone();
    let answer = explain(Some(other_rules)).await.unwrap();
    assert_eq!(answer.condition_message, "Component reference has not been overwritten.");
    assert_eq!(
        (answer.rules[0].outcome(), &answer.rules[0].differing[..]),
        (Outcome::NotMatched, &["componentName".to_owned()][..])
    );
    assert_eq!(answer.findings, ["rule 2 of my-overwrites has no effect: its substitution is empty"]);

    // A rule without a component name would match every component, so the misspelt field must be
    // refused.
    let typo = json!([{"source": {"componentNam": "x"}, "substitution": {"version": "v1"}}]);
    let mut misspelt = echo_rules.clone();
    misspelt["overwrites"] = typo;
    let refused = explain(Some(misspelt)).await.unwrap_err();
    assert_eq!(reason(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    let unknown = "unknown field \"overwrites[0].source.componentNam\"";
    assert!(refused.message().contains(unknown), "{refused}");

    let broken = explain(Some(json!({"overwrites": "s3cret"}))).await.unwrap_err();
    assert_eq!(reason(&broken).0, Code::InvalidArgument);
    assert!(
        !broken.message().contains("s3cret") && broken.message().starts_with("inline.overwrites"),
        "{broken}"
    );
}

/// The runtime of this test has one thread, so work on that thread would delay all other calls.
#[tokio::test]
async fn a_large_call_holds_nobody_up_and_one_too_large_is_told_the_limit() {
    let Some(world) = world("large-calls").await else { return };
    let mut client = world.caller(world.account("anybody", &json!([])).await);
    let mut ask = async |count: usize, weight: usize| {
        let rule = |number: usize| {
            let repository = json!({"type": "ociRegistry", "list": vec![1; weight]});
            let source = json!({"repositoryContext": repository, "version": number.to_string()});
            json!({"source": source, "substitution": {"version": "v2"}})
        };
        let rules = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "ComponentVersionOverwrites",
            "metadata": {"name": "many"}, "overwrites": (0..count).map(rule).collect::<Vec<_>>(),
        });
        let context = json!({"type": "ociRegistry", "baseUrl": "R"});
        let reference = reference(&context, "example.org/shop", "v1");
        let overwrites = Some(Json { text: rules.to_string() });
        let input = Some(Input::Inline(ExplainInput { reference, overwrites }));
        let call = client.explain(ExplainRequest { input, references: false });
        let (longest, answer) = longest_pause(call).await;
        (longest, answer.map(tonic::Response::into_inner))
    };
    let (longest, answer) = ask(10_000, 100).await;
    assert_eq!(answer.unwrap().rules.len(), 10_000);
    assert!(longest < Duration::from_millis(500), "for {longest:?} nobody else was served");
    let refused = ask(10_001, 100).await.1.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
    assert_eq!(refused.message(), "inline.overwrites has 10001 rules; a call may have at most 10000");
    let (longest, refused) = ask(10_000, 700).await;
    assert_eq!(reason(&refused.unwrap_err()), (Code::ResourceExhausted, "WORK_TOO_LONG".to_owned()));
    assert!(longest < Duration::from_millis(500), "for {longest:?} nobody else was served");
    assert_eq!(ask(10, 100).await.1.unwrap().rules.len(), 10);
}

/// Returns the longest delay of a timer on the same thread.
async fn longest_pause<T>(work: impl Future<Output = T>) -> (Duration, T) {
    let (mut work, mut longest) = (std::pin::pin!(work), Duration::ZERO);
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    let mut last = Instant::now();
    loop {
        tokio::select! {
            biased;
            _ = ticks.tick() => {
                longest = longest.max(last.elapsed());
                last = Instant::now();
            }
            done = &mut work => return (longest.max(last.elapsed()), done),
        }
    }
}
