//! Renderer calls with inline blueprints: validation, rendering and exports.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use groundwork_api::Installation;
use groundwork_grpc::Channel;
use groundwork_proto::component::v1::{Json, ObjectName};
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{
    ExportValues, RenderExportsRequest, RenderInput, RenderRequest, Severity, ValidateRequest,
    render_exports_request, render_request,
};
use serde_json::{Map, Value, json};
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::case::Case;
use crate::grpc::{account, channel, decode, encode, told};
use crate::shared;
use crate::support::{blueprint, outcome};

type Client = RendererClient<Channel>;

pub(crate) fn render_inline(input: RenderInput) -> RenderRequest {
    RenderRequest { input: Some(render_request::Input::Inline(input)) }
}

pub(crate) fn export_inline(input: RenderInput, values: ExportValues) -> RenderExportsRequest {
    let input = Some(render_exports_request::Input::Inline(input));
    RenderExportsRequest { input, values: Some(values), ..RenderExportsRequest::default() }
}

fn wire(values: &Map<String, Value>) -> Result<HashMap<String, Json>> {
    values.iter().map(|(name, value)| Ok((name.clone(), encode(value)?))).collect()
}

fn map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn one_file(text: &str) -> HashMap<String, Vec<u8>> {
    HashMap::from([("blueprint.yaml".to_owned(), text.as_bytes().to_vec())])
}

/// Returns the Context that a cluster creates in every namespace.
fn default_context(namespace: &str) -> Value {
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Context",
        "metadata": {"name": "default", "namespace": namespace},
    })
}

