//! PackageRevisionSet (packagevariants.md 12.3).

use crate::json::List;
use crate::object::{kind, part};
use crate::package_variant::Upstream;

kind! {
    "config.porch.kpt.dev" / "v1alpha1" / "packagerevisionsets"
    /// A PackageRevisionSet is a list of packages that PackageVariantSets of its namespace derive from. An extension of Groundwork.
    pub struct PackageRevisionSet {
        /// The packages.
        pub spec: PackageRevisionSetSpec,
    }
}

part! {
    /// The packages that PackageVariantSets derive from.
    #[derive(Eq)]
    pub struct PackageRevisionSetSpec {
        /// Packages, and which revision of each. None of them may be another PackageRevisionSet.
        pub upstreams: List<Upstream>,
    }
}
