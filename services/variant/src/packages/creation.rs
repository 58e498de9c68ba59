//! Sources from which callers create drafts (`packagevariants.md` 6.6).

use groundwork_api::InitTask;
use groundwork_krm::Strategy;
use groundwork_packages::git::Source;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::packages::v1::create_request::Source as Given;
use groundwork_proto::packages::v1::{InitSource, UpgradeSource};
use tonic::Status;

use super::calls::named;
use crate::status::invalid;

/// Source of a draft, as far as it is known before the store is asked.
#[derive(Debug)]
pub(super) enum Wanted {
    Known(Source),
    /// Upgrade of a package whose original is still to be found.
    Upgrade {
        local: String,
        upstream: String,
        strategy: Strategy,
    },
}

/// Returns the revisions that a source names. The caller needs the right to read them.
pub(super) fn named_in(source: &Given, namespace: &str) -> Result<Vec<ObjectName>, Status> {
    let names: &[(&str, &String)] = match source {
        Given::Init(_) => &[],
        Given::Clone(name) => &[("clone", name)],
        Given::Edit(name) => &[("edit", name)],
        Given::Upgrade(UpgradeSource { revision, upstream, .. }) => {
            &[("upgrade.revision", revision), ("upgrade.upstream", upstream)]
        }
    };
    let of = |name: &str| ObjectName { namespace: namespace.to_owned(), name: name.to_owned() };
    names.iter().map(|(field, name)| named(field, Some(of(name)))).collect()
}

impl Wanted {
    pub(super) fn of(source: Given) -> Result<Self, Status> {
        Ok(match source {
            Given::Clone(upstream) => Self::Known(Source::Clone { upstream }),
            Given::Edit(source) => Self::Known(Source::Edit { source }),
            Given::Init(InitSource { description, keywords, site }) => {
                let given = |text: String| Some(text).filter(|text| !text.is_empty());
                Self::Known(Source::Init(InitTask {
                    description: given(description),
                    keywords: keywords.into(),
                    site: given(site),
                    ..InitTask::default()
                }))
            }
            Given::Upgrade(UpgradeSource { revision, upstream, strategy }) => {
                let strategy = match strategy.as_str() {
                    "" => Strategy::ResourceMerge,
                    given => given.parse().map_err(|error: groundwork_krm::MergeError| {
                        invalid("upgrade.strategy", &error.to_string())
                    })?,
                };
                Self::Upgrade { local: revision, upstream, strategy }
            }
        })
    }
}
