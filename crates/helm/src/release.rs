//! Release records, one for each revision, in the format in which Helm stores and reads them
//! (`helm.md` 8).

use std::io::{Read as _, Write as _};

use data_encoding::BASE64;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use groundwork_go::text::quote;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::chart::{Chart, File};
use crate::manifest::Hook;
use crate::render::{Release, Rendered};
use crate::values::Table;

/// Largest record in bytes, compressed and in base64. A Secret may have 48,576 bytes more, which
/// leaves room for its other fields.
const LARGEST: usize = 1_000_000;
/// Largest unpacked record in bytes.
const LARGEST_UNPACKED: u64 = 24 << 20;
const GZIP: [u8; 2] = [0x1f, 0x8b];
const LONGEST_NAME: usize = 53;
/// The pattern of [`check_release_name`], as messages show it.
const NAME: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The state of a revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Unknown,
    Deployed,
    Superseded,
    Failed,
    Uninstalled,
    Uninstalling,
    PendingInstall,
    PendingUpgrade,
    PendingRollback,
}

impl Status {
    const ALL: [(Self, &'static str); 9] = [
        (Self::Unknown, "unknown"),
        (Self::Deployed, "deployed"),
        (Self::Superseded, "superseded"),
        (Self::Failed, "failed"),
        (Self::Uninstalled, "uninstalled"),
        (Self::Uninstalling, "uninstalling"),
        (Self::PendingInstall, "pending-install"),
        (Self::PendingUpgrade, "pending-upgrade"),
        (Self::PendingRollback, "pending-rollback"),
    ];

    /// Returns the word in records and labels.
    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(status, _)| *status == self).map_or("unknown", |(_, text)| text)
    }

    fn parse(text: &str) -> Self {
        Self::ALL.iter().find(|(_, known)| *known == text).map_or(Self::Unknown, |(status, _)| *status)
    }

    /// Reports whether an operation on the revision is running, or was when its process ended.
    pub fn is_pending(self) -> bool {
        matches!(self, Self::PendingInstall | Self::PendingUpgrade | Self::PendingRollback)
    }
}

/// The reason why a record cannot be read or stored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("the release record cannot be read: it is not base64, gzip and JSON as Helm writes it")]
    Unreadable,
    #[error("release record too large: {0} bytes after compression")]
    TooLarge(usize),
}

/// One revision of a release. Unknown members are kept as they are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record(Map<String, Value>);

/// The bytes of a record, and the parts that were left out to make it small enough.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encoded {
    pub data: Vec<u8>,
    pub truncated: Option<&'static str>,
}

impl Record {
    /// Creates the record of a revision that is about to be applied.
    pub fn new(chart: &Chart, given: &Table, rendered: &Rendered, release: &Release) -> Self {
        let (description, status) = match release.is_upgrade {
            true => ("Preparing upgrade", Status::PendingUpgrade),
            false => ("Initial install underway", Status::PendingInstall),
        };
        let hooks: Vec<Value> = rendered.hooks.iter().map(hook).collect();
        let mut record = json!({
            "name": release.name,
            "info": {
                "first_deployed": "", "last_deployed": "", "deleted": "",
                "description": description, "status": status.as_str(),
            },
            "chart": {
                "metadata": without_empty(json!(chart.metadata)), "lock": null,
                "templates": files(&chart.templates), "values": chart.values,
                "schema": chart.schema.as_ref().map(|schema| BASE64.encode(schema)),
                "files": files(&chart.files),
            },
            "manifest": rendered.manifest(),
            "version": release.revision,
            "namespace": release.namespace,
            "apply_method": "ssa",
        });
        if !rendered.notes.is_empty() {
            record["info"]["notes"] = json!(rendered.notes);
        }
        if !given.is_empty() {
            record["config"] = json!(given);
        }
        if !hooks.is_empty() {
            record["hooks"] = json!(hooks);
        }
        Self::of(record)
    }

    fn of(record: Value) -> Self {
        Self(if let Value::Object(members) = record { members } else { Map::new() })
    }

    /// Creates a new revision with the content of an earlier one.
    pub fn rollback(target: &Self, revision: i64) -> Self {
        let mut record = target.clone();
        record.0.insert("version".to_owned(), json!(revision));
        record.set_status(Status::PendingRollback, &format!("Rollback to {}", target.revision()));
        for hook in record.hooks_mut() {
            hook["last_run"] = no_run();
            if let Value::Object(members) = hook {
                members.remove(HOOK_RUNS);
            }
        }
        record
    }

