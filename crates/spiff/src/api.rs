//! What programs use: an [`Engine`] with its settings, documents in, results out.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use thiserror::Error;

use crate::eval::EvalError;
use crate::flow::{CascadeError, Unresolved, apply, prepare, state_of};
use crate::issue::Issue;
use crate::limits::Limits;
use crate::run::Run;
use crate::scope::{Scope, ScopeRef};
use crate::syntax::strings::{unescape_key, unescape_value};
use crate::value::{Flags, Node, Value};
use crate::yaml;

/// Settings of runs; one engine serves any number of them, also at the same time.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    pub(crate) features: Features,
    pub(crate) limits: Limits,
    pub(crate) functions: BTreeMap<String, HostFunction>,
    pub(crate) randomness: Option<Randomness>,
    pub(crate) clock: Option<Clock>,
    pub(crate) files: Option<Arc<dyn Files>>,
    /// Whether messages show the types of arguments instead of their values.
    pub(crate) redacted: bool,
    /// Whether each pass looks at every node, as the original does: for tests that compare.
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

    pub(crate) fn call(&self, arguments: &[Value]) -> Result<Value, EvalError> {
        (self.0)(arguments).map_err(EvalError::issue)
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

/// Why a run gave no document.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is no YAML.
    #[error("error parsing {source_name}: {error}")]
    Read {
        /// Name of the document.
        source_name: String,
        /// What is wrong with it, and where.
        error: yaml::ReadError,
    },
    /// A stub, or the template of a flow, is a stream of several documents.
    #[error("{0} holds several documents; only one is allowed")]
    SeveralDocuments(String),
    /// Expressions are left without value.
    #[error("{0}")]
    Unresolved(Report),
    /// A limit was reached.
    #[error(transparent)]
    Limit(#[from] LimitError),
}

/// A limit that was reached.
#[derive(Debug, Clone, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum LimitError {
    /// [`Limits::passes`].
    #[error("no fixed point after {0} passes")]
    Passes(usize),
    /// [`Limits::nodes`].
    #[error("a value has more than {0} entries; a template must not make it grow without end")]
    Nodes(usize),
    /// [`Limits::string_bytes`].
    #[error("a string is longer than {0} bytes; a template must not make it grow without end")]
    StringBytes(usize),
    /// [`Limits::nesting`].
    #[error("lists and maps are more than {0} levels deep")]
    Nesting(usize),
    /// [`Limits::calls`].
    #[error("more than {0} calls of lambdas and templates in each other; a recursion has no end")]
    Calls(usize),
    /// [`Limits::steps`].
    #[error("more than {0} evaluations")]
    Steps(u64),
    /// [`Limits::time`].
    #[error("the evaluation takes longer than {} s", .0.as_secs_f64())]
    Time(Duration),
}

/// The expressions that are left, in the layout of the original (section 15.2).
#[derive(Debug, Clone)]
pub struct Report {
    /// Errors first, then what waits, then what is affected by errors.
    pub nodes: Vec<Unresolved>,
}

impl fmt::Display for Report {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("unresolved nodes:")?;
        self.nodes.iter().try_for_each(|node| write!(formatter, "\n\t{node}"))
    }
}

/// A finished document.
#[derive(Debug, Clone)]
pub struct Output {
    node: Node,
    state: Option<Node>,
}

impl Output {
    fn last(mut outputs: Vec<Self>) -> Self {
        outputs.pop().unwrap_or_else(|| Self { node: Node::new(Value::Nil), state: None })
    }

    /// The value, without temporary and local nodes.
    pub fn value(&self) -> &Value {
        &self.node.value
    }

    /// The document as YAML.
    pub fn to_yaml(&self) -> String {
        yaml::write(&self.node.value)
    }

    /// What is to be stored and given as the last stub of the next run (section 10.5).
    pub fn state(&self) -> Option<&Value> {
        self.state.as_ref().map(|node| &node.value)
    }

