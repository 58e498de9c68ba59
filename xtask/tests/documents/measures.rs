//! Measures of the whole workspace that are easy to lose and hard to get back. `--nocapture` prints
//! them.
//!
//! ```text
//! git's files ──syn──> lines of code, modules that name each other ──> Measures ──> limits
//! ```
//!
//! Production is everything but tests: not below `tests`, `benches`, `examples` or `fuzz`, not in a
//! file named `tests.rs`, `fixtures.rs`, `testing.rs` or `build.rs`, and not in an item under
//! `#[cfg(test)]`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, UseTree};

use crate::words::{bare_sections, opens_badly};
use crate::{comments, workspace};

/// Folders of tests and of programs that are no part of the product.
const TEST_FOLDERS: [&str; 4] = ["tests", "benches", "examples", "fuzz"];
const TEST_FILES: [&str; 4] = ["tests.rs", "fixtures.rs", "testing.rs", "build.rs"];

#[derive(Debug, Default)]
struct Measures {
    /// Lines with code: neither blank nor a comment alone.
    production_lines: usize,
    /// Comment blocks of three words or more, and those of them that open without a subject.
    blocks: usize,
    openings: usize,
    bare_sections: usize,
    /// Lines of plain comments, and all lines of production files.
    plain_comment_lines: usize,
    lines: usize,
    /// Comment lines over 100 columns, without text diagrams in fences.
    long_comment_lines: usize,
    /// The largest set of modules of a package that reach each other.
    largest_circle: BTreeSet<String>,
    packages: usize,
    profile_overrides: usize,
    conditions_on_cluster: usize,
}

fn permille(part: usize, of: usize) -> usize {
    (1_000 * part).checked_div(of).unwrap_or_default()
}

fn is_production(path: &Path) -> bool {
    let has_test_folder = path.iter().any(|part| TEST_FOLDERS.iter().any(|folder| part == *folder));
    let is_test_file = path.file_name().is_some_and(|name| {
        let name = name.to_string_lossy();
        TEST_FILES.contains(&&*name) || name.ends_with("_tests.rs")
    });
    !has_test_folder && !is_test_file
}

/// Paths of the repository's files with this ending.
fn files(workspace: &Path, ending: &str) -> Result<Vec<PathBuf>> {
    let output = Command::new("git").args(["ls-files", "-z"]).current_dir(workspace).output()?;
    ensure!(output.status.success(), "git ls-files failed");
    let text = String::from_utf8(output.stdout)?;
    let existing = text.split('\0').filter(|name| name.ends_with(ending)).map(PathBuf::from);
    Ok(existing.filter(|path| workspace.join(path).exists()).collect())
}

fn is_test_only(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// Adds the lines that tokens lie on. Doc comments are attributes to the compiler, and no code to a
/// reader.
fn token_lines(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let is_doc = |token: &TokenTree| matches!(token, TokenTree::Group(group) if group.stream().to_string().starts_with("doc ="));
        if let TokenTree::Punct(punct) = &token
            && punct.as_char() == '#'
        {
            tokens.next_if(|next| matches!(next, TokenTree::Punct(punct) if punct.as_char() == '!'));
            if tokens.next_if(is_doc).is_some() {
                continue;
            }
        }
        let span = token.span();
        lines.insert(span.start().line);
        match token {
            TokenTree::Group(group) => {
                token_lines(group.stream(), lines);
                lines.insert(span.end().line);
            }
            // A text of several lines.
            _ => lines.extend(span.start().line..=span.end().line),
        }
    }
}

/// Paths that a file names, from the root of its package.
struct Paths<'m> {
    module: Vec<String>,
    modules: &'m BTreeSet<Vec<String>>,
    found: BTreeSet<Vec<String>>,
}

