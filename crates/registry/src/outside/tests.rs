use std::io::Write as _;
use std::time::Duration;

use data_encoding::HEXLOWER;
use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_component::{ComponentVersion, Descriptor, Repositories as _};
use groundwork_testkit::{Honest, HostileServer, Trick};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

use super::*;
use crate::RepositoryMap;
use crate::digest::Digest;
use crate::testing::{answer, serve};

const NAME: &str = "example.org/shop";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const OTHER: &str = "76543210fedcba9876543210fedcba9876543210";

/// Map with these entries, whose only store is a directory with a descriptor.
struct World {
    folder: TempDir,
    map: RepositoryMap,
}

impl World {
    fn new(accesses: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("store");
        fs::create_dir_all(store.join("blobs")).unwrap();
        let document = json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": NAME, "version": "1.0.0", "provider": "p", "sources": [], "repositoryContexts": [],
            "componentReferences": [], "resources": [],
        }});
        fs::write(store.join("component-descriptor.yaml"), document.to_string()).unwrap();
        let repositories = json!([{"context": context().as_value(), "directory": "store"}]);
        let path = folder.path().join("repositories.yaml");
        fs::write(&path, json!({"repositories": repositories, "accesses": accesses}).to_string()).unwrap();
        let map = RepositoryMap::load(&path).unwrap();
        Self { folder, map }
    }

    /// Writes OCM's configuration of credentials for the entries.
    fn credentials(accesses: Value, consumer: &Value, credentials: &Value) -> Self {
        let mut accesses = accesses;
        accesses[0]["ocmConfig"] = json!("credentials.yaml");
        let world = Self::new(&accesses);
        let config = json!({"type": "credentials.config.ocm.software/v1", "consumers": [
            {"identity": consumer, "credentials": [credentials]},
        ]});
        fs::write(world.folder.path().join("credentials.yaml"), config.to_string()).unwrap();
        world
    }

    fn blob(&self, access: &Value) -> Result<Blob, RepositoryError> {
        self.map.open(&context())?.content(NAME, "1.0.0", &Access::parse(access).unwrap())
    }

    fn read(&self, access: &Value) -> Result<Vec<u8>, String> {
        let read = self.blob(access).and_then(|blob| blob.read_all("it", 1 << 20));
        read.map_err(|error| error.to_string())
    }
}

fn context() -> RepositoryContext {
    RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": "registry.example.org"})).unwrap()
}

fn entry(kind: &str, url: &str) -> Value {
    json!([{"type": kind, "url": url}])
}

fn wget(url: &str) -> Value {
    json!({"type": "Wget/v1", "url": url})
}

/// The command and services fetch the same content, with and without a store of the component.
#[test]
fn downloads() {
    let seven = || answer("200 OK", "Content-Type: text/plain; charset=utf-8\r\n", b"seven");
    let (host, requests) = serve(|_| vec![seven(), seven(), seven(), answer("200 OK", "", b"seven")]);
    let world = World::new(&entry("wget", &format!("http://{host}/shop")));
    let mut access = wget(&format!("http://{host}/shop/data?token=canary#part"));
    access["header"] = json!({"X-Team": ["a", "b"], "Accept": ["text/plain"]});
    let blob = world.blob(&access).unwrap();
    assert_eq!((blob.media_type.as_str(), blob.size), ("text/plain", Some(5)));
    assert_eq!(blob.read_all("it", 10).unwrap(), b"seven");
    let request = requests.lock().unwrap()[0].clone();
    for line in ["get /shop/data?token=canary ", "x-team: a\n", "x-team: b\n", "accept: text/plain\n"] {
        assert!(request.contains(line) && !request.contains("authorization"), "{request}");
    }

    let service = world.map.clone().with_network(NetworkOptions::default());
    let parsed = Access::parse(&access).unwrap();
    for context in [context(), RepositoryContext::outside()] {
        let repository = service.open_with(&context, &Arc::default(), &Allowance::default()).unwrap();
        assert_eq!(repository.content("", "", &parsed).unwrap().read_all("it", 10).unwrap(), b"seven");
    }
    let repository = world.map.open(&RepositoryContext::outside()).unwrap();
    assert_eq!(repository.descriptor(NAME, "1.0.0"), Ok(None));
    let blob = repository.content("", "", &parsed).unwrap();
    assert_eq!(blob.media_type, "application/octet-stream");
}

