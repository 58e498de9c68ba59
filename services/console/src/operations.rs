//! Operations that a visitor may start. The console offers an operation only where the API server
//! allows it to the visitor, asks for confirmation on a page of its own, and writes with the
//! visitor's own token. The API server, its admission and its audit log therefore see the visitor
//! as the author. The console itself has no right to change anything.

use std::sync::Arc;

use axum::routing::{MethodRouter, get};
use groundwork_api::metadata::{annotation, operation};
use groundwork_api::{Installation, Kind as _, Lifecycle, PackageRevision, ResourceExt as _};
use groundwork_controller::{ApiError, ClusterArguments};
use groundwork_lifecycle::machine::HasJob as _;
use groundwork_lifecycle::parent_name;
use http::StatusCode;
use kube::api::{Api, Patch, PatchParams, PostParams};
use secrecy::ExposeSecret as _;
use serde::Deserialize;
use serde_json::json;

use crate::console::{Made, PageError, Site};
use crate::context::Context;
use crate::landscape::NamespacedName;
use crate::objects::missing;
use crate::pages::frame::{self, Frame};
use crate::pages::installation::InstallationPage;
use crate::pages::operation::ConfirmPage;
use crate::pages::parts::path;
use crate::pages::revision::stage;
use crate::request::{Form, Object};
use crate::rights::{KindOfRight, of_kind};
use crate::{SERVICE, answer};

const MANAGER: &str = "groundwork-console";
/// Subresource that the visitor must be allowed to `update`, beside the revision itself, to approve
/// it (`packagevariants.md` 6.5).
const APPROVAL: KindOfRight = (PackageRevision::GROUP, "packagerevisions/approval");

/// Operations on Installations and package revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Reconcile,
    Interrupt,
    Propose,
    Approve,
}

/// Fields of the form that confirms an operation.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Confirmation {
    key: String,
    version: String,
}

/// Object of an operation, as the API server returned it.
enum Subject {
    Installation(Box<Installation>),
    Revision(Box<PackageRevision>),
}

impl Operation {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Reconcile => "reconcile",
            Self::Interrupt => "interrupt",
            Self::Propose => "propose",
            Self::Approve => "approve",
        }
    }

    /// Returns the first segment of the addresses of the objects.
    const fn section(self) -> &'static str {
        match self {
            Self::Reconcile | Self::Interrupt => "installations",
            Self::Propose | Self::Approve => "revisions",
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
    async fn is_allowed(self, context: &Context, place: &NamespacedName) -> Result<bool, PageError> {
        let may = |verb, kind| context.may(verb, kind, &place.namespace, Some(&place.name));
        match self {
            Self::Reconcile | Self::Interrupt => may("patch", of_kind::<Installation>()).await,
            Self::Propose => may("patch", of_kind::<PackageRevision>()).await,
            Self::Approve => may("update", APPROVAL).await,
        }
    }
}

/// Returns the operations to offer for an Installation.
pub(crate) async fn of_installation(
    context: &Context,
    page: &InstallationPage,
    place: &NamespacedName,
) -> Result<Vec<&'static str>, PageError> {
    let possible = [(Operation::Reconcile, page.is_root()), (Operation::Interrupt, page.is_running())];
    offered(context, place, possible).await
}

/// Returns the operations to offer for a revision.
pub(crate) async fn of_revision(
    context: &Context,
    revision: &PackageRevision,
    place: &NamespacedName,
) -> Result<Vec<&'static str>, PageError> {
    let stage = stage(revision);
    let possible = [
        (Operation::Propose, stage == Some(Lifecycle::Draft)),
        (Operation::Approve, stage == Some(Lifecycle::Proposed)),
    ];
    offered(context, place, possible).await
}

async fn offered(
    context: &Context,
    place: &NamespacedName,
    possible: [(Operation, bool); 2],
) -> Result<Vec<&'static str>, PageError> {
    let mut offered = Vec::new();
    if !context.site.allows_operations || context.visitor.token().is_none() {
        return Ok(offered);
    }
    for (operation, _) in possible.into_iter().filter(|(_, is_possible)| *is_possible) {
        if operation.is_allowed(context, place).await? {
            offered.push(operation.as_str());
        }
    }
    Ok(offered)
}

