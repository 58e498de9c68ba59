//! One namespace of a system, and the actions of a user in it.

use anyhow::{Context, Result};
use groundwork_api::{DeployItem, Installation};
use groundwork_tests::{System, wait_for};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::{PATIENCE, finished, installation};

/// Namespace that belongs to one test alone.
pub(crate) struct Case<'a> {
    pub(crate) system: &'a System,
    pub(crate) namespace: String,
    client: Client,
}

/// Kind of namespaced objects.
pub(crate) trait Namespaced:
    Resource<DynamicType = (), Scope = NamespaceResourceScope>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> Namespaced for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
{
}

impl<'a> Case<'a> {
    /// Creates a new namespace.
    pub(crate) async fn new(system: &'a System, namespace: &str) -> Result<Self> {
        system.plane.create_namespace(namespace).await?;
        Self::existing(system, namespace).await
    }

    /// Uses a namespace that exists already.
    pub(crate) async fn existing(system: &'a System, namespace: &str) -> Result<Self> {
        Ok(Self { system, namespace: namespace.to_owned(), client: system.client().await? })
    }

    pub(crate) fn api<K: Namespaced>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    pub(crate) async fn get<K: Namespaced>(&self, name: &str) -> Result<K> {
        Ok(self.api().get(name).await?)
    }

    /// Creates an object. `content` is its document without the name.
    pub(crate) async fn create<K: Namespaced>(&self, name: &str, content: &Value) -> Result<K> {
        let mut object = content.clone();
        object["metadata"]["name"] = json!(name);
        object["apiVersion"] = json!(K::api_version(&()));
        object["kind"] = json!(K::kind(&()));
        let object: K = serde_json::from_value(object)?;
        Ok(self.api().create(&PostParams::default(), &object).await?)
    }

    /// Changes an object by a merge patch.
    pub(crate) async fn change<K: Namespaced>(&self, name: &str, change: &Value) -> Result<K> {
        Ok(self.api().patch(name, &PatchParams::default(), &Patch::Merge(change)).await?)
    }

