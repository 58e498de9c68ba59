//! Loading of a blueprint from a file tree (`blueprints.md` 1 and 2).

use std::sync::{Arc, OnceLock};

use groundwork_api::{
    BLUEPRINT_API_VERSION, BLUEPRINT_KIND, Blueprint as Definition, ExportDefinition, ImportDefinition,
    InstallationTemplate, List,
};
use groundwork_schema::{DEFAULT_DIALECT, Schema};
use groundwork_yaml::{self as yaml, Node, Position, Step};
use serde_json::Value;

use crate::field::{FieldError, aggregate};
use crate::filesystem::{BLUEPRINT_FILE, Filesystem, PathError};
use crate::nulls;
use crate::schema::{CompiledSchemas, SchemaError, SchemaSource};
use crate::subinstallations::collect::{self, StaticTemplatesError};
use crate::template::ParsedTemplates;
use crate::validate;

/// Prefix for Target types without a slash (`blueprints.md` 1.6).
const TARGET_TYPE_PREFIX: &str = "landscaper.gardener.cloud/";

/// Validated blueprint: its definition with defaults filled in, and its files.
#[derive(Debug, Clone)]
pub struct Blueprint {
    pub definition: Definition,
    pub files: Arc<Filesystem>,
    /// True if any file contains the word `state`. Without it, templates cannot keep state.
    pub(crate) mentions_state: bool,
    /// True if any file contains the name of a function that needs a cluster.
    pub(crate) asks_clusters: bool,
    /// Findings that do not prevent the use of the blueprint.
    pub warnings: Vec<String>,
    /// Clones of a blueprint share the cache.
    pub(crate) cache: Arc<Cache>,
}

/// Results that are the same for all Installations with the blueprint. The cache never influences a
/// result: with an empty cache, the result only takes longer.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    pub(crate) templates: ParsedTemplates,
    schemas: CompiledSchemas,
    static_templates: OnceLock<Result<Vec<InstallationTemplate>, StaticTemplatesError>>,
}

/// Error of a file tree that is not a valid blueprint.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum LoadError {
    /// Error BP-005 (`blueprints.md` 10): the file cannot be read.
    #[error("unable to read blueprint definition: {BLUEPRINT_FILE}: {0}")]
    Unreadable(PathError),
    /// Error BP-005 (`blueprints.md` 10): the file cannot be decoded.
    #[error("unable to decode blueprint definition: {BLUEPRINT_FILE}: {problem}")]
    Undecodable { problem: String, position: Option<Position>, text: String },
    /// Error BP-010 (`blueprints.md` 10): all findings at once.
    #[error("blueprint is invalid: {}", aggregate(errors))]
    Invalid { errors: Vec<FieldError>, positions: Vec<Position>, text: String, warnings: Vec<String> },
}

impl Blueprint {
    /// Decodes a blueprint, fills in defaults, and validates it.
    ///
    /// # Errors
    ///
    /// See [`LoadError`]; an invalid blueprint is refused with every finding.
    pub fn load(files: Filesystem) -> Result<Self, LoadError> {
        let Written { text, document, definition } = Written::read(&files)?;
        let findings = validate::blueprint(&definition);
        let warnings = findings.warnings.iter().map(ToString::to_string).collect();
        if !findings.errors.is_empty() {
            let positions = findings.errors.iter().map(|error| error.path.locate(&document)).collect();
            return Err(LoadError::Invalid { errors: findings.errors, positions, text, warnings });
        }
        let definition = Definition { imports: without_twins(&definition.imports), ..definition };
        Ok(Self {
            definition,
            mentions_state: files.contain(b"state"),
            asks_clusters: files.contain(b"getServiceAccountKubeconfig")
                || files.contain(b"getShootAdminKubeconfig"),
            files: Arc::new(files),
            warnings,
            cache: Arc::default(),
        })
    }

    /// Returns the static templates of nested Installations, in order; they are not rendered
    /// (`blueprints.md` 9.1, step 2).
    ///
    /// Loading has already rejected entries with both a file and an inline template (V20), and
    /// problems of inline templates.
    ///
    /// # Errors
    ///
    /// All problems of all entries.
    pub fn static_templates(&self) -> Result<Vec<InstallationTemplate>, StaticTemplatesError> {
        let read = || collect::static_templates(&self.definition, &self.files);
        self.cache.static_templates.get_or_init(read).clone()
    }

