use std::io::Write as _;
use std::process::{Command, Stdio};

use groundwork_krm::{Package, RenderOptions, Rendered, render};
use groundwork_proto::evaluator::EvaluateFunctionResponse;
use groundwork_proto::evaluator::function_evaluator_server::{FunctionEvaluator, FunctionEvaluatorServer};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tonic::Response;
use tonic::transport::server::TcpIncoming;

use super::*;

const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a # why\ndata:\n  x: 'old'\n";

/// Function runner with one function, which is a program, and others that fail.
struct Evaluator;

#[tonic::async_trait]
impl FunctionEvaluator for Evaluator {
    async fn evaluate_function(
        &self,
        request: Request<EvaluateFunctionRequest>,
    ) -> Result<Response<EvaluateFunctionResponse>, Status> {
        let EvaluateFunctionRequest { resource_list, image } = request.into_inner();
        let response = |resource_list| EvaluateFunctionResponse { resource_list, log: b"said\n".to_vec() };
        match image.as_str() {
            "far.example/edit:v1" | "far.example/edit:latest" => {
                Ok(Response::new(response(edit(&resource_list))))
            }
            "far.example/long:v1" => Ok(Response::new(response(vec![b'#'; 2000]))),
            "far.example/slow:v1" => std::future::pending().await,
            "far.example/bad:v1" => Err(Status::internal("the pod of the function is gone")),
            _ => Err(Status::not_found("no such image")),
        }
    }
}

/// Runs a function as a container does: standard input to standard output.
fn edit(input: &[u8]) -> Vec<u8> {
    let mut command = Command::new("awk");
    command.arg("{ sub(/'old'/, \"new\"); print }").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // The input fits into the pipe's buffer, so this cannot block.
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap().stdout
}

fn rendered(url: &str, runtime: &Runtime, limits: Limits, function: &str) -> Rendered {
    let runner = RemoteRunner::new(url, None, limits, runtime.handle().clone()).unwrap();
    let kptfile = format!(
        "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {{name: p}}\npipeline:\n  mutators:\n  - {{name: f, {function}}}\n"
    );
    let files: Package = [("Kptfile".to_owned(), kptfile), ("a.yaml".to_owned(), CM.to_owned())].into();
    let options = RenderOptions { runners: vec![&runner], ..RenderOptions::default() };
    render(&files, &options)
}

/// Starts a server on a free port, which runs as long as the runtime.
fn serve(runtime: &Runtime) -> String {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let server = tonic::transport::Server::builder().add_service(FunctionEvaluatorServer::new(Evaluator));
    runtime.spawn(server.serve_with_incoming(TcpIncoming::from(listener)));
    format!("http://{address}")
}

/// A server renders a package; an image without a tag means the newest one (`packagevariants.md`
/// 8.4, 4).
#[test]
fn a_server_runs_functions() {
    let runtime = Runtime::new().unwrap();
    let url = serve(&runtime);
    for image in ["image: far.example/edit:v1", "image: far.example/edit", "image: far.example/edit, tag: v1"]
    {
        let found = rendered(&url, &runtime, Limits::default(), image);
        assert_eq!(found.error, None);
        assert_eq!(found.files["a.yaml"], CM.replace("'old'", "new"));
        let said = found.status.result.unwrap().items[0].stderr.clone();
        assert_eq!(said.as_deref(), Some("said\n"));
    }
}

/// Limits, failures before the function runs, and images that the server does not have
/// (`packagevariants.md` 8.4).
#[test]
fn functions_that_do_not_run() {
    let runtime = Runtime::new().unwrap();
    let url = serve(&runtime);
    let failed = |cause: &str| Some(format!("package \".\": function \"f\": {cause}"));
    let never_ran = |image: &str, cause: &str| {
        failed(&format!("function runtime failed to evaluate function \"{image}\": {cause}"))
    };
    let run = |limits, function: &str| rendered(&url, &runtime, limits, function).error;
    let limits = Limits { output: 1000, ..Limits::default() };
    assert_eq!(run(limits, "image: far.example/long:v1"), failed("wrote more than 1000 bytes"));
    let short = Limits { time: Duration::from_secs(1), ..limits };
    assert_eq!(run(short, "image: far.example/slow:v1"), failed("killed after 1 s"));
    assert_eq!(
        run(limits, "image: far.example/none:v1"),
        failed(
            "function \"far.example/none:v1\" is not available: no container runtime is configured and it is not built in"
        )
    );
    assert_eq!(
        run(limits, "image: far.example/bad:v1"),
        never_ran("far.example/bad:v1", "the pod of the function is gone")
    );
    assert_eq!(
        run(limits, "image: far.example/edit, tag: ~0.1"),
        never_ran(
            "far.example/edit:~0.1",
            "the version constraint \"~0.1\" would need a registry that lists tags; name one tag"
        )
    );
    // A server that is down gives another error than a missing function.
    let nobody = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap().local_addr().unwrap();
    let error =
        rendered(&format!("http://{nobody}"), &runtime, limits, "image: far.example/edit").error.unwrap();
    assert!(error.starts_with(&never_ran("far.example/edit", "").unwrap()), "{error}");
    assert!(RemoteRunner::new("ftp://x", None, limits, runtime.handle().clone()).is_err());
}
