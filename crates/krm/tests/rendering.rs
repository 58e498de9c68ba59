//! Properties of every rendering, and of the store's changes to packages, with generated files
//! (`packagevariants.md` 6.7, 6.8, 8).

#![allow(clippy::unwrap_used, reason = "helpers of tests fail like tests")]

use groundwork_krm::{
    Package, RenderOptions, add_merge_keys, copy_comments, describe, render, same_content, set_context,
};
use proptest::prelude::*;

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: a\n";

/// Functions with configs that change the objects below.
const FUNCTIONS: &[&str] = &[
    "{image: set-namespace, configMap: {namespace: x}}",
    "{image: set-namespace, configMap: {namespace: x, namespaceMatcher: b}}",
    "{image: set-labels, configMap: {a: x, new: y}}",
    "{image: set-annotations, configMap: {a: x}}",
    "{image: apply-setters, configMap: {a: '5', b: '[c, d]'}}",
    "{image: apply-setters, configMap: {a: '', b: ''}}",
    "{image: search-replace, configMap: {by-value: b, put-value: x}}",
    "{image: search-replace, configMap: {by-path: spec.**.a, put-value: '7', put-comment: why}}",
    "{image: search-replace, configMap: {by-path: metadata.annotations.y, put-value: z}}",
    "{image: set-image, configMap: {name: b, newTag: '1'}}",
    "{image: ensure-name-substring, configMap: {prepend: x-}}",
    "{image: set-name-suffix, configMap: {suffix: -x}}",
    "{image: upsert-resource, configPath: u.yaml}",
    "{image: apply-replacements, configPath: r.yaml}",
    "{image: delete-resource, selectors: [{name: b}]}",
    "{image: remove-local-config-resources}",
];

const UPSERT: &str = "apiVersion: v1\nkind: Secret\nmetadata:\n  name: u\n  annotations: {config.kubernetes.io/target-path: n/u.yaml}\n";
const REPLACE: &str = "apiVersion: fn.kpt.dev/v1alpha1\nkind: ApplyReplacements\nmetadata: {name: r}\nreplacements:\n- sourceValue: v\n  \
                       targets:\n  - select: {kind: Pod|Deployment}\n    fieldPaths: [spec.a, 'spec.l.[a=b].c']\n    options: {create: true}\n";

fn scalar() -> impl Strategy<Value = String> {
    prop_oneof![Just("b"), Just("'b'"), Just("5"), Just("true"), Just("b:1"), Just("null"), Just("''")]
        .prop_map(str::to_owned)
}

fn object() -> impl Strategy<Value = String> {
    let kind = prop_oneof![
        Just("v1\nkind: Pod"),
        Just("apps/v1\nkind: Deployment"),
        Just("v1\nkind: ConfigMap"),
        Just("x/v1\nkind: Y")
    ];
    (kind, "[a-c]", prop::collection::vec((scalar(), "[ab]"), 6)).prop_map(|(kind, name, values)| {
        let value = |at: usize| {
            let (value, setter) = &values[at];
            format!("{value} # kpt-set: ${{{setter}}}")
        };
        let plain = |at: usize| &values[at].0;
        format!(
            "# above\napiVersion: {kind}\nmetadata:\n  name: {name}\n  labels: {{a: {}}}\nspec:\n  a: {}\n  containers:\n    - name: a\n      \
             image: {}\n  l: [{{a: {}}}] # kpt-set: ${{b}}\n  m:\n    a: {}\n    # below\n",
            plain(0),
            value(1),
            plain(2),
            plain(3),
            value(4),
        )
    })
}

fn package(function: &str, objects: &[String]) -> Package {
    [
        ("Kptfile", format!("{KPTFILE}pipeline:\n  mutators:\n  - {function}\n")),
        ("a.yaml", objects.join("---\n")),
        ("u.yaml", UPSERT.to_owned()),
        ("r.yaml", REPLACE.to_owned()),
        ("t.txt", "text".to_owned()),
    ]
    .map(|(path, text)| (path.to_owned(), text))
    .into()
}

proptest! {
    /// A second run of a function changes nothing (`packagevariants.md` 8.5).
    #[test]
    fn functions_have_fixed_points(function in prop::sample::select(FUNCTIONS), objects in prop::collection::vec(object(), 1..4)) {
        let files = package(function, &objects);
        let once = render(&files, &RenderOptions::default());
        if let Some(error) = &once.error {
            prop_assert_eq!(&once.files, &files, "{}", error);
            return Ok(());
        }
        let twice = render(&once.files, &RenderOptions::default());
        prop_assert_eq!(&twice.error, &None, "{}", function);
        prop_assert!(same_content(&once.files, &twice.files), "{}\n{:#?}\n{:#?}", function, once.files, twice.files);
    }

    /// No text causes a panic, and every operation has a fixed point.
    #[test]
    fn any_text_has_one_answer(text in "[a-z:#\\-\\[\\]{} \n'\"|>&*!%]{0,60}", name in prop::sample::select(vec!["a.yaml", "Kptfile", "a.json", "package-context.yaml"])) {
        let mut files = package(FUNCTIONS[2], &[]);
        files.insert(name.to_owned(), text.clone());
        prop_assert_eq!(render(&files, &RenderOptions::default()), render(&files, &RenderOptions::default()));
        let _ = describe(&files);
        let mut changed = files.clone();
        set_context(&mut changed, "n/a");
        add_merge_keys(&mut changed);
        let mut again = changed.clone();
        set_context(&mut again, "n/a");
        add_merge_keys(&mut again);
        prop_assert_eq!(&again, &changed);
        copy_comments(&files, &mut again);
    }
}
