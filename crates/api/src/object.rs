//! Common parts of all kinds of objects: type, metadata and serialization.

use kube_core::{NamespaceResourceScope, Resource};

/// Kubernetes kind of this crate. All kinds are namespaced.
pub trait Kind: Resource<DynamicType = (), Scope = NamespaceResourceScope> {
    /// API group.
    const GROUP: &'static str;
    /// API version inside the group.
    const VERSION: &'static str;
    /// Group and version as written in `apiVersion`.
    const API_VERSION: &'static str;
    /// Name of the kind as written in `kind`.
    const KIND: &'static str;
    /// Name of the kind in URLs.
    const PLURAL: &'static str;
}

/// Compares the type in an object with the expected one.
///
/// Absent members pass, because the elements of a list need not repeat their type.
pub(crate) fn check_type<K: Kind, E: serde::de::Error>(
    api_version: Option<&str>,
    kind: Option<&str>,
) -> Result<(), E> {
    let fits =
        api_version.is_none_or(|text| text == K::API_VERSION) && kind.is_none_or(|text| text == K::KIND);
    if fits {
        return Ok(());
    }
    Err(E::custom(format_args!(
        "expected apiVersion {:?} and kind {:?}, found apiVersion {:?} and kind {:?}",
        K::API_VERSION,
        K::KIND,
        api_version.unwrap_or_default(),
        kind.unwrap_or_default(),
    )))
}

/// Declares a kind: the struct with `metadata` and the given fields, its serialization
/// (`apiVersion`, `kind`, `metadata`, then the fields), and the traits that kube needs.
macro_rules! kind {
    (
        $group:literal / $version:literal / $plural:literal
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident: $type:ty, )*
        }
    ) => {
        #[derive(Clone, Debug, Default, PartialEq, schemars::JsonSchema)]
        #[serde(default, rename_all = "camelCase")]
        $(#[$meta])*
        pub struct $name {
            /// Standard object metadata.
            #[schemars(skip)]
            pub metadata: kube_core::ObjectMeta,
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $crate::object::Kind for $name {
            const GROUP: &'static str = $group;
            const VERSION: &'static str = $version;
            const API_VERSION: &'static str = concat!($group, "/", $version);
            const KIND: &'static str = stringify!($name);
            const PLURAL: &'static str = $plural;
        }

        impl kube_core::Resource for $name {
            type DynamicType = ();
            type Scope = kube_core::NamespaceResourceScope;

            fn kind((): &()) -> std::borrow::Cow<'_, str> {
                stringify!($name).into()
            }

            fn group((): &()) -> std::borrow::Cow<'_, str> {
                $group.into()
            }

            fn version((): &()) -> std::borrow::Cow<'_, str> {
                $version.into()
            }

            fn plural((): &()) -> std::borrow::Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &kube_core::ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut kube_core::ObjectMeta {
                &mut self.metadata
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                #[derive(serde::Serialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire<'a> {
                    api_version: &'static str,
                    kind: &'static str,
                    metadata: &'a kube_core::ObjectMeta,
                    $(
                        #[serde(skip_serializing_if = "crate::json::Absent::is_absent")]
                        $field: &'a $type,
                    )*
                }
                Wire {
                    api_version: <Self as $crate::object::Kind>::API_VERSION,
                    kind: <Self as $crate::object::Kind>::KIND,
                    metadata: &self.metadata,
                    $( $field: &self.$field, )*
                }
                .serialize(serializer)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(serde::Deserialize)]
                #[serde(rename_all = "camelCase")]
                struct Wire {
                    api_version: Option<String>,
                    kind: Option<String>,
                    #[serde(default)]
                    metadata: kube_core::ObjectMeta,
                    $( #[serde(default)] $field: $type, )*
                }
                let wire = Wire::deserialize(deserializer)?;
                $crate::object::check_type::<Self, D::Error>(wire.api_version.as_deref(), wire.kind.as_deref())?;
                Ok(Self { metadata: wire.metadata, $( $field: wire.$field, )* })
            }
        }
    };
}
pub(crate) use kind;

