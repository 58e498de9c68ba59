//! Authenticates callers and checks their permissions.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::BASE64URL_NOPAD;
use groundwork_proto::status::{self, reasons};
use groundwork_telemetry::innermost_cause;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    self as authorization, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use kube::{Client, Resource};
use moka::Expiry;
use moka::future::Cache;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tonic::Status;
use tonic::codegen::http::HeaderMap;
use tonic::metadata::MetadataMap;
use tracing::Instrument;

use crate::reviews::Reviews;
use crate::token::TokenSource;

/// Time for which the user of a valid token is cached.
const KNOWN: Duration = Duration::from_secs(60);
/// Time for which the rejection of a token is cached.
const REFUSED: Duration = Duration::from_secs(10);
/// Time for which a granted permission is cached.
const ALLOWED: Duration = Duration::from_secs(10);
/// Time for which a denied permission is cached, short because users retry after a grant.
const DENIED: Duration = Duration::from_secs(2);
/// Entries of the caches. Rejected tokens have a cache of their own, so that a flood of them does
/// not evict known users.
const TOKENS: u64 = 1_000;
const UNKNOWN_TOKENS: u64 = 10_000;
const DECISIONS: u64 = 10_000;
/// Time limit of one review by the API server.
const LIMIT: Duration = Duration::from_secs(10);

/// Authorizes calls. Clones share their caches.
///
/// Answers of the API server are cached, so that a series of calls does not cost a request each: a
/// token for at most a minute, a permission for at most 10 seconds.
#[derive(Clone)]
pub struct Access(Arc<Inner>);

struct Inner {
    client: Client,
    /// Audience of the tokens that only this service accepts.
    audience: String,
    /// Users by the digest of their token; the token itself is not kept.
    tokens: Cache<TokenDigest, Option<Arc<User>>>,
    unknown: Cache<TokenDigest, ()>,
    reviews: Reviews,
    decisions: Cache<Question, bool>,
    own: Own,
}

/// Token that is valid only in this process.
struct Own {
    source: TokenSource,
    digest: TokenDigest,
    user: Arc<User>,
}

type TokenDigest = [u8; 32];

/// Caller, as the API server knows them.
#[derive(Debug, Clone, PartialEq)]
pub struct User {
    /// User name, such as `system:serviceaccount:ns:name`.
    pub name: String,
    info: UserInfo,
    /// Distinguishes users of the same name with different groups.
    digest: TokenDigest,
    is_this_process: bool,
}

/// Object that a call names: the attributes of a SubjectAccessReview, without the verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceAttributes<'a> {
    /// API group; empty for the core group.
    pub group: &'a str,
    /// Plural of the kind, such as `installations`.
    pub resource: &'a str,
    /// Namespace; `None` means all namespaces, or a cluster-scoped resource.
    pub namespace: Option<&'a str>,
    /// Name; `None` means any name.
    pub name: Option<&'a str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Question {
    user: TokenDigest,
    verb: &'static str,
    group: String,
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
}

impl fmt::Debug for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access").finish_non_exhaustive()
    }
}

impl fmt::Display for ResourceAttributes<'_> {
    /// Writes `installations.landscaper.gardener.cloud "b" in namespace "a"`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.resource)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        match (self.namespace, self.name) {
            (Some(namespace), Some(name)) => write!(f, " {name:?} in namespace {namespace:?}"),
            (Some(namespace), None) => write!(f, " in namespace {namespace:?}"),
            (None, Some(name)) => write!(f, " {name:?}"),
            (None, None) => f.write_str(" in all namespaces"),
        }
    }
}

impl Access {
    /// Creates an authorizer. `client` needs permission to create TokenReviews and
    /// SubjectAccessReviews (ClusterRole `system:auth-delegator`).
    ///
    /// Accepts two kinds of tokens: those for the [audience](crate::audience) of this service,
    /// which programs should use, and those that the API server itself accepts, which users have.
    pub fn new(client: Client, audience: impl Into<String>) -> Self {
        let tokens = Cache::builder().max_capacity(TOKENS).expire_after(Lifetime).build();
        let unknown = Cache::builder().max_capacity(UNKNOWN_TOKENS).time_to_live(REFUSED).build();
        let decisions = Cache::builder().max_capacity(DECISIONS).expire_after(Lifetime).build();
        let reviews = Reviews::default();
        let audience = audience.into();
        Self(Arc::new(Inner { client, audience, tokens, unknown, reviews, decisions, own: Own::new() }))
    }

    /// Returns a token for calls of this process to itself. Such calls skip the reviews, since the
    /// process would only use its own permissions.
    ///
    /// For services that run in one process with a kubeconfig that has no token. The token must not
    /// leave the process.
    pub fn token_of_this_process(&self) -> TokenSource {
        self.0.own.source.clone()
    }

