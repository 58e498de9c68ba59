//! etcd of `compose.yaml`, with its arguments and the files that `groundwork-bootstrap` creates for
//! it.

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use groundwork_testkit::{Program, Server, find, servers_or_skip};
use groundwork_tests::{System, documents, wait_for, workspace};
use kube::{Client, Config};

use crate::support::PATIENCE;

/// etcd answers the API server, which has a certificate, and no other client on the host.
#[expect(clippy::disallowed_methods, reason = "the server is one that the test has started")]
#[tokio::test(flavor = "multi_thread")]
async fn etcd_answers_nobody_without_a_certificate() -> Result<()> {
    if !servers_or_skip(&[Server::Etcd]) {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let path = |name: &str| folder.path().join(name);
    let user = std::fs::metadata(folder.path())?.uid().to_string();
    std::fs::create_dir(path("credentials"))?;
    std::fs::create_dir(path("data"))?;
    let made = Command::new(System::program("groundwork-bootstrap")?)
        .args(["credentials", "--user", &user, "--folder"])
        .arg(path("credentials"))
        .arg("--data")
        .arg(path("data"))
        .arg("--host-folder")
        .arg(path("host"))
        .arg("--owner-of")
        .arg(folder.path())
        .output()?;
    ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));

    let compose = documents(&std::fs::read_to_string(workspace().join("compose.yaml"))?)?;
    let arguments = compose[0]["services"]["etcd"]["entrypoint"].as_array().context("etcd has arguments")?;
    let free = || anyhow::Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
    let (port, peers) = (free()?, free()?);
    let credentials = path("credentials/etcd").display().to_string();
    let mut command = Command::new(find(Server::Etcd)?.path);
    for argument in arguments.iter().skip(1).filter_map(|argument| argument.as_str()) {
        let here = argument
            .replace("/run/groundwork", &credentials)
            .replace("=/data", &format!("={}", path("data").display()))
            .replace("0.0.0.0:2379", &format!("127.0.0.1:{port}"))
            .replace("etcd:2379", &format!("localhost:{port}"));
        command.arg(here);
    }
    command.arg(format!("--listen-peer-urls=http://127.0.0.1:{peers}"));
    let program = Program::start("etcd", &command)?;

    let client = |with_certificate: bool, url: String| -> Result<Client> {
        let mut config = Config::new(url.parse()?);
        let pem = std::fs::read(path("credentials/kube-apiserver/etcd-ca.pem"))?;
        let body: String =
            String::from_utf8(pem)?.lines().filter(|line| !line.starts_with("-----")).collect();
        config.root_cert = Some(vec![data_encoding::BASE64.decode(body.as_bytes())?]);
        if with_certificate {
            let file = path("credentials/kube-apiserver/etcd-client.pem").display().to_string();
            config.auth_info.client_certificate = Some(file.clone());
            config.auth_info.client_key = Some(file);
        }
        Ok(Client::try_from(config)?)
    };
    let version = async |client: &Client| {
        client
            .request_text(http::Request::get("/version").body(Vec::new())?)
            .await
            .map_err(anyhow::Error::from)
    };
    let known = client(true, format!("https://localhost:{port}"))?;
    wait_for("etcd answers the API server", PATIENCE, async || {
        version(&known).await.map_err(|error| format!("{error:#}"))
    })
    .await
    .with_context(|| std::fs::read_to_string(program.log()).unwrap_or_default())?;
    for url in [format!("https://localhost:{port}"), format!("http://localhost:{port}")] {
        let answer = version(&client(false, url.clone())?).await;
        ensure!(answer.is_err(), "{url} answers anybody: {answer:?}");
    }
    Ok(())
}
