//! Expansion of a set to the variants that it should have (`packagevariants.md` 4.1).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;

use groundwork_api::kubernetes::{is_annotation_key, is_label_key, is_label_value};
use groundwork_api::{
    PackageRevision, PackageRevisionSet, PackageVariantSet, PackageVariantSpec, PackageVariantTemplate,
};
use serde::{Deserialize, Serialize};

use crate::attributes::Attributes;
use crate::expression::{Expressions, STACK, Shown};
use crate::targets::{self, Selection, Site};
use crate::template::{self, Surroundings};
use crate::upstream::{self, Unresolved};
use crate::upstreams::{self, Named};
use crate::validate::{ISOLATE, validate_set};
use crate::variant::validate_variant;

/// Inputs of an expansion, all from the namespace of the set.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    pub set: &'a PackageVariantSet,
    /// Revisions of the packages that the set derives from; `None` if no store is known. Then no
    /// upstream is resolved, and only expressions that read the upstream fail.
    pub revisions: Option<&'a [PackageRevision]>,
    pub objects: Objects<'a>,
}

/// Objects that sets refer to and select.
#[derive(Clone, Copy, Debug)]
pub struct Objects<'a> {
    /// PackageRevisionSets that the set refers to.
    pub revision_sets: &'a [PackageRevisionSet],
    /// All Repositories of the namespace.
    pub repositories: &'a [Attributes],
    /// Objects of other kinds, by `apiVersion` and `kind`, or the reason why they cannot be listed.
    /// A kind that is missing here has no objects.
    pub others: &'a BTreeMap<(String, String), Result<Vec<Attributes>, Unavailable>>,
}

impl<'a> Objects<'a> {
    pub(crate) fn of(&self, api_version: &str, kind: &str) -> Result<&'a [Attributes], ExpandError> {
        match self.others.get(&(api_version.to_owned(), kind.to_owned())) {
            None => Ok(&[]),
            Some(Ok(objects)) => Ok(objects),
            Some(Err(unavailable)) => Err(ExpandError::NoMatchingTargets(unavailable.0.clone())),
        }
    }
}

/// Message of the server that refuses to list a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{0}")]
pub struct Unavailable(pub String);

/// Reason why a set has no expansion (`packagevariants.md` 4.8).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum ExpandError {
    /// The set is invalid; the list contains all broken rules.
    #[error("{}", .0.join("; "))]
    Invalid(Vec<String>),
    #[error(transparent)]
    Upstream(#[from] Unresolved),
    /// A kind of target objects cannot be listed.
    #[error("{0}")]
    NoMatchingTargets(String),
    /// Two targets want different variants of the same package.
    #[error("targets produce conflicting package variants for {repo}/{package} ({first}, {second})")]
    DuplicateTargets { repo: String, package: String, first: Origin, second: Origin },
    /// An expression fails, or its result is invalid.
    #[error("{0}")]
    Unexpected(String),
    /// The set was set aside, because processes of the service died while they reconciled it.
    #[error("{0}")]
    SetAside(String),
}

impl ExpandError {
    /// Returns the reason for conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "ValidationError",
            Self::Upstream(unresolved) => unresolved.reason(),
            Self::NoMatchingTargets(_) => "NoMatchingTargets",
            Self::DuplicateTargets { .. } => "DuplicateTargets",
            Self::Unexpected(_) => "UnexpectedError",
            Self::SetAside(_) => "SetAside",
        }
    }
}

/// Target and upstream that a variant is made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub target: usize,
    /// Path of the upstream, in a set with several.
    pub upstream: Option<String>,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "targets[{}]", self.target)?;
        match &self.upstream {
            Some(upstream) => write!(f, " with {upstream}"),
            None => Ok(()),
        }
    }
}

/// Variant that a set should have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variant {
    /// Repository and package identify the variant among the present ones.
    pub repository: String,
    pub package: String,
    pub spec: PackageVariantSpec,
    /// Origin of the variant; the first one, if several targets want the same variant.
    pub origin: Origin,
}

/// Variants by repository and package, each with its position.
type Gathered = BTreeMap<(String, String), (usize, Variant)>;

/// Result of an expansion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Expansion {
    /// Variants sorted by repository and package, which are unique together.
    pub variants: Vec<Variant>,
    /// Positions in `variants`, in the order of targets and of the objects that they select
    /// (`packagevariants.md` 4.2).
    pub order: Vec<usize>,
    /// Number of selected repositories or objects of each target; 0 for a failing one.
    pub target_counts: Vec<usize>,
    /// Failures of a set that isolates its targets. With any failure, `variants` may be incomplete.
    pub failures: Vec<ExpandError>,
}

