//! The servers start, answer, and leave no process or file behind.

#![cfg(feature = "run")]

use std::path::PathBuf;

use groundwork_testkit::{
    Audit, ControlPlane, ControlPlaneOptions, Nats, Registry, RegistryOptions, Server, servers_or_skip,
};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Api;
use kube::api::{DeleteParams, PostParams};

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

#[tokio::test]
async fn a_control_plane_with_everything() {
    if !servers_or_skip(&[
        Server::Etcd,
        Server::KubeApiserver,
        Server::KubeControllerManager,
        Server::Kubectl,
    ]) {
        return;
    }
    let options = ControlPlaneOptions {
        controller_manager: true,
        audit: Audit::Requests,
        owner_references_permission: true,
    };
    let plane = ControlPlane::start(options).await.unwrap();
    plane.create_namespace("first").await.unwrap();
    let client = plane.client().await.unwrap();

    // A new ServiceAccount is authenticated, but has no permissions.
    let accounts = Api::<ServiceAccount>::namespaced(client.clone(), "first");
    let account = ServiceAccount { metadata: named("nobody"), ..ServiceAccount::default() };
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let restricted = plane.service_account_client("first", "nobody").await.unwrap();
    let error = Api::<Namespace>::all(restricted).list(&Default::default()).await.unwrap_err().to_string();
    assert!(error.contains("system:serviceaccount:first:nobody"), "{error}");

    // The garbage collector follows owner references.
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "first");
    let owner = ConfigMap { metadata: named("owner"), ..ConfigMap::default() };
    let owner = maps.create(&PostParams::default(), &owner).await.unwrap();
    let reference = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        name: "owner".to_owned(),
        uid: owner.metadata.uid.unwrap(),
        ..OwnerReference::default()
    };
    let owned = ConfigMap {
        metadata: ObjectMeta { owner_references: Some(vec![reference]), ..named("owned") },
        ..ConfigMap::default()
    };
    maps.create(&PostParams::default(), &owned).await.unwrap();
    maps.delete("owner", &DeleteParams::default()).await.unwrap();
    for _ in 0..600 {
        if maps.get_opt("owned").await.unwrap().is_none() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(maps.get_opt("owned").await.unwrap().is_none(), "the owned object is still there");

    let output = plane.kubectl().unwrap().args(["get", "namespace", "first", "-o", "name"]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "namespace/first\n", "{output:?}");
    let log = std::fs::read_to_string(plane.audit_log().unwrap()).unwrap();
    assert!(log.lines().any(|line| line.contains("\"resource\":\"configmaps\"")), "no request in the log");

    let folder = plane.kubeconfig().parent().map(PathBuf::from).unwrap();
    assert!(folder.exists());
    drop(plane);
    assert!(!folder.exists(), "{} is left behind", folder.display());
}

#[tokio::test]
async fn nats_and_registry() {
    if !servers_or_skip(&[Server::NatsServer, Server::Registry]) {
        return;
    }
    let (nats, other) = (Nats::start().await.unwrap(), Nats::start().await.unwrap());
    assert_ne!(nats.url(), other.url());
    let registry = Registry::start(&RegistryOptions::default()).await.unwrap();
    assert!(registry.address().starts_with("127.0.0.1:"));
    let users = "me:$2y$05$cqBhWSnqgLDDpIGmcZHHRuvBKcyeW1BHxgTLe8rXMWHJDVBe7zTe2\n";
    Registry::start(&RegistryOptions { htpasswd: Some(users.to_owned()), ..RegistryOptions::default() })
        .await
        .unwrap();
}

#[tokio::test]
async fn the_log_of_a_server_that_fails_is_in_the_error() {
    if !servers_or_skip(&[Server::NatsServer]) {
        return;
    }
    let error = Nats::start_with("no such setting {").await.unwrap_err().to_string();
    assert!(error.starts_with("nats-server ended at once; its log ends with:\n"), "{error}");
    assert!(error.contains("Parse error"), "{error}");
}
