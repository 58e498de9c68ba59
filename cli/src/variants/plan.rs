//! `groundwork variants plan`: shows the effect of sets on the existing variants before it happens.

use std::fmt::Write as _;

use groundwork_fleet::{Bundle, Field, Preview, SetPreview, Site};
use serde_json::Value;

use super::{Cluster, PlanArguments, PlanFormat};
use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::input::{self, Document};
use crate::{stdout, wall};

/// Reads the input, plans, and prints the plan.
pub(super) fn run(arguments: &PlanArguments) -> Ending {
    let mut diagnostics = Vec::new();
    let documents = input::read(&arguments.files, &mut diagnostics);
    let namespace = arguments.namespace.as_deref().unwrap_or("default");
    let Some(preview) = of_documents(&documents, namespace, &mut diagnostics) else {
        return Ending::Unusable;
    };
    let ending = print(&preview, arguments.output);
    diagnostic::print(&diagnostics);
    ending
}

/// Previews the effect of the sets on the variants in the documents. Returns `None` if that is not
/// possible; the reason is printed.
pub(crate) fn of_documents(
    documents: &[Document],
    namespace: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<Preview> {
    let cluster = Cluster::of_sets(documents, namespace, diagnostics)?;
    let mut previews = Vec::new();
    let mut namespaces: Vec<&String> = cluster.sets.keys().map(|(namespace, _)| namespace).collect();
    namespaces.dedup();
    for namespace in namespaces {
        let of_namespace = cluster.sets.iter().filter(|((found, _), _)| found == namespace);
        let sets: Vec<_> = of_namespace.map(|(_, set)| set.object.clone()).collect();
        let none = Bundle::new(namespace);
        let bundle = cluster.bundles.get(namespace).unwrap_or(&none);
        let variants = cluster.variants.get(namespace).map(Vec::as_slice).unwrap_or_default();
        previews.extend(wall::evaluate(|| bundle.preview(&sets, variants)));
    }
    Some(Preview::new(previews))
}

/// Prints a plan. A plan that a set refuses gives the exit code of a failure.
pub(super) fn print(preview: &Preview, format: PlanFormat) -> Ending {
    let text = match format {
        PlanFormat::Text => show(preview),
        PlanFormat::Json => format!("{:#}\n", serde_json::to_value(preview).unwrap_or(Value::Null)),
    };
    let written = stdout::write(&text);
    if written == Ending::Rendered && is_refused(preview) { Ending::Failed } else { written }
}

/// Reports whether a part of the sets would be refused.
pub(crate) fn is_refused(preview: &Preview) -> bool {
    preview.sets.iter().any(|set| set.refused.is_some() || !set.failed.is_empty())
}

pub(crate) fn show(preview: &Preview) -> String {
    let mut text = String::new();
    for set in &preview.sets {
        show_set(set, &mut text);
    }
    let _ = writeln!(text, "plan {}", preview.hash);
    text
}

fn show_set(set: &SetPreview, text: &mut String) {
    let SetPreview { namespace, name, created, changed, deleted, .. } = set;
    // Writing to a `String` cannot fail.
    let _ = writeln!(text, "PackageVariantSet {namespace}/{name}: {}", set.summary());
    for refused in set.failed.iter().chain(&set.refused) {
        let _ = writeln!(text, "  ! {}: {}", refused.reason, refused.message);
    }
    let site = |site: &Site| format!("{}  {}/{}", site.name, site.repo, site.package);
    for created in created {
        let _ = writeln!(text, "  + {}", site(&created.site));
        if let Some(blocked) = &created.blocked {
            let _ = writeln!(text, "      ! {}: {}", blocked.reason, blocked.message);
        }
    }
    for changed in changed {
        let _ = writeln!(text, "  ~ {}", site(&changed.site));
        for field in &changed.fields {
            let _ = writeln!(text, "      {}", change(field));
        }
    }
    for deleted in deleted {
        let _ = writeln!(text, "  - {}", site(&deleted.site));
        for revision in &deleted.revisions {
            let _ = writeln!(text, "      {} {}", revision.name, revision.fate);
        }
    }
}

/// Formats a difference, such as `spec.upstream.revision: "v1" -> "v2"`.
fn change(field: &Field) -> String {
    let value = |value: &Option<Value>| value.as_ref().map_or_else(|| "nothing".to_owned(), Value::to_string);
    format!("{}: {} -> {}", field.path, value(&field.old), value(&field.new))
}
