//! Kubernetes Events at objects whose changes cannot be published in full, for users who cannot
//! read the watcher's logs or metrics.

use groundwork_controller::ObjectEvent;
use k8s_openapi::api::core::v1::{Event, ObjectReference};
use kube::api::{Api, ApiResource, PostParams};
use kube::{Client, ResourceExt as _};
use tokio::sync::mpsc;
use tracing::Instrument as _;

use crate::ledger::Key;

/// Maximum waiting Events. Further ones are dropped, and only the log and the metric show the
/// problem.
const MAX_PENDING: usize = 100;
/// HTTP status for an object that already exists.
const CONFLICT: u16 = 409;

/// Writes Events one after the other in a task of its own, so that a slow API server does not delay
/// publications.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    events: mpsc::Sender<Event>,
}

impl Recorder {
    /// Starts the recorder, which works until its last clone is dropped.
    pub(crate) fn start(client: Client) -> Self {
        let (sender, mut events) = mpsc::channel::<Event>(MAX_PENDING);
        let record = async move {
            while let Some(event) = events.recv().await {
                let namespace = event.namespace().unwrap_or_default();
                let api = Api::<Event>::namespaced(client.clone(), &namespace);
                match api.create(&PostParams::default(), &event).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.code == CONFLICT => {}
                    Err(error) => {
                        tracing::warn!(namespace, event = event.name_any(), %error, "cannot record an Event");
                    }
                }
            }
        };
        tokio::spawn(record.in_current_span());
        Self { events: sender }
    }

    pub(crate) fn warnings_of(&self, resource: ApiResource) -> Warnings {
        Warnings { recorder: self.clone(), resource }
    }
}

/// Warnings at the objects of one watch.
#[derive(Debug)]
pub(crate) struct Warnings {
    recorder: Recorder,
    resource: ApiResource,
}

impl Warnings {
    /// Warns at a namespaced object. Cluster-scoped objects get no Event, because there is no
    /// namespace in which their users would look.
    pub(crate) fn warn(&self, key: &Key, uid: Option<String>, message: &str) {
        let Some(namespace) = key.namespace() else { return };
        let about = ObjectReference {
            api_version: Some(self.resource.api_version.clone()),
            kind: Some(self.resource.kind.clone()),
            name: Some(key.name().to_owned()),
            namespace: Some(namespace.to_owned()),
            uid,
            ..ObjectReference::default()
        };
        let (reason, component) = ("TooLarge", "groundwork-watcher");
        let warning = ObjectEvent { reason, message, component, occurrence: "" };
        // If the queue is full, the log still has the warning.
        let _ = self.recorder.events.try_send(warning.at(about, "Warning"));
    }
}