    /// Whether the document as a whole is temporary: a stream leaves it out.
    pub fn is_temporary(&self) -> bool {
        self.node.has(Flags::TEMPORARY)
    }
}

/// A document that was read and can be used in any number of runs.
#[derive(Debug, Clone)]
pub struct Document(pub(crate) Node);

impl Document {
    /// The documents of a stream; `source` is their name in messages. Empty text is one null document.
    ///
    /// # Errors
    ///
    /// Malformed YAML, and texts beyond the limits of the engine.
    pub fn read_all(text: &str, source: &str, limits: &Limits) -> Result<Vec<Self>, Error> {
        let failed = |error| Error::Read { source_name: source.to_owned(), error };
        let mut nodes = yaml::read(text, &Arc::from(source), limits).map_err(failed)?;
        if nodes.is_empty() {
            nodes.push(Node::new(Value::Nil));
        }
        Ok(nodes.into_iter().map(Self).collect())
    }

    /// The one document of a text.
    ///
    /// # Errors
    ///
    /// As [`Document::read_all`], and more than one document.
    pub fn read(text: &str, source: &str, limits: &Limits) -> Result<Self, Error> {
        let mut documents = Self::read_all(text, source, limits)?;
        match (documents.pop(), documents.is_empty()) {
            (Some(document), true) => Ok(document),
            _ => Err(Error::SeveralDocuments(source.to_owned())),
        }
    }

    /// A document of a value that did not come out of a text.
    pub fn from_value(value: Value) -> Self {
        Self(Node::new(value))
    }

    /// What was read, with expressions as texts.
    pub fn value(&self) -> &Value {
        &self.0.value
    }

    /// The document as YAML.
    pub fn to_yaml(&self) -> String {
        yaml::write(&self.0.value)
    }
}

impl Engine {
    /// Without features, with the default limits and no functions of the host.
    pub fn new() -> Self {
        Self::default()
    }

