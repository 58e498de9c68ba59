//! Figures of the kernel about a process.

use std::fs;

use anyhow::{Context, Result};

/// CPU seconds and memory of a process.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    /// Current and highest resident set, in MiB.
    pub(crate) resident: f64,
    pub(crate) peak: f64,
}

/// Clock ticks per second in `/proc/<pid>/stat`, the same on every Linux.
const TICKS: f64 = 100.0;

pub(crate) fn usage(pid: u32) -> Result<Usage> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).context("the process has ended")?;
    // The process name in parentheses may contain blanks, so the fields are split after its closing
    // one.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or_default();
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let memory = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kib = line
            .and_then(|line| line.trim_start_matches(':').trim().trim_end_matches(" kB").parse::<f64>().ok());
        kib.unwrap_or_default() / 1024.0
    };
    Ok(Usage {
        cpu_seconds: (ticks(11) + ticks(12)) / TICKS,
        resident: memory("VmRSS"),
        peak: memory("VmHWM"),
    })
}
