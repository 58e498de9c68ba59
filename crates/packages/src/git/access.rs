//! Access to a remote as settings of `git`: credentials, trusted certificates and proxies
//! (`packagevariants.md` 1.4, 6.17).

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use secrecy::{ExposeSecret as _, SecretString};
use url::Url;

use crate::git::address::{Pin, protocol};
use crate::git::remote::{RemoteError, RemoteOptions};

/// Bytes per second below which a connection counts as stalled, if it stays below them for the time
/// limit of an answer.
const SLOWEST: &str = "1000";
/// Size above which objects of a fetch are streamed to the disk, instead of being held in memory.
const BIG_FILE: &str = "4m";
/// Limit for a single allocation of `git` in MiB, so that a hostile commit or tree cannot fill the
/// memory.
pub(crate) const MAX_ALLOCATION_MIB: u32 = 128;

/// Access to a remote, from the Secret of its Repository.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Access {
    pub credentials: Credentials,
    /// Certificates in PEM that are trusted instead of those of the service.
    pub certificates: Option<String>,
    /// Proxy that is used instead of that of the service.
    pub proxy: Option<Proxy>,
}

impl From<Credentials> for Access {
    fn from(credentials: Credentials) -> Self {
        Self { credentials, ..Self::default() }
    }
}

impl Access {
    /// Refuses settings that have no effect on a remote.
    ///
    /// # Errors
    /// Certificates or a proxy belong to a remote that is not contacted over http.
    pub(crate) fn check(&self, url: &str) -> Result<(), RemoteError> {
        let protocol = protocol(url);
        if matches!(protocol, "http" | "https") {
            return Ok(());
        }
        let unused = self.certificates.as_ref().map(|_| "ca.crt").or(self.proxy.as_ref().map(|_| "proxy"));
        unused.map_or(Ok(()), |key| Err(RemoteError::Unused { key, protocol: protocol.to_owned() }))
    }
}

/// HTTP proxy, or a direct connection.
#[derive(Debug, Clone, Default)]
pub struct Proxy(Option<ProxyUrl>);

#[derive(Debug, Clone)]
struct ProxyUrl {
    /// URL without the credentials.
    address: String,
    /// URL with the credentials.
    whole: SecretString,
}

/// Reason why a proxy cannot be used. The text does not quote the address, which may contain a
/// password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProxyError {
    #[error("it is not a URL: write http://HOST:PORT")]
    Malformed,
    #[error("only proxies at http and https addresses are supported: write http://HOST:PORT")]
    Scheme,
    #[error("it has a path, which a proxy does not have: write http://HOST:PORT")]
    Path,
}

impl Proxy {
    /// Reads an address such as `http://proxy.example:3128`, or `proxy.example:3128`. Empty text
    /// means a direct connection. `user` is a name with a password, if they are not in the address.
    ///
    /// # Errors
    /// See [`ProxyError`].
    pub fn parse(address: &str, user: Option<(&str, &str)>) -> Result<Self, ProxyError> {
        let address = address.trim();
        if address.is_empty() {
            return Ok(Self(None));
        }
        // Without a scheme, the URL parser would take the host for one.
        let whole = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
        let mut url = Url::parse(&whole).map_err(|_| ProxyError::Malformed)?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(ProxyError::Scheme);
        }
        if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
            return Err(ProxyError::Path);
        }
        if let Some((name, password)) = user {
            url.set_username(name)
                .and_then(|()| url.set_password(Some(password)))
                .map_err(|()| ProxyError::Malformed)?;
        }
        let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
            return Err(ProxyError::Malformed);
        };
        // `git` would use port 1080 if the URL had no port.
        let (scheme, place) = (url.scheme(), format!("{host}:{port}"));
        let user = match (url.username(), url.password()) {
            ("", None) => String::new(),
            (name, password) => format!("{name}:{}@", password.unwrap_or_default()),
        };
        let whole = format!("{scheme}://{user}{place}").into();
        Ok(Self(Some(ProxyUrl { address: format!("{scheme}://{place}"), whole })))
    }

    /// Returns the address with the credentials; empty for a direct connection.
    fn expose(&self) -> &str {
        self.0.as_ref().map(|url| url.whole.expose_secret()).unwrap_or_default()
    }

    /// Returns the address without the credentials; `None` for a direct connection.
    pub(crate) fn address(&self) -> Option<&str> {
        Some(&self.0.as_ref()?.address)
    }
}

