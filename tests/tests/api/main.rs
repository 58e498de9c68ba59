//! The CRDs in a real API server: what they accept, keep, and refuse.

mod admission;
mod examples;
mod fixtures;
mod json;
mod kubectl;
mod names;
mod refusals;
