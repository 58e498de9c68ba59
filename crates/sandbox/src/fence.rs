//! Rights that a worker gives up before it receives any work, and limits that its service sets.

use std::collections::BTreeMap;
use std::time::Duration;

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetError, RulesetStatus, Scope,
};
use libc::c_long;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, getpid, getppid, getrlimit, kill_process, set_parent_process_death_signal,
    setrlimit,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};

/// Address space in bytes beyond the writable memory of a worker, for the mapped program and
/// libraries and for reservations of allocators.
const ADDRESSES: u64 = 1 << 30;

/// Sets the limits that the kernel enforces. `memory` is the limit in bytes of all memory that the
/// process writes.
pub(crate) fn limit(memory: u64) {
    let to = |limit: u64| Rlimit { current: Some(limit), maximum: Some(limit) };
    let limits = [
        (Resource::Data, to(memory)),
        (Resource::As, to(memory.saturating_add(ADDRESSES))),
        (Resource::Core, to(0)),
        (Resource::Fsize, to(0)),
        (Resource::Nproc, to(0)),
    ];
    for (resource, limit) in limits {
        // Setting may fail for a limit that is already lower, since a process cannot raise it. The
        // lower limit stays.
        _ = setrlimit(resource, limit);
    }
}

/// Ends this process when its parent ends.
pub(crate) fn die_with_parent(parent: u32) {
    // Without the signal, only a killed command leaves a worker behind, until its work is done.
    _ = set_parent_process_death_signal(Some(Signal::TERM));
    // The parent may have ended before the signal was set.
    if getppid().map(Pid::as_raw_nonzero).is_none_or(|now| u32::try_from(now.get()) != Ok(parent)) {
        std::process::exit(1);
    }
}

/// Sends a signal to this process.
pub(crate) fn raise(signal: i32) {
    _ = Signal::from_named_raw(signal).map(|signal| kill_process(getpid(), signal));
}

/// Limits of this process for pieces of work, each on top of what the process has used before. Only
/// soft limits change, so the former ones can come back.
#[derive(Debug)]
pub(crate) struct Limits {
    memory: u64,
    cpu_time: Duration,
    /// Limits of the user for data and processor time.
    former: [Rlimit; 2],
}

const RESOURCES: [Resource; 2] = [Resource::Data, Resource::Cpu];

impl Limits {
    pub(crate) fn new(memory: u64, cpu_time: Duration) -> Self {
        // A core file would hold imported values.
        let maximum = getrlimit(Resource::Core).maximum;
        _ = setrlimit(Resource::Core, Rlimit { current: Some(0), maximum });
        Self { memory, cpu_time, former: RESOURCES.map(getrlimit) }
    }

    /// Sets the limits for one piece of work, until the result is dropped.
    pub(crate) fn raise(&self) -> Changed {
        let own = std::process::id();
        let memory = usage::writable(own).ok().map(|bytes| bytes.saturating_add(self.memory));
        let time = usage::used_cpu_time(own).ok();
        let seconds = time.map(|used| usage::whole_seconds(used.saturating_add(self.cpu_time)));
        // Without `/proc` the use of the process is not known, and the limits stay as they are.
        self.change([memory, seconds])
    }

    /// Restores the limits of the user, until the result is dropped.
    pub(crate) fn lift(&self) -> Changed {
        self.change([None, None])
    }

    fn change(&self, limits: [Option<u64>; 2]) -> Changed {
        let before = RESOURCES.map(getrlimit);
        for ((resource, former), limit) in RESOURCES.into_iter().zip(&self.former).zip(limits) {
            let current = [limit, former.current].into_iter().flatten().min();
            _ = setrlimit(resource, Rlimit { current, maximum: former.maximum });
        }
        Changed(before)
    }
}

/// Changed limits. Dropping this restores the former limits.
#[derive(Debug)]
pub(crate) struct Changed([Rlimit; 2]);

impl Drop for Changed {
    fn drop(&mut self) {
        for (resource, before) in RESOURCES.into_iter().zip(&self.0) {
            _ = setrlimit(resource, Rlimit { current: before.current, maximum: before.maximum });
        }
    }
}

/// Gives up every right to open or reach anything, for good. Returns a text for each mechanism that
/// the kernel lacks.
pub(crate) fn close() -> Vec<String> {
    let mut lacking = Vec::new();
    match restrict_paths() {
        Ok(RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced) => {}
        Ok(RulesetStatus::NotEnforced) => lacking.push("Landlock is not available".to_owned()),
        Err(error) => lacking.push(format!("Landlock cannot be enabled: {error}")),
    }
    // With a limit of 0 no file can be opened, on any kernel.
    _ = setrlimit(Resource::Nofile, Rlimit { current: Some(0), maximum: Some(0) });
    if let Err(error) = restrict_calls() {
        lacking.push(format!("seccomp cannot be enabled: {error}"));
    }
    lacking
}

/// Forbids all paths, ports and signals to other processes: the Landlock ruleset contains no rule
/// that allows any.
fn restrict_paths() -> Result<RulesetStatus, RulesetError> {
    let abi = ABI::V6;
    let ruleset = Ruleset::default()
        .handle_access(AccessFs::from_all(abi))?
        .handle_access(AccessNet::from_all(abi))?
        .scope(Scope::from_all(abi))?;
    Ok(ruleset.create()?.restrict_self()?.ruleset)
}

