//! Our rendering of charts beside the original's: recorded answers, and the original itself where it has been built.
//!
//! `GROUNDWORK_HELM_SEED` and `GROUNDWORK_HELM_CASES` choose another and a longer run of generated charts, `GROUNDWORK_HELM_FILE` a file
//! with a case a line instead of them. With `GROUNDWORK_HELM_RECORD` the recorded answers are written anew by the original.

mod case;
mod differential;
mod generator;
mod random;
mod recorded;
