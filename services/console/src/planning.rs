//! Plans changes for the plan page. The variant service plans PackageVariantSets and the renderer
//! plans all other objects, with the same calls that `groundwork plan` makes.

use std::borrow::Borrow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::response::Response;
use axum::routing::{MethodRouter, get};
use groundwork_api::kubernetes::is_dns_subdomain;
use groundwork_api::rights::{MOST_PLANNED_NAMESPACES, PLAN_SOURCES, PLANS};
use groundwork_api::{Kind as _, PackageVariantSet};
use groundwork_fleet::Preview;
use groundwork_grpc::User;
use groundwork_plan::Plan;
use groundwork_proto::component::v1::Json;
use groundwork_proto::renderer::v1::PlanRequest;
use groundwork_proto::variant::v1::{Asker, PreviewRequest, Values};
use groundwork_yaml::{Content, Node, Options, parse_all};
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::answer;
use crate::console::{Made, PageError, Site, called};
use crate::context::Context;
use crate::pages::plan::PlanPage;
use crate::request::{Form, Parameters};

/// Address of the page and of its form.
pub(crate) const ADDRESS: &str = "/plan";
/// Size limit of a submitted form in bytes. One byte of text may take three in the form's encoding.
const LARGEST_FORM: usize = 3 << 20;

/// Query of the address.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PlanQuery {
    namespace: String,
}

/// Fields of the form.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PlanForm {
    key: String,
    namespace: String,
    objects: String,
}

/// Returns the page and the handler of its form.
pub(crate) fn routes() -> MethodRouter<Arc<Site>> {
    get(form).post(run).layer(DefaultBodyLimit::max(LARGEST_FORM))
}

/// Shows the empty form. The address may preset the namespace.
async fn form(context: Context, Parameters(query): Parameters<PlanQuery>) -> Response {
    let page = PlanPage {
        namespace: query.namespace,
        problem: None,
        planned: Planned::default(),
        text: String::new(),
        key: context.visitor.form_key(ADDRESS),
    };
    answer::with_secret(context.show(&page))
}

/// Plans the typed objects. An error in them is shown beside the text, so that the visitor can
/// correct it.
async fn run(context: Context, Form(form): Form<PlanForm>) -> Made {
    if !context.visitor.has_form_key(ADDRESS, form.key.trim()) {
        let text = "The console did not create this form for you: open the page again.";
        return Err(PageError::Denied(text.to_owned()));
    }
    let mut page = PlanPage {
        namespace: form.namespace.trim().to_owned(),
        problem: None,
        planned: Planned::default(),
        // Browsers send line breaks as CRLF, which the YAML parser's line numbers and texts must
        // not see.
        text: form.objects.replace("\r\n", "\n"),
        key: context.visitor.form_key(ADDRESS),
    };
    match plan(&context, &page.text, &page.namespace).await {
        Ok(planned) => page.planned = planned,
        Err(PageError::Refused(problem)) => page.problem = Some(problem),
        Err(error) => return Err(error),
    }
    let mut response = answer::with_secret(context.show(&page));
    if page.problem.is_some() {
        *response.status_mut() = StatusCode::BAD_REQUEST;
    }
    Ok(response)
}

/// Plans of the renderer and of the variant service.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Planned {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) plan: Option<Plan>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) variants: Option<Preview>,
}

async fn plan(context: &Context, text: &str, namespace: &str) -> Result<Planned, PageError> {
    let (typed, wanted) = (text.to_owned(), namespace.to_owned());
    // Parsing a megabyte takes long enough to delay the other pages of this thread.
    let read = tokio::task::spawn_blocking(move || Typed::read(&typed, &wanted)).await;
    let typed = read.map_err(|_| PageError::Refused("The input cannot be read.".to_owned()))??;
    let (sets, objects): (Vec<_>, Vec<_>) = typed.objects.into_iter().partition(TypedObject::is_set);
    let plan = match objects.as_slice() {
        [] => None,
        objects => Some(plan_objects(context, objects, namespace).await?),
    };
    let variants = match sets.as_slice() {
        [] => None,
        sets => Some(preview_sets(context, sets).await?),
    };
    Ok(Planned { plan, variants })
}

