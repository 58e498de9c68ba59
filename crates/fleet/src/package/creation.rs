//! Rules for the name and the source of a new revision (`packagevariants.md` 2.8, 6.6).

use groundwork_api::kubernetes::{is_dns_label, is_dns_subdomain};
use groundwork_api::{
    CloneTask, GitPackage, PackageRevision, PackageRevisionRef, ResourceExt as _, Task, UpgradeTask,
};

use super::{Package, Repositories, given, is_published, revision_name};
use crate::validate::STRATEGIES;

/// Limit for the path of a package without its slashes, in bytes.
const LONGEST_PATH: usize = 63;
/// Merge strategy of an upgrade that names none.
const DEFAULT_STRATEGY: &str = "resource-merge";

/// Source of a new revision. The revisions that its task names exist and may be used.
#[derive(Clone, Debug, PartialEq)]
pub enum Creation<'a> {
    Init {
        description: String,
    },
    Clone(Source<'a>),
    Edit {
        source: &'a PackageRevision,
    },
    Upgrade {
        old: &'a PackageRevision,
        new: &'a PackageRevision,
        local: &'a PackageRevision,
        strategy: &'a str,
    },
}

/// Source of a clone.
#[derive(Clone, Debug, PartialEq)]
pub enum Source<'a> {
    Revision(&'a PackageRevision),
    /// Package in a git repository that is not registered.
    Git(&'a GitPackage),
}

/// Reason why a revision cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CreationError {
    #[error("task list must not contain more than one task")]
    ManyTasks,
    #[error(
        "a task of type {0:?} cannot create a package revision; use `init`, `clone`, `edit` or `upgrade`"
    )]
    TaskType(String),
    #[error("the task of type {kind:?} does not specify {member}")]
    Incomplete { kind: &'static str, member: &'static str },
    #[error("workspaceName {0:?} is not a DNS label; use at most 63 lower-case letters, digits and `-`")]
    Workspace(String),
    #[error(
        "package path {0:?} is not valid; use lower-case letters, digits, `-` and single `/`, at most 63 characters \
         besides `/`"
    )]
    Path(String),
    #[error(
        "package revision name {0:?} is not a DNS subdomain; use lower-case letters, digits, `-` and `.`"
    )]
    Name(String),
    #[error(
        "workspaceName {0:?} is the name of the repository's branch, whose head has this name: choose another one"
    )]
    Branch(String),
    #[error(
        "package revision workspaceNames must be unique; package revision with name {package} in repo {repo} with \
         workspaceName {workspace} already exists"
    )]
    WorkspaceExists { package: String, repo: String, workspace: String },
    #[error("package path {new:?} conflicts with existing package {old:?}: packages cannot be nested")]
    Nested { new: String, old: String },
    #[error(
        "`{task}` cannot create a new revision for package {package:?} that already exists in repo {repo:?}; make subsequent \
         revisions using `copy`"
    )]
    PackageExists { task: &'static str, package: String, repo: String },
    #[error("clone from OCI is not implemented")]
    Oci,
    #[error("package revision {0:?}, which the task names, does not exist")]
    NotFound(String),
    #[error("source revision may not be the placeholder package revision {repo}/{name}")]
    Placeholder { repo: String, name: String },
    #[error("source revision must be from same package {repo}/{package}")]
    OtherPackage { repo: String, package: String },
    #[error("source revision must be published")]
    NotPublished,
    #[error("all source PackageRevisions of upgrade task must be published, {0:?} is not")]
    UpgradeNotPublished(String),
    #[error("unrecognized update strategy {0}")]
    Strategy(String),
}

