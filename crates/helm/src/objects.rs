//! Objects that templates of a chart see (`helm.md` 6.1 to 6.4): native values with the names,
//! fields and methods of Helm's.

use std::any::Any;
use std::rc::Rc;

use groundwork_gotemplate::{
    CallError, Context, Element, List, Map, Member, NamedType, NumberMode, Object, Signature, Type, Value,
};
use groundwork_yaml as yaml;

use crate::capabilities::{Capabilities, GO_VERSION, HELM_VERSION, KubeVersion};
use crate::metadata::{Dependency, Maintainer, Metadata};
use crate::values::Table;

pub(crate) mod files;

/// Go's type of the values: a map with methods.
pub(crate) static VALUES: NamedType =
    NamedType { name: "chartutil.Values", method: values_method, call: values_call };
static VERSION_SET: NamedType =
    NamedType { name: "chartutil.VersionSet", method: version_set_method, call: version_set_call };

/// Converts values of files and users. Integers there become `int64` (`helm.md` 4).
pub(crate) fn from_table(table: &Table) -> Map {
    table
        .iter()
        .map(|(key, value)| (key.as_str().into(), Value::from_json(value, NumberMode::Int64)))
        .collect()
}

fn values_method(name: &str) -> Option<Signature> {
    match name {
        "AsMap" | "YAML" => Some(Signature::fixed(&[])),
        "Table" | "PathValue" => Some(Signature::fixed(&[Type::String])),
        "Encode" => Some(Signature::fixed(&[Type::Object("io.Writer")])),
        _ => None,
    }
}

fn values_call(
    context: &mut Context<'_>,
    receiver: &Value,
    method: &str,
    arguments: &[Value],
) -> Result<Value, CallError> {
    let Value::Map(map) = receiver else { return Err("no values".into()) };
    let name = || arguments[0].as_str().map(|text| text.to_text().into_owned()).unwrap_or_default();
    match method {
        "AsMap" if map.is_empty() => Ok(Value::Map(Map::default())),
        "AsMap" => Ok(Value::Map(map.plain())),
        "YAML" => {
            let text = to_yaml(context, receiver)?.unwrap_or_default();
            Ok(Value::from(text))
        }
        "Table" => table(map, &name()).map(|table| Value::Map(table.named(&VALUES))),
        "PathValue" => path_value(map, &name()),
        _ => Err("this method is not available in templates".into()),
    }
}

fn table(map: &Map, name: &str) -> Result<Map, CallError> {
    let mut found = map.plain();
    for part in name.split('.') {
        match found.get(part.as_bytes()) {
            Some(Value::Map(inner)) => found = inner.plain(),
            _ => return Err(format!("{part:?} is not a table").into()),
        }
    }
    Ok(found)
}

fn path_value(map: &Map, name: &str) -> Result<Value, CallError> {
    if name.is_empty() {
        return Err("YAML path cannot be empty".into());
    }
    let (holder, key) = match name.rsplit_once('.') {
        Some((parent, key)) => (table(map, parent).ok(), key),
        None => (Some(map.plain()), name),
    };
    match holder.and_then(|holder| holder.get(key.as_bytes())) {
        Some(value) if !matches!(value, Value::Map(_)) => Ok(value),
        _ => Err(format!("{key:?} is not a value").into()),
    }
}

/// Writes a value as YAML as the Go tools do, with the final line break; `None` if it has no YAML.
pub(crate) fn to_yaml(context: &mut Context<'_>, value: &Value) -> Result<Option<String>, CallError> {
    let text = context.to_json(value)?.and_then(|json| yaml::to_string_through_json(&json));
    let length = text.as_ref().map_or(0, String::len);
    context.spend(length)?;
    context.check_text(length)?;
    Ok(text)
}

fn version_set_method(name: &str) -> Option<Signature> {
    (name == "Has").then(|| Signature::fixed(&[Type::String]))
}

fn version_set_call(
    _: &mut Context<'_>,
    receiver: &Value,
    _: &str,
    arguments: &[Value],
) -> Result<Value, CallError> {
    let Value::List(list) = receiver else { return Err("no versions".into()) };
    let wanted = arguments[0].as_str();
    Ok(Value::Bool(list.items().iter().any(|version| version.as_str() == wanted)))
}

fn texts(texts: Option<&Vec<String>>) -> Value {
    match texts {
        None => Value::List(List::nil(Element::String)),
        Some(texts) => Value::List(List::strings(texts.iter().map(|text| text.as_str().into()))),
    }
}

fn objects<T>(type_name: &'static str, items: Option<&Vec<Option<T>>>, make: impl Fn(&T) -> Record) -> Value {
    let element = Element::Object(type_name);
    let Some(items) = items else { return Value::List(List::nil(element)) };
    let item = |item: &Option<T>| match item {
        Some(item) => Value::Object(Rc::new(make(item))),
        None => Value::Nil,
    };
    Value::List(List::typed(element, items.iter().map(item).collect()))
}

