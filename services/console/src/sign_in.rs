//! Page for signing in, and the forms that sign a visitor in and out.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use jiff::Timestamp;
use serde::Deserialize;
use tonic::Code;

use crate::answer;
use crate::console::{Made, PageError, Site, sentence};
use crate::pages::frame::{self, Frame};
use crate::pages::sign_in::SignInPage;
use crate::request::{Form, Parameters, Request, local_path};

/// Fields of the form, and of the query that presets the address to open after signing in.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Fields {
    token: String,
    to: String,
}

pub(crate) async fn form(Parameters(query): Parameters<Fields>) -> Response {
    page(&query.to, None)
}

fn page(to: &str, problem: Option<String>) -> Response {
    let status = if problem.is_some() { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
    let page = SignInPage { to: local_path(to).to_owned(), problem };
    answer::html(status, frame::html(&page, &Frame::default(), Timestamp::now()))
}

pub(crate) async fn sign_in(
    State(site): State<Arc<Site>>,
    Extension(request): Extension<Arc<Request>>,
    form: Result<Form<Fields>, PageError>,
) -> Made {
    let Fields { token, to } = match form {
        Ok(Form(fields)) => fields,
        Err(PageError::Refused(problem)) => return Ok(page("/", Some(problem))),
        Err(error) => return Err(error),
    };
    let (token, to) = (token.trim(), to.trim());
    let cookie = match site.sign_in.cookie(token) {
        Ok(cookie) => cookie,
        Err(problem) => return Ok(page(to, Some(problem.to_string()))),
    };
    Ok(match site.sign_in.check(token, &request).await {
        Ok(_) => answer::with_cookie(answer::redirect(local_path(to)), &cookie),
        Err(status) if status.code() == Code::Unauthenticated => {
            page(to, Some("The API server does not accept this token.".to_owned()))
        }
        Err(status) => page(to, Some(sentence(status.message()))),
    })
}

pub(crate) async fn sign_out(State(site): State<Arc<Site>>, _: Form<Fields>) -> Response {
    answer::with_cookie(answer::redirect("/sign-in"), &site.sign_in.no_cookie())
}
