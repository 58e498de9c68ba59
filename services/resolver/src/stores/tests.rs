use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Barrier, Mutex};

use groundwork_registry::{CtfWriter, LocalBlob, NetworkOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

const NAME: &str = "example.org/shop";

/// Registry for tests, which records its requests.
struct Registry {
    folder: TempDir,
    address: String,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Registry {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (path, seen) = (folder.path().to_owned(), Arc::clone(&requests));
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let (path, seen) = (path.clone(), Arc::clone(&seen));
                std::thread::spawn(move || answer(&stream, &path, &seen));
            }
        });
        Self { folder, address, requests }
    }

    /// Adds a version with a blob.
    fn put(&self, version: &str, blob: &[u8]) {
        self.put_with(version, blob, "p");
    }

    fn put_with(&self, version: &str, blob: &[u8], provider: &str) {
        let mut writer = CtfWriter::create(self.folder.path(), self.context()).unwrap();
        let descriptor = json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": NAME, "version": version, "provider": provider, "sources": [], "repositoryContexts": [],
            "componentReferences": [],
            "resources": [{"name": "data", "version": version, "type": "text", "relation": "local"}],
        }});
        let blob =
            LocalBlob { resource: "data".into(), media_type: "text/plain".into(), bytes: blob.to_owned() };
        writer.add(&descriptor, &[blob]).unwrap();
        writer.finish().unwrap();
    }

    fn context(&self) -> RepositoryContext {
        RepositoryContext::new(json!({"type": "ociRegistry", "baseUrl": self.address})).unwrap()
    }

    /// Returns the requests since the last call.
    fn requests(&self) -> Vec<String> {
        std::mem::take(&mut *self.requests.lock().unwrap())
    }
}

