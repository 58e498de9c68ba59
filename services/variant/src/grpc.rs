//! `Expand` and `Preview`: what sets should have, and what they would do, without doing it.

use groundwork_api::{Kind, PackageRevision, PackageVariant, PackageVariantSet, Repository};
use groundwork_controller::{ApiError, Objects, ReconcileError, WorkError, Workers};
use groundwork_fleet::{Bundle, ExpandError, Expanded, child, plan};
use groundwork_grpc::{Access, ResourceAttributes};
use groundwork_kubernetes::is_dns_subdomain;
use groundwork_manifest::Schemas;
use groundwork_proto::component::v1::{Json, ObjectName};
use groundwork_proto::status::{self, Violation, reasons};
use groundwork_proto::variant::v1::expand_request::Input;
use groundwork_proto::variant::v1::variants_server::Variants;
use groundwork_proto::variant::v1::{
    ExpandFailure, ExpandInput, ExpandRequest, ExpandResponse, PreviewRequest, PreviewResponse,
};
use tonic::metadata::MetadataMap;
use tonic::{Request, Response, Status};

use crate::inputs::{ReadError, SetExpansion, discover, needs_repositories, read_inputs, selected_kinds};
use crate::preview::preview_namespace;
use crate::set::children;

/// The service behind the contract.
pub(crate) struct Service {
    pub(crate) access: Access,
    pub(crate) objects: Objects,
    /// For calls only: sets do not wait for them.
    pub(crate) workers: Workers,
}

/// Objects that a call may bring along.
const MOST_OBJECTS: usize = 20_000;

type Answer = Result<Expanded<PackageVariant>, ExpandError>;

#[tonic::async_trait]
impl Variants for Service {
    async fn expand(&self, request: Request<ExpandRequest>) -> Result<Response<ExpandResponse>, Status> {
        let (metadata, _, request) = request.into_parts();
        match request.input {
            Some(Input::Inline(input)) => {
                let expanded = self.workers.run(move || response(inline(&input)?)).await;
                expanded.map_err(interrupted)?.map(Response::new)
            }
            Some(Input::Set(name)) => self.of_cluster(&name, &metadata).await.map(Response::new),
            None => Err(invalid("input", "it must be given")),
        }
    }

    async fn preview(&self, request: Request<PreviewRequest>) -> Result<Response<PreviewResponse>, Status> {
        let (metadata, _, PreviewRequest { namespace, sets }) = request.into_parts();
        if !is_dns_subdomain(&namespace) {
            return Err(invalid("namespace", "it must be a name as Kubernetes has them"));
        }
        let all =
            |group, resource| ResourceAttributes { group, resource, namespace: Some(&namespace), name: None };
        let attributes = [
            all(PackageVariantSet::GROUP, PackageVariantSet::PLURAL),
            all(PackageVariant::GROUP, PackageVariant::PLURAL),
            all(Repository::GROUP, Repository::PLURAL),
            all(PackageRevision::GROUP, PackageRevision::PLURAL),
        ];
        self.access.authorise(&metadata, &attributes).await?;
        let given = given_sets(&namespace, &sets)?;
        let planned = match given.as_slice() {
            [] => self.objects.list::<PackageVariantSet>(&namespace, "").await.map_err(of_api)?,
            given => given.to_vec(),
        };
        for set in &planned {
            self.authorise_selected(&metadata, &namespace, set).await?;
        }
        let preview = preview_namespace(&namespace, given, &self.objects).await.map_err(of_read)?;
        let text = serde_json::to_string(&preview)
            .map_err(|_| status::internal(reasons::ENCODE_FAILED, "the plan cannot be written as JSON"))?;
        if text.len() + MARGIN > groundwork_grpc::MAX_MESSAGE {
            let text = "the plan does not fit into a message: ask for fewer sets";
            return Err(status::exhausted(reasons::ANSWER_TOO_LARGE, text));
        }
        Ok(Response::new(PreviewResponse { plan: Some(Json { text }), hash: preview.hash }))
    }
}

/// What a message has beside its largest member.
const MARGIN: usize = 1024;

