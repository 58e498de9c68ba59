//! Rules for all contracts.

use std::collections::HashSet;

use groundwork_proto::component::v1::Json;
use groundwork_proto::{FILE_DESCRIPTOR_SET, packages, renderer, resolver};
use prost::Message;
use prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorProto, FileDescriptorSet};

// Field numbers in google/protobuf/descriptor.proto, which make up the paths of source locations.
const FILE_MESSAGE: i32 = 4;
const FILE_SERVICE: i32 = 6;
const MESSAGE_FIELD: i32 = 2;
const MESSAGE_NESTED: i32 = 3;
const MESSAGE_ENUM: i32 = 4;
const ENUM_VALUE: i32 = 2;
const SERVICE_METHOD: i32 = 2;

fn contracts() -> Vec<FileDescriptorProto> {
    let set = FileDescriptorSet::decode(FILE_DESCRIPTOR_SET).expect("the build has encoded it");
    let is_ours = |name: &str| name.starts_with("groundwork.") || name == "evaluator";
    set.file.into_iter().filter(|file| is_ours(file.package())).collect()
}

fn path(parent: &[i32], field: i32, index: usize) -> Vec<i32> {
    [parent, &[field, i32::try_from(index).expect("no message has so many fields")]].concat()
}

fn message(at: Vec<i32>, name: &str, message: &DescriptorProto, items: &mut Vec<(Vec<i32>, String)>) {
    let name = format!("{name}.{}", message.name());
    for (index, field) in message.field.iter().enumerate() {
        items.push((path(&at, MESSAGE_FIELD, index), format!("{name}.{}", field.name())));
    }
    for (index, nested) in message.nested_type.iter().enumerate() {
        // The compiler generates the entry type of a map. The comment is at the map's field.
        if nested.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry) {
            continue;
        }
        self::message(path(&at, MESSAGE_NESTED, index), &name, nested, items);
    }
    for (index, nested) in message.enum_type.iter().enumerate() {
        enumeration(path(&at, MESSAGE_ENUM, index), &name, nested, items);
    }
    items.push((at, name));
}

fn enumeration(
    at: Vec<i32>,
    name: &str,
    enumeration: &EnumDescriptorProto,
    items: &mut Vec<(Vec<i32>, String)>,
) {
    let name = format!("{name}.{}", enumeration.name());
    for (index, value) in enumeration.value.iter().enumerate() {
        items.push((path(&at, ENUM_VALUE, index), format!("{name}.{}", value.name())));
    }
    items.push((at, name));
}

/// Returns services, methods, messages, fields and enum values with the paths of their locations.
fn items(file: &FileDescriptorProto) -> Vec<(Vec<i32>, String)> {
    let mut items = Vec::new();
    for (index, definition) in file.message_type.iter().enumerate() {
        message(path(&[], FILE_MESSAGE, index), file.package(), definition, &mut items);
    }
    for (index, service) in file.service.iter().enumerate() {
        let (at, name) = (path(&[], FILE_SERVICE, index), format!("{}.{}", file.package(), service.name()));
        for (index, method) in service.method.iter().enumerate() {
            items.push((path(&at, SERVICE_METHOD, index), format!("{name}.{}", method.name())));
        }
        items.push((at, name));
    }
    items
}

#[test]
fn everything_is_documented() {
    let mut documented = 0;
    for file in contracts() {
        let locations = file.source_code_info.as_ref().unwrap().location.iter();
        let comments: HashSet<&[i32]> = locations
            .filter(|location| !location.leading_comments().trim().is_empty())
            .map(|location| &location.path[..])
            .collect();
        for (at, name) in items(&file) {
            assert!(comments.contains(&at[..]), "{name} of {} has no comment", file.name());
            documented += 1;
        }
    }
    assert!(documented > 100, "{documented}");
}

/// buf expects each file in the folder of its package.
#[test]
fn files_lie_where_their_package_says() {
    let mut services: Vec<String> = Vec::new();
    for file in contracts() {
        let (folder, _) = file.name().rsplit_once('/').unwrap();
        assert_eq!(folder.replace('/', "."), file.package());
        services.extend(file.service.iter().map(|service| format!("{}.{}", file.package(), service.name())));
    }
    services.sort();
    assert_eq!(
        services,
        [
            "evaluator.FunctionEvaluator",
            "groundwork.deployer.v1.Deployer",
            "groundwork.packages.v1.Packages",
            "groundwork.renderer.v1.Renderer",
            "groundwork.resolver.v1.Resolver",
            "groundwork.variant.v1.Variants",
            "groundwork.watcher.v1.Watcher"
        ]
    );
}

/// A message may contain values of Secrets, and `Debug` output gets into logs.
#[test]
fn debug_shows_no_values() {
    let overwrites = Some(Json { text: r#"{"password":"canary"}"#.into() });
    let input = resolver::v1::ExplainInput { reference: None, overwrites };
    let shown = format!("{input:?}");
    assert!(shown.contains("Json(21 bytes)") && !shown.contains("canary"), "{shown}");
    let file = packages::v1::File { path: "config.yaml".to_owned(), content: b"canary".to_vec() };
    let shown = format!("{file:?}");
    assert!(shown.contains("config.yaml") && shown.contains("6 bytes") && !shown.contains("99"), "{shown}");
    let values = || [("name".to_owned(), Json { text: r#""canary""#.into() })].into();
    let input = renderer::v1::RenderInput { given: values(), state: values(), ..Default::default() };
    let exports = renderer::v1::RenderExportsResponse { exports: values(), ..Default::default() };
    let shown = format!("{input:?} {exports:?}");
    assert!(shown.matches("Json(8 bytes)").count() == 3 && !shown.contains("canary"), "{shown}");
}
