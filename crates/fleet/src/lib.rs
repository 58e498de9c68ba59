//! Decisions about PackageVariantSets, PackageVariants and package revisions, without a cluster
//! (`packagevariants.md` 2, 4, 5, 6.5, 6.6). This crate computes the variants of a set and the
//! changes to package revisions; it never reads from or writes to a server.
//!
//! ```text
//! PackageVariantSet ──validate──> upstreams ──> targets ──> template (CEL) ──> Expansion: the variants that should be
//! Expansion + children that there are ──plan──> actions: create, adopt, update, delete ──preview──> what they would change
//!
//! PackageVariant + PackageRevisions ──resolve_upstream──> Resolved ──┐
//!                                   ──select──> targets ──freshness──┴──> base of the merge
//! what failed ──variant_conditions, retry──> status, next attempt
//! ```
//!
//! Expressions are untrusted input: their length, nesting, cost and results are limited.

mod attributes;
mod bundle;
mod children;
mod downstream;
mod error;
mod expand;
mod expression;
mod follow;
mod git;
mod naming;
mod package;
mod preview;
mod revision;
mod selector;
mod status;
mod targets;
mod template;
mod upstream;
mod upstreams;
mod validate;
mod variant;

pub use attributes::Attributes;
pub use bundle::{Bundle, Expanded, NamedSpec, ObjectError};
pub use children::{Action, FINALIZER, OWNER_LABEL, Plan, child, is_child, plan};
pub use downstream::{
    Adoption, Base, Freshness, Release, Selection, Upgradable, Withdrawal, base, deletes, derives_from,
    equal_content, freshness, is_made_of, is_owned, orphaned, owner_reference, release, select, upgradable,
};
pub use error::{Retry, VariantError, retry, variant_conditions};
pub use expand::{ExpandError, Expansion, Inputs, Objects, Unavailable, Variant, expand};
pub use follow::{FOLLOW_TAG, Follow, FollowError, follow};
pub use git::normalized;
pub use naming::{hashed_name, plain_name};
pub use package::{
    Actor, Approval, Creation, CreationError, Deletion, Package, RULE, Refusal, Repositories, Rule, Ruling,
    Source, Transition, approvable, approval, check_content_change, check_creation, check_names,
    check_new_lifecycle, check_spec_change, check_version, deletion, has_policy, highest_workspace, latest,
    next_revision, next_workspace, revision_name, transition, unmet_gates,
};
pub use preview::{
    Changed, Created, Deleted, Fate, Field, Preview, Refused, ReleasedRevision, SetPreview, Site,
    UpstreamPreview, differences, preview,
};
pub use revision::{fixed_revision, reference};
pub use status::{Observed, conditions};
pub use upstream::{Resolved, Unresolved, is_paused, resolve, resolve_upstream};
pub use upstreams::{revision_set_names, upstream_packages, validate_revision_set};
pub use validate::validate_set;
pub use variant::validate_variant;
