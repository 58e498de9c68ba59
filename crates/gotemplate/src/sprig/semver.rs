//! Functions for semantic versions (`gotemplate.md` 12.11).

use std::any::Any;
use std::cmp::Ordering;
use std::rc::Rc;

use groundwork_go::semver::{Constraint, Version};

use super::registration::Outcome;
use crate::context::Context;
use crate::error::CallError;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::{IntKind, Member, Object, Value};

const POINTER: &str = "*semver.Version";

pub(super) fn register(functions: &mut Functions) {
    functions
        .add("semver", Signature::fixed(&[Type::String]), |context, args| {
            context.reserve(args.string(0).len().saturating_mul(4))?;
            let version = Version::parse(&args.text(0).to_text()).map_err(said)?;
            Ok(Value::Object(Rc::new(VersionObject { version, is_pointer: true })))
        })
        .add("semverCompare", Signature::fixed(&[Type::String, Type::String]), |context, args| {
            let length = args.string(0).len().saturating_add(args.string(1).len());
            // A parsed condition takes more memory than its few bytes of text.
            context.reserve(length.saturating_mul(32))?;
            let constraint = Constraint::parse(&args.text(0).to_text()).map_err(said)?;
            let version = Version::parse(&args.text(1).to_text()).map_err(said)?;
            Ok(Value::Bool(constraint.accepts(&version)))
        });
}

fn said(invalid: impl std::error::Error) -> CallError {
    CallError::Message(invalid.to_string())
}

/// A version in a template: a pointer as `semver` returns it, or a plain value as the methods of
/// versions return it.
#[derive(Debug)]
struct VersionObject {
    version: Version,
    is_pointer: bool,
}

impl VersionObject {
    fn value(version: Version) -> Value {
        Value::Object(Rc::new(VersionObject { version, is_pointer: false }))
    }

    /// Runs the methods that only pointers have.
    fn pointer_method(&self, method: &str, arguments: &[Value]) -> Option<Value> {
        if method == "Original" {
            return Some(self.version.original.as_str().into());
        }
        let Some(Value::Object(other)) = arguments.first() else {
            // `Equal` is the only method that checks for nil before it dereferences the pointer.
            return (method == "Equal").then_some(Value::Bool(false));
        };
        let other = other.as_any().downcast_ref::<VersionObject>()?;
        let order = self.version.compare(&other.version);
        Some(Value::Bool(match method {
            "Compare" => return Some(Value::int(order as i64)),
            "LessThan" => order == Ordering::Less,
            "LessThanEqual" => order != Ordering::Greater,
            "GreaterThan" => order == Ordering::Greater,
            "GreaterThanEqual" => order != Ordering::Less,
            _ => order == Ordering::Equal,
        }))
    }
}

impl Object for VersionObject {
    fn type_name(&self) -> &str {
        if self.is_pointer { POINTER } else { "semver.Version" }
    }

    fn kind_name(&self) -> &str {
        if self.is_pointer { "ptr" } else { "struct" }
    }

    fn member(&self, name: &str) -> Option<Member> {
        match name {
            "Major" | "Minor" | "Patch" | "Prerelease" | "Metadata" | "String" | "IncMajor" | "IncMinor"
            | "IncPatch" => Some(Member::getter()),
            "SetPrerelease" | "SetMetadata" => Some(Member::method(&[Type::String])),
            "Original" if self.is_pointer => Some(Member::getter()),
            "Compare" | "LessThan" | "LessThanEqual" | "GreaterThan" | "GreaterThanEqual" | "Equal"
                if self.is_pointer =>
            {
                Some(Member::method(&[Type::Object(POINTER)]))
            }
            _ => None,
        }
    }

    fn call(&self, _: &mut Context<'_>, method: &str, arguments: &[Value]) -> Outcome {
        let version = &self.version;
        let number = |n: u64| Value::Int(IntKind::Uint64, n.cast_signed());
        let text = arguments.text(0);
        Ok(match method {
            "Major" => number(version.major),
            "Minor" => number(version.minor),
            "Patch" => number(version.patch),
            "Prerelease" => version.prerelease.as_str().into(),
            "Metadata" => version.metadata.as_str().into(),
            "String" => version.to_string().into(),
            "IncMajor" => VersionObject::value(version.next_major()),
            "IncMinor" => VersionObject::value(version.next_minor()),
            "IncPatch" => VersionObject::value(version.next_patch()),
            "SetPrerelease" => VersionObject::value(version.with_prerelease(&text.to_text()).map_err(said)?),
            "SetMetadata" => VersionObject::value(version.with_metadata(&text.to_text()).map_err(said)?),
            other => {
                let result = self.pointer_method(other, arguments);
                result.ok_or_else(|| CallError::from(super::registration::NIL_POINTER))?
            }
        })
    }

    fn text(&self) -> String {
        self.version.to_string()
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        let number = |n: u64| Value::Int(IntKind::Uint64, n.cast_signed());
        let Version { major, minor, patch, prerelease, metadata, original } = &self.version;
        vec![
            ("major", number(*major)),
            ("minor", number(*minor)),
            ("patch", number(*patch)),
            ("pre", prerelease.as_str().into()),
            ("metadata", metadata.as_str().into()),
            ("original", original.as_str().into()),
        ]
    }

    /// Go compares pointers by address: two equal versions are different objects.
    fn equals(&self, other: &dyn Object) -> bool {
        let Some(other) = other.as_any().downcast_ref::<VersionObject>() else { return false };
        if self.is_pointer || other.is_pointer {
            std::ptr::eq(self, other)
        } else {
            self.version == other.version
        }
    }

    fn deep_equals(&self, other: &dyn Object) -> bool {
        let other = other.as_any().downcast_ref::<VersionObject>();
        other.is_some_and(|other| self.is_pointer == other.is_pointer && self.version == other.version)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::check_all;

    #[test]
    fn verbs_that_ask_for_no_text_show_the_fields() {
        check_all(&[
            (
                r#"{{printf "%d %v %s" (semver "1.2.3") (semver "1.2.3") (semver "1.2.3")}}"#,
                "&{1 2 3 %!d(string=) %!d(string=) %!d(string=1.2.3)} 1.2.3 1.2.3",
            ),
            (
                r#"{{printf "%#v" (semver "1.2")}}"#,
                r#"&semver.Version{major:0x1, minor:0x2, patch:0x0, pre:"", metadata:"", original:"1.2"}"#,
            ),
        ]);
    }

    #[test]
    fn methods_follow_nil() {
        check_all(&[
            (
                r#"{{(semver "1.2.3").GreaterThan nil}}"#,
                r#"error 1:18: executing "t" at <(semver "1.2.3").GreaterThan>: error calling GreaterThan: runtime error: invalid memory address or nil pointer dereference"#,
            ),
            (r#"{{(semver "1.2.3").Equal nil}}"#, "false"),
        ]);
    }
}
