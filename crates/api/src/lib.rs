//! Rust types of every object that Groundwork reads and writes, and their CRDs.
//!
//! - Custom resources: [`Installation`], [`Execution`], [`DeployItem`], [`DataObject`], [`Target`],
//!   [`TargetSync`], [`Context`], [`ComponentVersionOverwrites`], [`CriticalProblems`],
//!   [`SyncObject`] (`landscaper.gardener.cloud`), [`PackageVariant`], [`PackageVariantSet`],
//!   [`PackageRevisionSet`], [`Repository`] (`config.porch.kpt.dev`), [`PackageRevision`] and
//!   [`PackageRevisionResources`] (`porch.kpt.dev`).
//! - Files: [`Blueprint`], [`InstallationTemplate`]. `groundwork_component` reads component
//!   descriptors, and `groundwork_krm` reads Kptfiles.
//!
//! The types accept everything that users may have written, and write it back unchanged (see
//! [`List`], [`Map`], [`AnyJson`] and [`OneOrMany`]). If a chapter allows several spellings,
//! accessors read them as one. The types do not check rules about the content. Doc comments of
//! fields are user documentation: they become the descriptions in the CRDs.

mod blueprint;
mod blueprint_schema;
mod common;
mod context;
mod crd;
mod data;
mod deploy_item;
mod deploy_item_list;
mod duration;
mod execution;
mod imports;
mod installation;
pub mod item_type;
mod json;
pub mod kubernetes;
pub mod metadata;
mod object;
mod one_or_many;
mod package_resources;
mod package_revision;
mod package_revision_set;
mod package_variant;
mod package_variant_set;
mod pipeline;
mod repository;
mod revision_record;
pub mod rights;
mod schema;
mod service_records;
pub mod strict;
mod target_sync;
pub mod view;

pub use k8s_openapi::ByteString;
pub use k8s_openapi::apimachinery::pkg::apis::meta::v1::{
    Condition as MetaCondition, LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference, Time,
};
pub use kube_core::{Resource as KubeResource, ResourceExt};

pub use blueprint::*;
pub use blueprint_schema::blueprint_schema;
pub use common::*;
pub use context::*;
pub use crd::{crds, package_revision_crd};
pub use data::*;
pub use deploy_item::*;
pub use deploy_item_list::DeployItemsError;
pub use duration::*;
pub use execution::*;
pub use imports::*;
pub use installation::*;
pub use json::{Absent, AnyJson, Extra, IntOrString, List, Map};
pub use object::Kind;
pub use one_or_many::{OneOrMany, ShapeError, TextMembers};
pub use package_resources::*;
pub use package_revision::*;
pub use package_revision_set::*;
pub use package_variant::*;
pub use package_variant_set::*;
pub use pipeline::*;
pub use repository::*;
pub use revision_record::*;
pub use service_records::*;
pub use target_sync::*;
pub use view::{WATCHED, Watched};
