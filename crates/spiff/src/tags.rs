//! Tags (`spiff.md` 10.4).

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::env::Env;
use crate::eval::{Eval, EvalError, Evaluated, absolute};
use crate::issue::quote;
use crate::run::{Reading, Run, read_value, reading_to_eval};
use crate::scope::dotted;
use crate::syntax::ast::Step;
use crate::value::{Node, TagMark, Value};

/// All defined tags.
#[derive(Debug, Default)]
pub(crate) struct Tags {
    known: BTreeMap<String, Tag>,
    /// Names of the tags that the current document has defined.
    own: Vec<String>,
    /// Finished documents of the stream.
    stream: Vec<Value>,
}

#[derive(Debug)]
struct Tag {
    value: Value,
    path: String,
    global: bool,
    /// True if an earlier document of the stream defined the tag; then no later one may.
    foreign: bool,
}

impl Tags {
    /// Starts the next document. Tags that are not global end here.
    pub(crate) fn next_document(&mut self) {
        self.known.retain(|_, tag| tag.global);
        self.own.clear();
    }

    /// Adds a finished document of the stream under its number. From now on its tags count as those
    /// of an earlier document.
    pub(crate) fn finished(&mut self, value: Value) {
        self.stream.push(value);
        for name in self.own.drain(..) {
            if let Some(tag) = self.known.get_mut(&name) {
                tag.foreign = true;
            }
        }
    }

    /// Returns document `number` of the stream: from 1, or counted back from the current one.
    fn finished_document(&self, number: i64) -> Option<&Value> {
        let length = i64::try_from(self.stream.len()).ok()?;
        let position = if number < 0 { length.checked_add(number)? } else { number - 1 };
        self.stream.get(usize::try_from(position).ok()?)
    }

    /// Defines a tag for a value. A tag that was defined at the same path before, also in a stub,
    /// may be defined again.
    pub(crate) fn define(&mut self, mark: &TagMark, path: &str, value: Value) -> Result<(), String> {
        let name = normalized(&mark.name);
        if let Some(known) = self.known.get(&name) {
            if known.foreign {
                return Err(format!("duplicate tag \"{name}\": {path} in foreign document"));
            }
            if known.path != path {
                return Err(format!("duplicate tag \"{name}\": {path} <-> {}", known.path));
            }
        }
        let tag = Tag { value, path: path.to_owned(), global: mark.global, foreign: false };
        if !self.own.contains(&name) {
            self.own.push(name.clone());
        }
        self.known.insert(name, tag);
        Ok(())
    }

    /// Returns the tags `name` and `name.*`, sorted by number of components and then by name.
    fn below(&self, name: &str) -> Vec<(&String, &Tag)> {
        let prefix = format!("{name}.");
        let matching = |(own, _): &(&String, &Tag)| *own == name || own.starts_with(&prefix);
        let mut found: Vec<_> = self.known.iter().filter(matching).collect();
        found.sort_by_key(|(own, _)| (own.matches('.').count(), (*own).clone()));
        found
    }
}

fn normalized(name: &str) -> String {
    name.replace(':', ".")
}

/// Evaluates `NAME::PATH`; without steps the result is the whole value.
pub(crate) fn evaluate(run: &mut Run<'_>, tag: &str, steps: &[Step], env: &Env<'_>, full: bool) -> Eval {
    run.volatile = true;
    let name = normalized(tag);
    if let Some(number) = name.strip_prefix("doc.") {
        return of_document(run, tag, number, steps, env, full);
    }
    let found = run.tags.below(&name);
    if found.is_empty() {
        return Err(EvalError::issue(format!("tag '{tag}' not found")));
    }
    if steps.is_empty() {
        let exact = found.iter().find(|(own, _)| **own == name);
        return match (exact, found.as_slice()) {
            (Some((_, tag)), _) | (None, [(_, tag)]) => Evaluated::ok(tag.value.clone()),
            (None, several) => {
                let names: Vec<_> = several.iter().map(|(own, _)| own.as_str()).collect();
                Err(EvalError::issue(format!("found multiple tags for '{tag}': {}", names.join(", "))))
            }
        };
    }
    search(run, &found, &name, tag, steps, full)
}

/// Searches the path in the tags. The first level of components with a tag that has the path
/// decides.
fn search(
    run: &Run<'_>,
    found: &[(&String, &Tag)],
    name: &str,
    tag: &str,
    steps: &[Step],
    full: bool,
) -> Eval {
    let mut hit: Option<(&String, Reading)> = None;
    for (own, candidate) in found {
        if let Some((earlier, _)) = &hit
            && (earlier.matches('.').count() != own.matches('.').count() || earlier.as_str() == name)
        {
            break;
        }
        match read_value(&Node::new(candidate.value.clone()), steps, full, run.control()) {
            Reading::Missing(_) => {}
            reading => match &hit {
                Some((earlier, _)) => {
                    let reference = format!("{tag}::{}", dotted(steps));
                    let message = format!("ambigious tag resolution for {reference}: {earlier} <-> {own}");
                    return Err(EvalError::issue(message));
                }
                None => hit = Some((own, reading)),
            },
        }
    }
    match hit {
        Some((_, reading)) => reading_to_eval(reading, |count| dotted(&steps[..count])),
        // No tag has the path. spiff++ gives no message here.
        None => Err(EvalError::issue("")),
    }
}

