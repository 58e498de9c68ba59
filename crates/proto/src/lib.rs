//! The gRPC contracts of `proto/`, generated, and the form that errors take on the wire ([`status`]).
//!
//! What a message means is said beside its definition in `proto/groundwork/*/v1/*.proto`.

pub mod status;

/// Limit of a message in bytes, for sending and receiving, on servers and clients. Larger
/// content is streamed.
pub const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// All contracts with their comments and imports, for the reflection service.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

/// Messages that several services speak of.
pub mod component {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.component.v1");
    }
}

/// What runs functions of packages for a Porch server; ours are only its clients.
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

/// From an Installation to the objects that its job creates.
pub mod renderer {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.renderer.v1");
    }
}

/// From the reference of an Installation to component versions and their contents.
pub mod resolver {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.resolver.v1");
    }
}

/// From one package to a fleet of variants.
pub mod variant {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.variant.v1");
    }
}

/// The stream of events about objects of the cluster.
pub mod watcher {
    #[allow(clippy::all, missing_debug_implementations, unreachable_pub)]
    pub mod v1 {
        tonic::include_proto!("groundwork.watcher.v1");
    }
}

impl std::fmt::Debug for component::v1::Json {
    /// The length only: the text may hold a value of a Secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Json({} bytes)", self.text.len())
    }
}

impl std::fmt::Debug for packages::v1::File {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "File({:?}, {} bytes)", self.path, self.content.len())
    }
}
