//! `groundwork variants`: shows and applies the variants that PackageVariantSets ask for.

pub(crate) mod cluster;
mod draft;
pub(crate) mod plan;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use groundwork_api::{Kind as _, PackageVariant, PackageVariantSet, ResourceExt as _};
use groundwork_fleet::{Bundle, ExpandError, Expanded, Unresolved, validate_set, validate_variant};
use groundwork_yaml::{self as yaml, Position, Step};
use serde_json::{Value, json};

use crate::diagnostic::{self, Diagnostic, Severity};
use crate::ending::Ending;
use crate::input::{self, Document, Schemas};
use crate::{stdout, wall};

#[derive(Debug, Args)]
pub(crate) struct VariantsArguments {
    #[command(subcommand)]
    command: VariantsCommand,
}

#[derive(Debug, Subcommand)]
enum VariantsCommand {
    /// Print the PackageVariants that sets should have.
    ///
    /// Exit code 0: every set was expanded. 1: a set cannot be expanded; those of the others are
    /// printed. 2: the input cannot be used; nothing is printed to standard output.
    Expand(ExpandArguments),
    /// Check PackageVariants and PackageVariantSets against their schema and all rules.
    ///
    /// Needs no cluster, and looks nothing up. Exit code 0: all are valid. 1: one is not; each
    /// broken rule is printed with its place. 2: the input cannot be used.
    Validate(ValidateArguments),
    /// Show the changes that sets would make to existing PackageVariants.
    ///
    /// Shows what they create, change field by field, and delete: from files alone, or with
    /// `--cluster` for the cluster of the current kube context. Exit code 0: every set was planned.
    /// 1: a set is refused; its variants stay as they are. 2: the input cannot be used.
    Plan(PlanArguments),
    /// Write sets to a cluster if their effect is still that of a plan.
    ///
    /// The cluster is the one of the current kube context. Exit code 0: the sets are written. 1:
    /// their effect has changed since the plan; nothing is written. 2: the input or the cluster
    /// cannot be used.
    Apply(cluster::ApplyArguments),
    /// Show the packages that PackageVariants make, as their first drafts.
    ///
    /// A draft is cloned, changed as the variant says, and rendered. Exit code 0: every package was
    /// made. 1: a package or a set could not be made; the others are shown. 2: the input cannot be
    /// used.
    Draft(DraftArguments),
}

#[derive(Debug, Args)]
struct ExpandArguments {
    /// Files or directories with PackageVariantSets and what they need: Repositories, the objects
    /// that targets select, and, if the upstream is to be looked up, PackageRevisions. `-` is
    /// standard input.
    #[arg(short, long = "file", required = true, num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = ListFormat::Yaml)]
    output: ListFormat,

    /// Namespace of objects that name none.
    #[arg(short, long, default_value = "default", value_parser = crate::namespace::namespace)]
    namespace: String,
}

#[derive(Debug, Args)]
struct ValidateArguments {
    /// Files or directories with PackageVariants and PackageVariantSets. `-` is standard input.
    #[arg(short, long = "file", required = true, num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Namespace of objects that name none.
    #[arg(short, long, default_value = "default", value_parser = crate::namespace::namespace)]
    namespace: String,
}

#[derive(Debug, Args)]
struct PlanArguments {
    /// Files or directories with PackageVariantSets, the objects that they need, existing
    /// PackageVariants, and the PackageRevisions that belong to them. `-` is standard input. With
    /// `--cluster` only the sets are read, as they would be after `apply`; all other objects come
    /// from the cluster, and without files the sets of the cluster are planned.
    #[arg(short, long = "file", required_unless_present = "cluster", num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = PlanFormat::Text)]
    output: PlanFormat,

    /// Plan for a namespace of the cluster of the current kube context.
    #[arg(long)]
    cluster: bool,

    /// Namespace of objects that name none [default: `default`; with `--cluster` that of the kube
    /// context].
    #[arg(short, long, value_parser = crate::namespace::namespace)]
    namespace: Option<String>,
}

#[derive(Debug, Args)]
struct DraftArguments {
    /// Files or directories with PackageVariants, or sets of them, and what a cluster would hold
    /// beside them: Repositories, and the objects that are injected. `-` is standard input.
    #[arg(short, long = "file", required = true, num_args = 1.., value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Folder with the content of the upstreams' repositories: one folder for each, named like the
    /// Repository. Its content is used for every revision that a variant asks for.
    #[arg(short, long, value_name = "FOLDER")]
    packages: PathBuf,

