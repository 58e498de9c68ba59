//! Classification of the errors of a Porch server (`packagevariants.md` 6.13): most are status 500
//! with the cause in their text.

use std::time::Duration;

use groundwork_client::answer::AnswerError;

/// Reason why a call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct PorchError {
    pub meaning: Meaning,
    /// Message of the server; for a failed rendering, only that of the functions.
    pub text: String,
    /// Pause before a retry, as the server asks for.
    pub retry_after: Option<Duration>,
    /// True if a change got no answer from the Porch server, so that it may have been made.
    pub is_unanswered: bool,
    /// Results of the functions of a failed rendering, as the JSON of a RenderStatus. Only our
    /// store gives them.
    pub results: Option<String>,
}

/// Classes of errors that callers distinguish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    NotFound,
    /// Another operation on the package is running; the same call may succeed after a second.
    Busy,
    /// The revision has changed since it was read.
    Conflict,
    /// A revision with this workspace exists.
    AlreadyExists,
    /// The package already has revisions, so it cannot be the target of a clone.
    DownstreamExists,
    /// A function of the package failed.
    RenderFailed,
    /// The revision is not a draft, so its files cannot be changed.
    NotDraft,
    /// The task breaks a rule, and a retry would too.
    Permanent,
    /// The revision cannot be deleted because other packages are made from it.
    IsUpstream,
    /// A published revision cannot be deleted without a proposal.
    DeletionNotProposed,
    /// The account lacks a right.
    Denied,
    /// The repository is served in another version of the API.
    OtherVersion,
    /// The server rejects the object.
    Invalid,
    /// The server does not answer, or asks for a later retry.
    Unavailable,
    Other,
}

/// Kind of request, as far as the meaning of an error depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    Create,
    Other,
}

/// Row of the table of errors (`packagevariants.md` 6.13). A row applies to a status in `statuses`,
/// if the text contains one of `words` or the reason is `reason`. Without `words`, any text fits. A
/// row with a `request` applies only to that kind of request.
struct Row {
    statuses: &'static [u16],
    words: &'static [&'static str],
    reason: &'static str,
    request: Option<Request>,
    meaning: Meaning,
}

/// Sentence of an API server about an aggregated server that it does not reach.
const AWAY: &str = "the server is currently unable to handle the request";
const NOT_RUNNING: &str = "the server of package revisions (the package store, or a Porch server) does not run, or cannot be reached";

