//! Worker processes with hard limits for work on untrusted content: a second barrier that, unlike
//! the limits inside the engines, counts no steps.
//!
//! ```text
//! service:  Pool::run(task, Host) ──Task──> worker: enter ── fence ── serve(work)
//!              ^       │                       │  ^
//!              │       Host::answer <─Question─┘  │
//!              │       └──────────Answer──────────┘
//!              └───────────────Done───────────────┘
//! ```
//!
//! A worker is the program of the service itself, started with [`enter`] as the first call of its
//! `main`. It has an empty environment, one socket to the service, and no right to open anything
//! else. During its work it asks the service for the data that it needs; credentials, network and
//! network caches stay with the service. One worker does one piece of work at a time. A worker that
//! exceeds a limit, dies, or loses its caller is killed and replaced, and its end is a
//! [`WorkError`] of that piece of work alone.
//!
//! Tenants share the workers fairly. A worker that waits for an answer from outside gives its place
//! to other tenants after a moment. Its work starts over when the answer is there (`patience.rs`).
//!
//! A service starts its pools with [`Pools`], and hands over tasks with [`Pool::exchange`]: a head
//! in JSON, and bytes.

mod arguments;
mod ceiling;
mod command;
mod error;
#[cfg(target_os = "linux")]
mod fence;
#[cfg(not(target_os = "linux"))]
#[path = "fence_elsewhere.rs"]
mod fence;
mod frame;
mod message;
mod metrics;
mod patience;
mod pool;
mod pools;
mod priority;
mod process;
mod worker;

pub use arguments::WorkerArguments;
pub use ceiling::Ceiling;
pub use command::{Invocation, evaluate, outside};
pub use error::{ExchangeError, FormError, StartError, WorkError};
pub use message::{pack, reply, unpack};
pub use pool::{ANYBODY, Host, Options, Pool};
pub use pools::{Count, Pools, WALL_TIME};
pub use worker::{Connection, Work, enter};
