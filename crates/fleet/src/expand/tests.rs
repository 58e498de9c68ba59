use serde_json::{Value, json};

use super::*;

type Others = BTreeMap<(String, String), Result<Vec<Attributes>, Unavailable>>;

fn object(name: &str, labels: &Value) -> Attributes {
    Attributes {
        name: name.to_owned(),
        namespace: "fleet".to_owned(),
        labels: serde_json::from_value(labels.clone()).unwrap(),
        annotations: BTreeMap::new(),
    }
}

/// Returns the Repositories of the design document (`packagevariants.md` 10.1).
fn repositories() -> Vec<Attributes> {
    [
        ("cluster-01", "useast1", "prod", "hr"),
        ("cluster-02", "uswest1", "prod", "finance"),
        ("cluster-03", "useast2", "prod", "hr"),
        ("cluster-04", "uswest1", "prod", "hr"),
    ]
    .map(|(name, region, env, org)| object(name, &json!({"region": region, "env": env, "org": org})))
    .into()
}

fn expansion_with(
    targets: &Value,
    revisions: Option<&[PackageRevision]>,
    others: &Others,
) -> Result<Expansion, ExpandError> {
    let set = serde_json::from_value(json!({
        "metadata": {"name": "example", "namespace": "fleet"},
        "spec": {"upstream": {"repo": "catalog", "package": "foo", "revision": "v1"}, "targets": targets},
    }))
    .unwrap();
    let repositories = repositories();
    let objects = Objects { revision_sets: &[], repositories: &repositories, others };
    expand(&Inputs { set: &set, revisions, objects })
}

fn expansion(targets: &Value) -> Result<Expansion, ExpandError> {
    expansion_with(targets, None, &Others::new())
}

fn pairs(targets: &Value) -> Vec<String> {
    let variants = expansion(targets).unwrap().variants;
    variants.iter().map(|variant| format!("{} {}", variant.repository, variant.package)).collect()
}

fn error(targets: &Value) -> (&'static str, String) {
    let failure = expansion(targets).unwrap_err();
    (failure.reason(), failure.to_string())
}

/// Returns the only variant, without its upstream.
fn only(template: &Value) -> Value {
    let found =
        expansion(&json!([{"repositories": [{"name": "cluster-01"}], "template": template}])).unwrap();
    let [variant] = found.variants.as_slice() else { panic!("{found:?}") };
    let mut spec = serde_json::to_value(&variant.spec).unwrap();
    spec.as_object_mut().unwrap().remove("upstream");
    spec
}

/// V-126, V-128, V-129, V-045, V-046: the repository list of the design document, and its figure 6.
#[test]
fn lists_of_repositories() {
    let targets = json!([{"repositories": [
        {"name": "cluster-01"}, {"name": "cluster-02"},
        {"name": "cluster-03", "packageNames": ["foo-a", "foo-b", "foo-c"]},
        {"name": "cluster-04", "packageNames": ["foo-a", "foo-b"]},
    ]}]);
    let expected = [
        "cluster-01 foo",
        "cluster-02 foo",
        "cluster-03 foo-a",
        "cluster-03 foo-b",
        "cluster-03 foo-c",
        "cluster-04 foo-a",
        "cluster-04 foo-b",
    ];
    assert_eq!(pairs(&targets), expected);
    let found = expansion(&targets).unwrap();
    assert_eq!(found.target_counts, [4]);
    assert_eq!(
        serde_json::to_value(&found.variants[2].spec).unwrap(),
        json!({
            "upstream": {"repo": "catalog", "package": "foo", "revision": "v1"},
            "downstream": {"repo": "cluster-03", "package": "foo-a"},
        })
    );
    let figure = json!([{"repositories": [{"name": "cluster-01", "packageNames": ["a", "b"]}, {"name": "cluster-02"}]}]);
    assert_eq!(pairs(&figure), ["cluster-01 a", "cluster-01 b", "cluster-02 foo"]);
}

