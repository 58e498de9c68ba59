//! Measures this engine on the templates of a folder: NAME.tmpl with NAME.json. The counterpart of
//! `benches/go`; `cargo xtask bench templates` runs both.
//!
//! Each line of its output is a name and nanoseconds for one operation.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use groundwork_gotemplate::{Functions, MissingKey, NumberMode, Options, Template, Value};

/// Shortest duration of one measurement; `report` repeats the operation until it is reached.
const LONG: Duration = Duration::from_millis(40);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: bench-templates FOLDER")?;
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "tmpl") {
            files.push(path);
        }
    }
    files.sort();
    let functions = Arc::new(Functions::sprig());
    files.iter().try_for_each(|file| bench(file, &functions))
}

fn bench(file: &Path, functions: &Arc<Functions>) -> Result<(), Box<dyn std::error::Error>> {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let source = std::fs::read(file)?;
    let json: serde_json::Value = serde_json::from_slice(&std::fs::read(file.with_extension("json"))?)?;
    let data = Value::from_json(&json, NumberMode::Float64);
    let options = Options { missing_key: MissingKey::Zero, ..Options::default() };
    let parse = || Template::parse("execution", black_box(&source), functions, &options);
    let parsed = parse()?;
    let mut output = Vec::new();
    report(&format!("parse/{name}"), || parse().map(drop))?;
    report(&format!("execute/{name}"), || {
        output.clear();
        parsed.render_into(black_box(data.clone()), &mut output)
    })?;
    report(&format!("parse+execute/{name}"), || {
        output.clear();
        parse()?.render_into(black_box(data.clone()), &mut output)
    })?;
    println!("# {name} {} bytes", output.len());
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
