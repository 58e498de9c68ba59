//! Fields of views. Each field is one path, which the watcher publishes and the view reads.

use k8s_openapi::jiff::Timestamp;
use serde_json::{Map, Value};

/// Value that can be read at a path. A missing value, or one of another type, reads as empty, since
/// users may write anything.
pub(super) trait Read<'a>: Sized {
    fn read(content: Option<&'a Map<String, Value>>, path: &str) -> Self;
}

/// Text; empty if it is missing.
impl<'a> Read<'a> for &'a str {
    fn read(content: Option<&'a Map<String, Value>>, path: &str) -> Self {
        at(content, path).and_then(Value::as_str).unwrap_or_default()
    }
}

impl<'a> Read<'a> for bool {
    fn read(content: Option<&'a Map<String, Value>>, path: &str) -> Self {
        at(content, path).and_then(Value::as_bool).unwrap_or_default()
    }
}

impl<'a> Read<'a> for Option<i64> {
    fn read(content: Option<&'a Map<String, Value>>, path: &str) -> Self {
        at(content, path).and_then(Value::as_i64)
    }
}

/// Integer or text.
impl<'a> Read<'a> for Option<crate::IntOrString> {
    fn read(content: Option<&'a Map<String, Value>>, path: &str) -> Self {
        match at(content, path)? {
            Value::String(text) => Some(crate::IntOrString::from(text.as_str())),
            number => number.as_i64().map(crate::IntOrString::Int),
        }
    }
}

impl<'a> Read<'a> for Option<Timestamp> {
    fn read(content: Option<&'a Map<String, Value>>, path: &str) -> Self {
        <&str>::read(content, path).parse().ok()
    }
}

impl<'a> Read<'a> for Option<crate::Duration> {
    fn read(content: Option<&'a Map<String, Value>>, path: &str) -> Self {
        <&str>::read(content, path).parse().ok()
    }
}

/// All texts at a path with `[]` or `*`, in order.
impl<'a> Read<'a> for Vec<&'a str> {
    fn read(content: Option<&'a Map<String, Value>>, path: &str) -> Self {
        let mut found = Vec::new();
        collect(content, path, &mut found);
        found
    }
}

/// Part of the content with fields of its own.
pub(super) trait Part<'a>: Sized {
    fn of(part: &'a Value) -> Self;
}

/// Returns the part at a path, if it exists.
pub(super) fn part<'a, T: Part<'a>>(content: Option<&'a Map<String, Value>>, path: &str) -> Option<T> {
    at(content, path).filter(|part| part.is_object()).map(T::of)
}

/// Returns the parts in the list at a path, which ends in `[]`.
pub(super) fn parts<'a, T: Part<'a>>(content: Option<&'a Map<String, Value>>, path: &str) -> Vec<T> {
    let list = at(content, path.trim_end_matches("[]")).and_then(Value::as_array);
    list.into_iter().flatten().map(T::of).collect()
}

fn at<'a>(content: Option<&'a Map<String, Value>>, path: &str) -> Option<&'a Value> {
    let mut steps = path.split('.');
    let first = content?.get(steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(step))
}

fn collect<'a>(content: Option<&'a Map<String, Value>>, path: &str, found: &mut Vec<&'a str>) {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let take = |value: &'a Value| match rest {
        Some(rest) => collect(value.as_object(), rest, found),
        None => found.extend(value.as_str()),
    };
    match content {
        Some(content) if name == "*" => content.values().for_each(take),
        Some(content) if is_list => {
            let list = content.get(name).and_then(Value::as_array);
            list.into_iter().flatten().for_each(take);
        }
        Some(content) => content.get(name).into_iter().for_each(take),
        None => {}
    }
}

