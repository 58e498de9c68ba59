//! HTTP client of one registry: authentication, redirects, and retries where they help.
//!
//! ```text
//! get, has, put… ──> exchange: answers challenges ──> follow: redirects of reads
//! follow ──> attempt: waits and retries ──> ureq
//! ```

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use groundwork_component::{Blob, RepositoryError};
use ureq::http::{Method, Request, Response, Uri};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, ResponseExt as _, SendBody};

use super::allowance::{Allowance, Allowed};
use super::challenge::{Challenge, Token, encode};
use super::kept::Kept;
use super::keyring::{Credentials, Keyring};
use super::network::{PublicAddresses, Reach};
use crate::map::Registry;
use crate::tree::{malformed, shortened};

const CONNECT: Duration = Duration::from_secs(10);
/// Time for the beginning of an answer, and for each further read.
const READ: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 30 });
/// Time for a whole answer, so that an answer that arrives byte by byte ends, too.
const RECEIVE: Duration = Duration::from_secs(3600);
/// Time for a body, in addition to the time that the allowance has left when the body begins. The
/// allowance grows while enough bytes arrive.
const BODY: Duration = Duration::from_secs(300);
/// Time limit for sending a whole body.
const SEND: Duration = Duration::from_secs(3600);
/// Pauses before the retries; their number is the number of retries.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(800), Duration::from_secs(2)];
/// Longest pause that a registry may ask for with `Retry-After`.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
const MOST_REDIRECTS: usize = 5;
/// Size limit of the answer of a token service, in bytes.
const LARGEST_TOKEN: u64 = 1 << 20;
/// Bytes of a token. Servers limit headers to less.
const LONGEST_TOKEN: usize = 64 << 10;
/// Limit in characters for the text of a cause, which may quote text of a server.
const LONGEST_CAUSE: usize = 500;

/// Client of one registry with an allowance. Clones share connections and tokens.
#[derive(Clone)]
pub(crate) struct Client {
    connection: Arc<Connection>,
    allowance: Allowance,
}

/// Registry with its credentials and cached tokens.
struct Connection {
    agent: Agent,
    scheme: &'static str,
    host: String,
    path: String,
    source: Source,
    /// Actions for which tokens are requested.
    actions: &'static str,
    kept: Kept,
}

/// Source of credentials.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    None,
    /// File that is read at every challenge, so that a changed password takes effect.
    File(PathBuf),
    Keyring(Arc<Keyring>),
}

/// Authorization for one repository, since tokens are valid for one.
#[derive(Clone)]
pub(super) struct Header {
    /// Value of the header `Authorization`.
    pub(super) value: String,
    /// Source of the credentials, for messages.
    pub(super) owner: String,
}

impl Header {
    pub(super) fn size(&self) -> usize {
        self.value.len() + self.owner.len()
    }
}

/// Request to a server.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(super) method: &'a Method,
    pub(super) url: &'a str,
    pub(super) headers: &'a [(&'a str, &'a str)],
    /// Opens the body; each attempt needs one of its own.
    pub(super) body: Option<&'a dyn Fn() -> Result<Blob, RepositoryError>>,
}

impl<'a> Call<'a> {
    pub(crate) fn get(url: &'a str, headers: &'a [(&'a str, &'a str)]) -> Self {
        Self { method: &Method::GET, url, headers, body: None }
    }
}

/// Not derived, because a client has tokens.
impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("host", &self.connection.host).finish_non_exhaustive()
    }
}

impl Client {
    /// Creates a client with the time limit of a command. [`Client::within`] sets another one.
    pub(crate) fn new(registry: &Registry) -> Result<Self, RepositoryError> {
        let source = registry.docker_config.clone().map_or(Source::None, Source::File);
        let client = Self::with_source(registry, source, Reach::All, Kept::default())?;
        Ok(client.within(&Allowance::unsaid()))
    }

    /// Creates a client without credentials, for requests that bring their own.
    pub(crate) fn plain(registry: &Registry, reach: Reach) -> Result<Self, RepositoryError> {
        Self::with_source(registry, Source::None, reach, Kept::default())
    }

    /// Creates a client with credentials of another source.
    pub(super) fn with_source(
        registry: &Registry,
        source: Source,
        reach: Reach,
        kept: Kept,
    ) -> Result<Self, RepositoryError> {
        let roots = match &registry.ca {
            Some(path) => read_roots(path)?,
            None => system_roots(),
        };
        Ok(Self::asking_for("pull", registry, source, roots, reach, kept))
    }

