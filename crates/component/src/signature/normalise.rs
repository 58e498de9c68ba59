//! Normalisation of a descriptor to the bytes that are signed (`components.md` 7.6).

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::descriptor::{Descriptor, SchemaVersion};

/// Normalisation algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Normalisation {
    V1,
    V2,
    V3,
    V4Alpha1,
}

impl Normalisation {
    /// Parses a name such as `jsonNormalisation/v1`.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::V1, Self::V2, Self::V3, Self::V4Alpha1].into_iter().find(|one| one.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::V1 => "jsonNormalisation/v1",
            Self::V2 => "jsonNormalisation/v2",
            Self::V3 => "jsonNormalisation/v3",
            Self::V4Alpha1 => "jsonNormalisation/v4alpha1",
        }
    }

    /// Returns the bytes of a descriptor with its recorded digests.
    pub fn apply(self, descriptor: &Descriptor) -> Vec<u8> {
        self.apply_with(descriptor, true)
    }

    /// Normalises as [`Normalisation::apply`] does. Without `writes_null`, `extraIdentity: null` is
    /// omitted, as in the first releases of OCM.
    pub(super) fn apply_with(self, descriptor: &Descriptor, writes_null: bool) -> Vec<u8> {
        let model = Model { normalisation: self, schema: descriptor.schema(), writes_null };
        let mut text = String::new();
        match self {
            Self::V1 => write(&model.document_v1(descriptor.document()), &mut text, true),
            Self::V2 | Self::V3 | Self::V4Alpha1 => write(&model.neutral(descriptor), &mut text, false),
        }
        text.into_bytes()
    }
}

struct Model {
    normalisation: Normalisation,
    schema: SchemaVersion,
    writes_null: bool,
}

