//! Subjects: the names of everything on the stream.
//!
//! `groundwork.v1.<plural>.<group, dots as _, core as core>.<namespace or _>.<name>`. The name is
//! last and may contain dots. Bytes outside `[A-Za-z0-9._-]` are percent-encoded, and so is any
//! byte that would make a token empty or give it another meaning.

use groundwork_api::kubernetes::{looks_like_dns_label, looks_like_dns_subdomain};

use crate::object::{Kind, ObjectId};
use crate::record::{Filter, Record};

/// First tokens of the subjects of objects; `<plural>.<group>.<namespace>.<name>` follow.
const OBJECTS: &str = "groundwork.v1";
/// First tokens of the subjects of sync markers; plural, group and namespace follow.
const MARKERS: &str = "groundwork.sync.v1";
/// The single subject of the identity of the cluster.
const CLUSTER: &str = "groundwork.cluster.v1";
/// First tokens of the subjects of interests; plural, group, namespace and holder follow.
const INTERESTS: &str = "groundwork.interest.v1";
/// First tokens of the subjects of the journal; plural, group and namespace of a key, the job and
/// the name of the key follow.
const JOURNAL: &str = "groundwork.journal.v1";
/// Longest subject in bytes. A Kubernetes name has at most 253 characters, and NATS reads lines of
/// 4096 bytes by default.
const MAX_SUBJECT_BYTES: usize = 1024;

/// Reason why a subject cannot be built or read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubjectError {
    /// The kind is not valid.
    #[error(
        "plural {plural:?} of group {group:?} is not valid: a plural consists of lower-case letters, digits and `-`, a \
         group also of `.`"
    )]
    Kind { plural: String, group: String },
    /// A name is too long for a subject.
    #[error("a name of {kind} has {length} bytes as a subject; at most {MAX_SUBJECT_BYTES} are allowed")]
    Long {
        kind: Kind,
        /// Length of the subject.
        length: usize,
    },
    /// The subject is not one of Groundwork.
    #[error("{0:?} is not a subject of Groundwork")]
    Foreign(String),
}

/// Returns the subjects of the stream.
pub(crate) fn stream_subjects() -> Vec<String> {
    vec![all(OBJECTS), all(MARKERS), CLUSTER.to_owned(), all(INTERESTS)]
}

/// Returns the subject of a record.
pub(crate) fn of_record(record: &Record) -> Result<String, SubjectError> {
    match record {
        Record::Object(event) => of_object(&event.object),
        Record::Synced(marker) => {
            short(&marker.kind, scope(MARKERS, &marker.kind, marker.namespace.as_deref())?)
        }
        Record::Cluster(_) => Ok(CLUSTER.to_owned()),
        Record::Interest(interest) => {
            let scope = scope(INTERESTS, &interest.kind, interest.namespace.as_deref())?;
            short(&interest.kind, format!("{scope}.{}", token(&interest.holder)))
        }
    }
}

/// Returns the subject of an object.
pub(crate) fn of_object(object: &ObjectId) -> Result<String, SubjectError> {
    let scope = scope(OBJECTS, &object.kind, object.namespace.as_deref())?;
    short(&object.kind, format!("{scope}.{}", name(&object.name)))
}

/// Returns the subjects of all objects of a kind.
pub(crate) fn of_kind(kind: &Kind) -> Result<String, SubjectError> {
    Ok(all(&format!("{OBJECTS}.{}", kind_tokens(kind)?)))
}

/// Returns the subjects of the journal.
pub(crate) fn of_journal() -> String {
    all(JOURNAL)
}

/// Returns the subject of the entries of a key in a job. An empty job stands for entries outside of
/// jobs.
pub(crate) fn of_key_in(key: &ObjectId, job: &str) -> Result<String, SubjectError> {
    let scope = scope(JOURNAL, &key.kind, key.namespace.as_deref())?;
    let job = if job.is_empty() { "_".to_owned() } else { token(job) };
    short(&key.kind, format!("{scope}.{job}.{}", name(&key.name)))
}

