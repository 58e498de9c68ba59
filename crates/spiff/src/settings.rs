//! Settings that a host chooses for the runs of an engine: features, limits, and grants.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::SystemTime;

use groundwork_budget::{Budget, Deadline};

use crate::issue::Issue;
use crate::limits::Limits;
use crate::value::Value;

/// Settings of runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) features: Features,
    pub(crate) limits: Limits,
    pub(crate) functions: BTreeMap<String, HostFunction>,
    pub(crate) randomness: Option<Randomness>,
    pub(crate) clock: Option<Clock>,
    pub(crate) files: Option<Arc<dyn Files>>,
    /// Budget that runs share with others, besides their own limits.
    pub(crate) budget: Option<Budget>,
    pub(crate) deadline: Option<Deadline>,
    /// True if messages show the types of arguments instead of their values.
    pub(crate) redacted: bool,
    /// True if each pass evaluates every node, as spiff++ does. For tests that compare both ways.
    pub(crate) whole_passes: bool,
}

/// Parts of the language that are off by default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    /// `<<if`, `<<for` and the other controls (`spiff.md` 12).
    pub control: bool,
    /// Expressions inside longer strings (`spiff.md` 13.1).
    pub interpolation: bool,
}

impl Features {
    /// Returns the names of the enabled features.
    pub fn names(self) -> Vec<&'static str> {
        [("control", self.control), ("interpolation", self.interpolation)]
            .into_iter()
            .filter_map(|(name, on)| on.then_some(name))
            .collect()
    }
}

/// Implementation of a host function. Its arguments are final values; its error is the message of
/// the failing expression.
type Host = dyn Fn(&[Value]) -> Result<Value, String> + Send + Sync;

/// A function that the program provides.
#[derive(Clone)]
pub struct HostFunction(Arc<Host>);

impl HostFunction {
    /// Creates a function of final values. Its error is the message of the failing expression.
    pub fn new(function: impl Fn(&[Value]) -> Result<Value, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(function))
    }

    pub(crate) fn call(&self, arguments: &[Value]) -> Result<Value, Issue> {
        (self.0)(arguments).map_err(Issue::new)
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("HostFunction")
    }
}

/// Fills a buffer with random bytes fit for keys.
type Fill = dyn Fn(&mut [u8]) -> Result<(), String> + Send + Sync;

/// The source of random values and salts.
#[derive(Clone)]
pub struct Randomness(Arc<Fill>);

impl Randomness {
    /// Creates a source. Its error is the message of the failing expression.
    pub fn new(fill: impl Fn(&mut [u8]) -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(fill))
    }

    pub(crate) fn fill(&self, bytes: &mut [u8]) -> Result<(), Issue> {
        (self.0)(bytes).map_err(Issue::new)
    }
}

impl fmt::Debug for Randomness {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Randomness")
    }
}

/// The clock of the host.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// Creates a clock from a function that returns the host's time.
    pub fn new(now: impl Fn() -> SystemTime + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    pub(crate) fn now(&self) -> SystemTime {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Clock")
    }
}

/// Files that expressions may read: those that the host chooses to show, such as the files of a
/// blueprint. Paths are passed as they are in the expression; errors become the messages of the
/// failing expression.
pub trait Files: fmt::Debug + Send + Sync {
    /// Returns the content of a file.
    ///
    /// # Errors
    ///
    /// There is no such file, or it cannot be read.
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;

    /// Returns the names in a directory, in any order.
    ///
    /// # Errors
    ///
    /// There is no such directory.
    fn list(&self, path: &str) -> Result<Vec<String>, String>;

    /// Reports whether the path is a directory; `None` if it does not exist.
    fn is_directory(&self, path: &str) -> Option<bool>;
}
