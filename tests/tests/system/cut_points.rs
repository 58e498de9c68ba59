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

/// Kinds of changes, with the least number of each that a life has: a proxy that misses writes
/// would leave points out.
pub(crate) type Least = [(&'static str, usize)];

/// Returns the number of a cut, if it is of this kind.
pub(crate) fn number(cut: Option<Cut>, kind: &str) -> Option<usize> {
    cut.filter(|cut| cut.kind == kind).map(|cut| cut.number)
}

/// Lives once without a kill, and then once for each point: about `few` of each kind of changes, or
/// all. `live` gets the number of the life, from 0, and its cut.
pub(crate) async fn compare<S: PartialEq + Debug>(
    few: usize,
    least: &Least,
    mut live: impl AsyncFnMut(usize, Option<Cut>) -> Result<Lived<S>>,
) -> Result<()> {
    let calm = live(0, None).await?;
    for (kind, least) in least {
        let found = calm.changes.iter().find(|(known, _)| known == kind).map_or(0, |(_, count)| *count);
        ensure!(found >= *least, "{found} {kind} in a life, and at least {least} are expected");
    }
    let is_long = std::env::var_os(ALL_POINTS).is_some();
    let mut tried = 0;
    for (kind, count) in calm.changes.iter().copied() {
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

/// Waits until `is_so`, and kills and restarts the service when `is_reached` reports that the
/// chosen change is stored, which it does once for each cut. A service that ends by itself is an
/// error.
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
            let program = &mut system.service_mut(service)?.program;
            if program.is_running() {
                program.kill().await?;
            }
            program.start_again()?;
        }
        ensure!(system.service(service)?.program.is_running(), "{service} has ended\n{}", system.logs());
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
