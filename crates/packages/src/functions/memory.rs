//! The memory of a process group, as Linux tells it.

use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// One process may ask for as many times the memory that all may use. What a program reserves and never touches is not counted, and
/// runtimes reserve a lot; this is for what grows faster than anybody looks.
const RESERVE: u64 = 4;

/// Keeps a process, and those that it will start, from growing without bounds between two looks.
pub(crate) fn bound(process: Pid, memory: u64) {
    let most = Some(memory.saturating_mul(RESERVE));
    // A process that has ended already needs no bound.
    let _ = prlimit(Some(process), Resource::Data, Rlimit { current: most, maximum: most });
}

/// Bytes that the processes of a group hold in memory.
pub(crate) fn resident(group: Pid) -> u64 {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    let processes = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let processes = processes.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    // Whoever ends meanwhile has no file any more.
    let read = |process: &str, file: &str| std::fs::read_to_string(format!("/proc/{process}/{file}")).ok();
    let resident = processes.filter_map(|process| {
        let stat = read(&process, "stat")?;
        // `pid (name) state parent group …`, and a name may hold anything.
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
