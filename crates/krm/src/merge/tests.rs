use super::*;

/// Merges without the content that the store has made.
fn merge(
    strategy: Strategy,
    original: &Package,
    updated: &Package,
    local: &Package,
) -> Result<Merged, MergeError> {
    super::merge(strategy, Versions::new(original, updated, local))
}

const KPTFILE_TEXT: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: a\n";

fn package(files: &[(&str, &str)]) -> Package {
    let kptfile = (KPTFILE, KPTFILE_TEXT);
    [&[kptfile], files].concat().into_iter().map(|(path, text)| (path.to_owned(), text.to_owned())).collect()
}

/// Merges one file of resources. Returns its text, `-` if it is removed, or the error.
fn merged(original: &str, updated: &str, local: &str) -> (String, Vec<String>) {
    let file = |text: &str| if text == "-" { package(&[]) } else { package(&[("a.yaml", text)]) };
    match merge(Strategy::ResourceMerge, &file(original), &file(updated), &file(local)) {
        Ok(mut merged) => {
            let warnings = merged.warnings.into_iter().map(|(path, text)| format!("{path}: {text}"));
            (merged.files.remove("a.yaml").unwrap_or_else(|| "-".to_owned()), warnings.collect())
        }
        Err(error) => (error.to_string(), Vec::new()),
    }
}

fn check(original: &str, updated: &str, local: &str, expected: &str) {
    assert_eq!(merged(original, updated, local).0, expected, "{original}\n{updated}\n{local}");
}

/// Merges fields of an object of unknown kind.
fn check_fields(original: &str, updated: &str, local: &str, expected: &str) {
    let whole =
        |fields: &str| format!("apiVersion: example.org/v1\nkind: X\nmetadata: {{name: a}}\n{fields}");
    check(&whole(original), &whole(updated), &whole(local), &whole(expected));
}

/// V-003, V-030: the worked example of `packagevariants.md` 7.5.
#[test]
fn the_worked_example() {
    check_fields(
        "spec:\n  replicas: 1\n  paused: false\n  strategy: {type: X}\n  args: [a]\n",
        "spec:\n  replicas: 3\n  strategy: {type: X}\n  args: [a]\n",
        "spec:\n  replicas: 5\n  paused: true\n  strategy: {type: Y}\n  args: [a, b]\n",
        "spec:\n  replicas: 3\n  strategy: {type: Y}\n  args: [a, b]\n",
    );
}

#[test]
fn comments_of_fields() {
    check_fields(
        "# why 1\nsize: 1 # a\nmode: x # a\n",
        "# why 2\nsize: 2 # b\nmode: x # changed\n",
        "# my why\nsize: 1 # mine\nmode: x # a\n",
        "# my why\nsize: 2 # b\nmode: x # a\n",
    );
    check_fields(
        "a: 1\n",
        "a: 1\n# of b\nb: 2 # new\nc: # of c\n  d: 1\n",
        "a: 1\n",
        "a: 1\n# of b\nb: 2 # new\nc: # of c\n  d: 1\n",
    );
}

#[test]
fn scalars_row_by_row() {
    for (original, updated, local, expected) in [
        ("a: 1\n", "a: null\n", "a: 2\n", ""),
        ("a: 1\n", "a: 1\n", "a: ~\n", ""),
        ("a: ~\n", "a: 3\n", "a:\n", "a: 3\n"),
        ("a: ~\n", "a: ~\n", "a: ~\n", ""),
        ("", "", "a: null\n", ""),
        ("", "a: 2\n", "a: 1\n", "a: 2\n"),
        ("a: 1\n", "", "a: 2\n", ""),
        ("", "", "a: 2\n", "a: 2\n"),
        ("a: 1\n", "a: 1\n", "", ""),
        ("a: 1\n", "a: 2\n", "", "a: 2\n"),
        ("a: 8\n", "a: \"8\"\n", "a: 9\n", "a: 9\n"),
        ("a: \"1\"\n", "a: 80\n", "a: '1'\n", "a: 80\n"),
        ("a: x\n", "a: y\n", "a: 'x'\n", "a: 'y'\n"),
        ("a: x\n", "a: \"5\"\n", "a: x\n", "a: \"5\"\n"),
        ("a: \"\"\n", "a: \"\"\n", "a: \"\"\n", "a: \"\"\n"),
    ] {
        check_fields(original, updated, local, expected);
    }
}