impl Model {
    /// Returns the document in its own schema version, without unsigned parts.
    fn document_v1(&self, document: &Value) -> Value {
        let is_v2 = self.schema == SchemaVersion::V2;
        let of = |pointer: &str| document.pointer(pointer);
        let list = |pointer: &str| of(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        if is_v2 {
            let mut component = self.head(of("/component"), &["name", "version", "creationTime"]);
            component.insert("provider".to_owned(), self.provider_v2(of("/component/provider")));
            component.insert(
                "componentReferences".to_owned(),
                self.references(list("/component/componentReferences")),
            );
            component.insert("resources".to_owned(), self.resources(list("/component/resources")));
            return json!({"meta": {"schemaVersion": of("/meta/schemaVersion")}, "component": component});
        }
        let mut metadata = self.head(of("/metadata"), &["name", "version", "creationTime"]);
        // Labels of a provider are always signed, regardless of their `signing` flag.
        metadata.insert("provider".to_owned(), known(of("/metadata/provider"), &["name", "labels"]));
        let spec = json!({
            "references": self.references(list("/spec/references")),
            "resources": self.resources(list("/spec/resources")),
            "sources": self.sources(list("/spec/sources")),
        });
        let mut whole =
            json!({"apiVersion": of("/apiVersion"), "kind": of("/kind"), "metadata": metadata, "spec": spec});
        if list("/spec/references").is_empty()
            && let Some(spec) = whole.pointer_mut("/spec").and_then(Value::as_object_mut)
        {
            spec.insert("references".to_owned(), json!([]));
        }
        whole
    }

    /// Returns the layout of v2 with an object for the provider, for a document of either schema
    /// version.
    fn neutral(&self, descriptor: &Descriptor) -> Value {
        let document = descriptor.to_schema(SchemaVersion::V3);
        let of = |pointer: &str| document.pointer(pointer);
        let list = |pointer: &str| of(pointer).and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        let mut component = self.head(of("/metadata"), &["name", "version", "creationTime"]);
        component.insert("provider".to_owned(), self.provider(of("/metadata/provider")));
        component.insert("componentReferences".to_owned(), self.references(list("/spec/references")));
        component.insert("resources".to_owned(), self.resources(list("/spec/resources")));
        component.insert("sources".to_owned(), self.sources(list("/spec/sources")));
        json!({"component": component})
    }

    /// Returns members of the component itself, with its labels.
    fn head(&self, holder: Option<&Value>, members: &[&str]) -> Map<String, Value> {
        let mut head = match known(holder, members) {
            Value::Object(head) => head,
            _ => Map::new(),
        };
        put_labels(&mut head, holder);
        head
    }

    fn provider(&self, provider: Option<&Value>) -> Value {
        let mut object = self.head(provider, &["name"]);
        object.entry("name").or_insert_with(|| "".into());
        object.into()
    }

    /// Returns a text, or the object if the text is a JSON object.
    fn provider_v2(&self, provider: Option<&Value>) -> Value {
        let text = provider.and_then(Value::as_str).unwrap_or_default();
        match serde_json::from_str::<Value>(text) {
            Ok(object @ Value::Object(_)) => self.provider(Some(&object)),
            _ => text.into(),
        }
    }

    fn references(&self, list: &[Value]) -> Value {
        list.iter()
            .map(|element| {
                let mut object =
                    self.element(element, &["name", "version", "componentName", "digest", "extraIdentity"]);
                // OCM's newer algorithms name the wrong member here, so they sign all labels of
                // references. Signatures match only if we do the same.
                if self.normalisation == Normalisation::V1 {
                    put_labels(&mut object, Some(element));
                } else if let Some(labels) = element.get("labels").and_then(Value::as_array)
                    && !labels.is_empty()
                {
                    let label = |label: &Value| known(Some(label), self.label_members());
                    object.insert("labels".to_owned(), labels.iter().map(label).collect());
                }
                self.fill(&mut object, &["name", "version", "componentName"]);
                if self.normalisation == Normalisation::V4Alpha1 {
                    // A reference without a digest has an empty one there.
                    object.entry("digest").or_insert_with(
                        || json!({"hashAlgorithm": "", "normalisationAlgorithm": "", "value": ""}),
                    );
                }
                Value::from(object)
            })
            .collect()
    }

    fn resources(&self, list: &[Value]) -> Value {
        let twins = twins(list);
        list.iter()
            .map(|element| {
                let members = ["name", "version", "type", "relation", "digest", "extraIdentity"];
                let mut object = self.element(element, &members);
                let defaults_identity = matches!(self.normalisation, Normalisation::V1 | Normalisation::V2);
                if defaults_identity && twins.contains(&identity(element)) {
                    add_version(&mut object, element);
                }
                if is_none(element.get("access")) {
                    object.remove("digest");
                }
                put_labels(&mut object, Some(element));
                self.fill(&mut object, &["name", "version", "type", "relation"]);
                Value::from(object)
            })
            .collect()
    }

    fn sources(&self, list: &[Value]) -> Value {
        list.iter()
            .map(|element| {
                let mut object = match known(Some(element), &["name", "version", "type", "extraIdentity"]) {
                    Value::Object(object) => object,
                    _ => Map::new(),
                };
                drop_empty(&mut object, "extraIdentity");
                put_labels(&mut object, Some(element));
                self.fill(&mut object, &["name", "version", "type"]);
                Value::from(object)
            })
            .collect()
    }

    /// Sets the texts that v4alpha1 always writes.
    fn fill(&self, object: &mut Map<String, Value>, members: &[&str]) {
        if self.normalisation == Normalisation::V4Alpha1 {
            for member in members {
                object.entry(*member).or_insert_with(|| "".into());
            }
        }
    }

    /// Returns the members of labels whose flag `signing` does not matter. v4alpha1 does not know
    /// `merge`.
    fn label_members(&self) -> &'static [&'static str] {
        if self.normalisation == Normalisation::V4Alpha1 { &LABEL_MEMBERS[..4] } else { &LABEL_MEMBERS }
    }

    fn element(&self, element: &Value, members: &[&str]) -> Map<String, Value> {
        let mut object = match known(Some(element), members) {
            Value::Object(object) => object,
            _ => Map::new(),
        };
        drop_empty(&mut object, "extraIdentity");
        if let Some(digest) = element.get("digest").filter(|digest| digest.is_object()) {
            let members = ["hashAlgorithm", "normalisationAlgorithm", "value"];
            object.insert("digest".to_owned(), known(Some(digest), &members));
        }
        let needs_null =
            self.normalisation == Normalisation::V1 && self.schema == SchemaVersion::V2 && self.writes_null;
        if needs_null {
            object.entry("extraIdentity").or_insert(Value::Null);
        }
        object
    }
}

const LABEL_MEMBERS: [&str; 5] = ["name", "value", "version", "signing", "merge"];