/// Validation returns the findings about a blueprint with their positions. It reads no cluster, but
/// requires a token (`blueprints.md` 1.8).
#[tokio::test(flavor = "multi_thread")]
async fn validation_finds_what_is_wrong_with_a_blueprint() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "checking").await?;
    let stranger = account(&case, "stranger", &[]).await?;
    let mut renderer = RendererClient::new(channel(system, "renderer", Some(&stranger))?);
    let text = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\nimports:\n- name: size\n";
    let request = || ValidateRequest { blueprint: one_file(text), ..ValidateRequest::default() };
    let answer = renderer.validate(request()).await?.into_inner();
    let found: Vec<_> = answer
        .findings
        .iter()
        .map(|finding| (finding.severity(), finding.file.as_str(), finding.line, finding.path.is_empty()))
        .collect();
    assert_eq!(found, [(Severity::Error, "blueprint.yaml", 4, false)], "{answer:?}");
    ensure!(answer.violations.is_empty(), "{answer:?}");

    let good = ValidateRequest { blueprint: one_file(&blueprint(&[])), ..ValidateRequest::default() };
    assert_eq!(renderer.validate(good).await?.into_inner().findings, []);
    let outside = HashMap::from([("../blueprint.yaml".to_owned(), Vec::new())]);
    let outside = ValidateRequest { blueprint: outside, ..ValidateRequest::default() };
    let refused = renderer.validate(outside).await.err().context("a way out is refused")?;
    assert_eq!(told(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    let refused = renderer.validate(ValidateRequest::default()).await.err().context("nothing is refused")?;
    assert_eq!(told(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));

    let mut nobody = RendererClient::new(channel(system, "renderer", None)?);
    let refused = nobody.validate(request()).await.err().context("no token is refused")?;
    assert_eq!(told(&refused), (Code::Unauthenticated, "TOKEN_INVALID".to_owned()));
    Ok(())
}

/// Blueprint with exports of an item, and with state.
const EXPORTING: &str = r#"
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Blueprint
imports:
- {name: user, schema: {type: string}}
exports:
- {name: login, schema: {type: object}}
exportExecutions:
- name: login
  type: GoTemplate
  template: |
    exports: {login: {user: {{ .imports.user }}, host: {{ .deployitems.server.host }}}}
    state: {runs: {{ add1 (dig "runs" 0 .state) }}}
"#;

/// B-84, B-88, B-91, B-93, B-94: the exports of an Installation are the same by name, for callers
/// who may get it and Secrets, and with inline input, for any authenticated caller.
#[tokio::test(flavor = "multi_thread")]
async fn exports_by_name_and_inline_are_the_same() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "publishing").await?;
    let secret = json!({"stringData": {"user": "alice"}});
    case.create::<k8s_openapi::api::core::v1::Secret>("login", &secret).await?;
    let spec = json!({
        "imports": {"data": [{"name": "user", "secretRef": {"name": "login", "key": "user"}}]},
        "exports": {"data": [{"name": "login", "dataRef": "shop-login"}]},
    });
    let installation = case.install_with("server", EXPORTING, &spec).await?;
    // The Installation has no item that exports a host. The call can give such an export and return
    // the result.
    assert_eq!(outcome(&installation).0, "Failed");

    let installations = "installations.landscaper.gardener.cloud";
    let reader = account(&case, "reader", &[installations]).await?;
    let allowed = account(&case, "allowed", &[installations, "secrets"]).await?;
    let stranger = account(&case, "stranger", &[]).await?;
    let client =
        |token: Option<&str>| Ok::<_, anyhow::Error>(Client::new(channel(system, "renderer", token)?));
    let values = ExportValues {
        deploy_items: wire(&map(json!({"server": {"host": "example.org"}})))?,
        ..ExportValues::default()
    };
    let state = wire(&map(json!({"exportlogin": {"runs": 6}})))?;
    let named = |name: &str| RenderExportsRequest {
        input: Some(render_exports_request::Input::Installation(ObjectName {
            namespace: case.namespace.clone(),
            name: name.to_owned(),
        })),
        values: Some(values.clone()),
        state: state.clone(),
    };
    for (token, code, reason) in [
        (None, Code::Unauthenticated, "TOKEN_INVALID"),
        (Some(reader.as_str()), Code::PermissionDenied, "ACCESS_DENIED"),
    ] {
        let refused = client(token)?.render_exports(named("server")).await.err().context("it is refused")?;
        assert_eq!(told(&refused), (code, reason.to_owned()));
    }
    let missing = client(Some(&allowed))?.render_exports(named("nobody")).await.err();
    assert_eq!(
        told(&missing.context("what does not exist is told")?),
        (Code::NotFound, "INSTALLATION_NOT_FOUND".to_owned())
    );

    let objects = [
        json!(installation),
        default_context(&case.namespace),
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login", "namespace": "publishing"},
            "stringData": {"user": "alice"},
        }),
    ];
    let input = RenderInput {
        objects: objects.iter().map(encode).collect::<Result<_>>()?,
        state: state.clone(),
        ..RenderInput::default()
    };
    let answers = [
        client(Some(&allowed))?.render_exports(named("server")).await?.into_inner(),
        client(Some(&stranger))?
            .render_exports(export_inline(input.clone(), values.clone()))
            .await?
            .into_inner(),
    ];
    for answer in &answers {
        ensure!(answer.failure.is_none(), "{:?}", answer.failure);
        let login = json!({"user": "alice", "host": "example.org"});
        assert_eq!(decode(answer.exports.get("login").cloned())?, login);
        let published = decode(answer.published.first().cloned())?;
        assert_eq!((&published["metadata"]["name"], &published["data"]), (&json!("shop-login"), &login));
        assert_eq!(decode(answer.state.get("exportlogin").cloned())?, json!({"runs": 7}));
    }
    assert_eq!(answers[0].published, answers[1].published);
    // The renderer parses the blueprint once for all three calls (`blueprints.md` 2.5).
    let (_, metrics) = system.admin("renderer", "/metrics").await?;
    let hits = metrics.lines().find_map(|line| {
        line.strip_prefix("groundwork_renderer_blueprints_total{outcome=\"hit\"} ")?.parse::<u64>().ok()
    });
    ensure!(hits.is_some_and(|hits| hits >= 2), "{hits:?}");

    let mut nobody = client(None)?;
    let without = export_inline(input.clone(), ExportValues::default());
    let refused = nobody.render_exports(without.clone()).await.err().context("no token is refused")?;
    assert_eq!(told(&refused), (Code::Unauthenticated, "TOKEN_INVALID".to_owned()));
    // The failure of a job is a result, not an error of the call.
    let failed = client(Some(&stranger))?.render_exports(without).await?.into_inner();
    ensure!(failed.failure.is_some() && failed.published.is_empty(), "{failed:?}");
    let twice = RenderExportsRequest { state, ..export_inline(input, values) };
    for request in [twice, RenderExportsRequest::default()] {
        let refused =
            client(Some(&stranger))?.render_exports(request).await.err().context("it is refused")?;
        assert_eq!(told(&refused), (Code::InvalidArgument, "INVALID_REQUEST".to_owned()));
    }
    Ok(())
}