    /// Reads the entry `release` in the data of a Secret, after the API's own base64 is decoded.
    ///
    /// # Errors
    ///
    /// The data is not a record.
    pub fn decode(data: &[u8]) -> Result<Self, RecordError> {
        let packed = BASE64.decode(data.trim_ascii()).map_err(|_| RecordError::Unreadable)?;
        let mut text = Vec::new();
        // Like Helm, this also reads records without compression, which early versions of Helm
        // wrote.
        if packed.starts_with(&GZIP) {
            let mut unpacked = GzDecoder::new(packed.as_slice()).take(LARGEST_UNPACKED);
            unpacked.read_to_end(&mut text).map_err(|_| RecordError::Unreadable)?;
        } else {
            text = packed;
        }
        serde_json::from_slice(&text).map(Self).map_err(|_| RecordError::Unreadable)
    }

    /// Returns the entry `release` for the data of a Secret. If the record is too large, its files
    /// are left out, then its templates, then its schema, which only people read (`helm.md` 15,
    /// R30).
    ///
    /// # Errors
    ///
    /// The record is too large even without them.
    pub fn encode(&self) -> Result<Encoded, RecordError> {
        let mut record = self.clone();
        let mut size = 0;
        for (truncated, left_out) in [
            (None, None),
            (Some("files"), Some("files")),
            (Some("files.templates"), Some("templates")),
            (Some("files.templates.schema"), Some("schema")),
        ] {
            if let (Some(member), Some(Value::Object(chart))) = (left_out, record.0.get_mut("chart")) {
                chart.insert(member.to_owned(), Value::Null);
            }
            let data = packed(&record.0);
            size = data.len();
            if size <= LARGEST {
                return Ok(Encoded { data, truncated });
            }
        }
        Err(RecordError::TooLarge(size))
    }

    fn text<'a>(&'a self, path: &[&str]) -> &'a str {
        let first = path.split_first().and_then(|(first, rest)| Some((self.0.get(*first)?, rest)));
        let found =
            first.and_then(|(value, rest)| rest.iter().try_fold(value, |value, name| value.get(*name)));
        found.and_then(Value::as_str).unwrap_or_default()
    }

    pub fn name(&self) -> &str {
        self.text(&["name"])
    }

    pub fn namespace(&self) -> &str {
        self.text(&["namespace"])
    }

    pub fn revision(&self) -> i64 {
        self.0.get("version").and_then(Value::as_i64).unwrap_or_default()
    }

    pub fn status(&self) -> Status {
        Status::parse(self.text(&["info", "status"]))
    }

    pub fn description(&self) -> &str {
        self.text(&["info", "description"])
    }

    pub fn manifest(&self) -> &str {
        self.text(&["manifest"])
    }

    pub fn chart_name(&self) -> &str {
        self.text(&["chart", "metadata", "name"])
    }

    pub fn chart_version(&self) -> &str {
        self.text(&["chart", "metadata", "version"])
    }

    /// Returns the time at which the last operation on the revision began, as recorded; empty if
    /// there is none.
    pub fn last_deployed(&self) -> &str {
        self.text(&["info", "last_deployed"])
    }

    /// Sets status and description together.
    pub fn set_status(&mut self, status: Status, description: &str) {
        self.set_info("status", json!(status.as_str()));
        self.set_info("description", json!(description));
    }

    /// Sets `first_deployed`, `last_deployed` or `deleted`, in RFC 3339.
    pub fn set_time(&mut self, member: &str, time: &str) {
        self.set_info(member, json!(time));
    }

    /// Takes over the time of the first deployment from the revision before.
    pub fn keep_first_deployed(&mut self, before: &Self) {
        let first = before.text(&["info", "first_deployed"]).to_owned();
        self.set_info("first_deployed", json!(first));
    }

    fn set_info(&mut self, member: &str, value: Value) {
        let info = self.0.entry("info").or_insert_with(|| json!({}));
        if !info.is_object() {
            *info = json!({});
        }
        info[member] = value;
    }

    /// Returns the hooks as recorded.
    pub fn hooks(&self) -> &[Value] {
        self.0.get("hooks").and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    pub fn hooks_mut(&mut self) -> &mut [Value] {
        self.0.get_mut("hooks").and_then(Value::as_array_mut).map_or(&mut [], Vec::as_mut_slice)
    }

    /// Reports whether a new rendering has the same content as this revision: chart, values,
    /// manifest and hooks (`helm.md` 15, R20).
    pub fn says_the_same(&self, other: &Self) -> bool {
        let same = |member: &str| {
            let of = |record: &Self| record.0.get(member).cloned().unwrap_or_default();
            of(self) == of(other)
        };
        let hooks = |record: &Self| -> Vec<Value> {
            let without_run = |hook: &Value| {
                let mut hook = hook.clone();
                if let Value::Object(members) = &mut hook {
                    members.retain(|name, _| !["last_run", HOOK_RUNS].contains(&name.as_str()));
                }
                hook
            };
            record.hooks().iter().map(without_run).collect()
        };
        (self.chart_name(), self.chart_version()) == (other.chart_name(), other.chart_version())
            && same("config")
            && same("manifest")
            && hooks(self) == hooks(other)
    }
}

