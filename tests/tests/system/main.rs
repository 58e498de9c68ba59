//! The system as its users see it: services as processes with the rights of `k8s/base`, a real API server, a real NATS.

mod away;
mod bootstrap;
mod case;
mod deleting;
mod echo_server;
mod etcd;
mod exports;
mod failures;
mod faults;
mod grpc;
mod heavy;
mod herd;
mod imports;
mod lifecycle;
mod metrics;
mod namespaces;
mod overlays;
mod pages;
mod readiness;
mod rights;
mod secrecy;
mod shared;
mod support;
mod traces;
mod up;
mod variants;
