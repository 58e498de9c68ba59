//! HTTP client that behaves like a browser towards the server.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use flate2::read::GzDecoder;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpSocket, TcpStream};

/// Headers of every answer of the console.
const ALWAYS: [(&str, &str); 6] = [
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
];

/// Browser with the cookies that it received.
#[derive(Debug, Clone, Default)]
pub(crate) struct Browser {
    port: u16,
    cookies: BTreeMap<String, String>,
    headers: Vec<(String, String)>,
    /// Last number of the browser's address on the loopback device.
    host: u8,
}

/// Answer of the console.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
    /// Size of the body in bytes, as sent.
    pub(crate) size: usize,
}

impl Browser {
    pub(crate) fn new(port: u16) -> Self {
        Self { port, host: 1, ..Self::default() }
    }

    /// Returns this browser with another source address, 127.0.0.N.
    pub(crate) fn at_host(mut self, host: u8) -> Self {
        self.host = host;
        self
    }

    /// Returns this browser with one more header in every request.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Returns a browser that has signed in.
    pub(crate) async fn signed_in(port: u16, token: &str) -> Result<Self> {
        let mut browser = Self::new(port);
        let answer = browser.post("/sign-in", &[("token", token), ("to", "/")]).await?;
        ensure!(answer.status == 303 && answer.headers["location"] == "/", "{answer:?}");
        Ok(browser)
    }

    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.get(name).map(String::as_str)
    }

    /// Opens a page, and checks the properties that all pages share.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer> {
        let answer = read(self.send("GET", path, "").await?).await?;
        for (name, value) in ALWAYS {
            let found = answer.headers.get(name).map(String::as_str);
            ensure!(found == Some(value), "{path}: {name}: {found:?}");
        }
        if answer.headers["content-type"].starts_with("text/html") {
            for foreign in ["http://", "https://", "style=\"", "<style"] {
                ensure!(!answer.body.contains(foreign), "{path}: {foreign} in {}", answer.body);
            }
        }
        Ok(answer)
    }

    /// Opens a page that must exist.
    pub(crate) async fn page(&self, path: &str) -> Result<String> {
        let answer = self.get(path).await?;
        ensure!(answer.status == 200, "{path}: {answer:?}");
        Ok(answer.body)
    }

    /// Returns the JSON twin of a page.
    pub(crate) async fn json(&self, path: &str) -> Result<Value> {
        let answer = self.get(path).await?;
        ensure!(answer.status == 200 && answer.headers["content-type"] == "application/json", "{answer:?}");
        Ok(serde_json::from_str::<Value>(&answer.body)?["content"].take())
    }

    /// Sends a form, and keeps the cookies of the answer.
    pub(crate) async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Result<Answer> {
        let escaped = |text: &str| -> String {
            text.bytes()
                .map(|byte| match byte {
                    byte if byte.is_ascii_alphanumeric() => char::from(byte).to_string(),
                    byte => format!("%{byte:02X}"),
                })
                .collect()
        };
        let fields = fields.iter().map(|(name, value)| format!("{name}={}", escaped(value)));
        let body = fields.collect::<Vec<_>>().join("&");
        let answer = read(self.send("POST", path, &body).await?).await?;
        if let Some(cookie) = answer.headers.get("set-cookie") {
            let (name, rest) = cookie.split_once('=').context("a cookie")?;
            let value = rest.split(';').next().unwrap_or_default();
            self.cookies.insert(name.to_owned(), value.to_owned());
        }
        Ok(answer)
    }

    /// Opens the event stream of a page.
    pub(crate) async fn live(&self, topic: &str) -> Result<Live> {
        let stream = self.send("GET", &format!("/live?topic={topic}"), "").await?;
        let mut live = Live(BufReader::new(stream));
        live.until("welcome").await?;
        Ok(live)
    }

    pub(crate) async fn send(&self, method: &str, path: &str, body: &str) -> Result<TcpStream> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(([127, 0, 0, self.host], 0).into())?;
        let mut stream = socket.connect(([127, 0, 0, 1], self.port).into()).await?;
        let mut head =
            format!("{method} {path} HTTP/1.1\r\nhost: 127.0.0.1:{}\r\naccept-encoding: gzip\r\n", self.port);
        let cookies: Vec<String> =
            self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !cookies.is_empty() {
            head.push_str(&format!("cookie: {}\r\n", cookies.join("; ")));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !path.starts_with("/live") {
            head.push_str("connection: close\r\n");
        }
        head.push_str(&format!("content-length: {}\r\n\r\n{body}", body.len()));
        stream.write_all(head.as_bytes()).await?;
        Ok(stream)
    }
}

async fn read(mut stream: TcpStream) -> Result<Answer> {
    let mut bytes = Vec::new();
    tokio::time::timeout(Duration::from_secs(60), stream.read_to_end(&mut bytes)).await??;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").context("an answer has a head")?;
    let head = String::from_utf8(bytes[..end].to_vec())?;
    let mut lines = head.lines();
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).context("a status")?.parse()?;
    let headers: BTreeMap<String, String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let content = &bytes[end + 4..];
    let mut body = String::new();
    match headers.get("content-encoding").map(String::as_str) {
        Some("gzip") => drop(GzDecoder::new(content).read_to_string(&mut body)?),
        _ => body = String::from_utf8(content.to_vec())?,
    }
    Ok(Answer { status, headers, body, size: content.len() })
}

/// Open event stream of a page.
pub(crate) struct Live(BufReader<TcpStream>);

impl Live {
    /// Waits for a line with this text.
    pub(crate) async fn until(&mut self, text: &str) -> Result<()> {
        let reading = async {
            loop {
                let mut line = String::new();
                ensure!(self.0.read_line(&mut line).await? > 0, "the stream ended before {text:?}");
                if line.contains(text) {
                    return Ok(());
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), reading).await.with_context(|| text.to_owned())?
    }
}
