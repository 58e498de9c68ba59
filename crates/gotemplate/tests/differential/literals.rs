//! Constants in the many small languages that functions of sprig accept: layouts, patterns,
//! versions.

use crate::random::Random;

pub(crate) const TEXTS: &[&str] = &[
    r#""""#,
    r#""a""#,
    r#""web""#,
    r#""Hello World""#,
    r#""  padded\t""#,
    r#""a,b,,c""#,
    r#""a-b_c.d e""#,
    r#""fooBar_BazQUX 2x""#,
    r#""HTTPServer20xOK""#,
    r#""no_https--really""#,
    r#""x1y22z333""#,
    r#""hé wörld ÄÖ ß""#,
    r#""日本語 テスト""#,
    r#""line1\nline2\n\nline4\n""#,
    r#""it's \"quoted\" <b>&amp;\\""#,
    r#""the quick brown fox jumps over the lazy dog""#,
    r#""a\x00b\x7f\u2028""#,
    r#""bad\xffutf""#,
    r#""İıſK""#,
    r#""true""#,
    r#""3""#,
    r#""-7""#,
    r#""3.7""#,
    r#""0x1F""#,
    r#""010""#,
    r#""1e3""#,
    r#""abc""#,
    "`raw \"text\" \\n`",
    "`{\"a\": 1}`",
    r#""aGVsbG8=""#,
    r#""NBSWY3DP""#,
    r#""$1 ${2}$$x""#,
];

pub(crate) const WORDS: &[&str] = &[
    r#""a""#, r#""b""#, r#"",""#, r#""-""#, r#"" ""#, r#""o""#, r#""_""#, r#""""#, r#""ab""#, r#""\n""#,
    r#""é""#,
];

