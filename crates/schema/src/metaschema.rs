//! Validation of schemas against their metaschema, in the words of Helm's library (`helm.md` 5).

use std::sync::OnceLock;

use groundwork_go::regexp::{self, Pattern};
use jsonschema::Draft;
use serde_json::{Map, Value, json};

use crate::Schema;
use crate::bundle::{self, positions};
use crate::dialect::{Dialect, draft_of};
use crate::explain::Explainer;
use crate::formats::Formats;

/// A metaschema with everything that it refers to.
struct Metaschema {
    document: Value,
    /// `None` only if the engine does not accept it.
    schema: Option<Schema>,
}

/// Metaschemas by their places in [`DRAFTS`], compiled on first use: few processes need all of
/// them.
static METASCHEMAS: [OnceLock<Metaschema>; 5] = [const { OnceLock::new() }; 5];
const DRAFTS: [Draft; 5] =
    [Draft::Draft4, Draft::Draft6, Draft::Draft7, Draft::Draft201909, Draft::Draft202012];

fn address(draft: Draft) -> &'static str {
    match draft {
        Draft::Draft4 => "http://json-schema.org/draft-04/schema",
        Draft::Draft6 => "http://json-schema.org/draft-06/schema",
        Draft::Draft7 => "http://json-schema.org/draft-07/schema",
        Draft::Draft201909 => "https://json-schema.org/draft/2019-09/schema",
        _ => "https://json-schema.org/draft/2020-12/schema",
    }
}

/// Returns the document of json-schema.org at an address without a fragment.
pub(crate) fn document(wanted: &str) -> Option<&'static Value> {
    // The older drafts are known under `http` and `https`.
    let wanted = draft_of(wanted).map_or_else(|| wanted.to_owned(), |draft| address(draft).to_owned());
    let base = jsonschema::uri::from_str(&wanted).ok().filter(|_| wanted.contains("://json-schema.org/"))?;
    let found = referencing::SPECIFICATIONS.resolver(base).lookup(&wanted);
    found.ok().map(|found| found.contents())
}

impl Metaschema {
    fn new(draft: Draft) -> Self {
        let mut root = document(address(draft)).cloned().unwrap_or(Value::Bool(true));
        amend(&mut root, draft);
        let dialect = Dialect::of_draft(draft);
        let document = bundle::of_metaschema(root, address(draft), dialect);
        let schema = Schema::compile_with(document.clone(), dialect, Formats::Helm).ok();
        Self { document, schema }
    }

    fn of(draft: Draft) -> Option<&'static Self> {
        let at = DRAFTS.iter().position(|known| *known == draft)?;
        METASCHEMAS.get(at).map(|known| known.get_or_init(|| Self::new(draft)))
    }
}

/// Changes the metaschemas of the older drafts to those of Helm's library.
fn amend(root: &mut Value, draft: Draft) {
    let Some(Value::Object(properties)) = root.get_mut("properties") else { return };
    if matches!(draft, Draft::Draft4 | Draft::Draft6 | Draft::Draft7) {
        properties.insert("enum".to_owned(), json!({"type": "array", "minItems": 1, "uniqueItems": true}));
    }
    if draft == Draft::Draft4 {
        properties.insert("$ref".to_owned(), json!({"type": "string"}));
        properties.insert("$schema".to_owned(), json!({"type": "string", "format": "uri"}));
    }
    if draft == Draft::Draft6 {
        properties.remove("examples");
        if let Some(Value::Object(rules)) = properties.get_mut("patternProperties") {
            rules.remove("propertyNames");
        }
    }
}

/// Returns the reason why a document, or a part of one, is not a schema. The message names `place`,
/// an address with a fragment.
pub(crate) fn problem(schema: &Value, draft: Draft, place: &str) -> Option<String> {
    let metaschema = Metaschema::of(draft)?;
    if metaschema.schema.as_ref().is_none_or(|known| known.is_valid(schema)) {
        return bad_pattern_property(schema, draft, place);
    }
    let findings = Explainer::new(&metaschema.document, draft, Formats::Helm).explain(schema);
    let mut lines = format!(
        "\"{place}\" is not valid against metaschema: jsonschema validation failed with '{}#'",
        address(draft)
    );
    findings.iter().for_each(|finding| finding.write(&mut lines, 0));
    Some(lines)
}

/// Checks the names of `patternProperties`, because the metaschemas of the older drafts do not
/// require them to be patterns.
fn bad_pattern_property(schema: &Value, draft: Draft, place: &str) -> Option<String> {
    let patterns = schema.get("patternProperties").and_then(Value::as_object);
    let patterns = patterns.into_iter().flat_map(Map::keys).filter(|pattern| !regexp::is_valid(pattern));
    let problem = patterns.into_iter().find_map(|pattern| {
        let error = Pattern::compile(pattern).err()?;
        let shown = groundwork_go::text::quote(pattern.as_bytes());
        Some(format!("invalid regex {shown} at \"{place}/patternProperties\": error parsing regexp: {error}"))
    });
    problem.or_else(|| {
        positions::below(schema, draft, true)
            .into_iter()
            .find_map(|(end, below)| bad_pattern_property(below, draft, &format!("{place}{end}")))
    })
}