    /// Creates a client that trusts these certificates.
    pub(super) fn with_roots(registry: &Registry, source: Source, roots: RootCerts, reach: Reach) -> Self {
        Self::asking_for("pull", registry, source, roots, reach, Kept::default())
    }

    fn asking_for(
        actions: &'static str,
        registry: &Registry,
        source: Source,
        roots: RootCerts,
        reach: Reach,
        kept: Kept,
    ) -> Self {
        let (scheme, host, path) = registry.parts();
        let tls = TlsConfig::builder()
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .root_certs(roots)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            // `follow` handles redirects, because credentials must not go to another host.
            .max_redirects(0)
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_recv_response(Some(READ))
            .timeout_per_read(Some(READ))
            .timeout_recv_body(Some(RECEIVE))
            .timeout_send_body(Some(SEND))
            .user_agent(concat!("groundwork/", env!("CARGO_PKG_VERSION")))
            .build();
        let agent = match reach {
            Reach::All => config.new_agent(),
            Reach::Public { and } => {
                Agent::with_parts(config, DefaultConnector::default(), PublicAddresses::new(and))
            }
        };
        let connection =
            Connection { agent, scheme, host: host.to_owned(), path: path.to_owned(), source, actions, kept };
        Self { connection: Arc::new(connection), allowance: Allowance::default() }
    }

    /// Returns the same client with this allowance.
    pub(crate) fn within(&self, allowance: &Allowance) -> Self {
        Self { connection: Arc::clone(&self.connection), allowance: allowance.clone() }
    }

    pub(super) fn kept(&self) -> &Kept {
        &self.connection.kept
    }

    /// Creates a client that may write, if the registry allows it.
    pub(super) fn for_writing(registry: &Registry) -> Result<Self, RepositoryError> {
        let source = registry.docker_config.clone().map_or(Source::None, Source::File);
        let roots = registry.ca.as_deref().map_or_else(|| Ok(system_roots()), read_roots)?;
        Ok(Self::asking_for("pull,push", registry, source, roots, Reach::All, Kept::default()))
    }

    /// Returns host and port.
    pub(crate) fn host(&self) -> &str {
        &self.connection.host
    }

    /// Returns the name of a repository below the path of the registry.
    pub(crate) fn below(&self, path: &str) -> String {
        if self.connection.path.is_empty() {
            path.to_owned()
        } else {
            format!("{}/{path}", self.connection.path)
        }
    }

    /// Requests an object of a repository; `None` if it does not exist. `address` is its name in
    /// messages.
    pub(crate) fn get(
        &self,
        repository: &str,
        path: &str,
        accept: &str,
        address: &str,
    ) -> Result<Option<Response<Body>>, RepositoryError> {
        let url = self.url(repository, path);
        let headers = [("accept", accept)];
        let response = self.exchange(repository, Call::get(&url, &headers), address)?;
        match response.status().as_u16() {
            200 => Ok(Some(response)),
            404 => Ok(None),
            status => Err(self.unreachable(address, &format!("it answers with status {status}"))),
        }
    }

    /// Returns the address of an object in a repository.
    pub(super) fn url(&self, repository: &str, path: &str) -> String {
        format!("{}://{}/v2/{repository}/{path}", self.connection.scheme, self.connection.host)
    }

    /// Sends a request, and answers a challenge of the registry.
    pub(super) fn exchange(
        &self,
        repository: &str,
        call: Call<'_>,
        address: &str,
    ) -> Result<Response<Body>, RepositoryError> {
        let known = self.kept().header(repository);
        let value = known.as_ref().map(|header| header.value.as_str());
        let mut response = self.follow(call, value, address)?;
        let mut owner = known.as_ref().map_or_else(|| "none".to_owned(), |header| header.owner.clone());
        // Answer only challenges of the registry itself: a host that it redirects to must not get
        // the password.
        if response.status().as_u16() == 401
            && origin(&response.get_uri().to_string()) == origin(call.url)
            && let Some(header) = self.answer(&response, repository, address)?
        {
            header.owner.clone_into(&mut owner);
            response = self.follow(call, Some(&header.value), address)?;
            if response.status().is_success() {
                self.kept().keep_header(repository, header);
            }
        }
        if [401, 403].contains(&response.status().as_u16()) {
            return Err(RepositoryError::Denied { address: address.to_owned(), credentials: owner });
        }
        Ok(response)
    }

