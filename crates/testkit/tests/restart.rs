//! An API server that is killed and started again still has its data.

#![cfg(feature = "run")]
#![allow(clippy::unwrap_used, reason = "a test")]

use groundwork_testkit::{ControlPlane, ControlPlaneOptions, Server, servers_or_skip};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;

#[tokio::test]
async fn a_killed_api_server_comes_back() {
    if !servers_or_skip(&[Server::Etcd, Server::KubeApiserver]) {
        return;
    }
    let mut plane = ControlPlane::start(ControlPlaneOptions::default()).await.unwrap();
    plane.create_namespace("kept").await.unwrap();
    plane.freeze_api_server(true).unwrap();
    plane.freeze_api_server(false).unwrap();
    plane.kill_api_server().await.unwrap();
    plane.start_api_server_again().await.unwrap();
    Api::<Namespace>::all(plane.client().await.unwrap()).get("kept").await.unwrap();
}
