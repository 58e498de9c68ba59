//! Waits for conditions by polling, and never sleeps for a guessed time.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Interval between two polls.
const POLL: Duration = Duration::from_millis(50);

/// Calls `look` until it returns a result.
///
/// # Errors
/// Fails if `look` returns no result within `limit`. The error names the awaited condition and the
/// last observation.
pub async fn wait_for<T>(
    what: &str,
    limit: Duration,
    mut look: impl AsyncFnMut() -> std::result::Result<T, String>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        match look().await {
            Ok(found) => return Ok(found),
            Err(seen) if start.elapsed() > limit => {
                bail!("{what}: not within {} s; last seen: {seen}", limit.as_secs())
            }
            Err(_) => tokio::time::sleep(POLL).await,
        }
    }
}

/// Returns status code and body of a GET over plain HTTP on the loopback device.
///
/// # Errors
/// Fails if there is no answer.
pub async fn get(port: u16, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or_default();
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default();
    Ok((code, body))
}
