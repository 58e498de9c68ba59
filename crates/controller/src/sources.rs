//! Kinds whose events become work while a controller runs, and stop to.

use groundwork_bus::Kind;
use tokio::sync::mpsc;

/// Adds kinds to a running controller, and takes them away. Clones speak to the same one.
///
/// The events of such a kind have a feed and a queue of their own: one that cannot be watched, or whose queue is broken, keeps no other
/// kind waiting, and does not count for the readiness of the service.
#[derive(Debug, Clone)]
pub struct Sources(mpsc::UnboundedSender<SourceChange>);

/// What [`Sources`] says, for the controller.
#[derive(Debug)]
pub struct SourceChanges(pub(crate) mpsc::UnboundedReceiver<SourceChange>);

#[derive(Debug)]
pub(crate) enum SourceChange {
    Add(Kind),
    Remove(Kind),
}

/// Both ends.
pub fn sources() -> (Sources, SourceChanges) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Sources(sender), SourceChanges(receiver))
}

impl Sources {
    /// From now on events of the kind are work. Of a kind that is one already nothing changes.
    pub fn add(&self, kind: Kind) {
        // A controller that has ended needs no sources.
        drop(self.0.send(SourceChange::Add(kind)));
    }

    /// Events of the kind are no work any more.
    pub fn remove(&self, kind: Kind) {
        drop(self.0.send(SourceChange::Remove(kind)));
    }
}