/// V-130, V-131, V-132: two selectors, the second with names.
#[test]
fn selectors_of_repositories() {
    let targets = json!([
        {"repositorySelector": {"matchLabels": {"env": "prod", "org": "hr"}}},
        {"repositorySelector": {"matchExpressions": [{"key": "region", "operator": "In", "values": ["uswest1"]}]},
         "packageNames": ["foo-a", "foo-b", "foo-c"]},
    ]);
    let expected = [
        "cluster-01 foo",
        "cluster-02 foo-a",
        "cluster-02 foo-b",
        "cluster-02 foo-c",
        "cluster-03 foo",
        "cluster-04 foo",
        "cluster-04 foo-a",
        "cluster-04 foo-b",
        "cluster-04 foo-c",
    ];
    assert_eq!(pairs(&targets), expected);
    assert_eq!(expansion(&targets).unwrap().target_counts, [3, 2]);
    assert_eq!(pairs(&json!([{"repositorySelector": {}}])).len(), 4);
    assert!(pairs(&json!([{"repositorySelector": {"matchLabels": {"env": "none"}}}])).is_empty());
}

/// V-133, V-134, V-135, V-136: objects of any kind; Repositories are one of them.
#[test]
fn selectors_of_objects() {
    let teams = ["c", "a", "b"]
        .map(|name| object(name, &json!({"org": "hr", "role": if name == "b" { "ops" } else { "dev" }})));
    let key = ("hr.example.org/v1".to_owned(), "Team".to_owned());
    let others = Others::from([(key.clone(), Ok(teams.into()))]);
    let selector = |extra: Value| {
        let mut selector = json!({"apiVersion": "hr.example.org/v1", "kind": "Team"});
        selector.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        json!([{"objectSelector": selector}])
    };
    let names = |targets: &Value| -> Vec<String> {
        let found = expansion_with(targets, None, &others).unwrap().variants;
        found.iter().map(|variant| format!("{}/{}", variant.repository, variant.package)).collect()
    };
    assert_eq!(names(&selector(json!({"matchLabels": {"org": "hr", "role": "dev"}}))), ["a/foo", "c/foo"]);
    assert_eq!(names(&selector(json!({"name": "b"}))), ["b/foo"]);
    let as_object = json!([{"objectSelector": {
        "apiVersion": "config.porch.kpt.dev/v1alpha1", "kind": "Repository", "matchLabels": {"org": "hr"},
    }}]);
    assert_eq!(pairs(&as_object), pairs(&json!([{"repositorySelector": {"matchLabels": {"org": "hr"}}}])));
    let missing = Others::from([(key, Err(Unavailable("no matches for kind \"Team\"".to_owned())))]);
    let failure = expansion_with(&selector(json!({})), None, &missing).unwrap_err();
    assert_eq!(
        (failure.reason(), failure.to_string().as_str()),
        ("NoMatchingTargets", "no matches for kind \"Team\"")
    );
}

/// The worked example, with the order inside a target (`packagevariants.md` 4.2).
#[test]
fn the_worked_example() {
    let targets = json!([
        {"repositories": [{"name": "cluster-02"}, {"name": "cluster-01", "packageNames": ["svc-x", "svc-y"]}]},
        {"repositorySelector": {"matchLabels": {"org": "hr"}}, "packageNames": ["probe"]},
    ]);
    assert_eq!(
        pairs(&targets),
        [
            "cluster-01 probe",
            "cluster-01 svc-x",
            "cluster-01 svc-y",
            "cluster-02 foo",
            "cluster-03 probe",
            "cluster-04 probe"
        ]
    );
}

