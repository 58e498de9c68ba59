//! `search-replace` (`packagevariants.md` 8.5).

use groundwork_yaml::tree::{Content, Node, Pair};
use regex::{Captures, Regex};

use super::fields::{pairs, set_inferred};
use super::meter::Meter;
use super::type_of;
use crate::ignore::glob;
use crate::render::{ResourceList, joined};

const KEYS: [&str; 6] = ["by-value", "by-value-regex", "by-path", "by-file-path", "put-value", "put-comment"];

pub(super) fn run(list: &mut ResourceList) -> Result<(), String> {
    let failed = |cause: String| format!("failed to perform search-replace operation: {cause:?}");
    let search = Search::of(list.config.as_ref()).map_err(failed)?;
    let mut said = Vec::new();
    for item in &mut list.items {
        if !search
            .file
            .as_ref()
            .is_none_or(|pattern| fits_file(pattern, item.path.as_deref().unwrap_or_default()))
        {
            continue;
        }
        let mut found = Vec::new();
        if list.meter.passed().is_some() {
            break;
        }
        search.visit(&mut item.root, &mut Vec::new(), &mut found, &list.meter).map_err(failed)?;
        // A new field would make a Kptfile unreadable.
        if found.is_empty() && !item.is_kptfile() {
            found.extend(search.create(&mut item.root).map_err(failed)?);
        }
        said.extend(found.into_iter().map(|finding| (item.path.clone(), finding)));
    }
    for (file, Finding { field, message }) in said {
        list.info_at(file, field, message);
    }
    Ok(())
}

/// Message about a field.
struct Finding {
    field: String,
    message: String,
}

fn fits_file(pattern: &str, path: &str) -> bool {
    let characters = |text: &str| text.chars().collect::<Vec<char>>();
    glob(&characters(pattern), &characters(path), &mut 100_000)
}

#[derive(Default)]
struct Search {
    value: Option<String>,
    regex: Option<Regex>,
    path: Option<Vec<String>>,
    file: Option<String>,
    put_value: Option<String>,
    put_comment: Option<String>,
}

impl Search {
    fn of(config: Option<&Node>) -> Result<Self, String> {
        let given = match config.map(|config| (type_of(config), config)) {
            Some((("ConfigMap", "v1"), config)) => pairs(config.get("data")),
            _ => return Err("`functionConfig` must be a `ConfigMap`".to_owned()),
        };
        let mut search = Self::default();
        for (key, value) in given {
            match key.as_str() {
                "by-value" => search.value = Some(value),
                "by-value-regex" => {
                    let regex = Regex::new(&value);
                    search.regex = Some(regex.map_err(|_| {
                        format!("by-value-regex {value:?} is not a valid regular expression")
                    })?);
                }
                "by-path" => search.path = Some(split(&value)),
                "by-file-path" => search.file = Some(value),
                "put-value" => search.put_value = Some(value),
                "put-comment" => search.put_comment = Some(value),
                _ => {
                    let known = KEYS.map(|key| format!("{key:?}")).join(" ");
                    return Err(format!("invalid matcher {key:?}, must be one of [{known}]"));
                }
            }
        }
        if search.value.is_some() && search.regex.is_some() {
            return Err("only one of [\"by-value\", \"by-value-regex\"] can be provided".to_owned());
        }
        Ok(search)
    }

    fn visit(
        &self,
        node: &mut Node,
        path: &mut Vec<String>,
        said: &mut Vec<Finding>,
        meter: &Meter,
    ) -> Result<(), String> {
        match &mut node.content {
            Content::Scalar(_) => self.scalar(node, path, said, meter),
            Content::Sequence(list) => {
                for (index, item) in list.items.iter_mut().enumerate() {
                    path.push(format!("[{index}]"));
                    self.visit(item, path, said, meter)?;
                    path.pop();
                }
                Ok(())
            }
            Content::Mapping(mapping) => {
                for Pair { key, value } in &mut mapping.pairs {
                    path.push(key.text().unwrap_or_default().to_owned());
                    self.visit(value, path, said, meter)?;
                    path.pop();
                }
                Ok(())
            }
        }
    }

