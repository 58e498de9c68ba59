//! `cargo xtask book`: makes a book of the pages in `docs`, with its pictures.
//!
//! ```text
//! docs/pictures/*.dot ──layout──> *.svg
//! docs/SUMMARY.md, pages ──mdBook──> target/book
//! ```

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow, ensure};
use layout::backends::svg::SVGWriter;
use layout::gv::{DotParser, GraphBuilder};
use mdbook_driver::MDBook;

/// Draws the pictures and builds the book. With `check`, compares the pictures instead of writing
/// them.
pub(crate) fn run(workspace: &Path, check: bool) -> Result<()> {
    let folder = workspace.join("docs/pictures");
    for entry in fs::read_dir(&folder).context("cannot read docs/pictures")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "dot") {
            let svg = path.with_extension("svg");
            let drawn = drawn(&fs::read_to_string(&path)?).with_context(|| format!("{}", path.display()))?;
            if check {
                let written = fs::read_to_string(&svg).unwrap_or_default();
                ensure!(written == drawn, "{} is not up to date: run `cargo xtask book`", svg.display());
            } else {
                fs::write(&svg, drawn)?;
            }
        }
    }
    let book = MDBook::load(workspace).map_err(|error| anyhow!("{error:#}"))?;
    book.build().map_err(|error| anyhow!("{error:#}"))?;
    println!("the book is in {}", book.build_dir_for("html").display());
    Ok(())
}

/// Returns the picture of a graph in the language of Graphviz.
fn drawn(dot: &str) -> Result<String> {
    let graph = DotParser::new(dot).process().map_err(|error| anyhow!("{error}"))?;
    let mut builder = GraphBuilder::new();
    builder.visit_graph(&graph);
    let mut writer = SVGWriter::new();
    builder.get().do_it(false, false, false, &mut writer);
    Ok(writer.finalize())
}
