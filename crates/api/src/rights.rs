//! Permissions that several services check.

use crate::{
    ComponentVersionOverwrites, Context, DataObject, DeployItem, Execution, Installation, Kind, Target,
};

/// Permission to plan: a user who may `create` this resource in a namespace gets plans from all
/// objects in it, without permissions on the objects themselves. It is meant for programs that ask
/// on behalf of users and check their permissions first. No objects of this kind exist.
pub const PLANS: (&str, &str) = ("groundwork.dev", "plans");

/// Permission to make kubeconfigs: a user who may `create` this resource in a namespace gets
/// credentials by the rights of each Target in it. It is meant for the renderer. No objects of this
/// kind exist.
pub const KUBECONFIGS: (&str, &str) = ("groundwork.dev", "kubeconfigs");

/// Objects that a plan reads, by group and plural. Without [`PLANS`], a user needs `get` on all of
/// them, and `update` on the first, because a plan looks up component versions as jobs do.
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

/// Maximum number of namespaces in one plan; each of them costs a permission check.
pub const MOST_PLANNED_NAMESPACES: usize = 20;
