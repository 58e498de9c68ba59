//! Kinds whose events become work only for a part of a controller's run time.

use groundwork_bus::Kind;
use tokio::sync::mpsc;

/// Adds kinds to a running controller, and removes them. Clones address the same controller.
///
/// The events of such a kind have a feed and a queue of their own. A kind that cannot be watched,
/// or whose queue is broken, neither delays other kinds nor affects the readiness of the service.
#[derive(Debug, Clone)]
pub struct Sources(mpsc::UnboundedSender<SourceChange>);

/// Receiving end of [`Sources`], for the controller.
#[derive(Debug)]
pub struct SourceChanges(pub(crate) mpsc::UnboundedReceiver<SourceChange>);

#[derive(Debug)]
pub(crate) enum SourceChange {
    Add(Kind),
    Remove(Kind),
}

/// Creates both ends of the channel: services send on the first, and `Feeders::others`
/// (`feeders.rs`) receives on the second.
pub fn sources() -> (Sources, SourceChanges) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Sources(sender), SourceChanges(receiver))
}

impl Sources {
    /// Makes events of the kind work from now on. Has no effect if the kind is already added.
    pub fn add(&self, kind: Kind) {
        // Sending fails only when the controller has ended, which needs no sources any more.
        drop(self.0.send(SourceChange::Add(kind)));
    }

    /// Stops treating events of the kind as work.
    pub fn remove(&self, kind: Kind) {
        drop(self.0.send(SourceChange::Remove(kind)));
    }
}
