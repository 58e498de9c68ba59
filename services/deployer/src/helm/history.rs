//! Records of a release in the cluster that it is deployed to (`helm.md` 8): one Secret for each
//! revision.

use std::sync::Arc;

use data_encoding::BASE64;
use groundwork_api::kubernetes::is_label_value;
use groundwork_apply::{ApplyError, Cluster, Held, ResourceKind};
use groundwork_controller::ApiError;
use groundwork_helm::{Record, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

const TYPE: &str = "helm.sh/release.v1";
/// Label with the UID of the DeployItem that a revision was made for.
pub(super) const ITEM_LABEL: &str = "groundwork.dev/deployitem";
/// Label with the job and the revision. Helm's own client copies labels to the next revision, so a
/// label with an older revision marks a record that Helm made.
const OPERATION_LABEL: &str = "groundwork.dev/operation";
const TRUNCATED_LABEL: &str = "groundwork.dev/truncated";
/// Annotation with the `NAMESPACE/NAME` of the DeployItem, for messages.
pub(super) const ITEM_ANNOTATION: &str = "groundwork.dev/deployitem-name";
/// Records kept for each release, as Helm does by default.
const KEPT: usize = 10;
/// Limit for the records read of each release. Users with the right to create Secrets in the
/// cluster must not decide how much memory the deployer uses.
const MOST_READ: usize = 30;

/// A record with the Secret that stores it.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) record: Record,
    secret: Value,
}

impl Stored {
    fn label(&self, name: &str) -> &str {
        self.secret["metadata"]["labels"][name].as_str().unwrap_or_default()
    }

    /// Reports whether this job of an item made the revision.
    pub(super) fn is_of(&self, job: &str) -> bool {
        self.label(OPERATION_LABEL) == operation(job, self.record.revision())
    }

    /// Reports whether any job of an item made the revision.
    pub(super) fn is_of_item(&self, uid: &str) -> bool {
        let own_revision = format!(".{}", self.record.revision());
        self.label(ITEM_LABEL) == uid && self.label(OPERATION_LABEL).ends_with(&own_revision)
    }

    /// Returns UID and name of the item that the release was last made for. Both are empty for a
    /// release that others made.
    pub(super) fn item(&self) -> (&str, &str) {
        (
            self.label(ITEM_LABEL),
            self.secret["metadata"]["annotations"][ITEM_ANNOTATION].as_str().unwrap_or_default(),
        )
    }

    /// Reports whether a field manager has written the record.
    pub(super) fn has_manager(&self, manager: &str) -> bool {
        let entries = self.secret["metadata"]["managedFields"].as_array();
        entries.is_some_and(|entries| entries.iter().any(|entry| entry["manager"] == manager))
    }

    /// Reports whether the operation began less than `age` ago, so that its process may still be
    /// working.
    pub(super) fn is_younger_than(&self, age: jiff::SignedDuration) -> bool {
        let begun = self.record.last_deployed().parse::<Timestamp>();
        begun.is_ok_and(|begun| Timestamp::now().duration_since(begun) < age)
    }
}

/// Returns the value of the operation label. A label has at most 63 characters of a small set, and
/// the id of a job may be any text, so a job that does not fit is hashed.
fn operation(job: &str, revision: i64) -> String {
    let plain = format!("{job}.{revision}");
    if is_label_value(&plain) {
        return plain;
    }
    let digest = data_encoding::HEXLOWER.encode(&Sha256::digest(job));
    format!("{}.{revision}", &digest[..32])
}

/// Author of records: an item and its job.
#[derive(Debug, Clone)]
pub(super) struct Author {
    pub(super) uid: String,
    pub(super) job: String,
    /// The item, as `NAMESPACE/NAME`.
    pub(super) name: String,
}

/// Revisions of a release, oldest first.
#[derive(Debug)]
pub(super) struct History<'a> {
    cluster: &'a Cluster,
    kind: ResourceKind,
    namespace: String,
    pub(super) revisions: Vec<Stored>,
    /// Names of Secrets that look like records and cannot be decoded.
    pub(super) unreadable: Vec<String>,
}

