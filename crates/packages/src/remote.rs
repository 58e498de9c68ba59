//! What talks to a remote: the program `git`, in a process group of its own that is ended when it takes too long.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use gix_hash::ObjectId;
use secrecy::{ExposeSecret as _, SecretString};

use crate::address::{AddressError, Pin, host, protocol, public};
use crate::limits::{Interrupt, shortened};
use crate::meters::Meters;
use crate::process::{Ended, Limits, MAX_PACK, Output, program, run};

/// How long a call may take that asks nobody.
const LOCAL: Duration = Duration::from_secs(120);
/// Of the time for an answer, what packages may take to come or go.
const TRANSFER: u32 = 4;
/// Bytes in a second; a remote that sends fewer for the time of an answer has hung up.
const SLOWEST: &str = "1000";
/// The words for a server that is no git server.
const NO_GIT: &str = "answers, but speaks no git: spec.git.repo has to be the address of a repository";
/// Of what a fetch brings, what is streamed to the disk and never held in memory; in bytes.
const BIG_FILE: &str = "4m";
/// The most that `git` allocates at once, so that no commit or tree of a stranger fills the memory.
const MAX_ALLOCATION_MIB: u32 = 128;
/// Of a remote's words, what a condition shows.
const MAX_WORDS: usize = 1000;

/// How remotes are asked.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// Protocols. `file` lets whoever registers a repository read disks of this machine.
    pub protocols: Vec<String>,
    /// True if addresses of private networks and of this machine are refused.
    pub only_public: bool,
    /// How long an answer may take; packages may come and go four times as long.
    pub timeout: Duration,
}

impl RemoteOptions {
    /// # Errors
    /// The address is of a protocol that is not allowed.
    pub(crate) fn check(&self, url: &str) -> Result<(), RemoteError> {
        let protocol = protocol(url);
        if self.protocols.iter().any(|allowed| allowed == protocol) {
            return Ok(());
        }
        Err(RemoteError::Protocol { protocol: protocol.to_owned(), allowed: self.protocols.join(", ") })
    }
}

/// The purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// No server is asked.
    Local,
    Answer,
    Fetch,
    Push,
}

/// How a remote lets us in.
#[derive(Debug, Clone, Default)]
pub enum Credentials {
    #[default]
    None,
    Basic {
        username: String,
        password: SecretString,
    },
    Bearer(SecretString),
    Ssh {
        private_key: SecretString,
        /// Lines of a `known_hosts` file; without them the key of the first contact is kept.
        known_hosts: Option<String>,
    },
}

impl Credentials {
    /// What tells one identity from another.
    pub(crate) fn parts(&self) -> Vec<&str> {
        match self {
            Self::None => Vec::new(),
            Self::Basic { username, password } => vec![username, password.expose_secret()],
            Self::Bearer(token) => vec![token.expose_secret()],
            Self::Ssh { private_key, known_hosts } => {
                vec![private_key.expose_secret(), known_hosts.as_deref().unwrap_or_default()]
            }
        }
    }
}

/// Why a remote was not reached, or said no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    #[error("git is not installed: {0}")]
    NoGit(String),
    #[error("{0}")]
    Failed(String),
    /// It asks who we are, or does not let us in; the words are those of `git`.
    #[error("{}: {words}", if *.has_credentials {
        "the remote refuses the credentials of spec.git.secretRef"
    } else {
        "the remote asks for credentials, and spec.git.secretRef names none"
    })]
    Unauthorized { has_credentials: bool, words: String },
    /// The server cannot push several refs as one.
    #[error("the remote does not support atomic pushes")]
    NotAtomic,
    #[error("{host} did not answer git within {} seconds", limit.as_secs())]
    TooSlow { host: String, limit: Duration },
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The repository is gone, or has changed.
    #[error("the Repository was changed or deleted meanwhile")]
    Interrupted,
    /// A ref has another value than expected.
    #[error("the object has been modified; please apply your changes to the latest version and try again")]
    Stale(Vec<String>),
    /// A hook of the server refused the push, in its words.
    #[error("{0}")]
    Declined(String),
    /// The address may hold a password, so it is not quoted.
    #[error("spec.git.repo: addresses of this kind ({protocol}) are not allowed (allowed: {allowed})")]
    Protocol { protocol: String, allowed: String },
}