/// Concatenates the paths of several lists.
pub(super) const fn joined<const N: usize>(lists: &[&[&'static str]]) -> [&'static str; N] {
    let mut all = [""; N];
    let (mut list, mut next) = (0, 0);
    while list < lists.len() {
        let mut index = 0;
        while index < lists[list].len() {
            all[next] = lists[list][index];
            next += 1;
            index += 1;
        }
        list += 1;
    }
    all
}

/// Returns the number of paths in all lists.
pub(super) const fn total(lists: &[&[&'static str]]) -> usize {
    let (mut list, mut sum) = (0, 0);
    while list < lists.len() {
        sum += lists[list].len();
        list += 1;
    }
    sum
}

/// Declares a view. Names under `fields` are published and can be read; `lists` and `parts` have
/// fields of their own; paths under `shown` are published only for users, who see them in
/// `groundwork events`.
macro_rules! view {
    (
        $(#[$doc:meta])*
        $name:ident
        fields { $($(#[$field_doc:meta])* $field:ident: $type:ty = $path:literal,)* }
        lists { $($(#[$list_doc:meta])* $list:ident: $row:ident,)* }
        parts { $($(#[$part_doc:meta])* $part:ident: $inner:ident,)* }
        shown { $($shown:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a>(pub &'a $crate::view::Snapshot);

        impl<'a> $name<'a> {
            /// Paths that an event shows.
            pub const FIELDS: &'static [&'static str] = {
                const LISTS: &[&[&str]] =
                    &[&[$($path,)*], $($row::FIELDS,)* $($inner::FIELDS,)* &[$($shown,)*]];
                const ALL: [&str; $crate::view::fields::total(LISTS)] = $crate::view::fields::joined(LISTS);
                &ALL
            };

            $(
                $(#[$field_doc])*
                pub fn $field(self) -> $type {
                    $crate::view::fields::Read::read(Some(&self.0.fields), $path)
                }
            )*
            $(
                $(#[$list_doc])*
                pub fn $list(self) -> Vec<$row<'a>> {
                    $crate::view::fields::parts(Some(&self.0.fields), $row::AT)
                }
            )*
            $(
                $(#[$part_doc])*
                pub fn $part(self) -> Option<$inner<'a>> {
                    $crate::view::fields::part(Some(&self.0.fields), $inner::AT)
                }
            )*
        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field()))*
                    $(.field(stringify!($list), &self.$list()))*
                    $(.field(stringify!($part), &self.$part()))*
                    .finish()
            }
        }
    };
}

/// Declares a part of a view, with fields of its own. A path that ends in `[]` is that of each
/// element of a list. The path of any other part is published itself, too, because an empty part
/// differs from a missing one.
macro_rules! view_part {
    (
        $(#[$doc:meta])*
        $name:ident at $at:literal $joint:literal $(empty $empty:literal)?
        { $($(#[$field_doc:meta])* $field:ident: $type:ty = $path:literal,)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub struct $name<'a>(Option<&'a serde_json::Map<String, serde_json::Value>>);

        impl<'a> $name<'a> {
            pub(super) const AT: &'static str = $at;
            pub(super) const FIELDS: &'static [&'static str] =
                &[$(concat!($at, $empty),)? $(concat!($at, $joint, $path),)*];

            $(
                $(#[$field_doc])*
                pub fn $field(self) -> $type {
                    $crate::view::fields::Read::read(self.0, $path)
                }
            )*
        }

        impl<'a> $crate::view::fields::Part<'a> for $name<'a> {
            fn of(part: &'a serde_json::Value) -> Self {
                Self(part.as_object())
            }
        }

        impl std::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.debug_struct(stringify!($name))$(.field(stringify!($field), &self.$field()))*.finish()
            }
        }
    };
}

pub(super) use {view, view_part};

/// Current or last job of an object, and the last one that it has finished (`installations.md`
/// 2.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Job<'a> {
    pub id: &'a str,
    pub finished: &'a str,
}

impl Job<'_> {
    /// Reports whether a job exists and is not finished.
    pub fn is_running(self) -> bool {
        self.id != self.finished
    }

    /// Reports whether the object has, or has had, a job.
    pub fn is_known(self) -> bool {
        !self.id.is_empty()
    }
}
