//! Pages of one object. The stream gives its row; the rest is read from the API server when the
//! page is opened.

use futures::StreamExt;
use futures::stream;
use groundwork_api::{
    DeployItem, Execution, Installation, Kind as _, PackageRevision, PackageVariant, PackageVariantSet,
};
use groundwork_controller::ApiError;
use groundwork_lifecycle::overview::Members;
use groundwork_lifecycle::waits::{Clock, names_around};
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::resolver::v1::{ExplainRequest, explain_request};

use crate::console::{Made, PageError, Site, called, sentence};
use crate::context::Context;
use crate::landscape::NamespacedName;
use crate::operations;
use crate::pages::comparison::{Choice, ComparisonPage, Pair};
use crate::pages::components::ClosurePage;
use crate::pages::installation::{InstallationPage, MOST_READ, Seen, ToRead};
use crate::pages::list::ListQuery;
use crate::pages::parts::ErrorView;
use crate::pages::revision::{RevisionPage, RevisionView, stage};
use crate::pages::sets::SetPage;
use crate::pages::variant::VariantPage;
use crate::request::{Object, Parameters, named};

/// Number of revisions read for one variant.
const MOST_REVISIONS: usize = 20;
/// Number of objects that a page reads from the API server at the same time.
const SIDE_BY_SIDE: usize = 16;
/// Note on the page of an Installation when the journal cannot say where its items are written.
const SOURCES_UNREAD: &str = "The journal could not be read in time, so the places in the blueprint where items are written are not shown.";

/// Shows an Installation with everything below it. While the API server does not answer, the page
/// shows only what the stream has.
pub(crate) async fn installation(context: Context, Object(place): Object) -> Made {
    let site = &*context.site;
    context.demand::<Installation>(&place).await?;
    let seen = Seen {
        installations: context.sees_all::<Installation>(&place).await?,
        executions: context.sees_all::<Execution>(&place).await?,
        items: context.sees_all::<DeployItem>(&place).await?,
    };
    let page = InstallationPage::new(&site.landscape.read(), &place, seen, context.now);
    let mut page = page.ok_or_else(|| missing("Installation", &place))?;
    let mut members = Members::default();
    match site.objects.get::<Installation>(&place.namespace, &place.name).await {
        Ok(Some(installation)) => {
            page.add(&installation);
            members.insert_installation(installation);
        }
        Ok(None) => page.add_note("The object no longer exists in the API server.".to_owned()),
        Err(error) => page.add_note(sentence(&error.to_string())),
    }
    read_tree(site, &mut page, members, &place, seen.installations).await;
    page.offer(operations::of_installation(&context, &page, &place).await?);
    if let Some(renderer) = site.renderer.as_ref().filter(|_| seen.is_all()) {
        match site.sources.of(page.job(), renderer).await {
            Some(written) => page.add_sources(&written),
            None => page.add_note(SOURCES_UNREAD.to_owned()),
        }
        page.offer_journal();
    }
    Ok(context.show(&page))
}

/// Runs requests, at most `SIDE_BY_SIDE` at a time, and returns the answers in the order of the
/// requests.
async fn side_by_side<R: Future>(asked: impl IntoIterator<Item = R>) -> Vec<R::Output> {
    let asked: Vec<R> = asked.into_iter().collect();
    stream::iter(asked).buffered(SIDE_BY_SIDE).collect().await
}

/// An object below an Installation, read for the page of that Installation.
enum Part {
    Installation(Box<Installation>),
    Execution(Box<Execution>),
    Item(Box<DeployItem>),
}

impl Part {
    fn error(&self) -> Option<ErrorView> {
        let error = match self {
            Self::Installation(found) => found.status.as_ref()?.last_error.as_ref(),
            Self::Execution(found) => found.status.as_ref()?.last_error.as_ref(),
            Self::Item(found) => found.status.as_ref()?.last_error.as_ref(),
        };
        error.map(ErrorView::of)
    }

    fn join(self, members: &mut Members) {
        match self {
            Self::Installation(found) => members.insert_installation(*found),
            Self::Execution(found) => members.insert_execution(*found),
            Self::Item(found) => members.insert_item(*found),
        }
    }
}

