use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Shorthand of `components.md` 2.5: `ctx` is a key of [`contexts`] or empty, `shop` means
/// `example.org/shop`.
fn attributes(ctx: &str, name: &str, version: &str) -> Attributes {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    Attributes { repository: context(ctx), name: text(name), version: text(version) }
}

fn context(key: &str) -> Option<RepositoryContext> {
    let prod = "reg.example.org/prod";
    let value = match key {
        "" => Value::Null,
        "R1" => json!({"type": "ociRegistry", "baseUrl": prod}),
        "R1-swapped" => {
            serde_json::from_str(r#"{"baseUrl": "reg.example.org/prod", "type": "ociRegistry"}"#).unwrap()
        }
        "R1-mapping" => json!({"type": "ociRegistry", "baseUrl": prod, "componentNameMapping": "urlPath"}),
        "R1-type" => json!({"type": "OCIRegistry", "baseUrl": prod}),
        "R1-slash" => json!({"type": "ociRegistry", "baseUrl": "reg.example.org/prod/"}),
        "R1-subpath" => json!({"type": "ociRegistry", "baseUrl": prod, "subPath": "x"}),
        "R2" => json!({"type": "ociRegistry", "baseUrl": "localhost:5000/dev"}),
        other => panic!("no context {other}"),
    };
    RepositoryContext::new(value)
}

type Half<'a> = (&'a str, &'a str, &'a str);

fn rules(rules: &[(Half<'_>, Half<'_>)]) -> Overwrites {
    rules
        .iter()
        .map(|(source, substitution)| Rule {
            source: attributes(source.0, source.1, source.2),
            substitution: attributes(substitution.0, substitution.1, substitution.2),
        })
        .collect()
}

fn check(row: u32, ctx: &str, list: &[(Half<'_>, Half<'_>)], expected: Half<'_>, matched: bool) {
    let original = Reference { repository: context(ctx), name: "shop".into(), version: "v1.2.0".into() };
    let expected =
        Reference { repository: context(expected.0), name: expected.1.into(), version: expected.2.into() };
    let overwrites = rules(list);
    let substitution = overwrites.apply(&original);
    assert_eq!(
        substitution,
        Substitution { original: original.clone(), effective: expected, matched },
        "row {row}"
    );
    assert_eq!(overwrites.explain(&original).0, substitution, "row {row}");
}

const ANY: Half<'_> = ("", "", "");

