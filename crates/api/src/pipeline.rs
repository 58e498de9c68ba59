//! Pipelines (`packagevariants.md` 1.7), in variants and in the Kptfiles that they are written
//! into.

use crate::json::{List, Map};
use crate::object::part;

/// Declares a part of a pipeline: like other parts, but unknown members are errors.
macro_rules! strict {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident: $type:ty, )*
        }
    ) => {
        part! {
            $(#[$meta])*
            #[serde(deny_unknown_fields)]
            pub struct $name {
                $( $(#[$field_meta])* pub $field: $type, )*
            }
        }
    };
}

strict! {
    /// Functions that run over a package.
    #[derive(Eq)]
    pub struct Pipeline {
        /// Functions that change the package.
        pub mutators: List<Function>,
        /// Functions that check the package.
        pub validators: List<Function>,
    }
}

strict! {
    /// A function.
    #[derive(Eq)]
    pub struct Function {
        /// Image of the function.
        pub image: Option<String>,
        /// Executable of the function.
        pub exec: Option<String>,
        /// Version of the image.
        pub tag: Option<String>,
        /// File in the package that configures the function.
        pub config_path: Option<String>,
        /// Configuration of the function.
        pub config_map: Map<String>,
        /// Name of the function in the pipeline.
        pub name: Option<String>,
        /// Resources that the function sees.
        pub selectors: List<Selector>,
        /// Resources that the function does not see.
        pub exclude: List<Selector>,
    }
}

strict! {
    /// Selects resources that match in all given fields.
    #[derive(Eq)]
    pub struct Selector {
        /// Group and version of the resources.
        pub api_version: Option<String>,
        /// Kind of the resources.
        pub kind: Option<String>,
        /// Name of the resource.
        pub name: Option<String>,
        /// Namespace of the resources.
        pub namespace: Option<String>,
        /// Labels that the resources have, among others.
        pub labels: Map<String>,
        /// Annotations that the resources have, among others.
        pub annotations: Map<String>,
    }
}