#[test]
fn maps_that_end_empty() {
    check_fields("m: {a: 1}\n", "m: {}\n", "m: {a: 1}\n", "m: {}\n");
    check_fields("m: {a: 1}\n", "m: {a: 1}\n", "", "");
    check_fields("", "m: {}\n", "", "m: {}\n");
    check_fields("", "m: {b: 1, a: [x]} # c\n", "", "m: # c\n  a: [x]\n  b: 1\n");
}

/// The example of associative lists in `packagevariants.md` 7.5.
#[test]
fn elements_by_their_keys() {
    let pod = |containers: &str| {
        format!("apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers:\n{containers}")
    };
    let (text, warnings) = merged(
        &pod(
            "  - {name: dns, image: r/dns:3, ports: [{containerPort: 8443, name: t}]}\n  - {name: log, image: r/log:3}\n",
        ),
        &pod("  - {name: dns, image: r/dns:3, ports: [{containerPort: 8443, name: tls, protocol: TCP}]}\n"),
        &pod(
            "  - {name: dns, image: r/dns:3, ports: [{containerPort: 8443, name: t, hostPort: 443}]}\n  - {name: log, image: \
             r/log:3, workingDir: /log}\n",
        ),
    );
    assert_eq!(
        text,
        pod(
            "  - {name: dns, image: r/dns:3, ports: [{containerPort: 8443, name: tls, hostPort: 443, protocol: TCP}]}\n  - {name: \
             log, workingDir: /log}\n"
        )
    );
    let warning =
        "a.yaml: spec.containers: element log is incomplete: upstream and local changes exclude one another";
    assert_eq!(warnings, [warning]);
    check(
        &pod("  - {name: a, image: i}\n  - {name: b, image: i}\n"),
        &pod("  - {name: a, image: j}\n  - {name: c, image: i}\n"),
        &pod("  - {name: own, image: i}\n  - {name: b, image: i}\n"),
        &pod("  - {name: own, image: i}\n  - {name: a, image: j}\n  - {name: c, image: i}\n"),
    );
}

/// The example of a list in a kind with a CRD in the package.
#[test]
fn elements_by_the_keys_of_a_crd() {
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: x}\nspec:\n  group: \
               example.org\n  names: {kind: X}\n  versions:\n  - name: v1\n    schema: {openAPIV3Schema: {properties: {peers: {type: \
               array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [host, port], items: {properties: {port: {default: \
               179}}}}}}}\n";
    let file = |peers: &str| {
        let object = format!("apiVersion: example.org/v1\nkind: X\nmetadata: {{name: a}}\npeers:\n{peers}");
        package(&[("a.yaml", &object), ("crd.yaml", crd)])
    };
    let found = merge(
        Strategy::ResourceMerge,
        &file("- {host: r1, as: 1}\n"),
        &file("- {host: r1, as: 2}\n- {host: r2, as: 1}\n"),
        &file("- {host: r1, port: 179, as: 1}\n- {host: mine, as: 9}\n"),
    );
    let expected = file("- {host: r1, port: 179, as: 2}\n- {host: mine, as: 9}\n- {host: r2, as: 1}\n");
    assert_eq!(found.unwrap().files, expected);
}

#[test]
fn objects_come_and_go() {
    let object = |name: &str| format!("apiVersion: v1\nkind: X\nmetadata:\n  name: {name}\n");
    let (a, b) = (object("a"), object("b"));
    let both = format!("{a}---\n# of b\n{b}");
    check(&both, &a, &both, &a);
    check(&both, &a, &both.replace("name: b", "name: b # mine"), &a);
    check(
        &both,
        &a,
        &both.replace("name: b\n", "name: b\nmine: 1\n"),
        &both.replace("name: b\n", "name: b\nmine: 1\n"),
    );
    check(&a, &both, &a, &both);
    check(&both, &both, &a, &a);
    check(&both, "-", &both, "-");
    check("-", &both, "-", &both);
    // The merge key contains the upstream name.
    let keyed = a.replace("metadata:", "metadata: # kpt-merge: /a").replace("name: a", "name: mine");
    check(
        &a,
        &a.replace("name: a\n", "name: a\nnew: 1\n"),
        &keyed,
        &keyed.replace("name: mine\n", "name: mine\nnew: 1\n"),
    );
    check(&a, "-", &a.replace("metadata:", "metadata: # kpt-merge: /a"), "-");
    // An object that moves takes its comments along.
    check(&both, &format!("{b}---\n{a}"), &both, &format!("# of b\n{b}---\n{a}"));
}

