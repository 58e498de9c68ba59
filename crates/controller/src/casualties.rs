//! Keys during whose handling the process died.
//!
//! A process that is killed for its memory use, or by a bug in a library, would take up the same
//! key again, die again, and so never serve any other key. So a file lists the keys that are being
//! handled. A key that is in the file at the start was being handled when the previous process
//! died, and is a suspect. Suspects are handled after all other keys, one at a time. A key with
//! three deaths in a row is set aside.
//!
//! Keys are handled by a queue, or by calls of other services, which do not pass through a queue. A
//! call about a suspect waits for the call about another suspect, and is refused after three
//! deaths.
//!
//! The file belongs to the container and does not survive the pod: a new pod starts without
//! suspects.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use groundwork_bus::{Kind, ObjectId};

use crate::reconcile::Key;

/// Deaths in a row after which a key is set aside, because that many are hardly a coincidence.
const MOST_DEATHS: u32 = 3;
/// Number of lines after which the file is rewritten.
const MOST_LINES: usize = 10_000;

/// Record of the deaths of earlier processes. Without a folder it records nothing.
#[derive(Debug, Clone, Default)]
pub struct Casualties {
    log: Option<Arc<Mutex<Log>>>,
    /// Lock that the current call about a suspect holds.
    suspect: Arc<tokio::sync::Mutex<()>>,
}

/// A key that a service handles. Services of one process keep separate keys.
type Work = (String, Key);

#[derive(Debug)]
struct Log {
    path: PathBuf,
    file: File,
    lines: usize,
    in_hand: HashMap<Work, u32>,
    /// Number of deaths in a row for each key that was being handled.
    deaths: HashMap<Work, u32>,
}

/// Verdict on a key that is about to be handled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    Innocent,
    Suspected,
    /// The key must not be handled any more.
    Guilty,
}

/// A key that is being handled. Dropping this without [done](InHand::done) keeps the suspicion
/// against the key.
#[derive(Debug)]
pub(crate) struct InHand {
    casualties: Casualties,
    work: Work,
}