    pub(crate) async fn delete<K: Namespaced>(&self, name: &str) -> Result<()> {
        self.api::<K>().delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    pub(crate) async fn list<K: Namespaced>(&self, labels: &str) -> Result<Vec<K>> {
        Ok(self.api().list(&ListParams::default().labels(labels)).await?.items)
    }

    /// Creates an Installation with an inline blueprint, and waits for the end of its job. The
    /// Installation runs a job on each change of its spec.
    pub(crate) async fn install(&self, name: &str, blueprint: &str) -> Result<Installation> {
        self.install_with(name, blueprint, &json!({})).await
    }

    /// Creates an Installation as [`Self::install`] does, with more fields in its spec.
    pub(crate) async fn install_with(
        &self,
        name: &str,
        blueprint: &str,
        spec: &Value,
    ) -> Result<Installation> {
        self.begin_with(name, blueprint, spec).await?;
        self.finished(name).await
    }

    /// Creates an Installation without waiting.
    pub(crate) async fn begin_with(&self, name: &str, blueprint: &str, spec: &Value) -> Result<Installation> {
        let mut object = serde_json::to_value(installation(&self.namespace, name, blueprint))?;
        for (field, value) in spec.as_object().into_iter().flatten() {
            object["spec"][field] = value.clone();
        }
        self.create(name, &object).await
    }

    /// Waits until the last job for the current spec has ended.
    pub(crate) async fn finished(&self, name: &str) -> Result<Installation> {
        finished(self.system, &self.namespace, name).await
    }

    /// Requests an operation by the annotation `operation`.
    pub(crate) async fn ask(&self, name: &str, operation: &str) -> Result<()> {
        let annotations = json!({"landscaper.gardener.cloud/operation": operation});
        self.change::<Installation>(name, &json!({"metadata": {"annotations": annotations}})).await?;
        Ok(())
    }

    /// Requests a job and waits for its end.
    pub(crate) async fn reconcile(&self, name: &str) -> Result<Installation> {
        let before = job(&self.get(name).await?);
        self.ask(name, "reconcile").await?;
        self.finished_after(name, &before).await
    }

    /// Waits until a job after the given one has ended.
    pub(crate) async fn finished_after(&self, name: &str, before: &str) -> Result<Installation> {
        let what = format!("{}/{name} has finished another job", self.namespace);
        self.until(&what, name, |installation: &Installation| {
            let status = installation.status.clone().unwrap_or_default();
            status.job_id == status.job_id_finished && job(installation) != before
        })
        .await
    }

    /// Waits until an object satisfies a condition.
    pub(crate) async fn until<K: Namespaced>(
        &self,
        what: &str,
        name: &str,
        is_so: impl Fn(&K) -> bool,
    ) -> Result<K> {
        let api = self.api::<K>();
        let look = async || match api.get(name).await {
            Ok(object) if is_so(&object) => Ok(object),
            Ok(object) => Err(serde_json::to_string(&object).unwrap_or_default()),
            Err(error) => Err(error.to_string()),
        };
        wait_for(what, PATIENCE, look).await.map_err(|error| self.system.explained(error))
    }

    /// Waits until an object does not exist.
    pub(crate) async fn gone<K: Namespaced>(&self, name: &str) -> Result<()> {
        let api = self.api::<K>();
        let look = async || match api.get_opt(name).await {
            Ok(None) => Ok(()),
            Ok(Some(object)) => Err(serde_json::to_string(&object).unwrap_or_default()),
            Err(error) => Err(error.to_string()),
        };
        wait_for(&format!("{name} is gone"), PATIENCE, look)
            .await
            .map_err(|error| self.system.explained(error))
    }

    /// Returns the DeployItem of a template.
    pub(crate) async fn item(&self, installation: &str, template: &str) -> Result<DeployItem> {
        let labels = format!(
            "execution.landscaper.gardener.cloud/managed-by={installation},\
             execution.landscaper.gardener.cloud/name={template}"
        );
        let mut items = self.list::<DeployItem>(&labels).await?;
        items.pop().with_context(|| format!("{installation} has no item {template}"))
    }

    /// Returns reasons and messages of the warnings about an object. Waits for the first one, since
    /// a service writes it after the status.
    pub(crate) async fn warnings<K: Namespaced>(&self, name: &str) -> Result<Vec<(String, String)>> {
        self.warnings_until::<K>(name, "a warning", |all| !all.is_empty()).await
    }

    /// Returns the warnings about an object once one of them has this reason: a service may write
    /// an Event a moment after the status.
    pub(crate) async fn warnings_with<K: Namespaced>(
        &self,
        name: &str,
        reason: &str,
    ) -> Result<Vec<(String, String)>> {
        self.warnings_until::<K>(name, reason, |all| all.iter().any(|(found, _)| found == reason)).await
    }

    async fn warnings_until<K: Namespaced>(
        &self,
        name: &str,
        what: &str,
        is_enough: impl Fn(&[(String, String)]) -> bool,
    ) -> Result<Vec<(String, String)>> {
        let kind = K::kind(&());
        wait_for(&format!("{what} about {kind} {name}"), PATIENCE, async || {
            let events = self.list::<k8s_openapi::api::core::v1::Event>("").await;
            let events = events.map_err(|error| error.to_string())?.into_iter();
            let about = events.filter(|event| {
                let object = &event.involved_object;
                object.name.as_deref() == Some(name) && object.kind.as_deref() == Some(&kind)
            });
            let warnings: Vec<(String, String)> = about
                .filter(|event| event.type_.as_deref() == Some("Warning"))
                .map(|event| (event.reason.unwrap_or_default(), event.message.unwrap_or_default()))
                .collect();
            if is_enough(&warnings) { Ok(warnings) } else { Err(format!("{warnings:?}")) }
        })
        .await
    }
}

/// Returns the last job ID of an Installation.
pub(crate) fn job(installation: &Installation) -> String {
    installation.status.as_ref().and_then(|status| status.job_id.clone()).unwrap_or_default()
}

/// Returns operation, reason and message of the last error.
pub(crate) fn error(installation: &Installation) -> (String, String, String) {
    let error = installation.status.clone().unwrap_or_default().last_error.unwrap_or_default();
    (error.operation, error.reason, error.message)
}
