//! Component versions: which one an Installation uses, and what belongs to it.
//!
//! ```text
//! reference (context, name, version)
//!    └─ Overwrites::apply ──> effective reference      overwrite, condition, lint
//!          └─ Resolver ──> ComponentVersion ──> closure    resolve (asks a Repository for bytes), resolvers
//!               └─ graph: the same with the rules that had a say at each reference
//!                              │  └─ CdUri ──> another version, or a Resource and its Content   uri, access
//!                              ├─ Descriptor (v2 or v3)     descriptor, inline
//!                              └─ verify: what somebody has signed     signature
//! ```
//!
//! The rules are those of the chapter `components.md`. Nothing here does I/O: a [`Repository`] hands over
//! bytes, and the caller decides where they come from.

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

pub use access::{Access, AccessError, Content, ContentError, split_image_reference};
pub use condition::{OVERWRITE_CONDITION, OverwriteCondition, outdated_message};
pub use descriptor::{
    ComponentReference, Descriptor, DescriptorError, Leniency, Resource, SchemaVersion, valid_version,
};
pub use graph::{GraphEntry, GraphState};
pub use inline::{InlineError, InlineSet};
pub use lint::{Finding, lint};
pub use overwrite::{Attribute, AttributeSet, Attributes, Overwrites, Rule, RuleOutcome, Substitution};
pub use reference::{Reference, RepositoryContext, json_equal};
pub use repository::{Blob, LoadedDescriptor, Repositories, Repository, RepositoryError};
pub use resolve::{ComponentVersion, Limits, ResolveError, Resolver, closure_digest};
pub use resolvers::{OCM_CONFIG_KEY, OcmConfigError, ResolverRule, ResolverRules};
pub use signature::{Normalisation, RSA_MEDIA_TYPE, SignatureError, TrustAnchor, prepare, signed, verify};
pub use uri::{CdUri, CdUriError, SelectError};
