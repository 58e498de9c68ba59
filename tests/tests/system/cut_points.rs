//! Harness of the suites that kill a process after each of its changes in turn: the change is
//! stored, but the process never gets the answer.
//!
//! ```text
//! life without a kill ──> state, number of changes of each kind
//! life with a kill after change n ──> the same state
//! ```
//!
//! Every run tries a few of these points, and `cargo xtask faults` tries all of them.

use std::fmt::Debug;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use groundwork_tests::System;

use crate::case::Case;
use crate::support::PATIENCE;

/// Environment variable that makes the suites try every point, with any value.
const ALL_POINTS: &str = "GROUNDWORK_ALL_CUTS";

/// Change after which the process is killed: the one of this number, from 0, among those of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) kind: &'static str,
    pub(crate) number: usize,
}

/// Result of one life.
pub(crate) struct Lived<S> {
    /// Everything that has to be the same in each life.
    pub(crate) state: S,
    /// Kinds of changes, with the number of each.
    pub(crate) changes: Vec<(&'static str, usize)>,
}

/// Returns the number of a cut, if it is of this kind.
pub(crate) fn number(cut: Option<Cut>, kind: &str) -> Option<usize> {
    cut.filter(|cut| cut.kind == kind).map(|cut| cut.number)
}

/// Lives once without a kill, and then once for each point: about `few` of each kind of changes, or
/// all. `live` gets the number of the life, from 0, and its cut.
pub(crate) async fn compare<S: PartialEq + Debug>(
    few: usize,
    mut live: impl AsyncFnMut(usize, Option<Cut>) -> Result<Lived<S>>,
) -> Result<()> {
    let calm = live(0, None).await?;
    let is_long = std::env::var_os(ALL_POINTS).is_some();
    let mut tried = 0;
    for (kind, count) in calm.changes.iter().copied() {
        ensure!(count > 0, "a life has no {kind}");
        let step = if is_long { 1 } else { count.div_ceil(few) };
        for number in (0..count).step_by(step) {
            tried += 1;
            let cut = Cut { kind, number };
            let found = live(tried, Some(cut)).await.with_context(|| format!("killed after {cut:?}"))?;
            let (found, expected) = (&found.state, &calm.state);
            ensure!(found == expected, "killed after {cut:?}: {found:#?}, without: {expected:#?}");
        }
    }
    println!("killed at {tried} points of {:?}, no divergence", calm.changes);
    Ok(())
}

/// Waits until `is_so`, and starts the service again whenever it was killed. `is_reached` reports
/// that the chosen change is stored; it reports each cut once.
pub(crate) async fn until(
    system: &mut System,
    (service, namespace): (&'static str, &str),
    is_reached: impl Fn(&System) -> Result<bool>,
    what: &str,
    is_so: impl AsyncFn(&Case<'_>) -> Result<bool>,
) -> Result<()> {
    let start = Instant::now();
    loop {
        if is_reached(system)? {
            system.service_mut(service)?.program.kill().await?;
        }
        if !system.service(service)?.program.is_running() {
            system.service_mut(service)?.program.start_again()?;
        }
        let case = Case::existing(system, namespace).await?;
        if is_so(&case).await? {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            bail!("{what}: not after {PATIENCE:?}\n{}", system.logs());
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}
