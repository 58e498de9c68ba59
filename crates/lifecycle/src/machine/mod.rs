//! State machine of an Installation and the objects that it owns: computes the next step from the
//! observed state (`installations.md` 2, 7, 8, 10).
//!
//! ```text
//! Tree (Installation, Execution, DeployItems, nested installations as last read or written)
//!    └─ next ──> Read | Prepare | Complete | Write | Rest | Wait
//!          the caller does it, puts what came back into the Tree, and asks again
//! ```
//!
//! One step is one write, or several independent writes. A process may therefore die between any
//! two writes, and another process continues from the objects. The Tree only caches facts to save
//! reads.

mod causes;
mod children;
mod execution;
mod installation;
mod items;
mod metadata;
mod ownerless;
mod status;
mod step;
#[cfg(test)]
mod tests;
mod tree;

use crate::reason::Reason;

pub use crate::phase::Phase;
pub use crate::protocol::{HasJob, Job, Standing};
pub use crate::write::{Change, MetadataPatch, Write};

pub use children::{Child, Children};
pub(crate) use installation::{Awaited, awaited};
pub use installation::{MOST_ATTEMPTS, report};
pub use items::Items;
pub use status::{READY, RECONCILING, STALLED};
pub use step::{Moment, Need, Next, Predecessors, Read, Sibling};
pub use tree::{Known, Part, StaleCopy, Tree};

/// Returns the next step for a tree.
///
/// A caller that lost the response to a step can read the objects again. If the step was done, the
/// next step follows.
pub fn next(tree: &mut Tree, moment: &Moment) -> Next {
    let step = installation::next(tree, moment);
    if step == Next::Rest { execution::next(tree, moment) } else { step }
}

/// Returns the write that ends a job because the service dies whenever it handles the object.
/// `words` describe the problem. `None` if no job runs, or the Installation is not read.
pub fn set_aside(tree: &mut Tree, words: &str, moment: &Moment) -> Option<Write> {
    installation::set_aside(tree, words, moment)
}

/// Returns the write that ends a job after the API server has permanently rejected something that
/// the job needs. `None` if no job runs.
///
/// A job that never ends would block every later job, and the deletion (`installations.md` 2.1,
/// 2.2).
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
