//! Trying again, and saying so once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::error::BusError;

const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(2);

/// What readers of one bus cannot do now, and how many of them. All of them lose the same server at the same time, which is
/// one line of the log and not one for each.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(Arc<Mutex<BTreeMap<String, usize>>>);

impl Told {
    /// Whether nobody has this trouble yet.
    fn begin(&self, trouble: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let readers = told.entry(trouble.to_owned()).or_default();
        *readers += 1;
        *readers == 1
    }

    /// Whether nobody has it any more.
    fn end(&self, trouble: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(readers) = told.get_mut(trouble) else { return false };
        *readers -= 1;
        let is_over = *readers == 0;
        if is_over {
            told.remove(trouble);
        }
        is_over
    }
}

/// Growing pauses between attempts; a trouble is logged when it begins, when it changes, and when it is over: by the first and
/// the last of those that have it.
#[derive(Debug)]
pub(crate) struct Retry {
    what: String,
    pause: Duration,
    trouble: Option<String>,
    told: Told,
}

impl Retry {
    pub(crate) fn new(what: impl Into<String>, told: &Told) -> Self {
        Self { what: what.into(), pause: SHORTEST, trouble: None, told: told.clone() }
    }

    pub(crate) async fn pause(&mut self, error: &BusError) {
        self.note(error);
        let pause = self.pause;
        self.pause = LONGEST.min(pause * 2);
        tokio::time::sleep(pause).await;
    }

    pub(crate) fn over(&mut self) {
        self.pause = SHORTEST;
        if self.forget() {
            tracing::info!(of = self.what, "events can be read again");
        }
    }

    /// Whether it was told.
    fn note(&mut self, error: &BusError) -> bool {
        let trouble = essence(error);
        if self.trouble.as_ref() == Some(&trouble) {
            return false;
        }
        self.forget();
        let is_news = self.told.begin(&trouble);
        if is_news {
            tracing::warn!(of = self.what, %error, "cannot read events; trying again");
        }
        self.trouble = Some(trouble);
        is_news
    }

    fn forget(&mut self) -> bool {
        self.trouble.take().is_some_and(|trouble| self.told.end(&trouble))
    }
}

impl Drop for Retry {
    fn drop(&mut self) {
        self.forget();
    }
}

/// What makes a trouble the same as another: a server that is away is away, whatever was asked and however it was noticed.
fn essence(error: &BusError) -> String {
    match error {
        BusError::Unavailable { server, .. } | BusError::Silent { server, .. } => format!("no {server}"),
        error => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_one_bus_tell_of_one_trouble_once() {
        let told = Told::default();
        let away = |reason: &str| BusError::Unavailable { server: "h:1".into(), reason: reason.into() };
        let (mut index, mut queue) = (Retry::new("index", &told), Retry::new("queue", &told));
        assert!(index.note(&away("refused")));
        assert!(!index.note(&away("broken pipe")) && !queue.note(&away("refused")));
        assert!(queue.note(&BusError::StreamNotFound), "another trouble is news");
        assert!(!index.note(&BusError::StreamNotFound));
        assert!(!queue.forget(), "the other one still has it");
        drop(index);
        assert!(queue.note(&BusError::StreamNotFound), "it was over meanwhile");
    }
}