/// A place without an entry gets no request, and the message names the file and the list.
#[test]
fn places_without_an_entry() {
    let (host, requests) = serve(|_| Vec::new());
    let world = World::new(&entry("wget", &format!("http://{host}/shop")));
    let chart =
        json!({"type": "helm", "helmRepository": format!("http://{host}/shop"), "helmChart": "web:1"});
    let commit = json!({"type": "gitHub", "repoUrl": format!("http://{host}/shop/a"), "commit": COMMIT});
    for access in [
        wget(&format!("http://{host}/other?token=canary")),
        wget(&format!("http://{host}/shop/../other")),
        wget(&format!("https://{host}/shop")),
        json!({"type": "s3", "bucket": "b", "key": "k"}),
        chart,
        commit,
    ] {
        let error = world.blob(&access).unwrap_err();
        assert!(matches!(error, RepositoryError::NotPermitted { .. }), "{access}: {error}");
        let text = error.to_string();
        let words = [
            "repositories.yaml",
            "list accesses",
            access["type"].as_str().unwrap().split('/').next().unwrap(),
        ];
        assert!(words.iter().all(|word| text.to_lowercase().contains(&word.to_lowercase())), "{text}");
        assert!(!text.contains("canary"), "{text}");
    }
    let nothing = RepositoryMap::empty("nowhere").open(&RepositoryContext::outside()).unwrap();
    let access = Access::parse(&wget("https://a.org/x")).unwrap();
    assert!(nothing.content("", "", &access).unwrap_err().to_string().contains("in nowhere covers it"));
    assert!(requests.lock().unwrap().is_empty());
}

#[test]
fn credentials_stay_with_their_host() {
    let (other, seen) = serve(|_| vec![answer("200 OK", "", b"seven")]);
    let moved = format!("Location: http://{other}/elsewhere\r\n");
    let (host, requests) = serve(|_| {
        vec![
            answer("302 Found", "Location: /shop/again\r\n", b""),
            answer("302 Found", &moved, b""),
            answer("302 Found", &moved, b""),
            answer("401 Unauthorized", "", b""),
        ]
    });
    let (name, port) = host.split_once(':').unwrap();
    let consumer = json!({"type": "Wget", "hostname": name, "port": port, "path": "shop"});
    let token = json!({"type": "WgetCredentials/v1", "identityToken": "canary"});
    let world = World::credentials(entry("wget", &format!("http://{host}")), &consumer, &token);
    let mut access = wget(&format!("http://{host}/shop/data"));
    access["header"] = json!({"X-Team": ["a"]});
    assert_eq!(world.read(&access), Ok(b"seven".to_vec()));
    for (request, is_own) in [(&requests.lock().unwrap()[1], true), (&seen.lock().unwrap()[0], false)] {
        let has = |line: &str| request.contains(line) == is_own;
        assert!(has("authorization: bearer canary\n") && has("x-team: a\n") && request.contains("accept: "));
    }
    access["noRedirect"] = json!(true);
    let error = world.read(&access).unwrap_err();
    assert!(error.contains("it redirects with status 302"), "{error}");
    let error = world.read(&access).unwrap_err();
    assert!(error.contains("denied (credentials: ") && error.contains("credentials.yaml"), "{error}");
    assert!(!error.contains("canary"));
}

#[test]
fn answers_that_are_errors() {
    let (host, _) = serve(|_| {
        vec![
            answer("404 Not Found", "", b""),
            answer("500 Internal Server Error", "", b""),
            answer("200 OK", "", b"seven").strip_suffix(b"en").unwrap().to_vec(),
            b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n".to_vec(),
        ]
    });
    let world = World::new(&entry("wget", &format!("http://{host}")));
    let access = wget(&format!("http://{host}/x?token=canary"));
    for words in ["does not exist", "status 500", "", "is larger than 4294967296 bytes"] {
        let error = world.read(&access).unwrap_err();
        assert!(error.contains(words) && !error.contains("canary"), "{words}: {error}");
    }
    let mut endless = Verified::new(std::io::repeat(0), None, "it".to_owned(), 1000);
    let error = std::io::copy(&mut endless, &mut std::io::sink()).unwrap_err();
    assert_eq!(RepositoryError::of_read(&error, "it").to_string(), "it is larger than 1000 bytes");
}