impl<'a> History<'a> {
    /// Reads the records of a release.
    ///
    /// # Errors
    ///
    /// The cluster does not answer.
    pub(super) async fn load(cluster: &'a Cluster, namespace: &str, name: &str) -> Result<Self, ApplyError> {
        Ok(Self::read(cluster, namespace, name).await?)
    }

    /// Reads the records of a release; `None` if the deployer may not read Secrets.
    pub(super) async fn load_if_allowed(
        cluster: &'a Cluster,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Self>, ApplyError> {
        match Self::read(cluster, namespace, name).await {
            Err(ApiError::Forbidden { .. }) => Ok(None),
            answer => Ok(Some(answer?)),
        }
    }

    async fn read(cluster: &'a Cluster, namespace: &str, name: &str) -> Result<Self, ApiError> {
        let kind = ResourceKind {
            api_version: "v1".to_owned(),
            kind: "Secret".to_owned(),
            plural: "secrets".to_owned(),
            is_namespaced: true,
            has_status: false,
        };
        let number = |secret: &Value| -> i64 {
            let text = secret["metadata"]["labels"]["version"].as_str().unwrap_or_default();
            text.parse().unwrap_or_default()
        };
        let labels = format!("name={name},owner=helm");
        let mut secrets: Vec<(Value, Arc<Held>)> = Vec::new();
        let mut pages = cluster.pages(&kind, Some(namespace), &labels)?;
        while let Some(page) = pages.next().await? {
            let held = Arc::new(page.held);
            secrets.extend(page.objects.into_iter().map(|secret| (secret, Arc::clone(&held))));
            secrets.sort_by_key(|(secret, _)| std::cmp::Reverse(number(secret)));
            secrets.truncate(MOST_READ);
        }
        let (mut revisions, mut unreadable) = (Vec::new(), Vec::new());
        for (mut secret, _held) in secrets {
            // The decoded record replaces the data, which would take the same memory again.
            let data = secret.as_object_mut().and_then(|secret| secret.remove("data")).unwrap_or_default();
            let data = data["release"].as_str().unwrap_or_default();
            let decoded = BASE64.decode(data.as_bytes()).ok().and_then(|data| Record::decode(&data).ok());
            match decoded {
                Some(record) => revisions.push(Stored { record, secret }),
                None => unreadable.push(secret["metadata"]["name"].as_str().unwrap_or_default().to_owned()),
            }
        }
        revisions.sort_by_key(|stored| stored.record.revision());
        Ok(Self { cluster, kind, namespace: namespace.to_owned(), revisions, unreadable })
    }

    pub(super) fn last(&self) -> Option<&Stored> {
        self.revisions.last()
    }

    pub(super) fn deployed(&self) -> Option<&Stored> {
        self.revisions.iter().rev().find(|stored| stored.record.status() == Status::Deployed)
    }

    pub(super) fn revision(&self, revision: i64) -> Option<&Stored> {
        self.revisions.iter().find(|stored| stored.record.revision() == revision)
    }

    /// Stores a new revision. Of two concurrent writers only one can create the Secret of a
    /// revision; the other gets an error.
    ///
    /// # Errors
    ///
    /// The revision exists, the record is too large, or the cluster refuses it.
    pub(super) async fn create(&mut self, record: Record, author: &Author) -> Result<(), ApplyError> {
        let secret = self.secret(&record, author, None)?;
        let stored = match self.cluster.create(&self.kind, &secret).await {
            Err(ApiError::AlreadyExists(_)) => {
                return Err(ApplyError::Retry("release: already exists".to_owned()));
            }
            Err(ApiError::NoNamespace { namespace, .. }) => {
                return Err(ApplyError::Retry(format!(
                    "create: failed to create: namespaces {namespace:?} not found; create it, or set createNamespace"
                )));
            }
            answer => answer?,
        };
        self.revisions.push(Stored { record, secret: stored });
        Ok(())
    }

