//! Views of PackageVariantSets, PackageRevisionSets, PackageVariants and Repositories in events.

use super::fields::{view, view_part};
use crate::metadata::annotation;

view! {
    /// PackageVariantSet as an event shows it.
    PackageVariantSet
    fields {
        /// Repository of the upstream package.
        upstream_repository: &'a str = "spec.upstream.repo",
        /// Path of the upstream package.
        upstream_package: &'a str = "spec.upstream.package",
        /// Name of the PackageRevisionSet that has the upstream packages.
        upstream_set: &'a str = "spec.upstream.packageRevisionSet",
    }
    lists {
        /// Upstreams of a set that has several.
        upstreams: Upstream,
        /// Targets of the set.
        targets: TargetSelector,
        /// Conditions in the status of the set.
        conditions: Condition,
    }
    parts {}
    shown { "spec.targets[].objectSelector.kind", "status.observedGeneration", }
}

view_part! {
    /// Entry of a list of packages.
    Upstream at "spec.upstreams[]" "." {
        /// Repository of the package.
        repository: &'a str = "repo",
        /// Path of the package.
        package: &'a str = "package",
        /// Name of a PackageRevisionSet in place of a package.
        package_revision_set: &'a str = "packageRevisionSet",
    }
}

view! {
    /// PackageRevisionSet as an event shows it.
    PackageRevisionSet
    fields {}
    lists {
        /// Packages of the set.
        upstreams: Upstream,
    }
    parts {}
    shown {}
}

view_part! {
    /// Target of a set.
    TargetSelector at "spec.targets[]" "." {
        /// API version of the objects that the target selects; empty if it does not select objects.
        api_version: &'a str = "objectSelector.apiVersion",
    }
}

impl<'a> TargetSelector<'a> {
    /// Returns the API group of the objects that the target selects; `None` if it does not select
    /// objects.
    pub fn group(self) -> Option<&'a str> {
        let version = Some(self.api_version()).filter(|version| !version.is_empty())?;
        Some(version.split_once('/').map_or("", |(group, _)| group))
    }
}

view_part! {
    /// Condition without its message.
    Condition at "status.conditions[]" "." {
        /// Type of the condition.
        type_: &'a str = "type",
        /// `True`, `False` or `Unknown`.
        status: &'a str = "status",
    }
}

view! {
    /// PackageVariant as an event shows it.
    PackageVariant
    fields {
        /// Generation that was processed last.
        observed_generation: Option<i64> = "status.observedGeneration",
        /// Repository of the upstream package.
        upstream_repository: &'a str = "spec.upstream.repo",
        /// Path of the upstream package.
        upstream_package: &'a str = "spec.upstream.package",
        /// Revision of the upstream package.
        upstream_revision: Option<crate::IntOrString> = "spec.upstream.revision",
        /// Workspace of the upstream revision, if the spec names one instead of a revision.
        upstream_workspace: &'a str = "spec.upstream.workspaceName",
        /// Repository of the downstream package.
        downstream_repository: &'a str = "spec.downstream.repo",
        /// Path of the downstream package.
        downstream_package: &'a str = "spec.downstream.package",
    }
    lists {
        /// Conditions in the status of the variant.
        conditions: Condition,
    }
    parts {}
    shown {}
}

impl<'a> PackageVariant<'a> {
    /// Returns the values of the annotations by which users steer a variant.
    pub fn steering(self) -> [Option<&'a str>; 2] {
        [annotation::PAUSE_UPSTREAM, annotation::FOLLOW_TAG]
            .map(|name| self.0.annotations.get(name).map(String::as_str))
    }
}

view! {
    /// Repository as an event shows it.
    Repository
    fields {
        /// Status of the Repository's only condition, `Ready`.
        ready: Vec<&'a str> = "status.conditions[].status",
    }
    lists {}
    parts {}
    shown {}
}