/// One ref of a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefUpdate {
    pub reference: String,
    /// What the remote must have; `None`: nothing.
    pub old: Option<ObjectId>,
    /// What it has afterwards; `None`: nothing.
    pub new: Option<ObjectId>,
}

/// A ref of a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemoteRef {
    /// What the ref holds, which is what a push compares.
    pub id: ObjectId,
    /// The commit: for an annotated tag, what it points at.
    pub commit: ObjectId,
}

impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.parts() == other.parts()
    }
}

/// A repository elsewhere, as seen from a bare clone of it.
#[derive(Debug)]
pub(crate) struct Remote {
    url: String,
    directory: PathBuf,
    credentials: Credentials,
    options: RemoteOptions,
    meters: Meters,
}

impl Remote {
    /// # Errors
    /// The address is of a protocol that is not allowed.
    pub(crate) fn new(
        url: &str,
        directory: &Path,
        credentials: Credentials,
        options: &RemoteOptions,
        meters: Meters,
    ) -> Result<Self, RemoteError> {
        options.check(url)?;
        let remote = Self {
            url: url.to_owned(),
            directory: directory.to_owned(),
            credentials,
            options: options.clone(),
            meters,
        };
        Ok(remote)
    }

    /// How long packages may take to come.
    pub(crate) fn patience(&self) -> Duration {
        self.options.timeout.saturating_mul(TRANSFER)
    }

    /// Whether it lets us in by these.
    pub(crate) fn is_entered_by(&self, credentials: &Credentials) -> bool {
        self.credentials == *credentials
    }

