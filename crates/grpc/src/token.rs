//! Sources of a client's token.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use secrecy::SecretString;

/// Source of the bearer token of calls. Clones share it. `Debug` never shows the token.
#[derive(Clone)]
pub struct TokenSource(Source);

#[derive(Clone)]
enum Source {
    None,
    Fixed(Arc<SecretString>),
    File(Arc<TokenFile>),
}

/// Token in a file that changes: tokens of service accounts are valid for an hour.
struct TokenFile {
    path: PathBuf,
    last: Mutex<Option<Read>>,
}

struct Read {
    /// Length and time of change. The metadata follows links, so a link to another file counts as a
    /// change.
    stamp: (u64, Option<SystemTime>),
    token: Arc<SecretString>,
}

/// Reason that the token cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot read the token file {path}: {source}")]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("the token file {path} is empty")]
    Empty { path: PathBuf },
}

impl fmt::Debug for TokenSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Source::None => f.write_str("TokenSource(none)"),
            Source::Fixed(_) => f.write_str("TokenSource(fixed)"),
            Source::File(file) => write!(f, "TokenSource({})", file.path.display()),
        }
    }
}

impl TokenSource {
    /// Creates a source without a token, for calls that carry all their input.
    pub fn none() -> Self {
        Self(Source::None)
    }

    /// Creates a source with a fixed token.
    pub fn fixed(token: impl Into<String>) -> Self {
        Self(Source::Fixed(Arc::new(SecretString::from(token.into()))))
    }

    /// Creates a source from a file, which is read again when it changes.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self(Source::File(Arc::new(TokenFile { path: path.into(), last: Mutex::new(None) })))
    }

    /// Creates a source from a file, or one without a token if no file is given.
    pub fn of_file(path: Option<PathBuf>) -> Self {
        path.map_or_else(Self::none, Self::file)
    }

    /// Reports whether the source never has a token.
    pub fn is_none(&self) -> bool {
        matches!(self.0, Source::None)
    }

    /// Returns the current token.
    ///
    /// # Errors
    ///
    /// The file cannot be read.
    pub fn token(&self) -> Result<Option<Arc<SecretString>>, TokenError> {
        match &self.0 {
            Source::None => Ok(None),
            Source::Fixed(token) => Ok(Some(Arc::clone(token))),
            Source::File(file) => file.token().map(Some),
        }
    }
}

impl TokenFile {
    /// Returns the token of the file. Checks the metadata on each call, which is cheap, since such
    /// files are in memory.
    fn token(&self) -> Result<Arc<SecretString>, TokenError> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamp(&self.path).map_err(|source| self.unreadable(source))?;
        if let Some(read) = last.as_ref().filter(|read| read.stamp == stamp) {
            return Ok(Arc::clone(&read.token));
        }
        let text = std::fs::read_to_string(&self.path).map_err(|source| self.unreadable(source))?;
        let text = text.trim();
        if text.is_empty() {
            return Err(TokenError::Empty { path: self.path.clone() });
        }
        let token = Arc::new(SecretString::from(text.to_owned()));
        *last = Some(Read { stamp, token: Arc::clone(&token) });
        Ok(token)
    }

    fn unreadable(&self, source: std::io::Error) -> TokenError {
        TokenError::Unreadable { path: self.path.clone(), source }
    }
}

fn stamp(path: &Path) -> std::io::Result<(u64, Option<SystemTime>)> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.len(), metadata.modified().ok()))
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    fn text(source: &TokenSource) -> String {
        source.token().unwrap().map(|token| token.expose_secret().to_owned()).unwrap_or_default()
    }

    #[test]
    fn a_file_that_is_replaced_gives_the_new_token() {
        let folder = tempfile::tempdir().unwrap();
        let (first, second) = (folder.path().join("first"), folder.path().join("second"));
        std::fs::write(&first, "one\n").unwrap();
        std::fs::write(&second, "other\n").unwrap();
        let link = folder.path().join("token");
        std::os::unix::fs::symlink(&first, &link).unwrap();
        let source = TokenSource::file(&link);
        assert_eq!((text(&source), text(&source)), ("one".to_owned(), "one".to_owned()));
        // The kubelet replaces tokens in this way.
        let next = folder.path().join("next");
        std::os::unix::fs::symlink(&second, &next).unwrap();
        std::fs::rename(&next, &link).unwrap();
        assert_eq!(text(&source), "other");
        std::fs::write(&second, " \n").unwrap();
        assert!(matches!(source.token(), Err(TokenError::Empty { .. })));
        std::fs::remove_file(&link).unwrap();
        assert!(matches!(source.token(), Err(TokenError::Unreadable { .. })));
    }

    #[test]
    fn tokens_are_not_shown() {
        assert_eq!(format!("{:?}", TokenSource::fixed("t0ken")), "TokenSource(fixed)");
        assert_eq!(text(&TokenSource::none()), "");
    }
}
