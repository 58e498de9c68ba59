//! Records as messages: CloudEvents 1.0 in binary mode, with attributes in headers.

use async_nats::{HeaderMap, HeaderValue};
use bytes::Bytes;
use groundwork_api::view::Snapshot;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::MAX_EVENT_BYTES;
use crate::error::PublishError;
use crate::record::{Change, ClusterIdentity, Event, Interest, Record, SyncMarker};
use crate::subject::{self, Subject};

const SOURCE: &str = "/groundwork/watcher";
const APPLIED: &str = "dev.groundwork.object.applied.v1";
const DELETED: &str = "dev.groundwork.object.deleted.v1";
const SYNCED: &str = "dev.groundwork.kind.synced.v1";
const IDENTIFIED: &str = "dev.groundwork.cluster.identified.v1";
const INTEREST: &str = "dev.groundwork.interest.registered.v1";

/// A message, independent of the backend.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wire {
    pub(crate) subject: String,
    pub(crate) id: String,
    pub(crate) event_type: String,
    pub(crate) time: Timestamp,
    pub(crate) trace: Option<String>,
    pub(crate) body: Bytes,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkerBody {
    resource_version: String,
    count: u64,
}

#[derive(Serialize, Deserialize)]
struct InterestBody {
    expires: Timestamp,
}

/// Encodes a record as a message.
pub(crate) fn encode(record: &Record) -> Result<Wire, PublishError> {
    let subject = subject::of_record(record)?;
    let (id, event_type, time, trace, body) = match record {
        Record::Object(event) => {
            let event_type = match &event.change {
                Change::Applied(_) => APPLIED,
                Change::Deleted(_) => DELETED,
            };
            let body = json(event.change.snapshot());
            (event_id(event), event_type, event.time, event.trace.clone(), body)
        }
        // Markers and identities get a unique id, because the stream must store them each time: one
        // that the duplicate window dropped would be lost.
        Record::Synced(SyncMarker { resource_version, count, .. }) => {
            let body = json(&MarkerBody { resource_version: resource_version.clone(), count: *count });
            let now = Timestamp::now();
            (unique_id(&subject, now), SYNCED, now, None, body)
        }
        Record::Cluster(identity) => {
            let now = Timestamp::now();
            (unique_id(&subject, now), IDENTIFIED, now, None, json(identity))
        }
        Record::Interest(interest) => {
            let now = Timestamp::now();
            let body = json(&InterestBody { expires: interest.expires });
            (unique_id(&subject, now), INTEREST, now, None, body)
        }
    };
    let body = body.map_err(|error| {
        PublishError::Failed(crate::BusError::Answer { request: subject.clone(), reason: error.to_string() })
    })?;
    if body.len() > MAX_EVENT_BYTES {
        return Err(PublishError::TooLarge { object: describe(record), size: body.len() });
    }
    let printable = |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    Ok(Wire { subject, id, event_type: event_type.to_owned(), time, trace: trace.filter(printable), body })
}

fn json(value: &impl Serialize) -> Result<Bytes, serde_json::Error> {
    serde_json::to_vec(value).map(Bytes::from)
}

fn describe(record: &Record) -> String {
    match record {
        Record::Object(event) => event.object.to_string(),
        Record::Synced(marker) => marker.kind.to_string(),
        Record::Cluster(_) => "the cluster".to_owned(),
        Record::Interest(interest) => interest.kind.to_string(),
    }
}

/// Returns the id of an event: `<uid>/<resourceVersion>`, `<uid>/deleted` or
/// `<uid>/<resourceVersion>/<replay id>`.
fn event_id(event: &Event) -> String {
    let uid = subject::encode(event.change.uid());
    let version = match &event.change {
        Change::Applied(snapshot) => subject::encode(&snapshot.resource_version),
        Change::Deleted(_) => "deleted".to_owned(),
    };
    match &event.replay {
        Some(replay) => format!("{uid}/{version}/{}", subject::encode(replay)),
        None => format!("{uid}/{version}"),
    }
}

fn unique_id(subject: &str, now: Timestamp) -> String {
    format!("{subject}/{}", now.as_nanosecond())
}

