//! Result of a call that another process works on: an answer, or a status, followed by its bytes.

use prost::{DecodeError, Message};
use serde::{Deserialize, Serialize};
use tonic::{Code, Status};

/// Result that a worker process sends. The bytes of the answer, or the details of the status,
/// follow it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallEnd {
    Answered,
    Refused { code: i32, message: String },
}

impl CallEnd {
    /// Encodes a result and the bytes that follow it.
    pub fn of<A: Message>(result: Result<A, Status>) -> (Self, Vec<u8>) {
        match result {
            Ok(answer) => (Self::Answered, answer.encode_to_vec()),
            Err(status) => {
                let (code, message) = (status.code().into(), status.message().to_owned());
                (Self::Refused { code, message }, status.details().to_vec())
            }
        }
    }

    /// Decodes a request, calls `work`, and encodes its result.
    pub fn of_work<Q: Message + Default, A: Message>(
        request: &[u8],
        work: impl FnOnce(Q) -> Result<A, Status>,
    ) -> (Self, Vec<u8>) {
        let request = Q::decode(request).map_err(|error: DecodeError| Status::internal(error.to_string()));
        Self::of(request.and_then(work))
    }

    /// Decodes the answer of the call.
    ///
    /// # Errors
    ///
    /// See [`NoAnswer`].
    pub fn result<A: Message + Default>(self, body: &[u8]) -> Result<A, NoAnswer> {
        match self {
            Self::Answered => A::decode(body).map_err(NoAnswer::Unreadable),
            Self::Refused { code, message } => {
                let status = Status::with_details(Code::from_i32(code), message, body.to_vec().into());
                Err(NoAnswer::Refused(status))
            }
        }
    }
}

/// Reason that a call has no answer from the worker process.
#[derive(Debug, thiserror::Error)]
pub enum NoAnswer {
    /// The call was refused with this status.
    #[error(transparent)]
    Refused(Status),
    /// The bytes of the worker process are not an answer to this call.
    #[error(transparent)]
    Unreadable(DecodeError),
}

#[cfg(test)]
mod tests {
    use groundwork_proto::component::v1::Json;
    use groundwork_proto::status::{self, Violation, reasons};

    use super::*;

    /// Answers and refusals arrive unchanged, with reason and violations.
    #[test]
    fn a_call_ends_elsewhere_as_it_would_here() {
        let answer = Json { text: "{}".to_owned() };
        let (end, body) = CallEnd::of(Ok(answer.clone()));
        assert_eq!(end.result::<Json>(&body).unwrap(), answer);

        let violation = Violation::new("input", "it must be given");
        let refused =
            status::invalid(reasons::INVALID_REQUEST, "input: it must be given", [violation.clone()]);
        let (end, body) = CallEnd::of_work(&answer.encode_to_vec(), |_: Json| Err::<Json, _>(refused));
        let Err(NoAnswer::Refused(status)) = end.result::<Json>(&body) else { unreachable!("it is refused") };
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "input: it must be given"));
        assert_eq!(status::reason(&status).as_deref(), Some(reasons::INVALID_REQUEST));
        assert_eq!(status::violations(&status), [violation]);
    }

    #[test]
    fn what_is_no_message_is_no_answer() {
        assert!(matches!(CallEnd::Answered.result::<Json>(&[0xff]), Err(NoAnswer::Unreadable(_))));
        let (end, _) = CallEnd::of_work(&[0xff], |request: Json| Ok(request));
        assert!(matches!(end, CallEnd::Refused { code, .. } if code == i32::from(Code::Internal)));
    }
}
