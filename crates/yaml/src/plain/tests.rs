use proptest::prelude::*;

use super::*;
use crate::events::Events;

/// Returns an event as text, without the positions of ends, which readers ignore.
fn shown(event: &Event<'_>, position: Position) -> String {
    match event {
        Event::StreamStart => String::new(),
        Event::DocumentStart(is_explicit, _) => format!("document {is_explicit}"),
        Event::DocumentEnd | Event::StreamEnd | Event::SequenceEnd | Event::MappingEnd => {
            format!("{event:?}")
        }
        _ => format!("{}:{} {event:?}", position.line, position.column),
    }
}

/// Returns the events or the error of the parser.
fn parsed(text: &str) -> Result<Vec<String>, String> {
    let mut events = Events::parsed(text);
    let mut all = Vec::new();
    loop {
        let (event, position) = events.next_event().map_err(|error| error.to_string())?;
        if event == Event::StreamEnd {
            return Ok(all);
        }
        if event != Event::StreamStart {
            all.push(shown(&event, position));
        }
    }
}

/// Reports whether a text is plain, and checks that a plain text has the same events as with the
/// parser.
fn is_plain(text: &str) -> bool {
    let Some(events) = events(text) else { return false };
    let events: Vec<String> = events.iter().map(|(event, position)| shown(event, *position)).collect();
    assert_eq!(Ok(events), parsed(text), "{text:?}");
    true
}

#[test]
fn plain_texts() {
    for text in [
        "a: 1",
        "a:\nb: 1\nc:\n",
        "# c\n\na: b # c\n# d\nc: 'it''s' # \n",
        "a: |\n  x\n   y\n\n  z\n\nb: |-\n  q",
        "a: |\n  x",
        "a: |\n  x\n# c\nb: 1\n",
        "a: |-\n  x\n\n\n---\nb: 1",
        "- a\n- b: 1\n  c:\n  - d\n  - e:\n      f: g\n- - x\n  - y\n",
        "a:\n- b\n- c: 1\n  d:\n-  - x\n   - y",
        "a:\n  - |\n    x\n  - |-\n    y\n",
        "---\na: 1\n---\nb: 2\n",
        "--- # c\na: 1\n",
        "{\"a\":1, b: [1, \"x\", {}], \"c\": {\"d\": []}}",
        "{\n  \"a\": [\n    1,\n    true\n  ]\n}\n",
        "a: {b: [c, d]}\ne: [1, -2, --flag]",
        "a: [1,\n  2]\nb: c",
        "url: http://example.org:80/a?b#c\ntime: 12:30:45\n",
        "a: (( b.c ? d :e ))\nf: <<x\n",
        "ä: ö # ü\nß: [ä, {\"é\": ü}]\n",
        "\"a b\": c\n'd': \"e\\n\\u00e4\\\"\\\\\\/\"\n",
        "a: --- \nb: -1\nc: -.5\nd: .5\ne: ~\n",
        "a:\n    b\nc:\n    # d\n    e: f\n",
        "a: # b\n  c: d\n",
        "on: yes\n012: 0x1F\n~x: =\n",
    ] {
        assert!(is_plain(text), "{text:?}");
    }
}

#[test]
fn texts_for_the_parser() {
    for text in [
        "",
        "a",
        "# a",
        "a: b\n  c",
        "a: 'b\n  c'",
        "a: >\n  b",
        "a: |2\n   b",
        "a: |+\n  b\n",
        "a: |\n\n  b",
        "a: |\n",
        "a: &b c",
        "a: *b",
        "a: !b c",
        "? a\n: b",
        "a: b: c",
        "a : b",
        "a:\tb",
        "a: b\r\n",
        "a: b\n...\n",
        "%YAML 1.2\n---\na: b",
        "a: b\n%c: d",
        "a: [b: c]",
        "a: [b,]",
        "a: [\n  b\n]",
        "{a, b}",
        "{a: }",
        "a: \"\\x41\"",
        "a: \"\\ud83d\"",
        "a: 'b'#c",
        "a: @b",
        "a:\n    b: 1\n  c: 2",
        "- a\nb: c",
        "a: b\n- c",
        "---\n---\n",
        "a: - b",
    ] {
        assert!(!is_plain(text), "{text:?}");
    }
}

