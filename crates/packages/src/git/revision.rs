//! Package revision as read from git, and its object in the cluster (`packagevariants.md` 1.5).

use std::sync::Arc;

use gix_hash::ObjectId;
use groundwork_api::{
    GitLock, Lifecycle, List, Locator, Map, PackageMetadata, PackageRevision, PackageRevisionSpec,
    PackageRevisionStatus, Task,
};
use groundwork_fleet::{Package, revision_name};
use groundwork_krm::Description;

use crate::git::message::Owner;

/// Number of revisions that have none: the head of the branch, and tags that users set.
pub(crate) const UNNUMBERED: i64 = -1;

/// One revision of a package.
#[derive(Debug, Clone)]
pub struct Revision {
    /// Name of the object: repository, package and workspace.
    pub name: String,
    /// Path below the registered directory.
    pub package: String,
    pub workspace: String,
    /// 0 until the revision is published; -1 if it never gets a number.
    pub number: i64,
    pub lifecycle: Lifecycle,
    /// Full name of the ref. Kptfiles use its short form.
    pub reference: String,
    pub short_reference: String,
    pub commit: ObjectId,
    /// Object ID of the package's directory, which is the same for equal content.
    pub directory: ObjectId,
    pub facts: Arc<Facts>,
}

/// Data from commits and the Kptfile.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    pub description: Description,
    /// Task that made the revision, if a commit names it.
    pub task: Option<Task>,
    pub owner: Option<Owner>,
    /// Approver, and the time of the approval in seconds since 1970.
    pub published: Option<(String, i64)>,
    /// Approximate size in bytes.
    pub(crate) weight: usize,
}

impl Facts {
    /// Sets the approximate size.
    pub(crate) fn weighed(self) -> Self {
        let task = self.task.as_ref().and_then(|task| serde_json::to_string(task).ok());
        let weight = task.map_or(0, |text| text.len()) + self.description.weight();
        Self { weight, ..self }
    }
}

impl Revision {
    /// Returns the version of content and lifecycle. It includes the ref, since a change of the
    /// lifecycle may keep the commit (`packagevariants.md` 6.2).
    pub fn version(&self) -> String {
        format!("{}@{}", self.reference, self.commit)
    }

    pub fn is_placeholder(&self, branch: &str) -> bool {
        self.reference == format!("refs/heads/{branch}")
    }

    /// Returns the object without the attributes that only the cluster knows: namespace, labels,
    /// annotations, owners.
    pub fn object(&self, place: &RevisionPlace<'_>) -> PackageRevision {
        let facts = &self.facts;
        let description = &facts.description;
        let has_metadata = !description.labels.is_empty() || !description.annotations.is_empty();
        let metadata = has_metadata.then(|| PackageMetadata {
            labels: Map::unless_empty(description.labels.clone()),
            annotations: Map::unless_empty(description.annotations.clone()),
            ..PackageMetadata::default()
        });
        let spec = PackageRevisionSpec {
            package_name: Some(self.package.clone()),
            repository: Some(place.repository.to_owned()),
            workspace_name: Some(self.workspace.clone()),
            revision: (self.number != 0).then_some(self.number),
            lifecycle: Some(self.lifecycle.as_str().to_owned()),
            tasks: List::unless_empty(facts.task.iter().cloned()),
            readiness_gates: List::unless_empty(description.readiness_gates.iter().cloned()),
            package_metadata: metadata,
            ..PackageRevisionSpec::default()
        };
        let published = facts.published.as_ref();
        let status = PackageRevisionStatus {
            upstream_lock: description.upstream_lock.clone(),
            self_lock: Some(self.lock(place)),
            published_by: published.map(|(who, _)| who.clone()),
            publish_timestamp: published.and_then(|(_, when)| time(*when)),
            deployment: Some(place.deployment),
            conditions: List::unless_empty(description.conditions.iter().cloned()),
            ..PackageRevisionStatus::default()
        };
        let mut object = PackageRevision { spec, status: Some(status), ..PackageRevision::default() };
        object.metadata.name = Some(self.name.clone());
        object.metadata.namespace = Some(place.namespace.to_owned());
        object
    }

    /// Returns the location of the revision itself.
    pub fn lock(&self, place: &RevisionPlace<'_>) -> Locator {
        Locator {
            type_: Some("git".to_owned()),
            git: Some(GitLock {
                repo: Some(place.url.to_owned()),
                directory: Some(self.package.clone()),
                reference: Some(self.short_reference.clone()),
                commit: Some(self.commit.to_string()),
                tree: Some(self.directory.to_string()),
                ..GitLock::default()
            }),
            ..Locator::default()
        }
    }
}

/// Repository of a revision.
#[derive(Debug, Clone, Copy)]
pub struct RevisionPlace<'a> {
    pub namespace: &'a str,
    pub repository: &'a str,
    pub url: &'a str,
    pub deployment: bool,
}

impl RevisionPlace<'_> {
    pub fn name(&self, package: &str, workspace: &str) -> String {
        revision_name(Package { repository: self.repository, path: package }, workspace)
    }
}

fn time(seconds: i64) -> Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time> {
    jiff::Timestamp::from_second(seconds).ok().map(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time)
}
