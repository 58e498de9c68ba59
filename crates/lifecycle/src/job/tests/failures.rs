use super::*;

const BLUEPRINT_REFERENCE: &str = "  blueprint: {ref: {resourceName: blueprint}}";

fn with_blueprint_reference(component: &str) -> String {
    installation(&format!("{component}\n{BLUEPRINT_REFERENCE}"))
}

/// Returns a component whose resource `blueprint` has the given members.
fn shop(resource: &str) -> String {
    format!(
        "{{kind: Component, in: R1, id: 'example.org/shop:1.0.0', resources: [{{name: blueprint, {resource}}}]}}"
    )
}

#[track_caller]
fn check(documents: &[&str], operation_and_reason: &str, message_start: &str) {
    let (place, message) = world(documents).error();
    assert_eq!(place, operation_and_reason, "{message}");
    assert!(message.starts_with(message_start), "{message:?} does not begin with {message_start:?}");
}

/// Errors E1, E2 and E4 of `components.md` 8, and cases I-19 and O-26: missing Context, repository
/// or overwrites.
#[test]
fn context_and_overwrites() {
    let installation = with_inline_blueprint(SHOP_REFERENCE);
    let place = "InitPrerequisites/CalculateContext";
    check(
        &[&installation],
        place,
        "Op: Context - Reason: GetContext - Message: context \"team/default\" not found",
    );
    check(
        &[&installation, EMPTY_CONTEXT],
        place,
        "RepositoryContextMissing: neither the installation nor context \"default\" defines a repository context",
    );
    let missing = "Op: ComponentVersionOverwrites - Reason: GetComponentVersionOverwrites - Message: \
                   context 'default' references ComponentVersionOverwrites resource 'rules', which cannot be found";
    check(&[&installation, CONTEXT_WITH_OVERWRITES], place, missing);
    // The error occurs even without a component.
    check(&[&with_inline_blueprint(""), CONTEXT_WITH_OVERWRITES], place, missing);
}

/// Errors of `components.md` 8: E6 for a bad configuration. E2 does not occur if the Context has an
/// ocmConfig (`components.md` 11, item 6).
#[test]
fn ocm_configuration() {
    let installation = with_inline_blueprint(SHOP_REFERENCE);
    let context = "{kind: Context, metadata: {name: default, namespace: team}, ocmConfig: {name: resolvers}}";
    let place = "InitPrerequisites/SetupRegistries";
    check(&[&installation, context], place, "ocm configuration config map \"team/resolvers\" not found");
    let map = |data: &str| format!("{{kind: ConfigMap, metadata: {{name: resolvers}}, data: {{{data}}}}}");
    check(
        &[&installation, context, &map("other: x")],
        place,
        "ocm configuration config map does not contain key \".ocmconfig\"",
    );
    check(
        &[&installation, context, &map(".ocmconfig: '[]'")],
        place,
        "invalid ocm config in \"resolvers\" in namespace \"team\": document: a map is expected",
    );
    // An empty configuration has no rules, so the lookup fails.
    check(
        &[&installation, context, &map(".ocmconfig: ''")],
        "InitPrerequisites/InitInstallationOperation",
        "unable to create installation operation: component version \"example.org/shop:1.0.0\" not found: \
         no repository or ocm resolvers found",
    );
}

/// Errors E7, E8, E15 to E17 and E23 of `components.md` 8: versions that are missing or invalid.
#[test]
fn component_versions() {
    let place = "InitPrerequisites/InitInstallationOperation";
    let installation = with_inline_blueprint(SHOP_REFERENCE);
    let fails = |documents: &[&str], cause: &str| {
        check(documents, place, &format!("unable to create installation operation: {cause}"));
    };
    fails(&[&installation, CONTEXT], "component version \"example.org/shop:1.0.0\" not found in R1");
    let dangling =
        "{kind: Component, in: R1, id: 'example.org/shop:1.0.0', references: {db: 'example.org/db:1'}}";
    fails(
        &[&installation, CONTEXT, dangling],
        "unable to resolve component reference db with component name example.org/db and version 1: \
         component version \"example.org/db:1\" not found in R1",
    );
    let unknown = "{kind: Context, metadata: {name: default}, repositoryContext: {type: warehouse}}";
    let shop = "component version \"example.org/shop:1.0.0\"";
    let cause = format!("cannot load {shop}: repository type \"warehouse\" is unknown");
    fails(&[&installation, unknown], &cause);
    let damaged = "{kind: Component, in: R1, id: 'example.org/shop:1.0.0', descriptor: '[]'}";
    let cause = format!("cannot use the descriptor of {shop}: component descriptor is not a map");
    fails(&[&installation, CONTEXT, damaged], &cause);
    let latest = "  componentDescriptor: {ref: {componentName: example.org/shop, version: latest}}";
    fails(
        &[&with_inline_blueprint(latest), CONTEXT],
        "version \"latest\" of component \"example.org/shop\" is not a semantic version",
    );
    let inline =
        |definition: &str| with_inline_blueprint(&format!("  componentDescriptor: {{inline: {definition}}}"));
    check(
        &[&inline("{meta: {schemaVersion: v7}}"), CONTEXT],
        place,
        "inline component descriptor schema version \"v7\" not supported",
    );
    check(
        &[&inline("{meta: {schemaVersion: v2}, component: {name: UPPER, version: x}}"), CONTEXT],
        place,
        "inline component descriptor UPPER:x is invalid: component.name: ",
    );
}