/// Reason why a filter of system calls cannot be built.
#[derive(Debug, thiserror::Error)]
enum FilterError {
    #[error(transparent)]
    Filter(#[from] seccompiler::Error),
    #[error(transparent)]
    Backend(#[from] seccompiler::BackendError),
}

/// Allows only the system calls for computing: memory, time, the open socket, and the end of the
/// process. All others return `EPERM`.
fn restrict_calls() -> Result<(), FilterError> {
    let filter = SeccompFilter::new(
        allowed_calls()?,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?;
    let program: BpfProgram = filter.try_into()?;
    Ok(apply_filter(&program)?)
}

const CALLS: [c_long; 29] = [
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_recvfrom,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_sendto,
    libc::SYS_close,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_getrandom,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getrusage,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    libc::SYS_restart_syscall,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

fn allowed_calls() -> Result<BTreeMap<c_long, Vec<SeccompRule>>, seccompiler::BackendError> {
    let equals = |argument: u8, value: u64| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Eq, value)
    };
    let executable = u64::from(libc::PROT_EXEC.unsigned_abs());
    let not_executable = || {
        let operator = SeccompCmpOp::MaskedEq(executable);
        SeccompRule::new(vec![SeccompCondition::new(2, SeccompCmpArgLen::Qword, operator, 0)?])
    };
    let own = u64::from(std::process::id());
    let with_conditions = [
        (libc::SYS_mmap, not_executable()?),
        (libc::SYS_mprotect, not_executable()?),
        // `abort` signals its own process; signals to others stay forbidden.
        (libc::SYS_tgkill, SeccompRule::new(vec![equals(0, own)?])?),
        // A process may read its own limits, but not set them.
        (libc::SYS_prlimit64, SeccompRule::new(vec![equals(0, 0)?, equals(2, 0)?])?),
    ];
    let mut calls: BTreeMap<_, _> = CALLS.into_iter().map(|call| (call, Vec::new())).collect();
    calls.extend(with_conditions.map(|(call, rule)| (call, vec![rule])));
    Ok(calls)
}

/// Measurements and limits that a service applies to a worker from outside.
pub(crate) mod usage {
    use std::io;
    use std::time::Duration;

    use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setpriority_process};

    /// Clock ticks per second in `/proc`, the same on every architecture that Rust supports.
    const TICKS_PER_SECOND: u64 = 100;

    /// Limits the total processor time of a worker, in whole seconds. The kernel ends the worker
    /// with `SIGXCPU` after that.
    pub(crate) fn limit_cpu_time(pid: u32, most: Duration) -> io::Result<()> {
        let limit = whole_seconds(most);
        let pid = known(pid)?;
        // A worker inherits the limits of its service. Only the soft limit may change.
        let maximum = getrlimit(Resource::Cpu).maximum;
        let current = Some(maximum.map_or(limit, |maximum| limit.min(maximum)));
        prlimit(Some(pid), Resource::Cpu, Rlimit { current, maximum })?;
        Ok(())
    }

    /// Returns a time in seconds, rounded up.
    pub(crate) fn whole_seconds(time: Duration) -> u64 {
        u64::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u64::MAX)
    }

    /// Returns the processor time that a process has used since it started.
    pub(crate) fn used_cpu_time(pid: u32) -> io::Result<Duration> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        Ok(cpu_time(&text).ok_or(io::ErrorKind::InvalidData)?)
    }

    /// Lowers the priority of a worker. Raising it again would need a privilege.
    pub(crate) fn yield_to_others(pid: u32, nice: i32) -> io::Result<()> {
        Ok(setpriority_process(Some(known(pid)?), nice)?)
    }

    fn known(pid: u32) -> io::Result<Pid> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        pid.ok_or_else(|| io::ErrorKind::InvalidInput.into())
    }

    /// Returns the bytes of a worker's memory that it does not share with other processes.
    pub(crate) fn resident(pid: u32) -> io::Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm"))?;
        Ok(private(&text).ok_or(io::ErrorKind::InvalidData)?)
    }

    /// Returns the bytes of a process that its limit of data counts, and those of its stack.
    pub(crate) fn writable(pid: u32) -> io::Result<u64> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/statm"))?;
        let pages = text.split_ascii_whitespace().nth(5).and_then(|field| field.parse().ok());
        Ok(pages.and_then(bytes).ok_or(io::ErrorKind::InvalidData)?)
    }

    /// Reads processor time from `/proc/PID/stat`: fields 14 and 15. The second field is the name,
    /// which may contain any character and ends with the last parenthesis.
    fn cpu_time(stat: &str) -> Option<Duration> {
        let (_, behind) = stat.rsplit_once(')')?;
        let mut fields =
            behind.split_ascii_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
        let ticks = fields.next()?.saturating_add(fields.next()?);
        Some(Duration::from_millis(ticks.saturating_mul(1000) / TICKS_PER_SECOND))
    }

    /// Returns the private pages in `/proc/PID/statm`: the resident pages less the shared ones.
    fn private(statm: &str) -> Option<u64> {
        let mut pages = statm.split_ascii_whitespace().skip(1).map_while(|field| field.parse::<u64>().ok());
        bytes(pages.next()?.saturating_sub(pages.next()?))
    }

    fn bytes(pages: u64) -> Option<u64> {
        Some(pages.saturating_mul(u64::try_from(rustix::param::page_size()).ok()?))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn lines_of_the_kernel_are_read() {
            let stat =
                "7 (a) b) S 1 7 7 0 -1 4194560 9 0 0 0 250 50 0 0 20 0 1 0 99 1000 3 18446744073709551615 1";
            assert_eq!(cpu_time(stat), Some(Duration::from_secs(3)));
            assert_eq!(cpu_time("7 (a) S 1"), None);
            assert_eq!(private("100 9 4 1 0 50 0"), Some(5 * rustix::param::page_size() as u64));
            assert_eq!(private("100"), None);
            let own = std::process::id();
            assert!(resident(own).unwrap() > 1 << 16);
            assert!(writable(own).unwrap() > 1 << 16);
        }
    }
}
