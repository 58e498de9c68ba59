//! Requests in the audit log of the API server.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, SeekFrom};
use std::path::Path;

use anyhow::Result;
use serde_json::Value;

/// Reader of the entries that were logged since the last read.
#[derive(Debug)]
pub(crate) struct AuditLog {
    file: BufReader<File>,
}

impl AuditLog {
    /// Opens the log at its end.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let mut file = File::open(path)?;
        file.seek(SeekFrom::End(0))?;
        Ok(Self { file: BufReader::new(file) })
    }

    /// Counts the finished requests of the services by verb and resource, without watches and
    /// leases.
    pub(crate) fn counts(&mut self) -> Result<BTreeMap<String, usize>> {
        let mut counts = BTreeMap::new();
        let mut line = String::new();
        loop {
            line.clear();
            if self.file.read_line(&mut line)? == 0 {
                return Ok(counts);
            }
            let Ok(request) = serde_json::from_str::<Value>(&line) else { continue };
            let user = request["user"]["username"].as_str().unwrap_or_default();
            let verb = request["verb"].as_str().unwrap_or_default();
            let resource = request["objectRef"]["resource"].as_str().unwrap_or_default();
            if request["stage"] != "ResponseComplete"
                || !user.starts_with("system:serviceaccount:groundwork-system:")
                || verb == "watch"
                || resource == "leases"
            {
                continue;
            }
            let subresource = request["objectRef"]["subresource"].as_str().map(|name| format!("/{name}"));
            *counts.entry(format!("{verb} {resource}{}", subresource.unwrap_or_default())).or_default() += 1;
        }
    }
}
