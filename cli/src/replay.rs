//! `groundwork replay`: explains why jobs of an Installation went as they did.

use std::io::Write as _;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use groundwork_grpc::with_limits;
use groundwork_proto::component::v1::ObjectName;
use groundwork_proto::renderer::v1::renderer_client::RendererClient;
use groundwork_proto::renderer::v1::{JournalEntry, ReplayRequest};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::ending::Ending;
use crate::live::{self, InstallationArguments};
use crate::service::{self, refused};
use crate::terminal::{aligned, shown};

/// Address of the renderer service that `docker compose up` and `cargo xtask dev` start.
const DEFAULT_SERVER: &str = "http://127.0.0.1:9442";

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    #[command(flatten)]
    installation: InstallationArguments,

    /// Show the job that ran at this time, such as 2026-01-31T12:00:00Z, or else the last one
    /// before it, in place of the last job.
    #[arg(long, value_name = "TIME", conflicts_with = "all")]
    at: Option<Timestamp>,

    /// Show all jobs that the journal has, the last 50 of them.
    #[arg(long)]
    all: bool,

    /// The most entries to show, up to 10,000.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(i32).range(1..=10_000))]
    limit: i32,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,

    /// The renderer service.
    #[arg(long, env = "GROUNDWORK_RENDERER", value_name = "URL", default_value = DEFAULT_SERVER)]
    server: String,

    /// PEM file with certificates to trust; without it those of the system, if the URL is one of
    /// https.
    #[arg(long, env = "GROUNDWORK_RENDERER_TLS_CA", value_name = "FILE")]
    server_tls_ca: Option<PathBuf>,

    /// File with the bearer token to show [default: that of the kube context].
    #[arg(long, env = "GROUNDWORK_TOKEN_FILE", value_name = "FILE")]
    token_file: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One line per entry: time since the job began, service, object, event, its reason, a
    /// sentence.
    Text,
    /// One JSON object per line, with all fields of the entry.
    Json,
}

/// Prints the entries of the journal. Exit code 1: the journal has none.
pub(crate) fn run(arguments: &ReplayArguments) -> Ending {
    live::run(async || {
        let ca = arguments.server_tls_ca.as_deref();
        let (channel, client) =
            service::connect(&arguments.server, ca, arguments.token_file.as_deref()).await?;
        let InstallationArguments { installation, namespace } = &arguments.installation;
        let default = namespace.namespace.as_deref().unwrap_or_else(|| client.default_namespace());
        let (namespace, name) = installation.clone().in_namespace(default);
        let at = arguments
            .at
            .map(|at| prost_types::Timestamp { seconds: at.as_second(), nanos: at.subsec_nanosecond() });
        let request = ReplayRequest {
            installation: Some(ObjectName { namespace: namespace.clone(), name: name.clone() }),
            at,
            all: arguments.all,
            limit: arguments.limit,
        };
        let mut calls: RendererClient<_> = with_limits!(RendererClient::new(channel));
        let most = usize::try_from(arguments.limit).unwrap_or_default();
        let (mut entries, mut is_truncated) = (Vec::new(), false);
        let read = async {
            let mut answers = calls.replay(request).await.map_err(refused)?.into_inner();
            while let Some(answer) = answers.message().await.map_err(refused)? {
                is_truncated |= answer.truncated;
                entries.extend(answer.entries);
                // A service that ignores the limit must not fill the memory.
                if entries.len() > most {
                    let text = format!("the service sent more than the {most} entries of --limit");
                    return Err(live::LiveError::Refused(text));
                }
            }
            Ok(())
        };
        service::in_time(read).await?;
        let mut out = anstream::stdout();
        if entries.is_empty() {
            return Ok(nothing(&namespace, &name, arguments));
        }
        match arguments.output {
            Format::Json => {
                for entry in &entries {
                    writeln!(out, "{}", object(entry))?;
                }
            }
            Format::Text => write!(out, "{}", text(&entries))?,
        }
        out.flush()?;
        if is_truncated {
            eprintln!(
                "note: the journal has more than these {} entries; raise --limit to read them",
                entries.len()
            );
        }
        Ok(Ending::Rendered)
    })
}

fn nothing(namespace: &str, name: &str, arguments: &ReplayArguments) -> Ending {
    let when = arguments.at.map(|at| format!(" at or before {at}")).unwrap_or_default();
    eprintln!(
        "the journal has no entry about a job of Installation {namespace}/{name}{when}: no job has run since the \
         journal exists, or its entries were removed by the limits of the journal (GROUNDWORK_JOURNAL_MAX_AGE and \
         GROUNDWORK_JOURNAL_MAX_BYTES of the watcher)"
    );
    Ending::Failed
}

fn time(entry: &JournalEntry) -> Timestamp {
    let time = entry.time.unwrap_or_default();
    Timestamp::new(time.seconds, time.nanos).unwrap_or_default()
}