    /// Destination of the packages: `text` prints them, `dir=PATH` writes them to
    /// REPOSITORY/PACKAGE in that folder.
    #[arg(short, long, default_value = "text", value_name = "text|dir=PATH")]
    output: draft::DraftOutput,

    /// Namespace of objects that name none.
    #[arg(short, long, default_value = "default", value_parser = crate::namespace::namespace)]
    namespace: String,

    #[command(flatten)]
    functions: crate::functions::FunctionArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum PlanFormat {
    /// Lines for people, and the hash of the plan.
    Text,
    /// The plan and its hash as JSON.
    Json,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ListFormat {
    /// The PackageVariants as a YAML stream.
    Yaml,
    /// The PackageVariants as one JSON `List`.
    Json,
}

pub(crate) fn run(arguments: &VariantsArguments) -> Ending {
    match &arguments.command {
        VariantsCommand::Expand(arguments) => expand(arguments),
        VariantsCommand::Validate(arguments) => validate(arguments),
        VariantsCommand::Plan(arguments) if arguments.cluster => cluster::plan(arguments),
        VariantsCommand::Plan(arguments) => plan::run(arguments),
        VariantsCommand::Apply(arguments) => cluster::apply(arguments),
        VariantsCommand::Draft(arguments) => draft::run(arguments),
    }
}

/// Reads the input, expands the sets, and prints the variants.
fn expand(arguments: &ExpandArguments) -> Ending {
    let mut diagnostics = Vec::new();
    let documents = input::read(&arguments.files, &mut diagnostics);
    let Some(cluster) = Cluster::of_sets(&documents, &arguments.namespace, &mut diagnostics) else {
        return Ending::Unusable;
    };
    let mut variants = Vec::new();
    let mut ending = Ending::Rendered;
    for ((namespace, name), set) in &cluster.sets {
        let title = format!("PackageVariantSet {namespace}/{name}");
        let none = Bundle::new(namespace);
        let bundle = cluster.bundles.get(namespace).unwrap_or(&none);
        match wall::evaluate(|| bundle.expand(&set.object)) {
            Ok(Expanded { variants: found, target_counts, failures }) => {
                for failure in &failures {
                    ending = Ending::Failed;
                    report(&title, set.document, failure, &mut diagnostics);
                }
                let nothing = target_counts.iter().enumerate().filter(|(_, count)| **count == 0);
                diagnostics.extend(nothing.map(|(index, _)| {
                    let field = format!("spec.targets[{index}]");
                    let message = format!("{title}: {field} selects no repository or object");
                    Diagnostic::warning(message).at(&set.document.source, place(set.document, &field))
                }));
                variants.extend(found);
            }
            Err(failure) => {
                ending = Ending::Failed;
                report(&title, set.document, &failure, &mut diagnostics);
            }
        }
    }
    let written = stdout::write(&show(arguments.output, &variants));
    diagnostic::print(&diagnostics);
    if written == Ending::Rendered { ending } else { written }
}

/// Checks variants and sets, and prints each broken rule at its place.
fn validate(arguments: &ValidateArguments) -> Ending {
    let mut diagnostics = Vec::new();
    let documents = input::read(&arguments.files, &mut diagnostics);
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        diagnostic::print(&diagnostics);
        return Ending::Unusable;
    }
    let cluster = Cluster::new(&documents, &arguments.namespace, &mut diagnostics);
    let mut broken = Vec::new();
    for ((namespace, name), Set { object, document }) in &cluster.sets {
        let title = format!("PackageVariantSet {namespace}/{name}");
        broken.push((title, *document, validate_set(object)));
    }
    for variant in cluster.variants.values().flatten() {
        let key = (variant.namespace().unwrap_or_default(), variant.name_any());
        let title = format!("PackageVariant {}/{}", key.0, key.1);
        let place = (PackageVariant::API_VERSION.to_owned(), PackageVariant::KIND.to_owned(), key);
        if let Some(document) = cluster.first.get(&place) {
            broken.push((title, *document, validate_variant(&variant.spec)));
        }
    }
    if broken.is_empty() && diagnostics.is_empty() {
        let text = "the input holds neither a PackageVariant nor a PackageVariantSet";
        diagnostic::print(&[Diagnostic::error(text)]);
        return Ending::Unusable;
    }
    let count = broken.len();
    for (title, document, messages) in broken {
        diagnostics.extend(messages.into_iter().map(|message| {
            let place = place(document, field_of(&message));
            Diagnostic::error(format!("{title}: {message}")).at(&document.source, place)
        }));
    }
    diagnostic::print(&diagnostics);
    if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
        return Ending::Failed;
    }
    match count {
        1 => stdout::write("1 object is valid\n"),
        count => stdout::write(&format!("{count} objects are valid\n")),
    }
}