#[test]
fn errors_in_the_words_of_the_chapter() {
    let object = "apiVersion: v1\nkind: X\nmetadata: {name: gw}\n";
    check(
        &format!("{object}spec:\n  tls: yes\n"),
        &format!("{object}spec:\n  tls: yes\n"),
        &format!("{object}spec:\n  tls: {{on: true}}\n"),
        "a.yaml: spec.tls: wrong node kind: expected MappingNode but got ScalarNode",
    );
    check(
        object,
        &format!("{object}---\n{object}"),
        object,
        "found duplicate \"updated\" resources in file \"a.yaml\", please refer to \"update\" documentation for the fix",
    );
    assert!(merged("a: [\n", object, object).0.starts_with("original/a.yaml: line "));
    assert_eq!("x".parse::<Strategy>().unwrap_err().to_string(), "unrecognized update strategy x");
}

/// Merges Kptfiles with the same head.
fn check_kptfile(strategy: Strategy, original: &str, updated: &str, local: &str, expected: &str) {
    let package = |text: &str| -> Package { [(KPTFILE.to_owned(), format!("{KPTFILE_TEXT}{text}"))].into() };
    let merged = merge(strategy, &package(original), &package(updated), &package(local)).unwrap();
    assert_eq!(merged.files, package(expected), "{original}\n{updated}\n{local}");
}

/// V-111: the example of `packagevariants.md` 7.6.
#[test]
fn functions_of_kptfiles() {
    check_kptfile(
        Strategy::ResourceMerge,
        "pipeline:\n  mutators:\n  - image: set-labels:v0.1\n    configMap: {app: dns}\n",
        "pipeline:\n  mutators:\n  - image: set-labels:v0.2\n    configMap: {app: dns}\n  - image: set-image:v0.1\n",
        "pipeline:\n  mutators:\n  - {name: PackageVariant.pv.a.0, image: set-namespace:v0.4}\n  - image: set-labels:v0.1\n    \
         configMap: {app: dns, site: e7}\n",
        "pipeline:\n  mutators:\n  - {name: PackageVariant.pv.a.0, image: set-namespace:v0.4}\n  - image: set-labels:v0.2\n    \
         configMap: {app: dns, site: e7}\n  - image: set-image:v0.1\n",
    );
    let changed = "pipeline:\n  mutators:\n  - image: x:v1\n    configMap: {a: b, c: d}\n";
    check_kptfile(
        Strategy::ResourceMerge,
        "pipeline:\n  mutators:\n  - image: x:v1\n    configMap: {a: b}\n",
        "",
        changed,
        "",
    );
}

/// Merges lists of functions, each written as a flow map.
fn check_functions(original: &[&str], updated: &[&str], local: &[&str], expected: &[&str]) {
    let pipeline = |functions: &[&str]| {
        let lines: String = functions.iter().map(|function| format!("  - {function}\n")).collect();
        if lines.is_empty() { lines } else { format!("pipeline:\n  mutators:\n{lines}") }
    };
    let [original, updated, local, expected] = [original, updated, local, expected].map(pipeline);
    check_kptfile(Strategy::ResourceMerge, &original, &updated, &local, &expected);
}