/// With the rule of public addresses, only the host of the entry may be in a private network.
#[test]
fn only_public_addresses() {
    let (private, seen) = serve(|_| vec![answer("200 OK", "", b"secret")]);
    let moved = format!("Location: http://{private}/secret\r\n");
    let (host, _) = serve(|_| vec![answer("200 OK", "", b"seven"), answer("302 Found", &moved, b"")]);
    let world = World::new(&entry("wget", &format!("http://{host}")));
    let options = NetworkOptions { only_public: true, ..NetworkOptions::default() };
    let map = world.map.with_network(options);
    let repository = map.open_with(&context(), &Arc::default(), &Allowance::default()).unwrap();
    let access = Access::parse(&wget(&format!("http://{host}/x"))).unwrap();
    let read = || repository.content(NAME, "1.0.0", &access)?.read_all("it", 10);
    assert_eq!(read().unwrap(), b"seven");
    let error = read().unwrap_err().to_string();
    assert!(error.contains("an address in a private network"), "{error}");
    assert!(seen.lock().unwrap().is_empty());
}

/// Each attack ends within its time limit, with an error of bounded length or bounded content.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_servers() {
    let (mut servers, mut asking) = (Vec::new(), tokio::task::JoinSet::new());
    for trick in Trick::all() {
        let index = "apiVersion: v1\nentries: {web: [{version: 1.0.0, urls: [x]}]}";
        let index = Honest::json("/charts/index.yaml", "text/yaml", index);
        let server = HostileServer::start_beside(trick.clone(), vec![index]).await.unwrap();
        let url = server.url();
        servers.push(server);
        let entries = json!([
            {"type": "wget", "url": url}, {"type": "gitHub", "url": url}, {"type": "s3", "url": url},
            {"type": "helm", "url": url},
        ]);
        let accesses = [
            wget(&format!("{url}/x")),
            json!({"type": "gitHub", "repoUrl": format!("{url}/o/r"), "commit": COMMIT}),
            json!({"type": "s3Bucket", "bucketName": "b", "objectKey": "k", "endpoint": url, "usePathStyle": true}),
            json!({"type": "helm", "helmRepository": format!("{url}/charts"), "helmChart": "web:1.0.0"}),
            json!({"type": "helm", "helmRepository": format!("{url}/none"), "helmChart": "web:1.0.0"}),
        ];
        let map = World::new(&entries).map.with_network(NetworkOptions::default());
        for access in accesses {
            let (map, trick) = (map.clone(), trick.clone());
            asking.spawn_blocking(move || {
                let allowance = Allowance::of(Duration::from_secs(1), "--time");
                let repository =
                    map.open_with(&RepositoryContext::outside(), &Arc::default(), &allowance).unwrap();
                let read = repository.content("", "", &Access::parse(&access).unwrap());
                (trick, access, read.and_then(|blob| blob.read_all("it", 1 << 20)))
            });
        }
    }
    let all = tokio::time::timeout(Duration::from_secs(60), asking.join_all()).await;
    for (trick, access, ended) in all.expect("each attack ends") {
        // These are answers of an ordinary length, whatever they contain.
        let is_short = matches!(
            trick,
            Trick::GzipBomb
                | Trick::HeavyJson
                | Trick::DeepJson
                | Trick::StrangeJson
                | Trick::EndlessPages
                | Trick::SamePage
                | Trick::LongerThanSaid
        );
        match ended {
            Ok(_) => assert!(is_short, "{trick:?} {access}"),
            Err(error) => assert!(error.to_string().len() < 1000, "{trick:?} {access}: {error}"),
        }
    }
}

/// Packs an archive as git does, with its commit in front.
fn archive(commit: Option<&str>) -> Vec<u8> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    let mut add = |kind: tar::EntryType, name: &str, content: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, name, content).unwrap();
    };
    if let Some(commit) = commit {
        add(tar::EntryType::XGlobalHeader, "pax_global_header", format!("52 comment={commit}\n").as_bytes());
    }
    add(tar::EntryType::Regular, "team-shop-0123456/a", &[7; 100_000]);
    archive.into_inner().unwrap().finish().unwrap()
}

