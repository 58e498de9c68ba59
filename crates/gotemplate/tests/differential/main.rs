//! Comparison of our engine with Go: generated templates with data, by output, success, and the
//! texts of errors.
//!
//! `GROUNDWORK_TEMPLATE_SEED` and `GROUNDWORK_TEMPLATE_CASES` choose another and a longer run,
//! `GROUNDWORK_TEMPLATE_FILE` a file with one case per line instead of generated ones.

mod case;
mod data;
mod expressions;
mod generator;
mod literals;
mod random;
mod recipes;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use case::{Answer, Case, Ours, originals};
use generator::Generator;
use groundwork_gotemplate::Functions;
use groundwork_testkit::{Server, find, servers_or_skip};
use regex::Regex;

/// Cases of a usual run, which takes seconds.
const CASES: usize = 5_500;
const SEED: u64 = 1;
/// Cases for one start of the Go program.
const BATCH: usize = 2_000;
/// Time above which a case is reported as slow.
const SLOW: Duration = Duration::from_secs(1);
/// Differences that are printed.
const SHOWN: usize = 40;
/// Occurrences that each function of sprig must reach in a run.
const OCCURRENCES: usize = 20;

#[test]
fn generated_templates_agree_with_the_original() {
    if !servers_or_skip(&[Server::GoTemplate]) {
        return;
    }
    let program = find(Server::GoTemplate).expect("it was just found").path;
    let number = |name: &str| {
        std::env::var(name).ok().map(|text| text.parse::<u64>().expect("the variable holds a number"))
    };
    if let Ok(file) = std::env::var("GROUNDWORK_TEMPLATE_FILE") {
        let text = std::fs::read_to_string(file).expect("the file is readable");
        let cases: Vec<Case> =
            text.lines().map(|line| serde_json::from_str(line).expect("a line is a case")).collect();
        let mut report = Report::default();
        cases.chunks(BATCH).for_each(|batch| report.compare(&program, batch));
        return report.check();
    }
    let count = number("GROUNDWORK_TEMPLATE_CASES").map_or(CASES, |count| count as usize);
    let mut generator = Generator::new(number("GROUNDWORK_TEMPLATE_SEED").unwrap_or(SEED));
    let mut report = Report::default();
    while report.cases < count {
        let batch: Vec<Case> = (report.cases..count).take(BATCH).map(|at| generator.case(at)).collect();
        report.compare(&program, &batch);
    }
    report.check();
    report.check_variety();
}

/// Results of the cases that have run.
#[derive(Default)]
struct Report {
    cases: usize,
    succeeded: usize,
    differences: usize,
    text: String,
    /// Number of cases that name a function.
    occurrences: BTreeMap<String, usize>,
}

impl Report {
    fn compare(&mut self, program: &Path, cases: &[Case]) {
        let ours = Ours::new();
        let expected = originals(program, cases);
        for (case, expected) in cases.iter().zip(expected) {
            self.cases += 1;
            self.succeeded += usize::from(expected.succeeded());
            self.count(&case.template);
            let start = Instant::now();
            let got = ours.answer(case);
            if start.elapsed() > SLOW {
                let json = serde_json::to_string(case).expect("a case is JSON");
                eprintln!("{} s: {json}", start.elapsed().as_secs());
            }
            if !deviates(case) && !agree(&expected, &got) {
                self.differences += 1;
                if self.differences <= SHOWN {
                    let json = serde_json::to_string(case).expect("a case is JSON");
                    let (source, expected, got) = (&case.template, text(&expected), text(&got));
                    writeln!(
                        self.text,
                        "\n{source}\n  original: {expected}\n      ours: {got}\n  case: {json}"
                    )
                    .expect("writing to a string cannot fail");
                }
            }
        }
    }

    fn count(&mut self, template: &str) {
        let mut words: Vec<&str> = template.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').collect();
        words.sort_unstable();
        words.dedup();
        for word in words {
            *self.occurrences.entry(word.to_owned()).or_default() += 1;
        }
    }

    fn check(&self) {
        eprintln!("{} cases, {} of them succeed", self.cases, self.succeeded);
        assert!(self.differences == 0, "{} of {} cases differ:\n{}", self.differences, self.cases, self.text);
    }

    /// Fails if too many cases end in errors, or if functions are left out: such a run would show
    /// little.
    fn check_variety(&self) {
        assert!(self.succeeded * 10 >= self.cases * 7, "{} of {} succeed", self.succeeded, self.cases);
        let functions = Functions::sprig();
        let rare: Vec<&str> = functions
            .names()
            .filter(|name| self.occurrences.get(*name).is_none_or(|count| *count < OCCURRENCES))
            .collect();
        assert!(rare.is_empty(), "in fewer than {OCCURRENCES} cases: {rare:?}");
    }
}

fn text(answer: &Answer) -> String {
    match answer {
        Answer::Output { output } => format!("{output:?}"),
        Answer::Failure { error, phase } => format!("{phase} error {error:?}"),
    }
}

/// Reports known deviations: Go prints copies of versions as `0.0.0` (`gotemplate.md` 12.8), and
/// invalid UTF-8 in JSON changes lengths.
fn deviates(case: &Case) -> bool {
    let has = |word: &str| case.template.contains(word);
    (has("eepCopy") && has("semver")) || (has(r"\xff") && has("Json"))
}

fn agree(expected: &Answer, got: &Answer) -> bool {
    let (expected, got) = (text(expected), text(got));
    // Depending on its version, Go writes invalid UTF-8 into JSON as U+FFFD or as its escape
    // (`gotemplate.md` 12.6).
    let same_json = |answer: &str| answer.replace(r"\\ufffd", "\u{fffd}");
    same_json(&expected) == same_json(&got) || differs_each_time(&expected) || hides_address(&got)
}

/// Reports whether Go's answer contains a new key or certificate, or a pointer.
fn differs_each_time(expected: &str) -> bool {
    static NEW: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new("(?i)-----BEGIN|0x[0-9a-f]{9,}|time.{0,2}location=").expect("it is valid")
    });
    NEW.is_match(expected)
}

/// Reports whether our answer has the text of a time or version where Go prints the fields,
/// addresses among them.
fn hides_address(got: &str) -> bool {
    static HIDDEN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i)%\W*\w\W*(time\W*time|\*?semver\W*version)\W*=|time\W*location")
            .expect("it is valid")
    });
    HIDDEN.is_match(got)
}