    /// Returns the schema of an import or export. `key` identifies it. `source` provides the
    /// documents behind `cd://`, if there is a component.
    ///
    /// # Errors
    ///
    /// A reference is dangling or cyclic, or the document is not a schema.
    pub(crate) fn compiled_schema(
        &self,
        key: &str,
        schema: &Value,
        source: Option<&dyn SchemaSource>,
    ) -> Result<Arc<Schema>, SchemaError> {
        self.cache.schemas.compile(key, schema, &self.definition, &self.files, source)
    }
}

/// Returns imports without those that repeat an earlier one of the same list word for word.
fn without_twins(imports: &[ImportDefinition]) -> List<ImportDefinition> {
    let firsts = imports.iter().enumerate().filter(|(index, import)| !imports[..*index].contains(import));
    let import = |(_, import): (usize, &ImportDefinition)| ImportDefinition {
        imports: without_twins(&import.imports),
        ..import.clone()
    };
    if imports.is_empty() { List::absent() } else { firsts.map(import).collect() }
}

/// Content of `blueprint.yaml` with defaults filled in, before validation.
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) document: Node,
    pub(crate) definition: Definition,
}

impl Written {
    /// Reads and decodes the file. Returns every error except that of an invalid blueprint.
    pub(crate) fn read(files: &Filesystem) -> Result<Self, LoadError> {
        let bytes = files.read(BLUEPRINT_FILE).map_err(LoadError::Unreadable)?;
        let text = String::from_utf8_lossy(bytes).into_owned();
        let document =
            yaml::parse_first(&text, yaml::Options::default()).map_err(|error| LoadError::Undecodable {
                problem: error.message().to_owned(),
                position: Some(error.position()),
                text: text.clone(),
            })?;
        let mut definition = decode(&document, &text)?;
        set_defaults(&mut definition);
        Ok(Self { text, document, definition })
    }
}

fn decode(document: &Node, text: &str) -> Result<Definition, LoadError> {
    let undecodable = |problem: String, position: Position| LoadError::Undecodable {
        problem,
        position: Some(position),
        text: text.to_owned(),
    };
    if document.is_null() {
        return Ok(Definition::default());
    }
    for (member, expected) in [("apiVersion", BLUEPRINT_API_VERSION), ("kind", BLUEPRINT_KIND)] {
        // An empty member counts as absent, as in Go.
        if let Some(node) = document.get(member)
            && !node.is_null()
            && ![Some(""), Some(expected)].contains(&node.as_str())
        {
            return Err(undecodable(format!("{member} must be {expected:?} if it is given"), node.position));
        }
    }
    let mut value = document.to_value();
    nulls::fill_blueprint(&mut value);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let steps: Vec<Step<'_>> = error
            .path()
            .iter()
            .filter_map(|segment| match segment {
                serde_path_to_error::Segment::Seq { index } => Some(Step::Index(*index)),
                serde_path_to_error::Segment::Map { key } => Some(Step::Key(key)),
                _ => None,
            })
            .collect();
        let position = document.locate(steps);
        undecodable(format!("{}: {}", error.path(), error.inner()), position)
    })
}

/// Fills in the defaults of `blueprints.md` 1.6.
fn set_defaults(definition: &mut Definition) {
    let dialect = definition.json_schema_version.get_or_insert_default();
    if dialect.is_empty() {
        DEFAULT_DIALECT.clone_into(dialect);
    }
    default_imports(&mut definition.imports);
    for export in definition.exports.iter_mut() {
        default_export(export);
    }
}

fn default_imports(imports: &mut List<ImportDefinition>) {
    for import in imports.iter_mut() {
        import.required.get_or_insert(true);
        let has_schema = import.schema().is_some();
        default_type(&mut import.type_, has_schema, import.target_type.as_ref());
        prefix_target_type(&mut import.target_type);
        default_imports(&mut import.imports);
    }
}

fn default_export(export: &mut ExportDefinition) {
    let has_schema = export.schema().is_some();
    default_type(&mut export.type_, has_schema, export.target_type.as_ref());
    prefix_target_type(&mut export.target_type);
}

fn default_type(type_name: &mut Option<String>, has_schema: bool, target_type: Option<&String>) {
    let has_target_type = target_type.is_some_and(|target_type| !target_type.is_empty());
    if type_name.as_ref().is_some_and(|name| !name.is_empty()) || has_schema == has_target_type {
        return;
    }
    *type_name = Some(if has_schema { "data" } else { "target" }.to_owned());
}

fn prefix_target_type(target_type: &mut Option<String>) {
    if let Some(name) = target_type
        && !name.is_empty()
        && !name.contains('/')
    {
        name.insert_str(0, TARGET_TYPE_PREFIX);
    }
}

#[cfg(test)]
mod made_up;
#[cfg(test)]
mod tests;
