//! Answers to a delivery of JetStream.

use std::sync::Arc;
use std::time::Duration;

use async_nats::Subject;
use async_nats::jetstream::AckKind;

use super::NatsBus;

/// Handle to answer one JetStream delivery, with the subject of its reply.
#[derive(Debug)]
pub(crate) struct NatsHandle {
    bus: Arc<NatsBus>,
    reply: Subject,
}

impl NatsHandle {
    pub(crate) fn new(bus: Arc<NatsBus>, reply: Subject) -> Self {
        Self { bus, reply }
    }

    pub(crate) async fn ack(&self) {
        self.answer(AckKind::Ack).await;
    }

    pub(crate) async fn retry_after(&self, delay: Duration) {
        self.answer(AckKind::Nak(Some(delay))).await;
    }

    pub(crate) async fn progress(&self) {
        self.answer(AckKind::Progress).await;
    }

    /// Ends the delivery for good: the server never delivers the message again.
    pub(crate) async fn terminate(&self) {
        self.answer(AckKind::Term).await;
    }

    async fn answer(&self, kind: AckKind) {
        // Without a connection the client would buffer the answer and block its sender. The server
        // delivers the message again anyway.
        if !self.bus.is_connected() {
            tracing::debug!("answer to a message dropped: the service is not connected to NATS");
            return;
        }
        if let Err(error) = self.bus.client.publish(self.reply.clone(), kind.into()).await {
            tracing::debug!(%error, "answer to a message dropped: it cannot be sent");
        }
    }
}