/// Declares a part of an object. When read, every field may be absent; absent fields are not
/// written. With `..` at the end, `extra` keeps the members that the type does not have.
macro_rules! part {
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident: $type:ty, )*
            ..
        }
    ) => {
        $crate::object::part! {
            $(#[$meta])*
            pub struct $name {
                $( $(#[$field_meta])* pub $field: $type, )*
                /// Members that this version does not have; they are written back unchanged.
                #[serde(flatten)]
                #[schemars(skip)]
                pub extra: $crate::json::Extra,
            }
        }
    };
    (
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* pub $field:ident: $type:ty, )*
        }
    ) => {
        #[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        #[serde(default, rename_all = "camelCase")]
        $(#[$meta])*
        pub struct $name {
            $(
                #[serde(skip_serializing_if = "crate::json::Absent::is_absent")]
                $(#[$field_meta])*
                pub $field: $type,
            )*
        }

        impl $crate::json::Absent for $name {
            fn is_absent(&self) -> bool {
                false
            }
        }
    };
}
pub(crate) use part;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::{Context, DataObject, Execution, Installation};

    #[test]
    fn type_and_metadata_are_written_first() {
        let text = r#"{"spec":{"blueprint":{"ref":{"resourceName":"b"}}},"metadata":{"name":"a"}}"#;
        let installation: Installation = serde_json::from_str(text).unwrap();
        assert_eq!(
            serde_json::to_string(&installation).unwrap(),
            r#"{"apiVersion":"landscaper.gardener.cloud/v1alpha1","kind":"Installation","metadata":{"name":"a"},"spec":{"blueprint":{"ref":{"resourceName":"b"}}}}"#
        );
    }

    #[test]
    fn another_type_is_refused() {
        let check = |api_version: &str, kind: &str| {
            let object = json!({"apiVersion": api_version, "kind": kind, "metadata": {}, "spec": {}});
            serde_json::from_value::<Execution>(object).map(drop).map_err(|error| error.to_string())
        };
        assert_eq!(check("landscaper.gardener.cloud/v1alpha1", "Execution"), Ok(()));
        assert_eq!(
            check("landscaper.gardener.cloud/v1alpha1", "Installation"),
            Err("expected apiVersion \"landscaper.gardener.cloud/v1alpha1\" and kind \"Execution\", \
                 found apiVersion \"landscaper.gardener.cloud/v1alpha1\" and kind \"Installation\""
                .to_owned())
        );
        assert!(check("landscaper.gardener.cloud/v1", "Execution").is_err());
    }

    #[test]
    fn elements_of_lists_need_no_type() {
        assert!(serde_json::from_str::<Execution>(r#"{"metadata": {"name": "a"}, "spec": {}}"#).is_ok());
    }

    /// Generates any JSON value, with numbers as an API server keeps them.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            (-1e9..1e9).prop_map(Value::from),
            "[a-z]{0,3}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-z]{0,3}", inner, 0..4)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    fn round_trip<T: serde::Serialize + serde::de::DeserializeOwned>(object: &Value) -> Value {
        serde_json::to_value(serde_json::from_value::<T>(object.clone()).unwrap()).unwrap()
    }

    proptest! {
        #[test]
        fn free_values_and_unknown_members_survive(value in any_json(), other in any_json()) {
            let data = json!({
                "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "DataObject", "metadata": {},
                "data": value,
            });
            prop_assert_eq!(round_trip::<DataObject>(&data), data);
            let context = json!({
                "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Context", "metadata": {},
                "repositoryContext": value, "configurations": {"a": other},
            });
            prop_assert_eq!(round_trip::<Context>(&context), context);
            let installation = json!({
                "apiVersion": "landscaper.gardener.cloud/v1alpha1", "kind": "Installation", "metadata": {},
                "spec": {
                    "blueprint": {"inline": {"filesystem": value}},
                    "importDataMappings": {"a": value, "b": other},
                    "unknown": other,
                },
                "status": {"observedGeneration": 0, "conditions": [], "unknown": value},
            });
            prop_assert_eq!(round_trip::<Installation>(&installation), installation);
        }
    }
}
