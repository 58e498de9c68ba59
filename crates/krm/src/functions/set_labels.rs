//! `set-labels` (`packagevariants.md` 8.5).

use groundwork_yaml::tree::Node;

use super::config::{FieldSpec, only_known};
use super::fields::{pairs, set_strings, template, visit};
use super::{group, is_local_config, text, type_of};
use crate::render::{ResourceList, Severity};

const NO_LABELS: &str = "no `labels` arguments are given in FunctionConfig";

pub(super) fn run(list: &mut ResourceList) -> Result<(), String> {
    if list.items.iter().all(|item| is_local_config(&item.root)) {
        list.info("no input resources");
        return Ok(());
    }
    let Some(config) = &list.config else { return Err(NO_LABELS.to_owned()) };
    let (labels, further) = match type_of(config) {
        ("ConfigMap", "v1") => (pairs(config.get("data")), Vec::new()),
        ("SetLabels" | "SetLabelConfig", "fn.kpt.dev/v1alpha1") => {
            let list = "additionalLabelFields";
            only_known(config, &["labels"], Some(list))?;
            (pairs(config.get("labels")), FieldSpec::list(config, list)?)
        }
        (kind, api_version) => {
            return Err(format!(
                "unknown functionConfig Kind={kind} ApiVersion={api_version}, expect `ConfigMap` or `SetLabels`"
            ));
        }
    };
    if labels.is_empty() {
        list.say(Severity::Warning, NO_LABELS);
        return Ok(());
    }
    let mut count = 0;
    for item in list.items.iter_mut().filter(|item| !is_local_config(&item.root)) {
        for (path, create) in paths(&item.root, &further) {
            visit(&mut item.root, &path, create, &mut |map| {
                count += set_strings(map, &labels, create, &list.meter);
            });
        }
    }
    list.info(format!("set {count} labels in total"));
    Ok(())
}