/// The sets that a request brings along.
fn given_sets(namespace: &str, sets: &[Json]) -> Result<Vec<PackageVariantSet>, Status> {
    if sets.len() > MOST_OBJECTS {
        return Err(invalid("sets", &format!("a call may bring {MOST_OBJECTS}")));
    }
    let read = |(index, json): (usize, &Json)| {
        let field = format!("sets[{index}]");
        let object = groundwork_manifest::read(&json.text, Schemas::shared())
            .map_err(|error| invalid(&field, &error.to_string()))?;
        if !is_set(&object) {
            return Err(invalid(&field, "it is no PackageVariantSet"));
        }
        let set: PackageVariantSet =
            serde_json::from_value(object).map_err(|error| invalid(&field, &error.to_string()))?;
        match set.metadata.namespace.as_deref() {
            Some(other) if other != namespace => Err(invalid(&field, "it is of another namespace")),
            _ => Ok(set),
        }
    };
    sets.iter().enumerate().map(read).collect()
}

fn is_set(object: &serde_json::Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    object["kind"] == PackageVariantSet::KIND && version.starts_with(PackageVariantSet::GROUP)
}

impl Service {
    /// Refuses who may not get what a set selects: the answer shows it.
    async fn authorise_selected(
        &self,
        metadata: &MetadataMap,
        namespace: &str,
        set: &PackageVariantSet,
    ) -> Result<(), Status> {
        for (api_version, kind) in selected_kinds(set) {
            let selected = match discover(&api_version, &kind, self.objects.client()).await {
                Ok((selected, _)) => selected,
                // The answer shows no objects of a kind that cannot be read.
                Err(ReadError::Unavailable(_)) => continue,
                Err(ReadError::Retry(error)) => return Err(of_read(error)),
            };
            let attributes = ResourceAttributes {
                group: &selected.group,
                resource: &selected.plural,
                namespace: Some(namespace),
                name: None,
            };
            self.access.authorise(metadata, &[attributes]).await?;
        }
        Ok(())
    }

    async fn of_cluster(&self, name: &ObjectName, metadata: &MetadataMap) -> Result<ExpandResponse, Status> {
        let ObjectName { namespace, name } = name;
        for (member, text) in [("set.namespace", namespace), ("set.name", name)] {
            if !is_dns_subdomain(text) {
                return Err(invalid(member, "it must be a name as Kubernetes has them"));
            }
        }
        let of =
            |group, resource, name| ResourceAttributes { group, resource, namespace: Some(namespace), name };
        let set = of(PackageVariantSet::GROUP, PackageVariantSet::PLURAL, Some(name.as_str()));
        self.access.authorise(metadata, &[set]).await?;
        let found = self.objects.get::<PackageVariantSet>(namespace, name).await.map_err(of_api)?;
        let set = found.ok_or_else(|| {
            let message = format!("package variant set {namespace}/{name} does not exist");
            status::not_found(reasons::SET_NOT_FOUND, message)
        })?;
        // What the answer shows of other objects has to be open to the caller too.
        let mut attributes = vec![of(PackageVariant::GROUP, PackageVariant::PLURAL, None)];
        if needs_repositories(&set) {
            attributes.push(of(Repository::GROUP, Repository::PLURAL, None));
        }
        attributes.push(of(PackageRevision::GROUP, PackageRevision::PLURAL, None));
        self.access.authorise(metadata, &attributes).await?;
        self.authorise_selected(metadata, namespace, &set).await?;
        let inputs = read_inputs(&set, &self.objects, &self.workers).await.map_err(of_read)?;
        let children = children(&set, &self.objects).await.map_err(of_api)?;
        let expansion = match inputs.expand(set.clone(), &self.workers).await.map_err(of_read)? {
            SetExpansion::Expanded(expansion) => expansion,
            SetExpansion::Failed(failure) => return response(Err(failure)),
        };
        let answer = self.workers.run(move || {
            // Names of those that exist; the others get one as they would from the controller.
            let named = plan(&set, &expansion, &children, |_| false).map(|plan| plan.names);
            response(named.map(|names| {
                let pairs = expansion.variants.iter().zip(names);
                let variants = pairs.map(|(variant, name)| child(&set, &name, variant)).collect();
                let (target_counts, failures) = (expansion.target_counts.clone(), expansion.failures.clone());
                Expanded { variants, target_counts, failures }
            }))
        });
        answer.await.map_err(interrupted)?
    }
}

