//! `cargo xtask examples`: writes the component stores of the examples from readable sources.
//!
//! `examples/<name>/components/repositories.yaml` maps repositories to directories. The component
//! versions of directory `D` have their sources in `components/sources/D/<version>/`: a
//! `component-descriptor.yaml` and, for every blueprint resource, its files in `blueprint/`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use groundwork_registry::{CtfWriter, RepositoryMap, Store};

/// Writes the stores of all examples; with `check` it only reports those that are not up to date.
pub(crate) fn run(workspace: &Path, check: bool) -> Result<()> {
    let mut stale = Vec::new();
    let mut stores = 0;
    for example in folders(&workspace.join("examples"))? {
        let components = example.join("components");
        let map_file = components.join("repositories.yaml");
        if !map_file.exists() {
            continue;
        }
        let map = RepositoryMap::load(&map_file)?;
        for (context, store) in map.stores() {
            let Store::Directory(directory) = store else { continue };
            let Some(name) = directory.file_name() else { continue };
            let sources = components.join("sources").join(name);
            let fresh = tempfile::tempdir()?;
            let mut writer = CtfWriter::create(fresh.path(), context.clone())?;
            writer.add_all(&sources)?;
            writer.finish()?;
            stores += 1;
            if contents(fresh.path())? != contents(directory).unwrap_or_default() {
                let shown = directory.strip_prefix(workspace).unwrap_or(directory).display().to_string();
                if !check {
                    replace(directory, fresh.path())?;
                    println!("written: {shown}");
                }
                stale.push(shown);
            }
        }
    }
    if check && !stale.is_empty() {
        bail!("not up to date: {}; run `cargo xtask examples`", stale.join(", "));
    }
    println!("{stores} component stores are up to date");
    Ok(())
}

/// Returns all files below a folder by their relative names, with `/` between the parts.
fn contents(folder: &Path) -> Result<BTreeMap<String, Vec<u8>>> {
    let mut files = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).with_context(|| format!("cannot read {}", next.display()))? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let parts: Vec<_> =
                path.strip_prefix(folder)?.iter().map(|part| part.to_string_lossy()).collect();
            files.insert(parts.join("/"), fs::read(&path)?);
        }
    }
    Ok(files)
}

fn replace(directory: &Path, fresh: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory)?;
    }
    for (name, content) in contents(fresh)? {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap_or(directory))?;
        fs::write(path, content)?;
    }
    Ok(())
}

fn folders(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut folders: Vec<PathBuf> =
        entries.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort();
    Ok(folders)
}
