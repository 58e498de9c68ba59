use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use data_encoding::BASE64;
use groundwork_component::Repositories;
use groundwork_testkit::{Registry, RegistryOptions, Server, servers_or_skip};
use serde_json::json;

use super::*;
use crate::testing::{answer, serve};
use crate::{CtfWriter, LocalBlob, RepositoryMap};

const NAME: &str = "example.org/shop";

fn context() -> RepositoryContext {
    RepositoryContext::new(
        json!({"type": "ociRegistry", "baseUrl": "registry.example.org", "subPath": "team"}),
    )
    .unwrap()
}

/// Opens the repository of a map whose only entry has this host, with a docker configuration file
/// beside the map.
fn open(folder: &Path, host: &str, password: Option<&str>) -> Arc<dyn Repository> {
    let mut entry = json!({"context": context().as_value(), "url": format!("http://{host}/prod/")});
    if let Some(password) = password {
        let auth = BASE64.encode(format!("reader:{password}").as_bytes());
        fs::write(folder.join("config.json"), json!({"auths": {host: {"auth": auth}}}).to_string()).unwrap();
        entry["dockerConfig"] = json!("config.json");
    }
    let path = folder.join("repositories.yaml");
    fs::write(&path, json!({"repositories": [entry]}).to_string()).unwrap();
    RepositoryMap::load(&path).unwrap().open(&context()).unwrap()
}

fn content(repository: &dyn Repository, text: &str) -> Result<Vec<u8>, RepositoryError> {
    let reference = Digest::of(text.as_bytes()).to_string();
    let access = Access::Local { reference, media_type: String::new() };
    repository.content(NAME, "1.0.0+7", &access)?.read_all("blob", 1 << 20)
}

/// Writes an archive with a component version that has one blob.
fn store(folder: &Path) {
    let document = json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": NAME, "version": "1.0.0+7", "provider": "p", "sources": [], "repositoryContexts": [],
        "componentReferences": [],
        "resources": [{"name": "data", "version": "1.0.0+7", "type": "text", "relation": "local"}],
    }});
    let blob =
        LocalBlob { resource: "data".into(), media_type: "text/plain".into(), bytes: b"seven".to_vec() };
    let mut writer = CtfWriter::create(folder, context()).unwrap();
    writer.add(&document, &[blob]).unwrap();
    writer.finish().unwrap();
}

fn push(folder: &Path, registry: &Registry, authorization: &str) {
    store(folder);
    registry.push(folder, "prod", Some(authorization)).unwrap();
}

/// `components.md` 11, item 9, with a registry that asks for a password; errors E20 and E21
/// (`components.md` 8).
#[tokio::test]
async fn round_trip_with_a_password() {
    if !servers_or_skip(&[Server::Registry]) {
        return;
    }
    let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap().to_string();
    let options =
        RegistryOptions { htpasswd: Some(format!("reader:{hash}\n")), ..RegistryOptions::default() };
    let registry = Registry::start(&options).await.unwrap();
    let host = registry.address();
    let folder = tempfile::tempdir().unwrap();
    let basic = format!("Basic {}", BASE64.encode(b"reader:secret"));
    push(&folder.path().join("ctf"), &registry, &basic);

    let repository = open(folder.path(), &host, Some("secret"));
    let descriptor = repository.descriptor(NAME, "1.0.0+7").unwrap().unwrap();
    assert!(String::from_utf8(descriptor).unwrap().contains("example.org/shop"));
    assert_eq!(content(&*repository, "seven").unwrap(), b"seven");
    assert_eq!(repository.descriptor(NAME, "2.0.0"), Ok(None));
    assert_eq!(repository.descriptor("example.org/none", "1.0.0"), Ok(None));
    assert!(matches!(content(&*repository, "eight"), Err(RepositoryError::Missing { .. })));
    let artifact = Access::RelativeArtifact {
        reference: format!("prod/team/component-descriptors/{NAME}:1.0.0.build-7"),
    };
    let set = repository.content(NAME, "1.0.0+7", &artifact).unwrap();
    assert_eq!(set.media_type, "application/vnd.oci.image.manifest.v1+tar");
    assert!(set.read_all("artifact", 1 << 20).unwrap().len() > 1024);

    let repository_name = format!("{host}/prod/team/component-descriptors/{NAME}:1.0.0.build-7");
    for (password, credentials) in [(Some("wrong"), "config.json)"), (None, "(credentials: none)")] {
        let denied =
            open(folder.path(), &host, password).descriptor(NAME, "1.0.0+7").unwrap_err().to_string();
        assert!(denied.starts_with(&format!("access to {repository_name} denied")), "{denied}");
        assert!(denied.ends_with(credentials) && !denied.contains("wrong"), "{denied}");
    }
    drop(registry);
    let gone = repository.descriptor(NAME, "1.0.0+7").unwrap_err().to_string();
    assert!(gone.starts_with(&format!("cannot reach {host}: ")) && gone.contains(&repository_name), "{gone}");
}