/// Reads the objects of a tree from the API server, and adds their errors and waits to the page.
async fn read_tree(
    site: &Site,
    page: &mut InstallationPage,
    mut members: Members,
    place: &NamespacedName,
    sees_others: bool,
) {
    let ToRead { places, is_all } = page.to_read();
    let mut is_known = is_all && members.installation(&place.name).is_some();
    let read = places.into_iter().map(async |(kind, place)| {
        let part = part(site, kind, &place).await;
        (kind, place, part)
    });
    for (kind, place, part) in side_by_side(read).await {
        match part {
            Ok(Some(part)) => {
                if let Some(error) = part.error() {
                    page.add_error(kind, &place, &error);
                }
                part.join(&mut members);
            }
            Ok(None) => {}
            Err(_) => is_known = false,
        }
    }
    if !is_all {
        page.add_note(format!(
            "More than {MOST_READ} objects are working: the pages of nested Installations and `groundwork status` show \
             what they wait for."
        ));
    }
    if !is_known {
        return;
    }
    let names =
        members.installation(&place.name).filter(|_| sees_others).map(names_around).unwrap_or_default();
    let around: Vec<NamespacedName> = names.into_iter().map(|name| place.beside(name)).collect();
    let around = around.iter().map(async |place| part(site, Installation::KIND, place).await);
    // A sibling that cannot be read is left out: the page then names fewer reasons for waits.
    for part in side_by_side(around).await.into_iter().filter_map(|part| part.ok().flatten()) {
        part.join(&mut members);
    }
    if let Some(tree) = members.tree(&place.name, &Clock::now()) {
        page.add_waits(&tree);
    }
}

/// Reads an object of a tree; `None` if it has been deleted.
async fn part(site: &Site, kind: &str, place: &NamespacedName) -> Result<Option<Part>, ApiError> {
    let (namespace, name) = (&*place.namespace, &*place.name);
    Ok(match kind {
        Installation::KIND => site.objects.get(namespace, name).await?.map(Box::new).map(Part::Installation),
        Execution::KIND => site.objects.get(namespace, name).await?.map(Box::new).map(Part::Execution),
        _ => site.objects.get(namespace, name).await?.map(Box::new).map(Part::Item),
    })
}

/// Shows the closure of an Installation's component, as the resolver explains it.
pub(crate) async fn closure(context: Context, Object(place): Object) -> Made {
    context.demand::<Installation>(&place).await?;
    let Some(resolver) = &context.site.resolver else {
        let text = "Components are not available: start the console with --resolver, the address of the service that \
                    reads them.";
        return Err(PageError::Refused(text.to_owned()));
    };
    let name = ObjectName { namespace: place.namespace.to_string(), name: place.name.to_string() };
    let input = Some(explain_request::Input::Installation(name));
    let request_of_page = ExplainRequest { input, references: true };
    let answer =
        resolver.clone().explain(request_of_page).await.map_err(|status| called("resolver", &status))?;
    let page = ClosurePage::new(place, &answer.into_inner());
    Ok(context.show(&page))
}

/// Shows a set as a fleet of variants.
pub(crate) async fn set(
    context: Context,
    Object(place): Object,
    Parameters(query): Parameters<ListQuery>,
    Parameters(pair): Parameters<Pair>,
) -> Made {
    let site = &*context.site;
    context.demand::<PackageVariantSet>(&place).await?;
    let sees_variants = context.sees_all::<PackageVariant>(&place).await?;
    let sees_revisions = context.sees_all::<PackageRevision>(&place).await?;
    let page = SetPage::new(&site.landscape.read(), &place, sees_variants, query, pair);
    let mut page = page.ok_or_else(|| missing("PackageVariantSet", &place))?;
    match site.objects.get::<PackageVariantSet>(&place.namespace, &place.name).await {
        Ok(Some(set)) => page.add(&set),
        Ok(None) => page.add_note("The object no longer exists in the API server.".to_owned()),
        Err(error) => page.add_note(sentence(&error.to_string())),
    }
    if sees_revisions {
        let read = page.variants().into_iter().map(async |variant| {
            let revisions = revisions(site, &variant).await;
            (variant, revisions)
        });
        let mut unread = None;
        for (variant, revisions) in side_by_side(read).await {
            let revisions = revisions.unwrap_or_else(|error| {
                unread = Some(error);
                Vec::new()
            });
            let waits = revisions.into_iter().filter_map(|(place, revision)| {
                let stage = stage(&revision)?;
                (stage != groundwork_api::Lifecycle::Published).then(|| (place, stage.as_str().to_owned()))
            });
            page.add_waits(&variant, waits.collect());
        }
        if let Some(error) = unread {
            page.add_note(format!("Waiting drafts may be missing: {error}."));
        }
    } else {
        page.add_note(format!("You may not get PackageRevisions in the namespace {}.", place.namespace));
    }
    Ok(context.show(&page))
}

