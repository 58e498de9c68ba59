//! Limits for one built-in function (`packagevariants.md` 8.4). They count steps instead of
//! measuring time, so that a package exceeds a limit on every machine or on none.

use std::cell::Cell;

use groundwork_budget::{DEFAULT_STEPS, PARTS_PER_STEP};

/// Limits for a built-in function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NativeLimits {
    /// Steps (`crates/budget`). A fortieth is a field or pattern that is looked at, or a byte of
    /// text that is searched.
    pub steps: u64,
    /// Bytes of the texts that it writes, in objects and in results.
    pub bytes: u64,
}

impl Default for NativeLimits {
    fn default() -> Self {
        Self { steps: DEFAULT_STEPS, bytes: 512 << 20 }
    }
}

/// Reason why a function was ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Limit {
    #[error("took more than {0} steps")]
    Steps(u64),
    #[error("used more than {} MiB", _0 >> 20)]
    Bytes(u64),
}

/// Counter for one function. After a limit is exceeded, every request is denied: the function
/// leaves its loops, and its output is discarded.
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter {
    limits: NativeLimits,
    parts: Cell<u64>,
    bytes: Cell<u64>,
    passed: Cell<Option<Limit>>,
}

impl Meter {
    pub(crate) fn new(limits: NativeLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    pub(crate) fn limits(&self) -> NativeLimits {
        self.limits
    }

    /// Counts parts of steps, and reports whether they are within the limit.
    pub(crate) fn parts(&self, count: usize) -> bool {
        let most = self.limits.steps.saturating_mul(PARTS_PER_STEP);
        self.add(&self.parts, count, most, Limit::Steps(self.limits.steps))
    }

    /// Counts bytes, and reports whether they are within the limit. Each text has a fixed cost in
    /// addition to its bytes.
    pub(crate) fn bytes(&self, count: usize) -> bool {
        self.add(&self.bytes, count.saturating_add(64), self.limits.bytes, Limit::Bytes(self.limits.bytes))
    }

    /// Returns the first limit that was exceeded.
    pub(crate) fn passed(&self) -> Option<Limit> {
        self.passed.get()
    }

    fn add(&self, used: &Cell<u64>, count: usize, most: u64, limit: Limit) -> bool {
        used.set(used.get().saturating_add(u64::try_from(count).unwrap_or(u64::MAX)));
        if used.get() > most && self.passed.get().is_none() {
            self.passed.set(Some(limit));
        }
        self.passed.get().is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::NativeLimits;
    use crate::{Package, RenderOptions, render};

    /// Returns a package with `count` ConfigMaps of a few fields each.
    fn package(function: &str, count: usize, objects: impl Fn(usize) -> String) -> Package {
        let kptfile = format!(
            "apiVersion: kpt.dev/v1\nkind: Kptfile\nmetadata:\n  name: p\npipeline:\n  mutators:\n{function}"
        );
        let text: String = (0..count)
            .map(|number| {
                format!(
                    "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{number}\n{}",
                    objects(number)
                )
            })
            .collect();
        [("Kptfile".to_owned(), kptfile), ("all.yaml".to_owned(), text)].into()
    }

    fn ended(files: &Package) -> String {
        let native_limits = NativeLimits { steps: 25_000, bytes: 1 << 20 };
        let rendered = render(files, &RenderOptions { native_limits, ..RenderOptions::default() });
        assert_eq!(rendered.files, *files, "nothing of it counts");
        assert!(rendered.status.result.unwrap().items.iter().all(|item| item.results.is_empty()));
        rendered.error.unwrap()
    }

    fn function(image: &str, data: &str) -> String {
        format!("  - name: f\n    image: {image}\n    configMap: {{{data}}}\n")
    }

    /// A function that writes one long text to very many places is stopped.
    #[test]
    fn texts_that_multiply_are_ended() {
        let long = "x".repeat(10_000);
        let fields = |_: usize| "data: {a: v, b: v, c: v} # kpt-set: ${none}\n".to_owned();
        let set = |_: usize| "data:\n  a: v # kpt-set: ${s}\n".to_owned();
        let image = |_: usize| "spec: {containers: [{image: v}]}\n".to_owned();
        for (function, files) in [
            (
                "search-replace",
                package(&function("search-replace", &format!("by-value: v, put-value: {long}")), 60, fields),
            ),
            ("set-labels", package(&function("set-labels", &format!("a: {long}")), 200, fields)),
            ("set-annotations", package(&function("set-annotations", &format!("a: {long}")), 200, fields)),
            ("apply-setters", package(&function("apply-setters", &format!("s: {long}")), 200, set)),
            (
                "set-namespace",
                package(&function("set-namespace", &format!("namespace: {long}")), 200, fields),
            ),
            (
                "set-name-prefix",
                package(&function("set-name-prefix", &format!("prefix: {long}")), 200, fields),
            ),
        ] {
            assert_eq!(ended(&files), "package \".\": function \"f\": used more than 1 MiB", "{function}");
        }
        let files = package(&function("set-image", &format!("name: v, newTag: {long}")), 200, image);
        let files = files
            .into_iter()
            .map(|(path, text)| (path, text.replace("kind: ConfigMap", "kind: Pod")))
            .collect();
        assert_eq!(ended(&files), "package \".\": function \"f\": used more than 1 MiB");
    }

    /// Each replacement doubles the length of its target.
    #[test]
    fn replacements_that_double_are_ended() {
        let twice = |from: &str, to: &str| {
            format!(
                "- source: {{kind: ConfigMap, name: c0, fieldPath: data.{from}}}\n  targets:\n  - select: {{kind: ConfigMap, name: c0}}\n    \
                 fieldPaths: [data.{to}]\n    options: {{delimiter: \"-\", index: 1000000}}\n"
            )
        };
        let replacements: String = (0..60).map(|_| twice("a", "b") + &twice("b", "a")).collect();
        let config = format!(
            "apiVersion: fn.kpt.dev/v1alpha1\nkind: ApplyReplacements\nmetadata:\n  name: r\nreplacements:\n{replacements}"
        );
        let function = "  - name: f\n    image: apply-replacements\n    configPath: r.yaml\n";
        let mut files = package(function, 1, |_| "data: {a: xx, b: yy}\n".to_owned());
        files.insert("r.yaml".to_owned(), config);
        assert_eq!(ended(&files), "package \".\": function \"f\": used more than 1 MiB");
    }

    /// Very many replacements over very many objects exceed the limit of steps.
    #[test]
    fn loops_in_loops_are_ended() {
        let replacement = "- {sourceValue: x, targets: [{select: {kind: None}}]}\n";
        let config = format!(
            "apiVersion: fn.kpt.dev/v1alpha1\nkind: ApplyReplacements\nmetadata:\n  name: r\nreplacements:\n{}",
            replacement.repeat(200)
        );
        let function = "  - name: f\n    image: apply-replacements\n    configPath: r.yaml\n";
        let mut files = package(function, 200, |_| String::new());
        files.insert("r.yaml".to_owned(), config);
        assert_eq!(ended(&files), "package \".\": function \"f\": took more than 25000 steps");
    }
}
