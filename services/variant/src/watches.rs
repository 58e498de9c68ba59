//! Watches of the kinds that sets select: each kind is watched as long as a set selects it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use groundwork_api::{PackageRevisionSet, PackageVariant, PackageVariantSet, Repository};
use groundwork_bus::{Backoff, Kind};
use groundwork_controller::{Key, Sources};
use groundwork_grpc::Channel;
use groundwork_proto::watcher::v1::EnsureWatchRequest;
use groundwork_proto::watcher::v1::watcher_client::WatcherClient;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Code;
use tracing::{Instrument, Span};

use crate::SERVICE;
use crate::inputs::Selected;

/// Lifetime of an interest at the watcher, in seconds.
const TTL_SECONDS: i64 = 600;
/// Interval between renewals of an interest, a third of its lifetime.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(200);
/// Pause before the next request after the watcher did not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Back-off after the watcher refused a watch, or reported a problem with it. It starts short,
/// because rights are often granted a moment after the set is created, and stays short: who grants
/// a right waits for its effect.
const PROBLEM_PAUSES: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_secs(5) };
/// State that all watches use.
pub(crate) struct WatchContext {
    pub(crate) watcher: Option<WatcherClient<Channel>>,
    /// Event sources of the controller.
    pub(crate) sources: Sources,
    /// Namespaces that the watcher is configured to watch; empty for the whole cluster.
    pub(crate) namespaces: Vec<String>,
    pub(crate) end: CancellationToken,
    /// Span for all logs of a watch, which outlives the reconcile that started it.
    pub(crate) span: Span,
}

/// Running watches, with the sets that need them.
pub(crate) struct Watches {
    context: WatchContext,
    running: Mutex<BTreeMap<Selected, Running>>,
    tasks: TaskTracker,
}

struct Running {
    selected_by: BTreeSet<Key>,
    end: CancellationToken,
}

impl Watches {
    pub(crate) fn new(context: WatchContext) -> Self {
        Self { context, running: Mutex::default(), tasks: TaskTracker::new() }
    }

    /// Reports whether events report changes of objects that sets select.
    pub(crate) fn follow(&self) -> bool {
        self.context.watcher.is_some()
    }

    /// Sets the kinds that a set selects. Starts their watches, and stops the watches of kinds that
    /// no set selects any more.
    pub(crate) fn set_selected(&self, set: &Key, mut selected: Vec<Selected>) {
        // The service's own controller already receives the events of these kinds.
        let own = [
            Kind::of::<PackageVariantSet>(),
            Kind::of::<PackageVariant>(),
            Kind::of::<Repository>(),
            Kind::of::<PackageRevisionSet>(),
        ];
        selected.retain(|selected| !own.contains(&bus_kind(selected)));
        let Some(watcher) = &self.context.watcher else { return };
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for wanted in
            selected.iter().filter(|wanted| !running.contains_key(*wanted)).cloned().collect::<Vec<_>>()
        {
            let end = self.context.end.child_token();
            self.context.sources.add(bus_kind(&wanted));
            let interest =
                renew_interest(watcher.clone(), wanted.clone(), self.context.namespaces.clone(), end.clone());
            self.tasks.spawn(interest.instrument(self.context.span.clone()));
            running.insert(wanted, Running { selected_by: BTreeSet::new(), end });
        }
        running.retain(|kind, watch| {
            match selected.contains(kind) {
                true => watch.selected_by.insert(set.clone()),
                false => watch.selected_by.remove(set),
            };
            if watch.selected_by.is_empty() {
                watch.end.cancel();
                self.context.sources.remove(bus_kind(kind));
            }
            !watch.selected_by.is_empty()
        });
    }

    /// Waits until all watches have ended, which happens when the service stops.
    pub(crate) async fn closed(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

fn bus_kind(selected: &Selected) -> Kind {
    Kind::new(selected.group.as_str(), selected.plural.as_str())
}

/// Registers an interest in a kind with the watcher and renews it, until `end` is cancelled.
async fn renew_interest(
    watcher: WatcherClient<Channel>,
    selected: Selected,
    namespaces: Vec<String>,
    end: CancellationToken,
) {
    // Without configured namespaces, one interest covers the whole cluster.
    let namespaces = if namespaces.is_empty() { vec![String::new()] } else { namespaces };
    let mut logged = String::new();
    let mut refusals = 0;
    loop {
        let mut pause = RENEWAL_INTERVAL;
        let mut is_refused = false;
        for namespace in &namespaces {
            match ensure_watch(watcher.clone(), &selected, namespace, &mut logged).await {
                Interest::Registered => {}
                Interest::Unanswered => pause = pause.min(RETRY_PAUSE),
                Interest::Refused => is_refused = true,
            }
        }
        refusals = if is_refused { refusals + 1 } else { 0 };
        if is_refused {
            pause = pause.min(PROBLEM_PAUSES.pause(refusals));
        }
        tokio::select! {
            () = end.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    // Do not withdraw the interest at the end of the process: another replica, or the next start,
    // needs it.
}

/// Result of the registration of an interest.
enum Interest {
    Registered,
    /// The watcher did not answer.
    Unanswered,
    /// The watcher refused the watch, or reported a problem with it.
    Refused,
}

/// Registers an interest once. `logged` is the last problem that was logged, so that the same
/// problem is not logged twice in a row.
async fn ensure_watch(
    mut watcher: WatcherClient<Channel>,
    selected: &Selected,
    namespace: &str,
    logged: &mut String,
) -> Interest {
    let request = EnsureWatchRequest {
        group: selected.group.clone(),
        version: selected.version.clone(),
        plural: selected.plural.clone(),
        namespace: namespace.to_owned(),
        holder: SERVICE.to_owned(),
        ttl: Some(prost_types::Duration { seconds: TTL_SECONDS, nanos: 0 }),
    };
    let problem = match watcher.ensure_watch(request).await {
        Ok(answer) => answer.into_inner().problem,
        Err(status) if status.code() == Code::Unavailable => {
            tracing::debug!(
                kind = selected.plural,
                why = status.message(),
                "the watcher cannot be called; trying again"
            );
            return Interest::Unanswered;
        }
        Err(status) => status.message().to_owned(),
    };
    if problem.is_empty() {
        logged.clear();
        return Interest::Registered;
    }
    if problem != *logged {
        tracing::warn!(kind = selected.plural, namespace, problem, "a selected kind cannot be watched");
        *logged = problem;
    }
    Interest::Refused
}
