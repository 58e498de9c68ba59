//! Finds the binaries of the servers.
//!
//! Searches in this order: the variable of the binary (`TEST_ASSET_ETCD` and so on), the folder in
//! `KUBEBUILDER_ASSETS`, `PATH`, and the folder that `cargo xtask servers` builds into. A binary
//! counts only if we support its version.

use std::ffi::OsStr;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

/// Checksums of the Go module that names the servers; a change of it means other servers.
const SERVERS_SUM: &str = include_str!("../../../tools/testservers/go.sum");
/// Checksums of grpcurl's module, which needs other versions of shared dependencies.
const GRPCURL_SUM: &str = include_str!("../../../tools/grpcurl/go.sum");
/// Checksums of Go's template engine with sprig, and of our program around them.
const GO_TEMPLATE_SUM: &str = include_str!("../../../tools/gotemplate/go.sum");
const GO_TEMPLATE_PROGRAM: &str = include_str!("../../../tools/gotemplate/main.go");
/// Checksums of Helm's library.
const HELM_SUM: &str = include_str!("../../../tools/helm/go.sum");
const HELM_PROGRAM: &str = include_str!("../../../tools/helm/main.go");
/// Checksums of cel-go.
const CEL_SUM: &str = include_str!("../../../tools/cel/go.sum");
const CEL_PROGRAM: &str = include_str!("../../../tools/cel/main.go");
/// Checksums of the git server.
const GIT_SERVER_SUM: &str = include_str!("../../../tools/gitserver/go.sum");
const GIT_SERVER_PROGRAM: &str = concat!(
    include_str!("../../../tools/gitserver/main.go"),
    include_str!("../../../tools/gitserver/certificate.go"),
    include_str!("../../../tools/gitserver/proxy.go")
);

/// Server, or the client program of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Server {
    /// The Kubernetes API server.
    KubeApiserver,
    /// The database of the API server.
    Etcd,
    /// The command line client of Kubernetes.
    Kubectl,
    /// Garbage collection and deletion of namespaces.
    KubeControllerManager,
    /// The message bus.
    NatsServer,
    /// An OCI registry.
    Registry,
    /// A command line client of any gRPC server.
    Grpcurl,
    /// Go's template engine with sprig, which the tests compare ours with.
    GoTemplate,
    /// git over http, https and ssh, with a forward proxy.
    GitServer,
    /// Helm's library, which the tests compare our rendering of charts with.
    Helm,
    /// cel-go, which the tests compare our expressions with.
    Cel,
}

/// Binary of a supported version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binary {
    /// Server that the binary runs.
    pub server: Server,
    pub path: PathBuf,
    /// Version that the binary prints.
    pub version: Version,
}

/// Reason that no binary was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{server} {} was not found{}; `cargo xtask servers` builds it", server.needs(), notes(.rejected))]
pub struct NotFound {
    /// Server that was searched for.
    pub server: Server,
    /// Files that exist but cannot be used, each with the reason.
    pub rejected: Vec<String>,
}

fn notes(rejected: &[String]) -> String {
    if rejected.is_empty() { String::new() } else { format!(" ({})", rejected.join("; ")) }
}

