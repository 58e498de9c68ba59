//! Style sheet and scripts of the pages. Their addresses change with their contents.

use std::sync::LazyLock;

use axum::Router;
use axum::routing::get;
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::answer;

const STYLE: &str = include_str!("../assets/console.css");
const SCRIPT: &str = include_str!("../assets/console.js");
const ICON: &str = include_str!("../assets/icon.svg");

static PATHS: LazyLock<[String; 3]> = LazyLock::new(|| {
    [("style", STYLE, "css"), ("script", SCRIPT, "js"), ("icon", ICON, "svg")].map(|(name, text, suffix)| {
        let digest = HEXLOWER.encode(&Sha256::digest(text)[..8]);
        format!("/assets/{name}-{digest}.{suffix}")
    })
});

pub(crate) fn style_path() -> &'static str {
    &PATHS[0]
}

pub(crate) fn script_path() -> &'static str {
    &PATHS[1]
}

pub(crate) fn icon_path() -> &'static str {
    &PATHS[2]
}

/// Returns the routes of the files.
pub(crate) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    Router::new()
        .route(style_path(), get(async || answer::asset("text/css; charset=utf-8", STYLE)))
        .route(script_path(), get(async || answer::asset("text/javascript; charset=utf-8", SCRIPT)))
        .route(icon_path(), get(async || answer::asset("image/svg+xml", ICON)))
}
