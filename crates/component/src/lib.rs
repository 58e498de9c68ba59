//! Component versions: selection for an Installation, and access to their content.
//!
//! ```text
//! reference (context, name, version)
//!    └─ Overwrites::apply ──> effective reference      overwrite, condition, lint
//!          └─ Resolver ──> ComponentVersion ──> closure    resolve (reads a Repository), resolvers
//!               └─ graph: the closure with the rules that changed each reference
//!                              │  └─ CdUri ──> another version, or a Resource     uri, access
//!                              ├─ Descriptor (v2 or v3)     descriptor, inline
//!                              └─ verify: checks the signature     signature
//! ```
//!
//! The rules are those of the chapter `components.md`. The crate does no I/O: callers provide a
//! [`Repository`], which returns bytes from any source.

mod access;
mod condition;
mod descriptor;
mod graph;
mod inline;
mod lint;
mod overwrite;
mod reference;
mod repository;
mod resolve;
mod resolvers;
mod signature;
mod uri;

pub use access::{
    Access, AccessError, Chart, Commit, Content, ContentError, Download, Outside, StoredFile, StoredObject,
    shown, split_image_reference,
};
pub use condition::{OVERWRITE_CONDITION, OverwriteCondition, outdated_message};
pub use descriptor::{
    ComponentReference, Descriptor, DescriptorError, Leniency, Resource, SchemaVersion, valid_version,
};
pub use graph::{GraphEntry, GraphState};
pub use inline::{InlineError, InlineSet};
pub use lint::{Finding, lint};
pub use overwrite::{Attribute, AttributeSet, Attributes, Overwrites, Rule, RuleOutcome, Substitution};
pub use reference::{Reference, RepositoryContext, RepositoryKind, json_equal};
pub use repository::{Blob, LoadedDescriptor, Repositories, Repository, RepositoryError};
pub use resolve::{ComponentVersion, Limits, ResolveError, Resolver, closure_digest};
pub use resolvers::{OCM_CONFIG_KEY, OcmConfigError, ResolverRules};
pub use signature::{Normalisation, RSA_MEDIA_TYPE, SignatureError, TrustAnchor, prepare, signed, verify};
pub use uri::{CdUri, CdUriError, SelectError};
