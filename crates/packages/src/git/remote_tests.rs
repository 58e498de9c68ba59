//! Tests with remotes that are not git servers, are slow, or have a private address
//! (`packagevariants.md` 6.17).

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use groundwork_testkit::{GitServer, HostileServer, Trick};

use crate::git::access::{Access, Credentials, Environment, Proxy};
use crate::git::address::Pin;
use crate::git::remote::RemoteOptions;
use crate::git::testing::{World, git};

fn options(only_public: bool, timeout: u64) -> RemoteOptions {
    let protocols = ["http", "ssh"].map(str::to_owned).to_vec();
    let timeout = Duration::from_secs(timeout);
    RemoteOptions { protocols, only_public, timeout, ..RemoteOptions::default() }
}

/// Starts a server that answers each request with these bytes, one by one with a pause between
/// them.
fn server(answer: &'static str, pause: Duration) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for mut connection in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let _ = connection.read(&mut [0; 4096]);
                for byte in answer.bytes() {
                    if connection.write_all(&[byte]).is_err() {
                        return;
                    }
                    std::thread::sleep(pause);
                }
            });
        }
    });
    host
}

/// Returns the error for a repository at this host.
fn told(world: &World, host: &str, options: RemoteOptions) -> String {
    let store = world.other_store_with(host, options);
    let mut settings = world.settings("strange");
    settings.url = format!("http://{host}/a.git");
    let repository = store.register(settings, Credentials::None).unwrap();
    match repository.sync() {
        Ok(_) => "it is taken for a repository".to_owned(),
        Err(error) => error.to_string(),
    }
}

/// A server with another answer is not taken for a repository without refs.
#[test]
fn nonsense_is_no_repository() {
    let world = World::new();
    for answer in [
        "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 14\r\nconnection: close\r\n\r\n<html></html>\n",
    ] {
        let host = server(answer, Duration::ZERO);
        let expected = format!(
            "{host} answers, but not as a git server: spec.git.repo must be the address of a git repository"
        );
        assert_eq!(told(&world, &host, options(false, 30)), expected, "{answer:?}");
    }
}

/// A host that sends slowly gets the time that the operator allows, and the error names it.
#[test]
fn who_drips_has_a_time() {
    let world = World::new();
    let answer = "HTTP/1.1 200 OK\r\ncontent-type: application/x-git-upload-pack-advertisement\r\n\r\n";
    let host = server(answer, Duration::from_secs(1));
    let begun = Instant::now();
    let said = told(&world, &host, options(false, 3));
    assert_eq!(said, format!("{host} did not answer git within 3 seconds"));
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// With `only_public`, no request is sent to a private address.
#[test]
fn private_places_are_not_asked() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let said = told(&world, &host, options(true, 30));
    assert_eq!(said, "127.0.0.1 has an address in a private network, which this service does not contact");
    assert!(listener.accept().is_err(), "nobody has come");
}

/// A redirect would lead to an unchecked address, and a second DNS lookup may return another
/// address.
#[test]
fn git_is_held_to_the_address_that_was_looked_at() {
    let variables = |only_public: bool, pin: &Pin| {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("git");
        let (access, options) = (&Access::default(), &options(only_public, 30));
        Environment { access, options, directory: folder.path(), pin }.set(&mut command).unwrap();
        let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
        let variables = command.get_envs().filter_map(|(_, value)| value.map(text));
        variables.collect::<Vec<_>>()
    };
    let open = variables(false, &Pin::Disk);
    assert!(open.contains(&"initial".to_owned()), "{open:?}");
    let place = "git.example:80:8.8.8.8".to_owned();
    let held = variables(true, &Pin::Http(Some(place.clone())));
    assert!(held.contains(&place) && held.contains(&"http.curloptResolve".to_owned()), "{held:?}");
    assert!(!held.contains(&"initial".to_owned()), "{held:?}");
    let pin = Pin::Ssh { address: "8.8.8.8".parse().unwrap(), alias: "[git.example]:2222".to_owned() };
    let held = variables(true, &pin);
    let option = "-o HostName=8.8.8.8 -o 'HostKeyAlias=[git.example]:2222'";
    assert!(held.iter().any(|value| value.starts_with("ssh ") && value.contains(option)), "{held:?}");
}

