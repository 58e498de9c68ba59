//! Requests on standard input and answers on standard output, one JSON object per line.

use std::io::{BufRead as _, ErrorKind, Write};

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Answers standard input line by line, until the input ends or the reader of the answers closes
/// its end.
pub(crate) fn answer_lines<A: Serialize>(answer: impl Fn(&[u8]) -> A) -> Result<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = Vec::new();
    loop {
        line.clear();
        if input.read_until(b'\n', &mut line).context("cannot read standard input")? == 0 {
            return Ok(());
        }
        match write(&mut output, &answer(&line)) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::BrokenPipe => return Ok(()),
            Err(error) => return Err(error).context("cannot write to standard output"),
        }
    }
}

fn write(output: &mut impl Write, answer: &impl Serialize) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(answer)?;
    text.push(b'\n');
    output.write_all(&text)?;
    output.flush()
}

/// Reads a line as an object. Serde alone would also accept a list of the members' values.
pub(crate) fn parse<C: DeserializeOwned>(line: &[u8]) -> Result<C, serde_json::Error> {
    let members: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(line)?;
    serde_json::from_value(members.into())
}
