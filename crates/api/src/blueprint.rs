//! Blueprint and installation templates (`blueprints.md` 1).
//!
//! The types accept everything that users may write: any field may be absent, and unknown fields
//! are kept, so that a caller can report them. The blueprint engine adds defaults and validates.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::imports::{InstallationExports, InstallationImports};
use crate::installation::Optimization;
use crate::json::{AnyJson, List, Map};
use crate::object::part;

/// `apiVersion` of blueprints and installation templates.
pub const BLUEPRINT_API_VERSION: &str = "landscaper.gardener.cloud/v1alpha1";
/// `kind` of a blueprint.
pub const BLUEPRINT_KIND: &str = "Blueprint";
/// `kind` of an installation template.
pub const INSTALLATION_TEMPLATE_KIND: &str = "InstallationTemplate";

part! {
    /// A blueprint has imports, templates that render deploy items from them, and exports.
    pub struct Blueprint {
        /// `landscaper.gardener.cloud/v1alpha1`; may be left out.
        #[schemars(extend("const" = BLUEPRINT_API_VERSION))]
        pub api_version: Option<String>,
        /// `Blueprint`; may be left out.
        #[schemars(extend("const" = BLUEPRINT_KIND))]
        pub kind: Option<String>,
        /// Free metadata. `ocmSchemaVersion` sets the schema version in which templates see
        /// component descriptors.
        pub annotations: Map<String>,
        /// Dialect of the schemas that name none; draft 2019-09 if absent.
        pub json_schema_version: Option<String>,
        /// JSON schemas that other schemas refer to by `local://<name>`.
        pub local_types: Map<Value>,
        /// Imports of the blueprint.
        pub imports: List<ImportDefinition>,
        /// Templates that derive further values from the imports, or check them.
        pub import_executions: List<TemplateExecutor>,
        /// Exports of the blueprint.
        pub exports: List<ExportDefinition>,
        /// Nested installations.
        pub subinstallations: List<SubinstallationTemplate>,
        /// Templates that render nested installations.
        pub subinstallation_executions: List<TemplateExecutor>,
        /// Templates that render deploy items.
        pub deploy_executions: List<TemplateExecutor>,
        /// Templates that render the exports.
        pub export_executions: List<TemplateExecutor>,
        ..
    }
}

/// Type of an import or export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldType {
    /// A value described by a JSON schema.
    Data,
    /// A Target.
    Target,
    /// Targets by key.
    TargetMap,
    /// Targets in order.
    TargetList,
}

impl FieldType {
    /// Returns the type as blueprints have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Target => "target",
            Self::TargetMap => "targetMap",
            Self::TargetList => "targetList",
        }
    }
}

impl fmt::Display for FieldType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that is not a type of imports or exports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of the types \"data\", \"target\", \"targetMap\" and \"targetList\"")]
pub struct UnknownFieldType(String);

impl FromStr for FieldType {
    type Err = UnknownFieldType;

    fn from_str(text: &str) -> Result<Self, UnknownFieldType> {
        match text {
            "data" => Ok(Self::Data),
            "target" => Ok(Self::Target),
            "targetMap" => Ok(Self::TargetMap),
            "targetList" => Ok(Self::TargetList),
            _ => Err(UnknownFieldType(text.to_owned())),
        }
    }
}

part! {
    /// Import of a blueprint.
    #[schemars(extend("required" = ["name"]))]
    pub struct ImportDefinition {
        /// Name of the import, also in templates.
        pub name: String,
        /// `data`, `target` or `targetMap`; may be left out for data and single targets.
        #[serde(rename = "type")]
        #[schemars(extend("enum" = ["data", "target", "targetMap", "targetList"]))]
        pub type_: Option<String>,
        /// True if an installation has to give the import; this is the default.
        pub required: Option<bool>,
        /// Default of a data import, in its member `value`.
        pub default: AnyJson,
        /// JSON schema of a data import.
        pub schema: AnyJson,
        /// Another spelling of `schema`.
        pub scheme: AnyJson,
        /// Type of the Targets of a target import. A name without a slash gets the prefix
        /// `landscaper.gardener.cloud/`.
        pub target_type: Option<String>,
        /// Imports that exist only if this one is given.
        pub imports: List<ImportDefinition>,
        ..
    }
}