impl Paths<'_> {
    /// Resolves the first part of a path, which says where it begins.
    fn take(&mut self, parts: &[String]) {
        match parts {
            [first, rest @ ..] if first == "crate" => self.descend(Vec::new(), rest),
            [first, rest @ ..] if first == "self" => self.descend(self.module.clone(), rest),
            [first, ..] if first == "super" => {
                let ups = parts.iter().take_while(|part| *part == "super").count();
                let depth = self.module.len().saturating_sub(ups);
                self.descend(self.module[..depth].to_vec(), &parts[ups..]);
            }
            [first, rest @ ..] => {
                let child = [&self.module[..], std::slice::from_ref(first)].concat();
                if self.modules.contains(&child) {
                    self.descend(child, rest);
                }
            }
            [] => {}
        }
    }

    fn descend(&mut self, mut place: Vec<String>, parts: &[String]) {
        for part in parts {
            let mut deeper = place.clone();
            deeper.push(part.clone());
            if !self.modules.contains(&deeper) {
                break;
            }
            place = deeper;
        }
        if place != self.module {
            self.found.insert(place);
        }
    }

    fn tree(&mut self, prefix: &[String], tree: &UseTree) {
        let with = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        match tree {
            UseTree::Path(path) => self.tree(&with(&path.ident), &path.tree),
            UseTree::Name(name) => self.take(&with(&name.ident)),
            UseTree::Rename(name) => self.take(&with(&name.ident)),
            UseTree::Glob(_) => self.take(prefix),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(prefix, tree)),
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test_only(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.tree(&[], &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let parts: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
            self.take(&parts);
        }
        visit::visit_path(self, path);
    }
}

/// Module of a file below `src`; the root of the package is empty.
fn module(path: &Path) -> Vec<String> {
    let mut parts: Vec<String> =
        path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod")
        || matches!(&parts[..], [only] if only == "lib" || only == "main")
    {
        parts.pop();
    }
    parts
}

/// The largest set of modules in which each reaches each other.
fn largest_circle(arrows: &BTreeMap<Vec<String>, BTreeSet<Vec<String>>>) -> BTreeSet<Vec<String>> {
    let reach = |from: &Vec<String>| {
        let mut found: BTreeSet<&Vec<String>> = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(next) = waiting.pop() {
            for target in arrows.get(next).into_iter().flatten() {
                if found.insert(target) {
                    waiting.push(target);
                }
            }
        }
        found
    };
    let reached: BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> =
        arrows.keys().map(|module| (module, reach(module))).collect();
    let circle = |module: &Vec<String>| -> BTreeSet<Vec<String>> {
        let both = reached[module]
            .iter()
            .filter(|other| reached.get(**other).is_some_and(|back| back.contains(module)));
        both.map(|other| (*other).clone()).collect()
    };
    arrows.keys().map(circle).max_by_key(BTreeSet::len).unwrap_or_default()
}

