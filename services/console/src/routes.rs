//! Addresses of the console.

use std::sync::Arc;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tower::Layer as _;

use crate::console::{PageError, Site, respond};
use crate::context::Context;
use crate::operations::Operation;
use crate::request::LARGEST_FORM;
use crate::{assets, journal, lists, live, objects, operations, planning, sign_in};

/// Returns the router of the console. The JSON form of a page has the same route.
pub(crate) fn router(site: Arc<Site>) -> Router {
    let routes = Router::new()
        .route("/", get(lists::overview))
        .route("/installations", get(lists::installations))
        .route("/installations/{namespace}/{name}", get(objects::installation))
        .route("/installations/{namespace}/{name}/reconcile", operations::routes(Operation::Reconcile))
        .route("/installations/{namespace}/{name}/interrupt", operations::routes(Operation::Interrupt))
        .route("/journal/{namespace}/{name}", get(journal::page))
        .route("/components", get(lists::components))
        .route("/components/{namespace}/{name}", get(objects::closure))
        .route("/sets", get(lists::sets))
        .route("/sets/{namespace}/{name}", get(objects::set))
        .route("/sets/{namespace}/{name}/compare", get(objects::comparison))
        .route("/variants/{namespace}/{name}", get(objects::variant))
        .route("/revisions/{namespace}/{name}", get(objects::revision))
        .route("/revisions/{namespace}/{name}/propose", operations::routes(Operation::Propose))
        .route("/revisions/{namespace}/{name}/approve", operations::routes(Operation::Approve))
        .route("/events", get(lists::events))
        .route("/live", get(live::events))
        .route("/plan", planning::routes())
        .route("/sign-in", get(sign_in::form).post(sign_in::sign_in))
        .route("/sign-out", post(sign_in::sign_out))
        .merge(assets::routes())
        .fallback(no_page)
        .method_not_allowed_fallback(no_page)
        .layer(DefaultBodyLimit::max(LARGEST_FORM))
        .with_state(Arc::clone(&site));
    // `respond` stands before the routes because it changes the path that they see.
    Router::new().fallback_service(from_fn_with_state(site, respond).layer(routes))
}

/// Fallback for unknown addresses. Visitors sign in before they learn that a page does not exist.
async fn no_page(_: Context) -> PageError {
    PageError::NoPage
}

#[cfg(test)]
mod tests;
