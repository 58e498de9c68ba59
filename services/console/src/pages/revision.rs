//! Page of a package revision.

use groundwork_api::{Lifecycle, PackageRevision, ResourceExt as _};
use groundwork_lifecycle::waits::{Wait, of_revision};
use jiff::Timestamp;
use maud::{Markup, html};
use serde::Serialize;

use super::Page;
use super::parts::{path, waiting};
use crate::landscape::NamespacedName;

/// View of a package revision.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RevisionView {
    place: NamespacedName,
    /// Stage in git, as `stage` returns it.
    lifecycle: String,
    package: String,
    workspace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    revision: Option<i64>,
    /// Message of the package store in the status.
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waits_for: Option<Wait>,
}

/// Returns the stage of a revision.
pub(crate) fn stage(revision: &PackageRevision) -> Option<Lifecycle> {
    revision.spec.lifecycle()
}

impl RevisionView {
    pub(crate) fn of(revision: &PackageRevision) -> Self {
        let spec = &revision.spec;
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        Self {
            place: NamespacedName::new(&revision.namespace().unwrap_or_default(), &revision.name_any()),
            lifecycle: stage(revision).map(Lifecycle::as_str).unwrap_or_default().to_owned(),
            package: format!("{}/{}", text(&spec.repository), text(&spec.package_name)),
            workspace: text(&spec.workspace_name),
            revision: spec.revision,
            message: revision.status.as_ref().and_then(|status| status.message.clone()),
            waits_for: of_revision(revision, stage(revision)),
        }
    }

    /// Renders the revision as one line of a list.
    pub(crate) fn line(&self) -> Markup {
        html! {
            a href=(path("revisions", &self.place)) { (self.place.name) } " "
            span class="badge" { (self.lifecycle) } " "
            span class="note" {
                (self.workspace)
                @if let Some(number) = self.revision.filter(|number| *number > 0) { " v" (number) }
            }
        }
    }
}

#[derive(Debug, Serialize)]
pub(crate) struct RevisionPage {
    #[serde(flatten)]
    revision: RevisionView,
    /// Operations that the visitor may start.
    operations: Vec<&'static str>,
}

impl RevisionPage {
    pub(crate) fn new(revision: &PackageRevision, operations: Vec<&'static str>) -> Self {
        Self { revision: RevisionView::of(revision), operations }
    }
}

impl Page for RevisionPage {
    fn title(&self) -> String {
        format!("Package revision {}", self.revision.place)
    }

    fn topic(&self) -> Option<String> {
        Some(format!("revisions/{}", self.revision.place))
    }

    fn content(&self, now: Timestamp) -> Markup {
        let RevisionView { place, lifecycle, package, workspace, revision, message, waits_for } =
            &self.revision;
        html! {
            p { span class="badge" { (lifecycle) } }
            (waiting(waits_for.as_ref(), now))
            @if !self.operations.is_empty() {
                p class="operations" {
                    @for operation in &self.operations {
                        a class="button" href={ (path("revisions", place)) "/" (operation) } { (operation) }
                    }
                }
            }
            dl class="facts" {
                dt { "Package" } dd { (package) }
                dt { "Workspace" } dd { (workspace) }
                @if let Some(revision) = revision { dt { "Revision" } dd { (revision) } }
                @if let Some(message) = message { dt { "Message of the store" } dd { pre { (message) } } }
            }
        }
    }
}
