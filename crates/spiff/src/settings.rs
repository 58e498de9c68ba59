//! What a host chooses for the runs of an engine: features, limits, and what it grants.

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
    /// What runs share with others, besides the limits of their own.
    pub(crate) budget: Option<Budget>,
    pub(crate) deadline: Option<Deadline>,
    /// Whether messages show the types of arguments instead of their values.
    pub(crate) redacted: bool,
    /// Whether each pass looks at every node, as spiff++ does: for tests that compare.
    pub(crate) whole_passes: bool,
}

/// Parts of the language that have to be asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Features {
    /// `<<if`, `<<for` and the like (section 12).
    pub control: bool,
    /// Expressions inside of longer strings (section 13.1).
    pub interpolation: bool,
}

impl Features {
    /// Names of the features that are on.
    pub fn names(self) -> Vec<&'static str> {
        [("control", self.control), ("interpolation", self.interpolation)]
            .into_iter()
            .filter_map(|(name, on)| on.then_some(name))
            .collect()
    }
}

/// Of final values; the text is the message of the failing expression.
type Host = dyn Fn(&[Value]) -> Result<Value, String> + Send + Sync;

/// A function that the program brings along.
#[derive(Clone)]
pub struct HostFunction(Arc<Host>);

impl HostFunction {
    /// A function of final values; its message is that of the failing expression.
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

/// Fills a buffer with random bytes that are fit for keys.
type Fill = dyn Fn(&mut [u8]) -> Result<(), String> + Send + Sync;

/// Where random values and salts come from.
#[derive(Clone)]
pub struct Randomness(Arc<Fill>);

impl Randomness {
    /// A source; its message is that of the failing expression.
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

/// Tells the time.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    /// What tells the time of the host.
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

/// Files that expressions may read: what the host chooses to show, as the files of a blueprint. Paths are as they stand in the
/// expression; the messages become those of the failing expression.
pub trait Files: fmt::Debug + Send + Sync {
    /// Content of a file.
    ///
    /// # Errors
    ///
    /// There is no such file, or it cannot be read.
    fn read(&self, path: &str) -> Result<Vec<u8>, String>;

    /// Names in a directory, in any order.
    ///
    /// # Errors
    ///
    /// There is no such directory.
    fn list(&self, path: &str) -> Result<Vec<String>, String>;

    /// Whether the path is a directory; `None` if there is nothing.
    fn is_directory(&self, path: &str) -> Option<bool>;
}
