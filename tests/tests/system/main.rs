//! The system as its users see it: services as processes with the rights of `k8s/base`, a real API server, a real NATS.

mod echo_server;
mod faults;
mod metrics;
mod rights;
mod secrecy;
mod support;
mod traces;
mod up;
