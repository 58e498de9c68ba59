//! Property tests of splitting texts into documents, and of their order (`helm.md` 7.1, and 16,
//! item 5).

use std::collections::BTreeSet;

use groundwork_go::text::is_space;
use groundwork_helm::{
    Chart, File, INSTALL_ORDER, Renderer, Request, UNINSTALL_ORDER, compare_for_uninstall, documents,
};
use proptest::prelude::*;
use regex::Regex;

/// Separators, near-separators, and white space of all kinds. Go's `\s` knows fewer kinds of white
/// space than the trimming does.
const PIECES: [&str; 14] =
    ["---", "--", "-", "\n", "\n---", " ", "\t", "\r\n", "\x0b", "\x0c", "\u{a0}", "\u{2003}", "a: b", "# c"];

/// Splits by Helm's expression, with a library that is not ours.
fn by_expression(text: &str) -> Vec<String> {
    let separator = Regex::new(r"(?:^|[\t\n\x0C\r ]*\n)---[\t\n\x0C\r ]*").expect("it is an expression");
    let pieces = separator.split(text.trim_matches(is_space)).map(|piece| piece.trim_matches(is_space));
    pieces.filter(|piece| !piece.is_empty()).map(str::to_owned).collect()
}

/// Returns the kinds and files of the documents in a chart, in its order.
fn sorted(kinds: &[String]) -> Vec<(String, String)> {
    let text: Vec<String> = kinds
        .iter()
        .enumerate()
        .map(|(at, kind)| format!("kind: {kind}\nmetadata:\n  name: n{at:03}\n"))
        .collect();
    let files = vec![
        File::new("Chart.yaml", *b"{apiVersion: v2, name: c, version: 0.1.0}"),
        File::new("templates/all.yaml", text.join("---\n").into_bytes()),
    ];
    let renderer = Renderer::new(Chart::from_files(files).expect("it is a chart"));
    let rendered = renderer.render(&Request::default()).expect("it is rendered");
    let name = |content: &str| content.rsplit("name: ").next().unwrap_or_default().to_owned();
    rendered.documents.into_iter().map(|one| (one.kind, name(&one.content))).collect()
}

fn kind() -> impl Strategy<Value = String> {
    let known = prop::sample::select(INSTALL_ORDER.to_vec()).prop_map(str::to_owned);
    prop_oneof![4 => known, 1 => prop::sample::select(vec!["Zebra", "Apple", "Widget"]).prop_map(str::to_owned)]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(1_000) })]

    #[test]
    fn texts_are_cut_where_the_expression_matches(pieces in prop::collection::vec(prop::sample::select(PIECES.to_vec()), 0..24)) {
        let text = pieces.concat();
        prop_assert_eq!(documents(&text), by_expression(&text), "{:?}", text);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(40) })]

    /// Property: known kinds are ordered by the list, the others behind them by name, and documents
    /// of the same kind stay in their order.
    #[test]
    fn documents_are_in_the_order_of_their_kinds(kinds in prop::collection::vec(kind(), 1..40)) {
        let place = |kind: &str| INSTALL_ORDER.iter().position(|known| *known == kind).unwrap_or(INSTALL_ORDER.len());
        let mut expected: Vec<(String, String)> =
            kinds.iter().enumerate().map(|(at, kind)| (kind.clone(), format!("n{at:03}"))).collect();
        expected.sort_by_key(|(kind, name)| (place(kind), kind.clone(), name.clone()));
        prop_assert_eq!(sorted(&kinds), expected);
    }
}

/// Case: the order of removal is that of installation reversed, with Helm's exceptions. Every kind
/// is in both lists.
#[test]
fn the_lists_are_those_of_the_original() {
    let (install, uninstall) = (INSTALL_ORDER.to_vec(), UNINSTALL_ORDER.to_vec());
    let set = |list: &[&'static str]| list.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(set(&install), set(&uninstall));
    assert_eq!(set(&install).len(), install.len());
    for (early, late) in [
        ("Namespace", "ConfigMap"),
        ("CustomResourceDefinition", "Role"),
        ("ServiceAccount", "Deployment"),
        ("Service", "Deployment"),
        ("Deployment", "Ingress"),
        ("Ingress", "APIService"),
    ] {
        let place = |list: &[&str], kind: &str| list.iter().position(|known| *known == kind);
        assert!(place(&install, early) < place(&install, late), "{early} {late}");
    }
    let mut kinds = vec!["Zebra", "Namespace", "Secret", "Apple", "Deployment", "Service", "APIService"];
    kinds.sort_by(|left, right| compare_for_uninstall(left, right));
    assert_eq!(kinds, ["APIService", "Service", "Deployment", "Secret", "Namespace", "Apple", "Zebra"]);
}
