//! What talks to a remote: the program `git`, in a process group of its own that is ended when it takes too long.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use gix_hash::ObjectId;
use secrecy::{ExposeSecret as _, SecretString};

use crate::meters::Meters;

/// How long one call of `git` may take.
const LONGEST: Duration = Duration::from_secs(120);
/// What is kept of the output of `git`; a remote can make it say as much as it wants to.
const MAX_OUTPUT: u64 = 64 << 20;
/// Of a remote's words, what a condition shows.
const MAX_WORDS: usize = 1000;

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
    #[error("git did not end within {} seconds", LONGEST.as_secs())]
    TooSlow,
    /// A ref has another value than expected.
    #[error("the object has been modified; please apply your changes to the latest version and try again")]
    Stale(Vec<String>),
    /// A hook of the server refused the push, in its words.
    #[error("{0}")]
    Declined(String),
    #[error("{address}: addresses of this kind are not allowed (allowed: {allowed})")]
    Protocol { address: String, allowed: String },
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
pub struct RemoteRef {
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
    protocols: String,
    meters: Meters,
}

impl Remote {
    /// `protocols` are those that may be used, such as `https:ssh`; `file` reads disks of the machine.
    ///
    /// # Errors
    /// The address is of another protocol.
    pub(crate) fn new(
        url: &str,
        directory: &Path,
        credentials: Credentials,
        protocols: &[String],
        meters: Meters,
    ) -> Result<Self, RemoteError> {
        let protocol = protocol(url);
        if !protocols.iter().any(|allowed| allowed == protocol) {
            return Err(RemoteError::Protocol { address: url.to_owned(), allowed: protocols.join(", ") });
        }
        let remote = Self {
            url: url.to_owned(),
            directory: directory.to_owned(),
            credentials,
            protocols: protocols.join(":"),
            meters,
        };
        Ok(remote)
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

    /// The refs that the remote has.
    ///
    /// # Errors
    /// The remote cannot be reached or says no.
    pub(crate) fn list(&self) -> Result<BTreeMap<String, RemoteRef>, RemoteError> {
        let listed = self.git(&["ls-remote", "--quiet", "--", &self.url], "")?;
        let mut refs = BTreeMap::new();
        for line in listed.lines() {
            let Some((id, name)) = line.split_once('\t') else { continue };
            let Ok(id) = ObjectId::from_hex(id.as_bytes()) else { continue };
            match name.strip_suffix("^{}") {
                Some(tag) => {
                    refs.entry(tag.to_owned()).and_modify(|found: &mut RemoteRef| found.commit = id);
                }
                None => drop(refs.insert(name.to_owned(), RemoteRef { id, commit: id })),
            }
        }
        Ok(refs)
    }

    /// Fetches refs, and lets the clone have refs of the same names so that it keeps their objects.
    ///
    /// # Errors
    /// The remote cannot be reached, says no, or has lost one of the refs since it listed them.
    pub(crate) fn fetch(&self, references: &[&str]) -> Result<(), RemoteError> {
        let specs: String = references.iter().map(|name| format!("+{name}:{name}\n")).collect();
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
        self.git(&arguments, &specs).map(drop)
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
        let Output { status, stdout, stderr } = self.run(&arguments, "")?;
        if status == Some(0) {
            return Ok(());
        }
        Err(self.explained(refusal(&stdout, &stderr)))
    }

    /// The output of `git`, if it succeeds.
    fn git(&self, arguments: &[&str], input: &str) -> Result<String, RemoteError> {
        let Output { status, stdout, stderr } = self.run(arguments, input)?;
        if status == Some(0) {
            return Ok(stdout);
        }
        let words = words(&stderr);
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

    fn run(&self, arguments: &[&str], input: &str) -> Result<Output, RemoteError> {
        let begun = Instant::now();
        let mut command = Command::new(program()?);
        command.args(arguments).current_dir(&self.directory).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        self.environment(&mut command)?;
        let mut child = command.spawn().map_err(|error| RemoteError::NoGit(error.to_string()))?;
        let stdout = collect(child.stdout.take());
        let stderr = collect(child.stderr.take());
        if let Some(mut stdin) = child.stdin.take() {
            let input = input.as_bytes().to_vec();
            // Written beside the reading, or both sides could wait for each other; who ends early wants no more.
            std::thread::spawn(move || drop(stdin.write_all(&input)));
        }
        let status = wait(&mut child);
        self.meters.git(arguments, begun.elapsed());
        let output = |reader: JoinHandle<String>| reader.join().unwrap_or_default();
        let status = status.ok_or(RemoteError::TooSlow)?;
        Ok(Output { status, stdout: output(stdout), stderr: output(stderr) })
    }

    /// Nothing of the operator's or the user's settings, and no secret among the arguments, which all processes see.
    fn environment(&self, command: &mut Command) -> Result<(), RemoteError> {
        command.env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command.env("HOME", &self.directory).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("GIT_DIR", ".").env("GIT_ALLOW_PROTOCOL", &self.protocols);
        let mut settings = vec![
            ("gc.auto", "0".to_owned()),
            // A remote that sends nothing for this long has hung up.
            ("http.lowSpeedLimit", "1".to_owned()),
            ("http.lowSpeedTime", "30".to_owned()),
            // A redirect could take the credentials elsewhere.
            (
                "http.followRedirects",
                if self.credentials.parts().is_empty() { "initial" } else { "false" }.to_owned(),
            ),
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
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (index, (key, value)) in settings.into_iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), key)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        if let Credentials::Ssh { private_key, known_hosts } = &self.credentials {
            command.env("GIT_SSH_COMMAND", self.ssh(private_key, known_hosts.as_deref())?);
        }
        Ok(())
    }

    /// The program of the connection, which takes keys from files only.
    fn ssh(&self, private_key: &SecretString, known_hosts: Option<&str>) -> Result<String, RemoteError> {
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
             -o 'UserKnownHostsFile=\"{}\"' -i '{}'",
            hosts.display(),
            key.display()
        ))
    }
}

