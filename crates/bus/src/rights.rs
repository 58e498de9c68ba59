//! Users of NATS, and the consumers that each of them may create.
//!
//! NATS has no wildcard within a token, and the name of a consumer is one token. So rights can only
//! be given to whole names. Every consumer that may exist has one of the names that follow from the
//! tables below: a queue, a place for a reader, or a place for the queue of a kind that sets
//! select. A user may use only its own names, so a user can neither take the queue of another nor
//! create more consumers than it has places.
//!
//! [`users_conf`] writes the rights as the configuration of a server, and the consumers of a bus
//! take their names from here.

use std::fmt::Write as _;

use crate::object::Kind;
use crate::subject::{self, SubjectError};
use crate::{JOURNAL, STREAM};

/// A user of NATS: a service of Groundwork, or a user that may only read.
#[derive(Debug, PartialEq, Eq)]
pub struct User {
    /// The name to log in with.
    pub name: &'static str,
    /// Description for readers of the configuration.
    about: &'static str,
    /// Maximum number of consumers at a time that read the stream: one for each feed of each
    /// replica, and while a feed catches up one more for each kind.
    pub readers: usize,
    /// Service, plural and group of each queue that the user's replicas share.
    pub queues: &'static [(&'static str, &'static str, &'static str)],
    /// Maximum number of kinds with queues that the table cannot name in advance.
    pub kinds: usize,
    journal: JournalRights,
}

/// Rights on the journal.
#[derive(Debug, PartialEq, Eq)]
enum JournalRights {
    None,
    Writes,
    /// Writes entries, and reads with at most this number of consumers at a time.
    WritesAndReads(usize),
}

const LANDSCAPER: &str = "landscaper.gardener.cloud";
const PORCH: &str = "config.porch.kpt.dev";

/// Maximum number of kinds that sets may select at a time: as many as one user may ask the watcher
/// to watch.
const SELECTED_KINDS: usize = 100;

/// All users. The sum of their places (names for consumers) is below the 1,000 consumers that a
/// server allows a stream.
pub const USERS: [User; 7] = [
    User {
        name: "watcher",
        about: "publishes, and sees to both streams and to the consumers of all.",
        readers: 32,
        queues: &[],
        kinds: 0,
        journal: JournalRights::Writes,
    },
    User {
        name: "resolver",
        about: "",
        readers: 64,
        queues: &[
            ("resolver", "contexts", LANDSCAPER),
            ("resolver", "componentversionoverwrites", LANDSCAPER),
            ("resolver", "installations", LANDSCAPER),
            ("resolver", "namespaces", ""),
        ],
        kinds: 0,
        journal: JournalRights::Writes,
    },
    User {
        name: "renderer",
        about: "reads the journal too, for `groundwork replay`.",
        readers: 96,
        queues: &[
            ("renderer", "installations", LANDSCAPER),
            ("renderer", "executions", LANDSCAPER),
            ("renderer", "deployitems", LANDSCAPER),
        ],
        kinds: 0,
        journal: JournalRights::WritesAndReads(32),
    },
    User {
        name: "deployer",
        about: "has a queue for each type of items that needs a cluster, and one for TargetSyncs.",
        readers: 96,
        queues: &[
            ("deployer", "deployitems", LANDSCAPER),
            ("deployer_manifest", "deployitems", LANDSCAPER),
            ("deployer_helm", "deployitems", LANDSCAPER),
            ("deployer_targetsync", "targetsyncs", LANDSCAPER),
        ],
        kinds: 0,
        journal: JournalRights::Writes,
    },
    User {
        name: "variant",
        about: "has queues for kinds that sets select, too, and a feed for each in every replica.",
        readers: 320,
        queues: &[
            ("variant", "packagevariantsets", PORCH),
            ("variant", "packagerevisionsets", PORCH),
            ("variant", "packagevariants", PORCH),
            ("variant", "repositories", PORCH),
        ],
        kinds: SELECTED_KINDS,
        journal: JournalRights::None,
    },
    User {
        name: "console",
        about: "shows the messages of the stream.",
        readers: 64,
        queues: &[],
        kinds: 0,
        journal: JournalRights::None,
    },
    User {
        name: "reader",
        about: "is for `groundwork events`.",
        readers: 32,
        queues: &[],
        kinds: 0,
        journal: JournalRights::None,
    },
];