    /// Makes the bare repository that everything is fetched into.
    ///
    /// # Errors
    /// The disk, or there is no `git`.
    pub(crate) fn initialize(&self) -> Result<(), RemoteError> {
        if self.directory.join("objects").is_dir() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.directory).map_err(|error| RemoteError::Failed(error.to_string()))?;
        self.git(&["init", "--quiet", "--bare", "."], "").map(drop)
    }

    /// The branches and tags that the remote has, as `git` prints them.
    ///
    /// # Errors
    /// The remote cannot be reached or says no, or nobody waits any more.
    pub(crate) fn list(&self, interrupt: &Interrupt) -> Result<String, RemoteError> {
        let arguments = ["ls-remote", "--quiet", "--heads", "--tags", "--", &self.url];
        self.git_until(&arguments, "", Purpose::Answer, interrupt)
    }

    /// Makes sure that who has no refs is a git server: over http, `git` takes an empty answer for a repository without any.
    ///
    /// # Errors
    /// It is none, or cannot be reached.
    pub(crate) fn is_git(&self, interrupt: &Interrupt) -> Result<(), RemoteError> {
        if !matches!(protocol(&self.url), "http" | "https") {
            return Ok(());
        }
        let arguments = ["ls-remote", "--quiet", "--heads", "--", &self.url];
        let traced = self.run(&arguments, "", Purpose::Answer, &[("GIT_TRACE_PACKET", "1")], interrupt)?;
        let has_spoken = |line: &str| line.contains("packet: ");
        match traced.status {
            Some(0) if traced.stderr.lines().any(has_spoken) => Ok(()),
            Some(0) => Err(RemoteError::Failed(format!("{} {NO_GIT}", host(&self.url)))),
            // The first look took the end of an answer for an empty one.
            _ => {
                let lines: Vec<&str> = traced.stderr.lines().filter(|line| !has_spoken(line)).collect();
                Err(self.explained(RemoteError::Failed(words(&lines.join("\n")))))
            }
        }
    }

    /// Fetches what refs have; [`Remote::keep`] lets the clone have refs of the same names, so that it keeps their objects.
    ///
    /// # Errors
    /// The remote cannot be reached, says no, has lost one of the refs since it listed them, or sends more than is taken; or nobody waits
    /// any more.
    pub(crate) fn fetch(&self, references: &[&str], interrupt: &Interrupt) -> Result<(), RemoteError> {
        let specs: String = references.iter().map(|name| format!("{name}\n")).collect();
        let arguments = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-auto-gc",
            "--no-write-fetch-head",
            "--stdin",
            "--",
            &self.url,
        ];
        let begun = SystemTime::now();
        let fetched = self.git_until(&arguments, &specs, Purpose::Fetch, interrupt).map(drop);
        if fetched.is_err() {
            self.remove_halves(begun);
        }
        fetched
    }

    /// Removes what a fetch has left that was ended; nobody else does for two weeks.
    fn remove_halves(&self, begun: SystemTime) {
        let Ok(files) = std::fs::read_dir(self.directory.join("objects/pack")) else { return };
        for file in files.flatten() {
            let is_half = file.file_name().to_string_lossy().starts_with("tmp_");
            let changed = file.metadata().and_then(|metadata| metadata.modified());
            if is_half && changed.is_ok_and(|changed| changed >= begun) {
                drop(std::fs::remove_file(file.path()));
            }
        }
    }

    /// Brings the refs of the clone to what is known, so that objects nobody needs can go some day.
    ///
    /// # Errors
    /// The disk.
    pub(crate) fn keep(&self, updates: &[RefUpdate]) -> Result<(), RemoteError> {
        if updates.is_empty() {
            return Ok(());
        }
        let line = |update: &RefUpdate| match update.new {
            Some(id) => format!("update {} {id}\n", update.reference),
            None => format!("delete {}\n", update.reference),
        };
        let lines: String = updates.iter().map(line).collect();
        self.git(&["update-ref", "--stdin"], &lines).map(drop)
    }

    /// Packs the objects of the clone: if about so many of them lie about by themselves, or there are many packs; or whatever there is. What
    /// nothing has referred to for two weeks goes.
    ///
    /// # Errors
    /// The disk, or it takes too long.
    pub(crate) fn pack(&self, loose: Option<usize>) -> Result<(), RemoteError> {
        let threshold = format!("gc.auto={}", loose.unwrap_or_default());
        // In the foreground, so that it ends with us.
        let mut arguments = vec!["-c", threshold.as_str(), "-c", "gc.autoDetach=false", "gc", "--quiet"];
        arguments.extend(loose.map(|_| "--auto"));
        self.git(&arguments, "").map(drop)
    }

    /// Pushes all of the updates or none; where the server cannot do that, one after the other in their order.
    ///
    /// # Errors
    /// [`RemoteError::Stale`] if a ref has another value than expected, [`RemoteError::Declined`] by a hook, or the remote
    /// cannot be reached.
    pub(crate) fn push(&self, updates: &[RefUpdate]) -> Result<(), RemoteError> {
        match self.push_atomically(updates) {
            Err(RemoteError::NotAtomic) => {
                updates.chunks(1).try_for_each(|update| self.push_once(update, false))
            }
            result => result,
        }
    }

    /// Pushes all of the updates or none.
    ///
    /// # Errors
    /// As [`Remote::push`], and [`RemoteError::NotAtomic`].
    pub(crate) fn push_atomically(&self, updates: &[RefUpdate]) -> Result<(), RemoteError> {
        self.push_once(updates, true)
    }

    fn push_once(&self, updates: &[RefUpdate], atomic: bool) -> Result<(), RemoteError> {
        let leases = updates.iter().map(|update| {
            let old = update.old.map(|id| id.to_string()).unwrap_or_default();
            format!("--force-with-lease={}:{old}", update.reference)
        });
        let specs = updates.iter().map(|update| {
            let new = update.new.map(|id| id.to_string()).unwrap_or_default();
            format!("{new}:{}", update.reference)
        });
        let mut arguments = vec!["push".to_owned(), "--porcelain".to_owned(), "--no-verify".to_owned()];
        arguments.extend(atomic.then(|| "--atomic".to_owned()));
        arguments.extend(leases);
        arguments.extend(["--".to_owned(), self.url.clone()]);
        arguments.extend(specs);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let Output { status, stdout, stderr } =
            self.run(&arguments, "", Purpose::Push, &[], &Interrupt::default())?;
        if status == Some(0) {
            return Ok(());
        }
        Err(self.explained(refusal(&stdout, &stderr)))
    }

    /// The output of `git`, if it succeeds.
    fn git(&self, arguments: &[&str], input: &str) -> Result<String, RemoteError> {
        self.git_until(arguments, input, Purpose::Local, &Interrupt::default())
    }

    /// The same for as long as somebody waits.
    fn git_until(
        &self,
        arguments: &[&str],
        input: &str,
        purpose: Purpose,
        interrupt: &Interrupt,
    ) -> Result<String, RemoteError> {
        let Output { status, stdout, stderr } = self.run(arguments, input, purpose, &[], interrupt)?;
        if status == Some(0) {
            return Ok(stdout);
        }
        let words = words(&stderr);
        // Refs are held in memory as one answer; objects are not.
        if purpose == Purpose::Answer && is_allocation(&words) {
            let problem =
                format!("{} answers with more than {MAX_ALLOCATION_MIB} MiB of refs", host(&self.url));
            return Err(RemoteError::Failed(problem));
        }
        Err(self.explained(RemoteError::Failed(if words.is_empty() {
            "git failed without a word".to_owned()
        } else {
            words
        })))
    }

    /// What the words of `git` mean for who has registered the remote.
    fn explained(&self, error: RemoteError) -> RemoteError {
        let RemoteError::Failed(words) = error else { return error };
        if words.contains("does not support --atomic") {
            return RemoteError::NotAtomic;
        }
        if let Some(limit) = limit_in(&words) {
            return RemoteError::Failed(limit);
        }
        if words.contains("not valid: is this a git repository?") {
            return RemoteError::Failed(format!("{} {NO_GIT}", host(&self.url)));
        }
        // Without a terminal to ask for a name, that is what is said of a refusal.
        let refusals = [
            "could not read Username",
            "could not read Password",
            "Authentication failed",
            "Permission denied (publickey",
            "Host key verification failed",
        ];
        if refusals.iter().any(|refusal| words.contains(refusal)) {
            let has_credentials = !self.credentials.parts().is_empty();
            return RemoteError::Unauthorized { has_credentials, words };
        }
        RemoteError::Failed(words)
    }

    fn run(
        &self,
        arguments: &[&str],
        input: &str,
        purpose: Purpose,
        variables: &[(&str, &str)],
        interrupt: &Interrupt,
    ) -> Result<Output, RemoteError> {
        let begun = Instant::now();
        let limit = match purpose {
            Purpose::Local => LOCAL,
            Purpose::Answer => self.options.timeout,
            Purpose::Fetch | Purpose::Push => self.patience(),
        };
        let limits = Limits { file: (purpose == Purpose::Fetch).then_some(MAX_PACK) };
        // Each time anew: a name may lead elsewhere by now.
        let is_pinned = self.options.only_public && purpose != Purpose::Local;
        let pin = if is_pinned { public(&self.url)? } else { Pin::Disk };
        let mut command = Command::new(program().map_err(RemoteError::NoGit)?);
        command.args(arguments).current_dir(&self.directory).env_clear().envs(variables.iter().copied());
        self.environment(&mut command, &pin)?;
        let ended = run(command, input, begun + limit, limits, interrupt);
        self.meters.git(arguments, begun.elapsed());
        ended.map_err(|ended| match ended {
            Ended::NoProgram(error) => RemoteError::NoGit(error),
            Ended::OutOfTime => RemoteError::TooSlow { host: host(&self.url).to_owned(), limit },
            Ended::Interrupted => RemoteError::Interrupted,
        })
    }

    /// Nothing of the operator's or the user's settings, and no secret among the arguments, which all processes see.
    pub(crate) fn environment(&self, command: &mut Command, pin: &Pin) -> Result<(), RemoteError> {
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("HOME", &self.directory).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("GIT_DIR", ".").env("GIT_ALLOW_PROTOCOL", self.options.protocols.join(":"));
        command.env("GIT_ALLOC_LIMIT", format!("{MAX_ALLOCATION_MIB}m"));
        let is_led = self.credentials.parts().is_empty() && !self.options.only_public;
        let mut settings = vec![
            ("gc.auto", "0".to_owned()),
            ("core.bigFileThreshold", BIG_FILE.to_owned()),
            ("core.deltaBaseCacheLimit", "16m".to_owned()),
            ("pack.threads", "1".to_owned()),
            ("pack.windowMemory", "32m".to_owned()),
            ("http.lowSpeedLimit", SLOWEST.to_owned()),
            ("http.lowSpeedTime", self.options.timeout.as_secs().max(1).to_string()),
            // A redirect could take the credentials elsewhere, or lead to a place that is not public.
            ("http.followRedirects", if is_led { "initial" } else { "false" }.to_owned()),
            ("transfer.fsckObjects", "false".to_owned()),
        ];
        let header = match &self.credentials {
            Credentials::None | Credentials::Ssh { .. } => None,
            Credentials::Basic { username, password } => {
                let pair = format!("{username}:{}", password.expose_secret());
                Some(format!("Authorization: Basic {}", data_encoding::BASE64.encode(pair.as_bytes())))
            }
            Credentials::Bearer(token) => Some(format!("Authorization: Bearer {}", token.expose_secret())),
        };
        settings.extend(header.map(|header| ("http.extraHeader", header)));
        if let Pin::Http(Some(places)) = pin {
            settings.push(("http.curloptResolve", places.clone()));
        }
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (index, (key, value)) in settings.into_iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), key)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        if let Credentials::Ssh { private_key, known_hosts } = &self.credentials {
            command.env("GIT_SSH_COMMAND", self.ssh(private_key, known_hosts.as_deref(), pin)?);
        } else if let Some(place) = ssh_place(pin) {
            command.env(
                "GIT_SSH_COMMAND",
                format!("ssh -F /dev/null -o BatchMode=yes -o ConnectTimeout=20{place}"),
            );
        }
        Ok(())
    }

    /// The program of the connection, which takes keys from files only.
    fn ssh(
        &self,
        private_key: &SecretString,
        known_hosts: Option<&str>,
        pin: &Pin,
    ) -> Result<String, RemoteError> {
        let write = |name: &str, text: &str| -> std::io::Result<PathBuf> {
            let path = self.directory.join(name);
            // A file of this kind is readable by its owner alone from its first moment.
            let mut file = tempfile::NamedTempFile::new_in(&self.directory)?;
            file.write_all(text.trim_end().as_bytes())?;
            file.write_all(b"\n")?;
            file.persist(&path).map_err(|error| error.error)?;
            Ok(path)
        };
        let failed =
            |error: std::io::Error| RemoteError::Failed(format!("cannot keep the key of ssh: {error}"));
        let key = write("ssh-key", private_key.expose_secret()).map_err(failed)?;
        let (hosts, check) = match known_hosts {
            Some(lines) => (write("known-hosts", lines).map_err(failed)?, "yes"),
            None => (self.directory.join("seen-hosts"), "accept-new"),
        };
        Ok(format!(
            "ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -o ConnectTimeout=20 -o StrictHostKeyChecking={check} \
             -o 'UserKnownHostsFile=\"{}\"' -i '{}'{}",
            hosts.display(),
            key.display(),
            ssh_place(pin).unwrap_or_default()
        ))
    }
}

