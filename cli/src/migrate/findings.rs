//! Findings about a cluster, from objects that were read from it.

use std::collections::BTreeMap;

use groundwork_api::{
    Context, DeployItem, Installation, PackageVariant, PackageVariantSet, Repository, ResourceExt as _,
    item_type,
};
use groundwork_component::RepositoryContext;
use groundwork_controller::OriginalAtWorkError;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::Value;

/// APIService of a Porch server. While it exists, no CustomResourceDefinition serves the kind.
pub(super) const API_SERVICE: &str = "v1alpha1.porch.kpt.dev";
/// Groups of the objects that Groundwork handles.
const GROUPS: [&str; 3] = ["landscaper.gardener.cloud", "config.porch.kpt.dev", "porch.kpt.dev"];
/// Kinds of Landscaper without a counterpart in Groundwork, by their plurals.
const FOREIGN: [&str; 6] = [
    "criticalproblems",
    "lshealthchecks",
    "syncobjects",
    "deployerregistrations",
    "environments",
    "componentoverwrites",
];
/// Service of the package store, which serves the same API.
const PACKAGE_API: &str = "groundwork-package-api";
/// Annotation of Nephio's approval controller.
const POLICY: &str = "approval.nephio.org/policy";
/// Names that a finding lists; the others are counted.
const SHOWN: usize = 5;

/// Obstacle to a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    /// Sentence about the obstacle.
    pub(super) problem: String,
    /// Commands, or other steps.
    pub(super) steps: Vec<String>,
}

impl Finding {
    fn new(problem: impl Into<String>, steps: &[&str]) -> Self {
        Self { problem: problem.into(), steps: steps.iter().map(|&step| step.to_owned()).collect() }
    }
}

/// Returns the finding that one of the other controllers is running.
pub(super) fn original(at_work: &OriginalAtWorkError) -> Finding {
    let OriginalAtWorkError { name, lease, holder, .. } = at_work;
    Finding::new(
        format!("{name} works on the same objects: {holder} holds the lease {lease}"),
        &["scale its deployments to zero: docs/migrate.md, \"Two must not work on the same objects\""],
    )
}

/// Configuration of webhooks, whichever kind it is.
pub(super) struct Webhooks<'a> {
    kind: &'static str,
    name: String,
    /// Connections of the webhooks that can refuse writes of Groundwork's objects.
    refusing: Vec<&'a WebhookClientConfig>,
}

/// Parts of a webhook that decide whether it can refuse a write.
type Parts<'a> = (Option<&'a String>, Option<&'a Vec<RuleWithOperations>>, &'a WebhookClientConfig);

impl<'a> Webhooks<'a> {
    fn new(kind: &'static str, name: String, webhooks: impl Iterator<Item = Parts<'a>>) -> Self {
        let refuses = |(policy, rules, _): &Parts<'_>| {
            // `Fail` is the default.
            policy.is_none_or(|policy| policy != "Ignore")
                && rules.iter().flat_map(|rules| rules.iter()).any(|rule| {
                    let groups = rule.api_groups.iter().flatten();
                    groups.into_iter().any(|group| group == "*" || GROUPS.contains(&group.as_str()))
                })
        };
        Self { kind, name, refusing: webhooks.filter(refuses).map(|(.., connection)| connection).collect() }
    }

    /// Returns namespace and name of the service that answers; `None` if nothing can be refused, or
    /// the webhook is outside of the cluster.
    pub(super) fn service(&self) -> Option<(&'a str, &'a str)> {
        let service = self.refusing.first()?.service.as_ref()?;
        Some((&service.namespace, &service.name))
    }

    /// Returns the finding about a webhook whose service does not exist: it refuses each write.
    pub(super) fn finding(&self, has_service: bool) -> Option<Finding> {
        let (namespace, service) = self.service()?;
        let Self { kind, name, .. } = self;
        (!has_service).then(|| {
            Finding::new(
                format!(
                    "{kind} {name} makes the API server refuse each write of Installations or packages: its service \
                     {namespace}/{service} does not exist"
                ),
                &[&format!("kubectl delete {} {name}", kind.to_ascii_lowercase())],
            )
        })
    }
}