/// Pushed versions are found under both name mappings. Existing content is not sent again, and
/// replaced only with `replace`.
#[tokio::test]
async fn pushed_with_a_password() {
    if !servers_or_skip(&[Server::Registry]) {
        return;
    }
    let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap().to_string();
    let options =
        RegistryOptions { htpasswd: Some(format!("writer:{hash}\n")), ..RegistryOptions::default() };
    let registry = Registry::start(&options).await.unwrap();
    let host = registry.address();
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config.json");
    let auth = BASE64.encode(b"writer:secret");
    fs::write(&config, json!({"auths": {&host: {"auth": auth}}}).to_string()).unwrap();
    let target = crate::Registry::new(&format!("http://{host}/prod"), Some(config), None).unwrap();
    let pack = |mapping: &str, version: &str, text: &str| {
        let place = folder.path().join(format!("{mapping}-{version}-{text}"));
        let context = RepositoryContext::new(
            json!({"type": "ociRegistry", "baseUrl": "r", "componentNameMapping": mapping}),
        )
        .unwrap();
        let mut writer = CtfWriter::create(&place, context.clone()).unwrap();
        let document = json!({"apiVersion": "ocm.software/v3alpha1", "kind": "ComponentVersion",
            "metadata": {"name": NAME, "version": version, "provider": {"name": "p"}},
            "spec": {"resources": [{"name": "data", "version": "1.0.0", "type": "text", "relation": "local"}]}});
        let blob = LocalBlob { resource: "data".into(), media_type: "text/plain".into(), bytes: text.into() };
        writer.add(&document, &[blob]).unwrap();
        writer.finish().unwrap();
        (place, context)
    };
    for mapping in ["urlPath", "sha256-digest"] {
        let (place, context) = pack(mapping, "1.0.0+7", "seven");
        let states = |replace: bool| {
            let pushed = crate::push(&place, &target, replace).unwrap();
            pushed.into_iter().map(|artifact| artifact.is_unchanged).collect::<Vec<_>>()
        };
        assert_eq!((states(false), states(false), states(true)), (vec![false], vec![true], vec![true]));
        let repository = crate::Store::Registry(target.clone()).open(&context).unwrap();
        assert!(repository.descriptor(NAME, "1.0.0+7").unwrap().is_some());
        assert_eq!(content(&*repository, "seven").unwrap(), b"seven");

        let (other, _) = pack(mapping, "1.0.0+7", "eight");
        let refused = crate::push(&other, &target, false).unwrap_err().to_string();
        assert!(refused.contains("already exists with other content"), "{refused}");
        assert!(!crate::push(&other, &target, true).unwrap()[0].is_unchanged);
        assert_eq!(content(&*repository, "eight").unwrap(), b"eight");
    }
    let anonymous = crate::Registry { docker_config: None, ..target.clone() };
    let (place, _) = pack("urlPath", "3.0.0", "three");
    let denied = crate::push(&place, &anonymous, false).unwrap_err().to_string();
    assert!(denied.starts_with("access to ") && denied.ends_with("(credentials: none)"), "{denied}");

    // A blob that does not match its digest is not sent.
    let (broken, context) = pack("urlPath", "4.0.0", "four");
    fs::write(broken.join("blobs").join(Digest::of(b"four").file_name()), "fuor").unwrap();
    let refused = crate::push(&broken, &target, false).unwrap_err().to_string();
    assert!(refused.starts_with("digest mismatch for "), "{refused}");
    let repository = crate::Store::Registry(target).open(&context).unwrap();
    assert_eq!(repository.descriptor(NAME, "4.0.0"), Ok(None));
}

