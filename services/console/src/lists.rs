//! Pages of lists, from rows of the stream alone.

use groundwork_api::{Installation, PackageVariant, PackageVariantSet};

use crate::console::Made;
use crate::context::Context;
use crate::pages::components::ComponentsPage;
use crate::pages::events::EventsPage;
use crate::pages::installations::{Filter, InstallationsPage};
use crate::pages::list::ListQuery;
use crate::pages::overview::GlancePage;
use crate::pages::sets::SetsPage;
use crate::request::Parameters;

pub(crate) async fn overview(context: Context) -> Made {
    let installations = context.visible::<Installation>().await?;
    let packages = context.visible::<PackageVariantSet>().await?;
    let landscape = &context.site.landscape;
    let page = GlancePage::new(&landscape.read(), &installations, &packages, context.now);
    Ok(context.show(&page))
}

pub(crate) async fn installations(
    context: Context,
    Parameters(filter): Parameters<Filter>,
    Parameters(query): Parameters<ListQuery>,
) -> Made {
    let visible = context.visible::<Installation>().await?;
    let landscape = &context.site.landscape;
    let page = InstallationsPage::new(&landscape.read(), &visible, filter, &query, context.now);
    Ok(context.show(&page))
}

pub(crate) async fn sets(context: Context, Parameters(query): Parameters<ListQuery>) -> Made {
    let sets = context.visible::<PackageVariantSet>().await?;
    let variants = context.visible::<PackageVariant>().await?;
    let page = SetsPage::new(&context.site.landscape.read(), &sets, &variants, query);
    Ok(context.show(&page))
}

pub(crate) async fn components(context: Context, Parameters(query): Parameters<ListQuery>) -> Made {
    let visible = context.visible::<Installation>().await?;
    let page = ComponentsPage::new(&context.site.landscape.read(), &visible, query);
    Ok(context.show(&page))
}

pub(crate) async fn events(context: Context, Parameters(query): Parameters<ListQuery>) -> Made {
    let sees = context.sees_events().await?;
    let page = EventsPage::new(
        &context.site.landscape.read(),
        |event| {
            let namespace = event.object.namespace.as_deref().unwrap_or_default();
            let kind = (event.object.kind.group(), event.object.kind.plural());
            sees.iter().any(|(known, visible)| *known == kind && visible.contains(namespace))
        },
        query,
    );
    Ok(context.show(&page))
}