/// Maximum number of failures that a message lists one by one.
const MOST_NAMED: usize = 10;

impl Expansion {
    /// Returns reason and message of the failures in a set that isolates its targets.
    pub fn failure(&self) -> Option<(&'static str, String)> {
        let first = self.failures.first()?;
        let mut texts: Vec<String> =
            self.failures.iter().take(MOST_NAMED).map(ExpandError::to_string).collect();
        if let Some(more) = self.failures.len().checked_sub(MOST_NAMED).filter(|more| *more > 0) {
            texts.push(format!("and {more} more"));
        }
        Some((first.reason(), texts.join("; ")))
    }
}

/// Computes the variants of a set, all or none. With `failurePolicy: Isolate`, returns the variants
/// of the targets that succeed, and the failures of the others.
///
/// # Errors
/// The first problem; see [`ExpandError`].
pub fn expand(inputs: &Inputs<'_>) -> Result<Expansion, ExpandError> {
    // The parser and the evaluator of expressions are recursive, so the measured need of stack is
    // allocated first.
    stacker::grow(STACK, || expand_here(inputs))
}

fn expand_here(inputs: &Inputs<'_>) -> Result<Expansion, ExpandError> {
    let errors = validate_set(inputs.set);
    if !errors.is_empty() {
        return Err(ExpandError::Invalid(errors));
    }
    let upstreams = upstreams::named(inputs.set, inputs.objects.revision_sets)?;
    let mut expressions = Expressions::new();
    let revisions = resolved(inputs, &upstreams, &mut expressions)?;
    let mut failures = Failures::of(inputs.set);
    let mut targets = Vec::new();
    let mut target_counts = Vec::new();
    for target in &*inputs.set.spec.targets {
        let selection = failures.isolate(targets::selection(target, &inputs.objects))?;
        target_counts.push(selection.as_ref().map_or(0, Selection::count));
        targets.push((target.template.as_ref(), selection));
    }
    let has_template = targets.iter().any(|(template, _)| template.is_some());
    let repositories = inputs.objects.repositories.iter().filter(|_| has_template);
    let repositories = repositories.map(|found| (found.name.as_str(), Shown::object(found))).collect();
    let mut gathered = Gathered::new();
    let mut sites_of_all = 0;
    for (named, revision) in upstreams.iter().zip(revisions) {
        let around = Surroundings {
            upstream: named.upstream,
            upstream_shown: revision.map(|revision| Shown::object(&Attributes::from(&revision.metadata))),
            repositories: &repositories,
        };
        let package = named.upstream.package.as_deref().unwrap_or_default();
        for (target, (template, selection)) in targets.iter().enumerate() {
            let sites = selection.as_ref().map_or(Ok(Vec::new()), |selection| selection.sites(package));
            let sites = failures.isolate(sites)?.unwrap_or_default();
            sites_of_all += sites.len();
            targets::within_limit(sites_of_all)?;
            let origin = Origin { target, upstream: named.place.clone() };
            for site in sites {
                let spec = checked(*template, &site, &around, &mut expressions);
                let spec = spec.map_err(|error| failed(&error, &site, &origin));
                if let Some(spec) = failures.isolate(spec)? {
                    failures.isolate(gather(&mut gathered, spec, &origin))?;
                }
            }
        }
    }
    // If two targets want different variants of a package, neither is used.
    for failure in &failures.found {
        if let ExpandError::DuplicateTargets { repo, package, .. } = failure {
            gathered.remove(&(repo.clone(), package.clone()));
        }
    }
    let (positions, variants): (Vec<usize>, Vec<Variant>) = gathered.into_values().unzip();
    let mut order: Vec<usize> = (0..variants.len()).collect();
    order.sort_unstable_by_key(|&at| positions[at]);
    Ok(Expansion { variants, order, target_counts, failures: failures.found })
}

/// Resolves each upstream. An upstream is left out if no revisions are known and no expression
/// reads it.
fn resolved<'a>(
    inputs: &Inputs<'a>,
    upstreams: &[Named<'_>],
    expressions: &mut Expressions,
) -> Result<Vec<Option<&'a PackageRevision>>, ExpandError> {
    let is_read = inputs.revisions.is_none() && reads_upstream(inputs.set, expressions);
    let revisions = match inputs.revisions {
        None if !is_read => return Ok(vec![None; upstreams.len()]),
        known => known.unwrap_or_default(),
    };
    let each = upstreams.iter().map(|Named { upstream, place }| {
        let found = upstream::resolve(upstream, revisions);
        found.map(Some).map_err(|unresolved| unresolved.at(place.as_deref()).into())
    });
    each.collect()
}

