use super::Scalar::{Bool, Float, Int, Nil};
use super::{Scalar, sprintf};

fn text(text: &str) -> Scalar {
    Scalar::Text(text.to_owned())
}

fn check(table: &[(&str, &[Scalar], &str)]) {
    for (format, arguments, expected) in table {
        assert_eq!(sprintf(format, arguments, 1000).as_deref(), Some(*expected), "{format}");
    }
}

#[test]
fn verbs_and_flags_are_those_of_go() {
    check(&[
        (
            "%s-%d-%v-%5.2f-%05d",
            &[text("a"), Int(3), Bool(true), Float(1.5), Int(42)],
            "a-3-true- 1.50-00042",
        ),
        ("%t|%d", &[Bool(false), Bool(true)], "false|%!d(bool=true)"),
        ("%5s|%-5s|%.2s", &[text("é"), text("ab"), text("abc")], "    é|ab   |ab"),
        (
            "%+d|% d|%x|%X|%#x|%o|%b|%c",
            &[Int(5), Int(5), Int(255), Int(255), Int(255), Int(8), Int(5), Int(65)],
            "+5| 5|ff|FF|0xff|10|101|A",
        ),
        (
            "%05d|%-5d|%.3d|%d",
            &[Int(-42), Int(42), Int(7), Int(i64::MIN)],
            "-0042|42   |007|-9223372036854775808",
        ),
        ("%q|%x|%X", &[text("a\"\n"), text("hi"), text("hi")], "\"a\\\"\\n\"|6869|6869"),
        (
            "%f|%e|%g|%v|%.3g|%.1f",
            &[Float(1.5), Float(1.5), Float(1e21), Float(0.1), Float(1234.5), Float(0.25)],
            "1.500000|1.500000e+00|1e+21|0.1|1.23e+03|0.2",
        ),
        (
            "%g|%v|%08.3f|%+.1e",
            &[Float(100_000.0), Float(1e6), Float(-2.71258), Float(12345.0)],
            "100000|1e+06|-002.713|+1.2e+04",
        ),
        ("%f|%5v", &[Float(f64::INFINITY), Float(f64::NAN)], "+Inf|  NaN"),
        ("%*d|%-*d|%.*f", &[Int(4), Int(7), Int(3), Int(7), Int(1), Float(2.55)], "   7|7  |2.5"),
        ("%T %T", &[Int(1), text("x")], "int64 string"),
        ("%U|%q", &[Int(65), Int(65)], "U+0041|'A'"),
        ("%[2]d %[1]d", &[Int(1), Int(2)], "2 1"),
        ("100%%|%-5%", &[], "100%|%"),
    ]);
}

#[test]
fn complaints_are_those_of_go() {
    check(&[
        ("%d", &[text("x")], "%!d(string=x)"),
        ("%05d", &[text("x")], "%!d(string=0000x)"),
        ("%s", &[Int(5)], "%!s(int64=5)"),
        ("%d", &[Float(1.5)], "%!d(float64=1.5)"),
        ("%s", &[], "%!s(MISSING)"),
        ("a", &[Int(5), text("x"), Nil], "a%!(EXTRA int64=5, string=x, <nil>)"),
        ("%v|%s|%d", &[Nil, Nil, Nil], "<nil>|%!s(<nil>)|%!d(<nil>)"),
        ("%5v|%5d|%T", &[Nil, Nil, Nil], "<nil>|%!d(<nil>)|<nil>"),
        ("%", &[], "%!(NOVERB)"),
        ("%5.", &[], "%!.(MISSING)"),
        ("%z|%!", &[Int(1), Int(1)], "%!z(int64=1)|%!!(int64=1)"),
        ("%[3]d|%[x]d|%[]d", &[Int(1)], "%!d(BADINDEX)|%!d(BADINDEX)|%!d(BADINDEX)"),
    ]);
}

/// Answers of Go that one of two earlier implementations of `printf` did not give.
#[test]
fn corners_are_those_of_go() {
    check(&[
        ("%9999999999s|", &[Int(1)], "%!(NOVERB)%!(EXTRA int64=1)"),
        ("%.*f", &[Int(-1), Float(2.5)], "%!(BADPREC)2.500000"),
        ("%*d", &[Int(i64::MIN), Int(3)], "%!(BADWIDTH)3"),
        ("%*d|", &[Int(-5), Int(3)], "3    |"),
        ("%+v|%+v", &[Int(5), Float(1.5)], "5|1.5"),
        ("%x|%b|%X", &[Float(1.5), Float(1.5), Float(1.5)], "0x1.8p+00|6755399441055744p-52|0X1.8P+00"),
        ("%#U|%q|%c", &[Int(42), Int(0x11_0000), Int(-1)], "U+002A '*'|'\u{fffd}'|\u{fffd}"),
        ("%U|%x", &[Int(-1), Int(-255)], "U+FFFFFFFFFFFFFFFF|-ff"),
        ("%q", &[text("\u{a0}\u{feff}\u{200b}\u{e0001}")], r#""\u00a0\ufeff\u200b\U000e0001""#),
        ("%#q|%+q", &[text("a\tb"), text("é")], "`a\tb`|\"\\u00e9\""),
        ("%#v|%#v|%#v|%#v", &[Int(5), Float(1e6), Nil, text("a")], "5|1e+06|<nil>|\"a\""),
        (
            "%05s|%-05d|%05v|%010v",
            &[text("ab"), Int(4), Bool(true), text("é")],
            "000ab|4    |0true|000000000é",
        ),
        ("%06.2f|%#g|%.2f", &[Float(f64::NAN), Float(1.0), Float(f64::INFINITY)], "   NaN|1.00000|+Inf"),
        (
            "% x|%# x|%#X|%.3x",
            &[text("hi"), text("hi"), text("hi"), text("abcdef")],
            "68 69|0x68 0x69|0X6869|616263",
        ),
        ("%O|%#o|%#b|%08.3d|%.0d", &[Int(8), Int(8), Int(5), Int(7), Int(0)], "0o10|010|0b101|     007|"),
        ("%6.2v|%G|%E", &[Float(3.1234), Float(1e-10), Float(1.5)], "   3.1|1E-10|1.500000E+00"),
    ]);
}

#[test]
fn large_results_are_refused_before_they_are_made() {
    for (format, argument) in [
        ("%500000s", Int(1)),
        ("%.500000f", Float(1.0)),
        ("%.500000d", Int(1)),
        ("%.500000U", Int(1)),
        ("%*d", Int(1_000_000)),
    ] {
        assert_eq!(sprintf(format, &[argument, Int(1)], 1000), None, "{format}");
    }
}