/// A Go struct without methods: its fields in order, with their names in files.
#[derive(Debug)]
pub(crate) struct Record {
    type_name: &'static str,
    fields: Vec<Field>,
    /// The embedded struct, whose fields are also fields of this one.
    embedded: Option<&'static str>,
    /// Text that is printed instead of the fields if the value is part of its owner.
    text_in_place: Option<String>,
    methods: &'static [&'static str],
}

#[derive(Debug, Clone)]
struct Field {
    name: &'static str,
    /// Name in JSON and YAML, and whether an empty field is left out there.
    key: &'static str,
    keeps_empty: bool,
    value: Value,
}

impl Field {
    fn new(name: &'static str, key: &'static str, value: Value) -> Field {
        Field { name, key, keeps_empty: false, value }
    }

    fn kept(name: &'static str, key: &'static str, value: Value) -> Field {
        Field { name, key, keeps_empty: true, value }
    }
}

impl Record {
    fn new(type_name: &'static str, fields: Vec<Field>) -> Record {
        Record { type_name, fields, embedded: None, text_in_place: None, methods: &[] }
    }

    fn metadata(metadata: &Metadata) -> Vec<Field> {
        let text = |text: &str| Value::from(text);
        let annotations = match &metadata.annotations {
            None => Map::nil_of_strings(),
            Some(annotations) => {
                let map = Map::of_strings();
                for (key, value) in annotations {
                    map.insert(key.as_str().into(), Value::from(value.as_str()));
                }
                map
            }
        };
        vec![
            Field::new("Name", "name", text(&metadata.name)),
            Field::new("Home", "home", text(&metadata.home)),
            Field::new("Sources", "sources", texts(metadata.sources.as_ref())),
            Field::new("Version", "version", text(&metadata.version)),
            Field::new("Description", "description", text(&metadata.description)),
            Field::new("Keywords", "keywords", texts(metadata.keywords.as_ref())),
            Field::new(
                "Maintainers",
                "maintainers",
                objects("[]*chart.Maintainer", metadata.maintainers.as_ref(), Record::maintainer),
            ),
            Field::new("Icon", "icon", text(&metadata.icon)),
            Field::new("APIVersion", "apiVersion", text(&metadata.api_version)),
            Field::new("Condition", "condition", text(&metadata.condition)),
            Field::new("Tags", "tags", text(&metadata.tags)),
            Field::new("AppVersion", "appVersion", text(&metadata.app_version)),
            Field::new("Deprecated", "deprecated", Value::Bool(metadata.deprecated)),
            Field::new("Annotations", "annotations", Value::Map(annotations)),
            Field::new("KubeVersion", "kubeVersion", text(&metadata.kube_version)),
            Field::new(
                "Dependencies",
                "dependencies",
                objects("[]*chart.Dependency", metadata.dependencies.as_ref(), Record::dependency),
            ),
            Field::new("Type", "type", text(&metadata.chart_type)),
        ]
    }

    fn maintainer(maintainer: &Maintainer) -> Record {
        let Maintainer { name, email, url } = maintainer;
        let fields = [("Name", "name", name), ("Email", "email", email), ("URL", "url", url)];
        let fields = fields.map(|(name, key, text)| Field::new(name, key, Value::from(text.as_str())));
        Record::new("*chart.Maintainer", fields.into())
    }

    fn dependency(dependency: &Dependency) -> Record {
        let text = |text: &str| Value::from(text);
        let imports = match &dependency.import_values {
            None => Value::List(List::nil(Element::Any)),
            Some(pairs) => Value::list(pairs.iter().map(|pair| {
                let map = Map::of_strings();
                for (key, value) in pair.as_object().into_iter().flatten() {
                    map.insert(key.as_str().into(), Value::from(value.as_str().unwrap_or_default()));
                }
                Value::Map(map)
            })),
        };
        Record::new(
            "*chart.Dependency",
            vec![
                Field::kept("Name", "name", text(&dependency.name)),
                Field::new("Version", "version", text(&dependency.version)),
                Field::kept("Repository", "repository", text(&dependency.repository)),
                Field::new("Condition", "condition", text(&dependency.condition)),
                Field::new("Tags", "tags", texts(dependency.tags.as_ref())),
                Field::new("Enabled", "enabled", Value::Bool(dependency.enabled)),
                Field::new("ImportValues", "import-values", imports),
                Field::new("Alias", "alias", text(&dependency.alias)),
            ],
        )
    }

    fn kube_version(version: &KubeVersion, in_place: bool) -> Record {
        let KubeVersion { version, major, minor } = version;
        let fields = [("Version", version), ("Major", major), ("Minor", minor)];
        let fields = fields.map(|(name, text)| Field::kept(name, name, Value::from(text.as_str())));
        Record {
            text_in_place: in_place.then(|| version.clone()),
            // These are methods of the pointer in Go, so a copy of the value does not have them.
            methods: if in_place { &["String", "GitVersion"] } else { &[] },
            ..Record::new("chartutil.KubeVersion", fields.into())
        }
    }
}

