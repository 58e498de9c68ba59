//! Helpers that run functions over the documents of one text.

use groundwork_yaml::tree::Node;

use super::native;
use crate::file::File;
use crate::render::{Item, ResourceList};

/// Returns a config with these pairs.
pub(super) fn config(data: &[(&str, &str)]) -> String {
    let mut text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: function-input}\ndata:\n".to_owned();
    for (key, value) in data {
        text.push_str(&format!("  {key}: {value:?}\n"));
    }
    text
}

fn list(config: &str, text: &str) -> (File, ResourceList) {
    let file = File::read(text).unwrap();
    let item = |(id, root): (usize, &Node)| {
        let mut item = Item::new(root.clone(), Some("a.yaml".to_owned()));
        item.id = Some(id);
        item
    };
    let roots = file.documents.iter().map(|document| &document.root);
    let items = roots.enumerate().map(item).collect();
    let config = File::read(config).unwrap().documents.first().map(|document| document.root.clone());
    (file, ResourceList { items, config, ..ResourceList::default() })
}

pub(super) fn run(function: &str, config: &str, text: &str) -> Result<(String, ResourceList), String> {
    let (mut file, mut list) = list(config, text);
    native(function).unwrap()(&mut list)?;
    let mut written = String::new();
    if list.items.len() == file.documents.len() {
        for (document, item) in file.documents.iter_mut().zip(&list.items) {
            document.root = item.root.clone();
        }
        written = file.text();
    } else {
        let layout = groundwork_yaml::tree::Layout::default();
        for item in &list.items {
            let gap = if written.is_empty() { "" } else { "---\n" };
            written.push_str(gap);
            written.push_str(&groundwork_yaml::tree::write(&item.root, layout));
        }
    }
    Ok((written, list))
}

/// Runs a function twice and checks that the second run changes nothing.
pub(super) fn check(function: &str, config: &str, text: &str, expected: &str) {
    let (written, _) = run(function, config, text).unwrap();
    assert_eq!(written, expected, "{function} on {text}");
    let (again, _) = run(function, config, &written).unwrap();
    assert_eq!(again, expected, "{function} for the second time");
}

pub(super) fn check_error(function: &str, config: &str, text: &str, expected: &str) {
    assert_eq!(run(function, config, text).err().as_deref(), Some(expected));
}

/// Returns severity and message of each result.
pub(super) fn said(function: &str, config: &str, text: &str) -> Vec<String> {
    let (_, list) = run(function, config, text).unwrap();
    let said = list.results.iter().map(|result| {
        format!("{} {}", result.severity.as_deref().unwrap(), result.message.as_deref().unwrap())
    });
    said.collect()
}