impl<'a> From<&'a ValidatingWebhookConfiguration> for Webhooks<'a> {
    fn from(found: &'a ValidatingWebhookConfiguration) -> Self {
        let webhooks = found.webhooks.iter().flatten();
        let parts = webhooks
            .map(|webhook| (webhook.failure_policy.as_ref(), webhook.rules.as_ref(), &webhook.client_config));
        Self::new("ValidatingWebhookConfiguration", found.name_any(), parts)
    }
}

impl<'a> From<&'a MutatingWebhookConfiguration> for Webhooks<'a> {
    fn from(found: &'a MutatingWebhookConfiguration) -> Self {
        let webhooks = found.webhooks.iter().flatten();
        let parts = webhooks
            .map(|webhook| (webhook.failure_policy.as_ref(), webhook.rules.as_ref(), &webhook.client_config));
        Self::new("MutatingWebhookConfiguration", found.name_any(), parts)
    }
}

/// Returns the finding about the APIService of a Porch server.
pub(super) fn api_service(found: &APIService) -> Option<Finding> {
    let service = found.spec.as_ref()?.service.as_ref()?;
    if service.name.as_deref() == Some(PACKAGE_API) {
        return None;
    }
    let conditions = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_available =
        conditions.into_iter().any(|condition| condition.type_ == "Available" && condition.status == "True");
    let place = format!(
        "{}/{}",
        service.namespace.as_deref().unwrap_or_default(),
        service.name.as_deref().unwrap_or_default()
    );
    Some(if is_available {
        Finding::new(
            format!("a Porch server ({place}) serves package revisions"),
            &[
                "to keep it: start the variant service with --porch",
                &format!(
                    "to replace it by the package store: stop it, then kubectl delete apiservice {API_SERVICE}"
                ),
            ],
        )
    } else {
        Finding::new(
            format!(
                "APIService {API_SERVICE} leads to {place}, which does not answer: package revisions are not served, and no \
                 namespace can be deleted"
            ),
            &[&format!("kubectl delete apiservice {API_SERVICE}")],
        )
    })
}

/// Reports whether a definition is of a kind of Landscaper that Groundwork does not have.
pub(super) fn is_foreign(definition: &CustomResourceDefinition) -> bool {
    definition.spec.group == GROUPS[0] && FOREIGN.contains(&definition.spec.names.plural.as_str())
}

/// Returns the finding about the objects of a kind without a counterpart.
pub(super) fn foreign(definition: &CustomResourceDefinition, objects: usize) -> Option<Finding> {
    let names = &definition.spec.names;
    (objects > 0).then(|| {
        Finding::new(
            format!("{objects} objects of the kind {} have no effect with Groundwork", names.kind),
            &[&format!("kubectl get {}.{} -A", names.plural, definition.spec.group)],
        )
    })
}

/// Returns the finding about jobs that have not ended.
pub(super) fn jobs(installations: &[Installation]) -> Option<Finding> {
    let is_running = |installation: &&Installation| {
        let status = installation.status.clone().unwrap_or_default();
        status.job_id.as_ref().is_some_and(|job| !job.is_empty()) && status.job_id != status.job_id_finished
    };
    let running: Vec<String> = installations.iter().filter(is_running).map(place).collect();
    (!running.is_empty()).then(|| {
        Finding::new(
            format!("jobs of {} Installations are running: {}", running.len(), list(&running)),
            &["let them end, or interrupt them, before you stop Landscaper; Groundwork goes on with the others"],
        )
    })
}