    fn scalar(
        &self,
        node: &mut Node,
        path: &[String],
        said: &mut Vec<Finding>,
        meter: &Meter,
    ) -> Result<(), String> {
        let fitting = self.path.as_ref().map_or(1, |pattern| pattern.len().saturating_mul(path.len()));
        // The worst case of a search is the product of both lengths; most searches take a small
        // part of it.
        let searching = self.regex.as_ref().map_or(0, |regex| {
            node.text().unwrap_or_default().len().saturating_mul(regex.as_str().len() / 16 + 1)
        });
        if !meter.parts(fitting.saturating_add(searching)) {
            return Ok(());
        }
        if self.path.as_ref().is_some_and(|pattern| !fits(pattern, path)) {
            return Ok(());
        }
        let text = if node.is_null() { String::new() } else { node.text().unwrap_or_default().to_owned() };
        let groups = match (&self.value, &self.regex) {
            (Some(value), _) if *value != text => return Ok(()),
            (_, Some(regex)) => match regex.captures(&text) {
                Some(groups) => Some(groups),
                None => return Ok(()),
            },
            (None, None) if self.path.is_none() => return Ok(()),
            _ => None,
        };
        let put = [&self.put_value, &self.put_comment].into_iter().flatten().map(String::len).sum::<usize>();
        // Each named group may copy the whole text, and the message contains the result again.
        let groups_named = put / 4 + 1;
        let longest = put.saturating_add(if groups.is_some() {
            text.len().saturating_mul(groups_named)
        } else {
            text.len()
        });
        if !meter.bytes(longest.saturating_mul(2)) {
            return Ok(());
        }
        if let Some(comment) = &self.put_comment {
            let comment = resolve(comment, groups.as_ref())?;
            node.comments.line =
                if comment.is_empty() || comment.starts_with('#') { comment } else { format!("# {comment}") };
        }
        let message = match &self.put_value {
            Some(value) => {
                let value = resolve(value, groups.as_ref())?;
                set_inferred(node, &value);
                format!("Mutated field value to \"{value}\"")
            }
            None if self.put_comment.is_some() => format!("Mutated field value to \"{text}\""),
            None => format!("Matched field value \"{text}\""),
        };
        said.push(Finding { field: joined(path), message });
        Ok(())
    }

    /// Creates the field at the path, if the path names exactly one.
    ///
    /// # Errors
    /// The field is a list or a map.
    fn create(&self, root: &mut Node) -> Result<Option<Finding>, String> {
        let (Some(path), Some(value)) = (&self.path, &self.put_value) else { return Ok(None) };
        let is_exact = path.iter().all(|part| !part.contains(['*', '[']));
        if self.value.is_some() || self.regex.is_some() || !is_exact {
            return Ok(None);
        }
        let Some((last, parents)) = path.split_last() else { return Ok(None) };
        let mut node = root;
        for part in parents {
            let Some(mapping) = node.as_mapping_mut() else { return Ok(None) };
            if mapping.get(part).is_none_or(Node::is_null) {
                mapping.set(part, Node::mapping(Vec::new()));
            }
            let Some(next) = mapping.get_mut(part) else { return Ok(None) };
            node = next;
        }
        let Some(mapping) = node.as_mapping_mut() else { return Ok(None) };
        // A scalar there would have matched the path before.
        if mapping.get(last).is_some() {
            return Err(format!("the field {} is a list or a map: put-value sets scalars", path.join(".")));
        }
        let mut new = Node::plain("");
        set_inferred(&mut new, value);
        if value.is_empty() {
            new = Node::string("");
        }
        mapping.pairs.push(Pair::new(last, new));
        let message = format!("Mutated field value to \"{value}\"");
        Ok(Some(Finding { field: joined(path), message }))
    }
}