/// Major, minor and patch version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Server {
    /// All servers, each after those that it needs.
    pub const ALL: [Self; 11] = [
        Self::Etcd,
        Self::KubeApiserver,
        Self::Kubectl,
        Self::KubeControllerManager,
        Self::NatsServer,
        Self::Registry,
        Self::Grpcurl,
        Self::GoTemplate,
        Self::GitServer,
        Self::Helm,
        Self::Cel,
    ];

    /// Returns the folder of the Go module that fixes the version, relative to the root of the
    /// repository.
    pub const fn module(self) -> &'static str {
        match self {
            Self::Grpcurl => "tools/grpcurl",
            Self::GoTemplate => "tools/gotemplate",
            Self::GitServer => "tools/gitserver",
            Self::Helm => "tools/helm",
            Self::Cel => "tools/cel",
            _ => "tools/testservers",
        }
    }

    /// Returns the texts that decide which version is built.
    const fn sums(self) -> [&'static str; 2] {
        match self {
            Self::Grpcurl => [GRPCURL_SUM, ""],
            Self::GoTemplate => [GO_TEMPLATE_SUM, GO_TEMPLATE_PROGRAM],
            Self::GitServer => [GIT_SERVER_SUM, GIT_SERVER_PROGRAM],
            Self::Helm => [HELM_SUM, HELM_PROGRAM],
            Self::Cel => [CEL_SUM, CEL_PROGRAM],
            _ => [SERVERS_SUM, ""],
        }
    }

    /// Returns the name of the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::KubeApiserver => "kube-apiserver",
            Self::Etcd => "etcd",
            Self::Kubectl => "kubectl",
            Self::KubeControllerManager => "kube-controller-manager",
            Self::NatsServer => "nats-server",
            Self::Registry => "registry",
            Self::Grpcurl => "grpcurl",
            Self::GoTemplate => "gotemplate-original",
            Self::GitServer => "gitserver",
            Self::Helm => "helm-original",
            Self::Cel => "cel-original",
        }
    }

    /// Returns the Go package that the server is built from.
    pub const fn package(self) -> &'static str {
        match self {
            Self::KubeApiserver => "k8s.io/kubernetes/cmd/kube-apiserver",
            Self::Etcd => "go.etcd.io/etcd/server/v3",
            Self::Kubectl => "k8s.io/kubernetes/cmd/kubectl",
            Self::KubeControllerManager => "k8s.io/kubernetes/cmd/kube-controller-manager",
            Self::NatsServer => "github.com/nats-io/nats-server/v2",
            Self::Registry => "github.com/distribution/distribution/v3/cmd/registry",
            Self::Grpcurl => "github.com/fullstorydev/grpcurl/cmd/grpcurl",
            Self::GoTemplate => "groundwork.dev/tools/gotemplate",
            Self::GitServer => "groundwork.dev/tools/gitserver",
            Self::Helm => "groundwork.dev/tools/helm",
            Self::Cel => "groundwork.dev/tools/cel",
        }
    }

    /// Returns the environment variable with the path of the file.
    const fn variable(self) -> &'static str {
        match self {
            Self::KubeApiserver => "TEST_ASSET_KUBE_APISERVER",
            Self::Etcd => "TEST_ASSET_ETCD",
            Self::Kubectl => "TEST_ASSET_KUBECTL",
            Self::KubeControllerManager => "TEST_ASSET_KUBE_CONTROLLER_MANAGER",
            Self::NatsServer => "NATS_SERVER",
            Self::Registry => "TEST_ASSET_REGISTRY",
            Self::Grpcurl => "TEST_ASSET_GRPCURL",
            Self::GoTemplate => "TEST_ASSET_GOTEMPLATE",
            Self::GitServer => "TEST_ASSET_GITSERVER",
            Self::Helm => "TEST_ASSET_HELM",
            Self::Cel => "TEST_ASSET_CEL",
        }
    }

    const fn version_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Kubectl => &["version", "--client"],
            Self::Grpcurl => &["-version"],
            _ => &["--version"],
        }
    }

    /// Reports whether we support a version.
    fn supports(self, version: Version) -> bool {
        match self {
            Self::KubeApiserver | Self::Kubectl | Self::KubeControllerManager => version >= Version(1, 33, 0),
            // Older versions of etcd 3.5 cannot report the progress of a watch, which the API
            // server relies on.
            Self::Etcd => version >= Version(3, 5, 13),
            Self::NatsServer => version >= Version(2, 10, 23),
            Self::Registry => version >= Version(2, 8, 0),
            Self::Grpcurl => version >= Version(1, 8, 0),
            // Version 1.1 serves https and has a proxy.
            Self::GitServer => version >= Version(1, 1, 0),
            Self::GoTemplate | Self::Helm | Self::Cel => version >= Version(1, 0, 0),
        }
    }

    /// Returns the supported versions, in words.
    pub const fn needs(self) -> &'static str {
        match self {
            Self::KubeApiserver | Self::Kubectl | Self::KubeControllerManager => "1.33 or later",
            Self::Etcd => "3.5.13 or later",
            Self::NatsServer => "2.10.23 or later",
            Self::Registry => "2.8 or later",
            Self::Grpcurl => "1.8 or later",
            Self::GitServer => "1.1 or later",
            Self::GoTemplate | Self::Helm | Self::Cel => "1.0 or later",
        }
    }
}

/// Finds the binary of a server.
///
/// # Errors
/// No binary exists, or none of a supported version.
pub fn find(server: Server) -> Result<Binary, NotFound> {
    let mut rejected = Vec::new();
    for path in candidates(server, |name| std::env::var_os(name)) {
        if !path.is_file() {
            continue;
        }
        match version(server, &path) {
            Some(version) if server.supports(version) => return Ok(Binary { server, path, version }),
            Some(version) => rejected.push(format!("{} has version {version}", path.display())),
            None => rejected.push(format!("{} does not print its version", path.display())),
        }
    }
    Err(NotFound { server, rejected })
}

