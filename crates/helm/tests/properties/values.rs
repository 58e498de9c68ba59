//! Property tests of users' values over defaults (`helm.md` 4, and 16, item 3).

use groundwork_helm::values::Table;
use groundwork_helm::{Chart, File, Renderer, Request};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const KEYS: [&str; 4] = ["a", "b", "m", "list"];
/// The name of the subchart.
const SUB: &str = "s";

/// Generates values of any form; nulls only if asked for.
fn value(has_null: bool) -> BoxedStrategy<Value> {
    let number = |number: i32| json!(f64::from(number));
    let scalar = prop_oneof![
        (0..5).prop_map(number),
        any::<bool>().prop_map(Value::from),
        "[xy]{0,2}".prop_map(Value::from),
        prop::collection::vec(0..3, 0..3).prop_map(|items| json!(items)),
    ];
    let leaf =
        if has_null { prop_oneof![4 => scalar, 1 => Just(Value::Null)].boxed() } else { scalar.boxed() };
    leaf.prop_recursive(3, 24, 4, |inner| table_of(inner).prop_map(Value::Object).boxed()).boxed()
}

fn table_of(value: impl Strategy<Value = Value> + 'static) -> BoxedStrategy<Table> {
    let members = prop::collection::btree_map(prop::sample::select(KEYS.to_vec()), value, 0..4);
    members
        .prop_map(|members| members.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
        .boxed()
}

fn table(has_null: bool) -> BoxedStrategy<Table> {
    table_of(value(has_null))
}

/// Generates values of a chart, with values for its subchart and globals that are not tables.
fn tree(has_null: bool) -> BoxedStrategy<Table> {
    let globals = prop::collection::btree_map(prop::sample::select(KEYS.to_vec()), 0..9, 0..3);
    (
        table(has_null),
        prop::option::of(table(has_null)),
        prop::option::of(globals.clone()),
        prop::option::of(globals),
    )
        .prop_map(|(mut own, sub, globals, below)| {
            let object = |globals: std::collections::BTreeMap<&str, i32>| {
                Value::Object(
                    globals
                        .into_iter()
                        .map(|(key, number)| (key.to_owned(), json!(f64::from(number))))
                        .collect(),
                )
            };
            if let Some(globals) = globals {
                own.insert("global".to_owned(), object(globals));
            }
            if let Some(mut sub) = sub {
                if let Some(below) = below {
                    sub.insert("global".to_owned(), object(below));
                }
                own.insert(SUB.to_owned(), Value::Object(sub));
            }
            own
        })
        .boxed()
}

fn chart(own: &Table, sub: &Table, templates: &[(&str, &str)]) -> Renderer {
    let text = |table: &Table| Value::Object(table.clone()).to_string().into_bytes();
    let mut files = vec![
        File::new("Chart.yaml", *b"{apiVersion: v2, name: c, version: 0.1.0}"),
        File::new("values.yaml", text(own)),
        File::new("charts/s/Chart.yaml", *b"{apiVersion: v2, name: s, version: 0.1.0}"),
        File::new("charts/s/values.yaml", text(sub)),
    ];
    files.extend(templates.iter().map(|(path, text)| File::new(*path, text.as_bytes())));
    Renderer::new(Chart::from_files(files).expect("it is a chart"))
}

fn coalesced(renderer: &Renderer, given: &Table) -> Table {
    let request = Request { values: given.clone(), ..Request::default() };
    let prepared = renderer.prepare(&request).expect("nothing is wrong with them");
    // JSON does not distinguish floats, so all numbers are compared as floats.
    groundwork_helm::values::floats(prepared.values)
}

/// Collects the paths of values that the user gave and that are missing in the result. Globals of a
/// subchart are skipped, since its parent decides about them.
fn lost(given: &Table, found: &Table, path: &str, is_root: bool, lost_now: &mut Vec<String>) {
    for (key, value) in given.iter().filter(|(key, _)| is_root || *key != "global") {
        let path = format!("{path}.{key}");
        match (value, found.get(key)) {
            (Value::Null, None | Some(Value::Null)) => {}
            (Value::Object(given), Some(Value::Object(found))) => lost(given, found, &path, false, lost_now),
            (given, Some(found)) if given == found => {}
            (given, found) => lost_now.push(format!("{path}: {given} is {found:?}")),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(150) })]

    /// Property: users' values win over all defaults, also for a subchart. A null removes a
    /// default, and never becomes a value.
    #[test]
    fn what_users_give_wins(own in tree(true), sub in table(true), given in tree(true)) {
        let given = groundwork_helm::values::floats(given);
        let found = coalesced(&chart(&own, &sub, &[]), &given);
        let mut problems = Vec::new();
        lost(&given, &found, "", true, &mut problems);
        prop_assert!(problems.is_empty(), "{problems:?}");
    }

    /// Property: a default is in the result unless another value replaces it.
    #[test]
    fn defaults_are_what_is_left(own in table(false), sub in table(false), given in tree(false)) {
        let found = coalesced(&chart(&own, &sub, &[]), &given);
        let floats = groundwork_helm::values::floats;
        for (key, value) in floats(own).iter().filter(|(key, _)| !given.contains_key(*key)) {
            prop_assert_eq!(found.get(key), Some(value));
        }
        let below = given.get(SUB).and_then(Value::as_object).cloned().unwrap_or_default();
        for (key, value) in floats(sub).iter().filter(|(key, _)| !below.contains_key(*key)) {
            prop_assert_eq!(found[SUB].get(key), Some(value));
        }
    }

    #[test]
    fn values_without_null_stay_the_second_time(own in tree(false), sub in table(false), given in tree(false)) {
        let renderer = chart(&own, &sub, &[]);
        let once = coalesced(&renderer, &given);
        prop_assert_eq!(coalesced(&renderer, &once), once);
    }

    /// Property: globals go from parent to child. The child has the parent's, from the user or by
    /// default, and its own beside them.
    #[test]
    fn parents_decide_about_globals(own in tree(false), sub in tree(false), given in tree(false)) {
        let sub: Table = sub.into_iter().filter(|(key, _)| key != SUB).collect();
        let found = coalesced(&chart(&own, &sub, &[]), &given);
        let none = Map::new();
        let of = |table: Option<&Value>| table.and_then(Value::as_object).cloned().unwrap_or_else(|| none.clone());
        let (above, below) = (of(found.get("global")), of(found[SUB].get("global")));
        prop_assert!(found[SUB].get("global").is_some_and(Value::is_object), "every subchart has some");
        prop_assert_eq!(found.contains_key("global"), given.contains_key("global") || own.contains_key("global"));
        for (key, value) in &above {
            prop_assert_eq!(below.get(key), Some(value), "{}", key);
        }
        for key in of(sub.get("global")).keys() {
            prop_assert!(below.contains_key(key), "{} has gone", key);
        }
    }

    /// Property: templates may change their data during a render, but values, chart and the next
    /// output are not affected.
    #[test]
    fn nothing_leaks_from_one_render_to_the_next(own in table(true), given in table(true)) {
        let greedy = "{{- $_ := set .Values \"a\" (print (.Values.a | toJson) \"!\") }}{{- $_ := set .Values.global \"x\" 1 }}\
                      {{- range $key, $value := .Values }}{{ if kindIs \"map\" $value }}{{ $_ := set $value \"new\" true }}{{ end }}{{ end }}\
                      t: {{ toJson .Values }}\n";
        let renderer = chart(&own, &Table::new(), &[("templates/t.yaml", greedy)]);
        let mut values = given;
        values.insert("global".to_owned(), json!({"g": 1.0}));
        let request = Request { values: values.clone(), ..Request::default() };
        let chart_before = format!("{:?}", renderer.chart().values);
        let first = renderer.render(&request).expect("it is rendered");
        prop_assert_eq!(renderer.render(&request).expect("it is rendered"), first);
        prop_assert_eq!(&request.values, &values);
        prop_assert_eq!(format!("{:?}", renderer.chart().values), chart_before);
    }
}
