//! Hostile HTTP server on plain sockets: it answers requests with one trick, except those that it
//! is set to answer honestly.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Behaviour of a hostile server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trick {
    /// Body without end.
    EndlessBody,
    /// Body without end in chunks of one byte.
    EndlessChunks,
    /// Chunk whose extension never ends.
    EndlessExtension,
    /// Compressed body that is small on the wire, but large when unpacked.
    GzipBomb,
    /// Enormous length, and then no body.
    HugeLength,
    /// JSON text that is small, but takes much memory when parsed.
    HeavyJson,
    /// JSON text nested so deeply that it exhausts the stack of a recursive parser.
    DeepJson,
    /// JSON text of another form than any client expects.
    StrangeJson,
    HeadersWithoutEnd,
    /// More header lines than clients accept.
    ManyHeaders,
    /// One byte of the body each second.
    DrippingBody,
    /// One byte of the head each second.
    DrippingHead,
    /// Request that is read, but never answered.
    Silence,
    /// Pages that each link to a next one.
    EndlessPages,
    /// Page that links to itself as the next one.
    SamePage,
    /// Redirect to the requested address.
    RedirectInCircles,
    /// Redirect to another address.
    RedirectTo(String),
    /// Status that asks for a retry at once.
    RetryAtOnce,
    /// Status that asks for a retry after an enormous time.
    RetryNever,
    /// Connection that ends in the middle of a body.
    HalfAnswer,
    /// Body that is longer than the head says.
    LongerThanSaid,
    /// Bytes that are not HTTP.
    NoHttp,
    /// Error whose message never ends.
    EndlessError,
}

impl Trick {
    /// Returns all tricks; the redirect leads to a loopback address.
    pub fn all() -> Vec<Self> {
        vec![
            Self::EndlessBody,
            Self::EndlessChunks,
            Self::EndlessExtension,
            Self::GzipBomb,
            Self::HugeLength,
            Self::HeavyJson,
            Self::DeepJson,
            Self::StrangeJson,
            Self::HeadersWithoutEnd,
            Self::ManyHeaders,
            Self::DrippingBody,
            Self::DrippingHead,
            Self::Silence,
            Self::EndlessPages,
            Self::SamePage,
            Self::RedirectInCircles,
            Self::RedirectTo("http://127.0.0.1:1/".to_owned()),
            Self::RetryAtOnce,
            Self::RetryNever,
            Self::HalfAnswer,
            Self::LongerThanSaid,
            Self::NoHttp,
            Self::EndlessError,
        ]
    }
}

/// Answer without a trick, which leads a client to the request under test.
#[derive(Debug, Clone)]
pub struct Honest {
    /// Part of the request line that gets this answer: method and path, such as `GET
    /// /v2/a/manifests/`.
    pub part: String,
    /// Status and reason, such as `200 OK`.
    pub status: &'static str,
    /// Header lines with their line ends. `{url}` stands for the address of the server, here and in
    /// the body.
    pub headers: String,
    pub body: Vec<u8>,
}

impl Honest {
    /// Creates an answer with a valid JSON body.
    pub fn json(part: &str, media_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = format!("Content-Type: {media_type}\r\n");
        Self { part: part.to_owned(), status: "200 OK", headers, body: body.into() }
    }

    fn answer(&self, url: &str) -> Vec<u8> {
        let body = match std::str::from_utf8(&self.body) {
            Ok(text) => text.replace("{url}", url).into_bytes(),
            Err(_) => self.body.clone(),
        };
        let (status, headers) = (self.status, self.headers.replace("{url}", url));
        let length = body.len();
        let head = format!("HTTP/1.1 {status}\r\n{CLOSE}Content-Length: {length}\r\n{headers}\r\n");
        [head.as_bytes(), &body].concat()
    }
}

/// Running server. Dropping it ends the server.
#[derive(Debug)]
pub struct HostileServer {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Drop for HostileServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl HostileServer {
    /// Starts a server with one trick on a free port of the loopback device.
    ///
    /// # Errors
    ///
    /// No port can be opened.
    pub async fn start(trick: Trick) -> io::Result<Self> {
        Self::start_beside(trick, Vec::new()).await
    }

