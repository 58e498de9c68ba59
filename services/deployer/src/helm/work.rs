//! Work on charts in worker processes, because archives, templates and values come from untrusted
//! authors.
//!
//! ```text
//! rendering ──Task──> Pool ──> worker: serve ──> Chart::from_archive (kept), Renderer, Record
//!      │  ^                       └─Question: the archive, `lookup`─┐
//!      │  └─────────Answer: the archive, objects of the cluster ────┘
//!      └──Said, Described
//! ```
//!
//! A worker has no credentials. The service answers `lookup` for it, with the rights of the Target.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Instant;

use groundwork_blueprint::Capabilities as System;
use groundwork_budget::TemplateLimits;
use groundwork_gotemplate::{Deadline, Grants};
use groundwork_helm::{
    Capabilities, Chart, Lookup, Record, Release, RenderError, Rendered, Renderer, Request, TIME_LIMIT,
};
use groundwork_sandbox::{Connection, pack, reply, unpack};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::redact::{Remembering, withhold_in_warnings, without_values};

/// Bytes of archives whose parsed charts a worker caches. A parsed chart takes several times the
/// size of its archive.
const KEPT_BYTES: usize = 4 << 20;
/// Number of parsed charts that a worker caches.
const KEPT: usize = 32;

/// A task for a worker: a step with the chart of an archive.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    /// SHA-256 of the archive, in hexadecimal digits.
    pub(super) digest: String,
    pub(super) limits: TemplateLimits,
    pub(super) step: Step,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Step {
    /// Check that the archive is a chart.
    Load,
    /// Compute the values of the whole tree, without running a template.
    Describe(Input),
    Render(Input),
}

/// Input of a rendering.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Input {
    pub(super) values: Map<String, Value>,
    pub(super) release: Release,
    pub(super) capabilities: Capabilities,
    pub(super) skip_schema: bool,
}

/// Result of a rendering.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Said {
    pub(super) rendered: Rendered,
    /// The rendering as a record for the history of the release.
    pub(super) record: Record,
}

/// Data of a chart that exports may show.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Described {
    pub(super) values: Map<String, Value>,
    pub(super) name: String,
    pub(super) version: String,
    pub(super) app_version: String,
}

/// A question of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Asks for the archive of the task.
    Archive,
    LookUp {
        api_version: String,
        kind: String,
        namespace: String,
        name: String,
    },
}

/// Answer to a question. The bytes of an archive follow after it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ServiceAnswer {
    Archive,
    Found(Value),
    Failed(String),
}

/// Runs tasks until the service closes the connection.
pub(crate) fn serve(connection: &Connection) {
    let worker = Worker { connection: connection.clone(), kept: RefCell::default() };
    connection.serve_exchanges(|task, _| worker.work(task));
}

struct Worker {
    connection: Connection,
    /// Parsed charts, the last one used at the end.
    kept: RefCell<Vec<Kept>>,
}

struct Kept {
    digest: String,
    renderer: Arc<Renderer>,
    bytes: usize,
}

impl Worker {
    /// Runs a task and encodes its result, or the chart's error as text.
    fn work(&self, Task { digest, limits, step }: Task) -> Vec<u8> {
        let renderer = self.renderer(&digest);
        match step {
            Step::Load => reply(Some(&renderer.map(drop)), &[]),
            Step::Describe(input) => {
                let described = renderer.and_then(|renderer| describe(&renderer, input));
                reply(Some(&described), &[])
            }
            Step::Render(input) => {
                let lookup = AskedCluster(self.connection.clone());
                reply(Some(&renderer.and_then(|renderer| render(&renderer, &input, limits, lookup))), &[])
            }
        }
    }

    /// Returns the renderer of an archive. Small charts are parsed once and cached.
    fn renderer(&self, digest: &str) -> Result<Arc<Renderer>, String> {
        let mut kept = self.kept.borrow_mut();
        if let Some(at) = kept.iter().position(|kept| kept.digest == digest) {
            let known = kept.remove(at);
            let renderer = Arc::clone(&known.renderer);
            kept.push(known);
            return Ok(renderer);
        }
        let archive =
            ask(&self.connection, &Question::Archive).and_then(|(answer, archive)| match answer {
                ServiceAnswer::Archive => Ok(archive),
                ServiceAnswer::Found(_) | ServiceAnswer::Failed(_) => {
                    Err("the archive is not available".to_owned())
                }
            })?;
        let chart = Chart::from_archive(&archive).map_err(|error| error.to_string())?;
        let renderer = Arc::new(Renderer::new(chart));
        let new = Kept { digest: digest.to_owned(), renderer: Arc::clone(&renderer), bytes: archive.len() };
        kept.push(new);
        while kept.len() > KEPT || kept.iter().map(|kept| kept.bytes).sum::<usize>() > KEPT_BYTES {
            kept.remove(0);
        }
        Ok(renderer)
    }
}

fn ask(connection: &Connection, question: &Question) -> Result<(ServiceAnswer, Vec<u8>), String> {
    let question = pack(question, &[]).map_err(|error| error.to_string())?;
    // If the service is gone, the error of this call ends the worker.
    let message = connection.ask(&question).map_err(|error| error.to_string())?;
    let (answer, body) = unpack(&message).map_err(|error| error.to_string())?;
    Ok((answer, body.to_vec()))
}