/// Returns the subjects of the entries of a key, in all jobs.
pub(crate) fn of_key(key: &ObjectId) -> Result<String, SubjectError> {
    let scope = scope(JOURNAL, &key.kind, key.namespace.as_deref())?;
    short(&key.kind, format!("{scope}.*.{}", name(&key.name)))
}

/// Returns the subjects of the entries of all keys of a namespace in a job.
pub(crate) fn of_job(namespace: &str, job: &str) -> String {
    format!("{JOURNAL}.*.*.{}.{}.>", token(namespace), token(job))
}

/// Reads key and job from a subject of the journal, as the inverse of [`of_key_in`].
pub(crate) fn parse_journal(subject: &str) -> Option<(ObjectId, String)> {
    let mut parts = subject.strip_prefix(JOURNAL)?.strip_prefix('.')?.splitn(5, '.');
    let (kind, namespace) = parse_scope(&mut parts)?;
    let job = match parts.next()? {
        "_" => String::new(),
        job => decode(job)?,
    };
    Some((ObjectId { kind, namespace, name: decode(parts.next()?)? }, job))
}

/// Reports whether a subject matches a filter, which may contain any wildcards.
pub(crate) fn matches_wildcards(filter: &str, subject: &str) -> bool {
    let (mut filter, mut subject) = (filter.split('.'), subject.split('.'));
    loop {
        match (filter.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some("*"), Some(_)) => {}
            (Some(wanted), Some(token)) if wanted == token => {}
            _ => return false,
        }
    }
}

/// Returns the subjects of all objects.
pub(crate) fn of_objects() -> String {
    all(OBJECTS)
}

/// Returns the subjects of all interests.
pub(crate) fn of_interests() -> String {
    all(INTERESTS)
}

/// Returns the subjects of a part of the stream.
pub(crate) fn of_filter(filter: Filter<'_>) -> Result<Vec<String>, SubjectError> {
    match filter {
        Filter::Everything => Ok(stream_subjects()),
        Filter::Interests => Ok(vec![of_interests()]),
        Filter::Kinds(kinds) => {
            let mut kinds: Vec<_> = kinds.iter().collect();
            kinds.sort();
            kinds.dedup();
            let mut subjects = vec![CLUSTER.to_owned()];
            for kind in kinds {
                subjects.push(of_kind(kind)?);
                subjects.push(all(&format!("{MARKERS}.{}", kind_tokens(kind)?)));
            }
            Ok(subjects)
        }
    }
}

/// Returns the name of the consumer that replicas of a service share for a kind.
pub(crate) fn consumer(service: &str, kind: &Kind) -> Result<String, SubjectError> {
    let tokens = kind_tokens(kind)?;
    let (plural, group) = tokens.split_once('.').unwrap_or((&tokens, ""));
    // The parts are joined by `-`, so a `-` inside a part is encoded. No plural of Groundwork
    // contains one.
    let part = |text: &str| text.replace('-', "%2D");
    Ok(format!("{}-{}-{group}", part(&token(service)), part(plural)))
}

/// Reports whether a subject matches a filter. The only wildcard that this function understands is
/// a closing `.>`.
pub(crate) fn matches(filter: &str, subject: &str) -> bool {
    match filter.strip_suffix('>') {
        Some(prefix) => subject.len() > prefix.len() && subject.starts_with(prefix),
        None => filter == subject,
    }
}

/// Record that a subject names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    Object(ObjectId),
    Marker { kind: Kind, namespace: Option<String> },
    Cluster,
    Interest { kind: Kind, namespace: Option<String>, holder: String },
}

/// Parses a subject, as the inverse of [`of_record`].
pub(crate) fn parse(subject: &str) -> Result<Subject, SubjectError> {
    parse_parts(subject)
        .ok_or_else(|| SubjectError::Foreign(subject.chars().take(MAX_SUBJECT_BYTES).collect()))
}

