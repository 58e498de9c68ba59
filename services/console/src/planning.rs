//! What a change would do: the renderer is asked the same that programs ask it, about objects that a visitor has typed.

use std::collections::BTreeSet;

use groundwork_api::rights::{MOST_PLANNED_NAMESPACES, PLAN_SOURCES, PLANS};
use groundwork_kubernetes::is_dns_subdomain;
use groundwork_plan::Plan;
use groundwork_proto::component::v1::Json;
use groundwork_proto::renderer::v1::PlanRequest;
use groundwork_yaml::{Content, Node, Options, parse_all};
use http::StatusCode;
use jiff::Timestamp;

use crate::answer::Answer;
use crate::console::{PageError, Site, called, from_elsewhere};
use crate::pages::plan::PlanPage;
use crate::request::{Form, Request};
use crate::visitor::Visitor;

/// The address of the page and of its form.
pub(crate) const ADDRESS: &str = "/plan";
/// Bytes of what is typed, as a form carries them: a byte may take three there.
pub(crate) const LARGEST_FORM: usize = 3 << 20;

/// The empty form; `namespace` may stand in the address.
pub(crate) fn form(site: &Site, request: &Request, visitor: &Visitor) -> Answer {
    let page = PlanPage {
        namespace: request.parameter("namespace").to_owned(),
        problem: None,
        plan: None,
        text: String::new(),
        key: visitor.form_key(ADDRESS),
    };
    site.show(request, visitor, &page, Timestamp::now()).with_secret()
}

/// Plans what was typed. What is wrong with it is told beside it, so that it can be mended.
pub(crate) async fn run(
    site: &Site,
    request: &Request,
    visitor: &Visitor,
    form: &Form,
) -> Result<Answer, PageError> {
    if !request.is_from_here() {
        return Err(from_elsewhere());
    }
    if !visitor.has_form_key(ADDRESS, form.field("key")) {
        let text = "The form is not one that was made for you here: open the page again.";
        return Err(PageError::Denied(text.to_owned()));
    }
    // Browsers send every line break as two characters.
    let text = form.text("objects").replace("\r\n", "\n");
    let mut page = PlanPage {
        namespace: form.field("namespace").to_owned(),
        problem: None,
        plan: None,
        text,
        key: visitor.form_key(ADDRESS),
    };
    match plan(site, visitor, &page.text, &page.namespace).await {
        Ok(plan) => page.plan = Some(plan),
        Err(PageError::Refused(problem)) => page.problem = Some(problem),
        Err(error) => return Err(error),
    }
    let status = if page.problem.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    Ok(site.show(request, visitor, &page, Timestamp::now()).with_status(status).with_secret())
}

async fn plan(site: &Site, visitor: &Visitor, text: &str, namespace: &str) -> Result<Plan, PageError> {
    let Some(renderer) = &site.renderer else {
        let text = "The console was not told where the renderer is (--renderer), which makes plans.";
        return Err(PageError::Refused(text.to_owned()));
    };
    let (typed, wanted) = (text.to_owned(), namespace.to_owned());
    // A megabyte takes a while to read, and others wait for their pages.
    let read = tokio::task::spawn_blocking(move || Typed::read(&typed, &wanted)).await;
    let typed = read.map_err(|_| PageError::Refused("What was typed cannot be read.".to_owned()))??;
    for namespace in &typed.namespaces {
        demand(site, visitor, namespace).await?;
    }
    let objects = typed.objects.iter().map(|object| Json { text: object.text.clone() }).collect();
    let asked = PlanRequest { objects, namespace: namespace.to_owned() };
    let answer = renderer.clone().plan(asked).await;
    let answer = answer.map_err(|status| match called("renderer", &status) {
        PageError::Refused(problem) => PageError::Refused(typed.located(problem)),
        error => error,
    })?;
    let text = answer.into_inner().plan.unwrap_or_default().text;
    serde_json::from_str(&text).map_err(|error| {
        tracing::warn!(%error, "the renderer has answered a plan that cannot be read");
        PageError::Unavailable(
            "The plan of the renderer cannot be read: it is of another version.".to_owned(),
        )
    })
}

