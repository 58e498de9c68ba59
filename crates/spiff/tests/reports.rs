//! Tests of the reports about documents without a result (`spiff.md` 15), beyond the worked
//! examples of the chapter.

#![allow(clippy::unwrap_used)]

use groundwork_spiff::{Document, Engine, Features};

fn report(template: &str, stubs: &[&str]) -> String {
    let engine = Engine::new().with_features(Features { control: true, interpolation: false });
    let read = |text: &str| Document::read(text, "test", engine.limits()).unwrap();
    let stubs: Vec<_> = stubs.iter().map(|stub| read(stub)).collect();
    let error = engine.cascade(&read(template), &stubs, None).unwrap_err().to_string();
    error.strip_prefix("unresolved nodes:\n").unwrap_or(&error).to_owned()
}

#[test]
fn values_can_be_kept_out_of_reports() {
    let engine =
        Engine::new().with_features(Features { control: true, interpolation: false }).with_redaction();
    let template = "f: (( |s|->( $t = s \"!\" ) |x|->x + s ))\nk: secret\nh: hidden\na: (( .f(k)(h) ))\nb: { <<for: { s: [ secret ] }, <<do: (( s + 1 )) }\n";
    let template = Document::read(template, "test", engine.limits()).unwrap();
    let report = engine.cascade(&template, &[], None).unwrap_err().to_string();
    assert!(
        report.contains(": {") && report.contains("s: string") && report.contains(" s[int]=string"),
        "{report}"
    );
    assert!(!report.contains("secret") && !report.contains("hidden"), "{report}");
}

#[test]
fn reports_name_what_is_left() {
    let cases: [(&str, &[&str], &str); 12] = [
        // The failed alternative is dropped; the report shows the other one, which waits.
        (
            "a: (( nope || c ))\nc: (( d ))\nd: (( c ))\n",
            &[],
            "\t(( c ))\tin test\ta\t()\t@'c' unresolved\n\t(( d ))\tin test\tc\t()\t@'d' unresolved\n\t(( c ))\tin test\td\t()\t@'c' unresolved",
        ),
        (
            "a: (( &tag:t ( 1 ) ))\nb: (( &tag:t ( 2 ) ))\n",
            &[],
            "\t2\tin test\tb\t()\t*duplicate tag \"t\": b <-> a",
        ),
        // The fields of a map are evaluated also if its insertion failed.
        (
            "m:\n  <<: (( 5 ))\n  x: (( nope ))\n  y: (( 1 + 1 ))\n",
            &[],
            "\t<map>\tin test\tm\t()\t*require map value for '<<' insert, found 'int'\n\t(( nope ))\tin test\tm.x\t()\t*'nope' not found",
        ),
        (
            "m: { <<: (( ~ )), <<<: (( ~ )) }\n",
            &[],
            "\t<map>\tin test\tm\t()\t*multiple merge keys not allowed",
        ),
        (
            "x: { <<if: 5, <<then: 1 }\n",
            &[],
            "\t<if control>\tin test\tx\t()\t*invalid condition value type: int",
        ),
        (
            "x: { <<if: true, <<switch: a }\n",
            &[],
            "\t<map>\tin test\tx\t()\t*multiple controls \"<<if\" and \"<<switch\"",
        ),
        (
            "x: { <<wrong: true }\n",
            &[],
            "\t<map>\tin test\tx\t()\t*unknown control or control option \"<<wrong\"",
        ),
        (
            "x: { <<for: { i: [ 1, 2 ] }, <<do: (( i + nope )) }\n",
            &[],
            "\t<map>\tin test\tx\t()\t*error evaluating body\n\t\t\tcontrol variables:  i[0]=1: resolution of template 'x.<<do' failed\n\t\t\t\t\t\t(( i + nope ))\tin test\t\t(x)*'nope' not found\n\t\t\tcontrol variables:  i[1]=2: resolution of template 'x.<<do' failed\n\t\t\t\t\t\t(( i + nope ))\tin test\t\t(x)*'nope' not found",
        ),
        // Without a message of spiff++ the line ends here.
        ("a: (( nope -and true ))\n", &[], "\t(( nope -and true ))\tin test\ta\t()"),
        (
            "l:\n- name: a\n  v: (( merge ))\n",
            &["l:\n- name: b\n"],
            "\t(( merge ))\tin test\tl.[0].v\t(l.name:a.v)\t*'l.name:a.v' not found in any stub",
        ),
        // An insertion into a list shows why it is pending.
        (
            "l:\n- <<: (( merge required ))\n",
            &[],
            "\t(( merge ))\tin test\tl.[0].<<\t(l)\t*'l' not found in any stub",
        ),
        (
            "l:\n- <<: (( nope ))\n- <<: (( p ))\np: (( p ))\n",
            &[],
            "\t(( nope ))\tin test\tl.[0].<<\t(l)\t*'nope' not found\n\t(( p ))\tin test\tl.[1].<<\t(l)\t@'p' unresolved\n\t(( p ))\tin test\tp\t()\t@'p' unresolved",
        ),
    ];
    for (template, stubs, wanted) in cases {
        assert_eq!(report(template, stubs), wanted, "{template}");
    }
}

