//! Limits on the form of expressions from untrusted users, checked before parsing.

/// Longest expression, in bytes.
const LONGEST_SOURCE: usize = 4096;
/// Maximum number of nested brackets, and of operators in a row; the parser recurses for both.
const DEEPEST: usize = 60;
const MOST_OPERATORS: usize = 500;
/// Bytes of stack that the parser and the evaluator need for an expression that [`check_form`]
/// accepts.
pub const STACK: usize = 64 << 20;

/// Refuses an expression that would exhaust the stack, before parsing. Characters inside texts
/// count as well, which refuses no realistic expression.
///
/// # Errors
///
/// The expression is too long, too deep, or has too many operators.
pub fn check_form(source: &str) -> Result<(), String> {
    if source.len() > LONGEST_SOURCE {
        return Err(format!("the expression is longer than {LONGEST_SOURCE} bytes"));
    }
    let (mut depth, mut deepest, mut operators) = (0_usize, 0, 0);
    for byte in source.bytes() {
        match byte {
            b'(' | b'[' | b'{' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'+' | b'-' | b'*' | b'/' | b'%' | b'<' | b'>' | b'=' | b'!' | b'&' | b'|' | b'?' | b':'
            | b'.' | b',' => {
                operators += 1;
            }
            _ => {}
        }
    }
    if deepest > DEEPEST {
        return Err(format!("the expression has more than {DEEPEST} brackets inside each other"));
    }
    if operators > MOST_OPERATORS {
        return Err(format!("the expression has more than {MOST_OPERATORS} operators"));
    }
    Ok(())
}