impl User {
    /// Returns the user of this name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        USERS.iter().find(|user| user.name == name)
    }

    /// Returns the name of the consumer at a place for readers.
    pub fn reader(&self, place: usize) -> String {
        format!("{}-r{place:03}", self.name)
    }

    /// Returns the name of the consumer at a place for queues of selected kinds.
    pub fn kind(&self, place: usize) -> String {
        format!("{}-k{place:03}", self.name)
    }

    /// Returns the number of places that the user has for reading a stream.
    pub(crate) fn places(&self, stream: &str) -> usize {
        match self.journal {
            _ if stream != JOURNAL => self.readers,
            JournalRights::WritesAndReads(readers) => readers,
            JournalRights::None | JournalRights::Writes => 0,
        }
    }

    /// Returns the names of the consumers of the user's queues, each with its subjects.
    fn own_queues(&self) -> impl Iterator<Item = Result<(String, String), SubjectError>> {
        self.queues.iter().map(|(service, plural, group)| {
            let kind = Kind::new(*group, *plural);
            Ok((subject::consumer(service, &kind)?, subject::of_kind(&kind)?))
        })
    }

    /// Returns the subjects that the user may publish to.
    fn allowed(&self) -> Result<Vec<String>, SubjectError> {
        let mut allowed = vec![format!("$JS.API.STREAM.INFO.{STREAM}")];
        if self.name == "watcher" {
            allowed.push("groundwork.>".to_owned());
            for operation in ["STREAM.CREATE", "STREAM.UPDATE", "STREAM.DELETE", "STREAM.MSG.DELETE"] {
                allowed.push(format!("$JS.API.{operation}.{STREAM}"));
            }
            for operation in ["STREAM.INFO", "STREAM.CREATE", "STREAM.UPDATE"] {
                allowed.push(format!("$JS.API.{operation}.{JOURNAL}"));
            }
            allowed.push(format!("$JS.API.DIRECT.GET.{STREAM}"));
            allowed.push(format!("$JS.API.CONSUMER.LIST.{STREAM}"));
            // The watcher deletes stray consumers, under any name.
            allowed.push(format!("$JS.API.CONSUMER.DELETE.{STREAM}.*"));
        } else if self.journal != JournalRights::None {
            allowed.push(subject::of_journal());
        }
        for queue in self.own_queues() {
            let (name, filter) = queue?;
            allowed.push(format!("$JS.API.CONSUMER.CREATE.{STREAM}.{name}.{filter}"));
            allowed.push(format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{name}"));
            allowed.push(format!("$JS.ACK.{STREAM}.{name}.>"));
        }
        for place in 0..self.kinds {
            let name = self.kind(place);
            allowed.push(format!("$JS.API.CONSUMER.CREATE.{STREAM}.{name}.{}", subject::of_objects()));
            allowed.push(format!("$JS.API.CONSUMER.INFO.{STREAM}.{name}"));
            allowed.push(format!("$JS.API.CONSUMER.MSG.NEXT.{STREAM}.{name}"));
            allowed.push(format!("$JS.ACK.{STREAM}.{name}.>"));
        }
        for stream in [STREAM, JOURNAL] {
            for name in (0..self.places(stream)).map(|place| self.reader(place)) {
                allowed.push(format!("$JS.API.CONSUMER.CREATE.{stream}.{name}"));
                allowed.push(format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{name}"));
                if self.name != "watcher" {
                    allowed.push(format!("$JS.API.CONSUMER.DELETE.{stream}.{name}"));
                }
            }
        }
        Ok(allowed)
    }
}

/// Purpose of a consumer of the stream, derived from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// A queue that the replicas of a service share.
    Queue,
    /// The queue of a kind that sets select.
    Kind,
    /// A consumer of a single reader.
    Reader,
    /// A foreign consumer.
    Unknown,
}

