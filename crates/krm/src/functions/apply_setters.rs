//! `apply-setters` (`packagevariants.md` 8.5): values by comments `# kpt-set: <pattern>`.

use groundwork_yaml::tree::{Content, Node, Pair};
use regex::Regex;

use super::fields::{Strings, pairs, set_inferred};
use super::meter::Meter;
use super::type_of;
use crate::file::File;
use crate::render::{ResourceList, joined};

pub(super) fn run(list: &mut ResourceList) -> Result<(), String> {
    let setters = match list.config.as_ref().map(|config| (type_of(config), config)) {
        Some((("ConfigMap", "v1"), config)) => pairs(config.get("data")),
        _ => return Err("failed to apply setters: `functionConfig` must be a `ConfigMap`".to_owned()),
    };
    let setters = Setters { values: setters, meter: &list.meter };
    let mut all = Vec::new();
    for item in &mut list.items {
        let mut set = Vec::new();
        if list.meter.passed().is_some() {
            break;
        }
        setters
            .visit(&mut item.root, &mut Vec::new(), &mut set)
            .map_err(|cause| format!("failed to apply setters: {cause}"))?;
        all.extend(set.into_iter().map(|found| (item.path.clone(), found)));
    }
    if all.is_empty() {
        list.info("no matches for input setter(s)");
    }
    for (file, Set { field, value }) in all {
        list.info_at(file, field, format!("set field value to \"{value}\""));
    }
    Ok(())
}

/// Field that was set.
struct Set {
    field: String,
    value: String,
}

struct Setters<'a> {
    values: Strings,
    meter: &'a Meter,
}

/// Returns the pattern in a comment.
fn pattern(comment: &str) -> Option<&str> {
    let text = comment.trim_start_matches('#').trim_start().strip_prefix("kpt-set:")?.trim();
    (!text.is_empty()).then_some(text)
}

/// Splits a pattern into `${name}` references and the texts between them: every second part is a
/// name.
fn split(pattern: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = pattern;
    while let Some((before, after)) = rest.split_once("${") {
        let Some((name, behind)) = after.split_once('}') else { break };
        parts.extend([before, name]);
        rest = behind;
    }
    parts.push(rest);
    parts
}

