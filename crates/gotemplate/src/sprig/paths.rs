//! Functions for slash-separated paths (`gotemplate.md` 12.11).

use groundwork_go::path;

use super::registration::add_all;
use crate::functions::arguments::Arguments;
use crate::functions::{Functions, Signature, Type};
use crate::value::{Str, Value};

pub(super) fn register(functions: &mut Functions) {
    let one = Signature::fixed(&[Type::String]);
    add_all(functions, &["base", "osBase"], &one, |_, args| Ok(Str::from(path::base(args.string(0))).into()));
    add_all(functions, &["clean", "osClean"], &one, |_, args| Ok(path::clean(args.string(0)).into()));
    add_all(functions, &["ext", "osExt"], &one, |_, args| Ok(Str::from(path::ext(args.string(0))).into()));
    add_all(functions, &["isAbs", "osIsAbs"], &one, |_, args| {
        Ok(Value::Bool(args.string(0).starts_with(b"/")))
    });
    add_all(functions, &["dir", "osDir"], &one, |_, args| Ok(path::dir(args.string(0)).into()));
}