fn parse_parts(subject: &str) -> Option<Subject> {
    if subject == CLUSTER {
        return Some(Subject::Cluster);
    }
    let under = |root: &str| subject.strip_prefix(root)?.strip_prefix('.');
    if let Some(rest) = under(OBJECTS) {
        let mut parts = rest.splitn(4, '.');
        let (kind, namespace) = parse_scope(&mut parts)?;
        return Some(Subject::Object(ObjectId { kind, namespace, name: decode(parts.next()?)? }));
    }
    if let Some(rest) = under(MARKERS) {
        let mut parts = rest.split('.');
        let (kind, namespace) = parse_scope(&mut parts)?;
        return parts.next().is_none().then_some(Subject::Marker { kind, namespace });
    }
    let mut parts = under(INTERESTS)?.split('.');
    let (kind, namespace) = parse_scope(&mut parts)?;
    let holder = decode(parts.next()?)?;
    parts.next().is_none().then_some(Subject::Interest { kind, namespace, holder })
}

fn parse_scope<'a>(parts: &mut impl Iterator<Item = &'a str>) -> Option<(Kind, Option<String>)> {
    let plural = parts.next()?;
    let group = match parts.next()? {
        "core" => String::new(),
        other => decode(&other.replace('_', "."))?,
    };
    let kind = Kind::new(group, plural);
    kind_tokens(&kind).ok()?;
    let namespace = match parts.next()? {
        "_" => None,
        other => Some(decode(other)?),
    };
    Some((kind, namespace))
}

fn all(root: &str) -> String {
    format!("{root}.>")
}

fn short(kind: &Kind, subject: String) -> Result<String, SubjectError> {
    if subject.len() > MAX_SUBJECT_BYTES {
        return Err(SubjectError::Long { kind: kind.clone(), length: subject.len() });
    }
    Ok(subject)
}

fn scope(root: &str, kind: &Kind, namespace: Option<&str>) -> Result<String, SubjectError> {
    let namespace = namespace.map_or_else(|| "_".to_owned(), token);
    Ok(format!("{root}.{}.{namespace}", kind_tokens(kind)?))
}

/// Returns plural and group as two tokens. Groups are DNS names, so `_` can replace the dot.
fn kind_tokens(kind: &Kind) -> Result<String, SubjectError> {
    let is_group = |group: &str| group.is_empty() || looks_like_dns_subdomain(group);
    if !looks_like_dns_label(kind.plural()) || !is_group(kind.group()) {
        return Err(SubjectError::Kind { plural: kind.plural().to_owned(), group: kind.group().to_owned() });
    }
    let group = match kind.group() {
        "" => "core".to_owned(),
        // A group named `core` must not collide with the core group.
        "core" => "%63ore".to_owned(),
        group => group.replace('.', "_"),
    };
    Ok(format!("{}.{group}", kind.plural()))
}

/// Encodes a text as one token.
fn token(text: &str) -> String {
    match text {
        "" => "%".to_owned(),
        // A lone `_` stands for "no namespace", so a text `_` is encoded.
        "_" => "%5F".to_owned(),
        _ => text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
            push(&mut out, byte, byte != b'.');
            out
        }),
    }
}

/// Encodes a name as one or more tokens. Dots stay, unless a token between them would be empty.
fn name(text: &str) -> String {
    if text.is_empty() {
        return "%".to_owned();
    }
    let mut out = String::with_capacity(text.len());
    let last = text.len() - 1;
    for (position, byte) in text.bytes().enumerate() {
        let separates = byte == b'.' && position != last && !out.is_empty() && !out.ends_with('.');
        push(&mut out, byte, byte != b'.' || separates);
    }
    out
}

fn push(out: &mut String, byte: u8, plain: bool) {
    if plain && (byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')) {
        out.push(char::from(byte));
    } else {
        out.push('%');
        out.push_str(&data_encoding::HEXUPPER.encode(&[byte]));
    }
}

/// Encodes any text as printable characters of an id.
pub(crate) fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        push(&mut out, byte, true);
        out
    })
}

