//! The bus that services use, with NATS JetStream or the memory of this process behind it.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

use crate::error::{BusError, PublishError};
use crate::feed::{self, IndexFeed};
use crate::journal::{Entry, JournalPart};
use crate::local::LocalBus;
use crate::local::feed::LocalFeed;
use crate::local::work::LocalWork;
use crate::nats::feed::NatsFeed;
use crate::nats::work::{NatsWork, Queue};
use crate::nats::{NatsBus, NatsOptions};
use crate::object::{Kind, ObjectId};
use crate::record::{Filter, Published, Record, Stored, StreamState};
use crate::work::{self, WorkQueue};
use crate::{ACK_WAIT, subject, wire};

/// The bus: one stream of records. Cheap to clone; clones share the connection.
#[derive(Clone, Debug)]
pub struct Bus {
    backend: Backend,
}

#[derive(Clone, Debug)]
enum Backend {
    Nats(Arc<NatsBus>),
    Local(Arc<LocalBus>),
}

impl Bus {
    /// Creates a bus in this process. The stream is lost when the last clone is dropped.
    pub fn in_process() -> Self {
        Self::in_process_with(ACK_WAIT)
    }

    /// Creates a bus in this process with another redelivery time for deliveries that are not
    /// acknowledged.
    pub fn in_process_with(ack_wait: Duration) -> Self {
        Self { backend: Backend::Local(Arc::new(LocalBus::new(ack_wait))) }
    }

    /// Connects to a NATS server. Returns after at most two seconds, even when the server is away,
    /// and reconnects for ever in the background.
    ///
    /// # Errors
    /// [`BusError::Options`] when the options cannot be used. [`BusError::Login`] and
    /// [`BusError::Unavailable`] come from the other calls.
    pub async fn connect(options: NatsOptions) -> Result<Self, BusError> {
        let bus = NatsBus::connect(options).await?;
        Ok(Self { backend: Backend::Nats(Arc::new(bus)) })
    }

    /// Reports whether there is a connection at this moment.
    pub fn is_connected(&self) -> bool {
        match &self.backend {
            Backend::Nats(bus) => bus.is_connected(),
            Backend::Local(_) => true,
        }
    }

    /// Counts connections. After each reconnect the stream may be a different one.
    pub fn connections(&self) -> watch::Receiver<u64> {
        match &self.backend {
            Backend::Nats(bus) => bus.connections(),
            Backend::Local(bus) => bus.connections(),
        }
    }

