//! Lists, read page by page. Limits on pages, size and time end a list, and so does a server that
//! repeats a page token.

use std::collections::HashSet;
use std::hash::{BuildHasher as _, RandomState};
use std::time::{Duration, Instant};

use groundwork_client::answer::{AnswerError, Held, Limit};
use groundwork_controller::ApiError;
use http::Method;
use serde_json::{Value, json};

use crate::cluster::{Cluster, ResourceKind};

/// Number of objects requested in one page.
const PAGE: usize = 500;
/// Divisor of the page size for the second request of a page that is too large.
const SMALLER: usize = 8;
const SIZE: Limit = Limit { what: "a page of a list", bytes: 16 << 20 };
const MOST_PAGES: usize = 1000;
/// Maximum objects of one list.
const MOST_OBJECTS: usize = 100_000;
/// Time limit of all pages of one list, as a multiple of a request's.
const REQUESTS: u32 = 4;
/// Longest token of a next page. API servers need a few hundred bytes.
const LONGEST_TOKEN: usize = 16 << 10;

/// The pages of one list.
#[derive(Debug)]
pub struct ListPages<'c> {
    cluster: &'c Cluster,
    kind: &'c ResourceKind,
    folder: String,
    labels: &'c str,
    /// Token of the next page; `None` at the end.
    next: Option<String>,
    /// Hashes of the tokens of earlier pages.
    tokens: HashSet<u64>,
    hasher: RandomState,
    size: usize,
    objects: usize,
    begun: Instant,
}

/// One page of a list.
#[derive(Debug)]
pub struct Page {
    /// Objects with `apiVersion` and `kind`.
    pub objects: Vec<Value>,
    /// Memory that the objects use, until this is dropped.
    pub held: Held,
}

impl<'c> ListPages<'c> {
    pub(crate) fn new(cluster: &'c Cluster, kind: &'c ResourceKind, folder: String, labels: &'c str) -> Self {
        Self {
            cluster,
            kind,
            folder,
            labels,
            next: Some(String::new()),
            tokens: HashSet::new(),
            hasher: RandomState::new(),
            size: PAGE,
            objects: 0,
            begun: Instant::now(),
        }
    }

    /// Returns the next page; `None` at the end of the list.
    ///
    /// # Errors
    ///
    /// The page could not be read, or the list has no end.
    pub async fn next(&mut self) -> Result<Option<Page>, ApiError> {
        let Some(token) = self.next.take() else { return Ok(None) };
        if self.begun.elapsed() > self.time() {
            return Err(self.endless(&format!("has not ended within {} s", self.time().as_secs())));
        }
        let (mut page, held) = self.read(&token).await?;
        let page = page.as_object_mut();
        let (mut items, mut metadata) = (None, None);
        if let Some(page) = page {
            (items, metadata) = (page.remove("items"), page.remove("metadata"));
        }
        // Items of a list have no `apiVersion` and `kind`, so add them.
        let objects = match items {
            Some(Value::Array(items)) => items.into_iter().filter_map(|item| self.named(item)).collect(),
            _ => Vec::new(),
        };
        self.turn_to(metadata.as_ref(), objects.len())?;
        Ok(Some(Page { objects, held }))
    }

    fn named(&self, item: Value) -> Option<Value> {
        let Value::Object(mut item) = item else { return None };
        item.insert("apiVersion".to_owned(), json!(self.kind.api_version));
        item.insert("kind".to_owned(), json!(self.kind.kind));
        Some(Value::Object(item))
    }

    /// Reads the page of a token. A page that is too large is requested again in smaller parts.
    async fn read(&mut self, token: &str) -> Result<(Value, Held), ApiError> {
        loop {
            let path = page_of(&self.folder, self.size, self.labels, token);
            let request = self.cluster.request(Method::GET, &path, "application/json", Vec::new())?;
            match self.cluster.read(request, "list", &self.kind.plural, SIZE).await? {
                Ok(page) => return Ok(page),
                Err(AnswerError::TooLong(_) | AnswerError::TooMuch(_)) if self.size > 1 => {
                    self.size = (self.size / SMALLER).max(1);
                }
                Err(error) => return Err(self.cluster.unread("list", &self.kind.plural, &error)),
            }
        }
    }

    fn turn_to(&mut self, metadata: Option<&Value>, objects: usize) -> Result<(), ApiError> {
        let token = metadata.and_then(|metadata| metadata["continue"].as_str()).unwrap_or_default();
        if token.is_empty() {
            return Ok(());
        }
        self.objects += objects;
        if token.len() > LONGEST_TOKEN {
            return Err(self.endless("continues with a token that is too long for a URL"));
        }
        if !self.tokens.insert(self.hasher.hash_one(token)) {
            return Err(self.endless("repeats the continue token of an earlier page"));
        }
        if self.tokens.len() >= MOST_PAGES || self.objects >= MOST_OBJECTS {
            let most = format!("has more than {MOST_PAGES} pages or {MOST_OBJECTS} objects");
            return Err(self.endless(&most));
        }
        self.next = Some(token.to_owned());
        Ok(())
    }

    fn time(&self) -> Duration {
        self.cluster.bounds.answers.request * REQUESTS
    }

    fn endless(&self, how: &str) -> ApiError {
        let problem = format!("the list of {} {how}", self.cluster.bounds.server.address);
        ApiError::Transient { verb: "list", object: self.kind.plural.clone(), problem }
    }
}

/// Returns the address of one page.
fn page_of(folder: &str, size: usize, labels: &str, next: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("limit", &size.to_string()).append_pair("labelSelector", labels);
    if !next.is_empty() {
        query.append_pair("continue", next);
    }
    format!("{folder}?{}", query.finish())
}
