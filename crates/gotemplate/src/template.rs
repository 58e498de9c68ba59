//! Templates: parsed once, rendered often, from any thread.

use std::collections::HashMap;
use std::sync::Arc;

use crate::context::Run;
use crate::error::Error;
use crate::eval;
use crate::functions::Functions;
use crate::options::Options;
use crate::syntax;
use crate::syntax::tree::{Definition, Tree};
use crate::value::{Str, Value};

/// A parsed template with the templates defined in it. Cheap to clone, immutable and shareable between threads.
#[derive(Clone, Debug)]
pub struct Template {
    program: Arc<Program>,
}

/// The compiled form of one source.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) source: Vec<u8>,
    pub(crate) tree: Tree,
    pub(crate) definitions: HashMap<Str, Definition>,
    pub(crate) functions: Arc<Functions>,
    pub(crate) options: Options,
}

impl Template {
    /// Parses a source. `name` is the template's own name and shows in every error.
    pub fn parse(
        name: &str,
        source: &(impl AsRef<[u8]> + ?Sized),
        functions: &Arc<Functions>,
        options: &Options,
    ) -> Result<Template, Error> {
        let source = source.as_ref();
        let parsed = syntax::parse(name, source, functions, &options.delimiters)
            .map_err(|error| Error::parse(name, error.line, error.message))?;
        let program = Program {
            name: name.to_string(),
            source: source.to_vec(),
            tree: parsed.tree,
            definitions: parsed.definitions,
            functions: Arc::clone(functions),
            options: options.clone(),
        };
        Ok(Template { program: Arc::new(program) })
    }

    /// The name given to [`Template::parse`].
    pub fn name(&self) -> &str {
        &self.program.name
    }

    /// Renders with the given root data. The template may change maps in it; pass a [`Value::deep_copy`] of data that
    /// is used again.
    pub fn render(&self, data: Value) -> Result<Vec<u8>, Error> {
        let mut output = Vec::new();
        self.render_into(data, &mut output).map(|()| output)
    }

    /// Like [`Template::render`], appending to a buffer. As in the original, what was written before a failure stays.
    pub fn render_into(&self, data: Value, output: &mut Vec<u8>) -> Result<(), Error> {
        let mut run = Run::new(&self.program.options);
        let (bytes, result) = eval::render(self, data, &mut run);
        output.extend(bytes);
        result
    }

    /// The names of all templates in the source, its own included, sorted.
    pub fn defined_names(&self) -> Vec<Str> {
        let mut names: Vec<Str> = self.program.definitions.keys().cloned().collect();
        names.sort();
        names
    }

    /// The source in canonical spacing, without comments, trim markers and definitions.
    pub fn canonical_source(&self) -> Vec<u8> {
        let Program { tree, source, definitions, name, .. } = &*self.program;
        definitions
            .get(name.as_bytes())
            .map(|definition| syntax::print::canonical(tree, source, definition.root))
            .unwrap_or_default()
    }

    pub(crate) fn program(&self) -> &Program {
        &self.program
    }
}