/// Shows the differences between two variants of a set.
pub(crate) async fn comparison(
    context: Context,
    Object(place): Object,
    Parameters(pair): Parameters<Pair>,
) -> Made {
    context.demand::<PackageVariantSet>(&place).await?;
    let sees_variants = context.sees_all::<PackageVariant>(&place).await?;
    let choice = Choice::new(&context.site.landscape.read(), &place, sees_variants, pair.clone());
    let mut page = ComparisonPage::new(place.clone(), choice);
    let Pair { left, right } = pair;
    if left.is_empty() && right.is_empty() {
        let is_known = context.site.landscape.read().sets.contains_key(&place);
        return match is_known {
            true => Ok(context.show(&page)),
            false => Err(missing("PackageVariantSet", &place)),
        };
    }
    if left.is_empty() || right.is_empty() {
        return Err(PageError::Refused(
            "To compare two variants, name one with left and the other with right.".to_owned(),
        ));
    }
    let left = variant_of_set(&context, &place, &left).await?;
    let right = variant_of_set(&context, &place, &right).await?;
    page.compare((left.0, &left.1), (right.0, &right.1));
    Ok(context.show(&page))
}

/// Reads a variant. An error is returned if the variant does not belong to the set, or the visitor
/// may not see it.
async fn variant_of_set(
    context: &Context,
    set: &NamespacedName,
    name: &str,
) -> Result<(NamespacedName, PackageVariant), PageError> {
    let (site, place) = (&context.site, named(&set.namespace, name)?);
    context.demand::<PackageVariant>(&place).await?;
    let belongs = {
        let content = site.landscape.read();
        let set = content.sets.get(set).map(|set| &set.uid);
        set.is_some() && set == content.variants.get(&place).and_then(|variant| variant.set.as_ref())
    };
    let found = if belongs { site.objects.get(&place.namespace, &place.name).await? } else { None };
    let variant = found.ok_or_else(|| PageError::NoObject {
        kind: "PackageVariant of this set",
        place: place.to_string(),
    })?;
    Ok((place, variant))
}

/// Reads the revisions that a variant's status lists.
async fn revisions(
    site: &Site,
    variant: &NamespacedName,
) -> Result<Vec<(NamespacedName, PackageRevision)>, ApiError> {
    let found = site.objects.get::<PackageVariant>(&variant.namespace, &variant.name).await?;
    let targets = found.and_then(|found| found.status).map(|status| status.downstream_targets);
    let mut revisions = Vec::new();
    for target in targets.iter().flat_map(|targets| targets.iter()).take(MOST_REVISIONS) {
        if let Some(revision) = site.objects.get::<PackageRevision>(&variant.namespace, &target.name).await? {
            revisions.push((variant.beside(&target.name), revision));
        }
    }
    Ok(revisions)
}

/// Shows a variant with its revisions.
pub(crate) async fn variant(context: Context, Object(place): Object) -> Made {
    let site = &*context.site;
    context.demand::<PackageVariant>(&place).await?;
    let sees_sets = context.sees_all::<PackageVariantSet>(&place).await?;
    let sees_revisions = context.sees_all::<PackageRevision>(&place).await?;
    let page = VariantPage::new(&site.landscape.read(), &place, sees_sets);
    let mut page = page.ok_or_else(|| missing("PackageVariant", &place))?;
    match site.objects.get::<PackageVariant>(&place.namespace, &place.name).await {
        Ok(Some(variant)) => page.add(&variant),
        Ok(None) => page.add_note("The object no longer exists in the API server.".to_owned()),
        Err(error) => page.add_note(sentence(&error.to_string())),
    }
    if sees_revisions {
        match revisions(site, &place).await {
            Ok(revisions) => {
                for (_, revision) in revisions {
                    page.add_revision(RevisionView::of(&revision));
                }
            }
            Err(error) => page.add_note(sentence(&error.to_string())),
        }
    } else {
        page.add_note(format!("You may not get PackageRevisions in the namespace {}.", place.namespace));
    }
    Ok(context.show(&page))
}

/// Shows a package revision. The revision is read from the API server, because the stream carries
/// little of it.
pub(crate) async fn revision(context: Context, Object(place): Object) -> Made {
    context.demand::<PackageRevision>(&place).await?;
    let found = context.site.objects.get::<PackageRevision>(&place.namespace, &place.name).await?;
    let revision = found.ok_or_else(|| missing("PackageRevision", &place))?;
    let operations = operations::of_revision(&context, &revision, &place).await?;
    Ok(context.show(&RevisionPage::new(&revision, operations)))
}

pub(crate) fn missing(kind: &'static str, place: &NamespacedName) -> PageError {
    PageError::NoObject { kind, place: place.to_string() }
}
