//! `groundwork variants draft`: shows the packages that variants make, from files.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use groundwork_api::{Kind as _, PackageVariant, Repository, ResourceExt as _, Upstream};
use groundwork_fleet::{Package, check_names, reference, revision_name, validate_variant};
use groundwork_krm::{GivenObjects, Mutation, Origin, clone_package, describe};
use serde_json::Value;

use super::{Cluster, DraftArguments, report};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::functions::Functions;
use crate::input;
use crate::package_folder::{self, KPTFILE, Links, PackageFiles};
use crate::stdout;
use crate::terminal::shown;
use crate::wall;

/// Workspace of the first revision of a package that a variant makes (`packagevariants.md` 2.6).
const WORKSPACE: &str = "packagevariant-1";

/// Destination of the packages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DraftOutput {
    Text,
    /// Folder with a folder for each repository, which has its packages.
    Folder(PathBuf),
}

impl FromStr for DraftOutput {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("dir=")) {
            ("text", _) => Ok(Self::Text),
            (_, Some(path)) if !path.is_empty() => Ok(Self::Folder(path.into())),
            _ => Err("text or dir=PATH is expected".to_owned()),
        }
    }
}

/// Reads the input, makes each package, and prints or writes it.
pub(super) fn run(arguments: &DraftArguments) -> Ending {
    let mut diagnostics = Vec::new();
    let documents = input::read(&arguments.files, &mut diagnostics);
    let Some(cluster) = Cluster::of_variants(&documents, &arguments.namespace, &mut diagnostics) else {
        return Ending::Unusable;
    };
    let functions = match arguments.functions.open() {
        Ok(functions) => functions,
        Err(error) => {
            diagnostic::print(&[Diagnostic::error(error)]);
            return Ending::Unusable;
        }
    };
    let mut text = String::new();
    let mut ending = Ending::Rendered;
    for variant in wanted(&cluster, &mut diagnostics, &mut ending) {
        let title = format!("PackageVariant {}", named(&variant));
        let drafted = draft(&variant, &cluster, &arguments.packages, &functions, &mut diagnostics);
        let written = drafted.and_then(|draft| {
            let _ = writeln!(text, "{title}: {}/{}", shown(&draft.repository), shown(&draft.package));
            tell(&draft, &mut text);
            match &arguments.output {
                DraftOutput::Text => show(&draft, &mut text),
                DraftOutput::Folder(folder) => {
                    let place = format!("{}/{}", draft.repository, draft.package);
                    groundwork_untrusted::check(&place).map_err(|error| error.to_string())?;
                    // Only this command writes into the folder of a draft, so all of its files may
                    // be replaced.
                    package_folder::replace(&folder.join(place), &draft.files)
                        .map_err(|error| error.to_string())?;
                }
            }
            Ok(())
        });
        if let Err(error) = written {
            diagnostics.push(Diagnostic::error(format!("{title}: {error}")));
            ending = Ending::Failed;
        }
    }
    let written = stdout::write(&text);
    diagnostic::print(&diagnostics);
    if written == Ending::Rendered { ending } else { written }
}

fn named(variant: &PackageVariant) -> String {
    format!("{}/{}", variant.namespace().unwrap_or_default(), variant.name_any())
}

/// Returns the variants of the files, and those that the sets of the files make.
fn wanted(
    cluster: &Cluster<'_>,
    diagnostics: &mut Vec<Diagnostic>,
    ending: &mut Ending,
) -> Vec<PackageVariant> {
    let mut variants: Vec<PackageVariant> = cluster.variants.values().flatten().cloned().collect();
    for ((namespace, name), set) in &cluster.sets {
        let title = format!("PackageVariantSet {namespace}/{name}");
        let none = super::Bundle::new(namespace);
        let bundle = cluster.bundles.get(namespace).unwrap_or(&none);
        let failures = match wall::evaluate(|| bundle.expand(&set.object)) {
            Ok(expanded) => {
                variants.extend(expanded.variants);
                expanded.failures
            }
            Err(failure) => vec![failure],
        };
        for failure in &failures {
            *ending = Ending::Failed;
            report(&title, set.document, failure, diagnostics);
        }
    }
    variants.sort_by_key(named);
    variants
}

/// Package with the content of its first draft.
struct Draft {
    repository: String,
    package: String,
    files: PackageFiles,
    /// Messages of the functions.
    results: Vec<String>,
}

