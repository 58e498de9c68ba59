//! `groundwork events`: prints the events on the stream, or follows new ones.

use std::io::{self, ErrorKind, Write};
use std::time::Duration;

use clap::{Args, ValueEnum};
use groundwork_api::{DeployItem, Execution, Installation, Kind as _, WATCHED, crds, view};
use groundwork_bus::{Bus, BusError, Change, Event, Feed, Filter, Kind, Record, Snapshot};
use groundwork_controller::{BusArguments, ConnectError};
use serde_json::{Value, json};

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;
use crate::terminal::shown;

#[derive(Debug, Args)]
pub(crate) struct EventsArguments {
    /// Wait for new events, in place of printing those on the stream.
    #[arg(short, long)]
    follow: bool,

    /// Only this kind: plural, kind or short name, or `plural.group` for a kind that is watched on
    /// demand. Can be repeated.
    #[arg(short, long = "kind", value_name = "KIND")]
    kinds: Vec<String>,

    /// Only this namespace. Can be repeated.
    #[arg(short, long = "namespace", value_name = "NAME")]
    namespaces: Vec<String>,

    /// Format of the output.
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,

    #[command(flatten)]
    bus: BusArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// One line per event: time, kind, namespace and name, kind of change, resourceVersion, phase
    /// and job.
    Text,
    /// One JSON object per line, with all fields of the event.
    Json,
}

