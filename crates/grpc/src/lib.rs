//! Common parts of every gRPC server and client of the services.
//!
//! - [`Server`]: health, reflection, traces, TLS, [`Limits`], admission of callers and a graceful
//!   shutdown, around the services of one process.
//! - [`Access`]: authenticates the caller, and checks the permission to `get` the objects that a
//!   call names.
//! - [`Channel`]: a connection on demand with bearer token and trace, and [`retry`] for calls that
//!   are safe to repeat.
//!
//! Services and clients are generated with tonic's own limit of 4 MiB; [`with_limits!`] sets ours.

mod access;
mod admission;
mod arguments;
mod call_end;
mod client;
mod incoming;
mod limits;
mod reviews;
mod server;
mod token;

pub use access::{Access, ResourceAttributes, User};
pub use admission::peer_of;
pub use arguments::{DeployerArguments, GrpcArguments, ResolverArguments};
pub use call_end::{CallEnd, NoAnswer};
pub use client::{Channel, ClientError, Identity, connect, retry};
pub use limits::{Amount, Limits};
pub use server::{Server, ServerError};
pub use token::{TokenError, TokenSource};

/// Returns the audience of tokens that only one of our services accepts, such as
/// `groundwork-resolver`.
pub fn audience(service: &str) -> String {
    format!("groundwork-{service}")
}

/// Sets the limit of messages on a generated server or client to [`groundwork_proto::MAX_MESSAGE`],
/// in both directions.
#[macro_export]
macro_rules! with_limits {
    ($generated:expr) => {
        $generated
            .max_decoding_message_size($crate::MAX_MESSAGE)
            .max_encoding_message_size($crate::MAX_MESSAGE)
    };
}

pub use groundwork_proto::MAX_MESSAGE;