/// Expands what the request brings along, and reads nothing else.
fn inline(input: &ExpandInput) -> Result<Answer, Status> {
    let count = input.objects.len();
    if count > MOST_OBJECTS {
        let text = format!("there are {count} objects, a call may bring {MOST_OBJECTS}");
        return Err(invalid("inline.objects", &text));
    }
    let mut set: Option<PackageVariantSet> = None;
    let mut others = Vec::new();
    for (index, json) in input.objects.iter().enumerate() {
        let field = format!("inline.objects[{index}]");
        let object = groundwork_manifest::read(&json.text, Schemas::shared())
            .map_err(|error| invalid(&field, &error.to_string()))?;
        if !is_set(&object) {
            others.push((field, object));
            continue;
        }
        if set.is_some() {
            return Err(invalid(&field, "there is more than one PackageVariantSet"));
        }
        let read = serde_json::from_value(object)
            .map_err(|error| invalid(&field, &format!("it is no PackageVariantSet: {error}")))?;
        set = Some(read);
    }
    let set = set.ok_or_else(|| invalid("inline.objects", "there is no PackageVariantSet among them"))?;
    let mut bundle = Bundle::new(set.metadata.namespace.as_deref().unwrap_or_default());
    for (field, object) in &others {
        bundle.add(object).map_err(|error| invalid(field, &error.to_string()))?;
    }
    Ok(bundle.expand(&set))
}

fn interrupted(error: WorkError) -> Status {
    status::interrupted(error.is_limit(), error.to_string())
}

fn response(answer: Answer) -> Result<ExpandResponse, Status> {
    let Expanded { variants, target_counts, failures } = match answer {
        Ok(expanded) => expanded,
        Err(failure) => {
            return Ok(ExpandResponse { failure: Some(told(&failure)), ..ExpandResponse::default() });
        }
    };
    let mut size = 0;
    let mut written = Vec::with_capacity(variants.len());
    for variant in &variants {
        let text = serde_json::to_string(variant)
            .map_err(|_| status::internal(reasons::ENCODE_FAILED, "an object cannot be written as JSON"))?;
        size += text.len() + 16;
        written.push(Json { text });
    }
    let isolated: Vec<ExpandFailure> = failures.iter().map(told).collect();
    size += isolated.iter().map(|failure| failure.message.len() + failure.reason.len() + 16).sum::<usize>();
    if size > groundwork_grpc::MAX_MESSAGE {
        let text = format!(
            "the {} package variants and {} failures do not fit into a message: split the set",
            variants.len(),
            isolated.len()
        );
        return Err(status::exhausted(reasons::ANSWER_TOO_LARGE, text));
    }
    let target_counts =
        target_counts.into_iter().map(|count| u32::try_from(count).unwrap_or(u32::MAX)).collect();
    Ok(ExpandResponse { variants: written, target_counts, failure: None, isolated })
}

fn told(failure: &ExpandError) -> ExpandFailure {
    let violations = match failure {
        ExpandError::Invalid(violations) => violations.clone(),
        _ => Vec::new(),
    };
    ExpandFailure { reason: failure.reason().to_owned(), message: failure.to_string(), violations }
}

