//! Property tests with input that is not a chart, or nearly one: an answer, the same each time,
//! without a panic (`helm.md` 16, item 1).

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_helm::{Chart, File, LoadError, Rendered, Renderer, Request};
use proptest::prelude::*;

const DESCRIPTION: &str = "{apiVersion: v2, name: c, version: 0.1.0}";

/// Pieces of descriptions and values.
const YAML: [&str; 26] = [
    "a",
    "name",
    "version",
    "dependencies",
    "alias",
    ": ",
    ":",
    "- ",
    "\n",
    "  ",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "'",
    "|\n",
    "&x ",
    "*x",
    "!!binary ",
    "~",
    "1e999",
    "0x",
    "---\n",
    "\u{0}",
];

/// Pieces of templates.
const TEMPLATE: [&str; 36] = [
    "{{",
    "}}",
    "{{- ",
    " -}}",
    "if",
    "else",
    "end",
    "range",
    "with",
    "define",
    "block",
    "template",
    "include",
    "tpl",
    "toYaml",
    "required",
    "fail",
    "nil",
    " ",
    "\"a\"",
    "`b`",
    ".Values",
    ".a",
    ".Files.Get",
    "$",
    "$x",
    ":=",
    "=",
    "|",
    "(",
    ")",
    "1",
    "-1",
    "/*",
    "*/",
    "kind: Pod\n",
];

/// Generates a text of pieces, with some other characters in between.
fn text(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    let piece = prop_oneof![12 => prop::sample::select(pieces.to_vec()).prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)];
    prop::collection::vec(piece, 0..32).prop_map(|pieces| pieces.concat())
}

fn render(chart: Result<Chart, LoadError>) -> Result<Rendered, String> {
    let chart = chart.map_err(|error| error.to_string())?;
    Renderer::new(chart).render(&Request::default()).map_err(|error| error.to_string())
}

fn of_files(files: &[(&str, &[u8])]) -> Result<Rendered, String> {
    render(Chart::from_directory(
        files.iter().map(|(path, content)| File::new(*path, content.to_vec())).collect(),
    ))
}

/// Returns an archive before its compression.
fn tar() -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (path, text) in [
        ("c/Chart.yaml", DESCRIPTION),
        ("c/values.yaml", "a: 1"),
        ("c/templates/t.yaml", "kind: Pod\na: {{ .Values.a }}\n"),
    ] {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, text.as_bytes()).expect("memory takes it");
    }
    builder.into_inner().expect("memory takes it")
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory takes it");
    encoder.finish().expect("memory takes it")
}

/// Returns bytes with some of them changed, and cut to a length.
fn damaged(bytes: &[u8], changes: &[(usize, u8)], length: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for (at, byte) in changes {
        let at = at % bytes.len();
        bytes[at] = *byte;
    }
    bytes.truncate(bytes.len() - length % bytes.len());
    bytes
}

fn changes() -> impl Strategy<Value = Vec<(usize, u8)>> {
    // Most of an archive is padding, so changes mostly hit the beginnings of its blocks.
    let place = prop_oneof![1 => any::<usize>(), 3 => (0usize..8, 0usize..260).prop_map(|(block, at)| block * 512 + at)];
    prop::collection::vec((place, any::<u8>()), 0..6)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn damaged_archives(changes in changes(), cut in prop_oneof![3 => Just(0usize), 1 => any::<usize>()], inside in any::<bool>()) {
        let bytes = match inside {
            true => compressed(&damaged(&tar(), &changes, cut)),
            false => damaged(&compressed(&tar()), &changes, cut),
        };
        prop_assert_eq!(render(Chart::from_archive(&bytes)), render(Chart::from_archive(&bytes)));
    }

    #[test]
    fn bytes_that_are_no_archive(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
        prop_assert!(Chart::from_archive(&bytes).is_err());
        prop_assert_eq!(render(Chart::from_archive(&compressed(&bytes))), render(Chart::from_archive(&compressed(&bytes))));
    }

    #[test]
    fn descriptions_and_values(description in text(&YAML), values in text(&YAML), schema in text(&YAML)) {
        let template: &[u8] = b"t: {{ toJson .Values }} {{ .Chart.Name }}\n";
        let of_values: [(&str, &[u8]); 3] =
            [("Chart.yaml", DESCRIPTION.as_bytes()), ("values.yaml", values.as_bytes()), ("templates/t.yaml", template)];
        prop_assert_eq!(of_files(&of_values), of_files(&of_values));
        let of_description: [(&str, &[u8]); 2] = [("Chart.yaml", description.as_bytes()), ("templates/t.yaml", template)];
        prop_assert_eq!(of_files(&of_description), of_files(&of_description));
        let of_schema: [(&str, &[u8]); 2] = [("Chart.yaml", DESCRIPTION.as_bytes()), ("values.schema.json", schema.as_bytes())];
        prop_assert_eq!(of_files(&of_schema), of_files(&of_schema));
    }

    #[test]
    fn templates(one in text(&TEMPLATE), other in text(&TEMPLATE), ignored in text(&YAML)) {
        let files: [(&str, &[u8]); 5] = [
            ("Chart.yaml", DESCRIPTION.as_bytes()),
            ("values.yaml", b"a: {b: 1}"),
            ("templates/one.yaml", one.as_bytes()),
            ("templates/_other.tpl", other.as_bytes()),
            (".helmignore", ignored.as_bytes()),
        ];
        prop_assert_eq!(of_files(&files), of_files(&files));
    }
}
