//! Features that this version does not support yet. The README takes its sentence from this list.

/// Unsupported features. The code that meets one of them rejects it, or warns about it, with its
/// own text.
pub const TOPICS: &[&str] = &[
    "container items (`landscaper.gardener.cloud/container`)",
    "the kinds CriticalProblems, LsHealthCheck, SyncObject and DeployerRegistration",
    "sigstore and GPG signatures of components",
    "package repositories in OCI registries",
    "the v1alpha2 kinds of Porch",
    "pods for package functions",
];

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
