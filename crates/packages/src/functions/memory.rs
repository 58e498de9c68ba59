//! Measures the memory of a process group, from Linux's `/proc`.

use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// Factor between the memory that one process may reserve and the limit of all processes. Reserved
/// but unused memory does not count towards the limit, and runtimes reserve a lot; this factor
/// stops growth that is faster than the checks.
const RESERVE: u64 = 4;

/// Limits the reserved memory of a process and its future children, which may grow between two
/// checks.
pub(crate) fn bound(process: Pid, memory: u64) {
    let most = Some(memory.saturating_mul(RESERVE));
    // This fails only if the process has ended already.
    let _ = prlimit(Some(process), Resource::Data, Rlimit { current: most, maximum: most });
}

/// Returns the resident bytes of the processes of a group.
pub(crate) fn resident(group: Pid) -> u64 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let processes = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let processes = processes.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    // A process that ends in the meantime has no file any more.
    let read = |process: &str, file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).ok();
    let resident = processes.filter_map(|process| {
        let stat = read(&process, "stat")?;
        // The format is `pid (name) state parent group …`. The name may have spaces and
        // parentheses, so split at the last one.
        let (_, fields) = stat.rsplit_once(')')?;
        let of_group: i32 = fields.split_whitespace().nth(2)?.parse().ok()?;
        if of_group != group.as_raw_nonzero().get() {
            return None;
        }
        let status = read(&process, "status")?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kibibytes: u64 = line.split_whitespace().next()?.parse().ok()?;
        Some(kibibytes << 10)
    });
    resident.sum()
}
