//! Expansions in worker processes, because expressions and selectors are untrusted input.
//!
//! ```text
//! set, grpc ──Task──> Expanders ──Pool──> worker: serve ──> fleet::expand, calls
//!                        └──────────────Reply──────┘
//! ```
//!
//! A worker receives all inputs with its task and has no access to the API server.

use groundwork_api::{PackageVariant, PackageVariantSet};
use groundwork_fleet::{ExpandError, Expansion, Rule, Ruling};
use groundwork_grpc::{CallEnd, NoAnswer};
use groundwork_proto::status;
use groundwork_proto::variant::v1::PreviewRequest;
use groundwork_sandbox::{ANYBODY, Connection, ExchangeError, Pool, reply};
use prost::Message;
use serde::{Deserialize, Serialize};
use tonic::Status;

use crate::calls;
use crate::inputs::SetInputs;
use crate::preview::PreviewInputs;

/// Computation that a worker runs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Task {
    /// Expands a set for its controller.
    Set(Box<(PackageVariantSet, SetInputs)>),
    /// Answers `Expand` from the request alone, which follows the task.
    Inline,
    /// Answers `Expand` for a set of the cluster, with its children.
    Named(Box<(PackageVariantSet, SetInputs, Vec<PackageVariant>)>),
    /// Reads the sets in the request of `Preview` that follows the task.
    Given,
    Preview(Box<PreviewInputs>),
    /// Evaluates an approval rule.
    Rule(Box<Rule>),
}

/// Reason why a set has no expansion.
#[derive(Debug)]
pub(crate) enum ExpansionError {
    /// The set cannot be expanded.
    Set(ExpandError),
    /// The worker did not complete the work.
    Work(ExchangeError),
}

/// Client of the worker processes. Clones share the workers.
#[derive(Debug, Clone)]
pub(crate) struct Expanders(Pool);

impl Expanders {
    pub(crate) fn new(pool: Pool) -> Self {
        Self(pool)
    }

    /// Computes the children of a set.
    ///
    /// # Errors
    ///
    /// See [`ExpansionError`].
    pub(crate) async fn expand(
        &self,
        set: &PackageVariantSet,
        inputs: SetInputs,
    ) -> Result<Expansion, ExpansionError> {
        let task = Task::Set(Box::new((set.clone(), inputs)));
        let tenant = set.metadata.namespace.as_deref().unwrap_or_default();
        let exchanged = self.0.exchange::<Result<Expansion, ExpandError>>(tenant, &task, &[], &()).await;
        let (expanded, _) = exchanged.map_err(ExpansionError::Work)?;
        expanded.map_err(ExpansionError::Set)
    }

    /// Evaluates an approval rule for a namespace.
    ///
    /// # Errors
    ///
    /// The text for users: the rule fails, or the worker did not complete the work.
    pub(crate) async fn rule(&self, namespace: &str, rule: Rule) -> Result<Ruling, String> {
        let task = Task::Rule(Box::new(rule));
        let ruled = self.0.exchange::<Result<Ruling, String>>(namespace, &task, &[], &()).await;
        ruled.map_err(|error| error.to_string())?.0
    }

    /// Computes the answer to a call.
    ///
    /// # Errors
    ///
    /// The status that the call is refused with.
    pub(crate) async fn call<A: Message + Default>(
        &self,
        task: &Task,
        request: &impl Message,
    ) -> Result<A, Status> {
        let (end, body) = self.ask::<CallEnd>(task, request).await?;
        end.result(&body).map_err(|missing| match missing {
            NoAnswer::Refused(status) => status,
            NoAnswer::Unreadable(_) => interrupted(&ExchangeError::Answer),
        })
    }

    /// Reads the sets in a request.
    ///
    /// # Errors
    ///
    /// The status that the call is refused with.
    pub(crate) async fn given_sets(
        &self,
        request: &PreviewRequest,
    ) -> Result<Vec<PackageVariantSet>, Status> {
        match self.ask::<Result<_, CallEnd>>(&Task::Given, request).await? {
            (Ok(sets), _) => Ok(sets),
            (Err(end), body) => match end.result::<()>(&body) {
                Err(NoAnswer::Refused(status)) => Err(status),
                _ => Err(interrupted(&ExchangeError::Answer)),
            },
        }
    }