    /// Sends a request to the server and waits for the answer; fails at once without a connection.
    /// A missing stream is not an error here, because the readers of the stream report it.
    ///
    /// # Errors
    /// The reason why requests cannot be sent or answered now.
    pub async fn check(&self) -> Result<(), BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.check().await,
            Backend::Local(_) => Ok(()),
        }
    }

    /// Creates the stream or corrects its settings, and reads back the settings that the server has
    /// stored. For the watcher only.
    ///
    /// # Errors
    /// [`BusError::NotKept`] names each setting that the server did not keep. The other errors come
    /// from the request.
    pub async fn ensure_stream(&self) -> Result<StreamState, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.ensure_stream().await,
            Backend::Local(bus) => Ok(bus.ensure_stream()),
        }
    }

    /// Deletes the stream with all its messages and creates it again, because the cluster is
    /// another or a restored one. For the watcher only.
    ///
    /// # Errors
    /// As [`Bus::ensure_stream`].
    pub async fn rebuild(&self) -> Result<StreamState, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.delete_stream().await?,
            Backend::Local(bus) => bus.delete_stream(),
        }
        self.ensure_stream().await
    }

    /// Stores the name of the leader that fills the stream from now on, before that leader
    /// publishes. The name must never have been used before. A feed that was disconnected while the
    /// leader changed starts over, because a stream that went back may have been filled past the
    /// feed's position. For the watcher only.
    ///
    /// # Errors
    /// [`BusError::NotKept`] when the server does not keep the name. The other errors come from the
    /// request.
    pub async fn begin_leading(&self, leader: &str) -> Result<(), BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.begin_leading(leader).await,
            // A stream in this process never goes back, so feeds need not know the leader.
            Backend::Local(_) => Ok(()),
        }
    }

    /// Publishes a record. With a fence, the server takes the record only if the last message of
    /// its subject has this sequence; 0 stands for no message. For the watcher only. Calls may run
    /// concurrently.
    ///
    /// # Errors
    /// [`PublishError::Superseded`] when the fence does not match, and the other variants of
    /// [`PublishError`].
    pub async fn publish(&self, record: &Record, fence: Option<u64>) -> Result<Published, PublishError> {
        let wire = wire::encode(record)?;
        match &self.backend {
            Backend::Nats(bus) => bus.publish(wire, fence).await,
            Backend::Local(bus) => bus.publish(wire, fence),
        }
    }

    /// Returns the last record of an object on the stream. In a cluster of servers the answer may
    /// be slightly out of date.
    ///
    /// # Errors
    /// When the server does not answer, the stream is missing, or the message cannot be read.
    pub async fn last(&self, object: &ObjectId) -> Result<Option<Stored>, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.last(object).await,
            Backend::Local(bus) => bus.last(object),
        }
    }

    /// Returns the identity of the cluster that the stream describes, with its sequence.
    ///
    /// # Errors
    /// As [`Bus::last`].
    pub async fn identity(&self) -> Result<Option<Stored>, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.identity().await,
            Backend::Local(bus) => bus.identity(),
        }
    }

    /// Returns the highest sequence that a work queue has acknowledged. A value above the stream's
    /// last sequence shows that the stream went back. For the watcher only.
    ///
    /// # Errors
    /// When the server does not answer or the stream is missing.
    pub async fn acknowledged(&self) -> Result<u64, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.acknowledged().await,
            // A stream in this process cannot lose messages.
            Backend::Local(_) => Ok(0),
        }
    }

    /// Returns all records of a part of the stream, in order. [`Bus::visit`] does the same with
    /// less memory.
    ///
    /// # Errors
    /// As [`Bus::visit`].
    pub async fn load(&self, filter: Filter<'_>) -> Result<Vec<Stored>, BusError> {
        let mut all = Vec::new();
        self.visit(filter, |stored| all.push(stored)).await?;
        Ok(all)
    }

    /// Passes every record of a part of the stream to a visitor, in order. A message that cannot be
    /// read is logged and skipped. A subject that is published to meanwhile may appear twice, with
    /// the later state last.
    ///
    /// # Errors
    /// When the server does not answer or the stream is missing, even if that happens halfway: the
    /// visitor has then seen only a part.
    pub async fn visit(&self, filter: Filter<'_>, visitor: impl FnMut(Stored)) -> Result<(), BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.visit(filter, visitor).await,
            Backend::Local(bus) => bus.visit(filter, visitor),
        }
    }

    /// Removes tombstones that are older than `older_than` and that every work queue and feed has
    /// passed, and expired interests. Returns how many messages it removed. For the watcher only.
    ///
    /// Replicas that were cut off resume within ten minutes and start over after that, so
    /// tombstones should live much longer: an hour.
    ///
    /// # Errors
    /// When the server does not answer or the stream is missing.
    pub async fn prune(&self, older_than: Duration) -> Result<usize, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.prune(older_than).await,
            Backend::Local(bus) => bus.prune(older_than),
        }
    }

    /// Deletes stray consumers from the stream and returns their number. Stray consumers are those
    /// that may stay idle for longer than the stream allows, those that carry a Groundwork name but
    /// other settings, and permanent foreign ones beyond a hundred. The log names each of them. For
    /// the watcher only.
    ///
    /// # Errors
    /// When the server does not answer or the stream is missing.
    pub async fn sweep(&self) -> Result<usize, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.sweep().await,
            Backend::Local(_) => Ok(0),
        }
    }

    /// Creates the journal or corrects its settings. Returns true if the journal is new. For the
    /// watcher only.
    ///
    /// # Errors
    /// As [`Bus::ensure_stream`].
    pub async fn ensure_journal(&self) -> Result<bool, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.ensure_journal().await,
            Backend::Local(_) => Ok(false),
        }
    }

    /// Waits until there is a connection over which the journal can be written.
    ///
    /// # Errors
    /// The reason why requests cannot be sent now.
    pub async fn journal_ready(&self) -> Result<(), BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.ready().await,
            Backend::Local(_) => Ok(()),
        }
    }

    /// Appends entries to the journal, with a single acknowledgement for all of them. Entries whose
    /// key cannot be named are left out.
    ///
    /// # Errors
    /// When the server does not answer or the journal is missing. Some or all of the entries may be
    /// lost then.
    pub async fn write_journal(&self, entries: &[Entry]) -> Result<(), BusError> {
        let messages: Vec<_> = entries.iter().filter_map(Entry::message).collect();
        match &self.backend {
            Backend::Nats(bus) => bus.write_journal(messages).await,
            Backend::Local(bus) => {
                bus.write_journal(messages);
                Ok(())
            }
        }
    }

    /// Returns the oldest entries of a part of the journal, in the order in which the journal took
    /// them and at most `most` of them. An entry that cannot be read is logged and skipped.
    ///
    /// # Errors
    /// When the server does not answer or the journal is missing.
    pub async fn read_journal(&self, part: &JournalPart, most: usize) -> Result<Vec<Entry>, BusError> {
        let subjects = part.subjects()?;
        match &self.backend {
            Backend::Nats(bus) => bus.read_journal(&subjects, part.is_last_of_each(), most).await,
            Backend::Local(bus) => Ok(bus.read_journal(&subjects, part.is_last_of_each(), most)),
        }
    }

    /// Returns the state of the stream.
    ///
    /// # Errors
    /// When the server does not answer or the stream is missing.
    pub async fn status(&self) -> Result<StreamState, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.status().await,
            Backend::Local(bus) => bus.status(),
        }
    }

    /// Opens this replica's own feed of some kinds, with their sync markers and the identity of the
    /// cluster.
    ///
    /// # Errors
    /// When a kind is not valid, and on permanent errors (permissions, an old server) as far as the
    /// server answers now. On other errors the feed waits.
    pub async fn index(&self, kinds: &[Kind]) -> Result<IndexFeed, BusError> {
        let subjects = subject::of_filter(Filter::Kinds(kinds))?;
        let source = match &self.backend {
            Backend::Nats(bus) => {
                let mut feed = NatsFeed::new(Arc::clone(bus), subjects);
                if bus.is_connected() {
                    ignore_transient(feed.open_now().await)?;
                }
                feed::Source::Nats(Box::new(feed))
            }
            Backend::Local(bus) => feed::Source::Local(LocalFeed::new(Arc::clone(bus), subjects)),
        };
        Ok(IndexFeed::new(source))
    }

    /// Opens the work queue of a service for one kind. All replicas that name the same service
    /// share the queue.
    ///
    /// # Errors
    /// As [`Bus::index`], and [`BusError::NotKept`] for the consumer.
    pub async fn work(&self, service: &str, kind: &Kind) -> Result<WorkQueue, BusError> {
        self.queue(service, kind, Queue::OfKnownKind).await
    }

    /// Opens the work queue of a kind that is known only from objects. NATS permissions cannot name
    /// such a queue in advance, so its consumer takes one of the names that are reserved for these
    /// queues of the user ([`User::kind`](crate::User::kind)).
    ///
    /// # Errors
    /// As [`Bus::work`].
    pub async fn selected_work(&self, service: &str, kind: &Kind) -> Result<WorkQueue, BusError> {
        self.queue(service, kind, Queue::OfSelectedKind).await
    }

    async fn queue(&self, service: &str, kind: &Kind, queue: Queue) -> Result<WorkQueue, BusError> {
        let (name, filter) = (subject::consumer(service, kind)?, subject::of_kind(kind)?);
        let source = match &self.backend {
            Backend::Nats(bus) => {
                let mut work = NatsWork::new(Arc::clone(bus), name, filter, queue);
                if bus.is_connected() {
                    ignore_transient(work.open().await)?;
                }
                work::Source::Nats(Box::new(work))
            }
            Backend::Local(bus) => work::Source::Local(LocalWork::new(Arc::clone(bus), name, filter)),
        };
        Ok(WorkQueue::new(source))
    }

    /// Waits until all answers to deliveries are sent, for at most five seconds. Call this last,
    /// before the process exits.
    pub async fn drain(&self) {
        match &self.backend {
            Backend::Nats(bus) => bus.flush().await,
            Backend::Local(_) => {}
        }
    }
}

/// Drops transient errors: the reader itself waits and retries them.
fn ignore_transient(outcome: Result<(), BusError>) -> Result<(), BusError> {
    match outcome {
        Err(error) if error.is_transient() => Ok(()),
        outcome => outcome,
    }
}
