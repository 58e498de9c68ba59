//! Command-line settings of the console.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use http::HeaderName;

/// Settings of the console itself, whether it runs alone or with other services.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Settings {
    /// Address to serve pages at; port 0 takes a free port, which is logged
    #[arg(long, default_value = "127.0.0.1:0", env = "GROUNDWORK_CONSOLE_ADDRESS", value_name = "ADDRESS")]
    pub console_address: SocketAddr,

    /// Mark cookies as for HTTPS only, because a proxy in front of the console ends TLS
    #[arg(long, env = "GROUNDWORK_CONSOLE_HTTPS")]
    pub console_https: bool,

    /// Offer to reconcile and interrupt Installations, and to propose and approve package revisions
    #[arg(long, env = "GROUNDWORK_ALLOW_OPERATIONS")]
    pub allow_operations: bool,

    /// Header in which an authenticating proxy names the user, such as x-forwarded-user
    #[arg(long, env = "GROUNDWORK_PROXY_USER_HEADER", value_name = "NAME", requires = "trusted_proxies")]
    pub proxy_user_header: Option<HeaderName>,

    /// Header in which that proxy lists the user's groups, separated by commas
    #[arg(long, env = "GROUNDWORK_PROXY_GROUPS_HEADER", value_name = "NAME", requires = "proxy_user_header")]
    pub proxy_groups_header: Option<HeaderName>,

    /// Addresses or networks of trusted proxies, separated by commas, such as 127.0.0.1,10.0.0.0/8.
    /// The headers above, and X-Forwarded-For, are ignored on requests from other addresses
    #[arg(long, env = "GROUNDWORK_TRUSTED_PROXIES", value_name = "ADDRESSES", value_delimiter = ',')]
    pub trusted_proxies: Vec<Network>,
}

/// Address of the renderer, which reads the journal and makes plans.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Renderer")]
pub struct RendererArguments {
    /// URL of the renderer, such as http://renderer:8080; without it there are no pages of the
    /// journal
    #[arg(long, env = "GROUNDWORK_RENDERER", value_name = "URL")]
    pub renderer: Option<String>,

    /// PEM file with certificates to trust for an https URL; by default those of the system
    #[arg(long, env = "GROUNDWORK_RENDERER_TLS_CA", value_name = "FILE")]
    pub renderer_tls_ca: Option<PathBuf>,

    // A token for the API server must never be used here: a server that poses as the renderer would
    // gain the rights of the console.
    /// File with the token for the renderer, of the audience groundwork-renderer only; read again
    /// when it changes
    #[arg(long, env = "GROUNDWORK_RENDERER_TOKEN_FILE", value_name = "FILE")]
    pub renderer_token_file: Option<PathBuf>,
}

/// Address of the variant service, which plans PackageVariantSets.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Variant service")]
pub struct VariantArguments {
    /// URL of the variant service, such as http://variant:8080; without it PackageVariantSets
    /// cannot be planned
    #[arg(long, env = "GROUNDWORK_VARIANT", value_name = "URL")]
    pub variant: Option<String>,

    /// PEM file with certificates to trust for an https URL; by default those of the system
    #[arg(long, env = "GROUNDWORK_VARIANT_TLS_CA", value_name = "FILE")]
    pub variant_tls_ca: Option<PathBuf>,

    /// File with the token for the variant service, of the audience groundwork-variant only; read
    /// again when it changes
    #[arg(long, env = "GROUNDWORK_VARIANT_TOKEN_FILE", value_name = "FILE")]
    pub variant_token_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        groundwork_telemetry::defaults()
    }
}

/// A range of addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Number of leading bits that all addresses of the network share.
    prefix: u32,
}

/// The text is neither an address nor a network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an IP address or network; write one such as 10.0.0.0/8")]
pub struct NetworkError(String);

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let read = || {
            let (address, prefix) = text.trim().split_once('/').unwrap_or((text.trim(), ""));
            let address: IpAddr = address.parse().ok()?;
            let bits = if address.is_ipv4() { 32 } else { 128 };
            let prefix = if text.contains('/') { prefix.parse().ok()? } else { bits };
            (prefix <= bits).then_some(Self { address, prefix })
        };
        read().ok_or_else(|| NetworkError(text.to_owned()))
    }
}

impl Network {
    /// Reports whether an address belongs to the network.
    pub fn contains(&self, address: IpAddr) -> bool {
        let begin_alike = |one: u128, other: u128, bits: u32| {
            let shift = bits - self.prefix;
            // A shift by all 128 bits would overflow.
            self.prefix == 0 || one >> shift == other >> shift
        };
        // A socket for both versions of IP shows IPv4 peers as `::ffff:10.0.0.1`.
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                begin_alike(u32::from(one).into(), u32::from(other).into(), 32)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => begin_alike(one.into(), other.into(), 128),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks() {
        let contains = |network: &str, address: &str| {
            network.parse::<Network>().unwrap().contains(address.parse().unwrap())
        };
        assert!(contains("127.0.0.1", "127.0.0.1") && !contains("127.0.0.1", "127.0.0.2"));
        assert!(contains("10.0.0.0/8", "10.9.8.7") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(
            contains("10.0.0.0/8", "::ffff:10.0.0.1"),
            "an address of the older kind in the form of the newer"
        );
        assert!(contains("0.0.0.0/0", "8.8.8.8") && !contains("0.0.0.0/0", "::1"));
        assert!(contains("fd00::/8", "fd12::1") && !contains("fd00::/8", "fe80::1"));
        for wrong in ["", "a", "10.0.0.0/33", "10.0.0.0/", "10.0.0.0/x", "::/129"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
