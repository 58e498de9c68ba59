//! Features that this version does not support yet. The README takes its sentence from this list.

/// Unsupported features. The code that meets one of them rejects it with its own error.
pub const TOPICS: &[&str] = &["pods for package functions"];

#[cfg(test)]
mod tests {
    use super::*;

    /// The README lists the same topics.
    #[test]
    fn the_readme_names_every_topic() {
        let readme = include_str!("../../../README.md").split_whitespace().collect::<Vec<_>>().join(" ");
        let sentence = format!("Not built yet: {}.", TOPICS.join("; "));
        assert!(readme.contains(&sentence), "README.md lacks: {sentence}");
    }
}
