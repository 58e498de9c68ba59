//! Porch's API on the git store: package revisions, their files, and packages
//! (`packagevariants.md` 6.14).
//!
//! ```text
//! records of the cluster ──mirror──> Log ──> lists, watches
//! create, update, delete ──> rules ──> git ──> record ──> answer
//! files ──> git
//! ```
//!
//! A change is in git before its answer. The record follows it; one that is lost to a crash is made
//! by the next sync.

mod arguments;
mod changing;
mod creating;
mod files;
mod kinds;
mod migration;
mod reading;
mod refusals;
mod removing;
mod upgrading;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use groundwork_api::{PackageRevision, RevisionRecord};
use groundwork_apiserver::{
    Answer, ApiServer, Group, Kind, LAG, Log, Options, Refusal, Request, Served, Storage, Verb, Watch, mirror,
};
use groundwork_controller::Objects;
use groundwork_grpc::Access;
use groundwork_packages::git::StoreError;
use groundwork_telemetry::{Condition, Telemetry};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::PackageStore;
use super::git_content::{knowing, synced};
use super::records::served;
use super::revision::{repository_key, revision_key};
use crate::shared::Shared;
pub use arguments::{ApiArguments, ApiStartError};
use kinds::{FILES, GROUP, KINDS, PACKAGES, REVISIONS};

/// Porch's API on the git store of this process.
pub(crate) struct Api {
    shared: Arc<Shared>,
    objects: Objects,
    access: Access,
    /// Mirrors of the records, by namespace; one of all namespaces has the empty name.
    logs: BTreeMap<String, Arc<Log>>,
}

/// Server of the API, with its port open.
pub(crate) struct Serving {
    api: Arc<Api>,
    server: ApiServer,
    mirrored: Condition,
}

impl Serving {
    /// Opens the port. `None` if this service has no package store.
    ///
    /// # Errors
    /// The port is in use, or the certificate cannot be used.
    pub(crate) async fn start(
        arguments: &ApiArguments,
        shared: &Arc<Shared>,
        objects: &Objects,
        access: &Access,
        namespaces: &[String],
        telemetry: &Telemetry,
    ) -> Result<Option<Self>, ApiStartError> {
        if shared.store.is_none() {
            return Ok(None);
        }
        let everywhere = [String::new()];
        let namespaces = if namespaces.is_empty() { &everywhere } else { namespaces };
        let logs = namespaces.iter().map(|namespace| (namespace.clone(), Arc::default())).collect();
        let (shared, objects, access) = (Arc::clone(shared), objects.clone(), access.clone());
        let api = Arc::new(Api { shared, objects, access, logs });
        let client = api.objects.client().clone();
        let registration = arguments.registration(GROUP, client.default_namespace());
        let (files, storage) = (arguments.files(), Arc::clone(&api) as Arc<dyn Storage>);
        let ready = telemetry.health.condition("package-api");
        let access = api.access.clone();
        let server = ApiServer::bind(
            arguments.package_api_address,
            files,
            registration,
            storage,
            access,
            client,
            ready,
        )
        .await?;
        Ok(Some(Self { api, server, mirrored: telemetry.health.condition("package-records") }))
    }

    /// Takes over the package revisions of an earlier version. Controllers must not run before:
    /// they would find revisions without owners and labels.
    pub(crate) async fn migrate(&self, end: &CancellationToken) {
        end.run_until_cancelled(migration::migrate(&self.api.objects, &self.mirrored)).await;
    }

    /// Serves until `end` is cancelled.
    pub(crate) async fn run(self, end: CancellationToken) {
        let Self { api, server, mirrored } = self;
        let client = api.objects.client();
        let mirrors = api.logs.iter().map(|(namespace, log)| {
            mirror(client.clone(), namespace.clone(), log, mirrored_object, &mirrored, end.clone())
        });
        let serving = async {
            if let Err(error) = server.serve(end.clone()).await {
                tracing::error!(%error, "package revisions are no longer served");
            }
        };
        tokio::join!(futures::future::join_all(mirrors), serving);
    }
}

/// Returns the PackageRevision of a record in the form of the log.
fn mirrored_object(record: &RevisionRecord) -> Option<Served> {
    let object = served(record);
    let version = object.metadata.resource_version.as_deref()?.parse().ok()?;
    kinds::of_revision(&object, version)
}

impl Api {
    fn store(&self) -> Result<&PackageStore, Refusal> {
        self.shared.store.as_ref().ok_or_else(|| Refusal::unavailable("this service has no package store"))
    }

