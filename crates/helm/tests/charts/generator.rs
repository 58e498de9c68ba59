//! Generator of charts: common idioms in templates, and trees of charts with values for them.

use std::collections::BTreeMap;

use groundwork_helm::values::Table;
use serde_json::{Value, json};

use crate::case::Case;
use crate::random::Random;

const IDIOMS: &str = include_str!("../data/idioms.tmpl");
const HELPERS: &str = include_str!("../data/helpers.tpl");
const VALUES: &str = include_str!("../data/idioms.json");
const SEPARATOR: &str = "\n=====\n";

/// Chart.yaml of the charts with idioms.
const DESCRIPTION: &str = "apiVersion: v2\nname: c\nversion: 0.1.0+b\nappVersion: \"1.2\"\nkeywords: [a, b]\n\
                           maintainers:\n- name: m\n  email: e\nannotations: {x: \"1\"}\ntype: application\n";
const KINDS: [&str; 12] = [
    "ConfigMap",
    "Secret",
    "Deployment",
    "Service",
    "ServiceAccount",
    "Job",
    "Ingress",
    "Namespace",
    "Zebra",
    "Apple",
    "CustomResourceDefinition",
    "ClusterRole",
];
const KEYS: [&str; 6] = ["a", "b", "m", "enabled", "global", "list"];
const NAMES: [&str; 4] = ["s", "t", "u", "w"];

pub(crate) struct Generator {
    random: Random,
    idioms: Vec<&'static str>,
}

type Files = BTreeMap<String, String>;

impl Generator {
    pub(crate) fn new(seed: u64) -> Generator {
        Generator { random: Random::new(seed), idioms: IDIOMS.trim_end().split(SEPARATOR).collect() }
    }

    pub(crate) fn case(&mut self, at: usize) -> Case {
        // The kinds of cases take turns, so that each idiom occurs with every seed.
        match at % 3 {
            0 => self.idiom(at),
            1 => self.tree(at),
            _ => self.documents(at),
        }
    }

