use groundwork_api::DeployItemTemplate;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::testing::{supplied, yaml};

fn targets() -> BTreeMap<String, TargetValue> {
    supplied("target: {single: x/t}\nlist: {many: [x/t, x/t]}\nmap: {keyed: {red: x/t}}").targets
}

/// Decodes deploy items from the YAML under `deployItems`.
fn items(text: &str) -> Result<Vec<DeployItemTemplate>, String> {
    let raw = decode_items(yaml(text), 0).map_err(|error| error.to_string())?;
    resolve_items(raw, &targets(), "ns").map_err(|error| error.to_string())
}

#[track_caller]
fn check_error(text: &str, expected: &str) {
    assert_eq!(items(text).unwrap_err(), expected, "{text}");
}

/// `blueprints.md` 5.1 step 6: scalars in place of texts.
#[test]
fn scalars_become_text() {
    for (scalar, expected) in [
        ("5", "5"),
        ("010", "8"),
        ("0x1F", "31"),
        ("yes", "true"),
        ("off", "false"),
        ("1.10", "1.1"),
        ("1e3", "1000"),
        ("1e6", "1e+06"),
        ("12345678.5", "1.2345678e+07"),
        ("18446744073709551615", "18446744073709551615"),
        ("2001-12-14", "2001-12-14"),
        ("'05'", "05"),
        ("text", "text"),
    ] {
        let texts =
            format!("[{{name: {scalar}, type: {scalar}, labels: {{l: {scalar}}}, dependsOn: [{scalar}]}}]");
        let raw = decode_items(yaml(&texts), 0).unwrap().remove(0).template;
        assert_eq!(
            (raw.name.as_str(), raw.type_.as_str(), raw.labels["l"].as_str(), raw.depends_on[0].as_str()),
            (expected, expected, expected, expected),
            "{scalar}"
        );
        let target = format!("[{{target: {{import: {scalar}, key: {scalar}, name: {scalar}}}}}]");
        let target = decode_items(yaml(&target), 0).unwrap().remove(0).target.unwrap();
        for text in [target.import, target.key, target.name] {
            assert_eq!(text.as_deref(), Some(expected), "{scalar}");
        }
    }
    let nulls = decode_items(yaml("[{name: null, type: ~, labels: {l: null}, dependsOn: [null]}]"), 0)
        .unwrap()
        .remove(0);
    let template = nulls.template;
    assert_eq!((template.name.as_str(), template.type_.as_str()), ("", ""));
    assert_eq!((template.labels["l"].as_str(), template.depends_on[0].as_str()), ("", ""));
}

/// Errors about wrong shapes name place and type, never the value.
#[test]
fn wrong_shapes() {
    for (text, expected) in [
        ("text", "deployItems: a list is expected, found a text"),
        ("{a: b}", "deployItems: a list is expected, found a map"),
        ("[text]", "deployItems[0]: a map is expected, found a text"),
        ("[{}, {name: []}]", "deployItems[1].name: a text is expected, found a list"),
        ("[{type: {}}]", "deployItems[0].type: a text is expected, found a map"),
        ("[{labels: {a: []}}]", "deployItems[0].labels.a: a text is expected, found a list"),
        ("[{labels: [a]}]", "deployItems[0].labels: a map is expected, found a list"),
        ("[{dependsOn: [[]]}]", "deployItems[0].dependsOn[0]: a text is expected, found a list"),
        ("[{dependsOn: a}]", "deployItems[0].dependsOn: a list is expected, found a text"),
        ("[{target: a}]", "deployItems[0].target: a map is expected, found a text"),
        ("[{target: {index: '0'}}]", "deployItems[0].target.index: an integer is expected, found a text"),
        ("[{target: {index: 1.5}}]", "deployItems[0].target.index: an integer is expected, found a number"),
        (
            "[{updateOnChangeOnly: 'true'}]",
            "deployItems[0].updateOnChangeOnly: true or false is expected, found a text",
        ),
        ("[{onDelete: true}]", "deployItems[0].onDelete: a map is expected, found a boolean"),
        (
            "[{config: {a: 1}, configuration: {a: 1}}]",
            "deployItems[0]: config and configuration are the same field, set only one",
        ),
    ] {
        check_error(text, expected);
    }
    for timeout in ["300", "0", "true", "soon", "5", "''"] {
        let text = items(&format!("[{{timeout: {timeout}}}]")).unwrap_err();
        assert!(text.starts_with("deployItems[0].timeout: ") && !text.contains("soon"), "{text}");
    }
}

