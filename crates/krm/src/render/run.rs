//! Run of the functions of all packages (`packagevariants.md` 8.2, 8.4).

use std::collections::{BTreeMap, BTreeSet};

use groundwork_api::{Function, FunctionResult, Pipeline};
use groundwork_yaml::tree::{Layout, Node, Pair, write};

use super::function::{clean, label, pipeline, validate};
use super::input::{self, Files};
use super::list::{Item, Outcome, ResourceList, Severity, errors};
use super::output::{Step, Steps};
use super::{FunctionRunner, Image, OnMissing, RenderOptions, RunError, Target, Triple};
use crate::comments::{copy, has_comments};
use crate::functions::meter::Meter;
use crate::functions::{Native, native};
use crate::kptfile::read;
use crate::package::{KPTFILE, Package, join, owner};

/// Reason why a rendering ends early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stop {
    Failed(String),
    /// A function is missing, and the options defer the rendering in this case.
    Deferred(String),
}

/// Executor of a function.
enum Engine<'a> {
    /// Built-in function, and the first version after those that the image's tag allows.
    Native(Native, Option<Triple>),
    /// Host runners; the first one that has the function runs it.
    Hosts(Vec<&'a dyn FunctionRunner>),
}

pub(super) struct Renderer<'a> {
    files: &'a Package,
    options: &'a RenderOptions<'a>,
    boundaries: &'a BTreeSet<&'a str>,
    next_id: usize,
    /// Objects by the package that owns them now.
    pub(super) pools: BTreeMap<String, Vec<Item>>,
    pub(super) steps: Steps,
    pub(super) results: Vec<FunctionResult>,
}

/// Returns the name of a package for messages, `.` for the root.
pub(super) fn shown(package: &str) -> &str {
    if package.is_empty() { "." } else { package }
}

impl<'a> Renderer<'a> {
    pub(super) fn new(
        files: &'a Package,
        options: &'a RenderOptions<'a>,
        read: &Files,
        boundaries: &'a BTreeSet<&'a str>,
    ) -> Self {
        let pools = input::items(read, boundaries);
        let next_id = pools.values().map(Vec::len).sum();
        let runs = |item: &Item| {
            let pipeline = pipeline(&item.root);
            !pipeline.mutators.is_empty() || !pipeline.validators.is_empty()
        };
        let has_functions = pools.values().flatten().any(|item| item.is_kptfile() && runs(item));
        let steps = Steps { has_functions, ..Steps::default() };
        Self { files, options, boundaries, next_id, pools, steps, results: Vec::new() }
    }

    /// Renders all packages. The pools contain the result, after a failure too.
    pub(super) fn run(&mut self) -> Option<Stop> {
        if super::output::root_annotation(self.files, "kpt.dev/bfs-rendering") {
            return self.top_down();
        }
        self.bottom_up()
    }

    /// Returns the direct subpackages of each package, in alphabetical order.
    fn children(&self) -> BTreeMap<&'a str, Vec<&'a str>> {
        let mut children: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for path in self.boundaries {
            children.entry(owner(path, self.boundaries)).or_default().push(path);
        }
        children
    }

    /// Renders subpackages before their parent. Uses a stack of its own instead of recursion, since
    /// packages can be nested as deep as paths are long.
    fn bottom_up(&mut self) -> Option<Stop> {
        let mut children = self.children();
        let mut open = vec![("", None)];
        while let Some((package, below)) = open.pop() {
            let Some(below) = below else {
                let below = children.remove(package).unwrap_or_default();
                open.push((package, Some(below.clone())));
                open.extend(below.into_iter().rev().map(|child| (child, None)));
                continue;
            };
            let mut items = self.pools.remove(package).unwrap_or_default();
            for child in below {
                items.extend(self.pools.remove(child).unwrap_or_default());
            }
            let stop = self.package(package, &mut items);
            self.pools.insert(package.to_owned(), items);
            if stop.is_some() {
                return stop;
            }
        }
        None
    }

    fn top_down(&mut self) -> Option<Stop> {
        let children = self.children();
        let mut level = vec![""];
        while !level.is_empty() {
            let mut next = Vec::new();
            for package in level {
                let mut items = self.pools.remove(package).unwrap_or_default();
                let is_below = |path: &&&str| {
                    package.is_empty() || path.strip_prefix(package).is_some_and(|rest| rest.starts_with('/'))
                };
                for below in self.boundaries.iter().filter(is_below) {
                    items.extend(self.pools.remove(*below).unwrap_or_default());
                }
                let stop = self.package(package, &mut items);
                // An object whose path is in another package becomes an input of that package.
                for item in items {
                    let item = self.moved(item);
                    self.pools.entry(item.package.clone()).or_default().push(item);
                }
                if stop.is_some() {
                    return stop;
                }
                next.extend(children.get(package).into_iter().flatten().copied());
            }
            level = next;
        }
        None
    }