impl Setters<'_> {
    fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Reports whether a pattern contains one of the setters.
    fn concern(&self, pattern: &str) -> bool {
        if !self.meter.parts(pattern.len().saturating_mul(self.values.len().max(1))) {
            return false;
        }
        split(pattern).iter().skip(1).step_by(2).any(|name| self.value(name).is_some())
    }

    fn visit(&self, node: &mut Node, path: &mut Vec<String>, set: &mut Vec<Set>) -> Result<(), String> {
        match &mut node.content {
            Content::Scalar(_) => {
                let comment = node.comments.line.clone();
                self.scalar(node, &comment, path, set)
            }
            Content::Sequence(list) => list.items.iter_mut().enumerate().try_for_each(|(index, item)| {
                path.push(format!("[{index}]"));
                self.visit(item, path, set)?;
                path.pop();
                Ok(())
            }),
            Content::Mapping(mapping) => mapping.pairs.iter_mut().try_for_each(|pair| {
                path.push(pair.key.text().unwrap_or_default().to_owned());
                self.pair(pair, path, set)?;
                path.pop();
                Ok(())
            }),
        }
    }

    fn pair(&self, pair: &mut Pair, path: &mut Vec<String>, set: &mut Vec<Set>) -> Result<(), String> {
        if pair.value.as_sequence().is_some() {
            self.list(pair, path, set)?;
        }
        // After a key without a value, the parser may attach the comment to the key.
        if pair.value.is_null() && pair.value.comments.line.is_empty() {
            let comment = pair.key.comments.line.clone();
            return self.scalar(&mut pair.value, &comment, path, set);
        }
        self.visit(&mut pair.value, path, set)
    }

    fn scalar(
        &self,
        node: &mut Node,
        comment: &str,
        path: &[String],
        set: &mut Vec<Set>,
    ) -> Result<(), String> {
        let Some(pattern) = pattern(comment).filter(|pattern| self.concern(pattern)) else { return Ok(()) };
        let parts = split(pattern);
        let longest: usize = parts.iter().map(|part| self.value(part).unwrap_or(part).len()).sum();
        // The text is written once into the object, and twice for the message.
        if !self.meter.bytes(longest.saturating_mul(3)) {
            return Ok(());
        }
        let present = if node.is_null() { "" } else { node.text().unwrap_or_default() };
        let derived = derive(&parts, present);
        let (mut text, mut open) = (String::new(), Vec::new());
        for (at, part) in parts.iter().enumerate() {
            if at % 2 == 0 {
                text.push_str(part);
                continue;
            }
            let known = derived.iter().find(|(name, _)| name == part).map(|(_, value)| value.as_str());
            match self.value(part).or(known) {
                Some(value) => text.push_str(value),
                None => open.push(format!("${{{part}}}")),
            }
        }
        if !open.is_empty() {
            return Err(format!("values for setters [{}] must be provided", open.join(" ")));
        }
        set_inferred(node, &text);
        if text.is_empty() {
            node.content = Node::string("").content;
        }
        set.push(Set { field: joined(path), value: text });
        Ok(())
    }

    fn list(&self, pair: &mut Pair, path: &[String], set: &mut Vec<Set>) -> Result<(), String> {
        let comment = match pair.value.comments.line.as_str() {
            "" => pair.key.comments.line.clone(),
            of_value => of_value.to_owned(),
        };
        let Some(pattern) = pattern(&comment).filter(|pattern| self.concern(pattern)) else { return Ok(()) };
        let parts = split(pattern);
        let (["", name, ""], Content::Sequence(list)) = (parts.as_slice(), &mut pair.value.content) else {
            return Err(format!("invalid setter pattern for array node: \"{pattern}\""));
        };
        let value = self.value(name).unwrap_or_default();
        // Nodes of a list take more memory than its text.
        if !self.meter.bytes(value.len().saturating_mul(16)) {
            return Ok(());
        }
        let (of_key, of_value) = (&mut pair.key.comments.line, &mut pair.value.comments.line);
        if value.is_empty() {
            list.items.clear();
            list.is_flow = true;
            of_key.clear();
            *of_value = comment;
        } else {
            let found = File::read(value).ok().and_then(|file| Some(file.documents.first()?.root.clone()));
            let Some(Content::Sequence(new)) = found.map(|node| node.content) else {
                return Err(format!(
                    "input to array setter must be an array of values, but found \"{value}\""
                ));
            };
            let is_same = list.items.len() == new.items.len()
                && list.items.iter().zip(&new.items).all(|(old, new)| old.equals(new));
            if !is_same {
                list.items = new.items;
            }
            list.is_flow = list.items.is_empty();
            of_value.clear();
            *of_key = comment;
            if list.is_flow {
                std::mem::swap(of_key, of_value);
            }
        }
        set.push(Set { field: joined(path), value: value.to_owned() });
        Ok(())
    }
}