    /// Starts a server that answers some requests honestly; the first matching answer is used.
    ///
    /// # Errors
    ///
    /// As [`HostileServer::start`].
    pub async fn start_beside(trick: Trick, honest: Vec<Honest>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, requests) = (listener.local_addr()?, Arc::new(AtomicUsize::new(0)));
        let (counted, honest) = (Arc::clone(&requests), Arc::new(honest));
        let task = tokio::spawn(async move {
            // The `JoinSet` ends the connections together with the server.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (trick, counted, honest) = (trick.clone(), Arc::clone(&counted), Arc::clone(&honest));
                connections.spawn(async move { serve(stream, &trick, &honest, &counted).await });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, requests, task })
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the number of requests that the server answered with the trick.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

const STATUS: &str = "HTTP/1.1 200 OK\r\n";
/// Header that keeps a client from a second request on a connection that is about to end.
const CLOSE: &str = "Connection: close\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";
/// Beginning of a valid JSON text.
const BEGIN: &str = "{\"kind\":\"List\",\"metadata\":{\"name\":\"x\"},\"items\":[";
const PIECE: usize = 64 << 10;

/// Compressed bytes that are far smaller than their content.
static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // Writing to a vector cannot fail.
    let _ = encoder.write_all(&vec![b'0'; 4 << 20]);
    encoder.finish().unwrap_or_default()
});

/// Returns an honest head without its end. Registries send manifests with the requested media type.
fn ok(path: &str) -> String {
    let media_type = match path.contains("/manifests/") {
        true => "application/vnd.oci.image.manifest.v1+json",
        false => "application/json",
    };
    format!("{STATUS}Content-Type: {media_type}\r\n{CLOSE}")
}

/// Answers the first request of a connection, and closes it. The task also ends when the client
/// goes away.
async fn serve(
    mut stream: TcpStream,
    trick: &Trick,
    honest: &[Honest],
    requests: &AtomicUsize,
) -> io::Result<()> {
    let Some(request) = head(&mut stream).await? else { return Ok(()) };
    if let Some(honest) = honest.iter().find(|honest| request.contains(&honest.part)) {
        let url = format!("http://{}", stream.local_addr()?);
        stream.write_all(&honest.answer(&url)).await?;
    } else {
        let number = requests.fetch_add(1, Ordering::SeqCst);
        let path = request.split(' ').nth(1).unwrap_or("/");
        answer(&mut stream, trick, path, number).await?;
    }
    // Closing a socket with unread input resets the connection, and the client would lose the
    // answer.
    stream.shutdown().await?;
    let drained = async {
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), drained).await;
    Ok(())
}

/// Reads method and path of a request; `None` if none arrives.
async fn head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > PIECE || stream.read(&mut byte).await? == 0 {
            return Ok(None);
        }
        head.extend_from_slice(&byte);
    }
    let text = String::from_utf8_lossy(&head);
    Ok(Some(text.lines().next().unwrap_or_default().to_owned()))
}