    /// Assigns an item to the package that contains its path.
    fn moved(&self, mut item: Item) -> Item {
        let Some(path) = item.full_path() else { return item };
        let package = owner(&path, self.boundaries);
        if package != item.package {
            let inner = path.strip_prefix(package).unwrap_or(&path).trim_start_matches('/');
            item.path = Some(inner.to_owned());
            package.clone_into(&mut item.package);
        }
        item
    }

    /// Runs the pipeline of one package on its input.
    fn package(&mut self, package: &str, items: &mut Vec<Item>) -> Option<Stop> {
        self.pipeline(package, items).err()
    }

    fn pipeline(&mut self, package: &str, items: &mut Vec<Item>) -> Result<(), Stop> {
        let failed = |cause: String| Stop::Failed(format!("package \"{}\": {cause}", shown(package)));
        let pipeline = self.kptfile(package).map_err(failed)?;
        input::check(items, "input").map_err(failed)?;
        let (mutators, validators) = (&pipeline.mutators, &pipeline.validators);
        for function in mutators {
            let checked =
                self.engine(function).and_then(|_| config(function, package, items).map_err(Missing::Other));
            checked.map_err(|cause| self.never_ran(function, false, package, cause))?;
        }
        for (is_validator, function) in mutators
            .iter()
            .map(|function| (false, function))
            .chain(validators.iter().map(|function| (true, function)))
        {
            self.function(function, is_validator, package, items)?;
        }
        Ok(())
    }

    /// Returns the pipeline of a package, after all checks that are possible before a function
    /// runs.
    fn kptfile(&self, package: &str) -> Result<Pipeline, String> {
        let path = join(package, KPTFILE);
        let text = self.files.get(&path).map(String::as_str).unwrap_or_default();
        let file = read(text).map_err(|cause| format!("error reading Kptfile at {path:?}: {cause}"))?;
        let pipeline = file.documents.first().map(|document| pipeline(&document.root)).unwrap_or_default();
        validate(&pipeline, self.files, package)?;
        Ok(pipeline)
    }

    fn function(
        &mut self,
        function: &Function,
        is_validator: bool,
        package: &str,
        items: &mut Vec<Item>,
    ) -> Result<(), Stop> {
        let prepared = self.engine(function).and_then(|(engine, target)| {
            let config = config(function, package, items).map_err(Missing::Other)?;
            Ok((engine, target, config))
        });
        let (engine, target, config) =
            prepared.map_err(|cause| self.never_ran(function, is_validator, package, cause))?;
        let is_selection = input::is_selective(function);
        let chosen = items.iter().filter(|item| !is_selection || input::is_selected(item, function));
        let mut list = ResourceList {
            items: chosen.cloned().collect(),
            package: package.to_owned(),
            config,
            is_selection,
            meter: Meter::new(self.options.native_limits),
            ..ResourceList::default()
        };
        let before: BTreeSet<usize> = list.items.iter().filter_map(|item| item.id).collect();
        let outcome = match engine {
            Engine::Native(native, version_end) => {
                list.version_end = version_end;
                Ok(run_native(native, &mut list))
            }
            Engine::Hosts(runners) => {
                let outcome = run_hosted(&runners, &target, &mut list);
                restore_comments(&mut list.items, items);
                outcome
            }
        };
        let mut outcome = outcome.map_err(|cause| self.never_ran(function, is_validator, package, cause))?;
        for result in outcome.results.iter_mut().filter(|result| result.severity.is_none()) {
            result.severity = Some(Severity::Info.as_str().to_owned());
        }
        let is_failed =
            outcome.exit_code != 0 || outcome.error.is_some() || !errors(&outcome.results).is_empty();
        if is_failed && outcome.exit_code == 0 {
            outcome.exit_code = 1;
        }
        let cause = if is_failed {
            Some(cause_of(&outcome))
        } else {
            self.check_output(&mut list.items, package).err()
        };
        if cause.is_some() && outcome.exit_code == 0 {
            outcome.exit_code = 1;
        }
        self.record(function, is_validator, &outcome, None);
        if let Some(cause) = cause {
            return Err(failure(function, package, &cause));
        }
        if !is_validator {
            put_back(items, list.items, &before, &mut self.next_id);
        }
        Ok(())
    }