/// Member of our own: the progress of a hook at each event. A hook may belong to several events,
/// and a process may end at any time.
pub const HOOK_RUNS: &str = "groundworkRuns";

fn no_run() -> Value {
    json!({"started_at": "", "completed_at": "", "phase": ""})
}

fn hook(hook: &Hook) -> Value {
    let mut record = json!({
        "name": hook.name, "kind": hook.kind, "path": hook.file, "manifest": hook.content, "events": hook.events,
        "last_run": no_run(),
    });
    if hook.weight != 0 {
        record["weight"] = json!(hook.weight);
    }
    for (member, words) in
        [("delete_policies", &hook.delete_policies), ("output_log_policies", &hook.output_log_policies)]
    {
        if !words.is_empty() {
            record[member] = json!(words);
        }
    }
    record
}

fn files(files: &[File]) -> Value {
    if files.is_empty() {
        return Value::Null;
    }
    files.iter().map(|file| json!({"name": file.path, "data": BASE64.encode(&file.data)})).collect()
}

fn packed(record: &Map<String, Value>) -> Vec<u8> {
    let text = serde_json::to_vec(record).unwrap_or_default();
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    // Writing into memory does not fail.
    let packed = encoder.write_all(&text).and_then(|()| encoder.finish()).unwrap_or_default();
    BASE64.encode(&packed).into_bytes()
}

/// Removes the empty members that Go leaves out.
fn without_empty(value: Value) -> Value {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Bool(is) => !is,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Number(_) => false,
    };
    match value {
        Value::Object(members) => {
            let left = members.into_iter().map(|(name, value)| (name, without_empty(value)));
            Value::Object(left.filter(|(_, value)| !is_empty(value)).collect())
        }
        Value::Array(items) => items.into_iter().map(without_empty).collect(),
        plain => plain,
    }
}

/// The reason why a name is not valid for a release, in Helm's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseNameError {
    #[error("release name \"\": no name provided")]
    Missing,
    #[error(
        "release name {}: invalid release name, must match regex {NAME} and the length must not be longer than {LONGEST_NAME}",
        quote(.0.as_bytes())
    )]
    Invalid(String),
}

