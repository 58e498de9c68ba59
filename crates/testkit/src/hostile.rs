//! An HTTP server as an enemy would run it, on plain sockets: it answers requests with the same trick, but for those that it answers honestly.

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

/// The way in which a hostile server treats a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trick {
    /// A body that goes on for ever.
    EndlessBody,
    /// The same in chunks of one byte.
    EndlessChunks,
    /// A chunk whose extension goes on for ever.
    EndlessExtension,
    /// A body that is small on the wire.
    GzipBomb,
    /// A length beyond all bounds, and then nothing.
    HugeLength,
    /// A JSON text that is small, and large when it is read.
    HeavyJson,
    /// A JSON text that is deeper than a stack.
    DeepJson,
    /// A JSON text of another form than every client expects.
    StrangeJson,
    HeadersWithoutEnd,
    /// More header lines than anybody reads.
    ManyHeaders,
    /// One byte of the body each second.
    DrippingBody,
    /// One byte of the head each second.
    DrippingHead,
    /// A request is taken, and never answered.
    Silence,
    /// Each page leads on to another one.
    EndlessPages,
    /// Each page leads on to itself.
    SamePage,
    /// An answer leads to the place that was asked for.
    RedirectInCircles,
    /// An answer leads elsewhere.
    RedirectTo(String),
    /// Everything may be asked again at once.
    RetryAtOnce,
    /// The server is to be left alone for a time beyond all bounds.
    RetryNever,
    /// The connection ends in the middle of a body.
    HalfAnswer,
    /// The body is longer than the head has said.
    LongerThanSaid,
    /// Bytes that are no HTTP.
    NoHttp,
    /// An error whose words go on for ever.
    EndlessError,
}

impl Trick {
    /// All of them; what leads elsewhere leads to a loopback address.
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

/// An answer without a trick, by which a client gets as far as the request that is meant.
#[derive(Debug, Clone)]
pub struct Honest {
    /// A part of the paths that are answered so, the method before them: `GET /v2/a/manifests/`.
    pub part: String,
    /// Status and reason, as `200 OK`.
    pub status: &'static str,
    /// Lines with their ends. `{url}` stands for the address of the server, here and in the body.
    pub headers: String,
    pub body: Vec<u8>,
}

impl Honest {
    /// Good JSON.
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

/// A running server. Dropping it ends it.
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
    /// Starts a server of one trick on a free port of the loopback device.
    ///
    /// # Errors
    ///
    /// There is no port to listen on.
    pub async fn start(trick: Trick) -> io::Result<Self> {
        Self::start_beside(trick, Vec::new()).await
    }

    /// The same, of a server that answers some requests honestly; the first answer that fits counts.
    ///
    /// # Errors
    ///
    /// As [`HostileServer::start`].
    pub async fn start_beside(trick: Trick, honest: Vec<Honest>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let (address, requests) = (listener.local_addr()?, Arc::new(AtomicUsize::new(0)));
        let (counted, honest) = (Arc::clone(&requests), Arc::new(honest));
        let task = tokio::spawn(async move {
            // They end with the server.
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let (trick, counted, honest) = (trick.clone(), Arc::clone(&counted), Arc::clone(&honest));
                connections.spawn(async move { serve(stream, &trick, &honest, &counted).await });
                while connections.try_join_next().is_some() {}
            }
        });
        Ok(Self { address, requests, task })
    }

    /// `http://127.0.0.1:PORT`
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// How often it was asked for something that it did not answer honestly.
    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

const STATUS: &str = "HTTP/1.1 200 OK\r\n";
/// Without it a client may ask again on a connection that is about to end.
const CLOSE: &str = "Connection: close\r\n";
const CHUNKED: &str = "Transfer-Encoding: chunked\r\n\r\n";
/// Text that is valid JSON as far as it has come.
const BEGIN: &str = "{\"kind\":\"List\",\"metadata\":{\"name\":\"x\"},\"items\":[";
const PIECE: usize = 64 << 10;

/// Far smaller than the text that is in it.
static BOMB: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    // A vector takes whatever is written to it.
    let _ = encoder.write_all(&vec![b'0'; 4 << 20]);
    encoder.finish().unwrap_or_default()
});

/// A good head, but for its end. Registries are asked for manifests by their type.
fn ok(path: &str) -> String {
    let media_type = match path.contains("/manifests/") {
        true => "application/vnd.oci.image.manifest.v1+json",
        false => "application/json",
    };
    format!("{STATUS}Content-Type: {media_type}\r\n{CLOSE}")
}

/// Answers the first request of a connection, which ends then: a client that goes away ends it, too.
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
    // Closing with something unread takes the answer along.
    stream.shutdown().await?;
    let drained = async {
        let mut rest = [0; 4096];
        while stream.read(&mut rest).await.is_ok_and(|count| count > 0) {}
    };
    let _ = tokio::time::timeout(Duration::from_secs(1), drained).await;
    Ok(())
}

/// Method and path of a request; `None` if none comes.
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

/// Until the client has gone.
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
