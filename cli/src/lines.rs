//! Questions on standard input and answers on standard output, one JSON object a line, for programs that compare or test.

use std::io::{BufRead as _, ErrorKind as IoError, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::diagnostic::{self, Diagnostic};
use crate::ending::Ending;

/// Answers standard input line by line, until it ends or nobody reads the answers.
pub(crate) fn answer_lines<A: Serialize>(answer: impl Fn(&[u8]) -> A) -> Ending {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) => return Ending::Rendered,
            Ok(_) => {}
            Err(error) => return stopped(&format!("cannot read standard input: {error}")),
        }
        match write(&mut output, &answer(&line)) {
            Ok(()) => {}
            Err(error) if error.kind() == IoError::BrokenPipe => return Ending::Rendered,
            Err(error) => return stopped(&format!("cannot write to standard output: {error}")),
        }
    }
}

fn stopped(message: &str) -> Ending {
    diagnostic::print(&[Diagnostic::error(message)]);
    Ending::Unusable
}

fn write(output: &mut impl Write, answer: &impl Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    output.write_all(&text)?;
    output.flush()
}

/// An object; a list of the members' values is not taken for one.
pub(crate) fn parse<C: DeserializeOwned>(line: &[u8]) -> Result<C, serde_json::Error> {
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line)?;
    serde_json::from_value(members.into())
}
