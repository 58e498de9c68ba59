//! Functions that flow a document of their own: `merge(…)`, `parse(…)` (`spiff.md` 11.2 and 11.4),
//! and `eval(…)`.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use super::{Eval, EvalError, Evaluated, Info, evaluate};
use crate::env::Env;
use crate::flow::{CascadeError, Unresolved, cascade, flow};
use crate::functions::decrypted;
use crate::issue::Issue;
use crate::run::Run;
use crate::scope::dotted;
use crate::syntax;
use crate::value::{Map, Node, Template, Value};
use crate::yaml;

/// Runs `merge(map…)` and `merge(list of maps)`: flows the first map with the others as stubs.
pub(super) fn merge(run: &mut Run<'_>, arguments: &[Value], env: &Env<'_>) -> Eval {
    let documents = match arguments {
        [] => return Err(EvalError::issue("at least one argument required for merge function")),
        [Value::List(list)] => maps(list.values(), "entry of list argument:")?,
        arguments => maps(arguments.iter(), "argument")?,
    };
    let mut documents = documents.into_iter();
    let Some(first) = documents.next() else {
        return Err(EvalError::issue("merge: no map found for merge"));
    };
    let (stubs, scope, source) = (documents.collect(), env.scope.clone(), Arc::from("dynaml"));
    match run.called(|run| Ok(cascade(run, first, stubs, scope, &source)))? {
        Ok(node) => Evaluated::ok(node.value),
        Err(CascadeError::Evaluation(error)) => Err(error),
        Err(CascadeError::Unresolved(nodes)) => {
            let mut message = "merging failed: unresolved nodes:".to_owned();
            for node in nodes {
                let _ = write!(message, "\n\t{node}");
            }
            Err(EvalError::issue(message))
        }
    }
}

/// Returns the documents to merge: maps and templates of maps.
fn maps<'a>(values: impl Iterator<Item = &'a Value>, place: &str) -> Result<Vec<Node>, EvalError> {
    let document = |(position, value): (usize, &Value)| match value {
        Value::Map(_) => Ok(Node::new(value.clone())),
        Value::Template(template) if matches!(template.content.value, Value::Map(_)) => {
            Ok(template.content.clone())
        }
        value => {
            let why = match value {
                Value::Template(_) => "template is not a map template".to_owned(),
                value => format!("no map or map template, but {}", value.type_name()),
            };
            Err(EvalError::issue(format!("merge: {place} {position}: {why}")))
        }
    };
    (1..).zip(values).map(document).collect()
}

/// Runs `eval(text)`: evaluates the expression in the text, in place.
pub(super) fn eval(run: &mut Run<'_>, arguments: &[Value], env: &Env<'_>) -> Eval {
    let [argument] = arguments else { return Err(EvalError::issue("one argument required for 'eval'")) };
    let Value::String(text) = argument else {
        return Err(EvalError::issue("string argument required for 'eval'"));
    };
    let expression = syntax::parse(text).map_err(|error| EvalError::issue(format!("({text})\t {error}")))?;
    Ok(run.called(|run| evaluate(run, &expression, env))?.whole())
}

/// Runs `parse(text [, mode])`.
pub(super) fn parse(run: &mut Run<'_>, arguments: &[Value], env: &Env<'_>) -> Eval {
    let (text, mode) = match arguments {
        [text] => (text, None),
        [text, mode] => (text, Some(mode)),
        _ => return Err(EvalError::issue("parse takes one or two arguments")),
    };
    let Value::String(text) = text else {
        return Err(EvalError::issue("first argument for parse must be a string"));
    };
    let mode = match mode {
        None => "import",
        Some(Value::String(mode)) => mode,
        Some(_) => return Err(EvalError::issue("second argument for parse must be a string")),
    };
    content(run, text, mode, env)
}

/// Runs `decrypt(s [, key [, method]])`. The decrypted value is evaluated at the node that receives
/// it.
pub(super) fn decrypt(run: &mut Run<'_>, arguments: &[Value], env: &Env<'_>) -> Eval {
    let text = decrypted(arguments)?;
    content(run, &text, "import", env)
}

/// Converts a text according to `mode`.
pub(super) fn content(run: &mut Run<'_>, text: &str, mode: &str, env: &Env<'_>) -> Eval {
    let content = Content { text, mode, name: Arc::from(dotted(&env.path.steps())) };
    content.take(run, env)
}

/// A text and the mode of its conversion.
struct Content<'a> {
    text: &'a str,
    mode: &'a str,
    /// Name of the text in messages: the path of the node with the expression.
    name: Arc<str>,
}