/// Reads the object of an operation, or returns an error if the operation is not possible.
async fn prepare(
    context: &Context,
    operation: Operation,
    place: &NamespacedName,
) -> Result<Subject, PageError> {
    if !context.site.allows_operations {
        let text = "The console is read-only: it was started without --allow-operations.";
        return Err(PageError::Denied(text.to_owned()));
    }
    if context.visitor.token().is_none() {
        let text =
            "Operations need your own token, but the proxy in front of the console does not pass it on.";
        return Err(PageError::Denied(text.to_owned()));
    }
    let (namespace, name) = (&*place.namespace, &*place.name);
    let subject = match operation {
        Operation::Reconcile | Operation::Interrupt => {
            context.demand::<Installation>(place).await?;
            let found = context.site.objects.get::<Installation>(namespace, name).await?;
            Subject::Installation(Box::new(found.ok_or_else(|| missing(Installation::KIND, place))?))
        }
        Operation::Propose | Operation::Approve => {
            context.demand::<PackageRevision>(place).await?;
            let found = context.site.objects.get::<PackageRevision>(namespace, name).await?;
            Subject::Revision(Box::new(found.ok_or_else(|| missing(PackageRevision::KIND, place))?))
        }
    };
    if !operation.is_allowed(context, place).await? {
        let user = &context.visitor.user.name;
        return Err(PageError::Denied(format!("User {user:?} may not {} {place}.", operation.as_str())));
    }
    operation.check(&subject)?;
    Ok(subject)
}

/// Returns the page of an operation that asks for confirmation, and the handler of its form.
pub(crate) fn routes(operation: Operation) -> MethodRouter<Arc<Site>> {
    get(move |context: Context, object: Object| confirm(context, object, operation)).post(
        move |context: Context, object: Object, form: Form<Confirmation>| {
            run(context, object, form, operation)
        },
    )
}

async fn confirm(context: Context, Object(place): Object, operation: Operation) -> Made {
    let version = match prepare(&context, operation, &place).await? {
        Subject::Installation(_) => None,
        // The form carries the version that the visitor has seen. If the revision changes before
        // the approval, the API server answers with a conflict.
        Subject::Revision(revision) => revision.resource_version(),
    };
    let Context { site, request, visitor, now } = context;
    let (back, action) = addresses(&place, operation);
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
        return Ok(answer::json(StatusCode::OK, frame::json(&page, &site.problems())));
    }
    let frame = Frame {
        user: Some(&visitor.user.name),
        can_sign_out: visitor.has_cookie,
        path: &page.back,
        ..Frame::default()
    };
    Ok(answer::with_secret(answer::html(StatusCode::OK, frame::html(&page, &frame, now))))
}

/// Carries out a confirmed operation.
async fn run(
    context: Context,
    Object(place): Object,
    Form(form): Form<Confirmation>,
    operation: Operation,
) -> Made {
    let (back, action) = addresses(&place, operation);
    if !context.visitor.has_form_key(&action, form.key.trim()) {
        let text = "The console did not create this form for you: open the page of the object again.";
        return Err(PageError::Denied(text.to_owned()));
    }
    // Checked again, because rights and state may have changed since the page was shown.
    let subject = prepare(&context, operation, &place).await?;
    perform(&context, operation, &subject, &place, form.version.trim()).await?;
    let user = &context.visitor.user.name;
    tracing::info!(user, operation = operation.as_str(), object = %place, "operation done for a visitor");
    Ok(answer::redirect(&back))
}

fn addresses(place: &NamespacedName, operation: Operation) -> (String, String) {
    let back = path(operation.section(), place);
    let action = format!("{back}/{}", operation.as_str());
    (back, action)
}

/// Writes the change with the visitor's own token.
async fn perform(
    context: &Context,
    operation: Operation,
    subject: &Subject,
    place: &NamespacedName,
    version: &str,
) -> Result<(), PageError> {
    let mut config = context.site.anonymous.clone();
    config.auth_info.token = context.visitor.token().map(|token| token.expose_secret().to_owned().into());
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
        Subject::Revision(revision) if operation == Operation::Approve => {
            let mut approved = revision.clone();
            approved.spec.lifecycle = Some(Lifecycle::Published.as_str().to_owned());
            approved.metadata.resource_version = Some(version.to_owned());
            let api = Api::<PackageRevision>::namespaced(client, namespace);
            let parameters = PostParams { field_manager: Some(MANAGER.to_owned()), ..PostParams::default() };
            // Update instead of patch, because approvers may have only the right to update.
            api.replace_subresource("approval", name, &parameters, &*approved).await.map(drop)
        }
        Subject::Revision(_) => {
            let metadata = json!({"resourceVersion": version});
            let patch = json!({"metadata": metadata, "spec": {"lifecycle": Lifecycle::Proposed.as_str()}});
            let api = Api::<PackageRevision>::namespaced(client, namespace);
            api.patch(name, &parameters, &Patch::Merge(patch)).await.map(drop)
        }
    };
    written.map_err(|error| refusal(&error, place))
}

/// Returns the reason of the API server's refusal. Only its kind is shown, because the server's
/// message may quote values of the object.
fn refusal(error: &kube::Error, place: &NamespacedName) -> PageError {
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
