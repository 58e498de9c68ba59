//! Trying again, and saying so once.

use std::time::Duration;

use crate::error::BusError;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// Growing pauses between attempts; a trouble is logged when it begins, when it changes, and when it is over.
#[derive(Debug)]
pub(crate) struct Retry {
    what: String,
    pause: Duration,
    trouble: Option<String>,
}

impl Retry {
    pub(crate) fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), pause: SHORTEST, trouble: None }
    }

    pub(crate) async fn pause(&mut self, error: &BusError) {
        let text = error.to_string();
        if self.trouble.as_ref() != Some(&text) {
            tracing::warn!(of = self.what, error = text, "cannot read events; trying again");
            self.trouble = Some(text);
        }
        let pause = self.pause;
        self.pause = LONGEST.min(pause * 2);
        tokio::time::sleep(pause).await;
    }

    pub(crate) fn over(&mut self) {
        self.pause = SHORTEST;
        if self.trouble.take().is_some() {
            tracing::info!(of = self.what, "events can be read again");
        }
    }
}
