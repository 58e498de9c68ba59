//! The state machine of an Installation and what it owns: observed state in, next step out
//! (`installations.md` 2, 7, 8, 10).
//!
//! ```text
//! Tree (Installation, Execution, DeployItems, nested installations as last read or written)
//!    └─ next ──> Read | Prepare | Complete | Write | Rest | Wait
//!          the caller does it, puts what came back into the Tree, and asks again
//! ```
//!
//! One step is one write, or several that do not depend on one another, so a process may die between any two and another one
//! finds its way: whatever a step needs is read from the objects. What a Tree remembers beyond them only saves reads.

mod causes;
mod children;
mod execution;
mod installation;
mod items;
mod metadata;
mod ownerless;
mod phase;
mod protocol;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod tree;

use crate::reason::Reason;

pub use children::{Child, Children};
pub(crate) use installation::{Awaited, awaited};
pub use installation::{MOST_ATTEMPTS, report};
pub use items::Items;
pub use phase::Phase;
pub use protocol::{HasJob, Job, Standing};
pub use status::{READY, RECONCILING, STALLED};
pub use step::{Change, MetadataPatch, Moment, Need, Next, Predecessors, Read, Sibling, Write};
pub use tree::{Known, Part, StaleCopy, Tree};

/// The next step for a tree.
///
/// Repeating a step that has been done gives the following one, so a caller that lost an answer reads again.
pub fn next(tree: &mut Tree, moment: &Moment) -> Next {
    let step = installation::next(tree, moment);
    if step == Next::Rest { execution::next(tree, moment) } else { step }
}

/// The end of a job in whose handling the service dies, in these words. `None` if no job runs, or the Installation is not read.
pub fn set_aside(tree: &mut Tree, words: &str, moment: &Moment) -> Option<Write> {
    installation::set_aside(tree, words, moment)
}

/// What follows from the API server's final no to something that a job needs: its end. `None` if no job runs.
///
/// A job that can never end would hold off every other one, and its deletion too (2.1, 2.2).
pub fn refused(tree: &mut Tree, need: Need, cause: &str, moment: &Moment) -> Option<Write> {
    let of_execution = |reason| execution::refused(tree.execution.get()?, reason, cause, moment);
    match need {
        Need::Exports | Need::ExportHolder => of_execution(Reason::CollectAndUpdateExports),
        Need::Item | Need::ExecutionStatus => of_execution(Reason::CreateOrUpdateDeployItem),
        Need::DataCopy => installation::refused(tree, &Reason::CreateDataObjects, cause, moment),
        Need::TargetCopy => installation::refused(tree, &Reason::CreateTargets, cause, moment),
        Need::Execution => installation::refused(tree, &Reason::CreateOrUpdateExecution, cause, moment),
        Need::Child => installation::refused(tree, &Reason::InstallationCreatingFailed, cause, moment),
        Need::DataExport => installation::refused(tree, &Reason::CreateDataObjects, cause, moment),
        Need::TargetExport => installation::refused(tree, &Reason::CreateTargets, cause, moment),
        Need::State => installation::refused(tree, &Reason::StoreState, cause, moment),
    }
}
