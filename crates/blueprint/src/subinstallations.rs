//! Nested Installations (`blueprints.md` 9): the parts that need no template engine.
//!
//! ```text
//! entries of the blueprint --static_templates--┐
//! rendered documents --decode_template---------┴─> templates
//! templates --remove_unsatisfied--> templates without unsatisfied imports
//! templates --validate--> findings
//!           --SiblingGraph--> order, or one cycle
//!           --Parent--> specs of the children
//! ```
//!
//! Names in rendered templates may be values of imports. Only [`decode_template`] keeps values out
//! of its texts. Callers must redact all other messages about rendered templates.

mod child;
mod clusters;
pub(crate) mod collect;
mod cycle;
mod declarations;
mod graph;
mod removal;
mod siblings;
mod validate;
mod wiring;

pub use child::{BlueprintRefError, ChildError, ChildMetadata, Parent, child_object_name};
pub use clusters::GraphTree;
pub use collect::{DecodeTemplateError, StaticTemplateProblem, StaticTemplatesError, decode_template};
pub use graph::{Edge as GraphEdge, Graph, Node as GraphNode};
pub use removal::{DroppedImport, Removal, RemovalReason, remove_unsatisfied};
pub use siblings::{MultipleExporters, SiblingEdge, SiblingError, SiblingGraph};
pub(crate) use validate::cross_check;
pub use validate::{InvalidTemplates, validate};

#[cfg(test)]
mod tests;
