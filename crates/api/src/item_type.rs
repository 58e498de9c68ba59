//! Types of DeployItems that Landscaper's deployers handle (`installations.md` 7).

/// Domain of the types.
const DOMAIN: &str = "landscaper.gardener.cloud/";
/// Manifests.
pub const MANIFEST: &str = "landscaper.gardener.cloud/kubernetes-manifest";
/// Helm charts.
pub const HELM: &str = "landscaper.gardener.cloud/helm";
/// Items that do nothing, for tests.
pub const MOCK: &str = "landscaper.gardener.cloud/mock";
/// Containers, which no deployer of Groundwork runs.
pub const CONTAINER: &str = "landscaper.gardener.cloud/container";

/// Reports whether a type is one of Landscaper's domain that no deployer of Groundwork handles.
/// Other domains are those of your own deployers.
pub fn is_unserved(name: &str) -> bool {
    name.starts_with(DOMAIN) && ![MANIFEST, HELM, MOCK].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_without_a_deployer() {
        for (name, expected) in [
            (MANIFEST, false),
            (HELM, false),
            (MOCK, false),
            (CONTAINER, true),
            ("example.org/own", false),
            ("", false),
        ] {
            assert_eq!(is_unserved(name), expected, "{name}");
        }
        assert!(is_unserved("landscaper.gardener.cloud/kubernetes-manifests"));
    }
}
