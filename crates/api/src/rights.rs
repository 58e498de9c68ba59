//! Rights that are asked about in more than one place.

use crate::{
    ComponentVersionOverwrites, Context, DataObject, DeployItem, Execution, Installation, Kind, Target,
};

/// Whoever may `create` it in a namespace has plans made of what the namespace holds, without a right to the objects themselves: for
/// programs that ask in the name of others, and look at their rights before. No objects of this kind exist.
pub const PLANS: (&str, &str) = ("groundwork.dev", "plans");

/// What a plan is made from, by group and plural. Everybody else must be allowed to `get` all of it, and to `update` the first, since a plan
/// looks into component versions as jobs would.
pub const PLAN_SOURCES: [(&str, &str); 9] = [
    (Installation::GROUP, Installation::PLURAL),
    (Execution::GROUP, Execution::PLURAL),
    (DeployItem::GROUP, DeployItem::PLURAL),
    (Context::GROUP, Context::PLURAL),
    (ComponentVersionOverwrites::GROUP, ComponentVersionOverwrites::PLURAL),
    (DataObject::GROUP, DataObject::PLURAL),
    (Target::GROUP, Target::PLURAL),
    ("", "secrets"),
    ("", "configmaps"),
];

/// Namespaces that one plan may be about: rights are asked about in each.
pub const MOST_PLANNED_NAMESPACES: usize = 20;
