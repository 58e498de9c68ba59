//! Communication with a remote through the program `git`, whose process group is killed after a
//! timeout.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

use gix_hash::ObjectId;

use crate::git::access::{Access, Environment, MAX_ALLOCATION_MIB, Proxy};
use crate::git::address::{AddressError, Pin, host, protocol, public};
use crate::git::limits::{Interrupt, shortened};
use crate::git::meters::Meters;
use crate::git::process::{Ended, Limits, MAX_PACK, Output, program, run};

/// Time limit for a call without network access.
const LOCAL: Duration = Duration::from_secs(120);
/// Factor by which the time limit of a transfer of packages is longer than that of an answer.
const TRANSFER: u32 = 4;
/// Message for a server that does not speak the git protocol.
const NO_GIT: &str =
    "answers, but not as a git server: spec.git.repo must be the address of a git repository";
/// Characters of a remote's message that a condition shows.
const MAX_WORDS: usize = 1000;

/// Options for access to remotes.
#[derive(Debug, Clone)]
pub struct RemoteOptions {
    /// Allowed protocols. `file` lets users who register a repository read disks of this machine.
    pub protocols: Vec<String>,
    /// True if addresses of private networks and of this machine are refused.
    pub only_public: bool,
    /// Time limit for an answer; transfers of packages may take four times as long.
    pub timeout: Duration,
    /// PEM file with certificates that are trusted instead of those of the system.
    pub certificates: Option<PathBuf>,
    /// Proxy for remotes at http and https addresses.
    pub proxy: Option<Proxy>,
    /// Hosts that are contacted without the proxy: names with their subdomains, IP addresses and
    /// networks, or `*` for all hosts.
    pub no_proxy: Vec<String>,
}

impl Default for RemoteOptions {
    fn default() -> Self {
        Self {
            protocols: Vec::new(),
            only_public: false,
            timeout: Duration::from_secs(30),
            certificates: None,
            proxy: None,
            no_proxy: Vec::new(),
        }
    }
}

impl RemoteOptions {
    /// Checks the protocol of an address.
    ///
    /// # Errors
    /// The protocol is not allowed.
    pub(crate) fn check(&self, url: &str) -> Result<(), RemoteError> {
        let protocol = protocol(url);
        if self.protocols.iter().any(|allowed| allowed == protocol) {
            return Ok(());
        }
        Err(RemoteError::Protocol { protocol: protocol.to_owned(), allowed: self.protocols.join(", ") })
    }
}

/// Purpose of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Call without a server.
    Local,
    Answer,
    Fetch,
    Push,
}

/// Reason why a call to a remote failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    #[error("git is not installed: {0}")]
    NoGit(String),
    #[error("{0}")]
    Failed(String),
    /// The remote asks for credentials, or refuses them; the text is that of `git`.
    #[error("{}: {words}", if *.has_credentials {
        "the remote refuses the credentials of spec.git.secretRef"
    } else {
        "the remote requires credentials: name a Secret with them in spec.git.secretRef"
    })]
    Unauthorized { has_credentials: bool, words: String },
    /// The certificate of the remote is not from an authority that is trusted; the text is that of
    /// `git`.
    #[error(
        "{host} has a certificate that is not trusted here: put the certificate of its authority as ca.crt into the Secret of \
         spec.git.secretRef: {words}"
    )]
    Untrusted { host: String, words: String },
    /// The text is that of `git`.
    #[error("the proxy requires a user name and password, or refuses them: {0}")]
    Proxy(String),
    #[error(
        "spec.git.secretRef: {key} in the Secret has no effect on a remote at this kind of address ({protocol}): remove it, or use \
         an https address"
    )]
    Unused { key: &'static str, protocol: String },
    /// The server cannot push several refs atomically.
    #[error("the remote does not support atomic pushes")]
    NotAtomic,
    #[error("{host} did not answer git within {} seconds", limit.as_secs())]
    TooSlow { host: String, limit: Duration },
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The repository was changed or deleted.
    #[error("the Repository was changed or deleted in the meantime")]
    Interrupted,
    /// A ref has another value than expected.
    #[error("the object has been modified; please apply your changes to the latest version and try again")]
    Stale(Vec<String>),
    /// A hook of the server declined the push; the text is that of the hook.
    #[error("{0}")]
    Declined(String),
    /// The protocol is not allowed. The address is not quoted, since it may contain a password.
    #[error("spec.git.repo: addresses of this kind ({protocol}) are not allowed (allowed: {allowed})")]
    Protocol { protocol: String, allowed: String },
}

/// Update of one ref in a push.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefUpdate {
    pub reference: String,
    /// Expected value at the remote; `None` if the ref must not exist.
    pub old: Option<ObjectId>,
    /// New value; `None` deletes the ref.
    pub new: Option<ObjectId>,
}

/// Ref of a remote.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemoteRef {
    /// Value of the ref, which a push compares.
    pub id: ObjectId,
    /// Commit of the ref: for an annotated tag, the commit that it points to.
    pub commit: ObjectId,
}

