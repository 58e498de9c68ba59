//! Worker processes for untrusted input: references and rules of Installations, requests of calls,
//! and descriptors.
//!
//! ```text
//! handler, grpc, stores ──Task──> Evaluators ──Pool──> worker: serve ──> lifecycle::resolve, grpc::explain, Descriptor::load
//!                                      └──────────────Reply────┘
//! ```
//!
//! A worker gets all inputs with its task and cannot ask for more. Only the service reads from
//! stores, with its credentials.

use groundwork_component::{Descriptor, LoadedDescriptor, RepositoryContext};
use groundwork_grpc::{CallEnd, NoAnswer};
use groundwork_lifecycle::{OperationError, Reason, Resolution};
use groundwork_proto::resolver::v1::{ExplainRequest, ExplainResponse, explain_request};
use groundwork_sandbox::{ANYBODY, Connection, ExchangeError, Pool, reply};
use prost::Message;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tonic::Status;

use crate::grpc::{errors, explain, wire};
use crate::resolution_inputs::ResolutionInputs;

/// Computation that a worker runs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task<I> {
    /// Resolves the reference of an Installation.
    Resolve(I),
    /// Answers `Explain` for an Installation, without the references of its component.
    Explain(I),
    /// Answers `Explain` from the request alone, which follows the task.
    Inline,
    /// Decodes the descriptor that follows the task, from the repository of this context.
    Descriptor(RepositoryContext),
}

/// Client of the worker processes. Clones share the workers.
#[derive(Debug, Clone)]
pub(crate) enum Evaluators {
    Pool(Pool),
    /// The computation runs in this process, with the same messages as in a worker.
    #[cfg(test)]
    Own,
}

impl Evaluators {
    async fn exchange<T: DeserializeOwned>(
        &self,
        tenant: &str,
        task: &Task<&ResolutionInputs>,
        body: &[u8],
    ) -> Result<(T, Vec<u8>), ExchangeError> {
        match self {
            Self::Pool(pool) => pool.exchange(tenant, task, body, &()).await,
            #[cfg(test)]
            Self::Own => tests::exchange(task, body),
        }
    }

    /// Resolves the reference of an Installation. If a worker exceeds its limits, that is a failure
    /// of the job, like any other error of its reference.
    ///
    /// # Errors
    ///
    /// No worker is available, or it died for another reason.
    pub(crate) async fn resolve(&self, inputs: &ResolutionInputs) -> Result<Resolution, ExchangeError> {
        match self.exchange(inputs.namespace(), &Task::Resolve(inputs), &[]).await {
            Ok((resolution, _)) => Ok(resolution),
            Err(error) if error.is_limit() => Ok(Resolution::failed(beyond_limit(&error))),
            Err(error) => Err(error),
        }
    }

    /// Computes the answer to a call.
    ///
    /// # Errors
    ///
    /// The status that the call is refused with.
    pub(crate) async fn call<A: Message + Default>(
        &self,
        task: &Task<&ResolutionInputs>,
        request: &impl Message,
    ) -> Result<A, Status> {
        let tenant = match task {
            Task::Explain(inputs) => inputs.namespace(),
            _ => ANYBODY,
        };
        let answer = self.exchange::<CallEnd>(tenant, task, &request.encode_to_vec()).await;
        let (end, body) = answer.map_err(|error| errors::of_work(&error))?;
        end.result(&body).map_err(|missing| match missing {
            NoAnswer::Refused(status) => status,
            NoAnswer::Unreadable(_) => errors::of_work(&ExchangeError::Answer),
        })
    }

    /// Decodes a descriptor from the repository of a context, for the namespace `tenant`.
    ///
    /// # Errors
    ///
    /// See [`ExchangeError`]; the inner result contains errors of the descriptor.
    pub(crate) async fn load(
        &self,
        tenant: &str,
        bytes: &[u8],
        context: &RepositoryContext,
    ) -> Result<LoadedDescriptor, ExchangeError> {
        let task = Task::Descriptor(context.clone());
        Ok(self.exchange(tenant, &task, bytes).await?.0)
    }
}

fn beyond_limit(error: &ExchangeError) -> OperationError {
    let message = format!("resolving the component of this installation: {error}");
    OperationError::new("InitPrerequisites", Reason::ResolveLimit, message)
}

/// Answers tasks until the service closes the connection.
pub(crate) fn serve(connection: &Connection) {
    connection.serve_exchanges(work);
}

fn work(task: Task<ResolutionInputs>, body: &[u8]) -> Vec<u8> {
    let (end, body) = match task {
        Task::Resolve(inputs) => return reply(Some(&inputs.resolve()), &[]),
        Task::Descriptor(context) => return reply(Some(&Descriptor::load(body, &context)), &[]),
        Task::Explain(inputs) => CallEnd::of(explain::of_cluster(&inputs.resolve(), None)),
        Task::Inline => CallEnd::of_work(body, explain_inline),
    };
    reply(Some(&end), &body)
}

fn explain_inline(request: ExplainRequest) -> Result<ExplainResponse, Status> {
    match request.input {
        Some(explain_request::Input::Inline(input)) => explain::inline(input),
        Some(explain_request::Input::Installation(_)) | None => {
            Err(wire::invalid("input", "must contain all inputs"))
        }
    }
}

#[cfg(test)]
mod tests {
    use groundwork_api::Installation;
    use groundwork_proto::component::v1::{Json, Reference};
    use groundwork_proto::resolver::v1::ExplainInput;
    use groundwork_proto::status;
    use groundwork_sandbox::{pack, unpack};
    use serde_json::{Value, json};
    use tonic::Code;