fn count(workspace: &Path) -> Result<Measures> {
    let mut measures = Measures::default();
    let mut packages: BTreeMap<PathBuf, BTreeMap<Vec<String>, File>> = BTreeMap::new();
    for path in files(workspace, ".rs")? {
        let source = fs::read_to_string(workspace.join(&path))?;
        measures.conditions_on_cluster += source.matches(concat!("feature = \"", "cluster\"")).count();
        let mut is_fenced = false;
        for line in source.lines().map(str::trim_end) {
            let text = line.trim_start();
            is_fenced ^=
                text.starts_with("//") && text.trim_start_matches(['/', '!', ' ']).starts_with("```");
            measures.long_comment_lines +=
                usize::from(text.starts_with("//") && !is_fenced && line.chars().count() > 100);
        }
        if !is_production(&path) {
            continue;
        }
        let file = syn::parse_file(&source).with_context(|| format!("cannot parse {}", path.display()))?;
        measures.lines += source.lines().count();
        let is_plain = |line: &&str| {
            let text = line.trim_start();
            text.starts_with("//") && !text.starts_with("///") && !text.starts_with("//!")
        };
        measures.plain_comment_lines += source.lines().filter(is_plain).count();
        let mut lines = BTreeSet::new();
        for item in file.items.iter().filter(|item| !is_test_only(attributes(item))) {
            token_lines(quote::ToTokens::to_token_stream(item), &mut lines);
        }
        measures.production_lines += lines.len();
        if let Some(at) = path.iter().position(|part| part == "src") {
            let package: PathBuf = path.iter().take(at).collect();
            let below: PathBuf = path.iter().skip(at + 1).collect();
            packages.entry(package).or_default().insert(module(&below), file);
        }
    }
    for (package, sources) in &packages {
        let modules: BTreeSet<Vec<String>> = sources.keys().cloned().collect();
        let mut arrows = BTreeMap::new();
        // The root declares all modules, and re-exports from them.
        for (name, file) in sources.iter().filter(|(name, _)| !name.is_empty()) {
            let mut paths = Paths { module: name.clone(), modules: &modules, found: BTreeSet::new() };
            paths.visit_file(file);
            paths.found.retain(|target| !target.is_empty());
            arrows.insert(name.clone(), paths.found);
        }
        let circle = largest_circle(&arrows);
        if circle.len() > measures.largest_circle.len() {
            let name = |module: &Vec<String>| format!("{}: {}", package.display(), module.join("::"));
            measures.largest_circle = circle.iter().map(name).collect();
        }
    }
    for prose in comments::read(workspace)? {
        if prose.path.extension().is_none_or(|extension| extension != "rs") || !is_production(&prose.path) {
            continue;
        }
        let blocks = prose.blocks.iter().filter(|block| block.text.split_whitespace().count() >= 3);
        measures.blocks += blocks.clone().count();
        measures.openings += blocks.clone().filter(|block| opens_badly(block)).count();
        measures.bare_sections += blocks.map(|block| bare_sections(&block.text)).sum::<usize>();
    }
    let manifests = files(workspace, "Cargo.toml")?;
    let is_package = |path: &&PathBuf| {
        fs::read_to_string(workspace.join(path)).is_ok_and(|text| text.contains("[package]"))
    };
    measures.packages = manifests.iter().filter(is_package).count();
    let root: toml::Table = toml::from_str(&fs::read_to_string(workspace.join("Cargo.toml"))?)?;
    let overrides =
        root.get("profile").and_then(|profiles| profiles.get("release")?.get("package")?.as_table());
    measures.profile_overrides = overrides.map_or(0, toml::Table::len);
    Ok(measures)
}

#[test]
fn limits_hold() -> Result<()> {
    let measures = count(workspace())?;
    let Measures { openings, blocks, plain_comment_lines, lines, largest_circle, .. } = &measures;
    let rows = [
        ("openings without a subject, permille of comments", permille(*openings, *blocks), 10),
        ("bare section numbers", measures.bare_sections, 0),
        ("comment lines over 100 columns", measures.long_comment_lines, 0),
        ("settings of a package in the release profile", measures.profile_overrides, 0),
        ("conditions on the feature cluster", measures.conditions_on_cluster, 0),
        ("modules in the largest circle", largest_circle.len(), 23),
        ("production lines", measures.production_lines, 166_000),
        ("packages", measures.packages, 43),
    ];
    for (name, found, most) in rows {
        println!("{found:>7}  of at most {most:>7}: {name}");
    }
    println!("{:>7}  plain comment lines, permille of lines", permille(*plain_comment_lines, *lines));
    println!("the largest circle: {}", largest_circle.iter().cloned().collect::<Vec<_>>().join(", "));
    let over: Vec<String> = rows
        .iter()
        .filter(|(_, found, most)| found > most)
        .map(|(name, found, most)| format!("{name}: {found}, and {most} are allowed"))
        .collect();
    ensure!(over.is_empty(), "{}", over.join("\n"));
    Ok(())
}

#[test]
fn circles_are_found() {
    let name = |text: &str| vec![text.to_owned()];
    let arrows = [("a", "b"), ("b", "c"), ("c", "b"), ("d", "a")]
        .map(|(from, to)| (name(from), BTreeSet::from([name(to)])))
        .into();
    assert_eq!(largest_circle(&arrows), BTreeSet::from([name("b"), name("c")]));
}

#[test]
fn code_is_counted_without_comments_and_tests() {
    let source = "/// Doc.\nfn a() {\n    // plain\n\n    b(\"1\n2\");\n}\n#[cfg(test)]\nmod tests {\n    fn c() {}\n}\n";
    let file = syn::parse_file(source).unwrap();
    let mut lines = BTreeSet::new();
    for item in file.items.iter().filter(|item| !is_test_only(attributes(item))) {
        token_lines(quote::ToTokens::to_token_stream(item), &mut lines);
    }
    assert_eq!(lines, BTreeSet::from([2, 5, 6, 7]));
}
