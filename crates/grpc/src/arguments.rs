use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Arguments of a gRPC server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "gRPC")]
pub struct GrpcArguments {
    // The default is a free port of the loopback device: several services can run on one machine,
    // and other machines have no access unless the operator asks for it.
    /// Address of the gRPC server; port 0 takes a free one, which is logged
    #[arg(long, default_value = "127.0.0.1:0", env = "GROUNDWORK_GRPC_ADDRESS", value_name = "ADDRESS")]
    pub grpc_address: SocketAddr,

    /// PEM file with the certificate of the server and its chain; without it calls are not
    /// encrypted
    #[arg(long, requires = "grpc_tls_key", env = "GROUNDWORK_GRPC_TLS_CERT", value_name = "FILE")]
    pub grpc_tls_cert: Option<PathBuf>,

    /// PEM file with the private key of that certificate
    #[arg(long, requires = "grpc_tls_cert", env = "GROUNDWORK_GRPC_TLS_KEY", value_name = "FILE")]
    pub grpc_tls_key: Option<PathBuf>,

    // Off by default, because anyone who reaches the port could make the service work.
    /// Answer calls without a token if they carry all their input and name no object of the cluster
    #[arg(long, env = "GROUNDWORK_ANONYMOUS_INLINE_CALLS")]
    pub anonymous_inline_calls: bool,
}

impl Default for GrpcArguments {
    fn default() -> Self {
        groundwork_telemetry::defaults()
    }
}

/// Arguments of a client of the resolver.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Resolver")]
pub struct ResolverArguments {
    /// The resolver, such as http://resolver:8080
    #[arg(long, env = "GROUNDWORK_RESOLVER", value_name = "URL")]
    pub resolver: Option<String>,

    /// PEM file with certificates to trust; without it those of the system, if the URL is one of
    /// https
    #[arg(long, env = "GROUNDWORK_RESOLVER_TLS_CA", value_name = "FILE")]
    pub resolver_tls_ca: Option<PathBuf>,

    // Never use the token for the API server here: a server in the place of the resolver could read
    // every Secret with it.
    /// File with the token to send to the resolver, made for the audience groundwork-resolver only;
    /// read again when it changes
    #[arg(long, env = "GROUNDWORK_RESOLVER_TOKEN_FILE", value_name = "FILE")]
    pub resolver_token_file: Option<PathBuf>,
}

/// Arguments of a client of the deployer.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Deployer")]
pub struct DeployerArguments {
    /// The deployer that makes kubeconfigs for templates, such as http://deployer:8080
    #[arg(long, env = "GROUNDWORK_DEPLOYER", value_name = "URL")]
    pub deployer: Option<String>,

    /// PEM file with certificates to trust; without it those of the system, if the URL is one of
    /// https
    #[arg(long, env = "GROUNDWORK_DEPLOYER_TLS_CA", value_name = "FILE")]
    pub deployer_tls_ca: Option<PathBuf>,

    // Never use the token for the API server here, for the same reason as with the resolver.
    /// File with the token to send to the deployer, made for the audience groundwork-deployer only;
    /// read again when it changes
    #[arg(long, env = "GROUNDWORK_DEPLOYER_TOKEN_FILE", value_name = "FILE")]
    pub deployer_token_file: Option<PathBuf>,
}
