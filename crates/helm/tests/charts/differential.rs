//! Comparison of our engine with Helm on generated charts.

use std::path::Path;

use groundwork_testkit::{Server, find, servers_or_skip};

use crate::case::{Answer, Case, originals};
use crate::generator::Generator;
use crate::random::Random;

/// Cases of a usual run, which takes seconds.
const CASES: usize = 1_500;
const SEED: u64 = 1;
/// Cases for one start of the Helm program.
const BATCH: usize = 500;
/// Differences that are printed.
const SHOWN: usize = 20;

#[test]
fn generated_charts_agree_with_the_original() {
    if !servers_or_skip(&[Server::Helm]) {
        return;
    }
    let program = find(Server::Helm).expect("it was just found").path;
    let number = |name: &str| {
        std::env::var(name).ok().map(|text| text.parse::<u64>().expect("the variable holds a number"))
    };
    if let Ok(file) = std::env::var("GROUNDWORK_HELM_FILE") {
        let text = std::fs::read_to_string(file).expect("the file is readable");
        let cases: Vec<Case> =
            text.lines().map(|line| serde_json::from_str(line).expect("a line is a case")).collect();
        let mut report = Report::default();
        cases.chunks(BATCH).for_each(|batch| report.compare(&program, batch));
        return report.check();
    }
    let count = number("GROUNDWORK_HELM_CASES").map_or(CASES, |count| count as usize);
    let mut generator = Generator::new(number("GROUNDWORK_HELM_SEED").unwrap_or(SEED));
    let mut report = Report::default();
    while report.cases < count {
        let batch: Vec<Case> = (report.cases..count).take(BATCH).map(|at| generator.case(at)).collect();
        report.compare(&program, &batch);
    }
    report.check();
    assert!(report.succeeded * 2 >= report.cases, "{} of {} succeed", report.succeeded, report.cases);
}

/// Property: the same chart gives the same bytes in each render and with any order of its files
/// (`helm.md` 16, item 4).
#[test]
fn renderings_are_the_same_each_time() {
    let mut generator = Generator::new(SEED);
    let mut random = Random::new(SEED);
    let mut succeeded = 0;
    for at in 0..300 {
        let mut case = generator.case(at);
        for from in ["", "archive", "files"] {
            case.from = from.to_owned();
            let expected = case.ours();
            succeeded += usize::from(expected.succeeded());
            let mut files = case.files();
            for place in (1..files.len()).rev() {
                files.swap(place, random.below(place + 1));
            }
            let got = case.ours_from(files);
            assert!(got == expected, "{} from {from:?}:\n{expected:?}\n{got:?}", case.name);
        }
    }
    assert!(succeeded > 300, "{succeeded} succeed");
}

/// Results of the cases that have run.
#[derive(Default)]
struct Report {
    cases: usize,
    succeeded: usize,
    differences: usize,
    text: String,
}

impl Report {
    fn compare(&mut self, program: &Path, cases: &[Case]) {
        for (case, expected) in cases.iter().zip(originals(program, cases)) {
            self.cases += 1;
            self.succeeded += usize::from(expected.succeeded());
            let got = case.ours();
            if expected.agrees(&got) || deviates(&expected) {
                continue;
            }
            self.differences += 1;
            if self.differences <= SHOWN {
                let json = serde_json::to_string(case).expect("a case is JSON");
                let text = format!("\n  original: {expected:?}\n      ours: {got:?}\n  case: {json}\n");
                self.text.push_str(&text);
            }
        }
    }

    fn check(&self) {
        eprintln!("{} cases, {} of them succeed", self.cases, self.succeeded);
        assert!(self.differences == 0, "{} of {} cases differ:\n{}", self.differences, self.cases, self.text);
    }
}

/// Reports known deviations: values of nested charts that Helm looks for in the wrong place, and
/// addresses of pointers (`helm.md` 15, R4 and R6).
fn deviates(expected: &Answer) -> bool {
    match expected {
        Answer::Error(failure) => failure.message.starts_with("type mismatch on "),
        Answer::Output(output) => output.notes.contains("[0x") || output.manifest.contains("[0x"),
    }
}
