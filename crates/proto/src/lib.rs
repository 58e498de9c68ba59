//! Generated gRPC contracts of `proto/`, and the form of errors on the wire ([`status`]).
//!
//! The comments in `proto/groundwork/*/v1/*.proto` define the meaning of the messages.

pub mod status;

/// Size limit of a message in bytes, for sending and receiving, on servers and clients. Larger
/// content is streamed.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// All contracts with their comments and imports, for the reflection service.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Messages that several services share.
pub mod component {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.component.v1");
    }
}

/// Works in the clusters of Targets.
pub mod deployer {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.deployer.v1");
    }
}

/// Server that runs package functions for Porch. We have only a client of it.
#[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
pub mod evaluator {
    tonic::include_proto!("evaluator");
}

/// Packages of a package store.
pub mod packages {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.packages.v1");
    }
}

/// Validates Installations, and renders the objects that their jobs create.
pub mod renderer {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.renderer.v1");
    }
}

/// Resolves the reference of an Installation to component versions and their contents.
pub mod resolver {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.resolver.v1");
    }
}

/// Expands a package into a fleet of variants.
pub mod variant {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.variant.v1");
    }
}

/// Stream of events about objects of the cluster.
pub mod watcher {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.watcher.v1");
    }
}

impl std::fmt::Debug for component::v1::Json {
    /// Shows only the length, since the text may have a value of a Secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Json({} bytes)", self.text.len())
    }
}

impl std::fmt::Debug for deployer::v1::MakeKubeconfigResponse {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "MakeKubeconfigResponse({} bytes)", self.kubeconfig.len())
    }
}

impl std::fmt::Debug for packages::v1::File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({:?}, {} bytes)", self.path, self.content.len())
    }
}
