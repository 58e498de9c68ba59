//! The feed from which a replica builds its index.

use std::collections::VecDeque;

use crate::local::feed::LocalFeed;
use crate::nats::feed::NatsFeed;
use crate::record::Record;
use crate::step::Step;

/// One step of an [`IndexFeed`].
#[expect(clippy::large_enum_variant, reason = "nearly all steps are records")]
#[derive(Clone, Debug, PartialEq)]
pub enum Feed {
    /// Forget everything: the following steps are complete. Comes first, and again when the stream
    /// was lost and rebuilt or when this replica was cut off for so long that it may have missed
    /// tombstones.
    Reset,
    /// The next record of the stream, or a sync marker that the feed has held back until now.
    Record {
        /// Position of the record: its sequence on the stream, plus a base that grows when the
        /// stream is rebuilt while this process runs. Compare it with
        /// [`Delivery::position`](crate::Delivery::position).
        position: u64,
        record: Record,
    },
}

/// All records of some kinds, in order: first those already on the stream, then live ones. The feed
/// reconnects and recreates its consumer by itself and never ends.
///
/// Sync markers come after every record that was on the stream when the feed started, regardless of
/// their own sequence. A compacted log needs that: an object that changed after the marker is
/// stored behind the marker, and its earlier state is gone.
#[derive(Debug)]
pub struct IndexFeed {
    source: Source,
    replay: Replay,
}

#[derive(Debug)]
pub(crate) enum Source {
    Nats(Box<NatsFeed>),
    Local(LocalFeed),
}

impl IndexFeed {
    pub(crate) fn new(source: Source) -> Self {
        Self { source, replay: Replay::default() }
    }

    /// Returns the next step. Waits while there are no records, while the server is away, and while
    /// the stream is missing.
    ///
    /// Safe to drop and to call again, as in `select!`.
    pub async fn next(&mut self) -> Feed {
        loop {
            if let Some(feed) = self.replay.ready.pop_front() {
                return feed;
            }
            let step = match &mut self.source {
                Source::Nats(feed) => feed.next().await,
                Source::Local(feed) => feed.next().await,
            };
            self.replay.take(step);
        }
    }
}

/// Holds sync markers back until the replay is over.
#[derive(Debug, Default)]
struct Replay {
    caught_up: bool,
    markers: VecDeque<Feed>,
    ready: VecDeque<Feed>,
}

impl Replay {
    fn take(&mut self, step: Step) {
        let caught_up = match step {
            Step::Reset { caught_up } => {
                self.caught_up = false;
                self.markers.clear();
                self.ready.push_back(Feed::Reset);
                caught_up
            }
            Step::Record { position, record, caught_up } => {
                match record {
                    Ok(record) => {
                        let is_marker = matches!(*record, Record::Synced(_));
                        let feed = Feed::Record { position, record: *record };
                        match is_marker && !self.caught_up {
                            true => self.markers.push_back(feed),
                            false => self.ready.push_back(feed),
                        }
                    }
                    Err(error) => {
                        tracing::error!(%error, "an event cannot be read, so its change is missing in the index");
                    }
                }
                caught_up
            }
            Step::CaughtUp => true,
        };
        if caught_up && !self.caught_up {
            self.caught_up = true;
            self.ready.append(&mut self.markers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Kind;
    use crate::record::{ClusterIdentity, SyncMarker};

    fn marker() -> Record {
        let kind = Kind::new("", "secrets");
        Record::Synced(SyncMarker { kind, namespace: None, resource_version: "1".into(), count: 0 })
    }

    fn step(position: u64, record: Record, caught_up: bool) -> Step {
        Step::Record { position, record: Ok(Box::new(record)), caught_up }
    }

    #[test]
    fn markers_wait_for_the_end_of_the_replay() {
        let identity = || Record::Cluster(ClusterIdentity { uid: "c".into(), ..ClusterIdentity::default() });
        let mut replay = Replay::default();
        let mut feeds = Vec::new();
        for step in [
            Step::Reset { caught_up: false },
            step(1, marker(), false),
            step(2, identity(), false),
            step(3, identity(), true),
            step(4, marker(), true),
            Step::Reset { caught_up: true },
            step(5, marker(), false),
        ] {
            replay.take(step);
            feeds.extend(replay.ready.drain(..));
        }
        let feed = |position, record| Feed::Record { position, record };
        assert_eq!(
            feeds,
            [
                Feed::Reset,
                feed(2, identity()),
                feed(3, identity()),
                feed(1, marker()),
                feed(4, marker()),
                Feed::Reset,
                feed(5, marker()),
            ]
        );
    }
}