/// Replaces `${1}`, `${2}` and so on with the groups.
fn resolve(text: &str, groups: Option<&Captures<'_>>) -> Result<String, String> {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, after)) = rest.split_once("${") {
        out.push_str(before);
        let number =
            after.split_once('}').and_then(|(name, behind)| Some((name.parse::<usize>().ok()?, behind)));
        let Some((number, behind)) = number else {
            out.push_str("${");
            rest = after;
            continue;
        };
        let Some(groups) = groups else {
            // Without a regular expression there are no groups, so the text stays.
            out.push_str(&format!("${{{number}}}"));
            rest = behind;
            continue;
        };
        let group = groups.get(number).ok_or("unable to resolve capture groups")?;
        out.push_str(group.as_str());
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// Splits a path into names, and `[0]` or `[*]` for items.
fn split(path: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = path.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if chars.peek() == Some(&'.') => {
                if let (Some(last), Some(c)) = (parts.last_mut(), chars.next()) {
                    last.push(c);
                }
            }
            '.' => parts.push(String::new()),
            '[' => parts.push("[".to_owned()),
            _ => {
                if let Some(last) = parts.last_mut() {
                    last.push(c);
                }
            }
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Reports whether a path matches a pattern.
fn fits(pattern: &[String], path: &[String]) -> bool {
    // State: the positions in the pattern that the parts of the path so far may have reached.
    let after_stars = |mut at: Vec<bool>| {
        for index in 0..pattern.len() {
            if at[index] && pattern[index] == "**" {
                at[index + 1] = true;
            }
        }
        at
    };
    let mut begun = vec![false; pattern.len() + 1];
    begun[0] = true;
    let mut states = after_stars(begun);
    for part in path {
        let is_item = part.starts_with('[');
        let mut next = vec![false; pattern.len() + 1];
        for (index, wanted) in pattern.iter().enumerate() {
            if !states[index] {
                continue;
            }
            match wanted.as_str() {
                "**" => next[index] = true,
                "*" => next[index + 1] |= !is_item,
                "[*]" => next[index + 1] |= is_item,
                wanted => next[index + 1] |= wanted == part,
            }
        }
        states = after_stars(next);
    }
    states.last() == Some(&true)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, config, said};

    const TEXT: &str = "kind: A\nspec:\n  a: one # c\n  n: 3\n  l:\n  - a: two\n  - a: three\n";

    fn check_search(search: &[(&str, &str)], from: &[&str], to: &[&str]) {
        let expected = from.iter().zip(to).fold(TEXT.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        check("search-replace", &config(search), TEXT, &expected);
    }

    /// Matchers and replaced values (`packagevariants.md` 8.5).
    #[test]
    fn fields() {
        check_search(&[("by-value", "one"), ("put-value", "x")], &["a: one"], &["a: x"]);
        check_search(&[("by-value", "3"), ("put-value", "4")], &["n: 3"], &["n: 4"]);
        check_search(
            &[("by-value-regex", "t(h?)"), ("put-value", "x${1}")],
            &["a: two", "a: three"],
            &["a: x", "a: xh"],
        );
        check_search(
            &[("by-path", "spec.l[*].a"), ("put-value", "x")],
            &["a: two", "a: three"],
            &["a: x", "a: x"],
        );
        check_search(&[("by-path", "spec.l[1].a"), ("put-value", "x")], &["a: three"], &["a: x"]);
        check_search(
            &[("by-path", "**.a"), ("put-value", "x")],
            &["a: one", "a: two", "a: three"],
            &["a: x", "a: x", "a: x"],
        );
        check_search(&[("by-path", "spec.*"), ("put-value", "x")], &["a: one", "n: 3"], &["a: x", "n: x"]);
        check_search(
            &[("by-path", "spec.**"), ("by-value", "two"), ("put-value", "x")],
            &["a: two"],
            &["a: x"],
        );
        check_search(
            &[("by-path", "metadata.name"), ("put-value", "x")],
            &["three\n"],
            &["three\nmetadata:\n  name: x\n"],
        );
        check_search(&[("by-path", "metadata.name"), ("by-value", "y"), ("put-value", "x")], &[], &[]);
        check_search(&[("by-path", "spec.x[*]"), ("put-value", "x")], &[], &[]);
        check_search(&[("by-value", "two"), ("by-file-path", "b*.yaml"), ("put-value", "x")], &[], &[]);
        check_search(
            &[("by-value", "two"), ("by-file-path", "a*.yaml"), ("put-value", "x")],
            &["two"],
            &["x"],
        );
        check_search(
            &[("by-value-regex", "^(o)ne"), ("put-comment", "kpt-set: ${1}${x}")],
            &["# c"],
            &["# kpt-set: o${x}"],
        );
    }

    /// The message texts of `packagevariants.md` 8.5.
    #[test]
    fn results() {
        let search = |pairs: &[(&str, &str)]| said("search-replace", &config(pairs), TEXT);
        assert_eq!(search(&[("by-value", "one")]), ["info Matched field value \"one\""]);
        assert_eq!(search(&[("by-value", "one"), ("put-value", "x")]), ["info Mutated field value to \"x\""]);
        for (pairs, expected) in [
            (
                &[("by-name", "x")][..],
                "invalid matcher \"by-name\", must be one of [\"by-value\" \"by-value-regex\" \"by-path\" \"by-file-path\" \"put-value\" \
                 \"put-comment\"]",
            ),
            (
                &[("by-value", "x"), ("by-value-regex", "x")],
                "only one of [\"by-value\", \"by-value-regex\"] can be provided",
            ),
            (&[("by-value-regex", "one"), ("put-value", "${1}")], "unable to resolve capture groups"),
            (&[("by-value-regex", "(")], "by-value-regex \"(\" is not a valid regular expression"),
        ] {
            let expected = format!("failed to perform search-replace operation: {expected:?}");
            check_error("search-replace", &config(pairs), TEXT, &expected);
        }
    }

    /// A new field would make the Kptfile unreadable, and a list is not replaced with a text.
    #[test]
    fn fields_are_not_created_by_accident() {
        use crate::{Package, RenderOptions, render};
        let kptfile = "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: search-replace\n    \
                       configMap:\n      by-path: spec.replicas\n      put-value: \"3\"\n";
        let object = |spec: &str| {
            let text =
                format!("apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: a\nspec:\n  {spec}\n");
            [("Kptfile", kptfile.to_owned()), ("a.yaml", text)]
                .map(|(path, text)| (path.to_owned(), text))
                .into_iter()
                .collect::<Package>()
        };
        let rendered = render(&object("paused: true"), &RenderOptions::default());
        assert_eq!(rendered.error, None);
        assert_eq!(rendered.files["a.yaml"], object("paused: true\n  replicas: 3")["a.yaml"]);
        let head = rendered.files["Kptfile"].split("status:").next().unwrap();
        assert_eq!(head, kptfile);
        let again = render(&rendered.files, &RenderOptions::default());
        assert_eq!((again.error, &again.files["a.yaml"]), (None, &rendered.files["a.yaml"]));
        let refused = render(&object("replicas: [1]"), &RenderOptions::default());
        assert_eq!(
            refused.error.unwrap(),
            "package \".\": function \"search-replace\": failed to perform search-replace operation: \"the field spec.replicas is a \
             list or a map: put-value sets scalars\""
        );
    }
}
