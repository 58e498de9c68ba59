//! Tests of archives and directories (`helm.md` 2.1 to 2.4), and of refused input (`helm.md` 11 and
//! 12).

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_helm::{Chart, File};

const DESCRIPTION: &str = "apiVersion: v2\nname: c\nversion: 0.1.0\n";

/// Creates an archive from entries: path, kind of entry, and content.
fn archive(entries: &[(&str, tar::EntryType, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, kind, content) in entries {
        let mut header = tar::Header::new_gnu();
        // The path is written into the header directly, because the library's method refuses the
        // bad paths that the tests need.
        header.as_gnu_mut().expect("it is one").name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, *content).expect("memory takes it");
    }
    builder.into_inner().expect("memory takes it").finish().expect("memory takes it")
}

fn file<'t>(path: &'t str, content: &'t str) -> (&'t str, tar::EntryType, &'t [u8]) {
    (path, tar::EntryType::Regular, content.as_bytes())
}

/// Loads an archive with this entry behind Chart.yaml.
fn with_entry(path: &str) -> Result<Vec<String>, String> {
    let bytes = archive(&[file("c/Chart.yaml", DESCRIPTION), file(path, "x")]);
    let chart = Chart::from_archive(&bytes).map_err(|error| error.to_string())?;
    Ok(chart.files.iter().map(|file| file.path.clone()).collect())
}