/// V-138, V-139, V-141 to V-147, V-160, V-163: every field of a template reaches the variant, and
/// expressions win.
#[test]
fn templates_reach_every_field() {
    let template = json!({
        "downstream": {"repoExpr": "'cluster-0' + string(1 + 1)", "packageExpr": "packageDefault + '-x'"},
        "adoptionPolicy": "adoptExisting", "deletionPolicy": "orphan", "updateStrategy": "copy-merge",
        "labels": {"a": "static", "b": "static"},
        "labelExprs": [{"key": "b", "valueExpr": "repository.labels['org']"}, {"keyExpr": "'c'", "value": "v"}],
        "annotations": {"a": "static"}, "annotationExprs": {"key": "a", "valueExpr": "target.repo + target.package"},
        "packageContext": {
            "data": {"k": "static"}, "dataExprs": {"key": "k", "valueExpr": "repoDefault"},
            "removeKeys": ["z", "y"], "removeKeyExprs": ["'y'", "'x'"],
        },
        "injectors": {"kind": "K", "name": "one"}, "injectorExprs": [{"group": "", "nameExpr": "repository.name"}],
        "pipeline": {"mutators": [{
            "image": "i", "name": "n", "selectors": [{"kind": "K"}], "configMap": {"k": "static", "l": "static"},
            "configMapExprs": {"key": "k", "valueExpr": "packageDefault"},
        }]},
    });
    assert_eq!(
        only(&template),
        json!({
            "downstream": {"repo": "cluster-02", "package": "foo-x"},
            "adoptionPolicy": "adoptExisting", "deletionPolicy": "orphan", "updateStrategy": "copy-merge",
            "labels": {"a": "static", "b": "finance", "c": "v"},
            "annotations": {"a": "cluster-01foo"},
            "packageContext": {"data": {"k": "cluster-01"}, "removeKeys": ["x", "y", "z"]},
            "injectors": [{"kind": "K", "name": "one"}, {"group": "", "name": "cluster-02"}],
            "pipeline": {"mutators": [{
                "image": "i", "name": "n", "selectors": [{"kind": "K"}], "configMap": {"k": "foo", "l": "static"},
            }]},
        })
    );
    let empty = json!({"packageContext": {}, "pipeline": {"mutators": []}, "injectors": []});
    assert_eq!(
        only(&empty),
        json!({"downstream": {"repo": "cluster-01", "package": "foo"}, "packageContext": {}})
    );
    let fixed = json!({"downstream": {"repo": "cluster-03", "package": "bar"}});
    assert_eq!(only(&fixed), json!({"downstream": {"repo": "cluster-03", "package": "bar"}}));
}

/// V-047, V-153, V-154: single maps, `injectorExprs`, and names by the labels of repositories.
#[test]
fn injectors_by_region() {
    let found = expansion(&json!([{
        "repositorySelector": {"matchLabels": {"env": "prod", "org": "hr"}},
        "template": {
            "labelExprs": {"key": "org", "valueExpr": "repository.labels['org']"},
            "injectorExprs": [{"nameExpr": "repository.labels['region'] + '-endpoints'"}],
        },
    }]))
    .unwrap();
    let specs: Vec<Value> =
        found.variants.iter().map(|variant| serde_json::to_value(&variant.spec).unwrap()).collect();
    let injectors: Vec<&Value> = specs.iter().map(|spec| &spec["injectors"]).collect();
    let named = |name: &str| json!([{"name": name}]);
    assert_eq!(
        injectors,
        [&named("useast1-endpoints"), &named("useast2-endpoints"), &named("uswest1-endpoints")]
    );
    assert!(specs.iter().all(|spec| spec["labels"] == json!({"org": "hr"})));
}