/// Options of `ssh` by which it connects to an address that was looked at, and knows its keys by the name.
fn ssh_place(pin: &Pin) -> Option<String> {
    let Pin::Ssh { address, alias } = pin else { return None };
    Some(format!(" -o HostName={address} -o 'HostKeyAlias={alias}'"))
}

/// What the server said to a push that failed.
fn refusal(stdout: &str, stderr: &str) -> RemoteError {
    let mut stale = Vec::new();
    let mut declined = Vec::new();
    // `!<tab>from:to<tab>[reason] (details)`
    for line in stdout.lines().filter_map(|line| line.strip_prefix("!\t")) {
        let Some((spec, reason)) = line.split_once('\t') else { continue };
        let reference = spec.rsplit(':').next().unwrap_or(spec).to_owned();
        if reason.contains("stale info")
            || reason.contains("fetch first")
            || reason.contains("already exists")
            || reason.contains("failed to update ref")
            || reason.contains("failed to lock")
            || reason.contains("cannot lock ref")
            || reason.contains("incorrect old value")
            || reason.contains("reference already exists")
        {
            stale.push(reference);
        } else if !reason.contains("atomic push failed") && !reason.contains("atomic transaction failed") {
            declined.push(format!("{reference}: {reason}"));
        }
    }
    if !stale.is_empty() {
        return RemoteError::Stale(stale);
    }
    let words = words(stderr);
    if !declined.is_empty() {
        let said: Vec<&str> = stderr.lines().filter_map(|line| line.strip_prefix("remote: ")).collect();
        let text = [declined.join("; "), said.join(" ")].join(" ");
        return RemoteError::Declined(shortened(text.trim(), MAX_WORDS));
    }
    RemoteError::Failed(if words.is_empty() { "git push failed without a word".to_owned() } else { words })
}

