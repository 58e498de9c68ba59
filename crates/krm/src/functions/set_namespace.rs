//! `set-namespace` (`packagevariants.md` 8.5).

use std::collections::{BTreeMap, BTreeSet};

use groundwork_yaml::tree::{Node, Pair};

use super::config::{FieldSpec, only_known, only_known_data};
use super::fields::visit_scalars;
use super::meter::Meter;
use super::scope::is_namespaced;
use super::{group, id, is_local_config, text, type_of};
use crate::identity::UPSTREAM_IDENTIFIER;
use crate::render::{Item, ResourceList, Severity};

const EXPECTED: &str = "`ConfigMap.v1` or `SetNamespace.v1alpha1.fn.kpt.dev`";
/// Key of the config that also adds the Namespace object. An extension of Groundwork
/// (`packagevariants.md` 12.5).
const CREATE: &str = "create";
/// Field of the config with further fields that contain a namespace, as versions up to v0.2 have
/// it.
const FURTHER: &str = "additionalNamespaceFields";
const DEPENDS_ON: &str = "config.kubernetes.io/depends-on";

/// Config of the function.
struct Config {
    namespace: String,
    /// Namespace to replace; `None` replaces every one.
    matcher: Option<String>,
    further: Vec<FieldSpec>,
}

/// Requested namespace, and the values replaced so far.
struct Change<'a> {
    namespace: &'a str,
    matcher: Option<&'a str>,
    /// Replaced values, and their number.
    old: BTreeSet<String>,
    count: usize,
    meter: &'a Meter,
}

/// Upstream namespace and name of an object.
struct Origin {
    namespace: String,
    name: String,
}

/// Namespaces of the objects before any change, for `depends-on`.
type Known = BTreeMap<[String; 4], Option<String>>;

pub(super) fn run(list: &mut ResourceList) -> Result<(), String> {
    // Take the meter out of the list, since the list is borrowed mutably meanwhile.
    let meter = std::mem::take(&mut list.meter);
    let result = set(list, &meter);
    list.meter = meter;
    result
}

fn set(list: &mut ResourceList, meter: &Meter) -> Result<(), String> {
    let Config { namespace, matcher, further } = config(list.config.as_ref())?;
    let creates = list.config.as_ref().is_some_and(|config| text(config, &["data", CREATE]) == "true");
    warn_of_missing_origins(list);
    let known = known(list);
    let matcher = matcher.as_deref();
    let mut fields = Change { namespace: &namespace, matcher, old: BTreeSet::new(), count: 0, meter };
    let mut references = Change { namespace: &namespace, matcher, old: BTreeSet::new(), count: 0, meter };
    let mut matching = Vec::new();
    for item in list.items.iter_mut().filter(|item| !is_local_config(&item.root)) {
        let origin = origin(&item.root);
        if origin.as_ref().is_some_and(|origin| matcher == Some(&origin.namespace)) {
            matching.push((
                item.reference(),
                format!("[{}] has matching origin {}", id(&item.root), matcher.unwrap_or_default()),
            ));
        }
        set_fields(&mut item.root, origin.as_ref(), &mut fields);
        let namespace = origin.as_ref().map(|origin| origin.namespace.as_str());
        for field in further.iter().filter(|field| field.selects(&item.root)).collect::<Vec<_>>() {
            // A matcher compares with a present value, so it never creates a field.
            let create = field.create && matcher.is_none();
            visit_scalars(&mut item.root, &field.path, create, &mut |node| {
                fields.set(Some(node), namespace);
            })?;
        }
        set_depends_on(&mut item.root, &known, &mut references);
    }
    for (resource, message) in matching {
        list.info_of(resource, message);
    }
    let shown = |change: &Change| change.old.iter().cloned().collect::<Vec<_>>().join(" ");
    list.info(match fields.count {
        0 => format!("all matching namespaces are already \"{namespace}\". no value changed"),
        count => {
            format!("namespace [{}] updated to \"{namespace}\", {count} value(s) changed", shown(&fields))
        }
    });
    list.info(match references.count {
        0 => "all `depends-on` annotations are up-to-date. no `namespace` changed".to_owned(),
        count => format!(
            "`depends-on` annotation namespace [{}] updated to \"{namespace}\", {count} value(s) changed",
            shown(&references)
        ),
    });
    if creates {
        create(list, &namespace);
    }
    Ok(())
}