    /// Returns the header that answers a challenge; `None` if there are no credentials for it.
    fn answer(
        &self,
        response: &Response<Body>,
        repository: &str,
        address: &str,
    ) -> Result<Option<Header>, RepositoryError> {
        let headers = response.headers().get_all("www-authenticate").iter();
        let challenge = headers.filter_map(|value| value.to_str().ok()).find_map(Challenge::parse);
        let keyring = match &self.connection.source {
            Source::None => Arc::default(),
            Source::File(path) => Arc::new(Keyring::of_file(path)?),
            Source::Keyring(keyring) => Arc::clone(keyring),
        };
        let found = keyring.find(&self.connection.host, repository);
        let owner = found.as_ref().map(|found| found.source.to_owned());
        let credentials = found.map(|found| found.credentials);
        match challenge {
            Some(Challenge::Basic) => {
                let value = credentials.and_then(Credentials::basic);
                Ok(value.zip(owner).map(|(value, owner)| Header { value, owner }))
            }
            Some(Challenge::Bearer { realm, service }) => {
                let service = service.as_deref();
                let value = match credentials {
                    Some(Credentials::RefreshToken(token)) => {
                        self.refresh(&realm, service, repository, (token, owner.as_deref()), address)?
                    }
                    other => {
                        let url =
                            Challenge::token_address(&realm, service, repository, self.connection.actions);
                        let basic = other.and_then(Credentials::basic);
                        let call = Call::get(&url, &[("accept", "application/json")]);
                        self.token(call, basic.as_deref(), owner.as_deref(), address)?
                    }
                };
                Ok(Some(Header { value, owner: owner.unwrap_or_else(|| "anonymous token".to_owned()) }))
            }
            None => Ok(None),
        }
    }

    /// Exchanges a refresh token for an access token (OAuth2, grant `refresh_token`).
    fn refresh(
        &self,
        realm: &str,
        service: Option<&str>,
        repository: &str,
        (token, owner): (&str, Option<&str>),
        address: &str,
    ) -> Result<String, RepositoryError> {
        let scope = Challenge::scope(repository, self.connection.actions);
        let mut form = format!(
            "grant_type=refresh_token&client_id=groundwork&refresh_token={}&scope={}",
            encode(token),
            encode(&scope)
        );
        if let Some(service) = service {
            form.push_str(&format!("&service={}", encode(service)));
        }
        let open = || Ok(Blob::from_bytes("", form.clone().into_bytes()));
        let headers = [("accept", "application/json"), ("content-type", "application/x-www-form-urlencoded")];
        let call = Call { method: &Method::POST, url: realm, headers: &headers, body: Some(&open) };
        self.token(call, None, owner, address)
    }

    fn token(
        &self,
        call: Call<'_>,
        authorization: Option<&str>,
        owner: Option<&str>,
        address: &str,
    ) -> Result<String, RepositoryError> {
        let problem = |problem: &str| self.unreachable(address, problem);
        let is_safe = call.url.starts_with("https://")
            || (self.connection.scheme == "http" && call.url.starts_with("http://"));
        if !is_safe {
            return Err(problem("it refers to a token service without TLS"));
        }
        // A push has no time limit, but the token request needs one.
        let own = match self.allowance.left() {
            Some(_) => self.clone(),
            None => self.within(&Allowance::unsaid()),
        };
        let response = own.follow(call, authorization, address)?;
        match response.status().as_u16() {
            200 => {}
            // Some services answer a token request with 400 if the refresh token has expired.
            400 | 401 | 403 if call.body.is_some() || response.status().as_u16() != 400 => {
                let credentials = owner.unwrap_or("none").to_owned();
                return Err(RepositoryError::Denied { address: address.to_owned(), credentials });
            }
            status => return Err(problem(&format!("its token service answers with status {status}"))),
        }
        let bytes = own.read(response, &format!("the token for {address}"), LARGEST_TOKEN)?;
        let token = serde_json::from_slice(&bytes).ok().and_then(Token::into_text);
        let token = token.ok_or_else(|| problem("its token service answers without a token"))?;
        if token.len() > LONGEST_TOKEN {
            return Err(problem(&format!(
                "its token service answers with more than {LONGEST_TOKEN} bytes, the limit for a token"
            )));
        }
        Ok(format!("Bearer {token}"))
    }

