use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::Args;

/// Where a service answers calls.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "gRPC")]
pub struct GrpcArguments {
    // On the loopback device and free by default, so that several services can run on one machine and nothing is open to
    // others unasked.
    /// Where calls are answered; port 0 takes a free one, which is logged
    #[arg(long, default_value = "127.0.0.1:0", env = "GROUNDWORK_GRPC_ADDRESS", value_name = "ADDRESS")]
    pub grpc_address: SocketAddr,

    /// PEM file with the certificate of the server and those that vouch for it; without one calls are not encrypted
    #[arg(long, requires = "grpc_tls_key", env = "GROUNDWORK_GRPC_TLS_CERT", value_name = "FILE")]
    pub grpc_tls_cert: Option<PathBuf>,

    /// PEM file with the private key of that certificate
    #[arg(long, requires = "grpc_tls_cert", env = "GROUNDWORK_GRPC_TLS_KEY", value_name = "FILE")]
    pub grpc_tls_key: Option<PathBuf>,

    // Not by default: the work of such a call is done for anybody who reaches the port.
    /// Answer calls without a token that bring everything along and name no object of the cluster
    #[arg(long, env = "GROUNDWORK_ANONYMOUS_INLINE_CALLS")]
    pub anonymous_inline_calls: bool,
}

impl Default for GrpcArguments {
    /// What no arguments and no variables give.
    fn default() -> Self {
        Self {
            grpc_address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            grpc_tls_cert: None,
            grpc_tls_key: None,
            anonymous_inline_calls: false,
        }
    }
}

/// Where the resolver is, for those who call it.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Resolver")]
pub struct ResolverArguments {
    /// The resolver, such as http://resolver:8080
    #[arg(long, env = "GROUNDWORK_RESOLVER", value_name = "URL")]
    pub resolver: Option<String>,

    /// PEM file with certificates to trust; without it those of the system, if the URL is one of https
    #[arg(long, env = "GROUNDWORK_RESOLVER_TLS_CA", value_name = "FILE")]
    pub resolver_tls_ca: Option<PathBuf>,

    // Never the token for the API server: whoever stands in the place of the resolver would read every Secret with it.
    /// File with the token to show there, made for the audience groundwork-resolver only; read again when it changes
    #[arg(long, env = "GROUNDWORK_RESOLVER_TOKEN_FILE", value_name = "FILE")]
    pub resolver_token_file: Option<PathBuf>,
}
