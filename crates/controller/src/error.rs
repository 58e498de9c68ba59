//! Errors of requests to the API server.

use groundwork_telemetry::innermost_cause;
use kube::core::Status;

use crate::cause;

/// Reason why a request to the API server failed.
///
/// The texts never quote a value: messages about refused objects name only fields and reasons.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApiError {
    /// The object has changed since the write was decided. Read it again and decide again.
    #[error("{0}: another client changed it in the meantime")]
    Conflict(String),
    #[error("{0} already exists")]
    AlreadyExists(String),
    #[error("{0} does not exist")]
    NotFound(String),
    /// A permission is missing; the text names verb and resource.
    #[error("may not {verb} {resource}: grant it to the service account of this service")]
    Forbidden { verb: &'static str, resource: String },
    /// An admission policy, a webhook or a quota of the cluster refuses the object. `by` names it
    /// and quotes its text as far as that contains no value. `by` is empty if the answer has no
    /// name.
    #[error("{object} is refused by an admission policy of the cluster{}", in_brackets(by))]
    Refused { object: String, by: String },
    /// The API server does not accept the object.
    #[error("{object} is not accepted: {causes}")]
    Invalid { object: String, causes: String },
    /// The object is over a size limit of the API server or of its store.
    #[error(
        "{0} is larger than the API server can store (about 1.5 MiB); make it smaller, for example by several installations with fewer items each"
    )]
    TooLarge(String),
    /// The schema of the kind does not have some fields, given by their paths. Only server-side
    /// apply reports such fields; other writes drop them silently.
    #[error("{object} is not accepted: the cluster does not know the fields {}", fields.join(", "))]
    Undeclared { object: String, fields: Vec<String> },
    /// The namespace for the new object does not exist.
    #[error("{object} cannot be created: namespaces {namespace:?} not found")]
    NoNamespace { object: String, namespace: String },
    /// The namespace is being deleted, so no object can be created in it.
    #[error("{0} cannot be created because its namespace is being deleted")]
    Terminating(String),
    /// An admission webhook of the cluster does not answer. It may recover soon, and its owner has
    /// to know.
    #[error("cannot {verb} {object}: {problem}")]
    WebhookAway { verb: &'static str, object: String, problem: String },
    /// The error may go away by itself: the server is away, busy or faulty.
    #[error("cannot {verb} {object}: {problem}")]
    Transient { verb: &'static str, object: String, problem: String },
    /// The server accepts no requests at all, so this one had no effect. The state of the object is
    /// unknown, including whether the server has it.
    #[error("cannot {verb} {object}: {why}")]
    Unasked { verb: &'static str, object: String, why: Unasked },
}

/// Reason why a server accepts no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unasked {
    /// The server asked clients to wait, for this number of seconds.
    #[error("the server is busy and asked for a pause of {seconds} s (Retry-After)")]
    Resting { seconds: u64 },
    /// The server answered several attempts with "too many requests" or "unavailable".
    #[error("the server is busy")]
    Busy,
    /// Another request just timed out. Until the server answers again, one request at a time probes
    /// it.
    #[error("the server does not answer; it is asked again in a moment")]
    Silent,
}

impl ApiError {
    /// Reports whether the same request would get the same answer for ever.
    pub fn is_final(&self) -> bool {
        matches!(
            self,
            Self::Refused { .. }
                | Self::Invalid { .. }
                | Self::Undeclared { .. }
                | Self::TooLarge(_)
                | Self::Terminating(_)
        )
    }

    /// Converts the error of a request to `verb` an object. `resource` is the resource and its
    /// scope for the text of a missing permission.
    pub fn new(error: &kube::Error, verb: &'static str, object: &str, resource: &str) -> Self {
        let object = object.to_owned();
        match error {
            kube::Error::Api(status) => Self::of_status(status, verb, object, resource),
            kube::Error::SerdeError(_) => {
                let causes = "the answer does not match the schema of the kind".to_owned();
                Self::Invalid { object, causes }
            }
            other => Self::Transient { verb, object, problem: innermost_cause(other) },
        }
    }

    fn of_status(status: &Status, verb: &'static str, object: String, resource: &str) -> Self {
        let is_terminating = status
            .details
            .iter()
            .flat_map(|details| &details.causes)
            .any(|cause| cause.reason == "NamespaceTerminating");
        let message = status.message.as_str();
        let refused = |object| {
            let by = cause::refuser(message).unwrap_or_default();
            let by = match cause::quota(message) {
                Some(amounts) => format!("{by}: {amounts}"),
                None => by,
            };
            Self::Refused { object, by }
        };
        match (status.code, status.reason.as_str()) {
            (403, _) if is_terminating => Self::Terminating(object),
            // Authorisation answers what the user "cannot" do. Any other 403 comes from a check of
            // the object itself.
            (403, _) if !message.contains(" cannot ") || cause::refuser(message).is_some() => refused(object),
            (401 | 403, _) => Self::Forbidden { verb, resource: resource.to_owned() },
            (404, _) if verb != "create" => Self::NotFound(object),
            (404, _) => match missing_namespace(status) {
                Some(namespace) => Self::NoNamespace { object, namespace },
                None => Self::NotFound(object),
            },
            (409, "AlreadyExists") => Self::AlreadyExists(object),
            (409, _) => Self::Conflict(object),
            (413, _) => Self::TooLarge(object),
            // The store checks its size limit last, so exceeding it looks like a fault of the
            // server.
            (500, _) if TOO_LARGE.iter().any(|words| message.contains(words)) => Self::TooLarge(object),
            // A policy may answer with any of these codes, and names no field.
            (400 | 422, _) if cause::refuser(message).is_some() => refused(object),
            (400 | 415 | 422, _) => Self::Invalid { object, causes: cause::invalid(status) },
            (code, reason) => {
                if let Some(fields) = cause::undeclared(message) {
                    return Self::Undeclared { object, fields };
                }
                if let Some(causes) = cause::mistyped(message) {
                    return Self::Invalid { object, causes };
                }
                if let Some(problem) = cause::webhook_away(message) {
                    return Self::WebhookAway { verb, object, problem };
                }
                Self::Transient { verb, object, problem: format!("{code} {reason}").trim().to_owned() }
            }
        }
    }
}

fn in_brackets(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!(" ({text})") }
}