/// Evaluates `doc.N`: a document of the stream; 0 is the current one.
fn of_document(
    run: &mut Run<'_>,
    tag: &str,
    number: &str,
    steps: &[Step],
    env: &Env<'_>,
    full: bool,
) -> Eval {
    match number.parse::<i64>() {
        Ok(0) if steps.is_empty() => Err(EvalError::issue("no reference to actual document possible")),
        Ok(0) => absolute(run, steps, env, full, false),
        Ok(number) => match run.tags.finished_document(number) {
            Some(value) => {
                let reading = read_value(&Node::new(value.clone()), steps, full, run.control());
                reading_to_eval(reading, |count| dotted(&steps[..count]))
            }
            None => Err(EvalError::issue(format!("tag '{tag}' not found"))),
        },
        Err(_) => Err(EvalError::issue(format!("tag '{tag}' not found"))),
    }
}

/// `tagdef(name, value [, "local" | "global"])`.
pub(crate) fn define(run: &mut Run<'_>, arguments: &[Value], env: &Env<'_>) -> Eval {
    let (name, value, scope) = match arguments {
        [name, value] => (name, value, None),
        [name, value, scope] => (name, value, Some(scope)),
        _ => return Err(EvalError::issue("two or three arguments expected for tagdef")),
    };
    let name = name.as_str().ok_or_else(|| EvalError::issue("name argument for tagdef must be a string"))?;
    // A star in the name counts only without a third argument.
    let starred = name.strip_prefix('*').filter(|_| scope.is_none());
    let name = starred.unwrap_or(name);
    check_name(name).map_err(|problem| {
        EvalError::issue(format!("invalid tag name {} for tagdef: {problem}", quote(name)))
    })?;
    let global = match scope {
        None => starred.is_some(),
        Some(Value::String(scope)) => match &**scope {
            "local" => false,
            "global" => true,
            other => {
                let scope = quote(other);
                let message = format!("invalid scope argument {scope} for tagdef (must be local or global)");
                return Err(EvalError::issue(message));
            }
        },
        Some(_) => {
            return Err(EvalError::issue("type argument for tagdef must be a string (local or global)"));
        }
    };
    let mark = TagMark { name: Arc::from(name), global };
    run.tags.define(&mark, &dotted(&env.path.steps()), value.clone()).map_err(EvalError::issue)?;
    Evaluated::ok(value.clone())
}

/// Checks a name: components of letters and digits that begin with a letter.
fn check_name(name: &str) -> Result<(), String> {
    let mut in_component = false;
    for c in name.chars() {
        match c {
            ':' | '.' if !in_component => return Err("empty tag component not allowed".to_owned()),
            ':' | '.' => in_component = false,
            '0'..='9' if !in_component => {
                return Err("tag component must start with alnum rune".to_owned());
            }
            c if c.is_ascii_alphanumeric() => in_component = true,
            c => return Err(format!("invalid character {} in tag component", quote(&c.to_string()))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{Document, Engine};

    #[test]
    fn documents_of_a_stream_have_numbers() {
        let engine = Engine::new();
        let text = "a: (( &tag:t ( 1 ) ))\n---\nb: (( [ doc.1::a, doc:-1::a, doc.0::c, t::. ] ))\nc: 2\n---\nd: (( doc.2::b || 0 ))\ne: (( doc.9::. || \"none\" ))\n";
        let documents = Document::read_all(text, "test", engine.limits()).unwrap();
        let outputs = engine.cascade_stream(&documents, &[], None).unwrap();
        let texts: Vec<_> = outputs.iter().map(crate::Output::to_yaml).collect();
        assert_eq!(texts[1], "b:\n- 1\n- 1\n- 2\n- 1\nc: 2\n");
        assert_eq!(texts[2], "d:\n- 1\n- 1\n- 2\n- 1\ne: none\n");
    }

    #[test]
    fn a_tag_of_an_earlier_document_is_not_defined_again() {
        let engine = Engine::new();
        let text = "a: (( &tag:t ( 1 ) ))\n---\na: (( &tag:t ( 2 ) ))\n";
        let documents = Document::read_all(text, "test", engine.limits()).unwrap();
        let error = engine.cascade_stream(&documents, &[], None).unwrap_err().to_string();
        assert!(error.contains("*duplicate tag \"t\": a in foreign document"), "{error}");
    }
}
