//! The second wall around content of strangers, which needs no counting: work on it is done in processes with hard limits.
//!
//! ```text
//! service:  Pool::run(task, Host) ──Task──> worker: enter ── fence ── serve(work)
//!              ^       │                       │  ^
//!              │       Host::answer <─Question─┘  │
//!              │       └──────────Answer──────────┘
//!              └───────────────Done───────────────┘
//! ```
//!
//! A worker is the program of the service itself, begun with [`enter`] as the first thing that its `main` does. It has an empty environment, one
//! socket, which leads to the service, and no right to open anything else. What it needs while it works it asks for; credentials, network and
//! caches of the network stay with the service. One worker does one piece of work at a time. One that exceeds a limit, that dies, or whose
//! caller is gone is killed and replaced, and its end is a [`WorkError`] of that piece of work alone.
//!
//! Tenants take turns. A worker that waits for an answer from outside gives way to those of other tenants after a moment; its work
//! begins anew when the answer is there (`patience.rs`).
//!
//! A service starts its pools with [`Pools`], and hands tasks over with [`Pool::exchange`]: a head in JSON, and bytes.

mod arguments;
mod ceiling;
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
pub use error::{ExchangeError, FormError, StartError, WorkError};
pub use message::{pack, reply, unpack};
pub use pool::{ANYBODY, Host, Options, Pool};
pub use pools::{Count, Pools, WALL_TIME};
pub use worker::{Connection, Work, enter};
