//! Operations that a visitor may start. The console offers an operation only where the API server
//! allows it to the visitor, asks for confirmation on a page of its own, and writes with the
//! visitor's own token. The API server, its admission and its audit log therefore see the visitor
//! as the author. The console itself has no right to change anything.

use groundwork_api::metadata::{annotation, operation};
use groundwork_api::{Installation, Kind as _, Lifecycle, PackageRevision, ResourceExt as _};
use groundwork_controller::{ApiError, ClusterArguments};
use groundwork_lifecycle::machine::HasJob as _;
use groundwork_lifecycle::parent_name;
use http::StatusCode;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use secrecy::ExposeSecret as _;
use serde_json::json;

use crate::SERVICE;
use crate::answer::Answer;
use crate::console::{PageError, REVISIONS, Site, from_elsewhere, named};
use crate::landscape::Place;
use crate::objects::missing;
use crate::pages::frame::{self, Frame};
use crate::pages::installation::InstallationPage;
use crate::pages::operation::ConfirmPage;
use crate::pages::parts::path;
use crate::pages::revision::stage;
use crate::request::{Form, Request};
use crate::visitor::Visitor;

const MANAGER: &str = "groundwork-console";
/// Subresource that the visitor must be allowed to `update`, beside the revision itself, to approve
/// it (`packagevariants.md` 6.14).
const APPROVAL: (&str, &str) = (PackageRevision::GROUP, "packagerevisions/approval");

/// Operations on Installations and package revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Reconcile,
    Interrupt,
    Propose,
    Approve,
}

/// Request of a submitted form.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked<'a> {
    pub(crate) section: &'a str,
    pub(crate) operation: &'a str,
    pub(crate) form: &'a Form,
}

/// Object of an operation, as the API server returned it.
enum Subject {
    Installation(Box<Installation>),
    Revision(Box<PackageRevision>),
}

impl Operation {
    fn parse(section: &str, name: &str) -> Result<Self, PageError> {
        let all: &[Self] = match section {
            "installations" => &[Self::Reconcile, Self::Interrupt],
            _ => &[Self::Propose, Self::Approve],
        };
        all.iter().copied().find(|operation| operation.as_str() == name).ok_or(PageError::NoPage)
    }

    const fn as_str(self) -> &'static str {
        match self {
            Self::Reconcile => "reconcile",
            Self::Interrupt => "interrupt",
            Self::Propose => "propose",
            Self::Approve => "approve",
        }
    }

    const fn consequence(self) -> &'static str {
        match self {
            Self::Reconcile => {
                "This requests a job, like `groundwork reconcile`. If a job is running, the new one starts when it has \
                 ended."
            }
            Self::Interrupt => {
                "This interrupts the running job, like `groundwork interrupt`. The job counts as failed."
            }
            Self::Propose => {
                "This proposes the draft, like `groundwork packages propose`. The draft can then be approved."
            }
            Self::Approve => {
                "This publishes the revision, like `groundwork packages approve`. A published revision cannot be \
                 changed."
            }
        }
    }

    /// Returns an error if the object's present state does not allow the operation.
    fn check(self, subject: &Subject) -> Result<(), PageError> {
        let refused = |text: &str| Err(PageError::Refused(text.to_owned()));
        match (self, subject) {
            (Self::Reconcile, Subject::Installation(installation)) if parent_name(installation).is_some() => {
                refused("The Installation is nested: jobs start at the root Installation.")
            }
            (Self::Interrupt, Subject::Installation(installation)) if !installation.job().is_running() => {
                refused("No job is running.")
            }
            (Self::Propose, Subject::Revision(revision)) if stage(revision) != Some(Lifecycle::Draft) => {
                refused("Only a draft can be proposed.")
            }
            (Self::Approve, Subject::Revision(revision)) if stage(revision) != Some(Lifecycle::Proposed) => {
                refused("Only a proposed revision can be approved.")
            }
            _ => Ok(()),
        }
    }

    /// Reports whether the visitor has the rights that the API server demands for the operation.
    async fn is_allowed(self, site: &Site, visitor: &Visitor, place: &Place) -> Result<bool, PageError> {
        let may = async |verb, kind| {
            let (namespace, name) = (Some(&*place.namespace), Some(&*place.name));
            site.rights.may(&visitor.user, verb, kind, namespace, name).await
        };
        Ok(match self {
            Self::Reconcile | Self::Interrupt => {
                may("patch", (Installation::GROUP, Installation::PLURAL)).await?
            }
            Self::Propose => may("patch", REVISIONS).await?,
            Self::Approve => may("patch", REVISIONS).await? && may("update", APPROVAL).await?,
        })
    }
}