const fn row(statuses: &'static [u16], words: &'static [&'static str], meaning: Meaning) -> Row {
    Row { statuses, words, reason: "", request: None, meaning }
}

/// Rows in lower case, since texts are compared without case. The first row that applies counts.
const ROWS: &[Row] = &[
    row(&[404], &[], Meaning::NotFound),
    row(&[409], &["another request is already in progress"], Meaning::Busy),
    row(&[409, 500], &["the object has been modified"], Meaning::Conflict),
    Row {
        reason: "AlreadyExists",
        ..row(&[409, 500], &["workspacenames must be unique"], Meaning::AlreadyExists)
    },
    row(&[500], &["`clone` cannot create a new revision"], Meaning::DownstreamExists),
    row(&[500], &["rendering package in kpt function pipeline"], Meaning::RenderFailed),
    Row {
        request: Some(Request::Create),
        ..row(&[500], &["fn.render", "pkg.render", "pipeline.run"], Meaning::RenderFailed)
    },
    row(&[500], &["package must be draft"], Meaning::NotDraft),
    row(
        &[500],
        &[
            "packages cannot be nested",
            "may not be the placeholder",
            "must be published",
            "must contain exactly 1 task",
            "found duplicate",
            "added in both upstream and local",
            "wrong node kind",
        ],
        Meaning::Permanent,
    ),
    row(&[403], &["it is referenced as upstream by"], Meaning::IsUpstream),
    row(&[403], &["must be proposed for deletion"], Meaning::DeletionNotProposed),
    row(&[401, 403], &[], Meaning::Denied),
    row(&[410], &[], Meaning::OtherVersion),
    row(&[422], &[], Meaning::Invalid),
    row(&[429, 503, 504], &[], Meaning::Unavailable),
];

/// Returns the meaning of an answer, from its status, the reason of its Status object and its text.
pub fn classify(request: Request, status: u16, reason: &str, text: &str) -> Meaning {
    let text = text.to_lowercase();
    let fits = |row: &&Row| {
        let is_asked = row.request.is_none_or(|only| only == request);
        let is_said = row.words.iter().any(|words| text.contains(words));
        let is_reason = !row.reason.is_empty() && row.reason == reason;
        row.statuses.contains(&status) && is_asked && (row.words.is_empty() || is_said || is_reason)
    };
    ROWS.iter().find(fits).map_or(Meaning::Other, |row| row.meaning)
}

/// HTTP status with which the API server ends a request that took too long.
const CUT: u16 = 504;
/// Prefix of most messages.
const INTERNAL: &str = "Internal error occurred: ";
/// Text before the message of functions.
const DETAILS: &str = "Details: ";

impl PorchError {
    /// Creates the error for an unsuccessful answer. `text` is the message of its Status object, or
    /// its body.
    pub(crate) fn answered(request: Request, status: u16, reason: &str, text: &str) -> Self {
        let meaning = classify(request, status, reason, text);
        let details = text.split_once(DETAILS).filter(|_| meaning == Meaning::RenderFailed);
        let text = match details {
            Some((_, details)) => details.to_owned(),
            None if text.is_empty() => {
                format!("the Porch server answers {status} {reason}").trim_end().to_owned()
            }
            None => text.to_owned(),
        };
        // The API server ends a long request, but the Porch server continues with it.
        Self { meaning, text, retry_after: None, is_unanswered: status == CUT, results: None }
    }

    /// Creates the error for a missing answer of the named server.
    pub(crate) fn unanswered(whom: &str, problem: &str) -> Self {
        let text = format!("the {whom} does not answer: {problem}");
        Self { meaning: Meaning::Unavailable, text, retry_after: None, is_unanswered: true, results: None }
    }

    /// Returns the problem and its remedy for users: the server's message without its general
    /// prefixes.
    pub fn sentence(&self) -> String {
        let said = self.text.strip_prefix(INTERNAL).unwrap_or(&self.text).trim_end_matches('.');
        let said = if said == AWAY { NOT_RUNNING } else { said };
        let wait = match self.retry_after {
            Some(wait) => format!("try again in {} s", wait.as_secs()),
            None => "try again later".to_owned(),
        };
        let advice = match self.meaning {
            // No advice if the server's message is enough, or if a retry cannot help.
            Meaning::NotFound
            | Meaning::DownstreamExists
            | Meaning::RenderFailed
            | Meaning::Permanent
            | Meaning::Invalid => return said.to_owned(),
            Meaning::Busy => "another client is changing the package: try again in a moment".to_owned(),
            Meaning::Conflict => "another client changed the package in the meantime: read it again".to_owned(),
            Meaning::AlreadyExists => "use another workspace, or continue with the existing revision".to_owned(),
            Meaning::NotDraft => {
                "`reject` makes a proposed revision a draft again, `copy` continues from a published one".to_owned()
            }
            Meaning::IsUpstream => "first delete the package revisions that were made from it".to_owned(),
            Meaning::DeletionNotProposed => "`propose-deletion` first".to_owned(),
            Meaning::Denied => "ask an administrator of the cluster for the permission".to_owned(),
            Meaning::OtherVersion => {
                "Groundwork uses v1alpha1 of the Porch API: configure the server to serve the repository in that \
                 version"
                    .to_owned()
            }
            Meaning::Unavailable if self.is_unanswered => {
                format!("the change may have been made nevertheless: check, and if not, {wait}")
            }
            Meaning::Unavailable => wait,
            Meaning::Other => format!("{wait}; if the error persists, look into the log of the Porch server"),
        };
        format!("{said} ({advice})")
    }

    /// Creates the error for an answer that was not read, because it is too large or memory is
    /// short. A change may have been made before it.
    pub(crate) fn not_taken(asked: &str, problem: &AnswerError) -> Self {
        let text = match problem {
            AnswerError::TooLong(limit) => format!(
                "the answer of the Porch server to {asked} has more than the allowed {} bytes",
                limit.bytes
            ),
            problem => format!("the Porch server, asked for {asked}, {problem}"),
        };
        Self { meaning: Meaning::Other, text, retry_after: None, is_unanswered: true, results: None }
    }

    /// Creates the error for an answer that does not follow the API.
    pub(crate) fn unreadable(problem: &serde_json::Error) -> Self {
        let text = format!("the answer of the Porch server cannot be read: {problem}");
        Self { meaning: Meaning::Other, text, retry_after: None, is_unanswered: false, results: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row of the table in `packagevariants.md` 6.13 with each of its texts, and an answer
    /// that fits no row.
    #[test]
    fn every_row() {
        use Meaning as M;
        let modified = "Internal error occurred: the object has been modified; please apply your changes to the latest version";
        let workspace = "Internal error occurred: package revision workspaceNames must be unique; package revision with name dns";
        let clone = "Internal error occurred: `clone` cannot create a new revision for package \"dns\" that already exists";
        let render =
            "Error rendering package in kpt function pipeline. Package NOT pushed to remote. Details: bad";
        let rows: &[(Request, u16, &str, &str, Meaning)] = &[
            (Request::Other, 404, "NotFound", "packagerevisions \"x\" not found", M::NotFound),
            (
                Request::Create,
                409,
                "Conflict",
                "another request is already in progress on this package",
                M::Busy,
            ),
            (Request::Other, 500, "", "another request is already in progress", M::Other),
            (Request::Other, 409, "Conflict", modified, M::Conflict),
            (Request::Other, 500, "InternalError", modified, M::Conflict),
            (Request::Create, 409, "Conflict", workspace, M::AlreadyExists),
            (Request::Create, 500, "InternalError", workspace, M::AlreadyExists),
            (Request::Create, 409, "AlreadyExists", "x already exists", M::AlreadyExists),
            (Request::Create, 500, "AlreadyExists", "x", M::AlreadyExists),
            (Request::Create, 409, "Conflict", "something else", M::Other),
            (Request::Create, 500, "InternalError", clone, M::DownstreamExists),
            (Request::Other, 500, "InternalError", render, M::RenderFailed),
            (Request::Create, 500, "InternalError", "x: fn.render: y", M::RenderFailed),
            (Request::Create, 500, "InternalError", "x: pkg.render: y", M::RenderFailed),
            (Request::Create, 500, "InternalError", "x: Pipeline.Run: y", M::RenderFailed),
            (Request::Other, 500, "InternalError", "x: fn.render: y", M::Other),
            (
                Request::Other,
                500,
                "InternalError",
                "cannot update a package revision with lifecycle value \"Proposed\"; package must be Draft",
                M::NotDraft,
            ),
            (Request::Create, 500, "", "packages cannot be nested", M::Permanent),
            (Request::Create, 500, "", "revision may not be the placeholder package revision", M::Permanent),
            (Request::Create, 500, "", "source revision must be published", M::Permanent),
            (Request::Create, 500, "", "task list must contain exactly 1 task", M::Permanent),
            (Request::Create, 500, "", "found duplicate \"x\"", M::Permanent),
            (Request::Create, 500, "", "subpackage \"x\" added in both upstream and local", M::Permanent),
            (Request::Create, 500, "", "wrong Node Kind for x", M::Permanent),
            (Request::Other, 403, "Forbidden", "it is referenced as upstream by edge.dns.w", M::IsUpstream),
            (
                Request::Other,
                403,
                "Forbidden",
                "published PackageRevisions must be proposed for deletion by setting spec.lifecycle",
                M::DeletionNotProposed,
            ),
            (Request::Other, 401, "Unauthorized", "Unauthorized", M::Denied),
            (Request::Other, 403, "Forbidden", "User \"x\" cannot update resource", M::Denied),
            (Request::Other, 410, "Gone", "", M::OtherVersion),
            (Request::Create, 422, "Invalid", "spec.tasks: Invalid value", M::Invalid),
            (Request::Other, 429, "TooManyRequests", "", M::Unavailable),
            (Request::Other, 503, "ServiceUnavailable", "the server is currently unable", M::Unavailable),
            (Request::Other, 504, "Timeout", "", M::Unavailable),
            (Request::Other, 500, "InternalError", "Internal error occurred: push failed", M::Other),
            (Request::Other, 400, "BadRequest", "resourceVersion must be specified", M::Other),
        ];
        for (request, status, reason, text, meaning) in rows {
            assert_eq!(classify(*request, *status, reason, text), *meaning, "{status} {reason} {text}");
        }
        let tested = |row: &&Row| rows.iter().all(|(.., meaning)| *meaning != row.meaning);
        assert!(ROWS.iter().find(tested).is_none(), "a row without a test");
    }

    #[test]
    fn texts_that_people_read() {
        let text =
            |status: u16, text: &str| PorchError::answered(Request::Other, status, "Reason", text).text;
        let render = "Error rendering package in kpt function pipeline. Details: fn: exit 1";
        assert_eq!(text(500, render), "fn: exit 1");
        assert_eq!(
            text(500, "rendering package in kpt function pipeline failed"),
            "rendering package in kpt function pipeline failed"
        );
        assert_eq!(text(500, "push failed. Details: none"), "push failed. Details: none");
        assert_eq!(text(503, ""), "the Porch server answers 503 Reason");
    }

    /// Every error contains a remedy, unless its text says enough, and none begins with a general
    /// prefix.
    #[test]
    fn sentences_say_what_to_do() {
        let sentence =
            |status: u16, text: &str| PorchError::answered(Request::Create, status, "", text).sentence();
        let modified = "Internal error occurred: the object has been modified; please apply your changes.";
        for (status, text, expected) in [
            (404, "packagerevisions \"x\" not found", "packagerevisions \"x\" not found"),
            (
                409,
                "another request is already in progress",
                "another request is already in progress (another client is changing the package: try again in a \
                 moment)",
            ),
            (
                500,
                modified,
                "the object has been modified; please apply your changes (another client changed the package in the \
                 meantime: read it again)",
            ),
            (
                500,
                "workspaceNames must be unique",
                "workspaceNames must be unique (use another workspace, or continue with the existing revision)",
            ),
            (500, "Internal error occurred: packages cannot be nested", "packages cannot be nested"),
            (
                500,
                "package must be Draft",
                "package must be Draft (`reject` makes a proposed revision a draft again, `copy` continues from a \
                 published one)",
            ),
            (
                403,
                "it is referenced as upstream by a.b.c",
                "it is referenced as upstream by a.b.c (first delete the package revisions that were made from it)",
            ),
            (
                403,
                "must be proposed for deletion",
                "must be proposed for deletion (`propose-deletion` first)",
            ),
            (
                403,
                "User \"x\" cannot",
                "User \"x\" cannot (ask an administrator of the cluster for the permission)",
            ),
            (
                410,
                "gone",
                "gone (Groundwork uses v1alpha1 of the Porch API: configure the server to serve the repository in that \
                 version)",
            ),
            (503, "away", "away (try again later)"),
            (
                503,
                "the server is currently unable to handle the request",
                "the server of package revisions (the package store, or a Porch server) does not run, or cannot be \
                 reached (try again later)",
            ),
            (
                504,
                "cut",
                "cut (the change may have been made nevertheless: check, and if not, try again later)",
            ),
            (
                500,
                "Internal error occurred: push failed",
                "push failed (try again later; if the error persists, look into the log of the Porch server)",
            ),
        ] {
            assert_eq!(sentence(status, text), expected);
        }
        let mut patient = PorchError::answered(Request::Other, 429, "", "slowly");
        patient.retry_after = Some(Duration::from_secs(7));
        assert_eq!(patient.sentence(), "slowly (try again in 7 s)");
    }
}