/// Cases B-71, B-72, B-74 to B-76: the fields of `blueprints.md` 7.1 in any case, both names of the
/// configuration, both places of `updateOnChangeOnly`.
#[test]
fn fields() {
    let text = "[{NAME: a, Type: b, labels: {l: v}, Configuration: {x: 1}, dependson: [], timeout: 1m30s, \
                onDelete: {skipUninstallIfClusterRemoved: true}, target: {import: single, updateOnChangeOnly: true}}]";
    let item = items(text).unwrap().remove(0);
    assert_eq!(
        serde_json::to_value(&item).unwrap(),
        json!({
            "name": "a", "type": "b", "labels": {"l": "v"}, "config": {"x": 1}, "dependsOn": [],
            "timeout": "1m30s", "onDelete": {"skipUninstallIfClusterRemoved": true}, "updateOnChangeOnly": true,
            "target": {"name": "single", "namespace": "source"},
        })
    );
    let exact = items(
        "[{Name: wrong, name: right, type: x, updateOnChangeOnly: false, target: {import: single, updateOnChangeOnly: true}}]",
    );
    let exact = exact.unwrap().remove(0);
    assert_eq!((exact.name.as_str(), exact.update_on_change_only), ("right", Some(false)));
    for (timeout, nanoseconds) in
        [("none", 0), ("0s", 0), ("-5m", -300_000_000_000), ("1h", 3_600_000_000_000)]
    {
        let item = items(&format!("[{{name: a, type: b, timeout: {timeout}}}]")).unwrap().remove(0);
        assert_eq!(item.timeout.unwrap().as_nanos(), nanoseconds, "{timeout}");
    }
    assert_eq!(items("[{name: a, type: b, timeout: null, config: null}]").unwrap().remove(0).timeout, None);
    for config in ["5", "text", "[1]", "{a: 1}", "false"] {
        let item = items(&format!("[{{name: a, type: b, config: {config}}}]")).unwrap().remove(0);
        assert_eq!(item.config.get(), Some(&yaml(config)), "{config}");
    }
    assert_eq!(items("null"), Ok(vec![]));
    assert_eq!(items("[]"), Ok(vec![]));
}