impl Purpose {
    pub(crate) fn of(name: &str) -> Self {
        for user in &USERS {
            if user.own_queues().flatten().any(|(queue, _)| queue == name) {
                return Self::Queue;
            }
            let Some(place) = name.strip_prefix(user.name) else { continue };
            let place_of =
                |mark| place.strip_prefix(mark).and_then(|place: &str| place.parse::<usize>().ok());
            match (place_of("-r"), place_of("-k")) {
                (Some(place), _) if place < user.readers => return Self::Reader,
                (_, Some(place)) if place < user.kinds => return Self::Kind,
                _ => {}
            }
        }
        Self::Unknown
    }
}

/// Returns the configuration of a NATS server that gives each user its rights. Passwords are
/// variables, which another file defines.
///
/// # Errors
/// Only if a table names an invalid kind.
pub fn users_conf() -> Result<String, SubjectError> {
    let mut text = HEADER.to_owned();
    for user in &USERS {
        text.push_str("    {\n");
        if !user.about.is_empty() {
            let _ = writeln!(text, "      # The {} {}", user.name, user.about);
        }
        let password = user.name.to_uppercase();
        let _ = writeln!(text, "      user: {}, password: ${password}_PASSWORD", user.name);
        text.push_str("      permissions: {\n        publish: {allow: [\n");
        for subject in user.allowed()? {
            let _ = writeln!(text, "\"{subject}\"");
        }
        let _ =
            writeln!(text, "        ]}}\n        subscribe: [\"_INBOX_{}.>\"]\n      }}\n    }}", user.name);
    }
    text.push_str("  ]\n}\n");
    Ok(text)
}

const HEADER: &str = "\
# Generated by `cargo xtask crds` from crates/bus. Do not edit.
#
# Users of NATS and the subjects that each may use. Their passwords are variables, which the other file defines; a file that is
# included sees only those of its own.
#
# A service finds the stream, makes the consumers of its own work queues and those that it reads with, and acknowledges its own work.
# Only the watcher publishes and sees to the stream. Answers come to each user in a place of its own. The services that work on jobs
# write to the journal, whose stream the watcher sees to.
#
# NATS has no wildcard within a token, so each name that a consumer may have is listed: the queues of a service, USER-r000 and so on for
# what it reads with, variant-k000 and so on for the queues of kinds that sets select. A user can make no other, nor more of them.
include \"passwords.conf\"

authorization {
  users: [
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_all_fit_on_a_stream() {
        let places: usize = USERS.iter().map(|user| user.readers + user.kinds + user.queues.len()).sum();
        assert!(places <= 900, "{places}: a server gives a stream 1,000, and its operator needs some");
    }

    #[test]
    fn names_tell_their_purpose() {
        let variant = User::named("variant").unwrap();
        for (name, purpose) in [
            (variant.reader(0), Purpose::Reader),
            (variant.reader(319), Purpose::Reader),
            (variant.reader(320), Purpose::Unknown),
            (variant.kind(99), Purpose::Kind),
            (variant.kind(100), Purpose::Unknown),
            ("resolver-k000".to_owned(), Purpose::Unknown),
            ("renderer-deployitems-landscaper_gardener_cloud".to_owned(), Purpose::Queue),
            ("renderer-secrets-core".to_owned(), Purpose::Unknown),
            ("variant-rx".to_owned(), Purpose::Unknown),
            ("variant".to_owned(), Purpose::Unknown),
        ] {
            assert_eq!(Purpose::of(&name), purpose, "{name}");
        }
    }

    /// `kubectl apply` keeps a copy of an object in an annotation, and all annotations of an object
    /// together may have 256 KiB.
    #[test]
    fn the_file_can_be_applied() {
        let escaped = serde_json::to_string(&users_conf().unwrap()).unwrap();
        assert!(escaped.len() < 240_000, "{}", escaped.len());
    }
}