/// Returns the findings about items that no deployer of Groundwork handles.
pub(super) fn items(items: &[DeployItem]) -> Vec<Finding> {
    let mut by_type: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for item in items.iter().filter(|item| item_type::is_unserved(&item.spec.type_)) {
        by_type.entry(&item.spec.type_).or_default().push(place(item));
    }
    let finding = |(type_name, items): (&str, Vec<String>)| {
        Finding::new(
            format!(
                "no deployer of Groundwork handles the {} items of the type {type_name}: {}",
                items.len(),
                list(&items)
            ),
            &["keep Landscaper's deployer for them (docs/deployers.md), or replace them"],
        )
    };
    by_type.into_iter().map(finding).collect()
}

/// Returns the findings about fields that mean something else with Groundwork.
pub(super) fn fields(
    installations: &[Installation],
    items: &[DeployItem],
    repositories: &[Repository],
) -> Vec<Finding> {
    let hidden = installations.iter().filter(|found| found.namespace().as_deref() == Some("kube-system"));
    let elsewhere = items.iter().filter(|item| {
        let target = item.spec.target.as_ref().and_then(|target| target.namespace.clone());
        target.is_some_and(|namespace| !namespace.is_empty() && Some(namespace) != item.namespace())
    });
    let continuous = items.iter().filter(|item| {
        item.spec
            .config
            .get()
            .is_some_and(|config| config.get("continuousReconcile").is_some_and(Value::is_object))
    });
    let with_password = repositories.iter().filter(|repository| {
        let address = repository.spec.git.as_ref().map(|git| git.repo.as_str()).unwrap_or_default();
        address
            .split_once("://")
            .is_some_and(|(_, rest)| rest.split('/').next().is_some_and(|host| host.contains('@')))
            && address.starts_with("http")
    });
    let findings: [(Vec<String>, &str, &str); 4] = [
        (
            hidden.map(place).collect(),
            "Groundwork does not act in the namespace kube-system",
            "move these Installations to another namespace",
        ),
        (
            elsewhere.map(place).collect(),
            "items name a Target of another namespace, which fails",
            "copy the Target to the namespace of the item",
        ),
        (
            continuous.map(place).collect(),
            "continuousReconcile of items has no effect",
            "set drift: repair in their configuration (docs/deployers.md)",
        ),
        (
            with_password.map(place).collect(),
            "Repositories have a user name or password in their address, which is refused",
            "put it into the Secret of spec.git.secretRef",
        ),
    ];
    let found = findings.into_iter().filter(|(places, ..)| !places.is_empty());
    found
        .map(|(places, problem, step)| Finding::new(format!("{problem}: {}", list(&places)), &[step]))
        .collect()
}

/// Returns the findings about repositories of components whose type Groundwork does not read.
pub(super) fn component_repositories(contexts: &[Context], installations: &[Installation]) -> Vec<Finding> {
    let of_contexts =
        contexts.iter().filter_map(|context| Some((context.repository_context.get()?, place(context))));
    let of_installations = installations.iter().filter_map(|installation| {
        let component = installation.spec.component_descriptor.as_ref()?.reference.as_ref()?;
        Some((component.repository_context.get()?, place(installation)))
    });
    let mut users: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (value, user) in of_contexts.chain(of_installations) {
        if let Some(context) =
            RepositoryContext::new(value.clone()).filter(|context| context.kind().is_none())
        {
            users.entry(context.type_name().to_owned()).or_default().push(user);
        }
    }
    let finding = |(type_name, users): (String, Vec<String>)| {
        Finding::new(
            format!("component repositories of the type {type_name:?} are not read: {}", list(&users)),
            &["push the components to a registry, and name it with the type ociRegistry"],
        )
    };
    users.into_iter().map(finding).collect()
}

/// Returns the findings about releases whose last step has not ended: namespace, name, status.
pub(super) fn releases(pending: impl Iterator<Item = (String, String, String)>) -> Vec<Finding> {
    let finding = |(namespace, name, status)| {
        Finding::new(
            format!("the last step of the Helm release {namespace}/{name} has not ended ({status})"),
            &[
                &format!("helm history -n {namespace} {name}"),
                &format!("helm rollback -n {namespace} {name} REVISION"),
            ],
        )
    };
    pending.map(finding).collect()
}