/// The program by its whole path: one that has to be looked for in the variable `PATH` of the new process is started by copying
/// this one first, with all page tables of a service that has much in memory.
fn program() -> Result<&'static Path, RemoteError> {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    if let Some(known) = PROGRAM.get() {
        return Ok(known);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|folder| folder.join("git")).find(|file| file.is_file());
    let found = found.ok_or_else(|| RemoteError::NoGit("it is in no folder of PATH".to_owned()))?;
    Ok(PROGRAM.get_or_init(|| found))
}

/// The protocol of an address of git.
fn protocol(url: &str) -> &str {
    match url.split_once("://") {
        Some((protocol, _)) => protocol,
        // `host:path` is ssh; `helper::address` begins a program.
        None if url.contains("::") => "ext",
        None if url.split_once(':').is_some_and(|(host, _)| !host.contains('/')) => "ssh",
        None => "file",
    }
}

struct Output {
    status: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Reads to the end, in a thread of its own, so that the program never waits for us.
fn collect(pipe: Option<impl std::io::Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            drop(pipe.by_ref().take(MAX_OUTPUT).read_to_end(&mut bytes));
            drop(std::io::copy(&mut pipe, &mut std::io::sink()));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// The exit code of the program, or its end by a signal as none; nothing, if it had to be ended.
fn wait(child: &mut Child) -> Option<Option<i32>> {
    let end = Instant::now() + LONGEST;
    let mut pause = Duration::from_micros(500);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status.code().filter(|_| status.signal().is_none())),
            Ok(None) if Instant::now() < end => std::thread::sleep(pause),
            Ok(None) | Err(_) => {
                // The programs that it has started hold the connection, and they are of its group.
                let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
                if let Some(group) = group {
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
                drop(child.kill());
                drop(child.wait());
                return None;
            }
        }
        pause = (pause * 2).min(Duration::from_millis(10));
    }
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
        return RemoteError::Declined(shortened(text.trim()));
    }
    RemoteError::Failed(if words.is_empty() { "git push failed without a word".to_owned() } else { words })
}

/// What a program said, in one line.
fn words(stderr: &str) -> String {
    let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
    shortened(&lines.collect::<Vec<_>>().join("; "))
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(MAX_WORDS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_of_addresses() {
        for (url, expected) in [
            ("https://git.example/a.git", "https"),
            ("ssh://git@host/a", "ssh"),
            ("git@host:a/b.git", "ssh"),
            ("/srv/a.git", "file"),
            ("file:///srv/a.git", "file"),
            ("ext::sh -c id", "ext"),
            ("./a:b", "file"),
        ] {
            assert_eq!(protocol(url), expected, "{url}");
        }
        let error = Remote::new(
            "file:///etc",
            Path::new("."),
            Credentials::None,
            &["https".into()],
            Meters::default(),
        )
        .unwrap_err();
        assert_eq!(error.to_string(), "file:///etc: addresses of this kind are not allowed (allowed: https)");
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
