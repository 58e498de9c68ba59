//! Places in blueprints that declare the objects of an Installation. They come from the renderer's
//! journal, and all visitors of a job's page share one cached answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use groundwork_grpc::Channel;
use groundwork_lifecycle::sources::parts;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{JournalEntry, ReplayRequest};
use jiff::Timestamp;
use moka::future::Cache;
use tokio::time::timeout;

use crate::journal::replay;
use crate::landscape::NamespacedName;

/// Time for which an answer is cached. It is short because a running job adds entries.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Number of jobs with cached answers.
const MOST: u64 = 1_000;
/// Time that a page waits for the journal before it is shown without the places.
const PATIENCE: Duration = Duration::from_millis(500);

/// Places in a blueprint, by subjects in the form of
/// [`groundwork_lifecycle::sources::Made::subject`].
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Written(BTreeMap<String, String>);

impl Written {
    /// Returns the place in the blueprint, such as `deployExecutions[default] (deploy.yaml, line
    /// 2)`.
    pub(crate) fn place(&self, subject: &str) -> Option<&str> {
        self.0.get(subject).map(String::as_str)
    }
}

impl FromIterator<JournalEntry> for Written {
    fn from_iter<I: IntoIterator<Item = JournalEntry>>(entries: I) -> Self {
        let is_source = |entry: &JournalEntry| (&*entry.what, &*entry.reason) == ("decision", "Source");
        let sentences = entries.into_iter().filter(is_source).map(|entry| entry.text);
        Self(
            sentences
                .filter_map(|text| parts(&text).map(|(what, place)| (what.to_owned(), place.to_owned())))
                .collect(),
        )
    }
}

/// A job of an Installation, identified by its begin and end.
pub(crate) type JobOf = (NamespacedName, Option<Timestamp>, Option<Timestamp>);

/// Cache of the journal's answers by job.
pub(crate) struct Sources(Cache<JobOf, Option<Arc<Written>>>);

impl Sources {
    pub(crate) fn new() -> Self {
        Self(Cache::builder().max_capacity(MOST).time_to_live(REMEMBERED).build())
    }

    /// Returns the places of the last job of an Installation; `None` if the journal cannot be read
    /// in time.
    pub(crate) async fn of(&self, job: JobOf, renderer: &RendererClient<Channel>) -> Option<Arc<Written>> {
        let name = ObjectName { namespace: job.0.namespace.to_string(), name: job.0.name.to_string() };
        self.0.get_with(job, async { read(name, renderer.clone()).await.map(Arc::new) }).await
    }
}

async fn read(installation: ObjectName, renderer: RendererClient<Channel>) -> Option<Written> {
    let asked = ReplayRequest { installation: Some(installation), at: None, all: false, limit: 0 };
    let (entries, _) = timeout(PATIENCE, replay(renderer, asked)).await.ok()?.ok()?;
    Some(entries.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use groundwork_lifecycle::sources::Made;

    use super::*;

    #[test]
    fn what_the_journal_says_of_sources() {
        let entry = |what: &str, reason: &str, text: &str| JournalEntry {
            what: what.to_owned(),
            reason: reason.to_owned(),
            text: text.to_owned(),
            ..JournalEntry::default()
        };
        let written: Written = [
            entry("decision", "Rendered", "rendered the blueprint in 3 ms"),
            entry(
                "decision",
                "Source",
                "the deploy item \"a\" is written in deployExecutions[d] (d.yaml, line 2)",
            ),
            entry("decision", "Source", "10 more deploy items or nested installations follow"),
            entry("error", "Source", "the deploy item \"b\" is written in nothing"),
        ]
        .into_iter()
        .collect();
        assert_eq!(
            written.place(&Made::DeployItem.subject("a")),
            Some("deployExecutions[d] (d.yaml, line 2)")
        );
        for other in [Made::DeployItem.subject("b"), Made::NestedInstallation.subject("a")] {
            assert_eq!(written.place(&other), None);
        }
    }
}