fn error(repository: &dyn Repository) -> String {
    repository.descriptor(NAME, "1.0.0").unwrap_err().to_string()
}

/// E14: wrong content for a digest, and a tag for which the registry promises another digest.
#[test]
fn another_content_than_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let (host, _) = serve(|_| {
        let headers = format!(
            "Content-Type: {}\r\nDocker-Content-Digest: {}\r\n",
            artifact::MANIFEST,
            Digest::of(b"x")
        );
        vec![answer("200 OK", "", b"eight"), answer("200 OK", &headers, b"{}")]
    });
    let repository = open(folder.path(), &host, None);
    assert!(matches!(content(&*repository, "seven"), Err(RepositoryError::Digest { .. })));
    assert!(error(&*repository).starts_with("digest mismatch for "));
}

#[test]
fn a_busy_registry_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let (host, requests) = serve(|_| {
        vec![
            answer("429 Too Many Requests", "Retry-After: 0\r\n", b""),
            Vec::new(),
            answer("503 Service Unavailable", "Retry-After: 0\r\n", b""),
            answer("200 OK", "", b"seven"),
        ]
    });
    assert_eq!(content(&*open(folder.path(), &host, None), "seven").unwrap(), b"seven");
    assert_eq!(requests.lock().unwrap().len(), 4);
    let busy = || answer("429 Too Many Requests", "Retry-After: 0\r\n", b"");
    let (host, _) = serve(|_| vec![busy(), busy(), busy(), busy()]);
    assert!(error(&*open(folder.path(), &host, None)).contains("it answers with status 429"));
}

#[test]
fn another_host_sees_no_credentials() {
    let folder = tempfile::tempdir().unwrap();
    let (other, seen) = serve(|_| vec![answer("200 OK", "", b"seven")]);
    let (host, requests) = serve(|_| {
        let moved = format!("Location: http://{other}/elsewhere\r\n");
        vec![
            answer("401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n", b""),
            answer("307 Temporary Redirect", "Location: /again\r\n", b""),
            answer("307 Temporary Redirect", &moved, b""),
        ]
    });
    assert_eq!(content(&*open(folder.path(), &host, Some("secret")), "seven").unwrap(), b"seven");
    let requests = requests.lock().unwrap();
    let has: Vec<_> = requests.iter().map(|request| request.contains("authorization:")).collect();
    assert_eq!(has, [false, true, true]);
    assert!(!seen.lock().unwrap()[0].contains("authorization:"));
}

