//! Identity of visitors: from a bearer token that they present, or from the headers of a trusted
//! proxy in front of the console.

use std::fmt;
use std::sync::Arc;

use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use groundwork_grpc::{Access, User};
use groundwork_proto::status::{self, reasons};
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::HeaderName;
use http::header::AUTHORIZATION;
use secrecy::{ExposeSecret as _, SecretString};
use sha2::Sha256;
use tonic::Status;

use crate::request::Request;
use crate::settings::{Network, Settings};

/// Longest token in bytes. Browsers keep cookies of up to 4 KB, and Base64 makes the token a third
/// longer.
const LONGEST_TOKEN: usize = 2_900;
/// Group that Kubernetes gives every authenticated user.
const AUTHENTICATED: &str = "system:authenticated";
/// Prefix of names that only the API server may assign.
const RESERVED: &str = "system:";

/// Ways of signing in.
#[derive(Debug, Clone)]
pub(crate) struct SignIn {
    access: Access,
    proxy: Option<Proxy>,
    is_https: bool,
}

/// A proxy that authenticates users.
#[derive(Debug, Clone)]
struct Proxy {
    user: HeaderName,
    groups: Option<HeaderName>,
    networks: Vec<Network>,
}

/// A user who has signed in.
#[derive(Clone)]
pub(crate) struct Visitor {
    pub(crate) user: Arc<User>,
    /// Token of the visitor. Absent behind a proxy, which passes none on.
    token: Option<Arc<SecretString>>,
    /// Secret of this browser, from which the keys of its forms are derived.
    secret: Arc<SecretString>,
    /// Cookie with the secret, to set if the browser does not have one yet.
    pub(crate) new_cookie: Option<String>,
    /// True if there is a token cookie that signing out would remove.
    pub(crate) has_cookie: bool,
}

impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor").field("user", &self.user.name).finish_non_exhaustive()
    }
}

/// Reasons for which a token cannot be stored in a cookie.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TokenProblem {
    #[error("A token is missing.")]
    Missing,
    #[error(
        "The token is longer than the {LONGEST_TOKEN} characters that a browser can keep. Put a proxy in front of the console that signs people in."
    )]
    TooLong,
}

impl SignIn {
    pub(crate) fn new(access: Access, settings: &Settings) -> Self {
        let proxy = settings.proxy_user_header.clone().map(|user| Proxy {
            user,
            groups: settings.proxy_groups_header.clone(),
            networks: settings.trusted_proxies.clone(),
        });
        Self { access, proxy, is_https: settings.console_https }
    }