/// Returns the operations to offer for an Installation.
pub(crate) async fn of_installation(
    site: &Site,
    visitor: &Visitor,
    page: &InstallationPage,
    place: &Place,
) -> Result<Vec<&'static str>, PageError> {
    let possible = [(Operation::Reconcile, page.is_root()), (Operation::Interrupt, page.is_running())];
    offered(site, visitor, place, possible).await
}

/// Returns the operations to offer for a revision.
pub(crate) async fn of_revision(
    site: &Site,
    visitor: &Visitor,
    revision: &PackageRevision,
    place: &Place,
) -> Result<Vec<&'static str>, PageError> {
    let stage = stage(revision);
    let possible = [
        (Operation::Propose, stage == Some(Lifecycle::Draft)),
        (Operation::Approve, stage == Some(Lifecycle::Proposed)),
    ];
    offered(site, visitor, place, possible).await
}

async fn offered(
    site: &Site,
    visitor: &Visitor,
    place: &Place,
    possible: [(Operation, bool); 2],
) -> Result<Vec<&'static str>, PageError> {
    let mut offered = Vec::new();
    if !site.allows_operations || visitor.token().is_none() {
        return Ok(offered);
    }
    for (operation, _) in possible.into_iter().filter(|(_, is_possible)| *is_possible) {
        if operation.is_allowed(site, visitor, place).await? {
            offered.push(operation.as_str());
        }
    }
    Ok(offered)
}

/// Reads the object of an operation, or returns an error if the operation is not possible.
async fn prepare(
    site: &Site,
    visitor: &Visitor,
    operation: Operation,
    place: &Place,
) -> Result<Subject, PageError> {
    if !site.allows_operations {
        let text = "The console is read-only: it was started without --allow-operations.";
        return Err(PageError::Denied(text.to_owned()));
    }
    if visitor.token().is_none() {
        let text =
            "Operations need your own token, but the proxy in front of the console does not pass it on.";
        return Err(PageError::Denied(text.to_owned()));
    }
    let (namespace, name) = (&*place.namespace, &*place.name);
    let subject = match operation {
        Operation::Reconcile | Operation::Interrupt => {
            site.demand::<Installation>(visitor, "get", place).await?;
            let found = site.objects.get::<Installation>(namespace, name).await?;
            Subject::Installation(Box::new(found.ok_or_else(|| missing(Installation::KIND, place))?))
        }
        Operation::Propose | Operation::Approve => {
            site.demand::<PackageRevision>(visitor, "get", place).await?;
            let found = site.objects.get::<PackageRevision>(namespace, name).await?;
            Subject::Revision(Box::new(found.ok_or_else(|| missing(PackageRevision::KIND, place))?))
        }
    };
    if !operation.is_allowed(site, visitor, place).await? {
        let user = &visitor.user.name;
        return Err(PageError::Denied(format!("User {user:?} may not {} {place}.", operation.as_str())));
    }
    operation.check(&subject)?;
    Ok(subject)
}

/// Shows the page that asks for confirmation.
pub(crate) async fn confirm(
    site: &Site,
    request: &Request,
    visitor: &Visitor,
    section: &str,
    (namespace, name): (&str, &str),
    operation: &str,
) -> Result<Answer, PageError> {
    let (operation, place) = (Operation::parse(section, operation)?, named(namespace, name)?);
    let version = match prepare(site, visitor, operation, &place).await? {
        Subject::Installation(_) => None,
        // The form carries the version that the visitor has seen. If the revision changes before
        // the approval, the API server answers with a conflict.
        Subject::Revision(revision) => revision.resource_version(),
    };
    let (back, action) = addresses(section, &place, operation);
    let page = ConfirmPage {
        operation: operation.as_str(),
        object: place.to_string(),
        consequence: operation.consequence(),
        user: visitor.user.name.clone(),
        key: visitor.form_key(&action),
        version: version.unwrap_or_default(),
        action,
        back,
    };
    if request.wants_json {
        return Ok(Answer::json(StatusCode::OK, frame::json(&page, &site.problems())));
    }
    let frame = Frame {
        user: Some(&visitor.user.name),
        can_sign_out: visitor.has_cookie,
        path: &page.back,
        ..Frame::default()
    };
    Ok(Answer::html(StatusCode::OK, frame::html(&page, &frame, Timestamp::now())).with_secret())
}

