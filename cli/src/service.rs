//! Calls services with the token of the kube context.

use std::path::Path;
use std::time::Duration;

use groundwork_grpc::{Channel, TokenSource};
use kube::Client;
use secrecy::ExposeSecret as _;
use tonic::Status;

use crate::live::LiveError;
use crate::terminal::shown;

/// Connects to the service at a URL, and returns the API server of the kube context, too. The token
/// comes from the file, or else from the context.
///
/// # Errors
///
/// There is no kube context, the context has no token, or the URL is not valid.
pub(crate) async fn connect(
    server: &str,
    ca: Option<&Path>,
    token_file: Option<&Path>,
) -> Result<(Channel, Client), LiveError> {
    let failed = |text: String| LiveError::Refused(text);
    let config =
        kube::Config::infer().await.map_err(|error| failed(format!("no usable kube context: {error}")))?;
    let context = &config.auth_info;
    let token = match (token_file, &context.token, &context.token_file) {
        (Some(file), ..) => TokenSource::of_file(Some(file.to_owned())),
        (None, Some(token), _) => TokenSource::fixed(token.expose_secret()),
        (None, None, Some(file)) => TokenSource::of_file(Some(file.into())),
        (None, None, None) => {
            return Err(failed(
                "the kube context has no bearer token for the service: write a token to a file (kubectl create token \
                 NAME) and name the file with --token-file"
                    .to_owned(),
            ));
        }
    };
    let channel =
        groundwork_grpc::connect(server, ca, token).map_err(|error| failed(format!("--server: {error}")))?;
    let client = groundwork_client::connect(config)
        .map_err(|error| failed(format!("the kube context cannot be used: {error}")))?;
    Ok((channel, client))
}

/// Time for the complete answer to one call.
const ANSWER: Duration = Duration::from_secs(300);

/// Waits for the complete answer of a service, within its time limit. Gives up on a service that
/// keeps the connection open without an answer.
///
/// # Errors
///
/// Those of the answer, and a timeout.
pub(crate) async fn in_time<T>(answer: impl Future<Output = Result<T, LiveError>>) -> Result<T, LiveError> {
    let late = || {
        let text = "the service did not complete its answer within 300 s: try again, or look into the log of the \
                    service";
        LiveError::Refused(text.to_owned())
    };
    tokio::time::timeout(ANSWER, answer).await.unwrap_or_else(|_| Err(late()))
}

/// Returns the error text of a service, or an explanation for a broken connection.
#[allow(clippy::needless_pass_by_value, reason = "the shape that map_err wants")]
pub(crate) fn refused(status: Status) -> LiveError {
    let words = shown(status.message());
    // A status that the service sent has no source error. With a source, the status comes from the
    // connection.
    LiveError::Refused(match std::error::Error::source(&status) {
        None => words.into_owned(),
        Some(_) => format!(
            "the server of --server does not answer like a Groundwork service: {words}; check the address and the log \
             of the service"
        ),
    })
}
