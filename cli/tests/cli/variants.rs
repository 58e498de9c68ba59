//! Tests of `groundwork variants`: sets and the objects that they select, from files.

use super::*;

const REPOSITORIES: &str = r"
apiVersion: v1
kind: List
items:
- {apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: cluster-01, namespace: fleet, labels: {region: useast1, env: prod, org: hr}}, spec: {git: {repo: https://git.example.org/01}}}
- {apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: cluster-02, namespace: fleet, labels: {region: uswest1, env: prod, org: finance}}, spec: {git: {repo: https://git.example.org/02}}}
- {apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: cluster-03, namespace: fleet, labels: {region: useast2, env: prod, org: hr}}, spec: {git: {repo: https://git.example.org/03}}}
- {apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: cluster-04, namespace: fleet, labels: {region: uswest1, env: prod, org: hr}}, spec: {git: {repo: https://git.example.org/04}}}
- {apiVersion: config.porch.kpt.dev/v1alpha1, kind: Repository, metadata: {name: cluster-05, namespace: other, labels: {env: prod, org: hr}}, spec: {git: {repo: https://git.example.org/05}}}
";

fn set(targets: &str) -> String {
    format!(
        "apiVersion: config.porch.kpt.dev/v1alpha2\nkind: PackageVariantSet\nmetadata: {{namespace: fleet, name: example}}\n\
         spec:\n  upstream: {{repo: catalog, package: foo, revision: v1}}\n  targets:\n{targets}"
    )
}

fn expand(input: &str, options: &[&str]) -> Run {
    groundwork(&[&["variants", "expand", "-f", "-"], options].concat(), input)
}

fn items(run: &Run) -> Vec<Value> {
    assert_eq!(run.code, 0, "{}", run.err);
    run.json()["items"].as_array().unwrap().clone()
}

fn pairs(run: &Run) -> Vec<String> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let downstream = |item: &Value| item["spec"]["downstream"].clone();
    let all = items(run);
    all.iter()
        .map(|item| text(&downstream(item)["repo"]) + "/" + &text(&downstream(item)["package"]))
        .collect()
}

/// V-129: the repository list of the design document.
#[test]
fn a_list_of_repositories() {
    let input = set(
        "  - repositories:\n    - {name: cluster-01}\n    - {name: cluster-02}\n    - {name: cluster-03, packageNames: [foo-a, foo-b, foo-c]}\n    \
         - {name: cluster-04, packageNames: [foo-a, foo-b]}\n",
    );
    let expected = [
        "cluster-01/foo",
        "cluster-02/foo",
        "cluster-03/foo-a",
        "cluster-03/foo-b",
        "cluster-03/foo-c",
        "cluster-04/foo-a",
        "cluster-04/foo-b",
    ];
    assert_eq!(pairs(&expand(&input, &["-o", "json"])), expected);
    let yaml = expand(&input, &[]);
    assert_eq!(
        yaml.out.split("---\n").nth(3).unwrap(),
        "apiVersion: config.porch.kpt.dev/v1alpha1\nkind: PackageVariant\nmetadata:\n  finalizers:\n  - \
         config.porch.kpt.dev/packagevariants\n  name: example-cluster-03-foo-a\n  namespace: fleet\nspec:\n  downstream:\n    \
         package: foo-a\n    repo: cluster-03\n  upstream:\n    package: foo\n    repo: catalog\n    revision: v1\n"
    );
}

/// V-132, V-153, V-154: selectors, a single map, `injectorExprs`. A Repository of another namespace
/// does not count.
#[test]
fn selectors_and_expressions() {
    let input = set(
        "  - repositorySelector: {matchLabels: {env: prod, org: hr}}\n    template:\n      labelExprs: {key: org, valueExpr: \
         \"repository.labels['org']\"}\n      injectorExprs:\n      - nameExpr: \"repository.labels['region'] + '-endpoints'\"\n",
    );
    let run = expand(&format!("{input}---\n{REPOSITORIES}"), &["-o", "json"]);
    assert_eq!(pairs(&run), ["cluster-01/foo", "cluster-03/foo", "cluster-04/foo"]);
    let injectors: Vec<String> = items(&run)
        .iter()
        .map(|item| item["spec"]["injectors"][0]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(injectors, ["useast1-endpoints", "useast2-endpoints", "uswest1-endpoints"]);
}

/// V-134: a set may select objects of any kind.
#[test]
fn objects_of_any_kind() {
    let teams = "---\napiVersion: hr.example.org/v1\nkind: Team\nmetadata: {name: blue, labels: {org: hr}}\nspec: {free: form}\n---\n\
                 apiVersion: hr.example.org/v1\nkind: Team\nmetadata: {name: red, labels: {org: it}}\n";
    let input =
        set("  - objectSelector: {apiVersion: hr.example.org/v1, kind: Team, matchLabels: {org: hr}}\n")
            + teams;
    assert_eq!(pairs(&expand(&input, &["-o", "json", "-n", "fleet"])), ["blue/foo"]);
    let elsewhere = expand(&input, &["-o", "json"]);
    assert_eq!(pairs(&elsewhere), Vec::<String>::new());
    assert!(elsewhere.err.contains("spec.targets[0] selects no repository or object"), "{}", elsewhere.err);
}

#[test]
fn broken_sets_are_told_with_their_lines() {
    let run = expand(
        &set(
            "  - repositories: []\n  - repositorySelector: {}\n    template: {adoptionPolicy: x, labelExprs: [{key: a, keyExpr: b}]}\n",
        ),
        &[],
    );
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    for message in [
        "error: PackageVariantSet fleet/example: spec.targets[0].repositories must not be an empty list if specified\n --> \
         standard input:7:5",
        "spec.targets[1].template.adoptionPolicy can only be \"adoptNone\" or \"adoptExisting\"",
        "spec.targets[1].template.labelExprs[0] may specify only one of `key` and `keyExpr`",
    ] {
        assert!(run.err.contains(message), "{message}\n{}", run.err);
    }
    let failing = expand(
        &(set("  - repositorySelector: {}\n    template: {downstream: {packageExpr: \"1 + 1\"}}\n")
            + "---\n"
            + REPOSITORIES),
        &[],
    );
    assert_eq!(failing.code, 1);
    let message = "spec.targets[0].template.downstream.packageExpr: unsupported type conversion from 'int' to string (repo \"cluster-01\", \
                   package \"foo\")";
    assert!(failing.err.contains(message) && failing.err.contains("standard input:8:"), "{}", failing.err);
}

/// V-124: targets that cannot be expanded, and input that cannot be used at all.
#[test]
fn unusable_input() {
    let good = set("  - repositorySelector: {}\n");
    for (input, message) in [
        (
            good.replace("v1alpha2", "v1alpha1"),
            "is not served; the kind has apiVersion config.porch.kpt.dev/v1alpha2",
        ),
        (good.replace("targets:", "target:"), "unknown field \"spec.target\""),
        (format!("{good}---\n{good}"), "is defined twice"),
        (REPOSITORIES.to_owned(), "the input contains no PackageVariantSet"),
        ("kind: Team\napiVersion: v1\n".to_owned(), "has no metadata.name"),
        ("a: [\n".to_owned(), "malformed YAML"),
    ] {
        let run = expand(&input, &[]);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{input}");
        assert!(run.err.contains(message), "{message}\n{}", run.err);
    }
}

/// A set may select by the labels of a Secret, but its values never show.
#[test]
fn values_of_selected_objects_do_not_show() {
    let secret = "---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: keys\n  namespace: fleet\n  annotations:\n    \
                  kubectl.kubernetes.io/last-applied-configuration: '{\"stringData\":{\"a\":\"canary\"}}'\nstringData: {a: canary}\n";
    let read = "\"target.annotations['kubectl.kubernetes.io/last-applied-configuration']\"";
    let input = set(&format!(
        "  - objectSelector: {{apiVersion: v1, kind: Secret}}\n    template: {{downstream: {{repo: cluster-01, packageExpr: {read}}}}}\n"
    ));
    let run = expand(&format!("{input}{secret}---\n{REPOSITORIES}"), &[]);
    assert_eq!(run.code, 1);
    assert!(run.err.contains("no such key") && !(run.out + &run.err).contains("canary"), "{}", run.err);
}

/// A plan shows the changes of a set in advance, and its hash changes with them.
#[test]
fn a_plan_of_what_would_happen() {
    let targets = "  - repositories: [{name: cluster-01}, {name: cluster-02}]\n";
    let first = groundwork(&["variants", "plan", "-f", "-"], &set(targets));
    assert_eq!(first.code, 0, "{}", first.err);
    let lines: Vec<&str> = first.out.lines().collect();
    assert_eq!(
        lines[..3],
        [
            "PackageVariantSet fleet/example: 2 created, 0 changed, 0 deleted, 0 unchanged",
            "  + example-cluster-01-foo  cluster-01/foo",
            "  + example-cluster-02-foo  cluster-02/foo",
        ]
    );
    assert!(lines[3].starts_with("plan ") && lines[3].len() == 69, "{lines:?}");

    // An existing child with another revision, and one that the set no longer wants.
    let child = |repo: &str, revision: &str| {
        format!(
            "---\napiVersion: config.porch.kpt.dev/v1alpha1\nkind: PackageVariant\nmetadata:\n  namespace: fleet\n  name: \
             example-{repo}-foo\n  uid: {repo}\n  labels: {{config.porch.kpt.dev/packagevariantset: u1}}\n  ownerReferences: \
             [{{apiVersion: config.porch.kpt.dev/v1alpha2, kind: PackageVariantSet, name: example, uid: u1, controller: true}}]\n\
             spec:\n  upstream: {{repo: catalog, package: foo, revision: {revision}}}\n  downstream: {{repo: {repo}, package: foo}}\n"
        )
    };
    let input = set(targets) + &child("cluster-01", "v0.9") + &child("cluster-09", "v1");
    let second = groundwork(&["variants", "plan", "-f", "-"], &input);
    assert_eq!(second.code, 0, "{}", second.err);
    for line in [
        "PackageVariantSet fleet/example: 1 created, 1 changed, 1 deleted, 0 unchanged",
        "  + example-cluster-02-foo  cluster-02/foo",
        "  ~ example-cluster-01-foo  cluster-01/foo",
        "      spec.upstream.revision: \"v0.9\" -> \"v1\"",
        "  - example-cluster-09-foo  cluster-09/foo",
    ] {
        assert!(second.out.lines().any(|found| found == line), "{line}\n{}", second.out);
    }
    assert_ne!(first.out.lines().last(), second.out.lines().last());
    let json = groundwork(&["variants", "plan", "-o", "json", "-f", "-"], &input).json();
    assert_eq!(json["sets"][0]["changed"][0]["fields"][0]["path"], "spec.upstream.revision");

    let refused = groundwork(&["variants", "plan", "-f", "-"], &set("  - repositories: []\n"));
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.out.contains("  ! ValidationError: "), "{}", refused.out);
}

fn package(folder: &Path, path: &str, text: &str) {
    let path = folder.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

fn variant(name: &str, package: &str, fields: &str) -> String {
    format!(
        "---\napiVersion: config.porch.kpt.dev/v1alpha1\nkind: PackageVariant\nmetadata: {{namespace: fleet, name: {name}}}\nspec:\n  \
         upstream: {{repo: catalog, package: {package}, revision: v1}}\n  downstream: {{repo: cluster-01, package: {package}}}\n{fields}"
    )
}

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: x\n";

/// Drafts of variants from files: good variants are made, bad ones give an error, and no path leads
/// out of the folders.
#[test]
fn drafts_of_variants() {
    let folder = TempDir::new().unwrap();
    let packages = folder.path().join("packages");
    package(&packages, "catalog/net/dns/Kptfile", KPTFILE);
    package(
        &packages,
        "catalog/net/dns/zone.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: z\n",
    );
    fs::write(packages.join("catalog/net/dns/logo.png"), [0xff, 0xfe, 0]).unwrap();
    package(&folder.path().join("packages"), "secret/Kptfile", KPTFILE);
    let shown = packages.display().to_string();
    let draft = |input: &str, output: &str| {
        groundwork(&["variants", "draft", "-f", "-", "--packages", &shown, "-o", output], input)
    };
    let out = folder.path().join("out");
    let dir = format!("dir={}", out.display());
    let broken = "  pipeline: {mutators: [{name: fn, image: example.org/mine:v1}]}\n";
    let input = [
        variant("good", "net/dns", ""),
        variant("broken", "net/dns", broken),
        variant("missing", "net/ntp", ""),
        variant("out", "../secret", ""),
        variant("wrong", "net/dns", "  deletionPolicy: keep\n"),
    ]
    .concat();
    let run = draft(&input, &dir);
    assert_eq!(run.code, 1, "{}", run.err);
    assert_eq!(run.out, "PackageVariant fleet/good: cluster-01/net/dns\n");
    for text in [
        "PackageVariant fleet/broken: RenderFailed: package \".\": function \"PackageVariant.broken.fn.0\": function \
         \"example.org/mine:v1\" is not available: no container runtime is configured and it is not built in",
        "PackageVariant fleet/missing: package \"net/ntp\" of repository \"catalog\" does not exist",
        "PackageVariant fleet/out: ",
        "PackageVariant fleet/wrong: spec.deletionPolicy can only be \"orphan\" or \"delete\"",
        "warning: PackageVariant fleet/good: the input has no Repository \"cluster-01\"",
    ] {
        assert!(run.err.contains(text), "{text}\n{}", run.err);
    }
    let made = out.join("cluster-01/net/dns");
    assert!(fs::read_to_string(made.join("Kptfile")).unwrap().contains("ref: net/dns/v1"));
    assert_eq!(fs::read(made.join("logo.png")).unwrap(), [0xff, 0xfe, 0]);
    assert!(!folder.path().join("secret").exists());

    // A second run replaces the files of the first one, and no others.
    fs::write(made.join("old.yaml"), "").unwrap();
    assert_eq!(draft(&variant("good", "net/dns", ""), &dir).code, 0);
    assert!(!made.join("old.yaml").exists());
    fs::remove_file(made.join("Kptfile")).unwrap();
    let refused = draft(&variant("good", "net/dns", ""), &dir);
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("is not empty and does not contain a package: name another folder"),
        "{}",
        refused.err
    );

    let nothing = draft("", &dir);
    assert_eq!((nothing.code, nothing.out.as_str()), (2, ""));
    assert!(nothing.err.contains("neither a PackageVariant nor a PackageVariantSet"), "{}", nothing.err);
}

/// Failures that a set isolates are reported, and the other variants are printed
/// (`packagevariants.md` 4.1).
#[test]
fn isolated_failures_are_told() {
    let targets = "  - objectSelector: {apiVersion: v1, kind: ConfigMap}\n    template: {downstream: {repoExpr: \"target.labels['x']\"}}\n  \
                   - repositories: [{name: cluster-01}]\n";
    let object = "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {namespace: fleet, name: a}\n";
    let stops = set(targets) + object;
    let isolates = stops.replace("spec:\n", "spec:\n  failurePolicy: Isolate\n");
    assert_ne!(stops, isolates);
    let run = expand(&stops, &[]);
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    let run = expand(&isolates, &[]);
    assert_eq!(run.code, 1);
    let made = expand(&isolates, &["-o", "json"]).json();
    assert_eq!(made["items"].as_array().unwrap().len(), 1);
    assert_eq!(made["items"][0]["spec"]["downstream"]["repo"], "cluster-01");
    assert!(run.err.contains("spec.targets[0].template.downstream.repoExpr"), "{}", run.err);
    let plan = groundwork(&["variants", "plan", "-f", "-"], &isolates);
    assert_eq!(plan.code, 1);
    assert!(plan.out.contains("1 created") && plan.out.contains("  ! UnexpectedError: "), "{}", plan.out);
}

/// V-174: the object that a set targets is injected only if the package has an injection point for
/// it and the template names it.
#[test]
fn targets_are_not_injected_by_themselves() {
    let folder = TempDir::new().unwrap();
    let packages = folder.path().join("packages");
    package(&packages, "catalog/foo/Kptfile", KPTFILE);
    let point = "apiVersion: hr.example.org/v1\nkind: Team\nmetadata:\n  name: owner\n  annotations:\n    \
                 kpt.dev/config-injection: required\nspec:\n  mail: nobody\n";
    package(&packages, "catalog/foo/team.yaml", point);
    let teams: String = ["blue", "red"]
        .map(|name| {
            format!(
                "---\napiVersion: hr.example.org/v1\nkind: Team\nmetadata: {{namespace: fleet, name: {name}}}\nspec: {{mail: {name}}}\n"
            )
        })
        .concat();
    let shown = packages.display().to_string();
    for (injectors, expected) in
        [("", ["nobody", "nobody"]), ("      injectors: [{nameExpr: target.name}]\n", ["blue", "red"])]
    {
        let targets = format!(
            "  - objectSelector: {{apiVersion: hr.example.org/v1, kind: Team}}\n    template:\n      downstream: {{repo: cluster-01, \
             packageExpr: target.name}}\n{injectors}"
        );
        let input = format!("{}{teams}---\n{REPOSITORIES}", set(&targets));
        let out = folder.path().join(format!("out{}", injectors.len()));
        let dir = format!("dir={}", out.display());
        let run = groundwork(&["variants", "draft", "-f", "-", "--packages", &shown, "-o", &dir], &input);
        assert_eq!(run.code, 0, "{}", run.err);
        let mails = ["blue", "red"].map(|name| {
            let text = fs::read_to_string(out.join(format!("cluster-01/{name}/team.yaml"))).unwrap();
            groundwork_yaml::from_str(&text).unwrap()["spec"]["mail"].as_str().unwrap().to_owned()
        });
        assert_eq!(mails, expected);
        let kptfile = fs::read_to_string(out.join("cluster-01/blue/Kptfile")).unwrap();
        let says = if injectors.is_empty() {
            "no injectors defined"
        } else {
            "injected resource \"blue\" from cluster"
        };
        assert!(kptfile.contains(says), "{kptfile}");
    }
}

/// Rules are checked without a cluster, each at its place in the file.
#[test]
fn manifests_are_validated() {
    let validate = |input: &str| groundwork(&["variants", "validate", "-f", "-"], input);
    let variant = "apiVersion: config.porch.kpt.dev/v1alpha1\nkind: PackageVariant\nmetadata: {namespace: fleet, name: dns}\nspec:\n  \
                   upstream: {repo: catalog, package: dns, workspaceName: main}\n  downstream: {repo: edge, package: dns}\n";
    let set = set("  - repositories:\n    - {name: cluster-01}\n");
    let run = validate(&format!("{variant}---\n{set}"));
    assert_eq!((run.code, run.out.as_str()), (0, "2 objects are valid\n"), "{}", run.err);

    let wrong = variant.replace("downstream: {repo: edge, package: dns}", "adoptionPolicy: adoptAll");
    let run = validate(&format!("{wrong}---\n{}", set.replace("package: foo, ", "")));
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    for part in [
        "PackageVariant fleet/dns: missing required field spec.downstream",
        "PackageVariant fleet/dns: spec.adoptionPolicy field can only be",
        "PackageVariantSet fleet/example: ",
        "standard input:6:3",
    ] {
        assert!(run.err.contains(part), "{part}: {}", run.err);
    }
    let run = validate("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    assert_eq!(run.code, 2);
    assert!(run.err.contains("neither a PackageVariant nor a PackageVariantSet"), "{}", run.err);
    assert_eq!(validate("kind: [\n").code, 2);
}