fn draft(
    variant: &PackageVariant,
    cluster: &Cluster<'_>,
    packages: &Path,
    functions: &Functions,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<Draft, String> {
    let errors = validate_variant(&variant.spec);
    if !errors.is_empty() {
        return Err(errors.join("; "));
    }
    let namespace = variant.namespace().unwrap_or_default();
    let downstream = variant.spec.downstream.clone().unwrap_or_default();
    let (repository, package) = (downstream.repo.unwrap_or_default(), downstream.package.unwrap_or_default());
    let place = Package { repository: &repository, path: &package };
    check_names(place, WORKSPACE, "main", &[]).map_err(|error| error.to_string())?;
    let objects = cluster.objects.get(&namespace).map(Vec::as_slice).unwrap_or_default();
    let (mut files, origin) = source(variant, objects, packages)?;
    let is_deployment = match self::repository(objects, &repository) {
        Some(found) => found.spec.deployment.unwrap_or_default(),
        None => {
            diagnostics.push(Diagnostic::warning(format!(
                "PackageVariant {}: the input has no Repository {repository:?}; assuming that it is not a deployment \
                 repository",
                named(variant)
            )));
            false
        }
    };
    let texts = &mut files.texts;
    clone_package(texts, &origin.directory, &package, &origin, is_deployment)
        .map_err(|error| error.to_string())?;
    let mut results = render(texts, functions)?;
    let given =
        GivenObjects { namespace: namespace.clone(), objects: objects.to_vec(), ..GivenObjects::default() };
    let revision = revision_name(place, WORKSPACE);
    let mutation = Mutation { variant, namespace: &namespace, revision: &revision, cluster: &given };
    let mutated = wall::evaluate(|| groundwork_krm::mutate(Some(texts), &mutation))
        .map_err(|error| format!("{}: {error}", error.reason()))?;
    if mutated.changed {
        *texts = mutated.files;
        results = render(texts, functions)?;
    }
    Ok(Draft { repository, package, files, results })
}

/// Returns the files of the upstream package, and the upstream for its Kptfile.
fn source(
    variant: &PackageVariant,
    objects: &[Value],
    packages: &Path,
) -> Result<(PackageFiles, Origin), String> {
    let upstream: Upstream = variant.spec.upstream.clone().unwrap_or_default();
    let (name, package) =
        (upstream.repo.clone().unwrap_or_default(), upstream.package.clone().unwrap_or_default());
    let git = repository(objects, &name).and_then(|found| found.spec.git).unwrap_or_default();
    let directory = git.directory.unwrap_or_default();
    let path = format!("{}/{package}", directory.trim_matches('/'));
    let path = path.trim_matches('/');
    let folder = packages.join(&name).join(path);
    let stays_inside = !name.contains('/') && groundwork_untrusted::check(&format!("{name}/{path}")).is_ok();
    if !stays_inside || !folder.join(KPTFILE).is_file() {
        return Err(format!(
            "package {package:?} of repository {name:?} does not exist: {} contains no {KPTFILE}",
            folder.display()
        ));
    }
    let files = package_folder::read(&folder, Links::Refuse).map_err(|error| error.to_string())?;
    let reference = reference(&upstream, path);
    Ok((files, Origin { repo: git.repo, directory: package, reference, commit: None }))
}

fn repository(objects: &[Value], name: &str) -> Option<Repository> {
    let is_it = |object: &&Value| {
        object["apiVersion"] == Repository::API_VERSION
            && object["kind"] == Repository::KIND
            && object["metadata"]["name"] == name
    };
    serde_json::from_value(objects.iter().find(is_it)?.clone()).ok()
}

/// Runs the functions of a package, and returns their messages.
fn render(texts: &mut groundwork_krm::Package, functions: &Functions) -> Result<Vec<String>, String> {
    let rendered = wall::evaluate(|| groundwork_krm::render(texts, &functions.options()));
    if let Some(error) = rendered.error {
        return Err(format!("RenderFailed: {error}"));
    }
    *texts = rendered.files;
    let results = rendered.status.result.unwrap_or_default();
    let line = |function: &groundwork_api::FunctionResult| {
        let name = function.image.as_deref().or(function.exec.as_deref()).unwrap_or_default();
        let messages: Vec<&str> =
            function.results.iter().filter_map(|item| item.message.as_deref()).collect();
        format!("{}: {}", shown(name), shown(&messages.join("; ")))
    };
    Ok(results.items.iter().map(line).collect())
}

/// Adds notes that a user should read about a package.
fn tell(draft: &Draft, text: &mut String) {
    for result in &draft.results {
        let _ = writeln!(text, "  {result}");
    }
    let description = describe(&draft.files.texts);
    let is_open = |status: &str| status != "True";
    for condition in description.conditions.iter().filter(|condition| is_open(&condition.status)) {
        let message = condition.message.as_deref().unwrap_or_default();
        let _ = writeln!(text, "  ! {} is {}: {}", shown(&condition.type_), condition.status, shown(message));
    }
}

/// Adds the files, one after the other.
fn show(draft: &Draft, text: &mut String) {
    for (path, content) in &draft.files.texts {
        let _ = writeln!(text, "\n# {}/{}/{}", shown(&draft.repository), shown(&draft.package), shown(path));
        let lines = content.lines().map(shown);
        lines.for_each(|line| {
            let _ = writeln!(text, "{line}");
        });
    }
    for path in draft.files.binaries.keys() {
        let _ = writeln!(
            text,
            "\n# {}/{}/{} (binary)",
            shown(&draft.repository),
            shown(&draft.package),
            shown(path)
        );
    }
    text.push('\n');
}