impl Content<'_> {
    fn take(&self, run: &mut Run<'_>, env: &Env<'_>) -> Eval {
        // A dot in front of the mode makes the text a document with a root of its own.
        let (mode, rooted) = self.mode.strip_prefix('.').map_or((self.mode, false), |mode| (mode, true));
        match mode {
            "text" => Evaluated::ok(Value::string(self.text)),
            "binary" => {
                Evaluated::ok(Value::string(crate::functions::base64_lines(self.text.as_bytes(), 60)))
            }
            "import" => Ok(raw(self.single(run)?.value)),
            "importmulti" => Ok(raw(self.list(run)?.value)),
            "template" => Evaluated::ok(template(self.single(run)?, env)),
            "templates" => {
                let nodes = self.all(run)?;
                Evaluated::ok(Value::list(nodes.into_iter().map(|node| template(node, env))))
            }
            "yaml" => {
                let node = self.single(run)?;
                self.flow(run, node, env, rooted)
            }
            "multiyaml" => {
                let node = self.list(run)?;
                self.flow(run, node, env, rooted)
            }
            mode => Err(EvalError::issue(format!("invalid file type [{}] {mode}", self.name()))),
        }
    }

    fn name(&self) -> &str {
        if self.name.is_empty() { "." } else { &self.name }
    }

    fn all(&self, run: &Run<'_>) -> Result<Vec<Node>, EvalError> {
        yaml::read(self.text, &self.name, &run.settings.limits).map_err(|error| self.malformed(&error))
    }

    fn malformed(&self, error: &dyn std::fmt::Display) -> EvalError {
        EvalError::issue(format!("error parsing file [{}]: {error}", self.name()))
    }

    fn single(&self, run: &Run<'_>) -> Result<Node, EvalError> {
        let mut nodes = self.all(run)?;
        match (nodes.pop(), nodes.is_empty()) {
            (Some(node), true) => Ok(node),
            (None, _) => Ok(Node::new(Value::Nil)),
            (Some(_), false) => Err(self.malformed(&"more than one document")),
        }
    }

    /// Returns all documents as one list. Empty ones at the end do not count.
    fn list(&self, run: &Run<'_>) -> Result<Node, EvalError> {
        let mut nodes = self.all(run)?;
        while nodes.len() > 1 && nodes.last().is_some_and(|node| matches!(node.value, Value::Nil)) {
            nodes.pop();
        }
        Ok(Node::new(Value::List(Arc::new(nodes.into_iter().collect()))))
    }

    /// Flows the text in the environment of the call. Without a root of its own, absolute names
    /// refer to the document of the call.
    fn flow(&self, run: &mut Run<'_>, node: Node, env: &Env<'_>, rooted: bool) -> Eval {
        let id = run.open(node);
        let mut inner = env.clone();
        if rooted {
            inner.root = id;
        }
        let unresolved = run.called(|run| flow(run, id, &inner, false))?;
        let root = run.document(id).root.value.clone();
        run.close(id, &root);
        if unresolved.is_empty() {
            return Evaluated::ok(root);
        }
        let message = format!("resolution of yaml file '{}' failed", self.name);
        let nested = unresolved.iter().map(Unresolved::to_issue).collect();
        Err(Issue { message, nested, sequence: false }.into())
    }
}

/// Returns a read value, whose expressions are evaluated at the node that receives it.
fn raw(value: Value) -> Evaluated {
    let mut info = Info::default();
    info.raw = true;
    Evaluated { value: Some(value), info }
}

/// Returns a template of the read content. An output shows it with a marker, so that it can be a
/// stub.
fn template(content: Node, env: &Env<'_>) -> Value {
    const MARKER: &str = "(( &template ))";
    let marker = || Node::new(Value::string(MARKER));
    let original = match &content.value {
        Value::Map(map) => {
            let key = if map.get("<<<").is_none() { "<<<" } else { "<<" };
            let mut map = Map::clone(map);
            if map.get(key).is_none() {
                map.insert(Arc::from(key), marker());
            }
            Value::Map(Arc::new(map))
        }
        Value::List(list) if !list.values().any(is_template_marker) => {
            let first = Node::new(Value::map([("<<<", Value::string(MARKER))]));
            Value::List(Arc::new(std::iter::once(first).chain(list.iter().cloned()).collect()))
        }
        other => other.clone(),
    };
    let path = Arc::from(dotted(&env.path.steps()));
    Value::Template(Arc::new(Template {
        original,
        content,
        path,
        scope: env.scope.clone(),
        parsed: OnceLock::new(),
    }))
}

/// Reports whether an entry of a list makes the list a template.
fn is_template_marker(entry: &Value) -> bool {
    let Value::Map(map) = entry else { return false };
    let inserted = map.get("<<<").or_else(|| map.get("<<"));
    inserted.and_then(|node| node.value.as_str()).is_some_and(|text| text.contains("&template"))
}