    async fn ask<T: for<'a> Deserialize<'a>>(
        &self,
        task: &Task,
        request: &impl Message,
    ) -> Result<(T, Vec<u8>), Status> {
        self.0
            .exchange(ANYBODY, task, &request.encode_to_vec(), &())
            .await
            .map_err(|error| interrupted(&error))
    }
}

fn interrupted(error: &ExchangeError) -> Status {
    status::interrupted(error.is_limit(), error.to_string())
}

/// Answers tasks until the service closes the connection.
pub(crate) fn serve(connection: &Connection) {
    connection.serve_exchanges(work);
}

fn work(task: Task, request: &[u8]) -> Vec<u8> {
    let (end, body) = match task {
        Task::Set(task) => {
            let (set, inputs) = *task;
            return reply(Some(&inputs.expand(&set)), &[]);
        }
        Task::Rule(rule) => return reply(Some(&rule.evaluate()), &[]),
        Task::Given => {
            return match PreviewRequest::decode(request) {
                Ok(request) => given(&request),
                Err(_) => reply(None::<&()>, &[]),
            };
        }
        Task::Inline => CallEnd::of_work(request, calls::expand_inline),
        Task::Named(task) => {
            let (set, inputs, children) = *task;
            CallEnd::of(calls::expand_named(&set, &inputs, &children))
        }
        Task::Preview(inputs) => CallEnd::of(calls::preview(&inputs.preview())),
    };
    reply(Some(&end), &body)
}

fn given(request: &PreviewRequest) -> Vec<u8> {
    match calls::given_sets(request) {
        Ok(sets) => reply(Some(&Ok::<_, CallEnd>(sets)), &[]),
        Err(status) => {
            let (end, details) = CallEnd::of::<()>(Err(status));
            reply(Some(&Err::<Vec<PackageVariantSet>, _>(end)), &details)
        }
    }
}

#[cfg(test)]
mod tests {
    use groundwork_fleet::{Attributes, Unavailable};
    use groundwork_proto::component::v1::Json;
    use groundwork_proto::variant::v1::expand_request::Input;
    use groundwork_proto::variant::v1::{ExpandInput, ExpandRequest, ExpandResponse, PreviewResponse};
    use groundwork_sandbox::{pack, unpack};
    use serde::de::DeserializeOwned;
    use serde_json::json;
    use tonic::Code;

    use super::*;

    /// Returns a worker's answer to a task whose arguments follow as a message.
    fn answered<T: DeserializeOwned>(task: &Task, request: &[u8]) -> (T, Vec<u8>) {
        let message = pack(task, request).unwrap();
        let (task, request) = unpack(&message).unwrap();
        let answer = work(task, request);
        let (head, body) = unpack::<Option<T>>(&answer).unwrap();
        (head.unwrap(), body.to_vec())
    }

    fn call<A: Message + Default>(task: &Task, request: &[u8]) -> Result<A, Status> {
        let (end, body) = answered::<CallEnd>(task, request);
        end.result(&body).map_err(|missing| match missing {
            NoAnswer::Refused(status) => status,
            NoAnswer::Unreadable(error) => unreachable!("{error}"),
        })
    }

