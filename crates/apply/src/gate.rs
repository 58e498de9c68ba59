//! Gate for requests to a cluster: a hanging cluster gets one request at a time, and a cluster that
//! asked for a pause gets none.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use groundwork_controller::Unasked;
use http::HeaderMap;
use http::header::RETRY_AFTER;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimeParser;

/// Upper limit of a pause that a server asks for.
const LONGEST_REST: Duration = Duration::from_secs(600);
/// Longest pause that a request itself waits for; a longer pause fails the request. Busy API
/// servers ask for one second.
const SHORT_REST: Duration = Duration::from_secs(2);

/// Reasons to send a cluster no request now: it hangs, or it has asked for a pause.
#[derive(Debug)]
pub(crate) struct Gate {
    /// Time limit of a request.
    request: Duration,
    silence: Mutex<Option<Instant>>,
    rest: Mutex<Option<Rest>>,
}

/// Period in which the cluster accepts no requests (`helm.md` 9.2, retries).
#[derive(Debug, Clone, Copy)]
struct Rest {
    until: Instant,
    length: Duration,
}

impl Gate {
    pub(crate) fn new(request: Duration) -> Self {
        Self { request, silence: Mutex::default(), rest: Mutex::default() }
    }

    /// Reports whether a request may be sent to a cluster that may hang. A cluster that accepts
    /// connections and never answers would block all workers, and so all other items. While it
    /// hangs, only one request at a time probes it.
    pub(crate) fn may_ask(&self) -> bool {
        let mut since = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        match *since {
            Some(asked) if asked.elapsed() < self.request => false,
            // This request probes the server; others wait for its outcome.
            Some(_) => {
                *since = Some(Instant::now());
                true
            }
            None => true,
        }
    }

    pub(crate) fn note(&self, has_answered: bool) {
        let mut since = self.silence.lock().unwrap_or_else(PoisonError::into_inner);
        *since = (!has_answered).then(Instant::now);
    }

    /// Starts a pause of this length. A later answer to an earlier request does not shorten the
    /// pause.
    pub(crate) fn begin_rest(&self, length: Duration) {
        let length = length.min(LONGEST_REST);
        let Some(until) = Instant::now().checked_add(length) else { return };
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        if rest.is_none_or(|rest| rest.until < until) {
            *rest = Some(Rest { until, length });
        }
    }

    /// Returns the rest of the pause.
    pub(crate) fn rest(&self) -> Option<Duration> {
        let mut rest = self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        let left = rest.and_then(|rest| rest.until.checked_duration_since(Instant::now()));
        if left.is_none() {
            *rest = None;
        }
        left
    }

    /// Waits for the end of a short pause. For a longer pause, returns the reason, which is the
    /// same for all its requests.
    pub(crate) async fn pass(&self) -> Result<(), Unasked> {
        while let Some(left) = self.rest() {
            if left > SHORT_REST {
                let length = self.rest.lock().unwrap_or_else(PoisonError::into_inner).map(|rest| rest.length);
                return Err(Unasked::Resting { seconds: length.unwrap_or(left).as_secs() });
            }
            tokio::time::sleep(left).await;
        }
        Ok(())
    }
}

/// Reads the `Retry-After` header: seconds, or a time (RFC 9110, 10.2.3).
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = DateTimeParser::new().parse_timestamp(text).ok()?;
    Duration::try_from(at.duration_since(now)).ok()
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    const REQUEST: Duration = Duration::from_secs(30);

    #[test]
    fn a_silent_cluster_is_asked_by_one_alone() {
        let gate = Gate::new(REQUEST);
        assert!(gate.may_ask() && gate.may_ask());
        gate.note(false);
        assert!(!gate.may_ask());
        *gate.silence.lock().unwrap() = Instant::now().checked_sub(REQUEST);
        assert!(gate.may_ask() && !gate.may_ask());
        gate.note(true);
        assert!(gate.may_ask() && gate.may_ask());
    }

    #[tokio::test]
    async fn a_cluster_that_wants_to_rest_is_left_alone() {
        let gate = Gate::new(REQUEST);
        assert_eq!((gate.pass().await, gate.rest()), (Ok(()), None));
        gate.begin_rest(Duration::from_secs(30));
        gate.begin_rest(Duration::from_secs(1));
        assert_eq!(gate.pass().await, Err(Unasked::Resting { seconds: 30 }));
        assert!(gate.rest().is_some_and(|left| left > Duration::from_secs(25)));
        // An absurdly long pause is cut to the limit.
        gate.begin_rest(Duration::from_secs(u64::MAX));
        assert!(gate.rest().is_some_and(|left| left <= LONGEST_REST));

        let brief = Gate::new(REQUEST);
        let begun = Instant::now();
        brief.begin_rest(Duration::from_millis(50));
        assert_eq!(brief.pass().await, Ok(()));
        assert!(begun.elapsed() >= Duration::from_millis(50));
    }

    #[test]
    fn what_a_header_says() {
        let now: Timestamp = "2026-01-31T12:00:00Z".parse().unwrap();
        for (text, expected) in [
            ("7", Some(7)),
            (" 0 ", Some(0)),
            ("Sat, 31 Jan 2026 12:00:30 GMT", Some(30)),
            ("Sat, 31 Jan 2026 11:00:00 GMT", None),
            ("soon", None),
            ("-1", None),
        ] {
            let headers = HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_static(text))]);
            assert_eq!(retry_after(&headers, now), expected.map(Duration::from_secs), "{text}");
        }
        assert_eq!(retry_after(&HeaderMap::new(), now), None);
    }
}
