//! Systems other than Linux: process limits differ from system to system, so workers have only the
//! time limit of their service.

use std::time::Duration;

pub(crate) fn limit(_memory: u64) {}

pub(crate) fn die_with_parent(_parent: u32) {}

pub(crate) fn raise(_signal: i32) {}

#[derive(Debug)]
pub(crate) struct Limits;

impl Limits {
    pub(crate) fn new(_memory: u64, _cpu_time: Duration) -> Self {
        Self
    }

    pub(crate) fn raise(&self) {}

    pub(crate) fn lift(&self) {}
}

pub(crate) fn close() -> Vec<String> {
    vec!["the system is not Linux, so workers have only a time limit".to_owned()]
}

pub(crate) mod usage {
    use std::io;
    use std::time::Duration;

    pub(crate) fn limit_cpu_time(_pid: u32, _most: Duration) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn used_cpu_time(_pid: u32) -> io::Result<Duration> {
        Ok(Duration::ZERO)
    }

    pub(crate) fn yield_to_others(_pid: u32, _nice: i32) -> io::Result<()> {
        Ok(())
    }

    pub(crate) fn resident(_pid: u32) -> io::Result<u64> {
        Ok(0)
    }
}
