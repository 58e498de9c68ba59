//! Tests that documents and comments agree with each other and with the workspace.

mod chapters;
mod citations;
mod comments;
mod examples;
mod floors;
mod links;
mod measures;
mod observability;
mod reasons;
mod words;

use std::path::Path;

/// Returns the root folder of the workspace.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
