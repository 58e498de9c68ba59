//! Tests of functions for semantic versions.

use super::table;

#[test]
fn versions() {
    table(&[
        (
            r#"[ semver("v1.2"), semvercmp("1.2.3", "1.3"), semvermatch("1.2.3", "~1.2") ]"#,
            r#"["1.2.0",-1,true]"#,
        ),
        (r#"[ semvermajor("1.2.3"), semverminor("1.2.3"), semverpatch("1.2.3") ]"#, "[1,2,3]"),
        (
            r#"[ semverprerelease("1.2.3-a.1+m"), semvermetadata("1.2.3-a+m"), semverrelease("1.2.3-a+m") ]"#,
            r#"["a.1","m","1.2.3"]"#,
        ),
        (
            r#"[ semverprerelease("1.2.3", "rc.1"), semvermetadata("1.2.3-a", "b"), semverrelease("1.2.3-a", "2") ]"#,
            r#"["1.2.3-rc.1","1.2.3-a+b","2.0.0-a"]"#,
        ),
        (
            r#"[ semverprerelease("v1.2", "a"), semvermetadata("v1.2", "b"), semverrelease("v1.2-a+b") ]"#,
            r#"["v1.2.0-a","v1.2.0+b","v1.2.0"]"#,
        ),
        (r#"[ semverrelease("v1-a", "2"), semverrelease("1-a", "v2") ]"#, r#"["2.0.0-a","v2.0.0-a"]"#),
        (
            r#"[ semverincmajor("v1.2.3"), semverincminor("1.2.3"), semverincpatch("1.2.3-a") ]"#,
            r#"["v2.0.0","1.3.0","1.2.3"]"#,
        ),
        (r#"semversort("1.10", "v1.9", "1.9-a")"#, r#"["1.9-a","v1.9","1.10"]"#),
        (r#"semversort([ "2", "1" ])"#, r#"["1","2"]"#),
        (r#"[ semvermatch("1.2"), semvervalidate("v1.2") ]"#, r#"[true,"v1.2"]"#),
        (r#"semvervalidate("1.2", "^1")"#, r#""1.2""#),
    ]);
}

#[test]
fn refused_versions() {
    table(&[
        (r#"semver("x")"#, r#"!semverprerelease: "x": invalid semantic version"#),
        (r#"semvermajor("1.2.3.4")"#, r#"!semvermajor: "1.2.3.4": invalid semantic version"#),
        ("semverminor(1)", "!semverminor requires one string argument, but got int"),
        (r#"semverpatch("1.2.3", 7)"#, "!semverpatch requires one semver argument"),
        (
            r#"semvermetadata("1", "a", "b")"#,
            "!semvermetadata requires one semver argument and an optional value",
        ),
        (
            r#"semverprerelease("1", "a_b")"#,
            r#"!semverprerelease: invalid prerelease "a_b": invalid prerelease string"#,
        ),
        // The message names the first invalid identifier.
        (
            r#"semverprerelease("1", "01.a_b")"#,
            r#"!semverprerelease: invalid prerelease "01.a_b": version segment starts with 0"#,
        ),
        (
            r#"semvermetadata("1", "a_b")"#,
            r#"!semvermetadata: invalid metadata "a_b": invalid metadata string"#,
        ),
        (r#"semverrelease("1", "x")"#, r#"!semverrelease: invalid release "x": invalid semantic version"#),
        (r#"semverprerelease("1", 2)"#, "!semverprerelease: prerelease requires string, but got int"),
        (r#"semvercmp("1")"#, "!semvercmp requires two arguments"),
        (r#"semversort("x")"#, r#"!semvercmp: "x": invalid semantic version"#),
        ("semvermatch()", "!semvermatch requires at least one arguments"),
        (r#"semvermatch("1", "1", 2)"#, "!semvermatch: constraint argument 1 must be string"),
        (r#"semvervalidate("1.2", "^2")"#, r#"!semvervalidate: "1.2": [1.2.0 is less than 2]"#),
    ]);
}

#[test]
fn constraints_of_versions() {
    for (constraint, accepted, refused) in [
        ("~1.2", "1.2.9", "1.3.0"),
        ("~1.2.3", "1.2.3", "1.2.2"),
        ("~1", "1.9.0", "2.0.0"),
        ("^1", "1.9.9", "2.0.0"),
        ("^0.2.3", "0.2.9", "0.3.0"),
        ("^0.0.3", "0.0.3", "0.0.4"),
        ("^0", "0.9.0", "1.0.0"),
        (">= 1.0, < 2", "1.5.0", "2.0.0"),
        (">=1.0 <2", "1.5.0", "0.9.0"),
        ("1.x", "1.5.0", "2.0.0"),
        ("1.2", "1.2.7", "1.3.0"),
        ("*", "7.0.0", "7.0.0-a"),
        ("1.2.3 || 2", "2.1.0", "1.2.4"),
        ("1.2 - 1.4", "1.4.5", "1.5.0"),
        (">1.2", "1.3.0", "1.2.5"),
        ("<=1.2", "1.2.5", "1.3.0"),
        ("!=1.2", "1.3.0", "1.2.5"),
        ("!=1.2.3", "1.2.4", "1.2.3"),
        (">=1.0-a", "1.0.0-b", "1.0.0-A"),
        // If one part of a constraint names a pre-release, the parts beside it accept pre-releases,
        // too.
        (">=1.0.0-0, <2.0.0", "1.5.0-a", "2.0.0"),
        ("v1.2.3", "v1.2.3", "1.2.4"),
        ("~0.0.0", "7.0.0", "0.0.0-a"),
        ("~0.0", "0.0.7", "0.1.0"),
        ("^*", "0.0.0", "0.0.1"),
        ("!=*", "7.0.0", "0.0.0"),
        (">*", "0.0.1", "0.0.0"),
        ("<=*", "0.0.7", "0.1.0"),
    ] {
        table(&[
            (&format!("semvermatch({accepted:?}, {constraint:?})"), "true"),
            (&format!("semvermatch({refused:?}, {constraint:?})"), "false"),
        ]);
    }
    table(&[(
        r#"semvermatch("1", "=x=")"#,
        r#"!semvermatch: invalid constraint "=x="[0]: improper constraint: =x="#,
    )]);
}

#[test]
fn why_a_version_is_refused() {
    for (version, constraint, reasons) in [
        ("1.4.0", "=1.4.1", "1.4.0 is not equal to 1.4.1"),
        ("1.4.0", "1.5", "1.4.0 is less than 1.5"),
        ("3.0.0", "1.x", "3.0.0 does not have same major version as 1.x"),
        ("1.4.0", "~1.3", "1.4.0 does not have same major and minor version as 1.3"),
        ("1.4.0", "!=v1.4.0", "1.4.0 is equal to v1.4.0"),
        ("1.4.0", ">1.4.0", "1.4.0 is less than or equal to 1.4.0"),
        ("1.4.0", "<1.4", "1.4.0 is greater than or equal to 1.4"),
        ("1.4.0", ">=2, <=1.3", "1.4.0 is less than 2 1.4.0 is greater than 1.3"),
        ("1.4.0", "^2.0", "1.4.0 is less than 2.0"),
        ("2.0.0", "^1", "2.0.0 does not have same major version as 1"),
        (
            "0.0.4",
            "^0.0.3",
            "0.0.4 does not equal 0.0.3. Expect version and constraint to equal when major and minor versions are 0",
        ),
        ("0.1.0", "^0.0.3", "0.1.0 does not have same minor version as 0.0.3"),
        ("1.0.0", "2 - 3 || =4.0.0", "1.0.0 is less than 2 1.0.0 is not equal to 4.0.0"),
        (
            "1.4.0-a",
            ">=1, <2 || ^1",
            "1.4.0-a is a prerelease version and the constraint is only looking for release versions",
        ),
    ] {
        let call = format!("semvervalidate({version:?}, {constraint:?})");
        table(&[(&call, &format!("!semvervalidate: {version:?}: [{reasons}]"))]);
    }
    let huge = "1.99999999999999999999.0";
    table(&[
        (
            &format!("semver({huge:?})"),
            &format!(
                "!semverprerelease: {huge:?}: error parsing version segment: strconv.ParseUint: parsing \"99999999999999999999\": value out of range"
            ),
        ),
        (r#"semver("01.02")"#, r#""1.2.0""#),
        (r#"semver("1.2.3-01")"#, r#"!semverprerelease: "1.2.3-01": version segment starts with 0"#),
        (
            r#"semvermatch("1", "1.2|3")"#,
            r#"!semvermatch: invalid constraint "1.2|3"[0]: constraint parser error"#,
        ),
        (
            r#"semvermatch("1", ">=1 - 2")"#,
            r#"!semvermatch: invalid constraint ">=1 - 2"[0]: improper constraint: >=>= 1, <= 2 "#,
        ),
        (
            r#"semvermatch("1", "^1 || about 1")"#,
            r#"!semvermatch: invalid constraint "^1 || about 1"[0]: improper constraint:  about 1"#,
        ),
    ]);
}
