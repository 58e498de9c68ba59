//! Kptfiles (`packagevariants.md` 1.7): strict parsing for merges, and helpers for all code that
//! changes Kptfiles.

use groundwork_yaml::tree::{Content, Kind, Node, Notation, Scalar};

use crate::file::{File, ReadError};

/// `apiVersion` of a Kptfile.
const API_VERSION: &str = "kpt.dev/v1";

/// Reason why a text is not a Kptfile.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KptfileError {
    /// The text is not YAML.
    #[error(transparent)]
    Syntax(#[from] ReadError),
    /// The text has several documents, or none.
    #[error("expected exactly one object, got {0}")]
    Documents(usize),
    /// The version is no longer supported.
    #[error("old resource version {0:?} found in Kptfile")]
    OldVersion(String),
    /// The document has another type.
    #[error("unknown resource type {0:?} found in Kptfile")]
    UnknownType(String),
    /// Kptfiles do not have this field.
    #[error("line {line}: field {field} not found in type v1.{part}")]
    UnknownField { line: usize, field: String, part: &'static str },
    /// The value has the wrong type.
    #[error("line {line}: field {field} of type v1.{part} must be {expected}")]
    WrongType { line: usize, field: String, part: &'static str, expected: &'static str },
}

/// Type of a field.
#[derive(Clone, Copy)]
enum Form {
    Text,
    Texts,
    TextMap,
    Part(&'static Part),
    Parts(&'static Part),
    /// Any value: only renderings write and read it.
    Any,
}

/// Part of a Kptfile with its fields.
struct Part {
    name: &'static str,
    fields: &'static [(&'static str, Form)],
}

macro_rules! parts {
    ($($constant:ident = $name:literal { $($field:literal: $form:expr,)* })+) => {
        $(static $constant: Part = Part { name: $name, fields: &[$(($field, $form),)*] };)+
    };
}

use Form::{Any, Parts, Text, TextMap, Texts};

parts! {
    KPTFILE = "KptFile" {
        "apiVersion": Text, "kind": Text, "metadata": Form::Part(&METADATA), "upstream": Form::Part(&UPSTREAM),
        "upstreamLock": Form::Part(&LOCATOR), "info": Form::Part(&INFO), "pipeline": Form::Part(&PIPELINE),
        "inventory": Form::Part(&INVENTORY), "status": Form::Part(&STATUS),
    }
    METADATA = "ObjectMeta" {
        "name": Text, "namespace": Text, "labels": TextMap, "annotations": TextMap, "creationTimestamp": Any,
    }
    UPSTREAM = "Upstream" { "type": Text, "git": Form::Part(&GIT), "updateStrategy": Text, }
    GIT = "Git" { "repo": Text, "directory": Text, "ref": Text, }
    LOCATOR = "Locator" { "type": Text, "git": Form::Part(&GIT_LOCK), "generic": Form::Part(&GENERIC), }
    GIT_LOCK = "GitLock" { "repo": Text, "directory": Text, "ref": Text, "commit": Text, }
    GENERIC = "GenericLock" { "storeID": Text, "resourceID": Text, "resourceVersion": Text, }
    INFO = "PackageInfo" {
        "site": Text, "emails": Texts, "license": Text, "licenseFile": Text, "description": Text, "keywords": Texts,
        "man": Text, "readinessGates": Parts(&GATE),
    }
    GATE = "ReadinessGate" { "conditionType": Text, }
    PIPELINE = "Pipeline" { "mutators": Parts(&FUNCTION), "validators": Parts(&FUNCTION), }
    FUNCTION = "Function" {
        "image": Text, "exec": Text, "tag": Text, "configPath": Text, "configMap": TextMap, "name": Text,
        "selectors": Parts(&SELECTOR), "exclude": Parts(&SELECTOR),
    }
    SELECTOR = "Selector" {
        "apiVersion": Text, "kind": Text, "name": Text, "namespace": Text, "labels": TextMap, "annotations": TextMap,
    }
    INVENTORY = "Inventory" {
        "namespace": Text, "name": Text, "inventoryID": Text, "labels": TextMap, "annotations": TextMap,
    }
    STATUS = "Status" { "conditions": Parts(&CONDITION), "renderStatus": Form::Part(&RENDER_STATUS), }
    CONDITION = "Condition" { "type": Text, "status": Text, "reason": Text, "message": Text, }
    RENDER_STATUS = "RenderStatus" { "mutationSteps": Any, "validationSteps": Any, "errorSummary": Text, }
}

/// Parses a Kptfile, and refuses unknown fields.
///
/// # Errors
/// See [`KptfileError`].
pub fn read(text: &str) -> Result<File, KptfileError> {
    let file = File::read(text)?;
    let [document] = file.documents.as_slice() else {
        return Err(KptfileError::Documents(file.documents.len()));
    };
    let text = |field: &str| document.root.get(field).and_then(Node::text).unwrap_or_default();
    match (text("apiVersion"), text("kind")) {
        (API_VERSION, "Kptfile") => check(&document.root, &KPTFILE)?,
        (old @ ("kpt.dev/v1alpha1" | "kpt.dev/v1alpha2"), "Kptfile") => {
            return Err(KptfileError::OldVersion(old.trim_start_matches("kpt.dev/").to_owned()));
        }
        (api_version, kind) => {
            // Kubernetes writes the type like this, with a slash for the core group too.
            let slash = if api_version.contains('/') { "" } else { "/" };
            return Err(KptfileError::UnknownType(format!("{slash}{api_version}, Kind={kind}")));
        }
    }
    Ok(file)
}

fn check(node: &Node, part: &'static Part) -> Result<(), KptfileError> {
    for pair in node.as_mapping().into_iter().flat_map(|mapping| &mapping.pairs) {
        let Some((_, form)) = part.fields.iter().find(|(name, _)| *name == pair.name()) else {
            let field = pair.name().to_owned();
            return Err(KptfileError::UnknownField { line: pair.key.line, field, part: part.name });
        };
        check_form(&pair.value, *form).map_err(|wrong| match wrong {
            Wrong::Here(expected) => {
                let field = pair.name().to_owned();
                KptfileError::WrongType { line: pair.key.line, field, part: part.name, expected }
            }
            Wrong::Below(error) => error,
        })?;
    }
    Ok(())
}

/// Error in the value itself, or in a field in it.
enum Wrong {
    Here(&'static str),
    Below(KptfileError),
}

fn check_form(value: &Node, form: Form) -> Result<(), Wrong> {
    let is_text = |node: &Node| matches!(node.content, Content::Scalar(_));
    if value.is_null() {
        return Ok(());
    }
    match (form, &value.content) {
        (Any, _) | (Text, Content::Scalar(_)) => Ok(()),
        (Text, _) => Err(Wrong::Here("a string")),
        (Texts, Content::Sequence(items)) if items.items.iter().all(is_text) => Ok(()),
        (Texts, _) => Err(Wrong::Here("a list of strings")),
        (TextMap, Content::Mapping(map)) if map.pairs.iter().all(|pair| is_text(&pair.value)) => Ok(()),
        (TextMap, _) => Err(Wrong::Here("a map of strings")),
        (Form::Part(part), Content::Mapping(_)) => check(value, part).map_err(Wrong::Below),
        (Form::Part(_), _) => Err(Wrong::Here("a map")),
        (Parts(part), Content::Sequence(items)) => {
            for item in &items.items {
                match item.content {
                    Content::Mapping(_) => check(item, part).map_err(Wrong::Below)?,
                    _ if item.is_null() => {}
                    _ => return Err(Wrong::Here("a list of maps")),
                }
            }
            Ok(())
        }
        (Parts(_), _) => Err(Wrong::Here("a list of maps")),
    }
}

/// Converts the values in the string maps of a Kptfile to strings, even if they look like numbers.
pub(crate) fn write_strings(root: &mut Node) {
    write_part(root, &KPTFILE);
}

/// Converts the values in the string maps of one function to strings.
pub(crate) fn write_strings_of_function(function: &mut Node) {
    write_part(function, &FUNCTION);
}

fn write_part(node: &mut Node, part: &'static Part) {
    let Some(mapping) = node.as_mapping_mut() else { return };
    for pair in &mut mapping.pairs {
        let form = part.fields.iter().find(|(name, _)| pair.key.text() == Some(name)).map(|(_, form)| *form);
        match form {
            Some(TextMap) => make_strings(&mut pair.value),
            Some(Form::Part(part)) => write_part(&mut pair.value, part),
            Some(Parts(part)) => {
                let items = pair.value.as_sequence_mut().into_iter().flat_map(|list| &mut list.items);
                items.for_each(|item| write_part(item, part));
            }
            _ => {}
        }
    }
}

/// Converts every scalar of a map to a string.
pub(crate) fn make_strings(map: &mut Node) {
    for pair in map.as_mapping_mut().into_iter().flat_map(|mapping| &mut mapping.pairs) {
        let kind = pair.value.kind();
        let Content::Scalar(Scalar { text, notation }) = &mut pair.value.content else { continue };
        if kind == Kind::Null {
            text.clear();
        }
        if kind != Kind::String {
            *notation = Notation::DoubleQuoted;
            pair.value.tag = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: &str, expected: Result<(), &str>) {
        let text = format!("apiVersion: kpt.dev/v1\nkind: Kptfile\n{body}");
        let found = read(&text).map(drop).map_err(|error| error.to_string());
        assert_eq!(found.as_ref().map_err(String::as_str).copied(), expected, "{body}");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        check("metadata: {name: a, labels: {x: 1}}\ninfo: {emails: [a]}\n", Ok(()));
        check(
            "pipeline:\n  mutators:\n  - image: a\n    configMap: {n: 5}\n    selectors: [{kind: K}]\n",
            Ok(()),
        );
        check("pipeline:\n  mutator: []\n", Err("line 4: field mutator not found in type v1.Pipeline"));
        check("extra: 1\n", Err("line 3: field extra not found in type v1.KptFile"));
        check(
            "pipeline:\n  mutators:\n  - imag: a\n",
            Err("line 5: field imag not found in type v1.Function"),
        );
        check("pipeline: abc\n", Err("line 3: field pipeline of type v1.KptFile must be a map"));
        check("info: null\nstatus:\n", Ok(()));
    }

    #[test]
    fn other_documents() {
        let error = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(
            error("apiVersion: kpt.dev/v1alpha2\nkind: Kptfile\n"),
            "old resource version \"v1alpha2\" found in Kptfile"
        );
        assert_eq!(
            error("apiVersion: v1\nkind: ConfigMap\n"),
            "unknown resource type \"/v1, Kind=ConfigMap\" found in Kptfile"
        );
        assert_eq!(error(""), "expected exactly one object, got 0");
        assert_eq!(error("a: [\n").split(':').next(), Some("line 1"));
    }

    #[test]
    fn maps_of_strings() {
        let mut file =
            read("apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata: {name: a, labels: {n: 5, s: x}}\n")
                .unwrap();
        write_strings(&mut file.documents[0].root);
        assert!(file.text().ends_with("metadata: {name: a, labels: {n: \"5\", s: x}}\n"));
    }
}