/// Cases B-69, B-70, B-73, B-78: the rows of `blueprints.md` 7.2.
#[test]
fn target_resolution() {
    let resolve = |target: &str| {
        items(&format!("[{{name: i, type: t, target: {target}}}]")).map(|mut items| {
            items
                .remove(0)
                .target
                .map(|target| format!("{}/{}", target.namespace.unwrap_or_default(), target.name))
        })
    };
    for (target, object) in [
        ("{import: many, index: 0}", "source/many-0"),
        ("{import: many, index: 1.0}", "source/many-1"),
        ("{import: many, index: 1, key: red}", "source/many-1"),
        ("{import: keyed, key: red}", "source/keyed-red"),
        ("{import: keyed, key: red, name: other}", "source/keyed-red"),
        ("{import: single}", "source/single"),
        ("{import: single, name: other}", "source/single"),
        ("{name: other}", "ns/other"),
        ("{name: other, namespace: elsewhere}", "ns/other"),
        ("{import: '', name: other}", "ns/other"),
    ] {
        assert_eq!(resolve(target), Ok(Some(object.to_owned())), "{target}");
    }
    assert_eq!(resolve("null"), Ok(None));
    for (target, problem) in [
        ("{import: nope, index: 0}", "targetlist import \"nope\" not found"),
        ("{import: single, index: 0}", "targetlist import \"single\" not found"),
        ("{import: many, index: 2}", "index 2 out of bounds"),
        ("{import: many, index: -1}", "index -1 out of bounds"),
        ("{import: nope, key: red}", "targetmap import \"nope\" not found"),
        ("{import: many, key: red}", "targetmap import \"many\" not found"),
        ("{import: keyed, key: blue}", "key \"blue\" not found in targetmap import \"keyed\""),
        ("{import: nope}", "target import \"nope\" not found"),
        ("{import: keyed}", "target import \"keyed\" not found"),
        ("{import: many}", "target import \"many\" not found"),
        ("{}", "empty target reference"),
        ("{name: ''}", "empty target reference"),
        ("{namespace: x}", "empty target reference"),
    ] {
        assert_eq!(
            resolve(target),
            Err(format!("invalid deployitem specification \"i\": {problem}")),
            "{target}"
        );
    }
    check_error(
        "[{name: a, type: t, target: {}}, {name: b, type: t, target: {import: x}}]",
        "invalid deployitem specification \"a\": empty target reference",
    );
}

/// Cases B-65, B-67, B-78: the rows of `blueprints.md` 7.3.
#[test]
fn list_errors() {
    let prefix = "error validating deployitem templates:";
    let root = "deployExecutions";
    for (text, expected) in [
        ("[{name: a, type: t}, {name: a, type: t}]", format!("{root}[1]: Duplicate value: \"a\"")),
        ("[{type: t}]", format!("{root}[0].name: Required value: name must not be empty")),
        ("[{name: a}]", format!("{root}[0][a].type: Required value: type must not be empty")),
        (
            "[null]",
            format!(
                "[{root}[0].name: Required value: name must not be empty, {root}[0].type: Required value: type must \
                 not be empty]"
            ),
        ),
        (
            "[{name: a, type: t, dependsOn: [x]}]",
            format!("{root}[0][a]: Invalid value: \"x\": depends on undefined deploy item"),
        ),
        (
            "[{name: a, type: t, dependsOn: [a]}]",
            format!("{root}: Invalid value: [\"a\"]: cycle found in dependencies"),
        ),
        (
            "[{name: a, type: t, dependsOn: [b]}, {name: b, type: t, dependsOn: [a]}]",
            format!("{root}: Invalid value: [\"a\",\"b\"]: cycle found in dependencies"),
        ),
        (
            "[{name: z, type: t, dependsOn: [a]}, {name: a, type: t, dependsOn: [b]}, {name: b, type: t, dependsOn: \
             [c]}, {name: c, type: t, dependsOn: [a, x]}]",
            format!(
                "[{root}: Invalid value: [\"a\",\"b\",\"c\"]: cycle found in dependencies, {root}[3][c]: Invalid \
                 value: \"x\": depends on undefined deploy item]"
            ),
        ),
        (
            "[{name: a, type: t, dependsOn: [b, c]}, {name: b, type: t, dependsOn: [a]}, {name: c, type: t, \
             dependsOn: [a]}]",
            format!(
                "[{root}: Invalid value: [\"a\",\"b\"]: cycle found in dependencies, {root}: Invalid value: \
                 [\"a\",\"c\"]: cycle found in dependencies]"
            ),
        ),
        // Dependencies are not checked while names are not unique.
        (
            "[{name: a, type: t, dependsOn: [x]}, {name: a, type: t, dependsOn: [a]}]",
            format!("{root}[1]: Duplicate value: \"a\""),
        ),
    ] {
        check_error(text, &format!("{prefix} {expected}"));
    }
    let diamond = "[{name: d, type: t, dependsOn: [b, c]}, {name: b, type: t, dependsOn: [a]}, {name: c, type: t, \
                   dependsOn: [a]}, {name: a, type: t}]";
    let names: Vec<_> = items(diamond).unwrap().into_iter().map(|item| item.name).collect();
    assert_eq!(names, ["d", "b", "c", "a"]);
}

