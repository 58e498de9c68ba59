//! `apply-replacements` (`packagevariants.md` 8.5).

mod path;

use groundwork_yaml::tree::{Content, Kind, Layout, Node, write};

use super::config::{only, only_known};
use super::meter::Meter;
use super::selector::{Exact, Pattern};
use super::{id, text, type_of};
use crate::render::{Item, ResourceList, Triple};
use crate::value::assign;

/// Steps that the meter counts for the comparison of one object with the expressions of a selector.
const PARTS_OF_SELECTION: usize = 32;
const KIND: (&str, &str) = ("ApplyReplacements", "fn.kpt.dev/v1alpha1");
const OPTIONS: [&str; 3] = ["delimiter", "index", "create"];
const SELECTOR: [&str; 7] =
    ["group", "version", "kind", "name", "namespace", "labelSelector", "annotationSelector"];
/// First version that refuses a target without the field. Earlier ones skip it, and real packages
/// rely on that.
const REFUSES_MISSING_FIELDS: Triple = [0, 1, 2];

pub(super) fn run(list: &mut ResourceList) -> Result<(), String> {
    let config = list.config.as_ref().ok_or("FunctionConfig is missing. Expect `ApplyReplacements`")?;
    let (kind, api_version) = type_of(config);
    if (kind, api_version) != KIND {
        return Err(format!(
            "received functionConfig of kind {kind} and apiVersion {api_version}, only functionConfig of kind ApplyReplacements and apiVersion \
             fn.kpt.dev/v1alpha1 is supported"
        ));
    }
    check_fields(config)?;
    let skips_missing = list.version_end.is_some_and(|end| end <= REFUSES_MISSING_FIELDS);
    for replacement in items(config, "replacements") {
        let targets = items(replacement, "targets");
        // Each replacement compares all objects with the selectors of its source and of its
        // targets.
        if !list.meter.parts(list.items.len().saturating_mul(PARTS_OF_SELECTION)) {
            break;
        }
        let value = value(replacement, targets.is_empty(), &list.items)?;
        for target in targets {
            replace(target, &value, skips_missing, &mut list.items, &list.meter)?;
        }
    }
    Ok(())
}

/// Refuses fields that the function does not know.
fn check_fields(config: &Node) -> Result<(), String> {
    only_known(config, &["replacements"], None)?;
    let options = |part: &Node| part.get("options").map_or(Ok(()), |options| only(options, &OPTIONS));
    for replacement in items(config, "replacements") {
        only(replacement, &["source", "sourceValue", "targets"])?;
        if let Some(source) = replacement.get("source") {
            only(source, &["group", "version", "kind", "name", "namespace", "fieldPath", "options"])?;
            options(source)?;
        }
        for target in items(replacement, "targets") {
            only(target, &["select", "reject", "fieldPaths", "options"])?;
            options(target)?;
            let mut selectors = target.get("select").into_iter().chain(items(target, "reject"));
            selectors.try_for_each(|selector| only(selector, &SELECTOR))?;
        }
    }
    Ok(())
}

fn items<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    node.get(key).and_then(Node::as_sequence).map_or(&[], |list| &list.items)
}

/// Returns the value for the targets.
fn value(replacement: &Node, has_no_targets: bool, objects: &[Item]) -> Result<Node, String> {
    let given = |key: &str| replacement.get(key).filter(|node| !node.is_null());
    let source = match (given("source"), given("sourceValue")) {
        _ if has_no_targets => None,
        (Some(_), Some(_)) => return Err("value and resource selectors are mutually exclusive".to_owned()),
        (None, Some(value)) => return Ok(value.clone()),
        (source, None) => source,
    };
    let source = source.ok_or("replacements must specify a source and at least one target")?;
    let selector = Exact::of(source);
    let mut found = objects.iter().filter(|item| selector.selects(&item.root));
    let object = match (found.next(), found.next()) {
        (Some(item), None) => &item.root,
        (None, _) => return Err(format!("nothing selected by {selector}")),
        _ => return Err(format!("multiple matches for selector {selector}")),
    };
    let field = Some(text(source, &["fieldPath"])).filter(|path| !path.is_empty()).unwrap_or("metadata.name");
    let value = path::find(object, &path::split(field)).filter(|value| !value.is_null());
    let value = value
        .ok_or_else(|| format!("fieldPath `{field}` is missing for replacement source {}", id(object)))?;
    let delimiter = text(source, &["options", "delimiter"]);
    let Some(whole) = value.text().filter(|_| !delimiter.is_empty()) else { return Ok(value.clone()) };
    let index = index(source)?;
    let part = usize::try_from(index).ok().and_then(|index| whole.split(delimiter).nth(index));
    let part = part.ok_or_else(|| format!("options.index {index} is out of bounds for value {whole}"))?;
    Ok(Node::string(part))
}

