//! Tests a server and its clients over the loopback device.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test, helpers included")]

use std::path::PathBuf;
use std::time::Duration;

use groundwork_grpc::{Channel, GrpcArguments, Server, ServerError, TokenSource, connect, retry};
use groundwork_telemetry::Telemetry;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

const SOON: Duration = Duration::from_secs(20);

async fn status(client: &mut HealthClient<Channel>, service: &str) -> Result<ServingStatus, Code> {
    let request = HealthCheckRequest { service: service.to_owned() };
    let answer = client.check(request).await.map_err(|status| status.code())?;
    Ok(answer.into_inner().status())
}

async fn until(client: &mut HealthClient<Channel>, expected: ServingStatus) {
    let wait = async {
        while status(client, "").await != Ok(expected) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(SOON, wait).await.unwrap();
}

#[tokio::test]
async fn health_follows_readiness_and_the_end_is_prompt() {
    let telemetry = Telemetry::silent("resolver");
    let condition = telemetry.health.condition("index");
    let server = Server::bind(&GrpcArguments::default(), &telemetry).await.unwrap();
    let mut client = HealthClient::new(connect(&server.url(), None, TokenSource::none()).unwrap());
    let end = CancellationToken::new();
    let serving = tokio::spawn(server.serve(end.clone()));

    until(&mut client, ServingStatus::NotServing).await;
    assert_eq!(status(&mut client, "no.such.Service").await, Err(Code::NotFound));
    condition.ready();
    until(&mut client, ServingStatus::Serving).await;
    condition.not_ready("the bus is away");
    until(&mut client, ServingStatus::NotServing).await;

    // A watch never ends by itself, and must not delay the shutdown.
    let watch = client.watch(HealthCheckRequest { service: String::new() }).await.unwrap();
    end.cancel();
    tokio::time::timeout(SOON, serving).await.unwrap().unwrap().unwrap();
    drop(watch);
}

#[tokio::test]
async fn contracts_can_be_asked_for() {
    let telemetry = Telemetry::silent("resolver");
    let server = Server::bind(&GrpcArguments::default(), &telemetry).await.unwrap();
    let mut client = ServerReflectionClient::new(connect(&server.url(), None, TokenSource::none()).unwrap());
    let end = CancellationToken::new();
    let serving = tokio::spawn(server.serve(end.clone()));
    let mut ask = async |request: MessageRequest| {
        let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
        let mut answers =
            client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
        answers.message().await.unwrap().unwrap().message_response.unwrap()
    };
    let MessageResponse::ListServicesResponse(list) = ask(MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list");
    };
    let names: Vec<_> = list.service.into_iter().map(|service| service.name).collect();
    // The list has only the services of this server.
    assert_eq!(names, ["grpc.health.v1.Health"]);
    let symbol = MessageRequest::FileContainingSymbol("groundwork.resolver.v1.Resolver".to_owned());
    assert!(matches!(ask(symbol).await, MessageResponse::FileDescriptorResponse(_)));
    // The details of errors have descriptors, too.
    for detail in ["google.rpc.ErrorInfo", "google.rpc.BadRequest"] {
        let symbol = MessageRequest::FileContainingSymbol(detail.to_owned());
        let answer = ask(symbol).await;
        assert!(matches!(answer, MessageResponse::FileDescriptorResponse(_)), "{detail}: {answer:?}");
    }
    end.cancel();
    serving.await.unwrap().unwrap();
}

struct Certificates {
    folder: TempDir,
}

impl Certificates {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let certified = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(folder.path().join("tls.crt"), certified.cert.pem()).unwrap();
        std::fs::write(folder.path().join("tls.key"), certified.signing_key.serialize_pem()).unwrap();
        Self { folder }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

#[tokio::test]
async fn with_a_certificate_only_those_who_trust_it_are_answered() {
    let telemetry = Telemetry::silent("resolver");
    telemetry.health.condition("index").ready();
    let (ours, other) = (Certificates::new(), Certificates::new());
    let arguments = GrpcArguments {
        grpc_tls_cert: Some(ours.file("tls.crt")),
        grpc_tls_key: Some(ours.file("tls.key")),
        ..GrpcArguments::default()
    };
    let server = Server::bind(&arguments, &telemetry).await.unwrap();
    let url = server.url();
    let address = server.address();
    let end = CancellationToken::new();
    let serving = tokio::spawn(server.serve(end.clone()));

    let client = |url: &str, ca| HealthClient::new(connect(url, ca, TokenSource::none()).unwrap());
    let trusting = ours.file("tls.crt");
    until(&mut client(&url, Some(&trusting)), ServingStatus::Serving).await;
    let (plain, distrusting) = (format!("http://{address}"), other.file("tls.crt"));
    for mut client in [client(&url, Some(&distrusting)), client(&url, None), client(&plain, None)] {
        let refused = status(&mut client, "").await.unwrap_err();
        assert!(matches!(refused, Code::Unavailable | Code::Unknown), "{refused:?}");
    }
    end.cancel();
    serving.await.unwrap().unwrap();
}

#[tokio::test]
async fn files_that_cannot_be_used_are_named() {
    let telemetry = Telemetry::silent("resolver");
    let ours = Certificates::new();
    let half = GrpcArguments { grpc_tls_cert: Some(ours.file("tls.crt")), ..GrpcArguments::default() };
    assert!(matches!(Server::bind(&half, &telemetry).await, Err(ServerError::HalfTls)));
    let missing = GrpcArguments { grpc_tls_key: Some(ours.file("none")), ..half };
    let error = Server::bind(&missing, &telemetry).await.unwrap_err().to_string();
    assert!(error.contains("none of --grpc-tls-cert or --grpc-tls-key"), "{error}");
    assert!(connect("https://127.0.0.1:1", Some(&ours.file("none")), TokenSource::none()).is_err());

    let taken = Server::bind(&GrpcArguments::default(), &telemetry).await.unwrap();
    let again = GrpcArguments { grpc_address: taken.address(), ..GrpcArguments::default() };
    let error = Server::bind(&again, &telemetry).await.unwrap_err().to_string();
    assert!(error.contains("choose another --grpc-address"), "{error}");
}

/// The server starts while the client is retrying.
#[tokio::test]
async fn a_call_outlasts_a_server_that_starts() {
    let telemetry = Telemetry::silent("resolver");
    let taken = Server::bind(&GrpcArguments::default(), &telemetry).await.unwrap();
    let (url, address) = (taken.url(), taken.address());
    drop(taken);
    let client = HealthClient::new(connect(&url, None, TokenSource::none()).unwrap());
    let end = CancellationToken::new();
    let mut serving = None;
    let answer = retry(async || {
        let request = HealthCheckRequest { service: String::new() };
        let answer = client.clone().check(request).await;
        if answer.is_err() && serving.is_none() {
            let arguments = GrpcArguments { grpc_address: address, ..GrpcArguments::default() };
            let server = Server::bind(&arguments, &telemetry).await.unwrap();
            serving = Some(tokio::spawn(server.serve(end.clone())));
        }
        answer
    });
    answer.await.unwrap();
    end.cancel();
    serving.unwrap().await.unwrap().unwrap();
}