    fn set() -> PackageVariantSet {
        let set = json!({
            "apiVersion": "config.porch.kpt.dev/v1alpha2", "kind": "PackageVariantSet",
            "metadata": {"name": "s", "namespace": "f", "uid": "u"},
            "spec": {
                "upstream": {"repo": "c", "package": "p", "revision": "v1"}, "failurePolicy": "Isolate",
                "targets": [
                    {"repositories": [{"name": "edge", "packageNames": ["a", "b"]}], "template": {
                        "downstream": {"packageExpr": "target.package + '-' + repository.labels['region']"},
                        "packageContext": {"data": {"a": "1"}, "removeKeys": ["b"]},
                        "pipeline": {"mutators": [{"image": "i", "name": "m", "configMapExprs": [{"key": "k", "valueExpr": "repository.name"}]}]}}},
                    {"objectSelector": {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"region": "eu"}},
                        "template": {"downstream": {"repo": "edge"}}},
                    {"objectSelector": {"apiVersion": "a/v1", "kind": "B", "matchLabels": {"region": "eu"}},
                        "template": {"downstream": {"repo": "edge"}}},
                ],
            },
        });
        serde_json::from_value(set).unwrap()
    }

    fn inputs() -> SetInputs {
        let seen = |name: &str| Attributes {
            name: name.to_owned(),
            namespace: "f".to_owned(),
            labels: [("region".to_owned(), "eu".to_owned())].into(),
            ..Attributes::default()
        };
        let kind = |api_version: &str, kind: &str| (api_version.to_owned(), kind.to_owned());
        let missing = Unavailable("no matches for kind \"B\"".to_owned());
        SetInputs {
            revision_sets: Vec::new(),
            revisions: None,
            repositories: vec![seen("edge")],
            others: [(kind("v1", "ConfigMap"), Ok(vec![seen("site")])), (kind("a/v1", "B"), Err(missing))]
                .into(),
            kinds: Vec::new(),
        }
    }

    /// A worker gives the same answer as the service would.
    #[test]
    fn a_set_is_expanded_elsewhere_as_it_would_be_here() {
        let expected = inputs().expand(&set()).unwrap();
        assert_eq!((expected.variants.len(), expected.failures.len()), (3, 1));
        let task = Task::Set(Box::new((set(), inputs())));
        assert_eq!(answered::<Result<Expansion, ExpandError>>(&task, &[]).0, Ok(expected.clone()));

        let mut stopping = set();
        stopping.spec.failure_policy = None;
        let failure = inputs().expand(&stopping).unwrap_err();
        let task = Task::Set(Box::new((stopping, inputs())));
        assert_eq!(answered::<Result<Expansion, ExpandError>>(&task, &[]).0, Err(failure));

        let task = Task::Named(Box::new((set(), inputs(), Vec::new())));
        let named: ExpandResponse = call(&task, &[]).unwrap();
        assert_eq!(named, calls::expand_named(&set(), &inputs(), &[]).unwrap());
        assert_eq!((named.variants.len(), named.isolated.len()), (3, 1));
    }

    /// A worker reads the content of calls, and refuses it with the same texts as the service.
    #[test]
    fn calls_are_answered_and_refused_elsewhere() {
        let json = |object: &serde_json::Value| Json { text: object.to_string() };
        let repository = json!({"apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "Repository",
            "metadata": {"name": "edge", "namespace": "f", "labels": {"region": "eu"}}});
        let inline = |objects| ExpandRequest { input: Some(Input::Inline(ExpandInput { objects })) };
        let request = inline(vec![json(&json!(set())), json(&repository)]);
        let answer: ExpandResponse = call(&Task::Inline, &request.encode_to_vec()).unwrap();
        assert_eq!(answer, calls::expand_inline(request).unwrap());
        assert_eq!(answer.variants.len(), 2);
        let refused = call::<ExpandResponse>(&Task::Inline, &inline(Vec::new()).encode_to_vec()).unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(status::violations(&refused)[0].field, "inline.objects");

        let request = |object| PreviewRequest { namespace: "f".to_owned(), sets: vec![object], asker: None };
        let (given, _) = answered::<Result<Vec<PackageVariantSet>, CallEnd>>(
            &Task::Given,
            &request(json(&json!(set()))).encode_to_vec(),
        );
        assert_eq!(given, Ok(vec![set()]));
        let (refused, body) = answered::<Result<Vec<PackageVariantSet>, CallEnd>>(
            &Task::Given,
            &request(json(&repository)).encode_to_vec(),
        );
        let refused = refused.unwrap_err().result::<()>(&body);
        let Err(NoAnswer::Refused(refused)) = refused else { unreachable!("{refused:?}") };
        assert_eq!(refused.message(), "sets[0]: must be a PackageVariantSet");
    }

    #[test]
    fn a_preview_is_made_elsewhere_as_it_would_be_here() {
        let inputs = PreviewInputs::of(vec![set()], inputs());
        let expected = calls::preview(&inputs.preview()).unwrap();
        let answer: PreviewResponse = call(&Task::Preview(Box::new(inputs)), &[]).unwrap();
        assert_eq!(answer, expected);
        assert!(answer.plan.unwrap().text.contains("\"created\":[{"), "{expected:?}");
    }
}
