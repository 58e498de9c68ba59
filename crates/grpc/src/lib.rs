//! What every gRPC server and client of the services has.
//!
//! - [`Server`]: health, reflection, traces, TLS, [`Limits`] and a graceful end around the services of one process; and who
//!   may call them at all.
//! - [`Access`]: who is calling, and may they `get` the objects that the call names?
//! - [`Channel`]: a connection that is made when it is needed, carries a bearer token and the trace, and
//!   [`retry`] for calls that may be made twice.
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
pub use arguments::{GrpcArguments, ResolverArguments};
pub use call_end::{CallEnd, NoAnswer};
pub use client::{Channel, ClientError, Identity, connect, retry};
pub use limits::{Amount, Limits};
pub use server::{Server, ServerError};
pub use token::{TokenError, TokenSource};

/// The audience of tokens that are for one of our services and open nothing else, such as `groundwork-resolver`.
pub fn audience(service: &str) -> String {
    format!("groundwork-{service}")
}

/// Sets the limit of messages on a generated server or client to [`groundwork_proto::MAX_MESSAGE`], both ways.
#[macro_export]
macro_rules! with_limits {
    ($generated:expr) => {
        $generated
            .max_decoding_message_size($crate::MAX_MESSAGE)
            .max_encoding_message_size($crate::MAX_MESSAGE)
    };
}

pub use groundwork_proto::MAX_MESSAGE;