/// Returns the known members that are not null.
fn known(holder: Option<&Value>, members: &[&str]) -> Value {
    let object = holder.and_then(Value::as_object);
    let present = object
        .into_iter()
        .flatten()
        .filter(|(key, value)| members.contains(&key.as_str()) && !value.is_null());
    present.map(|(key, value)| (key.clone(), value.clone())).collect::<Map<_, _>>().into()
}

fn drop_empty(object: &mut Map<String, Value>, member: &str) {
    if object.get(member).and_then(Value::as_object).is_some_and(Map::is_empty) {
        object.remove(member);
    }
}

/// Adds the signed labels with their signed members. Without signed labels, the member is omitted.
fn put_labels(object: &mut Map<String, Value>, holder: Option<&Value>) {
    let labels = holder.and_then(|holder| holder.get("labels")).and_then(Value::as_array);
    let signed: Vec<Value> = labels
        .into_iter()
        .flatten()
        .filter(|label| label.get("signing").and_then(Value::as_bool) == Some(true))
        .map(|label| known(Some(label), &["name", "version", "value", "signing"]))
        .collect();
    if signed.is_empty() {
        object.remove("labels");
    } else {
        object.insert("labels".to_owned(), signed.into());
    }
}

/// Returns name and extra identity.
fn identity(element: &Value) -> (&str, String) {
    let name = element.get("name").and_then(Value::as_str).unwrap_or_default();
    let extra =
        element.get("extraIdentity").filter(|extra| extra.as_object().is_some_and(|map| !map.is_empty()));
    // The map is sorted by key, so the text is unique.
    (name, extra.map(Value::to_string).unwrap_or_default())
}

/// Returns the identities that several resources share.
fn twins(list: &[Value]) -> HashSet<(&str, String)> {
    let (mut seen, mut twins) = (HashSet::new(), HashSet::new());
    for element in list {
        if !seen.insert(identity(element)) {
            twins.insert(identity(element));
        }
    }
    twins
}

fn add_version(object: &mut Map<String, Value>, element: &Value) {
    let version = element.get("version").cloned().unwrap_or_default();
    let extra = object.entry("extraIdentity").or_insert_with(|| json!({}));
    if extra.is_null() {
        *extra = json!({});
    }
    if let Some(extra) = extra.as_object_mut() {
        extra.insert("version".to_owned(), version);
    }
}

/// Reports whether an access has the type `none`.
pub(super) fn is_none(access: Option<&Value>) -> bool {
    let type_name = access.and_then(|access| access.get("type")).and_then(Value::as_str).unwrap_or_default();
    matches!(type_name.strip_suffix("/v1").unwrap_or(type_name), "none" | "None")
}

/// Writes compact JSON. With `as_entries`, each object is a list of objects with one member, in the
/// order of the keys. Otherwise the format is RFC 8785, which orders keys by their UTF-16 code
/// units.
fn write(value: &Value, text: &mut String, as_entries: bool) {
    match value {
        Value::Object(members) => {
            let mut sorted: Vec<(&String, &Value)> = members.iter().collect();
            if as_entries {
                sorted.sort_by_key(|(key, _)| *key);
            } else {
                sorted.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            }
            let (open, close) = if as_entries { ('[', ']') } else { ('{', '}') };
            text.push(open);
            for (index, (key, value)) in sorted.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                if as_entries {
                    text.push('{');
                }
                write_text(key, text, as_entries);
                text.push(':');
                write(value, text, as_entries);
                if as_entries {
                    text.push('}');
                }
            }
            text.push(close);
        }
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write(item, text, as_entries);
            }
            text.push(']');
        }
        Value::String(string) => write_text(string, text, as_entries),
        Value::Number(number) => text.push_str(&number_text(number)),
        other => text.push_str(&other.to_string()),
    }
}