/// True if `git` has ended itself because it would have allocated too much.
fn is_allocation(words: &str) -> bool {
    words.contains("attempting to allocate")
}

/// The error of a `git` that was ended by one of the limits it works within.
fn limit_in(words: &str) -> Option<String> {
    if is_allocation(words) {
        return Some(format!(
            "a commit, tree or tag, or what a file is stored as a difference to, is larger than the allowed {MAX_ALLOCATION_MIB} MiB"
        ));
    }
    // The signal for a file that grows beyond its limit.
    words
        .contains("died of signal 25")
        .then(|| format!("it sends more than the allowed {MAX_PACK} bytes at once"))
}

/// What a program said, in one line.
fn words(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    shortened(&lines.collect::<Vec<_>>().join("; "), MAX_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_that_are_not_allowed() {
        let options = RemoteOptions {
            protocols: vec!["https".to_owned()],
            only_public: false,
            timeout: Duration::from_secs(30),
        };
        let error =
            Remote::new("file:///etc", Path::new("."), Credentials::None, &options, Meters::default())
                .unwrap_err();
        assert_eq!(
            error.to_string(),
            "spec.git.repo: addresses of this kind (file) are not allowed (allowed: https)"
        );
    }

    #[test]
    fn refusals() {
        let stale = "To x\n!\tabc:refs/heads/main\t[rejected] (stale info)\n!\tdef:refs/tags/a/v1\t[rejected] (atomic push failed)\nDone\n";
        assert_eq!(refusal(stale, ""), RemoteError::Stale(vec!["refs/heads/main".into()]));
        let hook = "!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)\n";
        let RemoteError::Declined(text) = refusal(hook, "remote: no entry\nerror: failed\n") else {
            panic!()
        };
        assert_eq!(text, "refs/heads/main: [remote rejected] (pre-receive hook declined) no entry");
        assert_eq!(refusal("", "fatal: no such host\n"), RemoteError::Failed("fatal: no such host".into()));
    }
}
