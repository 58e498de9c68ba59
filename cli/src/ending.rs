use std::process::ExitCode;

/// Outcome of a run, which sets the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    Rendered,
    /// At least one Installation could not be rendered.
    Failed,
    /// The input could not be used, or the output could not be written.
    Unusable,
}

impl From<Ending> for ExitCode {
    fn from(ending: Ending) -> Self {
        match ending {
            Ending::Rendered => Self::SUCCESS,
            Ending::Failed => Self::from(1),
            Ending::Unusable => Self::from(2),
        }
    }
}