async fn plan_objects(
    context: &Context,
    objects: &[TypedObject],
    namespace: &str,
) -> Result<Plan, PageError> {
    let Some(renderer) = &context.site.renderer else {
        let text = "Plans are not available: start the console with --renderer, the address of the service that makes \
                    them.";
        return Err(PageError::Refused(text.to_owned()));
    };
    for namespace in objects.iter().map(|object| &object.namespace).collect::<BTreeSet<_>>() {
        demand(context, namespace).await?;
    }
    let asked = PlanRequest { objects: objects.iter().map(json).collect(), namespace: namespace.to_owned() };
    let answer = renderer.clone().plan(asked).await;
    let answer = answer.map_err(|status| located(called("renderer", &status), "Objects", objects))?;
    read(&answer.into_inner().plan.unwrap_or_default(), "renderer")
}

/// Asks for the plan of sets, one call for each namespace. The variant service checks the rights of
/// the visitor, because it alone knows which objects the sets select.
async fn preview_sets(context: &Context, sets: &[TypedObject]) -> Result<Preview, PageError> {
    let Some(variant) = &context.site.variant else {
        let text = "Plans of PackageVariantSets are not available: start the console with --variant, the address of \
                    the service that makes them.";
        return Err(PageError::Refused(text.to_owned()));
    };
    let mut namespaces: BTreeMap<&str, Vec<&TypedObject>> = BTreeMap::new();
    for set in sets {
        namespaces.entry(&set.namespace).or_default().push(set);
    }
    let mut previews = Vec::new();
    for (namespace, sets) in namespaces {
        let asked = PreviewRequest {
            namespace: namespace.to_owned(),
            sets: sets.iter().copied().map(json).collect(),
            asker: Some(asker(&context.visitor.user)),
        };
        let answer = variant.clone().preview(asked).await;
        let answer = answer.map_err(|status| located(called("variant service", &status), "Sets", &sets))?;
        let preview: Preview = read(&answer.into_inner().plan.unwrap_or_default(), "variant service")?;
        previews.extend(preview.sets);
    }
    Ok(Preview::new(previews))
}

fn asker(user: &User) -> Asker {
    let info = user.info();
    let extra = info.extra.iter().flatten();
    Asker {
        username: user.name.clone(),
        uid: info.uid.clone().unwrap_or_default(),
        groups: info.groups.clone().unwrap_or_default(),
        extra: extra.map(|(key, values)| (key.clone(), Values { values: values.clone() })).collect(),
    }
}

fn json(object: &TypedObject) -> Json {
    Json { text: object.text.clone() }
}

fn read<T: DeserializeOwned>(answer: &Json, service: &str) -> Result<T, PageError> {
    serde_json::from_str(&answer.text).map_err(|error| {
        tracing::warn!(%error, service, "a plan cannot be read");
        PageError::Unavailable(format!("The plan of the {service} cannot be read: it is of another version."))
    })
}

/// Checks the visitor's right to plan. The renderer sees only the console's token, so the console
/// must ask on behalf of the visitor.
async fn demand(context: &Context, namespace: &str) -> Result<(), PageError> {
    let may = |verb, kind| context.may(verb, kind, namespace, None);
    if may("create", PLANS).await? {
        return Ok(());
    }
    let update = ("update", PLAN_SOURCES[0]);
    for (verb, kind) in PLAN_SOURCES.map(|kind| ("get", kind)).into_iter().chain([update]) {
        if !may(verb, kind).await? {
            let (group, resource) = kind;
            let dot = if group.is_empty() { "" } else { "." };
            return Err(PageError::Denied(format!(
                "User {:?} may not {verb} {resource}{dot}{group} in namespace {namespace:?}. A plan needs permission \
                 to get all objects that it uses, and to update Installations.",
                context.visitor.user.name
            )));
        }
    }
    Ok(())
}

