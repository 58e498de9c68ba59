//! Files of revisions (`packagevariants.md` 1.6, 6.14).

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::body::Bytes;
use groundwork_api::metadata::annotation;
use groundwork_api::{
    Kind as _, ObjectMeta, PackageRevisionResources, PackageRevisionResourcesSpec,
    PackageRevisionResourcesStatus, RenderStatus, ResourceExt as _, RevisionRecord,
};
use groundwork_apiserver::{Answer, Kind, Refusal, Request, Selector, Served, Verb, patched};
use groundwork_packages::git::{Actor, Committed, Content, GitRepository, Revision, Store, StoreError};
use serde_json::Value;

use super::kinds::{FILES_OF_GROUP, fields};
use super::upgrading::{Upgrading, refused};
use super::{Api, refusals};
use crate::packages::git_content::knowing;
use crate::packages::progress::keeps_failures;
use crate::packages::records::served;
use crate::packages::revision::{repository_key, revision_key};

/// Annotation with the paths of files that are no text in UTF-8, which this API cannot carry. A
/// save keeps them.
const BINARY_FILES: &str = "groundwork.dev/binary-files";
/// Limit for the files of one list, in bytes of JSON: they are in memory at the same time.
const LONGEST_LIST: usize = 64 << 20;

impl Api {
    /// Returns the files of a revision.
    pub(super) async fn read_files(&self, request: &Request) -> Result<Answer, Refusal> {
        let record = self.record(&request.namespace, &request.name).await?;
        let (_, _, found) = self.files(&record).await?;
        Ok(Answer::Object(json(&found)?))
    }

    /// Lists the files of the selected revisions.
    pub(super) async fn list_files(&self, kind: &Kind, request: &Request) -> Result<Answer, Refusal> {
        let selector: Selector = kind.selector(request)?;
        let log = self.log(&request.namespace, &request.options).await?;
        let (revisions, version) = log.list(&request.namespace, &selector);
        let mut items = Vec::new();
        let mut size = 0;
        for revision in revisions {
            let record = match self.record(&revision.namespace, &revision.name).await {
                Ok(record) => record,
                // It was deleted in the meantime.
                Err(refusal) if refusal.code == 404 => continue,
                Err(refusal) => return Err(refusal),
            };
            let (_, _, found) = self.files(&record).await?;
            let text: Bytes = json(&found)?.to_string().into();
            size += text.len();
            if size > LONGEST_LIST {
                let mebibytes = LONGEST_LIST >> 20;
                return Err(Refusal::bad_request(format!(
                    "the files of the selected revisions have more than {mebibytes} MiB: select fewer revisions, such as \
                     by --field-selector spec.repository=NAME, or get single ones"
                )));
            }
            items.push(Arc::new(Served {
                namespace: revision.namespace.clone(),
                name: revision.name.clone(),
                version,
                labels: BTreeMap::new(),
                fields: fields(&served(&record)),
                json: text,
            }));
        }
        Ok(Answer::List { items, version })
    }