/// Writes a string. Both forms escape few characters, but Go also escapes two line separators.
fn write_text(string: &str, text: &mut String, as_go: bool) {
    let written = Value::from(string).to_string();
    if as_go {
        text.push_str(&written.replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029"));
    } else {
        text.push_str(&written);
    }
}

/// Formats a number as both writers do: the shortest text of the double, with an exponent from 1e21
/// on and below 1e-6.
fn number_text(number: &serde_json::Number) -> String {
    let Some(double) = number.as_f64() else { return number.to_string() };
    if double == 0.0 {
        return "0".to_owned();
    }
    let size = double.abs();
    if (1e-6..1e21).contains(&size) {
        return double.to_string();
    }
    let text = format!("{double:e}");
    match text.split_once('e') {
        Some((digits, exponent)) if !exponent.starts_with('-') => format!("{digits}e+{exponent}"),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use groundwork_keys::Hash;

    use super::*;
    use crate::descriptor::Leniency;

    fn descriptor(document: Value) -> Descriptor {
        Descriptor::from_document(document, Leniency::Strict).unwrap()
    }

    fn digest(normalisation: Normalisation, descriptor: &Descriptor) -> String {
        data_encoding::HEXLOWER.encode(&Hash::Sha256.of(&normalisation.apply(descriptor)))
    }

    fn archive(resources: &Value) -> Descriptor {
        descriptor(json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": "test.de/x", "version": "v1", "provider": "mandelsoft", "sources": [], "componentReferences": [],
            "repositoryContexts": [{"type": "ociRegistry", "baseUrl": "r"}], "resources": resources,
        }}))
    }

    /// Digests that OCM's command `hash componentversions` prints for the same descriptors.
    #[test]
    fn recorded_digests() {
        let empty = archive(&json!([]));
        let resource = archive(&json!([{
            "name": "test", "version": "v1", "type": "plainText", "relation": "local",
            "access": {"type": "localBlob", "localReference": "x", "mediaType": "text/plain"},
            "digest": {
                "hashAlgorithm": "SHA-256", "normalisationAlgorithm": "genericBlobDigest/v1",
                "value": "810ff2fb242a5dee4220f2cb0e6a519891fb67f2f828a6cab4ef8894633b1f50",
            },
        }]));
        for (normalisation, descriptor, expected) in [
            (Normalisation::V1, &empty, "37f7f500d87f4b0a8765649f7c047db382e272b73e042805131df57279991b2b"),
            (Normalisation::V2, &empty, "33aeb8c46ea4bacbf0bc3ac42c186c7f5e313584601a93bf861c016d73c9e4f1"),
            (Normalisation::V3, &empty, "33aeb8c46ea4bacbf0bc3ac42c186c7f5e313584601a93bf861c016d73c9e4f1"),
            (
                Normalisation::V1,
                &resource,
                "9d8fc24cf27d1092f58098286d9f63c6824c2daf739c19789f64c062d1f30cc5",
            ),
            (
                Normalisation::V2,
                &resource,
                "6e8e9eb0af1c4c0b9dcc4161168b3f0ad913bc85e4234688dd6d4b283fe4b956",
            ),
        ] {
            assert_eq!(digest(normalisation, descriptor), expected, "{normalisation:?}");
        }
        // An earlier release of OCM wrote no `extraIdentity: null`.
        let early = Hash::Sha256.of(&Normalisation::V1.apply_with(&resource, false));
        assert_eq!(
            data_encoding::HEXLOWER.encode(&early),
            "49145d28aee8dfebdde5432bdbe2cf8e365d56cbd17fbfa959770057d6127edc"
        );
    }

    /// Each rule of `components.md` 7.6.
    #[test]
    fn what_is_signed() {
        let labels = json!([
            {"name": "a", "value": {"b": 1, "a": [true, null]}, "signing": true, "version": "v1", "merge": {"algorithm": "x"}},
            {"name": "b", "value": "unsigned"},
        ]);
        let v2 = descriptor(json!({"meta": {"schemaVersion": "v2"}, "component": {
            "name": "e.org/a", "version": "1.0.0", "provider": r#"{"name":"p","labels":[{"name":"x","value":"y"}]}"#,
            "labels": labels, "creationTime": "2026-01-01T00:00:00Z", "repositoryContexts": [],
            "sources": [{"name": "src", "version": "1", "type": "git", "access": {"type": "gitHub"}}],
            "componentReferences": [{"name": "ref", "componentName": "e.org/b", "version": "1.0.0", "labels": labels}],
            "resources": [
                {"name": "one", "version": "1", "type": "t", "relation": "local", "access": {"type": "none"}, "srcRefs": [],
                 "digest": {"hashAlgorithm": "SHA-256", "normalisationAlgorithm": "n", "value": "v"}, "unknown": 1},
                {"name": "twin", "version": "1", "type": "t", "relation": "local", "access": {"type": "x"}, "labels": [labels[1]]},
                {"name": "twin", "version": "2", "type": "t", "relation": "local", "access": {"type": "x"}},
            ],
        }, "signatures": [], "nestedDigests": []}));
        let text = |normalisation: Normalisation, descriptor: &Descriptor| {
            String::from_utf8(normalisation.apply(descriptor)).unwrap()
        };
        let label =
            r#"[[{"name":"a"},{"signing":true},{"value":[{"a":[true,null]},{"b":1}]},{"version":"v1"}]]"#;
        assert_eq!(
            text(Normalisation::V1, &v2),
            format!(
                r#"[{{"component":[{{"componentReferences":[[{{"componentName":"e.org/b"}},{{"extraIdentity":null}},{{"labels":{label}}},{{"name":"ref"}},{{"version":"1.0.0"}}]]}},{{"creationTime":"2026-01-01T00:00:00Z"}},{{"labels":{label}}},{{"name":"e.org/a"}},{{"provider":[{{"name":"p"}}]}},{{"resources":[[{{"extraIdentity":null}},{{"name":"one"}},{{"relation":"local"}},{{"type":"t"}},{{"version":"1"}}],[{{"extraIdentity":[{{"version":"1"}}]}},{{"name":"twin"}},{{"relation":"local"}},{{"type":"t"}},{{"version":"1"}}],[{{"extraIdentity":[{{"version":"2"}}]}},{{"name":"twin"}},{{"relation":"local"}},{{"type":"t"}},{{"version":"2"}}]]}},{{"version":"1.0.0"}}]}},{{"meta":[{{"schemaVersion":"v2"}}]}}]"#
            )
        );
        let v4: Value = serde_json::from_slice(&Normalisation::V4Alpha1.apply(&v2)).unwrap();
        let mut unmerged = labels.clone();
        unmerged[0].as_object_mut().unwrap().remove("merge");
        let reference = json!({
            "name": "ref", "componentName": "e.org/b", "version": "1.0.0", "labels": unmerged,
            "digest": {"hashAlgorithm": "", "normalisationAlgorithm": "", "value": ""},
        });
        assert_eq!(v4["component"]["componentReferences"], json!([reference]));
        assert_eq!(v4["component"]["resources"][1].get("extraIdentity"), None);
        let v3 = descriptor(v2.to_schema(SchemaVersion::V3));
        for normalisation in [Normalisation::V2, Normalisation::V3] {
            // The result is equal for both schema versions.
            assert_eq!(text(normalisation, &v2), text(normalisation, &v3));
            let value: Value = serde_json::from_slice(&normalisation.apply(&v2)).unwrap();
            let component = &value["component"];
            assert_eq!(component["provider"], json!({"name": "p"}));
            assert_eq!(component["componentReferences"][0]["labels"], labels);
            assert_eq!(component["sources"], json!([{"name": "src", "version": "1", "type": "git"}]));
            let twin = json!({"version": "1"});
            let expected = if normalisation == Normalisation::V2 { Some(&twin) } else { None };
            assert_eq!(component["resources"][1].get("extraIdentity"), expected);
            assert!(value.get("meta").is_none());
        }
        let own: Value = serde_json::from_str(&text(Normalisation::V1, &v3)).unwrap();
        assert_eq!(own[0], json!({"apiVersion": "ocm.software/v3alpha1"}));
        assert_eq!(
            own[3]["spec"][2],
            json!({"sources": [[{"name": "src"}, {"type": "git"}, {"version": "1"}]]})
        );
    }

    #[test]
    fn numbers_and_texts() {
        for (value, expected) in [
            (json!(1.0), "1"),
            (json!(1e21), "1e+21"),
            (json!(123_456_789), "123456789"),
            (json!(1e-7), "1e-7"),
            (json!(0.000_001), "0.000001"),
            (json!(-0.0), "0"),
            (json!("<&>\u{2028}\n"), "\"<&>\\u2028\\n\""),
        ] {
            let mut text = String::new();
            write(&value, &mut text, true);
            assert_eq!(text, expected);
        }
        let mut text = String::new();
        write(&json!({"\u{e000}": 1, "\u{10000}": 2, "a\u{2028}": 3}), &mut text, false);
        assert_eq!(text, "{\"a\u{2028}\":3,\"\u{10000}\":2,\"\u{e000}\":1}");
    }
}
