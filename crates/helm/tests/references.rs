//! Tests of references in values.schema.json to files of the chart (`helm.md` 5, R8).

use groundwork_helm::{Chart, File, Renderer, Request};
use serde_json::{Value, json};

const DESCRIPTION: &str = "{apiVersion: v2, name: c, version: 0.1.0}";

/// Returns the faults of the values of a chart with these files, without the heading above them.
fn complaint(files: &[(&str, Value)], values: Value) -> String {
    let mut all = vec![File::new("Chart.yaml", DESCRIPTION.as_bytes())];
    all.extend(files.iter().map(|(path, content)| {
        let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
        File::new(*path, text.into_bytes())
    }));
    let chart = Chart::from_directory(all).expect("it is a chart");
    let values = serde_json::from_value(values).expect("they are a table");
    match Renderer::new(chart).render(&Request { values, ..Request::default() }) {
        Ok(_) => String::new(),
        Err(error) => {
            let text = error.to_string();
            let above =
                "values don't meet the specifications of the schema(s) in the following chart(s):\nc:\n";
            text.strip_prefix(above).unwrap_or(&text).trim_end().to_owned()
        }
    }
}

fn not_allowed(reference: &str) -> String {
    format!("schema reference {reference} is not allowed")
}

const TEXT: &str = "- at '/v': got number, want string";

#[test]
fn files_are_known_by_their_ids() {
    let schema = json!({"properties": {"v": {"$ref": "https://a.ex/schemas/text.json#/$defs/t"}}});
    let text = json!({"$id": "https://a.ex/schemas/text.json", "$defs": {"t": {"type": "string"}}});
    for path in ["schemas/text.json", "other.json", "deep/er/x.schema.json"] {
        let files = [("values.schema.json", schema.clone()), (path, text.clone())];
        assert_eq!(complaint(&files, json!({"v": 1})), TEXT, "{path}");
        assert_eq!(complaint(&files, json!({"v": "x"})), "", "{path}");
    }
    // Templates, and files that are not JSON, cannot be referred to.
    for path in ["schemas/text.yaml", "templates/text.json"] {
        let files = [("values.schema.json", schema.clone()), (path, text.clone())];
        let expected = not_allowed("https://a.ex/schemas/text.json#/$defs/t");
        assert_eq!(complaint(&files, json!({"v": 1})), expected, "{path}");
    }
    // Draft 4 has the keyword `id`, and an id may be relative to the place of the file.
    let old = json!({"$schema": "http://json-schema.org/draft-04/schema#", "id": "https://a.ex/schemas/text.json", "$defs": {"t": {"type": "string"}}});
    let files = [("values.schema.json", schema), ("x.json", old)];
    assert_eq!(complaint(&files, json!({"v": 1})), TEXT);
    let schema =
        json!({"$id": "https://a.ex/c/values.schema.json", "properties": {"v": {"$ref": "named.json"}}});
    let files = [
        ("values.schema.json", schema),
        ("schemas/x.json", json!({"$id": "../named.json", "type": "string"})),
    ];
    assert_eq!(complaint(&files, json!({"v": 1})), TEXT);
}

/// Case as in the common library of bjw-s: the schema has an address, and the files beside it have
/// none of their own.
#[test]
fn files_lie_beside_the_schema() {
    let schema = json!({"$id": "https://a.ex/1.0/c/values.schema.json", "properties": {"v": {"$ref": "schemas/a.json#/instance"}}});
    let a = json!({"instance": {"$ref": "b.json#/text"}});
    let b = json!({"text": {"$ref": "#/own"}, "own": {"type": "string"}});
    let files = [("values.schema.json", schema.clone()), ("schemas/a.json", a), ("schemas/b.json", b)];
    assert_eq!(complaint(&files, json!({"v": 1})), TEXT);
    assert_eq!(complaint(&files, json!({"v": ""})), "");
    assert_eq!(complaint(&files[..1], json!({})), not_allowed("https://a.ex/1.0/c/schemas/a.json#/instance"));
    assert_eq!(complaint(&files[..2], json!({})), not_allowed("https://a.ex/1.0/c/schemas/b.json#/text"));
    // If the schema has no address, neither have the files, as in Helm.
    let schema = json!({"properties": {"v": {"$ref": "schemas/b.json#/text"}}});
    let files = [("values.schema.json", schema), ("schemas/b.json", json!({"text": {}}))];
    assert_eq!(complaint(&files, json!({})), not_allowed("schemas/b.json#/text"));
}

