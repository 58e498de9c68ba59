//! Kinds that sets select: watched as long as a set wants it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use groundwork_api::{PackageVariant, PackageVariantSet, Repository};
use groundwork_bus::{Bus, Kind};
use groundwork_controller::{Controller, Key, Metrics, Objects, Options};
use groundwork_grpc::Channel;
use groundwork_proto::watcher::v1::EnsureWatchRequest;
use groundwork_proto::watcher::v1::watcher_client::WatcherClient;
use groundwork_telemetry::Health;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::Code;
use tracing::{Instrument, Span};

use crate::handler::{SelectedHandler, Shared, kind};
use crate::inputs::Selected;
use crate::{BACKOFF, SERVICE};

/// How long an interest lasts, how often it is renewed, and when it is tried again after the watcher gave no answer or said no.
const TTL_SECONDS: i64 = 600;
const RENEWAL: Duration = Duration::from_secs(200);
const RETRY: Duration = Duration::from_secs(2);
const REFUSED: Duration = Duration::from_secs(30);
const CONCURRENCY: usize = 4;

/// What a watch needs.
pub(crate) struct Parts {
    pub(crate) watcher: Option<WatcherClient<Channel>>,
    pub(crate) bus: Bus,
    pub(crate) objects: Objects,
    pub(crate) metrics: Metrics,
    /// Namespaces that the watcher was told to watch; empty for the whole cluster.
    pub(crate) namespaces: Vec<String>,
    pub(crate) end: CancellationToken,
    /// Around all that a watch does; it outlives the handling that began it.
    pub(crate) span: Span,
}

/// The watches that run, and for whom.
pub(crate) struct Watches {
    parts: Parts,
    running: Mutex<BTreeMap<Selected, Running>>,
    tasks: TaskTracker,
}

struct Running {
    wanted_by: BTreeSet<Key>,
    end: CancellationToken,
}

impl Watches {
    pub(crate) fn new(parts: Parts) -> Self {
        Self { parts, running: Mutex::default(), tasks: TaskTracker::new() }
    }

    /// Whether events tell of objects that sets select.
    pub(crate) fn follow(&self) -> bool {
        self.parts.watcher.is_some()
    }

    /// Watches what a set selects now, and no more what only it selected before.
    pub(crate) fn wants(&self, shared: &Arc<Shared>, set: &Key, mut selected: Vec<Selected>) {
        // Their events come anyway.
        let own = [kind::<PackageVariantSet>(), kind::<PackageVariant>(), kind::<Repository>()];
        selected
            .retain(|selected| !own.contains(&Kind::new(selected.group.as_str(), selected.plural.as_str())));
        let Some(watcher) = &self.parts.watcher else { return };
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        for wanted in
            selected.iter().filter(|wanted| !running.contains_key(*wanted)).cloned().collect::<Vec<_>>()
        {
            let end = self.parts.end.child_token();
            let controller = self.controller(shared, &wanted).run(end.clone());
            let interest = keep(watcher.clone(), wanted.clone(), self.parts.namespaces.clone(), end.clone());
            self.tasks
                .spawn(async { tokio::join!(controller, interest) }.instrument(self.parts.span.clone()));
            running.insert(wanted, Running { wanted_by: BTreeSet::new(), end });
        }
        running.retain(|kind, watch| {
            match selected.contains(kind) {
                true => watch.wanted_by.insert(set.clone()),
                false => watch.wanted_by.remove(set),
            };
            if watch.wanted_by.is_empty() {
                watch.end.cancel();
            }
            !watch.wanted_by.is_empty()
        });
    }

    /// A controller for events of one kind. It shares nothing but the work with the one of the service: a kind that cannot be
    /// watched must keep nobody else waiting.
    fn controller(&self, shared: &Arc<Shared>, selected: &Selected) -> Controller {
        Controller {
            bus: self.parts.bus.clone(),
            objects: self.parts.objects.clone(),
            handler: Arc::new(SelectedHandler(Arc::clone(shared))),
            options: Options {
                service: SERVICE,
                work: vec![Kind::new(selected.group.as_str(), selected.plural.as_str())],
                indexed: vec![kind::<PackageVariantSet>()],
                namespaces: self.parts.namespaces.clone(),
                concurrency: CONCURRENCY,
                backoff: BACKOFF,
            },
            metrics: self.parts.metrics.clone(),
            // Whether the service is ready does not depend on it.
            ready: Health::default().condition("index"),
        }
    }

    /// Waits until all watches have ended, as they do with the service.
    pub(crate) async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Asks the watcher again and again, until the end.
async fn keep(
    watcher: WatcherClient<Channel>,
    selected: Selected,
    namespaces: Vec<String>,
    end: CancellationToken,
) {
    // Without namespaces one interest in all of them.
    let namespaces = if namespaces.is_empty() { vec![String::new()] } else { namespaces };
    let mut told = String::new();
    loop {
        let mut pause = RENEWAL;
        for namespace in &namespaces {
            pause = pause.min(ask(watcher.clone(), &selected, namespace, &mut told).await);
        }
        tokio::select! {
            () = end.cancelled() => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    // At the end of the process the interest lasts: another replica, or the next start, needs it.
}

/// One call, and the pause before the next. `told` is the last complaint: each is told once.
async fn ask(
    mut watcher: WatcherClient<Channel>,
    selected: &Selected,
    namespace: &str,
    told: &mut String,
) -> Duration {
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
                "the watcher cannot be asked now"
            );
            return RETRY;
        }
        Err(status) => status.message().to_owned(),
    };
    if problem.is_empty() {
        told.clear();
        return RENEWAL;
    }
    if problem != *told {
        tracing::warn!(kind = selected.plural, namespace, problem, "a selected kind is not watched");
        *told = problem;
    }
    REFUSED
}
