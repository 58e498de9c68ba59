//! The interface for programs: an [`Engine`] with its settings, documents in, results out.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use crate::flow::{CascadeError, Parsed, Unresolved, apply, prepare, root_state_of, state_of};
use groundwork_budget::{Budget, Deadline};

use crate::limits::{LimitError, Limits};
use crate::run::Run;
use crate::scope::{Scope, ScopeRef};
use crate::settings::{Clock, Features, Files, HostFunction, Randomness, Settings};
use crate::syntax::ast::Expr;
use crate::syntax::strings::{unescape_key, unescape_value};
use crate::value::{Flags, Node, Value};
use crate::yaml;

/// Settings of runs. One engine serves any number of runs, also at the same time.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    settings: Settings,
}

/// A failure of a run. There is no document.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// A text is not YAML.
    #[error("error parsing {source_name}: {error}")]
    Read {
        /// Name of the document.
        source_name: String,
        /// Problem and its place in the text.
        error: yaml::ReadError,
    },
    /// A stub, or the template of a flow, is a stream of several documents, where one is allowed.
    #[error("{0} holds several documents; only one is allowed")]
    SeveralDocuments(String),
    /// Some expressions have no value at the end of the run.
    #[error("{0}")]
    Unresolved(Report),
    /// A limit was reached.
    #[error("{limit}{}", at.as_ref().map(|at| format!(" ({at})")).unwrap_or_default())]
    Limit {
        limit: LimitError,
        /// The node that was evaluated when the limit was reached, if it comes from a text.
        at: Option<Position>,
    },
}

/// Place of a node in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Name of the document.
    pub source: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {} of {}", self.line, self.column, self.source)
    }
}

/// The expressions without a value, in the layout of spiff++ (`spiff.md` 15.2).
#[derive(Debug, Clone)]
pub struct Report {
    /// Nodes in the order of the report: errors, then nodes that wait, then nodes affected by
    /// errors.
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
    root_state: Option<Node>,
}

impl Output {
    fn last(mut outputs: Vec<Self>) -> Self {
        outputs.pop().unwrap_or_else(|| Self { node: Node::new(Value::Nil), state: None, root_state: None })
    }

    /// The value, without temporary and local nodes.
    pub fn value(&self) -> &Value {
        &self.node.value
    }

    /// The document as YAML.
    pub fn to_yaml(&self) -> String {
        yaml::write(&self.node.value)
    }

    /// Returns the JSON that reading [`Output::to_yaml`] would give, without writing the text.
    /// Returns `None` for values whose JSON depends on the written text, such as binary content.
    pub fn to_read_json(&self) -> Option<serde_json::Value> {
        yaml::to_read_json(&self.node.value)
    }

    /// Returns the state to store and to pass as the last stub of the next run (`spiff.md` 10.5).
    pub fn state(&self) -> Option<&Value> {
        self.state.as_ref().map(|node| &node.value)
    }

    /// Returns the state that Landscaper stores of an execution (`blueprints.md` 4.6): those
    /// top-level fields of the document that are themselves marked as state, each with its whole
    /// content. Returns `None` if no field is marked.
    pub fn root_state(&self) -> Option<&Value> {
        self.root_state.as_ref().map(|node| &node.value)
    }

    /// Reports whether the document as a whole is temporary. A stream leaves such documents out.
    pub fn is_temporary(&self) -> bool {
        self.node.has(Flags::TEMPORARY)
    }
}

/// A document that was read and can be used in any number of runs.
#[derive(Debug, Clone)]
pub struct Document {
    pub(crate) node: Node,
    parsed: Arc<Parsed>,
}

impl Document {
    /// Reads the documents of a stream; `source` is their name in messages. An empty text is one
    /// null document.
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
        Ok(nodes.into_iter().map(Self::of).collect())
    }

    /// Reads the one document of a text.
    ///
    /// # Errors
    ///
    /// Fails as [`Document::read_all`] does, and for a text with more than one document.
    pub fn read(text: &str, source: &str, limits: &Limits) -> Result<Self, Error> {
        let mut documents = Self::read_all(text, source, limits)?;
        match (documents.pop(), documents.is_empty()) {
            (Some(document), true) => Ok(document),
            _ => Err(Error::SeveralDocuments(source.to_owned())),
        }
    }

    /// Creates a document from a value that was not read from a text.
    pub fn from_value(value: Value) -> Self {
        Self::of(Node::new(value))
    }

    fn of(node: Node) -> Self {
        Self { node, parsed: Arc::default() }
    }

    pub(crate) fn expression(&self, text: &str) -> Option<Arc<Expr>> {
        self.parsed.expression(&self.node, text)
    }

    /// Returns the document with which a run without stubs begins: after its first pass, if that is
    /// the same in all runs.
    fn prepared(&self, settings: &Settings) -> &Node {
        self.parsed.after_first_pass(&self.node, settings).unwrap_or(&self.node)
    }

    /// The value as read, with expressions as texts.
    pub fn value(&self) -> &Value {
        &self.node.value
    }

    /// The document as YAML.
    pub fn to_yaml(&self) -> String {
        yaml::write(&self.node.value)
    }
}

impl Engine {
    /// Creates an engine without features, with the default limits and no functions of the host.
    pub fn new() -> Self {
        Self::default()
    }

    /// Switches features on.
    #[must_use]
    pub fn with_features(mut self, features: Features) -> Self {
        self.settings.features = features;
        self
    }