#[test]
fn long_chains_of_dependencies() {
    let chain: Vec<Value> = (0..3000)
        .map(|index| json!({"name": format!("i{index}"), "type": "t", "dependsOn": [format!("i{}", (index + 1) % 3000)]}))
        .collect();
    let error = resolve_items(decode_items(Value::from(chain), 0).unwrap(), &targets(), "ns").unwrap_err();
    let DeployError::Invalid(errors) = error else { panic!("{error}") };
    assert_eq!(errors.len(), 1);
}

/// Errors about labels use the words of Kubernetes. A later step redacts imported values in all
/// messages.
#[test]
fn labels() {
    for (key, value) in [("a", ""), ("a", "x"), ("example.org/a", "x.y_z-1"), ("A.b_c-d", "1")] {
        assert!(
            items(&format!("[{{name: i, type: t, labels: {{{key}: '{value}'}}}}]")).is_ok(),
            "{key}={value}"
        );
    }
    let long = "a".repeat(64);
    for (key, value) in [("a", "no blank"), ("a", "-x"), ("a", "x."), ("a", "ümlaut"), ("a", long.as_str())]
    {
        let error = items(&format!("[{{name: i, type: t, labels: {{{key}: {value}}}}}]")).unwrap_err();
        let start = "error validating deployitem templates: deployExecutions[0][i].labels: Invalid value: ";
        let problem = if value == long {
            "must be no more than 63"
        } else {
            "a valid label must be an empty string or"
        };
        assert!(error.starts_with(&format!("{start}{value:?}: {problem}")), "{error}");
    }
    for key in ["-a", "a b", "A.org/x", "a/b/c", "/x", "x/", long.as_str()] {
        let error = items(&format!("[{{name: i, type: t, labels: {{{key}: v}}}}]")).unwrap_err();
        assert!(error.contains(&format!("labels: Invalid value: {key:?}: ")), "{error}");
        assert!(error.contains(" part ") || error.contains("a qualified name must consist of"), "{error}");
    }
}

/// Removes items without open dependencies until none is left to remove. The remaining items depend
/// on a cycle.
fn has_cycle(edges: &[Vec<usize>]) -> bool {
    let mut open: Vec<usize> = (0..edges.len()).collect();
    loop {
        let left: Vec<usize> =
            open.iter().copied().filter(|item| edges[*item].iter().any(|next| open.contains(next))).collect();
        if left.len() == open.len() {
            return !open.is_empty();
        }
        open = left;
    }
}

proptest! {
    /// A cycle is reported if and only if one exists, and the reported members form a cycle.
    #[test]
    fn cycles_are_found(edges in (1_usize..8).prop_flat_map(|count| prop::collection::vec(prop::collection::vec(0..count, 0..4), count))) {
        let name = |index: usize| format!("i{index}");
        let list: Value = edges
            .iter()
            .enumerate()
            .map(|(index, next)| json!({"name": name(index), "type": "t", "dependsOn": next.iter().map(|next| name(*next)).collect::<Vec<_>>()}))
            .collect();
        let result = resolve_items(decode_items(list, 0).unwrap(), &BTreeMap::new(), "ns");
        prop_assert_eq!(result.is_err(), has_cycle(&edges));
        let Err(DeployError::Invalid(errors)) = result else { return Ok(()) };
        for error in errors {
            let Violation::Invalid(Value::Array(members)) = error.violation else { panic!("{error}") };
            let indexes: Vec<usize> = members.iter().map(|member| member.as_str().unwrap()[1..].parse().unwrap()).collect();
            for (position, item) in indexes.iter().enumerate() {
                prop_assert!(edges[*item].contains(&indexes[(position + 1) % indexes.len()]));
            }
        }
    }
}
