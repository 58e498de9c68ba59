use std::collections::BTreeMap;

use groundwork_api::metadata::{FINALIZER, annotation, label};
use serde_json::{Value, json};

use super::*;
use crate::job::JobOutcome;
use crate::sources::sentences;

/// Runs a job of an Installation with further metadata. Its blueprint returns two items.
fn job(metadata: &str) -> JobOutcome {
    let installation = format!(
        "
kind: Installation
metadata: {{name: server, namespace: team{metadata}}}
spec:
  context: other
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          deployExecutions:
          - name: default
            type: GoTemplate
            template: |
              deployItems:
              - {{name: first, type: landscaper.gardener.cloud/mock, labels: {{a: b}}, config: {{count: 1}}}}
              - {{name: second, type: landscaper.gardener.cloud/helm, dependsOn: [first], config: {{count: 2}}}}
"
    );
    let outcome = world(&[&installation, EMPTY_CONTEXT]).render();
    assert_eq!(outcome.error, None);
    outcome
}

fn map(entries: &[(&str, &str)]) -> Option<BTreeMap<String, String>> {
    Some(entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

/// `installations.md` 7.1, case I-22: the job writes one Execution with the name of the
/// Installation, with all items in their order.
#[test]
fn the_execution() {
    let execution = job("").execution.unwrap();
    assert_eq!(execution.metadata.name.as_deref(), Some("server"));
    assert_eq!(execution.metadata.namespace.as_deref(), Some("team"));
    assert_eq!(execution.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
    assert_eq!((&execution.metadata.annotations, &execution.metadata.owner_references), (&None, &None));
    assert_eq!(execution.spec.context.as_deref(), Some("other"));
    let names: Vec<&str> = execution.spec.deploy_items.iter().map(|item| item.name.as_str()).collect();
    assert_eq!(names, ["first", "second"]);
}

/// `installations.md` 1.7, 7.2, case I-22: metadata and spec of the DeployItems.
#[test]
fn the_deploy_items() {
    let outcome = job("");
    let [first, second] = &outcome.deploy_items[..] else { panic!("two items") };
    assert_eq!(
        first.metadata.labels,
        map(&[("a", "b"), (label::MANAGED_BY, "server"), (label::DEPLOY_ITEM_NAME, "first")])
    );
    let (mock, helm) = ("landscaper.gardener.cloud/mock", "landscaper.gardener.cloud/helm");
    let no_target = (annotation::DEPLOYER_TARGET_NAME, ".noTargetName");
    assert_eq!(first.metadata.annotations, map(&[(annotation::DEPLOYER_TYPE, mock), no_target]));
    assert_eq!(
        second.metadata.annotations,
        map(&[(annotation::DEPLOYER_TYPE, helm), no_target, (annotation::DEPENDS_ON, "first")])
    );
    for (item, start, n) in [(first, "server-first-", 1), (second, "server-second-", 2)] {
        assert!(item.metadata.name.as_deref().is_some_and(|name| name.starts_with(start)));
        assert_eq!(item.metadata.finalizers, Some(vec![FINALIZER.to_owned()]));
        assert_eq!(item.spec.context.as_deref(), Some("other"));
        assert_eq!(item.spec.config.get(), Some(&json!({"count": n})));
    }
}

/// The outcome names the places in the blueprint that create items. For a large number of items it
/// says that there are more.
#[test]
fn sources_of_items() {
    let all = sentences(&job(""));
    let written = |name: &str, line: usize| {
        format!(
            "the deploy item {name:?} is written in deployExecutions[default] (deployExecutions[default].template, line {line})"
        )
    };
    assert_eq!(all, [written("first", 2), written("second", 3)]);

    let many = "
kind: Installation
metadata: {name: server, namespace: team}
spec:
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          deployExecutions:
          - name: default
            type: GoTemplate
            file: many.yaml
        many.yaml: |
          deployItems:
          {{- range until 60 }}
          - {name: item-{{ . }}, type: t, config: {}}
          {{- end }}
";
    let many = sentences(&world(&[many, EMPTY_CONTEXT]).render());
    assert_eq!(many.len(), 51);
    assert_eq!(
        many[0],
        "the deploy item \"item-0\" is written in deployExecutions[default] (many.yaml, line 1)"
    );
    assert_eq!(many[50], "10 more deploy items or nested installations follow");
}

/// The annotation that caches charts is copied to every item. Other annotations and other values
/// are not.
#[test]
fn cached_charts() {
    let name = annotation::CACHE_HELM_CHARTS;
    for (value, copied) in [("true", true), ("false", false)] {
        let outcome = job(&format!(", annotations: {{other: x, {name}: '{value}'}}"));
        let execution = outcome.execution.unwrap();
        assert_eq!(execution.metadata.annotations, if copied { map(&[(name, "true")]) } else { None });
        for item in &outcome.deploy_items {
            let annotations = item.metadata.annotations.as_ref().unwrap();
            assert_eq!((annotations.contains_key(name), annotations.contains_key("other")), (copied, false));
        }
    }
}

/// An Installation that exists in a cluster becomes the owner of the objects that it creates.
#[test]
fn owners() {
    let execution = job(", uid: some-uid").execution.unwrap();
    let owners: Value = serde_json::to_value(execution.metadata.owner_references).unwrap();
    assert_eq!(
        owners,
        json!([{
            "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation", "name": "server",
            "uid": "some-uid", "controller": true, "blockOwnerDeletion": true,
        }])
    );
}