fn failed(error: &str, site: &Site<'_>, origin: &Origin) -> ExpandError {
    let (repository, package) = (site.repository, site.package);
    let upstream = origin.upstream.as_ref().map(|place| format!(", {place}")).unwrap_or_default();
    ExpandError::Unexpected(format!(
        "spec.targets[{}].{error} (repo {repository:?}, package {package:?}{upstream})",
        origin.target
    ))
}

/// Collector of failures, which either isolates them or ends the expansion.
struct Failures {
    are_isolated: bool,
    found: Vec<ExpandError>,
}

impl Failures {
    fn of(set: &PackageVariantSet) -> Self {
        Self { are_isolated: set.spec.failure_policy.as_deref() == Some(ISOLATE), found: Vec::new() }
    }

    /// Records an error and returns `None` if failures are isolated; otherwise returns the error.
    fn isolate<T>(&mut self, result: Result<T, ExpandError>) -> Result<Option<T>, ExpandError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if self.are_isolated => {
                self.found.push(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// Reports whether an expression reads the upstream, which then has to be resolved.
fn reads_upstream(set: &PackageVariantSet, expressions: &mut Expressions) -> bool {
    let templates = set.spec.targets.iter().filter_map(|target| target.template.as_ref());
    templates.flat_map(sources).any(|source| expressions.reads(&source, "upstream"))
}

/// Returns all expressions of a template.
fn sources(template: &PackageVariantTemplate) -> Vec<String> {
    let mut sources = Vec::new();
    let mut maps = vec![&template.label_exprs, &template.annotation_exprs];
    if let Some(downstream) = &template.downstream {
        sources.extend(downstream.repo_expr.iter().chain(&downstream.package_expr).cloned());
    }
    if let Some(context) = &template.package_context {
        maps.push(&context.data_exprs);
        sources.extend(context.remove_key_exprs.iter().cloned());
    }
    if let Some(pipeline) = &template.pipeline {
        let functions = pipeline.validators.iter().chain(&*pipeline.mutators);
        maps.extend(functions.map(|function| &function.config_map_exprs));
    }
    for entry in maps.into_iter().flat_map(|map| map.entries("").unwrap_or_default()) {
        sources.extend(entry.key_expr.into_iter().chain(entry.value_expr));
    }
    let injectors = template.injectors("").unwrap_or_default();
    sources.extend(injectors.into_iter().filter_map(|(_, injector)| injector.name_expr));
    sources
}

/// Renders a variant, and checks it with the rules of its own controller.
fn checked(
    template: Option<&PackageVariantTemplate>,
    site: &Site<'_>,
    around: &Surroundings<'_>,
    expressions: &mut Expressions,
) -> Result<PackageVariantSpec, String> {
    let spec = template::render(template, site, around, expressions)?;
    if template.is_none() {
        return Ok(spec);
    }
    let mut errors = validate_variant(&spec);
    errors.extend(
        spec.labels
            .iter()
            .filter(|(key, value)| !(is_label_key(key) && is_label_value(value)))
            .map(|(key, value)| format!("spec.labels: {key:?} with value {value:?} is not a valid label")),
    );
    errors.extend(
        spec.annotations
            .keys()
            .filter(|key| !is_annotation_key(key))
            .map(|key| format!("spec.annotations: {key:?} is not a valid annotation key")),
    );
    if errors.is_empty() { Ok(spec) } else { Err(format!("template: {}", errors.join("; "))) }
}

/// Adds a variant. An equal one is counted once, and a different one for the same package is an
/// error.
fn gather(gathered: &mut Gathered, spec: PackageVariantSpec, origin: &Origin) -> Result<(), ExpandError> {
    let downstream = spec.downstream.clone().unwrap_or_default();
    let (repository, package) = (downstream.repo.unwrap_or_default(), downstream.package.unwrap_or_default());
    let position = gathered.len();
    match gathered.entry((repository.clone(), package.clone())) {
        Entry::Vacant(place) => {
            place.insert((position, Variant { repository, package, spec, origin: origin.clone() }));
            Ok(())
        }
        Entry::Occupied(first) if first.get().1.spec == spec => Ok(()),
        Entry::Occupied(first) => {
            let first = first.get().1.origin.clone();
            let second = origin.clone();
            Err(ExpandError::DuplicateTargets { repo: repository, package, first, second })
        }
    }
}

#[cfg(test)]
mod tests;
