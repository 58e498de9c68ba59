//! Archives of charts (`helm.md` 2.1): tar in gzip, with rules on paths and sizes.

use std::io::{self, Read};

use flate2::read::MultiGzDecoder;
use groundwork_go::path;

use crate::chart::{File, LARGEST_FILE, MOST_FILES};

/// Largest size of all files of a chart together, unpacked, in bytes.
const LARGEST_CHART: u64 = 100 << 20;
/// Largest size of a compressed archive, in bytes.
pub const LARGEST_ARCHIVE: usize = 20 << 20;

/// The reason why an archive cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveError {
    #[error("chart archive larger than {LARGEST_ARCHIVE} bytes")]
    Archive,
    #[error("EOF")]
    Empty,
    #[error("unexpected EOF")]
    Truncated,
    #[error("gzip: invalid header")]
    NoGzip,
    #[error("archive/tar: invalid tar header")]
    NoTar,
    /// Message of the decoder.
    #[error("{0}")]
    Unreadable(String),
    #[error("chart illegally contains absolute paths")]
    AbsolutePath,
    #[error("chart illegally contains content outside the base directory: {0:?}")]
    OutsideBase(String),
    #[error("chart illegally references parent directory")]
    Parent,
    #[error("chart contains illegally named files")]
    Drive,
    #[error("chart yaml not in base directory")]
    DescriptionAtTop,
    #[error("decompressed chart is larger than the maximum file size {LARGEST_CHART}")]
    LargeChart,
    #[error("decompressed chart file {0:?} is larger than the maximum file size {LARGEST_FILE}")]
    LargeFile(String),
    #[error("no files in chart archive")]
    NoFiles,
    #[error("chart has more than {MOST_FILES} files")]
    ManyFiles,
}

/// The content of an archive.
#[derive(Debug)]
pub(crate) struct Unpacked {
    pub(crate) files: Vec<File>,
    pub(crate) warnings: Vec<String>,
}

/// Unpacks the files below the one folder at the top.
pub(crate) fn unpack(bytes: &[u8]) -> Result<Unpacked, ArchiveError> {
    check_header(bytes)?;
    // The reader stops a little beyond the limit on unpacked bytes, and files beyond it are not
    // kept: a bomb costs bounded time and no memory.
    let mut archive = tar::Archive::new(MultiGzDecoder::new(bytes).take(LARGEST_CHART + (64 << 20)));
    let mut unpacked = Unpacked { files: Vec::new(), warnings: Vec::new() };
    let mut left = LARGEST_CHART;
    let mut is_empty = true;
    for entry in archive.entries().map_err(|error| unreadable(&error))? {
        let mut entry = entry.map_err(|error| unreadable(&error))?;
        let kind = entry.header().entry_type();
        // Skip directories, and headers that only describe other entries. Old tar formats mark a
        // directory only by the slash at the end of its name.
        if kind.is_dir()
            || entry.path_bytes().ends_with(b"/")
            || kind.is_pax_global_extensions()
            || kind.is_pax_local_extensions()
        {
            continue;
        }
        let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
        let inside = path_inside(&name)?;
        is_empty = false;
        if !kind.is_file() && !kind.is_contiguous() && !kind.is_gnu_sparse() {
            unpacked
                .warnings
                .push(format!("entry {name:?} of the archive is not a regular file and is ignored"));
            continue;
        }
        let size = entry.size();
        if size > left {
            return Err(ArchiveError::LargeChart);
        }
        if size > LARGEST_FILE as u64 {
            return Err(ArchiveError::LargeFile(name));
        }
        left -= size;
        if unpacked.files.len() >= MOST_FILES {
            return Err(ArchiveError::ManyFiles);
        }
        // The size comes from the header. It is checked above, so that a forged one cannot reserve
        // memory.
        let mut data = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
        entry.read_to_end(&mut data).map_err(|error| unreadable(&error))?;
        unpacked.files.push(File::without_mark(inside, &data));
    }
    if is_empty {
        return Err(ArchiveError::NoFiles);
    }
    Ok(unpacked)
}

fn check_header(bytes: &[u8]) -> Result<(), ArchiveError> {
    match bytes {
        _ if bytes.len() > LARGEST_ARCHIVE => Err(ArchiveError::Archive),
        [] => Err(ArchiveError::Empty),
        [0x1f, 0x8b, 8, ..] if bytes.len() >= 10 => Ok(()),
        _ if bytes.len() < 10 => Err(ArchiveError::Truncated),
        _ => Err(ArchiveError::NoGzip),
    }
}

fn unreadable(error: &io::Error) -> ArchiveError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => ArchiveError::Truncated,
        io::ErrorKind::InvalidInput => ArchiveError::NoTar,
        // The tar library wraps the message of its reader, so the kind is found by its text.
        _ => match error.get_ref().map(ToString::to_string) {
            Some(text) if text.contains("cksum") || text.contains("numeric field") => ArchiveError::NoTar,
            Some(text)
                if text.contains("unexpected end of file")
                    || text.contains("failed to read entire block") =>
            {
                ArchiveError::Truncated
            }
            Some(text) if text.contains("gzip header") => ArchiveError::NoGzip,
            Some(text) => ArchiveError::Unreadable(text),
            None => ArchiveError::Unreadable(error.to_string()),
        },
    }
}

/// Returns the path below the top folder.
pub(crate) fn path_inside(name: &str) -> Result<String, ArchiveError> {
    let separator = if name.contains('\\') { '\\' } else { '/' };
    let rest = name.split_once(separator).map_or("", |(_, rest)| rest).replace('\\', "/");
    if rest.starts_with('/') {
        return Err(ArchiveError::AbsolutePath);
    }
    let cleaned = String::from_utf8_lossy(&path::clean(rest.as_bytes())).into_owned();
    if cleaned == "." {
        return Err(ArchiveError::OutsideBase(name.to_owned()));
    }
    if cleaned.starts_with("..") {
        return Err(ArchiveError::Parent);
    }
    if let [drive, b':', b'/', ..] = cleaned.as_bytes()
        && drive.is_ascii_alphabetic()
    {
        return Err(ArchiveError::Drive);
    }
    if name.split(separator).next() == Some("Chart.yaml") {
        return Err(ArchiveError::DescriptionAtTop);
    }
    Ok(cleaned)
}
