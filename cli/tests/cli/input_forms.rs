//! Tests of the ways to give input: files, directories, standard input.

use super::*;

fn repositories() -> String {
    examples().join("echo-server/components/repositories.yaml").display().to_string()
}

#[test]
fn files_streams_lists_and_standard_input() {
    let echo_server = EchoServer::new();
    let expected = echo_server.render(&[]).out;
    let folder = echo_server.folder.path();
    let files: Vec<String> =
        ["context.yaml", "installation.yaml", "component-overwrites.yaml", "greeting.yaml"]
            .iter()
            .map(|file| folder.join(file).display().to_string())
            .collect();
    let repositories = repositories();
    let mut arguments = vec!["render", "--repositories", &repositories];
    let single: Vec<&str> = files.iter().map(String::as_str).collect();
    assert_eq!(groundwork(&[&arguments[..], &single].concat(), "").out, expected);

    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    arguments.push("-");
    assert_eq!(groundwork(&arguments, &texts.join("---\n")).out, expected);

    let items: Vec<Value> = texts.iter().map(|text| groundwork_yaml::from_str(text).unwrap()).collect();
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": items});
    assert_eq!(groundwork(&arguments, &list.to_string()).out, expected);
}

/// A file that is named together with its directory counts once.
#[test]
fn the_same_file_twice() {
    let echo_server = EchoServer::new();
    let file = echo_server.folder.path().join("installation.yaml").display().to_string();
    assert_eq!(echo_server.render(&[&file]).code, 0);
}

/// I-05: values from a DataObject, a Secret and a ConfigMap, whole or one entry; I-10 and the map
/// of targets.
#[test]
fn imports_from_all_sources() {
    let folder = tempfile::tempdir().unwrap();
    let input = r##"
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Context
metadata: {name: default}
---
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: DataObject
metadata: {name: region}
data: {name: eu-1, zones: [a, b]}
---
apiVersion: v1
kind: Secret
metadata: {name: login}
data: {user: YWxpY2U=, port: ODA4MA==}
stringData: {user: bob}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {replicas: "3"}
binaryData: {flag: dHJ1ZQ==}
---
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Target
metadata: {name: cluster-1}
spec: {type: landscaper.gardener.cloud/kubernetes-cluster}
---
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Target
metadata: {name: cluster-2}
spec: {type: landscaper.gardener.cloud/kubernetes-cluster}
---
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Installation
metadata: {name: shop}
spec:
  blueprint:
    inline:
      filesystem:
        blueprint.yaml:
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          imports:
          - {name: region, schema: {type: object}}
          - {name: login, schema: {type: object}}
          - {name: port, schema: {type: integer}}
          - {name: settings, schema: {type: object}}
          - {name: main, targetType: kubernetes-cluster}
          - {name: all, type: targetMap, targetType: kubernetes-cluster}
          deployExecutions:
          - name: one
            type: GoTemplate
            template: |
              deployItems:
              - name: item
                type: landscaper.gardener.cloud/mock
                target: {import: main}
                config:
                  region: {{ .imports.region.name }}
                  zones: {{ toJson .imports.region.zones }}
                  user: {{ .imports.login.user }}
                  port: {{ add .imports.port 1 }}
                  settings: {{ toJson .imports.settings }}
              {{- range $key, $target := .imports.all }}
              - name: on-{{ $key }}
                type: landscaper.gardener.cloud/mock
                target: {import: all, key: {{ $key }}}
                dependsOn: [item]
                config: {target: {{ $target.metadata.name }}}
              {{- end }}
  imports:
    data:
    - {name: region, dataRef: "#region"}
    - {name: login, secretRef: {name: login}}
    - {name: port, secretRef: {name: login, key: port}}
    - {name: settings, configMapRef: {name: settings, key: ""}}
    targets:
    - {name: main, target: cluster-1}
    - {name: all, targets: [{blue: cluster-1}, {red: cluster-2}]}
"##;
    let run = groundwork(&["render", "-", "-o", "json", "--repositories", &repositories()], input);
    assert_eq!(run.code, 0, "{}", run.err);
    let list = run.json();
    let items: Vec<&Value> =
        list["items"].as_array().unwrap().iter().filter(|item| item["kind"] == "DeployItem").collect();
    assert_eq!(
        items[0]["spec"]["config"],
        serde_json::json!({
            "region": "eu-1", "zones": ["a", "b"], "user": "bob", "port": 8081, "settings": {"replicas": 3, "flag": true},
        })
    );
    assert_eq!(items[0]["spec"]["target"], serde_json::json!({"name": "cluster-1", "namespace": "default"}));
    assert_eq!(items[2]["spec"]["config"]["target"], "cluster-2");
    assert_eq!(items[2]["spec"]["target"]["name"], "cluster-2");
    assert_eq!(items[2]["metadata"]["annotations"]["execution.landscaper.gardener.cloud/dependsOn"], "item");
    drop(folder);
}

