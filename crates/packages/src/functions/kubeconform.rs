//! `kubeconform` and `kubeval`: check objects against the schemas of their kinds
//! (`packagevariants.md` 8.5).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use groundwork_api::{ResultField, ResultItem};
use groundwork_krm::{FunctionRunner, Item, Outcome, ResourceList, RunError, Target};
use groundwork_schema::Schema;
use serde_json::Value;

use crate::functions::schemas::{Schemas, SchemasError, of_definition};

const NAMES: [&str; 2] = ["kubeconform", "kubeval"];
/// Options with which kubeconform reads schemas from other locations; not supported here.
const LOCATIONS: [&str; 2] = ["schema_location", "additional_schema_locations"];
/// Limit for the reported errors of one object.
const MOST_FAULTS: usize = 100;

/// Validates with the schemas of the operator, and with those of CustomResourceDefinitions in the
/// package.
#[derive(Debug)]
pub struct Kubeconform {
    schemas: Schemas,
    /// Prefixes of the images that this function replaces.
    prefixes: Vec<String>,
}

impl Kubeconform {
    /// Creates a validator that replaces images with these prefixes, as in
    /// [`groundwork_krm::RenderOptions::native_prefixes`].
    pub fn new(schemas: Schemas, prefixes: Vec<String>) -> Self {
        Self { schemas, prefixes }
    }
}

impl FunctionRunner for Kubeconform {
    fn has(&self, target: &Target) -> bool {
        let Target::Image(image) = target else { return false };
        let named = self.prefixes.iter().find_map(|prefix| image.strip_prefix(prefix.as_str()));
        // A digest names one exact image, which this function is not.
        named.is_some_and(|rest| {
            !rest.contains('@') && NAMES.contains(&rest.split(':').next().unwrap_or_default())
        })
    }

    fn run(&self, _: &Target, list: &mut ResourceList) -> Result<Outcome, RunError> {
        let results = match Config::of(list.config_value().as_ref()) {
            Ok(config) => {
                self.validate(&config, &list.items).map_err(|error| RunError::Failed(error.to_string()))?
            }
            Err(fault) => vec![said("error", fault)],
        };
        let is_failed = results.iter().any(|result| result.severity.as_deref() == Some("error"));
        Ok(Outcome { exit_code: i32::from(is_failed), results: results.into(), ..Outcome::default() })
    }
}

/// Configuration in the package.
#[derive(Debug, Default)]
struct Config {
    strict: bool,
    ignore_missing_schemas: bool,
    skip_kinds: BTreeSet<String>,
}

impl Config {
    fn of(config: Option<&Value>) -> Result<Self, String> {
        let mut found = Self::default();
        let Some(config) = config else { return Ok(found) };
        if config["kind"] != "ConfigMap" || config["apiVersion"] != "v1" {
            return Err("`functionConfig` must be a `ConfigMap`".to_owned());
        }
        for (key, value) in config["data"].as_object().into_iter().flatten() {
            let text = value.as_str().unwrap_or_default();
            let truth = || match text {
                "true" => Ok(true),
                "false" => Ok(false),
                _ => Err(format!("`data.{key}` must be \"true\" or \"false\"")),
            };
            match key.as_str() {
                "strict" => found.strict = truth()?,
                "ignore_missing_schemas" => found.ignore_missing_schemas = truth()?,
                "skip_kinds" => {
                    let kinds = text.split(',').map(str::trim).filter(|kind| !kind.is_empty());
                    found.skip_kinds = kinds.map(str::to_owned).collect();
                }
                key if LOCATIONS.contains(&key) => {
                    return Err(format!(
                        "`data.{key}` cannot be used: schemas come from the configuration of the package store and \
                         from CustomResourceDefinitions in the package"
                    ));
                }
                _ => {
                    return Err(format!(
                        "`data.{key}` is unknown: use strict, ignore_missing_schemas or skip_kinds"
                    ));
                }
            }
        }
        Ok(found)
    }
}

/// Schemas of kinds that the package defines itself, by kind and apiVersion.
type Defined = BTreeMap<(String, String), Value>;

