//! What this version does not do yet. The sentence of the README comes from here.

/// Whoever meets one of these refuses it, in words of its own.
pub const TOPICS: &[&str] = &["package functions in containers"];

#[cfg(test)]
mod tests {
    use super::*;

    /// The README says the same.
    #[test]
    fn the_readme_names_every_topic() {
        let readme = include_str!("../../../README.md").split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence = format!("Not built yet: {}.", TOPICS.join("; "));
        assert!(readme.contains(&sentence), "README.md lacks: {sentence}");
    }
}