pub(crate) fn decode(text: &str) -> Option<String> {
    match text {
        "" => return None,
        "%" => return Some(String::new()),
        _ => {}
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, encoded)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        let (digits, after) = encoded.split_at_checked(2)?;
        bytes.extend(data_encoding::HEXUPPER.decode(digits.as_bytes()).ok()?);
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn object(group: &str, plural: &str, namespace: Option<&str>, name: &str) -> ObjectId {
        ObjectId::new(Kind::new(group, plural), namespace, name)
    }

    #[test]
    fn subjects_of_objects() {
        let table = [
            (
                object("landscaper.gardener.cloud", "installations", Some("prod"), "echo.v1"),
                "groundwork.v1.installations.landscaper_gardener_cloud.prod.echo.v1",
            ),
            (object("", "namespaces", None, "prod"), "groundwork.v1.namespaces.core._.prod"),
            (object("", "things", Some("_"), "a"), "groundwork.v1.things.core.%5F.a"),
            (object("core", "things", Some("a.b"), "a"), "groundwork.v1.things.%63ore.a%2Eb.a"),
            (object("a", "things", Some(""), ""), "groundwork.v1.things.a.%.%"),
            (object("a", "things", None, ".a..b."), "groundwork.v1.things.a._.%2Ea.%2Eb%2E"),
            (
                object("rbac.authorization.k8s.io", "roles", Some("n"), "system:a*>%"),
                "groundwork.v1.roles.rbac_authorization_k8s_io.n.system%3Aa%2A%3E%25",
            ),
        ];
        for (object, subject) in table {
            assert_eq!(of_object(&object).as_deref(), Ok(subject));
            assert_eq!(parse(subject), Ok(Subject::Object(object)));
        }
    }

    #[test]
    fn kinds_that_could_be_confused_are_refused() {
        for (group, plural) in
            [("a_b", "things"), ("", ""), ("", "a.b"), ("a..b", "c"), ("A", "c"), ("", "a*")]
        {
            let refused = of_object(&object(group, plural, None, "a"));
            assert!(matches!(refused, Err(SubjectError::Kind { .. })), "{refused:?}");
        }
        let long = of_object(&object("", "things", None, &"ä".repeat(200)));
        assert!(matches!(long, Err(SubjectError::Long { length: 1227.., .. })), "{long:?}");
    }

    #[test]
    fn foreign_subjects_are_none() {
        for subject in [
            "",
            "groundwork",
            "groundwork.v1",
            "groundwork.v1.a.core._",
            "groundwork.v1.a.core._.%zz",
            "groundwork.v1.a.core._.%C3",
            "groundwork.v1.a..n.b",
            "groundwork.sync.v1.a.core.n.more",
            "groundwork.interest.v1.a.core.n",
            "groundwork.v2.a.core._.b",
        ] {
            assert!(parse(subject).is_err(), "{subject}");
        }
    }

    #[test]
    fn subjects_of_the_journal() {
        let key = object("landscaper.gardener.cloud", "installations", Some("prod"), "echo.v1");
        let subject = "groundwork.journal.v1.installations.landscaper_gardener_cloud.prod.j-1.echo.v1";
        assert_eq!(of_key_in(&key, "j-1").as_deref(), Ok(subject));
        let wildcards = [
            ("groundwork.journal.v1.installations.landscaper_gardener_cloud.prod.*.echo.v1", true),
            ("groundwork.journal.v1.*.*.prod.j-1.>", true),
            ("groundwork.journal.v1.*.*.prod.j-2.>", false),
            ("groundwork.journal.v1.*.*.prod.j-1.echo", false),
        ];
        for (filter, expected) in wildcards {
            assert_eq!(matches_wildcards(filter, subject), expected, "{filter}");
        }
        assert_eq!(parse_journal("groundwork.journal.v1.a.core.n.j"), None);
    }

    #[test]
    fn names_of_consumers() {
        let name = |service, group, plural| consumer(service, &Kind::new(group, plural)).unwrap();
        assert_eq!(name("renderer", "a.b-c.d", "installations"), "renderer-installations-a_b-c_d");
        assert_eq!(name("renderer", "", "secrets"), "renderer-secrets-core");
        assert_eq!(name("a.b-c", "d", "e-f"), "a%2Eb%2Dc-e%2Df-d");
    }

    #[test]
    fn filters_match_what_they_should() {
        let kind = Kind::new("", "pods");
        assert!(matches(&of_kind(&kind).unwrap(), "groundwork.v1.pods.core.a.b.c"));
        assert!(!matches(&of_kind(&kind).unwrap(), "groundwork.v1.pods.core_x.a.b"));
        assert!(!matches(&of_kind(&kind).unwrap(), "groundwork.v1.pods.core."));
        assert!(matches(CLUSTER, CLUSTER));
        assert!(!matches(CLUSTER, "groundwork.cluster.v1.x"));
        let kinds = [kind.clone(), kind];
        assert_eq!(
            of_filter(Filter::Kinds(&kinds)).unwrap(),
            [CLUSTER, "groundwork.v1.pods.core.>", "groundwork.sync.v1.pods.core.>"]
        );
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        const LABEL: &str = "[a-z0-9]([a-z0-9-]{0,3}[a-z0-9])?";
        let several = prop::collection::vec(LABEL, 1..4).prop_map(|labels| labels.join("."));
        let group = prop_oneof![Just(String::new()), several, Just("core".into())];
        (group, LABEL).prop_map(|(group, plural)| Kind::new(group, plural))
    }

    proptest! {
        #[test]
        fn an_object_comes_back_and_its_subject_is_valid(
            kind in kinds(),
            namespace in proptest::option::of(prop_oneof![".{0,8}", "[._%-]{0,4}"]),
            name in prop_oneof![".{0,12}", "[._%a-]{0,8}"],
        ) {
            let object = ObjectId { kind: kind.clone(), namespace, name };
            let subject = of_object(&object).unwrap();
            prop_assert!(subject.split('.').all(|token| !token.is_empty()));
            prop_assert!(subject.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-%".contains(&b)));
            prop_assert!(matches(&of_kind(&kind).unwrap(), &subject));
            prop_assert_eq!(parse(&subject).unwrap(), Subject::Object(object));
        }

        #[test]
        fn a_key_of_the_journal_comes_back(
            kind in kinds(),
            namespace in proptest::option::of(".{0,8}"),
            job in prop_oneof![".{0,8}", "[._%-]{0,4}"],
            name in prop_oneof![".{0,12}", "[._%a-]{0,8}"],
        ) {
            let key = ObjectId { kind, namespace, name };
            let subject = of_key_in(&key, &job).unwrap();
            prop_assert!(subject.split('.').all(|token| !token.is_empty()));
            prop_assert!(matches_wildcards(&of_key(&key).unwrap(), &subject));
            prop_assert!(matches(&of_journal(), &subject));
            let of_job = of_job(key.namespace.as_deref().unwrap_or_default(), &job);
            prop_assert_eq!(matches_wildcards(&of_job, &subject), key.namespace.is_some() && !job.is_empty());
            prop_assert_eq!(parse_journal(&subject), Some((key, job)));
        }

        #[test]
        fn an_interest_comes_back(
            kind in kinds(), namespace in proptest::option::of(".{0,8}"), holder in ".{0,8}"
        ) {
            let scope = scope(INTERESTS, &kind, namespace.as_deref()).unwrap();
            let subject = format!("{scope}.{}", token(&holder));
            prop_assert_eq!(parse(&subject).unwrap(), Subject::Interest { kind, namespace, holder });
        }

        #[test]
        fn any_text_is_read_without_panic(text in ".{0,40}", tail in "[a-z._%0-9A-F]{0,20}") {
            let _ = parse(&text);
            let _ = parse(&format!("groundwork.v1.{tail}"));
        }
    }
}
