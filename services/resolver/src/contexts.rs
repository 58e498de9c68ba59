//! Default Context of each namespace, with the name `default` (`components.md` 1.2).

use std::collections::HashSet;

use groundwork_api::{Context, DEFAULT_CONTEXT, ObjectMeta};
use groundwork_bus::Backoff;
use groundwork_controller::{ApiError, Objects};
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::{Settings, StartError};

/// Configured content of default Contexts, and the namespaces that get one.
#[derive(Debug)]
pub(crate) struct DefaultContexts {
    is_enabled: bool,
    excluded: HashSet<String>,
    /// Repository context that each default Context is forced to have.
    repository_context: Option<Value>,
}

/// Namespace in which no service writes: an admission policy forbids it
/// (`k8s/admission/service-accounts.yaml`).
const KUBE_SYSTEM: &str = "kube-system";

/// Write that a namespace needs.
#[derive(Debug, PartialEq)]
enum Plan {
    Nothing,
    Create(Context),
    Replace(Context),
}

impl DefaultContexts {
    pub(crate) fn new(settings: &Settings) -> Result<Self, StartError> {
        let text = settings.default_repository_context.as_deref().filter(|text| !text.is_empty());
        let value = text.map(serde_json::from_str::<Value>).transpose();
        let repository_context = value.map_err(|_| StartError::DefaultContext)?;
        if repository_context.as_ref().is_some_and(|value| !value.is_object()) {
            return Err(StartError::DefaultContext);
        }
        let excluded = settings.exclude_namespaces.iter().cloned().collect();
        Ok(Self { is_enabled: !settings.no_default_contexts, excluded, repository_context })
    }

    /// Reports whether a namespace gets a default Context.
    pub(crate) fn concern(&self, namespace: &str) -> bool {
        self.is_enabled && namespace != KUBE_SYSTEM && !self.excluded.contains(namespace)
    }

    /// Reports whether the configuration demands a content for the Context of a namespace.
    pub(crate) fn demand_of(&self, namespace: &str) -> bool {
        self.repository_context.is_some() && self.concern(namespace)
    }

    /// Creates or corrects the default Context of a namespace.
    pub(crate) async fn ensure(&self, namespace: &str, objects: &Objects) -> Result<(), ApiError> {
        let found = objects.get::<Context>(namespace, DEFAULT_CONTEXT).await?;
        let written = match self.plan(namespace, found) {
            Plan::Nothing => return Ok(()),
            Plan::Create(context) => objects.create(&context).await,
            Plan::Replace(context) => objects.replace(&context).await,
        };
        match written {
            // The namespace is deleted, or is being deleted.
            Err(ApiError::NotFound(_) | ApiError::Terminating(_)) => Ok(()),
            // Another writer created the Context first; the retry checks its content.
            Err(ApiError::AlreadyExists(object)) => Err(ApiError::Conflict(object)),
            written => written.map(drop),
        }
    }

    /// Creates the Contexts of the given namespaces, for a service without the right to watch
    /// namespaces.
    pub(crate) async fn ensure_in(&self, namespaces: &[String], objects: &Objects, end: &CancellationToken) {
        for namespace in namespaces.iter().filter(|namespace| self.concern(namespace)) {
            let mut failures = 0_u32;
            while let Err(error) = self.ensure(namespace, objects).await {
                tracing::warn!(%namespace, %error, "the Context \"default\" cannot be created; trying again");
                failures = failures.saturating_add(1);
                // Retry here, since no event triggers another attempt.
                tokio::select! {
                    () = end.cancelled() => return,
                    () = tokio::time::sleep(Backoff::OBJECT.pause(failures)) => {}
                }
            }
        }
    }

    fn plan(&self, namespace: &str, found: Option<Context>) -> Plan {
        let wanted = self.repository_context.as_ref();
        match found {
            None => Plan::Create(Context {
                metadata: ObjectMeta {
                    name: Some(DEFAULT_CONTEXT.to_owned()),
                    namespace: Some(namespace.to_owned()),
                    ..ObjectMeta::default()
                },
                repository_context: wanted.cloned().into(),
                ..Context::default()
            }),
            Some(found) => match wanted {
                Some(wanted) if found.repository_context.get() != Some(wanted) => {
                    Plan::Replace(Context { repository_context: wanted.clone().into(), ..found })
                }
                _ => Plan::Nothing,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const R1: &str = r#"{"type":"ociRegistry","baseUrl":"R1"}"#;

    fn contexts(settings: &Settings) -> DefaultContexts {
        DefaultContexts::new(settings).unwrap()
    }

    fn with_default(text: &str) -> Settings {
        Settings { default_repository_context: Some(text.to_owned()), ..Settings::default() }
    }

    fn written(members: &Value) -> Context {
        let mut object = json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Context",
            "metadata": {"name": "default", "namespace": "team"},
        });
        object.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn plans() {
        let r1: Value = serde_json::from_str(R1).unwrap();
        let by_hand = json!({
            "repositoryContext": {"type": "ociRegistry", "baseUrl": "R2"},
            "registryPullSecrets": [{"name": "s"}], "componentVersionOverwrites": "o",
        });
        let reverted = json!({
            "repositoryContext": r1, "registryPullSecrets": [{"name": "s"}], "componentVersionOverwrites": "o",
        });
        let without = contexts(&Settings::default());
        assert_eq!(without.plan("team", None), Plan::Create(written(&json!({}))));
        assert_eq!(without.plan("team", Some(written(&by_hand))), Plan::Nothing);

        let with = contexts(&with_default(R1));
        let created = json!({"repositoryContext": r1});
        assert_eq!(with.plan("team", None), Plan::Create(written(&created)));
        assert_eq!(with.plan("team", Some(written(&created))), Plan::Nothing);
        assert_eq!(with.plan("team", Some(written(&by_hand))), Plan::Replace(written(&reverted)));
        assert_eq!(with.plan("team", Some(written(&json!({})))), Plan::Replace(written(&created)));
    }

    #[test]
    fn where_there_are_none() {
        let excluding = contexts(&Settings { exclude_namespaces: vec!["a".into()], ..Settings::default() });
        assert!(!excluding.concern("a") && excluding.concern("b"));
        assert!(!excluding.concern("kube-system"), "no service writes there");
        let off = contexts(&Settings { no_default_contexts: true, ..Settings::default() });
        assert!(!off.concern("b"));
    }

    #[test]
    fn only_objects_are_repository_contexts() {
        for text in ["x", "[]", "null", "\"R1\"", "{"] {
            let refused = DefaultContexts::new(&with_default(text));
            assert!(matches!(refused, Err(StartError::DefaultContext)), "{text}");
        }
        assert!(contexts(&with_default("")).repository_context.is_none());
    }
}