impl Casualties {
    /// Reads which keys the previous process of this name was handling.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub fn open(folder: &Path, process: &str) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let path = folder.join(format!("{process}-in-hand"));
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            text => text?,
        };
        let deaths = deaths(&text);
        let file = written(&path, &deaths, &HashMap::new())?;
        let log = Log { path, file, lines: 0, in_hand: HashMap::new(), deaths };
        Ok(Self { log: Some(Arc::new(Mutex::new(log))), ..Self::default() })
    }

    /// Returns the keys of a service that must be handled last.
    pub(crate) fn suspects(&self, service: &str) -> Vec<Key> {
        let of_service = |log: &mut Log| {
            log.deaths.keys().filter(|(of, _)| of == service).map(|(_, key)| key.clone()).collect()
        };
        self.with(of_service).unwrap_or_default()
    }

    pub(crate) fn past(&self, service: &str, key: &Key) -> Past {
        // After a normal start there are no deaths, so skip building the lookup key.
        let found = self.with(|log| {
            if log.deaths.is_empty() {
                return None;
            }
            log.deaths.get(&(service.to_owned(), key.clone())).copied()
        });
        match found.flatten() {
            None | Some(0) => Past::Innocent,
            Some(deaths) if deaths < MOST_DEATHS => Past::Suspected,
            Some(_) => Past::Guilty,
        }
    }

    /// Notes that a key is being handled.
    pub(crate) fn begin(&self, service: &str, key: &Key) -> InHand {
        let work = (service.to_owned(), key.clone());
        self.with(|log| {
            *log.in_hand.entry(work.clone()).or_default() += 1;
            log.write('+', &work);
        });
        InHand { casualties: self.clone(), work }
    }

    /// Notes that a call is handling a key. Only one call about a suspect runs at a time.
    ///
    /// # Errors
    /// The message about a key that is set aside, until the key is [forgiven](Casualties::forgive).
    pub async fn admit(&self, service: &str, key: &Key) -> Result<AdmittedCall, String> {
        let calls = calls_of(service);
        let alone = match self.past(&calls, key) {
            Past::Innocent => None,
            Past::Suspected => Some(Arc::clone(&self.suspect).lock_owned().await),
            Past::Guilty => return Err(words(service)),
        };
        Ok(AdmittedCall { in_hand: self.begin(&calls, key), _alone: alone })
    }

    /// Clears the deaths of a key once the refusal has reached its callers, so that the next call
    /// about the key is a new attempt.
    pub fn forgive(&self, service: &str, key: &Key) {
        self.begin(&calls_of(service), key).done();
    }

    fn with<T>(&self, act: impl FnOnce(&mut Log) -> T) -> Option<T> {
        let log = self.log.as_ref()?;
        Some(act(&mut log.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// A call in progress. Dropping this without [done](AdmittedCall::done) keeps the suspicion against
/// its key.
#[derive(Debug)]
#[must_use]
pub struct AdmittedCall {
    in_hand: InHand,
    _alone: Option<tokio::sync::OwnedMutexGuard<()>>,
}

impl AdmittedCall {
    /// Ends the call normally and clears the suspicion against its key.
    pub fn done(self) {
        self.in_hand.done();
    }
}

/// Returns the name under which calls are counted. Calls are separate from the service's queue,
/// which may be handling the same key: attempts of the queue say nothing about calls.
fn calls_of(service: &str) -> String {
    format!("{service}:calls")
}

/// Returns the message for a key that is set aside. It contains the version, so that a new version,
/// which may have fixed the bug, tries again.
pub(crate) fn words(service: &str) -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "processes of {service} {version} died three times in a row while they worked on this object, so it is set \
         aside until it is changed or a new job is requested; their logs and the last state of their containers show \
         the cause"
    )
}

impl InHand {
    /// Ends the handling of the key normally and clears the suspicion against it.
    pub(crate) fn done(self) {
        self.casualties.with(|log| {
            if log.deaths.remove(&self.work).is_some() {
                log.write('0', &self.work);
            }
        });
    }
}

impl Drop for InHand {
    fn drop(&mut self) {
        self.casualties.with(|log| {
            if let Some(times) = log.in_hand.get_mut(&self.work) {
                *times -= 1;
                if *times == 0 {
                    log.in_hand.remove(&self.work);
                }
            }
            log.write('-', &self.work);
        });
    }
}

impl Log {
    /// Appends a line. The line is short and goes to the kernel's page cache, which outlives the
    /// process.
    fn write(&mut self, mark: char, work: &Work) {
        self.lines += 1;
        let outcome = if self.lines > MOST_LINES {
            self.lines = 0;
            written(&self.path, &self.deaths, &self.in_hand).map(|file| self.file = file)
        } else {
            self.file.write_all(line(mark, work).as_bytes())
        };
        if let Err(error) = outcome {
            // The only consequence is that this key will not be suspected after a death.
            tracing::debug!(%error, file = %self.path.display(), "cannot record a key before its handling");
        }
    }
}

/// Rewrites the file with the known deaths and keys.
fn written(path: &Path, deaths: &HashMap<Work, u32>, in_hand: &HashMap<Work, u32>) -> io::Result<File> {
    let mut text = String::new();
    for (work, times) in deaths {
        for _ in 0..*times {
            text.push_str(&line('x', work));
        }
    }
    for (work, times) in in_hand {
        for _ in 0..*times {
            text.push_str(&line('+', work));
        }
    }
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(&new, path)?;
    OpenOptions::new().append(true).open(path)
}

/// Formats a line: `+` handling begins, `-` handling ends, `x` a death, `0` deaths cleared.
/// Kubernetes names do not contain blanks.
fn line(mark: char, (service, key): &Work) -> String {
    let (group, plural) = (key.kind.group(), key.kind.plural());
    let namespace = key.namespace.as_deref().unwrap_or_default();
    format!("{mark} {service} {group} {plural} {namespace} {}\n", key.name)
}

/// Returns the number of deaths for each key, including the latest death.
fn deaths(text: &str) -> HashMap<Work, u32> {
    let (mut deaths, mut in_hand) = (HashMap::<Work, u32>::new(), HashMap::<Work, u32>::new());
    for line in text.lines() {
        let parts: Vec<&str> = line.split(' ').collect();
        // The last line may be incomplete.
        let [mark, service, group, plural, namespace, name] = parts[..] else { continue };
        let namespace = (!namespace.is_empty()).then_some(namespace);
        let work = (service.to_owned(), ObjectId::new(Kind::new(group, plural), namespace, name));
        match mark {
            "x" => *deaths.entry(work).or_default() += 1,
            "0" => _ = deaths.remove(&work),
            "+" => *in_hand.entry(work).or_default() += 1,
            "-" => {
                if let Some(times) = in_hand.get_mut(&work) {
                    *times = times.saturating_sub(1);
                }
            }
            _ => {}
        }
    }
    for (work, _) in in_hand.into_iter().filter(|(_, times)| *times > 0) {
        *deaths.entry(work).or_default() += 1;
    }
    deaths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Key {
        ObjectId::new(Kind::new("landscaper.gardener.cloud", "deployitems"), Some("n"), name)
    }

    /// Simulates a death: no key that is being handled is marked as ended.
    fn die(in_hand: Vec<InHand>) {
        std::mem::forget(in_hand);
    }

    #[test]
    fn three_deaths_in_a_row_are_too_many() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Casualties::open(&folder.path().join("state"), "p").unwrap();
        let casualties = open();
        assert_eq!(casualties.past("deployer", &key("bad")), Past::Innocent);
        die(vec![casualties.begin("deployer", &key("bad")), casualties.begin("deployer", &key("good"))]);

        let casualties = open();
        let mut suspects = casualties.suspects("deployer");
        suspects.sort();
        assert_eq!(suspects, [key("bad"), key("good")]);
        assert_eq!(casualties.suspects("renderer"), []);
        assert_eq!(casualties.past("deployer", &key("bad")), Past::Suspected);
        casualties.begin("deployer", &key("good")).done();
        // A dropped key has failed, which says nothing about its next attempt.
        drop(casualties.begin("deployer", &key("bad")));
        die(vec![casualties.begin("deployer", &key("bad"))]);

        let casualties = open();
        assert_eq!(casualties.suspects("deployer"), [key("bad")]);
        die(vec![casualties.begin("deployer", &key("bad"))]);

        let casualties = open();
        assert_eq!(casualties.past("deployer", &key("bad")), Past::Guilty);
        casualties.begin("deployer", &key("bad")).done();
        assert_eq!(casualties.past("deployer", &key("bad")), Past::Innocent);
        assert_eq!(open().suspects("deployer"), []);
    }

    #[tokio::test]
    async fn calls_about_suspects_go_one_at_a_time_and_are_refused_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Casualties::open(folder.path(), "p").unwrap();
        for _ in 0..3 {
            let casualties = open();
            let bad = casualties.admit("resolver", &key("bad")).await.unwrap();
            die(vec![bad.in_hand]);
        }
        let casualties = open();
        let other = casualties.admit("resolver", &key("good")).await.unwrap();
        let refusal = casualties.admit("resolver", &key("bad")).await.unwrap_err();
        assert!(refusal.starts_with("processes of resolver"), "{refusal}");
        assert!(casualties.admit("resolver", &key("bad")).await.is_err(), "until the refusal has been told");
        casualties.forgive("resolver", &key("bad"));
        let again = casualties.admit("resolver", &key("bad")).await.unwrap();
        die(vec![other.in_hand, again.in_hand]);

        let casualties = open();
        let first = casualties.admit("resolver", &key("bad")).await.unwrap();
        assert!(futures::poll!(Box::pin(casualties.admit("resolver", &key("good")))).is_pending());
        first.done();
        assert!(futures::poll!(Box::pin(casualties.admit("resolver", &key("good")))).is_ready());
    }

    #[test]
    fn the_file_stays_small_and_forgets_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let casualties = Casualties::open(folder.path(), "p").unwrap();
        let bad = casualties.begin("renderer", &key("bad"));
        for _ in 0..MOST_LINES {
            casualties.begin("renderer", &key("good")).done();
        }
        let size = fs::metadata(folder.path().join("p-in-hand")).unwrap().len();
        assert!(size < 100 * u64::try_from(MOST_LINES).unwrap(), "{size}");
        die(vec![bad]);
        assert_eq!(Casualties::open(folder.path(), "p").unwrap().suspects("renderer"), [key("bad")]);
    }

    #[test]
    fn a_torn_line_and_a_missing_folder_are_no_trouble() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("p-in-hand"), "+ a g things n one\n+ a g thi").unwrap();
        let one = ObjectId::new(Kind::new("g", "things"), Some("n"), "one");
        assert_eq!(Casualties::open(folder.path(), "p").unwrap().suspects("a"), std::slice::from_ref(&one));
        let none = Casualties::default();
        die(vec![none.begin("a", &one)]);
        assert_eq!(none.past("a", &one), Past::Innocent);
    }
}