/// A host that a registry redirects to cannot ask for the password of the registry.
#[test]
fn another_host_gets_no_answer() {
    let folder = tempfile::tempdir().unwrap();
    let (other, seen) = serve(|host| {
        let asked = format!("WWW-Authenticate: Bearer realm=\"http://{host}/token\"\r\n");
        vec![answer("401 Unauthorized", &asked, b""), answer("200 OK", "", br#"{"token": "t1"}"#)]
    });
    let moved = format!("Location: http://{other}/elsewhere\r\n");
    let (host, _) = serve(|_| vec![answer("307 Temporary Redirect", &moved, b"")]);
    assert!(error(&*open(folder.path(), &host, Some("secret"))).starts_with("access to "));
    assert_eq!(seen.lock().unwrap().len(), 1);
}

#[test]
fn redirects_end() {
    let folder = tempfile::tempdir().unwrap();
    let (host, _) = serve(|_| vec![answer("302 Found", "Location: /again\r\n", b""); 6]);
    assert!(error(&*open(folder.path(), &host, None)).contains("it redirects more than 5 times"));
}

/// The client sends the password to the token service, and the token to the registry.
#[test]
fn tokens() {
    let folder = tempfile::tempdir().unwrap();
    let (host, requests) = serve(|host| {
        let asked = format!("WWW-Authenticate: Bearer realm=\"http://{host}/token\",service=\"s\"\r\n");
        vec![
            answer("401 Unauthorized", &asked, b""),
            answer("200 OK", "", br#"{"token": "t1"}"#),
            answer("200 OK", "", b"seven"),
            answer("200 OK", "", b"seven"),
        ]
    });
    let repository = open(folder.path(), &host, Some("secret"));
    assert_eq!(content(&*repository, "seven").unwrap(), b"seven");
    assert_eq!(content(&*repository, "seven").unwrap(), b"seven");
    let requests = requests.lock().unwrap();
    assert!(
        requests[1].contains("scope=repository%3aprod%2fteam%2f")
            && requests[1].contains("authorization: basic ")
    );
    assert!(
        requests[2].contains("authorization: bearer t1") && requests[3].contains("authorization: bearer t1")
    );
}

#[test]
fn answers_that_are_no_manifest() {
    let folder = tempfile::tempdir().unwrap();
    let (host, _) = serve(|_| {
        let endless = format!("HTTP/1.1 200 OK\r\nContent-Type: {}\r\n\r\n", artifact::MANIFEST);
        vec![
            answer("200 OK", "Content-Type: text/html\r\n", b"<html>"),
            [endless.as_bytes(), &vec![b' '; 5 << 20]].concat(),
            answer("403 Forbidden", "", b""),
        ]
    });
    let repository = open(folder.path(), &host, None);
    assert!(error(&*repository).contains(
        "the registry answers with content type \"text/html\", which is not the type of a manifest"
    ));
    assert!(error(&*repository).ends_with(" is larger than 4194304 bytes"));
    assert!(error(&*repository).starts_with("access to "));
}

/// E21: a server without TLS where TLS is expected, and files that have no certificates.
#[test]
fn trust() {
    let folder = tempfile::tempdir().unwrap();
    let (host, requests) = serve(|_| vec![answer("200 OK", "", b"")]);
    let client = |ca: Option<std::path::PathBuf>| {
        Client::new(&crate::Registry { url: host.clone(), docker_config: None, ca })
    };
    let repository = OciRepository { client: client(None).unwrap(), context: context(), peers: None };
    let message = error(&repository);
    assert!(message.starts_with(&format!("cannot reach {host}: TLS: ")), "{message}");
    assert!(!requests.lock().unwrap().iter().any(|request| request.contains("get /v2")));
    let path = folder.path().join("ca.pem");
    assert!(matches!(client(Some(path.clone())), Err(RepositoryError::Unreadable { .. })));
    fs::write(&path, "no certificate").unwrap();
    assert!(client(Some(path)).unwrap_err().to_string().ends_with("it contains no certificate in PEM form"));
}

/// Names that would change the address are refused before a request is sent.
#[test]
fn names_stay_inside() {
    let folder = tempfile::tempdir().unwrap();
    let repository = open(folder.path(), "127.0.0.1:1", None);
    for (name, version) in [("a/../../b", "1.0.0"), ("a?b", "1.0.0"), ("A", "1.0.0"), ("a", "1/2"), ("a", "")]
    {
        let answer = repository.descriptor(name, version);
        assert!(matches!(answer, Err(RepositoryError::Malformed { .. })), "{name}:{version}");
    }
    let access = Access::Artifact { reference: "other.example.org/a:1".into() };
    let error = repository.content(NAME, "1.0.0", &access).unwrap_err().to_string();
    assert!(error.contains(" is in another registry than its component"), "{error}");
}

fn docker_config(auths: &serde_json::Value) -> Arc<Keyring> {
    let mut keyring = Keyring::default();
    keyring
        .add_docker_config("secret \"team/pull\"", json!({"auths": auths}).to_string().as_bytes())
        .unwrap();
    Arc::new(keyring)
}

/// I-16, and `components.md` 11, item 13: a pull secret alone gives access to a private registry
/// that no map names, and the same secrets to artifacts in other registries.
#[tokio::test]
async fn registries_of_contexts() {
    if !servers_or_skip(&[Server::Registry]) {
        return;
    }
    let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap().to_string();
    let private =
        RegistryOptions { htpasswd: Some(format!("reader:{hash}\n")), ..RegistryOptions::default() };
    let registry = Registry::start(&private).await.unwrap();
    let other = Registry::start(&RegistryOptions::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let basic = format!("Basic {}", BASE64.encode(b"reader:secret"));
    push(&folder.path().join("ctf"), &registry, &basic);
    push(&folder.path().join("ctf"), &other, &basic);

    let map = RepositoryMap::empty("nothing").with_network(NetworkOptions::default());
    let host = registry.address();
    let context = RepositoryContext::new(
        json!({"type": "OCIRegistry/v1", "baseUrl": format!("{host}/prod"), "subPath": "team"}),
    )
    .unwrap();
    let auth = json!({"username": "reader", "password": "secret"});
    let keyring = docker_config(&json!({host.as_str(): auth.clone()}));
    let repository = map.open_with(&context, &keyring, &Allowance::default()).unwrap();
    assert!(repository.descriptor(NAME, "1.0.0+7").unwrap().is_some());
    assert_eq!(content(&*repository, "seven").unwrap(), b"seven");
    let elsewhere = Access::Artifact {
        reference: format!("{}/prod/team/component-descriptors/{NAME}:1.0.0.build-7", other.address()),
    };
    let set = repository.content(NAME, "1.0.0+7", &elsewhere).unwrap();
    assert!(set.read_all("artifact", 1 << 20).unwrap().len() > 1024);

    // Access that one Context has got must not help another Context.
    let wrong = json!({"username": "reader", "password": "wrong"});
    for (keyring, credentials) in [
        (Arc::default(), "(credentials: none)"),
        (docker_config(&json!({"elsewhere.example.org": auth.clone()})), "(credentials: none)"),
        (docker_config(&json!({format!("{host}/other"): auth.clone()})), "(credentials: none)"),
    ] {
        let denied = map
            .open_with(&context, &keyring, &Allowance::default())
            .unwrap()
            .descriptor(NAME, "1.0.0+7")
            .unwrap_err();
        assert!(denied.to_string().ends_with(credentials), "{denied}");
    }
    let mut keyring = Keyring::default();
    let text = json!({"auths": {host.as_str(): wrong}}).to_string();
    keyring.add_docker_config("secret \"team/pull\"", text.as_bytes()).unwrap();
    let keyring = Arc::new(keyring);
    let denied = map
        .open_with(&context, &keyring, &Allowance::default())
        .unwrap()
        .descriptor(NAME, "1.0.0+7")
        .unwrap_err()
        .to_string();
    assert!(denied.ends_with("(credentials: secret \"team/pull\")") && !denied.contains("wrong"), "{denied}");

    let strict = NetworkOptions { only_public: true, ..NetworkOptions::default() };
    let strict = RepositoryMap::empty("nothing").with_network(strict);
    let refused = strict
        .open_with(&context, &keyring, &Allowance::default())
        .unwrap()
        .descriptor(NAME, "1.0.0+7")
        .unwrap_err();
    assert!(refused.to_string().contains("an address in a private network"), "{refused}");
}

/// TLS with an own certificate authority, against a real registry.
#[tokio::test]
async fn tls_with_an_authority_of_ones_own() {
    if !servers_or_skip(&[Server::Registry]) {
        return;
    }
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let tls = Some((made.cert.pem(), made.signing_key.serialize_pem()));
    let registry = Registry::start(&RegistryOptions { tls, ..RegistryOptions::default() }).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let ca = folder.path().join("ca.pem");
    fs::write(&ca, made.cert.pem()).unwrap();
    let archive = folder.path().join("ctf");
    store(&archive);
    let url = format!("https://{}/prod", registry.address());
    let target = crate::Registry::new(&url, None, Some(ca.clone())).unwrap();
    assert_eq!(crate::push(&archive, &target, false).unwrap().len(), 1);
    let repository = crate::Store::Registry(target).open(&context()).unwrap();
    assert_eq!(content(&*repository, "seven").unwrap(), b"seven");

    let options = NetworkOptions { ca: Some(ca), ..NetworkOptions::default() };
    let map = RepositoryMap::empty("nothing").with_network(options);
    let context =
        RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": url, "subPath": "team"})).unwrap();
    let repository = map.open_with(&context, &Arc::default(), &Allowance::default()).unwrap();
    assert!(repository.descriptor(NAME, "1.0.0+7").unwrap().is_some());
    let untrusted = crate::Registry::new(&url, None, None).unwrap();
    let refused =
        crate::Store::Registry(untrusted).open(&context).unwrap().descriptor(NAME, "1.0.0+7").unwrap_err();
    assert!(refused.to_string().contains("TLS: "), "{refused}");
}

/// R29: the certificate of a chart repository is checked with the roots of a Context, in place of
/// those of the system.
#[tokio::test]
async fn tls_of_chart_repositories() {
    if !servers_or_skip(&[Server::Registry]) {
        return;
    }
    let certificate = || rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (made, other) = (certificate(), certificate());
    let tls = Some((made.cert.pem(), made.signing_key.serialize_pem()));
    let registry = Registry::start(&RegistryOptions { tls, ..RegistryOptions::default() }).await.unwrap();
    let client = crate::ChartClient::new(NetworkOptions::default());
    let url = format!("https://{}/v2/", registry.address());
    let get = |roots: Option<String>| {
        let roots = roots.map(String::into_bytes);
        client.get(&url, &crate::Authorization { header: None, roots }, 100, &Allowance::default())
    };
    assert_eq!(get(Some(made.cert.pem())).unwrap(), b"{}");
    for roots in [None, Some(other.cert.pem())] {
        let refused = get(roots).unwrap_err().to_string();
        assert!(refused.contains("TLS: "), "{refused}");
    }
    let broken = get(Some("no certificate".to_owned())).unwrap_err().to_string();
    assert!(broken.contains("the certificates for the chart repository"), "{broken}");
}

/// A refresh token is sent only to the token service that the registry names.
#[test]
fn refresh_tokens() {
    let (host, requests) = serve(|host| {
        let asked = format!("WWW-Authenticate: Bearer realm=\"http://{host}/token\",service=\"s\"\r\n");
        vec![
            answer("401 Unauthorized", &asked, b""),
            answer("200 OK", "", br#"{"access_token": "t1"}"#),
            answer("200 OK", "", b"seven"),
        ]
    });
    let map = RepositoryMap::empty("nothing").with_network(NetworkOptions::default());
    let context =
        RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": format!("http://{host}")})).unwrap();
    let keyring = docker_config(&json!({host.as_str(): {"identitytoken": "lasting"}}));
    let repository = map.open_with(&context, &keyring, &Allowance::default()).unwrap();
    assert_eq!(content(&*repository, "seven").unwrap(), b"seven");
    let requests = requests.lock().unwrap();
    assert!(
        requests[1].starts_with("post /token ") && !requests[1].contains("authorization:"),
        "{}",
        requests[1]
    );
    assert!(requests[2].contains("authorization: bearer t1"));
}

/// A server that stops in the middle of an answer runs into the timeout.
#[test]
fn a_server_that_stops() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let held = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&held);
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nsev"));
            kept.lock().unwrap().push(stream);
        }
    });
    let error = content(&*open(folder.path(), &host, None), "seven").unwrap_err();
    assert!(matches!(error, RepositoryError::Unreadable { .. }), "{error}");
}