/// Errors E12, E13, E18, E19 and E25 of `components.md` 8, and cases I-44 to I-46 and I-51:
/// blueprints that are missing or unreadable.
#[test]
fn blueprints() {
    let blueprint_type = "type: landscaper.gardener.cloud/blueprint";
    let (place, start) =
        ("InitPrerequisites/ResolveBlueprint", "unable to resolve blueprint for team/server: ");
    let fails = |resource: &str, cause: &str| {
        let documents = [&with_blueprint_reference(SHOP_REFERENCE), CONTEXT, &shop(resource)];
        check(&documents, place, &format!("{start}{cause}"));
        // The message must name the component version to look at.
        let message = world(&documents).render().error.map(|error| error.cause.message);
        let named = message.is_some_and(|message| message.contains("of component example.org/shop:1.0.0)"));
        assert!(named, "{resource}");
    };
    fails("type: chart", "no handler found for resource type chart");
    fails(
        &format!("{blueprint_type}, mediaType: text/plain"),
        "artifact does not match blueprint downloader (check config media type)",
    );
    fails(&format!("{blueprint_type}, access: {{type: ftp}}"), "access method \"ftp\" not supported");
    // `blueprint.yaml` must be at the root of the tree.
    for files in ["readme: x", "folder/blueprint.yaml: 'kind: Blueprint'"] {
        fails(
            &format!("{blueprint_type}, tree: {{{files}}}"),
            "unable to read blueprint definition: blueprint.yaml: file does not exist",
        );
    }
    fails(&format!("{blueprint_type}, tree: {{blueprint.yaml: '['}}"), "unable to decode blueprint");
    let cause =
        "unable to read blueprint file from inline defined blueprint: blueprint.yaml: file does not exist";
    for files in ["readme: x", "folder: {blueprint.yaml: 'kind: Blueprint'}"] {
        let inline = installation(&format!("  blueprint: {{inline: {{filesystem: {{{files}}}}}}}"));
        check(&[&inline, CONTEXT], place, &format!("{start}{cause}"));
    }
    let other = installation(&format!("{SHOP_REFERENCE}\n  blueprint: {{ref: {{resourceName: nothing}}}}"));
    let cause = "failed to get resource with name \"nothing\" of component example.org/shop:1.0.0: not found; the \
                 component has \"blueprint\"";
    check(&[&other, CONTEXT, &shop(blueprint_type)], place, &format!("{start}{cause}"));
    let cause = "no component descriptor reference defined";
    check(&[&with_blueprint_reference(""), CONTEXT], place, &format!("{start}{cause}"));
}

/// `components.md` 4.1: if the blueprint is broken and a reference dangles, the job reports the
/// blueprint.
#[test]
fn the_blueprint_comes_before_the_closure() {
    let shop = "{kind: Component, in: R1, id: 'example.org/shop:1.0.0', references: {db: 'example.org/db:1'}, \
                resources: [{name: blueprint, type: chart}]}";
    check(
        &[&with_blueprint_reference(SHOP_REFERENCE), CONTEXT, shop],
        "InitPrerequisites/ResolveBlueprint",
        "unable to resolve blueprint for team/server: no handler found for resource type chart",
    );
}

/// Cases I-44, I-45 and item 12 of `components.md` 11: both resource types, plain and packed, with
/// any media type.
#[test]
fn blueprint_resources() {
    let tree = "tree: {blueprint.yaml: '{apiVersion: landscaper.gardener.cloud/v1alpha1, kind: Blueprint}'}";
    for type_name in ["blueprint", "landscaper.gardener.cloud/blueprint"] {
        for rest in [
            "",
            "gzip: true, ",
            "gzip: true, mediaType: application/x-tar, ",
            "mediaType: application/vnd.gardener.landscaper.blueprint.layer.v1.tar+gzip, ",
        ] {
            let shop = shop(&format!("type: {type_name}, {rest}{tree}"));
            let outcome = world(&[&with_blueprint_reference(SHOP_REFERENCE), CONTEXT, &shop]).render();
            assert_eq!(outcome.error, None, "{rest}");
            assert!(outcome.execution.is_none() && outcome.deploy_items.is_empty());
        }
    }
}