/// V-162, V-166, V-170, V-172: errors name the field and the target.
#[test]
fn failures_name_field_and_place() {
    let with = |template: Value| json!([{"repositories": [{"name": "cluster-01"}], "template": template}]);
    let place = "(repo \"cluster-01\", package \"foo\")";
    for (template, expected) in [
        (
            json!({"downstream": {"repoExpr": "repository.name"}}),
            "downstream.repoExpr: no such attribute(s): repository",
        ),
        (
            json!({"downstream": {"packageExpr": "1"}}),
            "downstream.packageExpr: unsupported type conversion from 'int' to string",
        ),
        (
            json!({"labelExprs": [{"key": "a"}, {"key": "b", "valueExpr": "repository.spec.git.repo"}]}),
            "labelExprs[1].valueExpr: no such key: spec",
        ),
        (json!({"annotationExprs": {"keyExpr": "''"}}), "annotationExprs[0]: the key is empty"),
        (
            json!({"packageContext": {"removeKeyExprs": ["x"]}}),
            "packageContext.removeKeyExprs[0]: undeclared reference to 'x'",
        ),
        (
            json!({"injectorExprs": {"nameExpr": "y"}}),
            "injectorExprs[0].nameExpr: undeclared reference to 'y'",
        ),
        (
            json!({"pipeline": {"mutators": [{"image": "i", "configMapExprs": {"key": "a", "valueExpr": "z"}}]}}),
            "pipeline.mutators[0].configMapExprs[0].valueExpr: undeclared reference to 'z'",
        ),
    ] {
        assert_eq!(
            error(&with(template.clone())),
            ("UnexpectedError", format!("spec.targets[0].template.{expected} {place}")),
            "{template}"
        );
    }
    assert_eq!(
        error(&with(json!({"downstream": {"repo": "nowhere"}}))).1,
        format!("spec.targets[0].template: repository \"nowhere\" could not be loaded {place}")
    );
    assert_eq!(
        error(&with(json!({"packageContext": {"dataExprs": {"keyExpr": "'name'", "value": "x"}}}))).1,
        format!(
            "spec.targets[0].template: spec.packageContext.data: Invalid value: {{\"name\":\"x\"}}: must not contain the \
             key \"name\" {place}"
        )
    );
    assert!(
        error(&with(json!({"labelExprs": {"key": "a", "valueExpr": "'b c'"}})))
            .1
            .contains("is not a valid label")
    );
    assert_eq!(
        error(&json!([])),
        ("ValidationError", "must specify at least one item in spec.targets".to_owned())
    );
}

/// V-159, V-164, V-167, V-171: the upstream is resolved first, if the revisions are known.
#[test]
fn the_upstream_revision() {
    let listed = json!([{"repositories": [{"name": "cluster-01"}]}]);
    let reads = json!([{"repositories": [{"name": "cluster-01"}],
        "template": {"labelExprs": {"key": "a", "valueExpr": "upstream.name"}}}]);
    let missing = "could not find upstream package revision 'foo/v1' in repo 'catalog'";
    let none = expansion_with(&listed, Some(&[]), &Others::new()).unwrap_err();
    assert_eq!((none.reason(), none.to_string().as_str()), ("UpstreamNotFound", missing));
    assert_eq!(error(&reads), ("UpstreamNotFound", missing.to_owned()));
    let revision: PackageRevision = serde_json::from_value(json!({
        "metadata": {"name": "catalog.foo.v1"},
        "spec": {"repository": "catalog", "packageName": "foo", "revision": 1, "lifecycle": "Published"},
    }))
    .unwrap();
    let found = expansion_with(&reads, Some(&[revision]), &Others::new()).unwrap();
    assert_eq!(found.variants[0].spec.labels.get("a").map(String::as_str), Some("catalog.foo.v1"));
    let redirected = only(&json!({
        "downstream": {"repo": "cluster-02"},
        "labelExprs": [{"key": "to", "valueExpr": "repository.name"}, {"key": "from", "valueExpr": "target.repo"}],
    }));
    assert_eq!(redirected["labels"], json!({"to": "cluster-02", "from": "cluster-01"}));
}

/// Two equal variants count as one; two different ones for the same package are an error
/// (`packagevariants.md` 4.6).
#[test]
fn two_targets_for_one_package() {
    let twice = json!([{"repositories": [{"name": "cluster-01"}]}, {"repositorySelector": {"matchLabels": {"region": "useast1"}}}]);
    assert_eq!(pairs(&twice), ["cluster-01 foo"]);
    let mut different = twice.clone();
    different[1]["template"] = json!({"labels": {"a": "b"}});
    assert_eq!(
        error(&different),
        (
            "DuplicateTargets",
            "targets produce conflicting package variants for cluster-01/foo (targets[0], targets[1])"
                .to_owned()
        )
    );
}