    /// Returns the author of a request. A token comes before the headers of a proxy.
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED` if the request names no user or the token has expired; `UNAVAILABLE` when
    /// the API server does not answer.
    pub(crate) async fn visitor(&self, request: &Request) -> Result<Visitor, Status> {
        let bearer = request.header(AUTHORIZATION).and_then(bearer);
        let cookie = request.cookie(self.token_cookie()).and_then(token_of_cookie);
        let has_cookie = cookie.is_some();
        if let Some(token) = bearer.map(str::to_owned).or(cookie) {
            let user = self.access.authenticate_token(&token, Some(request.peer)).await?;
            let token = Arc::new(SecretString::from(token));
            let secret = Arc::clone(&token);
            return Ok(Visitor { user, token: Some(token), secret, new_cookie: None, has_cookie });
        }
        let said = self.proxy.as_ref().map(|proxy| proxy.user(request)).transpose()?;
        match said.flatten() {
            Some(user) => {
                let (secret, new_cookie) = self.form_secret(request)?;
                Ok(Visitor { user: Arc::new(user), token: None, secret, new_cookie, has_cookie: false })
            }
            None => Err(status::unauthenticated(reasons::TOKEN_INVALID, "Sign in first.")),
        }
    }

    /// Returns the user of a token that was typed into the sign-in form.
    ///
    /// # Errors
    ///
    /// As [`SignIn::visitor`].
    pub(crate) async fn check(&self, token: &str, request: &Request) -> Result<Arc<User>, Status> {
        self.access.authenticate_token(token, Some(request.peer)).await
    }

    /// Returns the cookie that stores a token. Scripts cannot read it, and browsers do not send it
    /// with requests of other sites.
    ///
    /// # Errors
    ///
    /// The token is empty or too long.
    pub(crate) fn cookie(&self, token: &str) -> Result<String, TokenProblem> {
        match token.len() {
            0 => Err(TokenProblem::Missing),
            length if length > LONGEST_TOKEN => Err(TokenProblem::TooLong),
            _ => Ok(self.set(self.token_cookie(), &BASE64URL_NOPAD.encode(token.as_bytes()))),
        }
    }

    /// Returns the cookie that removes the token.
    pub(crate) fn no_cookie(&self) -> String {
        self.set(self.token_cookie(), "; Max-Age=0")
    }

    fn form_secret(&self, request: &Request) -> Result<(Arc<SecretString>, Option<String>), Status> {
        let name = self.form_cookie();
        if let Some(kept) = request.cookie(name).filter(|kept| kept.len() == 64) {
            return Ok((Arc::new(SecretString::from(kept.to_owned())), None));
        }
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|_| Status::internal("the system has no random numbers"))?;
        let made = HEXLOWER.encode(&bytes);
        let cookie = self.set(name, &made);
        Ok((Arc::new(SecretString::from(made)), Some(cookie)))
    }

    // Browsers accept a `__Host-` cookie only over TLS and only from this host, so that another
    // host of the domain cannot plant one.
    fn token_cookie(&self) -> &'static str {
        if self.is_https { "__Host-groundwork-token" } else { "groundwork-token" }
    }

    fn form_cookie(&self) -> &'static str {
        if self.is_https { "__Host-groundwork-form" } else { "groundwork-form" }
    }

    fn set(&self, name: &str, value: &str) -> String {
        let secure = if self.is_https { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict{secure}")
    }
}

impl Proxy {
    /// Returns the user that a trusted proxy names. Names with the prefix `system:` are ignored,
    /// because only the API server assigns them.
    ///
    /// # Errors
    ///
    /// The header occurs twice: the proxy has passed on the one that a browser sent.
    fn user(&self, request: &Request) -> Result<Option<User>, Status> {
        if !self.networks.iter().any(|network| network.contains(request.peer)) {
            return Ok(None);
        }
        if request.headers.get_all(&self.user).iter().count() > 1 {
            let text = format!(
                "The request has two headers {}: the proxy must remove the one that a browser sends.",
                self.user
            );
            return Err(status::unauthenticated(reasons::TOKEN_INVALID, text));
        }
        let is_ours = |name: &str| !name.is_empty() && !name.starts_with(RESERVED);
        let named = request.header(&self.user).map(str::trim).filter(|name| is_ours(name));
        let Some(name) = named else { return Ok(None) };
        let lines = self.groups.iter().flat_map(|header| request.headers.get_all(header));
        let groups = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(','));
        let groups = groups.map(str::trim).filter(|name| is_ours(name)).map(str::to_owned);
        Ok(Some(User::named(name.to_owned(), groups.chain([AUTHENTICATED.to_owned()]).collect())))
    }
}

impl Visitor {
    /// Returns the token for requests in the visitor's own name.
    pub(crate) fn token(&self) -> Option<&SecretString> {
        self.token.as_deref()
    }

    /// Returns the key of the visitor's form for an action. Other sites cannot compute it, which
    /// protects against forged requests.
    pub(crate) fn form_key(&self, action: &str) -> String {
        HEXLOWER.encode(&self.mac(action).finalize().into_bytes())
    }

    /// Reports whether a submitted form has the right key for an action.
    pub(crate) fn has_form_key(&self, action: &str, key: &str) -> bool {
        let key = HEXLOWER.decode(key.as_bytes()).unwrap_or_default();
        // Compares in constant time, so that the time does not reveal how much of a key is right.
        self.mac(action).verify_slice(&key).is_ok()
    }

    fn mac(&self, action: &str) -> Hmac<Sha256> {
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.expose_secret().as_bytes())
            .expect("HMAC takes keys of every length");
        mac.update(b"groundwork console form\0");
        mac.update(action.as_bytes());
        mac
    }
}

fn bearer(header: &str) -> Option<&str> {
    let (scheme, token) = header.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

fn token_of_cookie(value: &str) -> Option<String> {
    let token = String::from_utf8(BASE64URL_NOPAD.decode(value.as_bytes()).ok()?).ok()?;
    Some(token).filter(|token| !token.is_empty())
}