/// Returns the paths of labels in an object, and whether missing ones are created there.
fn paths(root: &Node, further: &[FieldSpec]) -> Vec<(String, bool)> {
    let (kind, group) = (text(root, &["kind"]), group(root));
    let mut paths = vec![("metadata/labels".to_owned(), true)];
    let mut add = |path: &str, create: bool| paths.push((path.to_owned(), create));
    match (kind, group) {
        ("Service" | "ReplicationController", "") => add("spec/selector", true),
        ("Deployment" | "ReplicaSet" | "DaemonSet", _) | ("StatefulSet", "apps") => {
            add("spec/selector/matchLabels", true);
        }
        ("Job", "batch") | ("PodDisruptionBudget", "policy") => add("spec/selector/matchLabels", false),
        ("CronJob", "batch") => {
            add("spec/jobTemplate/metadata/labels", true);
            add("spec/jobTemplate/spec/selector/matchLabels", false);
        }
        ("NetworkPolicy", _) => {
            add("spec/podSelector/matchLabels", false);
            add("spec/ingress[]/from[]/podSelector/matchLabels", false);
            add("spec/egress[]/to[]/podSelector/matchLabels", false);
        }
        _ => {}
    }
    if (kind, group) == ("StatefulSet", "apps") {
        add("spec/volumeClaimTemplates[]/metadata/labels", true);
        add("spec/volumeClaimTemplates[]/selector/matchLabels", false);
    }
    if let Some(template) = template(group, kind) {
        add(&format!("{template}/metadata/labels"), true);
        let mut of_pod = |path: &str| add(&format!("{template}/spec/{path}/matchLabels"), false);
        of_pod("topologySpreadConstraints[]/labelSelector");
        for affinity in ["affinity/podAffinity", "affinity/podAntiAffinity"] {
            of_pod(&format!("{affinity}/requiredDuringSchedulingIgnoredDuringExecution[]/labelSelector"));
            of_pod(&format!(
                "{affinity}/preferredDuringSchedulingIgnoredDuringExecution[]/podAffinityTerm/labelSelector"
            ));
        }
    }
    let further = further.iter().filter(|field| field.selects(root));
    paths.extend(further.map(|field| (field.path.clone(), field.create)));
    paths
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, config, said};

    fn check_labels(text: &str, expected: &str) {
        check("set-labels", &config(&[("app", "new")]), text, expected);
    }

    /// The table of places in `packagevariants.md` 8.5.
    #[test]
    fn places() {
        let meta = |more: &str| format!("metadata:\n  name: a\n  labels: {{app: {more}}}\n");
        for (head, old, new) in [
            (
                "apiVersion: v1\nkind: Service\n",
                "spec: {selector: {b: c}}\n",
                "spec: {selector: {b: c, app: new}}\n",
            ),
            (
                "apiVersion: policy/v1\nkind: PodDisruptionBudget\n",
                "spec: {selector: {matchLabels: {b: c}}}\n",
                "spec: {selector: {matchLabels: {b: c}}}\n",
            ),
            (
                "apiVersion: policy/v1\nkind: PodDisruptionBudget\n",
                "spec: {selector: {matchLabels: {app: c}}}\n",
                "spec: {selector: {matchLabels: {app: new}}}\n",
            ),
            (
                "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\n",
                "spec:\n  podSelector: {matchLabels: {app: c}} # p\n  ingress:\n  - from: [{podSelector: {matchLabels: {app: x, b: c}}}]\n  \
                 egress:\n  - to: [{podSelector: {matchLabels: {b: c}}}]\n",
                "spec:\n  podSelector: {matchLabels: {app: new}} # p\n  ingress:\n  - from: [{podSelector: {matchLabels: {app: new, b: \
                 c}}}]\n  egress:\n  - to: [{podSelector: {matchLabels: {b: c}}}]\n",
            ),
            (
                "apiVersion: batch/v1\nkind: Job\n",
                "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {}}}}\n",
                "spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {app: new}}}}\n",
            ),
            (
                "apiVersion: apps/v1\nkind: StatefulSet\n",
                "spec:\n  selector: {matchLabels: {app: x}}\n  template: {metadata: {labels: {app: x}}}\n  volumeClaimTemplates:\n  - \
                 metadata: {name: d, labels: {a: b}}\n    selector: {matchLabels: {app: x}}\n",
                "spec:\n  selector: {matchLabels: {app: new}}\n  template: {metadata: {labels: {app: new}}}\n  volumeClaimTemplates:\n  - \
                 metadata: {name: d, labels: {a: b, app: new}}\n    selector: {matchLabels: {app: new}}\n",
            ),
            (
                "apiVersion: batch/v1\nkind: CronJob\n",
                "spec: {jobTemplate: {metadata: {labels: {}}, spec: {template: {metadata: {labels: {}}}}}}\n",
                "spec: {jobTemplate: {metadata: {labels: {app: new}}, spec: {template: {metadata: {labels: {app: new}}}}}}\n",
            ),
            ("apiVersion: x.example/v1\nkind: Deploy\n", "spec: {template: {}}\n", "spec: {template: {}}\n"),
        ] {
            check_labels(&format!("{head}{}{old}", meta("old")), &format!("{head}{}{new}", meta("new")));
        }
    }

    /// Labels for a Deployment without any, and for its pod template (`packagevariants.md` 8.5).
    #[test]
    fn deployments() {
        let head = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\n";
        let spec = |app: &str| {
            format!(
                "    spec:\n      topologySpreadConstraints:\n      - labelSelector: {{matchLabels: {{app: {app}}}}}\n      affinity:\n        \
                 podAntiAffinity:\n          requiredDuringSchedulingIgnoredDuringExecution:\n          - labelSelector: {{matchLabels: {{app: \
                 {app}}}}}\n          preferredDuringSchedulingIgnoredDuringExecution:\n          - podAffinityTerm: {{labelSelector: \
                 {{matchLabels: {{app: {app}, a: b}}}}}}\n"
            )
        };
        check_labels(
            &format!("{head}spec:\n  selector: {{matchLabels: {{}}}}\n  template:\n{}", spec("x")),
            &format!(
                "{head}  labels:\n    app: new\nspec:\n  selector: {{matchLabels: {{app: new}}}}\n  template:\n{}    metadata:\n      \
                 labels:\n        app: new\n",
                spec("new")
            ),
        );
    }

    /// Configs and results (`packagevariants.md` 8.5).
    #[test]
    fn configs() {
        let object = "apiVersion: v1\nkind: A\nmetadata: {name: a, labels: {app: 5}}\n";
        let own = "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetLabels\nlabels: {app: 5}\n";
        check("set-labels", own, object, &object.replace('5', "\"5\""));
        assert_eq!(said("set-labels", own, object), ["info set 1 labels in total"]);
        assert_eq!(said("set-labels", &config(&[]), object), [format!("warning {}", super::NO_LABELS)]);
        check_error("set-labels", "", object, super::NO_LABELS);
        let local = "kind: A\nmetadata: {annotations: {config.kubernetes.io/local-config: \"true\"}}\n";
        assert_eq!(said("set-labels", own, local), ["info no input resources"]);
        check("set-labels", own, local, local);
    }

    /// Fields of older versions, by both of their names (`packagevariants.md` 8.5).
    #[test]
    fn further_fields() {
        let set = |list: &str| {
            format!(
                "apiVersion: fn.kpt.dev/v1alpha1\nkind: SetLabels\nmetadata: {{name: l}}\nlabels: {{app: new}}\n{list}:\n- {{group: \
                 a.example, kind: A, path: 'spec/parts[]/labels', create: true}}\n- {{kind: A, path: spec/none/labels}}\n"
            )
        };
        let old = "apiVersion: a.example/v1\nkind: A\nmetadata: {name: a}\nspec: {parts: [{name: b}]}\n";
        let new = "apiVersion: a.example/v1\nkind: A\nmetadata: {name: a, labels: {app: new}}\nspec: {parts: [{name: b, labels: {app: new}}]}\n";
        check("set-labels", &set("additionalLabelFields"), old, new);
        check("set-labels", &set("fieldSpecs"), old, new);
        check_error(
            "set-labels",
            &set("additionalLabelField"),
            old,
            "the function does not know the field `additionalLabelField`: use `labels`, `additionalLabelFields`",
        );
    }
}