/// Returns the finding about drafts that Nephio's controller approves.
pub(super) fn policies(variants: &[PackageVariant], sets: &[PackageVariantSet]) -> Option<Finding> {
    let variants = variants.iter().filter(|variant| variant.spec.annotations.contains_key(POLICY)).map(place);
    let has_policy = |set: &&PackageVariantSet| {
        let templates = set.spec.targets.iter().filter_map(|target| target.template.as_ref());
        templates.into_iter().any(|template| template.annotations.contains_key(POLICY))
    };
    let users: Vec<String> = variants.chain(sets.iter().filter(has_policy).map(place)).collect();
    (!users.is_empty()).then(|| {
        Finding::new(
            format!("drafts are approved by the annotation {POLICY}: {}", list(&users)),
            &["with the package store: start the variant service with --approval-policies"],
        )
    })
}

fn place<K: groundwork_api::ResourceExt>(object: &K) -> String {
    format!("{}/{}", object.namespace().unwrap_or_default(), object.name_any())
}

/// Lists the first names, and counts the others.
fn list(names: &[String]) -> String {
    let text = names.iter().take(SHOWN).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read<K: serde::de::DeserializeOwned>(value: Value) -> K {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn fields_with_another_meaning() {
        let item = |spec: Value| -> DeployItem {
            read(json!({"metadata": {"name": "i", "namespace": "team"}, "spec": spec}))
        };
        let repository = |address: &str| -> Repository {
            read(
                json!({"metadata": {"name": "r", "namespace": "team"}, "spec": {"type": "git", "git": {"repo": address}}}),
            )
        };
        let installation = |namespace: &str| -> Installation {
            read(json!({"metadata": {"name": "a", "namespace": namespace}, "spec": {"blueprint": {}}}))
        };
        let fine = fields(
            &[installation("team")],
            &[item(json!({"type": "t", "target": {"name": "x", "namespace": "team"}, "config": {}}))],
            &[repository("https://git.example.org/a@b"), repository("ssh://git@git.example.org/a")],
        );
        assert_eq!(fine, []);
        let found = problems(fields(
            &[installation("kube-system")],
            &[
                item(json!({"type": "t", "target": {"name": "x", "namespace": "other"}})),
                item(json!({"type": "t", "config": {"continuousReconcile": {"every": "1h"}}})),
            ],
            &[repository("https://user:word@git.example.org/a")],
        ));
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(
            found.iter().all(|problem| problem.contains(": ") && !problem.contains("word@")),
            "{found:?}"
        );
    }

    #[test]
    fn repositories_of_unknown_types() {
        let context = |type_name: &str| -> Context {
            read(
                json!({"metadata": {"name": "c", "namespace": "team"}, "repositoryContext": {"type": type_name}}),
            )
        };
        let found = problems(component_repositories(&[context("OCIRepository/v1"), context("npm")], &[]));
        assert_eq!(found, ["component repositories of the type \"npm\" are not read: team/c"]);
    }

    fn problems(findings: impl IntoIterator<Item = Finding>) -> Vec<String> {
        findings.into_iter().map(|finding| finding.problem).collect()
    }

    fn webhook(rules: &Value, policy: &Value) -> ValidatingWebhookConfiguration {
        serde_json::from_value(json!({"metadata": {"name": "w"}, "webhooks": [{
            "name": "w.example.org", "sideEffects": "None", "admissionReviewVersions": ["v1"], "failurePolicy": policy,
            "clientConfig": {"service": {"namespace": "ls", "name": "gone"}}, "rules": rules,
        }]}))
        .unwrap()
    }

    #[test]
    fn webhooks_that_refuse_all_writes() {
        let ours = json!([{"apiGroups": ["landscaper.gardener.cloud"], "resources": ["installations"]}]);
        let all = json!([{"apiGroups": ["*"], "resources": ["*"]}]);
        let other = json!([{"apiGroups": ["apps"], "resources": ["deployments"]}]);
        for (rules, policy, expected) in [
            (&ours, json!("Fail"), true),
            (&ours, json!(null), true),
            (&all, json!("Fail"), true),
            (&ours, json!("Ignore"), false),
            (&other, json!("Fail"), false),
        ] {
            let found = webhook(rules, &policy);
            let webhooks = Webhooks::from(&found);
            assert_eq!(webhooks.finding(false).is_some(), expected, "{rules} {policy}");
            assert_eq!(webhooks.finding(true), None);
        }
        let found = webhook(&ours, &json!("Fail"));
        assert_eq!(
            Webhooks::from(&found).finding(false).unwrap().steps,
            ["kubectl delete validatingwebhookconfiguration w"]
        );
    }

    #[test]
    fn api_services_of_porch() {
        let service = |status: &str| -> APIService {
            serde_json::from_value(json!({
                "metadata": {"name": API_SERVICE},
                "spec": {"groupPriorityMinimum": 1, "versionPriority": 1, "service": {"namespace": "porch-system", "name": "api"}},
                "status": {"conditions": [{"type": "Available", "status": status}]},
            }))
            .unwrap()
        };
        assert!(api_service(&service("True")).unwrap().problem.contains("serves package revisions"));
        let away = api_service(&service("False")).unwrap();
        assert!(away.problem.contains("no namespace can be deleted"), "{away:?}");
        let own: APIService =
            serde_json::from_value(json!({"metadata": {"name": API_SERVICE}, "spec": {"groupPriorityMinimum": 1, "versionPriority": 1}})).unwrap();
        assert_eq!(api_service(&own), None, "a CustomResourceDefinition serves the kind");
    }

    #[test]
    fn landscapes() {
        let installation = |name: &str, status: Value| -> Installation {
            serde_json::from_value(
                json!({"metadata": {"namespace": "n", "name": name}, "spec": {"blueprint": {}}, "status": status}),
            )
            .unwrap()
        };
        let installations = [
            installation("running", json!({"jobID": "2", "jobIDFinished": "1"})),
            installation("done", json!({"jobID": "1", "jobIDFinished": "1"})),
            installation("new", json!({})),
        ];
        assert_eq!(problems(jobs(&installations)), ["jobs of 1 Installations are running: n/running"]);
        let item = |name: &str, type_name: &str| -> DeployItem {
            serde_json::from_value(
                json!({"metadata": {"namespace": "n", "name": name}, "spec": {"type": type_name}}),
            )
            .unwrap()
        };
        let all: Vec<DeployItem> =
            (0..7).map(|index| item(&format!("c{index}"), item_type::CONTAINER)).collect();
        let found = problems(items(&all));
        assert!(found[0].contains("the 7 items") && found[0].ends_with("and 2 more"), "{found:?}");
        assert!(items(&[item("m", item_type::MANIFEST), item("own", "example.org/own")]).is_empty());
    }

    #[test]
    fn packages_with_policies() {
        let annotations = json!({POLICY: "initial"});
        let variant: PackageVariant = serde_json::from_value(
            json!({"metadata": {"namespace": "n", "name": "v"}, "spec": {"annotations": annotations}}),
        )
        .unwrap();
        let set: PackageVariantSet = serde_json::from_value(
            json!({"metadata": {"namespace": "n", "name": "s"}, "spec": {"targets": [{"template": {"annotations": annotations}}]}}),
        )
        .unwrap();
        let found = problems(policies(&[variant], &[set]));
        assert_eq!(found, ["drafts are approved by the annotation approval.nephio.org/policy: n/v, n/s"]);
        assert_eq!(policies(&[], &[]), None);
    }
}
