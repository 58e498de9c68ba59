//! Whole lives of Installations against an in-memory API server, and the same lives with a process
//! that dies after every write.

mod cluster;
mod deletion;
mod ends;
mod large;
mod lives;
mod model;
mod nested;
mod recorded;
mod refusals;
mod restored;
mod roots;
mod store;

use serde_json::{Value, json};

use cluster::Cluster;

/// Returns a blueprint with one mock item for each name. `>` separates the name from its
/// dependency.
fn blueprint(items: &[&str]) -> String {
    let item = |text: &&str| {
        let (name, depends_on) = text.split_once('>').unwrap_or((text, ""));
        let depends_on: Vec<&str> = depends_on.split(',').filter(|name| !name.is_empty()).collect();
        format!(
            "      - name: {name}\n        type: landscaper.gardener.cloud/mock\n        dependsOn: {depends_on:?}\n        \
             config: {{name: {name}}}\n"
        )
    };
    let items: String = items.iter().map(item).collect();
    format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n\
         imports: [{{name: greeting, type: data, required: false, schema: {{}}}}]\ndeployExecutions:\n- name: default\n  type: GoTemplate\n  \
         template: |\n    deployItems:{}\n{items}",
        if items.is_empty() { " []" } else { "" }
    )
}

fn installation(items: &[&str], imports: &Value) -> Value {
    json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "Installation",
        "metadata": {
            "name": "server", "namespace": "team",
            "annotations": {"landscaper.gardener.cloud/reconcile-if-changed": "true"},
        },
        "spec": {
            "imports": imports,
            "blueprint": {"inline": {"filesystem": {"blueprint.yaml": blueprint(items)}}},
        },
    })
}

fn cluster(items: &[&str]) -> Cluster {
    Cluster::new(installation(items, &json!({})))
}