#[test]
fn commits() {
    let (download, seen) =
        serve(|_| vec![answer("200 OK", "Content-Type: application/x-gzip\r\n", &archive(Some(COMMIT)))]);
    let moved = format!("Location: http://{download}/signed?token=canary\r\n");
    let (host, requests) = serve(|_| {
        vec![
            answer("302 Found", &moved, b""),
            answer("200 OK", "", &archive(None)),
            answer("200 OK", "", &archive(Some(OTHER))),
            answer("200 OK", "", b"<html>Log in</html>"),
            answer("404 Not Found", "", b""),
        ]
    });
    let (name, port) = host.split_once(':').unwrap();
    let consumer = json!({"type": "GitHubRepository", "hostname": name, "port": port, "path": "team/shop"});
    let token = json!({"type": "GitHubCredentials/v1", "token": "canary"});
    let world = World::credentials(entry("gitHub", &format!("http://{host}/team")), &consumer, &token);
    let access =
        json!({"type": "GitHub/v1", "repoUrl": format!("http://{host}/team/shop.git"), "commit": COMMIT});
    let blob = world.blob(&access).unwrap();
    assert_eq!(blob.media_type, "application/x-tgz");
    assert_eq!(blob.read_all("it", 1 << 20).unwrap(), archive(Some(COMMIT)));
    assert_eq!(world.read(&access), Ok(archive(None)), "not every server keeps the commit");
    for words in
        [&format!("expected {COMMIT}, got {OTHER}"), "without a compressed archive", "does not exist"]
    {
        let error = world.read(&access).unwrap_err();
        assert!(error.contains(words) && !error.contains("canary"), "{error}");
    }
    let request = requests.lock().unwrap()[0].clone();
    assert!(request.starts_with(&format!("get /api/v3/repos/team/shop/tarball/{COMMIT} ")), "{request}");
    assert!(request.contains("authorization: bearer canary\n"));
    assert!(!seen.lock().unwrap()[0].contains("authorization"), "another host gets no token");

    let mut other = access;
    other["apiHostname"] = json!("127.0.0.1:1");
    let error = world.read(&other).unwrap_err();
    assert!(error.contains("permit it with apiHostname in the entry"), "{error}");
}

#[test]
fn objects() {
    let (host, requests) = serve(|_| {
        vec![
            answer("200 OK", "Content-Type: text/plain\r\n", b"seven"),
            answer("200 OK", "", b"seven"),
            answer("301 Moved Permanently", "Location: http://127.0.0.1:1/\r\n", b""),
            answer("403 Forbidden", "", b"<Error><Code>AccessDenied</Code></Error>"),
        ]
    });
    let access = json!({"type": "S3Bucket/v1", "bucketName": "bucket", "objectKey": "a b/c", "region": "eu-west-1",
        "version": "v/1", "endpoint": format!("http://{host}"), "usePathStyle": true});
    let entries = entry("s3", &format!("http://{host}/bucket/a%20b"));
    let anonymous = World::new(&entries);
    let blob = anonymous.blob(&access).unwrap();
    assert_eq!(
        (blob.media_type.clone(), blob.read_all("it", 10).unwrap()),
        ("text/plain".to_owned(), b"seven".to_vec())
    );

    let (name, port) = host.split_once(':').unwrap();
    let consumer = json!({"type": "S3Bucket", "hostname": name, "port": port, "path": "bucket/*"});
    let key = json!({"type": "S3Credentials/v1", "accessKeyId": "id", "secretAccessKey": "canary", "sessionToken": "s"});
    let signed = World::credentials(entries, &consumer, &key);
    assert_eq!(signed.read(&access), Ok(b"seven".to_vec()));
    let error = signed.read(&access).unwrap_err();
    assert!(error.contains("correct region in the access"), "{error}");
    let error = anonymous.read(&access).unwrap_err();
    assert!(error.ends_with("denied (credentials: none)"), "{error}");
    let requests = requests.lock().unwrap();
    assert_eq!(requests.len(), 4, "a redirect is not followed");
    for request in requests.iter() {
        assert!(
            request.starts_with("get /bucket/a%20b/c?versionid=v%2f1 ") && !request.contains("canary"),
            "{request}"
        );
    }
    assert!(!requests[0].contains("authorization") && !requests[3].contains("authorization"));
    let scope = "authorization: aws4-hmac-sha256 credential=id/";
    assert!(
        requests[1].contains(scope) && requests[1].contains("/eu-west-1/s3/aws4_request"),
        "{}",
        requests[1]
    );
    assert!(requests[1].contains("x-amz-security-token: s\n"));
}