/// Formats a table for each job, in the order in which they began. Entries without a job go to the
/// job during which they were written.
fn text(entries: &[JournalEntry]) -> String {
    let mut jobs: Vec<(String, Vec<&JournalEntry>)> = Vec::new();
    let mut before = Vec::new();
    for entry in entries {
        if entry.job_id.is_empty() {
            match jobs.last_mut() {
                Some((_, rows)) => rows.push(entry),
                None => before.push(entry),
            }
            continue;
        }
        match jobs.iter_mut().find(|(job, _)| *job == entry.job_id) {
            Some((_, rows)) => rows.push(entry),
            None => {
                let rows = before.drain(..).chain([entry]).collect();
                jobs.push((entry.job_id.clone(), rows));
            }
        }
    }
    if !before.is_empty() {
        jobs.push((String::new(), before));
    }
    let tables = jobs.iter().map(|(job, rows)| table(job, rows));
    tables.collect::<Vec<_>>().join("\n")
}

fn table(job: &str, rows: &[&JournalEntry]) -> String {
    let began = rows.first().map(|entry| time(entry)).unwrap_or_default();
    let head = match job {
        "" => format!("no job, from {began:.3}\n"),
        job => format!("job {}, from {began:.3}\n", shown(job)),
    };
    let mut cells = vec![["TIME", "SERVICE", "OBJECT", "WHAT", "REASON", "TEXT"].map(str::to_owned)];
    for entry in rows {
        let object = match entry.kind.as_str() {
            "" => String::new(),
            kind => format!("{kind} {}", entry.name),
        };
        let first_line = entry.message.lines().next().unwrap_or_default();
        let message = if first_line.is_empty() { String::new() } else { format!(": {first_line}") };
        let text = format!("{}{message}", entry.text.replace(['\n', '\t'], " "));
        let cell = |text: &str| shown(text).into_owned();
        let offset = offset(time(entry).duration_since(began));
        cells.push([
            offset,
            cell(&entry.service),
            cell(&object),
            cell(&entry.what),
            cell(&entry.reason),
            cell(&text),
        ]);
    }
    head + &aligned(&cells)
}

/// Formats the time since the beginning of the job, in seconds.
fn offset(time: SignedDuration) -> String {
    format!("{:+.3}s", time.as_secs_f64())
}

fn object(entry: &JournalEntry) -> serde_json::Value {
    json!({
        "time": time(entry).to_string(),
        "service": entry.service,
        "instance": entry.instance,
        "kind": entry.kind,
        "namespace": entry.namespace,
        "name": entry.name,
        "uid": entry.uid,
        "installation": entry.installation,
        "jobID": entry.job_id,
        "what": entry.what,
        "reason": entry.reason,
        "text": entry.text,
        "seenVersion": entry.seen_version,
        "writtenVersion": entry.written_version,
        "message": entry.message,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(job: &str, millisecond: i64, what: &str, text: &str) -> JournalEntry {
        let time = Timestamp::from_millisecond(millisecond).unwrap();
        JournalEntry {
            time: Some(prost_types::Timestamp { seconds: time.as_second(), nanos: time.subsec_nanosecond() }),
            service: "renderer".to_owned(),
            kind: "Installation".to_owned(),
            name: "shop".to_owned(),
            job_id: job.to_owned(),
            what: what.to_owned(),
            reason: "Init".to_owned(),
            text: text.to_owned(),
            ..JournalEntry::default()
        }
    }

    #[test]
    fn a_table_for_each_job() {
        let failed = JournalEntry {
            message: "it is \u{1b}[2J away\nmore".to_owned(),
            ..entry("1", 2500, "write", "ends")
        };
        let entries = [
            entry("", 900, "error", "may not"),
            entry("1", 1000, "event", "seen"),
            entry("2", 3000, "write", "begins"),
            failed,
        ];
        let expected = "\
job 1, from 1970-01-01T00:00:00.900Z
TIME     SERVICE   OBJECT             WHAT   REASON  TEXT
+0.000s  renderer  Installation shop  error  Init    may not
+0.100s  renderer  Installation shop  event  Init    seen
+1.600s  renderer  Installation shop  write  Init    ends: it is \\u{1b}[2J away

job 2, from 1970-01-01T00:00:03.000Z
TIME     SERVICE   OBJECT             WHAT   REASON  TEXT
+0.000s  renderer  Installation shop  write  Init    begins
";
        assert_eq!(text(&entries), expected);
    }

    #[test]
    fn objects_hold_everything() {
        let object = object(&entry("1", 1, "event", "seen"));
        assert_eq!(object.as_object().unwrap().len(), 15);
        assert_eq!((&object["jobID"], &object["time"]), (&json!("1"), &json!("1970-01-01T00:00:00.001Z")));
    }
}