/// I-69, I-72: an object of the right name in another namespace is never imported, whatever its
/// kind.
#[test]
fn imports_from_another_namespace() {
    let input = |import: &str, object: &str, namespace: &str| {
        format!(
            "
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Context
metadata: {{name: default, namespace: team}}
---
{object}
metadata: {{name: wanted, namespace: {namespace}}}
---
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Installation
metadata: {{name: shop, namespace: team}}
spec:
  imports: {import}
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          imports:
          - {{name: a, required: false, schema: {{}}}}
          - {{name: b, required: false, targetType: example.org/t}}
"
        )
    };
    let ours = "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: ";
    for (import, object, missing) in [
        (
            "{data: [{name: a, secretRef: {name: wanted}}]}",
            "apiVersion: v1\nkind: Secret\nstringData: {k: v}",
            "secret team/wanted not found",
        ),
        (
            "{data: [{name: a, configMapRef: {name: wanted, key: k}}]}",
            "apiVersion: v1\nkind: ConfigMap\ndata: {k: v}",
            "configmap team/wanted not found",
        ),
        (
            "{data: [{name: a, dataRef: wanted}]}",
            &format!("{ours}DataObject\ndata: 1"),
            "unable to fetch data object wanted (wanted): not found in namespace team",
        ),
        (
            "{targets: [{name: b, target: wanted}]}",
            &format!("{ours}Target\nspec: {{type: example.org/t}}"),
            "target team/wanted not found",
        ),
    ] {
        let run = groundwork(&["render", "-", "-o", "json"], &input(import, object, "elsewhere"));
        assert_eq!(run.code, 1, "{import}: {}", run.err);
        let error = run.object("Installation")["status"]["lastError"].clone();
        assert_eq!((&error["operation"], &error["reason"]), (&"init".into(), &"ImportsSatisfied".into()));
        assert!(error["message"].as_str().unwrap().ends_with(&format!(": {missing}")), "{error}");
        let run = groundwork(&["render", "-", "-o", "json"], &input(import, object, "team"));
        assert_eq!(run.code, 0, "{import}: {}", run.err);
    }
}

/// Kubeconfigs that need a cluster have placeholders, and texts that YAML changes are told.
#[test]
fn kubeconfigs_and_changed_texts() {
    let input = r#"
apiVersion: v1
kind: Secret
metadata: {name: login}
stringData: {number: "01234", word: plain}
---
apiVersion: landscaper.gardener.cloud/v1alpha1
kind: Installation
metadata: {name: app}
spec:
  imports: {data: [{name: login, secretRef: {name: login}}]}
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          imports: [{name: login, type: data, schema: {}}]
          deployExecutions:
          - name: d
            type: GoTemplate
            template: |
              deployItems:
              - name: item
                type: landscaper.gardener.cloud/mock
                config:
                  kubeconfig: {{ getServiceAccountKubeconfig "robot" "default" 600 (dict "metadata" (dict "name" "dev")) | b64dec | quote }}
"#;
    let run = groundwork(&["render", "-"], input);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.contains("current-context: service account default/robot"), "{}", run.out);
    let told =
        "data import \"login\": secret default/login is read as YAML, which changes the text of number";
    assert!(run.err.contains(told) && !run.err.contains("01234,"), "{}", run.err);
}
