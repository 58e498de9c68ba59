//! Hostile blueprints that run almost forever, as inputs of tests and benchmarks.

use serde_json::{Map, Value, json};

const API: &str = "landscaper.gardener.cloud/v1alpha1";

/// Template that doubles a list sixty times and prints it.
const DOUBLED: &str =
    "{{ $d := list 1 }}{{ range until 60 }}{{ $d = list $d $d }}{{ end }}{{ toYaml $d | len }}";

/// Returns a blueprint of 250 bytes whose output has 2^60 entries.
pub fn doubled() -> Value {
    let execution = json!({"name": "x", "type": "GoTemplate", "template": DOUBLED});
    json!({"apiVersion": API, "kind": "Blueprint", "deployExecutions": [execution]})
}

/// Returns a definition of the import `v`, in whose schema each rule refers twice to the next one:
/// 5 kB that take 2^60 steps.
pub fn exponential() -> Value {
    let next = |level: usize| json!({"$ref": format!("#/$defs/a{}", level + 1)});
    let rule = |level| (format!("a{level}"), json!({"allOf": [next(level), next(level)]}));
    let mut rules: Map<String, Value> = (0..60).map(rule).collect();
    rules.insert("a60".to_owned(), json!({"type": "string"}));
    let import = json!({"name": "v", "type": "data", "schema": {"$defs": rules, "$ref": "#/$defs/a0"}});
    json!({"apiVersion": API, "kind": "Blueprint", "imports": [import], "deployExecutions": []})
}