    /// Replaces the record of an existing revision.
    ///
    /// # Errors
    ///
    /// Another writer has changed the record, it is too large, or the cluster refuses it.
    pub(super) async fn update(&mut self, record: Record, author: &Author) -> Result<(), ApplyError> {
        let position = self.revisions.iter().position(|stored| stored.record.revision() == record.revision());
        let before = position.map(|position| self.revisions[position].secret.clone());
        let secret = self.secret(&record, author, before.as_ref())?;
        let stored = self.cluster.replace(&self.kind, &secret).await?;
        if let Some(position) = position {
            self.revisions[position] = Stored { record, secret: stored };
        }
        Ok(())
    }

    /// Deletes all records, the newest last: if the process ends midway, that record shows how far
    /// the deletion has come.
    pub(super) async fn forget(&mut self) -> Result<(), ApplyError> {
        while let Some(revision) = self.revisions.first().map(|stored| stored.record.revision()) {
            self.delete(revision).await?;
        }
        Ok(())
    }

    /// Deletes the record of a revision.
    async fn delete(&mut self, revision: i64) -> Result<(), ApplyError> {
        if let Some(stored) = self.revision(revision) {
            self.cluster.delete(&self.kind, &stored.secret).await?;
            self.revisions.retain(|stored| stored.record.revision() != revision);
        }
        Ok(())
    }

    /// Deletes the oldest records until there is room for one more. The deployed revision stays.
    pub(super) async fn prune(&mut self) -> Result<(), ApplyError> {
        while self.revisions.len() >= KEPT {
            let deployed = self.deployed().map(|stored| stored.record.revision());
            let oldest = self.revisions.iter().map(|stored| stored.record.revision());
            let Some(oldest) = oldest.filter(|revision| Some(*revision) != deployed).min() else {
                return Ok(());
            };
            self.delete(oldest).await?;
        }
        Ok(())
    }

    fn secret(&self, record: &Record, author: &Author, before: Option<&Value>) -> Result<Value, ApplyError> {
        let encoded = record.encode().map_err(|error| ApplyError::Configuration(error.to_string()))?;
        let now = Timestamp::now().as_second().to_string();
        let mut labels = before.map(|secret| secret["metadata"]["labels"].clone()).unwrap_or_default();
        if !labels.is_object() {
            labels = json!({"createdAt": now});
        }
        for (name, value) in [
            ("name", record.name()),
            ("owner", "helm"),
            ("status", record.status().as_str()),
            ("version", &record.revision().to_string()),
            ("modifiedAt", &now),
            (ITEM_LABEL, &author.uid),
            (OPERATION_LABEL, &operation(&author.job, record.revision())),
        ] {
            labels[name] = json!(value);
        }
        if let Some(truncated) = encoded.truncated {
            labels[TRUNCATED_LABEL] = json!(truncated);
        }
        let mut metadata = json!({
            "name": format!("sh.helm.release.v1.{}.v{}", record.name(), record.revision()),
            "namespace": self.namespace,
            "labels": labels,
            "annotations": {ITEM_ANNOTATION: author.name},
        });
        if let Some(before) = before {
            metadata["resourceVersion"] = before["metadata"]["resourceVersion"].clone();
        }
        Ok(json!({
            "apiVersion": "v1", "kind": "Secret", "type": TYPE, "metadata": metadata,
            "data": {"release": BASE64.encode(&encoded.data)},
        }))
    }

    /// Reports whether the release is stored in ConfigMaps, which only Helm's other storage driver
    /// reads (`helm.md` 8, R33).
    pub(super) async fn is_in_config_maps(&self, name: &str) -> Result<bool, ApplyError> {
        let kind = ResourceKind {
            kind: "ConfigMap".to_owned(),
            plural: "configmaps".to_owned(),
            ..self.kind.clone()
        };
        match self.cluster.list(&kind, Some(&self.namespace), &format!("name={name},owner=helm")).await {
            Ok(found) => Ok(!found.is_empty()),
            // A user who may not read ConfigMaps cannot have stored a release there.
            Err(ApiError::Forbidden { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}
