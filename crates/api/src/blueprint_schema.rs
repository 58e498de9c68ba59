//! JSON schema of `blueprint.yaml`, for editors (`blueprints.md` 1).

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::Blueprint;

/// Returns the JSON schema of [`Blueprint`].
pub fn blueprint_schema() -> Value {
    let generator = SchemaSettings::draft2019_09().into_generator();
    let mut schema = generator.into_root_schema_for::<Blueprint>().to_value();
    drop_api_keywords(&mut schema);
    schema
}

/// Removes keywords that only an API server understands, and serde's values for absent fields.
fn drop_api_keywords(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            members.retain(|name, value| {
                let api_only =
                    name.starts_with("x-kubernetes-") || matches!(name.as_str(), "crdDefault" | "nullable");
                // A blueprint also has a member named `default`, whose entry is a schema, not a
                // value.
                let serde_default = name == "default" && !value.is_object() && !value.is_boolean();
                !api_only && !serde_default
            });
            members.values_mut().for_each(drop_api_keywords);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_api_keywords),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// B-12, B-13: a skeleton with every field.
    fn skeleton() -> Value {
        json!({
            "apiVersion": "landscaper.gardener.cloud/v1alpha1",
            "kind": "Blueprint",
            "annotations": {"ocmSchemaVersion": "v2"},
            "jsonSchemaVersion": "https://json-schema.org/draft/2019-09/schema",
            "localTypes": {"port": {"type": "integer"}, "anything": true},
            "imports": [
                {"name": "listen", "type": "data", "schema": {"$ref": "local://port"}, "default": 5},
                {"name": "edges", "type": "targetMap", "targetType": "kubernetes-cluster", "required": false},
                {"name": "backup", "required": false, "schema": {}, "default": {"value": null}, "imports": [
                    {"name": "token", "scheme": true},
                ]},
            ],
            "importExecutions": [{"name": "checks", "type": "Spiff", "template": {"errors": []}}],
            "deployExecutions": [{"name": "main", "type": "GoTemplate", "file": "/deploy.tmpl"}],
            "exports": [{"name": "endpoint", "type": "data", "schema": {"type": "string"}}],
            "exportExecutions": [{"type": "GoTemplate", "template": "exports: {}"}],
            "subinstallations": [
                {"file": "/children/dns.yaml"},
                {
                    "apiVersion": "landscaper.gardener.cloud/v1alpha1",
                    "kind": "InstallationTemplate",
                    "name": "db",
                    "blueprint": {"ref": "cd://resources/db"},
                    "imports": {
                        "data": [{"name": "a", "dataRef": "a"}],
                        "targets": [{"name": "t", "target": "t"}, {"name": "m", "targets": [{"k": "t"}]}],
                    },
                    "importDataMappings": {"a": "(( b ))"},
                    "exports": {"data": [{"name": "e", "dataRef": "e"}], "targets": []},
                    "exportDataMappings": {"e": null},
                    "optimization": {"hasNoSiblingImports": true},
                },
            ],
            "subinstallationExecutions": [],
            "jsonSchema": "a misspelt field does no harm",
        })
    }

    fn check(edit: impl FnOnce(&mut Value), valid: bool) {
        let mut blueprint = skeleton();
        edit(&mut blueprint);
        let validator = jsonschema::validator_for(&blueprint_schema()).unwrap();
        let errors: Vec<_> = validator.iter_errors(&blueprint).map(|error| error.to_string()).collect();
        assert_eq!(errors.is_empty(), valid, "{errors:?}");
    }

    #[test]
    fn the_skeleton_is_valid_and_faults_are_found() {
        check(|_| {}, true);
        check(|blueprint| *blueprint = json!({}), true);
        check(|blueprint| blueprint["kind"] = json!("Installation"), false);
        check(|blueprint| blueprint["imports"][0]["type"] = json!("date"), false);
        check(|blueprint| blueprint["imports"][2]["imports"][0]["required"] = json!("no"), false);
        check(|blueprint| blueprint["deployExecutions"][0]["type"] = json!("Helm"), false);
        check(
            |blueprint| blueprint["subinstallations"][1]["imports"]["targets"][0]["targets"] = json!([]),
            false,
        );
    }

    #[test]
    fn only_keywords_of_json_schema() {
        let text = blueprint_schema().to_string();
        assert!(!text.contains("x-kubernetes-") && !text.contains("crdDefault"), "{text}");
    }
}