/// Derives the values of a pattern's names from a text.
fn derive(parts: &[&str], text: &str) -> Strings {
    let expression: String = parts
        .iter()
        .enumerate()
        .map(|(at, part)| if at % 2 == 0 { regex::escape(part) } else { "(.*)".to_owned() })
        .collect();
    let Some(found) = Regex::new(&expression).ok().and_then(|regex| regex.captures(text)) else {
        return Vec::new();
    };
    let names = parts.iter().skip(1).step_by(2);
    let values = found.iter().skip(1).map(|value| value.map_or("", |value| value.as_str()));
    names
        .zip(values)
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| ((*name).to_owned(), value.to_owned()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error, config, run, said};

    fn check_setters(setters: &[(&str, &str)], text: &str, expected: &str) {
        check("apply-setters", &config(setters), text, expected);
    }

    /// The examples, and the rules for scalars (`packagevariants.md` 8.5).
    #[test]
    fn scalars() {
        check_setters(
            &[("tag", "1.3")],
            "image: reg/app:1.2 # kpt-set: ${repo}/app:${tag}\n",
            "image: reg/app:1.3 # kpt-set: ${repo}/app:${tag}\n",
        );
        for (value, old, new) in [
            ("5", "a: 3 # kpt-set: ${x}\n", "a: 5 # kpt-set: ${x}\n"),
            ("5", "a: \"3\" # kpt-set: ${x}\n", "a: \"5\" # kpt-set: ${x}\n"),
            ("5", "a: b # kpt-set: ${x}\n", "a: 5 # kpt-set: ${x}\n"),
            ("true", "a: b # kpt-set: ${x}\n", "a: true # kpt-set: ${x}\n"),
            ("", "a: b # kpt-set: ${x}\n", "a: \"\" # kpt-set: ${x}\n"),
            ("b", "a: # kpt-set: ${x}\n", "a: b # kpt-set: ${x}\n"),
            ("b", "l:\n- c # kpt-set: ${x}-${x}\n", "l:\n- b-b # kpt-set: ${x}-${x}\n"),
            ("b", "a: c # kpt-set: ${y}\n", "a: c # kpt-set: ${y}\n"),
            ("b", "a: c # ${x}\n", "a: c # ${x}\n"),
        ] {
            check_setters(&[("x", value)], old, new);
        }
    }

    /// The example, and the rules for lists (`packagevariants.md` 8.5).
    #[test]
    fn lists() {
        let zones = &[("zones", "[b, c]")];
        check_setters(zones, "zones: [a] # kpt-set: ${zones}\n", "zones: # kpt-set: ${zones}\n- b\n- c\n");
        check_setters(
            zones,
            "zones: # kpt-set: ${zones}\n- b # keep\n- c\n",
            "zones: # kpt-set: ${zones}\n- b # keep\n- c\n",
        );
        check_setters(
            &[("zones", "- d\n")],
            "zones: # kpt-set: ${zones}\n- b\n",
            "zones: # kpt-set: ${zones}\n- d\n",
        );
        check_setters(
            &[("zones", "")],
            "zones: # kpt-set: ${zones}\n- b\n",
            "zones: [] # kpt-set: ${zones}\n",
        );
        check_setters(zones, "zones: [] # kpt-set: ${zones}\n", "zones: # kpt-set: ${zones}\n- b\n- c\n");
    }

    /// The message texts of `packagevariants.md` 8.5.
    #[test]
    fn results() {
        let to = |value: &str| config(&[("x", value)]);
        for (value, text, expected) in [
            ("1", "a: z # kpt-set: ${a}/${x}/${b}\n", "values for setters [${a} ${b}] must be provided"),
            ("1", "a: /1 # kpt-set: ${a}/${x}\n", "values for setters [${a}] must be provided"),
            ("[a]", "a: [b] # kpt-set: x-${x}\n", "invalid setter pattern for array node: \"x-${x}\""),
            (
                "a: b",
                "a: [b] # kpt-set: ${x}\n",
                "input to array setter must be an array of values, but found \"a: b\"",
            ),
            (
                "[",
                "a: [b] # kpt-set: ${x}\n",
                "input to array setter must be an array of values, but found \"[\"",
            ),
        ] {
            check_error("apply-setters", &to(value), text, &format!("failed to apply setters: {expected}"));
        }
        assert_eq!(
            said("apply-setters", &to("1"), "a: 2 # kpt-set: ${x}\n"),
            ["info set field value to \"1\""]
        );
        let object = "kind: A\nspec:\n  a:\n  - b: 2 # kpt-set: ${x}\n";
        let (_, list) = run("apply-setters", &to("1"), object).unwrap();
        let field = list.results[0].field.as_ref().and_then(|field| field.path.as_deref());
        assert_eq!(field, Some("spec.a[0].b"));
        assert_eq!(said("apply-setters", &to("1"), "a: 2\n"), ["info no matches for input setter(s)"]);
        check_error(
            "apply-setters",
            "",
            "a: 2\n",
            "failed to apply setters: `functionConfig` must be a `ConfigMap`",
        );
    }

    /// Kubernetes reads `on` and `off` as booleans, so that a field that was one stays one.
    #[test]
    fn switches() {
        let to = config(&[("s", "on")]);
        let object = |value: &str| format!("kind: A\ns: {value} # kpt-set: ${{s}}\n");
        check("apply-setters", &to, &object("off"), &object("on"));
        check("apply-setters", &to, &object("\"off\""), &object("\"on\""));
        check("apply-setters", &to, &object("text"), &object("\"on\""));
    }
}