/// Decodes the record of a message. The error names what is wrong with the message.
pub(crate) fn decode(wire: &Wire) -> Result<Record, String> {
    let subject = subject::parse(&wire.subject).map_err(|error| error.to_string())?;
    let record = match (subject, wire.event_type.as_str()) {
        (Subject::Object(object), APPLIED) => {
            let snapshot: Snapshot = read(&wire.body)?;
            Record::Object(event(wire, object, Change::Applied(snapshot))?)
        }
        (Subject::Object(object), DELETED) => {
            let snapshot: Snapshot = read(&wire.body)?;
            Record::Object(event(wire, object, Change::Deleted(snapshot))?)
        }
        (Subject::Marker { kind, namespace }, SYNCED) => {
            let MarkerBody { resource_version, count } = read(&wire.body)?;
            Record::Synced(SyncMarker { kind, namespace, resource_version, count })
        }
        (Subject::Cluster, IDENTIFIED) => Record::Cluster(read::<ClusterIdentity>(&wire.body)?),
        (Subject::Interest { kind, namespace, holder }, INTEREST) => {
            let InterestBody { expires } = read(&wire.body)?;
            Record::Interest(Interest { kind, namespace, holder, expires })
        }
        (_, other) => return Err(format!("its type {other:?} does not belong to this subject")),
    };
    Ok(record)
}

fn event(wire: &Wire, object: crate::ObjectId, change: Change) -> Result<Event, String> {
    let replay = match wire.id.splitn(3, '/').nth(2) {
        Some(replay) => {
            Some(subject::decode(replay).ok_or_else(|| format!("its id {:?} is not valid", wire.id))?)
        }
        None => None,
    };
    Ok(Event { object, change, trace: wire.trace.clone(), replay, time: wire.time })
}

/// Decodes JSON. The error names the position and not the content, since annotations may contain
/// private data.
fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(body)
        .map_err(|error| format!("its body is not valid at line {}, column {}", error.line(), error.column()))
}

/// Reports whether this is the type of a tombstone.
pub(crate) fn is_tombstone(event_type: &str) -> bool {
    event_type == DELETED
}

