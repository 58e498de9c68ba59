//! Reads the journal of an Installation from the renderer, with the call that `groundwork replay`
//! makes.

use groundwork_api::{DeployItem, Execution, Installation};
use groundwork_grpc::Channel;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{JournalEntry, ReplayRequest};
use tonic::Status;

use crate::console::{Made, PageError, called};
use crate::context::Context;
use crate::pages::journal::{JournalPage, JournalQuery, Wish};
use crate::request::{Object, Parameters};

/// Shows a page of the journal. The visitor needs the rights that the renderer's own call demands,
/// because entries quote every object that belongs to an Installation.
pub(crate) async fn page(
    context: Context,
    Object(place): Object,
    Parameters(query): Parameters<JournalQuery>,
) -> Made {
    context.demand::<Installation>(&place).await?;
    let all = (
        context.sees_all::<Installation>(&place).await?,
        context.sees_all::<Execution>(&place).await?,
        context.sees_all::<DeployItem>(&place).await?,
    );
    if all != (true, true, true) {
        return Err(PageError::Denied(format!(
            "You may not see the journal: this needs permission to get Installations, Executions and DeployItems in \
             the namespace {}.",
            place.namespace
        )));
    }
    let wish = Wish::of(query)?;
    let Some(renderer) = &context.site.renderer else {
        let text = "The journal is not available: start the console with --renderer, the address of the service that \
                    reads it.";
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
    let (entries, is_truncated) =
        replay(renderer.clone(), asked).await.map_err(|status| called("renderer", &status))?;
    let is_known = context.site.landscape.read().installations.contains_key(&place);
    Ok(context.show(&JournalPage::new(place, wish, entries, is_truncated, is_known)))
}

/// Returns all entries of an answer, and whether the limit cut entries off.
pub(crate) async fn replay(
    mut renderer: RendererClient<Channel>,
    asked: ReplayRequest,
) -> Result<(Vec<JournalEntry>, bool), Status> {
    let mut answers = renderer.replay(asked).await?.into_inner();
    let (mut entries, mut is_truncated) = (Vec::new(), false);
    while let Some(answer) = answers.message().await? {
        is_truncated |= answer.truncated;
        entries.extend(answer.entries);
    }
    Ok((entries, is_truncated))
}
