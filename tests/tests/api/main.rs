//! Objects that our CRDs accept, store and reject in a real API server.

mod admission;
mod examples;
mod fixtures;
mod json;
mod kubectl;
mod names;
mod refusals;