/// All rows of `components.md` 2.5 (`components.md` 11, item 1). They include the cases O-14 (rows
/// 2 to 5), O-15 (4, 6, 7, 21), O-16 (8 to 11), O-17 and O-18 (3, 5, 8, 26), O-20 (12, 14), O-21 to
/// O-23 (12, 20, 27), O-24 (17, 18), O-33 to O-36 (12, 13).
#[test]
fn truth_table() {
    let shop = ("", "shop", "");
    let unchanged = ("R1", "shop", "v1.2.0");
    check(1, "R1", &[], unchanged, false);
    check(2, "R1", &[(ANY, ANY)], unchanged, true);
    check(3, "R1", &[(shop, ("", "", "v9"))], ("R1", "shop", "v9"), true);
    check(4, "R1", &[(("", "other", ""), ("", "", "v9"))], unchanged, false);
    check(5, "R1", &[(("", "", "v1.2.0"), ("", "cart", ""))], ("R1", "cart", "v1.2.0"), true);
    check(6, "R1", &[(("", "", "1.2.0"), ("", "cart", ""))], unchanged, false);
    check(7, "R1", &[(("", "shop", "v1.1.0"), ("", "", "v9"))], unchanged, false);
    check(8, "R1", &[(("R1-swapped", "", ""), ("R2", "", ""))], ("R2", "shop", "v1.2.0"), true);
    for (row, variant) in [(9, "R1-mapping"), (10, "R1-type"), (11, "R1-slash")] {
        check(row, "R1", &[((variant, "", ""), ("R2", "", ""))], unchanged, false);
    }
    let first = (("R1", "shop", ""), ("R2", "cart", ""));
    let second = (shop, ("", "desk", "v3"));
    check(12, "R1", &[first, second], ("R2", "cart", "v1.2.0"), true);
    check(13, "R1", &[first, (shop, ("", "", "v3"))], ("R2", "cart", "v3"), true);
    check(14, "R1", &[second, first], ("R1", "desk", "v3"), true);
    check(
        15,
        "R1",
        &[(shop, ("", "cart", "")), (("", "cart", ""), ("", "", "v3"))],
        ("R1", "cart", "v1.2.0"),
        true,
    );
    check(16, "R1", &[(shop, ("", "", "v1.2.0")), (shop, ("", "", "v3"))], unchanged, true);
    check(17, "R1", &[(ANY, ("", "", "v2")), (shop, ("", "", "v3"))], ("R1", "shop", "v2"), true);
    check(18, "R1", &[(shop, ("", "", "v3")), (ANY, ("", "", "v2"))], ("R1", "shop", "v3"), true);
    let disjoint =
        [(ANY, ("R2", "", "")), (ANY, ("", "cart", "")), (ANY, ("", "", "v3")), (ANY, ("", "", "v4"))];
    check(19, "R1", &disjoint, ("R2", "cart", "v3"), true);
    let dropped = [(ANY, ("", "cart", "")), (ANY, ("", "desk", "v3")), (ANY, ("", "", "v4"))];
    check(20, "R1", &dropped, ("R1", "cart", "v4"), true);
    check(21, "R1", &[(("", "SHOP", ""), ("", "", "v9"))], unchanged, false);
    check(22, "R1", &[(ANY, ("", "", "v9"))], ("R1", "shop", "v9"), true);
    check(23, "R1", &[(("R1", "", ""), ("R2", "", ""))], ("R2", "shop", "v1.2.0"), true);
    check(24, "", &[(("R1", "", ""), ("", "", "v9"))], ("", "shop", "v1.2.0"), false);
    check(25, "", &[(shop, ("R2", "", ""))], ("R2", "shop", "v1.2.0"), true);
    check(26, "R1", &[(("R1", "", ""), ("R1-subpath", "", ""))], ("R1-subpath", "shop", "v1.2.0"), true);
    let equal = [(shop, ("", "cart", "v3")), (shop, ("", "cart", "")), (shop, ("R2", "", ""))];
    check(27, "R1", &equal, ("R2", "cart", "v3"), true);
}

/// Case O-22: no attribute is overwritten twice, for any number of rules.
#[test]
fn the_first_of_three_versions_wins() {
    let three = [(ANY, ("", "", "v1")), (ANY, ("", "", "v2")), (ANY, ("", "", "v3"))];
    check(0, "R1", &three, ("R1", "shop", "v1"), true);
}

/// Cases O-10 to O-13 and row 22 of `components.md` 2.5: empty strings and null mean "not
/// specified", `{}` is specified, and unknown members are kept.
#[test]
fn wire_form() {
    let object: ComponentVersionOverwrites = serde_json::from_value(json!({
        "apiVersion": "landscaper.gardener.cloud/v1alpha1",
        "kind": "ComponentVersionOverwrites",
        "metadata": {"name": "o"},
        "overwrites": [
            {"source": {"componentName": "", "version": "", "repositoryContext": null}, "substitution": {"version": "v9"}},
            {"source": {}, "substitution": {"repositoryContext": {}}},
            {"source": {"repositoryContext": {"type": "x", "extra": 1}}, "substitution": {}},
        ],
    }))
    .unwrap();
    let overwrites = Overwrites::from(&object);
    assert_eq!(overwrites.rules()[0].source, Attributes::default());
    assert_eq!(overwrites.rules()[1].substitution.repository, RepositoryContext::new(json!({})));
    assert_eq!(
        overwrites.rules()[2].source.repository,
        RepositoryContext::new(json!({"extra": 1.0, "type": "x"}))
    );
}

/// Case O-35: the report names the conflicting rule.
#[test]
fn outcomes() {
    let shop = ("", "shop", "");
    let overwrites = rules(&[
        (("R2", "other", ""), ANY),
        (("R1", "shop", ""), ("R2", "cart", "")),
        (shop, ("", "desk", "v3")),
        (shop, ("", "", "v4")),
        (shop, ("", "", "v5")),
    ]);
    let original = Reference { repository: context("R1"), name: "shop".into(), version: "v1.2.0".into() };
    let (_, outcomes) = overwrites.explain(&original);
    let differing = [Attribute::Repository, Attribute::Name].into_iter().collect();
    assert_eq!(
        outcomes,
        [
            RuleOutcome::NotMatched(differing),
            RuleOutcome::Applied,
            RuleOutcome::Ignored(Conflicts([None, Some(1), None])),
            RuleOutcome::Applied,
            RuleOutcome::NotReached,
        ]
    );
}

