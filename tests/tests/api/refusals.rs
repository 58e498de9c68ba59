//! Every rule of the CRDs rejects an object, with the message that the rule states: requirements
//! I-32, I-33, I-42, I-43, I-50, I-73, I-77, I-94, O-10, V-051, and the rules of `installations.md`
//! 1.1 to 1.4 and `packagevariants.md` 1.4.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use groundwork_tests::{
    Cluster, Manifest, Part, UnknownFields, cluster, documents, files_below, installed_crds, workspace,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::Value;

/// Manifest that the API server must reject.
struct Case {
    manifest: Manifest,
    /// Manifest that exists already.
    before: Option<Manifest>,
    /// Expected part of the error message.
    says: String,
    /// Path of the rule in the schema, if a rule rejects the manifest.
    path: Option<String>,
}

fn cases() -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for file in files_below(&workspace().join("tests/data/refused"))? {
        for document in documents(&fs::read_to_string(&file)?)? {
            let manifest = |name: &str| document.get(name).map(|object| to_manifest(&file, object));
            cases.push(Case {
                manifest: manifest("manifest").context("a case has a manifest")?,
                before: manifest("after"),
                says: document["says"].as_str().context("a case says what is answered")?.to_owned(),
                path: document["path"].as_str().map(str::to_owned),
            });
        }
    }
    Ok(cases)
}

fn to_manifest(file: &Path, object: &Value) -> Manifest {
    Manifest { file: file.to_path_buf(), document: object.clone() }
}

/// Returns the rules of a CRD: kind, path in the schema, message.
fn rules(crd: &CustomResourceDefinition) -> Result<BTreeSet<(String, String, String)>> {
    fn visit(kind: &str, path: &str, schema: &Value, rules: &mut BTreeSet<(String, String, String)>) {
        for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
            let message = rule["message"].as_str().unwrap_or("a rule without a message");
            rules.insert((kind.to_owned(), path.to_owned(), message.to_owned()));
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            visit(kind, &format!("{path}.{name}"), property, rules);
        }
        if let Some(items) = schema.get("items") {
            visit(kind, &format!("{path}[]"), items, rules);
        }
        if let Some(values) = schema.get("additionalProperties") {
            visit(kind, &format!("{path}{{}}"), values, rules);
        }
    }
    let mut found = BTreeSet::new();
    for version in &crd.spec.versions {
        let schema = serde_json::to_value(&version.schema)?;
        visit(&crd.spec.names.kind, "", &schema["openAPIV3Schema"], &mut found);
    }
    Ok(found)
}

#[test]
fn every_rule_has_a_case() -> Result<()> {
    let mut rules_without_case = BTreeSet::new();
    for crd in installed_crds() {
        rules_without_case.extend(rules(crd)?);
    }
    for case in cases()? {
        if let Some(path) = case.path {
            let rule = (case.manifest.kind().to_owned(), path, case.says);
            // Several cases may test one rule, so an earlier case may have removed it from the set.
            // The rule itself must exist.
            let exists =
                installed_crds().iter().any(|crd| rules(crd).is_ok_and(|rules| rules.contains(&rule)));
            ensure!(exists, "there is no such rule: {rule:?}");
            rules_without_case.remove(&rule);
        }
    }
    ensure!(rules_without_case.is_empty(), "no case in tests/data/refused for: {rules_without_case:#?}");
    Ok(())
}

async fn answer(cluster: &Cluster, case: &Case) -> Result<String> {
    let outcome = match &case.before {
        Some(before) => {
            cluster.create(before).await?;
            cluster.replace(&case.manifest, Part::Object).await
        }
        None => cluster.try_create(&case.manifest, UnknownFields::Refused).await,
    };
    Ok(outcome.err().map(|error| error.to_string()).unwrap_or_default())
}

#[tokio::test]
async fn every_case_is_refused() -> Result<()> {
    let Some(cluster) = cluster("refusals").await? else {
        return Ok(());
    };
    for case in cases()? {
        let answer = answer(&cluster, &case).await.with_context(|| case.manifest.to_string())?;
        ensure!(answer.contains(&case.says), "{} says {:?}, not {:?}", case.manifest, answer, case.says);
        let place = case.path.as_deref().unwrap_or_default().trim_start_matches('.').replace("[]", "[0]");
        ensure!(answer.contains(&place), "{} says {:?}, not about {place}", case.manifest, answer);
    }
    Ok(())
}
