//! An aggregated API server: kinds that the API server of a cluster passes on to this process.
//!
//! ```text
//! API server ──TLS, client certificate, X-Remote-*──> ApiServer ──Request──> Storage
//! Storage ──Answer──> object, table or metadata
//! Registration ──address, certificate──> APIService
//! records of the cluster ──mirror──> Log: objects and changes ──> lists, watches
//! ```
//!
//! The API server authenticates users and names them in headers, which count only beside its client
//! certificate. Each request is authorized once more here, by a SubjectAccessReview, as other
//! aggregated servers do. The kinds themselves, and their rules, are those of [`Storage`].

mod certificate;
mod discovery;
mod equality;
mod front_proxy;
mod handling;
mod log;
mod mirror;
mod patch;
mod refusal;
mod registration;
mod request;
mod selector;
mod server;
mod storage;
mod view;
mod watch;

pub use certificate::{CertificateError, CertificateFiles};
pub use equality::is_equivalent;
pub use log::{Change, Event, Expired, LAG, Log, Served};
pub use mirror::{Recorded, mirror};
pub use patch::patched;
pub use refusal::{Cause, Refusal};
pub use registration::{Registration, RegistrationError};
pub use request::{FieldValidation, Options, Request, Verb};
pub use selector::{Fields, Selector};
pub use server::{ApiServer, ApiServerError};
pub use storage::{Answer, Column, Group, Kind, Storage, Watch};