fn answer(mut stream: &TcpStream, folder: &std::path::Path, seen: &Mutex<Vec<String>>) {
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let Some(request) = lines.next() else { return };
    while lines.next().is_some_and(|line| !line.is_empty()) {}
    let path = request.split(' ').nth(1).unwrap().to_owned();
    let (repository, reference) = path.trim_start_matches("/v2/").rsplit_once('/').unwrap();
    let index =
        fs::read(folder.join("artifact-index.json")).unwrap_or_else(|_| b"{\"artifacts\": []}".to_vec());
    let index: Value = serde_json::from_slice(&index).unwrap();
    let tagged = index["artifacts"].as_array().unwrap().iter().find(|artifact| {
        repository == format!("{}/manifests", artifact["repository"].as_str().unwrap())
            && artifact["tag"] == reference
    });
    let digest = tagged.map_or(reference, |artifact| artifact["digest"].as_str().unwrap());
    let body = fs::read(folder.join("blobs").join(digest.replacen(':', ".", 1))).ok();
    let (status, body) = body.map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    seen.lock().unwrap().push(path);
    let head = format!(
        "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body)));
}

fn stores(cache: Option<PathBuf>) -> Stores {
    let map = MapFile::open(None, NetworkOptions::default()).unwrap();
    Stores::new(map, cache.map(|folder| DiskCache::open(&folder, 64 << 20).unwrap()), Evaluators::Own, None)
}

fn keyring(password: &str) -> Arc<Keyring> {
    let mut keyring = Keyring::default();
    let config = json!({"auths": {"example.org": {"username": "a", "password": password}}});
    keyring.add_docker_config("secret", config.to_string().as_bytes()).unwrap();
    Arc::new(keyring)
}

/// A hundred jobs that start together read the manifest, its config and its descriptor once.
#[test]
fn jobs_that_begin_together_fetch_once() {
    let registry = Registry::start();
    registry.put("1.0.0", b"seven");
    let stores = stores(None);
    let barrier = Barrier::new(100);
    std::thread::scope(|scope| {
        for job in 0..100 {
            let (stores, registry, barrier) = (&stores, &registry, &barrier);
            scope.spawn(move || {
                let view =
                    stores.of_new_job("team", &format!("i{job}"), &format!("job-{job}"), Arc::default());
                let repository = view.open(&registry.context()).unwrap();
                barrier.wait();
                assert!(repository.descriptor(NAME, "1.0.0").unwrap().is_some());
            });
        }
    });
    assert_eq!(registry.requests().len(), 3);
    // Another Installation has other credentials, so it must not get an answer that was read with
    // the first ones.
    let view = stores.of_new_job("team", "other", "job-100", keyring("x"));
    assert!(view.open(&registry.context()).unwrap().descriptor(NAME, "1.0.0").unwrap().is_some());
    assert_eq!(registry.requests().len(), 3);
}

/// Jobs that ask for a missing version at the same time share one request, instead of asking one
/// after the other.
#[test]
fn jobs_that_begin_together_learn_of_absence_once() {
    let registry = Registry::start();
    let stores = stores(None);
    let barrier = Barrier::new(50);
    std::thread::scope(|scope| {
        for job in 0..50 {
            let (stores, registry, barrier) = (&stores, &registry, &barrier);
            scope.spawn(move || {
                let view =
                    stores.of_new_job("team", &format!("i{job}"), &format!("job-{job}"), Arc::default());
                let repository = view.open(&registry.context()).unwrap();
                barrier.wait();
                assert_eq!(repository.descriptor(NAME, "9.0.0"), Ok(None));
            });
        }
    });
    let asked = registry.requests().len();
    assert!(asked < 25, "{asked} requests of 50 jobs");
}

/// A job keeps the content that it has read. A missing version is requested again, and content with
/// a digest only needs a request for its tag.
#[test]
fn absence_is_not_kept() {
    let registry = Registry::start();
    let stores = stores(None);
    let view =
        |job: &str| stores.of_new_job("team", "i", job, Arc::default()).open(&registry.context()).unwrap();
    let first = view("job-1");
    assert_eq!(first.descriptor(NAME, "1.0.0"), Ok(None));
    registry.put("1.0.0", b"seven");
    assert!(first.descriptor(NAME, "1.0.0").unwrap().is_some());
    registry.requests();
    assert!(first.descriptor(NAME, "1.0.0").unwrap().is_some());
    assert_eq!(registry.requests().len(), 0);
    assert!(view("job-2").descriptor(NAME, "1.0.0").unwrap().is_some());
    assert_eq!(registry.requests(), ["/v2/component-descriptors/example.org/shop/manifests/1.0.0"]);
}

/// The second read of large content comes from disk, for jobs with the same credentials.
#[test]
fn large_contents_are_kept_on_disk() {
    let registry = Registry::start();
    let large = vec![7; 3 << 20];
    registry.put("1.0.0", &large);
    let folder = tempfile::tempdir().unwrap();
    let access =
        Access::Local { reference: Digest::of(&large).to_string(), media_type: "text/plain".to_owned() };
    let read = |stores: &Stores, job: &str, keyring: Arc<Keyring>| {
        let view = stores.of_new_job("team", "i", job, keyring).open(&registry.context()).unwrap();
        let blob = view.content(NAME, "1.0.0", &access).unwrap();
        assert!(blob.read_all("blob", 4 << 20).unwrap() == large);
        registry.requests().len()
    };
    let first = stores(Some(folder.path().to_owned()));
    let counts = ["job-1", "job-2"].map(|job| read(&first, job, keyring("x")));
    assert_eq!(counts, [1, 0]);
    assert_eq!(read(&first, "job-3", keyring("y")), 1);
    // A restarted process uses the files too.
    assert_eq!(read(&stores(Some(folder.path().to_owned())), "job-4", keyring("x")), 0);
}

/// Jobs decode a descriptor once: equal bytes from one context are shared between them.
#[test]
fn equal_descriptors_are_decoded_once() {
    let registry = Registry::start();
    registry.put("1.0.0", b"seven");
    let stores = stores(None);
    let load = |job: &str| {
        let view = stores.of_new_job("team", "i", job, Arc::default()).open(&registry.context()).unwrap();
        view.load(NAME, "1.0.0", &registry.context()).unwrap().unwrap().unwrap()
    };
    let (first, second) = (load("job-1"), load("job-2"));
    assert!(std::ptr::eq(first.document(), second.document()));
    assert_eq!(first.repository_context(), Some(registry.context()));
    // Another job reads the content that was stored in the meantime.
    std::fs::remove_dir_all(registry.folder.path().join("blobs")).unwrap();
    std::fs::remove_file(registry.folder.path().join("artifact-index.json")).unwrap();
    registry.put("1.0.0", b"other");
    let third = load("job-3");
    assert!(third != second && load("job-1") == first);
}

/// A job gets the artifact that it has verified, even if the tag has moved since (`components.md`
/// 7.6). The next job reads the tag again.
#[test]
fn artifacts_that_were_verified_are_fetched_by_digest() {
    let registry = Registry::start();
    registry.put("1.0.0", b"seven");
    let stores = stores(None);
    let view =
        |job: &str| stores.of_new_job("team", "i", job, Arc::default()).open(&registry.context()).unwrap();
    let reference = format!("{}/component-descriptors/{NAME}:1.0.0", registry.address);
    let access = Access::Artifact { reference };
    let first = view("job-1");
    let digest = first.artifact_digest(NAME, "1.0.0", &access).unwrap().unwrap();
    std::fs::remove_file(registry.folder.path().join("artifact-index.json")).unwrap();
    registry.put("1.0.0", b"other");
    let index = |repository: &dyn Repository| {
        let set = repository.content(NAME, "1.0.0", &access).unwrap().read_all("set", 1 << 20).unwrap();
        String::from_utf8_lossy(&set).contains(&digest)
    };
    assert!(index(&*first));
    let second = view("job-2");
    assert!(!index(&*second));
    assert_ne!(second.artifact_digest(NAME, "1.0.0", &access).unwrap().unwrap(), digest);
}

/// A job fetches a download from a permitted place, and only once. Another place is refused without
/// a request.
#[test]
fn downloads_of_permitted_places() {
    let registry = Registry::start();
    registry.put("1.0.0", b"seven");
    let map = registry.folder.path().join("repositories.yaml");
    let entry = json!({"type": "wget", "url": format!("http://{}/v2/files", registry.address)});
    fs::write(&map, json!({"accesses": [entry]}).to_string()).unwrap();
    let map = MapFile::open(Some(&map), NetworkOptions::default()).unwrap();
    let stores = Stores::new(map, None, Evaluators::Own, None);
    let view = stores.of_new_job("team", "i", "job-1", Arc::default());
    let access = |folder: &str| {
        let url = format!("http://{}/v2/{folder}/{}", registry.address, Digest::of(b"seven"));
        Access::parse(&json!({"type": "wget", "url": url})).unwrap()
    };
    for context in [registry.context(), RepositoryContext::outside(), RepositoryContext::outside()] {
        let repository = view.open(&context).unwrap();
        let content = repository.content(NAME, "1.0.0", &access("files")).unwrap();
        assert_eq!(content.read_all("it", 10).unwrap(), b"seven");
    }
    let requests = registry.requests();
    assert_eq!(requests.len(), 2, "one for each repository: {requests:?}");
    let refused =
        view.open(&registry.context()).unwrap().content(NAME, "1.0.0", &access("other")).unwrap_err();
    assert!(matches!(refused, RepositoryError::NotPermitted { .. }), "{refused}");
    assert!(registry.requests().is_empty());
}

/// A job has a memory limit for its descriptors, encoded and decoded. Beyond it, the job fails and
/// releases its memory. Other jobs are not affected.
#[test]
fn a_closure_has_its_memory() {
    let registry = Registry::start();
    let put = |version: &str, provider: &str| {
        drop(std::fs::remove_dir_all(registry.folder.path().join("blobs")));
        drop(std::fs::remove_file(registry.folder.path().join("artifact-index.json")));
        registry.put_with(version, b"seven", provider);
    };
    let large = "p".repeat(100_000);
    let mut stores = stores(None);
    stores.memory = AnswerMemory::new(6 << 20, 4 << 20);
    let view = |job: &str| {
        let view = stores.of_new_job("team", "i", job, Arc::default());
        view.open(&registry.context()).unwrap()
    };
    let load = |view: &Arc<dyn Repository>, version: &str| {
        view.load(NAME, version, &registry.context()).map(|loaded| loaded.is_some())
    };
    let first = view("job-1");
    for version in ["0.0.0", "1.0.0", "2.0.0"] {
        put(version, &large);
        assert_eq!(load(&first, version), Ok(true), "{version}");
    }
    put("3.0.0", &large);
    let error = load(&first, "3.0.0").unwrap_err().to_string();
    assert!(error.contains("3.0.0") && error.contains("exceeds the 4194304 bytes of memory"), "{error}");
    assert!(stores.memory.in_use() > 3 << 20);
    let before = stores.memory.in_use();
    drop(first);
    assert_eq!(stores.memory.in_use(), 0);
    assert_eq!(load(&view("job-2"), "3.0.0"), Ok(true));
    // Small jobs have memory of their own.
    put("9.0.0", "p");
    let all = stores.memory.begin("team");
    all.take(before, "it").unwrap();
    assert_eq!(load(&view("job-3"), "9.0.0"), Ok(true));
}