    /// Replaces the limits.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.settings.limits = limits;
        self
    }

    /// Makes runs spend from a budget that they share with others.
    #[must_use]
    pub fn with_budget(mut self, budget: Budget) -> Self {
        self.settings.budget = Some(budget);
        self
    }

    /// Ends runs at the deadline of the host, however little work they have done.
    #[must_use]
    pub fn with_deadline(mut self, deadline: Deadline) -> Self {
        self.settings.deadline = Some(deadline);
        self
    }

    /// Grants `rand`, `encrypt`, new password hashes, WireGuard keys, private keys and certificates
    /// (`spiff.md` 11.5). Without the grant, calls of these functions fail. The cryptographic
    /// library draws its own randomness for private keys and signatures. Checking hashes and
    /// reading keys, certificates and encrypted values needs no grant.
    #[must_use]
    pub fn with_randomness(mut self, randomness: Randomness) -> Self {
        self.settings.randomness = Some(randomness);
        self
    }

    /// Grants the time: `x509parsecert` reports the remaining hours, and `x509cert` can begin now
    /// (`spiff.md` 11.5).
    #[must_use]
    pub fn with_clock(mut self, clock: Clock) -> Self {
        self.settings.clock = Some(clock);
        self
    }

    /// Shows files to `read`, `lookup_file`, `lookup_dir`, `list_files` and `list_dirs` (`spiff.md`
    /// 11.5). Without the grant, calls of these functions fail. The engine never writes a file.
    #[must_use]
    pub fn with_files(mut self, files: Arc<dyn Files>) -> Self {
        self.settings.files = Some(files);
        self
    }

    /// Makes the messages about failing lambdas and loops show types instead of values (`spiff.md`
    /// 17). Messages of functions about their operands, such as `error(…)`, are not changed.
    #[must_use]
    pub fn with_redaction(mut self) -> Self {
        self.settings.redacted = true;
        self
    }

    /// Evaluates every node in each pass, as spiff++ does: the same results, more slowly. Tests
    /// compare both ways.
    #[must_use]
    #[doc(hidden)]
    pub fn pass_by_pass(mut self) -> Self {
        self.settings.whole_passes = true;
        self
    }

    /// Adds a function. A function with the name of a core function is never called (`spiff.md`
    /// 17).
    #[must_use]
    pub fn with_function(mut self, name: impl Into<String>, function: HostFunction) -> Self {
        self.settings.functions.insert(name.into(), function);
        self
    }

    /// The limits of each run.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// Runs the whole pipeline (`spiff.md` 1.2): first the stubs, from the farthest to the nearest,
    /// then the template. The list of stubs begins with the nearest. Bindings without a name are
    /// ignored.
    ///
    /// # Errors
    ///
    /// Expressions without a value in any of the documents, and limits.
    pub fn cascade(
        &self,
        template: &Document,
        stubs: &[Document],
        bindings: Option<&Value>,
    ) -> Result<Output, Error> {
        self.run(std::slice::from_ref(template), stubs, bindings, true).map(Output::last)
    }

    /// Runs [`Engine::cascade`] for each document of a stream, with the same stubs. Later documents
    /// may refer to earlier ones by the tags `doc.1`, `doc.-1` and so on (`spiff.md` 10.4).
    ///
    /// # Errors
    ///
    /// Fails as [`Engine::cascade`] does, with the error of the first document that fails.
    pub fn cascade_stream(
        &self,
        templates: &[Document],
        stubs: &[Document],
        bindings: Option<&Value>,
    ) -> Result<Vec<Output>, Error> {
        self.run(templates, stubs, bindings, true)
    }

    /// Flows the template against stubs that are used as they are. Escaped expressions stay
    /// escaped.
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
        let mut run = Run::new(&self.settings);
        run.known = if let [template] = templates { Some(template) } else { None };
        run.template = run.known.map(|template| Arc::clone(&template.node.origin.source));
        let named = |bindings: &&Value| !matches!(bindings, Value::Map(map) if map.is_empty());
        let outer = bindings.filter(named).map(|bindings| Scope::bindings(bindings.clone()));
        let process = |run: &mut Run<'_>| self.process(run, templates, stubs, outer.as_ref(), whole);
        match process(&mut run) {
            Ok(outputs) => Ok(outputs),
            Err(CascadeError::Unresolved(nodes)) => Err(Error::Unresolved(Report { nodes })),
            // Only a limit ends an evaluation; the run recorded which one.
            Err(CascadeError::Evaluation(_)) => {
                let limit = run.abort.take().unwrap_or(LimitError::Steps(self.settings.limits.steps));
                Err(Error::Limit { limit, at: run.aborted_at.take() })
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
        let mut stubs: Vec<Node> = stubs.iter().map(|stub| stub.node.clone()).collect();
        let source =
            templates.first().map_or_else(|| Arc::from(""), |first| Arc::clone(&first.node.origin.source));
        if whole {
            stubs = prepare(run, stubs, outer, &source, true)?;
        }
        let mut outputs = Vec::with_capacity(templates.len());
        for (position, template) in templates.iter().enumerate() {
            // The documents of a stream share one set of tags.
            if position == 0 {
                run.tags.next_document();
            }
            let root = if stubs.is_empty() { template.prepared(run.settings) } else { &template.node };
            let mut node = apply(run, root.clone(), &stubs, outer.cloned(), &source)?;
            let (state, root_state) = (state_of(&node), root_state_of(&node));
            if whole {
                unescape(&mut node, self.settings.features);
            }
            run.tags.finished(node.value.clone());
            outputs.push(Output { node, state, root_state });
        }
        Ok(outputs)
    }
}

/// Removes one `!` from escaped expressions (`spiff.md` 13.2).
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
