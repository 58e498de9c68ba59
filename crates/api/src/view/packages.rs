//! PackageVariantSets and PackageVariants as events show them.

use super::fields::{view, view_part};

view! {
    /// A PackageVariantSet as an event shows it.
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
        /// Its upstreams, where it has several.
        upstreams: Upstream,
        /// What it selects.
        targets: TargetSelector,
        /// What its status says of it.
        conditions: Condition,
    }
    parts {}
    shown { "spec.targets[].objectSelector.kind", "status.observedGeneration", }
}

view_part! {
    /// An entry of a list of packages.
    Upstream at "spec.upstreams[]" "." {
        /// Repository of the package.
        repository: &'a str = "repo",
        /// Path of the package.
        package: &'a str = "package",
        /// Name of the PackageRevisionSet in its place.
        package_revision_set: &'a str = "packageRevisionSet",
    }
}

view! {
    /// A PackageRevisionSet as an event shows it.
    PackageRevisionSet
    fields {}
    lists {
        /// Its packages.
        upstreams: Upstream,
    }
    parts {}
    shown {}
}

view_part! {
    /// An entry of what a set selects.
    TargetSelector at "spec.targets[]" "." {
        /// API version of the objects that it selects; empty where it selects no objects.
        api_version: &'a str = "objectSelector.apiVersion",
    }
}

impl<'a> TargetSelector<'a> {
    /// API group of the objects that it selects; none where it selects no objects.
    pub fn group(self) -> Option<&'a str> {
        let version = Some(self.api_version()).filter(|version| !version.is_empty())?;
        Some(version.split_once('/').map_or("", |(group, _)| group))
    }
}

view_part! {
    /// A condition, without its message.
    Condition at "status.conditions[]" "." {
        /// Its type.
        type_: &'a str = "type",
        /// `True`, `False` or `Unknown`.
        status: &'a str = "status",
    }
}

view! {
    /// A PackageVariant as an event shows it.
    PackageVariant
    fields {
        /// Generation that was worked on.
        observed_generation: Option<i64> = "status.observedGeneration",
        /// Repository of the package that it is made from.
        upstream_repository: &'a str = "spec.upstream.repo",
        /// Path of that package.
        upstream_package: &'a str = "spec.upstream.package",
        /// Which revision of it.
        upstream_revision: Option<crate::IntOrString> = "spec.upstream.revision",
        /// The workspace, where it is named instead of a revision.
        upstream_workspace: &'a str = "spec.upstream.workspaceName",
        /// Repository of the package that it makes.
        downstream_repository: &'a str = "spec.downstream.repo",
        /// Path of that package.
        downstream_package: &'a str = "spec.downstream.package",
    }
    lists {
        /// What its status says of it.
        conditions: Condition,
    }
    parts {}
    shown {}
}

view! {
    /// A Repository as an event shows it.
    Repository
    fields {
        /// Whether it can be used, as its only condition says.
        ready: Vec<&'a str> = "status.conditions[].status",
    }
    lists {}
    parts {}
    shown {}
}
