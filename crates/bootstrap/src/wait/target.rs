//! Servers whose readiness can be checked.

use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::str::FromStr;
use std::time::Duration;

/// Bytes of the first line of an answer.
const LINE: u64 = 1024;

/// Server to check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// Server that is up when it accepts connections.
    Tcp {
        /// `host:port`.
        address: String,
    },
    /// Server that is up when it answers a GET with a status of 200 to 299.
    Http {
        /// `host:port`.
        address: String,
        /// Path and query.
        path: String,
    },
}

/// Reason that a text is not a target.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error("{0:?} is neither tcp://HOST:PORT nor http://HOST:PORT/PATH")]
    Scheme(String),
    #[error("{0:?} has no port; write HOST:PORT")]
    Port(String),
}

impl FromStr for Target {
    type Err = TargetError;

    fn from_str(text: &str) -> Result<Self, TargetError> {
        let (scheme, rest) = text.split_once("://").ok_or_else(|| TargetError::Scheme(text.to_owned()))?;
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        let is_line = !text.contains(|c: char| c.is_control() || c == ' ');
        let has_port = |address: &str| {
            let (host, port) = address.rsplit_once(':')?;
            (!host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)).then_some(())
        };
        match scheme {
            "tcp" if is_line && path.is_empty() => {
                has_port(authority).ok_or_else(|| TargetError::Port(text.to_owned()))?;
                Ok(Self::Tcp { address: authority.to_owned() })
            }
            "http" if is_line => {
                let address = if authority.ends_with(']') || !authority.contains(':') {
                    format!("{authority}:80")
                } else {
                    authority.to_owned()
                };
                has_port(&address).ok_or_else(|| TargetError::Port(text.to_owned()))?;
                let path = if path.is_empty() { "/" } else { path };
                Ok(Self::Http { address, path: path.to_owned() })
            }
            _ => Err(TargetError::Scheme(text.to_owned())),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { address } => write!(f, "tcp://{address}"),
            Self::Http { address, path } => write!(f, "http://{address}{path}"),
        }
    }
}

impl Target {
    /// Checks once, in at most `limit` (without name resolution).
    ///
    /// # Errors
    /// Reason that the target is not up, in words.
    pub fn ask(&self, limit: Duration) -> Result<(), String> {
        match self {
            Self::Tcp { address } => connect(address, limit).map(drop),
            Self::Http { address, path } => status(connect(address, limit)?, address, path),
        }
    }
}

fn connect(address: &str, limit: Duration) -> Result<TcpStream, String> {
    let found = address.to_socket_addrs().map_err(|_| "unknown host name".to_owned())?;
    let mut reason = "the host name has no address".to_owned();
    for address in found {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => reason = words(&error),
        }
    }
    Err(reason)
}

/// Sends a GET, and returns an error unless its status is success.
fn status(mut stream: TcpStream, address: &str, path: &str) -> Result<(), String> {
    let answer = (|| {
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        stream.set_write_timeout(Some(Duration::from_secs(2)))?;
        // Write the request in one piece: a server that answers before reading all of it may close
        // the connection.
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes())?;
        let mut answer = BufReader::new(stream);
        let mut line = String::new();
        (&mut answer).take(LINE).read_line(&mut line)?;
        let mut rest = String::new();
        // Many servers say in the body what they wait for. A body that cannot be read does not
        // matter.
        let _ = answer.take(LINE).read_to_string(&mut rest);
        Ok((line, rest))
    })();
    let (line, rest) = answer.map_err(|error: std::io::Error| words(&error))?;
    let code = line.strip_prefix("HTTP/1.").and_then(|rest| rest.split_whitespace().nth(1));
    match code.and_then(|code| code.parse::<u16>().ok()) {
        Some(200..=299) => Ok(()),
        Some(code) => {
            let body = rest.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim());
            Err(if body.is_empty() {
                format!("HTTP {code}")
            } else {
                format!("HTTP {code}: {}", body.replace('\n', ", "))
            })
        }
        None => Err("the answer is not HTTP".to_owned()),
    }
}

fn words(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        ErrorKind::TimedOut | ErrorKind::WouldBlock => "no answer".to_owned(),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn targets_as_they_are_written() {
        let target = |text: &str| text.parse::<Target>().map(|target| target.to_string());
        for text in ["tcp://nats:4222", "http://nats:8222/healthz?x=1", "http://[::1]:80/"] {
            assert_eq!(target(text).unwrap(), text);
        }
        assert_eq!(target("http://registry").unwrap(), "http://registry:80/");
        for text in ["nats:4222", "https://nats", "tcp://nats:4222/x", "http://a b:1/", "http://a:1/\r\nX: y"]
        {
            assert_eq!(target(text), Err(TargetError::Scheme(text.to_owned())), "{text}");
        }
        for text in ["tcp://nats", "tcp://nats:0", "tcp://:4222", "http://nats:port/"] {
            assert_eq!(target(text), Err(TargetError::Port(text.to_owned())), "{text}");
        }
    }

    /// Answers one request.
    fn server(answer: &'static str) -> (String, std::thread::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let thread = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = [0; 512];
            let _ = stream.read(&mut request).unwrap();
            stream.write_all(answer.as_bytes()).unwrap();
        });
        (address, thread)
    }

    #[test]
    fn the_status_decides() {
        let ask = |answer| {
            let (address, thread) = server(answer);
            let asked =
                format!("http://{address}/readyz").parse::<Target>().unwrap().ask(Duration::from_secs(5));
            thread.join().unwrap();
            asked
        };
        assert_eq!(ask("HTTP/1.1 200 OK\r\n\r\nok"), Ok(()));
        assert_eq!(
            ask("HTTP/1.1 503 Service Unavailable\r\nx: y\r\n\r\nwaits for: stream\n"),
            Err("HTTP 503: waits for: stream".to_owned())
        );
        assert_eq!(ask("SSH-2.0-x\r\n"), Err("the answer is not HTTP".to_owned()));
    }

    #[test]
    fn a_port_without_a_listener() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::Tcp { address: listener.local_addr().unwrap().to_string() };
        assert_eq!(target.ask(Duration::from_secs(5)), Ok(()));
        drop(listener);
        assert_eq!(target.ask(Duration::from_secs(5)), Err("connection refused".to_owned()));
        let unknown = Target::Tcp { address: "nobody.invalid:1".to_owned() };
        assert_eq!(unknown.ask(Duration::from_secs(5)), Err("unknown host name".to_owned()));
    }
}
