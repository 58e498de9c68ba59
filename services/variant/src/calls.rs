//! Computations behind calls, from the request and from the objects that the service has read for
//! it. They run in worker processes.

use groundwork_api::strict::Schemas;
use groundwork_api::{Kind as _, PackageVariant, PackageVariantSet};
use groundwork_fleet::{Bundle, ExpandError, Expanded, Preview, child, plan};
use groundwork_proto::component::v1::Json;
use groundwork_proto::status::{self, reasons};
use groundwork_proto::variant::v1::expand_request::Input;
use groundwork_proto::variant::v1::{
    ExpandFailure, ExpandInput, ExpandRequest, ExpandResponse, PreviewRequest, PreviewResponse,
};
use tonic::Status;

use crate::inputs::SetInputs;
use crate::status::invalid;

/// Limit for the objects in one request.
const MOST_OBJECTS: usize = 20_000;

type Answer = Result<Expanded<PackageVariant>, ExpandError>;

/// Bytes of a message that are left for everything but its largest member.
const MARGIN: usize = 1024;

/// Expands a set from the request alone, which includes all objects that the set depends on.
pub(crate) fn expand_inline(request: ExpandRequest) -> Result<ExpandResponse, Status> {
    match request.input {
        Some(Input::Inline(input)) => response(inline(&input)?),
        Some(Input::Set(_)) | None => Err(invalid("input", "it must contain all inputs")),
    }
}

/// Expands a set of the cluster. Existing children keep their names; the others get the names that
/// the controller would give them.
pub(crate) fn expand_named(
    set: &PackageVariantSet,
    inputs: &SetInputs,
    children: &[PackageVariant],
) -> Result<ExpandResponse, Status> {
    response(inputs.expand(set).and_then(|expansion| {
        let names = plan(set, &expansion, children, |_| false)?.names;
        let pairs = expansion.variants.iter().zip(names);
        let variants = pairs.map(|(variant, name)| child(set, &name, variant)).collect();
        Ok(Expanded { variants, target_counts: expansion.target_counts, failures: expansion.failures })
    }))
}

/// Returns a plan as text.
pub(crate) fn preview(preview: &Preview) -> Result<PreviewResponse, Status> {
    let text = serde_json::to_string(preview)
        .map_err(|_| status::internal(reasons::ENCODE_FAILED, "the plan cannot be written as JSON"))?;
    if text.len() + MARGIN > groundwork_grpc::MAX_MESSAGE {
        let text = "the plan is too large for a message: ask for fewer sets";
        return Err(status::exhausted(reasons::ANSWER_TOO_LARGE, text));
    }
    Ok(PreviewResponse { plan: Some(Json { text }), hash: preview.hash.clone() })
}

/// Reads the sets in a request.
pub(crate) fn given_sets(
    PreviewRequest { namespace, sets, .. }: &PreviewRequest,
) -> Result<Vec<PackageVariantSet>, Status> {
    if sets.len() > MOST_OBJECTS {
        return Err(invalid("sets", &format!("a call may have at most {MOST_OBJECTS}")));
    }
    let read = |(index, json): (usize, &Json)| {
        let field = format!("sets[{index}]");
        let object = groundwork_api::strict::read(&json.text, Schemas::shared())
            .map_err(|error| invalid(&field, &error.to_string()))?;
        if !is_set(&object) {
            return Err(invalid(&field, "must be a PackageVariantSet"));
        }
        let set: PackageVariantSet =
            serde_json::from_value(object).map_err(|error| invalid(&field, &error.to_string()))?;
        match set.metadata.namespace.as_deref() {
            Some(other) if other != namespace => Err(invalid(&field, "it is in another namespace")),
            _ => Ok(set),
        }
    };
    sets.iter().enumerate().map(read).collect()
}

fn is_set(object: &serde_json::Value) -> bool {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    object["kind"] == PackageVariantSet::KIND && version.starts_with(PackageVariantSet::GROUP)
}

/// Expands the set in the request, without reading from the cluster.
fn inline(input: &ExpandInput) -> Result<Answer, Status> {
    let count = input.objects.len();
    if count > MOST_OBJECTS {
        let text = format!("there are {count} objects; a call may have at most {MOST_OBJECTS}");
        return Err(invalid("inline.objects", &text));
    }
    let mut set: Option<PackageVariantSet> = None;
    let mut others = Vec::new();
    for (index, json) in input.objects.iter().enumerate() {
        let field = format!("inline.objects[{index}]");
        let object = groundwork_api::strict::read(&json.text, Schemas::shared())
            .map_err(|error| invalid(&field, &error.to_string()))?;
        if !is_set(&object) {
            others.push((field, object));
            continue;
        }
        if set.is_some() {
            return Err(invalid(&field, "only one PackageVariantSet is allowed"));
        }
        let read = serde_json::from_value(object)
            .map_err(|error| invalid(&field, &format!("not a valid PackageVariantSet: {error}")))?;
        set = Some(read);
    }
    let set = set.ok_or_else(|| invalid("inline.objects", "must contain a PackageVariantSet"))?;
    let mut bundle = Bundle::new(set.metadata.namespace.as_deref().unwrap_or_default());
    for (field, object) in &others {
        bundle.add(object).map_err(|error| invalid(field, &error.to_string()))?;
    }
    Ok(bundle.expand(&set))
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
            "the {} package variants and {} failures are too large for a message: split the set",
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

#[cfg(test)]
mod tests {
    use groundwork_testkit::made_up::{Random, cases};
    use tonic::Code;

    use super::*;

    #[test]
    fn a_call_brings_only_so_many_objects() {
        let objects = vec![Json::default(); MOST_OBJECTS + 1];
        let refused = inline(&ExpandInput { objects }).err().unwrap();
        assert_eq!(
            refused.message(),
            "inline.objects: there are 20001 objects; a call may have at most 20000"
        );
    }

    /// Environment variable with the number of generated calls; `cargo xtask fuzz` asks for more
    /// than the default.
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

    /// Every generated call gets an answer or an error; none of them panics.
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
