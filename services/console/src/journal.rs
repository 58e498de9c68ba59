//! The journal of an Installation, which the renderer reads: the same call that `groundwork replay` makes.

use groundwork_api::{DeployItem, Execution, Installation};
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::renderer::v1::ReplayRequest;
use jiff::Timestamp;

use crate::answer::Answer;
use crate::console::{PageError, Site, called};
use crate::landscape::Place;
use crate::pages::journal::{JournalPage, Wish};
use crate::request::Request;
use crate::visitor::Visitor;

/// A page of the journal, for those to whom the call itself would answer: entries tell of all that belongs to an Installation.
pub(crate) async fn page(
    site: &Site,
    request: &Request,
    visitor: &Visitor,
    place: &Place,
    now: Timestamp,
) -> Result<Answer, PageError> {
    site.demand::<Installation>(visitor, "get", place).await?;
    let all = (
        site.sees_all::<Installation>(visitor, place).await?,
        site.sees_all::<Execution>(visitor, place).await?,
        site.sees_all::<DeployItem>(visitor, place).await?,
    );
    if all != (true, true, true) {
        return Err(PageError::Denied(format!(
            "You may not see the journal, which tells of all that belongs to an Installation: it takes the right to get \
             Installations, Executions and DeployItems in the namespace {}.",
            place.namespace
        )));
    }
    let wish = Wish::of(request)?;
    let Some(renderer) = &site.renderer else {
        let text = "The console was not told where the renderer is (--renderer), which reads the journal.";
        return Err(PageError::Refused(text.to_owned()));
    };
    let asked = ReplayRequest {
        installation: Some(ObjectName {
            namespace: place.namespace.to_string(),
            name: place.name.to_string(),
        }),
        at: wish
            .at
            .map(|at| prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() }),
        all: wish.all,
        limit: wish.limit,
    };
    let refused = |status| called("renderer", &status);
    let mut answers = renderer.clone().replay(asked).await.map_err(refused)?.into_inner();
    let (mut entries, mut is_truncated) = (Vec::new(), false);
    while let Some(answer) = answers.message().await.map_err(refused)? {
        is_truncated |= answer.truncated;
        entries.extend(answer.entries);
    }
    let is_known = site.landscape.read().installations.contains_key(place);
    let page = JournalPage::new(place.clone(), wish, entries, is_truncated, is_known);
    Ok(site.show(request, visitor, &page, now))
}
