//! Style sheet and scripts of the pages. Their addresses change with their contents.

use std::sync::LazyLock;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::answer::Answer;

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

/// Returns the file at an address, or `None` if the address is not a file's.
pub(crate) fn answer(path: &str) -> Option<Answer> {
    match PATHS.iter().position(|known| known == path)? {
        0 => Some(Answer::asset("text/css; charset=utf-8", STYLE)),
        1 => Some(Answer::asset("text/javascript; charset=utf-8", SCRIPT)),
        _ => Some(Answer::asset("image/svg+xml", ICON)),
    }
}
