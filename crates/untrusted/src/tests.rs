use super::*;

/// Returns the variant of the error for a name.
fn refused(path: &str) -> &'static str {
    match check(path) {
        Ok(()) => "",
        Err(error) => kind(&error),
    }
}

fn kind(error: &NameError) -> &'static str {
    match error {
        NameError::Empty => "empty",
        NameError::Absolute { .. } => "absolute",
        NameError::NoName { .. } => "no name",
        NameError::NotUtf8 { .. } => "not utf-8",
        NameError::Long { .. } => "long",
        NameError::Slash { .. } => "slash",
        NameError::Backslash { .. } => "backslash",
        NameError::Control { .. } => "control",
        NameError::Drive { .. } => "drive",
        NameError::Device { .. } => "device",
        NameError::Git { .. } => "git",
        NameError::GitSettings { .. } => "settings",
        NameError::Twice { .. } => "twice",
        NameError::Same { .. } => "same",
        NameError::DirectoryOf { .. } => "directory",
    }
}

#[test]
fn names_of_one_file() {
    for (path, expected) in [
        ("Kptfile", ""),
        ("a/b/c.yaml", ""),
        (".krmignore", ""),
        (".gitignore", ""),
        ("...a", ""),
        ("a..b", ""),
        ("a b", ""),
        ("system:node.yaml", ""),
        ("grüße/日本語.yaml", ""),
        ("git", ""),
        ("git~", ""),
        ("git~0", ""),
        ("git~x", ""),
        ("gi~1", ""),
        ("a.git", ""),
        (".gitx", ""),
        (".git2/config", ""),
        ("console.yaml", ""),
        ("com.yaml", ""),
        ("com10", ""),
        ("lpt0", ""),
        ("null", ""),
        ("", "empty"),
        ("/", "absolute"),
        ("/etc/passwd", "absolute"),
        ("..", "no name"),
        ("../up.txt", "no name"),
        ("a/../../../deep.txt", "no name"),
        ("a/..", "no name"),
        (".", "no name"),
        ("./a", "no name"),
        ("a/./b", "no name"),
        ("a//b", "no name"),
        ("a/", "no name"),
        ("...", "no name"),
        (".. ", "no name"),
        (" ", "no name"),
        ("a/. ./b", "no name"),
        (".\u{200c}./b", "no name"),
        ("\u{feff}", "no name"),
        (":stream", "no name"),
        ("a\\b", "backslash"),
        ("..\\up", "backslash"),
        (".git\\config", "backslash"),
        ("a\0", "control"),
        ("a\nb", "control"),
        ("a\u{7f}", "control"),
        ("a\u{9b}b", "control"),
        ("C:", "drive"),
        ("c:/windows", "drive"),
        ("a/Z:b", "drive"),
        ("CON", "device"),
        ("prn.txt", "device"),
        ("a/Aux.tar.gz", "device"),
        ("nul .x", "device"),
        ("NUL.", "device"),
        ("nul:x", "device"),
        ("com1", "device"),
        ("COM9.yaml", "device"),
        ("lpt¹", "device"),
        ("LPT3 ", "device"),
        ("CONIN$", "device"),
        ("conout$.a", "device"),
    ] {
        assert_eq!(refused(path), expected, "{path:?}");
    }
}

/// Names of git's own tests `t1014-read-tree-confusing` and `t7415-submodule-names`, and similar
/// ones.
#[test]
fn names_that_git_reads() {
    for (path, expected) in [
        (".git", "git"),
        (".git/config", "git"),
        ("a/.git/hooks/post-checkout", "git"),
        (".GIT", "git"),
        (".Git/config", "git"),
        (".g\u{200c}it", "git"),
        (".gi\u{200d}t/config", "git"),
        ("\u{feff}.git", "git"),
        (".git\u{206f}", "git"),
        (".gI\u{200c}T", "git"),
        (".git.", "git"),
        (".git ", "git"),
        (".git. . .", "git"),
        (".git:x", "git"),
        (".git::$INDEX_ALLOCATION/config", "git"),
        (".git ::$DATA", "git"),
        ("git~1", "git"),
        ("GIT~1/config", "git"),
        ("Git~2", "git"),
        ("git~1 .", "git"),
        ("git~1:x", "git"),
        (".gitmodules", "settings"),
        (".GitModules", "settings"),
        (".gitmodules ", "settings"),
        (".gitmodules.", "settings"),
        (".gitmodules:$DATA", "settings"),
        (".gitmodule\u{17f}", "settings"),
        (".git\u{200c}modules", "settings"),
        ("gitmod~1", "settings"),
        ("GITMOD~4", "settings"),
        ("gi7eba~1", "settings"),
        ("gi7eb~10", "settings"),
        ("gi7~1000", "settings"),
        ("a/.gitattributes", "settings"),
        (".GITATTRIBUTES", "settings"),
        ("gitatt~1", "settings"),
        ("gi7d29~3", "settings"),
    ] {
        assert_eq!(refused(path), expected, "{path:?}");
    }
}

