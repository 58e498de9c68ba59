//! Templates: parsed once, rendered often, from any thread.

use std::collections::HashMap;
use std::sync::Arc;

use crate::budget::LimitError;
use crate::context::{Context, Run};
use crate::error::{CallError, Error};
use crate::eval;
use crate::functions::Functions;
use crate::options::{Host, Options};
use crate::patterns::Patterns;
use crate::syntax;
use crate::syntax::tree::{Definition, Kind, Node, Tree};
use crate::value::{Str, Value};

/// A parsed template with the templates that it can call: those defined in its source, and those of
/// sources parsed into the same set before. Cheap to clone, immutable and shareable between
/// threads.
#[derive(Clone, Debug)]
pub struct Template {
    program: Arc<Program>,
}

/// A call in a source, see [`Template::literal_calls`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiteralCall {
    pub argument: String,
    /// Line of the argument, from 1.
    pub line: usize,
    /// Column of the argument in bytes, from 0, as errors show it.
    pub column: usize,
}

type Bodies = HashMap<Str, Body, foldhash::fast::RandomState>;

/// A set of named bodies, together with the body that the template's own source has under its name.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    /// The body of the template's own source. If it is empty, `bodies` keeps a body of that name
    /// from an earlier source, so the two may differ (`gotemplate.md` 3).
    own: Body,
    bodies: Bodies,
    /// The set that this one extends, if it was parsed while that set ran. The base itself has no
    /// base.
    base: Option<Arc<Program>>,
    pub(crate) functions: Arc<Functions>,
    pub(crate) options: Options,
    patterns: Arc<Patterns>,
}

/// The compiled form of one source.
#[derive(Debug)]
pub(crate) struct Unit {
    /// The name under which the source was parsed, as errors show it.
    pub(crate) name: String,
    pub(crate) source: Vec<u8>,
    pub(crate) tree: Tree,
}

/// A named body and the source that contains it.
#[derive(Clone, Debug)]
pub(crate) struct Body {
    pub(crate) unit: Arc<Unit>,
    pub(crate) definition: Definition,
}

impl Program {
    pub(crate) fn body(&self, name: &[u8]) -> Option<&Body> {
        let added = self.bodies.get(name);
        added.or_else(|| self.base.as_ref()?.body(name))
    }

    fn no_template(&self, name: &str) -> Error {
        let [name, own] = [name, &self.name].map(|name| crate::text::quote(name.as_bytes()));
        Error::unplaced(&self.name, format!("no template {name} associated with template {own}"))
    }
}

/// A parsed source: its own body, and its definitions each with a flag that tells whether it is
/// empty.
struct Source {
    own: Body,
    definitions: Vec<(Str, Body, bool)>,
}

impl Source {
    fn parse(name: &str, source: &[u8], functions: &Functions, options: &Options) -> Result<Source, Error> {
        let parsed = syntax::parse(name, source, functions, &options.delimiters)
            .map_err(|error| Error::parse(name, error.line, error.message))?;
        let Some(own) = parsed.definitions.get(name.as_bytes()).map(|defined| defined.definition.clone())
        else {
            let message =
                format!("{} is an incomplete or empty template", crate::text::quote(name.as_bytes()));
            return Err(Error::unplaced(name, message));
        };
        let unit = Arc::new(Unit { name: name.to_string(), source: source.to_vec(), tree: parsed.tree });
        let definitions = parsed.definitions.into_iter().map(|(name, defined)| {
            (name, Body { unit: Arc::clone(&unit), definition: defined.definition }, defined.empty)
        });
        Ok(Source { definitions: definitions.collect(), own: Body { unit, definition: own } })
    }

    /// Adds the definitions to a set. An empty body never replaces another (`gotemplate.md` 3).
    fn add_to(self, bodies: &mut Bodies, base: Option<&Program>) -> Body {
        for (name, body, empty) in self.definitions {
            let known = || bodies.contains_key(&name) || base.is_some_and(|base| base.body(&name).is_some());
            if !empty || !known() {
                bodies.insert(name, body);
            }
        }
        self.own
    }
}

impl Template {
    /// Parses a source. `name` is the template's own name and shows in every error.
    pub fn parse(
        name: &str,
        source: &(impl AsRef<[u8]> + ?Sized),
        functions: &Arc<Functions>,
        options: &Options,
    ) -> Result<Template, Error> {
        Template::parse_into(Bodies::default(), name, source.as_ref(), functions, options)
    }

