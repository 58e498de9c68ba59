//! Who is looking: by a bearer token that they have shown, or by what a proxy in front of the console says.

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

/// What browsers keep in a cookie is four kilobytes.
const LONGEST_TOKEN: usize = 2_900;
/// Group of everybody whom somebody has authenticated.
const AUTHENTICATED: &str = "system:authenticated";
/// Names that only the API server gives.
const RESERVED: &str = "system:";

/// How people sign in.
#[derive(Debug, Clone)]
pub(crate) struct SignIn {
    access: Access,
    proxy: Option<Proxy>,
    is_https: bool,
}

/// A proxy that signs people in.
#[derive(Debug, Clone)]
struct Proxy {
    user: HeaderName,
    groups: Option<HeaderName>,
    networks: Vec<Network>,
}

/// Somebody who has signed in.
#[derive(Clone)]
pub(crate) struct Visitor {
    pub(crate) user: Arc<User>,
    /// The token that they have shown; a proxy shows none.
    token: Option<Arc<SecretString>>,
    /// What only this browser has, so that forms can be told from those of others.
    secret: Arc<SecretString>,
    /// A cookie to set, so that the browser has such a secret.
    pub(crate) new_cookie: Option<String>,
    /// Whether there is something to sign out of.
    pub(crate) has_cookie: bool,
}

impl fmt::Debug for Visitor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitor").field("user", &self.user.name).finish_non_exhaustive()
    }
}

/// Why a token cannot be taken.
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

    /// Who makes a request.
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED` if nobody has signed in, or their token has ended; `UNAVAILABLE` when the API server gives no answer.
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

    /// The user of a token that somebody types.
    ///
    /// # Errors
    ///
    /// As [`SignIn::visitor`].
    pub(crate) async fn check(&self, token: &str, request: &Request) -> Result<Arc<User>, Status> {
        self.access.authenticate_token(token, Some(request.peer)).await
    }

    /// The cookie that keeps a token; scripts do not see it, and no other site's requests carry it.
    ///
    /// # Errors
    ///
    /// The token cannot be kept.
    pub(crate) fn cookie(&self, token: &str) -> Result<String, TokenProblem> {
        match token.len() {
            0 => Err(TokenProblem::Missing),
            length if length > LONGEST_TOKEN => Err(TokenProblem::TooLong),
            _ => Ok(self.set(self.token_cookie(), &BASE64URL_NOPAD.encode(token.as_bytes()))),
        }
    }

    /// The cookie that takes the token away.
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

    // With the prefix no other host of the domain, and no page without TLS, can set them.
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
    /// Whom a trusted proxy names. Names that only the API server gives are nobody's.
    ///
    /// # Errors
    ///
    /// It names two: one of them is what a browser has sent.
    fn user(&self, request: &Request) -> Result<Option<User>, Status> {
        if !self.networks.iter().any(|network| network.contains(request.peer)) {
            return Ok(None);
        }
        if request.headers.get_all(&self.user).iter().count() > 1 {
            let text = format!(
                "The request has two headers {}: the proxy has to remove the one that a browser sends.",
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
    /// The token with which the API server is asked in their own name.
    pub(crate) fn token(&self) -> Option<&SecretString> {
        self.token.as_deref()
    }

    /// What a form of theirs carries that does something at an address: nobody else can know it.
    pub(crate) fn form_key(&self, action: &str) -> String {
        HEXLOWER.encode(&self.mac(action).finalize().into_bytes())
    }

    /// Whether a form carries that.
    pub(crate) fn has_form_key(&self, action: &str, key: &str) -> bool {
        let key = HEXLOWER.decode(key.as_bytes()).unwrap_or_default();
        // Takes the same time however much of it is right.
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