fn show(format: ListFormat, variants: &[PackageVariant]) -> String {
    let values = variants.iter().map(|variant| serde_json::to_value(variant).unwrap_or(Value::Null));
    match format {
        ListFormat::Yaml => values.map(|value| format!("---\n{}", yaml::to_string(&value))).collect(),
        ListFormat::Json => {
            let items: Vec<Value> = values.collect();
            format!("{:#}\n", json!({"apiVersion": "v1", "kind": "List", "metadata": {}, "items": items}))
        }
    }
}

/// Adds a message for every broken rule, each at its own place.
fn report(title: &str, document: &Document, failure: &ExpandError, diagnostics: &mut Vec<Diagnostic>) {
    let messages = match failure {
        ExpandError::Invalid(violations) => violations.clone(),
        other => vec![other.to_string()],
    };
    for message in messages {
        let field = match failure {
            // A place inside a PackageRevisionSet is not in this document, so point to the field
            // that names it.
            ExpandError::Upstream(Unresolved::At { place, .. }) if !place.contains(' ') => place.clone(),
            ExpandError::Upstream(_) => "spec.upstream".to_owned(),
            ExpandError::DuplicateTargets { second, .. } => format!("spec.targets[{}]", second.target),
            _ => field_of(&message).to_owned(),
        };
        let diagnostic = Diagnostic::error(format!("{title}: {message}"));
        diagnostics.push(diagnostic.at(&document.source, place(document, &field)));
    }
}

/// Returns the path that a message begins with, or else mentions.
fn field_of(message: &str) -> &str {
    let words = message.split([' ', '`']).map(|word| word.trim_end_matches([':', ',']));
    words.into_iter().find(|word| word.starts_with("spec.")).unwrap_or("spec")
}

/// Returns the position of a field, or of the longest part of its path that exists.
fn place(document: &Document, field: &str) -> Position {
    let mut steps = Vec::new();
    for part in field.split('.') {
        let (name, indexes) = part.split_once('[').unwrap_or((part, ""));
        steps.push(Step::Key(name));
        let indexes = indexes.split('[').filter_map(|index| index.trim_end_matches(']').parse().ok());
        steps.extend(indexes.map(Step::Index));
    }
    document.node.locate(steps)
}

/// Returns the sets among documents, by namespace. Returns `None` if one of them has an error; the
/// errors are printed.
pub(crate) fn sets(
    documents: &[Document],
    namespace: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<BTreeMap<String, Vec<PackageVariantSet>>> {
    let mut sets: BTreeMap<String, Vec<PackageVariantSet>> = BTreeMap::new();
    for ((namespace, _), set) in Cluster::of_sets(documents, namespace, diagnostics)?.sets {
        sets.entry(namespace).or_default().push(set.object);
    }
    Some(sets)
}

/// Namespace and name.
type Key = (String, String);

struct Set<'a> {
    object: PackageVariantSet,
    document: &'a Document,
}

/// Objects that a cluster would hold.
#[derive(Default)]
struct Cluster<'a> {
    sets: BTreeMap<Key, Set<'a>>,
    bundles: BTreeMap<String, Bundle>,
    /// Variants by namespace.
    variants: BTreeMap<String, Vec<PackageVariant>>,
    /// All objects by namespace.
    objects: BTreeMap<String, Vec<Value>>,
    /// First document of each object, to find duplicates.
    first: BTreeMap<(String, String, Key), &'a Document>,
}

impl<'a> Cluster<'a> {
    fn new(documents: &'a [Document], namespace: &str, diagnostics: &mut Vec<Diagnostic>) -> Self {
        let schemas = Schemas::new();
        let mut cluster = Self::default();
        for document in documents {
            let before = diagnostics.len();
            check(document, &schemas, diagnostics);
            if diagnostics.len() == before
                && let Err(diagnostic) = cluster.add(document, namespace)
            {
                diagnostics.push(diagnostic);
            }
        }
        cluster
    }