/// The order of functions is meaning: it is the upstream's, local functions stay beside their
/// neighbour, and the variant's stand in front (`packagevariants.md` 7.6).
#[test]
fn order_of_functions() {
    const P: &str = "{name: PackageVariant.pv..0, image: set-namespace:v0.4}";
    const A: &str = "{image: r/a:v1}";
    const B: &str = "{image: r/b:v1}";
    const C: &str = "{image: r/c:v1}";
    const MINE: &str = "{image: r/mine:v1}";
    // An image that moves to another registry stays the same function.
    check_functions(
        &["{image: gcr.io/kpt-fn/set-namespace:v0.4.1}", B],
        &["{image: ghcr.io/kptdev/krm-functions-catalog/set-namespace:v0.4.1}", B],
        &[P, "{image: gcr.io/kpt-fn/set-namespace:v0.4.1, configMap: {namespace: mine}}", B],
        &[
            P,
            "{image: ghcr.io/kptdev/krm-functions-catalog/set-namespace:v0.4.1, configMap: {namespace: mine}}",
            B,
        ],
    );
    check_functions(&[A, C], &[A, B, C], &[P, A, C], &[P, A, B, C]);
    check_functions(&[A, C], &[A, B, C], &[A, C], &[A, B, C]);
    check_functions(&[A, C], &[B, A, C], &[A, C], &[B, A, C]);
    check_functions(&[A, C], &[B, A, C], &[P, A, C], &[P, B, A, C]);
    check_functions(&[A, B], &[B, A], &[P, A, B], &[P, B, A]);
    // Local functions, at the end, in between, and where their neighbour goes.
    check_functions(&[A, C], &[A, B, C], &[A, C, MINE], &[A, B, C, MINE]);
    check_functions(&[A, C], &[C, B, A], &[A, MINE, C], &[C, B, A, MINE]);
    check_functions(&[A, C], &[B, C], &[A, MINE, C], &[B, MINE, C]);
    check_functions(&[A, B], &[C], &[A, B, MINE], &[C, MINE]);
    // The upstream's list is unchanged, so that a local order stays.
    check_functions(&[A, B], &["{image: r/a:v2}", B], &[B, A], &[B, "{image: r/a:v2}"]);
    // A local deletion stays, whatever the upstream changes in the function.
    check_functions(&[A, B], &["{image: s/a:v2, configMap: {x: y}}", B], &[B], &[B]);
    // Both sides have added the same function.
    check_functions(&[A], &[A, B], &[B, A], &[A, B]);
}

/// Repeats of one image are told apart by their configs, and a function may get a name.
#[test]
fn repeated_functions() {
    const ONE: &str = "{image: r/a:v1, configPath: one.yaml}";
    const TWO: &str = "{image: r/a:v1, configPath: two.yaml}";
    check_functions(
        &[ONE, TWO],
        &["{image: r/a:v1, configPath: zero.yaml}", ONE, TWO],
        &["{image: r/a:v1, configPath: one.yaml, exclude: [{kind: A}]}", TWO],
        &[
            "{image: r/a:v1, configPath: zero.yaml}",
            "{image: r/a:v1, configPath: one.yaml, exclude: [{kind: A}]}",
            TWO,
        ],
    );
    check_functions(
        &["{image: r/a:v1, configMap: {x: y}}", "{image: r/a:v1, configMap: {z: y}}"],
        &[
            "{image: r/a:v1, configMap: {n: n}}",
            "{image: r/a:v1, configMap: {x: y}}",
            "{image: r/a:v1, configMap: {z: y}}",
        ],
        &["{image: r/a:v1, configMap: {x: mine}}", "{image: r/a:v1, configMap: {z: y}}"],
        &[
            "{image: r/a:v1, configMap: {n: n}}",
            "{image: r/a:v1, configMap: {x: mine}}",
            "{image: r/a:v1, configMap: {z: y}}",
        ],
    );
    check_functions(
        &["{image: r/a:v1, configMap: {x: y}}"],
        &["{name: now, image: r/a:v1, configMap: {x: y}}"],
        &["{image: r/a:v1, configMap: {x: mine}}"],
        &["{image: r/a:v1, configMap: {x: mine}, name: now}"],
    );
    // Only the variant changes its own functions.
    check_functions(
        &[],
        &["{image: set-namespace:v0.4, configMap: {namespace: a}}"],
        &["{name: PackageVariant.pv..0, image: set-namespace:v0.4, configMap: {namespace: b}}"],
        &[
            "{name: PackageVariant.pv..0, image: set-namespace:v0.4, configMap: {namespace: b}}",
            "{image: set-namespace:v0.4, configMap: {namespace: a}}",
        ],
    );
}

/// V-092: entries that users and variants have added stay when the upstream changes its own.
#[test]
fn gates_conditions_and_other_sections() {
    check_kptfile(
        Strategy::ResourceMerge,
        "info:\n  readinessGates:\n  - conditionType: a\n",
        "info:\n  readinessGates:\n  - conditionType: a\n  - conditionType: b\n",
        "info:\n  readinessGates:\n  - conditionType: mine\n  - conditionType: a\nstatus:\n  conditions:\n  - type: Rendered\n    \
         status: \"True\"\n",
        "info:\n  readinessGates:\n  - conditionType: mine\n  - conditionType: a\n  - conditionType: b\nstatus:\n  conditions:\n  - \
         type: Rendered\n    status: \"True\"\n",
    );
    check_kptfile(
        Strategy::ResourceMerge,
        "",
        "info: {description: null}\n",
        "info: {description: x, site: y}\n",
        "info: {site: y}\n",
    );
    let of =
        |number: u8| format!("upstream: {{type: git, git: {{repo: r, directory: d, ref: v{number}}}}}\n");
    check_kptfile(Strategy::ResourceMerge, &of(1), &of(2), &of(1), &of(1));
    let local = "info: {description: x}\n";
    check_kptfile(Strategy::ForceDeleteReplace, &of(1), &of(2), local, &format!("{}{local}", of(2)));
    check_kptfile(Strategy::CopyMerge, &of(1), &of(2), local, &format!("{}{local}", of(2)));
}