#[test]
fn paths_of_nodes_inside_of_instances() {
    let template = "t: { <<: (( &template )), v: (( nix )) }\nv: (( *t ))\n";
    assert_eq!(
        report(template, &[]),
        "\t(( *(t) ))\tin test\tv\t()\t*resolution of template 't' failed\n\t\t\t(( nix ))\tin test\tv\t(...v)*'nix' not found"
    );
}

#[test]
fn what_a_template_is_of_keeps_its_parentheses_and_its_source() {
    for (template, wanted) in [
        ("t: (( &template ( nix + 1 ) ))\n", "(( ( nix + 1 ) ))\tin test\t\t(x)*'nix' not found"),
        ("t: { <<: (( &template (nix) )) }\n", "(( ( nix ) ))\tin test\t<<\t(x)*'nix' not found"),
        ("t: [ { <<: (( &template (nix) )) } ]\n", "(( ( nix ) ))\tin test\t[0].<<\t(x)*'nix' not found"),
        // An insertion in parentheses does not count as an optional merge.
        (
            "t: { <<: (( &template (merge) )) }\n",
            "(( ( merge ) ))\tin test\t<<\t(x)*'x' not found in any stub",
        ),
    ] {
        let report = report(&format!("{template}x: (( *t ))\n"), &[]);
        assert_eq!(report.lines().nth(1).unwrap().trim_start(), wanted, "{template}");
    }
}

#[test]
fn strings_that_are_no_json() {
    for (expression, wanted) in [
        (r"\q", r"'q' in string escape code"),
        (r"\u12", r#"'"' in \u hexadecimal character escape"#),
        (r"\u12g4", r"'g' in \u hexadecimal character escape"),
        ("\t", r"'\t' in string literal"),
    ] {
        let report = report(&format!("a: '(( \"{expression}\" ))'\n"), &[]);
        assert!(report.ends_with(&format!("': invalid character {wanted}")), "{report}");
    }
}

#[test]
fn insertions_below_another_path_are_required() {
    let stub = "b: { c: { x: 1, k: [ 7 ] } }\na: { m: { y: 1 }, l: [ 2 ] }\n";
    for (field, wanted) in [
        (
            "m: { <<: (( merge )) }",
            "(( merge b.c.m ))\tin test\ta.m.<<\t(b.c.m)\t*'b.c.m' not found in any stub",
        ),
        (
            "l: [ { <<: (( merge )) } ]",
            "(( merge b.c.l ))\tin test\ta.l.[0].<<\t(b.c.l)\t*'b.c.l' not found in any stub",
        ),
        ("v: (( merge || nix ))", "(( merge b.c.v || nix ))\tin test\ta.v\t()\t*'nix' not found"),
    ] {
        let report = report(&format!("a:\n  <<: (( merge b.c ))\n  {field}\n"), &[stub]);
        assert_eq!(report.trim_start(), wanted);
    }
    let engine = Engine::new();
    let read = |text: &str| Document::read(text, "test", engine.limits()).unwrap();
    let template = read("a:\n  <<: (( merge b.c ))\n  k: [ { <<: (( merge )) }, 1 ]\n");
    let output = engine.cascade(&template, &[read(stub)], None).unwrap().to_yaml();
    assert_eq!(output, "a:\n  k:\n  - 7\n  - 1\n  x: 1\n");
}
