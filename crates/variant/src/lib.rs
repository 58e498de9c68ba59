//! PackageVariantSets to PackageVariants (`packagevariants.md` 4), without a cluster.
//!
//! ```text
//! PackageVariantSet ──validate──> upstream ──> targets ──> template (CEL) ──> Expansion: the variants that should be
//! Expansion + children that there are ──plan──> actions: create, adopt, update, delete
//! ```
//!
//! Expressions are those of people one need not trust: their length, nesting, cost and results are limited.

mod attributes;
mod bundle;
mod check;
mod children;
mod cost;
mod expand;
mod expression;
mod naming;
mod problem;
mod revision;
mod rewrite;
mod selector;
mod status;
mod targets;
mod template;
mod upstream;
mod validate;
mod variant;

pub use attributes::Attributes;
pub use bundle::{Bundle, NamedSpec, ObjectError};
pub use children::{Action, FINALIZER, OWNER_LABEL, Plan, child, is_child, plan};
pub use expand::{ExpandError, Expansion, Inputs, Objects, Unavailable, Variant, expand};
pub use naming::{hashed_name, plain_name};
pub use status::{Observed, conditions};
pub use upstream::{Unresolved, resolve};
pub use validate::validate_set;
pub use variant::validate_variant;