fn any_attributes() -> impl Strategy<Value = Attributes> {
    let pick = |values: &'static [&'static str]| prop::sample::select(values);
    (pick(&["", "", "R1", "R2", "R1-type"]), pick(&["", "", "a", "b"]), pick(&["", "", "1", "2"]))
        .prop_map(|(ctx, name, version)| attributes(ctx, name, version))
}

fn any_rule() -> impl Strategy<Value = Rule> {
    (any_attributes(), any_attributes()).prop_map(|(source, substitution)| Rule { source, substitution })
}

fn any_reference() -> impl Strategy<Value = Reference> {
    let pick = |values: &'static [&'static str]| prop::sample::select(values);
    (pick(&["", "R1", "R2"]), pick(&["a", "b"]), pick(&["1", "2"])).prop_map(|(ctx, name, version)| {
        Reference { repository: context(ctx), name: name.into(), version: version.into() }
    })
}

proptest! {
    /// The result contains only values of applied rules, each rule is applied as a whole, and no
    /// two of them set the same attribute (`components.md` 11, item 1).
    #[test]
    fn whole_or_not_at_all(list in prop::collection::vec(any_rule(), 0..8), original in any_reference()) {
        let overwrites: Overwrites = list.iter().cloned().collect();
        let (substitution, outcomes) = overwrites.explain(&original);
        let applied: Vec<&Rule> = list.iter().zip(&outcomes)
            .filter(|(_, outcome)| **outcome == RuleOutcome::Applied).map(|(rule, _)| rule).collect();
        for attribute in Attribute::ALL {
            let setters = applied.iter().filter(|rule| rule.substitution.specified().contains(attribute)).count();
            prop_assert!(setters <= 1);
        }
        for rule in &applied {
            prop_assert!(rule.substitution.differing(&substitution.effective).is_empty());
            prop_assert!(rule.source.differing(&original).is_empty());
        }
        let untouched = |attribute| applied.iter().all(|rule| !rule.substitution.specified().contains(attribute));
        if untouched(Attribute::Repository) { prop_assert_eq!(&substitution.effective.repository, &original.repository); }
        if untouched(Attribute::Name) { prop_assert_eq!(&substitution.effective.name, &original.name); }
        if untouched(Attribute::Version) { prop_assert_eq!(&substitution.effective.version, &original.version); }
    }

    /// A source matches exactly if the report shows no difference.
    #[test]
    fn matching_is_having_no_difference(source in any_attributes(), reference in any_reference()) {
        prop_assert_eq!(source.matches(&reference), source.differing(&reference).is_empty());
    }

    /// A rule whose source does not match can be inserted anywhere without effect.
    #[test]
    fn rules_that_do_not_match_are_neutral(
        list in prop::collection::vec(any_rule(), 0..6), extra in any_rule(), at in 0usize..6, original in any_reference(),
    ) {
        prop_assume!(!extra.source.differing(&original).is_empty());
        let before = list.iter().cloned().collect::<Overwrites>().apply(&original);
        let mut longer = list;
        longer.insert(at.min(longer.len()), extra);
        prop_assert_eq!(longer.into_iter().collect::<Overwrites>().apply(&original), before);
    }

    /// An appended rule never reverts the effect of earlier rules.
    #[test]
    fn earlier_rules_win(list in prop::collection::vec(any_rule(), 0..6), last in any_rule(), original in any_reference()) {
        let before = list.iter().cloned().collect::<Overwrites>();
        let (_, outcomes) = before.explain(&original);
        let mut longer = list;
        longer.push(last);
        let (_, longer_outcomes) = longer.into_iter().collect::<Overwrites>().explain(&original);
        prop_assert_eq!(&longer_outcomes[..outcomes.len()], &outcomes[..]);
    }

    /// Repetition of the whole list has no effect: every attribute that can be set is set, and a
    /// dropped rule is dropped again.
    #[test]
    fn repeating_the_list_changes_nothing(list in prop::collection::vec(any_rule(), 0..5), original in any_reference()) {
        let once = list.iter().cloned().collect::<Overwrites>().apply(&original);
        let twice: Overwrites = list.iter().chain(&list).cloned().collect();
        prop_assert_eq!(twice.apply(&original), once);
    }
}