/// Checks the name of a release: a DNS subdomain with room for the suffixes that charts append to
/// it.
///
/// # Errors
///
/// The name breaks one of these rules; see [`ReleaseNameError`].
pub fn check_release_name(name: &str) -> Result<(), ReleaseNameError> {
    let is_end =
        |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let is_part = |part: &str| {
        let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        is_end(part.bytes().next()) && is_end(part.bytes().last()) && part.bytes().all(is_fit)
    };
    match name {
        "" => Err(ReleaseNameError::Missing),
        _ if name.len() <= LONGEST_NAME && name.split('.').all(is_part) => Ok(()),
        _ => Err(ReleaseNameError::Invalid(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Renderer, Request};

    fn record() -> Record {
        let files = vec![
            File::new("Chart.yaml", *b"{apiVersion: v2, name: web, version: 0.1.0, appVersion: \"2\"}"),
            File::new("values.yaml", *b"a: 1"),
            File::new("templates/cm.yaml", *b"kind: ConfigMap\nmetadata: {name: c}\ndata: {a: \"{{ .Values.a }}\"}\n"),
            File::new(
                "templates/h.yaml",
                *b"kind: Job\nmetadata:\n  name: m\n  annotations: {helm.sh/hook: pre-install, helm.sh/hook-weight: \"2\"}\n",
            ),
            File::new("templates/NOTES.txt", *b"Hello"),
        ];
        let renderer = Renderer::new(Chart::from_files(files).unwrap());
        let values = json!({"a": 2.0}).as_object().unwrap().clone();
        let release = Release::install("shop", "prod");
        let request =
            Request { values: values.clone(), release: Some(release.clone()), ..Request::default() };
        Record::new(renderer.chart(), &values, &renderer.render(&request).unwrap(), &release)
    }

    #[test]
    fn what_a_record_says() {
        let record = record();
        assert_eq!((record.name(), record.namespace(), record.revision()), ("shop", "prod", 1));
        assert_eq!(
            (record.status(), record.description()),
            (Status::PendingInstall, "Initial install underway")
        );
        assert_eq!((record.chart_name(), record.chart_version()), ("web", "0.1.0"));
        assert!(record.manifest().starts_with("---\n# Source: web/templates/cm.yaml\nkind: ConfigMap\n"));
        let json = Value::Object(record.0.clone());
        assert_eq!(json["info"]["notes"], "Hello");
        let metadata = json!({"name": "web", "version": "0.1.0", "apiVersion": "v2", "appVersion": "2"});
        assert_eq!(json["chart"]["metadata"], metadata);
        assert_eq!((&json["chart"]["files"], &json["chart"]["schema"]), (&Value::Null, &Value::Null));
        let hook = &json["hooks"][0];
        assert_eq!(
            (&hook["weight"], &hook["events"], &hook["path"]),
            (&json!(2), &json!(["pre-install"]), &json!("web/templates/h.yaml"))
        );
        assert_eq!(hook.get("delete_policies"), None);
    }

    /// Case: unknown members survive (`helm.md` 16, 6).
    #[test]
    fn records_come_back_as_they_were() {
        let mut record = record();
        record.0.insert("unknown".to_owned(), json!({"a": [1, null]}));
        let encoded = record.encode().unwrap();
        assert_eq!((Record::decode(&encoded.data).as_ref(), encoded.truncated), (Ok(&record), None));
        let plain = BASE64.encode(Value::Object(record.0.clone()).to_string().as_bytes());
        assert_eq!(Record::decode(plain.as_bytes()), Ok(record));
        for broken in [&b"%"[..], b"", &BASE64.encode(b"no json").into_bytes()] {
            assert_eq!(Record::decode(broken), Err(RecordError::Unreadable));
        }
    }

    /// Case of `helm.md` 15, R30.
    #[test]
    fn large_records_shrink() {
        let noise = |length: usize| {
            let mut state = 1_u64;
            let next = move || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state >> 56) as u8
            };
            BASE64.encode(&std::iter::repeat_with(next).take(length).collect::<Vec<u8>>())
        };
        let mut record = record();
        record.0["chart"]["files"] = json!([{"name": "f", "data": noise(900_000)}]);
        assert_eq!(record.encode().unwrap().truncated, Some("files"));
        record.0["chart"]["templates"] = json!([{"name": "f", "data": noise(900_000)}]);
        assert_eq!(record.encode().unwrap().truncated, Some("files.templates"));
        record.0["chart"]["schema"] = json!(noise(900_000));
        assert_eq!(record.encode().unwrap().truncated, Some("files.templates.schema"));
        record.0.insert("manifest".to_owned(), json!(noise(900_000)));
        assert!(matches!(record.encode(), Err(RecordError::TooLarge(size)) if size > LARGEST));
    }

    /// The answers are those of Helm's `ValidateReleaseName`.
    #[test]
    fn names() {
        for name in ["shop", "a.b-c", "1", "a--b", "0.0"] {
            assert_eq!(check_release_name(name), Ok(()), "{name}");
        }
        for name in ["Rel", "-a", "a-", "a..b", ".a", "a.", "a_b", "a b", "a\n", "é", "a.-b", "a-.b"] {
            assert_eq!(check_release_name(name), Err(ReleaseNameError::Invalid(name.to_owned())), "{name}");
        }
        assert_eq!(check_release_name(&"a".repeat(53)), Ok(()));
        assert!(check_release_name(&"a".repeat(54)).is_err());
        assert_eq!(check_release_name("").unwrap_err().to_string(), "release name \"\": no name provided");
        let text = check_release_name("Rel\u{1}").unwrap_err().to_string();
        assert_eq!(
            text,
            "release name \"Rel\\x01\": invalid release name, must match regex \
             ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than 53"
        );
    }

    #[test]
    fn the_same_again() {
        let (before, mut after) = (record(), record());
        after.set_status(Status::Deployed, "Install complete");
        after.hooks_mut()[0]["last_run"]["phase"] = json!("Succeeded");
        assert!(before.says_the_same(&after));
        after.0.insert("config".to_owned(), json!({"a": 3}));
        assert!(!before.says_the_same(&after));
    }
}