    /// Generates a chart with some idioms, one of them a manifest or a text that is never read as
    /// YAML.
    fn idiom(&mut self, at: usize) -> Case {
        let first = self.idioms[(at / 3) % self.idioms.len()];
        let file = if self.random.chance(30) { "templates/t.yaml" } else { "templates/NOTES.txt" };
        let mut text = first.to_owned() + "\n";
        if self.random.chance(30) {
            let second: &str = self.random.pick::<&str>(&self.idioms);
            text.push_str(second);
        }
        let mut values: Value = serde_json::from_str(VALUES).expect("it is JSON");
        self.change(&mut values);
        let files = [
            ("Chart.yaml", DESCRIPTION.to_owned()),
            ("templates/_h.tpl", HELPERS.to_owned()),
            (file, text),
            ("templates/other.yaml", "o: {{ .Values.name }}\n".to_owned()),
            ("f/a.txt", "A\n".to_owned()),
            ("f/l.txt", "l1\nl2\n\nl4\n".to_owned()),
            ("f/t.tpl", "T {{ .Values.name }}\n".to_owned()),
            ("values.yaml", values.to_string()),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text));
        Case::of(&format!("idiom {at}"), files, Table::new())
    }

    /// Removes one of the values, or replaces it.
    fn change(&mut self, values: &mut Value) {
        let Some(members) = values.as_object_mut().filter(|_| self.random.chance(60)) else { return };
        let keys: Vec<String> = members.keys().cloned().collect();
        let key = self.random.pick(&keys).clone();
        match self.random.below(4) {
            0 => drop(members.remove(&key)),
            _ => drop(members.insert(key, self.scalar())),
        }
    }

    fn scalar(&mut self) -> Value {
        let scalars = [
            json!(null),
            json!(true),
            json!(false),
            json!(0),
            json!(1),
            json!(2.5),
            json!(1_234_567),
            json!(""),
            json!("x"),
            json!("on"),
            json!("1"),
            json!("a: b"),
            json!("{{ .Release.Name }}"),
            json!("l1\nl2\n"),
            json!([]),
            json!({}),
            json!([1, "x", null]),
        ];
        self.random.pick(&scalars).clone()
    }

    fn values(&mut self, depth: usize) -> Table {
        let mut table = Table::new();
        for _ in 0..self.random.below(4) {
            let pool: &[&str] = if self.random.chance(35) { &NAMES } else { &KEYS };
            let key = (*self.random.pick(pool)).to_owned();
            let wants_table = key == "global" || NAMES.contains(&key.as_str());
            let value = if depth > 0 && (wants_table || self.random.chance(40)) && !self.random.chance(4) {
                Value::Object(self.values(depth - 1))
            } else if key == "enabled" {
                Value::Bool(self.random.chance(50))
            } else {
                self.scalar()
            };
            table.insert(key, value);
        }
        table
    }

    /// Generates a tree of charts with dependencies, and values for it.
    fn tree(&mut self, at: usize) -> Case {
        let mut files = Files::new();
        self.chart(&mut files, "", "c", 2);
        let mut values = self.values(3);
        if self.random.chance(30) {
            values
                .insert("tags".to_owned(), json!({"x": self.random.chance(50), "y": self.random.chance(50)}));
        }
        Case::of(&format!("tree {at}"), files, values)
    }

    fn chart(&mut self, files: &mut Files, folder: &str, name: &str, depth: usize) {
        let mut description = format!("apiVersion: v2\nname: {name}\nversion: 0.1.0\n");
        let mut subs: Vec<(&str, bool)> = Vec::new();
        for sub in NAMES.into_iter().take(if depth > 0 { NAMES.len() } else { 0 }) {
            if self.random.chance(40) && sub != name {
                let is_leaf = depth == 1 || self.random.chance(60);
                self.chart(
                    files,
                    &format!("{folder}charts/{sub}/"),
                    sub,
                    if is_leaf { 0 } else { depth - 1 },
                );
                subs.push((sub, is_leaf));
            }
        }
        let mut entries = Vec::new();
        for &(sub, is_leaf) in &subs {
            if self.random.chance(75) {
                entries.push(self.entry(sub, ""));
            }
            // A chart with a second entry has no subcharts, because Helm handles those wrongly
            // (`helm.md` 15, R3).
            if is_leaf && self.random.chance(20) {
                entries.push(self.entry(sub, &format!("{sub}2")));
            }
        }
        if !entries.is_empty() {
            description.push_str(&format!("dependencies: {}\n", Value::Array(entries)));
        }
        files.insert(format!("{folder}Chart.yaml"), description);
        let mut defaults = self.values(2);
        if self.random.chance(40) {
            defaults.insert("exports".to_owned(), json!({"data": self.values(1), "k": self.values(1)}));
        }
        if !defaults.is_empty() {
            files.insert(format!("{folder}values.yaml"), Value::Object(defaults).to_string());
        }
        let template = "v: {{ toJson .Values | quote }}\nd: {{ toJson .Chart.Dependencies | quote }}\n\
                        s: {{ keys .Subcharts | sortAlpha | join \",\" }}\nn: {{ .Template.Name }} {{ .Chart.Name }} {{ include \"who\" . }}\n";
        files.insert(format!("{folder}templates/t.yaml"), template.to_owned());
        let who = format!("{{{{ define \"who\" }}}}{name}{{{{ end }}}}");
        files.insert(format!("{folder}templates/_{name}.tpl"), who);
    }

    fn entry(&mut self, name: &str, alias: &str) -> Value {
        let mut entry = json!({"name": name, "version": "*"});
        if self.random.chance(8) {
            entry["version"] = "^9.0.0".into();
        }
        if !alias.is_empty() {
            entry["alias"] = alias.into();
        }
        if self.random.chance(40) {
            let of = if alias.is_empty() { name } else { alias };
            let conditions = [
                format!("{of}.enabled"),
                "enabled".to_owned(),
                format!("{of}.a,enabled"),
                "global.enabled".to_owned(),
            ];
            entry["condition"] = self.random.pick(&conditions).clone().into();
        }
        if self.random.chance(30) {
            entry["tags"] = self.random.pick(&[json!(["x"]), json!(["x", "y"]), json!(["z"])]).clone();
        }
        if self.random.chance(30) {
            let imports = [
                json!(["data"]),
                json!([{"child": "m", "parent": "p.q"}]),
                json!(["k", {"child": "exports.data", "parent": "."}, "none"]),
            ];
            entry["import-values"] = self.random.pick(&imports).clone();
        }
        entry
    }

    /// Generates documents of all kinds, hooks among them, in files at several depths.
    fn documents(&mut self, at: usize) -> Case {
        let mut files = Files::new();
        for file in ["a.yaml", "b.yaml", "z/c.yaml", "_skipped.yaml", "noext", "NOTES.txt", "y/NOTES.txt"] {
            if self.random.chance(60) {
                let count = 1 + self.random.below(4);
                let documents: Vec<String> = (0..count).map(|index| self.document(file, index)).collect();
                let separators = ["\n---\n", "\n--- # next\n", "\n\n---\n\n", "\r\n---\r\n", "\n---\n---\n"];
                files.insert(format!("templates/{file}"), documents.join(*self.random.pick(&separators)));
            }
        }
        if self.random.chance(30) {
            files.insert("crds/x.yaml".to_owned(), "kind: CustomResourceDefinition\n".to_owned());
        }
        let mut case = Case::of(&format!("documents {at}"), files, Table::new());
        case.include_crds = self.random.chance(50);
        case.from = self.random.pick(&["", "archive"]).to_string();
        case.release.is_upgrade = self.random.chance(20);
        case
    }

    fn document(&mut self, file: &str, index: usize) -> String {
        let kind = *self.random.pick(&KINDS);
        let words = [
            "pre-install",
            "post-install,pre-upgrade",
            " Test ",
            "test-success",
            "crd-install",
            "",
            "pre-delete, nope",
        ];
        let annotation = if self.random.chance(35) {
            let (word, weight) = (self.random.pick(&words), self.random.pick(&["1", "-5", "+3", "x", "1.5"]));
            format!(
                "\n  annotations:\n    helm.sh/hook: \"{word}\"\n    helm.sh/hook-weight: \"{weight}\"\n    helm.sh/hook-delete-policy: hook-succeeded, Before-Hook-Creation"
            )
        } else {
            String::new()
        };
        match self.random.below(20) {
            0 => "# only a comment".to_owned(),
            1 => "- a list".to_owned(),
            2 => "a: [".to_owned(),
            3 => "{{ if false }}x{{ end }}".to_owned(),
            4 => format!("metadata: {{name: {{{{ .Release.Name }}}}-{index}}}"),
            5 => format!("data: |\n  ---\n  x\nkind: {kind}"),
            _ => format!(
                "apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {{{{ .Release.Name }}}}-{index}{annotation}\nfile: {file}"
            ),
        }
    }
}
