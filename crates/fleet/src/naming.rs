//! Names of children (`packagevariants.md` 4.6).

use data_encoding::HEXLOWER;
use sha1::{Digest, Sha1};

/// Limit for the name of a child, in bytes.
const LONGEST: usize = 63;
/// Number of bytes of a longer name that stay in front of its hash.
const KEPT: usize = 54;
/// Hexadecimal digits of the hash.
const DIGITS: usize = 8;

/// Returns the readable name of a child, `<set>-<repository>-<package>`. It is shortened with a
/// hash if it would not be a valid name.
pub fn plain_name(set: &str, repository: &str, package: &str) -> String {
    let id = format!("{set}-{repository}-{package}");
    let name = as_name(&id);
    if name != id {
        return hashed_name(set, repository, package);
    }
    if id.len() <= LONGEST {
        return id;
    }
    let kept = &id[..KEPT];
    if kept.ends_with(['.', '-']) {
        return hashed_name(set, repository, package);
    }
    format!("{kept}-{}", digits(id.as_bytes()))
}

/// Returns the fallback name for a child whose readable name is taken or invalid. It ends in a hash
/// over set, repository and package.
pub fn hashed_name(set: &str, repository: &str, package: &str) -> String {
    let name = as_name(&format!("{set}-{repository}-{package}"));
    let kept = name[..name.len().min(KEPT)].trim_end_matches(['.', '-']);
    format!("{kept}-{}", digits(format!("{set}\0{repository}\0{package}").as_bytes()))
}

/// Replaces all characters that an object's name cannot contain; the result is ASCII.
fn as_name(id: &str) -> String {
    let fits = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-';
    let replaced = id.chars().map(|letter| match letter {
        '/' | '.' => '.',
        letter if fits(letter) => letter,
        letter if letter.is_ascii_uppercase() => letter.to_ascii_lowercase(),
        _ => '-',
    });
    let mut name = String::with_capacity(id.len());
    for letter in replaced {
        // A label between dots must not begin or end with a dash, and must not be empty.
        let follows_mark = name.is_empty() || name.ends_with('.');
        match letter {
            '.' => {
                name.truncate(name.trim_end_matches(['-', '.']).len());
                name.push('.');
            }
            '-' if follows_mark => {}
            letter => name.push(letter),
        }
    }
    name.truncate(name.trim_end_matches(['-', '.']).len());
    name.trim_start_matches('.').to_owned()
}

fn digits(bytes: &[u8]) -> String {
    let mut digits = HEXLOWER.encode(&Sha1::digest(bytes));
    digits.truncate(DIGITS);
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_the_three_parts() {
        assert_eq!(plain_name("s", "repo", "package"), "s-repo-package");
        assert_eq!(plain_name("s", "r", &"x".repeat(59)).len(), 63);
    }

    #[test]
    fn the_recorded_long_name() {
        let name = plain_name("demo-set", "cluster-01", "a-very-long-package-name-that-exceeds-the-limit");
        assert_eq!(name, "demo-set-cluster-01-a-very-long-package-name-that-exce-77bf87ba");
    }

    #[test]
    fn what_is_no_name_gets_a_hash_over_its_parts() {
        for package in ["net/coredns", "a_b", "Upper", "a/", "é", "a..b"] {
            let name = plain_name("s", "r", package);
            assert_eq!(name, hashed_name("s", "r", package), "{package}");
            let labels = name.split('.');
            assert!(
                labels
                    .clone()
                    .all(|label| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-')),
                "{name}"
            );
        }
        assert!(plain_name("s", "r", "net/coredns").starts_with("s-r-net.coredns-"));
        assert_ne!(hashed_name("s", "a-b", "c"), hashed_name("s", "a", "b-c"));
        let cut_at_a_dash = plain_name("s", "r", &format!("{}-{}", "x".repeat(49), "y".repeat(20)));
        assert_eq!(cut_at_a_dash, hashed_name("s", "r", &format!("{}-{}", "x".repeat(49), "y".repeat(20))));
        assert!(!cut_at_a_dash.contains("--"), "{cut_at_a_dash}");
    }
}
