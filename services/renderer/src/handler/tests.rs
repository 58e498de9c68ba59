use groundwork_controller::Unasked;
use groundwork_proto::status;
use tonic::Code;

use super::*;

/// The status reports those answers of the API server that will not change soon.
#[test]
fn answers_that_are_told() {
    let object = || "installations a/b".to_owned();
    for (error, told) in [
        (ApiError::Forbidden { verb: "get", resource: "secrets".to_owned() }, Some("Forbidden")),
        (ApiError::Refused { object: object(), by: "the policy p".to_owned() }, Some("Refused")),
        (
            ApiError::WebhookAway { verb: "update", object: object(), problem: "away".to_owned() },
            Some("Refused"),
        ),
        (ApiError::Invalid { object: object(), causes: "spec (Invalid)".to_owned() }, Some("Invalid")),
        (ApiError::TooLarge(object()), Some("TooLarge")),
        (ApiError::Terminating(object()), Some("Terminating")),
        (ApiError::Conflict(object()), None),
        (ApiError::AlreadyExists(object()), None),
        (ApiError::NotFound(object()), None),
        (ApiError::Transient { verb: "get", object: object(), problem: "busy".to_owned() }, None),
        (ApiError::Unasked { verb: "get", object: object(), why: Unasked::Busy }, None),
    ] {
        assert_eq!(reason(&error).as_ref().map(Reason::as_str), told, "{error}");
    }
}

/// An answer of the resolver about an earlier job must not fail the current job.
#[test]
fn answers_of_the_resolver() {
    let tree = Tree::new("team", "server");
    for outdated in ["JOB_SUPERSEDED", "INSTALLATION_NOT_FOUND"] {
        let answer = status::status(Code::FailedPrecondition, outdated, "another job");
        let AttemptError::Api(error) = resolve_failed(&answer, &tree) else { panic!("{outdated}") };
        assert_eq!(error, ApiError::Conflict("installations team/server".to_owned()));
    }
    for answer in [Status::unavailable("away"), status::status(Code::Internal, "OTHER", "away")] {
        let AttemptError::Transient(error) = resolve_failed(&answer, &tree) else { panic!("{answer}") };
        assert_eq!(
            (error.reason.as_str(), error.message.as_str()),
            ("Resolve", "cannot call the resolver: away")
        );
    }
}

/// The pauses between attempts match the ones that messages announce.
#[test]
fn looks_come_as_they_are_told() {
    use groundwork_lifecycle::waits;
    assert_eq!(waits::LONGEST_LOOK, groundwork_controller::LONGEST_LOOK);
    assert_eq!(waits::LONGEST_BACKOFF, groundwork_bus::Backoff::OBJECT.longest);
}