impl ImportDefinition {
    /// Returns the JSON schema under either name (`blueprints.md` 1.2).
    pub fn schema(&self) -> Option<&Value> {
        self.schema.get().or_else(|| self.scheme.get())
    }

    /// Returns the default: the member `value`, or all of `default` if it has no such member
    /// (`blueprints.md` 1.2).
    pub fn default_value(&self) -> Option<&Value> {
        let default = self.default.get()?;
        let value = default.as_object().and_then(|members| members.get("value")).unwrap_or(default);
        Some(value).filter(|value| !value.is_null())
    }
}

part! {
    /// Export of a blueprint.
    #[schemars(extend("required" = ["name"]))]
    pub struct ExportDefinition {
        /// Name of the export.
        pub name: String,
        /// `data` or `target`; may be left out.
        #[serde(rename = "type")]
        #[schemars(extend("enum" = ["data", "target"]))]
        pub type_: Option<String>,
        /// JSON schema of a data export.
        pub schema: AnyJson,
        /// Another spelling of `schema`.
        pub scheme: AnyJson,
        /// Type of the Target of a target export.
        pub target_type: Option<String>,
        ..
    }
}

impl ExportDefinition {
    /// Returns the JSON schema under either name (`blueprints.md` 4.4).
    pub fn schema(&self) -> Option<&Value> {
        self.schema.get().or_else(|| self.scheme.get())
    }
}

/// Template language of an execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TemplateType {
    /// Go's `text/template` with the sprig functions.
    GoTemplate,
    /// spiff++.
    Spiff,
}

impl TemplateType {
    /// Returns the language as blueprints have it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::GoTemplate => "GoTemplate",
            Self::Spiff => "Spiff",
        }
    }
}

impl fmt::Display for TemplateType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Text that is not a template language.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not one of the template types \"GoTemplate\" and \"Spiff\"")]
pub struct UnknownTemplateType(String);

impl FromStr for TemplateType {
    type Err = UnknownTemplateType;

    fn from_str(text: &str) -> Result<Self, UnknownTemplateType> {
        match text {
            "GoTemplate" => Ok(Self::GoTemplate),
            "Spiff" => Ok(Self::Spiff),
            _ => Err(UnknownTemplateType(text.to_owned())),
        }
    }
}

part! {
    /// A template to be executed.
    #[schemars(extend("required" = ["type"]))]
    pub struct TemplateExecutor {
        /// Name of the execution, unique in its list.
        pub name: String,
        /// `GoTemplate` or `Spiff`.
        #[serde(rename = "type")]
        #[schemars(extend("enum" = ["GoTemplate", "Spiff"]))]
        pub type_: Option<String>,
        /// File of the blueprint that holds the template.
        pub file: Option<String>,
        /// The template itself: a text, or for Spiff a structure.
        pub template: AnyJson,
        ..
    }
}

part! {
    /// A nested installation: either the file that holds its template, or the template itself.
    pub struct SubinstallationTemplate {
        /// File of the blueprint that holds the template.
        pub file: Option<String>,
        /// The template itself.
        #[serde(flatten)]
        pub template: InstallationTemplate,
    }
}

impl SubinstallationTemplate {
    /// Returns the template if it is written in place.
    pub fn inline(&self) -> Option<&InstallationTemplate> {
        Some(&self.template).filter(|template| **template != InstallationTemplate::default())
    }
}

