//! Pages of a list; the next page is requested while the current one is handled.

use tokio_util::task::AbortOnDropHandle;

use super::{Page, Source, SourceError};

/// A list that is read page by page.
#[derive(Debug)]
pub(crate) struct Pages {
    source: Source,
    /// Request for the next page; `None` after the last one, and after an error.
    request: Option<AbortOnDropHandle<Result<Page, SourceError>>>,
    /// Token of the page that is being requested.
    token: Option<String>,
}

impl Pages {
    pub(super) fn new(source: Source) -> Self {
        let request = Some(request(&source, None));
        Self { source, request, token: None }
    }

    /// Returns the next page; `None` after the last one. May be dropped and called again.
    pub(crate) async fn next(&mut self) -> Option<Result<Page, SourceError>> {
        let page = match self.request.as_mut()?.await {
            Ok(page) => page,
            Err(error) => Err(self.source.failed("list", error.to_string())),
        };
        let token = page.as_ref().ok().and_then(|page| page.next.clone());
        if token.is_some() && token == self.token {
            self.request = None;
            let problem = "the list repeats the continue token of an earlier page".to_owned();
            return Some(Err(self.source.failed("list", problem)));
        }
        self.request = token.clone().map(|token| request(&self.source, Some(token)));
        self.token = token;
        Some(page)
    }
}

fn request(source: &Source, token: Option<String>) -> AbortOnDropHandle<Result<Page, SourceError>> {
    let source = source.clone();
    AbortOnDropHandle::new(tokio::spawn(async move { source.page(token).await }))
}
