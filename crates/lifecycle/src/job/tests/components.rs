use serde_json::json;

use super::*;

const SHOPS: &str = "
{kind: Component, in: R1, id: 'example.org/shop:1.0.0', references: {db: 'example.org/db:1.0.0'}}
---
{kind: Component, in: R1, id: 'example.org/shop:2.0.0'}
---
{kind: Component, in: R1, id: 'example.org/db:1.0.0'}
---
{kind: Component, in: R1, id: 'example.org/db:2.0.0'}
---
{kind: Component, in: R2, id: 'example.org/shop:1.0.0'}";

#[track_caller]
fn check(documents: &[&str], component: &str, all: &str) {
    let mut documents = documents.to_vec();
    documents.push(SHOPS);
    let config = world(&documents).config();
    assert_eq!((config["component"].as_str(), config["all"].as_str()), (Some(component), Some(all)));
}

/// Cases I-27 to I-29, I-34, I-52: the Context's repository, and the repository that the reference
/// itself names.
#[test]
fn repositories_by_precedence() {
    check(
        &[&with_inline_blueprint(SHOP_REFERENCE), CONTEXT],
        "example.org/shop:1.0.0",
        "example.org/shop:1.0.0 example.org/db:1.0.0",
    );
    let elsewhere = "  componentDescriptor: {ref: {repositoryContext: {type: ociRegistry, baseUrl: R2}, \
                     componentName: example.org/shop, version: 1.0.0}}";
    for context in [CONTEXT, EMPTY_CONTEXT] {
        check(
            &[&with_inline_blueprint(elsewhere), context],
            "example.org/shop:1.0.0",
            "example.org/shop:1.0.0",
        );
    }
}

/// Cases O-02 to O-04: overwrites of the component itself and of a component below it. Parents need
/// no new release.
#[test]
fn overwritten_components() {
    let installation = with_inline_blueprint(SHOP_REFERENCE);
    check(
        &[&installation, CONTEXT_WITH_OVERWRITES, &overwrites("example.org/shop", "2.0.0")],
        "example.org/shop:2.0.0",
        "example.org/shop:2.0.0",
    );
    check(
        &[&installation, CONTEXT_WITH_OVERWRITES, &overwrites("example.org/db", "2.0.0")],
        "example.org/shop:1.0.0",
        "example.org/shop:1.0.0 example.org/db:2.0.0",
    );
}

/// Case I-24 (`components.md` 4.1, step 2): without a component, templates see null and an empty
/// definition.
#[test]
fn no_component_at_all() {
    let world = world(&[&with_inline_blueprint(""), EMPTY_CONTEXT]);
    assert_eq!(world.config(), json!({"definition": {}, "component": null, "all": null}));
    assert_eq!(world.render().obsolete_conditions, ["ComponentReferenceOverwrite"]);
}

/// `components.md` 4.9: the definition shows the effective reference, with the Context's repository
/// filled in.
#[test]
fn the_definition_binding_holds_the_effective_reference() {
    let rules = overwrites("example.org/shop", "2.0.0");
    let world = world(&[&with_inline_blueprint(SHOP_REFERENCE), CONTEXT_WITH_OVERWRITES, &rules, SHOPS]);
    assert_eq!(
        world.config()["definition"],
        json!({"ref": {"componentName": "example.org/shop", "version": "2.0.0",
            "repositoryContext": {"type": "ociRegistry", "baseUrl": "R1"}}})
    );
}

/// Case B-47: templates see the blueprint reference of the Installation, not the content of the
/// blueprint's file.
#[test]
fn the_blueprint_binding_holds_the_definition_of_the_installation() {
    const BLUEPRINT: &str = r#"
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          deployExecutions:
          - name: default
            type: GoTemplate
            template: |
              deployItems:
              - name: item
                type: landscaper.gardener.cloud/mock
                config: {definition: {{ toJson .blueprintDef }}, resource: {{ with .blueprintDef.ref }}{{ .resourceName }}{{ end }}}
"#;
    let shop = format!(
        "
kind: Component
in: R1
id: example.org/shop:1.0.0
resources:
- name: the-blueprint
  type: blueprint
  tree:
        blueprint.yaml: |{BLUEPRINT}"
    );
    let reference = "{ref: {resourceName: the-blueprint}}";
    let by_reference = installation(&format!("{SHOP_REFERENCE}\n  blueprint: {reference}"));
    let config = world(&[&by_reference, CONTEXT, &shop]).config();
    assert_eq!(
        config,
        json!({"definition": {"ref": {"resourceName": "the-blueprint"}}, "resource": "the-blueprint"})
    );
    let inline =
        format!("  blueprint:\n    inline:\n      filesystem:\n        blueprint.yaml: |{BLUEPRINT}");
    let config = world(&[&installation(&inline), EMPTY_CONTEXT]).config();
    let text = config["definition"]["inline"]["filesystem"]["blueprint.yaml"].as_str().unwrap();
    assert!(text.contains("toJson .blueprintDef"), "{text}");
    assert_eq!(config["definition"].as_object().unwrap().len(), 1);
    assert_eq!(config["resource"], json!(null));
}