impl PartialEq for Proxy {
    fn eq(&self, other: &Self) -> bool {
        self.expose() == other.expose()
    }
}

/// Credentials for a remote.
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
        /// Lines of a `known_hosts` file; without them the key of the first contact is trusted.
        known_hosts: Option<String>,
    },
}

impl Credentials {
    /// Returns the parts that identify the credentials.
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

impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other) && self.parts() == other.parts()
    }
}

/// Environment of a call of `git`.
pub(crate) struct Environment<'a> {
    pub(crate) access: &'a Access,
    pub(crate) options: &'a RemoteOptions,
    /// Directory of the clone.
    pub(crate) directory: &'a Path,
    pub(crate) pin: &'a Pin,
}

impl Environment<'_> {
    /// Sets the environment: without the settings of the operator and the user, and without secrets
    /// among the arguments, which all processes can read.
    ///
    /// # Errors
    /// The keys of ssh or the certificates cannot be written to the disk.
    pub(crate) fn set(&self, command: &mut Command) -> Result<(), RemoteError> {
        let Self { access, options, directory, pin } = *self;
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        // The clone is the home directory, so that `git` finds no settings of the user.
        command.env("HOME", directory).env("LC_ALL", "C").env("GIT_TERMINAL_PROMPT", "0");
        command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        command.env("GIT_DIR", ".").env("GIT_ALLOW_PROTOCOL", options.protocols.join(":"));
        command.env("GIT_ALLOC_LIMIT", format!("{MAX_ALLOCATION_MIB}m"));
        let mut settings = self.settings();
        settings.extend(self.network()?);
        if access.proxy.is_none() && !options.no_proxy.is_empty() {
            // `git` has no setting for it, and takes only this variable.
            command.env("NO_PROXY", options.no_proxy.join(","));
        }
        // Settings go into the environment, since the arguments of a process are visible to all
        // users of the machine.
        command.env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (index, (key, value)) in settings.into_iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), key)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        if let Credentials::Ssh { private_key, known_hosts } = &access.credentials {
            command.env("GIT_SSH_COMMAND", self.ssh(private_key, known_hosts.as_deref())?);
        } else if let Some(place) = ssh_place(pin) {
            command.env(
                "GIT_SSH_COMMAND",
                format!("ssh -F /dev/null -o BatchMode=yes -o ConnectTimeout=20{place}"),
            );
        }
        Ok(())
    }

    fn settings(&self) -> Vec<(&'static str, String)> {
        let Self { access: Access { credentials, .. }, options, .. } = *self;
        let is_led = credentials.parts().is_empty() && !options.only_public;
        let mut settings = vec![
            // `BareClone::pack_sometimes` packs the clone; a background `gc` would run outside the
            // limits.
            ("gc.auto", "0".to_owned()),
            ("core.bigFileThreshold", BIG_FILE.to_owned()),
            ("core.deltaBaseCacheLimit", "16m".to_owned()),
            ("pack.threads", "1".to_owned()),
            ("pack.windowMemory", "32m".to_owned()),
            ("http.lowSpeedLimit", SLOWEST.to_owned()),
            ("http.lowSpeedTime", options.timeout.as_secs().max(1).to_string()),
            // A redirect could send the credentials to another server, or lead to an address that
            // is not public.
            ("http.followRedirects", if is_led { "initial" } else { "false" }.to_owned()),
            ("transfer.fsckObjects", "false".to_owned()),
        ];
        let header = match credentials {
            Credentials::None | Credentials::Ssh { .. } => None,
            Credentials::Basic { username, password } => {
                let pair = format!("{username}:{}", password.expose_secret());
                Some(format!("Authorization: Basic {}", data_encoding::BASE64.encode(pair.as_bytes())))
            }
            Credentials::Bearer(token) => Some(format!("Authorization: Bearer {}", token.expose_secret())),
        };
        settings.extend(header.map(|header| ("http.extraHeader", header)));
        settings
    }

    /// Returns the settings for trusted certificates, proxies and checked addresses.
    fn network(&self) -> Result<Vec<(&'static str, String)>, RemoteError> {
        let Self { access, options, directory, pin } = *self;
        let mut settings = Vec::new();
        let certificates = match &access.certificates {
            Some(pem) => {
                let failed = |error| RemoteError::Failed(format!("cannot keep the certificates: {error}"));
                Some(write(directory, "ca.crt", pem).map_err(failed)?)
            }
            None => options.certificates.clone(),
        };
        if let Some(file) = certificates {
            let file = file.display().to_string();
            settings.extend([("http.sslCAInfo", file.clone()), ("http.proxySSLCAInfo", file)]);
        }
        if let Some(proxy) = access.proxy.as_ref().or(options.proxy.as_ref()) {
            settings.push(("http.proxy", proxy.expose().to_owned()));
        }
        if let Pin::Http(Some(places)) = pin {
            settings.push(("http.curloptResolve", places.clone()));
        }
        Ok(settings)
    }

    /// Returns the ssh command, which needs its keys in files.
    fn ssh(&self, private_key: &SecretString, known_hosts: Option<&str>) -> Result<String, RemoteError> {
        let failed =
            |error: std::io::Error| RemoteError::Failed(format!("cannot keep the key of ssh: {error}"));
        let key = write(self.directory, "ssh-key", private_key.expose_secret()).map_err(failed)?;
        let (hosts, check) = match known_hosts {
            Some(lines) => (write(self.directory, "known-hosts", lines).map_err(failed)?, "yes"),
            None => (self.directory.join("seen-hosts"), "accept-new"),
        };
        Ok(format!(
            "ssh -F /dev/null -o BatchMode=yes -o IdentitiesOnly=yes -o ConnectTimeout=20 -o StrictHostKeyChecking={check} \
             -o 'UserKnownHostsFile=\"{}\"' -i '{}'{}",
            hosts.display(),
            key.display(),
            ssh_place(self.pin).unwrap_or_default()
        ))
    }
}