    /// Assigns paths to the output of a function, and checks it.
    fn check_output(&self, items: &mut [Item], package: &str) -> Result<(), String> {
        let mut size = 0;
        for item in items.iter_mut() {
            if item.id.is_none() {
                package.clone_into(&mut item.package);
            }
            let path = item.path.get_or_insert_with(|| default_path(&item.root));
            if path.starts_with('/') || path.split('/').any(|part| part == "..") {
                return Err(format!(
                    "function must not modify resources outside of package: resource has path {path}"
                ));
            }
            if self.options.max_output.is_some() {
                size += write(&item.root, Layout::default()).len();
            }
        }
        if let Some(most) = self.options.max_output.filter(|most| size > *most) {
            return Err(format!("wrote more than {most} bytes"));
        }
        input::check(items, "output")
    }

    /// Returns the executor of a function: a built-in function, or else the host's runners.
    fn engine(&self, function: &Function) -> Result<(Engine<'a>, Target), Missing> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let target = if let Some(exec) = given(&function.exec) {
            let words = self.check_exec(&exec).map_err(Missing::Other)?;
            Target::Exec { line: exec, words }
        } else if given(&function.image).is_some() {
            let image = Image::of(function, &self.options.default_prefix).map_err(Missing::Other)?;
            let found = image.native_name(&self.options.native_prefixes).and_then(native);
            if let Some(native) = found {
                return Ok((Engine::Native(native, image.version_end()), Target::Image(image.text)));
            }
            Target::Image(image.text)
        } else {
            return Err(Missing::Other("must specify `exec` or `image` to execute a function".to_owned()));
        };
        let runners = self.options.runners.iter().filter(|runner| runner.has(&target));
        let runners: Vec<_> = runners.copied().collect();
        if runners.is_empty() { Err(not_available(&target)) } else { Ok((Engine::Hosts(runners), target)) }
    }

    /// Splits a command line that is allowed to run into words.
    fn check_exec(&self, exec: &str) -> Result<Vec<String>, String> {
        if !self.options.allow_exec {
            return Err("must run with `--allow-exec` option to allow running function binaries".to_owned());
        }
        let words =
            shlex::split(exec).ok_or_else(|| format!("exec function {exec:?} has an unclosed quote"))?;
        let path = words.first().map(String::as_str).unwrap_or_default();
        if self.options.exec_allowed.iter().any(|allowed| allowed == path) {
            return Ok(words);
        }
        Err(format!("exec function \"{path}\" is not allowed"))
    }

    /// Records a function that did not run. The function counts as failed, unless the options defer
    /// the rendering.
    fn never_ran(&mut self, function: &Function, is_validator: bool, package: &str, cause: Missing) -> Stop {
        let cause = match cause {
            Missing::Engine(cause) if self.options.on_missing == OnMissing::Defer => {
                return Stop::Deferred(cause);
            }
            Missing::Engine(cause) | Missing::Other(cause) => cause,
        };
        let outcome = Outcome { exit_code: 1, ..Outcome::default() };
        self.record(function, is_validator, &outcome, Some(cause.clone()));
        failure(function, package, &cause)
    }

    fn record(&mut self, function: &Function, is_validator: bool, outcome: &Outcome, error: Option<String>) {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let Outcome { exit_code, stderr, results, .. } = outcome;
        let image = given(&function.image).map(|image| {
            let whole = Image::of(function, &self.options.default_prefix);
            whole.map_or(image, |whole| whole.text)
        });
        let result = FunctionResult {
            image,
            exec: given(&function.exec),
            stderr: Some(stderr.clone()).filter(|text| !text.is_empty()),
            exit_code: Some(*exit_code),
            results: results.clone(),
            ..FunctionResult::default()
        };
        let step = Step { label: label(function).to_owned(), name: given(&function.name), result, error };
        self.results.push(step.result.clone());
        let steps = if is_validator { &mut self.steps.validations } else { &mut self.steps.mutations };
        steps.push(step);
    }
}

/// Reason why a function cannot run.
enum Missing {
    /// No executor has the function.
    Engine(String),
    Other(String),
}

fn failure(function: &Function, package: &str, cause: &str) -> Stop {
    Stop::Failed(format!("package \"{}\": function \"{}\": {cause}", shown(package), label(function)))
}

fn not_available(target: &Target) -> Missing {
    Missing::Engine(format!(
        "function {:?} is not available: no container runtime is configured and it is not built in",
        target.text()
    ))
}

