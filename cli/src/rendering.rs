use groundwork_api::Installation;
use groundwork_lifecycle::Outcome;

/// An Installation and what its job gave.
#[derive(Debug)]
pub(crate) struct Rendering<'a> {
    pub(crate) installation: &'a Installation,
    pub(crate) outcome: Outcome,
}
