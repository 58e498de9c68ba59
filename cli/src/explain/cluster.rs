//! Explains an Installation of a cluster, with the answer of the resolver service.

use std::path::PathBuf;

use clap::Args;
use groundwork_component::{GraphState, Reference, RepositoryContext};
use groundwork_grpc::with_limits;
use groundwork_proto::component::v1::{ObjectName, Reference as WireReference};
use groundwork_proto::resolver::v1::explain_request::Input;
use groundwork_proto::resolver::v1::explained_reference::State;
use groundwork_proto::resolver::v1::resolver_client::ResolverClient;
use groundwork_proto::resolver::v1::rule_outcome::Outcome;
use groundwork_proto::resolver::v1::{ExplainRequest, ExplainedReference, RuleOutcome};
use serde_json::{Value, json};

use super::overwrites::Format;
use super::references::{self, Told, ToldRule};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::live::{self, LiveError, installation_name};
use crate::rules;
use crate::service::{self, refused};
use crate::stdout;

/// Address of the resolver service that `docker compose up` and `cargo xtask dev` start.
const DEFAULT_SERVER: &str = "http://127.0.0.1:9441";

/// Arguments that lead to the resolver service.
#[derive(Debug, Args)]
pub(super) struct ServerArguments {
    /// The resolver service.
    #[arg(long, env = "GROUNDWORK_RESOLVER", value_name = "URL", default_value = DEFAULT_SERVER)]
    server: String,

    /// PEM file with certificates to trust; without it those of the system, if the URL is one of
    /// https.
    #[arg(long, env = "GROUNDWORK_RESOLVER_TLS_CA", value_name = "FILE")]
    server_tls_ca: Option<PathBuf>,

    /// File with the bearer token to show [default: that of the kube context].
    #[arg(long, env = "GROUNDWORK_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

pub(super) fn run(name: &str, server: &ServerArguments, format: Format) -> Ending {
    let name = match installation_name(name) {
        Ok(name) => name,
        Err(problem) => {
            diagnostic::print(&[Diagnostic::error(format!("--installation: {problem}"))]);
            return Ending::Unusable;
        }
    };
    live::run(async || {
        let ca = server.server_tls_ca.as_deref();
        let (channel, client) = service::connect(&server.server, ca, server.token_file.as_deref()).await?;
        let (namespace, name) = name.in_namespace(client.default_namespace());
        let request = ExplainRequest {
            input: Some(Input::Installation(ObjectName { namespace: namespace.clone(), name: name.clone() })),
            references: true,
        };
        let mut calls: ResolverClient<_> = with_limits!(ResolverClient::new(channel));
        let answer = service::in_time(async { calls.explain(request).await.map_err(refused) });
        let answer = answer.await?.into_inner();
        let told = answer.references.iter().map(told).collect::<Result<Vec<_>, _>>()?;
        let warnings: Vec<_> = answer.findings.iter().map(Diagnostic::warning).collect();
        diagnostic::print(&warnings);
        let ended = stdout::write(&match format {
            Format::Text => references::text(&format!("Installation {namespace}/{name}"), &told),
            Format::Json => {
                let condition = Some(answer.condition_message).filter(|message| !message.is_empty());
                let item = json!({
                    "namespace": namespace, "name": name, "condition": condition,
                    "references": references::json(&told),
                });
                format!("{:#}\n", Value::from(vec![item]))
            }
        });
        Ok(match ended {
            Ending::Rendered if told.iter().any(Told::has_failed) => Ending::Failed,
            ended => ended,
        })
    })
}

fn told(entry: &ExplainedReference) -> Result<Told, LiveError> {
    let message = || entry.message.clone();
    Ok(Told {
        depth: usize::try_from(entry.depth).unwrap_or_default(),
        name: entry.name.clone(),
        original: reference(entry.original.as_ref())?,
        effective: reference(entry.effective.as_ref())?,
        rules: entry.rules.iter().map(rule).collect(),
        state: match entry.state() {
            State::Repeated => GraphState::Repeated,
            State::Failed => GraphState::Failed(message()),
            State::Limit => GraphState::Limit(message()),
            State::Followed | State::Unspecified => GraphState::Followed,
        },
    })
}

fn reference(wire: Option<&WireReference>) -> Result<Reference, LiveError> {
    let wire = wire.cloned().unwrap_or_default();
    let context = wire.repository_context.map(|json| serde_json::from_str::<Value>(&json.text)).transpose();
    let context = context.map_err(|_| {
        LiveError::Refused(
            "the answer of the resolver has a repository context that is not valid JSON".to_owned(),
        )
    })?;
    Ok(Reference {
        repository: context.and_then(RepositoryContext::new),
        name: wire.name,
        version: wire.version,
    })
}

fn rule(outcome: &RuleOutcome) -> ToldRule {
    let number = usize::try_from(outcome.rule).unwrap_or_default();
    let conflicts: Vec<(String, usize)> = outcome
        .conflicts
        .iter()
        .map(|conflict| (conflict.attribute.clone(), usize::try_from(conflict.rule).unwrap_or_default()))
        .collect();
    let text = if outcome.outcome() == Outcome::Ignored {
        let by = conflicts.iter().map(|(field, rule)| (field.as_str(), *rule));
        format!("rule {number}: ignored ({})", rules::blocked(by))
    } else {
        format!("rule {number}: applied")
    };
    ToldRule { number, conflicts, text }
}