async fn answer(stream: &mut TcpStream, trick: &Trick, path: &str, number: usize) -> io::Result<()> {
    let ok = ok(path);
    match trick {
        Trick::EndlessBody => {
            write(stream, &format!("{ok}\r\n{BEGIN}")).await?;
            repeat(stream, "{},").await
        }
        Trick::EndlessChunks => {
            write(stream, &format!("{ok}{CHUNKED}1\r\n[\r\n")).await?;
            repeat(stream, "1\r\n0\r\n1\r\n,\r\n").await
        }
        Trick::EndlessExtension => {
            write(stream, &format!("{ok}{CHUNKED}1;")).await?;
            repeat(stream, "extension").await
        }
        Trick::GzipBomb => {
            let length = BOMB.len();
            write(stream, &format!("{ok}Content-Encoding: gzip\r\nContent-Length: {length}\r\n\r\n")).await?;
            stream.write_all(&BOMB).await
        }
        Trick::HugeLength => {
            write(stream, &format!("{ok}Content-Length: 9000000000000000000\r\n\r\n{BEGIN}")).await?;
            silence().await
        }
        Trick::HeavyJson => {
            whole(stream, &ok, &format!("{BEGIN}{}0]}}", "{\"\":{\"\":{\"\":0}}},".repeat(60_000))).await
        }
        Trick::DeepJson => whole(stream, &ok, &"[".repeat(1 << 20)).await,
        Trick::StrangeJson => {
            let texts =
                ["[]", "null", "0", "{\"items\":[0,[],null,\"\"],\"metadata\":[],\"status\":0,\"data\":0}"];
            whole(stream, &ok, texts.get(number % texts.len()).unwrap_or(&"[]")).await
        }
        Trick::HeadersWithoutEnd => {
            write(stream, &format!("{ok}X: ")).await?;
            repeat(stream, "header").await
        }
        Trick::ManyHeaders => {
            write(stream, &ok).await?;
            repeat(stream, "Warning: 299 - \"unknown field\"\r\n").await
        }
        Trick::DrippingBody => {
            write(stream, &format!("{ok}Content-Length: 1000\r\n\r\n")).await?;
            drip(stream, &ok).await
        }
        Trick::DrippingHead => drip(stream, &ok).await,
        Trick::Silence => silence().await,
        Trick::EndlessPages => page(stream, &ok, &format!("page-{number}")).await,
        Trick::SamePage => page(stream, &ok, "page").await,
        Trick::RedirectInCircles => redirect(stream, path).await,
        Trick::RedirectTo(place) => redirect(stream, place).await,
        Trick::RetryAtOnce => busy(stream, "0").await,
        Trick::RetryNever => busy(stream, "99999999999").await,
        Trick::HalfAnswer => write(stream, &format!("{ok}Content-Length: 1000\r\n\r\n{BEGIN}")).await,
        Trick::LongerThanSaid => write(stream, &format!("{ok}Content-Length: 9\r\n\r\n{BEGIN}")).await,
        Trick::NoHttp => write(stream, "SSH-2.0-OpenSSH_9.9\r\n").await,
        Trick::EndlessError => {
            let begin = "{\"kind\":\"Status\",\"message\":\"";
            write(stream, &format!("HTTP/1.1 500 No\r\n{CLOSE}\r\n{begin}")).await?;
            repeat(stream, "words ").await
        }
    }
}

async fn write(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes()).await
}

async fn whole(stream: &mut TcpStream, ok: &str, text: &str) -> io::Result<()> {
    write(stream, &format!("{ok}Content-Length: {}\r\n\r\n{text}", text.len())).await
}

async fn page(stream: &mut TcpStream, ok: &str, next: &str) -> io::Result<()> {
    let item = "{\"metadata\":{\"name\":\"x\",\"namespace\":\"x\"}},".repeat(100);
    whole(stream, ok, &format!("{BEGIN}{item}{{}}],\"metadata\":{{\"continue\":\"{next}\"}}}}")).await
}

async fn redirect(stream: &mut TcpStream, place: &str) -> io::Result<()> {
    write(stream, &format!("HTTP/1.1 302 Found\r\n{CLOSE}Location: {place}\r\nContent-Length: 0\r\n\r\n"))
        .await
}

async fn busy(stream: &mut TcpStream, seconds: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 429 Busy\r\n{CLOSE}Retry-After: {seconds}\r\nContent-Length: 0\r\n\r\n");
    write(stream, &head).await
}

/// Sends a text until the client has gone.
async fn repeat(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    let piece = text.repeat(PIECE / text.len());
    loop {
        write(stream, &piece).await?;
    }
}

async fn drip(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    for byte in text.as_bytes().iter().cycle() {
        stream.write_all(&[*byte]).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    Ok(())
}

async fn silence() -> io::Result<()> {
    std::future::pending().await
}
