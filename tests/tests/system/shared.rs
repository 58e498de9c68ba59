//! One system for all tests that do not disturb it. Each test works in a namespace of its own.

use anyhow::Result;
use groundwork_tests::{System, SystemOptions};
use tokio::sync::OnceCell;

use crate::echo_server::options;

/// Pick-up timeout: longer than a deployer needs, and short enough to wait for.
pub(crate) const PICKUP_SECONDS: u64 = 20;

static SYSTEM: OnceCell<Option<System>> = OnceCell::const_new();

/// Returns the system, with the components of the example. `None` if the servers are missing.
pub(crate) async fn system() -> Result<Option<&'static System>> {
    let start = async || {
        let pickup = ("GROUNDWORK_PICKUP_TIMEOUT".to_owned(), format!("{PICKUP_SECONDS}s"));
        System::start(SystemOptions { variables: vec![pickup], target_syncs: true, ..options() }).await
    };
    Ok(SYSTEM.get_or_try_init(start).await?.as_ref())
}