/// Reason that events cannot be shown.
#[derive(Debug, thiserror::Error)]
enum EventsError {
    #[error("cannot start: {0}")]
    Runtime(io::Error),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Bus(#[from] BusError),
    #[error("kind {name:?} is not watched; use one of: {known}")]
    Kind { name: String, known: String },
    #[error("cannot write to standard output: {0}")]
    Output(#[from] io::Error),
}

/// Prints events until the stream ends, or until standard output is closed.
pub(crate) fn run(arguments: &EventsArguments) -> Ending {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let shown = runtime.map_err(EventsError::Runtime).and_then(|runtime| {
        let shown = runtime.block_on(async {
            let bus = arguments.bus.connect("events").await?;
            show(&bus, arguments, &mut anstream::stdout()).await
        });
        // Dropping the runtime would wait for blocking calls, such as a DNS lookup that hangs.
        runtime.shutdown_timeout(Duration::from_millis(100));
        shown
    });
    match shown {
        Ok(()) => Ending::Rendered,
        // A reader that closes the pipe, such as `head`, has read enough: this is not an error.
        Err(EventsError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ending::Rendered,
        Err(failure) => {
            diagnostic::print(&[Diagnostic::error(failure.to_string())]);
            Ending::Unusable
        }
    }
}

async fn show(bus: &Bus, arguments: &EventsArguments, out: &mut impl Write) -> Result<(), EventsError> {
    let at = match bus.status().await {
        Ok(state) => state.last_sequence,
        // The watcher, which creates the stream, has not run yet.
        Err(BusError::StreamNotFound) if arguments.follow => 0,
        Err(error) => return Err(error.into()),
    };
    let kinds = kinds(bus, &arguments.kinds).await?;
    if matches!(arguments.output, Format::Text) {
        writeln!(out, "{}", columns("TIME", "KIND", "OBJECT", "CHANGE", "VERSION", "STATUS"))?;
        out.flush()?;
    }
    let is_wanted = |event: &Event| {
        let namespaces = &arguments.namespaces;
        namespaces.is_empty()
            || event.object.namespace.as_ref().is_some_and(|namespace| namespaces.contains(namespace))
    };
    if arguments.follow {
        return follow(bus, &kinds, at, is_wanted, arguments.output, out).await;
    }
    for stored in bus.load(Filter::Kinds(&kinds)).await? {
        if let Record::Object(event) = &stored.record
            && is_wanted(event)
        {
            writeln!(out, "{}", line(stored.sequence, event, arguments.output))?;
        }
    }
    Ok(out.flush()?)
}

async fn follow(
    bus: &Bus,
    kinds: &[Kind],
    mut shown: u64,
    is_wanted: impl Fn(&Event) -> bool,
    format: Format,
    out: &mut impl Write,
) -> Result<(), EventsError> {
    let mut feed = bus.index(kinds).await?;
    loop {
        // After a lost connection the feed begins anew with the events on the stream. Positions
        // only grow, so this skips those that are printed already.
        let Feed::Record { position: sequence, record } = feed.next().await else { continue };
        if sequence <= shown {
            continue;
        }
        shown = sequence;
        if let Record::Object(event) = &record
            && is_wanted(event)
        {
            writeln!(out, "{}", line(sequence, event, format))?;
            out.flush()?;
        }
    }
}

/// Returns the kinds of these names; without names all kinds that are watched, including those
/// watched on demand.
async fn kinds(bus: &Bus, names: &[String]) -> Result<Vec<Kind>, EventsError> {
    if !names.is_empty() {
        return names.iter().map(|name| kind(name)).collect();
    }
    let mut kinds: Vec<Kind> = WATCHED.iter().map(|kind| Kind::new(kind.group, kind.plural)).collect();
    match bus.load(Filter::Interests).await {
        Ok(interests) => kinds.extend(interests.into_iter().filter_map(|stored| match stored.record {
            Record::Interest(interest) => Some(interest.kind),
            Record::Object(_) | Record::Synced(_) | Record::Cluster(_) => None,
        })),
        Err(BusError::StreamNotFound) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(kinds)
}

/// Finds a kind by plural, kind, short name or `plural.group`.
fn kind(name: &str) -> Result<Kind, EventsError> {
    let definitions = crds();
    let wanted = name.to_lowercase();
    let is_short = |plural: &str| {
        let ours = definitions.iter().filter(|crd| crd.spec.names.plural == plural);
        let mut short = ours.flat_map(|crd| crd.spec.names.short_names.iter().flatten());
        short.any(|short| *short == wanted)
            || matches!((plural, &*wanted), ("namespaces", "ns") | ("configmaps", "cm"))
    };
    let known = WATCHED.iter().find(|known| {
        [known.plural.to_owned(), known.kind.to_lowercase()].contains(&wanted)
            || format!("{}.{}", known.plural, known.group) == wanted
            || is_short(known.plural)
    });
    match (known, wanted.split_once('.')) {
        (Some(known), _) => Ok(Kind::new(known.group, known.plural)),
        (None, Some((plural, group))) => Ok(Kind::new(group, plural)),
        (None, None) => Err(EventsError::Kind {
            name: name.to_owned(),
            known: WATCHED.map(|known| known.plural).join(", "),
        }),
    }
}

fn line(sequence: u64, event: &Event, format: Format) -> String {
    match format {
        Format::Text => text(event),
        Format::Json => object(sequence, event).to_string(),
    }
}

fn text(event: &Event) -> String {
    let object = &event.object;
    let is_known = WATCHED
        .iter()
        .any(|known| (known.group, known.plural) == (object.kind.group(), object.kind.plural()));
    let kind = if is_known { object.kind.plural().to_owned() } else { object.kind.to_string() };
    let name = match &object.namespace {
        Some(namespace) => format!("{namespace}/{}", object.name),
        None => object.name.clone(),
    };
    let (what, rest) = match &event.change {
        Change::Applied(snapshot) => ("applied", status(object.kind.plural(), snapshot)),
        Change::Deleted(_) => ("deleted", String::new()),
    };
    let version = event.change.resource_version();
    let time = format!("{:.3}", event.time);
    shown(&columns(&time, &kind, &name, what, version, rest.trim_start())).into_owned()
}

fn columns(time: &str, kind: &str, object: &str, what: &str, version: &str, status: &str) -> String {
    let line = format!("{time:<24}  {kind:<15}  {object:<40}  {what:<7}  {version:<10}  {status}");
    line.trim_end().to_owned()
}

/// Returns the phase and the job ids of kinds that have them.
fn status(plural: &str, snapshot: &Snapshot) -> String {
    let (phase, job) = match plural {
        Installation::PLURAL => {
            let installation = view::Installation(snapshot);
            (installation.phase(), installation.job())
        }
        Execution::PLURAL => (view::Execution(snapshot).phase(), view::Execution(snapshot).job()),
        DeployItem::PLURAL => (view::DeployItem(snapshot).phase(), view::DeployItem(snapshot).job()),
        _ => Default::default(),
    };
    let mut rest = String::new();
    for (label, value) in [("phase", phase), ("job", job.id), ("finished", job.finished)] {
        if !value.is_empty() {
            rest.push_str(&format!("  {label}={value}"));
        }
    }
    if snapshot.is_deleting() {
        rest.push_str("  deleting");
    }
    rest
}

fn object(sequence: u64, event: &Event) -> Value {
    let (what, content) = match &event.change {
        Change::Applied(snapshot) => ("applied", json!(snapshot)),
        Change::Deleted(snapshot) => ("deleted", json!(snapshot)),
    };
    json!({
        "sequence": sequence,
        "time": event.time.to_string(),
        "group": event.object.kind.group(),
        "plural": event.object.kind.plural(),
        "namespace": event.object.namespace,
        "name": event.object.name,
        "change": what,
        "object": content,
        "replay": event.replay,
        "traceparent": event.trace,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use groundwork_bus::ObjectId;
    use jiff::Timestamp;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        events: EventsArguments,
    }

    fn arguments(words: &[&str]) -> EventsArguments {
        Command::parse_from([&["events"], words].concat()).events
    }

    fn event(plural: &str, namespace: &str, name: &str, phase: &str) -> Record {
        let kind = match plural {
            "secrets" => Kind::new("", plural),
            _ => Kind::new("landscaper.gardener.cloud", plural),
        };
        let fields = json!({"status": {"phase": phase, "jobID": "j1"}});
        let change = match phase {
            "" => Change::Deleted(Snapshot {
                uid: name.into(),
                resource_version: "7".into(),
                ..Snapshot::default()
            }),
            _ => Change::Applied(Snapshot {
                uid: name.into(),
                resource_version: "7".into(),
                fields: fields.as_object().unwrap().clone(),
                ..Snapshot::default()
            }),
        };
        Record::Object(Event {
            object: ObjectId::new(kind, Some(namespace), name),
            change,
            trace: None,
            replay: None,
            time: Timestamp::from_second(1).unwrap(),
        })
    }

    async fn shown(bus: &Bus, words: &[&str]) -> String {
        let mut out = Vec::new();
        show(bus, &arguments(words), &mut out).await.unwrap();
        String::from_utf8(out).unwrap()
    }

    #[tokio::test]
    async fn what_is_there_is_printed() {
        let bus = Bus::in_process();
        bus.ensure_stream().await.unwrap();
        for record in [
            event("installations", "a", "one", "Succeeded"),
            event("installations", "b", "two", "\u{1b}[2J"),
            event("secrets", "a", "three", ""),
        ] {
            bus.publish(&record, None).await.unwrap();
        }
        let heading = "TIME                      KIND             OBJECT                                    CHANGE   VERSION     STATUS\n";
        let one = "1970-01-01T00:00:01.000Z  installations    a/one                                     applied  7           \
                   phase=Succeeded  job=j1\n";
        let three = "1970-01-01T00:00:01.000Z  secrets          a/three                                   deleted  7\n";
        assert_eq!(shown(&bus, &["-n", "a"]).await, format!("{heading}{one}{three}"));
        assert_eq!(shown(&bus, &["-k", "Secret", "-n", "a"]).await, format!("{heading}{three}"));
        let two = shown(&bus, &["-k", "inst", "-n", "b"]).await;
        assert!(two.contains("phase=\\u{1b}[2J") && !two.contains('\u{1b}'), "{two:?}");
        let json: Value = serde_json::from_str(&shown(&bus, &["-o", "json", "-k", "secrets"]).await).unwrap();
        assert_eq!(
            (&json["change"], &json["name"], &json["sequence"]),
            (&json!("deleted"), &json!("three"), &json!(3))
        );
    }

    /// Writer that fails after some lines, like a closed pipe.
    struct Lines(Vec<u8>, usize);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            let lines = self.0.iter().filter(|byte| **byte == b'\n').count();
            if lines < self.1 { Ok(()) } else { Err(ErrorKind::BrokenPipe.into()) }
        }
    }

    #[tokio::test]
    async fn what_passes_is_printed() {
        let bus = Bus::in_process();
        bus.ensure_stream().await.unwrap();
        bus.publish(&event("installations", "a", "before", "Init"), None).await.unwrap();
        let mut out = Lines(Vec::new(), 3);
        let arguments = arguments(&["--follow"]);
        let publish = async {
            // `follow` reads the state of the stream before its first pause, so all events
            // published from here on are new to it.
            tokio::task::yield_now().await;
            for (name, phase) in [("live", "Init"), ("live", "")] {
                bus.publish(&event("installations", "a", name, phase), None).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        let limit = Duration::from_secs(20);
        let following = tokio::time::timeout(limit, show(&bus, &arguments, &mut out));
        let (shown, ()) = tokio::join!(following, publish);
        assert!(matches!(shown, Ok(Err(EventsError::Output(_)))), "{shown:?}");
        let text = String::from_utf8(out.0).unwrap();
        let lines: Vec<&str> = text.lines().skip(1).collect();
        assert!(lines[0].contains("live") && lines[0].contains("applied"), "{text}");
        assert!(lines[1].contains("live") && lines[1].contains("deleted"), "{text}");
    }

    #[test]
    fn kinds_have_many_names() {
        for (name, expected) in [
            ("installations", "installations.landscaper.gardener.cloud"),
            ("Installation", "installations.landscaper.gardener.cloud"),
            ("inst", "installations.landscaper.gardener.cloud"),
            ("deployitems.landscaper.gardener.cloud", "deployitems.landscaper.gardener.cloud"),
            ("cm", "configmaps"),
            ("ns", "namespaces"),
            ("widgets.example.org", "widgets.example.org"),
        ] {
            assert_eq!(kind(name).unwrap().to_string(), expected, "{name}");
        }
        let unknown = kind("widgets").unwrap_err().to_string();
        assert!(
            unknown.contains("kind \"widgets\" is not watched; use one of: installations, "),
            "{unknown}"
        );
    }
}
