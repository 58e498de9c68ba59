//! Follows the feed of a controller's index, and schedules keys by the objects in it.

use std::pin::pin;
use std::sync::Arc;

use groundwork_bus::{Bus, Change, Feed, IndexFeed, IndexPart, Record};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::SendError;
use tokio::time::Instant;

use crate::controller::{BUS_PAUSE, Message};
use crate::levels::Levels;
use crate::readiness::Readiness;
use crate::reconcile::Handler;

/// Handling of a reset of the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resets {
    Tell,
    /// Do not inform the worker: a kind that is added later starts with a reset of its feed,
    /// although the worker already knows the stream.
    Keep,
}

/// Applies the feed to the index, and schedules keys as the handler asks. Returns when the worker
/// ends.
pub(crate) async fn follow(
    bus: Bus,
    index: Arc<IndexPart>,
    handler: Arc<dyn Handler>,
    readiness: Readiness,
    sender: mpsc::Sender<Message>,
    resets: Resets,
) {
    let mut feed = open(&bus, &index, &readiness).await;
    let mut levels = Levels::default();
    loop {
        let was_synced = index.synced();
        let next = tokio::select! {
            next = next_of(&mut feed, &bus, (!was_synced).then_some(&readiness)) => next,
            // Wait until the index is complete: before that a recheck might miss objects.
            () = time_of(&levels), if was_synced => {
                if recheck(&mut levels, &sender).await.is_err() {
                    return;
                }
                continue;
            }
        };
        match &next {
            Feed::Reset => {
                levels.clear();
                handler.forget_observed(index.kinds());
            }
            Feed::Record { record: Record::Object(event), .. } => {
                handler.observe(&event.object, &event.change);
            }
            Feed::Record { .. } => {}
        }
        index.apply_if(&next, |object, snapshot| handler.looks_up(object, snapshot));
        let is_synced = index.synced();
        match (was_synced, is_synced) {
            (false, true) => readiness.index(None),
            (true, false) => readiness.index(Some(&"the stream was rebuilt and is not complete yet")),
            _ => {}
        }
        let is_told = matches!(next, Feed::Reset) && resets == Resets::Tell;
        if is_told && sender.send(Message::Reset).await.is_err() {
            return;
        }
        let Feed::Record { record: Record::Object(event), .. } = &next else { continue };
        let key = match &event.change {
            Change::Applied(snapshot) => handler.sees_to(&event.object, snapshot),
            Change::Deleted(_) => None,
        };
        levels.set(&event.object, key, !was_synced, Instant::now());
        let Change::Applied(snapshot) = &event.change else { continue };
        if let Some((key, at)) = handler.schedule(&event.object, snapshot, !was_synced)
            && sender.send(Message::Schedule { key, at }).await.is_err()
        {
            return;
        }
    }
}

/// Opens the feed of the index, and retries until the bus accepts.
async fn open(bus: &Bus, index: &IndexPart, readiness: &Readiness) -> IndexFeed {
    loop {
        match bus.index(index.kinds()).await {
            Ok(feed) => return feed,
            Err(error) => {
                readiness.index(Some(&format_args!("the index cannot be read: {error}")));
                tokio::time::sleep(BUS_PAUSE).await;
            }
        }
    }
}

/// Waits until the next key is due for a recheck; for ever if all objects are at rest.
async fn time_of(levels: &Levels) {
    match levels.next_time() {
        Some(at) => tokio::time::sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Asks the worker to recheck the keys that are due, which means an attempt for each without an
/// event.
async fn recheck(levels: &mut Levels, sender: &mpsc::Sender<Message>) -> Result<(), SendError<Message>> {
    while let Some(key) = levels.take_due(Instant::now()) {
        sender.send(Message::Recheck { key }).await?;
    }
    Ok(())
}

/// Returns the next step of a feed. While the index is incomplete and no step comes, readiness
/// reports what the feed waits for.
async fn next_of(feed: &mut IndexFeed, bus: &Bus, waiting: Option<&Readiness>) -> Feed {
    let mut next = pin!(feed.next());
    loop {
        let Some(readiness) = waiting else { return next.await };
        tokio::select! {
            next = &mut next => return next,
            () = tokio::time::sleep(BUS_PAUSE) => readiness.index(Some(match bus.is_connected() {
                true => &"the stream is not complete yet: the watcher fills it",
                false => &"NATS does not answer",
            })),
        }
    }
}