part! {
    /// Template of a nested installation.
    pub struct InstallationTemplate {
        /// `landscaper.gardener.cloud/v1alpha1`; may be left out.
        #[schemars(extend("const" = BLUEPRINT_API_VERSION))]
        pub api_version: Option<String>,
        /// `InstallationTemplate`; may be left out.
        #[schemars(extend("const" = INSTALLATION_TEMPLATE_KIND))]
        pub kind: Option<String>,
        /// Name of the installation inside of its parent.
        pub name: Option<String>,
        /// Blueprint of the installation.
        pub blueprint: Option<InstallationTemplateBlueprint>,
        /// Values for the imports of that blueprint.
        pub imports: Option<InstallationImports>,
        /// Spiff templates that compute the values of blueprint imports from the data imports.
        pub import_data_mappings: Map<AnyJson>,
        /// Names under which the exports of that blueprint are published.
        pub exports: Option<InstallationExports>,
        /// Spiff templates that compute the values of data exports from the blueprint's exports.
        pub export_data_mappings: Map<AnyJson>,
        /// Declarations of the author that save work for the services.
        pub optimization: Option<Optimization>,
        ..
    }
}

impl InstallationTemplate {
    /// Returns the name of the installation inside of its parent; empty if it was left out.
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or_default()
    }
}

part! {
    /// Blueprint of a nested installation.
    pub struct InstallationTemplateBlueprint {
        /// Address of the blueprint: `cd://` and the path to a resource of the component.
        #[serde(rename = "ref")]
        pub reference: Option<String>,
        /// Files of the blueprint.
        pub filesystem: AnyJson,
        ..
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_of_an_import() {
        let check = |written: &str, expected: Option<&str>| {
            let import: ImportDefinition = serde_json::from_str(written).unwrap();
            assert_eq!(import.default_value().map(Value::to_string).as_deref(), expected, "{written}");
            assert_eq!(
                serde_json::to_value(&import).unwrap(),
                serde_json::from_str::<Value>(written).unwrap()
            );
        };
        check(r#"{"name": "a", "default": {"value": 5}}"#, Some("5"));
        check(r#"{"name": "a", "default": 5}"#, Some("5"));
        check(r#"{"name": "a", "default": {"other": 5}}"#, Some(r#"{"other":5}"#));
        check(r#"{"name": "a", "default": {"value": {"value": 5}}}"#, Some(r#"{"value":5}"#));
        check(r#"{"name": "a", "default": {"value": null}}"#, None);
        check(r#"{"name": "a", "default": null}"#, None);
        check(r#"{"name": "a"}"#, None);
    }

    #[test]
    fn both_names_of_a_schema() {
        let check = |written: &str, expected: Option<&str>| {
            let import: ImportDefinition = serde_json::from_str(written).unwrap();
            assert_eq!(import.schema().map(Value::to_string).as_deref(), expected, "{written}");
        };
        check(r#"{"name": "a", "schema": true}"#, Some("true"));
        check(r#"{"name": "a", "scheme": {"type": "string"}}"#, Some(r#"{"type":"string"}"#));
        check(r#"{"name": "a", "schema": {}, "scheme": true}"#, Some("{}"));
        check(r#"{"name": "a"}"#, None);
    }

    #[test]
    fn a_file_or_a_template_in_place() {
        let check = |written: &str, file: Option<&str>, name: Option<&str>| {
            let entry: SubinstallationTemplate = serde_json::from_str(written).unwrap();
            assert_eq!(entry.file.as_deref(), file, "{written}");
            assert_eq!(entry.inline().map(InstallationTemplate::name), name, "{written}");
            assert_eq!(
                serde_json::to_value(&entry).unwrap(),
                serde_json::from_str::<Value>(written).unwrap()
            );
        };
        check(r#"{"file": "/children/dns.yaml"}"#, Some("/children/dns.yaml"), None);
        check(r#"{"name": "dns", "blueprint": {"ref": "cd://resources/dns"}}"#, None, Some("dns"));
        check(r#"{"blueprint": {"filesystem": {}}, "unknown": 1}"#, None, Some(""));
        check(r#"{"file": "/a", "name": "b"}"#, Some("/a"), Some("b"));
        check("{}", None, None);
    }
}