    /// Follows redirects. Credentials are sent only to their own host, and so are header fields
    /// other than `accept`.
    pub(crate) fn follow(
        &self,
        call: Call<'_>,
        authorization: Option<&str>,
        address: &str,
    ) -> Result<Response<Body>, RepositoryError> {
        let (mut url, mut authorization) = (call.url.to_owned(), authorization);
        let is_harmless = |(name, _): &(&str, &str)| name.eq_ignore_ascii_case("accept");
        let harmless: Vec<_> = call.headers.iter().copied().filter(is_harmless).collect();
        let mut headers = call.headers;
        for _ in 0..=MOST_REDIRECTS {
            let response = self.attempt(Call { url: &url, headers, ..call }, authorization, address);
            let response = response.map_err(|error| redirected(error, call.url, &url))?;
            if ![301, 302, 303, 307, 308].contains(&response.status().as_u16()) {
                return Ok(response);
            }
            if ![Method::GET, Method::HEAD].contains(call.method) {
                return Err(self.unreachable(address, "it redirects an upload"));
            }
            let location = response.headers().get("location").and_then(|value| value.to_str().ok());
            let next = location.and_then(|location| redirect(&url, location));
            let next = next
                .ok_or_else(|| self.unreachable(address, "it redirects to an address that cannot be used"))?;
            // Without credentials from here on, even if a later redirect leads back to the first
            // host.
            if origin(&next) != origin(&url) {
                authorization = None;
                headers = &harmless;
            }
            url = next;
        }
        Err(self.unreachable(address, &format!("it redirects more than {MOST_REDIRECTS} times")))
    }

    /// Sends a request, and retries if the registry is busy or the connection was lost.
    pub(crate) fn attempt(
        &self,
        call: Call<'_>,
        authorization: Option<&str>,
        address: &str,
    ) -> Result<Response<Body>, RepositoryError> {
        let mut pauses = PAUSES.iter();
        loop {
            let mut request = Request::builder().method(call.method).uri(call.url);
            let authorization = authorization.map(|value| ("authorization", value));
            for (name, value) in call.headers.iter().copied().chain(authorization) {
                request = request.header(name, value);
            }
            let body = match call.body {
                None => SendBody::none(),
                Some(open) => {
                    let blob = open()?;
                    // Without this header ureq sends the body in chunks.
                    request = blob
                        .size
                        .into_iter()
                        .fold(request, |request, size| request.header("content-length", size.to_string()));
                    SendBody::from_owned_reader(blob.body)
                }
            };
            let request =
                request.body(body).map_err(|error| self.unreachable(address, &error.to_string()))?;
            self.allowance.check(&self.connection.host, address)?;
            let time = Some(self.allowance.cap(READ));
            let agent = &self.connection.agent;
            // Each read may arrive drop by drop, so the whole body has a time limit, too.
            let body =
                Some(self.allowance.left().map_or(RECEIVE, |left| left.saturating_add(BODY).min(RECEIVE)));
            let request = agent.configure_request(request);
            let request = request.timeout_recv_response(time).timeout_per_read(time).timeout_recv_body(body);
            let answer = self.allowance.spend_on_answer(|| agent.run(request.build()));
            // If the time of the whole piece of work is used up, say so instead of reporting this
            // timeout.
            if answer.is_err() {
                self.allowance.check(&self.connection.host, address)?;
            }
            // The body that is sent cannot be read, so a retry cannot help.
            if let Err(ureq::Error::Io(error)) = &answer
                && error.get_ref().and_then(|source| source.downcast_ref::<RepositoryError>()).is_some()
            {
                return Err(RepositoryError::of_read(error, address));
            }
            let asked = match &answer {
                Ok(response) if [429, 502, 503, 504].contains(&response.status().as_u16()) => {
                    let header = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
                    header.and_then(|text| text.trim().parse().ok()).map(Duration::from_secs)
                }
                Err(error) if is_lost(error) => None,
                Ok(_) => return answer.map_err(|error| self.unreachable(address, &error.to_string())),
                Err(error) => return Err(self.unreachable(address, &cause(error))),
            };
            match pauses.next() {
                Some(pause) => {
                    let pause = self.allowance.cap(asked.unwrap_or(*pause).min(LONGEST_PAUSE));
                    self.allowance.spend(|| std::thread::sleep(pause), |()| 0);
                }
                None => return answer.map_err(|error| self.unreachable(address, &cause(&error))),
            }
        }
    }

    /// Returns the content of an answer, not yet compared with a digest.
    pub(crate) fn blob(&self, response: Response<Body>, address: &str) -> Blob {
        let body = response.into_body();
        let size = body.content_length();
        let body = Allowed {
            inner: body.into_reader(),
            allowance: self.allowance.clone(),
            host: self.connection.host.clone(),
            address: address.to_owned(),
        };
        Blob { media_type: String::new(), size, body: Box::new(body) }
    }