#[test]
fn paths_in_archives() {
    let check = |path: &str, expected: Result<&[&str], &str>| {
        let expected = expected.map(|files| files.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(with_entry(path), expected.map_err(str::to_owned), "{path}");
    };
    check("c/a/../b", Ok(&["b"]));
    check("other/x", Ok(&["x"]));
    check("c\\d\\e", Ok(&["d/e"]));
    check("c//etc", Err("chart illegally contains absolute paths"));
    check("\\\\x", Err("chart illegally contains absolute paths"));
    check("top", Err("chart illegally contains content outside the base directory: \"top\""));
    check("c/.", Err("chart illegally contains content outside the base directory: \"c/.\""));
    check("c/../../x", Err("chart illegally references parent directory"));
    check("c/..x", Err("chart illegally references parent directory"));
    check("c\\C:\\x", Err("chart contains illegally named files"));
    check("Chart.yaml/x", Err("chart yaml not in base directory"));
}

#[test]
fn archives_that_are_none() {
    let check = |bytes: &[u8], expected: &str| {
        assert_eq!(
            Chart::from_archive(bytes).map(|_| ()).map_err(|error| error.to_string()),
            Err(expected.to_owned())
        );
    };
    check(b"", "EOF");
    check(b"\x1f\x8b", "unexpected EOF");
    check(b"apiVersion: v2 and more", "gzip: invalid header");
    let whole = archive(&[file("c/Chart.yaml", DESCRIPTION)]);
    check(&whole[..whole.len() / 2], "unexpected EOF");
    check(&archive(&[]), "no files in chart archive");
    check(&archive(&[file("./c/Chart.yaml", DESCRIPTION)]), "Chart.yaml file is missing");
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(&[b'x'; 2_048]).expect("memory takes it");
    check(&encoder.finish().expect("memory takes it"), "archive/tar: invalid tar header");
    check(&vec![0; (20 << 20) + 1], "chart archive larger than 20971520 bytes");
}

/// Case: links are not followed, not even to files of the chart; a warning names them.
#[test]
fn links_in_archives_are_left_out() {
    let bytes = archive(&[
        file("c/Chart.yaml", DESCRIPTION),
        ("c/templates/passwd.yaml", tar::EntryType::Symlink, b""),
        ("c/hard", tar::EntryType::Link, b""),
        ("c/device", tar::EntryType::Char, b""),
        ("c/folder/", tar::EntryType::Directory, b""),
    ]);
    let chart = Chart::from_archive(&bytes).expect("it is a chart");
    assert!(chart.templates.is_empty() && chart.files.is_empty());
    assert_eq!(chart.warnings.len(), 3);
}

#[test]
fn bombs_are_stopped() {
    let zeros = vec![0; 6 << 20];
    let bytes = archive(&[file("c/Chart.yaml", DESCRIPTION), ("c/large", tar::EntryType::Regular, &zeros)]);
    let error = Chart::from_archive(&bytes).expect_err("it is too large").to_string();
    assert_eq!(error, "decompressed chart file \"c/large\" is larger than the maximum file size 5242880");
    let zeros = vec![0; 5 << 20];
    let names: Vec<String> = (0..21).map(|at| format!("c/f{at}")).collect();
    let entries: Vec<_> =
        names.iter().map(|name| (name.as_str(), tar::EntryType::Regular, &zeros[..])).collect();
    let error = Chart::from_archive(&archive(&entries)).expect_err("it is too large").to_string();
    assert_eq!(error, "decompressed chart is larger than the maximum file size 104857600");
}

#[test]
fn charts_in_archives_in_charts() {
    let inner = archive(&[
        file("s/Chart.yaml", "\u{feff}apiVersion: v2\nname: sub\nversion: 1.0.0\n"),
        file("s/templates/x.yaml", "kind: Pod\n"),
        file("s/.helmignore", "templates/\n"),
    ]);
    let outer = archive(&[
        file("c/Chart.yaml", DESCRIPTION),
        ("c/charts/sub-1.0.0.tgz", tar::EntryType::Regular, &inner),
    ]);
    let chart = Chart::from_archive(&outer).expect("it is a chart");
    assert_eq!((chart.charts[0].name(), chart.charts[0].templates.len()), ("sub", 1));
    let broken = archive(&[file("c/Chart.yaml", DESCRIPTION), file("c/charts/x.tgz", "no archive at all")]);
    let error = Chart::from_archive(&broken).expect_err("it is broken").to_string();
    assert_eq!(error, "error unpacking subchart x.tgz in c: gzip: invalid header");
}

fn directory(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let files = files.iter().map(|(path, text)| File::new(*path, text.as_bytes())).collect();
    let chart = Chart::from_directory(files).map_err(|error| error.to_string())?;
    Ok(chart.files.iter().chain(chart.templates.iter()).map(|file| file.path.clone()).collect())
}

#[test]
fn rules_of_helmignore() {
    let check = |rules: &str, expected: &[&str]| {
        let files = [
            ("Chart.yaml", DESCRIPTION),
            (".helmignore", rules),
            ("a.txt", ""),
            ("d/a.txt", ""),
            ("d/e/b.txt", ""),
            ("templates/.hidden", ""),
            ("templates/t.yaml", ""),
        ];
        let found = directory(&files).map(|files| {
            files
                .into_iter()
                .filter(|file| file != ".helmignore" && file != "templates/t.yaml")
                .collect::<Vec<_>>()
        });
        assert_eq!(found, Ok(expected.iter().map(ToString::to_string).collect()), "{rules}");
    };
    check("", &["a.txt", "d/a.txt", "d/e/b.txt"]);
    check("# nothing\n\n  a.txt  \n", &["d/e/b.txt"]);
    check("/a.txt", &["d/a.txt", "d/e/b.txt"]);
    check("d/", &["a.txt"]);
    check("d/*.txt", &["a.txt", "d/e/b.txt"]);
    check("e", &["a.txt", "d/a.txt"]);
    check("[ab].t?t", &[]);
    let broken = |rules| directory(&[("Chart.yaml", DESCRIPTION), (".helmignore", rules)]);
    assert_eq!(broken("a/**"), Err("double-star (**) syntax is not supported".to_owned()));
    assert_eq!(broken("[a-"), Err("syntax error in pattern".to_owned()));
    assert_eq!(broken("!keep.txt"), Err("Chart.yaml file is missing".to_owned()));
    assert_eq!(directory(&[("../x", "")]), Err("the path \"../x\" leads out of the chart".to_owned()));
}

#[test]
fn descriptions() {
    let check = |text: &str, expected: &str| {
        assert_eq!(directory(&[("Chart.yaml", text)]), Err(expected.to_owned()), "{text}");
    };
    let json = "cannot load Chart.yaml: error unmarshaling JSON: while decoding JSON: json: cannot unmarshal";
    check("", "validation: chart.metadata.name is required");
    check("name: a/b", "validation: chart.metadata.name \"a/b\" is invalid");
    check("name: ..", "validation: chart.metadata.name \"..\" is invalid");
    check("name: a", "validation: chart.metadata.version is required");
    check("{name: a, version: x}", "validation: chart.metadata.version \"x\" is invalid");
    check("{name: a, version: 1, type: x}", "validation: chart.metadata.type must be application or library");
    check(
        "{name: a, version: 1, maintainers: [null]}",
        "validation: maintainers must not contain empty or null nodes",
    );
    check(
        "{name: a, version: 1, dependencies: [null]}",
        "validation: dependencies must not contain empty or null nodes",
    );
    check(
        "{name: a, version: 1, dependencies: [{name: x, alias: a b}]}",
        "validation: dependency \"x\" has disallowed characters in the alias",
    );
    check(
        "{name: a, version: 1, dependencies: [{name: x}, {name: y, alias: x}]}",
        "validation: more than one dependency with name or alias \"x\"",
    );
    check("[a]", &format!("{json} array into Go value of type chart.Metadata"));
    check(
        "{name: a, version: 1, keywords: x}",
        &format!("{json} string into Go struct field Metadata.keywords of type []string"),
    );
    check(
        "{name: a, version: 1, deprecated: x}",
        &format!("{json} string into Go struct field Metadata.deprecated of type bool"),
    );
}

#[test]
fn trees_have_an_end() {
    let mut files = vec![File::new("Chart.yaml", DESCRIPTION.as_bytes())];
    let mut folder = String::new();
    for _ in 0..20 {
        folder.push_str("charts/c/");
        files.push(File::new(format!("{folder}Chart.yaml"), DESCRIPTION.as_bytes()));
    }
    let error = Chart::from_directory(files).expect_err("it is too deep").to_string();
    assert!(error.ends_with("chart has more than 16 levels of subcharts"), "{error}");
    let wide = (0..600).map(|at| File::new(format!("charts/c{at}/Chart.yaml"), DESCRIPTION.as_bytes()));
    let files = wide.chain([File::new("Chart.yaml", DESCRIPTION.as_bytes())]).collect();
    let error = Chart::from_directory(files).expect_err("it is too wide").to_string();
    assert!(error.ends_with("chart has more than 500 charts in it"), "{error}");
    let large = "x: ".to_owned() + &"y".repeat(1 << 20);
    let error = directory(&[("Chart.yaml", DESCRIPTION), ("values.yaml", &large)]);
    assert_eq!(error, Err("values.yaml larger than 1048576 bytes".to_owned()));
}

/// Case: a schema with all of Kubernetes' API is larger than other records may be, and is accepted.
#[test]
fn schemas_may_be_as_large_as_any_file() {
    let schema = |size: usize| {
        let text = format!(
            "{{\"properties\": {{\"a\": {{\"type\": \"string\"}}}}, \"description\": \"{}\"}}",
            "x".repeat(size)
        );
        let files = [("Chart.yaml", DESCRIPTION.to_owned()), ("values.schema.json", text)];
        Chart::from_files(files.into_iter().map(|(path, text)| File::new(path, text.into_bytes())).collect())
    };
    let chart = schema(4 << 20).expect("5 MiB may be there");
    let values = serde_json::json!({"a": 1}).as_object().expect("it is a table").clone();
    let request = groundwork_helm::Request { values, ..groundwork_helm::Request::default() };
    let error =
        groundwork_helm::Renderer::new(chart).render(&request).expect_err("it does not fit").to_string();
    assert!(error.ends_with("- at '/a': got number, want string\n"), "{error}");
    let files = vec![
        File::new("Chart.yaml", DESCRIPTION.as_bytes()),
        File::new("values.schema.json", vec![b' '; (5 << 20) + 1]),
    ];
    let error = Chart::from_files(files).expect_err("it is too large").to_string();
    assert_eq!(error, "values.schema.json larger than 5242880 bytes");
}