/// Returns the files that may be the server, the preferred ones first.
fn candidates<V: AsRef<OsStr>>(server: Server, variable: impl Fn(&str) -> Option<V>) -> Vec<PathBuf> {
    let folder = |name: &str| variable(name).filter(|value| !value.as_ref().is_empty());
    let mut paths = Vec::new();
    paths.extend(folder(server.variable()).map(|path| PathBuf::from(path.as_ref())));
    paths.extend(folder("KUBEBUILDER_ASSETS").map(|path| Path::new(path.as_ref()).join(server.name())));
    if let Some(path) = folder("PATH") {
        paths.extend(std::env::split_paths(&path).map(|folder| folder.join(server.name())));
    }
    paths.extend(cache_folder(server, variable).map(|folder| folder.join(server.name())));
    paths
}

/// Returns the folder that `cargo xtask servers` builds a server into: one for each state of its
/// module.
pub fn build_folder(server: Server) -> Option<PathBuf> {
    cache_folder(server, |name| std::env::var_os(name))
}

fn cache_folder<V: AsRef<OsStr>>(server: Server, variable: impl Fn(&str) -> Option<V>) -> Option<PathBuf> {
    let digest = HEXLOWER.encode(&Sha256::digest(server.sums().concat())[..6]);
    Some(cache(variable)?.join(digest).join("bin"))
}

/// Returns the folder of the user's cache for files that tests need.
pub(crate) fn cache<V: AsRef<OsStr>>(variable: impl Fn(&str) -> Option<V>) -> Option<PathBuf> {
    let absolute = |name: &str| {
        variable(name).map(|value| PathBuf::from(value.as_ref())).filter(|path| path.is_absolute())
    };
    let cache = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("groundwork/testservers"))
}

/// Runs a binary to get its version.
fn version(server: Server, path: &Path) -> Option<Version> {
    let output = Command::new(path).args(server.version_arguments()).stdin(Stdio::null()).output().ok()?;
    let told = |bytes: &[u8]| first_version(&String::from_utf8_lossy(bytes));
    told(&output.stdout).or_else(|| told(&output.stderr))
}

/// Returns the first `1.2.3` in a text. Skips other words in front of it, such as `v3` in a module
/// path.
fn first_version(text: &str) -> Option<Version> {
    text.split_whitespace().find_map(|word| {
        let digits = word.trim_start_matches('v').split(['+', '-']).next()?;
        let mut parts = digits.split('.').map(|part| part.parse().ok());
        Some(Version(parts.next()??, parts.next()??, parts.next()??))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_as_the_servers_tell_them() {
        let check =
            |text: &str, expected: Option<Version>| assert_eq!(first_version(text), expected, "{text}");
        check("Kubernetes v1.36.3\n", Some(Version(1, 36, 3)));
        check("etcd Version: 3.6.8\nGit SHA: GitNotFound\nGo Version: go1.26\n", Some(Version(3, 6, 8)));
        check("Client Version: v1.36.3\nKustomize Version: v5.8.1\n", Some(Version(1, 36, 3)));
        check("nats-server: v2.15.2\n", Some(Version(2, 15, 2)));
        check("registry github.com/distribution/distribution/v3 v3.1.2+unknown\n", Some(Version(3, 1, 2)));
        check("grpcurl v1.9.3\n", Some(Version(1, 9, 3)));
        check("Kubernetes v1.34.0-rc.1\n", Some(Version(1, 34, 0)));
        check("usage: etcd [flags]", None);
        check("", None);
    }

    #[test]
    fn old_versions_are_refused() {
        assert!(!Server::KubeApiserver.supports(Version(1, 32, 9)));
        assert!(Server::KubeApiserver.supports(Version(1, 33, 0)));
        assert!(!Server::Etcd.supports(Version(3, 5, 12)));
        assert!(!Server::Etcd.supports(Version(3, 4, 31)));
        assert!(Server::Etcd.supports(Version(3, 6, 0)));
        assert!(!Server::NatsServer.supports(Version(2, 10, 22)));
        assert!(Server::NatsServer.supports(Version(2, 11, 0)));
    }

    #[test]
    fn order_of_the_places() {
        let variables = |name: &str| match name {
            "TEST_ASSET_ETCD" => Some("/own/etcd-3.6"),
            "KUBEBUILDER_ASSETS" => Some("/assets"),
            "PATH" => Some("/usr/bin:/bin"),
            "HOME" => Some("/home/me"),
            _ => None,
        };
        let paths = candidates(Server::Etcd, variables);
        let texts: Vec<_> = paths.iter().map(|path| path.to_string_lossy()).collect();
        assert_eq!(texts[..4], ["/own/etcd-3.6", "/assets/etcd", "/usr/bin/etcd", "/bin/etcd"]);
        assert!(texts[4].starts_with("/home/me/.cache/groundwork/testservers/"), "{}", texts[4]);
        assert!(texts[4].ends_with("/bin/etcd"), "{}", texts[4]);
        assert_eq!(texts.len(), 5);
    }
}