impl Wire {
    /// Returns the headers of the message; the body is separate.
    pub(crate) fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        let time = self.time.to_string();
        // Every value is printable: ids and subjects are percent-encoded, and the trace was
        // checked.
        headers.insert(async_nats::header::NATS_MESSAGE_ID, self.id.as_str());
        headers.insert("ce-specversion", "1.0");
        headers.insert("ce-id", self.id.as_str());
        headers.insert("ce-source", SOURCE);
        headers.insert("ce-type", self.event_type.as_str());
        headers.insert("ce-subject", self.subject.as_str());
        headers.insert("ce-time", time.as_str());
        headers.insert("content-type", "application/json");
        if let Some(trace) = &self.trace {
            headers.insert("traceparent", trace.as_str());
        }
        headers
    }

    /// Reads a message of NATS.
    pub(crate) fn received(subject: &str, headers: Option<&HeaderMap>, body: Bytes) -> Result<Self, String> {
        let header = |name: &str| headers.and_then(|headers| headers.get(name)).map(HeaderValue::as_str);
        let required = |name: &str| header(name).ok_or_else(|| format!("header {name} is missing"));
        Ok(Self {
            subject: subject.to_owned(),
            id: required("ce-id")?.to_owned(),
            event_type: required("ce-type")?.to_owned(),
            time: required("ce-time")?
                .parse()
                .map_err(|_| "header ce-time is not an RFC 3339 time".to_owned())?,
            trace: header("traceparent").map(str::to_owned),
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    use groundwork_api::view::Owner;

    use super::*;
    use crate::object::{Kind, ObjectId};

    fn installation(change: Change) -> Event {
        Event {
            object: ObjectId::new(
                Kind::new("landscaper.gardener.cloud", "installations"),
                Some("prod"),
                "echo",
            ),
            change,
            trace: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".into()),
            replay: None,
            time: "2026-01-02T03:04:05.678Z".parse().unwrap(),
        }
    }

    fn snapshot() -> Snapshot {
        let mut snapshot =
            Snapshot { uid: "u-1".into(), resource_version: "42".into(), ..Snapshot::default() };
        snapshot.labels.insert("a".into(), "b".into());
        snapshot.owner_references.push(Owner { uid: "o".into(), controller: true, ..Owner::default() });
        snapshot.fields.insert("context".into(), "default".into());
        snapshot
    }

    fn through_headers(record: &Record) -> Record {
        let wire = encode(record).unwrap();
        let received = Wire::received(&wire.subject, Some(&wire.headers()), wire.body.clone()).unwrap();
        assert_eq!(received, wire);
        decode(&received).unwrap()
    }

    #[test]
    fn an_event_is_a_cloud_event() {
        let wire = encode(&Record::Object(installation(Change::Applied(snapshot())))).unwrap();
        let headers = wire.headers();
        let header = |name: &str| headers.get(name).unwrap().as_str().to_owned();
        assert_eq!(header("ce-specversion"), "1.0");
        assert_eq!(header("ce-id"), "u-1/42");
        assert_eq!(header("Nats-Msg-Id"), "u-1/42");
        assert_eq!(header("ce-source"), "/groundwork/watcher");
        assert_eq!(header("ce-type"), "dev.groundwork.object.applied.v1");
        assert_eq!(header("ce-subject"), "groundwork.v1.installations.landscaper_gardener_cloud.prod.echo");
        assert_eq!(header("ce-time"), "2026-01-02T03:04:05.678Z");
        assert_eq!(header("content-type"), "application/json");
        assert_eq!(header("traceparent"), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
        assert_eq!(
            std::str::from_utf8(&wire.body).unwrap(),
            r#"{"uid":"u-1","resourceVersion":"42","ownerReferences":[{"apiVersion":"","kind":"","name":"","uid":"o","controller":true}],"labels":{"a":"b"},"fields":{"context":"default"}}"#
        );
    }

    #[test]
    fn all_records_come_back() {
        let kind = Kind::new("", "secrets");
        let deleted = Change::Deleted(snapshot());
        let replayed = Event { replay: Some("a/b c".into()), ..installation(Change::Applied(snapshot())) };
        let marker = |namespace: Option<&str>| SyncMarker {
            kind: kind.clone(),
            namespace: namespace.map(str::to_owned),
            resource_version: "7".into(),
            count: 3,
        };
        let interest = Interest {
            kind: kind.clone(),
            namespace: Some("n".into()),
            holder: "variant/0".into(),
            expires: "2026-01-02T03:04:05Z".parse().unwrap(),
        };
        for record in [
            Record::Object(installation(Change::Applied(snapshot()))),
            Record::Object(installation(deleted)),
            Record::Object(replayed),
            Record::Synced(marker(None)),
            Record::Synced(marker(Some("prod"))),
            Record::Cluster(ClusterIdentity { uid: "c".into(), ..ClusterIdentity::default() }),
            Record::Interest(interest),
        ] {
            assert_eq!(through_headers(&record), record);
        }
    }

    #[test]
    fn ids_tell_versions_deletion_and_replays_apart() {
        let id = |change, replay: Option<&str>| {
            event_id(&Event { replay: replay.map(str::to_owned), ..installation(change) })
        };
        let deleted = Change::Deleted(Snapshot { resource_version: "43".into(), ..snapshot() });
        assert_eq!(id(Change::Applied(snapshot()), None), "u-1/42");
        assert_eq!(id(Change::Applied(snapshot()), Some("r 1")), "u-1/42/r%201");
        assert_eq!(id(deleted, None), "u-1/deleted");
    }

    #[test]
    fn hostile_text_stays_out_of_the_headers() {
        let mut hostile = snapshot();
        hostile.uid = "u\r\nX: y".into();
        let event = Event { trace: Some("00\r\nX: y".into()), ..installation(Change::Applied(hostile)) };
        let came = through_headers(&Record::Object(Event { trace: None, ..event.clone() }));
        assert_eq!(came, Record::Object(Event { trace: None, ..event.clone() }));
        assert_eq!(encode(&Record::Object(event)).unwrap().trace, None);
    }

    #[test]
    fn a_large_event_is_refused() {
        let mut large = snapshot();
        large.annotations.insert("a".into(), "x".repeat(MAX_EVENT_BYTES));
        let error = encode(&Record::Object(installation(Change::Applied(large)))).unwrap_err();
        assert!(matches!(error, PublishError::TooLarge { size: 65537.., .. }), "{error}");
        assert!(error.to_string().contains("prod/echo"), "{error}");
    }

    #[test]
    fn what_is_not_ours_is_refused_without_a_quote() {
        let wire = encode(&Record::Object(installation(Change::Applied(snapshot())))).unwrap();
        let wrong = Wire { body: Bytes::from_static(b"{\"uid\": secret}"), ..wire.clone() };
        assert_eq!(decode(&wrong).unwrap_err(), "its body is not valid at line 1, column 9");
        let wrong = Wire { event_type: SYNCED.to_owned(), ..wire.clone() };
        assert!(decode(&wrong).unwrap_err().contains("does not belong to this subject"));
        assert!(Wire::received("a", None, Bytes::new()).unwrap_err().contains("ce-id"));
    }
}
