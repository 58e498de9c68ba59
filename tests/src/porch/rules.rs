//! Rules of the Porch stand-in for packages: tasks (`packagevariants.md` 6.6), lifecycles
//! (`packagevariants.md` 6.5) and errors (`packagevariants.md` 6.13).

use std::collections::BTreeMap;

use groundwork_krm::{
    Origin, Package, Strategy, Versions, add_merge_keys, clone_package, describe, init_package,
    restore_context, set_origin,
};
use serde_json::{Value, json};

use super::{FAILING, Fault, Inner, Place};

/// Package revision with its files.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) object: Value,
    pub(super) files: Package,
}

/// Error answer to a request.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) reason: &'static str,
    pub(super) text: String,
}

/// Returns an internal server error with the cause in its text, the form of most Porch failures.
pub(super) fn internal(text: impl std::fmt::Display) -> Refusal {
    Refusal { status: 500, reason: "InternalError", text: format!("Internal error occurred: {text}") }
}

fn forbidden(text: &str) -> Refusal {
    Refusal { status: 403, reason: "Forbidden", text: text.to_owned() }
}

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

fn text<'a>(object: &'a Value, path: &str) -> &'a str {
    object.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

impl Stored {
    pub(super) fn name(&self) -> String {
        text(&self.object, "/metadata/name").to_owned()
    }

    pub(super) fn place(&self) -> Place {
        (text(&self.object, "/metadata/namespace").to_owned(), self.name())
    }

    pub(super) fn lifecycle(&self) -> &str {
        text(&self.object, "/spec/lifecycle")
    }

    fn number(&self) -> i64 {
        self.object["spec"]["revision"].as_i64().unwrap_or_default()
    }

    fn is_of(&self, namespace: &str, repository: &str, package: &str) -> bool {
        text(&self.object, "/metadata/namespace") == namespace
            && text(&self.object, "/spec/repository") == repository
            && text(&self.object, "/spec/packageName") == package
    }

    fn check_version(&self, body: &Value) -> Result<(), Refusal> {
        let is_same =
            text(body, "/metadata/resourceVersion") == text(&self.object, "/metadata/resourceVersion");
        if is_same { Ok(()) } else { Err(internal(MODIFIED)) }
    }

    /// Returns the files in the form that the server serves.
    pub(super) fn resources(&self) -> Value {
        let part = |path: &str| self.object.pointer(path).cloned().unwrap_or_default();
        json!({
            "apiVersion": "porch.kpt.dev/v1alpha1", "kind": "PackageRevisionResources",
            "metadata": {"name": part("/metadata/name"), "namespace": part("/metadata/namespace"),
                "resourceVersion": part("/metadata/resourceVersion"), "creationTimestamp": null},
            "spec": {"packageName": part("/spec/packageName"), "repository": part("/spec/repository"),
                "workspaceName": part("/spec/workspaceName"), "resources": self.files},
        })
    }

    /// Copies conditions, readiness gates and lock of the Kptfile to the object.
    fn tell(&mut self) {
        let described = describe(&self.files);
        self.object["spec"]["readinessGates"] = json!(described.readiness_gates);
        self.object["status"]["conditions"] = json!(described.conditions);
        // Porch serves a missing lock as an empty object.
        self.object["status"]["upstreamLock"] = described.upstream_lock.map_or(json!({}), |lock| json!(lock));
    }
}

fn render(files: &Package) -> Result<(), String> {
    let kptfile = files.get("Kptfile").ok_or("the package is missing Kptfile")?;
    if kptfile.contains(FAILING) { Err(format!("{FAILING}: exit status 1")) } else { Ok(()) }
}

impl Inner {
    /// Returns the planned error for a request, if there is one, and whether the server does the
    /// request all the same.
    pub(super) fn fault(&mut self, method: &str, path: &str) -> Option<(Refusal, bool)> {
        let is_met = |fault: &Fault| {
            let of_namespace = format!("/namespaces/{}/", fault.namespace);
            fault.method == method && path.contains(&of_namespace) && path.ends_with(&fault.path)
        };
        let at = self.faults.iter().position(is_met)?;
        let fault = self.faults.get(at).cloned()?;
        if !fault.is_lasting {
            self.faults.remove(at);
        }
        Some((Refusal { status: fault.status, reason: "", text: fault.message }, fault.is_done))
    }