/// Checks the name of a new revision against all revisions of its namespace, and against the branch
/// of its repository.
///
/// # Errors
/// The first rule that the name breaks.
pub fn check_names(
    package: Package<'_>,
    workspace: &str,
    branch: &str,
    revisions: &[PackageRevision],
) -> Result<(), CreationError> {
    if !is_dns_label(workspace) {
        return Err(CreationError::Workspace(workspace.to_owned()));
    }
    // The head of the branch would take the name of the object, and hide the published revision.
    if workspace == branch {
        return Err(CreationError::Branch(workspace.to_owned()));
    }
    let joined = package.path.replace('/', "");
    if !is_dns_label(&joined) || joined.len() > LONGEST_PATH || package.path.split('/').any(str::is_empty) {
        return Err(CreationError::Path(package.path.to_owned()));
    }
    let name = revision_name(package, workspace);
    if !is_dns_subdomain(&name) {
        return Err(CreationError::Name(name));
    }
    if package.revisions(revisions).any(|found| super::workspace(found) == workspace) {
        return Err(CreationError::WorkspaceExists {
            package: package.path.to_owned(),
            repo: package.repository.to_owned(),
            workspace: workspace.to_owned(),
        });
    }
    let others = revisions.iter().map(Package::of).filter(|found| found.repository == package.repository);
    let is_below = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/')) && !outer.is_empty()
    };
    let nested =
        others.map(|found| found.path).find(|old| is_below(package.path, old) || is_below(old, package.path));
    match nested {
        Some(old) => Err(CreationError::Nested { new: package.path.to_owned(), old: old.to_owned() }),
        None => Ok(()),
    }
}

/// Checks the task of a new revision, and returns its source. Without a task, the package is
/// created from scratch.
///
/// `revisions` are all of the namespace.
///
/// # Errors
/// The first rule that the task breaks.
pub fn check_creation<'a>(
    package: Package<'_>,
    tasks: &'a [Task],
    revisions: &'a [PackageRevision],
    repositories: Repositories<'_>,
) -> Result<Creation<'a>, CreationError> {
    let world = World { package, revisions, repositories };
    let task = match tasks {
        [] => return world.init(format!("{} description", package.path)),
        [task] => task,
        _ => return Err(CreationError::ManyTasks),
    };
    let missing = |kind, member| CreationError::Incomplete { kind, member };
    match task.type_.as_str() {
        "init" => {
            let init = task.init.clone().unwrap_or_default();
            world.init(init.description.unwrap_or_default())
        }
        "clone" => world.clone_of(task.clone.as_ref().ok_or_else(|| missing("clone", "clone"))?),
        "edit" => {
            let edit = task.edit.as_ref().ok_or_else(|| missing("edit", "edit"))?;
            world.edit(edit.source_ref.as_ref().ok_or_else(|| missing("edit", "edit.sourceRef"))?)
        }
        "upgrade" => world.upgrade(task.upgrade.as_ref().ok_or_else(|| missing("upgrade", "upgrade"))?),
        other => Err(CreationError::TaskType(other.to_owned())),
    }
}

/// Revisions and Repositories that a task may refer to.
struct World<'w, 'a> {
    package: Package<'w>,
    revisions: &'a [PackageRevision],
    repositories: Repositories<'w>,
}

