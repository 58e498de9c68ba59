//! What the console can be told.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use http::HeaderName;

/// What is the console's own, wherever it runs.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Settings {
    /// Where pages are served; port 0 takes a free one, which is logged
    #[arg(long, default_value = "127.0.0.1:0", env = "GROUNDWORK_CONSOLE_ADDRESS", value_name = "ADDRESS")]
    pub console_address: SocketAddr,

    /// Browsers reach the console with TLS, which a proxy in front of it ends: cookies go over encrypted connections only
    #[arg(long, env = "GROUNDWORK_CONSOLE_HTTPS")]
    pub console_https: bool,

    /// Offer to reconcile and interrupt Installations, and to propose and approve package revisions
    #[arg(long, env = "GROUNDWORK_ALLOW_OPERATIONS")]
    pub allow_operations: bool,

    /// Header in which a proxy that signs people in says who they are, such as x-forwarded-user
    #[arg(long, env = "GROUNDWORK_PROXY_USER_HEADER", value_name = "NAME", requires = "trusted_proxies")]
    pub proxy_user_header: Option<HeaderName>,

    /// Header in which it says their groups, separated by commas
    #[arg(long, env = "GROUNDWORK_PROXY_GROUPS_HEADER", value_name = "NAME", requires = "proxy_user_header")]
    pub proxy_groups_header: Option<HeaderName>,

    /// Addresses or networks of proxies in front of the console, separated by commas, such as 127.0.0.1,10.0.0.0/8: what others say in these headers, and in X-Forwarded-For, is nothing
    #[arg(long, env = "GROUNDWORK_TRUSTED_PROXIES", value_name = "ADDRESSES", value_delimiter = ',')]
    pub trusted_proxies: Vec<Network>,
}

/// Where the renderer is, which reads the journal.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Renderer")]
pub struct RendererArguments {
    /// The renderer, such as http://renderer:8080; without it there are no pages of the journal
    #[arg(long, env = "GROUNDWORK_RENDERER", value_name = "URL")]
    pub renderer: Option<String>,

    /// PEM file with certificates to trust; without it those of the system, if the URL is one of https
    #[arg(long, env = "GROUNDWORK_RENDERER_TLS_CA", value_name = "FILE")]
    pub renderer_tls_ca: Option<PathBuf>,

    // Never the token for the API server: whoever stands in the place of the renderer would have the rights of this service.
    /// File with the token to show there, made for the audience groundwork-renderer only; read again when it changes
    #[arg(long, env = "GROUNDWORK_RENDERER_TOKEN_FILE", value_name = "FILE")]
    pub renderer_token_file: Option<PathBuf>,
}

/// Where the variant service is, which tells what sets would do.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Variant service")]
pub struct VariantArguments {
    /// The variant service, such as http://variant:8080; without it no PackageVariantSets can be planned
    #[arg(long, env = "GROUNDWORK_VARIANT", value_name = "URL")]
    pub variant: Option<String>,

    /// PEM file with certificates to trust; without it those of the system, if the URL is one of https
    #[arg(long, env = "GROUNDWORK_VARIANT_TLS_CA", value_name = "FILE")]
    pub variant_tls_ca: Option<PathBuf>,

    /// File with the token to show there, made for the audience groundwork-variant only; read again when it changes
    #[arg(long, env = "GROUNDWORK_VARIANT_TOKEN_FILE", value_name = "FILE")]
    pub variant_token_file: Option<PathBuf>,
}

impl Default for Settings {
    fn default() -> Self {
        groundwork_telemetry::defaults()
    }
}

/// Addresses that begin alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Bits that are the same in all of them.
    prefix: u32,
}

/// Why a text names no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no address and no network such as 10.0.0.0/8")]
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
    /// Whether an address is one of these.
    pub fn contains(&self, address: IpAddr) -> bool {
        let begin_alike = |one: u128, other: u128, bits: u32| {
            let shift = bits - self.prefix;
            self.prefix == 0 || one >> shift == other >> shift
        };
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
