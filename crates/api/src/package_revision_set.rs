//! PackageRevisionSet (`packagevariants.md` 12.3).

use crate::json::List;
use crate::object::{kind, part};
use crate::package_variant::Upstream;

kind! {
    "config.porch.kpt.dev" / "v1alpha1" / "packagerevisionsets"
    /// A PackageRevisionSet is a list of packages from which PackageVariantSets of its namespace
    /// derive variants. It is an extension of Groundwork.
    pub struct PackageRevisionSet {
        /// The packages.
        pub spec: PackageRevisionSetSpec,
    }
}

part! {
    /// Packages from which PackageVariantSets derive variants.
    #[derive(Eq)]
    pub struct PackageRevisionSetSpec {
        /// Packages, each with its revision. An entry cannot be another PackageRevisionSet.
        pub upstreams: List<Upstream>,
    }
}