/// Remote of a bare clone.
#[derive(Debug)]
pub(crate) struct Remote {
    url: String,
    directory: PathBuf,
    access: Access,
    options: RemoteOptions,
    meters: Meters,
}

impl Remote {
    /// Creates the remote of a clone.
    ///
    /// # Errors
    /// The protocol of the address is not allowed, or a part of the access has no effect on it.
    pub(crate) fn new(
        url: &str,
        directory: &Path,
        access: Access,
        options: &RemoteOptions,
        meters: Meters,
    ) -> Result<Self, RemoteError> {
        options.check(url)?;
        access.check(url)?;
        let remote = Self {
            url: url.to_owned(),
            directory: directory.to_owned(),
            access,
            options: options.clone(),
            meters,
        };
        Ok(remote)
    }

    /// Returns the time limit for a fetch.
    pub(crate) fn patience(&self) -> Duration {
        self.options.timeout.saturating_mul(TRANSFER)
    }

    /// Reports whether the remote is contacted in this way.
    pub(crate) fn is_entered_by(&self, access: &Access) -> bool {
        self.access == *access
    }

    /// Creates the bare repository for fetches.
    ///
    /// # Errors
    /// The disk fails, or `git` is missing.
    pub(crate) fn initialize(&self) -> Result<(), RemoteError> {
        if self.directory.join("objects").is_dir() {
            return Ok(());
        }
        std::fs::create_dir_all(&self.directory).map_err(|error| RemoteError::Failed(error.to_string()))?;
        self.git(&["init", "--quiet", "--bare", "."], "").map(drop)
    }

    /// Returns the branches and tags of the remote, as `git` prints them.
    ///
    /// # Errors
    /// The remote fails or refuses, or the call was interrupted.
    pub(crate) fn list(&self, interrupt: &Interrupt) -> Result<String, RemoteError> {
        let arguments = ["ls-remote", "--quiet", "--heads", "--tags", "--", &self.url];
        self.git_until(&arguments, "", Purpose::Answer, interrupt)
    }