/// Returns the index in the options, or 0.
fn index(node: &Node) -> Result<i64, String> {
    let index = text(node, &["options", "index"]);
    if index.is_empty() {
        return Ok(0);
    }
    index.parse().map_err(|_| format!("options.index {index:?} must be a number"))
}

fn replace(
    target: &Node,
    value: &Node,
    skips_missing: bool,
    objects: &mut [Item],
    meter: &Meter,
) -> Result<(), String> {
    let select = target.get("select").filter(|select| !select.is_null());
    let select = select.ok_or("target must specify resources to select")?;
    let names_kind = !text(select, &["kind"]).is_empty();
    let select = Pattern::of(select)?;
    let rejects: Vec<Pattern> = items(target, "reject").iter().map(Pattern::of).collect::<Result<_, _>>()?;
    let given = items(target, "fieldPaths").iter().filter_map(Node::text);
    let mut fields: Vec<&str> = given.collect();
    if fields.is_empty() {
        fields.push("metadata.name");
    }
    let delimiter = text(target, &["options", "delimiter"]);
    let index = index(target)?;
    let create = text(target, &["options", "create"]) == "true";
    let size = match value.text() {
        Some(text) => text.len(),
        None => write(value, Layout::default()).len().saturating_mul(16),
    };
    for item in objects {
        if !meter.parts((rejects.len() + 1).saturating_mul(PARTS_OF_SELECTION)) {
            return Ok(());
        }
        let is_rejected = rejects.iter().any(|reject| !reject.is_empty() && reject.selects(&item.root));
        // A new field would make a Kptfile unreadable, so it must be selected by its kind.
        let is_by_accident = create && item.is_kptfile() && !names_kind;
        if is_rejected || is_by_accident || !select.selects(&item.root) {
            continue;
        }
        for field in &fields {
            let mut set = |found: &mut Node| {
                let whole = if delimiter.is_empty() { 0 } else { found.text().unwrap_or_default().len() };
                // Count the parts of the split text, the joined value, and the text written to the
                // object.
                let is_granted = meter.bytes((size + whole).saturating_mul(2)) && meter.parts(whole);
                if is_granted { set(found, value, delimiter, index) } else { Ok(()) }
            };
            let count = path::visit(&mut item.root, &path::split(field), create, &mut set)?;
            if count == 0 && !skips_missing {
                return Err(format!("unable to find field \"{field}\" in replacement target"));
            }
        }
    }
    Ok(())
}

fn set(target: &mut Node, value: &Node, delimiter: &str, index: i64) -> Result<(), String> {
    if delimiter.is_empty() {
        match value.text().filter(|_| !target.is_null()) {
            Some(text) if matches!(target.content, Content::Scalar(_)) => set_text(target, text),
            _ => assign(target, value),
        }
        return Ok(());
    }
    let (Some(whole), Some(part)) = (target.text(), value.text()) else {
        return Err("delimiter option can only be used with scalar nodes".to_owned());
    };
    let mut parts: Vec<&str> = if target.is_null() { Vec::new() } else { whole.split(delimiter).collect() };
    match usize::try_from(index) {
        // A part that is already first or last is not added again, so that a second run changes
        // nothing.
        Err(_) if parts.first() == Some(&part) => {}
        Err(_) => parts.insert(0, part),
        Ok(at) if at < parts.len() => parts[at] = part,
        Ok(_) if parts.last() == Some(&part) => {}
        Ok(_) => parts.push(part),
    }
    let joined = parts.join(delimiter);
    set_text(target, &joined);
    Ok(())
}