const INLINE_SHOP: &str = "
  componentDescriptor:
    inline:
      meta: {schemaVersion: v2}
      component:
        name: example.org/shop
        version: 1.0.0
        componentReferences:
        - name: ingress
          componentName: example.org/ingress
          version: v0.2.0
          labels:
          - name: landscaper.gardener.cloud/component-descriptor
            value:
              meta: {schemaVersion: v2}
              component:
                name: example.org/ingress
                version: v0.2.0
                componentReferences:
                - name: leaf
                  componentName: example.org/leaf
                  version: 3.0.0
                  labels:
                  - name: landscaper.gardener.cloud/component-descriptor
                    value: {meta: {schemaVersion: v2}, component: {name: example.org/leaf, version: 3.0.0}}
";
const ALL_INLINE: &str = "example.org/shop:1.0.0 example.org/ingress:v0.2.0 example.org/leaf:3.0.0";

/// Cases I-25, I-35, I-37, I-39 to I-41: inline components on three levels, without a repository,
/// and in preference to an equal component in one.
#[test]
fn inline_components() {
    for context in [EMPTY_CONTEXT, CONTEXT] {
        check(&[&with_inline_blueprint(INLINE_SHOP), context], "example.org/shop:1.0.0", ALL_INLINE);
    }
    let config = world(&[&with_inline_blueprint(INLINE_SHOP), EMPTY_CONTEXT]).config();
    assert_eq!(config["definition"]["inline"]["component"]["name"], "example.org/shop");
}

/// `components.md` 2.4 b: an overwritten inline component is looked up in the Context's repository.
/// If name and version stay the same, it stays inline.
#[test]
fn overwritten_inline_components() {
    let installation = with_inline_blueprint(INLINE_SHOP);
    let rules = overwrites("example.org/shop", "2.0.0");
    check(
        &[&installation, CONTEXT_WITH_OVERWRITES, &rules],
        "example.org/shop:2.0.0",
        "example.org/shop:2.0.0",
    );
    let rules = "{kind: ComponentVersionOverwrites, metadata: {name: rules}, overwrites: [\
                 {source: {}, substitution: {repositoryContext: {type: ociRegistry, baseUrl: R2}}}]}";
    check(&[&installation, CONTEXT_WITH_OVERWRITES, rules], "example.org/shop:1.0.0", ALL_INLINE);
}

const RESOLVER_CONTEXT: &str = "
kind: Context
metadata: {name: default, namespace: team}
ocmConfig: {name: resolvers}";

/// `components.md` 4.1 step 5, 4.2 step 3: without any repository context, the resolvers find every
/// component.
#[test]
fn resolvers_find_components() {
    let config = "{type: generic.config.ocm.software/v1, configurations: [{type: other}, \
                  {type: ocm.config.ocm.software, \
                  resolvers: [{prefix: example.org, repository: {type: ociRegistry, baseUrl: R1}}]}]}";
    let config =
        json!({"kind": "ConfigMap", "metadata": {"name": "resolvers"}, "data": {".ocmconfig": config}})
            .to_string();
    let installation = with_inline_blueprint(SHOP_REFERENCE);
    let documents = [installation.as_str(), RESOLVER_CONTEXT, &config];
    check(&documents, "example.org/shop:1.0.0", "example.org/shop:1.0.0 example.org/db:1.0.0");
    let warnings = world(&[&installation, RESOLVER_CONTEXT, &config, SHOPS]).render().warnings;
    let warnings: Vec<_> = warnings.iter().map(|warning| warning.message.as_str()).collect();
    assert_eq!(
        warnings,
        [
            "ocm config in \"resolvers\": configurations[0].type \"other\" is ignored: only resolvers of the types \
             ocm.config.ocm.software and resolvers.config.ocm.software are supported"
        ]
    );
}

const OVERWRITTEN: &str = "ComponentReferenceOverwrite=True FoundOverwrite: Component reference has been overwritten:\n\
     RepositoryContext has not been overwritten\nComponentName has not been overwritten\n1.0.0 -> 2.0.0";
const NOT_OVERWRITTEN: &str =
    "ComponentReferenceOverwrite=False No overwrite defined: component reference has not been overwritten";