/// Adds the Namespace if it is missing (`packagevariants.md` 12.5).
fn create(list: &mut ResourceList, namespace: &str) {
    let is_there = list.items.iter().any(|item| {
        type_of(&item.root) == ("Namespace", "v1") && text(&item.root, &["metadata", "name"]) == namespace
    });
    if is_there {
        return;
    }
    if list.is_selection {
        // With a selection, the Namespace may be among the items left out, and each rendering would
        // then add another one.
        return list.info(format!(
            "namespace \"{namespace}\" not created: the function receives only selected resources"
        ));
    }
    let is_used = |path: &str| {
        list.items.iter().any(|item| item.package == list.package && item.path.as_deref() == Some(path))
    };
    let numbered = (2..).map(|number| format!("namespace-{number}.yaml"));
    let path = std::iter::once("namespace.yaml".to_owned()).chain(numbered).find(|path| !is_used(path));
    let metadata = Node::mapping(vec![Pair::new("name", Node::string(namespace))]);
    let pairs = vec![
        Pair::new("apiVersion", Node::string("v1")),
        Pair::new("kind", Node::string("Namespace")),
        Pair::new("metadata", metadata),
    ];
    list.items.push(Item::new(Node::mapping(pairs), path));
    list.info(format!("namespace \"{namespace}\" created"));
}

fn config(config: Option<&Node>) -> Result<Config, String> {
    let Some(config) = config else { return Err(format!("FunctionConfig is missing. Expect {EXPECTED}")) };
    let given = |path: &[&str]| Some(text(config, path).to_owned()).filter(|text| !text.is_empty());
    match type_of(config) {
        ("ConfigMap", "v1") => {
            let is_context = text(config, &["metadata", "name"]) == "kptfile.kpt.dev";
            let namespace = given(&["data", "namespace"])
                .or_else(|| given(&["data", "name"]).filter(|_| is_context))
                .ok_or("`data.namespace` should not be empty")?;
            only_known_data(config, &["namespace", "namespaceMatcher", CREATE])?;
            Ok(Config { namespace, matcher: given(&["data", "namespaceMatcher"]), further: Vec::new() })
        }
        ("SetNamespace" | "SetNamespaceConfig", "fn.kpt.dev/v1alpha1") => {
            let namespace = given(&["namespace"]).ok_or("`namespace` should not be empty")?;
            only_known(config, &["namespace", "namespaceMatcher"], Some(FURTHER))?;
            let further = FieldSpec::list(config, FURTHER)?;
            Ok(Config { namespace, matcher: given(&["namespaceMatcher"]), further })
        }
        (kind, api_version) => {
            Err(format!("unknown functionConfig Kind={kind} ApiVersion={api_version}, expect {EXPECTED}"))
        }
    }
}

fn origin(root: &Node) -> Option<Origin> {
    let identifier = text(root, &["metadata", "annotations", UPSTREAM_IDENTIFIER]);
    let mut parts = identifier.split('|').skip(2);
    Some(Origin { namespace: parts.next()?.to_owned(), name: parts.next()?.to_owned() })
}

/// Reports whether the object is namespaced.
fn has_namespace(root: &Node) -> bool {
    let is_set = || root.at(&["metadata", "namespace"]).is_some_and(|node| !node.is_null());
    is_namespaced(group(root), text(root, &["kind"])).unwrap_or_else(is_set)
}