/// Returns the namespace whose absence made a creation fail.
fn missing_namespace(status: &Status) -> Option<String> {
    let details = status.details.as_ref().filter(|details| details.kind == "namespaces")?;
    Some(details.name.clone())
}

/// Texts of etcd and its client about an object over their limits.
const TOO_LARGE: [&str; 2] = ["request is too large", "trying to send message larger than max"];

#[cfg(test)]
mod tests {
    use super::*;

    /// Rules of the API server itself are shown; a policy may quote values, so only its name is
    /// shown.
    #[test]
    fn policies_refuse_with_several_codes() {
        let error = |code: u16, reason: &str, message: &str| {
            let status: Status = serde_json::from_value(serde_json::json!({
                "status": "Failure", "code": code, "reason": reason, "message": message,
                "details": {"causes": [{"message": "secret"}]},
            }))
            .unwrap();
            ApiError::of_status(&status, "update", "things a/b".to_owned(), "things in a").to_string()
        };
        let policy = "things \"b\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'q' denied request: secret";
        let webhook = "admission webhook \"w.example.org\" denied the request: secret";
        let refused = |by: &str| format!("things a/b is refused by an admission policy of the cluster{by}");
        for (code, reason, message, by) in [
            (422, "Invalid", policy, " (the ValidatingAdmissionPolicy p)"),
            (403, "Forbidden", policy, " (the ValidatingAdmissionPolicy p)"),
            (400, "BadRequest", webhook, " (the admission webhook w.example.org)"),
            (403, "Forbidden", webhook, " (the admission webhook w.example.org)"),
            (403, "Forbidden", "things \"b\" is forbidden: secret", ""),
        ] {
            assert_eq!(error(code, reason, message), refused(by), "{code} {message}");
        }
        let invalid = error(422, "Invalid", "things \"b\" is invalid: spec.a: Required value");
        assert!(
            invalid.starts_with("things a/b is not accepted: ") && !invalid.contains("secret"),
            "{invalid}"
        );
    }
}