    /// Reads the objects if there are sets and no errors; otherwise prints the errors.
    fn of_sets(
        documents: &'a [Document],
        namespace: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Self> {
        Self::with(documents, namespace, diagnostics, |cluster| {
            cluster.sets.is_empty().then_some("the input contains no PackageVariantSet")
        })
    }

    /// Reads the objects if there are variants, in the input or from sets, and no errors; otherwise
    /// prints the errors.
    fn of_variants(
        documents: &'a [Document],
        namespace: &str,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> Option<Self> {
        Self::with(documents, namespace, diagnostics, |cluster| {
            let is_empty = cluster.sets.is_empty() && cluster.variants.is_empty();
            is_empty.then_some("the input contains neither a PackageVariant nor a PackageVariantSet")
        })
    }

    fn with(
        documents: &'a [Document],
        namespace: &str,
        diagnostics: &mut Vec<Diagnostic>,
        missing: impl FnOnce(&Self) -> Option<&'static str>,
    ) -> Option<Self> {
        let cluster = Self::new(documents, namespace, diagnostics);
        if let Some(missing) = missing(&cluster).filter(|_| diagnostics.is_empty()) {
            diagnostics.push(Diagnostic::error(missing));
        }
        if diagnostics.iter().any(|diagnostic| diagnostic.severity == Severity::Error) {
            diagnostic::print(diagnostics);
            return None;
        }
        Some(cluster)
    }

    fn add(&mut self, document: &'a Document, namespace: &str) -> Result<(), Diagnostic> {
        let (api_version, kind) = (document.text("apiVersion").to_owned(), document.text("kind").to_owned());
        let namespace = document.metadata("namespace").filter(|name| !name.is_empty()).unwrap_or(namespace);
        let name = document.metadata("name").unwrap_or_default();
        let key = (namespace.to_owned(), name.to_owned());
        let place = (api_version.clone(), kind.clone(), key.clone());
        if let Some(first) = self.first.insert(place, document) {
            let place = format!("{}:{}", first.source.name, first.node.position.line);
            let title = document.title();
            let message =
                format!("{title} of namespace {namespace:?} is defined twice; the first one is at {place}");
            return Err(document.error(message));
        }
        let mut object = document.node.to_value();
        object["metadata"]["namespace"] = json!(namespace);
        self.objects.entry(key.0.clone()).or_default().push(object.clone());
        if (api_version.as_str(), kind.as_str()) == (PackageVariantSet::API_VERSION, PackageVariantSet::KIND)
        {
            let object = serde_path_to_error::deserialize(object).map_err(|error| {
                document.error(format!("{}: {}: {}", document.title(), error.path(), error.inner()))
            })?;
            self.sets.insert(key, Set { object, document });
            return Ok(());
        }
        if (api_version.as_str(), kind.as_str()) == (PackageVariant::API_VERSION, PackageVariant::KIND) {
            let variant = serde_path_to_error::deserialize(object.clone()).map_err(|error| {
                document.error(format!("{}: {}: {}", document.title(), error.path(), error.inner()))
            })?;
            self.variants.entry(key.0.clone()).or_default().push(variant);
        }
        let bundle = self.bundles.entry(key.0).or_insert_with_key(|namespace| Bundle::new(namespace));
        bundle.add(&object).map_err(|error| document.error(format!("{}: {error}", document.title())))
    }
}

/// Checks the structure of known kinds. Other documents only have to be objects.
fn check(document: &Document, schemas: &Schemas, diagnostics: &mut Vec<Diagnostic>) {
    let (api_version, kind) = (document.text("apiVersion"), document.text("kind"));
    for (member, value) in [("apiVersion", api_version), ("kind", kind)] {
        if value.is_empty() {
            return diagnostics.push(document.error(format!("the object has no {member}")));
        }
    }
    let title = document.title();
    if document.metadata("name").is_none_or(str::is_empty) {
        return diagnostics.push(document.error(format!("{title}: the object has no metadata.name")));
    }
    if let Some(findings) = schemas.check(api_version, kind, &document.node) {
        diagnostics.extend(findings.into_iter().map(|(position, problem)| {
            Diagnostic::error(format!("{title}: {problem}")).at(&document.source, position)
        }));
    } else if let Some(known) = schemas.api_version_of(kind)
        && known.split('/').next() == api_version.split('/').next()
    {
        let message =
            format!("{title}: apiVersion {api_version} is not served; the kind has apiVersion {known}");
        diagnostics.push(document.error(message));
    }
}