fn namespace_of(root: &Node) -> &str {
    let namespace = text(root, &["metadata", "namespace"]);
    if namespace.is_empty() { "default" } else { namespace }
}

/// Warns of objects without an upstream identifier. Objects of several origins are not an error:
/// people add objects of their own to a package, and Porch's server does not compare origins
/// either.
fn warn_of_missing_origins(list: &mut ResourceList) {
    let local = |item: &&Item| !is_local_config(&item.root) && origin(&item.root).is_none();
    let without = list.items.iter().filter(local);
    let without: Vec<_> = without
        .map(|item| (item.reference(), format!("{} does not have upstream origin.", id(&item.root))))
        .collect();
    for (resource, message) in without {
        list.info_of(resource, message);
        if let Some(last) = list.results.last_mut() {
            last.severity = Some(Severity::Warning.as_str().to_owned());
        }
    }
}

impl Change<'_> {
    /// Reports whether a value is to be replaced.
    fn concerns(&self, value: &str, origin: Option<&str>) -> bool {
        self.matcher.is_none_or(|matcher| matcher == value || origin == Some(matcher))
            && value != self.namespace
            && self.meter.bytes(self.namespace.len() + value.len())
    }

    fn note(&mut self, old: &str) {
        self.old.insert(old.to_owned());
        self.count += 1;
    }

    /// Replaces the namespace in a node, if the node exists and its value is to be replaced.
    fn set(&mut self, node: Option<&mut Node>, origin: Option<&str>) {
        let Some(node) = node else { return };
        let Some(old) = node.text().map(str::to_owned) else { return };
        let old = if node.is_null() { String::new() } else { old };
        if self.concerns(&old, origin) {
            node.set_text(self.namespace);
            self.note(&old);
        }
    }
}

fn descend<'a>(root: &'a mut Node, path: &[&str]) -> Option<&'a mut Node> {
    path.iter().try_fold(root, |node, key| node.get_mut(key))
}

fn set_fields(root: &mut Node, origin: Option<&Origin>, change: &mut Change<'_>) {
    let namespace = origin.map(|origin| origin.namespace.as_str());
    if has_namespace(root) {
        set_own(root, namespace, change);
    }
    let (kind, group) = (text(root, &["kind"]).to_owned(), group(root).to_owned());
    match (kind.as_str(), group.as_str()) {
        ("Namespace", "") => {
            change.set(descend(root, &["metadata", "name"]), origin.map(|origin| origin.name.as_str()));
        }
        ("RoleBinding" | "ClusterRoleBinding", "rbac.authorization.k8s.io") => {
            let subjects = root.get_mut("subjects").and_then(Node::as_sequence_mut);
            for subject in subjects.into_iter().flat_map(|list| &mut list.items) {
                change.set(subject.get_mut("namespace"), namespace);
            }
        }
        ("CustomResourceDefinition", "apiextensions.k8s.io") => {
            let path = ["spec", "conversion", "webhook", "clientConfig", "service", "namespace"];
            change.set(descend(root, &path), namespace);
        }
        ("APIService", "apiregistration.k8s.io") => {
            change.set(descend(root, &["spec", "service", "namespace"]), namespace);
        }
        _ => {}
    }
}

/// Sets the namespace of an object; a missing one is added after the name.
fn set_own(root: &mut Node, origin: Option<&str>, change: &mut Change<'_>) {
    let old = namespace_of(root).to_owned();
    if !change.concerns(&old, origin) {
        return;
    }
    let Some(metadata) = root.get_mut("metadata").and_then(Node::as_mapping_mut) else { return };
    match metadata.get_mut("namespace") {
        Some(node) => node.set_text(change.namespace),
        None => {
            let name = metadata.pairs.iter().position(|pair| pair.name() == "name");
            let at = name.map_or(metadata.pairs.len(), |at| at + 1);
            metadata.pairs.insert(at, Pair::new("namespace", Node::string(change.namespace)));
        }
    }
    change.note(&old);
}