fn describe(renderer: &Renderer, input: Input) -> Result<Described, String> {
    let request = Request { skip_schema: true, ..plain(input) };
    let prepared = renderer.prepare(&request).map_err(|error| error.to_string())?;
    let metadata = prepared.chart.metadata;
    Ok(Described {
        values: prepared.values,
        name: metadata.name,
        version: metadata.version,
        app_version: metadata.app_version,
    })
}

pub(super) fn render(
    renderer: &Renderer,
    input: &Input,
    limits: TemplateLimits,
    lookup: impl Lookup + 'static,
) -> Result<Said, String> {
    let begun = Instant::now();
    let end = begun + TIME_LIMIT;
    let lookup = Arc::new(Remembering::new(lookup));
    let error = match say(renderer, input, limits, Arc::clone(&lookup) as Arc<dyn Lookup>, end) {
        Ok(mut said) => {
            withhold_in_warnings(&mut said.rendered.warnings, renderer.chart(), &input.values);
            return Ok(said);
        }
        Err(error) => error,
    };
    // Removing values from the message needs more renderings. If the first one was slow, fewer
    // words of the message are kept instead.
    let is_quick = begun.elapsed() < TIME_LIMIT / 8;
    Err(without_values(&error, renderer.chart(), &input.values, &lookup.found(), |values, lookup| {
        let input = Input { values, ..input.clone() };
        is_quick
            .then(|| say(renderer, &input, limits, lookup, end).err().map(|error| error.to_string()))
            .flatten()
    }))
}

fn say(
    renderer: &Renderer,
    input: &Input,
    limits: TemplateLimits,
    lookup: Arc<dyn Lookup>,
    end: Instant,
) -> Result<Said, RenderError> {
    let system = System::system();
    let request = Request {
        grants: Grants { clock: system.clock, randomness: system.randomness, ..Grants::default() },
        deadline: Some(Deadline::new(move || Instant::now() >= end)),
        limits,
        lookup: Some(lookup),
        ..plain(input.clone())
    };
    let prepared = renderer.prepare(&request)?;
    let chart = prepared.chart.clone();
    let rendered = renderer.finish(prepared, &request)?;
    let record = Record::new(&chart, &input.values, &rendered, &input.release);
    Ok(Said { rendered, record })
}

fn plain(input: Input) -> Request {
    Request {
        values: input.values,
        release: Some(input.release),
        capabilities: input.capabilities,
        skip_schema: input.skip_schema,
        ..Request::default()
    }
}

/// The cluster as a worker sees it: each look-up is a question to the service.
struct AskedCluster(Connection);

impl Lookup for AskedCluster {
    fn look_up(&self, api_version: &str, kind: &str, namespace: &str, name: &str) -> Result<Value, String> {
        let question = Question::LookUp {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        match ask(&self.0, &question)?.0 {
            ServiceAnswer::Found(value) => Ok(value),
            ServiceAnswer::Failed(text) => Err(text),
            ServiceAnswer::Archive => Err("the answer belongs to another request".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use groundwork_helm::File;
    use serde_json::json;

    use super::*;

    struct Nothing;

    impl Lookup for Nothing {
        fn look_up(&self, _: &str, _: &str, _: &str, _: &str) -> Result<Value, String> {
            Ok(json!({}))
        }
    }

    /// The result of a worker arrives unchanged, with hooks and numbers.
    #[test]
    fn renderings_come_as_they_went() {
        let hook = "kind: Job\nmetadata:\n  name: a\n  annotations: {helm.sh/hook: 'pre-install,test', helm.sh/hook-weight: '3'}\n";
        let files = vec![
            File::new("Chart.yaml", *b"{apiVersion: v2, name: web, version: 0.1.0, appVersion: '7'}"),
            File::new("values.yaml", *b"{port: 80, share: 0.12345678901234568}"),
            File::new("templates/service.yaml", *b"kind: Service\nport: {{ .Values.port }}\n"),
            File::new("templates/job.yaml", hook.as_bytes().to_vec()),
            File::new("crds/a.yaml", *b"kind: CustomResourceDefinition\n"),
        ];
        let renderer = Renderer::new(Chart::from_files(files).unwrap());
        let input = Input {
            values: json!({"size": 3.0}).as_object().cloned().unwrap(),
            release: Release::install("web", "team"),
            capabilities: Capabilities::default(),
            skip_schema: false,
        };
        let task = Task {
            digest: "d".to_owned(),
            limits: TemplateLimits::default(),
            step: Step::Render(input.clone()),
        };
        let message = pack(&task, &[]).unwrap();
        let (Task { step, .. }, _) = unpack::<Task>(&message).unwrap();
        let Step::Render(handed) = step else { unreachable!("it is a rendering") };
        assert_eq!(format!("{handed:?}"), format!("{input:?}"));

        let said = render(&renderer, &input, TemplateLimits::default(), Nothing).unwrap();
        let answer = reply(Some(&Ok::<_, String>(&said)), &[]);
        let (answer, _) = unpack::<Option<Result<Said, String>>>(&answer).unwrap();
        let there = answer.unwrap().unwrap();
        assert_eq!((there.rendered.hooks.len(), there.rendered.crds.len()), (1, 1));
        assert_eq!((there.rendered, there.record), (said.rendered, said.record));

        let described = describe(&renderer, input).unwrap();
        assert_eq!((described.name.as_str(), described.app_version.as_str()), ("web", "7"));
        assert_eq!(described.values["size"], json!(3.0));
    }
}