const IMPORTS_VALID: &str = "ValidateImports=True ImportsValid: Imports successfully validated";
const RENDERED: &str = "ReconcileExecution=True ExecutionDeployed: Deploy items successfully rendered";

/// Cases O-25, O-29, O-38 to O-40 and divergence D-3 (`components.md` 10.1): the condition appears,
/// changes and is removed.
#[test]
fn the_overwrite_condition() {
    let installation = with_inline_blueprint(SHOP_REFERENCE);
    let check = |context: &str, rules: &str, conditions: &[&str], obsolete: &[&str]| {
        let world = world(&[&installation, context, rules, SHOPS]);
        assert_eq!(world.conditions(), conditions);
        assert_eq!(world.render().obsolete_conditions, obsolete);
    };
    let matching = overwrites("example.org/shop", "2.0.0");
    let other = overwrites("example.org/other", "2.0.0");
    let empty = "{kind: ComponentVersionOverwrites, metadata: {name: rules}}";
    check(CONTEXT_WITH_OVERWRITES, &matching, &[OVERWRITTEN, IMPORTS_VALID, RENDERED], &[]);
    check(CONTEXT_WITH_OVERWRITES, &other, &[NOT_OVERWRITTEN, IMPORTS_VALID, RENDERED], &[]);
    check(CONTEXT_WITH_OVERWRITES, empty, &[NOT_OVERWRITTEN, IMPORTS_VALID, RENDERED], &[]);
    // The overwrites object exists, but the Context does not name it.
    check(CONTEXT, &matching, &[IMPORTS_VALID, RENDERED], &["ComponentReferenceOverwrite"]);
}

/// `components.md` 3.2: the condition about overwrites is kept even if the job fails at a later
/// step.
#[test]
fn the_overwrite_condition_outlives_failures() {
    let gone = overwrites("example.org/shop", "9.0.0");
    let world = world(&[&with_inline_blueprint(SHOP_REFERENCE), CONTEXT_WITH_OVERWRITES, &gone, SHOPS]);
    assert_eq!(world.conditions(), [OVERWRITTEN.replace("2.0.0", "9.0.0")]);
    assert!(world.error().1.contains("\"example.org/shop:9.0.0\" not found in R1"));
}

/// Cases I-36, I-38: only the descriptor is inline. Its blobs are read from the effective
/// repository, then from the repository that the descriptor names.
#[test]
fn blobs_of_inline_components() {
    let inline = |contexts: &str| {
        installation(&format!(
            "  blueprint: {{ref: {{resourceName: blueprint}}}}
  componentDescriptor:
    inline:
      meta: {{schemaVersion: v2}}
      component:
        name: example.org/inline
        version: 1.0.0
        repositoryContexts: [{contexts}]
        resources:
        - name: blueprint
          type: blueprint
          access: {{type: localBlob, localReference: 'example.org/store:1.0.0/blueprint'}}"
        ))
    };
    let store = |place: &str| {
        format!(
            "{{kind: Component, in: {place}, id: 'example.org/store:1.0.0', resources: [{{name: blueprint, type: x, \
             tree: {{blueprint.yaml: '{{apiVersion: landscaper.gardener.cloud/v1alpha1, kind: Blueprint}}'}}}}]}}"
        )
    };
    let elsewhere = "{type: ociRegistry, baseUrl: R2}";
    let rules = format!(
        "{{kind: ComponentVersionOverwrites, metadata: {{name: rules}}, overwrites: \
         [{{source: {{repositoryContext: {elsewhere}}}, substitution: {{repositoryContext: {{type: ociRegistry, \
         baseUrl: R3}}}}}}]}}"
    );
    for (contexts, context, place, found) in [
        ("", CONTEXT, "R1", true),
        (elsewhere, CONTEXT, "R2", true),
        (elsewhere, CONTEXT, "R1", false),
        (elsewhere, CONTEXT_WITH_OVERWRITES, "R3", true),
        (elsewhere, CONTEXT_WITH_OVERWRITES, "R2", true),
        ("", EMPTY_CONTEXT, "R1", false),
        ("{type: warehouse}", CONTEXT, "R1", false),
    ] {
        let error = world(&[&inline(contexts), context, &rules, &store(place)]).render().error;
        assert_eq!(error.is_none(), found, "{contexts} {place}: {error:?}");
    }
    let message = |contexts: &str| world(&[&inline(contexts), EMPTY_CONTEXT]).error().1;
    assert!(
        message("").contains("of the inline component example.org/inline:1.0.0, which has no repository")
    );
    assert!(message("{type: warehouse}").contains("repository type \"warehouse\" is unknown"));
}
