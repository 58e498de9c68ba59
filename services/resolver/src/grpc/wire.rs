//! Conversion between messages and the types of the engines. Errors contain the path of the invalid
//! field.

use groundwork_api::Kind;
use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::strict::Schemas;
use groundwork_component::{Access, ComponentVersion, Reference, RepositoryContext};
use groundwork_lifecycle::OperationError;
use groundwork_proto::component::v1 as proto;
use groundwork_proto::resolver::v1::Planning;
use groundwork_proto::resolver::v1::fetch_resource_request::Content;
use groundwork_proto::status::{self, Violation, reasons};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tonic::Status;

/// Limit for a text in a reference, in bytes; names and versions of components are far shorter.
const LONGEST_TEXT: usize = 4 * 1024;
const LONGEST_CONTEXT: usize = 64 * 1024;

pub(crate) fn invalid(field: &str, problem: &str) -> Status {
    let violation = Violation::new(field, problem);
    status::invalid(reasons::INVALID_REQUEST, format!("{field} {problem}"), [violation])
}

/// Validates the name of an object. An invalid name could change the path of a request.
pub(super) fn object_name(name: Option<proto::ObjectName>, field: &str) -> Result<proto::ObjectName, Status> {
    let name = name.ok_or_else(|| invalid(field, "must be given"))?;
    for (member, text) in [("namespace", &name.namespace), ("name", &name.name)] {
        if !is_dns_subdomain(text) {
            return Err(invalid(&format!("{field}.{member}"), "must be a valid Kubernetes name"));
        }
    }
    Ok(name)
}

/// Party on whose behalf content is read, and whose rights count.
#[derive(Debug)]
pub(super) enum Reader {
    Installation(proto::ObjectName),
    /// A caller that plans Installations which are not applied yet.
    Planning(Planning),
}

/// Returns the reader; exactly one of the two fields must be set.
pub(super) fn reader(
    installation: Option<proto::ObjectName>,
    planning: Option<Planning>,
) -> Result<Reader, Status> {
    match (installation, planning) {
        (Some(_), Some(_)) => Err(invalid("planning", "must not be given together with installation")),
        (None, Some(planning)) => Ok(Reader::Planning(planning)),
        (installation, None) => object_name(installation, "installation").map(Reader::Installation),
    }
}

/// Decodes a reference that includes a repository context.
pub(super) fn located_reference(reference: Option<proto::Reference>) -> Result<Reference, Status> {
    let reference = read_reference(reference)?;
    if reference.repository.is_none() {
        return Err(invalid("reference.repository_context", "must be given"));
    }
    Ok(reference)
}

/// Decodes the access of the wanted content.
pub(super) fn access(content: Option<Content>) -> Result<Access, Status> {
    match content {
        None => Err(invalid("content", "must be given")),
        Some(Content::LocalBlob(reference)) if reference.is_empty() => {
            Err(invalid("local_blob", "must be given"))
        }
        Some(Content::LocalBlob(reference)) => Ok(Access::Local { reference, media_type: String::new() }),
        Some(Content::Access(json)) if json.text.len() > LONGEST_CONTEXT => {
            Err(invalid("access", &format!("must have at most {LONGEST_CONTEXT} bytes")))
        }
        Some(Content::Access(json)) => Access::parse(&decode(&json, "access")?)
            .map_err(|error| invalid("access", &format!("cannot be used: {error}"))),
    }
}

pub(super) fn read_reference(reference: Option<proto::Reference>) -> Result<Reference, Status> {
    let reference = reference.ok_or_else(|| invalid("reference", "must be given"))?;
    for (field, text) in [("reference.name", &reference.name), ("reference.version", &reference.version)] {
        if text.is_empty() {
            return Err(invalid(field, "must be given"));
        }
        if text.len() > LONGEST_TEXT {
            return Err(invalid(field, &format!("must have at most {LONGEST_TEXT} bytes")));
        }
    }
    let field = "reference.repository_context";
    if reference.repository_context.as_ref().is_some_and(|context| context.text.len() > LONGEST_CONTEXT) {
        return Err(invalid(field, &format!("must have at most {LONGEST_CONTEXT} bytes")));
    }
    let context = reference.repository_context.map(|json| decode::<Value>(&json, field)).transpose()?;
    if context.as_ref().is_some_and(|context| !context.is_object() && !context.is_null()) {
        return Err(invalid(field, "must be an object"));
    }
    let repository = context.and_then(RepositoryContext::new);
    Ok(Reference { repository, name: reference.name, version: reference.version })
}

/// Decodes an object of a kind. Unknown fields are refused, as the API server can do, since a
/// misspelt field would change the meaning of the rest.
pub(super) fn object<T: Kind + DeserializeOwned>(json: &proto::Json, field: &str) -> Result<T, Status> {
    let value = groundwork_api::strict::read(&json.text, Schemas::shared())
        .map_err(|error| invalid(field, &format!("is not valid: {error}")))?;
    for (member, wanted) in [("apiVersion", T::API_VERSION), ("kind", T::KIND)] {
        if value[member] != wanted {
            return Err(invalid(&format!("{field}.{member}"), &format!("must be {wanted}")));
        }
    }
    serde_json::from_value(value).map_err(|_| invalid(field, "is not a valid object of its kind"))
}

/// Decodes a JSON text. The error contains the position, and never quotes the content.
pub(super) fn decode<T: DeserializeOwned>(json: &proto::Json, field: &str) -> Result<T, Status> {
    serde_json::from_str(&json.text).map_err(|error| {
        let what = if error.is_data() { "is not a valid object of its kind" } else { "is not JSON" };
        invalid(field, &format!("{what} (line {}, column {})", error.line(), error.column()))
    })
}

pub(super) fn json<T: Serialize>(value: &T) -> Result<proto::Json, Status> {
    let text = serde_json::to_string(value);
    text.map(|text| proto::Json { text })
        .map_err(|_| status::internal(reasons::ENCODE_FAILED, "an object cannot be written as JSON"))
}

pub(super) fn reference(reference: &Reference) -> proto::Reference {
    let context = reference.repository.as_ref();
    proto::Reference {
        repository_context: context.map(|context| proto::Json { text: context.to_json() }),
        name: reference.name.clone(),
        version: reference.version.clone(),
    }
}

pub(super) fn component_version(version: &ComponentVersion) -> proto::ComponentVersion {
    proto::ComponentVersion {
        descriptor: Some(proto::Json { text: version.descriptor.document().to_string() }),
        reference: Some(reference(&version.reference)),
    }
}

pub(super) fn failure(error: &OperationError) -> proto::Failure {
    proto::Failure {
        operation: error.operation.clone().into_owned(),
        reason: error.reason.to_string(),
        message: error.message.clone(),
        codes: error.codes.iter().map(|code| code.as_str().to_owned()).collect(),
    }
}
