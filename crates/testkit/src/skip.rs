//! Prints notes about skipped tests.

use std::io::Write;

use crate::binaries::{Server, find};

/// Reports whether all these servers can be started. If not, the caller should return: the test is
/// skipped.
///
/// # Panics
/// A server is missing and the variable `CI` is set, because a note in a build's log is easily
/// overlooked.
#[must_use]
pub fn servers_or_skip(servers: &[Server]) -> bool {
    let missing: Vec<_> = servers.iter().filter_map(|server| find(*server).err()).collect();
    if missing.is_empty() {
        return true;
    }
    let reasons: Vec<_> = missing.iter().map(ToString::to_string).collect();
    let reasons = reasons.join("; ");
    assert!(std::env::var_os("CI").is_none_or(|value| value.is_empty()), "{reasons}");
    skipped(&reasons);
    false
}

/// Prints that the current test, or a part of it, was skipped.
///
/// The test harness captures output and shows it only for failures, so this writes to standard
/// error directly.
pub fn skipped(reason: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // A note that cannot be written is not a reason to fail.
    let _ = writeln!(std::io::stderr(), "SKIPPED {test}: {reason}");
}
