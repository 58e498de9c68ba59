//! Documentation pages whose commands a test runs.
//!
//! Blocks marked `sh` are commands, all of a page for one shell; those marked `sh docker` need
//! Docker. A block marked `text` right after one shows the output, with `…` for parts that differ
//! from run to run (alone on a line: for any lines).

use std::fmt::Write as _;
use std::path::Path;

const DOCKER: &str = "sh docker";

/// Commands, with their output if the page shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Page and line where the block begins.
    pub place: String,
    /// Text of the block.
    pub commands: String,
    /// Output that the page shows, if any.
    pub printed: Option<String>,
    /// True if the commands need Docker.
    pub needs_docker: bool,
}

/// Returns the steps of a page with this name.
pub fn steps(name: &str, page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut open: Option<(usize, &str, String)> = None;
    let mut last = "";
    for (index, line) in page.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((index + 1, language, String::new())),
            (Some((_, _, text)), None) => _ = writeln!(text, "{line}"),
            (None, None) => {
                if !line.is_empty() {
                    last = "";
                }
            }
            (Some(_), Some(_)) => {
                let Some((line, language, text)) = open.take() else { continue };
                match (language, steps.last_mut()) {
                    ("sh" | DOCKER, _) => {
                        let needs_docker = language == DOCKER;
                        let place = format!("{name}:{line}");
                        steps.push(Step { place, commands: text, printed: None, needs_docker });
                    }
                    ("text", Some(step)) if matches!(last, "sh" | DOCKER) => step.printed = Some(text),
                    _ => {}
                }
                last = language;
            }
        }
    }
    steps
}

/// Returns a script of these steps. The output of each step goes to a file in `folder`, which
/// [`difference`] reads.
pub fn script<'a>(steps: impl IntoIterator<Item = &'a Step>, folder: &Path) -> String {
    let mut script = "set -eu\n".to_owned();
    for (index, step) in steps.into_iter().enumerate() {
        let file = folder.join(format!("printed-{index}"));
        _ = writeln!(script, "{{\n{}}} > '{}'", step.commands, file.display());
    }
    script
}

/// Describes the first step that was not reached, or whose output differs from the page.
pub fn difference<'a>(steps: impl IntoIterator<Item = &'a Step>, folder: &Path) -> Option<String> {
    steps.into_iter().enumerate().find_map(|(index, step)| {
        let place = &step.place;
        let Ok(printed) = std::fs::read_to_string(folder.join(format!("printed-{index}"))) else {
            return Some(format!("{place} was not reached"));
        };
        let shown = step.printed.as_ref().filter(|shown| !is_shown(shown, &printed))?;
        Some(format!("{place} shows\n{shown}\nbut this is printed:\n{printed}"))
    })
}

/// Reports whether a text matches the output on a page.
fn is_shown(shown: &str, text: &str) -> bool {
    let (shown, text): (Vec<&str>, Vec<&str>) = (shown.lines().collect(), text.lines().collect());
    matches(&shown, &text, &|shown| *shown == "…", &|shown, text| {
        let (shown, text): (Vec<char>, Vec<char>) = (shown.chars().collect(), text.chars().collect());
        matches(&shown, &text, &|shown| *shown == '…', &|shown, text| shown == text)
    })
}

fn matches<T>(
    pattern: &[T],
    text: &[T],
    is_any: &dyn Fn(&T) -> bool,
    is_one: &dyn Fn(&T, &T) -> bool,
) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((first, rest)) if is_any(first) => {
            (0..=text.len()).any(|skipped| matches(rest, &text[skipped..], is_any, is_one))
        }
        Some((first, rest)) => text
            .split_first()
            .is_some_and(|(next, after)| is_one(first, next) && matches(rest, after, is_any, is_one)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(line: usize, commands: &str, printed: Option<&str>) -> Step {
        let printed = printed.map(str::to_owned);
        let place = format!("p.md:{line}");
        Step { place, commands: commands.to_owned(), printed, needs_docker: false }
    }

    #[test]
    fn blocks_are_found() {
        let page = "```sh\na\n```\n\n```text\nb …\n```\nwords\n```text\nnot of a command\n```\n```yaml\nc: d\n```\n```sh\ne\n```\nf\n\
                    ```text\ng\n```\n```sh docker\nh\n```\n```text\ni\n```\n";
        let docker = Step { needs_docker: true, ..step(22, "h\n", Some("i\n")) };
        assert_eq!(steps("p.md", page), [step(1, "a\n", Some("b …\n")), step(15, "e\n", None), docker]);
    }

    #[test]
    fn what_is_printed_is_compared() {
        for (shown, text, is_same) in [
            ("a\nb", "a\nb\n", true),
            ("a …c", "a bc", true),
            ("a …c", "a bd", false),
            ("…\nz", "a\nb\nz", true),
            ("…\nz", "a\nb", false),
            ("…", "", true),
            ("a", "a\nb", false),
        ] {
            assert_eq!(is_shown(shown, text), is_same, "{shown:?} {text:?}");
        }
        let folder = tempfile::tempdir().unwrap();
        let steps = [step(1, "echo a\n", Some("a\n")), step(5, "echo b\n", Some("c\n")), step(9, "", None)];
        let script = script(&steps[..2], folder.path());
        assert!(std::process::Command::new("sh").args(["-c", &script]).status().unwrap().success());
        assert_eq!(difference(&steps[..1], folder.path()), None);
        let different = difference(&steps, folder.path()).unwrap();
        assert_eq!(different, "p.md:5 shows\nc\n\nbut this is printed:\nb\n");
        let unreached = [steps[0].clone(), step(5, "", None), steps[2].clone()];
        assert_eq!(difference(&unreached, folder.path()).unwrap(), "p.md:9 was not reached");
    }
}