/// Returns the reason of a failure: an exceeded limit, error results, or printed text
/// (`packagevariants.md` 8.3, 8.4).
fn cause_of(outcome: &Outcome) -> String {
    if let Some(error) = &outcome.error {
        return error.clone();
    }
    let errors = errors(&outcome.results);
    if !errors.is_empty() {
        return errors.join(", ");
    }
    let mut parts: Vec<String> =
        outcome.stderr.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect();
    parts.push(format!("exit code {}", outcome.exit_code));
    parts.join(", ")
}

fn run_native(native: Native, list: &mut ResourceList) -> Outcome {
    let result = native(list);
    let stderr = std::mem::take(&mut list.printed);
    if let Some(limit) = list.meter.passed() {
        // Results are dropped too: they describe a part of the work, and may be very many.
        return Outcome { exit_code: 1, stderr, error: Some(limit.to_string()), ..Outcome::default() };
    }
    let exit_code = match result {
        Ok(()) => 0,
        Err(message) => {
            list.say(Severity::Error, message);
            1
        }
    };
    let results = std::mem::take(&mut list.results).into();
    Outcome { exit_code, stderr, results, ..Outcome::default() }
}

/// Asks the host's runners in order. A runner without a list of its functions may only find out
/// here that it lacks the function.
fn run_hosted(
    runners: &[&dyn FunctionRunner],
    target: &Target,
    list: &mut ResourceList,
) -> Result<Outcome, Missing> {
    for runner in runners {
        match runner.run(target, list) {
            Ok(outcome) => return Ok(outcome),
            Err(RunError::NotAvailable) => {}
            Err(RunError::Failed(cause)) => {
                return Err(Missing::Other(format!(
                    "function runtime failed to evaluate function {:?}: {cause}",
                    target.text()
                )));
            }
        }
    }
    Err(not_available(target))
}

/// Returns the config of a function. It is looked up for each function, since earlier ones may have
/// changed it.
fn config(function: &Function, package: &str, items: &[Item]) -> Result<Option<Node>, String> {
    if let Some(path) = &function.config_path {
        let cleaned = clean(path);
        let is_config = |item: &&Item| item.package == package && item.path.as_deref() == Some(&cleaned);
        let mut found = items.iter().filter(is_config);
        return match (found.next(), found.next()) {
            (Some(item), None) => Ok(Some(item.root.clone())),
            _ => Err(format!("missing function config {path:?}")),
        };
    }
    if function.config_map.is_empty() {
        return Ok(None);
    }
    let data = function.config_map.iter().map(|(key, value)| Pair::new(key, Node::string(value)));
    let text = |key: &str, value: &str| Pair::new(key, Node::string(value));
    Ok(Some(Node::mapping(vec![
        text("apiVersion", "v1"),
        text("kind", "ConfigMap"),
        Pair::new("metadata", Node::mapping(vec![text("name", "function-input")])),
        Pair::new("data", Node::mapping(data.collect())),
    ])))
}

/// Restores comments that a function has dropped: an object without any comments gets those of its
/// input.
fn restore_comments(output: &mut [Item], input: &[Item]) {
    let known: BTreeMap<usize, &Item> = input.iter().filter_map(|item| Some((item.id?, item))).collect();
    for item in output.iter_mut().filter(|item| !has_comments(&item.root)) {
        if let Some(before) = item.id.and_then(|id| known.get(&id)) {
            copy(&before.root, &mut item.root);
        }
    }
}

/// Returns the path for an object without one: `<namespace>/<kind>_<name>.yaml`.
fn default_path(root: &Node) -> String {
    let text = |path: &[&str]| root.at(path).and_then(Node::text).unwrap_or_default();
    let file = format!("{}_{}.yaml", text(&["kind"]).to_lowercase(), text(&["metadata", "name"]));
    join(text(&["metadata", "namespace"]), &file)
}

/// Merges the output of a function into all items: changed ones in place, new ones at the end.
fn put_back(items: &mut Vec<Item>, output: Vec<Item>, given: &BTreeSet<usize>, next_id: &mut usize) {
    let mut changed: BTreeMap<usize, Item> = BTreeMap::new();
    let mut new = Vec::new();
    for item in output {
        match item.id {
            Some(id) if given.contains(&id) => drop(changed.insert(id, item)),
            _ => new.push(item),
        }
    }
    let kept = std::mem::take(items).into_iter().filter_map(|item| match item.id {
        Some(id) if given.contains(&id) => changed.remove(&id),
        _ => Some(item),
    });
    *items = kept.collect();
    for mut item in new {
        item.id = Some(*next_id);
        *next_id += 1;
        items.push(item);
    }
}