/// Case: a chart may refer to files of its subcharts, enabled or not. Subcharts may not refer to
/// files of their parents.
#[test]
fn charts_below_hold_files() {
    let library = json!({
        "$schema": "http://json-schema.org/draft-07/schema#", "$id": "https://a.ex/lib/values.schema.json",
        "properties": {"v": {"$ref": "schemas/t.json"}},
    });
    let description = json!(
        "{apiVersion: v2, name: c, version: 0.1.0, dependencies: [{name: lib, version: '*', condition: lib.on}]}"
    );
    let files = [
        ("Chart.yaml", description),
        ("values.schema.json", json!({"$ref": "https://a.ex/lib/values.schema.json"})),
        ("charts/lib/Chart.yaml", json!("{apiVersion: v2, name: lib, version: 0.1.0, type: library}")),
        ("charts/lib/values.schema.json", library),
        ("charts/lib/schemas/t.json", json!({"type": "string"})),
    ];
    assert_eq!(complaint(&files, json!({"v": 1, "lib": {"on": true}})), TEXT.to_owned());
    assert_eq!(complaint(&files, json!({"v": 1, "lib": {"on": false}})), TEXT);
    assert_eq!(complaint(&files, json!({"v": ""})), "");
    let files = [
        ("schemas/t.json", json!({"$id": "https://a.ex/t.json"})),
        ("charts/lib/Chart.yaml", json!("{apiVersion: v2, name: lib, version: 0.1.0}")),
        ("charts/lib/values.schema.json", json!({"$ref": "https://a.ex/t.json"})),
    ];
    let text = complaint(&files, json!({"lib": {}}));
    assert!(text.ends_with(&format!("lib:\n{}", not_allowed("https://a.ex/t.json"))), "{text}");
}

/// Case: of two files with the same address the chart's own counts, and then the first by path.
/// Files that are not JSON do not count.
#[test]
fn the_first_file_counts() {
    let schema = json!({"$ref": "https://a.ex/t.json"});
    let with = |required: &str| json!({"$id": "https://a.ex/t.json", "required": [required]});
    let files = [
        ("values.schema.json", schema),
        ("a.json", json!("{broken")),
        ("b.json", with("b")),
        ("c.json", with("c")),
        ("charts/a/Chart.yaml", json!("{apiVersion: v2, name: a, version: 0.1.0}")),
        ("charts/a/a.json", with("a")),
    ];
    assert_eq!(complaint(&files, json!({})), "- at '': missing property 'b'");
}

/// Case: the error names the same reference each time, the first one by its place.
#[test]
fn the_first_reference_is_refused() {
    let schema = json!({"$id": "https://a.ex/root.json", "properties": {"a": {"$ref": "1.json"}, "b": {"$ref": "2.json"}}});
    for _ in 0..20 {
        let files = [("values.schema.json", schema.clone())];
        assert_eq!(complaint(&files, json!({})), not_allowed("https://a.ex/1.json"));
    }
    let files = [("values.schema.json", json!({"$ref": "other.json"}))];
    assert_eq!(complaint(&files, json!({})), not_allowed("other.json"));
    let files = [("values.schema.json", json!({"$ref": "https://a.ex/x.json"}))];
    assert_eq!(complaint(&files, json!({})), not_allowed("https://a.ex/x.json"));
}

/// Case: the documents of one schema are limited, in the number of files and in bytes.
#[test]
fn what_is_looked_at_has_an_end() {
    let schema = json!({"$ref": "https://a.ex/z.json"});
    let target = json!({"$id": "https://a.ex/z.json", "required": ["x"]});
    let with_files = |count: usize| {
        let mut files = vec![("values.schema.json".to_owned(), schema.clone())];
        files.extend((0..count).map(|at| (format!("f/{at:04}.json"), json!({}))));
        files.push(("z.json".to_owned(), target.clone()));
        let files: Vec<(&str, Value)> =
            files.iter().map(|(path, file)| (path.as_str(), file.clone())).collect();
        complaint(&files, json!({}))
    };
    assert_eq!(with_files(990), "- at '': missing property 'x'");
    assert_eq!(with_files(1_000), not_allowed("https://a.ex/z.json"));
    let large = |name: &str, next: &str| json!({"$id": format!("https://a.ex/{name}"), "$ref": next, "description": "x".repeat(3 << 20)});
    let files = [
        ("values.schema.json", json!({"$ref": "https://a.ex/a.json"})),
        ("a.json", large("a.json", "b.json")),
        ("b.json", large("b.json", "#/$defs/x")),
    ];
    assert_eq!(complaint(&files, json!({})), not_allowed("https://a.ex/b.json"));
}
