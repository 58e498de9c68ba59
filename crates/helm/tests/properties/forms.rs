//! Property tests of one chart in every form of charts (`helm.md` 2, and 16, item 2), and of
//! archives that would fill the memory.

use std::io::{self, Read};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use groundwork_helm::{Chart, File};

const DESCRIPTION: &str = "name: frob\nversion: 1.2.3\nappVersion: \"9\"\nkeywords: [frob, nitz]\nmaintainers:\n- {name: A, email: a@example.org}\n";
const DEPENDENCIES: &str =
    "dependencies:\n- {name: alpine, version: 0.1.0, repository: https://example.org/charts}\n";
const SUBCHART: &str = "apiVersion: v2\nname: alpine\nversion: 0.1.0\n";
const MARINER: &str = "apiVersion: v2\nname: mariner\nversion: 4.3.2\n";

/// Returns files for both API versions, except the descriptions. The byte order mark at the
/// beginning of some does not belong to their content.
fn common(mark: &str) -> Vec<(String, Vec<u8>)> {
    [
        (".helmignore", "ignore/\n"),
        ("INSTALL.txt", "how to\n"),
        ("LICENSE", "as is\n"),
        ("README.md", "# frob\n"),
        ("docs/README.md", "more\n"),
        ("icon.svg", "<svg/>\n"),
        ("values.yaml", "name: \"Some Name\"\nsection: {name: a}\n"),
        ("templates/template.tpl", "Hello {{ .Values.name }}\n"),
        ("charts/_ignore_me", "nothing of a chart\n"),
        ("charts/alpine/Chart.yaml", SUBCHART),
        ("charts/alpine/README.md", "small\n"),
        ("charts/alpine/templates/pod.yaml", "kind: Pod\n"),
        ("charts/alpine/values.yaml", "name: \"my-alpine\"\n"),
    ]
    .into_iter()
    .map(|(path, text)| (path.to_owned(), format!("{mark}{text}").into_bytes()))
    .chain([(
        "charts/mariner-4.3.2.tgz".to_owned(),
        archive(
            "mariner",
            '/',
            &[("Chart.yaml".to_owned(), MARINER.into()), ("values.yaml".to_owned(), b"m: 1\n".to_vec())],
        ),
    )])
    .collect()
}

fn of_version_2(mark: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = common(mark);
    files.push((
        "Chart.yaml".to_owned(),
        format!("{mark}apiVersion: v2\n{DESCRIPTION}{DEPENDENCIES}").into_bytes(),
    ));
    files.push(("Chart.lock".to_owned(), b"digest: x\n".to_vec()));
    files
}

fn of_version_1() -> Vec<(String, Vec<u8>)> {
    let mut files = common("");
    files.push(("Chart.yaml".to_owned(), DESCRIPTION.as_bytes().to_vec()));
    files.push(("requirements.yaml".to_owned(), DEPENDENCIES.as_bytes().to_vec()));
    files.push(("requirements.lock".to_owned(), b"digest: x\n".to_vec()));
    files
}

fn archive(top: &str, separator: char, files: &[(String, Vec<u8>)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, content) in files {
        let path = format!("{top}/{path}").replace('/', &separator.to_string());
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().expect("it is one").name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        builder.append(&header, content.as_slice()).expect("memory takes it");
    }
    builder.into_inner().expect("memory takes it").finish().expect("memory takes it")
}

fn directory(files: &[(String, Vec<u8>)]) -> Chart {
    let files = files.iter().map(|(path, content)| File::new(path.as_str(), content.clone())).collect();
    Chart::from_directory(files).expect("it is a chart")
}

/// Returns a chart as text. Files are in the order of their paths, since archives may have any
/// order.
fn told(chart: &Chart) -> String {
    let files = |files: &[File]| {
        let mut all: Vec<String> = files
            .iter()
            .map(|file| format!("{}={}", file.path, String::from_utf8_lossy(&file.data)))
            .collect();
        all.sort();
        all.join("\n")
    };
    let charts: Vec<String> = chart.charts.iter().map(told).collect();
    format!(
        "{:?}\nvalues {:?}\nfiles {}\ntemplates {}\n[{}]\n",
        chart.metadata,
        chart.values,
        files(&chart.files),
        files(&chart.templates),
        charts.join("")
    )
}

#[test]
fn a_chart_is_the_same_in_every_form() {
    let files = of_version_2("");
    let plain = directory(&files);
    let names: Vec<&str> = plain.charts.iter().map(Chart::name).collect();
    assert_eq!((plain.name(), &names[..]), ("frob", &["alpine", "mariner"][..]));
    assert_eq!(plain.metadata.dependencies.as_ref().map(Vec::len), Some(1));
    assert_eq!(plain.templates.len(), 1);
    let mut paths: Vec<&str> = plain.files.iter().map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(paths, [".helmignore", "INSTALL.txt", "LICENSE", "README.md", "docs/README.md", "icon.svg"]);
    let expected = told(&plain);

    let backwards: Vec<_> = files.iter().rev().cloned().collect();
    for (form, bytes) in [
        ("archive", archive("frob", '/', &files)),
        ("archive in another order", archive("frob", '/', &backwards)),
        ("archive with another folder", archive("frob-1.2.3", '/', &files)),
        ("archive with backslashes", archive("frob", '\\', &files)),
        ("archive with marks", archive("frob", '/', &of_version_2("\u{feff}"))),
    ] {
        assert_eq!(told(&Chart::from_archive(&bytes).expect("it is a chart")), expected, "{form}");
    }
    assert_eq!(told(&directory(&of_version_2("\u{feff}"))), expected, "directory with marks");
}

/// Case: a chart of API version 1 has its requirements in a file of its own, which templates may
/// read; everything else is the same.
#[test]
fn a_chart_of_version_1_says_the_same() {
    let (old, new) = (directory(&of_version_1()), directory(&of_version_2("")));
    assert_eq!((old.metadata.api_version.as_str(), new.metadata.api_version.as_str()), ("v1", "v2"));
    assert_eq!(old.metadata.dependencies, new.metadata.dependencies);
    let read = |name: &str| old.files.iter().any(|file| file.path == name);
    assert!(read("requirements.yaml") && read("requirements.lock"));
    let mut as_new = old.clone();
    (as_new.metadata, as_new.files) = (new.metadata.clone(), Arc::clone(&new.files));
    assert_eq!(told(&as_new), told(&new));
    let packed = Chart::from_archive(&archive("frob", '/', &of_version_1())).expect("it is a chart");
    assert_eq!(told(&packed), told(&old));
}

/// Content that is generated while it is read.
struct Zeros(u64);

impl Read for Zeros {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.0).unwrap_or(usize::MAX));
        buffer[..length].fill(0);
        self.0 -= length as u64;
        Ok(length)
    }
}

/// Case: an entry whose header gives a size above the limit is refused without unpacking it.
#[test]
fn bombs_are_not_unpacked() {
    let mut builder = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    let mut append = |path: &str, size: u64| {
        let mut header = tar::Header::new_gnu();
        header.set_size(size);
        header.set_mode(0o644);
        builder.append_data(&mut header, path, Zeros(size)).expect("memory takes it");
    };
    append("c/large", 128 << 20);
    let bytes = builder.into_inner().expect("memory takes it").finish().expect("memory takes it");
    assert!(bytes.len() < 4 << 20);
    let error = Chart::from_archive(&bytes).expect_err("it is too large").to_string();
    assert_eq!(error, "decompressed chart is larger than the maximum file size 104857600");
}