    /// Replaces the text files of a draft, renders it, and answers with the results of the
    /// functions.
    pub(super) async fn save_files(
        &self,
        request: &Request,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Refusal> {
        let name = &request.name;
        let record = self.record(&request.namespace, name).await?;
        let (repository, revision, present) = self.files(&record).await?;
        self.ensure_current(&repository, &revision, &record).await?;
        let body = match request.verb {
            Verb::Patch => patched(&json(&present)?, request)?,
            _ => request.json()?,
        };
        let asked: PackageRevisionResources = serde_json::from_value(body).map_err(|error| {
            Refusal::bad_request(format!("the object is no PackageRevisionResources: {error}"))
        })?;
        let version = asked.metadata.resource_version.clone().filter(|version| !version.is_empty());
        let conflict = || Refusal::conflict(FILES_OF_GROUP, name, &StoreError::Conflict.to_string());
        match version {
            None if request.verb == Verb::Update => {
                return Err(Refusal::internal("resourceVersion must be specified for an update"));
            }
            Some(version) if Some(&version) != present.metadata.resource_version.as_ref() => {
                return Err(conflict());
            }
            _ => {}
        }
        let revision_object = served(&record);
        let is_unfinished = revision_object.annotations().contains_key(annotation::UNFINISHED);
        // The controller of a variant saves the new draft once more, and says that this finishes
        // it.
        let is_making = is_unfinished && asked.annotations().contains_key(annotation::UNFINISHED);
        let keeps = keeps_failures(&revision_object);
        let is_changed = *asked.spec.resources != *present.spec.resources;
        let upgrading = asked.annotations().get(annotation::UPGRADE);
        let upgrading = upgrading.map(|task| Upgrading::of_text(task)).transpose()?;
        let is_dry = request.options.is_dry_run;
        match upgrading {
            Some(upgrading) if is_dry => return self.preview_upgrade(&record, upgrading).await,
            Some(_) => {}
            // A package that failed to render before is rendered again: the cause may be gone.
            None if is_changed || is_making || keeps => {}
            None => return Ok(Answer::Object(json(&present)?)),
        }
        if let Some(Upgrading { upstream, .. }) = &upgrading {
            let known = self.known(&request.namespace, upstream).await;
            known.map_err(|error| refusals::of_store(&error, name))?;
        }
        let is_upgrade = upgrading.is_some();
        let texts = asked.spec.resources.clone();
        let (namespace, actor) = (request.namespace.clone(), Actor { name: request.user.name.clone() });
        let key = repository_key(&revision_key(&namespace, name));
        let save = {
            let (name, revision) = (name.clone(), Arc::clone(&revision));
            move |store: &Store| {
                if let Some(upgrading) = upgrading {
                    let update = upgrading.update(store, &namespace, &name)?;
                    let mut staged = store.stage_update(&namespace, &name, &revision.version(), &update)?;
                    if is_changed {
                        staged.set_files(texts.into_iter().collect());
                    }
                    return staged.keep_failures(keeps).making(is_making).commit(&actor).map(Some);
                }
                let texts = texts.into_iter().collect();
                let staged = store.stage_save(&namespace, &name, &revision.version(), texts)?;
                let staged = staged.keep_failures(keeps).making(is_making);
                if is_dry { Ok(None) } else { staged.commit(&actor).map(Some) }
            }
        };
        let store = self.store()?;
        let saved = if is_dry { store.run(&key, save).await } else { store.write(&key, save).await };
        let saved = saved.map_err(|error| match is_upgrade {
            true => refused(&error, name),
            false => refusals::of_store(&error, name),
        })?;
        let Some(Committed { revision, status, error }) = saved else {
            return Ok(Answer::Object(json(&asked)?));
        };
        let mut metadata = revision_object.metadata;
        metadata.annotations.as_mut().map(|annotations| annotations.remove(annotation::UNFINISHED));
        let metadata = is_unfinished.then_some(&metadata);
        let record = self.follow(&repository, &revision, record, metadata).await?;
        self.seen(&record).await;
        if let Some(error) = &error {
            warnings.push(format!("the package was saved without being rendered: {error}"));
        }
        let (_, _, mut found) = self.files(&record).await?;
        let mut render_status = status.unwrap_or_default();
        render_status.error = error.or(render_status.error).or_else(|| Some(String::new()));
        found.status = Some(rendered(render_status));
        Ok(Answer::Object(json(&found)?))
    }

    /// Reads the files of the revision of a record.
    async fn files(
        &self,
        record: &RevisionRecord,
    ) -> Result<(Arc<GitRepository>, Arc<Revision>, PackageRevisionResources), Refusal> {
        let (namespace, name) = (record.namespace().unwrap_or_default(), record.name_any());
        let store = self.store()?;
        let key = repository_key(&revision_key(&namespace, &name));
        let repository = knowing(store, &key, record, &self.objects).await;
        let repository = repository.map_err(|error| refusals::of_store(&error, &name))?;
        let read = {
            let (repository, name) = (Arc::clone(&repository), name.clone());
            store.run(&key, move |_| {
                let revision = repository.revision(&name)?;
                let content = repository.content(&revision)?;
                Ok((revision, content))
            })
        };
        let (revision, content) = read.await.map_err(|error| refusals::of_store(&error, &name))?;
        Ok((repository, revision, resources(record, content)))
    }
}

/// Returns the status with the results of functions.
pub(super) fn rendered(status: RenderStatus) -> PackageRevisionResourcesStatus {
    PackageRevisionResourcesStatus {
        render_status: Some(status),
        ..PackageRevisionResourcesStatus::default()
    }
}

/// Returns the object with the text files of a revision.
pub(super) fn resources(record: &RevisionRecord, content: Content) -> PackageRevisionResources {
    let revision = served(record);
    let Content { texts, binaries } = content;
    let binary: Vec<String> = binaries.into_keys().collect();
    let annotations = [(BINARY_FILES.to_owned(), binary.join(","))];
    let metadata = ObjectMeta {
        name: revision.metadata.name,
        namespace: revision.metadata.namespace,
        uid: revision.metadata.uid,
        resource_version: revision.metadata.resource_version,
        creation_timestamp: revision.metadata.creation_timestamp,
        annotations: (!binary.is_empty()).then(|| annotations.into()),
        ..ObjectMeta::default()
    };
    let spec = PackageRevisionResourcesSpec {
        package_name: revision.spec.package_name,
        workspace_name: revision.spec.workspace_name,
        revision: revision.spec.revision,
        repository: revision.spec.repository,
        resources: texts.into(),
        ..PackageRevisionResourcesSpec::default()
    };
    PackageRevisionResources { metadata, spec, status: None }
}

pub(super) fn json(object: &PackageRevisionResources) -> Result<Value, Refusal> {
    serde_json::to_value(object).map_err(|error| {
        Refusal::internal(&format!("{} cannot be written: {error}", PackageRevisionResources::KIND))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn texts_are_served_and_others_named() {
        let record: RevisionRecord = serde_json::from_value(json!({
            "metadata": {"name": "edge.dns.w", "namespace": "fleet", "resourceVersion": "7", "uid": "u"},
            "spec": {"packageName": "dns", "repository": "edge", "workspaceName": "w"},
        }))
        .unwrap();
        let texts = [("Kptfile".to_owned(), "a".to_owned())].into();
        let content =
            Content { texts, binaries: [("logo".to_owned(), "0".repeat(40).parse().unwrap())].into() };
        let object = super::json(&resources(&record, content)).unwrap();
        assert_eq!(object["spec"]["resources"], json!({"Kptfile": "a"}));
        assert_eq!(object["metadata"]["annotations"][BINARY_FILES], "logo");
        assert_eq!(object["metadata"]["resourceVersion"], "7");
        assert_eq!(object["kind"], "PackageRevisionResources");
    }
}
