//! The bus, whatever carries it.

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
    /// A bus in this process. Its stream is lost with it.
    pub fn in_process() -> Self {
        Self::in_process_with(ACK_WAIT)
    }

    /// The same with another time until what is not acknowledged is delivered again.
    pub fn in_process_with(ack_wait: Duration) -> Self {
        Self { backend: Backend::Local(Arc::new(LocalBus::new(ack_wait))) }
    }

    /// The bus on a NATS server. Returns at once, also when the server is away (it waits two seconds at most for the
    /// outcome of the first attempt), and reconnects for ever.
    ///
    /// # Errors
    /// [`BusError::Options`] when the options cannot be used; [`BusError::Login`] and [`BusError::Unavailable`] come from
    /// the other calls.
    pub async fn connect(options: NatsOptions) -> Result<Self, BusError> {
        let bus = NatsBus::connect(options).await?;
        Ok(Self { backend: Backend::Nats(Arc::new(bus)) })
    }

    /// Whether there is a connection at this moment.
    pub fn is_connected(&self) -> bool {
        match &self.backend {
            Backend::Nats(bus) => bus.is_connected(),
            Backend::Local(_) => true,
        }
    }

    /// Counts connections: after each the stream may be another one.
    pub fn connections(&self) -> watch::Receiver<u64> {
        match &self.backend {
            Backend::Nats(bus) => bus.connections(),
            Backend::Local(bus) => bus.connections(),
        }
    }

    /// Asks the server for an answer; without a connection it says so at once. A missing stream is no problem here: those who
    /// read it tell of that.
    ///
    /// # Errors
    /// Why nothing can be sent or read now.
    pub async fn check(&self) -> Result<(), BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.check().await,
            Backend::Local(_) => Ok(()),
        }
    }

    /// Creates the stream or corrects its settings, and reads back what became of them. For the watcher only.
    ///
    /// # Errors
    /// [`BusError::NotKept`] names each setting that the server did not keep; the others as they read.
    pub async fn ensure_stream(&self) -> Result<StreamState, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.ensure_stream().await,
            Backend::Local(bus) => Ok(bus.ensure_stream()),
        }
    }

    /// Throws the stream away with everything on it, and creates it again: another cluster, or a restored one. For the
    /// watcher only.
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

    /// Names the leader that fills the stream from now on, before it publishes anything; the name was never used before. A feed that was away
    /// meanwhile begins anew, since a stream that went back may have been filled past its place by then. For the watcher only.
    ///
    /// # Errors
    /// [`BusError::NotKept`] when the server does not keep it; the others as they read.
    pub async fn begin_leading(&self, leader: &str) -> Result<(), BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.begin_leading(leader).await,
            // It never goes back.
            Backend::Local(_) => Ok(()),
        }
    }

    /// Publishes a record. With a fence, only if the last message of its subject has this sequence; 0 means that there
    /// is none. For the watcher only. Calls may run side by side.
    ///
    /// # Errors
    /// [`PublishError::Superseded`] when the fence does not hold; the others as they read.
    pub async fn publish(&self, record: &Record, fence: Option<u64>) -> Result<Published, PublishError> {
        let wire = wire::encode(record)?;
        match &self.backend {
            Backend::Nats(bus) => bus.publish(wire, fence).await,
            Backend::Local(bus) => bus.publish(wire, fence),
        }
    }

    /// What the stream holds of an object; in a cluster of servers it may be a moment old.
    ///
    /// # Errors
    /// When the server does not answer, there is no stream, or the message cannot be read.
    pub async fn last(&self, object: &ObjectId) -> Result<Option<Stored>, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.last(object).await,
            Backend::Local(bus) => bus.last(object),
        }
    }

    /// The identity of the cluster that the stream is about, with its place.
    ///
    /// # Errors
    /// As [`Bus::last`].
    pub async fn identity(&self) -> Result<Option<Stored>, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.identity().await,
            Backend::Local(bus) => bus.identity(),
        }
    }

    /// The highest sequence that a work queue has acknowledged. One that is above the last of the stream shows that the stream went back.
    /// For the watcher only.
    ///
    /// # Errors
    /// When the server does not answer or there is no stream.
    pub async fn acknowledged(&self) -> Result<u64, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.acknowledged().await,
            // It cannot lose anything.
            Backend::Local(_) => Ok(0),
        }
    }

    /// Everything of a part of the stream, in order. See [`Bus::visit`], which needs less memory.
    ///
    /// # Errors
    /// As [`Bus::visit`].
    pub async fn load(&self, filter: Filter<'_>) -> Result<Vec<Stored>, BusError> {
        let mut all = Vec::new();
        self.visit(filter, |stored| all.push(stored)).await?;
        Ok(all)
    }

    /// Shows everything of a part of the stream to a visitor, in order. A message that cannot be read is logged and left
    /// out; a subject that is published to meanwhile may come twice, the later state later.
    ///
    /// # Errors
    /// When the server does not answer or there is no stream, also if that begins meanwhile: what was shown is incomplete then.
    pub async fn visit(&self, filter: Filter<'_>, visitor: impl FnMut(Stored)) -> Result<(), BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.visit(filter, visitor).await,
            Backend::Local(bus) => bus.visit(filter, visitor),
        }
    }

    /// Removes tombstones that are older than this and that every work queue and feed has passed, and interests that
    /// have expired. Says how many. For the watcher only.
    ///
    /// Replicas that were cut off resume within ten minutes and start over after that, so tombstones should live much
    /// longer: an hour.
    ///
    /// # Errors
    /// When the server does not answer or there is no stream.
    pub async fn prune(&self, older_than: Duration) -> Result<usize, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.prune(older_than).await,
            Backend::Local(bus) => bus.prune(older_than),
        }
    }

    /// Deletes the consumers that have no business on the stream, and says how many: those that may be idle for longer than it allows,
    /// those under a name of ours that are not what the name stands for, and what others keep there for ever beyond a hundred. The log
    /// names them. For the watcher only.
    ///
    /// # Errors
    /// When the server does not answer or there is no stream.
    pub async fn sweep(&self) -> Result<usize, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.sweep().await,
            Backend::Local(_) => Ok(0),
        }
    }

    /// Creates the journal or corrects its settings; says whether it has just been made. For the watcher only.
    ///
    /// # Errors
    /// As [`Bus::ensure_stream`].
    pub async fn ensure_journal(&self) -> Result<bool, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.ensure_journal().await,
            Backend::Local(_) => Ok(false),
        }
    }

    /// Waits until the journal can be written to, as far as the connection goes.
    ///
    /// # Errors
    /// Why nothing can be sent now.
    pub async fn journal_ready(&self) -> Result<(), BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.ready().await,
            Backend::Local(_) => Ok(()),
        }
    }

    /// Appends entries to the journal, all with one answer of the server. What the journal cannot take of them is left out.
    ///
    /// # Errors
    /// When the server does not answer or there is no journal: some of the entries may be lost then, or all.
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

    /// The oldest entries of a part of the journal, in the order in which it took them: `most` of them at most. One that cannot be
    /// read is logged and left out.
    ///
    /// # Errors
    /// When the server does not answer or there is no journal.
    pub async fn read_journal(&self, part: &JournalPart, most: usize) -> Result<Vec<Entry>, BusError> {
        let subjects = part.subjects()?;
        match &self.backend {
            Backend::Nats(bus) => bus.read_journal(&subjects, part.is_last_of_each(), most).await,
            Backend::Local(bus) => Ok(bus.read_journal(&subjects, part.is_last_of_each(), most)),
        }
    }

    /// State of the stream.
    ///
    /// # Errors
    /// When the server does not answer or there is no stream.
    pub async fn status(&self) -> Result<StreamState, BusError> {
        match &self.backend {
            Backend::Nats(bus) => bus.status().await,
            Backend::Local(bus) => bus.status(),
        }
    }

    /// This replica's own feed of some kinds, their sync markers and the identity of the cluster.
    ///
    /// # Errors
    /// When a kind is none, and what will not get better by itself (permissions, an old server), as far as the server
    /// can be asked now. Otherwise the feed waits.
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

    /// The work of a service for one kind, shared by all that name the same service.
    ///
    /// # Errors
    /// As [`Bus::index`], and [`BusError::NotKept`] for the consumer.
    pub async fn work(&self, service: &str, kind: &Kind) -> Result<WorkQueue, BusError> {
        self.queue(service, kind, Queue::OfKnownKind).await
    }

    /// The same for a kind that follows from objects, so that no permission of NATS can name its queue: it takes one of the places that the
    /// user has for such queues.
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

    /// Waits until all answers to deliveries are on their way; the last call before the end. It takes five seconds at
    /// most.
    pub async fn drain(&self) {
        match &self.backend {
            Backend::Nats(bus) => bus.flush().await,
            Backend::Local(_) => {}
        }
    }
}

/// What will get better by itself is left to the reader.
fn ignore_transient(outcome: Result<(), BusError>) -> Result<(), BusError> {
    match outcome {
        Err(error) if error.is_transient() => Ok(()),
        outcome => outcome,
    }
}
