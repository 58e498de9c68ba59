//! Runs functions on a server with the interface of Porch's function runner (`packagevariants.md`
//! 8.4, 4).

use std::path::Path;
use std::time::Duration;

use groundwork_grpc::{Channel, ClientError, TokenSource, connect, retry, with_limits};
use groundwork_krm::{Answer, FunctionRunner, Outcome, ResourceList, RunError, Target, on_wire};
use groundwork_proto::evaluator::EvaluateFunctionRequest;
use groundwork_proto::evaluator::function_evaluator_client::FunctionEvaluatorClient;
use tokio::runtime::Handle;
use tonic::{Code, Request, Status};

use crate::functions::Limits;

/// Time between our deadline and the server's. The server needs a deadline to stop abandoned work;
/// ours comes first, because its error message is better.
const MARGIN: Duration = Duration::from_secs(5);

/// Runs images on a server. The server has no list of its functions, so a missing one shows only
/// when it is called.
#[derive(Debug, Clone)]
pub struct RemoteRunner {
    client: FunctionEvaluatorClient<Channel>,
    runtime: Handle,
    limits: Limits,
}

impl RemoteRunner {
    /// Creates a runner for a URL such as `http://function-runner:9445`; `ca` is a file with
    /// certificates to trust. Calls carry no token, since the server is not trusted with one.
    /// Functions run on threads that may block, and the calls run on `runtime`.
    ///
    /// # Errors
    /// The URL or the file cannot be used. A server that is down is an error of each function
    /// instead.
    pub fn new(url: &str, ca: Option<&Path>, limits: Limits, runtime: Handle) -> Result<Self, ClientError> {
        let channel = {
            let _entered = runtime.enter();
            connect(url, ca, TokenSource::none())?
        };
        Ok(Self { client: with_limits!(FunctionEvaluatorClient::new(channel)), runtime, limits })
    }

    async fn evaluate(&self, image: &str, input: String) -> Result<Answer, RunError> {
        let image = tagged(image).map_err(RunError::Failed)?;
        let message = EvaluateFunctionRequest { resource_list: input.into_bytes(), image };
        // A retry is safe, because a function only computes.
        let call = retry(async || {
            let mut request = Request::new(message.clone());
            request.set_timeout(self.limits.time + MARGIN);
            self.client.clone().evaluate_function(request).await
        });
        let response = match tokio::time::timeout(self.limits.time, call).await {
            Ok(Ok(response)) => response.into_inner(),
            Err(_) => return Ok(Answer { exceeded: Some(self.limits.too_slow()), ..Answer::default() }),
            Ok(Err(status)) => match status.code() {
                Code::NotFound => return Err(RunError::NotAvailable),
                _ => return Err(RunError::Failed(words(&status))),
            },
        };
        let length = u64::try_from(response.resource_list.len()).unwrap_or(u64::MAX);
        Ok(Answer {
            exceeded: (length > self.limits.output).then(|| self.limits.too_long()),
            output: response.resource_list,
            log: String::from_utf8_lossy(&response.log).into_owned(),
            // The server reports a failed function as an error status, so a response means success.
            exit_code: 0,
        })
    }
}

impl FunctionRunner for RemoteRunner {
    fn has(&self, target: &Target) -> bool {
        matches!(target, Target::Image(_))
    }

    fn run(&self, target: &Target, list: &mut ResourceList) -> Result<Outcome, RunError> {
        let Target::Image(image) = target else { return Err(RunError::NotAvailable) };
        on_wire(list, |input| self.runtime.block_on(self.evaluate(image, input)))
    }
}

fn words(status: &Status) -> String {
    match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    }
}

/// Returns the image with a tag or a digest (`packagevariants.md` 8.3). Version constraints are
/// refused, since only a registry could resolve them.
pub(super) fn tagged(image: &str) -> Result<String, String> {
    if image.contains('@') {
        return Ok(image.to_owned());
    }
    let name = image.rsplit_once('/').map_or(image, |(_, name)| name);
    let Some((_, tag)) = name.split_once(':') else { return Ok(format!("{image}:latest")) };
    if tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-')) {
        return Ok(image.to_owned());
    }
    Err(format!("the version constraint {tag:?} would need a registry that lists tags; name one tag"))
}

#[cfg(test)]
mod tests;