/// Merges subpackage `dns`: its Kptfile, and one object with a version.
fn check_subpackage(sides: [Option<(&str, u8)>; 3], expected: Result<Option<(&str, u8)>, &str>) {
    let build = |side: Option<(&str, u8)>| {
        let Some((upstream, version)) = side else { return package(&[]) };
        let upstream = match upstream {
            "" => String::new(),
            revision => format!("upstream: {{type: git, git: {{repo: r, directory: d, ref: {revision}}}}}\n"),
        };
        let kptfile = format!("{KPTFILE_TEXT}{upstream}");
        let object =
            format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\ndata:\n  v: \"{version}\"\n");
        package(&[("dns/Kptfile", &kptfile), ("dns/c.yaml", &object)])
    };
    let [original, updated, local] = sides.map(build);
    let merged = merge(Strategy::ResourceMerge, &original, &updated, &local).map(|merged| merged.files);
    let found = merged.map_err(|error| error.to_string());
    assert_eq!(found, expected.map(build).map_err(str::to_owned), "{sides:?}");
}

/// The tables of `packagevariants.md` 7.2.
#[test]
fn subpackages_row_by_row() {
    let (one, two) = (Some(("", 1)), Some(("", 2)));
    check_subpackage([None, two, None], Ok(two));
    check_subpackage([None, None, two], Ok(two));
    check_subpackage([None, two, one], Err("subpackage \"dns\" added in both upstream and local"));
    check_subpackage([one, two, None], Ok(None));
    check_subpackage([one, None, one], Ok(None));
    check_subpackage([one, None, two], Ok(two));
    check_subpackage([one, two, one], Ok(two));
    check_subpackage([Some(("v1", 1)), Some(("v2", 2)), Some(("v1", 1))], Ok(Some(("v2", 2))));
    check_subpackage([Some(("v1", 1)), Some(("v2", 2)), Some(("v7", 1))], Ok(Some(("v7", 1))));
    check_subpackage([Some(("v1", 1)), Some(("v2", 2)), Some(("", 1))], Ok(Some(("", 1))));
    check_subpackage([one, two, Some(("v1", 1))], Ok(Some(("v1", 2))));
}

/// The rows of `packagevariants.md` 7.7, in the order O, L, U; each path names the expected result.
#[test]
fn whole_files_row_by_row() {
    let original = package(&[("both", "1"), ("mine", "1"), ("gone", "1"), ("dropped", "1"), ("back", "1")]);
    let updated =
        package(&[("both", "2"), ("mine", "2"), ("dropped", "1"), ("back", "2"), ("new", "x"), ("own", "u")]);
    let local = package(&[("both", "1"), ("mine", "3"), ("gone", "1"), ("own", "l")]);
    let expected = package(&[("both", "2"), ("mine", "3"), ("back", "2"), ("new", "x"), ("own", "l")]);
    assert_eq!(merge(Strategy::ResourceMerge, &original, &updated, &local).unwrap().files, expected);
}

#[test]
fn strategies() {
    let object = "apiVersion: v1\nkind: X\nmetadata:\n  name: a\n";
    let original = package(&[("a.yaml", object), ("gone.txt", "1")]);
    let updated = package(&[("a.yaml", &format!("{object}new: 1\n"))]);
    let local = package(&[("a.yaml", &format!("{object}mine: 1\n")), ("gone.txt", "2"), ("own.txt", "1")]);
    let files = |strategy| merge(strategy, &original, &updated, &local).map(|merged| merged.files);
    assert_eq!(files(Strategy::ForceDeleteReplace).unwrap(), updated);
    let mut copied = updated.clone();
    copied.insert("own.txt".to_owned(), "1".to_owned());
    assert_eq!(files(Strategy::CopyMerge).unwrap(), copied);
    let refused = files(Strategy::FastForward).unwrap_err().to_string();
    assert_eq!(
        refused,
        "local package files have been modified: [a.yaml gone.txt own.txt].\n  use a different update --strategy."
    );
    let keyed =
        package(&[("a.yaml", &object.replace("metadata:", "metadata: # kpt-merge: /a")), ("gone.txt", "1")]);
    assert_eq!(merge(Strategy::FastForward, &original, &updated, &keyed).unwrap().files, updated);
}

