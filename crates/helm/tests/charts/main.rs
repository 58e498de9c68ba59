//! Comparison of our rendering of charts with Helm's: recorded answers, and the Helm program itself
//! if it has been built.
//!
//! `GROUNDWORK_HELM_SEED` and `GROUNDWORK_HELM_CASES` choose another and a longer run of generated
//! charts, `GROUNDWORK_HELM_FILE` a file with one case per line instead of them.
//! `GROUNDWORK_HELM_RECORD` records Helm's answers anew.

mod case;
mod differential;
mod generator;
mod random;
mod recorded;
