//! Traces, metrics, health and shutdown of a service.
