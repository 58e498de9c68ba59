//! Writes the standard output of all commands.

use std::io::{ErrorKind, Write as _};

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;

/// Writes bytes to standard output unchanged, including terminal sequences.
pub(crate) fn write_bytes(bytes: &[u8]) -> Ending {
    let mut out = std::io::stdout().lock();
    ended(out.write_all(bytes).and_then(|()| out.flush()))
}

/// Writes text to standard output. A reader that closes the pipe early, such as `head`, is not an
/// error; a full disk is.
pub(crate) fn write(text: &str) -> Ending {
    let mut out = anstream::stdout();
    ended(out.write_all(text.as_bytes()).and_then(|()| out.flush()))
}

fn ended(written: std::io::Result<()>) -> Ending {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            diagnostic::print(&[Diagnostic::error(format!("cannot write to standard output: {error}"))]);
            Ending::Unusable
        }
        _ => Ending::Rendered,
    }
}
