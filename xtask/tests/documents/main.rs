//! What documents and comments say of one another and of the workspace is true.

mod chapters;
mod citations;
mod comments;
mod examples;
mod floors;
mod links;
mod observability;
mod reasons;
mod words;

use std::path::Path;

/// Root folder of the workspace.
fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}