/// Carries out a confirmed operation.
pub(crate) async fn run(
    site: &Site,
    request: &Request,
    visitor: &Visitor,
    asked: Asked<'_>,
    (namespace, name): (&str, &str),
) -> Result<Answer, PageError> {
    let (operation, place) = (Operation::parse(asked.section, asked.operation)?, named(namespace, name)?);
    let (back, action) = addresses(asked.section, &place, operation);
    if !request.is_from_here() {
        return Err(from_elsewhere());
    }
    if !visitor.has_form_key(&action, asked.form.field("key")) {
        let text = "The console did not create this form for you: open the page of the object again.";
        return Err(PageError::Denied(text.to_owned()));
    }
    // Checked again, because rights and state may have changed since the page was shown.
    let subject = prepare(site, visitor, operation, &place).await?;
    perform(site, visitor, operation, &subject, &place, asked.form.field("version")).await?;
    tracing::info!(user = visitor.user.name, operation = operation.as_str(), object = %place, "operation done for a \
                                                                                               visitor");
    Ok(Answer::redirect(&back))
}

fn addresses(section: &str, place: &Place, operation: Operation) -> (String, String) {
    let back = path(section, place);
    let action = format!("{back}/{}", operation.as_str());
    (back, action)
}

/// Writes the change with the visitor's own token.
async fn perform(
    site: &Site,
    visitor: &Visitor,
    operation: Operation,
    subject: &Subject,
    place: &Place,
    version: &str,
) -> Result<(), PageError> {
    let mut config = site.anonymous.clone();
    config.auth_info.token = visitor.token().map(|token| token.expose_secret().to_owned().into());
    let client = ClusterArguments::client_of(config, SERVICE)
        .map_err(|error| PageError::Unavailable(error.to_string()))?;
    let parameters = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
    let (namespace, name) = (&*place.namespace, &*place.name);
    let written = match subject {
        Subject::Installation(_) => {
            let wanted = match operation {
                Operation::Interrupt => operation::INTERRUPT,
                _ => operation::RECONCILE,
            };
            let patch = json!({"metadata": {"annotations": {annotation::OPERATION: wanted}}});
            let api = Api::<Installation>::namespaced(client, namespace);
            api.patch(name, &parameters, &Patch::Merge(patch)).await.map(drop)
        }
        Subject::Revision(_) => {
            let mut metadata = json!({"resourceVersion": version});
            let mut to = Lifecycle::Proposed;
            if operation == Operation::Approve {
                to = Lifecycle::Published;
                // The package store uses this name as the author of the commit that publishes the
                // revision.
                metadata["annotations"] = json!({annotation::APPROVED_BY: visitor.user.name});
            }
            let patch = json!({"metadata": metadata, "spec": {"lifecycle": to.as_str()}});
            let api = Api::<PackageRevision>::namespaced(client, namespace);
            api.patch(name, &parameters, &Patch::Merge(patch)).await.map(drop)
        }
    };
    written.map_err(|error| refusal(&error, place))
}

/// Returns the reason of the API server's refusal. Only its kind is shown, because the server's
/// message may quote values of the object.
fn refusal(error: &kube::Error, place: &Place) -> PageError {
    if matches!(error, kube::Error::Api(answer) if answer.code == 401) {
        let text = "The API server does not accept your token for changes: sign in with a token that is valid for the \
                    API server too.";
        return PageError::Denied(text.to_owned());
    }
    match ApiError::new(error, "patch", &place.to_string(), &format!("{place}")) {
        ApiError::Forbidden { .. } => {
            PageError::Denied(format!("The API server does not let you change {place}."))
        }
        ApiError::Conflict(_) => PageError::Refused(format!(
            "Another user or service changed {place} in the meantime: reload the page and try again."
        )),
        other => other.into(),
    }
}