/// With `failurePolicy: Isolate` a failing target does not block the others (`packagevariants.md`
/// 4.1).
#[test]
fn failures_are_isolated_where_the_set_says_so() {
    let targets = json!([
        {"objectSelector": {"apiVersion": "example.com/v1", "kind": "Team"}},
        {"repositorySelector": {}, "template": {"downstream": {"packageExpr": "'p-' + repository.labels['team']"}}},
        {"repositories": [{"name": "cluster-01", "packageNames": ["x", "y"]}]},
        {"repositories": [{"name": "cluster-01", "packageNames": ["x"]}], "template": {"labels": {"a": "b"}}},
    ]);
    let mut repositories = repositories();
    repositories[2].labels.insert("team".to_owned(), "red".to_owned());
    let refused = Unavailable("no matches for kind \"Team\"".to_owned());
    let others = Others::from([(("example.com/v1".to_owned(), "Team".to_owned()), Err(refused))]);
    let mut set: PackageVariantSet = serde_json::from_value(json!({
        "metadata": {"name": "example", "namespace": "fleet"},
        "spec": {"upstream": {"repo": "catalog", "package": "foo", "revision": "v1"}, "targets": targets},
    }))
    .unwrap();
    let objects = Objects { revision_sets: &[], repositories: &repositories, others: &others };
    let of = |set: &PackageVariantSet| expand(&Inputs { set, revisions: None, objects });
    assert_eq!(of(&set).unwrap_err().reason(), "NoMatchingTargets");
    set.spec.failure_policy = Some("Isolate".to_owned());
    let expansion = of(&set).unwrap();
    let found: Vec<(&str, &str)> =
        expansion.variants.iter().map(|found| (found.repository.as_str(), found.package.as_str())).collect();
    assert_eq!(found, [("cluster-01", "y"), ("cluster-03", "p-red")]);
    let reasons: Vec<&str> = expansion.failures.iter().map(ExpandError::reason).collect();
    assert_eq!(
        reasons,
        ["NoMatchingTargets", "UnexpectedError", "UnexpectedError", "UnexpectedError", "DuplicateTargets"]
    );
    assert_eq!(expansion.target_counts, [0, 4, 1, 1]);
    let (reason, message) = expansion.failure().unwrap();
    assert_eq!(reason, "NoMatchingTargets");
    assert!(message.contains("cluster-02") && message.contains("(targets[2], targets[3])"), "{message}");
}

/// V-043: one set may have targets of all three kinds, and gets the variants of each.
#[test]
fn three_kinds_of_targets_in_one_set() {
    let key = ("hr.example.org/v1".to_owned(), "Team".to_owned());
    let others = Others::from([(key, Ok(vec![object("blue", &json!({})), object("red", &json!({}))]))]);
    let targets = json!([
        {"repositories": [{"name": "cluster-09", "packageNames": ["a", "b"]}]},
        {"repositorySelector": {"matchLabels": {"org": "finance"}}},
        {"objectSelector": {"apiVersion": "hr.example.org/v1", "kind": "Team"}},
    ]);
    let found = expansion_with(&targets, None, &others).unwrap();
    let made: Vec<String> =
        found.variants.iter().map(|variant| format!("{} {}", variant.repository, variant.package)).collect();
    assert_eq!(made, ["blue foo", "cluster-02 foo", "cluster-09 a", "cluster-09 b", "red foo"]);
    assert_eq!(found.target_counts, [1, 1, 2]);
}

/// V-044: figure 5, in which a template renames the package of one target only.
#[test]
fn a_template_is_for_its_target() {
    let targets = json!([
        {"repositories": [{"name": "cluster-01"}, {"name": "cluster-02"}]},
        {"repositories": [{"name": "cluster-03"}], "template": {"downstream": {"package": "bar"}}},
    ]);
    assert_eq!(pairs(&targets), ["cluster-01 foo", "cluster-02 foo", "cluster-03 bar"]);
}