/// Sets the text of a scalar. A number or a boolean keeps its type if the text is one too.
fn set_text(target: &mut Node, text: &str) {
    if target.text() == Some(text) {
        return;
    }
    let kind = target.kind();
    let plain = Node::plain(text);
    let fits = plain.kind() == kind
        || matches!((kind, plain.kind()), (Kind::Float, Kind::Int) | (Kind::Int, Kind::Float));
    if kind != Kind::String && fits && target.tag.is_none() {
        target.content = plain.content;
    } else {
        target.set_text(text);
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check, check_error};

    const HEAD: &str = "apiVersion: fn.kpt.dev/v1alpha1\nkind: ApplyReplacements\nreplacements:\n";
    const OBJECTS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: src}\ndata:\n  image: reg/app:1.2\n  n: \"3\"\n  a.b: dot\nlist: \
                           [x]\n---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web, labels: {app: web}}\nspec:\n  replicas: \
                           1 # r\n  containers:\n  - name: a\n    image: old # i\n  - name: b\n    image: old\n  args: old\n";

    fn check_targets(source: &str, target: &str, from: &[&str], to: &[&str]) {
        let config = format!("{HEAD}- {{{source}, targets: [{{{target}}}]}}\n");
        let expected = from.iter().zip(to).fold(OBJECTS.to_owned(), |text, (from, to)| {
            assert!(text.contains(from), "{from}");
            text.replacen(from, to, 1)
        });
        check("apply-replacements", &config, OBJECTS, &expected);
    }

    /// Sources, targets and options (`packagevariants.md` 8.5).
    #[test]
    fn replacements() {
        let source = |path: &str| format!("source: {{kind: ConfigMap, name: src, {path}}}");
        let image = source("fieldPath: data.image");
        let target = |path: &str| format!("select: {{kind: Deployment}}, fieldPaths: ['{path}']");
        check_targets(
            &image,
            &target("spec.containers.[name=b].image"),
            &["b\n    image: old"],
            &["b\n    image: reg/app:1.2"],
        );
        check_targets(
            &image,
            &target("spec.containers.0.image"),
            &["image: old # i"],
            &["image: reg/app:1.2 # i"],
        );
        check_targets(
            &image,
            &target("spec.containers.*.image"),
            &["image: old", "image: old"],
            &["image: reg/app:1.2", "image: reg/app:1.2"],
        );
        check_targets(
            &source("fieldPath: data.n"),
            &target("spec.replicas"),
            &["replicas: 1"],
            &["replicas: 3"],
        );
        check_targets(&source("fieldPath: data.a\\.b"), &target("spec.args"), &["args: old"], &["args: dot"]);
        check_targets(&source("fieldPath: list"), &target("spec.args"), &["args: old"], &["args: [x]"]);
        check_targets(&source("version: v1"), "select: {name: w.b}", &["name: web"], &["name: src"]);
        check_targets("sourceValue: 5", &target("spec.args"), &["args: old"], &["args: \"5\""]);
        check_targets(
            &source("fieldPath: data.image, options: {delimiter: ':', index: 1}"),
            &format!("{}, options: {{delimiter: '-', index: 3}}", target("spec.args")),
            &["args: old"],
            &["args: old-1.2"],
        );
        check_targets(
            &source("fieldPath: data.image, options: {delimiter: ':', index: 1}"),
            &format!("{}, options: {{delimiter: '-', index: -1}}", target("spec.args")),
            &["args: old"],
            &["args: 1.2-old"],
        );
        check_targets(
            "sourceValue: x",
            &format!("{}, options: {{create: true}}", target("spec.env.[name=a].value")),
            &["args: old\n"],
            &["args: old\n  env:\n  - name: a\n    value: x\n"],
        );
        let rejected =
            "select: {kind: .*, namespace: .*}, reject: [{labelSelector: app=web}, {}], fieldPaths: [data.n]";
        check_targets("sourceValue: y", rejected, &["n: \"3\""], &["n: \"y\""]);
    }

    /// A part in brackets without `=` is the key itself, the only form for keys with dots that
    /// public packages use.
    #[test]
    fn keys_with_dots() {
        const META: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: src\n  annotations:\n    a.example/x: seen\ndata:\n  \
                            dotted.key: dot\nlist: [one, two]\n---\napiVersion: v1\nkind: Service\nmetadata:\n  name: web\n  \
                            annotations:\n    a.example/x: old\nspec:\n  selector:\n    app.kubernetes.io/name: old\n";
        let replaced = |source: &str, path: &str, options: &str, from: &str, to: &str| {
            let config = format!(
                "{HEAD}- source: {{kind: ConfigMap, name: src, fieldPath: '{source}'}}\n  targets:\n  - select: {{kind: Service}}\n    \
                 fieldPaths: ['{path}']\n    options: {{{options}}}\n"
            );
            let (kept, last) = META.rsplit_once(from).unwrap();
            check("apply-replacements", &config, META, &format!("{kept}{to}{last}"));
        };
        let (annotation, label) =
            ("metadata.annotations.[a.example/x]", "spec.selector.[app.kubernetes.io/name]");
        replaced("data.[dotted.key]", annotation, "", "a.example/x: old", "a.example/x: dot");
        replaced("metadata.annotations.[a.example/x]", label, "", "name: old", "name: seen");
        replaced("data.[dotted.key]", annotation, "create: true", "a.example/x: old", "a.example/x: dot");
        replaced(
            "data.[dotted.key]",
            "metadata.annotations.[b.example/y]",
            "create: true",
            "x: old\n",
            "x: old\n    b.example/y: dot\n",
        );
        replaced("list.[two]", annotation, "", "a.example/x: old", "a.example/x: two");
        replaced("data.dotted\\.key", annotation, "", "a.example/x: old", "a.example/x: dot");
    }

    /// Older versions skip a target without the field (`packagevariants.md` 8.5).
    #[test]
    fn versions_that_skip_a_missing_field() {
        use crate::{Package, RenderOptions, render};
        let config = format!(
            "{HEAD}- {{sourceValue: x, targets: [{{select: {{kind: Deployment}}, fieldPaths: [spec.none]}}]}}\n"
        )
        .replace("replacements:", "metadata: {name: r}\nreplacements:");
        let missing = "unable to find field \"spec.none\" in replacement target";
        for (tag, expected) in [
            (":v0.1.0", None),
            (":v0.1.1", None),
            (":v0.1.2", Some(missing)),
            (":v0.1", Some(missing)),
            ("", Some(missing)),
        ] {
            let kptfile = format!(
                "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n  - image: \
                 apply-replacements{tag}\n    configPath: r.yaml\n"
            );
            let files: Package =
                [("Kptfile", kptfile), ("a.yaml", OBJECTS.to_owned()), ("r.yaml", config.clone())]
                    .map(|(path, text)| (path.to_owned(), text))
                    .into();
            let error = render(&files, &RenderOptions::default()).error;
            let expected =
                expected.map(|cause| format!("package \".\": function \"apply-replacements{tag}\": {cause}"));
            assert_eq!(error, expected, "{tag}");
        }
    }

    /// The error texts of `packagevariants.md` 8.5.
    #[test]
    fn faults() {
        let target = "targets: [{select: {kind: Deployment}, fieldPaths: [spec.none]}]";
        for (replacement, expected) in [
            (
                format!("{{source: {{kind: None, name: a}}, {target}}}"),
                "nothing selected by None.[noVer].[noGrp]/a.[noNs]",
            ),
            (
                format!("{{source: {{namespace: ''}}, {target}}}"),
                "multiple matches for selector [noKind].[noVer].[noGrp]/[noName].[noNs]",
            ),
            (
                format!("{{source: {{kind: ConfigMap, fieldPath: data.x}}, {target}}}"),
                "fieldPath `data.x` is missing for replacement source Resource(apiVersion=v1, kind=ConfigMap, namespace=, name=src)",
            ),
            (
                format!("{{source: {{kind: ConfigMap, options: {{delimiter: '-', index: 2}}}}, {target}}}"),
                "options.index 2 is out of bounds for value src",
            ),
            (
                format!("{{source: {{kind: A}}, sourceValue: x, {target}}}"),
                "value and resource selectors are mutually exclusive",
            ),
            (format!("{{{target}}}"), "replacements must specify a source and at least one target"),
            (
                "{source: {kind: ConfigMap}}".to_owned(),
                "replacements must specify a source and at least one target",
            ),
            (
                "{sourceValue: x, targets: [{fieldPaths: [a]}]}".to_owned(),
                "target must specify resources to select",
            ),
            (
                "{sourceValue: x, targets: [{select: {kind: A, labels: b}, fieldPaths: [a]}]}".to_owned(),
                "the function does not know the field `labels`: use `group`, `version`, `kind`, `name`, `namespace`, `labelSelector`, \
                 `annotationSelector`",
            ),
            (
                format!("{{sourceValue: x, {target}}}"),
                "unable to find field \"spec.none\" in replacement target",
            ),
        ] {
            check_error("apply-replacements", &format!("{HEAD}- {replacement}\n"), OBJECTS, expected);
        }
        check_error(
            "apply-replacements",
            "",
            OBJECTS,
            "FunctionConfig is missing. Expect `ApplyReplacements`",
        );
        check_error(
            "apply-replacements",
            "apiVersion: v1\nkind: X\n",
            OBJECTS,
            "received functionConfig of kind X and apiVersion v1, only functionConfig of kind ApplyReplacements and apiVersion \
             fn.kpt.dev/v1alpha1 is supported",
        );
    }
}
