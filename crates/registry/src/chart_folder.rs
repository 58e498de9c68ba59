//! Reads a Helm chart from a folder on disk (`helm.md` 2.2).

use std::fs;
use std::path::{Path, PathBuf};

use groundwork_helm::{Chart, File, IGNORE_FILE, Ignore, LARGEST_FILE};

/// Limit for the levels of folders, because links can form a cycle.
const DEEPEST: usize = 64;
/// Limit for the files of a chart, the same as for a chart in an archive.
const MOST_FILES: usize = 20_000;

/// Reads the chart in the folder `top`, without the files that its `.helmignore` leaves out.
///
/// # Errors
///
/// A file cannot be read, a link leads outside of the chart, a limit is exceeded, or the files are
/// not a chart.
pub fn load_chart_folder(top: &Path) -> Result<Chart, String> {
    let top = fs::canonicalize(top).map_err(|error| unreadable(top, &error))?;
    let rules = match fs::read(top.join(IGNORE_FILE)) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(unreadable(&top.join(IGNORE_FILE), &error)),
    };
    let ignore = Ignore::parse(&rules).map_err(|error| error.to_string())?;
    let mut walk = Walk { top: &top, ignore, files: Vec::new() };
    walk.folder(&top, "", 0)?;
    Chart::from_files(walk.files).map_err(|error| error.to_string())
}

fn unreadable(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}

struct Walk<'t> {
    top: &'t Path,
    ignore: Ignore,
    files: Vec<File>,
}

impl Walk<'_> {
    fn folder(&mut self, folder: &Path, prefix: &str, depth: usize) -> Result<(), String> {
        if depth > DEEPEST {
            return Err(format!("{} is nested too deep", folder.display()));
        }
        let entries = fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
        let entries: Result<Vec<_>, _> = entries.collect();
        let mut names: Vec<_> = entries
            .map_err(|error| unreadable(folder, &error))?
            .iter()
            .map(fs::DirEntry::file_name)
            .collect();
        names.sort();
        for name in names {
            let path = format!("{prefix}{}", name.to_string_lossy());
            self.entry(&folder.join(&name), path, depth)?;
        }
        Ok(())
    }

    fn entry(&mut self, place: &Path, path: String, depth: usize) -> Result<(), String> {
        let place = &self.followed(place)?;
        let metadata = fs::metadata(place).map_err(|error| unreadable(place, &error))?;
        if self.ignore.leaves_out(&path, metadata.is_dir()) {
            return Ok(());
        }
        if metadata.is_dir() {
            return self.folder(place, &format!("{path}/"), depth + 1);
        }
        if !metadata.is_file() {
            let name = place.display();
            return Err(format!("cannot load irregular file {name} as it has file mode type bits set"));
        }
        if metadata.len() > LARGEST_FILE as u64 {
            let name = path.rsplit('/').next().unwrap_or(&path);
            return Err(format!("chart file {name:?} is larger than the maximum file size {LARGEST_FILE}"));
        }
        if self.files.len() >= MOST_FILES {
            return Err(format!("chart has more than {MOST_FILES} files"));
        }
        let data = fs::read(place).map_err(|error| unreadable(place, &error))?;
        self.files.push(File::without_mark(path, &data));
        Ok(())
    }

    /// Resolves a link, which must lead to a file inside of the chart (`helm.md` 2.2, R2).
    fn followed(&self, place: &Path) -> Result<PathBuf, String> {
        let is_link = fs::symlink_metadata(place).is_ok_and(|metadata| metadata.is_symlink());
        if !is_link {
            return Ok(place.to_owned());
        }
        let target = fs::canonicalize(place).map_err(|error| unreadable(place, &error))?;
        if target.starts_with(self.top) {
            Ok(target)
        } else {
            Err(format!("chart link {} points outside the chart", place.display()))
        }
    }
}
