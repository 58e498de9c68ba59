//! Hostile git trees: raw objects with names that `git add` refuses.

use std::io::{Error, Result, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

const KPTFILE: &str = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\n";
/// Settings of git that run a command at the next `git status`.
const SETTINGS: &str = "[core]\n\trepositoryformatversion = 0\n\tfsmonitor = touch ran\n";

/// Entries of a tree, each with its name.
pub type RawTree = Vec<(Vec<u8>, Raw)>;

/// Entry of a tree.
#[derive(Debug, Clone)]
pub enum Raw {
    File(&'static str),
    Folder(RawTree),
    Link(String),
    Submodule,
}

/// Hostile package.
#[derive(Debug, Clone)]
pub struct HostilePackage {
    /// Path of the package in its repository.
    pub name: String,
    /// Text of the expected error.
    pub refusal: &'static str,
    /// True if the name alone is hostile, false if the kind of the entry is.
    pub is_named_so: bool,
    pub entries: RawTree,
}

fn file(name: impl AsRef<[u8]>) -> (Vec<u8>, Raw) {
    (name.as_ref().to_vec(), Raw::File("kind: ConfigMap\n"))
}

fn folder(name: impl AsRef<[u8]>, entries: RawTree) -> (Vec<u8>, Raw) {
    (name.as_ref().to_vec(), Raw::Folder(entries))
}

/// Returns a folder of git with settings that run a command.
fn settings(name: &str) -> (Vec<u8>, Raw) {
    folder(name, vec![(b"config".to_vec(), Raw::File(SETTINGS))])
}

/// Returns packages that would each do harm when they are written; `outside` is an absolute path
/// that must never be written to.
pub fn hostile_packages(outside: &Path) -> Vec<HostilePackage> {
    let outside = outside.display().to_string();
    let up = |entries| folder("..", entries);
    let (git, windows) = ("some file systems take for .git", "on Windows");
    let same = "are the same file on systems that ignore letter case and Unicode forms";
    let link = |to: &str| Raw::Link(to.to_owned());
    let named: Vec<(&'static str, RawTree)> = vec![
        ("contains a slash", vec![file("../up.txt")]),
        ("contains a slash", vec![file("a/../../../deep.txt")]),
        ("contains a slash", vec![file(&outside)]),
        ("contains a slash", vec![file("a/b")]),
        ("which is not the name of a file or folder", vec![up(vec![file("up.txt")])]),
        (
            "which is not the name of a file or folder",
            vec![folder("a", vec![up(vec![up(vec![file("deep.txt")])])])],
        ),
        ("which is not the name of a file or folder", vec![up(vec![])]),
        ("which is not the name of a file or folder", vec![folder(".", vec![file("a")])]),
        ("which is not the name of a file or folder", vec![folder(".\u{200c}.", vec![file("a")])]),
        ("which is not the name of a file or folder", vec![folder(".. ", vec![file("a")])]),
        (git, vec![settings(".git")]),
        (git, vec![folder("a", vec![settings(".git")])]),
        (git, vec![(b".git".to_vec(), Raw::File("gitdir: ../elsewhere\n"))]),
        (git, vec![settings(".GIT")]),
        (git, vec![settings(".g\u{200c}it")]),
        (git, vec![settings("git~1")]),
        (git, vec![settings(".git.")]),
        (git, vec![settings(".git ")]),
        (git, vec![settings(".git::$INDEX_ALLOCATION")]),
        ("backslash", vec![file(".git\\config")]),
        ("backslash", vec![file("..\\up.txt")]),
        ("from which git reads", vec![file(".gitmodules")]),
        ("from which git reads", vec![file(".GITMODULES")]),
        ("from which git reads", vec![file("gitmod~1")]),
        ("from which git reads", vec![folder("a", vec![file(".gitattributes")])]),
        (windows, vec![file("C:")]),
        (windows, vec![file("con.yaml")]),
        (windows, vec![folder("a", vec![file("NUL")])]),
        ("control character", vec![file("a\nb")]),
        ("control character", vec![file("a\u{1b}[2J")]),
        ("is not UTF-8", vec![file(b"a\xff.yaml")]),
        (same, vec![file("kptfile")]),
        (same, vec![folder("a", vec![file("b")]), folder("A", vec![file("c")])]),
        (same, vec![file("\u{e9}.yaml"), file("e\u{301}.yaml")]),
        (same, vec![file("a."), file("a")]),
        ("occurs twice", vec![file("a"), file("a")]),
        ("is a file, and a directory of", vec![file("a"), folder("a", vec![file("b")])]),
        (
            "is a file, and a directory of",
            vec![(b"a".to_vec(), link(&outside)), folder("a", vec![file("b")])],
        ),
    ];
    let linked: Vec<RawTree> = vec![
        vec![(b"link".to_vec(), link("/etc/passwd"))],
        vec![(b"link".to_vec(), link("../.."))],
        vec![(b"link".to_vec(), link(&outside))],
        vec![(b"module".to_vec(), Raw::Submodule)],
    ];
    let named = named.into_iter().map(|(refusal, entries)| (refusal, true, entries));
    let linked = linked.into_iter().map(|entries| ("symbolic link or submodule", false, entries));
    let number = |(number, (refusal, is_named_so, mut entries)): (usize, (_, bool, RawTree))| {
        entries.push((b"Kptfile".to_vec(), Raw::File(KPTFILE)));
        HostilePackage { name: format!("h{number:02}"), refusal, is_named_so, entries }
    };
    named.chain(linked).enumerate().map(number).collect()
}

/// Creates the objects of a tree in a repository, and returns the id of its root.
///
/// # Errors
/// The program `git` is not installed, or fails.
pub fn write_tree(repository: &Path, entries: &[(Vec<u8>, Raw)]) -> Result<String> {
    let mut lines =
        entries.iter().map(|(name, raw)| Line::of(repository, name, raw)).collect::<Result<Vec<_>>>()?;
    // Git sorts folders as if their names ended with a slash.
    lines.sort_by_key(|line| [line.name.as_slice(), if line.mode == "40000" { b"/" } else { b"" }].concat());
    let mut tree = Vec::new();
    for Line { mode, name, id } in lines {
        tree.extend(format!("{mode} ").as_bytes());
        tree.extend(name);
        tree.push(0);
        tree.extend(id);
    }
    write_object(repository, "tree", &tree)
}

struct Line {
    mode: &'static str,
    name: Vec<u8>,
    id: Vec<u8>,
}

impl Line {
    fn of(repository: &Path, name: &[u8], raw: &Raw) -> Result<Self> {
        let (mode, id) = match raw {
            Raw::File(text) => ("100644", write_object(repository, "blob", text.as_bytes())?),
            Raw::Link(target) => ("120000", write_object(repository, "blob", target.as_bytes())?),
            Raw::Folder(entries) => ("40000", write_tree(repository, entries)?),
            // The commit of a submodule is in another repository, so any id will do.
            Raw::Submodule => ("160000", "11".repeat(20)),
        };
        let id = data_encoding::HEXLOWER.decode(id.as_bytes()).map_err(Error::other)?;
        Ok(Self { mode, name: name.to_owned(), id })
    }
}

fn write_object(repository: &Path, kind: &str, content: &[u8]) -> Result<String> {
    let mut command = Command::new("git");
    command.args(["hash-object", "-w", "--literally", "--stdin", "-t", kind]).current_dir(repository);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(content)?;
    }
    let output = child.wait_with_output()?;
    if !output.status.success() {
        return Err(Error::other(format!("git hash-object -t {kind} fails")));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Publishes packages on the branch `main` of a bare repository, each with the tag of its version
/// 1.
///
/// # Errors
/// The program `git` is not installed, or fails.
pub fn publish_trees(repository: &Path, packages: &[(&str, &RawTree)]) -> Result<()> {
    let entries: RawTree = packages
        .iter()
        .map(|(name, entries)| (name.as_bytes().to_vec(), Raw::Folder((*entries).clone())))
        .collect();
    let tree = write_tree(repository, &entries)?;
    let commit = crate::git(repository, &["commit-tree", "-m", "by hand", &tree])?;
    crate::git(repository, &["update-ref", "refs/heads/main", &commit])?;
    for (name, _) in packages {
        crate::git(repository, &["update-ref", &format!("refs/tags/{name}/v1"), &commit])?;
    }
    Ok(())
}