    /// Parses a further source into a set that contains all templates of this one as well, as Go's
    /// `t.New(name).Parse(source)` does. Definitions replace earlier ones of the same name, unless
    /// their body is empty (`gotemplate.md` 3). Functions and options are those of this template.
    pub fn parse_associated(
        &self,
        name: &str,
        source: &(impl AsRef<[u8]> + ?Sized),
    ) -> Result<Template, Error> {
        let Program { bodies, functions, options, .. } = &*self.program;
        Template::parse_into(bodies.clone(), name, source.as_ref(), functions, options)
    }

    /// Parses many sources into a set with the name `name`, as Go does with `New(name)` and a
    /// `New(source).Parse` for each source. The set itself has no body.
    pub fn parse_set<'s>(
        name: &str,
        sources: impl IntoIterator<Item = (&'s str, &'s [u8])>,
        functions: &Arc<Functions>,
        options: &Options,
    ) -> Result<Template, Error> {
        let own = Source::parse(name, b"", functions, options)?.own;
        let mut bodies = Bodies::default();
        for (name, source) in sources {
            Source::parse(name, source, functions, options)?.add_to(&mut bodies, None);
        }
        let program = Program {
            name: name.to_string(),
            own,
            bodies,
            base: None,
            functions: Arc::clone(functions),
            options: options.clone(),
            patterns: Arc::default(),
        };
        Ok(Template { program: Arc::new(program) })
    }

    /// Starts a session: several templates of the set are rendered on one budget, and nested uses
    /// are counted together.
    pub fn session(&self, host: Host) -> Session<'_> {
        Session { template: self, run: Run::new(&self.program.options, Some(host), &self.program.patterns) }
    }

    fn parse_into(
        mut bodies: Bodies,
        name: &str,
        source: &[u8],
        functions: &Arc<Functions>,
        options: &Options,
    ) -> Result<Template, Error> {
        let own = Source::parse(name, source, functions, options)?.add_to(&mut bodies, None);
        let program = Program {
            name: name.to_string(),
            own,
            bodies,
            base: None,
            functions: Arc::clone(functions),
            options: options.clone(),
            patterns: Arc::default(),
        };
        Ok(Template { program: Arc::new(program) })
    }

    /// Returns the name given to [`Template::parse`].
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Renders with the given root data. The template may change maps in the data, so pass a
    /// [`Value::deep_copy`] if the data is used again.
    pub fn render(&self, data: Value) -> Result<Vec<u8>, Error> {
        let mut output = Vec::new();
        self.render_into(data, &mut output).map(|()| output)
    }

    /// Renders like [`Template::render`], but appends to a buffer. As in Go, output written before
    /// a failure stays.
    pub fn render_into(&self, data: Value, output: &mut Vec<u8>) -> Result<(), Error> {
        self.run(&self.program.own, &self.program.name, data, None, output)
    }

    /// Renders like [`Template::render`], with the settings of the program for this one render.
    pub fn render_on(&self, host: Host, data: Value) -> Result<Vec<u8>, Error> {
        let mut output = Vec::new();
        self.run(&self.program.own, &self.program.name, data, Some(host), &mut output).map(|()| output)
    }

    /// Renders a template of the set, as Go's `ExecuteTemplate` does. Fails if the set has no
    /// template of that name.
    pub fn render_named(&self, name: &str, data: Value) -> Result<Vec<u8>, Error> {
        let mut output = Vec::new();
        let Some(body) = self.program.body(name.as_bytes()) else {
            return Err(self.program.no_template(name));
        };
        self.run(body, name, data, None, &mut output).map(|()| output)
    }

    fn run(
        &self,
        body: &Body,
        name: &str,
        data: Value,
        host: Option<Host>,
        output: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let mut run = Run::new(&self.program.options, host, &self.program.patterns);
        let (bytes, result) = eval::render(&self.program, body, name, data, &mut run);
        output.extend(bytes);
        result
    }

    /// Returns the source in canonical spacing, without definitions. Comments and trim markers are
    /// left out too, except where they separate the braces of texts from those of actions.
    pub fn canonical_source(&self) -> Vec<u8> {
        let Body { unit, definition } = &self.program.own;
        syntax::print::readable(&unit.tree, &unit.source, definition.root)
    }

    /// Returns the calls of a function whose first argument is a literal text, in the order of the
    /// source. A render may never reach some of them.
    pub fn literal_calls(&self, function: &str) -> Vec<LiteralCall> {
        let Unit { tree, source, .. } = &*self.program.own.unit;
        let call = |node: &Node| {
            let Kind::Command(words) = &node.kind else { return None };
            let [called, argument, ..] = &**words else { return None };
            let is_called =
                matches!(tree.kind(*called), Kind::Function { name, .. } if name.to_text() == function);
            let Node { pos, kind: Kind::String { value, .. } } = tree.node(*argument) else { return None };
            is_called.then(|| (*pos, value.to_text().into_owned()))
        };
        let mut calls: Vec<(usize, String)> = tree.nodes().filter_map(call).collect();
        calls.sort();
        let place = |(position, argument)| {
            let before = &source[..position];
            let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
            let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
            LiteralCall { argument, line, column }
        };
        calls.into_iter().map(place).collect()
    }

    /// Renders as part of another render.
    pub(crate) fn render_nested(&self, data: Value, run: &mut Run) -> (Vec<u8>, Result<(), Error>) {
        eval::render(&self.program, &self.program.own, &self.program.name, data, run)
    }
}