/// Functions change nearly every object of a variant. An object that is still as the store made it
/// counts as untouched: it goes with the upstream's, and moves with it (`packagevariants.md` 7.4).
#[test]
fn what_the_store_has_made_is_untouched() {
    let object = |name: &str, more: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n{more}")
    };
    let annotated = |name: &str| object(name, "  annotations: {by: functions}\n");
    let package = |files: &[(&str, String)]| -> Package {
        let kptfile = (KPTFILE.to_owned(), KPTFILE_TEXT.to_owned());
        files.iter().map(|(path, text)| ((*path).to_owned(), text.clone())).chain([kptfile]).collect()
    };
    let json = |text: &str| ("data.json", text.to_owned());
    let original = package(&[
        ("stays.yaml", object("stays", "")),
        ("goes.yaml", object("goes", "")),
        ("moves.yaml", object("moves", "")),
        ("sub/Kptfile", KPTFILE_TEXT.to_owned()),
        ("sub/a.yaml", object("a", "")),
        json("1"),
    ]);
    let updated = package(&[
        ("stays.yaml", object("stays", "data: {new: x}\n")),
        ("dir/moves.yaml", object("moves", "")),
        json("3"),
    ]);
    let made = package(&[
        ("stays.yaml", annotated("stays")),
        ("goes.yaml", annotated("goes")),
        ("moves.yaml", annotated("moves")),
        ("sub/Kptfile", KPTFILE_TEXT.to_owned()),
        ("sub/a.yaml", annotated("a")),
        json("2"),
    ]);
    let versions = |local| Versions { original: &original, updated: &updated, local, made: Some(&made) };
    let merged = super::merge(Strategy::ResourceMerge, versions(&made)).unwrap();
    let expected = package(&[
        ("stays.yaml", object("stays", "  annotations: {by: functions}\ndata:\n  new: x\n")),
        ("dir/moves.yaml", object("moves", "")),
        json("3"),
    ]);
    assert_eq!((merged.files, merged.warnings), (expected, Vec::new()));
    // A user's change keeps an object, with a warning.
    let mut local = made.clone();
    for path in ["goes.yaml", "moves.yaml", "sub/a.yaml"] {
        local.get_mut(path).unwrap().push_str("data: {mine: y}\n");
    }
    let merged = super::merge(Strategy::ResourceMerge, versions(&local)).unwrap();
    let kept: Vec<&str> = merged.files.keys().map(String::as_str).collect();
    assert_eq!(
        kept,
        [
            "Kptfile",
            "data.json",
            "dir/moves.yaml",
            "goes.yaml",
            "moves.yaml",
            "stays.yaml",
            "sub/Kptfile",
            "sub/a.yaml"
        ]
    );
    let warnings: Vec<String> =
        merged.warnings.iter().map(|(path, text)| format!("{path}: {text}")).collect();
    assert_eq!(
        warnings,
        [
            "goes.yaml: the upstream has deleted ConfigMap goes; it stays, since it was changed here",
            "moves.yaml: the upstream has deleted ConfigMap moves; it stays, since it was changed here",
            "sub: the upstream has deleted this package; it stays, since it was changed here",
            "moves.yaml: ConfigMap moves is in dir/moves.yaml too: delete the one that you do not want",
        ]
    );
    // A fast-forward is possible as long as nobody has changed anything.
    let forward = |local| super::merge(Strategy::FastForward, versions(local));
    assert_eq!(forward(&made).unwrap().files, updated);
    assert!(matches!(forward(&local), Err(MergeError::Modified(_))));
    // The local package had the same object twice before.
    let twice = package(&[("a.yaml", object("a", "")), ("b.yaml", object("a", ""))]);
    let merged = merge(Strategy::ResourceMerge, &original, &original, &twice).unwrap();
    assert_eq!(merged.warnings, []);
}