    /// Returns the mirror of a namespace, once it has been read and is as new as a request asks.
    async fn log(&self, namespace: &str, options: &Options) -> Result<&Arc<Log>, Refusal> {
        let log = self.logs.get(namespace).or_else(|| self.logs.get(""));
        let log = log.ok_or_else(|| {
            let known: Vec<&str> = self.logs.keys().map(String::as_str).collect();
            let known = known.join(", ");
            Refusal::bad_request(format!(
                "this server knows the packages of the namespaces {known} only: name one of them"
            ))
        })?;
        if !log.is_filled() {
            return Err(Refusal::unavailable("the package revisions have not been read yet"));
        }
        let asked = options.resource_version.unwrap_or_default();
        log.until(asked, LAG).await.map_err(|newest| Refusal::too_new(asked, newest))?;
        Ok(log)
    }

    /// Waits until the mirror shows a write of this replica, so that the next list shows it, too.
    async fn seen(&self, record: &RevisionRecord) {
        let namespace = record.metadata.namespace.as_deref().unwrap_or_default();
        let log = self.logs.get(namespace).or_else(|| self.logs.get(""));
        let version = record.metadata.resource_version.as_deref().and_then(|version| version.parse().ok());
        if let (Some(log), Some(version)) = (log, version) {
            // A mirror that lags is no failure of the write.
            let _ = log.until(version, LAG).await;
        }
    }

    /// Has the revision that a request names read from its repository, if this replica does not
    /// know it as its record says.
    async fn known(&self, namespace: &str, name: &str) -> Result<(), StoreError> {
        let (store, key) = (self.store(), repository_key(&revision_key(namespace, name)));
        let Ok(store) = store else { return Ok(()) };
        match self.objects.get::<RevisionRecord>(namespace, name).await {
            Ok(Some(record)) => knowing(store, &key, &record, &self.objects).await.map(drop),
            // Git may have what has no record yet.
            Ok(None) => synced(store, &key, &self.objects).await.map(drop),
            Err(error) => Err(StoreError::Unavailable(error.to_string())),
        }
    }

    /// Reads the record of a revision.
    async fn record(&self, namespace: &str, name: &str) -> Result<RevisionRecord, Refusal> {
        let found = self.objects.get::<RevisionRecord>(namespace, name).await;
        let found = found.map_err(|error| refusals::of_api(&error, name))?;
        found.ok_or_else(|| refusals::missing(name))
    }
}

#[async_trait]
impl Storage for Api {
    fn group(&self) -> Group {
        GROUP
    }

    fn kinds(&self) -> &'static [Kind] {
        KINDS
    }

    fn schema(&self, kind: &Kind) -> Value {
        kinds::schema(kind)
    }

    async fn answer(
        &self,
        kind: &'static Kind,
        request: Request,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Refusal> {
        match (kind.plural, request.subresource.as_str(), request.verb) {
            (REVISIONS, _, Verb::Get) => {
                let record = self.record(&request.namespace, &request.name).await?;
                Ok(Answer::Object(object(&served(&record))?))
            }
            (REVISIONS, "", Verb::List) => self.list(kind, &request).await,
            (REVISIONS, "", Verb::Watch) => {
                let selector = kind.selector(&request)?;
                let options = Options { resource_version: None, ..request.options.clone() };
                let log = Arc::clone(self.log(&request.namespace, &options).await?);
                Ok(Answer::Watch(Watch { log, selector }))
            }
            (REVISIONS, "", Verb::Create) => self.create(&request, warnings).await,
            (REVISIONS, _, Verb::Update | Verb::Patch) => self.change(&request, warnings).await,
            (REVISIONS, "", Verb::Delete) => self.remove(&request).await,
            (FILES, "", Verb::Get) => self.read_files(&request).await,
            (FILES, "", Verb::List) => self.list_files(kind, &request).await,
            (FILES, "", Verb::Update | Verb::Patch) => self.save_files(&request, warnings).await,
            (PACKAGES, "", Verb::List) => self.list_packages(kind, &request).await,
            (PACKAGES, "", Verb::Get) => self.package(&request).await,
            _ => Err(Refusal::method_not_allowed(kind.plural, request.verb.as_str())),
        }
    }
}

/// Returns an object as JSON.
fn object(object: &PackageRevision) -> Result<Value, Refusal> {
    serde_json::to_value(object).map_err(|error| Refusal::internal(&error.to_string()))
}
