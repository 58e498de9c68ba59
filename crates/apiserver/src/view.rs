//! Forms of an answer: objects, tables for people, and metadata alone.

use http::{HeaderMap, header};
use serde_json::{Value, json};

use crate::refusal::Refusal;
use crate::storage::{Group, Kind};

/// Form that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    Object,
    Table(Included),
    Metadata,
}

/// Part of each object beside its row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Included {
    None,
    Metadata,
    Object,
}

impl View {
    /// Returns the first form of the `Accept` header that is served.
    pub(crate) fn of(headers: &HeaderMap, include: Option<&str>) -> Result<Self, Refusal> {
        let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or("*/*");
        accept
            .split(',')
            .find_map(|range| Self::of_range(range.trim(), include))
            .ok_or_else(Refusal::not_acceptable)
    }

    fn of_range(range: &str, include: Option<&str>) -> Option<Self> {
        let mut parts = range.split(';').map(str::trim);
        let type_ = parts.next().unwrap_or_default();
        if !matches!(type_, "" | "*/*" | "application/*" | "application/json") {
            return None;
        }
        match parts.find_map(|part| part.strip_prefix("as=")) {
            None => Some(Self::Object),
            Some("Table") => Some(Self::Table(match include {
                Some("None") => Included::None,
                Some("Object") => Included::Object,
                _ => Included::Metadata,
            })),
            Some("PartialObjectMetadata" | "PartialObjectMetadataList") => Some(Self::Metadata),
            Some(_) => None,
        }
    }

    /// Returns one object in this form.
    pub(crate) fn object(self, object: Value, kind: &Kind) -> Value {
        match self {
            Self::Object => object,
            Self::Metadata => metadata(&object),
            Self::Table(included) => {
                let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
                table(&[row(object, kind, included)], kind, &version, true)
            }
        }
    }

    /// Returns the object of a change in this form. Only the first table of a watch has headings.
    pub(crate) fn of_change(self, object: Value, kind: &Kind, is_first: bool) -> Value {
        match self {
            Self::Table(included) => {
                let version = object.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
                table(&[row(object, kind, included)], kind, &version, is_first)
            }
            other => other.object(object, kind),
        }
    }

    /// Returns a list in this form, as JSON. `items` are whole objects as JSON.
    pub(crate) fn list<'a>(
        self,
        items: impl Iterator<Item = &'a [u8]>,
        kind: &Kind,
        group: Group,
        version: u64,
    ) -> Result<Vec<u8>, serde_json::Error> {
        let version = json!(version.to_string());
        match self {
            // Whole objects are copied and not parsed, which is what makes long lists fast.
            Self::Object => {
                let mut text = format!(
                    r#"{{"kind":"{}List","apiVersion":"{}/{}","metadata":{{"resourceVersion":{version}}},"items":["#,
                    kind.kind, group.name, group.version
                )
                .into_bytes();
                for (at, item) in items.enumerate() {
                    if at > 0 {
                        text.push(b',');
                    }
                    text.extend_from_slice(item);
                }
                text.extend_from_slice(b"]}");
                Ok(text)
            }
            Self::Metadata => {
                let items = items.map(|item| Ok(metadata(&serde_json::from_slice(item)?)));
                let items: Vec<Value> = items.collect::<Result<_, serde_json::Error>>()?;
                serde_json::to_vec(&json!({
                    "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1",
                    "metadata": {"resourceVersion": version}, "items": items,
                }))
            }
            Self::Table(included) => {
                let rows = items.map(|item| Ok(row(serde_json::from_slice(item)?, kind, included)));
                let rows: Vec<Value> = rows.collect::<Result<_, serde_json::Error>>()?;
                serde_json::to_vec(&table(&rows, kind, &version, true))
            }
        }
    }
}

fn metadata(object: &Value) -> Value {
    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]})
}

fn row(object: Value, kind: &Kind, included: Included) -> Value {
    let cells: Vec<Value> = kind.columns.iter().map(|column| (column.cell)(&object)).collect();
    let object = match included {
        Included::None => return json!({"cells": cells}),
        Included::Metadata => metadata(&object),
        Included::Object => object,
    };
    json!({"cells": cells, "object": object})
}

fn table(rows: &[Value], kind: &Kind, version: &Value, has_headings: bool) -> Value {
    let headings = kind.columns.iter().map(|column| {
        let format = if column.name == "Name" { "name" } else { "" };
        json!({"name": column.name, "type": column.type_, "format": format, "description": "", "priority": 0})
    });
    let headings: Vec<Value> = if has_headings { headings.collect() } else { Vec::new() };
    json!({
        "kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": {"resourceVersion": version},
        "columnDefinitions": headings, "rows": rows,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Column;

    const KIND: Kind = Kind {
        kind: "Thing",
        plural: "things",
        singular: "thing",
        short_names: &[],
        categories: &[],
        verbs: &[],
        subresources: &[],
        fields: &["spec.size", "spec.labels["],
        columns: &[
            Column { name: "Name", type_: "string", cell: |object| object["metadata"]["name"].clone() },
            Column { name: "Size", type_: "integer", cell: |object| object["spec"]["size"].clone() },
        ],
    };
    const GROUP: Group = Group { name: "example.org", version: "v1" };

    fn view(accept: &str) -> Result<View, u16> {
        let headers = HeaderMap::from_iter([(header::ACCEPT, accept.parse().unwrap())]);
        View::of(&headers, None).map_err(|refusal| refusal.code)
    }

    #[test]
    fn forms() {
        let table = View::Table(Included::Metadata);
        for (accept, expected) in [
            ("application/json", Ok(View::Object)),
            ("*/*", Ok(View::Object)),
            ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Ok(table)),
            (
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;\
                 as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                Ok(View::Metadata),
            ),
            ("application/json;as=Other, application/json", Ok(View::Object)),
            ("application/yaml", Err(406)),
            ("application/vnd.kubernetes.protobuf", Err(406)),
        ] {
            assert_eq!(view(accept), expected, "{accept}");
        }
    }

    #[test]
    fn lists() {
        let object = json!({"metadata": {"name": "a", "resourceVersion": "3"}, "spec": {"size": 7}});
        let text = object.to_string();
        let list = |view: View| -> Value {
            let items = [text.as_bytes(), text.as_bytes()];
            serde_json::from_slice(&view.list(items.into_iter(), &KIND, GROUP, 9).unwrap()).unwrap()
        };
        assert_eq!(
            list(View::Object),
            json!({"kind": "ThingList", "apiVersion": "example.org/v1", "metadata": {"resourceVersion": "9"}, "items": [object, object]})
        );
        assert_eq!(list(View::Metadata)["items"][1]["metadata"]["name"], "a");
        let table = list(View::Table(Included::None));
        assert_eq!(table["rows"][0], json!({"cells": ["a", 7]}));
        assert_eq!(table["columnDefinitions"][1]["name"], "Size");
        let changed = View::Table(Included::Object).of_change(object.clone(), &KIND, false);
        assert_eq!(changed["columnDefinitions"], json!([]));
        assert_eq!(changed["rows"][0]["object"], object);
    }

    #[test]
    fn fields() {
        for (path, expected) in [
            ("metadata.name", true),
            ("spec.size", true),
            ("spec.labels[a/b]", true),
            ("spec.labels[]", false),
            ("spec.labels", false),
            ("spec.other", false),
        ] {
            assert_eq!(KIND.has_field(path), expected, "{path}");
        }
    }
}