/// Returns the object `Chart`.
pub(crate) fn chart(metadata: &Metadata, is_root: bool) -> Value {
    let mut fields = vec![Field::kept("Metadata", "", {
        let inner = Record::new("chart.Metadata", Record::metadata(metadata));
        Value::Object(Rc::new(inner))
    })];
    fields.push(Field::kept("IsRoot", "IsRoot", Value::Bool(is_root)));
    Value::Object(Rc::new(Record {
        embedded: Some("Metadata"),
        ..Record::new("struct { chart.Metadata; IsRoot bool }", fields)
    }))
}

/// Returns the object `Capabilities`.
pub(crate) fn capabilities(capabilities: &Capabilities) -> Value {
    let record = |record: Record| Value::Object(Rc::new(record));
    let versions = capabilities.api_versions.iter().map(|version| version.as_str().into());
    let build = [
        ("Version", "version", HELM_VERSION),
        ("GitCommit", "git_commit", ""),
        ("GitTreeState", "git_tree_state", ""),
        ("GoVersion", "go_version", GO_VERSION),
    ];
    let build = build.map(|(name, key, text)| Field::new(name, key, Value::from(text)));
    record(Record::new(
        "*chartutil.Capabilities",
        vec![
            Field::kept(
                "KubeVersion",
                "KubeVersion",
                record(Record::kube_version(&capabilities.kube_version, true)),
            ),
            Field::kept(
                "APIVersions",
                "APIVersions",
                Value::List(List::strings(versions).named(&VERSION_SET)),
            ),
            Field::kept("HelmVersion", "HelmVersion", record(Record::new("version.BuildInfo", build.into()))),
        ],
    ))
}

impl Object for Record {
    fn type_name(&self) -> &str {
        self.type_name
    }

    fn kind_name(&self) -> &str {
        if self.type_name.starts_with('*') { "ptr" } else { "struct" }
    }

    fn member(&self, name: &str) -> Option<Member> {
        if self.methods.contains(&name) {
            return Some(Member::getter());
        }
        if let Some(field) = self.fields.iter().find(|field| field.name == name) {
            return Some(Member::Field(field.value.clone()));
        }
        let embedded = self.fields.iter().find(|field| Some(field.name) == self.embedded)?;
        match &embedded.value {
            Value::Object(inner) => inner.member(name),
            _ => None,
        }
    }

    fn call(&self, _: &mut Context<'_>, _: &str, _: &[Value]) -> Result<Value, CallError> {
        Ok(Value::from(self.text_in_place.clone().unwrap_or_default()))
    }

    fn text(&self) -> String {
        // Go prints the fields of a pointer only at the top level; this text is for a pointer
        // inside another value.
        let text = |value: &Value| match value {
            Value::Str(text) => text.to_text().into_owned(),
            Value::Bool(flag) => flag.to_string(),
            Value::Object(object) => object.text(),
            _ => "[]".to_owned(),
        };
        let fields: Vec<String> = self.fields.iter().map(|field| text(&field.value)).collect();
        let mark = if self.kind_name() == "ptr" { "&" } else { "" };
        format!("{mark}{{{}}}", fields.join(" "))
    }

    fn text_in_place(&self) -> Option<String> {
        self.text_in_place.clone()
    }

    fn copied(&self) -> Option<Rc<dyn Object>> {
        self.text_in_place.as_ref()?;
        let Record { type_name, fields, embedded, .. } = self;
        let copy = Record::new(type_name, fields.clone());
        Some(Rc::new(Record { embedded: *embedded, ..copy }))
    }

    fn fields(&self) -> Vec<(&'static str, Value)> {
        self.fields.iter().map(|field| (field.name, field.value.clone())).collect()
    }

    fn prints_fields(&self) -> bool {
        true
    }

    fn json(&self) -> Value {
        Value::Map(self.entries().into_iter().map(|(key, value)| (key.into(), value)).collect())
    }

    fn json_fields(&self) -> Option<Vec<(&'static str, Value)>> {
        Some(self.entries())
    }

    fn equals(&self, other: &dyn Object) -> bool {
        let other = other.as_any().downcast_ref::<Record>();
        other.is_some_and(|other| std::ptr::eq(self, other) || self.text() == other.text())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Record {
    /// Returns the members in JSON: fields that are not empty, with those of an embedded struct
    /// among its own.
    fn entries(&self) -> Vec<(&'static str, Value)> {
        let mut entries = Vec::new();
        for field in &self.fields {
            match &field.value {
                Value::Object(inner) if Some(field.name) == self.embedded => {
                    entries.extend(inner.json_fields().unwrap_or_default());
                }
                value if field.keeps_empty || value.truth() => entries.push((field.key, value.clone())),
                _ => {}
            }
        }
        entries
    }
}

/// Returns the values of a subchart: the same map that its parent has under its name (`helm.md`
/// 6.1).
pub(crate) fn sub_values(parent: &Map, name: &str) -> Map {
    // Helm uses the chart's name as a path, so a dot in the name is a step.
    table(parent, name).unwrap_or_default()
}
