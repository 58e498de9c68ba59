//! gRPC errors that several calls of the service return.

use groundwork_controller::ApiError;
use groundwork_proto::status::{self, Violation, reasons};
use tonic::Status;

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