#[test]
fn names_of_one_tree() {
    for (paths, expected) in [
        (&["a", "b/a", "b/c"][..], ""),
        (&["a", "a.yaml", "ab/c"], ""),
        (&["foo:a", "foo:b", "foo"], ""),
        (&["a", "a"], "twice"),
        (&["Kptfile", "kptfile"], "same"),
        (&["a/b", "A/c"], "same"),
        (&["a/b", "A"], "same"),
        (&["straße", "STRASSE"], "same"),
        (&["\u{e9}", "e\u{301}"], "same"),
        (&["\u{212b}", "\u{e5}"], "same"),
        (&["\u{c9}/x", "e\u{301}/y"], "same"),
        (&["a\u{200c}b", "ab"], "same"),
        (&["a", "a."], "same"),
        (&["a", "a  "], "same"),
        (&["ab", "ab::$DATA"], "same"),
        (&["a", "a/b"], "directory"),
        (&["a/b/c", "a/b"], "directory"),
        (&["a/b/C", "a/b/c"], "same"),
        (&["a/b/c", "a/B/d"], "same"),
        (&["a", "../b"], "no name"),
    ] {
        let found = check_all(paths.iter().copied()).err();
        assert_eq!(found.as_ref().map_or("", kind), expected, "{paths:?}");
    }
    let mut names = Names::default();
    names.add_directory("a").unwrap();
    assert_eq!(kind(&names.add_directory(".git").unwrap_err()), "git");
    assert_eq!(kind(&names.add("a").unwrap_err()), "directory");
    names.add("a/b").unwrap();
}

#[test]
fn entries_of_directories() {
    assert_eq!(entry(b"a"), Ok("a"));
    assert_eq!(kind(&entry(b"a/../b").unwrap_err()), "slash");
    assert_eq!(kind(&entry(b"a\xff").unwrap_err()), "not utf-8");
}

/// An error gives the name, the reason and a remedy. It shortens a very long name, and never prints
/// terminal sequences.
#[test]
fn words_of_refusals() {
    let text = check("a/.git/config").unwrap_err().to_string();
    assert_eq!(
        text,
        "\"a/.git/config\" has the part \".git\", which some file systems take for .git, whose files run commands: \
         remove it"
    );
    let text = check_all(["A", "a"]).unwrap_err().to_string();
    assert_eq!(
        text,
        "\"a\" and \"A\" are the same file on systems that ignore letter case and Unicode forms: rename one of them"
    );
    let text = check_all(["x/A/b", "x/a/c"]).unwrap_err().to_string();
    assert!(text.starts_with("\"x/a\" and \"x/A\" are the same file"), "{text}");
    let text = check_all(["x/a/c", "x/a"]).unwrap_err().to_string();
    assert_eq!(text, "\"x/a\" is a file, and a directory of \"x/a/c\": rename one of them");
    let text = check("a\u{1b}[2J\u{202e}").unwrap_err().to_string();
    assert_eq!(text, "\"a\\u{1b}[2J\\u{202e}\" has a control character: rename the file");
    for long in ["x".repeat(256), format!("{}x", "x/".repeat(600)), "x".repeat(100_000)] {
        let error = check(&long).unwrap_err();
        assert!(kind(&error) == "long" && error.to_string().len() < 400, "{error}");
    }
    check(&"x".repeat(255)).unwrap();
}