/// A look at a hostile server ends in time, with an error that names the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_trick_ends() {
    const TIME: u64 = 4;
    let mut told_of = Vec::new();
    for trick in Trick::all() {
        let server = HostileServer::start(trick.clone()).await.unwrap();
        let telling = tokio::task::spawn_blocking(move || {
            let begun = Instant::now();
            let host = server.url().trim_start_matches("http://").to_owned();
            let said = told(&World::new(), &host, options(false, TIME));
            (server.url(), host, said, begun.elapsed())
        });
        told_of.push((trick, telling));
    }
    let mut all = Vec::new();
    for (trick, telling) in told_of {
        let (url, host, said, took) = telling.await.unwrap();
        println!("| git | {trick:?} | {took:.1?} | {said} |");
        all.push((trick, url, host, said, took));
    }
    for (trick, url, host, said, took) in all {
        // `git` names the address, or describes the answer that it got.
        assert!(said.contains(&host) && said.len() < 1200, "{trick:?} of {url}: {said}");
        // Enough time for three looks on a busy machine.
        assert!(took < Duration::from_secs(10 * TIME), "{trick:?}: {took:?}");
    }
}

/// Registers the server's repository at this address, and returns the error of its first sync.
fn synced(world: &World, url: &str, access: Access, options: RemoteOptions) -> Result<(), String> {
    let mut settings = world.settings("catalog");
    settings.url = url.to_owned();
    let store = world.other_store_with(&format!("{}", settings.url.len()), options);
    let repository = store.register(settings, access).map_err(|error| error.to_string())?;
    repository.sync().map(drop).map_err(|error| error.to_string())
}

/// A remote in a company's network: an authority of its own, and a proxy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn authorities_and_proxies() {
    if !groundwork_testkit::servers_or_skip(&[groundwork_testkit::Server::GitServer]) {
        return;
    }
    let server = GitServer::start().await.unwrap();
    git(&server.root(), &["init", "-q", "--bare", "catalog.git"]);
    let url = server.https("catalog.git");
    let (name, password) = server.user();
    let credentials =
        || Credentials::Basic { username: name.to_owned(), password: password.to_owned().into() };
    let trusting = |proxy: Option<&str>| Access {
        credentials: credentials(),
        certificates: Some(server.authority().unwrap()),
        proxy: proxy.map(|address| Proxy::parse(address, Some((name, password))).unwrap()),
    };
    let open = || RemoteOptions { protocols: vec!["https".to_owned()], ..RemoteOptions::default() };
    let world = World::new();

    let said = synced(&world, &url, credentials().into(), open()).unwrap_err();
    assert!(said.contains("a certificate that is not trusted here: put the certificate"), "{said}");
    assert_eq!(synced(&world, &url, trusting(None), open()), Ok(()));
    assert_eq!(server.proxied().unwrap(), Vec::<String>::new());

    // The authority and the proxy of the service; the Secret has the credentials only.
    let folder = tempfile::tempdir().unwrap();
    let certificates = Some(folder.path().join("authorities.pem"));
    std::fs::write(certificates.as_ref().unwrap(), server.authority().unwrap()).unwrap();
    let proxy = Some(Proxy::parse(&server.proxy(), Some((name, password))).unwrap());
    let led = RemoteOptions { certificates, proxy, ..open() };
    assert_eq!(synced(&world, &url, credentials().into(), led.clone()), Ok(()));
    let host = url.trim_start_matches("https://").split('/').next().unwrap();
    let through = server.proxied().unwrap();
    assert!(
        through.iter().all(|line| *line == format!("CONNECT {host}")) && !through.is_empty(),
        "{through:?}"
    );

    // Neither a host of `no_proxy` nor a Secret with an empty proxy uses the proxy of the service.
    let aside = RemoteOptions { no_proxy: vec!["127.0.0.0/8".to_owned()], ..led.clone() };
    assert_eq!(synced(&world, &url, credentials().into(), aside), Ok(()));
    assert_eq!(synced(&world, &url, trusting(Some("")), led), Ok(()));
    assert_eq!(server.proxied().unwrap(), through);

    // The proxy in the Secret, with the right password and without one.
    assert_eq!(synced(&world, &url, trusting(Some(&server.proxy())), open()), Ok(()));
    assert!(server.proxied().unwrap().len() > through.len());
    let stranger = Access { proxy: Some(Proxy::parse(&server.proxy(), None).unwrap()), ..trusting(None) };
    let said = synced(&world, &url, stranger, open()).unwrap_err();
    assert!(said.starts_with("the proxy requires a user name and password, or refuses them: "), "{said}");
}

/// With `only_public`, a user's proxy must have a public address: the service contacts it instead
/// of the remote.
#[test]
fn private_proxies_are_not_asked() {
    let world = World::new();
    let access = Access { proxy: Some(Proxy::parse("127.0.0.1:1", None).unwrap()), ..Access::default() };
    let said = synced(&world, "http://8.8.8.8/a.git", access, options(true, 30)).unwrap_err();
    assert_eq!(said, "127.0.0.1 has an address in a private network, which this service does not contact");
}