impl<'a> World<'_, 'a> {
    fn exists(&self, task: &'static str) -> CreationError {
        CreationError::PackageExists {
            task,
            package: self.package.path.to_owned(),
            repo: self.package.repository.to_owned(),
        }
    }

    fn init(&self, description: String) -> Result<Creation<'a>, CreationError> {
        match self.package.revisions(self.revisions).next() {
            Some(_) => Err(self.exists("init")),
            None => Ok(Creation::Init { description }),
        }
    }

    /// Checks a clone. Drafts of other packages do not prevent it, and neither does the content of
    /// a deleted package that is left on the branch.
    fn clone_of(&self, task: &'a CloneTask) -> Result<Creation<'a>, CreationError> {
        if self.package.revisions(self.revisions).any(is_published) {
            return Err(self.exists("clone"));
        }
        let missing = |member| CreationError::Incomplete { kind: "clone", member };
        let source = task.upstream_ref.as_ref().ok_or_else(|| missing("clone.upstreamRef"))?;
        if let Some(reference) = &source.upstream_ref {
            let upstream = self.revision(reference)?;
            return Ok(Creation::Clone(Source::Revision(upstream)));
        }
        if source.oci.is_some() || source.type_.as_deref() == Some("oci") {
            return Err(CreationError::Oci);
        }
        let git = source.git.as_ref().ok_or_else(|| missing("what to clone"))?;
        for (text, member) in [(&git.repo, "git.repo"), (&git.reference, "git.ref")] {
            given(text.as_ref()).ok_or_else(|| missing(member))?;
        }
        Ok(Creation::Clone(Source::Git(git)))
    }

    fn edit(&self, reference: &PackageRevisionRef) -> Result<Creation<'a>, CreationError> {
        let source = self.revision(reference)?;
        self.same_package(source)?;
        self.not_placeholder(source)?;
        if !is_published(source) {
            return Err(CreationError::NotPublished);
        }
        Ok(Creation::Edit { source })
    }

    fn upgrade(&self, task: &'a UpgradeTask) -> Result<Creation<'a>, CreationError> {
        let read = |reference: &Option<PackageRevisionRef>, member| match reference {
            Some(reference) => self.revision(reference),
            None => Err(CreationError::Incomplete { kind: "upgrade", member }),
        };
        let old = read(&task.old_upstream_ref, "upgrade.oldUpstreamRef")?;
        let new = read(&task.new_upstream_ref, "upgrade.newUpstreamRef")?;
        let local = read(&task.local_package_revision_ref, "upgrade.localPackageRevisionRef")?;
        self.not_placeholder(local)?;
        self.same_package(local)?;
        // The upstream may be a Draft; a revision of the package itself must be published.
        for revision in [old, new, local] {
            if Package::of(revision) == self.package && !is_published(revision) {
                return Err(CreationError::UpgradeNotPublished(revision.name_any()));
            }
        }
        let strategy = given(task.strategy.as_ref()).unwrap_or(DEFAULT_STRATEGY);
        if !STRATEGIES.contains(&strategy) {
            return Err(CreationError::Strategy(strategy.to_owned()));
        }
        Ok(Creation::Upgrade { old, new, local, strategy })
    }

    fn revision(&self, reference: &PackageRevisionRef) -> Result<&'a PackageRevision, CreationError> {
        let found = self.revisions.iter().find(|found| found.metadata.name.as_ref() == Some(&reference.name));
        found.ok_or_else(|| CreationError::NotFound(reference.name.clone()))
    }

    /// Refuses the head of a branch as a revision of the package itself. As an upstream it is
    /// content like any other.
    fn not_placeholder(&self, revision: &PackageRevision) -> Result<(), CreationError> {
        if !self.repositories.is_placeholder(revision) {
            return Ok(());
        }
        let repo = Package::of(revision).repository.to_owned();
        Err(CreationError::Placeholder { repo, name: revision.name_any() })
    }

    fn same_package(&self, source: &PackageRevision) -> Result<(), CreationError> {
        if Package::of(source) == self.package {
            return Ok(());
        }
        let (repo, package) = (self.package.repository.to_owned(), self.package.path.to_owned());
        Err(CreationError::OtherPackage { repo, package })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::package::tests::revision;

    fn world() -> Vec<PackageRevision> {
        vec![
            revision("catalog/net/coredns:v4-ws", 4, "Published"),
            revision("catalog/net/coredns:v5-ws", 5, "DeletionProposed"),
            revision("catalog/net/coredns:next", 0, "Draft"),
            revision("catalog/net/coredns:main", -1, "Published"),
            revision("catalog/net/coredns:v4.0.0", -1, "Published"),
            revision("edge/dns:packagevariant-1", 1, "Published"),
            revision("edge/dns:packagevariant-2", 0, "Draft"),
            revision("edge/dns:main", -1, "Published"),
            revision("edge/web:mine", 0, "Draft"),
            revision("edge/left:main", -1, "Published"),
        ]
    }

    #[test]
    fn names_that_a_revision_may_have() {
        let long = "x".repeat(63);
        for (path, workspace, expected) in [
            ("cache", "w", "ok"),
            ("net/cache", "packagevariant-1", "ok"),
            (long.as_str(), "w", "ok"),
            ("dns", "packagevariant-3", "ok"),
            (
                "cache",
                "W",
                "workspaceName \"W\" is not a DNS label; use at most 63 lower-case letters, digits and `-`",
            ),
            (
                "cache",
                "",
                "workspaceName \"\" is not a DNS label; use at most 63 lower-case letters, digits and `-`",
            ),
            (
                "dns",
                "packagevariant-1",
                "package revision workspaceNames must be unique; package revision with name dns in repo edge with \
                 workspaceName packagevariant-1 already exists",
            ),
            (
                "dns/inner",
                "w",
                "package path \"dns/inner\" conflicts with existing package \"dns\": packages cannot be nested",
            ),
            (
                "dnsx",
                "main",
                "workspaceName \"main\" is the name of the repository's branch, whose head has this name: choose another one",
            ),
            ("dnsx", "w", "ok"),
        ] {
            let package = Package { repository: "edge", path };
            let found = check_names(package, workspace, "main", &world());
            assert_eq!(
                found.map_or_else(|error| error.to_string(), |()| "ok".to_owned()),
                expected,
                "{path}"
            );
        }
        let outer = check_names(Package { repository: "catalog", path: "net" }, "w", "main", &world());
        assert_eq!(
            outer.unwrap_err().to_string(),
            "package path \"net\" conflicts with existing package \"net/coredns\": packages cannot be nested"
        );
        for path in ["", "/a", "a/", "a//b", "a.b", "A", &format!("{}/{}", "x".repeat(32), "y".repeat(32))] {
            let found = check_names(Package { repository: "edge", path }, "w", "main", &world());
            assert_eq!(found, Err(CreationError::Path(path.to_owned())));
        }
        let found = check_names(Package { repository: "edge", path: "a-/b" }, "w", "main", &world());
        assert_eq!(found, Err(CreationError::Name("edge.a-.b.w".to_owned())));
    }

    fn check(path: &str, tasks: &Value, expected: &str) {
        let tasks: Vec<Task> = serde_json::from_value(tasks.clone()).unwrap();
        let (world, package) = (world(), Package { repository: "edge", path });
        let found = match check_creation(package, &tasks, &world, Repositories::default()) {
            Ok(Creation::Init { description }) => format!("init {description}"),
            Ok(Creation::Clone(Source::Revision(found))) => format!("clone {}", found.name_any()),
            Ok(Creation::Clone(Source::Git(git))) => format!("clone {}", git.repo.as_deref().unwrap()),
            Ok(Creation::Edit { source }) => format!("edit {}", source.name_any()),
            Ok(Creation::Upgrade { old, new, local, strategy }) => {
                format!("{strategy} {} {} {}", old.name_any(), new.name_any(), local.name_any())
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{path}");
    }

    fn clone(name: &str) -> Value {
        json!([{"type": "clone", "clone": {"upstreamRef": {"upstreamRef": {"name": name}}}}])
    }

    #[test]
    fn init_needs_a_new_package() {
        check("new", &json!([]), "init new description");
        check("new", &json!([{"type": "init", "init": {"description": "Mine"}}]), "init Mine");
        let exists = "`init` cannot create a new revision for package \"web\" that already exists in repo \"edge\"; make \
                      subsequent revisions using `copy`";
        check("web", &json!([{"type": "init"}]), exists);
    }

    /// V-039: drafts of others do not prevent a clone.
    #[test]
    fn clones() {
        for (path, tasks, expected) in [
            ("new", clone("catalog.net.coredns.v4-ws"), "clone catalog.net.coredns.v4-ws"),
            ("new", clone("catalog.net.coredns.next"), "clone catalog.net.coredns.next"),
            ("new", clone("catalog.net.coredns.v4.0.0"), "clone catalog.net.coredns.v4.0.0"),
            ("web", clone("catalog.net.coredns.v4-ws"), "clone catalog.net.coredns.v4-ws"),
            ("left", clone("catalog.net.coredns.v4-ws"), "clone catalog.net.coredns.v4-ws"),
            (
                "dns",
                clone("catalog.net.coredns.v4-ws"),
                "`clone` cannot create a new revision for package \"dns\" that already exists in repo \"edge\"; make \
                 subsequent revisions using `copy`",
            ),
            ("new", clone("catalog.net.coredns.main"), "clone catalog.net.coredns.main"),
            ("new", clone("gone"), "package revision \"gone\", which the task names, does not exist"),
            (
                "new",
                json!([{"type": "clone", "clone": {"upstreamRef": {"git": {"repo": "u", "ref": "v1"}}}}]),
                "clone u",
            ),
            (
                "new",
                json!([{"type": "clone", "clone": {"upstreamRef": {"git": {"repo": "u"}}}}]),
                "the task of type \"clone\" does not specify git.ref",
            ),
            (
                "new",
                json!([{"type": "clone", "clone": {"upstreamRef": {"type": "oci", "oci": {"image": "i"}}}}]),
                "clone from OCI is not implemented",
            ),
            ("new", json!([{"type": "clone"}]), "the task of type \"clone\" does not specify clone"),
            (
                "new",
                json!([{"type": "push"}]),
                "a task of type \"push\" cannot create a package revision; use `init`, `clone`, `edit` or `upgrade`",
            ),
            (
                "new",
                json!([{"type": "init"}, {"type": "init"}]),
                "task list must not contain more than one task",
            ),
        ] {
            check(path, &tasks, expected);
        }
    }

    #[test]
    fn edits() {
        let edit = |name: &str| json!([{"type": "edit", "edit": {"sourceRef": {"name": name}}}]);
        check("dns", &edit("edge.dns.packagevariant-1"), "edit edge.dns.packagevariant-1");
        check("dns", &edit("edge.dns.packagevariant-2"), "source revision must be published");
        check("dns", &edit("edge.web.mine"), "source revision must be from same package edge/dns");
        check(
            "dns",
            &edit("edge.dns.main"),
            "source revision may not be the placeholder package revision edge/edge.dns.main",
        );
        check(
            "dns",
            &json!([{"type": "edit", "edit": {}}]),
            "the task of type \"edit\" does not specify edit.sourceRef",
        );
    }

    #[test]
    fn upgrades() {
        let upgrade = |old: &str, new: &str, local: &str, strategy: &str| {
            let name = |name: &str| json!({"name": name});
            json!([{"type": "upgrade", "upgrade": {"oldUpstreamRef": name(old), "newUpstreamRef": name(new),
                "localPackageRevisionRef": name(local), "strategy": strategy}}])
        };
        let [four, five] = ["catalog.net.coredns.v4-ws", "catalog.net.coredns.v5-ws"];
        let (local, draft) = ("edge.dns.packagevariant-1", "edge.dns.packagevariant-2");
        check("dns", &upgrade(four, five, local, ""), &format!("resource-merge {four} {five} {local}"));
        check("dns", &upgrade(four, five, local, "copy-merge"), &format!("copy-merge {four} {five} {local}"));
        check("dns", &upgrade(four, five, local, "x"), "unrecognized update strategy x");
        check(
            "dns",
            &upgrade(four, five, draft, ""),
            "all source PackageRevisions of upgrade task must be published, \"edge.dns.packagevariant-2\" is not",
        );
        check(
            "dns",
            &upgrade(four, "catalog.net.coredns.next", local, ""),
            &format!("resource-merge {four} catalog.net.coredns.next {local}"),
        );
        check(
            "dns",
            &upgrade(four, "catalog.net.coredns.main", local, ""),
            &format!("resource-merge {four} catalog.net.coredns.main {local}"),
        );
        check(
            "dns",
            &upgrade(four, five, "edge.dns.main", ""),
            "source revision may not be the placeholder package revision edge/edge.dns.main",
        );
        check("web", &upgrade(four, five, local, ""), "source revision must be from same package edge/web");
    }
}
