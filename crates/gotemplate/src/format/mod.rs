//! Printing of values (`gotemplate.md` 7): the default format, `print`, `println` and `printf`.

mod value;

pub(crate) use groundwork_go::fmt::{Sink, printf};
pub(crate) use value::write_value;

use crate::budget::{Budget, LimitError};
use crate::value::Value;

/// Creates an empty text that may grow as far as the budget allows.
pub(crate) fn sink(budget: &Budget) -> Sink {
    let mut sink = Sink::new(budget.limits().output_bytes);
    sink.allow_pieces(budget.pieces());
    sink
}

/// Returns the value in its default format, as one text.
pub(crate) fn to_bytes(value: &Value, budget: &mut Budget) -> Result<Vec<u8>, LimitError> {
    let mut sink = sink(budget);
    write_value(&mut sink, value);
    finish(sink, budget)
}

/// Ends a text that a function built, and accounts for it.
pub(crate) fn finish(mut sink: Sink, budget: &mut Budget) -> Result<Vec<u8>, LimitError> {
    budget.spend_pieces(sink.take_pieces())?;
    let bytes = sink.into_bytes().map_err(|error| budget.refusal(error))?;
    budget.text(bytes.len())?;
    Ok(bytes)
}

/// Writes as Go's `Sprint`: with a space between two neighbours if neither is a string.
pub(crate) fn print(sink: &mut Sink, arguments: &[Value]) {
    let mut after_string = true;
    for argument in arguments {
        let is_string = matches!(argument, Value::Str(_));
        if !is_string && !after_string {
            sink.push(b" ");
        }
        write_value(sink, argument);
        after_string = is_string;
    }
}

/// Writes as Go's `Sprintln`: with a space between all arguments and a newline at the end.
pub(crate) fn println(sink: &mut Sink, arguments: &[Value]) {
    for (index, argument) in arguments.iter().enumerate() {
        if index > 0 {
            sink.push(b" ");
        }
        write_value(sink, argument);
    }
    sink.push(b"\n");
}

#[cfg(test)]
mod tests {
    use crate::testing::check_all;

    #[test]
    fn complaints_go_to_the_output() {
        check_all(&[
            (r#"{{printf "%d" "x"}}|{{printf "%05d" "a"}}"#, "%!d(string=x)|%!d(string=0000a)"),
            (r#"{{printf "%d %v %T" nil nil nil}}"#, "%!d(<nil>) <nil> <nil>"),
            (r#"{{printf "%d %s" 1}}"#, "1 %!s(MISSING)"),
            (r#"{{printf "%d" 1 2 "x" nil}}"#, "1%!(EXTRA int=2, string=x, <nil>)"),
            (r#"{{printf "%z %!" 1 2}}"#, "%!z(int=1) %!!(int=2)"),
            (r#"{{printf "%"}}{{printf "%-5"}}"#, "%!(NOVERB)%!(NOVERB)"),
            (r#"{{printf "%[9]d %[x]d %[0]d" 1}}"#, "%!d(BADINDEX) %!d(BADINDEX) %!d(BADINDEX)"),
            (r#"{{printf "%*d" "w" 3}}"#, "%!(BADWIDTH)3"),
            (r#"{{printf "%.*f" -1 3.14}}"#, "%!(BADPREC)3.140000"),
            (r#"{{printf "a%99999999dbc" 1}}"#, "a%!(NOVERB)%!(EXTRA int=1)"),
        ]);
    }

    #[test]
    fn flags_widths_and_indexes() {
        check_all(&[
            (r#"{{printf "%5d|%-5d|%05d|%+d|% d" 42 42 42 42 42}}"#, "   42|42   |00042|+42| 42"),
            (
                r#"{{printf "%x %#x %X %o %#o %O %b %#b" 42 42 42 42 42 42 5 5}}"#,
                "2a 0x2a 2A 52 052 0o52 101 0b101",
            ),
            (
                r#"{{printf "%.3d|%08.3d|%c|%q|%U|%#U" 7 7 42 42 42 42}}"#,
                "007|     007|*|'*'|U+002A|U+002A '*'",
            ),
            (
                r#"{{printf "%5s|%-5s|%05s|%.1s|%x|% X" "ab" "ab" "ab" "hé" "ab" "ab"}}"#,
                "   ab|ab   |000ab|h|6162|61 62",
            ),
            (r#"{{printf "%*d|%-*d|%[2]d %[1]d" 5 3 4 2}}"#, "    3|2   |3 5"),
            (
                r#"{{printf "%.2f|%8.3f|%-8.1f|%08.2f|%e|%g" 3.14159 3.14159 3.14159 -3.14159 1234.5 1e21}}"#,
                "3.14|   3.142|3.1     |-0003.14|1.234500e+03|1e+21",
            ),
            (
                r#"{{printf "%5v|%q|%s" (list 1 "a") (list "b" nil) (list 1.0)}}"#,
                "[    1     a]|[\"b\" <nil>]|[%!s(float64=1)]",
            ),
            (
                r#"{{printf "%#v %#v" (list 1 "a" nil) (dict "k" true)}}"#,
                r#"[]interface {}{1, "a", interface {}(nil)} map[string]interface {}{"k":true}"#,
            ),
        ]);
    }
}