pub(crate) fn invalid(field: &str, message: &str) -> Status {
    let violation = Violation::new(field, message);
    status::invalid(reasons::INVALID_REQUEST, format!("{field}: {message}"), vec![violation])
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub(crate) fn of_api(error: ApiError) -> Status {
    match &error {
        ApiError::Forbidden { .. } => status::denied(reasons::FORBIDDEN, error.to_string()),
        _ => status::unavailable(reasons::API_SERVER_UNAVAILABLE, error.to_string()),
    }
}

#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
fn of_read(error: ReconcileError) -> Status {
    status::unavailable(reasons::API_SERVER_UNAVAILABLE, error.message)
}

#[cfg(test)]
mod tests {
    use groundwork_testkit::made_up::{Random, cases};
    use tonic::Code;

    use super::*;

    #[test]
    fn a_call_brings_only_so_many_objects() {
        let objects = vec![Json::default(); MOST_OBJECTS + 1];
        let refused = inline(&ExpandInput { objects }).err().unwrap();
        assert_eq!(refused.message(), "inline.objects: there are 20001 objects, a call may bring 20000");
    }

    /// How many calls are made up; `cargo xtask fuzz` asks for more.
    const CASES_VARIABLE: &str = "GROUNDWORK_MADE_UP_CALLS";
    const CASES: usize = 600;

    const SETS: [&str; 3] = [
        r#"{"apiVersion": "config.porch.kpt.dev/v1alpha2", "kind": "PackageVariantSet", "metadata": {"name": "s", "namespace": "f"},
            "spec": {"upstream": {"repo": "c", "package": "p", "revision": "v1"},
                "targets": [{"repositories": [{"name": "edge", "packageNames": ["a", "b"]}], "template": {
                    "downstream": {"packageExpr": "target.package + '-' + repository.name"},
                    "labelExprs": [{"keyExpr": "'k'", "valueExpr": "repository.labels['region']"}],
                    "packageContext": {"data": {"a": "1"}, "dataExprs": [{"key": "b", "valueExpr": "target.repo"}]}}}]}}"#,
        r#"{"apiVersion": "config.porch.kpt.dev/v1alpha2", "kind": "PackageVariantSet", "metadata": {"name": "s", "namespace": "f"},
            "spec": {"upstream": {"repo": "c", "package": "p", "revision": "v1"},
                "targets": [{"repositorySelector": {"matchLabels": {"region": "eu"}, "matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]},
                    "template": {"injectors": [{"kind": "ConfigMap", "name": "x"}], "adoptionPolicy": "adoptExisting"}}]}}"#,
        r#"{"apiVersion": "config.porch.kpt.dev/v1alpha2", "kind": "PackageVariantSet", "metadata": {"name": "s", "namespace": "f"},
            "spec": {"upstream": {"repo": "c", "package": "p", "revision": "v1"},
                "targets": [{"objectSelector": {"apiVersion": "v1", "kind": "ConfigMap", "matchLabels": {"region": "eu"}},
                    "template": {"downstream": {"repo": "edge", "packageExpr": "target.name.matches('^[a-z]+$') ? target.name : 'x'"}}}]}}"#,
    ];
    const OBJECTS: [&str; 2] = [
        r#"{"apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "Repository", "metadata": {"name": "edge", "namespace": "f", "labels": {"region": "eu"}},
            "spec": {"type": "git", "git": {"repo": "https://example.org/edge.git"}}}"#,
        r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "site", "namespace": "f", "labels": {"region": "eu"}}, "data": {"a": "b"}}"#,
    ];

    /// Whatever a call brings along, it is answered or refused.
    #[test]
    fn made_up_calls_are_answered() {
        let cases = cases(CASES_VARIABLE, CASES);
        let mut random = Random::new(29);
        let mut expanded = 0;
        for _ in 0..cases {
            let mut objects: Vec<String> = [random.one_of(&SETS)]
                .into_iter()
                .chain(&OBJECTS)
                .map(|object| (*object).to_owned())
                .collect();
            let at = [0, 0, 1, 2][random.below(4)];
            objects[at] = random.changed(&objects[at]);
            let objects: Vec<Json> = objects.into_iter().map(|text| Json { text }).collect();
            match inline(&ExpandInput { objects: objects.clone() }).and_then(response) {
                Ok(answer) => expanded += usize::from(answer.failure.is_none()),
                Err(status) => assert_eq!(status.code(), Code::InvalidArgument, "{status:?}: {objects:?}"),
            }
        }
        assert!(expanded > cases / 20, "{expanded} of {cases} are expanded");
    }
}
