//! Tests of jobs over inputs written as YAML streams: the objects of a namespace and the components
//! in repositories.

mod artifact_sets;
mod components;
mod failures;
mod imports;
mod kept;
mod objects;
mod schemas;
mod world;

use world::World;

/// Blueprint without imports. Its one item shows the component data that templates see.
const INLINE_BLUEPRINT: &str = "
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
              - name: item
                type: landscaper.gardener.cloud/mock
                config:
                  definition: {{ toJson .componentDescriptorDef }}
                  component: {{ with .cd }}{{ .component.name }}:{{ .component.version }}{{ end }}
                  all: {{ with .components }}{{ range .components }}{{ .component.name }}:{{ .component.version }} {{ end }}{{ end }}
";

/// Returns an Installation `server` with further members of its `spec`, each indented by two
/// spaces.
fn installation(spec: &str) -> String {
    format!(
        "apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Installation\n\
         metadata: {{name: server, namespace: team}}\nspec:\n{spec}\n"
    )
}

fn with_inline_blueprint(spec: &str) -> String {
    installation(&format!("{spec}\n  blueprint:{INLINE_BLUEPRINT}"))
}

fn world(documents: &[&str]) -> World {
    World::parse(&documents.join("\n---\n"))
}

const CONTEXT: &str = "
kind: Context
metadata: {name: default, namespace: team}
repositoryContext: {type: ociRegistry, baseUrl: R1}";

const EMPTY_CONTEXT: &str = "{kind: Context, metadata: {name: default, namespace: team}}";

const CONTEXT_WITH_OVERWRITES: &str = "
kind: Context
metadata: {name: default, namespace: team}
repositoryContext: {type: ociRegistry, baseUrl: R1}
componentVersionOverwrites: rules";

/// Returns overwrites with one rule that gives a component another version.
fn overwrites(component: &str, version: &str) -> String {
    format!(
        "{{kind: ComponentVersionOverwrites, metadata: {{name: rules, namespace: team}}, overwrites: \
         [{{source: {{componentName: {component}}}, substitution: {{version: {version}}}}}]}}"
    )
}

const SHOP_REFERENCE: &str =
    "  componentDescriptor: {ref: {componentName: example.org/shop, version: 1.0.0}}";