    /// Gives the revision a new commit hash. The prefix `c0` keeps the hash from being parsed as a
    /// number.
    fn commit(&mut self, stored: &mut Stored) {
        self.commits += 1;
        let commit = format!("c0{:038x}", self.commits);
        stored.object["metadata"]["resourceVersion"] = json!(commit);
        self.locate(stored);
    }

    /// Sets the git ref of a revision, which depends on its lifecycle.
    fn locate(&self, stored: &mut Stored) {
        let object = &stored.object;
        let (package, workspace) = (text(object, "/spec/packageName"), text(object, "/spec/workspaceName"));
        let reference = match stored.lifecycle() {
            "Draft" => format!("drafts/{package}/{workspace}"),
            "Proposed" => format!("proposed/{package}/{workspace}"),
            _ => format!("{package}/v{}", stored.number()),
        };
        let repository =
            (text(object, "/metadata/namespace").to_owned(), text(object, "/spec/repository").to_owned());
        let address = self.repositories.get(&repository).map(|(address, _)| address.clone());
        let lock = json!({"repo": address, "directory": package, "ref": reference,
            "commit": text(object, "/metadata/resourceVersion")});
        stored.object["status"]["selfLock"] = json!({"type": "git", "git": lock});
    }

    pub(super) fn new_revision(
        &mut self,
        namespace: &str,
        body: &Value,
        files: Package,
    ) -> Result<Stored, Refusal> {
        let spec = &body["spec"];
        let [repository, package, workspace] = ["repository", "packageName", "workspaceName"]
            .map(|member| spec[member].as_str().unwrap_or_default());
        let Some((_, deployment)) =
            self.repositories.get(&(namespace.to_owned(), repository.to_owned())).cloned()
        else {
            return Err(internal(format!("repository {repository:?} not found")));
        };
        let name = format!("{repository}.{}.{workspace}", package.replace('/', "."));
        let mut object = body.clone();
        object["apiVersion"] = json!("porch.kpt.dev/v1alpha1");
        object["kind"] = json!("PackageRevision");
        object["metadata"]["namespace"] = json!(namespace);
        object["metadata"]["name"] = json!(name);
        // Porch derives the UID from kind, namespace and name. A revision that is created again
        // gets the same UID.
        object["metadata"]["uid"] = json!(format!("uid-of-{namespace}-{name}"));
        object["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["status"] = json!({"deployment": deployment, "novel": "members that nobody knows"});
        let mut stored = Stored { object, files };
        self.commit(&mut stored);
        stored.tell();
        Ok(stored)
    }

    /// Creates a package revision (`packagevariants.md` 6.6).
    pub(super) fn create(&mut self, namespace: &str, body: &Value) -> Result<Stored, Refusal> {
        let spec = &body["spec"];
        if spec["lifecycle"] != "Draft" {
            let text = "value can be only created as Draft".to_owned();
            return Err(Refusal { status: 422, reason: "Invalid", text });
        }
        let tasks = spec["tasks"].as_array().cloned().unwrap_or_default();
        let [task] = tasks.as_slice() else { return Err(internal("task list must contain exactly 1 task")) };
        let [repository, package, workspace] = ["repository", "packageName", "workspaceName"]
            .map(|member| spec[member].as_str().unwrap_or_default());
        let of_package: Vec<&Stored> =
            self.revisions.values().filter(|found| found.is_of(namespace, repository, package)).collect();
        if of_package.iter().any(|found| text(&found.object, "/spec/workspaceName") == workspace) {
            return Err(internal(format!(
                "package revision workspaceNames must be unique; package revision with name {package} in repo {repository} \
                 with workspaceName {workspace} already exists"
            )));
        }
        if task["type"] == "clone" && !of_package.is_empty() {
            return Err(internal(format!(
                "`clone` cannot create a new revision for package {package:?} that already exists in repo {repository:?}; \
                 make subsequent revisions using `copy`"
            )));
        }
        let files = self.content(namespace, (repository, package), task)?;
        render(&files)
            .map_err(|error| internal(format!("fn.render: pkg.render:\n\tpipeline.run: {error}")))?;
        self.new_revision(namespace, body, files)
    }

    /// Returns the files that the task of a create produces.
    fn content(
        &self,
        namespace: &str,
        (repository, package): (&str, &str),
        task: &Value,
    ) -> Result<Package, Refusal> {
        let find = |path: &str| {
            let name = text(task, path);
            let found = self.revisions.get(&(namespace.to_owned(), name.to_owned()));
            found.ok_or_else(|| internal(format!("package revision {name:?} not found")))
        };
        match task["type"].as_str() {
            Some("init") => {
                let task = serde_json::from_value(task["init"].clone()).map_err(internal)?;
                Ok(init_package(package, &task))
            }
            Some("clone") => {
                let upstream = find("/clone/upstreamRef/upstreamRef/name")?;
                let key = (namespace.to_owned(), repository.to_owned());
                let deployment = self.repositories.get(&key).is_some_and(|(_, deployment)| *deployment);
                let mut files = upstream.files.clone();
                let source = text(&upstream.object, "/spec/packageName");
                clone_package(&mut files, source, package, &origin(upstream), deployment)
                    .map_err(internal)?;
                Ok(files)
            }
            Some("edit") => {
                let source = find("/edit/sourceRef/name")?;
                match source.lifecycle() {
                    "Published" | "DeletionProposed" => Ok(source.files.clone()),
                    _ => Err(internal("source revision must be published")),
                }
            }
            Some("upgrade") => {
                let old = find("/upgrade/oldUpstreamRef/name")?;
                let new = find("/upgrade/newUpstreamRef/name")?;
                let local = find("/upgrade/localPackageRevisionRef/name")?;
                if local.number() < 1 {
                    let name = local.name();
                    let text = "all source PackageRevisions of upgrade task must be published";
                    return Err(internal(format!("{text}, {name:?} is not")));
                }
                let strategy: Strategy = text(task, "/upgrade/strategy").parse().unwrap_or_default();
                let merged =
                    groundwork_krm::merge(strategy, Versions::new(&old.files, &new.files, &local.files));
                let mut files = merged.map_err(internal)?.files;
                restore_context(&mut files, &local.files, strategy);
                set_origin(&mut files, package, None, &origin(new)).map_err(internal)?;
                add_merge_keys(&mut files);
                Ok(files)
            }
            other => Err(internal(format!("task of type {other:?} is not supported"))),
        }
    }

    /// Publishes a revision with the next number and the label of the latest revision. Returns the
    /// earlier revisions that lose that label (`packagevariants.md` 6.5).
    pub(super) fn approve(&mut self, stored: &mut Stored) -> Vec<Stored> {
        let object = &stored.object;
        let [namespace, repository, package] =
            ["/metadata/namespace", "/spec/repository", "/spec/packageName"]
                .map(|path| text(object, path).to_owned());
        let of_package =
            self.revisions.values_mut().filter(|found| found.is_of(&namespace, &repository, &package));
        let mut highest = 0;
        let mut former = Vec::new();
        for found in of_package {
            highest = found.number().max(highest);
            let labels = found.object["metadata"].get_mut("labels").and_then(Value::as_object_mut);
            if labels.is_some_and(|labels| labels.remove("kpt.dev/latest-revision").is_some()) {
                former.push(found.clone());
            }
        }
        stored.object["spec"]["lifecycle"] = json!("Published");
        stored.object["spec"]["revision"] = json!(highest + 1);
        stored.object["metadata"]["labels"]["kpt.dev/latest-revision"] = json!("true");
        self.commit(stored);
        former
    }

    /// Updates an object, or its lifecycle through the subresource `approval`. The resource version
    /// covers neither labels nor the lifecycle.
    pub(super) fn update(
        &mut self,
        place: &Place,
        body: &Value,
        is_approval: bool,
    ) -> Result<Vec<Stored>, Refusal> {
        let mut stored = self.revisions.get(place).cloned().ok_or_else(|| not_found(&place.1))?;
        stored.check_version(body)?;
        let (from, to) = (stored.lifecycle().to_owned(), text(body, "/spec/lifecycle").to_owned());
        // A PUT deletes the metadata that it omits. The fields that the server sets stay as they
        // are.
        for member in ["labels", "annotations", "ownerReferences"] {
            stored.object["metadata"][member] = body["metadata"][member].clone();
        }
        let metadata = stored.object["metadata"].as_object_mut();
        metadata.into_iter().for_each(|metadata| metadata.retain(|_, value| !value.is_null()));
        if body.pointer("/status/novel").is_none() {
            return Err(internal("a member that the client does not know was left out of an update"));
        }
        let mut changed = Vec::new();
        match (from.as_str(), to.as_str(), is_approval) {
            (from, to, _) if from == to => {}
            ("Draft", "Proposed", false)
            | ("Proposed", "Draft", _)
            | ("Published", "DeletionProposed", false)
            | ("DeletionProposed", "Published", _) => {
                stored.object["spec"]["lifecycle"] = json!(to);
                self.locate(&mut stored);
            }
            ("Proposed", "Published", true) => changed = self.approve(&mut stored),
            _ => return Err(internal(format!("package with {from} lifecycle value cannot become {to}"))),
        }
        changed.push(stored);
        Ok(changed)
    }

    /// Saves files, and returns the revision and the answer.
    pub(super) fn save(&mut self, place: &Place, body: &Value) -> Result<(Stored, Value), Refusal> {
        let mut stored = self.revisions.get(place).cloned().ok_or_else(|| not_found(&place.1))?;
        stored.check_version(body)?;
        if stored.lifecycle() != "Draft" {
            let lifecycle = stored.lifecycle();
            return Err(internal(format!(
                "cannot update a package revision with lifecycle value {lifecycle:?}; package must be Draft"
            )));
        }
        let files: BTreeMap<String, String> =
            serde_json::from_value(body["spec"]["resources"].clone()).map_err(internal)?;
        let mut status = json!({"result": {"exitCode": 0, "items": []}, "error": ""});
        if let Err(error) = render(&files) {
            let annotation = "/metadata/annotations/porch.kpt.dev~1push-on-render-failure";
            if text(&stored.object, annotation) != "true" {
                return Err(internal(format!(
                    "Error rendering package in kpt function pipeline. Package NOT pushed to remote. Fix locally (until 'kpt fn \
                     render' succeeds) and retry. Details: {error}"
                )));
            }
            status = json!({"result": {"exitCode": 1, "items": []}, "error": error});
        }
        stored.files = files;
        self.commit(&mut stored);
        stored.tell();
        let mut answer = stored.resources();
        answer["status"] = json!({"renderStatus": status});
        Ok((stored, answer))
    }

    pub(super) fn delete(&mut self, place: &Place) -> Result<Stored, Refusal> {
        let stored = self.revisions.get(place).ok_or_else(|| not_found(&place.1))?;
        if stored.lifecycle() == "Published" {
            return Err(forbidden(
                "published PackageRevisions must be proposed for deletion by setting spec.lifecycle to 'DeletionProposed' prior \
                 to deletion",
            ));
        }
        self.revisions.remove(place).ok_or_else(|| not_found(&place.1))
    }
}

pub(super) fn not_found(name: &str) -> Refusal {
    let text = format!("packagerevisions.porch.kpt.dev {name:?} not found");
    Refusal { status: 404, reason: "NotFound", text }
}

fn origin(upstream: &Stored) -> Origin {
    let lock = |member: &str| text(&upstream.object, &format!("/status/selfLock/git/{member}")).to_owned();
    Origin {
        repo: lock("repo"),
        directory: lock("directory"),
        reference: lock("ref"),
        commit: Some(lock("commit")),
    }
}