/// Writes a file of the clone, and returns its path.
fn write(directory: &Path, name: &str, text: &str) -> std::io::Result<PathBuf> {
    let path = directory.join(name);
    // A temporary file is readable by its owner only, from its creation on.
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(text.trim_end().as_bytes())?;
    file.write_all(b"\n")?;
    file.persist(&path).map_err(|error| error.error)?;
    Ok(path)
}

/// Returns the options with which `ssh` connects to the checked address and uses the host name for
/// its keys.
fn ssh_place(pin: &Pin) -> Option<String> {
    let Pin::Ssh { address, alias } = pin else { return None };
    Some(format!(" -o HostName={address} -o 'HostKeyAlias={alias}'"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_proxies() {
        let user = Some(("pat", "p@ss/word"));
        for (address, user, expected, shown) in [
            (
                "http://proxy.example:3128",
                None,
                "http://proxy.example:3128",
                Some("http://proxy.example:3128"),
            ),
            (" proxy.example:3128\n", None, "http://proxy.example:3128", Some("http://proxy.example:3128")),
            (
                "https://me:canary@[::1]:8443/",
                None,
                "https://me:canary@[::1]:8443",
                Some("https://[::1]:8443"),
            ),
            ("p.example", user, "http://pat:p%40ss%2Fword@p.example:80", Some("http://p.example:80")),
            ("", None, "", None),
        ] {
            let proxy = Proxy::parse(address, user).unwrap();
            assert_eq!((proxy.expose(), proxy.address()), (expected, shown), "{address:?}");
            assert!(!format!("{proxy:?}").contains("canary"), "{proxy:?}");
        }
        for (address, expected) in [
            ("socks5://proxy.example:1080", ProxyError::Scheme),
            ("http://proxy.example/path", ProxyError::Path),
            ("http://proxy.example:99999", ProxyError::Malformed),
            ("http://", ProxyError::Malformed),
        ] {
            assert_eq!(Proxy::parse(address, None).unwrap_err(), expected, "{address}");
        }
    }

    #[test]
    fn network_settings_of_an_ssh_remote() {
        let certificates = Access { certificates: Some("PEM".to_owned()), ..Access::default() };
        let proxy = Access { proxy: Some(Proxy::default()), ..Access::default() };
        for access in [&certificates, &proxy] {
            assert_eq!(access.check("https://git.example/a.git"), Ok(()));
            assert!(access.check("git@git.example:a.git").unwrap_err().to_string().contains("ssh"));
        }
    }
}