    /// Reads the content of an answer into memory.
    pub(super) fn read(
        &self,
        response: Response<Body>,
        address: &str,
        limit: u64,
    ) -> Result<Vec<u8>, RepositoryError> {
        self.allowance.read_all(self.blob(response, address), address, limit)
    }

    /// Returns the allowance of time and memory.
    pub(super) fn allowance(&self) -> &Allowance {
        &self.allowance
    }

    pub(crate) fn unreachable(&self, address: &str, cause: &str) -> RepositoryError {
        let cause = shortened(cause, LONGEST_CAUSE);
        RepositoryError::Unreachable {
            host: self.connection.host.clone(),
            cause: format!("{cause} (asked for {address})"),
        }
    }
}

/// Adds the target of a redirect to an error.
fn redirected(error: RepositoryError, from: &str, to: &str) -> RepositoryError {
    match (error, origin(to)) {
        (RepositoryError::Unreachable { host, cause }, Some((scheme, authority))) if from != to => {
            let place = shortened(&format!("{scheme}://{authority}"), LONGEST_CAUSE);
            RepositoryError::Unreachable { host, cause: format!("{cause}, which redirects to {place}") }
        }
        (error, _) => error,
    }
}

/// Reports whether a retry may help: only after a broken connection. An untrusted certificate stays
/// untrusted.
fn is_lost(error: &ureq::Error) -> bool {
    match error {
        ureq::Error::Io(error) => !matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput),
        ureq::Error::ConnectionFailed => true,
        _ => false,
    }
}

fn cause(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Io(error) if error.kind() == ErrorKind::InvalidData => format!("TLS: {error}"),
        error => error.to_string(),
    }
}

pub(super) fn origin(url: &str) -> Option<(String, String)> {
    let uri: Uri = url.parse().ok()?;
    Some((uri.scheme_str()?.to_owned(), uri.authority()?.as_str().to_owned()))
}

/// Returns the target of a `Location`. Refuses a change from https to http, and addresses with
/// credentials.
pub(super) fn redirect(from: &str, location: &str) -> Option<String> {
    let (scheme, authority) = origin(from)?;
    let next = match location {
        absolute if absolute.contains("://") && !absolute.starts_with('/') => absolute.to_owned(),
        beside if beside.starts_with("//") => format!("{scheme}:{beside}"),
        path if path.starts_with('/') => format!("{scheme}://{authority}{path}"),
        _ => return None,
    };
    let (to, authority) = origin(&next)?;
    let is_safe = to == "https" || (to == "http" && scheme == "http");
    (is_safe && !authority.contains('@')).then_some(next)
}

fn read_roots(path: &Path) -> Result<RootCerts, RepositoryError> {
    let address = path.display().to_string();
    let text = fs::read(path).map_err(|error| {
        let cause = error.to_string();
        RepositoryError::Unreadable { address: address.clone(), cause }
    })?;
    roots_of(&text, &address)
}

/// Parses the certificates of a PEM text.
pub(super) fn roots_of(text: &[u8], address: &str) -> Result<RootCerts, RepositoryError> {
    let mut roots = Vec::new();
    for item in ureq::tls::parse_pem(text) {
        match item {
            Ok(PemItem::Certificate(certificate)) => roots.push(certificate),
            Ok(_) => {}
            Err(_) => return Err(malformed(address.to_owned(), "it is not a PEM file")),
        }
    }
    if roots.is_empty() {
        return Err(malformed(address.to_owned(), "it contains no certificate in PEM form"));
    }
    Ok(RootCerts::new_with_certs(&roots))
}

/// Returns the certificates of the system, read once, because each chart behind an address gets a
/// client of its own.
pub(super) fn system_roots() -> RootCerts {
    static ROOTS: OnceLock<RootCerts> = OnceLock::new();
    let read = || {
        let found = rustls_native_certs::load_native_certs().certs;
        let roots: Vec<_> = found.iter().map(|root| Certificate::from_der(root).to_owned()).collect();
        RootCerts::new_with_certs(&roots)
    };
    ROOTS.get_or_init(read).clone()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects() {
        for (from, location, expected) in [
            ("http://a:1/x", "/y", Some("http://a:1/y")),
            ("http://a:1/x", "//b/y", Some("http://b/y")),
            ("http://a:1/x", "https://b/y?u=http://z", Some("https://b/y?u=http://z")),
            ("https://a/x", "http://a/y", None),
            ("https://a/x", "https://u:p@a/y", None),
            ("https://a/x", "file:///etc/passwd", None),
            ("https://a/x", "y", None),
        ] {
            assert_eq!(redirect(from, location).as_deref(), expected, "{location}");
        }
    }
}