    use super::*;

    /// Returns a worker's answer to a task whose arguments follow as a message.
    pub(super) fn exchange<T: DeserializeOwned>(
        task: &Task<&ResolutionInputs>,
        body: &[u8],
    ) -> Result<(T, Vec<u8>), ExchangeError> {
        let message = pack(task, body).map_err(|_| ExchangeError::Task)?;
        let (task, body) = unpack(&message).map_err(|_| ExchangeError::Task)?;
        let answer = work(task, body);
        let (head, body) = unpack::<Option<T>>(&answer).map_err(|_| ExchangeError::Answer)?;
        Ok((head.ok_or(ExchangeError::Task)?, body.to_vec()))
    }

    fn of<T: DeserializeOwned>(value: Value) -> T {
        serde_json::from_value(value).unwrap()
    }

    fn descriptor(references: &Value) -> Value {
        json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": "example.org/shop", "version": "1.0.0", "provider": "example.org", "repositoryContexts": [],
            "sources": [], "resources": [], "componentReferences": references,
            "labels": [{"name": "weight", "value": 0.123_456_789_012_345_68}],
        }})
    }

    fn installation(component: &Value) -> Installation {
        of(json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation",
            "metadata": {"name": "server", "namespace": "team"},
            "spec": {"componentDescriptor": component, "blueprint": {"ref": {"resourceName": "blueprint"}}},
        }))
    }

    fn inputs(component: &Value) -> ResolutionInputs {
        let mut inputs = ResolutionInputs::of_test(installation(component));
        inputs.context = Some(of(json!({
            "metadata": {"name": "default", "namespace": "team"}, "componentVersionOverwrites": "rules",
            "repositoryContext": {"type": "ociRegistry", "baseUrl": "example.org/c"},
        })));
        inputs.overwrites = Some(of(json!({
            "metadata": {"name": "rules", "namespace": "team"},
            "overwrites": [
                {"source": {"componentName": "example.org/shop"}, "substitution": {"version": "2.0.0"}},
                {"source": {"version": "1.0.0"}, "substitution": {"version": "3.0.0"}},
                {"source": {"version": "9.0.0"}, "substitution": {"version": "3.0.0"}},
            ],
        })));
        inputs
    }

    /// A resolution survives the transfer from the worker to the service, whatever it contains.
    #[tokio::test]
    async fn references_are_resolved_elsewhere_as_they_would_be_here() {
        let named = json!({"ref": {"componentName": "example.org/shop", "version": "1.0.0"}});
        let nested = json!([{"name": "db", "componentName": "example.org/db", "version": "1.0.0", "labels": [
            {"name": "landscaper.gardener.cloud/component-descriptor", "value": descriptor(&json!([]))}]}]);
        let inline = json!({"inline": descriptor(&nested)});
        let broken = json!({"inline": {"meta": {"schemaVersion": "v9"}}});
        for component in [named, inline, broken] {
            let inputs = inputs(&component);
            let (there, here) = (Evaluators::Own.resolve(&inputs).await.unwrap(), inputs.resolve());
            assert_eq!(format!("{there:?}"), format!("{here:?}"));
        }
    }

    /// Secrets for the check of a signature stay in the service.
    #[test]
    fn workers_get_no_secrets() {
        let inputs = ResolutionInputs::of_secret(installation(&json!({})), "key", b"secret");
        let text = serde_json::to_string(&inputs).unwrap();
        assert!(!text.contains("\"key\"") && text.contains("\"server\""), "{text}");
    }

    /// Descriptors keep their bytes and all digits of their numbers, and errors keep their texts.
    #[tokio::test]
    async fn descriptors_are_read_elsewhere_as_they_would_be_here() {
        let context =
            RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": "example.org/c"})).unwrap();
        let texts = [
            descriptor(&json!([])).to_string(),
            descriptor(&json!([{"name": "Not a name"}])).to_string(),
            "a: [".to_owned(),
            "7".to_owned(),
            "meta: {schemaVersion: v9}".to_owned(),
        ];
        for text in texts {
            let there = Evaluators::Own.load(ANYBODY, text.as_bytes(), &context).await.unwrap();
            assert_eq!(there, Descriptor::load(text.as_bytes(), &context), "{text}");
        }
    }

    #[tokio::test]
    async fn calls_are_answered_and_refused_elsewhere() {
        let inputs = inputs(&json!({"ref": {"componentName": "example.org/shop", "version": "1.0.0"}}));
        let explained: ExplainResponse = Evaluators::Own.call(&Task::Explain(&inputs), &()).await.unwrap();
        assert_eq!(explained, explain::of_cluster(&inputs.resolve(), None).unwrap());
        assert_eq!((explained.rules.len(), explained.matched), (3, true));

        let request = |version: &str| {
            let rules = Json { text: json!(inputs.overwrites).to_string() };
            let reference = Reference {
                repository_context: None,
                name: "example.org/shop".to_owned(),
                version: version.to_owned(),
            };
            let input = ExplainInput { reference: Some(reference), overwrites: Some(rules) };
            ExplainRequest { input: Some(explain_request::Input::Inline(input)), references: false }
        };
        let answer: ExplainResponse = Evaluators::Own.call(&Task::Inline, &request("1.0.0")).await.unwrap();
        assert!(answer.matched && answer.rules.len() == 3, "{answer:?}");
        let refused = Evaluators::Own.call::<ExplainResponse>(&Task::Inline, &request("")).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(status::violations(&refused)[0].field, "reference.version");
    }
}