#[test]
fn charts_of_repositories() {
    let digest = HEXLOWER.encode(&Sha256::digest(b"chart"));
    let index = |url: &str| {
        let text = format!(
            "apiVersion: v1\nentries: {{web: [{{version: 1.0.0, urls: ['{url}'], digest: {digest}}}]}}"
        );
        answer("200 OK", "", text.as_bytes())
    };
    let (other, seen) = serve(|_| vec![answer("200 OK", "", b"chart")]);
    let (host, requests) = serve(|_| {
        vec![
            index("web.tgz"),
            answer("200 OK", "", b"chart"),
            index(&format!("http://{other}/web.tgz")),
            index("web.tgz"),
            answer("200 OK", "", b"other"),
            index("web.tgz"),
            answer("404 Not Found", "", b""),
        ]
    });
    let (name, port) = host.split_once(':').unwrap();
    let consumer = json!({"type": "HelmChartRepository", "hostname": name, "port": port, "path": "charts"});
    let password = json!({"type": "HelmHTTPCredentials/v1", "username": "a", "password": "b"});
    let world = World::credentials(entry("helm", &format!("http://{host}/charts")), &consumer, &password);
    let chart = |version: &str| json!({"type": "Helm/v1", "helmRepository": format!("http://{host}/charts/"), "helmChart": format!("web:{version}")});
    let blob = world.blob(&chart("1.0.0")).unwrap();
    assert_eq!(blob.media_type, CHART_TYPE);
    assert_eq!(blob.read_all("it", 10).unwrap(), b"chart");
    assert_eq!(world.read(&chart("1.0.0")), Ok(b"chart".to_vec()));
    for (version, words) in [
        ("1.0.0", "digest mismatch for http://"),
        ("9.0.0", "no chart version found"),
        ("1.0.0", "does not exist"),
    ] {
        // The second chart is not in the index, so its archive is not asked for.
        let error = world.read(&chart(version)).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
    let requests = requests.lock().unwrap();
    assert!(
        requests[0].starts_with("get /charts/index.yaml ") && requests[1].starts_with("get /charts/web.tgz ")
    );
    assert!(requests.iter().all(|request| request.contains("authorization: basic ")));
    assert!(!seen.lock().unwrap()[0].contains("authorization"), "another host gets no password");
}

const CHART_TYPE: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// A chart in a registry, with the digest of its manifest, by which it is fetched once it has been
/// verified.
#[test]
fn charts_of_registries() {
    let manifest = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "layers": [{"mediaType": CHART_TYPE, "digest": Digest::of(b"chart").to_string(), "size": 5}]})
    .to_string();
    let of_manifest = || {
        answer("200 OK", "Content-Type: application/vnd.oci.image.manifest.v1+json\r\n", manifest.as_bytes())
    };
    let (host, requests) = serve(|_| {
        vec![
            of_manifest(),
            answer("200 OK", "", b"chart"),
            of_manifest(),
            of_manifest(),
            answer("200 OK", "", b"chart"),
        ]
    });
    let world = World::new(&entry("helm", &format!("oci://{host}/charts")));
    let written =
        json!({"type": "helm", "helmRepository": format!("oci://{host}/charts"), "helmChart": "web:1.0.0+a"});
    assert_eq!(world.read(&written), Ok(b"chart".to_vec()));
    let access = Access::parse(&written).unwrap();
    // The host of an entry may be in a private network, also that of a registry.
    let options = NetworkOptions { only_public: true, ..NetworkOptions::default() };
    let map = world.map.clone().with_network(options);
    let repository = map.open_with(&context(), &Arc::default(), &Allowance::default()).unwrap();
    let digest = repository.artifact_digest(NAME, "1.0.0", &access).unwrap().unwrap();
    assert_eq!(format!("sha256:{digest}"), Digest::of(manifest.as_bytes()).to_string());
    let pinned = repository.content(NAME, "1.0.0", &access.at_digest(&digest)).unwrap();
    assert_eq!(pinned.read_all("it", 10).unwrap(), b"chart");
    let requests = requests.lock().unwrap();
    assert!(requests[0].starts_with("get /v2/charts/web/manifests/1.0.0_a "), "{}", requests[0]);
    assert!(
        requests[3].starts_with(&format!("get /v2/charts/web/manifests/sha256:{digest} ")),
        "{}",
        requests[3]
    );
}