/// Renders that belong together, see [`Template::session`].
#[derive(Debug)]
pub struct Session<'t> {
    template: &'t Template,
    run: Run,
}

impl Session<'_> {
    /// Renders a template of the set. Fails if the set has no template of that name.
    pub fn render_named(&mut self, name: &str, data: Value) -> Result<Vec<u8>, Error> {
        let program = &self.template.program;
        let Some(body) = program.body(name.as_bytes()) else { return Err(program.no_template(name)) };
        self.run.depth = 0;
        let (output, result) = eval::render(program, body, name, data, &mut self.run);
        result.map(|()| output)
    }
}

/// Cache of the templates that a set parsed while it ran. The key is the address of the set and the
/// source. Each entry keeps its set alive, so that no other set can get the same address.
#[derive(Debug, Default)]
pub(crate) struct NestedTemplates(
    HashMap<(usize, Str), (Arc<Program>, Template), foldhash::fast::RandomState>,
);

impl NestedTemplates {
    /// Maximum entries of the cache. Further templates are parsed again at each use.
    const MOST: usize = 4_096;
}

impl Context<'_> {
    /// Renders a template of the running set as part of this render, as Go's `ExecuteTemplate`
    /// does. The set includes the definitions of sources that this render parsed. The name counts
    /// nested uses, see [`Context::active`].
    pub fn include(&mut self, name: &Str, data: Value) -> Result<Vec<u8>, CallError> {
        let program = Arc::clone(self.program);
        let text = name.to_text();
        let Some(body) = program.body(name) else { return Err(program.no_template(&text).into()) };
        self.nested(&text, |run| eval::render(&program, body, &text, data, run))
    }

    /// Parses a source as a template of the running set, with the set's name. The source sees all
    /// templates of the set. Its own definitions are visible only while it runs, also to the
    /// templates that it calls.
    pub fn parse_nested(&mut self, source: &Str) -> Result<Template, Error> {
        let key = (Arc::as_ptr(self.program) as usize, source.clone());
        if let Some((_, template)) = self.run.nested.0.get(&key) {
            return Ok(template.clone());
        }
        let running = self.program;
        let spent = self.run.budget.spend(source.len() / 8);
        spent.map_err(|limit| Error::limit(&running.name, limit))?;
        // An extension of a set that is itself an extension gets a copy of its bodies and the same
        // base, so that a look-up visits at most two sets.
        let (base, mut bodies) = match &running.base {
            Some(base) => (base, running.bodies.clone()),
            None => (running, Bodies::default()),
        };
        let parsed = Source::parse(&running.name, source, &running.functions, &running.options)?;
        let own = parsed.add_to(&mut bodies, Some(base));
        let program = Program {
            name: running.name.clone(),
            own,
            bodies,
            base: Some(Arc::clone(base)),
            functions: Arc::clone(&running.functions),
            options: running.options.clone(),
            patterns: Arc::clone(&running.patterns),
        };
        let template = Template { program: Arc::new(program) };
        if self.run.nested.0.len() < NestedTemplates::MOST {
            self.run.nested.0.insert(key, (Arc::clone(running), template.clone()));
        }
        Ok(template)
    }

    /// Renders another template as part of this render: with its own functions and options, but on
    /// this render's budget and depth. The key counts nested uses, see [`Context::active`].
    pub fn render(&mut self, key: &str, template: &Template, data: Value) -> Result<Vec<u8>, CallError> {
        self.nested(key, |run| template.render_nested(data, run))
    }

    /// Renders one level deeper, counted under a key.
    fn nested(
        &mut self,
        key: &str,
        render: impl FnOnce(&mut Run) -> (Vec<u8>, Result<(), Error>),
    ) -> Result<Vec<u8>, CallError> {
        let limit = self.run.budget.limits().template_depth;
        if self.run.depth >= limit {
            return Err(CallError::Limit(LimitError::TemplateDepth));
        }
        match self.run.active.get_mut(key) {
            Some(count) => *count += 1,
            None => drop(self.run.active.insert(key.to_string(), 1)),
        }
        let depth = self.run.depth;
        self.run.depth += 1;
        let (output, result) = crate::stack::guarded(|| render(self.run));
        // A failed render returns without leaving its template calls, so the depth is restored
        // here.
        self.run.depth = depth;
        if let Some(count) = self.run.active.get_mut(key) {
            *count -= 1;
        }
        result?;
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(sources: &[(&str, &str)]) -> Template {
        let functions = Arc::new(Functions::builtins());
        let ((name, source), rest) = sources.split_first().unwrap();
        let first = Template::parse(name, source, &functions, &Options::default()).unwrap();
        rest.iter().fold(first, |set, (name, source)| set.parse_associated(name, source).unwrap())
    }

    fn text(result: Result<Vec<u8>, Error>) -> String {
        result.map_or_else(|error| error.to_string(), |bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn later_sources_replace_definitions_unless_they_are_empty() {
        let both = [
            ("a", r#"{{define "x"}}1{{end}}A"#),
            ("t", r#"{{define "x"}}2{{end}}{{template "x"}}{{template "a"}}"#),
        ];
        assert_eq!(text(set(&both).render(Value::Nil)), "2A");
        let empty = [("a", r#"{{define "x"}}1{{end}}"#), ("t", r#"{{define "x"}} {{end}}{{template "x"}}"#)];
        assert_eq!(text(set(&empty).render(Value::Nil)), "1");
        let own = [("a", r#"{{define "t"}}1{{end}}"#), ("t", " ")];
        assert_eq!(text(set(&own).render(Value::Nil)), " ");
        assert_eq!(text(set(&own).render_named("t", Value::Nil)), "1");
    }

    #[test]
    fn calls_with_a_text_are_found() {
        let template = set(&[(
            "t",
            "{{ if .x }}{{ print \"a\" . }}{{ end }}\n ü{{ len (print `b`) }}{{ print .c }}{{ len \"d\" }}\
             {{ define \"u\" }}{{ print \"e\" }}{{ end }}{{ print }}",
        )]);
        let calls: Vec<_> = template
            .literal_calls("print")
            .into_iter()
            .map(|call| (call.argument, call.line, call.column))
            .collect();
        assert_eq!(calls, [("a".into(), 1, 20), ("b".into(), 2, 17), ("e".into(), 2, 76)]);
    }

    #[test]
    fn errors_name_the_source_and_the_template() {
        let sources = [("lib", "line\n{{define \"x\"}}{{.a.b}}{{end}}"), ("t", r#"{{template "x" .}}"#)];
        let data = || Value::from_json(&serde_json::json!({"a": 1}), crate::options::NumberMode::Float64);
        assert_eq!(
            text(set(&sources).render(data())),
            r#"template: lib:2:18: executing "x" at <.a.b>: can't evaluate field b in type interface {}"#
        );
        assert_eq!(
            text(set(&sources).render_named("nope", Value::Nil)),
            r#"template: no template "nope" associated with template "t""#
        );
        assert_eq!(text(set(&sources).render_named("x", Value::Nil)), "<no value>");
    }

    /// Case: one parsed template serves many programs, each with its own data and rights.
    #[test]
    fn a_render_has_a_host_of_its_own() {
        let mut functions = Functions::sprig();
        functions.add("whose", crate::Signature::fixed(&[]), |context, _| {
            Ok(context.host::<String>().map_or(Value::Nil, |name| Value::from(name.as_str())))
        });
        let template =
            Template::parse("t", "{{whose}} {{randBytes 3}}", &Arc::new(functions), &Options::default())
                .unwrap();
        for (name, byte, expected) in [("a", 0, "a AAAA"), ("b", 255, "b ////")] {
            let randomness: crate::Randomness = Arc::new(move |buffer: &mut [u8]| {
                buffer.fill(byte);
                Ok(())
            });
            let grants = crate::Grants { randomness: Some(randomness), ..crate::Grants::default() };
            let host = Host { data: Some(Arc::new(name.to_owned())), grants, ..Host::default() };
            assert_eq!(text(template.render_on(host, Value::Nil)), expected);
        }
        assert!(text(template.render(Value::Nil)).ends_with(
            "error calling randBytes: randBytes needs randomness, which is not granted here; only the program that renders the template can grant it"
        ));
    }

    #[test]
    fn a_call_leaves_the_node_of_its_caller() {
        let sources = [("a", "{{1}}"), ("t", r#"{{range 2}}{{template "a"}}{{end}}{{$x = 1}}"#)];
        assert_eq!(
            text(set(&sources).render(Value::Nil)),
            r#"template: t:1:41: executing "t" at <1>: undefined variable: $x"#
        );
    }
}