    /// Admits a call whose user may `get` all of these objects.
    ///
    /// # Errors
    ///
    /// `UNAUTHENTICATED` without a valid token, `PERMISSION_DENIED` if a permission is missing,
    /// `UNAVAILABLE` if the API server does not answer. No message contains the token.
    pub async fn authorise(
        &self,
        call: &MetadataMap,
        attributes: &[ResourceAttributes<'_>],
    ) -> Result<Arc<User>, Status> {
        self.authorise_to("get", call, attributes).await
    }

    /// Admits a call whose user may use another verb than `get` on all of these objects.
    ///
    /// # Errors
    ///
    /// As [`Access::authorise`].
    pub async fn authorise_to(
        &self,
        verb: &'static str,
        call: &MetadataMap,
        attributes: &[ResourceAttributes<'_>],
    ) -> Result<Arc<User>, Status> {
        let user = self.authenticate(call).await?;
        self.demand(&user, verb, attributes).await?;
        Ok(user)
    }

    /// Returns an error unless a user may use this verb on all of these objects.
    ///
    /// # Errors
    ///
    /// `PERMISSION_DENIED` if a permission is missing, `UNAVAILABLE` if the API server does not
    /// answer.
    pub async fn demand(
        &self,
        user: &User,
        verb: &'static str,
        attributes: &[ResourceAttributes<'_>],
    ) -> Result<(), Status> {
        for attributes in attributes {
            if !self.may(user, verb, attributes).await? {
                let text = format!("user {:?} may not {verb} {attributes}", user.name);
                return Err(status::denied(reasons::ACCESS_DENIED, text));
            }
        }
        Ok(())
    }

    /// Returns the user of a call.
    ///
    /// # Errors
    ///
    /// As [`Access::authorise`].
    pub async fn authenticate(&self, call: &MetadataMap) -> Result<Arc<User>, Status> {
        self.authenticate_from(call.as_ref(), None).await
    }

    /// Returns the user of a token. `peer` is the address of the caller, if it is known.
    ///
    /// # Errors
    ///
    /// As [`Access::authorise`].
    pub async fn authenticate_token(&self, token: &str, peer: Option<IpAddr>) -> Result<Arc<User>, Status> {
        self.user_of(token, peer).await
    }

    /// Returns the user of a call from an address. The number of reviews of unknown tokens from one
    /// address is limited.
    pub(crate) async fn authenticate_from(
        &self,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<Arc<User>, Status> {
        self.user_of(bearer(headers)?, peer).await
    }

    async fn user_of(&self, token: &str, peer: Option<IpAddr>) -> Result<Arc<User>, Status> {
        let refused = || {
            let text = "the API server does not accept the bearer token of the call";
            status::unauthenticated(reasons::TOKEN_INVALID, text)
        };
        let digest = digest(token);
        if digest == self.0.own.digest {
            return Ok(Arc::clone(&self.0.own.user));
        }
        if self.0.unknown.contains_key(&digest) {
            return Err(refused());
        }
        let review = async {
            self.0.reviews.pass(peer)?;
            self.review_token(token.to_owned()).await
        };
        let user = self.0.tokens.try_get_with(digest, review).await.map_err(|status| (*status).clone())?;
        // Keep rejected tokens out of the cache of users, which a flood of them would fill.
        if user.is_none() {
            self.0.unknown.insert(digest, ()).await;
            self.0.tokens.invalidate(&digest).await;
        }
        user.ok_or_else(refused)
    }

    /// Reports whether a user may use this verb on an object. Asks for the whole namespace first,
    /// so that calls about its objects share the answer.
    ///
    /// # Errors
    ///
    /// `UNAVAILABLE` if the API server does not answer.
    pub async fn may(
        &self,
        user: &User,
        verb: &'static str,
        attributes: &ResourceAttributes<'_>,
    ) -> Result<bool, Status> {
        if user.is_this_process
            || self.decide(user, verb, &ResourceAttributes { name: None, ..*attributes }).await?
        {
            return Ok(true);
        }
        match attributes.name {
            Some(_) => self.decide(user, verb, attributes).await,
            None => Ok(false),
        }
    }

    async fn decide(
        &self,
        user: &User,
        verb: &'static str,
        attributes: &ResourceAttributes<'_>,
    ) -> Result<bool, Status> {
        // `try_get_with` sends one review for all calls that wait for the same answer.
        let question = Question {
            user: user.digest,
            verb,
            group: attributes.group.to_owned(),
            resource: attributes.resource.to_owned(),
            namespace: attributes.namespace.map(str::to_owned),
            name: attributes.name.map(str::to_owned),
        };
        let review = self.review_access(&user.info, verb, attributes);
        self.0.decisions.try_get_with(question, review).await.map_err(|status| (*status).clone())
    }

    async fn review_token(&self, token: String) -> Result<Option<Arc<User>>, Status> {
        let own = &self.0.audience;
        // The API server decides. The unchecked audience in the token only chooses which review to
        // ask for.
        let audiences = claims(&token, own).then(|| vec![own.clone()]);
        let is_for_us = audiences.is_some();
        let review = TokenReview { spec: TokenReviewSpec { token, audiences }, ..TokenReview::default() };
        let status =
            self.create("tokenreviews.authentication.k8s.io", &review).await?.status.unwrap_or_default();
        // An API server without support for audiences returns none, and does not confirm that the
        // token is for this service.
        let is_confirmed = !is_for_us || status.audiences.iter().flatten().any(|audience| audience == own);
        let user = status.user.filter(|_| is_confirmed && status.authenticated.unwrap_or_default());
        Ok(user.map(|info| Arc::new(User::new(info))))
    }

    async fn review_access(
        &self,
        user: &UserInfo,
        verb: &str,
        attributes: &ResourceAttributes<'_>,
    ) -> Result<bool, Status> {
        let reviewed = authorization::ResourceAttributes {
            verb: Some(verb.to_owned()),
            group: Some(attributes.group.to_owned()),
            resource: Some(attributes.resource.to_owned()),
            namespace: attributes.namespace.map(str::to_owned),
            name: attributes.name.map(str::to_owned),
            ..authorization::ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec {
            user: user.username.clone(),
            uid: user.uid.clone(),
            groups: user.groups.clone(),
            extra: user.extra.clone(),
            resource_attributes: Some(reviewed),
            ..SubjectAccessReviewSpec::default()
        };
        let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let review = self.create("subjectaccessreviews.authorization.k8s.io", &review).await?;
        Ok(review.status.is_some_and(|status| status.allowed && !status.denied.unwrap_or_default()))
    }

    /// Sends a review to the API server. `what` is the resource in messages.
    async fn create<K>(&self, what: &'static str, review: &K) -> Result<K, Status>
    where
        K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + fmt::Debug,
    {
        let api = Api::<K>::all(self.0.client.clone());
        let parameters = PostParams::default();
        let span = tracing::info_span!(
            "api",
            otel.name = format!("create {what}"),
            otel.kind = "client",
            verb = "create",
            resource = what
        );
        let request = api.create(&parameters, review).instrument(span);
        let problem = match tokio::time::timeout(LIMIT, request).await {
            Ok(Ok(review)) => return Ok(review),
            Ok(Err(kube::Error::Api(answer))) if matches!(answer.code, 401 | 403) => {
                let text = format!("may not create {what}: grant it to the service account of this service");
                // The operator has to fix this, not the caller, so it is logged as an error.
                tracing::error!(text, "calls cannot be authorised");
                text
            }
            Ok(Err(kube::Error::Api(answer))) => {
                format!("cannot create {what}: {} {}", answer.code, answer.reason)
            }
            // Leave out the text of the error, which may quote the answer.
            Ok(Err(kube::Error::SerdeError(_))) => {
                format!("cannot create {what}: the answer of the API server cannot be read")
            }
            Ok(Err(error)) => {
                let cause = innermost_cause(&error);
                format!("cannot create {what}: the API server does not answer: {cause}")
            }
            Err(_) => format!("cannot create {what}: no answer within {} s", LIMIT.as_secs()),
        };
        Err(status::unavailable(reasons::API_SERVER_UNAVAILABLE, problem))
    }
}

impl Own {
    fn new() -> Self {
        let token = format!("process:{}{}", uuid::Uuid::new_v4().simple(), uuid::Uuid::new_v4().simple());
        let info = UserInfo { username: Some("this process".to_owned()), ..UserInfo::default() };
        let user = User { is_this_process: true, ..User::new(info) };
        Self { digest: digest(&token), source: TokenSource::fixed(token), user: Arc::new(user) }
    }
}

impl User {
    /// Creates a user that another party has authenticated, such as a proxy in front of the
    /// service.
    pub fn named(name: String, groups: Vec<String>) -> Self {
        Self::new(UserInfo { username: Some(name), groups: Some(groups), ..UserInfo::default() })
    }

    /// Creates a user that another party has authenticated by a token.
    pub fn of(info: UserInfo) -> Self {
        Self::new(info)
    }

    /// Returns the name and groups from the API server, or from the party that authenticated the
    /// user.
    pub fn info(&self) -> &UserInfo {
        &self.info
    }

    /// Returns a key for caches of data about users, the same for the same user. Users of the same
    /// name with different groups have different digests.
    pub fn digest(&self) -> [u8; 32] {
        self.digest
    }

    fn new(info: UserInfo) -> Self {
        let digest = digest_of(&info);
        Self { name: info.username.clone().unwrap_or_default(), info, digest, is_this_process: false }
    }
}

fn digest(text: &str) -> TokenDigest {
    Sha256::digest(text).into()
}

/// Hashes every field with its length, so that two different users never have the same digest.
fn digest_of(info: &UserInfo) -> TokenDigest {
    let mut digest = Sha256::new();
    let mut part = |text: Option<&str>| {
        // An absent field differs from an empty one.
        digest.update([u8::from(text.is_some())]);
        let text = text.unwrap_or_default();
        digest.update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        digest.update(text);
    };
    part(info.username.as_deref());
    part(info.uid.as_deref());
    for group in info.groups.iter().flatten() {
        part(Some(group));
    }
    part(None);
    for (key, values) in info.extra.iter().flatten() {
        part(Some(key));
        for value in values {
            part(Some(value));
        }
        part(None);
    }
    digest.finalize().into()
}

/// Reports whether a token claims to be for an audience. Does not verify the token.
fn claims(token: &str, audience: &str) -> bool {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Audiences {
        One(String),
        Many(Vec<String>),
    }
    #[derive(Deserialize)]
    struct Claims {
        aud: Audiences,
    }
    let payload = token.split('.').nth(1).unwrap_or_default();
    let payload = BASE64URL_NOPAD.decode(payload.as_bytes()).unwrap_or_default();
    match serde_json::from_slice(&payload) {
        Ok(Claims { aud: Audiences::One(one) }) => one == audience,
        Ok(Claims { aud: Audiences::Many(many) }) => many.iter().any(|one| one == audience),
        Err(_) => false,
    }
}

fn bearer(headers: &HeaderMap) -> Result<&str, Status> {
    let refused = |text: &str| status::unauthenticated(reasons::TOKEN_INVALID, text);
    let value = headers.get("authorization").ok_or_else(|| {
        refused(
            "the call needs a bearer token in \"authorization\"; a call that names no object of the cluster needs none \
             if the service runs with --anonymous-inline-calls",
        )
    })?;
    let text = value.to_str().map_err(|_| refused("\"authorization\" is not plain text"))?;
    match text.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty() => {
            Ok(token.trim())
        }
        _ => Err(refused("\"authorization\" must read \"Bearer <token>\"")),
    }
}

/// Grants are cached longer than denials, so that a new permission takes effect soon.
struct Lifetime;

impl Expiry<TokenDigest, Option<Arc<User>>> for Lifetime {
    fn expire_after_create(&self, _: &TokenDigest, user: &Option<Arc<User>>, _: Instant) -> Option<Duration> {
        Some(if user.is_some() { KNOWN } else { REFUSED })
    }
}

impl Expiry<Question, bool> for Lifetime {
    fn expire_after_create(&self, _: &Question, is_allowed: &bool, _: Instant) -> Option<Duration> {
        Some(if *is_allowed { ALLOWED } else { DENIED })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Users whose texts look the same, or who differ in a single field, have different digests.
    #[test]
    fn no_two_users_are_taken_for_one() {
        let texts = |texts: &[&str]| Some(texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
        let extra = |pairs: &[(&str, &[&str])]| -> Option<BTreeMap<String, Vec<String>>> {
            Some(
                pairs
                    .iter()
                    .map(|(key, values)| ((*key).to_owned(), texts(values).unwrap_or_default()))
                    .collect(),
            )
        };
        let named = |name: &str| UserInfo { username: Some(name.to_owned()), ..UserInfo::default() };
        let users = [
            UserInfo::default(),
            named(""),
            named("a"),
            UserInfo { uid: Some("a".to_owned()), ..UserInfo::default() },
            UserInfo { uid: Some("b".to_owned()), ..named("a") },
            UserInfo { groups: texts(&["b"]), ..named("a") },
            UserInfo { groups: texts(&["b", "c"]), ..named("a") },
            UserInfo { groups: texts(&["bc"]), ..named("a") },
            UserInfo { groups: texts(&["c", "b"]), ..named("a") },
            UserInfo { groups: texts(&["b\", \"c"]), ..named("a") },
            UserInfo { extra: extra(&[("b", &[])]), ..named("a") },
            UserInfo { extra: extra(&[("b", &["c"])]), ..named("a") },
            UserInfo { extra: extra(&[("b", &[]), ("c", &[])]), ..named("a") },
            UserInfo { groups: texts(&["b"]), extra: extra(&[("c", &[])]), ..named("a") },
        ];
        for (index, one) in users.iter().enumerate() {
            assert_eq!(digest_of(one), digest_of(&one.clone()));
            for other in &users[index + 1..] {
                assert_ne!(digest_of(one), digest_of(other), "{one:?} {other:?}");
            }
        }
    }
}
