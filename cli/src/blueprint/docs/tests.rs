use groundwork_blueprint::{Blueprint, Filesystem};

use super::*;

fn page_of(blueprint: &str) -> String {
    let mut files = Filesystem::default();
    files.insert("blueprint.yaml", blueprint).unwrap();
    let blueprint = Blueprint::load(files).unwrap();
    let templates = blueprint.static_templates().unwrap();
    page("My *blueprint*", &blueprint.definition, &templates)
}

/// B-43, C-01: the page has the descriptions of schemas, and shows which imports depend on others.
#[test]
fn imports_and_exports() {
    let text = "
localTypes:
  either: {oneOf: [{type: string}, {type: integer}]}
  port: {type: integer, minimum: 1, description: A port.}
imports:
- {name: listen, schema: {$ref: 'local://port'}}
- {name: edges, type: targetMap, targetType: kubernetes-cluster, required: false}
- name: backup
  required: false
  default: {value: 's3://x'}
  schema: {type: string, format: uri, description: 'Where copies go | if at all.', examples: ['s3://a']}
  imports:
  - name: token
    schema: {type: string}
  - name: where
    targetType: my.org/t
    required: false
    imports: [{name: deep, schema: true}]
- name: db
  schema: {type: object, required: [host], properties: {host: {type: string}}}
exports:
- {name: url, schema: {type: string, pattern: '^https?://'}}
- {name: cluster, targetType: kubernetes-cluster}
";
    let expected = r#"# My \*blueprint\*

## Imports

| Name | Type | Required | Default | Rules | Description |
| --- | --- | --- | --- | --- | --- |
| `listen` | data: `local://port` | yes |  |  |  |
| `edges` | targetMap: `landscaper.gardener.cloud/kubernetes-cluster` | no |  |  |  |
| `backup` | data: string | no | `"s3://x"` | format `uri`<br>e.g. `"s3://a"` | Where copies go \| if at all. |
| ↳ `token` | data: string | yes, if `backup` is given |  |  |  |
| ↳ `where` | target: `my.org/t` | no; only if `backup` is given |  |  |  |
| &emsp;↳ `deep` | data | yes, if `where` is given |  |  |  |
| `db` | data: object | yes |  |  |  |

### `db`

| Field | Type | Required |
| --- | --- | --- |
| `host` | string | yes |

## Exports

| Name | Type | Rules |
| --- | --- | --- |
| `url` | data: string | matches `^https?://` |
| `cluster` | target: `landscaper.gardener.cloud/kubernetes-cluster` |  |

## Local types

### `local://either`

```json
{
  "oneOf": [
    {
      "type": "string"
    },
    {
      "type": "integer"
    }
  ]
}
```

### `local://port`

A port.

integer; ≥ `1`
"#;
    assert_eq!(page_of(text), expected);
    assert_eq!(page_of(""), "# My \\*blueprint\\*\n\n## Imports\n\nNone.\n");
}

#[test]
fn children_and_executions() {
    let text = "
imports: [{name: c, targetType: t}, {name: m, type: targetMap, targetType: t}, {name: zone, schema: {}}]
subinstallations:
- name: dns
  blueprint: {ref: 'cd://componentReferences/dns/resources/blueprint'}
  imports:
    data: [{name: zone, dataRef: zone}]
    targets:
    - {name: one, target: c}
    - {name: all, targetMapRef: m}
    - {name: list, targets: [c, 'm[k]']}
    - {name: map, targetMap: {a: c}}
  exports: {data: [{name: address, dataRef: url}], targets: [{name: t, target: t}]}
- {name: own, blueprint: {filesystem: {blueprint.yaml: ''}}}
subinstallationExecutions: [{name: more, type: GoTemplate, file: more.tpl}]
deployExecutions: [{name: main, type: Spiff, template: {deployItems: []}}]
";
    let expected = "
## Nested installations

| Name | Blueprint | Imports | Exports |
| --- | --- | --- | --- |
| `dns` | `cd://componentReferences/dns/resources/blueprint` | `zone`<br>`one` ← `c`<br>`all` ← `m`<br>\
`list` ← `[c, m[k]]`<br>`map` ← `{a: c}` | `address` → `url`<br>`t` |
| `own` | written into it |  |  |

Further ones are rendered by `more`.

## Executions

| Name | Renders | Language | Template |
| --- | --- | --- | --- |
| `more` | subinstallation | GoTemplate | `more.tpl` |
| `main` | deploy | Spiff | in blueprint.yaml |
";
    let page = page_of(text);
    assert!(page.ends_with(expected), "{page}");
    let rendered_only =
        page_of("subinstallationExecutions: [{name: more, type: GoTemplate, file: more.tpl}]");
    assert!(rendered_only.contains("## Nested installations\n\nNested ones are rendered by `more`.\n"));
}

#[test]
fn titles() {
    for (path, name) in
        [("/nowhere/shop", "shop"), ("shop.tar.gz", "shop"), ("shop.tgz", "shop"), ("a/shop.tar", "shop")]
    {
        assert_eq!(name_of(Path::new(path)), name);
    }
}