/// The typed objects, parsed.
#[derive(Debug, PartialEq)]
struct Typed {
    objects: Vec<TypedObject>,
}

#[derive(Debug, PartialEq)]
struct TypedObject {
    /// The object as JSON.
    text: String,
    api_version: String,
    kind: String,
    namespace: String,
    name: String,
    line: usize,
}

impl Typed {
    fn read(text: &str, namespace: &str) -> Result<Self, PageError> {
        let refused = |problem: String| PageError::Refused(problem);
        let options = Options { unique_keys: true, ..Options::default() };
        let documents = parse_all(text, options).map_err(|error| {
            refused(format!("Line {}: malformed YAML: {}.", error.position().line, error.message()))
        })?;
        let mut typed = Self { objects: Vec::new() };
        for document in documents {
            typed.add(document, namespace).map_err(refused)?;
        }
        if typed.objects.is_empty() {
            return Err(refused("The input contains no object to plan.".to_owned()));
        }
        let namespaces = typed.namespaces().len();
        if namespaces > MOST_PLANNED_NAMESPACES {
            return Err(refused(format!(
                "The objects are in {namespaces} namespaces, but a plan can have at most {MOST_PLANNED_NAMESPACES}."
            )));
        }
        Ok(typed)
    }

    /// Adds an object. A `List` adds its items.
    fn add(&mut self, node: Node, namespace: &str) -> Result<(), String> {
        if node.is_null() {
            return Ok(());
        }
        let line = node.position.line;
        let text = |member: Option<&Node>| member.and_then(Node::as_str).unwrap_or_default().to_owned();
        let (kind, metadata) = (text(node.get("kind")), node.get("metadata"));
        if kind.is_empty() {
            return Err(format!(
                "Line {line}: a Kubernetes object is expected here, with apiVersion and kind."
            ));
        }
        if kind == "List" && text(node.get("apiVersion")) == "v1" {
            let items = node.get("items").map(|items| items.content.clone());
            let Some(Content::Sequence(items)) = items else { return Ok(()) };
            return items.into_iter().try_for_each(|item| self.add(item, namespace));
        }
        let member = |name: &str| text(metadata.and_then(|metadata| metadata.get(name)));
        let (name, written) = (member("name"), member("namespace"));
        let namespace = if written.is_empty() { namespace } else { &written };
        if !is_dns_subdomain(namespace) {
            return Err(match namespace {
                "" => {
                    format!("Line {line}: {kind} {name} has no namespace, and no default namespace is given.")
                }
                _ => format!("Line {line}: {namespace:?} is not a valid namespace name."),
            });
        }
        let (api_version, namespace) = (text(node.get("apiVersion")), namespace.to_owned());
        let text = node.into_value().to_string();
        self.objects.push(TypedObject { text, api_version, kind, namespace, name, line });
        Ok(())
    }

    fn namespaces(&self) -> BTreeSet<&str> {
        self.objects.iter().map(|object| object.namespace.as_str()).collect()
    }
}

impl TypedObject {
    fn is_set(&self) -> bool {
        self.kind == PackageVariantSet::KIND
            && self.api_version.split('/').next() == Some(PackageVariantSet::GROUP)
    }
}