/// The renderer answers the console, so that the console asks for whom.
async fn demand(site: &Site, visitor: &Visitor, namespace: &str) -> Result<(), PageError> {
    let may = |verb, kind| site.rights.may(&visitor.user, verb, kind, Some(namespace), None);
    if may("create", PLANS).await? {
        return Ok(());
    }
    let update = ("update", PLAN_SOURCES[0]);
    for (verb, kind) in PLAN_SOURCES.map(|kind| ("get", kind)).into_iter().chain([update]) {
        if !may(verb, kind).await? {
            let (group, resource) = kind;
            let dot = if group.is_empty() { "" } else { "." };
            return Err(PageError::Denied(format!(
                "User {:?} may not {verb} {resource}{dot}{group} in namespace {namespace:?}. A plan takes the right to get all that it \
                 is made from, and to update Installations.",
                visitor.user.name
            )));
        }
    }
    Ok(())
}

/// What was typed, taken apart.
#[derive(Debug, PartialEq)]
struct Typed {
    objects: Vec<TypedObject>,
    namespaces: BTreeSet<String>,
}

#[derive(Debug, PartialEq)]
struct TypedObject {
    /// As JSON.
    text: String,
    kind: String,
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
        let mut typed = Self { objects: Vec::new(), namespaces: BTreeSet::new() };
        for document in documents {
            typed.add(document, namespace).map_err(refused)?;
        }
        if typed.objects.is_empty() {
            return Err(refused("There is no object to plan.".to_owned()));
        }
        let namespaces = typed.namespaces.len();
        if namespaces > MOST_PLANNED_NAMESPACES {
            return Err(refused(format!(
                "The objects are in {namespaces} namespaces, a plan is about {MOST_PLANNED_NAMESPACES} at most."
            )));
        }
        Ok(typed)
    }

    /// A `List` stands for its items.
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
                "" => format!("Line {line}: {kind} {name} names no namespace, and none is given for it."),
                _ => format!("Line {line}: {namespace:?} is no name that a namespace can have."),
            });
        }
        self.namespaces.insert(namespace.to_owned());
        self.objects.push(TypedObject { text: node.into_value().to_string(), kind, name, line });
        Ok(())
    }

    /// A problem of the renderer, which counts objects, with the line where the object stands.
    fn located(&self, problem: String) -> String {
        let place = problem.strip_prefix("Objects[").and_then(|rest| rest.split_once(']'));
        let object =
            place.and_then(|(index, rest)| Some((self.objects.get(index.parse::<usize>().ok()?)?, rest)));
        match object {
            Some((object, rest)) => format!("Line {}: {} {}{rest}", object.line, object.kind, object.name),
            None => problem,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata: {name: a}\n---\n---\n\
                       apiVersion: v1\nkind: Secret\nmetadata: {name: b, namespace: other}\n";

    #[test]
    fn what_is_typed_is_taken_apart() {
        let typed = Typed::read(TWO, "team").unwrap();
        assert_eq!(typed.namespaces, ["other".to_owned(), "team".to_owned()].into());
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
        let located = typed.located("Objects[1]: its kind must be another one.".to_owned());
        assert_eq!(located, "Line 9: Secret b: its kind must be another one.");
        for other in ["Objects[7]: x", "Objects[x]: y", "Something else."] {
            assert_eq!(typed.located(other.to_owned()), other);
        }
    }

    #[test]
    fn what_cannot_be_read_is_told_with_its_line() {
        for (text, namespace, told) in [
            ("", "team", "There is no object to plan."),
            ("---\n---\n", "team", "There is no object to plan."),
            ("a: b\nc: [", "team", "Line "),
            (
                "\njust a text",
                "team",
                "Line 2: a Kubernetes object is expected here, with apiVersion and kind.",
            ),
            (
                "kind: Secret\nmetadata: {name: b}",
                "",
                "Line 1: Secret b names no namespace, and none is given for it.",
            ),
            (
                "kind: Secret\nmetadata: {name: b}",
                "../x",
                "Line 1: \"../x\" is no name that a namespace can have.",
            ),
        ] {
            let problem = Typed::read(text, namespace).unwrap_err().to_string();
            assert!(problem.starts_with(told), "{problem}");
        }
        let many =
            (0..21).map(|number| format!("kind: Secret\nmetadata: {{name: b, namespace: n{number}}}\n---\n"));
        let problem = Typed::read(&many.collect::<String>(), "").unwrap_err().to_string();
        assert_eq!(problem, "The objects are in 21 namespaces, a plan is about 20 at most.");
    }
}