#[test]
fn large_and_deep_texts_are_left_to_the_parser() {
    assert!(is_plain(&format!("a: {}1{}", "[".repeat(60), "]".repeat(60))));
    assert!(events(&format!("a: {}1{}", "[".repeat(70), "]".repeat(70))).is_none());
    assert!(events(&"- ".repeat(100_000)).is_none());
    let long = "a: b\n".repeat(MOST_BYTES / 5 + 1);
    assert!(events(&long).is_none() && events(&long[..MOST_BYTES / 5 * 5]).is_some());
    assert!(is_plain(&format!("{}: b", "k".repeat(MOST_KEY_BYTES))));
    assert!(events(&format!("{}: b", "k".repeat(MOST_KEY_BYTES + 1))).is_none());
}

/// Generates pieces of lines. Unusual ones are rare, so that many texts are plain.
fn piece() -> impl Strategy<Value = String> {
    let common = prop::sample::select(vec![
        "a", "b: ", "c:", "- ", "-", "1", "x y", "'q'", "\"d\"", "\"e\": ", "[", "]", "{", "}", ", ", ":",
        " ", "  ", "#", " # c", "|", "|-", "\n", "\n  ", "\n    ", "\n- ", "\nk: ", "\n  k: ", "\n  - ",
        "\n---\n", "ä", "0x1", "~",
    ]);
    let odd = prop::sample::select(vec![
        "\t",
        "&a ",
        "*a",
        "!t ",
        "? ",
        ">",
        "|+",
        "|2",
        "...",
        "%",
        "\r\n",
        "''",
        "\\",
        "\"\\u0041\"",
        "<<: ",
        "@",
        "`",
        "-a",
        "--",
        "---",
        ".",
        "(( a ))",
        "=",
        "\u{85}",
        "\u{feff}",
        "//",
        "?",
        "\"",
        "'",
        "\\n",
        ":a",
        "a:",
        ",",
        "\n\n",
        "\n ",
        "\n\t",
    ]);
    prop_oneof![12 => common, 1 => odd].prop_map(str::to_owned)
}

/// Generates values as programs print them, in one of the styles of this module.
fn document(depth: u32) -> BoxedStrategy<Vec<String>> {
    let scalar = prop::sample::select(vec![
        "1",
        "text",
        "'q: r'",
        "\"x\\ny\"",
        "[]",
        "{}",
        "[a, {b: c}]",
        "(( a b ))",
        "a#b",
        "|\n  l\n   m\n\n  n",
        "|-\n  o",
        "~",
        "b # c",
    ]);
    let leaf = scalar.prop_map(|text| text.split('\n').map(str::to_owned).collect::<Vec<_>>()).boxed();
    if depth == 0 {
        return leaf;
    }
    let inner = || document(depth - 1);
    let nested = |text: &str, lines: Vec<String>, width: usize, own_line: bool| {
        let pad = " ".repeat(width);
        let indented = |line: &String| if line.is_empty() { String::new() } else { format!("{pad}{line}") };
        let mut all = Vec::new();
        if own_line {
            all.push(text.trim_end().to_owned());
            all.extend(lines.iter().map(indented));
        } else {
            all.push(format!("{text}{}", lines[0]));
            all.extend(lines[1..].iter().map(indented));
        }
        all
    };
    let key = prop::sample::select(vec!["a: ", "b: ", "\"c d\": ", "'e': ", "012: ", "ä: "]);
    let mapping =
        prop::collection::vec((key, inner(), prop::sample::select(vec![0usize, 2, 4]), any::<bool>()), 1..4)
            .prop_map(move |entries| {
                let lines = entries.into_iter().flat_map(|(key, value, width, own)| {
                    let is_block = value.len() > 1 || value[0].contains(": ") || value[0].starts_with('-');
                    nested(key, value, width.max(usize::from(!is_block)), own && is_block)
                });
                lines.collect::<Vec<_>>()
            });
    let sequence = prop::collection::vec(inner(), 1..4).prop_map(move |items| {
        items.into_iter().flat_map(|item| nested("- ", item, 2, false)).collect::<Vec<_>>()
    });
    prop_oneof![leaf, mapping, sequence].boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Property: a text that counts as plain has the events of the parser.
    #[test]
    fn as_the_parser_says(pieces in prop::collection::vec(piece(), 0..20)) {
        is_plain(&pieces.concat());
    }

    /// Property: the same for documents, also with unusual pieces inserted.
    #[test]
    fn documents_as_the_parser_says(lines in document(3), odd in prop::collection::vec((any::<prop::sample::Index>(), piece()), 0..3)) {
        let mut text = format!("{}\n", lines.join("\n"));
        is_plain(&text);
        for (at, piece) in odd {
            let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
            text.insert_str(ends[at.index(ends.len())], &piece);
            is_plain(&text);
        }
    }
}