/// Replaces the index of an object in a service's error by the line at which the object was typed.
fn located(error: PageError, list: &str, objects: &[impl Borrow<TypedObject>]) -> PageError {
    let PageError::Refused(problem) = error else { return error };
    let place = problem.strip_prefix(list).and_then(|rest| rest.strip_prefix('[')?.split_once(']'));
    let object = place.and_then(|(index, rest)| Some((objects.get(index.parse::<usize>().ok()?)?, rest)));
    PageError::Refused(match object {
        Some((object, rest)) => {
            let TypedObject { line, kind, name, .. } = object.borrow();
            format!("Line {line}: {kind} {name}{rest}")
        }
        None => problem,
    })
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::authentication::v1::UserInfo;

    use super::*;

    const TWO: &str = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n---\n---\n\
                       apiVersion: v1\nkind: Secret\nmetadata: {name: b, namespace: other}\n";

    #[test]
    fn what_is_typed_is_taken_apart() {
        let typed = Typed::read(TWO, "team").unwrap();
        assert_eq!(typed.namespaces(), ["other", "team"].into());
        let told: Vec<_> = typed
            .objects
            .iter()
            .map(|object| format!("{} {} {}", object.line, object.kind, object.name))
            .collect();
        assert_eq!(told, ["4 ConfigMap a", "9 Secret b"]);
        assert_eq!(
            typed.objects[0].text,
            r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}"#
        );
        let refused = |problem: &str| PageError::Refused(problem.to_owned());
        let told = located(refused("Objects[1]: its kind must be another one."), "Objects", &typed.objects);
        assert_eq!(told, refused("Line 9: Secret b: its kind must be another one."));
        for other in ["Objects[7]: x", "Objects[x]: y", "Something else.", "Sets[1]: z"] {
            assert_eq!(located(refused(other), "Objects", &typed.objects), refused(other));
        }
    }

    /// Only Porch's PackageVariantSets go to the variant service. A set of another API group goes
    /// to the renderer, which refuses it.
    #[test]
    fn sets_are_told_apart() {
        let text = "apiVersion: config.porch.kpt.dev/v1alpha2\nkind: PackageVariantSet\nmetadata: {name: a}\n---\n\
                    apiVersion: example.org/v1\nkind: PackageVariantSet\nmetadata: {name: b}\n";
        let typed = Typed::read(text, "team").unwrap();
        let sets: Vec<_> = typed.objects.iter().map(TypedObject::is_set).collect();
        assert_eq!(sets, [true, false]);
    }

    /// All attributes of the visitor are passed on: an authorizer may deny a right because of any
    /// of them.
    #[test]
    fn visitors_are_asked_for_as_they_are() {
        let info = UserInfo {
            username: Some("ann".to_owned()),
            uid: Some("7".to_owned()),
            groups: Some(vec!["devs".to_owned()]),
            extra: Some([("scopes".to_owned(), vec!["read".to_owned()])].into()),
        };
        let asker = asker(&User::of(info));
        assert_eq!((asker.username.as_str(), asker.uid.as_str()), ("ann", "7"));
        assert_eq!(
            (asker.groups, &asker.extra["scopes"].values),
            (vec!["devs".to_owned()], &vec!["read".to_owned()])
        );
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        for (text, namespace, told) in [
            ("", "team", "The input contains no object to plan."),
            ("---\n---\n", "team", "The input contains no object to plan."),
            ("a: b\nc: [", "team", "Line "),
            (
                "\njust a text",
                "team",
                "Line 2: a Kubernetes object is expected here, with apiVersion and kind.",
            ),
            (
                "kind: Secret\nmetadata: {name: b}",
                "",
                "Line 1: Secret b has no namespace, and no default namespace is given.",
            ),
            ("kind: Secret\nmetadata: {name: b}", "../x", "Line 1: \"../x\" is not a valid namespace name."),
        ] {
            let problem = Typed::read(text, namespace).unwrap_err().to_string();
            assert!(problem.starts_with(told), "{problem}");
        }
        let many =
            (0..21).map(|number| format!("kind: Secret\nmetadata: {{name: b, namespace: n{number}}}\n---\n"));
        let problem = Typed::read(&many.collect::<String>(), "").unwrap_err().to_string();
        assert_eq!(problem, "The objects are in 21 namespaces, but a plan can have at most 20.");
    }
}