fn known(list: &ResourceList) -> Known {
    let items = list.items.iter().map(|item| {
        let root = &item.root;
        let key = [group(root), namespace_of(root), text(root, &["kind"]), text(root, &["metadata", "name"])];
        (key.map(str::to_owned), origin(root).map(|origin| origin.namespace))
    });
    items.collect()
}

fn set_depends_on(root: &mut Node, known: &Known, change: &mut Change<'_>) {
    let Some(node) = descend(root, &["metadata", "annotations", DEPENDS_ON]) else { return };
    let value = node.text().unwrap_or_default().to_owned();
    let parts: Vec<&str> = value.split('/').collect();
    let [group, "namespaces", namespace, kind, name] = parts.as_slice() else { return };
    let key = [*group, namespace, kind, name].map(str::to_owned);
    let Some(origin) = known.get(&key) else { return };
    if change.concerns(namespace, origin.as_deref()) {
        node.set_text(&format!("{group}/namespaces/{}/{kind}/{name}", change.namespace));
        change.note(namespace);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, config, said};

    const CM: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n";

    /// Fields, without a matcher (`packagevariants.md` 8.5).
    #[test]
    fn fields() {
        let to = config(&[("namespace", "new")]);
        check("set-namespace", &to, CM, &format!("{CM}  namespace: new\n"));
        check(
            "set-namespace",
            &to,
            &format!("{CM}  namespace: old # why\n"),
            &format!("{CM}  namespace: new # why\n"),
        );
        let namespace = |name: &str| format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n");
        check("set-namespace", &to, &namespace("old"), &namespace("new"));
        let rbac = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ";
        let binding = |namespace: &str| {
            format!(
                "{rbac}ClusterRoleBinding\nmetadata: {{name: a}}\nsubjects:\n- {{kind: ServiceAccount, namespace: {namespace}}}\n- kind: User\n"
            )
        };
        check("set-namespace", &to, &binding("old"), &binding("new"));
        let binding = |namespace: &str| {
            format!(
                "{rbac}RoleBinding\nmetadata: {{name: a, namespace: {namespace}}}\nsubjects: [{{namespace: {namespace}}}]\n"
            )
        };
        check("set-namespace", &to, &binding("old"), &binding("new"));
        let crd = |namespace: &str| {
            format!(
                "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: a}}\nspec:\n  conversion:\n    \
                 webhook: {{clientConfig: {{service: {{namespace: {namespace}}}}}}}\n"
            )
        };
        check("set-namespace", &to, &crd("old"), &crd("new"));
        let service = |spec: &str| {
            format!(
                "apiVersion: apiregistration.k8s.io/v1\nkind: APIService\nmetadata: {{name: a}}\nspec: {spec}\n"
            )
        };
        check(
            "set-namespace",
            &to,
            &service("{service: {namespace: x}}"),
            &service("{service: {namespace: new}}"),
        );
        check("set-namespace", &to, &service("{group: x}"), &service("{group: x}"));
        let own =
            |metadata: &str| format!("apiVersion: a.example/v1\nkind: A\nmetadata: {{name: a{metadata}}}\n");
        check("set-namespace", &to, &own(""), &own(""));
        check("set-namespace", &to, &own(", namespace: x"), &own(", namespace: new"));
        check("set-namespace", &to, &own(", namespace: ''"), &own(", namespace: 'new'"));
        let local = format!("{CM}  annotations: {{config.kubernetes.io/local-config: \"true\"}}\n");
        check("set-namespace", &to, &local, &local);
    }

    /// With a matcher: values and origins (`packagevariants.md` 8.5).
    #[test]
    fn matchers() {
        let to = config(&[("namespace", "new"), ("namespaceMatcher", "old")]);
        let object = |name: &str, namespace: &str, origin: &str| {
            format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n  namespace: {namespace}\n  annotations:\n    \
                 internal.kpt.dev/upstream-identifier: '|ConfigMap|{origin}|{name}'\n"
            )
        };
        let all = |objects: [(&str, &str, &str); 3]| objects.map(|(a, b, c)| object(a, b, c)).join("---\n");
        check(
            "set-namespace",
            &to,
            &all([("a", "old", "x"), ("b", "y", "old"), ("c", "z", "x")]),
            &all([("a", "new", "x"), ("b", "new", "old"), ("c", "z", "x")]),
        );
        // A Namespace is matched by its upstream name.
        let namespace = |name: &str, origin: &str| {
            let identifier =
                format!("{{internal.kpt.dev/upstream-identifier: '|Namespace|default|{origin}'}}");
            format!(
                "apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, annotations: {identifier}}}\n"
            )
        };
        check("set-namespace", &to, &namespace("x", "old"), &namespace("new", "old"));
        check("set-namespace", &to, &namespace("x", "y"), &namespace("x", "y"));
        assert_eq!(
            said("set-namespace", &to, &object("b", "y", "old")),
            [
                "info [Resource(apiVersion=v1, kind=ConfigMap, namespace=y, name=b)] has matching origin old",
                "info namespace [y] updated to \"new\", 1 value(s) changed",
                "info all `depends-on` annotations are up-to-date. no `namespace` changed",
            ]
        );
        // People add objects of their own, which have another origin.
        let two = |namespaces: [&str; 2]| {
            let [a, b] = namespaces;
            format!("{}---\n{}", object("a", a, "a"), object("b", b, "~C"))
        };
        check("set-namespace", &config(&[("namespace", "new")]), &two(["a", "b"]), &two(["new", "new"]));
    }

    /// `depends-on` with objects of the package (`packagevariants.md` 8.5).
    #[test]
    fn depends_on() {
        let to = config(&[("namespace", "new")]);
        let objects = |a: &str, b: &str| {
            format!(
                "{CM}  namespace: {a}\n---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: b\n  namespace: {a}\n  annotations:\n    \
                 config.kubernetes.io/depends-on: /namespaces/{b}/ConfigMap/a\n"
            )
        };
        check("set-namespace", &to, &objects("old", "old"), &objects("new", "new"));
        check("set-namespace", &to, &objects("old", "other"), &objects("new", "other"));
        assert_eq!(
            said("set-namespace", &to, &objects("old", "old"))[2..],
            [
                "info namespace [old] updated to \"new\", 2 value(s) changed",
                "info `depends-on` annotation namespace [old] updated to \"new\", 1 value(s) changed",
            ]
        );
    }

    /// V-022: the Namespace is added once (`packagevariants.md` 12.5).
    #[test]
    fn creation() {
        let to = config(&[("namespace", "new"), ("create", "true")]);
        let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: new\n";
        check("set-namespace", &to, CM, &format!("{CM}  namespace: new\n---\n{namespace}"));
        check("set-namespace", &to, &namespace.replace("new", "old"), namespace);
        let said = said("set-namespace", &to, CM);
        assert_eq!(said.last().unwrap(), "info namespace \"new\" created");
        let no = config(&[("namespace", "new"), ("create", "false")]);
        check("set-namespace", &no, CM, &format!("{CM}  namespace: new\n"));
    }

    /// Configs and their errors (`packagevariants.md` 8.5).
    #[test]
    fn configs() {
        let context =
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: kptfile.kpt.dev}\ndata: {name: new}\n";
        let own = "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetNamespace\nnamespace: new\n";
        for config in [context, own] {
            check("set-namespace", config, CM, &format!("{CM}  namespace: new\n"));
        }
        for (config, expected) in [
            ("", "FunctionConfig is missing. Expect `ConfigMap.v1` or `SetNamespace.v1alpha1.fn.kpt.dev`"),
            ("apiVersion: v1\nkind: ConfigMap\ndata: {name: x}\n", "`data.namespace` should not be empty"),
            ("apiVersion: fn.kpt.dev/v1alpha1\nkind: SetNamespace\n", "`namespace` should not be empty"),
            (
                "apiVersion: v1\nkind: X\n",
                "unknown functionConfig Kind=X ApiVersion=v1, expect `ConfigMap.v1` or `SetNamespace.v1alpha1.fn.kpt.dev`",
            ),
        ] {
            check_error("set-namespace", config, CM, expected);
        }
        assert_eq!(
            said("set-namespace", own, CM)[0],
            "warning Resource(apiVersion=v1, kind=ConfigMap, namespace=, name=a) does not have upstream origin."
        );
    }

    /// Further fields, as versions up to v0.2 have them (`packagevariants.md` 8.5).
    #[test]
    fn further_fields() {
        let set = |more: &str| {
            format!(
                "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetNamespace\nmetadata: {{name: n}}\nnamespace: new\n{more}"
            )
        };
        let fields = "additionalNamespaceFields: [{group: compute.example, kind: Instance, version: v1, path: spec/ref/namespace, create: \
                      true}]\n";
        let object = |version: &str, reference: &str| {
            format!(
                "apiVersion: compute.example/{version}\nkind: Instance\nmetadata: {{name: a}}\nspec: {{ref: {reference}}}\n"
            )
        };
        let old = object("v1", "{name: sa, namespace: old}");
        check("set-namespace", &set(fields), &old, &object("v1", "{name: sa, namespace: new}"));
        let without = object("v1", "{name: sa}");
        check("set-namespace", &set(fields), &without, &object("v1", "{name: sa, namespace: new}"));
        let other = object("v2", "{name: sa, namespace: old}");
        check("set-namespace", &set(fields), &other, &other);
        let matching = set(&format!("namespaceMatcher: x\n{fields}"));
        check("set-namespace", &matching, &old, &old);
        check("set-namespace", &matching, &without, &without);
        // A path goes on in each item of a list.
        let list = object("v1", "[{namespace: old}, {name: b}]");
        let new = object("v1", "[{namespace: new}, {name: b, namespace: new}]");
        check("set-namespace", &set(fields), &list, &new);
        let map = object("v1", "{namespace: {a: b}}");
        check_error(
            "set-namespace",
            &set(fields),
            &map,
            "the field `spec/ref/namespace` is a list or a map, and cannot be set to a text",
        );
    }

    /// A config with a field that the function does not know is refused, not obeyed in part.
    #[test]
    fn unknown_fields() {
        let kind = "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetNamespace\nnamespace: new\n";
        for (config, expected) in [
            (
                format!("{kind}nameSpace: x\n"),
                "the function does not know the field `nameSpace`: use `namespace`, `namespaceMatcher`, \
                 `additionalNamespaceFields`",
            ),
            (
                format!("{kind}additionalNamespaceFields: [{{path: a, field: b}}]\n"),
                "the function does not know the field `field`: use `group`, `version`, `kind`, `path`, `create`",
            ),
            (
                format!("{kind}additionalNamespaceFields: [{{kind: A}}]\n"),
                "each further field needs a `path`, such as `spec/ref/namespace`",
            ),
            (
                format!("{kind}additionalNamespaceFields: []\nfieldSpecs: []\n"),
                "`fieldSpecs` has been deprecated, please rename it to `additionalNamespaceFields`",
            ),
            (
                config(&[("namespace", "new"), ("matcher", "x")]),
                "configMap: the function does not know the field `matcher`: use `namespace`, `namespaceMatcher`, `create`",
            ),
        ] {
            check_error("set-namespace", &config, CM, expected);
        }
        // A ConfigMap of a file may serve several functions.
        let shared = config(&[("namespace", "new"), ("image", "x")]).replace("function-input", "setters");
        check("set-namespace", &shared, CM, &format!("{CM}  namespace: new\n"));
    }
}
