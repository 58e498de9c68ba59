//! Nested installations (`blueprints.md` section 9): everything that needs no template engine.
//!
//! ```text
//! entries of the blueprint --static_templates--┐
//! rendered documents --decode_template---------┴─> templates --remove_unsatisfied--> templates with what they can get
//! templates --validate--> findings      --SiblingGraph--> order, or one cycle      --Parent--> specs of the children
//! ```
//!
//! Names in templates that were rendered may be values of imports. Only [`decode_template`] keeps them out of its texts by
//! itself; whoever shows what else is said about rendered templates takes the values out.

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
pub(crate) use collect::StaticTemplates;
pub use collect::{
    DecodeTemplateError, StaticTemplateProblem, StaticTemplatesError, decode_template, static_templates,
};
pub use graph::{Edge as GraphEdge, Graph, Node as GraphNode};
pub use removal::{DroppedImport, Removal, RemovalReason, remove_unsatisfied};
pub use siblings::{MultipleExporters, SiblingEdge, SiblingError, SiblingGraph};
pub(crate) use validate::cross_check;
pub use validate::{InvalidTemplates, validate};

#[cfg(test)]
mod tests;