/// V-137: listed names are defaults for every kind of target, and a template may replace them.
#[test]
fn listed_names_are_defaults() {
    let template = json!({"downstream": {"packageExpr": "packageDefault + '-x'"}});
    let listed =
        json!([{"repositories": [{"name": "cluster-01", "packageNames": ["a", "b"]}], "template": template}]);
    assert_eq!(pairs(&listed), ["cluster-01 a-x", "cluster-01 b-x"]);
    let selected = json!([{
        "repositorySelector": {"matchLabels": {"org": "finance"}}, "packageNames": ["a", "b"], "template": template,
    }]);
    assert_eq!(pairs(&selected), ["cluster-02 a-x", "cluster-02 b-x"]);
}

/// V-150, V-151: one package for each namespace; the variants differ only in names, with and
/// without labels.
#[test]
fn a_package_for_each_namespace() {
    let labels = json!({"package-type": "namespace", "org": "hr"});
    for (template, given) in [(json!(null), json!(null)), (json!({"labels": labels}), labels)] {
        let targets = json!([{
            "repositories": [{"name": "cluster-01", "packageNames": ["ns-1", "ns-2", "ns-3"]}], "template": template,
        }]);
        let mut names = Vec::new();
        for variant in expansion(&targets).unwrap().variants {
            let mut spec = serde_json::to_value(&variant.spec).unwrap();
            names.push(spec["downstream"]["package"].take());
            let mut expected = json!({
                "upstream": {"repo": "catalog", "package": "foo", "revision": "v1"},
                "downstream": {"repo": "cluster-01", "package": null},
            });
            if !given.is_null() {
                expected["labels"] = given.clone();
            }
            assert_eq!(spec, expected);
        }
        assert_eq!(names, ["ns-1", "ns-2", "ns-3"]);
    }
}

/// V-168, V-169: `repoExpr` can read all its variables before the repository is chosen. The
/// repository comes from `repoExpr`, else from `repo`, else from the target.
#[test]
fn the_repository_is_chosen_first() {
    let upstream: PackageRevision = serde_json::from_value(json!({
        "metadata": {"name": "catalog.foo.v1", "labels": {"env": "prod"}},
        "spec": {"repository": "catalog", "packageName": "foo", "revision": 1, "lifecycle": "Published"},
    }))
    .unwrap();
    let all = "repoDefault == 'cluster-01' && packageDefault == 'foo' && upstream.labels['env'] == \
               target.labels['env'] ? 'cluster-03' : 'nowhere'";
    for (downstream, expected) in [
        (json!({"repoExpr": all}), "cluster-03 useast2"),
        (json!({"repo": "cluster-02"}), "cluster-02 uswest1"),
        (json!({}), "cluster-01 useast1"),
    ] {
        let targets = json!([{
            "repositorySelector": {"matchLabels": {"region": "useast1"}},
            "template": {
                "downstream": downstream,
                "labelExprs": {"key": "region", "valueExpr": "repository.labels['region']"},
            },
        }]);
        let revisions = [upstream.clone()];
        let found = expansion_with(&targets, Some(&revisions), &Others::new()).unwrap();
        let [variant] = found.variants.as_slice() else { panic!("{found:?}") };
        assert_eq!(format!("{} {}", variant.repository, variant.spec.labels["region"]), expected);
    }
}

/// Regression test: 300 targets that each select thousands of repositories took seconds, although
/// all wanted the same variants.
#[test]
fn sites_of_all_targets_are_counted() {
    let target = |from: u32| {
        let names: Vec<String> = (from..from + 25_000).map(|number| format!("p{number}")).collect();
        json!({"repositories": [{"name": "cluster-01", "packageNames": names}]})
    };
    assert_eq!(expansion(&json!([target(0)])).unwrap().variants.len(), 25_000);
    let (reason, message) = error(&json!([target(0), target(0)]));
    assert_eq!(reason, "UnexpectedError");
    assert_eq!(message, "the set targets more than 40000 package variants: split it into several sets");
}