/// Errors E3 and E26 of `components.md` 8: validation of the Installation stops a job before it
/// begins.
#[test]
fn invalid_installations() {
    check(
        &[&installation("  blueprint: {}"), CONTEXT],
        "InitPrerequisites/ValidateInstallation",
        "spec.blueprint: ",
    );
}

/// Returns a blueprint with an import, an import execution and a deploy execution.
fn checking_blueprint(errors: &str, item: &str) -> String {
    installation(&format!(
        "
  imports:
    data: [{{name: size, dataRef: size}}]
  blueprint:
    inline:
      filesystem:
        blueprint.yaml: |
          apiVersion: landscaper.gardener.cloud/v1alpha1
          kind: Blueprint
          imports:
          - {{name: size, type: data, schema: {{type: integer}}}}
          importExecutions:
          - {{name: check, type: GoTemplate, template: '{errors}'}}
          deployExecutions:
          - {{name: default, type: GoTemplate, template: '{item}'}}
"
    ))
}

const SIZE: &str = "{kind: DataObject, metadata: {name: size}, data: 3}";
const ITEM: &str = "deployItems: [{name: item, type: landscaper.gardener.cloud/mock, config: {}}]";
const INVALID: &str = "ValidateImports=False ImportValidationFailed: ";
const VALID: &str = "ValidateImports=True ImportsValid: ";
const NOT_RENDERED: &str = "ReconcileExecution=False TemplatingFailed: ";

#[track_caller]
fn check_step(installation: &str, data: &str, place: &str, message: &str, conditions: &[&str]) {
    check(&[installation, EMPTY_CONTEXT, data], place, message);
    let found = world(&[installation, EMPTY_CONTEXT, data]).conditions();
    assert_eq!(found.len(), conditions.len(), "{found:?}");
    for (found, start) in found.iter().zip(conditions) {
        assert!(found.starts_with(start), "{found} does not begin with {start}");
    }
}

/// Cases I-62, I-63: the steps after the prerequisites, each with its condition.
#[test]
fn imports_and_executions() {
    let place = "handlePhaseInit/CreateImportsAndSubobjects";
    let step = |reason: &str| format!("Op: CreateImportsAndSubobjects - Reason: {reason} - Message: ");
    let construct = |reason: &str| {
        format!("{}Op: ConstructImports - Reason: {reason} - Message: ", step("ConstructImports"))
    };
    let good = checking_blueprint("errors: []", ITEM);
    let renamed = good.replace("{name: size, dataRef", "{name: other, dataRef");
    let text = "{kind: DataObject, metadata: {name: size}, data: large}";
    let nothing = "{kind: DataObject, metadata: {name: another}}";
    check_step(
        &good,
        nothing,
        "init/ImportsSatisfied",
        "data import \"size\": unable to fetch data object size",
        &[&format!("{INVALID}data import")],
    );
    check_step(
        &renamed,
        SIZE,
        place,
        &construct("ImportNotFound"),
        &[&format!("{INVALID}blueprint defines")],
    );
    check_step(
        &good,
        text,
        place,
        &construct("SchemaValidationFailed"),
        &[&format!("{INVALID}server.size: ")],
    );
    let render = step("RenderImportExecutions");
    check_step(
        &checking_blueprint("errors: [too small]", ITEM),
        SIZE,
        place,
        &format!("{render}import validation failed: too small"),
        &[&format!("{INVALID}too small")],
    );
    let failing = "{{ fail \"no\" }}";
    check_step(
        &checking_blueprint(failing, ITEM),
        SIZE,
        place,
        &render,
        &[&format!("{INVALID}Unable to template executions")],
    );
    for item in [failing, "deployItems: [{name: item}]"] {
        check_step(
            &checking_blueprint("errors: []", item),
            SIZE,
            place,
            &step("ReconcileExecution"),
            &[VALID, NOT_RENDERED],
        );
    }
}

#[test]
fn success_leaves_true_conditions() {
    let world = world(&[&checking_blueprint("errors: []", ITEM), EMPTY_CONTEXT, SIZE]);
    assert_eq!(world.render().error, None);
    assert_eq!(
        world.conditions(),
        [
            "ValidateImports=True ImportsValid: Imports successfully validated",
            "ReconcileExecution=True ExecutionDeployed: Deploy items successfully rendered",
        ]
    );
}
