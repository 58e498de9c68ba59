//! Tests with remotes that are not git servers, are slow, or have a private address
//! (`packagevariants.md` 6.17).

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;
use std::time::{Duration, Instant};

use groundwork_testkit::{HostileServer, Trick};

use crate::git::address::Pin;
use crate::git::meters::Meters;
use crate::git::remote::{Credentials, Remote, RemoteOptions};
use crate::git::testing::World;

fn options(only_public: bool, timeout: u64) -> RemoteOptions {
    let protocols = ["http", "ssh"].map(str::to_owned).to_vec();
    RemoteOptions { protocols, only_public, timeout: Duration::from_secs(timeout) }
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
    let variables = |only_public: bool, url: &str, pin: &Pin| {
        let folder = tempfile::tempdir().unwrap();
        let remote =
            Remote::new(url, folder.path(), Credentials::None, &options(only_public, 30), Meters::default());
        let mut command = Command::new("git");
        remote.unwrap().environment(&mut command, pin).unwrap();
        let text = |value: &std::ffi::OsStr| value.to_string_lossy().into_owned();
        let variables = command.get_envs().filter_map(|(_, value)| value.map(text));
        variables.collect::<Vec<_>>()
    };
    let url = "http://git.example/a.git";
    let open = variables(false, url, &Pin::Disk);
    assert!(open.contains(&"initial".to_owned()), "{open:?}");
    let place = "git.example:80:8.8.8.8".to_owned();
    let held = variables(true, url, &Pin::Http(Some(place.clone())));
    assert!(held.contains(&place) && held.contains(&"http.curloptResolve".to_owned()), "{held:?}");
    assert!(!held.contains(&"initial".to_owned()), "{held:?}");
    let pin = Pin::Ssh { address: "8.8.8.8".parse().unwrap(), alias: "[git.example]:2222".to_owned() };
    let held = variables(true, "ssh://git.example:2222/a", &pin);
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
