//! HTTP servers of tests, on plain sockets.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

pub(crate) type Requests = Arc<Mutex<Vec<String>>>;

/// Starts a server that gives these answers, one per connection, and records the requests.
pub(crate) fn serve(answers: impl FnOnce(&str) -> Vec<Vec<u8>>) -> (String, Requests) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let (answers, requests) = (answers(&host), Requests::default());
    let kept = Arc::clone(&requests);
    std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            let mut request = String::new();
            while let Some(Ok(line)) = lines.next()
                && !line.is_empty()
            {
                request.push_str(&line.to_lowercase());
                request.push('\n');
            }
            kept.lock().unwrap().push(request);
            // The client may close the connection before it has read everything.
            let _ = stream.write_all(&answer);
        }
    });
    (host, requests)
}

pub(crate) fn answer(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}
