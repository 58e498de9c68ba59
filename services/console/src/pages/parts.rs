//! Parts that several pages share.

use std::fmt::Display;

use groundwork_api::LastError;
use groundwork_lifecycle::waits::Wait;
use jiff::{SignedDuration, Timestamp};
use maud::{Markup, html};
use serde::Serialize;

use crate::landscape::{Job, NamespacedName, PackageState, State};
use crate::request::encoded;

/// A job in the JSON form.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct JobView {
    pub(crate) state: State,
    pub(crate) phase: &'static str,
    pub(crate) is_deleting: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) began: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ended: Option<Timestamp>,
    #[serde(skip)]
    elapsed: Option<SignedDuration>,
}

impl JobView {
    pub(crate) fn of(job: &Job, now: Timestamp) -> Self {
        let Job { state, phase, is_deleting, began, ended } = *job;
        Self { state, phase: phase.as_str(), is_deleting, began, ended, elapsed: job.elapsed(now) }
    }

    /// Renders the phase as text, so that the page is readable without colours.
    pub(crate) fn badge(&self) -> Markup {
        let phase = if self.phase.is_empty() { "no job yet" } else { self.phase };
        html! {
            span class={ "badge " (self.state.as_str()) } { (phase) }
            @if self.state == State::Running { " " span class="note" { "running" } }
            (deleting(self.is_deleting))
        }
    }

    pub(crate) fn elapsed(&self) -> String {
        self.elapsed.map(elapsed).unwrap_or_default()
    }
}

pub(crate) fn package_badge(state: PackageState) -> Markup {
    html! { span class={ "badge " (state.as_str()) } { (state.as_str()) } }
}

/// Renders a mark for an object that is being deleted.
pub(crate) fn deleting(is_deleting: bool) -> Markup {
    html! { @if is_deleting { " " span class="note" { "being deleted" } } }
}

/// View of the `lastError` of an object.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ErrorView {
    pub(crate) operation: String,
    pub(crate) reason: String,
    pub(crate) message: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) codes: Vec<String>,
}

impl ErrorView {
    pub(crate) fn of(error: &LastError) -> Self {
        Self {
            operation: error.operation.clone(),
            reason: error.reason.clone(),
            message: error.message.clone(),
            codes: error.codes.to_vec(),
        }
    }

    pub(crate) fn markup(&self) -> Markup {
        html! {
            div class="error" {
                strong { (self.operation) ": " (self.reason) }
                @for code in &self.codes { " " span class="note" { (code) } }
                pre { (self.message) }
            }
        }
    }
}

/// Renders a wait in the words of `groundwork status`.
pub(crate) fn waiting(wait: Option<&Wait>, now: Timestamp) -> Markup {
    html! { @if let Some(wait) = wait { p class="note waits" { (wait.sentence(now)) } } }
}

/// Returns the address of an Installation's page.
pub(crate) fn installation_path(place: &NamespacedName) -> String {
    path("installations", place)
}

/// Returns the address of an object's page.
pub(crate) fn path(section: &str, place: &NamespacedName) -> String {
    format!("/{section}/{}/{}", encoded(&place.namespace), encoded(&place.name))
}

/// Renders a link to the page of an Installation.
pub(crate) fn installation_link(place: &NamespacedName) -> Markup {
    html! { a href=(installation_path(place)) { (place) } }
}

impl Display for NamespacedName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

impl Serialize for NamespacedName {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Renders a time to the second.
pub(crate) fn moment(time: Timestamp) -> Markup {
    let text = time.strftime("%Y-%m-%d %H:%M:%S").to_string();
    html! { time datetime=(time) { (text) } }
}

/// Formats a duration in its two largest units.
pub(crate) fn elapsed(time: SignedDuration) -> String {
    let seconds = time.as_secs().max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days}d {}h", hours % 24),
        () if hours > 0 => format!("{hours}h {}m", minutes % 60),
        () if minutes > 0 => format!("{minutes}m {}s", seconds % 60),
        () if seconds > 9 => format!("{seconds}s"),
        () => format!("{}.{}s", seconds, (time.as_millis().max(0) % 1000) / 100),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_of_time() {
        let text = |milliseconds| elapsed(SignedDuration::from_millis(milliseconds));
        let texts = [1_250, 59_000, 61_000, 3_700_000, 90_000_000].map(text);
        assert_eq!(texts, ["1.2s", "59s", "1m 1s", "1h 1m", "1d 1h"]);
    }
}
