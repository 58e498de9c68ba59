//! Measures this engine on the charts of a folder: NAME.json, an object of paths and texts. The
//! counterpart of `benches/helm`; `cargo xtask bench charts` runs both.
//!
//! Each line of its output is a name and nanoseconds for one operation.

use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use groundwork_helm::{Chart, File, Release, Renderer, Request};

/// Shortest duration of one measurement; `report` repeats the operation until it is reached.
const LONG: Duration = Duration::from_millis(300);

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: bench-charts FOLDER")?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            files.push(path);
        }
    }
    files.sort();
    files.iter().try_for_each(|file| bench(file))
}

fn bench(file: &Path) -> Result<(), Box<dyn Error>> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let texts: BTreeMap<String, String> = serde_json::from_slice(&std::fs::read(file)?)?;
    let load = || {
        let files = texts.iter().map(|(path, text)| File::new(path.as_str(), text.as_bytes())).collect();
        Chart::from_files(black_box(files))
    };
    let request = Request { release: Some(Release::install("rel", "ns")), ..Request::default() };
    let renderer = Renderer::new(load()?);
    let mut size = 0;
    report(&format!("load/{name}"), || load().map(drop))?;
    report(&format!("warm/{name}"), || {
        renderer.render(&request).map(|rendered| size = rendered.manifest().len())
    })?;
    report(&format!("cold/{name}"), || -> Result<(), Box<dyn Error>> {
        size = Renderer::new(load()?).render(&request)?.manifest().len();
        Ok(())
    })?;
    println!("# {name} {size} bytes");
    Ok(())
}

/// Measures an operation, repeated until the measurement takes `LONG`, and prints its line.
fn report<E>(name: &str, mut operation: impl FnMut() -> Result<(), E>) -> Result<(), E> {
    operation()?;
    let mut count = 1_u32;
    loop {
        let start = Instant::now();
        for _ in 0..count {
            operation()?;
        }
        let took = start.elapsed();
        if took > LONG {
            println!("{name} {:.0}", took.as_nanos() as f64 / f64::from(count));
            return Ok(());
        }
        count *= 2;
    }
}