impl Kubeconform {
    fn validate(&self, config: &Config, items: &[Item]) -> Result<Vec<ResultItem>, SchemasError> {
        let values: Vec<(&Item, Value)> = items
            .iter()
            .filter(|item| !item.is_kptfile())
            .map(|item| (item, item.to_value()))
            .filter(|(_, value)| !is_local_config(value))
            .collect();
        let defined = defined(values.iter().map(|(_, value)| value));
        let mut compiled: BTreeMap<(String, String), Option<Arc<Schema>>> = BTreeMap::new();
        let mut results = Vec::new();
        for (item, mut value) in values {
            let text = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
            let (kind, api_version) = (text("kind"), text("apiVersion"));
            if config.skip_kinds.contains(&kind) {
                continue;
            }
            let key = (kind.clone(), api_version.clone());
            let schema = match compiled.get(&key) {
                Some(known) => known.clone(),
                None => {
                    let found = match defined.get(&key) {
                        Some(schema) => Some(of_definition(schema, &kind, &api_version, config.strict)?),
                        None => self.schemas.of(&kind, &api_version, config.strict)?,
                    };
                    compiled.insert(key, found.clone());
                    found
                }
            };
            let about = |mut result: ResultItem| {
                result.resource_ref = Some(item.reference());
                result
            };
            let Some(schema) = schema else {
                let severity = if config.ignore_missing_schemas { "warning" } else { "error" };
                results.push(about(said(
                    severity,
                    format!("the schema of {kind} {api_version} is missing: the object was not checked"),
                )));
                continue;
            };
            // An API server treats a field without a value as missing.
            prune(&mut value);
            for violation in schema.violations(&value).into_iter().take(MOST_FAULTS) {
                let path = violation.path;
                let mut result = said("error", format!("{path}: {}", violation.problem));
                result.field = Some(ResultField { path: Some(path), ..ResultField::default() });
                results.push(about(result));
            }
        }
        Ok(results)
    }
}

fn said(severity: &str, message: String) -> ResultItem {
    ResultItem { message: Some(message), severity: Some(severity.to_owned()), ..ResultItem::default() }
}

fn is_local_config(value: &Value) -> bool {
    let annotation = &value["metadata"]["annotations"]["config.kubernetes.io/local-config"];
    !matches!(annotation.as_str(), None | Some("" | "false"))
}

fn defined<'a>(values: impl Iterator<Item = &'a Value>) -> Defined {
    let mut found = Defined::new();
    for value in values.filter(|value| value["kind"] == "CustomResourceDefinition") {
        let spec = &value["spec"];
        let (group, kind) = (spec["group"].as_str(), spec["names"]["kind"].as_str());
        let (Some(group), Some(kind)) = (group, kind) else { continue };
        for version in spec["versions"].as_array().into_iter().flatten() {
            let schema = &version["schema"]["openAPIV3Schema"];
            if let Some(name) = version["name"].as_str().filter(|_| schema.is_object()) {
                found.insert((kind.to_owned(), format!("{group}/{name}")), schema.clone());
            }
        }
    }
    found
}

