//! Recovery of comments that programs without access to comments have dropped (`packagevariants.md`
//! 8.1, 8.2).

use std::collections::HashMap;

use groundwork_yaml::tree::{Comments, Content, Node};

use crate::file::File;
use crate::package::{Package, is_of_git, is_yaml};

/// Copies comments from objects of the old package to the same objects in the same files of the new
/// one.
///
/// Objects are the same if apiVersion, kind, namespace and name are equal. Present comments stay.
/// Files in which comments are code (`#@`, `#!`) are left alone, and so are files that cannot be
/// parsed.
pub fn copy_comments(old: &Package, new: &mut Package) {
    for (path, text) in new.iter_mut().filter(|(path, _)| is_yaml(path) && !is_of_git(path)) {
        let Some(before) = old.get(path).filter(|before| *before != text) else { continue };
        if [before, &*text].iter().any(|text| text.contains("#@") || text.contains("#!")) {
            continue;
        }
        let (Ok(before), Ok(mut file)) = (File::read(before), File::read(text)) else { continue };
        let known: HashMap<[&str; 4], &Node> =
            before.documents.iter().map(|document| (key(&document.root), &document.root)).collect();
        for document in &mut file.documents {
            if let Some(before) = known.get(&key(&document.root)) {
                let mut root = document.root.clone();
                add(before, &mut root);
                document.root = root;
            }
        }
        if file.is_changed() {
            *text = file.text();
        }
    }
}

fn key(root: &Node) -> [&str; 4] {
    [&["apiVersion"][..], &["kind"], &["metadata", "namespace"], &["metadata", "name"]]
        .map(|path| root.at(path).and_then(Node::text).unwrap_or_default())
}

/// Reports whether any part of a value has a comment.
pub(crate) fn has_comments(node: &Node) -> bool {
    node.comments != Comments::default()
        || match &node.content {
            Content::Scalar(_) => false,
            Content::Sequence(list) => list.items.iter().any(has_comments),
            Content::Mapping(mapping) => {
                mapping.pairs.iter().any(|pair| has_comments(&pair.key) || has_comments(&pair.value))
            }
        }
}

/// Copies the comments of another value, and the order of the keys that both have.
pub(crate) fn copy(old: &Node, new: &mut Node) {
    order(old, new);
    add(old, new);
}

/// Sorts the keys that both maps have in the old order; the other keys stay at their positions.
fn order(old: &Node, new: &mut Node) {
    match (&old.content, &mut new.content) {
        (Content::Mapping(old), Content::Mapping(new)) => {
            let places: HashMap<&str, usize> =
                old.pairs.iter().enumerate().map(|(at, pair)| (pair.name(), at)).collect();
            let place = |name: &str| places.get(name).copied();
            let mut shared: Vec<usize> = new.pairs.iter().filter_map(|pair| place(pair.name())).collect();
            shared.sort_unstable();
            let mut taken: HashMap<usize, _> = HashMap::new();
            let mut slots = Vec::with_capacity(new.pairs.len());
            for pair in std::mem::take(&mut new.pairs) {
                match place(pair.name()) {
                    Some(at) => {
                        taken.insert(at, pair);
                        slots.push(None);
                    }
                    None => slots.push(Some(pair)),
                }
            }
            let mut sorted = shared.into_iter();
            new.pairs
                .extend(slots.into_iter().filter_map(|slot| slot.or_else(|| taken.remove(&sorted.next()?))));
            for pair in &mut new.pairs {
                if let Some(before) = old.get(pair.key.text().unwrap_or_default()) {
                    order(before, &mut pair.value);
                }
            }
        }
        (Content::Sequence(old), Content::Sequence(new)) => {
            old.items.iter().zip(&mut new.items).for_each(|(old, new)| order(old, new));
        }
        _ => {}
    }
}

/// Adds comments to nodes without any. List items correspond by position, unless the lists differ
/// in length.
fn add(old: &Node, new: &mut Node) {
    add_own(&old.comments, &mut new.comments);
    match (&old.content, &mut new.content) {
        (Content::Mapping(old), Content::Mapping(new)) => {
            for pair in &mut new.pairs {
                if let Some(before) = old.pair(pair.key.text().unwrap_or_default()) {
                    add_own(&before.key.comments, &mut pair.key.comments);
                    add(&before.value, &mut pair.value);
                }
            }
        }
        (Content::Sequence(old), Content::Sequence(new)) if old.items.len() == new.items.len() => {
            old.items.iter().zip(&mut new.items).for_each(|(old, new)| add(old, new));
        }
        _ => {}
    }
}

fn add_own(old: &Comments, new: &mut Comments) {
    for (old, new) in [(&old.head, &mut new.head), (&old.line, &mut new.line), (&old.foot, &mut new.foot)] {
        if new.is_empty() {
            new.clone_from(old);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(old: &str, new: &str, expected: &str) {
        let package = |text: &str| -> Package { [("a.yaml".to_owned(), text.to_owned())].into() };
        let mut found = package(new);
        copy_comments(&package(old), &mut found);
        assert_eq!(found["a.yaml"], expected);
        copy_comments(&package(old), &mut found);
        assert_eq!(found["a.yaml"], expected);
    }

    /// Comments of the same object return, in the order of the new text (`packagevariants.md` 8.1).
    #[test]
    fn comments_come_back() {
        let old = "kind: A\nmetadata: {name: a}\nspec: # s\n  b: 1 # b\n  # c\n  c: [x] # l\n";
        check(
            old,
            "kind: A\nmetadata: {name: a}\nspec:\n  c: [y]\n  b: 2\n  d: 1\n",
            "kind: A\nmetadata: {name: a}\nspec: # s\n  # c\n  c: [y] # l\n  b: 2 # b\n  d: 1\n",
        );
        let mine = "kind: A\nmetadata: {name: a}\nspec:\n  b: 1 # mine\n";
        check(old, mine, &mine.replace("spec:\n", "spec: # s\n"));
        for new in [
            "kind: A\nmetadata: {name: b}\nspec:\n  b: 1\n",
            "kind: A\nmetadata: {name: a}\nspec:\n  b: 1 #@ x\n",
            "a: [\n",
        ] {
            check(old, new, new);
        }
    }
}
