//! Modules that scripts load. They have the names and members of the catalog's function.

mod base64;
mod hash;
mod json;
mod krmfn;
mod math;
mod re;
mod time;
mod yaml;

pub(crate) use re::METHODS as PATTERN_METHODS;
pub(crate) use time::{
    DURATION_FIELDS, METHODS as TIME_METHODS, TIME_FIELDS, duration_field, operation as time_operation,
    time_field,
};

use crate::fault::Fault;
use crate::values::{Module, Value};

/// Modules by the names in `load`.
static MODULES: &[(&str, &Module)] = &[
    ("encoding/base64.star", &base64::MODULE),
    ("encoding/json.star", &json::MODULE),
    ("encoding/yaml.star", &yaml::MODULE),
    ("hash.star", &hash::MODULE),
    ("krmfn.star", &krmfn::MODULE),
    ("math.star", &math::MODULE),
    ("re.star", &re::MODULE),
    ("time.star", &time::MODULE),
];

/// Returns the value that a script loads from a module.
pub(crate) fn member(module: &str, name: &str) -> Result<Value, Fault> {
    let found = MODULES.iter().find(|(known, _)| *known == module);
    let Some((_, found)) = found else {
        return Err(Fault::new(format!("module \"{module}\" is not available")));
    };
    if found.name == name {
        return Ok(Value::Module(found));
    }
    Err(Fault::new(format!("load: name {name} not found in module {module}")))
}