fn prune(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, member| !member.is_null());
            map.values_mut().for_each(prune);
        }
        Value::Array(list) => list.iter_mut().for_each(prune),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use groundwork_krm::{Package, RenderOptions, Rendered, render};
    use serde_json::json;

    use super::*;

    const CRD: &str = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: sites.example.org\n  annotations:\n    \
                       config.kubernetes.io/local-config: \"false\"\nspec:\n  group: example.org\n  names: {kind: Site, plural: sites}\n  versions:\n  \
                       - name: v1\n    schema:\n      openAPIV3Schema:\n        type: object\n        properties:\n          spec:\n            \
                       type: object\n            properties:\n              zone: {type: string}\n              port: \
                       {x-kubernetes-int-or-string: true}\n            required: [zone]\n";

    /// Returns an OpenAPI document with one kind, as a cluster serves it.
    fn document() -> Value {
        json!({"definitions": {
            "app.v1.Web": {
                "x-kubernetes-group-version-kind": [{"group": "apps", "version": "v1", "kind": "Web"}],
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
                    "spec": {"$ref": "#/definitions/app.v1.WebSpec"},
                },
            },
            "app.v1.WebSpec": {
                "type": "object", "required": ["replicas"],
                "properties": {
                    "replicas": {"type": "integer", "format": "int32"},
                    "port": {"type": "string", "format": "int-or-string"},
                    "memory": {"$ref": format!("#/definitions/io.k8s.apimachinery.pkg.api.resource.Quantity")},
                    "next": {"$ref": "#/definitions/app.v1.WebSpec"},
                },
            },
            "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
            "unused": {"$ref": "#/definitions/none"},
        }})
    }

    fn web(spec: &str) -> String {
        format!("apiVersion: apps/v1\nkind: Web\nmetadata:\n  name: w\nspec: {spec}\n")
    }

    fn rendered(schemas: Schemas, config: &str, objects: &str) -> Rendered {
        let kptfile = format!(
            "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  validators:\n  - image: kubeconform:v0.1.1\n    \
             configMap: {{{config}}}\n"
        );
        let files: Package =
            [("Kptfile".to_owned(), kptfile), ("all.yaml".to_owned(), objects.to_owned())].into();
        let prefixes = RenderOptions::default().native_prefixes;
        let function = Kubeconform::new(schemas, prefixes);
        render(&files, &RenderOptions { runners: vec![&function], ..RenderOptions::default() })
    }

    /// Returns the messages of a run, of both severities.
    fn messages(config: &str, objects: &str) -> Vec<String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), document().to_string()).unwrap();
        let rendered = rendered(Schemas::open(file.path()).unwrap(), config, objects);
        let items = rendered.status.result.unwrap().items;
        let results = items.iter().flat_map(|item| item.results.iter());
        let told: Vec<String> = results
            .map(|result| {
                format!("{} {}", result.severity.as_deref().unwrap(), result.message.as_deref().unwrap())
            })
            .collect();
        assert_eq!(rendered.error.is_some(), told.iter().any(|text| text.starts_with("error")), "{told:?}");
        told
    }

    #[test]
    fn objects_are_checked() {
        let good = web("{replicas: 2, port: http, memory: 5, next: {replicas: 1, port: 80}, other: null}");
        assert!(messages("strict: \"true\"", &good).is_empty());
        let wrong = web("{replicas: two, next: {}, other: 1}");
        let found = messages("", &wrong);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().any(|text| text.starts_with("error spec.replicas: ")), "{found:?}");
        assert!(
            found.iter().any(|text| text.contains("spec.next") && text.contains("replicas")),
            "{found:?}"
        );
        assert_eq!(messages("strict: \"true\"", &wrong).len(), 3, "what is not known is a fault");
        assert!(messages("skip_kinds: \"Other, Web\"", &wrong).is_empty());
    }

    #[test]
    fn kinds_that_packages_define() {
        let site = |spec: &str| {
            format!("{CRD}---\napiVersion: example.org/v1\nkind: Site\nmetadata:\n  name: s\nspec: {spec}\n")
        };
        let told = |config: &str, spec: &str| {
            messages(&format!("skip_kinds: CustomResourceDefinition{config}"), &site(spec))
        };
        assert!(told("", "{zone: a, port: 1, more: x}").is_empty());
        assert_eq!(told("", "{port: [1]}").len(), 2);
        assert_eq!(told(", strict: \"true\"", "{zone: a, port: x, more: x}").len(), 1);
    }

    #[test]
    fn kinds_without_a_schema() {
        let unknown = "apiVersion: v1\nkind: Other\nmetadata:\n  name: o\n";
        let text = "the schema of Other v1 is missing: the object was not checked";
        assert_eq!(messages("", unknown), [format!("error {text}")]);
        assert_eq!(messages("ignore_missing_schemas: \"true\"", unknown), [format!("warning {text}")]);
        let local = "apiVersion: v1\nkind: Other\nmetadata:\n  name: o\n  annotations:\n    config.kubernetes.io/local-config: \"true\"\n";
        assert!(messages("", local).is_empty());
    }

    #[test]
    fn configs_that_cannot_be_used() {
        for (config, says) in [
            ("schema_location: https://example.org", "`data.schema_location` cannot be used"),
            ("strict: yes please", "`data.strict` must be \"true\" or \"false\""),
            ("stricter: \"true\"", "`data.stricter` is unknown"),
        ] {
            let found = messages(config, &web("{replicas: 1}"));
            assert!(found.len() == 1 && found[0].contains(says), "{found:?}");
        }
    }

    #[test]
    fn schemas_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let schema = json!({"$schema": "http://json-schema.org/schema#", "properties": {"spec": {"required": ["replicas"]}}});
        let outside = folder.path().join("outside.json");
        fs::write(&outside, "{}").unwrap();
        let folder = folder.path().join("schemas");
        fs::create_dir_all(folder.join("example.org")).unwrap();
        fs::write(folder.join("web-apps-v1.json"), schema.to_string()).unwrap();
        fs::write(folder.join("example.org/site_v1.json"), "{").unwrap();
        let error = |objects: &str| rendered(Schemas::open(&folder).unwrap(), "", objects).error;
        assert_eq!(error(&web("{replicas: 1}")), None);
        assert!(error(&web("{}")).unwrap().contains("replicas"));
        let of = |api_version: &str, kind: &str| {
            error(&format!("apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: a\n")).unwrap()
        };
        assert!(of("example.org/v1", "Site").contains("site_v1.json is not valid JSON"));
        // A kind or apiVersion in a package cannot name a file outside the folder of schemas.
        for (api_version, kind) in [("..//v1", "outside"), ("a/v1", "../outside"), ("v1/../..", "outside")] {
            assert!(
                of(api_version, kind).contains("is missing: the object was not checked"),
                "{api_version} {kind}"
            );
        }
    }

    #[test]
    fn documents_that_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        assert!(Schemas::open(&path).unwrap_err().to_string().contains("cannot read"));
        for (text, says) in [("{", "is not valid JSON"), ("{}", "has no definitions")] {
            fs::write(&path, text).unwrap();
            let error = Schemas::open(&path).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }
}
