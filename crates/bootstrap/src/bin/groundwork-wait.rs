//! `groundwork-wait URL...`: health check of our containers, which have no shell. Asks each server
//! once.

use std::process::ExitCode;
use std::time::Duration;

use groundwork_bootstrap::wait::{Target, wait};

fn main() -> ExitCode {
    let targets: Result<Vec<Target>, _> = std::env::args().skip(1).map(|text| text.parse()).collect();
    let outcome = match targets {
        Ok(targets) if targets.is_empty() => Err("usage: groundwork-wait URL...".to_owned()),
        Ok(targets) => wait(&targets, Duration::ZERO, Target::ask).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