pub(crate) const KEYS: &[&str] =
    &[r#""a""#, r#""b""#, r#""c""#, r#""n""#, r#""k""#, r#""nope""#, r#""x""#, r#""l""#, r#""""#];

pub(crate) const SMALL: &[&str] =
    &["0", "1", "2", "3", "4", "5", "7", "10", "-1", "-3", "'a'", "0x10", "3.0", "1_0", "+2", "08.0"];

pub(crate) const INTEGERS: &[&str] =
    &["0", "1", "2", "3", "-1", "42", "100", "1000000", "-17", "0b101", "010"];

pub(crate) const FLOATS: &[&str] = &[
    "0.0",
    "1.5",
    "-2.5",
    "0.1",
    "3.14159",
    "1e3",
    "1e6",
    "1e21",
    "1e-7",
    "2.0",
    "123456.789",
    "-0.0",
    "0x1p-2",
    "99.5",
    "1e20",
    "0.00001",
    "2.675",
];

pub(crate) const REGEXES: &[&str] = &[
    r#""[a-z]+""#,
    r#""a""#,
    r#""""#,
    r#""(\\w+)-(\\w+)""#,
    r#""^\\s*(.*?)\\s*$""#,
    r#""[^a-c]""#,
    r#""(?i)HELLO""#,
    r#""\\d{1,2}""#,
    r#""(?P<first>\\w)(?P<rest>\\w*)""#,
    r#""x*""#,
    r#""a|b|ab""#,
    r#""[[:upper:]]""#,
    r#""\\bo""#,
    r#""\\pL+""#,
    r#""(""#,
    r#""a**""#,
    r#""[z-a]""#,
    r#""\\Qa.b\\E""#,
    r#""(?s).+""#,
    r#""(?m)^l""#,
    r#""é|ö""#,
    r#""(?U)a+""#,
    r#""x{1001}""#,
    r#""(?=a)""#,
    r#""\\z""#,
    r#""[\\d\\s]+""#,
];

pub(crate) const REPLACEMENTS: &[&str] = &[
    r#""x""#,
    r#""<$1>""#,
    r#""${2}-$1""#,
    r#""$$""#,
    r#""${first}_$rest""#,
    r#""""#,
    r#""$1x""#,
    r#""$""#,
    r#""${1""#,
];

pub(crate) const VERSIONS: &[&str] = &[
    r#""1.2.3""#,
    r#""v1.2""#,
    r#""1""#,
    r#""2.0.0-rc.1""#,
    r#""1.2.3-beta.2+build.5""#,
    r#""0.3.9""#,
    r#""0.0.3""#,
    r#""10.20.30""#,
    r#""1.9.0""#,
    r#""01.2.3""#,
    r#""1.2.3-alpha""#,
    r#""1.2.4-a""#,
];

pub(crate) const BAD_VERSIONS: &[&str] =
    &[r#""x.y""#, r#""""#, r#""1.2.3-01""#, r#""99999999999999999999""#, r#""1.2.3.4""#, r#""1.2.3-é""#];

pub(crate) const CONSTRAINTS: &[&str] = &[
    r#""^1.2""#,
    r#""~1.2.3""#,
    r#"">=1.0, <2""#,
    r#"">=1.0 <2 || ^3""#,
    r#""1.2 - 1.9""#,
    r#""*""#,
    r#""1.x""#,
    r#""!=1.2.3""#,
    r#"">1""#,
    r#""<=1.2""#,
    r#""=1.2.3""#,
    r#""1.2""#,
    r#"">=1.2.3-0""#,
    r#""^0.0.3""#,
    r#""^0.2""#,
    r#""~>1""#,
    r#""^2.0.0-rc.0""#,
    r#""nonsense""#,
    r#""""#,
    r#""=>1 =<3""#,
];

pub(crate) const LAYOUTS: &[&str] = &[
    r#""2006-01-02""#,
    r#""2006-01-02T15:04:05Z07:00""#,
    r#""Mon, 02 Jan 2006 15:04:05 -0700""#,
    r#""January _2 06 3:04PM""#,
    r#""15h04m05.000s""#,
    r#""002 Monday .999""#,
    r#""03:04:05 pm MST Z0700 -07""#,
    r#""text""#,
    r#""""#,
];

pub(crate) const ZONES: &[&str] = &[
    r#""UTC""#,
    r#""Europe/Berlin""#,
    r#""America/New_York""#,
    r#""Asia/Kolkata""#,
    r#""Nowhere/Land""#,
    r#""""#,
    r#""Local""#,
];

pub(crate) const DURATIONS: &[&str] = &[
    r#""1h""#,
    r#""-90m""#,
    r#""1h15m30.5s""#,
    r#""36h""#,
    r#""2ms""#,
    r#""bad""#,
    r#""0""#,
    r#""10000h""#,
    r#""1d""#,
    r#""400h""#,
];

pub(crate) const TIMES: &[&str] = &[
    r#"(toDate "2006-01-02" "2024-02-29")"#,
    r#"(toDate "2006-01-02T15:04:05Z07:00" "2021-11-07T01:30:59+05:30")"#,
    r#"(toDate "2006-01-02 15:04:05.999" "1999-12-31 23:59:59.987")"#,
    r#"(toDate "02 Jan 06 15:04 MST" "03 Mar 77 04:05 EST")"#,
    r#"(toDate "2006" "nonsense")"#,
    r#"(dateModify "25h" (toDate "2006-01-02" "2023-12-31"))"#,
];

pub(crate) const URLS: &[&str] = &[
    r#""https://user:pa%20ss@example.com:8443/a/b%2Fc?q=1&r=%20#frag""#,
    r#""http://[::1]:80/x""#,
    r#""mailto:a@b.c""#,
    r#""/only/path""#,
    r#""//host/p""#,
    r#""proto://auth@host:80/path?query#fragment""#,
    r#""""#,
    r#"":bad""#,
    r#""http://a b/""#,
    r#""?q""#,
    r#""a/b:c""#,
    r#""http://h:x/""#,
];

pub(crate) const PATHS: &[&str] = &[
    r#""/a/b/c.tar.gz""#,
    r#""a/../b/./c//d""#,
    r#""""#,
    r#""/""#,
    r#""a/b/""#,
    r#""../x""#,
    r#"".hidden""#,
    r#""/../a""#,
    r#""file.""#,
];

pub(crate) const JSON: &[&str] = &[
    r#"`{"a":[1,2,{"b":null}],"c":"x","n":1.5e3}`"#,
    "`[1,\"two\",null,true]`",
    "`\"text \\u00e9 \\n\"`",
    "`12`",
    "`null`",
    "`{bad`",
    "``",
    "`{\"a\":1} x`",
    "`[1,]`",
    "`\"\\ud83d\\ude00\"`",
    "`{\"b\":{\"k\":[]},\"a\":{}}`",
];

/// Returns a format of `printf` with its verbs.
pub(crate) fn format(random: &mut Random, verbs: usize) -> String {
    const VERBS: &[&str] =
        &["v", "v", "s", "d", "q", "T", "x", "f", "g", "e", "t", "c", "U", "b", "o", "X", "#v", "+v", "z"];
    const FLAGS: &[&str] = &["", "", "", "", "-", "+", "#", " ", "0", "-0", "+0", "# "];
    const WIDTHS: &[&str] = &["", "", "", "5", "12", "3", ".2", "8.3", ".0", "1"];
    let mut text = String::from("\"");
    for _ in 0..verbs {
        let (flags, width, verb) = (random.pick(FLAGS), random.pick(WIDTHS), random.pick(VERBS));
        text.push_str(random.pick(&["", "|", " ", "é", "%%"]));
        text.push('%');
        text.push_str(flags);
        if random.chance(3) {
            text.push_str(random.pick(&["[1]", "[2]", "[9]", "*"]));
        }
        text.push_str(width);
        text.push_str(verb);
    }
    text.push('"');
    text
}