/// Number of concurrent calls of each kind, and number of loop rounds in each of their templates.
const CALLS: usize = 12;
const STEPS: usize = 300_000;

/// Rendering has threads of its own, so health checks are answered while many calls compute.
#[tokio::test(flavor = "multi_thread")]
async fn many_calls_do_not_stop_the_health_check() -> Result<()> {
    let Some(system) = shared::system().await? else { return Ok(()) };
    let case = Case::new(system, "crowd").await?;
    let stranger = account(&case, "stranger", &[]).await?;
    let client = || Ok::<_, anyhow::Error>(Client::new(channel(system, "renderer", Some(&stranger))?));
    let loops = format!("{{{{ range {STEPS} }}}}{{{{ end }}}}");
    let text = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint",
        "deployExecutions": [{"name": "d", "type": "GoTemplate", "template": loops}],
        "exportExecutions": [{"name": "e", "type": "GoTemplate", "template": loops}],
    });
    let imports: Vec<Value> = (0..2_000)
        .map(|number| json!({"name": format!("import-{number}"), "schema": {"type": "string"}}))
        .collect();
    let wide = json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Blueprint", "imports": imports,
    });
    let installation: Installation = crate::support::installation("crowd", "server", &text.to_string());
    let input = RenderInput {
        objects: vec![encode(&installation)?, encode(default_context("crowd"))?],
        ..RenderInput::default()
    };
    let begin = Instant::now();
    let mut calls = Vec::new();
    for _ in 0..CALLS {
        let (mut renders, mut exports, mut checks) = (client()?, client()?, client()?);
        let (input, wide) = (input.clone(), wide.to_string());
        calls.push(tokio::spawn(async move {
            let request = ValidateRequest { blueprint: one_file(&wide), ..ValidateRequest::default() };
            let (rendered, exported, checked) = tokio::join!(
                renders.render(render_inline(input.clone())),
                exports.render_exports(export_inline(input, ExportValues::default())),
                checks.validate(request),
            );
            ensure!(rendered?.into_inner().failure.is_none(), "it is rendered");
            ensure!(exported?.into_inner().failure.is_none(), "it is exported");
            assert_eq!(checked?.into_inner().findings, []);
            Ok(())
        }));
    }
    let calls = tokio::spawn(join_all(calls));
    let mut health = HealthClient::new(channel(system, "renderer", None)?);
    let (mut answers, mut slowest) = (0_u32, Duration::ZERO);
    while !calls.is_finished() {
        let asked = Instant::now();
        health.check(HealthCheckRequest::default()).await?;
        slowest = slowest.max(asked.elapsed());
        answers += 1;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let all = begin.elapsed();
    for call in calls.await? {
        call??;
    }
    // If calls blocked the serving threads, the slowest health check would take a third of the
    // total time.
    ensure!(answers >= 5 && slowest * 4 < all, "{answers} answers, the slowest after {slowest:?} of {all:?}");
    Ok(())
}