    /// Switches features on.
    #[must_use]
    pub fn with_features(mut self, features: Features) -> Self {
        self.features = features;
        self
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Grants `rand`, `encrypt`, new password hashes, WireGuard keys, and private keys and certificates with the feature `keys` (section
    /// 11.5); without it they fail where they are called. These keys and signatures are made with the randomness of their library.
    /// Checking hashes and reading keys, certificates and encrypted values needs no grant.
    #[must_use]
    pub fn with_randomness(mut self, randomness: Randomness) -> Self {
        self.randomness = Some(randomness);
        self
    }

    /// Lets `x509parsecert` say how many hours are left, and `x509cert` begin now (section 11.5).
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Shows files to `read`, `lookup_file`, `lookup_dir`, `list_files` and `list_dirs` (section 11.5); without it they fail
    /// where they are called. Nothing is ever written.
    #[must_use]
    pub fn with_files(mut self, files: Arc<dyn Files>) -> Self {
        self.files = Some(files);
        self
    }

    /// Lets the messages about failing lambdas and loops show types instead of values (section 17). What functions say of their
    /// operands, such as `error(…)`, is not changed by this.
    #[must_use]
    pub fn with_redaction(mut self) -> Self {
        self.redacted = true;
        self
    }

    /// Looks at every node in each pass, as the original does: the same results, more slowly. For tests that compare.
    #[must_use]
    #[doc(hidden)]
    pub fn pass_by_pass(mut self) -> Self {
        self.whole_passes = true;
        self
    }

    /// Adds a function; core functions keep their names (section 17).
    #[must_use]
    pub fn with_function(mut self, name: impl Into<String>, function: HostFunction) -> Self {
        self.functions.insert(name.into(), function);
        self
    }

    /// The limits of each run.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// The whole pipeline: stubs, nearest first, from the far end, and then the template (section 1.2). Bindings without a
    /// name are none.
    ///
    /// # Errors
    ///
    /// Expressions without value in any of the documents, and limits.
    pub fn cascade(
        &self,
        template: &Document,
        stubs: &[Document],
        bindings: Option<&Value>,
    ) -> Result<Output, Error> {
        self.run(std::slice::from_ref(template), stubs, bindings, true).map(Output::last)
    }

    /// [`Engine::cascade`] for each document of a stream, with the same stubs; later ones may refer to earlier ones by the tags
    /// `doc.1`, `doc.-1` and so on (section 10.4).
    ///
    /// # Errors
    ///
    /// As [`Engine::cascade`], of the first document that fails.
    pub fn cascade_stream(
        &self,
        templates: &[Document],
        stubs: &[Document],
        bindings: Option<&Value>,
    ) -> Result<Vec<Output>, Error> {
        self.run(templates, stubs, bindings, true)
    }

    /// The template against stubs that are taken as they are; what was escaped stays escaped.
    ///
    /// # Errors
    ///
    /// As [`Engine::cascade`].
    pub fn flow(
        &self,
        template: &Document,
        stubs: &[Document],
        bindings: Option<&Value>,
    ) -> Result<Output, Error> {
        self.run(std::slice::from_ref(template), stubs, bindings, false).map(Output::last)
    }

    fn run(
        &self,
        templates: &[Document],
        stubs: &[Document],
        bindings: Option<&Value>,
        whole: bool,
    ) -> Result<Vec<Output>, Error> {
        let mut run = Run::new(self);
        let named = |bindings: &&Value| !matches!(bindings, Value::Map(map) if map.is_empty());
        let outer = bindings.filter(named).map(|bindings| Scope::bindings(bindings.clone()));
        let process = |run: &mut Run<'_>| self.process(run, templates, stubs, outer.as_ref(), whole);
        match process(&mut run) {
            Ok(outputs) => Ok(outputs),
            Err(CascadeError::Unresolved(nodes)) => Err(Error::Unresolved(Report { nodes })),
            // Only a limit ends a run; the run knows which.
            Err(CascadeError::Evaluation(_)) => {
                Err(run.abort.unwrap_or(LimitError::Steps(self.limits.steps)).into())
            }
        }
    }

    fn process(
        &self,
        run: &mut Run<'_>,
        templates: &[Document],
        stubs: &[Document],
        outer: Option<&ScopeRef>,
        whole: bool,
    ) -> Result<Vec<Output>, CascadeError> {
        let mut stubs: Vec<Node> = stubs.iter().map(|stub| stub.0.clone()).collect();
        let source =
            templates.first().map_or_else(|| Arc::from(""), |first| Arc::clone(&first.0.origin.source));
        if whole {
            stubs = prepare(run, stubs, outer, &source, true)?;
        }
        let mut outputs = Vec::with_capacity(templates.len());
        for (position, template) in templates.iter().enumerate() {
            // The documents of a stream share its tags.
            if position == 0 {
                run.tags.next_document();
            }
            let mut node = apply(run, template.0.clone(), &stubs, outer.cloned(), &source)?;
            let state = state_of(&node);
            if whole {
                unescape(&mut node, self.features);
            }
            run.tags.finished(node.value.clone());
            outputs.push(Output { node, state });
        }
        Ok(outputs)
    }
}

/// Takes one `!` from what was escaped (section 13.2).
fn unescape(node: &mut Node, features: Features) {
    match &mut node.value {
        Value::String(text) => {
            if let Some(plain) = unescape_value(text, features.interpolation) {
                *text = Arc::from(plain);
            }
        }
        Value::Map(map) if !map.known_inert() || map.keys().any(|key| key.starts_with("<<")) => {
            let entries = map.iter().map(|(key, node)| {
                let mut node = node.clone();
                unescape(&mut node, features);
                (unescape_key(key, features.control).map_or_else(|| Arc::clone(key), Arc::from), node)
            });
            *map = Arc::new(entries.collect());
        }
        Value::List(list) if !list.known_inert() => {
            let entries = list.iter().map(|node| {
                let mut node = node.clone();
                unescape(&mut node, features);
                node
            });
            *list = Arc::new(entries.collect());
        }
        _ => {}
    }
}