/// Files are read by the command alone, from the store of the component.
#[test]
fn files() {
    let world = World::new(&json!([]));
    fs::write(world.folder.path().join("store/blobs/data"), "seven").unwrap();
    fs::write(world.folder.path().join("private"), "secret").unwrap();
    let file = |uri: &str| json!({"type": "File/v1alpha1", "uri": uri});
    assert_eq!(world.read(&file("blobs/data")), Ok(b"seven".to_vec()));
    let error = world.read(&file("../private")).unwrap_err();
    assert!(error.contains("outside of the folder") && !error.contains("secret"), "{error}");

    let service = world.map.clone().with_network(NetworkOptions::default());
    let access = Access::parse(&file("blobs/data")).unwrap();
    for context in [context(), RepositoryContext::outside()] {
        let repository = service.open_with(&context, &Arc::default(), &Allowance::default()).unwrap();
        let error = repository.content(NAME, "1.0.0", &access).unwrap_err().to_string();
        assert!(error.contains("works only where the command reads the component from files"), "{error}");
    }
}

/// Content that a component version has on another server must match the digest of its resource.
#[test]
fn content_of_a_component() {
    let (host, _) = serve(|_| vec![answer("200 OK", "", b"seven"), answer("200 OK", "", b"eight")]);
    let world = World::new(&entry("wget", &format!("http://{host}")));
    let digest = HEXLOWER.encode(&Sha256::digest(b"seven"));
    let resource = json!({"name": "data", "version": "1.0.0", "type": "text", "relation": "external",
        "access": {"type": "wget", "url": format!("http://{host}/x"), "mediaType": "text/plain"},
        "digest": {"hashAlgorithm": "SHA-256", "normalisationAlgorithm": "genericBlobDigest/v1", "value": digest}});
    let document = json!({"meta": {"schemaVersion": "v2"}, "component": {
        "name": NAME, "version": "1.0.0", "provider": "p", "sources": [], "repositoryContexts": [],
        "componentReferences": [], "resources": [resource],
    }});
    let descriptor = Descriptor::parse(document.to_string().as_bytes()).unwrap();
    let version = ComponentVersion::new(descriptor, Some(world.map.open(&context()).unwrap()));
    let resource = version.descriptor.resource("data").unwrap();
    let content = version.content(&resource).unwrap();
    assert_eq!((content.media_type.as_str(), content.bytes), ("text/plain", b"seven".to_vec()));
    let error = version.content(&resource).unwrap_err().to_string();
    assert!(error.contains("digest mismatch for http://"), "{error}");
}

/// The map refuses entries that it does not understand, with their place in the file.
#[test]
fn entries_of_the_map() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("repositories.yaml");
    let load = |text: &str| {
        let mut file = fs::File::create(&path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
        RepositoryMap::load(&path).map_err(|error| error.to_string())
    };
    assert!(load("accesses: [{type: s3, url: 's3://bucket'}]").is_ok());
    for (text, words) in [
        ("accesses: {}", "accesses must be a list"),
        ("accesses:\n- {type: wget, uri: a.org}", "unknown field \"uri\""),
        ("accesses:\n- {type: ftp, url: a.org}", "2:3: type \"ftp\" is not an access type"),
        ("accesses:\n- {type: wget}", "url must be given"),
        ("other: []", "known are repositories, accesses"),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }
    let mut first = load("accesses: [{type: wget, url: 'https://a.org'}]").unwrap();
    first.merge(load("accesses: [{type: wget, url: 'https://b.org'}]").unwrap()).unwrap();
    let place = |host: &str| ContentAddress::new("https", host, "x");
    let find = |host: &str| first.permissions().find(Kind::Wget, &place(host)).is_some();
    assert!(find("a.org") && find("b.org") && !find("c.org"));
}