    /// Checks that a server with an empty listing is a git server: over http, `git` takes any empty
    /// answer for a repository without refs.
    ///
    /// # Errors
    /// The server is not a git server, or fails.
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
            // The call succeeded without a packet of the git protocol: `git` took the end of a
            // foreign response for an empty listing.
            _ => {
                let lines: Vec<&str> = traced.stderr.lines().filter(|line| !has_spoken(line)).collect();
                Err(self.explained(RemoteError::Failed(words(&lines.join("\n")))))
            }
        }
    }

    /// Fetches the objects of refs. [`Remote::keep`] then creates these refs in the clone, so that
    /// their objects are kept.
    ///
    /// # Errors
    /// The remote fails or refuses, has deleted one of the refs since it listed them, or sends more
    /// than allowed; or the call was interrupted.
    pub(crate) fn fetch(&self, references: &[&str], interrupt: &Interrupt) -> Result<(), RemoteError> {
        self.fetch_with(&[], references, interrupt)
    }

    /// Fetches the commit of a ref, or a commit, without its history.
    ///
    /// # Errors
    /// Like [`Self::fetch`].
    pub(crate) fn fetch_tip(&self, reference: &str, interrupt: &Interrupt) -> Result<(), RemoteError> {
        self.fetch_with(&["--depth=1"], &[reference], interrupt)
    }

    fn fetch_with(
        &self,
        options: &[&str],
        references: &[&str],
        interrupt: &Interrupt,
    ) -> Result<(), RemoteError> {
        let specs: String = references.iter().map(|name| format!("{name}\n")).collect();
        let mut arguments = vec!["fetch", "--quiet", "--no-tags", "--no-auto-gc", "--no-write-fetch-head"];
        arguments.extend_from_slice(options);
        arguments.extend(["--stdin", "--", &self.url]);
        let begun = SystemTime::now();
        let fetched = self.git_until(&arguments, &specs, Purpose::Fetch, interrupt).map(drop);
        if fetched.is_err() {
            self.remove_halves(begun);
        }
        fetched
    }

    /// Removes the temporary files of a killed fetch; git itself would keep them for two weeks.
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

    /// Updates the refs of the clone to the known ones, so that git can drop unused objects at some
    /// point.
    ///
    /// # Errors
    /// The disk fails.
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

    /// Packs the clone if it has about this number of loose objects, or many packs; with `None`,
    /// always. Objects without a ref for two weeks are dropped.
    ///
    /// # Errors
    /// The disk fails, or the call takes too long.
    pub(crate) fn pack(&self, loose: Option<usize>) -> Result<(), RemoteError> {
        let threshold = format!("gc.auto={}", loose.unwrap_or_default());
        // Run in the foreground, so that a background process cannot outlive this one.
        let mut arguments = vec!["-c", threshold.as_str(), "-c", "gc.autoDetach=false", "gc", "--quiet"];
        arguments.extend(loose.map(|_| "--auto"));
        self.git(&arguments, "").map(drop)
    }

    /// Pushes all of the updates or none. If the server cannot do that, pushes them one after the
    /// other in their order.
    ///
    /// # Errors
    /// [`RemoteError::Stale`] if a ref has another value than expected, [`RemoteError::Declined`]
    /// by a hook, or the remote cannot be reached.
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
    /// Like [`Remote::push`], and [`RemoteError::NotAtomic`].
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

    /// Runs a local `git` command, and returns its output.
    fn git(&self, arguments: &[&str], input: &str) -> Result<String, RemoteError> {
        self.git_until(arguments, input, Purpose::Local, &Interrupt::default())
    }

    /// Runs `git` until it ends, or until it is interrupted.
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
        // Only the listing of refs is one large allocation; objects are not.
        if purpose == Purpose::Answer && is_allocation(&words) {
            let problem =
                format!("{} answers with more than {MAX_ALLOCATION_MIB} MiB of refs", host(&self.url));
            return Err(RemoteError::Failed(problem));
        }
        Err(self.explained(RemoteError::Failed(if words.is_empty() {
            "git failed without a message".to_owned()
        } else {
            words
        })))
    }

    /// Adds the cause of an error in terms of the Repository's settings.
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
        // `git` prints these texts for refused credentials, because it has no terminal to ask for
        // others.
        let refusals = [
            "could not read Username",
            "could not read Password",
            "Authentication failed",
            "Permission denied (publickey",
            "Host key verification failed",
        ];
        if refusals.iter().any(|refusal| words.contains(refusal)) {
            let has_credentials = !self.access.credentials.parts().is_empty();
            return RemoteError::Unauthorized { has_credentials, words };
        }
        // The TLS library of `git` decides which of the texts it prints.
        if words.contains("certificate verification failed") || words.contains("SSL certificate problem") {
            return RemoteError::Untrusted { host: host(&self.url).to_owned(), words };
        }
        if ["response 407", "HTTP code 407", "returned error: 407"].iter().any(|code| words.contains(code)) {
            return RemoteError::Proxy(words);
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
        let is_pinned = self.options.only_public && purpose != Purpose::Local;
        let pin = if is_pinned { self.pin()? } else { Pin::Disk };
        let mut command = Command::new(program().map_err(RemoteError::NoGit)?);
        command.args(arguments).current_dir(&self.directory).env_clear().envs(variables.iter().copied());
        let Self { access, options, directory, .. } = self;
        Environment { access, options, directory, pin: &pin }.set(&mut command)?;
        let ended = run(command, input, begun + limit, limits, interrupt);
        self.meters.git(arguments, begun.elapsed());
        ended.map_err(|ended| match ended {
            Ended::NoProgram(error) => RemoteError::NoGit(error),
            Ended::OutOfTime => RemoteError::TooSlow { host: host(&self.url).to_owned(), limit },
            Ended::Interrupted => RemoteError::Interrupted,
        })
    }

    /// Checks the address of this call: a name may have another address than before.
    fn pin(&self) -> Result<Pin, AddressError> {
        // A user's proxy contacts the remote, in the proxy's own network. The service contacts only
        // the proxy.
        if let Some(proxy) = self.access.proxy.as_ref().and_then(Proxy::address) {
            return public(proxy);
        }
        let is_proxied = self.access.proxy.is_none() && self.options.proxy.is_some();
        match public(&self.url) {
            // Only the operator's proxy knows the name.
            Err(AddressError::NotFound { .. }) if is_proxied => Ok(Pin::Http(None)),
            found => found,
        }
    }
}

/// Returns the server's error for a failed push.
fn refusal(stdout: &str, stderr: &str) -> RemoteError {
    let mut stale = Vec::new();
    let mut declined = Vec::new();
    // Format of a line: `!<tab>from:to<tab>[reason] (details)`.
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
    RemoteError::Failed(if words.is_empty() { "git push failed without a message".to_owned() } else { words })
}

/// Returns true if `git` has stopped because of its allocation limit.
fn is_allocation(words: &str) -> bool {
    words.contains("attempting to allocate")
}

/// Returns the error of a `git` that was killed because of one of its limits.
fn limit_in(words: &str) -> Option<String> {
    if is_allocation(words) {
        return Some(format!(
            "a commit, tree, tag or the base of a delta is larger than the allowed {MAX_ALLOCATION_MIB} MiB"
        ));
    }
    // Signal 25 is SIGXFSZ, for a file that exceeds its limit.
    words
        .contains("died of signal 25")
        .then(|| format!("it sends more than the allowed {MAX_PACK} bytes at once"))
}

/// Returns the messages of a program in one line.
fn words(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    shortened(&lines.collect::<Vec<_>>().join("; "), MAX_WORDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_that_are_not_allowed() {
        let options = RemoteOptions { protocols: vec!["https".to_owned()], ..RemoteOptions::default() };
        let error =
            Remote::new("file:///etc", Path::new("."), Access::default(), &options, Meters::default())
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
